"""Features without a file: those of the frames and captions one by one, and of the words on the signs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.media import open_video, parse_rule
from evenreel.planted import (
    PlantSettings,
    SceneRanges,
    SignBoard,
    draw_frame,
    plan_corpus,
    text_features,
    video_features,
    write_scene,
)
from evenreel.planted.features import frame_times, words_read
from evenreel.types import Encoder

SETTINGS = PlantSettings(SceneRanges(duration_s=(0.5, 1.5), sign_share=0.0, width=64, height=64))


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("builtin")


def test_frames_are_those_of_the_clip_and_padding_is_zero(encoder: Encoder) -> None:
    clips = plan_corpus("visual", 0.9, 20, settings=SETTINGS).clips[:4]
    found = video_features(clips, encoder, "every 0.25 s")
    assert found.ids == tuple(clip.clip_id for clip in clips)
    for v, clip in enumerate(clips):
        times = [k / 4 for k in range(10) if k / 4 < clip.scene.frame_count / clip.scene.fps]
        assert found.times_s[v][found.frame_mask[v]].tolist() == times
        pixels = np.stack([draw_frame(clip.scene, time_s).transpose(2, 0, 1) for time_s in times])
        assert np.allclose(found.frames[v][found.frame_mask[v]], encoder.encode_windows(pixels[:, None]), atol=2e-3)
        assert not found.frames[v][~found.frame_mask[v]].any()
    assert found.on_screen is None


@pytest.mark.parametrize("rule", ["12 midpoints", "5 midpoints", "every 0.3 s", "x_pool 6"])
def test_the_frames_are_those_that_would_be_read_from_the_file(rule: str, tmp_path: Path) -> None:
    scene = plan_corpus("visual", 0.0, 20, settings=SETTINGS).clips[0].scene
    path = tmp_path / "clip.mp4"
    write_scene(path, scene)
    with open_video(path) as video:
        read = [frame.time_s for frame in video.frames(parse_rule(rule))]
    found = frame_times(scene, rule)
    assert len(found) == len(read)
    # a header rounds the length to a millisecond, which moves a moment on the edge of two frames to the one before
    tolerance = 1 / scene.fps if "midpoints" in rule else 0
    assert np.abs(found - read).max() < tolerance + 1e-6


def test_captions_are_in_order_and_each_as_if_alone(encoder: Encoder) -> None:
    clips = plan_corpus("textual", 0.9, 20, settings=SETTINGS).clips[:5]
    found = text_features(clips, encoder)
    texts = [caption.text for clip in clips for caption in clip.shot.captions]
    assert found.ids == tuple(f"{clip.clip_id}#{n}" for clip in clips for n in range(2))
    for row, text in enumerate(texts):
        alone = encoder.encode_text([text])
        assert found.word_mask[row].sum() == alone.word_mask.sum()
        assert np.allclose(found.sentence[row], alone.sentence[0], atol=1e-4)
        length = int(alone.word_mask.sum())
        assert np.allclose(found.words[row, :length], alone.words[0, :length], atol=1e-2)


def test_windows_hold_the_words_of_their_moment(encoder: Encoder) -> None:
    clip = plan_corpus("scene_text", 1.0, 40, settings=SETTINGS).clips[0]
    scene = replace(
        clip.scene, duration_s=2.0, signs=(SignBoard("TAXI", end_s=1.0), SignBoard("HOTEL", y=0.2, start_s=0.5))
    )
    both = replace(clip, shot=replace(clip.shot, scene=scene))
    assert [words_read(both, t) for t in (0.0, 0.5, 1.0)] == [("TAXI",), ("TAXI", "HOTEL"), ("HOTEL",)]
    scene = replace(scene, signs=(SignBoard("TAXI", end_s=1.0),))
    found = video_features([replace(clip, shot=replace(clip.shot, scene=scene))], encoder, "4 midpoints")
    assert found.on_screen is not None
    assert found.on_screen.mask.tolist() == [[True, True, False, False]]
    assert found.on_screen.confidence is not None and found.on_screen.confidence.tolist() == [[1.0, 1.0, 0.0, 0.0]]
    expected = encoder.encode_text(["There are scene texts: TAXI in this frame."]).sentence[0]
    assert np.allclose(found.on_screen.windows[0, 0], expected, atol=1e-3)
    assert not found.on_screen.windows[0, 2:].any()


def test_a_sign_that_no_frame_shows_leaves_windows_without_text(encoder: Encoder) -> None:
    clip = plan_corpus("visual", 0.5, 20, settings=SETTINGS).clips[0]
    scene = replace(clip.scene, duration_s=2.0, signs=(SignBoard("TAXI", start_s=1.1, end_s=1.2),))
    found = video_features([replace(clip, shot=replace(clip.shot, scene=scene))], encoder, "2 midpoints")
    assert found.on_screen is not None
    assert found.on_screen.windows.shape == found.frames.shape and not found.on_screen.mask.any()


def test_no_clips_are_refused_in_a_sentence(encoder: Encoder) -> None:
    for features in (video_features, text_features):
        with pytest.raises(UsageError, match="no clips to compute features of"):
            features([], encoder)


def test_progress_ends_at_one(encoder: Encoder) -> None:
    shares: list[float] = []
    clips = plan_corpus("visual", 0.9, 20, settings=SETTINGS).clips[:2]
    video_features(clips, encoder, "2 midpoints", progress=shares.append)
    assert shares[-1] == 1.0
