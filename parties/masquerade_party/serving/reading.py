"""Studies from the inbox are read by a process of their own, with limits on time and memory.

Anyone who may write into the inbox may put anything there. A file that takes too long, too much memory or the process
with it costs that process and itself: the site starts another one, which reads the other files. At first each file gets
little time. One for which that is not enough is read once more after all others, with more time, in a fresh process.

The process gets no secret key. It is ``python -m masquerade_party.serving.reading``, and dies with the site.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from masquerade_core import errors
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.identity import PublicKeys
from masquerade_party.serving.folders import GONE, Mark, mark_of
from masquerade_party.serving.settings import OwnKey, Settings
from masquerade_party.serving.verdicts import Facts, Kind, Known, Verdict

__all__ = ["Reader"]

_QUICK, _SLOW = 2, 20  # seconds of processor time for a file
_MEMORY = 384 << 20  # bytes for a file, besides what the process has before it
_WALL = 60.0  # seconds after which the process is taken for stuck, whatever the processor does
_MOST = 200  # files that one process reads: what they leave in its memory adds up
_START = 120.0  # seconds for its start, on a busy machine
_REMEMBERED = 10_000  # verdicts
_LONGEST = 1 << 16  # bytes of an answer: its sentences are short
_PATHS = ("file", "key", "results", "state", "journal")
_OVER_MEMORY = 42  # the exit code of a process that had no more memory

_ERRORS: dict[str, type[MasqueradeError]] = {
    kind.error_code: kind for kind in (MasqueradeError, *(getattr(errors, name) for name in errors.__all__))
    if kind.error_code != "bug"
}  # fmt: skip


class _Failed(Exception):
    """The process did not answer; the text says why."""


class Reader:
    """Reads the studies of a site, in another process.

    Parameters
    ----------
    root : Path
        The site's folder.
    settings : Settings
    keys : mapping of str to sequence of OwnKey
        The public keys of the site, and their files, for each data set.
    """

    def __init__(self, root: Path, settings: Settings, keys: Mapping[str, Sequence[OwnKey]]) -> None:
        named = settings.model_dump(mode="json")
        self._about: dict[str, Any] = {"root": str(root), "settings": named, "memory": _MEMORY}
        self._about["keys"] = _told_keys(keys)
        self._process: _Process | None = None
        self._known: dict[tuple[Mark, str], Known] = {}
        self._verdicts: dict[Path, tuple[tuple[Mark, ...], Verdict]] = {}
        self._slow: dict[Path, Mark] = {}

    def known(self, path: Path, data: str) -> Known:
        """Read a study.

        Raises
        ------
        MasqueradeError
            It is no valid study, or this site is none of its parties; or reading it takes too much.
        """
        mark = mark_of(path)
        if (found := self._known.get((mark, data))) is None:
            answer = self._last_try("known", path, data)
            found = _known_of(answer)
            if found is None:
                raise _error_of(answer) or BadInput("the study could not be read")
            _remember(self._known, (mark, data), found)
        return found

    def verdict(self, path: Path, data: str) -> Verdict:
        """Say what is to become of a study in the inbox; a file that has not changed is not read again."""
        mark = mark_of(path)
        before = self._verdicts.get(path)
        if before is not None and before[0] == _marks(mark, before[1]):
            return before[1]
        try:
            late = self._slow.get(path) == mark
            found = _verdict_of(
                self._last_try("verdict", path, data) if late else self._ask("verdict", path, data, _QUICK)
            )
        except BadInput as error:
            found = Verdict(Kind.REFUSED, error)
        except _Failed:
            _remember(self._slow, path, mark)
            return Verdict(Kind.WAITS, BadInput("it takes long to read, so it is read after all other files"))
        if found.known is not None:
            _remember(self._known, (mark, data), found.known)
        _remember(self._verdicts, path, (_marks(mark, found), found))
        return found

    def renew(self, keys: Mapping[str, Sequence[OwnKey]]) -> None:
        """Read all studies anew, with other keys of the site."""
        self.close()
        self._about["keys"] = _told_keys(keys)
        for memory in (self._known, self._verdicts, self._slow):
            memory.clear()

    def turn(self, path: Path) -> int:
        """Return when a file is read: what has an approval first, then what is new, then what takes long."""
        if (before := self._verdicts.get(path)) is not None:
            return 0 if any(file.exists() for file in before[1].rests_on[:1]) else 1
        return 3 if path in self._slow else 2

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _last_try(self, what: str, path: Path, data: str) -> dict[str, Any]:
        """Ask a fresh process, so that no file before this one counts.

        Raises
        ------
        BadInput
            It did not answer either.
        """
        if self._process is not None and self._process.asked:
            self.close()
        try:
            return self._ask(what, path, data, _SLOW)
        except _Failed as error:
            raise BadInput(f"the study could not be read: {error}", "ask the coordinator for a smaller one") from None

    def _ask(self, what: str, path: Path, data: str, seconds: int) -> dict[str, Any]:
        if self._process is not None and self._process.asked >= _MOST:
            self.close()
        if self._process is None:
            self._process = _Process(self._about)
        try:
            return self._process.ask([what, str(path), data, seconds])
        except _Failed:
            self.close()
            raise


class _Process:
    """The process that reads."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  this very program
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, start_new_session=True,
        )  # fmt: skip
        self.asked = 0
        self._memory = int(about["memory"])
        try:
            self._tell(about, _START)
        except _Failed:
            self.kill()
            raise

    def ask(self, question: object) -> dict[str, Any]:
        """Return the answer to a question; ``_Failed`` where there is none."""
        self.asked += 1
        return self._tell(question, _WALL)

    def kill(self) -> None:
        """End it, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _tell(self, message: object, seconds: float) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise _Failed("it has no pipes")
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise _Failed(self._end()) from None
        data, end = b"", time.monotonic() + seconds
        while not data.endswith(b"\n"):
            if not select.select([stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise _Failed(f"it took more than {seconds:g} seconds")
            more = os.read(stdout.fileno(), _LONGEST)
            data += more
            if not more or len(data) > _LONGEST:
                raise _Failed(self._end() if not more else "the answer was too long")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _end(self) -> str:
        """Say how the process ended."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "the process that read it closed its pipe"
        if code == -signal.SIGXCPU:
            return "it took too much processor time"
        if code == _OVER_MEMORY:
            return f"it took more than {self._memory >> 20} MB of memory"
        how = f"by {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"with exit code {code}"
        return f"the process that read it ended {how}"


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value


def _marks(mark: Mark, verdict: Verdict) -> tuple[Mark, ...]:
    """Return what changes when the verdict may; of a link, also what it leads to."""
    return (mark, *(each for file in verdict.rests_on for each in (mark_of(file), _behind(file))))


def _behind(file: Path) -> Mark:
    try:
        found = file.stat()
    except OSError:
        return GONE
    return found.st_ino, found.st_size, found.st_mtime_ns


# --- What goes through the pipe -----------------------------------------------------------


def _told_keys(keys: Mapping[str, Sequence[OwnKey]]) -> dict[str, list[tuple[str, str]]]:
    return {name: [(str(key), str(file)) for key, file in own] for name, own in keys.items()}


def _told_error(error: MasqueradeError | None) -> list[str] | None:
    return None if error is None else [error.error_code, error.message[:5000], error.hint[:5000]]


def _error_of(answer: Mapping[str, Any]) -> MasqueradeError | None:
    if (told := answer["error"]) is None:
        return None
    code, message, hint = told
    return _ERRORS.get(code, MasqueradeError)(message, hint)


def _told_known(known: Known) -> dict[str, Any]:
    return {field.name: _plain(getattr(known, field.name)) for field in fields(known)}


def _plain(value: object) -> object:
    return asdict(value) if isinstance(value, Facts) else str(value) if isinstance(value, Path) else value


def _known_of(answer: Mapping[str, Any]) -> Known | None:
    told = answer.get("known")
    if told is None:
        return None
    paths = {name: None if told[name] is None else Path(told[name]) for name in _PATHS}
    return Known(**{**told, **paths, "facts": Facts(**told["facts"])})


def _verdict_of(answer: Mapping[str, Any]) -> Verdict:
    rests_on = tuple(Path(file) for file in answer["rests_on"])
    return Verdict(Kind(answer["kind"]), _error_of(answer), Facts(**answer["facts"]), _known_of(answer), rests_on)


# --- The process itself ---------------------------------------------------------------------


def _answer(judge: Any, what: str, path: Path, data: str) -> dict[str, Any]:
    """Answer one question."""
    try:
        if what == "known":
            return {"known": _told_known(judge.known(path, data))}
        found = judge.verdict(path, data)
    except MasqueradeError as error:
        return {"kind": Kind.REFUSED, "error": _told_error(error), "facts": asdict(Facts()), "rests_on": []}
    except MemoryError:
        os._exit(_OVER_MEMORY)
    except Exception as error:  # noqa: BLE001  one study must not end the site; the text could hold anything
        words = f"this is a bug: reading the study raised a {type(error).__name__}"
        bug = MasqueradeError(words, "please report it")
        return {"kind": Kind.REFUSED, "error": _told_error(bug), "facts": asdict(Facts()), "rests_on": []}
    known = None if found.known is None else _told_known(found.known)
    rests_on = [str(file) for file in found.rests_on]
    return {
        "kind": found.kind, "error": _told_error(found.error), "facts": asdict(found.facts), "known": known,
        "rests_on": rests_on,
    }  # fmt: skip


def _limit(seconds: int) -> None:
    """Allow so much processor time from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _limit_memory(more: int) -> None:
    """Allow so many bytes of memory besides those that the process has now."""
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))


def _main() -> None:
    from masquerade_host.process.process import harden
    from masquerade_party.serving.judging import Judge

    harden()
    about = json.loads(sys.stdin.buffer.readline())
    keys = {name: [(PublicKeys.parse(key), Path(file)) for key, file in own] for name, own in about["keys"].items()}
    judge = Judge(Path(about["root"]), Settings.model_validate(about["settings"]), keys)
    if sys.platform == "linux":
        _limit_memory(about["memory"])
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    os.write(out, b"{}\n")
    for line in sys.stdin.buffer:
        what, path, data, seconds = json.loads(line)
        _limit(seconds)
        os.write(out, json.dumps(_answer(judge, what, Path(path), data)).encode() + b"\n")


if __name__ == "__main__":
    _main()
