"""Scores of a library's whole search: they order clips as the search does, for the clips of the corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel import open_library
from evenreel.cli.score.search_scores import search_scores
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.library import Library, index_folders
from evenreel.types import Corpus
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, without_models
from tests.library.index.test_subtitles import say
from tests.library.videos import write_folder

CAPTIONS = (
    "the ferry waits for nobody",
    '"nobody" is said',
    "said: a lighthouse",
    "a green square",
    "nobody waits",
    '""',
)
CLIPS = tuple(f"clip_{number:02}" for number in range(5))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Five videos, two of which say something, and their library."""
    folder = tmp_path_factory.mktemp("place")
    write_folder(folder / "videos", len(CLIPS))
    say(folder / "videos" / "clip_01.srt", "The ferry waits for nobody.")
    say(folder / "videos" / "clip_03.srt", "Nobody keeps the lighthouse.")
    with without_models():
        index_folders([folder / "videos"], folder / "library", QUICK)
    yield folder


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with open_library(place / "library", encoder=PixelEncoder()) as opened:
        yield opened


def corpus_of(paths: dict[str, str]) -> Corpus:
    clips = pl.DataFrame({"clip_id": [*paths], "path": [*paths.values()]})
    own = [next(iter(paths))] * len(CAPTIONS)
    numbers = [f"q{number}" for number in range(len(CAPTIONS))]
    return make_corpus(clips, pl.DataFrame({"caption_id": numbers, "clip_id": own, "text": CAPTIONS}))


def whole() -> Corpus:
    return corpus_of({name: f"videos/{name}.mp4" for name in CLIPS})


def test_scores_are_how_many_clips_each_stands_before(library: Library) -> None:
    done: list[float] = []
    found = search_scores(library, whole(), done.append)
    assert (found.missing, done[-1]) == ((), 1.0)
    assert (tuple(found.scores.video_ids), found.scores.caption_ids) == (CLIPS, [f"q{n}" for n in range(len(CAPTIONS))])
    assert found.scores.about.uses == ("word counts of the gallery",)
    asked = ("the ferry waits for nobody", "nobody is said", "said a lighthouse", "a green square", "nobody waits", "-")
    for row, query in zip(found.scores.values, asked, strict=True):
        hits = library.search(query, k=100).hits
        merit = {Path(hit.path).stem: (hit.weaker, hit.score, hit.written) for hit in hits}
        order = [Path(hit.path).stem for hit in hits]
        for name, value in zip(CLIPS, row, strict=True):
            behind = order[order.index(name) :]
            assert value == sum(merit[other] != merit[name] for other in behind), (query, name)
    assert found.scores.values[0].argmax() == 1


def test_a_clip_that_words_alone_do_not_find_is_not_retrieved(place: Path) -> None:
    with open_library(place / "library", vision=False) as opened:
        values = search_scores(opened, whole()).scores.values
    assert np.isneginf(values[3]).all()
    assert np.isfinite(values[0]).tolist() == [False, True, False, True, False] and values[0, 1] > values[0, 3]


def test_files_that_the_library_lacks_are_said_and_the_others_scored(library: Library) -> None:
    found = search_scores(library, corpus_of({"a": "Videos\\Clip_03.MP4", "b": "gone.mp4", "c": "clip_01.mp4"}))
    assert (found.missing, found.scores.video_ids) == (("b",), ["a", "c"])
    every = search_scores(library, whole()).scores
    np.testing.assert_array_equal(found.scores.values, every.values[:, [3, 1]])


def test_what_cannot_be_matched_is_refused_in_a_sentence(place: Path, library: Library, tmp_path: Path) -> None:
    for paths, sentence in (
        ({"a": "other/clip_00.mp4", "b": "video.mp4"}, "has none of the 2 files of the corpus, such as 'other/clip_00"),
        ({"a": "clip_00.mp4", "b": "clip_00.mp4"}, "The clips 'a' and 'b' are parts of one video, clip_00.mp4"),
    ):
        with pytest.raises(CorpusError, match=sentence):
            search_scores(library, corpus_of(paths))
    for folder, first in (("one", 0), ("two", 1)):
        write_folder(tmp_path / folder, 1, first=first)
    (tmp_path / "two" / "clip_01.mp4").rename(tmp_path / "two" / "clip_00.mp4")
    with without_models():
        index_folders([tmp_path / "one", tmp_path / "two"], tmp_path / "library", QUICK)
    with open_library(tmp_path / "library", encoder=PixelEncoder()) as opened:
        with pytest.raises(CorpusError, match="and the path of one clip of the corpus fits both"):
            search_scores(opened, corpus_of({"a": "clip_00.mp4"}))
        found = search_scores(opened, corpus_of({"a": "one/clip_00.mp4", "b": str(tmp_path / "two" / "clip_00.mp4")}))
        assert (found.missing, found.scores.video_ids) == ((), ["a", "b"])


def test_copies_of_a_file_are_one_clip_and_score_equally(tmp_path: Path) -> None:
    write_folder(tmp_path / "videos", 2)
    shutil.copy(tmp_path / "videos" / "clip_00.mp4", tmp_path / "videos" / "copy.mp4")
    with without_models():
        index_folders([tmp_path / "videos"], tmp_path / "library", QUICK)
    with open_library(tmp_path / "library", encoder=PixelEncoder()) as opened:
        paths = {"a": "clip_00.mp4", "b": "clip_01.mp4", "c": "copy.mp4"}
        values = search_scores(opened, corpus_of(paths)).scores.values
    np.testing.assert_array_equal(values[:, 0], values[:, 2])
    assert (np.sort(values[:, :2], axis=1) == [0, 1]).all()
