"""Finished runs of a toy protocol over real sockets, with a folder for each participant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_host.process.program import Program
from masquerade_host.store.results import RunDirectory, hash_of_statement, summarize
from masquerade_host.store.transcript import TRANSCRIPT, Transcript, hash_of_files, hashed, read_transcript
from masquerade_protocols import protocol_of
from tests.host_helpers import All, Hi, World, run_together, toy_charlie, toy_party


@dataclass(frozen=True)
class Coins:
    """The release of the toy protocol."""

    coins: bytes

    def files(self, study: Study, run: bytes) -> Mapping[str, Any]:
        """Return one JSON file and one text."""
        return {"model.json": {"coins": self.coins.hex(), "run_id": run.hex()}, "notes.txt": study.study.name}


async def silent_party(seat: Seat) -> Coins:
    """Show one's coin to Charlie, and hear everybody's; no party speaks to another."""
    await seat.join()
    coin = await seat.once("coin", lambda rng: rng.bytes(8))
    await seat.send(CHARLIE, Hi(coin=coin, sealed=b""))
    return Coins((await seat.receive(All, CHARLIE)).coins)


async def silent_charlie(seat: Seat) -> Coins:
    """Collect the coins and show them to all."""
    await seat.join()
    his = await seat.gather(Hi, seat.names)
    coins = b"".join(hi.coin for hi in his.values())
    await seat.broadcast(All(coins=coins))
    return Coins(coins)


async def _party(seat: Seat) -> Coins:
    return Coins(await toy_party(seat))


async def _charlie(seat: Seat) -> Coins:
    return Coins(await toy_charlie(seat))


def run_to_folders(
    root: Path,
    K: int = 3,
    world: World | None = None,
    roles: tuple[Callable[[Seat], Any], Callable[[Seat], Any]] = (_party, _charlie),
    programs: Mapping[str, Program] | None = None,
) -> World:
    """Run a toy protocol, given as the roles of a party and of Charlie; write each one's folder into ``root``."""
    world = world or World.new(K)
    study = world.study
    version = protocol_of(study).version
    ran = programs or {}
    sessions: dict[str, Any] = {CHARLIE: world.charlie(version=version, program=ran.get(CHARLIE))}
    sessions |= {name: world.party(name, version=version, program=ran.get(name)) for name in study.names}
    places = {name: RunDirectory(root / name, session) for name, session in sessions.items()}
    for place in places.values():
        place.__enter__()
    outcome = run_together(sessions, dict.fromkeys(study.names, roles[0]) | {CHARLIE: roles[1]})
    assert not outcome.errors
    statement = [claim.to_json() for claim in protocol_of(study).statement(study)]
    for name, place in places.items():
        release = outcome.results[name]
        more: dict[str, Any] = {} if name == CHARLIE else {"approval": {"by": "a steward"}, "ledger": {"epsilon": 1.0}}
        session = sessions[name]
        place.record(release.files(study, session.run), summarize(session, statement, {}, release), **more)
    return world


def transcript_of(folder: Path) -> Transcript:
    """Read a folder's transcript."""
    return read_transcript((folder / TRANSCRIPT).read_text(), TRANSCRIPT)


def resign(folder: Path, world: World, change: Callable[[Transcript], Transcript] = lambda t: t) -> None:
    """Let the owner of a folder change its transcript, and sign it and all files as they are now."""
    transcript = transcript_of(folder)
    files = {name: hashed((folder / name).read_bytes()) for name in transcript.files}
    release = {name: (folder / name).read_bytes() for name in ("model.json", "notes.txt")}
    transcript = change(replace(transcript, files=files, release=hash_of_files(release)))
    signed = transcript.with_signature(world.keys[transcript.participant].signing.sign)
    (folder / TRANSCRIPT).write_text(signed.to_text())


def statement_hash(rows: object) -> bytes:
    """Return the hash of a statement's rows."""
    return hash_of_statement(rows)
