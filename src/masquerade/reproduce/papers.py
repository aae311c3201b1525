"""Which papers' figures can be made again."""

from collections.abc import Callable

from masquerade.reproduce.bands import Report
from masquerade.reproduce.rajkumar import figure_1
from masquerade_core.errors import BadInput

__all__ = ["DRAWS", "PAPERS", "SEED", "Progress", "reproduce"]

DRAWS = 20
SEED = 2012

Progress = Callable[[int, int], None]
"""Called with how many steps of how many are done."""

PAPERS: dict[str, dict[str, Callable[[int, int, Progress], Report]]] = {"rajkumar-2012": {"1": figure_1}}
"""By paper and figure: (draws, seed, progress) -> report."""


def reproduce(
    paper: str,
    figure: str | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    progress: Progress = lambda _done, _of: None,
) -> Report:
    """Make a paper's figure again.

    Parameters
    ----------
    paper : str
    figure : str, optional
        The paper's first that there is, by default.
    draws : int
        Of the noise, for each data set; at least 1. The bands are for 20.
    seed : int
        Of simulated data and of all noise; not negative.

    Raises
    ------
    BadInput
        There is no such paper or figure here, or an option is out of range.
    """
    if paper not in PAPERS:
        raise BadInput(f"there is no paper {paper!r}", f"the papers are {', '.join(PAPERS)}")
    figures = PAPERS[paper]
    if figure is not None and figure not in figures:
        raise BadInput(
            f"figure {figure} of {paper} is not reproduced",
            f"there is {', '.join(figures)}; docs/reproduction.md says why some figures cannot be met",
        )
    if draws < 1 or seed < 0:
        raise BadInput(f"draws is {draws} and seed {seed}", "ask for at least one draw, and a seed of 0 or more")
    return figures[figure or next(iter(figures))](draws, seed, progress)
