"""How the parties of a composed run notice that Charlie's process has ended, even if it was killed.

Charlie's process holds a lock on a file that all containers can see. The kernel releases the lock when the process
ends. A party that finds the lock free ends too, since nobody is there to stop it.
"""

import contextlib
import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from masquerade_core.errors import CannotConnect, RunFailed
from masquerade_host.process.process import stoppable

__all__ = ["has_ended", "show_life", "while_alive"]

_LOOK_EVERY = 0.2  # seconds
_GRACE = 15.0  # seconds that a party has to finish a good run after Charlie has ended


@contextlib.contextmanager
def show_life(path: Path) -> Iterator[None]:
    """Hold a lock on the file ``path`` until this block or this process ends: a sign that this process is alive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        part.rename(path)  # locked before anybody can find it, so a Charlie who is starting does not look dead
        yield


def has_ended(path: Path) -> bool:
    """Return whether a process held the lock on ``path`` and no longer does; False if none ever did."""
    try:
        with path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


@contextlib.contextmanager
def while_alive(path: Path) -> Iterator[None]:
    """End the block with an error if Charlie has ended, and the block does not end by itself soon after.

    A signal interrupts the block, so this must be called in the main thread.

    Raises
    ------
    CannotConnect
        Charlie has ended. The error interrupts the block wherever it is.
    """
    main = threading.get_ident()
    finished = threading.Event()
    turn = threading.Lock()  # either the block finishes or the watcher stops it, never both
    stopped = threading.Event()

    def watch() -> None:
        while not finished.wait(_LOOK_EVERY):
            if has_ended(path) and not finished.wait(_GRACE) and has_ended(path):
                with turn:
                    if not finished.is_set():
                        stopped.set()
                        signal.pthread_kill(main, signal.SIGTERM)
                return

    watcher = threading.Thread(target=watch, name="watch-charlie", daemon=True)
    watcher.start()
    try:
        with stoppable():
            try:
                yield
            finally:
                with turn:
                    finished.set()
    except RunFailed as error:
        if stopped.is_set():
            raise CannotConnect(
                "Charlie's container ended before the run did", "read its messages with: docker compose logs curator"
            ) from error
        raise
    finally:
        watcher.join()
