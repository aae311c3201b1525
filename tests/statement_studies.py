"""Studies of every protocol, written as text, and the numbers that their privacy statements hold.

``tests/statement_numbers.json`` was written before the statements moved to their protocols' folders. The words of a row
may change; its numbers may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masquerade_core.study import PublicKeys, Study
from masquerade_protocols import statement_of

_NUMBER = re.compile(r"(?<![A-Za-z_])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_SHAPES = ((2, 3, 100, 1.0, 1e-6), (3, 10, 500, 0.1, 1e-5), (5, 31, 80, 1.0, 1e-6), (20, 124, 300, 4.0, 1e-3))
_AUXILIARY = f'[protocol.auxiliary]\nfile = "points.csv"\nsha256 = "{"0" * 64}"\nrecords = 200'
_FEW_AUXILIARY = _AUXILIARY.replace("records = 200", "records = 64")

_SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "dp-gd": {
        "proven": ("rounds = 20\nclip = 0.5\nlearning_rate = 4.0", "rounds = 10\nclip = 0.25\nlearning_rate = 1.0")
    },
    "local-aggregation": {
        "paper": ('noise = "laplace"', 'noise = "l2"'),
        "proven": ('scale = "selected"', 'scale = "floor"', 'weights = "sizes"'),
    },
    "psgd": {"paper": ("rounds = 100", "rounds = 7"), "proven": ("rounds = 100", "rounds = 7")},
    "noisy-gradient": {"paper": ("rounds = 20",)},
    "decaying-budget": {"paper": ("rounds = 12",)},
    "input-noise": {
        "paper": (
            "alpha = 1.0",
            'alpha = 0.5\nnoise = "l2"',
            "alpha = 2.0\nonce = false\nepochs = 3",
            'alpha = 1.0\nlabels = "randomised-response"\nepsilon_y = 0.05',
        ),
        "proven": (
            'labels = "randomised-response"\nepsilon_y = 0.03',
            'noise = "l2"\nlabels = "randomised-response"\nepsilon_y = 0.03',
        ),
    },
    "weighted-dp": {
        "paper": (
            "c = 16.0",
            "c = 2.0\nrounds = 50",
            'c = 16.0\nweights = "uniform"',
            "c = 20.0\nsmallest_part = 0.02",
        ),
        "proven": ("", "rounds = 50"),
    },
    "vote": {"paper": (f'ties = "first"\n{_AUXILIARY}',), "proven": (f'ties = "first"\n{_AUXILIARY}',)},
    "soft": {
        "paper": (_AUXILIARY, f"private_auxiliary = true\n{_AUXILIARY}"),
        "proven": (_AUXILIARY, _FEW_AUXILIARY),
    },
    "gop": {"paper": ("",), "proven": ("",)},
    "central-dp": {"paper": ("c = 16.0", "c = 4.0\nrounds = 30"), "proven": ("", "rounds = 30")},
    "pooled": {"paper": ("",)},
    "individual": {"paper": ("",)},
    "batch": {"paper": ("",)},
    "average": {"paper": ("",)},
}


def _key(name: str) -> str:
    return str(PublicKeys((name + " curve").ljust(32).encode(), (name + " sign").ljust(32).encode()))


def study_text(
    protocol: str,
    calibration: str,
    section: str,
    *,
    K: int,
    d: int,
    min_records: int,
    epsilon: float,
    delta: float,
    colluders: int,
    classes: bool = False,
) -> str:
    """Write one study: K parties, d features in the unit interval, no intercept."""
    label = 'classes = ["a", "b", "c"]' if classes else 'positive = "1"'
    lines = [
        f'[study]\nname = "numbers"\nprotocol = "{protocol}"\nmin_parties = 2\nlead = "p0"',
        f'min_records = {min_records}\ndeadline_seconds = 60.0\nnonce = "0123456789abcdef"',
        f'[privacy]\nepsilon = {epsilon}\ndelta = {delta}\ncalibration = "{calibration}"\ncolluders = {colluders}',
        "[model]\nregularization = 0.05\nintercept = false",
        f'[crypto]\nkey_bits = 2048\n[protocol]\n{section}\n[label]\nname = "y"\n{label}',
        f'[curator]\naddress = "tcp://127.0.0.1:5555"\nkey = "{_key("charlie")}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "p{j}"\nkey = "{_key(f"p{j}")}"' for j in range(K)),
    ]
    return "\n".join(lines)


def studies() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every study."""
    for path in sorted(Path("examples").glob("*/study.toml")):
        yield f"the example {path.parent.name}", path.read_text(encoding="utf-8")
    for protocol, by_calibration in _SECTIONS.items():
        for calibration, sections in by_calibration.items():
            for number, section in enumerate(sections):
                for K, d, min_records, epsilon, delta in _SHAPES:
                    for colluders in sorted({0, 1, K - 1}):
                        for classes in (False, True) if protocol in {"vote", "soft", "average"} else (False,):
                            kind = " of classes" * classes
                            name = f"{protocol} {calibration} {number}: K={K} d={d} t={colluders}{kind}"
                            yield (
                                name,
                                study_text(
                                    protocol,
                                    calibration,
                                    section,
                                    K=K,
                                    d=d,
                                    min_records=min_records,
                                    epsilon=epsilon,
                                    delta=delta,
                                    colluders=colluders,
                                    classes=classes,
                                ),
                            )


def numbers(text: str) -> list[list[Any]]:
    """Return a statement's rows: unit, epsilon, delta, and the numbers in its texts."""
    rows: list[list[Any]] = []
    for claim in statement_of(Study.parse(text, in_memory=True)):
        shown = [_NUMBER.findall(part) for part in (claim.claimed, claim.provable, claim.holds_at)]
        rows.append([claim.unit, claim.epsilon, claim.delta, *shown])
    return rows
