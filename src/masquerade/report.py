"""Texts for people: the study in plain words, the result, the privacy statement."""

import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.burden import burden_of
from masquerade.evaluation_view import evaluation_shown
from masquerade.layout import heading, paragraphs, short
from masquerade.statement_view import documentation, flags, statement
from masquerade_core.privacy.expectation import Expectation
from masquerade_core.study import Label, Study
from masquerade_core.study.sections import StudySection
from masquerade_core.words import counted
from masquerade_protocols import Cost, Explanation, entry_named

__all__ = [
    "costs",
    "descent",
    "documentation",
    "explained",
    "flags",
    "heading",
    "human_bytes",
    "human_seconds",
    "lead_part",
    "paragraphs",
    "program",
    "result_report",
    "short",
    "size_of_record",
    "sparkline",
    "statement",
    "study_fingerprint",
]

_KILO = 1000
_BARS = "▁▂▃▄▅▆▇█"
_BARS_WIDTH = 24
_ROUNDS = "rounds"  # the name of the stage, and of the field of a result


def program() -> str:
    """Return the command that starts this program here: its bare name only if the shell finds it."""
    if shutil.which("masquerade"):
        return "masquerade"
    script = Path(sys.argv[0])
    if script.name == "masquerade":
        near = os.path.relpath(script)
        return str(script.absolute()) if near.startswith("..") else near
    return f"{Path(sys.executable).name} -m masquerade"


def study_fingerprint(study: Study) -> str:
    """Return a hash of the whole study as eight groups of four hexadecimal digits, to be read over the telephone."""
    return study.fingerprint()


def human_bytes(count: float) -> str:
    """Return a number of bytes in a readable unit."""
    if count < _KILO:
        return f"{count:.0f} B"
    if count < _KILO**2:
        return f"{count / _KILO:.1f} kB"
    return f"{count / _KILO**2:.1f} MB"


def human_seconds(seconds: float) -> str:
    """Return a time in a readable unit."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def sparkline(values: Sequence[float | None], width: int = _BARS_WIDTH) -> str:
    """Return a curve as a row of bars. A value that no float holds gets the highest bar.

    If the values span more than three powers of ten, the bars show their logarithms.
    """
    steps = min(width, len(values))
    chosen = [values[round(i * (len(values) - 1) / max(1, steps - 1))] for i in range(steps)]
    known = [v for v in chosen if v is not None and math.isfinite(v)]
    if not known:
        return _BARS[-1] * steps
    steep = min(known) > 0 and max(known) > _KILO * min(known)
    scaled = [math.log(v) if steep else v for v in known]
    low, height = min(scaled), max(scaled) - min(scaled)

    def bar(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return _BARS[-1]
        place = (math.log(value) if steep else value) - low
        return _BARS[round(place / height * (len(_BARS) - 1))] if height > 0 else _BARS[0]

    return "".join(map(bar, chosen))


def lead_part(cost: Cost) -> str:
    """Return what the lead holds: the verb and the rest of a sentence. A study that encrypts nothing has no key."""
    if cost.ciphertexts:
        return "holds the secret half of the parties' common encryption key"
    return "holds no secret key besides its own, since the parties have no common encryption key"


def _most_records(study: Study) -> str:
    """Return how many records a party may have at most, where the study says so: the end of a sentence's part."""
    most = {study.most_of(name) for name in study.names}
    if most == {study.countable}:
        return ""
    return f" and at most {most.pop():,}" if len(most) == 1 else " and at most the max_records that the study gives you"


def explained(
    study: Study, explanation: Explanation, cost: Cost, expectation: Expectation | None = None
) -> tuple[RenderableType, ...]:
    """Return a study in plain words."""
    rules, target = study.study, study.privacy
    roster = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    roster.add_column("  who", no_wrap=True)
    roster.add_column("fingerprint of their key", no_wrap=True)
    roster.add_column("")
    roster.add_row("  charlie, the curator", study.curator.key.fingerprint(), Text(study.address, style="dim"))
    for party in study.parties:
        note = "the lead" if study.lead and party.name == study.lead else ""
        roster.add_row(Text(f"  {party.name}"), party.key.fingerprint(), Text(note, style="dim"))
    columns = ", ".join(f"{f.name} ({f.range})" for f in study.features)
    needs = (
        f"At least {rules.min_records:,} records{_most_records(study)}, with the columns {columns}.",
        f"The column to predict is {study.label.name}; {_classes(study.label)}.",
        "A number outside these public bounds is moved to the nearest of them, and a missing cell takes the study's "
        "public value. Your process tells only you how often that happened."
        if rules.out_of_bounds == "clamp"
        else "A record outside these public bounds is refused, and everybody sees that your process refuses. Correct "
        "it, or leave it out.",
    )
    return (
        Text.assemble(
            (rules.name, "bold cyan"),
            f"  {rules.protocol}, {study.K} parties, {size_of_record(study)}, ",
            (f"epsilon = {target.epsilon:g}", "bold"),
        ),
        *((heading("What the coordinator declares"), paragraphs(_declared(rules))) if rules.declared else ()),
        heading("What leaves my machine"),
        paragraphs(explanation.leaves),
        heading("Who must not work together"),
        paragraphs(explanation.collusion),
        heading("What it costs"),
        paragraphs((*explanation.cost, *filter(None, (burden_of(cost, study.K),)))),
        *((heading(f"What to expect of the {expectation.about}"), *_expected(expectation)) if expectation else ()),
        heading("What my data must have"),
        paragraphs(explanation.needs or needs),
        heading("Who takes part"),
        roster,
        *([Padding(Text(f"The lead, {study.lead}, {lead_part(cost)}."), (1, 0, 0, 2))] if study.lead else []),
        Text.assemble("\n  the study's own fingerprint  ", (study_fingerprint(study), "bold")),
    )


def _declared(rules: StudySection) -> list[str]:
    return [f"{name[0].upper()}{name[1:]}: {text}" for name, text in rules.declared]


def _expected(expectation: Expectation) -> Iterator[RenderableType]:
    yield paragraphs((expectation.text,))
    if not expectation.intervals:
        return
    odds = any(row.odds is not None for row in expectation.intervals)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    heads = ("width of interval", *(("odds ratio, upper by lower",) if odds else ()))
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row in expectation.intervals:
        cells = ["cannot be told" if row.width is None else f"{row.width:.2g}"]
        cells += ["" if row.odds is None else f"{row.odds:.3g} times"] if odds else []
        table.add_row(Text(row.name), *cells)
    yield Padding(table, (1, 0, 1, 2))
    yield paragraphs((expectation.assumed,))


def size_of_record(study: Study) -> str:
    """Return how many numbers a record becomes, in words: coordinates, or the covariates of a regression."""
    if entry_named(study.study.protocol).records.coding == "treatment":
        return counted(len(study.covariates), "covariate")
    return f"{study.d} coordinates"


def _classes(label: Label) -> str:
    if label.number is not None:
        return f"it is a number, {label.number.range}"
    if label.classes is None:
        return f"{label.positive!r} counts as +1"
    return f"its classes are {', '.join(map(repr, label.classes))}"


def result_report(result: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    """Return the content of a ``result.json``: cost, error, the model's quality, privacy statement."""
    parts: list[RenderableType] = [costs(result), *descent(result)] if result["stages"] else []
    metrics = result.get("metrics", {})
    if (error := metrics.get("test_error")) is not None:
        parts.append(Text.assemble("\n  error on the public test set  ", (f"{error:.2%}", "bold")))
    for party, own in metrics.get("test_errors", {}).items():
        parts.append(Text(f"    {party}'s own classifier  {own:.2%}", style="dim"))
    parts += evaluation_shown(result.get("evaluation"))
    parts += statement(result["statement"], result.get("epsilon"))
    return tuple(parts)


def costs(result: Mapping[str, Any]) -> RenderableType:
    """Return the table of stages."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  stage", no_wrap=True)
    for name in ("seconds", "messages", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in result["stages"]:
        seconds = f"{stage['seconds']:.2f}" if "seconds" in stage else ""  # a party's stages have none
        table.add_row(Text(f"  {stage['name']}"), seconds, str(stage["messages"]), human_bytes(stage["bytes"]))
    total = f"{result['seconds']:.2f}", str(result["messages"]), human_bytes(result["bytes"])
    table.add_row(Text("  in all", style="bold"), *(Text(value, style="bold") for value in total))
    return table


def descent(result: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    """Return a result's rounds: their cost, and the objective on the public test set as a curve."""
    if not (points := result.get(_ROUNDS)):
        return ()
    count, values = points[-1]["round"], [point["objective"] for point in points]
    ends = " to ".join("beyond all floats" if v is None else f"{v:.4g}" for v in (values[0], values[-1]))
    lines = [Text.assemble("  objective on the public test set  ", (sparkline(values), "cyan"), f"  {ends}")]
    stage = next((stage for stage in result["stages"] if stage["name"] == _ROUNDS), None)
    if stage is not None:
        times = [human_seconds(stage["seconds"] / count)] if "seconds" in stage else []
        each = " and ".join([*times, human_bytes(stage["bytes"] / count)])
        lines.insert(
            0,
            Text.assemble(f"\n  {count:,} rounds of ", (each, "bold"), " each, with the noise that was drawn for them"),
        )
    return tuple(lines)
