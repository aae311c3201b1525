"""``masquerade audit``: what thousands of runs show of epsilon, beside what is claimed and what is proved."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from masquerade.audit import Finding

__all__ = ["audit"]


def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs, and without what is slow.")] = False,
    protocol: Annotated[str | None, typer.Option(help="The audits of this protocol alone.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw claim, proof and audit into this SVG file.", show_default=False)
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Bound epsilon from below by attacking many runs; 1 is returned if a bound is not where it must be."""
    from rich.console import Console
    from rich.progress import Progress

    from masquerade.audit import audits, run

    with Progress(console=Console(stderr=True), transient=True, disable=output_format is Format.JSON) as bar:
        task = bar.add_task("audits")
        findings = run(
            audits(protocol),
            quick=quick,
            progress=lambda done, of, name: bar.update(task, completed=done, total=of, description=name),
        )
    if plot is not None:
        from masquerade.audit.plot import plot as draw

        draw(findings, plot)
    return _outcome(findings)


def _outcome(findings: "Sequence[Finding]") -> Outcome:
    failed = [f for f in findings if not f.holds]
    return Outcome(
        f"{len(failed)} of {len(findings)} audits are not as they must be: {failed[0].audit.name}"
        if failed
        else f"all {len(findings)} audits are as they must be",
        {"audits": [f.to_json() for f in findings]},
        shown=_shown(findings, failed=bool(failed)),
        error_code="run_failed" if failed else None,
        exit_code=1 if failed else 0,
    )


def _shown(findings: "Sequence[Finding]", *, failed: bool) -> "list[RenderableType]":
    from rich.text import Text

    from masquerade.audit import Gate

    heads = {
        Gate.REFUTED: "What papers claim: the bound, at 95 %, must exceed it",
        Gate.CAUGHT: "Slips in the noise: the bound, at 95 %, must exceed what was wished for",
        Gate.HOLDS: "What is proved: no bound, at 99.9 % for all, may exceed it; with less noise each must",
    }
    parts: list[RenderableType] = []
    for gate, head in heads.items():
        rows = [f for f in findings if f.audit.gate is gate]
        if rows:
            parts += [Text(f"\n{head}", style="bold"), _table(rows)]
    if not failed:
        parts.append(Text(f"\nall {len(findings)} audits are as they must be", style="bold green"))
    return parts


def _table(findings: "Sequence[Finding]") -> "RenderableType":
    from rich import box
    from rich.table import Table

    proof = findings[0].control is not None
    headings = ["runs", "delta"] + (["proved"] if proof else ["claimed", "proved"]) + ["at least"]
    headings += ["less noise"] * proof
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", min_width=22)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for finding in findings:
        style = "green" if finding.holds else "bold red"
        table.add_row(*cells(finding), f"[{style}]{finding.verdict}[/]")
    return table


def cells(finding: "Finding") -> list[str]:
    """Return a finding's row without its verdict, as it is printed here and stands in the documentation."""
    a, proof = finding.audit, finding.control is not None
    row = [a.name, f"{finding.runs:,}", f"{a.delta:g}"]
    row += [] if proof else [f"{a.epsilon:g}"]
    row += ["" if a.proved is None else f"{a.proved:.4g}", f"{finding.bound:.3f}"]
    return [*row, f"{finding.control:.3f} ({a.control})"] if proof else row
