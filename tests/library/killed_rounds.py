"""The rounds of `scripts.kill_resume` with stub models, which need no torch: indexing is killed, not loading."""

from __future__ import annotations

import sys
from functools import partial

import evenreel.encoders
from evenreel.library.index import ingest
from scripts import kill_resume
from tests.features.pixel_encoder import PixelEncoder


def main() -> int:
    evenreel.encoders.load_encoder = lambda *_, **__: PixelEncoder()  # type: ignore[assignment]
    ingest.IndexJob = partial(ingest.IndexJob, reader="tests.library.stub_reader:QuickReader")  # type: ignore[misc,assignment]
    kill_resume._import_everything = lambda: None
    return kill_resume.main()


if __name__ == "__main__":
    sys.exit(main())
