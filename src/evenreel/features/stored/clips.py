"""Features that others computed, loaded from the folder that `evenreel.features.stored.store` made of them.

All frames of all clips are rows of one float16 matrix, an `.npy` that is mapped and not read into memory: clips that
lie there in the order in which they are loaded are not even copied.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.array_files import map_array
from evenreel.documents import parse_json
from evenreel.errors import FeaturesError
from evenreel.features.manifest import CorpusClip, FeatureSet, FeatureStream, Manifest
from evenreel.features.pool import SetAside
from evenreel.language.tokens import split_words
from evenreel.types import Corpus, Shown, TextFeatures, VideoFeatures

INDEX = "frames.json"
MATRICES = ("frames.npy", "frames-2.npy")
"""Names of the matrix; a new one takes the name that the old one has not."""

FORMAT = 1
_AGAIN = "run `evenreel features --stored` again"
_SILENT = "one of its frames is zero in every stream that is used"
_SHOWN = 5


class MatrixRows(NamedTuple):
    """Rows of the matrix that are the frames of a clip, and their CRC-32."""

    first: int
    frames: int
    checksum: int


@dataclass(frozen=True)
class StoredIndex:
    """Rows of each clip in the matrix.

    Attributes:
        matrix: name of the matrix's file.
        clips: rows by clip id.
        aside: reason and sentence of each clip without rows.
    """

    matrix: str
    clips: Mapping[str, MatrixRows]
    aside: Mapping[str, tuple[str, str]]

    def to_json(self) -> str:
        """Return the index as JSON text."""
        return json.dumps({"format": FORMAT, "matrix": self.matrix, "clips": self.clips, "aside": self.aside})


def read_index(folder: Path) -> StoredIndex:
    """Read the index of a folder of stored features.

    Raises:
        FeaturesError: it is gone, damaged, or of a later version.
    """
    path = folder / INDEX
    try:
        fields = parse_json(path.read_text(encoding="utf-8"))
        clips = {name: MatrixRows(*rows) for name, rows in fields["clips"].items()}
        index = StoredIndex(
            str(fields["matrix"]), clips, {name: (code, why) for name, (code, why) in fields["aside"].items()}
        )
        newer = fields["format"] > FORMAT
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FeaturesError(f"{path} is gone or damaged; {_AGAIN}.") from error
    if newer:
        raise FeaturesError(f"The features in {folder} were made by a later version; update evenreel to read them.")
    if index.matrix not in MATRICES:
        raise FeaturesError(f"{path} is damaged; {_AGAIN}.")
    return index


@dataclass(frozen=True)
class StoredClips(Shown):
    """Clips of a corpus in a folder of stored features; used as `evenreel.features.FoundClips` is.

    Attributes:
        folder: folder of the features.
        manifest: name and streams of the folder.
        made: how frames were sampled of the arrays.
        streams: streams that are used, in the order of their columns.
        index: rows of all clips of the folder.
        clips: clips of the corpus, in its order.
    """

    folder: Path
    manifest: Manifest
    made: FeatureSet
    streams: tuple[FeatureStream, ...]
    index: StoredIndex
    clips: tuple[CorpusClip, ...]

    @property
    def dimension(self) -> int:
        """D, columns of all streams that are used."""
        return sum(stream.dimension for stream in self.streams)

    def load(self) -> tuple[VideoFeatures, tuple[SetAside, ...]]:
        """Load the features of the clips that have some; return the clips that were set aside too.

        Frames are a view of the matrix on the disk where all streams are used and the clips lie there one after the
        other with equally many frames.

        Raises:
            FeaturesError: a clip was not in the corpus when the features were stored; a file is damaged.
        """
        there: list[CorpusClip] = []
        aside: list[SetAside] = []
        missing: list[str] = []
        for clip in self.clips:
            if clip.clip_id in self.index.clips:
                there.append(clip)
            elif trouble := self.index.aside.get(clip.clip_id):
                aside.append(SetAside(clip.clip_id, clip.path, *trouble))
            else:
                missing.append(clip.clip_id)
        if missing:
            raise FeaturesError(_missing(self.folder, missing, len(self.clips)))
        matrix = self._matrix()
        frames = self._view(matrix, there)
        if frames is None:
            there, frames, silent = self._copied(matrix, there)
            aside += silent
        counts = np.array([self.index.clips[clip.clip_id].frames for clip in there], np.int64)
        mask = np.arange(frames.shape[1]) < counts[:, None]
        return VideoFeatures(tuple(clip.clip_id for clip in there), frames, mask, _times(there, mask)), tuple(aside)

    def fingerprint(self) -> dict[str, str | int | None]:
        """Return the identity of the loaded features, as plain data to record and to compare; reads no frame.

        Returns:
            The keys of `FoundClips.fingerprint`, and `streams`: names of those used. `clips` is a digest over the
            ids and the content of the clips.
        """
        rows = [(clip.clip_id, self.index.clips.get(clip.clip_id, (0, 0, 0))[1:]) for clip in self.clips]
        return {
            "encoder_id": self.manifest.encoder_id,
            "weights_hash": self.manifest.weights_hash,
            "precision": self.manifest.precision,
            **asdict(self.made),
            "streams": ", ".join(stream.name for stream in self.streams),
            "clips": hashlib.blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest(),
        }

    def _matrix(self) -> NDArray[np.float16]:
        path = self.folder / self.index.matrix
        try:
            matrix = map_array(path)
        except (OSError, ValueError) as error:
            raise FeaturesError(f"{path} is gone or damaged ({error}); {_AGAIN}.") from error
        rows = max((one.first + one.frames for one in self.index.clips.values()), default=0)
        if matrix.dtype != np.float16 or matrix.shape != (rows, self.manifest.dimension):
            raise FeaturesError(f"{path} is not the matrix that was written; {_AGAIN}.")
        return matrix

    def _view(self, matrix: NDArray[np.float16], clips: Sequence[CorpusClip]) -> NDArray[np.float16] | None:
        """Return (V, T, D) of the clips without a copy; None where they do not lie so, or a stream is left out."""
        rows = [self.index.clips[clip.clip_id] for clip in clips]
        if not rows or len(self.streams) < len(self.manifest.streams):
            return None
        start, count = rows[0].first, rows[0].frames
        if any(one[:2] != (start + number * count, count) for number, one in enumerate(rows)):
            return None
        for clip in clips:
            self._checked(matrix, clip)
        return matrix[start : start + len(rows) * count].reshape(len(rows), count, matrix.shape[1])

    def _copied(
        self, matrix: NDArray[np.float16], clips: Sequence[CorpusClip]
    ) -> tuple[list[CorpusClip], NDArray[np.float16], list[SetAside]]:
        """Copy the frames of clips to (V, T, D), padded; return clips without frames in the streams used too."""
        longest = max((self.index.clips[clip.clip_id].frames for clip in clips), default=0)
        padded = np.zeros((len(clips), longest, self.dimension), np.float16)
        kept: list[CorpusClip] = []
        aside: list[SetAside] = []
        columns = self._columns()
        for clip in clips:
            rows = self._checked(matrix, clip)
            used = rows if columns is None else _unit(rows[:, columns].astype(np.float32))
            if columns is not None and not used.any(axis=1).all():
                aside.append(SetAside(clip.clip_id, clip.path, "bad_features", _SILENT))
                continue
            padded[len(kept), : len(used)] = used
            kept.append(clip)
        return kept, padded[: len(kept)], aside

    def _columns(self) -> NDArray[np.bool_] | None:
        """(D,) True = a column of a stream that is used; None for all."""
        if len(self.streams) == len(self.manifest.streams):
            return None
        used = [np.full(stream.dimension, stream in self.streams) for stream in self.manifest.streams]
        return np.concatenate(used)

    def _checked(self, matrix: NDArray[np.float16], clip: CorpusClip) -> NDArray[np.float16]:
        first, count, checksum = self.index.clips[clip.clip_id]
        rows = matrix[first : first + count]
        if zlib.crc32(rows.data) != checksum:
            path = self.folder / self.index.matrix
            raise FeaturesError(f"{path} is damaged at clip {clip.clip_id}; {_AGAIN}.")
        return rows


def unread_captions(corpus: Corpus) -> TextFeatures:
    """Return captions without features: (Q, W, 0) with W words each, since no text tower has read them."""
    texts = corpus.captions["text"].to_list()
    counts = np.array([max(1, len(split_words(text))) for text in texts], np.int64)
    mask = np.arange(counts.max(initial=0)) < counts[:, None]
    words, sentence = np.zeros((*mask.shape, 0), np.float16), np.zeros((len(texts), 0), np.float16)
    return TextFeatures(tuple(corpus.captions["caption_id"]), words, mask, sentence)


def joined(streams: Sequence[NDArray[np.float32]]) -> NDArray[np.float16]:
    """Join the frames of several streams side by side, each stream at unit length, and the whole again.

    Every stream has the same share of a frame then, whatever numbers its network gives; a frame that is zero in one of
    them is a frame of the others, and that of the rest stays right where a stream is left out.

    Args:
        streams: (T, D) each.

    Returns:
        (T, sum of D) with rows of unit length, and of zeros where all streams are zero.

    >>> joined([np.array([[3.0, 4.0]], np.float32), np.array([[0.0]], np.float32)]).round(3).tolist()
    [[0.60009765625, 0.7998046875, 0.0]]
    """
    whole = np.concatenate([_unit(rows) for rows in streams], axis=1)
    return np.asarray(_unit(whole).astype(np.float16))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length; those of zeros stay so. Scaled first, since squares of large numbers are infinite."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, np.float32(1))
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled /= np.where(lengths > 0, lengths, np.float32(1))
    return np.asarray(scaled)


def _times(clips: Sequence[CorpusClip], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return (V, T) middles of equal parts of each clip, as times are not stored; seconds without a known length."""
    counts = mask.sum(axis=1)
    lengths_s = [_length_s(clip, count) for clip, count in zip(clips, counts.tolist(), strict=True)]
    steps = np.array(lengths_s) / counts
    return np.asarray(np.where(mask, (np.arange(mask.shape[1]) + 0.5) * steps[:, None], 0.0))


def _length_s(clip: CorpusClip, count: int) -> float:
    return float(count) if clip.part.end_s is None else clip.part.end_s - (clip.part.start_s or 0.0)


def _missing(folder: Path, missing: Sequence[str], of: int) -> str:
    some = ", ".join(repr(name[:60]) for name in missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    return (
        f"{len(missing):,} of {of:,} clips were not in the corpus when the features in {folder} were stored ({some}); "
        f"{_AGAIN} for this corpus."
    )
