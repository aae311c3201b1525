"""The baselines as estimators: one person holds all records and computes, and nobody sends anything.

``n_parties`` and ``parties`` matter to ``Individual`` and ``Average``: they learn a classifier of each party's records.
"""

from dataclasses import dataclass
from typing import ClassVar

from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.studies import AgainstNoise, Penalty, beside_noise, next_to_none

__all__ = ["GOP", "Average", "Batch", "CentralDP", "Individual", "Pooled"]


@dataclass(eq=False, repr=False, kw_only=True)
class GOP(SimulatedClassifier):
    """``gop``: noise in the objective of all records (Rajkumar and Agarwal 2012, Algorithm 4).

    Left out, ``regularization`` is 0.5 sqrt(d)/(N epsilon), with d coordinates and N records at least, as all parties
    together have.
    """

    _protocol: ClassVar[str] = "gop"
    _penalty: ClassVar[Penalty | None] = AgainstNoise(0.5)


@dataclass(eq=False, repr=False, kw_only=True)
class CentralDP(SimulatedClassifier):
    """``central-dp``: noise in every step of a descent on all records (Kang, Liu and Wang, Theorem 1).

    Left out, ``regularization`` is 1e-4, as for ``dp-gd``: the noise does not depend on it.

    Parameters
    ----------
    rounds : int, optional
        How many noisy steps.
    learning_rate : float, optional
        The length of a step.
    c : float, optional
        The paper's constant in the variance of the noise; for ``calibration="paper"`` alone.
    """

    rounds: int | None = None
    learning_rate: float | None = None
    c: float | None = None

    _protocol: ClassVar[str] = "central-dp"
    _penalty: ClassVar[Penalty | None] = staticmethod(beside_noise)
    _section: ClassVar[tuple[str, ...]] = ("rounds", "learning_rate", "c")


@dataclass(eq=False, repr=False, kw_only=True)
class Pooled(SimulatedClassifier):
    """``pooled``: one classifier for all records. It protects nothing: no noise, whatever epsilon is.

    It is what the noise of the others is compared with. Left out, ``regularization`` is 0.02/n for n records, about as
    little as scikit-learn's ``LogisticRegression`` has.
    """

    _protocol: ClassVar[str] = "pooled"
    _penalty: ClassVar[Penalty | None] = staticmethod(next_to_none)
    _several: ClassVar[bool] = True
    _noisy: ClassVar[bool] = False


@dataclass(eq=False, repr=False, kw_only=True)
class Batch(SimulatedClassifier):
    """``batch``: ``pooled`` under the name that Hamm, Cao and Belkin 2016 give it."""

    _protocol: ClassVar[str] = "batch"
    _penalty: ClassVar[Penalty | None] = staticmethod(next_to_none)
    _several: ClassVar[bool] = True
    _noisy: ClassVar[bool] = False


@dataclass(eq=False, repr=False, kw_only=True)
class Individual(SimulatedClassifier):
    """``individual``: a classifier of each party's own records, without noise.

    ``predict`` uses that of the party with the most records. ``simulation_.classifiers`` has all of them by name. Left
    out, ``regularization`` is that of :class:`Pooled`.
    """

    _protocol: ClassVar[str] = "individual"
    _penalty: ClassVar[Penalty | None] = staticmethod(next_to_none)
    _several: ClassVar[bool] = True
    _noisy: ClassVar[bool] = False


@dataclass(eq=False, repr=False, kw_only=True)
class Average(SimulatedClassifier):
    """``average``: the mean of each party's own classifier, with noise (Hamm, Cao and Belkin 2016, Appendix B.4).

    The noise hides a whole party. It is large unless there are hundreds of them.
    """

    _protocol: ClassVar[str] = "average"
    _several: ClassVar[bool] = True
