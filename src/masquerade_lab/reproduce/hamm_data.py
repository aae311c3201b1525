"""Records for Hamm, Cao and Belkin's figures 3 and 4: KDD Cup 1999, malicious URLs, and a stand-in for the latter."""

import gzip
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.datasets import load_svmlight_file

from masquerade_core.errors import BadInput
from masquerade_core.rng import SimulationRng
from masquerade_lab.encoding import one_hot
from masquerade_lab.originals import Table, kddcup
from masquerade_lab.reproduce.hamm_binary_runs import BinaryRecords

__all__ = ["connections", "stand_in", "urls"]

_SOURCE = "http://www.sysnet.ucsd.edu/projects/url/"
_FEATURES = 3_231_961  # of the malicious URLs
_OPEN: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}

_SLOTS, _LEVELS = 20, 50  # the stand-in's: a record has one word of each slot
_TILT = 1.0  # the largest |log| of how much more often a label has a word
_MALICIOUS = 1 / 3
_AT_ONCE = 1 << 14

_Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def connections(folder: Path) -> BinaryRecords:
    """Read KDD Cup 1999: +1 is an attack. Numbers, words and their bounds are taken from both files, which are public.

    Of 494,021 and 311,029 records, 145,586 and 77,291 are different.
    """
    train, test = kddcup(folder)
    index: dict[Any, int] = {}
    which = np.array([index.setdefault(row, len(index)) for row in (*train.rows, *test.rows)])
    records = one_hot(Table(train.columns, list(index)), "label", lambda cell: cell != "normal")
    n = len(train.rows)
    tested, times = np.unique(which[n:], return_counts=True)
    share = times / times.sum()
    return BinaryRecords(records.X, records.y, which[:n], records.X[tested], records.y[tested], share)


# --- Malicious URLs -----------------------------------------------------------------------


@lru_cache(maxsize=1)
def urls(folder: Path, d: int, days: tuple[int, int]) -> BinaryRecords:
    """Read the malicious URLs of so many days for training and so many later days for testing: +1 is malicious.

    Parameters
    ----------
    folder : path
        It holds Day0.svm, Day1.svm, ..., packed as .xz or .gz or not.
    d : int
        How many principal components are kept.
    days : (int, int)

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    read = [_day(folder, day) for day in range(sum(days))]
    parts = read[: days[0]], read[days[0] :]
    (X, y), (X_test, y_test) = (
        (sparse.vstack([rows for rows, _ in part], format="csr"), np.concatenate([labels for _, labels in part]))
        for part in parts
    )
    return _projected(X, y, X_test, y_test, d)


def _day(folder: Path, day: int) -> tuple[Any, _Array]:
    hint = (
        f"get the data from {_SOURCE}; the directory must hold Day0.svm to Day19.svm, unpacked or packed as .gz or .xz"
    )
    name = f"Day{day}.svm"
    found = [path for ending in ("", *_OPEN) if (path := folder / f"{name}{ending}").is_file()]
    if not found:
        raise BadInput(f"{folder} holds no file {name}, which is a part of the malicious URLs", hint)
    try:
        with _OPEN.get(found[0].suffix, open)(found[0], "rb") as file:
            X, y = load_svmlight_file(file, n_features=_FEATURES, zero_based=False)
    except (ValueError, OSError, EOFError, lzma.LZMAError) as error:
        raise BadInput(f"{found[0]} is not in SVMlight's format", hint) from error
    if not (np.abs(y) == 1).all():
        raise BadInput(f"{found[0]} has labels other than -1 and +1", hint)
    return X, y


@lru_cache(maxsize=1)
def stand_in(d: int, records: tuple[int, int]) -> BinaryRecords:
    """Invent records that are as many as the URLs, and as sparse; nothing else about them is a URL's.

    A third is malicious. Each of 20 slots holds one of 50 words; a word is as frequent as 1 over its rank, times a
    factor between 1/e and e that depends on the label. The factors and the words come from fixed seeds.

    Parameters
    ----------
    d : int
        How many principal components are kept.
    records : (int, int)
        How many there are for training and for testing.
    """
    (X, y), (X_test, y_test) = (_invented(name, n) for name, n in zip(("training", "test"), records, strict=True))
    return _projected(X, y, X_test, y_test, d)


def _invented(part: str, n: int) -> tuple[Any, _Array]:
    law, rng = SimulationRng("hamm-2016 stand-in", "law"), SimulationRng("hamm-2016 stand-in", part)
    y = np.where(_uniform(rng, n) < _MALICIOUS, 1.0, -1.0)
    words = np.empty((n, _SLOTS), dtype=np.int64)
    for slot in range(_SLOTS):
        tilt, drawn = _TILT * (2 * _uniform(law, _LEVELS) - 1), _uniform(rng, n)
        for label in (-1.0, 1.0):
            often = np.exp(label * tilt) / np.arange(1, _LEVELS + 1)
            ends = np.cumsum(often)[:-1] / often.sum()
            words[y == label, slot] = slot * _LEVELS + np.searchsorted(ends, drawn[y == label], side="right")
    starts = np.arange(0, words.size + 1, _SLOTS)
    ones = np.full(words.size, 1 / np.sqrt(_SLOTS))
    return sparse.csr_matrix((ones, words.ravel(), starts), shape=(n, _SLOTS * _LEVELS)), y


def _uniform(rng: SimulationRng, n: int) -> _Array:
    """Return numbers in [0, 1), multiples of 2^-32."""
    parts = (rng.bytes(4 * min(_AT_ONCE, n - done)) for done in range(0, n, _AT_ONCE))
    return np.concatenate([np.frombuffer(part, dtype="<u4") for part in parts]) / 2.0**32


def _projected(X: Any, y: _Array, X_test: Any, y_test: _Array, d: int) -> BinaryRecords:
    """Project both parts on the training part's d leading right singular vectors, not centred, and clip the rows."""
    used = np.flatnonzero(X.getnnz(axis=0))
    X, X_test = X[:, used], X_test[:, used]
    _, _, leading = svds(X, k=d, v0=np.ones(min(X.shape)))
    train, test = (Z / np.maximum(1.0, np.linalg.norm(Z, axis=1))[:, None] for Z in (X @ leading.T, X_test @ leading.T))
    n, m = len(y), len(y_test)
    return BinaryRecords(train, y, np.arange(n), test, y_test, np.full(m, 1 / m))
