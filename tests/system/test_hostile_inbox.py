"""A thousand hostile files in a site's inbox: the site stays small, and the one study that is approved starts."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import SPECIAL, texts
from tests.processes import Machines
from tests.system.test_site import Site

pytestmark = pytest.mark.timeout(600)

FILES = 1000
SITE_MB = 150
READER_MB = 150
NAMES = [
    b"x" * 250,
    b"y" * 245,
    b"\xff\xfe-no-text",
    "turned-\u202e-name".encode(),
    b"two\nlines",
    b"bell-\x07",
    "\U0001f600".encode() * 60,
    b"a" * 200 + b".site.json",
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    machines = Machines.new(tmp_path, K=2, deadline=60.0)
    made = Site(machines)
    yield made
    made.close()
    machines.close()


def fill(inbox: Path, good: str) -> Counter[str]:
    """Put a thousand hostile files into a folder; return how many there are of each kind."""
    contents = texts(good)
    kinds = [*SPECIAL, *contents, *(f"name {i}" for i in range(len(NAMES)))]
    for i in range(FILES):
        kind = kinds[i % len(kinds)]
        if kind in SPECIAL:
            SPECIAL[kind](inbox / f"{kind}-{i}.toml")
        elif kind in contents:
            (inbox / f"{kind}-{i}.toml").write_bytes(contents[kind])
        else:
            name = NAMES[int(kind.split()[1])]
            number = f"{i:04}".encode()
            raw = name[: 250 - len(number)] + number + b".toml"
            (Path(os.fsdecode(os.path.join(os.fsencode(inbox), raw)))).write_text(good)  # noqa: PTH118  bytes
    return Counter(kinds[i % len(kinds)] for i in range(FILES))


class Peaks:
    """The most memory that the site's process and its reader had so far, in MB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.site = self.reader = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.site = max(self.site, _peak(self._pid))
            children = Path(f"/proc/{self._pid}/task/{self._pid}/children")
            for child in _read(children).split():
                if "masquerade_party.serving.reading" in _read(Path(f"/proc/{child}/cmdline")):
                    self.reader = max(self.reader, _peak(int(child)))

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _peak(pid: int) -> float:
    lines = [line for line in _read(Path(f"/proc/{pid}/status")).splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1000 if lines else 0.0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the peak of a process's memory is read from /proc")
def test_a_thousand_hostile_files_hinder_no_study_and_cost_a_sentence_each(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    good = site.machines.study.to_toml()
    kinds = fill(site.inbox, good)
    site.drop("good", {}, approved=True)
    begin = time.monotonic()
    site.start()
    assert site._process is not None
    peaks = Peaks(site._process.pid)
    try:
        site.wait(lambda: site.is_at("running", "good"), 400)
        started = time.monotonic() - begin
        refused = site.says("is refused")
        site.wait(lambda: not any(name.endswith(".toml") for name in os.listdir(site.inbox)), 500)  # noqa: PTH208
    finally:
        peaks.end()
    took = time.monotonic() - begin
    words = f"started after {started:.1f} s, with {refused} refused; {FILES} of {len(kinds)} kinds took {took:.1f} s; "
    with capsys.disabled():
        sys.stderr.write(f"\n{words}peak of the site {peaks.site:.0f} MB, of its reader {peaks.reader:.0f} MB\n")
    assert refused < FILES / 2  # else it would start late, however fast this machine is
    told = [study for study in site.status()["studies"] if study["state"] == "refused"]
    assert len(told) == FILES
    assert {study["exit_code"] for study in told} <= {4}
    assert all(20 < len(study["message"]) < 6000 for study in told)
    assert 0 < peaks.site < SITE_MB
    assert 0 < peaks.reader < READER_MB
    assert site.end(signal.SIGTERM) == 0
