"""Look for barriers in the built site with axe: ``python docs/axe.py [--all]``, after ``make docs``.

A *barrier* is something that keeps a person from reading a page: too little contrast, a block that the keyboard cannot
reach. Each page is looked at in one of four ways, light or dark, on a wide screen or on a telephone; with ``--all`` in
all four. The exit code is 1 if axe finds a violation of WCAG 2.2 AA.
"""

import shutil
import sys
from collections import Counter
from itertools import product
from pathlib import Path

SITE = Path(__file__).parent.parent / "build" / "docs"
WAYS = tuple(product(("light", "dark"), (1280, 390)))
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def main() -> int:
    """Look at all pages, and print what was found."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no barrier was looked for: there is no Chromium here (apt-get install chromium)")  # noqa: T201
        return 0
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    pages = [page for page in sorted(SITE.rglob("*.html")) if "http-equiv" not in page.read_text(encoding="utf-8")]
    found: Counter[str] = Counter()
    looks = 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for number, way in enumerate(WAYS):
            scheme, width = way
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for page in pages if "--all" in sys.argv else pages[number :: len(WAYS)]:
                tab = context.new_page()
                tab.goto(page.as_uri())
                answer = Axe().run(tab, options={"runOnly": RULES, "resultTypes": ["violations"]}).response
                looks += 1
                for violation in answer["violations"]:
                    for node in violation["nodes"]:
                        name = page.relative_to(SITE)
                        found[f"{violation['id']}: {name}, {scheme}, {width} px: {node['html'][:120]}"] += 1
                tab.close()
            context.close()
        browser.close()
    for what, count in found.items():
        print(f"{count} x {what}")  # noqa: T201
    print(f"axe looked {looks} times at {len(pages)} pages and found {sum(found.values())} violations")  # noqa: T201
    return 1 if found or not looks else 0


if __name__ == "__main__":
    sys.exit(main())
