"""The process that reads a site's inbox: its limits, what a file costs that exceeds them, and what is read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nacl.pwhash import argon2id

from masquerade_core.study import Study
from masquerade_host.store import locked_keys
from masquerade_host.store.locked_keys import VARIABLE
from masquerade_host.store.new_keys import rotate_keys
from masquerade_party.serving import reading, service
from masquerade_party.serving.folders import Folders, Item, Place
from masquerade_party.serving.reading import Reader
from masquerade_party.serving.server import _LONGEST_NAME, _safe
from masquerade_party.serving.settings import load_settings
from masquerade_party.serving.verdicts import Kind
from tests.hostile import SPECIAL
from tests.messages import says
from tests.unit.parties.test_site_judging import Site
from tests.unit.parties.test_site_server import World


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def reader(site: Site) -> Iterator[Reader]:
    settings = load_settings(site.root)
    made = Reader(site.root, settings, service._keys(site.root, settings))
    yield made
    made.close()


def _asked(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note what the process is asked."""
    asked: list[object] = []
    ask = reading._Process.ask

    def noting(process: reading._Process, question: list[object]) -> dict[str, object]:
        asked.append(question[0])
        return ask(process, question)

    monkeypatch.setattr(reading._Process, "ask", noting)
    return asked


def test_another_process_says_what_the_judge_says(site: Site, reader: Reader) -> None:
    for change in (lambda: None, lambda: site.budget().close(), site.approve, lambda: site.write(("[study]", "[stud"))):
        change()
        here, there = site.verdict(), reader.verdict(site.path, "patients")
        assert (there.kind, there.facts, there.known) == (here.kind, here.facts, here.known)
        told = [None if v.error is None else (type(v.error), v.error.message, v.error.hint) for v in (here, there)]
        assert told[0] == told[1]


def test_a_site_that_serves_knows_rotated_keys_at_once(
    site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_keys, "_PASSES", argon2id.OPSLIMIT_MIN)
    monkeypatch.setattr(locked_keys, "_MEMORY", argon2id.MEMLIMIT_MIN)
    site.budget().close()
    assert reader.verdict(site.path, "patients").facts.participant == "p1"
    rotated, said = rotate_keys(site.root / "site.key", lambda _: "an umbrella for nine cats"), list[str]()
    new = Study.parse(site.text.replace(str(site.keys["site"]), str(rotated.keys.public)))
    (other := site.path.with_name("other.toml")).write_text(new.to_toml())
    assert reader.verdict(other, "patients").kind is Kind.REFUSED
    monkeypatch.delenv(VARIABLE, raising=False)
    service._renew(reader, site.root, load_settings(site.root), said.append)  # nobody is asked for the passphrase
    assert says(said[-1], "old_keys_go_on", ..., ...)
    assert reader.verdict(other, "patients").kind is Kind.REFUSED
    (words := site.root / "passphrase").write_text("an umbrella for nine cats")
    words.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(words))
    service._renew(reader, site.root, load_settings(site.root), said.append)
    assert says(said[-1], "new_keys_known")
    for path, key in ((other, site.root / "site.key"), (site.path, rotated.kept)):
        known = reader.verdict(path, "patients").known
        assert known is not None
        assert known.key == key


def test_a_verdict_stays_until_a_file_changes_on_which_it_rests(
    site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _asked(reader, monkeypatch)
    steps: list[tuple[Callable[[], object], Kind]] = [
        (lambda: None, Kind.WAITS),
        (lambda: site.budget().close(), Kind.WAITS),
        (site.approve, Kind.READY),
        ((site.root / "records.csv").unlink, Kind.WAITS),
        (lambda: (site.root / "records.csv").write_text("x,y\n"), Kind.READY),
        (lambda: site.state.policy.write_text("[study]\nmax_epsilon = 0.5\n"), Kind.REFUSED),
        (site.state.policy.unlink, Kind.READY),
        (lambda: site.path.write_text("broken"), Kind.REFUSED),
    ]
    for i, (step, kind) in enumerate(steps):
        step()
        for _ in range(3):
            assert reader.verdict(site.path, "patients").kind is kind
        assert len(asked) == i + 1


def test_a_run_that_ends_needs_no_second_reading(site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    site.budget().close()
    site.approve()
    known = reader.verdict(site.path, "patients").known
    asked = _asked(reader, monkeypatch)
    running = site.folders.study(Item(Place.RUNNING, "patients", "study"))
    site.path.rename(running)
    assert reader.known(running, "patients") == known
    assert asked == []


LARGE = "".join(f"[a{i}.b.c.d]\n" for i in range(150_000))  # 2.5 MB, and some 500 MB as tables
SLOW = "a = [" + "{b=1}," * 400_000 + "]\n"


@pytest.mark.parametrize(
    ("limits", "text", "words"),
    [
        ({"_MEMORY": 32 << 20}, LARGE, "32 MB of memory"),
        ({"_QUICK": 0, "_SLOW": 0}, SLOW, "processor time"),
        ({"_WALL": 0.0}, SLOW, "more than 0 seconds"),
    ],
)
def test_a_file_that_takes_too_much_costs_itself_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float], text: str, words: str
) -> None:
    site.budget().close()
    site.approve()
    bad = site.path.with_name("bad.toml")
    bad.write_text(text)
    settings = load_settings(site.root)
    keys = service._keys(site.root, settings)
    with monkeypatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(reading, name, value)
        reader = Reader(site.root, settings, keys)
        first = reader.verdict(bad, "patients")
    assert (first.kind, "takes long" in str(first.error)) == (Kind.WAITS, True)
    assert reader.turn(bad) > reader.turn(site.path)
    assert reader.verdict(site.path, "patients").kind is Kind.READY
    with monkeypatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(reading, name, value)
        last = reader.verdict(bad, "patients")
    assert (last.kind, words in str(last.error)) == (Kind.REFUSED, True), last.error
    assert reader.verdict(bad, "patients") is last
    assert reader.verdict(site.path, "patients").kind is Kind.READY
    reader.close()


def test_a_process_reads_so_many_files_and_the_next_one_goes_on(
    site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST", 2)
    numbers = []
    for i in range(4):
        site.path.write_text(f"broken {i}")
        assert reader.verdict(site.path, "patients").kind is Kind.REFUSED
        assert reader._process is not None
        numbers.append(reader._process._process.pid)
    assert [numbers[0] == numbers[1], numbers[2] == numbers[3], numbers[1] == numbers[2]] == [True, True, False]


def test_the_process_is_ended_with_the_site(site: Site, reader: Reader) -> None:
    reader.verdict(site.path, "patients")
    assert reader._process is not None
    number = reader._process._process.pid
    reader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


# --- What the site does with the files themselves ------------------------------------------------


@pytest.mark.parametrize(
    "name", ["x" * 250, "y" * (_LONGEST_NAME + 1), "two\nlines", "turned\u202e", os.fsdecode(b"\xff"), "b\x07"]
)
def test_a_file_whose_name_cannot_be_carried_is_refused_under_another(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, "patients")
    world.drop(name)
    world.drop("good")
    world.look()
    assert world.runner.started == ["good"]
    (refused,) = world.at(Place.REFUSED)
    record = world.record(refused, Place.REFUSED)
    assert (refused, refused.isascii(), len(refused) < 40) == (_safe(name), True, True)
    assert (record.exit_code, says(record.message, "file_name_refused")) == (4, True)
    assert record.message.isprintable()


def test_a_name_of_other_letters_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, "patients")
    world.drop("étude-研究")
    world.look()
    assert world.runner.started == ["étude-研究"]


def test_a_file_that_cannot_be_moved_hinders_no_other_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, "patients")
    move = Folders.move

    def moving(folders: Folders, item: Item, *given: object) -> Item:
        if item.name == "broken":
            raise PermissionError(1, "Operation not permitted")
        return move(folders, item, *given)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(Folders, "move", moving)
    for name in ("broken", "good", "dear"):
        world.drop(name, name)
    world.look()
    world.look()
    assert (world.runner.started, world.at(Place.REFUSED)) == (["good"], ["dear"])
    assert sum(says(line, "file_not_moved") for line in world.said) == 1


def test_reading_stops_when_a_look_has_taken_its_time_and_the_next_one_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, "patients")
    judge = world.verdict

    def slowly(path: Path, data: str) -> object:
        world.now += 0.4
        return judge(path, data)

    world.verdict = slowly  # type: ignore[method-assign,assignment]  # of this world alone
    for i in range(10):
        world.drop(f"dear-{i}", "dear")
    world.look()
    assert 0 < len(world.at(Place.REFUSED)) < 10
    for _ in range(5):
        world.look()
    assert len(world.at(Place.REFUSED)) == 10


def test_special_files_are_refused_by_the_process(site: Site, reader: Reader) -> None:
    for kind, make in SPECIAL.items():
        path = site.path.with_name(f"{kind}.toml")
        make(path)
        found = reader.verdict(path, "patients")
        assert (found.kind, found.error is not None and found.error.exit_code) == (Kind.REFUSED, 4), kind
