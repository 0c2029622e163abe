"""Subtitles of an index run: files beside the videos, and streams inside them, brought up to date without decoding.

A subtitle file is no part of its video's content, so a clip's transcripts say which file each is of, and its stamp. A
run compares these with the files that are there: only what is new or has changed is read, and what is gone is dropped.
A clip with several files has the subtitles of all of them. Streams are content, and are read once.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from evenreel.config import IndexSettings, allowed_threads
from evenreel.errors import EvenreelError, MediaError
from evenreel.features.pool import Brake, RunHaltedError
from evenreel.features.progress import TRANSIENT, SetAside, StagedProgress
from evenreel.features.shards import DamagedShardError, read_shard, shard_path
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.index.subtitle_reader import READER
from evenreel.library.store.catalog import SHARDS, loaded_path
from evenreel.library.store.speech import put_transcripts, settle_transcripts
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.workers import Worker
from evenreel.onscreen.engine import engine_id
from evenreel.speech.subtitle_worker import read_with
from evenreel.speech.subtitles import Sidecar, Subtitles, sidecars_of
from evenreel.speech.transcripts import NO_STREAM, UNREAD, UNREADABLE, Stamp, Transcript, streams_known
from evenreel.wording import count, printable

_ORDER = {"sidecar": 0, "stream": 1, "recognised": 2}
_AFTER_END_S = 1.0  # a subtitle may stay a little longer than the last picture

log = logging.getLogger("evenreel")


@dataclass
class _Clip:
    """A clip that has a file in the folders of a run."""

    clip_id: str
    path: str
    duration_s: float | None
    sidecars: dict[str, Sidecar] = field(default_factory=dict)
    known: dict[str, tuple[Stamp, str | None]] = field(default_factory=dict)
    streams: list[tuple[str, str | None]] = field(default_factory=list)


def read_subtitles(
    store: Store, found: Scan, settings: IndexSettings, report: IndexReport, progress: StagedProgress, brake: Brake
) -> None:
    """Bring what subtitles say of the clips of some folders up to date; a file that cannot be read is set aside."""
    settle_transcripts(store.library, store.connection)
    stamps = {file.path: file for file in found.subtitles if file.error is None}
    clips = list(_clips(store.connection, found, stamps))
    _note_known(store.connection, clips, stamps, report)
    changed = [clip for clip in clips if _is_behind(clip, stamps, settings)]
    if not changed:
        return
    progress.stage("reading subtitles", len(changed))
    with closing(Worker(READER, {"threads": allowed_threads()}, settings.limits)) as worker, brake.held(worker):
        run = _SubtitleRun(store, worker, stamps, report, settings, brake)
        for clip in changed:
            if brake.eased:
                return
            run.update(clip)
            progress.advance(1)


def _clips(connection: sqlite3.Connection, found: Scan, stamps: dict[str, FoundFile]) -> Iterator[_Clip]:
    """The clips of the folders with the subtitle files that are theirs now, and those that they have."""
    there = {file.path for file in found.files}
    clips: dict[str, _Clip] = {}
    beside = sidecars_of(there, stamps)
    for stored, clip_id, duration_s in connection.execute(
        "SELECT path, clip_id, duration_s FROM files JOIN clips USING (clip_id) WHERE state = 'indexed' ORDER BY path"
    ):
        if (path := loaded_path(stored)) in there:
            clip = clips.setdefault(clip_id, _Clip(clip_id, path, duration_s))
            clip.sidecars.update({sidecar.path: sidecar for sidecar in beside.get(path, ())})
    for clip_id, source, origin, problem, language, *stamp in connection.execute(
        "SELECT clip_id, source, origin, problem, language, size, mtime_ns, ctime_ns FROM transcripts"
    ):
        if clip_id in clips and source == "stream":
            clips[clip_id].streams.append((origin, problem))
        elif clip_id in clips and source == "sidecar":
            clips[clip_id].known[loaded_path(origin)] = (stamp[0], stamp[1], stamp[2]), language
    yield from clips.values()


def _is_behind(clip: _Clip, stamps: dict[str, FoundFile], settings: IndexSettings) -> bool:
    wanted = {path: (_stamp(stamps[path]), sidecar.language) for path, sidecar in clip.sidecars.items()}
    kept = {path: known for path, known in clip.known.items() if path in wanted or not _is_gone(path, stamps)}
    known = streams_known(clip.streams, pictures=settings.read_text, retry=settings.retry)
    return not known or kept != {**kept, **wanted} or kept != clip.known


def _is_gone(path: str, stamps: dict[str, FoundFile]) -> bool:
    """Whether a subtitle file that is of no file of the folders is gone, or is another's now; it may lie elsewhere."""
    return path in stamps or not os.path.lexists(path)


def _stamp(file: FoundFile) -> Stamp:
    return file.stamp.size, file.stamp.mtime_ns, file.stamp.ctime_ns


def _note_known(
    connection: sqlite3.Connection, clips: list[_Clip], stamps: dict[str, FoundFile], report: IndexReport
) -> None:
    """List the subtitle files that an earlier run set aside and that are still as they were."""
    rows = connection.execute(
        "SELECT origin, problem FROM transcripts WHERE source = 'sidecar' AND problem IS NOT NULL ORDER BY origin"
    )
    problems = {loaded_path(origin): problem for origin, problem in rows}
    known = {path: stamp for clip in clips for path, (stamp, _) in clip.known.items()}
    for path, problem in problems.items():
        if path in stamps and known.get(path) == _stamp(stamps[path]):
            report.set_aside.append(SetAside("", printable(path), "not_media", problem))


class _SubtitleRun:
    """Reads the subtitles of one clip after another."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        stamps: dict[str, FoundFile],
        report: IndexReport,
        settings: IndexSettings,
        brake: Brake,
    ) -> None:
        self._store, self._worker, self._stamps, self._report = store, worker, stamps, report
        self._settings, self._brake = settings, brake

    def update(self, clip: _Clip) -> None:
        """Read what is new or has changed of a clip, and store it with what it has."""
        library = self._store.library
        try:
            shard = read_shard(shard_path(library / SHARDS, clip.clip_id))
        except DamagedShardError as error:  # the next run reads its video anew
            log.warning("%s", error)
            return
        old = shard.transcripts or ()
        kept = [one for one in old if one.source != "sidecar" or self._holds(one, clip)]
        there = {one.origin for one in kept if one.source == "sidecar"}
        new = [self._sidecar(clip, sidecar) for path, sidecar in clip.sidecars.items() if path not in there]
        streams = [one for one in kept if one.source == "stream"]
        rows = [(one.origin, one.problem) for one in streams]
        if not streams_known(rows, pictures=self._settings.read_text, retry=self._settings.retry):
            kept = [one for one in kept if one.source != "stream"]
            new += self._streams(clip, streams)
        whole = sorted([*kept, *filter(None, new)], key=lambda one: (_ORDER[one.source], os.fsencode(one.origin)))
        put_transcripts(library, self._store.connection, shard, whole)
        gone = {one.origin for one in old if one.source == "sidecar"} - {one.origin for one in whole}
        self._report.subtitles_gone += len(gone)
        self._report.subtitles += sum(bool(one.utterances) for one in whole if one not in old)

    def _holds(self, known: Transcript, clip: _Clip) -> bool:
        sidecar = clip.sidecars.get(known.origin)
        if sidecar is None:
            return not _is_gone(known.origin, self._stamps)
        return (known.stamp, known.language) == (_stamp(self._stamps[known.origin]), sidecar.language)

    def _sidecar(self, clip: _Clip, sidecar: Sidecar) -> Transcript | None:
        """What a subtitle file says, or why it cannot be read; None where it is to be tried again next time."""
        known = Transcript("sidecar", sidecar.path, language=sidecar.language, stamp=_stamp(self._stamps[sidecar.path]))
        try:
            (found,) = self._read(sidecar.path, {"language": sidecar.language})
            return replace(known, utterances=self._within(clip, sidecar.path, found).utterances)
        except MediaError as error:
            path = printable(sidecar.path)
            self._report.newly_aside += 1
            self._report.set_aside.append(SetAside("", path, error.reason, str(error)))
            return None if error.reason in TRANSIENT else replace(known, problem=printable(str(error)))

    def _streams(self, clip: _Clip, known: list[Transcript]) -> list[Transcript]:
        """What the streams of a clip say; those of text are not read again for those of pictures."""
        said = [one for one in known if one.utterances]
        pictured = any(one.origin in (UNREAD.origin, UNREADABLE.origin) for one in known)
        if not pictured:
            try:
                found = [self._within(clip, clip.path, one) for one in self._read(clip.path)]
            except MediaError as error:  # its pictures were read
                log.info("no subtitles of %s: %s", printable(clip.path), error)
                return [replace(NO_STREAM, problem=printable(str(error)))]
            said, pictured = _transcripts(found), any(one.pictures for one in found)
        read = self._pictures(clip) if pictured else []
        said += [one for one in read if one.utterances]
        numbered = [replace(one, origin=str(number)) for number, one in enumerate(said)]
        return [*numbered, *(one for one in read if not one.utterances)] or [NO_STREAM]

    def _pictures(self, clip: _Clip) -> list[Transcript]:
        """What streams of pictures say, or why they were not read."""
        path = printable(clip.path)
        if not self._settings.read_text:
            self._report.notes.append((path, f"{UNREAD.problem}; a run without --no-ocr reads them"))
            return [UNREAD]
        engine_id()  # raises where there are no models, for which no file is to blame
        try:
            found = self._read(clip.path, {"pictures": True})
            return _transcripts([self._within(clip, clip.path, one) for one in found])
        except MediaError as error:
            self._report.notes.append((path, printable(f"its subtitles in pictures cannot be read: {error}")))
            return [UNREAD if error.reason in TRANSIENT else replace(UNREADABLE, problem=printable(str(error)))]

    def _read(self, path: str, how: Mapping[str, Any] | None = None) -> list[Subtitles]:
        try:
            return read_with(self._worker, path, how)
        except EvenreelError:
            if self._brake.halted:
                raise RunHaltedError from None
            raise

    def _within(self, clip: _Clip, path: str, found: Subtitles) -> Subtitles:
        """Subtitles without those that start after the clip's end; notes on these and on others go to the report."""
        end_s = float("inf") if clip.duration_s is None else clip.duration_s + _AFTER_END_S
        kept = tuple(one for one in found.utterances if one.start_s <= end_s)
        notes = list(found.notes)
        if lost := len(found.utterances) - len(kept):
            of = count(len(found.utterances), "cue")
            notes.append(
                f"{lost:,} of {of} come after the end of the video and were left out; are they of another cut?"
            )
        self._report.notes += [(printable(path), note) for note in notes]
        if found.utterances and not kept:
            raise MediaError("not_media", "all of its cues come after the end of the video; are they of another cut?")
        return replace(found, utterances=kept)


def _transcripts(found: list[Subtitles]) -> list[Transcript]:
    return [Transcript("stream", "", one.utterances, one.utterances[0].language) for one in found if one.utterances]
