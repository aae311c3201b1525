"""The closing digests: no two honest parties end a run with results that follow from different broadcasts.

Charlie, the curator, *broadcasts* the opened sums and the released numbers: he sends all parties the same bytes. He
could send some of them other bytes. Every party keeps a hash of all that he broadcast, in order, and its last frame,
``Closed``, carries it under the party's own signature. Charlie answers with all these frames. Each party checks them
before it returns any result. What Charlie sends to one party alone is no part of the hash.

*In a study with more than 65 parties* Charlie shows a party the frames of its 64 neighbours alone
(:mod:`masquerade_core.neighbours`). That is enough as long as the honest parties hang together in the graph of
neighbours, which is assumed for the masks as well: each of them compares its hash with those of its honest neighbours,
and these with those of theirs, so all honest hashes are equal, or some honest party keeps no result. The graph falls
apart only if 32 parties in a row on the circle collude, at two places; ``chance_of_cut`` bounds that. Every neighbour's
frame must be there. Where the study has ``[dropouts]``, a frame may be missing, and Charlie chooses whose. He could say
that 32 parties at two places are lost, and tell the two arcs between them different things. So there every party is
shown everybody's frame (:func:`masquerade_core.roster_disclosure.closes_with_all`).
"""

import hashlib
from collections.abc import Mapping, Sequence

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.roster_disclosure import closes_with_all, heard_by
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_core.words import counted, listed
from masquerade_host.session.messages import DIGEST_BYTES, AllClosed, Closed
from masquerade_host.store.transcript import hashed

__all__ = ["BroadcastLog", "check_all_closed", "check_closing", "closed_by"]


class BroadcastLog:
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


def check_closing(
    frame: Frame, study: Study, run: bytes, signing: SigningKey, own: tuple[str, bytes, bytes], coin: bytes
) -> None:
    """Check the frame with which Charlie closes the run.

    Parameters
    ----------
    frame : Frame
    study, run, signing, own
        As for :func:`check_all_closed`.
    coin : bytes
        Draws everybody's neighbours, whose frames a party is shown in a large study.

    Raises
    ------
    ProtocolViolation
        He closes it for all where each is due by itself, or the other way round; or as for :func:`check_all_closed`.
    """
    if frame.broadcast != closes_with_all(study):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run for {'all' if frame.broadcast else 'one party alone'}; in a study with "
            f"{study.K} parties he closes it for {'each by itself' if frame.broadcast else 'all at once'}",
            peer=CHARLIE,
        )
    check_all_closed(decode(AllClosed, frame.body, CHARLIE), study, run, signing, own, heard_by(study, coin, own[0]))


def check_all_closed(
    answer: AllClosed,
    study: Study,
    run: bytes,
    signing: SigningKey,
    own: tuple[str, bytes, bytes],
    due: Sequence[str] | None = None,
) -> None:
    """Check that every party that is shown signed the same hash as this one.

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
    due : sequence of str, optional
        Whose frames are shown, in roster order; by default everybody's.

    Raises
    ------
    ProtocolViolation
        A frame is missing, or is not one that its party signed for this run: Charlie's fault. Or a hash differs: then
        Charlie or that party may be at fault.
    """
    me, frame, digest = own
    due = study.names if due is None else due
    closed = {name: said.digest for name, said in closed_by(answer, study, run, signing, due).items()}
    if answer.closed[due.index(me)] != frame:
        raise _bad_frame(me)
    if others := tuple(name for name, theirs in closed.items() if theirs != digest):
        raise ProtocolViolation(
            f"{CHARLIE} sent {listed(others)} different messages from those to {me}, or {listed(others, 'or')} closed "
            f"the run with a wrong hash of them; {me} cannot tell which, and keeps no result",
            "no result of this run can be trusted; compare the frames that Charlie signed for all parties: two that "
            "have the same number and differ prove his fault",
            suspects=(*others, CHARLIE),
        )


def closed_by(
    answer: AllClosed, study: Study, run: bytes, signing: SigningKey, due: Sequence[str] | None = None
) -> Mapping[str, Closed]:
    """Return what each party signed when its role had returned; parties without which the run went on are left out.

    The parameters are those of :func:`check_all_closed`.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: a frame is missing, or is not one that its party signed for this run.
    """
    due = study.names if due is None else due
    there = sum(map(bool, answer.closed))
    if due != study.names and (len(answer.closed), there) != (len(due), len(due)):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run with the words of {counted(there, 'party', 'parties')}; it needs those of "
            f"{counted(len(due), 'party', 'parties')}, the neighbours of one",
            peer=CHARLIE,
        )
    if due == study.names and (len(answer.closed) != study.K or there < study.survivors):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run with the words of {counted(there, 'party', 'parties')}; the study "
            f"{'has' if study.dropouts is None else 'goes on with'} {study.survivors}"
            f"{'' if study.dropouts is None else ' or more'}",
            peer=CHARLIE,
        )
    reader = Endpoint(CHARLIE, run, signing, {party.name: party.key.sign for party in study.parties})
    said = {}
    for name, signed in zip(due, answer.closed, strict=True):
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
        f"{CHARLIE} closed the run with a frame of {name} that is not one with which {name} closed this run; it must "
        f"be the frame that {name} signed",
        peer=CHARLIE,
    )
