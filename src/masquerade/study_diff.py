"""The differences between two studies, in words: first the noise, then the participants, then the rest."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from masquerade.layout import heading, paragraphs
from masquerade_core.identity import PublicKeys
from masquerade_core.study import Feature, Party, Study
from masquerade_core.words import counted

__all__ = ["Change", "Group", "changes", "diff_shown"]


class Group(StrEnum):
    """The subject of a change; in the order in which changes are told."""

    NOISE = "What changes the noise, or what it is sized for"
    WHO = "Who takes part"
    RECORDS = "What the records must have"
    REST = "Everything else"


@dataclass(frozen=True)
class Change:
    """One difference between two studies.

    Parameters
    ----------
    group : Group
    where : str
        The place in the file: ``[privacy] epsilon``.
    words : str
        One or two sentences.
    old, new : Any
        The two values as JSON; None where there is none.
    """

    group: Group
    where: str
    words: str
    old: Any = None
    new: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {
            "about": self.group.name.lower(),
            "field": self.where,
            "words": self.words,
            "old": self.old,
            "new": self.new,
        }


_NOISE = {"privacy", "model", "protocol", "evaluation", "dropouts"}
_NOISE_FIELDS = {
    *("study.protocol", "study.min_records", "study.max_records", "study.records_per_person"),
    *("study.attempts", "study.charged_attempts", "crypto.sum"),
}
_WHO_FIELDS = {"study.lead", "study.min_parties"}
_RECORDS_FIELDS = {"study.matching", "study.out_of_bounds", "study.precision"}

_SIZED = "The noise of some protocols is sized by this number."
_GROWN = {
    "privacy.epsilon": "There is less noise, and more can be learned of a single record.",
    "privacy.delta": "Outputs may exceed the e^epsilon bound with a larger probability.",
    "privacy.colluders": "The noise is enough for more parties on Charlie's side.",
    "study.min_records": _SIZED,
    "study.max_records": _SIZED,
    "study.records_per_person": "The statement's rows about persons allow for more records of each.",
    "study.charged_attempts": "The run may be tried again after something has left, and the noise pays for that.",
    "dropouts.min_survivors": "More parties must stay, and fewer may fall silent.",
    "dropouts.retries": "More sums may be made again, and the noise pays for that.",
    "evaluation.share": "More records are held back to measure the model.",
}
_SHRUNK = {
    "privacy.epsilon": "There is more noise, and less can be learned of a single record.",
    "privacy.delta": "Outputs may exceed the e^epsilon bound only with a smaller probability.",
    "privacy.colluders": "The noise is enough only for fewer parties on Charlie's side.",
    "study.min_records": _SIZED,
    "study.max_records": _SIZED,
    "study.records_per_person": "The statement's rows about persons allow for fewer records of each.",
    "study.charged_attempts": "The run may be tried again less often after something has left.",
    "dropouts.min_survivors": "More parties may fall silent, and the noise is sized for those who stay.",
    "dropouts.retries": "Fewer sums may be made again.",
    "evaluation.share": "Fewer records are held back to measure the model.",
}
_NOW = {
    ("privacy.calibration", "paper"): "The noise is a paper's, and nothing may be proved of it; see the statement.",
    ("privacy.calibration", "proven"): "The noise is as much as a proof needs for the privacy target.",
    ("dropouts.method", "double-masks"): "The masks of silent parties are removed, and no sum is made again.",
    ("study.precision", "float32"): "Records are stored with 7 digits. Their sums differ in the last digits.",
    ("study.matching", "exact"): "Capitals, and blanks around a cell, count in levels and labels.",
    (
        "study.matching",
        "loose",
    ): "Capitals, and blanks around a cell, do not count where they leave one level or label.",
    ("study.out_of_bounds", "refuse"): "A record that does not fit makes its party refuse, which everybody sees.",
    ("study.out_of_bounds", "clamp"): "A cell that does not fit is moved to its bounds, or filled.",
}


def changes(old: Study, new: Study) -> tuple[Change, ...]:
    """Return all differences between two studies, those first that change the noise."""
    found = [*_fields(old, new), *_keys(old, new), *_parties(old, new), *_features(old, new)]
    order = list(Group)
    return tuple(sorted(found, key=lambda change: order.index(change.group)))


def diff_shown(old: Study, new: Study, found: Sequence[Change]) -> tuple[RenderableType, ...]:
    """Return the differences for a person."""
    parts: list[RenderableType] = []
    for group in Group:
        if said := [f"{change.where}: {change.words}" for change in found if change.group is group]:
            parts += [heading(group.value), paragraphs(said)]
    if not found:
        parts.append(Text("nothing changed: the two files hold one study"))
    prints = ((name, study.fingerprint()) for name, study in (("old", old), ("new", new)))
    parts += [Text.assemble(f"\n  the {name} study's fingerprint  ", (print_, "bold")) for name, print_ in prints]
    return tuple(parts)


def _fields(old: Study, new: Study) -> Iterator[Change]:
    """Compare the tables that stand once in a study, field by field."""
    before, after = _flat(old), _flat(new)
    for name in sorted({*before, *after}, key=lambda name: (name.split(".")[0] != "privacy", name)):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        section, _, key = name.partition(".")
        words = _was(was, now, _shown)
        if note := _note(name, was, now):
            words += f" {note}"
        yield Change(_group(section, name), f"[{section}] {key}", words, was, now)


def _flat(study: Study) -> dict[str, Any]:
    """Return the fields of all tables that stand once; those of features, parties and keys are left out."""
    dump = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        f"{section}.{name}": value
        for section, table in dump.items()
        if not isinstance(table, list)
        for name, value in _leaves(table)
        if (section, name) != ("curator", "key")
    }


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _group(section: str, name: str) -> Group:
    if section in _NOISE or name in _NOISE_FIELDS:
        return Group.NOISE
    if name in _WHO_FIELDS:
        return Group.WHO
    return Group.RECORDS if section == "label" or name in _RECORDS_FIELDS else Group.REST


def _note(name: str, was: Any, now: Any) -> str:
    """Return what a change of a field means, where that is known."""
    if (note := _NOW.get((name, str(now)))) is not None:
        return note
    numbers = (int, float)
    if isinstance(now, numbers) and (was is None or isinstance(was, numbers)) and (was is None or now > was):
        return _GROWN.get(name, "")
    if isinstance(was, numbers) and (now is None or isinstance(now, numbers)):
        return _SHRUNK.get(name, "")
    return ""


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _was(was: Any, now: Any, shown: Callable[[Any], str]) -> str:
    """Return a change of a value as a sentence."""
    if was is None:
        return f"was not set, and is now {shown(now)}."
    return f"was {shown(was)}, and is now {'not set' if now is None else shown(now)}."


def _keys(old: Study, new: Study) -> Iterator[Change]:
    if old.curator.key != new.curator.key:
        yield _key(Group.WHO, "[curator] key", "Charlie has another key", old.curator.key, new.curator.key)


def _key(group: Group, where: str, said: str, was: PublicKeys, now: PublicKeys) -> Change:
    words = (
        f"{said}. Its fingerprint was {was.fingerprint()}, and is now {now.fingerprint()}: compare it with the key's "
        "owner by telephone."
    )
    return Change(group, where, words, str(was), str(now))


def _parties(old: Study, new: Study) -> Iterator[Change]:
    """Compare the rosters: who joined, who left, whose key or limit changed, and the order."""
    before, after = {p.name: p for p in old.parties}, {p.name: p for p in new.parties}
    if old.K != new.K:
        was, now = counted(old.K, "party", "parties"), counted(new.K, "party", "parties")
        words = f"there were {was}, and there are now {now}. Noise that is drawn in shares is sized by their number."
        yield Change(Group.NOISE, "[[party]]", words, old.K, new.K)
    for name, party in after.items():
        if name not in before:
            words = f"{name} joined, with the key of fingerprint {party.key.fingerprint()}."
            yield Change(Group.WHO, f"[[party]] {name}", words, None, _plain(party))
    for name, party in before.items():
        if name not in after:
            yield Change(Group.WHO, f"[[party]] {name}", f"{name} left.", _plain(party), None)
        else:
            yield from _same_party(party, after[name])
    stayed = [name for name in before if name in after]
    if stayed != [name for name in after if name in before]:
        words = f"the order was {', '.join(old.names)}, and is now {', '.join(new.names)}."
        yield Change(Group.WHO, "[[party]]", words, list(old.names), list(new.names))


def _plain(row: Party | Feature) -> dict[str, Any]:
    return row.model_dump(mode="json", exclude_none=True)


def _same_party(was: Party, now: Party) -> Iterator[Change]:
    where = f"[[party]] {was.name}"
    if was.key != now.key:
        yield _key(Group.WHO, f"{where}, key", f"{was.name} has another key", was.key, now.key)
    if was.max_records != now.max_records:
        words = f"{_was(was.max_records, now.max_records, _shown)} {_SIZED}"
        yield Change(Group.NOISE, f"{where}, max_records", words, was.max_records, now.max_records)


def _features(old: Study, new: Study) -> Iterator[Change]:
    """Compare the columns: which came, which went, whose range changed, and the order."""
    before, after = {f.name: f for f in old.features}, {f.name: f for f in new.features}
    if old.d != new.d:
        words = f"a record was {old.d} numbers, and is now {new.d}: each of them has noise of its own."
        yield Change(Group.NOISE, "[[feature]]", words, old.d, new.d)
    for name, feature in after.items():
        if name not in before:
            words = f"the column {name} was added, with the range {feature.range}."
            yield Change(Group.RECORDS, f"[[feature]] {name}", words, None, _plain(feature))
    for name, feature in before.items():
        if name not in after:
            words = f"the column {name} was removed."
            yield Change(Group.RECORDS, f"[[feature]] {name}", words, _plain(feature), None)
            continue
        was, now = _plain(feature), _plain(after[name])
        for key in dict.fromkeys((*was, *now)):
            if was.get(key) != now.get(key):
                words = _was(was.get(key), now.get(key), _shown)
                yield Change(Group.RECORDS, f"[[feature]] {name}, {key}", words, was.get(key), now.get(key))
    stayed = [name for name in before if name in after]
    if stayed != [name for name in after if name in before]:
        words = f"the order of the columns was {', '.join(before)}, and is now {', '.join(after)}."
        yield Change(Group.RECORDS, "[[feature]]", words, list(before), list(after))
