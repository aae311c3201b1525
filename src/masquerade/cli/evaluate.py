"""The study that measures a model that exists: ``masquerade study new --measure``, once ``masquerade evaluate``."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_core.words import DELTA

__all__ = ["evaluate", "measure"]


def evaluate(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.", show_default=False)],
    model: Annotated[Path, typer.Option(help="The model.json of a run.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write. It must not exist.")],
    epsilon: Annotated[
        float | None,
        typer.Option(help="The odds of a guess about a record change by at most e^EPSILON. The study's if not given."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help=f"{DELTA.capitalize()}. The study's if not given.")] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="Choose a threshold for the model: youden, f1, or the share of positive answers, as in 0.1."),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write the study that measures MODEL on the records of STUDY's parties, as 'study new --measure' does."""
    del output_format
    return measure(study, model, output, epsilon, delta, threshold)


def measure(
    study: Path, model: Path, output: Path, epsilon: float | None, delta: float | None, threshold: str | None
) -> Outcome:
    """Write the study that measures a model on the records of another study's parties.

    Parameters
    ----------
    study, model : Path
        The other study, and the model.json of a run.
    output : Path
        The file to write.
    epsilon, delta : float or None
        The new study's privacy target; the other study's if None.
    threshold : str or None
        The rule by which a threshold is chosen: youden, f1, or a share of positive answers.

    Raises
    ------
    BadInput
        A file cannot be read or written, or there is one already.
    """
    from masquerade.measuring import measuring_study
    from masquerade.prediction import load_model
    from masquerade.report import heading, paragraphs, program
    from masquerade_core.errors import BadInput
    from masquerade_core.study import Study
    from masquerade_core.study_files import read_study_text
    from masquerade_protocols import entry_of

    template = Study.parse(read_study_text(study), str(study), in_memory=True)
    rule = _rule(threshold)
    made = measuring_study(template, load_model(model), epsilon=epsilon, delta=delta, threshold=rule)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(made.to_toml())
    except FileExistsError as error:
        raise BadInput(f"{output} exists already, and a study is never overwritten", "choose another file") from error
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}", "choose another file") from error
    words = entry_of(made).explain(made).cost
    message = f"{output} measures the model on the records of {made.K} parties, at epsilon = {made.privacy.epsilon:g}"
    return Outcome(
        message,
        {
            "file": str(output),
            "name": made.study.name,
            "epsilon": made.privacy.epsilon,
            "delta": made.privacy.delta,
            "parties": list(made.names),
            "cost": list(words),
        },
        hint=f"each party runs: {program()} party {output} --data FILE --key FILE; "
        f"in one process: {program()} simulate {output}",
        shown=(message, heading("What it costs"), paragraphs(words)),
    )


def _rule(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
