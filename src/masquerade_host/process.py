"""The outermost edge of a participant's process: it hardens the process, and turns every end into one exit code."""

import atexit
import ctypes
import gc
import resource
import sys
from collections.abc import Callable, Sequence

import typer

from masquerade_host.progress import Progress, mode_of
from masquerade_host.signals import stoppable

__all__ = ["allow_descriptors", "harden", "main"]

_PR_SET_DUMPABLE = 4
_DESCRIPTORS = 65_536  # file descriptors: more are never needed, and some systems allow a billion


def harden() -> None:
    """Keep this process's memory, which holds keys and records, out of core dumps and debuggers; best effort.

    Also allow more file descriptors (:func:`allow_descriptors`).
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    allow_descriptors()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def allow_descriptors() -> int:
    """Allow as many file descriptors as the system lets this process have, and return how many these are.

    Each connection takes one, a stranger's too.
    """
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
