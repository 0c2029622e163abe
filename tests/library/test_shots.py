from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.config import IndexSettings
from evenreel.errors import MediaError
from evenreel.features.shards import read_shard, shard_files, write_shard
from evenreel.library import repair, verify
from evenreel.library.search.seen import high_stretches
from evenreel.planted import write_clip
from tests import prebuilt
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import change, table_of

RED, BLUE = np.uint8([200, 30, 30]), np.uint8([30, 30, 200])
SETTINGS = IndexSettings(model="org/pixels", workers=1, read_text=False)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of one clip: 2.4 s of red, then 1.6 s of blue."""
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: PixelEncoder())
    pictures = [np.tile(RED if number < 12 else BLUE, (64, 64, 1)) for number in range(20)]
    (tmp_path / "videos").mkdir()
    write_clip(tmp_path / "videos" / "two.mp4", iter(pictures), 5)
    prebuilt.library(tmp_path / "videos", tmp_path / "library", SETTINGS)
    return tmp_path / "library"


def shots(library: Path) -> list[tuple[float, float]]:
    return [(start_s, end_s) for _, _, start_s, end_s in table_of(library, "shots")]


def test_shots_are_found_shown_repaired_and_checked(library: Path) -> None:
    assert shots(library) == [pytest.approx((0.0, 2.4)), pytest.approx((2.4, 4.0))]
    assert verify(library) == []
    with open_library(library, encoder=PixelEncoder()) as opened:
        (hit,) = opened.search("red").hits
        assert opened.clip(hit.clip_id).shots == tuple(shots(library))
    before = shots(library)
    for column in ("number = 7", "start_s = 1.5", "end_s = 9.0", "clip_id = 'ab'"):
        change(library, "PRAGMA foreign_keys = OFF", f"UPDATE shots SET {column} WHERE number = 1")
        assert any("not those of its shard" in problem.what for problem in verify(library)), column
        repair(library)
        assert (verify(library), shots(library)) == ([], before)


@pytest.mark.parametrize("cuts_s", [[2.0, 1.0], [1.0, 1.0], [-1.0], [np.nan]])
def test_cuts_out_of_order_are_damage(library: Path, cuts_s: list[float]) -> None:
    (path,) = shard_files(library / "shards")
    broken = replace(read_shard(path), cuts_s=np.array(cuts_s))
    with pytest.raises(MediaError, match=r"cuts"):
        write_shard(library / "shards", broken)


# Moments ----------------------------------------------------------------------------------------------------------

SPANS = np.array([[at + 0.5, at, at + 1] for at in range(6)], float)


def moments(scores: list[float], *cuts_s: float) -> list[tuple[float, float, float]]:
    edges = [0.0, *cuts_s, 6.0]
    found = high_stretches(np.array(scores), SPANS, list(pairwise(edges)))
    for one in found:
        assert one.starts_s and one.starts_s[0] <= one.start_s <= one.starts_s[1] <= one.time_s
        assert one.ends_s and one.time_s <= one.ends_s[0] <= one.end_s <= one.ends_s[1]
        for cut_s in cuts_s:  # what is likely is of the same shot
            assert not one.starts_s[0] < cut_s <= one.time_s - 1e-9
            assert not one.time_s + 1e-9 < cut_s < one.ends_s[1]
    return [(one.start_s, one.end_s, one.time_s) for one in found]


def test_a_stretch_over_a_cut_is_one_moment_for_each_shot_and_ends_at_the_cut() -> None:
    scores = [0.1, 0.1, 0.5, 0.6, 0.55, 0.1]
    assert moments(scores) == [(2.0, 5.0, 3.5)]
    assert moments(scores, 3.2) == [(3.2, 5.0, 3.5), (2.0, 3.2, 2.5)]
    assert moments(scores, 2.2) == [(2.2, 5.0, 3.5)]  # the frame before is of another shot, which ends later
    assert moments(scores, 5.3) == [(2.0, 5.3, 3.5)]


@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    st.lists(st.sampled_from([0.7, 1.2, 2.2, 2.4, 3.5, 4.9, 5.8]), max_size=5, unique=True),
)
def test_no_moment_crosses_a_cut_overlaps_another_or_lacks_its_frame(scores: list[int], cuts_s: list[float]) -> None:
    found = moments([score / 10 for score in scores], *sorted(cuts_s))
    for start_s, end_s, time_s in found:
        assert start_s <= time_s <= end_s
        if not any(abs(cut_s - time_s) < 1e-9 for cut_s in cuts_s):
            assert not any(start_s < cut_s <= time_s or time_s < cut_s < end_s for cut_s in cuts_s)
    ordered = sorted(found)
    assert all(one[1] <= other[0] for one, other in pairwise(ordered))
