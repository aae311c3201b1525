"""Audits that refute what papers claim, for the view in which each claim fails."""

import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.learning.gradients import gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, sigma_share
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.seat import Once
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire.codec import unpack_plain
from masquerade_lab.audit.audit import Audit, Gate, Scores
from masquerade_lab.audit.canary import FLAT, flat, others, study_of
from masquerade_lab.audit.source import Source
from masquerade_lab.baselines import gop
from masquerade_lab.reproduce.rajkumar import printed_root
from masquerade_protocols import protocol_of
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import roles as local_aggregation
from masquerade_protocols.local_aggregation.public import FRACTION_BITS
from masquerade_protocols.psgd import schedule as psgd_schedule
from masquerade_protocols.weighted_dp import public as weighted_dp

__all__ = ["claims"]

_Array = NDArray[np.float64]

_D = 10
_ROUNDS = 1000
_LOGISTIC = loss_of("logistic")


def _claim(name: str, study: Study, scores: Scores, *, adversary: str, **more: object) -> Audit:
    """Return the audit of a study's epsilon and delta, which its paper claims."""
    target = {"epsilon": study.privacy.epsilon, "delta": study.privacy.delta, "canary": FLAT}
    fields = {"name": name, "protocol": study.study.protocol, "gate": Gate.REFUTED} | target | more
    return Audit(scores=scores, adversary=adversary, **fields)  # type: ignore[arg-type]


def _stated(study: Study, view: str) -> float | None:
    """Return the epsilon that the study's own statement proves for a record in a view."""
    (row,) = (claim for claim in protocol_of(study).statement(study) if claim.view == view and claim.unit == "record")
    return row.epsilon


# --- Noisy gradients: T rounds at epsilon each ---------------------------------------------------


@cache
def _noisy() -> Study:
    return study_of("noisy-gradient", parties=2, d=_D, epsilon=0.1, delta=0.05, rounds=_ROUNDS)


def _noisy_gradient(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Follow the honest descent along the last coordinate, and add up what is beyond the other records' gradients.

    Nobody but the canary has a gradient there: -sigma(-w) under D, sigma(w) under D'. Charlie subtracts their mean.
    """
    N, bits = 1000, psgd_schedule.FRACTION_BITS
    schedule, Lambda = psgd_schedule.noisy(_noisy(), N), _noisy().model.regularization
    z = step_sizes(float(_LOGISTIC.c), Lambda, 0.0)
    y, w, scores = -1.0 if moved else 1.0, np.zeros(runs), np.zeros(runs)
    for t in range(_ROUNDS):
        gradient = _LOGISTIC.derivative(y * w) * y
        sums = gradient + sum(source.l2_coordinate(schedule.beta(t) / factor, _D, (runs,), bits) for _ in range(2))
        scores += sums - (_LOGISTIC.derivative(w) - _LOGISTIC.derivative(-w)) / 2
        w = w - z(t) * (sums / N + Lambda * w)
    return scores


# --- PSGD, and a third party that chooses the points -----------------------------------------------


@cache
def _psgd(epsilon: float) -> Study:
    return study_of("psgd", parties=2, d=_D, epsilon=epsilon, delta=0.05, calibration="paper", rounds=_ROUNDS)


_APART = math.radians(10)
_FAR = 1000.0  # |w|: one of the two records has no gradient, the other its longest


def _active(epsilon: float, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Ask for gradients at two points by turns: their difference is free of eta, which is the same in every round."""
    study, N = _psgd(epsilon), 1000
    schedule = psgd_schedule.psgd(study, N)
    canary, bits = np.zeros((1, _D)), psgd_schedule.FRACTION_BITS
    canary[0, -2:] = math.cos(_APART / 2), math.sin(_APART / 2) * (1 if moved else -1)
    scores = np.zeros(runs)
    eta = source.gaussian(sigma_share(schedule.sigma, study.K) * factor, (runs,), bits)
    for sign in (1.0, -1.0):
        w = np.zeros(_D)
        w[-1] = sign * _FAR
        exact = gradient_sum(canary, np.ones(1), w, _LOGISTIC)[-2]  # the other records' gradients are known
        for t in range(_ROUNDS // 2):
            scores += sign * (exact + source.l2_coordinate(schedule.beta(t) / factor, _D, (runs,), bits) + eta)
    return scores


def _psgd_active(epsilon: float, quick: int) -> Audit:
    study = _psgd(epsilon)
    return _claim(
        f"psgd, points chosen, epsilon {epsilon:g}",
        study,
        partial(_active, epsilon),
        adversary="the paper's third party, who supplies w_t, with the other party of two",
        canary="one of two unit vectors 10 degrees apart",
        runs=20000,
        quick=quick,
        proved=_stated(study, "Charlie with 1 party"),
        how="own schedule and gradients, along one coordinate; noise by the fast law",
        cost=0.07,
    )


# --- Objective perturbation ------------------------------------------------------------------------

_GOP_N = 100


@cache
def _gop() -> Study:
    return study_of("gop", parties=2, d=_D, epsilon=0.1, delta=0.05)


def _printed(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Release the minimiser; from it, the adversary works out which eta it takes under D and under D'."""
    study, pair = _gop(), [flat(_GOP_N, _D, moved=m) for m in (False, True)]
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, _GOP_N, _LOGISTIC.c)
    sigma = Fraction(printed_root(_D, slack.epsilon, study.privacy.delta)) * factor
    unit, curvature = 1 << gop.FRACTION_BITS, study.model.regularization + float(slack.Delta)
    scores = []
    for _ in range(runs):
        drawn = np.array(gaussian(source.rng, sigma, _D, Fraction(unit))) / unit
        w = gop.gop_minimiser(study, pair[moved], drawn)
        eta = [gradient_sum(D.X, D.y, w, _LOGISTIC) + _GOP_N * curvature * w for D in pair]  # but for the sign
        scores.append(eta[0] @ eta[0] - eta[1] @ eta[1])
    return np.array(scores)


# --- Weighted DP -------------------------------------------------------------------------------------

_RECORDS = 45222  # of all parties: the sizes of the paper's Adult


@cache
def _weighted() -> Study:
    return study_of(
        "weighted-dp", parties=32, d=_D, epsilon=0.1, delta=1e-3, calibration="paper", regularization=0.0, rounds=1000
    )


def _smallest_descent(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Look at the last coordinate of the local descent of a party with 200 records."""
    descent, records = weighted_dp.plan(_weighted(), _RECORDS), flat(200, _D, moved=moved)
    return np.array(
        [
            local_descent.local_descent(
                _weighted(), descent.T, float(descent.eta), descent.sigma * factor, records, source.rng
            )[-1]
            for _ in range(runs)
        ]
    )


def _even_descent(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Descend along the last coordinate alone, where no other of the party's records has a gradient."""
    descent, n = weighted_dp.plan(_weighted(), _RECORDS), _RECORDS // 32
    theta, y = np.zeros(runs), -1.0 if moved else 1.0
    for _ in range(descent.T):
        gradient = np.rint(_LOGISTIC.derivative(y * theta) * y * 2**local_descent.FRACTION_BITS)
        z = source.gaussian(n * descent.sigma * factor, (runs,), local_descent.FRACTION_BITS)
        theta = theta - float(descent.eta) * (gradient / 2**local_descent.FRACTION_BITS + z) / n
    return theta


def _descent_proved(n: int) -> float:
    sigma = float(weighted_dp.plan(_weighted(), _RECORDS).sigma)
    return epsilon_of(2 * math.sqrt(1000) / (n * sigma), 1e-3)


# --- Local aggregation, through the roles -------------------------------------------------------------

_SIZES = (12, 14, 16)


@cache
def _aggregation() -> Study:
    return study_of(
        "local-aggregation", parties=3, d=2, epsilon=0.1, delta=1e-6, calibration="paper", regularization=0.5
    )


def _smallest_party(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Take party-1's own noise off what is released, and compare with the noiseless sums under D and D'."""
    del factor  # the noise is known, however much there is
    study, scale = _aggregation(), 2**FRACTION_BITS
    own, middle = (Dataset.from_unit_ball(*others(n, 2)) for n in _SIZES[:2])
    pair = [flat(_SIZES[2], 2, moved=m) for m in (False, True)]
    Lambda = study.model.regularization
    known = fit(own.X, own.y, Lambda) + fit(middle.X, middle.y, Lambda)
    sums = [known + fit(D.X, D.y, Lambda) for D in pair]
    data = dict(zip(study.names, (own, middle, pair[moved]), strict=True))
    scores = []
    for run in range(runs):
        table = Table(study.names, {who: source.seat(run, who) for who in (*study.names, CHARLIE)})
        model = run_in_memory(local_aggregation, study, data, table=table)[CHARLIE]
        noise = next(
            unpack_plain(entry.answer)
            for entry in table.journal("party-1")
            if isinstance(entry.effect, Once) and entry.effect.label == "noise"
        )
        seen = np.array(model.weights) * len(study.names) - np.array(noise) / scale
        scores.append(float(np.linalg.norm(seen - sums[0]) - np.linalg.norm(seen - sums[1])))
    return np.array(scores)


def claims() -> tuple[Audit, ...]:
    """Return the audits of what papers claim."""
    return (
        _claim(
            "noisy-gradient, T rounds",
            _noisy(),
            _noisy_gradient,
            adversary="Charlie alone, who follows the protocol; 2 honest parties",
            runs=20000,
            quick=10000,
            proved=_stated(_noisy(), "Charlie"),
            how="own schedule, steps and loss, along the one coordinate that the canary moves; noise by the fast law",
            cost=0.15,
        ),
        _psgd_active(0.1, 10000),
        _psgd_active(0.2, 3000),
        _claim(
            "gop, sigma* as printed",
            _gop(),
            _printed,
            adversary="whoever sees the released model",
            runs=400,
            quick=200,
            how="own minimiser and sampler; sigma* of the printed equation",
        ),
        _claim(
            "weighted-dp, smallest party",
            _weighted(),
            _smallest_descent,
            adversary="the paper's server, who sees theta_T of a party with 200 of 45,222 records",
            runs=300,
            quick=60,
            proved=_descent_proved(200),
            cost=130.0,
        ),
        _claim(
            "weighted-dp, even split",
            _weighted(),
            _even_descent,
            adversary="the paper's server, who sees theta_T of one of 32 parties of equal size",
            runs=20000,
            quick=10000,
            proved=_descent_proved(_RECORDS // 32),
            how="own plan and loss, along the one coordinate that the canary moves; noise by the fast law",
            cost=0.04,
        ),
        _claim(
            "local-aggregation, smallest party",
            _aggregation(),
            _smallest_party,
            adversary="the smallest party, which knows its own noise",
            delta=0.0,
            runs=60,
            quick=24,
            how="the roles at the in-memory table, 512 bits",
            cost=140.0,
        ),
    )
