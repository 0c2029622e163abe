"""Whether a library's clips are what the encoder `builtin` knows: the rendered scenes of `evenreel demo` and `planted`.

It is a few megabytes large, so that everything can be tried without a download, and has seen nothing but these. Of
other videos it makes vectors too, but what it finds with them is chance.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from evenreel.encoders.sources import BUILTIN
from evenreel.wording import count

SIZES_PX = ((320, 240), (160, 120))
"""Width and height of the pictures that are rendered; hardly any camera makes such."""


def unknown_to_builtin(connection: sqlite3.Connection, meta: Mapping[str, str]) -> str | None:
    """Return a sentence where a library is made with `builtin` and holds clips that it cannot know; None where not."""
    if meta.get("model") != BUILTIN:
        return None
    rendered = " OR ".join("(width = ? AND height = ?)" for _ in SIZES_PX)
    sizes = [side for size in SIZES_PX for side in size]
    (number,) = connection.execute(f"SELECT count(*) FROM clips WHERE NOT ({rendered})", sizes).fetchone()
    if not number:
        return None
    have = "is no rendered scene" if number == 1 else "are no rendered scenes"
    return (
        f"The model builtin knows only the scenes that evenreel demo renders, and {count(number, 'clip')} here {have}: "
        "what is found there by what is seen is chance. Exchange it with evenreel reindex --model default "
        "(docs/encoders.md names others)."
    )
