"""Whether joining was worth it, in a sentence: the released model beside each party's own, and beside the majority."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_core.privacy.expectation import Verdict
from masquerade_core.words import counted

__all__ = ["errs_less", "gained", "same_answer", "worth_it"]

_Wrong = NDArray[np.bool_]
_CERTAIN = 2.0  # standard errors
_HALF = 0.5


def worth_it(released: _Wrong, own: Mapping[str, _Wrong], majority: _Wrong) -> str:
    """Say for how many parties the released model is better than what they could learn alone.

    Parameters
    ----------
    released, majority : ndarray of bool, shape (n,)
        On which test records the released model errs, and on which the rule that always gives the more frequent label.
    own : mapping of str to ndarray
        The same of each party's own model.
    """
    errors = [float(np.mean(wrong)) for wrong in own.values()]
    K, best, worst = len(errors), min(errors), max(errors)
    alone = f"{best:.1%}" if f"{best:.1%}" == f"{worst:.1%}" else f"{best:.1%} to {worst:.1%}"
    theirs = f"the parties' own models in {alone}, and always the more frequent label in {np.mean(majority):.1%}"
    figures = f"the released model errs in {np.mean(released):.1%}, {theirs}"
    if not errs_less(released, majority):
        return f"Joining was not worth it, since the released model is no better than no model: {figures}."
    gains = sum(errs_less(released, wrong) for wrong in own.values())
    losses = sum(errs_less(wrong, released) for wrong in own.values())
    unclear = K - gains - losses
    if gains == K:
        return f"Joining was worth it for every party: {figures}."
    rest = [f"for {counted(losses, 'party', 'parties')} it was not"] * (losses > 0)
    rest += [f"for {unclear} the test set is too small to tell"] * (unclear > 0)
    also = f", and {_joined(rest)}" if rest else ""
    if gains:
        return f"Joining was worth it for {gains} of {K} parties{also}: {figures}."
    if losses == K:
        return f"Joining was worth it for no party: {figures}."
    if losses:
        return f"Joining was worth it for no party that the test set can tell: {figures}."
    return f"The test set is too small to tell whether joining was worth it: {figures}."


def gained(released: float, pooled: float, majority: float, forecast: Verdict | None) -> str:
    """Say how much of what the columns tell the released model tells, and what the forecast was.

    Parameters
    ----------
    released, pooled, majority : float
        Error rates: of the released model, of all records in one place, and of always the more frequent label.
    forecast : Verdict or None
        What was to be expected before the run.

    Returns
    -------
    str
        A sentence; empty where the columns tell nothing, and where half of what they tell was not forecast.
    """
    if pooled >= majority or forecast is not Verdict.HALF:
        return ""
    gain = (majority - released) / (majority - pooled)
    kept = "it was" if gain >= _HALF else "it was not"
    return f"The forecast was at least half of what these columns tell without privacy, and {kept}: {gain:.0%}."


def _joined(parts: Sequence[str]) -> str:
    return ", and ".join(parts)


def errs_less(one: _Wrong, other: _Wrong) -> bool:
    """Return whether ``one`` errs less often, by more than chance on so many records explains.

    Only records on which one of the two errs tell them apart. If both were as good, each such record would be a fair
    coin, and the difference would have the standard deviation of its number's root.
    """
    fewer, more = int(np.sum(other & ~one)), int(np.sum(one & ~other))
    return fewer - more > _CERTAIN * math.sqrt(fewer + more)


def same_answer(answers: NDArray[np.float64], *, learned: str) -> str:
    """Say that nearly all test records have the same answer.

    Parameters
    ----------
    answers : ndarray, shape (n,)
        What the released model says.
    learned : str
        The label that most of them have, in words.
    """
    most = int(np.unique(answers, return_counts=True)[1].max())
    how_many = f"all {most:,}" if most == len(answers) else f"{most:,} of {len(answers):,}"
    return (
        f"The released model gives {how_many} test records the same answer, {learned}. Its answers tell nothing; its "
        "scores may still rank records."
    )
