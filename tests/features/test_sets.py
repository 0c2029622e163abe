"""A folder of several ways of reading clips: what is loaded is defined, told, and never a mixture."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.errors import FeaturesError, MediaError
from evenreel.features import feature_folder, find_clips, load_text_features, load_video_features, read_manifest
from evenreel.features.compute import CorpusWords
from evenreel.features.manifest import CorpusClip, DamagedManifestError, FeatureSet, clip_key
from evenreel.media.sampling import Part
from evenreel.types import VideoFeatures
from tests.features.corpora import CAPTIONS, corpus_of
from tests.features.pixel_encoder import PixelEncoder
from tests.features.test_compute import FRAMES, Place
from tests.features.test_shards import make_shard
from tests.library.videos import write_video


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def words_table(rows: list[tuple[str, str, int | None, int | None]]) -> pl.DataFrame:
    """Rows of clip, text, first and last frame."""
    schema = {"clip_id": pl.String, "text": pl.String, "start_frame": pl.Int64, "end_frame": pl.Int64}
    empty = {"confidence": pl.lit(None, pl.Float64), "box": pl.lit(None, pl.List(pl.Float64))}
    return pl.DataFrame(rows, schema, orient="row").with_columns(**empty)


WORDS = words_table([("a", "EXIT", 0, 9), ("c", "GATE", 5, 9), ("d", "GATE", 5, 9), ("d", "GONE", 0, 3)])
"""Of videos of 4 s with 5 frames a second; `c` is 0 to 2 s of its file, and `d` 1 s to its end."""


def said(videos: VideoFeatures) -> list[list[str]]:
    """Which word each window of a clip says."""
    of_word = {word: PixelEncoder().encode_text([sentence(word)]).sentence[0] for word in ("EXIT", "GATE", "STOP")}
    assert videos.on_screen is not None
    found = []
    for row, mask in zip(videos.on_screen.windows, videos.on_screen.mask, strict=True):
        nearest = [max(of_word, key=lambda word: float(of_word[word] @ window)) for window in row.astype(np.float32)]
        found.append([word if real else "" for word, real in zip(nearest, mask, strict=True)])
    return found


def sentence(word: str) -> str:
    return f"There are scene texts: {word} in this frame."


# Words of the corpus -----------------------------------------------------------------------------------------------


def test_words_of_the_corpus_become_windows_at_their_times_also_in_parts(place: Place) -> None:
    report = place.compute(read_text=True, words=WORDS, windows=2)
    assert (report.computed, report.frames) == (4, 4 * FRAMES)
    assert said(place.load()) == [["EXIT", ""], ["", ""], ["", "GATE"], ["GATE", ""]]
    assert place.compute(read_text=True, words=WORDS, windows=2).unchanged == 4


def test_windows_say_how_surely_their_words_were_read(place: Place) -> None:
    sure = pl.Series("confidence", [None, 0.5, 0.25, 0.75], pl.Float64)
    both = pl.concat([WORDS.with_columns(sure), words_table([("d", "STOP", 0, 9)])])
    place.compute(read_text=True, words=both, windows=2)
    videos = place.load()
    assert videos.on_screen.confidence is not None and videos.on_screen.confidence.dtype == np.float32
    expected = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.5], [(0.25 + 1.0) / 2, 0.0]]  # a corpus that does not say is certain
    found = videos.on_screen.confidence.tolist()
    assert found == expected
    assert load_video_features(place.folder, place.corpus, windows=False).on_screen is None


def test_edited_words_are_noticed_by_the_next_run_and_cost_no_decoding(place: Place) -> None:
    place.compute(read_text=True, words=WORDS, windows=2)
    stop = pl.col("text").replace("EXIT", "STOP")
    encoder = PixelEncoder()
    report = place.compute(encoder, read_text=True, words=WORDS.with_columns(stop), windows=2)
    assert (report.computed, report.unchanged, encoder.frames_encoded) == (1, 3, 0)
    assert said(place.load())[0] == ["STOP", ""]


def test_words_of_the_corpus_lie_beside_what_was_read_without(place: Place) -> None:
    place.compute()
    plain = place.files()
    report = place.compute(read_text=True, words=WORDS, windows=2)
    assert report.notes[-1][1] == (
        "loading gives '4 midpoints, words of the corpus' where no rule is named; '4 midpoints' lie here too"
    )
    assert plain.items() <= place.files().items()
    assert load_video_features(place.folder, place.corpus, words="ocr").on_screen is None
    with pytest.raises(FeaturesError, match="no on-screen text; run `evenreel features` without --no-ocr"):
        load_video_features(place.folder, place.corpus, words="ocr", windows=True)


def test_the_corpus_knows_its_rate_better_than_the_file_and_one_of_them_must_know() -> None:
    words = CorpusWords(words_table([("a", "EXIT", 10, 19), ("b", "", None, None)]))
    shard = make_shard()  # 4 s, 30 frames a second
    (track,) = words.put(shard, CorpusClip("a", "a.mp4", Part(), 10.0)).tracks or ()
    assert (track.start_s, round(track.end_s, 3), track.box) == (1.0, 2.0, (0.0, 0.0, 1.0, 1.0))
    (track,) = words.put(shard, CorpusClip("a", "a.mp4", Part())).tracks or ()
    assert (track.start_s, round(track.end_s, 3)) == (10 / 30, round(20 / 30, 3))
    (track,) = words.put(shard, CorpusClip("b", "b.mp4", Part())).tracks or ()
    assert (track.start_s, track.end_s) == (0.0, 4.0)
    rateless = replace(shard, info=replace(shard.info, fps=None))
    with pytest.raises(MediaError, match="nothing says how many frames a second"):
        words.put(rateless, CorpusClip("a", "a.mp4", Part()))
    assert words.put(rateless, CorpusClip("c", "c.mp4", Part())).tracks == ()


# What a later run does to what is loaded ---------------------------------------------------------------------------


def test_a_run_without_text_keeps_the_windows_that_lie_there(place: Place) -> None:
    place.compute(read_text=True, words=WORDS, windows=2)
    old = place.load()
    assert place.compute(words=WORDS, windows=2, read_text=False).unchanged == 4
    assert read_manifest(place.folder).windows == 2
    np.testing.assert_array_equal(place.load().on_screen.windows, old.on_screen.windows)
    write_video(place.videos / "new.mp4", 9)
    clips = pl.concat([place.corpus.clips, pl.DataFrame({"clip_id": ["e"], "path": ["new.mp4"]})], how="diagonal")
    place.corpus = corpus_of(clips, CAPTIONS)
    place.compute(words=WORDS, windows=2, read_text=False)
    with pytest.raises(FeaturesError, match=r"1 of 5 clips .*'e'.* read with --no-ocr, ask for them without"):
        place.load()
    assert load_video_features(place.folder, place.corpus, windows=False).frames.shape[0] == 5


def test_of_several_rules_the_last_run_s_is_loaded_and_each_keeps_its_windows(place: Place) -> None:
    place.compute(read_text=True, words=WORDS, windows=2)
    place.compute(rule="3 midpoints")
    manifest = read_manifest(place.folder)
    assert manifest.sets == (FeatureSet("4 midpoints", "corpus", 2), FeatureSet("3 midpoints", "ocr", None))
    assert place.load().on_screen is None
    first = load_video_features(place.folder, place.corpus, rule="4 midpoints")
    assert first.frames.shape[1] == FRAMES and first.on_screen is not None
    place.compute(read_text=True, words=WORDS, windows=3)
    assert read_manifest(place.folder).sets[-1] == FeatureSet("4 midpoints", "corpus", 3)
    assert len(read_manifest(place.folder).sets) == 2


def test_the_fingerprint_says_what_is_loaded_and_changes_with_it(place: Place) -> None:
    place.compute(read_text=True, words=WORDS, windows=2)
    first = find_clips(place.folder, place.corpus).fingerprint()
    assert json.loads(json.dumps(first)) == first
    assert first["clips"] and {key: first[key] for key in first if key != "clips"} == {
        "encoder_id": "org/pixels@1",
        "weights_hash": "a" * 64,
        "precision": "float32",
        "rule": "4 midpoints",
        "words": "corpus",
        "windows": 2,
    }
    assert find_clips(place.folder, place.corpus, windows=False).fingerprint() == first | {"windows": None}
    part = corpus_of(place.corpus.clips.head(3), CAPTIONS)
    assert find_clips(place.folder, part).fingerprint()["clips"] != first["clips"]
    away = place.videos.rename(place.videos.with_name("unmounted"))
    assert find_clips(place.folder, place.corpus).fingerprint() == first
    away.rename(place.videos)
    place.compute(rule="3 midpoints")
    last = find_clips(place.folder, place.corpus).fingerprint()
    assert (last["rule"], last["words"], last["windows"]) == ("3 midpoints", "ocr", None)
    assert find_clips(place.folder, place.corpus, rule="4 midpoints").fingerprint() == first
    write_video(place.videos / "one.mp4", 77, seconds=4.0)
    assert find_clips(place.folder, place.corpus, rule="4 midpoints").fingerprint()["clips"] != first["clips"]


# Precision ---------------------------------------------------------------------------------------------------------


class LowerEncoder(PixelEncoder):
    precision = "bfloat16"


def test_features_of_another_precision_have_a_folder_and_names_of_their_own(place: Place) -> None:
    place.compute()
    with pytest.raises(FeaturesError, match="holds features in float32; name another --out, or that --precision"):
        place.compute(LowerEncoder())
    assert feature_folder(Path("corpus"), LowerEncoder()) == Path("corpus/features/pixels-aaaaaaaa-bfloat16")
    plain, place.folder = place.files(), place.folder.with_name("lower")
    place.compute(LowerEncoder())
    assert not plain.keys() & place.files().keys()
    assert read_manifest(place.folder).precision == "bfloat16"
    assert place.load().ids == ("a", "b", "c", "d")
    assert load_text_features(place.folder, place.corpus).ids == ("0", "1", "2", "3")


def test_the_name_of_a_shard_has_in_it_what_makes_a_difference_and_nothing_else() -> None:
    clip, made = CorpusClip("a", "one.mp4", Part(1.0, 2.0), 5.0), FeatureSet("4 midpoints", "ocr", 12)
    named = json.dumps(["digest", 1.0, 2.0, "4 midpoints"])
    first = clip_key("digest", clip, made)
    assert first == hashlib.blake2b(named.encode(), digest_size=16).hexdigest()
    assert clip_key("digest", CorpusClip("b", "copy.mp4", clip.part), FeatureSet("4 midpoints", "ocr", 3)) == first
    others = [
        clip_key("digest", clip, made, "bfloat16"),
        clip_key("digest", clip, made, "float16"),
        clip_key("digest", clip, FeatureSet("4 midpoints", "corpus")),
        clip_key("digest", CorpusClip("b", "one.mp4", clip.part), FeatureSet("4 midpoints", "corpus")),
        clip_key("other", clip, made),
    ]
    assert len({first, *others}) == 6


# A damaged manifest ------------------------------------------------------------------------------------------------

SET = {"rule": "4 midpoints", "words": "ocr", "windows": None}
GOOD = {"format": 1, "encoder_id": "org/pixels@1", "weights_hash": "a" * 64, "dimension": 12, "precision": "float32"}
GOOD |= {"videos": "/videos", "sets": [SET]}
BAD: dict[str, list[object]] = {
    "format": ["1"], "encoder_id": [7], "weights_hash": [None], "dimension": ["12", True], "videos": [None],
    "sets": [[], {}, ["4 midpoints"], [SET | {"rule": 4}], [SET | {"words": ["ocr"]}], [SET | {"windows": "12"}]],
}  # fmt: skip
WITHOUT = {name: value for name, value in GOOD.items() if name != "precision"}


@pytest.mark.parametrize(
    "wrong", [[], "text", WITHOUT, *(GOOD | {name: value} for name, values in BAD.items() for value in values)]
)
def test_a_manifest_of_other_types_is_damaged(tmp_path: Path, wrong: object) -> None:
    path = tmp_path / "features.json"
    path.write_text(json.dumps(GOOD))
    assert read_manifest(tmp_path).rule == "4 midpoints"
    path.write_text(json.dumps(wrong))
    with pytest.raises(DamagedManifestError, match=r"features\.json is damaged; run `evenreel features` again"):
        read_manifest(tmp_path)
