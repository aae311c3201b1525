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
from masquerade_core.learning.losses import LOGISTIC, require_convex
from masquerade_core.learning.softmax import class_error_rate, fit_softmax
from masquerade_core.privacy.central_claims import average_statement
from masquerade_core.privacy.claims import Claim
from masquerade_core.privacy.mechanisms import l2_laplace
from masquerade_core.rng import Rng
from masquerade_core.study import Study, as_fraction, check_section
from masquerade_protocols import central_dp, gop
from masquerade_protocols.protocol import check_calibration
from masquerade_protocols.weighted_dp import DESCENT_SECTION, STEPS_SECTION

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


def _nothing(_study: Study) -> tuple[Claim, ...]:
    return ()


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
    calibrations : tuple of str
        How its noise may follow from the wish; that of a new study first.
    statement : callable
        What is claimed and proved; nothing where there is no privacy to speak of.
    proven_section : str
        ``section`` of a new study with ``calibration = "proven"``, where it is another.
    regularization_note : str
        As in :class:`~masquerade_protocols.protocol.Protocol`.
    """

    name: str
    paper: str
    run: Callable[[Study, Mapping[str, Dataset], Rng], Weights | dict[str, Weights]]
    parameters: type[BaseModel]
    check: Callable[[Study], object]
    section: str = ""
    calibrations: tuple[str, ...] = ("paper",)
    statement: Callable[[Study], tuple[Claim, ...]] = _nothing
    proven_section: str = ""
    regularization_note: str = "the larger, the simpler the model; there is no noise"


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


# --- With noise, on everybody's records ----------------------------------------------


def _gop(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    return gop.gop(study, pool(study, data), rng)


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


def _average_claims(study: Study) -> tuple[Claim, ...]:
    return average_statement(
        M=study.K,
        d=study.d * study.outputs,
        eps=study.privacy.epsilon,
        Lambda=study.model.regularization,
        loss=study.model.loss,
        classes=study.classes,
        Delta=float(as_fraction(study.privacy.epsilon) / average_rate(study)),
        fraction_bits=FRACTION_BITS,
    )


BASELINES: dict[str, Baseline] = {
    b.name: b
    for b in (
        Baseline(
            "gop",
            "Rajkumar and Agarwal 2012, Algorithm 4",
            _gop,
            GopParameters,
            gop.check_gop,
            calibrations=("paper", "proven"),
            statement=gop.statement,
            regularization_note="the larger, the less the noise moves the model, and the simpler the model",
        ),
        Baseline(
            "central-dp",
            "Kang, Liu and Wang, Theorem 1",
            _central,
            central_dp.Parameters,
            central_dp.check,
            DESCENT_SECTION,
            calibrations=("paper", "proven"),
            statement=central_dp.statement,
            proven_section=STEPS_SECTION,
            regularization_note="the larger, the simpler the model; the noise does not depend on it",
        ),
        Baseline("pooled", "all: one classifier for everybody's records", _pooled, PooledParameters, _minimiser),
        Baseline("individual", "all: a classifier for each party's", _individual, IndividualParameters, _minimiser),
        Baseline("batch", "Hamm, Cao and Belkin 2016, section 6: pooled", _pooled, PooledParameters, _minimiser),
        Baseline(
            "average",
            "Hamm, Cao and Belkin 2016, Appendix B.4",
            _average,
            AverageParameters,
            _minimiser,
            statement=_average_claims,
            regularization_note="the larger, the less noise, and the simpler the model",
        ),
    )
}


def baseline_of(study: Study) -> Baseline:
    """Return the baseline that a study names, after a check that it can carry the study out.

    Raises
    ------
    BadInput
        There is no such baseline; its section has an unknown key; it has no such calibration; or no noise fits.
    """
    name = study.study.protocol
    if name not in BASELINES:
        raise BadInput(
            f"[study] protocol is {name!r}; the baselines are {', '.join(BASELINES)}", "correct the study's protocol"
        )
    baseline = BASELINES[name]
    check_section(baseline.parameters, study.protocol, "protocol")
    check_calibration(study, baseline.calibrations)
    baseline.check(study)
    return baseline
