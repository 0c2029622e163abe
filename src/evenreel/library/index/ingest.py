"""Indexing of folders as a library: several readers in parallel, one durable transaction for each clip."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind, one_or_more
from evenreel.config import IndexSettings, Machines
from evenreel.errors import LibraryError, MediaError
from evenreel.features.clip_reader import (
    READER,
    ClipReader,
    ClipSource,
    OtherWindowsError,
    ReaderSettings,
    WantedStages,
)
from evenreel.features.pool import ReaderPool
from evenreel.features.progress import NoProgress, SetAside, StagedProgress
from evenreel.features.shards import Shard, tidy_shards
from evenreel.features.stills import Stills
from evenreel.library.elements import FIND_AGAIN, DamagedElementsError
from evenreel.library.index.dropping import finish_dropping
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.index.first_run import taken_back_if_empty
from evenreel.library.index.hearing import SpeechStage, check_speech
from evenreel.library.index.joined import ModelStore, joined, opened_model
from evenreel.library.index.metadata import read_tables, tables_beside
from evenreel.library.index.model import ModelInUse, resolve
from evenreel.library.index.plan import (
    IndexPlan,
    check_nothing_vanished,
    known_files,
    make_plan,
    mark_gone,
    still_wanted,
    work_of,
)
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan, scan
from evenreel.library.index.sounds import check_sound, encode_sounds
from evenreel.library.index.spread import Outcomes, SpreadRun, check_machines
from evenreel.library.index.subtitles import read_subtitles
from evenreel.library.machines.arrivals import clear_arrivals
from evenreel.library.people.looking import check_people, find_people
from evenreel.library.store import catalog
from evenreel.library.store.also import folder_of_model
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.kept import copied
from evenreel.library.store.writer import FoundFile, Store, closing_error
from evenreel.media.content import stamp
from evenreel.types import Encoder
from evenreel.wording import printable

LOST = "its features were gone from the library, so it was read anew"
"""Note on a file whose clip has no shard."""

log = logging.getLogger("evenreel")


def index_folders(
    places: str | Path | Sequence[str | Path],
    library: str | Path,
    settings: IndexSettings | None = None,
    *,
    progress: StagedProgress | None = None,
    metadata: str | Path | Sequence[str | Path] = (),
    machines: Machines | None = None,
) -> IndexReport:
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
    check_machines(machines)
    refuse_published(library)
    settings = settings or IndexSettings()
    check_speech(settings)
    check_sound(settings)
    check_people(library, settings)
    found = scan(_paths(places, "places"))
    known = read_tables(tables_beside(found.roots), _paths(metadata, "metadata"), settings.limits)
    if not found.files and not (library / catalog.CATALOG).exists():
        raise LibraryError(found.no_video())
    folder_is_new = not library.exists()
    with library_lock(library), taken_back_if_empty(library, folder_is_new=folder_is_new):
        connection = catalog.open_for_writing(library)
        try:
            with copied(library, connection), contextlib.ExitStack() as opened:
                finish_exchange(library, catalog.get_meta(connection))
                finish_dropping(library, connection)
                clear_arrivals(library)  # of a run with Ray that was killed
                store = Store(library, connection, known.rows)
                job = IndexJob(store, settings, progress or NoProgress(), machines=machines)
                job.join(opened)
                return job.run(found, known.set_aside)
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            if not catalog.is_spoilt(connection):  # then the error is ours
                raise
            raise catalog.damaged(library, error) from error
        finally:
            connection.close()


def _paths(given: object, name: str) -> list[Path]:
    """Several paths, or one: to Python a text is a list of letters, and the first letter of a path the root."""
    return [as_path(one, name) for one in one_or_more(given, name, (str, os.PathLike))]


class IndexJob:
    """One index run of a library.

    Args:
        store: the library, locked and open.
        settings: settings of the run, `auto` included.
        progress: receives the progress of the run.
        reader: target of the workers; tests put stubs here.
        machines: machines that read and encode; None for this one alone.
    """

    def __init__(
        self,
        store: Store,
        settings: IndexSettings,
        progress: StagedProgress,
        reader: str = READER,
        machines: Machines | None = None,
    ) -> None:
        self._store, self._progress, self._target = store, progress, reader
        self._machines = machines if machines and machines.ray else None
        self._meta = catalog.get_meta(store.connection)
        self._settings = resolve(settings, self._meta, store.library)
        model = ModelInUse(store, self._settings) if self._settings.model is not None else None
        self._models = [ModelStore(store, model, WantedStages(model is not None, self._settings.read_text, True))]
        self._report = IndexReport()
        self._report_lock = threading.Lock()
        self._claims: dict[str, list[FoundFile]] = {}
        self._claims_lock = threading.Lock()
        self._pool = ReaderPool(self._new_reader, self._read_one, self._settings.worker_count)

    def join(self, opened: contextlib.ExitStack, making: Encoder | None = None) -> None:
        """Have the run bring the library's further models up to date too, and one in the making.

        Args:
            opened: closes their catalogs, see `evenreel.library.index.joined`.
            making: the model in the making.
        """
        own = self._models[0]
        self._models = joined(opened, own, self._settings)
        if making is not None:
            model = folder_of_model(making.weights_hash), making.encoder_id
            self._models.append(opened_model(opened, own, self._settings, model, making))

    def run(self, found: Scan, tables_aside: Sequence[SetAside] = ()) -> IndexReport:
        """Index the files of a scan; the report lists `tables_aside` too."""
        started = time.monotonic()
        self._report.set_aside += tables_aside
        tidy_shards(self._store.library / catalog.STILLS)
        plans = [self._plan(one, found) for one in self._models]
        self._tie()
        for one in self._models:
            one.store.begin(found.roots, {"rule": self._settings.rule})
        self._report.add_scan(found, plans, LOST)
        self._speech = SpeechStage(self._store, found, self._settings, self._report)
        for file in plans[0].refused:
            if file.error is not None:
                self._set_aside(file, file.error)
        for one, plan in zip(self._models, plans, strict=True):
            for file, clip_id in plan.returned:
                one.store.link(file, clip_id)
        self._report.recognised += len(plans[0].returned)
        self._read_all(work_of(plans))
        gone = [mark_gone(one.store, plan) for one, plan in zip(self._models, plans, strict=True)]
        self._report.missing, self._report.moved = gone[0]
        read_subtitles(self._store, found, self._settings, self._report, self._progress)
        self._report.metadata_changed = self._store.update_metadata()
        for one in self._models:
            one.store.drop_replaced()
            one.store.complete_codes()  # those of a library of before there were codes
        self._update_null_scores()
        self._update_elements()
        self._speech.hear_the_rest(self._progress)
        encode_sounds(self._store, found, self._settings, self._report, self._progress)
        find_people(self._store, found, self._settings, self._report, self._progress)
        self._report.set_aside.sort(key=lambda aside: aside.path)
        self._report.notes.sort()
        self._report.seconds = time.monotonic() - started
        return self._report

    def _plan(self, one: ModelStore, found: Scan) -> IndexPlan:
        """What is to be done with each file for one model; most of a folder gone at once is refused for the first."""
        shards = tidy_shards(one.store.library / catalog.SHARDS)
        known = {row.path: row for row in known_files(one.store.connection, shards)}
        plan = make_plan(found, known, one.wanted, retry=self._settings.retry)
        if one is self._models[0] and not self._settings.accept_missing:
            check_nothing_vanished(found, known, plan.gone)
        return plan

    def _tie(self) -> None:
        """Note that a new library has no vision; load a model that may not be the library's own, to compare."""
        made_with, model = self._meta.get("model"), self._settings.model
        own = self._models[0].model
        if made_with is None and model is None:
            self._store.begin((), {"model": ""})
        elif own and made_with and model not in {made_with, self._meta.get("asked_model")}:
            own.encoder()

    def _read_all(self, work: list[FoundFile]) -> None:
        if not work:
            return
        self._progress.begin(len(work))
        if self._machines is None:
            try:
                self._pool.run(work)
            finally:
                self._speech.close()
            return
        outcomes = Outcomes(self._wanted_of, self._keep, self._link, self._set_aside, self._count_frame, self._speech)
        SpreadRun(self._models, self._settings, self._machines, outcomes, self._target).run(work)

    def _new_reader(self) -> ClipReader:
        settings = self._settings
        workers, limits = settings.worker_count, settings.limits
        reading = ReaderSettings(settings.rule, settings.read_text, workers, limits, find_shots=True)
        models = [one.model for one in self._models]
        return ClipReader(reading, models, self._count_frame, self._target, self._speech.reading)

    def _read_one(self, reader: ClipReader, file: FoundFile) -> None:
        clip_id, stills = None, Stills() if self._settings.keep_stills else None
        try:
            file = replace(file, stamp=stamp(file.path))
            clip_id = self._pool.digest(file.path, self._settings.limits.stall_timeout_s)
            wanted = self._speech.stages_of(file, self._claim(file, clip_id))
            if wanted is None:
                return
            try:
                taken = stills if wanted[0] is not None else None
                read = reader.read(ClipSource(clip_id, file.path, file.stamp), wanted, taken)
            except BaseException:
                self._release(clip_id)
                raise
        except OtherWindowsError as error:
            self._again(file, error)
            return
        except MediaError as error:
            if not self._pool.stopping:  # a worker that was ended by us is no fault of the file
                self._set_aside(file, error, clip_id)
            return
        self._pool.hand_over(partial(self._finish, file, clip_id, read, stills))

    def _finish(
        self,
        file: FoundFile,
        clip_id: str,
        read: Callable[[], list[Shard | MediaError | None]],
        stills: Stills | None,
    ) -> None:
        try:
            self._keep(file, clip_id, read(), stills)
        except OtherWindowsError as error:
            self._again(file, error)
        except MediaError as error:
            self._set_aside(file, error, clip_id)
        finally:
            self._release(clip_id)

    def _again(self, file: FoundFile, error: OtherWindowsError) -> None:
        with self._report_lock:
            self._report.frames -= error.frames
        self._pool.add([file])

    def _keep(
        self, file: FoundFile, clip_id: str, shards: Sequence[Shard | MediaError | None], stills: Stills | bytes | None
    ) -> None:
        """Store what was made of a clip for each model; where a model could make nothing, its error is noted there."""
        errors = {}
        for one, shard in zip(self._models, shards, strict=True):
            if isinstance(shard, MediaError):
                one.store.set_aside(file, shard, clip_id)
                errors[str(shard)] = shard
                continue
            if shard is not None:
                self._add(one.store, shard, stills if one is self._models[0] else None)
            one.store.link(file, clip_id)
        for error in errors.values():
            self._note_aside(file, error)
        made = [shard for shard in shards if isinstance(shard, Shard)]
        with self._report_lock:
            self._report.indexed += bool(made) and not isinstance(shards[0], MediaError)
            self._report.heard += isinstance(shards[0], Shard) and shards[0].is_heard
            self._report.notes += [
                (printable(file.path), note) for note in dict.fromkeys(note for one in made for note in one.info.notes)
            ]
        self._progress.file_done(file.path)

    def _add(self, store: Store, shard: Shard, stills: Stills | bytes | None) -> None:
        try:
            store.add_clip(shard, stills)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # what nobody thought of, in this file
            what = f"what was read of it cannot be stored ({type(error).__name__}: {error})"
            raise MediaError("failed", what) from error

    def _claim(self, file: FoundFile, clip_id: str) -> list[WantedStages | None] | None:
        """The stages this thread is to do for each model; None where all is there, or another thread reads it just now.

        In that case the file comes back to the queue when the other thread is done with it.
        """
        with self._claims_lock:
            if clip_id in self._claims:
                self._claims[clip_id].append(file)
                return None
            wanted = self._wanted_of(clip_id)
            if any(one is not None for one in wanted):
                self._claims[clip_id] = []
                return wanted
        self._link(file, clip_id)
        return None

    def _wanted_of(self, clip_id: str) -> list[WantedStages | None]:
        """The stages to do for each model; None where its shard is there and nothing is wanted."""
        return [self._wanted(one, clip_id) for one in self._models]

    def _wanted(self, one: ModelStore, clip_id: str) -> WantedStages | None:
        done = one.store.done_stages(clip_id)
        wanted = still_wanted(one.wanted, done)
        return wanted if done is None or wanted else None

    def _release(self, clip_id: str) -> None:
        with self._claims_lock:
            self._pool.add(self._claims.pop(clip_id))

    def _link(self, file: FoundFile, clip_id: str) -> None:
        for one in self._models:
            one.store.link(file, clip_id)
        with self._report_lock:
            self._report.recognised += 1
        self._progress.file_done(file.path)

    def _set_aside(self, file: FoundFile, error: MediaError, clip_id: str | None = None) -> None:
        for one in self._models:
            one.store.set_aside(file, error, clip_id)
        self._note_aside(file, error)
        self._progress.file_done(file.path)

    def _note_aside(self, file: FoundFile, error: MediaError) -> None:
        path = printable(file.path)
        log.info("set aside %s: %s: %s", path, error.reason, error)
        with self._report_lock:
            self._report.newly_aside += 1
            self._report.set_aside.append(SetAside("", path, error.reason, str(error)))

    def _count_frame(self) -> None:
        """A frame is there, so there is a video, and the models are wanted if they were not before."""
        for one in self._models:
            if one.model:
                one.model.start()
        with self._report_lock:
            self._report.frames += 1
        self._progress.frame()

    def _update_null_scores(self) -> None:
        """Measure how nonsense scores in this library, where clips have come or gone since it was measured."""
        for one in self._models:
            if one.model and not one.store.null_scores_hold():
                self._progress.stage("measuring how nonsense scores")
                one.store.update_null_scores(one.model.encoder())

    def _update_elements(self) -> None:
        """Find scene elements anew, where the library has a dictionary and its clips are others than before."""
        if self._store.elements_hold():
            return
        self._progress.stage("finding scene elements")
        try:
            self._store.update_elements()
        except DamagedElementsError as error:
            log.warning("%s The new clips have no scene elements; %s.", error, FIND_AGAIN)
