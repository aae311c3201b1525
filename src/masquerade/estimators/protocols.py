"""The protocols that learn a classifier, as estimators. A parameter that is None has the value of a new study."""

from dataclasses import dataclass
from typing import ClassVar

from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.studies import AgainstNoise, Penalty, beside_noise

__all__ = [
    "PSGD",
    "DPGradientDescent",
    "DPWhitened",
    "DecayingBudget",
    "InputNoiseSGD",
    "LocalAggregation",
    "NoisyGradient",
    "WeightedDP",
]


@dataclass(eq=False, repr=False, kw_only=True)
class DPWhitened(SimulatedClassifier):
    """``dp-whitened``, the default protocol of a new study: noisy moments of all records, then noisy Newton steps.

    It learns several classes as well. The parameters are those of every estimator here, listed in
    :class:`~masquerade.estimators.SimulatedClassifier`.
    """

    _protocol: ClassVar[str] = "dp-whitened"
    _several: ClassVar[bool] = True


@dataclass(eq=False, repr=False, kw_only=True)
class DPGradientDescent(SimulatedClassifier):
    """``dp-gd``: gradient descent on noisy sums of clipped gradients over all records.

    Parameters
    ----------
    rounds : int, optional
        How many noisy sums are opened. None follows from public numbers, like the next two.
    clip : float, optional
        The longest gradient of a record, at most 1.
    learning_rate : float, optional
        The length of a step. With a number, steps have no momentum.
    """

    rounds: int | None = None
    clip: float | None = None
    learning_rate: float | None = None

    _protocol: ClassVar[str] = "dp-gd"
    _section: ClassVar[tuple[str, ...]] = ("rounds", "clip", "learning_rate")


@dataclass(eq=False, repr=False, kw_only=True)
class LocalAggregation(SimulatedClassifier):
    """``local-aggregation``: the mean of the parties' own classifiers, with noise (Pathak, Rane and Raj 2010).

    Left out, ``regularization`` is 3 sqrt(d)/(N epsilon), with d coordinates and N records at least, as all parties
    together have.

    Parameters
    ----------
    noise : {"laplace", "l2"}, optional
        The distribution of the noise; for ``calibration="paper"`` alone.
    scale : {"selected", "floor"}, optional
        Whether the noise is sized for the party with the fewest records, or for ``min_records``. Proven noise only.
    weights : {"uniform", "sizes"}, optional
        Whether a classifier counts once, or as often as its party has records. Proven noise only.
    key_bits : int
        The length of the encryption keys. A small one, such as 512, makes a fit faster where keys are used at all: with
        ``calibration="paper"`` or ``scale="selected"``. Between machines 2048 and 3072 are allowed.
    """

    noise: str | None = None
    scale: str | None = None
    weights: str | None = None
    key_bits: int = 2048

    _protocol: ClassVar[str] = "local-aggregation"
    _penalty: ClassVar[Penalty | None] = AgainstNoise(3.0)
    _section: ClassVar[tuple[str, ...]] = ("noise", "scale", "weights")


@dataclass(eq=False, repr=False, kw_only=True)
class _InRounds(SimulatedClassifier):
    """The common base of PSGD and of the two protocols that its paper rejects."""

    rounds: int | None = None
    a: float | None = None
    t0: float | None = None

    _penalty: ClassVar[Penalty | None] = staticmethod(beside_noise)
    _section: ClassVar[tuple[str, ...]] = ("rounds", "a", "t0")


@dataclass(eq=False, repr=False, kw_only=True)
class PSGD(_InRounds):
    """``psgd``: rounds of noisy gradients over all records (Rajkumar and Agarwal 2012).

    Left out, ``regularization`` is 1e-4, as for ``dp-gd``: the noise does not depend on it.

    Parameters
    ----------
    rounds : int, optional
        How many noisy sums of gradients are opened.
    a, t0 : float, optional
        Of the steps a/(t0 + t); None follows from the objective.
    """

    _protocol: ClassVar[str] = "psgd"


@dataclass(eq=False, repr=False, kw_only=True)
class NoisyGradient(_InRounds):
    """``noisy-gradient``, which its paper rejects because every round costs epsilon: for comparisons with ``PSGD``.

    Left out, ``regularization`` is that of :class:`PSGD`.

    Parameters
    ----------
    rounds, a, t0
        As in :class:`PSGD`.
    """

    _protocol: ClassVar[str] = "noisy-gradient"


@dataclass(eq=False, repr=False, kw_only=True)
class DecayingBudget(_InRounds):
    """``decaying-budget``, which its paper rejects because late rounds are all noise: for comparisons with ``PSGD``.

    Left out, ``regularization`` is that of :class:`PSGD`.

    Parameters
    ----------
    rounds, a, t0
        As in :class:`PSGD`.
    """

    _protocol: ClassVar[str] = "decaying-budget"


@dataclass(eq=False, repr=False, kw_only=True)
class InputNoiseSGD(SimulatedClassifier):
    """``input-noise``: each party trains on noisy copies of its records (Bixler). One party alone is possible.

    Left out, ``regularization`` is 1e-4, as for ``dp-gd``: the noise does not depend on it.

    Parameters
    ----------
    alpha : float, optional
        The noise has the scale 1/alpha; for ``calibration="paper"`` alone.
    noise : {"gaussian", "l2"}, optional
        The distribution of the noise.
    once : bool, optional
        Whether each record gets one noisy copy, which is kept. Otherwise each use draws, and costs, anew.
    labels : {"randomised-response", "as they are"}, optional
        Whether some labels are reversed at random.
    epsilon_y : float, optional
        What a label alone costs.
    batch, epochs : int, optional
        Examples in a step, and passes over a party's records.
    learning_rate : float, optional
        The length of a step.
    """

    alpha: float | None = None
    noise: str | None = None
    once: bool | None = None
    labels: str | None = None
    epsilon_y: float | None = None
    batch: int | None = None
    epochs: int | None = None
    learning_rate: float | None = None

    _protocol: ClassVar[str] = "input-noise"
    _penalty: ClassVar[Penalty | None] = staticmethod(beside_noise)
    _section: ClassVar[tuple[str, ...]] = (
        "alpha",
        "noise",
        "once",
        "labels",
        "epsilon_y",
        "batch",
        "epochs",
        "learning_rate",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedDP(SimulatedClassifier):
    """``weighted-dp``: the mean of classifiers that each party learns under noise of its own (Kang, Liu and Wang).

    Left out, ``regularization`` is 1e-4, as for ``dp-gd``: the noise does not depend on it.

    Parameters
    ----------
    rounds : int, optional
        How many noisy steps a party takes.
    learning_rate : float, optional
        The length of a step.
    c : float, optional
        The paper's constant in the variance of the noise; for ``calibration="paper"`` alone.
    weights : {"sizes", "uniform"}, optional
        Whether a classifier counts as often as its party has records, or once; for ``calibration="paper"`` alone.
    smallest_part : float, optional
        The part of all records below which a party adds more noise; for ``calibration="paper"`` alone.
    """

    rounds: int | None = None
    learning_rate: float | None = None
    c: float | None = None
    weights: str | None = None
    smallest_part: float | None = None

    _protocol: ClassVar[str] = "weighted-dp"
    _penalty: ClassVar[Penalty | None] = staticmethod(beside_noise)
    _section: ClassVar[tuple[str, ...]] = ("rounds", "learning_rate", "c", "weights", "smallest_part")
