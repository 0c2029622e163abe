"""Parts of a corpus with their features, models with theirs, and the groups of generated clips that a split has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.stream import EncodeTexts, taken
from evenreel.corpus import select
from evenreel.corpus.counterparts import SETTING, counterparts
from evenreel.errors import CorpusError, UsageError
from evenreel.features.stored import joined
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine.on_screen import ScreenText
from evenreel.types import Corpus, Pixels, ScoreBlocks, Shown, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.encoders.loading import LoadedEncoder


class PartFolders(NamedTuple):
    """Folders behind a part of a corpus: its features, and the one in which the paths of its clips begin."""

    features: Path
    videos: Path


@dataclass(frozen=True, eq=False)
class CorpusPart(Shown):
    """Clips and captions of a corpus with features of all of them, made by `part_of`.

    Attributes:
        corpus: the clips and captions.
        texts: features of all captions.
        videos: features of all clips.
        on_screen: on-screen text of these clips, or of more; None where nobody read it.
        folders: where features and videos are, for studies that train towers; None where nobody says.
    """

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures
    on_screen: ScreenText | None = None
    folders: PartFolders | None = None

    def only(self, corpus: Corpus) -> CorpusPart:
        """Keep some of the clips, with their captions; features are copied unless all are kept."""
        captions, clips = tuple(corpus.captions["caption_id"]), tuple(corpus.clips["clip_id"])
        return replace(self, corpus=corpus, texts=texts_of(self.texts, captions), videos=videos_of(self.videos, clips))

    def without_vectors(self) -> CorpusPart:
        """Return the part with features of length 0, whose masks stay, for towers that make features of their own."""
        texts, videos = self.texts, self.videos
        written = videos.on_screen
        bare = None if written is None else replace(written, windows=written.windows[..., :0].copy())
        return replace(
            self,
            texts=replace(texts, words=texts.words[..., :0].copy(), sentence=texts.sentence[..., :0].copy()),
            videos=replace(videos, frames=videos.frames[..., :0].copy(), on_screen=bare),
        )

    def worded(self, words: WordChanges | None) -> CorpusPart:
        """Change the on-screen words of the clips, as `data.words` of a recipe says.

        Raises:
            UsageError: nobody says which words there are.
            EvenreelError: as `evenreel.features.word_changes.with_changed_words`.
        """
        if words is None or words.changes_nothing:
            return self
        if self.on_screen is None:
            raise UsageError(
                "This study changes words on screen (data.words); give it features that know them, computed without "
                "--no-ocr."
            )
        changed = videos_of(self.on_screen.changed(words), self.videos.ids)
        return replace(self, videos=replace(self.videos, on_screen=changed.on_screen))

    def scores(self, matcher: Matcher, videos: VideoFeatures | None = None) -> ScoreBlocks:
        """Score every caption and clip; `videos` stand in for the part's own, for example in another frame order."""
        return matcher_scores(matcher, self.texts, self.videos if videos is None else videos)


@dataclass(frozen=True, eq=False)
class Model(Shown):
    """A matcher with the features of the test split that it takes.

    Attributes:
        name: name that the model is shown by.
        matcher: matcher that ranks.
        part: test split with features.
        prepared: what its checkpoint carries of its source; None for nothing.
        read: reads new captions as the matcher takes them; None where nobody can.
    """

    name: str
    matcher: Matcher
    part: CorpusPart
    prepared: PreparedSource | None = None
    read: EncodeTexts | None = None


@dataclass(frozen=True, eq=False)
class Looking(Shown):
    """Encoder of a model's features, and a reader of clips' frames, for studies that show what a model sees.

    Attributes:
        encoder: encoder of the features; its towers say what patches of a frame show.
        frames: reads the frames of a clip by its id, at some times of its features, (H, W, 3) uint8 each.
    """

    encoder: LoadedEncoder
    frames: Callable[[str, Sequence[float]], list[Pixels]]


def part_of(
    corpus: Corpus, texts: TextFeatures, videos: VideoFeatures, on_screen: ScreenText | None = None
) -> CorpusPart:
    """Select the clips and captions of a corpus that have features.

    Args:
        corpus: corpus to select from.
        texts: features of its captions.
        videos: features of its clips.
        on_screen: on-screen text of the clips; None where nobody read it.

    Raises:
        CorpusError: no caption has a clip with features.
    """
    kept = select(corpus, where=pl.col("clip_id").is_in(list(videos.ids)))
    if kept.captions.height == 0:
        raise CorpusError("No caption of the split has a clip with features; is it the right split?")
    return CorpusPart(kept, texts, videos, on_screen)


def with_streams(part: CorpusPart, streams: Mapping[str, int], names: Sequence[str]) -> CorpusPart:
    """Select streams of the frame features of a part of a corpus, as `data.streams` of a recipe says.

    A clip one of whose frames is zero in every selected stream is left out, and so are its captions.

    Args:
        part: part whose frames hold all streams side by side.
        streams: dimension of each stream by its name, in the order of the columns.
        names: names of the streams to keep; empty for all.
    """
    if not names or set(names) >= set(streams):
        return part
    columns = np.concatenate([np.full(count, name in names) for name, count in streams.items()])
    videos = part.videos
    frames = np.zeros((*videos.frames.shape[:2], int(columns.sum())), np.float16)
    kept = []
    for clip_id, mask, own, left in zip(videos.ids, videos.frame_mask, videos.frames, frames, strict=True):
        left[mask] = joined([own[mask][:, columns].astype(np.float32)])
        if left[mask].any(axis=1).all():
            kept.append(clip_id)
    corpus = select(part.corpus, where=pl.col("clip_id").is_in(kept))
    return replace(part, videos=replace(videos, frames=frames)).only(corpus)


def texts_of(texts: TextFeatures, ids: tuple[str, ...]) -> TextFeatures:
    """Select features of captions by their ids; nothing is copied where these are all."""
    if ids == texts.ids:
        return texts
    return taken(texts, _rows(texts.ids, ids))


def videos_of(videos: VideoFeatures, ids: tuple[str, ...]) -> VideoFeatures:
    """Select features of clips by their ids; nothing is copied where these are all."""
    if ids == videos.ids:
        return videos
    return videos.taken(_rows(videos.ids, ids))


def _rows(ids: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    place = {one: row for row, one in enumerate(ids)}
    return np.array([place[one] for one in wanted], np.int64)


def groups_in(corpus: Corpus) -> dict[str, str | None]:
    """Return the groups of generated clips that mirror real ones, and what the generator of each was given."""
    pairs = counterparts(corpus)
    if pairs.height == 0:
        raise CorpusError(
            "No generated clip of the test split mirrors a real one; add some with `evenreel corpus pair`, or choose "
            "the split that has them with --split."
        )
    names: list[str] = pairs["group"].unique(maintain_order=True).to_list()
    if SETTING not in corpus.clips.columns:
        return dict.fromkeys(names)
    given = pl.col(SETTING).cast(pl.String)
    joined = pairs.join(corpus.clips.select("clip_id", given), left_on="generated_id", right_on="clip_id")
    settings = dict(joined.select("group", SETTING).unique("group").iter_rows())
    return {name: settings[name] for name in names}


def one_group(corpus: Corpus, group: str | None) -> str:
    """Return the group of generated clips of this name, or the only one there is."""
    found = list(groups_in(corpus))
    if group is None and len(found) > 1:
        raise CorpusError(
            f"This study looks at one group of generated clips, and there are {', '.join(found)}; name one with "
            "--group."
        )
    if group is not None and group not in found:
        raise CorpusError(f"No generated clips are called {group!r}; there are: {', '.join(found)}.")
    return found[0] if group is None else group
