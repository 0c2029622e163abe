"""Judgements read from TREC files, several relevant clips a caption, and what nobody judged."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import pytrec_eval

from evenreel.corpus import class_relevance, make_corpus
from evenreel.corpus.formats.multivent import read_multivent
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.evaluation.judgements import read_qrels
from evenreel.evaluation.trec import write_qrels
from evenreel.types import Scores
from tests.evaluation.small_corpus import corpus_of, scores_of

SHARED = Path(__file__).parents[3] / "shared" / "data" / "multivent_2"

CAPTIONS, VIDEOS = ["c0", "c1", "c2"], ["v0", "v1", "v2", "v3"]


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.qrels", "a.gz"])
def test_judgements_say_what_is_relevant_and_what_was_looked_at(tmp_path: Path, name: str) -> None:
    text = "c0 0 v0 1\nc0\t0  v3 1\nc0 0 v1 0\n\nc1 0 v2 -1\r\nelsewhere 0 v0 1\nc2 0 gone 1\n"
    found = read_qrels(written(tmp_path / name, text), CAPTIONS, VIDEOS)
    assert found.block(slice(0, 3), slice(0, 4)).tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    judged = found.judged.block(slice(0, 3), slice(0, 4)).tolist()
    assert judged == [[1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]
    (notice,) = found.notices
    assert notice.startswith("2 of 6 judgements of ") and notice.endswith("without scores, and are left out.")


def test_grades_are_degrees_of_the_highest(tmp_path: Path) -> None:
    found = read_qrels(written(tmp_path / "a.qrels", "c0 0 v0 2\nc0 0 v1 1\nc0 0 v1 1\n"), CAPTIONS, VIDEOS)
    assert found.block(slice(0, 1), slice(0, 4)).tolist() == [[1, 0.5, 0, 0]]
    assert "grades up to 2" in found.notices[0]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    ids = ["c0", "c1", "c2"], ["v0", "v1", "v2"]
    classes = {"verb_classes": [[0], [0], [1]], "noun_classes": [[0], [1, 2], [3]]}
    captions = pl.DataFrame({"caption_id": ids[0], "clip_id": ids[1], "text": ["a", "b", "c"]} | classes)
    relevance = class_relevance(make_corpus(pl.DataFrame({"clip_id": ids[1]} | classes), captions), *ids)
    write_qrels(relevance, *ids, tmp_path / "a.qrels")
    every = slice(0, 3), slice(0, 3)
    assert read_qrels(tmp_path / "a.qrels", *ids).block(*every) == pytest.approx(relevance.block(*every), abs=0.005)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "which is empty, has not the four words"),
        ("c0 0 v0 1\nc0 v0 1\n", "Line 2 of .* has not the four words"),
        ("c0 0 v0 0.5\n", "a whole grade"),
        ("c0 0 v0 99999999999999999999\n", "a whole grade"),
        ("c0 0 v0 1\nc0 0 v0 0\n", "'c0' and 'v0' two grades"),
        ("v0 0 c0 1\n", "None of the 1 judgements .* calls a clip"),
        ("c0 0 v0 0\n", "None of the 1 judgements .* calls a clip"),
    ],
)
def test_files_that_are_none_are_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ScoresError, match=said):
        read_qrels(written(tmp_path / "a.qrels", text), CAPTIONS, VIDEOS)
    with pytest.raises(ScoresError, match="There is no file"):
        read_qrels(tmp_path / "missing", CAPTIONS, VIDEOS)


def slow_unjudged(scores: list[float], judged: set[int], k: int) -> float:
    """Mean over all orders of equal scores, in percent; minus infinity is not retrieved."""
    shares = []
    for order in itertools.permutations([place for place, score in enumerate(scores) if score > -np.inf]):
        if all(scores[one] >= scores[other] for one, other in itertools.pairwise(order)):
            first = order[:k]
            shares.append(sum(one not in judged for one in first) / len(first) if first else 0.0)
    return 100 * sum(shares) / len(shares)


def test_unjudged_is_the_mean_over_all_orders(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 3, (6, 5)).astype(float)
    values[random.random((6, 5)) < 0.2] = -np.inf
    judged = random.random((6, 5)) < 0.5
    judged[:, 0] = True
    lines = [f"c{row} 0 v{column} {int(column == 0)}\n" for row, column in np.argwhere(judged)]
    path = written(tmp_path / "a.qrels", "".join(lines))
    scores, corpus = scores_of(values), corpus_of([0, 1, 2, 3, 4, 0], 5)
    relevance = read_qrels(path, scores.caption_ids, scores.video_ids)
    words = ("R@1", "unjudged@1", "unjudged@3", "unjudged@9")
    settings = EvaluationSettings(words, ("t2v", "v2t"), partial=True)  # type: ignore[arg-type]  # words become metrics
    found = evaluate(scores, corpus, settings, relevance=relevance)
    for direction, table, known in (("t2v", values, judged), ("v2t", values.T, judged.T)):
        result = found.directions[direction]  # type: ignore[index]
        for k in (1, 3, 9):
            slow = [
                slow_unjudged(list(row), set(np.flatnonzero(own)), k) for row, own in zip(table, known, strict=True)
            ]
            rows = [int(name[1:]) for name in result.query_ids]
            assert result.per_query[f"unjudged@{k}"] == pytest.approx([slow[row] for row in rows])
    ends = found.directions["t2v"].summary["unjudged@3"]  # only v0 has anything to find, so v2t has no interval
    assert ends.low is not None and ends.high is not None and 0 <= ends.low <= ends.value <= ends.high <= 100


def test_bpref_is_of_the_judged_pairs_alone_as_in_trec_eval(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    values = random.permutation(np.arange(96.0)).reshape(8, 12)
    judged, relevant = random.random((8, 12)) < 0.6, random.random((8, 12)) < 0.3
    ids = [f"c{row}" for row in range(8)], [f"v{column}" for column in range(12)]
    pairs = {
        query: {item: int(relevant[row, column]) for column, item in enumerate(ids[1]) if judged[row, column]}
        for row, query in enumerate(ids[0])
    }
    text = "".join(f"{query} 0 {item} {grade}\n" for query, of in pairs.items() for item, grade in of.items())
    found = evaluate(
        Scores(values, *ids), corpus_of([row % 12 for row in range(8)], 12),
        EvaluationSettings(("Bpref",), ("t2v",), resamples=0),  # type: ignore[arg-type]
        relevance=read_qrels(written(tmp_path / "a.qrels", text), *ids),
    ).directions["t2v"]  # fmt: skip
    run = {query: dict(zip(ids[1], values[row].tolist(), strict=True)) for row, query in enumerate(ids[0])}
    reference = pytrec_eval.RelevanceEvaluator(pairs, {"bpref"}).evaluate(run)
    assert len(found.query_ids) > 5
    own = dict(zip(found.query_ids, found.per_query["Bpref"].tolist(), strict=True))
    assert own == pytest.approx({query: 100 * reference[query]["bpref"] for query in own}, abs=1e-9)
    every = judged & relevant
    assert not np.array_equal(every, relevant)  # some pairs that nobody judged


def test_unjudged_needs_judgements_and_single_captions() -> None:
    with pytest.raises(UsageError, match="give a file of judgements"):
        evaluate(scores_of(np.eye(2)), corpus_of([0, 1], 2), EvaluationSettings(("unjudged@1",)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="use the protocol best-caption"):
        EvaluationSettings(("unjudged@1",), v2t_protocol="caption-group")  # type: ignore[arg-type]


@pytest.mark.skipif(not SHARED.is_dir(), reason="MultiVENT 2.0 is not at ../shared/data/multivent_2")
def test_multivent_counts_each_of_several_relevant_videos(tmp_path: Path) -> None:
    corpus = read_multivent(sorted(SHARED.iterdir())).corpus
    lines = [json.loads(line) for line in (SHARED / "multivent_2_j.jsonl").read_text().splitlines()]
    qrels = "".join(f"{one['query_id']} 0 {one['doc_id']} {one['relevance']}\n" for one in lines)
    wanted: dict[str, list[str]] = {}
    for one in lines:
        names = wanted.setdefault(one["query_id"], [])
        names += [one["doc_id"]] if one["doc_id"] not in names else []  # pairs are repeated
    captions = sorted(wanted, key=lambda one: (-len(wanted[one]), one))[:40]
    assert len(wanted[captions[0]]) > 1
    videos = sorted({name for one in captions for name in wanted[one]})[::-1] + ["edhOSNX8Qg0"]
    videos = list(dict.fromkeys(videos))
    values = np.random.default_rng(0).normal(size=(len(captions), len(videos)))
    settings = EvaluationSettings(("R@5", "mAP", "unjudged@5"), ("t2v",), partial=True)  # type: ignore[arg-type]
    relevance = read_qrels(written(tmp_path / "m.qrels", qrels), captions, videos)
    found = evaluate(Scores(values, captions, videos), corpus, settings, relevance=relevance).directions["t2v"]
    own = evaluate(
        Scores(values, captions, videos),
        corpus,
        EvaluationSettings(("R@5", "mAP"), ("t2v",), partial=True),  # type: ignore[arg-type]
    ).directions["t2v"]
    for row, caption in enumerate(captions):
        order = [videos[place] for place in np.argsort(-values[row])]
        hits = [name in wanted[caption] for name in order]
        precision = [sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit]
        assert found.per_query["mAP"][row] == pytest.approx(100 * sum(precision) / len(wanted[caption]))
        assert found.per_query["R@5"][row] == 100 * any(hits[:5])
        assert found.per_query["unjudged@5"][row] == pytest.approx(20 * hits[:5].count(False))  # only hits were judged
    for word in ("R@5", "mAP"):
        assert own.per_query[word] == pytest.approx(found.per_query[word])
