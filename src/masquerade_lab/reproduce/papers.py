"""The papers and figures that can be made again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bixler import section_4
from masquerade_lab.reproduce.dp_gd import figure_1 as dp_gd_figure_1
from masquerade_lab.reproduce.dp_glm import figure_1 as dp_glm_figure_1
from masquerade_lab.reproduce.dp_glm import figure_2 as dp_glm_figure_2
from masquerade_lab.reproduce.dp_glm import figure_3 as dp_glm_figure_3
from masquerade_lab.reproduce.dp_whitened import figure_1 as dp_whitened_figure_1
from masquerade_lab.reproduce.engine.report import Report
from masquerade_lab.reproduce.engine.tasks import RunTasks, one_after_another
from masquerade_lab.reproduce.hamm import figure_2 as hamm_figure_2
from masquerade_lab.reproduce.hamm import figure_3 as hamm_figure_3
from masquerade_lab.reproduce.hamm import figure_4 as hamm_figure_4
from masquerade_lab.reproduce.kang import figure_1 as kang_figure_1
from masquerade_lab.reproduce.kang import figure_2 as kang_figure_2
from masquerade_lab.reproduce.kang import figure_pl as kang_figure_pl
from masquerade_lab.reproduce.pathak import figure_2 as pathak_figure_2
from masquerade_lab.reproduce.rajkumar import figure_1 as rajkumar_figure_1
from masquerade_lab.reproduce.rajkumar import figure_2 as rajkumar_figure_2
from masquerade_lab.reproduce.summary import figure_1 as summary_figure_1

__all__ = ["MEASURED", "PAPERS", "Asked", "Figure", "asked_for", "reproduce"]

_Run = Callable[[int, int, RunTasks, Path | None], Report]


MEASURED = (
    "Times are half of the processor time that a figure took on a machine with two cores on 22 November 2026: about "
    "how long --jobs 2 takes there if nothing else runs."
)
"""The meaning of a figure's field ``seconds``."""


@dataclass(frozen=True)
class Figure:
    """How one figure is made.

    Parameters
    ----------
    run : callable
        (draws, seed, run_tasks, data) -> report; ``data`` is a directory, or None where ``needs`` is empty. It makes
        tasks, hands them to ``run_tasks``, and computes the tables from the results that come back.
    draws : int
        How many draws of the noise for each data set; the bands are for this number.
    seed : int
        It gives the simulated data and all noise.
    needs : str
        The files that the directory must hold, in a few words; empty where the paper simulates its data.
    optional : str
        The files that the directory may hold, where the figure is on a stand-in without them.
    title : str
        What it shows, in a few words.
    where : str
        Where the data are to be had.
    seconds : float, optional
        How long it takes with ``jobs=2`` on two cores, as it was measured; None where nobody has.
    """

    run: _Run
    draws: int
    seed: int
    needs: str = ""
    optional: str = ""
    title: str = ""
    where: str = ""
    seconds: float | None = None


_ADULT_FILES = "UCI Adult's adult.data and adult.test"
_ADULT_PAGE = "https://doi.org/10.24432/C5XW20"

PAPERS: dict[str, dict[str, Figure]] = {
    "pathak-2010": {
        "2": Figure(
            pathak_figure_2,
            4,
            2010,
            "a9a and a9a.t",
            title="local aggregation on Adult, by how unevenly records lie",
            seconds=90,
            where="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#a9a",
        )
    },
    "rajkumar-2012": {
        "1": Figure(rajkumar_figure_1, 20, 2012, title="PSGD, GOP and local aggregation, by K and by skew", seconds=42),
        "2": Figure(rajkumar_figure_2, 20, 2012, title="the same on breast cancer: a null result", seconds=65),
    },
    "kang": {
        "1": Figure(
            kang_figure_1,
            10,
            2019,
            "at least one folder with a data set of the paper, such as adult",
            title="weighted and plain averages of noisy descents, by epsilon",
            seconds=420,
            where="the pages of examples/ say where each is",
        ),
        "2": Figure(
            kang_figure_2,
            10,
            2019,
            "the folder breast-cancer-wisconsin or creditcard-balanced946",
            title="the same, by how unevenly records lie",
            seconds=330,
            where="the pages of examples/ say where each is",
        ),
        "pl": Figure(
            kang_figure_pl,
            10,
            2019,
            "the folder breast-cancer-wisconsin",
            title="no figure of the paper: Theorem 3 for a loss that is not convex",
            seconds=8,
            where="the pages of examples/ say where it is",
        ),
    },
    "hamm-2016": {
        "2": Figure(
            hamm_figure_2,
            20,
            2016,
            "UCI HAR's train and test folders",
            title="votes of 1,000 parties, six activities",
            seconds=33,
            where="https://doi.org/10.24432/C54S4K",
        ),
        "3": Figure(
            hamm_figure_3,
            50,
            2016,
            "KDD Cup 1999's kddcup.data_10_percent and corrected",
            title="votes of 5,000 to 20,000 parties, network intrusion",
            seconds=65,
            where="https://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html",
        ),
        "4": Figure(
            hamm_figure_4,
            20,
            2016,
            optional="the malicious URLs' Day0.svm to Day19.svm",
            title="the same on a stand-in for malicious URLs, or on their own files",
            seconds=50,
            where="http://www.sysnet.ucsd.edu/projects/url/",
        ),
    },
    "bixler": {
        "4": Figure(
            lambda draws, seed, run_tasks, _: section_4(draws, seed, run_tasks),
            160,
            1,
            title="descent on noisy examples",
            seconds=45,
        )
    },
    "dp-gd": {
        "1": Figure(dp_gd_figure_1, 5, 2012, title="no paper: dp-gd beside PSGD and local aggregation", seconds=57)
    },
    "summary": {
        "1": Figure(
            summary_figure_1,
            5,
            2026,
            _ADULT_FILES,
            title="no paper: summary's bounds, and what the next study learns from them",
            seconds=12,
            where=_ADULT_PAGE,
        )
    },
    "dp-glm": {
        "1": Figure(dp_glm_figure_1, 200, 2026, title="coverage and width of intervals, by N, epsilon and positives"),
        "2": Figure(dp_glm_figure_2, 100, 2026, title="coverage of intervals, by strength, columns and signal"),
        "3": Figure(
            dp_glm_figure_3,
            200,
            2026,
            _ADULT_FILES,
            title="coverage of intervals on census records",
            seconds=120,
            where=_ADULT_PAGE,
        ),
    },
    "dp-whitened": {
        "1": Figure(
            dp_whitened_figure_1,
            20,
            2026,
            "at least one folder with a public data set, such as adult",
            title="no paper: dp-whitened beside central methods, on eight data sets",
            seconds=300,
            where="the pages of examples/ say where each is",
        )
    },
}
"""By paper and figure."""


def reproduce(
    paper: str,
    figure: str | None = None,
    *,
    data: Path | str | None = None,
    draws: int | None = None,
    seed: int | None = None,
    run_tasks: RunTasks = one_after_another,
) -> Report:
    """Make a paper's figure again.

    Parameters
    ----------
    paper : str
    figure : str, optional
        By default the first figure of the paper.
    data : path, optional
        The directory with the original data files, for a figure on real data.
    draws : int, optional
        How many draws of the noise for each data set, at least 1. The bands are for the default.
    seed : int, optional
        It gives the simulated data and all noise; not negative.
    run_tasks : callable, optional
        What runs the figure's tasks; by default they run one after another in this process. The numbers are the same.

    Raises
    ------
    BadInput
        There is no such paper or figure here, an option is out of range, or the data are not there.
    """
    return asked_for(paper, figure, data=data, draws=draws, seed=seed).run(run_tasks)


@dataclass(frozen=True)
class Asked:
    """A figure that somebody asked for; its options fit it.

    Parameters
    ----------
    paper, name : str
    figure : Figure
    draws, seed : int
    data : Path or None
    """

    paper: str
    name: str
    figure: Figure
    draws: int
    seed: int
    data: Path | None

    def run(self, run_tasks: RunTasks) -> Report:
        """Return the figure's report."""
        return self.figure.run(self.draws, self.seed, run_tasks, self.data)

    @property
    def few_draws(self) -> bool:
        """Whether there are fewer draws than the figure's own, with which its bands catch each planted mistake."""
        return self.draws < self.figure.draws

    @property
    def folder(self) -> str:
        """The name of a folder for this figure's files: it says the draws and the seed unless they are the default."""
        parts = [f"{self.paper}-{self.name}"]
        parts += [f"draws-{self.draws}"] if self.draws != self.figure.draws else []
        parts += [f"seed-{self.seed}"] if self.seed != self.figure.seed else []
        return "-".join(parts)


def asked_for(paper: str, figure: str | None, *, data: Path | str | None, draws: int | None, seed: int | None) -> Asked:
    """Return the figure with all options, as :func:`reproduce` takes them.

    Raises
    ------
    BadInput
        There is no such paper or figure here, an option is out of range, or the data are not there.
    """
    if paper not in PAPERS:
        raise BadInput(
            f"{paper!r} is not a paper that this program reproduces", f"choose one of these: {', '.join(PAPERS)}"
        )
    figures = PAPERS[paper]
    if figure is not None and figure not in figures:
        raise BadInput(
            f"figure {figure} of {paper} is not reproduced here; figure {' or '.join(figures)} is",
            "leave the figure's number out; docs/reproduction.md and the paper's own page say what is missing",
        )
    name = figure or next(iter(figures))
    chosen = figures[name]
    draws, seed = chosen.draws if draws is None else draws, chosen.seed if seed is None else seed
    for option, value, least in (("draws", draws, 1), ("seed", seed, 0)):
        if value < least:
            raise BadInput(f"{option} is {value}, but the least is {least}", f"choose {least} or more")
    if chosen.needs and data is None:
        raise BadInput(
            f"figure {name} of {paper} needs real data, which do not come with this program",
            f"give --data DIRECTORY; it must hold {chosen.needs}, and examples/README.md says where to get them",
        )
    if not (chosen.needs or chosen.optional) and data is not None:
        raise BadInput(
            f"figure {name} of {paper} has simulated data, but --data names a directory with real data",
            "leave --data out",
        )
    return Asked(paper, name, chosen, draws, seed, None if data is None else Path(data))
