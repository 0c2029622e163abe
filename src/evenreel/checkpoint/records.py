"""Records of a checkpoint beside its weights, and the file config.json that holds them.

Layout of the file: `format`, `evenreel_version`, `matcher` (name, settings, wrapped), `about` (the fields of `About`),
`weights_sha256` (the digest of the weights).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, get_args

from evenreel.config import MOST_SIZE, Allowed, check_settings, whole
from evenreel.documents import brief, parse_json
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.settings import STORED, Words
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import Matcher
from evenreel.types import Shown
from evenreel.version import __version__

_TEXT = Allowed("text", lambda value: isinstance(value, str))
_TEXT_OR_NONE = Allowed("text or null", lambda value: value is None or _TEXT.holds(value))
_TEXTS = Allowed("a list of texts", lambda value: isinstance(value, tuple) and all(map(_TEXT.holds, value)))
_SIZE_OR_NONE = Allowed(f"1 to {MOST_SIZE:,}, or null", lambda value: value is None or whole(1, MOST_SIZE).holds(value))
_WORDS_OR_NONE = Allowed("ocr, corpus or null", lambda value: value in (None, *get_args(Words)))
_NUMBER_OR_NONE = Allowed("a number", lambda value: value is None or isinstance(value, Real))
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

    id: Annotated[str, _TEXT]
    weights_hash: Annotated[str, _TEXT]
    dimension: Annotated[int, whole(1, MOST_SIZE)]
    before: Annotated[str | None, _TEXT_OR_NONE] = None

    def __post_init__(self) -> None:
        check_settings("an encoder", self)

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

    frames: Annotated[int | None, _SIZE_OR_NONE] = None
    words: Annotated[int | None, _SIZE_OR_NONE] = None
    rule: Annotated[str | None, _TEXT_OR_NONE] = None
    windows: Annotated[int | None, _SIZE_OR_NONE] = None
    words_from: Annotated[str | None, _WORDS_OR_NONE] = None
    streams: Annotated[tuple[str, ...], _TEXTS] = ()
    word_changes: WordChanges | None = None

    def __post_init__(self) -> None:
        check_settings("the inputs", self)

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
    value: Annotated[float, _NUMBER_OR_NONE]
    low: Annotated[float | None, _NUMBER_OR_NONE] = None
    high: Annotated[float | None, _NUMBER_OR_NONE] = None
    data: str = ""
    relevance: str = "clip"
    uses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_settings(f"the metric {self.name}", self)


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
    clips_note: Annotated[tuple[str, ...], _TEXTS] = ()
    uses: Annotated[tuple[str, ...], _TEXTS] = ()
    metrics: tuple[RecordedMetric, ...] = ()
    limits: Annotated[tuple[str, ...], _TEXTS] = ()
    license: str = ""

    def __post_init__(self) -> None:
        check_settings("a checkpoint", self)

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


FORMAT = 1
"""Version of the layout; a reader refuses a larger one. 1: the first."""
MOST_WRAPPED = 1_024
"""Matchers of an ensemble, as of a recipe's members."""
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


@dataclass(frozen=True)
class Config:
    """Content of config.json, the description of a checkpoint."""

    spec: MatcherSpec  # every setting spelt out
    about: About
    weights_sha256: str  # digest of model.safetensors, in hex


def to_json(config: Config) -> str:
    """Return the text of a checkpoint's config.json; equal configurations give equal bytes."""
    data = {
        "format": FORMAT,
        "evenreel_version": __version__,
        "matcher": asdict(config.spec),
        "about": asdict(config.about),
        "weights_sha256": config.weights_sha256,
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_config(path: Path) -> Config:
    """Read the config.json of a checkpoint; one that is damaged, newer or of another kind of model is refused."""
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON ({error}); get the checkpoint again.") from error
    if not isinstance(data, dict) or not isinstance(data.get("format"), int) or "matcher" not in data:
        raise CheckpointError(
            f"{path} is not that of a matcher saved by evenreel; an encoder is named with --model instead."
        )
    if data["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {brief(data['format'])}, this version reads up to {FORMAT}; update evenreel to read it."
        )
    try:
        return Config(_spec(data["matcher"]), _about(data["about"]), data["weights_sha256"])
    except (AttributeError, KeyError, TypeError, ValueError, UsageError) as error:
        raise CheckpointError(
            f"{path} is damaged or was edited ({type(error).__name__}: {error}); get the checkpoint again."
        ) from error


def _spec(data: Mapping[str, Any]) -> MatcherSpec:
    settings = data["settings"]
    if not isinstance(settings, dict):
        raise ValueError("the settings are no table")
    if len(data["wrapped"]) > MOST_WRAPPED:
        raise ValueError(f"it wraps {len(data['wrapped']):,} matchers, at most {MOST_WRAPPED:,} are read")
    return MatcherSpec(data["name"], _tuples(settings), tuple(_spec(inner) for inner in data["wrapped"]))


def _about(data: Mapping[str, Any]) -> About:
    inputs, changes = data["inputs"], data["inputs"].get("word_changes")
    parts = {
        "encoder": EncoderNote(**data["encoder"]),
        "inputs": Inputs(**_tuples({**inputs, "word_changes": changes and WordChanges(**changes)})),
        "metrics": tuple(RecordedMetric(**_tuples(metric)) for metric in data["metrics"]),
    }
    return About(**_tuples({**data, **parts}))


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists for tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
