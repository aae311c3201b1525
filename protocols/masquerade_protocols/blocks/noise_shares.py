"""A party's part in each noisy sum: its share of the noise, and the cost that is counted before it leaves.

Vectors and noise are arrays of 64-bit integers, so that adding them takes the same steps whatever they hold. Where a
study's noise is so large that sums need more than 64 bits, they are Python's integers.

*The cost.* A run opens several sums, each with fresh Gaussian noise. Together they keep the study's privacy target. A
run that ends early has released the first of them only, and the data owner's budget pays for those. So every
contribution is counted by itself (:meth:`~masquerade_core.seat.Seat.release`), and so is one that is made again.

If costs are mu_1, mu_2, ... the releases compose exactly to the root of the sum of squares. A sum's *part* is its share
of the whole run's mu^2.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_array
from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import Cost, epsilon_of, target
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, charge, lost_delta
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.layouts import Again, Layout, Vector

__all__ = [
    "FreshNoise",
    "Parallel",
    "Price",
    "count_at_once",
    "draw_noise_share",
    "kept",
    "price_of",
    "spends_gaussian",
    "to_keep",
    "with_cost",
]


def draw_noise_share(rng: Rng, noise: SharedNoise, d: int) -> tuple[tuple[int, ...], ...]:
    """Draw one party's share of the noise: for each of T + R sums, d integers in units of the grid.

    The last R are for rounds that are made again.
    """
    drawn = discrete_gaussian(rng, noise.share, noise.releases * d)
    return tuple(tuple(drawn[t * d : (t + 1) * d]) for t in range(noise.releases))


class FreshNoise:
    """Noise that never served. A role makes it of what it drew, before any sum is opened.

    Parameters
    ----------
    drawn : iterable of int
    """

    def __init__(self, drawn: Iterable[int]) -> None:
        self._left = as_array(list(drawn))

    def on(self, own: NDArray[Any], layout: Layout) -> NDArray[Any]:
        """Return one's own part of a sum under the next numbers of noise, which no other sum had or will have.

        Raises
        ------
        LocalProtocolError
            Less noise is left than the sum has numbers, which follows from public numbers: a bug of the protocol.
        """
        taken, self._left = np.split(self._left, [len(own)])
        if len(taken) != len(own):
            raise LocalProtocolError(f"{len(own)} numbers need noise, and {len(taken)} of it are left")
        noisy: NDArray[Any] = (own if layout.machine else own.astype(object)) + taken
        return noisy


def to_keep(vector: NDArray[Any]) -> bytes | tuple[int, ...]:
    """Return a vector as plain data, for a result of ``once``: 8 bytes for each number of an array of int64."""
    return vector.astype("<i8").tobytes() if vector.dtype == np.int64 else tuple(vector.tolist())


def kept(plain: bytes | tuple[int, ...]) -> NDArray[Any]:
    """Return the vector of which :func:`to_keep` made plain data."""
    return np.frombuffer(plain, dtype="<i8") if isinstance(plain, bytes) else np.array(plain, dtype=object)


# --- Cost ---------------------------------------------------------------------------


_ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True)
class Price:
    """The cost of one release; :class:`~masquerade_core.seat.Release` has the fields."""

    epsilon: float
    delta: float
    mu: float = 0.0
    slack: float = 0.0


def price_of(noise: SharedNoise, part: Fraction = Fraction(1)) -> Price:
    """Return the cost of one sum, against an adversary who does not know the honest parties' noise.

    Parameters
    ----------
    noise : SharedNoise
        The noise of the whole run. What is paid ahead for retries is no cost of this sum.
    part : Fraction
        The sum's share of mu^2 of a run without retries: 1/T in a run of T equal rounds.
    """
    share = part / charge(noise.retries, noise.largest)
    mu, lost = noise.mu(noise.honest), float(lost_delta(noise.epsilon))
    if share == 1:
        return Price(noise.epsilon, noise.delta, mu, lost)
    own = math.sqrt(share) * mu * _ROUNDED_UP
    delta, slack = noise.delta * float(share), lost * float(share)
    return Price(epsilon_of(own, delta - slack), delta, own, slack)


class Parallel:
    """The costs of sums over records that took part in nothing that was released before.

    A record is in one of two groups, and each group's releases keep the target by themselves. So a record pays for the
    dearer group, not for both. What the first group has paid is free for the second.
    """

    def __init__(self, seat: Seat) -> None:
        first = seat.released.values()
        self._paid = math.inf if any(r.epsilon and not r.mu for r in first) else math.fsum(r.mu**2 for r in first)
        self._own = 0.0

    def beyond(self, price: Price) -> Price | None:
        """Return what the next sum costs beyond what was paid; None where nothing."""
        before = max(0.0, self._own - self._paid)
        self._own += price.mu**2
        more = max(0.0, self._own - self._paid) - before
        if not more:
            return None
        mu = math.sqrt(more) * _ROUNDED_UP
        return replace(price, mu=mu, epsilon=epsilon_of(mu, price.delta - price.slack))


def with_cost(
    seat: Seat,
    label: str,
    price: Price,
    vector: Callable[[], Vector],
    parallel: Parallel | None = None,
    *,
    free_once: bool = False,
) -> Again:
    """Return a function that counts a release and returns what is to be contributed, anew each time it is called.

    Parameters
    ----------
    seat : Seat
    label : str
        Of the first contribution; those that are made again get a number.
    price : Price
    vector : callable
        Returns the contribution, under noise that never served.
    parallel : Parallel, optional
        Where the sum is over records that took part in nothing before.
    free_once : bool
        Whether the first contribution is part of a release that was counted already.
    """
    attempts = count()

    async def contribution() -> Vector:
        made = next(attempts)
        cost = price if parallel is None else parallel.beyond(price)
        if cost is not None and (made or not free_once):
            name = f"{label}, made again {made}" if made else label
            await seat.release(name, cost.epsilon, cost.delta, cost.mu, cost.slack)
        return vector()

    return contribution


def spends_gaussian(study: Study) -> Cost:
    """Return what a whole run takes of a budget whose releases are all Gaussian, as those of a proven study are."""
    return target(study.privacy.epsilon, study.privacy.delta, gaussian=study.proven)


async def count_at_once(seat: Seat, label: str, study: Study, noise: SharedNoise | None = None) -> None:
    """Count the study's whole target as one release: of a run that opens one sum, or whose rounds have no proof.

    Parameters
    ----------
    seat : Seat
    label : str
    study : Study
    noise : SharedNoise, optional
        The noise of the whole run, where it is Gaussian and keeps the target.
    """
    gaussian = Price(0, 0) if noise is None else price_of(noise)
    await seat.release(label, study.privacy.epsilon, study.privacy.delta, gaussian.mu, gaussian.slack)
