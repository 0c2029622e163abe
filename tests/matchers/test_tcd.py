"""TCD against its formulas, pair by pair and row by row; what is printed, and what that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.losses import info_nce
from evenreel.matchers import VideoBatch, build_matcher
from evenreel.matchers.matcher import HasTrainingParts, ScoresInParts, check_lengths
from evenreel.matchers.tcd import (
    PRINTED,
    CycleForm,
    Sequence,
    Tcd,
    TcdSettings,
    contrastive_synchrony,
    cycle_indices,
    cycle_loss,
    multi_head_attention,
    pair_parts,
)
from evenreel.similarity.tiles import row_bytes
from evenreel.types import OnScreen
from tests.matchers.examples import (
    DIMENSION,
    captions,
    disturb,
    pairs,
    read_videos,
    scores_of,
    text_features,
    video_features,
    videos,
)

HEADS = 2
FUSIONS = ("clues", "video_clue", "cross_attention", "concat", "product", "addition")


def tcd(noise: float = 0.15, **settings: Any) -> Tcd:
    """In double precision, none of whose parameters is what it starts with."""
    torch.manual_seed(0)
    matcher = build_matcher("tcd", DIMENSION, {"heads": HEADS, **settings})
    assert isinstance(matcher, Tcd)
    changed: Tcd = disturb(matcher, noise).double().eval()
    return changed


def texts(seed: int = 0) -> Any:
    return captions(seed=seed, dtype=torch.float64)


def clips(windows: tuple[int, ...] = (2, 0, 1, 5, 3)) -> VideoBatch:
    """More windows than frames, fewer, none."""
    return read_videos(videos(dtype=torch.float64), windows)


def read_with(video: VideoBatch, confidence: Tensor) -> VideoBatch:
    """The videos with windows that were read with this confidence, (V, O)."""
    assert video.on_screen is not None
    return replace(video, on_screen=replace(video.on_screen, confidence=confidence))


def slow_scores(matcher: Tcd, text: Any, video: VideoBatch) -> dict[str, Tensor]:
    """The parts of each pair, with every row made for it."""
    found = [[pair_parts(matcher, sentence, *clip) for clip in rows_of(video)] for sentence in text.sentence]
    return {part: torch.stack([torch.stack([one[part] for one in row]) for row in found]) for part in found[0][0]}


def rows_of(video: VideoBatch) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Real frames and windows of each clip, and the confidence of these."""
    assert video.on_screen is not None
    confidence = video.on_screen.confidence
    confidence = torch.ones_like(video.on_screen.windows[..., 0]) if confidence is None else confidence
    return [
        (frames[real], windows[written], certain[written])
        for frames, real, windows, written, certain in zip(
            video.frames, video.frame_mask, video.on_screen.windows, video.on_screen.mask, confidence, strict=True
        )
    ]


WAYS: list[dict[str, Any]] = [{}, *({"fusion": fusion} for fusion in FUSIONS[1:]), {"intra": "none"}, {"intra": "keys"}]
WAYS += [{name: False} for name in ("co_attention", "attention_norm", "residual", "preserve_mean", "text_condition")]
WAYS += [{"co_residual": True}, {"types": "shared"}, {"matches": ("hybrid", "video")}]
WAYS += [PRINTED, PRINTED | {"fusion": "cross_attention"}]


@pytest.mark.parametrize("settings", WAYS, ids=str)
def test_it_is_its_formulas_pair_by_pair(settings: dict[str, Any]) -> None:
    matcher, text, video = tcd(**settings), texts(), clips()
    expected = slow_scores(matcher, text, video)
    found = matcher.part_scores(matcher.encode_text(text), matcher.encode_video(video))
    assert list(found) == list(matcher.settings.matches)
    for part, scores in found.items():
        torch.testing.assert_close(scores, expected[part], atol=1e-10, rtol=0)
    torch.testing.assert_close(scores_of(matcher, text, video), torch.stack([*expected.values()]).mean(0))


@pytest.mark.parametrize("modality", ["video", "ocr"])
def test_one_modality_alone_is_its_weighed_mean(modality: str) -> None:
    matcher, text, video = tcd(modalities=modality), texts(), clips()
    for sentence, row in zip(text.sentence, scores_of(matcher, text, video), strict=True):
        for (frames, windows, _), score in zip(rows_of(video), row, strict=True):
            rows = frames if modality == "video" else windows
            if len(rows) == 0:
                assert matcher.no_text is not None
                rows = matcher.no_text[None]
            rows = F.normalize(rows, dim=-1)
            pooled = (rows @ sentence / 0.05).softmax(0) @ rows
            assert score.item() == pytest.approx(F.cosine_similarity(sentence, pooled, dim=0).item())


def test_a_clue_among_the_queries_alone_learns_nothing_of_its_rows() -> None:
    """Equation 9 as printed: [C; O'] looks at V', and the row of C is that of C looking at V' by itself."""
    matcher = tcd(**PRINTED)
    text, video = texts(), clips((3, 3, 3, 3, 3))
    clue: Any = matcher.clues["ocr"]
    own, other = torch.randn(2, 4, DIMENSION, dtype=torch.float64).unbind()
    token = (clue.token + matcher.clue_type)[None]
    with torch.no_grad():
        among = multi_head_attention(clue.cross, torch.cat([token, own]), other)[0]
        alone = multi_head_attention(clue.cross, token, other)[0]
    torch.testing.assert_close(among, alone)
    # So what the windows' own order of types is, which only rows of queries have, does not matter to the clue there.
    real = tcd(**(PRINTED | {"intra": "self_attention", "fusion": "video_clue"}))
    printed = tcd(**(PRINTED | {"fusion": "video_clue"}))
    for each, changes in ((printed, False), (real, True)):
        before = each.part_scores(each.encode_text(text), each.encode_video(video))["hybrid"]
        with torch.no_grad():
            assert each.video_types is not None
            each.video_types += torch.randn(DIMENSION, dtype=torch.float64)
        after = each.part_scores(each.encode_text(text), each.encode_video(video))["hybrid"]
        assert (not torch.allclose(before, after)) == changes


def test_weights_of_frames_reach_the_attention_only_where_nothing_normalises_them() -> None:
    """Layer normalisation undoes a factor, so who looks at whom does not depend on the caption."""
    frames, caption_weights = torch.randn(4, DIMENSION).double(), torch.tensor([3.0, 0.5, 0.2, 0.3]).double()
    module: Any = tcd().frames_look
    plain, weighed = module.norm_query(frames), module.norm_query(caption_weights[:, None] * frames)
    torch.testing.assert_close(plain, weighed, atol=1e-3, rtol=1e-3)


def test_windows_without_text_leave_scores_unchanged() -> None:
    matcher, text, video = tcd(), texts(), clips()
    assert video.on_screen is not None
    room = torch.randn(len(video.ids), 4, DIMENSION, dtype=torch.float64)
    mask = torch.cat([video.on_screen.mask, torch.zeros(room.shape[:2], dtype=torch.bool)], dim=1)
    more = replace(video, on_screen=OnScreen(torch.cat([video.on_screen.windows, room], dim=1), mask))
    torch.testing.assert_close(scores_of(matcher, text, more), scores_of(matcher, text, video))


def test_a_clip_without_text_is_one_whose_window_says_so() -> None:
    matcher, text = tcd(), texts()
    unread = videos(dtype=torch.float64)
    assert unread.on_screen is None
    none = clips((0, 0, 0, 0, 0))
    torch.testing.assert_close(scores_of(matcher, text, unread), scores_of(matcher, text, none))
    assert matcher.no_text is not None
    said = replace(
        none, on_screen=OnScreen(matcher.no_text.detach().expand(5, 1, -1), torch.ones(5, 1, dtype=torch.bool))
    )
    torch.testing.assert_close(scores_of(matcher, text, said), scores_of(matcher, text, none))


def test_windows_that_nobody_is_sure_of_count_less() -> None:
    video = read_with(clips(), torch.full((5, 5), 0.9).double())
    matcher, text = tcd(confidence=True), texts()
    sure = scores_of(matcher, text, video)
    torch.testing.assert_close(sure, scores_of(tcd(), text, video))  # equally sure of all
    assert video.on_screen is not None and video.on_screen.confidence is not None
    doubted = video.on_screen.confidence.clone()
    doubted[:, 0] = 0.2
    video = read_with(video, doubted)
    expected = slow_scores(matcher, text, video)
    torch.testing.assert_close(scores_of(matcher, text, video), torch.stack([*expected.values()]).mean(0))
    assert (sure - scores_of(matcher, text, video)).abs().amax(0)[[0, 3, 4]].min() > 1e-4


def test_the_loss_is_of_the_pairs_and_calibration_of_the_matched_alone() -> None:
    matcher, text, video = tcd(lambda_hsc=0.3), texts(), clips()
    terms = matcher.loss(pairs(text, video))
    expected = info_nce(scores_of(matcher, text, video), torch.eye(5, dtype=torch.bool), matcher.logit_scale.exp())
    torch.testing.assert_close(terms["contrastive"], expected)
    assert matcher.calibration is not None and video.on_screen is not None
    tau, places = matcher.calibration.log_tau.exp(), []
    for (frames, windows, _), read in zip(rows_of(video), video.on_screen.mask, strict=True):
        for i, frame in enumerate(frames):
            window = int((i + 0.5) / len(frames) * len(read))  # of its middle
            around = [m for m in range(len(read)) if i == int((m + 0.5) / len(read) * len(frames))]
            if any(read[m] for m in (window, *around)):
                near = (torch.stack([frame @ row for row in windows]) / tau).softmax(0) @ windows
                back = (torch.stack([F.cosine_similarity(near, row, dim=0) for row in frames]) / tau).softmax(0)
                places.append((i - sum(weight * j for j, weight in enumerate(back))) ** 2)
    torch.testing.assert_close(terms["hsc"], 0.3 * torch.stack(places).mean())


def test_what_calibrates_is_not_kept() -> None:
    matcher = tcd()
    assert isinstance(matcher, HasTrainingParts)
    assert matcher.training_only == ("calibration",)
    assert tcd(lambda_hsc=0.0).calibration is None
    assert tcd(modalities="video").calibration is None


def test_it_tells_parts_and_has_a_cheap_score() -> None:
    matcher, text, video = tcd(), texts(), clips()
    assert isinstance(matcher, ScoresInParts)
    cheap = matcher.coarse(matcher.encode_text(text), matcher.encode_video(video))
    for sentence, row in zip(text.sentence, cheap, strict=True):
        for (frames, windows, _), score in zip(rows_of(video), row, strict=True):
            assert matcher.no_text is not None
            written = windows if len(windows) else matcher.no_text[None]
            means = [F.normalize(rows, dim=-1).mean(0) for rows in (frames, written)]
            both = [F.cosine_similarity(sentence, mean, dim=0) for mean in means]
            assert score.item() == pytest.approx(torch.stack(both).mean().item())


def test_a_clip_keeps_vectors_of_what_looks_only_where_these_are_added() -> None:
    """Of 4 frames and 4 windows: for each clue four values that it hears, four keys and values that it looks at."""
    video = read_videos(videos((4,)), (4,))
    plain, added = (row_bytes(tcd(co_residual=each).float().encode_video(video)) for each in (False, True))
    vectors = 2 * 3 * 4
    assert added - plain == 4 * (vectors * DIMENSION + 2 * HEADS * 4)  # and the products with what it hears


def test_training_starts_at_cosines_of_features() -> None:
    """Maps begin as the identity: without weights of captions, S_TV and S_TO are cosines of means."""
    torch.manual_seed(0)
    matcher = build_matcher("tcd", DIMENSION, {"heads": HEADS, "text_condition": False, "co_attention": False})
    assert isinstance(matcher, Tcd)
    text, video = captions(), read_videos(videos(), (2, 1, 1, 2, 3))
    found = matcher.part_scores(matcher.encode_text(text), matcher.encode_video(video))
    state = matcher.encode_video(video)
    torch.testing.assert_close((found["video"] + found["ocr"]) / 2, matcher.coarse(matcher.encode_text(text), state))


def test_what_cannot_be_is_refused() -> None:
    """More frames or windows than types, these also before anything is encoded; parts that there are none of."""
    matcher, video = tcd(max_frames=3), read_videos(videos((1, 2, 1, 2, 1), dtype=torch.float64), (2, 5, 1, 1, 1))
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: tcd(matches=[["video"]]), r"matches of tcd is \[\['video'\]\]; it must be some of video"),
        (lambda: matcher.encode_video(clips()), "A clip has 4 frames, but this matcher was built for 3 at most"),
        (lambda: matcher.encode_video(video), "5 on-screen windows, .* for 3 at most; .* max_frames=5 or"),
        (
            lambda: check_lengths(matcher, text_features(captions()), video_features(video)),
            "5 on-screen windows, .* for 3 at most; .* max_frames=5 or",
        ),
    ]
    for refuse, sentence in refused:
        with pytest.raises(UsageError, match=sentence):
            refuse()
    assert tcd(max_frames=3, types="shared").limits.frames is None


@pytest.mark.parametrize("calibration", ["cycle", "contrastive"])
def test_coarse_precision_does_not_reach_the_calibration(calibration: str) -> None:
    """Places up to 64 have no quarters in bfloat16."""
    matcher, text = tcd(lambda_hsc=1.0, calibration=calibration).float(), captions()
    video = read_videos(videos(), (2, 0, 1, 5, 3))
    expected = matcher.loss(pairs(text, video))["hsc"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = matcher.loss(pairs(text, video))["hsc"]
    torch.testing.assert_close(found, expected)


def test_confidence_counts_where_captions_weigh_nothing() -> None:
    """Of two windows, one read with 0.9 and one with 0.1, the weights are those."""
    matcher, text = tcd(confidence=True, text_condition=False, modalities="ocr"), texts()
    video = read_videos(videos((1,), dtype=torch.float64), (2,))
    video = read_with(video, torch.tensor([[0.9, 0.1]], dtype=torch.float64))
    assert video.on_screen is not None
    mean = 0.9 * video.on_screen.windows[0, 0] + 0.1 * video.on_screen.windows[0, 1]
    expected = F.cosine_similarity(text.sentence, mean[None])
    torch.testing.assert_close(scores_of(matcher, text, video)[:, 0], expected)


# Cycles from frames over windows and back: by hand, by loops, and as the paper prints them


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whole(vectors: Tensor) -> Sequence:
    return Sequence(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool))


def slow_indices(frames: Tensor, windows: Tensor, tau: float, form: CycleForm) -> list[float]:
    """Equations 3 and 4 of one video, place by place."""

    def weights(one: Tensor, others: Tensor) -> Tensor:
        if form == "squared_distance":
            return torch.stack([-((one - F.normalize(other, dim=0)) ** 2).sum() / tau for other in others]).softmax(0)
        cosines = torch.stack([F.cosine_similarity(one, other, dim=0) for other in others])
        return cosines / cosines.sum() if form == "printed" else (cosines / tau).softmax(0)

    found = []
    for frame in frames:
        there = weights(F.normalize(frame, dim=0), windows)
        met = sum(weight * F.normalize(window, dim=0) for weight, window in zip(there, windows, strict=True))
        back = weights(met, frames)
        found.append(sum(float(weight) * place for place, weight in enumerate(back, start=1)))
    return found


@pytest.mark.parametrize("form", ["softmax", "squared_distance", "printed"])
@given(counts=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 99))
def test_indices_are_those_of_loops(form: CycleForm, counts: tuple[int, int], seed: int) -> None:
    frames, windows = rows(1, counts[0], 8, seed=seed) + 0.5, rows(1, counts[1], 8, seed=seed + 1) + 0.5
    found = cycle_indices(whole(frames), whole(windows), 0.3, form)
    expected = slow_indices(frames[0], windows[0], 0.3, form)
    torch.testing.assert_close(found.mean[0], torch.tensor(expected).double(), rtol=1e-6, atol=1e-6)


def test_a_sequence_in_step_with_itself_costs_nothing_as_the_temperature_falls() -> None:
    steps = whole(torch.eye(6, dtype=torch.float64)[None])
    costs = [cycle_loss(steps, steps, tau, TcdSettings()).item() for tau in (1.0, 0.3, 0.1, 0.02)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1
    assert costs[-1] < 1e-12


def test_any_one_to_one_mapping_costs_nothing() -> None:
    """A limit of the idea: windows in the wrong order, each like one frame, close their cycles too."""
    frames = torch.eye(5, dtype=torch.float64)[None]
    for order in ([1, 0, 2, 3, 4], [4, 3, 2, 1, 0]):
        assert cycle_loss(whole(frames), whole(frames[:, order]), 0.02, TcdSettings()).item() < 1e-12


def test_as_printed_every_place_has_the_same_index_and_the_cost_is_that_of_not_knowing() -> None:
    """With cosines as CLIP's: 0.15 to 0.30, a little more for a frame and its own window."""
    count, make = 12, torch.Generator().manual_seed(0)
    cosines = 0.15 + 0.15 * torch.rand(count, count, generator=make).double() + 0.08 * torch.eye(count).double()
    # Unit windows with these cosines with frames that are at right angles: the rest of each is a direction of its own.
    frames = torch.eye(count, 2 * count, dtype=torch.float64)[None]
    rest = (1 - (cosines**2).sum(0)).sqrt()
    windows = torch.cat([cosines.T, torch.diag(rest)], dim=1)[None]
    torch.testing.assert_close(windows @ frames.mT, cosines.T[None])
    printed = cycle_indices(whole(frames), whole(windows), 1.0, "printed").mean
    assert (printed - (count + 1) / 2).abs().max() < 0.5
    flat = cycle_loss(whole(frames), whole(windows), 1.0, TcdSettings(cycle="printed")).item()
    assert flat == pytest.approx((count**2 - 1) / 12, rel=0.05)  # the variance of a uniform index, 11.92
    soft = cycle_loss(whole(frames), whole(windows), 0.01, TcdSettings()).item()
    assert soft < 0.7 * flat


def test_windows_without_text_and_padding_take_no_part() -> None:
    frames, windows = rows(2, 4, 8), rows(2, 3, 8, seed=1)
    windows_read = torch.tensor([[True, False, True], [False, False, False]])
    real = torch.tensor([[True, True, True, False], [True, True, True, True]])
    found = cycle_loss(Sequence(frames, real), Sequence(windows, windows_read), 0.1, TcdSettings())
    index = slow_indices(frames[0, :3], windows[0, [0, 2]], 0.1, "softmax")
    expected = ((index[0] - 1) ** 2 + (index[2] - 3) ** 2) / 2  # frame 2 has nothing to be in step with
    assert found.item() == pytest.approx(expected)
    none = Sequence(windows, torch.zeros(2, 3, dtype=torch.bool))
    assert cycle_loss(Sequence(frames, real), none, 0.1, TcdSettings()).item() == 0
    assert contrastive_synchrony(Sequence(frames, real), none, 0.1).item() == 0


def one_window(count: int, place: int, text: Tensor) -> tuple[Sequence, Sequence]:
    """As many orthogonal frames as windows, of which one has a text of the given direction."""
    frames = torch.eye(count, dtype=torch.float64)[None]
    windows = torch.zeros(1, count, count, dtype=torch.float64)
    windows[0, place] = text
    return whole(frames), Sequence(windows, torch.arange(count)[None] == place)


@pytest.mark.parametrize("both_ways", [False, True])
def test_one_window_of_text_in_step_with_its_frame_costs_nothing(both_ways: bool) -> None:
    """Eleven of twelve frames have nothing to be in step with, so no cycle begins there."""
    own, anyone = torch.eye(12, dtype=torch.float64)[4], torch.ones(12, dtype=torch.float64)
    half = 0.5 if both_ways else 1.0  # back to the only window there is, which costs nothing
    settings = TcdSettings(both_ways=both_ways)
    assert cycle_loss(*one_window(12, 4, own), 0.02, settings).item() < 1e-12
    # like every frame, it leads frame 5 of 12 back to their middle, 6.5
    assert cycle_loss(*one_window(12, 4, anyone), 0.02, settings).item() == pytest.approx(half * 1.5**2)


@pytest.mark.parametrize("both_ways", [False, True])
def test_training_draws_one_window_of_text_to_its_own_frame(both_ways: bool) -> None:
    """From a window that is like no frame more than another; what is in step stays there."""
    for start, least in ((torch.ones(12, dtype=torch.float64), 0.6), (torch.eye(12, dtype=torch.float64)[0], 0.99)):
        text = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([text], lr=0.05)
        for _ in range(100):
            frames, windows = one_window(12, 0, torch.zeros(12, dtype=torch.float64))
            placed = Sequence(torch.where(windows.mask[..., None], text, 0.0), windows.mask)
            optimiser.zero_grad()
            cycle_loss(frames, placed, 0.05, TcdSettings(both_ways=both_ways)).backward()
            optimiser.step()
        cosines = F.normalize(text.detach(), dim=0)
        assert cosines[0] > least and cosines[1:].max() < cosines[0] - 0.1


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_cycles_begin_at_frames_whose_stretch_has_text(frames: int, windows: int, seed: int) -> None:
    """A frame and a window go together where the middle of either lies in the other's stretch of the clip."""
    vectors, texts = rows(1, frames, 8, seed=seed), rows(1, windows, 8, seed=seed + 1)
    read = torch.rand(windows, generator=torch.Generator().manual_seed(seed)) < 0.5
    read[seed % windows] = True
    found = cycle_loss(whole(vectors), Sequence(texts, read[None]), 0.3, TcdSettings())
    index = slow_indices(vectors[0], texts[0, read], 0.3, "softmax")
    costs = []
    for frame in range(frames):
        start, end = Fraction(frame, frames), Fraction(frame + 1, frames)
        for window in range(windows):
            first, last = Fraction(window, windows), Fraction(window + 1, windows)
            together = first <= (start + end) / 2 < last or start <= (first + last) / 2 < end
            if together and read[window]:
                costs.append((frame + 1 - index[frame]) ** 2)
                break
    assert costs, "each window with text has a frame"
    assert found.item() == pytest.approx(sum(costs) / len(costs), abs=1e-6)


def test_a_batch_without_words_gives_the_temperature_a_gradient_of_zero() -> None:
    """Several devices wait for a gradient of every parameter, whatever a batch shows."""
    frames, unread = whole(rows(2, 4, 8)), Sequence(rows(2, 3, 8, seed=1), torch.zeros(2, 3, dtype=torch.bool))
    temperature = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    for loss in (
        cycle_loss(frames, unread, temperature, TcdSettings()),
        contrastive_synchrony(frames, unread, temperature),
    ):
        (found,) = torch.autograd.grad(loss, temperature)
        assert found.item() == 0


@pytest.mark.parametrize("form", ["softmax", "squared_distance", "printed"])
def test_padding_gets_no_gradient(form: CycleForm) -> None:
    frames, windows = rows(2, 4, 8), rows(2, 3, 8, seed=1)
    real = torch.tensor([[True, True, True, False], [True, True, True, True]])
    read = torch.tensor([[True, False, True], [True, True, True]])
    frames = (frames * real[..., None]).requires_grad_()
    windows = (windows * read[..., None]).requires_grad_()
    settings = TcdSettings(cycle=form, both_ways=True)
    cycle_loss(Sequence(frames, real), Sequence(windows, read), 0.3, settings).backward()
    assert frames.grad is not None
    assert windows.grad is not None
    assert frames.grad.isfinite().all()
    assert not frames.grad[~real].any()
    assert not windows.grad[~read].any()
    assert frames.grad[real].abs().sum(-1).min() > 0


def test_both_ways_is_the_mean_of_the_two() -> None:
    frames, windows = whole(rows(2, 4, 8)), whole(rows(2, 3, 8, seed=1))
    there, back = (cycle_loss(*each, 0.2, TcdSettings()) for each in ((frames, windows), (windows, frames)))
    both = cycle_loss(frames, windows, 0.2, TcdSettings(both_ways=True))
    torch.testing.assert_close(both, (there + back) / 2)


def test_shares_of_the_clip_weigh_less_by_the_square_of_its_length() -> None:
    """Also where windows in between are not read: windows 1 and 5 of 5 are the whole clip apart."""
    frames, windows = whole(rows(1, 4, 8)), rows(1, 5, 8, seed=1)
    read = Sequence(windows, torch.tensor([[True, False, False, False, True]]))
    ways = [TcdSettings(both_ways=True, normalise_index=share) for share in (False, True)]
    plain, share = (cycle_loss(frames, read, 0.2, way) for way in ways)
    there = cycle_loss(frames, read, 0.2, TcdSettings())
    torch.testing.assert_close(2 * share, there / 3**2 + (2 * plain - there) / 4**2)


def test_the_regularised_form_divides_by_the_variance() -> None:
    """(i - mu)^2 / sigma^2 + weight log sigma (TCC, equation 5)."""
    frames, windows = rows(1, 4, 8), rows(1, 3, 8, seed=1)
    found = cycle_indices(whole(frames), whole(windows), 0.5, "softmax")
    expected = []
    for place, (mean, variance) in enumerate(zip(found.mean[0], found.variance[0], strict=True), start=1):
        expected.append((place - mean) ** 2 / variance + 0.001 * variance.sqrt().log())
    loss = cycle_loss(whole(frames), whole(windows), 0.5, TcdSettings(variance_weight=0.001))
    torch.testing.assert_close(loss, torch.stack(expected).mean())


def test_a_variance_is_that_of_the_places() -> None:
    frames, windows = rows(1, 3, 8), rows(1, 2, 8, seed=1)
    found = cycle_indices(whole(frames), whole(windows), 0.5, "softmax")
    first = F.normalize(frames[0], dim=-1)
    there = ((first @ F.normalize(windows[0], dim=-1).T) / 0.5).softmax(-1) @ F.normalize(windows[0], dim=-1)
    for row, met in enumerate(there):
        back = ((first @ F.normalize(met, dim=0)) / 0.5).softmax(0)
        drawn = sum(float(weight) * (place - float(found.mean[0, row])) ** 2 for place, weight in enumerate(back, 1))
        assert found.variance[0, row].item() == pytest.approx(drawn)


def test_contrastive_synchrony_is_infonce_of_windows_and_frames_of_one_moment() -> None:
    """Four frames, two windows: the first two frames are of the first window; an unread window takes no part."""
    frames, windows = rows(1, 4, 8), rows(1, 2, 8, seed=1)
    found = contrastive_synchrony(whole(frames), whole(windows), 0.2)
    logits = F.normalize(frames[0], dim=-1) @ F.normalize(windows[0], dim=-1).T / 0.2
    own = [0, 0, 1, 1]
    costs = [-logits[i].log_softmax(0)[m] for i, m in enumerate(own)]
    costs += [-logits[:, m].log_softmax(0)[i] for i, m in enumerate(own)]
    torch.testing.assert_close(found, torch.stack(costs).mean())
    read = Sequence(windows, torch.tensor([[False, True]]))
    some = contrastive_synchrony(whole(frames), read, 0.2)
    costs = [-logits[:, 1].log_softmax(0)[i] for i in (2, 3)]  # the one window left is certain
    torch.testing.assert_close(some, torch.stack([*costs, torch.zeros(()).double(), torch.zeros(()).double()]).mean())
