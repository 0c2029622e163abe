"""What an audit is given of a library is what its search ranks by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.corpus.counterparts import counterparts
from evenreel.errors import CorpusError, UsageError
from evenreel.library import Library
from evenreel.library.search.seen import DECIMALS
from evenreel.library.store.catalog import open_for_writing

from .fakes import WordsEncoder, on_disk
from .mirrored import PAIRS, finish_on_disk, mirrored_library

QUERIES = ["thing7 place2", "glossy", "a dog on a beach", "grainy  thing1\n"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mirrored_library(tmp_path_factory.mktemp("mirrored"))


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_scores_are_those_of_the_search(library: Library) -> None:
    _, scores = library.audit_inputs(QUERIES)
    assert list(scores.caption_ids) == ["q1", "q2", "q3", "q4"]
    read = [" ".join(query.split()) for query in QUERIES]
    assert scores.about.texts == dict(zip(scores.caption_ids, read, strict=True))
    found = library.search("a dog", k=100).hits
    assert scores.about.names == {hit.clip_id: hit.path for hit in found if "source" in hit.metadata}
    whole = scores.block(slice(0, 4), slice(0, 2 * PAIRS))
    assert whole.shape == (4, 2 * PAIRS)
    for row, query in enumerate(QUERIES):
        hits = library.search(query, k=100).hits
        expected = {hit.clip_id: hit.scores["seen"] for hit in hits}
        # One query or four: a processor may add up in another order, and a number then be rounded the other way.
        searched = [expected[clip_id] for clip_id in scores.video_ids]
        np.testing.assert_allclose(whole[row], searched, rtol=0, atol=1.1 * 10**-DECIMALS)


def test_blocks_are_parts_of_the_whole(library: Library) -> None:
    _, scores = library.audit_inputs(QUERIES)
    whole = scores.block(slice(0, 4), slice(0, 2 * PAIRS))
    for rows, columns in [(slice(1, 3), slice(5, 9)), (slice(0, 1), slice(0, 1)), (slice(2, 4), slice(40, 48))]:
        np.testing.assert_array_equal(scores.block(rows, columns), whole[rows, columns])


def test_the_corpus_names_sources_and_pairs_by_clip_id(library: Library) -> None:
    corpus, scores = library.audit_inputs(QUERIES)
    assert corpus.clips["clip_id"].to_list() == list(scores.video_ids)
    assert corpus.captions.height == 0
    pairs = counterparts(corpus)
    assert sorted(pairs.rows()) == [(f"camera{n:02}", f"sora{n:02}", "sora") for n in range(PAIRS)]
    (first,) = corpus.clips.filter(clip_id="sora03").to_dicts()
    assert first["path"] == "/v/sora/03.mp4"
    assert (first["start_s"], first["end_s"], first["fps"]) == (0.0, 10.0, 25.0)
    assert (first["codec"], first["container"], first["width"], first["height"]) == ("h264", "mp4", 640, 360)
    assert "setting" not in corpus.clips.columns


def test_clips_of_unknown_source_are_left_out_and_told(library: Library) -> None:
    corpus, scores = library.audit_inputs(["a dog"])
    assert corpus.clips.height == 2 * PAIRS
    told = f"2 of {2 * PAIRS + 2} clips have no known source or no frames, and are left out."
    assert evenreel.audit("source", scores, corpus)[0].notices.count(told) == 1


def test_every_clip_takes_part_where_sources_do_not_matter(library: Library) -> None:
    """Lengths are of all clips with frames, of unknown source or not."""
    corpus, scores = library.audit_inputs(QUERIES, every_clip=True)
    assert corpus.clips["clip_id"].to_list() == list(scores.video_ids)
    assert corpus.clips.height == 2 * PAIRS + 2
    assert corpus.clips["source"].null_count() == 2
    (found,) = evenreel.audit("length", scores, corpus)
    assert found.effect.name.endswith("length of the gallery's clips")
    assert found.effect.value == pytest.approx(1)  # all clips of this library are equally long
    assert not any("left out" in notice for notice in found.notices)


def test_what_is_not_known_of_a_clip_is_empty(tmp_path: Path) -> None:
    place = mirrored_library(tmp_path, paired=False, unknown=0)
    with closing(open_for_writing(place)) as connection:
        connection.execute("UPDATE clips SET duration_s = NULL, fps = NULL WHERE clip_id = 'sora03'")
        connection.execute("UPDATE clips SET duration_s = 0.0, fps = 0.0 WHERE clip_id = 'sora04'")
        noted = '{"source": "sora", "setting": "text"}'
        connection.execute("UPDATE files SET metadata = ? WHERE clip_id = 'sora05'", (noted,))
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        corpus, _ = opened.audit_inputs(["a dog"])
    for clip_id in ("sora03", "sora04"):
        (clip,) = corpus.clips.filter(clip_id=clip_id).to_dicts()
        assert (clip["start_s"], clip["end_s"], clip["fps"], clip["pair_id"]) == (None, None, None, None)
    assert corpus.clips.filter(clip_id="sora05")["setting"].to_list() == ["text"]


@pytest.mark.parametrize(
    ("queries", "sentence"), [([], "There is no query"), (["a dog", " \n"], "Query 2 is empty"), ([""], "Query 1")]
)
def test_queries_that_are_none_are_refused(library: Library, queries: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        library.audit_inputs(queries)


def test_queries_that_are_cut_are_counted(library: Library) -> None:
    _, scores = library.audit_inputs(["a dog", "a dog " * 200, "a cat"])
    assert "Of 1 of 3 queries only the first 1,000 characters were read." in scores.about.notices
    assert not any("characters" in notice for notice in library.audit_inputs(["a dog"])[1].about.notices)


def test_a_library_without_vision_or_sources_is_refused(place: Path, tmp_path: Path) -> None:
    with evenreel.open_library(place, vision=False) as blind, pytest.raises(UsageError, match="without vision"):
        blind.audit_inputs(["a dog"])
    made = on_disk(tmp_path)
    made.add_clip("a", ["a dog"])
    made.add_file("/v/a.mp4", "a")
    finish_on_disk(made)
    made.connection.close()
    opened = evenreel.open_library(tmp_path, encoder=WordsEncoder())
    with opened, pytest.raises(CorpusError, match="No clip with frames has a source"):
        opened.audit_inputs(["a dog"])
