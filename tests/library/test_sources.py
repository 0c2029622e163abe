"""Which real clip a generated one mirrors, as its metadata names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.library.sources import read_sources
from tests.library.fakes import Library, empty_catalog


@pytest.mark.parametrize(
    ("pair_id", "expected"),
    [
        ("b" * 32, 1),
        ("0007", 0),
        ("0007.mp4", 0),
        ("real/0007.mp4", 0),
        ("./real/0007", 0),
        ("../real/0007.mp4", 0),
        ("/videos/real/0007.mp4", 0),
        ("other/0007.mp4", -1),
        ("al/0007.mp4", -1),
        ("0007.avi", -1),
        ("video.9", 1),
        ("video.9.mp4", 1),
        ("video", -1),
        ("twice", -1),
        ("one/twice", 2),
        (8, 4),
        ("..", -1),
        ("nowhere", -1),
    ],
)
def test_a_pair_id_names_a_real_clip(tmp_path: Path, pair_id: object, expected: int) -> None:
    made = Library(tmp_path, empty_catalog())
    real = {
        "a" * 32: "/videos/real/0007.mp4",
        "b" * 32: "/videos/real/video.9.mp4",
        "c" * 32: "/videos/one/twice.mp4",
        "d" * 32: "/videos/two/twice.mp4",
        "e" * 32: "/videos/real/8.mp4",
    }
    for clip_id, path in real.items():
        made.add_clip(clip_id)
        made.add_file(path, clip_id, {"source": "camera", "pair_id": "0007"})
    made.add_clip("f" * 32)
    made.add_file("/videos/fake/0007.mp4", "f" * 32, {"source": "sora", "pair_id": pair_id})
    found = read_sources(made.connection, [*real, "f" * 32])
    assert found.mirrored.tolist() == [-1] * 5 + [expected]
    assert found.names == ("camera",) * 5 + ("sora",)
