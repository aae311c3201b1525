"""dp-gd: gradient descent on the sum of everybody's clipped gradients, under noise that a proof asks for.

Noisy gradients are old (Song, Chaudhuri and Sarwate 2013; Abadi et al. 2016), and so is noise in shares under a secure
sum (Kairouz, Liu and Steinke 2021). Here every step is public and none is taken on a sample, so the exact curve of
Gaussian noise gives what is proved, and the study's wish is what is proved: ``docs/privacy/dp-gd.md``. For K parties, T
rounds, d coordinates in m plaintexts, keys of n bits::

    party P_k                                    Charlie                          lead P_L (one of the parties)
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey ---------------------------|<------- SumKey ----------------|   n/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |                    1. one secure sum: N = sum of n_k; no n_k is seen       |
      | 2. draw x_1^k .. x_T^k                    |                                |
      |                    3. T secure sums: sum_k (sum_i clip(grad_i(w_t), C) + x_t^k)
      | 4. w_(t+1) = w_t - eta (sum/N + Lambda w_t), by everybody alike            |

1. N is public from then on. Neighbours are "one record replaced", so it is the same for both.
2. x_t^k is discrete Gaussian noise, new in every round; any h parties' shares are enough, h being how many do not side
   with Charlie.
3. Every record's gradient is cut to norm C and rounded to the grid of 2^-F by itself, and all else is integers: so one
   record, replaced, moves a sum by at most 2 C + 2^-F sqrt(d).
4. The point of the next gradients follows from the sums alone, and the masks are bound to it.

See :mod:`masquerade_protocols.blocks.secure_sum` for the messages of a sum.
"""

from fractions import Fraction
from functools import partial
from math import ceil
from operator import add
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import Loss, loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.blocks.descent import TAIL_BITS, check_steps, fingerprint, join_and_count, relay_and_count
from masquerade_protocols.blocks.noise_shares import draw_noise_share
from masquerade_protocols.blocks.slots import check_slots

__all__ = [
    "FRACTION_BITS",
    "Descent",
    "Parameters",
    "charlie",
    "check",
    "clipped_sum",
    "layout",
    "noise_of",
    "party",
]

FRACTION_BITS = 28
"""F: gradients and noise are integers in units of 2^-F; even the shortest clip's 2 C is 50,000 of them."""

_SHORT = 1 - 2.0**-30  # of C, so that floats' error reaches it nowhere: it is below (d + 20) 2^-53, d < 2^20
_ROWS = 4096  # records at a time: a copy of all gradients is as large as all records

_Array = NDArray[np.float64]


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    The defaults were chosen once, on simulated records, in the middle of their bounds and in a corner, and looked at on
    public ones. None follows from anybody's records.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=100_000, description="T, how many rounds")] = 20
    clip: Annotated[float, Field(ge=1e-4, le=1, description="C, the longest gradient of a record")] = 0.5
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="eta, the length of a step")] = 4.0


# --- What follows from public numbers alone -------------------------------------


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def _clip(study: Study) -> Fraction:
    """C, or the longest gradient there is, if that is shorter: records have a norm of at most 1."""
    return min(as_fraction(_parameters(study).clip), loss_of(study.model.loss).L)


def noise_of(study: Study) -> SharedNoise:
    """Return the noise that the study's wish asks for.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    return rounds_noise(
        clip=_clip(study),
        d=study.d,
        rounds=_parameters(study).rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=FRACTION_BITS,
    )


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins; sums are widest at N = K max_records.

    Raises
    ------
    BadInput
        Steps that diverge, a wish without noise, or noise that fits no plaintext.
    """
    check_steps(study, _parameters(study).learning_rate, "choose a smaller learning_rate, or a smaller regularization")
    layout(study, noise_of(study), study.K * study.max_records)


def layout(study: Study, noise: SharedNoise, N: int) -> Packing:
    """Lay out a round: N gradients of length C at most, and the noise of K parties but for a chance of 2^-128 a run.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    drawn = study.K * noise.rounds * study.d
    bound = N * (ceil(_clip(study) * (1 << FRACTION_BITS)) + 1)
    bound += study.K * discrete_gaussian_tail_bound(noise.share, drawn, TAIL_BITS)
    slots = Packing(study.d, bound, study.crypto.key_bits)
    return check_slots(study, slots, "a round", "ask for fewer rounds, a larger epsilon or a longer key")


def clipped_sum(data: Dataset, w: _Array, loss: Loss, clip: Fraction) -> tuple[int, ...]:
    """Return the sum of all records' gradients at ``w``, each cut to norm C and rounded by itself, in units of 2^-F.

    A gradient is phi'(m) y x, m = y w.x, so its norm is |phi'(m)| |x| and the factor is min(1, C/(|phi'(m)| |x|)).

    Parameters
    ----------
    data : Dataset
    w : ndarray, shape (d,)
    loss : Loss
    clip : Fraction
        C.

    Returns
    -------
    tuple of int, length d
        One record, replaced, moves it by at most 2 C 2^F + sqrt(d), in L2 norm.
    """
    total = np.zeros(len(w), dtype=np.int64)
    longest = float(clip) * _SHORT
    for start in range(0, len(data.y), _ROWS):
        X, y = data.X[start : start + _ROWS], data.y[start : start + _ROWS]
        slope = loss.derivative(y * (X @ w)) * y
        norm = np.abs(slope) * np.sqrt((X * X).sum(axis=1))
        factor = np.divide(longest, norm, out=np.ones_like(norm), where=norm > longest)
        gradients = (slope * factor)[:, None] * X
        total += np.rint(gradients * 2**FRACTION_BITS).astype(np.int64).sum(axis=0)
    return tuple(total.tolist())


class Descent:
    """The iterate, which everybody computes alike from the opened sums.

    Parameters
    ----------
    study : Study
    N : int
        Records of everybody.
    """

    def __init__(self, study: Study, N: int) -> None:
        self.w = np.zeros(study.d)
        self._N, self._loss, self._clip = N, loss_of(study.model.loss), _clip(study)
        self._eta, self._Lambda = _parameters(study).learning_rate, study.model.regularization

    def gradient(self, data: Dataset) -> tuple[int, ...]:
        """Return the clipped sum of one party's gradients at this moment's iterate."""
        return clipped_sum(data, self.w, self._loss, self._clip)

    def step(self, sums: tuple[int, ...]) -> None:
        """w_(t+1) = w_t - eta (sum/N + Lambda w_t)."""
        gradient = np.array(sums, dtype=np.float64) / 2**FRACTION_BITS / self._N
        self.w = self.w - self._eta * (gradient + self._Lambda * self.w)

    def model(self) -> Model:
        """Return the iterate as what is released."""
        return Model(tuple(self.w.tolist()), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_k, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    # Before the join: afterwards, the time that drawing takes would tell of the noise.
    noise = noise_of(study)
    await seat.stage("noise")
    x = await seat.once("noise", lambda rng: draw_noise_share(rng, noise, study.d))

    sums, N = await join_and_count(seat, study, data)
    descent, slots = Descent(study, N), layout(study, noise, N)
    await sums.precompute(noise.rounds * slots.count)

    await seat.stage("rounds")
    await seat.release("iterates", study.privacy.epsilon, study.privacy.delta)
    for t in range(noise.rounds):
        gradient = await seat.once(f"gradient {t}", partial(_gradient, descent, data))
        noisy_gradient = list(map(add, gradient, x[t]))
        descent.step(await sums.open_sum(slots, noisy_gradient, fingerprint(N, descent.w)))
        await seat.progress(t + 1, noise.rounds)
    return descent.model()


def _gradient(descent: Descent, data: Dataset, _rng: Rng) -> tuple[int, ...]:
    return descent.gradient(data)


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie: he sees K ciphertexts and one sum a round, and the iterates as all do.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    sums, N = await relay_and_count(seat, study)
    descent, noise = Descent(study, N), noise_of(study)
    slots = layout(study, noise, N)
    await seat.stage("rounds")
    for t in range(noise.rounds):
        descent.step(await sums.open_sum(slots))
        await seat.progress(t + 1, noise.rounds, tuple(descent.w.tolist()))
    return descent.model()
