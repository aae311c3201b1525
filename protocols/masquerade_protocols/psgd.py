"""PSGD: gradient descent on the sum of everybody's noisy gradients, every round under encryption.

Rajkumar and Agarwal, "A Differentially Private Stochastic Gradient Descent Algorithm for Multiparty Classification",
AISTATS 2012: Algorithm 1 (the third party), Procedure 2 (computeSlack), Procedure 3 (a party), with the secure sum that
Theorem 4.2 asks for. ``noisy-gradient`` and ``decaying-budget`` are the two attempts of its section 3.2 that the paper
rejects; they are kept as baselines. For K parties, T rounds, d coordinates in m plaintexts, keys of n bits::

    party P_k                                    Charlie                          lead P_L (one of the parties)
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey ---------------------------|<------- SumKey ----------------|   n/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |                       one secure sum: N = sum of N_k; no N_k is seen       |
      | draw eta^k once, rho_1^k .. rho_T^k       |                                |
      |                       T secure sums: sum_k (grad G_k(w_t) + rho_t^k + eta^k)
      |                       (proven: grad G_k(w_t) + a share of Gaussian noise, new in every round)
      | w_(t+1) = w_t - z_t (sum/N + (lambda + Delta) w_t), by everybody alike     |

See :mod:`masquerade_protocols.secure_sum` for the messages of a sum. The iterate is public, and everybody computes it
from the opened sums, so a Charlie who passes them on can ask for a gradient at no other point than the one that
follows. One who adds a number to a total before the lead opens it moves the next point by it; his receipts show that
afterwards (:func:`~masquerade_protocols.secure_sum.blame`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from math import ceil
from operator import add
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.learning.gradients import gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of, require_convex
from masquerade_core.model import Model
from masquerade_core.privacy.discrete import discrete_gaussian_tail_bound
from masquerade_core.privacy.dp_gd_claims import Noise, run_noise
from masquerade_core.privacy.mechanisms import gaussian, gaussian_tail_bound, l2_laplace, l2_tail_bound
from masquerade_core.privacy.objective import compute_slack, noise_sigma, sigma_share
from masquerade_core.privacy.weighted_claims import MOST_RECORDS, ROUNDING
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.counting import check_count, count_layout, fingerprint
from masquerade_protocols.dp_gd import share
from masquerade_protocols.secure_sum import add_up, learn_key, set_up

__all__ = [
    "FRACTION_BITS",
    "Parameters",
    "Schedule",
    "charlie",
    "check",
    "coarsest_bits",
    "decaying",
    "fraction_bits",
    "joint_noise",
    "layout",
    "noisy",
    "party",
    "psgd",
]

FRACTION_BITS = 28
"""F at most, :func:`fraction_bits`: gradients and noise are integers in units of 2^-F."""

_LEAST_FRACTION_BITS = 12  # so that rounding to the grid moves a gradient's norm by little, whatever N is
_EXACT_BITS = 26  # of the mean gradient
_TAIL_BITS = 128  # proven noise of a whole run goes beyond its slots with a chance of 2^-_TAIL_BITS at most
_WIDEST = 500  # bits of a coordinate; beyond them the squared length of a classifier is no float

_Array = NDArray[np.float64]
_Noise = tuple[tuple[int, ...], ...]


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    ``rounds`` is T. The steps are z_t = a/(t0 + t), which satisfy Algorithm 1's two conditions; what is not given suits
    the objective (:func:`~masquerade_core.learning.gradients.step_sizes`).
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=100_000, description="T, how many rounds")] = 100
    a: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="of the steps a/(t0 + t)")] = None
    t0: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="of the steps a/(t0 + t)")] = None


@dataclass(frozen=True)
class Schedule:
    """The noise of one run; what the three variants differ in, once N is known.

    Parameters
    ----------
    Delta : Fraction
        Extra curvature.
    beta : callable
        beta_t of rho_t's density exp(-beta_t |x|_2), t = 0, 1, ...
    sigma : Fraction
        sigma*, the standard deviation of a coordinate of sum_k eta^k; 0 where there is no eta.
    share : callable, optional
        With ``calibration = "proven"``: F -> the noise, in units of 2^-F, of which every party draws a share in each
        round, in place of rho and eta.
    """

    Delta: Fraction
    beta: Callable[[int], Fraction]
    sigma: Fraction
    share: Callable[[int], Noise] | None = None


Variant = Callable[[Study, int], Schedule]


def _beta(study: Study, epsilon: Fraction) -> Fraction:
    """Beta = epsilon/(2 L): Proposition 3.1 and equation (10)."""
    return epsilon / (2 * loss_of(study.model.loss).L)


def psgd(study: Study, N: int) -> Schedule:
    """Algorithm 1: eta^k once and rho_t^k in every round, both at eps~, which is what Procedure 3 is given.

    With ``calibration = "proven"``: Gaussian noise on the sum in every round, and nothing else; a gradient of length L
    is moved by 2 L at most, and T rounds compose exactly (``docs/privacy/psgd.md``).
    """
    if study.proven:
        return Schedule(Fraction(0), lambda _: Fraction(0), Fraction(0), partial(joint_noise, study))
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, N, loss_of(study.model.loss).c)
    sigma = noise_sigma(study.d, slack.epsilon, study.privacy.delta)
    beta = _beta(study, slack.epsilon)
    return Schedule(slack.Delta, lambda _: beta, sigma)


def joint_noise(study: Study, F: int) -> Noise:
    """Return the noise of a round with ``calibration = "proven"``, in units of 2^-F.

    A party's sum is rounded as a whole, which moves it by sqrt(d)/2 units at most, under either neighbour: Delta is 2 L
    (1 + ``ROUNDING``) 2^F + sqrt(d), as where a single gradient of length L is rounded, and with what floats add to a
    sum of gradients.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    return run_noise(
        clip=loss_of(study.model.loss).L * (1 + ROUNDING),
        d=study.d,
        rounds=_parameters(study).rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=F,
    )


def noisy(study: Study, _N: int) -> Schedule:
    """Section 3.2, attempt 1: rho_t^k at epsilon in every round, and nothing else; T rounds cost T epsilon."""
    beta = _beta(study, as_fraction(study.privacy.epsilon))
    return Schedule(Fraction(0), lambda _: beta, Fraction(0))


def decaying(study: Study, _N: int) -> Schedule:
    """Section 3.2: epsilon_t = epsilon/2^t for t = 1, 2, ...: epsilon in all, and gradients that drown in noise."""
    beta = _beta(study, as_fraction(study.privacy.epsilon))
    return Schedule(Fraction(0), lambda t: beta / 2 ** (t + 1), Fraction(0))


# --- What follows from public numbers alone -------------------------------------


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def check(study: Study, variant: Variant = psgd) -> None:
    """Refuse what can be known to fail before anybody joins.

    What N decides is checked at both its ends: Delta is largest, and the grid finest, at N = K min_records; gradients
    and, where Delta sets the steps, the longest step at N = K max_records.

    Raises
    ------
    BadInput
        An objective that is not strongly convex, steps that diverge, a delta without Gaussian noise, or noise that fits
        no plaintext.
    """
    require_convex(study.model)
    fewest, most = study.K * study.study.min_records, study.K * study.max_records
    _Descent(study, most, variant)
    descent = _Descent(study, fewest, variant)
    for t in {0, descent.rounds - 1}:
        for N in (fewest, most):
            layout(study, descent.schedule, N, t)


def fraction_bits(study: Study, schedule: Schedule, N: int) -> int:
    """Return F of the grid 2^-F: as fine as it can be, up to ``FRACTION_BITS``, at no more plaintexts than needed.

    Needed is that a coordinate of the mean gradient, of which each party rounds its part, is off by 2^-26 at most:
    K 2^-(F+1) <= N 2^-26. What room is left in the plaintexts of so coarse a grid makes it finer.
    """
    N = max(N, study.K * study.study.min_records)  # no honest run has less, and check has seen to it that they fit
    ratio = -(-(study.K << (_EXACT_BITS - 1)) // N)
    least = max((ratio - 1).bit_length(), _LEAST_FRACTION_BITS)
    coarse = _slots(study, schedule, N, 0, least)
    if not coarse.fits:
        return least
    finer = (F for F in range(FRACTION_BITS, least, -1) if _fits_as_well(_slots(study, schedule, N, 0, F), coarse))
    return next(finer, least)


def coarsest_bits(study: Study, variant: Variant = psgd) -> int:
    """Return a lower bound of :func:`fraction_bits` for every N that there may be: for what is said before N is known.

    No layout takes fewer plaintexts than one for K 2^25, which is less than N 2^F, and none more than one for K
    max_records.
    """
    fewest, most = study.K * study.study.min_records, study.K * study.max_records
    schedule = variant(study, fewest)  # it has the most noise
    count = Packing(study.d, study.K << (_EXACT_BITS - 1), study.crypto.key_bits).count
    fine = (_slots(study, schedule, most, 0, F) for F in range(FRACTION_BITS, _LEAST_FRACTION_BITS, -1))
    found = (
        F for F, slots in zip(range(FRACTION_BITS, 0, -1), fine, strict=False) if slots.fits and slots.count <= count
    )
    return next(found, _LEAST_FRACTION_BITS)


def _fits_as_well(slots: Packing, coarse: Packing) -> bool:
    return slots.fits and slots.count == coarse.count


def _slots(study: Study, schedule: Schedule, N: int, t: int, F: int) -> Packing:
    gradients = ceil(N * loss_of(study.model.loss).L * (1 << F)) + study.K
    return Packing(study.d, gradients + study.K * _largest(study, schedule, t, F), study.crypto.key_bits)


def _largest(study: Study, schedule: Schedule, t: int, F: int) -> int:
    """Bound one party's noise of round t, in units of 2^-F."""
    if schedule.share is not None:
        noise = schedule.share(F)
        return discrete_gaussian_tail_bound(noise.share, study.K * noise.rounds * study.d, _TAIL_BITS)
    # Within B units of the finest grid together, eta and rho are within 1 + B/2^(28-F), rounded up, of a coarser one.
    finest = _largest_noise(schedule.beta(t), schedule.sigma, study.K, study.d)
    return -(-finest >> (FRACTION_BITS - F)) + (F < FRACTION_BITS)


def layout(study: Study, schedule: Schedule, N: int, t: int) -> Packing:
    """Lay out round t: N gradients of length L at most, and the noise of K parties but for a chance of 2^-60 a draw.

    With ``calibration = "proven"``, but for one of 2^-128 a run.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    slots = _slots(study, schedule, N, t, fraction_bits(study, schedule, N))
    if not slots.fits:
        raise BadInput(
            f"round {t} needs slots of {slots.width} bits, for which a key of {study.crypto.key_bits} bits has no room",
            "ask for fewer rounds, a larger epsilon or a longer key",
        )
    if slots.width > _WIDEST:
        raise BadInput(
            f"round {t} needs slots of {slots.width} bits, but a classifier's coordinates have at most {_WIDEST}",
            "ask for fewer rounds or a larger epsilon",
        )
    return slots


def _layouts(study: Study, schedule: Schedule, N: int, rounds: int) -> Iterator[Packing]:
    """Lay out every round: anew only where beta_t is another one."""
    beta, slots = schedule.beta(0), layout(study, schedule, N, 0)
    for t in range(rounds):
        if schedule.beta(t) != beta:
            beta, slots = schedule.beta(t), layout(study, schedule, N, t)
        yield slots


@cache
def _largest_noise(beta: Fraction, sigma: Fraction, K: int, d: int) -> int:
    """One party's noise of one round, in units of the finest grid."""
    unit = Fraction(1 << FRACTION_BITS)
    eta = gaussian_tail_bound(sigma_share(sigma, K), d, unit) if sigma else 0
    return l2_tail_bound(beta, d, unit) + eta


def _encode_gradient(gradient: _Array, n: int, L: Fraction, F: int) -> tuple[int, ...]:
    """Clip to norm n L, which only rounding could exceed, and round to the grid of 2^-F."""
    norm = float(np.linalg.norm(gradient))
    clipped = gradient * min(1.0, float(n * L) / norm) if norm > 0 else gradient
    return tuple(map(int, np.rint(clipped * 2**F).tolist()))


class _Descent:
    """Algorithm 1's iterate, which everybody computes alike from the opened sums."""

    def __init__(self, study: Study, N: int, variant: Variant) -> None:
        chosen, loss, lam = _parameters(study), loss_of(study.model.loss), study.model.regularization
        self.schedule = variant(study, N)
        self.fraction_bits = fraction_bits(study, self.schedule, N)
        self.rounds = chosen.rounds
        self.w = np.zeros(study.d)
        self._N = N
        self._curvature = lam + float(self.schedule.Delta)
        self._z = step_sizes(float(loss.c), lam, float(self.schedule.Delta), a=chosen.a, t0=chosen.t0)

    def step(self, t: int, sums: tuple[int, ...]) -> None:
        """w_(t+1) = w_t - z_t (sum/N + (lambda + Delta) w_t)."""
        gradient = np.array(sums, dtype=np.float64) / 2**self.fraction_bits / self._N
        self.w = self.w - self._z(t) * (gradient + self._curvature * self.w)

    def model(self) -> Model:
        """Return w_T."""
        return Model(tuple(self.w.tolist()), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset, variant: Variant = psgd) -> Model:
    """Party P_k (Procedure 3), the lead included.

    Raises
    ------
    RefusedLocally
        Its records are more than are counted, with ``calibration = "proven"``.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party, or N is none that there can be.
    """
    if study.proven and len(data.y) > MOST_RECORDS:
        raise RefusedLocally(
            f"there are more records than the {MOST_RECORDS:,} for which rounding is counted in the noise",
            "take part with fewer records",
        )
    await seat.join()
    await seat.stage("keys")
    adder = await set_up(seat, study)
    await adder.fill(1)
    (N,) = await adder.open_sum(count_layout(study), [len(data.y)], b"N")
    check_count(study, len(data.y), N)
    descent = _Descent(study, N, variant)

    # Noise and obfuscators depend on no data: drawn ahead, while others draw theirs.
    await seat.stage("noise")
    T, F, slots = descent.rounds, descent.fraction_bits, list(_layouts(study, descent.schedule, N, descent.rounds))
    noise = await _draw_noise(seat, study, descent)
    await adder.fill(sum(s.count for s in slots))

    await seat.stage("rounds")
    await seat.release("iterates", study.privacy.epsilon, study.privacy.delta)
    for t in range(T):
        gradient = await seat.once(f"gradient {t}", partial(_gradient, study, data, descent.w, F=F))
        noisy_gradient = list(map(add, gradient, noise[t]))
        descent.step(t, await adder.open_sum(slots[t], noisy_gradient, fingerprint(N, descent.w)))
        await seat.progress(t + 1, T)
    return descent.model()


def _gradient(study: Study, data: Dataset, w: _Array, _rng: Rng, *, F: int) -> tuple[int, ...]:
    """Grad G_k(w_t), equation (8), on the grid."""
    loss = loss_of(study.model.loss)
    return _encode_gradient(gradient_sum(data.X, data.y, w, loss), len(data.y), loss.L, F)


async def _draw_noise(seat: Seat, study: Study, descent: _Descent) -> _Noise:
    """Draw eta^k once, of variance sigma*^2/K a coordinate, and rho_t^k for each round; entry t is for round t.

    With ``calibration = "proven"``, a share of Gaussian noise for each round.
    """
    schedule, T, unit = descent.schedule, descent.rounds, Fraction(1 << descent.fraction_bits)
    if schedule.share is not None:
        noise = schedule.share(descent.fraction_bits)
        return await seat.once("noise", lambda rng: share(rng, noise, study.d))

    def draw_eta(rng: Rng) -> tuple[int, ...]:
        return tuple(gaussian(rng, sigma_share(schedule.sigma, study.K), study.d, unit))

    def draw_rho(rng: Rng) -> _Noise:
        return tuple(tuple(l2_laplace(rng, schedule.beta(t), study.d, unit)) for t in range(T))

    eta = await seat.once("eta", draw_eta) if schedule.sigma else (0,) * study.d
    rho = await seat.once("rho", draw_rho)
    return tuple(tuple(map(add, rho_t, eta)) for rho_t in rho)


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study, variant: Variant = psgd) -> Model:
    """Charlie, Algorithm 1's third party: he sees K ciphertexts and one sum a round, and the iterates as all do.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    await seat.join()
    await seat.stage("keys")
    key = await learn_key(seat, study)
    (N,) = await add_up(seat, study, key, count_layout(study), 0)
    check_count(study, 1, N)
    descent = _Descent(study, N, variant)
    await seat.stage("rounds")
    for t, slots in enumerate(_layouts(study, descent.schedule, N, descent.rounds)):
        descent.step(t, await add_up(seat, study, key, slots, t + 1))
        await seat.progress(t + 1, descent.rounds, tuple(descent.w.tolist()))
    return descent.model()
