"""`evenreel search`: a sentence, a picture or nothing in, clips with their best moments out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import CacheOption, DeviceOption, JsonOption, PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import empty_sentence, show_result, show_unlike
from evenreel.config import RERANK_DEPTH, OptionForm, default_library
from evenreel.errors import LibraryError, UsageError

if TYPE_CHECKING:
    from evenreel.library import Library
    from evenreel.library.search.asking import Question as LibraryQuestion
    from evenreel.library.search.result import SearchResult


def as_utf8(argument: str | None) -> str | None:
    """Read an argument as UTF-8 whose bytes Python has kept as surrogates, because the locale cannot hold them."""
    if argument is None or argument.isascii():
        return argument
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument


@dataclass(frozen=True)
class Question:
    """What `evenreel search` looks for, and how it ranks clips.

    Attributes:
        query: what is to be seen, read on screen, said or heard; in quotes ('"mind the gap"') words as they are written
            and no pictures; said:, on-screen:, seen: or sounds: before it chooses one of the four; person:NAME anywhere
            in it, clips that somebody is in. With 'then' between two of these, clips in which a moment of one comes
            before one of the other; with 'without', clips that show what follows stand lower.
        k: how many clips at most.
        where: filter, for example "source = 'camera' and duration_s < 60".
        image: search by a picture; a sentence beside it says what is to be seen too, such as "at night".
        within_s: with 'then', how many seconds may lie between the two moments; None for 30.
        right: a clip, CLIP or CLIP@SECONDS, that is what is looked for; can be given several times.
        wrong: a clip that is not.
        vision: False searches by words alone and loads no model.
        rerank: a matcher's checkpoint, folder or hub id, that orders the first clips anew.
        rerank_depth: how many clips --rerank looks at.
        fold: whether clips that are nearly the same are under the best of them.

    Raises:
        UsageError: options exclude each other.
    """

    query: Annotated[str | None, typer.Argument(callback=as_utf8)] = None
    k: Annotated[int, OptionForm("-k")] = 10
    where: Annotated[str | None, typer.Option(callback=as_utf8)] = None
    image: Path | None = None
    vision: bool = True
    rerank: str | None = None
    rerank_depth: int = RERANK_DEPTH
    fold: bool = True
    within_s: float | None = None
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.is_empty and (self.wrong or self.rerank is not None or self.within_s is not None or not self.vision):
            raise UsageError(
                "--wrong, --rerank, --within and --no-vision need a sentence, a picture or an example; without any of "
                "these, the clips that are unlike the rest are shown."
            )
        if self.image is not None and (self.right or self.wrong or self.within_s is not None):
            raise UsageError(
                "--image takes words beside it and no marks or gaps; leave --right, --wrong and --within out."
            )
        if self.rerank is not None and (self.right or self.wrong):
            raise UsageError("A matcher knows of no examples; leave --rerank, or --right and --wrong, out.")
        if self.within_s is not None and not self._in_order():
            raise UsageError("--within is the gap of two moments; write a query such as 'a red bus, then a dog'.")
        if self.image is not None and not self.vision:
            raise UsageError("--image needs vision; leave --no-vision out.")
        if self.rerank is not None and (not self.vision or self.image is not None):
            raise UsageError("--rerank needs a sentence and vision; leave --image and --no-vision out.")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is looked for, so that the clips that are unlike the rest are shown."""
        return self.query is None and self.image is None and not self.right

    def _in_order(self) -> bool:
        from evenreel.library.search.asking import Then

        return isinstance(self.question(), Then)

    def question(self) -> LibraryQuestion:
        """Return what the library is asked, but for a picture.

        Raises:
            UsageError: it cannot be asked.
        """
        from evenreel.library.search.asking import Marked, read_mark, read_question

        query = self.query or ""
        if self.right or self.wrong:
            right, wrong = (
                (read_mark(one, right=True) for one in self.right),
                (read_mark(one, right=False) for one in self.wrong),
            )
            return Marked(query, (*right, *wrong))
        return read_question(query) if self.within_s is None else read_question(query, self.within_s)


def search(
    asked: Question = from_settings(
        Question,
        fold=Annotated[bool, typer.Option("--no-fold", help="Show clips that are nearly the same one by one.")],
    ),
    library: PlaceOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the weaker matches too.")] = False,
    device: DeviceOption = "auto",
    snapshot_cache: CacheOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find clips, each with its best moment and the reason; without words, those that are unlike the rest."""
    from evenreel.library import open_library

    place = fetched(library or default_library(), snapshot_cache)
    with open_library(place, device=device, vision=asked.vision) as opened:
        if asked.is_empty:
            show_unlike(opened.highlights(None, asked.k, asked.where), as_json)
            return
        search = _search(opened, asked, device)
        found = opened.folded(search, asked.k) if asked.fold else search(asked.k)
        if asked.vision and (unknown := opened.unknown_to_model()) is not None:
            found = replace(found, notices=(unknown, *found.notices))
        if not found.hits and not (held := opened.stats()).files:
            raise LibraryError(empty_sentence(held))
    show_result(found, as_json, others=everything)


def _search(library: Library, asked: Question, device: str) -> Callable[[int], SearchResult]:
    """What searches for so many clips; pictures and matchers are read once."""
    if asked.image is not None:
        image, where, words = asked.image, asked.where, asked.query
        return lambda k: library.search_image(image, k, where, words=words)
    matcher = None
    if asked.rerank is not None:
        from evenreel.checkpoint import load_matcher

        matcher = load_matcher(asked.rerank, device=device)
    question = asked.question()
    return lambda k: library.search(question, k, asked.where, rerank=matcher, rerank_depth=asked.rerank_depth)
