"""Faults: the abort that ends a run, the evidence that is kept, and the rules by which signed frames prove a fault.

A frame that breaks the protocol by itself proves its signer's fault to anybody who has the study. So do two frames that
no program signs in one run. :class:`Judge` knows these rules and nothing else: no connection, no state, no clock. The
participant that finds a fault asks it before it shows frames to others, they ask it before they believe, and so does
``masquerade blame`` afterwards. So frames that proved a fault here prove it everywhere.

What depends on the state of a connection cannot be shown in this way: a frame out of turn, or one that is missing. Nor
can what is in a sealed box. There the others have nothing but the finder's word.

Three things keep an honest participant from being convicted:

* A frame counts only if it bears the run id, or the id that frames bear before there is one. So nothing that was signed
  in another run, or for another purpose, counts.
* A rule about a body counts only where this program has exactly one message of that name. A message of a protocol that
  is not installed here is left open, and convicts nobody: neither its signer nor the one who shows it.
* Charlie passes a party's sealed message on without reading it. So nothing in it is held against him.

*What is kept* for a later judge are signed frames. A sum that does not pass its check ends the run, and nobody can tell
at once whose fault it is. The parties have signed their contributions, and Charlie has signed what he told. Each
participant keeps the newest frame of each of these messages and writes them down when a sum was refused. They show
nobody's numbers: contributions are masked or encrypted, and their sum was to be public.

Any other violation is seen in frames, too: they are kept beside these messages, and so is the frame with which another
participant accuses somebody. The newest of each of Charlie's broadcasts is kept as well: two participants who were told
different things show it with their files.

*The abort.* A participant ends the run, says whom it blames, and shows the frames that prove it where there are any. An
abort *accuses* one participant if its reason is a violation and it names one. It may show frames that the accused
has signed. The recipient checks them by the rules, and believes no more than they prove.

Only the accuser's own signature makes an accusation. Charlie passes a party's abort on as it was signed. So ``by`` is
the sender; in what Charlie passes on it is a party, and the only frame is that party's own abort.

Names do not travel: they are of different lengths. What travels is one bit for each participant of the study, in
roster order and Charlie last. So an abort without frames is always equally long. One with frames is longer, and an
observer of the network learns that somebody was accused.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from masquerade_core.bounded import json_of
from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey, verify
from masquerade_core.crypto.masks import tagged_hash
from masquerade_core.crypto.pair_keys import alike, alike_words, check_owned
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation
from masquerade_core.roster_disclosure import shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study.sections import MOST_PARTIES
from masquerade_core.wire.codec import PARTIES, Broadcast, Message, SealedMessage, decode, encode
from masquerade_core.wire.frames import MAX_FRAME, Endpoint, Frame, head_of, read_header, split_boxes
from masquerade_core.words import counted

__all__ = [
    "EVIDENCE",
    "MAX_SHOWN",
    "MAX_SHOWN_BYTES",
    "Abort",
    "Bits",
    "Evidence",
    "Finding",
    "Findings",
    "Judge",
    "Kept",
    "Reason",
    "bits_of",
    "may_be_copied",
    "names_in",
    "pack_abort",
    "proves",
    "read_abort",
    "read_evidence",
]


Reason = Literal["violation", "deadline", "left", "copied", "damaged", "changed"]
_LEAVING = frozenset({"left", "damaged", "changed"})
Bits = Annotated[bytes, Field(min_length=1, max_length=MOST_PARTIES // 8 + 1)]
MAX_SHOWN = 4  # frames that one abort may show
MAX_SHOWN_BYTES = 1_000_000  # of all of them together
_PASSED_ON_BYTES = MAX_SHOWN_BYTES + 4096  # the same where Charlie passes on a whole abort that shows frames


class AbortMessage(Message):
    """An :class:`Abort` as it travels. There is no free text, which could carry a record."""

    reason: Reason
    blamed: Bits
    by: Bits
    frames: Annotated[tuple[Annotated[bytes, Field(max_length=_PASSED_ON_BYTES)], ...], Field(max_length=MAX_SHOWN)]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(map(len, self.frames)) > (MAX_SHOWN_BYTES if len(self.frames) > 1 else _PASSED_ON_BYTES):
            raise ValueError("are too long")
        return self


@dataclass(frozen=True)
class Abort:
    """The run is over.

    Attributes
    ----------
    reason : str
        ``violation`` (somebody broke the protocol), ``deadline`` (somebody was silent), ``left`` (somebody stopped),
        ``copied`` (somebody's state is an old copy, or two processes use copies of it, which is nobody's guilt),
        ``damaged`` (somebody stopped, since what its machine keeps is damaged), ``changed`` (somebody stopped, since
        its program is another one than at the run's begin).
    blamed : tuple of str
        Those the reason speaks of. For a violation: one name where the sender has checked it, several where one of them
        is at fault and it cannot tell which, none where nobody can be named.
    by : str
        The participant who found out.
    frames : tuple of bytes
        Frames that prove the fault of the one who is blamed; or the party's own abort, in one that Charlie passes on.
    """

    reason: Reason
    blamed: tuple[str, ...]
    by: str
    frames: tuple[bytes, ...] = ()

    @property
    def leaves(self) -> bool:
        """Whether its sender stops and accuses nobody."""
        return self.reason in _LEAVING

    def same_as(self, other: "Abort") -> bool:
        """Say whether both say the same, whatever frames they show."""
        return (self.reason, self.blamed, self.by) == (other.reason, other.blamed, other.by)


def may_be_copied(abort: Abort, signer: str) -> bool:
    """Say whether ``signer`` can know of the copied states that an abort speaks of.

    A party sees its own state and Charlie's acknowledgements; Charlie sees everybody's.
    """
    return signer == CHARLIE or set(abort.blamed) <= {signer, CHARLIE}


def pack_abort(abort: Abort, everybody: Sequence[str]) -> bytes:
    """Return the body of an abort.

    Parameters
    ----------
    abort : Abort
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    blamed, by = bits_of(abort.blamed, everybody), bits_of((abort.by,), everybody)
    return encode(AbortMessage(reason=abort.reason, blamed=blamed, by=by, frames=abort.frames), "")


def read_abort(body: bytes, everybody: Sequence[str], peer: str) -> Abort:
    """Return the abort that ``peer`` sent.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no abort, or it does not say who found out.
    """
    message = decode(AbortMessage, body, peer)
    match names_in(message.by, everybody, peer):
        case (by,):
            return Abort(message.reason, names_in(message.blamed, everybody, peer), by, message.frames)
        case _:
            raise ProtocolViolation(
                f"{peer} ended the run in the name of nobody, or of several; it must be one participant of the study",
                peer=peer,
            )


def bits_of(names: Collection[str], everybody: Sequence[str]) -> bytes:
    """Return participants as bits."""
    wanted, bits = set(names), bytearray((len(everybody) + 7) // 8)
    for i, name in enumerate(everybody if wanted else ()):
        if name in wanted:
            bits[i // 8] |= 1 << i % 8
            wanted.remove(name)
    if wanted:
        msg = f"{len(wanted)} of the participants that an abort or a beat names are not in the study"
        raise LocalProtocolError(msg)
    return bytes(bits)


def names_in(bits: bytes, everybody: Sequence[str], peer: str) -> tuple[str, ...]:
    """Return the participants that ``peer`` has sent as bits.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: there are no such participants.
    """
    value = int.from_bytes(bits, "little")
    if len(bits) != (len(everybody) + 7) // 8 or value >> len(everybody):
        raise ProtocolViolation(
            f"{peer} named participants who are not in the study; it must send one bit for each of {len(everybody)}",
            peer=peer,
        )
    return tuple(everybody[8 * i + j] for i, byte in enumerate(bits) if byte for j in range(8) if byte >> j & 1)


# --- Kept frames --------------------------------------------------------------------


EVIDENCE = "evidence.json"
_TYPES = frozenset(
    {"Contribution", "Masked", "Opened", "OpeningProof", "Outcome", "RoundSum", "RoundTotal", "SumKey", "Summed"}
)


class Findings(NamedTuple):
    """The verdict that files of evidence prove.

    Attributes
    ----------
    culprit : str
        Who is proved to be at fault; empty for nobody.
    found : tuple of str
        What was found, in sentences without their full stops.
    suspects : tuple of str
        Where nobody is proved to be at fault: those one of whom is, if anybody is.
    """

    culprit: str
    found: tuple[str, ...]
    suspects: tuple[str, ...] = ()


@dataclass
class Kept:
    """The newest frame of each message of a secure sum, by its sender and type, as its sender signed it.

    Attributes
    ----------
    frames : dict of (str, str) to bytes
    roster : bytes
        The body of Charlie's roster, from which the run's id follows.
    """

    frames: dict[tuple[str, str], bytes] = field(default_factory=dict)
    roster: bytes = b""

    def add(self, source: str, type_: str, frame: bytes, *, broadcast: bool = False) -> None:
        """Keep a frame, unless its message belongs to no sum and did not go to all parties."""
        if broadcast or type_ in _TYPES:
            self.frames[source, type_] = frame

    def to_json(
        self,
        identity: Mapping[str, Any],
        sign: Callable[[bytes], bytes],
        seen: Sequence[tuple[str, bytes]] = (),
        *,
        refused_sum: bool = True,
        said_by: str = "",
    ) -> dict[str, Any]:
        """Return the content of the file.

        Parameters
        ----------
        identity : mapping
            Names the run, and who keeps the frames and signs.
        sign : callable
        seen : sequence of (str, bytes)
            Signers and frames in which the fault was seen that ended the run.
        refused_sum : bool
        said_by : str
            As :class:`Evidence` has them.
        """
        rows = [(source, type_, frame) for (source, type_), frame in self.frames.items()]
        there = {frame for _, _, frame in rows}
        rows += [(source, "", frame) for source, frame in dict.fromkeys(seen) if frame not in there]
        whole = Evidence(
            str(identity["run_id"]),
            str(identity["participant"]),
            tuple((source, frame) for source, _, frame in rows),
            b"",
            refused_sum=refused_sum,
            said_by=said_by,
        )
        shown = [
            {"source": source, "type": type_, "frame": base64.b64encode(frame).decode()}
            for source, type_, frame in rows
        ]
        roster = base64.b64encode(self.roster).decode()
        return {
            **identity,
            "roster": roster,
            "frames": shown,
            "refused_sum": refused_sum,
            "said_by": said_by,
            "signature": base64.b64encode(sign(whole.signed())).decode(),
        }


@dataclass(frozen=True)
class Evidence:
    """A file of evidence.

    Attributes
    ----------
    run : str
        The run id, in hex.
    roster : bytes
        The body of Charlie's roster: the run id is its hash, together with the study's id.
    participant : str
        Who kept the frames.
    frames : tuple of (str, bytes)
        Each frame with the name of its alleged signer.
    signature : bytes
        The participant's, over all of this. Without it, a party could show contributions in Charlie's name.
    refused_sum : bool
        Whether the run ended with a sum that was refused, or with a fault of somebody whom nobody named.
    said_by : str
        Whose word alone that is; empty where this participant saw it.
    """

    run: str
    participant: str
    frames: tuple[tuple[str, bytes], ...]
    signature: bytes
    roster: bytes = b""
    refused_sum: bool = True
    said_by: str = ""

    def signed(self) -> bytes:
        """Return the bytes that the participant signs."""
        end = (b"refused" if self.refused_sum else b"", self.said_by.encode())
        frames = (part for source, frame in self.frames for part in (source.encode(), frame))
        parts = (self.run.encode(), self.participant.encode(), *end, *frames)
        return b"masquerade evidence\0" + tagged_hash("evidence", *parts)


def read_evidence(text: str, name: str) -> Evidence:
    """Read a file of evidence.

    Raises
    ------
    BadInput
        It is no such file.
    """
    hint = f"give a file {EVIDENCE} of a run's directory"
    data = json_of(text, name, hint, "is not evidence of a run")
    try:
        rows = tuple((str(row["source"]), base64.b64decode(row["frame"], validate=True)) for row in data["frames"])
        roster, signature = (base64.b64decode(data[key]) for key in ("roster", "signature"))
        refused, said_by = data.get("refused_sum") is not False, str(data.get("said_by", ""))
        return Evidence(str(data["run_id"]), str(data["participant"]), rows, signature, roster, refused, said_by)
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise BadInput(f"{name} is not evidence of a run", hint) from error


# --- Rules --------------------------------------------------------------------------


_READER = SigningKey(bytes(32))  # reads frames and signs nothing
_DEPTH = 4  # aborts within aborts
_BODIES = {  # the messages of kinds of frame that no role sends
    ("hello", ""): "Hello",
    ("hello", "fields"): "Fields",
    ("hello", "refusal"): "Refusal",
    ("beat", ""): "BeatMessage",
}


class Finding(NamedTuple):
    """A fault that frames prove.

    Attributes
    ----------
    culprit : str
        Who is proved to be at fault; empty for nobody.
    said : str
        What was found, as a sentence without its full stop.
    open : bool
        This program cannot judge a message that it does not know; another one may.
    suspects : tuple of str
        Where nobody is proved to be at fault, but one of two is: both.
    copied : str
        The party whose state two processes use, or which runs another program; nobody can tell which.
    """

    culprit: str
    said: str
    open: bool = False
    suspects: tuple[str, ...] = ()
    copied: str = ""

    @property
    def named(self) -> tuple[str, ...]:
        """Everybody whom these frames speak against."""
        return (self.culprit,) if self.culprit else self.suspects

    def fits(self, abort: Abort) -> bool:
        """Say whether this is what an abort says that its frames prove."""
        if abort.reason == "copied":
            return bool(self.copied) and abort.blamed == (self.copied,)
        return abort.reason == "violation" and bool(self.named) and abort.blamed == self.named


class _Signed(NamedTuple):
    signer: str
    data: bytes

    @property
    def body(self) -> bytes:
        """All but the signature, of which one message can have several."""
        return self.data[SIGNATURE_BYTES:]


class _FaultError(Exception):
    """The signer is at fault; the text says why."""


class _OpenError(Exception):
    """This program does not know the message."""


@dataclass(frozen=True)
class Judge:
    """The rules, for one run.

    Parameters
    ----------
    study : Study
        It pins the key under which each participant signs.
    run : bytes
        The run id.
    before : bytes
        The id that frames bear until everybody knows the run id.
    """

    study: Study
    run: bytes
    before: bytes

    @cached_property
    def _signing_keys(self) -> Mapping[str, bytes]:
        parties = {party.name: party.key.sign for party in self.study.parties}
        return parties | {CHARLIE: self.study.curator.key.sign}

    @property
    def _everybody(self) -> tuple[str, ...]:
        return (*self.study.names, CHARLIE)

    def of(self, frames: Sequence[bytes]) -> Finding:
        """Say what frames prove, each by itself and any two of them together."""
        return self._of(frames, _DEPTH)

    def word(self, passed_on: Abort) -> tuple[Abort, bytes] | None:
        """Return the party's own abort that Charlie passes on, and its frame; None where it is not that party's."""
        if len(passed_on.frames) != 1 or passed_on.by not in self.study.names:
            return None
        (data,) = passed_on.frames
        try:
            frame = self._read(_Signed(passed_on.by, data))
            abort = read_abort(frame.body, self._everybody, passed_on.by)
        except (ProtocolViolation, _FaultError):
            return None
        return (abort, data) if frame.kind == "abort" and abort.same_as(passed_on) else None

    def signer_of(self, data: bytes) -> str:
        """Return who signed a frame; empty where nobody in the study did."""
        if SIGNATURE_BYTES < len(data) <= MAX_FRAME:
            for name, key in self._signing_keys.items():
                if verify(key, data[SIGNATURE_BYTES:], data[:SIGNATURE_BYTES]):
                    return name
        return ""

    # --- One frame by itself ----------------------------------------------------------

    def _of(self, frames: Sequence[bytes], depth: int) -> Finding:
        shown = [_Signed(signer, data) for data in frames if (signer := self.signer_of(data))]
        unknown = False
        for one in shown:
            try:
                self._check(one, depth)
            except _FaultError as fault:
                return Finding(one.signer, str(fault))
            except _OpenError:
                unknown = True
        if pair := self._of_pairs(shown):
            return pair
        if found := alike(self._keys_in(shown)):
            return Finding("", f"{alike_words(*found)}; one of them gave its key away", suspects=found)
        if unknown:
            return Finding("", "this program does not know a message that is shown, and cannot judge it", open=True)
        what = counted(len(frames), "frame that is shown proves", "frames that are shown prove")
        return Finding("", f"{what} nobody's fault")

    def _of_pairs(self, shown: Sequence[_Signed]) -> Finding | None:
        """Say what any two frames prove together. A copied state does not hide that Charlie told two things."""
        copied: Finding | None = None
        for i, one in enumerate(shown):
            for two in shown[:i]:
                said = self._two(one, two)
                if said and one.signer == CHARLIE:
                    return Finding(CHARLIE, said)
                if said and copied is None:
                    copied = _copied(one.signer, said)
        return copied

    def _check(self, one: _Signed, depth: int) -> None:
        """Raise if the frame proves its signer's fault, or cannot be judged here."""
        try:
            frame = self._read(one)
        except ProtocolViolation:  # of another run, or it is no frame at all
            return
        try:
            self._check_frame(one.signer, frame, depth)
        except ProtocolViolation as error:
            raise _FaultError(error.message) from None

    def _read(self, one: _Signed) -> Frame:
        """Open a frame of this run.

        Raises
        ------
        _FaultError
            It is of this run, and its header is not one that its signer may write.
        ProtocolViolation
            It is not of this run, or not signed by its alleged signer.
        """
        signer, data = one
        if not any(one.body.startswith(head_of(run)) for run in (self.run, self.before)):
            raise ProtocolViolation("a frame is not of this run")
        keys = {party.name: party.key.sign for party in self.study.parties}
        try:
            header = read_header(one.body, signer)
            reader, to = CHARLIE, header.dst.rstrip(" ")
            if signer == CHARLIE:
                keys, reader = {CHARLIE: self.study.curator.key.sign}, self.study.names[0] if to == PARTIES else to
                self._check_parties(header.src.rstrip(" ") if header.kind == "sealed" else reader, reader)
            return Endpoint(reader, header.run, _READER, keys).open(signer, data, numbered=False)
        except ProtocolViolation as error:
            if self.signer_of(data) != signer:
                raise
            raise _FaultError(error.message) from None

    def _check_parties(self, *names: str) -> None:
        for name in names:
            if name not in self.study.names:
                raise ProtocolViolation(f"{CHARLIE} sent a frame of or for somebody who is not in the study")

    def _check_frame(self, signer: str, frame: Frame, depth: int) -> None:
        match frame.kind:
            case "message":
                self._check_message(signer, frame)
            case "sealed" if signer != CHARLIE:  # what he passes on is the party's, its type and box included
                split_boxes(frame, self.study.names)
                if (cls := _class_of(frame.type)) and not issubclass(cls, SealedMessage):
                    raise _FaultError(f"{signer} sealed a {frame.type}, which does not travel sealed")
            case "abort":
                self._check_abort(signer, read_abort(frame.body, self._everybody, signer), frame.run, depth)
            case "roster" | "hellos" | "closed":
                self._check_shown(signer, frame)
            case "hello" if frame.type not in (("refusal",) if signer == CHARLIE else ("", "fields")):
                raise _FaultError(f"{signer} sent a hello of type {frame.type[:32]!r}, which it may not send")
            case "beat" if frame.type:
                raise _FaultError(f"{signer} sent a beat of type {frame.type[:32]!r}; a beat has none")
            case "hello" | "beat":
                said: Any = decode(_named(_BODIES[frame.kind, frame.type]), frame.body, signer)
                if (frame.kind, frame.type) == ("hello", ""):
                    check_owned(said, self.before, signer, self._signing_keys[signer])

    def _check_shown(self, signer: str, frame: Frame) -> None:
        match frame.kind, signer:
            case (("roster" | "hellos"), _) if signer != CHARLIE:
                what = "a roster" if frame.kind == "roster" else "others' hellos"
                raise _FaultError(f"{signer} sent {what}, which {CHARLIE} alone may send")
            case "roster", _:
                roster: Any = decode(_named("Roster"), frame.body, signer)
                check_owned(roster, self.before, CHARLIE, self._signing_keys[CHARLIE])
                if shows_all(self.study):
                    self._check_signed("a roster", "hello", roster, frame.run)
                elif _frames_in(roster):
                    raise _FaultError(
                        f"{CHARLIE} sent a roster with hellos, but this study has too many of them for a roster"
                    )
            case "hellos", _:
                self._check_some("hellos", "hello", decode(_named("Hellos"), frame.body, signer), self.before)
            case _ if signer == CHARLIE and frame.broadcast:
                closed = decode(_named("AllClosed"), frame.body, signer)
                self._check_signed("the end of the run", "closed", closed, frame.run)
            case _ if signer == CHARLIE:
                closed = decode(_named("AllClosed"), frame.body, signer)
                self._check_some("the end of the run", "closed", closed, frame.run)
            case _:
                decode(_named("Closed"), frame.body, signer)

    def _check_message(self, signer: str, frame: Frame) -> None:
        cls = _named(frame.type)
        if issubclass(cls, SealedMessage):
            raise _FaultError(f"{signer} sent a {frame.type} in the clear, which travels sealed alone")
        if signer == CHARLIE and issubclass(cls, Broadcast) != frame.broadcast:
            came, due = ("to all parties", "one") if frame.broadcast else ("to one party alone", "all parties")
            raise _FaultError(f"{CHARLIE} sent a {frame.type} {came}; it goes to {due}")
        decode(cls, frame.body, signer)

    def _check_abort(self, signer: str, abort: Abort, run: bytes, depth: int) -> None:
        if not depth or run == self.before:
            raise _OpenError  # what it shows may be of an earlier attempt at the same study
        if abort.by != signer:
            if signer != CHARLIE:
                raise _FaultError(f"{signer} ended the run in the name of {abort.by}")
            if self.word(abort) is None:
                raise _FaultError(f"{CHARLIE} ended the run in the name of {abort.by}, who has not signed that")
        elif abort.leaves and signer not in (CHARLIE, *abort.blamed):
            raise _FaultError(f"{signer} says that another participant left, which it may not say")
        elif abort.reason == "copied" and not may_be_copied(abort, signer):
            raise _FaultError(f"{signer} says that another party's state was copied, which it may not say")
        elif abort.frames:
            finding = self._of(abort.frames, depth - 1)
            if finding.open:
                raise _OpenError
            if not finding.fits(abort):
                raise _FaultError(
                    f"{signer} accused {' or '.join(abort.blamed) or 'nobody'} with frames that do not prove it"
                )

    def _check_signed(self, what: str, kind: str, message: Message, run: bytes) -> None:
        """Check the parties' frames in a message of Charlie's: each is of its party, of this run and of its kind."""
        frames = _frames_in(message)
        there = sum(map(bool, frames))
        if len(frames) != self.study.K or there < (self.study.K if kind == "hello" else self.study.survivors):
            raise _FaultError(f"{CHARLIE} sent {what} with the frames of {counted(there, 'party', 'parties')}")
        keys = {party.name: party.key.sign for party in self.study.parties}
        for name, data in zip(self.study.names, frames, strict=True):
            if not data:
                continue  # the run went on without this party
            if not _is_signed(Endpoint(CHARLIE, run, _READER, keys), name, data, kind):
                raise _FaultError(f"{CHARLIE} sent {what} with a frame of {name} that {name} did not sign for it")

    def _check_some(self, what: str, kind: str, message: Message, run: bytes) -> None:
        """Check the frames in a message that shows some parties' only: each is one that its source signed for it.

        Whose are due follows from a coin that is not known here. So nobody is convicted for showing others.
        """
        keys = {party.name: party.key.sign for party in self.study.parties}
        reader = Endpoint(CHARLIE, run, _READER, keys)
        for data in _frames_in(message):
            try:
                name = read_header(data[SIGNATURE_BYTES:], CHARLIE).src.rstrip(" ")
            except ProtocolViolation:
                name = ""
            if name not in keys or not _is_signed(reader, name, data, kind):
                who = name if name in keys else "nobody in the study"
                raise _FaultError(f"{CHARLIE} sent {what} with a frame of {who} that {who} did not sign for it")

    # --- Two frames -----------------------------------------------------------------------

    def _keys_in(self, shown: Sequence[_Signed]) -> list[tuple[str, bytes]]:
        """Return whose hellos are shown, in the roster's order, and the box keys in them."""
        keys: list[tuple[str, bytes]] = []
        for one in shown:
            try:
                frame = self._read(one)
                if (frame.kind, frame.type) == ("hello", "") and one.signer != CHARLIE:
                    said: Any = decode(_named("Hello"), frame.body, one.signer)
                    keys.append((one.signer, said.box_key))
            except (ProtocolViolation, _FaultError, _OpenError):
                continue
        return sorted(keys, key=lambda key: self.study.place_of[key[0]])

    def _two(self, one: _Signed, two: _Signed) -> str:
        """Say what two frames prove together; empty for nothing."""
        if one.signer != two.signer or one.body == two.body:
            return ""
        try:
            a, b = self._read(one), self._read(two)
        except (ProtocolViolation, _FaultError):
            return ""
        # Charlie counts on each hop, and his broadcasts; before the run id is known, two attempts may use one number.
        if (a.run, a.number) != (b.run, b.number) or a.run == self.before:
            return ""
        if not (a.numbered and b.numbered) or (one.signer == CHARLIE and a.to != b.to):
            return ""
        what = "broadcasts" if a.broadcast else "frames"
        return f"{one.signer} signed two different {what} of number {a.number}"


def proves(frames: Sequence[bytes], study: Study, run: bytes, before: bytes) -> str | None:
    """Return the participant whose fault these frames prove; None where they prove nobody's. See :class:`Judge`."""
    return Judge(study, run, before).of(frames).culprit or None


def _copied(name: str, said: str) -> Finding:
    """Return what two different frames of one number prove of a party: two processes with one state would sign them."""
    said += ": two processes use copies of its state folder, or it runs another program, and nobody can tell which"
    return Finding("", said, copied=name)


def _frames_in(message: Message) -> tuple[bytes, ...]:
    """Return the parties' frames in a message of Charlie's, which stand in its first field."""
    frames: tuple[bytes, ...] = getattr(message, next(iter(type(message).model_fields)))
    return frames


def _is_signed(reader: Endpoint, name: str, data: bytes, kind: str) -> bool:
    """Say whether a frame is one of this kind that its party signed for the run of the reader."""
    try:
        frame = reader.open(name, data, numbered=False)
        decode(_named(kind.capitalize()), frame.body, name)
    except ProtocolViolation:
        return False
    return (frame.kind, frame.type) == (kind, "")


def _subclasses(cls: type[Message]) -> Iterator[type[Message]]:
    for below in cls.__subclasses__():
        yield below
        yield from _subclasses(below)


def _class_of(name: str) -> type[Message] | None:
    """Return this program's only message of a name. Those of a protocol from elsewhere may differ between sites."""
    found = {cls for cls in _subclasses(Message) if cls.__name__ == name}
    return next(iter(found)) if len(found) == 1 and all(_ours(cls) for cls in found) else None


def _ours(cls: type[Any]) -> bool:
    return cls.__module__.startswith("masquerade_")


def _named(name: str) -> type[Message]:
    if (cls := _class_of(name)) is None:
        raise _OpenError
    return cls
