"""Studies that pay for more than one attempt: ``[study] charged_attempts``.

After a run that failed when something had left already, another attempt is another release. Such a study pays ahead
for n = 1 + ``charged_attempts`` of them. The roles of each attempt see a study with an n-th of epsilon and of delta, so
they draw more noise. The privacy statement counts all n attempts together: their costs add up.
"""

import math
from dataclasses import replace
from typing import Any

from masquerade_core.privacy.accounting.composition import Cost
from masquerade_core.privacy.statement import NONE, Claim, shown, without_numbers
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.entry import Explanation, Protocol, paragraphs

__all__ = ["with_attempts"]

_COST = """
What stands above is the cost of one attempt. The study pays for {attempts}, in case that a run fails when something has
left already. Together they cost at most epsilon = {epsilon:g} and delta = {delta:g}, and so much of your budget is
reserved.
"""


def with_attempts(entry: Protocol) -> Protocol:
    """Return a protocol's entry that also takes a study with ``charged_attempts``.

    Where a study has none, the entry says and does what it did before.
    """

    def check(study: Study) -> None:
        entry.check(study.one_attempt())

    async def party(seat: Seat, study: Study, data: Any, **options: Any) -> Any:
        return await entry.party(seat, study.one_attempt(), data, **options)

    async def charlie(seat: Seat, study: Study, **options: Any) -> Any:
        return await entry.charlie(seat, study.one_attempt(), **options)

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study.one_attempt())
        return tuple(_of_all(row, study) for row in rows) if study.study.charged_attempts else rows

    def explain(study: Study) -> Explanation:
        said, n = entry.explain(study.one_attempt()), 1 + study.study.charged_attempts
        if n == 1:
            return said
        words = {"attempts": counted(n, "attempt"), **study.privacy.model_dump(include={"epsilon", "delta"})}
        return replace(said, cost=(*said.cost, *paragraphs(_COST, words)))

    def spends(study: Study) -> Cost:
        n, one, whole = 1 + study.study.charged_attempts, entry.spends(study.one_attempt()), entry.spends(study)
        if n == 1:
            return whole
        return Cost(
            _times(n, one.epsilon, whole.epsilon),
            _times(n, one.delta, whole.delta),
            math.isqrt(n * one.mu**2) + 1 if one.mu else 0,
            n * one.slack,
        )

    expectation = entry.expectation
    return replace(
        entry,
        check=check,
        party=party,
        charlie=charlie,
        statement=statement,
        explain=explain,
        spends=spends,
        cost=lambda study: entry.cost(study.one_attempt()),
        expectation=None if expectation is None else lambda study: expectation(study.one_attempt()),
    )


def _times(n: int, one: int, whole: int) -> int:
    """Return n times ``one``; or ``whole``, if that is the same but for the rounding of an n-th."""
    return whole if abs(n * one - whole) <= n else n * one


def _of_all(row: Claim, study: Study) -> Claim:
    """Return a row about all attempts together."""
    n, one = 1 + study.study.charged_attempts, study.one_attempt().privacy
    if row.epsilon is None or row.delta is None:
        return row
    epsilon = study.privacy.epsilon if row.epsilon == one.epsilon else n * row.epsilon
    delta = study.privacy.delta if row.delta == one.delta else n * row.delta
    claimed = f"for each of {n} attempts: {row.claimed}"
    if delta >= 1:
        none: dict[str, Any] = {
            "definition": NONE,
            "provable": NONE,
            "epsilon": None,
            "delta": None,
            "source": "by inspection",
        }
        return replace(row, claimed=claimed, text=without_numbers(row.text), **none)
    text = (
        f"{row.text} This row counts {counted(n, 'attempt')}, for which the study pays: each keeps {row.provable}, and "
        "their costs add up."
    )
    return replace(row, claimed=claimed, provable=shown(epsilon, delta), epsilon=epsilon, delta=delta, text=text)
