"""Sessions of a study with ``[dropouts]``: who may be left out of the close, and whole runs over sockets."""

import threading
from functools import partial
from typing import Any

import pytest

from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message, decode, encode
from masquerade_host.session.messages import AllClosed
from masquerade_protocols.blocks.masked_sum import Masked
from masquerade_protocols.dp_gd import roles as dp_gd
from tests.host_helpers import World, run_together
from tests.protocol_helpers import make_data
from tests.unit.host.session.test_closing import BODY, KIND, header, signed_by
from tests.wired import Wired

PARTIES = ("p1", "p2", "p3")
PATIENCE = 2.0


def losing(world: World, survivors: int) -> Study:
    text = world.study.to_toml()
    for old, new in (
        ('lead = "p1"\n', ""),
        ('calibration = "paper"', 'calibration = "proven"'),
        ("delta = 0.0", "delta = 1e-6"),
    ):
        assert old in text
        text = text.replace(old, new)
    lines = [line for line in text.splitlines() if not line.startswith(("key_bits", "sum", "[crypto]"))]
    text = "\n".join(lines)
    return Study.parse(
        f"{text}\n[crypto]\nsum = 'masks'\n"
        f"[dropouts]\nmin_survivors = {survivors}\nretries = 3\npatience_seconds = {PATIENCE}\n"
    )


def seat_all(survivors: int = 2) -> Wired:
    world = World.new(3, deadline=6.0, port=5555)
    world.study = losing(world, survivors)
    wired = Wired(world)
    wired.join()
    assert set(wired.answers) == {*PARTIES, CHARLIE}
    return wired


@pytest.fixture
def wired() -> Wired:
    """Three parties, of which two must remain, and Charlie."""
    return seat_all()


@pytest.mark.parametrize(("left_out", "good"), [(("p2",), True), (("p1",), False), (("p2", "p3"), False)])
def test_charlie_may_leave_out_no_more_parties_than_the_study_allows(
    wired: Wired, left_out: tuple[str, ...], good: bool
) -> None:
    def change(source: str, to: str, data: bytes) -> tuple[bytes]:
        fields = header(data)
        if (source, to, fields[KIND]) == (CHARLIE, "p1", "closed"):
            shown = decode(AllClosed, fields[BODY], CHARLIE).closed
            closed = tuple(b"" if name in left_out else frame for name, frame in zip(PARTIES, shown, strict=True))
            fields[BODY] = encode(AllClosed(closed=closed), to)
            return (signed_by(wired, CHARLIE, fields),)
        return (data,)

    wired.tamper = change
    for name in (*PARTIES, CHARLIE):
        wired.finish(name)
    wired.pump(3)
    assert wired.parties["p1"].closed is good
    if not good:
        error = wired.errors["p1"]
        assert isinstance(error, ProtocolViolation)
        assert error.peer == CHARLIE


# --- A whole run over sockets ---------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False])
def test_a_descent_over_sockets_goes_on_without_a_party(leaves: bool) -> None:
    """p4 leaves, or hangs, on the way to its third contribution; all others and Charlie have one model."""
    world = World.new(4, deadline=30.0)
    text = losing(world, 3).to_toml()
    for old, new in (
        ('protocol = "local-aggregation"', 'protocol = "dp-gd"'),
        ("patience_seconds = 2.0", "patience_seconds = 6.0"),
        ("[protocol]\n", "[protocol]\nrounds = 4\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    study = world.study = Study.parse(text)
    hangs = threading.Event()

    class Leaving(Seat):
        async def send(self, to: str, message: Message) -> None:
            if isinstance(message, Masked) and message.round == 2:
                if leaves:
                    raise RunFailed("its machine is needed")
                await self.once("hang", lambda _rng: hangs.wait(300))
            await super().send(to, message)

    records = make_data(study, (20, 30, 40, 50))
    roles = {name: partial(dp_gd.party, study=study, data=records[name]) for name in study.names[:3]}

    async def leaver(seat: Seat) -> object:
        return await dp_gd.party(Leaving(seat.me, seat.names), study, records["p4"])

    sessions: dict[str, Any] = {CHARLIE: world.charlie(), **{name: world.party(name) for name in study.names}}
    outcome = run_together(sessions, {**roles, "p4": leaver, CHARLIE: partial(dp_gd.charlie, study=study)})
    hangs.set()
    assert set(outcome.errors) == {"p4"}
    assert isinstance(outcome.errors["p4"], RunFailed)
    assert set(outcome.results) == {"p1", "p2", "p3", CHARLIE}
    assert len({tuple(model.weights) for model in outcome.results.values()}) == 1
