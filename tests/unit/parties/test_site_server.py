"""The actions of a site at each look at its folders, with runs and verdicts made by a test."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from masquerade_core.errors import BadInput, BudgetExceeded, MasqueradeError, RefusedLocally
from masquerade_party.serving.folders import Folders, Item, Place, Record, State
from masquerade_party.serving.server import SETTLED, Server
from masquerade_party.serving.verdicts import Facts, Kind, Known, Verdict
from tests.messages import says

DIES = -signal.SIGKILL
VERDICTS = {
    "good": Verdict(Kind.READY, None, Facts("good", "ab cd", "p1")),
    "dear": Verdict(Kind.REFUSED, BudgetExceeded("too dear", "decline it"), Facts("dear", "12 34", "p1")),
    "asked": Verdict(Kind.WAITS, RefusedLocally("no approval", "approve"), Facts("asked", "56 78", "p1")),
    "broken": Verdict(Kind.REFUSED, BadInput("it is not TOML", "correct it")),
}


@dataclass
class FakeChild:
    """A process that ends when the test says so."""

    item: Item
    code: int | None = None
    signals: list[int] = field(default_factory=list)

    def ended(self) -> int | None:
        return self.code

    def stop(self, number: int) -> None:
        self.signals.append(number)


class FakeRunner:
    """Notes what is started."""

    def __init__(self) -> None:
        self.children: list[FakeChild] = []
        self.orphans: dict[str, FakeChild] = {}

    def start(self, item: Item, known: Known) -> FakeChild:
        del known
        self.children.append(FakeChild(item))
        return self.children[-1]

    def adopted(self, data: str) -> FakeChild | None:
        child = self.orphans.get(data)
        return child if child is not None and child.code is None else None

    @property
    def started(self) -> list[str]:
        return [child.item.name for child in self.children]


class World:
    """A site's folder, and a clock that the test moves."""

    def __init__(self, root: Path, *data: str) -> None:
        self.root, self.data = root, data
        self.folders = Folders(root)
        self.folders.make(data)
        self.now = 1_000_000.0
        self.said: list[str] = []
        self.runner = FakeRunner()
        self.crash: type[Exception] | None = None
        self.new_site()

    def new_site(self) -> None:
        """Start a site's process, as after a power cut."""
        self.server = Server(
            self.folders, self.data, self, self.runner, self.said.append, lambda: self.now, lambda: self.now
        )

    # What reads studies: a file's first word is its verdict.

    def known(self, path: Path, data: str) -> Known:
        text = path.read_text()
        if text.startswith("broken"):
            raise BadInput("it is not TOML", "correct it")
        name = path.name.removesuffix(".toml")
        results, journal = self.root / "results" / data / name, self.root / "journals" / name
        beside = "beside.csv" if "beside" in text else ""
        return Known(
            Facts(name, "ab cd", "p1"), "r.csv", Path("r.csv"), Path("k"), results, None, None, journal, beside
        )

    def verdict(self, path: Path, data: str) -> Verdict:
        del data
        if self.crash is not None:
            raise self.crash("a record: 17, 42")
        return VERDICTS[path.read_text().split()[0]]

    def turn(self, path: Path) -> int:
        del path
        return 0

    # What a test does.

    def drop(self, name: str, text: str = "good", data: str = "") -> Item:
        item = Item(Place.INBOX, data or self.data[0], name)
        self.folders.study(item).write_text(text)
        os.utime(self.folders.study(item), ns=(0, int(self.now * 1e9)))
        self.now += 0.001
        return item

    def look(self, seconds: float = SETTLED) -> None:
        self.server.look()
        self.now += seconds
        self.server.look()

    def at(self, place: Place, data: str = "") -> list[str]:
        return [item.name for item in self.folders.items(place, data or self.data[0])]

    def record(self, name: str, place: Place) -> Record:
        return self.folders.record(Item(place, self.data[0], name))

    def end(self, code: int) -> None:
        self.runner.children[-1].code = code
        self.server.look()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "patients")


# --- What comes into the inbox ----------------------------------------------------------


def test_the_right_study_runs_and_the_others_say_why(world: World) -> None:
    for name in ("dear", "asked", "good", "broken"):
        world.drop(name, name)
    world.look()
    assert world.runner.started == ["good"]
    assert {place.value: world.at(place) for place in Place} == {
        "inbox": ["asked"], "running": ["good"], "done": [], "refused": ["broken", "dear"],
    }  # fmt: skip
    dear, asked = world.record("dear", Place.REFUSED), world.record("asked", Place.INBOX)
    assert (dear.state, dear.exit_code, dear.error_code) == (State.REFUSED, 7, "budget_exceeded")
    assert (dear.message, dear.hint, dear.fingerprint) == ("too dear", "decline it", "12 34")
    assert (asked.state, asked.exit_code, asked.message) == (State.WAITS, 6, "no approval")
    assert world.record("broken", Place.REFUSED).exit_code == 4
    assert any(says(line, "study_file_ended", "dear", "refused", 7, "too dear") for line in world.said)


def test_a_study_that_waits_runs_once_somebody_has_approved_of_it(world: World) -> None:
    world.drop("later", "asked")
    world.look()
    world.look()
    assert sum("no approval" in line for line in world.said) == 1
    world.folders.study(Item(Place.INBOX, "patients", "later")).write_text("good")
    world.look()
    assert world.runner.started == ["later"]


def test_a_file_that_is_still_written_to_is_left_alone(world: World) -> None:
    item = world.drop("slow", "broken")
    for i in range(5):
        world.look(SETTLED - 0.5)
        world.folders.study(item).write_text("broken" + "." * i)
    assert world.at(Place.INBOX) == ["slow"]
    world.look()
    assert world.at(Place.REFUSED) == ["slow"]


def test_hidden_and_other_files_are_no_studies(world: World) -> None:
    folder = world.folders.folder(Place.INBOX, "patients")
    for name in (".x.toml", "x.toml.part", ".toml", "beside.csv"):
        (folder / name).write_text("broken")
    world.look()
    assert world.at(Place.REFUSED) == []


def test_an_error_that_nobody_foresaw_refuses_one_study_and_shows_nothing_of_it(world: World) -> None:
    world.crash = ZeroDivisionError
    world.drop("odd")
    world.look()
    record = world.record("odd", Place.REFUSED)
    assert (record.exit_code, "ZeroDivisionError" in record.message, "42" in record.message) == (5, True, False)


def test_a_name_that_is_taken_gets_a_number(world: World) -> None:
    for _ in range(3):
        world.drop("dear", "dear")
        world.look()
    assert world.at(Place.REFUSED) == ["dear", "dear-2", "dear-3"]


# --- Turns ----------------------------------------------------------------------------


def test_one_run_at_a_time_for_each_data_set_and_data_sets_at_the_same_time(tmp_path: Path) -> None:
    world = World(tmp_path, "a", "b")
    for name, data in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        world.drop(name, data=data)
    world.look()
    assert sorted(world.runner.started) == ["a1", "b1"]
    world.runner.children[0].code = 0
    world.look()
    assert sorted(world.runner.started) == ["a1", "a2", "b1"]
    assert world.at(Place.DONE, "a") == ["a1"]


def test_the_file_that_was_written_first_runs_first(world: World) -> None:
    world.drop("z")
    world.drop("a")
    world.look()
    world.end(0)
    world.look()
    assert world.runner.started == ["z", "a"]


@pytest.mark.parametrize("code", [2, 3])
def test_where_nobody_was_there_others_have_their_turn_and_the_try_is_repeated_without_end(
    world: World, code: int
) -> None:
    world.drop("first")
    world.drop("second")
    world.look()
    world.end(code)
    assert world.runner.started == ["first", "second"]
    assert world.record("first", Place.INBOX).state is State.QUEUED
    world.end(0)
    for tries in range(2, 12):
        world.look(601)
        assert world.runner.started == ["first", "second", *["first"] * (tries - 1)]
        world.end(code)
        assert world.record("first", Place.INBOX).tries == tries


def test_a_study_that_has_had_its_turn_lets_a_later_one_go_first(world: World) -> None:
    world.drop("first")
    world.look()
    world.end(2)
    world.now += 29
    world.drop("second")
    world.look()
    assert world.runner.started == ["first", "second"]


def test_a_try_is_not_repeated_at_once(world: World) -> None:
    world.drop("first")
    world.look()
    world.end(2)
    world.look(29)
    assert world.runner.started == ["first"]
    world.look(2)
    assert world.runner.started == ["first"] * 2
    world.end(2)
    world.look(59)
    assert world.runner.started == ["first"] * 2
    world.look(2)
    assert world.runner.started == ["first"] * 3


@pytest.mark.parametrize("code", [1, 5])
def test_a_run_that_fails_is_tried_five_times(world: World, code: int) -> None:
    world.drop("unlucky")
    for _ in range(5):
        world.look(601)
        world.end(code)
    assert world.runner.started == ["unlucky"] * 5
    record = world.record("unlucky", Place.REFUSED)
    assert (record.state, record.exit_code, "5 times" in record.message) == (State.FAILED, code, True)


@pytest.mark.parametrize("code", [4, 6, 7, 8])
def test_what_another_try_does_not_mend_is_not_tried_again(world: World, code: int) -> None:
    world.drop("no")
    world.look()
    report = world.folders.events(world.runner.children[0].item)
    told = f'"exit_code": {code}, "error_code": "x", "message": "why", "hint": "do"'
    report.write_text(f'{{"event": "stage", "name": "joining"}}\nhalf of a li\n{{"event": "error", {told}}}\n')
    world.end(code)
    record = world.record("no", Place.REFUSED)
    assert (record.exit_code, record.error_code, record.message, record.hint) == (code, "x", "why", "do")
    assert not report.exists()


# --- What dies ------------------------------------------------------------------------


def test_a_process_that_dies_is_started_again_and_the_data_set_stays_its_own(world: World) -> None:
    world.drop("good")
    world.drop("other")
    world.look()
    world.end(DIES)
    assert world.runner.started == ["good"]
    assert "SIGKILL" in world.record("good", Place.RUNNING).message
    world.look(1.1)
    assert world.runner.started == ["good", "good"]
    world.end(DIES)
    world.look(1.1)
    assert world.runner.started == ["good", "good"]  # the second time it waits for longer
    world.look(1.1)
    world.end(0)
    assert (world.at(Place.DONE), world.runner.started[3]) == (["good"], "other")


def test_a_process_that_always_dies_at_once_is_given_up(world: World) -> None:
    world.drop("bad")
    world.look()
    for _ in range(6):
        world.end(DIES)
        world.look(40)
    assert world.runner.started == ["bad"] * 6
    record = world.record("bad", Place.REFUSED)
    assert (record.state, record.exit_code) == (State.FAILED, DIES)


def test_a_process_that_lived_for_long_before_it_died_is_not_given_up(world: World) -> None:
    world.drop("long")
    world.look()
    for _ in range(12):
        world.now += 3600
        world.end(DIES)
        world.look(1.1)
    assert world.runner.started == ["long"] * 13


def test_a_run_that_failed_and_left_a_journal_goes_on_where_it_was(world: World) -> None:
    world.drop("full")
    world.drop("other")
    world.look()
    journal = world.root / "journals" / "full" / "journal.sqlite"
    journal.parent.mkdir(parents=True)
    journal.touch()
    world.end(1)
    world.look(1.1)
    assert world.runner.started == ["full", "full"]


def test_a_new_site_goes_on_with_what_ran(world: World) -> None:
    world.drop("good")
    world.drop("next")
    world.look()
    world.new_site()
    world.look()
    assert world.runner.started == ["good", "good"]
    world.end(0)
    assert world.at(Place.DONE) == ["good"]


def test_a_new_site_leaves_a_process_alone_that_still_runs(world: World) -> None:
    world.drop("good")
    world.look()
    orphan = world.runner.orphans["patients"] = world.runner.children[0]
    world.new_site()
    world.look()
    assert world.runner.started == ["good"]
    orphan.code = 0
    world.server.look()
    assert world.at(Place.DONE) == ["good"]


def test_a_new_site_finds_results_that_were_whole_when_the_power_failed(world: World) -> None:
    world.drop("good")
    world.look()
    results = world.root / "results" / "patients" / "good"
    results.mkdir(parents=True)
    (results / "result.json").write_text("{}")
    world.new_site()
    world.look()
    assert (world.runner.started, world.at(Place.DONE)) == (["good"], ["good"])


@pytest.mark.parametrize("step", range(1, 12))
def test_no_power_cut_in_the_midst_of_a_move_loses_a_study_or_runs_it_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The site dies at its n-th change of a folder; the next one brings all three where they belong."""
    world, left = World(tmp_path, "patients"), [step]

    class Cut(BaseException):
        pass

    def dying(method: str) -> None:
        done = getattr(Path, method)

        def change(path: Path, *given: object, **named: object) -> object:
            if path.is_relative_to(tmp_path):
                left[0] -= 1
                if left[0] == 0:
                    raise Cut
            return done(path, *given, **named)

        monkeypatch.setattr(Path, method, change)

    for method in ("rename", "replace", "unlink"):
        dying(method)
    for name in ("dear", "asked", "good"):
        world.drop(name, name)
    cut = False
    for _ in range(4):
        try:
            world.look()
        except Cut:
            cut = True
            world.folders.make(world.data)
            world.new_site()
    assert cut == (left[0] <= 0)
    assert {place.value: world.at(place) for place in Place} == {
        "inbox": ["asked"], "running": ["good"], "done": [], "refused": ["dear"],
    }  # fmt: skip
    assert set(world.runner.started) == {"good"}
    assert world.record("dear", Place.REFUSED).exit_code == 7
    assert world.record("good", Place.RUNNING).state is State.RUNNING


def test_a_stop_is_a_power_cut_for_the_runs(world: World) -> None:
    world.drop("good")
    world.look()
    world.server.stop()
    assert world.runner.children[0].signals == [signal.SIGKILL]
    assert world.at(Place.RUNNING) == ["good"]


def test_a_study_that_is_taken_away_ends_its_run_for_everybody(world: World) -> None:
    world.drop("good")
    world.look()
    child = world.runner.children[0]
    world.folders.study(child.item).unlink()
    world.look()
    assert child.signals == [signal.SIGTERM]
    world.end(1)
    assert [world.at(place) for place in Place] == [[], [], [], []]
    assert list(world.folders.folder(Place.RUNNING, "patients").iterdir()) == []


def test_a_file_beside_the_study_goes_with_it(world: World) -> None:
    world.drop("good", "good beside")
    inbox, running = (world.folders.folder(place, "patients") for place in (Place.INBOX, Place.RUNNING))
    (inbox / "beside.csv").write_text("1,2\n")
    world.look()
    assert world.runner.started == ["good"]
    assert [(folder / "beside.csv").read_text() for folder in (inbox, running)] == ["1,2\n"] * 2
    (inbox / "beside.csv").unlink()
    world.end(2)
    assert (inbox / "beside.csv").read_text() == "1,2\n"


def test_a_folder_that_cannot_be_written_is_told_of_once_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.drop("good")
    move = Folders.move

    def full(*_: object) -> Item:
        raise OSError(28, "No space left on device", "a-file")

    monkeypatch.setattr(Folders, "move", full)
    world.look()
    world.look()
    assert [line for line in world.said if "No space" in line] == [
        "patients: a-file cannot be used: No space left on device"
    ]
    monkeypatch.setattr(Folders, "move", move)
    world.look()
    assert world.runner.started == ["good"]


def test_a_record_that_somebody_broke_costs_its_words_alone(world: World) -> None:
    world.drop("good")
    world.look()
    (record,) = world.folders.folder(Place.RUNNING, "patients").glob("*.site.json")
    record.write_text('{"tries": -')
    world.new_site()
    world.look()
    world.end(0)
    assert world.at(Place.DONE) == ["good"]


def test_error_classes_of_this_test_are_the_programs() -> None:
    codes = {name: v.error.exit_code for name, v in VERDICTS.items() if isinstance(v.error, MasqueradeError)}
    assert codes == {"dear": 7, "asked": 6, "broken": 4}
