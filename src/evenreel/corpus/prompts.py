"""Inputs for video generators: the captions of a clip joined to one prompt, and its keyframe or first half."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

from evenreel.corpus.cells import as_cell
from evenreel.corpus.counterparts import is_generated
from evenreel.errors import CorpusError, UsageError
from evenreel.files import replacing
from evenreel.types import Corpus

Setting = Literal["text", "image", "video"]
"""What a generator is given beside the fused caption: nothing, a keyframe, or the first half of the real clip."""

SETTINGS: tuple[Setting, ...] = get_args(Setting)

Fuse = Callable[[Sequence[str]], str]
"""Captions of a clip, in order -> one text."""

_NO_BEGINNING = "=+-@ ,.;:"
_LONGEST_NAME = 150
_COLUMNS = ("clip_id", "setting", "prompt", "keyframe", "first_half")


@dataclass(frozen=True)
class GenerationRequest:
    """Request to a video generator for the counterpart of a real clip: its inputs and the file to write.

    Attributes:
        clip_id: id of the real clip.
        setting: `text`, `image` or `video`, the kind of input.
        prompt: captions of the real clip as one text.
        keyframe: PNG of a frame of the real clip, for the setting `image`.
        first_half: mp4 of the real clip's first half, for the setting `video`.
    """

    clip_id: str
    setting: Setting
    prompt: str
    keyframe: Path | None = None
    first_half: Path | None = None


def setting_of(word: str) -> Setting:
    """Check that a word is a setting of video generators (`text`, `image`, `video`), and return it.

    Raises:
        UsageError: it is none.
    """
    for setting in SETTINGS:
        if setting == word:
            return setting
    raise UsageError(f"There is no setting {word!r}; there are: {', '.join(SETTINGS)}.")


def join_captions(captions: Sequence[str], most: int | None = None) -> str:
    """Join the captions of a clip to one text, a sentence each: the first `most` distinct ones, None for all.

    Captions that differ only in case, spaces or the last full stop are the same. This stands in for the language model
    that writes one comprehensive description (Generative Ghost, section 2.2): nothing is added or dropped, and captions
    that contradict each other are all kept.

    >>> join_captions(["a man  sings .", "A man sings", "is it a stage?"])
    'A man sings. Is it a stage?'
    """
    distinct: dict[str, str] = {}
    for caption in captions:
        if sentence := _sentence(caption):
            distinct.setdefault(sentence.casefold(), sentence)
    return " ".join(list(distinct.values())[:most])


def _sentence(caption: str) -> str:
    """A caption that begins with a capital and ends in a stop; empty where it says nothing."""
    words = re.sub(r"\s+([,.;:!?])", r"\1", " ".join(caption.split())).lstrip(_NO_BEGINNING)
    if not words.endswith(("?", "!")):
        words = words.rstrip(" ,.;:")
        words += "." if words else ""
    return words[:1].upper() + words[1:]


def captions_of_real(corpus: Corpus) -> dict[str, list[str]]:
    """Return the captions of each real clip by clip id, in the corpus's order; an empty list for a clip without any."""
    captions = dict(corpus.captions.group_by("clip_id").agg("text").iter_rows())
    return {clip_id: captions.get(clip_id, []) for clip_id in corpus.clips.filter(~is_generated())["clip_id"]}


def file_name(clip_id: str) -> str:
    """Turn a clip's id into a file name: characters other than letters, digits and `_.-~@` are percent-encoded.

    >>> file_name("video7010"), file_name("Games/a b")
    ('video7010', 'Games%2Fa%20b')
    """
    name = quote(clip_id, safe="@")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{blake2b(clip_id.encode(), digest_size=8).hexdigest()}"


def write_prompts(path: Path, requests: Sequence[GenerationRequest]) -> None:
    """Write requests to video generators as a csv: `clip_id, setting, prompt, keyframe, first_half`.

    Paths are relative to the folder of the csv. A text that a spreadsheet would run as a formula is escaped by an
    apostrophe, see `evenreel.corpus.cells`.

    Raises:
        CorpusError: the file cannot be written.
    """
    try:
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(_COLUMNS)
            for one in requests:
                given = (_from(path.parent, one.keyframe), _from(path.parent, one.first_half))
                rows.writerow(map(as_cell, (one.clip_id, one.setting, one.prompt, *given)))
    except OSError as error:
        raise CorpusError(f"{path} cannot be written ({(error.strerror or str(error)).lower()}).") from error


def _from(folder: Path, file: Path | None) -> str:
    return "" if file is None else file.relative_to(folder).as_posix()
