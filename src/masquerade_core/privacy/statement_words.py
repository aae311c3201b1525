"""Words and numbers of privacy statements: bounds as digits, what an epsilon allows, which delta is too large."""

import math
from collections.abc import Callable

__all__ = [
    "ALL_FOLLOW",
    "NOT_PROMISED",
    "digits",
    "gained",
    "honest_noise",
    "large_delta",
    "not_promised",
    "odds",
    "shown",
    "without_numbers",
]

NOT_PROMISED = "not promised"

ALL_FOLLOW = (
    "everybody follows the protocol, except where a line says that somebody breaks it; honest parties draw their share "
    "of the noise"
)
"""An assumption of all rows of a statement in which a row's adversary breaks the protocol."""

_CERTAIN = 20.0  # an epsilon beyond which a percentage has more nines than anybody reads


def gained(epsilon: float, delta: float = 0.0, *, about: str = "one record") -> str:
    """Return what somebody gains at most who sees a release that keeps (epsilon, delta), as two sentences.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    about : str
        Whose data the guess is about.
    """
    factor = f"e^epsilon = {digits(math.exp(epsilon))}" if epsilon <= _CERTAIN else "e^epsilon"
    slack = f", up to a slack in probability of delta = {delta:g}" if delta > 0 else ""
    then = (
        f"A guess that was 50 % likely to be right is at most {odds(epsilon)} likely afterwards."
        if epsilon <= _CERTAIN
        else "So much allows a guess to become all but certain."
    )
    return (
        f"The odds of any guess about {about} change by at most a factor {factor}, as epsilon = {digits(epsilon)}"
        f"{slack}. {then}"
    )


def odds(epsilon: float) -> str:
    """Return how likely a guess is at most, in percent, after a release with this epsilon, if it was 50 % before.

    It is 1/(1 + exp(-epsilon)), with two significant digits of its distance from 50 % or from 100 %.

    Parameters
    ----------
    epsilon : float
        0 to some 30: beyond that, no float tells the result from 100 %.
    """
    sure, left = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    nearest = min(sure - 0.5, left)
    places = max(0, 1 - math.floor(math.log10(100 * nearest))) if nearest > 0 else 0
    return f"{100 * sure:.{places}f} %"


def honest_noise(parties: int) -> str:
    """Return "the noise of one honest party", "the noise of 3 honest parties": the part that an adversary misses."""
    return "the noise of one honest party" if parties == 1 else f"the noise of {parties} honest parties"


def large_delta(delta: float, units: int, unit: str = "record") -> str:
    """Return a warning to append to a row's text, or "" where delta is less than 1/``units``.

    A delta of 1/n or more allows a protocol to publish one of n records, so it promises little.

    Parameters
    ----------
    delta : float
        The delta of a guarantee.
    units : int
        The smallest number of records, or of parties, that the study allows.
    unit : str
        "record" or "party".
    """
    if delta * units < 1:
        return ""
    few = f"The study allows for as few as {units:,} records" if unit == "record" else f"There are {units:,} parties"
    own = "that record" if unit == "record" else "all records of that party"
    return (
        f" Note delta = {delta:g}: it is not less than 1/{units:,}. {few}. For each of them, a protocol could publish "
        f"{own} with this probability and still meet the target."
    )


def digits(value: float, rounded: Callable[[float], int] = math.ceil) -> str:
    """Return four significant digits of a bound, rounded up, so that it never looks smaller than it is.

    Parameters
    ----------
    value : float
        Shown as 0 where it is not greater than 0.
    rounded : callable
        ``math.floor`` for a number that must not look larger than it is.
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    scaled = value / unit
    nearest = round(scaled)  # the error of the division must not turn 1 into 1.001
    return f"{(nearest if abs(scaled - nearest) < 1e-9 else rounded(scaled)) * unit:.4g}"  # noqa: PLR2004


def without_numbers(text: str) -> str:
    """Return a row's text without the sentences that name an epsilon or a delta, for a row that has none."""
    sentences = text.split(". ")
    return ". ".join(s for s in sentences if "epsilon = " not in s and "delta = " not in s).removesuffix(".") + "."


def shown(epsilon: float, delta: float) -> str:
    """Return "epsilon = 1.5, delta = 0.0001"."""
    return f"epsilon = {digits(epsilon)}, delta = {delta:g}"


def not_promised(found: tuple[float, float] | None) -> str:
    """Return what a study claims of a view that it does not count on: nothing, whatever ``found`` is proved."""
    return f"{NOT_PROMISED}; nothing is proved" if found is None else f"{NOT_PROMISED}; proved anyway: {shown(*found)}"
