"""What is written in the clips of a part, for studies that count, show or change on-screen words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from evenreel.checkpoint.changed_words import changed_words
from evenreel.features import FoundClips, StoredClips
from evenreel.features.word_changes import WordChanges
from evenreel.types import TextTrack, VideoFeatures


class ClipText(NamedTuple):
    """What is written in a clip.

    Attributes:
        signs: each once, with the stretch in which it is shown.
        windows: O sentences, empty where no sign is shown.
    """

    signs: tuple[TextTrack, ...]
    windows: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ScreenText:
    """On-screen text behind features.

    Attributes:
        read: what is written in each clip with features, by its id.
        changed: features of these clips with other words on screen.
    """

    read: Callable[[], Mapping[str, ClipText]]
    changed: Callable[[WordChanges], VideoFeatures]


def on_screen_of(found: FoundClips | StoredClips, videos: VideoFeatures) -> ScreenText | None:
    """What is written in clips whose features were found and loaded; None where nobody read any of it."""
    if isinstance(found, StoredClips) or videos.windows is None:
        return None
    return ScreenText(partial(_read, found), partial(changed_words, found, videos))


def _read(found: FoundClips) -> dict[str, ClipText]:
    shards, _ = found.shards()
    return {name: ClipText(shard.tracks or (), shard.window_texts or ()) for name, shard in shards.items()}
