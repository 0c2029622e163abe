"""What studies work on, in memory and how it is read from disk: a corpus with features, models, rankings, pictures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.adaptation.prepared import PreparedSource, load_prepared
from evenreel.adaptation.resources import shortened, text_reader
from evenreel.adaptation.stream import EncodeTexts, taken
from evenreel.adaptation.zero_shot import zero_shot
from evenreel.arrays import Indices
from evenreel.checkpoint import MatcherSpec, Pretrained, checkpoint_folder, load_features_for, load_matcher
from evenreel.checkpoint.architecture import encodings, reads_graphs
from evenreel.checkpoint.named import named_matcher, names_no_checkpoint
from evenreel.checkpoint.word_changes import changed_texts, changed_words
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, select
from evenreel.corpus.counterparts import SETTING, counterparts
from evenreel.encoders import load_encoder
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FoundClips, SetAside, StoredClips, find_clips, load_text_features, read_manifest
from evenreel.features.facts import FACTS, ClipFacts, FactSettings, clip_facts
from evenreel.features.graphs import with_graphs
from evenreel.features.load import check_text_features
from evenreel.features.pictures import ClipPictures
from evenreel.features.settings import rule_text
from evenreel.features.stored.clips import joined
from evenreel.features.windows import EMPTY, TEMPLATE
from evenreel.features.word_changes import WordChanges, changed_signs
from evenreel.matchers.batches import row_lengths
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.study import (
    FILES,
    LENGTH_RANKINGS,
    LENGTHS,
    PAIRS,
    STREAMS,
    WORDS,
    OtherCorpus,
    Sources,
    Study,
    StudySettings,
)
from evenreel.progress import Progress
from evenreel.report.words import merge_sentences
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.specs import spec_of
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


# read from disk -------------------------------------------------------------------------------------------------------

ZERO_SHOT = "mean_pool"
"""The model that is studied where none is named: the towers as they are."""


def open_workspace(
    study: Study,
    corpus: Path,
    sources: Sources,
    settings: StudySettings | None = None,
    progress: Progress = lambda share: None,
) -> Workspace:
    """Read what a study needs, and nothing else; the recipe of one that trains says what has to be read for it."""
    return _Reader(study, corpus, sources, settings).read(progress)


class _Reader:
    """A corpus on disk, and the notices gathered as what stands beside it is read."""

    def __init__(self, study: Study, folder: Path, sources: Sources, settings: StudySettings | None) -> None:
        self.study, self.folder, self.sources, self.whole = study, folder, sources, load_corpus(folder)
        self.test = select(self.whole, split=sources.split)
        self.recipe: Recipe | None = settings.recipe if settings is not None and "recipe" in study.options else None
        self.bases = settings.bases if settings is not None and "bases" in study.options else ()
        self.says_words = "words" in study.needs.sources
        self.set_aside: list[SetAside] = []
        self.notices: list[str] = []
        self.of_systems: dict[str, list[str]] = {}
        self.rule, self.streams = "", dict[str, int]()
        self.start: Pretrained | None = None
        self.weights_hash: str | None = None
        self.towers = self.pretrained_asked = self.graphs = False

    def read(self, progress: Progress) -> Workspace:
        needs, sources = self.study.needs, self.sources
        if self.study.mirrors:
            groups_in(self.test)
        if needs.features:
            _ = self.features  # refuses what names none
        found = Workspace(test=self.test, corpus=self.whole)
        if needs is FILES or needs is PAIRS:
            found = self._paired(found, progress)
        elif "start" in needs.sources:
            found = self._trained_on(found)
        elif self.says_words:
            found = replace(found, features=self._part(self.test))
        if "matchers" in needs.sources:
            found = self._ranking(found)
        if needs in (LENGTHS, LENGTH_RANKINGS):
            found = replace(found, learned=self._learned(sources.train_split))
        told = (*self.notices, *merge_sentences(self.of_systems))
        aside, notices = tuple(dict.fromkeys(self.set_aside)), tuple(dict.fromkeys(told))
        return replace(found, set_aside=aside, notices=notices)

    def _learned(self, name: str) -> Corpus | None:
        """The training split; None where there is none, and a study of lengths says which there are."""
        there = self.study.needs is LENGTHS or name in self.whole.clips["split"]
        return select(self.whole, split=name) if there else None

    def _paired(self, found: Workspace, progress: Progress) -> Workspace:
        """Real clips and their mirrors in both splits by one frame rule, and headers of all files."""
        sources = self.sources
        if sources.features is not None:
            train, features = self._split(sources.train_split), self._part(self.test)
            found = replace(found, train=train, features=features, rule=self.rule)
        if self.study.needs is PAIRS:
            return found
        files = FactSettings(sources.videos or self.folder, self.folder / FACTS)
        return replace(found, facts=clip_facts(self.whole, files, progress))

    def _ranking(self, found: Workspace) -> Workspace:
        """Models, scores of other systems, what shows clips, and what corrects by training captions."""
        needs, sources = self.study.needs, self.sources
        if sources.features is None and not sources.scores:
            raise UsageError(
                "This study measures rankings; name features that a model can rank by (--features), or scores "
                "(--scores NAME=FILE)."
            )
        if sources.features is None and sources.matchers:
            raise UsageError("A matcher ranks by features; name their folder with --features.")
        models = () if sources.features is None else self._models()
        scores = {name: self._scores(name, path) for name, path in sources.scores.items()}
        looking = self._looking() if "videos" in needs.sources else None
        bank = self._bank(self._learned(sources.train_split), models) if needs is STREAMS else None
        return replace(found, models=models, scores=scores, looking=looking, bank=bank)

    @property
    def features(self) -> Path:
        if self.sources.features is None:
            raise UsageError(
                "This study needs features of the corpus; name their folder with --features (`evenreel features` makes "
                "it)."
            )
        return self.sources.features

    def _scores(self, name: str, path: Path) -> ScoreBlocks:
        """Of another system; what it leaves out is measured without."""
        said = self.of_systems.setdefault(name, [])
        return load_scores(path, self.test, partial=True, whole=self.whole, notice=said.append)

    # pictures and captions

    @cached_property
    def encoder(self) -> LoadedEncoder:
        manifest = read_manifest(self.features)
        encoder = load_encoder(manifest.encoder_id, device=self.sources.device, precision=manifest.precision)
        if encoder.weights_hash != manifest.weights_hash:
            raise FeaturesError(
                f"The features in {self.features} are of {manifest.title} with other weights than it has now; "
                "compute them again with `evenreel features`."
            )
        return encoder

    def _looking(self) -> Looking:
        manifest = read_manifest(self.features)
        if manifest.streams:
            raise UsageError(
                f"The features in {self.features} are of {manifest.title}, which others computed: there are "
                "no towers to look at frames with. Compute features with `evenreel features --model`."
            )
        found = ClipPictures(self.test, self.sources.videos or Path(manifest.videos), MediaLimits())
        return Looking(self.encoder, found.frames)

    def _bank(self, train: Corpus | None, models: Sequence[Model]) -> CaptionBank | None:
        """Captions of the training split, as the models take them; None where there are none with features."""
        if train is None or not train.captions.height or read_manifest(self.features).streams:
            return None
        graphs, captions, clips = any(one.matcher.limits.graphs for one in models), train.captions, train.clips
        try:
            check_text_features(self.features, train)
        except FeaturesError as error:
            self.notices.append(f"Nothing is corrected by training captions: {error}")
            return None

        def read(rows: Indices) -> TextFeatures:
            some = Corpus(clips, captions[rows])
            texts = load_text_features(self.features, some)
            return with_graphs(texts, some) if graphs else texts

        return CaptionBank(captions.height, read)

    # models

    def _models(self) -> tuple[Model, ...]:
        """The matchers that the user names with their features, or `mean_pool` where none is named."""
        named = self.sources.matchers or {ZERO_SHOT: ZERO_SHOT}
        found = tuple(self._model(name, place) for name, place in named.items())
        self._check_pretrained()
        return found

    def _model(self, name: str, place: str) -> Model:
        device, learns = self.sources.device, self.study.needs is STREAMS
        pretrained = named_matcher(place, self.features, device=device)
        if learns and place == ZERO_SHOT and names_no_checkpoint(place):
            pretrained = zero_shot(pretrained.about.encoder, device=device)
        loaded = load_features_for(
            pretrained, self.features, self.test, pretrained_features=self._pretrained_features(pretrained)
        )
        self._put_aside(loaded.set_aside)
        self.of_systems.setdefault(name, []).extend(f"{notice}." for notice in loaded.notices)
        self.notices += [f"{name} is scored with {use}, as it was trained." for use in loaded.uses]
        if self.says_words and loaded.videos.on_screen is not None:
            self.notices.append(f"The on-screen text that {name} reads is {WORDS[loaded.found.made.words]}.")
        self.notices += [f"{name} was trained with {use}, and so are its scores." for use in pretrained.about.uses]
        if (times := encodings(pretrained.spec)) > 1:
            self.notices.append(
                f"{name} encodes each clip {times} times, and as many galleries are kept to search with."
            )
        on_screen = on_screen_of(loaded.found, loaded.videos, pretrained.about.inputs.word_changes)
        model = Model(name, pretrained.matcher, part_of(self.test, loaded.texts, loaded.videos, on_screen))
        if not learns:
            return model
        prepared = None if names_no_checkpoint(place) else load_prepared(checkpoint_folder(place))

        def read(sentences: Sequence[str]) -> TextFeatures:
            return text_reader(self.encoder, model.matcher)(sentences)  # its encoder is loaded when the first comes

        return replace(model, prepared=prepared, read=None if read_manifest(self.features).streams else read)

    def _pretrained_features(self, pretrained: Pretrained) -> Path | None:
        """The folder of features by towers before their training, for a checkpoint that requires such."""
        self.pretrained_asked |= pretrained.needs_pretrained_means
        return self.sources.pretrained_features if pretrained.needs_pretrained_means else None

    def _check_pretrained(self) -> None:
        if self.sources.pretrained_features is not None and not self.pretrained_asked:
            raise UsageError(
                "No checkpoint here selects scene elements by its towers as they were before training; leave "
                "--pretrained-features out."
            )

    def _put_aside(self, clips: tuple[SetAside, ...]) -> None:
        self.set_aside += clips
        if clips:
            self.notices.append(
                f"Clips of a split that had been skipped when features were computed: {len(clips):,}; neither they "
                "nor the clips that go with them are measured."
            )

    # splits with features

    def _trained_on(self, found: Workspace) -> Workspace:
        """Splits to learn from, to select on and to search, and other corpora to search."""
        sources, recipe, others = self.sources, self.recipe, "others" in self.study.needs.sources
        if others and not sources.others:
            raise UsageError(
                "This study searches corpora that nothing was learned from; name some with --other "
                "NAME=CORPUS,FEATURES."
            )
        backbone = None if recipe is None else recipe.backbone
        if sources.videos is not None and backbone is None:
            raise UsageError("Videos are for a recipe whose towers are trained (backbone); leave --videos out.")
        self.start = None if sources.start is None else load_matcher(sources.start)
        specs = [] if recipe is None else [spec_of(recipe), *map(MatcherSpec, self.bases)]
        self.graphs = any(map(reads_graphs, specs))
        if backbone is not None:
            self.rule, self.towers = rule_text(backbone.rule), True
        select(self.whole, split=sources.train_split)  # says which splits there are
        train = self._split(sources.train_split)
        selected = recipe.data.validation if recipe is not None and self.study.selects else None
        validation = None if selected is None else self._part(select(self.whole, split=selected))
        features = self._part(self.test)
        self._check_pretrained()
        if self.towers:  # they make the features of these
            train, validation = (None if part is None else part.without_vectors() for part in (train, validation))
        return replace(
            found,
            train=train,
            validation=validation,
            features=features,
            streams=self.streams,
            start=self.start,
            weights_hash=self.weights_hash,
            name=self.folder.resolve().name,
            others={name: self._other(name, one) for name, one in sources.others.items()} if others else {},
        )

    def _split(self, name: str) -> CorpusPart | None:
        return self._part(select(self.whole, split=name)) if name in self.whole.clips["split"] else None

    def _part(self, corpus: Corpus, features: Path | None = None) -> CorpusPart:
        """A split with features by the rule of the last run, or as the checkpoint takes them."""
        folder = features or self.features
        if self.start is not None:
            self.weights_hash = self.start.about.encoder.weights_hash
            before = self._pretrained_features(self.start)
            loaded = load_features_for(self.start, folder, corpus, pretrained_features=before)
            self._put_aside(loaded.set_aside)
            self.notices += [f"{notice}." for notice in loaded.notices]
            self.notices += [f"What training begins with is given {use}." for use in loaded.uses]
            return part_of(corpus, loaded.texts, loaded.videos)
        found = find_clips(folder, corpus, rule=self.rule or None, words=self.sources.words)
        if self.towers:
            self._check_words(found)
        if self.says_words:
            self.notices += words_read(found)
        self.rule, self.weights_hash = found.made.rule, found.manifest.weights_hash
        self.streams = {stream.name: stream.dimension for stream in found.manifest.streams}
        videos, aside = found.load()
        self._put_aside(aside)
        texts = load_text_features(folder, corpus)
        read = with_graphs(texts, corpus) if self.graphs else texts
        part = part_of(corpus, read, videos, on_screen_of(found, videos))
        if not self.towers:
            return part
        own = self.sources.videos if features is None else None
        return replace(part, folders=PartFolders(folder, own or Path(found.manifest.videos)))

    def _check_words(self, found: FoundClips | StoredClips) -> None:
        """Refuse on-screen words of another source than those that towers read, which are the last."""
        words, last = self.sources.words, found.manifest.find(found.made.rule)
        if words is not None and last is not None and last.words != words:
            raise UsageError(
                f"Towers in training read the on-screen words of the last run of `evenreel features` by "
                f"'{found.made.rule}', which are {WORDS[last.words]}; leave --words out, or run it again for others."
            )

    def _other(self, name: str, other: OtherCorpus) -> CorpusPart:
        """A split of another corpus, with features like those of the training split."""
        corpus = select(load_corpus(other.corpus), split=other.split or self.sources.split)
        if self.start is None:
            own, theirs = read_manifest(self.features), read_manifest(other.features)
            command = f"evenreel features {shlex.quote(str(other.corpus))} --model {shlex.quote(own.encoder_id)}"
            remedy = f"compute some with `{command} --rule {shlex.quote(self.rule)}`"
            if own.weights_hash != theirs.weights_hash:
                also = "with other weights" if own.title == theirs.title else f"and what is learned from of {own.title}"
                raise FeaturesError(
                    f"The features of {name} in {other.features} are of {theirs.title}, {also}; {remedy}."
                )
            if self.rule not in {made.rule for made in theirs.sets}:
                raise FeaturesError(
                    f"What is learned from has frames by '{self.rule}', and {other.features} has none of {name} by "
                    f"that rule; {remedy}."
                )
        return self._part(corpus, other.features)


def words_read(found: FoundClips | StoredClips) -> list[str]:
    """Say whose on-screen words the features have, and which others there are; nothing where there are none."""
    if found.made.windows is None:
        return []
    own, rule = found.made.words, found.made.rule
    sets = [made for made in found.manifest.sets if made.rule == rule and made.windows is not None]
    others = [f"; there are {WORDS[made.words]} too (--words {made.words})" for made in sets if made.words != own]
    return [f"On-screen text is {WORDS[own]}{''.join(others)}."]
