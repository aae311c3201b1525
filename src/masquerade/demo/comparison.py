"""What only a demonstration may know: how good the model would be without privacy, and what each could do alone.

These figures are read off everybody's records. A real run computes none of them.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import Cohort, Records
from masquerade_core.data.schema import Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.privacy.calibration import SMALL_NOISE, eps_where_noise_is_small, paper_noise_norm
from masquerade_core.study import Study

__all__ = ["Comparison", "compare"]

WARNING = "demo only: read off everybody's records, which a real run shows to nobody"


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
        The average that was released, before noise.
    majority : float
        Always answering the more frequent class.
    noise_ratio : float
        The noise's length over the classifier's.
    enough_epsilon : float
        Where the noise would be small.
    advice : str
        One sentence where the noise drowns the classifier; else empty.
    """

    pooled: float
    best_single: float
    worst_single: float
    without_noise: float
    majority: float
    noise_ratio: float
    enough_epsilon: float
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, marked."""
        return {"warning": WARNING, **asdict(self)}


def compare(study: Study, cohort: Cohort) -> Comparison:
    """Train what a demonstration compares the released model with."""
    encoder, Lambda = Encoder.from_study(study), study.model.regularization
    data = [_encoded(records, encoder, study) for records in cohort.parties.values()]
    X_test, y_test = _encoded(cohort.test, encoder, study)
    pooled = fit(np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data]), Lambda)
    own = [fit(X, y, Lambda) for X, y in data]
    average = np.mean(own, axis=0)
    singles = [error_rate(X_test, y_test, w) for w in own]
    smallest = min(len(y) for _, y in data)
    norm = float(np.linalg.norm(average))
    noise = str(study.protocol.get("noise", "laplace"))
    ratio = paper_noise_norm(study.d, smallest, study.privacy.epsilon, Lambda, noise) / norm
    enough = eps_where_noise_is_small(study.d, smallest, Lambda, norm, noise)
    total = sum(len(y) for _, y in data)
    return Comparison(
        pooled=error_rate(X_test, y_test, pooled),
        best_single=min(singles),
        worst_single=max(singles),
        without_noise=error_rate(X_test, y_test, average),
        majority=float(min(np.mean(y_test > 0), np.mean(y_test < 0))),
        noise_ratio=ratio,
        enough_epsilon=enough,
        advice=_advice(ratio, enough, study, total, smallest) if ratio > SMALL_NOISE else "",
    )


def _advice(ratio: float, enough: float, study: Study, total: int, smallest: int) -> str:
    """Say in one sentence why there are too few records, and which epsilon would do."""
    times = f"{ratio:.0f} times" if ratio >= 2 else f"{ratio:.1f} times"  # noqa: PLR2004
    return (
        f"{total:,} training records are too few for this paper's noise: it is sized for the smallest party alone, "
        f"which has {smallest:,}, and at epsilon = {study.privacy.epsilon:g} it is {times} as long as the classifier; "
        f"epsilon = {_two_digits(enough)} would do, or as many times more records as that is larger."
    )


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def _encoded(records: Records, encoder: Encoder, study: Study) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    columns = dict(zip(records.columns, zip(*records.rows, strict=True), strict=True))
    labels = np.array(columns[study.label.name])
    return encoder.encode(columns), np.where(labels == study.label.positive, 1.0, -1.0)
