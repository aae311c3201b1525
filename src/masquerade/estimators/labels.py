"""Labels in scikit-learn's forms, as a study and a data set hold them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from masquerade.estimators.records import text_of
from masquerade.estimators.warned import InvalidInput
from masquerade_core.study import Feature, Label

__all__ = ["label_of", "number_of", "targets_of"]

_Array = NDArray[Any]
_TWO = 2


def targets_of(y: Any, protocol: str, *, several: bool) -> tuple[_Array, NDArray[np.float64]]:
    """Return the classes, and each record's label as a data set holds it."""
    check_classification_targets(y)
    classes, positions = np.unique(y, return_inverse=True)
    kind = type_of_target(y, input_name="y")
    if len(classes) < _TWO:
        raise InvalidInput("the labels have 1 class, but at least two classes are needed")
    if len(classes) == _TWO:
        return classes, np.where(positions == 1, 1.0, -1.0)
    if not several:
        raise InvalidInput(
            f"Only binary classification is supported. The type of the target is {kind}. {protocol} tells one value "
            "from all others"
        )
    return classes, positions.astype(np.float64)


def label_of(name: str, classes: _Array, features: tuple[Feature, ...]) -> Label:
    """Return the study's label. Its name gets an underscore where a column has the same."""
    name = _free(name, features)
    texts = tuple(text_of(value) for value in classes)
    if len(texts) == _TWO:
        return Label(name=name, positive=texts[1])
    return Label(name=name, classes=texts)


def number_of(
    y: Any, name: str, bounds: Any, features: tuple[Feature, ...]
) -> tuple[NDArray[np.float64], Label, tuple[str, ...]]:
    """Return labels that are numbers as a data set holds them, the study's label, and what was read off the records.

    Parameters
    ----------
    y : array-like
    name : str
    bounds : pair of float or None
        The label's public bounds.
    features : tuple of Feature

    Raises
    ------
    InvalidInput
        The labels are no numbers, or the bounds no two numbers, the smaller first.
    """
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput('the labels are no numbers, but family="linear" fits numbers') from None
    leaks = () if bounds is not None else (f"the bounds of the label {name!r}",)
    try:
        low, high = map(float, (values.min(), values.max()) if bounds is None else bounds)
        label = Label(name=_free(name, features), min=low, max=high)
    except (TypeError, ValueError, ValidationError):
        raise InvalidInput("label_bounds is not a pair (low, high) of numbers, the smaller first") from None
    return 2 * (np.clip(values, low, high) - low) / (high - low) - 1, label, leaks


def _free(name: str, features: tuple[Feature, ...]) -> str:
    taken = {feature.name for feature in features}
    while name in taken:
        name += "_"
    return name
