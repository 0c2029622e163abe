"""Known figures on the official annotations of MSR-VTT 1k-A and of EPIC-KITCHENS-100 retrieval."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import class_relevance, make_corpus
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.types import Corpus, Scores

EPIC = EvaluationSettings(parse_metrics(["nDCG@R", "mAP-EPIC", "mAP"]), resamples=0)


@pytest.fixture(scope="module")
def msrvtt(shared_data: Path) -> Corpus:
    rows = pl.read_csv(shared_data / "msrvtt" / "MSRVTT_JSFUSION_test.csv")
    return make_corpus(
        rows.select(clip_id="video_id"), rows.select(caption_id="key", clip_id="video_id", text="sentence")
    )


@pytest.fixture(scope="module")
def epic(shared_data: Path) -> Corpus:
    folder = shared_data / "epic_kitchens_100"
    nouns = pl.col("all_noun_classes").str.strip_chars("[]").str.split(", ")
    clips = pl.read_csv(folder / "EPIC_100_retrieval_test.csv").select(
        clip_id="narration_id", verb_classes=pl.concat_list("verb_class"), noun_classes=nouns
    )
    sentences = pl.read_csv(folder / "EPIC_100_retrieval_test_sentence.csv").rename({"narration_id": "clip_id"})
    captions = sentences.join(clips, on="clip_id", how="left", maintain_order="left").rename({"narration": "text"})
    return make_corpus(clips, captions.with_columns(caption_id="clip_id"))


def of_corpus(corpus: Corpus, values: np.ndarray) -> Scores:
    return Scores(values, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


def shape(corpus: Corpus) -> tuple[int, int]:
    return corpus.captions.height, corpus.clips.height


def test_an_oracle_of_equal_texts_is_perfect_when_equal_texts_are_relevant(msrvtt: Corpus) -> None:
    texts = msrvtt.captions["text"].to_numpy()
    assert (shape(msrvtt), len(set(texts))) == ((1000, 1000), 995)
    oracle = of_corpus(msrvtt, (texts[:, None] == texts).astype(np.float32))
    done = evaluate(oracle, msrvtt, EvaluationSettings(resamples=0), relevance="text")
    for result in done.directions.values():
        assert (len(result.query_ids), result.without_relevant) == (1000, ())
        for word, best in {"R@1": 100, "R@5": 100, "MedR": 1, "MeanR": 1, "Rsum": 300, "MRR": 100}.items():
            assert result.summary[word].value == best


def test_and_has_exactly_the_chance_of_its_ties_when_they_are_not(msrvtt: Corpus) -> None:
    texts = msrvtt.captions["text"].to_numpy()
    oracle = of_corpus(msrvtt, (texts[:, None] == texts).astype(np.float32))
    done = evaluate(oracle, msrvtt, EvaluationSettings(resamples=0), relevance="clip")
    same = np.array([Counter(texts)[text] for text in texts])
    for result in done.directions.values():
        assert len(result.query_ids) == 1000  # each query once, however its scores tie
        assert result.summary["R@1"].value == pytest.approx(100 * (1 / same).mean())
        assert result.summary["R@1"].value == pytest.approx(99.5)  # 995 groups, each found once
        assert result.summary["MeanR"].value == pytest.approx(((same + 1) / 2).mean())
        assert result.summary["R@5"].value == 100


def test_relevance_of_epic_kitchens(epic: Corpus) -> None:
    degrees = class_relevance(epic, *(of_corpus(epic, np.empty(shape(epic))).caption_ids, epic.clips["clip_id"]))
    assert degrees.shape == (3842, 9668)
    parts = [degrees.block(slice(start, min(start + 500, 3842)), slice(0, 9668)) for start in range(0, 3842, 500)]
    assert sum((part > 0).sum() for part in parts) / (3842 * 9668) == pytest.approx(0.114, abs=0.0005)
    assert sum((part == 1).sum() for part in parts) / (3842 * 9668) == pytest.approx(0.0017, abs=0.00005)


def test_equal_scores_have_the_published_chance_figures(epic: Corpus) -> None:
    """Equal scores are the mean over all orders, which random scores only come near."""
    level = of_corpus(epic, np.broadcast_to(np.float32(0), shape(epic)))
    random = of_corpus(epic, np.random.default_rng(0).random(shape(epic), dtype=np.float32))
    chance, drawn = (evaluate(scores, epic, EPIC, relevance="classes") for scores in (level, random))
    published = {
        "v2t": {"nDCG@R": (10.8, 0.06), "mAP-EPIC": (5.7, 0.06), "mAP": (0.38, 0.015)},
        "t2v": {"nDCG@R": (11.0, 0.06), "mAP-EPIC": (5.6, 0.06), "mAP": (0.27, 0.015)},
    }
    for direction, figures in published.items():
        result = chance.directions[direction]  # type: ignore[index]
        assert result.without_relevant == ()
        for word, (value, near) in figures.items():
            mean = result.summary[word].value
            assert mean == pytest.approx(value, abs=near)
            assert drawn.directions[direction].summary[word].value == pytest.approx(mean, rel=0.06)  # type: ignore[index]
