"""A matcher that tells the parts of its score: what every hit then says, in Python, as JSON and on a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from evenreel.checkpoint import Inputs
from evenreel.cli.show_library import show_result
from evenreel.library.search.query import Query
from evenreel.library.search.rerank import PARTS
from evenreel.library.search.result import Hit, SearchResult
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from tests.library.fakes import DIMENSION, SUBJECTS, Library, WordsEncoder, encode, finish, paths
from tests.library.search.test_rerank import LastFrame, Values, reranker_of, stored


class Parted(LastFrame):
    """The last frame is what is seen; half of that is what is read, and both together are the mean of the two."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def part_scores(self, text: Values, video: Values) -> dict[str, Tensor]:
        self.asked += 1
        seen = text.values @ video.values.T
        return {"video": seen, "ocr": seen / 2, "hybrid": 0.75 * seen}

    def score(self, text: Values, video: Values) -> Tensor:
        raise AssertionError("the score is the mean of the parts, and nothing is scored twice")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path)
    for number, subject in enumerate(SUBJECTS):
        made.add_clip(f"c{number}", [f"filler{number}", subject])
        made.add_file(f"/v/{number}.mp4", f"c{number}")
    return made


def test_hits_tell_the_parts_and_their_mean(library: Library) -> None:
    matcher = Parted()
    result = finish(library).search(Query("dog beach", k=6, reranker=reranker_of(matcher), rerank_depth=4))
    assert matcher.asked == 1
    for hit in result.hits:
        seen = float(encode(SUBJECTS[int(hit.clip_id[1])]) @ encode("dog beach"))
        assert hit.parts == pytest.approx({"seen": seen, "on_screen": seen / 2, "both": 0.75 * seen}, abs=2e-3)
        assert hit.scores["reranked"] == pytest.approx(np.mean(list(hit.parts.values())), abs=2e-3)
    assert paths(result)[0] == "/v/1.mp4"


def test_only_what_was_re_ranked_has_parts(library: Library) -> None:
    library.add_clip("talk")
    library.add_file("/v/talk.mp4", "talk", {"caption": "dog beach"})
    result = finish(library).search(Query("dog beach", reranker=reranker_of(Parted()), rerank_depth=20))
    assert {hit.clip_id: bool(hit.parts) for hit in result.hits} == {
        **{f"c{number}": True for number in range(6)},
        "talk": False,
    }


@pytest.mark.parametrize("matcher", [LastFrame(), MeanPool(DIMENSION, MeanPoolSettings())])
def test_a_matcher_without_parts_tells_none(library: Library, matcher: torch.nn.Module) -> None:
    for one in (matcher, Adapted(matcher, DIMENSION, AdapterSettings()).eval()):  # type: ignore[arg-type]
        hits = finish(library).search(Query("dog beach", reranker=reranker_of(one))).hits
        assert all("reranked" in hit.scores and hit.parts == {} for hit in hits)


def test_parts_are_a_clip_s_own_beside_any_others() -> None:
    clips = [stored(f"clip{number}", 1 + number % 3) for number in range(20)]
    by_id = {clip.clip_id: clip for clip in clips}
    query = ("dog beach", WordsEncoder().encode_text(["dog beach"]))
    alone = {
        clip_id: reranker_of(Parted()).judge(*query, [clip_id], by_id.__getitem__, None).of(0) for clip_id in by_id
    }
    judged = reranker_of(Parted()).judge(*query, list(by_id), by_id.__getitem__, None)
    assert {clip_id: judged.of(place) for place, clip_id in enumerate(by_id)} == alone


def test_clips_in_which_nobody_read_are_a_notice(library: Library) -> None:
    """As after `evenreel index --no-ocr`; a matcher that reads no text does not mind."""
    reads = Query("dog beach", reranker=reranker_of(LastFrame(), Inputs(windows=2)), rerank_depth=6)
    searcher = finish(library)
    assert not [notice for notice in searcher.search(reads).notices if "on-screen" in notice]
    library.connection.execute("UPDATE clips SET has_text = 0 WHERE clip_id IN ('c1', 'c2')")
    (notice,) = [one for one in searcher.search(reads).notices if "on-screen" in one]
    assert "which was not read in 2 of the 6 clips that it ordered" in notice
    library.connection.execute("UPDATE clips SET has_text = 0")
    (notice,) = [one for one in searcher.search(reads).notices if "on-screen" in one]
    assert "which was read in none of the clips that it ordered; `evenreel index` without --no-ocr" in notice
    blind = Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=6)
    assert not [one for one in searcher.search(blind).notices if "on-screen" in one]


def test_a_hit_says_that_nothing_was_read_on_it(library: Library) -> None:
    """Whether nobody looked, or nothing is written; where no matcher tells what it read, nobody asks."""
    library.add_track("c1", "WET DOG")
    searcher = finish(library)
    result = searcher.search(Query("dog beach", k=6, reranker=reranker_of(Parted()), rerank_depth=6))
    assert {hit.clip_id: hit.none_read for hit in result.hits} == {f"c{number}": number != 1 for number in range(6)}
    assert not any(hit.none_read for hit in searcher.search(Query("dog beach", k=6)).hits)


HIT = Hit(
    "c1", "/v/1.mp4", 0.02, False, 0.97, 0.0, {"seen": 0.3, "reranked": 0.45}, (), (), 4.0,
    parts={"seen": 0.25, "on_screen": 0.75, "both": 0.35},
)  # fmt: skip


def test_a_terminal_names_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(SearchResult("gate", (HIT,), 1), as_json=False)
    told = "matcher: what is seen 0.25, words on screen 0.75, both together 0.35; mean 0.45"
    assert told in capsys.readouterr().out


def test_a_terminal_says_where_nothing_was_read_and_shows_no_minus_before_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = {"seen": 0.25, "on_screen": -0.0019, "both": -0.35}
    hit = replace(HIT, parts=parts, scores={"seen": -0.004, "reranked": -0.001}, none_read=True)
    show_result(SearchResult("gate", (hit,), 1), as_json=False)
    told = capsys.readouterr().out
    assert "matcher: what is seen 0.25, words on screen 0.00 (none read), both together -0.35; mean 0.00" in told
    assert "-0.00" not in told


def test_json_has_them_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(SearchResult("gate", (HIT,), 1), as_json=True)
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert hit["parts"] == {"seen": 0.25, "on_screen": 0.75, "both": 0.35}
    assert list(hit["parts"]) == list(PARTS.values())
