"""Residual maps in front of a matcher, and on-screen windows among the frames."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings, ResidualMap, with_windows
from tests.matchers.examples import DIMENSION, captions, disturb, pairs, read_videos, scores_of, trained, videos


def adapted(settings: AdapterSettings, matcher: str = "mean_pool") -> Adapted:
    torch.manual_seed(0)
    return disturb(Adapted(build_matcher(matcher, DIMENSION), DIMENSION, settings)).eval()


def test_a_linear_map_against_its_formula() -> None:
    mapped = disturb(ResidualMap(DIMENSION, AdapterSettings())).double()
    (linear,) = mapped.change
    video = videos(dtype=torch.float64)
    result = mapped(5 * video.frames, video.frame_mask)
    for row, column in video.frame_mask.nonzero().tolist():
        frame = math.sqrt(DIMENSION) * video.frames[row, column]
        expected = frame + linear.weight @ frame + linear.bias
        torch.testing.assert_close(result[row, column], expected / expected.norm())
    assert not result[~video.frame_mask].any()


def test_an_mlp_against_its_formula() -> None:
    mapped = disturb(ResidualMap(DIMENSION, AdapterSettings(kind="mlp"))).double().eval().requires_grad_(False)
    first, _, _, last = mapped.change
    frame = videos(dtype=torch.float64).frames[0, 0]
    wide = first.weight @ (math.sqrt(DIMENSION) * frame) + first.bias
    gelu = torch.stack([0.5 * each * (1 + math.erf(float(each) / math.sqrt(2))) for each in wide])
    expected = math.sqrt(DIMENSION) * frame + last.weight @ gelu + last.bias
    torch.testing.assert_close(mapped(frame, torch.tensor(True)), expected / expected.norm())


def test_sides_have_their_own_map_unless_it_is_shared() -> None:
    apart, shared = adapted(AdapterSettings()), adapted(AdapterSettings(shared=True))
    assert apart.text_map is not apart.frame_map
    assert shared.text_map is shared.frame_map
    assert sum(each.numel() for each in shared.parameters()) == 1 + DIMENSION * (DIMENSION + 1)
    assert sum(each.numel() for each in apart.parameters()) == 1 + 2 * DIMENSION * (DIMENSION + 1)


def test_what_the_text_tower_made_goes_through_the_map_of_text() -> None:
    model, text, video = adapted(AdapterSettings()), captions(), read_videos(videos())
    mapped_text, mapped_video = model.adapt_text(text), model.adapt_video(video)
    assert video.on_screen is not None
    assert torch.equal(mapped_video.on_screen.windows, model.text_map(video.on_screen.windows, video.on_screen.mask))
    assert torch.equal(mapped_text.words, model.text_map(text.words, text.word_mask))
    assert torch.equal(mapped_video.frames, model.frame_map(video.frames, video.frame_mask))
    assert (mapped_video.ids, mapped_text.ids) == (video.ids, text.ids)


def test_the_logit_scale_is_the_wrapped_one() -> None:
    model = adapted(AdapterSettings())
    assert model.logit_scale is model.matcher.logit_scale
    assert "matcher.logit_scale" in dict(model.named_parameters())


def test_it_learns_on_frozen_features() -> None:
    """Mean pooling cannot tell these captions from each other; behind a linear map it can."""
    torch.manual_seed(0)
    model = Adapted(build_matcher("mean_pool", DIMENSION), DIMENSION, AdapterSettings())
    batch = pairs(captions(), videos())
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    first = sum(model.loss(batch).values()).item()
    for _ in range(60):
        loss = sum(model.loss(batch).values())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert first > 1
    assert loss.item() < 0.05
    assert scores_of(model, batch.text, batch.video).argmax(1).tolist() == [0, 1, 2, 3, 4]


def test_windows_stand_behind_the_frames() -> None:
    video = read_videos(videos((2, 1), dtype=torch.float32), lengths=(1, 0))
    assert video.on_screen is not None
    seen = with_windows(replace(video, on_screen=replace(video.on_screen, confidence=video.on_screen.mask.float())))
    assert seen.on_screen is None
    assert seen.frame_mask.tolist() == [[True, True, True], [True, False, False]]
    assert torch.equal(seen.frames[0, 2], video.on_screen.windows[0, 0])
    assert torch.equal(seen.frames[:, :2], video.frames)
    assert seen.times_s.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_windows_follow_the_last_frame_of_their_own_video() -> None:
    video = read_videos(videos((3, 1)), lengths=(0, 2))
    assert video.on_screen is not None
    seen = with_windows(video)
    assert seen.frame_mask.tolist() == [[True, True, True], [True, True, True]]
    assert torch.equal(seen.frames[1], torch.cat([video.frames[1, :1], video.on_screen.windows[1]]))
    assert torch.equal(seen.frames[0], video.frames[0])


def test_windows_that_were_asked_for_count() -> None:
    text, video = captions(), read_videos(videos())
    without, among = adapted(AdapterSettings()), adapted(AdapterSettings(windows=True))
    change = (scores_of(without, text, video) - scores_of(among, text, video)).abs().amax(0)
    assert (change > 1e-3).tolist() == [True, False, True, True, False]  # where a window has text


def test_windows_by_hand() -> None:
    """Step 0 of mean pooling with windows is the mean over frames and windows."""
    text, video = captions(), read_videos(videos())
    model = Adapted(build_matcher("mean_pool", DIMENSION), DIMENSION, AdapterSettings(windows=True)).eval()
    scores = scores_of(model, text, video)
    for column in range(len(video.ids)):
        windows = video.on_screen.windows[column][video.on_screen.mask[column]]
        items = torch.cat([video.frames[column][video.frame_mask[column]], windows])
        torch.testing.assert_close(scores[:, column], text.sentence @ F.normalize(items.mean(0), dim=0))


def test_windows_alone_need_no_map() -> None:
    """The plug-in of TCD's table 1: nothing is learned, and scores are those of fresh maps."""
    text, video = captions(), read_videos(videos())
    alone = Adapted(build_matcher("mean_pool", DIMENSION), DIMENSION, AdapterSettings(kind="none", windows=True)).eval()
    fresh = Adapted(build_matcher("mean_pool", DIMENSION), DIMENSION, AdapterSettings(windows=True)).eval()
    assert [name for name, _ in alone.named_parameters()] == ["matcher.logit_scale"]
    torch.testing.assert_close(scores_of(alone, text, video), scores_of(fresh, text, video))
    assert alone.limits.windows


def test_what_does_nothing_and_windows_that_nobody_read_are_refused() -> None:
    with pytest.raises(UsageError, match="kind of the adapter is 'none', which changes nothing without windows"):
        AdapterSettings(kind="none")
    with pytest.raises(UsageError, match=r"windows were asked for, but .* have none; .* or set windows=false"):
        adapted(AdapterSettings(windows=True)).encode_video(videos())


def test_adapters_nest() -> None:
    """A matcher in, a matcher out."""
    inner = trained("mean_pool+linear")
    outer = Adapted(inner, DIMENSION, AdapterSettings()).eval()
    text, video = captions(), videos()
    torch.testing.assert_close(scores_of(outer, text, video), scores_of(inner, text, video))
    assert outer.adapt_text(replace(text, ids=("x",) * 5)).ids == ("x",) * 5
