"""An encoder as a model of MTEB, for its tasks of texts, pictures and videos."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.errors import UsageError
from evenreel.media import open_video, parse_rule
from evenreel.types import Encoder, FloatArray, Pixels


class MtebModel:
    """Model of MTEB that encodes texts, pictures and videos by an encoder of evenreel; implements `EncoderProtocol`.

    A video is the mean of the vectors of its windows, of unit length. Its frames are the middles of equal intervals; an
    encoder of moving pictures takes them in windows of as many as it needs. Its sound is not heard.

    Args:
        encoder: what `evenreel.encoders.load_encoder` returns, or any `Encoder`.
        frames: number of frames of a video, at least those of one window.
        name: name in MTEB's files, `organisation/model`; empty for the encoder's own.

    Raises:
        UsageError: `frames` is below 1.
    """

    def __init__(self, encoder: Encoder, frames: int = 12, name: str = "") -> None:
        if frames < 1:
            raise UsageError(f"A video of {frames} frames has no vector; give 1 or more.")
        self._encoder = encoder
        self._window = encoder.window.frames
        self._frames = max(1, frames // self._window) * self._window
        self._name = name or encoder.encoder_id

    @property
    def mteb_model_meta(self) -> Any:
        """Metadata for MTEB: the name, and the digest of weights and preprocessing as revision."""
        from mteb.models import ModelMeta

        name = self._name if "/" in self._name else f"evenreel/{self._name}"
        told = {"name": name, "revision": self._encoder.weights_hash, "embed_dim": self._encoder.dimension}
        return ModelMeta.create_empty(told | {"modalities": ["text", "image", "video"]})

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_task: Any) -> FloatArray:
        """Encode batches of texts, pictures or videos to (N, D), rows of unit length.

        Args:
            inputs: batches of MTEB, with the column `video`, `image` or `text`.

        Raises:
            UsageError: a batch has several of these columns or none, or a video is of an unknown kind.
            MediaError: a video cannot be read; figures over the others would not be those of the task.
        """
        return np.concatenate([self._batch(batch) for batch in inputs])

    def similarity(self, first: Any, second: Any) -> Any:
        """Compute the cosines (N, M) of rows (N, D) and (M, D) of unit length, as a tensor."""
        import torch

        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> Any:
        """Compute the cosines (N,) of the rows (N, D) of two arrays, pair by pair, as a tensor."""
        import torch

        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(dim=-1)

    def _batch(self, batch: Mapping[str, Any]) -> FloatArray:
        columns = [name for name in ("text", "image", "video") if name in batch]
        if columns == ["text"]:
            return self._encoder.encode_text(list(batch["text"])).sentence
        if columns == ["image"]:
            return np.concatenate([self._encoder.encode_windows(_picture(one)) for one in batch["image"]])
        if columns == ["video"]:
            return np.stack([self._video(one) for one in batch["video"]])
        raise UsageError(
            f"A batch of MTEB has the columns {', '.join(columns) or 'none'}; an encoder takes text, image or video "
            "alone."
        )

    def _video(self, video: Any) -> FloatArray:
        pixels = _frames_of(video, self._frames)
        vectors = self._encoder.encode_windows(pixels.reshape(-1, self._window, *pixels.shape[1:]))
        mean = vectors.mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def _frames_of(video: Any, count: int) -> Pixels:
    """Frames (count, 3, H, W) at the middles of equal intervals of a video in any form that MTEB's tasks have."""
    if isinstance(video, Mapping) and "path" in video:  # undecoded, as datasets keeps it
        if not video.get("bytes"):
            return _of_file(video["path"], count)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "video"
            path.write_bytes(video["bytes"])
            return _of_file(path, count)
    if isinstance(video, (str, Path)):
        return _of_file(video, count)
    if hasattr(video, "get_frames_at"):  # a decoder of torchcodec
        return np.asarray(video.get_frames_at(indices=_middles(len(video), count)).data.cpu())
    frames = np.asarray(video.cpu() if hasattr(video, "cpu") else video)
    if frames.ndim != 4 or frames.shape[1] != 3 or frames.dtype != np.uint8 or not len(frames):
        raise UsageError(
            f"A video of MTEB is {frames.dtype} of the shape {frames.shape}; give a file, a decoder of torchcodec, or "
            "frames (T, 3, H, W) of uint8."
        )
    return np.asarray(frames[_middles(len(frames), count)])


def _middles(length: int, count: int) -> list[int]:
    return [(2 * place + 1) * length // (2 * count) for place in range(count)]


def _of_file(path: str | Path, count: int) -> Pixels:
    with open_video(path) as video:
        found = [frame.pixels for frame in video.frames(parse_rule(f"{count} midpoints"))]
    chosen = [found[place] for place in _middles(len(found), count)]
    return np.stack(chosen).transpose(0, 3, 1, 2)


def _picture(image: Any) -> Pixels:
    """One window (1, 1, 3, H, W) of a picture of Pillow."""
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)[None, None]
