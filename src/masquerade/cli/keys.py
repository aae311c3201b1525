"""``masquerade keys``: a participant's keys, by which the others know it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import StateOption

if TYPE_CHECKING:
    from masquerade.rotating import Needs
    from masquerade_core.identity import PublicKeys

__all__ = ["app"]

app = typer.Typer(help="Make a participant's keys, replace them, or show their public half.")

_Passphrase = Annotated[
    bool,
    typer.Option(
        "--passphrase",
        help="Encrypt the file under a new passphrase. You are asked for it; a service reads it from the file that the "
        "variable MASQUERADE_PASSPHRASE_FILE names.",
    ),
]


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The file for the secret keys. Only you will be able to read it.")],
    passphrase: _Passphrase = False,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Make a participant's keys. The public half goes to stdout."""
    from masquerade_host.store.locked_keys import new_passphrase
    from masquerade_host.store.new_keys import make_keys

    del output_format
    keys = make_keys(file, new_passphrase(file) if passphrase else None)
    told = f"Your secret keys are in {file}: keep it, and show it to nobody."
    if passphrase:
        told += " Nobody can open it without the passphrase, so keep that as well, in another place."
    return _outcome(keys.public, file, told)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A file that 'masquerade keys new' made.")],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Show the public half of a participant's keys, and its fingerprint."""
    from masquerade_host.store.keyfiles import load_keys

    del output_format
    return _outcome(load_keys(file).public, file, f"The public half of {file}:")


@app.command()
def rotate(
    file: Annotated[Path, typer.Argument(help="A file that 'masquerade keys new' made.")],
    passphrase: _Passphrase = False,
    state: StateOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Replace keys with new ones, and list the studies that still need the old ones. Both stay, and so does the budget.

    Where a study names the old keys, your process finds them beside the new ones.
    """
    from dataclasses import asdict, replace

    from rich.text import Text

    from masquerade.rotating import Needs, needs_of
    from masquerade_core.errors import MasqueradeError
    from masquerade_host.store.locked_keys import new_passphrase
    from masquerade_host.store.new_keys import rotate_keys

    del output_format
    rotated = rotate_keys(file, new_passphrase if passphrase else None)
    told = f"New secret keys are in {file}. The old ones, {rotated.old.fingerprint()}, are in {rotated.kept}."
    outcome = _outcome(rotated.keys.public, file, told)
    try:
        needs = needs_of(file, rotated.old, state)
    except MasqueradeError as error:  # the keys are new all the same
        needs, lines = Needs((), 0), [f"Which studies need the old keys cannot be told: {error.message}."]
    else:
        lines = _needing(needs)
    return replace(
        outcome,
        shown=(*outcome.shown, *map(Text, lines)),
        data={
            **outcome.data,
            "old_file": str(rotated.kept),
            "old_public_key": str(rotated.old),
            "still_needed_by": [asdict(need) for need in needs.studies],
            "finished": needs.finished,
        },
        hint="tell every coordinator you work with, and send the line that begins with mq1. "
        f"Keep {rotated.kept} for studies that name the old keys: your process finds it there. If somebody may "
        "have copied the old keys, run no such study, and delete that file",
    )


def _needing(needs: "Needs") -> list[str]:
    """Return what needs the old keys, in lines."""
    from masquerade_core.words import counted, printable

    if needs.studies:
        lines = [f"{counted(len(needs.studies), 'study needs', 'studies need')} the old keys:"]
        lines += [f"  {printable(need.study)}, as {need.participant}: {printable(need.why)}" for need in needs.studies]
    else:
        lines = ["No study that this machine knows of needs the old keys."]
    if needs.finished:
        over = counted(needs.finished, "finished study", "finished studies")
        lines.append(f"The results of {over} were signed with the old keys. They stay valid, and need no key file.")
    return lines


def _outcome(public: "PublicKeys", file: Path, message: str) -> Outcome:
    from rich.text import Text

    return Outcome(
        message,
        {"file": str(file), "public_key": str(public), "fingerprint": public.fingerprint()},
        hint="send the line that begins with mq1 to the study's coordinator, and compare the fingerprint by telephone",
        shown=(Text(message), Text.assemble("fingerprint  ", (public.fingerprint(), "bold"))),
        stdout=f"{public}\n",
    )
