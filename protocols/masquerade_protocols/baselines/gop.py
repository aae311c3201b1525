"""Gaussian objective perturbation, which ``psgd`` approaches: a baseline, no protocol.

Rajkumar and Agarwal 2012, Algorithm 4: the minimiser of J(w) + eta.w/N + (Delta/2) ||w||^2, eta ~ N(0, sigma*^2 I).
With ``calibration = "proven"`` sigma does not depend on d, and a little noise on the minimiser covers what the proof of
Theorem 4.1 leaves to real numbers (``docs/privacy/gop.md``).
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import TOLERANCE, fit
from masquerade_core.learning.losses import loss_of, require_convex
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_core.privacy.noise.proven_objective import Perturbation, perturbation
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.baselines.gop_statement import gop_statement, proven_statement

__all__ = ["FRACTION_BITS", "check_gop", "gop", "gop_minimiser", "gop_noise", "statement"]

FRACTION_BITS = 32  # F: noise is an integer vector in units of 2^-F

_Weights = NDArray[np.float64]


def _noise(rng: Rng, sigma: Fraction, d: int) -> _Weights:
    return np.array([value / 2**FRACTION_BITS for value in gaussian(rng, sigma, d, Fraction(1 << FRACTION_BITS))])


def gop_noise(rng: Rng, study: Study, N: int) -> _Weights:
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
    return _noise(rng, noise_sigma(study.d, slack.epsilon, privacy.delta), study.d)


def gop_minimiser(study: Study, records: Dataset, eta: _Weights) -> _Weights:
    """Return argmin_w J(w) + eta.w/N + (Delta/2) ||w||^2 for a given eta, such as the sum of the parties' eta^k.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 4.
    """
    slack = compute_slack(
        study.privacy.epsilon, study.model.regularization, len(records.y), loss_of(study.model.loss).c
    )
    return _minimiser(study, records, eta, slack.Delta)


def _minimiser(study: Study, records: Dataset, eta: _Weights, Delta: Fraction) -> _Weights:
    model = study.model
    # Delta is a multiple of 2^-40: the float is Delta itself.
    linear = eta / len(records.y)
    return fit(records.X, records.y, model.regularization, model.loss, linear=linear, extra=float(Delta))


def _perturbation(study: Study, N: int) -> Perturbation:
    return perturbation(
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        N=N,
        c=float(loss_of(study.model.loss).c),
        d=study.d,
        tolerance=TOLERANCE,
        grid=2.0**-FRACTION_BITS,
    )


def gop(study: Study, records: Dataset, rng: Rng) -> _Weights:
    """Return the classifier that is released, shape (d,).

    Parameters
    ----------
    study : Study
    records : Dataset
        Everybody's.
    rng : Rng
        The only source of randomness.
    """
    N = len(records.y)
    if not study.proven:
        return gop_minimiser(study, records, gop_noise(rng, study, N))
    noise = _perturbation(study, N)
    w = _minimiser(study, records, _noise(rng, noise.sigma, study.d), noise.Delta)
    unit = 1 << FRACTION_BITS
    off = gaussian(rng, noise.output, study.d, Fraction(unit))
    return np.array([(round(value * unit) + x) / unit for value, x in zip(w.tolist(), off, strict=True)])


def check_gop(study: Study) -> None:
    """Refuse a wish without noise, at the fewest records there may be, where least of epsilon is left.

    Raises
    ------
    BadInput
        There is none; or the objective is not convex, or has more classes than two.
    """
    require_convex(study.model)
    if study.multiclass:
        raise BadInput("[label] has classes, but gop learns to tell one value from all others", "name it positive")
    fewest = study.K * study.study.min_records
    if study.proven:
        _perturbation(study, fewest)
        return
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, fewest, loss_of(study.model.loss).c)
    noise_sigma(study.d, slack.epsilon, study.privacy.delta)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return what is claimed and proved of a run, whatever N is."""
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if study.proven:
        return proven_statement(epsilon=epsilon, delta=delta)
    Lambda, c = study.model.regularization, loss_of(study.model.loss).c
    fewest = compute_slack(epsilon, Lambda, study.K * study.study.min_records, c)
    # Where Delta is 0, twice the slack is what eps~ lacks; where it is not, it may be nearly epsilon at another N.
    slack = (epsilon - float(fewest.epsilon)) / 2 if fewest.Delta == 0 else epsilon / 2
    return gop_statement(epsilon=epsilon, delta=delta, slack=slack, sigma=float(noise_sigma(study.d, epsilon, delta)))
