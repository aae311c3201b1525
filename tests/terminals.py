"""Commands that somebody uses at a terminal: what is on the screen, and what is typed."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass
class Screen:
    """A command that somebody uses at a terminal."""

    process: subprocess.Popen[str]
    keyboard: int
    text: str = ""
    reader: threading.Thread = field(default_factory=threading.Thread)

    @classmethod
    def of(cls, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Screen:
        """Start a command in a folder."""
        keyboard, terminal = pty.openpty()
        process = subprocess.Popen(
            words,
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=env,
        )
        os.close(terminal)
        screen = cls(process, keyboard)
        screen.reader = threading.Thread(target=screen._read, daemon=True)
        screen.reader.start()
        return screen

    def _read(self) -> None:
        assert self.process.stdout is not None
        while part := self.process.stdout.read(1):
            self.text += part

    def until(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """Wait until this is on the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.text):
                return found
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} is not on the screen:\n{self.text}")

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self.keyboard, f"{line}\n".encode())

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(60)
        self.reader.join()
        return code

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        os.close(self.keyboard)
        assert self.process.stdout is not None
        self.process.stdout.close()
