"""Searches for questions of more than one thing, made of searches for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from evenreel.arguments import check_kind
from evenreel.errors import UsageError
from evenreel.library.asking.examples import Marked, moved
from evenreel.library.asking.sequence import answer_in_order
from evenreel.library.asking.steps import RANKED_LOWER, WITHIN_S, Then, Without, moved_away, read_steps, read_without
from evenreel.library.people import asked_people, known_names, with_people
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.query import PlainText, Query, UnfinishedText, as_sentence, readable, unit
from evenreel.library.search.searcher import EMPTY, Searcher
from evenreel.types import Encoder, FloatArray

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


def search_in_order(searcher: Searcher, asked: Then, queries: Sequence[Query], *, reranks: bool) -> SearchResult:
    """Search for clips in which a moment of one query comes before one of another."""
    if searcher.is_empty():
        found = SearchResult(queries[0].text or "", (), notices=(EMPTY,))
    else:
        encoded = [searcher.encode(query) for query in queries]
        with searcher.snapshot() as s:
            found = answer_in_order(s, asked, queries[0].k, [searcher.ask(s, one) for one in encoded])
    return replace(found, notices=(*found.notices, NOT_RERANKED)) if reranks else found


def search_without(
    searcher: Searcher, asked: Without, query: Query, encoder: Encoder | None, *, reranks: bool
) -> SearchResult:
    """Search for what is to be seen, with clips that show what is not wanted lower."""
    unwanted = readable(asked.without)
    if encoder is not None and query.asked is not None:
        vector = text_vector(encoder, query.asked.text)
        query = replace(query, moved=moved_away(vector, words_vector(encoder, unwanted)))
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
