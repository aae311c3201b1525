"""How long a party takes for its next contribution, once a sum was opened, tells nothing of its own vector.

Charlie sees when his answer reaches a party, and when the party's contribution leaves. Here a classifier looks at
processing times of two kinds of vectors: a threshold that one half of 1,000 times chose is tried on the other half.
They are times of this thread's CPU, and the kinds take turns as a coin decides. So a busy machine slows both alike.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import starmap
from operator import mul
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_core.crypto.masks import CheckKey, Words
from masquerade_core.evaluation import CELLS, locate_bins
from masquerade_core.learning.losses import LOSSES, loss_of
from masquerade_core.model import Model
from masquerade_core.seat import Seat, Send
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.blocks.evaluation import Confusion, InBins, InCells
from masquerade_protocols.blocks.noise_shares import FreshNoise, kept, to_keep
from masquerade_protocols.dp_gd.roles import ClippedSum
from masquerade_protocols.dp_glm import estimates as glm
from masquerade_protocols.dp_glm import vectors as of_glm
from masquerade_protocols.dp_whitened import estimates as whitened
from masquerade_protocols.dp_whitened import vectors as of_whitened
from tests.masked_helpers import under_masks
from tests.paper_data import study_of

TIMES = 1000
MOST, LEAST = 0.55, 0.90  # of the answers that are right: where nothing is told, and where it is
CONTROL = 0.65  # where a small part of the time tells it
LENGTH = 600  # more than one row of the check value
LONG = 5995  # the second moments of 108 columns

_DRAWN = 40  # vectors of each kind

_Integers = NDArray[np.int64]


@pytest.fixture(scope="module", name="sums")
def made_sums() -> ms.MaskedPartySums:
    """A party's side of masked sums with two others, in the middle of a run.

    Masks take the same time for each vector, and the more of them there are, the more of what a vector takes they hide.
    """
    study = under_masks(study_of("psgd", 3, 3, section="rounds = 1"))
    table, made = Table(study.names), []

    async def party(seat: Seat) -> None:
        await seat.join()
        made.append(await ms.MaskedPartySums.set_up(seat, study))

    async def charlie(seat: Seat) -> None:
        await seat.join()

    table.run({**{name: party(table.seat(name)) for name in study.names}, CHARLIE: charlie(table.seat(CHARLIE))})
    return made[1]


# --- The classifier ---------------------------------------------------------------------------------------------------


def _right(times: NDArray[np.float64], large: NDArray[np.bool_]) -> float:
    """Choose the best threshold on the first half, and return which part of the second half it calls by its name."""
    half = len(times) // 2
    seen, kinds = times[:half], large[:half]
    order = np.argsort(seen)
    # right[i]: how many are right if those above the i-th smallest are called large
    right = np.concatenate([[kinds.sum()], kinds.sum() + np.cumsum(np.where(kinds[order], -1, 1))])
    flips = half - right > right
    best = int(np.argmax(np.maximum(right, half - right)))
    threshold = -np.inf if best == 0 else seen[order][best - 1]
    return float(((times[half:] > threshold) ^ flips[best] == large[half:]).mean())


def answers(process: Callable[[_Integers], object], small: Draw, large: Draw, times: int = TIMES) -> float:
    """Return how often the classifier is right about vectors of two kinds."""
    rng = np.random.default_rng(1)
    coins, taken = rng.random(times) < 0.5, np.empty(times)
    # Now, since drawing leaves traces in caches; and the two kinds side by side, so that copying one leaves the traces
    # of the other: times differ with the places of arrays in memory, too.
    drawn = [np.stack([small(rng), large(rng)], axis=-1) for _ in range(_DRAWN)]
    gc.disable()
    try:
        for i, coin in enumerate([False, True] * _DRAWN + coins.tolist()):  # the first ones warm up
            vector = drawn[i // 2 % _DRAWN][..., int(coin)].copy()
            start = time.thread_time_ns()
            process(vector)
            taken[max(0, i - 2 * _DRAWN)] = time.thread_time_ns() - start
    finally:
        gc.enable()
    return _right(taken, coins)


def _all_below(bits: int, length: int = LENGTH) -> Draw:
    """Every coordinate is less than 2^bits."""
    return lambda rng: rng.integers(-(2**bits) + 1, 2**bits, length)


def _all_above(bits: int, length: int = LENGTH) -> Draw:
    """Every coordinate is 2^bits or more, and less than twice that."""
    return lambda rng: rng.integers(2**bits, 2 ** (bits + 1), length, dtype=np.int64) * rng.choice([-1, 1], length)


def _one_above(bits: int, length: int = LENGTH) -> Draw:
    """One coordinate is 2^bits, and all others are less."""

    def draw(rng: np.random.Generator) -> _Integers:
        vector = _all_below(bits, length)(rng)
        vector[rng.integers(length)] = 2**bits
        return vector

    return draw


Draw = Callable[[np.random.Generator], _Integers]


# --- What is measured -------------------------------------------------------------------------------------------------


def _contributing(sums: ms.MaskedPartySums, layout: Words) -> Callable[[_Integers], object]:
    """A party's work between its own part of a sum and the message to Charlie, as the deployed role does it."""
    quiet = [0] * layout.length

    def process(own: _Integers) -> object:
        noisy = FreshNoise(quiet).on(kept(to_keep(own)), layout)
        role = sums._send(layout, noisy, b"point")
        effect = role.send(None)
        role.close()
        return effect

    return process


_EDGES = (0, 1, 7, 8, 15, 16, 23, 24, 29, 30, 31, 32, 37, 38, 39, 47, 48, 59, 60, 61)
"""Powers of two at which an integer takes one more byte, limb or digit somewhere, and those beside them."""


def pairs(powers: Collection[int]) -> Iterator[tuple[str, Words, Draw, Draw]]:
    """Both lengths of a word, with those of these powers of two that a coordinate can reach."""
    for layout, longest in ((Words(LENGTH, 2**30), 33), (Words(LENGTH, 2**62), 62)):
        for bits in (bits for bits in powers if bits < longest):
            yield f"{layout.bits} bits, all beyond 2^{bits}", layout, _all_below(bits), _all_above(bits)
    for one in (_all_above, _one_above):
        yield f"{one.__name__}, long", Words(LONG, 2**62), _all_below(38, LONG), one(38, LONG)


def test_the_classifier_guesses_where_both_kinds_are_one(sums: ms.MaskedPartySums) -> None:
    process = _contributing(sums, Words(LENGTH, 2**62))
    assert isinstance(process(np.ones(LENGTH, dtype=np.int64)), Send)
    assert answers(process, _all_below(20), _all_below(20)) <= MOST


def told_apart(sums: ms.MaskedPartySums, powers: Collection[int]) -> dict[str, float]:
    """Return the pairs on both sides of these powers of two that times tell apart, and how often.

    A coin is right in more than 55 % of 500 for one pair in eighty, and of 2,000 for one in 250,000. So a pair of the
    first kind is measured anew, four times as often, and by that it is judged.
    """
    told = {}
    for name, layout, below, above in pairs(powers):
        process = _contributing(sums, layout)
        told[name] = answers(process, below, above)
        if told[name] > MOST:
            told[name] = answers(process, below, above, 4 * TIMES)
    return {name: right for name, right in told.items() if right > MOST}


def test_times_tell_no_two_vectors_apart_whatever_their_lengths(sums: ms.MaskedPartySums) -> None:
    """At the edges; ``tests/extras`` tries every power of two."""
    assert told_apart(sums, _EDGES) == {}


# --- The control: the path before -------------------------------------------------------------------------------------


class _Branching(CheckKey):
    """The check value as it was: where one coordinate has more than 38 bits, Python's integers take the place."""

    __slots__ = ()

    def of(self, vector: Any) -> int:
        inner = self._fast(vector)
        if inner is None:
            numbers = [int.from_bytes(self._raw[i : i + 16], "little") for i in range(0, len(self._raw), 16)]
            rows = (vector[512 * a : 512 * (a + 1)] for a in range(len(self._u)))
            inner = [sum(starmap(mul, zip(numbers, row, strict=False))) for row in rows]
        total: int = sum(map(mul, self._u, inner))
        return total % self._layout.prime

    def _fast(self, vector: Sequence[int]) -> list[int] | None:
        x = np.array(vector, dtype=np.int64)
        if max(int(x.max()), -int(x.min())) >> 38:
            return None
        x.resize(len(self._u) * 512)
        limbs = np.frombuffer(self._raw, dtype="<u2").reshape(512, -1).astype(np.int64)
        rows = (x.reshape(-1, 512) @ limbs).tolist()
        return [sum(value << 16 * place for place, value in enumerate(row)) for row in rows]


@pytest.mark.alone
@pytest.mark.parametrize("above", [_all_above(38, LONG), _one_above(38, LONG)])
def test_the_path_before_told_them_apart(
    sums: ms.MaskedPartySums, above: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, key = Words(LONG, 2**62), bytes(32)
    vector = above(np.random.default_rng(2)).tolist()
    assert (_Branching(layout, key).of(vector) - CheckKey(layout, key).of(vector)) % layout.prime == 0
    monkeypatch.setattr(ms, "CheckKey", _Branching)

    def process(own: _Integers) -> object:
        role = sums._send(layout, own.tolist(), b"point")
        effect = role.send(None)
        role.close()
        return effect

    # An observer can wait for a quiet moment.
    assert any(answers(process, _all_below(38, LONG), above) >= LEAST for _ in range(12))


# --- Gradients --------------------------------------------------------------------------------------------------------


def _records(longest: float) -> Draw:
    """Half of 2,000 records have this length, and the others a hundredth of it."""

    def draw(rng: np.random.Generator) -> Any:
        X = rng.uniform(0.5, 1.5, size=(2000, 10))
        lengths = longest * np.where(rng.random(2000) < 0.5, 1.0, 0.01)
        return X * (lengths / np.linalg.norm(X, axis=1))[:, None]

    return draw


def _summing(loss: str) -> Callable[[Any], object]:
    """The clipped sum of gradients, at a point where records of length 1/6 have margins of about 1, and are cut."""
    total, labels = ClippedSum(np.full(10, 2.0), loss_of(loss), Fraction(1, 32)), np.ones(2000)
    return lambda X: total(X, labels)


@pytest.mark.alone
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_times_do_not_tell_which_gradients_are_cut_or_which_margins_are_large(loss: str) -> None:
    assert answers(_summing(loss), _records(0.001), _records(1 / 6), 4 * TIMES) <= MOST


@pytest.mark.alone
def test_a_slope_that_is_computed_only_where_it_changes_tells_large_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control. A power of u, as it was, tells them on some processors only; here the work is done eight times."""

    def slope(m: Any) -> Any:
        u = np.clip((1 - m) * 2, -1.0, 1.0)
        found, curved = np.where(u < 0, 0.0, -1.0), np.flatnonzero(np.abs(u) < 1)
        for _ in range(8):
            found[curved] = np.power(u[curved], 3.0) / 4 - 3 * u[curved] / 4 - 0.5
        return found

    monkeypatch.setitem(LOSSES, "smoothed-hinge", replace(LOSSES["smoothed-hinge"], derivative=slope))
    process = _summing("smoothed-hinge")
    assert any(answers(process, _records(0.001), _records(1 / 6)) >= LEAST for _ in range(12))


# --- Sums in bins -----------------------------------------------------------------------------------------------------

LABELS = np.where(np.arange(2000) % 2 == 0, 1.0, -1.0)
_POINT = whitened.Point(np.eye(10), 1.0, 0.5, np.full((10, 1), 40.0), np.zeros(1), centred=True)
CENTRE = whitened.Centre(np.zeros(10), 1.0, np.zeros(1), centred=True)
_SCORER = whitened.Scorer(np.full((10, 1), 3.0), np.zeros(1), np.zeros(1), np.ones(1))
_MODEL = Model((3.0,) * 10, None)
_CLASSES = Model(tuple(np.random.default_rng(3).normal(size=40) * 50), None, offset=(0.1, 0.0, 0.0, 0.0))
_BINS = locate_bins([1000.0] * CELLS, 1.0, 2)
DESIGN = glm.Design(np.zeros(10), np.ones(10), 4 * np.eye(10))

_SUMS: dict[str, Callable[[Any], object]] = {
    "dp-whitened, gradients": partial(
        of_whitened._gradients, Y=LABELS[:, None], centre=CENTRE, point=_POINT, B=2**20, weighted=True
    ),
    "dp-whitened, counts": partial(of_whitened._counts, Y=LABELS[:, None], scorer=_SCORER, B=2**20),
    "dp-glm, step": partial(
        of_glm._step, y=LABELS, design=DESIGN, point=glm.Point(np.full(11, 1.0), 1.5, 1.5), number=1
    ),
    "evaluation, cells": partial(InCells(_MODEL, 2), y=LABELS),
    "evaluation, bins": partial(InBins(_MODEL, _BINS), y=LABELS),
    "evaluation, classes": partial(Confusion(_CLASSES, 4), y=np.arange(2000.0) % 4),
}


def near(rng: np.random.Generator) -> Any:
    """All records lie near 0, where they have the same score."""
    X = rng.uniform(0.5, 1.5, size=(2000, 10))
    return 0.0001 * X / np.linalg.norm(X, axis=1)[:, None]


def spread(rng: np.random.Generator) -> Any:
    """Records of all lengths, and of all scores."""
    X = rng.normal(size=(2000, 10))
    return X * (rng.uniform(0.0, 0.9, 2000) / np.linalg.norm(X, axis=1))[:, None]


@pytest.mark.alone
@pytest.mark.parametrize("name", _SUMS)
def test_times_do_not_tell_whether_all_records_lie_in_one_bin(name: str) -> None:
    assert answers(_SUMS[name], near, spread, 4 * TIMES) <= MOST


@pytest.mark.alone
def test_a_search_for_each_score_tells_whether_all_lie_in_one_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the counts as they were made before."""
    monkeypatch.setattr(same_time, "places", lambda values, edges: np.searchsorted(edges, values, side="right"))
    process = _SUMS["dp-whitened, counts"]
    assert any(answers(process, near, spread, 4 * TIMES) >= CONTROL for _ in range(12))
