"""Draw the pages' figures and fill in their tables from the stored results: ``python docs/reproduction/draw.py``.

``results/`` holds the CSV files that ``masquerade reproduce`` wrote. After another run, copy its files there and run
this. A page's table that has a stored table's name above it, in bold, gets its numbers. Its first line says in which
form: a line for each row, a curve's points, a column for each M, or, with a column "caught", a line for each quantity
with the broken variants that its band catches. Where two figures of a page have tables of one name, ``<!-- tables
FIGURE -->`` says whose follow. A table between ``<!-- beside FIGURE -->`` and ``<!-- end -->`` puts the paper's words
beside ours.
"""

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from masquerade_lab.reproduce.engine.drawing import draw
from masquerade_lab.reproduce.engine.report import Panel, Row, Series

HERE = Path(__file__).parent
RESULTS, FIGURES = HERE / "results", HERE / "figures"
LARGEST = 60_000
"""Bytes of a picture."""

PAGES = {
    "bixler-4": "bixler.md",
    "dp-gd-1": "dp-gd.md",
    "dp-whitened-1": "dp-whitened.md",
    "hamm-2016-2": "hamm-2016.md",
    "hamm-2016-3": "hamm-2016.md",
    "hamm-2016-4": "hamm-2016.md",
    "kang-1": "kang.md",
    "kang-2": "kang.md",
    "kang-pl": "kang.md",
    "pathak-2010-2": "pathak-2010.md",
    "rajkumar-2012-1": "rajkumar-2012.md",
    "rajkumar-2012-2": "rajkumar-2012.md",
}
DRAWN = {
    "bixler-4": r"^Extra|against",
    "dp-whitened-1": r"^(Adult|KDD|WDBC|HAR)",
    "hamm-2016-3": r"M = 20000",
    "hamm-2016-4": r"M = 20000",
    "kang-1": r"Figure 1: (BC|Credit|Adult|Bank)",
    "kang-2": r"Figure 2: ",
    "rajkumar-2012-1": r"eps = 0\.2",
    "rajkumar-2012-2": r"eps = 0\.[12]",
}
"""Which panels a page shows, as a pattern of their titles; all where none is given. The command draws all."""
_LABELS = {
    "bixler": ("alpha", "fraction of plain descent's"),
    "dp-gd": ("eps", "test error"),
    "dp-whitened": ("eps", "test error"),
    "hamm": ("1/eps", "test accuracy"),
    "kang-1": ("epsilon", "accuracy"),
    "kang-2": ("u", "accuracy"),
    "kang-pl": ("epsilon", "optimal gap"),
    "pathak": ("eps", "test error"),
    "rajkumar": ("", "test error"),
}
_LOGARITHMIC = {
    "kang-1": "x",
    "kang-pl": "xy",
    "hamm": "x",
    "pathak": "x",
    "bixler": "xy",
    "dp-gd": "x",
    "dp-whitened": "x",
}

_STEPS = "A3: lambda = 0.001, unit rows, eps = 0.5"
_ALONG = "A4: lambda = 0.001, unit rows: from one eps to the next"
_SIMILAR = "B3: PSGD minus GOP under the same sum of eta, eps = {}"
_BETTER = "Local aggregation minus PSGD, eps = {}, records dealt at random"
_WORSE = "B4: local aggregation, density exp(-n_(1) lambda eps/2 |x|_2), eps = 1"

BESIDE: dict[str, list[tuple[str, ...]]] = {
    "pathak-2010-2": [
        *(
            ("the even split does better than smaller n_(1)", _STEPS, f"{pair}, eps = 0.5")
            for pair in ("15% minus even", "10% minus 15%")
        ),
        *(
            ("error drops with eps for all splits, faster for the even one", _ALONG, f"{split}, eps = 0.05 minus 0.1")
            for split in ("even", "15%", "10%")
        ),
        *(
            ("it converges to that of w*, which is 0.1639", "lambda = 0.001, unit rows", f"{split}, eps = 5")
            for split in ("even", "15%", "10%")
        ),
        ("w* + eta does much better than the aggregates", _STEPS, "even minus w* + eta, eps = 0.5"),
        (
            "its error equals that of w*, 0.1639, except for small eps",
            "lambda = 0.001, unit rows",
            "w* + eta, eps = 1",
        ),
    ],
    "rajkumar-2012-1": [
        *(
            ("PSGD is similar to GOP", _SIMILAR.format(0.2), f"K = {K}", f"PSGD minus GOP, eps = 0.2, K = {K}")
            for K in (5, 10, 15)
        ),
        *(
            (
                "PSGD is better than local aggregation for every K",
                _BETTER.format(eps),
                f"K = {K}",
                f"local aggregation minus PSGD, eps = {eps}, K = {K}",
            )
            for eps in (0.1, 0.2)
            for K in (5, 10, 15)
        ),
        *(
            ("local aggregation gets worse with K and with the skew", _WORSE, pair, f"eps = 1, {pair}")
            for pair in ("skew 2 minus even, K = 5", "even, K = 15 minus skew 2", "skew 3 minus even, K = 15")
        ),
        ("PSGD does not", _SIMILAR.format(0.2), "K = 15 minus 5", "PSGD, eps = 0.2, K = 15 minus 5"),
    ],
    "bixler-4": [
        ("approximately 3000 iterations", "E1: iterations of plain descent", "mean"),
        (
            "a tolerable amount of extra iterations (5%), for an alpha that is not given",
            _REACHED := "The paper's two numbers, same order: the alpha at which each is reached",
            "5% more iterations",
        ),
        ("within an average of 2.4% of one another, for an alpha that is not given", _REACHED, "losses apart by 2.4%"),
    ],
    "kang-2": [
        ("W and J are similar at u = 1", "C3: {}", "W(1) - J(1)"),
        ("W and J are similar at u = 1", "The same differences: {}", "W(1) - J(1)"),
        ("W is steady as u grows", "C3: {}", "W(1) - W(5)"),
        ("W is steady as u grows", "The same differences: {}", "W(1) - W(9)"),
        ("J falls rapidly", "C3: {}", "J(1) - J(5)"),
        ("J falls rapidly", "The same differences: {}", "J(1) - J(9)"),
    ],
    "kang-1": [
        (
            "W becomes better with epsilon",
            "Figure 1, m = 32: means over epsilon of differences",
            "{}, W(eps = 0.25) - W(eps = 0.01)",
        ),
        ("W is better than J", "Figure 1, m = 32: means over epsilon of differences", "{}, W - J"),
        ("W is similar to C", "Figure 1, m = 32: means over epsilon of differences", "{}, W - C"),
    ],
    "hamm-2016-2": [
        *(
            (f"{name} has {said}", "D1: test accuracy without noise", name)
            for name, said in (
                ("batch", "about .90"),
                ("indiv", "about .47"),
                ("vote", ".79 at 1/eps = 0"),
                ("soft", ".76 at 1/eps = 0"),
                ("avg", ".67 at 1/eps = 0"),
            )
        ),
        (
            "vote is useless even at 1/eps = .1",
            "D4: test accuracy under noise",
            "vote, published, 1/eps = 0.1",
        ),
        *(
            (
                f"{method} is better than indiv until 1/eps = 1",
                "1/eps up to which soft and avg are better than indiv; the paper says 1",
                f"{method}, {kind}",
            )
            for kind in ("published", "exp")
            for method in ("soft", "avg")
        ),
    ],
    "hamm-2016-3": [
        (
            "soft is nearly as good as batch until 1/eps = 10 or so",
            _KEEPS := "1/eps up to which soft keeps its accuracy without noise, but for 0.01",
            "M = 20000, published",
        ),
        ("the same, if the norm is drawn from Exp(Delta/eps)", _KEEPS, "M = 20000, norm from Exp(Delta/eps)"),
    ],
    "hamm-2016-4": [
        ("very similar to figure 3: until 1/eps = 10 or so", _KEEPS, "M = 20000, published"),
        ("the same, if the norm is drawn from Exp(Delta/eps)", _KEEPS, "M = 20000, norm from Exp(Delta/eps)"),
    ],
}
"""A sentence of the paper; the stored table and row that it is held against, and what to call them, if not by the row's
name. {} goes through the data sets."""
_SETS = ("BC", "Credit", "Adult", "Bank", "KDD")

GRIDS = {
    f"{name} over epsilon": (f"Figure 1: accuracy, {name}", r"(?P<row>.+), (?P<column>eps = .+)") for name in _SETS
} | {
    "the appendix over epsilon": (r"The appendix, (?P<column>m = \d+): .*", r"(?P<row>.+)"),
    "the appendix over u": (r"The appendix, over u: (?P<column>.+)", r"(?P<row>.+)"),
}
"""Tables with a line and a column for each value, between ``<!-- grid NAME -->`` and ``<!-- end -->``: their tables and
rows, as patterns."""
_TABLE = re.compile(
    r"^\*\*(?P<name>[^\n]+?)\*\*(?P<said>[^\n]*(?:\n[^\n|]+)*)\n\n(?P<table>(?:\|[^\n]*\n)+)", re.MULTILINE
)
"""A name in bold, words after it, and a table."""


def stored(stem: str) -> list[Row]:
    """Return the rows that a command wrote."""
    with (RESULTS / f"{stem}.csv").open(encoding="utf-8", newline="") as file:
        return [_row(line) for line in csv.DictReader(file)]


def _row(line: dict[str, str]) -> Row:
    error, low, high = (float(line[name]) if line[name] else None for name in ("error", "low", "high"))
    power = re.search(r"power ([\d.]+)", line["verdict"])
    broken = "aught" in line["verdict"] or "CAUGHT" in line["verdict"]
    return Row(
        line["table"],
        line["name"],
        float(line["value"]),
        error,
        low,
        high,
        broken,
        line.get("note", ""),
        float(power[1]) if power else None,
    )


def panels(stem: str) -> list[Panel]:
    """Return the panels that a page shows."""
    with (RESULTS / f"{stem}-curves.csv").open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    titles = [
        title for title in dict.fromkeys(point["panel"] for point in points) if re.search(DRAWN.get(stem, ""), title)
    ]
    x_label, y_label = next(labels for name, labels in _LABELS.items() if stem.startswith(name))
    scales = next((axes for name, axes in _LOGARITHMIC.items() if stem.startswith(name)), "")
    return [
        Panel(
            title,
            x_label,
            y_label,
            _series([point for point in points if point["panel"] == title and point["kind"] != "level"]),
            "log" if "x" in scales else "linear",
            "log" if "y" in scales else "linear",
            tuple((p["series"], float(p["y"])) for p in points if p["panel"] == title and p["kind"] == "level"),
        )
        for title in titles
    ]


def _series(points: list[dict[str, str]]) -> list[Series]:
    found = []
    for kind, name in dict.fromkeys((point["kind"], point["series"]) for point in points):
        own = [point for point in points if (point["kind"], point["series"]) == (kind, name)]
        errors = [float(point["error"] or 0) for point in own]
        xs, ys = ([float(point[axis]) for point in own] for axis in "xy")
        found.append(Series(name, xs, ys, errors if any(errors) else None, claimed=kind == "claimed"))
    return found


def table(rows: Iterable[Row]) -> str:
    """Return rows as a page shows them."""
    lines = ["| | reached | error | band | verdict | |", "|-|-:|-:|-|-|-|"]
    lines += [
        f"| {_cell(row.name)} | {row.shown} | {row.shown_error} | {row.band} | {row.verdict} | {_cell(row.note)} |"
        for row in rows
    ]
    return "\n".join(lines)


_CAUGHT = "| | reached | error | band | caught | not seen |"


def caught(rows: Iterable[Row]) -> str:
    """Return one line for each quantity: its band, the broken variants outside it, and those that it cannot show."""
    lines, quantities = [_CAUGHT, "|-|-:|-:|-|-|-|"], list[list[Row]]()
    for row in rows:
        if quantities and row.name.startswith(f"{quantities[-1][0].name}: "):
            quantities[-1].append(row)
        else:
            quantities.append([row])
    for right, *variants in quantities:
        seen = [_mistake(right, row) for row in variants if row.broken]
        powers = [row.power for row in variants if row.power is not None]
        least = f" (power {_power(min(powers))})" if powers else ""
        hidden = [f"{_mistake(right, row)} ({row.note.rpartition('power ')[2]})" for row in variants if not row.broken]
        verdict = "" if right.holds else f" {right.verdict}"
        lines.append(
            f"| {_cell(right.name)} | {right.shown} | {right.shown_error} | {right.band}{verdict} "
            f"| {'; '.join(seen)}{least} | {'; '.join(hidden)} |"
        )
    return "\n".join(lines)


def _power(least: float) -> str:
    return "1.000" if least == 1 else f"{least:.3f} or more"


def _mistake(right: Row, row: Row) -> str:
    return _cell(row.name.removeprefix(f"{right.name}: "))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _points(rows: Iterable[Row], lines: list[str]) -> str:
    """Return a table with a line for each method and a column for each 1/eps, as the given one has them."""
    value = {row.name: f"{row.value:.3f}" for row in rows}
    _, *inverses = _cells(lines[0])
    methods = [_cells(line)[0] for line in lines[2:]]
    filled = [[method, *(value[f"{method}, 1/eps = {x}"] for x in inverses)] for method in methods]
    return "\n".join([*lines[:2], *(f"| {' | '.join(cells)} |" for cells in filled)])


def _by_parties(rows: Iterable[Row], lines: list[str]) -> str:
    """Return a table with a column for each M, as the given one has them; standard errors are in brackets."""
    shown = {row.name: _with_error(row) for row in rows}
    _, *columns = _cells(lines[0])
    filled = []
    for name in (_cells(line)[0] for line in lines[2:]):
        by_m = [shown.get(f"{name}, {M}") or shown.get(f"{M}, {name}") or "the same" for M in columns]
        filled.append([name, *([shown[name], *by_m[1:]] if name in shown else by_m)])
    return "\n".join([*lines[:2], *(f"| {' | '.join(cells)} |" for cells in filled)])


def _with_error(row: Row) -> str:
    if "at every point" in row.note:
        return f"{'<' if row.note.startswith('below') else '>'} {row.value:g}"
    return row.shown if row.error is None else f"{row.shown} ({row.shown_error})"


def beside(stem: str) -> str:
    """Return the table of the paper's words and ours."""
    rows = {(row.table, row.name): row for row in stored(stem)}
    lines = ["| the paper | what is compared | here | standard error |", "|-|-|-:|-:|"]
    for said, title, name, *label in BESIDE[stem]:
        sets = [one for one in _SETS if (title.format(one), name.format(one)) in rows]
        for one in sets if "{}" in title + name else ("",):
            row = rows[title.format(one), name.format(one)]
            shown = f"{one}: {name}" if "{}" in title else name.format(one)
            lines.append(f"| {_cell(said)} | {_cell(label[0] if label else shown)} | {row.shown} | {row.shown_error} |")
    return "\n".join(lines)


def grid(stem: str, name: str) -> str:
    """Return some stored tables as one: a line and a column for each value, and the standard error in brackets."""
    tables, rows = GRIDS[name]
    cells: dict[str, dict[str, str]] = {}
    for row in stored(stem):
        places = re.fullmatch(tables, row.table), re.fullmatch(rows, row.name)
        if all(places):
            found = {key: value for place in places if place for key, value in place.groupdict().items()}
            cells.setdefault(found["row"], {})[found["column"]] = f"{row.shown} ({row.shown_error})"
    columns = list(dict.fromkeys(column for line in cells.values() for column in line))
    lines = [f"| | {' | '.join(columns)} |", f"|-|{'-:|' * len(columns)}"]
    lines += [f"| {_cell(row)} | {' | '.join(line.get(one, '') for one in columns)} |" for row, line in cells.items()]
    return "\n".join(lines)


def filled(stem: str, page: str) -> str:
    """Return a page with the tables of one figure's results."""
    by_name: dict[str, list[Row]] = {}
    for row in stored(stem):
        by_name.setdefault(row.table, []).append(row)

    def anew(found: re.Match[str]) -> str:
        name = found["name"].replace("\\*", "*").replace("\\|", "|")
        if name not in by_name:
            return found[0]
        lines, said, rows = found["table"].splitlines(), found["said"], by_name[name]
        if lines[0].startswith("| 1/eps "):
            text = _points(rows, lines)
            largest = f"largest error {max(row.error or 0 for row in rows):.3f}".replace("0.", ".")
            said = re.sub(r"largest error \.\d+", largest, said)
        elif lines[0].startswith("| | M = "):
            text = _by_parties(rows, lines)
        elif lines[0].startswith("| | reached "):
            text = caught(rows) if lines[0] == _CAUGHT else table(rows)
        else:
            return found[0]
        return f"**{found['name']}**{said}\n\n{text}\n"

    parts = re.split(r"(?=<!-- tables )", page)
    marked = any(part.startswith(f"<!-- tables {stem} -->") for part in parts)
    page = "".join(
        _TABLE.sub(anew, part) if part.startswith(f"<!-- tables {stem} -->") or not marked else part for part in parts
    )
    for mark, lines in _marked(stem):
        page = _between(f"<!-- {mark} -->", lines, page)
    return page


def _marked(stem: str) -> Iterator[tuple[str, str]]:
    """Yield the tables that stand between a mark and an end, with their marks."""
    for name in GRIDS:
        if (lines := grid(stem, name)).count("\n") > 1:
            yield f"grid {name}", lines
    if stem.startswith("dp-whitened"):
        yield from ((f"by epsilon {name}", lines) for name, lines in by_epsilon(stem).items())
    if stem in BESIDE:
        yield f"beside {stem}", beside(stem)


# --- dp-whitened: a column for each epsilon ---------------------------------------------------------------------

_EPSILONS = ("0.1", "0.2", "0.5", "1.0", "3.0")
_METHODS = ("AMP", "objective perturbation", "AdaSSP")
_SET = re.compile(r"(?P<set>[^,]+), N = (?P<N>[\d,]+), d = (?P<d>\d+), delta = (?P<delta>\S+): (?P<what>.+)")


def _short(value: float, digits: int) -> str:
    """Return a number without a 0 before its point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def _percent(row: Row) -> str:
    """Return an error in percent, and its standard error with a digit that is not 0."""
    error = 100 * (row.error or 0)
    return f"{100 * row.value:.1f}" + (f" ({_short(error, 2 if error < 0.095 else 1)})" if row.error else "")  # noqa: PLR2004


def _banded(row: Row, times: float, digits: int) -> str:
    """Return what was reached with its band in brackets; nothing where there is no band."""
    if row.low is None and row.high is None:
        return ""
    low, high = (None if end is None else _short(times * end, digits) for end in (row.low, row.high))
    band = f"{low} to {high}" if low and high else f">= {low}" if low else f"<= {high}"
    return f"{_short(times * row.value, digits)} ({band})"


def by_epsilon(stem: str) -> dict[str, str]:
    """Return the tables of dp-whitened's page: what is reached, slopes, bands, and differences."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    heads: dict[str, re.Match[str]] = {}
    for row in stored(stem):
        head = _SET.fullmatch(row.table)
        title, what = (head["set"], head["what"]) if head else row.table.rpartition(", ")[::2]
        if head:
            heads[title] = head
        found.setdefault((title, what), {})[row.name] = row
    columns = " | ".join(eps.removesuffix(".0").removeprefix("0") for eps in _EPSILONS)
    top = f"| | eps = {columns} |\n|-|{'-:|' * 5}"
    two = f"| | eps = {columns} |\n|-|-|{'-:|' * 5}"
    reached = [f"| error % (standard error) / AUC {two}"]
    slopes, bands, less = [f"| calibration slope, median (least to largest) {top}"], [f"| reached (band) {top}"], []
    less.append(f"| dp-whitened's error less that of {two}")
    for title, head in heads.items():
        errors, aucs, beside = found[title, "error"], found[title, "AUC"], found[title, "beside it"]
        names = [f"eps = {eps}" for eps in _EPSILONS]
        delta = head["delta"].replace("e-0", "e-")
        majority, free = beside["majority"], beside["no privacy"]
        said = f"majority {100 * majority.value:.1f}, no privacy {100 * free.value:.1f} / {free.note[5:]}"
        first = f"**{title}**, N = {head['N']}, d = {head['d']}, delta = {delta}; {said.replace('0.', '.')}"
        own = " | ".join(f"**{_percent(errors[n])} / {_short(aucs[n].value, 3)}**" for n in names)
        reached.append(f"| {first} | dp-whitened | {own} |")
        for method in _METHODS:
            rows = [beside[f"{method}, {name}"] for name in names]
            cells = " | ".join(f"{_percent(row)} / {row.note[5:].removeprefix('0')}" for row in rows)
            reached.append(f"| | {method} | {cells} |")
        measured = [found[title, "calibration slope, median"].get(name) for name in names]
        shown = [f"{row.value:.2f} ({row.note.partition(', ')[2]})" if row else "" for row in measured]
        bold = [
            f"**{cell}**" if row and row.high is not None else cell for row, cell in zip(measured, shown, strict=True)
        ]
        slopes.append(f"| {title} | {' | '.join(bold)} |")
        bands.append(f"| {title}, error % | {' | '.join(_banded(errors[name], 100, 1) for name in names)} |")
        if any(aucs[name].low is not None for name in names):
            bands.append(f"| {title}, AUC | {' | '.join(_banded(aucs[name], 1, 3) for name in names)} |")
        bands.append(f"| {title}, s | {' | '.join(errors[name].note[4:] for name in names)} |")
        apart = found.get((title, "s >= 40: error less that of"), {})
        for number, method in enumerate(("majority", "AMP", "objective perturbation")):
            rows = [apart.get(f"{method}, {name}") for name in names]
            cells = " | ".join(f"{100 * row.value:+.1f}" if row else "" for row in rows)
            less.append(f"| {'' if number else title} | {method} | {cells} |")
    return {name: "\n".join(lines) for name, lines in zip(_TABLES, (reached, slopes, bands, less), strict=True)}


_TABLES = ("what is reached", "slopes", "bands", "differences")
"""Tables between ``<!-- by epsilon NAME -->`` and ``<!-- end -->``."""


def _between(begin: str, lines: str, page: str) -> str:
    """Return a page with these lines between a mark and the next end."""
    if begin not in page:
        return page
    before, after = page.split(begin, 1)
    return f"{before}{begin}\n\n{lines}\n\n<!-- end -->{after.split('<!-- end -->', 1)[1]}"


def there() -> list[str]:
    """Return the figures whose results are stored."""
    return [stem for stem in PAGES if (RESULTS / f"{stem}.csv").exists()]


def picture(stem: str, path: Path) -> None:
    """Draw a page's picture."""
    draw(panels(stem), stem.replace("-", " "), "no private release: all noise comes from a seed", [path])


if __name__ == "__main__":
    for stem in sys.argv[1:] or there():
        picture(stem, FIGURES / f"{stem}.svg")
        page = HERE / PAGES[stem]
        page.write_text(filled(stem, page.read_text(encoding="utf-8")), encoding="utf-8", newline="")
