"""Model of sounds: CLAP's towers for windows of sound and for sentences, through transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenreel.encoders.checkpoint import plain_config, read_settings, weight_names
from evenreel.errors import EncoderError
from evenreel.sound.windows import SoundWindows
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

WINDOWS_AT_ONCE = 8
CAPTIONS_AT_ONCE = 64


class SoundEncoder:
    """CLAP in a folder: sound and sentences become vectors of one space; made by `load_sound_encoder`.

    Attributes:
        encoder_id: name it can be loaded by again.
        weights_hash: SHA-256 of its weights and settings.
        dimension: D, the length of a vector.
        windows: windows of sound that it takes, with a hop of half their length.
        window: rule of a picture, which it does not take.

    Raises:
        EncoderError: weights are missing, or its processor makes no windows that can be used.
    """

    window = WindowRule()

    def __init__(
        self, folder: Path, encoder_id: str, weights_hash: str, device: torch.device, precision: str = "float32"
    ) -> None:
        from transformers import ClapProcessor

        self.encoder_id, self.weights_hash = encoder_id, weights_hash
        self._device, self._dtype = device, getattr(torch, precision)
        self._model = _load(folder, self._dtype).to(device).eval().requires_grad_(False)
        processor = ClapProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        self._extractor, self._tokenizer = processor.feature_extractor, processor.tokenizer
        self.dimension = int(self._model.config.projection_dim)
        rate, length = int(self._extractor.sampling_rate), int(self._extractor.nb_max_samples)
        if not 8_000 <= rate <= 192_000 or not rate <= length <= 60 * rate:
            raise EncoderError(
                f"The processor in {folder} takes windows of {length} samples at {rate} a second; windows of 1 to 60 s "
                "at 8,000 to 192,000 can be used."
            )
        self.windows = SoundWindows(rate, length, length // 2)
        positions = int(self._model.config.text_config.max_position_embeddings) - 2  # RoBERTa's begin behind padding
        self._longest = min(int(self._tokenizer.model_max_length), positions)

    def encode_sound(self, windows: Sequence[FloatArray]) -> FloatArray:
        """Encode windows of sound, each (N,) float32 at the model's rate and at most a window long: (W, D), unit rows.

        A shorter one is filled up as the model's processor does it.

        Raises:
            EncoderError: one is longer than a window, empty, or gives no vector.
        """
        if any(not 0 < len(samples) <= self.windows.length for samples in windows):
            raise EncoderError(f"A window of sound must have 1 to {self.windows.length} samples.")
        found = [
            self._encoded(windows[first : first + WINDOWS_AT_ONCE]) for first in range(0, len(windows), WINDOWS_AT_ONCE)
        ]
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *found])

    def _encoded(self, windows: Sequence[FloatArray]) -> FloatArray:
        made = self._extractor(list(windows), sampling_rate=self.windows.sample_rate, return_tensors="pt")
        with torch.inference_mode():
            found = self._model.get_audio_features(
                made["input_features"].to(self._device, self._dtype),
                # None is longer than a window; the processor of a fusing model calls a random one so.
                is_longer=torch.zeros((len(windows), 1), dtype=torch.bool, device=self._device),
            )
        return _units(found.pooler_output)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode sentences, cut at the model's limit; each counts as one word.

        Raises:
            EncoderError: one gives no vector.
        """
        found = [
            self._sentences(captions[first : first + CAPTIONS_AT_ONCE])
            for first in range(0, len(captions), CAPTIONS_AT_ONCE)
        ]
        sentence = np.concatenate([np.zeros((0, self.dimension), np.float32), *found])
        return TextEmbedding(sentence[:, None], np.ones((len(sentence), 1), np.bool_), sentence)

    def _sentences(self, captions: Sequence[str]) -> FloatArray:
        made = self._tokenizer(
            list(captions), padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        )
        with torch.inference_mode():
            found = self._model.get_text_features(
                input_ids=made["input_ids"].to(self._device), attention_mask=made["attention_mask"].to(self._device)
            )
        return _units(found.pooler_output)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each sentence whether it is longer than the model takes."""
        return [len(ids) > self._longest for ids in self._tokenizer(list(captions))["input_ids"]]

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Refuse pictures.

        Raises:
            EncoderError: always.
        """
        raise EncoderError(f"The model {self.encoder_id} hears sounds and sees no pictures.")


def _load(folder: Path, dtype: torch.dtype) -> Any:
    from safetensors.torch import load_file
    from transformers import ClapConfig, ClapModel

    config = ClapConfig.from_dict(plain_config(read_settings(folder / "config.json")))
    weights = {name: tensor for file in weight_names(folder) for name, tensor in load_file(folder / file).items()}
    model, report = ClapModel.from_pretrained(
        None,  # without a name transformers looks for nothing, neither on disk nor in the network
        config=config,
        state_dict=weights,
        dtype=dtype,
        output_loading_info=True,
    )
    missing = sorted(name for name in report["missing_keys"] if not name.endswith(("position_ids", "token_type_ids")))
    if missing:
        raise EncoderError(
            f"The weights in {folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
        )
    return model


def _units(rows: torch.Tensor) -> FloatArray:
    found: FloatArray = rows.float().cpu().numpy()
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    if not (lengths > 0).all() or not np.isfinite(lengths).all():
        raise EncoderError("The model of sounds gave a vector without a direction (zero, NaN or infinite).")
    return np.asarray(found / lengths, np.float32)
