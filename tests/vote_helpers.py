"""Runs of vote and soft with small keys, at auxiliary points that are simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import SecretKey
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.rng import Rng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.entry import Protocol
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.voting import public, roles
from masquerade_protocols.voting.entry import SOFT, VOTE
from tests.paper_data import study_of
from tests.sum_helpers import drawn

Array = NDArray[np.float64]


def unit_rows(n: int, d: int, seed: int) -> Array:
    """Records in the unit ball."""
    rows = np.random.default_rng(seed).normal(size=(n, d))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return rows


def vote_study(
    protocol: str = "soft",
    K: int = 5,
    d: int = 4,
    *,
    N: int = 30,
    classes: int | None = None,
    section: str | None = None,
    X: Array | None = None,
    **kw: Any,
) -> Study:
    """A study of votes on N simulated points, or on X; with named classes "a", "b", ... where a number is given."""
    points = Auxiliary.from_unit_ball(unit_rows(N, d, 99) if X is None else X)
    chosen = section if section is not None else 'ties = "first"' if protocol == "vote" else ""
    table = f'{chosen}\n[protocol.auxiliary]\nfile = "points.csv"\nsha256 = "{points.digest.hex()}"\n'
    text = study_of("local-aggregation", K, d, section='noise = "laplace"', **kw).to_toml()
    names = ", ".join(f'"{name}"' for name in "abcdefgh"[: classes or 0])
    for old, new in (
        ('protocol = "local-aggregation"', f'protocol = "{protocol}"'),
        ('noise = "laplace"', f"{table}records = {len(points.X)}"),
        ('positive = "1"', f"classes = [{names}]" if classes else 'positive = "1"'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    _POINTS[points.digest.hex()] = points
    return Study.parse(text, in_memory=True)


_POINTS: dict[str, Auxiliary] = {}


def points_of(study: Study) -> Auxiliary:
    """The points that one of these studies names, found by their hash."""
    return _POINTS[study.protocol["auxiliary"]["sha256"]]


def vote_data(study: Study, n: int = 25, seed: int = 0) -> dict[str, Dataset]:
    """Records of every party, all classes among them: the largest of C noisy linear scores."""
    rng = np.random.default_rng(seed)
    C = study.classes or 2
    true = rng.normal(size=(C, study.d))
    data = {}
    for name in study.names:
        X = unit_rows(n, study.d, int(rng.integers(1 << 30)))
        y = np.argmax(X @ true.T + 0.3 * rng.normal(size=(n, C)), axis=1)
        y[:C] = np.arange(C)
        data[name] = Dataset(X, y.astype(float) if study.multiclass else 2.0 * y - 1, study.classes)
    return data


class Fixed:
    """A classifier that learns nothing and votes as it was told to."""

    def __init__(self, votes: Any, classes: Any = None) -> None:
        self.votes = votes
        if classes is not None:
            self.classes_ = np.asarray(classes)

    def fit(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict(self, X: Any) -> Any:
        """Vote as told."""
        return self.votes


@dataclass(frozen=True)
class Voted:
    """One run at the table and all that was seen of it."""

    study: Study
    table: Table
    results: Mapping[str, Model]

    @property
    def w(self) -> Array:
        """The release of Charlie."""
        return np.array(self.results[CHARLIE].weights)

    @property
    def votes(self) -> Array:
        """Everybody's votes as class numbers, shape (K, N), from their journals."""
        return np.array([drawn(self.table, name, "votes") for name in self.study.names])

    @property
    def layout(self) -> Packing:
        """How the counters lie in plaintexts."""
        return as_packing(public.layout(self.study))

    @property
    def secret(self) -> SecretKey:
        """The lead's key xi, from its own journal."""
        return SecretKey(*drawn(self.table, self.study.lead, "key xi"))


def cast(
    study: Study,
    data: Mapping[str, Dataset] | None = None,
    classifiers: Mapping[str, Any] | Sequence[Any] = (),
    rngs: Mapping[str, Rng] | None = None,
) -> Voted:
    """Run vote or soft at the in-memory table; classifiers by name, or in the order of the roster."""
    public.check(study)
    table = Table(study.names, rngs)
    chosen = classifiers if isinstance(classifiers, Mapping) else dict(zip(study.names, classifiers, strict=False))
    results = run_in_memory(
        roles, study, data or vote_data(study), table=table, classifiers=chosen, auxiliary=points_of(study)
    )
    return Voted(study, table, results)


def descriptor(study: Study) -> Protocol:
    """The entry of a study's protocol."""
    return {"vote": VOTE, "soft": SOFT}[study.study.protocol]


def by_scikit_learn(study: Study, X: Array, alpha: Array) -> Array:
    """The minimiser of (19) or (55) by another library, a row a class: each point once per class, weighted."""
    C = alpha.shape[1]
    oracle = LogisticRegression(
        C=1 / (study.model.regularization * len(X)), fit_intercept=False, tol=1e-13, max_iter=100_000
    )
    if C > 2:
        oracle.set_params(solver="newton-cg")
    oracle.fit(np.vstack([X] * C), np.repeat(np.arange(C), len(X)), sample_weight=alpha.T.ravel())
    coefficients: Array = oracle.coef_
    return coefficients
