"""SIGTERM and SIGINT: they end a process in order at any time, but never in the middle of an indivisible step."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from masquerade_core.errors import RunFailed

__all__ = ["handled", "held", "stoppable"]

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let ``handler`` take both signals. Outside the main thread, where no handler can be set, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def held() -> Iterator[list[int]]:
    """Make signals wait for the end of this block. Those still on the list then take effect."""
    caught: list[int] = []
    with handled(lambda number, _frame: caught.append(number)):
        yield caught
    for number in caught[:1]:
        signal.raise_signal(number)


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in _NUMBERS:  # a second signal would interrupt the clean-up
        signal.signal(each, signal.SIG_IGN)
    raise RunFailed(f"this process was stopped by {signal.Signals(number).name}")


def stoppable() -> contextlib.AbstractContextManager[None]:
    """Let a signal end this block as an error does, so that half-written files are removed.

    Raises
    ------
    RunFailed
        Inside the block, wherever it is.
    """
    return handled(_stop)
