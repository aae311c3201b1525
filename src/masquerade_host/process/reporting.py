"""Everything that a running process tells its operator: at the terminal, in logs, and to a monitoring system."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from masquerade_host.process.progress import Level, Logged, Observer, end_of

__all__ = ["Reporting", "reporting"]


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
