"""The order in which an exported model computes the coordinates of a record.

The encoder's coordinates stand in the order of the study's columns. An exported model works on blocks instead: the
columns of bounded numbers come first, then the columns with bins, then those with levels, then the constant.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.files import MISSING_WORDS
from masquerade_core.data.schema import MISSING_LEVEL, Encoder
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature

__all__ = ["Layout", "aliases", "answer_names", "weight_rows"]


@dataclass(frozen=True)
class Layout:
    """The columns of an encoder by kind.

    Parameters
    ----------
    encoder : Encoder
    """

    encoder: Encoder

    def places(self, kind: str) -> list[int]:
        """Return the places, from 0, of the columns of one kind: "numbers", "bins" or "levels"."""
        return [i for i, f in enumerate(self.encoder.features) if _kind(f) == kind]

    def features(self, kind: str) -> list[Feature]:
        """Return the columns of one kind."""
        return [self.encoder.features[i] for i in self.places(kind)]

    @property
    def bounded(self) -> list[int]:
        """The places of the columns that have a smallest and a largest number."""
        return [i for i, f in enumerate(self.encoder.features) if f.min is not None]

    @property
    def refuses(self) -> bool:
        """Whether the study refuses cells that do not fit."""
        return self.encoder.out_of_bounds == "refuse"

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """For each coordinate of the exported model, its place in the encoder's order."""
        starts = list(accumulate((len(self.encoder.of(f)) for f in self.encoder.features), initial=0))
        order: list[int] = []
        for kind in ("numbers", "bins", "levels"):
            for i in self.places(kind):
                order += range(starts[i], starts[i + 1])
        if self.encoder.intercept:
            order.append(starts[-1])
        return np.array(order, dtype=np.intp)


def _kind(f: Feature) -> str:
    if f.levels is not None:
        return "levels"
    return "numbers" if f.edges is None else "bins"


def aliases(f: Feature) -> dict[str, int]:
    """Return texts that are no levels of a column but count as one, each with the number of that level.

    The encoder knows a missing cell in any mixture of capitals. An exported model has a list: small letters, capitals,
    a capital first, and "NaN".
    """
    levels = f.levels or ()
    found = {}
    if f.missing is not None:
        words = {form for w in MISSING_WORDS for form in (w, w.upper(), w.capitalize())} | {"NaN"}
        found = dict.fromkeys(sorted(words), levels.index(str(f.missing)))
    if MISSING_LEVEL in levels:
        found[""] = levels.index(MISSING_LEVEL)
    return {text: place for text, place in found.items() if text not in levels}


def weight_rows(model: SavedModel) -> NDArray[np.float64]:
    """Return the weights in the encoder's order, a row for each class; one row where the classes have no names."""
    return np.array(model.weights, dtype=np.float64).reshape(len(model.label.classes or ("",)), -1)


def answer_names(model: SavedModel) -> tuple[str, ...]:
    """Return the words for the answers; without named classes, that of the negative one first, as libraries expect."""
    label = model.label
    return label.classes or (f"not {label.positive}", str(label.positive))
