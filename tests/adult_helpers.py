"""Made-up records in the form in which UCI gives out Adult, for tests of what people do with such files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLUMNS = ("age", "workclass", "fnlwgt", "education", "sex", "capital-gain", "hours-per-week", "country", "income")

WORK = ("Private", "Self-emp-not-inc", "Local-gov", "?")
EDUCATION = ("HS-grad", "Bachelors", "7th-8th", "Some-college")
COUNTRIES = tuple(f"Country-{i}" for i in range(45))


def rows(n: int, seed: int = 0) -> list[list[str]]:
    """Draw records in which long schooling and long weeks go with more than 50,000 $; country 0 is the usual one."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        school, hours = int(rng.integers(4)), int(rng.integers(10, 70))
        rich = (school in {1, 3}) * 30 + hours + rng.normal(scale=15) > 60
        country = 0 if rng.random() < 0.6 else int(rng.integers(1, 45))
        cells = [
            str(rng.integers(17, 91)), WORK[rng.integers(4)], str(rng.integers(10_000, 999_999)), EDUCATION[school],
            ("Male", "Female")[i % 2], str(rng.choice([0, 0, 0, 2174, 99999])), str(hours), COUNTRIES[country],
            ">50K" if rich else "<=50K",
        ]  # fmt: skip
        made.append(cells)
    return made


def write_adult(path: Path, records: Sequence[Sequence[str]], *, heading: bool = True, stop: str = "") -> Path:
    """Write records with a blank after each comma, as the original has them; its test part has other ends."""
    lines = [", ".join(row) + stop for row in records]
    head = ", ".join(COLUMNS) if heading else "|1x3 Cross validator"
    path.write_text("\n".join([head, *lines]) + "\n\n", encoding="utf-8")
    return path
