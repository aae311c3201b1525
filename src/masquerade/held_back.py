"""Whether a new study should hold records back to measure its model: where the answer would be worth having."""

import textwrap
from dataclasses import dataclass

from masquerade_core.errors import BadInput
from masquerade_core.evaluation import count_sd, counts_noise
from masquerade_core.learning.expected_intervals import expected_reach, records_needed
from masquerade_core.privacy.expectation import PROMISES, Expectation, shown

__all__ = ["SHARE", "Proposal", "propose"]

SHARE = 0.2
"""The share of records that a new study holds back."""

_LOST = 0.5  # what is expected where there would be no interval
_WORTH = 0.05  # an interval that reaches farther to each side is not worth a fifth of the records


@dataclass(frozen=True)
class Proposal:
    """The part of a new study about an evaluation.

    Parameters
    ----------
    section : str
        The section of the file, or a comment on why there is none; empty where there cannot be one.
    note : str
        The same for a screen: sentences, the last without a full stop.
    """

    section: str = ""
    note: str = ""


def propose(
    records: int,
    parties: int,
    colluders: int,
    epsilon: float,
    delta: float,
    *,
    survivors: int | None = None,
    retries: int = 0,
    without: Expectation | None = None,
    with_it: Expectation | None = None,
) -> Proposal:
    """Propose ``[evaluation]`` where its intervals would reach less than 5 points to each side, and enough is left.

    Enough is left where the model is promised half of what the columns tell from the records that are not held back.

    Parameters
    ----------
    records : int
        How many records all parties have together, as far as it is public.
    parties, colluders : int
    epsilon, delta : float
        The privacy target.
    survivors : int, optional
        The fewest parties that a sum may have; all of them by default.
    retries : int
        How many sums a run may make again.
    without, with_it : Expectation, optional
        The forecast for the model without the section, and with it. None where the protocol has no such forecast; then
        the intervals alone decide.
    """
    honest = (parties if survivors is None else survivors) - colluders
    if honest < 1:
        return Proposal()
    try:
        sd = count_sd(counts_noise(epsilon, delta, honest, retries=retries), parties)
    except BadInput:
        return Proposal()  # the study's own check says what is wrong
    held = int(SHARE * records)
    reach = expected_reach(held, sd) if held else 1.0
    least = 0 if with_it is None or with_it.s is None else with_it.enough_records or 0
    forecasts = _forecasts(without, with_it)
    if reach < _WORTH and records >= least:
        note = (
            f"[evaluation] holds {SHARE:.0%} of the records back to measure the model, for no more epsilon: intervals "
            f"of error and AUC would reach about {100 * reach:.1f} points to each side{forecasts}"
        )
        return Proposal(f"\n# {_wrapped(note)}.\n[evaluation]\nshare = {SHARE}\n", note)
    needed = records_needed(sd, _WORTH)
    enough = (
        f"about {_rounded(max(needed / SHARE, least)):,} records would do"
        if needed
        else "no number of records would do"
    )
    why = f"its intervals would reach {100 * reach:.0f} points to each side"
    if reach >= _LOST:
        why = "the AUC would be lost in the noise"
    elif reach < _WORTH:
        why = "the model would have too few to learn from"
    note = f"there is no [evaluation], since {why} with {records:,} records; {enough}{forecasts}"
    return Proposal(f"\n# {_wrapped(note[:1].upper() + note[1:])}.\n", note)


def _forecasts(without: Expectation | None, with_it: Expectation | None) -> str:
    """Return both forecasts as two more sentences; nothing where there are none by the measure s."""
    if without is None or with_it is None or without.s is None or with_it.s is None:
        return ""
    promised = PROMISES[without.verdict]
    other = "the same" if with_it.verdict is without.verdict else PROMISES[with_it.verdict]
    return f". Without it: {promised} (s = {shown(without.s)}). With it: {other} (s = {shown(with_it.s)})"


def _rounded(number: float) -> int:
    digits = max(0, len(str(int(number))) - 2)
    return int(-(-number // 10**digits) * 10**digits)


def _wrapped(text: str) -> str:

    return "\n# ".join(textwrap.wrap(text, 116))
