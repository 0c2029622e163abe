"""Inputs of a video generator for each real clip: its captions as one text, a keyframe, or its first half.

It lies in a folder, where every file appears whole or not at all, so that a run that was cut off goes on where it
stopped; files are called as `evenreel.corpus.prompts.file_name` says:

    prompts.csv             the requests, where the generator runs elsewhere
    keyframes/CLIP.png      with the setting `image`
    first_halves/CLIP.mp4   with the setting `video`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np

from evenreel.config import MediaLimits, usable_cores
from evenreel.corpus import select
from evenreel.corpus.prompts import (
    Fuse,
    GenerationRequest,
    Setting,
    captions_of_real,
    file_name,
    join_captions,
    write_prompts,
)
from evenreel.errors import CorpusError, MediaError
from evenreel.features.manifest import NO_PATH, CorpusClip, clip_aside, clips_of
from evenreel.features.pool import ClipRun, SetAside
from evenreel.files import file_at, write_durably
from evenreel.media.sampling import Part
from evenreel.media.workers import Worker
from evenreel.progress import Progress
from evenreel.types import Corpus, Pixels

READER = "evenreel.edits.excerpts:ExcerptReader"
PROMPTS, KEYFRAMES, FIRST_HALVES = "prompts.csv", "keyframes", "first_halves"
_NO_CAPTION = "no caption says what it shows; give it one, or leave it out"


@dataclass(frozen=True)
class Conditioning:
    """Settings of the input that a video generator is given for each clip.

    Attributes:
        setting: `text` is the fused captions alone; `image` a keyframe with them, `video` the first half of the clip.
        videos: folder in which the paths of the clips begin.
        split: split of the clips; None for all.
        fuse: function that joins a clip's captions to one text; called for one clip at a time. A clip for which it
            raises an error is set aside with that reason.
        workers: number of reader processes; 0 means one for each core.
        limits: limits of one clip.
    """

    setting: Setting = "text"
    videos: Path = Path()
    split: str | None = None
    fuse: Fuse = join_captions
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)


@dataclass(frozen=True)
class PreparedRequests:
    """Requests to a video generator that runs elsewhere, as they were written to a folder.

    Attributes:
        path: path of the csv of the requests.
        requests: requests, one a clip, in the order of the corpus.
        set_aside: clips without a request, with the reason.
    """

    path: Path
    requests: tuple[GenerationRequest, ...]
    set_aside: tuple[SetAside, ...]


def prepare_requests(
    corpus: Corpus,
    out: str | Path,
    given: Conditioning | None = None,
    progress: Progress = lambda share: None,
) -> PreparedRequests:
    """Write the inputs of a generator that runs elsewhere: `prompts.csv`, and keyframes or first halves beside it.

    Args:
        corpus: corpus whose real clips are to be mirrored.
        out: folder to write to; pictures and videos that are there are kept.
        given: settings of the input; None for the defaults.
        progress: called with the share of the clips that is done.

    Raises:
        CorpusError: the folder cannot be written, or there is no such split.
    """
    out, given = Path(out), given or Conditioning()
    mirrored = corpus if given.split is None else select(corpus, split=given.split)
    clips = {clip.clip_id: clip for clip in clips_of(mirrored)}
    wanted = [(clips[clip_id], captions) for clip_id, captions in captions_of_real(mirrored).items()]
    requests: dict[str, GenerationRequest] = {}
    aside: dict[str, SetAside] = {}
    fusing = Lock()  # a language model of the user's need not bear several threads

    def request(maker: RequestMaker, real: tuple[CorpusClip, list[str]]) -> None:
        clip, captions = real
        with fusing:
            prompt = _fused(captions, given.fuse)
        requests[clip.clip_id] = maker.request(clip, prompt)

    def set_aside(real: tuple[CorpusClip, list[str]], error: MediaError) -> None:
        aside[real[0].clip_id] = clip_aside(real[0], error)

    readers = given.workers or usable_cores()
    ClipRun(partial(RequestMaker, out, given), request, set_aside, readers, progress).run(wanted)
    order = [clip.clip_id for clip, _ in wanted]
    ready = tuple(requests[clip_id] for clip_id in order if clip_id in requests)
    write_prompts(out / PROMPTS, ready)
    return PreparedRequests(out / PROMPTS, ready, tuple(aside[clip_id] for clip_id in order if clip_id in aside))


def _fused(captions: Sequence[str], fuse: Fuse) -> str:
    if not captions:
        raise MediaError("failed", _NO_CAPTION)
    try:
        prompt = fuse(captions).strip()
    except Exception as error:  # a language model may raise whatever it likes
        raise MediaError("failed", f"its captions were not made one text: {type(error).__name__}: {error}") from error
    if not prompt:
        raise MediaError("failed", _NO_CAPTION)
    return prompt


class RequestMaker:
    """Maker of requests to a video generator, one clip at a time; videos are read in a process that can be killed.

    Args:
        folder: folder for keyframes and first halves.
        given: settings of the input.
    """

    def __init__(self, folder: Path, given: Conditioning) -> None:
        self._folder, self._given = folder, given
        self._worker = Worker(READER, {"limits": asdict(given.limits)}, given.limits)

    def close(self) -> None:
        """End the process that reads videos; a video that is being read fails."""
        self._worker.close()

    def request(self, clip: CorpusClip, prompt: str) -> GenerationRequest:
        """Make the request for a clip; a keyframe or first half that is there is not made again."""
        setting, name = self._given.setting, file_name(clip.clip_id)
        keyframe = first_half = None
        if setting == "image":
            keyframe = self._excerpt("keyframe", clip, self._folder / KEYFRAMES / f"{name}.png")
        if setting == "video":
            first_half = self._excerpt("first_half", clip, self._folder / FIRST_HALVES / f"{name}.mp4")
        return GenerationRequest(clip.clip_id, setting, prompt, keyframe, first_half)

    def _excerpt(self, excerpt: str, clip: CorpusClip, place: Path) -> Path:
        if not place.is_file():
            if not clip.path:
                raise MediaError(*NO_PATH)
            found = self._read(excerpt, file_at(self._given.videos, clip.path), clip.part)
            try:
                write_durably(place, _png(found) if excerpt == "keyframe" else found.tobytes())
            except OSError as error:
                raise CorpusError(f"{place} cannot be written ({(error.strerror or str(error)).lower()}).") from error
        return place

    def _read(self, excerpt: str, video: Path, part: Part) -> Pixels:
        """Return the worker's answer: pixels, the bytes of a file, or an empty array."""
        found: Pixels = np.empty(0, np.uint8)
        task = {"path": str(video), "part": [part.start_s, part.end_s], "excerpt": excerpt}
        for _, array in self._worker.run(task):
            found = found if array is None else array
        return found


def _png(pixels: Pixels) -> bytes:
    from PIL import Image

    held = BytesIO()
    Image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()
