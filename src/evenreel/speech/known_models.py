"""Models of speech that are known, with short names, licences and sizes."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class KnownSpeechModel:
    """A model of speech with what is known of it.

    Attributes:
        name: short name, such as `small`.
        id: hub id.
        family: name of the family, for people.
        size_mb: size of its files in megabytes.
        licence: licence of its weights.
        languages: languages that it hears, in words.
    """

    name: str
    id: str
    family: str
    size_mb: float
    licence: str
    languages: str


@functools.cache
def known_speech_models() -> tuple[KnownSpeechModel, ...]:
    """Read the table of known models of speech."""
    given: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return tuple(KnownSpeechModel(**row) for row in given["models"])
