"""The privacy statement as a text for people, and what nobody should overlook in it."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.layout import heading, paragraphs, short
from masquerade_core.privacy.several_records import PARTY, PERSON
from masquerade_core.privacy.statement import NONE, NOT_PROMISED, digits, gained
from masquerade_core.study import Study
from masquerade_core.words import DELTA

__all__ = ["documentation", "flags", "statement"]

_ROUNDED = 1.001  # by how much a number may exceed the target, since a proof counts rounding

_DEFINITIONS = {
    "pure": "the e^epsilon bound holds without slack",
    "approximate": f"delta is {DELTA}",
    "probabilistic": "the e^epsilon bound holds except for outputs whose probability is at most delta",
    "computational": "it holds against anyone who cannot break the encryption or the masks that it rests on",
}

Row = Mapping[str, Any]


def documentation() -> str:
    """Return where the pages are that statements cite as ``docs/...``; an installed wheel does not carry them."""
    try:
        urls = metadata("masquerade").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    named = (entry.partition(",") for entry in urls)
    found = (url.strip() for label, _, url in named if label.strip().lower() == "documentation")
    return next(found, "the docs folder of the project's sources")


def statement(
    rows: Sequence[Row], target: float | None = None, *, full: bool = False, brief: bool = False
) -> tuple[RenderableType, ...]:
    """Return the privacy statement.

    Parameters
    ----------
    rows : sequence of mapping
        Of a result.
    target : float, optional
        The epsilon of the privacy target. Where a row that the study counts on misses it, that is said first.
    full : bool
        Whether each row comes with its explanation, its source and its calibration.
    brief : bool
        Whether to leave out how much of the noise each observer can subtract, unless one can subtract all of it, and
        what each row rests on.
    """
    if not rows:
        return (
            heading("Privacy statement"),
            Text("  none: one person held all records, and this baseline adds no noise"),
        )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim", show_edge=False)
    table.add_column("who looks", max_width=40)
    table.add_column("adversary", max_width=12)
    table.add_column("what is claimed", max_width=30)
    table.add_column("proved", no_wrap=True)
    for row in rows:
        table.add_row(Text(_view(row)), Text(row["adversary"]), Text(short(row["claimed"])), _proved(row))
    parts: list[RenderableType] = [
        heading("Privacy statement", _neighbours(rows)),
        *_missed(rows, target),
        Padding(table, (0, 0, 0, 1)),
        *_meaning(rows),
    ]
    common = _common(rows)
    if full:
        for row in rows:
            parts += _in_full(row, common)
        if any("docs/" in row["source"] for row in rows):
            parts.append(Text(f"\n  The pages cited as docs/... are here: {documentation()}", style="dim"))
    else:
        parts += _strippers(rows, brief=brief)
        if not brief:
            rests = [f"{_sentence(_view(row))}: {_definition(row)}{_rests(row, common)}" for row in rows if _held(row)]
            parts += [heading("What each line means and rests on"), paragraphs(rests)] if rests else []
    if common:
        parts += [heading("What is proved holds if"), paragraphs(common)]
    return tuple(parts)


def flags(study: Study, rows: Sequence[Row]) -> list[str]:
    """Return sentences that somebody who has to answer for a study should not overlook; every row is looked at."""
    said, target = [], study.privacy
    fewest = study.K * study.study.min_records
    if target.delta * fewest >= 1:
        said.append(
            f"delta = {target.delta:g} is not below 1/{fewest:,}: a mechanism that publishes every record with that "
            f"probability, and so one of {fewest:,} on average, would satisfy it; choose a smaller delta"
        )
    if bare := [_view(row) for row in rows if not _held(row)]:
        said.append(f"nothing is proved against {_observers(bare)}: {'; '.join(bare)}")
    held = [row for row in rows if _held(row)]
    if above := [row for row in held if row["epsilon"] > target.epsilon * _ROUNDED]:
        found = "; ".join(f"{digits(row['epsilon'])} of {_view(row)}" for row in above)
        said.append(f"the privacy target is epsilon = {target.epsilon:g}, but only this epsilon is proved: {found}")
    large = [row for row in held if row["delta"] > target.delta * _ROUNDED and row["delta"] * _units(study, row) >= 1]
    if large:
        found = "; ".join(f"delta = {row['delta']:.2g} of {_view(row)}, with {_units(study, row):,}" for row in large)
        said.append(
            "a delta of one in all records, persons or parties allows one of them to be published, and here it is no "
            f"less: {found}"
        )
    said.append(
        "bounds, levels and edges are taken as public: if anybody looked at the parties' records to choose them, or "
        "regularization, rounds or a learning rate, that costs privacy which is not counted"
    )
    return said


def _missed(rows: Sequence[Row], target: float | None) -> list[RenderableType]:
    """Return a sentence where the largest epsilon of what the study counts on is beyond the privacy target."""
    counted_on = [row for row in rows if _held(row) and not row["claimed"].startswith(NOT_PROMISED)]
    worst = max(counted_on, key=lambda row: float(row["epsilon"]), default=None)
    if target is None or worst is None or worst["epsilon"] <= target * _ROUNDED:
        return []
    said = (
        f"This study misses its privacy target. It asks for epsilon = {digits(target)}, and epsilon = "
        f"{digits(worst['epsilon'])} is what is proved ({_view(worst)}): {digits(worst['epsilon'] / target)} times as "
        "much."
    )
    return [Padding(Text(said, style="yellow"), (0, 0, 1, 2))]


def _units(study: Study, row: Row) -> int:
    """Return how many units of a row there are at least: records, persons or parties."""
    records = study.K * study.study.min_records
    if row["unit"] == PARTY:
        return study.K
    return max(1, records // study.study.records_per_person) if row["unit"] == PERSON else records


def _observers(views: Sequence[str]) -> str:
    return "this observer" if len(views) == 1 else "these observers"


def _held(row: Row) -> bool:
    """Whether anything is proved: a guarantee with a delta of 1 is none."""
    return row["epsilon"] is not None and row["delta"] is not None and row["delta"] < 1


def _meaning(rows: Sequence[Row]) -> list[RenderableType]:
    """Say what the largest epsilon allows that the study counts on."""
    proved = [row for row in rows if _held(row)]
    if not proved:
        return []
    promised = [row for row in proved if not row["claimed"].startswith(NOT_PROMISED)] or proved
    held = max(promised, key=lambda row: float(row["epsilon"]))
    whose = f"the records of one {held['unit']}" if held["unit"] in {PARTY, PERSON} else f"one {held['unit']}"
    said = gained(held["epsilon"], held["delta"], about=whose)
    return [Padding(Text(f"{_sentence(_view(held))}: {said}"), (1, 0, 0, 2))]


def _in_full(row: Row, common: Sequence[str]) -> list[RenderableType]:
    """Return a row with its explanation, its definition, what it rests on, its source and its calibration."""
    notes = [
        ("definition", _definition(row)),
        ("adversary", row["adversary"]),
        ("rests on", "; ".join(_own(row, common))),
        ("source", row["source"]),
        ("the privacy target holds with", row["holds_at"]),
    ]
    return [
        Text.assemble(("\n  " + _view(row), "bold")),
        Padding(Text(row["text"]), (0, 0, 0, 4)),
        *(Padding(Text(f"{name}: {note}", style="dim"), (0, 0, 0, 4)) for name, note in notes if note),
    ]


def _definition(row: Row) -> str:
    """Return a row's definition with each of its words explained."""
    if not _held(row):
        return NONE
    words = str(row["definition"]).split(", ")
    known = ", and ".join(_DEFINITIONS[word] for word in words if word in _DEFINITIONS)
    return f"{row['definition']}: {known}" if known else str(row["definition"])


def _rests(row: Row, common: Sequence[str]) -> str:
    own = _own(row, common)
    return f". It rests on this: {'; '.join(own)}." if own else "."


def _own(row: Row, common: Sequence[str]) -> list[str]:
    return [assumption for assumption in row["assumptions"] if assumption not in common]


def _neighbours(rows: Sequence[Row]) -> str:
    """Return the two data sets that the statement compares, for the first row's unit. Rows name other units."""
    return f"of a {rows[0]['unit']}: {rows[0]['neighbours']}"


def _strippers(rows: Sequence[Row], *, brief: bool) -> list[RenderableType]:
    """Return the observers without any guarantee.

    If there are none, return how much of the noise each observer can subtract, unless ``brief``.
    """
    said = heading("Who could subtract the noise")
    bare = [row for row in rows if not _held(row) and (row["unit"] == rows[0]["unit"] or row["unit"] == "record")]
    if bare:
        return [said, paragraphs([_seen(row) for row in bare])]
    part = [_seen(row) for row in rows if _held(row) and not brief]
    words = "  None of the observers above can subtract all of it." + (" What each can subtract:" if part else "")
    return [said, Text(words), *([paragraphs(part)] if part else [])]


def _seen(row: Row) -> str:
    return f"{_sentence(_view(row))}: {row['text']}"


def _view(row: Row) -> str:
    """Return who looks, and at whose data where that is not one record."""
    named = row["unit"] == "record" or f"records of one {row['unit']}" in row["view"]
    return str(row["view"]) if named else f"{row['view']}, of a whole {row['unit']}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _proved(row: Row) -> Text:
    return Text(short(row["provable"] if _held(row) else NONE), style="green" if _held(row) else "red")


def _common(rows: Sequence[Row]) -> list[str]:
    """Return the assumptions that all proved rows share."""
    lists = [row["assumptions"] for row in rows if _held(row)]
    return [a for a in lists[0] if all(a in other for other in lists)] if lists else []
