"""Hamm, Cao and Belkin's figure 2 with a projection that anybody may know: that of the auxiliary records alone.

The paper does not say whose principal components it takes. Those of all training records depend on the parties' private
ones, and no epsilon counts that. The auxiliary records are public, so their components cost nothing.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.originals import har
from masquerade_lab.reproduce.bands import Row
from masquerade_lab.reproduce.hamm_runs import CLASSES, accuracies, aggregate, principal_components, shuffled
from masquerade_lab.reproduce.telling import against

__all__ = ["TABLE", "projected_publicly", "public_rows"]

TABLE = "D2: principal components of the auxiliary records, minus those of all training records"
_CLOSE = 0.01  # our claim: so little does a public projection change
_FIRST = "the first columns in their place"
_METHODS = ("batch", "vote", "soft", "avg")

_Array = NDArray[np.float64]


def projected_publicly(
    data: Path, label: str, Lambda: float, shape: tuple[int, int, int], features: int, d: int
) -> dict[str, _Array]:
    """Deal HAR's records as for figure 2, project them by the auxiliary ones, and return each method's accuracy.

    Parameters
    ----------
    data, label, Lambda, shape, features, d
        As in :func:`~masquerade_lab.reproduce.hamm_runs.trial_of_har`. There is no noise.

    Returns
    -------
    by method; and by "first METHOD", with the first d columns in place of components
    """
    parties, each, auxiliary = shape
    X, y, X_test, y_test = har(data)
    order = shuffled(label, len(y))
    parts, aux = order[: parties * each].reshape(parties, each), order[parties * each :][:auxiliary]
    still = np.zeros((1, CLASSES * d))
    found: dict[str, _Array] = {}
    for start, of in (("", X[aux, :features]), ("first ", np.eye(d, features))):
        train, test = principal_components(X[:, :features], X_test[:, :features], d, of=of)
        trial = aggregate(train, y.astype(np.intp) - 1, CLASSES, Lambda, parts, aux)
        found |= {
            f"{start}{name}": accuracies(test, y_test.astype(np.intp) - 1, trial.W[name], still) for name in _METHODS
        }
    return found


def public_rows(public: Sequence[dict[str, _Array]], private: Sequence[dict[str, _Array]]) -> list[Row]:
    """Return how much accuracy a public projection gains, within a trial; both have one value for each trial."""
    rows = []
    for name in _METHODS:
        gained, first = (
            np.array([a[key] - b[name] for a, b in zip(public, private, strict=True)])
            for key in (name, f"first {name}")
        )
        rows += against(TABLE, name, gained, (-_CLOSE, _CLOSE), {_FIRST: first})
    return rows
