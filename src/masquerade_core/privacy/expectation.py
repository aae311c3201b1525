"""The expected quality of a study's model, from public numbers alone and before anybody joins.

Noisy sums over N records are worth what s = N mu/sqrt(d) says. mu follows from the study's epsilon and delta, and d is
the number of coordinates. Add up a vector of length 1 of each record: one record, replaced, moves the sum by 2 at most.
So each coordinate needs noise of 2/mu, and the mean of the vectors has noise of length 2 sqrt(d)/(N mu) = 2/s. Beside
it, no mean is longer than 1.

The two limits were measured: six methods on a dozen public data sets, at several sizes and epsilons. From s = 40 on,
the best of them were never worse than the majority's rule by more than a point. Below s = 20 they ranked records, and
often answered always the same.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.study import Study

__all__ = [
    "Expectation",
    "Verdict",
    "counted_records",
    "expected_of_counts",
    "expected_of_sums",
    "rounded_up",
    "strength",
]

USEFUL_FROM = 40.0
"""s from which a model has a useful threshold."""

_SMALL_COUNT_NOISE = 1 / 3  # three standard deviations: what the protocol for statistics shows by default

_UNSURE_FROM = 20.0
_RANKS_FROM = 5.0  # noise of length .4 on a mean of vectors of length 1: what is left differs from set to set


class Verdict(StrEnum):
    """The expected quality of a model, or of counts.

    ``USEFUL`` is a model whose answers yes and no can be used. ``UNSURE`` is perhaps such a model. ``RANKS`` is a model
    whose scores rank records, with a threshold that is often useless. ``NOTHING`` is a model that the noise drowns.

    ``COEFFICIENTS`` are coefficients that can be told.

    ``COUNTS`` are counts that are large beside their noise, ``COARSE`` those that are not, and ``NOTHING`` stands for
    counts that are mostly noise.
    """

    USEFUL = "useful threshold"
    UNSURE = "uncertain"
    RANKS = "ranks only"
    COEFFICIENTS = "coefficients with intervals"
    NOTHING = "nothing"
    COUNTS = "useful counts"
    COARSE = "coarse counts"


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
        How many records make a useful threshold; None where that is not known.
    enough_epsilon : float or None
        An epsilon that makes a useful threshold with the records there are; None where that is not known.
    ratio : float or None
        For a protocol with another law: the least that the noise can be, beside the most that can be learned. For
        counts: the noise beside an ordinary count.
    about : str
        What is released: a "model", or something else.
    """

    verdict: Verdict
    text: str
    records: int
    s: float | None = None
    enough_records: int | None = None
    enough_epsilon: float | None = None
    ratio: float | None = None
    about: str = "model"

    @property
    def poor(self) -> bool:
        """Whether the model's answers yes and no, or most of the counts, cannot be relied on."""
        return self.verdict in {Verdict.RANKS, Verdict.NOTHING, Verdict.COARSE}

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

    Parameters
    ----------
    study : Study
        With a delta between 0 and 1, as such a protocol's ``check`` demands.
    doubt : str
        What in the study may keep it from learning, however little noise there is: a sentence. Then a useful threshold
        is uncertain.
    """
    N, words = counted_records(study)
    s = strength(study, N)
    enough_records = math.ceil(USEFUL_FROM / s * N)
    mu_needed = USEFUL_FROM / s * mu_of(study.privacy.epsilon, study.privacy.delta)
    enough_epsilon = rounded_up(epsilon_of(mu_needed, study.privacy.delta))
    verdict = Verdict.UNSURE if doubt and s >= _UNSURE_FROM else _verdict(s)
    measured = (
        f"The records outweigh the noise by s = N mu/sqrt(d) = {_shown(s)}, where {USEFUL_FROM:g} is enough for a "
        "useful threshold"
    )
    if s >= USEFUL_FROM:
        remedy = f"{enough_records:,} records would do."
    else:
        remedy = f"{enough_records:,} records would do, or epsilon = {enough_epsilon:g}."
    text = f"With {words}, expect {_HEADS[verdict]} {measured}: {remedy}" + (f" {doubt}" if doubt else "")
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
        f"Every count carries noise of standard deviation {_shown(sd)}, and the {bins} bins of {what} hold "
        f"{_shown(usual)} records each on average."
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

_HEADS = {
    Verdict.USEFUL: "a model with a useful threshold: its answers yes and no can be used.",
    Verdict.UNSURE: "a model that ranks records, and perhaps a useful threshold.",
    Verdict.RANKS: "a model that ranks records only: it may give all of them the same answer.",
    Verdict.NOTHING: "nothing: the noise drowns what so few records tell.",
}


def _verdict(s: float) -> Verdict:
    if s >= USEFUL_FROM:
        return Verdict.USEFUL
    if s >= _UNSURE_FROM:
        return Verdict.UNSURE
    return Verdict.RANKS if s >= _RANKS_FROM else Verdict.NOTHING


def rounded_up(value: float) -> float:
    """Return a number with two significant digits that is not smaller; 0 stays 0."""
    if value <= 0:  # as an epsilon where delta alone is enough
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def _shown(s: float) -> str:
    return f"{s:,.0f}" if s >= 10 else f"{s:.2g}"  # noqa: PLR2004
