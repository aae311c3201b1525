"""Rows of a statement whose adversary breaks the protocol: a test carries each attack out, and the page names it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.statement import BREAKS, FOLLOWS, NONE, Claim
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Label, Study
from masquerade_core.table import Table
from masquerade_protocols import entry_of, statement_of
from masquerade_protocols.blocks import adaptive_sums, evaluation, masked_sum, noise_shares, paillier_sum
from masquerade_protocols.dp_gd.schedule import noise_of as dp_gd_noise
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.psgd.schedule import fraction_bits, joint_noise
from masquerade_protocols.psgd.schedule import psgd as psgd_schedule
from masquerade_protocols.summary import public as summary_public
from masquerade_protocols.summary import roles as summary
from masquerade_protocols.voting import roles as voting
from tests.evaluation_helpers import held_back_study, measuring
from tests.pages import Page, defined_tests
from tests.statement_studies import studies
from tests.vote_helpers import points_of, vote_study

PAGE = Page("docs/privacy/statement.md")
NO_NOISE = "Charlie with 1 party, where one honest party adds no noise"
D = 250


# --- Which rows there are ---------------------------------------------------------


@cache
def _all_rows() -> tuple[tuple[str, Claim], ...]:
    """All rows of the examples, and of each protocol with two and with three parties: more add none of another kind."""
    few = (text for name, text in studies() if not re.search(r"K=(?![23] )", name))
    measured = measuring(held_back_study(3, 4), Model((1.0,) * 4, None))
    more = [held_back_study(3, 4, colluders=1, protocol="dp-whitened"), _summary_study(), measured]
    every = [*(Study.parse(text, in_memory=True) for text in few), *more]
    return tuple((study.study.protocol, row) for study in every for row in statement_of(study))


def test_the_page_names_a_test_for_every_row_whose_adversary_breaks_the_protocol() -> None:
    table = {
        (kind, protocol): tests
        for kind, protocols, tests in re.findall(r"^\| \"(.+?)\" \| (.+?) \| (.+?) \|$", PAGE.text, re.MULTILINE)
        for protocol in re.findall(r"`([\w-]+)`", protocols)
    }
    rows = _all_rows()
    assert {row.adversary for _, row in rows} == {FOLLOWS, BREAKS}
    needed = {
        (next(kind for kind in ("adds no noise", "who break the rules") if kind in row.view), protocol)
        for protocol, row in rows
        if row.adversary == BREAKS and row.provable != NONE
    }
    assert needed == set(table)
    for tests in table.values():
        named = set(re.findall(r"`(test_\w+)`", tests))
        assert named
        assert named <= defined_tests()


def test_a_row_that_speaks_of_who_breaks_the_rules_has_no_other_adversary() -> None:
    for protocol, row in _all_rows():
        breaks = re.search("adds no noise|break the rules|breaks the rules", row.view) is not None
        assert row.adversary == (BREAKS if breaks else FOLLOWS), (protocol, row.view)
        if not breaks:  # nothing is claimed of one who breaks it
            assert not re.search("even if (he|charlie)|whatever they (do|send)", row.text, re.IGNORECASE), row.text


# --- A party that adds no noise ------------------------------------------------------------------


Chosen = Callable[[int], tuple[int, ...]]
"""The length of a sum -> what Charlie and a colluder make everybody believe that it is."""


class _Quiet:
    """Randomness of a party that draws no noise."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)


class _SeenEnough(Exception):
    """Ends a run after its first noisy sum."""


class _Watched:
    """Each party's contribution to the first noisy sum, and its total."""

    def __init__(
        self, patch: pytest.MonkeyPatch, quiet: set[str], chosen: Chosen | None = None, whole: bool = True
    ) -> None:
        self.chosen, self.whole = chosen, whole
        self.given: dict[str, list[list[int]]] = defaultdict(list)
        self.totals: list[list[int]] = []
        self.sds: list[float] = []
        once = Seat.once

        async def noiseless(seat: Seat, label: str, compute: Callable[[Any], Any]) -> Any:
            return await once(seat, label, (lambda rng: compute(_Quiet(rng))) if seat.me in quiet else compute)

        def drawn(rng: Any, sigma: Fraction, size: int) -> list[int]:
            self.sds.append(float(sigma))
            return [0] * size if isinstance(rng, _Quiet) else discrete_gaussian(rng, sigma, size)

        patch.setattr(Seat, "once", noiseless)
        patch.setattr(adaptive_sums, "discrete_gaussian_array", lambda *given: np.array(drawn(*given), dtype=np.int64))
        for module in (evaluation, noise_shares, summary, voting):
            patch.setattr(module, "discrete_gaussian", drawn)
        for sums in (masked_sum.MaskedPartySums, paillier_sum.PaillierPartySums):
            for name in ("open_sum", "contribute"):
                patch.setattr(sums, name, self._watching(getattr(sums, name)))
        for aggregated in (masked_sum.MaskedCharlieSums, paillier_sum.PaillierCharlieSums):
            for name in ("open_sum", "aggregate"):
                patch.setattr(aggregated, name, self._telling(getattr(aggregated, name)))

    def _watching(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(sums: Any, layout: Any, vector: Any, *more: Any, **named: Any) -> Any:
            self.given[sums.seat.me].append([int(x) for x in vector])
            return self._told(await real(sums, layout, vector, *more, **named))

        return watched

    def _telling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def told(sums: Any, *more: Any, **named: Any) -> Any:
            total = await real(sums, *more, **named)
            self.totals.append([int(x) for x in total])
            if not self.whole and len(total) > 2:
                raise _SeenEnough
            return self._told(total)

        return told

    def _told(self, total: Any) -> Any:
        return total if self.chosen is None or total is None or len(total) < 3 else self.chosen(len(total))

    def first(self, vectors: list[list[int]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Of vectors, the first that is not the numbers of records."""
        return np.array(next(v for v in vectors if len(v) > 2), dtype=np.float64)


def _draft(protocol: str, d: int = D, **more: Any) -> Study:
    features = [Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(d)]
    draft = Draft(
        parties=[(f"p{k}", throwaway_key()) for k in range(3)],
        curator_key=throwaway_key(),
        protocol=protocol,
        features=features,
        label=Label(name="y", positive="1"),
        epsilon=1.0,
        min_records=10,
        colluders=1,
        key_bits=512,
        **more,
    )
    return Study.parse(draft.to_toml(), in_memory=True)


def _summary_study() -> Study:
    return _draft("summary", 10)  # some 35 counts of each


def _points(study: Study, n: int = 600) -> dict[str, Any]:
    found = {}
    for seed, name in enumerate(study.names):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, study.d)) / math.sqrt(2 * study.d)
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        found[name] = Dataset(X, np.where(rng.random(n) < 0.5, 1.0, -1.0))
    return found


def _case(protocol: str) -> tuple[Study, dict[str, Any], dict[str, Any]]:
    if protocol == "summary":
        study = _summary_study()
        grid = summary_public.grid_of(study)
        columns = {f.name: ["0.5"] * 40 for f in study.features} | {"y": ["1"] * 40}
        return study, {name: grid.place(columns) for name in study.names}, {}
    if protocol == "evaluation":
        study = measuring(held_back_study(3, 4, colluders=1), Model((1.0, -1.0, 0.5, 0.0), None))
        return study, _points(study), {}
    if protocol in {"vote", "soft"}:
        text = vote_study(protocol, 3, 4, N=300, epsilon=1.0, delta=1e-5).to_toml()
        text = text.replace('calibration = "paper"', 'calibration = "proven"').replace("colluders = 0", "colluders = 1")
        study = Study.parse(text, in_memory=True)
        return study, _points(study, 40), {"auxiliary": points_of(study)}
    rounds: dict[str, Any] = {} if protocol == "dp-whitened" else {"parameters": {"rounds": 2}}
    study = _draft(protocol, calibration="proven", **rounds)
    return study, _points(study), {}


def _run(
    case: tuple[Study, dict[str, Any], dict[str, Any]],
    quiet: set[str],
    chosen: Chosen | None = None,
    seed: int = 3,
    whole: bool = True,
) -> _Watched:
    study, data, more = case
    with pytest.MonkeyPatch.context() as patch, nullcontext() if whole else pytest.raises(_SeenEnough):
        watched = _Watched(patch, quiet, chosen, whole)
        table = Table(study.names, {who: SimulationRng(seed, who) for who in (*study.names, CHARLIE)})
        found = run_in_memory(entry_of(study), study, data, table=table, **more)
        assert set(found) == {*study.names, CHARLIE}  # nobody notices
    return watched


@pytest.mark.parametrize("protocol", ["dp-whitened", "dp-gd", "psgd", "summary", "evaluation", "vote", "soft"])
def test_where_a_party_adds_no_noise_the_others_noise_is_left_as_the_row_says(protocol: str) -> None:
    """p0 draws no noise, and p1 tells Charlie all that it knows: the noise of p2 alone is left on the sum."""
    case = _case(protocol)
    study, names = case[0], list(case[0].names)
    quiet, colludes, _ = names
    clean = _run(case, set(names), whole=False)
    left, sd, seed = np.array([]), 0.0, 3
    while len(left) < 300:
        run = _run(case, {quiet}, seed=seed, whole=seed == 3)
        whole = run.first(run.totals) - clean.first(clean.totals)
        left = np.append(left, whole - (run.first(run.given[colludes]) - clean.first(clean.given[colludes])))
        sd, seed = max(sd, *run.sds), seed + 1

    def accepted(shares: float) -> bool:
        return bool(1e-6 < stats.chi2(len(left)).cdf(float(left @ left) / (shares * sd**2)) < 1 - 1e-6)

    assert accepted(1)
    assert not accepted(2)  # what would be left if p0 drew its share
    (row,) = (row for row in statement_of(study) if row.view == NO_NOISE)
    alone = next(row for row in statement_of(study) if row.view == "Charlie with 1 party")
    assert row.adversary == BREAKS
    assert row.epsilon is not None
    assert alone.epsilon is not None
    assert row.epsilon > alone.epsilon


# --- A Charlie who chooses the sums ------------------------------------------------


def _psgd_noise(study: Study) -> SharedNoise:
    N = 3 * 600
    return joint_noise(study, fraction_bits(study, psgd_schedule(study, N), N))


@pytest.mark.parametrize("protocol", ["dp-gd", "psgd", "evaluation"])
def test_whatever_sum_charlie_makes_all_believe_the_next_one_is_bounded_and_has_the_same_noise(protocol: str) -> None:
    """With a party on his side, Charlie can make all others believe any sum. He chooses the point of the next one.

    The opposite point would be the same test: records of both labels pull along it here.
    """
    study, data, more = _case(protocol)
    name = study.names[2]

    def chosen(length: int) -> tuple[int, ...]:
        return tuple((i % 5 - 1) * 2**38 for i in range(length))

    def second(quiet: set[str], records: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
        watched = _run((study, records, more), quiet, chosen)
        vectors = [v for v in watched.given[name] if len(v) > 2]
        return np.array(vectors[1], dtype=np.float64)

    clean, noisy = second(set(study.names), data), second(set(), data)
    noise = {"dp-gd": dp_gd_noise, "psgd": _psgd_noise, "evaluation": evaluation.noise_of}[protocol](study)
    left = (noisy - clean) / float(noise.share)

    for off in (1.0, 0.5, 2.0):
        accepted = 1e-6 < stats.chi2(len(left)).cdf(float(left @ left) / off**2) < 1 - 1e-6
        assert accepted == (off == 1.0), off
    # A record across the point that Charlie chose is replaced by one along it, which pulls with all its might.
    along = np.array(chosen(study.d), dtype=np.float64)
    across = np.roll(along, 1) - (np.roll(along, 1) @ along) / (along @ along) * along
    found = []
    for x, label in ((across, 1.0), (along, 1.0), (along, -1.0)):
        X, y = data[name].X.copy(), data[name].y.copy()
        X[0], y[0] = x / np.linalg.norm(x), label
        found.append(second(set(study.names), {**data, name: Dataset(X, y)}))
    moved = max(float(np.linalg.norm(found[0] - other)) for other in found[1:])
    assert 0 < moved <= float(noise.Delta)
