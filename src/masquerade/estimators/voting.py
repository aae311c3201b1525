"""``vote`` and ``soft`` as estimators: the parties' classifiers vote on public records, from which a model is learned.

The public records have no labels. Where nobody gives any, they are drawn uniformly from the public bounds and levels,
which tells nothing of anybody's records.
"""

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.dealing import rng_of
from masquerade.estimators.records import read_records
from masquerade.estimators.studies import AUXILIARY_FILE, Public
from masquerade.estimators.warned import InvalidInput
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.files import Column, cell_text
from masquerade_core.data.schema import Encoder
from masquerade_core.learning.classifiers import Linear, classifier_of
from masquerade_core.rng import Rng
from masquerade_core.study import AuxiliaryFile, Feature

__all__ = ["SoftEnsemble", "VoteEnsemble"]


@dataclass(eq=False, repr=False, kw_only=True)
class SoftEnsemble(SimulatedClassifier):
    """``soft``: a model is learned from the fractions of the parties' votes (Hamm, Cao and Belkin 2016).

    Parameters
    ----------
    auxiliary : array-like or data frame, optional
        Public records without labels, with the columns of ``X``. Left out, ``n_auxiliary`` records are drawn uniformly
        from the bounds and levels.
    n_auxiliary : int
        How many are drawn.
    local_classifier : estimator or str, optional
        What each party votes with: an object with ``fit`` and ``predict``, or a name such as "tree". Left out, a linear
        classifier with the study's loss.
    private_auxiliary : bool, optional
        Whether each auxiliary record is to be protected as well; for ``calibration="paper"`` alone.
    """

    auxiliary: Any = None
    n_auxiliary: int = 500
    local_classifier: Any = None
    private_auxiliary: bool | None = None

    _protocol: ClassVar[str] = "soft"
    _several: ClassVar[bool] = True
    _section: ClassVar[tuple[str, ...]] = ("private_auxiliary",)

    def _public(self, features: tuple[Feature, ...], seed: int | None) -> Public:
        if self.auxiliary is None:
            columns: Mapping[str, Column] = _drawn(features, _count(self.n_auxiliary), rng_of(seed, "auxiliary"))
        else:
            columns = read_records(self, self.auxiliary, fitting=False).encodable(features)
        text = _csv_text(columns)
        X = Encoder(features, self.intercept, "clamp").encode(columns)
        digest = hashlib.sha256(text.encode()).digest()
        named = AuxiliaryFile(file=AUXILIARY_FILE, sha256=digest.hex(), records=len(X))
        return Public(named, text, Auxiliary(X, digest))

    def _own_classifiers(self, names: tuple[str, ...]) -> Mapping[str, Any] | None:
        if self.local_classifier is None:
            return None
        default = Linear(self.loss, self.regularization or 1.0, None)  # never used, since a classifier is given
        return dict.fromkeys(names, classifier_of(self.local_classifier, default))


@dataclass(eq=False, repr=False, kw_only=True)
class VoteEnsemble(SoftEnsemble):
    """``vote``: a model is learned from the class that most parties vote for (Hamm, Cao and Belkin 2016).

    Parameters
    ----------
    auxiliary, n_auxiliary, local_classifier, private_auxiliary
        As in :class:`SoftEnsemble`.
    ties : {"first"}, optional
        Who wins where several classes have as many votes.
    """

    ties: str | None = None

    _protocol: ClassVar[str] = "vote"
    _section: ClassVar[tuple[str, ...]] = ("private_auxiliary", "ties")


def _count(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidInput(f"n_auxiliary is {n!r}, but must be a whole number of at least 1")
    return int(n)


def _drawn(features: tuple[Feature, ...], n: int, rng: Rng) -> dict[str, Column]:
    """Draw n records uniformly from the public bounds and levels."""
    columns: dict[str, Column] = {}
    for feature in features:
        part = (np.frombuffer(rng.bytes(8 * n), dtype="<u8") >> np.uint64(11)) * 2.0**-53
        if feature.levels is not None:
            columns[feature.name] = [feature.levels[int(u * len(feature.levels))] for u in part]
        else:
            low, high = float(feature.min or 0), float(feature.max or 0)
            columns[feature.name] = np.clip(low + part * (high - low), low, high)
    return columns


def _csv_text(columns: Mapping[str, Column]) -> str:
    """Return the file that a study of these public records names; its numbers read back exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = [[cell_text(cell) for cell in column] for column in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()
