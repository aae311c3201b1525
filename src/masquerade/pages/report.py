"""The report of a finished run as one HTML page: page one for the board, the rest for reference."""

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.pages.board import board_of_run, minute
from masquerade.pages.picture import Picture
from masquerade.pages.privacy import Axis, views
from masquerade.pages.reading import Run
from masquerade.pages.render import render
from masquerade.pages.talk import talk_of
from masquerade.pages.weights import learned
from masquerade.statement_view import documentation, flags
from masquerade_core.errors import MasqueradeError
from masquerade_protocols import Protocol, entry_named

__all__ = ["report_page"]


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
    """
    entry = _entry(str(run.result["protocol"]))
    rows = views(run.result["statement"], audit)
    found = [v for view in rows for v in (view.claimed, view.proved, view.audited) if v is not None]
    noise = entry.weight_noise(run.study) if entry and entry.weight_noise and run.study and run.model else None
    explanation = entry.explain(run.study) if entry and run.study and not entry.baseline else None
    baseline = entry is not None and entry.baseline
    context = {
        "run": run,
        "result": run.result,
        "study": run.study,
        "entry": entry,
        "board": board_of_run(run, entry),
        "views": rows,
        "axis": Axis.over([*found, float(run.result["epsilon"])]),
        "audit": audit,
        "pictures": pictures,
        "learned": learned(run.model, noise) if run.model else [],
        "noise": noise,
        "talk": talk_of(run.result, run.transcript, run.study.names if run.study else ()),
        "explanation": explanation,
        "flags": flags(run.study, run.result["statement"]) if run.study else [],
        "documentation": documentation(),
        "watermark": run.watermark or ("baseline: not a private release" if baseline else ""),
        "minute": minute,
        "command": f"masquerade verify {run.path}",
    }
    return render("report.html", context)


def _entry(name: str) -> Protocol | None:
    """Return a protocol's entry; None for a protocol that this installation does not have."""
    try:
        return entry_named(name)
    except MasqueradeError:
        return None
