"""Clips of two kinds brought to one form: length, size, rate and codec, so that no ranking tells them by these."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from evenreel.config import MediaLimits, usable_cores
from evenreel.corpus import select
from evenreel.corpus.counterparts import (
    Fuse,
    GenerationRequest,
    Setting,
    captions_of_real,
    file_name,
    groups_of,
    join_captions,
    write_prompts,
)
from evenreel.edits.clips import CLIPS, LOOKING, ChangedClip, CorpusWriter, digest_of
from evenreel.edits.settings import EqualiseSettings
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, ClipFacts, FactSettings, clip_facts
from evenreel.features.manifest import NO_PATH, CorpusClip, Ledger, clip_aside, clips_of, remove_leftovers
from evenreel.features.pool import TRANSIENT, ClipRun, SetAside, writer_lock
from evenreel.files import file_at, write_durably
from evenreel.media import Video, open_video
from evenreel.media.encode import ClipEncoder, Form, even_sided, inner_size
from evenreel.media.sampling import Part
from evenreel.media.workers import Message, Worker, changed_while_reading, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import CAMERA, Corpus, Pixels

# Choice of a common form (frame rate, size, length) for all clips of a corpus that invents no pictures.

_RATES = 1001  # largest denominator of a rate: 30000/1001 and its kin
_ROUNDING_S = 1e-3  # a length in a header is rounded to a unit of its time base


def common_form(corpus: Corpus, facts: ClipFacts, settings: EqualiseSettings) -> Form:
    """Choose the common form of all clips: by the settings, else the lowest frame rate and size among groups' medians.

    A group is real clips, or the clips of a generator in a setting. A median is that of a real clip, not the middle
    between two.
    """
    table = grouped(corpus, facts)
    if table.is_empty():
        raise CorpusError("The video of no clip can be read; name the folder that their paths begin in (--videos).")
    medians = table.drop_nulls("fps").group_by("group").agg(pl.col("fps").quantile(0.5, "lower"))
    fps = settings.fps or (None if medians.is_empty() else float(medians["fps"].to_numpy().min()))
    if fps is None:
        raise CorpusError("The headers of the videos tell no frame rate; give one (--fps).")
    smallest = (
        table.with_columns(aspect=pl.col("width") / pl.col("height"))
        .group_by("group", maintain_order=True)
        .agg(pl.col("height", "aspect").quantile(0.5, "lower"))
        .sort("height", maintain_order=True)
    )
    height = settings.height or _even(smallest["height"][0])
    width = settings.width or _even(height * smallest["aspect"][0])
    return Form(Fraction(fps).limit_denominator(_RATES), width, height, settings.fit, settings.crf)


def frame_counts(
    corpus: Corpus, facts: ClipFacts, form: Form, duration_s: float | None
) -> tuple[dict[str, int], list[SetAside]]:
    """Return the number of frames that each clip gets, by clip id, and clips set aside as shorter than `duration_s`."""
    table = facts.table.select("clip_id", "duration_s").join(
        corpus.clips.select("clip_id", "path", family=pl.coalesce("pair_id", "clip_id")), on="clip_id", how="left"
    )
    if duration_s is None:
        shortest = table.with_columns(pl.col("duration_s").min().over("family"))
        return {clip: _frames(length_s, form) for clip, length_s in shortest.select("clip_id", "duration_s").rows()}, []
    counts, aside = {}, []
    for clip, length_s, path in table.select("clip_id", "duration_s", "path").iter_rows():
        if length_s + _ROUNDING_S < duration_s:
            why = f"it is {length_s:.2f} s long, and {duration_s:g} s are asked for (--duration)"
            aside.append(SetAside(clip, path, "failed", why))
        else:
            counts[clip] = _frames(duration_s, form)
    return counts, aside


def form_notices(corpus: Corpus, facts: ClipFacts, form: Form) -> Iterator[str]:
    """Iterate over notices on what a common form invents, and on differences between groups that it leaves."""
    table = grouped(corpus, facts)
    if slower := table.filter(pl.col("fps") < float(form.fps) * 0.99).height:
        yield f"Clips with fewer frames a second than {float(form.fps):.4g}, of which some are repeated: {slower:,}."
    sizes = table.select("height", "width").rows()
    inner = [inner_size(width, height, form) for height, width in sizes]
    if smaller := sum(new[0] > old[0] for new, old in zip(inner, sizes, strict=True)):
        yield f"Clips whose picture is enlarged to {form.width} x {form.height}: {smaller:,}."
    if form.fit == "pad":
        barred = [size != (form.height, form.width) for size in inner]
        groups = table.with_columns(pl.Series("barred", barred)).group_by("group", maintain_order=True)
        shares = groups.agg(pl.col("barred").mean() * 100)
        if shares["barred"].n_unique() > 1:
            listed = ", ".join(f"{group} {share:.0f} %" for group, share in shares.iter_rows())
            yield (
                f"Pictures of another shape get black bars, which tell groups apart: {listed} of the clips have some. "
                "--fit crop leaves none, at the cost of their edges."
            )


def grouped(corpus: Corpus, facts: ClipFacts) -> pl.DataFrame:
    """Add the column `group` to the facts of clips: the generator and its setting, and `camera` for real clips."""
    names = groups_of(corpus)
    group = pl.Series("group", [names.get(clip, CAMERA) for clip in facts.table["clip_id"]], dtype=pl.String)
    return facts.table.with_columns(group)


def _frames(length_s: float, form: Form) -> int:
    return max(1, math.floor((length_s + _ROUNDING_S) * form.fps))


def _even(side: float) -> int:
    return max(16, int(side) // 2 * 2)


# Inputs of a video generator for each real clip: its captions as one text, a keyframe, or its first half.
#
# It lies in a folder, where every file appears whole or not at all, so that a run that was cut off goes on where it
# stopped; files are called as `evenreel.corpus.counterparts.file_name` says:
#
#     prompts.csv             the requests, where the generator runs elsewhere
#     keyframes/CLIP.png      with the setting `image`
#     first_halves/CLIP.mp4   with the setting `video`

READER = "evenreel.edits.equalise:ExcerptReader"
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
    """Requests to a video generator that runs elsewhere, as they were written to a folder."""

    path: Path  # path of the csv of the requests
    requests: tuple[GenerationRequest, ...]  # requests, one a clip, in the order of the corpus
    set_aside: tuple[SetAside, ...]  # clips without a request, with the reason


def prepare_requests(
    corpus: Corpus,
    out: str | Path,
    given: Conditioning | None = None,
    progress: Progress = lambda share: None,
) -> PreparedRequests:
    """Write the inputs of a generator that runs elsewhere: `prompts.csv`, and keyframes or first halves beside it."""
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
    """Maker of requests to a video generator, one clip at a time; videos are read in a process that can be killed."""

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
        from PIL import Image

        if not place.is_file():
            if not clip.path:
                raise MediaError(*NO_PATH)
            part = [clip.part.start_s, clip.part.end_s]
            task = {"path": str(file_at(self._given.videos, clip.path)), "part": part, "excerpt": excerpt}
            found: Pixels = np.empty(0, np.uint8)  # pixels, or the bytes of a file
            for _, array in self._worker.run(task):
                found = found if array is None else array
            try:
                held = BytesIO(found.tobytes())
                if excerpt == "keyframe":
                    Image.fromarray(found).save(held := BytesIO(), "PNG")
                write_durably(place, held.getvalue())
            except OSError as error:
                raise CorpusError(f"{place} cannot be written ({(error.strerror or str(error)).lower()}).") from error
        return place


# What a video generator is given of a clip: a keyframe, or its first half.

KEYFRAME_AT = Fraction(1, 5)  # where in a clip its keyframe is (Generative Ghost, section 2.2)
_USUAL_FPS = Fraction(25)


@dataclass(frozen=True)
class FrameAt:
    """Sampling rule for one frame of a clip, at a share of its length: number floor(share x n) of n frames.

    >>> FrameAt(KEYFRAME_AT).indices(14, 25.0)
    [2]
    """

    share: Fraction

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return [int(self.share * frame_count)]

    def capped(self, duration_s: float, max_frames: int) -> FrameAt:
        return self


@dataclass(frozen=True)
class FirstHalf:
    """Sampling rule for all frames of the first half of a clip, rounded down; of a single frame, that frame.

    >>> FirstHalf().indices(7, 25.0)
    [0, 1, 2]
    """

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return list(range(max(1, frame_count // 2)))

    def capped(self, duration_s: float, max_frames: int) -> FirstHalf:
        return self  # they are encoded one by one and not kept


class ExcerptReader:
    """Worker that answers a task `{"path", "part", "excerpt"}` with a `keyframe` or with the `first_half` of a clip.

    `nothing` finds out whether it can be read. A keyframe is sent as pixels (H, W, 3), a first half as the bytes of an
    mp4 file at the mean rate of the video, after messages `tick` that report progress. In the mp4 file the last row or
    column is left out where it would be odd.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        excerpt, part = task["excerpt"], Part(*task["part"])
        with open_video(task["path"], self._limits) as video:
            if excerpt == "keyframe":
                frame = next(video.frames(part.rule(FrameAt(KEYFRAME_AT))), None)
                if frame is None:
                    raise MediaError("no_frames", "its keyframe, a fifth into the clip, could not be decoded")
                yield {"kind": excerpt}, frame.pixels
            elif excerpt == "first_half":
                yield from _first_half(video, part)


def _first_half(video: Video, part: Part) -> Iterator[Message]:
    encoder = ClipEncoder(Fraction(video.info.fps or _USUAL_FPS).limit_denominator(1001) or _USUAL_FPS)
    size: tuple[int, ...] | None = None
    for frame in video.frames(part.rule(FirstHalf())):
        if size not in (None, frame.pixels.shape):
            raise MediaError("failed", "the size of its pictures changes on the way; give it one size")
        size = frame.pixels.shape
        encoder.add(even_sided(frame.pixels))
        yield {"kind": "tick"}, None
    if size is None:
        raise MediaError("no_frames", "no frame of its first half could be decoded")
    yield {"kind": "first_half"}, np.frombuffer(encoder.finish(), np.uint8)


# Equalising of a corpus: clips get one codec, frame rate and picture size, and the clips of a pair the same length.
#
# Generated clips have other rates, sizes, lengths and encoders than real ones, by which a ranking may prefer them. The
# paper on source bias leaves these differences in (Generative Ghost, Table 1).

WRITER = "evenreel.media.encode:FormWriter"
PAGE = "equalised.json"
_OURS = re.compile(r"-[0-9a-f]{16}\.mp4$")
_VERSION = 1
"""Of how clips are encoded; those of another one are written anew."""


@dataclass
class EqualiseReport:
    """Report of a run that equalises clips."""

    folder: str  # folder of the new corpus
    form: dict[str, str | int]  # common form of all its clips, by the names of `Form`'s fields
    encoded: int = 0  # number of clips that were written now
    unchanged: int = 0  # number of clips that were there already
    set_aside: list[SetAside] = field(default_factory=list)  # clips of the old corpus that are not in the new one
    # sentences on what the form invents, and on differences between sources that it leaves
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0  # duration of the run


def equalise(
    corpus: Corpus, folder: str | Path, settings: EqualiseSettings, progress: Progress = lambda share: None
) -> EqualiseReport:
    """Encode every clip of a corpus anew in one form, and write these as a new corpus; files that are there are kept.

    The files are the same in every run. A clip that cannot be read is set aside, and with a real clip the generated
    clips that mirror it. The new corpus has true `frame_count`, `fps`, `codec`, `width`, `height` and `duration_s`; its
    clips are whole files.
    """
    folder, started = Path(folder), time.monotonic()
    writer = CorpusWriter(folder, PAGE, "equalised corpus")
    with writer_lock(folder, CorpusError, "choose another --out"):
        writer.check_owned()
        if folder.resolve() == settings.videos.resolve():
            raise CorpusError(f"The videos that are to be read lie in {folder} too; choose another --out.")
        remove_leftovers(folder)
        headers = FactSettings(settings.videos, folder / FACTS, settings.workers, settings.limits)
        facts = clip_facts(corpus, headers, stretch_of(progress, 0.0, LOOKING))
        form = common_form(corpus, facts, settings)
        counts, short = frame_counts(corpus, facts, form, settings.duration_s)
        report = EqualiseReport(str(folder), _plain(form), set_aside=[*facts.set_aside, *short])
        report.notices += form_notices(corpus, facts, form)
        writer.claim({"version": _VERSION, **report.form})
        _Encoding(writer, form, settings, report).run(corpus, counts, stretch_of(progress, LOOKING, 1.0))
        report.encoded, report.unchanged = writer.written, len(writer.clips) - writer.written
        _save(corpus, writer, form, report)
    report.seconds = time.monotonic() - started
    return report


class _EncodeJob(NamedTuple):
    clip: CorpusClip
    frames: int


class _Encoding:
    """Clips through workers into files; clips that fail are set aside in the report."""

    def __init__(self, writer: CorpusWriter, form: Form, settings: EqualiseSettings, report: EqualiseReport) -> None:
        self._writer, self._form, self._settings, self._report = writer, form, settings, report
        self._ledger = Ledger.load(Path(report.folder))

    def run(self, corpus: Corpus, counts: Mapping[str, int], progress: Progress) -> None:
        """Encode the clips that are not there."""
        jobs = [_EncodeJob(clip, counts[clip.clip_id]) for clip in clips_of(corpus) if clip.clip_id in counts]
        readers = self._settings.workers or usable_cores()
        self._run = ClipRun(self._new_worker, self._write, self._set_aside, readers, progress)
        try:
            self._run.run(jobs)
        finally:
            self._ledger.save(now=True)

    def _new_worker(self) -> Worker:
        limits = self._settings.limits
        return Worker(WRITER, {"form": _plain(self._form), "limits": asdict(limits)}, limits)

    def _write(self, worker: Worker, job: _EncodeJob) -> None:
        clip = job.clip
        place = file_at(self._settings.videos, clip.path)
        digest = self._ledger.digest(clip.path, place) or self._ledger.look(clip.path, place, self._digest)[1]
        key = digest_of([_VERSION, clip.clip_id, digest, clip.part.start_s, job.frames, _plain(self._form)], 8)
        slug = re.sub(r"[^0-9A-Za-z._@-]", "_", clip.clip_id)[:60].lstrip(".") or "clip"
        file = ChangedClip(f"{CLIPS}/{slug}-{key}.mp4", job.frames, float(self._form.fps))
        self._writer.put(clip.clip_id, file, lambda: self._encoded(worker, job, place, key))
        self._ledger.save()

    def _set_aside(self, job: _EncodeJob, error: MediaError) -> None:
        self._report.set_aside.append(clip_aside(job.clip, error))
        self._ledger.save()

    def _digest(self, path: str) -> str:
        return self._run.digest(path, self._settings.limits.stall_timeout_s)

    def _encoded(self, worker: Worker, job: _EncodeJob, place: Path, key: str) -> bytes:
        """Encode a clip, unless it is known to fail."""
        known = self._ledger.set_aside.get(key)
        if known and known[0] not in TRANSIENT and not self._settings.retry:
            raise MediaError(known[0], known[1])  # type: ignore[arg-type]
        payload = b""
        task = {"path": str(place), "start_s": job.clip.part.start_s or 0.0, "frames": job.frames}
        try:
            before = stamp(str(place))
            for _, array in worker.run(task):
                payload = payload if array is None else array.tobytes()
            if stamp(str(place)) != before:
                raise changed_while_reading()
        except MediaError as error:
            if not self._run.stopping:
                self._ledger.note_aside(key, error)
            raise
        self._ledger.note_aside(key, None)
        return payload


def _save(corpus: Corpus, writer: CorpusWriter, form: Form, report: EqualiseReport) -> None:
    """Write the new corpus, and remove clips of earlier runs that it does not name."""
    gone = {one.clip_id for one in report.set_aside}
    report.set_aside += [  # mirrors that have nothing left to be compared with
        SetAside(clip, path, "failed", f"the real clip that it mirrors, {real}, was skipped")
        for clip, path, real in corpus.clips.select("clip_id", "path", "pair_id").iter_rows()
        if clip in writer.clips and real in gone
    ]
    place = {clip: row for row, clip in enumerate(corpus.clips["clip_id"])}
    report.set_aside.sort(key=lambda one: place[one.clip_id])
    for one in report.set_aside:
        writer.clips.pop(one.clip_id, None)
    if not writer.clips:
        raise CorpusError("No clip could be encoded; the first: " + report.set_aside[0].sentence + ".")
    sizes = {"width": pl.lit(form.width, pl.Int64), "height": pl.lit(form.height, pl.Int64)}
    length_s = pl.col("frame_count") / float(form.fps)
    writer.save(corpus, {"codec": pl.lit("H.264"), **sizes, "duration_s": length_s})
    folder = Path(report.folder)
    for path in set((folder / CLIPS).iterdir()) - {folder / clip.path for clip in writer.clips.values()}:
        if _OURS.search(path.name):
            path.unlink(missing_ok=True)


def _plain(form: Form) -> dict[str, str | int]:
    return asdict(form) | {"fps": str(form.fps)}
