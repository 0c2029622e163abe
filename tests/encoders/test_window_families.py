"""Dual towers on windows: features equal those of the maker's own steps and model in transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

from evenreel.encoders import load_encoder
from evenreel.encoders.encoder import TowerEncoder
from evenreel.encoders.families import FAMILIES
from evenreel.errors import EncoderError, UsageError
from evenreel.types import FloatArray, Pixels
from tests.encoders.test_families import CAPTIONS, CLOSE, noise, unit
from tests.tiny_checkpoints import SIDE
from tests.tiny_families import settings_of, tiny_pe_video, tiny_videoprism, tiny_x_clip

FRAMES = {"videoprism": 4, "xclip": 4, "pe_video": 16, "pe_audio_video": 16}
BUILDERS: dict[str, Callable[[Path], Path]] = {
    "videoprism": tiny_videoprism,
    "xclip": tiny_x_clip,
    "pe_video": tiny_pe_video,
    "pe_audio_video": partial(tiny_pe_video, kind="pe_audio_video"),
}
STEPS = {  # of processors that need torchvision, done with Pillow and NumPy: filter, mean, deviation
    "videoprism": (Image.Resampling.BICUBIC, 0.0, 1.0),
    "pe_video": (Image.Resampling.BILINEAR, 0.5, 0.5),
    "pe_audio_video": (Image.Resampling.BILINEAR, 0.5, 0.5),
}


class WindowPipeline:
    """The maker's model, one window and one caption at a time."""

    def __init__(self, folder: Path, family: str) -> None:
        self.family, self.folder = family, folder
        known = FAMILIES[family]
        if family == "pe_audio_video":
            self.model = pe_audio_video(folder).eval()
        else:
            name = known.model or f"{known.classes}Model"
            self.model = getattr(transformers, name).from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def pixels(self, window: Pixels) -> dict[str, torch.Tensor]:
        pictures = [Image.fromarray(frame.transpose(1, 2, 0)) for frame in window]
        if self.family == "xclip":
            images = transformers.VideoMAEImageProcessorPil(**settings_of(self.folder))
            return dict(transformers.XCLIPProcessor(images, self.tokenizer)(videos=pictures, return_tensors="pt"))
        filter_, mean, deviation = STEPS[self.family]
        resized = [np.asarray(picture.resize((SIDE, SIDE), filter_), np.float32) / 255 for picture in pictures]
        values = (np.stack(resized).transpose(0, 3, 1, 2) - mean) / deviation
        return {"pixel_values_videos": torch.from_numpy(values.astype(np.float32))[None]}

    def words(self, caption: str) -> dict[str, torch.Tensor]:
        form = {"padding": "max_length", "max_length": 64} if self.family == "videoprism" else {"padding": True}
        options: dict[str, Any] = {**form, "truncation": True, "return_tensors": "pt"}
        inputs = self.tokenizer([caption], **options)
        return {name: inputs[name] for name in ("input_ids", "attention_mask")}

    @torch.no_grad()
    def both(self, window: Pixels, caption: str) -> tuple[FloatArray, FloatArray]:
        """Vectors of a window and of a caption."""
        pixels, words = self.pixels(window), self.words(caption)
        if self.family.startswith("pe"):  # its methods for one side cannot be called in transformers 5.23
            output = getattr(self.model, "video_model", self.model)(**pixels, **words)
            return unit(output.video_embeds[0]), unit(output.text_video_embeds[0])
        video = self.model.get_video_features(**pixels).pooler_output.flatten()
        return unit(video), unit(self.model.get_text_features(**words).pooler_output[0])


def pe_audio_video(folder: Path) -> Any:
    """A PE-AV with its weights; its own way to read them, in transformers 5.23, trips over a buffer of timm's tower."""
    model = transformers.PeAudioVideoModel(transformers.PeAudioVideoConfig.from_pretrained(folder))
    model.video_model.text_model = model.text_model  # one tower, as its list of tied weights has it
    missing = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False).missing_keys
    assert not [name for name in missing if name.startswith("video_model.") and "text_model" not in name]
    assert not [name for name in missing if name.startswith("text_model.")]
    return model


@pytest.fixture(scope="module", params=sorted(BUILDERS))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TowerEncoder, WindowPipeline]:
    family = str(request.param)
    if family.startswith("pe"):
        pytest.importorskip("timm", reason="the picture tower of PE-Video is timm's")
    folder = BUILDERS[family](tmp_path_factory.mktemp("windows") / family)
    return load_encoder(str(folder), device="cpu"), WindowPipeline(folder, family)


def window_of(frames: int, height: int, width: int) -> Pixels:
    return np.stack([np.roll(noise(height, width), 3 * number, axis=2) // (1 + number % 3) for number in range(frames)])


def test_windows_and_captions_equal_those_of_the_maker(both: tuple[TowerEncoder, WindowPipeline]) -> None:
    encoder, pipeline = both
    frames = FRAMES[pipeline.family]
    assert encoder.window.frames == frames
    shapes = [(SIDE, SIDE), (37, 53), (61, 40), (7, 3), (16, 90), (1, 1)]
    for shape, caption in zip(shapes, CAPTIONS, strict=True):
        window = window_of(frames, *shape)
        video, sentence = pipeline.both(window, caption)
        assert encoder.encode_windows(window[None])[0] @ video > CLOSE, shape
        assert encoder.encode_text([caption]).sentence[0] @ sentence > CLOSE, caption
        assert sentence.shape == video.shape == (encoder.dimension,)


def test_the_order_of_frames_and_of_channels_counts(both: tuple[TowerEncoder, WindowPipeline]) -> None:
    encoder, pipeline = both
    window = window_of(FRAMES[pipeline.family], 37, 53)
    changed = [np.ascontiguousarray(part) for part in (window[::-1], window[:, ::-1])]
    straight, *others = encoder.encode_windows(np.stack([window, *changed]))
    for vector, part in zip(others, changed, strict=True):
        assert vector @ pipeline.both(part, "a")[0] > CLOSE
        assert straight @ vector < CLOSE


def test_a_picture_is_a_still_video(both: tuple[TowerEncoder, WindowPipeline]) -> None:
    encoder, pipeline = both
    picture = noise(37, 53)
    still = np.stack([picture] * FRAMES[pipeline.family])
    assert encoder.encode_windows(picture[None, None])[0] @ pipeline.both(still, "a")[0] > CLOSE


def test_padding_does_not_change_a_caption(both: tuple[TowerEncoder, WindowPipeline]) -> None:
    encoder, _ = both
    together = encoder.encode_text(CAPTIONS)
    assert together.words.shape[2] == encoder.dimension
    for row, caption in enumerate(CAPTIONS):
        alone = encoder.encode_text([caption]).sentence[0]
        np.testing.assert_allclose(together.sentence[row], alone, atol=2e-5)


def test_windows_of_another_length_are_refused(both: tuple[TowerEncoder, WindowPipeline]) -> None:
    encoder, _ = both
    sentence = f"takes windows of {encoder.window.frames} frames, or single pictures, and these have 3; where a clip"
    with pytest.raises(UsageError, match=sentence):
        encoder.encode_windows(window_of(3, 9, 9)[None])


def test_loading_pe_video_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("timm", reason="the picture tower of PE-Video is timm's")
    folder = tiny_pe_video(tmp_path / "pe")
    capsys.readouterr()
    load_encoder(str(folder))
    assert capsys.readouterr() == ("", "")


def test_a_processor_of_another_size_than_the_tower_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("timm", reason="the picture tower of PE-Video is timm's")
    folder = tiny_pe_video(tmp_path / "pe")
    settings = folder / "video_preprocessor_config.json"
    settings.write_text(settings.read_text().replace(f'"height": {SIDE}', '"height": 64'))
    with pytest.raises(EncoderError, match=r"makes pictures of \(64, 32\), its tower takes 32 x 32"):
        load_encoder(str(folder))


@pytest.mark.skipif(importlib.util.find_spec("timm") is not None, reason="timm is installed")
def test_pe_video_without_timm_says_what_is_missing(tmp_path: Path) -> None:
    folder = tiny_videoprism(tmp_path / "pe")
    (folder / "config.json").write_text('{"model_type": "pe_video"}')
    with pytest.raises(EncoderError, match="is one of timm, and timm is not installed; see docs/encoders.md"):
        load_encoder(str(folder))
