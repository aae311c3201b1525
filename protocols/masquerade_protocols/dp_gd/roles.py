"""dp-gd: gradient descent on the sum of everybody's clipped gradients, under noise that a proof sizes.

This program's own protocol, made of known parts. Noisy gradients are old (Song, Chaudhuri and Sarwate 2013; Abadi et
al. 2016). So is noise that parties draw in shares under a secure sum (Kairouz, Liu and Steinke 2021). Here every step
is public, and every record takes part in every step. So the exact curve of Gaussian noise applies, and the study's
privacy target itself is proved: ``docs/privacy/dp-gd.md`` has the proof.

N is the number of all records. *Clip* C is the longest gradient that a record may contribute: a longer one is cut to
this length. Lambda is the weight of the penalty on the model's weights, and eta the length of a step. In a *secure
sum* Charlie adds up what all parties send, and reads nothing but the total. For K parties and T rounds::

    party P_k                                                           Charlie
      | 1. draw x_1^k .. x_T^k                                            |
      |============ join: everybody's box key of this run, signed ========|
      |~~~ GroupKey: the parties' key for check values ~~~~~~~~~~~~~~~~~~~|   K - 1 boxes
      |     2. one secure sum: N = sum of n_k; no n_k is seen             |
      |     3. T secure sums: sum_k (sum_i clip(grad_i(v_t), C) + x_t^k)  |
      | 4. w_(t+1) = v_t - eta (sum/N + Lambda v_t), by everybody alike   |
      |    v_(t+1) = w_(t+1) + m_t (w_(t+1) - w_t)                        |

1. x_t^k is party k's share of the noise: discrete Gaussian, and new in every round. Let h be the number of parties
   that do not side with Charlie. The shares of any h parties are enough noise. Where the study has ``[dropouts]``,
   there are R more shares, for rounds that are made again without a silent party.
2. N is public from then on. Two data sets are neighbours if one record is replaced, so N is the same in both.
3. Every record's gradient is cut to norm C and rounded to the grid of 2^-F by itself. Everything after that is
   integers. So one record, replaced, moves a sum by at most 2 C + 2^-F sqrt(d).
4. The point v_t of the next gradients follows from the sums alone, and the masks are bound to it. m_t is Nesterov's
   momentum, (t+1)/(t+4); or 0, where the study gives eta itself.

If the study has ``[evaluation]``, some records are held back from all of this. They measure the model afterwards, in
two more sums (:mod:`masquerade_protocols.blocks.evaluation`).

:mod:`masquerade_protocols.blocks.masked_sum` has the messages of a secure sum. With ``[crypto] sum = "paillier"`` they
are those of :mod:`masquerade_protocols.blocks.paillier_sum`.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.learning.losses import Loss, loss_of
from masquerade_core.model import Model, Published
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import fingerprint, join_and_count, relay_and_count
from masquerade_protocols.blocks.evaluation import evaluated, evaluated_by_all, hold_back
from masquerade_protocols.blocks.layouts import Vector
from masquerade_protocols.blocks.noise_shares import FreshNoise, draw_noise_share, kept, price_of, to_keep, with_cost
from masquerade_protocols.dp_gd.schedule import (
    FRACTION_BITS,
    Parameters,
    accelerates,
    check,
    clip_of,
    layout,
    momentum,
    noise_of,
    rounds_of,
    step_of,
)

__all__ = [
    "FRACTION_BITS",
    "ClippedSum",
    "Descent",
    "Parameters",
    "charlie",
    "check",
    "clip_of",
    "clipped_sum",
    "layout",
    "noise_of",
    "party",
    "rounds_of",
]

_SHORT = 1 - 2.0**-30  # of C: floats err by less than (d + 20) 2^-53, d < 2^20, so no gradient comes out longer than C
_ROWS = 4096  # records at a time: a copy of all gradients would be as large as all records

_Array = NDArray[np.float64]


# --- One step ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """:func:`clipped_sum` of one block of records."""

    w: _Array
    loss: Loss
    clip: Fraction

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Return the sum over one block."""
        total = np.zeros(len(self.w), dtype=np.int64)
        longest = float(self.clip) * _SHORT
        room = np.empty((min(_ROWS, len(y)), X.shape[1]))
        for start in range(0, len(y), _ROWS):
            some = X[start : start + _ROWS]
            total += self._of(some, y[start : start + _ROWS], longest, room[: len(some)])
        return total

    def _of(self, X: _Array, y: _Array, longest: float, room: _Array) -> NDArray[np.int64]:
        slope = self.loss.derivative(y * (X @ self.w)) * y
        norm = np.abs(slope) * np.sqrt(np.multiply(X, X, out=room).sum(axis=1))
        factor = longest / np.maximum(norm, longest)  # 1, or less for a longer one: the same steps for every record
        # A power of two changes no digit, and sums of so few integers, each of at most 2^F, are exact in floats.
        np.multiply((slope * factor * 2.0**FRACTION_BITS)[:, None], X, out=room)
        total: NDArray[np.int64] = np.rint(room, out=room).sum(axis=0).astype(np.int64)
        return total


def clipped_sum(data: Records, w: _Array, loss: Loss, clip: Fraction) -> NDArray[np.int64]:
    """Return the sum of all records' gradients at ``w``, each cut to norm C and rounded by itself, in units of 2^-F.

    A gradient is phi'(m) y x with m = y w.x. So its norm is |phi'(m)| |x|, and min(1, C/(|phi'(m)| |x|)) cuts it.

    Parameters
    ----------
    data : Records
    w : ndarray, shape (d,)
    loss : Loss
    clip : Fraction
        C.

    Returns
    -------
    ndarray of int64, shape (d,)
        One record, replaced, moves it by at most 2 C 2^F + sqrt(d), in L2 norm.
    """
    return data.total(ClippedSum(w, loss, clip))


class Descent:
    """The iterate. Everybody computes it from the opened sums, and all get the same.

    Parameters
    ----------
    study : Study
    N : int
        The number of all records.
    """

    def __init__(self, study: Study, N: int) -> None:
        self.w = np.zeros(study.d)
        """The point of the next gradients: the iterate, and with momentum a part of its last move beyond it."""
        self.iterate = self.w
        self._steps, self._moves = 0, accelerates(study)
        self._N, self._loss, self._clip = N, loss_of(study.model.loss), clip_of(study)
        self._eta, self._Lambda = step_of(study, noise_of(study), N), study.model.regularization

    def gradient(self, data: Records) -> NDArray[np.int64]:
        """Return the clipped sum of one party's gradients at the present point."""
        return clipped_sum(data, self.w, self._loss, self._clip)

    def step(self, sums: Vector) -> None:
        """w_(t+1) = v_t - eta (sum/N + Lambda v_t), v_(t+1) = w_(t+1) + m (w_(t+1) - w_t); m = 0 without momentum."""
        gradient = np.array(sums, dtype=np.float64) / 2**FRACTION_BITS / self._N
        before, self.iterate = self.iterate, self.w - self._eta * (gradient + self._Lambda * self.w)
        self._steps += 1
        self.w = self.iterate
        if self._moves:
            self.w = self.iterate + momentum(self._steps) * (self.iterate - before)

    def model(self) -> Model:
        """Return the present iterate as the model that is released."""
        return Model(tuple(self.iterate.tolist()), None, published=Published(self._N))


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Play party P_k, the lead included, and return the model.

    Raises
    ------
    ProtocolViolation
        Another participant is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party, or the opened N cannot be right.
    """
    # Before the join: afterwards, the time that drawing takes would tell of the noise.
    noise = noise_of(study)
    await seat.stage("noise")
    x = await seat.once("noise", lambda rng: draw_noise_share(rng, noise, study.d))
    unused = FreshNoise(chain.from_iterable(x))

    held = await hold_back(seat, study, data)
    sums, N = await join_and_count(seat, study, held.training, held.records)
    descent, slots = Descent(study, N), layout(study, noise, N)
    await sums.precompute([slots] * noise.rounds)

    await seat.stage("rounds")
    price = price_of(noise, Fraction(1, noise.rounds))
    for t in range(noise.rounds):
        gradient = kept(await seat.once(f"gradient {t}", partial(_gradient, descent, held.training)))
        noisy = with_cost(seat, f"round {t + 1}", price, partial(unused.on, gradient, slots))
        descent.step(await sums.open_sum(slots, await noisy(), fingerprint(N, descent.w), noisy))
        await seat.progress(t + 1, noise.rounds)
    return await evaluated(sums, held, descent.model())


def _gradient(descent: Descent, data: Records, _rng: Rng) -> bytes | tuple[int, ...]:
    return to_keep(descent.gradient(data))


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Play Charlie and return the model. In each round he sees K encrypted contributions and one sum.

    He computes the iterate as everybody does.

    Raises
    ------
    ProtocolViolation
        A party is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party, or the opened N cannot be right.
    """
    sums, N = await relay_and_count(seat, study)
    descent, noise = Descent(study, N), noise_of(study)
    slots = layout(study, noise, N)
    await seat.stage("rounds")
    for t in range(noise.rounds):
        descent.step(await sums.open_sum(slots, again=True))
        await seat.progress(t + 1, noise.rounds, tuple(descent.iterate.tolist()))
    return await evaluated_by_all(sums, descent.model())
