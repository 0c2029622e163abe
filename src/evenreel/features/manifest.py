"""Folders of features: settings, the words of captions, and a manifest that says of what and by which model."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.config import as_path
from evenreel.documents import parse_json
from evenreel.errors import EncoderError, FeaturesError, MediaError, Reason
from evenreel.features.pool import SetAside
from evenreel.features.settings import FLOAT32, Words, precision_of
from evenreel.features.shards import glance, seal, shard_files, shard_path, unseal
from evenreel.files import TEMPORARY_SUFFIX, is_temporary, write_durably
from evenreel.media.sampling import Part
from evenreel.media.workers import FileStamp, stamp
from evenreel.types import Corpus, Encoder, Shown, WindowRule

# Paths of a corpus's features, and a ledger of each video's content when it was last read.

LEDGER, CLIPS, TEXTS = "files.json", "clips", "texts"
SAVE_EVERY_S = 30.0
RECOMPUTE = "run `evenreel features` again to compute it anew"


def clip_shard(folder: Path, key: str) -> Path:
    """Return the path of a clip's shard."""
    return shard_path(folder / CLIPS, key)


def store(path: Path, payload: bytes) -> None:
    """Write a file durably."""
    try:
        write_durably(path, payload)
    except OSError as error:
        raise FeaturesError(
            f"Cannot write {path} ({len(payload)} bytes): {error.strerror or error}; what was computed so far is kept."
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Delete files that a killed run had half written."""
    for temporary in folder.rglob(f".*{TEMPORARY_SUFFIX}"):
        if is_temporary(temporary.name):
            temporary.unlink(missing_ok=True)


@dataclass
class Ledger:
    """Digests of the videos when they were last read, and clips that are set aside.

    It saves reading every video again to see whether it has changed. A lost ledger costs time and no feature."""

    path: Path  # file of the ledger
    # stamp and digest of each video, by its path in the corpus
    files: dict[str, tuple[FileStamp, str]] = field(default_factory=dict)
    # reason and sentence of clips that cannot be read, by their key
    set_aside: dict[str, tuple[str, str]] = field(default_factory=dict)
    # reason and sentence of videos whose content could not be read, by their path in the corpus
    unreadable: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._saved = time.monotonic()

    @classmethod
    def load(cls, folder: Path) -> Ledger:
        """Read the ledger of a folder; return an empty one where none can be read."""
        ledger = cls(folder / LEDGER)
        try:
            fields = parse_json(ledger.path.read_text(encoding="utf-8"))
            ledger.files = {name: (FileStamp(*of), digest) for name, (of, digest) in fields["files"].items()}
            for name in ("set_aside", "unreadable"):
                getattr(ledger, name).update({key: (reason, why) for key, (reason, why) in fields[name].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(folder / LEDGER)
        return ledger

    def digest(self, name: str, place: Path) -> str | None:
        """Return the known digest of a file that is unchanged or gone; None where it must be read."""
        known = self.files.get(name)
        try:
            now = stamp(str(place))
        except MediaError:
            return known[1] if known else None
        return known[1] if known and known[0] == now else None

    def look(self, name: str, place: Path, digest: Callable[[str], str]) -> tuple[FileStamp, str]:
        """Read a file for its digest, and note it with the file's stamp."""
        try:
            before = stamp(str(place))
        except MediaError as error:
            if name not in self.files:
                self._note_unreadable(name, error)
            raise
        try:
            found = before, digest(str(place))
        except MediaError as error:
            self._note_unreadable(name, error)
            raise
        with self._lock:
            self.files[name] = found
            self.unreadable.pop(name, None)
        return found

    def _note_unreadable(self, name: str, error: MediaError) -> None:
        with self._lock:
            self.files.pop(name, None)
            self.unreadable[name] = (error.reason, str(error))

    def note_aside(self, key: str, error: MediaError | None) -> None:
        """Note that a clip cannot be read, with the error; None notes that it can."""
        with self._lock:
            if error is None:
                self.set_aside.pop(key, None)
            else:
                self.set_aside[key] = (error.reason, str(error))

    def save(self, *, now: bool = False) -> None:
        """Write the ledger, if the last time is long ago or `now` is set."""
        with self._lock:
            if not now and time.monotonic() - self._saved < SAVE_EVERY_S:
                return
            self._saved = time.monotonic()
            files = {name: ([of.size, of.mtime_ns, of.ctime_ns], digest) for name, (of, digest) in self.files.items()}
            payload: dict[str, Any] = {"files": files, "set_aside": self.set_aside, "unreadable": self.unreadable}
            store(self.path, json.dumps(payload, sort_keys=True).encode())


# Features of captions in blocks: each distinct text once, its words packed without padding.
#
# A block is a file of `evenreel.features.shards` with the arrays `words` (sum of the lengths, D) float16 and `sentence`
# (N, D) float16; the N texts and their numbers of words are in its record. Blocks are never changed; new texts make new
# ones.

FORMAT = 1
BLOCK_TEXTS = 1024
BATCH_TEXTS = 128


class DamagedTextsError(FeaturesError):
    """Raised where a block of captions is damaged."""


class ForeignTextsError(FeaturesError):
    """Raised where a block of captions is whole, but of another encoder or precision."""


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Features of N texts."""

    texts: tuple[str, ...]  # N texts, all different
    words: NDArray[np.float16]  # (sum of lengths, D) float16, the words of one text after those of another
    lengths: tuple[int, ...]  # N numbers of words
    sentence: NDArray[np.float16]  # (N, D) float16, rows of unit length

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
    """Encode texts to a block, a batch at a time; shorter ones together, a batch being as wide as its longest."""
    by_length = sorted(texts, key=lambda text: (len(text), text))
    parts = [_encode(by_length[at : at + BATCH_TEXTS], encoder) for at in range(0, len(by_length), BATCH_TEXTS)]
    return TextBlock(
        tuple(by_length),
        np.concatenate([part.words for part in parts]),
        tuple(length for part in parts for length in part.lengths),
        np.concatenate([part.sentence for part in parts]),
    )


def write_block(folder: Path, block: TextBlock, encoder: Encoder) -> None:
    """Add a block to the captions of a folder of features."""
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
    """Read a block and check it."""
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
    """Convert an encoder's numbers to float16; `what` names them in the message."""
    with np.errstate(over="ignore"):  # it is looked for below
        stored = values.astype(np.float16)
    if not np.isfinite(stored).all():
        raise EncoderError(f"The model gives a {what} that is not a number, or too large for float16.")
    return stored


# Manifest of a folder of features: their encoder, and the ways in which clips were read.

MANIFEST_FORMAT = 1
MANIFEST = "features.json"


class DamagedManifestError(FeaturesError):
    """Raised where the manifest of a folder of features is damaged."""


class FeatureStream(NamedTuple):
    """One of several kinds of features that are side by side in every frame: its name and its number of columns."""

    name: str
    dimension: int


@dataclass(frozen=True)
class FeatureSet:
    """A way in which clips were read; a folder may hold several.

    Attributes:
        rule: how frames were sampled.
        words: source of on-screen text.
        windows: O, number of on-screen windows; None where on-screen text was never read.
        frame_window: windows of frames that each vector is made of; None for single frames.
    """

    rule: str
    words: Words = "ocr"
    windows: int | None = None
    frame_window: WindowRule | None = None

    def __str__(self) -> str:
        return self.rule if self.words == "ocr" else f"{self.rule}, words of the corpus"


@dataclass(frozen=True)
class Manifest(Shown):
    """Encoder of the features in a folder, and how they were made.

    Attributes:
        encoder_id: name of the encoder.
        weights_hash: digest of the encoder; a folder holds features of one.
        dimension: D, length of a feature.
        precision: number format the encoder calculated with; a folder holds features of one precision.
        videos: folder in which the paths of the clips begin.
        sets: ways in which clips were read, each once, that of the last run last.
        streams: streams of stored features, in the order of their columns; empty for those of an encoder.
    """

    encoder_id: str
    weights_hash: str
    dimension: int
    precision: str
    videos: str
    sets: tuple[FeatureSet, ...]
    streams: tuple[FeatureStream, ...] = ()

    @property
    def title(self) -> str:
        """Name of the encoder or of the stored features, with their streams."""
        streams = ", ".join(f"{stream.name} {stream.dimension:,}" for stream in self.streams)
        return f"{self.encoder_id} ({streams})" if streams else self.encoder_id

    @property
    def last(self) -> FeatureSet:
        """Set of features that the last run of `evenreel features` on the folder made."""
        return self.sets[-1]

    @property
    def rule(self) -> str:
        """Rule by which the last run of `evenreel features` sampled frames, in its standard words."""
        return self.last.rule

    @property
    def windows(self) -> int | None:
        """O, number of on-screen windows a clip in the last run of `evenreel features`; None without on-screen text."""
        return self.last.windows

    def find(self, rule: str | None = None, words: Words | None = None) -> FeatureSet | None:
        """Find the latest set of a sampling rule and a source of words; None where there is none."""
        fitting = (one for one in reversed(self.sets) if rule in (None, one.rule) and words in (None, one.words))
        return next(fitting, None)

    def chosen(self, folder: Path, names: Sequence[str]) -> tuple[FeatureStream, ...]:
        """Return the streams of these names, in the order of their columns; all streams where no name is given.

        Raises:
            FeaturesError: the folder has no such stream.
        """
        there = [stream.name for stream in self.streams]
        if names and not there:
            raise FeaturesError(
                f"The features in {folder} are of {self.encoder_id} and have no streams to choose from; leave "
                "data.streams out."
            )
        if strange := [name for name in names if name not in there]:
            raise FeaturesError(
                f"{folder} has no stream {strange[0]!r}; it has {', '.join(there)}. Name some of these, or none."
            )
        return tuple(stream for stream in self.streams if not names or stream.name in names)

    def after(self, there: Manifest) -> Manifest:
        """Merge this manifest of a run into that of its folder; known numbers of windows are kept."""
        new = self.last
        old = there.find(new.rule, new.words)
        if old is not None and new.windows is None:
            new = replace(new, windows=old.windows)
        return replace(self, sets=(*(one for one in there.sets if one != old), new))


def read_manifest(folder: str | PathLike[str]) -> Manifest:
    """Read the manifest of a folder of features.

    Raises:
        FeaturesError: the folder holds none, or it was written by a later version.
    """
    folder = as_path(folder, "folder")
    path = folder / MANIFEST
    try:
        fields = parse_json(path.read_text(encoding="utf-8"))
        manifest = None if _take(fields, "format", int) > MANIFEST_FORMAT else _build(fields)
    except FileNotFoundError as error:
        raise FeaturesError(f"There are no features in {folder}; make some with `evenreel features`.") from error
    except OSError as error:
        raise FeaturesError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedManifestError(f"{path} is damaged; run `evenreel features` again.") from error
    if manifest is None:
        raise FeaturesError(f"The features in {folder} were made by a later version; update evenreel to read them.")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Write the manifest of a run, merged with that of the folder."""
    there = manifest_beside(folder, manifest)
    if there is not None and there.precision != manifest.precision:
        raise FeaturesError(f"{folder} holds features in {there.precision}; name another --out, or that --precision.")
    new = manifest if there is None else manifest.after(there)
    if new != there:
        put_manifest(folder, new)
    return new


def manifest_beside(folder: Path, manifest: Manifest) -> Manifest | None:
    """Return the manifest of a folder that these features may go into; None where it has none or a damaged one."""
    there = None
    with contextlib.suppress(DamagedManifestError):
        there = read_manifest(folder) if (folder / MANIFEST).exists() else None
    owner = _owner(folder) if there is None else (there.encoder_id, there.weights_hash)
    if owner is not None and owner[1] != manifest.weights_hash:
        new = f"those of {manifest.title} are others" if manifest.streams else f"{manifest.title} has other weights"
        old = owner[0] if there is None else there.title
        raise FeaturesError(f"{folder} holds features of {old}, and {new}; name another --out.")
    return there


def put_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest, replacing that of the folder."""
    store(folder / MANIFEST, (json.dumps({"format": MANIFEST_FORMAT} | asdict(manifest), indent=2) + "\n").encode())


def feature_folder(corpus_folder: str | PathLike[str], encoder: Encoder) -> Path:
    """Return the usual folder of a corpus's features: `CORPUS/features/NAME-HASH`, then a lower precision."""
    name = encoder.encoder_id.partition("@")[0].replace("\\", "/").rstrip("/").rpartition("/")[2]
    lower = "" if precision_of(encoder) == FLOAT32 else f"-{precision_of(encoder)}"
    features = as_path(corpus_folder, "corpus_folder") / "features"
    return features / f"{re.sub(r'[^0-9A-Za-z._-]', '_', name)}-{encoder.weights_hash[:8]}{lower}"


def _owner(folder: Path) -> tuple[str, str] | None:
    """Return name and hash of the encoder by the first file that says them: files outlive a manifest."""
    for path in itertools.chain(shard_files(folder / CLIPS), block_files(folder)):
        with contextlib.suppress(Exception):  # a damaged header can fail in any way, and says nothing
            record = glance(path)
            return _take(record, "encoder_id", str), _take(record, "weights_hash", str)
    return None


def _build(fields: Mapping[str, Any]) -> Manifest:
    sets = []
    for one in _take(fields, "sets", list):
        windows = one["windows"] if one["windows"] is None else _take(one, "windows", int)
        if one["words"] not in get_args(Words):
            raise ValueError(f"words of {one['words']!r}")
        frame_window = one.get("frame_window")
        rule = None if frame_window is None else WindowRule(**frame_window)
        sets.append(FeatureSet(_take(one, "rule", str), one["words"], windows, rule))
    if not sets:
        raise ValueError("no set")
    texts = {name: _take(fields, name, str) for name in ("encoder_id", "weights_hash", "precision", "videos")}
    streams = tuple(FeatureStream(str(name), int(size)) for name, size in fields.get("streams", ()))
    return Manifest(**texts, dimension=_take(fields, "dimension", int), sets=tuple(sets), streams=streams)


def _take(fields: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = fields[name]
    if type(value) is not kind:  # a bool is an int
        raise TypeError(f"{name} is {value!r}")
    return value


# clips of a corpus ----------------------------------------------------------------------------------------------------

NO_PATH: tuple[Reason, str] = ("unreadable", "the corpus names no video for it; give it a path")
"""Reason and sentence of a clip without a file."""


@dataclass(frozen=True)
class CorpusClip:
    """A row of the corpus's table of clips; `path` is empty where the corpus names no file for it."""

    clip_id: str
    path: str
    part: Part
    fps: float | None = None


def clips_of(corpus: Corpus) -> Iterator[CorpusClip]:
    """Iterate over the clips of a corpus, in its order."""
    rows = corpus.clips.select("clip_id", "path", "start_s", "end_s", "fps").iter_rows()
    for clip_id, path, start_s, end_s, fps in rows:
        yield CorpusClip(clip_id, path or "", Part(start_s or None, end_s), fps)


def clip_aside(clip: CorpusClip, error: MediaError) -> SetAside:
    """Return the record of a clip that an error keeps from being used."""
    return SetAside(clip.clip_id, clip.path, error.reason, str(error))


def clip_key(digest: str, clip: CorpusClip, made: FeatureSet, precision: str = FLOAT32) -> str:
    """Compute the name of a clip's shard: 32 hex digits over the file's content, the clip's part of it, and the rule.

    Clips of equal content share a shard, unless the corpus ships words, which belong to the clip and not to its file.
    """
    named = [digest, clip.part.start_s, clip.part.end_s, made.rule]
    if precision != FLOAT32:
        named += ["precision", precision]
    if made.words == "corpus":
        named += ["words of clip", clip.clip_id]
    if made.frame_window is not None:
        named += ["windows of frames", *astuple(made.frame_window)]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


@dataclass
class FeatureReport(Shown):
    """Report of a run that computes features.

    Attributes:
        folder: folder of the features.
        encoder_id: name of the encoder.
        computed: clips that were read.
        unchanged: clips whose features were there, whole and up to date.
        frames: frames that were decoded.
        texts: captions that were encoded, equal ones once.
        texts_unchanged: distinct captions whose features were there.
        damaged: damaged files; their content was computed anew.
        set_aside: every clip of the corpus without features, also those known before.
        notes: path of a video, and what is unusual about it.
        seconds: length of the run.
    """

    folder: str
    encoder_id: str
    computed: int = 0
    unchanged: int = 0
    frames: int = 0
    texts: int = 0
    texts_unchanged: int = 0
    damaged: list[str] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def did_nothing(self) -> bool:
        """Whether all features were there already."""
        return not (self.computed or self.texts)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)
