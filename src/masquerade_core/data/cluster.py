"""A site's own Dask cluster: its address is checked, and its work outlives workers and schedulers that are lost.

Dask has a *scheduler*, a process that deals out tasks, and *workers*, processes that carry them out and keep their
results. Both see records, and what they send each other is program code as well as data. So they belong to the site,
as its machines do, and nobody else may reach them: this program talks to a cluster over TLS, or within one machine.

A task never raises: Dask would write the arguments of a task that failed, which are records, into the workers' logs.
"""

import contextlib
import importlib
import ipaddress
import logging
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.errors import BadInput, LocalProtocolError, MasqueradeError, RefusedLocally, RunFailed

__all__ = ["PATIENCE", "Cluster", "Task", "check_address", "tree"]

PATIENCE = 60.0
"""How many seconds a cluster may have no scheduler, or no worker, before the run ends."""

_CONNECT = 5.0  # seconds until an address that does not answer is taken for wrong
_LOOK = 2.0  # seconds between two looks whether there is a worker
_A_WORKERS = "the address of a worker of the Dask cluster"
_FAN_IN = 8  # results that one task of a tree takes


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
            f"{what} is {address}, where everybody on the way could read the records, and whoever reaches the port "
            "could run programs; allowed are tls:// addresses, and tcp:// within one machine",
            "on one machine, start the scheduler with --host 127.0.0.1; otherwise start scheduler and workers with "
            "Dask's --tls-ca-file, --tls-cert and --tls-key",
        )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


# --- In a worker ------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Fault:
    """A task's result that is none: its error, or the kind and place of an error that nobody foresaw."""

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
            return _Fault(refused)
        for argument in arguments:
            if isinstance(argument, _Fault):
                return argument
        try:
            with _one_thread():
                return self.function(*arguments, **named)
        except MasqueradeError as error:
            return _Fault(error)
        except Exception as error:  # noqa: BLE001 - its text could hold a record: kind and place alone leave the worker
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return _Fault(None, f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}")


def _refusal(version: str) -> MasqueradeError | None:
    """Return the error of a worker that may not take part."""
    if version != __version__:
        return _other_version(__version__, version)
    try:
        check_address(_dask().get_worker().address, _A_WORKERS)
    except MasqueradeError as error:
        return error
    return None


def _other_version(theirs: str, ours: str) -> MasqueradeError:
    return BadInput(
        f"a worker of the Dask cluster has version {theirs} of masquerade, but this process has {ours}",
        "install the same version in both, and start the worker again",
    )


def _version() -> str:
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


# --- In the party's process -------------------------------------------------------------


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        pass
    raise BadInput(
        "a Dask cluster needs the package 'distributed', which is not installed",
        "install it with 'pip install masquerade[dask]'",
    )


class Cluster:
    """A connection with a site's Dask scheduler.

    Parameters
    ----------
    address : str
        The scheduler's.
    patience : float
        How many seconds the cluster may have no scheduler, or no worker, in the middle of a run.

    Raises
    ------
    BadInput
        No scheduler answers there, it has no worker, or a worker has another version of this program.
    RefusedLocally
        The scheduler or a worker can be reached without TLS, and not from this machine alone.
    """

    def __init__(self, address: str, patience: float = PATIENCE) -> None:
        check_address(address)
        self.address, self._patience = address, patience
        self._client: Any = None
        _quiet()
        try:
            self._connect()
            self._meet()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the cluster forgets what it held for it."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever the network says, nothing is needed of it any more
                client.close(timeout=_CONNECT)

    def _connect(self) -> Any:
        """Return a client that is connected, a new one where there is none."""
        if self._client is None or self._client.status != "running":
            self.close()
            try:
                self._client = _dask().Client(self.address, timeout=_CONNECT, set_as_default=False)
            except (
                OSError,
                ValueError,
                TypeError,
                RuntimeError,
            ) as error:  # a certificate that is missing, among others
                why = f": {error}" if isinstance(error, TypeError) else ""
                raise BadInput(
                    f"no Dask scheduler answers at {self.address}{why}",
                    "start one with 'dask scheduler', and give the address that it prints; for a tls:// address, name "
                    "the certificates in Dask's own configuration (distributed.comm.tls)",
                ) from None
        return self._client

    def _meet(self) -> None:
        """Check who can reach the scheduler, and that each worker has this version of the program."""
        client, ends = self._client, time.monotonic() + _CONNECT
        try:
            client.wait_for_workers(1, timeout=max(0.1, ends - time.monotonic()))
        except OSError:
            raise BadInput(
                f"the Dask scheduler at {self.address} has no worker",
                f"start one with 'dask worker {self.address}', in an environment that has masquerade too",
            ) from None
        known = client.scheduler_info()
        check_address(known["address"], "the Dask scheduler's own address")
        for worker in known["workers"]:
            check_address(worker, _A_WORKERS)
        for answer in client.run(_version, on_error="return").values():
            if self._value(answer) != __version__:
                raise _other_version(answer, __version__)

    def result(self, work: Callable[[Any], Any]) -> Any:
        """Have work done, and done again where the scheduler was lost in the middle of it.

        Parameters
        ----------
        work : callable
            (client) -> a future. It is called again with a new client, which knows no future of an earlier one.

        Returns
        -------
        object
            The future's result.

        Raises
        ------
        RunFailed
            There was no scheduler or no worker for too long, or workers ended again and again.
        MasqueradeError
            A task raised it.
        """
        gone, ends = _gone(), None
        while True:
            try:
                client = self._connect()
                return self._value(self._wait(client, work(client)))
            except gone:
                pass
            except BadInput:
                if ends is None:  # it is not that the scheduler was lost
                    raise
            self.close()
            ends = ends or time.monotonic() + self._patience
            if time.monotonic() > ends:
                raise RunFailed(
                    f"no Dask scheduler has answered at {self.address} for {self._patience:g} seconds",
                    "see why the scheduler ended, and start the run again",
                )
            time.sleep(min(1.0, self._patience / 10))

    def _wait(self, client: Any, future: Any) -> Any:
        """Return a future's result, or the error that Dask has in its place, as a value."""
        ends: float | None = None
        while True:
            try:
                error = future.exception(timeout=_LOOK)
                return future.result(timeout=self._patience) if error is None else error
            except TimeoutError:
                if client.status != "running":
                    raise
            if client.scheduler_info()["workers"]:
                ends = None
                continue
            ends = ends or time.monotonic() + self._patience
            if time.monotonic() > ends:
                raise RunFailed(
                    f"the Dask scheduler at {self.address} has had no worker for {self._patience:g} seconds",
                    "see why the workers ended: perhaps memory ran out; then start the run again",
                )

    def _value(self, answer: Any) -> Any:
        """Return an answer, or raise the error that stands in its place. No error shows what a task was given."""
        if isinstance(answer, _Fault):
            if answer.error is not None:
                raise answer.error
            raise LocalProtocolError(
                f"a task on the Dask cluster failed, which is a bug: {answer.bug}", "please report it"
            )
        if isinstance(answer, ImportError) or "deserialization" in str(answer)[:80]:
            raise BadInput(
                "a worker or the scheduler of the Dask cluster cannot load masquerade",
                "install the same version there as here, in the environment in which 'dask' runs",
            )
        if isinstance(answer, BaseException):
            raise RunFailed(
                f"the Dask cluster could not do its work: {type(answer).__name__}",
                "see the workers' logs; perhaps memory ran out: give each worker more of it, or start more workers",
            )
        return answer


def _quiet() -> None:
    """Keep Dask's logs of lost connections, with their traces, to itself: a sentence says what matters."""
    _dask()  # it gives some of its logs a level of their own
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in {"distributed", "tornado"}]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@lru_cache(maxsize=1)
def _gone() -> tuple[type[BaseException], ...]:
    """Return what Dask raises where the scheduler was lost."""
    client = importlib.import_module("distributed.client")
    return OSError, client.FutureCancelledError, client.CancelledError, client.ClosedClientError


def tree(client: Any, combine: Task, leaves: Iterable[Any]) -> Any:
    """Return the future of all leaves combined: neighbours first, and so on upwards; one leaf is combined as well."""
    level = list(leaves)
    while True:
        level = [client.submit(combine, *level[i : i + _FAN_IN], pure=False) for i in range(0, len(level), _FAN_IN)]
        if len(level) == 1:
            return level[0]
