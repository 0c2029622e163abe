"""A corpus whose clips have one outward form: one codec, rate and picture size, and the same length in a pair.

Generated clips come at other rates, sizes, lengths and from other encoders than real ones, and a ranking may go by
that instead of by what is shown. The paper on source bias leaves these differences in (Generative Ghost, Table 1).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.config import usable_cores
from evenreel.corpus import make_corpus, save_corpus
from evenreel.edits.common_form import EqualiseSettings, common_form, form_notices, frame_counts
from evenreel.errors import CorpusError, MediaError
from evenreel.features.clips import Clip, clips_of
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.folder import Ledger, remove_leftovers
from evenreel.features.lock import writer_lock
from evenreel.features.pool import ReaderPool
from evenreel.features.progress import TRANSIENT
from evenreel.features.settings import ClipAside
from evenreel.files import write_durably
from evenreel.media.content import changed_while_reading, stamp, watched_digest
from evenreel.media.same_form import Form
from evenreel.media.workers import Worker
from evenreel.progress import Progress
from evenreel.types import Corpus

WRITER = "evenreel.media.same_form:FormWriter"
PAGE, CLIPS = "equalised.json", "clips"
_OURS = re.compile(r"-[0-9a-f]{16}\.mp4$")
_VERSION = 1
"""Of how clips are encoded; those of another one are written anew."""

_HEADERS_SHARE = 0.05
"""Of the time, about, that reading all headers takes."""


@dataclass
class EqualiseReport:
    """Report of a run that equalises clips.

    Attributes:
        folder: folder of the new corpus.
        form: the form of all its clips, by `Form`'s names.
        encoded: clips that were written now.
        unchanged: clips that were there.
        set_aside: clips of the old corpus that are not in the new one.
        notices: what the form makes up, or leaves to tell a source by.
        seconds: length of the run.
    """

    folder: str
    form: dict[str, str | int]
    encoded: int = 0
    unchanged: int = 0
    set_aside: list[ClipAside] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)


def equalise(
    corpus: Corpus, folder: str | Path, settings: EqualiseSettings, progress: Progress = lambda share: None
) -> EqualiseReport:
    """Encode every clip anew in one form, and write the corpus of these clips; a clip that is there is left alone.

    The files are the same in every run. A clip that cannot be read is set aside, and with a real clip its mirrors. The
    new corpus has true `frame_count`, `fps`, `codec`, `width`, `height` and `duration_s`; its clips are whole files.

    Args:
        corpus: with counterparts or without.
        folder: folder of the new corpus and its clips; made where it is missing.
        settings: the form, and the folder of the videos.
        progress: called with the share that is done.

    Raises:
        CorpusError: the folder holds another corpus, is in use or cannot be written; no clip can be used.
    """
    folder, started = Path(folder), time.monotonic()
    with writer_lock(folder, CorpusError, "choose another --out"):
        _check_owned(folder, settings.videos)
        remove_leftovers(folder)
        looking = FactSettings(settings.videos, folder / FACTS, settings.workers, settings.limits)
        facts = clip_facts(corpus, looking, lambda share: progress(share * _HEADERS_SHARE))
        form = common_form(corpus, facts, settings)
        counts, short = frame_counts(corpus, facts, form, settings.duration_s)
        report = EqualiseReport(str(folder), _plain(form), set_aside=[*facts.set_aside, *short])
        report.notices += form_notices(corpus, facts, form)
        _claim(folder, report)
        written = _Encoding(folder, form, settings, report).run(corpus, counts, progress)
        _save(corpus, folder, form, written, report)
    report.seconds = time.monotonic() - started
    return report


@dataclass(frozen=True)
class _EncodeJob:
    clip: Clip
    frames: int


class _Encoding:
    """Clips through workers into files; what fails is set aside in the report."""

    def __init__(self, folder: Path, form: Form, settings: EqualiseSettings, report: EqualiseReport) -> None:
        self._folder, self._form, self._settings, self._report = folder, form, settings, report
        self._ledger = Ledger.load(folder)
        self._written: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()
        self._pool = ReaderPool(self._new_writer, self._write, settings.workers or usable_cores())

    def run(self, corpus: Corpus, counts: Mapping[str, int], progress: Progress) -> dict[str, tuple[str, int]]:
        """Path and number of frames of each clip that is there at the end."""
        jobs = [_EncodeJob(clip, counts[clip.clip_id]) for clip in clips_of(corpus) if clip.clip_id in counts]
        self._progress, self._jobs, self._done = progress, len(jobs), 0
        try:
            self._pool.run(jobs)
        finally:
            self._ledger.save(now=True)
        return self._written

    def _new_writer(self) -> Worker:
        limits = self._settings.limits
        return Worker(WRITER, {"form": _plain(self._form), "limits": asdict(limits)}, limits)

    def _write(self, worker: Worker, job: _EncodeJob) -> None:
        try:
            new, path = self._written_now(worker, job)
        except MediaError as error:
            if self._pool.stopping:  # a worker that was ended by us is no fault of the clip
                return
            aside = ClipAside(job.clip.clip_id, job.clip.path, error.reason, str(error))
            with self._lock:
                self._report.set_aside.append(aside)
        else:
            with self._lock:
                self._written[job.clip.clip_id] = path, job.frames
                self._report.encoded += new
                self._report.unchanged += not new
        self._ledger.save()
        with self._lock:
            self._done += 1
            self._progress(_HEADERS_SHARE + (1 - _HEADERS_SHARE) * self._done / self._jobs)

    def _written_now(self, worker: Worker, job: _EncodeJob) -> tuple[bool, str]:
        """Whether a clip had to be written, and its path in the new corpus."""
        clip = job.clip
        place = self._settings.videos / clip.path
        digest = self._ledger.digest(clip.path, place) or self._ledger.look(clip.path, place, self._digest)[1]
        key = self._key(job, digest)
        path = f"{CLIPS}/{_slug(clip.clip_id)}-{key}.mp4"
        if (self._folder / path).is_file():
            return False, path
        known = self._ledger.set_aside.get(key)
        if known and known[0] not in TRANSIENT and not self._settings.retry:
            raise MediaError(known[0], known[1])  # type: ignore[arg-type]
        try:
            payload = self._encoded(worker, job, place)
        except MediaError as error:
            if not self._pool.stopping:
                self._ledger.note_aside(key, error)
            raise
        self._ledger.note_aside(key, None)
        _store(self._folder / path, payload)
        return True, path

    def _digest(self, path: str) -> str:
        return watched_digest(path, self._settings.limits.stall_timeout_s, lambda: self._pool.stopping)

    def _encoded(self, worker: Worker, job: _EncodeJob, place: Path) -> bytes:
        before, payload = stamp(str(place)), b""
        task = {"path": str(place), "start_s": job.clip.part.start_s or 0.0, "frames": job.frames}
        for _, array in worker.run(task):
            if array is not None:
                payload = array.tobytes()
        if stamp(str(place)) != before:
            raise changed_while_reading()
        return payload

    def _key(self, job: _EncodeJob, digest: str) -> str:
        """16 hex digits over what goes into a file."""
        named = [_VERSION, job.clip.clip_id, digest, job.clip.part.start_s, job.frames, _plain(self._form)]
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=8).hexdigest()


def _save(
    corpus: Corpus, folder: Path, form: Form, written: Mapping[str, tuple[str, int]], report: EqualiseReport
) -> None:
    """Write the new corpus, and remove clips of earlier runs that it does not name."""
    report.set_aside += _orphans(corpus, report.set_aside, written)
    place = {clip: row for row, clip in enumerate(corpus.clips["clip_id"])}
    report.set_aside.sort(key=lambda aside: place[aside.clip_id])
    gone = {aside.clip_id for aside in report.set_aside}
    clips = corpus.clips.filter(~pl.col("clip_id").is_in(gone))
    if clips.is_empty():
        raise CorpusError("No clip could be encoded; the first: " + report.set_aside[0].sentence + ".")
    paths, counts = zip(*(written[clip] for clip in clips["clip_id"]), strict=True)
    equal = clips.with_columns(
        pl.Series("path", paths),
        pl.Series("frame_count", counts),
        pl.lit(None, pl.Float64).alias("start_s"),
        pl.lit(None, pl.Float64).alias("end_s"),
        pl.lit(float(form.fps)).alias("fps"),
        pl.lit("h264").alias("codec"),
        pl.lit(form.width, pl.Int64).alias("width"),
        pl.lit(form.height, pl.Int64).alias("height"),
        (pl.Series(counts) / float(form.fps)).alias("duration_s"),
    )
    captions = corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode()))
    save_corpus(make_corpus(equal, captions), folder)
    for path in set((folder / CLIPS).iterdir()) - {folder / name for name in paths}:
        if _OURS.search(path.name):
            path.unlink(missing_ok=True)


def _orphans(corpus: Corpus, aside: list[ClipAside], written: Mapping[str, Any]) -> list[ClipAside]:
    """Mirrors whose real clip is set aside; they have nothing left to be compared with."""
    gone = {one.clip_id for one in aside}
    rows = corpus.clips.select("clip_id", "path", "pair_id").iter_rows()
    return [
        ClipAside(clip, path, "failed", f"the real clip that it mirrors, {real}, was set aside")
        for clip, path, real in rows
        if clip in written and real in gone
    ]


def _check_owned(folder: Path, videos: Path) -> None:
    """Nothing of anyone else's is replaced: not the corpus that is read, nor another one, nor its clips."""
    there = [name for name in ("clips.parquet", CLIPS) if (folder / name).exists()]
    if there and not (folder / PAGE).is_file():
        raise CorpusError(f"{folder} holds {there[0]} already, of no equalised corpus; choose another --out.")
    if folder.resolve() == videos.resolve():
        raise CorpusError(f"The videos that are to be read lie in {folder} too; choose another --out.")


def _claim(folder: Path, report: EqualiseReport) -> None:
    """Say what the folder is for before anything else is in it."""
    _store(folder / PAGE, (json.dumps({"version": _VERSION, **report.form}, indent=2) + "\n").encode())


def _store(path: Path, payload: bytes) -> None:
    try:
        write_durably(path, payload)
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be written ({(error.strerror or str(error)).lower()}). Clips that were finished are kept: "
            "make room or choose another --out, and run it again."
        ) from error


def _plain(form: Form) -> dict[str, str | int]:
    return asdict(form) | {"fps": str(form.fps)}


def _slug(clip_id: str) -> str:
    return re.sub(r"[^0-9A-Za-z._@-]", "_", clip_id)[:60].lstrip(".") or "clip"
