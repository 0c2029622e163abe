"""Equalising of a corpus: clips get one codec, frame rate and picture size, and the clips of a pair the same length.

Generated clips have other rates, sizes, lengths and encoders than real ones, by which a ranking may prefer them. The
paper on source bias leaves these differences in (Generative Ghost, Table 1).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.config import usable_cores
from evenreel.edits.common_form import common_form, form_notices, frame_counts
from evenreel.edits.corpus_writer import CLIPS, ChangedClip, CorpusWriter
from evenreel.edits.settings import EqualiseSettings
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.folder import Ledger, remove_leftovers
from evenreel.features.manifest import CorpusClip, clip_aside, clips_of
from evenreel.features.pool import TRANSIENT, ClipRun, SetAside, writer_lock
from evenreel.files import file_at
from evenreel.media.encode import Form
from evenreel.media.workers import Worker, changed_while_reading, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import Corpus

WRITER = "evenreel.media.encode:FormWriter"
PAGE = "equalised.json"
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
        form: common form of all its clips, by the names of `Form`'s fields.
        encoded: number of clips that were written now.
        unchanged: number of clips that were there already.
        set_aside: clips of the old corpus that are not in the new one.
        notices: sentences on what the form invents, and on differences between sources that it leaves.
        seconds: duration of the run.
    """

    folder: str
    form: dict[str, str | int]
    encoded: int = 0
    unchanged: int = 0
    set_aside: list[SetAside] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dictionary that JSON can hold, as `--json` prints it."""
        return asdict(self)


def equalise(
    corpus: Corpus, folder: str | Path, settings: EqualiseSettings, progress: Progress = lambda share: None
) -> EqualiseReport:
    """Encode every clip of a corpus anew in one form, and write these as a new corpus; files that are there are kept.

    The files are the same in every run. A clip that cannot be read is set aside, and with a real clip the generated
    clips that mirror it. The new corpus has true `frame_count`, `fps`, `codec`, `width`, `height` and `duration_s`; its
    clips are whole files.

    Args:
        corpus: real clips, and any generated clips.
        folder: folder of the new corpus and its clips; made where it is missing.
        settings: form of the clips, and folder of the videos.
        progress: called with the share that is done.
    """
    folder, started = Path(folder), time.monotonic()
    writer = CorpusWriter(folder, PAGE, "equalised corpus")
    with writer_lock(folder, CorpusError, "choose another --out"):
        writer.check_owned()
        if folder.resolve() == settings.videos.resolve():
            raise CorpusError(f"The videos that are to be read lie in {folder} too; choose another --out.")
        remove_leftovers(folder)
        headers = FactSettings(settings.videos, folder / FACTS, settings.workers, settings.limits)
        facts = clip_facts(corpus, headers, stretch_of(progress, 0.0, _HEADERS_SHARE))
        form = common_form(corpus, facts, settings)
        counts, short = frame_counts(corpus, facts, form, settings.duration_s)
        report = EqualiseReport(str(folder), _plain(form), set_aside=[*facts.set_aside, *short])
        report.notices += form_notices(corpus, facts, form)
        writer.claim({"version": _VERSION, **report.form})
        _Encoding(writer, form, settings, report).run(corpus, counts, stretch_of(progress, _HEADERS_SHARE, 1.0))
        report.encoded, report.unchanged = writer.written, len(writer.clips) - writer.written
        _save(corpus, writer, form, report)
    report.seconds = time.monotonic() - started
    return report


@dataclass(frozen=True)
class _EncodeJob:
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
        key = self._key(job, digest)
        file = ChangedClip(f"{CLIPS}/{_slug(clip.clip_id)}-{key}.mp4", job.frames, float(self._form.fps))
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
        try:
            payload = self._encoded_now(worker, job, place)
        except MediaError as error:
            if not self._run.stopping:
                self._ledger.note_aside(key, error)
            raise
        self._ledger.note_aside(key, None)
        return payload

    def _encoded_now(self, worker: Worker, job: _EncodeJob, place: Path) -> bytes:
        before, payload = stamp(str(place)), b""
        task = {"path": str(place), "start_s": job.clip.part.start_s or 0.0, "frames": job.frames}
        for _, array in worker.run(task):
            if array is not None:
                payload = array.tobytes()
        if stamp(str(place)) != before:
            raise changed_while_reading()
        return payload

    def _key(self, job: _EncodeJob, digest: str) -> str:
        """Return 16 hex digits over all that goes into a file."""
        named = [_VERSION, job.clip.clip_id, digest, job.clip.part.start_s, job.frames, _plain(self._form)]
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=8).hexdigest()


def _save(corpus: Corpus, writer: CorpusWriter, form: Form, report: EqualiseReport) -> None:
    """Write the new corpus, and remove clips of earlier runs that it does not name."""
    report.set_aside += _orphans(corpus, report.set_aside, writer.clips)
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


def _orphans(corpus: Corpus, aside: list[SetAside], there: Collection[str]) -> list[SetAside]:
    """Return the mirrors whose real clip is set aside; they have nothing left to be compared with."""
    gone = {one.clip_id for one in aside}
    rows = corpus.clips.select("clip_id", "path", "pair_id").iter_rows()
    return [
        SetAside(clip, path, "failed", f"the real clip that it mirrors, {real}, was skipped")
        for clip, path, real in rows
        if clip in there and real in gone
    ]


def _plain(form: Form) -> dict[str, str | int]:
    return asdict(form) | {"fps": str(form.fps)}


def _slug(clip_id: str) -> str:
    return re.sub(r"[^0-9A-Za-z._@-]", "_", clip_id)[:60].lstrip(".") or "clip"
