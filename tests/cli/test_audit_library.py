"""What an audit is given of a library is what its search ranks by, with clips as they are and turned round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.checkpoint import Inputs
from evenreel.cli.audit import library as audit_library
from evenreel.cli.audit.library import TURNED, audit_inputs, clip_notes, order_inputs
from evenreel.corpus.counterparts import ORDER_OF, counterparts
from evenreel.errors import CorpusError, LibraryError, UsageError
from evenreel.library import Library
from evenreel.library.search.seen import DECIMALS
from evenreel.library.store.catalog import open_for_writing
from evenreel.types import WindowRule
from tests.library.fakes import Library as Fake
from tests.library.fakes import WordsEncoder, empty_catalog, encode, on_disk
from tests.library.mirrored import PAIRS, finish_on_disk, mirrored_library
from tests.library.search.test_rerank import LastFrame, pretrained

QUERIES = ["thing7 place2", "glossy", "a dog on a beach", "grainy  thing1\n"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mirrored_library(tmp_path_factory.mktemp("mirrored"))


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_scores_are_those_of_the_search(library: Library) -> None:
    _, scores = audit_inputs(library, QUERIES)
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
    _, scores = audit_inputs(library, QUERIES)
    whole = scores.block(slice(0, 4), slice(0, 2 * PAIRS))
    for rows, columns in [(slice(1, 3), slice(5, 9)), (slice(0, 1), slice(0, 1)), (slice(2, 4), slice(40, 48))]:
        np.testing.assert_array_equal(scores.block(rows, columns), whole[rows, columns])


def test_the_corpus_names_sources_and_pairs_by_clip_id(library: Library) -> None:
    corpus, scores = audit_inputs(library, QUERIES)
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
    corpus, scores = audit_inputs(library, ["a dog"])
    assert corpus.clips.height == 2 * PAIRS
    told = f"2 of {2 * PAIRS + 2} clips have no known source or no frames, and are left out."
    assert evenreel.audit("source", scores, corpus)[0].notices.count(told) == 1


def test_every_clip_takes_part_where_sources_do_not_matter(library: Library) -> None:
    """Lengths are of all clips with frames, of unknown source or not."""
    corpus, scores = audit_inputs(library, QUERIES, every_clip=True)
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
        corpus, _ = audit_inputs(opened, ["a dog"])
    for clip_id in ("sora03", "sora04"):
        (clip,) = corpus.clips.filter(clip_id=clip_id).to_dicts()
        assert (clip["start_s"], clip["end_s"], clip["fps"], clip["pair_id"]) == (None, None, None, None)
    assert corpus.clips.filter(clip_id="sora05")["setting"].to_list() == ["text"]


@pytest.mark.parametrize(
    ("queries", "sentence"), [([], "There is no query"), (["a dog", " \n"], "Query 2 is empty"), ([""], "Query 1")]
)
def test_queries_that_are_none_are_refused(library: Library, queries: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        audit_inputs(library, queries)


def test_queries_that_are_cut_are_counted(library: Library) -> None:
    _, scores = audit_inputs(library, ["a dog", "a dog " * 200, "a cat"])
    assert "Of 1 of 3 queries only the first 1,000 characters were read." in scores.about.notices
    assert not any("characters" in notice for notice in audit_inputs(library, ["a dog"])[1].about.notices)


def test_a_library_without_vision_or_sources_is_refused(place: Path, tmp_path: Path) -> None:
    with evenreel.open_library(place, vision=False) as blind, pytest.raises(UsageError, match="without vision"):
        audit_inputs(blind, ["a dog"])
    made = on_disk(tmp_path)
    made.add_clip("a", ["a dog"])
    made.add_file("/v/a.mp4", "a")
    finish_on_disk(made)
    made.connection.close()
    opened = evenreel.open_library(tmp_path, encoder=WordsEncoder())
    with opened, pytest.raises(CorpusError, match="No clip with frames has a source"):
        audit_inputs(opened, ["a dog"])


@pytest.mark.parametrize(
    ("pair_id", "expected"),
    [
        ("b" * 32, "b"),
        ("0007", "a"),
        ("0007.mp4", "a"),
        ("real/0007.mp4", "a"),
        ("./real/0007", "a"),
        ("../real/0007.mp4", "a"),
        ("/videos/real/0007.mp4", "a"),
        ("other/0007.mp4", None),
        ("al/0007.mp4", None),
        ("0007.avi", None),
        ("video.9", "b"),
        ("video.9.mp4", "b"),
        ("video", None),
        ("twice", None),
        ("one/twice", "c"),
        (8, "e"),
        ("..", None),
        ("nowhere", None),
    ],
)
def test_a_pair_id_names_a_real_clip(tmp_path: Path, pair_id: object, expected: str | None) -> None:
    made = Fake(tmp_path, empty_catalog())
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
    found = clip_notes(made.connection, [*real, "f" * 32])
    assert [one.mirrors for one in found] == [None] * 5 + [None if expected is None else expected * 32]
    assert [one.source for one in found] == ["camera"] * 5 + ["sora"]


# In both orders

CLIPS = 5
FRAMES = {f"c{number}": [f"frame{number} shot{shot}" for shot in range(2 + number)] for number in range(CLIPS)}
ORDERED = ["shot0", "frame3 shot1", "  shot2 "]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("turned")
    made = on_disk(folder)
    for clip, frames in FRAMES.items():
        made.add_clip(clip, frames)
        made.add_file(f"/v/{clip}.mp4", clip)
    finish_on_disk(made)
    made.connection.close()
    return folder


@pytest.fixture
def few(small: Path) -> Iterator[Library]:
    with evenreel.open_library(small, encoder=WordsEncoder()) as opened:
        yield opened


def test_the_best_frame_of_a_clip_is_the_same_in_either_order(few: Library) -> None:
    corpus, scores = order_inputs(few, ORDERED)
    assert scores.video_ids == [*FRAMES, *(f"{clip}{TURNED}" for clip in FRAMES)]
    assert corpus.clips[ORDER_OF].to_list() == [*[None] * CLIPS, *FRAMES]
    assert corpus.captions.height == 0
    values = scores.block(slice(0, 3), slice(0, 2 * CLIPS))
    np.testing.assert_array_equal(values[:, :CLIPS], values[:, CLIPS:])
    _, searched = audit_inputs(few, ORDERED, every_clip=True)
    np.testing.assert_allclose(values[:, :CLIPS], searched.block(slice(0, 3), slice(0, CLIPS)), atol=2e-5)
    assert scores.about.texts["q3"] == "shot2"


def test_a_matcher_is_given_the_same_frames_turned_round(few: Library) -> None:
    """It goes by the last frame that it is given: of at most three frames those in the middle of equal parts."""
    of_three = pretrained(LastFrame(), Inputs(frames=3))
    _, scores = order_inputs(few, ORDERED, of_three)
    values = scores.block(slice(0, 3), slice(0, 2 * CLIPS))
    for column, frames in enumerate(FRAMES.values()):
        count = len(frames)
        taken = frames if count <= 3 else [frames[(2 * part + 1) * count // 6] for part in range(3)]
        for row, query in enumerate(ORDERED):
            for order, at in ((0, -1), (CLIPS, 0)):
                expected = float(encode(taken[at]) @ encode(query.strip()))
                assert values[row, column + order] == pytest.approx(expected, abs=2e-3)


def test_a_query_is_encoded_once_however_many_clips_there_are(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_library, "_AT_ONCE", 2)
    encoder = WordsEncoder()
    with evenreel.open_library(small, encoder=encoder) as opened:
        _, apart = order_inputs(opened, ORDERED, pretrained(LastFrame()))
        asked = encoder.captions_encoded
        monkeypatch.setattr(audit_library, "_AT_ONCE", 64)
        _, whole = order_inputs(opened, ORDERED, pretrained(LastFrame()))
    assert encoder.captions_encoded - asked == asked == 2 * len(ORDERED)  # for the search, and for the matcher
    every = slice(0, 3), slice(0, 2 * CLIPS)
    np.testing.assert_allclose(apart.block(*every), whole.block(*every), atol=1e-5)


def test_of_a_large_library_some_clips_are_drawn(few: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_library, "MOST_CLIPS", 3)
    drawn = [order_inputs(few, ORDERED, seed=seed)[1] for seed in (1, 1, 2, 3, 4)]
    assert drawn[0].video_ids == drawn[1].video_ids
    assert len({tuple(one.video_ids) for one in drawn}) > 1
    assert "Of 5 clips 3, drawn at random, were looked at in both orders." in drawn[0].about.notices


def test_that_windows_stay_in_order_is_told(small: Path) -> None:
    encoder = WordsEncoder()
    encoder.window = WindowRule(4, 2.0, 1.0)
    with evenreel.open_library(small, encoder=encoder) as opened:
        _, scores = order_inputs(opened, ORDERED)
    assert any("sees 4 frames at once, and within these they stay in order" in one for one in scores.about.notices)


def test_what_cannot_be_audited_is_said(small: Path, few: Library, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="their weights differ"):
        order_inputs(few, ORDERED, pretrained(digest="other"))
    with evenreel.open_library(small, vision=False) as deaf, pytest.raises(UsageError, match="without vision"):
        order_inputs(deaf, ORDERED)
    made = on_disk(tmp_path)
    finish_on_disk(made)
    made.connection.close()
    with (
        evenreel.open_library(tmp_path, encoder=WordsEncoder()) as empty,
        pytest.raises(UsageError, match="No clip of"),
    ):
        order_inputs(empty, ORDERED)
