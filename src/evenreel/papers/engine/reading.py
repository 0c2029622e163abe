"""What studies work on, read from disk: a reader for each kind of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from evenreel.corpus import select
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import read_manifest
from evenreel.papers.engine.caption_bank import CaptionBank, caption_bank
from evenreel.papers.engine.inputs import (
    FeatureInputs,
    LearningInputs,
    LengthInputs,
    LengthRankingInputs,
    ModelInputs,
    PairInputs,
    PictureInputs,
    RankingInputs,
    StreamInputs,
    TextPictureInputs,
    TransferInputs,
)
from evenreel.papers.engine.loading import StudyCorpus, StudyModels, StudyParts
from evenreel.papers.engine.material import Model, groups_in
from evenreel.papers.engine.needs import Needs
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
    TrainingSources,
    TransferSources,
)
from evenreel.progress import Progress
from evenreel.types import Corpus


def load_study_inputs(
    needs: Needs,
    corpus: Path,
    sources: StudySources,
    progress: Progress = lambda share: None,
    *,
    mirrors: bool = False,
) -> Any:
    """Read what a study needs, and nothing else."""
    opened = StudyCorpus(corpus, sources)
    if mirrors:
        groups_in(opened.test)
    if needs.features:
        _ = opened.features  # refuses what names none
    return needs.read(opened, sources, progress)


def read_files(opened: StudyCorpus, sources: FileSources, progress: Progress) -> PairInputs:
    """Read the headers of all video files, and the features of clips and mirrors where some are named."""
    found = read_pairs(opened, sources, progress) if sources.features else PairInputs(**opened.told)
    return replace(found, facts=opened.facts(sources.videos, progress))


def read_pairs(opened: StudyCorpus, sources: PairSources, progress: Progress) -> PairInputs:
    """Read the features of both splits by one frame rule."""
    parts = StudyParts(opened)
    train, features = parts.split(sources.train_split), parts.part(opened.test)
    return PairInputs(**opened.told, train=train, features=features, rule=parts.rule)


def read_lengths(opened: StudyCorpus, sources: LearnedSources, progress: Progress) -> LengthInputs:
    """Read the training split, whose lengths are compared with those of the split that is searched."""
    learned = select(opened.whole, split=sources.train_split)  # says which splits there are
    return LengthInputs(**opened.told, learned=learned)


def read_rankings(opened: StudyCorpus, sources: RankingSources, progress: Progress) -> RankingInputs:
    """Read the models, where features are named, and the scores of other systems."""
    if sources.features is None and not sources.scores:
        raise UsageError(
            "This study measures rankings; name features that a model can rank by (--features), or scores (--scores "
            "NAME=FILE)."
        )
    if sources.matchers and sources.features is None:
        raise UsageError("A matcher ranks by features; name their folder with --features.")
    return _with_scores(opened, sources, StudyModels(opened, sources).load() if sources.features else ())


def read_stages(opened: StudyCorpus, sources: RankingSources, progress: Progress) -> RankingInputs:
    """Read the models, whose features have to be named, and the scores of other systems."""
    return _with_scores(opened, sources, StudyModels(opened, sources).load())


def _with_scores(opened: StudyCorpus, sources: RankingSources, models: tuple[Model, ...]) -> RankingInputs:
    """Scores of other systems too; what they leave out is measured without."""
    scores = {
        name: load_scores(path, opened.test, partial=True, whole=opened.whole, notice=opened.said_of(name).append)
        for name, path in sources.scores.items()
    }
    return RankingInputs(**opened.told, models=models, scores=scores)


def read_length_rankings(opened: StudyCorpus, sources: LengthRankingSources, progress: Progress) -> LengthRankingInputs:
    """Read rankings, and the training split whose lengths they are compared with."""
    found, learned = read_rankings(opened, sources, progress), opened.learned(sources.train_split)
    return LengthRankingInputs(**opened.told, models=found.models, scores=found.scores, learned=learned)


def read_models(opened: StudyCorpus, sources: ModelSources, progress: Progress) -> ModelInputs:
    """Read the matchers with the features that each takes."""
    models = StudyModels(opened, sources).load()
    return ModelInputs(**opened.told, models=models)


def read_pictures(opened: StudyCorpus, sources: PictureSources, progress: Progress) -> PictureInputs:
    """Read the matchers, and open the videos and towers that show what they look at."""
    models = StudyModels(opened, sources).load()
    return PictureInputs(**opened.told, models=models, looking=opened.looking(sources.videos))


def read_text_pictures(opened: StudyCorpus, sources: TextPictureSources, progress: Progress) -> TextPictureInputs:
    """Read the matchers, the on-screen words of the features, and open the videos."""
    features = read_text(opened, sources, progress).features
    models = StudyModels(opened, sources, says_words=True).load()
    return TextPictureInputs(**opened.told, models=models, looking=opened.looking(sources.videos), features=features)


def read_text(opened: StudyCorpus, sources: TextSources, progress: Progress) -> FeatureInputs:
    """Read the features of the split that is searched, with their on-screen words."""
    parts = StudyParts(opened)
    parts.say_words(sources)
    features = parts.part(opened.test)
    return FeatureInputs(**opened.told, features=features)


def read_streams(opened: StudyCorpus, sources: LearnedModelSources, progress: Progress) -> StreamInputs:
    """Read the matchers ready to learn at test time, and the captions of the training split."""
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


def read_training(opened: StudyCorpus, sources: TrainingSources, progress: Progress) -> LearningInputs:
    """Read the splits to learn from, to select on and to search."""
    return _trained_on(opened, sources, StudyParts.for_training(opened, sources))


def read_transfer(opened: StudyCorpus, sources: TransferSources, progress: Progress) -> TransferInputs:
    """Read the splits to learn from, and parts of other corpora to search."""
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
    parts.pretrained_features.check_used()
    if sources.rule is not None:  # towers make the features of these
        train, validation = (None if part is None else part.without_vectors() for part in (train, validation))
    return LearningInputs(
        **opened.told,
        train=train,
        validation=validation,
        features=features,
        streams=parts.streams,
        start=parts.start,
        weights_hash=parts.weights_hash,
    )
