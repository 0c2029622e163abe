"""`person:NAME` in a query: clips that somebody is in, with what else is asked for; or all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.library.people.clips import face_times
from evenreel.library.people.listing import Person, all_people, no_person
from evenreel.library.people.store import HOW_TO_FIND, has_people, people_store
from evenreel.library.search.hits import Hit, MomentHit, SearchResult
from evenreel.library.search.moments import MAX_MOMENTS
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.library.browsing import BrowsedClip, BrowsedPage

PREFIX = "person:"
BY_FACES = "Clips are listed by how often a face was found; whether each is the person was judged by likeness alone."

_PERSON = re.compile(r'(?:(?<=\s)|^)person:\s*(?:"([^"]*)"|“([^”]*)”|([^\s,;]+))', re.IGNORECASE)
_NO_NAME = re.compile(r"(?:\s|^)person:\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class AskedPeople:
    """A query, taken apart.

    Attributes:
        names: names as they were written.
        rest: the query without them; '' where nothing else is asked for.
    """

    names: tuple[str, ...]
    rest: str


def asked_people(text: str) -> AskedPeople | None:
    """Take the names out of a query; None where it asks for nobody, or is in quotes from its beginning.

    Example:
        >>> asked_people('person:"Ada King" at the harbour person:bob')
        AskedPeople(names=('Ada King', 'bob'), rest='at the harbour')
    """
    given = text.strip()
    if PREFIX not in given.lower() or given.startswith(('"', "“", "„")):
        return None
    names = tuple(next(filter(None, found.groups()), "").strip() for found in _PERSON.finditer(given))
    if not all(names) or _NO_NAME.search(given):
        raise UsageError('Nothing follows person:; write a name after it, such as person:Ada or person:"Ada King".')
    return AskedPeople(names, " ".join(_PERSON.sub(" ", given).split())) if names else None


def known_names(library: Path, names: Sequence[str], *, typing: bool = False) -> list[str]:
    """Return the names as they were given to people, whatever their case; one word of a name will do."""
    if not has_people(library):
        raise UsageError(f"The library knows no people, so person: finds nobody; {HOW_TO_FIND}, or leave it out.")
    with people_store(library) as connection:
        people = all_people(connection)
    return [_known(people, name, typing and name is names[-1]) for name in names]


def _known(people: list[Person], name: str, typing: bool) -> str:
    known = {one.name.casefold(): one.name for one in people if one.name}
    wanted = name.casefold()
    parts = sorted(own for folded, own in known.items() if wanted in folded.split())
    longer = sorted(own for folded, own in known.items() if typing and folded.startswith(wanted))
    if wanted in known:
        return known[wanted]
    if len(parts) > 1:
        raise UsageError(f'{printable(name)} may be {", or ".join(parts)}; write the whole name: person:"{parts[0]}".')
    if not parts and not longer:
        raise UsageError(str(no_person(name, people)))
    return [*parts, *longer][0]


def with_people(where: str | None, names: Sequence[str]) -> str:
    """Return a filter that clips pass that pass another one and have everybody in them.

    >>> with_people("duration_s < 60", ["Ada", "O'Neil"])
    "(duration_s < 60) and people = 'Ada' and people = 'O''Neil'"
    """
    wanted = [f"people = '{name.replace(chr(39), chr(39) * 2)}'" for name in names]
    return " and ".join([f"({where})", *wanted] if where else wanted)


def clips_of_people(library: Path, names: Sequence[str], page: BrowsedPage, k: int) -> SearchResult:
    """Make the result of a query that asks for people alone: the clips with most of their faces first."""
    times = face_times(library, list(names))
    ordered = sorted(page.clips, key=lambda clip: (-len(times.get(clip.clip_id, ())), clip.path))
    hits = tuple(_hit(clip, times.get(clip.clip_id, [])) for clip in ordered[:k])
    asked = " ".join(f'{PREFIX}"{printable(name)}"' for name in names)
    return SearchResult(asked, hits, notices=(BY_FACES,) if hits else ())


def _hit(clip: BrowsedClip, times: list[tuple[float, float]]) -> Hit:
    return Hit(
        clip_id=clip.clip_id,
        path=clip.path,
        score=float(len(times)),
        weaker=None,
        above_nonsense=None,
        written=0.0,
        scores={},
        moments=_stretches(times),
        on_screen=(),
        duration_s=clip.duration_s,
        metadata=clip.metadata,
    )


NEAR_S = 3.0
"""Most seconds between two faces of one stretch."""


def _stretches(times: list[tuple[float, float]]) -> tuple[MomentHit, ...]:
    """The longest stretches in which faces follow one another, in the order of time."""
    runs: list[list[tuple[float, float]]] = []
    for time_s, score in times:
        if runs and time_s - runs[-1][-1][0] <= NEAR_S:
            runs[-1].append((time_s, score))
        else:
            runs.append([(time_s, score)])
    longest = sorted(runs, key=lambda run: (-len(run), run[0][0]))[:MAX_MOMENTS]
    return tuple(
        MomentHit(max(run, key=lambda face: face[1])[0], run[0][0], run[-1][0], max(score for _, score in run))
        for run in sorted(longest)
    )
