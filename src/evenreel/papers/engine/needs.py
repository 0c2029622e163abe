"""What studies need from the user, each kind with the record it is given and how that is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

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

if TYPE_CHECKING:
    from evenreel.papers.engine.inputs import StudyInputs
    from evenreel.papers.engine.loading import StudyCorpus
    from evenreel.progress import Progress


@dataclass(frozen=True)
class Needs:
    """What a study needs from the user, the record it is given, and the reader between them.

    Attributes:
        words: what the user has to name beside the corpus, for a list.
        sources: record of where that is on disk.
        record: name of the class of the inputs that the study is given, in `evenreel.papers.engine.inputs`.
        reader: name of the function that reads these, in `evenreel.papers.engine.reading`.
        features: whether features of the corpus have to be named.
    """

    words: str
    sources: type[StudySources]
    record: str
    reader: str
    features: bool = True

    @property
    def inputs(self) -> type[StudyInputs]:
        """Import the class of the inputs that the study is given."""
        return cast("type[StudyInputs]", resolve_name(f"evenreel.papers.engine.inputs:{self.record}"))

    @property
    def read(self) -> Callable[[StudyCorpus, Any, Progress], StudyInputs]:
        """Import the function that reads the inputs from the sources."""
        found = resolve_name(f"evenreel.papers.engine.reading:{self.reader}")
        return cast("Callable[[StudyCorpus, Any, Progress], StudyInputs]", found)


_FEATURES, _TRAINING, _RANKINGS = "--features", "--features and a split to train on", "--features or --scores"
FILES = Needs("the videos", FileSources, "PairInputs", "read_files", features=False)
PAIRS = Needs(_FEATURES, PairSources, "PairInputs", "read_pairs")
LENGTHS = Needs("a split to train on", LearnedSources, "LengthInputs", "read_lengths", features=False)
RANKINGS = Needs(_RANKINGS, RankingSources, "RankingInputs", "read_rankings", features=False)
LENGTH_RANKINGS = Needs(_RANKINGS, LengthRankingSources, "LengthRankingInputs", "read_length_rankings", features=False)
STAGES = Needs(_FEATURES, RankingSources, "RankingInputs", "read_stages")
MODELS = Needs(_FEATURES, ModelSources, "ModelInputs", "read_models")
PICTURES = Needs(_FEATURES, PictureSources, "PictureInputs", "read_pictures")
STREAMS = Needs(_FEATURES, LearnedModelSources, "StreamInputs", "read_streams")
TEXT = Needs(_FEATURES, TextSources, "FeatureInputs", "read_text")
TEXT_PICTURES = Needs(_FEATURES, TextPictureSources, "TextPictureInputs", "read_text_pictures")
FINE_TUNING = Needs(_TRAINING, TrainingSources, "LearningInputs", "read_training")
TRAINING = Needs(_TRAINING, SelectingSources, "LearningInputs", "read_training")
TEXT_TRAINING = Needs(_TRAINING, TextTrainingSources, "LearningInputs", "read_training")
TRANSFER = Needs(_TRAINING, TransferSources, "TransferInputs", "read_transfer")
