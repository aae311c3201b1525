"""Pictures that matplotlib draws, of audits and of the benchmarks; test_reproduce_runners.py has those of papers."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.measure import Bench
from benchmarks.plot import plot_growth
from benchmarks.rounds import Point
from benchmarks.sums import Ring

from masquerade_lab.audit import Finding, Gate
from masquerade_lab.audit.plot import plot
from tests.face_helpers import Shell
from tests.unit.lab.test_audit import _list, _response


def test_the_audit_command_draws(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _list(monkeypatch, _response(Gate.REFUTED, 0.5, 1.0), _response(Gate.HOLDS, 1.0, 1.0, quick=2000))
    answer = Shell(capsys)("audit", "--plot", tmp_path / "audits.svg")
    assert (answer.code, answer.out) == (0, "")
    assert "all 2 audits passed" in answer.err
    drawn = (tmp_path / "audits.svg").read_text()
    assert "refuted 0.5" in drawn
    assert "holds 1" in drawn


def test_a_picture_has_a_row_for_each_audit(tmp_path: Path) -> None:
    chosen = [_response(Gate.CAUGHT, 0.5, 1.0), _response(Gate.HOLDS, 1.0, 1.0)]
    path = tmp_path / "rows.svg"
    plot([Finding(a, 10, 0.1, 0.0, 2.0 if a.gate is Gate.HOLDS else None, 0.0) for a in chosen], path)
    once = path.read_text()
    plot([Finding(a, 10, 0.1, 0.0, 2.0 if a.gate is Gate.HOLDS else None, 0.0) for a in chosen], path)
    assert path.read_text() == once
    for words in ("caught 0.5", "holds 1", "claimed, or the privacy target", "the same audit with half of the noise"):
        assert words in once


def test_the_curves_of_growth_are_drawn(tmp_path: Path) -> None:
    bench = Bench.__new__(Bench)
    ring = Ring(1.0, 2.0, 3.0, 400.0)
    bench.by_parties, bench.by_length = [Point(5, 50, 2, ring), Point(50, 50, 2, ring)], [Point(5, 10, 1, ring)]
    plot_growth(bench, tmp_path / "growth.svg")
    assert "parties K (d = 50)" in (tmp_path / "growth.svg").read_text()
