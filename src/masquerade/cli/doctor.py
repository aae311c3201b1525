"""``masquerade doctor``: checks whether this machine is ready for a study."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade.cli.study import StudyArgument

__all__ = ["doctor"]

_STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}


def doctor(
    study: StudyArgument,
    key: Annotated[Path | None, typer.Option(help="Your secret keys.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your records (CSV or Parquet).")] = None,
    state: Annotated[Path | None, typer.Option(help="The folder with your privacy budget.", show_default=False)] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Check the study, your keys and records, the network and this machine's speed before a run. Nothing is sent."""
    from rich.table import Table
    from rich.text import Text

    from masquerade.doctor import Verdict, examine
    from masquerade_host.state import state_folder

    del output_format
    checks = list(examine(study, key=key, data=data, state=state_folder(state)))
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
