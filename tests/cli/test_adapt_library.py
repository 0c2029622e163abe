"""What test-time training is given of a library is what its re-ranking gives a matcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.adaptation.stream import FRAMES, zero_shot
from evenreel.checkpoint import EncoderNote, Inputs
from evenreel.cli.adapt.given import library_stream
from evenreel.cli.text_lines import queries_of
from evenreel.errors import LibraryError, UsageError
from evenreel.library import Library
from evenreel.library.search.rerank import Reranker, middles, stored_clip
from evenreel.matchers.scoring import matcher_scores
from tests.library.fakes import DIMENSION, WordsEncoder, encode, on_disk
from tests.library.mirrored import finish_on_disk

QUERIES = ["a dog  on a beach", "red bus", "a dog on a beach", "red bus", "snow mountain\n", "  "]
SEEN = {
    "long": [f"dog beach shot{number}" for number in range(2 * FRAMES + 3)],
    "short": ["red bus"],
    "middling": ["snow mountain", "snow", "mountain climber"],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = on_disk(tmp_path / "library")
    for clip_id, seen in SEEN.items():
        made.add_clip(clip_id, seen)
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
    made.add_track("short", "bus")
    made.add_clip("blind")
    made.add_file("/v/blind.mp4", "blind")
    finish_on_disk(made)
    made.connection.close()
    return tmp_path / "library"


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_queries_once_and_clips_with_frames(library: Library) -> None:
    found = library_stream(library, QUERIES)
    assert found.stream.sentences == ("a dog on a beach", "red bus", "snow mountain")
    assert found.notices == ("2 lines of the queries asked again what others had.",)
    np.testing.assert_array_equal(
        found.stream.texts.sentence, np.stack([encode(text) for text in found.stream.sentences])
    )
    videos = found.stream.videos
    assert videos.ids == ("long", "short", "middling")
    assert videos.frame_mask.sum(1).tolist() == [FRAMES, 1, 3] and videos.frames.dtype == np.float16
    for row, seen in enumerate(SEEN.values()):
        kept = [seen[place] for place in middles(len(seen), FRAMES)]
        expected = np.stack([encode(caption) for caption in kept]).astype(np.float16)
        np.testing.assert_array_equal(videos.frames[row, : len(kept)], expected)
        assert not videos.frames[row, len(kept) :].any()
    assert found.names["long"] == "long.mp4"


def test_scores_are_those_of_re_ranking(library: Library) -> None:
    """A checkpoint that was adapted to the library then orders what it was adapted to."""
    found = library_stream(library, QUERIES)
    scores = matcher_scores(found.pretrained.matcher, found.stream.texts, found.stream.videos).score_all().values
    encoder = WordsEncoder()
    reranker = Reranker(found.pretrained, encoder)
    for row, text in enumerate(found.stream.sentences):
        query = encoder.encode_text([text])

        with library.snapshot() as s:
            judged = reranker.judge(text, query, found.stream.videos.ids, partial(stored_clip, s, text=False), s)
        np.testing.assert_allclose(scores[row], judged.scores, atol=2e-5)


def test_zero_shot_scores_as_the_mean_frame(library: Library) -> None:
    found = library_stream(library, QUERIES)
    scores = matcher_scores(found.pretrained.matcher, found.stream.texts, found.stream.videos).score_all().values
    videos = found.stream.videos
    for column in range(len(videos.ids)):
        frames = videos.frames[column][videos.frame_mask[column]].astype(np.float64)
        mean = (frames / np.linalg.norm(frames, axis=1, keepdims=True)).mean(0)
        cosines = found.stream.texts.sentence @ mean / np.linalg.norm(mean)
        np.testing.assert_allclose(scores[:, column], cosines, atol=1e-5)


def test_on_screen_text_where_the_matcher_reads_it(library: Library) -> None:
    """The one frame of the clip with a sign stands for both windows."""
    plain = library_stream(library, QUERIES)
    assert plain.stream.videos.on_screen is None
    about = replace(plain.pretrained.about, inputs=Inputs(frames=FRAMES, windows=2))
    videos = library_stream(library, QUERIES, replace(plain.pretrained, about=about)).stream.videos
    assert videos.on_screen is not None and videos.on_screen.confidence is not None
    assert videos.on_screen.mask.tolist() == [[False, False], [True, True], [False, False]]
    np.testing.assert_array_equal(videos.on_screen.confidence, np.where(videos.on_screen.mask, 1.0, 0.0))
    expected = np.zeros((3, 2, DIMENSION))
    expected[1] = encode("There are scene texts: bus in this frame.")
    np.testing.assert_allclose(videos.on_screen.windows, expected, atol=1e-3)


def test_counterfactual_captions_are_read_by_the_model_of_the_library(library: Library) -> None:
    encode_texts = library_stream(library, QUERIES).encode
    assert encode_texts is not None
    read = encode_texts(["a beach"])
    np.testing.assert_array_equal(read.sentence[0], encode("a beach"))


def test_what_nothing_can_be_learned_from(place: Path, library: Library) -> None:
    with pytest.raises(UsageError, match=r"there are fewer \(queries: 1, clips: 3\)"):
        library_stream(library, ["red bus", " red  bus"])
    with (
        evenreel.open_library(place, vision=False) as blind,
        pytest.raises(UsageError, match="searched without vision"),
    ):
        library_stream(blind, QUERIES)
    other = zero_shot(EncoderNote("org/other", "00", DIMENSION))
    with pytest.raises(LibraryError, match="was trained on features of org/other"):
        library_stream(library, QUERIES, other)


def test_files_of_queries(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("red bus\n\n# a remark\n dog \n")
    assert queries_of(tmp_path / "lines.txt") == ["red bus", "dog"]
    (tmp_path / "log.jsonl").write_text('{"query": "red bus", "user": 1}\n\n{"query": "dog"}\n')
    assert queries_of(tmp_path / "log.jsonl") == ["red bus", "dog"]
    (tmp_path / "log.NDJSON").write_text('{"query": "red\u2028bus"}\r\n{"query": "  "}\r\n{"query": ""}\r\n', "utf-8")
    assert queries_of(tmp_path / "log.NDJSON") == ["red\u2028bus"]
    (tmp_path / "blank.jsonl").write_text('{"query": ""}\n{"query": " "}\n')
    with pytest.raises(UsageError, match="holds no query: all of its 2 fields 'query' are empty"):
        queries_of(tmp_path / "blank.jsonl")
    for words, sentence in (("red bus\n", "is no JSON"), ('{"text": "dog"}\n', "has no text in a field 'query'")):
        (tmp_path / "log.jsonl").write_text(words)
        with pytest.raises(UsageError, match=sentence):
            queries_of(tmp_path / "log.jsonl")
    for name in ("log.json", "log.CSV", "log.tsv"):
        (tmp_path / name).write_text('["red bus"]')
        with pytest.raises(UsageError, match=f"{name} is a {name[4:].upper()} file, whose lines are no queries"):
            queries_of(tmp_path / name)
