"""Draw the pictures of ``docs/report.md`` anew: ``python docs/pictures/report.py``.

A demonstration is run, and its report is opened in Debian's Chromium: on a screen, on a telephone and on paper. It
needs the packages chromium, fonts-liberation and poppler-utils, and the development tools.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
SIZES = {"1280": (1280, 800), "390": (390, 1560)}
COLOURS = 64  # enough for text and bars, and a third of the bytes


def main() -> None:
    """Run, open, and save."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run
        run([sys.executable, "-m", "masquerade", "demo", "--protocol", "dp-gd", "--out", "w"], cwd=folder, check=True)
        run([sys.executable, "-m", "masquerade", "report", "w/hospital-a", "-o", "report.html"], cwd=folder, check=True)
        _draw(Path(folder))


def _draw(folder: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto((folder / "report.html").as_uri())
            page.screenshot(path=folder / f"report-{name}.png")
        page.pdf(path=folder / "report.pdf", prefer_css_page_size=True)
        browser.close()
    sheet = ["pdftoppm", "-f", "2", "-l", "2", "-r", "80", "-png", "-singlefile", "report.pdf", "report-a4"]
    subprocess.run(sheet, cwd=folder, check=True)  # noqa: S603 - a list of ours, without a shell
    for picture in folder.glob("report-*.png"):
        with Image.open(picture) as opened:
            opened.convert("RGB").quantize(COLOURS).save(HERE / picture.name, optimize=True)


if __name__ == "__main__":
    main()
