"""Who is at fault when a run ended badly, as far as signed frames prove it.

Frames that break the protocol by themselves are judged by :mod:`masquerade_core.wire.faults`. What is here is for a sum
that was refused; :mod:`masquerade_protocols.blame_openings` has what only sums by Paillier need.

The parties signed their contributions, and Charlie what he told: the sum, its check value and a receipt. If it does not
follow from the contributions that he shows, he is at fault. If it does, a party's contribution was not well made, or
under Paillier the lead opened another number. Nobody can tell which without opening what a contribution hides.

Charlie shows all contributions, under his signature. A party could sign a second one, and show it to accuse him. So
what parties show in their own files counts only if Charlie's signed receipt is for exactly that.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice, product
from typing import Any

from masquerade_core.crypto.boxes import SigningKey, verify
from masquerade_core.crypto.masks import Words
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message, decode
from masquerade_core.wire.faults import EVIDENCE, Evidence, Findings, Judge, read_evidence
from masquerade_core.wire.frames import Endpoint, Frame, run_id
from masquerade_core.words import counted, listed
from masquerade_protocols.blocks.layouts import CHECK_PRIMES, has_double_masks, receipt
from masquerade_protocols.blocks.masked_sum import Masked, Outcome, Summed, blame, masked_digest
from masquerade_protocols.registry import entry_named

__all__ = ["blame_of_sum", "check_evidence", "openings_of", "run_of", "verdict"]

_MOST_CHOICES = 64  # between contributions of parties that signed several for one round
_READER = SigningKey(bytes(32))  # reads frames and signs nothing
_BOUNDS = tuple((1 << (8 * size - 1)) - 1 for size in range(1, 65))  # one for each length of a word


def blame_of_sum(told: Summed | Outcome, contributions: Mapping[str, Masked]) -> str | None:
    """Say what the contributions of a masked sum prove, as :func:`~masquerade_protocols.blocks.masked_sum.blame` does.

    The words' length stands in no message. So Charlie is cleared if any possible one makes his sum that of the
    contributions.
    """
    size = len(told.words)
    if {len(c.words) for c in contributions.values()} != {size} or len(told.check) not in CHECK_PRIMES:
        return CHARLIE
    for bound in _BOUNDS:
        layout = Words(1, bound)
        length = size // layout.size - layout.marks
        layout = Words(max(length, 1), bound)
        whole = (layout.total_bytes, layout.check_bytes) == (size, len(told.check))
        if whole and blame(layout, told, contributions) is None:
            return None
    return CHARLIE


def openings_of(study: Study) -> Any:
    """Return the module that judges sums by Paillier where a study makes such, and None where it makes none."""
    if study.crypto.sum == "masks":
        return None
    from masquerade_protocols import blame_openings

    return blame_openings


# --- What files of evidence prove -----------------------------------------------------


class _Shown:
    """The frames of all files, their signatures checked."""

    def __init__(self, study: Study, run: bytes) -> None:
        self._study, self._run = study, run
        self.told: list[tuple[Frame, bytes]] = []
        self.sent: dict[tuple[str, str], list[Frame]] = {}
        self.own: dict[tuple[str, str], list[Frame]] = {}  # what parties show of themselves
        self.refused: list[str] = []
        self._writers: set[str] = set()
        self.encrypted = openings_of(study)
        self.sums = ("Opened",) if self.encrypted else ("Summed", "Outcome")

    @property
    def absent(self) -> tuple[str, ...]:
        """The parties of which no file is there that bears their signature."""
        return tuple(name for name in self._study.names if name not in self._writers)

    def take(self, file: Evidence) -> bool:
        """Take a file, if the owner of its frames has signed it; of a party's, only its own frames and Charlie's.

        Returns
        -------
        bool
            Whether it was taken.
        """
        keys = {party.name: party.key.sign for party in self._study.parties} | {CHARLIE: self._study.curator.key.sign}
        if not verify(keys.get(file.participant, b""), file.signed(), file.signature):
            self.refused.append(f"a file that {file.participant} is said to have written does not bear its signature")
            return False
        self._writers.add(file.participant)
        for source, data in file.frames:
            if source in (CHARLIE, file.participant) or file.participant == CHARLIE:
                self.add(source, data, self.own if source == file.participant else self.sent)
        return True

    def add(self, source: str, data: bytes, sent: dict[tuple[str, str], list[Frame]]) -> None:
        """Take a frame that ``source`` is said to have signed."""
        peers = {party.name: party.key.sign for party in self._study.parties}
        if source == CHARLIE:
            readers = [Endpoint(name, self._run, _READER, {CHARLIE: self._study.curator.key.sign}) for name in peers]
        else:
            readers = [Endpoint(CHARLIE, self._run, _READER, peers)] if source in peers else []
        for reader in readers:
            try:
                frame = reader.open(source, data, numbered=False)
            except ProtocolViolation:
                continue
            if source == CHARLIE:
                self.told.append((frame, data))
            else:
                sent.setdefault((source, frame.type), []).append(frame)
            return
        self.refused.append(f"a frame that {source} is said to have signed for this run does not bear its signature")

    def told_in(self, frame: Frame) -> Any:
        """Return the sum that Charlie told in a frame."""
        if self.encrypted:
            return decode(self.encrypted.Opened, frame.body, CHARLIE)
        return decode(Summed, frame.body, CHARLIE) if frame.type == "Summed" else decode(Outcome, frame.body, CHARLIE)

    def made(self, sent: Mapping[tuple[str, str], list[Frame]]) -> dict[str, list[Any]]:
        """Return the contributions that each party has signed."""
        cls: type[Message] = self.encrypted.Contribution if self.encrypted else Masked
        frames = {name: sent.get((name, cls.__name__), []) for name in self._study.names}
        return {name: [decode(cls, frame.body, name) for frame in found] for name, found in frames.items() if found}

    def given(self, told: Any, due: Collection[str], made: Mapping[str, list[Any]]) -> dict[str, Any]:
        """Return the contribution of each party to a round; of several of one party the one that the receipt is for.

        A party can sign another one when Charlie has added up: then the newest is in no sum.
        """
        there = {name: [c for c in made.get(name, ()) if c.round == told.round] for name in due}
        there = {name: several for name, several in there.items() if several}
        chosen = [dict(zip(there, each, strict=True)) for each in islice(product(*there.values()), _MOST_CHOICES)]
        return next((each for each in chosen if self.receipted(told, each)), chosen[-1])

    def receipted(self, told: Any, given: Mapping[str, Any]) -> bool:
        """Say whether Charlie's receipt is for exactly these contributions."""
        digest_of = self.encrypted.digest_of if self.encrypted else masked_digest
        return receipt(told.round, {name: digest_of(c) for name, c in given.items()}) == bytes(told.receipt)

    def two_totals(self) -> str:
        """Say so if Charlie sent the lead another total than he told; he signed both. Masked sums have one total."""
        return self.encrypted.two_totals(frame for frame, _ in self.told) if self.encrypted else ""


def check_evidence(text: str, study: Study, name: str = EVIDENCE) -> Findings:
    """Say what one participant's file of evidence proves.

    Parameters
    ----------
    text : str
        The file's content.
    study : Study
        The run's. It pins the key under which each participant signs.
    name : str
        The file's name, for errors.

    Raises
    ------
    BadInput
        It is no evidence, or of a run of another study or version.
    """
    file = read_evidence(text, name)
    return verdict(study, run_of(file, study, name), [file])


def run_of(file: Evidence, study: Study, name: str = EVIDENCE) -> bytes:
    """Return the id of the run that a file of evidence is of.

    Raises
    ------
    BadInput
        It is of a run of another study or version.
    """
    before = study.study_id(entry_named(study.study.protocol).version)
    run = run_id(before, file.roster) if file.roster else before  # a run that ended before its roster
    if file.run != run.hex():
        raise BadInput(
            f"{name} is of the run {file.run[:8]}, which is not a run of this study under this program's numbers of "
            "wire and protocol",
            "give the study of that run, and use a release of the program that has that run's numbers",
        )
    return run


def verdict(study: Study, run: bytes, files: Iterable[Evidence]) -> Findings:
    """Say who is proved at fault by participants' files of evidence of one run."""
    files, shown = tuple(files), _Shown(study, run)
    frames = tuple(dict.fromkeys(data for file in files for _, data in file.frames))
    files = tuple(file for file in files if shown.take(file))
    proved = Judge(study, run, study.study_id(entry_named(study.study.protocol).version)).of(frames)
    if proved.culprit:
        return Findings(proved.culprit, (*shown.refused, proved.said))
    if proved.copied:  # which of its contributions Charlie added cannot be told
        return _two_stories(shown) or Findings("", (*shown.refused, proved.said))
    if proved.suspects:
        return Findings("", (*shown.refused, proved.said), proved.suspects)
    refused = any(file.refused_sum for file in files)
    try:
        told = _of_lengths(study, shown) or _two_stories(shown) or _of_double_masks(study)
        culprit, found, suspects = told or _of_proof(study, shown, files) or _judged(study, shown)
    except ProtocolViolation as error:  # a body that its signer should not have sent
        culprit, found, suspects = error.peer, (error.message,), ()
    if not culprit and not refused:
        return Findings("", (*shown.refused, proved.said))
    if not culprit and not suspects:
        suspects = tuple(name for name in (*study.names, CHARLIE) if name not in {file.participant for file in files})
    return Findings(culprit, (*shown.refused, *found), () if culprit else suspects)


def _of_lengths(study: Study, shown: _Shown) -> Findings | None:
    """A signed contribution that is as long as none of the run's sums proves its signer's fault.

    How long sums are follows from the study alone, but for the length of a word.
    """
    lengths = entry_named(study.study.protocol).sum_lengths(study)
    layouts = (Words(length, bound) for length in lengths for bound in _BOUNDS)
    due = {(layout.total_bytes, layout.check_bytes) for layout in layouts}
    for (name, kind), frames in (*shown.sent.items(), *shown.own.items()):
        for frame in frames if kind == "Masked" and due else ():
            message = decode(Masked, frame.body, name)
            if (len(message.words), len(message.check)) not in due:
                said = (
                    f"{name} signed a contribution of {len(message.words)} bytes, and no sum of this study has "
                    "contributions of that length"
                )
                return Findings(name, (said,))
    return None


def _two_stories(shown: _Shown) -> Findings | None:
    """Two broadcasts of one type and round that differ, both signed by Charlie, prove his fault."""
    seen: dict[tuple[str, int], bytes] = {}
    for frame, data in shown.told:
        if not frame.broadcast or frame.type not in shown.sums:
            continue
        round_ = shown.told_in(frame).round
        if seen.setdefault((frame.type, round_), data) != data:
            return Findings(CHARLIE, (f"Charlie signed two different sums of round {round_}",))
    return None


def _of_double_masks(study: Study) -> Findings | None:
    """Say that a refused sum under double masks proves nothing: it also depends on shares that were dealt in boxes."""
    if not has_double_masks(study):
        return None
    said = "the sum was made under double masks. A false share spoils it like a false contribution or a false sum"
    return Findings("", (f"{said}, and nobody can tell which it was",), (*study.names, CHARLIE))


def _judged(study: Study, shown: _Shown) -> Findings:
    told = [shown.told_in(frame) for frame, _ in shown.told if frame.type in shown.sums]
    last = max((t for t in told if not (isinstance(t, Outcome) and t.again)), key=lambda t: t.round, default=None)
    made = shown.made(shown.sent)
    due = last.members if isinstance(last, Outcome) else study.names
    if not made:
        if said := shown.two_totals():
            return Findings(CHARLIE, (said,))
        made = shown.made(shown.own)
        if last is None or not shown.receipted(last, shown.given(last, due, made)):
            return Findings(
                "", ("the contributions that Charlie's receipt is for are not there; his evidence has them",)
            )
    newest = max(c.round for several in made.values() for c in several)
    if last is None or last.round < newest:
        said = "Charlie told no sum of them, so nothing shows his fault. A party's contribution was not well made"
        return Findings("", (f"{listed(sorted(made))} contributed to round {newest}, and {said}",), (*made, CHARLIE))
    given = shown.given(last, due, made)
    if missing := tuple(name for name in due if name not in given):
        said = f"the contributions of {listed(missing)} to round {last.round} are not there"
        return Findings("", (said,), (*(name for name in missing if name in study.names), CHARLIE))
    if shown.encrypted:
        found = _of_opening(study, shown, last, given)
        said = shown.two_totals()
        return Findings(CHARLIE, (said,)) if said and not found.culprit else found
    return _of(blame_of_sum(last, given), last.round, tuple(given), "", shown.absent)


def _of_opening(study: Study, shown: _Shown, told: Any, given: Mapping[str, Any]) -> Findings:
    answers = shown.sent.get((study.lead, "RoundSum"), ())
    found = shown.encrypted.of_opening(study, [frame for frame, _ in shown.told], answers, told, given)
    if isinstance(found, Findings):
        return found
    return _of(found, told.round, tuple(given), f", or {study.lead} opened another sum", shown.absent)


def _of_proof(study: Study, shown: _Shown, files: Collection[Evidence]) -> Findings | None:
    """Judge the proof of all openings, if it was told: then all sums had passed their own checks before."""
    told = [frame.body for frame, _ in shown.told if frame.type == "OpeningProof"]
    if not told or study.crypto.sum != "paillier":
        return None
    sent = [frame.body for frame in shown.sent.get((study.lead, "OpeningProof"), ())]
    if sent and not set(sent) & set(told):
        return Findings(
            CHARLIE, (f"Charlie passed on a different proof of the openings from the one that {study.lead} signed",)
        )
    said = f"all sums passed their checks, but not the proof at the end: {study.lead} opened another total or spoilt it"
    if sent:
        said += (
            ", for Charlie passed on what the lead signed. Or he told the others a different total from the one that "
            "he told the lead"
        )
    witnesses = [
        file for file in files if file.participant not in (study.lead, CHARLIE)
    ] or files  # who check the proof
    accusers = tuple(name for name in study.names if any(file.said_by == name for file in witnesses))
    if accusers:
        said += f". Or {listed(accusers, 'or')} refused what was well made"
    suspects = dict.fromkeys((study.lead, *accusers, CHARLIE))
    return Findings("", (f"{said}. Nobody can tell which",), tuple(suspects))


def _of(culprit: str | None, round_: int, given: tuple[str, ...], otherwise: str, absent: tuple[str, ...]) -> Findings:
    """Say what the contributions prove. Charlie is cleared by all parties' files alone: one may show another story."""
    shown = f"{counted(len(given), 'signed contribution')} to round {round_}"
    if culprit:
        said = f"the sum, check value or receipt that Charlie signed is not that of the {shown}"
        return Findings(culprit, (said,))
    said = f"what Charlie signed follows from the {shown}"
    if absent:
        said += f". The file of {listed(absent)} is not there, so this does not clear him. If it shows nothing else, a"
    else:
        said += ": he is cleared. A"
    said += f" party's contribution was not well made{otherwise}; nobody can tell whose without opening what it hides"
    return Findings("", (said,), given if not absent else (*given, CHARLIE))
