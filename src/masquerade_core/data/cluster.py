"""A site's own Dask cluster: its address is checked, and its work outlives workers and schedulers that are lost.

Dask has a *scheduler*, a process that deals out tasks, and *workers*, processes that carry them out and keep their
results. Both see records, and what they send each other is program code as well as data. So they belong to the site,
as its machines do, and nobody else may reach them: this program talks to a cluster over TLS, or within one machine.

:mod:`masquerade_core.data.tasks` has what a worker does.
"""

import contextlib
import importlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.data.tasks import (
    A_WORKERS,
    Fault,
    Task,
    check_address,
    dask,
    no_scheduler,
    no_worker,
    other_version,
    own_version,
)
from masquerade_core.errors import BadInput, LocalProtocolError, RunFailed

__all__ = ["PATIENCE", "Cluster", "tree"]

PATIENCE = 60.0
"""How many seconds a cluster may have no scheduler, or no worker, before the run ends."""

_CONNECT = 5.0  # seconds until an address that does not answer is taken for wrong
_LOOK = 2.0  # seconds between two looks whether there is a worker
_FAN_IN = 8  # results that one task of a tree takes


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

    def wait_for(self, workers: int, seconds: float = PATIENCE) -> None:
        """Wait until so many workers are there; RunFailed if they do not come."""
        try:
            self._connect().wait_for_workers(workers, timeout=seconds)
        except OSError:
            raise RunFailed(
                f"after {seconds:g} seconds the Dask scheduler at {self.address} has fewer than {workers} workers",
                "see whether they run",
            ) from None

    def _connect(self) -> Any:
        """Return a client that is connected, a new one where there is none."""
        if self._client is None or self._client.status != "running":
            self.close()
            _check_certificates(self.address)
            try:
                self._client = dask().Client(self.address, timeout=min(_CONNECT, self._patience), set_as_default=False)
            except (OSError, ValueError, RuntimeError, AssertionError):  # the last: a thread of Dask's began late
                raise no_scheduler(self.address) from None
        return self._client

    def _meet(self) -> None:
        """Check who can reach the scheduler, and that each worker has this version of the program."""
        client = self._client
        check_address(client.scheduler_info()["address"], "the Dask scheduler's own address")
        try:
            client.wait_for_workers(1, timeout=_CONNECT)
        except OSError:
            raise no_worker(self.address) from None
        for worker in client.scheduler_info()["workers"]:
            check_address(worker, A_WORKERS)
        for answer in client.run(own_version, on_error="return").values():
            if self._value(answer) != __version__:
                raise other_version(answer, __version__)

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
        ends: float | None = None
        while True:
            with contextlib.suppress(BadInput, *_gone()):
                client = self._connect()
                answer = self._wait(client, work(client))
                break
            self.close()
            ends = ends or time.monotonic() + self._patience
            if time.monotonic() > ends:
                raise RunFailed(
                    f"no Dask scheduler has answered at {self.address} for {self._patience:g} seconds",
                    "see why the scheduler ended, and start the run again",
                )
            time.sleep(min(1.0, self._patience / 10))
        return self._value(answer)

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
        if isinstance(answer, Fault):
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


def _check_certificates(address: str) -> None:
    """Refuse an address with TLS where Dask's configuration names no certificate; Dask itself would not say so."""
    if address.startswith("tls://"):
        with contextlib.suppress(OSError):  # a file that is not there, or that is none of a certificate
            if dask().Security().get_connection_args("client").get("ssl_context") is not None:
                return
        raise BadInput(
            f"{address} needs certificates, and Dask's configuration names none that can be read",
            "set distributed.comm.tls.ca-file, .client.cert and .client.key in it, or the environment's variables "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on",
        )


def _quiet() -> None:
    """Keep Dask's logs of lost connections, with their traces, to itself: a sentence says what matters."""
    dask()  # it gives some of its logs a level of their own
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
