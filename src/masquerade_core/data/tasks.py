"""A task of a site's Dask cluster, as a worker carries it out; and the addresses at which a cluster may listen.

A task never raises: Dask would write the arguments of a task that failed, which are records, into the workers' logs.
"""

import contextlib
import importlib
import ipaddress
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from masquerade_core import __version__
from masquerade_core.errors import BadInput, MasqueradeError, RefusedLocally

__all__ = [
    "A_WORKERS",
    "Fault",
    "Task",
    "check_address",
    "dask",
    "no_scheduler",
    "no_worker",
    "other_version",
    "own_version",
]

A_WORKERS = "the address of a worker of the Dask cluster"
"""How an error names it."""


def check_address(address: str, what: str = "the Dask scheduler's address") -> None:
    """Refuse an address over which somebody else could read records, or send tasks.

    Parameters
    ----------
    address : str
        ``tls://HOST:PORT``, or ``tcp://HOST:PORT`` with a HOST that is this machine alone.
    what : str
        Names it in the error.

    Raises
    ------
    BadInput
        It is no such address.
    RefusedLocally
        It is one without TLS, and not of this machine alone.
    """
    kind, rest = address.split("://", 1) if "://" in address else ("tcp", address)
    host, _, port = rest.rpartition(":")
    if kind not in {"tls", "tcp"} or not (host and port.isdigit()):
        raise BadInput(
            f"{what} is {address}, but must be tls://HOST:PORT, or within one machine tcp://127.0.0.1:PORT",
            "give the address that 'dask scheduler' prints when it starts",
        )
    if kind == "tcp" and not _is_loopback(host):
        raise RefusedLocally(
            f"{what} is {address}, where everybody on the way could read the records, and anyone who reaches the port "
            "could run programs; only tls:// addresses are allowed, and tcp:// within one machine",
            "on one machine, start the scheduler with --host 127.0.0.1; otherwise start scheduler and workers with "
            "Dask's --tls-ca-file, --tls-cert and --tls-key",
        )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


@dataclass(frozen=True, repr=False)
class Fault:
    """A failed task's result: its error, or the kind and place of an unforeseen one.

    Parameters
    ----------
    error : MasqueradeError or None
    bug : str
    """

    error: MasqueradeError | None
    bug: str = ""


@dataclass(frozen=True, repr=False)
class Task:
    """A function as a worker calls it: in the same version of this program, with one thread, and without raising.

    Parameters
    ----------
    function : callable
        Of a module. A result of another task that failed is returned as it is, in place of a call.
    version : str
        Of the program that asks.
    """

    function: Callable[..., Any]
    version: str = __version__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function with these arguments."""
        if (refused := _refusal(self.version)) is not None:
            return Fault(refused)
        for argument in arguments:
            if isinstance(argument, Fault):
                return argument
        try:
            with _one_thread():
                return self.function(*arguments, **named)
        except MasqueradeError as error:
            return Fault(_plain(error))
        except Exception as error:  # noqa: BLE001 - its text could hold a record: kind and place alone leave the worker
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return Fault(None, f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}")


def _plain(error: MasqueradeError) -> MasqueradeError:
    """Return an error's sentence and hint alone, in a class that can be sent from one process to another."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == MasqueradeError.__module__)
    plain: MasqueradeError = kind(error.message, error.hint)
    return plain


def _refusal(version: str) -> MasqueradeError | None:
    """Return the error of a worker that may not take part."""
    if version != __version__:
        return other_version(__version__, version)
    try:
        check_address(dask().get_worker().address, A_WORKERS)
    except MasqueradeError as error:
        return error
    return None


def other_version(theirs: str, ours: str) -> MasqueradeError:
    """Return the error of a worker that has another version than the process that asks."""
    return BadInput(
        f"a worker of the Dask cluster has version {theirs} of masquerade, but this process has {ours}",
        "install the same version in both, and start the worker again",
    )


def no_scheduler(address: str) -> BadInput:
    """Return the error for an address at which no scheduler answers."""
    return BadInput(
        f"no Dask scheduler answers at {address}",
        "start one with 'dask scheduler', and give the address that it prints, such as tcp://127.0.0.1:8786",
    )


def no_worker(address: str) -> BadInput:
    """Return the error for a scheduler that has no worker."""
    return BadInput(
        f"the Dask scheduler at {address} has no worker",
        f"start one with 'dask worker {address}', in an environment that has masquerade too",
    )


def own_version() -> str:
    """Return the version of this program."""
    return __version__


@contextlib.contextmanager
def _one_thread() -> Any:
    """Give libraries of linear algebra one thread: a sum that several threads share may differ in its last bit."""
    with _libraries().limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries() -> Any:
    importlib.import_module("scipy.linalg")  # it loads a library of its own
    return importlib.import_module("threadpoolctl").ThreadpoolController()


def dask() -> Any:
    """Return the package ``distributed``; BadInput if it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        pass
    raise BadInput(
        "a Dask cluster needs the package 'distributed', which is not installed",
        "install it with 'pip install masquerade[dask]'",
    )
