"""The rounds of `scripts.kill_resume` with stub models, which need no torch: indexing is killed, not loading.

Readers are forked by a server that is there before the first indexer: starting Python anew for each takes longer than
what they read.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library, reindex
from evenreel.library.index import run
from evenreel.media import workers
from scripts import kill_resume
from tests.features.pixel_encoder import PixelEncoder
from tests.forked import FORKED_SUBPROCESS, READING, context


def _load(name: str, **_: object) -> PixelEncoder:
    if name != "second":
        return PixelEncoder()
    second = PixelEncoder("b" * 64)
    second.encoder_id = "second"
    return second


def _index_or_exchange(videos: list[Path], library: Path, settings: IndexSettings) -> object:
    """Index, or exchange the model where the library has another one than the settings."""
    if settings.model == "second":
        with open_library(library, vision=False) as opened:
            if opened.made_with[0] != "second":
                return reindex(library, "second", settings)
    return index_folders(videos, library, settings)


def main() -> int:
    evenreel.encoders.load_encoder = _load  # type: ignore[assignment]
    run.READER = "tests.library.stub_reader:QuickReader"
    exchanged = replace(kill_resume._WITHOUT_TEXT, model="second")
    kill_resume.STORIES["model exchanged"] = kill_resume.Story(kill_resume._nothing, kill_resume._nothing, exchanged)
    kill_resume.index_folders = _index_or_exchange
    kill_resume._import_everything = lambda: None
    workers.subprocess = FORKED_SUBPROCESS  # type: ignore[attr-defined]
    context.set_forkserver_preload(["tests.lasting_forkserver", *READING])
    forkserver.ensure_running()
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined] # an indexer is not its parent
    return kill_resume.main()


if __name__ == "__main__":
    sys.exit(main())
