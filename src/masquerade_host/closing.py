"""The closing digests: no two honest parties end a run with results that follow from different broadcasts.

Charlie, the curator, *broadcasts* the opened sums and the released numbers: he sends all parties the same bytes. He
could send some of them other bytes. Every party keeps a hash of all that he broadcast, in order, and its last frame,
``Closed``, carries it under the party's own signature. Charlie answers with all these frames. Each party checks them
before it returns any result. What Charlie sends to one party alone is no part of the hash.
"""

import hashlib
from collections.abc import Mapping

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint
from masquerade_core.words import counted, listed
from masquerade_host.session_messages import DIGEST_BYTES, AllClosed, Closed
from masquerade_host.transcript import hashed

__all__ = ["Told", "check_all_closed", "closed_by"]


class Told:
    """A running hash of everything that Charlie broadcast, in order.

    Attributes
    ----------
    chain : list of bytes
        The hash before the first broadcast, after it, after the second one, and so on.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"masq told")
        self.chain = [self._hash.digest()]

    def add(self, frame: bytes) -> None:
        """Add one broadcast, as Charlie signed it."""
        self.add_hash(hashed(frame))

    def add_hash(self, frame: bytes) -> None:
        """Add one broadcast by the hash of its bytes, which is all that a transcript keeps."""
        self._hash.update(frame)
        self.chain.append(self._hash.digest())

    def digest(self) -> bytes:
        """Return the hash of what was added so far."""
        return self._hash.digest()


def check_all_closed(
    answer: AllClosed, study: Study, run: bytes, signing: SigningKey, own: tuple[str, bytes, bytes]
) -> None:
    """Check that every party signed the same hash as this one.

    Parameters
    ----------
    answer : AllClosed
        Charlie's last message.
    study : Study
        It pins the key under which each party signs.
    run : bytes
        The run id.
    signing : SigningKey
        This party's identity. It signs nothing here.
    own : (str, bytes, bytes)
        This party's name, the frame with which it closed, and its hash.

    Raises
    ------
    ProtocolViolation
        A frame is missing, or is not one that its party signed for this run: Charlie's fault. Or a hash differs: then
        Charlie or that party may be at fault.
    """
    me, frame, digest = own
    closed = {name: said.digest for name, said in closed_by(answer, study, run, signing).items()}
    if answer.closed[study.names.index(me)] != frame:
        raise _bad_frame(me)
    if others := tuple(name for name, theirs in closed.items() if theirs != digest):
        raise ProtocolViolation(
            f"{CHARLIE} told {listed(others)} other messages than {me}, or {listed(others, 'or')} closed the run with "
            f"a wrong hash of them; {me} cannot tell which, and keeps no result",
            "no result of this run can be trusted; the frames that Charlie signed for all parties would show it, for "
            "two that differ and bear one number prove his fault",
            suspects=(*others, CHARLIE),
        )


def closed_by(answer: AllClosed, study: Study, run: bytes, signing: SigningKey) -> Mapping[str, Closed]:
    """Return what each party signed when its role had returned; parties without which the run went on are left out.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: a frame is missing, or is not one that its party signed for this run.
    """
    there = sum(map(bool, answer.closed))
    if len(answer.closed) != study.K or there < study.survivors:
        raise ProtocolViolation(
            f"{CHARLIE} closed the run with the words of {counted(there, 'party', 'parties')}; the study "
            f"{'has' if study.dropouts is None else 'goes on with'} {study.survivors}"
            f"{'' if study.dropouts is None else ' or more'}",
            peer=CHARLIE,
        )
    reader = Endpoint(CHARLIE, run, signing, {party.name: party.key.sign for party in study.parties})
    said = {}
    for name, signed in zip(study.names, answer.closed, strict=True):
        if not signed:
            continue  # the run went on without this party
        try:
            frame = reader.open(name, signed, numbered=False)
            said[name] = decode(Closed, frame.body, name)
        except ProtocolViolation as error:
            raise _bad_frame(name) from error
        if frame.kind != "closed":
            raise _bad_frame(name)
    return said


def _bad_frame(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} closed the run with a frame of {name} that is not one with which {name} closed this run; allowed "
        f"is the frame that {name} signed",
        peer=CHARLIE,
    )
