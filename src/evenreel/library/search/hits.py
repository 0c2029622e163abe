"""What a search answers with: clips, and why each is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from evenreel.types import Metadata

State = Literal["fits", "may_fit", "nothing"]
"""Whether a clip answers a query."""

Channel = Literal["seen", "on_screen", "about"]
"""What finds clips: their frames, their on-screen words, or their names and captions."""


@dataclass(frozen=True)
class MomentHit:
    """A stretch of a clip that fits the query; `time_s` is its best frame, or the middle of a sign's stretch.

    `score` is that of what found the clip: the best frame's similarity, a sign's, or for a clip that was found by its
    name or caption, and then is one moment from start to end, the share of the query that is written there.
    """

    time_s: float
    start_s: float
    end_s: float
    score: float


@dataclass(frozen=True)
class TextHit:
    """On-screen words that matched: the track's text, what of the query it matched, and when it is shown.

    `similarity` is 1 for an exact match, less for another form of a word or a reading with errors. `found` are the
    words that were found there, folded, two of them with a space between where they stand for one of the query.
    """

    text: str
    matched: tuple[str, ...]
    start_s: float
    end_s: float
    similarity: float
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class Element:
    """What a clip shows, in a phrase of a scene dictionary.

    Attributes:
        phrase: as the dictionary has it.
        kind: `entity` or `activity`.
        score: by how many standard deviations it is nearer to the clip than nonsense is.
    """

    phrase: str
    kind: str
    score: float


@dataclass(frozen=True)
class Hit:
    """One clip of a result, with the reason it is there.

    `scores` has one entry a channel that found the clip (`seen`, `on_screen`, `about`): the channel's own score; and
    `reranked`, the matcher's, where one ordered the clip anew. `score` is the fused one. `state` says whether the clip
    answers, by the rule of `evenreel.library.search.ranking`; None where that was not measured. `above_nonsense` is the
    share of nonsense queries that do worse on every clip of the library than the query does on this one by its frames;
    no probability; None without frames or where it was not measured. `written` is the share of the query's words, rare
    ones weighing more, that is written on the clip, in its name or in its caption. `elements` say what else the clip
    shows, where the library has a dictionary. `parts` are what `reranked` is the mean of, where the matcher tells: the
    query's similarity to what is `seen`, to what is read `on_screen`, and to `both` together. `none_read`: nothing is
    written there, or nobody looked; that part is then of what the matcher learned to put in the place of words.
    """

    clip_id: str
    path: str
    score: float
    state: State | None
    above_nonsense: float | None
    written: float
    scores: dict[str, float]
    moments: tuple[MomentHit, ...]
    on_screen: tuple[TextHit, ...]
    duration_s: float | None
    metadata: Metadata = field(default_factory=dict)
    other_paths: tuple[str, ...] = ()
    elements: tuple[Element, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)
    none_read: bool = False


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first.

    `state` is that of the hit that answers best; None where that was not measured. `fit` and `may_fit` count the clips
    of these states in the whole library, as far as the filter lets them through, also those that are no hits.
    """

    query: str
    hits: tuple[Hit, ...]
    state: State | None
    fit: int = 0
    may_fit: int = 0
    notices: tuple[str, ...] = ()

    @property
    def answering(self) -> int:
        """How many hits, from the first on, are the answer: those that fit, or that may where none does.

        All where that was not measured. The hits behind them are the nearest others.
        """
        if self.state == "nothing":
            return 0
        return max((place for place, hit in enumerate(self.hits, start=1) if hit.state == self.state), default=0)

    def to_json(self) -> dict[str, Any]:
        """The result as plain data, the form that `--json` prints."""
        from dataclasses import asdict

        return asdict(self) | {"answering": self.answering}
