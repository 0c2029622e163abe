"""An index run: folders are scanned, compared with the library, and what it lacks is read, stage by stage.

The plan says which files are to be read (`scan`), `stages` what is read of them and how it is put into the library.
What was put is safe: a run that is killed is gone on with by the next.
"""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evenreel.config import (
    AUTO,
    DEFAULT_MODEL,
    DEFAULT_RULE,
    IndexSettings,
    Machines,
    MediaLimits,
    as_path,
    as_paths,
    check_settings_kind,
)
from evenreel.encoders import loading
from evenreel.errors import LibraryError, MediaError, UsageError
from evenreel.extras import Download
from evenreel.features import pool
from evenreel.features.clip_reader import READER, ClipReader, OtherWindowsError, SharedModel, WantedStages
from evenreel.features.shards import remove_shards, shard_files, shard_path, tidy_shards
from evenreel.files import printable, sync_folder
from evenreel.library.index import scan, stages
from evenreel.library.index.spread import ARRIVING, SpreadRun, clear_arrivals
from evenreel.library.people import FACE_MODELS, FaceStage, check_people
from evenreel.library.store import catalog
from evenreel.library.store.fulltext import fold_anew
from evenreel.library.store.meanings import update_meanings
from evenreel.library.store.user_tables import copied, forget_copy
from evenreel.library.store.vectors import MATRICES
from evenreel.library.store.writer import FoundFile, Store, closing_error, vectors_files, vectors_path
from evenreel.meaning import locate_text_model
from evenreel.media.sampling import Part
from evenreel.media.workers import FileStamp, Worker, stamp
from evenreel.speech.recogniser import locate_speech_model
from evenreel.types import Encoder

LOST = "its features were gone from the library, so it was read anew"
"""Note on a file whose clip has no shard."""

LONG_S = 600.0
"""Seconds of video from which on pictures are read before words: ten minutes, which take a person minutes to wait for.
A shorter run is over before a second reading of its files would be worth it."""

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class RunParts:
    progress: pool.StagedProgress = field(default_factory=pool.NoProgress)
    machines: Machines | None = None  # that read and encode; None for this one alone
    brake: pool.Brake = field(default_factory=pool.Brake)  # ends the run early
    encoders: dict[str, Encoder] = field(default_factory=dict)  # loaded models by name; those of the run are added

    def fetch_models(self, settings: IndexSettings) -> None:
        """Download what this machine lacks of the models that a run names, before anything is read or written."""

        def told(download: Download) -> None:
            if self.brake.halted:
                raise pool.RunHaltedError
            self.progress.download(download)

        if settings.model is not None and settings.model not in self.encoders:
            loading.locate(settings.model, told=told, precision=settings.precision)
        if settings.speech not in (None, AUTO):
            locate_speech_model(str(settings.speech), told=told)


def index_folders(
    places: str | Path | Sequence[str | Path],
    library: str | Path,
    settings: IndexSettings | None = None,
    *,
    progress: pool.StagedProgress | None = None,
    metadata: str | Path | Sequence[str | Path] = (),
    machines: Machines | None = None,
) -> scan.IndexReport:
    """Bring a library up to date with folders of videos; an unchanged file is not opened.

    Args:
        places: folders or single files, or one alone.
        library: folder of the library; made where it does not exist.
        settings: model, sampling, text, workers, limits; None for the defaults.
        progress: receives the progress of the run.
        metadata: tables about the videos, besides `metadata.*` and `manifest.*` at the top of the folders.
        machines: machines that read and encode; None for this one alone.

    Raises:
        LibraryError: no video for a new library, it cannot be written or is of another model, or a disk has vanished.
        EncoderError: the model cannot be loaded.
        UsageError: a metadata table that was named or the sampling rule is wrong, an argument is of the wrong kind, or
            machines have a staging place without a cluster, or one with credentials in its address.
    """
    library = as_path(library, "library")
    check_settings_kind(settings, IndexSettings)
    settings = settings or IndexSettings()
    check_settings(library, settings, machines)
    found = scan.scan(as_paths(places, "places"), ignore_rules(library, settings))
    beside, named = scan.tables_beside(found.roots), as_paths(metadata, "metadata")
    tables = scan.read_tables(beside, named, settings.limits) if beside or named else None
    if not found.files and not (library / catalog.CATALOG).exists():
        raise LibraryError(found.no_video())
    return index_found(library, settings, found, tables, RunParts(progress or pool.NoProgress(), machines))


def check_settings(library: Path, settings: IndexSettings, machines: Machines | None = None) -> None:
    catalog.refuse_published(library)
    if machines is not None and machines.staging is not None and machines.ray is None:
        raise UsageError(
            "The setting staging is where the workers of --ray leave what they made; name a cluster with --ray, or "
            "leave it out."
        )
    stages.check_speech(settings)
    stages.check_sound(settings)
    if settings.meaning not in (None, AUTO):
        locate_text_model(str(settings.meaning))
    if settings.people or settings.face_models is not None:
        check_people(library, settings)
    if settings.passes not in (0, 1, 2):
        raise UsageError(f"passes={settings.passes}: files are read in 1 pass or in 2; 0 chooses.")
    if settings.passes == 2 and machines is not None and machines.ray is not None:
        raise UsageError("The workers of --ray read each file in one pass; leave passes out.")


def ignore_rules(library: Path, settings: IndexSettings) -> scan.IgnoreRules:
    """Return the patterns of a library, with those that a run adds and without those that it takes away."""
    known: tuple[str, ...] = ()
    if (library / catalog.CATALOG).exists():
        with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
            known = scan.kept_patterns(catalog.get_meta(connection))
    return scan.IgnoreRules(scan.changed_patterns(known, settings.ignore, settings.unignore))


def index_found(
    library: Path,
    settings: IndexSettings,
    found: scan.Scan,
    tables: scan.KnownMetadata | None = None,
    parts: RunParts | None = None,
) -> scan.IndexReport:
    """Bring a library up to date with files that were found, and what tables say of them; see `index_folders`."""
    parts = parts or RunParts()
    if found.files and not (library / catalog.CATALOG).exists():
        parts.fetch_models(resolve(settings, {}, library))
    with writing(library, taken_back=True) as connection:
        if (library / ARRIVING).exists():  # of a run with Ray that was killed
            clear_arrivals(library)
        try:
            there = (catalog.loaded_path(path) for (path,) in connection.execute("SELECT path FROM files"))
            paths = [*there, *(file.path for file in found.files)]
            rows, lost = scan.rows_of_files(tables.rows, paths) if tables else ({}, None)
            aside = tables.set_aside if tables else []
            report = run_stages(Store(library, connection, rows), found, settings, parts, aside)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            if not catalog.is_spoilt(connection):  # then the error is ours
                raise
            raise catalog.damaged(library, error) from error
        report.warnings += [lost] if lost and found.changed is None else []
        return report


@contextmanager
def writing(library: Path, *, taken_back: bool = False) -> Iterator[sqlite3.Connection]:
    """Lock a library, open it for writing, and clear away what a killed run has left.

    Where `taken_back` is set, a new library in which the block stores nothing before it fails is undone.
    """
    folder_is_new = not library.exists()
    with ExitStack() as held:
        held.enter_context(catalog.library_lock(library))
        if taken_back:
            held.enter_context(taken_back_if_empty(library, folder_is_new=folder_is_new))
        connection = held.enter_context(closing(catalog.open_for_writing(library)))
        try:
            with copied(library, connection):
                finish_exchange(library, catalog.get_meta(connection))
                catalog.clear_unnamed(library, catalog.get_meta(connection))
                fold_anew(connection)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


# a run over what was found --------------------------------------------------------------------------------------------


def run_stages(
    store: Store,
    found: scan.Scan,
    settings: IndexSettings,
    parts: RunParts,
    tables_aside: Sequence[pool.SetAside] = (),
    *,
    alone: bool = False,
) -> scan.IndexReport:
    """Index the files of a scan in an open library; `alone` is one of vectors, beside that of its files."""
    started = time.monotonic()
    if settings.model != AUTO:
        store.untie()
    meta = store.meta()
    settings = resolve(settings, meta, store.library)
    if found.files:
        parts.fetch_models(replace(settings, model=None))  # that of pictures where a file is new
    report = scan.IndexReport(set_aside=list(tables_aside))
    with ExitStack() as opened:
        run = scan.IndexRun(store, found, settings, report, parts.progress, parts.brake, opened)
        _Job(run, parts, meta).run(alone=alone)
    report.unfinished = parts.brake.eased
    report.set_aside.sort(key=lambda aside: aside.path)
    report.notes.sort()
    report.seconds = time.monotonic() - started
    return report


class _Job:
    """One index run: the plan, the reading of pictures and words in one pass or two, and the stages after it."""

    def __init__(self, run: scan.IndexRun, parts: RunParts, meta: Mapping[str, str]) -> None:
        self._run, self._parts, self._meta = run, parts, meta
        self._store, self._settings, self._report = run.store, run.settings, run.report
        settings, self._model = run.settings, None
        if settings.model is not None:
            self._model = SharedModel(partial(tied_model, run.store, settings, parts.encoders))
        self._speech = stages.SpeechStage(run)
        wanted = WantedStages(settings.model is not None, settings.read_text, True)
        self._orders = stages.Orders(wanted, replace(settings, speech=self._speech.model), READER)
        self._reading = stages.ReadingStage(run, self._orders, self._model, self._speech)
        self._digests: dict[str, tuple[FileStamp, str]] = {}
        self._ray = parts.machines if parts.machines and parts.machines.ray else None

    def run(self, *, alone: bool) -> None:
        found, store, report = self._run.found, self._store, self._report
        tidy_shards(store.library / catalog.STILLS)
        plan = self._plan(stages.BOTH)
        if plan.work:
            self._parts.fetch_models(self._settings)
        own, model = self._meta.get("model"), self._settings.model
        named, precisions = model in {own, self._meta.get("asked_model")}, (AUTO, loading.named_precision(own or "")[1])
        if own is None and model is None:
            store.begin((), {"model": ""})  # a new library without vision
        elif self._model and own and not (named and self._settings.precision in precisions):
            self._model.encoder()  # which may not be the library's own, and is compared with it
        store.new_roots = tuple(found.roots)
        store.begin((), {"rule": self._settings.rule})
        if found.patterns or scan.kept_patterns(self._meta):
            store.begin((), scan.noted_patterns(found.patterns))
        self._tell_plan(plan)
        for file in plan.refused:
            if file.error is not None:
                self._reading.set_aside(store, file, file.error)
        for file in plan.returned:
            store.link(file)
        self._read(plan.work)
        self._reading.end()
        report.missing, report.moved = scan.mark_gone(store, plan)
        report.metadata_changed = store.update_metadata()
        store.drop_replaced()
        self._update_null_scores()
        people = self._settings.people or self._meta.get(FACE_MODELS)  # once asked for, until everyone is forgotten
        for new_stage in () if alone else stages.STAGES:
            if not self._run.brake.eased and (people or new_stage is not FaceStage):
                self._take_through(self._speech if new_stage is stages.SpeechStage else new_stage(self._run))
        if not alone and not self._run.brake.eased:
            told = partial(self._run.progress.stage, "encoding what texts mean")
            report.meanings = update_meanings(store, self._settings.meaning, told, lambda: self._run.brake.eased)
        self._tell_model()
        if not self._run.brake.eased:
            store.begin(found.roots, {})
        if report.indexed and (unknown := catalog.unknown_to_builtin(store.connection, store.meta())):
            report.warnings.append(unknown)

    def _tell_model(self) -> None:
        """Hand over the model where it was loaded, and report what it computed on and how fast."""
        if self._model is None or self._model.window() is None:
            return
        self._parts.encoders[self._settings.model or ""] = encoder = self._model.encoder()
        if self._model.pictures:
            self._report.computed_on = getattr(encoder, "computed_on", "")  # of a caller's own it is not known
            self._report.pictures_per_s = self._model.pictures / self._model.seconds

    def _plan(self, title: str) -> scan.IndexPlan:
        """What a pass is to do with each file; most of a folder gone at once is refused."""
        self._reading.begin_pass(title, {})
        shards = tidy_shards(self._store.library / catalog.SHARDS)
        known = {row.path: row for row in scan.known_files(self._store.connection, shards)}
        plan = scan.make_plan(self._run.found, known, self._reading.wanted, retry=self._settings.retry)
        if not self._settings.accept_missing:
            scan.check_nothing_vanished(self._run.found, known, plan.gone)
        return plan

    def _tell_plan(self, plan: scan.IndexPlan) -> None:
        found, report = self._run.found, self._report
        report.unchanged, report.recognised = len(plan.unchanged), len(plan.returned)
        report.other_files, report.other_suffixes = found.other_files.total(), dict(found.other_files)
        report.links, report.ignored = found.links, len(found.ignored)
        report.closed_folders = [printable(folder) for folder in found.closed_folders]
        report.set_aside += [
            pool.SetAside("", printable(row.path), row.reason or "failed", row.sentence or "")
            for row in plan.aside_before
        ]
        report.notes += [*found.troubles, *((printable(path), LOST) for path in sorted(plan.lost))]

    def _read(self, work: Sequence[FoundFile]) -> None:
        if not work:
            return
        lengths = measure_lengths(work, self._store.connection, self._settings.limits)
        first = self._plan(stages.PICTURES).work if self._in_two_passes(lengths) else []
        foretold = self._foretell(lengths, first, work) if lengths.video_s >= LONG_S else (None, None)
        heard = self._speech.model is not None
        self._run.progress.forecast(pool.Forecast(len(work), lengths.video_s, lengths.sure, *foretold, heard))
        if not first:
            self._read_pass(stages.BOTH, work, lengths)
            return
        self._read_pass(stages.PICTURES, first, lengths)
        self._update_null_scores()  # so that searches say which matches are weaker
        paths = {file.path for file in work}
        self._read_pass(stages.WORDS, [file for file in self._plan(stages.WORDS).work if file.path in paths], lengths)

    def _read_pass(self, title: str, work: Sequence[FoundFile], lengths: VideoLengths) -> None:
        work = [file for file in work if not self._reading.is_aside(file)]
        if not work or self._run.brake.eased:
            return
        self._reading.begin_pass(title, {file.path: lengths.by_path.get(file.path, 0.0) for file in work})
        self._run.progress.begin(len(work))
        if self._ray is not None:
            SpreadRun(self._run, self._reading, self._ray).run(work)
        else:
            StageRun(self._reading, self._run, self._digests, lambda file: None).over(work)

    def _take_through(self, stage: stages.Stage) -> None:
        if not stage.begin():
            return
        known = {row.path: row for row in scan.known_files(self._store.connection, None) if row.state == "indexed"}
        wanted: dict[str, FoundFile] = {}
        for found in self._run.found.files:
            if (have := known.get(found.path)) is not None:
                file = replace(found, clip_id=have.clip_id)
                if stage.wanted(file, have):
                    wanted.setdefault(str(file.clip_id), file)
        if wanted:
            progress = self._run.progress
            progress.stage(stage.title, len(wanted))
            StageRun(stage, self._run, {}, lambda file: progress.advance(1)).over(list(wanted.values()))
        stage.end()

    def _in_two_passes(self, lengths: VideoLengths) -> bool:
        """Whether pictures are read before words: where that lets a person search much sooner."""
        settings = self._settings
        if self._model is None or self._ray or not (settings.read_text or self._speech.model):
            return False
        return settings.passes == 2 or (settings.passes == 0 and lengths.video_s >= LONG_S)

    def _foretell(
        self, lengths: VideoLengths, first: Sequence[FoundFile], work: Sequence[FoundFile]
    ) -> tuple[float | None, float | None]:
        """Seconds that pictures and words may take, measured; None where they cannot be told."""
        if self._ray:
            return None, None
        if self._model is not None:
            self._model.encoder()  # whose windows are known then, and whose loading is not measured
        wanted = self._orders.wanted
        seen_s, read_s = seconds_a_second(
            replace(self._orders, settings=replace(self._settings, keep_stills=False)),
            self._model,
            work,
            lengths.by_path,
            [WantedStages(True, False) if wanted.vision else None, WantedStages(False, True) if wanted.text else None],
        )
        to_see_s = sum(lengths.by_path[file.path] for file in first or work)
        return seen_s and seen_s * to_see_s, read_s and read_s * lengths.video_s

    def _update_null_scores(self) -> None:
        if self._model is not None and not self._store.null_scores_hold():
            self._run.progress.stage("measuring how nonsense scores")
            self._store.update_null_scores(self._model.encoder())


class StageRun:
    """A walk of one stage over files: each is claimed by its content, read in a process that can be killed, and put.

    Several readers read at a time, and one thread puts. Files of one content wait for the first of them, and then find
    that nothing is wanted any more.
    """

    def __init__(
        self,
        stage: stages.Stage,
        run: scan.IndexRun,
        digests: dict[str, tuple[FileStamp, str]],
        done: Callable[[FoundFile], None],
    ) -> None:
        self._stage, self._run, self._digests, self._done = stage, run, digests, done
        self._claims = pool.Claims[FoundFile]()
        self._pool = pool.ReaderPool(stage.reader, self._read, self._set_aside, stage.readers, run.brake)

    def over(self, files: Sequence[FoundFile]) -> None:
        self._pool.run(files)

    def _read(self, reader: Any, file: FoundFile) -> None:
        file = self._with_content(file)
        clip_id, is_read = str(file.clip_id), False
        if not self._claims.take(clip_id, file):
            return
        try:
            with self._own_faults(file):
                reading = self._stage.read(reader, file)
                is_read = True
                self._pool.hand_over(partial(self._put, file, reading))
        finally:
            if not is_read:
                self._pool.add(self._claims.release(clip_id))

    def _put(self, file: FoundFile, reading: Any) -> None:
        try:
            with self._own_faults(file):
                if (made := reading() if callable(reading) else reading) is not None:
                    self._stage.put(self._run.store, made)
                self._done(file)
        finally:
            self._pool.add(self._claims.release(str(file.clip_id)))

    @contextmanager
    def _own_faults(self, file: FoundFile) -> Iterator[None]:
        """Set a file aside for what is wrong with it, unless its worker was ended by us."""
        try:
            yield
        except OtherWindowsError:
            self._pool.add([file])
        except MediaError as error:
            if not self._pool.stopping:
                self._set_aside(file, error)

    def _set_aside(self, file: FoundFile, error: MediaError) -> None:
        self._stage.set_aside(self._run.store, file, error)
        self._done(file)

    def _with_content(self, file: FoundFile) -> FoundFile:
        """A file with the digest of its bytes, which are read once in a run unless the file changes."""
        if file.clip_id is not None:
            return file
        file = replace(file, stamp=stamp(file.path))
        known = self._digests.get(file.path)
        if known is None or known[0] != file.stamp:
            known = file.stamp, self._pool.digest(file.path, self._run.settings.limits.stall_timeout_s)
            self._digests[file.path] = known
        return replace(file, clip_id=known[1])


# how much there is to read, and how long it takes ---------------------------------------------------------------------

HEADER_READER = "evenreel.media.video:HeaderReader"
PATIENCE_S = 5.0  # for which headers are read; the length of further files is estimated by their bytes
STALL_S = 3.0  # that one header may take; the file is read all the same later on, with the limits of the run
SMALL_BYTES = 16 * 2**20  # with less than this to read in all, nobody waits long: no header is read ahead

STRETCH_S = 6.0  # of each file that are read: the text of some signs is read, and it takes seconds, not minutes
WARM_UP_S = 1.0  # that are read before, so that the start of processes and the loading of models are not measured


@dataclass(frozen=True)
class VideoLengths:
    """Length of each file of a run in seconds, by path: as the catalog or headers tell, or estimated by its bytes."""

    by_path: dict[str, float] = field(default_factory=dict)
    sure: bool = True  # whether none of them is an estimate

    @property
    def video_s(self) -> float:
        return sum(self.by_path.values())


def measure_lengths(work: Sequence[FoundFile], connection: sqlite3.Connection, limits: MediaLimits) -> VideoLengths:
    """Measure how long files are, before anything is decoded; what headers read in time say stands for the others."""
    known = {
        catalog.loaded_path(path): float(length_s)
        for path, length_s in connection.execute(
            "SELECT path, duration_s FROM files JOIN clips USING (clip_id) WHERE duration_s IS NOT NULL"
        )
    }
    found = {file.path: known[file.path] for file in work if file.path in known}
    unknown = [file for file in work if file.path not in found]
    if sum(file.stamp.size for file in unknown) >= SMALL_BYTES:
        random.Random(0).shuffle(unknown)
        hurried = replace(limits, stall_timeout_s=min(STALL_S, limits.stall_timeout_s))
        with closing(Worker(HEADER_READER, {"limits": asdict(hurried)}, hurried)) as worker:
            until = time.monotonic() + PATIENCE_S
            for file in unknown:
                if time.monotonic() > until:
                    break
                found[file.path] = 0.0  # of a file that cannot be read, which takes no time either
                with suppress(MediaError):
                    header = next(message for message, _ in worker.run({"path": file.path}))
                    found[file.path] = header["duration_s"] or 0.0
    size = sum(file.stamp.size for file in work if file.path in found)
    seconds_a_byte = sum(found.values()) / size if size else 0.0
    estimated = {file.path: file.stamp.size * seconds_a_byte for file in unknown if file.path not in found}
    return VideoLengths(found | estimated, sure=not estimated)


def seconds_a_second(
    orders: stages.Orders,
    model: SharedModel | None,
    files: Sequence[FoundFile],
    lengths_s: Mapping[str, float],
    several: Sequence[WantedStages | None],
) -> list[float | None]:
    """Measure on this machine how long a second of video takes to read: short stretches are read as the run reads.

    As many readers as the run has read a stretch of a file each, at the same time, once for each of some stages.
    Nothing of it is kept.
    """
    ordered = sorted(
        (file for file in files if lengths_s.get(file.path, 0.0) > 2 * STRETCH_S), key=lambda file: file.stamp.size
    )
    number = min(orders.settings.worker_count, len(ordered))  # of all sizes: evenly spread over the files by size
    chosen = [ordered[(2 * place + 1) * len(ordered) // (2 * number)] for place in range(number)]
    if not chosen:
        return [None for _ in several]
    with ExitStack() as opened:
        readers_of_files = [opened.enter_context(closing(stages.file_reader(orders, model))) for _ in chosen]
        threads = opened.enter_context(ThreadPoolExecutor(len(chosen), thread_name_prefix="foretelling"))

        def read_all(wanted: WantedStages, length_s: float) -> float:
            """Read the middle of each file; the seconds of video that were read."""

            def read(reader: ClipReader, file: FoundFile) -> float:
                start_s = (lengths_s[file.path] - length_s) / 2
                stretch = replace(file, clip_id="foretold", stamp=stamp(file.path))
                with suppress(MediaError):
                    stages.read_file(reader, orders, stretch, wanted, Part(start_s, start_s + length_s))()
                    return length_s
                return 0.0

            return sum(threads.map(read, readers_of_files, chosen))

        found: list[float | None] = []
        for wanted in several:
            if wanted is None or not read_all(wanted, WARM_UP_S):
                found.append(None)
                continue
            begun_at = time.monotonic()
            read_s = read_all(wanted, STRETCH_S)
            found.append((time.monotonic() - begun_at) / read_s if read_s else None)
        return found


# the model of a run ---------------------------------------------------------------------------------------------------


def resolve(settings: IndexSettings, meta: Mapping[str, str], library: Path) -> IndexSettings:
    """Replace `auto` in settings by what the library was made with, else by the defaults."""
    from evenreel.media import parse_rule

    sampled = meta.get("rule")
    rule = (sampled or DEFAULT_RULE) if settings.rule == AUTO else str(parse_rule(settings.rule))
    if sampled and rule != sampled:
        raise LibraryError(
            f"The library {library} was sampled '{sampled}', not '{rule}'; leave --sample out, or use another "
            "--library."
        )
    own = meta.get("model", meta.get("encoder_id"))
    model = (DEFAULT_MODEL if own is None else own or None) if settings.model == AUTO else settings.model
    if model and model not in (own, meta.get("asked_model")):  # with its own, a library was made
        loading.check_licence(model, settings.accept_licence)
    return replace(settings, rule=rule, model=model)


def tied_model(store: Store, settings: IndexSettings, encoders: Mapping[str, Encoder]) -> Encoder:
    """Load the model of a run, unless it is there, and tie it to the library; one of other weights is refused."""
    name, meta = settings.model or "", store.meta()
    encoder = encoders.get(name) or stages.load(name, settings)
    tie = stages.made_with(encoder, name)
    if "weights_hash" in meta:
        if meta["weights_hash"] != encoder.weights_hash:
            own = meta.get("encoder_id", meta.get("model", "?"))
            raise LibraryError(catalog.other_model(store.library, own, encoder.encoder_id))
        known = name in (meta.get("model"), meta.get("asked_model"))
        renamed = () if known else ("model", "asked_model", "encoder_id")  # the same weights, as an export has them
        tie = {
            key: value
            for key, value in tie.items()
            if key in renamed or key not in meta  # lost, and no shard said it
        }
    if tie:
        store.begin((), tie)
    return encoder


# a first run ----------------------------------------------------------------------------------------------------------


def make_empty(library: Path) -> None:
    """Make a library without videos where there is none, such as one that folders are added to from a page."""
    if not (library / catalog.CATALOG).exists():
        with catalog.library_lock(library):
            catalog.open_for_writing(library).close()


@contextmanager
def taken_back_if_empty(library: Path, *, folder_is_new: bool) -> Iterator[None]:
    """Undo a new library if the block fails before a clip is stored: better none than an empty one.

    The caller holds the library's lock, so that nothing of another run is removed. Only what a run makes goes: other
    files in the folder stay.
    """
    is_new = not (library / catalog.CATALOG).exists()
    try:
        yield
    except BaseException:
        if is_new and next(shard_files(library / catalog.SHARDS), None) is None:  # no row of a clip is without a shard
            with suppress(OSError):
                for journal in ("", "-wal", "-shm", "-journal"):
                    (library / f"{catalog.CATALOG}{journal}").unlink(missing_ok=True)
                with suppress(LibraryError, OSError):  # it is somebody else's
                    forget_copy(library)
                for folder in (catalog.STILLS, catalog.SHARDS):  # stills of a clip whose shard was not written any more
                    remove_shards(library / folder)
                shutil.rmtree(library / catalog.MODELS, ignore_errors=True)
                for name in (pool.LOCK, pool.HOLDER):
                    (library / name).unlink(missing_ok=True)
                if folder_is_new:
                    library.rmdir()
        raise


# another model: new shards, which the catalog names already, take the place of the old ones --------------------------
#
# They wait in a folder that says whose they are. The catalog's transaction decides: where it names their model they are
# the library's, and else they are left over from an exchange that did not come to its transaction.

_WAITING = "shards.next-"


def waiting_shards(library: Path, weights_hash: str) -> Path:
    return library / f"{_WAITING}{weights_hash[:16]}"


def unfinished_exchange(library: Path, meta: Mapping[str, str]) -> Path | None:
    """Return the folder of shards that the catalog names and that are not in their place yet; None where all are."""
    folder = waiting_shards(library, meta.get("weights_hash", ""))
    return folder if meta.get("weights_hash") and folder.is_dir() else None


def named_shard(library: Path, waiting: Path | None, clip_id: str) -> Path:
    if waiting is not None and (path := shard_path(waiting, clip_id)).exists():
        return path
    return shard_path(library / catalog.SHARDS, clip_id)


def finish_exchange(library: Path, meta: Mapping[str, str]) -> None:
    """Finish an exchange that was broken off after its transaction, and clear away one that was before it."""
    own = unfinished_exchange(library, meta)
    for folder in library.glob(f"{_WAITING}*"):
        if folder == own:
            for path in set(vectors_files(library)) - {vectors_path(library, meta, of) for of in MATRICES}:
                path.unlink(missing_ok=True)
            for path in shard_files(folder):
                place = shard_path(library / catalog.SHARDS, path.stem)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)
                sync_folder(place.parent)
        shutil.rmtree(folder)
