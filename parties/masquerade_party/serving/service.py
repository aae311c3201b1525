"""``masquerade site``: the process that looks at the folders again and again, until it is stopped."""

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.words import printable
from masquerade_host.process.meter import wrapped
from masquerade_host.process.process import handled
from masquerade_host.process.terminal import Block
from masquerade_host.store.kept_keys import all_kept
from masquerade_host.store.keyfiles import load_keys
from masquerade_host.store.locked_keys import VARIABLE, passphrase_of
from masquerade_party.serving.children import Processes
from masquerade_party.serving.folders import LOCK, Folders, mark_of
from masquerade_party.serving.keeping import Keeper
from masquerade_party.serving.live import table
from masquerade_party.serving.reading import Reader
from masquerade_party.serving.server import Server
from masquerade_party.serving.settings import OwnKey, Settings, key_of, load_settings, records_of
from masquerade_party.serving.standing import standing_now

__all__ = ["serve"]

_EVERY = 1.0  # seconds between two looks
_PATIENCE = 2.0  # seconds: 'site status' holds the lock for a moment


def serve(folder: Path | str, say: Callable[[str], object] | None = None) -> None:
    """Serve the studies in a folder until SIGTERM or SIGINT.

    Parameters
    ----------
    folder : path
        It has a file ``site.toml``.
    say : callable, optional
        Takes each line of the log. By default they go to stderr, with the time in UTC. If that is a terminal, they have
        no time, and a table below them says what runs and waits.

    Raises
    ------
    BadInput
        ``site.toml``, a key or the folder cannot be used, or another process serves it.
    """
    root = Path(folder).absolute()
    settings = load_settings(root)
    live = None
    if say is None:
        live = Block(sys.stderr) if sys.stderr.isatty() else None
        say = _to_stderr if live is None else _above(live)
    with _alone(root), _woken() as (wake, told):
        folders, data = Folders(root), tuple(settings.data)
        folders.make(data)
        files = {key_of(root, settings, each) for each in settings.data.values()}
        marks = {file: mark_of(file) for file in files}
        reader = Reader(root, settings, _keys(root, settings))
        with contextlib.closing(reader):
            server = Server(folders, data, reader, Processes(folders), say)
            keeper = Keeper(folders, data, root / settings.results, settings.keep, say)
            say(f"the site serves {root}")
            while not told:
                if (now := {file: mark_of(file) for file in files}) != marks:
                    marks = now
                    _renew(reader, root, settings, say)
                server.look()
                keeper.look()
                if live is not None:
                    live.draw(table(standing_now(root, data), time.time(), *live.size))
                select.select([wake], [], [], _EVERY)
                with contextlib.suppress(BlockingIOError):
                    wake.recv(1024)
            if live is not None:
                live.close()
            server.stop()
        say(f"the site was stopped by {told[0]}")


def _renew(reader: Reader, root: Path, settings: Settings, say: Callable[[str], object]) -> None:
    """Let the reader know the keys that a person has just rotated. Where they cannot be read, it goes on as before."""
    try:
        reader.renew(_keys(root, settings, _unattended))
    except MasqueradeError as error:
        say(f"the site goes on with the keys that it had: {error.message}; what to do: {error.hint}")
    else:
        say("the site knows its new keys, and those before them")


def _unattended(file: Path) -> str:
    if VARIABLE in os.environ:
        return passphrase_of(file)
    raise BadInput(f"{file} needs its passphrase", "stop the site, and start it again")


def _keys(root: Path, settings: Settings, ask: Callable[[Path], str] | None = None) -> dict[str, tuple[OwnKey, ...]]:
    """Return the site's public keys for each data set: the newest, and those that were rotated away.

    Raises
    ------
    BadInput
        A key file, or the address of a database, cannot be used.
    """
    for each in settings.data.values():
        records_of(root, each)  # what cannot be read at all is found now
    files = {name: key_of(root, settings, each) for name, each in settings.data.items()}
    public = {file: ((load_keys(file, ask).public, file), *all_kept(file, ask)) for file in set(files.values())}
    return {name: public[file] for name, file in files.items()}


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Hold the folder: two processes would start each study twice."""
    try:
        lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput(f"nothing can be written into {root}: {error.strerror}", "see who owns the folder") from error
    try:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise BadInput(
                        f"another process serves {root}", "one is enough; 'masquerade site status' shows what it does"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def _woken() -> Iterator[tuple[socket.socket, list[str]]]:
    """Return a socket that wakes a waiting loop when a signal comes or a child ends, and the signals that stop it."""
    told: list[str] = []

    def note(number: int, _frame: FrameType | None) -> None:
        told.append(signal.Signals(number).name)

    wake, tell = socket.socketpair()
    wake.setblocking(False)
    tell.setblocking(False)
    with wake, tell, handled(note):
        before = signal.signal(signal.SIGCHLD, lambda *_: None)
        old = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        try:
            yield wake, told
        finally:
            signal.set_wakeup_fd(old)
            signal.signal(signal.SIGCHLD, before)


def _above(live: Block) -> Callable[[str], object]:
    """Return what shows a line of the log above the table, over several lines where it is long."""
    return lambda line: live.say("\n".join(wrapped(printable(line), live.size[0])))


def _to_stderr(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')} INFO    {printable(line)}\n")
        sys.stderr.flush()
