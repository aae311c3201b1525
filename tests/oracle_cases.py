"""The runs between processes that oracles check, and what is checked of each.

Between them, the cases have every protocol with each of its calibrations, every loss, and both ways to add up; options
are covered in pairs, and not in all products. ``python -m tests.oracle_cases NAME`` runs one of them alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from masquerade_core.study import CHARLIE
from masquerade_protocols.summary.roles import statistics
from tests.clear import counts_of, oracle_of, quiet
from tests.forked import Nursery
from tests.scales import draws_of
from tests.stores import Case, Ran, run_case

__all__ = ["ALL", "QUICK", "REST", "check", "check_nothing_is_left", "named"]

_ATOL = 1e-8
_WRONG = (0.7, 1.3)
_POWER = 0.99
_FAR = 5.5  # standard deviations: one run in 20 million is farther off

_FEW = "rounds = 8"
_DESCENT = "rounds = 5\nlearning_rate = 0.5"
_QUIET = "rounds = 7\nlearning_rate = 0.5\nc = 1e-30"
_COPIES = "batch = 1000\nepochs = 60"
_UNIFORM = '\nweights = "uniform"'
_FIRST = 'ties = "first"'

QUICK = (
    Case("eta and rho", "psgd", "paper", _FEW, levels=144),
    Case("selected", "local-aggregation", "proven", key_bits=2048, levels=144, colluders=2),
    Case("Laplace", "local-aggregation", "paper", key_bits=2048, levels=294),
    Case("noise in every round", "weighted-dp", "paper", f"{_DESCENT}\nc = 16.0", features=150, empty=True),
    Case("noise on the classifier", "vote", "paper", points=30, levels=794),
    Case("Gaussian copies", "input-noise", "paper", f"alpha = 2.5\nlearning_rate = 0.015\n{_COPIES}",
         Lambda=50.0, features=150, empty=True),
)  # fmt: skip
"""The cases that ``make test`` runs."""

REST = (
    Case("smoothed hinge", "psgd", "proven", _FEW, features=40, loss="smoothed-hinge", colluders=2),
    Case("under Paillier", "psgd", "paper", _FEW, levels=144, loss="smoothed-hinge", key_bits=2048),
    Case("every round", "noisy-gradient", "paper", _FEW, levels=54),
    Case("every round, under Paillier", "noisy-gradient", "paper", _FEW, levels=54, key_bits=2048),
    Case("half of what is left, under Paillier", "decaying-budget", "paper", "rounds = 6", levels=54, key_bits=2048),
    Case("half of what is left", "decaying-budget", "paper", "rounds = 6", levels=54, loss="smoothed-hinge"),
    Case("sigmoid, cut gradients", "dp-gd", "proven", f"{_FEW}\nclip = 0.2\nlearning_rate = 1.5",
         features=40, loss="sigmoid", colluders=2),
    Case("under Paillier", "dp-gd", "proven", f"{_FEW}\nclip = 0.3\nlearning_rate = 1.5",
         features=40, key_bits=2048, colluders=2),
    Case("a party leaves", "dp-gd", "proven", "rounds = 40\nclip = 0.3\nlearning_rate = 1.5", features=6,
         sections="[dropouts]\nmin_survivors = 2\nretries = 2\npatience_seconds = 60.0", leaves="gradient 3"),
    Case("l2, equal sizes", "local-aggregation", "paper", 'noise = "l2"', key_bits=2048, levels=294,
         sizes=(25, 60, 25)),
    Case("floor", "local-aggregation", "proven", 'scale = "floor"', key_bits=2048, levels=144),
    Case("sizes", "local-aggregation", "proven", 'weights = "sizes"', key_bits=2048, levels=144, colluders=2),
    Case("seven rounds", "weighted-dp", "paper", _QUIET, loss="smoothed-hinge"),
    Case("uniform, seven rounds of sigmoid", "weighted-dp", "paper", _QUIET + _UNIFORM, loss="sigmoid", key_bits=2048),
    Case("uniform, noise in every round", "weighted-dp", "paper", f"{_DESCENT}\nc = 16.0{_UNIFORM}",
         features=150, empty=True),
    Case("noise in every round", "weighted-dp", "proven", _DESCENT, features=150, empty=True),
    Case("one round", "weighted-dp", "proven", "rounds = 1\nlearning_rate = 0.5", levels=194, loss="smoothed-hinge"),
    Case("l2 copies", "input-noise", "paper", f'alpha = 20.0\nnoise = "l2"\nlearning_rate = 0.00075\n{_COPIES}',
         Lambda=1000.0, features=150, empty=True),
    Case("Gaussian copies, under Paillier", "input-noise", "paper", f"alpha = 2.5\nlearning_rate = 0.015\n{_COPIES}",
         Lambda=50.0, features=150, empty=True, key_bits=2048),
    Case("labels too", "input-noise", "proven",
         f'labels = "randomised-response"\nepsilon_y = 0.3\nlearning_rate = 0.00075\n{_COPIES}',
         Lambda=1000.0, features=150, empty=True, epsilon=4.0),
    Case("smoothed hinge, noisy counts", "vote", "proven", _FIRST, points=150, features=10, loss="smoothed-hinge"),
    Case("two classes", "vote", "proven", _FIRST, points=150, features=10, classes=2, colluders=2),
    Case("three classes", "vote", "paper", _FIRST, points=30, levels=264, classes=3, key_bits=2048),
    Case("private auxiliary", "soft", "paper", "private_auxiliary = true", points=2, levels=794),
    Case("three classes", "soft", "paper", points=30, levels=264, classes=3),
    Case("three classes, noisy counts", "soft", "proven", points=60, features=10, classes=3, key_bits=2048),
    Case("no settings", "dp-whitened", "proven", features=30, sizes=(80, 60, 100), epsilon=4.0),
    Case("three classes, a centre", "dp-whitened", "proven", features=30, sizes=(300, 200, 250), epsilon=20.0,
         classes=3),
    Case("three classes, measured", "dp-whitened", "proven", features=20, sizes=(300, 200, 250), epsilon=20.0,
         classes=3, key_bits=2048, sections="[evaluation]\nshare = 0.3"),
    Case("numbers", "dp-glm", "proven", features=8, sizes=(700, 500, 800), epsilon=20.0, spread=2.0, colluders=1),
    Case("numbers, under Paillier", "dp-glm", "proven", features=8, sizes=(700, 500, 800), epsilon=20.0, spread=2.0,
         key_bits=2048),
    Case("histograms", "summary", "proven", "cells = 32", epsilon=4.0),
    Case("histograms, under Paillier", "summary", "proven", "cells = 32", epsilon=4.0, key_bits=2048),
)  # fmt: skip
"""The further cases that CI runs."""

ALL = QUICK + REST


def named(name: str) -> Case:
    """Return the case of this name."""
    (found,) = (case for case in ALL if str(case) == name)
    return found


def check(ran: Ran) -> None:
    """Compare a run with its oracle, the noise with its law, and what is left with what was there."""
    if ran.case.protocol == "summary":
        _check_statistics(ran)
    else:
        # Oracles that go another way than these protocols do, by eigenvectors: each has errors of its own.
        atol = 1e-6 if ran.case.protocol in {"dp-whitened", "dp-glm"} else _ATOL
        np.testing.assert_allclose(_released(ran), oracle_of(ran), rtol=0, atol=atol)
    if ran.held:
        _check_measured(ran)
    if not quiet(ran):
        _check_scales(ran)
    check_nothing_is_left(ran)


def _released(ran: Ran) -> NDArray[np.float64]:
    return np.concatenate([ran.weights, ran.offset])


def _check_measured(ran: Ran) -> None:
    """The confusion matrix is that of the released model on the records held back, with noise, and adds up to N."""
    W = ran.weights.reshape(len(ran.offset), -1)
    counts = np.zeros((len(W), len(W)))
    for data in ran.held.values():
        np.add.at(counts, (data.y.astype(int), (data.X @ W.T + ran.offset).argmax(axis=1)), 1)
    noise = ran.by_party("evaluation noise", 192.0).sum(axis=0).reshape(counts.shape)
    wanted = counts + noise - noise.mean()
    np.testing.assert_allclose(ran.result["evaluation"]["confusion"], wanted, rtol=0, atol=1e-5)


def _check_statistics(ran: Ran) -> None:
    opened = ran.by_party("noisy counts").sum(axis=0)
    found = json.loads((ran.files / "runs" / CHARLIE / "statistics.json").read_text(encoding="utf-8"))
    wanted = statistics(ran.study, [int(v) for v in opened]).to_json(ran.study, bytes.fromhex(found["run_id"]))
    assert found == json.loads(json.dumps(wanted))
    # What is left when a party's counts are taken off must be noise, which knows nothing of these counts.
    (noise,) = draws_of(ran)
    for name, left in zip(ran.names, noise.values, strict=True):
        counts = counts_of(ran, name)
        assert abs(left @ counts) < _FAR * np.linalg.norm(counts), f"{name}'s counts are not those of its records"


def _check_scales(ran: Ran) -> None:
    for draws in draws_of(ran):
        # How likely it is to find a scale that is 30 % off follows from the number of draws alone.
        assert min(draws.power(wrong) for wrong in _WRONG) > _POWER, (str(ran.case), draws.what, draws.count)
        assert draws.accepts(), f"{ran.case}: {draws.what} has not the right scale, by {draws.count} numbers"


def check_nothing_is_left(ran: Ran) -> None:
    """The drawn numbers are in each state folder before the end, and in none of its files afterwards."""
    for name in (*ran.names, CHARLIE):
        before, after = (
            b"".join(path.read_bytes() for path in sorted((root / name).rglob("*")) if path.is_file())
            for root in (ran.before, ran.after)
        )
        # The middle of what was drawn: SQLite keeps a long row in several pages, and a piece of 16 bytes in one.
        pieces = {data[k : k + 16] for data in ran.rows(name).values() if len(data) > 32 for k in (16, len(data) // 2)}
        pieces = {piece for piece in pieces if len(set(piece)) > 8}  # no run of zeros
        assert sum(piece in before for piece in pieces) > len(pieces) // 2
        assert not [piece for piece in pieces if piece in after], f"{name} has left what it drew"
        assert not list((ran.after / name).rglob("journal*"))


def main(name: str) -> None:
    """Run one case."""
    nursery = Nursery()
    try:
        with TemporaryDirectory() as folder:
            check(run_case(named(name), Path(folder), nursery))
    finally:
        nursery.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
