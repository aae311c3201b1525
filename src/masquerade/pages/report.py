"""The report of a finished run as one HTML page: page one for the board, the rest for reference."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from masquerade.evaluation_view import evaluation_warnings
from masquerade.pages.board import board_of_run, minute
from masquerade.pages.debits import debits
from masquerade.pages.picture import Picture
from masquerade.pages.privacy import Axis, common, views
from masquerade.pages.reading import Run
from masquerade.pages.render import render
from masquerade.pages.talk import talk_of
from masquerade.pages.weights import forest, learned
from masquerade.statement_view import documentation, flags
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_protocols import Protocol, WeightNoise, entry_named

__all__ = ["NOT_PROVED", "report_page"]

NOT_PROVED = (
    "which records the parties used, and that they are true",
    "that a signature was made by a person and not by somebody who took the key file",
    "the times, the approval and the ledger's entry: they are the words of the folder's owner alone",
)
"""The limits of any check of a folder, as ``masquerade verify`` says them."""

_FIGURES = (
    ("error", "error", ("error",)),
    ("AUC: how well scores rank", "auc", ("auc",)),
    ("Brier score", "brier", ("brier",)),
    ("sensitivity", "threshold.sensitivity", ("threshold", "sensitivity")),
    ("specificity", "threshold.specificity", ("threshold", "specificity")),
    ("precision", "threshold.precision", ("threshold", "precision")),
    ("class balance: share of positive records", "positive_share", ("positive_share",)),
)


def report_page(run: Run, *, audit: Mapping[str, Any] | None = None, pictures: Sequence[Picture] = ()) -> str:
    """Return the report of a run as one HTML text.

    Parameters
    ----------
    run : Run
        What :func:`masquerade.pages.reading.read_run` found.
    audit : mapping, optional
        What ``masquerade audit STUDY --format json`` said of the study.
    pictures : sequence of Picture
        Such as the one that ``masquerade audit --plot`` draws.

    Raises
    ------
    BadInput
        The result, or a file beside it, is not of the form that a run writes.
    """
    try:
        return _page(run, audit, pictures)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:  # somebody changed the file
        raise BadInput(
            f"a file in {run.path} is not of the form that a run writes",
            f"see what was changed with 'masquerade verify {run.path}'",
        ) from error


def _page(run: Run, audit: Mapping[str, Any] | None, pictures: Sequence[Picture]) -> str:
    entry = _entry(str(run.result["protocol"]))
    rows = views(run.result["statement"], audit)
    found = [v for view in rows for v in (view.claimed, view.proved, view.audited) if v is not None]
    published = run.result.get("published") or {}
    known = entry.weight_noise if entry else None
    noise = known(run.study, published.get("records")) if known and run.study and run.model else None
    if published.get("weight_noise"):
        noise = WeightNoise(tuple(published["weight_noise"]))
    explanation = entry.explain(run.study) if entry and run.study and not entry.baseline else None
    baseline = entry is not None and entry.baseline
    context = {
        "run": run,
        "result": run.result,
        "study": run.study,
        "entry": entry,
        "board": board_of_run(run, entry, audit),
        "views": rows,
        "axis": Axis.over([*found, float(run.result["epsilon"])]),
        "audit": audit,
        "pictures": pictures,
        "learned": learned(run.model, noise) if run.model and run.model.coefficients is None else [],
        "forest": forest(run.model) if run.model else None,
        "noise": noise,
        "published": published,
        "talk": talk_of(run.result, run.transcript, run.study.names if run.study else ()),
        "explanation": explanation,
        "flags": flags(run.study, run.result["statement"]) if run.study else [],
        "documentation": documentation(),
        "watermark": run.watermark or ("baseline: not a private release" if baseline else ""),
        "minute": minute,
        "command": f"masquerade verify {shlex.quote(str(run.path))}",
        "common": common(run.result["statement"]),
        "board_classes": run.model is not None and run.model.label.classes is not None,
        "entries": debits(run.ledger),
        "unproved": NOT_PROVED,
        "expectation": entry.expectation(run.study) if entry and run.study and entry.expectation else None,
        "quality": list(_quality(run.result.get("evaluation"))),
        "warnings": evaluation_warnings(run.result["evaluation"]) if run.result.get("evaluation") else [],
    }
    return render("report.html", context)


def _quality(found: Mapping[str, Any] | None) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the figures of an evaluation: the name, the field of the result, and the value with its interval."""
    for name, field, path in _FIGURES if found else ():
        value: Any = found
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and "value" in value:
            yield name, field, value
    for one in (found or {}).get("classes", ()):
        for key in ("share", "sensitivity", "precision"):
            yield f"{one['name']}: {key}", f"classes.{one['name']}.{key}", one[key]


def _entry(name: str) -> Protocol | None:
    """Return a protocol's entry; None for a protocol that this installation does not have."""
    try:
        return entry_named(name)
    except MasqueradeError:
        return None
