"""``masquerade site``: a machine that serves many studies, and what it is doing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from masquerade_party.serving.standing import Standing, Study

__all__ = ["app"]

app = typer.Typer(help="Serve many studies: run each study in an inbox, once it is allowed, approved and paid for.")

_Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", help="The folder with site.toml. The folder of this shell if not given.", show_default=False
    ),
]


@app.callback(invoke_without_command=True)
def site(
    context: typer.Context,
    folder: _Folder = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome | None:
    """Serve many studies: run each study in an inbox, once it is allowed, approved and paid for.

    It goes on until SIGTERM or Ctrl-C. Then runs stop as in a power cut, and continue at the next start.
    """
    del output_format
    if context.invoked_subcommand is not None:
        return None
    from masquerade_host.process.process import harden
    from masquerade_party.serving.service import serve

    harden()
    serve(folder or Path())
    return Outcome("the site was stopped; its runs go on when it is started again")


@app.command()
def status(context: typer.Context, folder: _Folder = None, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Show the studies that run, wait, were refused or are done, with the reasons."""
    from masquerade_party.serving.standing import standing_of

    del output_format
    above = context.parent.params.get("folder") if context.parent is not None else None
    found = standing_of(folder or above or Path())
    served = "is served" if found.serving else "is not served now"
    return Outcome(
        f"the site {found.root} {served}",
        {
            "folder": str(found.root),
            "serving": found.serving,
            "data": list(found.data),
            "studies": [_json(study) for study in found.studies],
        },
        hint="" if found.serving else f"start it: masquerade site --folder {found.root}",
        shown=_shown(found, served),
    )


def _json(study: "Study") -> dict[str, Any]:
    item = study.item
    where = {"file": f"{item.place}/{item.data}/{item.name}.toml", "place": item.place.value, "data": item.data}
    waiting = {"waited_for": list(study.doing.late), "waited_seconds": study.doing.seconds}
    return {
        **where,
        **study.record.model_dump(mode="json", exclude={"schema_version"}),
        "progress": study.doing.progress,
        **waiting,
    }


def _doing(study: "Study") -> str:
    from masquerade_core.words import listed
    from masquerade_host.process.meter import in_words

    doing = study.doing
    waits = f"waiting for {listed(doing.late)} for {in_words(doing.seconds)}" if doing.late else ""
    return "; ".join(filter(None, (doing.progress, waits)))


def _shown(found: "Standing", served: str) -> "tuple[Any, ...]":
    from rich.text import Text

    from masquerade_core.words import printable

    lines = [f"the site {found.root} {served}"]
    for data in found.data:
        mine = [study for study in found.studies if study.item.data == data]
        lines.append(f"\n{data}" + ("" if mine else ": no studies"))
        for study in mine:
            item, record = study.item, study.record
            since = f"  since {record.changed}" if record.changed else ""
            lines.append(f"  {record.state.value:<8} {printable(item.name)}{since}")
            told = [_doing(study), record.message, f"what to do: {record.hint}" * bool(record.hint)]
            told.append(f"the results are in {record.results}" * (record.state.value == "done"))
            lines += [f"           {line}" for line in told if line]
    return (Text("\n".join(lines)),)
