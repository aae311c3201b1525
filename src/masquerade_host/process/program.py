"""Which program this is: a hash of each file that a run can load of it, and the versions of what it builds on.

A run ends when its program changes: what a process would send after a restart must follow from what it sent before. So
a party's and Charlie's process note their program when an attempt begins, and compare it when they are started again.
Nobody compares two participants' programs. Everybody says a hash of its own, which stands in the transcripts.

All modules of :data:`PACKAGES` count, whether a process has loaded them yet or not, and so do those of a protocol that
is installed beside this tree. Of other distributions only the version counts. What is changed under a process that runs
is found when it is started again.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from masquerade_core.errors import ProgramChanged
from masquerade_core.words import counted, listed

__all__ = ["DEPENDENCIES", "PACKAGES", "PROGRAM_BYTES", "Program", "code_of"]

PACKAGES = (
    "masquerade_core",
    "masquerade_host",
    "masquerade_protocols",
    "masquerade_party",
    "masquerade_curator",
)
"""The packages that a run consists of. They are the same at a party and at Charlie, so two hashes can be compared."""

DEPENDENCIES = frozenset(
    {
        *("adbc-driver-postgresql", "distributed", "duckdb", "gmpy2", "jinja2", "joblib", "matplotlib", "msgpack"),
        *("numpy", "onnx", "phe", "prometheus-client", "pyarrow", "pydantic", "pynacl", "pyzmq", "rich"),
        *("scikit-learn", "scipy", "skops", "threadpoolctl", "typer"),
    }
)
"""The distributions that this one names as its dependencies, extras included."""

PROGRAM_BYTES = 32
_FILE_BYTES = 16
_INSTALLED = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(-py[0-9.]+)?\.(dist|egg)-info")
_SHOWN = 4  # changes that a sentence names


@dataclass(frozen=True)
class Program:
    """A program, as it is on the disk.

    Attributes
    ----------
    files : mapping of str to str
        Each file's path, from its package on, with a hash of its bytes in hexadecimal digits.
    versions : mapping of str to str
        Those of Python and of the dependencies that are installed.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls, *more: str) -> Self:
        """Return the program of this process; ``more`` are modules whose top packages count as well."""
        packages = dict.fromkeys((*PACKAGES, *(module.partition(".")[0] for module in more)))
        files = {name: _hashed(data) for package in packages for name, data in _files_of(package)}
        return cls(files, {"python": platform.python_version(), **_installed()})

    @property
    def digest(self) -> bytes:
        """The hash (32 bytes) of all files, which others are told."""
        text = json.dumps(sorted(self.files.items()))
        return hashlib.blake2b(text.encode(), digest_size=PROGRAM_BYTES, person=b"masq program").digest()

    def packed(self) -> bytes:
        """Return the bytes that a journal keeps."""
        return json.dumps([dict(self.files), dict(self.versions)], sort_keys=True).encode()

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """Return the program of :meth:`packed`."""
        return cls(*json.loads(data))

    def check_same(self, before: Self) -> None:
        """Check that this is the program with which an attempt began.

        Raises
        ------
        ProgramChanged
            It is another one.
        """
        changed = [
            f"{name} was {then or 'not there'} and is {now or 'gone'}"
            for name, then, now in _differences(before.versions, self.versions)
        ]
        changed += [
            f"{name} {'is new' if then is None else 'is gone' if now is None else 'has other contents'}"
            for name, then, now in _differences(before.files, self.files)
        ]
        if changed:
            more = counted(len(changed) - _SHOWN, "other change")
            shown = (*changed[:_SHOWN], *((more,) if len(changed) > _SHOWN else ()))
            raise ProgramChanged(
                f"this program has changed since the run began: {listed(shown)}. A run ends when its program changes",
                "nothing more was sent, and the others were told; start the run again, with everybody",
            )


def code_of(distribution: str, version: str, module: str) -> str:
    """Return in a line which code a module of another distribution is, without loading it.

    It ends with the start of a hash over all files of the module's top package, in eight groups of four hexadecimal
    digits, for people to compare.
    """
    package = module.partition(".")[0]
    digits = Program({name: _hashed(data) for name, data in _files_of(package)}).digest.hex()[:32]
    return f"{distribution} {version}, {package}: {' '.join(digits[i : i + 4] for i in range(0, 32, 4))}"


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield name, before.get(name), now.get(name)


def _hashed(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_FILE_BYTES).hexdigest()


def _files_of(package: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an installed package or module. What Python compiles from them for itself does not count."""
    spec = find_spec(package)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield package, Path(spec.origin or "").read_bytes()
        return
    for root in spec.submodule_search_locations:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = Path(folder, name)
                yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()


def _installed() -> dict[str, str]:
    """Return the versions of the dependencies, by the names of the folders that say what is installed.

    To ask ``importlib.metadata`` would take longer than to read all of this program.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        names = os.listdir(place) if os.path.isdir(place) else ()  # noqa: PTH208, PTH112  a Path is slower
        for name in names:
            if match := _INSTALLED.fullmatch(name):
                distribution = re.sub(r"[-_.]+", "-", match["name"]).lower()
                if distribution in DEPENDENCIES:
                    found.setdefault(distribution, match["version"])
    return found
