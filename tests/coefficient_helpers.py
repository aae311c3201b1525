"""Made-up coefficients of a regression: for tests of what is shown of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_core.coefficients import Coefficient, Coefficients, Family
from masquerade_core.data.schema import Encoder
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature, Label

FEATURES = (
    Feature(name="age", min=20.0, max=80.0),
    Feature(name="sex", levels=("f", "m")),
    Feature(name="stage", levels=("i", "ii", "iii")),
    Feature(name="dose", edges=(1.0, 2.0)),
)
REASON = "the column is nearly constant"
_BINARY, _NUMBER = Label(name="ill", positive="yes"), Label(name="pressure", min=60.0, max=240.0)


def coefficients(
    names: Sequence[str], *, family: Family = "logistic", hidden: Sequence[str] = (), scale: float = 1.0
) -> Coefficients:
    """Return coefficients that were drawn, of which some cannot be told."""
    rng = np.random.default_rng(5)
    told = ["(intercept)", *names]
    units = scale * np.array([0.02 if name == "age" else 1.0 for name in told])  # a year moves less than a level
    estimates = units * rng.normal(size=len(told))
    root = 0.2 * units[:, None] * rng.normal(size=(len(told), len(told)))
    covariance = root @ root.T
    rows = []
    for name, estimate, se in zip(told, estimates.tolist(), np.sqrt(np.diag(covariance)).tolist(), strict=True):
        low, high = estimate - 1.96 * se, estimate + 1.96 * se
        number = Coefficient(name, estimate, se, low, high, 0.25)
        rows.append(Coefficient(name, reason=REASON) if name in hidden else number)
    kept = [i for i, row in enumerate(rows) if row.told]
    return Coefficients(
        family=family,
        records=30_000,
        mu=0.2,
        strength=2246.0,
        rows=tuple(rows),
        at_means=Coefficient("(intercept)", 0.5, 0.25, 0.01, 0.99, 0.5),
        means=(0.0,) * len(names),
        covariance=tuple(map(tuple, covariance[np.ix_(kept, kept)].tolist())),
        weighted_down=0.0123,
        beyond=None if family == "logistic" else 0.01,
        last_step=0.02,
        weak=0,
    )


def regression(
    features: Sequence[Feature] = FEATURES, *, family: Family = "logistic", hidden: Sequence[str] = ()
) -> SavedModel:
    """Return a released model with such coefficients, and weights that follow from those that can be told."""
    encoder = Encoder(tuple(features), intercept=False, out_of_bounds="clamp", coding="treatment")
    label = _BINARY if family == "logistic" else _NUMBER
    found = coefficients(encoder.names, family=family, hidden=hidden, scale=1.0 if family == "logistic" else 20.0)
    b = np.array([row.estimate or 0.0 for row in found.rows])
    half, middle = _halves(encoder)
    weights, offset = b[1:] * half, b[0] + b[1:] @ middle
    if label.number is not None:
        weights, offset = weights / 90, (offset - 150) / 90
    return SavedModel(
        tuple(weights.tolist()), None, encoder, label, "s", "dp-glm", "ab" * 16, 1.0, 1e-6,
        offset=(float(offset),), coefficients=found,
    )  # fmt: skip


def _halves(encoder: Encoder) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return half of each covariate's range, and its middle; 1 and 0 for a level or a bin."""
    pairs = [
        (1.0, 0.0) if f.reference else (((f.max or 0) - (f.min or 0)) / 2, ((f.max or 0) + (f.min or 0)) / 2)
        for f in encoder.features
        for _ in f.covariates
    ]
    half, middle = np.array(pairs).T
    return half, middle
