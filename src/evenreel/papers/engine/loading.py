"""What a study works on, read from disk: a corpus, features, checkpoints, scores, the headers of files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evenreel.adaptation.prepared import load_prepared
from evenreel.adaptation.stream import EncodeTexts, text_reader, zero_shot
from evenreel.checkpoint import Pretrained, checkpoint_folder, load_features_for, load_matcher
from evenreel.checkpoint.architecture import encodings
from evenreel.checkpoint.folder import named_matcher, names_no_checkpoint
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, select
from evenreel.encoders import load_encoder
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import FeaturesError, UsageError
from evenreel.features import FoundClips, SetAside, StoredClips, find_clips, load_text_features, read_manifest
from evenreel.features.facts import FACTS, ClipFacts, FactSettings, clip_facts
from evenreel.features.graphs import with_graphs
from evenreel.features.pictures import ClipPictures
from evenreel.features.settings import Words, rule_text
from evenreel.matchers import Matcher
from evenreel.papers.engine.material import CorpusPart, Looking, Model, PartFolders, part_of
from evenreel.papers.engine.on_screen import on_screen_of
from evenreel.papers.engine.sources import (
    WORDS,
    FeatureSources,
    ModelSources,
    OtherCorpus,
    StudySources,
    TextSources,
    TrainingSources,
)
from evenreel.progress import Progress
from evenreel.report.words import merge_sentences
from evenreel.types import Corpus, TextFeatures

ZERO_SHOT = "mean_pool"
"""The model that is studied where none is named: the towers as they are."""


class StudyCorpus:
    """A corpus on disk with its test split, features and encoder, and the notices gathered as they are read.

    Args:
        folder: folder of the corpus.
        sources: where its features are, and which split is searched.
    """

    def __init__(self, folder: Path, sources: StudySources) -> None:
        self.folder, self.split, self.whole = folder, sources.split, load_corpus(folder)
        self._features = sources.features if isinstance(sources, FeatureSources) else None
        self._device = sources.device if isinstance(sources, ModelSources) else "auto"
        self.test = select(self.whole, split=sources.split)
        self.set_aside: list[SetAside] = []
        self.notices: list[str] = []
        self.of_systems: dict[str, list[str]] = {}

    @property
    def told(self) -> dict[str, Any]:
        """Return the fields that the inputs of every study have."""
        return {
            "test": self.test,
            "corpus": self.whole,
            "set_aside": tuple(dict.fromkeys(self.set_aside)),
            "notices": tuple(dict.fromkeys((*self.notices, *merge_sentences(self.of_systems)))),
        }

    @property
    def features(self) -> Path:
        """Return the folder of features."""
        if self._features is None:
            raise UsageError(
                "This study needs features of the corpus; name their folder with --features (`evenreel features` makes "
                "it)."
            )
        return self._features

    def learned(self, name: str) -> Corpus | None:
        """Return the training split of the corpus, by its name; None where there is none."""
        return select(self.whole, split=name) if name in self.whole.clips["split"] else None

    def facts(self, videos: Path | None, progress: Progress) -> ClipFacts:
        """Read the headers of all video files; they are kept beside the corpus for the next time."""
        return clip_facts(self.whole, FactSettings(videos or self.folder, self.folder / FACTS), progress)

    def looking(self, videos: Path | None) -> Looking:
        """Open the encoder of the features, and the videos they were made of or that the user names."""
        manifest = read_manifest(self.features)
        if manifest.streams:
            raise UsageError(
                f"The features in {self.features} are of {manifest.title}, which others computed: there are "
                "no towers to look at frames with. Compute features with `evenreel features --model`."
            )
        found = ClipPictures(self.test, videos or Path(manifest.videos), MediaLimits())
        return Looking(self.encoder, found.frames)

    @cached_property
    def encoder(self) -> LoadedEncoder:
        """Load the encoder of the features."""
        manifest = read_manifest(self.features)
        encoder = load_encoder(manifest.encoder_id, device=self._device, precision=manifest.precision)
        if encoder.weights_hash != manifest.weights_hash:
            raise FeaturesError(
                f"The features in {self.features} are of {manifest.title} with other weights than it has now; "
                "compute them again with `evenreel features`."
            )
        return encoder

    def put_aside(self, clips: tuple[SetAside, ...]) -> None:
        """Add clips without features to those that the study sets aside, and say so in a notice."""
        self.set_aside += clips
        if clips:
            self.notices.append(
                f"Clips of a split that had been skipped when features were computed: {len(clips):,}; neither they "
                "nor the clips that go with them are measured."
            )

    def said_of(self, system: str) -> list[str]:
        """Return the list of notices about a system, to add to."""
        return self.of_systems.setdefault(system, [])


class PretrainedFeatures:
    """Folder of features by towers as they were before training, which some checkpoints require."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._asked = folder, False

    def of(self, pretrained: Pretrained) -> Path | None:
        """Return the folder for a checkpoint; None for one that requires no such features."""
        if not pretrained.needs_pretrained_means:
            return None
        self._asked = True
        return self._folder

    def check_used(self) -> None:
        """Refuse a folder that no checkpoint required."""
        if self._folder is not None and not self._asked:
            raise UsageError(
                "No checkpoint here selects scene elements by its towers as they were before training; leave "
                "--pretrained-features out."
            )


class StudyParts:
    """Splits with features, all by one frame rule, or as the checkpoint takes them that training begins with."""

    def __init__(self, opened: StudyCorpus, *, graphs: bool = False, start: Pretrained | None = None) -> None:
        self._opened, self._graphs, self.start, self.pretrained_features = (
            opened,
            graphs,
            start,
            PretrainedFeatures(None),
        )
        self._words: Words | None = None
        self._says_words = False
        self._towers: TrainingSources | None = None
        self.rule = ""
        self.streams: dict[str, int] = {}
        self.weights_hash: str | None = None

    @classmethod
    def for_training(cls, opened: StudyCorpus, sources: TrainingSources) -> StudyParts:
        """Open the splits of a study that trains, after reading the checkpoint that training begins with."""
        if sources.videos is not None and sources.rule is None:
            raise UsageError("Videos are for a recipe whose towers are trained (backbone); leave --videos out.")
        start = None if sources.start is None else load_matcher(sources.start)
        found = cls(opened, graphs=sources.graphs, start=start)
        found.pretrained_features = PretrainedFeatures(sources.pretrained_features)
        if sources.rule is not None:
            found.rule, found._towers = rule_text(sources.rule), sources
        return found

    def say_words(self, sources: TextSources) -> None:
        """Read on-screen words of one source, and add a notice of which."""
        self._words, self._says_words = sources.words, True

    def split(self, name: str) -> CorpusPart | None:
        """Read a split with its features; None where there is none."""
        whole = self._opened.whole
        return self.part(select(whole, split=name)) if name in whole.clips["split"] else None

    def part(self, corpus: Corpus, features: Path | None = None) -> CorpusPart:
        """Read a corpus with features by the rule of the last run, or as the checkpoint takes them.

        Args:
            corpus: a split.
            features: their folder; None for the one that the user named for the corpus.
        """
        opened, folder = self._opened, features or self._opened.features
        if self.start is not None:
            self.weights_hash = self.start.about.encoder.weights_hash
            loaded = load_features_for(
                self.start, folder, corpus, pretrained_features=self.pretrained_features.of(self.start)
            )
            opened.put_aside(loaded.set_aside)
            opened.notices += [f"{notice}." for notice in loaded.notices]
            opened.notices += [f"What training begins with is given {use}." for use in loaded.uses]
            return part_of(corpus, loaded.texts, loaded.videos)
        found = find_clips(folder, corpus, rule=self.rule or None, words=self._words)
        if self._towers is not None:
            _check_words(found, self._words)
        if self._says_words:
            opened.notices += words_read(found)
        self.rule, self.weights_hash = found.made.rule, found.manifest.weights_hash
        self.streams = {stream.name: stream.dimension for stream in found.manifest.streams}
        videos, aside = found.load()
        opened.put_aside(aside)
        texts = load_text_features(folder, corpus)
        read = with_graphs(texts, corpus) if self._graphs else texts
        part = part_of(corpus, read, videos, on_screen_of(found, videos))
        return part if self._towers is None else replace(part, folders=self._folders(features, found.manifest.videos))

    def _folders(self, features: Path | None, videos: str) -> PartFolders:
        """Where the features and videos of a part are; `features` is None for those of the study's own corpus."""
        named = self._towers.videos if self._towers is not None and features is None else None
        return PartFolders(features or self._opened.features, named or Path(videos))

    def other(self, name: str, other: OtherCorpus) -> CorpusPart:
        """Read a split of another corpus, with features like those of the training split."""
        corpus = select(load_corpus(other.corpus), split=other.split or self._opened.split)
        if self.start is None:
            self._check_alike(name, other)
        return self.part(corpus, other.features)

    def _check_alike(self, name: str, other: OtherCorpus) -> None:
        """Refuse features of another corpus that say another thing than those that are learned from."""
        own, theirs = read_manifest(self._opened.features), read_manifest(other.features)
        command = f"evenreel features {shlex.quote(str(other.corpus))} --model {shlex.quote(own.encoder_id)}"
        remedy = f"compute some with `{command} --rule {shlex.quote(self.rule)}`"
        if own.weights_hash != theirs.weights_hash:
            differ = "with other weights" if own.title == theirs.title else f"and what is learned from of {own.title}"
            raise FeaturesError(
                f"The features of {name} in {other.features} are of {theirs.title}, {differ}; {remedy}."
            )
        if self.rule not in {made.rule for made in theirs.sets}:
            raise FeaturesError(
                f"What is learned from has frames by '{self.rule}', and {other.features} has none of {name} by that "
                f"rule; {remedy}."
            )


def _check_words(found: FoundClips | StoredClips, words: Words | None) -> None:
    """Refuse on-screen words of another source than those that towers read, which are the last."""
    last = found.manifest.find(found.made.rule)
    if words is not None and last is not None and last.words != words:
        raise UsageError(
            f"Towers in training read the on-screen words of the last run of `evenreel features` by "
            f"'{found.made.rule}', which are {WORDS[last.words]}; leave --words out, or run it again for others."
        )


class StudyModels:
    """Loader of the matchers that the user names, each with the features of the test split that it takes."""

    def __init__(self, opened: StudyCorpus, sources: ModelSources, *, says_words: bool = False) -> None:
        self._opened, self._sources, self._says_words = opened, sources, says_words
        self._pretrained = PretrainedFeatures(sources.pretrained_features)

    def load(self) -> tuple[Model, ...]:
        """Load the matchers that the user names with their features, or `mean_pool` where none is named."""
        return self._each(self._model)

    def load_adapting(self) -> tuple[Model, ...]:
        """Read all matchers that are named, ready to learn at test time, with a reader of new captions."""
        return self._each(self._adapting)

    def _each(self, read: Callable[[str, str], Model]) -> tuple[Model, ...]:
        named = self._sources.matchers or {ZERO_SHOT: ZERO_SHOT}
        found = tuple(read(name, place) for name, place in named.items())
        self._pretrained.check_used()
        return found

    def _model(self, name: str, place: str) -> Model:
        return self._with_features(name, named_matcher(place, self._opened.features, device=self._sources.device))

    def _adapting(self, name: str, place: str) -> Model:
        device, untrained = self._sources.device, names_no_checkpoint(place)
        found = named_matcher(place, self._opened.features, device=device)
        if untrained and place == ZERO_SHOT:
            found = zero_shot(found.about.encoder, device=device)
        model = self._with_features(name, found)
        prepared = None if untrained else load_prepared(checkpoint_folder(place))
        return replace(model, prepared=prepared, read=self._caption_reader(model.matcher))

    def _with_features(self, name: str, pretrained: Pretrained) -> Model:
        opened = self._opened
        loaded = load_features_for(
            pretrained, opened.features, opened.test, pretrained_features=self._pretrained.of(pretrained)
        )
        opened.put_aside(loaded.set_aside)
        opened.said_of(name).extend(f"{notice}." for notice in loaded.notices)
        opened.notices += [f"{name} is scored with {use}, as it was trained." for use in loaded.uses]
        if self._says_words and loaded.videos.on_screen is not None:
            opened.notices.append(f"The on-screen text that {name} reads is {WORDS[loaded.found.made.words]}.")
        opened.notices += [f"{name} was trained with {use}, and so are its scores." for use in pretrained.about.uses]
        if (times := encodings(pretrained.spec)) > 1:
            opened.notices.append(
                f"{name} encodes each clip {times} times, and as many galleries are kept to search with."
            )
        on_screen = on_screen_of(loaded.found, loaded.videos, pretrained.about.inputs.word_changes)
        return Model(name, pretrained.matcher, part_of(opened.test, loaded.texts, loaded.videos, on_screen))

    def _caption_reader(self, matcher: Matcher) -> EncodeTexts | None:
        """Reads new captions for a matcher, with an encoder that is loaded when the first one comes."""
        opened = self._opened
        if read_manifest(opened.features).streams:
            return None

        def read(sentences: Sequence[str]) -> TextFeatures:
            return text_reader(opened.encoder, matcher)(sentences)

        return read


def words_read(found: FoundClips | StoredClips) -> list[str]:
    """Say whose on-screen words the features have, and which others there are; nothing where there are none."""
    if found.made.windows is None:
        return []
    own, rule = found.made.words, found.made.rule
    sets = [made for made in found.manifest.sets if made.rule == rule and made.windows is not None]
    others = [f"; there are {WORDS[made.words]} too (--words {made.words})" for made in sets if made.words != own]
    return [f"On-screen text is {WORDS[own]}{''.join(others)}."]
