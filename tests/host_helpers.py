"""A toy protocol and a study with fresh keys, for everything that tests the host and no real protocol."""

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage
from masquerade_host.process.driver import run_role
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.dialer import PartySocket, probe
from masquerade_host.transport.sockets import CharlieSocket

VERSION = "1.2.3"

_STUDY = """
[study]
name = "toy"
protocol = "local-aggregation"
min_parties = 2
lead = "p1"
min_records = 2
deadline_seconds = {deadline}
nonce = "0123456789abcdef"

[privacy]
epsilon = 1.0
delta = 0.0
calibration = "paper"

[model]
regularization = 0.01

[label]
name = "y"
positive = "1"

[[feature]]
name = "x"
min = -1.0
max = 1.0

[curator]
address = "{address}"
key = "{curator}"
"""


def study_text(keys: Mapping[str, PublicKeys], address: str, deadline: float) -> str:
    """A study of everybody who has a key."""
    text = _STUDY.format(deadline=deadline, address=address, curator=keys[CHARLIE])
    return text + "".join(
        f'\n[[party]]\nname = "{name}"\nkey = "{key}"\n' for name, key in keys.items() if name != CHARLIE
    )


def new_keys() -> Keys:
    """Draw keys that stand in no file."""
    rng = SystemRng()
    return Keys(rng.bytes(32), rng.bytes(32))


def free_port() -> int:
    """Return a port that was free a moment ago.

    The system gives it to nobody who asks for any port, so a Charlie who is killed finds it free when he comes back.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)  # below those that systems give out
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class World:
    """A study and everybody's secret keys."""

    study: Study
    keys: dict[str, Keys]

    @classmethod
    def new(cls, K: int = 3, deadline: float = 600.0, port: int | None = None) -> "World":
        """Draw keys for Charlie and K parties p1, p2, ... and write their study."""
        names = [f"p{j}" for j in range(1, K + 1)]
        keys = {name: new_keys() for name in (*names, CHARLIE)}
        address = f"tcp://127.0.0.1:{free_port() if port is None else port}"
        public = {name: key.public for name, key in keys.items()}
        return cls(Study.parse(study_text(public, address, deadline)), keys)

    def changed(self, old: str, new: str) -> Study:
        """Return the study with a piece of its text exchanged."""
        text = self.study.to_toml()
        assert old in text
        return Study.parse(text.replace(old, new))

    def charlie(self, study: Study | None = None, version: str = VERSION, **kwargs: Any) -> CharlieSession:
        """Make Charlie's session over a real socket."""
        study = study or self.study
        keys = self.keys[CHARLIE]
        roster = {party.name: party.key.curve for party in study.parties}
        return CharlieSession(
            study, keys, lambda: CharlieSocket(study.address, keys, roster), version=version, **kwargs
        )

    def party(
        self, name: str, study: Study | None = None, version: str = VERSION, keys: Keys | None = None, **kwargs: Any
    ) -> PartySession:
        """Make a party's session over a real socket."""
        study, keys = study or self.study, keys or self.keys[name]
        return PartySession(
            name,
            study,
            keys,
            lambda: PartySocket(study.address, keys, study.curator.key.curve),
            lambda: probe(study.address, study.curator.key.curve),
            version=version,
            **kwargs,
        )


class Hi(Message):
    """A party's coin, for Charlie."""

    coin: Annotated[bytes, Field(min_length=8, max_length=8)]
    sealed: bytes


class All(Broadcast):
    """Everybody's coins."""

    coins: bytes


class Secret(SealedMessage):
    """A party's coin, for all other parties."""

    coin: bytes


class Reply(SealedMessage):
    """The same coin back, to the lead alone."""

    coin: bytes


async def toy_party(seat: Seat, pause: Callable[[], None] = lambda: None) -> bytes:
    """Show one's coin to Charlie, sealed message it to all, reply to the lead; everybody must have seen the same."""
    await seat.join()
    await seat.stage("coins")
    coin = await seat.once("coin", lambda rng: rng.bytes(8))
    sealed = await seat.once("seal", lambda rng: seat.seal(rng, CHARLIE, coin))
    await seat.send(CHARLIE, Hi(coin=coin, sealed=sealed))
    pause()
    await seat.send_sealed(Secret(coin=coin))
    heard = {name: secret.coin for name, secret in (await seat.gather(Secret)).items()} | {seat.me: coin}
    lead = seat.names[0]
    if seat.me == lead:
        assert {n: r.coin for n, r in (await seat.gather(Reply)).items()} == dict.fromkeys(seat.others, coin)
    else:
        await seat.send_sealed(Reply(coin=heard[lead]), lead)
    coins = (await seat.receive(All, CHARLIE)).coins
    assert coins == b"".join(heard[name] for name in seat.names)
    return coins


async def toy_charlie(seat: Seat, pause: Callable[[], None] = lambda: None) -> bytes:
    """Collect the coins and show them to all."""
    await seat.join()
    await seat.stage("coins")
    his = await seat.gather(Hi, seat.names)
    assert all(seat.unseal(hi.sealed, length=8) == hi.coin for hi in his.values())
    pause()
    coins = b"".join(hi.coin for hi in his.values())
    await seat.broadcast(All(coins=coins))
    return coins


@dataclass
class Outcome:
    """The end of each participant's role."""

    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)


def run_together(
    sessions: Mapping[str, CharlieSession | PartySession], roles: Mapping[str, Any] | None = None
) -> Outcome:
    """Run each session's role in a thread of its own, to everybody's end."""
    outcome = Outcome()

    def one(name: str) -> None:
        session = sessions[name]
        seat = Seat(name, session.names)
        role = (roles or {}).get(name) or (toy_charlie if name == CHARLIE else toy_party)
        try:
            outcome.results[name] = run_role(role(seat), session, SystemRng())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            outcome.errors[name] = error

    threads = [threading.Thread(target=one, args=(name,)) for name in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome
