"""Page one of a report, and of a study for signature: plain words for a board, and no formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from masquerade.pages.privacy import Observer, held, observers
from masquerade.pages.reading import Run
from masquerade.roster_view import compared_in, whose_keys
from masquerade_core.privacy.expectation import PROMISES, Verdict
from masquerade_core.privacy.several_records import PARTY
from masquerade_core.privacy.statement import NOT_PROMISED
from masquerade_core.study import CHARLIE, Study
from masquerade_core.words import counted, listed
from masquerade_protocols import Protocol

__all__ = ["Answer", "Board", "board_of_run", "board_of_study", "day", "minute", "subject"]

_NOISE = "And random noise was added, which hides what any one record holds."
_TINY = 1e-9  # a chance that nobody reads as a number
_FEW = 8  # parties that a page names one by one


@dataclass(frozen=True)
class Answer:
    """The answer to "is it verified?".

    Parameters
    ----------
    kind : str
        "yes", "no" or "unknown": the page's sign.
    short : str
        In a word or two.
    text : str
        One or two sentences.
    """

    kind: str
    short: str
    text: str


@dataclass(frozen=True)
class Board:
    """The content of page one.

    Parameters
    ----------
    done : tuple of str
        What was done, and with whose data: paragraphs.
    good : str
        How good the result is; empty where nothing is known.
    learned : tuple of Observer
    about : str
        Whose data the guess is about: "one record", or "one person" where the study says that a person has several.
    chance : str
        For how many in a million the promise may fail; empty where it never does.
    limits : tuple of str
        What is not promised.
    agreed : tuple of str
        Who agreed.
    answer : Answer
    facts : tuple of (str, str)
        What the coordinator declares of the study, and its privacy target: names and values.
    """

    done: tuple[str, ...]
    good: str
    learned: tuple[Observer, ...]
    about: str
    chance: str
    limits: tuple[str, ...]
    agreed: tuple[str, ...]
    answer: Answer
    facts: tuple[tuple[str, str], ...]


def day(text: object) -> str:
    """Return the day of a time in ISO form, as 3 May 2026; another text as it is."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    return f"{moment.day} {moment:%B %Y}"


def minute(text: object) -> str:
    """Return a time in ISO form as 3 May 2026, 14:05 UTC; another text as it is."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def named(names: Sequence[str]) -> str:
    """Return names as a list; of many, the first ones and how many more there are."""
    if len(names) <= _FEW:
        return listed(names) if names else "nobody"
    return f"{', '.join(names[: _FEW - 1])} and {len(names) - _FEW + 1} others"


def subject(study: Study | None) -> str:
    """Return what the model predicts, in words."""
    if study is None:
        return "an answer for new records"
    label = study.label
    if label.number is not None:
        return f"the number “{label.name}”"
    if label.classes:
        return f"“{label.name}” ({named(label.classes)})"
    return f"whether “{label.name}” is “{label.positive}”"


def board_of_run(run: Run, entry: Protocol | None, audit: Mapping[str, Any] | None = None) -> Board:
    """Return page one of a finished run's report."""
    result, study = run.result, run.study
    per_person = study.study.records_per_person if study else 1
    rows = result["statement"]
    learned = tuple(observers(rows, per_person))
    return Board(
        done=tuple(_done(run, entry)),
        good=_good(result, entry),
        learned=learned,
        about="one record" if per_person == 1 else "one person",
        chance=chance(rows),
        limits=limits(rows, learned, audit),
        agreed=tuple(_agreed(run)),
        answer=_answer(run),
        facts=_facts(study, float(result["epsilon"])),
    )


def board_of_study(
    study: Study, entry: Protocol, rows: Sequence[Mapping[str, Any]], audit: Mapping[str, Any] | None = None
) -> Board:
    """Return page one of a study for signature, before anything has run."""
    per_person = study.study.records_per_person
    learned = tuple(observers(rows, per_person))
    what = f"one model, which predicts {subject(study)}" if entry.makes_model else _other(entry)
    columns = counted(len(study.features), "column", "columns")
    expected = entry.expectation(study) if entry.expectation else None
    who = (
        f"{named(study.names)} will compute {what}. A coordinator, called Charlie, passes their messages on and is "
        "not trusted with any record."
    )
    records = (
        f"Each party uses at least {study.study.min_records:,} records of its own, with {columns}. Their limits "
        "are fixed in this study, before anybody looks at the data."
    )
    return Board(
        done=(who, _LEAVES + (_WILL_NOISE if study.proven else ""), records),
        good=_HOPES[expected.verdict] if expected else "",
        learned=learned,
        about="one record" if per_person == 1 else "one person",
        chance=chance(rows),
        limits=limits(rows, learned, audit),
        agreed=(),
        answer=Answer("unknown", "For signature", ""),
        facts=_facts(study, study.privacy.epsilon),
    )


def _facts(study: Study | None, epsilon: float) -> tuple[tuple[str, str], ...]:
    declared = study.study.declared if study is not None else ()
    return (*declared, ("privacy target", f"epsilon {epsilon:g}"))


_LEAVES = (
    "No record leaves its owner’s machine. What is computed from records does. It is encrypted or masked, so that "
    "nobody alone can read one party’s part. "
)
_WILL_NOISE = "And random noise is added, which hides what any one record holds."
_HOPES = {
    **{verdict: f"{promise[0].upper()}{promise[1:]}." for verdict, promise in PROMISES.items()},
    Verdict.COEFFICIENTS: "Expect coefficients with intervals.",
    Verdict.NOISY: "Expect a model with much noise in it; look at the result.",
    Verdict.NOTHING: "Expect nothing useful: the noise drowns what so few records tell.",
    Verdict.COUNTS: "Expect counts that can be used.",
    Verdict.COARSE: "Expect coarse counts: a good part of most of them is noise.",
}


def _other(entry: Protocol) -> str:
    return "how good a model is that they have already" if entry.measures else "statistics of their records"


def _done(run: Run, entry: Protocol | None) -> list[str]:
    result, study = run.result, run.study
    what = f"one model, which predicts {subject(study)}" if entry is None or entry.makes_model else _other(entry)
    if run.watermark:
        whose = counted(int(result["parties"]), "party", "parties")
        held_all = (
            f"This is a simulation. One computer held the records of {whose} and computed {what}. Its user saw "
            "all records."
        )
        return [
            held_all,
            "So nothing here was kept secret, and nothing on this page may be taken for a private release.",
        ]
    names = run.took_part or (study.names if study else ())
    began = day(result.get("started", ""))
    first = (
        f"On {began}, {named(names)} computed {what}. A coordinator, called Charlie, passed their messages on and is "
        "not trusted with any record."
    )
    said = [
        first,
        "No record left its owner’s machine. What was computed from records did. It was encrypted or masked, so that "
        "nobody alone could read one party’s part. " + (_NOISE if study is not None and study.proven else ""),
    ]
    if study is not None:
        columns = counted(len(study.features), "column", "columns")
        said.append(
            f"Each party used at least {study.study.min_records:,} records of its own, with {columns}. Their limits "
            "were fixed in public, before anybody looked at the data."
        )
    return said


def _good(result: Mapping[str, Any], entry: Protocol | None) -> str:
    found = result.get("evaluation")
    if found:
        error = found["error"]
        shown = "lost in the noise" if error["value"] is None else f"{error['value']:.1%}"
        between = "" if error["value"] is None else f" (between {error['low']:.1%} and {error['high']:.1%})"
        better = (
            ""
            if found["better_than_majority"]
            else " It is not shown that this is better than one answer for everybody."
        )
        return (
            f"Measured privately on {found['records']:,} records, the model errs in {shown}{between} of them.{better}"
        )
    error = result.get("metrics", {}).get("test_error")
    if error is not None:
        return f"On a public test set, the model errs in {error:.1%} of the records."
    if entry is not None and not entry.makes_model:
        return "What was released stands in the other files of this folder."
    return "How good the model is was not measured in this run."


def chance(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return for how many in a million the promise may fail, in words; empty where it never does."""
    deltas = [float(row["delta"]) for row in rows if held(row) and not str(row["claimed"]).startswith(NOT_PROMISED)]
    worst = max(deltas, default=0.0)
    if worst <= 0:
        return ""
    if worst < _TINY:
        return "less than one in a billion"
    return f"one in {1 / worst:,.0f}" if worst < 0.1 else f"{worst:.0%}"  # noqa: PLR2004


def limits(
    rows: Sequence[Mapping[str, Any]], learned: Sequence[Observer], audit: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return what a statement does not promise, in plain words, and whether an audit refuted it."""
    said = []
    if audit and audit.get("exceeded"):
        said.append("An audit refuted the promise of this study: more can be learned than it allows.")
    if bare := [observer.name for observer in learned if observer.percent is None]:
        said.append(f"Nothing is proved against these observers: {'; '.join(bare)}.")
    if any("all parties but one" in str(row["view"]) for row in rows):
        said.append(
            "If all other parties sided with the coordinator against one party, less would hold for that party."
        )
    if any(row["unit"] == PARTY and "all records of one" in str(row["view"]) and not held(row) for row in rows):
        said.append(
            "A party as a whole is not hidden: what its records have in common may show, such as how they differ from "
            "everybody else’s."
        )
    said.append(
        "What is true of many people is meant to be learned. It may let somebody guess about a person who never took "
        "part."
    )
    said.append("Each further run over the same records adds to what may be learned.")
    return tuple(said)


def _agreed(run: Run) -> list[str]:
    if run.watermark:
        return ["Nobody was asked: a simulation needs nobody's agreement but that of the data's owner."]
    said, approval = [], run.approval
    if approval:
        who = str(approval.get("who", "?"))
        said.append(
            f"{who[:1].upper()}{who[1:]} approved this study for {approval.get('participant', '?')} on "
            f"{minute(approval.get('when', ''))}."
        )
        if (compared := compared_in(approval)) is not None:
            said += whose_keys(compared, run.result["statement"])
    elif run.participant == CHARLIE:
        said.append("Each party’s own report names the person who approved the study there.")
    if run.took_part:
        K = int(run.result["parties"])
        everybody = f"All {K}" if len(run.took_part) == K else f"{len(run.took_part)} of {K}"
        said.append(
            f"{everybody} parties signed with their keys that they ran this very study, and that this is its result."
        )
    if run.study is not None:
        said.append(f"The study’s fingerprint, the same for everybody: {run.study.fingerprint()}.")
    return said


def _answer(run: Run) -> Answer:
    if run.watermark:
        return Answer("no", "A simulation", "Nothing was signed, so there is nothing to verify.")
    if run.transcript is None:
        return Answer("unknown", "Nothing verified", "This folder has no signed transcript.")
    if run.problems:
        return Answer("no", "Does not hold", f"This folder was changed, or is not whole: {run.problems[0]}.")
    who = "Charlie" if run.participant == CHARLIE else run.participant
    beyond = ", and that the coordinator's words above are," if run.study and run.study.study.declared else ","
    return Answer(
        "yes",
        "Signatures verified",
        f"When this page was written, every signature held, and every file was as {who} had signed it. "
        f"That the records themselves are true{beyond} nobody can verify.",
    )
