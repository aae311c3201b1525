"""The work of a party, and of Charlie for each party, does not grow with the number of parties."""

from __future__ import annotations

import cProfile
import gc
import pstats

import pytest

from masquerade_core.crypto import masks, pair_keys
from masquerade_core.data.schema import Dataset
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols.blocks.masked_sum import Masked
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory
from tests.dropout_helpers import masked_text
from tests.protocol_helpers import make_data

FEW, MANY = 80, 120
"""Both above the 65 up to which all are neighbours; so close to each other, since calls are counted exactly."""


def _study(K: int) -> Study:
    return Study.parse(masked_text("dp-gd", K, 2, section="rounds = 1\nclip = 0.5"), in_memory=True)


def _records(study: Study) -> dict[str, Dataset]:
    return dict.fromkeys(study.names, make_data(study, [20] * study.K)["p0"])


class _Counts:
    """How often keys of pairs, masks and function calls of Python were made."""

    def __init__(self, K: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.K, self.pairs, self.streams = K, 0, 0
        study = _study(K)
        records = _records(study)
        extract, stream = pair_keys._extract, masks._chacha

        def counted_secret(*keys: bytes) -> bytes:
            self.pairs += 1
            return extract(*keys)

        def counted_stream(key: bytes, length: int) -> bytes:
            self.streams += 1
            return stream(key, length)

        self.table = Table(study.names, study=study)
        with monkeypatch.context() as patch:
            patch.setattr(pair_keys, "_extract", counted_secret)
            patch.setattr(masks, "_chacha", counted_stream)
            profile = cProfile.Profile()
            gc.disable()  # what it would call is nobody's work
            profile.enable()
            self.models = run_in_memory(dp_gd, study, records, table=self.table)
            profile.disable()
            gc.enable()
        self.calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # typeshed leaves it out


def test_work_grows_with_the_parties_and_not_with_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    _Counts(66, monkeypatch)  # what the first run of a process alone does would hide much of what grows
    few, many = _Counts(FEW, monkeypatch), _Counts(MANY, monkeypatch)
    for run in (few, many):
        assert len({repr(model) for model in run.models.values()}) == 1
        # A secret with each of 64 neighbours; the first party, which deals kappa, also has one with every other.
        assert 64 * run.K <= run.pairs < 66 * run.K
        # Two sums, each with the masks of 64 neighbours and the stream of the check key.
        assert run.streams == 2 * run.K * 65
        sizes = {passed.length for passed in run.table.passed if passed.type == Masked.__name__}
        assert len(sizes) == 2  # of the count, and of the round
    # Of 12,100 calls for each party, room for 24: with one for each other party it would be 40 more.
    assert many.calls / many.K <= 1.002 * few.calls / few.K
    told = [passed for passed in many.table.passed if passed.source == CHARLIE and passed.to == "p119"]
    assert [passed.type for passed in told] == ["Summed", "Summed"]
