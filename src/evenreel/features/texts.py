"""Features of captions in blocks: each distinct text once, its words packed without padding.

A block is a file of `evenreel.features.shards` with the arrays `words` (sum of the lengths, D) float16 and `sentence`
(N, D) float16; the N texts and their numbers of words are in its record. Blocks are never changed; new texts make new
ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError, FeaturesError
from evenreel.features.folder import RECOMPUTE, TEXTS, store
from evenreel.features.settings import FLOAT32, precision_of
from evenreel.features.shards import glance, seal, unseal
from evenreel.types import Encoder

FORMAT = 1
BLOCK_TEXTS = 1024
BATCH_TEXTS = 128


class DamagedTextsError(FeaturesError):
    """Raised where a block of captions is damaged."""


class ForeignTextsError(FeaturesError):
    """Raised where a block of captions is whole, but of another encoder or precision."""


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Features of N texts.

    Attributes:
        texts: N texts, all different.
        words: (sum of lengths, D) float16, the words of one text after those of another.
        lengths: N numbers of words.
        sentence: (N, D) float16, rows of unit length.
    """

    texts: tuple[str, ...]
    words: NDArray[np.float16]
    lengths: tuple[int, ...]
    sentence: NDArray[np.float16]

    def words_of(self, row: int) -> NDArray[np.float16]:
        """Return the words (W, D) of one text."""
        end = sum(self.lengths[: row + 1])
        return self.words[end - self.lengths[row] : end]


class Place(NamedTuple):
    """Place of a text's features: a row of a block, and its number of words."""

    block: Path
    row: int
    length: int


def encode_block(texts: Sequence[str], encoder: Encoder) -> TextBlock:
    """Encode texts to a block, a batch at a time; shorter ones together, a batch being as wide as its longest.

    Raises:
        EncoderError: a number is not finite, or too large for float16.
    """
    by_length = sorted(texts, key=lambda text: (len(text), text))
    parts = [_encode(by_length[at : at + BATCH_TEXTS], encoder) for at in range(0, len(by_length), BATCH_TEXTS)]
    return TextBlock(
        tuple(by_length),
        np.concatenate([part.words for part in parts]),
        tuple(length for part in parts for length in part.lengths),
        np.concatenate([part.sentence for part in parts]),
    )


def write_block(folder: Path, block: TextBlock, encoder: Encoder) -> None:
    """Add a block to the captions of a folder of features.

    Raises:
        FeaturesError: it cannot be written.
    """
    record = {
        "format": FORMAT,
        "encoder_id": encoder.encoder_id,
        "weights_hash": encoder.weights_hash,
        "precision": precision_of(encoder),
        "texts": list(block.texts),
        "lengths": list(block.lengths),
    }
    arrays = {"words": block.words, "sentence": block.sentence}
    name = hashlib.blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()
    store(folder / TEXTS / f"{name}.safetensors", seal(arrays, record))


def read_block(path: Path, weights_hash: str, precision: str = FLOAT32) -> TextBlock:
    """Read a block and check it.

    Raises:
        DamagedTextsError: the block is not what was written.
        ForeignTextsError: the block is of another encoder or precision.
        FeaturesError: the block cannot be read, or was written by a later version.
    """
    try:
        payload = path.read_bytes()
    except OSError as error:
        raise FeaturesError(f"The captions in {path} cannot be read: {error.strerror or error}.") from error
    try:
        arrays, record = unseal(payload)
        block = TextBlock(tuple(record["texts"]), arrays["words"], tuple(record["lengths"]), arrays["sentence"])
        newer, made_by = record["format"] > FORMAT, _made_by(record)
    except Exception as error:
        # A damaged header can fail in any way in the parser; every way means the same to the reader.
        raise DamagedTextsError(f"The captions in {path} are damaged; {RECOMPUTE}.") from error
    if newer:
        raise FeaturesError(f"The captions in {path} were written by a later version; update evenreel to read them.")
    if made_by != (weights_hash, precision):
        raise ForeignTextsError(
            f"The captions in {path} are of {record['encoder_id']} in {made_by[1]}, another encoder or precision; move "
            "the file away."
        )
    return block


def block_files(folder: Path) -> Iterator[Path]:
    """Iterate over the blocks of captions of a folder of features, in the order of their names."""
    yield from sorted((folder / TEXTS).glob("*.safetensors"))


def find_texts(folder: Path, texts: Sequence[str], weights_hash: str, precision: str = FLOAT32) -> dict[str, Place]:
    """Find the place of each text by the headers of the blocks alone; texts that no block has are left out."""
    wanted = set(texts)
    found: dict[str, Place] = {}
    for path in block_files(folder):
        try:
            record = glance(path)
            if _made_by(record) != (weights_hash, precision):
                continue
            held = list(zip(record["texts"], record["lengths"], strict=True))
        except Exception:
            # What does not parse holds nothing; `evenreel features` names it when it looks through all blocks.
            continue
        found |= {text: Place(path, row, length) for row, (text, length) in enumerate(held) if text in wanted}
    return found


def _made_by(record: Mapping[str, Any]) -> tuple[str, str]:
    """Weights hash and precision of the encoder."""
    return record["weights_hash"], record["precision"]


def _encode(texts: list[str], encoder: Encoder) -> TextBlock:
    encoded = encoder.encode_text(texts)
    if not encoded.words.shape[1]:
        raise EncoderError(
            f"The model {encoder.encoder_id} gives no vectors of words, which features hold; use its checkpoint, or an "
            "export by `evenreel models --export`."
        )
    words = halves(encoded.words[encoded.word_mask], "word")
    lengths = tuple(encoded.word_mask.sum(axis=1).tolist())
    return TextBlock(tuple(texts), words, lengths, halves(encoded.sentence, "sentence"))


def halves(values: NDArray[Any], what: str) -> NDArray[np.float16]:
    """Convert an encoder's numbers to float16; `what` names them in the message.

    Raises:
        EncoderError: a number is not finite, or too large for float16.
    """
    with np.errstate(over="ignore"):  # it is looked for below
        stored = values.astype(np.float16)
    if not np.isfinite(stored).all():
        raise EncoderError(f"The model gives a {what} that is not a number, or too large for float16.")
    return stored
