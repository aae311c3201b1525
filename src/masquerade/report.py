"""What a run says to people: the study in plain words, the result, the privacy statement."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade_core.study import Study
from masquerade_protocols import Explanation

__all__ = ["explained", "human_bytes", "result_report", "statement", "study_fingerprint"]

_KILO = 1000


def study_fingerprint(study: Study) -> str:
    """Return eight groups of four hexadecimal digits that stand for the whole study, to be read over the telephone."""
    digest = study.digest().hex()[:32]
    return " ".join(digest[i : i + 4] for i in range(0, 32, 4))


def human_bytes(count: float) -> str:
    """Return a number of bytes in the unit a person would use."""
    if count < _KILO:
        return f"{count:.0f} B"
    if count < _KILO**2:
        return f"{count / _KILO:.1f} kB"
    return f"{count / _KILO**2:.1f} MB"


def heading(text: str, aside: str = "") -> Text:
    """Return a section's headline."""
    return Text.assemble(("\n" + text, "bold"), (f"  {aside}" if aside else "", "dim"))


def paragraphs(texts: Sequence[str]) -> RenderableType:
    """Return a list of paragraphs, each behind a bullet."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(max_width=96)
    for text in texts:
        grid.add_row("•", escape(text))
    return Padding(grid, (0, 0, 0, 2))


def explained(study: Study, explanation: Explanation) -> tuple[RenderableType, ...]:
    """Return a study in plain words."""
    rules, wish = study.study, study.privacy
    roster = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    roster.add_column("  who", no_wrap=True)
    roster.add_column("fingerprint of their key", no_wrap=True)
    roster.add_column("")
    roster.add_row("  charlie", study.curator.key.fingerprint(), f"[dim]{escape(study.address)}[/]")
    for party in study.parties:
        note = "lead: holds the parties' key" if party.name == study.lead else ""
        roster.add_row(f"  {escape(party.name)}", party.key.fingerprint(), f"[dim]{note}[/]")
    columns = ", ".join(_column(f.name, f.levels, f.min, f.max) for f in study.features)
    return (
        Text.assemble(
            (rules.name, "bold cyan"),
            f"  {rules.protocol}, {study.K} parties, {study.d} coordinates, ",
            (f"epsilon = {wish.epsilon:g}", "bold"),
        ),
        heading("What leaves my machine"),
        paragraphs(explanation.leaves),
        heading("Who must not work together"),
        paragraphs(explanation.collusion),
        heading("What it costs"),
        paragraphs(explanation.cost),
        heading("What is asked of my data"),
        paragraphs(
            (
                f"At least {rules.min_records:,} records, with the columns {columns}.",
                f"The column to predict is {study.label.name}; {study.label.positive!r} counts as +1.",
                "A record outside these public bounds is refused: correct it, or leave it out.",
            )
        ),
        heading("Who takes part"),
        roster,
        Text.assemble("\n  the study's own fingerprint  ", (study_fingerprint(study), "bold")),
    )


def _column(name: str, levels: tuple[str, ...] | None, low: float | None, high: float | None) -> str:
    return f"{name} ({', '.join(levels)})" if levels is not None else f"{name} ({low:g} to {high:g})"


def result_report(result: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    """Return what a ``result.json`` says: cost, error, privacy statement."""
    parts: list[RenderableType] = [costs(result)]
    error = result.get("metrics", {}).get("test_error")
    if error is not None:
        parts.append(Text.assemble("\n  error on the public test set  ", (f"{error:.2%}", "bold")))
    parts += statement(result["statement"])
    return tuple(parts)


def costs(result: Mapping[str, Any]) -> RenderableType:
    """Return the table of stages."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  stage", no_wrap=True)
    for name in ("seconds", "messages", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in result["stages"]:
        table.add_row(
            f"  {escape(stage['name'])}", f"{stage['seconds']:.2f}", str(stage["messages"]), human_bytes(stage["bytes"])
        )
    total = f"{result['seconds']:.2f}", str(result["messages"]), human_bytes(result["bytes"])
    table.add_row("  [bold]in all[/]", *(f"[bold]{value}[/]" for value in total))
    return table


def statement(rows: Sequence[Mapping[str, Any]], *, full: bool = False) -> tuple[RenderableType, ...]:
    """Return the privacy statement; ``full`` with each row's explanation and assumptions."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim", show_edge=False, row_styles=["", ""])
    table.add_column("who looks", max_width=34)
    table.add_column("the paper claims", max_width=34)
    table.add_column("proved", max_width=26)
    for row in rows:
        table.add_row(escape(row["view"]), escape(_claimed(row)), _proved(row))
    parts: list[RenderableType] = [
        heading("Privacy statement", "of one record, replaced by another, all sizes fixed"),
        Padding(table, (0, 0, 0, 1)),
    ]
    if full:
        for row in rows:
            parts.append(Text.assemble(("\n  " + row["view"], "bold"), f" ({row['unit']})"))
            parts.append(Padding(Text(row["text"]), (0, 0, 0, 2)))
            if row["source"]:
                parts.append(Padding(Text(f"source: {row['source']}", style="dim"), (0, 0, 0, 2)))
            if row["holds_at"]:
                parts.append(Padding(Text(f"the wish would hold at: {row['holds_at']}", style="dim"), (0, 0, 0, 2)))
    common = _common(rows)
    if common:
        parts += [heading("Provided that"), paragraphs(common)]
    return tuple(parts)


def _claimed(row: Mapping[str, Any]) -> str:
    return str(row["claimed"])


def _proved(row: Mapping[str, Any]) -> str:
    colour = "green" if row["epsilon"] is not None else "red" if row["provable"] == "none" else "yellow"
    return f"[{colour}]{escape(str(row['provable']))}[/]"


def _common(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the assumptions that all proved rows share."""
    lists = [row["assumptions"] for row in rows if row["epsilon"] is not None]
    return [a for a in lists[0] if all(a in other for other in lists)] if lists else []


def group(parts: Sequence[RenderableType]) -> Group:
    """Put parts one below the other."""
    return Group(*parts)
