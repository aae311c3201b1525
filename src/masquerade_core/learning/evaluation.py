"""How good a model is, from noisy counts of the records that were held back, by label and bin of score.

All of it is computed from what is opened, so it costs no privacy beyond the counts. A count is that of one label in one
bin; the noise on each has the same known standard deviation tau. Every participant computes the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.intervals import (
    Estimate,
    Noisy,
    fraction_of,
    share_of,
    z_value,
)
from masquerade_core.learning.label_counts import Counts, advantage_of, auc_of, brier_of

__all__ = ["Confusion", "Evaluation", "Group", "evaluate"]

_Array = NDArray[np.float64]

_DIGITS = 6
_RARE = 0.01  # an answer that so few records get hardly ever comes


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
        The error of always giving the answer that is right more often.
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


def evaluate(counts: Counts, *, rule: str | float | None = None, threshold: float = 0.0) -> Evaluation:
    """Estimate how good a model is.

    Parameters
    ----------
    counts : Counts
    rule : str or float or None
        How the threshold is chosen: the largest Youden index (sensitivity + specificity - 1), the largest F1, or the
        share of positive answers closest to a number. Without a rule it is that of the model.
    threshold : float
        The model's.
    """
    z = z_value()
    curve = tuple(_confusion(counts, at, z) for at in range(counts.candidates))
    at = counts.bins.nearest(threshold) if rule is None else _choose(curve, rule)
    chosen = curve[at] if rule is None else _confusion(counts, at, z_value(counts.candidates))
    share = _positives(counts)
    middles = np.array(counts.bins.middles)
    predicted = 0.5 * (1 + np.tanh(middles / 2))
    prevalence = share_of(share, len(middles) * counts.variance / 2, counts.records, z)
    return Evaluation(
        records=counts.records,
        noise_sd=counts.variance**0.5,
        positive_share=prevalence,
        auc=auc_of(counts, z),
        majority_error=min(prevalence.value or 0.0, 1 - (prevalence.value or 0.0)),
        advantage=advantage_of(counts, at, z if rule is None else z_value(counts.candidates)),
        brier=brier_of(counts, predicted, z),
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
    cut, bins, tau2, N = at + 1, len(counts.positive), counts.variance, counts.records
    below, above = cut * tau2, (bins - cut) * tau2
    fn, tp = (Noisy(float(c.sum()), v) for c, v in zip(np.split(counts.positive, [cut]), (below, above), strict=True))
    tn, fp = (Noisy(float(c.sum()), v) for c, v in zip(np.split(counts.negative, [cut]), (below, above), strict=True))
    both = bins * tau2 / 2  # of the mean of two estimates: what is counted, and all records less what is not

    def but(*others: Noisy) -> Noisy:
        """Count records by those that do not belong to them."""
        return Noisy(N - sum(c.value for c in others), sum(c.variance for c in others))

    wrong = Noisy(fp.value + fn.value, below + above)
    jaccard = fraction_of(tp, wrong, but(tn), z)
    return Confusion(
        score=counts.bins.edges[at],
        true_positives=tp.value,
        false_positives=fp.value,
        false_negatives=fn.value,
        true_negatives=tn.value,
        answered=share_of((tp.value + fp.value + N - fn.value - tn.value) / 2, both, N, z),
        error=share_of((wrong.value + N - tp.value - tn.value) / 2, both, N, z),
        sensitivity=fraction_of(tp, fn, but(tn, fp), z),
        specificity=fraction_of(tn, fp, but(tp, fn), z),
        precision=fraction_of(tp, fp, but(tn, fn), z),
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


def _calibration(counts: Counts, predicted: _Array, z: float) -> tuple[Group, ...]:
    edges: list[float | None] = [None, *counts.bins.edges, None]
    tau2, both = counts.variance, counts.positive + counts.negative
    # The bins are placed so that each holds about as many records; no other count of a single bin is as good.
    expected = Noisy(counts.records / len(both), 2 * tau2)
    return tuple(
        Group(
            low, high, float(said), fraction_of(Noisy(float(p), tau2), Noisy(float(n), tau2), expected, z), float(all_)
        )
        for low, high, said, p, n, all_ in zip(
            edges[:-1], edges[1:], predicted, counts.positive, counts.negative, both, strict=True
        )
    )
