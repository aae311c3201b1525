"""Noisy gradient descent on one set of records: Kang, Liu and Wang's Algorithm 1, lines 3 to 6.

``weighted-dp`` runs it at every party, the baseline ``central-dp`` on everybody's records. This module has the descent
itself, the part of ``[protocol]`` that both share, and the two ways to size the noise: the paper's equation (3), or
the noise that a proof needs.
"""

from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.data.records import Records
from masquerade_core.errors import BadInput
from masquerade_core.learning.gradients import GradientSum
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, descent_sigma, local_descent_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.study import Study

__all__ = [
    "DESCENT_SECTION",
    "FRACTION_BITS",
    "STEPS_SECTION",
    "UNIT",
    "DescentParameters",
    "check_no_c",
    "draws",
    "local_descent",
    "paper_c",
    "paper_sigma",
    "proven_noise",
]

FRACTION_BITS = 28
"""F: gradients, noise and classifiers are integers in units of 2^-F."""

UNIT = Fraction(1 << FRACTION_BITS)
"""2^F."""

_NORMALS = 1 << 16  # coordinates of noise that are drawn at a time
_HELD = 1 << 52  # the largest noise that floats hold, with a gradient on top
_MOST_HELD = 1 << 23  # records whose gradients, in units of 2^-F, are shorter than that

STEPS_SECTION = """\
# How many steps, and how long they are.
rounds = 1000
learning_rate = 0.5
"""
"""The number and length of noisy steps, for the ``[protocol]`` section of a new study with proven noise."""

DESCENT_SECTION = (
    STEPS_SECTION
    + """\
# The noise's variance is proportional to c. The paper leaves c open; its own proof needs 16 or more.
c = 16.0
"""
)
"""The same for a new study with the paper's noise, which also needs c."""


class DescentParameters(BaseModel):
    """The parameters of noisy gradient descent: ``[protocol]`` of ``central-dp``, and a part of ``weighted-dp``'s.

    ``rounds`` is T, 1000 in the paper's experiments. The noise grows with sqrt(T), so neither many rounds nor few are
    always best. The best number depends on the data; anyone who chooses it by looking at the data loses privacy that no
    statement counts. ``c`` is the paper's constant and has no default, since the paper leaves it open.
    ``learning_rate`` is eta.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=10_000, description="T, how many local rounds")] = 1000
    c: Annotated[float | None, Field(gt=0, le=1e6, allow_inf_nan=False)] = None
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="eta, of every step")] = 0.5


def paper_c(chosen: DescentParameters) -> float:
    """Return the paper's c, which has no default; BadInput where the study does not set it."""
    if chosen.c is None:
        raise BadInput(
            "[protocol] c is missing: the variance of the noise is proportional to c, and the paper says only that "
            f"c is some constant; its own proof needs c >= {C_OF_THE_PROOF}",
            f"set c = {C_OF_THE_PROOF}.0",
        )
    return chosen.c


def check_no_c(study: Study, chosen: DescentParameters) -> None:
    """Refuse a c beside a proven calibration, where it would change nothing."""
    if study.proven and chosen.c is not None:
        raise BadInput(
            f'[protocol] c is {chosen.c:g}, but with calibration = "proven" the noise follows from epsilon and delta',
            'leave c out, or set calibration = "paper"',
        )


def paper_sigma(study: Study, chosen: DescentParameters, n: int) -> Fraction:
    """Return equation (3)'s sigma for n records.

    Raises
    ------
    BadInput
        The study has no c, or its epsilon or delta is out of range.
    """
    G, privacy = loss_of(study.model.loss).L, study.privacy
    return descent_sigma(paper_c(chosen), G, chosen.rounds, privacy.epsilon, privacy.delta, n)


def proven_noise(study: Study, rounds: int) -> SharedNoise:
    """Return the noise with which one local descent alone keeps the study's privacy target.

    Raises
    ------
    BadInput
        No noise keeps that target.
    """
    return local_descent_noise(
        G=loss_of(study.model.loss).L,
        d=study.d,
        rounds=rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        fraction_bits=FRACTION_BITS,
    )


def local_descent(study: Study, T: int, eta: float, sigma: Fraction, data: Records, rng: Rng) -> NDArray[np.float64]:
    """Descend the objective of ``data`` for T rounds under noise: lines 3 to 6.

    theta_0 = 0 is public; the paper lets the server draw it. The regulariser's gradient Lambda theta takes nothing from
    the records and needs no noise.

    Parameters
    ----------
    study : Study
        Loss and Lambda.
    T, eta : int, float
        Rounds and learning rate.
    sigma : Fraction
        Standard deviation of a coordinate of z_t, the noise on the *mean* gradient; the sum of n gradients has n sigma.
    data : Records
    rng : Rng
        The only source of randomness.

    Returns
    -------
    ndarray, shape (d,)
        theta_T.
    """
    loss, Lambda, n = loss_of(study.model.loss), study.model.regularization, data.n
    theta, d = np.zeros(study.d), study.d
    rounds = _rounds_a_draw(d)
    noise = np.zeros(0)
    for t in range(T):
        if t % rounds == 0:
            noise = _numbers(_noise(study, rng, n * sigma, min(rounds, T - t) * d), n)
        z = noise[t % rounds * d : (t % rounds + 1) * d]
        gradient = np.rint(data.added(GradientSum(theta, loss)) * 2.0**FRACTION_BITS)
        if z.dtype == object:
            gradient = np.array([int(g) for g in gradient.tolist()], dtype=object)
        mean = ((gradient + z) / (n << FRACTION_BITS)).astype(np.float64)
        theta = theta - eta * (mean + Lambda * theta)
    return theta


def _numbers(noise: list[int], n: int) -> NDArray[Any]:
    """Return noise as floats where they hold all its integers, with n gradients on top; else as objects.

    Such sums are 2^53 at most, and a quotient of two floats is that of the same integers.
    """
    held = n <= _MOST_HELD and max(map(abs, noise)) <= _HELD
    return np.array(noise, dtype=np.float64 if held else object)


def _noise(study: Study, rng: Rng, sigma: Fraction, size: int) -> list[int]:
    """Draw the noise on a sum of gradients, in units of 2^-F.

    The paper's noise is a normal vector, rounded. The proof of the proven noise needs a discrete Gaussian.
    """
    if study.proven:
        return discrete_gaussian(rng, sigma * UNIT, size)
    return gaussian(rng, sigma, size, UNIT)


def _rounds_a_draw(d: int) -> int:
    return max(1, _NORMALS // d)


def draws(T: int, d: int) -> int:
    """Return how many vectors of noise a descent draws; each of them serves many rounds."""
    return -(-T // _rounds_a_draw(d))
