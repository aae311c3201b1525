"""``gop``: Gaussian objective perturbation by somebody whom all parties trust with their records.

Rajkumar and Agarwal 2012, Algorithm 4: the minimiser of J(w) + eta.w/N + (Delta/2) ||w||^2, eta ~ N(0, sigma*^2 I).
``psgd`` approaches this minimiser. With ``calibration = "proven"`` sigma does not depend on d. A little noise on the
minimiser then covers the errors of floating point, which the proof of Theorem 4.1 does not count
(``docs/privacy/gop.md``).
"""

from fractions import Fraction

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import TOLERANCE, fit
from masquerade_core.learning.losses import loss_of, require_convex
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_core.privacy.noise.proven_objective import Perturbation, perturbation
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.entry import Weights

__all__ = ["FRACTION_BITS", "check", "gop", "gop_minimiser", "gop_noise", "gop_perturbation"]

FRACTION_BITS = 32
"""F: noise is an integer vector in units of 2^-F."""


def _noise(rng: Rng, sigma: Fraction, d: int) -> Weights:
    return np.array([value / 2**FRACTION_BITS for value in gaussian(rng, sigma, d, Fraction(1 << FRACTION_BITS))])


def gop_noise(rng: Rng, study: Study, N: int) -> Weights:
    """Draw eta with components from N(0, sigma*^2), rounded to multiples of 2^-F; shape (d,).

    Parameters
    ----------
    N : int
        Number of all parties' records.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 4 and Procedure 3.
    """
    privacy = study.privacy
    slack = compute_slack(privacy.epsilon, study.model.regularization, N, loss_of(study.model.loss).c)
    return _noise(rng, noise_sigma(study.d, slack.epsilon, privacy.delta), study.d)


def gop_minimiser(study: Study, records: Dataset, eta: Weights) -> Weights:
    """Return argmin_w J(w) + eta.w/N + (Delta/2) ||w||^2 for a given eta, such as the sum of the parties' eta^k.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 4.
    """
    slack = compute_slack(
        study.privacy.epsilon, study.model.regularization, len(records.y), loss_of(study.model.loss).c
    )
    return _minimiser(study, records, eta, slack.Delta)


def _minimiser(study: Study, records: Dataset, eta: Weights, Delta: Fraction) -> Weights:
    model = study.model
    # Delta is a multiple of 2^-40, so its float is exact.
    linear = eta / len(records.y)
    return fit(records.X, records.y, model.regularization, model.loss, linear=linear, extra=float(Delta))


def gop_perturbation(study: Study, N: int) -> Perturbation:
    """Return the noise of calibration "proven" for N records.

    Raises
    ------
    BadInput
        No noise keeps the privacy target.
    """
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


def gop(study: Study, records: Dataset, rng: Rng) -> Weights:
    """Return the released classifier, shape (d,).

    Parameters
    ----------
    study : Study
    records : Dataset
        All parties' records, pooled.
    rng : Rng
        The only source of randomness.
    """
    N = len(records.y)
    if not study.proven:
        return gop_minimiser(study, records, gop_noise(rng, study, N))
    noise = gop_perturbation(study, N)
    w = _minimiser(study, records, _noise(rng, noise.sigma, study.d), noise.Delta)
    unit = 1 << FRACTION_BITS
    off = gaussian(rng, noise.output, study.d, Fraction(unit))
    return np.array([(round(value * unit) + x) / unit for value, x in zip(w.tolist(), off, strict=True)])


def check(study: Study) -> None:
    """Refuse a study that is known to fail.

    The noise is computed for the fewest records that the study allows, which leave the least of epsilon for the noise.

    Raises
    ------
    BadInput
        No noise keeps the privacy target, the objective is not convex, or there are more than two classes.
    """
    require_convex(study.model)
    if study.multiclass:
        raise BadInput(
            "[label] has classes, but gop learns to tell one value from all others",
            "set positive to that value, and leave classes out",
        )
    fewest = study.K * study.study.min_records
    if study.proven:
        gop_perturbation(study, fewest)
        return
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, fewest, loss_of(study.model.loss).c)
    noise_sigma(study.d, slack.epsilon, study.privacy.delta)
