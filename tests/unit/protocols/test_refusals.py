"""Before the first noised release nothing that others see depends on a record: not who refuses, nor what is sent.

Pairs of data sets differ in one record of one party. That party reads its file as its process does. The frames that
Charlie sees must be equal in sender, recipient, type, length and order.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.records import fewest_held_back, fewest_to_learn_from, most_held_back, most_to_learn_from
from masquerade_core.errors import BadInput, LocalProtocolError, MasqueradeError, RunFailed
from masquerade_core.learning.erm import fit_records
from masquerade_core.model import Model
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Passed, Table
from masquerade_protocols import PROTOCOLS, entry_of, statement_of
from masquerade_protocols.blocks.masked_sum import MaskedPartySums
from masquerade_protocols.blocks.paillier_sum import PaillierPartySums
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import before_join
from masquerade_protocols.registry import NO_REFUSAL
from tests.statement_studies import study_text
from tests.vote_helpers import unit_rows

MANY, SOME, FEW = 1200, 60, 10
"""How many records p1 has; or has where their number is not opened, and one weighs more; and each other party."""

POINTS = Auxiliary.from_unit_ball(unit_rows(8, 4, 99))
_AUXILIARY = f'[protocol.auxiliary]\nfile = "points.csv"\nsha256 = "{POINTS.digest.hex()}"\nrecords = 8'
_HELD = "[evaluation]\nshare = 0.2\n"

STUDIES: dict[str, tuple[str, str, str, str]] = {
    "dp-whitened": ("dp-whitened", "proven", "", ""),
    "dp-whitened, masks": ("dp-whitened", "proven", "", "masks"),
    "dp-whitened, evaluated": ("dp-whitened", "proven", "", _HELD),
    "dp-glm": ("dp-glm", "proven", "", ""),
    "dp-glm, masks": ("dp-glm", "proven", "", "masks"),
    "dp-glm, evaluated": ("dp-glm", "proven", "", _HELD),
    "dp-gd": ("dp-gd", "proven", "rounds = 2", ""),
    "dp-gd, masks": ("dp-gd", "proven", "rounds = 2", "masks"),
    "dp-gd, evaluated": ("dp-gd", "proven", "rounds = 2", _HELD),
    "psgd": ("psgd", "paper", "rounds = 2", ""),
    "psgd, proven": ("psgd", "proven", "rounds = 2", ""),
    "psgd, evaluated": ("psgd", "proven", "rounds = 2", _HELD),
    "noisy-gradient": ("noisy-gradient", "paper", "rounds = 2", ""),
    "decaying-budget": ("decaying-budget", "paper", "rounds = 2", ""),
    "weighted-dp": ("weighted-dp", "paper", "c = 16.0\nrounds = 2", ""),
    "weighted-dp, proven": ("weighted-dp", "proven", "rounds = 2", ""),
    "weighted-dp, uniform": ("weighted-dp", "paper", 'c = 16.0\nrounds = 2\nweights = "uniform"', ""),
    "local-aggregation": ("local-aggregation", "paper", "", ""),
    "local-aggregation, selected": ("local-aggregation", "proven", 'scale = "selected"', ""),
    "local-aggregation, floor": ("local-aggregation", "proven", 'scale = "floor"', ""),
    "local-aggregation, sizes": ("local-aggregation", "proven", 'weights = "sizes"', ""),
    "input-noise": ("input-noise", "paper", "alpha = 1.0", ""),
    "input-noise, proven": ("input-noise", "proven", 'labels = "randomised-response"\nepsilon_y = 0.03', ""),
    "vote": ("vote", "paper", f'ties = "first"\n{_AUXILIARY}', ""),
    "vote, proven": ("vote", "proven", f'ties = "first"\n{_AUXILIARY}', ""),
    "soft": ("soft", "paper", _AUXILIARY, ""),
    "soft, proven": ("soft", "proven", _AUXILIARY, ""),
    "summary": ("summary", "proven", "", ""),
    "summary, masks": ("summary", "proven", "", "masks"),
    "evaluation": ("evaluation", "proven", "weights = [0.1, 0.2, 0.3, 0.4]", ""),
    "evaluation, masks": ("evaluation", "proven", "weights = [0.1, 0.2, 0.3, 0.4]", "masks"),
}
COUNTED = [
    name
    for name, (protocol, *_) in STUDIES.items()
    if protocol
    in {"dp-whitened", "dp-glm", "dp-gd", "psgd", "noisy-gradient", "decaying-budget", "weighted-dp", "evaluation"}
    and name != "weighted-dp, uniform"
]
"""Those that open the number of all records before anything with noise."""

USUAL = "0.5,0.5,a,1"
RECORDS = {
    "of the other class": "0.5,0.5,a,0",
    "another": "-0.9,0.1,b,1",
    "out of bounds": "7,0.5,a,1",
    "missing": ",NA,a,1",
    "unreadable": "many,0.5,zzz,1",
    "of an unknown class": "0.5,0.5,a,",
    "on a broken line": "0.5",
    "of the other class, out of bounds": "7,0.5,a,0",
}


def test_every_protocol_is_here() -> None:
    assert {protocol for protocol, *_ in STUDIES.values()} == {*PROTOCOLS, "evaluation"}


def _study(name: str, rule: str = "clamp") -> Study:
    protocol, calibration, section, more = STUDIES[name]
    text = study_text(
        protocol,
        calibration,
        section,
        K=3,
        d=2,
        min_records=FEW,
        epsilon=8.0,
        delta=1e-5,
        colluders=0,
    )
    changes = [
        ("min_records", f'out_of_bounds = "{rule}"\nmin_records'),
        ("key_bits = 2048\n", "key_bits = 512\n"),
        ("[curator]", '[[feature]]\nname = "g"\nlevels = ["a", "b"]\n[curator]'),
    ]
    if protocol == "summary":
        changes.append(("[model]\nregularization = 0.05\nintercept = false", "[model]\nregularization = 0.0"))
    if more == "masks":
        changes += [('lead = "p0"\n', ""), ("key_bits = 512\n", 'sum = "masks"\n')]
    else:
        changes.append(("[label]", f"{more}[label]"))
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    study = Study.parse(text, in_memory=True)
    entry_of(study)
    return study


@cache
def _made(name: str) -> Study:
    return _study(name)


def _file(folder: Path, first: str, n: int) -> Path:
    path = folder / f"{n}.csv"
    path.write_text("x0,x1,g,y\n" + f"{first}\n" + f"{USUAL}\n" * (n - 1))
    return path


@lru_cache(16)  # of one study
def _read(study: str, folder: Path, first: str, n: int) -> Any:
    """A file's records, as a study reads them: most parties have the same file in each run."""
    made = Study.parse(study, in_memory=True)
    return entry_of(made).records.one(_file(folder, first, n), made)


@dataclass
class Seen:
    """The others' view of a run, and its end."""

    passed: list[Passed]
    before: int
    end: Any


class _Marked(list[Any]):
    """A list that notes how many frames had passed when each of its entries came."""

    def __init__(self, passed: list[Passed]) -> None:
        super().__init__()
        self.passed, self.marks = passed, list[int]()

    def append(self, entry: Any) -> None:
        self.marks.append(len(self.passed))
        super().append(entry)


def _run(study: Study, folder: Path, first: str, others: str = USUAL, many: int = MANY) -> Seen:
    """Run it with p1's first record as given; ``before`` counts the frames up to the last party's first release."""
    entry = entry_of(study)
    read = {
        name: deepcopy(_read(study.to_toml(), folder, first if n == many else others, n))
        for name, n in zip(study.names, (FEW, many, FEW), strict=True)
    }
    table = Table(study.names)
    table.releases = marked = _Marked(table.passed)
    options: dict[str, Any] = {"auxiliary": POINTS} if entry.auxiliary else {}
    end: Any
    try:
        end = run_in_memory(entry, study, read, table=table, **options)[CHARLIE]
    except MasqueradeError as error:
        end = error
    firsts = marked.marks[: study.K]
    return Seen(table.passed, (max(firsts) + 1) if len(firsts) == study.K else 0, end)


def _is_finite(end: Any) -> bool:
    if isinstance(end, Model):
        return bool(np.isfinite([*end.weights, *end.offset]).all())
    return not isinstance(end, Exception)


EXTREME = "of the other class, out of bounds"
"""Of :data:`RECORDS`: it changes the label, and a coordinate the most."""

READS = {tuple(what): name for name, (*what, how) in STUDIES.items() if how in {"", "masks"}}
"""One study of each protocol, calibration and section, under masks where there is one."""
PLAIN = ("of the other class", "out of bounds", EXTREME)


@pytest.mark.parametrize("name", STUDIES)
def test_what_is_sent_does_not_depend_on_a_record(name: str, tmp_path: Path) -> None:
    """All other records are alike and of one class, which no protocol refuses either.

    Every kind of record is in one study of each protocol, calibration and section. How sums are made, and what else a
    run does, meets three of them.
    """
    study, many = _made(name), MANY if name in COUNTED else SOME
    usual = _run(study, tmp_path, USUAL, many=many)
    assert usual.before > 0
    assert _is_finite(usual.end), usual.end
    for kind in RECORDS if name in READS.values() else PLAIN:
        other = _run(study, tmp_path, RECORDS[kind], many=many)
        assert other.passed == usual.passed, kind
        assert _is_finite(other.end), (kind, other.end)


LIMITS = {
    "fewest": (fewest_to_learn_from, fewest_held_back),
    "most": (most_to_learn_from, most_held_back),
}


def _forge(monkeypatch: pytest.MonkeyPatch, study: Study, limit: str) -> None:
    """Let the parties open another number of records than they have, whoever brought that about."""
    told = [of(study) for of in LIMITS[limit]][: 1 if study.evaluation is None else 2]
    for sums in (PaillierPartySums, MaskedPartySums):
        open_sum: Any = sums.open_sum

        async def false(self: Any, layout: Any, vector: Any, bound_to: bytes, *more: Any, real: Any = open_sum) -> Any:
            if bound_to == b"N":
                vector = told if self.seat.me == "p2" else [0] * len(told)
            return await real(self, layout, vector, bound_to, *more)

        monkeypatch.setattr(sums, "open_sum", false)


@pytest.mark.parametrize("kinds", [(EXTREME,)], ids=["extreme"])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", COUNTED)
def test_nor_with_a_false_number_of_records_and_one_huge_one_sided_party(
    name: str, limit: str, kinds: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number cannot change how a record is read, which the test above covers; ``tests/extras`` has all the same."""
    study = _made(name)
    _forge(monkeypatch, study, limit)
    usual = _run(study, tmp_path, USUAL)
    # Of so few records dp-glm tells nothing, and releases nothing.
    assert (usual.before > 0) is not (name in {"dp-glm", "dp-glm, masks"} and limit == "fewest"), usual.end
    for kind in kinds:
        other = _run(study, tmp_path, RECORDS[kind])
        assert other.before == usual.before, (kind, other.end)
        assert other.passed[: other.before] == usual.passed[: usual.before], kind
        assert not isinstance(other.end, LocalProtocolError | BadInput), kind


# --- The test can fail ------------------------------------------------------------------


def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = Packing.pack

    def strict(self: Packing, vector: Any) -> Any:
        if max(map(abs, vector)) > self.bound:
            raise LocalProtocolError("beyond the bound")
        return pack(self, vector)

    monkeypatch.setattr(Packing, "pack", strict)


@pytest.mark.parametrize("name", ["dp-gd", "psgd, proven", "dp-whitened"])
def test_it_would_notice_a_party_that_stops_over_its_own_vector(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _made(name)
    _strict(monkeypatch)
    assert not isinstance(_run(study, tmp_path, USUAL).end, Exception)
    _forge(monkeypatch, study, "fewest")
    assert isinstance(_run(study, tmp_path, USUAL).end, LocalProtocolError)


@pytest.mark.parametrize("kind", ["out of bounds", "missing", "unreadable", "of an unknown class", "on a broken line"])
def test_a_study_that_refuses_tells_of_a_record(kind: str, tmp_path: Path) -> None:
    study = _study("dp-gd", rule="refuse")
    assert not isinstance(_run(study, tmp_path, USUAL).end, Exception)
    with pytest.raises(BadInput):
        _run(study, tmp_path, RECORDS[kind])


@pytest.mark.parametrize("name", STUDIES)
def test_the_statement_says_what_it_assumes_of_refusals(name: str) -> None:
    clamps, refuses = (statement_of(_study(name, rule)) for rule in ("clamp", "refuse"))
    assert all(NO_REFUSAL not in row.assumptions for row in clamps)
    proved = [row for row in refuses if row.epsilon is not None]
    assert all((NO_REFUSAL in row.assumptions) is not name.startswith("summary") for row in proved)
    assert [(row.view, row.epsilon, row.delta) for row in clamps] == [(r.view, r.epsilon, r.delta) for r in refuses]


def test_it_would_notice_a_party_that_refuses_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _made("local-aggregation")

    def refuses(records: Any, *more: Any) -> Any:
        if len(np.unique(records.y)) == 1 and records.n == MANY:
            raise RunFailed("one class")
        return fit_records(records, *more)

    monkeypatch.setattr(before_join, "fit_records", refuses)
    ends = [_run(study, tmp_path, record) for record in (USUAL, RECORDS["of the other class"])]
    assert ends[0].passed != ends[1].passed
