"""A page's sentence on a default, with a mark next to it, compared with the output of ``study new``.

A mark is a comment right behind what it is about::

    The default is `scale = "selected"`.<!-- default: local-aggregation.scale = selected -->

Several facts of one mark are parted by ``;``. Before the dot stands a protocol, a group of them (``papers``, ``ours``,
``all``) or a section of the study. :func:`fact` says what may stand behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel

from masquerade.draft import Draft, throwaway_key
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study
from masquerade_core.study.sections import Dropouts, StudySection
from masquerade_protocols import DEFAULT_PROTOCOL, PROTOCOLS, entry_named, statement_of

PARTIES = 5
_REFUTED = frozenset({"noisy-gradient", "decaying-budget"})  # their own paper rejects them, and no page is theirs
MARK = re.compile(r"<!--\s+default:\s+(.*?)\s+-->", re.DOTALL)
_SECTIONS: dict[str, type[BaseModel]] = {"study": StudySection, "dropouts": Dropouts}
_YES_NO = {True: "yes", False: "no"}


@dataclass(frozen=True)
class Said:
    """One fact that a page states.

    Parameters
    ----------
    page : str
        From the root of the repository.
    line : int
    sentence : str
        The end of what stands before the mark.
    key, value : str
    block : str
        The paragraph, the item or the table's row in which the mark stands, without marks.
    """

    page: str
    line: int
    sentence: str
    key: str
    value: str
    block: str


def marks(page: str, text: str) -> Iterator[Said]:
    """Every fact of every mark of a page."""
    for mark in MARK.finditer(text):
        before = MARK.sub("", text[: mark.start()])
        start = max(before.rfind("\n\n"), before.rfind("\n|"), before.rfind("\n- ")) + 1
        own = " ".join(before[start:].split())
        after = re.split(r"\n\n|\n\||\n- ", MARK.sub("", text[mark.end() :]), maxsplit=1)[0]
        sentence = re.split(r"(?<=[.:]) (?=[A-Z*`\[])", own)[-1]
        for fact_ in mark[1].split(";"):
            key, _, value = (" ".join(part.split()) for part in fact_.partition("="))
            line = text[: mark.start()].count("\n") + 1
            yield Said(page, line, sentence, key, value, " ".join(f"{own} {after}".split()))


@cache
def new_study(name: str) -> Study:
    """The output of ``study new`` for five parties and a protocol, without other options."""
    auxiliary = AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=1000)
    draft = Draft(
        parties=[(f"p{k}", throwaway_key()) for k in range(PARTIES)],
        curator_key=throwaway_key(),
        protocol=name,
        features=[Feature(name="x", min=0.0, max=1.0)],
        label=Label(name="y", positive="1"),
        auxiliary=auxiliary if entry_named(name).auxiliary else None,
        parameters={"weights": [0.0, 0.0]} if entry_named(name).measures else {},
    )
    return Study.parse(draft.to_toml())


_FACTS: dict[str, Callable[[Study], str]] = {
    "matching": lambda study: study.study.matching or "exact",
    "calibration": lambda study: study.privacy.calibration,
    "colluders": lambda study: str(study.privacy.colluders),
    "epsilon": lambda study: f"{study.privacy.epsilon:g}",
    "delta": lambda study: f"{study.privacy.delta:g}",
    "Lambda": lambda study: f"{study.model.regularization:g}",
    "sum": lambda study: study.crypto.sum,
    "encrypts": lambda study: _YES_NO[entry_named(study.study.protocol).cost(study).ciphertexts > 0],
    "lead": lambda study: _YES_NO[bool(study.lead)],
    "anybody": lambda study: f"{statement_of(study)[0].epsilon:.4g}",
    "one takes all noise off": lambda study: _YES_NO[any(alone(row) for row in statement_of(study))],
}


def alone(row: Claim) -> bool:
    """Whether nothing is proved against one participant who looks by itself at one record."""
    single = row.view in {"the party with the fewest records", "Charlie", "the lead"} or row.view.startswith(
        "one party"
    )
    return single and row.epsilon is None


@cache
def fact(key: str) -> str:
    """The true value of a default: ``protocol``, SECTION.SETTING or PROTOCOL.FACT.

    FACT is one of ``_FACTS``, or the name of a setting in the study's ``[protocol]``. Of a group the fact is "various"
    where its protocols differ.
    """
    if key == "protocol":
        return DEFAULT_PROTOCOL
    name, _, what = key.partition(".")
    if name in _SECTIONS:
        return str(_SECTIONS[name].model_fields[what].default)
    others = {other for other in PROTOCOLS if other not in _REFUTED}
    ours = {other for other in others if entry_named(other).paper == "this program's own"}
    groups = {"all": others, "ours": ours, "papers": others - ours}
    found = {_of_one(other, what) for other in groups.get(name, {name})}
    return found.pop() if len(found) == 1 else "various"


def _of_one(name: str, what: str) -> str:
    study = new_study(name)
    if what in _FACTS:
        return _FACTS[what](study)
    parameters = entry_named(name).parameters.model_validate(dict(study.protocol))
    value = study.protocol.get(what, getattr(parameters, what))
    return _YES_NO[value] if isinstance(value, bool) else str(value)


def wrong(said: Said, holds: Callable[[str], str] = fact) -> str:
    """The fault of a mark, as a sentence that names page, line and sentence; empty if there is none.

    The value stands in the marked text as well, unless it is yes or no.
    """
    where = f"{said.page}:{said.line}: {said.sentence!r}"
    if (now := holds(said.key)) != said.value:
        return f"{where} rests on {said.key} = {said.value}, but a new study has {now}"
    shown = said.value in {"yes", "no"} or re.search(rf"(?<!\w){re.escape(said.value)}(?!\w)", said.block)
    return "" if shown else f"{where} is marked with {said.value}, and does not say it"
