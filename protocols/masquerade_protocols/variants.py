"""Variants of any protocol: studies that pay for several attempts, and those whose parties have 64 neighbours each.

*Several attempts*, ``[study] charged_attempts``. After a run that failed when something had left already, another
attempt is another release. Such a study pays ahead for n = 1 + ``charged_attempts`` of them. The roles of each attempt
see a study with an n-th of epsilon and of delta, so they draw more noise. The privacy statement counts all n attempts
together: their costs add up.

*Neighbours.* Where parties share masks with 64 neighbours each, the study tolerates so many colluders as follow from
the graph. The masks hide all but the sum as long as they connect the parties that do not side with Charlie
(:mod:`masquerade_core.neighbours`). Fewer than 64 colluders never cut them apart, and such a study is as any other.
With more there is a chance of a cut. It is a part of the study's delta: the noise is sized for the rest. A study in
which that chance may exceed 2^-40 is refused.

The chance counts 2^40 tries of an attacker who grinds the coin, and the smallest set of parties that a sum may have.

Under double masks each party has as many neighbours as keep the chance at 2^-40 (:mod:`masquerade_core.thresholds`).
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from masquerade_core.cuts import GRINDING_BITS, delta_of_cut, most_corrupt
from masquerade_core.errors import BadInput
from masquerade_core.neighbours import NEIGHBOURS
from masquerade_core.privacy.accounting import Cost
from masquerade_core.privacy.statement import COMPUTATIONAL, NONE, Claim, shown, without_numbers
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import has_double_masks
from masquerade_protocols.entry import Explanation, Protocol, paragraphs

__all__ = [
    "LARGEST_CHANCE",
    "chance_of_cut_in",
    "with_attempts",
    "with_neighbours",
]


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


# --- Neighbours ---------------------------------------------------------------------


LARGEST_CHANCE = 2.0**-40
"""A study whose colluders may cut others off with a larger chance is refused."""


_CUT = """
With {t} parties on his side, Charlie finds such a coin with a chance of {chance} at most, even if he tries 2^{tries} of
them. That chance is a part of delta. It counts on sides that were taken before the coin is drawn.
"""


def _has_neighbours(study: Study) -> bool:
    if has_double_masks(study):
        from masquerade_protocols.blocks.double_masks import thresholds_of

        return thresholds_of(study).neighbours + 1 < study.K
    return study.crypto.sum == "masks" and study.K > NEIGHBOURS + 1


def chance_of_cut_in(study: Study) -> float:
    """Return the chance with which the study's colluders cut other parties off; 0 where they cannot."""
    if has_double_masks(study):
        return LARGEST_CHANCE if _has_neighbours(study) and study.privacy.colluders else 0.0
    if not _has_neighbours(study) or study.privacy.colluders < NEIGHBOURS:
        return 0.0
    return _worst(max(study.survivors, NEIGHBOURS + 2), study.K, study.privacy.colluders)


@lru_cache(maxsize=64)
def _worst(fewest: int, most: int, colluders: int) -> float:
    """Return the largest chance over all sizes of the set that a sum may have."""
    return max(delta_of_cut(n, colluders) for n in range(fewest, most + 1))


def with_neighbours(entry: Protocol) -> Protocol:
    """Return a protocol's entry that also takes a study with more than 65 parties and masked sums.

    Where a study has fewer parties, or fewer than 64 colluders, the entry does what it did before.
    """

    def check(study: Study) -> None:
        _check_colluders(study)
        entry.check(_without_the_chance(study))

    async def party(seat: Seat, study: Study, data: Any, **options: Any) -> Any:
        return await entry.party(seat, _without_the_chance(study), data, **options)

    async def charlie(seat: Seat, study: Study, **options: Any) -> Any:
        return await entry.charlie(seat, _without_the_chance(study), **options)

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(_without_the_chance(study))
        return tuple(_with_masks(row, study) for row in rows) if _has_neighbours(study) else rows

    def explain(study: Study) -> Explanation:
        said = entry.explain(study)
        if not (chance := chance_of_cut_in(study)) or has_double_masks(study):
            return said
        words = {"t": study.privacy.colluders, "chance": f"{chance:.2g}", "tries": GRINDING_BITS}
        return replace(said, collusion=(*said.collusion, *paragraphs(_CUT, words)))

    expectation = entry.expectation
    return replace(
        entry,
        check=check,
        explain=explain,
        party=party,
        charlie=charlie,
        statement=statement,
        spends=lambda study: entry.spends(_without_the_chance(study)),
        cost=lambda study: entry.cost(_without_the_chance(study)),
        expectation=None if expectation is None else lambda study: expectation(_without_the_chance(study)),
    )


def _check_colluders(study: Study) -> None:
    """Refuse colluders that 64 neighbours do not bear, or a delta that is no larger than the chance of a cut."""
    chance, t = chance_of_cut_in(study), study.privacy.colluders
    if chance > LARGEST_CHANCE:
        fewest = max(study.survivors, NEIGHBOURS + 2)
        bears = min(most_corrupt(n, LARGEST_CHANCE) for n in {fewest, study.K})
        raise BadInput(
            f"[privacy] colluders is {t}, but can be at most {bears} here: each party shares masks with {NEIGHBOURS} "
            f"others, and more colluders could cut some off with a chance of more than 2^-{GRINDING_BITS}",
            "lower colluders, or raise [dropouts] min_survivors" if study.dropouts else "lower colluders",
        )
    if chance >= study.privacy.delta and chance > 0 and has_double_masks(study):
        raise BadInput(
            f"[privacy] delta is {study.privacy.delta:g}, but must be more than {chance:.2g}: with such a chance {t} "
            "colluders break double masks",
            "choose a larger delta, or set colluders to 0",
        )
    if chance >= study.privacy.delta and chance > 0:
        raise BadInput(
            f"[privacy] delta is {study.privacy.delta:g}, but must be more than {chance:.2g}: with such a chance {t} "
            f"colluders cut others off, who share masks with {NEIGHBOURS} parties each",
            f"choose a larger delta, or set colluders to {NEIGHBOURS - 1} or less",
        )


def _without_the_chance(study: Study) -> Study:
    """Return the study whose delta is what is left for the noise."""
    if not (chance := chance_of_cut_in(study)):
        return study
    left = study.privacy.model_copy(update={"delta": study.privacy.delta - chance})
    return study.model_copy(update={"privacy": left})


def _with_masks(row: Claim, study: Study) -> Claim:
    """Return a row with what it assumes of neighbours, and with the chance of a cut in its delta."""
    if row.epsilon is None or row.delta is None:
        return row
    chance, assumed = chance_of_cut_in(study), row.assumptions
    masked = row.definition == COMPUTATIONAL
    if masked:
        assumed = (*assumed, _double_assumption(study, chance) if has_double_masks(study) else _assumption(chance))
    noise, whole = _without_the_chance(study).privacy.delta, study.privacy.delta
    if not chance or (row.delta != noise and not masked):
        return replace(row, assumptions=assumed)
    delta = whole if row.delta == noise else min(row.delta + chance, 1 - 2.0**-53)
    return replace(
        row,
        assumptions=assumed,
        delta=delta,
        provable=row.provable.replace(f"delta = {row.delta:g}", f"delta = {delta:g}"),
        claimed=row.claimed.replace(f"delta = {noise:g}", f"delta = {whole:g}"),
        text=row.text.replace(f"delta = {noise:g}", f"delta = {whole:g}"),
    )


def _assumption(chance: float) -> str:
    drawn = f"each party shares masks with {NEIGHBOURS} others, whom a public coin draws after everybody has joined"
    if not chance:
        return f"{drawn}; fewer than {NEIGHBOURS} parties side with Charlie, and so they cut nobody off from the others"
    return (
        f"{drawn}; who sides with Charlie did so before that, and a part of delta, {chance:.2g}, is the chance that "
        f"they cut others off, even if they try 2^{GRINDING_BITS} coins"
    )


def _double_assumption(study: Study, chance: float) -> str:
    from masquerade_protocols.blocks.double_masks import thresholds_of

    sizes = thresholds_of(study)
    drawn = (
        f"{sizes.neighbours} others, whom a public coin draws after everybody has joined, hold shares of each party's "
        f"masks, and {sizes.threshold} of them open one of the two"
    )
    if not chance:
        return f"{drawn}; no party sides with Charlie"
    return (
        f"{drawn}; who sides with Charlie did so before that, and a part of delta, {chance:.2g}, is the chance that "
        f"they open more than one sum a round, even if they try 2^{GRINDING_BITS} coins"
    )
