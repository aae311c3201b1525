"""``masquerade simulate``: all participants in one process."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import StudyArgument

if TYPE_CHECKING:
    from masquerade_core.data.schema import Dataset
    from masquerade_core.learning.classifiers import Classifier
    from masquerade_core.study import Study

__all__ = ["simulate"]


def simulate(
    study: StudyArgument,
    data: Annotated[
        list[str],
        typer.Option(
            help="FILE together with --by, or NAME=FILE once for each party; a folder or a query also works.",
            show_default=False,
        ),
    ],
    classifier: Annotated[
        list[str] | None,
        typer.Option(help="In a protocol of votes: NAME=CLASSIFIER, the classifier that votes for a party."),
    ] = None,
    by: Annotated[str | None, typer.Option(help="The column with the name of each record's party.")] = None,
    test: Annotated[str | None, typer.Option(help="A test set (a file, folder or query).")] = None,
    seed: Annotated[int | None, typer.Option(help="A number that makes the run repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new directory for model.json and result.json.")] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Run a study of a protocol or a baseline in this one process. The result is not a private release."""
    from rich.text import Text

    from masquerade.coefficients_view import coefficients_report
    from masquerade.report import result_report
    from masquerade.simulation import WATERMARK
    from masquerade.simulation import simulate as simulated
    from masquerade.statistics import statistics_report
    from masquerade_core.data.loading import load_csv
    from masquerade_core.study_files import load_study
    from masquerade_protocols import entry_of

    del output_format
    loaded, auxiliary = load_study(study, in_memory=True)
    coding = entry_of(loaded).records.coding
    tests = load_csv(test, loaded, need_label=False, coding=coding) if test is not None else None
    records = _data(data, by, loaded)
    simulation = simulated(
        loaded, records, seed=seed, test=tests, classifiers=_classifiers(classifier or []), auxiliary=auxiliary
    )
    if out is not None:
        simulation.write(out)
    statistics = simulation.statistics_json()
    coefficients = getattr(simulation.release, "coefficients", None)
    told = {} if statistics is None else {"statistics": statistics}
    told |= {} if coefficients is None else {"coefficients": coefficients.to_json()}
    return Outcome(
        f"{WATERMARK}; {loaded.K} parties in one process",
        {**simulation.result, **told},
        stdout="" if statistics is None else f"# {WATERMARK}\n{statistics['features']}",
        shown=(
            *result_report(simulation.result),
            *(() if statistics is None else statistics_report(statistics)),
            *(() if coefficients is None else coefficients_report(coefficients)),
            Text(f"\n  {WATERMARK.upper()}. One process saw everybody's records.\n", style="bold yellow"),
        ),
    )


def _data(data: list[str], by: str | None, study: "Study") -> "dict[str, Dataset]":
    from masquerade.simulation import load_named, load_split
    from masquerade_core.errors import BadInput

    if by is not None:
        if len(data) != 1:
            raise BadInput(f"--by splits one file, but --data was given {len(data)} times", "give --data FILE once")
        return load_split(data[0], study, by)
    hint = "give --data NAME=FILE for each, or one FILE with --by COLUMN"
    return load_named(_by_party("--data", data, hint), study)


def _classifiers(given: list[str]) -> "dict[str, Classifier]":
    from masquerade_core.learning.classifiers import named

    hint = "for example --classifier hospital-a=tree"
    return {name: named(text) for name, text in _by_party("--classifier", given, hint).items()}


def _by_party(option: str, entries: list[str], hint: str) -> dict[str, str]:
    from masquerade_core.errors import BadInput

    values: dict[str, str] = {}
    for entry in entries:
        name, given, value = entry.partition("=")
        if not given:
            raise BadInput(f"{option} {entry} names no party", hint)
        if name in values:
            raise BadInput(f"{option} names {name} twice", f"give {option} once for each party")
        values[name] = value
    return values
