"""The unit of an index run, which needs no library: what it makes of a file is what a library keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evenreel.config import MediaLimits
from evenreel.features.clip_reader import WantedStages
from evenreel.features.shards import shard_bytes, shard_path
from evenreel.library import index_folders
from evenreel.library.index.stages import FileWorker, Orders, read_file
from evenreel.media.workers import content_digest
from tests.library.damage import QUICK, without_models
from tests.library.stub_reader import QuickReader

ORDERS = Orders(
    WantedStages(vision=True, text=True),
    "every 1 s",
    MediaLimits(),
    model="org/pixels",
    reader=f"{QuickReader.__module__}:{QuickReader.__name__}",
)


@pytest.fixture(autouse=True)
def _models() -> Iterator[None]:
    with without_models():
        yield


def test_a_file_is_read_as_an_index_run_reads_it(videos: Path, library: Path) -> None:
    index_folders([videos], library, QUICK)
    for path in sorted(videos.iterdir()):
        reading = read_file(str(path), ORDERS)
        assert (reading.error, reading.frames, reading.file.clip_id) == (None, 2, content_digest(str(path)))
        assert reading.shard is not None and reading.stills is not None
        assert shard_bytes(reading.shard) == shard_path(library / "shards", reading.shard.clip_id).read_bytes()


def test_what_is_wrong_with_a_file_is_its_reading(tmp_path: Path) -> None:
    (tmp_path / "torn.mp4").write_bytes(b"no video" * 100)
    worker = FileWorker.alone(ORDERS)
    try:
        reasons = [read_file(str(tmp_path / name), ORDERS, worker).error for name in ("torn.mp4", "gone.mp4")]
    finally:
        worker.close()
    assert [error and error.reason for error in reasons] == ["not_media", "unreadable"]


def test_content_that_somebody_else_has_is_not_decoded(videos: Path) -> None:
    reading = read_file(str(videos / "clip_00.mp4"), ORDERS, claim=lambda clip_id: None)
    assert (reading.shard, reading.error, reading.frames) == (None, None, 0)
