"""Made-up records in the form in which UCI gives out Adult, for tests of what people do with such files."""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from masquerade.codebook import split_levels
from masquerade.own_table import read_own
from masquerade_lab.originals import ADULT_COLUMNS
from tests import ROOT
from tests.pages import Page

CODEBOOK = ROOT / "examples" / "adult" / "codebook.csv"

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


def official(n: int, seed: int = 0) -> list[list[str]]:
    """Draw records with all columns of the original, and the levels that its codebook lists."""
    book = read_own(CODEBOOK)
    levels = dict(zip(book.columns["name"], map(split_levels, book.columns["levels"]), strict=True))
    numbers = {"age": (17, 90), "fnlwgt": (12_285, 1_484_705), "education-num": (1, 16), "hours-per-week": (1, 99),
               "capital-gain": (0, 99_999), "capital-loss": (0, 4_356)}  # fmt: skip
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        cells = {
            name: str(rng.integers(*numbers[name], endpoint=True)) if name in numbers else str(rng.choice(levels[name]))
            for name in ADULT_COLUMNS[:-1]
        }
        rich = float(cells["education-num"]) + float(cells["hours-per-week"]) / 6 + rng.normal(scale=3) > 17
        made.append([*cells.values(), ">50K" if rich else "<=50K"])
    return made


def write_adult(
    path: Path,
    records: Sequence[Sequence[str]],
    *,
    columns: Sequence[str] = COLUMNS,
    heading: bool = True,
    stop: str = "",
) -> Path:
    """Write records with a blank after each comma, as the original has them; its test part has other ends."""
    lines = [", ".join(row) + stop for row in records]
    head = ", ".join(columns) if heading else "|1x3 Cross validator"
    path.write_text("\n".join([head, *lines]) + "\n\n", encoding="utf-8")
    return path


def adult_place(folder: Path) -> Path:
    """Write files in Adult's form where the page on writing a study expects them."""
    write_adult(folder / "adult.csv", official(400), columns=ADULT_COLUMNS)
    write_adult(folder / "adult.test", official(80, seed=1), heading=False, stop=".")
    (folder / "examples" / "adult").mkdir(parents=True)
    shutil.copy(CODEBOOK, folder / "examples" / "adult")
    return folder


def page_commands(page: Page) -> list[list[str]]:
    """Return the words of each command of a page, without the program's name."""
    blocks = re.findall(r"```sh\n(.*?)```", page.text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line) for line in lines]
    assert all(name == "masquerade" for name, *_ in words)
    return [rest for _, *rest in words]
