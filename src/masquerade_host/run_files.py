"""The bytes of a run's files, and their hashes: what a participant signs must be what stands on its disk."""

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from masquerade_core import __version__
from masquerade_core.study import Study
from masquerade_host.transcript import hash_of_files, hashed

__all__ = ["Content", "hash_of_release", "hash_of_statement", "text_of", "versions"]

Content = Mapping[str, Any] | str
_LIBRARIES = ("msgpack", "numpy", "pydantic", "pynacl", "pyzmq", "scipy")


def text_of(content: Content) -> str:
    """Return the text of a file: a text as it is, and a JSON value with indentation."""
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def hash_of_release(release: object, study: Study, run: bytes) -> bytes:
    """Return the hash of the files that publish what a role returned. It is the same at all participants."""
    files = getattr(release, "files", None)
    published: Mapping[str, Content] = {} if files is None else files(study, run)
    return hash_of_files({name: text_of(content).encode() for name, content in published.items()})


def hash_of_statement(statement: object) -> bytes:
    """Return the hash of a privacy statement's rows. It is the same at all participants."""
    return hashed(json.dumps(statement, ensure_ascii=False, allow_nan=False, sort_keys=True).encode())


def versions() -> dict[str, str]:
    """Return the versions of this program, of Python, and of the libraries that compute and carry a run."""
    found = {"masquerade": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
