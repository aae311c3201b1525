"""``masquerade verify``: check the folders of a finished run, offline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.blame import blame_of
from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from masquerade_core.study import Study
    from masquerade_host.faults.verifying import Contradiction, Folder

__all__ = ["verify"]

_NOT_PROVED = (
    "which records the parties used, and that they are true",
    "which program a participant ran: its hash is that participant's word alone",
    "that a signature was made by a person and not by somebody who took the key file",
    "the times, the approval and the ledger's entry: they are the words of the folder's owner alone",
)
_ONE_FOLDER = (
    "what other participants have in their folders: each may have been changed before it was signed, or be withheld",
    "that the sealed messages between other parties arrived as they were sent",
)
_NO_CURATOR = "what Charlie noted of each party's messages: his folder is not among these"


def verify(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="The folder of one participant, or of several.")
    ],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Check the folders of a finished run: who took part, the study and statement, and that the model is theirs.

    Exit code 0: all holds. 1: a file was changed, a signature does not hold, or the result is not confirmed. 4: these
    are no folders of one run. 8: the folders are signed and contradict each other. For the folder of a failed attempt
    it does the same as blame: 1 if the evidence proves a participant's fault, else 0.
    """
    from masquerade_core.wire.faults import EVIDENCE
    from masquerade_core.words import listed
    from masquerade_host.faults.verifying import check_together, contradictions, read_folder
    from masquerade_host.store.results import STUDY

    del output_format
    if any((path / EVIDENCE).is_file() for path in folders):
        return blame_of(folders[0] / STUDY, [path / EVIDENCE for path in folders])
    read = [read_folder(path, _rows) for path in folders]
    check_together(read)
    problems = {folder.owner: folder.problems for folder in read}
    found = contradictions(read)
    data = _data(read, found)
    if any(problems.values()):
        first = next(folder for folder in read if folder.problems)
        count = sum(map(len, problems.values()))
        more = f" (and {count - 1} more)" if count > 1 else ""
        return Outcome(
            f"{first.path} does not hold: {first.problems[0]}{more}",
            data,
            hint="ask its owner for the folder as the run wrote it",
            shown=_lines(data),
            error_code="not_verified",
            exit_code=1,
        )
    if found:
        return Outcome(
            f"the folders are signed and contradict each other: {found[0].words}",
            data,
            hint="one of the two, or Charlie between them, noted a false frame; these folders do not show which",
            shown=_lines(data),
            error_code="protocol_violation",
            exit_code=8,
        )
    if still := data["unconfirmed"]:
        return Outcome(
            f"the result of {listed(still)} is not confirmed: Charlie's last frame is missing there, and no other "
            "folder shows that every party was told the same",
            data,
            hint="give the folders of all parties, or Charlie's",
            shown=_lines(data),
            error_code="not_confirmed",
            exit_code=1,
        )
    return Outcome(_summary(read), data, shown=_lines(data))


def _rows(study: "Study") -> list[dict[str, Any]]:
    from masquerade_protocols import protocol_of

    return [claim.to_json() for claim in protocol_of(study).statement(study)]


def _summary(read: "list[Folder]") -> str:
    from masquerade_core.words import listed

    first = read[0]
    return (
        f"this holds: {listed(_took_part(read))} and Charlie ran the study {first.study.study.name!r}, fingerprint "
        f"{first.transcript.study.hex()[:16]}, and each party signed this result"
    )


def _took_part(read: "list[Folder]") -> tuple[str, ...]:
    """Return who closed the run; where Charlie's last frame is in no folder, whose folders these are."""
    return next((folder.took_part for folder in read if folder.took_part), tuple(folder.owner for folder in read))


def _data(read: "list[Folder]", found: "list[Contradiction]") -> dict[str, Any]:
    from masquerade_core.study import CHARLIE
    from masquerade_core.words import listed
    from masquerade_host.faults.verifying import unconfirmed

    first, still = read[0], unconfirmed(read)
    programs = {name: program for folder in read for name, program in folder.programs.items()}
    owners = [folder.owner for folder in read]
    return {
        "run_id": first.transcript.run.hex(),
        "study": first.study.study.name,
        "study_digest": first.transcript.study.hex(),
        "protocol": first.study.study.protocol,
        "version": first.transcript.version,
        "took_part": list(_took_part(read)),
        "result": first.transcript.release.hex(),
        "statement": first.transcript.statement.hex(),
        "folders": [
            {
                "path": str(folder.path),
                "participant": folder.owner,
                "started": folder.result.get("started"),
                "ended": folder.result.get("ended"),
                "frames": len(folder.transcript.entries),
                "files": sorted(folder.transcript.files),
                "problems": folder.problems,
            }
            for folder in read
        ],
        "contradictions": [{"between": list(each.between), "words": each.words} for each in found],
        "reworded": [folder.owner for folder in read if folder.reworded],
        "proved": [] if found or still or any(folder.problems for folder in read) else _proved(read),
        "unconfirmed": list(still),
        "programs": {name: program.hex() for name, program in programs.items()},
        "said": [
            f"{listed([name for name in programs if programs[name] == each])} ran the program {each.hex()[:16]}, by "
            f"{'its' if list(programs.values()).count(each) == 1 else 'their'} own word"
            for each in dict.fromkeys(programs.values())
        ],
        "not_proved": [
            *_NOT_PROVED,
            *(_ONE_FOLDER if len(read) == 1 else ()),
            *([_NO_CURATOR] if CHARLIE not in owners else ()),
        ],
    }


def _proved(read: "list[Folder]") -> list[str]:
    from masquerade_core.words import listed

    parties = listed(_took_part(read))
    sentences = [
        f"{parties} took part: each signed its hello, and that its part had ended, for this run of this study",
        f"{parties} were sent the same broadcasts, in the same order: each signed the hash of all of them",
        "the result in the folder is the one whose hash each party signed when its part had ended",
        _statement_proved(read),
    ]
    owners = listed([folder.owner for folder in read])
    sentences.append(f"{owners} signed all files of the folder, and the hash of each message that left or came")
    if len(read) > 1:
        sentences.append(f"between {owners}, each message that one noted as sent the other noted as received")
    return sentences


def _statement_proved(read: "list[Folder]") -> str:
    signed = "the privacy statement in the folder is the one that was signed"
    if not all(folder.same_version for folder in read):
        return f"{signed}; another version wrote it"
    if any(folder.reworded for folder in read):
        return f"{signed}; its rows, numbers and sources follow from the study"
    return f"{signed}, and follows from the study"


def _lines(data: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    from masquerade_core.words import listed

    lines = [Text(f"proved: {words}") for words in data["proved"]]
    if owners := data["reworded"]:
        lines.append(Text(f"wording: {listed(owners)} worded the privacy statement differently from this program"))
    for folder in data["folders"]:
        lines += [Text(f"{folder['participant']}: {words}") for words in folder["problems"]]
    lines += [Text(f"contradiction: {each['words']}") for each in data["contradictions"]]
    lines += [Text(f"said: {words}") for words in data["said"]]
    return [*lines, *(Text(f"not proved: {words}") for words in data["not_proved"])]
