"""A site removes some things after some days, and others never."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from masquerade_core.errors import BadInput
from masquerade_party.serving.folders import Folders, Item, Place, Record, State
from masquerade_party.serving.keeping import Keeper
from masquerade_party.serving.settings import Keep, load_settings
from tests.messages import raises, says

DAY = 86_400.0
BEGIN = 1_800_000_000.0


class World:
    """A site's folder with two studies in each folder and three folders of results, and a clock that the test moves."""

    def __init__(self, root: Path) -> None:
        self.root, self.folders, self.now = root, Folders(root), BEGIN
        self.folders.make(["patients"])
        self.said: list[str] = []
        for place in Place:
            for name, days in (("new", 0), ("old", -20)):
                item = Item(place, "patients", name)
                self.folders.study(item).write_text("a study")
                self.folders.log(item).write_text("a log")
                changed = datetime.fromtimestamp(BEGIN + days * DAY, UTC).isoformat()
                results = str(self.results("needed")) if place is Place.RUNNING else ""
                self.folders.write(item, Record(state=State.DONE, changed=changed, results=results))
        for name, days in (("new", 0), ("old", -20), ("needed", -20), ("evidence-alone", -20)):
            self.results(name).mkdir(parents=True)
            file = self.results(name) / ("evidence.json" if name == "evidence-alone" else "result.json")
            file.write_text("{}")
            os.utime(file, (BEGIN + days * DAY,) * 2)
        for name in ("ledger.sqlite", "approvals/approval.json"):
            file = root / "state" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            os.utime(file, (0, 0))

    def results(self, name: str) -> Path:
        return self.root / "results" / "patients" / name

    def keeper(self, **days: int) -> Keeper:
        keep = Keep(**days)
        return Keeper(
            self.folders, ("patients",), self.root / "results", keep, self.said.append, clock=lambda: self.now
        )

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def gone(place: str, name: str) -> set[str]:
    return {f"{place}/patients/{name}{end}" for end in (".toml", ".log", ".site.json")}


def test_without_a_word_about_it_nothing_is_ever_removed(world: World) -> None:
    before = world.files()
    world.now += 100_000 * DAY
    world.keeper().look()
    assert (world.files(), world.said) == (before, [])


@pytest.mark.parametrize("place", ["done", "refused"])
def test_a_study_goes_after_its_days_with_its_record_and_its_log(world: World, place: str) -> None:
    before, keeper = world.files(), world.keeper(**{place: 30})
    keeper.look()
    assert world.files() == before
    world.now += 10 * DAY
    keeper.look()  # it is exactly 30 days old
    assert world.files() == before
    world.now += DAY
    keeper.look()
    assert before - world.files() == gone(place, "old")
    (line,) = world.said
    assert says(line, "removed_after_days", "patients", "old", place, 30)
    world.now += 30 * DAY
    keeper.look()
    assert before - world.files() == gone(place, "old") | gone(place, "new")


def test_results_go_after_their_days_but_none_that_a_run_needs_and_no_evidence(world: World) -> None:
    before, keeper = world.files(), world.keeper(results=19)
    keeper.look()
    assert before - world.files() == {"results/patients/old/result.json"}
    assert not world.results("old").exists()
    (line,) = world.said
    assert says(line, "results_removed", "patients", "old", 19)
    world.now += 100_000 * DAY
    keeper.look()
    assert before - world.files() == {f"results/patients/{name}/result.json" for name in ("old", "new")}


def test_everything_at_once_leaves_the_state_folder_and_what_waits_or_runs(world: World) -> None:
    before = world.files()
    world.now += 100_000 * DAY
    world.keeper(done=1, refused=1, results=1).look()
    kept = {name for name in before if name.startswith(("inbox", "running", "state"))}
    rest = {"results/patients/needed/result.json", "results/patients/evidence-alone/evidence.json"}
    assert world.files() == kept | rest


def test_a_lost_record_and_a_link_cost_nothing(world: World) -> None:
    item = Item(Place.DONE, "patients", "old")
    world.folders.forget(item)
    other = world.root / "elsewhere"
    world.results("old").rename(other)
    world.results("old").symlink_to(other)
    before = world.files()
    os.utime(world.folders.study(item), (0, 0))  # its name was made a moment ago, by the clock of this machine
    world.now = world.folders.study(item).lstat().st_ctime + 5 * DAY
    world.keeper(done=6, results=1).look()
    assert "done/patients/old.toml" in world.files()
    assert (other / "result.json").exists()
    assert world.results("old").is_symlink()
    world.now += 2 * DAY
    world.keeper(done=6).look()
    assert before - world.files() >= {"done/patients/old.toml", "done/patients/old.log"}


def test_what_was_half_removed_is_removed_and_a_disk_that_fails_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = world.keeper(results=19)

    def fail(_folder: Path) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patch:
        patch.setattr("masquerade_party.serving.keeping.shutil.rmtree", fail)
        keeper.look()
    assert says(world.said[-1], "cannot_be_removed", "patients", "old", os.strerror(5))
    assert not world.results("old").exists()
    (half,) = (path for path in world.results("new").parent.iterdir() if path.name.startswith("."))
    keeper.look()
    assert half.exists()  # not before an hour is over
    world.now += 3601
    keeper.look()
    assert not half.exists()


def test_days_are_whole_numbers_from_1(tmp_path: Path) -> None:
    text = 'key = "site.key"\n[data.patients]\nrecords = "records.csv"\n[keep]\n'
    (tmp_path / "site.toml").write_text(text + "done = 365\n")
    assert load_settings(tmp_path).keep == Keep(done=365)
    (tmp_path / "site.toml").write_text(text + "done = 0\n")
    with raises(BadInput, "key_out_of_range", ..., 0, "at least", 1):
        load_settings(tmp_path)
    (tmp_path / "site.toml").write_text(text + "results = 1.5\n")
    with raises(BadInput, "key_of_another_kind", ..., 1.5, "a whole number"):
        load_settings(tmp_path)
