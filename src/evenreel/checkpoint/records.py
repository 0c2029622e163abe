"""Records of a checkpoint beside its weights: specification of the matcher, its inputs, and its origin."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenreel.features.settings import STORED
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import Matcher
from evenreel.types import Shown

ENCODER = "encoder"
"""Folder of the towers inside a checkpoint, where they were trained with the matcher."""

SOURCE = "source"
"""Folder inside a checkpoint of what test-time training needs of the source, see `evenreel.adaptation.prepared`."""

ADAPTATION = "adaptation"
"""Folder inside a checkpoint of what test-time training reported, where the matcher went through it."""

BEFORE = "before"
"""Folder inside a checkpoint that was adapted in place, of the whole checkpoint that it was."""


@dataclass(frozen=True)
class MatcherSpec(Shown):
    """Specification that a matcher is built from.

    Attributes:
        name: key of `evenreel.matchers.MATCHERS` or of `architecture.WRAPPERS`, as in recipes.
        settings: fields of its settings class; those left out have their defaults.
        wrapped: specifications of the matchers that a wrapper is built around, in order; empty for a single matcher.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    wrapped: tuple[MatcherSpec, ...] = ()


@dataclass(frozen=True)
class EncoderNote:
    """Encoder of the features that a matcher takes; features of another encoder do not fit.

    Attributes:
        id: name the encoder can be loaded by; for one that was trained further, the name before that.
        weights_hash: digest of its weights and settings.
        dimension: length D of its features.
        before: digest of the towers before training, where they were trained with the matcher and are in the
            checkpoint's `encoder/`; else None.
    """

    id: str
    weights_hash: str
    dimension: int
    before: str | None = None

    @property
    def trained_further(self) -> bool:
        """Whether the encoder's towers were trained together with the matcher."""
        return self.before is not None

    def __str__(self) -> str:
        return f"{self.id}, trained further" if self.trained_further else self.id

    @property
    def stored_name(self) -> str | None:
        """Name of stored features that were computed elsewhere; None where an encoder computes them."""
        return self.id.removeprefix(STORED) if self.id.startswith(STORED) else None

    @property
    def model(self) -> str:
        """Argument that names the encoder in a command, as in `evenreel index --model`, quoted for a shell."""
        return f"CHECKPOINT/{ENCODER}" if self.trained_further else shlex.quote(self.id)


@dataclass(frozen=True)
class Inputs(Shown):
    """Form of the inputs that a matcher was trained on and should be given.

    Attributes:
        frames: greatest number of frames of a clip; None for any number.
        words: greatest number of word features of a caption, the tokenizer's marks included; None for any number.
        rule: sampling rule of the frames, in the words of `evenreel.features.settings.rule_text`.
        windows: number O of equal stretches of a clip whose on-screen text it was given; None where it was given none.
        words_from: origin of that text, `ocr` or `corpus`; None where it was given none or it was not noted.
        streams: names of the streams of stored features that it was given; empty for all of them.
        word_changes: changes of the words of that text; None for none.
    """

    frames: int | None = None
    words: int | None = None
    rule: str | None = None
    windows: int | None = None
    words_from: str | None = None
    streams: tuple[str, ...] = ()
    word_changes: WordChanges | None = None

    @property
    def on_screen(self) -> str:
        """Description, in words, of the on-screen text that the matcher was given."""
        if self.windows is None:
            return "no on-screen text"
        source = {"ocr": " (read in the frames)", "corpus": " (words of the corpus)"}.get(self.words_from or "", "")
        return f"the on-screen text of {self.windows} windows{source}"


@dataclass(frozen=True)
class RecordedMetric:
    """Figure of a metric with its interval, as a model card states it.

    Attributes:
        name: the metric and its direction, `R@1 t2v` for example.
        value: figure in the metric's own unit, percent for recall.
        low: lower end of the 95 % interval; None where it was not measured.
        high: upper end of the 95 % interval; None where it was not measured.
        data: corpus and split that it was measured on.
        relevance: rule by which clips answer a caption, as in `evenreel evaluate --relevance`.
        uses: what the ranking uses beside the caption and the video, as `ScoreNotes.uses` says it.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    data: str = ""
    relevance: str = "clip"
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class About(Shown):
    """Origin of a matcher, as config.json and the model card state it.

    Attributes:
        encoder: encoder of the features that it takes.
        inputs: form of the inputs that it was trained on.
        corpus: name of the corpus; empty for a matcher that was not trained.
        split: split that it was trained on.
        recipe: recipe as it was run, in YAML; empty where there was none.
        recipe_note: sentences on the origin of the recipe's settings, and on differences from it.
        clips_note: sentences on the clips that it was trained on: what was left out, how they were divided.
        uses: what it uses from outside its training and validation splits, such as `class lengths of the split test`;
            `ScoreNotes.uses` of all its scores repeats it.
        metrics: figures measured.
        limits: sentences on its own limits, beside those of every matcher.
        license: identifier of the licence of the weights, `apache-2.0` for example; empty where none was chosen.
    """

    encoder: EncoderNote
    inputs: Inputs = Inputs()
    corpus: str = ""
    split: str = ""
    recipe: str = ""
    recipe_note: str = ""
    clips_note: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    metrics: tuple[RecordedMetric, ...] = ()
    limits: tuple[str, ...] = ()
    license: str = ""

    @property
    def features_command(self) -> str:
        """Command, quoted for a shell, that computes the features of a corpus that the matcher takes."""
        if (name := self.encoder.stored_name) is not None:
            frames = (self.inputs.rule or "").partition(" ")[0]
            sampled = f" --frames {frames}" if frames.isdecimal() else ""
            return f"evenreel features CORPUS --stored STREAM=PLACE --name {shlex.quote(name)}{sampled}"
        rule = "" if self.inputs.rule is None else f" --rule {shlex.quote(self.inputs.rule)}"
        text = " --no-ocr" if self.inputs.windows is None else f" --windows {self.inputs.windows}"
        words = " --words corpus" if self.inputs.words_from == "corpus" else ""
        return f"evenreel features CORPUS --model {self.encoder.model}{rule}{text}{words}"


@dataclass(frozen=True, eq=False)
class Pretrained(Shown):
    """A matcher with its specification and its origin, as a checkpoint holds them.

    Attributes:
        matcher: the model; in evaluation mode after loading.
        spec: specification that the matcher is built from.
        about: origin of the matcher.
    """

    matcher: Matcher
    spec: MatcherSpec
    about: About

    @property
    def needs_pretrained_means(self) -> bool:
        """Whether the matcher needs features by its towers as they were before they were trained."""
        return self.matcher.limits.pretrained_mean and self.about.encoder.trained_further
