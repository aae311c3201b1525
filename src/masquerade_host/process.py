"""A participant's process at its outermost edge: hardened at the start, one exit code at the end."""

import atexit
import ctypes
import gc
import resource
import sys
from collections.abc import Callable, Sequence

import typer

from masquerade_host.progress import Progress, mode_of
from masquerade_host.signals import stoppable

__all__ = ["harden", "main"]

_PR_SET_DUMPABLE = 4


def harden() -> None:
    """Keep this process's memory, which holds keys and records, out of core dumps and debuggers; best effort."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def main(app: Callable[..., object], arguments: Sequence[str], name: str) -> int:
    """Run a typer command and return the process's exit code; nothing is raised."""
    # The interpreter's last collection would walk through all libraries once more, for nothing: a fifth of a second.
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
