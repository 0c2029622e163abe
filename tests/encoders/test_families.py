"""Dual towers on pictures: features equal those of the maker's own processor, tokenizer and model in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from evenreel.encoders import load_encoder
from evenreel.encoders.encoder import TowerEncoder
from evenreel.encoders.families import FAMILIES
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels
from tests.tiny_checkpoints import SIDE
from tests.tiny_families import PICTURE_FAMILIES, gemma_tokenizer, settings_of, tiny_siglip2_with_capitals

CLOSE = 0.9999
SHAPES = [(SIDE, SIDE), (37, 53), (61, 40), (16, 90), (7, 3), (1, 1)]
CAPTIONS = ["a red ball", "The DOG runs over a Bridge!", "红球 狗", "", "ball " * 100, "a"]
PROCESSORS = {
    "siglip2": ("Siglip2Processor", "Siglip2ImageProcessorPil"),
    "metaclip_2": ("CLIPProcessor", "CLIPImageProcessorPil"),
    "align": ("AlignProcessor", "EfficientNetImageProcessorPil"),
    "altclip": ("AltCLIPProcessor", "CLIPImageProcessorPil"),
    "chinese_clip": ("ChineseCLIPProcessor", "ChineseCLIPImageProcessorPil"),
}
FORMS: dict[str, dict[str, Any]] = {
    "siglip2": {},
    "tipsv2": {"padding": "max_length", "max_length": 64},
    "align": {"padding": "max_length", "max_length": 64},
}
"""How a processor calls its tokenizer; the others are called with `padding=True`, as their pages in transformers do."""


class Pipeline:
    """The maker's pipeline as its page in transformers uses it, one picture and one caption at a time."""

    def __init__(self, folder: Path, family: str) -> None:
        self.family = family
        self.model = getattr(transformers, f"{FAMILIES[family].classes}Model").from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.processor = None
        if family in PROCESSORS:  # TIPSv2's needs torchvision: its steps are done with Pillow and numpy below
            whole, images = (getattr(transformers, name) for name in PROCESSORS[family])
            self.processor = whole(images(**settings_of(folder)), self.tokenizer)
            self.options = {} if family != "siglip2" else {"patch_size": 8, "max_num_patches": 20}

    @torch.no_grad()
    def picture(self, pixels: Pixels) -> FloatArray:
        picture = Image.fromarray(pixels.transpose(1, 2, 0))
        if self.processor is None:
            resized = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) / 255
            inputs = {"pixel_values": torch.from_numpy(resized.transpose(2, 0, 1))[None]}
        else:
            inputs = dict(self.processor(images=picture, return_tensors="pt", **self.options))
        return unit(self.model.get_image_features(**inputs).pooler_output[0])

    @torch.no_grad()
    def sentence(self, caption: str) -> FloatArray:
        form = FORMS.get(self.family, {"padding": True})
        reader = self.tokenizer if self.processor is None else self.processor
        inputs = reader(text=[caption], truncation=True, return_tensors="pt", **form)
        return unit(self.model.get_text_features(**inputs).pooler_output[0])


def unit(row: torch.Tensor) -> FloatArray:
    return np.asarray(row / row.norm(), dtype=np.float32)


def noise(height: int, width: int) -> Pixels:
    """A picture of noise whose channels have means of their own."""
    values = np.random.default_rng(height * width).integers(0, 120, (3, height, width))
    return (values + np.array([130, 60, 0])[:, None, None]).astype(np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: build(root / family) for family, build in PICTURE_FAMILIES.items()}


@pytest.fixture(scope="module", params=sorted(PICTURE_FAMILIES))
def both(request: pytest.FixtureRequest, folders: dict[str, Path]) -> tuple[TowerEncoder, Pipeline]:
    family = str(request.param)
    return load_encoder(str(folders[family]), device="cpu"), Pipeline(folders[family], family)


def test_pictures_of_odd_sizes_equal_those_of_the_maker(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, pipeline = both
    for shape in SHAPES:
        pixels = noise(*shape)
        assert encoder.encode_windows(pixels[None, None])[0] @ pipeline.picture(pixels) > CLOSE, shape


def test_channels_keep_their_order(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, pipeline = both
    pixels = noise(37, 53)
    straight, swapped = encoder.encode_windows(np.stack([pixels, pixels[::-1]])[:, None])
    assert swapped @ pipeline.picture(np.ascontiguousarray(pixels[::-1])) > CLOSE
    assert straight @ swapped < 0.99  # else the test could not tell


def test_captions_equal_those_of_the_maker(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, pipeline = both
    for caption in CAPTIONS:
        if caption == "" and pipeline.family == "tipsv2":
            continue  # a mean of no words: the maker's vector is zero, and has no direction
        assert encoder.encode_text([caption]).sentence[0] @ pipeline.sentence(caption) > CLOSE, caption
    first, other = encoder.encode_text(CAPTIONS[:2]).sentence
    assert first @ other < 0.99  # else the test could not tell


def test_neither_batches_nor_padding_change_a_caption(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, _ = both
    together = encoder.encode_text(CAPTIONS)
    for row, caption in enumerate(CAPTIONS):
        alone = encoder.encode_text([caption])
        np.testing.assert_allclose(together.sentence[row], alone.sentence[0], atol=2e-6)
        mask, words = together.word_mask[row], together.words[row]
        np.testing.assert_allclose(words[mask], alone.words[0, alone.word_mask[0]], atol=2e-5)
        assert not words[~mask].any()


def test_long_captions_are_said_to_be_cut(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, _ = both
    assert encoder.truncated(["a", "ball " * 600]) == [False, True]


def test_vectors_of_words_and_pictures_have_one_length(both: tuple[TowerEncoder, Pipeline]) -> None:
    encoder, _ = both
    text = encoder.encode_text(["a red ball"])
    assert encoder.encode_windows(noise(9, 9)[None, None]).shape == (1, encoder.dimension) == text.sentence.shape
    assert text.words.shape[2] == encoder.dimension


def test_siglip_2_that_calls_itself_siglip_reads_capitals_as_it_was_trained(tmp_path: Path) -> None:
    folder = tiny_siglip2_with_capitals(tmp_path / "siglip")
    as_named = transformers.AutoTokenizer.from_pretrained(folder)
    assert as_named("A Red Car")["input_ids"] != as_named("a red car")["input_ids"]  # the trap
    encoder = load_encoder(str(folder), device="cpu")
    captions = ["A Red Car", "a red car", "B" * 100]
    vectors = encoder.encode_text(captions).sentence
    assert vectors[0].tobytes() == vectors[1].tobytes()
    model = transformers.SiglipModel.from_pretrained(folder).eval()
    form: dict[str, Any] = {"padding": "max_length", "max_length": 64, "truncation": True, "return_tensors": "pt"}
    with torch.no_grad():
        for caption, vector in zip(captions, vectors, strict=True):
            inputs = gemma_tokenizer("Siglip2Tokenizer")([caption], **form)
            assert inputs["input_ids"].shape == (1, 64)
            assert unit(model.get_text_features(**inputs).pooler_output[0]) @ vector > CLOSE


def test_patches_of_another_size_than_the_tower_takes_are_refused(tmp_path: Path) -> None:
    folder = PICTURE_FAMILIES["siglip2"](tmp_path / "siglip2")
    settings = (folder / "preprocessor_config.json").read_text()
    (folder / "preprocessor_config.json").write_text(settings.replace('"patch_size": 8', '"patch_size": 16'))
    with pytest.raises(EncoderError, match="makes patches of 16, its tower takes patches of 8"):
        load_encoder(str(folder))
