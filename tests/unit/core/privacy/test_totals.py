"""Whose number follows from totals over different groups of sites, and what `approve` says of it."""

from __future__ import annotations

import re
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.privacy.totals import told_apart
from masquerade_core.study import Study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from masquerade_protocols import entry_of
from masquerade_protocols.registry import MEASUREMENTS, PROTOCOLS
from tests.messages import says
from tests.processes import Machines
from tests.statement_studies import studies


@pytest.mark.parametrize(
    ("groups", "alone"),
    [
        ([], ""),
        (["a"], "a"),
        (["abc"], ""),
        (["abc", "ab"], "c"),  # a study, and one without a site
        (["abcd", "ab"], ""),
        (["abcd", "ab", "c"], "cd"),
        (["ab", "bc", "ca"], "abc"),  # no group is a part of another
        (["abc", "bcd", "cda", "dab"], "abcd"),
        (["ab", "cd", "abcd"], ""),
        (["abcd", "abce", "abde"], ""),
        (["abc", "abc"], ""),
    ],
)
def test_whose_number_follows(groups: list[str], alone: str) -> None:
    assert told_apart(groups) == frozenset(alone)


def test_the_numbers_that_follow_are_those_of_unit_vectors_in_the_span() -> None:
    """The same by ranks, as floats compute them, for many sets of groups."""
    rng, sites, found = np.random.default_rng(4), "abcdef", 0
    everything = list(chain.from_iterable(combinations(sites, size) for size in range(1, 7)))
    for _ in range(300):
        groups = [everything[i] for i in rng.integers(len(everything), size=rng.integers(1, 6))]
        matrix = np.array([[site in group for site in sites] for group in groups], dtype=float)
        rank = np.linalg.matrix_rank(matrix)
        by_rank = {site for site, unit in zip(sites, np.eye(6), strict=True)
                   if np.linalg.matrix_rank(np.vstack([matrix, unit])) == rank}  # fmt: skip
        assert told_apart(groups) == by_rank
        found += bool(by_rank)
    assert 50 < found < 250


# --- Approving --------------------------------------------------------------------------------------------------------


class _Desk:
    """The machine of p1, and studies of p1 with others."""

    def __init__(self, folder: Path) -> None:
        self._machines = Machines.new(folder, K=5)
        self._state = StateFolder(folder / "state" / "p1")
        give_budget(self._state.made(), "default", 1000.0, 1e-2, by="a test").close()
        self._folder = folder

    def study(self, name: str, others: str, protocol: str) -> Path:
        """A study over p1 and these others."""
        text = self._machines.study.to_toml()
        text = re.sub(r"(lead|key_bits) = .*\n", "", text)
        for old, new in (
            ('name = "toy"', f'name = "{name}"'),
            ('"local-aggregation"', f'"{protocol}"'),
            ('"paper"', '"proven"'),
            ('"paillier"', '"masks"'),
            ("delta = 0.0", "delta = 1e-6"),
        ):
            assert text.count(old) == 1
            text = text.replace(old, new)
        head, *parties = text.split("[[party]]")
        text = "[[party]]".join([head, *(p for p in parties if re.search(r'"p(\d)"', p)[1] in f"1{others}")])  # type: ignore[index]  # each has a name
        (path := self._folder / f"{name}.toml").write_text(text)
        return path

    def approve(self, name: str, others: str, protocol: str = "dp-gd", data: str | None = "p1.csv") -> tuple[str, ...]:
        """Say yes; returns what was said of the studies before."""
        path, told = self.study(name, others, protocol), list[str]()
        done = approve(
            path,
            key_path=self._folder / "keys" / "p1.key",
            data_path=data and self._folder / data,
            state=self._state.root,
            by="a test",
            fingerprint=Study.parse(path.read_text()).fingerprint(),
            tell=told.append,
        )
        assert ("What it shows together with your other studies" in told[0]) == bool(done.beside)
        return done.beside


@pytest.fixture
def desk(tmp_path: Path) -> _Desk:
    return _Desk(tmp_path)


def test_approve_says_whose_number_two_studies_show(desk: _Desk) -> None:
    assert desk.approve("first", "234") == ()
    (said,) = desk.approve("second", "23")
    assert says(said, "count_different_sites", "first")
    assert says(said, "number_is_shown", "p4")


def test_approve_says_to_whom_this_sites_own_number_is_shown(desk: _Desk) -> None:
    assert desk.approve("first", "2345") == ()
    assert desk.approve("second", "23") == ()  # the difference is that of p4 and p5 together
    (said,) = desk.approve("third", "45")  # and without the difference, p1's is left of this one
    assert says(said, "two_studies_count", "first and second") or says(said, "two_studies_count", "second and first")
    assert says(said, "number_is_shown", "this site")


def test_one_site_that_knows_its_own_number_can_be_enough(desk: _Desk) -> None:
    assert desk.approve("first", "23") == ()
    assert desk.approve("second", "24") == ()
    said = [words.partition("Together they show ")[2] for words in desk.approve("third", "34")]
    learns = ", which knows its own number, exactly how many records this site has."
    assert said == [f"{name}{learns}" for name in ("p2", "p3", "p4")]


def test_only_studies_over_the_same_records_that_open_sizes_count(desk: _Desk) -> None:
    assert desk.approve("statistics", "234", "summary") == ()
    assert desk.approve("second", "23") == ()
    assert desk.approve("others", "234", data="p2.csv") == ()  # other records of the same people
    assert len(desk.approve("unknown", "234", data=None)) == 1  # these may be the same as the second's


def test_a_protocol_says_whether_a_run_opens_the_number_of_records() -> None:
    """Its statement assumes that sizes are published as they are, where it does."""
    seen = set()
    for name, text in studies():
        if "K=5 " in name or "K=20 " in name:
            continue  # a statement has the same assumptions for two parties, three, or more
        study = Study.parse(text, in_memory=True)
        entry = entry_of(study)
        if entry.name not in PROTOCOLS | MEASUREMENTS:
            continue
        said = " ".join(words for row in entry.statement(study) for words in (*row.assumptions, row.text))
        published = bool(
            re.search(r"number of all records,? (is|are)? ?published as it is|published as they are", said)
        )
        assert entry.opens_sizes(study) == published, name
        seen.add((entry.name, published))
    assert len(seen) > 10
