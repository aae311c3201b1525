"""The few places where scikit-learn 1.5 has other names than later releases."""

from typing import Any

import sklearn.utils.validation as checks

__all__ = ["checked_array", "note_columns"]


def checked_array(estimator: Any, X: Any, y: Any = None, *, reset: bool, **rules: Any) -> Any:
    """Check an array as scikit-learn does, and note or compare its number of columns; returns it, and ``y`` if given.

    Parameters
    ----------
    estimator : estimator
    X, y : array-like
    reset : bool
        Whether to note the columns, as ``fit`` does; otherwise they are compared with those of ``fit``.
    **rules
        Of scikit-learn's ``check_array``.
    """
    given = (X,) if y is None else (X, y)
    if hasattr(checks, "validate_data"):
        return checks.validate_data(estimator, *given, reset=reset, **rules)
    return estimator._validate_data(*given, reset=reset, **rules)  # noqa: SLF001  its name before 1.6


def note_columns(estimator: Any, frame: Any, *, reset: bool) -> None:
    """Note or compare the names and the number of a frame's columns, and look at nothing else."""
    if hasattr(checks, "validate_data"):
        checks.validate_data(estimator, frame, reset=reset, skip_check_array=True)
    else:
        estimator._validate_data(frame, reset=reset, cast_to_ndarray=False)  # noqa: SLF001  its name before 1.6
