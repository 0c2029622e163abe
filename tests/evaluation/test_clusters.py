"""Clips that are cut from one video are drawn with it, and who says so."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import EvaluationSettings, compare, evaluate, parse_metrics
from evenreel.evaluation.intervals import clusters_of
from evenreel.types import Corpus, Scores

CLIPS = ["a", "b", "c", "d"]


def corpus_with(of_captions: dict[str, list[str | None]] | None = None, **of_clips: list[object]) -> Corpus:
    captions = {"caption_id": ["0", "1", "2", "3", "4"], "clip_id": ["a", "a", "b", "c", "d"], "text": ["x"] * 5}
    return make_corpus(pl.DataFrame({"clip_id": CLIPS} | of_clips), pl.DataFrame(captions | (of_captions or {})))


def groups(corpus: Corpus, cluster: str = "auto") -> list[int]:
    return clusters_of(corpus, cluster).of(CLIPS).tolist()


def test_clips_of_one_file_are_one_video() -> None:
    corpus = corpus_with(path=["x.mp4", "y.mp4", "x.mp4", None])
    found = clusters_of(corpus)
    assert (found.of(CLIPS).tolist(), found.word, found.count) == ([0, 1, 0, 2], "videos", 3)
    said = (
        "The 3 clips that say so are of 2 videos (column 'path'); 1 say nothing there, and each stands for itself. "
        "Intervals and tests draw these, not clips."
    )
    assert found.notice == f"{said} To draw clips, say so (--cluster clip)."
    assert clusters_of(corpus, "video").notice == said  # it was asked for
    blank = corpus_with(path=["x.mp4", "", "x.mp4", ""])
    assert (groups(blank), clusters_of(blank).notice.count("2 say nothing there")) == ([0, 1, 0, 2], 1)
    assert groups(corpus, "clip") == [0, 1, 2, 3]
    named = corpus_with(path=["x.mp4", "y.mp4", "x.mp4", None], video_id=["p", "p", "q", "q"])
    assert groups(named) == [0, 0, 1, 1]


def test_clips_of_a_file_each_are_drawn_alone() -> None:
    for corpus in (corpus_with(), corpus_with(path=["x", "y", "z", "w"]), corpus_with(path=["x", None, None, None])):
        found = clusters_of(corpus)
        assert (found.word, found.count, found.notice) == ("clips", 4, "")


def test_any_column_may_be_named() -> None:
    corpus = corpus_with({"take": ["1", "1", None, "2", "1"]}, participant=[7, 7, None, 8], tags=[["u"], ["u"], [], []])
    assert groups(corpus, "participant") == [0, 0, 2, 1]
    unknown = corpus_with(rate=[2.5, float("nan"), 2.5, float("nan")])
    assert groups(unknown, "rate") == [0, 1, 0, 2]
    assert groups(corpus, "tags") == [0, 0, 1, 1]
    assert groups(corpus, "take") == [0, 2, 1, 0]  # a column of captions; clip b has none
    assert clusters_of(corpus, "participant").word == "values of participant"


def test_numbers_do_not_depend_on_the_order_of_the_corpus() -> None:
    corpus = corpus_with(path=["x.mp4", "y.mp4", "x.mp4", None])
    turned = Corpus(corpus.clips.reverse(), corpus.captions.reverse())
    for how in ("auto", "clip", "video"):
        assert groups(turned, how) == groups(corpus, how)


@pytest.mark.parametrize("cluster", [None, 5, "", ["video"]])
def test_a_rule_is_a_word(cluster: object) -> None:
    for kind in (EvaluationSettings, AuditSettings):
        with pytest.raises(UsageError, match="The setting cluster of .* must be text"):
            kind(cluster=cluster)  # type: ignore[arg-type]


def test_what_cannot_be_drawn_by_is_refused() -> None:
    mixed = corpus_with({"take": ["1", "2", "3", "4", "5"]})
    with pytest.raises(CorpusError, match=r"Captions of clip 'a' differ in 'take' \(1 such clips\)"):
        clusters_of(mixed, "take")
    with pytest.raises(CorpusError, match="have a column 'kitchen' to draw by; clips have: clip_id, path"):
        clusters_of(mixed, "kitchen")
    with pytest.raises(CorpusError, match="No clip says which video it is cut from"):
        clusters_of(mixed, "video")


def cut(seed: int, correlation: float, videos: int = 40, each: int = 15) -> tuple[Corpus, Scores, float]:
    """Clips of a few videos, found or not as their video is; and how often they are found in the long run."""
    random, clips = np.random.default_rng(seed), videos * each
    shared = np.repeat(random.normal(size=videos), each)
    found = correlation**0.5 * shared + (1 - correlation) ** 0.5 * random.normal(size=clips) > 0.5
    values = np.zeros((clips, clips))
    values[np.arange(clips), np.where(found, np.arange(clips), (np.arange(clips) + 1) % clips)] = 1
    ids = [f"v{one}" for one in range(clips)]
    table = pl.DataFrame({"clip_id": ids, "path": [f"{one // each}.mp4" for one in range(clips)]})
    captions = {"caption_id": [f"c{one}" for one in range(clips)], "clip_id": ids, "text": ["x"] * clips}
    scores = Scores(values, captions["caption_id"], ids)
    return make_corpus(table, pl.DataFrame(captions)), scores, 30.854


def held(cluster: str) -> int:
    """In how many of 60 worlds the interval of R@1 holds the truth."""
    count = 0
    asked = EvaluationSettings(parse_metrics(["R@1"]), directions=("t2v",), cluster=cluster)
    for world in range(60):
        corpus, scores, truth = cut(world, 0.1)
        one = evaluate(scores, corpus, asked).directions["t2v"].summary["R@1"]
        assert one.low is not None and one.high is not None
        count += one.low <= truth <= one.high
    return count


def test_videos_keep_what_an_interval_over_clips_does_not() -> None:
    assert held("auto") >= 53
    assert held("clip") <= 52


def test_the_result_says_what_was_drawn_and_tests_draw_the_same() -> None:
    corpus, scores, _ = cut(0, 0.5, 30, 4)
    asked = EvaluationSettings(parse_metrics(["R@1"]), resamples=100)
    found = evaluate(scores, corpus, asked)
    for result in found.directions.values():
        assert (result.drawn_by, result.drawn) == ("videos", 30)
    assert found.to_json()["directions"]["t2v"]["interval_over"] == {"what": "videos", "count": 30}
    assert found.notices[0].startswith("The 120 clips are of 30 videos (column 'path')")
    means = evaluate(scores, corpus, EvaluationSettings(t2v_protocol="video-mean")).directions["t2v"]
    assert means.drawn == 30
    other = Scores(scores.values[::-1].copy(), scores.caption_ids, scores.video_ids)
    row = compare(found, {"turned": evaluate(other, corpus, asked)}, asked).rows[0]
    alone = EvaluationSettings(parse_metrics(["R@1"]), resamples=100, cluster="clip")
    by_clip = compare(evaluate(scores, corpus, alone), {"turned": evaluate(other, corpus, alone)}, alone).rows[0]
    width, narrow = (one.difference.high - one.difference.low for one in (row, by_clip))  # type: ignore[operator]
    assert width > 1.3 * narrow


def test_videos_of_very_unequal_size_are_told() -> None:
    """One of 30 videos has 300 of 329 clips."""
    names, video = [f"v{n}" for n in range(329)], [max(0, n - 299) for n in range(329)]
    corpus = make_corpus(
        pl.DataFrame({"clip_id": names, "path": [f"{one}.mp4" for one in video]}),
        pl.DataFrame({"caption_id": names, "clip_id": names, "text": names}),
    )
    values = np.random.default_rng(0).random((329, 329)).astype(np.float32)
    notices = evaluate(Scores(values, names, names), corpus).notices
    assert any("differ so much in size that the 30 are as sure as 1.2 of one size" in one for one in notices), notices
