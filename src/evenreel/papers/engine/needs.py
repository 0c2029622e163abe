"""What studies work on, each kind with how it is read from disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Generic, TypeVar

from evenreel.corpus import select
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import read_manifest
from evenreel.papers.engine.caption_bank import CaptionBank, caption_bank
from evenreel.papers.engine.inputs import (
    DirectionInputs,
    FeatureInputs,
    LearningInputs,
    LengthInputs,
    LengthRankingInputs,
    ModelInputs,
    PairInputs,
    PictureInputs,
    RankingInputs,
    StreamInputs,
    StudyInputs,
    TextPictureInputs,
    TransferInputs,
)
from evenreel.papers.engine.loading import StudyCorpus, StudyModels, StudyParts
from evenreel.papers.engine.material import Model, groups_in
from evenreel.papers.engine.sources import (
    FileSources,
    LearnedModelSources,
    LearnedSources,
    LengthRankingSources,
    ModelSources,
    PairSources,
    PictureSources,
    RankingSources,
    SelectingSources,
    StudySources,
    TextPictureSources,
    TextSources,
    TextTrainingSources,
    TrainingSources,
    TransferSources,
)
from evenreel.progress import Progress
from evenreel.types import Corpus

Sources = TypeVar("Sources", bound=StudySources)
Given = TypeVar("Given", bound=StudyInputs)


@dataclass(frozen=True)
class Needs(Generic[Sources, Given]):
    """What a study needs from the user, the record it is given, and the reader between them.

    Attributes:
        words: what the user has to name beside the corpus, for a list.
        sources: record of where that is on disk.
        inputs: record that the study is given.
        read: reads the inputs from the sources.
        features: whether features of the corpus have to be named.
    """

    words: str
    sources: type[Sources]
    inputs: type[Given]
    read: Callable[[StudyCorpus, Sources, Progress], Given]
    features: bool = True


def load_study_inputs(
    needs: Needs[Sources, Given],
    corpus: Path,
    sources: Sources,
    progress: Progress = lambda share: None,
    *,
    mirrors: bool = False,
) -> Given:
    """Read what a study needs, and nothing else.

    Args:
        needs: what that is.
        corpus: folder of the corpus.
        sources: where everything else is.
        progress: called with the share of the files that were looked at, where a study asks for them.
        mirrors: whether the study is about generated clips that mirror real ones.

    Raises:
        UsageError: something that the study needs is not named.
        CorpusError: the corpus or a split is not there, or has no generated clips that mirror real ones where the study
            is about these.
        FeaturesError: features are missing or damaged, or are of another encoder than a checkpoint's.
        CheckpointError: a checkpoint cannot be read.
        ScoresError: scores cannot be read, or do not fit the corpus.
    """
    opened = StudyCorpus(corpus, sources)
    if mirrors:
        groups_in(opened.test)
    if needs.features:
        _ = opened.features  # refuses what names none
    return needs.read(opened, sources, progress)


def _read_files(opened: StudyCorpus, sources: FileSources, progress: Progress) -> PairInputs:
    found = _read_pairs(opened, sources, progress) if sources.features else PairInputs(**opened.told)
    return replace(found, facts=opened.facts(sources.videos, progress))


def _read_pairs(opened: StudyCorpus, sources: PairSources, progress: Progress) -> PairInputs:
    parts = StudyParts(opened)
    train, features = parts.split(sources.train_split), parts.part(opened.test)
    return PairInputs(**opened.told, train=train, features=features, rule=parts.rule)


def _read_lengths(opened: StudyCorpus, sources: LearnedSources, progress: Progress) -> LengthInputs:
    learned = select(opened.whole, split=sources.train_split)  # says which splits there are
    return LengthInputs(**opened.told, learned=learned)


def _read_rankings(opened: StudyCorpus, sources: RankingSources, progress: Progress) -> RankingInputs:
    if sources.features is None and not sources.scores:
        raise UsageError(
            "This study measures rankings; name features that a model can rank by (--features), or scores (--scores "
            "NAME=FILE)."
        )
    if sources.matchers and sources.features is None:
        raise UsageError("A matcher ranks by features; name their folder with --features.")
    return _with_scores(opened, sources, StudyModels(opened, sources).load() if sources.features else ())


def _read_stages(opened: StudyCorpus, sources: RankingSources, progress: Progress) -> RankingInputs:
    """Models that cannot be left out, and other rankings beside them."""
    return _with_scores(opened, sources, StudyModels(opened, sources).load())


def _with_scores(opened: StudyCorpus, sources: RankingSources, models: tuple[Model, ...]) -> RankingInputs:
    """Scores of other systems too; what they leave out is measured without."""
    scores = {
        name: load_scores(path, opened.test, partial=True, whole=opened.whole, notice=opened.said_of(name).append)
        for name, path in sources.scores.items()
    }
    return RankingInputs(**opened.told, models=models, scores=scores)


def _read_length_rankings(
    opened: StudyCorpus, sources: LengthRankingSources, progress: Progress
) -> LengthRankingInputs:
    found, learned = _read_rankings(opened, sources, progress), opened.learned(sources.train_split)
    return LengthRankingInputs(**opened.told, models=found.models, scores=found.scores, learned=learned)


def _read_models(opened: StudyCorpus, sources: ModelSources, progress: Progress) -> ModelInputs:
    models = StudyModels(opened, sources).load()
    return ModelInputs(**opened.told, models=models)


def _read_directions(opened: StudyCorpus, sources: LearnedModelSources, progress: Progress) -> DirectionInputs:
    train = StudyParts(opened).split(sources.train_split)
    models = StudyModels(opened, sources).load()
    return DirectionInputs(**opened.told, models=models, train=train)


def _read_pictures(opened: StudyCorpus, sources: PictureSources, progress: Progress) -> PictureInputs:
    models = StudyModels(opened, sources).load()
    return PictureInputs(**opened.told, models=models, looking=opened.looking(sources.videos))


def _read_text_pictures(opened: StudyCorpus, sources: TextPictureSources, progress: Progress) -> TextPictureInputs:
    features = _read_text(opened, sources, progress).features
    models = StudyModels(opened, sources, says_words=True).load()
    return TextPictureInputs(**opened.told, models=models, looking=opened.looking(sources.videos), features=features)


def _read_text(opened: StudyCorpus, sources: TextSources, progress: Progress) -> FeatureInputs:
    parts = StudyParts(opened)
    parts.say_words(sources)
    features = parts.part(opened.test)
    return FeatureInputs(**opened.told, features=features)


def _read_streams(opened: StudyCorpus, sources: LearnedModelSources, progress: Progress) -> StreamInputs:
    models = StudyModels(opened, sources).load_adapting()
    bank = _bank(opened, opened.learned(sources.train_split), models)
    return StreamInputs(**opened.told, models=models, bank=bank)


def _bank(opened: StudyCorpus, train: Corpus | None, models: Sequence[Model]) -> CaptionBank | None:
    """Captions of the training split, as the models take them; None where there are none with features."""
    if train is None or read_manifest(opened.features).streams:
        return None
    graphs = any(model.matcher.limits.graphs for model in models)
    try:
        return caption_bank(opened.features, train, graphs=graphs) if train.captions.height else None
    except FeaturesError as error:
        opened.notices.append(f"Nothing is corrected by training captions: {error}")
        return None


def _read_training(opened: StudyCorpus, sources: TrainingSources, progress: Progress) -> LearningInputs:
    return _trained_on(opened, sources, StudyParts.for_training(opened, sources))


def _read_transfer(opened: StudyCorpus, sources: TransferSources, progress: Progress) -> TransferInputs:
    if not sources.others:
        raise UsageError(
            "This study searches corpora that nothing was learned from; name some with --other NAME=CORPUS,FEATURES."
        )
    parts = StudyParts.for_training(opened, sources)
    found = _trained_on(opened, sources, parts)
    others = {name: parts.other(name, one) for name, one in sources.others.items()}
    own = {one.name: getattr(found, one.name) for one in fields(found)} | opened.told
    return TransferInputs(**own, name=opened.folder.resolve().name, others=others)


def _trained_on(opened: StudyCorpus, sources: TrainingSources, parts: StudyParts) -> LearningInputs:
    """Splits to learn from and to search, and one to select on where the sources name one."""
    if isinstance(sources, TextSources):
        parts.say_words(sources)
    select(opened.whole, split=sources.train_split)  # says which splits there are
    train = parts.split(sources.train_split)
    selected = sources.validation_split if isinstance(sources, SelectingSources) else None
    validation = None if selected is None else parts.part(select(opened.whole, split=selected))
    features = parts.part(opened.test)
    parts.seen.check_used()
    return LearningInputs(
        **opened.told,
        train=train,
        validation=validation,
        features=features,
        streams=parts.streams,
        start=parts.start,
        weights_hash=parts.weights_hash,
    )


_FEATURES, _TRAINING, _RANKINGS = "--features", "--features and a split to train on", "--features or --scores"
FILES = Needs("the videos", FileSources, PairInputs, _read_files, features=False)
PAIRS = Needs(_FEATURES, PairSources, PairInputs, _read_pairs)
LENGTHS = Needs("a split to train on", LearnedSources, LengthInputs, _read_lengths, features=False)
RANKINGS = Needs(_RANKINGS, RankingSources, RankingInputs, _read_rankings, features=False)
LENGTH_RANKINGS = Needs(_RANKINGS, LengthRankingSources, LengthRankingInputs, _read_length_rankings, features=False)
STAGES = Needs(_FEATURES, RankingSources, RankingInputs, _read_stages)
MODELS = Needs(_FEATURES, ModelSources, ModelInputs, _read_models)
DIRECTIONS = Needs(_FEATURES, LearnedModelSources, DirectionInputs, _read_directions)
PICTURES = Needs(_FEATURES, PictureSources, PictureInputs, _read_pictures)
STREAMS = Needs(_FEATURES, LearnedModelSources, StreamInputs, _read_streams)
TEXT = Needs(_FEATURES, TextSources, FeatureInputs, _read_text)
TEXT_PICTURES = Needs(_FEATURES, TextPictureSources, TextPictureInputs, _read_text_pictures)
FINE_TUNING = Needs(_TRAINING, TrainingSources, LearningInputs, _read_training)
TRAINING = Needs(_TRAINING, SelectingSources, LearningInputs, _read_training)
TEXT_TRAINING = Needs(_TRAINING, TextTrainingSources, LearningInputs, _read_training)
TRANSFER = Needs(_TRAINING, TransferSources, TransferInputs, _read_transfer)
