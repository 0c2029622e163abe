"""What studies work on: a corpus with features, models, rankings and pictures in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.stream import EncodeTexts, shortened, taken
from evenreel.arrays import Indices
from evenreel.checkpoint import Pretrained
from evenreel.checkpoint.corpus_features import changed_texts, changed_words
from evenreel.corpus import select
from evenreel.corpus.counterparts import SETTING, counterparts
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import CorpusError, UsageError
from evenreel.features import FoundClips, SetAside, StoredClips
from evenreel.features.facts import ClipFacts
from evenreel.features.stored import joined
from evenreel.features.windows import EMPTY, TEMPLATE
from evenreel.features.word_changes import WordChanges, changed_signs
from evenreel.matchers.batches import row_lengths
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import Corpus, Pixels, ScoreBlocks, Shown, TextFeatures, TextTrack, VideoFeatures

# in memory ------------------------------------------------------------------------------------------------------------


class ClipText(NamedTuple):
    """On-screen text of a clip, by sign and by window.

    Attributes:
        signs: each sign once, with the stretch in which it is shown; once for each reading where it was misread.
        windows: O sentences, empty where no sign is shown.
    """

    signs: tuple[TextTrack, ...]
    windows: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ScreenText(Shown):
    """On-screen text behind the features of clips: to be read, or changed.

    Attributes:
        read: reads the text of each clip with features, by its id.
        changed: makes features of these clips with other words on screen.
    """

    read: Callable[[], Mapping[str, ClipText]]
    changed: Callable[[WordChanges], VideoFeatures]


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
        texts, videos, written = self.texts, self.videos, self.videos.on_screen
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
    """Encoder of a model's features, and a reader of clips' frames, for studies that show what a model sees."""

    encoder: LoadedEncoder  # encoder of the features; its towers say what patches of a frame show
    # reads the frames of a clip by its id, at some times of its features, (H, W, 3) uint8 each
    frames: Callable[[str, Sequence[float]], list[Pixels]]


@dataclass(frozen=True, eq=False)
class CaptionBank(Shown):
    """Training captions that scores are corrected by, read from disk as they are drawn: memory may not hold them all.

    Attributes:
        count: number of captions.
        read: reads the features of some captions by their places.
    """

    count: int
    read: Callable[[Indices], TextFeatures]

    def drawn(self, seed: int, most: int, words: int | None = None) -> TextFeatures:
        """Draw captions, and read their features in the order of the corpus.

        Args:
            seed: seed of the draw.
            most: most captions that are drawn.
            words: words that each caption is cut to; None for all.
        """
        texts = self.read(np.sort(np.random.default_rng([seed, 3]).permutation(self.count)[:most]))
        if words is None:
            return texts
        kept, mask = shortened(texts.words, texts.word_mask, words)
        return replace(texts, words=kept, word_mask=mask)


@dataclass(frozen=True, eq=False, kw_only=True)
class Workspace(Shown):
    """What a study is made on: a corpus, and as much beside it as the study looks at.

    Attributes:
        test: the split that is searched.
        corpus: all splits; None for the test split alone.
        set_aside: clips without features, since they could not be read.
        notices: what the reader must know of all that.
        features: features of the test split; None where there are none.
        train: what is learned from, with features; None where there is none.
        validation: what models are selected on; None for a held-out part of `train`, or nothing.
        learned: the training split without features, whose lengths are compared with; None where there is none.
        rule: how the frames of both splits were sampled; empty where nobody says.
        facts: headers of the files of all clips; None where nobody looked at them.
        models: matchers that are studied, with the features of the test split that each takes.
        scores: scores of other systems on the test split, by their names.
        bank: captions of the training split, for corrections of scores by these; None for none.
        looking: shows frames of clips; None where nobody can.
        streams: dimension of each of the streams that stand side by side in the frames, by its name; empty where they
            are of one network.
        start: what training begins with; None for the recipe's matcher, untrained.
        weights_hash: digest of the weights of the features' encoder; None where nobody says.
        name: what the corpus is called beside the others.
        others: parts of other corpora with features alike, by their names.
    """

    test: Corpus
    corpus: Corpus | None = None
    set_aside: tuple[SetAside, ...] = ()
    notices: tuple[str, ...] = ()
    features: CorpusPart | None = None
    train: CorpusPart | None = None
    validation: CorpusPart | None = None
    learned: Corpus | None = None
    rule: str = ""
    facts: ClipFacts | None = None
    models: tuple[Model, ...] = ()
    scores: Mapping[str, ScoreBlocks] = field(default_factory=dict)
    bank: CaptionBank | None = None
    looking: Looking | None = None
    streams: Mapping[str, int] = field(default_factory=dict)
    start: Pretrained | None = None
    weights_hash: str | None = None
    name: str = "own corpus"
    others: Mapping[str, CorpusPart] = field(default_factory=dict)

    @property
    def whole(self) -> Corpus:
        return self.test if self.corpus is None else self.corpus

    def learned_from(self) -> Corpus:
        """Return the training split; what a study lacks is refused here and below."""
        if self.learned is None:
            raise UsageError(
                "This study compares with what was learned from; give it a training split (--train-split)."
            )
        return self.learned

    def learning(self) -> tuple[CorpusPart, CorpusPart]:
        """Return the training split and the test split, both with features."""
        if self.train is None or self.features is None:
            raise UsageError("This study trains; give it features of a training and of a test split.")
        return self.train, self.features

    def longest(self, of: Literal["words", "frames", "windows"]) -> int:
        """Return the most words of a caption, or frames or windows of a clip, in the splits of a study that trains."""
        parts = [part for part in (*self.learning(), self.validation) if part is not None]
        if of == "windows":
            return max(0 if part.videos.on_screen is None else part.videos.on_screen.mask.shape[1] for part in parts)
        masks = (part.texts.word_mask if of == "words" else part.videos.frame_mask for part in parts)
        return max(int(row_lengths(mask).max(initial=0)) for mask in masks)

    def encoders(self) -> tuple[Model, ...]:
        if not self.models:
            raise UsageError("This study changes what a model sees; give it features of the test split.")
        return self.models

    def systems(self) -> dict[str, ScoreBlocks]:
        """Return the scores of the models and of the other systems, by name."""
        own = {model.name: model.part.scores(model.matcher) for model in self.models}
        if not own and not self.scores:
            raise UsageError("This study measures rankings; give it features of the test split, or scores of a system.")
        return own | dict(self.scores)

    def pictures(self) -> Looking:
        if self.looking is None:
            raise UsageError("This study shows frames of clips; give it their videos and the encoder of the features.")
        return self.looking

    def searched(self) -> dict[str, CorpusPart]:
        """Return the parts of other corpora by their names, and the test split after them."""
        _, test = self.learning()
        if not self.others:
            raise UsageError("This study asks what is found in corpora that nothing was learned from; give it some.")
        if self.name in self.others:
            raise UsageError(f"Two corpora are called {self.name!r}; call the other one something else.")
        return {**self.others, self.name: test}


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
    """Select streams of the frame features of a part of a corpus, as `data.streams` of a recipe says; empty for all.

    A clip one of whose frames is zero in every selected stream is left out, and so are its captions. `streams` are the
    dimension of each stream, which stand side by side, by its name.
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
    return texts if ids == texts.ids else taken(texts, _rows(texts.ids, ids))


def videos_of(videos: VideoFeatures, ids: tuple[str, ...]) -> VideoFeatures:
    """Select features of clips by their ids; nothing is copied where these are all."""
    return videos if ids == videos.ids else videos.taken(_rows(videos.ids, ids))


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
    joint = pairs.join(corpus.clips.select("clip_id", given), left_on="generated_id", right_on="clip_id")
    settings = dict(joint.select("group", SETTING).unique("group").iter_rows())
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


# words on screen ------------------------------------------------------------------------------------------------------


def on_screen_of(
    found: FoundClips | StoredClips, videos: VideoFeatures, changes: WordChanges | None = None
) -> ScreenText | None:
    """Return the on-screen text of clips whose features were loaded; None where nobody read any.

    Args:
        found: the clips, by `evenreel.features.find_clips`.
        videos: their features.
        changes: what was done to their words when they were loaded; None for nothing.
    """
    if isinstance(found, StoredClips) or videos.on_screen is None:
        return None
    return ScreenText(partial(_read, found, changes or WordChanges()), partial(changed_words, found, videos))


def _read(found: FoundClips, changes: WordChanges) -> dict[str, ClipText]:
    shards, _ = found.shards()
    if changes.changes_nothing:
        return {name: ClipText(shard.tracks or (), shard.window_texts or ()) for name, shard in shards.items()}
    said = changed_texts(found, changes)
    return {
        name: ClipText(changed_signs(shard, name, changes, found.made), said[name]) for name, shard in shards.items()
    }


def words_said(sentence: str) -> list[str]:
    """Split the sentence of a window into the on-screen words that it names.

    >>> words_said("There are scene texts: Gate 12 in this frame."), words_said("There is no scene text in this frame.")
    (['Gate', '12'], [])
    """
    before, after = TEMPLATE.split("{words}")
    return [] if sentence == EMPTY else sentence.removeprefix(before).removesuffix(after).split()
