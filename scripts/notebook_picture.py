"""Photograph a part of the page of a notebook, for docs/notebooks.md; Chromium must be installed.

    mkdocs build --strict
    python -m scripts.notebook_picture build/site/notebooks/hubs.html docs/pictures/notebooks.png

The part goes from the heading `corrections` to the first figure behind it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH_PX, HEIGHT_PX, COLOURS = 1024, 1330, 64
EDGE_PX, COLUMN_PX = 24, 800
"""Left of the page's text and right of it there is nothing to see."""


def main(page: Path, picture: Path) -> None:
    """The last table before a figure with the code that made it, and the figure."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH_PX, "height": HEIGHT_PX}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-drawn]", timeout=60_000)
        chart = tab.locator("#corrections ~ .chart").first.bounding_box()
        assert chart is not None
        top = max(0.0, chart["y"] + chart["height"] + EDGE_PX - HEIGHT_PX)
        tab.screenshot(path=picture, full_page=True, clip={"x": 0, "y": top, "width": COLUMN_PX, "height": HEIGHT_PX})
        browser.close()
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
