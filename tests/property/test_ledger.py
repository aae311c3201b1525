"""Laws of the ledger: it holds at least what left, whatever dies and when, and never promises more than the limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade_core.errors import BudgetExceeded, LocalProtocolError, MasqueradeError, RefusedLocally
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Total, cost_of
from masquerade_core.seat import Release, Send
from masquerade_core.study import CHARLIE
from masquerade_host.store.budget import give_up, set_limit
from masquerade_host.store.ledger import NO_RELEASES, Ledger
from masquerade_host.store.state import StateFolder
from tests.host_helpers import World
from tests.ledger_helpers import RECORDS, DiedError, begun, budget, dying, named, reserved
from tests.property.strategies import SLOW
from tests.wired import Wired

_costs = st.tuples(st.floats(0, 0.4), st.sampled_from([0.0, 1e-9, 1e-7]), st.sampled_from([0.0, 0.01, 0.1]))
_steps = st.one_of(
    st.tuples(st.just("debit"), st.integers(0, 5), _costs),
    st.tuples(st.sampled_from(["again", "reopen", "attempt", "end", "finish", "next", "release"])),
)


def total(releases: dict[tuple[bytes, str], Release]) -> Total:
    costs = (cost_of(r.epsilon, r.delta, r.mu, r.slack) for r in releases.values())
    return sum(map(Total.of, costs), start=Total())


@SLOW
@given(steps=st.lists(_steps, max_size=30), limit=st.sampled_from([0.5, 1.5, 3.0]))
def test_whatever_happens_the_ledger_holds_what_left_and_what_left_keeps_the_limit(
    steps: list[tuple[object, ...]], limit: float
) -> None:
    """``left`` is what a party would have sent: each release whose debit returned."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, studies = budget(Path(folder) / "state", epsilon=limit), [named(f"s{i}") for i in range(5)]
        left: dict[tuple[bytes, str], Release] = {}
        at, run = 0, b"\0" * 16
        for kind, *more in steps:
            study = studies[at]
            with suppress(BudgetExceeded, RefusedLocally, LocalProtocolError):
                match kind:
                    case "debit":
                        number, cost = more
                        release = Release(f"round {number}", *cost)  # type: ignore[misc]  # (epsilon, delta, mu)
                        ledger.debits_for(study, "p1").debit(run, [release])
                        left[run, release.label] = release
                    case "again":
                        ledger.debits_for(study, "p1").debit(run, [r for (of, _), r in left.items() if of == run])
                    case "reopen":
                        ledger.close()
                        ledger = Ledger.open(StateFolder(Path(folder) / "state"))
                    case "attempt":
                        begun(ledger, study)
                        run = os.urandom(16)
                    case "end":
                        ledger.end_attempt(study, "p1", "a test")
                    case "finish":
                        ledger.finish(study, "p1")
                    case "release":
                        give_up(ledger, study.digest().hex(), "p1", by="a test")
                    case "next":
                        at = (at + 1) % len(studies)
            account = ledger.account("default")
            spent = total(left)
            assert spent.composed(round(account.delta * DELTA_UNITS)) <= account.epsilon * (1 + 1e-5)
            assert account.spent >= min(spent.composed(round(1e-5 * DELTA_UNITS)), 0.999) * (1 - 1e-5)
            assert account.taken >= account.spent * (1 - 1e-9)
        ledger.close()


@SLOW
@given(data=st.data())
def test_at_each_moment_of_a_session_everything_that_left_is_in_the_ledger(data: st.DataObject) -> None:
    """A session with a real ledger, whose process dies at any moment: what is on the wire was debited."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, study = budget(Path(folder)), named("a", epsilon=50.0)
        set_limit(ledger, "default", 100.0, 1e-3, by="a test")
        begun(ledger, study)
        wired = Wired(World.new(2, port=5555))
        wired.join()
        p1 = wired.parties["p1"]
        p1._commits._debits = ledger.debits_for(study, "p1")
        left: list[Release] = []
        due: list[Release] = []
        for i in range(data.draw(st.integers(0, 8))):
            for j in range(data.draw(st.integers(0, 2))):
                release = Release(f"round {i}.{j}", data.draw(st.floats(0, 1)), 1e-9)
                p1.begin(release)
                due.append(release)
            if data.draw(st.booleans()):
                p1.begin(Send("message", "Hi", (CHARLIE,), (b"x",)))
                left, due = left + due, []
            assert p1.releases == left
            if data.draw(st.booleans()):  # what another process sees after this one was killed
                other = Ledger.open(StateFolder(Path(folder)))
                written = {e.fields["label"] for e in other.history() if e.kind == "debit"}
                assert written - NO_RELEASES == {release.label for release in left}
                other.close()
        ledger.close()


# --- Processes ----------------------------------------------------------------------

_RESERVE = """
import sys
from pathlib import Path
from masquerade_core.errors import BudgetExceeded
from masquerade_core.privacy.accounting import target
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from masquerade_core.study import Study
ledger = Ledger.open(StateFolder(Path(sys.argv[1])))
study = Study.parse(Path(sys.argv[2]).read_text())
print("ready", flush=True)
sys.stdin.readline()
try:
    fingerprint, spends = bytes.fromhex(sys.argv[3]), target(1.0, 1e-6, gaussian=False)
    ledger.reserve(study, "p1", population="default", fingerprint=fingerprint, approved_by="steward", spends=spends)
except BudgetExceeded:
    print("refused")
else:
    print("reserved")
"""


def test_of_processes_that_reserve_the_last_budget_at_once_one_wins(tmp_path: Path) -> None:
    ledger = budget(tmp_path / "state", epsilon=2.5)
    files = []
    for i in range(4):
        files.append(tmp_path / f"{i}.toml")
        files[-1].write_text(named(f"s{i}").to_toml())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _RESERVE, str(tmp_path / "state"), str(file), ledger.fingerprint(RECORDS).hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for file in files
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert sorted(said) == ["refused", "refused", "reserved", "reserved"]
    assert ledger.account("default").taken == 2.0


_DEBIT = """
import sys
from pathlib import Path
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from masquerade_core.seat import Release
from masquerade_core.study import Study
ledger = Ledger.open(StateFolder(Path(sys.argv[1])))
study = Study.parse(Path(sys.argv[2]).read_text())
debits = ledger.debits_for(study, "p1")
for t in range(10_000):
    debits.debit(b"r" * 16, [Release(f"round {t}", 1e-4, 0.0)])
    print(t, flush=True)
"""


@pytest.mark.parametrize("after", [0, 1, 7, 40])
def test_what_a_killed_process_had_debited_is_there(tmp_path: Path, after: int) -> None:
    ledger, study = budget(tmp_path / "state"), named("a")
    begun(ledger, study)
    (tmp_path / "s.toml").write_text(study.to_toml())
    process = subprocess.Popen(
        [sys.executable, "-c", _DEBIT, str(tmp_path / "state"), str(tmp_path / "s.toml")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last >= after:
            break
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].split()
    last = int(rest[-1]) if rest else last
    debited = [entry.fields["label"] for entry in ledger.history() if entry.kind == "debit"]
    debited = [label for label in debited if label not in NO_RELEASES]
    assert debited[: last + 1] == [f"round {t}" for t in range(last + 1)]
    assert len(debited) - (last + 1) in {0, 1}  # one more may have been written, and never reported


# --- Every step at which a process can die -------------------------------------------


STEPS = 19  # of four debits


@pytest.mark.parametrize("at", range(STEPS + 1))
def test_wherever_a_process_dies_nothing_left_that_is_not_debited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Four rounds; the process dies before the ``at``-th step. Then another one opens the ledger."""
    study, left = named("a"), 0
    ledger = budget(tmp_path)
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    with dying(monkeypatch, at) as steps, suppress(DiedError):
        for t in range(4):
            debits.debit(b"r" * 16, [Release(f"round {t}", 0.125, 0.0)])
            left += 1
    assert len(steps) == min(at + 1, STEPS)
    assert left < 4 or at >= len(steps)
    other = Ledger.open(StateFolder(tmp_path))
    spent = other.account("default").spent
    assert spent == 1.0 or 0.125 * left <= spent <= 0.125 * min(
        left + 1, 2
    )  # from the second on, all was debited ahead
    other.end_attempt(study, "p1", "killed")  # and it goes on working
    assert other.account("default").spent == spent
    lines = (tmp_path / "ledger.lines").read_bytes().splitlines()
    assert len(lines) == len(other.history())


def test_the_ledger_survives_studies_of_every_size(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=1000.0)
    for exponent in range(-9, 3):
        reserved(ledger, named(f"s{exponent + 9}", epsilon=10.0**exponent, delta=1e-9))
    assert ledger.account("default").taken == pytest.approx(111.111111111)
    with pytest.raises(MasqueradeError):
        reserved(ledger, named("more", epsilon=900.0))
    assert round(111.111111111 * UNITS) == round(ledger.account("default").taken * UNITS)
    assert ledger.population_of(ledger.fingerprint(RECORDS)) == "default"
