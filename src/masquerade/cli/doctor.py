"""``masquerade doctor``: checks whether this machine is ready for a study."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import ProxyOption, StudyArgument
from masquerade_party.options import AcceptOption

__all__ = ["doctor"]

_STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}


def doctor(
    study: StudyArgument,
    key: Annotated[Path | None, typer.Option(help="Your secret keys.")] = None,
    data: Annotated[str | None, typer.Option(help="Your records: a file, folder or query.")] = None,
    accept: AcceptOption = None,
    state: Annotated[Path | None, typer.Option(help="The folder with your privacy budget.", show_default=False)] = None,
    proxy: ProxyOption = None,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen",
            help="For the coordinator, with Charlie's key: listen as Charlie will, until every party has tried the "
            "port with 'masquerade doctor'.",
        ),
    ] = False,
    at: Annotated[
        str | None, typer.Option(help="With --listen: tcp://ADDRESS:PORT, if it is not the study's own address.")
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Check the study, your keys and records, the network and this machine's speed before a run.

    No record is sent. With --key, a party's connection proves its key to Charlie's server.
    """
    if listen:
        return _listen(study, key, at)
    from rich.table import Table
    from rich.text import Text

    from masquerade.doctor import Verdict, examine
    from masquerade_host.store.state import state_folder
    from masquerade_host.transport.proxy import Proxy

    del output_format
    way_out = None if proxy is None else Proxy.parse(proxy)
    checks = list(examine(study, key=key, data=data, accept=accept or (), state=state_folder(state), proxy=way_out))
    table = Table.grid(padding=(0, 2))
    for check in checks:
        words = Text(check.message)
        if check.hint:
            words.append(f"\n{check.hint}", style="dim")
        table.add_row(Text(check.verdict, style=_STYLES[check.verdict]), check.name, words)
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    only_budget = [check.name for check in failed] == ["budget"]
    return Outcome(
        f"{len(failed)} of {len(checks)} checks failed" if failed else "ready",
        {"checks": [check.to_json() for check in checks]},
        shown=(table,),
        error_code=(only_budget and "budget_exceeded") or ("bad_input" if failed else None),
        exit_code=7 if only_budget else 4 if failed else 0,
    )


def _listen(study_file: Path, key: Path | None, at: str | None) -> Outcome:
    """Be Charlie's listener, for sites that try their way to it."""
    from masquerade_core.errors import BadInput
    from masquerade_core.study_files import load_study
    from masquerade_core.words import listed
    from masquerade_host.process.process import harden, stoppable
    from masquerade_host.store.kept_keys import load_keys_for
    from masquerade_host.transport.rehearsal import rehearse

    if key is None:
        raise BadInput("--listen needs Charlie's key, which sites expect there", "add --key")
    harden()
    with stoppable():
        study, _ = load_study(study_file)
        there = rehearse(study, load_keys_for(study, key)[0], lambda line: typer.echo(line, err=True), address=at)
    return Outcome(f"{listed(there)} reached this port and proved their keys", {"parties": list(there)})
