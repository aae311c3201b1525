"""PSGD: gradient descent on the sum of everybody's noisy gradients, where every round is under encryption.

Rajkumar and Agarwal, "A Differentially Private Stochastic Gradient Descent Algorithm for Multiparty Classification",
AISTATS 2012: Algorithm 1 (the third party), Procedure 2 (computeSlack) and Procedure 3 (a party), with the secure sum
that Theorem 4.2 asks for. ``noisy-gradient`` and ``decaying-budget`` are two other protocols of its section 3.2, which
the paper rejects. They are kept for comparisons.

N is the number of all records, lambda the weight of the penalty on the model's weights. eta^k and rho_t^k are party k's
noise: eta^k is the same in all rounds, rho_t^k new in each. z_t is the length of a step, and Delta the extra curvature
that computeSlack chooses. The *lead* is the party that holds the parties' Paillier key. For K parties, T rounds, d
coordinates in m plaintexts, and keys of n bits::

    party P_k                                    Charlie                          lead P_L (one of the parties)
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey ---------------------------|<------- SumKey ----------------|   n/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |                       one secure sum: N = sum of N_k; no N_k is seen       |
      | draw eta^k once, rho_1^k .. rho_T^k       |                                |
      |                       T secure sums: sum_k (grad G_k(w_t) + rho_t^k + eta^k)
      |                       (proven: grad G_k(w_t) + a share of Gaussian noise, new in every round)
      | w_(t+1) = w_t - z_t (sum/N + (lambda + Delta) w_t), by everybody alike     |

:mod:`masquerade_protocols.blocks.secure_sum` has the messages of a secure sum. Everybody computes the iterate from the
opened sums. So a Charlie who passes them on cannot ask for a gradient at any other point than the next iterate. A
Charlie who adds a number to a total, before the lead opens it, shifts the next iterate by that number. The signed
contributions and his signed receipt would show it; but nobody keeps and compares them yet.
"""

from fractions import Fraction
from functools import partial
from itertools import chain
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.errors import RefusedLocally
from masquerade_core.learning.gradients import GradientSum, step_sizes
from masquerade_core.learning.losses import loss_of, require_convex
from masquerade_core.model import Model
from masquerade_core.privacy.noise.local_descent import MOST_ROUNDED_RECORDS
from masquerade_core.privacy.noise.objective_perturbation import sigma_share
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import fingerprint, join_and_count, relay_and_count
from masquerade_protocols.blocks.evaluation import evaluated, evaluated_by_all, hold_back
from masquerade_protocols.blocks.layouts import Vector
from masquerade_protocols.blocks.noise_shares import (
    FreshNoise,
    Price,
    draw_noise_share,
    kept,
    price_of,
    to_keep,
    with_cost,
)
from masquerade_protocols.psgd.schedule import RHO_TV_BITS, Variant, fraction_bits, layout, layouts, parameters_of, psgd

__all__ = ["Descent", "charlie", "check", "party"]

_Array = NDArray[np.float64]
_Noise = tuple[tuple[int, ...], ...]
_BEYOND = 2.0**62  # of a coordinate: more than any layout of 64 bits has room for


def check(study: Study, variant: Variant = psgd) -> None:
    """Refuse a study that must fail, before anybody joins.

    What depends on N is checked for the smallest and for the largest N. Delta is largest, and the grid finest, at N = K
    min_records. Gradients are largest at N = sum of max_records, and so is the first step where Delta sets the steps.

    Raises
    ------
    BadInput
        The objective is not strongly convex, the steps diverge, no Gaussian noise meets delta, or no plaintext holds
        the noise.
    """
    require_convex(study.model)
    fewest, most = study.K * study.study.min_records, study.most_records
    Descent(study, most, variant)
    descent = Descent(study, fewest, variant)
    for t in {0, descent.rounds - 1}:
        for N in (fewest, most):
            layout(study, descent.schedule, N, t)


def _encode_gradient(gradient: _Array, n: int, L: Fraction, F: int, *, machine: bool) -> NDArray[Any]:
    """Clip to norm n L, which only the error of floats could exceed, and round to the grid of 2^-F.

    ``machine``: whether the layout has room for 64 bits at most. Otherwise the numbers are Python's integers.
    """
    longest = float(n * L)
    clipped = gradient * (longest / max(float(np.linalg.norm(gradient)), longest))
    rounded = np.rint(clipped * 2**F)
    if machine:
        rounded = np.clip(rounded, -_BEYOND, _BEYOND)
        return np.asarray(rounded, dtype=np.int64)
    return np.array(list(map(int, rounded.tolist())), dtype=object)


# --- One step ---------------------------------------------------------------------


class Descent:
    """Algorithm 1's iterate. Everybody computes it from the opened sums, and all get the same.

    Parameters
    ----------
    study : Study
    N : int
        The number of all records.
    variant : callable
        Which of the three protocols.
    """

    def __init__(self, study: Study, N: int, variant: Variant) -> None:
        chosen, loss, lam = parameters_of(study), loss_of(study.model.loss), study.model.regularization
        self.schedule = variant(study, N)
        self.fraction_bits = fraction_bits(study, self.schedule, N)
        self.rounds = chosen.rounds
        self.w = np.zeros(study.d)
        self._N = N
        self._curvature = lam + float(self.schedule.Delta)
        self._z = step_sizes(float(loss.c), lam, float(self.schedule.Delta), a=chosen.a, t0=chosen.t0)

    def step(self, t: int, sums: Vector) -> None:
        """w_(t+1) = w_t - z_t (sum/N + (lambda + Delta) w_t)."""
        gradient = np.array(sums, dtype=np.float64) / 2**self.fraction_bits / self._N
        self.w = self.w - self._z(t) * (gradient + self._curvature * self.w)

    def model(self) -> Model:
        """Return w_T."""
        return Model(tuple(self.w.tolist()), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records, variant: Variant = psgd) -> Model:
    """Play party P_k (Procedure 3), the lead included, and return the model.

    Raises
    ------
    RefusedLocally
        With ``calibration = "proven"``: the noise does not cover the rounding errors of so many records.
    ProtocolViolation
        Another participant is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party, or the opened N cannot be right.
    """
    if study.proven and data.n > MOST_ROUNDED_RECORDS:
        raise RefusedLocally(
            f"this party has more than {MOST_ROUNDED_RECORDS:,} records, the most for which the noise covers rounding "
            "errors",
            "take part with fewer records",
        )
    held = await hold_back(seat, study, data)
    sums, N = await join_and_count(seat, study, held.training, held.records)
    descent = Descent(study, N, variant)

    # Noise and obfuscators depend on no data. So they are drawn ahead, while the others draw theirs.
    await seat.stage("noise")
    T, F, slots = descent.rounds, descent.fraction_bits, list(layouts(study, descent.schedule, N, descent.rounds))
    noise = await _draw_noise(seat, study, descent)
    await sums.precompute(slots)

    await seat.stage("rounds")
    if (price := _price(descent)) is None:  # nothing is proved of a round by itself, so the first one counts for all
        await seat.release("iterates", study.privacy.epsilon, study.privacy.delta)
    unused = FreshNoise(chain.from_iterable(noise))
    for t in range(T):
        own = partial(_gradient, study, held.training, descent.w, F=F, machine=slots[t].machine)
        noisy = partial(unused.on, kept(await seat.once(f"gradient {t}", own)), slots[t])
        if price is None:  # the paper's eta^k is drawn once, so nothing is made again
            opened = await sums.open_sum(slots[t], noisy(), fingerprint(N, descent.w))
        else:
            again = with_cost(seat, f"round {t + 1}", price, noisy)
            opened = await sums.open_sum(slots[t], await again(), fingerprint(N, descent.w), again)
        descent.step(t, opened)
        await seat.progress(t + 1, T)
    return await evaluated(sums, held, descent.model())


def _gradient(study: Study, data: Records, w: _Array, _rng: Rng, *, F: int, machine: bool) -> bytes | tuple[int, ...]:
    """Grad G_k(w_t), equation (8), on the grid."""
    loss = loss_of(study.model.loss)
    return to_keep(_encode_gradient(data.added(GradientSum(w, loss)), data.n, loss.L, F, machine=machine))


def _price(descent: Descent) -> Price | None:
    """Return what each round costs; None with the paper's noise."""
    if (share := descent.schedule.share) is None:
        return None
    return price_of(share(descent.fraction_bits), Fraction(1, descent.rounds))


async def _draw_noise(seat: Seat, study: Study, descent: Descent) -> _Noise:
    """Draw this party's noise; entry t is for round t.

    eta^k is drawn once, with variance sigma*^2/K in each coordinate, and rho_t^k anew for each round. The proof rests
    on rho_t^k alone. With ``calibration = "proven"`` it is a share of Gaussian noise for each round instead.
    """
    schedule, T, unit = descent.schedule, descent.rounds, Fraction(1 << descent.fraction_bits)
    if schedule.share is not None:
        noise = schedule.share(descent.fraction_bits)
        return await seat.once("noise", lambda rng: draw_noise_share(rng, noise, study.d))

    def draw_eta(rng: Rng) -> tuple[int, ...]:
        return tuple(gaussian(rng, sigma_share(schedule.sigma, study.K), study.d, unit))

    def draw_rho(rng: Rng) -> _Noise:
        return tuple(tuple(l2_laplace(rng, schedule.beta(t), study.d, unit, RHO_TV_BITS)) for t in range(T))

    eta = await seat.once("eta", draw_eta) if schedule.sigma else (0,) * study.d
    rho = await seat.once("rho", draw_rho)
    return tuple(tuple(map(add, rho_t, eta)) for rho_t in rho)


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study, variant: Variant = psgd) -> Model:
    """Play Charlie, Algorithm 1's third party, and return the model.

    In each round he sees K encrypted contributions and one sum. He computes the iterate as everybody does.

    Raises
    ------
    ProtocolViolation
        A party is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party, or the opened N cannot be right.
    """
    sums, N = await relay_and_count(seat, study)
    descent = Descent(study, N, variant)
    await seat.stage("rounds")
    for t, slots in enumerate(layouts(study, descent.schedule, N, descent.rounds)):
        descent.step(t, await sums.open_sum(slots, again=study.proven))
        await seat.progress(t + 1, descent.rounds, tuple(descent.w.tolist()))
    return await evaluated_by_all(sums, descent.model())
