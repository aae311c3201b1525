"""Labels in scikit-learn's forms, as a study and a data set hold them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from masquerade.estimators.records import text_of
from masquerade.estimators.warned import InvalidInput
from masquerade_core.study import Feature, Label

__all__ = ["label_of", "targets_of"]

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
    taken = {feature.name for feature in features}
    while name in taken:
        name += "_"
    texts = tuple(text_of(value) for value in classes)
    if len(texts) == _TWO:
        return Label(name=name, positive=texts[1])
    return Label(name=name, classes=texts)
