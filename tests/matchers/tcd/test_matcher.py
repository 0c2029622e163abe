"""TCD against its formulas, pair by pair and row by row; what is printed, and what that does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.losses import info_nce
from evenreel.matchers import VideoBatch, build_matcher
from evenreel.matchers.matcher import Coarse, HasTrainingParts, ScoresInParts, check_lengths
from evenreel.matchers.tcd import PRINTED, Tcd, multi_head_attention, pair_parts
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
    assert isinstance(matcher, Coarse)
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


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"matches": [["video"]]}, r"The setting matches of tcd is \[\['video'\]\]; it must be some of video")],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build_matcher("tcd", DIMENSION, settings)


def test_more_frames_than_types_are_refused() -> None:
    matcher = tcd(max_frames=3)
    with pytest.raises(UsageError, match=r"A clip has 4 frames, but this matcher was built for 3 at most"):
        matcher.encode_video(clips())
    assert tcd(max_frames=3, types="shared").limits.frames is None


def test_more_windows_than_types_are_refused_by_the_setting_that_there_is() -> None:
    """Also before anything is encoded."""
    matcher, video = tcd(max_frames=3), read_videos(videos((1, 2, 1, 2, 1), dtype=torch.float64), (2, 5, 1, 1, 1))
    for refuse in (
        lambda: matcher.encode_video(video),
        lambda: check_lengths(matcher, text_features(captions()), video_features(video)),
    ):
        with pytest.raises(UsageError, match=r"A clip has 5 on-screen windows, .* for 3 at most; .* max_frames=5 or"):
            refuse()


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
