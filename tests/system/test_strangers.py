"""Charlie in a process of his own, and whoever can reach his port: what it costs him, and that honest parties join.

The limits are those of memory: a busy machine changes nothing about them. The floods are processes too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.keyfiles import Keys
from tests.host_helpers import World, free_port, run_together, study_text, toy_party

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, and a thread watches there")

MEGABYTE = 1 << 20
LIMIT = 64  # MB
FRAME = 4 * MEGABYTE
LET_THROUGH = 16 * 1024 - 1  # bytes: the longest command that libzmq holds until it is whole

_CHARLIE = """
import json, sys
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.keyfiles import Keys
from masquerade_host.process.process import harden
from tests.host_helpers import World, run_together
harden()
told = json.loads(sys.stdin.readline())
keys = {name: Keys(bytes.fromhex(curve), bytes.fromhex(seed)) for name, (curve, seed) in told["keys"].items()}
world = World(Study.parse(told["study"]), keys)
say = lambda event, **fields: print(event, flush=True)
outcome = run_together({CHARLIE: world.charlie(observe=say)})
print(*(f"{type(error).__name__}: {error}" for error in outcome.errors.values()), flush=True)
sys.exit(1 if outcome.errors else 0)
"""


class Hosted:
    """A world whose Charlie is a process.

    Parameters
    ----------
    K : int
        Parties in the study.
    """

    def __init__(self, K: int) -> None:
        rng = SystemRng()
        names = (*(f"p{j}" for j in range(1, K + 1)), CHARLIE)
        self.raw = {name: (rng.bytes(32), rng.bytes(32)) for name in names}
        keys = {name: Keys(*pair) for name, pair in self.raw.items()}
        self.port = free_port()
        public = {name: key.public for name, key in keys.items()}
        self.world = World(Study.parse(study_text(public, f"tcp://127.0.0.1:{self.port}", 120)), keys)
        self.floods: list[subprocess.Popen[str]] = []
        self.charlie = subprocess.Popen(
            [sys.executable, "-c", _CHARLIE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.charlie.stdin is not None
        secrets = {name: [curve.hex(), seed.hex()] for name, (curve, seed) in self.raw.items()}
        self.charlie.stdin.write(json.dumps({"study": self.world.study.to_toml(), "keys": secrets}) + "\n")
        self.charlie.stdin.flush()
        assert self.charlie.stdout is not None
        assert "listening" in self.charlie.stdout.readline()
        self._before = self.memory("VmRSS")

    def memory(self, what: str = "VmHWM") -> float:
        """Return the most memory that Charlie has had, in MB."""
        text = Path(f"/proc/{self.charlie.pid}/status").read_text()
        return int(text.partition(f"{what}:")[2].split()[0]) / 1024

    @property
    def growth(self) -> float:
        """By how many MB Charlie has grown at most."""
        return self.memory() - self._before

    def flood(self, kind: str, name: str = "", **options: object) -> subprocess.Popen[str]:
        """Start a flood, a stranger's or that of the party ``name``."""
        if name:
            options |= {
                "secret": self.raw[name][0].hex(),
                "server": self.world.keys[CHARLIE].public.curve.hex(),
            }
        words = json.dumps({"port": self.port, **options})
        flood = subprocess.Popen([sys.executable, "-m", "tests.floods", kind, words], stdout=subprocess.PIPE, text=True)
        self.floods.append(flood)
        assert flood.stdout is not None
        assert flood.stdout.readline() == "begun\n"
        return flood

    def close(self) -> None:
        """End what still runs."""
        for process in (*self.floods, self.charlie):
            process.kill()
            process.communicate()


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    """Charlie and three parties."""
    hosted = Hosted(3)
    yield hosted
    hosted.close()


def everybody_ends_well(hosted: Hosted, roles: dict[str, object] | None = None) -> None:
    outcome = run_together({name: hosted.world.party(name) for name in hosted.world.study.names}, roles)
    assert not outcome.errors
    assert len(set(outcome.results.values())) == 1
    assert hosted.charlie.wait(120) == 0


@pytest.mark.parametrize("length", [FRAME, LET_THROUGH])
def test_a_thousand_strangers_before_the_roster(hosted: Hosted, length: int) -> None:
    flood = hosted.flood("strangers", sockets=1000, length=length, seconds=20)
    assert int(flood.communicate(timeout=60)[0]) > 0
    assert hosted.growth < LIMIT
    hosted.flood("strangers", sockets=1000, length=length, seconds=20, again=True)
    everybody_ends_well(hosted)


def test_a_thousand_strangers_after_the_roster(hosted: Hosted) -> None:
    grown: list[float] = []
    once = threading.Lock()

    def pause() -> None:
        with once:
            if not grown:
                for length in (FRAME, LET_THROUGH):
                    hosted.flood("strangers", sockets=1000, length=length, seconds=20).wait(60)
                grown.append(hosted.growth)

    names = hosted.world.study.names
    everybody_ends_well(hosted, {name: lambda seat: toy_party(seat, pause) for name in names})
    assert grown[0] < LIMIT


def test_two_thousand_strangers_that_come_again_and_again_end_nothing(hosted: Hosted) -> None:
    flood = hosted.flood("strangers", sockets=2000, length=100, seconds=20, again=True)
    everybody_ends_well(hosted)
    assert flood.poll() is None


def test_four_listed_parties_that_flood_cost_little_each() -> None:
    """Charlie waits for two more parties meanwhile, and the others' frames are nobody's end."""
    hosted = Hosted(6)
    try:
        kinds = {"p1": "endless", "p2": "unfinished", "p3": "frames", "p4": "endless"}
        floods = [hosted.flood(kind, name, seconds=3) for name, kind in kinds.items()]
        done = [int(flood.communicate(timeout=60)[0]) for flood in floods]
        assert min(done) > 0
        assert hosted.growth < 4 * LIMIT
        assert hosted.charlie.poll() is None
    finally:
        hosted.close()
