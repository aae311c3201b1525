"""Every test draws the same numbers each time, so that a failure can be looked at again. No test sees another's state.

Noise is tested by its law, and such a test fails by chance once in a million runs. With thousands of them, a failure
that cannot be repeated says little. So what the tests in this process draw follows from ``--seed`` and the test's name.
``--seed random`` takes another seed in each session, and the first lines of the report name it.
"""

import gc
import secrets
import threading
from functools import lru_cache
from types import SimpleNamespace

import pytest
from nacl.signing import VerifyKey

import masquerade_core.rng
from masquerade_core.crypto import boxes
from masquerade_core.simulation_rng import SimulationRng


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--seed``."""
    parser.addoption("--seed", default="0", help="of what the tests draw: any text, or 'random' for another one")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed once, before the workers start; they get the same options."""
    if config.option.seed == "random":
        config.option.seed = secrets.token_hex(8)
    vars(boxes)["VerifyKey"] = _RememberingKey


class _RememberingKey:
    """Verifies a short text once. All participants of a run are in one process here, and check the same signatures."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def verify(self, data: bytes, signature: bytes) -> None:
        (_verify if len(data) > _SHORT else _verify_once)(self._public, data, signature)


_SHORT = 4096


def _verify(public: bytes, data: bytes, signature: bytes) -> None:
    VerifyKey(public).verify(data, signature)


_verify_once = lru_cache(1 << 14)(_verify)  # where it does not raise


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed."""
    return f"what the tests draw: --seed {config.option.seed}"


def pytest_collection_finish() -> None:
    """Let no later search for garbage go through thousands of tests, which stay to the end."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _repeatable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system's source of randomness repeat itself."""
    stream, lock = SimulationRng(request.config.option.seed, request.node.nodeid), threading.Lock()

    def token_bytes(n: int) -> bytes:
        with lock:
            return stream.bytes(n)

    monkeypatch.setattr(masquerade_core.rng, "secrets", SimpleNamespace(token_bytes=token_bytes))


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep away from the ledger of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / secrets.token_hex(8)))
