"""A gallery of clips with a content and a background, rankings that read either, and what edits make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.types import Corpus, ScoreNotes, Scores

CLIPS, KINDS, CAPTIONS = 60, 8, 2
CLIP_IDS = [f"v{number}" for number in range(CLIPS)]
OWN = np.repeat(np.arange(CLIPS), CAPTIONS)
CAPTION_IDS = [f"c{number}" for number in range(CLIPS * CAPTIONS)]

Table = NDArray[np.float64]

QUICK = AuditSettings(resamples=200)


def corpus() -> Corpus:
    captions = {"caption_id": CAPTION_IDS, "clip_id": [CLIP_IDS[one] for one in OWN]}
    return make_corpus(
        pl.DataFrame({"clip_id": CLIP_IDS}), pl.DataFrame(captions | {"text": [f"do {one}" for one in OWN]})
    )


def arguments(edited: object, settings: AuditSettings = QUICK) -> dict[str, Any]:
    """Edited scores and settings, as audits of edits take them by name."""
    return {"settings": settings, "edited": edited}


def of(values: Table, uses: tuple[str, ...] = ()) -> Scores:
    return Scores(values, CAPTION_IDS, CLIP_IDS, ScoreNotes(uses))


@dataclass(frozen=True)
class World:
    """Clips of random content and background, seen by a ranking that weighs the background so much.

    A caption likes the background of its content, whether its clip has it or not.
    """

    weight: float
    noise: float = 0.3
    seed: int = 0

    def scores(self) -> tuple[Table, dict[str, Table]]:
        """As they are, and after the edits `background-swapped`, `entity-swapped` and `control`."""
        random = np.random.default_rng(self.seed)
        content, background = random.integers(0, KINDS, (2, CLIPS))
        other = (background + random.integers(1, KINDS, CLIPS)) % KINDS
        another = (content + random.integers(1, KINDS, CLIPS)) % KINDS
        shown: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {
            "": (content, background),
            "background-swapped": (content, other),
            "entity-swapped": (another, background),
            "control": (content, background),
        }
        found = {name: self._seen(content[OWN], *sides, random) for name, sides in shown.items()}
        return found.pop(""), found

    def _seen(
        self, asked: NDArray[np.int64], content: NDArray[np.int64], background: NDArray[np.int64],
        random: np.random.Generator,
    ) -> Table:  # fmt: skip
        matched = (asked[:, None] == content) + self.weight * (asked[:, None] == background)
        return matched + self.noise * random.normal(size=matched.shape)
