"""The expected quality of a study's model, from public numbers alone and before anybody joins.

Noisy sums over N records are worth what s = N mu/sqrt(d) says. mu follows from the study's epsilon and delta, and d is
the number of coordinates. Add up a vector of length 1 of each record: one record, replaced, moves the sum by 2 at most.
So each coordinate needs noise of 2/mu, and the mean of the vectors has noise of length 2 sqrt(d)/(N mu) = 2/s. Beside
it, no mean is longer than 1.

A rare outcome leaves less to learn from. Where the study states the share p of the commoner label, x = 4p(1-p) s
stands for s: the variance of the label, beside that of two labels as frequent as each other. Without it, x is s.

What is promised from which x on was measured, on many data sets at several sizes and epsilons: ``docs/expectation.md``
has the figures. No failure is ever forecast, since few records with simple columns often do better than they must.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from masquerade_core.data.records import counted_to_learn_from
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.study import Study

__all__ = [
    "PROMISES",
    "Expectation",
    "ExpectedInterval",
    "Verdict",
    "counted_records",
    "expected_of_counts",
    "expected_of_sums",
    "rounded_up",
    "shown",
    "strength",
]

_HALF_FROM = 40.0
_BETTER_FROM = 6.0
_SMALL_COUNT_NOISE = 1 / 3  # three standard deviations: what the protocol for statistics shows by default


class Verdict(StrEnum):
    """The expected quality of a model, or of counts.

    Of a model from noisy sums over all records, ``HALF`` promises half of what could be learned without privacy at
    least. ``BETTER`` promises fewer errors than always the same answer makes, if the columns tell much. ``OPEN``
    promises nothing.

    Where another law holds, or something other than noise may keep a model from learning, ``UNSURE`` is a model whose
    quality depends on the records. ``NOISY`` is a model with much noise in it, and ``NOTHING`` one that the noise
    drowns.

    ``COEFFICIENTS`` are coefficients that can be told.

    ``COUNTS`` are counts that are large beside their noise, ``COARSE`` those that are not, and ``NOTHING`` stands for
    counts that are mostly noise.
    """

    HALF = "at least half"
    BETTER = "better than one answer"
    UNSURE = "uncertain"
    NOISY = "much noise"
    OPEN = "nothing promised"
    COEFFICIENTS = "coefficients with intervals"
    NOTHING = "nothing"
    COUNTS = "useful counts"
    COARSE = "coarse counts"


PROMISES = {
    Verdict.HALF: "expect at least half of what these columns tell without privacy",
    Verdict.BETTER: "expect better answers than always the same one if these columns tell much; how much better varies",
    Verdict.UNSURE: "expect a model whose quality depends on the records",
    Verdict.OPEN: "nothing can be promised, not even better answers than always the same one; look at the result",
}
"""The promise of a model's error for each verdict, without a full stop."""


@dataclass(frozen=True)
class ExpectedInterval:
    """About how wide a coefficient's interval will be.

    Parameters
    ----------
    name : str
        The coefficient's name in the released model.
    width : float or None
        From one limit to the other, in the column's own units; None where it probably cannot be told.
    odds : float or None
        How many times the lower limit of the odds ratio the upper one is; None with a linear model, and where that is
        a million or more.
    """

    name: str
    width: float | None
    odds: float | None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {"name": self.name, "width": self.width, "odds": self.odds}


@dataclass(frozen=True)
class Expectation:
    """The expected quality of a study's model.

    Parameters
    ----------
    verdict : Verdict
    text : str
        The same in plain words, with what would help.
    records : int
        The number of all records that was counted on.
    s : float or None
        The measure of this module; None for a protocol with another law.
    enough_records : int or None
        How many records are enough for the best verdict; None where that is not known.
    enough_epsilon : float or None
        An epsilon that is enough with the records there are; None where that is not known.
    ratio : float or None
        For a protocol with another law: the least that the noise can be, beside the most that can be learned. For
        counts: the noise beside an ordinary count.
    about : str
        What is released: a "model", or something else.
    intervals : tuple of ExpectedInterval
        For coefficients that can be told: one for each.
    assumed : str
        What was assumed of the records for these intervals: sentences.
    """

    verdict: Verdict
    text: str
    records: int
    s: float | None = None
    enough_records: int | None = None
    enough_epsilon: float | None = None
    ratio: float | None = None
    about: str = "model"
    intervals: tuple[ExpectedInterval, ...] = ()
    assumed: str = ""

    @property
    def poor(self) -> bool:
        """Whether nothing is promised of the model, much noise is certain, or most of the counts are noisy."""
        return self.verdict in {Verdict.NOISY, Verdict.OPEN, Verdict.NOTHING, Verdict.COARSE}

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {
            "verdict": str(self.verdict),
            "text": self.text,
            "records": self.records,
            "s": None if self.s is None else round(self.s, 3),
            "enough_records": self.enough_records,
            "enough_epsilon": self.enough_epsilon,
            "ratio": self.ratio,
            "about": self.about,
            "intervals": [interval.to_json() for interval in self.intervals],
            "assumed": self.assumed,
        }


def counted_records(study: Study) -> tuple[int, str]:
    """Return N and words for it: the study's ``expected_records`` or, without it, the minimum."""
    expected = study.study.expected_records
    if expected is not None:
        return expected, f"{expected:,} records"
    fewest = study.K * study.study.min_records
    return fewest, f"{fewest:,} records (min_records of each party, since [study] expected_records is left out)"


def strength(study: Study, N: int) -> float:
    """Return s = N mu/sqrt(d), times sqrt(h/K): all K parties add noise, of which h shares meet the privacy target.

    ``study`` must have a delta between 0 and 1.
    """
    mu = mu_of(study.privacy.epsilon, study.privacy.delta)
    return N * mu * math.sqrt(study.honest / study.K / study.d)


def expected_of_sums(study: Study, doubt: str = "") -> Expectation:
    """Return what can be expected of noisy sums over all records, whose noise is sized by mu and shared by the parties.

    Records that the study holds back to measure the model count in the number of all records, and in no sum.

    Parameters
    ----------
    study : Study
        With a delta between 0 and 1, as such a protocol's ``check`` demands.
    doubt : str
        What in the study may keep it from learning, however little noise there is: a sentence. Then the quality
        depends on the records, however many there are.
    """
    N, words = counted_records(study)
    held = N - counted_to_learn_from(study)
    s = strength(study, N - held)
    p = study.study.commoner_share
    x = s if p is None else 4 * p * (1 - p) * s
    enough_records = math.ceil(_HALF_FROM / x * N)
    mu_needed = _HALF_FROM / x * mu_of(study.privacy.epsilon, study.privacy.delta)
    enough_epsilon = rounded_up(epsilon_of(mu_needed, study.privacy.delta))
    verdict = Verdict.UNSURE if doubt and x >= _BETTER_FROM else _verdict(x)
    rare = "" if p is None else f", and with a share of p = {p:g} for the commoner label, x = 4p(1-p) s = {shown(x)}"
    remedy = f"{enough_records:,} records would do"
    if x < _HALF_FROM:
        remedy += f", or epsilon = {enough_epsilon:g}"
    if held:
        words += f", of which {held:,} are held back to measure the model"
    text = (
        f"With {words}, {PROMISES[verdict]}. The records outweigh the noise by s = N mu/sqrt(d) = {shown(s)}{rare}, "
        f"where {_HALF_FROM:g} is enough for half of what the columns tell: {remedy}." + (f" {doubt}" if doubt else "")
    )
    return Expectation(verdict, text, N, s, enough_records, enough_epsilon)


def expected_of_counts(study: Study, sd: float, bins: int, *, about: str, what: str, cure: str = "") -> Expectation:
    """Return what can be expected of noisy counts of all records, each of which falls into one of some bins.

    Parameters
    ----------
    study : Study
        With a delta between 0 and 1.
    sd : float
        The standard deviation of the noise on a count, in records: that of all parties' shares.
    bins : int
        How many bins the records spread over.
    about : str
        What is released: "statistics".
    what : str
        What the bins are: "the column 'age'".
    cure : str
        What would help, apart from more records and a larger epsilon.
    """
    N, words = counted_records(study)
    usual = N / bins
    ratio = sd / usual
    verdict = Verdict.COUNTS if ratio <= _SMALL_COUNT_NOISE else Verdict.COARSE if ratio < 1 else Verdict.NOTHING
    measured = (
        f"Every count carries noise of standard deviation {shown(sd)}, and the {bins} bins of {what} hold "
        f"{shown(usual)} records each on average."
    )
    enough_records = math.ceil(sd * bins / _SMALL_COUNT_NOISE)
    needed = ratio / _SMALL_COUNT_NOISE * mu_of(study.privacy.epsilon, study.privacy.delta)
    enough_epsilon = rounded_up(epsilon_of(needed, study.privacy.delta))
    remedy = (
        ""
        if verdict is Verdict.COUNTS
        else f" {enough_records:,} records would do, or epsilon = {enough_epsilon:g}{cure}."
    )
    text = f"With {words}, expect {_COUNT_HEADS[verdict]} {measured}{remedy}"
    return Expectation(verdict, text, N, None, enough_records, enough_epsilon, ratio, about)


_COUNT_HEADS = {
    Verdict.COUNTS: "counts that show where the records lie.",
    Verdict.COARSE: "coarse counts: the noise is a good part of most of them.",
    Verdict.NOTHING: "nothing of the single counts: most of them are noise.",
}


def _verdict(x: float) -> Verdict:
    if x >= _HALF_FROM:
        return Verdict.HALF
    return Verdict.BETTER if x >= _BETTER_FROM else Verdict.OPEN


def rounded_up(value: float) -> float:
    """Return a number with two significant digits that is not smaller; 0 stays 0."""
    if value <= 0:  # as an epsilon where delta alone is enough
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def shown(s: float) -> str:
    """Return a measure as people read it: whole from 10 on, with two significant digits below."""
    return f"{s:,.0f}" if s >= 10 else f"{s:.2g}"  # noqa: PLR2004
