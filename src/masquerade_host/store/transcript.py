"""The transcript of a run: a hash of each frame that left or came, chained, and signed at the end; never contents.

A *frame* is one signed message between a party and Charlie, the curator. The transcript notes for each frame who
speaks, to whom, its kind and its type, and the hash of its bytes. Nobody can guess a frame from its hash, since a frame
contains a signature. A *sealed message* goes from party to party, and Charlie packs its boxes into new frames. So the
hash of each box is noted as well, and both parties can compare it.

Each hash is chained to all before it: ``head_i = H(head_{i-1}, entry_i)``. The participant signs the last head,
together with the hashes of all other files in its folder. Two frames are kept whole, for every participant has them:
the roster, with each party's signed hello, and Charlie's last frame, with each party's signed "closed". In a study with
many parties these hold a part only. Then the transcript also keeps the frames with the hellos that this participant was
shown; Charlie's has those with all hellos, and each party's "closed".
:mod:`masquerade_host.faults.verifying` checks transcripts.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgpack

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import PARTIES

__all__ = [
    "TRANSCRIPT",
    "BroadcastLog",
    "Entry",
    "Recorder",
    "Transcript",
    "chained",
    "hash_of_files",
    "hashed",
    "read_transcript",
]

TRANSCRIPT = "transcript.json"
_KIND = "masquerade transcript 2"
_BYTES = 32
_START = bytes(_BYTES)
_NOTED = frozenset({"roster", "hellos", "message", "sealed", "closed"})

Direction = Literal["sent", "received"]


def hashed(data: bytes) -> bytes:
    """Return the 32-byte hash of a frame, a box or a file."""
    return hashlib.blake2b(data, digest_size=_BYTES).digest()


def hash_of_files(files: Mapping[str, bytes]) -> bytes:
    """Return one hash of files, names included; their order does not matter."""
    return hashed(msgpack.packb([[name, hashed(files[name])] for name in sorted(files)]))


@dataclass(frozen=True)
class Entry:
    """The transcript's entry for one frame.

    Attributes
    ----------
    direction : str
        ``sent`` or ``received``.
    source, to : str
        Who speaks, and to whom, as the frame's header says; ``*`` stands for all parties.
    kind, type : str
        The header's.
    frame : bytes
        The hash of the frame's bytes.
    boxes : tuple of (str, bytes)
        In a sealed message, each recipient with the hash of its box.
    """

    direction: Direction
    source: str
    to: str
    kind: str
    type: str
    frame: bytes
    boxes: tuple[tuple[str, bytes], ...] = ()

    @property
    def broadcast(self) -> bool:
        """Whether Charlie sent these bytes to all parties."""
        return self.source == CHARLIE and self.to == PARTIES

    def packed(self) -> bytes:
        """Return the bytes that are chained."""
        return bytes(
            msgpack.packb((self.direction, self.source, self.to, self.kind, self.type, self.frame, self.boxes))
        )

    @classmethod
    def unpacked(cls, fields: Sequence[Any]) -> "Entry":
        """Return the entry of these unpacked fields."""
        direction, source, to, kind, type_, frame, boxes = fields
        return cls(direction, source, to, kind, type_, frame, tuple((name, box) for name, box in boxes))

    def to_json(self) -> list[Any]:
        """Return a JSON value, with hashes as hexadecimal text."""
        row: list[Any] = [self.direction, self.source, self.to, self.kind, self.type, self.frame.hex()]
        return [*row, {name: box.hex() for name, box in self.boxes}] if self.boxes else row

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> "Entry":
        """Read what :meth:`to_json` wrote; of another form, it raises ``ValueError`` or ``TypeError``."""
        texts, boxes = row[:6], dict(*row[6:])
        if len(texts) != 6 or not all(isinstance(text, str) for text in texts):  # noqa: PLR2004
            raise ValueError("an entry has another form")
        direction, source, to, kind, type_, frame = texts
        hashes = tuple((name, bytes.fromhex(box)) for name, box in boxes.items())
        return cls(direction, source, to, kind, type_, bytes.fromhex(frame), hashes)


def chained(entries: Iterable[Entry]) -> bytes:
    """Return the last head of the chain."""
    head = _START
    for entry in entries:
        head = hashed(head + entry.packed())
    return head


class BroadcastLog:
    """A running hash of everything that Charlie broadcast before he closed the run, in order.

    At the end everybody compares it (:mod:`masquerade_host.session.agreement`).

    Attributes
    ----------
    chain : list of bytes
        The hash before the first broadcast, after it, after the second one, and so on.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_BYTES, person=b"masq told")
        self.chain = [self._hash.digest()]

    def add(self, hash_of_frame: bytes) -> None:
        """Add one broadcast by the hash of its bytes as Charlie signed them, which is all that a transcript keeps."""
        self._hash.update(hash_of_frame)
        self.chain.append(self._hash.digest())

    def digest(self) -> bytes:
        """Return the hash of what was added so far."""
        return self._hash.digest()


class Recorder:
    """Notes a participant's frames while a run goes on.

    A session calls it once for each frame: when the frame is made, and when it is accepted. A frame that is sent again,
    or that comes again, is not noted again. Beats, hellos and aborts are not noted: how many there are depends on the
    connection, and the hellos that count stand in the roster.

    Parameters
    ----------
    me : str
        The participant.
    names : sequence of str
        The parties in roster order.

    Attributes
    ----------
    roster, closing : bytes
        The roster, and Charlie's last frame; empty until they came.
    shown : tuple of bytes
        What is kept whole beside them in a study with many parties.
    told : BroadcastLog
    """

    def __init__(self, me: str, names: Sequence[str]) -> None:
        self._me = me
        self._names = tuple(names)
        self._packed = bytearray()  # one byte string, since as objects the entries would take eight times as much
        self.roster = b""
        self.closing = b""
        self.told = BroadcastLog()
        self._hellos: list[bytes] = []
        self._closed: list[bytes] = []
        self._closes_with_all = True

    @property
    def shown(self) -> tuple[bytes, ...]:
        """The frames with hellos, and at Charlie those with which the parties closed, if nobody was shown all."""
        return (*self._hellos, *(() if self._closes_with_all else self._closed))

    def sent(self, peer: str, data: bytes) -> None:
        """Note a frame that leaves over the hop to ``peer``, or to all parties."""
        del peer  # the frame's header says it
        _v, _run, source, to, kind, _seq, type_, body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        self.note("sent", source.rstrip(" "), to.rstrip(" "), kind, type_, body, data)

    def note(self, direction: Direction, source: str, to: str, kind: str, type_: str, body: bytes, data: bytes) -> None:
        """Note a frame that leaves, or one that came and was accepted: what its header says, and its bytes."""
        if kind not in _NOTED:
            return
        boxes: tuple[tuple[str, bytes], ...] = ()
        if kind == "sealed":
            # Only between a party and Charlie do the boxes for several parties lie in one frame.
            relayed = (self._me == CHARLIE) == (direction == "sent")
            boxes = ((to, hashed(body)),) if relayed else self._boxes(source, to, body)
        frame = hashed(data)
        self._packed += Entry(direction, source, to, kind, type_, frame, boxes).packed()
        if source == CHARLIE and to == PARTIES and kind != "closed":
            self.told.add(frame)
        if kind == "roster":
            self.roster = data
        elif kind == "hellos" and (self._me != CHARLIE or to == self._names[0]):  # the first is shown all
            self._hellos.append(data)
        elif kind == "closed" and source == CHARLIE:
            self.closing, self._closes_with_all = data, to == PARTIES or self._me != CHARLIE
        elif kind == "closed" and self._me == CHARLIE:
            self._closed.append(data)

    def _boxes(self, source: str, to: str, body: bytes) -> tuple[tuple[str, bytes], ...]:
        names = tuple(name for name in self._names if name != source) if to == PARTIES else (to,)
        try:
            width, boxes = msgpack.unpackb(body)
            rows = [boxes[i * width : (i + 1) * width] for i in range(len(names))]
            return tuple((name, hashed(box)) for name, box in zip(names, rows, strict=True))
        except (ValueError, TypeError):
            return ()  # a malformed message: the session refuses it, and the run ends

    def entries(self) -> tuple[Entry, ...]:
        """Return what was noted so far, in order."""
        unpacker = msgpack.Unpacker(max_buffer_size=0)
        unpacker.feed(self._packed)
        return tuple(map(Entry.unpacked, unpacker))


@dataclass(frozen=True)
class Transcript:
    """A signed transcript, as the file ``transcript.json`` holds it.

    Attributes
    ----------
    run, study : bytes
        The run id and the study's digest.
    participant, version : str
        Whose transcript it is, and the program's release there.
    numbers : str
        Those of the wire and of the protocol's meaning, which the run id holds.
    program : bytes
        The hash of the participant's program (:mod:`masquerade_host.process.program`), by its own word.
    files : mapping of str to bytes
        The hashes of all other files that the run wrote to the folder.
    release, statement : bytes
        The hash of the files that publish the result, and that of the privacy statement.
    roster, closing : bytes
        The frames that every participant has.
    shown : tuple of bytes
        What else is kept whole, as :attr:`Recorder.shown`.
    entries : tuple of Entry
    signature : bytes
        The participant's.
    """

    run: bytes
    study: bytes
    participant: str
    version: str
    numbers: str
    program: bytes
    files: Mapping[str, bytes]
    release: bytes
    statement: bytes
    roster: bytes
    closing: bytes
    entries: tuple[Entry, ...]
    signature: bytes = b""
    shown: tuple[bytes, ...] = ()

    def signed(self) -> bytes:
        """Return the bytes that the participant signs: the last head stands for all entries."""
        head = _json({**self._head(), "head": chained(self.entries).hex()}, indent=None)
        return b"masquerade transcript\0" + hashed(head.encode())

    def with_signature(self, sign: Callable[[bytes], bytes]) -> "Transcript":
        """Return this transcript, signed."""
        return replace(self, signature=sign(self.signed()))

    def _head(self) -> dict[str, Any]:
        return {
            "kind": _KIND,
            "run_id": self.run.hex(),
            "study": self.study.hex(),
            "participant": self.participant,
            "version": self.version,
            "numbers": self.numbers,
            "program": self.program.hex(),
            "files": {name: self.files[name].hex() for name in sorted(self.files)},
            "release": self.release.hex(),
            "statement": self.statement.hex(),
            "roster": _base64(self.roster),
            "closing": _base64(self.closing),
            **({"shown": [_base64(frame) for frame in self.shown]} if self.shown else {}),
        }

    def to_text(self) -> str:
        """Return the file's text, with one line for each frame."""
        rows = ",\n".join(f"    {_json(entry.to_json(), indent=None)}" for entry in self.entries)
        top = _json(self._head(), indent=2).removesuffix("\n}")
        end = _json({"head": chained(self.entries).hex(), "signature": _base64(self.signature)}, indent=2)
        return f'{top},\n  "frames": [\n{rows}\n  ],{end.removeprefix("{")}\n'


def _json(value: object, indent: int | None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_transcript(text: str, name: str) -> Transcript:
    """Read a transcript. Its form is checked, down to each byte; its signature is not.

    Raises
    ------
    BadInput
        It is no transcript, or not byte for byte as this program writes one.
    """
    try:
        data = json.loads(text)
        read = Transcript(
            run=bytes.fromhex(data["run_id"]),
            study=bytes.fromhex(data["study"]),
            participant=str(data["participant"]),
            version=str(data["version"]),
            numbers=str(data["numbers"]),
            program=bytes.fromhex(data["program"]),
            files={str(file): bytes.fromhex(digest) for file, digest in data["files"].items()},
            release=bytes.fromhex(data["release"]),
            statement=bytes.fromhex(data["statement"]),
            roster=base64.b64decode(data["roster"], validate=True),
            closing=base64.b64decode(data["closing"], validate=True),
            entries=tuple(map(Entry.from_json, data["frames"])),
            signature=base64.b64decode(data["signature"], validate=True),
            shown=tuple(base64.b64decode(frame, validate=True) for frame in data.get("shown", ())),
        )
        same = read.to_text() == text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
        raise BadInput(
            f"{name} is not a transcript of a run", f"give the folder in which a run wrote {TRANSCRIPT}"
        ) from error
    if not same:
        raise BadInput(
            f"{name} was changed: it is not byte for byte as this program writes it",
            "ask for the file as the run wrote it",
        )
    return read
