"""Photograph the page of `evenreel serve` over the demo's library; Chromium must be installed.

evenreel demo && python -m scripts.page_picture demo docs/pictures/page.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

QUERY = "harbour"
WIDTH, HEIGHT, COLOURS = 1500, 860, 256
SEEN = """() => [...document.querySelectorAll('.cards img')]
    .filter((still) => still.getBoundingClientRect().top < innerHeight)
    .every((still) => still.complete && still.naturalWidth)"""


def main(demo: Path, picture: Path) -> None:
    """Serve the library, search it, and keep what is seen."""
    command = [sys.executable, "-m", "evenreel", "serve", "--library", str(demo / "library"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline() if server.stdout else ""
            photograph(said.split(" is served at ")[1].split()[0], picture)
        finally:
            server.terminate()


def photograph(address: str, picture: Path) -> None:
    """The results of a search, once all their stills are there."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{address}?q={QUERY}")
        page.wait_for_selector(".cards img")
        page.wait_for_function(SEEN)
        page.screenshot(path=f"{folder}/page.png")
        browser.close()
        Image.open(f"{folder}/page.png").convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
