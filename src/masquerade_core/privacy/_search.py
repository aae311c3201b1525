"""A search for the smallest integer that satisfies a monotone condition."""

from collections.abc import Callable

__all__ = ["smallest"]


def smallest(enough: Callable[[int], bool], near: int, *, least: int, most: int) -> int | None:
    """Return the smallest integer in [``least``, ``most``] that is enough, or None where none is found.

    Parameters
    ----------
    enough : callable
        The condition. If an integer satisfies it, every larger integer must satisfy it too.
    near : int
        A guess. A good guess makes the search short; no guess changes the result. So it may come from a float, which
        differs between machines.
    least, most : int
        Where to look. The search may go a little beyond ``most`` before it gives up.
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
