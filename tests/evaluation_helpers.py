"""Studies that hold records back, and evaluations whose sums are made in the clear: thousands of them in a minute."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade.console import literal_console
from masquerade.measuring import measuring_study
from masquerade.report import result_report
from masquerade_core.data.records import split
from masquerade_core.data.schema import Dataset
from masquerade_core.evaluation import Bins, Evaluation
from masquerade_core.learning.class_evaluation import ClassEvaluation
from masquerade_core.model import Model, model_to_json
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.saved_model import model_from_json
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.blocks import evaluation as block
from masquerade_protocols.blocks.noise_shares import FreshNoise
from masquerade_protocols.blocks.secure_sum import PartySums
from tests.protocol_helpers import make_study

_Array = NDArray[np.float64]


def held_back_study(
    K: int = 3,
    d: int = 4,
    *,
    share: float = 0.2,
    rule: str = "",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    colluders: int = 0,
    protocol: str = "dp-gd",
    section: str = "rounds = 3",
    calibration: str = "proven",
    min_records: int = 10,
) -> Study:
    """A study of d numeric features with ``[evaluation]``."""
    text = make_study(K, d, epsilon=epsilon, min_records=min_records).to_toml()
    threshold = f"threshold = {rule}\n" if rule else ""
    section = "" if protocol == "dp-whitened" else section  # it has nothing to choose
    for old, new in (
        ('protocol = "local-aggregation"', f'protocol = "{protocol}"'),
        ("delta = 1e-05", f"delta = {delta}"),
        ("colluders = 0", f"colluders = {colluders}"),
        ('calibration = "paper"', f'calibration = "{calibration}"'),
        ('noise = "laplace"', section),
        ("[label]", f"[evaluation]\nshare = {share}\n{threshold}\n[label]"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)


@dataclass
class _Offer:
    """A party's vector, which waits for the sum of all."""

    vector: list[int]

    def __await__(self) -> Generator[_Offer, tuple[int, ...], tuple[int, ...]]:
        return (yield self)


class _NoSeat:
    released: ClassVar[dict[str, Any]] = {}

    async def release(self, *_cost: object) -> None:
        """Count nothing."""

    async def once(self, _label: str, compute: Any) -> Any:
        """Compute it."""
        return compute(SimulationRng(0))

    async def stage(self, _name: str) -> None:
        """Say nothing."""


@dataclass
class _ClearSums:
    """A role's view of its secure sums, without encryption."""

    study: Study
    held_back: int
    seat: Any = _NoSeat()  # noqa: RUF009  it has no state

    async def open_sum(self, layout: Any, vector: Sequence[int], bound_to: bytes, _again: object) -> tuple[int, ...]:
        assert len(bound_to) == 32
        layout.pack(vector)
        return await _Offer(list(vector))

    async def close(self) -> None:
        """Nothing was encrypted, so there is nothing to prove."""


def _evaluate(
    study: Study,
    model: Model,
    held: Mapping[str, Dataset],
    rngs: Mapping[str, Rng] | None = None,
    *,
    quiet: bool = False,
) -> Any:
    """Carry the parties' own role out, where each sum is made in the clear; without noise if ``quiet``."""
    N = sum(len(records.y) for records in held.values())
    share, count, sides = block.noise_of(study).share, sum(block.evaluation_lengths(study)), []
    for name, records in held.items():
        rng = SimulationRng(1, name) if rngs is None else rngs[name]
        noise = (0,) * count if quiet else tuple(discrete_gaussian(rng, share, count))
        sides.append(block.HeldBack(records, records, FreshNoise(noise)))
    roles = [block.evaluated(cast("PartySums", _ClearSums(study, N)), side, model) for side in sides]
    answer: tuple[int, ...] | None = None
    while True:
        offers, done = [], []
        for role in roles:
            try:
                offers.append(role.send(cast("Any", answer)))
            except StopIteration as end:
                done.append(end.value)
        if done:
            assert len(done) == len(roles)
            assert all(result == done[0] for result in done)
            return done[0].evaluation
        answer = tuple(map(sum, zip(*(cast("_Offer", offer).vector for offer in offers), strict=True)))


def records_of(rng: np.random.Generator, n: int, weights: Sequence[float], base: float = 0.0) -> Dataset:
    """Records of which the logistic model with ``weights`` and offset ``base`` is true."""
    X = rng.normal(size=(n, len(weights))) * 0.4
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    chance = 1 / (1 + np.exp(-(X @ np.array(weights) + base)))
    return Dataset(X, np.where(rng.random(n) < chance, 1.0, -1.0))


def halves(study: Study, data: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Return the records that each party holds back."""
    sides = {name: split(study, records)[1] for name, records in data.items()}
    return {name: side for name, side in sides.items() if side is not None}


def auc_of(scores: _Array, y: _Array) -> float:
    """The area under the ROC curve by ranks, ties counted half."""
    order = np.argsort(scores, kind="stable")
    values, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = np.empty(len(scores))
    ranks[order] = (ends - (counts - 1) / 2)[inverse]
    assert len(values) == len(counts)
    P = int((y > 0).sum())
    return float((ranks[y > 0].sum() - P * (P + 1) / 2) / (P * (len(y) - P)))


def contributions(study: Study, model: Model, held: Dataset, bins: Bins) -> tuple[list[int], list[int]]:
    """Return both vectors of one party without noise, where the first sum led to these bins."""
    side = block.HeldBack(held, held, FreshNoise((0,) * sum(block.evaluation_lengths(study))))
    role = block.evaluated(cast("PartySums", _ClearSums(study, 10 * len(held.y))), side, model)
    first = cast("_Offer", role.send(None)).vector
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_bins", lambda *_: bins)
        second = cast("_Offer", role.send(cast("Any", (0,) * len(first)))).vector
    role.close()
    return first, second


def measuring(study: Study, model: Model, **more: Any) -> Study:
    """Return the study that measures a model of a study's."""
    saved = model_from_json(model_to_json(model, study, bytes(16)))
    return measuring_study(study, saved, **more)


def measuring_of(d: int) -> Study:
    """Return the study of three parties that measures a model of d weights."""
    return measuring(held_back_study(3, d), Model((1.0,) * d, None))


def evaluate_in_the_clear(*args: Any, **more: Any) -> Evaluation:
    """Carry the parties' own role out, where each sum is made in the clear; without noise if ``quiet``."""
    found = _evaluate(*args, **more)
    assert isinstance(found, Evaluation)
    return found


def evaluate_classes_in_the_clear(*args: Any, **more: Any) -> ClassEvaluation:
    """Do the same for a model of named classes."""
    found = _evaluate(*args, **more)
    assert isinstance(found, ClassEvaluation)
    return found


def report_text(result: Mapping[str, Any]) -> str:
    """Return the report on a result as plain text."""
    file = StringIO()
    console = literal_console(file=file, width=100, color_system=None, force_terminal=False, legacy_windows=False)
    for part in result_report(result):
        console.print(part)
    return file.getvalue()
