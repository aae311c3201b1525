"""The conversation of a run as a timeline: who spoke in which stage, how often, and who was waited for.

The transcript notes each frame in its order, and no times: the time that a machine takes tells of how many records it
has. Charlie's result has the seconds of each stage. So within a stage the timeline shows the order alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import PARTIES
from masquerade_host.store.transcript import Entry, Transcript

__all__ = ["Lane", "Sent", "Stage", "Talk", "talk_of"]

_MOST_MARKS = 120  # in a lane: more of them are one bar
_LEAST = 0.12  # of the width, which a stage has at least


@dataclass(frozen=True)
class Stage:
    """A stage of the run, and where it stands in the picture.

    Parameters
    ----------
    name : str
    seconds : float or None
        None in a party's folder: its times tell of its records.
    messages, bytes : int
    left, width : float
        In percent of the picture.
    """

    name: str
    seconds: float | None
    messages: int
    bytes: int
    left: float
    width: float


@dataclass(frozen=True)
class Lane:
    """One participant's messages.

    Parameters
    ----------
    name : str
    sent : int
        How many of its frames the folder's owner sent or received.
    last : int
        How often it was the last to answer: everybody waited for it. Charlie's folder alone shows that.
    marks : tuple of float
        Where it spoke, in percent of the picture.
    """

    name: str
    sent: int
    last: int
    marks: tuple[float, ...]


@dataclass(frozen=True)
class Sent:
    """A kind of message that left a machine: its type, to whom, and how often; of several machines alike."""

    sources: tuple[str, ...]
    type: str
    to: str
    count: int


@dataclass(frozen=True)
class Talk:
    """The conversation as one participant saw it.

    Parameters
    ----------
    stages : tuple of Stage
    lanes : tuple of Lane
    sent : tuple of Sent
    answers : int
        How often all parties answered, as Charlie saw it; 0 in a party's folder.
    seconds : float
    messages, bytes : int
    """

    stages: tuple[Stage, ...]
    lanes: tuple[Lane, ...]
    sent: tuple[Sent, ...]
    answers: int
    seconds: float
    messages: int
    bytes: int


def talk_of(result: Mapping[str, Any], transcript: Transcript | None, names: Sequence[str]) -> Talk:
    """Return the conversation that a result and a transcript tell of.

    Parameters
    ----------
    result : mapping
        The content of ``result.json``.
    transcript : Transcript or None
        None for a simulation, which sends nothing.
    names : sequence of str
        The parties.
    """
    stages = tuple(_stages(result["stages"]))
    entries = () if transcript is None else transcript.entries
    me = "" if transcript is None else transcript.participant
    places = _places(entries, stages, me, len(names))
    last, answers = _last(entries) if me == CHARLIE else (Counter[str](), 0)
    lanes = []
    for name in (CHARLIE, *names) if entries else ():
        own = [place for entry, place in zip(entries, places, strict=True) if entry.source == name]
        every = max(1, len(own) // _MOST_MARKS)
        lanes.append(Lane(name, sum(_spoken(entries, name, me)), last[name], tuple(own[::every])))
    return Talk(
        stages=stages,
        lanes=tuple(lanes),
        sent=tuple(_kinds(entries, me)),
        answers=answers,
        seconds=float(result["seconds"]),
        messages=int(result["messages"]),
        bytes=int(result["bytes"]),
    )


def _stages(found: Sequence[Mapping[str, Any]]) -> Iterator[Stage]:
    """Yield the stages; each is as wide as its share of the time, or of the messages, but wide enough to be seen."""
    timed = all("seconds" in stage for stage in found)
    parts = [float(stage["seconds" if timed else "messages"]) for stage in found]
    whole = sum(parts) or 1.0
    widths = [max(part / whole, _LEAST) for part in parts]
    scale, left = 100 / (sum(widths) or 1.0), 0.0
    for stage, width in zip(found, widths, strict=True):
        yield Stage(
            str(stage["name"]),
            float(stage["seconds"]) if timed else None,
            int(stage["messages"]),
            int(stage["bytes"]),
            left,
            width * scale,
        )
        left += width * scale


def _weight(entry: Entry, me: str, parties: int) -> int:
    """Return how many messages a result counts for an entry: Charlie sends a broadcast to each party."""
    own = parties if me == CHARLIE and entry.broadcast else 1
    return own + (parties if entry.kind == "roster" and me == CHARLIE else entry.kind == "roster")  # and the hellos


def _places(entries: Sequence[Entry], stages: Sequence[Stage], me: str, parties: int) -> list[float]:
    """Return where each entry stands: in the stage in which its number falls, evenly among those of the stage."""
    if not stages:
        return [0.0] * len(entries)
    places, done, i = [], 0, 0
    before = 0
    for entry in entries:
        while i < len(stages) - 1 and done >= before + stages[i].messages:
            before += stages[i].messages
            i += 1
        weight = _weight(entry, me, parties)
        share = (done - before + weight / 2) / max(1, stages[i].messages)
        places.append(stages[i].left + stages[i].width * min(1.0, share))
        done += weight
    return places


def _spoken(entries: Sequence[Entry], name: str, me: str) -> Iterator[int]:
    """Yield 1 for each frame that a participant itself made; what Charlie passes on is its source's."""
    for entry in entries:
        relayed = entry.kind == "sealed" and me == CHARLIE and entry.direction == "sent"
        yield int(entry.source == name and not relayed)


def _last(entries: Sequence[Entry]) -> tuple[Counter[str], int]:
    """Return how often each party was the last to speak before Charlie spoke to all, and how often he did so."""
    last, answers, speaker = Counter[str](), 0, ""
    for entry in entries:
        if entry.direction == "received":
            speaker = entry.source
        elif entry.broadcast and speaker:
            last[speaker] += 1
            answers, speaker = answers + 1, ""
    return last, answers


def _kinds(entries: Sequence[Entry], me: str) -> Iterator[Sent]:
    """Yield what left each machine, as far as this folder shows it."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for entry in entries:
        relayed = entry.kind == "sealed" and me == CHARLIE and entry.direction == "sent"
        if not relayed:
            to = "all parties" if entry.to == PARTIES and entry.source == CHARLIE else entry.to
            to = "the other parties, sealed" if entry.kind == "sealed" and to == PARTIES else to
            counts[entry.source, entry.type or _PLAIN.get(entry.kind, entry.kind), to] += 1
    alike: dict[tuple[str, str, int], list[str]] = {}
    for (source, kind, to), count in counts.items():
        alike.setdefault((kind, to, count), []).append(source)
    yield from (Sent(tuple(sorted(sources)), kind, to, count) for (kind, to, count), sources in alike.items())


_PLAIN = {"roster": "the roster of this run", "closed": "the signed end"}
