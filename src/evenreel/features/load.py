"""Features of captions and clips read from their folders."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.config import MediaLimits, as_path, check_corpus
from evenreel.corpus.imported import some
from evenreel.corpus.tables import select
from evenreel.errors import CorpusError, FeaturesError, MediaError
from evenreel.features.manifest import (
    BATCH_TEXTS,
    BLOCK_TEXTS,
    NO_PATH,
    RECOMPUTE,
    CorpusClip,
    FeatureSet,
    Ledger,
    Manifest,
    Place,
    clip_key,
    clip_shard,
    clips_of,
    find_texts,
    halves,
    read_block,
    read_manifest,
    store,
)
from evenreel.features.pool import SetAside
from evenreel.features.scene_elements import clip_means
from evenreel.features.settings import Words, rule_text
from evenreel.features.shards import Shard, glance, read_shard, seal, unseal
from evenreel.features.stored import StoredClips, read_index, unread_captions
from evenreel.features.windows import Sampled, read_confidence
from evenreel.files import file_at
from evenreel.language.role_graphs import role_graph, role_graph_of_json
from evenreel.language.taggers import TaggerName, load_tagger
from evenreel.media.workers import Worker, content_digest
from evenreel.progress import Progress
from evenreel.types import Corpus, Encoder, FloatArray, OnScreen, Pixels, RoleGraph, Shown, TextFeatures, VideoFeatures

# Sentences of on-screen windows by an encoder, each encoded once and kept beside the features.
#
# A block is a file of `evenreel.features.shards` in the folder `sentences` of the features, with the array `sentence`
# (N, D) float16; the N texts are in its record, and digests of sentences that the tokenizer takes whole (`whole`) or
# would cut (`cut`), so that what was loaded once needs no model again. Blocks are never changed, and one that is lost
# or damaged costs time alone.

log = logging.getLogger("evenreel")

SENTENCES = "sentences"
FORMAT = 1

Vectors = dict[str, NDArray[np.float16]]


class Sentences:
    """Store of the vectors of on-screen sentences for one folder of features."""

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
        """Check that the encoder's tokenizer takes a sentence whole, without cutting it."""
        if text in self._known or text in self._blocks:
            return True
        name = _digest(text)
        if name not in self._fits:
            self._fits[name] = self._new_fits[name] = not self._model().truncated([text])[0]
        return self._fits[name]

    def vectors(self, texts: Iterable[str], progress: Progress = lambda share: None) -> Vectors:
        """Return the vector of each sentence, (D,) float16 of unit length; unknown ones are encoded and kept."""
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
            ours = (self._manifest.weights_hash, self._manifest.precision)
            if record["format"] > FORMAT or (record["weights_hash"], record["precision"]) != ours:
                return
            texts, whole, cut = record["texts"], record["whole"], record["cut"]
        except Exception as error:
            # A damaged header can fail in any way in the parser.
            _remove(path, error)
            return
        self._blocks |= dict.fromkeys(texts, path)
        self._fits |= dict.fromkeys(whole, True) | dict.fromkeys(cut, False)

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


# Role graphs beside the features of captions, for matchers that read these instead of features (`Limits.graphs`).

COLUMN = "role_graph"
"""Column of a corpus's captions with graphs in HGR's own form, see `evenreel.corpus.formats.captions`."""

_TAGGER: TaggerName = "pattern"
"""It is in every installation, so a caption is read as it was in training wherever the matcher goes."""

_BATCH = 256


def with_graphs(texts: TextFeatures, corpus: Corpus, progress: Progress = lambda share: None) -> TextFeatures:
    """Add the role graph of each caption to the features: the corpus's own where it has one, else one made by rules.

    Each distinct text is parsed once: 70,000 take half a minute.
    """
    table = corpus.captions
    if COLUMN not in table.columns:
        table = table.with_columns(pl.lit(None, pl.String).alias(COLUMN))
    if table.schema[COLUMN] not in (pl.String, pl.Null):
        raise CorpusError(
            f"The column {COLUMN} of the captions is {table.schema[COLUMN]}; it holds JSON as text, or is left out."
        )
    captions = {
        caption_id: (text, given) for caption_id, text, given in table.select("caption_id", "text", COLUMN).rows()
    }
    if missing := next((caption_id for caption_id in texts.ids if caption_id not in captions), None):
        raise FeaturesError(
            f"The corpus has no caption {missing}, of which there are features; give the corpus that they are of."
        )
    rows = [(caption_id, *captions[caption_id]) for caption_id in texts.ids]
    unread = list(dict.fromkeys(text for _, text, given in rows if given is None))
    of_text = dict(zip(unread, graphs_of(unread, progress), strict=True))
    of_json: dict[str, RoleGraph] = {}
    graphs = (of_text[text] if given is None else _read(given, caption_id, of_json) for caption_id, text, given in rows)
    return replace(texts, graphs=tuple(graphs))


def graphs_of(captions: Sequence[str], progress: Progress = lambda share: None) -> list[RoleGraph]:
    """Make the role graphs of captions by rules; `progress` is called with the share that is done."""
    tagger = load_tagger(_TAGGER)
    graphs: list[RoleGraph] = []
    for start in range(0, len(captions), _BATCH):
        graphs += map(role_graph, tagger.tag(captions[start : start + _BATCH]))
        progress(len(graphs) / len(captions))
    return graphs


def _read(text: str, caption_id: str, known: dict[str, RoleGraph]) -> RoleGraph:
    if text not in known:
        try:
            known[text] = role_graph_of_json(text)
        except CorpusError as error:
            raise CorpusError(f"Caption {caption_id}: {error}") from error
    return known[text]


READER = "evenreel.media.sound:MomentReader"


@dataclass(frozen=True, eq=False)
class ClipPictures:
    """Reads frames of a corpus's clips by their times; each clip in a process of its own, which can be killed."""

    corpus: Corpus  # the clips
    videos: Path  # folder in which the paths of the clips begin
    limits: MediaLimits  # limits of one clip

    def frames(self, clip_id: str, times_s: Sequence[float]) -> list[Pixels]:
        """Read the frames of a clip at some times, (H, W, 3) uint8 each."""
        clip = next((one for one in clips_of(self.corpus) if one.clip_id == clip_id), None)
        if clip is None or not clip.path:
            why = "the corpus has no such clip" if clip is None else NO_PATH[1]
            raise CorpusError(f"The clip {clip_id!r} cannot be shown: {why}.")
        start_s = clip.part.start_s or 0.0
        task = {"path": str(file_at(self.videos, clip.path)), "at_s": [start_s + float(time_s) for time_s in times_s]}
        worker = Worker(READER, {"limits": asdict(self.limits)}, self.limits)
        try:
            frames = [pixels for _, pixels in worker.run(task) if pixels is not None]
        except MediaError as error:
            raise MediaError(error.reason, f"The clip {clip_id!r} ({clip.path}) cannot be shown: {error}.") from error
        finally:
            worker.close()
        if len(frames) != len(times_s):
            raise MediaError(
                "no_frames",
                f"The clip {clip_id!r} ({clip.path}) has other frames than its features are of; is it another cut? "
                "Compute its features again with `evenreel features`.",
            )
        return frames


# Loading of features: checked, in the order of the corpus, padded, and never of other content.


def load_video_features(
    folder: str | Path,
    corpus: Corpus,
    *,
    rule: str | None = None,
    words: Words | None = None,
    windows: bool | None = None,
    leave_out_aside: bool = False,
) -> VideoFeatures:
    """Load the features of a corpus's clips, in its order; for a part of a corpus see `evenreel.corpus.select`.

    A video that seems changed is read for its digest; one that is missing, because the features were copied to another
    machine, is taken to be unchanged.

    Args:
        folder: made by `compute_features`.
        corpus: the clips to load.
        rule: how frames were sampled; None for the rule of the last run.
        words: source of on-screen text; None for that of the last run by that rule.
        windows: whether to load on-screen text; None: if the last run by that rule read it.
        leave_out_aside: leave out clips that were set aside, instead of refusing; `ids` says which are there.

    Raises:
        FeaturesError: a clip has no features, or was set aside; its video has changed; a file is damaged.
        UsageError: `rule` cannot be parsed.
    """
    clips = find_clips(folder, corpus, rule=rule, words=words, windows=windows)
    videos, aside = clips.load()
    if aside and not leave_out_aside:
        named = _some([one.clip_id for one in aside])
        raise FeaturesError(
            f"{len(aside):,} clips were skipped when the features in {clips.folder} were made ({named}); leave them "
            "out (leave_out_aside), or mend their videos and run `evenreel features` again."
        )
    return videos


def find_clips(
    folder: str | Path,
    corpus: Corpus,
    *,
    rule: str | None = None,
    words: Words | None = None,
    windows: bool | None = None,
    streams: Sequence[str] = (),
) -> FoundClips | StoredClips:
    """Find the features of a corpus's clips in a folder: each video is looked at once, and no feature is read yet.

    Args:
        folder: made by `compute_features`, or by `evenreel.features.stored.store_features`.
        corpus: the clips to find.
        rule: how frames were sampled; None for the rule of the last run.
        words: source of on-screen text; None for that of the last run by that rule.
        windows: whether to load on-screen text; None: if the last run by that rule read it.
        streams: names of the streams to use, of stored features; empty for all.

    Raises:
        FeaturesError: the folder holds no such features.
        UsageError: `rule` cannot be parsed.
    """
    folder = as_path(folder, "folder")
    check_corpus(corpus)
    manifest = read_manifest(folder)
    made = manifest.find(None if rule is None else rule_text(rule), words)
    if made is None:
        there = ", ".join(f"'{one}'" for one in manifest.sets)
        raise FeaturesError(
            f"{folder} holds features by {there}, not by what is asked for; run `evenreel features` with its --rule "
            "and --words."
        )
    if windows and made.windows is None:
        raise FeaturesError(
            f"The features in {folder} have no on-screen text; run `evenreel features` without --no-ocr."
        )
    if windows is False:
        made = replace(made, windows=None)
    chosen = manifest.chosen(folder, streams)
    if chosen:
        return StoredClips(folder, manifest, made, chosen, read_index(folder), tuple(clips_of(corpus)))
    ledger = Ledger.load(folder)
    digests: dict[str, str | None] = {"": None}
    keys = []
    for clip in clips_of(corpus):
        if clip.path not in digests:
            digests[clip.path] = _load_digest(ledger, clip.path, file_at(manifest.videos, clip.path))
        digest = digests[clip.path]
        keys.append((clip, clip_key(digest, clip, made, manifest.precision) if digest else None))
    return FoundClips(folder, manifest, made, ledger, tuple(keys))


def load_text_features(folder: str | Path, corpus: Corpus) -> TextFeatures:
    """Load the features of a corpus's captions, in its order; beside stored features they have D = 0.

    Raises:
        FeaturesError: a caption has no features, or a file is damaged.
    """
    folder = as_path(folder, "folder")
    check_corpus(corpus)
    manifest = read_manifest(folder)
    if manifest.streams:
        return unread_captions(corpus)
    texts, places = corpus.captions["text"].to_list(), _places(folder, manifest, corpus)
    mask = _mask([places[text].length for text in texts])
    words = np.zeros((*mask.shape, manifest.dimension), np.float16)
    sentence = np.zeros((len(texts), manifest.dimension), np.float16)
    by_block: dict[Path, list[int]] = {}
    for row, text in enumerate(texts):
        by_block.setdefault(places[text].block, []).append(row)
    for path, rows in by_block.items():  # one block at a time: the padded words are large enough
        block = read_block(path, manifest.weights_hash, manifest.precision)
        for row in rows:
            place = places[texts[row]]
            words[row, : place.length] = block.words_of(place.row)
            sentence[row] = block.sentence[place.row]
    return TextFeatures(tuple(corpus.captions["caption_id"]), words, mask, sentence)


# The mean frame of each clip by a tower before its training, beside features of the trained tower.


class PretrainedMeans(NamedTuple):
    """Means of the frames of V clips by the pretrained tower, (V, D), of any length, and its id."""

    means: FloatArray
    encoder_id: str
    weights_hash: str


def pretrained_means(folder: str | Path, corpus: Corpus, clip_ids: tuple[str, ...]) -> PretrainedMeans:
    """Compute the mean frame of some clips from features of the pretrained tower."""
    found = find_clips(folder, select(corpus, where=pl.col("clip_id").is_in(clip_ids)))
    if found.manifest.streams:
        raise FeaturesError(
            f"The features in {folder} were computed elsewhere, and captions have none in their space; give those of "
            "the encoder before its training."
        )
    videos, _ = found.load()
    means = clip_means(videos)[all_of(clip_ids, videos.ids, folder)]
    return PretrainedMeans(means, found.manifest.encoder_id, found.manifest.weights_hash)


def with_pretrained_means(videos: VideoFeatures, folder: str | Path, corpus: Corpus) -> VideoFeatures:
    """Add pretrained means to the features of clips."""
    return replace(videos, pretrained_mean=pretrained_means(folder, corpus, videos.ids).means)


def all_of(clip_ids: Sequence[str], there: Sequence[str], folder: str | Path) -> list[int]:
    """Return the row of each clip among those that were loaded; one that was skipped is refused."""
    place = {clip_id: row for row, clip_id in enumerate(there)}
    if missing := next((clip_id for clip_id in clip_ids if clip_id not in place), None):
        raise FeaturesError(
            f"The clip {missing} can be used, and was skipped when the features in {folder} were computed; compute "
            "them again."
        )
    return [place[clip_id] for clip_id in clip_ids]


def check_text_features(folder: str | Path, corpus: Corpus) -> None:
    """Check that all captions of a corpus have features, without reading them."""
    _places(Path(folder), read_manifest(Path(folder)), corpus)


def _places(folder: Path, manifest: Manifest, corpus: Corpus) -> dict[str, Place]:
    texts = corpus.captions["text"].to_list()
    places = find_texts(folder, texts, manifest.weights_hash, manifest.precision)
    if missing := sorted(set(texts) - places.keys()):
        raise _missing(folder, "captions", missing, len(set(texts)))
    return places


def pad_videos(
    ids: Sequence[str], shards: Sequence[Shard], windows: int | None, *, exact: bool = False
) -> VideoFeatures:
    """Pad the shards of some clips to one record."""
    frames = [_present(shard.frames) for shard in shards]
    mask = _mask([len(rows) for rows in frames])
    dimension = frames[0].shape[1] if frames else 0
    padded = np.zeros((*mask.shape, dimension), np.float16)
    padded[mask] = np.concatenate(frames) if frames else padded[mask]
    times_s = np.zeros(mask.shape)
    times_s[mask] = np.concatenate([shard.times_s for shard in shards]) if shards else times_s[mask]
    if windows is None:
        return VideoFeatures(tuple(ids), padded, mask, times_s)
    read = np.zeros((len(shards), windows, dimension), np.float16)
    written = np.zeros((len(shards), windows), np.bool_)
    confidence = np.zeros((len(shards), windows), np.float32)
    for row, shard in enumerate(shards):
        read[row] = _present(shard.windows)
        texts, sampled = shard.window_texts or (), Sampled.of_text(shard)
        written[row] = [bool(text) for text in texts]
        confidence[row] = read_confidence(shard.tracks or (), sampled, texts, exact=exact)
    return VideoFeatures(tuple(ids), padded, mask, times_s, OnScreen(read, written, confidence))


@dataclass(frozen=True)
class FoundClips(Shown):
    """Clips of a corpus in a folder of features.

    Attributes:
        folder: folder of the features.
        manifest: encoder and sampling of the folder.
        made: how the clips were read; its `windows` is None where on-screen text is not loaded.
        ledger: content of the videos when the features were made.
        keys: names of shards by clip, in the corpus's order; None where the video has changed since it was read.
    """

    folder: Path
    manifest: Manifest
    made: FeatureSet
    ledger: Ledger
    keys: tuple[tuple[CorpusClip, str | None], ...]

    @property
    def dimension(self) -> int:
        """D, length of a frame feature."""
        return self.manifest.dimension

    def load(self) -> tuple[VideoFeatures, tuple[SetAside, ...]]:
        """Load the features of the clips that have some; return the clips that were set aside too.

        Raises:
            FeaturesError: a clip has no features and was not set aside; a file is damaged.
        """
        shards, aside = self.shards()
        exact = self.made.words == "corpus"
        return pad_videos(list(shards), list(shards.values()), self.made.windows, exact=exact), aside

    def shards(
        self, without: Sequence[Literal["frames", "windows"]] = ()
    ) -> tuple[dict[str, Shard], tuple[SetAside, ...]]:
        """Load the shards of the clips that have features, by clip id; return the clips that were set aside too.

        Args:
            without: arrays to drop (None in every shard), to hold less in memory; words stay.

        Raises:
            FeaturesError: a clip has no features and was not set aside; a file is damaged.
        """
        left: dict[str, Any] = dict.fromkeys(map(str, without))
        shards: dict[str, Shard] = {}
        aside: list[SetAside] = []
        missing: list[str] = []
        for clip, key in self.keys:
            if (shard := self._shard(key)) is not None:
                shards[clip.clip_id] = replace(shard, **left)
            elif trouble := self._known_trouble(clip, key):
                aside.append(SetAside(clip.clip_id, clip.path, *trouble))
            else:
                missing.append(clip.clip_id)
        if missing:  # all in one message
            unread = " If they were read with --no-ocr, ask for them without on-screen text."
            raise _missing(self.folder, "clips", missing, len(self.keys), "" if self.made.windows is None else unread)
        return shards, tuple(aside)

    def fingerprint(self) -> dict[str, str | int | None]:
        """Return the identity of the loaded features, as plain data to record and to compare; reads no shard.

        Returns:
            `encoder_id`, `weights_hash`, `precision`, `rule`, `words`, `windows`, and `clips`: a digest over the ids of
            the clips, their parts, the content of their videos and the windows of frames that vectors are of.
        """
        keys = [(clip.clip_id, key) for clip, key in self.keys]
        return {
            "encoder_id": self.manifest.encoder_id,
            "weights_hash": self.manifest.weights_hash,
            "precision": self.manifest.precision,
            "rule": self.made.rule,
            "words": self.made.words,
            "windows": self.made.windows,
            "clips": hashlib.blake2b(json.dumps(keys).encode(), digest_size=16).hexdigest(),
        }

    def _known_trouble(self, clip: CorpusClip, key: str | None) -> tuple[str, str] | None:
        if not clip.path:
            return NO_PATH
        return self.ledger.unreadable.get(clip.path) or self.ledger.set_aside.get(key or "")

    def _shard(self, key: str | None) -> Shard | None:
        path = clip_shard(self.folder, key) if key else None
        if path is None or not path.exists():
            return None
        shard = read_shard(path, remedy=RECOMPUTE)
        if shard.weights_hash != self.manifest.weights_hash:
            raise FeaturesError(f"The shard {path} is of {shard.encoder_id}, another encoder; {RECOMPUTE}.")
        there = None if shard.window_texts is None else len(shard.window_texts)
        return shard if self.made.windows in (None, there) else None


def _load_digest(ledger: Ledger, path: str, place: Path) -> str | None:
    """Return the digest of a video; None where it was not looked at as it is now."""
    known = ledger.digest(path, place)
    if known is not None or path not in ledger.files:
        return known
    try:
        return content_digest(str(place))  # touched or copied, perhaps edited
    except MediaError:
        return None


def _mask(lengths: Sequence[int]) -> NDArray[np.bool_]:
    """(N, longest) True = real."""
    return np.asarray(np.arange(max(lengths, default=0)) < np.array(lengths, np.int64)[:, None])


def _present(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise FeaturesError("A shard of the features lacks what was asked of it; run `evenreel features` again.")
    return array


def _missing(folder: Path, what: str, missing: Sequence[str], of: int, more: str = "") -> FeaturesError:
    return FeaturesError(
        f"{len(missing):,} of {of:,} {what} have no up-to-date features in {folder} ({_some(missing)}); run `evenreel "
        f"features` for this corpus again.{more}"
    )


def _some(names: Sequence[str]) -> str:
    return some([repr(name[:60]) for name in names], 5)
