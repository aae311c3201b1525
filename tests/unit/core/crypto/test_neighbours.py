"""Who shares masks with whom: the graph that the coin draws, and the chance that corrupt parties cut it."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations
from math import comb, log2

import pytest

from masquerade_core.cuts import GRINDING_BITS, chance_of_cut, delta_of_cut, most_corrupt
from masquerade_core.neighbours import (
    NEIGHBOURS,
    coin_of_set,
    neighbours_of,
)


def names(n: int) -> tuple[str, ...]:
    return tuple(f"p{i}" for i in range(n))


def graph(n: int, k: int, coin: bytes = b"coin") -> dict[str, tuple[str, ...]]:
    return {name: neighbours_of(coin, names(n), name, k) for name in names(n)}


def parts(edges: dict[str, tuple[str, ...]], of: set[str]) -> int:
    """Into how many parts these fall when nobody else is there."""
    left, count = set(of), 0
    while left:
        count += 1
        todo = [left.pop()]
        while todo:
            here = {other for other in edges[todo.pop()] if other in left}
            left -= here
            todo.extend(here)
    return count


@pytest.mark.parametrize(("n", "k"), [(66, 64), (67, 64), (300, 64), (11, 4), (6, 4)])
def test_symmetric_connected_and_k_each(n: int, k: int) -> None:
    """Everybody has k neighbours, of whom it is one itself; in the members' order, and never itself."""
    edges = graph(n, k)
    assert all(len(set(others)) == k and name not in others for name, others in edges.items())
    assert all(name in edges[other] for name, others in edges.items() for other in others)
    assert all(list(others) == sorted(others, key=names(n).index) for others in edges.values())
    assert parts(edges, set(names(n))) == 1


@pytest.mark.parametrize("n", [1, 2, 64, 65])
def test_few_parties_are_all_neighbours(n: int) -> None:
    assert graph(n, 64) == {name: tuple(o for o in names(n) if o != name) for name in names(n)}


def test_known_answers() -> None:
    """Two machines that draw other graphs would make masks that do not cancel."""
    assert neighbours_of(b"coin", names(10), "p3", 4) == ("p0", "p1", "p2", "p4")
    chosen = " ".join(neighbours_of(bytes(range(32)), names(20_000), "p17"))
    assert hashlib.sha256(chosen.encode()).hexdigest()[:16] == "c1ecbad318ba3b18"
    assert coin_of_set(b"coin", names(3)).hex()[:16] == "44ade9c8e38fe9e2"


def test_the_coin_and_the_set_change_the_graph() -> None:
    """An honest party has other neighbours when one of the others is left out, and not merely one fewer."""
    before, after = names(300), names(299)
    first = neighbours_of(coin_of_set(b"coin", before), before, "p0")
    second = neighbours_of(coin_of_set(b"coin", after), after, "p0")
    assert len(set(first) & set(second)) < 32
    assert first != neighbours_of(coin_of_set(b"other", before), before, "p0")
    assert coin_of_set(b"coin", ("a", "bc")) != coin_of_set(b"coin", ("ab", "c"))


def test_every_pair_is_drawn_equally_often() -> None:
    """Over many coins a pair meets with chance k / (n - 1); chi-square over all pairs."""
    n, k, draws = 13, 4, 1500
    met: Counter[tuple[str, str]] = Counter()
    for i in range(draws):
        edges = graph(n, k, i.to_bytes(4, "big"))
        met.update((a, b) for a in edges for b in edges[a] if a < b)
    chance = k / (n - 1)
    pairs = list(combinations(sorted(names(n)), 2))
    squares = sum((met[pair] - draws * chance) ** 2 / (draws * chance * (1 - chance)) for pair in pairs)
    assert len(pairs) == 78
    assert 30 < squares < 135  # the pairs of a graph are not independent: their mean is 78 and the spread some 12


def test_the_bound_counts_every_arrangement() -> None:
    """Of all ways to place c corrupt ones on a circle of n, so many pairs of long gaps; and never fewer cuts."""
    for n, k in ((9, 2), (10, 4), (12, 4)):
        edges = {f"p{i}": tuple(f"p{(i + s) % n}" for s in range(-(k // 2), k // 2 + 1) if s) for i in range(n)}
        for c in range(n):
            cuts = pairs = 0
            for corrupt in combinations(range(n), c):
                honest = [i for i in range(n) if i not in corrupt]
                gaps = [(b - a - 1) % n for a, b in zip(honest, honest[1:] + honest[:1], strict=True)]
                pairs += comb(sum(gap >= k // 2 for gap in gaps), 2)
                cuts += parts(edges, {f"p{i}" for i in honest}) > 1
            bound = 2.0 ** chance_of_cut(n, c, k) * comb(n, c)
            assert bound == pytest.approx(pairs)
            assert cuts <= pairs
            assert (cuts == 0) == (pairs == 0)


def test_the_drawn_graph_is_cut_as_often_as_the_bound_says() -> None:
    """With k = 8 and half of 40 corrupt, always the same ones: the coin places them."""
    n, k, c, draws = 40, 8, 24, 1500
    honest = set(names(n)[c:])
    cuts = sum(parts(graph(n, k, i.to_bytes(4, "big")), honest) > 1 for i in range(draws))
    expected = draws * 2.0 ** chance_of_cut(n, c, k)
    assert 0.5 * expected < cuts <= 1.1 * expected


def test_what_64_neighbours_bear() -> None:
    """The figures of the module's table, and the most corrupt ones for 2^-40 after 2^40 tries."""

    def least(n: int, corrupt: int, bits: int) -> int:
        return next(k for k in range(2, n, 2) if chance_of_cut(n, corrupt, k) <= -bits)

    table = {n: [(least(n, n // part, 40), least(n, n // part, 80)) for part in (10, 3, 2)] for n in (1000, 20_000)}
    assert table == {1000: [(18, 30), (36, 60), (56, 92)], 20_000: [(22, 34), (42, 68), (66, 106)]}
    assert (NEIGHBOURS, GRINDING_BITS) == (64, 40)
    assert [most_corrupt(n, 2.0**-40) for n in (66, 1000, 20_000)] == [63, 368, 6333]
    assert most_corrupt(65, 2.0**-40) == 64
    assert delta_of_cut(1000, 63) == 0
    assert delta_of_cut(1000, 368) <= 2.0**-40 < delta_of_cut(1000, 369)
    assert delta_of_cut(1000, 800) == 1
    assert log2(delta_of_cut(20_000, 6333)) == pytest.approx(-40, abs=0.1)
