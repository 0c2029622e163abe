"""What studies are given, in memory: a class for each kind of study has what these work on, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenreel.checkpoint import Pretrained
from evenreel.errors import UsageError
from evenreel.features import SetAside
from evenreel.features.facts import ClipFacts
from evenreel.papers.engine.caption_bank import CaptionBank
from evenreel.papers.engine.material import CorpusPart, Looking, Model
from evenreel.types import Corpus, ScoreBlocks, Shown


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyInputs(Shown):
    """The corpus that a study is made on; every kind of study has a class that adds what it needs.

    Attributes:
        test: the split that is searched.
        corpus: all splits; None for the test split alone.
        set_aside: clips without features, since they could not be read.
        notices: what the reader must know of all that.
    """

    test: Corpus
    corpus: Corpus | None = None
    set_aside: tuple[SetAside, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def whole(self) -> Corpus:
        """Return the corpus with all splits, or the test split where only that was given."""
        return self.test if self.corpus is None else self.corpus


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureInputs(StudyInputs):
    """A corpus whose test split has features, for studies of these.

    Attributes:
        features: those of the test split; None where there are none.
    """

    features: CorpusPart | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PairInputs(FeatureInputs):
    """Real clips and their mirrors in both splits, with what is known of their files.

    Attributes:
        train: features of the training split; None where there are none.
        rule: how the frames of both were sampled; empty where nobody says.
        facts: headers of the files of all clips; None where nobody looked at them.
    """

    train: CorpusPart | None = None
    rule: str = ""
    facts: ClipFacts | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LengthInputs(StudyInputs):
    """A corpus whose clips have lengths and classes, with its training split.

    Attributes:
        learned: the training split; None where there is none.
    """

    learned: Corpus | None = None

    def learned_from(self) -> Corpus:
        """Return the training split.

        Raises:
            UsageError: no training split was given.
        """
        if self.learned is None:
            raise UsageError(
                "This study compares with what was learned from; give it a training split (--train-split)."
            )
        return self.learned


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelInputs(StudyInputs):
    """Models to study, with the features of the test split that each takes.

    Attributes:
        models: matchers that are studied.
    """

    models: tuple[Model, ...] = ()

    def encoders(self) -> tuple[Model, ...]:
        """Return the models, for studies that change what a model sees.

        Raises:
            UsageError: no model was given.
        """
        if not self.models:
            raise UsageError("This study changes what a model sees; give it features of the test split.")
        return self.models


@dataclass(frozen=True, eq=False, kw_only=True)
class RankingInputs(ModelInputs):
    """Rankings of the test split to study, by models and by other systems.

    Attributes:
        scores: scores of other systems on the test split, by their names.
    """

    scores: Mapping[str, ScoreBlocks] = field(default_factory=dict)

    def systems(self) -> dict[str, ScoreBlocks]:
        """Return the scores of the models and of the other systems, by name.

        Raises:
            UsageError: no scores were given.
        """
        own = {model.name: model.part.scores(model.matcher) for model in self.models}
        if not own and not self.scores:
            raise UsageError("This study measures rankings; give it features of the test split, or scores of a system.")
        return own | dict(self.scores)


@dataclass(frozen=True, eq=False, kw_only=True)
class LengthRankingInputs(RankingInputs, LengthInputs):
    """Rankings of the test split, with the training split whose lengths they are held against."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamInputs(ModelInputs):
    """Models that learn from a stream of queries at test time.

    Attributes:
        bank: captions of the training split, for corrections of scores by these; None for none.
    """

    bank: CaptionBank | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PictureInputs(ModelInputs):
    """Models to study, with the frames of clips and the towers that see them.

    Attributes:
        looking: shows frames of clips; None where nobody can.
    """

    looking: Looking | None = None

    def pictures(self) -> Looking:
        """Return the frames of clips and the towers that see them.

        Raises:
            UsageError: there is nothing to look with.
        """
        if self.looking is None:
            raise UsageError("This study shows frames of clips; give it their videos and the encoder of the features.")
        return self.looking


@dataclass(frozen=True, eq=False, kw_only=True)
class TextPictureInputs(PictureInputs, FeatureInputs):
    """Models, frames of clips, and the on-screen words that the features of the test split have."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningInputs(FeatureInputs):
    """Splits with features to learn from, to select on and to search.

    Attributes:
        train: what is learned from.
        validation: what models are selected on; None for a held-out part of `train`, or nothing.
        streams: dimension of each of the streams that stand side by side in the frames, by its name; empty where they
            are of one network.
        start: what training begins with; None for the recipe's matcher, untrained.
        weights_hash: digest of the weights of the features' encoder; None where nobody says.
    """

    train: CorpusPart | None = None
    validation: CorpusPart | None = None
    streams: Mapping[str, int] = field(default_factory=dict)
    start: Pretrained | None = None
    weights_hash: str | None = None

    def learning(self) -> tuple[CorpusPart, CorpusPart]:
        """Return the training split and the test split, both with features.

        Raises:
            UsageError: one of them is missing.
        """
        if self.train is None or self.features is None:
            raise UsageError("This study trains; give it features of a training and of a test split.")
        return self.train, self.features


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferInputs(LearningInputs):
    """Splits to train on, and other corpora that are searched.

    Attributes:
        name: what the corpus is called beside the others.
        others: parts of other corpora with features alike, by their names.
    """

    name: str = "own corpus"
    others: Mapping[str, CorpusPart] = field(default_factory=dict)

    def searched(self) -> dict[str, CorpusPart]:
        """Return the parts of other corpora by their names, and the test split after them.

        Raises:
            UsageError: there are no others, or one has the name of the corpus.
        """
        _, test = self.learning()
        if not self.others:
            raise UsageError("This study asks what is found in corpora that nothing was learned from; give it some.")
        if self.name in self.others:
            raise UsageError(f"Two corpora are called {self.name!r}; call the other one something else.")
        return {**self.others, self.name: test}
