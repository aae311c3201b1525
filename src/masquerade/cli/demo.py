"""``masquerade demo``: a whole run on this machine, with a process for each participant."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, RenderableType

    from masquerade.datasets import Cohort
    from masquerade.demo import Plan, Played
    from masquerade_core.study import Study
    from masquerade_protocols import Protocol

__all__ = ["demo"]

_MOST_PARTIES = 64


class Source(StrEnum):
    """Which records."""

    SIMULATED = "simulated"
    BREAST_CANCER = "breast-cancer"


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
        typer.Option(help="How many parties. If not given, 5, or as many as --study has.", show_default=False),
    ] = None,
    dataset: Annotated[
        Source | None,
        typer.Option(
            help="Which records. If not given: breast-cancer where the protocol can learn from a few hundred records "
            "and there are up to 16 parties, else simulated.",
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
            help="With --data: a column that is not learned from, such as a patient's number. Give it once for each "
            "column.",
            show_default=False,
        ),
    ] = None,
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
        typer.Option(help="How many rounds, for a protocol with rounds. Its default if not given.", show_default=False),
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
    from masquerade.demo import discard, play, prepare
    from masquerade.demo.view import view_for
    from masquerade.evaluation_view import evaluation_shown
    from masquerade.report import descent, statement
    from masquerade_protocols import DEFAULT_PROTOCOL, entry_named, protocol_of

    console = literal_console()
    template = _study(study)
    protocol = protocol or (DEFAULT_PROTOCOL if template is None else template.study.protocol)
    own = {"--by": by, "--label": label, "--ignore": ignore, "--test": test, "--study": template}
    if data is None:
        cohort = _cohort(entry_named(protocol), dataset, parties, own)
    else:
        cohort = _own_cohort(data, dataset, parties, own)
    target = epsilon if epsilon is not None else template.privacy.epsilon if template is not None else 1.0
    existed = out is not None and out.exists()
    plan = prepare(cohort, epsilon=target, protocol=protocol, directory=out, rounds=rounds, like=template)
    try:
        stages = protocol_of(plan.study).stages
        _introduce(console, plan, loud=data is not None and template is None)
        played = play(plan, view_for(console, plan.study.names, stages, plan.study.lead))
    except BaseException:
        discard(plan.directory, ours=not existed)
        raise
    outcome = _outcome(plan, played)
    _write_report(plan, played, outcome)
    return Outcome(
        f"{plan.study.K} parties and Charlie made a model in {played.seconds:.1f} s",
        {
            **played.result,
            "demo": {
                "directory": str(plan.directory),
                "seconds": round(played.seconds, 3),
                "records": cohort.origin,
                "notes": list(cohort.notes),
                "private_figures": played.comparison.to_json(),
            },
        },
        shown=(
            *descent(played.result),
            *evaluation_shown(played.result.get("evaluation")),
            *statement(played.result["statement"], brief=True),
            *outcome,
        ),
    )


def _study(path: Path | None) -> "Study | None":
    from masquerade.draft import with_some_keys
    from masquerade_core.data.auxiliary import read_study_text
    from masquerade_core.study import Study

    # A demonstration makes keys of its own, so a draft without keys will do.
    return None if path is None else Study.parse(with_some_keys(read_study_text(path)), str(path), in_memory=True)


def _cohort(protocol: "Protocol", dataset: Source | None, parties: int | None, own: "Mapping[str, Any]") -> "Cohort":
    from masquerade import datasets
    from masquerade_core.errors import BadInput

    for option, value in own.items():
        if value is not None:
            raise BadInput(f"{option} is for your own records, but no --data FILE was given", "add --data FILE")
    K = 5 if parties is None else parties
    _check_parties(K)
    if dataset is None:
        return datasets.suited(protocol, K)
    return datasets.breast_cancer(K) if dataset is Source.BREAST_CANCER else datasets.simulated(K)


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
        test=own["--test"],
    )


def _check_parties(K: int) -> None:
    from masquerade_core.errors import BadInput

    if not 2 <= K <= _MOST_PARTIES:  # noqa: PLR2004
        raise BadInput(
            f"--parties is {K}, but a demonstration has 2 to {_MOST_PARTIES} parties",
            f"give --parties a number from 2 to {_MOST_PARTIES}",
        )


def _introduce(console: "Console", plan: "Plan", *, loud: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    study = plan.study
    console.print(
        Text.assemble(
            "\n  ",
            ("masquerade", "bold magenta"),
            f"  {study.study.protocol}, epsilon = {study.privacy.epsilon:g}\n"
            f"  {plan.cohort.origin}, {study.K} parties and Charlie: {study.K + 1} processes, real keys",
        ),
        soft_wrap=True,
    )
    if foreseen := _foreseen(study):
        console.print(Padding(Text(foreseen, style="yellow"), (1, 2, 0, 2)))
    if loud:
        console.print(
            Text.assemble(
                "\n  ",
                ("demo only:", "bold yellow"),
                " bounds and levels were read off these records and are no secret any more. Bounds are rounded.\n"
                "  A real study states them beforehand; give one with --study.",
            ),
            soft_wrap=True,
        )
    notes = "".join(f"\n  - {note}" for note in plan.cohort.notes)
    if notes:
        console.print(Text(notes.removeprefix("\n")), soft_wrap=True)


def _foreseen(study: "Study") -> str:
    """Return what was to be expected of the model, where that is not much; else nothing."""
    from masquerade_protocols import protocol_of

    tell = protocol_of(study).expectation
    expected = tell(study) if tell is not None else None
    return expected.text if expected is not None and expected.poor else ""


def _outcome(plan: "Plan", played: "Played") -> "tuple[RenderableType, ...]":
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from masquerade.report import heading, program, short
    from masquerade_protocols import DEFAULT_PROTOCOL, entry_named

    me = program()
    protocol = entry_named(plan.study.study.protocol)
    chosen = "" if protocol.name == DEFAULT_PROTOCOL else f" --protocol {protocol.name}"
    few = "" if protocol.learns_from_hundreds else ", which are too few for this protocol"
    real = f"{me} demo{chosen} --dataset breast-cancer", f"the same with real records{few}"
    own = f"{me} demo{chosen} --data FILE --by COLUMN --label COLUMN:POSITIVE", "the same with your own records"
    another = real if plan.cohort.simulated else own
    result, other, where = played.result, played.comparison, plan.directory
    errors = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    errors.add_column(min_width=34)
    errors.add_column(justify="right")
    errors.add_column(style="dim")
    model = next(iter(result["statement"]), None)
    proved = model["provable"] if model is not None and model["epsilon"] is not None else "nothing"
    errors.add_row(
        Text("the released model", style="bold"),
        Text(f"{result['metrics']['test_error']:.1%}", style="bold green"),
        f"what everybody gets; proved of it: {short(proved)}",
    )
    errors.add_row("all records in one place", f"{other.pooled:.1%}", "no privacy at all; tuned by cross-validation")
    spread = f"tuned alike; the median: {other.median_single:.1%}, the worst: {other.worst_single:.1%}"
    errors.add_row("the best single party", f"{other.best_single:.1%}", spread)
    errors.add_row("the released model without noise", f"{other.without_noise:.1%}", other.noiseless)
    errors.add_row("no model: the more frequent label", f"{other.majority:.1%}", "")
    parts: list[RenderableType] = [
        heading("Error on the public test set", f"{len(plan.cohort.test.rows):,} records"),
        Padding(errors, (0, 0, 0, 2)),
        Text("  all but the first: demo only, private figures; a real run shows them to nobody", style="italic dim"),
    ]
    if other.worth:
        parts.append(Padding(Text(other.worth, style="bold"), (1, 2, 0, 2)))
    foreseen = _foreseen(plan.study) if other.useless else ""
    warnings = filter(None, (other.same_answer, other.advice, foreseen and f"Before the run: {foreseen}"))
    parts += [Padding(Text(words, style="yellow"), (1, 2, 0, 2)) for words in warnings]
    parts += [
        heading("Where things are"),
        _pairs(
            (f"{where}/charlie/", "model.json and result.json: what Charlie publishes"),
            (f"{where}/{plan.study.names[0]}/", "all that this party has; the other parties likewise"),
            (f"{where}/report.txt", "this report, each line of the statement explained"),
        ),
        heading("What next"),
        _commands(
            (f"{me} study show {plan.study_file}", "what the parties agreed to, in plain words"),
            (f"{me} predict {where}/charlie/model.json {plan.test_file}", "label new records with the model"),
            another,
        ),
        Text(f"\n  {played.seconds:.1f} s in all; Charlie worked for {result['seconds']:.1f} s\n", style="dim"),
    ]
    return tuple(parts)


def _pairs(*rows: tuple[str, str]) -> "RenderableType":
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for left, right in rows:
        table.add_row(Text(left), Text(right))
    return Padding(table, (0, 0, 0, 2))


def _commands(*rows: tuple[str, str]) -> "RenderableType":
    from rich.text import Text

    lines = (Text.assemble("  ", line, (f"\n    {why}", "dim")) for line, why in rows)
    return Text("\n").join(lines)


def _write_report(plan: "Plan", played: "Played", outcome: "tuple[RenderableType, ...]") -> None:
    """Leave a plain text for whoever has to read it: an ethics board, a data steward."""
    from masquerade.console import literal_console
    from masquerade.evaluation_view import evaluation_shown
    from masquerade.report import costs, descent, statement

    with (plan.directory / "report.txt").open("w", encoding="utf-8") as file:
        console = literal_console(file=file, width=100, color_system=None, force_terminal=False, legacy_windows=False)
        console.print(f"masquerade demo: {plan.cohort.origin}, epsilon = {plan.study.privacy.epsilon:g}\n")
        for note in plan.cohort.notes:
            console.print(f"- {note}")
        said = statement(played.result["statement"], full=True)
        measured = evaluation_shown(played.result.get("evaluation"))
        for part in (costs(played.result), *descent(played.result), *measured, *said, *outcome):
            console.print(part)
