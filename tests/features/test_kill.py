"""A run that is killed at any of its writes goes on, and ends equal to one that nobody disturbed."""

from __future__ import annotations

import signal
from pathlib import Path

from evenreel.corpus import save_corpus
from evenreel.features import load_text_features, load_video_features
from evenreel.files import TEMPORARY_SUFFIX
from tests.features.corpora import write_corpus
from tests.features.killed_run import compute, exit_code

WRITES = 7
"""The manifest, a block of captions, four shards and the ledger."""


def content(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("index."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def test_a_run_killed_at_every_one_of_its_writes_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    videos, clean, folder = tmp_path / "videos", tmp_path / "clean", tmp_path / "features"
    corpus = write_corpus(videos)
    save_corpus(corpus, videos)
    assert exit_code(compute, videos, clean, 0) == 0
    expected = content(clean)
    assert len(expected) == WRITES
    for number in range(WRITES):  # each run gets one write further than the one before
        assert exit_code(compute, videos, folder, min(number + 1, 2)) == -signal.SIGKILL
        done = [name for name in content(folder) if not name.endswith(TEMPORARY_SUFFIX)]
        assert len(done) == number
    assert exit_code(compute, videos, folder, 0) == 0
    assert content(folder) == expected
    assert load_video_features(folder, corpus).ids == ("a", "b", "c", "d")
    assert load_text_features(folder, corpus).ids == ("0", "1", "2", "3")
