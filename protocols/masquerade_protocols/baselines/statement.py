"""Rows that the statements of all baselines with noise share; one person holds all records in each of them."""

from masquerade_core.privacy.statement import PARTY_UNIT, Claim, Rows, digits

__all__ = ["ASSUMPTIONS", "ROWS", "WHOEVER_COMPUTES", "record_statement", "target_claim"]

ASSUMPTIONS = (
    "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
    "the model is released once; every further run over the same records adds its own epsilon",
)
"""The assumptions of every proof of a baseline's privacy."""

ROWS = Rows(source="by inspection")
"""Rows about one record, each with a source and assumptions of its own."""

WHOEVER_COMPUTES = ROWS.none(
    "whoever computes it",
    "In a baseline there is no conversation: one person holds all records.",
    claimed="nothing: a trusted party holds everybody's records",
    holds_at="no noise; it takes a protocol",
)
"""The row of the person who holds all records."""


def record_statement(
    rows: Rows, view: str, text: str, *, claimed: str, epsilon: float, delta: float, holds_at: str = "this noise"
) -> tuple[Claim, ...]:
    """Return the statement of a baseline whose release hides a record.

    Parameters
    ----------
    rows : Rows
        The proof's source and assumptions.
    view, text, claimed, holds_at : str
        As in a :class:`~masquerade_core.privacy.statement.Claim`.
    epsilon, delta : float
        The proved numbers.
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
    return (released, WHOEVER_COMPUTES, PARTY_UNIT)


def target_claim(epsilon: float, delta: float) -> str:
    """Return the claim of a study with ``calibration = "proven"``."""
    return f"approximate, epsilon = {epsilon:g}, delta = {delta:g}: the privacy target"
