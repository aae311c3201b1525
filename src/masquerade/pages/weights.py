"""The model in the columns' own units: how a value moves a record's score, and how much of it may be noise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from masquerade_core.coefficients import Coefficient, Coefficients
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import INTERCEPT, Feature
from masquerade_protocols import WeightNoise

__all__ = ["Forest", "ForestRow", "Learned", "Weight", "forest", "learned"]

_LARGEST = 12


@dataclass(frozen=True)
class Weight:
    """One weight of the model.

    Parameters
    ----------
    coordinate : str
        Its name, as in ``model.json``.
    released : float
        The weight itself, as ``model.json`` has it.
    range : str
        What the column may hold.
    pull : float
        How far the score moves from the least to the largest value of the column, or where a level or a bin applies.
    noise : float or None
        The standard deviation of the noise on ``pull``.
    per_unit : float or None
        How far the score moves for one unit of the column; None for a level, a bin or the constant.
    per_unit_noise : float or None
    """

    coordinate: str
    released: float
    range: str
    pull: float
    noise: float | None
    per_unit: float | None
    per_unit_noise: float | None

    @property
    def drowned(self) -> bool:
        """Whether the weight is no larger than two standard deviations of its noise."""
        return self.noise is not None and abs(self.pull) <= 2 * self.noise


@dataclass(frozen=True)
class Learned:
    """The weights of one class, or of the one positive label.

    Parameters
    ----------
    label : str
        What a large score speaks for.
    weights : tuple of Weight
        All of them, in the order of the columns.
    reach : float
        The largest pull, with two standard deviations of noise: half the width of the picture.
    offset : float or None
        What is added to each score; None where nothing is.
    """

    label: str
    weights: tuple[Weight, ...]
    reach: float
    offset: float | None = None

    @property
    def largest(self) -> tuple[Weight, ...]:
        """Those that move the score most, the largest first; the constant is not among them."""
        named = [weight for weight in self.weights if weight.coordinate != INTERCEPT]
        return tuple(sorted(named, key=lambda weight: -abs(weight.pull))[:_LARGEST])

    def at(self, value: float) -> str:
        """Return where a pull stands in the picture, in percent of its width."""
        return f"{50 + 48 * min(1.0, max(-1.0, value / self.reach)):.2f}%"

    def width(self, value: float) -> str:
        """Return how wide a pull's bar is in the picture, in percent of its width."""
        return f"{48 * min(1.0, abs(value) / self.reach):.2f}%"


def learned(model: SavedModel, noise: WeightNoise | None) -> list[Learned]:
    """Return the model's weights, for each class or for the positive label.

    Parameters
    ----------
    model : SavedModel
    noise : WeightNoise or None
        What is known of the noise on each weight.
    """
    d, labels = model.encoder.d, model.label.classes or (str(model.label.positive),)
    sd = None if noise is None else noise.sd
    found = []
    for i, label in enumerate(labels):
        mine = slice(i * d, (i + 1) * d)
        sds = sd[mine] if isinstance(sd, tuple) else (sd,) * d
        weights = tuple(_weights(model.encoder.features, model.weights[mine], sds, model.encoder.names))
        reach = max((abs(w.pull) + 2 * (w.noise or 0.0) for w in weights if w.coordinate != INTERCEPT), default=1.0)
        found.append(Learned(label, weights, reach or 1.0, model.offset[i] if model.offset else None))
    return found


def _weights(
    features: Sequence[Feature], weights: Sequence[float], sds: Sequence[float | None], names: Sequence[str]
) -> Iterator[Weight]:
    columns = [(feature, name) for feature in features for name in feature.coordinates]
    told = list(zip(weights, sds, strict=True))
    for (feature, name), (released, sd) in zip(columns, told, strict=False):
        ranged = feature.levels is None and feature.edges is None
        # From its least to its largest value a number goes from -1 to 1; a level or a bin goes from 0 to 1.
        width = 2.0 if ranged else 1.0
        unit = (
            width / (feature.max - feature.min)
            if ranged and feature.max is not None and feature.min is not None
            else None
        )
        yield Weight(
            coordinate=name,
            released=released,
            range=feature.range,
            pull=width * released,
            noise=None if sd is None else width * sd,
            per_unit=None if unit is None else unit * released,
            per_unit_noise=None if unit is None or sd is None else unit * sd,
        )
    if len(names) > len(columns):
        yield Weight(INTERCEPT, weights[-1], "always 1", weights[-1], sds[-1], None, None)


# --- Coefficients with intervals ----------------------------------------------------

_STEPS = 10


@dataclass(frozen=True)
class ForestRow:
    """One coefficient in a forest plot.

    Parameters
    ----------
    row : Coefficient
    step : float
        How many units of the column the picture shows the effect of: a tenth of its range; 1 for a level or a bin.
    about : str
        The step in words.
    """

    row: Coefficient
    step: float
    about: str

    @property
    def drawn(self) -> tuple[float, float, float]:
        """The lower limit, the estimate and the upper limit of the effect that is drawn."""
        return tuple(self.step * float(x or 0.0) for x in (self.row.low, self.row.estimate, self.row.high))  # type: ignore[return-value]  # three


@dataclass(frozen=True)
class Forest:
    """A forest plot: the intervals of all coefficients but the intercept, under each other.

    Parameters
    ----------
    found : Coefficients
    rows : tuple of ForestRow
    reach : float
        Half the width of the picture, whose middle is 0.
    """

    found: Coefficients
    rows: tuple[ForestRow, ...]
    reach: float

    def at(self, value: float) -> str:
        """Return where an effect stands in the picture, in percent of its width."""
        return f"{50 + 48 * value / self.reach:.2f}%"


def forest(model: SavedModel) -> Forest | None:
    """Return the forest plot of a model's coefficients; None where it has none."""
    if model.coefficients is None:
        return None
    steps = [step for f in model.encoder.features for step in _steps_of(f)]
    rows = tuple(ForestRow(row, *step) for row, step in zip(model.coefficients.rows[1:], steps, strict=True))
    reach = max((abs(x) for row in rows if row.row.told for x in row.drawn), default=0.0)
    return Forest(model.coefficients, rows, reach or 1.0)


def _steps_of(f: Feature) -> list[tuple[float, str]]:
    if f.reference:
        return [(1.0, f"against {f.reference}")] * len(f.covariates)
    step = (float(f.max or 0) - float(f.min or 0)) / _STEPS
    return [(step, f"for {step:g} more")]
