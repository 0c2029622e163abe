"""What a clip sounds like: windows of its sound, and sentences about sounds, as vectors of one space by a CLAP model.

Read from top to bottom: windows, the model, its loading, and the reading of a file in a process that can be killed.
torch and transformers are imported where a model is loaded, so that whoever only reads sound needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenreel.config import MediaLimits
from evenreel.documents import brief
from evenreel.encoders.checkpoint import (
    digest_of,
    file_digest,
    incomplete,
    json_digest,
    missing_parts,
    plain_config,
    processor_files,
    read_settings,
    tokenizer_files,
    weight_names,
)
from evenreel.encoders.encoder import of_model
from evenreel.encoders.sources import folder_here, locate
from evenreel.errors import EncoderError, MediaError
from evenreel.extras import installed
from evenreel.features.shards import ClipSounds
from evenreel.media.sound import SoundBlock, open_sound
from evenreel.media.workers import Message, Worker
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

if TYPE_CHECKING:
    import torch

WINDOWS_AT_ONCE = 8
CAPTIONS_AT_ONCE = 64
SILENT = 1e-4
"""Loudest sample of what is silent: three steps of 16 bits."""
_FOLLOWS_S = 1e-3  # blocks that are no further apart are one sound


class SoundWindows(NamedTuple):
    """Windows of a model of sounds: samples a second, and samples of a window and from the start of one to the next."""

    sample_rate: int = 48_000
    length: int = 480_000
    hop: int = 240_000


class SoundWindow(NamedTuple):
    """A window of sound: start and end in seconds of the clip's own clock, and samples (N,), mono, as many or fewer."""

    start_s: float
    end_s: float
    samples: FloatArray

    @property
    def is_silent(self) -> bool:
        return not np.abs(self.samples).max(initial=0.0) > SILENT


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


class SoundEncoder:
    """CLAP in a folder: sound and sentences become vectors of one space; made by `load_sound_encoder`."""

    window = WindowRule()

    def __init__(
        self, folder: Path, encoder_id: str, weights_hash: str, device: torch.device, precision: str = "float32"
    ) -> None:
        import torch
        from safetensors.torch import load_file
        from transformers import ClapConfig, ClapModel, ClapProcessor

        self.encoder_id, self.weights_hash = encoder_id, weights_hash
        self._device, self._dtype = device, getattr(torch, precision)
        model, report = ClapModel.from_pretrained(
            None,  # without a name transformers looks for nothing, neither on disk nor in the network
            config=ClapConfig.from_dict(plain_config(read_settings(folder / "config.json"))),
            state_dict={name: one for file in weight_names(folder) for name, one in load_file(folder / file).items()},
            dtype=self._dtype,
            output_loading_info=True,
        )
        made = ("position_ids", "token_type_ids")
        if missing := sorted(name for name in report["missing_keys"] if not name.endswith(made)):
            raise EncoderError(
                f"The weights in {folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
            )
        self._model = model.to(device).eval().requires_grad_(False)
        processor = ClapProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        self._extractor, self._tokenizer = processor.feature_extractor, processor.tokenizer
        self.dimension = int(model.config.projection_dim)
        rate, length = int(self._extractor.sampling_rate), int(self._extractor.nb_max_samples)
        if not 8_000 <= rate <= 192_000 or not rate <= length <= 60 * rate:
            raise EncoderError(
                f"The processor in {folder} takes windows of {length} samples at {rate} a second; windows of 1 to 60 s "
                "at 8,000 to 192,000 can be used."
            )
        self.windows = SoundWindows(rate, length, length // 2)
        positions = int(model.config.text_config.max_position_embeddings) - 2  # RoBERTa's begin behind padding
        self._longest = min(int(self._tokenizer.model_max_length), positions)

    def encode_sound(self, windows: Sequence[FloatArray]) -> FloatArray:
        """Encode windows of sound, each (N,) at the model's rate, filled up by its own processor: (W, D), unit rows."""
        if any(not 0 < len(samples) <= self.windows.length for samples in windows):
            raise EncoderError(f"A window of sound must have 1 to {self.windows.length} samples.")
        import torch

        found = [np.zeros((0, self.dimension), np.float32)]
        for batch in _batches(windows, WINDOWS_AT_ONCE):
            made = self._extractor(batch, sampling_rate=self.windows.sample_rate, return_tensors="pt")
            # None is longer than a window; the processor of a fusing model calls a random one so.
            longer = torch.zeros((len(batch), 1), dtype=torch.bool, device=self._device)
            with torch.inference_mode():
                features = made["input_features"].to(self._device, self._dtype)
                found.append(_units(self._model.get_audio_features(features, is_longer=longer).pooler_output))
        return np.concatenate(found)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode sentences, cut at the model's limit; each counts as one word."""
        import torch

        found = [np.zeros((0, self.dimension), np.float32)]
        for batch in _batches(captions, CAPTIONS_AT_ONCE):
            made = self._tokenizer(batch, padding=True, truncation=True, max_length=self._longest, return_tensors="pt")
            inputs = {name: made[name].to(self._device) for name in ("input_ids", "attention_mask")}
            with torch.inference_mode():
                found.append(_units(self._model.get_text_features(**inputs).pooler_output))
        sentence = np.concatenate(found)
        return TextEmbedding(sentence[:, None], np.ones((len(sentence), 1), np.bool_), sentence)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each sentence whether it is longer than the model takes."""
        return [len(ids) > self._longest for ids in self._tokenizer(list(captions))["input_ids"]]

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        raise EncoderError(f"The model {self.encoder_id} hears sounds and sees no pictures.")


def _units(rows: torch.Tensor) -> FloatArray:
    found: FloatArray = rows.float().cpu().numpy()
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    if not (lengths > 0).all() or not np.isfinite(lengths).all():
        raise EncoderError("The model of sounds gave a vector without a direction (zero, NaN or infinite).")
    return np.asarray(found / lengths, np.float32)


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    left = iter(items)
    for first in left:
        yield list(chain([first], islice(left, size - 1)))


def load_sound_encoder(
    name: str, *, revision: str | None = None, device: str = "auto", precision: str = "float32"
) -> SoundEncoder:
    """Load a CLAP checkpoint with safetensors, by a folder or hub id as `load_encoder` does; no code of it is run.

    Raises:
        EncoderError: the model cannot be had or read, is of another kind, or torch is not installed.
    """
    sound_id, folder = locate_sound_model(name, revision)
    check_torch()
    from evenreel.encoders.contexts import garbage_left, quiet
    from evenreel.encoders.devices import usable_device

    target = usable_device(device, precision)
    with garbage_left(), quiet(), of_model(folder, "cannot be loaded"):
        return SoundEncoder(folder, sound_id, sound_digest(folder), target, precision)


def check_torch() -> None:
    """Check that torch is there, which a model of sounds needs."""
    if not installed("torch"):
        raise EncoderError("Hearing sounds needs torch, which is not installed: pip install 'evenreel[torch]'.")


def locate_sound_model(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find the folder of a model of sounds, downloading it where it is missing and that is allowed."""
    sound_id, folder = locate(name, revision)
    config = folder / "config.json"
    if config.is_file() and (kind := read_settings(config).get("model_type")) != "clap":
        raise EncoderError(
            f"The model in {folder} is of the kind {brief(kind)}, which hears no sounds; name a CLAP model (model_type "
            "clap), such as laion/clap-htsat-unfused."
        )
    if missing := missing_parts(folder):
        raise incomplete(folder, missing)
    return sound_id, folder


def sound_model_here(name: str) -> bool:
    """Return whether a model of sounds can be loaded without a download."""
    try:
        folder = folder_here(name)
        return folder is not None and read_settings(folder / "config.json").get("model_type") == "clap"
    except EncoderError:
        return False


def sound_digest(folder: Path) -> str:
    """Compute SHA-256, in hex, over all that decides what a model of sounds calculates."""
    settings = [path for path in (folder / "config.json", *processor_files(folder)) if path.is_file()]
    files = (*tokenizer_files(folder), *(folder / name for name in weight_names(folder)))
    return digest_of(
        [
            *((path.name, json_digest(plain_config(read_settings(path)))) for path in settings),
            *((path.name, file_digest(path)) for path in files),
        ]
    )


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
    """Return a worker that decodes sound, and that is killed when it hangs or grows too large."""
    given = limits or MediaLimits()
    return Worker("evenreel.sound:SoundFiles", {"sample_rate": windows.sample_rate, "limits": asdict(given)}, given)


def read_sounds(worker: Worker, path: str | os.PathLike[str], encoder: SoundEncoder) -> ClipSounds:
    """Have a worker of `sound_worker` decode the sound of a video file, and encode it window by window.

    Memory does not grow with the length of the sound, but for its vectors. Silent windows are left out.

    Raises:
        MediaError: the sound cannot be used, is silent throughout, or the worker crashed, hung or grew too large.
    """
    notes = list[str]()

    def blocks() -> Iterator[SoundBlock]:
        for message, samples in worker.run({"path": os.fspath(path)}):
            if message["kind"] == "notes":
                notes.extend(message["notes"])
            elif samples is not None:
                yield SoundBlock(message["start_s"], samples, encoder.windows.sample_rate)

    spans, vectors = list[tuple[float, float]](), list[FloatArray]()
    loud = (window for window in cut_windows(blocks(), encoder.windows) if not window.is_silent)
    for batch in _batches(loud, WINDOWS_AT_ONCE):
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
