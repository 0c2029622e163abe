"""The file config.json of a checkpoint: its records as JSON, with a version and the digest of the weights.

Layout: `format`, `evenreel_version`, `matcher` (name, settings, wrapped), `about` (the fields of `About`),
`weights_sha256`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec, RecordedMetric
from evenreel.config import MOST_SIZE
from evenreel.documents import brief, parse_json
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.settings import Words
from evenreel.features.word_changes import WordChanges
from evenreel.version import __version__

FORMAT = 1
"""Version of the layout; a reader refuses a larger one. 1: the first."""

MOST_WRAPPED = 1_024
"""Matchers of an ensemble, as of a recipe's members."""

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


@dataclass(frozen=True)
class Config:
    """Content of config.json, the description of a checkpoint.

    Attributes:
        spec: specification that the matcher is built from, every setting spelt out.
        about: origin of the matcher.
        weights_sha256: digest of model.safetensors, in hex.
    """

    spec: MatcherSpec
    about: About
    weights_sha256: str


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
    """Read the config.json of a checkpoint.

    Raises:
        CheckpointError: it cannot be read, was written by a later version, or is that of another kind of model.
    """
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
        return _parsed(data)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise CheckpointError(
            f"{path} is damaged or was edited ({type(error).__name__}: {error}); get the checkpoint again."
        ) from error


def _parsed(data: Mapping[str, Any]) -> Config:
    return Config(_spec(data["matcher"]), _about(data["about"]), _text(data["weights_sha256"]))


def _spec(data: Mapping[str, Any]) -> MatcherSpec:
    settings = data["settings"]
    if not isinstance(settings, dict):
        raise ValueError("the settings are no table")
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    if len(data["wrapped"]) > MOST_WRAPPED:
        raise ValueError(f"it wraps {len(data['wrapped']):,} matchers, at most {MOST_WRAPPED:,} are read")
    return MatcherSpec(_text(data["name"]), settings, tuple(_spec(inner) for inner in data["wrapped"]))


def _about(data: Mapping[str, Any]) -> About:
    metrics = tuple(RecordedMetric(**{**metric, "uses": tuple(metric["uses"])}) for metric in data["metrics"])
    for metric in metrics:
        _numbers(metric)
    inputs = data["inputs"]
    changes = inputs.get("word_changes")
    given = {
        "streams": tuple(inputs.get("streams", ())),
        "word_changes": None if changes is None else WordChanges(**changes),
    }
    parts = {
        "encoder": _encoder(EncoderNote(**data["encoder"])),
        "inputs": _inputs(Inputs(**{**inputs, **given})),
        "metrics": metrics,
        "limits": tuple(map(_text, data["limits"])),
        "clips_note": tuple(map(_text, data.get("clips_note", ()))),
        "uses": tuple(map(_text, data.get("uses", ()))),
    }
    return About(**{**data, **parts})


def _encoder(note: EncoderNote) -> EncoderNote:
    _text(note.id), _text(note.weights_hash)
    if not isinstance(note.dimension, int) or not 1 <= note.dimension <= MOST_SIZE:
        raise ValueError(f"the dimension is {brief(note.dimension)}, and must be 1 to {MOST_SIZE:,}")
    if note.before is not None:
        _text(note.before)
    return note


def _inputs(inputs: Inputs) -> Inputs:
    for name in ("frames", "words", "windows"):
        most = getattr(inputs, name)
        if most is not None and (not isinstance(most, int) or not 1 <= most <= MOST_SIZE):
            raise ValueError(f"the number of {name} is {brief(most)}, and must be 1 to {MOST_SIZE:,}")
    if inputs.words_from not in (None, *get_args(Words)):
        raise ValueError(f"on-screen text is from {brief(inputs.words_from)}")
    for stream in inputs.streams:
        _text(stream)
    return inputs


def _numbers(metric: RecordedMetric) -> None:
    for value in (metric.value, metric.low, metric.high):
        if value is not None and not isinstance(value, (int, float)):  # of JSON, so of 64 bits at most
            raise ValueError(f"the value {brief(value)} of {brief(metric.name)} is no number")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{brief(value)} is no text")
    return value
