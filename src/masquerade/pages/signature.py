"""A study as one HTML page, before it runs: what a board reads, and a place to sign."""

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.pages.board import board_of_study
from masquerade.pages.picture import Picture
from masquerade.pages.privacy import Axis, common, views
from masquerade.pages.render import render
from masquerade.report import lead_part
from masquerade.statement_view import documentation, flags
from masquerade_core import __version__
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS
from masquerade_core.study import Study
from masquerade_protocols import entry_of

__all__ = ["signature_page"]

_NETWORK_BITS = 2048  # what a key has at least, with which processes run


def signature_page(
    study: Study, *, budget: str = "", audit: Mapping[str, Any] | None = None, pictures: Sequence[Picture] = ()
) -> str:
    """Return a study as one HTML text, for signature.

    Parameters
    ----------
    study : Study
        Of a protocol; a baseline asks nobody.
    budget : str
        What is left of this machine's privacy budget, as a sentence; empty where it keeps none.
    audit : mapping, optional
        What ``masquerade audit STUDY --format json`` said of the study.
    pictures : sequence of Picture
    """
    entry = entry_of(study)
    statement = [claim.to_json() for claim in entry.statement(study)]
    rows = views(statement, audit)
    found = [v for view in rows for v in (view.claimed, view.proved, view.audited) if v is not None]
    spends, cost = entry.spends(study), entry.cost(study)
    short_keys = study.crypto.sum == "paillier" and study.key_bits < _NETWORK_BITS
    context = {
        "study": study,
        "entry": entry,
        "board": board_of_study(study, entry, statement, audit),
        "views": rows,
        "axis": Axis.over([*found, study.privacy.epsilon]),
        "audit": audit,
        "pictures": pictures,
        "flags": flags(study, statement),
        "common": common(statement),
        "documentation": documentation(),
        "explanation": entry.explain(study),
        "expectation": entry.expectation(study) if entry.expectation else None,
        "takes": {"epsilon": spends.epsilon / UNITS, "delta": spends.delta / DELTA_UNITS},
        "budget": budget,
        "lead": f"The lead, {study.lead}, {lead_part(cost)}." if study.lead else "",
        "version": __version__,
        "watermark": f"for simulations only: keys of {study.key_bits} bits" if short_keys else "",
    }
    return render("signature.html", context)
