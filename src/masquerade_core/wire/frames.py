"""Frames: one body each, with a header and the signature of the participant that sent it over this hop.

A *hop* is the connection between one party and Charlie. A frame is
``Ed25519 signature (64 bytes) | msgpack [v, run, src, dst, kind, seq, type, body]``. Each direction of a hop numbers
its frames from 0 without gaps, so a dropped or reordered frame is noticed. After a connection broke, frames that had
not arrived are sent again with their old numbers. The same frame may so arrive twice, and its recipient ignores it. Two
frames of one number that differ prove their sender's fault. Hellos, beats, aborts and standings have no number: they
count for the moment and are not sent again. A sealed message that Charlie relays keeps its source and bears Charlie's
signature; the sealed box in it proves who made it, if it opens.

A *broadcast* is a frame of Charlie's for all parties, with ``*`` for its recipient. He signs it once, and every party
gets the same bytes. So its number cannot be that of a hop: ``seq`` counts Charlie's broadcasts alone. The order is kept
all the same, because a hop's count includes the broadcasts that went over it. Every other frame says by its number how
many frames went before it, and broadcasts fill the places between in their own order. So the frames of a hop open in
one order only. A frame that is left out is noticed with the next numbered frame that is not a broadcast, and at the
latest when the run closes. Parties that are told different things hold two broadcasts of one number, both signed by
Charlie.

The length of a frame follows from its kind, its type and the length of its body: names and numbers have a fixed width.
So nobody on the network tells a participant by the length of its name.

The header of a frame, as it is signed: the body is its last field.

The form of a sealed message on its way to Charlie, and how he takes it apart.

A *sealed message* is a message from a party to other parties. It travels as one sealed box for each recipient.
"""

import contextlib
import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import msgpack

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey, verify
from masquerade_core.errors import COPIES, LocalProtocolError, MasqueradeError, ProtocolViolation, StateCopied
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import MAX_BODY, NAME_BYTES, PARTIES, unpack_strict

__all__ = [
    "HASH_BYTES",
    "LONGEST_PATH",
    "MAX_FRAME",
    "NONCE_BYTES",
    "RUN_BYTES",
    "SEQ_BYTES",
    "WIRE_VERSION",
    "Endpoint",
    "Frame",
    "Header",
    "Kind",
    "head_of",
    "pack_boxes",
    "read_header",
    "run_id",
    "split_boxes",
    "target",
    "two_contents",
]


# --- Header ----------------------------------------------------------------------

WIRE_VERSION = 6
RUN_BYTES = 16
SEQ_BYTES = 4
HASH_BYTES = 32
"""Bytes of a hash in a tree over hellos (``masquerade_core.wire.merkle``)."""

LONGEST_PATH = 32 * HASH_BYTES
"""Bytes of the longest path in such a tree that is read."""

Kind = Literal["hello", "roster", "hellos", "message", "sealed", "beat", "abort", "standing", "closed"]


class Header(NamedTuple):
    """The header as it is signed, in this order."""

    v: int
    run: bytes
    src: str
    dst: str
    kind: Kind
    seq: bytes
    type: str
    body: bytes


_TYPES = (int, bytes, str, str, str, bytes, str, bytes)
_SIZES = (RUN_BYTES, NAME_BYTES, NAME_BYTES, SEQ_BYTES)
_KINDS = frozenset(get_args(Kind))
_LAST_VERSION = 2**31
_MAX_TYPE = 64


def head_of(run: bytes) -> bytes:
    """Return the bytes with which everything begins that is signed as a frame of a run, and nothing else does."""
    return bytes(msgpack.Packer().pack_array_header(len(_TYPES)) + msgpack.packb(WIRE_VERSION) + msgpack.packb(run))


def read_header(signed: bytes, signer: str) -> Header:
    """Take apart what ``signer`` has signed: a header, with the body in it.

    Raises
    ------
    ProtocolViolation
        The fault of ``signer``: this program writes frames in another form.
    """
    with contextlib.suppress(ValueError, msgpack.UnpackException, RecursionError, MemoryError):
        fields = msgpack.unpackb(
            signed,
            use_list=False,
            list_hook=_flat,
            max_array_len=len(_TYPES),
            max_map_len=0,
            max_str_len=4 * _MAX_TYPE,  # bytes
            max_bin_len=MAX_BODY,
            max_ext_len=0,
        )
        # An empty extension is a tuple of another class. What differs when it is packed again is not canonical.
        if type(fields) is tuple and msgpack.packb(fields) == signed:
            wire = Header(*fields)
            sizes = len(wire.run), len(wire.src), len(wire.dst), len(wire.seq)
            if sizes == _SIZES and len(wire.type) <= _MAX_TYPE and 0 <= wire.v <= _LAST_VERSION and wire.kind in _KINDS:
                return wire
    msg = f"{signer} sent a frame whose header does not have the form that this program writes"
    raise ProtocolViolation(msg, peer=signer) from None


def _flat(fields: tuple[object, ...]) -> tuple[object, ...]:
    """Let a header through, and no array in an array: ``True`` is not a version, and 1.0 is not a number."""
    if tuple(map(type, fields)) != _TYPES:
        msg = "another form than a header's"
        raise ValueError(msg)
    return fields


# --- Frames ----------------------------------------------------------------------

NONCE_BYTES = 16
MAX_FRAME = MAX_BODY + SIGNATURE_BYTES  # bytes

_FOR_ALL = ("roster",)  # kinds that Charlie sends to all parties or to nobody
_UNNUMBERED = ("hello", "beat", "abort", "standing")  # the other end can read them before it has the roster
_RECENT = 64  # accepted frames of a hop that are kept, to be compared with what arrives again; fewer with more hops
_FEW = 256  # hops
_RECENT_BYTES = 4 * 1024 * 1024
_FOR_ALL_OR_ONE = ("message", "closed")


@dataclass(frozen=True)
class Frame:
    """A frame whose signature, form and number were checked.

    Attributes
    ----------
    source : str
        The participant that speaks. In a sealed message that Charlie relayed it is his claim.
    to : str
        The recipient's name, or ``*`` for all parties, and for all other parties in a party's sealed message.
    size : int
        The frame's length on the wire, in bytes.
    number : int
        As its signer counts; 0 for a frame that has none.
    data : bytes
        The frame as it came, with its signature.
    own : bool
        Whether it is a frame of this run, or of this study before the run began, and of this version.
    numbered : bool
        Whether it has a number, and so is kept and sent again until it has arrived.
    broadcast : bool
        Whether Charlie sent these bytes to all parties.
    """

    version: int
    run: bytes
    source: str
    to: str
    kind: Kind
    type: str
    body: bytes
    size: int
    number: int = 0
    data: bytes = field(default=b"", repr=False)
    own: bool = True
    numbered: bool = field(kw_only=True)
    broadcast: bool = field(kw_only=True)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Who may be at fault for this frame of a role, as far as its recipient can tell.

        A message bears its source's signature. A sealed message that reaches a party bears Charlie's signature alone.
        Either its source sent it so, or Charlie changed it.
        """
        return (self.source, CHARLIE) if self.kind == "sealed" else (self.source,)


def run_id(study_id: bytes, roster: bytes) -> bytes:
    """Return the id of a run: the hash of the study's id and of the body of Charlie's roster.

    The roster has everybody's signed hello, or the root of the Merkle tree over all of them, and Charlie's own nonce.
    So it follows from a fresh nonce of each party, and no frame of one run is valid in another, no matter who repeats
    it.
    """
    return hashlib.blake2b(study_id + roster, digest_size=RUN_BYTES, person=b"masq run").digest()


def two_contents(source: str, frame: Frame, other: bytes) -> MasqueradeError:
    """Return the error for two different frames that ``source`` signed under one number.

    No process of this program does that. But two that use copies of one state folder do, as soon as they draw anything.
    Nobody can tell this accident from another program. Of Charlie nobody takes an accident for granted: he could tell
    two parties two things.
    """
    what = f"broadcast {frame.number}" if frame.broadcast else f"frame {frame.number}"
    if source == CHARLIE:
        msg = f"{source} signed two frames for one place: its {what} came a second time with other contents"
        return ProtocolViolation(msg, peer=source, frames=(other, frame.data))
    return StateCopied(
        f"two copies of the state of {source}: its {what} came a second time with other contents. Either two processes "
        f"use copies of its state folder, or it runs another program; nobody can tell which",
        COPIES,
        copied=(source,),
        frames=(other, frame.data),
    )


_EVERYBODY = PARTIES.ljust(NAME_BYTES)


class Endpoint:
    """One participant's end of its hops: it numbers and signs what leaves, and checks what arrives.

    Parameters
    ----------
    me : str
        This participant's name.
    run : bytes
        The id that frames bear, 16 bytes: the study's at first, and the run's own after :meth:`begin`.
    signing_key : SigningKey
        This participant's identity.
    peers : mapping of str to bytes
        The verify key, pinned in the study, of each participant at the other end of a hop: Charlie's for a party, all
        parties' for Charlie.

    Attributes
    ----------
    run : bytes
        The id that frames bear at this moment.
    """

    def __init__(self, me: str, run: bytes, signing_key: SigningKey, peers: Mapping[str, bytes]) -> None:
        self._me = me
        self.run = run
        self._study = b""  # the study's id, once a run has begun
        self._knows: set[str] = set()  # the hops whose other end has used the run's own id
        self._key = signing_key
        self._peers = dict(peers)
        self._padded = {name: name.ljust(NAME_BYTES) for name in (*peers, me)}
        self._next_out = dict.fromkeys(peers, 0)
        self._next_in = dict.fromkeys(peers, 0)
        self._next_broadcast = 0  # sent by Charlie, or due at a party
        self._recent: dict[str, deque[Frame]] = defaultdict(deque)
        self._recent_bytes: Counter[str] = Counter()
        self._most_recent = _RECENT if len(peers) <= _FEW else _RECENT // 8

    @property
    def hops(self) -> int:
        """The number of this end's hops."""
        return len(self._peers)

    def begin(self, run: bytes) -> None:
        """Use the run's own id from here on, in both directions; the roster was the last frame with the study's.

        A party may not have the roster yet. So its beats and aborts may still bear the study's id, until one of its
        frames bears the run's; and Charlie's beats and aborts for it do so as long. Hellos always do.
        """
        self._study, self.run = self.run, run

    def _outgoing(self, hop: str, kind: Kind) -> bytes:
        early = kind == "hello" or (kind in _UNNUMBERED and self._me == CHARLIE and hop not in self._knows)
        return self._study if self._study and early else self.run

    def _is_of_this_run(self, hop: str, wire: Header) -> bool:
        if wire.v != WIRE_VERSION:
            return False
        if not self._study or wire.kind == "hello":
            return wire.run == (self._study or self.run)
        if wire.run == self.run:
            self._knows.add(hop)
            return True
        early = wire.kind in _UNNUMBERED and (self._me != CHARLIE or hop not in self._knows)
        return early and wire.run == self._study

    def seal(
        self,
        hop: str,
        kind: Kind,
        body: bytes,
        *,
        type: str = "",  # noqa: A002 - the header's own word
        to: str | None = None,
        source: str | None = None,
    ) -> bytes:
        """Make the next frame for ``hop``; ``to`` and ``source`` differ from its ends for sealed messages only."""
        number = 0 if kind in _UNNUMBERED else self._next_out[hop]
        ends = self._me if source is None else source, hop if to is None else to
        data = self._sign(self._outgoing(hop, kind), ends, kind, number, type, body)
        if kind not in _UNNUMBERED:
            self._next_out[hop] += 1
        return data

    def broadcast(self, kind: Kind, body: bytes, *, type: str = "") -> bytes:  # noqa: A002
        """Make Charlie's next frame for all parties. He sends these bytes over every hop before anything else."""
        if self._me != CHARLIE:
            msg = f"{self._me} cannot make a frame for all parties; only {CHARLIE} can"
            raise LocalProtocolError(msg)
        data = self._sign(self.run, (self._me, PARTIES), kind, self._next_broadcast, type, body)
        self._next_broadcast += 1
        for hop in self._next_out:
            self._next_out[hop] += 1
        return data

    def _sign(
        self,
        run: bytes,
        ends: tuple[str, str],
        kind: Kind,
        number: int,
        type: str,  # noqa: A002
        body: bytes,
    ) -> bytes:
        fields = (
            WIRE_VERSION,
            run,
            ends[0].ljust(NAME_BYTES),
            ends[1].ljust(NAME_BYTES),
            kind,
            number.to_bytes(SEQ_BYTES, "big"),
            type,
            body,
        )
        signed = bytes(msgpack.packb(fields))
        if len(signed) > MAX_BODY:
            msg = (
                f"a {type or kind} of {len(signed)} bytes is too long for a frame; at most {MAX_BODY} bytes are allowed"
            )
            raise LocalProtocolError(msg)
        return self._key.sign(signed) + signed

    def open(self, hop: str, data: bytes, *, any_run: bool = False, numbered: bool = True) -> Frame:
        """Check a frame from ``hop``: its length, signature, form, run, direction and number, in this order.

        Parameters
        ----------
        hop : str
            The participant at the other end, as the transport has authenticated it.
        data : bytes
            The frame as it was received.
        any_run : bool
            Accept another run id or version: the hello of a participant whose study differs, who is then told so.
        numbered : bool
            Check the number, and count the frame: it must be the next one. Not for a frame that another participant
            shows, which has the number that it bore on its own hop; nor where :meth:`count` follows.

        Raises
        ------
        ProtocolViolation
            The fault of ``hop``, who sent this over its own authenticated connection, or of another holder of its keys.
        """
        if not SIGNATURE_BYTES < len(data) <= MAX_FRAME:
            msg = f"{hop} sent a frame of {len(data)} bytes; {SIGNATURE_BYTES + 1} to {MAX_FRAME} are allowed"
            raise ProtocolViolation(msg, peer=hop)
        signature, signed = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        if not verify(self._peers[hop], signed, signature):
            msg = f"{hop} sent a frame without a valid signature of its own"
            raise ProtocolViolation(msg, peer=hop)
        wire = read_header(signed, hop)
        own = self._is_of_this_run(hop, wire)
        if not own and not any_run:
            msg = f"{hop} sent a frame of another run or version; only frames of this run and version are allowed"
            raise ProtocolViolation(msg, peer=hop)
        self._check_direction(hop, wire)
        source, to = wire.src.rstrip(" "), wire.dst.rstrip(" ")
        number, has_number = int.from_bytes(wire.seq, "big"), wire.kind not in _UNNUMBERED
        frame = Frame(
            wire.v,
            wire.run,
            source,
            to,
            wire.kind,
            wire.type,
            wire.body,
            len(data),
            number,
            data,
            own,
            numbered=has_number,
            broadcast=source == CHARLIE and to == PARTIES,
        )
        if number and not has_number:
            msg = f"{hop} sent a {frame.kind} with the number {number}; a {frame.kind} has none"
            raise ProtocolViolation(msg, peer=hop)
        if numbered and frame.numbered and not self.count(hop, frame):
            raise self._out_of_order(hop, frame)
        return frame

    def count(self, hop: str, frame: Frame) -> bool:
        """Count a frame with a number that :meth:`open` returned; False if it has arrived before.

        Raises
        ------
        ProtocolViolation
            The fault of ``hop``: another frame is due, or Charlie has sent another frame of this number before.
        StateCopied
            The party at ``hop`` has sent another frame of this number before.
        """
        due = self._next_broadcast if frame.broadcast else self._next_in[hop]
        recent = self._recent[hop]
        if frame.number == due:
            self._next_in[hop] += 1
            self._next_broadcast += frame.broadcast
            recent.append(frame)
            self._recent_bytes[hop] += frame.size
            while len(recent) > 1 and (len(recent) > self._most_recent or self._recent_bytes[hop] > _RECENT_BYTES):
                self._recent_bytes[hop] -= recent.popleft().size
            return True
        if not self.compare(hop, frame) and (frame.number > due or len(recent) == self._next_in[hop]):
            raise self._out_of_order(hop, frame)
        return False

    def compare(self, hop: str, frame: Frame) -> bool:
        """Compare a frame with the one that has arrived under its number; False where that one is not kept.

        Raises
        ------
        ProtocolViolation
            They differ, and Charlie signed both.
        StateCopied
            They differ, and a party signed both.
        """
        place = frame.broadcast, frame.number
        before = [kept.data for kept in self._recent[hop] if (kept.broadcast, kept.number) == place]
        if before and before[0] != frame.data:
            raise two_contents(hop, frame, before[0])
        return bool(before)

    def _out_of_order(self, hop: str, frame: Frame) -> ProtocolViolation:
        what, due = "frame", self._next_in[hop]
        if frame.broadcast:
            what, due = "broadcast", self._next_broadcast
        msg = f"{hop} sent {what} {frame.number}, but {due} is due: a frame was replayed, lost or reordered"
        return ProtocolViolation(msg, peer=hop)

    def _check_direction(self, hop: str, wire: Header) -> None:
        theirs, mine, all_of_them = self._padded[hop], self._padded[self._me], _EVERYBODY
        if hop != CHARLIE:
            sound = wire.src == theirs
            sound &= wire.dst not in (theirs, mine) if wire.kind == "sealed" else wire.dst == mine
        elif wire.kind == "sealed":  # he relays what another party sealed to this one
            sound = wire.src not in (theirs, mine, all_of_them) and wire.dst == mine
        else:
            for_all = wire.dst == all_of_them
            allowed = wire.kind in _FOR_ALL_OR_ONE or for_all == (wire.kind in _FOR_ALL)
            sound = wire.src == theirs and (for_all or wire.dst == mine) and allowed
        if not sound:
            msg = f"{hop} sent a frame ({wire.kind}) in another participant's name, or one that is not for {self._me}"
            raise ProtocolViolation(msg, peer=hop)


# --- Relay -----------------------------------------------------------------------


def target(to: Sequence[str]) -> str:
    """Return the header's ``dst`` of a sealed message: its one recipient's name, or ``*`` for all other parties."""
    return to[0] if len(to) == 1 else PARTIES


def pack_boxes(boxes: Sequence[bytes]) -> bytes:
    """Put one box for each recipient, in roster order, into one body: their common length, and all of them in a row.

    So the number of recipients is bounded by a frame's length alone.

    Raises
    ------
    LocalProtocolError
        The boxes are not equally long.
    """
    widths = {len(box) for box in boxes}
    if len(widths) != 1:
        msg = f"boxes of one sealed message have {len(widths)} lengths; all must be equally long"
        raise LocalProtocolError(msg)
    return bytes(msgpack.packb((widths.pop(), b"".join(boxes))))


def split_boxes(frame: Frame, names: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """Return the (recipient, box) pairs of a sealed message that Charlie received from its source.

    Raises
    ------
    ProtocolViolation
        The source's fault, for it signed this frame: an unknown recipient, a wrong number of boxes, or boxes of
        unequal length.
    """
    others = tuple(name for name in names if name != frame.source)
    # With two parties, "the other one" and "all others" mean the same, and the header may say either.
    to = others if frame.to == PARTIES else (frame.to,)
    match unpack_strict(frame.body, frame.source):
        case (int(width), bytes(boxes)) if width > 0 and width is not True and len(boxes) == width * len(to):
            if set(to) <= set(others):
                return tuple((name, boxes[i * width : (i + 1) * width]) for i, name in enumerate(to))
    msg = f"{frame.source} sent a malformed sealed message; it needs one box for each recipient, all equally long"
    raise ProtocolViolation(msg, peer=frame.source)
