"""Sentences of on-screen windows by an encoder, each encoded once and kept beside the features.

A block is a file of `evenreel.features.shards` in the folder `sentences` of the features, with the array `sentence` (N,
D) float16; the N texts are in its record, and digests of sentences that the tokenizer takes whole (`whole`) or would
cut (`cut`), so that what was loaded once needs no model again. Blocks are never changed, and one that is lost or
damaged costs time alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import FeaturesError
from evenreel.features.folder import store
from evenreel.features.manifest import Manifest
from evenreel.features.shards import glance, seal, unseal
from evenreel.features.texts import BATCH_TEXTS, BLOCK_TEXTS, halves
from evenreel.progress import Progress
from evenreel.types import Encoder

log = logging.getLogger("evenreel")

SENTENCES = "sentences"
FORMAT = 1

Vectors = dict[str, NDArray[np.float16]]


class Sentences:
    """Store of the vectors of on-screen sentences for one folder of features.

    Args:
        folder: folder of the features.
        manifest: encoder of the folder.
        encoder: loads that encoder; called when a sentence is not known yet.
    """

    def __init__(self, folder: Path, manifest: Manifest, encoder: Callable[[], Encoder]) -> None:
        self._folder, self._manifest, self._load = folder / SENTENCES, manifest, encoder
        self._encoder: Encoder | None = None
        self._known: Vectors = {}
        self._blocks: dict[str, Path] = {}
        self._fits: dict[str, bool] = {}
        self._new_fits: dict[str, bool] = {}
        for path in sorted(self._folder.glob("*.safetensors")):
            self._look(path)

    def know(self, texts: Iterable[str], vectors: NDArray[np.float16]) -> None:
        """Add sentences with known vectors, a row each; empty sentences are skipped."""
        self._known |= {text: vector for text, vector in zip(texts, vectors, strict=True) if text}

    def fits(self, text: str) -> bool:
        """Check that the encoder's tokenizer takes a sentence whole, without cutting it.

        Raises:
            FeaturesError: the encoder is not the one of the features.
        """
        if text in self._known or text in self._blocks:
            return True
        name = _digest(text)
        if name not in self._fits:
            self._fits[name] = self._new_fits[name] = not self._model().truncated([text])[0]
        return self._fits[name]

    def vectors(self, texts: Iterable[str], progress: Progress = lambda share: None) -> Vectors:
        """Return the vector of each sentence, (D,) float16 of unit length; unknown ones are encoded and kept.

        Args:
            texts: sentences that the tokenizer takes whole.
            progress: called with the share of those to encode that is done.

        Raises:
            EncoderError: the encoder cannot be loaded, or gives a number that is not finite.
            FeaturesError: the encoder is not the one of the features.
        """
        wanted = dict.fromkeys(texts)
        for path in {self._blocks[text] for text in wanted if text not in self._known and text in self._blocks}:
            self._known |= self._read(path)
        missing = sorted((text for text in wanted if text not in self._known), key=lambda text: (len(text), text))
        for at in range(0, len(missing), BLOCK_TEXTS):
            block = missing[at : at + BLOCK_TEXTS]
            vectors = self._encoded(block)
            self._keep(block, vectors)
            self.know(block, vectors)
            progress(min(1.0, (at + BLOCK_TEXTS) / len(missing)))
        if self._new_fits:
            self._keep([], np.zeros((0, self._manifest.dimension), np.float16))
        return {text: self._known[text] for text in wanted}

    def _model(self) -> Encoder:
        if self._encoder is None:
            encoder = self._load()
            if encoder.weights_hash != self._manifest.weights_hash:
                raise FeaturesError(
                    f"The features in {self._folder.parent} are of {self._manifest.title} with other weights than it "
                    "has now, so sentences on screen cannot be read as they were; compute them again with `evenreel "
                    "features`."
                )
            self._encoder = encoder
        return self._encoder

    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Encode sentences sorted by length to (N, D), a batch being as wide as its longest."""
        encoder = self._model()
        parts = [
            halves(encoder.encode_text(texts[at : at + BATCH_TEXTS]).sentence, "sentence")
            for at in range(0, len(texts), BATCH_TEXTS)
        ]
        return np.concatenate(parts)

    def _look(self, path: Path) -> None:
        """Note the sentences of a block of this encoder, by its header alone."""
        try:
            record = glance(path)
            if record["format"] > FORMAT or not self._is_ours(record):
                return
            texts, whole, cut = record["texts"], record["whole"], record["cut"]
        except Exception as error:
            # A damaged header can fail in any way in the parser.
            _remove(path, error)
            return
        self._blocks |= dict.fromkeys(texts, path)
        self._fits |= dict.fromkeys(whole, True) | dict.fromkeys(cut, False)

    def _is_ours(self, record: dict[str, Any]) -> bool:
        manifest = self._manifest
        return (record["weights_hash"], record["precision"]) == (manifest.weights_hash, manifest.precision)

    def _read(self, path: Path) -> Vectors:
        """Read the sentences of a block with their vectors; none of a damaged one."""
        try:
            arrays, record = unseal(path.read_bytes())
            return dict(zip(record["texts"], arrays["sentence"], strict=True))
        except Exception as error:
            _remove(path, error)
            return {}

    def _keep(self, texts: Sequence[str], vectors: NDArray[np.float16]) -> None:
        """Write a block; where that fails, the next time takes as long."""
        for text in texts:
            self._new_fits.pop(_digest(text), None)
        record = {
            "format": FORMAT,
            "encoder_id": self._manifest.encoder_id,
            "weights_hash": self._manifest.weights_hash,
            "precision": self._manifest.precision,
            "texts": list(texts),
            "whole": [name for name, fits in self._new_fits.items() if fits],
            "cut": [name for name, fits in self._new_fits.items() if not fits],
        }
        self._new_fits.clear()
        name = hashlib.blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()
        try:
            store(self._folder / f"{name}.safetensors", seal({"sentence": vectors}, record))
        except FeaturesError as error:
            log.warning("Sentences on screen are encoded again the next time: %s", error)


def _remove(path: Path, error: Exception) -> None:
    """Delete a damaged block; one that cannot be read may be whole."""
    log.info("%s cannot be read (%s): its sentences are encoded anew", path, error)
    if not isinstance(error, OSError):
        with contextlib.suppress(OSError):
            path.unlink()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
