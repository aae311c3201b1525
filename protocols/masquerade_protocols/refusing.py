"""Side channels that no proof counts: that a party refuses, and when its frames leave."""

from dataclasses import replace

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.entry import Protocol

__all__ = ["NO_REFUSAL", "NO_TIMES", "with_refusals", "with_times"]

NO_REFUSAL = (
    'no party refused to take part because of a record: with out_of_bounds = "refuse" everybody would see that it did, '
    'and no row counts this information; out_of_bounds = "clamp" needs no such assumption'
)
"""The assumption of every proof where a record that does not fit makes a party refuse."""

NO_TIMES = (
    "the times of messages are not covered: an observer of answer times learns roughly how many records a party has; "
    "slot_seconds in [study] lets answers leave on a public schedule"
)
"""The sentence of every row where a study has no public schedule."""


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


def with_times(entry: Protocol) -> Protocol:
    """Return a protocol's entry whose statement says that times are not covered, where a study has no ``slot_seconds``.

    Rows without a proof say it as well, since in some statements there are no others.
    """

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.study.slot_seconds is not None:
            return rows
        return tuple(replace(row, assumptions=(*row.assumptions, NO_TIMES)) for row in rows)

    return replace(entry, statement=statement)
