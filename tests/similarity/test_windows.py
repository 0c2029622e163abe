"""Captions and clips by the word and the window that are most alike, against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.similarity import windows as module
from evenreel.similarity.windows import USES, window_scores
from evenreel.types import OnScreen, TextFeatures, VideoFeatures


def material(seed: int = 0, captions: int = 5, clips: int = 6) -> tuple[TextFeatures, VideoFeatures]:
    rng = np.random.default_rng(seed)
    words, windows = rng.standard_normal((captions, 4, 8)), rng.standard_normal((clips, 3, 8))
    word_mask, mask = rng.random((captions, 4)) < 0.6, rng.random((clips, 3)) < 0.6
    word_mask[:, 0], mask[:, 1], mask[2] = True, True, False
    texts = TextFeatures(tuple(f"q{row}" for row in range(captions)), words, word_mask, words[:, 0])
    frames, times_s = rng.standard_normal((clips, 1, 8)), np.zeros((clips, 1))
    ids = tuple(f"v{row}" for row in range(clips))
    return texts, VideoFeatures(ids, frames, np.ones((clips, 1), np.bool_), times_s, OnScreen(windows, mask))


def slowly(texts: TextFeatures, videos: VideoFeatures) -> list[list[float]]:
    """A loop over captions, clips, words and windows."""
    read, table = videos.on_screen, []
    assert read is not None
    for words, real in zip(texts.words, texts.word_mask, strict=True):
        row: list[float | None] = []
        for windows, written in zip(read.windows, read.mask, strict=True):
            cosines = [
                float(word @ window / np.linalg.norm(word) / np.linalg.norm(window))
                for word, here in zip(words, real, strict=True)
                for window, there in zip(windows, written, strict=True)
                if here and there
            ]
            row.append(max(cosines, default=None))
        known = [score for score in row if score is not None]
        table.append([sum(known) / len(known) if score is None else score for score in row])
    return table


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [1, 2**26])
def test_the_best_pair_of_word_and_window_counts(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    texts, videos = material(seed)
    scores = window_scores(texts, videos)
    assert scores.values == pytest.approx(np.array(slowly(texts, videos)), abs=1e-6)
    assert (scores.caption_ids, scores.video_ids) == (texts.ids, videos.ids)


def test_padding_takes_no_part_where_all_is_unlike() -> None:
    texts, videos = material()
    direction = np.eye(8)[0]
    texts = replace(texts, words=np.where(texts.word_mask[..., None], direction, 0.0))
    assert videos.on_screen is not None
    windows = np.where(videos.on_screen.mask[..., None], -direction, 0.0)
    scores = window_scores(texts, replace(videos, on_screen=replace(videos.on_screen, windows=windows)))
    assert np.allclose(scores.values, -1)


def test_scores_say_whether_clips_without_text_were_given_a_mean() -> None:
    texts, videos = material()
    assert window_scores(texts, videos).about.uses == (USES,)
    written = videos.taken(np.array([0, 1, 3]))
    assert window_scores(texts, written).about.uses == ()


def test_clips_without_any_text_are_refused() -> None:
    texts, videos = material()
    with pytest.raises(UsageError, match="No clip has on-screen text"):
        window_scores(texts, replace(videos, on_screen=None))
    with pytest.raises(UsageError, match="No clip has on-screen text"):
        window_scores(texts, videos.taken(np.array([2])))


def test_features_of_another_length_are_refused() -> None:
    texts, videos = material()
    with pytest.raises(UsageError, match="captions have 0 numbers and those of on-screen text 8"):
        window_scores(replace(texts, words=texts.words[..., :0]), videos)
