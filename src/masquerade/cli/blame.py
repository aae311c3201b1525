"""``masquerade blame``: say who is proved at fault for a run that ended badly."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import StudyArgument

__all__ = ["blame", "blame_of"]


def blame(
    study: StudyArgument,
    evidence: Annotated[
        list[Path], typer.Argument(help="The evidence.json of one participant or more; Charlie's above all.")
    ],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Say who is proved at fault for a failed run. Exit code 1: a participant is; 0: nobody is."""
    del output_format
    return blame_of(study, evidence)


def blame_of(study: str | Path, evidence: list[Path]) -> Outcome:
    """Say who is proved at fault by files of evidence of one run of a study."""
    from masquerade_core.bounded import MOST_OF_A_RUN, read_text
    from masquerade_core.errors import BadInput
    from masquerade_core.study import Study
    from masquerade_core.study_files import read_study_text
    from masquerade_core.wire.faults import Evidence, read_evidence
    from masquerade_core.words import listed
    from masquerade_protocols.blame import run_of, verdict

    made = Study.parse(read_study_text(study), str(study), in_memory=True)
    files: list[Evidence] = []
    run = b""
    for path in evidence:
        text = read_text(path, MOST_OF_A_RUN, "file of evidence", "give the evidence.json of a run's directory")
        file = read_evidence(text, str(path))
        if (run := run_of(file, made, str(path))) != bytes.fromhex(files[0].run if files else file.run):
            raise BadInput(
                f"{path} is of the run {file.run[:8]}, but {evidence[0]} is of the run {files[0].run[:8]}",
                "give files of one run",
            )
        files.append(file)
    culprit, found, suspects = verdict(made, run, files)
    message = f"{culprit} is at fault" if culprit else "nobody is proved to be at fault"
    sentences = ". ".join(sentence[0].upper() + sentence[1:] for sentence in found)
    if suspects:
        sentences += f". If anybody is, it is one of these: {listed(suspects)}"
    return Outcome(
        f"{message}. {sentences}",
        {"culprit": culprit or None, "found": list(found), "suspects": list(suspects)},
        error_code="fault_proved" if culprit else None,
        exit_code=1 if culprit else 0,
    )
