"""Computes features of the captions and clips of a corpus, resumably."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from evenreel.config import as_path, check_corpus, check_settings_kind
from evenreel.errors import EncoderError, FeaturesError, LibraryError, MediaError
from evenreel.features.clip_reader import (
    READER,
    ClipReader,
    ClipSource,
    ReaderSettings,
    SharedModel,
    WantedStages,
    merge,
)
from evenreel.features.manifest import (
    BLOCK_TEXTS,
    CLIPS,
    NO_PATH,
    RECOMPUTE,
    CorpusClip,
    DamagedTextsError,
    FeatureReport,
    FeatureSet,
    Ledger,
    Manifest,
    block_files,
    clip_aside,
    clip_key,
    clip_shard,
    clips_of,
    encode_block,
    read_block,
    remove_leftovers,
    write_block,
    write_manifest,
)
from evenreel.features.pool import TRANSIENT, Claims, NoProgress, ReaderPool, SetAside, StagedProgress, writer_lock
from evenreel.features.settings import FeatureSettings, Words, precision_of
from evenreel.features.shards import DamagedShardError, Shard, read_shard, write_shard
from evenreel.features.windows import MOMENT_S, with_windows
from evenreel.files import file_at
from evenreel.media import parse_rule
from evenreel.media.workers import FileStamp
from evenreel.types import Corpus, Encoder, TextTrack, VideoInfo, WindowRule

# On-screen words that a corpus ships, used instead of those that a text recogniser finds.
#
# A benchmark's own words (TextVR's, M4-ViteVQA's, the true ones of a planted corpus) come as rows with frame numbers,
# see `evenreel.corpus.on_screen`; here they become signs with times, as `evenreel.onscreen` makes them.

WHOLE_PICTURE = (0.0, 0.0, 1.0, 1.0)
_COLUMNS = ("text", "confidence", "start_frame", "end_frame", "box")


class _Row(NamedTuple):
    """A row of the table, without its clip."""

    text: str
    confidence: float | None
    start_frame: int | None
    end_frame: int | None
    box: Sequence[float] | None


class CorpusWords:
    """Words of clips from a corpus's table of on-screen texts; a clip without a row has no words."""

    def __init__(self, texts: pl.DataFrame) -> None:
        parts = texts.select("clip_id", *_COLUMNS).partition_by("clip_id", as_dict=True, include_key=False)
        self._rows = {str(clip_id): [_Row(*row) for row in part.rows()] for (clip_id,), part in parts.items()}

    def reader_id(self, clip: CorpusClip) -> str:
        """Compute the id of a clip's words, a digest over them, so that edited words have another id."""
        named: list[Any] = [clip.fps, self._rows.get(clip.clip_id, [])]
        return f"corpus@{hashlib.blake2b(json.dumps(named).encode(), digest_size=8).hexdigest()}"

    def put(self, shard: Shard, clip: CorpusClip) -> Shard:
        """Return a shard with the clip's words as its tracks, limited to the clip's part of the file."""
        rows, fps = self._rows.get(clip.clip_id, []), clip.fps or shard.info.fps
        if rows and not fps:
            raise MediaError("failed", "its words have frame numbers, and nothing says how many frames a second it has")
        length_s, start_s = float(shard.spans_s[-1, 1]), clip.part.start_s or 0.0
        tracks = [_track(row, fps or 1.0, start_s, length_s, shard.info) for row in rows]
        shown = [track for track in tracks if track.end_s >= 0 and track.start_s < length_s]
        ordered = sorted(  # stable: then in the order of the table
            (replace(track, start_s=max(0.0, track.start_s)) for track in shown), key=lambda track: track.start_s
        )
        return replace(shard, tracks=tuple(ordered), reader_id=self.reader_id(clip))


def _track(row: _Row, fps: float, clip_start_s: float, length_s: float, info: VideoInfo) -> TextTrack:
    """A sign, timed from the start of the clip; its last frame is shown until the next one."""
    first = (row.start_frame or 0) / fps - clip_start_s
    end = length_s if row.end_frame is None else (row.end_frame + 1) / fps - clip_start_s - MOMENT_S
    confidence = 1.0 if row.confidence is None else row.confidence
    return TextTrack(row.text, confidence, first, max(first, end), _box(row.box, info), (row.text,))


def _box(pixels: Sequence[float] | None, info: VideoInfo) -> tuple[float, float, float, float]:
    if pixels is None:
        return WHOLE_PICTURE
    x0, y0, x1, y1 = pixels
    return x0 / info.width, y0 / info.height, x1 / info.width, y1 / info.height


# The features of a corpus, computed once: what is there and up to date is kept, and only the rest is read.
#
# A folder of features has this layout; every file in it appears whole or not at all, so a run that was killed goes on
# where it stopped:
#
#     features.json                whose they are: encoder, weights hash, precision; how clips were read: rules, windows
#     files.json                   stamp and digest of each video when it was looked at, and clips that were set aside
#     clips/ab/abcd....safetensors one shard a clip (`evenreel.features.shards`): frames (T, D) float16 of unit length
# and
#                                  their times, on-screen text, and the features of its windows
#     texts/abcd....safetensors    blocks of captions (`evenreel.features.manifest`): words and sentence of each text
#
# The name of a shard is a digest over the content of the video, the clip's part of it and how it is read; a caption is
# found by its text; the weights hash of the folder is in every file. So an edited video or caption, another rule or
# another encoder finds nothing there, rather than what was computed before.

log = logging.getLogger("evenreel")


def compute_features(
    corpus: Corpus,
    folder: str | Path,
    encoder: Encoder,
    settings: FeatureSettings | None = None,
    progress: StagedProgress | None = None,
    *,
    words: pl.DataFrame | None = None,
) -> FeatureReport:
    """Bring the features of a corpus up to date: frames and on-screen text of its clips, words of its captions.

    Args:
        corpus: clips with `path`, and `start_s` and `end_s` where a clip is a part of its file.
        folder: folder of the features, made where it does not exist; it holds those of one encoder.
        encoder: makes the features.
        settings: sampling, on-screen text, workers, limits.
        progress: receives the events of the run.
        words: on-screen words that the corpus ships (`evenreel.corpus.load_texts`); None to read them in the frames.

    Raises:
        FeaturesError: the folder belongs to another encoder or precision, another process writes to it, or it cannot be
            written.
        EncoderError: a feature of a caption is not finite.
        UsageError: the sampling rule cannot be parsed.
    """
    check_corpus(corpus)
    check_settings_kind(settings, FeatureSettings)
    folder, settings = as_path(folder, "folder"), settings or FeatureSettings()
    shipped = None if words is None else CorpusWords(words)
    settings = replace(settings, rule=str(parse_rule(settings.rule)))
    with writer_lock(folder, FeaturesError, "name another --out"):
        manifest = write_manifest(folder, _manifest(encoder, settings, _words_from(shipped)))
        remove_leftovers(folder)
        job = FeatureJob(folder, encoder, settings, progress or NoProgress(), words=shipped)
        report = job.run(corpus)
    if others := [f"'{one}'" for one in manifest.sets if one != manifest.last]:
        note = f"loading gives '{manifest.last}' where no rule is named; {', '.join(others)} lie here too"
        report.notes.append((str(folder), note))
    return report


def _words_from(shipped: CorpusWords | None) -> Words:
    return "ocr" if shipped is None else "corpus"


def _manifest(encoder: Encoder, settings: FeatureSettings, words_from: Words) -> Manifest:
    """Return the manifest of this run alone."""
    windows = settings.windows if settings.read_text else None
    made = FeatureSet(settings.rule, words_from, windows, _frame_window(encoder))
    videos = str(settings.videos.absolute())
    return Manifest(encoder.encoder_id, encoder.weights_hash, encoder.dimension, precision_of(encoder), videos, (made,))


def _frame_window(encoder: Encoder) -> WindowRule | None:
    """Windows of frames of an encoder of moving pictures; None for one of single frames."""
    return encoder.window if encoder.window.frames > 1 else None


class FeatureJob:
    """One run over one folder of features, which is locked."""

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        settings: FeatureSettings,
        progress: StagedProgress,
        reader: str = READER,
        words: CorpusWords | None = None,
    ) -> None:
        self._folder, self._encoder, self._settings, self._progress = folder, encoder, settings, progress
        self._model = SharedModel(lambda: encoder)
        self._model.encoder()
        self._target, self._words = reader, words
        self._precision, self._frame_window = precision_of(encoder), _frame_window(encoder)
        self._ledger = Ledger.load(folder)
        self._report = FeatureReport(str(folder), encoder.encoder_id)
        self._claims = Claims[CorpusClip]()
        self._report_lock = threading.Lock()
        self._pool = ReaderPool(self._new_reader, self._read_file, self._refuse, settings.worker_count)

    def run(self, corpus: Corpus) -> FeatureReport:
        """Compute all features of a corpus that are missing."""
        started = time.monotonic()
        try:
            self._encode_captions(corpus.captions["text"].unique(maintain_order=True).to_list())
            self._read_all(self._clips(corpus))
        finally:
            self._ledger.save(now=True)
        self._report.set_aside.sort(key=lambda aside: (aside.path, aside.clip_id))
        self._report.notes = sorted(set(self._report.notes))
        self._report.seconds = time.monotonic() - started
        return self._report

    def _encode_captions(self, texts: Sequence[str]) -> None:
        """Encode the captions that no whole block holds."""
        self._progress.stage("checking captions")
        encoder, there = self._encoder, set[str]()
        for path in block_files(self._folder):
            try:
                there.update(read_block(path, encoder.weights_hash, self._precision).texts)
            except DamagedTextsError:
                self._report.damaged.append(str(path))
                path.unlink(missing_ok=True)
        missing = [text for text in texts if text not in there]
        self._report.texts_unchanged = len(texts) - len(missing)
        if missing:
            self._progress.stage("encoding captions", len(missing))
        for at in range(0, len(missing), BLOCK_TEXTS):
            block = encode_block(missing[at : at + BLOCK_TEXTS], encoder)
            write_block(self._folder, block, encoder)
            self._report.texts += len(block.texts)
            self._progress.advance(len(block.texts))

    def _clips(self, corpus: Corpus) -> list[CorpusClip]:
        """Clips that name a file, those of one file together and in the order of their times."""
        clips = list(clips_of(corpus))
        self._report.set_aside += [clip_aside(clip, MediaError(*NO_PATH)) for clip in clips if not clip.path]
        return sorted(
            (clip for clip in clips if clip.path), key=lambda clip: (clip.path, clip.part.start_s or 0.0, clip.clip_id)
        )

    def _read_all(self, clips: list[CorpusClip]) -> None:
        self._progress.stage("checking what is there")
        work = [file for path, group in groupby(clips, attrgetter("path")) if (file := self._undone(path, list(group)))]
        if work:
            work.sort(key=len, reverse=True)  # so that no reader is left with a long one at the end
            self._progress.begin(sum(map(len, work)))
            self._pool.run(work)

    def _undone(self, path: str, clips: list[CorpusClip]) -> list[CorpusClip]:
        """Return the clips of a file that there is work for; all where its content must be looked at first."""
        place = file_at(self._settings.videos, path)
        digest = self._ledger.digest(path, place)
        if digest is None:
            return clips
        return [clip for clip in clips if not self._is_done(clip, self._key(clip, digest))]

    def _is_done(self, clip: CorpusClip, key: str) -> bool:
        """Check that a clip needs no reader: its features are up to date, or it is known to be unusable."""
        shard = self._stored(key)
        if shard is not None and not self._wanted(shard) and self._has_windows(shard, clip):
            with self._report_lock:
                self._report.unchanged += 1
            return True
        known = self._ledger.set_aside.get(key)
        if known is None or known[0] in TRANSIENT or self._settings.retry:
            return False
        self._report.set_aside.append(SetAside(clip.clip_id, clip.path, *known))
        return True

    def _key(self, clip: CorpusClip, digest: str) -> str:
        made = FeatureSet(self._settings.rule, _words_from(self._words), frame_window=self._frame_window)
        return clip_key(digest, clip, made, self._precision)

    def _wanted(self, shard: Shard | None) -> WantedStages:
        """The stages to do for a clip, given what is stored of it."""
        has_text = shard is not None and shard.tracks is not None
        return WantedStages(shard is None or shard.frames is None, self._recognises and not has_text)

    @property
    def _recognises(self) -> bool:
        """Whether words are read in the frames."""
        return self._settings.read_text and self._words is None

    def _has_windows(self, shard: Shard, clip: CorpusClip) -> bool:
        if not self._settings.read_text:
            return True
        if self._words is not None and shard.reader_id != self._words.reader_id(clip):
            return False
        return shard.window_texts is not None and len(shard.window_texts) == self._settings.windows

    def _stored(self, key: str) -> Shard | None:
        """Return the shard that is there, whole and of this encoder; a damaged one is noted and counts as none."""
        path = clip_shard(self._folder, key)
        if not path.exists():
            return None
        try:
            shard = read_shard(path, remedy=RECOMPUTE)
        except DamagedShardError:
            with self._report_lock:
                if str(path) not in self._report.damaged:
                    self._report.damaged.append(str(path))
            return None
        return shard if shard.weights_hash == self._encoder.weights_hash else None

    def _new_reader(self) -> ClipReader:
        settings = self._settings
        shots = self._frame_window is not None  # which no window goes on over
        reading = ReaderSettings(settings.rule, self._recognises, settings.worker_count, settings.limits, shots)
        return ClipReader(reading, self._model, self._count_frame, self._target)

    def _read_file(self, reader: ClipReader, clips: list[CorpusClip]) -> None:
        """Read the clips of one file, one after the other; where the file is gone, their stored features will do."""
        path = clips[0].path
        place = file_at(self._settings.videos, path)
        before: FileStamp | MediaError
        try:
            before, digest = self._ledger.look(path, place, self._digest)
        except MediaError as error:
            known = self._ledger.digest(path, place)
            if known is None:
                raise
            before, digest = error, known
        for clip in clips:
            if self._pool.stopping:
                return
            self._read_clip(reader, clip, before, self._key(clip, digest))

    def _digest(self, path: str) -> str:
        return self._pool.digest(path, self._settings.limits.stall_timeout_s)

    def _read_clip(self, reader: ClipReader, clip: CorpusClip, before: FileStamp | MediaError, key: str) -> None:
        """Read a clip of a file with this stamp, or set it aside for the error of the file."""
        if self._is_done(clip, key):  # under another stamp, or by another clip of the same content
            self._progress.file_done(clip.path)
            return
        if not self._claims.take(key, clip):  # what becomes of the other one of this content is true of this one too
            return
        stored = self._stored(key)
        wanted = self._wanted(stored)
        read: Callable[[], Shard] | None = None
        try:
            if wanted:
                if isinstance(before, MediaError):
                    raise before
                place = str(file_at(self._settings.videos, clip.path))
                read = reader.read(ClipSource(key, place, before, clip.part), wanted)
        except MediaError as error:
            if not self._pool.stopping:  # a worker that was ended by us is no fault of the clip
                self._fail(clip, key, error)
            return
        self._pool.hand_over(partial(self._finish, clip, key, read, stored))

    def _finish(self, clip: CorpusClip, key: str, read: Callable[[], Shard] | None, stored: Shard | None) -> None:
        """Encode what is left of a clip, and store it."""
        try:
            new = read() if read else stored
            assert new is not None  # else it was read
            shard = self._windowed(merge(new, stored) if read and stored else new, clip)
            self._write(shard)
        except MediaError as error:
            self._fail(clip, key, error)
            return
        self._ledger.note_aside(key, None)
        self._ledger.save()
        for done in (clip, *self._claims.release(key)):
            with self._report_lock:
                self._report.computed += 1
                self._report.notes += [(done.path, note) for note in shard.info.notes]
            self._progress.file_done(done.path)

    def _fail(self, clip: CorpusClip, key: str, error: MediaError) -> None:
        self._ledger.note_aside(key, error)
        self._refuse([clip, *self._claims.release(key)], error)

    def _refuse(self, clips: Sequence[CorpusClip], error: MediaError) -> None:
        for clip in clips:
            log.info("set aside %s (%s): %s: %s", clip.clip_id, clip.path, error.reason, error)
            with self._report_lock:
                self._report.set_aside.append(clip_aside(clip, error))
            self._progress.file_done(clip.path)

    def _windowed(self, shard: Shard, clip: CorpusClip) -> Shard:
        if not self._settings.read_text:
            return shard
        if self._words is not None:
            shard = self._words.put(shard, clip)
        try:
            with self._model.in_use:
                return with_windows(shard, self._settings.windows, self._encoder, exact=self._words is not None)
        except EncoderError as error:
            raise MediaError("bad_features", str(error)) from error

    def _write(self, shard: Shard) -> None:
        try:
            write_shard(self._folder / CLIPS, shard)
        except LibraryError as error:
            raise FeaturesError(f"{error} What was computed so far is kept.") from error

    def _count_frame(self, path: str, time_s: float) -> None:
        with self._report_lock:
            self._report.frames += 1
        self._progress.frame()
