"""Photograph the top of a page that `evenreel evaluate --html` wrote; Chromium must be installed.

evenreel evaluate baseline.npz --corpus corpus --against new.npz --html page.html
python -m scripts.evaluation_picture page.html docs/pictures/evaluation.png
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from PIL import Image

WIDTH_PX, HEIGHT_PX, COLOURS = 1000, 1705, 64


def main(page: Path, picture: Path) -> None:
    """The title, the main sentence and the first three charts, in few colours."""
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000",
         f"--window-size={WIDTH_PX},{HEIGHT_PX}", f"--screenshot={picture.resolve()}", page.resolve().as_uri()],
        check=True,
    )  # fmt: skip
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
