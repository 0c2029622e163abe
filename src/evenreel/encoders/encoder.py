"""What every encoder does: frames and captions checked, batches that halve where memory ends, rows of unit length."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError, EvenreelError, UsageError
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

log = logging.getLogger("evenreel")

Made = TypeVar("Made")
TokenArray = NDArray[np.int64]
_SHORTEST = 1e-12  # a feature shorter than this has no direction


class BatchedEncoder:
    """An `evenreel.types.Encoder` but for the towers, which its subclasses run.

    Attributes:
        encoder_id: name to load the encoder by: `builtin`, a hub id with its commit, or a folder.
        weights_hash: hex digest over weights, tokenizer and settings.
        batch_size: frames or captions at a time; it halves each time that memory does not suffice.
        window: number of frames that one vector is made of, and over how many seconds they are spread.
    """

    window = WindowRule()

    def __init__(self, folder: Path, encoder_id: str, weights_hash: str, batch_size: int) -> None:
        self._folder, self.encoder_id, self.weights_hash = folder, encoder_id, weights_hash
        self.batch_size = batch_size

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        raise NotImplementedError

    def _window_features(self, pixels: Pixels) -> FloatArray:
        """(N, T, 3, H, W) -> (N, D) of any length."""
        raise NotImplementedError

    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, FloatArray | None]:
        """(N, W) -> sentences (N, D) and words (N, W', D), of any length; W' are the last of W, None for no words."""
        raise NotImplementedError

    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        """Ids and mask (Q, W), cut and filled up as the text tower was trained."""
        raise NotImplementedError

    def _cut(self, captions: Sequence[str]) -> list[bool]:
        """What `truncated` returns, of captions that can be tokenised."""
        raise NotImplementedError

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames of any size to (N, D) float32, rows of unit length.

        T is `window.frames`, or 1 for a picture, which is taken for a still video.
        """
        check_pixels(pixels, "(N, T, 3, H, W)")
        if pixels.shape[1] not in (1, self.window.frames):
            frames = self.window.frames
            windows = f"windows of {frames} frames, or " if frames > 1 else ""
            raise UsageError(
                f"The model takes {windows}single pictures, and these have {pixels.shape[1]} frames; where a clip has "
                "fewer frames than a window, sample some of them again."
            )
        parts = self._in_batches(
            len(pixels), lambda rows: unit_rows(self._window_features(pixels[rows]), "frame"), self.window.frames
        )
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *parts])

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions to words (Q, W, D) and unit sentences (Q, D); words of padding are zero.

        A caption longer than the tower takes is cut; `truncated` tells which. Public exports in ONNX form give no
        vectors of words: there W is 0.
        """
        clean = clean_captions(captions)
        if not clean:
            none = np.zeros((0, 0, self.dimension), np.float32)
            return TextEmbedding(none, np.zeros((0, 0), np.bool_), none.reshape(0, self.dimension))
        with of_model(self._folder, "has a tokenizer that fails on a caption"):
            ids, mask = self._tokens(clean)
        parts = self._in_batches(len(clean), lambda rows: self._text_features(ids[rows], mask[rows]))
        sentences = np.concatenate([unit_rows(sentence, "caption") for sentence, _ in parts])
        given = [words for _, words in parts if words is not None]
        words = np.concatenate(given) if given else np.zeros((len(clean), 0, self.dimension), np.float32)
        real = mask[:, mask.shape[1] - words.shape[1] :] > 0  # an instruction before a caption is none of its words
        words[~real] = 0.0
        return TextEmbedding(words, real, sentences)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        clean = clean_captions(captions)
        with of_model(self._folder, "has a tokenizer that fails on a caption"):
            return self._cut(clean) if clean else []

    def _in_batches(self, count: int, work: Callable[[slice], Made], item: int = 1) -> list[Made]:
        """Do the work on slices of 0 ... count, one after another, on smaller ones from where memory runs out."""
        results, start = list[Made](), 0
        while start < count:
            stop = min(start + max(1, self.batch_size // item), count)
            try:
                results.append(work(slice(start, stop)))
                start = stop
            except MemoryError as error:
                if self.batch_size <= 1:
                    raise EncoderError("Memory does not suffice to encode a single frame or caption.") from error
                self.batch_size //= 2
                log.warning("memory ran out, going on with %d at a time", self.batch_size)
        return results


@contextlib.contextmanager
def of_model(folder: Path, what: str) -> Iterator[None]:
    """Make one sentence of whatever a `with` raises over the files of a model, which no library foresees.

    A panic of Rust, which is no `Exception`, is one too.
    """
    try:
        yield
    except (EvenreelError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        words = (str(error).splitlines() or [""])[0]
        raise EncoderError(f"The model in {folder} {what} ({type(error).__name__}: {words[:200]}).") from error


def check_pixels(pixels: Pixels, shape: str) -> None:
    """Refuse an array that holds no frames."""
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != shape.count(",") + 1
        or pixels.shape[-3] != 3
        or 0 in pixels.shape[1:]
    ):
        raise UsageError(f"Frames are {shape} uint8, not {pixels.shape} {pixels.dtype}.")


def clean_captions(captions: Sequence[str]) -> list[str]:
    """Return captions without lone surrogates, which come out of a command line that is not UTF-8."""
    if isinstance(captions, str):
        raise UsageError("Captions are a sequence of strings, not a single string.")
    return [caption.encode("utf-8", "replace").decode() for caption in captions]


def unit_rows(rows: FloatArray, what: str) -> FloatArray:
    """Scale features (N, D) to unit length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > _SHORTEST).all()):
        raise EncoderError(
            f"The model gives a feature that is not a number, or zero, for a {what}; its weights are "
            "damaged, or the precision is too low for it (use float32)."
        )
    return np.asarray(rows / lengths, np.float32)


def lower_case(tokenizer: Any) -> None:
    """Make a tokenizer of `tokenizers` lower-case captions before its other rules.

    The tokenizer of Gemma, which checkpoints of SigLIP 2 name, keeps capitals; SigLIP's own lowers them itself.
    """
    from tokenizers import normalizers

    before = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
