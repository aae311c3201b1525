"""The end of a demonstration: errors side by side, whether joining was worth it, and where things are."""

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.coefficients_view import coefficients_report, read_coefficients
from masquerade.console import literal_console
from masquerade.demo.plan import Plan
from masquerade.demo.play import Played
from masquerade.demo.worth import gained
from masquerade.evaluation_view import evaluation_shown
from masquerade.report import costs, descent, heading, program, short, statement
from masquerade_core.privacy.expectation import Expectation
from masquerade_core.study import CHARLIE, Study
from masquerade_core.words import counted
from masquerade_protocols import DEFAULT_PROTOCOL, entry_named, protocol_of

__all__ = ["foreseen_of", "outcome_shown", "write_report"]


def foreseen_of(study: Study) -> Expectation | None:
    """Return what was to be expected of the model, where its protocol says so."""
    tell = protocol_of(study).expectation
    return tell(study) if tell is not None else None


def outcome_shown(plan: Plan, played: Played) -> tuple[RenderableType, ...]:
    """Return all that a demonstration says after the statement."""
    me = program()
    protocol, calibration = entry_named(plan.study.study.protocol), plan.study.privacy.calibration
    chosen = "" if protocol.name == DEFAULT_PROTOCOL else f" --protocol {protocol.name}"
    chosen += "" if calibration == protocol.default_calibration else f" --calibration {calibration}"
    few = "" if protocol.learns_from_hundreds else ", which are too few for this protocol"
    real = f"{me} demo{chosen} --dataset breast-cancer", f"the same with 569 real records{few}"
    own = f"{me} demo{chosen} --data FILE --label COLUMN:POSITIVE", "the same with your own records"
    another = () if protocol.protects_parties else (*([real] if plan.cohort.simulated else ()), own)
    result, other, where = played.result, played.comparison, plan.directory
    parties = ((f"{where}/{plan.study.names[0]}/", "all that this party has; the other parties likewise"),)
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
    if other.alike is not None:
        dealt = "as many of all these records, drawn at random"
        errors.add_row("the largest, if all were alike", f"{other.alike:.1%}", dealt)
    errors.add_row("the released model without noise", f"{other.without_noise:.1%}", other.noiseless)
    errors.add_row("no model: the more frequent label", f"{other.majority:.1%}", "")
    parts: list[RenderableType] = [
        heading("Error on the public test set", f"{len(plan.cohort.test.rows):,} records"),
        Padding(errors, (0, 0, 0, 2)),
        Text("  all but the first: demo only, private figures; a real run shows them to nobody", style="italic dim"),
    ]
    if (coefficients := read_coefficients(where / CHARLIE)) is not None:
        parts += coefficients_report(coefficients)
    foreseen = foreseen_of(plan.study)
    verdict = foreseen.verdict if foreseen is not None else None
    if got := gained(result["metrics"]["test_error"], other.pooled, other.majority, verdict):
        parts.append(Padding(Text(got), (1, 2, 0, 2)))
    if other.worth:
        parts.append(Padding(Text(other.worth, style="bold"), (1, 2, 0, 2)))
    before = f"Before the run: {foreseen.text}" if other.useless and foreseen is not None else ""
    warnings = filter(None, (other.same_answer, other.advice, before))
    parts += [Padding(Text(words, style="yellow"), (1, 2, 0, 2)) for words in warnings]
    parts += [
        heading("What was said"),
        Padding(Text(_said(plan, played)), (0, 2, 0, 2)),
        heading("Where things are"),
        _pairs(
            (f"{where}/charlie/", "model.json and result.json: what Charlie publishes"),
            *(() if plan.in_memory else parties),
            (f"{where}/report.txt", "this report, each line of the statement explained"),
        ),
        heading("What next"),
        _commands(
            (f"{me} study show {plan.study_file}", "what the parties agreed to, in plain words"),
            (f"{me} predict {where}/charlie/model.json {plan.test_file}", "label new records with the model"),
            *another,
        ),
        Text(f"\n  {played.seconds:.1f} s in all; Charlie worked for {result['seconds']:.1f} s\n", style="dim"),
    ]
    return tuple(parts)


def _said(plan: Plan, played: Played) -> str:
    """Return which stages ran, how much was encrypted, and how that compares with the paper."""
    begun = [stage["name"] for stage in played.result["stages"] if stage["name"] in protocol_of(plan.study).stages]
    how = "Nothing was encrypted: masks hide what goes into the sums."
    if played.ciphertexts:
        his = f"Charlie sent {played.result['ciphertexts']:,} of them, which his result.json counts"
        everybodys = f"All participants together sent {counted(played.ciphertexts, 'ciphertext')}"
        how = f"{everybodys}, under keys of {plan.study.key_bits:,} bits; {his}."
    tell = protocol_of(plan.study).beside_the_paper
    said = f"Stages: {', '.join(begun)}. {how}"
    return f"{said} {tell(plan.study)}" if tell is not None else said


def _pairs(*rows: tuple[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for left, right in rows:
        table.add_row(Text(left), Text(right))
    return Padding(table, (0, 0, 0, 2))


def _commands(*rows: tuple[str, str]) -> RenderableType:
    lines = (Text.assemble("  ", line, (f"\n    {why}", "dim")) for line, why in rows)
    return Text("\n").join(lines)


def write_report(plan: Plan, played: Played, outcome: tuple[RenderableType, ...]) -> None:
    """Leave a plain text for its readers: an ethics board, a data steward."""
    with (plan.directory / "report.txt").open("w", encoding="utf-8") as file:
        console = literal_console(file=file, width=100, color_system=None, force_terminal=False, legacy_windows=False)
        console.print(f"masquerade demo: {plan.cohort.origin}, epsilon = {plan.study.privacy.epsilon:g}\n")
        for note in plan.cohort.notes:
            console.print(f"- {note}")
        said = statement(played.result["statement"], played.result["epsilon"], full=True)
        measured = evaluation_shown(played.result.get("evaluation"))
        for part in (costs(played.result), *descent(played.result), *measured, *said, *outcome):
            console.print(part)
