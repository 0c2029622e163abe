"""Words that are left out or misread: at the rates that are asked for, nested, and the same in every process."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.checkpoint import changed_words
from evenreel.errors import FeaturesError, UsageError
from evenreel.features import StoredSettings, find_clips, load, load_video_features, store_features
from evenreel.features.load import SENTENCES, FoundClips
from evenreel.features.manifest import FeatureSet
from evenreel.features.shards import Shard, seal, unseal
from evenreel.features.windows import EMPTY, Sampled, Windows, read_windows, windows_of
from evenreel.features.word_changes import (
    WordChanges,
    changed_signs,
    changed_track,
    changed_windows,
    look_alikes,
    with_changed_words,
)
from evenreel.papers.workspace import words_said
from evenreel.types import TextTrack, VideoFeatures, VideoInfo
from tests.features.pixel_encoder import PixelEncoder
from tests.features.test_compute import Place
from tests.features.test_sets import WORDS, sentence, words_table

BOX = (0.0, 0.0, 1.0, 1.0)
shares = st.floats(0, 1)
seeds = st.integers(0, 9)


def sign(text: str, start_s: float = 0.0, end_s: float = 1.0) -> TextTrack:
    return TextTrack(text, 0.9, start_s, end_s, BOX, (text, "another"))


def left(text: str, changes: WordChanges, clip_id: str = "clip", window: int = 0) -> str:
    """What is left of one sign in a window."""
    read = changed_track(sign(text), clip_id, window, changes)
    return "" if read is None else read.text


def clip_of(signs: Sequence[TextTrack], frames: int = 6, length_s: float = 6.0) -> Shard:
    """A clip that shows some signs."""
    edges_s = np.linspace(0.0, length_s, frames + 1)
    spans_s = np.stack([edges_s[:-1], edges_s[1:]], axis=1)
    info = VideoInfo("mp4", "h264", 320, 240, length_s, frames, 1.0, frames, ())
    return Shard("a", info, None, None, "rule", spans_s.mean(1), spans_s, None, tuple(signs), "corpus")


def signs_of(signs: Sequence[TextTrack], changes: WordChanges, windows: int = 6) -> list[tuple[str, float, float]]:
    """Text and stretch of each reading, as `changed_signs` tells them."""
    made = FeatureSet("rule", "corpus", windows)
    return [(one.text, one.start_s, one.end_s) for one in changed_signs(clip_of(signs), "clip", changes, made)]


def numbered(count: int) -> str:
    """Words that are all different."""
    return " ".join(f"w{number}" for number in range(count))


# Words -------------------------------------------------------------------------------------------------------------


@given(shares, shares, seeds, st.sampled_from(["word", "clip"]))
def test_what_a_low_ratio_keeps_a_higher_one_keeps_too(one: float, other: float, seed: int, unit: Any) -> None:
    low, high = sorted((one, other))
    few, more = (left(numbered(40), WordChanges(ratio, unit, seed=seed)).split() for ratio in (low, high))
    assert [word for word in more if word in few] == few
    assert left(numbered(40), WordChanges(1.0, unit, seed=seed)) == numbered(40)
    assert left(numbered(40), WordChanges(0.0, unit, seed=seed)) == ""


@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.8])
def test_the_share_of_words_that_is_kept_is_the_ratio(ratio: float) -> None:
    """Within four standard deviations of a binomial count, over 5,000 words and over 5,000 clips."""
    room = 4 * (5000 * ratio * (1 - ratio)) ** 0.5
    assert abs(len(left(numbered(5000), WordChanges(ratio, seed=3)).split()) - 5000 * ratio) < room
    whole = [left("EXIT", WordChanges(ratio, "clip"), f"clip {number}") for number in range(5000)]
    assert abs(sum(map(bool, whole)) - 5000 * ratio) < room


def test_a_word_on_several_signs_is_one_word_and_each_clip_and_seed_has_others() -> None:
    """Else one that is read anew in every frame would survive nearly any ratio."""
    half, made = WordChanges(0.5), FeatureSet("rule", "corpus", 6)
    clip = clip_of([sign("GATE"), sign("Gate")])
    assert {len(changed_signs(clip, f"{number}", half, made)) for number in range(20)} == {0, 2}
    misread = signs_of([sign("NORTHGATE", 0.0, 0.9), sign("NORTHGATE", 0.1, 0.8)], WordChanges(char_errors=0.3))
    assert len(misread) == 2 and len({text for text, *_ in misread}) == 1
    assert (
        left(numbered(40), half)
        != left(numbered(40), half, "another clip")
        != left(numbered(40), replace(half, seed=1))
    )


def test_what_is_kept_of_a_sign_is_its_only_reading_and_a_sign_without_words_is_gone() -> None:
    signs, half = [sign(numbered(3)), sign("GATE", 2.0, 3.0)], WordChanges(0.5, seed=13)
    (kept,) = changed_signs(clip_of(signs), "clip", half, FeatureSet("rule", "corpus", 6))
    assert (kept.text, kept.readings, kept.start_s, kept.end_s) == ("w0 w2", ("w0 w2",), 0.0, 1.0)
    assert changed_signs(clip_of(signs), "clip", WordChanges(), FeatureSet("rule", "corpus", 6)) == tuple(signs)


def test_words_are_the_same_in_every_process_and_version() -> None:
    """Neither Python's own hashes, which differ from process to process, nor a change of the code may move figures."""
    program = (
        "from evenreel.features.word_changes import TextTrack, WordChanges, changed_track\n"
        "sign = TextTrack('MAIN STREET 15 Bakery open daily', 0.9, 0.0, 1.0, (0, 0, 1, 1))\n"
        "print(changed_track(sign, 'clip', 1, WordChanges(0.6, char_errors=0.3, seed=5)).text)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {"M4INQ 1 Bakenyx pen daao1ly\n"}


# Characters --------------------------------------------------------------------------------------------------------


def misread(rate: float, count: int, **changes: Any) -> list[str]:
    """What becomes of so many signs of one letter each: of those, every error can be seen."""
    window = changes.pop("window", 0)
    return [left("S", WordChanges(char_errors=rate, **changes), f"clip {number}", window) for number in range(count)]


@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0])
def test_so_many_characters_are_misread_a_third_of_them_each_way(rate: float) -> None:
    """Within four standard deviations of a binomial count."""
    count = 9000
    kinds = Counter("same" if one == "S" else len(one) for one in misread(rate, count))
    assert abs(count - kinds["same"] - count * rate) <= 4 * (count * rate * (1 - rate)) ** 0.5
    for length in (0, 1, 2):
        assert abs(kinds[length] - count * rate / 3) < 4 * (count * rate / 3 * (1 - rate / 3)) ** 0.5
    assert set(misread(1.0, 300)) == {"", "5", "S5"}


@given(shares, shares, seeds, st.integers(0, 4))
def test_what_a_low_rate_misreads_a_higher_one_misreads_alike(one: float, other: float, seed: int, window: int) -> None:
    few, many = (misread(rate, 40, seed=seed, window=window) for rate in sorted((one, other)))
    pairs = zip(few, many, strict=True)
    assert all(few in ("S", more) for few, more in pairs)


def test_each_window_misreads_a_word_for_itself() -> None:
    """As a recogniser does that reads every frame anew; else no other window could tell what a word was."""
    changes = WordChanges(char_errors=0.3)
    read = [left("NORTHGATE", changes, window=number) for number in range(6)]
    assert len(set(read)) > 3
    signs = signs_of([sign("NORTHGATE", 0.2, 5.9)], changes)
    assert [text for text, *_ in signs] == [text for text, _ in groupby(read)]
    starts, ends = ([one[place] for one in signs] for place in (1, 2))
    assert (starts[0], ends[-1]) == (0.2, 5.9)
    assert all(start == round(start) and 0 < start - end < 1e-5 for end, start in zip(ends, starts[1:], strict=False))
    windows = changed_windows(
        clip_of([sign("NORTHGATE", 0.2, 5.9)]), "clip", changes, FeatureSet("rule", "corpus", 6), lambda text: True
    )
    assert [one.text for one in windows] == [sentence(text) for text in read]


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.floats(0, 5.9), st.floats(0, 5.9)).map(sorted), min_size=1, max_size=4),
    st.integers(1, 9), shares, seeds, st.sampled_from(["corpus", "ocr"]),
)  # fmt: skip
def test_readings_of_signs_are_what_the_windows_say(
    stretches: list[list[float]], windows: int, rate: float, seed: int, words: Any
) -> None:
    signs = [sign(f"GATE{number}", *stretch) for number, stretch in enumerate(stretches)]
    changes, made, clip = WordChanges(char_errors=rate, seed=seed), FeatureSet("rule", words, windows), clip_of(signs)
    read = changed_signs(clip, "clip", changes, made)
    said = changed_windows(clip, "clip", changes, made, lambda text: True)
    assert {word for one in read for word in one.text.casefold().split()} == {
        word for one in said for word in map(str.casefold, words_said(one.text))
    }
    assert all(one.start_s <= one.end_s for one in read)


@given(shares, shares, seeds)
def test_words_are_left_out_first_and_the_others_are_misread_as_they_would_have_been(
    ratio: float, rate: float, seed: int
) -> None:
    tracks = [sign(f"w{number}") for number in range(30)]
    both, kept, wrong = (
        {number: read.text for number, track in enumerate(tracks) if (read := changed_track(track, "clip", 4, changes))}
        for changes in (
            WordChanges(ratio, char_errors=rate, seed=seed),
            WordChanges(ratio, seed=seed),
            WordChanges(char_errors=rate, seed=seed),
        )
    )
    assert both == {number: text for number, text in wrong.items() if number in kept}


@given(st.characters())
def test_a_character_is_never_misread_as_itself_as_white_space_or_as_another_word(character: str) -> None:
    found = look_alikes(character)
    assert found and character not in found
    assert not any(one.isspace() for one in found)


def test_what_is_misread_looks_alike() -> None:
    for one, other in ("O0", "0O", "l1", "1I", "Il", "S5", "5S", "B8", "8B"):
        assert other in look_alikes(one)
    assert look_alikes("京") and all("一" <= one <= "鿿" for one in look_alikes("京"))


# Settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings_given", "said"),
    [
        ({"ratio": 1.5}, "ratio of changed words is 1.5; it must be a number from 0 to 1"),
        ({"ratio": float("nan")}, "ratio of changed words is nan"),
        ({"ratio": True}, "ratio of changed words is True"),
        ({"char_errors": -0.1}, "char_errors of changed words is -0.1"),
        ({"seed": -1}, "seed of changed words is -1; it must be a whole number, at least 0"),
        ({"unit": "letter"}, "unit of changed words is 'letter'; it must be word or window or clip"),
        ({"splits": "test"}, "splits of changed words is 'test'; it must be all or evaluated"),
        ({"empty": ""}, "empty of changed words is ''; it must be left_out or caption"),
    ],
)
def test_settings_that_make_no_sense(settings_given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WordChanges(**settings_given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (WordChanges(), ""),
        (WordChanges(empty="caption"), ""),
        (WordChanges(0.0, char_errors=0.1), "no on-screen words"),
        (WordChanges(0.4, "window", seed=2), "on-screen words of 40 % of windows (seed 2)"),
        (WordChanges(0.05, "clip"), "on-screen words of 5 % of clips (seed 0)"),
        (WordChanges(char_errors=0.1), "on-screen words with 10 % of their characters misread (seed 0)"),
    ],
)
def test_what_is_said_of_them(changes: WordChanges, said: str) -> None:
    assert str(changes) == said
    assert changes.uses == ((said,) if said else ())
    assert changes.changes_nothing == (changes == WordChanges())


def test_what_is_learned_from_is_spared_where_only_what_is_evaluated_is_to_change() -> None:
    changes = WordChanges(0.4, char_errors=0.1, empty="caption")
    assert changes.learned == changes
    assert replace(changes, splits="evaluated").learned == WordChanges(empty="caption")


# Features ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Four clips with two windows each: `EXIT` in the first of `a`, `GATE` in the second of `c` and in both of `d`."""
    made = Place(tmp_path)
    made.compute(read_text=True, words=WORDS, windows=2)
    return made


def found(place: Place) -> FoundClips:
    clips = find_clips(place.folder, place.corpus)
    assert isinstance(clips, FoundClips)
    return clips


def changed(place: Place, changes: WordChanges, encoder: Callable[[], PixelEncoder] = PixelEncoder) -> VideoFeatures:
    return with_changed_words(found(place), place.load(), changes, encoder)


def nobody() -> PixelEncoder:
    raise AssertionError("nobody should ask for the encoder")


def vector(text: str) -> np.ndarray[Any, Any]:
    return PixelEncoder().encode_text([text]).sentence[0].astype(np.float16)


def test_without_a_change_features_are_those_that_are_stored_and_need_no_encoder(place: Place) -> None:
    videos = place.load()
    assert with_changed_words(found(place), videos, WordChanges(), nobody) is videos


def test_windows_are_those_made_of_the_changed_signs(place: Place) -> None:
    """As the library makes them, of signs changed by hand."""
    changes = WordChanges(char_errors=0.6, seed=3)
    videos = changed(place, changes)
    shards, _ = found(place).shards()
    for row, clip_id in enumerate(videos.ids):
        shard = shards[clip_id]
        sampled = Sampled(shard.times_s, shard.spans_s)
        shown = windows_of(shard.tracks or (), sampled, 2, exact=True)
        alone = [
            [
                read
                for track, span in zip(shard.tracks or (), shown, strict=True)
                if number in span and (read := changed_track(track, clip_id, number, changes))
            ]
            for number in range(2)
        ]
        texts, vectors, sure = zip(
            *((one.texts[n], one.vectors[n], one.confidence[n]) for n, one in enumerate(
                read_windows(signs, sampled, 2, PixelEncoder(), exact=True) for signs in alone
            )), strict=True,
        )  # fmt: skip
        made = Windows(texts, np.stack(vectors), np.array(sure))
        assert videos.on_screen is not None and videos.on_screen.confidence is not None
        np.testing.assert_allclose(
            videos.on_screen.windows[row].astype(np.float32), made.vectors.astype(np.float32), atol=1e-3
        )
        assert videos.on_screen.mask[row].tolist() == [bool(text) for text in made.texts]
        assert videos.on_screen.confidence[row].tolist() == made.confidence.tolist()
    stored = place.load()
    np.testing.assert_array_equal(videos.frames, stored.frames)
    assert not np.array_equal(videos.on_screen.windows, stored.on_screen.windows)  # type: ignore[arg-type]


def test_without_words_no_window_has_text(place: Place) -> None:
    videos = changed(place, WordChanges(0.0), nobody)
    assert videos.on_screen is not None and videos.on_screen.confidence is not None
    assert not videos.on_screen.windows.any()
    assert not videos.on_screen.mask.any() and not videos.on_screen.confidence.any()
    assert videos.on_screen.windows.shape == (4, 2, PixelEncoder.dimension)


def test_windows_without_text_can_say_so(place: Place) -> None:
    encoder = PixelEncoder()
    videos = changed(place, WordChanges(empty="caption"), lambda: encoder)
    stored = place.load()
    assert encoder.captions == [EMPTY]  # what lies in the shards is not encoded again
    after, before = videos.on_screen, stored.on_screen
    assert after is not None and before is not None
    assert after.mask.all()
    np.testing.assert_array_equal(after.windows[before.mask], before.windows[before.mask])
    assert (after.windows[~before.mask] == vector(EMPTY)).all()
    sure = np.where(before.mask, before.confidence, 1.0)  # that nothing is there was misread by nobody
    np.testing.assert_array_equal(after.confidence, sure)


@given(shares, shares, seeds)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_windows_are_left_out_whole_and_nested(place: Place, one: float, other: float, seed: int) -> None:
    low, high = sorted((one, other))
    few, more = (changed(place, WordChanges(ratio, "window", seed=seed), nobody) for ratio in (low, high))
    stored = place.load()
    for videos, within in ((few, more), (more, stored)):
        left, whole = videos.on_screen, within.on_screen
        assert left is not None and whole is not None
        assert not (left.mask & ~whole.mask).any()
        np.testing.assert_array_equal(left.windows[left.mask], whole.windows[left.mask])


def test_half_of_the_windows_are_half_of_them(place: Place) -> None:
    """Of one sign that is shown all the time, in clips of two windows; within four standard deviations."""
    shard = replace(found(place).shards()[0]["d"], tracks=(sign("GATE", 0.0, 99.0),))
    made = found(place).made
    said = [
        one.text
        for number in range(1000)
        for one in changed_windows(shard, f"{number}", WordChanges(0.5, "window"), made, lambda text: True)
    ]
    assert set(said) == {"", sentence("GATE")}
    assert abs(sum(map(bool, said)) - 1000) < 4 * (2000 * 0.25) ** 0.5


def test_a_part_of_the_clips_in_another_order_gets_the_same(place: Place) -> None:
    changes = WordChanges(0.7, char_errors=0.4, seed=1)
    whole = changed(place, changes)
    rows = [3, 0]
    clips = place.corpus.clips[rows]
    part = replace(place.corpus, clips=clips)
    some = with_changed_words(find_clips(place.folder, part), load_video_features(place.folder, part), changes, nobody)
    assert whole.on_screen is not None
    np.testing.assert_array_equal(some.on_screen.windows, whole.on_screen.windows[rows])
    np.testing.assert_array_equal(some.on_screen.mask, whole.on_screen.mask[rows])


def test_words_are_read_without_the_features_of_all_clips_in_memory(place: Place) -> None:
    whole, _ = found(place).shards()
    light, _ = found(place).shards(without=("frames", "windows"))
    assert [one.frames is None and one.windows is None for one in light.values()] == [True] * 4
    for clip_id, one in light.items():
        there = whole[clip_id]
        assert (one.tracks, one.window_texts) == (there.tracks, there.window_texts) and one.tracks is not None
        for changes in (WordChanges(), WordChanges(0.5, "window", char_errors=0.2)):
            said = [
                changed_windows(each, clip_id, changes, found(place).made, lambda text: True) for each in (one, there)
            ]
            assert said[0] == said[1]


# What is kept ------------------------------------------------------------------------------------------------------

LONG = pl.concat([WORDS, words_table([("a", "one two three four five six seven", 0, 9)])])
"""With more words in a window than the tokenizer takes."""


def test_a_second_time_nothing_is_encoded_and_no_encoder_is_needed(place: Place) -> None:
    place.compute(read_text=True, words=LONG, windows=2)
    changes, encoder = WordChanges(char_errors=0.5, seed=3), PixelEncoder()
    first = changed(place, changes, lambda: encoder)
    assert len(encoder.captions) == len(set(encoder.captions)) > 1
    again = changed(place, changes, nobody)
    np.testing.assert_array_equal(again.on_screen.windows, first.on_screen.windows)
    files = sorted((place.folder / SENTENCES).iterdir())
    assert changed(place, changes, nobody) and sorted((place.folder / SENTENCES).iterdir()) == files
    assert first.on_screen is not None and np.isfinite(first.on_screen.windows).all()


def test_a_long_sentence_keeps_what_the_tokenizer_takes(place: Place) -> None:
    place.compute(read_text=True, words=LONG, windows=2)
    encoder = PixelEncoder()
    changed(place, WordChanges(char_errors=0.2), lambda: encoder)
    assert encoder.captions and not any(encoder.truncated(encoder.captions))


def test_damaged_and_foreign_sentences_are_encoded_anew(place: Place) -> None:
    changes = WordChanges(char_errors=0.5, seed=3)
    first = changed(place, changes)
    (path,) = (place.folder / SENTENCES).iterdir()
    payload = path.read_bytes()
    for damaged in (payload[:40], payload[:-1] + bytes([payload[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        encoder = PixelEncoder()
        np.testing.assert_array_equal(
            changed(place, changes, lambda one=encoder: one).on_screen.windows, first.on_screen.windows
        )  # type: ignore[misc]
        assert encoder.captions
        (path,) = (place.folder / SENTENCES).iterdir()
        np.testing.assert_array_equal(changed(place, changes, nobody).on_screen.windows, first.on_screen.windows)
    arrays, record = unseal(path.read_bytes())
    for foreign in ({"weights_hash": "b" * 64}, {"precision": "float16"}, {"format": load.FORMAT + 1}):
        path.write_bytes(seal({"sentence": -arrays["sentence"]}, {**record, **foreign}))  # a sound block of another
        encoder = PixelEncoder()
        np.testing.assert_array_equal(
            changed(place, changes, lambda one=encoder: one).on_screen.windows, first.on_screen.windows
        )  # type: ignore[misc]
        assert encoder.captions


def test_where_nothing_can_be_written_all_the_same(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    (place.folder / SENTENCES).write_text("in the way")
    assert changed(place, WordChanges(char_errors=0.5, seed=3)).on_screen is not None
    assert "Sentences on screen are encoded again the next time: Cannot write" in caplog.text


def test_sentences_of_many_blocks_come_in_any_order(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = changed(place, WordChanges(char_errors=0.5, seed=3)).on_screen.windows
    for path in (place.folder / SENTENCES).iterdir():
        path.unlink()
    monkeypatch.setattr(load, "BLOCK_TEXTS", 1)
    shares_done: list[float] = []
    videos = with_changed_words(
        found(place), place.load(), WordChanges(char_errors=0.5, seed=3), PixelEncoder, shares_done.append
    )
    assert shares_done == sorted(shares_done) and shares_done[-1] == 1.0 and len(shares_done) > 1
    assert len(list((place.folder / SENTENCES).iterdir())) == len(shares_done)
    np.testing.assert_allclose(videos.on_screen.windows.astype(np.float32), whole.astype(np.float32), atol=1e-3)  # type: ignore[union-attr]
    np.testing.assert_array_equal(
        changed(place, WordChanges(char_errors=0.5, seed=3), nobody).on_screen.windows, videos.on_screen.windows
    )


# What is refused ---------------------------------------------------------------------------------------------------


def test_another_encoder_is_refused(place: Place) -> None:
    with pytest.raises(FeaturesError, match=r"are of org/pixels@1 with other weights than it has now"):
        changed(place, WordChanges(char_errors=0.5, seed=3), lambda: PixelEncoder("b" * 64))


def test_an_encoder_that_cannot_be_had_is_one_sentence(place: Place) -> None:
    with pytest.raises(FeaturesError, match=r"have to be read by the encoder of the features in .*, org/pixels@1, and"):
        changed_words(found(place), place.load(), WordChanges(char_errors=0.5, seed=3))
    videos = place.load()
    assert changed_words(found(place), videos, None) is videos
    assert changed_words(found(place), videos, WordChanges(0.0)).on_screen is not None


def test_features_without_on_screen_text_and_those_of_others_have_none_to_change(tmp_path: Path) -> None:
    place = Place(tmp_path / "own")
    place.compute()
    (tmp_path / "rgb").mkdir()
    for clip_id in place.corpus.clips["clip_id"]:
        np.save(tmp_path / "rgb" / f"{clip_id}.npy", np.ones((2, 3), np.float32))
    store_features(place.corpus, tmp_path / "out", StoredSettings("rgb", {"rgb": [tmp_path / "rgb"]}))
    for clips in (find_clips(place.folder, place.corpus), find_clips(tmp_path / "out", place.corpus)):
        with pytest.raises(FeaturesError, match="have no on-screen text to change; run `evenreel features` without"):
            with_changed_words(clips, clips.load()[0], WordChanges(0.5), nobody)
