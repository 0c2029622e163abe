"""What studies work on, read from disk: a corpus, features, checkpoints, scores, the headers of files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from evenreel.adaptation.prepared import load_prepared
from evenreel.adaptation.resources import text_reader
from evenreel.adaptation.zero_shot import zero_shot
from evenreel.arrays import Indices
from evenreel.checkpoint import MatcherSpec, Pretrained, checkpoint_folder, load_features_for, load_matcher
from evenreel.checkpoint.architecture import encodings, reads_graphs
from evenreel.checkpoint.named import named_matcher, names_no_checkpoint
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, select
from evenreel.encoders import load_encoder
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FoundClips, SetAside, StoredClips, find_clips, load_text_features, read_manifest
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.graphs import with_graphs
from evenreel.features.load import check_text_features
from evenreel.features.pictures import ClipPictures
from evenreel.features.settings import rule_text
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
from evenreel.papers.workspace import (
    CaptionBank,
    CorpusPart,
    Looking,
    Model,
    PartFolders,
    Workspace,
    groups_in,
    on_screen_of,
    part_of,
)
from evenreel.progress import Progress
from evenreel.report.words import merge_sentences
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.specs import spec_of
from evenreel.types import Corpus, ScoreBlocks, TextFeatures

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
