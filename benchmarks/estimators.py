"""``python -m benchmarks.estimators FOLDER [NAME ...] [--seeds N]``: what docs/estimators.md says of Adult.

FOLDER holds Adult's files as UCI gives them out. Each estimator learns from the training part at its defaults, once for
each seed, which deals the records to five parties and draws the noise. A line says the share of right answers on the
test part, the mean over the seeds, and how many seconds a fit took. All 14 columns are used. Bounds are round numbers,
and levels are those of the codebook in examples/adult.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from masquerade import estimators
from masquerade.codebook import split_levels
from masquerade.own_table import read_own
from masquerade_lab.originals import adult

BOUNDS = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (0, 100),
}
CODEBOOK = Path(__file__).parents[1] / "examples" / "adult" / "codebook.csv"
NAMES = (
    "Pooled", "Individual", "DPWhitened", "GOP", "DPGradientDescent", "LocalAggregation", "CentralDP", "WeightedDP",
    "DPGLM", "PSGD", "NoisyGradient", "Average", "VoteEnsemble", "SoftEnsemble", "InputNoiseSGD", "DecayingBudget",
)  # fmt: skip


def parts(folder: Path) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Yield the records and the labels of the training part, and of the test part."""
    for table in adult(folder):
        frame = pd.DataFrame(list(table.rows), columns=list(table.columns))
        labels = np.array(frame.pop("income"))
        yield frame.astype(dict.fromkeys(BOUNDS, float)), labels


def levels() -> dict[str, tuple[str, ...]]:
    """Return the public levels of the columns of categories."""
    book = read_own(CODEBOOK)
    found = zip(book.columns["name"], book.columns["levels"], strict=True)
    return {name: tuple(split_levels(text)) for name, text in found if text}


def main() -> None:
    """Print a line for each estimator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=10)
    asked = parser.parse_args()
    (X, y), (T, t) = parts(asked.folder)
    for name in asked.names:
        scores, began = [], time.perf_counter()
        for seed in range(asked.seeds):
            fit = getattr(estimators, name)(bounds=BOUNDS, levels=levels(), random_state=seed).fit(X, y)
            scores.append(fit.score(T, t))
        seconds = (time.perf_counter() - began) / asked.seeds
        print(f"{name}: {np.mean(scores):.3f} over {asked.seeds} seeds, {seconds:.0f} s a fit", flush=True)


if __name__ == "__main__":
    main()
