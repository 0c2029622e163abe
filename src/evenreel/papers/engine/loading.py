"""What a study works on, read from disk: a corpus, features, checkpoints, scores, the headers of files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from evenreel.adaptation.prepared import load_prepared
from evenreel.adaptation.resources import text_reader
from evenreel.adaptation.stream import EncodeTexts
from evenreel.adaptation.zero_shot import zero_shot
from evenreel.checkpoint import Pretrained, checkpoint_folder, load_features_for, load_matcher, untrained_matcher
from evenreel.checkpoint.architecture import encodings
from evenreel.checkpoint.corpus_features import asks_seen
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, select
from evenreel.encoders import load_encoder
from evenreel.encoders.encoder import TowerEncoder
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import ClipAside, FoundClips, StoredClips, find_clips, load_text_features, read_manifest
from evenreel.features.facts import FACTS, ClipFacts, FactSettings, clip_facts
from evenreel.features.graphs import with_graphs
from evenreel.features.pictures import ClipPictures
from evenreel.features.settings import Words
from evenreel.matchers import MATCHERS, Matcher
from evenreel.papers.engine.caption_bank import CaptionBank, caption_bank
from evenreel.papers.engine.material import Looking, Model, Part, StudyMaterial, groups_in, part_of
from evenreel.papers.engine.on_screen import on_screen_of
from evenreel.papers.engine.study import Study
from evenreel.progress import Progress
from evenreel.report.words import said_once
from evenreel.types import Corpus, ScoreBlocks, TextFeatures

ZERO_SHOT = "mean_pool"
"""The model that is studied where none is named: the towers as they are."""
_WORDS: Mapping[Words, str] = {"ocr": "words read in the frames", "corpus": "words of the corpus"}
"""What on-screen text is."""


@dataclass(frozen=True)
class OtherCorpus:
    """Where a corpus is that is searched and not learned from.

    Attributes:
        corpus: its folder.
        features: folder of its features, by the same encoder.
        split: that is searched.
    """

    corpus: Path
    features: Path
    split: str = "test"


@dataclass(frozen=True)
class Sources:
    """Where the material of a study is.

    Attributes:
        corpus: folder of the corpus.
        features: folder of its features (`evenreel features`); None for studies that do without.
        matchers: checkpoints, or names of matchers that need no training, by the names they are shown by.
        scores: files of other systems' scores of the test split, likewise.
        split: that is searched.
        train_split: that is learned from.
        validation_split: that models are selected on, for studies that select; None for none.
        start: checkpoint that training begins with; None for a fresh matcher.
        graphs: whether what is trained reads role graphs of captions.
        videos: folder in which the paths of clips begin; None for the corpus's.
        device: where models run.
        seen: folder of features by the towers of checkpoints as they were before training, for those that select scene
            elements by these.
        others: other corpora by the names they are shown by, for studies that search some.
        words: whose on-screen words a study of these looks at; None for those of the last run of `evenreel features`.
    """

    corpus: Path
    features: Path | None = None
    matchers: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Path] = field(default_factory=dict)
    split: str = "test"
    train_split: str = "train"
    validation_split: str | None = None
    start: str | None = None
    graphs: bool = False
    videos: Path | None = None
    device: str = "cpu"
    seen: Path | None = None
    others: Mapping[str, OtherCorpus] = field(default_factory=dict)
    words: Words | None = None

    def __post_init__(self) -> None:
        if self.words not in (None, *_WORDS):
            raise UsageError(f"The source of on-screen words is {self.words!r}; it must be {' or '.join(_WORDS)}.")


def load_study_material(study: Study, sources: Sources, progress: Progress = lambda share: None) -> StudyMaterial:
    """Read what a study needs, and nothing else.

    Args:
        study: that is to be made.
        sources: where everything is.
        progress: called with the share of the files that were looked at, where a study asks for them.

    Raises:
        UsageError: something that the study needs is not named.
        CorpusError: the corpus or a split is not there, or has no generated clips that mirror real ones where the study
            is about these.
        FeaturesError: features are missing or damaged, or are of another encoder than a checkpoint's.
        CheckpointError: a checkpoint cannot be read.
        ScoresError: scores cannot be read, or do not fit the corpus.
    """
    wanted = {study.needs, *study.takes}
    reader = _Reader(sources, load_corpus(sources.corpus), adapts=study.adapts, says_words="words" in wanted)
    if study.mirrors:
        groups_in(reader.test)
    _check_named(study, sources)
    reader.begin()
    if study.needs in ("training", "lengths"):
        select(reader.whole, split=sources.train_split)  # says which splits there are
    train = reader.split(sources.train_split) if "training" in wanted and sources.features else None
    validation = reader.validation() if "validation" in wanted and sources.features else None
    features = reader.part(reader.test) if wanted & {"features", "training"} and sources.features else None
    models = tuple(reader.models()) if wanted & {"rankings", "models"} and sources.features else ()
    bank = reader.bank(models) if study.adapts else None
    reader.check_seen()
    return StudyMaterial(
        test=reader.test,
        models=models,
        scores=reader.scores() if "rankings" in wanted else {},
        features=features,
        train=train,
        validation=validation,
        streams=reader.streams,
        learned=reader.learned(),
        start=reader.start,
        rule=reader.rule,
        weights_hash=reader.weights_hash,
        corpus=reader.whole,
        facts=reader.facts(progress) if "files" in wanted else None,
        looking=reader.looking() if "pictures" in wanted else None,
        name=sources.corpus.resolve().name,
        others={name: reader.other(name, one) for name, one in sources.others.items()},
        bank=bank,
        set_aside=tuple(dict.fromkeys(reader.set_aside)),
        notices=tuple(dict.fromkeys((*reader.notices, *said_once(reader.of_systems)))),
    )


class _Reader:
    """Reads parts of a corpus, and gathers what has to be said of them."""

    def __init__(self, sources: Sources, whole: Corpus, *, adapts: bool, says_words: bool) -> None:
        self._sources, self.whole, self._adapts, self._says_words = sources, whole, adapts, says_words
        self.test = select(whole, split=sources.split)
        self.set_aside: list[ClipAside] = []
        self.notices: list[str] = []
        self.of_systems: dict[str, list[str]] = {}
        self.rule = ""
        self.start: Pretrained | None = None
        self.streams: dict[str, int] = {}
        self.weights_hash: str | None = None
        self._asked_seen = False

    def begin(self) -> None:
        """The checkpoint that training begins with; it says which features are read."""
        if self._sources.start is not None:
            self.start = load_matcher(self._sources.start)

    def learned(self) -> Corpus | None:
        """The split that is learned from, as the corpus has it; None where there is none."""
        there = self._sources.train_split in self.whole.clips["split"]
        return select(self.whole, split=self._sources.train_split) if there else None

    def split(self, name: str) -> Part | None:
        """A split with its features; None where there is none."""
        return self.part(select(self.whole, split=name)) if name in self.whole.clips["split"] else None

    def validation(self) -> Part | None:
        """The split that models are selected on; None where nobody named one."""
        name = self._sources.validation_split
        return None if name is None else self.part(select(self.whole, split=name))

    def other(self, name: str, other: OtherCorpus) -> Part:
        """A split of another corpus, with features like those that are learned from."""
        corpus = select(load_corpus(other.corpus), split=other.split)
        if self.start is None:
            self._check_alike(name, other)
        return self.part(corpus, other.features)

    def part(self, corpus: Corpus, features: Path | None = None) -> Part:
        """Features by the rule of the last run, or those that the checkpoint takes which training begins with.

        Args:
            corpus: whose features.
            features: their folder; None for the one that the user named for the corpus.
        """
        folder = features or self._features()
        if self.start is not None:
            self.weights_hash = self.start.about.encoder.weights_hash
            loaded = load_features_for(self.start, folder, corpus, seen=self._seen_for(self.start))
            self._put_aside(loaded.set_aside)
            self.notices += [f"{notice}." for notice in loaded.notices]
            self.notices += [f"What training begins with is given {use}." for use in loaded.uses]
            return part_of(corpus, loaded.texts, loaded.videos)
        found = find_clips(folder, corpus, rule=self.rule or None, words=self._sources.words)
        if self._says_words:
            self.notices += words_read(found)
        self.rule, self.weights_hash = found.made.rule, found.manifest.weights_hash
        self.streams = {stream.name: stream.dimension for stream in found.manifest.streams}
        videos, aside = found.load()
        self._put_aside(aside)
        texts = load_text_features(folder, corpus)
        read = with_graphs(texts, corpus) if self._sources.graphs else texts
        return part_of(corpus, read, videos, on_screen_of(found, videos))

    def models(self) -> list[Model]:
        """Every matcher with the features that it takes."""
        named = self._sources.matchers or {ZERO_SHOT: ZERO_SHOT}
        return [self._model(name, place) for name, place in named.items()]

    def check_seen(self) -> None:
        """Refuse features of towers before training that nothing asked for."""
        if self._sources.seen is not None and not self._asked_seen:
            raise UsageError(
                "No checkpoint here selects scene elements by its towers as they were before training; leave --seen "
                "out."
            )

    def scores(self) -> dict[str, ScoreBlocks]:
        """Those of other systems; what they leave out is measured without."""
        return {
            name: load_scores(path, self.test, partial=True, whole=self.whole, notice=self._said_of(name).append)
            for name, path in self._sources.scores.items()
        }

    def _said_of(self, name: str) -> list[str]:
        """The sentences that are gathered about a system."""
        return self.of_systems.setdefault(name, [])

    def facts(self, progress: Progress) -> ClipFacts:
        """What the headers of all files say; kept beside the corpus for the next time."""
        folder = self._sources.corpus
        return clip_facts(self.whole, FactSettings(self._sources.videos or folder, folder / FACTS), progress)

    def looking(self) -> Looking:
        """The encoder of the features, and the videos where these were made or where the user says."""
        manifest = read_manifest(self._features())
        if manifest.streams:
            raise UsageError(
                f"The features in {self._sources.features} are of {manifest.title}, which others computed: there are "
                "no towers to look at frames with. Compute features with `evenreel features --model`."
            )
        videos = self._sources.videos or Path(manifest.videos)
        return Looking(self._encoder, ClipPictures(self.test, videos, MediaLimits()).frames)

    def bank(self, models: Sequence[Model]) -> CaptionBank | None:
        """Captions of the training split, as the models take them; None where there are none with features."""
        name, features = self._sources.train_split, self._features()
        if name not in self.whole.clips["split"] or read_manifest(features).streams:
            return None
        train = select(self.whole, split=name)
        graphs = any(model.matcher.limits.graphs for model in models)
        try:
            return caption_bank(features, train, graphs=graphs) if train.captions.height else None
        except FeaturesError as error:
            self.notices.append(f"Nothing is corrected by training captions: {error}")
            return None

    @cached_property
    def _encoder(self) -> TowerEncoder:
        """That of the features."""
        manifest = read_manifest(self._features())
        encoder = load_encoder(manifest.encoder_id, device=self._sources.device, precision=manifest.precision)
        if encoder.weights_hash != manifest.weights_hash:
            raise FeaturesError(
                f"The features in {self._sources.features} are of {manifest.title} with other weights than it has now; "
                "compute them again with `evenreel features`."
            )
        return encoder

    def _caption_reader(self, matcher: Matcher) -> EncodeTexts | None:
        """Reads new captions for a matcher, with an encoder that is loaded when the first one comes."""
        if read_manifest(self._features()).streams:
            return None

        def read(sentences: Sequence[str]) -> TextFeatures:
            return text_reader(self._encoder, matcher)(sentences)

        return read

    def _model(self, name: str, place: str) -> Model:
        folder = self._features()
        pretrained = _pretrained(place, folder, self._sources.device, self._adapts)
        loaded = load_features_for(pretrained, folder, self.test, seen=self._seen_for(pretrained))
        self._put_aside(loaded.set_aside)
        self._said_of(name).extend(f"{notice}." for notice in loaded.notices)
        self.notices += [f"{name} is scored with {use}, as it was trained." for use in loaded.uses]
        if self._says_words and loaded.videos.windows is not None:
            self.notices.append(f"The on-screen text that {name} reads is {_WORDS[loaded.found.made.words]}.")
        self.notices += [f"{name} was trained with {use}, and so are its scores." for use in pretrained.about.uses]
        if (times := encodings(pretrained.spec).videos) > 1:
            self.notices.append(
                f"{name} encodes each clip {times} times, and as many galleries are kept to search with."
            )
        on_screen = on_screen_of(loaded.found, loaded.videos, pretrained.about.inputs.word_changes)
        model = Model(name, pretrained.matcher, part_of(self.test, loaded.texts, loaded.videos, on_screen))
        if not self._adapts:
            return model
        prepared = None if _is_ours(place) else load_prepared(checkpoint_folder(place))
        return replace(model, prepared=prepared, read=self._caption_reader(model.matcher))

    def _seen_for(self, pretrained: Pretrained) -> Path | None:
        if not asks_seen(pretrained):
            return None
        self._asked_seen = True
        return self._sources.seen

    def _check_alike(self, name: str, other: OtherCorpus) -> None:
        """Refuse features of another corpus that say another thing than those that are learned from."""
        own, theirs = read_manifest(self._features()), read_manifest(other.features)
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

    def _features(self) -> Path:
        if self._sources.features is None:
            raise UsageError("This study needs features of the corpus; compute them with `evenreel features`.")
        return self._sources.features

    def _put_aside(self, clips: tuple[ClipAside, ...]) -> None:
        self.set_aside += clips
        if clips:
            self.notices.append(
                f"Clips of a split that had been set aside when features were computed: {len(clips):,}; neither they "
                "nor the clips that go with them are measured."
            )


def words_read(found: FoundClips | StoredClips) -> list[str]:
    """A sentence on whose on-screen words these are, and which others there are; none where there is no such text."""
    if found.made.windows is None:
        return []
    own, rule = found.made.words, found.made.rule
    sets = [made for made in found.manifest.sets if made.rule == rule and made.windows is not None]
    others = [f"; there are {_WORDS[made.words]} too (--words {made.words})" for made in sets if made.words != own]
    return [f"On-screen text is {_WORDS[own]}{''.join(others)}."]


def _pretrained(place: str, features: Path, device: str, adapts: bool) -> Pretrained:
    """A checkpoint, or one of our matchers by its name; with something in front that can learn where it is to."""
    if not _is_ours(place):
        return load_matcher(place, device=device)
    untrained = untrained_matcher(place, features, device=device)
    return zero_shot(untrained.about.encoder, device=device) if adapts and place == ZERO_SHOT else untrained


def _is_ours(place: str) -> bool:
    """Whether a matcher is named, and no folder is called so."""
    return place in MATCHERS and not Path(place).exists()


def _check_named(study: Study, sources: Sources) -> None:
    """Refuse what cannot be made before anything large is read."""
    if study.needs in ("models", "features", "training") and sources.features is None:
        raise UsageError(
            "This study needs features of the corpus; name their folder with --features (`evenreel features` makes it)."
        )
    if "others" in study.takes and not sources.others:
        raise UsageError(
            "This study searches corpora that nothing was learned from; name some with --other NAME=CORPUS,FEATURES."
        )
    if study.needs == "rankings" and sources.features is None and not sources.scores:
        raise UsageError(
            "This study measures rankings; name features that a model can rank by (--features), or scores (--scores "
            "NAME=FILE)."
        )
    if sources.matchers and sources.features is None:
        raise UsageError("A matcher ranks by features; name their folder with --features.")
    unused = ["--scores"] if sources.scores and "rankings" not in (study.needs, *study.takes) else []
    unused += ["--start"] if sources.start and study.needs != "training" else []
    unused += ["--matcher"] if sources.matchers and study.needs not in ("rankings", "models") else []
    unused += ["--other"] if sources.others and "others" not in study.takes else []
    unused += ["--words"] if sources.words and "words" not in study.takes else []
    if unused:
        raise UsageError(f"This study does not look at what is named with {' and '.join(unused)}; leave it out.")
