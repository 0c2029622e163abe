"""Photograph the top of a page that `evenreel evaluate`, `audit` or `adapt` wrote; Chromium must be installed.

evenreel evaluate baseline.npz --corpus corpus --against new.npz --html page.html
python -m scripts.report_picture page.html docs/pictures/evaluation.png 1705

evenreel audit source --scores mine.npz --corpus paired --report report.html
python -m scripts.report_picture report.html docs/pictures/audit.png 1100

evenreel adapt CHECKPOINT --library LIBRARY --queries queries.txt --report adapted.html --dry-run
python -m scripts.report_picture adapted.html docs/pictures/adaptation.png 1060
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from PIL import Image

WIDTH_PX, COLOURS = 1000, 64


def main(page: Path, picture: Path, height_px: int) -> None:
    """The title, the main sentence and the first charts, in few colours."""
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000",
         f"--window-size={WIDTH_PX},{height_px}", f"--screenshot={picture.resolve()}", page.resolve().as_uri()],
        check=True,
    )  # fmt: skip
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
