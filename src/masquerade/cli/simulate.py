"""``masquerade simulate``: the same roles in one process."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade.cli.study import StudyArgument

if TYPE_CHECKING:
    from masquerade_core.data.schema import Dataset
    from masquerade_core.study import Study

__all__ = ["simulate"]


def simulate(
    study: StudyArgument,
    data: Annotated[
        list[str], typer.Option(help="FILE with --by, or NAME=FILE once for each party.", show_default=False)
    ],
    by: Annotated[str | None, typer.Option(help="The column that holds the party's name.")] = None,
    test: Annotated[Path | None, typer.Option(help="A test set (CSV).")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the run repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new directory for model.json and result.json.")] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Run a study, of a protocol or a baseline, in this one process; the result is not a private release."""
    from rich.text import Text

    from masquerade.report import result_report
    from masquerade.simulation import WATERMARK
    from masquerade.simulation import simulate as simulated
    from masquerade_core.data.loading import load_csv
    from masquerade_core.study import Study

    del output_format
    loaded = Study.load(study, in_memory=True)
    tests = load_csv(test, loaded, need_label=False) if test is not None else None
    simulation = simulated(loaded, _data(data, by, loaded), seed=seed, test=tests)
    if out is not None:
        simulation.write(out)
    return Outcome(
        f"{WATERMARK}; {loaded.K} parties in one process",
        simulation.result,
        shown=(
            *result_report(simulation.result),
            Text(f"\n  {WATERMARK.upper()}. One process saw everybody's records.\n", style="bold yellow"),
        ),
    )


def _data(data: list[str], by: str | None, study: "Study") -> "dict[str, Dataset]":
    from masquerade.simulation import load_named, load_split
    from masquerade_core.errors import BadInput

    if by is not None:
        if len(data) != 1:
            raise BadInput(f"--by splits one file, but --data was given {len(data)} times", "give one --data FILE")
        return load_split(data[0], study, by)
    files: dict[str, Path] = {}
    for entry in data:
        name, given, path = entry.partition("=")
        if not given:
            raise BadInput(
                f"--data {entry} names no party", "give --data NAME=FILE for each, or one FILE with --by COLUMN"
            )
        if name in files:
            raise BadInput(f"--data names {name} twice", "give each party one file")
        files[name] = Path(path)
    return load_named(files, study)
