"""Where what studies work on is on disk: a class for each kind of study names its folders and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.errors import UsageError
from evenreel.features.settings import Words

WORDS: Mapping[Words, str] = {"ocr": "words read in the frames", "corpus": "words of the corpus"}
"""What on-screen text is."""


@dataclass(frozen=True)
class OtherCorpus:
    """Places of a corpus that is searched and not learned from.

    Attributes:
        corpus: its folder.
        features: folder of its features, by the same encoder.
        split: that is searched; None for a split of the same name as that of the study's own corpus.
    """

    corpus: Path
    features: Path
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class StudySources:
    """Places on disk of what any study works on, beside the folder of the corpus.

    Attributes:
        features: folder of the corpus's features, for studies that look at some.
        split: part of the corpus that is searched.
        train_split: part of the corpus that is learned from.
        videos: folder in which the paths of the clips begin, where that is not the corpus's.
        device: where models run: auto, cpu, cuda, cuda:1, mps.
    """

    features: Path | None = None
    split: str = "test"
    train_split: str = "train"
    videos: Path | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ModelSources(StudySources):
    """Places of what a study of models works on.

    Attributes:
        matchers: checkpoints, or names of matchers that need no training, by the names they are shown by; empty for
            `mean_pool`.
        seen: folder of features by the towers of checkpoints before their training, for those that ask for some.
    """

    matchers: Mapping[str, str] = field(default_factory=dict)
    seen: Path | None = None


@dataclass(frozen=True, kw_only=True)
class RankingSources(ModelSources):
    """Places of what a study of rankings works on: models, and scores of other systems.

    Attributes:
        scores: files of other systems' scores of the split that is searched, by the names they are shown by.
    """

    scores: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TextSources(StudySources):
    """Places of what a study of on-screen words works on.

    Attributes:
        words: words on screen that are looked at, corpus or ocr; None for those of the last run of `evenreel features`.
    """

    words: Words | None = None

    def __post_init__(self) -> None:
        if self.words not in (None, *WORDS):
            raise UsageError(f"The source of on-screen words is {self.words!r}; it must be {' or '.join(WORDS)}.")


@dataclass(frozen=True, kw_only=True)
class TextModelSources(TextSources, ModelSources):
    """Places of what a study of models and on-screen words works on."""


@dataclass(frozen=True, kw_only=True)
class TrainingSources(StudySources):
    """Places of what a study that trains works on.

    Attributes:
        start: a checkpoint that training begins with, whose matcher and adapter take the place of the recipe's.
        seen: folder of features by the towers of that checkpoint before their training, where it asks for some.
        graphs: whether what is trained reads role graphs of captions.
    """

    start: str | None = None
    seen: Path | None = None
    graphs: bool = False


@dataclass(frozen=True, kw_only=True)
class SelectingSources(TrainingSources):
    """Places of what a study works on that trains and may select on a split.

    Attributes:
        validation_split: part of the corpus that models are selected on; None for none.
    """

    validation_split: str | None = None


@dataclass(frozen=True, kw_only=True)
class TextTrainingSources(TextSources, SelectingSources):
    """Places of what a study works on that trains on on-screen words."""


@dataclass(frozen=True, kw_only=True)
class TransferSources(SelectingSources):
    """Places of what a study works on that searches other corpora than it learned from.

    Attributes:
        others: their folders, by the names they are shown by.
    """

    others: Mapping[str, OtherCorpus] = field(default_factory=dict)
