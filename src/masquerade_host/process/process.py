"""The outermost edge of a participant's process: it hardens the process, and turns every end into one exit code.

SIGTERM and SIGINT end a process in order at any time, but never in the middle of an indivisible step.

Here is also what tells an operator what happens: at the terminal, in logs, and to a monitoring system.
"""

import atexit
import contextlib
import ctypes
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

import typer

from masquerade_core.errors import RunFailed
from masquerade_host.process.progress import Level, Logged, Observer, Progress, end_of, mode_of

__all__ = [
    "Reporting",
    "allow_descriptors",
    "handled",
    "harden",
    "held",
    "main",
    "reporting",
    "stoppable",
]


# --- Signals ---------------------------------------------------------------------

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


# --- Process ---------------------------------------------------------------------

_PR_SET_DUMPABLE = 4
_DESCRIPTORS = 65_536  # file descriptors: more are never needed, and some systems allow a billion


def harden() -> None:
    """Keep this process's memory, which holds keys and records, out of core dumps and debuggers; best effort.

    Also allow more file descriptors (:func:`allow_descriptors`).
    """
    import resource  # Windows has none, and there the signals of this module are all that a simulation needs

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    allow_descriptors()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def allow_descriptors() -> int:
    """Allow as many file descriptors as the system lets this process have, and return how many these are.

    Each connection takes one, a stranger's too.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def main(app: Callable[..., object], arguments: Sequence[str], name: str) -> int:
    """Run a typer command and return the exit code of the process. It raises nothing."""
    # The interpreter's last garbage collection would walk through all libraries once more: a fifth of a second saved.
    atexit.register(gc.freeze)
    progress = Progress(mode_of(arguments))
    harden()
    try:
        with stoppable():
            app(list(arguments), prog_name=f"python -m {name}", standalone_mode=False)
    except typer.Exit as error:
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the process's outermost edge
        return progress.end(error, debug="--debug" in arguments)
    return 0


# --- Reporting ----------------------------------------------------------------------


@dataclass(frozen=True)
class Reporting:
    """An operator's choices of logs, view and metrics.

    Attributes
    ----------
    log_file : Path or None
        A file that gets a copy of the log.
    level : Level
        Minimum severity of logged events.
    metrics : str or None
        The address at which a monitoring system can ask, as :func:`masquerade_host.process.metrics.address_of` reads
        it.
    """

    log_file: Path | None = None
    level: Level = Level.INFO
    metrics: str | None = None


def _at(err: TextIO, level: Level, stack: contextlib.ExitStack) -> Observer:
    """Return what stderr shows: sentences and a changing line at a terminal, and a log elsewhere."""
    if not err.isatty():
        from masquerade_host.process.logs import Log

        return Log(err, level)
    from masquerade_host.process.terminal import Terminal

    terminal = Terminal(err)
    stack.callback(terminal.close)
    return terminal


@contextlib.contextmanager
def reporting(wanted: Reporting, err: TextIO | None = None, *, show: Observer | None = None) -> Iterator[Observer]:
    """Return an observer that tells everybody who is to be told, for the time of one run.

    At a terminal, stderr shows sentences and a changing line. Elsewhere it is a log. An error that ends the run is
    logged, and raised again; where stderr has it already, a note on it says so.

    Parameters
    ----------
    wanted : Reporting
    err : text file, optional
        By default the stderr of this process.
    show : Observer, optional
        Tells the parent of this process what happens, in place of stderr. The end of the process tells of an error.

    Raises
    ------
    BadInput
        The log cannot be written, or nothing can listen at the address.
    """
    err = err or sys.stderr
    with contextlib.ExitStack() as stack:
        observers = [show or _at(err, wanted.level, stack)]
        if wanted.log_file is not None:
            from masquerade_host.process.logs import Log, LogFile

            file = LogFile(wanted.log_file)
            stack.callback(file.close)
            observers.append(Log(file, wanted.level))
        where = ""
        if wanted.metrics is not None:
            from masquerade_host.process.metrics import serving

            metrics, where = stack.enter_context(serving(wanted.metrics))
            observers.append(metrics)

        def observe(event: str, /, **fields: str | float) -> None:
            for each in observers:
                each(event, **fields)

        if where:
            observe("metrics", address=where)
        try:
            yield observe
        except (Exception, KeyboardInterrupt) as error:
            for each in observers:
                if each is not show:
                    each("error", **end_of(error))
            if show is None and not err.isatty():
                error.add_note(Logged())
            raise
