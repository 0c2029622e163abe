"""Draw what commands print, as pictures of a terminal: the pages of docs show them.

    python -m scripts.terminal_pictures docs/pictures [NAME ...]

Each command is run, in a folder of its own that holds the demo's videos and library; what it prints is drawn in its
colours. Nothing is loaded by the pictures, so their letters are those of the reader's own fixed font.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 104
HEAD = "head -c 200000 demo/videos/clip_001.mp4 > demo/videos/half.mp4; echo 'no video' > demo/videos/notes.mp4; "
SPOKEN = "evenreel planted scene_text --clips 40 --seed 3 --out planted > planted.txt; "
PICTURES = {
    "search": "evenreel search 'harbour' --library demo/library",
    "asking": "evenreel search 'a star' --right demo/videos/clip_042.mp4@2 --library demo/library",
    "commands": "evenreel --help",
    "models": "evenreel models",
    "corpus": "evenreel planted source --clips 24 --out planted > planted.txt; evenreel corpus info planted",
    "features": SPOKEN + "evenreel features planted --videos planted --model builtin --out features",
    "classes": SPOKEN + "evenreel corpus classes planted --replace",
    "set_aside": HEAD + "evenreel index demo/videos --library demo/library --model builtin",
    "publish": "evenreel publish --library demo/library --to snapshot",
    "elements": "evenreel elements --help",
    "studies": "evenreel study --help",
    "transcript": "evenreel transcript --help",
    "cost": "evenreel cost msrvtt-9k/x_pool --dimension 512",
}
"""What is run for each picture; all but the last command of a line make what that one needs."""
THEME = TerminalTheme(
    (31, 35, 41),
    (220, 223, 228),
    [(31, 35, 41), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194)]
    + [(220, 223, 228)],
)
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 16px; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>\
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main(folder: Path, names: list[str]) -> None:
    """Draw the pictures of those names, or all, into a folder."""
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as place:
            (folder / f"{name}.svg").write_text(drawn(PICTURES[name], Path(place)), encoding="utf-8")


def drawn(line: str, place: Path) -> str:
    """Run a line of commands, and draw what it prints below the last of them."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "FORCE_COLOR": "1"}
    if "demo/" in line:
        subprocess.run(["evenreel", "demo"], cwd=place, env=environment, check=True, capture_output=True)
    done = subprocess.run(["bash", "-c", line], cwd=place, env=environment, check=False, capture_output=True, text=True)
    if done.returncode not in {0, 3}:
        sys.exit(f"{line} ended with {done.returncode}: {done.stderr}")
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    shown = line.rpartition("; ")[2]
    console.print(Text(f"$ {shown}", style="bold"))
    console.print(Text.from_ansi(done.stdout.rstrip().replace(f"{place}/", "")))
    return console.export_svg(title=shown, theme=THEME, code_format=FRAME, unique_id="terminal")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
