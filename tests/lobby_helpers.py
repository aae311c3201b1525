"""A lobby in memory: a host, its sites, and a coordinator who may change what each of them is shown."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from masquerade.draft import Draft
from masquerade.lobby.code import NUMBER_BYTES
from masquerade.lobby.guest import Guest, Notes
from masquerade.lobby.host import Lobby
from masquerade.lobby.invitation import ID_BYTES, TOKEN_BYTES, Invitation
from masquerade.lobby.messages import Shown, Word, pack, unpack
from masquerade_core.identity import PublicKeys
from masquerade_core.study import CHARLIE
from masquerade_host.store.keyfiles import Keys
from tests.host_helpers import new_keys

NOW = 1_800_000_000
ADDRESS = "tcp://127.0.0.1:5555"


def studied(keys: Mapping[str, PublicKeys], charlie: PublicKeys, *, colluders: int = 0, deadline: float = 60.0) -> str:
    """Return a study of these sites, as the lobby shows it."""
    return Draft(
        parties=tuple(keys.items()),
        curator_key=charlie,
        address=ADDRESS,
        colluders=colluders,
        deadline_seconds=deadline,
        nonce="0123456789abcdef",
    ).to_toml()


@dataclass
class Room:
    """A host and his sites; ``tamper`` changes the answer to one of them."""

    names: tuple[str, ...] = ("p1", "p2", "p3")
    colluders: int = 0
    tamper: Callable[[str, Shown], Shown] = lambda _to, shown: shown
    events: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.charlie = new_keys()
        self.lobby_id = secrets.token_bytes(ID_BYTES)
        self.invitations = {
            name: Invitation(
                name, ADDRESS, self.charlie.public, self.lobby_id, secrets.token_bytes(TOKEN_BYTES), NOW + 100
            )
            for name in self.names
        }
        self.keys: dict[str, Keys] = {name: new_keys() for name in self.names}
        self.host = self.opened()
        self.guests = {name: self.guest(name) for name in self.names}

    def opened(self) -> Lobby:
        """Return a host as a new process of his would be."""
        return Lobby(
            self.invitations,
            lambda keys: studied(keys, self.charlie.public, colluders=self.colluders),
            lambda event, name: self.events.append((event, name)),
        )

    def guest(self, name: str, keys: Keys | None = None, known: tuple[tuple[str, str], ...] = ()) -> Guest:
        """Return a site with a fresh number."""
        notes = Notes(secrets.token_bytes(NUMBER_BYTES))
        return Guest(self.invitations[name], keys or self.keys[name], notes, secrets.token_bytes, known)

    def ask(self, name: str, now: float = NOW) -> None:
        """Let a site ask once, over the bytes that travel."""
        guest = self.guests[name]
        shown = self.host.answer(unpack(Word, pack(guest.word()), name), now)
        guest.take(self.tamper(name, unpack(Shown, pack(shown), CHARLIE)))

    def go(self, rounds: int = 4) -> None:
        """Let everybody ask some times."""
        for _ in range(rounds):
            for name in self.names:
                self.ask(name)
