"""Central references: what somebody could learn who held everybody's records. No table, no message, no Charlie.

They say what a protocol's privacy and its cryptography cost, and go through the same losses, the same minimiser and
the same data as the protocols do. ``gop`` is what ``psgd`` approaches; ``pooled``, or ``batch``, is that without
privacy; ``individual`` is what each party has without the others; ``average`` is what ``vote`` and ``soft`` are to
surpass. All but ``gop`` and ``central-dp`` take named classes, by softmax regression.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.losses import LOGISTIC, loss_of, require_convex
from masquerade_core.learning.softmax import class_error_rate, fit_softmax
from masquerade_core.privacy.mechanisms import gaussian, l2_laplace
from masquerade_core.privacy.objective import compute_slack, noise_sigma
from masquerade_core.rng import Rng
from masquerade_core.study import Study, as_fraction, check_section
from masquerade_protocols import central_dp
from masquerade_protocols.weighted_dp import DESCENT_SECTION

__all__ = [
    "BASELINES",
    "FRACTION_BITS",
    "AverageParameters",
    "Baseline",
    "GopParameters",
    "IndividualParameters",
    "PooledParameters",
    "Weights",
    "average_rate",
    "baseline_of",
    "best_single_party",
    "gop_minimiser",
    "gop_noise",
    "pool",
]

FRACTION_BITS = 32  # F: noise is an integer vector in units of 2^-F

Weights = NDArray[np.float64]
"""A classifier, shape (d,); where there are named classes, d weights for each in turn."""

_ROOT_BITS = 64


class _Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class GopParameters(_Parameters):
    """``[protocol]`` of ``gop``: empty, as epsilon, delta, Lambda and the loss stand elsewhere in the study."""


class PooledParameters(_Parameters):
    """``[protocol]`` of ``pooled`` and ``batch``: empty."""


class IndividualParameters(_Parameters):
    """``[protocol]`` of ``individual``: empty."""


class AverageParameters(_Parameters):
    """``[protocol]`` of ``average``: empty, as epsilon and Lambda stand elsewhere in the study."""


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
    section : str
        The ``[protocol]`` section of a new study, as commented TOML; empty where there is nothing to choose.
    """

    name: str
    paper: str
    run: Callable[[Study, Mapping[str, Dataset], Rng], Weights | dict[str, Weights]]
    parameters: type[BaseModel]
    check: Callable[[Study], object]
    section: str = ""


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
    X, y = (np.concatenate(columns) for columns in zip(*((part.X, part.y) for part in parts), strict=True))
    return Dataset(X, y, study.classes)


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
    if study.multiclass:
        raise BadInput("[label] has classes, but gop learns to tell one value from all others", "name it positive")
    fewest = study.K * study.study.min_records
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, fewest, loss_of(study.model.loss).c)
    noise_sigma(study.d, slack.epsilon, study.privacy.delta)


# --- Noisy gradient descent --------------------------------------------------------


def _central(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    return central_dp.central_dp(study, pool(study, data), rng)


# --- Without privacy -------------------------------------------------------------


def _fit(study: Study, records: Dataset) -> Weights:
    """Return the exact minimiser over some records: of the study's loss, or of softmax for named classes."""
    Lambda = study.model.regularization
    if records.classes is None:
        return fit(records.X, records.y, Lambda, study.model.loss)
    return fit_softmax(records.X, records.y, Lambda, classes=records.classes).ravel()


def _pooled(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:  # noqa: ARG001  no noise
    return _fit(study, pool(study, data))


def _individual(study: Study, data: Mapping[str, Dataset], rng: Rng) -> dict[str, Weights]:  # noqa: ARG001  no noise
    pool(study, data)
    return {name: _fit(study, data[name]) for name in study.names}


def best_single_party(classifiers: Mapping[str, Weights], test: Dataset) -> tuple[str, float]:
    """Return the party whose classifier errs least on public test records, the first of equals, and its error rate."""
    errors = {name: _error(test, w) for name, w in classifiers.items()}
    best = min(errors, key=lambda name: errors[name])
    return best, errors[best]


def _error(test: Dataset, w: Weights) -> float:
    if test.classes is None:
        return error_rate(test.X, test.y, w)
    return class_error_rate(test.X, test.y, w.reshape(test.classes, -1))


def _minimiser(study: Study) -> None:
    """Refuse a study without the one minimiser."""
    require_convex(study.model)
    if study.multiclass and study.model.loss != LOGISTIC.name:
        raise BadInput(
            f'[model] loss is "{study.model.loss}", but several classes are told apart by softmax regression, whose '
            "loss is the logistic one",
            'set loss = "logistic"',
        )


# --- Averaged parameters -----------------------------------------------------------


def average_rate(study: Study) -> Fraction:
    """Return beta = eps/Delta of ``average``'s noise, with Delta = 2/(M lambda), or 2 sqrt2/(M lambda) for softmax.

    All records of one of M parties may change. They move its own classifier by at most 2/lambda (2 sqrt2/lambda), as
    one record of n would by an n-th of it, and the average by an M-th. sqrt2 is rounded up by a part in 2^64.

    References
    ----------
    Hamm, Cao, Belkin 2016: for softmax Appendix B.4, "the L2 sensitivity of the average parameters for multiclass
    logistic regression is 2 sqrt2/(M lambda)"; for two classes the same argument with section 2.2's bound.
    """
    two = Fraction(2)
    if study.multiclass:
        two *= Fraction(math.isqrt(2 << (2 * _ROOT_BITS)) + 1, 1 << _ROOT_BITS)
    return study.K * as_fraction(study.model.regularization) * as_fraction(study.privacy.epsilon) / two


def _average(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    """Add up what a trusted entity gets, and noise with density exp(-beta ||eta||_2), both in units of 2^-F."""
    mean = np.mean(list(_individual(study, data, rng).values()), axis=0)
    unit = 1 << FRACTION_BITS
    eta = l2_laplace(rng, average_rate(study), len(mean), Fraction(unit))
    return np.array([(round(value * unit) + noise) / unit for value, noise in zip(mean.tolist(), eta, strict=True)])


BASELINES: dict[str, Baseline] = {
    b.name: b
    for b in (
        Baseline("gop", "Rajkumar and Agarwal 2012, Algorithm 4", _gop, GopParameters, _check_gop),
        Baseline(
            "central-dp",
            "Kang, Liu and Wang, Theorem 1",
            _central,
            central_dp.Parameters,
            central_dp.check,
            DESCENT_SECTION,
        ),
        Baseline("pooled", "all: one classifier for everybody's records", _pooled, PooledParameters, _minimiser),
        Baseline("individual", "all: a classifier for each party's", _individual, IndividualParameters, _minimiser),
        Baseline("batch", "Hamm, Cao and Belkin 2016, section 6: pooled", _pooled, PooledParameters, _minimiser),
        Baseline("average", "Hamm, Cao and Belkin 2016, Appendix B.4", _average, AverageParameters, _minimiser),
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
