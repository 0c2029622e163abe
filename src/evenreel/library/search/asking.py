"""Questions of more than one thing: how they are read, and searches for them made of searches for one.

'A without B' moves A away from B. Models of pictures and captions hardly read 'no' and 'not' (Alhamoud et al.,
'Vision-Language Models Do Not Understand Negation', CVPR 2025), so what is not wanted is taken out of the sentence and
its vector subtracted,

    q' = q(A) - 0.2 * q(B).

Examples move a query by Rocchio's rule (Rocchio, 'Relevance feedback in information retrieval', in Salton (ed.), The
SMART Retrieval System, 1971), towards the mean of what was right and away from the mean of what was wrong,

    q' = alpha * q + beta * mean(right) - gamma * mean(wrong),

here of unit vectors in the space that texts and pictures share, q' made one too.

'A, then B' asks for one moment after another. A clip stands by the worse of the states of its two moments, then by the
sum of how far both are above nonsense (`evenreel.library.store.vectors`). A frame is a moment where it lies in a
stretch that stands out in its clip and the clip answers by its frames; words on screen or said are moments of their
own, and a share of the query that is written counts as frames do that beat such a share of nonsense. Each half is asked
as a query of its own. No clip can be better than its two best moments in any order, so the clips that are first by that
are looked into until no other can be among the first.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.config import check_kind
from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.library.people import asked_people, known_names, with_people
from evenreel.library.search.query import ClipMoment, PlainText, Query, UnfinishedText, as_sentence, readable
from evenreel.library.search.result import Hit, MomentHit, SearchResult
from evenreel.library.search.searcher import (
    ANSWERS,
    EMPTY,
    NOTHING,
    Asked,
    ClipFacts,
    Searcher,
    facts_of,
    states_of,
    texts_of,
)
from evenreel.library.search.seen import frames_of, high_stretches, shown, spoken, unit
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.search.words import SOURCES, TIMED, WordMatches, read_texts
from evenreel.library.store.vectors import DEVIATION_FLOOR, MAY_FIT
from evenreel.types import Encoder, FloatArray
from evenreel.wording import seconds_of

WITHIN_S = 30.0  # most seconds between a moment and the one after it, where nothing else is said
MOST_WITHIN_S = 1e6

QUOTED = r'["“”„][^"“”„]*["“”„]'  # pattern of a stretch of text in quotes
_THEN = r"(?:^|(?<=[\s,;]))then(?=[\s,;]|$)"
_PIECES = re.compile(rf"{QUOTED}|(?P<then>{_THEN})", re.IGNORECASE)
_JOINED = re.compile(r"(?:^|[\s,;]+)(?:and)?[\s,;]*$", re.IGNORECASE)


@dataclass(frozen=True)
class Then:
    """Two queries, the second of which is to be answered by a later moment of the same clip.

    Attributes:
        first: what is to be seen, read or heard first, in the language of `evenreel.library.search.query`.
        second: what comes after it.
        within_s: most seconds from a moment of the first to one of the second.

    Raises:
        UsageError: one of the two is empty, or the gap is not above 0 and at most `MOST_WITHIN_S`.
    """

    first: str
    second: str
    within_s: float = WITHIN_S

    def __post_init__(self) -> None:
        for text, side, when in ((self.first, "before", "first"), (self.second, "after", "later")):
            if not readable(text):
                remedy = f"write what comes {when}, or put words that are to be found as they are in quotes"
                raise UsageError(f"Nothing stands {side} 'then'; {remedy}.")
        if not 0 < self.within_s <= MOST_WITHIN_S:
            what = f"The second moment is to come within {brief(self.within_s)} s of the first"
            raise UsageError(f"{what}; give seconds above 0, up to {MOST_WITHIN_S:,.0f}.")


def read_steps(text: str, within_s: float = WITHIN_S) -> str | Then:
    """Read a query that may have a `then` between two others; one in quotes is a word like any other.

    Example:
        >>> read_steps("a red bus, and then a dog")
        Then(first='a red bus', second='a dog', within_s=30.0)
        >>> read_steps('"now then" on a sign')
        '"now then" on a sign'
    """
    found = [piece for piece in _PIECES.finditer(text) if piece["then"]]
    if not found:
        return text
    if len(found) > 1:
        what = f"The query has 'then' {len(found)} times; it can have it once, between two moments"
        raise UsageError(f"{what}. Words that are to be found as they are stand in quotes.")
    first = _JOINED.sub("", text[: found[0].start()], count=1).lstrip()
    second = text[found[0].end() :].lstrip(" \t\r\n,;")
    if isinstance(text, UnfinishedText) and not (first and second.strip()):
        return first or text
    return Then(first, type(text)(second), within_s)


SHARE = 0.2  # share of the vector of what is not wanted that is subtracted; chosen on planted clips (docs/asking.md)

_WITHOUT = re.compile(rf"{QUOTED}|(?P<without>(?<=\s)without(?=\s))", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\s*(said|on-screen|sounds)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Without:
    """What is to be seen, and what is not.

    Attributes:
        text: what is to be seen, in the language of `evenreel.library.search.query`.
        without: what is not to be seen.

    Raises:
        UsageError: one of the two is empty.
    """

    text: str
    without: str

    def __post_init__(self) -> None:
        if not readable(self.text) or not readable(self.without):
            raise UsageError("A search without something names both what is looked for and what is not; one is empty.")


def read_without(text: str) -> str | Without:
    """Read a query that may have a `without` between what is to be seen and what is not; one in quotes is text.

    Example:
        >>> read_without("a street without cars")
        Without(text='a street', without='cars')
        >>> read_without("said: not without my dog"), read_without("without a hat")
        ('said: not without my dog', 'without a hat')
    """
    found = [piece for piece in _WITHOUT.finditer(text) if piece["without"]]
    if len(found) != 1 or _ELSEWHERE.match(text):
        return text
    before, after = text[: found[0].start()].rstrip(" ,;\t\r\n"), text[found[0].end() :].strip()
    if not readable(before) or not readable(after) or (isinstance(text, UnfinishedText) and len(after) < 2):
        return text
    return Without(before, after)


MOST_MARKS = 200  # most clips that are marked for one query


class RocchioWeights(NamedTuple):
    """Weights of Rocchio's rule; the defaults were chosen on planted clips (docs/asking.md)."""

    alpha: float = 1.0
    beta: float = 0.25
    gamma: float = 0.15


PICTURE_WEIGHT = 0.4  # weight of a picture beside words; that of the words is the rest (docs/asking.md)


@dataclass(frozen=True)
class Mark:
    """A clip that was marked.

    Attributes:
        moment: the clip, by its id or the path of a file, and the time of one of its frames in seconds; None for the
            mean of all.
        right: whether it is what is looked for.
    """

    moment: ClipMoment
    right: bool


@dataclass(frozen=True)
class Marked:
    """Words, and clips that were marked right or wrong.

    Attributes:
        text: what is looked for, in the language of `evenreel.library.search.query`; empty for the examples alone.
        marks: marked clips, the latest last.

    Raises:
        UsageError: there are more than `MOST_MARKS`, or neither words nor a clip that is right.

    Example:
        >>> Marked("a dog").marked("walk.mp4", 3.5).marked("cat.mp4", right=False).undone().marks
        (Mark(moment=ClipMoment(clip_id='walk.mp4', time_s=3.5), right=True),)
    """

    text: str
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if len(self.marks) > MOST_MARKS:
            raise UsageError(f"{brief(len(self.marks))} clips are marked; mark {MOST_MARKS} at most.")
        if not readable(self.text) and not any(mark.right for mark in self.marks):
            raise UsageError("Nothing says what is looked for; give words, or mark a clip that is right.")

    def marked(self, clip: str, time_s: float | None = None, *, right: bool = True) -> Marked:
        """Return the same with one more clip marked; one that was marked before is marked anew."""
        mark = Mark(ClipMoment(clip, time_s), right)
        return replace(self, marks=(*(one for one in self.marks if one.moment != mark.moment), mark))

    def undone(self) -> Marked:
        return replace(self, marks=self.marks[:-1])


def read_mark(text: str, *, right: bool) -> Mark:
    """Read a mark such as `walk.mp4@12.5` or `walk.mp4@1:05`: a clip, and where in it; without a time, all of it."""
    clip, at, time = text.rpartition("@")
    if (time_s := seconds_of(time) if at else None) is None:
        clip = text
    if not clip:
        raise UsageError(f"The mark {text!r} names no clip; write CLIP or CLIP@SECONDS.")
    return Mark(ClipMoment(clip, time_s), right)


Question = str | Then | Without | Marked  # what a library can be asked: words, and what is made of them

NOT_RERANKED = "A matcher compares clips with one sentence as it stands, so that it ranks nothing anew here."
ONE_QUERY = "Examples move one query, and 'then' or 'without' part it in two; leave one of the two out."


def as_question(given: Question) -> Question:
    """Return a question, one in words read for `then` and `without`."""
    remedy = "give words, a Then, Without or Marked; search_image(picture) takes pictures"
    check_kind(given, get_args(Question), "text", remedy)
    return read_question(given) if isinstance(given, str) else given


def read_question(text: str, within_s: float = WITHIN_S) -> str | Then | Without:
    if isinstance(text, PlainText):
        return text
    found = read_steps(text, within_s)
    return read_without(found) if isinstance(found, str) else found


def take_people(asked: Question) -> tuple[tuple[str, ...], Question]:
    """Take the names after `person:` out of a question: whoever is named is to be in a clip, whatever else it asks.

    Example:
        >>> take_people(Then("person:Ada a red bus", "a dog"))
        (('Ada',), Then(first='a red bus', second='a dog', within_s=30.0))
    """
    if isinstance(asked, str):
        found = None if isinstance(asked, PlainText) else asked_people(asked)
        return ((), asked) if found is None else (found[0], type(asked)(found[1]))
    if isinstance(asked, Without) and asked_people(asked.without) is not None:
        raise UsageError("Who is not to be there is said by a filter, such as: people != 'Ada'.")
    fields = ("first", "second") if isinstance(asked, Then) else ("text",)
    taken = {name: take_people(getattr(asked, name)) for name in fields}
    names = tuple(name for found, _ in taken.values() for name in found)
    rest: dict[str, Any] = {name: without for name, (_, without) in taken.items()}
    return names, replace(asked, **rest) if names else asked


def filtered_by_people(library: Path, asked: Question, where: str | None) -> tuple[Question, str | None, list[str]]:
    """Return a question without the people that it names, the filter with them, and their names as they were given."""
    given, rest = take_people(asked)
    if not given:
        return asked, where, []
    names = known_names(library, given, typing=isinstance(asked, UnfinishedText))
    return rest, with_people(where, names), names


def queries_of(asked: Question, make: Callable[..., Query]) -> list[Query]:
    """Return the queries that a question consists of, before a model is loaded; none for examples alone."""
    if isinstance(asked, Then):
        return [make(text=asked.first), make(text=asked.second)]
    if isinstance(asked, Marked) and not isinstance(read_question(asked.text), str):
        raise UsageError(ONE_QUERY)
    if isinstance(asked, Marked) and not readable(asked.text):
        return [make(text="-")]
    return [make(text=asked if isinstance(asked, str) else asked.text)]


# Searches ------------------------------------------------------------------------------------------------------------


def search_without(searcher: Searcher, asked: Without, query: Query, encoder: Encoder | None) -> SearchResult:
    """Search for what is to be seen, with clips that show what is not wanted lower."""
    unwanted, told = readable(asked.without), "Nothing seen is asked for, so 'without' changes nothing."
    if encoder is not None and query.asked is not None:
        vector = text_vector(encoder, query.asked.text)
        query = replace(query, moved=unit(vector - SHARE * words_vector(encoder, unwanted)))
        told = f"Clips that show {unwanted!r} stand lower and are not left out."
    found = searcher.search(query)
    return replace(found, query=f"{found.query} without {unwanted}", notices=(*found.notices, told))


def search_by_marks(
    searcher: Searcher, asked: Marked, query: Query, encoder: Encoder | None, named: Callable[[str], str]
) -> SearchResult:
    """Search with examples; clips that were marked wrong are left out."""
    places = [(named(mark.moment.clip_id), mark) for mark in asked.marks]
    out = {clip_id for clip_id, mark in places if not mark.right}
    query = replace(query, k=query.k + len(out))
    with searcher.snapshot():  # at one moment: the model may be exchanged beside it
        examples: dict[bool, list[FloatArray]] = {True: [], False: []}
        for clip_id, mark in places:
            examples[mark.right].append(searcher.clip_vector(clip_id, mark.moment.time_s))
        if not readable(asked.text):
            query = replace(query, text=None, image=moved(None, examples[True], examples[False]))
        elif places and encoder is not None and query.asked is not None and query.asked.sees:
            # words and sounds are not moved by what is seen
            vector = text_vector(encoder, query.asked.text)
            query = replace(query, moved=moved(vector, examples[True], examples[False]))
        found = searcher.search(query)
    hits = tuple(hit for hit in found.hits if hit.clip_id not in out)[: query.k - len(out)]
    gone = sum(hit.weaker is False for hit in found.hits if hit.clip_id in out)
    return replace(found, hits=hits, matches=found.matches - gone)


def text_vector(encoder: Encoder, text: str) -> FloatArray:
    return unit(encoder.encode_text([text]).sentence[0])


def words_vector(encoder: Encoder | None, words: str) -> FloatArray:
    if encoder is None:
        raise UsageError("The library has no vision, so words cannot be put to a picture.")
    if not readable(words):
        raise UsageError("The words beside the picture are empty; say what is to be seen, or leave them out.")
    return text_vector(encoder, as_sentence(readable(words)))


def moved(query: FloatArray | None, right: Sequence[FloatArray], wrong: Sequence[FloatArray]) -> FloatArray:
    """Move a query (D,) by examples, vectors (D,) of unit length each; without a query there are the examples alone."""
    weights = RocchioWeights()
    parts = [] if query is None else [weights.alpha * query]
    parts += [weights.beta * np.mean(right, axis=0)] if len(right) else []
    parts += [-weights.gamma * np.mean(wrong, axis=0)] if len(wrong) else []
    return unit(np.sum(parts, axis=0))


def picture_with_words(picture: FloatArray, words: FloatArray) -> FloatArray:
    """Return the query (D,) for a picture with words, given as unit vectors (D,): their weighted sum."""
    return unit(PICTURE_WEIGHT * picture + (1 - PICTURE_WEIGHT) * words)


# One moment after another --------------------------------------------------------------------------------------------

MOST_CANDIDATES = 512  # most clips whose frames are scored one by one, but for those that are to be shown
MOST_ROWS = 20_000  # most frames of these together, but for those that are to be shown
MOST_LOOKED_INTO = 256
"""Most clips beside those that are shown of which moments are found: many may show both in the wrong order."""
MOST_MOMENTS = 2_000  # most moments of a query in a clip that are compared with those of another: the best ones


class TimedEvidence(NamedTuple):
    """N moments of a clip at which a query may be answered, in any order: arrays (N,)."""

    starts_s: Column  # when each begins
    ends_s: Column  # when it ends; of a single frame, its time
    values: Column  # how far each is above nonsense, in standard deviations
    states: NDArray[np.int8]  # its state

    def best(self) -> Indices:
        """Return the places of the best, `MOST_MOMENTS` at most, by when they begin: (M,)."""
        order = np.lexsort((self.starts_s, -self.values, self.states))[:MOST_MOMENTS]
        return order[np.argsort(self.starts_s[order])]


class OrderedPair(NamedTuple):
    first: int  # place of a moment of one query
    second: int  # place of a later one of another
    state: int  # of the one that answers less well
    value: float  # sum of how far both are above nonsense


def best_pair(first: TimedEvidence, second: TimedEvidence, within_s: float) -> OrderedPair | None:
    """Find the best two moments of which one begins before the other, which begins soon after it.

    The second begins later than the first, and at most `within_s` seconds after the first has ended. A pair is as good
    as the state of its worse half, then as the sum of both values.
    """
    ours, theirs = first.best(), second.best()
    starts_s = second.starts_s[theirs]
    fits = (first.starts_s[ours, None] < starts_s) & (starts_s - first.ends_s[ours, None] <= within_s)
    if not fits.any():
        return None
    states = np.maximum(first.states[ours, None], second.states[theirs])
    fits &= states == states[fits].min()
    values = np.where(fits, first.values[ours, None] + second.values[theirs], -np.inf)
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    return OrderedPair(int(ours[row]), int(theirs[column]), int(states[row, column]), float(values[row, column]))


def highest_in_order(first: Column, second: Column, counts: Indices) -> Column:
    """Compute for C clips the highest sum of a frame's value and a later frame's other value, whatever the gap."""
    starts = np.cumsum(counts) - counts
    clip = np.repeat(np.arange(len(counts)), counts)
    apart = float(first.max() - first.min()) + 1.0
    before = np.maximum.accumulate(first + apart * clip) - apart * clip  # no clip reaches what is added to the next one
    sums = np.full(len(first), -np.inf)
    sums[1:] = before[:-1] + second[1:]
    sums[starts] = -np.inf
    return np.asarray(np.maximum.reduceat(sums, starts))


def as_deviations(shares: Column, null_best: FloatArray) -> Column:
    """Return shares of a query that are written, (N,), on the scale of frames: what beats so much of nonsense.

    >>> as_deviations(np.array([0.5, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [2.0, 4.0]
    """
    if not len(null_best):  # nonsense was not measured, so frames stand by similarity over the floor
        return shares / DEVIATION_FLOOR
    places = np.ceil(shares * len(null_best) - 1e-9).astype(int) - 1
    found: Column = null_best.astype(np.float64)[np.clip(places, 0, len(null_best) - 1)]
    return found


class Half:
    """How far clips, (C,), are above nonsense for one half of the question, and their states; frames are apart."""

    def __init__(self, s: Snapshot, asked: Asked) -> None:
        self.s, self.asked, clips = s, asked, asked.clips
        self.seen = np.full(clips, -np.inf)  # of frames, in standard deviations; -inf without frames
        if asked.scores is not None:
            self.seen = self.deviations(asked.scores, np.arange(clips))
        self.seen_states = states_of(np.zeros(clips) if asked.above is None else asked.above, MAY_FIT)
        # Share of the query that is on screen or said, or of nonsense that the sound beats; none is below the line, and
        # what texts mean is just above it.
        shares = [np.where(asked.sounds >= MAY_FIT, asked.sounds, 0.0)]
        if asked.meant is not None:
            shares.append(np.where(asked.meant.found, MAY_FIT, 0.0))
        shares += [asked.texts[channel].coverage for channel in TIMED if channel in asked.texts]
        share = np.max(shares, axis=0)
        share[share < ANSWERS] = 0.0
        self.others = np.where(share > 0, as_deviations(share, s.null_best), -np.inf)
        self.either = np.maximum(self.seen, self.others)
        self.states = np.minimum(self.seen_states, states_of(share, ANSWERS))

    def deviations(self, scores: FloatArray, places: Indices) -> Column:
        """Return how far similarities of frames (N,) to clips at places (N,) are above nonsense."""
        found: Column = (scores.astype(np.float64) - self.s.means[places]) / self.s.deviations[places]
        return found

    def frame_scores(self, rows: Indices) -> FloatArray | None:
        if self.asked.vector is None or self.s.vectors is None:
            return None
        ones = np.ones(len(rows), np.int64)
        found: FloatArray = self.s.vectors.best_per_clip(self.asked.vector[None], rows, ones)[0]
        return found


class HalfInClip:
    """The moments of a clip at which one half may be answered, and the words there that match."""

    def __init__(self, half: Half, place: int, about: ClipFacts, scores: FloatArray | None) -> None:
        s, asked = half.s, half.asked
        self._moments: list[tuple[int, Callable[[int], MomentHit]]] = []  # how many of each kind, and the n-th of it
        self.texts = {channel: texts_of(s, asked.texts.get(channel), place) for channel in TIMED}
        parts: list[TimedEvidence] = []
        if scores is not None:
            spans_s = about.times.spans_s
            times_s, stretches = spans_s[:, 0], high_stretches(scores, spans_s, about.times.shots)
            within = np.zeros(len(times_s), np.bool_)  # frames outside of the stretches that stand out answer nothing
            for one in stretches:
                within |= (one.start_s <= times_s) & (times_s <= one.end_s)
            values = half.deviations(scores, np.full(len(scores), place))
            states = np.where(within, half.seen_states[place], NOTHING)
            parts.append(TimedEvidence(times_s, times_s, values, states))
            self._moments.append((len(times_s), partial(_frame, spans_s, stretches, scores)))
        for channel in TIMED:
            if channel in asked.texts and asked.texts[channel].coverage[place]:
                found = asked.texts[channel]
                at, shares = found.texts_of(place), found.shares(place)
                facts, values = found.facts[at], as_deviations(shares, s.null_best)
                states = states_of(np.where(shares >= ANSWERS, shares, 0.0), ANSWERS)
                parts.append(TimedEvidence(facts["start_s"], facts["end_s"], values, states))
                self._moments.append((len(at), partial(_text, s, found, at)))
        share, others = float(np.nan_to_num(asked.sounds[place])), list[MomentHit]()
        if asked.heard is not None and share >= MAY_FIT:
            others = asked.heard.stretches(about.clip_id, place, asked.notices)
        beaten = [share] * len(others)
        line = asked.meant.line(about.clip_id, place) if asked.meant and asked.meant.found[place] else None
        if line is not None and line.source != "about":
            others, beaten = [*others, line.moment], [*beaten, MAY_FIT]
        times, given = np.array([(one.start_s, one.end_s) for one in others]).reshape(-1, 2), np.array(beaten)
        parts.append(
            TimedEvidence(times[:, 0], times[:, 1], as_deviations(given, s.null_best), states_of(given, MAY_FIT))
        )
        self._moments.append((len(others), others.__getitem__))
        self.evidence = TimedEvidence(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def moment(self, place: int) -> MomentHit:
        for count, moment in self._moments:
            if place < count:
                return moment(place)
            place -= count
        raise IndexError(place)


def _frame(spans_s: NDArray[np.float64], stretches: list[MomentHit], scores: FloatArray, place: int) -> MomentHit:
    time_s, start_s, end_s = map(float, spans_s[place])
    around = ((one.start_s, one.end_s) for one in stretches if one.start_s <= time_s <= one.end_s)
    return MomentHit(time_s, *next(around, (start_s, end_s)), float(scores[place]))


def _text(s: Snapshot, found: WordMatches, at: Indices, place: int) -> MomentHit:
    (text,) = read_texts(s, found, at[[place]])
    return spoken(text) if found.source is SOURCES["said"] else shown(text)


class FoundPair(NamedTuple):
    about: ClipFacts
    pair: OrderedPair
    halves: tuple[HalfInClip, HalfInClip]

    def hit(self, weaker: bool | None) -> Hit:
        (one, other), (first, second, *_) = self.halves, self.pair
        before, after = one.moment(first), other.moment(second)
        if before.time_s >= after.time_s:  # the middle of a sign, or the best of a sound, that the second lies in
            before = replace(before, time_s=before.start_s)
        if after.start_s <= before.start_s:  # a stretch around a frame of which the first lies in
            after = replace(after, start_s=min(before.end_s, after.time_s), starts_s=None)
        steps = (before, after)
        texts = [tuple(dict.fromkeys((*one.texts[name], *other.texts[name]))) for name in TIMED]
        return Hit(
            clip_id=self.about.clip_id,
            path=self.about.path,
            score=self.pair.value,
            weaker=weaker,
            above_nonsense=None,
            written=0.0,
            scores={"first": float(one.evidence.values[first]), "then": float(other.evidence.values[second])},
            moments=steps,
            on_screen=texts[0],
            said=texts[1],
            duration_s=self.about.duration_s,
            metadata=self.about.metadata,
            other_paths=self.about.other_paths,
            steps=steps,
        )


def search_in_order(searcher: Searcher, asked: Then, queries: Sequence[Query]) -> SearchResult:
    if searcher.is_empty():
        return SearchResult(queries[0].text or "", (), notices=(EMPTY,))
    encoded, k, steps = [searcher.encode(query) for query in queries], queries[0].k, (asked.first, asked.second)
    with searcher.snapshot() as s:
        both = [searcher.ask(s, one) for one in encoded]
        pairs = _first(s, [Half(s, one) for one in both], k, asked.within_s, queries[0].where)
        pairs.sort(key=lambda one: (one.pair.state, -round(one.pair.value, 5), one.about.path))
        measured = all(one.measured for one in both)
        hits = tuple(one.hit(one.pair.state == NOTHING if measured else None) for one in pairs[:k])
    return SearchResult(
        query=", then ".join(map(readable, steps)),
        hits=hits,
        matches=sum(hit.weaker is False for hit in hits),
        notices=tuple(dict.fromkeys(notice for one in both for notice in one.notices)),
        steps=tuple(map(readable, steps)),
    )


def _likeliest(s: Snapshot, halves: Sequence[Half], k: int) -> Indices:
    """Places of the clips that may show both, as many as there is time to look into, in the order of the vectors."""
    one, other = halves
    sums = one.either + other.either
    able = np.flatnonzero(np.isfinite(sums))
    merit = np.maximum(one.states, other.states)[able] * 1e6 - sums[able]
    most = max(MOST_CANDIDATES, k)
    if len(able) > most:
        near = np.argpartition(merit, most)[:most]
        able, merit = able[near], merit[near]
    order = able[np.argsort(merit, kind="stable")]
    within = np.cumsum(s.counts[order]) <= MOST_ROWS
    within[:k] = True
    chosen = order[within]
    found: Indices = chosen[np.lexsort((s.first_rows[chosen], s.counts[chosen] == 0))]
    return found


def _first(s: Snapshot, halves: Sequence[Half], k: int, within_s: float, where: str | None) -> list[FoundPair]:
    """Find the first clips: the likeliest is looked into until it is better than any other can be."""
    places = _likeliest(s, halves, k)
    counts = s.counts[places]
    starts = np.cumsum(counts) - counts
    rows = np.repeat(s.first_rows[places] - starts, counts) + np.arange(int(counts.sum()))
    scores = [half.frame_scores(rows) for half in halves]
    one, other = halves
    bounds = np.maximum(one.others + other.either, one.either + other.others)[places]
    if scores[0] is not None and scores[1] is not None and counts.any():
        first, second = (
            half.deviations(found, np.repeat(places, counts))
            for half, found in zip(halves, scores, strict=True)
            if found is not None
        )
        framed = counts > 0
        bounds[framed] = np.maximum(bounds[framed], highest_in_order(first, second, counts[framed]))
    states = np.maximum(one.states, other.states)[places]
    waiting: list[tuple[int, float, int, FoundPair | None]] = [
        (int(states[clip]), -float(bounds[clip]), clip, None) for clip in np.flatnonzero(np.isfinite(bounds)).tolist()
    ]
    heapq.heapify(waiting)
    found, left = list[FoundPair](), k + MOST_LOOKED_INTO
    while waiting and len(found) < k and left:
        _, _, clip, known = heapq.heappop(waiting)
        if known is not None:
            found.append(known)
            continue
        left -= 1
        place, its = int(places[clip]), slice(starts[clip], starts[clip] + counts[clip])
        (about,) = facts_of(s, s.ids([place]), where)
        frames_of(s, place, about.times)  # as many as it has times
        its_scores = [None if some is None or not counts[clip] else some[its] for some in scores]
        both = HalfInClip(one, place, about, its_scores[0]), HalfInClip(other, place, about, its_scores[1])
        pair = best_pair(both[0].evidence, both[1].evidence, within_s)
        if pair is not None:
            heapq.heappush(waiting, (pair.state, -pair.value, clip, FoundPair(about, pair, both)))
    return found + [pair for *_, pair in sorted(waiting, key=lambda one: one[:3]) if pair][: k - len(found)]
