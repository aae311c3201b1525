"""Which sums of honest parties' contributions open, by linear algebra over all that Charlie and colluders know.

A colluder may announce another party's key, or one with which others share the same secrets. Each contribution is an
equation: the vector, plus the streams that the real role adds, minus those that it subtracts. Colluders know every
stream that they can derive with their own secrets. All others are unknowns, and equal keys are one unknown. The only
sum in which no unknown is left is that of all honest parties; where a key was announced that is not its owner's, there
is none at all. Proofs of ownership are left out here: safety rests on the derivation.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from nacl.bindings import crypto_core_ed25519_add, crypto_core_ed25519_sub, crypto_scalarmult

from masquerade_core.crypto import pair_keys
from masquerade_core.crypto.masks import Words, tagged_hash
from masquerade_core.crypto.pair_keys import BoxKey, End, derive, image_of, public_of
from masquerade_core.errors import ProtocolViolation
from masquerade_core.neighbours import neighbours_of
from masquerade_core.seat import Once, Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.thresholds import Thresholds
from masquerade_protocols.blocks.double_masks import DoublePartySums, Ring, _Held
from masquerade_protocols.blocks.masked_sum import MaskedPartySums, Survivors
from tests.helpers import RUN, box_key_of, joined
from tests.masked_helpers import masked_study
from tests.unit.host.session.test_many_parties import world_of

LAYOUT = Words(1, 100)
COIN = bytes(32)
ORDER_8 = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
P = 2**255 - 19
PRIME = 2**31 - 1

Row = dict[bytes, int]
"""A contribution: how often each stream is added, by its key."""


# --- Linear algebra ------------------------------------------------------------


def matrix(rows: Sequence[Row], known: Collection[bytes]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Contributions by unknown streams."""
    unknown = {key: i for i, key in enumerate(sorted({k for row in rows for k in row} - set(known)))}
    found = np.zeros((len(rows), len(unknown)), dtype=np.int64)
    for i, row in enumerate(rows):
        for key, times in row.items():
            if key in unknown:
                found[i, unknown[key]] += times
    return found


def rank(rows: np.ndarray[Any, np.dtype[np.int64]], prime: int) -> int:
    """The rank modulo a prime."""
    left, found = rows % prime, 0
    for column in range(left.shape[1]):
        pivots = np.flatnonzero(left[found:, column])
        if not len(pivots):
            continue
        left[[found, found + pivots[0]]] = left[[found + pivots[0], found]]
        left[found] = left[found] * pow(int(left[found, column]), -1, prime) % prime
        below = np.flatnonzero(left[found + 1 :, column]) + found + 1
        left[below] = (left[below] - left[below, column][:, None] * left[found] % prime) % prime
        found += 1
        if found == len(left):
            break
    return found


def opening(rows: Mapping[str, Row], known: Collection[bytes]) -> set[frozenset[str]]:
    """The sets of honest parties the sum of whose contributions has no unknown left."""
    names, left = list(rows), matrix(list(rows.values()), known)
    return {
        frozenset(names[i] for i in some)
        for size in range(1, len(names) + 1)
        for some in combinations(range(len(names)), size)
        if not left[list(some)].sum(axis=0).any()
    }


def combinations_that_open(rows: Mapping[str, Row], known: Collection[bytes]) -> int:
    """How many independent combinations open, with any factors: modulo a prime, and for a word's last bit."""
    left = matrix(list(rows.values()), known)
    return len(left) - min(rank(left, PRIME), rank(left, 2))


# --- Keys that are not one's own -----------------------------------------------


def negative(public: bytes) -> bytes:
    """The Ed25519 key with the other sign: the same secrets."""
    return public[:31] + bytes((public[31] ^ 0x80,))


def top_bit(public: bytes) -> bytes:
    """The X25519 key with its top bit set, which X25519 ignores."""
    return public[:31] + bytes((public[31] | 0x80,))


def with_torsion(public: bytes) -> bytes:
    """The X25519 key with a component of order 8, which the multiple of 8 in every secret takes away."""
    u = int.from_bytes(public, "little")
    y = (u - 1) * pow(u + 1, -1, P) % P
    moved = int.from_bytes(crypto_core_ed25519_add(y.to_bytes(32, "little"), ORDER_8), "little") % 2**255
    return ((1 + moved) * pow(1 - moved, -1, P) % P).to_bytes(32, "little")


def test_these_keys_share_the_secrets_of_the_one_that_they_imitate() -> None:
    secret, public = SimulationRng("a").bytes(32), public_of(SimulationRng("b").bytes(32))
    variants = {public, top_bit(public), with_torsion(public)}
    assert len(variants) == 3
    assert len({crypto_scalarmult(secret, key) for key in variants}) == 1
    box = BoxKey(SimulationRng("b").bytes(32)).public
    assert image_of(negative(box)) == image_of(box)


def test_a_box_key_with_torsion_is_refused_before_anything_is_derived() -> None:
    names = ("p0", "p1", "p2")
    for change in (crypto_core_ed25519_add, crypto_core_ed25519_sub):
        with pytest.raises(ProtocolViolation) as caught:
            joined("p1", names, announced={"p2": change(box_key_of("p0").public, ORDER_8)})
        assert caught.value.peer == "p2"


def same(public: bytes) -> bytes:
    """The key as it is."""
    return public


def lies(
    colluders: Sequence[str],
    honest: Sequence[str],
    key_of: Callable[[str], bytes],
    variants: Sequence[Callable[[bytes], bytes]],
) -> Iterator[dict[str, bytes]]:
    """The false announcements of colluders: one honest party's key, each another's, and variants of these."""
    yield {}
    for i, victim in enumerate(dict.fromkeys((honest[0], honest[len(honest) // 2], honest[-1]))):
        yield {name: key_of(victim) for name in colluders}
        yield {colluders[-1]: variants[i % len(variants)](key_of(victim))}
        yield {colluders[0]: variants[(i + 1) % len(variants)](key_of(victim))}
    yield {name: variants[i % len(variants)](key_of(honest[i % len(honest)])) for i, name in enumerate(colluders)}
    draw = random.Random(repr((colluders, honest)))  # noqa: S311 - a choice of cases
    yield {name: draw.choice(variants)(key_of(draw.choice(honest))) for name in colluders if draw.random() < 0.7}


def coalitions(K: int) -> Iterator[tuple[str, ...]]:
    """Every choice of 1 to K - 2 colluders, at every place of the roster."""
    for count in range(1, K - 1):
        yield from combinations(names_of(K), count)


def names_of(K: int) -> tuple[str, ...]:
    """The parties."""
    return tuple(f"p{i}" for i in range(K))


# --- What parties add ----------------------------------------------------------


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute each X25519, each derivation and its parts once: the parties of many cases have the same keys.

    What a mutant derives is kept for its own test alone.
    """
    monkeypatch.setitem(globals(), "_derived", cache(_derived))
    for name, once in _ONCE.items():
        monkeypatch.setattr(pair_keys, name, once)


_ONCE = {
    name: cache(getattr(pair_keys, name))
    for name in ("crypto_scalarmult", "crypto_sign_ed25519_pk_to_curve25519", "_extract", "_joined")
}
_box_key_of = cache(box_key_of)


def _forgets_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a key depends on the run, the two secrets and its purpose, as it did before names were bound."""
    whole, nobody = pair_keys._expand, (End("", b""), End("", b""))
    monkeypatch.setattr(
        pair_keys, "_expand", lambda extracted, purpose, _, *rest: whole(extracted, purpose, nobody, *rest)
    )


def seated(me: str, names: Sequence[str], announced: Mapping[str, bytes]) -> Seat:
    """A seat in a run in which these keys were announced: as :func:`joined`, with keys that were made once."""
    seat = Seat(me, tuple(names))
    keys = {name: announced.get(name) or _box_key_of(name).public for name in (*names, CHARLIE)}
    seat._box, seat._run, seat._keys = _box_key_of(me), RUN, keys
    seat._places = {name: place for place, name in enumerate(keys)}
    return seat


def added(role: Any) -> tuple[Row, bytes]:
    """Run a role until it has contributed; return the streams that it has added, and the round's label."""
    row: Row = {}

    def masked(_: Words, _vector: Any, _check: int, streams: Any) -> tuple[bytes, bytes]:
        for adds, key in streams:
            row[key] = row.get(key, 0) + (1 if adds else -1)
        return b"", b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Words, "masked", masked)
        effect, answer = role.send(None), None
        try:
            while True:
                effect = role.send(effect.compute(SimulationRng("draws")) if isinstance(effect, Once) else answer)
        except StopIteration as stop:
            return row, stop.value[0]


def derivable(
    secrets: Mapping[str, bytes],
    publics: Mapping[str, bytes],
    images: Mapping[str, bytes],
    purpose: str,
    context: bytes,
    label: bytes = b"",
) -> set[bytes]:
    """Every key that the owners of these secrets can derive with an honest party, under its name and any other.

    With a round's label, it is the keys of that round's masks.
    """
    order = {name: place for place, name in enumerate(publics)}
    owned = tuple(secrets.values())
    found = set[bytes]()
    for (name, image), other in product(images.items(), order):
        one, two = sorted((name, other), key=order.__getitem__)
        found |= _derived(owned, image, purpose, (End(one, publics[one]), End(two, publics[two])), context, label)
    return found


def _derived(
    secrets: tuple[bytes, ...], image: bytes, purpose: str, ends: tuple[End, End], context: bytes, label: bytes
) -> frozenset[bytes]:
    keys = {derive(RUN, secret, image, purpose, ends, context=context) for secret in secrets}
    return frozenset(tagged_hash("mask", label, key=key) for key in keys) if label else frozenset(keys)


# --- Masks -----------------------------------------------------------------------


def by_masks(
    study: Study, colluders: Collection[str], lie: Mapping[str, bytes], coin: bytes = COIN
) -> tuple[dict[str, Row], set[bytes]]:
    """The masks of honest parties in a sum, and the part that colluders know."""
    rows, label = {}, b""
    for name in study.names:
        if name not in colluders:
            sums = MaskedPartySums(seated(name, study.names, lie), study, {}, COIN, COIN, Survivors.of(study), coin)
            sums._meet()
            rows[name], label = added(sums._send(LAYOUT, [1], b""))
    publics = {name: lie.get(name) or _box_key_of(name).public for name in study.names}
    images = {name: image_of(key) for name, key in publics.items() if name in rows}
    secrets = {name: _box_key_of(name)._scalar for name in colluders}
    return rows, derivable(secrets, publics, images, "masks", b"", label)


def fair(rows: Mapping[str, Row], known: Collection[bytes]) -> bool:
    """Whether nothing opens but the sum of all, with whatever factors contributions are taken."""
    count = combinations_that_open(rows, known)
    return count == 0 or (count == 1 and not matrix(list(rows.values()), known).sum(axis=0).any())


@pytest.mark.parametrize("K", range(3, 7))
def test_only_the_sum_of_all_honest_parties_opens(K: int) -> None:
    study, cases = masked_study(K), 0
    for colluders in coalitions(K):
        honest = tuple(name for name in study.names if name not in colluders)
        for lie in lies(colluders, honest, lambda name: _box_key_of(name).public, (same, negative)):
            rows, known = by_masks(study, colluders, lie)
            assert opening(rows, known) == (set() if lie else {frozenset(honest)}), (colluders, lie)
            assert fair(rows, known)
            cases += 1
    assert cases > K


@pytest.mark.parametrize("K", range(3, 7))
def test_without_names_in_the_derivation_sums_of_some_open(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands between a party and the copy of its key adds and subtracts one stream."""
    _forgets_names(monkeypatch)
    study = masked_study(K)
    copier, victim, between = study.names[-1], study.names[0], study.names[1:-1]
    for change in (same, negative):
        rows, known = by_masks(study, (copier,), {copier: change(_box_key_of(victim).public)})
        assert frozenset(between) in opening(rows, known)
        assert not fair(rows, known)


def _circle(names: Sequence[str]) -> tuple[bytes, str, str]:
    """A coin that seats the roster's last party beside its first, and who then has one of the two as a neighbour."""
    for i in range(10_000):
        coin = i.to_bytes(32, "big")
        first, last = ({*neighbours_of(coin, names, name)} for name in (names[0], names[-1]))
        apart = (first ^ last) - {names[0], names[-1]}
        if len(apart) == 2:
            one, other = sorted(apart)
            return coin, one, other
    raise AssertionError


@pytest.mark.parametrize(("count", "mutant"), [(3, False), (10, False), (40, False), (3, True), (40, True)])
def test_above_65_parties_nothing_but_the_sum_of_all_honest_parties_opens(
    count: int, monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """The copier stands beside its victim, and whoever is a neighbour of one of them alone is on its side."""
    if mutant:
        _forgets_names(monkeypatch)
    study = world_of(70).study
    first, *rest, last = study.names
    coin, *apart = _circle(study.names)
    others = [name for name in rest if name not in apart]
    colluders = (*apart, *random.Random(count).sample(others, count - 3), last)  # noqa: S311 - a choice of cases
    key = _box_key_of(first).public
    fairly = []
    lies_told: tuple[dict[str, bytes], ...] = ({}, {last: key}, {last: negative(key)}, dict.fromkeys(colluders, key))
    for lie in lies_told[: 3 if mutant else 4]:
        rows, known = by_masks(study, colluders, lie, coin)
        fairly.append(fair(rows, known))
        assert mutant or combinations_that_open(rows, known) == (not lie)
    assert fairly[:3] == [True, not mutant, not mutant]
    assert mutant or fairly[3:] == [True]


# --- Double masks ----------------------------------------------------------------


@cache
def one_time(name: str) -> bytes:
    """A party's one-time key."""
    return SimulationRng(name, "one-time").bytes(32)


@cache
def shown(name: str) -> bytes:
    """Its public half."""
    return public_of(one_time(name))


def by_double_masks(
    study: Study, colluders: Collection[str], lie: Mapping[str, bytes], out: Collection[str], ring: Ring
) -> tuple[dict[str, Row], set[bytes]]:
    """The same under double masks, once Charlie has opened the own masks of a set, and the keys of those ``out``."""
    publics = {name: lie.get(name) or shown(name) for name in study.names}
    rows, known, label = {}, set[bytes](), b""
    for name in study.names:
        if name in colluders:
            continue
        sums = DoublePartySums(seated(name, study.names, {}), study, ring, COIN, COIN, _Held(one_time(name)))
        sums._held.keys = {i: publics[study.names[i]] for i in sums._near}
        sums._boxes = lambda *_: b""  # type: ignore[method-assign]
        draws = SimulationRng(name, "draws")

        async def draw(_label: str, compute: Any, draws: Any = draws) -> Any:
            return compute(draws)

        sums.seat.once = draw  # type: ignore[method-assign,assignment]
        rows[name], label = added(sums._contribute(LAYOUT, [1], b""))
        seed = SimulationRng(name, "draws").bytes(128)[:32]
        if name not in out:
            known.add(tagged_hash("own mask", label, key=seed))
    secrets = {name: one_time(name) for name in (*colluders, *out)}
    images = {name: public for name, public in publics.items() if name in rows}
    return rows, known | derivable(secrets, publics, images, "one-time masks", label)


def _complete(K: int) -> Ring:
    return Ring(COIN, K, Thresholds(K - 1, K // 2 + 1, K, K // 2 + 1))


@pytest.mark.parametrize("K", range(3, 7))
def test_under_double_masks_only_the_sum_of_all_honest_parties_of_the_set_opens(K: int) -> None:
    study, ring = masked_study(K), _complete(K)
    for colluders in coalitions(K):
        honest = tuple(name for name in study.names if name not in colluders)
        for i, lie in enumerate(lies(colluders, honest, shown, VARIANTS)):
            out = {honest[i % len(honest)]} if i % 2 and len(honest) > 2 else set[str]()
            rows, known = by_double_masks(study, colluders, lie, out, ring)
            left = frozenset(honest) - out
            assert opening(rows, known) <= {left}, (colluders, lie, out)
            assert lie or opening(rows, known) == {left}
            members = {name: row for name, row in rows.items() if name in left}
            assert fair(members, known)


VARIANTS = (same, top_bit, with_torsion)


@pytest.mark.parametrize("K", range(3, 7))
@pytest.mark.parametrize("change", VARIANTS)
def test_without_names_a_copied_one_time_key_opens_sums_of_some(
    K: int, change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _forgets_names(monkeypatch)
    study = masked_study(K)
    copier, victim, between = study.names[-1], study.names[0], study.names[1:-1]
    lie = {copier: change(shown(victim))}
    rows, known = by_double_masks(study, (copier,), lie, (), _complete(K))
    assert frozenset(between) in opening(rows, known)


@pytest.mark.parametrize("mutant", [False, True])
def test_on_a_ring_of_many_a_copied_one_time_key_opens_nothing(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """70 parties with 20 neighbours each, one of whom is out; the copier stands beside its victim on the ring."""
    if mutant:
        _forgets_names(monkeypatch)
    study, ring = world_of(70).study, Ring(COIN, 70, Thresholds(20, 14, 20, 14))
    names, first = study.names, 0
    near = ring.neighbours(first)
    copier, out = names[near[-1]], {names[near[0]]}
    cancelled = []
    for lie in ({}, *({copier: change(shown(names[first]))} for change in VARIANTS)):
        rows, known = by_double_masks(study, (copier,), lie, out, ring)
        cancelled.append(any(times == 0 for row in rows.values() for times in row.values()))
        members = {name: row for name, row in rows.items() if name not in out}
        assert mutant or fair(members, known)
        assert mutant or combinations_that_open(members, known) == (not lie)
    assert cancelled == [False, *[mutant] * len(VARIANTS)]
