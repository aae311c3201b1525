"""How a protocol's ``noiseless`` judges the noise: what counts as small, and how a ratio is put into words."""

import numpy as np

from masquerade_core.privacy.noise.output_perturbation import SMALL_NOISE
from masquerade_protocols.entry import Noiseless, Weights

__all__ = ["SMALL_NOISE", "judged_by_distance", "times", "two_digits"]


def times(ratio: float) -> str:
    """Return a ratio in words: "3 times", "1.4 times"."""
    return f"{ratio:.0f} times" if ratio >= 2 else f"{ratio:.1f} times"  # noqa: PLR2004


def two_digits(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{float(f'{value:.2g}'):g}"


def judged_by_distance(clean: Weights, what: str, released: Weights, epsilon: float, cure: str = "") -> Noiseless:
    """Judge by how far the released classifier is from the one without noise.

    Parameters
    ----------
    clean : ndarray
        The classifier without noise.
    what : str
        How it was computed, in a few words.
    released : ndarray
    epsilon : float
        The study's.
    cure : str
        What would make the noise small, other than a larger epsilon: the end of a sentence.
    """
    ratio = float(np.linalg.norm(released - clean) / np.linalg.norm(clean))
    if ratio <= SMALL_NOISE:
        return Noiseless(clean, what, ratio, epsilon)
    enough = epsilon * ratio / SMALL_NOISE
    moved = f"The noise moved the classifier by {times(ratio)} its length."
    remedy = f"An epsilon of about {two_digits(enough)} would do" + (f", or {cure}." if cure else ".")
    return Noiseless(clean, what, ratio, enough, f"{moved} {remedy}")
