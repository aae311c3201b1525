"""``dp-glm`` as an estimator: regression coefficients with intervals, from a simulated run."""

from dataclasses import dataclass
from io import StringIO
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from masquerade.coefficients_view import coefficients_report
from masquerade.console import literal_console
from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.labels import number_of
from masquerade.estimators.records import Records
from masquerade.estimators.warned import InvalidInput
from masquerade_core.coefficients import Coefficients
from masquerade_core.study import Feature, Label

__all__ = ["DPGLM"]

_Array = NDArray[Any]
_WIDTH = 120


@dataclass(eq=False, repr=False, kw_only=True)
class DPGLM(SimulatedClassifier):
    """``dp-glm``: the coefficients of a logistic or a linear regression, each with an interval that counts the noise.

    ``loss``, ``regularization`` and ``intercept`` are not used: the likelihood is that of the family, nothing is added
    to it, and there is always an intercept.

    Parameters
    ----------
    family : {"logistic", "linear"}
        Whether the label has two values, or is a number. With a number, ``predict`` returns numbers and ``score`` is
        the coefficient of determination.
    label_bounds : pair of float, optional
        For a linear family: the public bounds of the label. Read off the records where left out, with a
        :class:`~masquerade.estimators.PrivacyLeakWarning`.
    """

    family: str = "logistic"
    label_bounds: Any = None

    _protocol: ClassVar[str] = "dp-glm"
    _section: ClassVar[tuple[str, ...]] = ("family",)

    @property
    def coefficients_(self) -> Coefficients:
        """All that the run releases of them: with reasons, odds ratios and the covariance matrix."""
        check_is_fitted(self)
        found = self.simulation_.model.coefficients
        if found is None:
            raise InvalidInput("the run released no coefficients")
        return found

    @property
    def names_(self) -> list[str]:
        """The names of the coefficients, the intercept first: the order of the other properties."""
        return [row.name for row in self.coefficients_.rows]

    @property
    def params(self) -> _Array:
        """The estimates, in the columns' own units; NaN where a coefficient cannot be told."""
        return self._numbers("estimate")

    @property
    def bse(self) -> _Array:
        """Their standard errors, the noise counted."""
        return self._numbers("se")

    @property
    def coef_names_(self) -> list[str]:
        """The names of ``coef_``, in treatment coding: the first level of a column has no coefficient."""
        return self.names_[1:]

    def _in_units(self) -> tuple[_Array, _Array]:
        return self.params[None, 1:], self.params[:1]

    def conf_int(self) -> _Array:
        """Return the limits of the 95 % intervals, shape (p + 1, 2)."""
        return np.column_stack((self._numbers("low"), self._numbers("high")))

    def summary(self) -> str:
        """Return the table of the coefficients, as a terminal shows it after a run."""
        file = StringIO()
        literal_console(file=file, width=_WIDTH, no_color=True).print(*coefficients_report(self.coefficients_))
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def _numbers(self, what: str) -> _Array:
        values = [getattr(row, what) for row in self.coefficients_.rows]
        return np.array([np.nan if value is None else value for value in values])

    def _targets(
        self, records: Records, name: str, features: tuple[Feature, ...]
    ) -> tuple[_Array, _Array, Label, tuple[str, ...]]:
        if self.family != "linear":
            return super()._targets(records, name, features)
        y, label, leaks = number_of(records.y, name, self.label_bounds, features)
        return np.empty(0), y, label, leaks

    def predict(self, X: Any) -> _Array:
        """Return each record's class; with a linear family, the number that is expected."""
        if self.family != "linear":
            return super().predict(X)
        u = self.decision_function(X)
        low, high = float(self.study_.label.min or 0), float(self.study_.label.max or 0)
        numbers: _Array = low + (u + 1) / 2 * (high - low)
        return numbers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right answers; with a linear family, the coefficient of determination."""
        if self.family != "linear":
            return float(super().score(X, y, sample_weight))
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.family == "linear":
            tags.estimator_type = "regressor"
        return tags
