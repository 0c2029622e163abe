"""One run over a corpus that kills itself, as `kill -9` would, before the file of a given number takes its name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from evenreel.corpus import load_corpus
from evenreel.features import FeatureSettings, compute_features
from tests.features.pixel_encoder import PixelEncoder

_replace = Path.replace
_written = 0


def main(videos: Path, folder: Path, fatal: int) -> None:
    """Compute; `fatal` 0 lets it end."""

    def replace(self: Path, target: Path) -> Path:
        global _written  # noqa: PLW0603 -- the count of one short process
        _written += 1
        if _written == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return _replace(self, target)

    Path.replace = replace  # type: ignore[method-assign,assignment]
    settings = FeatureSettings(rule="4 midpoints", read_text=False, videos=videos, workers=2)
    compute_features(load_corpus(videos), folder, PixelEncoder(), settings)
