"""Which subtitle files belong to which video, by their names, as players have it.

A file belongs to a video where its name begins with the video's, whole or without suffix, and goes on with a dot: in
the same folder (mpv, VLC, Plex, Jellyfin), or in a folder `Subs`, `Sub` or `Subtitles` beside the video (VLC, Kodi,
Plex). Of several videos it is that with the longest name: `film.part2.srt` is of `film.part2.mkv`, not of `film.mkv`.
Capital letters do not count, nor how accents are encoded (`evenreel.files.name_key`).

Between name and suffix may stand, in any order, a language (`en`, `pt-BR`, `ger`), `forced`, `sdh`, `cc`, `default` and
free words. The last language counts. `hi` is Hindi where it stands alone, and `hearing impaired` beside a language.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenreel.files import name_key
from evenreel.media.languages import language_tag
from evenreel.speech.subtitles import SUFFIXES

FOLDERS = frozenset({"sub", "subs", "subtitles"})
"""Folders beside a video in which its subtitles are looked for, in small letters."""

_NO_LANGUAGES = frozenset({"forced", "foreign", "sdh", "cc", "default", "full", "cut", "mp"})
"""Words between two dots that are no languages, though some are codes of one (`sdh` is Southern Kurdish)."""


@dataclass(frozen=True)
class Sidecar:
    """A subtitle file beside a video.

    Attributes:
        path: its absolute path.
        language: its language as a BCP 47 tag, as its name says; None where that says none.
    """

    path: str
    language: str | None = None


def is_subtitle(name: str) -> bool:
    """Return whether a file is one of subtitles, by what its name ends in."""
    return os.path.splitext(name)[1].lower() in SUFFIXES


def sidecars_of(videos: Iterable[str], subtitles: Iterable[str]) -> dict[str, list[Sidecar]]:
    """Find the subtitle files of videos, all given by absolute path."""
    named: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for video in videos:
        folder, name = os.path.split(video)
        for own in dict.fromkeys((name_key(name), name_key(os.path.splitext(name)[0]))):
            named[folder, own].append(video)
    found: defaultdict[str, list[Sidecar]] = defaultdict(list)
    for path in sorted(subtitles, key=os.fsencode):
        for video, sidecar in _belonging(path, named):
            found[video].append(sidecar)
    return dict(found)


def _belonging(path: str, named: Mapping[tuple[str, str], list[str]]) -> list[tuple[str, Sidecar]]:
    """The videos that a subtitle file belongs to; several share a name where only their suffixes differ."""
    folder, name = os.path.split(path)
    words = name_key(os.path.splitext(name)[0]).split(".")
    folders = [folder]
    if os.path.basename(folder).lower() in FOLDERS:
        folders.append(os.path.dirname(folder))
    for taken in range(len(words), 0, -1):
        for place in folders:
            if videos := named.get((place, ".".join(words[:taken]))):
                return [(video, Sidecar(path, language_in(words[taken:]))) for video in videos]
    return []


def language_in(words: Iterable[str]) -> str | None:
    """Return the language that words of a file's name say, as a BCP 47 tag; None where there is none.

    >>> language_in(["director's cut", "pt-br", "forced"]), language_in(["en", "hi"]), language_in(["hi"])
    ('pt-BR', 'en', 'hi')
    """
    tags = [tag for word in words if word not in _NO_LANGUAGES and (tag := language_tag(word))]
    spoken = [tag for tag in tags if tag != "hi"] or tags
    return spoken[-1] if spoken else None
