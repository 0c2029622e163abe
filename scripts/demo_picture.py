"""Draw the picture of the README: the demo's searches, each with the moment that it finds.

evenreel demo && python -m scripts.demo_picture demo docs/pictures/demo.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from evenreel import open_library
from evenreel.demo import DEMO_QUERIES
from evenreel.library.search.result import SearchResult
from evenreel.media import open_video, parse_rule

WIDTH, HEIGHT, CAPTION_PX = 320, 240, 46


def main(demo: Path, picture: Path) -> None:
    """Search the demo's library and put the first hits side by side."""
    with open_library(demo / "library") as library:
        results = [library.search(query.text, k=1) for query in DEMO_QUERIES if query.answer is not None]
    sheet = Image.new("RGB", (WIDTH * len(results), HEIGHT + CAPTION_PX), "white")
    for column, result in enumerate(results):
        sheet.paste(_moment(result), (column * WIDTH, CAPTION_PX))
        ImageDraw.Draw(sheet).text(
            (column * WIDTH + 10, 10), f"“{result.query}”", "black", ImageFont.load_default(size=22)
        )
    sheet.quantize(256).save(picture, optimize=True)


def _moment(result: SearchResult) -> Image.Image:
    hit = result.hits[0]
    with open_video(hit.path) as video:
        frames = [frame for frame in video.frames(parse_rule("every 0.1 s")) if frame.time_s <= hit.moments[0].time_s]
    return Image.fromarray(frames[-1].pixels).resize((WIDTH, HEIGHT))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
