"""``masquerade data``: look at a file of records before the day, and write a corrected copy by public rules."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_core.words import counted, listed
from masquerade_host.process.options import StudyArgument
from masquerade_party.options import AcceptOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from masquerade.looking import Looked
    from masquerade_core.data.examining import Examined
    from masquerade_core.data.file_faults import Fault
    from masquerade_core.study import Study

__all__ = ["app"]

app = typer.Typer(help="Look at records, check them against a study, and write a corrected copy.")

_Records = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Records: CSV, Parquet, a folder, or a query in quotes, as for 'party --data'."
    ),
]


@app.command()
def look(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Records: CSV in any usual form, or Parquet.")],
    label: Annotated[
        str | None,
        typer.Option(
            help="The column to predict. COLUMN:VALUE,VALUE names its values, and the corrected copy has the records "
            "with these alone.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write a corrected copy here, which only you can read: CSV in UTF-8, commas between cells, points "
            "before decimals. If not given, a terminal asks.",
            show_default=False,
        ),
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help="Write the columns here as blocks of a study, for 'study new --features-from'. No bound and no "
            "level in it was read from the records: a question mark stands there.",
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Look at a table before there is a study: how it is written, and how each column would be read.

    What it says is for your screen alone, for all of it follows from the records.
    """
    from masquerade.guessing import copy_command
    from masquerade.looking import look as look_at
    from masquerade.looking import write_draft, write_mended

    found = look_at(file, label)
    refused = found.refused
    if refused is None and out is None and found.mends and output_format is Format.TEXT and sys.stdin.isatty():
        out = _asked(file, found.mends)
    asked = f" --label {shlex.quote(label)}" if label else " --label COLUMN"
    said, hint = f"{file.name} needs no correction to be read", ""
    if found.mends:
        said = f"a study does not read {file.name} as it is: {listed(list(found.mends))}"
        hint = f"write a corrected copy: {copy_command(file, label or '')}"
    if refused is not None:
        said, hint = f"{file.name}: {refused.message}", refused.hint or ""
    elif out is not None:
        records = write_mended(found, out)
        said = f"{out} is the corrected copy, of {counted(records, 'record')}"
        hint = f"draft a study's columns: masquerade data look {shlex.quote(str(out))}{asked} --draft columns.toml"
    elif draft is None and not hint:
        hint = f"draft a study's columns: masquerade data look {shlex.quote(str(file))}{asked} --draft columns.toml"
    if draft is not None and refused is None:
        write_draft(found, draft)
        said += f"; {draft} has its columns, with a question mark wherever somebody has to say what is public"
        hint = hint or (
            "fill the question marks in, then: masquerade study new --output study.toml --features-from "
            f"{shlex.quote(str(draft))}"
        )
    data: dict[str, Any] = {
        "file": found.source,
        "records": found.records,
        "form": list(found.form),
        "mends": list(found.mends),
        "columns": [
            {"name": c.name, "kind": c.kind, "rule": c.rule, "missing": c.missing, "notes": list(c.notes)}
            for c in found.columns
        ],
        "draft": found.draft,
    }
    if refused is not None:
        return Outcome(said, data, hint, _looked_shown(found), error_code="bad_input", exit_code=4)
    return Outcome(said, data, hint, [*_looked_shown(found), said])


def _asked(file: Path, mends: "Sequence[str]") -> Path | None:
    """Ask whether a corrected copy is to be written; return where, or None."""
    out = file.with_name(f"{file.name.partition('.')[0]}-mended.csv")
    sys.stderr.write(f"A study does not read {file.name} as it is: {listed(list(mends))}.\n")
    sys.stderr.write(f"Write a corrected copy to {out}? Type yes: ")
    sys.stderr.flush()
    return out if sys.stdin.readline().strip().lower() == "yes" else None


def _looked_shown(found: "Looked") -> "list[Any]":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("column", "seems to be", "missing", "a study reads it"):
        table.add_column(name, justify="right" if name == "missing" else "left", overflow="fold")
    for column in found.columns:
        share = f"{100 * column.missing / found.records:.1f} %" if column.missing else ""
        words = "; ".join((column.rule, *column.notes))
        table.add_row(Text(column.name), column.kind, share, Text(words))
    head = f"{found.source}: {counted(found.records, 'record')}, {listed(list(found.form))}"
    private = "All of this was read from your records: keep it on this screen."
    return [head, table, private]


@app.command()
def check(
    study: StudyArgument, file: _Records, accept: AcceptOption = None, output_format: FormatOption = Format.TEXT
) -> Outcome:
    """List everything that a study refuses or repairs in a file, and what looks like a mistake. No cell is shown.

    Faults are counted by column and kind, with the first three lines of each. The exit code is 4 if the file cannot be
    used, or if something in it looks like a mistake and is not accepted.
    """
    from masquerade_core.data.examining import examine
    from masquerade_core.data.file_faults import CLEAN, with_names
    from masquerade_core.study_files import load_study
    from masquerade_protocols import entry_of

    del output_format
    loaded, _ = load_study(study, in_memory=True)
    counts = entry_of(loaded).records.grid_of is not None
    found = examine(file, loaded, counts=counts)
    size = _size(found, loaded)
    doubtful = found.doubtful(accept or ())
    doubted = {doubt.says for doubt in doubtful.doubts} if doubtful else set()
    repaired = [fault for fault in found.repaired if counts or fault.row(found.unit) not in doubted]
    rows = [_repaired(fault, loaded, found, counts=counts) for fault in repaired]
    if not any(doubt.kind == "one_class" for doubt in found.doubts):
        rows += [f"no record has the label {value!r}, which is allowed" for value in found.unseen]
    data: dict[str, Any] = {
        "file": found.source,
        "unit": found.unit,
        "rule": "count" if counts else loaded.study.out_of_bounds,
        "signs": [{"name": sign.name, "says": sign.says, "hint": sign.hint} for sign in found.signs],
        "faults": [fault.to_json() for fault in found.faults],
        "size": size or "fits",
        "unseen": list(found.unseen),
        "doubts": [doubt.to_json() for doubt in found.doubts],
    }
    refused = found.refused
    if refused is not None or size:
        said = [part for part in (refused and refused.message, size and f"{found.source} {size}") if part]
        hints = [part for part in (refused and refused.all_hints, size and _SIZE) if part]
        if refused is not None and refused.mends:
            hints.append(f"'{CLEAN}' mends what it can")
        if refused is not None and refused.renames:
            hints.append(refused.renames)
        hint = with_names("; ".join(hints), study, file)
        return Outcome("\n".join(said), data, hint, rows, error_code="bad_input", exit_code=4)
    if doubtful is not None:
        hint = with_names(doubtful.hint or "", study, file)
        return Outcome(doubtful.message, data, hint, rows, error_code="bad_input", exit_code=4)
    found.check(accept or ())
    good = (
        f"{found.source} can be used: the study refuses none of its cells, and it has enough records and not too many"
    )
    return Outcome(good, data, shown=[*rows, good])


@app.command()
def clean(
    study: StudyArgument,
    file: _Records,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new CSV file, which only you can read.")],
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN:WORD=VALUE,...",
            help="Say what the words of your file stand for: --rename sex:female=f,male=m, or --rename age:9999= for a "
            "missing value. May be given several times.",
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write a corrected copy of a file of records, by public rules and by what you say, and tell what each of them did.

    The copy has the study's columns. A record that no rule mends is left out.
    """
    from masquerade.cleaning import clean
    from masquerade.columns import parse_rename
    from masquerade_core.study_files import load_study
    from masquerade_protocols import entry_of

    del output_format
    loaded, _ = load_study(study, in_memory=True)
    renames = [parse_rename(text) for text in rename or ()]
    cleaned = clean(file, loaded, out, counts=entry_of(loaded).records.grid_of is not None, renames=renames)
    unit = cleaned.found.unit
    rows = [f"mended: {cleaned.found.source} {sign.says.partition(';')[0]}" for sign in cleaned.signs]
    mended = [(column, rule, count) for (column, rule), count in sorted(cleaned.mended.items()) if count]
    rows += [f"mended: column {column!r}, {counted(count, 'time')}: {rule}" for column, rule, count in mended]
    rows += [f"left out: {fault.row(unit)}" for fault in cleaned.reasons]
    left = f"{counted(cleaned.dropped, 'record was', 'records were')} left out" if cleaned.dropped else "none left out"
    what = "with the study's columns alone" if rows else "with the study's columns alone; nothing else had to be mended"
    message = f"{out} is the corrected copy, {what}; {left}"
    data: dict[str, Any] = {
        "file": cleaned.found.source,
        "out": str(out),
        "signs": [{"name": sign.name, "says": sign.says} for sign in cleaned.signs],
        "mended": [{"column": column, "rule": rule, "count": count} for column, rule, count in mended],
        "left_out": cleaned.dropped,
        "reasons": [fault.to_json() for fault in cleaned.reasons],
    }
    return Outcome(message, data, f"masquerade data check {study} {out}", [*rows, message])


_SIZE = "take part with another number of records, or ask the coordinator for a study with other limits"


def _size(found: "Examined", study: "Study") -> str:
    """Say whether there are too few or too many records for the study; their number is not said."""
    if found.signs:
        return ""
    if found.records < study.study.min_records:
        return f"has fewer records than the study's min_records, {study.study.min_records}"
    if found.records > study.max_records:
        return f"has more than {study.max_records:,} records, the most that a party may have in this study"
    return ""


def _repaired(fault: "Fault", study: "Study", found: "Examined", *, counts: bool) -> str:
    """Say what becomes of cells that the study does not refuse."""
    from masquerade_core.data.file_faults import MATCHED

    row = fault.row(found.unit)
    if counts:
        return f"{row}; the study counts such cells apart"
    if fault.kind in MATCHED:
        return f"{row}; it counts as the one that the study names"
    columns = (*study.features, *([study.label.number] if study.label.number else ()))
    feature = next((f for f in columns if f.name == fault.column), None)
    if feature is None:
        first = (study.label.classes or (f"not {study.label.positive!r}",))[0]
        return f"{row}; it counts as {first}" if fault.column else f"{row}; all its cells count as missing"
    if fault.kind.name in {"outside", "infinite"} and feature.min is not None:
        return f"{row}; it counts as the nearer bound"
    return f"{row}; it counts as {feature.filler!r}"
