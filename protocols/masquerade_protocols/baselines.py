"""Central references: what somebody could learn who held everybody's records. No table, no message, no Charlie.

They say what a protocol's privacy and its cryptography cost, and go through the same losses, the same minimiser and
the same data as the protocols do. ``gop`` is what ``psgd`` approaches; ``pooled`` is that without privacy;
``individual`` is what each party has without the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.losses import loss_of, require_convex
from masquerade_core.privacy.mechanisms import gaussian
from masquerade_core.privacy.objective import compute_slack, noise_sigma
from masquerade_core.rng import Rng
from masquerade_core.study import Study, check_section

__all__ = [
    "BASELINES",
    "FRACTION_BITS",
    "Baseline",
    "GopParameters",
    "IndividualParameters",
    "PooledParameters",
    "Weights",
    "baseline_of",
    "best_single_party",
    "gop_minimiser",
    "gop_noise",
    "pool",
]

FRACTION_BITS = 32  # F: noise is an integer vector in units of 2^-F

Weights = NDArray[np.float64]
"""A classifier, shape (d,)."""


class _Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class GopParameters(_Parameters):
    """``[protocol]`` of ``gop``: empty, as epsilon, delta, Lambda and the loss stand elsewhere in the study."""


class PooledParameters(_Parameters):
    """``[protocol]`` of ``pooled``: empty."""


class IndividualParameters(_Parameters):
    """``[protocol]`` of ``individual``: empty."""


@dataclass(frozen=True)
class Baseline:
    """One baseline.

    Parameters
    ----------
    name : str
        As in the study's ``protocol``.
    paper : str
        Where it comes from.
    run : callable
        (study, everybody's records by the roster's names, rng) -> a classifier, or one for each party.
    parameters : type of BaseModel
        The study's ``[protocol]`` section.
    check : callable
        Raises BadInput for a study that this baseline cannot carry out.
    """

    name: str
    paper: str
    run: Callable[[Study, Mapping[str, Dataset], Rng], Weights | dict[str, Weights]]
    parameters: type[BaseModel]
    check: Callable[[Study], object]


def pool(study: Study, data: Mapping[str, Dataset]) -> Dataset:
    """Return everybody's records as one data set, in the roster's order.

    Raises
    ------
    BadInput
        A party of the roster has no records here.
    """
    if absent := [name for name in study.names if name not in data]:
        raise BadInput(f"there are no records of {', '.join(absent)}", "every party of the study needs records")
    parts = [data[name] for name in study.names]
    return Dataset(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))


# --- Gaussian objective perturbation ---------------------------------------------


def gop_noise(rng: Rng, study: Study, N: int) -> Weights:
    """Draw eta with components from N(0, sigma*^2), rounded to multiples of 2^-F; shape (d,).

    Parameters
    ----------
    N : int
        Records of all parties.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 4 and Procedure 3.
    """
    privacy = study.privacy
    slack = compute_slack(privacy.epsilon, study.model.regularization, N, loss_of(study.model.loss).c)
    sigma = noise_sigma(study.d, slack.epsilon, privacy.delta)
    eta = gaussian(rng, sigma, study.d, Fraction(1 << FRACTION_BITS))
    return np.array([value / 2**FRACTION_BITS for value in eta])


def gop_minimiser(study: Study, records: Dataset, eta: Weights) -> Weights:
    """Return argmin_w J(w) + eta.w/N + (Delta/2) ||w||^2 for a given eta, such as the sum of the parties' eta^k.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 4.
    """
    N, model = len(records.y), study.model
    slack = compute_slack(study.privacy.epsilon, model.regularization, N, loss_of(model.loss).c)
    # Delta is a multiple of 2^-40: the float is Delta itself.
    return fit(records.X, records.y, model.regularization, model.loss, linear=eta / N, extra=float(slack.Delta))


def _gop(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    records = pool(study, data)
    return gop_minimiser(study, records, gop_noise(rng, study, len(records.y)))


def _check_gop(study: Study) -> None:
    """Refuse a wish without a sigma*: at the fewest records there may be, where least of epsilon is left."""
    require_convex(study.model)
    fewest = study.K * study.study.min_records
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, fewest, loss_of(study.model.loss).c)
    noise_sigma(study.d, slack.epsilon, study.privacy.delta)


# --- Without privacy -------------------------------------------------------------


def _pooled(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:  # noqa: ARG001  no noise
    records = pool(study, data)
    return fit(records.X, records.y, study.model.regularization, study.model.loss)


def _individual(study: Study, data: Mapping[str, Dataset], rng: Rng) -> dict[str, Weights]:  # noqa: ARG001  no noise
    pool(study, data)
    return {name: fit(data[name].X, data[name].y, study.model.regularization, study.model.loss) for name in study.names}


def best_single_party(classifiers: Mapping[str, Weights], test: Dataset) -> tuple[str, float]:
    """Return the party whose classifier errs least on public test records, the first of equals, and its error rate."""
    errors = {name: error_rate(test.X, test.y, w) for name, w in classifiers.items()}
    best = min(errors, key=lambda name: errors[name])
    return best, errors[best]


def _minimiser(study: Study) -> None:
    """Without noise, there is but to be a minimiser."""
    require_convex(study.model)


BASELINES: dict[str, Baseline] = {
    b.name: b
    for b in (
        Baseline("gop", "Rajkumar and Agarwal 2012, Algorithm 4", _gop, GopParameters, _check_gop),
        Baseline("pooled", "all: one classifier for everybody's records", _pooled, PooledParameters, _minimiser),
        Baseline("individual", "all: a classifier for each party's", _individual, IndividualParameters, _minimiser),
    )
}


def baseline_of(study: Study) -> Baseline:
    """Return the baseline that a study names, after a check that it can carry the study out.

    Raises
    ------
    BadInput
        There is no such baseline; its section has an unknown key; or no noise fits the wish.
    """
    name = study.study.protocol
    if name not in BASELINES:
        raise BadInput(
            f"[study] protocol is {name!r}; the baselines are {', '.join(BASELINES)}", "correct the study's protocol"
        )
    baseline = BASELINES[name]
    check_section(baseline.parameters, study.protocol, "protocol")
    baseline.check(study)
    return baseline
