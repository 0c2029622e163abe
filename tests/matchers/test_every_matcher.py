"""What holds for every matcher, alone and behind adapters."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, Matcher, TextBatch, VideoBatch, build_matcher
from evenreel.matchers.batches import to_device
from evenreel.matchers.scoring import matcher_scores
from evenreel.similarity.tiles import gather_rows, take_rows
from evenreel.types import OnScreen
from tests.matchers.examples import (
    FRAMES,
    captions,
    pairs,
    read_videos,
    scores_of,
    small,
    text_features,
    text_rows,
    trained,
    video_features,
    video_rows,
    videos,
)

WITHOUT_WINDOWS = [*MATCHERS, "wti+mlp"]
READING = {name for name, entry in MATCHERS.items() if entry.windows}
"""Matchers that take on-screen windows themselves."""
NAMES = [*WITHOUT_WINDOWS, *(f"{name}+windows" for name in MATCHERS if name not in READING)]
"""An adapter knows nothing of its matcher: linear maps, with windows, stand before each, the others before one."""

ROUNDING = 1e-5

every = pytest.mark.parametrize("name", NAMES)
lengths = st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple)


def clips(lengths: tuple[int, ...] = FRAMES, seed: int = 1, dtype: torch.dtype = torch.float32) -> VideoBatch:
    """Videos with on-screen windows, for those who look at them."""
    return read_videos(videos(lengths, seed, dtype))


def longer(items: Tensor, mask: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """More padding, with values that no matcher may look at."""
    room = torch.randn(len(items), by, items.shape[-1], generator=torch.Generator().manual_seed(3))
    return torch.cat([items, 9 * room], dim=1), torch.cat([mask, torch.zeros(len(items), by, dtype=torch.bool)], dim=1)


def padded(text: TextBatch, video: VideoBatch, by: int = 3) -> tuple[TextBatch, VideoBatch]:
    words, word_mask = longer(text.words, text.word_mask, by)
    frames, frame_mask = longer(video.frames, video.frame_mask, by)
    assert video.on_screen is not None
    on_screen = OnScreen(*longer(video.on_screen.windows, video.on_screen.mask, by))
    times_s = torch.cat([video.times_s, torch.zeros(len(frames), by)], dim=1)
    more = replace(video, frames=frames, frame_mask=frame_mask, times_s=times_s)
    return replace(text, words=words, word_mask=word_mask), replace(more, on_screen=on_screen)


def opposites() -> tuple[TextBatch, VideoBatch]:
    """Captions and videos that all point away from each other."""
    text, video = captions(), clips()
    assert video.on_screen is not None
    direction = F.normalize(torch.tensor([1.0, -1.0]).repeat(text.sentence.shape[-1] // 2), dim=-1)
    near = lambda values, side: F.normalize(side * direction + 0.3 * F.normalize(values, dim=-1), dim=-1)  # noqa: E731
    words = near(text.words, 1).masked_fill(~text.word_mask[..., None], 0.0)
    frames = near(video.frames, -1).masked_fill(~video.frame_mask[..., None], 0.0)
    windows = near(video.on_screen.windows, -1).masked_fill(~video.on_screen.mask[..., None], 0.0)
    video = replace(video, frames=frames, on_screen=replace(video.on_screen, windows=windows))
    return replace(text, words=words, sentence=near(text.sentence, 1)), video


@every
def test_it_is_a_matcher(name: str) -> None:
    matcher = small(name)
    assert isinstance(matcher, nn.Module)
    assert isinstance(matcher, Matcher)
    scale = 0.0 if name.startswith("hgr") else math.log(100)  # a hinge takes cosines as they are; temperature 0.01
    assert math.isclose(matcher.logit_scale.item(), scale, rel_tol=1e-5)
    assert len(list(matcher.parameters())) == len({id(parameter) for parameter in matcher.parameters()})


@every
@given(words=lengths, frames=lengths, seed=st.integers(0, 99))
@settings(max_examples=4)
def test_more_padding_changes_nothing(name: str, words: Any, frames: Any, seed: int) -> None:
    matcher = trained(name)
    text, video = captions(words, seed), clips(frames, seed + 1)
    torch.testing.assert_close(
        scores_of(matcher, *padded(text, video)), scores_of(matcher, text, video), atol=ROUNDING, rtol=0
    )


@every
def test_more_padding_changes_nothing_where_all_is_unlike(name: str) -> None:
    matcher = small(name).eval()
    text, video = opposites()
    scores = scores_of(matcher, text, video)
    if not name.startswith(("t_mass", "hgr")):  # the best of random captions, and vectors of words, need not be unlike
        assert scores.max() < 0
    torch.testing.assert_close(scores_of(matcher, *padded(text, video)), scores, atol=ROUNDING, rtol=0)


@every
def test_scores_follow_their_captions_and_clips(name: str) -> None:
    matcher, text, video = trained(name), captions(), clips()
    rows, columns = [3, 0, 4, 1, 2], [1, 4, 0, 3, 2]
    mixed = scores_of(matcher, text_rows(text, rows), video_rows(video, columns))
    straight = scores_of(matcher, text, video)
    torch.testing.assert_close(mixed, straight[rows][:, columns], atol=ROUNDING, rtol=0)


@every
def test_a_video_alone_has_the_scores_it_has_among_others(name: str) -> None:
    """And the same a batch cut to its own frames and windows."""
    matcher, text, video = trained(name), captions(), clips()
    together = scores_of(matcher, text, video)
    for row, (frames, windows) in enumerate(zip(FRAMES, (2, 0, 1, 2, 0), strict=True)):
        one = video_rows(video, [row])
        assert one.on_screen is not None
        one = replace(one, frames=one.frames[:, :frames], frame_mask=one.frame_mask[:, :frames])
        one = replace(one, times_s=one.times_s[:, :frames])
        one = replace(one, on_screen=one.on_screen.mapped(lambda tensor, most=windows: tensor[:, :most]))
        torch.testing.assert_close(scores_of(matcher, text, one)[:, 0], together[:, row], atol=ROUNDING, rtol=0)


@every
def test_the_page_says_who_sees_the_order_of_frames(name: str) -> None:
    text, video = captions(), clips((4,) * 5)
    backwards = replace(video, frames=video.frames.flip(1))
    change = (scores_of(trained(name), text, video) - scores_of(trained(name), text, backwards)).abs().max().item()
    if name.partition("+")[0] in {"temporal", "x_clip", "t_mass", "tcd"}:
        assert change > 1e-3
    else:
        assert change < ROUNDING


@every
def test_a_score_does_not_depend_on_its_tile(name: str) -> None:
    matcher = trained(name)
    with torch.inference_mode():
        text, video = matcher.encode_text(captions()), matcher.encode_video(clips())
        whole = matcher.score(text, video)
        for rows in (slice(0, 1), slice(1, 4), slice(4, 5)):
            for columns in (slice(0, 2), slice(2, 3), slice(1, 5)):
                tile = matcher.score(take_rows(text, rows), take_rows(video, columns))
                torch.testing.assert_close(tile, whole[rows, columns], atol=ROUNDING, rtol=0)


@every
def test_states_of_batches_are_gathered(name: str) -> None:
    """Encoding in batches, each as long as its longest row, is encoding at once."""
    matcher = trained(name)
    with torch.inference_mode():
        text = [matcher.encode_text(captions(words, 5)) for words in ((2, 1), (5,))]
        video = [matcher.encode_video(clips(frames, 6)) for frames in ((1, 1), (4, 3))]
        gathered = gather_rows(3, zip((slice(0, 2), slice(2, 3)), text, strict=True))
        seen = gather_rows(4, zip((slice(0, 2), slice(2, 4)), video, strict=True))
        joined = matcher.score(gathered, seen)
        apart = torch.cat([torch.cat([matcher.score(row, column) for column in video], 1) for row in text])
    torch.testing.assert_close(joined, apart, atol=ROUNDING, rtol=0)


@every
def test_equal_states_give_equal_scores(name: str) -> None:
    matcher = trained(name)
    with torch.inference_mode():
        text, video = matcher.encode_text(captions()), matcher.encode_video(clips())
        first = matcher.score(text, video)
        torch.rand(3)  # the random state of the process is not asked
        assert torch.equal(matcher.score(text, video), first)
        assert torch.equal(matcher.encode_video(clips())[0], video[0])


@every
def test_scores_of_unit_vectors_are_at_most_one_at_the_start(name: str) -> None:
    assert scores_of(small(name).eval(), captions(), clips()).abs().max() <= 1 + ROUNDING


@pytest.mark.parametrize("adapter", ["linear", "mlp"])
@pytest.mark.parametrize("alone", MATCHERS)
def test_adapters_start_as_what_they_wrap(alone: str, adapter: str) -> None:
    text, video = captions(), clips()
    adapted, expected = (scores_of(small(name).eval(), text, video) for name in (f"{alone}+{adapter}", alone))
    torch.testing.assert_close(adapted, expected, atol=ROUNDING, rtol=0)


def loss_of(matcher: Any, batch: Any, without: tuple[str, ...] = ()) -> Tensor:
    """The loss with the same dropout and noise each time, without some of its terms."""
    torch.manual_seed(11)
    terms = matcher.loss(batch)
    assert all(term.shape == () for term in terms.values())
    return torch.stack([term for name, term in terms.items() if name not in without]).sum()


@every
def test_a_step_along_the_gradient_lowers_the_loss(name: str) -> None:
    matcher, batch = small(name).train(), pairs(captions(), clips())
    before = loss_of(matcher, batch)
    before.backward()
    with torch.no_grad():
        steepness = sum(float((each.grad**2).sum()) for each in matcher.parameters() if each.grad is not None)
        for parameter in matcher.parameters():
            if parameter.grad is not None:
                parameter.sub_(1e-3 / steepness * parameter.grad)
        after = loss_of(matcher, batch)
    assert steepness > 0
    assert 0.3e-3 < before - after < 3e-3  # what the gradient promises


@every
def test_every_parameter_takes_part(name: str) -> None:
    """A parameter without a gradient would be dead weight, and stop training on several devices."""
    matcher = trained(name).train()
    loss_of(matcher, pairs(captions(), clips())).backward()
    without = [key for key, each in matcher.named_parameters() if each.grad is None or not each.grad.any()]
    assert without == []


@every
def test_features_get_finite_gradients(name: str) -> None:
    """The towers train through a matcher, padding and all."""
    text, video = captions(), clips()
    inputs = [text.words, text.sentence, video.frames]
    for values in inputs:
        values.requires_grad_()
    loss_of(trained(name).train(), pairs(text, video)).backward()
    used = [values.grad for values in inputs if values.grad is not None]
    assert len(used) >= (1 if name.startswith("hgr") else 2)  # it has vectors of words of its own
    assert all(grad.isfinite().all() and grad.any() for grad in used)
    assert not video.frames.grad[~video.frame_mask].any()


@every
def test_pairs_that_belong_together_are_no_negatives(name: str) -> None:
    """Two captions of one clip: with the mask, that clip standing there twice costs nothing."""
    matcher, text, twice = trained(name), captions((3, 3)), video_rows(clips((4,)), [0, 0])
    batch = replace(pairs(text, twice), same=torch.ones(2, 2, dtype=torch.bool))
    of_words = ("cap", "rec", "kl", "hsc")  # what it costs to write captions, and to place windows, whatever the pairs
    assert loss_of(matcher, batch, of_words).item() == pytest.approx(0.0, abs=1e-6)
    assert loss_of(matcher, pairs(text, twice), of_words).item() > 0.1


@every
def test_bfloat16_comes_close(name: str) -> None:
    matcher, text, video = trained(name), captions(), clips()
    exact = scores_of(matcher, text, video)
    with torch.autocast("cpu", torch.bfloat16):
        rough = scores_of(matcher, text, video)
        loss = loss_of(matcher.train(), pairs(text, video))
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    torch.testing.assert_close(rough.float(), exact, atol=0.08, rtol=0)


@every
def test_double_precision_runs_throughout(name: str) -> None:
    matcher = trained(name, dtype=torch.float64)
    scores = scores_of(matcher, captions(dtype=torch.float64), clips(dtype=torch.float64))
    assert scores.dtype == torch.float64
    torch.testing.assert_close(scores.float(), scores_of(trained(name), captions(), clips()), atol=ROUNDING, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@every
def test_a_gpu_gives_the_same_scores(name: str) -> None:
    matcher, text, video = trained(name), captions(), clips()
    here = scores_of(matcher, text, video)
    texts, seen = text_features(text), video_features(video)
    from_features = matcher_scores(matcher, texts, seen).score_all().values
    there = scores_of(matcher.cuda(), to_device(text, "cuda"), to_device(video, "cuda"))
    torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=0)
    np.testing.assert_allclose(matcher_scores(matcher, texts, seen).score_all().values, from_features, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in WITHOUT_WINDOWS if name not in READING])
def test_windows_that_a_matcher_does_not_know_change_nothing(name: str) -> None:
    matcher = trained(name)
    torch.testing.assert_close(scores_of(matcher, captions(), clips()), scores_of(matcher, captions(), videos()))


@pytest.mark.parametrize(
    "name", [name for name, one in MATCHERS.items() if "heads" in one.settings.__dataclass_fields__]
)
def test_heads_that_do_not_divide_the_features(name: str) -> None:
    settings = {"heads": 3} | ({"temporal_layers": 1} if name in ("wti", "bima") else {})
    with pytest.raises(UsageError, match="length 16 cannot be split among 3 attention heads"):
        build_matcher(name, 16, settings)


def test_a_matcher_and_a_setting_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match=r"No matcher is called 'wit'; there are mean_pool, "):
        build_matcher("wit", 8)
    with pytest.raises(UsageError, match=r"The matcher mean_pool has no setting 'layers'; it has temperature"):
        build_matcher("mean_pool", 8, {"layers": 3})


def test_every_matcher_has_its_test_and_its_row_in_the_docs() -> None:
    here = Path(__file__).parent
    page = (here.parents[1] / "docs" / "matchers.md").read_text(encoding="utf-8")
    table = page.partition("| matcher | source |")[2].partition("\n\n")[0]
    assert {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")} == set(MATCHERS)
    for name in MATCHERS:
        assert (here / f"test_{name}.py").is_file()
        assert f"## `{name}`" in page
        for setting in MATCHERS[name].settings.__dataclass_fields__:
            assert f"`{setting}`" in page.partition(f"## `{name}`")[2].partition("\n## ")[0], (name, setting)
