"""Hamm, Cao and Belkin's Lemma 6 on HAR: what the noise adds to the risk on the auxiliary records, beside the bound.

The lemma is for two classes, and HAR has six. ``masquerade_protocols.voting.theorems`` says how it reads there.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.softmax import softmax_objective
from masquerade_lab.reproduce.measured import Measured, measured
from masquerade_protocols.voting.theorems import lemma_6_softmax

__all__ = ["INVERSE", "compared", "excesses"]

INVERSE = 0.01
"""1/eps: the largest at which soft still answers half the records rightly."""

_Array = NDArray[np.float64]


def excesses(W: _Array, points: _Array, alpha: _Array, Lambda: float, noise: _Array) -> dict[str, _Array]:
    """Return what noise adds to the risk of W, its minimiser, on the auxiliary points; and what zeros add.

    Parameters
    ----------
    W : ndarray, shape (C, d)
    points : ndarray, shape (N, d)
    alpha : ndarray, shape (N, C)
        The parts of the votes.
    Lambda : float
    noise : ndarray, shape (R, C d)
    """
    least = softmax_objective(W, points, alpha, Lambda)
    moved = [W + eta.reshape(W.shape) for eta in noise]
    risks = [softmax_objective(one, points, alpha, Lambda) - least for one in (*moved, np.zeros_like(W))]
    return {"lemma 6": np.array(risks[:-1]), "lemma 6, zeros": np.array(risks[-1:])}


def compared(results: Sequence[dict[str, _Array]], M: int, classes: int, d: int, Lambda: float) -> list[Measured]:
    """Return the bound beside what was measured in all trials."""
    noisy, zeros = (np.array([result[name] for result in results]) for name in ("lemma 6", "lemma 6, zeros"))
    bound = lemma_6_softmax(M, classes, d, Lambda, 1 / INVERSE)
    return [
        measured(f"Lemma 6, soft, 1/eps = {INVERSE:g}", bound, noisy),
        measured("none: the model of zeros", float(np.log(classes)), zeros),
    ]
