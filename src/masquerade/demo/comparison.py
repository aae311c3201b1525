"""Figures for a demonstration alone: the error without privacy, without noise, and of each party by itself.

They are computed from everybody's records. A real run computes none of them. What a run would have released without
noise comes from the protocol's entry, so this module knows no protocol by name.
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

WARNING = "demo only: computed from everybody's records, which a real run shows to nobody"


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
        The classifier that a run without noise would have released.
    noiseless : str
        A few words that describe that classifier.
    majority : float
        A rule that always gives the more frequent answer.
    noise_ratio : float
        The noise beside the classifier, measured as the protocol's entry does: by lengths, or by records' scores.
    enough_epsilon : float or None
        An epsilon at which the noise would be small; None where no epsilon makes it small.
    advice : str
        A few sentences where the released model is not what it seems; else empty. The noise may drown the model, or
        the run may cost more privacy than the study's privacy target says.
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
        """Return a JSON value, with a warning."""
        return {"warning": WARNING, **asdict(self)}


def compare(
    study: Study, cohort: Cohort, released: Sequence[float] = (), auxiliary: Auxiliary | None = None
) -> Comparison:
    """Train the classifiers that a demonstration shows beside the released model.

    Parameters
    ----------
    study : Study
    cohort : Cohort
    released : sequence of float
        The released model's weights, for a protocol that judges its noise by its effect on them.
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
