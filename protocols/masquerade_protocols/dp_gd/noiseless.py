"""What ``dp-gd`` would release without noise. Whoever computes it sees all records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_protocols.comparing import SMALL_NOISE, times, two_digits
from masquerade_protocols.dp_gd.roles import Descent
from masquerade_protocols.dp_gd.schedule import parameters_of
from masquerade_protocols.entry import Noiseless, Weights

__all__ = ["clean_descent", "noiseless"]

_DROWNED = 0.5  # noise in scores beside the scores; from here on it begins to show in the error rate


def clean_descent(study: Study, data: Mapping[str, Dataset]) -> Weights:
    """Return the last iterate on exact sums of clipped gradients; shape (d,)."""
    together = pool(study, data)
    descent = Descent(study, len(together.y))
    for _ in range(parameters_of(study).rounds):
        descent.step(descent.gradient(together))
    return descent.w


def noiseless(study: Study, data: Mapping[str, Dataset], released: Weights, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the records' scores w.x; where no record points, it does no harm."""
    clean, epsilon = clean_descent(study, data), study.privacy.epsilon
    together, what = pool(study, data), "the same steps on exact sums"
    ratio = float(np.linalg.norm(together.X @ (released - clean)) / np.linalg.norm(together.X @ clean))
    if ratio <= _DROWNED:
        return Noiseless(clean, what, ratio, epsilon)
    enough = epsilon * ratio / SMALL_NOISE
    advice = (
        f"The noise moved records' scores by {times(ratio)} their size. An epsilon of about {two_digits(enough)} would "
        f"do, or {times(enough / epsilon)} the {len(together.y):,} records."
    )
    return Noiseless(clean, what, ratio, enough, advice)
