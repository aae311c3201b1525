"""The measurements and the limits: tables for people, JSON for machines."""

import json
import math
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gmpy2
import phe
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measure import MANY, Bench, MessageSize
from benchmarks.meter import COUNTED, STEPS

__all__ = ["GATES", "Gate", "print_report", "write_json"]


@dataclass(frozen=True)
class Gate:
    """One figure with its limit; ``against`` names the figure of plain phe, where that was run.

    The limit is a largest value, or the ``least`` one. What is ``counted`` is the same on every machine.
    """

    title: str
    figure: str
    limit: float
    against: str | None = None
    least: bool = False
    counted: bool = False

    def bound(self, slack: float) -> float:
        """Return the limit; one of time is wider by a factor ``slack``, which is at least 1."""
        if self.counted:
            return self.limit
        return self.limit / slack if self.least else self.limit * slack

    def passes(self, bench: Bench, slack: float = 1.0) -> bool:
        """Say whether the median is within the limit."""
        middle = median(bench.values[self.figure])
        return middle >= self.bound(slack) if self.least else middle <= self.bound(slack)


GATES = (
    Gate("K=5, everything", "K=5 total", 80, against="K=5 phe"),
    Gate(f"K={MANY}, arithmetic", f"K={MANY} arithmetic", 800),
    Gate("32-bit comparison", "comparison", 4, against="comparison phe"),
    Gate("K=5, bytes sent*", "K=5 bytes", 20_000, counted=True),
    Gate("a round, ciphertexts sent*", "round ciphertexts", 3, counted=True),
    Gate("a round, bytes sent*", "round bytes", 1_900, counted=True),
    Gate("a round, ordinary party, gradient included", "round party", 0.5, against="round party phe"),
    Gate("a round, lead, gradient included", "round lead", 1.5, against="round lead phe"),
    Gate(
        "a round, Charlie's arithmetic, alone, set-up included",
        "round charlie arithmetic",
        0.03,
        against="round charlie phe",
    ),
    Gate("a round / (decryption + round trip)", "wall / floor", 2),
    Gate("a round / MPyC's", "wall / MPyC", 1.5),
    Gate("masks, a round, ordinary party", "masks party", 0.06),
    Gate("masks, a round, ordinary party / Paillier's", "masks party / Paillier", 0.35),
    Gate("masks, a round, first party / ordinary party", "masks first party / party", 1.3),
    Gate("masks, a round, Charlie, all included", "masks charlie", 0.10),
    Gate("masks, a round, Charlie's additions alone", "masks charlie additions", 0.002),
    Gate("masks, a round, ordinary party, K=60", "masks party K=60", 0.16),
    Gate("masks, a round, ordinary party, d=5,000", "masks party d=5000", 0.2),
    Gate("masks, d=5,000, Paillier's party / ordinary party", "masks party d=5000, Paillier / masks", 30, least=True),
    Gate("masks, d=100,000, 2 neighbours: party / ChaCha20", "masks party / ChaCha20, 2 neighbours", 3.5),
    Gate("masks, d=10,000, 64 neighbours: party / ChaCha20", "masks party / ChaCha20, 64 neighbours", 2),
    Gate("masks, psgd, ordinary party, all included", "masks psgd party", 0.25),
    Gate("masks, psgd, first party, all included", "masks psgd first party", 0.28),
    Gate("masks, bytes of a contribution beside its words", "masks bytes beside the coordinates", 240, counted=True),
    Gate("masks, boxes in the set-up, K=5", "masks boxes in the set-up", 4, counted=True),
    Gate("masks, forged sums accepted of 10,000", "masks forged sums accepted", 0, counted=True),
    Gate("masks, wall / Paillier's", "masks wall / Paillier", 0.5),
    Gate("masks, wall / MPyC's", "masks wall / MPyC", 0.35),
    Gate("Charlie per party, K=1000 / K=10", "growth, Charlie per party, K=1000 / K=10", 1.2),
)


def _spread(values: list[float]) -> tuple[str, str, str]:
    return tuple(_number(v) for v in (min(values), median(values), max(values)))  # type: ignore[return-value]  # three


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"


def print_report(bench: Bench, console: Console, slack: float = 1.0) -> bool:
    """Print all tables; return whether every limit is kept, where those of time are wider by a factor."""
    e = [1000 * s for s in bench.yardstick.samples] or [math.nan]
    console.print(
        f"{platform.machine()}, Python {platform.python_version()}, gmpy2 {gmpy2.version()}, phe {phe.__version__}; "
        f"{bench.rounds} round(s).\n"
        f"E = CPU time of one phe raw_encrypt at 2048 bits: {min(e):.2f} / {median(e):.2f} / {max(e):.2f} ms "
        f"(min / median / max of {len(e)}).\nd = 123; key generation and training are not counted.\n"
        + "".join(f"{what}: {fact}.\n" for what, fact in bench.facts.items())
    )
    kept = _print_gates(bench, console, slack)
    _print_others(bench, console)
    for where in bench.by_step:
        _print_steps(bench, where, console)
    if bench.steps_of_round:
        _print_round(bench, console)
    if bench.by_parties:
        _print_growth(bench, console)
    for title, messages in (("local aggregation, K=5", bench.messages), ("a round, K=5", bench.messages_of_round)):
        if messages:
            _print_messages(title, messages, console)
    return kept


def _measured(bench: Bench) -> tuple[Gate, ...]:
    return tuple(gate for gate in GATES if gate.figure in bench.values)


def _print_gates(bench: Bench, console: Console, slack: float) -> bool:
    table = Table(
        "figure",
        title="Limits",
        caption="in E, unless something else is said; * by one ordinary party, whole frames",
        box=box.SIMPLE_HEAD,  # narrow: at 80 columns no word of a figure's name is cut
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in ("min", "median", "max", "limit", "phe", "phe/ours"):
        table.add_column(column, justify="right")
    table.add_column("")
    for gate in _measured(bench):
        values = bench.values[gate.figure]
        plain = median(bench.values[gate.against]) if gate.against else None
        table.add_row(
            gate.title,
            *_spread(values),
            _number(gate.bound(slack)),
            "" if plain is None else _number(plain),
            "" if plain is None else f"{plain / median(values):.1f}",
            "kept" if gate.passes(bench, slack) else "MISSED",
        )
    console.print(table)
    return all(gate.passes(bench, slack) for gate in _measured(bench))


def _print_others(bench: Bench, console: Console) -> None:
    table = Table("figure", title="All figures (in E; bytes in bytes)")
    for column in ("min", "median", "max"):
        table.add_column(column, justify="right")
    for figure, values in bench.values.items():
        table.add_row(figure, *_spread(values))
    console.print(table)


def _print_steps(bench: Bench, where: str, console: Console) -> None:
    steps = bench.by_step[where]
    parties = int(where.removeprefix("K="))
    counts = {"ordinary party": parties - 1, "lead": 1, "Charlie": 1, "table": 1}
    table = Table("step", title=f"{where}: medians in E; all = {parties - 1} ordinary parties, lead and Charlie")
    for role in ("ordinary party", "lead", "Charlie", "all"):
        table.add_column(role, justify="right")
    sums = dict.fromkeys(counts, 0.0)
    for step in STEPS:
        if step not in COUNTED or not any(median(steps[role, step]) for role in counts):
            continue
        row = {role: median(steps[role, step]) for role in counts}
        sums = {role: sums[role] + row[role] for role in counts}
        _add_steps(table, step, row, counts)
    table.add_section()
    _add_steps(table, "sum", sums, counts)
    console.print(table)


def _add_steps(table: Table, title: str, row: dict[str, float], counts: dict[str, int]) -> None:
    total = sum(row[role] * count for role, count in counts.items())
    shown = [row[role] for role in ("ordinary party", "lead", "Charlie")]
    table.add_row(title, *(f"{v:.2f}" if v else "" for v in (*shown, total)))


def _print_round(bench: Bench, console: Console) -> None:
    """One round of gradient descent: a hundredth of a run."""
    roles = {"party": "ordinary party", "lead": "lead", "charlie": "Charlie"}
    table = Table("step", *roles.values(), title="A round of gradient descent, K=5: medians in E")
    for column in table.columns[1:]:
        column.justify = "right"

    def row(title: str, values: list[float]) -> None:
        table.add_row(title, *(f"{v:.4f}" if v else "" for v in values))

    for step in COUNTED:
        values = [median(bench.steps_of_round[role, step]) for role in roles]
        if any(values):
            row(step, values)
    table.add_section()
    row("sum", [median(bench.values[f"round {role}"]) for role in roles])
    for part in ("offline", "online"):
        row(f"  {part}", [median(bench.values[f"round {role} {part}"]) for role in roles])
    console.print(table)


def _print_growth(bench: Bench, console: Console) -> None:
    table = Table("K", "d", "ciphertexts", "party, E", "lead, E", "Charlie, E", "Charlie/K, E", "bytes", title="Growth")
    for p in (*bench.by_parties, *bench.by_length):
        costs = (p.ring.party, p.ring.lead, p.ring.charlie, p.ring.charlie / p.K)
        table.add_row(
            f"{p.K:,}", f"{p.d:,}", str(p.ciphertexts), *(f"{cost:.3g}" for cost in costs), f"{p.ring.sent:,.0f}"
        )
    console.print(table)


def _print_messages(title: str, messages: list[MessageSize], console: Console) -> None:
    table = Table("from", "type", title=f"{title}: frames on the wire, in whole bytes")
    for column in ("frames", "shortest", "longest"):
        table.add_column(column, justify="right")
    for m in messages:
        table.add_row(m.source, m.type, str(m.frames), f"{m.shortest:,}", f"{m.longest:,}")
    console.print(table)


def write_json(bench: Bench, path: Path) -> None:
    """Write everything that was measured, samples included."""
    data: dict[str, Any] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {"gmpy2": gmpy2.version(), "phe": phe.__version__},
        "rounds": bench.rounds,
        "e_seconds": bench.yardstick.samples,
        "figures": bench.values,
        "gates": [
            {**asdict(gate), "median": median(bench.values[gate.figure]), "kept": gate.passes(bench)}
            for gate in _measured(bench)
        ],
        "steps": {
            where: [{"role": role, "step": step, "e": values} for (role, step), values in steps.items()]
            for where, steps in bench.by_step.items()
        },
        "messages": [asdict(m) for m in bench.messages],
        "facts": bench.facts,
        "steps_of_round": [
            {"role": role, "step": step, "e": values} for (role, step), values in bench.steps_of_round.items()
        ],
        "messages_of_round": [asdict(m) for m in bench.messages_of_round],
        "growth": [asdict(p) for p in (*bench.by_parties, *bench.by_length)],
    }
    path.write_text(json.dumps(data, indent=2) + "\n")
