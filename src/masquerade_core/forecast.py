"""The forecast of a run's work: public numbers, the same at all participants, which say how long one step may take."""

from dataclasses import dataclass

__all__ = ["Forecast", "slowest_exponentiation"]

_SECONDS = 0.1  # for an exponentiation with keys of so many bits:
_BITS = 2048


@dataclass(frozen=True)
class Forecast:
    """The time that a participant may need for a frame beside the study's ``deadline_seconds``.

    Attributes
    ----------
    seconds : float
        For the arithmetic of one frame, on the slowest machine that may take part.
    turns : int
        The longest chain of frames each of which waits for the one before.
    """

    seconds: float = 0.0
    turns: int = 2


def slowest_exponentiation(key_bits: int) -> float:
    """Return how many seconds one of Paillier's exponentiations may take: a public number, by the length of the key.

    The work grows with the third power of the length. Machines of today need a third of it.
    """
    return _SECONDS * (key_bits / _BITS) ** 3
