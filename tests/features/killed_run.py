"""Runs over a corpus that kill themselves, as `kill -9` would, before the file of a given number takes its name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from evenreel.corpus import load_corpus
from evenreel.edits.equalise import equalise
from evenreel.edits.settings import EqualiseSettings
from evenreel.features import FeatureSettings, compute_features
from tests.features.pixel_encoder import PixelEncoder
from tests.forked import context

_replace = Path.replace
_written = 0


def compute(videos: Path, folder: Path, fatal: int) -> None:
    """Compute features; `fatal` 0 lets it end."""
    _die_at(fatal)
    settings = FeatureSettings(rule="4 midpoints", read_text=False, videos=videos, workers=2)
    compute_features(load_corpus(videos), folder, PixelEncoder(), settings)


def make_equal(corpus: Path, videos: Path, folder: Path, fatal: int) -> None:
    """Encode all clips anew."""
    _die_at(fatal)
    equalise(load_corpus(corpus), folder, EqualiseSettings(videos, fps=10, fit="crop", workers=1))


def exit_code(run: object, *arguments: object) -> int:
    """What becomes of one of these runs in a process of its own."""
    process = context.Process(target=run, args=arguments)  # type: ignore[arg-type]
    process.start()
    process.join(timeout=120)
    assert process.exitcode is not None
    return process.exitcode


def _die_at(fatal: int) -> None:
    def replace(self: Path, target: Path) -> Path:
        global _written  # noqa: PLW0603 -- the count of one short process
        _written += 1
        if _written == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return _replace(self, target)

    Path.replace = replace  # type: ignore[method-assign,assignment]
