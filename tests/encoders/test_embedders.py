"""Embedders with instructions: features equal those of the maker's own processor, tokenizer and model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.encoder import TowerEncoder
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels
from tests.encoders.test_families import CAPTIONS, CLOSE, noise, unit
from tests.tiny_embedders import tiny_embedding_gemma, tiny_qwen_embedding

BUILDERS: dict[str, Callable[[Path], Path]] = {
    "embedding_gemma2": tiny_embedding_gemma,
    "qwen3_vl": tiny_qwen_embedding,
}
SHAPES = [(37, 53), (61, 40), (16, 90), (90, 16), (200, 333), (1080, 1920)]
QWEN_TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{% for part in turn.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""Turns as the technical report has them (arXiv 2601.04720, section 3.1)."""


class Unused:
    """In the place of the processors of sound and videos, which need torchvision and get nothing here."""

    model_input_names: tuple[str, ...] = ()


class GemmaProcessor(transformers.EmbeddingGemma2Processor):  # type: ignore[misc]
    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> type:
        return type(argument)


class QwenProcessor(transformers.Qwen3VLProcessor):  # type: ignore[misc]
    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> type:
        return type(argument)


class GemmaPipeline:
    """EmbeddingGemma 2 as sentence-transformers runs it: the mean of all tokens."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.EmbeddingGemma2Model.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        images = transformers.Gemma4ImageProcessorPil(patch_size=4, max_soft_tokens=70)
        self.processor = GemmaProcessor(
            feature_extractor=Unused(), image_processor=images, tokenizer=tokenizer, video_processor=Unused()
        )

    def picture(self, pixels: Pixels) -> FloatArray:
        picture = Image.fromarray(pixels.transpose(1, 2, 0))
        return self._vector(self.processor(images=[picture], return_tensors="pt"))

    def sentence(self, caption: str) -> FloatArray:
        return self._vector(self.processor(text=[f"task: search result | query: {caption}"], return_tensors="pt"))

    @torch.no_grad()
    def _vector(self, inputs: Any) -> FloatArray:
        states = self.model(**inputs).last_hidden_state[0]
        return unit(states[inputs["attention_mask"][0].bool()].mean(0))


class QwenPipeline:
    """Qwen3-VL-Embedding as its script `qwen3_vl_embedding.py` runs it: resized first, then the last token."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.Qwen3VLForConditionalGeneration.from_pretrained(folder).eval().model
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        images = transformers.Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.processor = QwenProcessor(images, tokenizer, Unused(), chat_template=QWEN_TEMPLATE)

    def picture(self, pixels: Pixels) -> FloatArray:
        height, width = smart_resize(*pixels.shape[1:], factor=32, min_pixels=4096, max_pixels=1_843_200)
        picture = Image.fromarray(pixels.transpose(1, 2, 0)).resize((width, height))
        return self._vector("Represent the user's input.", {"type": "image"}, images=[picture])

    def sentence(self, caption: str) -> FloatArray:
        instruction = "Retrieve images or text relevant to the user's query."
        return self._vector(instruction, {"type": "text", "text": caption or "NULL"})

    @torch.no_grad()
    def _vector(self, instruction: str, content: dict[str, str], **given: Any) -> FloatArray:
        turns = [
            {"role": "system", "content": [{"type": "text", "text": instruction}]},
            {"role": "user", "content": [content]},
        ]
        text = self.processor.apply_chat_template([turns], add_generation_prompt=True, tokenize=False)
        inputs = self.processor(text=text, padding=True, do_resize=False, return_tensors="pt", **given)
        return unit(self.model(**inputs).last_hidden_state[0, -1])


PIPELINES = {"embedding_gemma2": GemmaPipeline, "qwen3_vl": QwenPipeline}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("embedders")
    return {family: build(root / family) for family, build in BUILDERS.items()}


@pytest.fixture(scope="module", params=sorted(BUILDERS))
def both(request: pytest.FixtureRequest, folders: dict[str, Path]) -> tuple[TowerEncoder, Any]:
    family = str(request.param)
    return load_encoder(str(folders[family]), device="cpu"), PIPELINES[family](folders[family])


def test_pictures_of_odd_sizes_equal_those_of_the_maker(both: tuple[TowerEncoder, Any]) -> None:
    encoder, pipeline = both
    for shape in SHAPES:
        pixels = noise(*shape)
        assert encoder.encode_windows(pixels[None, None])[0] @ pipeline.picture(pixels) > CLOSE, shape


def test_channels_keep_their_order(both: tuple[TowerEncoder, Any]) -> None:
    encoder, pipeline = both
    pixels = noise(37, 53)
    straight, swapped = encoder.encode_windows(np.stack([pixels, pixels[::-1]])[:, None])
    assert swapped @ pipeline.picture(np.ascontiguousarray(pixels[::-1])) > CLOSE
    assert straight @ swapped < CLOSE  # else the test could not tell


def test_captions_equal_those_of_the_maker(both: tuple[TowerEncoder, Any]) -> None:
    encoder, pipeline = both
    for caption in [*CAPTIONS, "a {red} ball\n"]:
        assert encoder.encode_text([caption]).sentence[0] @ pipeline.sentence(caption) > CLOSE, caption
    first, capital = encoder.encode_text(["a red ball", "A Red Ball"]).sentence
    assert first @ capital < CLOSE  # else the test could not tell


def test_padding_does_not_change_a_caption(both: tuple[TowerEncoder, Any]) -> None:
    encoder, _ = both
    together = encoder.encode_text(CAPTIONS)
    for row, caption in enumerate(CAPTIONS):
        alone = encoder.encode_text([caption])
        np.testing.assert_allclose(together.sentence[row], alone.sentence[0], atol=2e-6)
        mask = together.word_mask[row]
        np.testing.assert_allclose(together.words[row, mask], alone.words[0, alone.word_mask[0]], atol=2e-4)
        assert not together.words[row, ~mask].any()


def test_an_instruction_is_none_of_the_words(folders: dict[str, Path]) -> None:
    """A letter is a token there; after the caption comes the end mark, or `<|im_end|> newline <|im_start|> ...`."""
    for family, after in {"embedding_gemma2": 1, "qwen3_vl": 3 + len("assistant\n")}.items():
        encoder = load_encoder(str(folders[family]), device="cpu")
        assert encoder.encode_text(["ball"]).words.shape == (1, 4 + after, encoder.dimension)


def test_a_batch_of_pictures_is_encoded_as_each_alone(both: tuple[TowerEncoder, Any]) -> None:
    encoder, _ = both
    pictures = np.stack([noise(40, 70), np.flip(noise(40, 70), 2)])[:, None]
    alone = np.concatenate([encoder.encode_windows(picture[None]) for picture in pictures])
    np.testing.assert_allclose(encoder.encode_windows(pictures), alone, atol=2e-6)
    assert alone[0] @ alone[1] < CLOSE


def test_strips_get_sizes_of_whole_blocks_within_the_limits(folders: dict[str, Path]) -> None:
    """Sides below half a block, where the makers' two resizers differ or refuse; Gemma's is compared as it is."""
    from transformers.models.gemma4.image_processing_pil_gemma4 import get_aspect_ratio_preserving_size

    gemma, qwen = (open_checkpoint(folders[family]).preprocessing for family in BUILDERS)
    for shape in [(1, 1), (1, 400), (400, 1), (3, 1000), (5, 7)]:
        expected = get_aspect_ratio_preserving_size(*shape, patch_size=4, max_patches=630, pooling_kernel_size=3)
        assert gemma.target_size(*shape) == expected, shape
        height, width = qwen.target_size(*shape)
        assert height % 32 == width % 32 == 0
        assert 4 * 1024 <= height * width <= 1800 * 1024


def test_long_captions_are_cut_and_said_to_be(tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_qwen_embedding(tmp_path / "short", longest=120)), device="cpu")
    assert encoder.truncated(["a", "ball " * 60]) == [False, True]
    assert np.isfinite(encoder.encode_text(["ball " * 60]).sentence).all()


def test_what_is_heard_is_left_in_the_file(tmp_path: Path) -> None:
    folder = tiny_embedding_gemma(tmp_path / "gemma", sound=True)
    encoder, pipeline = load_encoder(str(folder), device="cpu"), GemmaPipeline(folder)
    assert encoder.encode_text(["a red ball"]).sentence[0] @ pipeline.sentence("a red ball") > CLOSE


def test_a_chat_model_of_the_same_kind_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "chat"))
    shutil.rmtree(folder / "1_Pooling")
    with pytest.raises(EncoderError, match=r"has no 1_Pooling/config\.json, .* it is a chat model of the same kind"):
        load_encoder(str(folder))


def test_a_processor_with_other_blocks_than_the_tower_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "other"))
    settings = folder / "preprocessor_config.json"
    settings.write_text(settings.read_text().replace('"merge_size": 2', '"merge_size": 1'))
    with pytest.raises(EncoderError, match="makes patches of 16 in blocks of 1, its tower takes patches of 16 in"):
        load_encoder(str(folder))


def test_a_tokenizer_without_the_token_of_pictures_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "other"))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"image_token_id": 261', '"image_token_id": 7'))
    with pytest.raises(EncoderError, match="do not belong together: <|image_pad|> is not the token of pictures there"):
        load_encoder(str(folder)).encode_windows(noise(40, 40)[None, None])


def test_the_instructions_are_part_of_the_hash(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from evenreel.encoders import families

    before = open_checkpoint(folders["qwen3_vl"]).digest()
    known = families.FAMILIES["qwen3_vl"]
    assert known.instructions is not None
    other = replace(known, instructions=replace(known.instructions, caption="{}"))
    monkeypatch.setitem(families.FAMILIES, "qwen3_vl", other)  # type: ignore[arg-type]
    assert open_checkpoint(folders["qwen3_vl"]).digest() != before
