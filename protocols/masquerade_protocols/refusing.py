"""What a study that refuses records costs: a refusal tells others of a record, and no proof counts that."""

from dataclasses import replace

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.entry import Protocol

__all__ = ["NO_REFUSAL", "with_refusals"]

NO_REFUSAL = (
    'no party refused to take part because of a record: with out_of_bounds = "refuse" everybody would see that it did, '
    'and no row counts what this tells; out_of_bounds = "clamp" needs no such assumption'
)
"""What every proof assumes where a record that does not fit makes a party refuse."""


def with_refusals(entry: Protocol) -> Protocol:
    """Return a protocol's entry whose proofs name what they assume of refusals, where a study's records can cause one.

    Where the study clamps, the entry says what it said before.
    """

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.study.out_of_bounds == "clamp":
            return rows
        return tuple(
            row if row.epsilon is None else replace(row, assumptions=(*row.assumptions, NO_REFUSAL)) for row in rows
        )

    return replace(entry, statement=statement)
