"""The command that runs dp-whitened beside the same rules in floats: each pair once, and what is too far apart."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests import whitened_beside_floats


def test_a_pair_that_has_a_line_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, delta, _ = whitened_beside_floats.ROWS["WDBC, 456"]
    monkeypatch.setattr(whitened_beside_floats, "ROWS", {"WDBC, 456": (draw, delta, (3.0,))})
    whitened_beside_floats.main(tmp_path, tmp_path, 1)
    whitened_beside_floats.main(tmp_path, tmp_path, 2)
    with (tmp_path / "pairs.csv").open(newline="", encoding="utf-8") as file:
        assert [line[2] for line in csv.reader(file)] == ["number", "0", "1"]
    capsys.readouterr()
    monkeypatch.delattr(whitened_beside_floats, "pair")
    whitened_beside_floats.main(tmp_path, tmp_path, 2)
    assert "| WDBC, 456 | 3 | 53 | 2 | " in capsys.readouterr().out


@pytest.mark.parametrize(("points", "loss", "marks"), [(0.1, 0.005, 0), (0.3, 0.005, 1), (-0.3, -0.02, 2)])
def test_a_difference_that_noise_does_not_explain_is_marked(points: float, loss: float, marks: int) -> None:
    wobble = (-0.01, 0.0, 0.01)
    lines = [("WDBC, 456", 3.0, i, 53.0, 4 + points + w, 4.0, 0.1 + loss + w / 10, 0.1) for i, w in enumerate(wobble)]
    assert whitened_beside_floats.table(lines).count("beyond") == marks
    widely = [(*line[:4], line[4] + 99 * (i % 2), line[5], line[6], line[7]) for i, line in enumerate(lines)]
    assert whitened_beside_floats.table(widely).count("beyond") == max(0, marks - 1)  # two standard errors are large


def test_the_oracle_s_noise_is_smaller_where_products_count_twice() -> None:
    d = 200
    drawn = whitened_beside_floats._normals(d, 1)("second moments", d * d)
    pairs = d * (d - 1) // 2
    assert np.std(drawn[:pairs]) == pytest.approx(0.5**0.5, rel=0.03)
    assert np.std(drawn[pairs:]) == pytest.approx(1, rel=0.03)
