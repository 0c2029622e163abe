"""What an audit of order is given of a library: the scores of its search with clips as they are and turned round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.audits.order.pairs import ORDER_OF
from evenreel.checkpoint import Inputs
from evenreel.errors import LibraryError, UsageError
from evenreel.library import Library, turned
from evenreel.library.turned import TURNED, order_inputs
from evenreel.types import WindowRule
from tests.library.search.test_rerank import LastFrame, pretrained

from .fakes import WordsEncoder, encode, on_disk
from .mirrored import finish_on_disk

CLIPS = 5
FRAMES = {f"c{number}": [f"frame{number} shot{shot}" for shot in range(2 + number)] for number in range(CLIPS)}
QUERIES = ["shot0", "frame3 shot1", "  shot2 "]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("turned")
    made = on_disk(folder)
    for clip, frames in FRAMES.items():
        made.add_clip(clip, frames)
        made.add_file(f"/v/{clip}.mp4", clip)
    finish_on_disk(made)
    made.connection.close()
    return folder


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_the_best_frame_of_a_clip_is_the_same_in_either_order(library: Library) -> None:
    corpus, scores = order_inputs(library, QUERIES)
    assert scores.video_ids == [*FRAMES, *(f"{clip}{TURNED}" for clip in FRAMES)]
    assert corpus.clips[ORDER_OF].to_list() == [*[None] * CLIPS, *FRAMES]
    assert corpus.captions.height == 0
    values = scores.block(slice(0, 3), slice(0, 2 * CLIPS))
    np.testing.assert_array_equal(values[:, :CLIPS], values[:, CLIPS:])
    _, searched = library.audit_inputs(QUERIES, every_clip=True)
    np.testing.assert_allclose(values[:, :CLIPS], searched.block(slice(0, 3), slice(0, CLIPS)), atol=2e-5)
    assert scores.about.texts["q3"] == "shot2"


def test_a_matcher_is_given_the_same_frames_turned_round(library: Library) -> None:
    """It goes by the last frame that it is given: of at most three frames those in the middle of equal parts."""
    of_three = pretrained(LastFrame(), Inputs(frames=3))
    _, scores = order_inputs(library, QUERIES, of_three)
    values = scores.block(slice(0, 3), slice(0, 2 * CLIPS))
    for column, frames in enumerate(FRAMES.values()):
        count = len(frames)
        taken = frames if count <= 3 else [frames[(2 * part + 1) * count // 6] for part in range(3)]
        for row, query in enumerate(QUERIES):
            for order, at in ((0, -1), (CLIPS, 0)):
                expected = float(encode(taken[at]) @ encode(query.strip()))
                assert values[row, column + order] == pytest.approx(expected, abs=2e-3)


def test_a_query_is_encoded_once_however_many_clips_there_are(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "_AT_ONCE", 2)
    encoder = WordsEncoder()
    with evenreel.open_library(place, encoder=encoder) as opened:
        _, apart = order_inputs(opened, QUERIES, pretrained(LastFrame()))
        asked = encoder.captions_encoded
        monkeypatch.setattr(turned, "_AT_ONCE", 64)
        _, whole = order_inputs(opened, QUERIES, pretrained(LastFrame()))
    assert encoder.captions_encoded - asked == asked == 2 * len(QUERIES)  # for the search, and for the matcher
    every = slice(0, 3), slice(0, 2 * CLIPS)
    np.testing.assert_allclose(apart.block(*every), whole.block(*every), atol=1e-5)


def test_of_a_large_library_some_clips_are_drawn(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned, "MOST_CLIPS", 3)
    drawn = [order_inputs(library, QUERIES, seed=seed)[1] for seed in (1, 1, 2, 3, 4)]
    assert drawn[0].video_ids == drawn[1].video_ids
    assert len({tuple(one.video_ids) for one in drawn}) > 1
    assert "Of 5 clips 3, drawn at random, were looked at in both orders." in drawn[0].about.notices


def test_that_windows_stay_in_order_is_told(place: Path) -> None:
    encoder = WordsEncoder()
    encoder.window = WindowRule(4, 2.0, 1.0)  # type: ignore[misc]
    with evenreel.open_library(place, encoder=encoder) as opened:
        _, scores = order_inputs(opened, QUERIES)
    assert any("sees 4 frames at once, and within these they stay in order" in one for one in scores.about.notices)


def test_what_cannot_be_audited_is_said(place: Path, library: Library, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="their weights differ"):
        order_inputs(library, QUERIES, pretrained(digest="other"))
    with evenreel.open_library(place, vision=False) as deaf, pytest.raises(UsageError, match="without vision"):
        order_inputs(deaf, QUERIES)
    made = on_disk(tmp_path)
    finish_on_disk(made)
    made.connection.close()
    with (
        evenreel.open_library(tmp_path, encoder=WordsEncoder()) as empty,
        pytest.raises(UsageError, match="No clip of"),
    ):
        order_inputs(empty, QUERIES)
