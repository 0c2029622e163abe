"""Photograph the page of `evenreel serve` over a library, the demo's by default; Chromium must be installed.

evenreel demo && python -m scripts.page_picture demo docs/pictures/page.png
python -m scripts.page_picture demo docs/pictures/export.png --height 700 --press ".card .export-button"
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote_plus

from PIL import Image
from playwright.sync_api import sync_playwright

QUERY = "a red star"
WIDTH, HEIGHT, COLOURS = 1500, 860, 256
PATIENCE_MS = 180_000
SEEN = """() => [...document.querySelectorAll('.cards img')]
    .filter((still) => still.checkVisibility() && still.getBoundingClientRect().top < innerHeight)
    .every((still) => still.complete && still.naturalWidth)"""


def main() -> None:
    """Serve the library, search it, and keep what is seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="that the library lies in")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--query", default=QUERY)
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument("--press", help="selector of a button that is pressed first")
    asked = parser.parse_args()
    command = [sys.executable, "-m", "evenreel", "serve", "--library", str(asked.folder / "library"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline() if server.stdout else ""
            photograph(said.split(" is served at ")[1].split()[0], asked)
        finally:
            server.terminate()


def photograph(address: str, asked: argparse.Namespace) -> None:
    """The results of a search, once all their stills are there."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": asked.height})
        page.set_default_timeout(PATIENCE_MS)  # the model is loaded first
        page.goto(f"{address}?q={quote_plus(asked.query)}")
        page.wait_for_selector(".cards img")
        page.wait_for_selector("#filters fieldset")
        page.wait_for_function(SEEN)
        if asked.press:
            page.locator(asked.press).first.click()
        page.screenshot(path=f"{folder}/page.png")
        browser.close()
        Image.open(f"{folder}/page.png").convert("RGB").quantize(COLOURS).save(asked.picture, optimize=True)


if __name__ == "__main__":
    main()
