"""A run ends when its program changes: at the participant whose program it is, and at once for all others."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import masquerade_core
from masquerade_core.errors import LocalProtocolError, ProgramChanged, RefusedLocally, RunFailed
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.faults import Abort
from masquerade_host.process.program import DEPENDENCIES, PACKAGES, Program
from masquerade_host.session.party import PartySession
from masquerade_host.transport.dialer import Answer
from masquerade_host.transport.interface import ConnectionEvent
from tests.host_helpers import VERSION, World
from tests.messages import raises
from tests.restarts import Group
from tests.unit.host.session.test_rollback import charlie, party, told
from tests.wired import Clock, FakePartyLink

ROOTS = ("src", "parties", "curator", "protocols")
ROOT = Path(masquerade_core.__file__).parents[2]
BEFORE = Program({"a/b.py": "1", "a/c.py": "2"}, {"numpy": "2.1"})


def copied(folder: Path) -> Path:
    """Copy this program's packages into one folder."""
    for root in ROOTS:
        for package in PACKAGES:
            if (source := ROOT / root / package).is_dir():
                shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def program_in(folder: Path) -> Program:
    """Ask a process that takes the packages from this folder."""
    code = "from masquerade_host.process import program; print(program.Program.here().packed().decode(), end='')"
    asked = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, check=True
    )
    return Program.unpacked(asked.stdout)


# --- What counts ------------------------------------------------------------------------


def test_every_module_of_the_packages_counts_loaded_or_not() -> None:
    files = Program.here().files
    paths = {
        path.relative_to(ROOT / root).as_posix()
        for root in ROOTS
        for package in PACKAGES
        for path in (ROOT / root / package).rglob("*.py")
    }
    assert {path.partition("/")[0] for path in paths} == set(PACKAGES)
    assert {f"masquerade_host/{folder}/__init__.py" for folder in ("session", "store", "transport")} < paths
    assert {name for name in files if name.endswith(".py")} == paths
    assert not [name for name in files if "__pycache__" in name]


def test_the_dependencies_are_those_that_the_distribution_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    assert {re.split("[><=~!]", each)[0].lower() for each in named} == DEPENDENCIES


def test_the_versions_are_those_that_are_installed() -> None:
    found = dict(Program.here().versions)
    assert found.pop("python") == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "scipy", "phe", "gmpy2", "pynacl", "msgpack", "pydantic", "pyzmq"} <= set(found)
    assert found == {name: version(name) for name in found}


def test_a_line_a_new_file_and_a_missing_one_make_another_program(tmp_path: Path) -> None:
    """The changed module is one that no process of the default protocol needs, and the process here loads none."""
    folder = copied(tmp_path)
    before = program_in(folder)
    assert (before.files, before.digest) == (Program.here().files, Program.here().digest)
    changed = folder / "masquerade_protocols" / "voting" / "roles.py"
    text = changed.read_text()
    changed.write_text(text + "# another line\n")
    with raises(ProgramChanged, "program_changed", "masquerade_protocols/voting/roles.py has other contents"):
        program_in(folder).check_same(before)
    assert program_in(folder).digest != before.digest
    changed.write_text(text)
    program_in(folder).check_same(before)
    (new := folder / "masquerade_core" / "more.py").write_text("")
    with raises(ProgramChanged, "program_changed", "masquerade_core/more.py is new"):
        program_in(folder).check_same(before)
    new.unlink()
    changed.unlink()
    with raises(ProgramChanged, "program_changed", "masquerade_protocols/voting/roles.py is gone"):
        program_in(folder).check_same(before)


def test_a_protocol_that_is_installed_beside_this_tree_counts() -> None:
    with_toy = Program.here("tests.toy_means.entry")
    assert "tests/toy_means/roles.py" in with_toy.files
    assert Program.here().files.items() <= with_toy.files.items()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Program({**BEFORE.files, "a/b.py": "3"}, BEFORE.versions), "a/b.py has other contents"),
        (Program(BEFORE.files, {"numpy": "2.2"}), "numpy was 2.1 and is 2.2"),
        (Program(BEFORE.files, {}), "numpy was 2.1 and is gone"),
        (Program(BEFORE.files, {**BEFORE.versions, "phe": "1.5"}), "phe was not there and is 1.5"),
        (Program({f"x{i}": "" for i in range(4)}, BEFORE.versions), "x0 is new, x1 is new and 2 other changes"),
    ],
)
def test_the_error_says_what_has_changed(now: Program, said: str) -> None:
    with pytest.raises(ProgramChanged) as error:
        now.check_same(BEFORE)
    assert said in error.value.message
    assert error.value.exit_code == 6
    BEFORE.check_same(Program.unpacked(BEFORE.packed()))


# --- Who hears of it --------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> World:
    return World.new(3, deadline=30.0, port=5555)


def restarted(world: World, who: str, change: Callable[[Group], None], *, later: int = 2) -> Group:
    """Kill a participant in the middle of a run, change something there, and start it again."""
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    run.run(until=lambda: told(run, "p2") == later)
    run.sites[who].kill()
    change(run)
    run.run(turns=1)
    began = run.clock.now
    run.run(turns=30, down=0)
    assert run.clock.now - began < 5.0
    return run


def check_nobody_is_accused(run: Group, who: str, said: str) -> None:
    """All others have ended, and heard why."""
    for name, site in run.sites.items():
        assert site.error is not None, name
        if name != who:
            assert type(site.error) is RunFailed
            assert site.error.grounds is None
            assert f"{who} left the run before its end" in site.error.message
            assert said in site.error.message


@pytest.mark.parametrize("who", ["p1", "p3", CHARLIE])
def test_whose_program_has_changed_ends_the_attempt_and_the_others_hear_it_at_once(world: World, who: str) -> None:
    def change(run: Group) -> None:
        run.sites[who].program = BEFORE

    run = restarted(world, who, change)
    assert isinstance(run.sites[who].error, ProgramChanged)
    check_nobody_is_accused(run, who, f"the program of {who} has changed since the run began")
    assert run.twice() == []


def test_programs_that_differ_between_participants_make_a_run(world: World) -> None:
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    run.sites["p2"].program = BEFORE
    run.run(until=lambda: told(run, "p2") == 2)
    run.sites["p2"].kill()
    run.run()
    run.check()


def test_other_records_end_the_attempt_in_the_same_way(world: World) -> None:
    def change(run: Group) -> None:
        rows = run.sites["p1"].journal.rows
        rows[1] = type(rows[1])("begun", data=b"others")

    run = restarted(world, "p1", change)
    assert type(run.sites["p1"].error) is RefusedLocally
    check_nobody_is_accused(run, "p1", "")


def test_a_process_that_goes_on_in_another_way_tells_the_others_too(world: World) -> None:
    async def other(seat: Seat) -> bytes:
        await seat.join()
        return await seat.once("another draw", lambda rng: rng.bytes(8))

    def change(run: Group) -> None:
        run.sites["p1"].make_role = other

    run = restarted(world, "p1", change)
    assert type(run.sites["p1"].error) is LocalProtocolError
    check_nobody_is_accused(run, "p1", "")


def test_a_party_that_finds_nobody_at_first_dials_again_until_it_has_told_the_others(world: World) -> None:
    link, clock = FakePartyLink(events=[ConnectionEvent.UNREACHED], reachable=False), Clock()
    session = PartySession(
        "p1", world.study, world.keys["p1"], lambda: link, lambda: Answer.CHARLIE, version=VERSION, clock=clock
    )
    leaving = Abort(reason="changed", blamed=("p1",), by="p1")
    told = []
    for second in range(60):
        clock.now = float(second)
        link.reachable = second > 10
        told.append(session.part(bytes(16), leaving))
    assert not any(told[:10])
    assert told[-1]
    assert link.reopened > 1
    assert link.sent
