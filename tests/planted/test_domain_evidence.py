"""What the rows of two drawn domains stand on: a text tower for queries that lose a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence import adapted
from benchmarks.evidence.adapted import ALIKE, TURNS, Passes, SourceModel, in_a_stream, log_scores
from benchmarks.evidence.domain import ADAPTED, ROWS, WordMeans
from benchmarks.evidence.rendered import domain as rendered
from benchmarks.evidence.rows import Place, Size
from evenreel.adaptation.baselines.ttt_flow import FlowSettings
from evenreel.adaptation.preparing import PrepareSettings
from evenreel.adaptation.rotation import alike_groups
from evenreel.adaptation.settings import FitSettings
from evenreel.adaptation.settings_files import load_settings
from evenreel.adaptation.stream import QueryStream
from evenreel.matchers.registry import build_matcher
from evenreel.types import TextFeatures, VideoFeatures

pytestmark = pytest.mark.slow


def stream() -> QueryStream:
    rng = np.random.default_rng(0)
    words = rng.standard_normal((3, 2, 4)).astype(np.float16)
    texts = TextFeatures(("a", "b", "c"), words, np.ones((3, 2), np.bool_), words.astype(np.float32).mean(1))
    frames = np.ones((2, 1, 4), np.float16)
    videos = VideoFeatures(("v", "w"), frames, np.ones((2, 1), np.bool_), np.zeros((2, 1)))
    return QueryStream(texts, ("verb1 noun1", "verb1 noun2", "verb2 noun1"), videos)


def test_a_word_is_read_as_the_mean_of_what_the_log_has_for_it() -> None:
    log = stream()
    read = WordMeans(log).read(["verb1", "verb2 noun1"])
    one = (log.texts.words[0, 0].astype(float) + log.texts.words[1, 0]) / 2
    assert read.words[0, 0] == pytest.approx(one / np.linalg.norm(one), abs=2e-3)
    assert read.word_mask.tolist() == [[True, False], [True, True]]
    assert read.sentence[0] == pytest.approx(one / np.linalg.norm(one), abs=2e-3)
    both = sum(read.words[1].astype(float))
    assert read.sentence[1] == pytest.approx(both / np.linalg.norm(both), abs=2e-3)


def test_verbs_and_nouns_are_told_by_their_names() -> None:
    (tokens,) = WordMeans(stream()).tag(["verb2 noun1"])
    assert [(token.text, token.part) for token in tokens] == [("verb2", "verb"), ("noun1", "noun")]


def test_every_method_has_a_row_and_one_is_recommended() -> None:
    assert {*ADAPTED, ALIKE} == {name for name, row in ROWS.items() if row.kind in ("published", "ours")}
    assert [name for name, row in ROWS.items() if row.chosen] == ["rotation and Sinkhorn normalisation"]
    own = {name for name, row in rendered.ROWS.items() if row.kind in ("published", "ours")}
    assert {*rendered.ADAPTED, *TURNS, ALIKE} == own
    assert sum(row.chosen for row in rendered.ROWS.values()) == 1


PLACE = Place(1, 0.9, Size(40, 0, 4), Path())


@pytest.fixture(scope="module")
def target() -> rendered.RenderedTarget:
    return rendered.drawn(PLACE)


def test_every_row_that_adapts_a_rendered_world_is_made(
    target: rendered.RenderedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = FitSettings(steps=2)
    monkeypatch.setattr(adapted, "load_settings", lambda name: replace(load_settings(name), causal_fit=fit))
    monkeypatch.setattr(
        rendered.RenderedTarget, "preparing", PrepareSettings(causal_fit=fit, flow=FlowSettings(steps=2))
    )
    monkeypatch.setattr(rendered.RenderedTarget, "passes", Passes(2, 1, 1.0))
    rows = [name for name, row in rendered.ROWS.items() if row.kind not in ("untrained", "admission")]
    found = dict(rendered.EVIDENCE.measure(target, PLACE, rows))
    assert list(found) == rows
    for figures in found.values():
        assert 0 <= figures["R@1"] <= 100 and figures["training, s"] > 0 and figures["search, s"] > 0


def test_what_is_asked_of_a_rendered_target_comes_in_an_order_of_its_own(target: rendered.RenderedTarget) -> None:
    asked, test = target.stream, target.test
    assert asked.texts.ids != test.texts.ids and set(asked.texts.ids) == set(test.texts.ids)
    texts = dict(test.corpus.captions.select("caption_id", "text").iter_rows())
    assert asked.sentences == tuple(texts[one] for one in asked.texts.ids)
    again = target.reader(build_matcher("mean_pool", 512, {}))(asked.sentences[:2])
    assert again.sentence == pytest.approx(asked.texts.sentence[:2], abs=1e-3)


def test_the_recommended_labels_are_had_by_settings_that_the_docs_name(target: rendered.RenderedTarget) -> None:
    named = ["matching.match=hungarian", "learns=heads", "lr=0.001", "epochs=12"]
    row = SourceModel(target, build_matcher("mean_pool", 512, {}), 0.0, 0).matched(rendered.HUNGARIAN)
    assert replace(row, bank=4_096) == load_settings("titan/naive", named)  # a bank of as many queries as there are
    assert f"`--settings titan/naive {' '.join(f'--set {one}' for one in named)}`" in " ".join(
        (Path(__file__).parents[2] / "docs" / "adaptation.md").read_text(encoding="utf-8").split()
    )


def test_a_group_of_queries_scores_as_their_unit_mean() -> None:
    log = stream()
    matcher = build_matcher("mean_pool", 4, {})
    alone, grouped = log_scores(matcher, log, False), log_scores(matcher, log, True)
    unit = log.texts.sentence / np.linalg.norm(log.texts.sentence, axis=1, keepdims=True)
    groups = alike_groups(unit, load_settings("rotation").alike)
    shown = np.full(4, 0.5)  # every frame is (1, 1, 1, 1)
    assert alone == pytest.approx(np.repeat(unit @ shown[:, None], 2, axis=1), abs=1e-3)
    for group in range(groups.max() + 1):
        total = unit[groups == group].sum(0)
        assert grouped[group] == pytest.approx(total @ shown / np.linalg.norm(total), abs=1e-3)


@pytest.mark.parametrize("logged", [0, 37])
def test_a_stream_answers_each_query_by_what_was_asked_before_it(logged: int) -> None:
    rng = np.random.default_rng(0)
    values, before, order = rng.normal(0.2, 0.1, (50, 25)), rng.normal(0.2, 0.1, (logged, 25)), rng.permutation(50)
    found = in_a_stream(values, order, before)
    asked = [*before, *values[order]]
    for place, row in enumerate(order, start=logged):
        batch = place // 16
        if not batch:
            assert found[row].tolist() == values[row].tolist()
            continue
        kept = np.array(asked[max(0, batch - 2) * 16 : (batch + 1) * 16])  # a tenth of 25 clips: two batches before it
        by_queries = np.exp(100 * values[row]) / np.exp(100 * kept).sum(0)
        by_clips = np.exp(10 * values[row]) / np.exp(10 * values[row]).sum()
        assert found[row] == pytest.approx(values[row] * (by_queries + by_clips) / 2, rel=1e-9)
