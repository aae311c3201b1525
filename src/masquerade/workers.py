"""Calls that run here, in several processes of this machine, or on a Dask cluster; their results are the same.

A call's result depends on its arguments alone. Libraries of linear algebra get one thread each: a sum that several
threads share may differ in its last bit. A call that was lost with its process is made again.
"""

import contextlib
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from masquerade_core import __version__
from masquerade_core.data.tasks import dask, no_scheduler, no_worker
from masquerade_core.errors import BadInput, CannotConnect, MasqueradeError, RunFailed

__all__ = ["Call", "check_workers", "in_workers", "one_thread"]

_CONNECT_SECONDS = 4
_WAIT_SECONDS = 4  # for the first worker; with the connection, less than ten seconds
_ATTEMPTS = 3

_LOST = "TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "CancelledError", "FutureCancelledError"
"""The errors of joblib, loky and Dask for a process that ended in the middle of a call."""


@dataclass(frozen=True)
class Call:
    """One call.

    Parameters
    ----------
    name : str
        What a message calls it.
    function : callable
        A function of a module.
    arguments : tuple
        What can be pickled.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Answer:
    """A call's value, or why it has none: the error, or the type and place of one that nobody foresaw."""

    number: int
    value: Any = None
    error: MasqueradeError | None = None
    bug: str = ""


def check_workers(jobs: int, dask: str | None) -> None:
    """Refuse a number of processes that makes no sense, and a cluster that does not answer.

    Raises
    ------
    BadInput
        ``jobs`` is less than 1, both were given, ``distributed`` is not installed, or no scheduler or no worker
        answers at the address.
    """
    if jobs < 1:
        raise BadInput(f"jobs is {jobs}, but the least is 1", "choose 1 or more")
    if dask is None:
        return
    if jobs != 1:
        raise BadInput("both jobs and dask were given", "choose processes of this machine, or a cluster")
    with _client(dask):
        pass


def in_workers(calls: Sequence[Call], *, jobs: int = 1, dask: str | None = None) -> Iterator[tuple[int, Any]]:
    """Make the calls, and yield each one's number and result as it comes.

    Parameters
    ----------
    calls : sequence of Call
    jobs : int
        How many processes of this machine; with 1, the calls are made in this one, in their order.
    dask : str, optional
        The address of a Dask scheduler, whose workers make the calls.

    Raises
    ------
    BadInput
        As :func:`check_workers`; or a call found something wrong with its input.
    RunFailed
        Processes were killed again and again.
    MasqueradeError
        A call failed; the message names it.
    """
    if jobs < 1 or dask is not None:
        check_workers(jobs, dask)
    if dask is None and (jobs == 1 or len(calls) <= 1):
        for number, call in enumerate(calls):
            with one_thread():
                answer = _call(__version__, number, call.function, call.arguments)
            yield number, _value(answer, call)
        return
    open_calls, attempts = dict(enumerate(calls)), 0
    while open_calls:
        try:
            with contextlib.closing(_parallel(open_calls, jobs, dask)) as answers:
                for answer in answers:
                    call, attempts = open_calls.pop(answer.number), 0
                    yield answer.number, _value(answer, call)
        except Exception as error:
            if isinstance(error, MasqueradeError) or type(error).__name__ not in _LOST:
                raise
            attempts += 1
            if attempts == _ATTEMPTS:
                raise RunFailed(
                    f"processes ended {attempts} times in the middle of their work, with {len(open_calls)} of "
                    f"{len(calls)} tasks left",
                    "perhaps memory ran out: use fewer processes at a time",
                ) from error


def _parallel(calls: dict[int, Call], jobs: int, dask: str | None) -> Generator[_Answer]:
    """Yield the answers as they come, from new processes if the last ones broke."""
    from joblib import Parallel, delayed, parallel_config

    todo = [delayed(_in_worker)(__version__, n, call.function, call.arguments) for n, call in calls.items()]
    with contextlib.ExitStack() as stack:
        if dask is None:
            stack.enter_context(parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1))
        else:
            client = stack.enter_context(_client(dask))
            stack.enter_context(parallel_config(_dask_backend(client)))
        # No array is written to a file for the workers to map: records stay in memory.
        pool = Parallel(return_as="generator_unordered", batch_size=1, max_nbytes=None)
        answers = pool(todo)
        stack.callback(_closed, answers)
        for answer in answers:  # noqa: UP028 - "yield from" would close joblib's generator, which then warns
            yield answer


def _dask_backend(client: Any) -> Any:
    """Return joblib's Dask backend, which with a single worker of one thread would make the calls in this process."""
    from joblib._dask import DaskDistributedBackend

    class Cluster(DaskDistributedBackend):  # type: ignore[misc]  # joblib has no types
        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, int(super().effective_n_jobs(n_jobs)))

    return Cluster(client=client, wait_for_workers_timeout=_WAIT_SECONDS)


def _closed(answers: Any) -> None:
    """End what is still running, without joblib's warning that it was ended.

    The thread of joblib's pool forgets what waits, and may then look it up: a KeyError that changes nothing, for the
    processes have ended and nobody waits. It would be shown as a traceback beside the sentence that says what failed.
    """
    before = threading.excepthook

    def unless_ended(args: Any) -> None:
        if not (args.exc_type is KeyError and getattr(args.thread, "name", "") == "ExecutorManagerThread"):
            before(args)

    threading.excepthook = unless_ended
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.close()
    finally:
        threading.excepthook = before


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    """Connect with a scheduler that has at least one worker."""
    distributed = dask()
    _quiet()
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # Dask's TimeoutError is an OSError
        raise no_scheduler(address) from error
    try:
        try:
            client.wait_for_workers(1, timeout=_WAIT_SECONDS)
        except OSError as error:
            raise no_worker(address) from error
        yield client
    finally:
        with contextlib.suppress(OSError):
            client.close(timeout=_CONNECT_SECONDS)


def _quiet() -> None:
    """Keep Dask's log of lost connections to itself: a sentence says what matters."""
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)


# --- In the process that makes the call -------------------------------------------------


def _in_worker(version: str, number: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answer:
    """Make a call in a process that is there for calls alone: it keeps one thread for linear algebra."""
    _limit()
    return _call(version, number, function, arguments)


def _call(version: str, number: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answer:
    if version != __version__:
        return _Answer(number, error=_other_version(version))
    try:
        return _Answer(number, function(*arguments))
    except MasqueradeError as error:
        return _Answer(number, error=error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the call is named where it is raised again
        if os.environ.get("MASQUERADE_TRACEBACK"):
            traceback.print_exception(error)
        frame = traceback.extract_tb(error.__traceback__)[-1]  # its text could hold a record: type and place alone
        return _Answer(number, bug=f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}")


def _other_version(version: str) -> MasqueradeError:
    return CannotConnect(
        f"a worker has version {__version__} of this program, but version {version} asked",
        "install the same version on both",
    )


def _value(answer: _Answer, call: Call) -> Any:
    """Return the value of an answer, or raise its error with the name of the call."""
    if answer.bug:
        raise MasqueradeError(
            f"task {call.name} failed, which is a bug: {answer.bug}",
            "please report it; the same command resumes with the remaining tasks",
        )
    if answer.error is not None:
        error = answer.error
        error.message = f"task {call.name}: {error.message}"
        error.args = (error.message,)
        raise error
    return answer.value


def _limit() -> Any:
    """Give every library of linear algebra one thread, those included that a function would load only later."""
    import scipy.linalg  # noqa: F401 - it loads a library of its own

    return _libraries(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> Any:
    """Look for the libraries again when modules were loaded, for that takes milliseconds."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Give every library of linear algebra one thread, for the time of this block."""
    with _limit():
        yield
