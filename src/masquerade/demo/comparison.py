"""What only a demonstration may know: how good the model would be without privacy, and what each could do alone.

These figures are read off everybody's records. A real run computes none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import Cohort, Records
from masquerade.demo.clear import by_clipped_steps, by_noisy_examples, by_votes, by_walks
from masquerade.demo.descent import first_drowned_round, is_descent, noise_ratio, rounds_of, with_epsilon, without_noise
from masquerade.demo.plan import classifiers
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.privacy.calibration import SMALL_NOISE, eps_where_noise_is_small, paper_noise_norm
from masquerade_core.study import Study
from masquerade_protocols.baselines import pool

__all__ = ["Comparison", "compare"]

WARNING = "demo only: read off everybody's records, which a real run shows to nobody"

_LARGEST_EPSILON = 1e6
_DROWNED = 0.5  # of scores; here it begins to show in the error

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Errors on the public test set, and how the noise compares.

    Parameters
    ----------
    pooled : float
        One classifier trained on all records together, without privacy.
    best_single, worst_single : float
        Each party's own classifier.
    without_noise : float
        What would have been released without noise.
    noiseless : str
        What that is, in a few words.
    majority : float
        Always answering the more frequent class.
    noise_ratio : float
        The noise's length over the classifier's; of a descent, its part of records' scores over the scores.
    enough_epsilon : float or None
        Where the noise would be small, the wish or larger for a descent; None where no epsilon makes it so.
    advice : str
        One sentence where the released model is not what it seems: drowned in noise, or bought with more privacy than
        the wish; else empty.
    """

    pooled: float
    best_single: float
    worst_single: float
    without_noise: float
    noiseless: str
    majority: float
    noise_ratio: float
    enough_epsilon: float | None
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, marked."""
        return {"warning": WARNING, **asdict(self)}


def compare(
    study: Study, cohort: Cohort, released: Sequence[float] = (), auxiliary: Auxiliary | None = None
) -> Comparison:
    """Train what a demonstration compares the released model with.

    Parameters
    ----------
    study : Study
    cohort : Cohort
    released : sequence of float
        The released model's weights, for a protocol whose noise is judged by what it did.
    auxiliary : Auxiliary, optional
        The public records that the study names, where it names any.
    """
    encoder, model = Encoder.from_study(study), study.model
    data = {name: _encoded(records, encoder, study) for name, records in cohort.parties.items()}
    test = _encoded(cohort.test, encoder, study)
    together = pool(study, data)
    pooled = fit(together.X, together.y, model.regularization, model.loss)
    own = [fit(part.X, part.y, model.regularization, model.loss) for part in data.values()]
    singles = [error_rate(test.X, test.y, w) for w in own]
    if is_descent(study):
        clean, noiseless, ratio, enough, advice = _of_descent(study, together)
    elif study.study.protocol == "local-aggregation":
        clean, noiseless, ratio, enough, advice = _of_average(study, own, [len(part.y) for part in data.values()])
    elif study.study.protocol == "dp-gd":
        clean, noiseless, ratio, enough, advice = _of_clipped_steps(study, data, together, np.array(released))
    else:
        clean, noiseless, ratio, enough, advice = _by_its_effect(study, data, np.array(released), auxiliary)
    return Comparison(
        pooled=error_rate(test.X, test.y, pooled),
        best_single=min(singles),
        worst_single=max(singles),
        without_noise=error_rate(test.X, test.y, clean),
        noiseless=noiseless,
        majority=float(min(np.mean(test.y > 0), np.mean(test.y < 0))),
        noise_ratio=ratio,
        enough_epsilon=enough,
        advice=advice,
    )


_Judged = tuple[_Array, str, float, float | None, str]
"""The classifier without noise and what it is, the noise's part, an epsilon that would do, advice."""


def _of_average(study: Study, own: Sequence[_Array], sizes: Sequence[int]) -> _Judged:
    """Judge the average of the parties' classifiers."""
    average = np.mean(own, axis=0)
    smallest, Lambda, wish = min(sizes), study.model.regularization, study.privacy.epsilon
    norm = float(np.linalg.norm(average))
    noise = str(study.protocol.get("noise", "laplace"))
    ratio = paper_noise_norm(study.d, smallest, wish, Lambda, noise) / norm
    enough = eps_where_noise_is_small(study.d, smallest, Lambda, norm, noise)
    advice = (
        f"{sum(sizes):,} training records are too few for this paper's noise: it is sized for the smallest party "
        f"alone, which has {smallest:,}, and at epsilon = {wish:g} it is {_times(ratio)} as long as the classifier; "
        f"epsilon = {_two_digits(enough)} would do, or as many times more records as that is larger."
    )
    return average, "the parties' average", ratio, enough, advice if ratio > SMALL_NOISE else ""


def _of_descent(study: Study, together: Dataset) -> _Judged:
    """Judge a descent along noisy gradients."""
    clean = without_noise(study, together)

    def ratio_at(epsilon: float) -> float:
        wished = with_epsilon(study, epsilon)  # which also decides on Delta, and so on the classifier without noise
        return noise_ratio(wished, together, without_noise(wished, together))

    wish, name = study.privacy.epsilon, study.study.protocol
    ratio, drowned = ratio_at(wish), first_drowned_round(study, len(together.y))
    rounds = rounds_of(study)
    enough = _smallest_epsilon(ratio_at, wish)
    if name == "decaying-budget" and drowned is not None:
        advice = (
            f"Half the epsilon in every further round is twice the noise: from round {drowned} of {rounds} on it is "
            f"longer than the gradients of all {len(together.y):,} records together, and what is released is noise. "
            "The paper rejects this protocol for that; it is here to be compared with."
        )
    elif name == "noisy-gradient":
        advice = (
            f"Do not compare this error with those of other protocols: epsilon = {wish:g} is spent in every one of "
            f"{rounds} rounds. The paper rejects this protocol for that."
        )
    elif ratio > SMALL_NOISE:
        advice = f"At epsilon = {wish:g} the noise in a record's score is {_times(ratio)} as large as the score" + (
            f"; epsilon = {_two_digits(enough)} would do, or as many times more records than these "
            f"{len(together.y):,} as that is larger."
            if enough is not None
            else ", and no epsilon makes it small: choose more rounds, or a larger regularization."
        )
    else:
        advice = ""
    return clean, f"{rounds} rounds on exact gradients", ratio, enough, advice


def _of_clipped_steps(study: Study, data: Mapping[str, Dataset], together: Dataset, released: _Array) -> _Judged:
    """Judge by what the noise did to records' scores: in a direction that no record has it does no harm."""
    clean, wish = by_clipped_steps(study, data), study.privacy.epsilon
    ratio = float(np.linalg.norm(together.X @ (released - clean)) / np.linalg.norm(together.X @ clean))
    noiseless = "the same steps on exact sums"
    if ratio <= _DROWNED:
        return clean, noiseless, ratio, wish, ""
    enough = wish * ratio / SMALL_NOISE
    advice = (
        f"The noise moved records' scores by {_times(ratio)} their size; epsilon = {_two_digits(enough)} or so would "
        f"do, or as many times more records than these {len(together.y):,} as that is larger."
    )
    return clean, noiseless, ratio, enough, advice


def _by_its_effect(study: Study, data: Mapping[str, Dataset], released: _Array, auxiliary: Auxiliary | None) -> _Judged:
    """Judge by how far the released model is from what it would be without noise."""
    name, wish = study.study.protocol, study.privacy.epsilon
    if name == "weighted-dp":
        clean, noiseless = by_walks(study, data), "the parties' average after exact steps"
    elif name == "input-noise":
        clean, noiseless = by_noisy_examples(study, data), "the parties' average on exact examples"
    elif auxiliary is not None:
        clean, noiseless = by_votes(study, data, classifiers(study), auxiliary), "learned from the same votes"
    else:
        raise BadInput("the study's auxiliary records are not here", "load the study with masquerade.load_study")
    ratio = float(np.linalg.norm(released - clean) / np.linalg.norm(clean))
    if ratio <= SMALL_NOISE:
        return clean, noiseless, ratio, wish, ""
    moved = f"The noise moved the classifier by {_times(ratio)} its length"
    if name == "input-noise":
        alpha = study.protocol["alpha"]
        advice = f"{moved}. Every example carries noise of the scale 1/alpha = {1 / alpha:.3g}, beside a length of 1."
        return clean, noiseless, ratio, None, advice
    enough = wish * ratio / SMALL_NOISE
    cure = f"epsilon = {_two_digits(enough)} or so would do"
    if name == "weighted-dp":
        advice = f"{moved}; {cure}, or as many times more records than these as that is larger."
    else:
        advice = f"{moved}; {cure}, or many more parties: this noise hides all that a party has, and {study.K} are few."
    return clean, noiseless, ratio, enough, advice


def _smallest_epsilon(ratio_at: Callable[[float], float], wish: float) -> float | None:
    """Return an epsilon, from the wish on, where the noise is small; right to a few per cent."""
    low = high = wish
    while ratio_at(high) > SMALL_NOISE:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return None
    while high > 1.05 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if ratio_at(middle) <= SMALL_NOISE else (middle, high)
    return high


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 2 else f"{ratio:.1f} times"  # noqa: PLR2004


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def _encoded(records: Records, encoder: Encoder, study: Study) -> Dataset:
    columns = dict(zip(records.columns, zip(*records.rows, strict=True), strict=True))
    labels = np.array(columns[study.label.name])
    return Dataset(encoder.encode(columns), np.where(labels == study.label.positive, 1.0, -1.0))
