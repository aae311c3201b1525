"""Every estimator passes every check of scikit-learn's own. No exception is needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from masquerade.estimators import PrivacyLeakWarning, SearchCostWarning
from tests.unit.masquerade.test_estimators_checks import ESTIMATORS


@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
@pytest.mark.filterwarnings("ignore")
def test_estimator_passes_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", SearchCostWarning)
        check(estimator)
