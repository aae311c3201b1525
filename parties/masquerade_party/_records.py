"""A party's own records: where they are read to, and what this process says of them to their owner alone."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.files import data_at
from masquerade_core.data.records import Records, split
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.model import Model, answers_of, is_one_answer
from masquerade_core.study import Study
from masquerade_host.process.progress import Observer
from masquerade_host.store.ledger import Account
from masquerade_protocols import Protocol
from masquerade_protocols.registry import MEASUREMENTS, PROTOCOLS

if TYPE_CHECKING:
    from masquerade_core.data.cluster import Cluster

__all__ = ["cluster_at", "read_records", "says_the_same", "sizes_of", "tell_the_owner", "tell_what_was_got"]


def cluster_at(address: str, patience: float) -> "Cluster":
    """Return a connection with the site's Dask scheduler; ``patience`` is in seconds."""
    from masquerade_core.data.cluster import Cluster

    return Cluster(address, patience)


def read_records(
    protocol: Protocol,
    path: Path | str,
    study: Study,
    me: str,
    stream: Path | str | None = None,
    cluster: "Cluster | None" = None,
) -> Any:
    """Read and check a party's records, as a protocol needs them.

    Parameters
    ----------
    protocol : Protocol
        The study's.
    path : path
        The records.
    study : Study
    me : str
        The party.
    stream : path, optional
        A folder for a scratch file, in which the records are kept; otherwise memory holds them.
    cluster : Cluster, optional
        The site's Dask cluster, whose workers read and hold the records.

    Raises
    ------
    BadInput
        The records, the folder or the cluster cannot be used; or the protocol needs all records in memory, and a folder
        or a cluster is given.
    RefusedLocally
        There are too few records for the study, or too many.
    """
    loader = protocol.records
    if stream is not None and cluster is not None:
        raise BadInput("both --stream and --dask were given", "choose a disk of this machine, or a cluster")
    if cluster is not None:
        data = _on_cluster(protocol, cluster, path, study)
    elif stream is None:
        data = loader.one(path, study)
    elif loader.streamed is None or not protocol.streams:
        raise BadInput(
            f"{protocol.name} needs all records in memory at once, so it cannot use --stream",
            f"leave --stream out; these protocols read records from a disk: {_that_stream()}",
        )
    else:
        data = loader.streamed(path, study, stream)
    loader.check(data, study, str(data_at(path)), me)
    return data


def _on_cluster(protocol: Protocol, cluster: "Cluster", path: Path | str, study: Study) -> Any:
    from masquerade_core.data.dask_records import DaskRecords, count_cells

    if protocol.records.grid_of is not None:
        return count_cells(cluster, path, study, protocol.records.grid_of(study))
    if not protocol.streams:
        raise BadInput(
            f"{protocol.name} needs all records in one process's memory, so it cannot use --dask",
            f"leave --dask out; these protocols take sums from a cluster: {_that_stream()}",
        )
    return DaskRecords.read(cluster, path, study, protocol.records.coding)


def _that_stream() -> str:
    return ", ".join(name for name, p in sorted((PROTOCOLS | MEASUREMENTS).items()) if p.streams)


def sizes_of(study: Study, data: object) -> tuple[int, ...]:
    """Return the exact numbers of records that a role adds to opened sums: those learned from, and those held back.

    Cells have none: the number of those is under noise.
    """
    if not isinstance(data, Records):
        return ()
    return tuple(side.n for side in split(study, data) if side is not None)


def tell_the_owner(data: object, observe: Observer) -> None:
    """Say what is unusual about the records. Only this process says it: nobody else learns of it."""
    if not isinstance(data, Records):
        return
    if data.repaired:
        observe("repaired", clamped=data.repaired.clamped, filled=data.repaired.filled)
    if data.classes is None and np.count_nonzero(data.total(_Labels())) == 1:
        observe("one_class")


def tell_what_was_got(summary: Mapping[str, Any], account: Account, observe: Observer) -> None:
    """Say at the end what the run gave, and what is left: records, measured error, budget.

    Parameters
    ----------
    summary : mapping
        The content of ``result.json``.
    account : Account
        The budget, after the run.
    observe : Observer
    """
    evaluation, published = summary.get("evaluation"), summary.get("published") or {}
    if (records := published.get("records")) is not None:
        observe("learned", total=f"{round(records):,}")
    if evaluation is not None:
        error = evaluation["error"]
        value = "lost in the noise" if error["value"] is None else f"{error['value']:.1%}"
        observe("measured", error=value, low=f"{error['low']:.1%}", high=f"{error['high']:.1%}")
    spent, left = f"{account.spent:.4g}", f"{account.left:.4g}"
    observe("paid", epsilon=spent, population=account.population, left=left)


def says_the_same(model: Model, own: Records) -> bool:
    """Return whether the model gives nearly all of a party's own records the same answer, of two or several.

    The run is over, so a disk or a cluster that fails now is no error.
    """
    if own.classes == 0:
        return False
    with suppress(MasqueradeError):
        return is_one_answer(own.total(_Answers(model, own.classes)))
    return False


@dataclass(frozen=True)
class _Labels:
    """How many records have the label -1, and how many +1."""

    def __call__(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        del X
        return np.array([(y < 0).sum(), (y > 0).sum()], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Answers:
    """How many records there are of each label, by row, and with each answer of a model, by column."""

    model: Model
    classes: int | None

    def __call__(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        labels, answers = (self._number(v) for v in (y, answers_of(self.model, X, self.classes)))
        size = self.classes or 2
        counts = np.bincount(labels * size + answers, minlength=size**2).reshape(size, size)
        return counts.astype(np.int64)

    def _number(self, labels: NDArray[np.float64]) -> NDArray[np.int64]:
        return (labels > 0).astype(np.int64) if self.classes is None else labels.astype(np.int64)
