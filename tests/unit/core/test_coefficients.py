"""Released coefficients, and what is read back of them."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from masquerade_core.coefficients import Coefficient, Coefficients
from masquerade_core.data.schema import Covariates
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Feature

_INTERCEPT = Coefficient("(intercept)", -1.0, 0.5, -1.98, -0.02, 0.25)
_AGE = Coefficient("age", 0.5, 0.25, 0.01, 0.99, 0.125)
_SEX = Coefficient("sex=m", reason="the column is nearly constant")
_ALL = Coefficients(
    family="logistic",
    records=3000,
    mu=0.2,
    strength=300.0,
    rows=(_INTERCEPT, _AGE, _SEX),
    at_means=replace(_INTERCEPT, estimate=-0.5),
    means=(44.5, 0.001),
    covariance=((0.25, 0.01), (0.01, 0.0625)),
    weighted_down=0.25,
    beyond=None,
    last_step=0.03,
    weak=1,
)
_COVARIATES = ("age", "sex=m")


def test_what_is_read_back_is_what_was_written() -> None:
    assert Coefficients.from_json(json.loads(json.dumps(_ALL.to_json())), _COVARIATES) == _ALL


def test_a_coefficient_that_cannot_be_told_has_no_number() -> None:
    assert (_SEX.told, _SEX.odds, _SEX.odds_low) == (False, None, None)
    assert _SEX.to_json() == {"name": "sex=m", "told": False, "reason": "the column is nearly constant"}


def test_an_odds_ratio_that_no_float_holds_is_infinite() -> None:
    assert (_AGE.odds, replace(_AGE, high=800.0).odds_high) == (np.exp(0.5), np.inf)


@pytest.mark.parametrize(
    "changed",
    [
        {"covariance": [[0.25]]},
        {"level": 0.9},
        {"family": "probit"},
        {"records": 1.5},
        {"means": [1.0]},
        {"rows": [row.to_json() for row in (_AGE, _INTERCEPT, _SEX)]},
        {"at_means": {**_AGE.to_json(), "low": 0.6}},
        {"at_means": {**_AGE.to_json(), "se": float("nan")}},
        {"at_means": {"name": "(intercept)", "told": False, "reason": ""}},
    ],
    ids=str,
)
def test_what_this_program_does_not_write_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"the model file has|the coefficients in the model file"):
        Coefficients.from_json({**_ALL.to_json(), **changed}, _COVARIATES)


def test_the_first_level_and_the_first_bin_have_no_column() -> None:
    assert Feature(name="age", min=0, max=120).covariates == ("age",)
    assert Feature(name="sex", levels=("f", "m")).covariates == ("sex=m",)
    assert Feature(name="dose", edges=(1.0, 2.0)).covariates == ("1<=dose<2", "dose>=2")


@pytest.mark.parametrize("outside", [1.01, -2.0, np.nan])
def test_a_covariate_outside_its_bounds_is_refused_and_a_long_record_is_not(outside: float) -> None:
    X, y = np.ones((2, 3)), np.array([-1.0, 1.0])
    assert Covariates(X.copy(), y).n == 2
    X[1, 2] = outside
    with pytest.raises(LocalProtocolError, match="outside"):
        Covariates(X, y)
    with pytest.raises(LocalProtocolError, match="outside"):
        Covariates(np.ones((2, 3)), np.array([1.0, outside]))
