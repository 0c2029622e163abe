"""The record of an answer: clips, and the reason each is there.

The command line (`SearchResult.to_json`), Python, HTTP and assistants pass the same one on. What only a server
knows, as addresses, `evenreel.server.api` adds to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from evenreel.types import Metadata, Shown

Channel = Literal["seen", "on_screen", "said", "about", "sounds", "meaning"]
"""What finds clips: their frames, their on-screen words, what is said, their names and captions, their sounds, or what
these texts mean."""

Kinship = Literal["take", "same", "part", "whole"]


@dataclass(frozen=True)
class MomentHit:
    """A stretch of a clip that matches the query; `time_s` is its best frame, or the middle of a sign's stretch.

    What it matches is meant to start within `starts_s`, and to end within `ends_s`, in four of five cases each
    (`evenreel.library.search.seen`); None where frames did not find it.

    `time_s` of what is said is where that begins. `score` is the similarity of the best frame, of a sign or of what
    is said; of a clip found by its name or caption, which is one moment from start to end, the share of the query
    that is written there.
    """

    time_s: float
    start_s: float
    end_s: float
    score: float
    starts_s: tuple[float, float] | None = None
    ends_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class TextHit:
    """Words on screen, or said, that match a query: their text, the query's words that it matches, and their times.

    `similarity` is 1 for an exact match, less for another form of a word or a reading with errors. `found` are the
    matching words there, folded; two that match one word of the query, and those of a phrase in quotes, have a space
    between them.
    """

    text: str
    matched: tuple[str, ...]
    start_s: float
    end_s: float
    similarity: float
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeaningHit:
    """A line of a clip that means what the query does, in other words: said, on screen, or of its caption (`about`).

    A caption has no times: both are 0. `similarity` is the cosine of their vectors.
    """

    source: Literal["said", "on_screen", "about"]
    text: str
    start_s: float
    end_s: float
    similarity: float

    @property
    def moment(self) -> MomentHit:
        return MomentHit(self.start_s, self.start_s, self.end_s, self.similarity)


@dataclass(frozen=True)
class FoldedHit:
    """A clip of a result that is nearly the same as a better one (`evenreel.library.search.alike`).

    `time_s` is its best moment, None where no moment was found; `distance` is 1 minus the mean cosine of its moments
    with those of the better one. `reason` says what it is to that: another `take`, the `same` film encoded anew, a
    `part` of it, or the `whole` that has it as a part; `from_s` is where the part begins in the whole.
    """

    clip_id: str
    path: str
    duration_s: float | None
    time_s: float | None
    distance: float
    reason: Kinship = "take"
    from_s: float | None = None


@dataclass(frozen=True)
class Hit(Shown):
    """One clip of a search result, with the reason it is there.

    `scores` has one entry a channel that found the clip (`seen`, `on_screen`, `said`, `about`, `sounds`, `meaning`),
    the channel's own score; and `reranked`, the matcher's, where one ordered the clip anew. `score` is the fused one.
    `weaker` says whether the clip is behind the line, by the rule of `evenreel.library.search.searcher`; None where
    that was not measured. `above_nonsense` is the share of nonsense queries that do worse on every clip of the library
    than the query does on this one by its frames; no probability; None without frames or where it was not measured.
    `written` is the share of the query's words, rare ones weighing more, that is on screen, said, in the clip's name or
    in its caption. `said` are the utterances with words of the query, the best first. `sounds` is the share of nonsense
    that its sound beats; None where it was not found by that. `meaning` is the line that says it in other words; None
    where the clip was not found by that, or `said` or `on_screen` have the line.
    `parts` are the parts that `reranked` is the mean of, where the matcher has some: the query's similarity to
    frames (`seen`), to words (`on_screen`), and to `both`. `none_read` is True where no words were read; their part
    is then that of the matcher's learned vector for no words. `folded` are the hits that are nearly the same as it.
    `steps` are the moments of a search for one after another, in their order; `scores` then has how far each (`first`,
    `then`) is above nonsense, and `score` their sum.
    """

    clip_id: str
    path: str
    score: float
    weaker: bool | None
    above_nonsense: float | None
    written: float
    scores: dict[str, float]
    moments: tuple[MomentHit, ...]
    on_screen: tuple[TextHit, ...]
    duration_s: float | None
    metadata: Metadata = field(default_factory=dict)
    other_paths: tuple[str, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)
    none_read: bool = False
    said: tuple[TextHit, ...] = ()
    sounds: float | None = None
    meaning: MeaningHit | None = None
    folded: tuple[FoldedHit, ...] = ()
    steps: tuple[MomentHit, ...] = ()


@dataclass(frozen=True)
class SearchResult(Shown):
    """Result of a search: hits, best first.

    `matches` counts the clips that pass the filter and are no weaker matches, hits or not; 0 where that was not
    measured. `steps` are what a search for one moment after another has asked for, in order; `matches` then counts hits
    alone.
    """

    query: str
    hits: tuple[Hit, ...]
    matches: int = 0
    notices: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        yield (f"{self.query!r}: {len(self.hits):,} clips",)
        for place, hit in enumerate(self.hits, 1):
            times = f"{hit.moments[0].start_s:.1f} to {hit.moments[0].end_s:.1f} s" if hit.moments else ""
            yield place, hit.path[-36:], times, hit.score, "weaker match" if hit.weaker else ""

    @property
    def answering(self) -> int:
        """Number of hits, from the first on, that stand before the line; those behind them are weaker matches.

        All of them where that was not measured.
        """
        told = [hit.weaker for hit in self.hits]
        above = False if False in told else None
        return max((place for place, weaker in enumerate(told, start=1) if weaker is above), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data, as `--json` prints it."""
        return asdict(self) | {"answering": self.answering}
