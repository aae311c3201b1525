"""Studies of ``dp-whitened`` with small keys."""

from __future__ import annotations

from typing import Any

from masquerade_core.study import Study
from tests.protocol_helpers import make_study

__all__ = ["whitened_study"]


def whitened_study(K: int = 3, d: int = 4, *, delta: float = 1e-5, colluders: int = 0, **changes: Any) -> Study:
    """A study of K parties and d coordinates; the other arguments are those of ``make_study``."""
    text = make_study(K, d, **changes).to_toml()
    for old, new in (
        ('protocol = "local-aggregation"', 'protocol = "dp-whitened"'),
        ("delta = 1e-05", f"delta = {delta}"),
        ("colluders = 0", f"colluders = {colluders}"),
        ('calibration = "paper"', 'calibration = "proven"'),
        ('noise = "laplace"', ""),
    ):
        assert old in text
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)
