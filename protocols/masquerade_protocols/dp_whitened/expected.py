"""The forecast of a ``dp-whitened`` run, from public numbers and before anybody joins."""

from dataclasses import replace

from masquerade_core.privacy.expectation import Expectation, expected_of_sums
from masquerade_core.study import Study

__all__ = ["expected"]

_LITTLE, _MANY = 6.0, 500
"""Below this s, and from so many coordinates on, ``dp-gd`` mostly erred less."""


def expected(study: Study) -> Expectation:
    """Return what sums over all records promise; with many columns and little to go by, what mostly does better.

    ``docs/expectation.md`` has what was measured, with two classes alone.
    """
    found = expected_of_sums(study)
    if found.s is None or found.s >= _LITTLE or study.d < _MANY or study.outputs > 1:
        return found
    better = (
        f"With s below {_LITTLE:g} and {_MANY} coordinates or more, dp-gd mostly erred less where both were measured: "
        "choose it, or fewer features."
    )
    return replace(found, text=f"{found.text} {better}")
