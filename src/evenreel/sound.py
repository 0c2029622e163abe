"""What a clip sounds like: windows of its sound, and sentences about sounds, as vectors of one space by a CLAP model.

torch and transformers are imported where a model is loaded, so that whoever only reads sound needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenreel.config import AUTO, MediaLimits
from evenreel.encoders.checkpoint import Checkpoint, Family, open_checkpoint, read_settings
from evenreel.encoders.encoder import BatchedEncoder, TokenArray, garbage_left, of_model, quiet, unit_rows
from evenreel.encoders.loading import folder_here, locate
from evenreel.errors import EncoderError, MediaError
from evenreel.extras import installed, to_install
from evenreel.features.shards import ClipSounds
from evenreel.media.sound import SoundBlock, open_sound
from evenreel.media.workers import Message, Worker
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    import torch

WINDOWS_AT_ONCE = 8
SILENT = 1e-4  # loudest sample of what is silent: three steps of 16 bits
_FOLLOWS_S = 1e-3  # blocks that are no further apart are one sound
_CLAP = {"clap": Family("CLAP", processor=None, processor_part="feature_extractor")}


class SoundWindows(NamedTuple):
    sample_rate: int  # samples a second
    length: int  # samples of a window
    hop: int  # samples from the start of one to the start of the next


class SoundWindow(NamedTuple):
    start_s: float  # of the clip's own clock
    end_s: float
    samples: FloatArray  # (N,), mono, as many as a window has or fewer


def cut_windows(blocks: Iterable[SoundBlock], windows: SoundWindows) -> Iterator[SoundWindow]:
    """Yield the windows of a sound in rising time, at their sample rate; after a gap they begin anew.

    No more is held than a window and a block. The last window of a stretch ends where that does.
    """

    def window(samples: FloatArray) -> SoundWindow:
        return SoundWindow(start_s, start_s + len(samples) / windows.sample_rate, samples)

    held, start_s = np.zeros(0, np.float32), 0.0
    for block in blocks:
        if len(held) and abs(block.start_s - start_s - len(held) / windows.sample_rate) > _FOLLOWS_S:
            yield window(held)
            held = held[:0]
        if not len(held):
            start_s = block.start_s
        held = np.concatenate([held, block.samples])
        while len(held) > windows.length:  # more follows, so this one is not the last
            yield window(held[: windows.length])
            held, start_s = held[windows.hop :], start_s + windows.hop / windows.sample_rate
    if len(held):
        yield window(held)


class SoundEncoder(BatchedEncoder):
    """CLAP in a folder: sound and sentences become vectors of one space; made by `load_sound_encoder`."""

    def __init__(self, checkpoint: Checkpoint, encoder_id: str, device: torch.device, precision: str) -> None:
        import torch
        from transformers import ClapConfig, ClapProcessor

        from evenreel.encoders.towers import load_model

        super().__init__(checkpoint.folder, encoder_id, checkpoint.digest(), batch_size=64)
        self._device, self._dtype = device, getattr(torch, precision)
        config = ClapConfig.from_dict(dict(checkpoint.config))
        self._model = load_model(checkpoint, config, self._dtype).to(device).eval().requires_grad_(False)
        processor = ClapProcessor.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
        self._extractor, self._tokenizer = processor.feature_extractor, processor.tokenizer
        rate, length = int(self._extractor.sampling_rate), int(self._extractor.nb_max_samples)
        if not 8_000 <= rate <= 192_000 or not rate <= length <= 60 * rate:
            raise EncoderError(
                f"The processor in {checkpoint.folder} takes windows of {length} samples at {rate} a second; windows "
                "of 1 to 60 s at 8,000 to 192,000 can be used."
            )
        self.windows = SoundWindows(rate, length, length // 2)
        positions = int(config.text_config.max_position_embeddings) - 2  # RoBERTa's begin behind padding
        self._longest = min(int(self._tokenizer.model_max_length), positions)

    @property
    def dimension(self) -> int:
        return int(self._model.config.projection_dim)

    def encode_sound(self, windows: Sequence[FloatArray]) -> FloatArray:
        """Encode windows of sound, each (N,) at the model's rate, filled up by its own processor: (W, D), unit rows."""
        if any(not 0 < len(samples) <= self.windows.length for samples in windows):
            raise EncoderError(f"A window of sound must have 1 to {self.windows.length} samples.")
        import torch

        made = self._extractor(list(windows), sampling_rate=self.windows.sample_rate, return_tensors="pt")
        # None is longer than a window; the processor of a fusing model calls a random one so.
        longer = torch.zeros((len(windows), 1), dtype=torch.bool, device=self._device)
        with torch.inference_mode():
            features = made["input_features"].to(self._device, self._dtype)
            found = self._model.get_audio_features(features, is_longer=longer).pooler_output
        return unit_rows(found.float().cpu().numpy(), "window of sound")

    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, None]:
        import torch

        given = (torch.from_numpy(one).to(self._device) for one in (ids, mask))
        with torch.inference_mode():
            found = self._model.get_text_features(*given).pooler_output
        return found.float().cpu().numpy(), None

    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        made = self._tokenizer(
            list(captions), padding=True, truncation=True, max_length=self._longest, return_tensors="np"
        )
        return made["input_ids"], made["attention_mask"]

    def _cut(self, captions: Sequence[str]) -> list[bool]:
        return [len(ids) > self._longest for ids in self._tokenizer(list(captions))["input_ids"]]

    def _window_features(self, pixels: Pixels) -> FloatArray:
        raise EncoderError(f"The model {self.encoder_id} hears sounds and sees no pictures.")


def load_sound_encoder(
    name: str, *, revision: str | None = None, device: str = "auto", precision: str = AUTO
) -> SoundEncoder:
    """Load a CLAP checkpoint with safetensors, by a folder or hub id as `load_encoder` does; no code of it is run."""
    check_torch()
    sound_id, folder = locate_sound_model(name, revision)
    precision = "float32" if precision in (AUTO, "int8") else precision  # int8 is of graphs of pictures and captions
    with garbage_left():
        from evenreel.encoders.towers import usable_device

        target = usable_device(device, precision)
        with quiet(), of_model(folder, "cannot be loaded"):
            return SoundEncoder(open_checkpoint(folder, _CLAP), sound_id, target, precision)


def check_torch() -> None:
    if not installed("torch"):
        raise EncoderError(f"Hearing sounds needs torch, which is not installed: {to_install('torch')}.")


def locate_sound_model(name: str, revision: str | None = None) -> tuple[str, Path]:
    sound_id, folder = locate(name, revision)
    open_checkpoint(folder, _CLAP)
    return sound_id, folder


def sound_model_here(name: str) -> bool:
    try:
        folder = folder_here(name)
        return folder is not None and read_settings(folder / "config.json").get("model_type") in _CLAP
    except EncoderError:
        return False


def sound_digest(folder: Path) -> str:
    return open_checkpoint(folder, _CLAP).digest()


class SoundFiles:
    """Worker that answers `{"path"}` of a video with a message for each block of its sound, and one with its notes."""

    def __init__(self, sample_rate: int, limits: dict[str, Any]) -> None:
        self._sample_rate, self._limits = sample_rate, MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        with open_sound(task["path"], self._limits, sample_rate=self._sample_rate) as sound:
            for block in sound.readable_blocks():
                yield {"kind": "block", "start_s": block.start_s}, block.samples
            yield {"kind": "notes", "notes": sound.notes}, None


def sound_worker(windows: SoundWindows, limits: MediaLimits | None = None) -> Worker:
    given = limits or MediaLimits()
    return Worker("evenreel.sound:SoundFiles", {"sample_rate": windows.sample_rate, "limits": asdict(given)}, given)


def read_sounds(worker: Worker, path: str | os.PathLike[str], encoder: SoundEncoder) -> ClipSounds:
    """Have a worker of `sound_worker` decode the sound of a video file, and encode its windows that are not silent."""
    notes = list[str]()

    def blocks() -> Iterator[SoundBlock]:
        for message, samples in worker.run({"path": os.fspath(path)}):
            if message["kind"] == "notes":
                notes.extend(message["notes"])
            elif samples is not None:
                yield SoundBlock(message["start_s"], samples, encoder.windows.sample_rate)

    spans, vectors = list[tuple[float, float]](), list[FloatArray]()
    windows = cut_windows(blocks(), encoder.windows)
    loud = (window for window in windows if np.abs(window.samples).max(initial=0.0) > SILENT)
    while batch := list(islice(loud, WINDOWS_AT_ONCE)):
        spans += [(window.start_s, window.end_s) for window in batch]
        vectors.append(encoder.encode_sound([window.samples for window in batch]))
    if not spans:
        raise MediaError("no_sound", "its sound is silent throughout")
    return ClipSounds(
        encoder.encoder_id,
        encoder.weights_hash,
        np.array(spans, np.float64),
        np.concatenate(vectors).astype(np.float16),
        tuple(notes),
    )
