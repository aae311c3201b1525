"""A protocol of another distribution runs its code only where a study names it, and what a site approved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from masquerade_core.study_files import load_study
from masquerade_host.store.new_keys import make_keys
from masquerade_protocols import BASELINES, MEASUREMENTS, PROTOCOLS, entry_named
from masquerade_protocols.plugins import plugin_names
from masquerade_protocols.registry import DEFAULT_PROTOCOL, Entries
from tests import ROOT
from tests.messages import says

_ENTRY = """
import pathlib
(pathlib.Path(__file__).parents[1] / "loaded").open("a").write("{name}\\n")
from dataclasses import replace
from tests.toy_means.entry import TOY_MEANS
ENTRY = replace(TOY_MEANS, name="{name}")
"""
_KEYS = ("--throwaway-keys", "--party", "north", "--party", "south", "--address", "tcp://127.0.0.1:9")


class Place:
    """A machine on which two distributions with protocols are installed; each notes that it was loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "loaded"
        self.site = folder / "site"

    def made(self) -> Place:
        for name in ("planted", "wished"):
            self.install(f"{name}-code", name, name)
        for name, columns in (("own", ()), ("other", ("--protocol", "wished"))):
            more = () if columns else ("--feature", "age:0:120", "--label", "ill:yes", "--min-records", "2")
            self("study", "new", "--output", f"{name}.toml", "--name", name, *columns, *more, *self._with_keys(name))
        self("budget", "init", "--epsilon", "10", "--delta", "0.1", "--state", "state")
        (self.folder / "records.csv").write_text("age,ill\n31,no\n62,yes\n")
        self.mark.unlink(missing_ok=True)
        return self

    def _with_keys(self, name: str) -> list[str]:
        words = ["--address", "tcp://127.0.0.1:9"]
        for who in ("north", "south", "charlie"):
            public = str(make_keys(self.folder / f"{name}-{who}.key").public)
            words += ["--curator-key", public] if who == "charlie" else ["--party", f"{who}={public}"]
        return words

    def install(self, distribution: str, name: str, module: str) -> None:
        metadata = self.site / f"{distribution.replace('-', '_')}-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[masquerade.protocols]\n{name} = {module}:ENTRY\n")
        (self.site / f"{module}.py").write_text(_ENTRY.format(name=name))

    def __call__(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        paths = [str(self.site), str(ROOT), *(os.path.abspath(p) for p in sys.path if p)]  # noqa: PTH100
        done = subprocess.run(
            [sys.executable, "-m", "masquerade", *words], cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdin=subprocess.DEVNULL, timeout=300,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stderr
        return done

    def loaded(self) -> set[str]:
        """Return which protocols were loaded since this was asked last."""
        found = set(self.mark.read_text().split()) if self.mark.exists() else set()
        self.mark.unlink(missing_ok=True)
        return found

    def given(self, name: str) -> tuple[str, ...]:
        return (f"{name}.toml", "--key", f"{name}-north.key", "--state", "state")

    def fingerprint(self, name: str) -> str:
        return load_study(self.folder / f"{name}.toml")[0].fingerprint()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place")).made()


@pytest.fixture
def another_place(place: Place, tmp_path: Path) -> Place:
    """A machine like that one, for tests that change what is installed."""
    return Place(shutil.copytree(place.folder, tmp_path / "place"))


@pytest.mark.parametrize("name", ["own", "other"])
def test_a_planted_entry_point_runs_only_where_the_study_names_it(place: Place, name: str) -> None:
    mine = {"own": set(), "other": {"wished"}}[name]
    run = ("--data", "records.csv", "--approved", "--out", "out")
    for code, loads, words in (
        (0, mine, ("study", "check", f"{name}.toml")),
        (0, mine, ("statement", f"{name}.toml")),
        (6, mine, ("party", *place.given(name), *run)),  # nobody has approved
        (0, mine, ("approve", *place.given(name), "--fingerprint", place.fingerprint(name))),
        (4, mine, ("curator", f"{name}.toml", "--key", f"{name}-north.key", "--out", "out")),  # no key of Charlie's
        (4, set(), ("predict", f"{name}.toml", "records.csv")),
        (4, set(), ("study", "new", "--output", "new.toml", "--protocol", "no-such-protocol", *_KEYS)),
    ):
        place(*words, code=code)
        assert place.loaded() == loads, words


def test_what_a_site_approves_of_says_whose_code_it_is(place: Place) -> None:
    show = " ".join(place("study", "show", "other.toml").stderr.split())
    assert says(show, "not_part_of_program", "wished", ...)
    assert "wished-code 1, wished: " in show
    approve = place("approve", *place.given("other"), "--fingerprint", place.fingerprint("other"))
    (digits,) = (line.partition("wished: ")[2][:39] for line in [" ".join(approve.stderr.split())])
    assert digits in show
    (record,) = (
        file.read_text() for file in (place.folder / "state" / "approvals").iterdir() if "other" in file.read_text()
    )
    assert f'"code": "wished-code 1, wished: {digits}"' in record
    assert not says(place("study", "show", "own.toml").stderr, "not_part_of_program", ..., ...)


def test_other_code_than_was_approved_of_is_not_even_loaded(place: Place) -> None:
    place("approve", *place.given("other"), "--fingerprint", place.fingerprint("other"))
    place.loaded()
    file = place.site / "wished.py"
    before = file.read_text()
    file.write_text(before + "# changed\n")
    try:
        run = ("party", *place.given("other"), "--data", "records.csv", "--approved", "--out", "out-changed")
        ended = place(*run, code=6)
        assert "wished-code 1" in ended.stderr
        assert place.loaded() == set()
    finally:
        file.write_text(before)


def test_no_other_distribution_takes_a_name_of_this_program(another_place: Place) -> None:
    place = another_place
    place.install("evil-code", DEFAULT_PROTOCOL, "evil")
    place("study", "check", "own.toml")
    assert place.loaded() == set()
    place.install("second-code", "wished", "second")
    said = place("study", "check", "other.toml", code=4)
    assert ("second-code 1" in said.stderr, "wished-code 1" in said.stderr, place.loaded()) == (True, True, set())


def test_code_that_fails_is_a_sentence(another_place: Place) -> None:
    place = another_place
    for text in ("1 / 0", "ENTRY = 1", "import no_such_module", "raise SystemExit(0)"):
        (place.site / "wished.py").write_text(text + "\n")
        said = place("study", "check", "other.toml", code=4)
        assert "wished-code 1" in said.stderr


def test_an_entry_of_another_name_than_it_is_installed_under_is_refused(another_place: Place) -> None:
    place = another_place
    text = (place.site / "wished.py").read_text()
    (place.site / "wished.py").write_text(text.replace('name="wished"', 'name="another"'))
    said = place("study", "check", "other.toml", code=4)
    assert "wished-code 1" in said.stderr


def test_every_entry_stands_under_its_own_name_and_kind() -> None:
    for known, baseline, measures in ((PROTOCOLS, False, False), (MEASUREMENTS, False, True), (BASELINES, True, False)):
        assert isinstance(known, Entries)
        for name, entry in known.items():
            assert (entry.name, entry.baseline, entry.measures) == (name, baseline, measures)
            assert entry_named(name) is entry
    assert DEFAULT_PROTOCOL in PROTOCOLS
    assert set(plugin_names()).isdisjoint({*PROTOCOLS, *MEASUREMENTS, *BASELINES})


def test_a_process_imports_the_protocol_that_was_asked_for_and_no_other() -> None:
    script = (
        "import sys; from masquerade_protocols import PROTOCOLS, entry_named; list(PROTOCOLS); "
        "before = {m for m in sys.modules if m.startswith('masquerade_protocols.dp_')}; entry_named('dp-gd'); "
        "print(sorted(before), sorted({m.split('.')[1] for m in sys.modules if m.endswith('.roles')}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['dp_gd']\n"
