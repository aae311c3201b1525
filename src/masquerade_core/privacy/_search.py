"""A search for the smallest number that satisfies a monotone condition, from a guess."""

from collections.abc import Callable

__all__ = ["smallest"]


def smallest(enough: Callable[[int], bool], near: int, *, least: int, most: int) -> int | None:
    """Return the smallest integer >= ``least`` from which on ``enough`` holds; None if none up to ``most`` is found.

    The guess ``near`` decides how long the search takes and nothing else: a float serves, on whatever machine.
    """
    low = high = max(least, min(near, most))
    step = 1
    while low >= least and enough(low):
        high, low, step = low, max(least - 1, low - step), 2 * step
    while high == low or not enough(high):
        if high > most:
            return None
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
