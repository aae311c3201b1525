"""Mutants of true frames, signed again by their signer: nobody hangs, and nobody innocent is named.

One participant is *guilty*: it plays its role, and one of its messages is exchanged on its way out. The mutant keeps
most of the true frame's structure: a number at a bound, a field too many, another round, another name, a replay, a
wrong acknowledgement. Everybody else is honest, on the clock and the network of :mod:`tests.faulty`. A case follows
from its number::

    python -m tests.mutated_frames CASES [FIRST_NUMBER]
"""

from __future__ import annotations

import json
import math
import random
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import msgpack
import pytest

from masquerade_core import seat
from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import LocalProtocolError, MasqueradeError, Reported
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire import codec
from masquerade_core.wire.codec import Message
from masquerade_core.wire.faults import Abort, Reason, pack_abort, read_evidence
from masquerade_host.channel import Channel
from masquerade_host.session.messages import Beat, pack_beat
from masquerade_protocols.blame import check_evidence, run_of, verdict
from tests import faulty
from tests.double_helpers import flaky_study
from tests.dropout_helpers import losing_study, masked_text
from tests.evaluation_helpers import held_back_study, measuring_of
from tests.faulty import Group, Play, with_keys
from tests.misdeeds import BODY, DST, KIND, RUN, SEQ, SRC, TYPE, V
from tests.paper_data import study_of
from tests.protocol_helpers import make_data
from tests.proven_helpers import proven_study

DEADLINE = 6.0
WITHIN = 4 * DEADLINE
"""Seconds of the simulated clock within which everybody honest has ended."""

_KINDS = ("hello", "roster", "hellos", "message", "sealed", "beat", "abort", "standing", "closed")
_UNNUMBERED = ("hello", "beat", "abort", "standing")
_BOUNDS = (-1, 0, 1, 2, 127, 128, 255, 256, 2**16, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_NAMES = ("", "*", "mallory", "p0 ", "P0", "p\u202e0", "p\x000", "x" * 32, "x" * 5000, "charlie\n")
_POINTS = (bytes(32), b"\1" + bytes(31), b"\xff" * 32, bytes(31) + b"\x80", b"\xed" + b"\xff" * 30 + b"\x7f")
_OTHER_TYPES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    "",
    b"",
    (),
    {},
    (1, 2),
    {"a": 1},
    msgpack.ExtType(1, b"x"),
    msgpack.ExtType(1, b""),
)

_ORDERS: tuple[Literal["big", "little"], ...] = ("big", "little")

Fields = list[Any]


# --- What is played ----------------------------------------------------------------------


@cache
def play_of(name: str) -> Play:
    """Return a run by its name: short keys, few rounds, and a short deadline."""
    match name:
        case "psgd, proven":
            text = study_of("psgd", 3, 3, section="rounds = 2").to_toml().replace('"paper"', '"proven"')
            study = Study.parse(text, in_memory=True)
        case "local-aggregation, selected" | "local-aggregation, floor" | "local-aggregation, sizes":
            study = proven_study(3, 3, name.split(", ")[1])
        case "noisy-gradient" | "decaying-budget":
            study = study_of(name, 3, 3, section="rounds = 2")
        case "dp-gd, evaluated":
            study = held_back_study(3, 3, section="rounds = 1")
        case "retries":
            study = losing_study(K=4, survivors=3, retries=1, section="rounds = 2")
        case "double masks":
            study = flaky_study(K=6, survivors=5, section="rounds = 2")
        case "many parties":
            study = Study.parse(masked_text("dp-gd", 67, 3, section="rounds = 1"), in_memory=True)
        case "evaluation":
            study = measuring_of(3)
        case _:
            play = faulty.play(name)
            return replace(play, world=with_keys(play.world.study, DEADLINE))
    sizes = [12 + 3 * (i % 4) for i in range(study.K)]
    return Play(with_keys(study, DEADLINE), make_data(study, sizes))


PLAYS = (
    *faulty.PLAYS,
    "dp-glm",
    "noisy-gradient",
    "decaying-budget",
    "psgd, proven",
    "local-aggregation, selected",
    "local-aggregation, floor",
    "local-aggregation, sizes",
    "dp-gd, evaluated",
    "evaluation",
    "retries",
    "double masks",
)


class Shape(NamedTuple):
    """A place where a guilty participant can lie.

    Attributes
    ----------
    where : str
        ``wire``: a frame on its way out. ``role``: a message before it is encoded, so before it is sealed.
    kind, type : str
        Of the frame; of a role's message, its class.
    """

    where: str
    kind: str
    type: str


class Case(NamedTuple):
    """One mutant; all else follows from these."""

    play: str
    guilty: str
    number: int


def cases(count: int, first: int = 0) -> Iterator[Case]:
    """Go through all runs, and in each through all participants."""
    everybody = [(name, who) for name in PLAYS for who in (*play_of(name).world.study.names, CHARLIE)]
    for number in range(first, first + count):
        yield Case(*everybody[number % len(everybody)], number)


# --- What a mutant looks like -------------------------------------------------------------


@dataclass
class Mutator:
    """Changes values of any form.

    Attributes
    ----------
    draw : Random
    seen : dict of str to list
        Values that fields of each name had before.
    moduli : list of int
        Paillier moduli that were sent.
    """

    draw: random.Random
    seen: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    moduli: list[int] = field(default_factory=list)

    def learn(self, value: Any, name: str = "") -> None:
        """Remember a value, and those in it."""
        if len(self.seen[name]) < 50:
            self.seen[name].append(value)
        if name == "modulus" and isinstance(value, bytes):
            self.moduli.append(int.from_bytes(value, "big"))
        for key, part in value.items() if isinstance(value, dict) else ():
            self.learn(part, str(key))

    def changed(self, value: Any, name: str = "") -> Any:
        """Return another value in the place of this one."""
        if self.draw.random() < 0.07:
            return self.draw.choice(_OTHER_TYPES)
        if self.seen.get(name) and self.draw.random() < 0.15:
            return self.draw.choice(self.seen[name])
        forms: dict[type, Callable[[Any], Any]] = {
            bool: lambda v: not v,
            int: lambda v: self.draw.choice((*_BOUNDS, v - 1, v + 1, v * 2, -v)),
            bytes: self.other_bytes,
            str: lambda v: self.draw.choice((*_NAMES, v + " ", v[:-1], v.upper(), CHARLIE, "p0", "p1")),
            list: self._items,
            dict: self._fields,
        }
        form = forms.get(type(value))
        return self.draw.choice(_OTHER_TYPES) if form is None else form(value)

    def _items(self, items: list[Any]) -> list[Any]:
        if not items:
            return [self.draw.choice(_OTHER_TYPES)]
        items, i, j = list(items), self.draw.randrange(len(items)), self.draw.randrange(len(items))
        match self.draw.randrange(6):
            case 0:
                del items[i]
            case 1:
                items.insert(i, items[j])
            case 2:
                items[i], items[j] = items[j], items[i]
            case 3:
                items *= self.draw.choice((0, 2, 100))
            case _:
                items[i] = self.changed(items[i])
        return items

    def _fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not fields:
            return {"x": 1}
        fields, name = dict(fields), self.draw.choice(list(fields))
        match self.draw.randrange(12):
            case 0:
                del fields[name]
            case 1:
                fields["x" * self.draw.choice((0, 1, 300))] = self.draw.choice(_OTHER_TYPES)
            case 2:
                fields = dict(reversed(fields.items()))
            case 3:
                other = self.draw.choice(list(fields))
                fields[name], fields[other] = fields[other], fields[name]
            case _:
                fields[name] = self.changed(fields[name], name)
        return fields

    def other_bytes(self, data: bytes) -> bytes:
        """Return other bytes: of another length, another number, other pieces, or one bit flipped."""
        forms = (self._length, self._content, self._number, self._number, self._ciphertext, self._point, self._pieces)
        return self.draw.choice((*forms, self._bit, self._bit))(data)

    def _length(self, data: bytes) -> bytes:
        return self.draw.choice((data[:-1], data[1:], data + b"\0", b"\0" + data, b"", data * 2, data + data[-32:]))

    def _content(self, data: bytes) -> bytes:
        n = len(data)
        return self.draw.choice((bytes(n), b"\xff" * n, data[::-1], self.draw.randbytes(n), self.draw.randbytes(n + 1)))

    def _number(self, data: bytes) -> bytes:
        """A number of the same width, at a bound or beside the true one."""
        n, order = len(data), _ORDERS[self.draw.randrange(2)]
        true = int.from_bytes(data, order)
        value = self.draw.choice((true + 1, true - 1, true ^ (1 << self.draw.randrange(8 * n + 1)), *_BOUNDS))
        return (value % (1 << 8 * n)).to_bytes(n, order)

    def _ciphertext(self, data: bytes) -> bytes:
        """A ciphertext that is none, or a plaintext beyond the largest."""
        if not self.moduli:
            return self._bit(data)
        N = self.draw.choice(self.moduli)
        value = self.draw.choice((0, 1, N - 1, N, N + 1, N * N - 1, N * N, N // 2))
        width = (N.bit_length() + 7) // 8 * self.draw.choice((1, 2))
        return self._over(data, value.to_bytes(width + 1 + width, "big")[-width:])

    def _point(self, data: bytes) -> bytes:
        return self._over(data, self.draw.choice(_POINTS))

    def _pieces(self, data: bytes) -> bytes:
        width = self.draw.choice((1, 4, 8, 16, 32, 64))
        i, j = (self.draw.randrange(max(1, len(data) // width)) * width for _ in range(2))
        return self._over(self._over(data, data[i : i + width], j), data[j : j + width], i)

    def _bit(self, data: bytes) -> bytes:
        i = self.draw.randrange(len(data) + 1)
        return data[:i] + bytes(byte ^ 1 << self.draw.randrange(8) for byte in data[i : i + 1]) + data[i + 1 :]

    def _over(self, data: bytes, piece: bytes, place: int | None = None) -> bytes:
        """Put a piece over others of its length, where it fits."""
        if place is None:
            place = self.draw.randrange(max(1, len(data) // max(1, len(piece)))) * len(piece)
        return data[:place] + piece[: len(data) - place] + data[place + len(piece) :]

    def body(self, body: bytes) -> bytes:
        """Return another body in the place of this one."""
        try:
            value = msgpack.unpackb(body)
        except ValueError:
            return self.other_bytes(body)  # a sealed box
        forms = (self.other_bytes, lambda b: b + self.draw.choice((b"\0", b"\xc0", b)), lambda _: _longer(value))
        if self.draw.random() < 0.25:
            return self.draw.choice((*forms, lambda _: _one_field_twice(value)))(body)
        for _ in range(self.draw.choice((1, 1, 1, 2, 3))):
            value = self.changed(value)
        with suppress(OverflowError, ValueError):
            return bytes(msgpack.packb(value))
        return self.other_bytes(body)


def _longer(value: Any) -> bytes:
    """Pack in a longer form than the shortest."""
    match value:
        case dict():
            rows = b"".join(msgpack.packb(part) for row in value.items() for part in row)
            return b"\xde" + len(value).to_bytes(2, "big") + rows
        case list():
            return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(msgpack.packb, value))
        case _:
            return bytes(msgpack.packb(value)) + b"\0"


def _one_field_twice(value: Any) -> bytes:
    if not isinstance(value, dict) or not value:
        return _longer(value)
    rows = [*value.items(), next(iter(value.items()))]
    return b"\xde" + len(rows).to_bytes(2, "big") + b"".join(msgpack.packb(part) for row in rows for part in row)


# --- The guilty one -----------------------------------------------------------------------


class Liar:
    """The guilty participant's treatment of its messages.

    Parameters
    ----------
    case : Case
    target : Shape
    nth : int
        Which of its messages of that shape.

    Attributes
    ----------
    told : str
        What it did, for whoever reads of a failure.
    """

    def __init__(self, case: Case, target: Shape, nth: int) -> None:
        self.case, self.target = case, target
        self.draw = random.Random(f"{case}")  # noqa: S311 - a case follows from its number
        self.mutator = Mutator(self.draw)
        self.told = ""
        self._nth = nth
        self._goes_on = self.draw.random() < 0.1
        self._alone = self.draw.random() < 0.5  # of what goes to all: one party is told something else
        self._key = play_of(case.play).world.keys[case.guilty].signing
        self._everybody = (*play_of(case.play).world.study.names, CHARLIE)
        self._heard: list[bytes] = []
        self._made: dict[bytes, list[Fields | bytes]] = {}
        self._met = 0
        self._shift: Counter[tuple[str, bool]] = Counter()
        self._withheld: set[str] = set()

    def encode(self, message: Message, _recipient: str, body: bytes) -> bytes:
        """Exchange a message of the role, before it is sealed."""
        if self.target != Shape("role", "", type(message).__name__):
            return body
        if not self._due():
            self.mutator.learn(msgpack.unpackb(body))
            return body
        self.told = f"another {self.target.type} of its role, the {self._nth}th"
        return self.mutator.body(body)

    def _due(self) -> bool:
        self._met += 1
        return self._met == self._nth + 1 or (self._goes_on and self._met > self._nth)

    def carry(self, source: str, to: str, data: bytes) -> Iterable[bytes]:
        """Exchange a frame on its way out."""
        true = _header_of(data)
        out: list[Fields | bytes] = [data]
        if source == self.case.guilty:
            fields = list(true)
            if fields[KIND] not in _UNNUMBERED:
                fields[SEQ] = _moved(fields[SEQ], self._shift[to, _is_for_all(fields)])
            out = [data if made == true else made for made in self._exchanged(to, fields, data)]
        self._heard.append(data)
        with suppress(ValueError):
            self.mutator.learn(msgpack.unpackb(true[BODY]))
        return [made if isinstance(made, bytes) else self._signed(made) for made in out]

    def _signed(self, fields: Fields) -> bytes:
        try:
            signed = bytes(msgpack.packb(fields))
        except (OverflowError, ValueError, TypeError):  # it cannot be written down
            signed = b"\xc1"
        return self._key.sign(signed) + signed

    def _exchanged(self, to: str, fields: Fields, data: bytes) -> list[Fields | bytes]:
        if to in self._withheld and fields[KIND] not in _UNNUMBERED:
            return []
        if self.target != Shape("wire", fields[KIND], fields[TYPE]):
            return [fields]
        if data in self._made:  # Charlie sends everybody the same bytes
            return [fields] if self._alone else self._made[data]
        if not self._due():
            return [fields]
        self._made[data] = made = self._lie(to, fields)
        return made

    def _lie(self, to: str, fields: Fields) -> list[Fields | bytes]:
        """Return what leaves in the place of a frame."""
        ways: list[Callable[[str, Fields], list[Fields | bytes]]] = [
            *(self._other_body,) * 8,
            *(self._other_header,) * 2,
        ]
        ways += [self._other_type, self._of_somebody_else, self._again, self._and_aborts, self._and_beats]
        if fields[KIND] not in _UNNUMBERED:
            ways += [self._left_out, self._withholds, self._twice]
        way = self.draw.choice(ways)
        self.told = f"{' '.join(self.target)} {self._nth} to {to}: {way.__name__}"
        return way(to, list(fields))

    def _other_body(self, _to: str, fields: Fields) -> list[Fields | bytes]:
        return [[*fields[:BODY], self.mutator.body(fields[BODY])]]

    def _other_header(self, _to: str, fields: Fields) -> list[Fields | bytes]:
        place = self.draw.choice((V, RUN, SRC, DST, KIND, SEQ, TYPE, "more", "fewer"))
        match place:
            case "more":
                return [[*fields, self.draw.choice(_OTHER_TYPES)]]
            case "fewer":
                del fields[self.draw.randrange(8)]
            case 2 | 3:  # SRC, DST
                fields[place] = self.draw.choice((*(n.ljust(32) for n in (*self._everybody, "*", "mallory")), *_NAMES))
            case 4:  # KIND
                fields[place] = self.draw.choice((*_KINDS, "x"))
            case 5:  # SEQ
                fields[place] = _moved(fields[place], self.draw.choice((-1, 1, 2, 2**31, -3, 1000)))
            case int():
                fields[place] = self.mutator.changed(fields[place])
        return [fields]

    def _other_type(self, _to: str, fields: Fields) -> list[Fields | bytes]:
        other = _header_of(self.draw.choice(self._heard)) if self._heard else fields
        body = self.draw.choice((other[BODY], fields[BODY]))
        return [[*fields[:KIND], self.draw.choice((other[KIND], fields[KIND])), fields[SEQ], other[TYPE], body]]

    def _of_somebody_else(self, _to: str, fields: Fields) -> list[Fields | bytes]:
        others = [other for data in self._heard if _same_shape(other := _header_of(data), fields)]
        return [[*fields[:BODY], self.draw.choice(others or [fields])[BODY]]]

    def _again(self, _to: str, fields: Fields) -> list[Fields | bytes]:
        return [fields, self.draw.choice(self._heard)] if self._heard else [fields]

    def _left_out(self, to: str, fields: Fields) -> list[Fields | bytes]:
        """Later frames get other numbers: no gap shows."""
        self._move(to, fields, -1)
        return []

    def _withholds(self, to: str, _fields: Fields) -> list[Fields | bytes]:
        """Beats go on."""
        self._withheld.update((to,) if self._alone else self._everybody)
        return []

    def _twice(self, to: str, fields: Fields) -> list[Fields | bytes]:
        self._move(to, fields, 1)
        return [fields, [*fields[:SEQ], _moved(fields[SEQ], 1), *fields[TYPE:]]]

    def _move(self, to: str, fields: Fields, by: int) -> None:
        """Number what follows anew: a broadcast has a number among broadcasts, and a place on each hop."""
        for hop in (to,) if self._alone or self.case.guilty != CHARLIE else self._everybody:
            self._shift[hop, False] += by
            self._shift[hop, True] += by * _is_for_all(fields)

    def _and_aborts(self, to: str, fields: Fields) -> list[Fields | bytes]:
        draw = self.draw
        reason: Reason = draw.choice(("violation", "violation", "deadline", "left"))
        blamed = tuple(draw.sample(self._everybody, draw.choice((0, 1, 1, 1, 2))))
        frames = tuple(draw.sample(self._heard, min(len(self._heard), draw.choice((0, 0, 1, 2)))))
        by = draw.choice((self.case.guilty, self.case.guilty, draw.choice(self._everybody)))
        body = pack_abort(Abort(reason, blamed, by, frames), self._everybody)
        return [fields, self._unnumbered(to, fields, "abort", body)]

    def _and_beats(self, to: str, fields: Fields) -> list[Fields | bytes]:
        draw = self.draw
        waits_for = tuple(draw.sample(self._everybody, draw.randint(0, 2)))
        numbers = draw.choice((0, 1, 2, 5, 100, 2**32 - 1)), draw.choice((0, 1, 1 << 16, 2**32 - 1))
        return [fields, self._unnumbered(to, fields, "beat", pack_beat(Beat(waits_for, *numbers), self._everybody))]

    def _unnumbered(self, to: str, fields: Fields, kind: str, body: bytes) -> Fields:
        return [*fields[:SRC], self.case.guilty.ljust(32), to.ljust(32), kind, bytes(4), "", body]


def _header_of(data: bytes) -> Fields:
    return list(msgpack.unpackb(data[SIGNATURE_BYTES:]))


def _moved(number: bytes, by: int) -> bytes:
    return ((int.from_bytes(number, "big") + by) % 2**32).to_bytes(4, "big")


def _same_shape(one: Fields, two: Fields) -> bool:
    return (one[KIND], one[TYPE]) == (two[KIND], two[TYPE])


def _is_for_all(fields: Fields) -> bool:
    """Say whether it is a broadcast of Charlie's."""
    return bool(fields[SRC].strip() == CHARLIE and fields[DST].strip() == "*")


# --- One case ------------------------------------------------------------------------------


@dataclass
class Played:
    """One case and what came of it.

    Attributes
    ----------
    case : Case
    told : str
        What the guilty one did; empty if its turn never came.
    wrong : list of str
        What must not have happened.
    errors : dict of str to MasqueradeError
        How the honest ones ended who have no result.
    """

    case: Case
    told: str
    wrong: list[str]
    errors: dict[str, MasqueradeError]


class _Watched(Group):
    """A group of which one participant is guilty, or nobody: then all are watched."""

    def __init__(self, play: Play, guilty: str, seed: int = 0) -> None:
        super().__init__(play, seed)
        self.guilty, self.turning = guilty, ""
        self.network.delay = 0.0
        self.wrong: list[str] = []

    def play_on(self) -> None:
        """Let everybody go on until all who are honest have ended."""
        end = self.clock.now + WITHIN
        honest = [site for name, site in self.sites.items() if name != self.guilty]
        while not all(site.over for site in honest):
            if self.clock.now > end:
                self.wrong.append(f"hangs: {[site.name for site in honest if not site.over]}")
                return
            for name, site in self.sites.items():
                self.turning = name
                try:
                    site.turn()
                except Exception as error:  # noqa: BLE001 - that is what is looked for
                    if name != self.guilty:
                        self.wrong.append(f"foreign: {type(error).__name__} at {name}: {error}")
                        return
                    site.lives, site.starts_at = False, math.inf  # its own program need not survive what it does
            self.move_on()


@contextmanager
def _lying(group: _Watched, encode: Callable[[Message, str, bytes], bytes]) -> Iterator[None]:
    """Let the guilty one's role lie, and let its session bear what its lies lead to."""
    true_encode, hear = codec.encode, Channel.hear
    numbers = random.Random(0)  # noqa: S311 - a case follows from its number

    def encoded(message: Message, recipient: str) -> bytes:
        body = true_encode(message, recipient)
        return encode(message, recipient, body) if group.guilty in (group.turning, "") else body

    def patient(self: Channel, got: int, *rest: Any) -> None:
        if group.turning == group.guilty:
            got = min(max(got, self.acknowledged), self.sent)
        hear(self, got, *rest)

    with pytest.MonkeyPatch.context() as patch, faulty.arithmetic_is_remembered():
        patch.setattr(seat, "encode", encoded)
        patch.setattr(Channel, "hear", patient)
        patch.setattr(secrets, "randbelow", numbers.randrange)  # of connections, and of pings
        patch.setattr(secrets, "token_bytes", numbers.randbytes)
        yield


@cache
def _all_shapes(play: str) -> dict[str, dict[Shape, int]]:
    """Return for each participant where it can lie, and how often it comes there in a run without lies."""
    group, found = _Watched(play_of(play), ""), defaultdict[str, Counter[Shape]](Counter)

    def carry(source: str, _to: str, data: bytes) -> Iterable[bytes]:
        fields = msgpack.unpackb(data[SIGNATURE_BYTES:])
        found[source][Shape("wire", fields[KIND], fields[TYPE])] += 1
        return (data,)

    def encode(message: Message, _recipient: str, body: bytes) -> bytes:
        found[group.turning][Shape("role", "", type(message).__name__)] += 1
        return body

    group.network.tamper = carry
    with _lying(group, encode):
        group.play_on()
    assert not group.errors, group.errors
    assert not group.wrong, group.wrong
    return {name: dict(sorted(shapes.items())) for name, shapes in found.items()}


def shapes_of(play: str, guilty: str) -> dict[Shape, int]:
    """Return where a participant can lie, and how often it comes there in a run without lies."""
    return _all_shapes(play)[guilty]


def play_case(case: Case) -> Played:
    """Play a case, and look at how everybody honest ended."""
    shapes = shapes_of(case.play, case.guilty)
    draw = random.Random(f"shape {case}")  # noqa: S311 - as above
    target = draw.choice(list(shapes))
    liar = Liar(case, target, draw.randrange(shapes[target]))
    group = _Watched(play_of(case.play), case.guilty)
    group.network.tamper = liar.carry
    with _lying(group, liar.encode):
        group.play_on()
    errors = {name: error for name, error in group.errors.items() if name != case.guilty}
    wrong = [*group.wrong, *_named(case, errors), *_unequal(group)]
    try:
        wrong += _proved(group, errors)
    except Exception as error:  # noqa: BLE001 - blame has to bear whatever was signed
        wrong.append(f"foreign: {type(error).__name__} of blame: {error}")
    wrong += [
        f"lost: {fields['party']}"
        for who, event, fields in group.events
        if (who, event) == (CHARLIE, "lost") and CHARLIE != case.guilty != fields["party"]
    ]
    return Played(case, liar.told, wrong, errors)


def _named(case: Case, errors: dict[str, MasqueradeError]) -> Iterator[str]:
    """Say whose errors name somebody innocent, or are no errors of a run."""
    for name, error in errors.items():
        if isinstance(error, LocalProtocolError):
            yield f"foreign: {type(error).__name__} at {name}: {error.message}"
        said_by = getattr(error, "said_by", "")
        if said_by == case.guilty:
            continue  # its own word, and its name stands with it
        parts = ("accused",) if isinstance(error, Reported) else ("peer", "suspects", "waited_for")
        for part in parts:
            named = getattr(error, part, ()) or ()
            named = (named,) if isinstance(named, str) else tuple(named)
            if named and case.guilty not in named:
                yield f"innocent: {name} names {named} as {part}: {error.message}"


def _unequal(group: _Watched) -> Iterator[str]:
    """Say so if two honest participants have different results."""
    done = [n for n, site in group.sites.items() if n != group.guilty and site.error is None and site.over]
    files = [json.dumps(group.files(name), sort_keys=True, default=str) for name in done]
    if len(set(files)) > 1:
        yield f"unequal: {done} have different results"


def _proved(group: _Watched, errors: dict[str, MasqueradeError]) -> Iterator[str]:
    """Say whom the files of evidence convict, each by itself and all together, if that is not the guilty one."""
    study, texts = group.play.world.study, {}
    for name, error in errors.items():
        session = group.sites[name].session
        identity = {"run_id": session.run.hex(), "participant": name}
        if (content := session.evidence(identity, error)) is not None:
            texts[name] = json.dumps(content)
    found = {name: check_evidence(text, study) for name, text in texts.items()}
    read = [read_evidence(text, name) for name, text in texts.items()]
    if len({file.run for file in read}) == 1:
        found["all"] = verdict(study, run_of(read[0], study), read)
    for name, finding in found.items():
        if finding.culprit not in ("", group.guilty):
            yield f"innocent: the evidence of {name} convicts {finding.culprit}: {finding.found}"
        if finding.suspects and group.guilty not in finding.suspects:
            yield f"innocent: the evidence of {name} suspects {finding.suspects}: {finding.found}"


def main(count: int, first: int) -> int:
    """Play so many cases, and print what went wrong; return how many did."""
    began, wrong, kinds, ends = time.monotonic(), 0, Counter[str](), Counter[str]()
    for done, case in enumerate(cases(count, first)):
        if done and not done % 1000:
            print(f"{done} cases, {wrong} wrong, {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201
        played = play_case(case)
        ends.update(["idle"] if not played.told else [type(e).__name__ for e in played.errors.values()] or ["result"])
        if played.wrong:
            wrong += 1
            kinds.update({line.split(":")[0] for line in played.wrong})
            print(f"{tuple(case)} {played.told}", *played.wrong, sep="\n    ", flush=True)  # noqa: T201 - a command
    print(f"{count} cases from {first}, {wrong} wrong {dict(kinds)}, {time.monotonic() - began:.0f} s; {dict(ends)}")  # noqa: T201
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0) else 0)
