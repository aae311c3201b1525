"""A table laid for tests: studies, records and runs of local aggregation with small keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.saved_model import Shares
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.table import Table
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import roles as la

SMALL_BITS = 512


def make_study(
    K: int,
    d: int,
    *,
    bits: int = SMALL_BITS,
    epsilon: float = 1.0,
    regularization: float = 0.05,
    min_records: int = 10,
    noise: str = "laplace",
    lead: int = 0,
) -> Study:
    """A study of K parties p0 ... and d numeric features, no intercept."""
    rng = SystemRng()

    def key() -> str:
        return str(PublicKeys(rng.bytes(32), rng.bytes(32)))

    lines = [
        f'[study]\nname = "test"\nprotocol = "local-aggregation"\nmin_parties = 2\nlead = "p{lead}"',
        f'min_records = {min_records}\ndeadline_seconds = 60.0\nnonce = "0123456789abcdef"',
        f'[privacy]\nepsilon = {epsilon}\ndelta = 1e-5\ncalibration = "paper"',
        f"[model]\nregularization = {regularization}\nintercept = false",
        f'[crypto]\nkey_bits = {bits}\n[protocol]\nnoise = "{noise}"\n[label]\nname = "y"\npositive = "1"',
        f'[curator]\naddress = "tcp://127.0.0.1:5555"\nkey = "{key()}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "p{j}"\nkey = "{key()}"' for j in range(K)),
    ]
    return Study.parse("\n".join(lines), in_memory=True)


def make_data(study: Study, sizes: Sequence[int], seed: int = 0) -> dict[str, Dataset]:
    """Records in the unit ball with both labels, n_j = sizes[j]."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=study.d)
    data = {}
    for name, n in zip(study.names, sizes, strict=True):
        X = rng.normal(size=(n, study.d))
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        y = np.where(X @ true + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        data[name] = Dataset(X, y)
    return data


@dataclass(frozen=True)
class Run:
    """One run at the table and all that was seen of it."""

    study: Study
    data: Mapping[str, Dataset]
    table: Table
    results: Mapping[str, Model]

    @property
    def model(self) -> Model:
        """The release of Charlie."""
        return self.results[CHARLIE]

    @property
    def total(self) -> tuple[int, ...]:
        """K w^s on the grid."""
        return self.shares.total()

    @property
    def shares(self) -> Shares:
        """The published values."""
        assert isinstance(self.model.shares, Shares)
        return self.model.shares


def run(study: Study, data: Mapping[str, Dataset], rngs: Mapping[str, Rng] | None = None) -> Run:
    """Run local aggregation at the in-memory table."""
    table = Table(study.names, rngs)
    return Run(study, data, table, run_in_memory(la, study, data, table=table))
