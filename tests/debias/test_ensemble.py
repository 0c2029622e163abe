"""An ensemble is a matcher: its scores, losses, limits and memory."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evenreel.checkpoint.architecture import WRAPPERS
from evenreel.debias.ensemble import Ensemble
from evenreel.debias.frame_length import Fusion, prior_weights
from evenreel.debias.source import paired_scores
from evenreel.errors import UsageError
from evenreel.matchers import Matcher, PairBatch
from evenreel.matchers.matcher import Limits
from evenreel.matchers.scoring import matcher_scores
from evenreel.similarity.tiles import PAIR_BYTES, Encoded, MatcherScores
from tests.matchers.examples import (
    DIMENSION,
    captions,
    disturb,
    pairs,
    scores_of,
    small,
    text_features,
    trained,
    video_features,
    videos,
)
from tests.matchers.test_memory import Live

NAMES = ["mean_pool", "wti", "x_pool", "t_mass", "hgr", "wti+mlp", "hgr+mlp"]
ROUNDING = 1e-5


def ensemble(*names: str, **fusion: Any) -> Ensemble:
    """Members that differ in their weights, with a weight for each that nobody else has."""
    members = [disturb(small(name), 0.1 * (place + 1)) for place, name in enumerate(names)]
    weights = prior_weights(range(1, len(names) + 1))
    return Ensemble(members, DIMENSION, Fusion(weights, **fusion)).eval()


def batch() -> PairBatch:
    return pairs(captions(), videos())


def total(terms: dict[str, Tensor]) -> float:
    return float(sum(term.item() for term in terms.values()))


@pytest.mark.parametrize("name", NAMES)
def test_an_ensemble_of_one_is_its_member_bit_by_bit(name: str) -> None:
    alone = trained(name)
    one = Ensemble([alone], DIMENSION, Fusion((1.0,))).eval()
    assert isinstance(one, Matcher)
    assert torch.equal(scores_of(one, captions(), videos()), scores_of(alone, captions(), videos()))
    assert one.limits == alone.limits
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
    made = Ensemble([ensemble("wti", "x_pool"), small("wti")], DIMENSION, Fusion((0.5, 0.5))).eval()
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
    made, count = Ensemble([ensemble("wti", "x_pool"), small("wti")], DIMENSION, Fusion((0.5, 0.5))).eval(), 20
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_same_scores() -> None:
    """States stay in main memory and move a tile at a time, nested as they are."""
    made = Ensemble([ensemble("wti", "x_pool"), small("wti")], DIMENSION, Fusion((0.5, 0.5))).eval()
    texts, seen = text_features(captions()), video_features(videos())
    here = matcher_scores(made, texts, seen).score_all().values
    there = matcher_scores(made.cuda(), texts, seen).score_all().values
    torch.testing.assert_close(torch.from_numpy(there), torch.from_numpy(here), atol=1e-4, rtol=0)


def test_scoring_takes_no_more_than_a_matcher_may() -> None:
    """However deep they are nested; `mean_pool` takes 4 bytes a pair and no chunks, so that what is seen is the sum."""
    inner = Ensemble([ensemble("mean_pool", "mean_pool"), small("mean_pool")], DIMENSION, Fusion((0.5, 0.5)))
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
