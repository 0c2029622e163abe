"""Reading features back: checked, in the order of the corpus, padded, and never of another content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import FeaturesError, MediaError
from evenreel.features.folder import RECOMPUTE, Ledger, Manifest, clip_key, clip_shard, read_manifest
from evenreel.features.shards import Shard, read_shard
from evenreel.features.texts import Place, find_texts, read_block
from evenreel.media import parse_rule
from evenreel.media.content import content_digest
from evenreel.media.parts import Part
from evenreel.types import Corpus, TextFeatures, VideoFeatures

_SHOWN = 5


def load_video_features(
    folder: str | Path,
    corpus: Corpus,
    *,
    rule: str | None = None,
    windows: bool | None = None,
    leave_out_aside: bool = False,
) -> VideoFeatures:
    """The features of a corpus's clips, in its order; ask for a part of a corpus with `evenreel.corpus.select`.

    A video that is there and has changed since is read for its digest; one that is not there, because the features
    were taken to another machine, is believed to be the one that was looked at.

    Args:
        folder: made by `compute_features`.
        corpus: whose clips.
        rule: how frames were sampled; None for the rule of the last run.
        windows: whether on-screen text is wanted; None for what the last run had.
        leave_out_aside: leave out clips that were set aside, instead of refusing; `ids` says which are there.

    Raises:
        FeaturesError: a clip has no features, or was set aside; its video has changed; a file is damaged.
        UsageError: `rule` is not one.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    chosen = manifest.rule if rule is None else str(parse_rule(rule))
    wanted = _Wanted(folder, manifest, chosen, manifest.windows if windows in (None, True) else None)
    if windows and manifest.windows is None:
        raise FeaturesError(
            f"The features in {folder} have no on-screen text; run `evenreel features` without --no-ocr."
        )
    shards = wanted.shards(corpus, leave_out_aside)
    return pad_videos(list(shards), list(shards.values()), wanted.windows)


def load_text_features(folder: str | Path, corpus: Corpus) -> TextFeatures:
    """The features of a corpus's captions, in its order.

    Raises:
        FeaturesError: a caption has no features, or a file is damaged.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    texts = corpus.captions["text"].to_list()
    places = find_texts(folder, texts)
    if missing := sorted(set(texts) - places.keys()):
        raise FeaturesError(_missing(folder, "captions", missing, len(set(texts))))
    mask = _mask([places[text].length for text in texts])
    words = np.zeros((*mask.shape, manifest.dimension), np.float16)
    sentence = np.zeros((len(texts), manifest.dimension), np.float16)
    for path, rows in _by_block(texts, places).items():  # one block at a time: the padded words are large enough
        block = read_block(path, manifest.weights_hash)
        for row in rows:
            place = places[texts[row]]
            words[row, : place.length] = block.words_of(place.row)
            sentence[row] = block.sentence[place.row]
    return TextFeatures(tuple(corpus.captions["caption_id"]), words, mask, sentence)


def pad_videos(ids: Sequence[str], shards: Sequence[Shard], windows: int | None) -> VideoFeatures:
    """Shards of some clips as one padded record.

    Args:
        ids: V ids.
        shards: V shards, all with frames of one encoder.
        windows: O of every shard; None leaves on-screen text out.
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
    for row, shard in enumerate(shards):
        read[row] = _present(shard.windows)
        written[row] = [bool(text) for text in shard.window_texts or ()]
    return VideoFeatures(tuple(ids), padded, mask, times_s, read, written)


@dataclass(frozen=True)
class _Wanted:
    """What of a folder is asked for."""

    folder: Path
    manifest: Manifest
    rule: str
    windows: int | None

    def shards(self, corpus: Corpus, leave_out_aside: bool) -> dict[str, Shard]:
        """The shard of each clip, by id; what is missing is told all at once."""
        ledger = Ledger.load(self.folder)
        digests = {path: self._digest(ledger, path) for path in corpus.clips["path"].unique().drop_nulls()}
        found: dict[str, Shard] = {}
        missing: list[str] = []
        aside: list[str] = []
        for clip_id, path, start_s, end_s in corpus.clips.select("clip_id", "path", "start_s", "end_s").iter_rows():
            digest = digests.get(path)
            key = clip_key(digest, Part(start_s or None, end_s), self.rule) if digest else None
            shard = self._shard(key) if key else None
            if shard is not None:
                found[clip_id] = shard
            elif path is None or path in ledger.unreadable or (key and key in ledger.set_aside):
                aside.append(clip_id)
            else:
                missing.append(clip_id)
        if missing:
            raise FeaturesError(_missing(self.folder, "clips", missing, corpus.clips.height))
        if aside and not leave_out_aside:
            raise FeaturesError(_aside(self.folder, aside))
        return found

    def _digest(self, ledger: Ledger, path: str) -> str | None:
        """The digest of a video; None where nobody has looked at it as it is now."""
        place = Path(self.manifest.videos) / path
        known = ledger.digest(path, place)
        if known is not None or path not in ledger.files:
            return known
        try:
            return content_digest(str(place))  # touched or copied, perhaps edited
        except MediaError:
            return None

    def _shard(self, key: str) -> Shard | None:
        path = clip_shard(self.folder, key)
        if not path.exists():
            return None
        shard = read_shard(path, remedy=RECOMPUTE)
        if shard.weights_hash != self.manifest.weights_hash:
            raise FeaturesError(f"The shard {path} is of {shard.encoder_id}, another encoder; {RECOMPUTE}.")
        if self.windows is None or (shard.window_texts is not None and len(shard.window_texts) == self.windows):
            return shard
        return None


def _by_block(texts: Sequence[str], places: Mapping[str, Place]) -> dict[Path, list[int]]:
    """The captions whose features each block holds."""
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
        f"{len(aside):,} clips were set aside when the features in {folder} were made ({_some(aside)}); leave them out "
        "(leave_out_aside), or mend their videos and run `evenreel features` again."
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:60]) for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
