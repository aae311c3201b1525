"""What only a demonstration may know: how good the model would be without privacy, and what each could do alone.

These figures are read off everybody's records. A real run computes none of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from masquerade.datasets import Cohort, Records
from masquerade.demo.plan import classifiers
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.study import Study
from masquerade_protocols import protocol_of

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
    clean = protocol_of(study).noiseless(
        study, data, np.array(released), auxiliary=auxiliary, classifiers=classifiers(study)
    )
    return Comparison(
        pooled=error_rate(test.X, test.y, pooled),
        best_single=min(singles),
        worst_single=max(singles),
        without_noise=error_rate(test.X, test.y, clean.weights),
        noiseless=clean.what,
        majority=float(min(np.mean(test.y > 0), np.mean(test.y < 0))),
        noise_ratio=clean.noise_ratio,
        enough_epsilon=clean.enough_epsilon,
        advice=clean.advice,
    )


def _encoded(records: Records, encoder: Encoder, study: Study) -> Dataset:
    columns = dict(zip(records.columns, zip(*records.rows, strict=True), strict=True))
    labels = np.array(columns[study.label.name])
    return Dataset(encoder.encode(columns), np.where(labels == study.label.positive, 1.0, -1.0))
