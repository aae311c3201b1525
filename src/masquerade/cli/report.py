"""``masquerade report``: what a run did, as one page for a board, and for the files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

__all__ = ["AuditOption", "PictureOption", "audit_of", "report", "written"]

AuditOption = Annotated[
    Path | None,
    typer.Option("--audit", help="The output of 'masquerade audit STUDY --format json'.", show_default=False),
]
PictureOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--picture",
        help="An SVG or PNG file to show in the page, such as that of 'audit --plot'. Give it once for each.",
        show_default=False,
    ),
]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The HTML file. RUN/report.html if not given.", show_default=False),
    ] = None,
    audit: AuditOption = None,
    picture: PictureOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write the report of a finished run as one HTML file: page one for a board, the rest for reference."""
    from masquerade.pages import report_page, require_jinja
    from masquerade.pages.picture import read_picture
    from masquerade.pages.reading import read_run

    del output_format
    require_jinja()
    read = read_run(run)
    text = report_page(
        read, audit=audit_of(audit, read.result), pictures=[read_picture(path) for path in picture or ()]
    )
    path = out or run / "report.html"
    written(path, text)
    state = "verified" if read.verified else "not verified"
    return Outcome(
        f"{path}: the report of {read.result['study']}, {read.watermark or state}",
        {
            "path": str(path),
            "run_id": read.result["run_id"],
            "verified": read.verified,
            "problems": list(read.problems),
        },
        hint=f"open {path} in a browser, and print it from there",
    )


def written(path: Path, text: str) -> None:
    """Write a page to a file.

    Raises
    ------
    BadInput
        Nothing can be written there.
    """
    from masquerade_core.errors import BadInput

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", "give another file with --out") from error


def audit_of(path: Path | None, study: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read what an audit of a study printed as JSON.

    Parameters
    ----------
    path : Path or None
    study : mapping
        What the audit must be of: the fields ``study``, ``protocol``, ``epsilon`` and ``delta`` of a result.

    Raises
    ------
    BadInput
        It is something else, or of another study.
    """
    from masquerade.pages.reading import read_json
    from masquerade_core.errors import BadInput

    if path is None:
        return None
    hint = "give what 'masquerade audit STUDY --format json' printed of this study"
    found = read_json(path, hint)
    data = found.get("data", found)
    if not isinstance(data, dict) or not {"bound", "unit", "runs"} <= set(data):
        raise BadInput(f"{path} is not what an audit of one study printed", hint)
    for field in ("study", "protocol", "epsilon", "delta"):
        if data.get(field) != study[field]:
            raise BadInput(f"{path} is of another study: its {field} is {data.get(field)!r}", hint)
    return data
