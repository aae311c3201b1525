"""``masquerade demo``: a whole run on this machine, with a process for each participant."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_party.options import AcceptOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from masquerade.datasets import Cohort
    from masquerade.demo import Plan
    from masquerade_core.study import Study
    from masquerade_protocols import Protocol

__all__ = ["demo"]

_MOST_PARTIES = 64


class Source(StrEnum):
    """Which records."""

    SIMULATED = "simulated"
    BREAST_CANCER = "breast-cancer"
    RETURNING = "returning"


def demo(
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The protocol. If not given, that of --study, or the default of 'masquerade study new'.",
            show_default=False,
        ),
    ] = None,
    parties: Annotated[
        int | None,
        typer.Option(
            help="The number of parties. If not given, that of --study, or 5; or 200 in one process, if the noise "
            "hides all records of a party together.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        Source | None,
        typer.Option(
            help="The records: made-up patients who return to one of several hospitals that differ; 20,000 other "
            "simulated ones; or 569 real ones (breast-cancer). If not given: returning where the protocol can learn "
            "from a few hundred records of a party, else simulated.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Your own records instead (CSV or Parquet).", show_default=False)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="With --data: a column. Each of its values is a party. If not given, the records are dealt out at "
            "random.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="With --data: COLUMN:POSITIVE or COLUMN:CLASS,CLASS,..., the column to predict.", show_default=False
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            help="With --data: a column to leave out of the model, such as a patient's number. Give it once for each "
            "column.",
            show_default=False,
        ),
    ] = None,
    accept: AcceptOption = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="With --data: a file with the test set. If not given, a fifth of the records is held out.",
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="With --data: a study with the columns, public bounds and settings.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy target. 1 if not given.", show_default=False)
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="The number of rounds, for a protocol with rounds. Its default if not given.", show_default=False
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            help="'proven': as much noise as a proof needs. 'paper': noise as in the paper. If not given, that of "
            "--study, or 'proven' wherever the protocol has it.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The directory for all files. runs/demo-<time> if not given.", show_default=False),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Run Charlie, the curator, and several parties as processes on this machine: keys, study, run, report."""
    del output_format
    from masquerade.console import literal_console
    from masquerade.working import Working

    console = literal_console()
    working = Working(console)
    _title(console)
    with working:
        working.say("loading the program")
        from masquerade.demo import discard, play, play_in_memory, prepare
        from masquerade.demo.outcome import outcome_shown, write_report
        from masquerade.demo.view import view_for
        from masquerade.evaluation_view import evaluation_shown
        from masquerade.report import descent, statement
        from masquerade_protocols import DEFAULT_PROTOCOL, entry_named, protocol_of

        working.say("making records" if data is None else f"reading {data}")
        template = _study(study)
        protocol = protocol or (DEFAULT_PROTOCOL if template is None else template.study.protocol)
        own = {
            "--by": by, "--label": label, "--ignore": ignore, "--accept": accept, "--test": test, "--study": template
        }  # fmt: skip
        if data is None:
            cohort = _cohort(entry_named(protocol), dataset, parties, own)
        else:
            cohort = _own_cohort(data, dataset, parties, own)
        target = epsilon if epsilon is not None else template.privacy.epsilon if template is not None else 1.0
        existed = out is not None and out.exists()
        working.say("making keys and a study")
        plan = prepare(
            cohort,
            epsilon=target,
            protocol=protocol,
            directory=out,
            rounds=rounds,
            calibration=calibration,
            like=template,
        )
    try:
        stages = protocol_of(plan.study).stages
        _introduce(console, plan, loud=data is not None and template is None)
        if plan.in_memory:
            played = play_in_memory(plan, working)
        else:
            played = play(plan, view_for(console, plan.study.names, stages, plan.study.lead), working)
    except BaseException:
        discard(plan.directory, ours=not existed)
        raise
    outcome = outcome_shown(plan, played)
    write_report(plan, played, outcome)
    return Outcome(
        f"{plan.study.K} parties and Charlie made a model in {played.seconds:.1f} s",
        {
            **played.result,
            "demo": {
                "directory": str(plan.directory),
                "seconds": round(played.seconds, 3),
                "ciphertexts": played.ciphertexts,
                "records": cohort.origin,
                "notes": list(cohort.notes),
                "private_figures": played.comparison.to_json(),
            },
        },
        shown=(
            *descent(played.result),
            *evaluation_shown(played.result.get("evaluation")),
            *statement(played.result["statement"], played.result["epsilon"], brief=True),
            *outcome,
        ),
    )


def _study(path: Path | None) -> "Study | None":
    from masquerade.draft import with_some_keys
    from masquerade_core.study import Study
    from masquerade_core.study_files import read_study_text

    # A demonstration makes keys of its own, so a draft without keys will do.
    return None if path is None else Study.parse(with_some_keys(read_study_text(path)), str(path), in_memory=True)


def _cohort(protocol: "Protocol", dataset: Source | None, parties: int | None, own: "Mapping[str, Any]") -> "Cohort":
    from masquerade import datasets
    from masquerade_core.errors import BadInput

    for option, value in own.items():
        if value is not None:
            raise BadInput(f"{option} is for your own records, but no --data FILE was given", "add --data FILE")
    if parties is not None:
        _check_parties(parties)
    if dataset is None:
        return datasets.suited(protocol, parties)
    K = 5 if parties is None else parties
    if dataset is Source.SIMULATED:
        return datasets.simulated_for(protocol, K)
    return datasets.breast_cancer(K) if dataset is Source.BREAST_CANCER else datasets.returning(K)


def _own_cohort(data: Path, dataset: Source | None, parties: int | None, own: "Mapping[str, Any]") -> "Cohort":
    from masquerade.columns import parse_label
    from masquerade.demo.own import Dealing, own_cohort
    from masquerade_core.errors import BadInput

    if dataset is not None:
        raise BadInput(
            "--dataset and --data were both given, but a demonstration has one set of records", "leave one out"
        )
    if parties is not None and own["--by"] is not None:
        raise BadInput(
            "--parties and --by were both given, but with --by the parties are the values of that column",
            "leave one of them out",
        )
    if parties is not None:
        _check_parties(parties)
    return own_cohort(
        data,
        Dealing(own["--by"], parties),
        label=parse_label(own["--label"]) if own["--label"] else None,
        study=own["--study"],
        ignore=own["--ignore"] or (),
        accept=own["--accept"] or (),
        test=own["--test"],
    )


def _check_parties(K: int) -> None:
    from masquerade_core.errors import BadInput

    if not 2 <= K <= _MOST_PARTIES:  # noqa: PLR2004
        raise BadInput(
            f"--parties is {K}, but a demonstration has 2 to {_MOST_PARTIES} parties",
            f"give --parties a number from 2 to {_MOST_PARTIES}",
        )


def _title(console: "Console") -> None:
    from rich.text import Text

    console.print(
        Text.assemble("\n  ", ("masquerade", "bold magenta"), "  a whole run on this machine"), soft_wrap=True
    )


def _introduce(console: "Console", plan: "Plan", *, loud: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from masquerade.demo.outcome import foreseen_of

    study = plan.study
    where = f"{study.K + 1} processes, real keys"
    if plan.in_memory:
        where = "in this one process, which is a simulation and no private release"
    console.print(
        Text(
            f"  {study.study.protocol}, epsilon = {study.privacy.epsilon:g}\n"
            f"  {plan.cohort.origin}, {study.K} parties and Charlie: {where}",
        ),
        soft_wrap=True,
    )
    if loud:
        console.print(
            Text.assemble(
                "\n  ",
                ("demo only:", "bold yellow"),
                " bounds and levels were read off these records and are no longer secret. Bounds are rounded.\n  A "
                "real study states them beforehand; give one with --study.",
            ),
            soft_wrap=True,
        )
    for note in plan.cohort.notes:
        console.print(Padding(Text(f"- {note}"), (0, 2, 0, 2)))
    if foreseen := foreseen_of(study):
        console.print(Padding(Text(foreseen.text, style="yellow" if foreseen.poor else ""), (1, 2, 0, 2)))
