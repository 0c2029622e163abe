"""Models as their makers' pages use them, one picture, window and caption at a time: what every parity expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from evenreel.types import FloatArray, Pixels
from tests.tiny_checkpoints import SIDE, tiny_clip, tiny_siglip, tiny_siglip2
from tests.tiny_embedders import tiny_embedding_gemma, tiny_qwen_embedding
from tests.tiny_families import PICTURE_FAMILIES, tiny_videoprism, tiny_x_clip

CLOSE = 0.9999
CAPTIONS = ["a red ball", "The DOG runs over a Bridge!", "红球 狗", "", "ball " * 100, "a"]
SHAPES = [(SIDE, SIDE), (37, 53), (61, 40), (16, 90), (7, 3), (1, 1)]
PICTURES: dict[str, Callable[[Path], Path]] = {
    **PICTURE_FAMILIES,
    "clip": tiny_clip,
    "siglip": tiny_siglip,
    "siglip of version 2": tiny_siglip2,
}
WINDOWS: dict[str, Callable[[Path], Path]] = {"videoprism": tiny_videoprism, "xclip": tiny_x_clip}
EMBEDDERS: dict[str, Callable[[Path], Path]] = {
    "embedding_gemma2": tiny_embedding_gemma,
    "qwen3_vl": tiny_qwen_embedding,
}
PROCESSORS = {
    "clip": "CLIPImageProcessorPil",
    "siglip": "SiglipImageProcessorPil",
    "siglip of version 2": "SiglipImageProcessorPil",
    "siglip2": "Siglip2ImageProcessorPil",
    "metaclip_2": "CLIPImageProcessorPil",
    "align": "EfficientNetImageProcessorPil",
    "altclip": "CLIPImageProcessorPil",
    "chinese_clip": "ChineseCLIPImageProcessorPil",
    "xclip": "VideoMAEImageProcessorPil",
}
"""Those of TIPSv2 and VideoPrism need torchvision: their steps are done with Pillow and NumPy below."""
FILLED = {"siglip": 64, "siglip of version 2": 64, "siglip2": 64, "tipsv2": 64, "align": 64, "videoprism": 64}
"""Families whose captions are filled up to a length; those of others are padded as far as the longest."""
QWEN_TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{% for part in turn.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""Turns as the technical report has them (arXiv 2601.04720, section 3.1)."""


def unit(row: torch.Tensor) -> FloatArray:
    return np.asarray(row / row.norm(), dtype=np.float32)


def noise(height: int, width: int) -> Pixels:
    """A picture of noise whose channels have means of their own."""
    values = np.random.default_rng(height * width).integers(0, 120, (3, height, width))
    return (values + np.array([130, 60, 0])[:, None, None]).astype(np.uint8)


def picture_of(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))


class Maker:
    """A dual tower of transformers."""

    def __init__(self, folder: Path, family: str) -> None:
        self.family, self.model = family, transformers.AutoModel.from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.processor = None
        if family in PROCESSORS:
            settings = json.loads((folder / "preprocessor_config.json").read_text())
            settings.pop("image_processor_type")
            self.processor = getattr(transformers, PROCESSORS[family])(**settings)

    def tokens(self, caption: str) -> dict[str, Any]:
        longest = FILLED.get(self.family)
        form = {"padding": "max_length", "max_length": longest} if longest else {"padding": True}
        text = caption.lower() if self.family == "siglip of version 2" else caption
        return dict(self.tokenizer([text], truncation=True, return_tensors="pt", **form))

    @torch.no_grad()
    def sentence(self, caption: str) -> FloatArray:
        return unit(self.model.get_text_features(**self.tokens(caption)).pooler_output[0])

    @torch.no_grad()
    def picture(self, pixels: Pixels) -> FloatArray:
        if self.processor is not None:
            inputs = dict(self.processor(images=picture_of(pixels), return_tensors="pt"))
        else:
            resized = np.asarray(picture_of(pixels).resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) / 255
            inputs = {"pixel_values": torch.from_numpy(resized.transpose(2, 0, 1))[None]}
        return unit(self.model.get_image_features(**inputs).pooler_output[0])

    @torch.no_grad()
    def window(self, window: Pixels) -> FloatArray:
        pictures = [picture_of(frame) for frame in window]
        if self.processor is not None:
            inputs = dict(
                transformers.XCLIPProcessor(self.processor, self.tokenizer)(videos=pictures, return_tensors="pt")
            )
        else:
            resized = [np.asarray(one.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) for one in pictures]
            inputs = {"pixel_values_videos": torch.from_numpy(np.stack(resized).transpose(0, 3, 1, 2) / 255)[None]}
        return unit(self.model.get_video_features(**inputs).pooler_output.flatten())


class Unused:
    """In the place of the processors of sound and videos, which need torchvision and get nothing here."""

    model_input_names: tuple[str, ...] = ()


class GemmaProcessor(transformers.EmbeddingGemma2Processor):  # type: ignore[misc]
    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> type:
        return type(argument)


class QwenProcessor(transformers.Qwen3VLProcessor):  # type: ignore[misc]
    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> type:
        return type(argument)


class GemmaMaker:
    """EmbeddingGemma 2 as sentence-transformers runs it: the mean of all tokens."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.EmbeddingGemma2Model.from_pretrained(folder).eval()
        images = transformers.Gemma4ImageProcessorPil(patch_size=4, max_soft_tokens=70)
        self.processor = GemmaProcessor(
            feature_extractor=Unused(),
            image_processor=images,
            tokenizer=transformers.AutoTokenizer.from_pretrained(folder),
            video_processor=Unused(),
        )

    def picture(self, pixels: Pixels) -> FloatArray:
        return self._vector(self.processor(images=[picture_of(pixels)], return_tensors="pt"))

    def sentence(self, caption: str) -> FloatArray:
        return self._vector(self.processor(text=[f"task: search result | query: {caption}"], return_tensors="pt"))

    @torch.no_grad()
    def _vector(self, inputs: Any) -> FloatArray:
        states = self.model(**inputs).last_hidden_state[0]
        return unit(states[inputs["attention_mask"][0].bool()].mean(0))


class QwenMaker:
    """Qwen3-VL-Embedding as its script `qwen3_vl_embedding.py` runs it: resized first, then the last token."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.Qwen3VLForConditionalGeneration.from_pretrained(folder).eval().model
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        images = transformers.Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.processor = QwenProcessor(images, tokenizer, Unused(), chat_template=QWEN_TEMPLATE)

    def picture(self, pixels: Pixels) -> FloatArray:
        height, width = smart_resize(*pixels.shape[1:], factor=32, min_pixels=4096, max_pixels=1_843_200)
        picture = picture_of(pixels).resize((width, height))
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


def maker(folder: Path, family: str) -> Any:
    special: dict[str, Any] = {"embedding_gemma2": GemmaMaker, "qwen3_vl": QwenMaker}
    return special[family](folder) if family in special else Maker(folder, family)
