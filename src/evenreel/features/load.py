"""Loading of features: checked, in the order of the corpus, padded, and never of other content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenreel.config import as_path, check_corpus
from evenreel.errors import FeaturesError, MediaError
from evenreel.features.folder import RECOMPUTE, Ledger, clip_shard
from evenreel.features.manifest import NO_PATH, CorpusClip, FeatureSet, Manifest, clip_key, clips_of, read_manifest
from evenreel.features.pool import SetAside
from evenreel.features.settings import Words, rule_text
from evenreel.features.shards import Shard, read_shard
from evenreel.features.stored.clips import StoredClips, read_index, unread_captions
from evenreel.features.texts import Place, find_texts, read_block
from evenreel.features.windows import Sampled, read_confidence
from evenreel.files import file_at
from evenreel.media.workers import content_digest
from evenreel.types import Corpus, OnScreen, Shown, TextFeatures, VideoFeatures

_SHOWN = 5


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
        raise FeaturesError(_aside(clips.folder, [one.clip_id for one in aside]))
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
        folder: made by `compute_features`, or by `evenreel.features.stored.store.store_features`.
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
    made = _asked_for(folder, manifest, rule, words)
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
    return FoundClips(folder, manifest, made, ledger, tuple(_keys(manifest, made, ledger, corpus)))


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
    for path, rows in _by_block(texts, places).items():  # one block at a time: the padded words are large enough
        block = read_block(path, manifest.weights_hash, manifest.precision)
        for row in rows:
            place = places[texts[row]]
            words[row, : place.length] = block.words_of(place.row)
            sentence[row] = block.sentence[place.row]
    return TextFeatures(tuple(corpus.captions["caption_id"]), words, mask, sentence)


def check_text_features(folder: str | Path, corpus: Corpus) -> None:
    """Check that all captions of a corpus have features, without reading them.

    Raises:
        FeaturesError: a caption has none.
    """
    _places(Path(folder), read_manifest(Path(folder)), corpus)


def _places(folder: Path, manifest: Manifest, corpus: Corpus) -> dict[str, Place]:
    texts = corpus.captions["text"].to_list()
    places = find_texts(folder, texts, manifest.weights_hash, manifest.precision)
    if missing := sorted(set(texts) - places.keys()):
        raise FeaturesError(_missing(folder, "captions", missing, len(set(texts))))
    return places


def pad_videos(
    ids: Sequence[str], shards: Sequence[Shard], windows: int | None, *, exact: bool = False
) -> VideoFeatures:
    """Pad the shards of some clips to one record.

    Args:
        ids: V ids.
        shards: V shards, all with frames of one encoder.
        windows: O of every shard; None leaves on-screen text out.
        exact: whether tracks say when signs appear and vanish, see `evenreel.features.windows.with_windows`.
    """
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
            elif trouble := _known_trouble(clip, key, self.ledger):
                aside.append(SetAside(clip.clip_id, clip.path, *trouble))
            else:
                missing.append(clip.clip_id)
        if missing:  # all in one message
            raise FeaturesError(_missing(self.folder, "clips", missing, len(self.keys)) + self._remedy())
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

    def _remedy(self) -> str:
        return (
            ""
            if self.made.windows is None
            else " If they were read with --no-ocr, ask for them without on-screen text."
        )

    def _shard(self, key: str | None) -> Shard | None:
        path = clip_shard(self.folder, key) if key else None
        if path is None or not path.exists():
            return None
        shard = read_shard(path, remedy=RECOMPUTE)
        if shard.weights_hash != self.manifest.weights_hash:
            raise FeaturesError(f"The shard {path} is of {shard.encoder_id}, another encoder; {RECOMPUTE}.")
        there = None if shard.window_texts is None else len(shard.window_texts)
        return shard if self.made.windows in (None, there) else None


def _asked_for(folder: Path, manifest: Manifest, rule: str | None, words: Words | None) -> FeatureSet:
    made = manifest.find(None if rule is None else rule_text(rule), words)
    if made is None:
        there = ", ".join(f"'{one}'" for one in manifest.sets)
        raise FeaturesError(
            f"{folder} holds features by {there}, not by what is asked for; run `evenreel features` with its --rule "
            "and --words."
        )
    return made


def _keys(
    manifest: Manifest, made: FeatureSet, ledger: Ledger, corpus: Corpus
) -> Iterator[tuple[CorpusClip, str | None]]:
    """Iterate over clips and the names of their shards; None where the video was not looked at as it is now."""
    digests: dict[str, str | None] = {"": None}
    for clip in clips_of(corpus):
        if clip.path not in digests:
            digests[clip.path] = _digest(ledger, clip.path, file_at(manifest.videos, clip.path))
        digest = digests[clip.path]
        yield clip, clip_key(digest, clip, made, manifest.precision) if digest else None


def _digest(ledger: Ledger, path: str, place: Path) -> str | None:
    """Return the digest of a video; None where it was not looked at as it is now."""
    known = ledger.digest(path, place)
    if known is not None or path not in ledger.files:
        return known
    try:
        return content_digest(str(place))  # touched or copied, perhaps edited
    except MediaError:
        return None


def _known_trouble(clip: CorpusClip, key: str | None, ledger: Ledger) -> tuple[str, str] | None:
    """Return reason and sentence of a clip that is known to be unreadable; else None."""
    if not clip.path:
        return NO_PATH
    return ledger.unreadable.get(clip.path) or ledger.set_aside.get(key or "")


def _by_block(texts: Sequence[str], places: Mapping[str, Place]) -> dict[Path, list[int]]:
    """Group captions by the block that holds their features."""
    rows: dict[Path, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(places[text].block, []).append(row)
    return rows


def _mask(lengths: Sequence[int]) -> NDArray[np.bool_]:
    """(N, longest) True = real."""
    return np.asarray(np.arange(max(lengths, default=0)) < np.array(lengths, np.int64)[:, None])


def _present(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise FeaturesError("A shard of the features lacks what was asked of it; run `evenreel features` again.")
    return array


def _missing(folder: Path, what: str, missing: Sequence[str], of: int) -> str:
    return (
        f"{len(missing):,} of {of:,} {what} have no up-to-date features in {folder} ({_some(missing)}); run `evenreel "
        "features` for this corpus again."
    )


def _aside(folder: Path, aside: Sequence[str]) -> str:
    return (
        f"{len(aside):,} clips were skipped when the features in {folder} were made ({_some(aside)}); leave them out "
        "(leave_out_aside), or mend their videos and run `evenreel features` again."
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:60]) for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
