"""A power cut at every step of a run of masked sums: no noise at two points, and no release that nobody paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, pairwise

import pytest

from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_host.session.agreement import ResumeBarrier
from masquerade_host.session.commits import Commits
from masquerade_host.store import journal, ledger
from masquerade_host.store.budget import give_budget
from masquerade_host.store.chained_table import ChainedTable
from masquerade_host.store.state import StateFolder
from masquerade_protocols import entry_of
from tests.host_helpers import World
from tests.power_cuts import Cut, Outage, PoweredGroup, steps_are_watched
from tests.protocol_helpers import make_data
from tests.restarts import Role, noisy_rounds, shows_all
from tests.unit.host.session.test_rollback import lie

ROUNDS = 3
New = Callable[..., PoweredGroup]


async def draws_in_each_round(seat: Seat, rounds: int) -> bytes:
    """Draw noise in each round: a process that goes on with an older folder draws it again."""
    await seat.join()
    return await noisy_rounds(seat, rounds)


def loses(_name: str) -> bool:
    """Nothing stays that was not synced."""
    return False


CUTS: tuple[Cut, ...] = (
    loses,
    lambda name: ".sqlite" in name,
    lambda name: ".sqlite" not in name,
    lambda _name: True,
    lambda name: "journal" in name,
    lambda name: "ledger" in name,
)
_DESCENT = {
    'lead = "p1"\n': "",
    "key_bits = 2048\n": "",
    'sum = "paillier"': 'sum = "masks"',
    '"paper"': '"proven"',
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-05",
    "[protocol]\n": f"[protocol]\nrounds = {ROUNDS}\nclip = 0.5\nlearning_rate = 1.0\n\n",
}


@pytest.fixture(scope="module")
def world() -> World:
    world = World.new(3, deadline=30.0, port=5555)
    text = world.study.to_toml()
    for old, new in _DESCENT.items():
        assert old in text, old
        text = text.replace(old, new)
    return World(Study.parse(text), world.keys)


@pytest.fixture(scope="module")
def new_group(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[New]:
    folder, study = tmp_path_factory.mktemp("powered"), world.study
    entry, data = entry_of(study), make_data(study, [4, 5, 6])
    books = give_budget(StateFolder(folder / "prepared"), "default", epsilon=10.0, delta=1e-3, by="a test")
    own = books.fingerprint("records")
    books.adopt(own, "default", by="a test")
    for name in study.names:
        spends = entry.spends(study)
        books.reserve(study, name, population="default", fingerprint=own, approved_by="a test", spends=spends)
    books.close()
    count = iter(range(10**6))

    def new(*, fresh: bool = False, rounds: int = ROUNDS) -> PoweredGroup:
        roles: dict[str, Callable[[Seat], Role]]
        roles = {name: partial(entry.party, study=study, data=data[name]) for name in study.names}
        roles[CHARLIE] = partial(entry.charlie, study=study)
        if fresh:
            drawing = partial(draws_in_each_round, rounds=rounds)
            roles = {**dict.fromkeys(study.names, drawing), CHARLIE: partial(shows_all, rounds=rounds)}
        return PoweredGroup(world, roles, folder / str(next(count)), folder / "prepared", own)

    with steps_are_watched():
        yield new


def crashed(new: New, outage: Outage | None = None) -> PoweredGroup:
    """Let p1 lose its power at a step, and start again what died, until everybody has ended."""
    group = new()
    group.sites["p1"].outage = outage
    group.run(100)
    for name in group.world.study.names:
        group.sites[name].check()
    return group


@pytest.fixture(scope="module")
def steps(new_group: New) -> list[str]:
    """Return the steps of p1, without a cut."""
    group = crashed(new_group)
    assert set(group.ends().values()) == {""}
    assert {name: len(site.seen.noise) for name, site in group.sites.items() if site.durable} == dict.fromkeys(
        group.world.study.names, ROUNDS
    )
    return group.sites["p1"].steps


def moments_of_loss(new: New) -> list[int]:
    """Return the steps of p1 of which each has something else on the disk, or in the others' hands, than the last."""
    group = new()
    p1 = group.sites["p1"]
    found = p1.lasting = []
    group.run(100)
    return [1, *(at for at, (before, now) in enumerate(pairwise(found), 2) if before != now)]


@pytest.mark.parametrize("all_", [False, True], ids=["of one", "of all"])
def test_a_power_cut_at_any_step_changes_nothing(new_group: New, steps: list[str], *, all_: bool) -> None:
    """Until the ledger knows the end, the run goes on; after it, the same command is refused or finds the end.

    One party loses all that was not synced. So it is enough to try the steps before which something was, or a frame
    left.
    """
    over = len(steps) - steps[::-1].index("commit ledger.sqlite")
    cuts = cycle(CUTS if all_ else [loses])
    moments = range(1, len(steps) + 1, 2) if all_ else moments_of_loss(new_group)
    assert len(moments) > len(steps) // 3
    for at in moments:
        group = crashed(new_group, Outage(at, next(cuts), all_))
        assert group.sites["p1"].starts == 2
        ends = set(group.ends().values())
        assert ends == {""} or (at > over and ends <= {"", "RefusedLocally"}), (at, steps[at - 1], group.ends())


def test_from_the_third_round_on_a_round_waits_for_the_disk_once(new_group: New) -> None:
    """That is for the journal: the ledger's debits are parts of one that was debited ahead."""
    group = new_group(fresh=True, rounds=9)
    group.run(200)
    assert group.ends() == dict.fromkeys(group.world.study.names, "")
    waits = group.sites["p1"].waits  # after the hello and two rounds
    assert len(waits) > 3 + 6
    assert max(later - earlier for earlier, later in pairwise(waits[3:])) == 1


def put_back(new: New, at: int, later: int, *, fresh: bool, helped: bool = False) -> PoweredGroup:
    """Copy p1's folder at a step, and put the copy back after some more; ``helped``: by a Charlie who sends again."""
    group = new(fresh=fresh)
    p1 = group.sites["p1"]
    p1.copy_at = at
    group.run(100, until=lambda: len(p1.steps) >= at)
    if helped:
        lie(group.sites[CHARLIE].session._channel_to("p1"))
    group.run(100, until=lambda: len(p1.steps) >= at + later)
    p1.put_back_copy()
    group.run(100)
    for name in group.world.study.names:
        group.sites[name].check()
    return group


@pytest.mark.parametrize("fresh", [False, True], ids=["masked sums", "fresh draws"])
def test_a_folder_put_back_at_any_step_sends_nothing_twice(new_group: New, *, fresh: bool) -> None:
    """An older copy of the whole state folder: the others, and Charlie, know how far this party was."""
    whole = new_group(fresh=fresh)
    whole.run(100)
    refused = 0
    for at, later in zip(range(1, len(whole.sites["p1"].steps), 2 if fresh else 6), cycle([2, 7, 15, 30])):
        group = put_back(new_group, at, later, fresh=fresh)
        refused += group.sites["p1"].error is not None
    assert refused > 5


# --- The test can fail ------------------------------------------------------------------


def _journal_waits_for_no_disk(patch: pytest.MonkeyPatch) -> None:
    class Quick(ChainedTable):
        def begin(self, *, quick: bool = True) -> None:
            super().begin(quick=quick)

    patch.setattr(journal, "ChainedTable", Quick)


def _ledger_waits_for_no_disk(patch: pytest.MonkeyPatch) -> None:
    transaction = ledger.LedgerFile.transaction
    patch.setattr(ledger.LedgerFile, "transaction", lambda self, *, quick=False: transaction(self, quick=True))


def _nothing_is_debited_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger.Books, "ahead", lambda *_: None)


def _the_debit_follows_the_frame(patch: pytest.MonkeyPatch) -> None:
    post = Commits.post

    def too_early(self: Commits, run: bytes) -> None:
        if self.steps.due is None and self._ready:
            self.commit()
            for channel in self._ready.values():
                channel.flush()
        post(self, run)

    patch.setattr(Commits, "post", too_early)


BUGS = (
    _journal_waits_for_no_disk,
    _ledger_waits_for_no_disk,
    _nothing_is_debited_ahead,
    _the_debit_follows_the_frame,
)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(new_group: New, bug: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        group = new_group()
        group.run(100)
        steps = group.sites["p1"].steps
        found = 0
        for at in range(2, len(steps) + 1):
            if steps[at - 2] != "send":
                continue
            try:
                ends = crashed(new_group, Outage(at)).ends()
            except AssertionError:
                found += 1
                break
            found += set(ends.values()) != {""}
        assert found


@pytest.mark.parametrize("asks", [True, False])
def test_with_a_charlie_who_helps_only_the_others_stop_an_older_folder(
    new_group: New, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    """Without the question to them he has two noisy answers to one question, and the test sees it."""
    if not asks:
        monkeypatch.setattr(ResumeBarrier, "resumed", lambda *_: None)
    whole = new_group(fresh=True)
    whole.run(100)
    sends = [n for n, step in enumerate(whole.sites["p1"].steps, 1) if step == "send"]
    found = 0
    for at in sends[2:5]:
        for later in (6, 12):
            try:
                put_back(new_group, at - 5, later, fresh=True, helped=True)
            except AssertionError:
                found += 1
    assert bool(found) is not asks
