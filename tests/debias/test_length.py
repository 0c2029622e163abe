"""An ensemble and maps for each stratum are matchers: their scores, losses, limits and memory."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evenreel.checkpoint.architecture import WRAPPERS
from evenreel.debias.fusion import Fusion, prior_weights
from evenreel.debias.length import Ensemble, PerStratum
from evenreel.debias.source.contrast import paired_scores
from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, Matcher, PairBatch, TextBatch
from evenreel.matchers.matcher import Limits
from evenreel.matchers.scoring import matcher_scores
from evenreel.similarity.states import Encoded
from evenreel.similarity.tiles import PAIR_BYTES, MatcherScores
from tests.matchers.examples import (
    DIMENSION,
    captions,
    disturb,
    pairs,
    scores_of,
    small,
    text_features,
    text_rows,
    trained,
    video_features,
    video_rows,
    videos,
)
from tests.matchers.test_memory import Live

NAMES = ["mean_pool", "wti", "x_pool", "t_mass", "hgr", "wti+mlp", "hgr+mlp"]
STRATA = torch.tensor([0, 1, 0, 1, 1])
ROUNDING = 1e-5


def ensemble(*names: str, **fusion: Any) -> Ensemble:
    """Members that differ in their weights, with a weight for each that nobody else has."""
    members = [disturb(small(name), 0.1 * (place + 1)) for place, name in enumerate(names)]
    weights = prior_weights(range(1, len(names) + 1))
    return Ensemble(members, DIMENSION, Fusion(weights, **fusion)).eval()


def per_stratum(name: str, **fusion: Any) -> PerStratum:
    """As it is after training: the maps differ."""
    torch.manual_seed(0)
    return disturb(PerStratum(small(name), DIMENSION, Fusion((0.25, 0.75), **fusion))).eval()  # type: ignore[no-any-return]


def batch() -> PairBatch:
    return replace(pairs(captions(), videos()), strata=STRATA)


def rows_of(whole: PairBatch, rows: list[int]) -> PairBatch:
    """Some pairs of a batch, alone."""
    return PairBatch(text_rows(whole.text, rows), video_rows(whole.video, rows), whole.same[rows][:, rows])


def through(head: Any, text: TextBatch, matcher: Matcher) -> TextBatch:
    """Captions behind a map: their features, or what a matcher makes of their graphs."""
    if matcher.limits.graphs:
        return replace(text, vector_map=head)
    real = torch.ones(len(text.ids), dtype=torch.bool)
    return replace(text, words=head(text.words, text.word_mask), sentence=head(text.sentence, real))


def total(terms: dict[str, Tensor]) -> float:
    return float(sum(term.item() for term in terms.values()))


# The ensemble


@pytest.mark.parametrize("name", NAMES)
def test_an_ensemble_of_one_is_its_member_bit_by_bit(name: str) -> None:
    alone = trained(name)
    one = Ensemble([alone], DIMENSION, Fusion((1.0,))).eval()
    assert isinstance(one, Matcher)
    assert torch.equal(scores_of(one, captions(), videos()), scores_of(alone, captions(), videos()))
    assert one.limits == alone.limits._replace(captions=None)
    torch.manual_seed(3)
    loss = one.train().loss(batch())
    torch.manual_seed(3)
    for name_of_term, term in alone.train().loss(batch()).items():
        assert torch.equal(loss[name_of_term], term)


def test_scores_are_the_sum_of_equation_5() -> None:
    made = ensemble("wti", "mean_pool", "x_pool", means=(0.1, 0.2, -0.3), scales=(1.0, 0.5, 2.0))
    tables = [scores_of(member, captions(), videos()) for member in made.members]
    expected = (tables[0] - 0.1) / 6 + (tables[1] - 0.2) / 0.5 / 3 + (tables[2] + 0.3) / 2 / 2
    torch.testing.assert_close(scores_of(made, captions(), videos()), expected, atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (3, 1), (5, 2), (6, 6)])
def test_tiles_of_any_shape_give_the_table_of_one(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    made = Ensemble([ensemble("wti", "x_pool"), per_stratum("wti")], DIMENSION, Fusion((0.5, 0.5))).eval()
    text, video = captions(), videos()
    with torch.inference_mode():
        encoded = Encoded(text.ids, made.encode_text(text)), Encoded(video.ids, made.encode_video(video))
    monkeypatch.setattr("evenreel.similarity.tiles.tile_shape", lambda *_: tile)
    tiled = torch.from_numpy(MatcherScores(made, *encoded).score_all().values)
    torch.testing.assert_close(tiled, scores_of(made, text, video), atol=ROUNDING, rtol=0)


def test_scores_from_features_are_those_of_batches() -> None:
    made, text, video = ensemble("wti", "x_clip"), captions(), videos()
    found = matcher_scores(made, text_features(text), video_features(video)).score_all().values
    torch.testing.assert_close(torch.from_numpy(found), scores_of(made, text, video), atol=ROUNDING, rtol=0)


def test_the_loss_is_the_mean_of_the_members_each_term_once() -> None:
    made = ensemble("wti", "mean_pool", "t_mass").train()
    torch.manual_seed(5)
    terms = made.loss(batch())
    torch.manual_seed(5)
    alone = [member.loss(batch()) for member in made.members]
    assert terms.keys() == {"contrastive", "stochastic", "support"}
    assert total(terms) == pytest.approx(sum(map(total, alone)) / 3)
    assert terms["contrastive"].item() == pytest.approx((alone[0]["contrastive"] + alone[1]["contrastive"]).item() / 3)


def test_scores_of_pairs_are_the_diagonal() -> None:
    """As training against a preference for a source asks for them, 16 pairs at a time."""
    made, count = Ensemble([ensemble("wti", "x_pool"), per_stratum("wti")], DIMENSION, Fusion((0.5, 0.5))).eval(), 20
    with torch.inference_mode():
        text, video = made.encode_text(captions((3,) * count)), made.encode_video(videos((4,) * count))
        expected = made.score(text, video).diagonal()
        torch.testing.assert_close(paired_scores(made, text, video), expected, atol=ROUNDING, rtol=0)


def test_its_limits_are_the_tightest() -> None:
    long, short, wide = small("mean_pool"), small("mean_pool"), small("mean_pool")
    long.limits, short.limits = Limits(DIMENSION, words=9, frames=8), Limits(DIMENSION, frames=5, windows=True)
    wide.limits = Limits(DIMENSION, pretrained_mean=True)
    tightest = Limits(DIMENSION, 9, 5, windows=True, pretrained_mean=True)
    assert Ensemble([long, short, wide], DIMENSION, Fusion((0.2, 0.3, 0.5))).limits == tightest
    long.limits = Limits(12)
    with pytest.raises(UsageError, match="takes features of 12 numbers and the ensemble those of 16"):
        Ensemble([long, short], DIMENSION, Fusion((0.5, 0.5)))
    with pytest.raises(UsageError, match="Some members of the ensemble read the role graphs .* and others"):
        Ensemble([short, small("hgr")], DIMENSION, Fusion((0.5, 0.5)))


def test_there_is_a_weight_for_each_member() -> None:
    for count in (0, 1, 3):
        with pytest.raises(UsageError, match=f"An ensemble of {count} matchers has 2 weights"):
            Ensemble([small("wti") for _ in range(count)], DIMENSION, Fusion((0.5, 0.5)))


# One matcher with maps


@pytest.mark.parametrize("name", [*MATCHERS, "wti+mlp", "hgr+mlp"])
def test_maps_start_as_no_change(name: str) -> None:
    text, video = captions(), videos()
    torch.manual_seed(0)
    alone = small(name).eval()
    made = PerStratum(alone, DIMENSION, Fusion((0.2, 0.3, 0.5))).eval()
    assert isinstance(made, Matcher)
    torch.testing.assert_close(scores_of(made, text, video), scores_of(alone, text, video), atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_video_is_encoded_as_the_matcher_alone_does(name: str) -> None:
    made = per_stratum(name)
    for one, other in zip(made.encode_video(videos()), made.matcher.encode_video(videos()), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_each_map_scores_as_an_adapter_of_captions_would(name: str) -> None:
    made = per_stratum(name, means=(0.1, -0.1), scales=(2.0, 0.5))
    text, video = captions(), videos()
    tables = [scores_of(made.matcher, through(head, text, made.matcher), video) for head in made.heads]
    expected = 0.25 * (tables[0] - 0.1) / 2 + 0.75 * (tables[1] + 0.1) / 0.5
    torch.testing.assert_close(scores_of(made, text, video), expected, atol=ROUNDING, rtol=0)
    assert not torch.allclose(tables[0], tables[1], atol=1e-3)


@pytest.mark.parametrize(
    ("name", "changes"), [*((name, {}) for name in NAMES if name != "t_mass"), ("hgr", {"mining": "all"})]
)
def test_the_loss_is_that_of_each_stratum_alone_by_its_share(name: str, changes: dict[str, Any]) -> None:
    """Stratum by stratum, each with the map of its own: no pair meets one of another stratum.

    But with `t_mass`, whose second loss has the mean of what all captions of the batch see.
    """
    made, whole = per_stratum(name), batch()
    if changes:
        made.matcher.settings = replace(made.matcher.settings, **changes)
    expected = 0.0
    for number, head in enumerate(made.heads):
        rows = (number == STRATA).nonzero().flatten().tolist()
        some = rows_of(whole, rows)
        loss = made.matcher.loss(replace(some, text=through(head, some.text, made.matcher)))
        expected += len(rows) / len(STRATA) * total(loss)
    assert total(made.loss(whole)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["wti", "hgr"])
def test_every_map_takes_part_in_every_loss(name: str) -> None:
    """Also one whose stratum no pair of the batch has; DDP would wait for it in vain."""
    made = per_stratum(name).train()
    torch.stack(list(made.loss(replace(batch(), strata=torch.zeros(5, dtype=torch.long))).values())).sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())
    assert made.heads[0].change[0].weight.grad.any()
    assert not made.heads[1].change[0].weight.grad.any()


def test_relevance_of_other_strata_is_none() -> None:
    seen: list[PairBatch] = []
    made = per_stratum("mean_pool")
    made.matcher.loss = lambda given: seen.append(given) or {}
    made.loss(replace(batch(), relevance=torch.ones(5, 5)))
    assert seen[0].relevance is not None
    assert torch.equal(seen[0].relevance > 0, STRATA[:, None] == STRATA)
    assert torch.equal(seen[0].same, torch.eye(5, dtype=torch.bool) | (STRATA[:, None] != STRATA))


def test_a_batch_without_strata_is_refused() -> None:
    with pytest.raises(UsageError, match="needs the strata of the videos; the batch has none"):
        per_stratum("wti").loss(pairs(captions(), videos()))


@pytest.mark.parametrize("inner", [lambda: ensemble("wti"), lambda: per_stratum("wti")])
def test_maps_go_around_a_single_matcher(inner: Any) -> None:
    with pytest.raises(UsageError, match="goes around a single matcher"):
        PerStratum(inner(), DIMENSION, Fusion((1.0,)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_same_scores() -> None:
    """States stay in main memory and move a tile at a time, nested as they are."""
    made = Ensemble([ensemble("wti", "x_pool"), per_stratum("wti")], DIMENSION, Fusion((0.5, 0.5))).eval()
    texts, seen = text_features(captions()), video_features(videos())
    here = matcher_scores(made, texts, seen).score_all().values
    there = matcher_scores(made.cuda(), texts, seen).score_all().values
    torch.testing.assert_close(torch.from_numpy(there), torch.from_numpy(here), atol=1e-4, rtol=0)


# Memory


def test_scoring_takes_no_more_than_a_matcher_may() -> None:
    """However deep they are nested; `mean_pool` takes 4 bytes a pair and no chunks, so that what is seen is the sum."""
    inner = Ensemble([ensemble("mean_pool", "mean_pool"), per_stratum("mean_pool")], DIMENSION, Fusion((0.5, 0.5)))
    made, size = Ensemble([small("mean_pool"), inner], DIMENSION, Fusion((0.5, 0.5))).eval(), 400
    with torch.inference_mode():
        text, video = made.encode_text(captions((1,) * size)), made.encode_video(videos((1,) * size))
        with Live() as live:
            made.score(text, video)
    assert 8 * size**2 <= live.most <= PAIR_BYTES * size**2


def test_the_docs_name_every_wrapper_and_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "matchers.md").read_text(encoding="utf-8")
    section = page.partition("## Wrappers against the length of clips")[2].partition("\n## ")[0]
    for name in (*(set(WRAPPERS) - {"adapted"}), *(field.name for field in fields(Fusion))):
        assert f"| `{name}` |" in section, name
