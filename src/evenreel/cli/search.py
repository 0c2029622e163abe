"""`evenreel search`: a sentence or a picture in, clips with their best moments out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import CacheOption, DeviceOption, JsonOption, PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import show_result
from evenreel.config import RERANK_DEPTH, default_library
from evenreel.errors import LibraryError, UsageError
from evenreel.settings_checks import OptionForm

if TYPE_CHECKING:
    from evenreel.library import Library
    from evenreel.library.search.hits import SearchResult


def _as_utf8(argument: str | None) -> str | None:
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
            in it, clips that somebody is in.
        k: how many clips at most.
        where: filter, for example "source = 'camera' and duration_s < 60".
        image: search by a picture instead of a sentence.
        vision: False searches by words alone and loads no model.
        rerank: a matcher's checkpoint, folder or hub id, that orders the first clips anew.
        rerank_depth: how many clips --rerank looks at.
        neutral_source: favour no source: take what sets generated clips apart from those of a camera out of the query.

    Raises:
        UsageError: not exactly one of a sentence and a picture is given, or options exclude each other.
    """

    query: Annotated[str | None, typer.Argument(callback=_as_utf8)] = None
    k: Annotated[int, OptionForm("-k")] = 10
    where: Annotated[str | None, typer.Option(callback=_as_utf8)] = None
    image: Path | None = None
    vision: bool = True
    rerank: str | None = None
    rerank_depth: int = RERANK_DEPTH
    neutral_source: bool = False

    def __post_init__(self) -> None:
        if (self.query is None) == (self.image is None):
            raise UsageError('Give either a sentence or a picture: evenreel search "a red bus", or --image FILE.')
        if self.image is not None and not self.vision:
            raise UsageError("--image needs vision; leave --no-vision out.")
        if self.rerank is not None and (not self.vision or self.image is not None):
            raise UsageError("--rerank needs a sentence and vision; leave --image and --no-vision out.")
        if self.neutral_source and (not self.vision or self.rerank is not None):
            raise UsageError(
                "--neutral-source changes how frames are ranked, and a matcher's scores are not neutral; leave "
                "--no-vision and --rerank out."
            )


def search(
    asked: Question = from_settings(Question),
    library: PlaceOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the nearest others too, below what fits or may fit.")
    ] = False,
    device: DeviceOption = "auto",
    snapshot_cache: CacheOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find clips, each with its best moment and the reason."""
    from evenreel.library import open_library
    from evenreel.library.stats import empty_sentence

    place = fetched(library or default_library(), snapshot_cache)
    with open_library(place, device=device, vision=asked.vision) as opened:
        found = _found(opened, asked, device)
        if not found.hits and not (held := opened.stats()).files:
            raise LibraryError(empty_sentence(held))
    show_result(found, as_json, others=everything)


def _found(library: Library, asked: Question, device: str) -> SearchResult:
    if asked.image is not None:
        return library.search_image(asked.image, asked.k, asked.where, neutral_source=asked.neutral_source)
    matcher = None
    if asked.rerank is not None:
        from evenreel.checkpoint import load_matcher

        matcher = load_matcher(asked.rerank, device=device)
    return library.search(
        asked.query or "", asked.k, asked.where,
        rerank=matcher, rerank_depth=asked.rerank_depth, neutral_source=asked.neutral_source,
    )  # fmt: skip
