"""``masquerade join``: a site takes part with one command and the line that the coordinator sent."""

import os
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import ProxyOption, StateOption
from masquerade_party.options import AcceptOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from masquerade.joining import Answers, Joining
    from masquerade_core.study import Study

__all__ = ["join"]

_BETWEEN = 1.0  # seconds between two questions to the lobby


def join(
    line: Annotated[str, typer.Argument(metavar="LINE", help="The invitation: the line that begins with mqj1.")],
    data: Annotated[str, typer.Option(help="Your records: a file, folder or query.", show_default=False)],
    key: Annotated[
        Path | None,
        typer.Option("--key", help="Your secret keys. NAME.key if not given; made if missing.", show_default=False),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="Where to write the study. Its name and .toml if not given.", show_default=False),
    ] = None,
    state: StateOption = None,
    proxy: ProxyOption = None,
    accept: AcceptOption = None,
    code: Annotated[
        str | None, typer.Option(help="The code that you heard; then it is not asked.", show_default=False)
    ] = None,
    heard: Annotated[
        list[str] | None,
        typer.Option(
            help="With --code: a site that read it to you, or all. Give it once for each.", show_default=False
        ),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option(
            "--unverified", help="Compare no code: Charlie alone names the parties, and the statement says so."
        ),
    ] = False,
    service: Annotated[
        bool,
        typer.Option(
            "--service",
            help="In the end, run the party as a service of this user, which a reboot starts again (systemd).",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            help="The epsilon that all studies together may take, where this machine has no budget yet; then it is not "
            "asked.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Your name, for the record. If not given, your user name.", show_default=False)
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="The fingerprint of the study that you agree to; then no yes is asked.", show_default=False),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Join a study by an invitation: keys, checks, the code, the budget, your yes, and then the run.

    Three things are asked: the code that you heard from the other sites, a budget if there is none, and a yes.
    """
    from masquerade.joining import Answers, Joining, keys_at
    from masquerade.lobby.invitation import Invitation
    from masquerade.lobby.links import Caller
    from masquerade_core.data.files import data_at
    from masquerade_core.errors import BadInput
    from masquerade_host.store.state import state_folder
    from masquerade_host.transport.proxy import Proxy

    del output_format
    if (code is None) != (not heard) or (unverified and code is not None):
        raise BadInput(
            "--code says what was heard, and --heard from whom; --unverified is without both",
            "give --code with --heard, or --unverified, or none of the three",
        )
    invitation = Invitation.parse(line)
    data_at(data)  # before anything is sent
    file = key or Path(f"{invitation.name}.key")
    keys, new = keys_at(file)
    folder = state_folder(state)
    told = f"new keys in {file}" if new else f"the keys in {file}"
    _say(f"You are {invitation.name}, with {told}. Charlie listens at {invitation.address}.")
    answers = Answers(code, tuple(heard or ()), unverified, budget, fingerprint, by)
    with Caller(invitation, keys, Proxy.parse(proxy) if proxy is not None else None) as caller:
        joining = Joining(invitation, keys, folder, caller, _say, _ask)

        def pause() -> None:
            time.sleep(_BETWEEN)

        loaded = joining.gather(pause)
        path = _written(study or Path(f"{loaded.study.name}.toml"), joining.guest.text)
        paths = _Paths(path, data, file, state, tuple(accept or ()))
        _agree(joining, loaded, answers, paths)
        joining.guest.ready = True
        joining.wait(lambda: joining.guest.all_ready, lambda: "waiting for the others' yes", pause)
    words = paths.words()
    if proxy is not None:
        os.environ["MASQUERADE_PROXY"] = proxy  # it may have a password, which stands on no command line
    if service:
        from masquerade.user_service import install

        unit = install(loaded, words, (Path("runs") / f"{loaded.study.name}-{invitation.name}").absolute())
        return Outcome(
            f"{invitation.name} takes part as the service {unit.name}",
            {"unit": str(unit)},
            hint=f"watch it: journalctl --user --unit {unit.name}; so that it runs while nobody is logged in: loginctl "
            "enable-linger",
        )
    _say(f"starting: masquerade {' '.join(words)}")
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "masquerade", *words])  # noqa: S606
    raise AssertionError  # os.execv does not return


class _Paths:
    """Where everything is that the run needs."""

    def __init__(self, study: Path, data: str, key: Path, state: Path | None, accept: tuple[str, ...]) -> None:
        self.study, self.data, self.key, self.state, self.accept = study, data, key, state, accept

    def words(self) -> list[str]:
        """Return the command that takes part."""
        words = ["party", str(self.study), "--approved", "--key", str(self.key), "--data", self.data]
        return words + (["--state", str(self.state)] if self.state is not None else [])


def _agree(joining: "Joining", study: "Study", answers: "Answers", paths: _Paths) -> None:
    """Ask for what has to be asked, and write the approval down; nothing, where it stands already."""
    from masquerade.joining import in_ten_lines, looked_at
    from masquerade_core.errors import RefusedLocally
    from masquerade_host.store.permissions import find_approval
    from masquerade_host.store.state import state_folder
    from masquerade_party import approve
    from masquerade_party._approve import login_name

    folder, me = state_folder(paths.state), study.name_of(joining.keys)
    if (given := find_approval(folder, study, me)) is not None:
        _say(f"{given.who} approved this study at {given.when}.")
        return
    found = looked_at(paths.study, paths.data, paths.key, folder, paths.accept)  # before anybody is called
    compared = joining.compare(answers)
    joining.budget(study, answers, answers.by or login_name())
    _say("\n" + "\n".join(in_ten_lines(study, me, paths.study, found, compared, folder)) + "\n")
    if answers.fingerprint is None and joining.ask("Take part? Type yes to agree: ").strip().lower() != "yes":
        raise RefusedLocally("you did not approve this study, so no record was used", "type yes to take part")
    approve(
        paths.study,
        key_path=paths.key,
        data_path=paths.data,
        state=paths.state,
        by=answers.by,
        fingerprint=answers.fingerprint or study.fingerprint(),
        accept=paths.accept,
        tell=lambda _words: None,
        compared=compared,
    )
    _say("approved, and the budget is reserved")


def _written(path: Path, text: str) -> Path:
    """Write the study, unless it is there already."""
    from masquerade_core.errors import BadInput

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.read_text(encoding="utf-8") != text:
            raise BadInput(
                f"{path} exists already and is another study, and a study is never overwritten", "choose with --study"
            ) from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", "choose another file with --study") from error
    return path


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _ask(question: str, meanwhile: "Callable[[], object]") -> str:
    from masquerade_core.errors import RefusedLocally

    if not sys.stdin.isatty():
        raise RefusedLocally(
            "nobody can be asked: standard input is not a terminal",
            "start this command at a terminal, or give --code with --heard, --budget and --fingerprint",
        )
    sys.stderr.write(question)
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], _BETWEEN)[0]:
        meanwhile()
    typed = sys.stdin.readline()
    if not typed:
        raise KeyboardInterrupt
    return typed
