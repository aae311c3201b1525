"""How good a model is, from noisy counts of the records that were held back, by label and bin of score.

All of it is computed from what is opened, so it costs no privacy beyond the counts. A count is that of one label in one
bin; the noise on each has the same known standard deviation tau. Every participant computes the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.intervals import (
    UNKNOWN,
    Estimate,
    around,
    fraction_of,
    on_logit_scale,
    share_of,
    z_value,
)
from masquerade_core.learning.score_bins import Bins

__all__ = ["Confusion", "Counts", "Evaluation", "Group", "Noisy", "evaluate"]

_Array = NDArray[np.float64]

_DIGITS = 6
_DOUBT = 0.5  # of the correction for ties, which is of first order: so much of it counts as one standard deviation
_RARE = 0.01  # an answer that so few records get hardly ever comes


class Noisy(NamedTuple):
    """An opened number, and the variance of the noise on it."""

    value: float
    variance: float


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy counts of the records held back.

    Parameters
    ----------
    positive, negative : ndarray of float64
        For each bin, from the lowest scores up: the records with the positive and with the other label.
    variance : float
        tau^2, the variance of the noise on each count.
    records : int
        How many records were held back: exact, and public.
    bins : Bins
    squares : Noisy or None
        The sum of all (probability - label)^2; None where scores give no probabilities.
    """

    positive: _Array
    negative: _Array
    variance: float
    records: int
    bins: Bins
    squares: Noisy | None

    @property
    def candidates(self) -> int:
        """How many thresholds there are."""
        return len(self.bins.cuts)


@dataclass(frozen=True)
class Confusion:
    """What the model does with one threshold: a record with a higher score is answered with the positive label.

    Parameters
    ----------
    score : float
        The threshold.
    true_positives, false_positives, false_negatives, true_negatives : float
        The confusion matrix: noisy numbers of records, which may be negative or fractions.
    answered : Estimate
        The share of all records that get the positive answer.
    error : Estimate
        The share of all records that are answered wrongly.
    sensitivity, specificity : Estimate
        The share of the positive records that are found, and that of the others that are let pass.
    precision : Estimate
        The share of the positive answers that are right.
    f1 : Estimate
        2 TP/(2 TP + FP + FN).
    """

    score: float
    true_positives: float
    false_positives: float
    false_negatives: float
    true_negatives: float
    answered: Estimate
    error: Estimate
    sensitivity: Estimate
    specificity: Estimate
    precision: Estimate
    f1: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {
            name: value.to_json() if isinstance(value, Estimate) else round(value, _DIGITS)
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Group:
    """The records of one bin: a point of the calibration curve.

    Parameters
    ----------
    low, high : float or None
        The scores between which they lie; None where the bin is open.
    predicted : float
        The probability that the model gives them: the logistic link at the middle of the bin.
    observed : Estimate
        The share of positive records among them.
    records : float
        Their noisy number.
    """

    low: float | None
    high: float | None
    predicted: float
    observed: Estimate
    records: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        ends = {
            name: None if end is None else round(end, _DIGITS) for name, end in (("low", self.low), ("high", self.high))
        }
        return {
            **ends,
            "predicted": round(self.predicted, _DIGITS),
            "observed": self.observed.to_json(),
            "records": round(self.records, _DIGITS),
        }


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on records that it has not seen.

    Parameters
    ----------
    records : int
        How many records were held back, at all parties together.
    noise_sd : float
        tau, the standard deviation of the noise on each count, in records.
    positive_share : Estimate
        The share of records with the positive label.
    auc : Estimate
        The chance that a positive record has a higher score than another one. Half of a tie counts.
    majority_error : float
        The error of whoever always gives the answer that is right more often.
    advantage : Estimate
        That error less the model's. The interval may reach below 0, to -1.
    brier : Estimate or None
        The mean of (probability - label)^2, the label being 0 or 1. None if scores give no probabilities.
    rule : str or float or None
        By which rule the threshold was chosen: "youden", "f1", the share of positive answers, or none.
    chosen : Confusion
        At the model's threshold. Where it was chosen from the same counts, the intervals hold for all thresholds at
        once, and so for the chosen one.
    curve : tuple of Confusion
        At every edge between bins: the points of the ROC and the precision-recall curve. Each interval is for itself.
    calibration : tuple of Group
        One for each bin; empty if scores give no probabilities.
    """

    records: int
    noise_sd: float
    positive_share: Estimate
    auc: Estimate
    majority_error: float
    advantage: Estimate
    brier: Estimate | None
    rule: str | float | None
    chosen: Confusion
    curve: tuple[Confusion, ...]
    calibration: tuple[Group, ...]

    @property
    def threshold(self) -> float:
        """The score above which the model's answer is the positive label."""
        return self.chosen.score

    @property
    def same_answer(self) -> str:
        """The answer that nearly all records get, "positive" or "negative"; empty if there is none."""
        value = self.chosen.answered.value or 0.0
        return "negative" if value < _RARE else "positive" if value > 1 - _RARE else ""

    @property
    def better_than_majority(self) -> bool:
        """Whether it is shown that the model errs less than the same answer for every record."""
        return self.advantage.low > 0

    def to_json(self) -> dict[str, Any]:
        """Return the field ``evaluation`` of ``result.json``."""
        return {
            "records": self.records,
            "noise_sd": round(self.noise_sd, _DIGITS),
            "positive_share": self.positive_share.to_json(),
            "auc": self.auc.to_json(),
            "error": self.chosen.error.to_json(),
            "majority_error": round(self.majority_error, _DIGITS),
            "advantage": self.advantage.to_json(),
            "better_than_majority": self.better_than_majority,
            "same_answer": self.same_answer or None,
            "brier": None if self.brier is None else self.brier.to_json(),
            "threshold": {
                "rule": self.rule,
                "intervals": "each for itself" if self.rule is None else "for all thresholds at once",
                **self.chosen.to_json(),
            },
            "curve": [point.to_json() for point in self.curve],
            "calibration": [group.to_json() for group in self.calibration],
        }


def evaluate(counts: Counts, *, rule: str | float | None = None) -> Evaluation:
    """Estimate how good a model is.

    Parameters
    ----------
    counts : Counts
    rule : str or float or None
        How the threshold is chosen: the largest Youden index (sensitivity + specificity - 1), the largest F1, or the
        share of positive answers closest to a number. Without a rule it is a score of 0.
    """
    z = z_value()
    curve = tuple(_confusion(counts, at, z) for at in range(counts.candidates))
    at = counts.bins.edges.index(0.0) if rule is None else _choose(curve, rule)
    chosen = curve[at] if rule is None else _confusion(counts, at, z_value(counts.candidates))
    share = _positives(counts)
    middles = np.array(counts.bins.middles)
    predicted = 0.5 * (1 + np.tanh(middles / 2))
    prevalence = share_of(share, len(middles) * counts.variance / 2, counts.records, z)
    return Evaluation(
        records=counts.records,
        noise_sd=counts.variance**0.5,
        positive_share=prevalence,
        auc=_auc(counts, z),
        majority_error=min(prevalence.value or 0.0, 1 - (prevalence.value or 0.0)),
        advantage=_advantage(counts, at, z if rule is None else z_value(counts.candidates)),
        brier=_brier(counts, predicted, z),
        rule=rule,
        chosen=chosen,
        curve=curve,
        calibration=() if counts.squares is None else _calibration(counts, predicted, z),
    )


def _positives(counts: Counts) -> float:
    """Estimate the positive records in two ways, and take the mean: all records less the others are positive too."""
    return float(counts.positive.sum() + counts.records - counts.negative.sum()) / 2


def _confusion(counts: Counts, at: int, z: float) -> Confusion:
    """Return the confusion matrix at the edge ``at``."""
    cut, bins, tau2 = at + 1, len(counts.positive), counts.variance
    (fn, tp), (tn, fp) = ((float(c[:cut].sum()), float(c[cut:].sum())) for c in (counts.positive, counts.negative))
    below, above, N = cut * tau2, (bins - cut) * tau2, counts.records
    both = bins * tau2 / 2  # of the mean of two estimates: what is counted, and all records less what is not
    jaccard = fraction_of(tp, fp + fn, above, above + below, z)
    return Confusion(
        score=counts.bins.edges[at],
        true_positives=tp,
        false_positives=fp,
        false_negatives=fn,
        true_negatives=tn,
        answered=share_of((tp + fp + N - fn - tn) / 2, both, N, z),
        error=share_of((fp + fn + N - tp - tn) / 2, both, N, z),
        sensitivity=fraction_of(tp, fn, above, below, z),
        specificity=fraction_of(tn, fp, below, above, z),
        precision=fraction_of(tp, fp, above, above, z),
        f1=Estimate(None if jaccard.value is None else _f1(jaccard.value), _f1(jaccard.low), _f1(jaccard.high)),
    )


def _f1(jaccard: float) -> float:
    """F1 = 2 J/(1 + J), where J = TP/(TP + FP + FN); it grows with J."""
    return 2 * jaccard / (1 + jaccard)


def _choose(curve: Sequence[Confusion], rule: str | float) -> int:
    """Return the edge that the rule chooses; of equals the first."""

    def worth(point: Confusion) -> float:
        if isinstance(rule, float):
            return -abs((point.answered.value or 0.0) - rule)
        if rule == "f1":
            return point.f1.value or 0.0
        return (point.sensitivity.value or 0.0) + (point.specificity.value or 0.0)

    return max(range(len(curve)), key=lambda at: worth(curve[at]))


def _brier(counts: Counts, predicted: _Array, z: float) -> Estimate | None:
    """Estimate the mean square; its spread from record to record follows from the bins."""
    if counts.squares is None:
        return None
    N, value = counts.records, counts.squares.value / counts.records
    fourth = float(
        np.maximum(counts.positive, 0) @ (1 - predicted) ** 4 + np.maximum(counts.negative, 0) @ predicted**4
    )
    spread = max(0.0, fourth / N - value**2)
    return around(value, spread / N + counts.squares.variance / N**2, z)


def _advantage(counts: Counts, at: int, z: float) -> Estimate:
    """Estimate the majority's error less the model's: only records on which the two answers differ count.

    If the majority says no, these are the records above the threshold, of which the model wins the positive ones.
    """
    p, n, N = counts.positive, counts.negative, counts.records
    above = np.arange(len(p)) > at
    differ, sign = (~above, -1) if p.sum() > n.sum() else (above, 1)
    won, lost = float(p[differ].sum()), float(n[differ].sum())
    gain = sign * (won - lost) / N
    spread = max(0.0, (won + lost) / N - gain**2)
    reach = z * (spread / N + 2 * int(differ.sum()) * counts.variance / N**2) ** 0.5
    return Estimate(gain, max(-1.0, gain - reach), min(1.0, gain + reach))


def _auc(counts: Counts, z: float) -> Estimate:
    """Estimate the area under the ROC curve.

    Records in different bins are compared by their bins. Of two in one bin, the positive one has the higher score with
    a chance that :func:`_same_bin` estimates; half of what this adds counts as a standard deviation of its own. The
    rest of the variance is the delta method's: with g the gradient of U/(P N) in the counts, it is sum c g^2 + tau^2
    sum g^2, and the noise's part of second order, since U multiplies noisy counts.
    """
    p, n, tau2 = counts.positive, counts.negative, counts.variance
    P, N, bins = float(p.sum()), float(n.sum()), len(p)
    if min(P, N) <= 0 or min(P, N) ** 2 <= z * z * bins * tau2:
        return UNKNOWN  # one label is lost in the noise
    half = _same_bin(counts, P, N)
    below, above = np.cumsum(n) - n * (1 - half), P - np.cumsum(p) + p * half
    auc = float(p @ below) / (P * N)
    g = np.concatenate([(below / N - auc) / P, (above / P - auc) / N])
    c = np.maximum(np.concatenate([p, n]), 0.0)
    second = tau2**2 * (bins * (bins - 1) / 2 + bins / 4) / (P * N) ** 2
    ties = float(p @ (n * (half - 0.5))) / (P * N)
    return on_logit_scale(auc, float(c @ g**2) + tau2 * float(g @ g) + second + (_DOUBT * ties) ** 2, z)


def _same_bin(counts: Counts, P: float, N: float) -> _Array:
    """Return for each bin the chance that of two of its records with different labels the positive scores higher.

    Let the ratio of the labels' densities grow like exp(slope score). To first order in the bin's width, the chance is
    1/2 + slope spread/4, where spread is the mean distance of two of the bin's records. The slope is that of two normal
    densities: the distance of the labels' means over the variance around them.
    """
    middles, spreads = np.array(counts.bins.middles), np.array(counts.bins.spreads)
    plus, minus = float(counts.positive @ middles) / P, float(counts.negative @ middles) / N
    around_means = counts.positive @ (middles - plus) ** 2 + counts.negative @ (middles - minus) ** 2
    variance = float(around_means) / (P + N)
    slope = max(0.0, (plus - minus) / variance) if variance > 0 else 0.0
    return np.minimum(1.0, 0.5 + slope * spreads / 4)


def _calibration(counts: Counts, predicted: _Array, z: float) -> tuple[Group, ...]:
    edges: list[float | None] = [None, *counts.bins.edges, None]
    return tuple(
        Group(
            low, high, float(said), fraction_of(float(p), float(n), counts.variance, counts.variance, z), float(p + n)
        )
        for low, high, said, p, n in zip(
            edges[:-1], edges[1:], predicted, counts.positive, counts.negative, strict=True
        )
    )
