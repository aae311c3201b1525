"""Checks the frames that a transcript keeps whole: the roster, the hellos shown beside it, and the last words.

In a small study everybody has the same two frames. In a large one (:mod:`masquerade_core.shown`) a party has the root
of the tree over all hellos, the hellos that it was shown, and the last words of its neighbours. Charlie has what he
showed the first party of the roster, which are all hellos, and the last words of all parties as these signed them.
"""

from collections.abc import Mapping, Sequence

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.shown import closes_with_all, coin_of, heard_by
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint, Frame, run_id
from masquerade_core.wire.header import read_header
from masquerade_host.closing import closed_by
from masquerade_host.large_rosters import Shown
from masquerade_host.roster import box_keys_of
from masquerade_host.run_files import STUDY
from masquerade_host.session_messages import AllClosed, Closed, Hello, Hellos, Roster
from masquerade_host.transcript import Transcript

__all__ = ["checked_roster", "last_words", "programs_said"]

_NOBODY = SigningKey(bytes(32))  # an end of a hop needs a key, but a reader signs nothing


def last_words(transcript: Transcript, study: Study) -> Mapping[str, Closed]:
    """Return what each party signed when it closed the run, as far as the transcript's owner was shown it.

    Raises
    ------
    ProtocolViolation
        The frames are not those of a run of this study, or not all that are due are there.
    """
    message, names, owner = checked_roster(transcript, study), study.names, transcript.participant
    last = names[-1] if owner == CHARLIE else owner
    closing = _reader(study, last, transcript.run).open(CHARLIE, transcript.closing, numbered=False)
    if closing.kind != "closed":
        raise ProtocolViolation("the last frame that the transcript keeps is another one")
    if closing.broadcast != closes_with_all(study):
        raise ProtocolViolation(f"the last frame is not as it is due in a study with {study.K} parties")
    told = decode(AllClosed, closing.body, CHARLIE)
    said = closed_by(told, study, transcript.run, _NOBODY, heard_by(study, coin_of(transcript.run, message.root), last))
    if closing.broadcast or owner != CHARLIE:
        return said
    return closed_by(_all_closed(transcript.shown, names), study, transcript.run, _NOBODY)


def checked_roster(transcript: Transcript, study: Study) -> Roster:
    """Return the roster of a transcript, from which the id of its run follows.

    Raises
    ------
    ProtocolViolation
        It is not the roster of a run of this study.
    """
    study_id, names = study.study_id(transcript.numbers), study.names
    first = names[0] if transcript.participant == CHARLIE else transcript.participant
    roster = _reader(study, first, study_id).open(CHARLIE, transcript.roster, numbered=False)
    message = decode(Roster, roster.body, CHARLIE)
    if not box_keys_of(message, study, study_id, _NOBODY, ("", b"")):
        run = run_id(study_id, roster.body)
        _check_hellos(transcript.shown, Shown(message, run, study, study_id, _NOBODY, (first, b"")), first, run)
    if transcript.run != run_id(study_id, roster.body):
        raise ProtocolViolation(f"the run id does not follow from {STUDY} and the roster")
    if roster.kind != "roster":
        raise ProtocolViolation("the first frame that the transcript keeps is no roster")
    return message


def programs_said(transcript: Transcript, study: Study) -> Mapping[str, bytes]:
    """Return the hash of each participant's program, by its own word, as far as the transcript's owner was shown it.

    The frames are those that :func:`last_words` has checked.
    """
    roster = decode(Roster, read_header(transcript.roster[SIGNATURE_BYTES:], CHARLIE).body, CHARLIE)
    later = [read_header(frame[SIGNATURE_BYTES:], CHARLIE) for frame in transcript.shown]
    shown = [decode(Hellos, header.body, CHARLIE).hellos for header in later if header.kind == "hellos"]
    found = {}
    for signed in (*roster.hellos, *(hello for hellos in shown for hello in hellos)):
        header = read_header(signed[SIGNATURE_BYTES:], CHARLIE)
        found[header.src.rstrip(" ")] = decode(Hello, header.body, CHARLIE).program
    return {**{name: found[name] for name in study.names if name in found}, CHARLIE: roster.program}


def _reader(study: Study, me: str, run: bytes) -> Endpoint:
    return Endpoint(me, run, _NOBODY, {CHARLIE: study.curator.key.sign})


def _check_hellos(frames: Sequence[bytes], shown: Shown, me: str, run: bytes) -> None:
    """Check the hellos that ``me`` was shown."""
    for frame in _hellos_in(frames, _reader(shown.study, me, run)):
        shown.take(decode(Hellos, frame.body, CHARLIE))
    if not shown.keys:
        raise ProtocolViolation(f"the transcript does not have all hellos that {me} was shown")


def _hellos_in(frames: Sequence[bytes], reader: Endpoint) -> list[Frame]:
    kept = [frame for frame in frames if _kind_of(frame)[0] == "hellos"]
    return [reader.open(CHARLIE, frame, numbered=False) for frame in kept]


def _all_closed(frames: Sequence[bytes], names: Sequence[str]) -> AllClosed:
    """Return the parties' last words as if they stood in one message."""
    by_name = {source: frame for frame in frames for kind, source in [_kind_of(frame)] if kind == "closed"}
    return AllClosed(closed=tuple(by_name.get(name, b"") for name in names))


def _kind_of(frame: bytes) -> tuple[str, str]:
    """Return a frame's kind, and whom it names as its source."""
    header = read_header(frame[SIGNATURE_BYTES:], CHARLIE)
    return header.kind, header.src.rstrip(" ")
