"""Where what studies work on is on disk: a class for each kind of study names its folders and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.features.settings import Words

WORDS: Mapping[Words, str] = {"ocr": "words read in the frames", "corpus": "words of the corpus"}
"""What on-screen text is."""


@dataclass(frozen=True)
class OtherCorpus:
    """Folders of a further corpus, which is searched and not learned from.

    Attributes:
        corpus: its folder.
        features: folder of its features, by the same encoder.
        split: split that is searched; None for a split of the same name as that of the study's own corpus.
    """

    corpus: Path
    features: Path
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class StudySources:
    """What every study reads from disk, beside the folder of its corpus.

    Attributes:
        split: part of the corpus that is searched.
    """

    split: str = "test"


@dataclass(frozen=True, kw_only=True)
class FeatureSources(StudySources):
    """What a study of features reads from disk.

    Attributes:
        features: folder of the corpus's features.
    """

    features: Path | None = None


@dataclass(frozen=True, kw_only=True)
class LearnedSources(StudySources):
    """What a study reads from disk that compares with a training split.

    Attributes:
        train_split: part of the corpus that is learned from.
    """

    train_split: str = "train"


@dataclass(frozen=True, kw_only=True)
class PairSources(FeatureSources, LearnedSources):
    """What a study of real clips and their mirrors reads from disk."""


@dataclass(frozen=True, kw_only=True)
class FileSources(PairSources):
    """What a study of video files reads from disk.

    Attributes:
        videos: folder in which the paths of the clips begin; None for that of the corpus.
    """

    videos: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ModelSources(FeatureSources):
    """What a study of models reads from disk.

    Attributes:
        matchers: checkpoints that rank the clips, or names of matchers that need no training, by the names they are
            shown by ([NAME=]CHECKPOINT, again for more); empty for `mean_pool`.
        pretrained_features: folder of features by the towers of checkpoints before their training, for those that
            require some.
        device: where models run: auto, cpu, cuda, cuda:1, mps.
    """

    matchers: Annotated[Mapping[str, str], OptionForm("--matcher")] = field(default_factory=dict)
    pretrained_features: Path | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class LearnedModelSources(ModelSources, LearnedSources):
    """What a study of models reads from disk that compares with a training split."""


@dataclass(frozen=True, kw_only=True)
class RankingSources(ModelSources):
    """What a study of rankings reads from disk: models, and scores of other systems.

    Attributes:
        scores: scores of other systems on the split that is searched, as npy, npz, parquet or a TREC run, by the names
            they are shown by ([NAME=]FILE, again for more).
    """

    scores: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LengthRankingSources(RankingSources, LearnedSources):
    """What a study of rankings reads from disk that compares with lengths in a training split."""


@dataclass(frozen=True, kw_only=True)
class PictureSources(ModelSources):
    """What a study of models reads from disk that shows frames of clips.

    Attributes:
        videos: folder in which the paths of the clips begin; None for that of the videos that features were made of.
    """

    videos: Path | None = None


@dataclass(frozen=True, kw_only=True)
class TextSources(FeatureSources):
    """What a study of on-screen words reads from disk.

    Attributes:
        words: words on screen that are looked at, corpus or ocr; None for those of the last run of `evenreel features`.
    """

    words: Words | None = None

    def __post_init__(self) -> None:
        if self.words not in (None, *WORDS):
            raise UsageError(f"The source of on-screen words is {self.words!r}; it must be {' or '.join(WORDS)}.")


@dataclass(frozen=True, kw_only=True)
class TextPictureSources(TextSources, PictureSources):
    """What a study of models, frames of clips and on-screen words reads from disk."""


@dataclass(frozen=True, kw_only=True)
class TrainingSources(FeatureSources, LearnedSources):
    """What a study that trains reads from disk.

    Attributes:
        start: a checkpoint that training begins with, whose matcher and adapter take the place of the recipe's.
        pretrained_features: folder of features by the towers of that checkpoint before their training, where it
            requires some.
        videos: folder in which the paths of the clips begin, where towers are trained (a recipe with a backbone); None
            for that of the videos that features were made of.
        device: where models run: auto, cpu, cuda, cuda:1, mps.
        graphs: whether what is trained reads role graphs of captions.
        rule: rule by which frames are sampled for towers that are trained; None where no towers are.
    """

    start: str | None = None
    pretrained_features: Path | None = None
    videos: Path | None = None
    device: str = "auto"
    graphs: bool = False
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class SelectingSources(TrainingSources):
    """What a study reads from disk that trains and may select weights on a split.

    Attributes:
        validation_split: part of the corpus that models are selected on; None for none.
    """

    validation_split: str | None = None


@dataclass(frozen=True, kw_only=True)
class TextTrainingSources(TextSources, SelectingSources):
    """What a study reads from disk that trains on on-screen words."""


@dataclass(frozen=True, kw_only=True)
class TransferSources(SelectingSources):
    """What a study reads from disk that searches other corpora than it learned from.

    Attributes:
        others: corpora that are searched and not learned from, by the names they are shown by (NAME=CORPUS,FEATURES,
            and ,SPLIT where it is another than --split; again for more).
    """

    others: Annotated[Mapping[str, OtherCorpus], OptionForm("--other")] = field(default_factory=dict)
