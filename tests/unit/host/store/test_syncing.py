"""Where a system has F_FULLFSYNC, every file and folder is synced with it; elsewhere with fsync."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from masquerade_host.store import state
from masquerade_host.store.state import sync_file, sync_folder
from tests import ROOT

FULL = 51  # as macOS numbers it


def calls(
    monkeypatch: pytest.MonkeyPatch, full: Callable[[], object] | None = None
) -> list[tuple[str, int | None, bool]]:
    """Note each sync: with what, which number, and whether it was of a folder. ``full`` is what F_FULLFSYNC does."""
    seen: list[tuple[str, int | None, bool]] = []

    def command(file: int, number: int) -> None:
        seen.append(("fcntl", number, _is_folder(file)))
        if full is not None:
            full()

    def fsync(file: int) -> None:
        seen.append(("fsync", None, _is_folder(file)))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(fcntl, "fcntl", command)
    return seen


def _is_folder(file: int) -> bool:
    return stat.S_ISDIR(os.fstat(file).st_mode)


def _sync_both(folder: Path) -> None:
    with (folder / "file").open("wb") as file:
        sync_file(file.fileno())
    sync_folder(folder)


def test_where_there_is_f_fullfsync_files_and_folders_are_synced_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    seen = calls(monkeypatch)
    _sync_both(tmp_path)
    assert seen == [("fcntl", FULL, False), ("fcntl", FULL, True)]


@pytest.mark.parametrize("without", ["the command", "the module"])
def test_where_there_is_none_they_are_synced_with_fsync(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    seen = calls(monkeypatch)
    if without == "the module":
        monkeypatch.setattr(state, "fcntl", None)
    _sync_both(tmp_path)
    assert seen == [("fsync", None, False), ("fsync", None, True)]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_that_does_not_offer_it_gets_fsync(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(number, "not offered")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    seen = calls(monkeypatch, refuse)
    _sync_both(tmp_path)
    assert [call[0] for call in seen] == ["fcntl", "fsync", "fcntl", "fsync"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_is_not_covered_up_by_fsync(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(number, "the disk failed")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    seen = calls(monkeypatch, fail)
    with pytest.raises(OSError, match="the disk failed"):
        _sync_both(tmp_path)
    assert [call[0] for call in seen] == ["fcntl"]


def test_nothing_else_in_the_program_syncs() -> None:
    syncs = [
        path.relative_to(ROOT).as_posix()
        for part in ("src", "parties", "curator", "protocols")
        for path in sorted((ROOT / part).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"fsync", "fdatasync", "F_FULLFSYNC"}
    ]
    assert syncs == ["src/masquerade_host/store/state.py"]
