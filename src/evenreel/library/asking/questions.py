"""Questions of more than one thing: how they are read, and searches for them made of searches for one.

'A, then B' asks that B be answered after A (`evenreel.library.asking.sequence`).

'A without B' moves A away from B. Models of pictures and captions hardly read 'no' and 'not' (Alhamoud et al.,
'Vision-Language Models Do Not Understand Negation', CVPR 2025), so what is not wanted is taken out of the sentence and
its vector subtracted,

    q' = q(A) - 0.2 * q(B).

Examples move a query by Rocchio's rule (Rocchio, 'Relevance feedback in information retrieval', in Salton (ed.), The
SMART Retrieval System, 1971), towards the mean of what was right and away from the mean of what was wrong,

    q' = alpha * q + beta * mean(right) - gamma * mean(wrong),

here of unit vectors in the space that texts and pictures share, q' made one too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from evenreel.config import check_kind
from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.library.people import asked_people, known_names, with_people
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.query import (
    ClipMoment,
    PlainText,
    Query,
    UnfinishedText,
    as_sentence,
    readable,
    unit,
)
from evenreel.library.search.searcher import Searcher
from evenreel.types import Encoder, FloatArray
from evenreel.wording import seconds_of

WITHIN_S = 30.0
"""Most seconds between a moment and the one after it, where nothing else is said."""
MOST_WITHIN_S = 1e6

QUOTED = r'["“”„][^"“”„]*["“”„]'
"""Pattern of a stretch of text in quotes."""
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
                raise UsageError(
                    f"Nothing stands {side} 'then'; write what comes {when}, or put words that are to be found as they "
                    "are in quotes."
                )
        if not 0 < self.within_s <= MOST_WITHIN_S:
            raise UsageError(
                f"The second moment is to come within {brief(self.within_s)} s of the first; give seconds above 0, up "
                f"to {MOST_WITHIN_S:,.0f}."
            )


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
        raise UsageError(
            f"The query has 'then' {len(found)} times; it can have it once, between two moments. Words that are to be "
            "found as they are stand in quotes."
        )
    first = _JOINED.sub("", text[: found[0].start()], count=1).lstrip()
    second = text[found[0].end() :].lstrip(" \t\r\n,;")
    typing = isinstance(text, UnfinishedText)
    if typing and not (first and second.strip()):
        return first or text
    return (
        replace(Then(first, second, within_s), second=UnfinishedText(second))
        if typing
        else Then(first, second, within_s)
    )


SHARE = 0.2
"""Share of the vector of what is not wanted that is subtracted; chosen on planted clips (docs/asking.md)."""

RANKED_LOWER = "Clips that show {!r} stand lower and are not left out."

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


MOST_MARKS = 200
"""Most clips that are marked for one query."""


@dataclass(frozen=True)
class RocchioWeights:
    """Weights of Rocchio's rule; the defaults were chosen on planted clips (docs/asking.md).

    Attributes:
        alpha: weight of the query.
        beta: weight of the mean of what was right.
        gamma: weight of the mean of what was wrong.
    """

    alpha: float = 1.0
    beta: float = 0.25
    gamma: float = 0.15


PICTURE_WEIGHT = 0.4
"""Weight of a picture beside words; that of the words is the rest (docs/asking.md)."""


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
        """Return the same without the latest mark."""
        return replace(self, marks=self.marks[:-1])


def read_mark(text: str, *, right: bool) -> Mark:
    """Read a mark such as `walk.mp4@12.5` or `walk.mp4@1:05`: a clip, and where in it; without a time, all of it.

    Example:
        >>> read_mark("a@b.mp4@1:05", right=True).moment
        ClipMoment(clip_id='a@b.mp4', time_s=65.0)
    """
    clip, at, time = text.rpartition("@")
    time_s = seconds_of(time) if at else None
    if time_s is None:
        clip = text
    if not clip:
        raise UsageError(f"The mark {text!r} names no clip; write CLIP or CLIP@SECONDS.")
    return Mark(ClipMoment(clip, time_s), right)


Question = str | Then | Without | Marked
"""What a library can be asked: words, and what is made of them."""

NOTHING_TAKEN = "Nothing seen is asked for, so 'without' changes nothing."
NO_MATCHER = "A matcher compares clips with words and knows of no examples; leave one of the two out."
NOT_RERANKED = "A matcher compares clips with one sentence as it stands, so that it ranks nothing anew here."
ONE_QUERY = "Examples move one query, and 'then' or 'without' part it in two; leave one of the two out."


def as_question(given: Question) -> Question:
    """Return a question, one in words read for `then` and `without`."""
    remedy = "give words, a Then, Without or Marked; search_image(picture) takes pictures"
    check_kind(given, get_args(Question), "text", remedy)
    return read_question(given) if isinstance(given, str) else given


def read_question(text: str, within_s: float = WITHIN_S) -> str | Then | Without:
    """Read a query that may have a `then`, or else a `without`; a `PlainText` has neither."""
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
    if isinstance(asked, Without):
        return [make(text=asked.text)]
    if not isinstance(asked, Marked):
        return [make(text=asked)]
    if not isinstance(read_question(asked.text), str):
        raise UsageError(ONE_QUERY)
    return [make(text=asked.text if readable(asked.text) else "-")]


# Searches ------------------------------------------------------------------------------------------------------------


def search_without(
    searcher: Searcher, asked: Without, query: Query, encoder: Encoder | None, *, reranks: bool
) -> SearchResult:
    """Search for what is to be seen, with clips that show what is not wanted lower."""
    unwanted = readable(asked.without)
    if encoder is not None and query.asked is not None:
        vector = text_vector(encoder, query.asked.text)
        query = replace(query, moved=unit(vector - SHARE * words_vector(encoder, unwanted)))
    found = searcher.search(query)
    more = [RANKED_LOWER.format(unwanted) if encoder is not None else NOTHING_TAKEN]
    more += [NOT_RERANKED] if reranks else []
    return replace(found, query=f"{found.query} without {unwanted}", notices=(*found.notices, *more))


def search_by_marks(
    searcher: Searcher,
    asked: Marked,
    query: Query,
    encoder: Encoder | None,
    named: Callable[[str], str],
    *,
    reranks: bool,
) -> SearchResult:
    """Search with examples; clips that were marked wrong are left out."""
    if reranks:
        raise UsageError(NO_MATCHER)
    places = [(named(mark.moment.clip_id), mark) for mark in asked.marks]
    out = {clip_id for clip_id, mark in places if not mark.right}
    query = replace(query, k=query.k + len(out))
    with searcher.snapshot():  # at one moment: the model may be exchanged beside it
        vectors = {mark: searcher.clip_vector(clip_id, mark.moment.time_s) for clip_id, mark in places}
        right, wrong = ([vectors[mark] for mark in asked.marks if mark.right is side] for side in (True, False))
        if not readable(asked.text):
            query = replace(query, text=None, image=moved(None, right, wrong))
        elif vectors and encoder is not None and query.asked is not None and query.asked.sees:
            # words and sounds are not moved by what is seen
            query = replace(query, moved=moved(text_vector(encoder, query.asked.text), right, wrong))
        found = searcher.search(query)
    hits = tuple(hit for hit in found.hits if hit.clip_id not in out)[: query.k - len(out)]
    gone = sum(hit.weaker is False for hit in found.hits if hit.clip_id in out)
    return replace(found, hits=hits, matches=found.matches - gone)


def text_vector(encoder: Encoder, text: str) -> FloatArray:
    """Encode a cleaned text (D,)."""
    return unit(encoder.encode_text([text]).sentence[0])


def words_vector(encoder: Encoder | None, words: str) -> FloatArray:
    """Encode words that stand beside a picture (D,)."""
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
