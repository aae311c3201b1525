"""A study with ``charged_attempts`` pays for several attempts ahead: noise, statement and budget count all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade_core.errors import BadInput, BudgetExceeded
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Total
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_host.store.ledger import Attempt, Reservation
from masquerade_protocols import PROTOCOLS, protocol_of, statement_of
from masquerade_protocols.dp_gd.schedule import noise_of
from masquerade_protocols.in_memory import run_in_memory
from tests.ledger_helpers import RECORDS, begun, budget, mechanism, named
from tests.messages import raises, says
from tests.protocol_helpers import make_data
from tests.unit.protocols import test_refusals as every


def charged(study: Study, attempts: int) -> Study:
    """Return the study with so many charged attempts."""
    section = study.study.model_copy(update={"charged_attempts": attempts})
    return study.model_copy(update={"study": section})


@pytest.mark.parametrize(("option", "value"), [("attempts", 0), ("attempts", 101), ("charged_attempts", -1)])
def test_what_is_no_number_of_attempts_is_refused(option: str, value: int) -> None:
    with raises(BadInput, "key_of_another_kind", f"[study] {option}", value, ...):
        named("a", **{option: value})


def test_a_study_says_how_often_it_may_be_tried_and_its_digest_depends_on_it() -> None:
    plain = named("a")
    assert (plain.study.attempts, plain.study.charged_attempts) == (3, 0)
    others = [named("a", attempts=2), named("a", charged_attempts=1)]
    assert len({study.digest() for study in (plain, *others)}) == 3


def test_each_attempt_gets_the_same_share_of_the_target() -> None:
    study = charged(named("a", epsilon=3.0, delta=3e-6), 2)
    one = study.one_attempt()
    assert (one.privacy.epsilon, one.privacy.delta, one.study.charged_attempts) == (1.0, 1e-6, 0)
    assert named("a").one_attempt() == named("a")


@pytest.mark.parametrize("name", every.STUDIES)
def test_every_row_of_the_statement_counts_all_attempts(name: str) -> None:
    study = charged(every._made(name), 1)
    rows, single = statement_of(study), statement_of(study.one_attempt())
    assert len(rows) == len(single)
    for row, one in zip(rows, single, strict=True):
        if one.epsilon is None or one.delta is None or one.delta >= 0.5:
            assert row.epsilon is None
            continue
        assert row.epsilon == pytest.approx(2 * one.epsilon)
        assert row.delta == pytest.approx(2 * one.delta)
        assert "counts 2 attempts" in row.text
    assert statement_of(charged(study, 0)) == statement_of(every._made(name))


@pytest.mark.parametrize("name", every.STUDIES)
def test_so_many_attempts_fit_the_reservation_and_one_more_does_not(name: str) -> None:
    study = charged(every._made(name), 2)
    entry = protocol_of(study)
    whole, one = entry.spends(study), entry.spends(study.one_attempt())
    held = Reservation("study", "p0", name, "default", "", whole, whole.part(3), 3)
    for number in range(3):
        assert held.fits(Total.of(one))
        held.tries.append(Attempt(number + 1, debited=Total.of(one)))
    assert not held.fits(Total.of(one))
    assert Total.of(one).mu2 <= Total.of(held.one).mu2 * (1 + 1e-9)
    if study.study.protocol != "input-noise":
        assert whole.epsilon / UNITS == study.privacy.epsilon
        assert whole.delta / DELTA_UNITS == study.privacy.delta


def test_each_attempt_has_the_noise_of_its_share() -> None:
    study = charged(every._made("dp-gd, masks"), 1)
    table = Table(study.names)
    results = run_in_memory(PROTOCOLS["dp-gd"], study, make_data(study, (20, 20, 20)), table=table)
    assert len({repr(results[name]) for name in (*study.names, CHARLIE)}) == 1
    (of_two,) = {round(r.mu, 9) for _, r in table.releases}
    again = Table(study.names)
    run_in_memory(PROTOCOLS["dp-gd"], study.one_attempt(), make_data(study, (20, 20, 20)), table=again)
    (of_one,) = {round(r.mu, 9) for _, r in again.releases}
    assert of_two == of_one
    assert float(noise_of(study.one_attempt()).sigma) > 1.5 * float(noise_of(study).sigma)


def test_the_words_for_a_data_owner_say_what_all_attempts_cost() -> None:
    study = charged(every._made("dp-gd"), 1)
    said = protocol_of(study).explain(study).cost
    assert says(said[-1], "study_pays_for", "2 attempts")
    assert "epsilon = 8 and delta = 1e-05" in said[-1]
    assert not says(" ".join(protocol_of(study).explain(charged(study, 0)).cost), "study_pays_for", ...)


def test_so_many_attempts_may_follow_once_something_has_left(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", epsilon=2.0, delta=2e-6, charged_attempts=1)
    for attempt in (1, 2):
        assert begun(ledger, study) == attempt
        ledger.debits_for(study, "p1").debit(bytes([attempt]) * 16, [mechanism()])
    with raises(BudgetExceeded, "attempt_had_release"):
        ledger.start_attempt(study, "p1", ledger.fingerprint(RECORDS))
    assert ledger.account("default").spent == 2.0


def test_an_attempt_that_spent_little_leaves_room_for_one_more_whole_run_and_not_for_two(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path), named("a", epsilon=2.0, delta=2e-6, charged_attempts=1)
    for attempt, epsilon in ((1, 0.3), (2, 0.3), (3, 0.9)):
        assert begun(ledger, study) == attempt
        ledger.debits_for(study, "p1").debit(bytes([attempt]) * 16, [mechanism(epsilon=epsilon, delta=1e-9)])
    with pytest.raises(BudgetExceeded):
        ledger.start_attempt(study, "p1", ledger.fingerprint(RECORDS))
