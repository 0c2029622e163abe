"""What is written in the clips of a part, for studies that count, show or change on-screen words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from evenreel.checkpoint.corpus_features import changed_texts, changed_words
from evenreel.features import FoundClips, StoredClips
from evenreel.features.windows import EMPTY, TEMPLATE
from evenreel.features.word_changes import WordChanges, changed_signs
from evenreel.types import Shown, TextTrack, VideoFeatures


class ClipText(NamedTuple):
    """On-screen text of a clip, by sign and by window.

    Attributes:
        signs: each sign once, with the stretch in which it is shown; once for each reading where it was misread.
        windows: O sentences, empty where no sign is shown.
    """

    signs: tuple[TextTrack, ...]
    windows: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ScreenText(Shown):
    """On-screen text behind the features of clips: to be read, or changed.

    Attributes:
        read: reads the text of each clip with features, by its id.
        changed: makes features of these clips with other words on screen.
    """

    read: Callable[[], Mapping[str, ClipText]]
    changed: Callable[[WordChanges], VideoFeatures]


def on_screen_of(
    found: FoundClips | StoredClips, videos: VideoFeatures, changes: WordChanges | None = None
) -> ScreenText | None:
    """Return the on-screen text of clips whose features were loaded; None where nobody read any.

    Args:
        found: the clips, by `evenreel.features.find_clips`.
        videos: their features.
        changes: what was done to their words when they were loaded; None for nothing.
    """
    if isinstance(found, StoredClips) or videos.on_screen is None:
        return None
    return ScreenText(partial(_read, found, changes or WordChanges()), partial(changed_words, found, videos))


def words_said(sentence: str) -> list[str]:
    """Split the sentence of a window into the on-screen words that it names.

    >>> words_said("There are scene texts: Gate 12 in this frame."), words_said("There is no scene text in this frame.")
    (['Gate', '12'], [])
    """
    before, after = TEMPLATE.split("{words}")
    return [] if sentence == EMPTY else sentence.removeprefix(before).removesuffix(after).split()


def _read(found: FoundClips, changes: WordChanges) -> dict[str, ClipText]:
    shards, _ = found.shards()
    if changes.changes_nothing:
        return {name: ClipText(shard.tracks or (), shard.window_texts or ()) for name, shard in shards.items()}
    said = changed_texts(found, changes)
    return {
        name: ClipText(changed_signs(shard, name, changes, found.made), said[name]) for name, shard in shards.items()
    }
