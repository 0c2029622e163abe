"""What signs say in each window: the words shown then, once each, in order, and no more than the tokenizer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.features import windows as module
from evenreel.features.clip_reader import spans
from evenreel.features.windows import (
    EMPTY,
    TEMPLATE,
    USES,
    Sampled,
    WindowText,
    read_confidence,
    read_windows,
    window_scores,
    with_windows,
    written,
)
from evenreel.types import OnScreen, TextFeatures, TextTrack, VideoFeatures
from tests.features.pixel_encoder import PixelEncoder
from tests.features.test_shards import make_shard

BOX = (0.0, 0.0, 1.0, 1.0)
words = st.text("abcAB{}", min_size=1, max_size=3)
SIGNS = st.lists(
    st.tuples(st.lists(words, min_size=1, max_size=3), st.floats(0, 8), st.floats(0, 3), st.floats(0, 1)), max_size=6
)
"""Words of each sign, when it begins, how long it is shown and how surely it was read."""


def sign(text: str, start_s: float, end_s: float, confidence: float = 0.9) -> TextTrack:
    return TextTrack(text, confidence, start_s, end_s, BOX, (text,))


def texts(tracks: Sequence[TextTrack], count: int = 4, most_words: int = 99) -> tuple[str, ...]:
    sampled = Sampled(np.array([4.0]), np.array([[0.0, 8.0]]))
    said = written(tracks, sampled, count, lambda text: len(text.split()) <= most_words, exact=True)
    return tuple(one.text for one in said)


def say(shown: str) -> str:
    return f"There are scene texts: {shown} in this frame."


def test_a_sign_is_in_every_window_in_which_it_is_shown() -> None:
    assert texts([sign("GATE", 1.9, 2.0), sign("EXIT", 6.0, 9.5)]) == (say("GATE"), say("GATE"), "", say("EXIT"))


def test_repeated_words_are_merged_whatever_their_case_and_the_order_is_that_of_their_signs() -> None:
    tracks = [sign("Stop here", 0.0, 0.5), sign("STOP Ahead", 0.5, 1.0)]
    assert texts(tracks)[0] == say("Stop here Ahead")


def test_the_least_certain_words_go_first_and_the_sentence_keeps_its_end() -> None:
    tracks = [sign("one two", 0, 0, 0.7), sign("three", 0, 0, 0.6), sign("four", 0, 0, 0.95)]
    assert texts(tracks, most_words=10)[0] == say("one two four")
    assert texts(tracks, most_words=8)[0] == say("four")
    assert texts(tracks, most_words=7)[0] == ""


def test_braces_on_a_sign_are_braces() -> None:
    assert texts([sign("{0} {words}", 0, 0)])[0] == say("{0} {words}")


@given(SIGNS, st.integers(1, 6), st.integers(7, 16))
def test_every_window_has_the_words_that_a_slow_loop_finds(
    rows: list[tuple[list[str], float, float, float]], count: int, most: int
) -> None:
    tracks = [sign(" ".join(text), start, start + length, sure) for text, start, length, sure in rows]
    found = texts(tracks, count, most)
    for number, text in enumerate(found):
        shown = [
            (word, track.confidence)
            for track in tracks
            if any(
                min(int(moment * count / 8.0), count - 1) == number
                for moment in [track.start_s, track.end_s, *np.linspace(track.start_s, track.end_s, 200)]
            )
            for word in track.text.split()
        ]
        best: dict[str, float] = {}
        for word, sure in shown:
            best[word.casefold()] = max(sure, best.get(word.casefold(), 0.0))
        kept = text.removeprefix("There are scene texts: ").removesuffix(" in this frame.").split()
        room = max(0, most - len(TEMPLATE.split()) + 1)
        assert len(kept) == min(len(best), room)
        assert len({word.casefold() for word in kept}) == len(kept)
        order = [word.casefold() for word, _ in shown]
        assert [order.index(word.casefold()) for word in kept] == sorted(order.index(word.casefold()) for word in kept)
        dropped = best.keys() - {word.casefold() for word in kept}
        if kept and dropped:
            assert min(best[word.casefold()] for word in kept) >= max(best[word] for word in dropped)


@given(st.integers(1, 6), st.integers(1, 24), st.floats(0.001, 0.05), st.data())
def test_no_window_is_empty_under_a_sign_that_its_frame_shows(
    frames: int, count: int, early_s: float, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, frames - 1))
    last = data.draw(st.integers(first, frames - 1))
    times_s = (np.arange(frames) + 0.5) * 8.0 / frames - early_s  # the frame on screen began a little before
    spans_s = spans(times_s, 8.0)
    shard = replace(
        make_shard(frames, 12), times_s=times_s, spans_s=spans_s, tracks=(sign("GATE", *times_s[[first, last]]),)
    )
    found = with_windows(shard, count, PixelEncoder()).window_texts
    assert found is not None
    for number, text in enumerate(found):
        start_s, middle_s, end_s = (8.0 * (number + part) / count for part in (0.0, 0.5, 1.0))
        shows = [
            first <= frame <= last and spans_s[frame, 0] <= middle_s < spans_s[frame, 1] for frame in range(frames)
        ]
        seen = times_s[first] < end_s and times_s[last] >= start_s
        assert text == (say("GATE") if any(shows) or seen else "")


def test_a_sign_of_one_frame_is_in_one_window_where_there_are_as_many_frames() -> None:
    times_s = np.floor((np.arange(12) + 0.5) * 10 / 12 * 30) / 30  # 12 midpoints of 10 s at 30 frames a second
    shard = replace(make_shard(12, 12), times_s=times_s, spans_s=spans(times_s, 10.0))
    for number, time_s in enumerate(times_s):
        done = with_windows(replace(shard, tracks=(sign("GATE", time_s, time_s),)), 12, PixelEncoder())
        assert done.window_texts is not None
        assert [row for row, text in enumerate(done.window_texts) if text] == [number]


def test_windows_of_a_shard_are_the_encoders_and_zero_where_nothing_is_written() -> None:
    encoder = PixelEncoder()
    shard = make_shard(4, encoder.dimension)
    done = with_windows(shard, 4, encoder)  # its sign is shown from 0 to 2 of 4 seconds
    assert done.windows is not None
    assert done.window_texts == (say("HYUNDAI"),) * 3 + ("",)
    expected = encoder.encode_text([say("HYUNDAI")]).sentence[0].astype(np.float16)
    np.testing.assert_array_equal(done.windows, np.stack([expected] * 3 + [np.zeros_like(expected)]))


# How surely words were read -----------------------------------------------------------------------------------------


def test_a_window_is_as_certain_as_its_words_on_the_signs_where_each_was_read_best() -> None:
    tracks = [sign("Stop here", 0.0, 0.5, 0.7), sign("STOP", 0.5, 1.0, 0.9), sign("GATE", 6.0, 6.0, 0.4)]
    sampled = Sampled(np.arange(8.0), spans(np.arange(8.0), 8.0))
    said = written(tracks, sampled, 2, lambda text: True, exact=True)
    assert [one.text for one in said] == [say("Stop here"), say("GATE")]
    np.testing.assert_allclose([one.confidence for one in said], [(0.9 + 0.7) / 2, 0.4])
    (first, *_) = written(tracks, sampled, 2, lambda text: len(text.split()) <= 8, exact=True)
    assert (first.text, first.confidence) == (say("Stop"), 0.9)  # words that are cut off do not count
    assert written((), sampled, 2, lambda text: True) == (("", 0.0),) * 2


@given(SIGNS, st.integers(1, 6), st.integers(7, 16), st.booleans())
def test_it_is_the_same_read_from_signs_whose_sentences_are_known(
    rows: list[tuple[list[str], float, float, float]], count: int, most: int, exact: bool
) -> None:
    tracks = [sign(" ".join(text), start, start + length, sure) for text, start, length, sure in rows]
    sampled = Sampled(np.arange(0.0, 8.0, 2.0), spans(np.arange(0.0, 8.0, 2.0), 8.0))
    said = written(tracks, sampled, count, lambda text: len(text.split()) <= most, exact=exact)
    found = read_confidence(tracks, sampled, [one.text for one in said], exact=exact)
    np.testing.assert_array_equal(found, np.array([one.confidence for one in said], np.float32))
    assert all(low <= one.confidence <= high for one, (low, high) in zip(said, _limits(tracks, said), strict=True))


def _limits(tracks: Sequence[TextTrack], said: Sequence[WindowText]) -> list[tuple[float, float]]:
    """Between which confidences a window has to be: those of the least and of the most certain sign."""
    sure = [track.confidence for track in tracks] or [0.0]
    return [(min(sure) - 1e-9, max(sure) + 1e-9) if one.text else (0.0, 0.0) for one in said]


def test_windows_of_a_clip_come_with_it_and_those_without_text_can_say_so() -> None:
    encoder, tracks = PixelEncoder(), [sign("GATE", 0.0, 1.0, 0.6)]
    sampled = Sampled(np.arange(4.0), spans(np.arange(4.0), 4.0))
    made = read_windows(tracks, sampled, 2, encoder, exact=True, empty=EMPTY)
    assert made.texts == (say("GATE"), EMPTY)
    np.testing.assert_array_equal(made.confidence, np.array([0.6, 1.0], np.float32))  # nothing there is no misreading
    plain = read_windows(tracks, sampled, 2, encoder, exact=True)
    assert plain.texts == (say("GATE"), "") and not plain.vectors[1].any() and plain.confidence[1] == 0
    np.testing.assert_array_equal(made.vectors[1], encoder.encode_text([EMPTY]).sentence[0].astype(np.float16))


# Captions and clips by the word and the window that are most alike, against loops


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
        for windows, shown in zip(read.windows, read.mask, strict=True):
            cosines = [
                float(word @ window / np.linalg.norm(word) / np.linalg.norm(window))
                for word, here in zip(words, real, strict=True)
                for window, there in zip(windows, shown, strict=True)
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


def test_clips_without_any_text_and_features_of_another_length_are_refused() -> None:
    texts, videos = material()
    for nothing in (replace(videos, on_screen=None), videos.taken(np.array([2]))):
        with pytest.raises(UsageError, match="No clip has on-screen text"):
            window_scores(texts, nothing)
    with pytest.raises(UsageError, match="captions have 0 numbers and those of on-screen text 8"):
        window_scores(replace(texts, words=texts.words[..., :0]), videos)
