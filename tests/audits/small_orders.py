"""Corpora of clips and their twins of any small size, planted rankings, and every figure again in plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evenreel.audits.order import (
    ALL_RIGHT,
    CAPTIONS_RIGHT,
    LIKED,
    TEXT,
    TEXT_OF_CLIP,
    TEXT_OF_TWIN,
    VIDEO,
    VIDEOS_RIGHT,
)
from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import ORDER_OF
from evenreel.types import Corpus, Scores
from tests.audits.small_pairs import beats


def orders(
    pairs: int, captions: Sequence[str], texts: Sequence[str] = (), others: int = 0, **columns: Sequence[Any]
) -> Corpus:
    """Clips v0, v1, ..., their twins v0_reverse, ..., other clips o0, ..., and a caption of each clip that is named."""
    shot, rest = [f"v{one}" for one in range(pairs)], [f"o{one}" for one in range(others)]
    clips = {"clip_id": [*shot, *(f"{one}_reverse" for one in shot), *rest]}
    clips |= {ORDER_OF: [*[None] * pairs, *shot, *[None] * others]}
    clips |= {name: [*values, *[None] * (len(clips["clip_id"]) - len(values))] for name, values in columns.items()}
    table = {"caption_id": [f"c{one}" for one in range(len(captions))], "clip_id": list(captions)}
    words = [*texts] or ["a door opens"] * len(captions)
    schema = {"caption_id": pl.String, "clip_id": pl.String, "text": pl.String}
    return make_corpus(pl.DataFrame(clips), pl.DataFrame({**table, "text": words}, schema))


def both(pairs: int) -> list[str]:
    """A caption of each clip, then of each twin."""
    return [f"v{one}{ending}" for ending in ("", "_reverse") for one in range(pairs)]


@dataclass(frozen=True)
class Ranker:
    """A planted ranking of pairs whose clips and twins have a caption each, or clips alone.

    Attributes:
        sees: how much higher the order that a caption tells scores.
        disliked: how much lower every twin scores.
        spread: how much clips and twins differ in being liked by all captions.
    """

    sees: float = 0.0
    disliked: float = 0.0
    spread: float = 0.0

    def values(self, corpus: Corpus, seed: int, noise: float = 0.3) -> Any:
        """(Q, V) scores: a clip and its twin are alike but for noise, and a caption likes both of its own."""
        random = np.random.default_rng(seed)
        clips, told = corpus.clips["clip_id"].to_list(), corpus.captions["clip_id"].to_list()
        scenes = [one.removesuffix("_reverse") for one in clips]
        place = {scene: number for number, scene in enumerate(dict.fromkeys(scenes))}
        of_clip, of_caption = ([place[one.removesuffix("_reverse")] for one in some] for some in (clips, told))
        values = random.normal(size=(len(told), len(place)))[:, of_clip] + noise * random.normal(
            size=(len(told), len(clips))
        )
        values += 4 * (np.array(of_caption)[:, None] == np.array(of_clip)) + self.spread * random.normal(
            size=len(clips)
        )
        values -= self.disliked * np.array([one.endswith("_reverse") for one in clips])
        return values + self.sees * (np.array(told)[:, None] == np.array(clips))


Table = Mapping[str, Mapping[str, float]]
"""Score of each clip by caption, then by clip."""


def table_of(scores: Scores) -> dict[str, dict[str, float]]:
    return {
        caption: dict(zip(scores.video_ids, map(float, row), strict=True))
        for caption, row in zip(scores.caption_ids, scores.values, strict=True)
    }


def lead(row: Mapping[str, float], clip: str) -> float:
    one, other = row[clip], row[f"{clip}_reverse"]
    return 0.0 if one == other else one - other


def by_both(table: Table, of: Mapping[str, str], clip: str) -> dict[str, float]:
    """All shares of one pair with captions of both orders, and `further`."""
    twin = f"{clip}_reverse"
    found: dict[str, list[float]] = {}
    for t, u in ((t, u) for t in table for u in table if of[t] == clip and of[u] == twin):
        text, text_of_twin = beats(table[t][clip], table[t][twin]), beats(table[u][twin], table[u][clip])
        video, video_of_twin = beats(table[t][clip], table[u][clip]), beats(table[u][twin], table[t][twin])
        captions, videos = text == text_of_twin == 1, video == video_of_twin == 1
        shares = {
            "further": beats(lead(table[t], clip), lead(table[u], clip)),
            TEXT_OF_CLIP: text, TEXT_OF_TWIN: text_of_twin, TEXT: (text + text_of_twin) / 2,
            VIDEO: (video + video_of_twin) / 2, CAPTIONS_RIGHT: float(captions), VIDEOS_RIGHT: float(videos),
            ALL_RIGHT: float(captions and videos), LIKED: (text + 1 - text_of_twin) / 2,
        }  # fmt: skip
        for name, value in shares.items():
            found.setdefault(name, []).append(100 * value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def beside(table: Table, of: Mapping[str, str], clip: str, apart: Sequence[str]) -> float:
    """Chance in percent that a caption of the clip leads further to it than one of the clips apart, these alike."""
    own = [row for caption, row in table.items() if of[caption] == clip]
    means = []
    for other in apart:
        theirs = [row for caption, row in table.items() if of[caption] == other]
        means.append(np.mean([beats(lead(one, clip), lead(row, clip)) for one in own for row in theirs]))
    return float(100 * np.mean(means))
