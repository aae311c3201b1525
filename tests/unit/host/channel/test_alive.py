"""The composed table: a party notices that Charlie's process has ended, in whatever way, and waits no longer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from masquerade import alive
from masquerade_core.errors import CannotConnect, RunFailed
from tests.messages import raises

CHARLIE = """
import sys
from pathlib import Path
from masquerade.alive import show_life
with show_life(Path(sys.argv[1])):
    print("here", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Charlie shows life; who looks there looks often and gives little grace."""
    monkeypatch.setattr(alive, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(alive, "_GRACE", 0.05)
    return tmp_path / "meeting" / "charlie.alive"


@pytest.fixture
def charlie(sign: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is Charlie, and nothing else."""
    command = [sys.executable, "-c", CHARLIE, str(sign)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        yield process
        process.kill()


def test_a_charlie_who_never_came_has_not_ended(sign: Path) -> None:
    assert not alive.has_ended(sign)


def test_a_living_charlie_has_not_ended(sign: Path, charlie: subprocess.Popen[bytes]) -> None:
    assert not alive.has_ended(sign)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_charlie_has_ended(sign: Path, charlie: subprocess.Popen[bytes], number: signal.Signals) -> None:
    charlie.send_signal(number)
    charlie.wait()
    assert alive.has_ended(sign)


def test_a_charlie_who_starts_again_has_not_ended(sign: Path, charlie: subprocess.Popen[bytes]) -> None:
    charlie.kill()
    charlie.wait()
    with alive.show_life(sign):
        assert not alive.has_ended(sign)
    assert alive.has_ended(sign)


def _wait_and(sign: Path, happens: Callable[[], None]) -> None:
    """Wait for a minute, as a party does for Charlie; this ends well if nothing interrupts it."""
    with alive.while_alive(sign):
        happens()
        time.sleep(60)


def test_a_party_that_waits_is_ended_once_charlie_is_killed(sign: Path, charlie: subprocess.Popen[bytes]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with raises(CannotConnect, "charlie_ended_before_run") as caught:
        _wait_and(sign, charlie.kill)
    assert "logs curator" in caught.value.hint
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_party_that_waits_is_left_alone_while_charlie_lives(sign: Path, charlie: subprocess.Popen[bytes]) -> None:
    with alive.while_alive(sign):
        time.sleep(0.5)  # fifty looks and ten graces


def test_a_party_that_ends_after_charlie_ends_well(
    sign: Path, charlie: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive, "_GRACE", 60.0)
    with alive.while_alive(sign):
        charlie.kill()
        charlie.wait()
        time.sleep(0.1)


def test_a_party_that_is_stopped_by_somebody_else_does_not_blame_charlie(
    sign: Path, charlie: subprocess.Popen[bytes]
) -> None:
    with raises(RunFailed, "stopped_by", "SIGTERM"):
        _wait_and(sign, partial(os.kill, os.getpid(), signal.SIGTERM))
