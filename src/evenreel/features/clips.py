"""The clips of a corpus, each with the name under which its features are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass

from evenreel.errors import MediaError, Reason
from evenreel.features.manifest import FeatureSet
from evenreel.features.progress import SetAside
from evenreel.features.settings import FLOAT32
from evenreel.media.sampling import Part
from evenreel.types import Corpus

NO_PATH: tuple[Reason, str] = ("unreadable", "the corpus names no video for it; give it a path")
"""Reason and sentence of a clip without a file."""


@dataclass(frozen=True)
class CorpusClip:
    """A row of the corpus's table of clips; `path` is empty where the corpus names no file for it."""

    clip_id: str
    path: str
    part: Part
    fps: float | None = None


def clips_of(corpus: Corpus) -> Iterator[CorpusClip]:
    """Iterate over the clips of a corpus, in its order."""
    rows = corpus.clips.select("clip_id", "path", "start_s", "end_s", "fps").iter_rows()
    for clip_id, path, start_s, end_s, fps in rows:
        yield CorpusClip(clip_id, path or "", Part(start_s or None, end_s), fps)


def clip_aside(clip: CorpusClip, error: MediaError) -> SetAside:
    """Return the record of a clip that an error keeps from being used."""
    return SetAside(clip.clip_id, clip.path, error.reason, str(error))


def clip_key(digest: str, clip: CorpusClip, made: FeatureSet, precision: str = FLOAT32) -> str:
    """Compute the name of a clip's shard: 32 hex digits over the file's content, the clip's part of it, and the rule.

    Clips of equal content share a shard, unless the corpus ships words, which belong to the clip and not to its file.
    """
    named = [digest, clip.part.start_s, clip.part.end_s, made.rule]
    if precision != FLOAT32:
        named += ["precision", precision]
    if made.words == "corpus":
        named += ["words of clip", clip.clip_id]
    if made.frame_window is not None:
        named += ["windows of frames", *astuple(made.frame_window)]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()
