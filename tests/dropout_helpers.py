"""Studies that may lose parties."""

from __future__ import annotations

import re
from typing import Any

from masquerade_core.study import Study
from tests.protocol_helpers import make_study

DROPOUTS = "[dropouts]\nmin_survivors = 3\nretries = 2\npatience_seconds = 5.0\n"


def masked_text(protocol: str, K: int = 5, d: int = 3, *, section: str = "", colluders: int = 0, **kw: Any) -> str:
    """A proven study whose sums are made with masks."""
    text = make_study(K, d, **kw).to_toml()
    text = re.sub(r"(lead|key_bits) = .*\n", "", text)
    for old, new in (
        ('protocol = "local-aggregation"', f'protocol = "{protocol}"'),
        ('noise = "laplace"', section),
        ('calibration = "paper"', 'calibration = "proven"'),
        ("colluders = 0", f"colluders = {colluders}"),
        ('sum = "paillier"', 'sum = "masks"'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def losing_study(
    protocol: str = "dp-gd", K: int = 5, d: int = 3, *, survivors: int = 3, retries: int = 2, **kw: Any
) -> Study:
    """A study that goes on without parties that fall silent."""
    section = DROPOUTS.replace("survivors = 3", f"survivors = {survivors}").replace("= 2\n", f"= {retries}\n")
    return Study.parse(masked_text(protocol, K, d, **kw) + section, in_memory=True)
