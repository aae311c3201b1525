"""``masquerade audit``: lower bounds on epsilon from thousands of runs, beside what is claimed or proved."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from masquerade_core.study import Study
    from masquerade_lab.audit import Finding
    from masquerade_lab.audit.study import StudyFinding

__all__ = ["audit"]


_RUNS = 400


def audit(
    study: Annotated[
        Path | None,
        typer.Argument(
            help="Your own study, to be run with made-up records. Without one, this program's own audits are run.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs, and no slow audits.")] = False,
    protocol: Annotated[str | None, typer.Option(help="Only the audits of this protocol.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw claims, proofs and bounds into this SVG file.", show_default=False)
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=20,
            help=f"The number of runs of your study with each of two data sets; {_RUNS} by default. Before "
            "the runs begin, the command prints how many are enough.",
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Attack thousands of runs, and print how large epsilon must be at least. The exit code is 1 if an audit fails."""
    from masquerade.working import progress_bar
    from masquerade_core.errors import BadInput

    as_json = output_format is Format.JSON
    if study is not None:
        if quick or protocol or plot:
            raise BadInput(
                "--quick, --protocol and --plot choose among this program's own audits, but a study was given",
                "leave them out, or leave the study out",
            )
        return _own(study, runs or _RUNS, as_json=as_json)
    if runs is not None:
        raise BadInput(
            "--runs was given without a study, but the number of runs of this program's own audits is fixed",
            "leave --runs out, or name a study",
        )

    from masquerade_lab.audit import audits, run
    from masquerade_lab.audit.plot import plot as draw
    from masquerade_lab.reproduce.engine.drawing import require_matplotlib

    if plot is not None:
        require_matplotlib()
    with progress_bar(disable=as_json) as bar:
        task = bar.add_task("audits")
        findings = run(
            audits(protocol),
            quick=quick,
            progress=lambda done, of, what: bar.update(task, completed=done, total=of, description=what),
        )
    if plot is not None:
        draw(findings, plot)
    return _outcome(findings)


def _own(path: Path, runs: int, *, as_json: bool) -> Outcome:
    from masquerade.console import literal_console
    from masquerade.working import progress_bar
    from masquerade_core.study_files import load_study
    from masquerade_lab.audit.study import audit_study, check_runs

    study, auxiliary = load_study(path, in_memory=True)
    check_runs(study, runs)
    if not as_json:
        literal_console().print(_beforehand(study, runs))
    with progress_bar(disable=as_json) as bar:
        task = bar.add_task("runs")
        found = audit_study(
            study,
            auxiliary=auxiliary,
            runs=runs,
            progress=lambda done, of, what: bar.update(task, completed=done, total=of, description=what),
        )
    privacy = found.study.privacy
    target = f"epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}"
    seen = (
        f"{runs:,} runs with each of two data sets that differ in one {found.unit} show that the released model has "
        f"epsilon >= {found.bound:.3f}, at 99 % confidence"
    )
    if found.exceeded:
        return Outcome(
            f"exceeded: {seen}, but the study's privacy target is {target}",
            found.to_json(),
            hint="do not run this study with real records; 'masquerade statement' says what is proved of it",
            error_code="run_failed",
            exit_code=1,
        )
    proves = f"The study's privacy target is {target}. The runs do not refute it, and they do not prove it."
    return Outcome(f"{found.verdict}: {seen}. {proves} {_power(found)}", found.to_json())


def _beforehand(study: "Study", runs: int) -> str:
    """Say how many runs are enough, before anybody waits for them."""
    from masquerade_lab.audit.power import MOST_RUNS
    from masquerade_lab.audit.study import runs_enough

    enough = runs_enough(study)
    if enough is not None and enough <= runs:
        return (
            f"{runs:,} runs with each of two data sets are enough to notice half of the noise, if the made-up record "
            f"moves the model as far as a proof allows; {enough:,} would be enough too"
        )
    number = f"more than {MOST_RUNS:,}" if enough is None else f"{enough:,}"
    return (
        f"{runs:,} runs with each of two data sets are too few to notice half of the noise. --runs {number} would be "
        "enough, if the made-up record moves the model as far as a proof allows. "
        "Fewer runs notice only noise that is far too small; afterwards this command says how small"
    )


def _power(found: "StudyFinding") -> str:
    """Say below which fraction of the noise this audit would have noticed it."""
    if found.control is None:
        return "This protocol's noise is not drawn by masquerade's samplers, so no control was possible"
    half = f"With half of the noise, as many runs show epsilon >= {found.control:.3f}"
    if not found.noticed:
        return f"{half}. The audit would not have noticed noise that is 1/128 of the right amount, or missing"
    return f"{half}. The audit would have noticed noise below {found.noticed:.3g} of the right amount"


def _outcome(findings: "Sequence[Finding]") -> Outcome:
    failed = [f for f in findings if not f.holds]
    return Outcome(
        f"{len(failed)} of {len(findings)} audits failed: {failed[0].audit.name}"
        if failed
        else f"all {len(findings)} audits passed",
        {"audits": [f.to_json() for f in findings]},
        shown=_shown(findings, failed=bool(failed)),
        error_code="run_failed" if failed else None,
        exit_code=1 if failed else 0,
    )


def _shown(findings: "Sequence[Finding]", *, failed: bool) -> "list[RenderableType]":
    from rich.text import Text

    from masquerade_lab.audit import Gate

    heads = {
        Gate.REFUTED: "Claims of papers: each bound must exceed the claim (jointly at 95 %)",
        Gate.CAUGHT: "Known bugs, made on purpose: each must exceed the privacy target (jointly at 95 %)",
        Gate.HOLDS: "Proofs: no bound may exceed what is proved; with half of the noise each must (jointly at 99.9 %)",
    }
    parts: list[RenderableType] = []
    for gate, head in heads.items():
        rows = [f for f in findings if f.audit.gate is gate]
        if rows:
            parts += [Text(f"\n{head}", style="bold"), _table(rows)]
    if not failed:
        parts.append(Text(f"\nall {len(findings)} audits passed", style="bold green"))
    return parts


def _table(findings: "Sequence[Finding]") -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from masquerade_lab.audit import Gate

    gate = findings[0].audit.gate
    said = {Gate.REFUTED: ["claimed", "proved"], Gate.CAUGHT: ["target", "proved"], Gate.HOLDS: ["proved"]}[gate]
    control = ["half noise", "noticed below", "and there"] if gate is Gate.HOLDS else []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", min_width=18)
    for heading in ["runs", "delta", *said, "at least", *control]:
        table.add_column(heading, justify="right", no_wrap=heading != "noticed below")
    table.add_column("", no_wrap=True)
    for finding in findings:
        table.add_row(*cells(finding), Text(finding.verdict, style="green" if finding.holds else "bold red"))
    return table


def cells(finding: "Finding") -> list[str]:
    """Return a finding's row without its verdict, as the command prints it and the documentation shows it."""
    a, proof = finding.audit, finding.control is not None
    row = [a.name, f"{finding.runs:,}", f"{a.delta:g}"]
    row += [] if proof else [f"{a.epsilon:g}"]
    row += ["" if a.proved is None else f"{a.proved:.4g}", f"{finding.bound:.3f}"]
    if not proof:
        return row
    noticed = "" if finding.noticed is None else f"{finding.noticed:.2f}"
    return [*row, f"{finding.control:.3f}", noticed, "" if finding.checked is None else f"{finding.checked:.3f}"]
