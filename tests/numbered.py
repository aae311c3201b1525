"""The numbers of the wire and of each protocol's meaning, each beside the known answers that it stands for.

Two programs whose numbers are equal take part in one run. So a number must change whenever known answers do. For the
wire these are the bytes of the vectors and the fields of the sessions' messages; for a protocol, what a seeded run says
and releases. ``python -m tests.numbered`` writes ``tests/numbered.json`` anew. It refuses where answers changed and
their number did not.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic.fields import FieldInfo

from masquerade_core.model import Model
from masquerade_core.seat import Once, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire import faults
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage, pack_plain
from masquerade_core.wire.frames import WIRE_VERSION
from masquerade_host.session import agreement
from masquerade_host.session import messages as session_messages
from masquerade_protocols import entry_of
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.registry import MEASUREMENTS, PROTOCOLS
from tests.evaluation_helpers import held_back_study, measuring, records_of
from tests.faulty import play

FILE = Path(__file__).with_name("numbered.json")
_VECTORS = Path(__file__).parent / "vectors"
_SESSIONS = (faults, session_messages, agreement)
_DIGITS = 1e-6  # relative: machines differ in a number's last digits, and another meaning in its first ones

Answers = dict[str, Any]


class _Labelled(Table):
    """A table at which each draw follows from its label: a draw that is added changes no other one."""

    def _answer(self, name: str, player: Any) -> tuple[bool, Any]:
        if isinstance(player.pending, Once):
            return True, pack_plain(player.pending.compute(SimulationRng(player.pending.label, name)))
        return super()._answer(name, player)


def wire() -> Answers:
    """Return the wire's number, a hash of all vectors, and the fields of the sessions' own messages."""
    digest = hashlib.sha256()
    for path in sorted(_VECTORS.glob("*.json")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return {"number": WIRE_VERSION, "vectors": digest.hexdigest(), "forms": _forms()}


def _forms() -> dict[str, list[str]]:
    classes = {each for module in _SESSIONS for each in vars(module).values() if isinstance(each, type)}
    kinds = {Broadcast, SealedMessage}  # without fields of their own
    messages = sorted((each for each in classes - kinds if issubclass(each, Message)), key=lambda each: each.__name__)
    return {each.__name__: [_form(name, field) for name, field in each.model_fields.items()] for each in messages}


def _form(name: str, field: FieldInfo) -> str:
    kind = getattr(field.annotation, "__origin__", field.annotation)
    values = getattr(field.annotation, "__args__", ()) if kind is Literal else ()
    bounds = [
        (end, getattr(each, end))
        for each in field.metadata
        for end in ("min_length", "max_length")
        if hasattr(each, end)
    ]
    return f"{name}: {getattr(kind, '__name__', 'Literal')} {[*values, *bounds]}"


def protocols() -> dict[str, Answers]:
    """Return for each protocol its number, a hash of what its roles say to whom, and the numbers that it releases."""
    return {name: protocol(name) for name in PROTOCOLS | MEASUREMENTS}


def protocol(name: str) -> Answers:
    """Return the answers of one protocol."""
    study, data, options = _small(name)
    entry = entry_of(study)
    table = _Labelled(study.names, run=bytes(16), study=study)
    release = run_in_memory(entry, study, data, table=table, **options)[CHARLIE]
    files = release.files(study, bytes(16))
    return {"number": entry.meaning, "said": _said(table), "released": list(_numbers(json.loads(json.dumps(files))))}


def _small(name: str) -> tuple[Study, Mapping[str, Any], Mapping[str, Any]]:
    """Return a small study of a protocol, everybody's records, and what all roles take besides."""
    if name in MEASUREMENTS:
        study = measuring(held_back_study(3, 4, min_records=30), Model((4.0, -3.0, 2.0, 1.0), None, (-1.5,), 0.5))
        rng = np.random.default_rng(0)
        return study, {party: records_of(rng, 90, (4.0, -3.0, 2.0, 1.0), -1.5) for party in study.names}, {}
    found = play(name)
    return found.world.study, found.data, found.options


def _said(table: Table) -> str:
    said = [
        (name, effect.kind, effect.type, effect.to, [len(body) for body in effect.bodies])
        for name in (*table.names, CHARLIE)
        for effect in (entry.effect for entry in table.journal(name))
        if isinstance(effect, Send)
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a JSON value, in order."""
    match value:
        case bool() | str() | None:
            return
        case dict():
            for key in sorted(value):
                yield from _numbers(value[key])
        case list():
            for each in value:
                yield from _numbers(each)
        case _:
            yield value


def unchanged(before: Answers, now: Answers) -> bool:
    """Say whether answers are the same, but for last digits."""
    same = [key for key in now if key not in ("number", "released")]
    return [before.get(key) for key in same] == [now[key] for key in same] and (
        before.get("released") == pytest.approx(now["released"], rel=_DIGITS) if "released" in now else True
    )


def committed() -> dict[str, Any]:
    """Return what the file holds."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def stale(before: Answers, now: Answers) -> str:
    """Return what is wrong with a number beside its answers; empty where nothing is."""
    if before.get("number") != now["number"]:
        return "the file has another number: python -m tests.numbered writes it anew"
    return "" if unchanged(before, now) else "the answers have changed, so the number must: raise it by one"


def main() -> int:
    """Write the file, unless answers have changed under an old number."""
    before = committed() if FILE.exists() else {"wire": {}, "protocols": {}}
    now = {"wire": wire(), "protocols": protocols()}
    rows = [("the wire", before["wire"], now["wire"])]
    rows += [(name, before["protocols"].get(name, {}), each) for name, each in now["protocols"].items()]
    wrong = [name for name, old, new in rows if old.get("number") == new["number"] and not unchanged(old, new)]
    if wrong:
        sys.stderr.write(f"answers changed and their numbers did not: {', '.join(wrong)}\n")
        return 1
    for name, old, new in rows:
        if old.get("number") == new["number"] and "released" in new:
            now["protocols"][name] = old  # last digits of another machine are no news
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in now["protocols"].items())
    FILE.write_text(f'{{"wire": {json.dumps(now["wire"])},\n"protocols": {{\n{lines}\n}}}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
