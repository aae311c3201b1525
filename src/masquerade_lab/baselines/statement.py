"""Rows that the statements of all baselines with noise share. In a baseline, one person holds all records."""

from collections.abc import Callable

from masquerade_core.privacy.several_records import Bound, proven_settings, several_records
from masquerade_core.privacy.statement import ONE_RELEASE, PUBLIC_SETTINGS, Claim, Rows, digits
from masquerade_core.study import Study

__all__ = ["ASSUMPTIONS", "ROWS", "WHOEVER_COMPUTES", "record_statement", "target_claim"]

ASSUMPTIONS = (PUBLIC_SETTINGS, ONE_RELEASE)
"""The assumptions of every proof of a baseline's privacy."""

ROWS = Rows(source="by inspection")
"""Rows about one record. Each baseline gives them its own source and assumptions."""

WHOEVER_COMPUTES = ROWS.none(
    "whoever computes it",
    "In a baseline there is no conversation: one person holds all records.",
    claimed="nothing: a trusted party holds everybody's records",
    holds_at="no setting: this needs a protocol, in which nobody holds all records",
)
"""The row of the person who holds all records."""


def record_statement(
    study: Study,
    rows: Rows,
    view: str,
    text: str,
    *,
    claimed: str,
    epsilon: float,
    delta: float,
    holds_at: str = "this noise",
    gaussian: Callable[[int], Bound] | None = None,
) -> tuple[Claim, ...]:
    """Return the statement of a baseline whose release hides a record.

    Parameters
    ----------
    study : Study
    rows : Rows
        The proof's source and assumptions.
    view, text, claimed, holds_at : str
        As in a :class:`~masquerade_core.privacy.statement.Claim`.
    epsilon, delta : float
        The proved numbers.
    gaussian : callable, optional
        size -> what is proved of so many records together, as in
        :func:`~masquerade_core.privacy.several_records.several_records`.
    """
    released = rows.proved(
        view,
        text,
        claimed=claimed,
        provable=f"epsilon = {digits(epsilon)}, delta = {digits(delta)}",
        epsilon=epsilon,
        delta=delta,
        holds_at=holds_at,
        definition="approximate",
    )
    settings = None if study.proven else proven_settings
    return (released, WHOEVER_COMPUTES, *several_records(study, released, gaussian, settings=settings))


def target_claim(epsilon: float, delta: float) -> str:
    """Return the claim of a study with ``calibration = "proven"``."""
    return f"approximate, epsilon = {epsilon:g}, delta = {delta:g}: the privacy target"
