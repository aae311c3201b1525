"""Rows of a privacy statement about several records together: those of one person, and those of a whole party.

Noise is sized for one record. What it hides of m records follows from what it hides of one (*group privacy*). If one
record is hidden as Gaussian noise hides it, with mu = Delta/sigma, then m records are hidden with m mu, exactly (Dong,
Roth and Su 2022, Theorem 2.14). Of any other guarantee (epsilon, delta) only a weaker one follows: m epsilon, with
delta (exp(m epsilon) - 1)/(exp(epsilon) - 1).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.statement import NONE, Claim, digits, gained, not_promised, shown
from masquerade_core.study import Study

__all__ = [
    "ABSURD",
    "PARTY",
    "PERSON",
    "Bound",
    "Law",
    "Target",
    "group_bound",
    "proven_settings",
    "several_records",
    "target_of_one",
]

ABSURD = 20.0
"""An epsilon from which on a statement says "none": a guess could become all but certain."""

PARTY, PERSON = "party", "person"
"""The units of the rows."""

_MOST = 700.0  # the exponential of more is no float

Bound = tuple[float, float] | None
"""(epsilon, delta), or None where nothing is proved."""


Law = Literal["gaussian", "pure", "any"]
"""How the cost of several records follows from that of one."""

_RULES: dict[Law, str] = {
    "gaussian": "Gaussian noise hides {size} records together like one record with noise that is {size} times smaller.",
    "pure": "{size} records together move a sum {size} times as far as one, and cost as much as one record with noise "
    "that is {size} times smaller.",
    "any": "{size} records together cost at most {size} times the epsilon of one, and delta grows as well.",
}


class Target(NamedTuple):
    """A privacy target for one record with which several records keep the study's."""

    epsilon: float
    delta: float


def group_bound(epsilon: float, delta: float, size: int) -> Bound:
    """Return what (epsilon, delta) for one record guarantees for ``size`` records; None where delta would reach 1."""
    if size * epsilon > _MOST:
        return None
    growth = float(size) if epsilon == 0 else math.expm1(size * epsilon) / math.expm1(epsilon)
    spent = delta * growth * (1 + 1e-12)
    return (size * epsilon, spent) if spent < 1 else None


def several_records(
    study: Study,
    row: Claim,
    bound: Callable[[int], Bound] | None = None,
    *,
    law: Law = "gaussian",
    settings: Callable[[Target], str] | None = None,
    settings_law: Law | None = None,
) -> tuple[Claim, ...]:
    """Return the rows about the records of one person, where the study counts on several, and of a whole party.

    Parameters
    ----------
    study : Study
        Says how many records a person may have, and how many a party has at least.
    row : Claim
        What is proved of one record, in the same view.
    bound : callable, optional
        size -> (epsilon, delta), or None, for so many records. By default it follows from ``row`` alone.
    law : str
        Of the noise, where ``bound`` is given: "gaussian", or "pure" for noise whose epsilon grows with the shift.
    settings : callable, optional
        A :class:`Target` for one record -> the settings with which a study keeps it. By default epsilon and delta.
    settings_law : str, optional
        Of the noise that those settings ask for, where it is another.
    """
    known = law if bound else "any"

    def found(size: int) -> Bound:
        if row.epsilon is None or row.delta is None:
            return None
        return bound(size) if bound else group_bound(row.epsilon, row.delta, size)

    def about(size: int, unit: str, neighbours: str, whose: str) -> Claim:
        target = target_of_one(study, size, settings_law or known)
        text = f"The noise is sized for one record. {whose} {_RULES[known].format(size=f'{size:,}')}"
        holds_at = f"{(settings or _target)(target)} in the study"
        view = f"{row.view}, {'all' if unit == PARTY else f'{size:,}'} records of one {unit}"
        named = replace(row, view=view, unit=unit, neighbours=neighbours, holds_at=holds_at, text=text)
        return _with_numbers(named, found(size), f"the {size:,} records of one {unit}")

    people, fewest = study.study.records_per_person, study.study.min_records
    party = about(
        fewest,
        PARTY,
        "replace all records of one party, all sizes fixed",
        f"A party has {fewest:,} records or more. This row is about a party of just this size; a party with more is "
        "hidden less.",
    )
    if people == 1:
        return (party,)
    person = about(
        people,
        PERSON,
        f"replace all {people:,} records of one person, all sizes fixed",
        f"A person may have {people:,} records in this study, with one party or several.",
    )
    return (person, party)


def _with_numbers(row: Claim, found: Bound, about: str) -> Claim:
    """Return a row with what is proved; "none" where that allows a guess to become certain."""
    if found is None or found[0] > ABSURD:
        why = (
            f"The resulting epsilon = {digits(found[0])} allows a guess to become all but certain."
            if found
            else "The resulting epsilon is so large that delta would reach 1, and a delta of 1 allows everything."
            if row.epsilon is not None
            else "Nothing is proved of one record, so nothing is proved of several."
        )
        return replace(
            row,
            definition=NONE,
            claimed=not_promised(None),
            provable=NONE,
            epsilon=None,
            delta=None,
            assumptions=(),
            text=f"{row.text} {why} So the statement promises nothing about {about}: none.",
        )
    epsilon, delta = found
    return replace(
        row,
        claimed=not_promised(found),
        provable=shown(epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        text=f"{row.text} {gained(epsilon, delta, about=about)}",
    )


def target_of_one(study: Study, size: int, law: Law) -> Target:
    """Return a target for one record with which ``size`` records together keep the study's; rounded down.

    Parameters
    ----------
    study : Study
    size : int
        How many records.
    law : str
        How the cost of several records follows from that of one: "gaussian", "pure", or "any".
    """
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if law == "gaussian" and delta > 0:
        enough = epsilon_of(mu_of(epsilon, delta) / size, delta)
        return Target(float(digits(enough * (1 - 1e-6), math.floor)), delta)
    if law != "pure":  # size times epsilon/size is epsilon, and delta grows by less than size exp(epsilon)
        delta = float(digits(delta / (size * math.exp(min(epsilon, _MOST))), math.floor))
    return Target(float(digits(epsilon / size, math.floor)), delta)


def proven_settings(target: Target) -> str:
    """Return the settings of a study that keeps this target with proven noise."""
    return f'calibration = "proven", {_target(target)}'


def _target(target: Target) -> str:
    """Return the settings of a study that keeps this target."""
    return f"epsilon = {target.epsilon:g}" + (f" and delta = {target.delta:g}" if target.delta > 0 else "")
