"""A party's process is killed before each of its steps in turn; what had left by then is in the ledger."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from masquerade_core.seat import Release, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.ledger import NO_RELEASES, Ledger
from masquerade_host.store.state import StateFolder
from masquerade_protocols import entry_of
from tests.host_helpers import World
from tests.ledger_helpers import RECORDS, DiedError, budget, dying, stepped
from tests.unit.protocols.blocks.test_releases import ran
from tests.wired import Wired

CONTRIBUTES = {"Contribution", "Masked", "Share"}
STUDIES = ("dp-whitened, masks", "dp-gd", "dp-gd, masks", "dp-gd, evaluated", "psgd", "psgd, proven", "summary", "vote")
MESSAGE = Send("message", "Hi", (CHARLIE,), (b"x",))


def _effects(name: str, folder: Path) -> tuple[Study, list[Release | Send]]:
    """Return what the first of three parties counts and contributes in a whole run."""
    study, table = ran(name, folder)
    found = [entry.effect for entry in table.journal(study.names[0])]
    return study, [e for e in found if isinstance(e, Release) or (isinstance(e, Send) and e.type in CONTRIBUTES)]


def _killed(
    folder: Path, study: Study, effects: list[Release | Send], at: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], int, set[str]]:
    """Let a session carry the effects out and die before step ``at``; returns the steps, messages and labels left."""
    ledger, me = budget(folder, epsilon=100.0), study.names[0]
    own = ledger.fingerprint(RECORDS)
    spends = entry_of(study).spends(study)
    ledger.reserve(study, me, population="default", fingerprint=own, approved_by="a test", spends=spends)
    ledger.start_attempt(study, me, own)
    wired = Wired(World.new(2, port=5555))
    wired.join()
    p1, link = wired.parties["p1"], wired.links["p1"]
    p1._commits._debits = ledger.debits_for(study, me)
    before = len(link.sent)
    costs = [set[str]()]  # of each message, and those before it
    with dying(monkeypatch, at) as steps:
        monkeypatch.setattr(p1, "_send", stepped("send", p1._send, steps, at))
        with suppress(DiedError):
            for effect in effects:
                if isinstance(effect, Release):
                    costs[-1].add(effect.label)
                    p1.begin(effect)
                else:
                    costs.append(set())
                    p1.begin(MESSAGE)
    sent = len(link.sent) - before
    ledger.close()
    return steps, sent, set().union(*costs[:sent])


@pytest.mark.parametrize("name", STUDIES)
def test_at_every_kill_point_the_ledger_holds_at_least_what_left(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, effects = _effects(name, tmp_path)
    messages = sum(isinstance(effect, Send) for effect in effects)
    releases = [effect for effect in effects if isinstance(effect, Release)]
    steps, sent, left = _killed(tmp_path / "whole", study, effects, 10**6, monkeypatch)
    assert (sent, len(left)) == (messages, len(releases))
    assert steps.count("send") == messages
    assert steps.count("_insert") >= len(releases)
    for at in range(len(steps)):
        folder = tmp_path / str(at)
        _, sent, left = _killed(folder, study, effects, at, monkeypatch)
        assert sent < messages
        ledger = Ledger.open(StateFolder(folder))
        debited = {entry.fields["label"] for entry in ledger.history() if entry.kind == "debit"} - NO_RELEASES
        assert left <= debited
        assert len(debited - left) <= 1  # the one that was under way
        ledger.close()
