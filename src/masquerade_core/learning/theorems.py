"""A paper's theorem about how good a model is, with the numbers of a study, beside what is proved here of the same.

A theorem bounds how much worse the released model w is than the best one: its *excess risk* J(w) - J(w*). J is the mean
loss on the training records with the penalty (Lambda/2) |w|^2, and w* minimises it.
A bound is *vacuous* where the model of zeros, which reads no record at all, is proved to be as good.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade_core.lazy_scipy import chdtri, gammainccinv
from masquerade_core.learning.losses import Loss

__all__ = [
    "FAILURE",
    "Theorem",
    "gamma_quantile",
    "gaussian_norm",
    "generalisation_term",
    "laplace_norm",
    "smoothness",
    "zeros_excess",
    "zeros_loss",
]

FAILURE = 0.05
"""Each theorem holds with a probability: it fails with at most this one, the papers' delta or delta'."""


@dataclass(frozen=True)
class Theorem:
    """One bound.

    Parameters
    ----------
    name : str
        As in the paper: "Theorem 4.2".
    bounds : str
        What is bounded, in a few words.
    paper : float or None
        The paper's bound for this study; None where its conditions do not hold.
    proved : float or None
        What is proved here of the same quantity, in this study and for any records; None where nothing is.
    zeros : float or None
        What is proved of the model of zeros, which reads no record; None where it says nothing about this quantity.
    note : str
        Sentences on what the bound needs, and where it is read otherwise than it is printed.
    """

    name: str
    bounds: str
    paper: float | None
    proved: float | None = None
    zeros: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as large the paper's bound is as the proved one; below 1, the paper's is not proved."""
        return self.paper / self.proved if self.paper is not None and self.proved else None

    @property
    def vacuous(self) -> bool:
        """Whether the paper's bound says no more than what holds for the model of zeros."""
        return self.paper is not None and self.zeros is not None and self.paper >= self.zeros

    def to_json(self) -> dict[str, Any]:
        """Return all fields, the ratio and the verdict, as JSON values."""
        return {
            "theorem": self.name,
            "bounds": self.bounds,
            "paper": self.paper,
            "proved": self.proved,
            "ratio": self.ratio,
            "zeros": self.zeros,
            "vacuous": self.vacuous,
            "note": self.note,
        }


def smoothness(loss: Loss, Lambda: float) -> float:
    """Return c + Lambda: no gradient of the objective changes faster, for records in the unit ball."""
    return float(loss.c) + Lambda


def zeros_loss(loss: Loss) -> float:
    """Return phi(0), the loss of the model of zeros on every record."""
    return float(loss.value(np.zeros(1))[0])


def zeros_excess(loss: Loss, Lambda: float) -> float:
    """Return min(phi(0), phi'(0)^2/(2 Lambda)), a bound on J(0) - J(w*) for any records in the unit ball.

    No loss is negative, so J(w*) >= 0. And J is Lambda-strongly convex, so J(w) - J(w*) <= |grad J(w)|^2/(2 Lambda).
    """
    slope = float(loss.derivative(np.zeros(1))[0])
    return min(zeros_loss(loss), slope**2 / (2 * Lambda))


def generalisation_term(Lambda: float, n: int, failure: float = FAILURE) -> float:
    """Return 16 (32 + log(1/delta))/(Lambda n): what separates training records from fresh ones.

    With probability 1 - delta, the excess of any w on fresh records is at most twice that on n training records, and
    this. The loss changes by |w - w'| at most, for records in the unit ball.

    References
    ----------
    Sridharan, Shalev-Shwartz and Srebro 2008, "Fast rates for regularized objectives", Theorem 1 with a = 1.
    """
    return 16 * (32 + math.log(1 / failure)) / (Lambda * n)


def gamma_quantile(d: int, failure: float = FAILURE) -> float:
    """Return the 1 - delta quantile of a Gamma(d, 1) variable: the length of noise of density exp(-|x|_2)."""
    return float(gammainccinv(d, failure))


def gaussian_norm(d: int, failure: float = FAILURE) -> float:
    """Return the 1 - delta quantile of the length of a standard normal vector with d coordinates."""
    return math.sqrt(float(chdtri(d, failure)))


def laplace_norm(d: int, failure: float = FAILURE) -> float:
    """Return a bound that |x|_2 keeps with probability 1 - delta, for d independent Laplace numbers of scale 1.

    |x|_2 is at most |x|_1, which has the law Gamma(d, 1). And |x|_2^2 has mean 2 d and variance 20 d, so by Cantelli's
    inequality it exceeds 2 d + sqrt(20 d (1 - delta)/delta) with probability delta at most.
    """
    return min(gamma_quantile(d, failure), math.sqrt(2 * d + math.sqrt(20 * d * (1 - failure) / failure)))
