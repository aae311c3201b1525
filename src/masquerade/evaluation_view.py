"""The quality of a model for people: the field ``evaluation`` of a ``result.json`` as a table and two small plots."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["evaluation_shown", "evaluation_warnings", "plotted"]

_WIDTH, _HEIGHT = 29, 11
_PLAIN = {"AUC", "Brier score", "F1"}  # numbers that nobody writes as a percentage
_Point = tuple[float, float]


def evaluation_shown(found: Mapping[str, Any] | None) -> tuple[RenderableType, ...]:
    """Return a model's quality; nothing where no records were held back."""
    if found is None:
        return ()
    head = Text.assemble(
        ("\nQuality of the model", "bold"),
        (f"  measured on {found['records']:,} records, with intervals of 95 %", "dim"),
    )
    shown = [_figures(found)]
    shown += [_classes(found)] if "classes" in found else [_confusion(found["threshold"]), _plots(found)]
    said = evaluation_warnings(found)
    return (head, *shown, *(Text(f"  {sentence}", style="yellow") for sentence in said))


def evaluation_warnings(found: Mapping[str, Any]) -> list[str]:
    """Return what somebody who uses the model should not overlook."""
    said = []
    if (answer := found["same_answer"]) is not None:
        words = {"positive": "the positive label", "negative": "the other label than the positive one"}
        label = repr(answer) if "classes" in found else words[answer]
        said.append(f"The model gives nearly all records the same answer, {label}.")
    if not found["better_than_majority"]:
        said.append(
            "It is not shown that the model errs less than the same answer for every record, which errs in "
            f"{found['majority_error']:.1%} of them."
        )
    return said


def _figures(found: Mapping[str, Any]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(max_width=40)
    rows = [("error", found["error"], f"one answer for all: {found['majority_error']:.1%}")]
    if "auc" in found:
        chosen, rule = found["threshold"], found["threshold"]["rule"]
        words = f"threshold {chosen['score']:.4g}" + ("" if rule is None else f", chosen by {rule}")
        rows += [
            ("AUC", found["auc"], "1: positive records score highest; .5: chance"),
            ("sensitivity", chosen["sensitivity"], words),
            ("specificity", chosen["specificity"], ""),
            ("precision", chosen["precision"], ""),
            ("F1", chosen["f1"], ""),
            ("positive records", found["positive_share"], ""),
        ]
        if found["brier"] is not None:
            rows.insert(2, ("Brier score", found["brier"], "0: always sure, and right"))
        if rule is not None:
            rows.append(("", None, "intervals at this threshold hold for all thresholds at once"))
    for name, value, note in rows:
        table.add_row(
            f"    {name}", "" if value is None else _with_interval(value, plain=name in _PLAIN), Text(note, style="dim")
        )
    return table


def _with_interval(value: Mapping[str, Any], *, plain: bool) -> str:
    if value["value"] is None:
        return "lost in the noise"
    form = ".3f" if plain else ".1%"
    return " ".join((f"{value['value']:{form}}", f"({value['low']:{form}} to {value['high']:{form}})"))


def _classes(found: Mapping[str, Any]) -> RenderableType:
    names = [one["name"] for one in found["classes"]]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("    class", no_wrap=True)
    for column in ("share", "sensitivity", "precision"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("most often answered with", no_wrap=True)
    for one, row in zip(found["classes"], found["confusion"], strict=True):
        figures = (_with_interval(one[key], plain=False) for key in ("share", "sensitivity", "precision"))
        table.add_row(f"    {one['name']}", *figures, names[max(range(len(row)), key=row.__getitem__)])
    return Padding(table, (1, 0, 1, 0))


def _confusion(chosen: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("    noisy counts of records", no_wrap=True)
    table.add_column("answered positive", justify="right", no_wrap=True)
    table.add_column("answered otherwise", justify="right", no_wrap=True)
    table.add_row("    positive", *_counts(chosen, "true_positives", "false_negatives"))
    table.add_row("    others", *_counts(chosen, "false_positives", "true_negatives"))
    return Padding(table, (1, 0, 1, 0))


def _counts(chosen: Mapping[str, Any], *names: str) -> list[str]:
    return [f"{round(chosen[name]):,}" for name in names]


def _plots(found: Mapping[str, Any]) -> RenderableType:
    roc = [(0.0, 0.0), (1.0, 1.0)]
    roc += [
        (1 - point["specificity"]["value"], point["sensitivity"]["value"])
        for point in found["curve"]
        if None not in {point["specificity"]["value"], point["sensitivity"]["value"]}
    ]
    plots = [plotted(roc, "ROC: false alarms (across), found (up)")]
    if found["calibration"]:
        groups = [
            (group["predicted"], group["observed"]["value"])
            for group in found["calibration"]
            if group["observed"]["value"] is not None
        ]
        plots.append(plotted(groups, "calibration: predicted, observed"))
    return Padding(Columns(plots, padding=(0, 4)), (0, 0, 1, 4))


def plotted(points: Sequence[_Point], title: str) -> Text:
    """Return points of the unit square as a plot of characters, with the diagonal as dots."""
    cells = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for column in range(_WIDTH):
        cells[_row(column / (_WIDTH - 1))][column] = "·"
    for x, y in points:
        cells[_row(y)][round(min(1.0, max(0.0, x)) * (_WIDTH - 1))] = "●"
    lines = [("1 │" if i == 0 else "  │") + "".join(row) for i, row in enumerate(cells)]
    return Text("\n".join([title, *lines, "0 └" + "─" * _WIDTH, "   0" + " " * (_WIDTH - 2) + "1"]))


def _row(y: float) -> int:
    return _HEIGHT - 1 - round(min(1.0, max(0.0, y)) * (_HEIGHT - 1))
