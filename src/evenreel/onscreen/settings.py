"""Settings of reading on-screen text, with every number in one place."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class TextSettings:
    """Settings that decide what reading costs and what counts as text.

    Attributes:
        threads: threads of each model; 1 where one reader process runs on each core.
        close_side_px: the shorter side of the picture in a close look. Smaller pictures are enlarged to it,
            as RapidOCR does by default; larger ones keep their size.
        max_side_px: the longer side of the picture in a close look never exceeds this.
        glance_share: side of the picture in a glance over the side in a close look.
        glance_level: heat (0 to 1) in the glance above which a place is worth a close look.
        large_line_px: lines at least this high in the glance are read from there, without a close look.
        change_level: grey levels (0 to 255) by which a 3 x 3 patch of the glance must differ to be looked at.
        same_look_level: grey levels by which a patch of two crops may differ and still show the same sign.
        min_confidence: readings below this are not reported.
    """

    threads: int = 1
    close_side_px: int = 736
    max_side_px: int = 2000
    glance_share: float = 0.38
    glance_level: float = 0.1
    large_line_px: int = 8
    change_level: int = 12
    same_look_level: int = 24
    min_confidence: float = 0.5

    @property
    def digest(self) -> str:
        """Return eight hex digits over all that changes a reading; the number of threads does not."""
        values = {name: value for name, value in asdict(self).items() if name != "threads"}
        return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]
