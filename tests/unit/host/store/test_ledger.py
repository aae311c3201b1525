"""The ledger of the privacy budget: what is refused, what is kept, and what a machine that fails does not forget."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import (
    BadInput,
    BudgetExceeded,
    Damaged,
    LocalProtocolError,
    OlderCopy,
    RefusedLocally,
    RunFailed,
)
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.study import Study
from masquerade_host.store.budget import give_budget, give_up, populations, recover, set_limit, would_fit
from masquerade_host.store.chained_table import LOG_PAGES
from masquerade_host.store.ledger import AHEAD, RETURNED, Ledger
from masquerade_host.store.state import StateFolder
from tests.ledger_helpers import RECORDS, begun, budget, mechanism, named, reserved
from tests.messages import raises, says

OTHERS = Dataset.from_unit_ball([[0.5], [-0.25], [0.1]], [1.0, -1.0, 1.0])
RUN = b"r" * 16


def spend(ledger: Ledger, study: Study, run: bytes = RUN, epsilon: float = 1.0, delta: float = 1e-6) -> None:
    begun(ledger, study)
    ledger.debits_for(study, "p1").debit(run, [mechanism(epsilon=epsilon, delta=delta)])


def spent(ledger: Ledger) -> float:
    return ledger.account("default").spent


# --- No ledger, no budget ---------------------------------------------------------


def test_without_a_ledger_there_is_no_budget_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    with raises(BudgetExceeded, "ledger_missing") as caught:
        Ledger.open(StateFolder(tmp_path))
    assert says(caught.value.hint, "budget_init_for_ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    budget(tmp_path / "state")
    for path in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path.name


def test_a_population_gets_one_limit_and_another_only_by_name(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    with raises(BadInput, "budget_exists"):
        give_budget(StateFolder(tmp_path), "default", 100, 1e-3, by="x")
    set_limit(ledger, "default", 2.0, 1e-7, by="steward")
    assert (ledger.account("default").epsilon, ledger.account("default").delta) == (2.0, 1e-7)
    give_budget(StateFolder(tmp_path), "cardiology", 3.0, 0.0, by="steward")
    assert populations(Ledger.open(StateFolder(tmp_path))) == ("default", "cardiology")
    with raises(BudgetExceeded, "population_without_budget", "'neurology'"):
        ledger.account("neurology")


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 0.0), (float("inf"), 0.0), (1.0, 1.0), (1.0, -0.1)])
def test_what_is_no_limit_is_refused(tmp_path: Path, epsilon: float, delta: float) -> None:
    with raises(BadInput, "limit_refused"):
        give_budget(StateFolder(tmp_path), "default", epsilon, delta, by="x")


# --- Data sets ----------------------------------------------------------------------


def test_a_fingerprint_needs_the_key_and_changes_with_every_cell_and_the_order(tmp_path: Path) -> None:
    ledger, elsewhere = budget(tmp_path / "a"), budget(tmp_path / "b")
    own = ledger.fingerprint(RECORDS)
    again = Dataset.from_unit_ball(RECORDS.X, RECORDS.y)
    backwards = Dataset.from_unit_ball(RECORDS.X[::-1], RECORDS.y[::-1])
    assert ledger.fingerprint(again) == own
    others = [ledger.fingerprint(OTHERS), ledger.fingerprint(backwards), elsewhere.fingerprint(RECORDS)]
    assert len({own, *others}) == 4


def test_an_unknown_data_set_is_refused_until_somebody_says_whose_records_they_are(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    other = ledger.fingerprint(OTHERS)
    assert ledger.population_of(other) is None
    with raises(RefusedLocally, "records_of_no_population"):
        ledger.reserve(named("a"), "p1", population="default", fingerprint=other, approved_by="x")
    ledger.adopt(other, "default", by="steward")
    assert ledger.population_of(other) == "default"
    ledger.reserve(named("a"), "p1", population="default", fingerprint=other, approved_by="x")


def test_a_corrected_data_set_continues_its_populations_budget(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=1.5)
    spend(ledger, named("a"))
    ledger.adopt(ledger.fingerprint(OTHERS), "default", by="steward")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(
            named("b"), "p1", population="default", fingerprint=ledger.fingerprint(OTHERS), approved_by="steward"
        )


# --- Reservations -------------------------------------------------------------------


def test_a_reservation_counts_at_once_and_twice_is_once(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=2.0)
    reserved(reserved(ledger, named("a")), named("a"))
    account = ledger.account("default")
    assert (account.spent, account.taken, account.left, account.open_studies) == (0, 1, 1, ("a",))
    reserved(ledger, named("b"))
    with raises(BudgetExceeded, "limit_reached", 2, ..., "epsilon = 2 is spent or reserved"):
        reserved(ledger, named("c", epsilon=0.001, delta=0.0))


def test_delta_is_a_budget_too(tmp_path: Path) -> None:
    ledger = budget(tmp_path, delta=1e-6)
    reserved(ledger, named("a"))
    with pytest.raises(BudgetExceeded):
        reserved(ledger, named("b", delta=1e-9))
    reserved(ledger, named("c", delta=0.0))


def test_gaussian_studies_compose_better_than_by_adding_up(tmp_path: Path) -> None:
    plain, gaussian = budget(tmp_path / "plain", epsilon=4.0), budget(tmp_path / "gaussian", epsilon=4.0)
    for i in range(4):
        reserved(plain, named(f"s{i}"))
        reserved(gaussian, named(f"s{i}"), gaussian=True)
    with pytest.raises(BudgetExceeded):
        reserved(plain, named("more"))
    reserved(gaussian, named("more"), gaussian=True)
    assert gaussian.account("default").taken == pytest.approx(epsilon_of(5**0.5 * mu_of(1.0, 1e-6), 1e-5), rel=1e-6)


def test_a_ledger_that_only_adds_up_does_not_compose_better(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=4.0, basic_only=True)
    for i in range(4):
        reserved(ledger, named(f"s{i}"), gaussian=True)
    with pytest.raises(BudgetExceeded):
        reserved(ledger, named("more"), gaussian=True)


def test_where_costs_only_add_up_a_study_that_ends_early_counts_with_its_whole_target(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=4.0, basic_only=True)
    spend(ledger, named("a"), epsilon=0.25, delta=0.0)
    begun(ledger, named("b"))
    for name in "ab":
        give_up(ledger, named(name).digest().hex(), "p1", by="steward")
    assert (spent(ledger), ledger.account("default").taken) == (1.0, 1.0)


def test_a_study_that_is_given_up_keeps_its_debits_and_frees_the_rest(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    spend(ledger, study, epsilon=0.25, delta=0.0)
    assert ledger.account("default").taken == 1.0
    give_up(ledger, study.digest().hex(), "p1", by="steward")
    assert (ledger.account("default").taken, spent(ledger)) == (0.25, 0.25)
    with raises(RefusedLocally, "budget_not_reserved"):
        ledger.start_attempt(study, "p1", ledger.fingerprint(RECORDS))
    with raises(BudgetExceeded, "attempt_had_release"):
        begun(ledger, study)


def test_a_lowered_limit_stops_the_next_attempt(tmp_path: Path) -> None:
    ledger = reserved(budget(tmp_path), named("a"))
    set_limit(ledger, "default", 0.5, 1e-5, by="steward")
    with raises(BudgetExceeded, "limit_lowered"):
        ledger.start_attempt(named("a"), "p1", ledger.fingerprint(RECORDS))


# --- Debits -------------------------------------------------------------------------


def test_the_same_debit_twice_costs_once_and_at_another_cost_is_refused(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    debits.debit(RUN, [mechanism("round 0", 0.25, 0.0)])
    debits.debit(RUN, [mechanism("round 0", 0.25, 0.0), mechanism("round 1", 0.25, 0.0)])
    with raises(RefusedLocally, "debit_at_another_cost", "'round 0'"):
        debits.debit(RUN, [mechanism("round 0", 0.125, 0.0)])
    ledger.end_attempt(study, "p1", "a test")
    assert spent(Ledger.open(StateFolder(tmp_path))) == 0.5


# --- Debits ahead --------------------------------------------------------------------


def _labels(ledger: Ledger) -> list[str]:
    return [entry.fields["label"] for entry in ledger.history() if entry.kind == "debit"]


def test_with_the_second_debit_all_that_the_attempt_may_take_counts_until_it_ends(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    for t, counted in enumerate((0.125, 1.0, 1.0)):
        debits.debit(RUN, [mechanism(f"round {t}", 0.125, 0.0)])
        assert spent(ledger) == counted
    assert _labels(ledger) == ["round 0", AHEAD, "round 1", "round 2"]
    assert debits.labels(RUN) == {"round 0", "round 1", "round 2"}
    ledger.finish(study, "p1")
    assert _labels(ledger)[4:] == [RETURNED]
    assert spent(ledger) == 0.375


def test_an_attempt_with_one_debit_takes_nothing_ahead(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    ledger.debits_for(study, "p1").debit(RUN, [mechanism()])
    ledger.finish(study, "p1")
    assert _labels(ledger) == ["model"]


def test_what_was_debited_ahead_stays_spent_where_debits_may_be_lost(tmp_path: Path) -> None:
    """A process that was started again knows of none, before it has debited all of its journal's releases."""
    for known, counted in ((0, 1.0), (2, 1.0), (3, 0.5)):
        ledger, study = budget(tmp_path / str(known)), named("a")
        begun(ledger, study)
        rounds = [mechanism(f"round {t}", 0.125, 0.0) for t in range(3)]
        for release in rounds:
            ledger.debits_for(study, "p1").debit(RUN, [release])
        ledger.close()
        again = Ledger.open(StateFolder(tmp_path / str(known)))
        again.start_attempt(study, "p1", again.fingerprint(RECORDS), resumed=True)
        if known:
            again.debits_for(study, "p1").debit(RUN, [*rounds[:known], mechanism("round 3", 0.125, 0.0)])
        again.end_attempt(study, "p1", "a test")
        assert spent(again) == counted


def test_debits_that_exceed_what_was_debited_ahead_are_awaited_and_count_by_themselves(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", charged_attempts=1)  # each attempt has half of the target
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    for t in range(4):
        debits.debit(RUN, [mechanism(f"round {t}", 0.2, 0.0)])
    assert _labels(ledger) == ["round 0", AHEAD, "round 1", RETURNED, "round 2", "round 3"]
    assert spent(ledger) == pytest.approx(0.8)
    assert (tmp_path / "ledger.lines").read_text().count("round") == 4  # the disk has every line


def test_no_release_is_called_like_a_debit_ahead(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    for label in (AHEAD, RETURNED):
        with pytest.raises(LocalProtocolError):
            ledger.debits_for(study, "p1").debit(RUN, [mechanism(label, 0.125, 0.0)])


def test_a_run_cannot_spend_more_than_its_study_says(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    debits.debit(RUN, [mechanism("round 0", 0.75, 0.0)])
    with raises(BudgetExceeded, "run_beyond_study_epsilon", 1):
        debits.debit(RUN, [mechanism("round 1", 0.75, 0.0)])
    with pytest.raises(BudgetExceeded):
        debits.debit(RUN, [mechanism("round 2", 0.0, 2e-6)])
    assert spent(ledger) == 0.75


def test_what_ended_early_is_reserved_no_longer_unless_it_may_be_tried_again(tmp_path: Path) -> None:
    for folder, options, taken in (("a", {}, 0.3), ("b", {"charged_attempts": 1}, 1.0)):
        ledger, study = budget(tmp_path / folder), named("a", **options)
        begun(ledger, study)
        ledger.debits_for(study, "p1").debit(RUN, [mechanism(epsilon=0.3, delta=1e-9)])
        assert (ledger.account("default").taken, ledger.account("default").open_studies) == (1.0, ("a",))
        ledger.end_attempt(study, "p1", "p2 fell silent")
        assert ledger.account("default").taken == taken
        assert ledger.account("default").open_studies == (("a",) if options else ())


def test_a_study_that_had_all_its_attempts_is_reserved_no_longer(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", attempts=1)
    begun(ledger, study)
    assert ledger.account("default").taken == 1.0
    ledger.end_attempt(study, "p1", "p2 fell silent")
    assert ledger.account("default").taken == 0.0


def test_what_ended_early_keeps_what_had_left_and_frees_the_rest(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    for t in range(3):
        debits.debit(RUN, [mechanism(f"round {t}", 0.1, 1e-8)])
    ledger.end_attempt(study, "p1", "p2 fell silent")
    give_up(ledger, study.digest().hex(), "p1", by="steward")
    assert spent(ledger) == ledger.account("default").taken == pytest.approx(0.3)
    assert ledger.account("default").delta_left == pytest.approx(1e-5 - 3e-8)


def test_a_debit_of_an_attempt_that_is_over_is_refused(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    old = ledger.debits_for(study, "p1")
    begun(Ledger.open(StateFolder(tmp_path)), study)
    with raises(RefusedLocally, "attempt_over", 1):
        old.debit(RUN, [mechanism()])
    assert spent(ledger) == 0


def test_two_attempts_never_share_a_run_id_and_one_attempt_has_one(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", charged_attempts=1)
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    debits.debit(RUN, [mechanism("round 0", 0.1, 0.0)])
    with raises(RefusedLocally, "run_id_differs"):
        debits.debit(b"s" * 16, [mechanism("round 1", 0.1, 0.0)])
    other = named("b")
    begun(ledger, other)
    with raises(RefusedLocally, "run_id_differs"):
        ledger.debits_for(other, "p1").debit(RUN, [mechanism("round 1", 0.1, 0.0)])


# --- Attempts -----------------------------------------------------------------------


def test_attempts_that_released_nothing_are_counted(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    assert [begun(ledger, study) for _ in range(3)] == [1, 2, 3]
    with raises(RefusedLocally, "attempts_used_up", 3, 3):
        begun(ledger, study)
    assert begun(ledger, named("b", attempts=1)) == 1


def test_an_attempt_is_resumed_under_its_number(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", attempts=1)
    assert begun(ledger, study) == 1
    own = ledger.fingerprint(RECORDS)
    assert ledger.start_attempt(study, "p1", own, resumed=True) == 1
    ledger.debits_for(study, "p1").debit(RUN, [mechanism()])
    assert ledger.start_attempt(study, "p1", own, resumed=True) == 1


def test_once_something_has_left_no_other_attempt_fits_the_studys_target(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    spend(ledger, study, epsilon=1e-9, delta=0.0)
    with raises(BudgetExceeded, "attempt_had_release"):
        begun(ledger, study)


def test_an_attempt_with_other_records_is_refused(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    ledger.adopt(ledger.fingerprint(OTHERS), "default", by="steward")
    with raises(RefusedLocally, "records_not_of_first_attempt"):
        ledger.start_attempt(study, "p1", ledger.fingerprint(OTHERS))
    with raises(RefusedLocally, "records_not_of_first_attempt"):
        ledger.reserve(study, "p1", population="default", fingerprint=ledger.fingerprint(OTHERS), approved_by="steward")


def test_all_attempts_at_a_study_count_the_records_alike(tmp_path: Path) -> None:
    ledger, study, own = budget(tmp_path), named("a"), (1234567, 7654321)
    records = ledger.fingerprint(RECORDS)
    reserved(ledger, study)
    ledger.start_attempt(study, "p1", records, own)
    give_up(ledger, study.digest().hex(), "p1", by="steward")
    reserved(ledger, study)
    again = Ledger.open(StateFolder(tmp_path))
    again.check_attempt(study, "p1", records, own)
    for others in ((1234566, 7654321), (1234567, 7654322), (1234567,), ()):
        with raises(RefusedLocally, "records_counted_otherwise") as refused:
            again.start_attempt(study, "p1", records, others)
        with raises(RefusedLocally, "records_counted_otherwise"):
            again.check_attempt(study, "p1", records, others)
        assert not set("0123456789") & set(str(refused.value))
    again.start_attempt(study, "p1", records, own)
    other = named("b")
    reserved(again, other)
    again.start_attempt(other, "p1", records, own)
    entries = [entry.fields for entry in again.history() if entry.kind == "attempt"]
    assert not [entry for entry in entries if "1234567" in repr(entry) or "7654321" in repr(entry)]
    assert entries[0]["sizes"] == entries[1]["sizes"] != entries[2]["sizes"]  # two studies show nothing in common


def test_a_ledger_of_an_older_version_has_no_sizes(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    reserved(ledger, study)
    with ledger._file.transaction():
        ledger._file.append("attempt", {"study": study.digest().hex(), "me": "p1", "number": 1})
    again = Ledger.open(StateFolder(tmp_path))
    assert again.start_attempt(study, "p1", again.fingerprint(RECORDS), (12,)) == 2
    with raises(RefusedLocally, "records_counted_otherwise"):
        again.start_attempt(study, "p1", again.fingerprint(RECORDS), (11,))


def test_a_finished_study_never_runs_again_on_this_machine(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", charged_attempts=3)
    spend(ledger, study, epsilon=0.125, delta=0.0)
    ledger.finish(study, "p1")
    assert ledger.account("default").taken == 0.125
    again = Ledger.open(StateFolder(tmp_path))
    for action in (lambda: reserved(again, study), lambda: begun(again, study), lambda: again.finish(study, "p1")):
        with raises(RefusedLocally, "study_finished"):
            action()
    assert not would_fit(again, study, "p1", "default")


def test_what_a_study_would_take_is_known_before_it_is_reserved(tmp_path: Path) -> None:
    ledger = budget(tmp_path, epsilon=1.0)
    assert would_fit(ledger, named("a"), "p1", "default")
    assert not would_fit(ledger, named("b", epsilon=1.01), "p1", "default")
    reserved(ledger, named("a"))
    assert would_fit(ledger, named("a"), "p1", "default")
    assert not would_fit(ledger, named("b"), "p1", "default")


# --- What fails ---------------------------------------------------------------------


def test_entries_cannot_be_changed_or_removed(tmp_path: Path) -> None:
    budget(tmp_path)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        for change in ("UPDATE entries SET body = ''", "DELETE FROM entries"):
            with raises(sqlite3.Error, "ledger_only_grows"):
                db.execute(change)


def test_a_changed_entry_is_noticed(tmp_path: Path) -> None:
    spend(budget(tmp_path), named("a"))
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.execute("DROP TRIGGER no_update")
        db.execute("UPDATE entries SET body = replace(body, '1000000000000', '1') WHERE body LIKE '%debit%'")
    with raises(Damaged, "row_changed", 5):
        spent(Ledger.open(StateFolder(tmp_path)))


def older(tmp_path: Path) -> tuple[Ledger, Path]:
    """Spend twice, and put the ledger back to where it was in between."""
    ledger = budget(tmp_path / "state")
    spend(ledger, named("a"))
    ledger.close()
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    ledger = Ledger.open(StateFolder(tmp_path / "state"))
    spend(ledger, named("b"), b"s" * 16)
    ledger.close()
    for path in (tmp_path / "copy").glob("ledger.sqlite*"):
        shutil.copy(path, tmp_path / "state" / path.name)
    return Ledger.open(StateFolder(tmp_path / "state")), tmp_path / "state"


def test_nobody_writes_between_a_commit_and_its_lines_in_the_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file is free then. Who wrote lines in between would lose them to the lines of that commit."""
    ledger, folder = budget(tmp_path / "state"), StateFolder(tmp_path / "state")

    def reserve_two() -> None:  # one line that is missing is made up for
        reserved(reserved(Ledger.open(folder), named("second")), named("third"))

    other = Thread(target=reserve_two)
    mirror = ledger._file._mirror

    def late(*, awaited: bool = False) -> None:
        other.start()
        other.join(0.5)
        mirror(awaited=awaited)

    with monkeypatch.context() as patch:
        patch.setattr(ledger._file, "_mirror", late)
        reserved(ledger, named("first"))
    other.join()
    history = Ledger.open(folder).history()
    assert [entry.fields["name"] for entry in history if entry.kind == "reserved"] == ["first", "second", "third"]
    assert len(folder.ledger_lines.read_bytes().splitlines()) == len(history)


def test_a_ledger_that_was_put_back_to_an_older_copy_is_refused(tmp_path: Path) -> None:
    ledger, _ = older(tmp_path)
    with raises(RefusedLocally, "ledger_older_copy"):
        reserved(ledger, named("c"))


@pytest.mark.parametrize("lines", ["empty", "cut to the first", "cut to half"])
@pytest.mark.parametrize("as_of", ["the limit", "a study"])
def test_an_older_ledger_is_refused_also_where_the_second_file_lost_its_lines(
    tmp_path: Path, as_of: str, lines: str
) -> None:
    """Else what was spent since would be free again."""
    state = tmp_path / "state"
    ledger = budget(state)
    if as_of == "a study":
        spend(ledger, named("a"))
    ledger.close()
    shutil.copytree(state, tmp_path / "copy")
    ledger = Ledger.open(StateFolder(state))
    spend(ledger, named("b"), b"s" * 16)
    ledger.close()
    for path in (tmp_path / "copy").glob("ledger.sqlite*"):
        shutil.copy(path, state / path.name)
    whole = (state / "ledger.lines").read_bytes().splitlines(keepends=True)
    kept = {"empty": 0, "cut to the first": 1, "cut to half": 3}[lines]
    (state / "ledger.lines").write_bytes(b"".join(whole[:kept]))
    if (as_of, lines) == ("the limit", "cut to the first"):  # both are old and agree: this machine cannot tell
        assert spent(Ledger.open(StateFolder(state))) == 0.0
        return
    for _ in range(2):
        with pytest.raises((Damaged, OlderCopy)) as caught:
            spent(Ledger.open(StateFolder(state)))
        assert says(str(caught.value), "ledger_older_copy") or says(str(caught.value), "ledger_lines_cut")


def test_a_second_file_that_is_damaged_is_written_anew_from_a_sound_ledger_by_a_persons_word(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    spend(ledger, named("a"))
    ledger.close()
    lines = tmp_path / "ledger.lines"
    whole = lines.read_bytes()
    for at in (3, whole.index(b"reserved"), whole.index(b"\n")):
        lines.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        with raises(Damaged, "damaged_file", "ledger.lines", ...):
            spent(Ledger.open(StateFolder(tmp_path)))
        assert recover(StateFolder(tmp_path)) == 0
        assert lines.read_bytes() == whole
        assert spent(Ledger.open(StateFolder(tmp_path))) == 1.0


def test_what_an_entry_holds_is_never_entered_from_a_line_that_is_damaged(tmp_path: Path) -> None:
    ledger, state = older(tmp_path)
    ledger.close()
    lines = state / "ledger.lines"
    whole = lines.read_bytes()
    at = whole.rindex(b'"debit"')
    lines.write_bytes(whole[:at] + b"!" + whole[at + 1 :])
    with raises(Damaged, "damaged_file", "ledger.lines", ...):
        recover(StateFolder(state))


def test_two_copies_of_a_ledger_that_went_on_apart_are_never_mixed(tmp_path: Path) -> None:
    budget(tmp_path / "a").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for name in "ab":
        ledger = Ledger.open(StateFolder(tmp_path / name))
        spend(ledger, named(name))
        ledger.close()
    for path in (tmp_path / "b").glob("ledger.sqlite*"):
        shutil.copy(path, tmp_path / "a" / path.name)
    with raises(RefusedLocally, "ledgers_disagree", 3):
        spent(Ledger.open(StateFolder(tmp_path / "a")))
    with raises(RefusedLocally, "ledger_line_does_not_follow"):
        recover(StateFolder(tmp_path / "a"))


def test_what_an_older_copy_lacks_can_be_entered_again(tmp_path: Path) -> None:
    ledger, state = older(tmp_path)
    ledger.close()
    assert recover(StateFolder(state)) == 3
    ledger = Ledger.open(StateFolder(state))
    assert spent(ledger) == 2.0
    spend(ledger, named("c"), b"t" * 16)
    ledger.close()
    assert recover(StateFolder(state)) == 0
    assert spent(Ledger.open(StateFolder(state))) == 3.0


def test_a_lost_ledger_is_made_again_from_its_second_file_and_never_begun_anew(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    spend(ledger, named("a"))
    ledger.close()
    for path in tmp_path.glob("ledger.sqlite*"):
        path.unlink()
    with raises(RefusedLocally, "ledger_missing_beside_lines", "ledger.sqlite", tmp_path / "ledger.lines"):
        budget(tmp_path)
    recover(StateFolder(tmp_path))
    assert spent(Ledger.open(StateFolder(tmp_path))) == 1.0


def test_a_missing_second_file_is_refused_and_can_be_written_anew(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    spend(ledger, named("a"))
    before = (tmp_path / "ledger.lines").read_bytes()
    (tmp_path / "ledger.lines").unlink()
    with raises(RefusedLocally, "ledger_lines_missing", "ledger.lines"):
        spent(ledger)
    ledger.close()
    assert recover(StateFolder(tmp_path)) == 0
    assert (tmp_path / "ledger.lines").read_bytes() == before


def test_a_line_that_a_power_failure_cut_off_is_completed(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    spend(ledger, named("a"))
    ledger.close()
    lines = tmp_path / "ledger.lines"
    whole = lines.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 20, whole.rindex(b"\n", 0, -1) + 1):
        lines.write_bytes(whole[:cut])
        again = Ledger.open(StateFolder(tmp_path))
        assert spent(again) == 1.0
        again.end_attempt(named("none"), "p1", "nothing to end")
        again.close()
        assert lines.read_bytes() == whole


@pytest.mark.parametrize("left", ["nothing", "half a line", "zeros", "zeros and a line"])
def test_the_second_file_never_has_what_a_power_cut_can_take_from_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """The next transaction that is not quick first waits until the disk has the first file, then writes the second."""
    ledger, study, synced = budget(tmp_path), named("a"), list[str]()
    lines = tmp_path / "ledger.lines"

    def sync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    fsync = os.fsync
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    for t in range(2):
        debits.debit(RUN, [mechanism(f"round {t}", 0.125, 0.0)])
    before = lines.read_bytes()
    monkeypatch.setattr(os, "fsync", sync)
    for t in range(2, 5):
        debits.debit(RUN, [mechanism(f"round {t}", 0.125, 0.0)])
    assert (synced, lines.read_bytes()) == ([], before)
    assert spent(ledger) == 1.0  # debited ahead
    assert synced == ["ledger.sqlite-wal", tmp_path.name, "ledger.lines"]
    whole = lines.read_bytes()
    lost = whole.removeprefix(before)
    assert lost.count(b"\n") == 3
    last = lost.splitlines(keepends=True)[-1]
    tails = {"nothing": b"", "half a line": lost[:99], "zeros": bytes(4096), "zeros and a line": bytes(4096) + last}
    lines.write_bytes(before + tails[left])
    again = Ledger.open(StateFolder(tmp_path))
    assert spent(again) == 1.0
    assert lines.read_bytes() == whole
    ledger.end_attempt(study, "p1", "a test")
    assert synced[-1] == "ledger.lines"
    assert spent(ledger) == 0.625


def test_a_commit_awaits_the_disk_unless_it_is_quick(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits, levels = ledger.debits_for(study, "p1"), list[int]()
    for t in range(4):
        debits.debit(RUN, [mechanism(f"round {t}", 0.125, 0.0)])
        levels += ledger._file.table.database.execute("PRAGMA synchronous").fetchone()
    assert levels == [2, 2, 1, 1]  # FULL and NORMAL
    ledger.end_attempt(study, "p1", "a test")
    assert ledger._file.table.database.execute("PRAGMA synchronous").fetchone() == (2,)
    assert (tmp_path / "ledger.sqlite-wal").stat().st_size >= 4096 * LOG_PAGES


def test_another_key_does_not_open_the_ledger(tmp_path: Path) -> None:
    budget(tmp_path).close()
    (tmp_path / "ledger.key").write_bytes(b"k" * 32)
    with raises(Damaged, "row_changed", 1):
        spent(Ledger.open(StateFolder(tmp_path)))
    (tmp_path / "ledger.key").unlink()
    with raises(RefusedLocally, "ledger_key_unreadable", ...):
        Ledger.open(StateFolder(tmp_path))


def test_on_a_full_disk_a_debit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    pages = ledger._file.table.database.execute("PRAGMA page_count").fetchone()[0]
    ledger._file.table.database.execute(f"PRAGMA max_page_count = {pages}")
    many = [mechanism(f"{'x' * 30_000} {t}", 1e-6, 0.0) for t in range(4)]
    with raises(RunFailed, "ledger_not_written", ..., "database or disk is full"):
        debits.debit(RUN, many)
    ledger._file.table.database.execute("PRAGMA max_page_count = 100000")
    assert spent(ledger) == 0
    debits.debit(RUN, many)
    assert spent(ledger) == pytest.approx(4e-6)


def test_where_the_second_file_cannot_be_written_a_debit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _mode: str) -> None:
        raise OSError(28, "No space left on device")

    ledger, study = budget(tmp_path), named("a")
    begun(ledger, study)
    debits = ledger.debits_for(study, "p1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        with raises(RunFailed, "ledger_not_written", ..., "No space left on device"):
            debits.debit(RUN, [mechanism()])
    assert spent(ledger) == 1.0  # it is in the first file, so it counts although nothing left


def test_a_ledger_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    budget(tmp_path).close()
    ledger = Ledger.open(StateFolder(tmp_path))
    ledger._file.table.database.execute("PRAGMA query_only = ON")
    with raises(RunFailed, "ledger_not_written", ..., ...):
        reserved(ledger, named("a"))


def test_what_is_no_ledger_is_said_in_a_sentence(tmp_path: Path) -> None:
    budget(tmp_path).close()
    for path in tmp_path.glob("ledger.sqlite*"):
        path.unlink()
    (tmp_path / "ledger.sqlite").write_bytes(b"no database" * 100)
    with raises(RunFailed, "damaged_file", "ledger.sqlite", "file is not a database"):
        spent(Ledger.open(StateFolder(tmp_path)))


def test_no_record_and_no_key_stands_in_the_ledger(tmp_path: Path) -> None:
    ledger = budget(tmp_path)
    spend(ledger, named("a"))
    ledger.close()
    key = (tmp_path / "ledger.key").read_bytes()
    for path in tmp_path.glob("ledger.[sl]*"):
        content = path.read_bytes()
        assert key not in content
        assert key.hex().encode() not in content
        assert np.float64(-0.25).tobytes() not in content
    assert (tmp_path / "ledger.lines").stat().st_size > 0
