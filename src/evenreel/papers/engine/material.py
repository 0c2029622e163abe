"""What a study works on, in memory: a test split with features or scores of it, and a split to learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.settings import AdaptSettings
from evenreel.adaptation.stream import EncodeTexts, taken
from evenreel.audits.settings import AuditSettings
from evenreel.checkpoint import Pretrained
from evenreel.corpus import select
from evenreel.corpus.counterparts import SETTING, counterparts
from evenreel.edits.frame_order import OrderStage
from evenreel.errors import CorpusError, UsageError
from evenreel.features import ClipAside
from evenreel.features.facts import ClipFacts
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine.caption_bank import CaptionBank
from evenreel.papers.engine.on_screen import ScreenText
from evenreel.training.recipe.recipe import Recipe
from evenreel.types import Corpus, Pixels, ScoreBlocks, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.encoders.encoder import TowerEncoder


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a corpus with features of all its captions and clips, made by `part_of`.

    Attributes:
        corpus: the part.
        texts: of its captions.
        videos: of its clips.
        on_screen: what is written in these, or in more of them; None where nobody says.
    """

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures
    on_screen: ScreenText | None = None

    def only(self, corpus: Corpus) -> Part:
        """Some of its clips, with their captions; features are copied where not all are taken."""
        captions, clips = tuple(corpus.captions["caption_id"]), tuple(corpus.clips["clip_id"])
        return Part(corpus, texts_of(self.texts, captions), videos_of(self.videos, clips), self.on_screen)

    def worded(self, words: WordChanges | None) -> Part:
        """The part with other words on screen, as `data.words` of a recipe has them.

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
        return replace(
            self,
            videos=replace(
                self.videos,
                windows=changed.windows,
                window_mask=changed.window_mask,
                window_confidence=changed.window_confidence,
            ),
        )

    def scores(self, matcher: Matcher, videos: VideoFeatures | None = None) -> ScoreBlocks:
        """Scores of every caption and clip; `videos` stand in for the part's own, for example in another order."""
        return matcher_scores(matcher, self.texts, self.videos if videos is None else videos)


@dataclass(frozen=True, eq=False)
class Model:
    """A matcher with the features of the test split that it takes.

    Attributes:
        name: that it is shown by.
        matcher: what ranks.
        part: the split.
        prepared: what its checkpoint carries of its source; None for nothing.
        read: reads new captions as the matcher takes them; None where nobody can.
    """

    name: str
    matcher: Matcher
    part: Part
    prepared: PreparedSource | None = None
    read: EncodeTexts | None = None


@dataclass(frozen=True, eq=False)
class Looking:
    """What it takes to look at clips.

    Attributes:
        encoder: of the features; its towers say what patches of a frame show.
        frames: those of a clip, named by its id, at some times of its features, (H, W, 3) uint8 each.
    """

    encoder: TowerEncoder
    frames: Callable[[str, Sequence[float]], list[Pixels]]


@dataclass(frozen=True, eq=False)
class StudyMaterial:
    """What a study is given; each needs some of it.

    Attributes:
        test: the split that is searched.
        models: matchers that are studied.
        scores: of other systems on the test split, by their names.
        features: of the test split, for studies that train.
        train: what these learn from.
        validation: what they are selected on, where the recipe names a split for it; None for a held-out part of
            `train`, or nothing.
        streams: dimension of each of the streams that stand side by side in the frames, by its name; empty where they
            are of one network.
        learned: the training split as the corpus has it, for studies that need no features; None where there is none.
        start: what these begin with; None for the recipe's matcher, untrained.
        rule: how the frames of both were sampled; empty where nobody says.
        weights_hash: of the encoder of both, likewise None.
        corpus: all splits, for an overview; None for the test split alone.
        facts: of the files of its clips; None where nobody looked at them.
        looking: for studies that show frames of clips; None where nobody can.
        name: what the corpus is called beside others.
        others: parts of other corpora with features alike, by their names, for studies of what holds there.
        bank: of captions of the training split, for studies that correct scores by these; None for none.
        set_aside: clips without features, since they could not be read.
        notices: what the reader must know of all that.
    """

    test: Corpus
    models: tuple[Model, ...] = ()
    scores: Mapping[str, ScoreBlocks] = field(default_factory=dict)
    features: Part | None = None
    train: Part | None = None
    validation: Part | None = None
    streams: Mapping[str, int] = field(default_factory=dict)
    learned: Corpus | None = None
    start: Pretrained | None = None
    rule: str = ""
    weights_hash: str | None = None
    corpus: Corpus | None = None
    facts: ClipFacts | None = None
    looking: Looking | None = None
    name: str = "own corpus"
    others: Mapping[str, Part] = field(default_factory=dict)
    bank: CaptionBank | None = None
    set_aside: tuple[ClipAside, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def whole(self) -> Corpus:
        """All splits, as far as they were given."""
        return self.test if self.corpus is None else self.corpus

    def systems(self) -> dict[str, ScoreBlocks]:
        """Scores of the models and of the other systems, by name.

        Raises:
            UsageError: there is none.
        """
        own = {model.name: model.part.scores(model.matcher) for model in self.models}
        if not own and not self.scores:
            raise UsageError("This study measures rankings; give it features of the test split, or scores of a system.")
        return own | dict(self.scores)

    def encoders(self) -> tuple[Model, ...]:
        """The models, for studies that change what they see.

        Raises:
            UsageError: there is none.
        """
        if not self.models:
            raise UsageError("This study changes what a model sees; give it features of the test split.")
        return self.models

    def pictures(self) -> Looking:
        """What it takes to look at clips.

        Raises:
            UsageError: there is nothing to look with.
        """
        if self.looking is None:
            raise UsageError("This study shows frames of clips; give it their videos and the encoder of the features.")
        return self.looking

    def learning(self) -> tuple[Part, Part]:
        """What is learned from, and what is searched afterwards.

        Raises:
            UsageError: one of them is missing.
        """
        if self.train is None or self.features is None:
            raise UsageError("This study trains; give it features of a training and of a test split.")
        return self.train, self.features

    def searched(self) -> dict[str, Part]:
        """Parts of other corpora, by their names, and the test split after them.

        Raises:
            UsageError: there are no others, or one has the name of the corpus.
        """
        _, test = self.learning()
        if not self.others:
            raise UsageError("This study asks what is found in corpora that nothing was learned from; give it some.")
        if self.name in self.others:
            raise UsageError(f"Two corpora are called {self.name!r}; call the other one something else.")
        return {**self.others, self.name: test}


@dataclass(frozen=True)
class StudySettings:
    """How a study is made.

    Attributes:
        recipe: of what is trained; its data and its seed are the study's.
        runs: folder for what training writes, in which broken-off work goes on; None for a temporary one.
        audit: samples and confidence of the intervals.
        seeds: trainings, or draws, of each kind.
        group: of the generated clips that are trained on, or looked at where only one group is; None: the only one.
        shares: of generated clips in training, from the least to the most; two at least.
        stage: whether the whole clip is put into another order before frames are taken of it (`video`), or the frames
            that were taken (`sampled`).
        frames: that are taken of each clip in studies of their order; None for all.
        action: the class that a study of one class is about: its numbers `VERB,NOUN` or what captions call it; None:
            the one that is most longer in test, or of whose captions the first system misses the most for its length.
        bases: matchers whose training a study of several compares.
        queries: captions that a study shows, by their ids; empty: those that it chooses.
        clips: clips that a study shows, by their ids; empty: those that are found.
        margin: points of R@1 that a shortlist may lose, for `rerank/depth`.
        adapt: how models learn from the test split without its labels, for studies of that; the seeds go out from its.
        tail_classes: csv files of verbs or nouns with few training clips; empty to find these by their frequency.
    """

    recipe: Recipe
    runs: Path | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)
    seeds: int = 5
    group: str | None = None
    shares: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    stage: OrderStage = "sampled"
    frames: int | None = None
    action: str | None = None
    bases: tuple[str, ...] = ("temporal", "wti", "x_clip")
    queries: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    margin: float = 1.0
    adapt: AdaptSettings = field(default_factory=AdaptSettings)
    tail_classes: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise UsageError(f"The number of seeds is {self.seeds}; it must be at least 1.")
        if not self.margin > 0:
            raise UsageError(f"The margin is {self.margin} points; it must be above 0.")
        if len(self.shares) < 2 or list(self.shares) != sorted(set(self.shares)):
            raise UsageError(f"The shares are {self.shares}; give two or more, the smaller one first.")


def part_of(corpus: Corpus, texts: TextFeatures, videos: VideoFeatures, on_screen: ScreenText | None = None) -> Part:
    """The clips and captions of a corpus that have features.

    Args:
        corpus: whose.
        texts: of its captions.
        videos: of its clips.
        on_screen: what is written in these; None where nobody says.

    Raises:
        CorpusError: none has.
    """
    kept = select(corpus, where=pl.col("clip_id").is_in(list(videos.ids)))
    if kept.captions.height == 0:
        raise CorpusError("No caption of the split has a clip with features; is it the right split?")
    return Part(kept, texts, videos, on_screen)


def texts_of(texts: TextFeatures, ids: tuple[str, ...]) -> TextFeatures:
    """Features of some captions, by their ids; nothing is copied where these are all."""
    if ids == texts.ids:
        return texts
    return taken(texts, _rows(texts.ids, ids))


def videos_of(videos: VideoFeatures, ids: tuple[str, ...]) -> VideoFeatures:
    """Features of some clips, likewise."""
    if ids == videos.ids:
        return videos
    rows = _rows(videos.ids, ids)
    windows, mask, certain = videos.windows, videos.window_mask, videos.window_confidence
    return VideoFeatures(
        ids,
        videos.frames[rows],
        videos.frame_mask[rows],
        videos.times_s[rows],
        None if windows is None else windows[rows],
        None if mask is None else mask[rows],
        None if videos.seen is None else videos.seen[rows],
        None if certain is None else certain[rows],
    )


def _rows(ids: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    place = {one: row for row, one in enumerate(ids)}
    return np.array([place[one] for one in wanted], np.int64)


def groups_in(corpus: Corpus) -> dict[str, str | None]:
    """Groups of generated clips that mirror real ones, in the corpus's order, and what their generators were given.

    Raises:
        CorpusError: there is none.
    """
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
    """The group of this name, or the only one that there is.

    Raises:
        CorpusError: there is no such group, or there are several and none is named.
    """
    found = list(groups_in(corpus))
    if group is None and len(found) > 1:
        raise CorpusError(
            f"This study looks at one group of generated clips, and there are {', '.join(found)}; name one with "
            "--group."
        )
    if group is not None and group not in found:
        raise CorpusError(f"No generated clips are called {group!r}; there are: {', '.join(found)}.")
    return found[0] if group is None else group
