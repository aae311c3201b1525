"""The pages in a browser: without network and without scripts, on a screen, on a telephone and on paper.

Debian's Chromium is driven by Playwright. Where there is no browser, all of these are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pypdf import PdfReader

from masquerade.pages import report_page, signature_page
from masquerade.pages.reading import read_run
from masquerade.simulation import WATERMARK, simulate
from masquerade_core.model import Model, model_to_json
from masquerade_core.study import Study
from tests.coefficient_helpers import coefficients
from tests.protocol_helpers import make_data, make_study
from tests.report_helpers import HOSTILE, make_world, run_to

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")

RUNS = ("dp-gd", "dp-glm", "local-aggregation", "vote")
PAGES = (*RUNS, "signature", "simulation", "grey")
SCREEN, TELEPHONE = (1280, 800), (390, 844)
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return each page as a file; names in it are hostile wherever a study leaves them free.

    "grey" is a report whose forest plot has a row that cannot be told.
    """
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: report_page(read_run(run_to(folder / name, name, HOSTILE) / _whose(name))) for name in RUNS}
    texts["signature"] = signature_page(make_world("dp-gd", HOSTILE, port=5555).study)
    study = make_study(3, 3)
    simulate(study, make_data(study, [20, 30, 40]), seed=1).write(folder / "simulated")
    texts["simulation"] = report_page(read_run(folder / "simulated"))
    texts["grey"] = report_page(read_run(_with_a_grey_row(folder)))
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


def _with_a_grey_row(folder: Path) -> Path:
    """Put made-up coefficients in the place of a run's."""
    place = shutil.copytree(folder / "dp-glm" / "north", folder / "grey")
    study = Study.parse((place / "study.toml").read_text(), in_memory=True)
    made = coefficients(study.covariates, hidden=study.covariates[1:2])
    model = Model((0.0,) * len(study.covariates), None, (0.0,), coefficients=made)
    (place / "model.json").write_text(json.dumps(model_to_json(model, study, bytes(16))))
    return place


def _whose(protocol: str) -> str:
    return "charlie" if protocol == "dp-gd" else "north"


Open = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, pages: dict[str, Path]) -> Iterator[Open]:
    """Return what opens a page without a network: by default without scripts, and with nothing amiss in its log."""
    contexts = []

    def opened(name: str, size: tuple[int, int] = SCREEN, **options: Any) -> Page:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **{"java_script_enabled": False, **options}
        )
        contexts.append(context)
        page = context.new_page()
        seen: list[str] = []
        page.on("request", lambda request: seen.append(request.url))
        page.on("console", lambda message: seen.append(message.text))
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.goto(pages[name].as_uri())
        assert seen == [pages[name].as_uri()]  # the page itself, and nothing that it asked for or complained about
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_network_and_scripts_and_needs_no_scrolling_sideways(open_page: Open, name: str) -> None:
    page = open_page(name)
    assert page.get_by_text("adversary", exact=True).count() > 1
    assert not page.get_by_text("adversary", exact=True).first.is_visible()
    for fold in page.locator("summary").all():
        fold.click()
    text = page.inner_text("body")
    shown = page.locator("data").all_inner_texts()
    assert len(shown) > 10
    assert all(shown)
    assert page.locator("h1").inner_text() in {"ward", "test"}
    assert page.locator("script, img[onerror]").count() == 0
    if name != "simulation":
        assert HOSTILE in text
        assert ("Signatures verified" in text) == (name in RUNS)
    for width, height in (SCREEN, TELEPHONE):
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(_BEYOND) == []


_BEYOND = """[...document.querySelectorAll('main *:not(svg *)')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("name", ["dp-gd", "signature"])
def test_hostile_names_run_nothing_where_scripts_are_allowed(open_page: Open, name: str) -> None:
    page = open_page(name, java_script_enabled=True)
    assert page.locator("script, img").count() == 0


@pytest.mark.parametrize("name", ["vote", "signature"])
def test_page_one_fits_on_one_screen_and_on_one_sheet_of_numbered_paper(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    """The names are ordinary here: no page has room for any name."""
    if name == "signature":
        text = signature_page(make_world("dp-gd", port=5555).study)
    else:
        text = report_page(read_run(run_to(tmp_path, name) / "south"))
    (tmp_path / "page.html").write_text(text)
    page = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]})
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.querySelector('.cells').getBoundingClientRect().bottom") < SCREEN[1]
    sheets = _printed(page)
    page.close()
    assert ("Place, date" if name == "signature" else "What is not promised") in sheets[0]
    assert ("What will leave" if name == "signature" else "What was learned") in sheets[1]
    assert "neighbours" in "".join(sheets)  # what is folded on the screen


def test_a_simulation_is_marked_on_every_sheet(open_page: Open) -> None:
    assert all(WATERMARK in text.lower() for text in _printed(open_page("simulation")))


def _printed(page: Page) -> list[str]:
    """Return the text of each sheet, once it is known to be A4 and to have its number."""
    reader = PdfReader(BytesIO(page.pdf(prefer_css_page_size=True)))
    texts = [sheet.extract_text() for sheet in reader.pages]
    assert len(texts) > 2
    for number, (sheet, text) in enumerate(zip(reader.pages, texts, strict=True), start=1):
        assert (round(float(sheet.mediabox.width)), round(float(sheet.mediabox.height))) == (595, 842)  # in points
        assert re.search(rf"{number} ?/ ?{len(texts)}", text)
    return texts


@pytest.mark.parametrize(
    ("name", "scheme"),
    [*((name, "light") for name in PAGES), ("dp-gd", "dark"), ("grey", "dark"), ("signature", "dark")],
)
def test_axe_finds_no_violation_of_wcag_aa(open_page: Open, name: str, scheme: str) -> None:
    """The checker is a script, which the page's policy would not let through."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = open_page(name, java_script_enabled=True, bypass_csp=True, color_scheme=scheme)
    rules = {"type": "tag", "values": _RULES} if scheme == "light" else {"type": "rule", "values": ["color-contrast"]}
    found = axe.Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]}).response
    assert found["passes"]
    assert [(one["id"], [n["html"] for n in one["nodes"]][:3]) for one in found["violations"]] == []
