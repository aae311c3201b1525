"""Checks the folders of a run, offline: one by itself, several against each other, and the frames that they keep.

A *folder* is what one participant keeps of a run: the study, the result, and a signed transcript
(:mod:`masquerade_host.store.transcript`). The keys that check all signatures stand in the study.

A transcript keeps some frames whole: the roster, the hellos shown beside it, and the *last words*, which are the signed
"closed" of each party. In a small study everybody has the same two frames. In a large one
(:mod:`masquerade_core.roster_disclosure`) a party has the root of the tree over all hellos, the hellos that it was
shown, and the last words of its neighbours. Charlie has what he showed the first party of the roster, which are all
hellos, and the last words of all parties as these signed them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from masquerade_core import __version__
from masquerade_core.bounded import MOST_OF_A_RUN, json_of, read_bytes
from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey, verify
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.privacy.same_statement import difference, same_words
from masquerade_core.roster_disclosure import closes_with_all, coin_of, heard_by
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint, Frame, read_header, run_id
from masquerade_core.words import listed
from masquerade_host.session.agreement import closed_by
from masquerade_host.session.large_rosters import Shown
from masquerade_host.session.messages import AllClosed, Closed, Hello, Hellos, Roster, box_keys_of
from masquerade_host.store.results import APPROVAL, LEDGER, RESULT, STUDY, hash_of_statement
from masquerade_host.store.transcript import (
    TRANSCRIPT,
    BroadcastLog,
    Entry,
    Transcript,
    hash_of_files,
    hashed,
    read_transcript,
)

__all__ = [
    "Contradiction",
    "Folder",
    "check_together",
    "checked_roster",
    "contradictions",
    "last_words",
    "programs_said",
    "read_folder",
]


# --- Frames that a transcript keeps ---------------------------------------------------

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
        raise ProtocolViolation("the last frame of the transcript is not the one that closes a run")
    if closing.broadcast != closes_with_all(study):
        raise ProtocolViolation(f"the last frame does not have the form that a study with {study.K} parties requires")
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
        raise ProtocolViolation("the first frame of the transcript is not a roster")
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


# --- Verifying -------------------------------------------------------------------

_BESIDE = (STUDY, APPROVAL, LEDGER, RESULT)  # files of one participant; all others publish the result

Statement = Callable[[Study], object]


@dataclass
class Folder:
    """One participant's folder, and what is wrong with it.

    Attributes
    ----------
    path : Path
    transcript : Transcript
    study : Study
    result : mapping
        The content of ``result.json``.
    problems : list of str
        What does not hold, a sentence each; empty if the folder is in order.
    took_part : tuple of str
        The parties that closed the run, each by its signature; in a study with many parties, those of them whose
        signatures the owner was shown.
    programs : mapping of str to bytes
        The hash of each participant's program, by its own signed word. Nobody can check it.
    said : mapping of str to Closed
        What each of ``took_part`` signed when it closed the run.
    told : bytes
        The hash of all that Charlie broadcast, by the transcript.
    reworded : bool
        Whether this version of the program says in other words what the folder's privacy statement claims.
    """

    path: Path
    transcript: Transcript
    study: Study
    result: Mapping[str, Any]
    problems: list[str] = field(default_factory=list)
    took_part: tuple[str, ...] = ()
    programs: Mapping[str, bytes] = field(default_factory=dict)
    said: Mapping[str, Closed] = field(default_factory=dict)
    told: bytes = b""
    reworded: bool = False

    @property
    def ended(self) -> bool:
        """Whether Charlie's last frame is here; else other folders must confirm the result."""
        return bool(self.transcript.closing)

    @property
    def same_version(self) -> bool:
        """Whether this version of the program wrote the folder, so that it computes the same statement."""
        return self.transcript.version == __version__

    @property
    def owner(self) -> str:
        """The participant whose folder it is."""
        return self.transcript.participant

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(problem)


def read_folder(path: Path, statement: Statement | None = None) -> Folder:
    """Read a folder and check it by itself.

    Parameters
    ----------
    path : Path
    statement : callable, optional
        Returns the rows of a study's privacy statement as this version of the program computes them. It is asked for a
        folder that this version wrote. Without it the statement is only checked against its signed hash.

    Raises
    ------
    BadInput
        The folder is not that of a finished run, or a file in it cannot be read.
    """
    texts = {name: _read(path / name) for name in (TRANSCRIPT, STUDY, RESULT)}
    transcript = read_transcript(texts[TRANSCRIPT].decode("utf-8", "replace"), str(path / TRANSCRIPT))
    study = Study.parse(texts[STUDY].decode("utf-8", "replace"), str(path / STUDY), in_memory=True)
    try:
        result = json_of(texts[RESULT].decode("utf-8", "replace"), path / RESULT, "")
    except BadInput:
        result = None
    folder = Folder(path, transcript, study, result if isinstance(result, dict) else {})
    _check_signature(folder)
    _check_files(folder)
    _check_result(folder, statement)
    _check_frames(folder)
    return folder


def _read(path: Path) -> bytes:
    return read_bytes(path, MOST_OF_A_RUN, "file", "give the folder that a finished run wrote, with all its files")


def _check_signature(folder: Folder) -> None:
    transcript, study = folder.transcript, folder.study
    folder.expect(study.digest() == transcript.study, f"{STUDY} is not the study that {folder.owner} signed")
    keys = {CHARLIE: study.curator.key.sign, **{party.name: party.key.sign for party in study.parties}}
    key = keys.get(folder.owner)
    signed = key is not None and verify(key, transcript.signed(), transcript.signature)
    folder.expect(signed, f"the signature is not one that {folder.owner} made, by the keys in {STUDY}")


def _check_files(folder: Folder) -> None:
    files = folder.transcript.files
    contents: dict[str, bytes] = {}
    for name, digest in files.items():
        if Path(name).name != name:
            folder.problems.append(f"the transcript names a file {name!r} outside of the folder")
            continue
        try:
            contents[name] = _read(folder.path / name)
        except BadInput:
            folder.problems.append(f"{name} is missing, or cannot be read")
            continue
        folder.expect(hashed(contents[name]) == digest, f"{name} was changed after {folder.owner} signed its hash")
    folder.expect({STUDY, RESULT} <= set(files), f"the signature does not cover {STUDY} and {RESULT}")
    published = {name: content for name, content in contents.items() if name not in _BESIDE}
    folder.expect(bool(published), "no file publishes a result")
    same = hash_of_files(published) == folder.transcript.release
    folder.expect(same, f"{listed(tuple(published) or ('nothing',))} is not the result whose hash was signed")


def _check_result(folder: Folder, statement: Statement | None) -> None:
    transcript, result = folder.transcript, folder.result
    told = (result.get("run_id"), result.get("participant"), result.get("version"))
    due = (transcript.run.hex(), transcript.participant, transcript.version)
    folder.expect(told == due, f"{RESULT} is of a different run, participant or version from the transcript")
    rows = result.get("statement")
    same = hash_of_statement(rows) == transcript.statement
    folder.expect(same, f"the statement in {RESULT} is not the one whose hash was signed")
    if statement is not None and same and folder.same_version:
        computed = statement(folder.study)
        found = difference(rows, computed)
        problem = f"the statement in {RESULT} is not what this version computes from {STUDY}: {found}"
        folder.expect(not found, problem)
        folder.reworded = not found and not same_words(rows, computed)


def _check_frames(folder: Folder) -> None:
    """Check the two frames that everybody has, and that the chain of hashes agrees with them."""
    transcript, study = folder.transcript, folder.study
    told = BroadcastLog()
    for entry in transcript.entries:
        if entry.broadcast and entry.kind != "closed":
            told.add(entry.frame)
    folder.told = told.digest()
    agrees = folder.result.get("confirmed", True) is folder.ended
    folder.expect(agrees, f"{RESULT} and the transcript differ in whether Charlie's last frame came")
    try:
        checked_roster(transcript, study)
        said = last_words(transcript, study) if folder.ended else {}
    except ProtocolViolation as error:
        folder.problems.append(error.message)
        return
    folder.took_part, folder.said, folder.programs = tuple(said), said, programs_said(transcript, study)
    own = folder.programs.get(folder.owner)
    folder.expect(
        own == transcript.program, f"{folder.owner} named a different program in the run from the one in its transcript"
    )
    for name, closed in said.items():
        heard = closed.digest == folder.told
        folder.expect(heard, f"{name} signed different broadcasts of {CHARLIE} from those in this transcript")
        published = closed.release == transcript.release
        folder.expect(published, f"{name} signed a different result from the one in this folder")
    _check_chain(folder)


def _check_chain(folder: Folder) -> None:
    entries, me = folder.transcript.entries, folder.owner
    outer = (*entries[:1], *(entries[-1:] if folder.ended else ()))
    ends = [(entry.kind, entry.source, entry.frame) for entry in outer]
    due = [("roster", CHARLIE, hashed(folder.transcript.roster))]
    if folder.ended:
        due.append(("closed", CHARLIE, hashed(folder.transcript.closing)))
    folder.expect(ends == due, "the chain does not begin with the roster and end with the last frame")
    own = all(
        (e.direction == "sent") == (e.source == me) or (me == CHARLIE and e.kind == "sealed" and e.source != me)
        for e in entries
    )
    folder.expect(own, f"the chain has frames that {me} cannot have sent or received")
    if me == CHARLIE:
        came, left = _boxes(entries, "received"), _boxes(entries, "sent")
        # What was for a party without which the run went on may have ended here.
        relayed = all(came.get(way) == left.get(way) for way in came.keys() | left.keys() if way[1] in folder.took_part)
        folder.expect(relayed, f"{CHARLIE} did not pass on every sealed message as it came")


def _boxes(entries: tuple[Entry, ...], direction: str) -> dict[tuple[str, str], list[tuple[str, bytes]]]:
    """Return the boxes of each (source, recipient) in order: the message's type, and the box's hash."""
    boxes: dict[tuple[str, str], list[tuple[str, bytes]]] = {}
    for entry in entries:
        for to, box in entry.boxes if entry.direction == direction else ():
            boxes.setdefault((entry.source, to), []).append((entry.type, box))
    return boxes


def unconfirmed(folders: list[Folder]) -> tuple[str, ...]:
    """Return whose folder has no last frame of Charlie's, and is confirmed by none of the others.

    A folder that has one confirms that of a party whose signed last word in it fits that party's transcript. Where the
    folders of all parties are there, and do not contradict each other, their signed transcripts say the same together.
    """
    open_ends = [folder for folder in folders if not folder.ended]
    said = {(name, closed.digest, closed.release) for folder in folders for name, closed in folder.said.items()}
    if {folder.owner for folder in folders} >= set(folders[0].study.names) and not contradictions(folders):
        return ()
    return tuple(f.owner for f in open_ends if (f.owner, f.told, f.transcript.release) not in said)


@dataclass(frozen=True)
class Contradiction:
    """Two folders that do not fit together.

    Attributes
    ----------
    between : (str, str)
        Whose folders they are.
    words : str
        One sentence.
    """

    between: tuple[str, str]
    words: str


def contradictions(folders: list[Folder]) -> list[Contradiction]:
    """Compare each two folders of one run, and return what does not fit together."""
    found = []
    for one, other in combinations(folders, 2):
        pair = (one.owner, other.owner)
        found += [Contradiction(pair, words) for words in _differences(one, other)]
    return found


def check_together(folders: list[Folder]) -> None:
    """Check that the folders are of one run, and of different participants.

    Raises
    ------
    BadInput
        They are not.
    """
    first = folders[0]
    for folder in folders[1:]:
        if folder.transcript.run != first.transcript.run:
            raise BadInput(
                f"{first.path} is of the run {first.transcript.run.hex()[:8]}, but {folder.path} is of "
                f"{folder.transcript.run.hex()[:8]}",
                "give the folders of one run",
            )
    owners = [folder.owner for folder in folders]
    if len(set(owners)) < len(owners):
        raise BadInput(
            f"two of the folders are those of {listed(_repeated(owners))}", "give one folder of each participant"
        )


def _repeated(owners: list[str]) -> tuple[str, ...]:
    return tuple(sorted({owner for owner in owners if owners.count(owner) > 1}))


def _differences(one: Folder, other: Folder) -> list[str]:
    """Return the sentences that say where two participants' folders differ."""
    a, b = one.transcript, other.transcript
    comparable = closes_with_all(one.study) and one.ended and other.ended
    found = []
    claims = [each.result.get("statement") for each in (one, other)]
    for what, mine, theirs in (
        ("studies", a.study, b.study),
        ("numbers of wire and protocol", a.numbers, b.numbers),
        ("rosters", a.roster, b.roster),
        ("last frames", *((a.closing, b.closing) if comparable else (b"", b""))),
        ("results", a.release, b.release),
        ("privacy statements", a.statement != b.statement and bool(difference(*claims)), False),
    ):
        if mine != theirs:
            found.append(f"{one.owner} and {other.owner} have different {what}")
    if CHARLIE in (one.owner, other.owner):
        party, curator = (one, other) if other.owner == CHARLIE else (other, one)
        return found + _between_party_and_charlie(party, curator)
    for source, to in ((one, other), (other, one)):
        key = (source.owner, to.owner)
        sent = _boxes(source.transcript.entries, "sent").get(key, [])
        received = _boxes(to.transcript.entries, "received").get(key, [])
        found += _compared(sent, received, f"the sealed messages of {source.owner} to {to.owner}")
    if one.told != other.told:
        found.append(f"{one.owner} and {other.owner} were sent different broadcasts")
    return found


def _between_party_and_charlie(party: Folder, curator: Folder) -> list[str]:
    me = party.owner
    to_charlie = _hashes(party, lambda e: e.direction == "sent"), _hashes(curator, lambda e: _is_from(e, me))
    ended = party.ended  # else Charlie's last frame is still under way
    to_party = (
        _hashes(curator, lambda e: _is_to(e, me) and (ended or e.kind != "closed")),
        _hashes(party, lambda e: e.direction == "received"),
    )
    return [
        *_compared(*to_charlie, f"the frames of {me} to {CHARLIE}"),
        *_compared(*to_party, f"the frames of {CHARLIE} to {me}"),
    ]


def _is_from(entry: Entry, party: str) -> bool:
    return entry.direction == "received" and entry.source == party


def _is_to(entry: Entry, party: str) -> bool:
    return entry.direction == "sent" and (entry.broadcast or entry.to == party)


def _hashes(folder: Folder, wanted: Callable[[Entry], bool]) -> list[tuple[str, bytes]]:
    return [(entry.type or entry.kind, entry.frame) for entry in folder.transcript.entries if wanted(entry)]


def _compared(sent: list[tuple[str, bytes]], received: list[tuple[str, bytes]], what: str) -> list[str]:
    """Say where a list of frames that were sent and the list of those that came differ first."""
    if sent == received:
        return []
    at = next(
        (i for i, (a, b) in enumerate(zip(sent, received, strict=False)) if a != b), min(len(sent), len(received))
    )
    kind = (sent[at] if at < len(sent) else received[at])[0]
    return [f"{what} differ from number {at} on, a {kind}: {len(sent)} were sent, {len(received)} came"]
