"""Ways to break the protocol, each played against honest participants: what they report, and what their files prove.

Two sums and a last broadcast are played between three parties and Charlie, on lists instead of sockets. One of them is
malicious: its role sends something else, or its frames are exchanged on their way out and signed with its key.
"""

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgpack

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.crypto.masks import Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import NAMING, DeadlinePassed, MasqueradeError, Reported, StateCopied
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Effect, Once, Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message, encode, pack_plain, unpack_plain
from masquerade_core.wire.faults import Abort, Findings, pack_abort, read_evidence
from masquerade_core.wire.frames import head_of
from masquerade_core.words import listed
from masquerade_protocols.blame import check_evidence, run_of, verdict
from masquerade_protocols.blocks.adaptive_sums import PublicNumbers
from masquerade_protocols.blocks.coin_toss import Commitment, Reveal
from masquerade_protocols.blocks.masked_sum import Masked
from masquerade_protocols.blocks.paillier_sum import Opened, OpeningProof, RoundSum, SumKey
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.registry import entry_named
from tests.host_helpers import World
from tests.wired import Wired

PARTIES = ("p1", "p2", "p3")
EVERYBODY = (*PARTIES, CHARLIE)
V, RUN, SRC, DST, KIND, SEQ, TYPE, BODY = range(8)  # places in a frame's header

UNNUMBERED = ("hello", "beat", "abort")
Fields = list[Any]
Change = Callable[[str, Message], Message]


def header_of(data: bytes) -> Fields:
    """Return the fields of a frame's header."""
    return list(msgpack.unpackb(data[SIGNATURE_BYTES:]))


def world_of(kind: str) -> World:
    """A study whose sums are made by masks, or by Paillier with p1 as the lead."""
    world = World.new(3, deadline=6.0, port=5555)
    text = world.study.to_toml().replace('"local-aggregation"', '"psgd"')
    if kind == "masks":
        text = "\n".join(line for line in text.splitlines() if not line.startswith(("key_bits", "lead")))
        text = text.replace('sum = "paillier"', 'sum = "masks"')
    return World(Study.parse(text), world.keys)


@dataclass
class Stage:
    """A play: everybody's sessions and roles, and the frames that the malicious one sends.

    Attributes
    ----------
    wired : Wired
    culprit : str
        The malicious one.
    swap : callable
        Gets the header fields of each of the culprit's frames, its recipient and its bytes; returns what is sent.
    change : callable
        Changes a message of the culprit's role before it is encoded.
    """

    wired: Wired
    culprit: str
    swap: Callable[["Stage", str, Fields, bytes], Iterable[bytes]] = field(default=lambda _s, _to, _f, data: (data,))
    change: Change = field(default=lambda _name, message: message)
    heard: list[tuple[str, str, bytes]] = field(default_factory=list)
    done: int = 0

    def sign(self, fields: Sequence[Any]) -> bytes:
        """Sign a header with the culprit's key."""
        data = bytes(msgpack.packb(fields))
        return self.wired.world.keys[self.culprit].signing.sign(data) + data

    def once(self) -> bool:
        """Return True for the first time."""
        self.done += 1
        return self.done == 1

    def number_to(self, party: str) -> bytes:
        """Return the number of Charlie's next frame for one party alone."""
        kinds = [header_of(data)[KIND] for source, to, data in self.heard[:-1] if (source, to) == (CHARLIE, party)]
        return sum(kind not in UNNUMBERED for kind in kinds).to_bytes(4, "big")

    def carry(self, source: str, to: str, data: bytes) -> Iterable[bytes]:
        """Carry a frame."""
        self.heard.append((source, to, data))
        if source != self.culprit:
            return (data,)
        return self.swap(self, to, header_of(data), data)

    # --- The roles ------------------------------------------------------------------

    def seat(self, name: str) -> Seat:
        """Make a participant's seat; the culprit's changes what it sends."""
        stage = self

        class Changing(Seat):
            async def send(self, to: str, message: Message) -> None:
                await super().send(to, stage.change(self.me, message) if self.me == stage.culprit else message)

            async def broadcast(self, message: Message) -> None:
                await super().broadcast(stage.change(self.me, message) if self.me == stage.culprit else message)

            async def send_sealed(self, message: Any, to: str | None = None) -> None:
                sealed: Any = stage.change(self.me, message) if self.me == stage.culprit else message
                await super().send_sealed(sealed, to)

        return Changing(name, self.wired.world.study.names)

    async def party(self, name: str) -> None:
        """Add two vectors, and hear a last word."""
        seat, study = self.seat(name), self.wired.world.study
        await seat.join()
        sums = await set_up(seat, study)
        for turn in (b"first", b"second"):
            await sums.open_sum(self.layout, [1, 2, 3, 4], turn)
        await sums.close()
        await seat.receive(PublicNumbers, CHARLIE)

    async def charlie(self) -> None:
        """The same at Charlie's."""
        seat, study = self.seat(CHARLIE), self.wired.world.study
        await seat.join()
        sums = await set_up_charlie(seat, study)
        for _ in range(2):
            await sums.open_sum(self.layout)
        await sums.close()
        await seat.broadcast(PublicNumbers(step=0, values=b"the last word"))

    @property
    def layout(self) -> Any:
        """The sums' layout."""
        study = self.wired.world.study
        return Words(4, 2**20) if study.crypto.sum == "masks" else Packing(4, 2**20, study.key_bits)

    def play(self, seconds: float = 20.0) -> None:
        """Play to everybody's end."""
        self.wired.tamper = self.carry
        roles: dict[str, Coroutine[Effect, Any, Any]] = {name: self.party(name) for name in PARTIES}
        roles[CHARLIE] = self.charlie()
        for name in roles:
            self._step(name, roles, None)
        until = self.wired.clock.now + seconds
        while self.wired.clock.now < until and not self._over():
            self.wired.pump(1, seconds=0.25)
            for name in tuple(roles):
                while name in roles and name in self.wired.answers:
                    self._step(name, roles, self.wired.answers.pop(name))
        for role in roles.values():
            role.close()

    def _over(self) -> bool:
        honest = [name for name in EVERYBODY if name != self.culprit]
        return all(name in self.wired.errors or self.wired.sessions[name].closed for name in honest)

    def _step(self, name: str, roles: dict[str, Coroutine[Effect, Any, Any]], answer: Any) -> None:
        while name not in self.wired.errors:
            try:
                effect = roles[name].send(answer)
            except StopIteration:
                del roles[name]
                self.wired.finish(name)
                return
            except MasqueradeError as error:
                del roles[name]
                self.wired.errors[name] = error
                self.wired.sessions[name].abort(error)
                return
            if isinstance(effect, Once):
                answer = unpack_plain(pack_plain(effect.compute(SystemRng())))
                continue
            self.wired.begin(name, effect)
            if name not in self.wired.answers:
                return
            answer = self.wired.answers.pop(name)

    # --- What they report ---------------------------------------------------------------

    @property
    def honest(self) -> tuple[str, ...]:
        """All but the malicious one."""
        return tuple(name for name in EVERYBODY if name != self.culprit)

    def files(self) -> dict[str, str]:
        """Return every honest participant's file of evidence."""
        files = {}
        for name in self.honest:
            session = self.wired.sessions[name]
            identity = {"run_id": session.run.hex(), "participant": name}
            content = session.evidence(identity, self.wired.errors.get(name)) if name in self.wired.errors else None
            if content is not None:
                files[name] = json.dumps(content)
        return files

    def proved_by(self) -> str:
        """Say whose files prove the culprit's fault; nobody else's may be proved by any."""
        study, files = self.wired.world.study, self.files()
        found = {name: check_evidence(text, study) for name, text in files.items()}
        assert {f.culprit for f in found.values()} <= {"", self.culprit}, found
        alone = [name for name, f in found.items() if f.culprit]
        if alone:
            return "everybody's" if len(alone) == len(self.honest) else f"{listed(alone)}'s"
        together = self._together(study, files)
        if together.culprit:
            return "all together"
        return f"nobody's; it is between {listed(together.suspects)}" if together.suspects else "nobody's"

    def _together(self, study: Study, files: dict[str, str]) -> Findings:
        read = [read_evidence(text, name) for name, text in files.items()]
        if len({file.run for file in read}) != 1:
            return Findings("", ())
        found = verdict(study, run_of(read[0], study), read)
        assert found.culprit in ("", self.culprit), found
        assert not found.suspects or self.culprit in found.suspects, found
        return found


def report(error: MasqueradeError | None) -> str:
    """Return what an error says of whom, in few words."""
    if error is None:
        return "has the result"
    if error.grounds is None:
        who, left, _ = error.message.partition(" left the run")
        return f"{who} left" if left else "the run failed"
    names = [getattr(error, part, ()) for part in NAMING if part != "said_by"]
    last = "and" if isinstance(error, DeadlinePassed) else "or"
    who = next((listed([n] if isinstance(n, str) else n, last) for n in names if n), "")
    if isinstance(error, StateCopied):
        said = f"two copies of the state of {who}"
        return f"{error.said_by} says: {said}" if error.said_by else said
    if isinstance(error, Reported):
        return f"{error.said_by} says: {who or 'somebody'}"
    if isinstance(error, DeadlinePassed) and error.said_by:
        return f"{error.said_by} says: not answered in time: {who}"
    return f"{error.grounds.words}{': ' if who else ''}{who}"


# --- What a party does -----------------------------------------------------------------


def _on(kind: str, type_: str, act: Callable[[Stage, str, Fields, bytes], Iterable[bytes]]) -> Any:
    """Act on the first frame of a kind and type, and pass all others on."""

    def swap(stage: Stage, to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
        if (fields[KIND], fields[TYPE]) == (kind, type_) and stage.once():
            return act(stage, to, fields, data)
        return (data,)

    return swap


on_masked = partial(_on, "message", "Masked")


def _instead(**changes: Any) -> Any:
    """Sign the frame with other fields."""

    def act(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
        for name, value in changes.items():
            fields[{"src": SRC, "dst": DST, "kind": KIND, "type": TYPE, "body": BODY}[name]] = value
        return (stage.sign(fields),)

    return act


def _garbage(_stage: Stage, _to: str, _fields: Fields, _data: bytes) -> Iterable[bytes]:
    return (SystemRng().bytes(200),)


def _no_header(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    signed = head_of(fields[RUN]) + b"\xc0"
    return (stage.wired.world.keys[stage.culprit].signing.sign(signed) + signed,)


def _two_of_one_number(stage: Stage, _to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({**body, "words": body["words"][::-1]})
    return data, stage.sign(fields)


def _flood(stage: Stage, _to: str, _fields: Fields, data: bytes) -> Iterable[bytes]:
    session = stage.wired.parties[stage.culprit]
    body = encode(Masked(round=1, words=b"x", check=b"x"), CHARLIE)
    return data, *(session._endpoint.seal(CHARLIE, "message", body, type="Masked") for _ in range(70))


def _abort(make: Callable[[Stage], Abort]) -> Any:
    def act(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
        fields[KIND], fields[TYPE], fields[BODY] = "abort", "", pack_abort(make(stage), EVERYBODY)
        fields[SEQ] = bytes(4)  # an abort has no number
        return (stage.sign(fields),)

    return act


def _more_held(stage: Stage, _to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
    """Acknowledge a thousand frames more than have come, in a beat of the middle of the run."""
    if not any(header_of(heard)[KIND] == "message" for _, _, heard in stage.heard):
        stage.done = 0
        return (data,)
    body = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({**body, "got": (int.from_bytes(body["got"], "big") + 1000).to_bytes(4, "big")})
    return (stage.sign(fields),)


def _no_ciphertexts(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({**body, "terms": bytes(len(body["terms"]))})
    return (stage.sign(fields),)


def _heard(stage: Stage, source: str, to: str, kind: str = "message") -> bytes:
    """Return a good frame that somebody sent before."""
    return next(data for who, whom, data in stage.heard if (who, whom, header_of(data)[KIND]) == (source, to, kind))


def _silent(stage: Stage, _to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
    stage.done += fields[TYPE] in ("Masked", "Summed")
    return () if stage.done else (data,)


def _leaves(stage: Stage, to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    return _abort(lambda s: Abort("left", (s.culprit,), s.culprit))(stage, to, fields, b"")  # type: ignore[no-any-return]


def _changed(cls: type[Message], **changes: Callable[[Any], Any]) -> Change:
    """Change the fields of a message before it is encoded."""

    def change(_name: str, message: Message) -> Message:
        if not isinstance(message, cls):
            return message
        return message.model_copy(update={name: f(getattr(message, name)) for name, f in changes.items()})

    return change


def _flipped(data: bytes) -> bytes:
    return data[:-4] + bytes((data[-4] ^ 1,)) + data[-3:]


# --- What Charlie does -------------------------------------------------------------------


def _to_p1(kind: str, type_: str, act: Callable[[Stage, str, Fields, bytes], Iterable[bytes]]) -> Any:
    """Act on the first frame of a kind and type that goes to p1."""

    def swap(stage: Stage, to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
        if (to, fields[KIND], fields[TYPE]) == ("p1", kind, type_) and stage.once():
            return act(stage, to, fields, data)
        return (data,)

    return swap


on_summed = partial(_to_p1, "message", "Summed")


def _to_p1_alone(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    fields[DST], fields[SEQ] = "p1".ljust(32), stage.number_to("p1")
    return (stage.sign(fields),)


def _another_key(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    p2 = header_of(body["hellos"][1])
    hello = msgpack.unpackb(p2[BODY])
    p2[BODY] = msgpack.packb({**hello, "box_key": hello["box_key"][::-1]})
    body["hellos"] = [body["hellos"][0], stage.sign(p2), body["hellos"][2]]
    fields[BODY] = msgpack.packb(body)
    return (stage.sign(fields),)


def _anothers_key(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    """Announce the key of whoever came first."""
    first = next(header_of(data) for source, _, data in stage.heard if source != stage.culprit)
    hello = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({**hello, "box_key": msgpack.unpackb(first[BODY])["box_key"]})
    return (stage.sign(fields),)


def _own_closed(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    body["closed"] = [*body["closed"][:2], body["closed"][0]]
    fields[BODY] = msgpack.packb(body)
    return (stage.sign(fields),)


def _other_words(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    name = "words" if "words" in body else "values"
    fields[BODY] = msgpack.packb({**body, name: _flipped(body[name])})
    return (stage.sign(fields),)


def _other_root(stage: Stage, _to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
    if fields[TYPE] != "OpeningProof":
        return (data,)
    body = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({"root": _flipped(body["root"])})
    return (stage.sign(fields),)


def _other_total(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    body = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb({**body, "total": _flipped(body["total"])})
    return (stage.sign(fields),)


def _another_box(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    fields[BODY] = _flipped(fields[BODY])
    return (stage.sign(fields),)


def _unequal(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    boxes = msgpack.unpackb(fields[BODY])
    fields[BODY] = msgpack.packb((boxes[0], boxes[1] + b"x"))
    return (stage.sign(fields),)


def _second_roster(stage: Stage, _to: str, fields: Fields, _data: bytes) -> Iterable[bytes]:
    old = header_of(_heard(stage, CHARLIE, "p1", "roster"))
    fields[KIND], fields[TYPE], fields[BODY] = "roster", "", old[BODY]
    return (stage.sign(fields),)


def _abort_of_charlie(make: Callable[[Stage], Abort]) -> Any:
    """Every party is told the same."""

    def swap(stage: Stage, to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
        if fields[TYPE] != "Summed":
            return (data,)
        fields[KIND], fields[TYPE], fields[BODY] = "abort", "", pack_abort(make(stage), EVERYBODY)
        fields[DST], fields[SEQ] = to.ljust(32), bytes(4)
        return (stage.sign(fields),)

    return swap


def _tells_all(stage: Stage, _to: str, fields: Fields, data: bytes) -> Iterable[bytes]:
    return _other_words(stage, _to, fields, data) if fields[TYPE] == "Summed" else (data,)


# --- The list ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Misdeed:
    """One way to break the protocol.

    Attributes
    ----------
    what : str
        In words.
    culprit : str
    swap, change
        See :class:`Stage`.
    kind : str
        How the study makes its sums.
    careless : bool
        Charlie's own session does not check what would end the run because of his own misdeed.
    """

    what: str
    culprit: str
    swap: Any = None
    change: Change | None = None
    kind: str = "masks"
    careless: bool = False

    def played(self) -> Stage:
        """Play it."""
        world = world_of(self.kind)
        wired = Wired(world, versions=dict.fromkeys(EVERYBODY, entry_named(world.study.study.protocol).version))
        stage = Stage(wired, self.culprit)
        if self.careless:
            wired.charlie._check_digests = lambda: None  # type: ignore[method-assign]
        stage.swap, stage.change = self.swap or stage.swap, self.change or stage.change
        stage.play()
        return stage


_LAST = _to_p1("message", "PublicNumbers", _other_words)

MISDEEDS = (
    Misdeed("announces p1's box key as its own", "p2", _on("hello", "", _anothers_key)),
    Misdeed("sends bytes that it has not signed", "p2", on_masked(_garbage)),
    Misdeed("signs a frame without a header", "p2", on_masked(_no_header)),
    Misdeed("signs a frame in p1's name", "p2", on_masked(_instead(src="p1".ljust(32)))),
    Misdeed("sends a roster", "p2", on_masked(_instead(kind="roster", type=""))),
    Misdeed("signs two frames of one number", "p2", on_masked(_two_of_one_number)),
    Misdeed("sends a frame twice", "p2", on_masked(lambda _s, _t, _f, data: (data, data))),
    Misdeed("leaves a frame out", "p2", on_masked(lambda *_: ())),
    Misdeed(
        "sends a message that is not due",
        "p2",
        on_masked(_instead(type="RoundSum", body=encode(RoundSum(round=0, sums=b"x"), CHARLIE))),
    ),
    Misdeed("sends a message with wrong fields", "p2", on_masked(_instead(body=b"\x80"))),
    Misdeed(
        "sends in the clear what travels sealed",
        "p2",
        on_masked(_instead(type="Commitment", body=encode(Commitment(digest=bytes(32)), CHARLIE))),
    ),
    Misdeed("seals boxes of unequal length", "p1", _on("sealed", "GroupKey", _unequal)),
    Misdeed("sends more messages than were asked for", "p2", on_masked(_flood)),
    Misdeed("closes with a wrong hash", "p2", _on("closed", "", _instead(body=msgpack.packb({"digest": bytes(32)})))),
    Misdeed(
        "accuses Charlie with a frame that proves nothing",
        "p2",
        on_masked(_abort(lambda s: Abort("violation", (CHARLIE,), "p2", (_heard(s, CHARLIE, "p2", "sealed"),)))),
    ),
    Misdeed("accuses p3 and shows nothing", "p2", on_masked(_abort(lambda _: Abort("violation", ("p3",), "p2")))),
    Misdeed("ends the run in p1's name", "p2", on_masked(_abort(lambda _: Abort("violation", ("p3",), "p1")))),
    Misdeed("says that p1 left", "p2", on_masked(_abort(lambda _: Abort("left", ("p1",), "p2")))),
    Misdeed("acknowledges frames that were never sent", "p2", _on("beat", "", _more_held)),
    Misdeed(
        "says at once that p3 did not answer in time",
        "p2",
        on_masked(_abort(lambda _: Abort("deadline", ("p3",), "p2"))),
    ),
    Misdeed(
        "says at once that Charlie did not answer in time",
        "p2",
        on_masked(_abort(lambda _: Abort("deadline", (CHARLIE,), "p2"))),
    ),
    Misdeed("says that p3's state was copied", "p2", on_masked(_abort(lambda _: Abort("copied", ("p3",), "p2")))),
    Misdeed("sends an abort that is none", "p2", on_masked(_instead(kind="abort", type="", body=b"\x80"))),
    Misdeed("falls silent", "p2", _silent),
    Misdeed("leaves", "p2", on_masked(_leaves)),
    Misdeed("contributes garbage to a sum by masks", "p2", None, _changed(Masked, words=_flipped)),
    Misdeed("contributes too few words", "p2", None, _changed(Masked, words=lambda words: words[4:])),
    Misdeed("seals a box that does not open", "p1", _on("sealed", "GroupKey", _another_box)),
    Misdeed("reveals other coins than it has committed to", "p2", None, _changed(Reveal, nonce=_flipped), "paillier"),
    Misdeed("as the lead, opens another sum", "p1", None, _changed(RoundSum, sums=_flipped), "paillier"),
    Misdeed("as the lead, sends a key without its proof", "p1", None, _changed(SumKey, roots=_flipped), "paillier"),
    Misdeed(
        "as the lead, sends a key that is none", "p1", None, _changed(SumKey, modulus=lambda _: bytes(256)), "paillier"
    ),
    Misdeed("as the lead, sends too short a sum", "p1", None, _changed(RoundSum, sums=lambda s: s[1:]), "paillier"),
    Misdeed(
        "as the lead, spoils the proof of its openings", "p1", None, _changed(OpeningProof, root=_flipped), "paillier"
    ),
    Misdeed(
        "seals a message that is not due",
        "p2",
        _on("sealed", "Commitment", _instead(type="Echo")),
        kind="paillier",
    ),
    Misdeed(
        "contributes what is not encrypted",
        "p2",
        _on("message", "Contribution", _no_ciphertexts),
        kind="paillier",
    ),
    Misdeed("sends bytes that he has not signed", CHARLIE, on_summed(_garbage)),
    Misdeed("tells p1 alone what is for all", CHARLIE, on_summed(_to_p1_alone)),
    Misdeed("tells p1 another sum", CHARLIE, on_summed(_other_words)),
    Misdeed("tells p1 another last word", CHARLIE, _LAST, careless=True),
    Misdeed("tells everybody another sum", CHARLIE, _tells_all),
    Misdeed(
        "tells another total than the lead has opened", CHARLIE, _on("message", "Opened", _other_total), kind="paillier"
    ),
    Misdeed(
        "tells everybody another sum than the lead has opened",
        CHARLIE,
        None,
        _changed(Opened, sums=_flipped),
        "paillier",
    ),
    Misdeed("passes on another proof than the lead's", CHARLIE, _other_root, kind="paillier"),
    Misdeed("exchanges p2's key in the roster", CHARLIE, _to_p1("roster", "", _another_key)),
    Misdeed("sends a second roster", CHARLIE, on_summed(_second_roster)),
    Misdeed("closes with a frame that p3 did not sign", CHARLIE, _to_p1("closed", "", _own_closed)),
    Misdeed("changes a box that he relays", CHARLIE, _to_p1("sealed", "Commitment", _another_box), kind="paillier"),
    Misdeed(
        "relays a box of somebody who is not in the study",
        CHARLIE,
        _to_p1("sealed", "Commitment", _instead(src="mallory".ljust(32))),
        kind="paillier",
    ),
    Misdeed("sends a beat that is none", CHARLIE, _to_p1("beat", "", _instead(body=b"\x80"))),
    Misdeed("acknowledges frames that p1 never sent", CHARLIE, _to_p1("beat", "", _more_held)),
    Misdeed(
        "says at once that p2 did not answer in time",
        CHARLIE,
        _abort_of_charlie(lambda _: Abort("deadline", ("p2",), CHARLIE)),
    ),
    Misdeed("says that p2's state was copied", CHARLIE, _abort_of_charlie(lambda _: Abort("copied", ("p2",), CHARLIE))),
    Misdeed(
        "says that p2's state was copied, with a frame that does not show it",
        CHARLIE,
        _abort_of_charlie(lambda s: Abort("copied", ("p2",), CHARLIE, (_heard(s, "p2", CHARLIE),))),
    ),
    Misdeed("accuses p2 and shows nothing", CHARLIE, _abort_of_charlie(lambda _: Abort("violation", ("p2",), CHARLIE))),
    Misdeed(
        "accuses p2 with a frame that proves nothing",
        CHARLIE,
        _abort_of_charlie(lambda s: Abort("violation", ("p2",), CHARLIE, (_heard(s, "p2", CHARLIE),))),
    ),
    Misdeed(
        "accuses p2 in p3's name, who has said nothing",
        CHARLIE,
        _abort_of_charlie(lambda s: Abort("violation", ("p2",), "p3", (_heard(s, "p3", CHARLIE),))),
    ),
    Misdeed("falls silent", CHARLIE, _silent),
)


def row_of(misdeed: Misdeed, stage: Stage) -> str:
    """Return the row of the page's table."""
    said: dict[str, list[str]] = {}
    for name in stage.honest:
        said.setdefault(report(stage.wired.errors.get(name)), []).append(name)
    reports = "; ".join(f"{listed(names)}: {words}" for words, names in said.items())
    return f"| {misdeed.culprit} {misdeed.what} | {reports} | {stage.proved_by()} |"
