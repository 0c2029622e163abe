"""Indexing of folders as a library: what is new is read, what is gone is noted, and all else is left alone."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind, one_or_more
from evenreel.config import IndexSettings, Machines
from evenreel.errors import LibraryError
from evenreel.features.clip_reader import READER, WantedStages
from evenreel.features.progress import Forecast, NoProgress, SetAside, StagedProgress
from evenreel.features.shards import tidy_shards
from evenreel.library.elements import FIND_AGAIN, DamagedElementsError
from evenreel.library.index.dropping import finish_dropping
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.index.first_run import taken_back_if_empty
from evenreel.library.index.foretelling import PICTURES_ALONE, WORDS_ALONE
from evenreel.library.index.hearing import SpeechStage, check_speech
from evenreel.library.index.ignoring import IgnoreRules, changed_patterns, kept_patterns, noted_patterns
from evenreel.library.index.joined import ModelStore, joined, opened_model
from evenreel.library.index.lengths import VideoLengths, measure_lengths
from evenreel.library.index.metadata import KnownMetadata, read_tables, tables_beside
from evenreel.library.index.model import ModelInUse, resolve
from evenreel.library.index.passes import BOTH, PICTURES, WORDS, ReadingPasses, RunParts, check_passes, pictures_of
from evenreel.library.index.plan import (
    IndexPlan,
    check_nothing_vanished,
    known_files,
    make_plan,
    mark_gone,
    work_of,
)
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan, scan
from evenreel.library.index.sounds import check_sound, encode_sounds
from evenreel.library.index.spread import check_machines
from evenreel.library.index.subtitles import read_subtitles
from evenreel.library.machines.arrivals import clear_arrivals
from evenreel.library.people.looking import check_people, find_people
from evenreel.library.rendered import unknown_to_builtin
from evenreel.library.store import catalog
from evenreel.library.store.also import folder_of_model
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.kept import copied
from evenreel.library.store.writer import FoundFile, Store, closing_error
from evenreel.types import Encoder

LOST = "its features were gone from the library, so it was read anew"
"""Note on a file whose clip has no shard."""

LONG_S = 600.0
"""Seconds of video from which on pictures are read before words: ten minutes, which take a person minutes to wait for.
A shorter run is over before a second reading of its files would be worth it."""

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class FoundFiles:
    """Files of an index run, and what tables say of them."""

    scan: Scan
    known: KnownMetadata


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
    check_passes(settings, machines)
    check_people(library, settings)
    found = scan(_paths(places, "places"), ignore_rules(library, settings))
    known = read_tables(tables_beside(found.roots), _paths(metadata, "metadata"), settings.limits)
    if not found.files and not (library / catalog.CATALOG).exists():
        raise LibraryError(found.no_video())
    parts = RunParts(progress or NoProgress(), machines)
    return index_found(library, settings, FoundFiles(found, known), parts)


def ignore_rules(library: Path, settings: IndexSettings) -> IgnoreRules:
    """Return the patterns of a library, with those that a run adds and without those that it takes away.

    Raises:
        UsageError: one that is added is no pattern, or one that is taken away is not known.
        LibraryError: the library is damaged.
    """
    known: tuple[str, ...] = ()
    if (library / catalog.CATALOG).exists():
        with contextlib.closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
            known = kept_patterns(catalog.get_meta(connection))
    return IgnoreRules(changed_patterns(known, settings.ignore, settings.unignore))


def index_found(library: Path, settings: IndexSettings, found: FoundFiles, parts: RunParts) -> IndexReport:
    """Bring a library up to date with files that were found; see `index_folders`.

    Raises:
        RunHaltedError: the brake of the run says so.
    """
    folder_is_new = not library.exists()
    with library_lock(library), taken_back_if_empty(library, folder_is_new=folder_is_new):
        connection = catalog.open_for_writing(library)
        try:
            with copied(library, connection), contextlib.ExitStack() as opened:
                finish_exchange(library, catalog.get_meta(connection))
                finish_dropping(library, connection)
                clear_arrivals(library)  # of a run with Ray that was killed
                job = IndexJob(Store(library, connection, found.known.rows), settings, parts)
                job.join(opened)
                return job.run(found.scan, found.known.set_aside)
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
        parts: progress, machines and brake of the run.
        reader: target of the workers; tests put stubs here.
    """

    def __init__(self, store: Store, settings: IndexSettings, parts: RunParts, reader: str = READER) -> None:
        self._store, self._parts, self._target = store, parts, reader
        self._progress = parts.progress
        self._meta = catalog.get_meta(store.connection)
        self._settings = settings = resolve(settings, self._meta, store.library)
        model = ModelInUse(store, settings, parts.encoders.get(settings.model)) if settings.model is not None else None
        self._models = [ModelStore(store, model, WantedStages(model is not None, settings.read_text, True))]
        self._report = IndexReport()

    def join(self, opened: contextlib.ExitStack, making: Encoder | None = None) -> None:
        """Have the run bring the library's further models up to date too, and one in the making.

        Args:
            opened: closes their catalogs, see `evenreel.library.index.joined`.
            making: the model in the making.
        """
        own = self._models[0]
        self._models = joined(opened, own, self._settings, self._parts.encoders)
        if making is not None:
            model = folder_of_model(making.weights_hash), making.encoder_id
            self._models.append(opened_model(opened, own, self._settings, model, making))

    def run(self, found: Scan, tables_aside: Sequence[SetAside] = ()) -> IndexReport:
        """Index the files of a scan; the report lists `tables_aside` too."""
        started = time.monotonic()
        self._report.set_aside += tables_aside
        tidy_shards(self._store.library / catalog.STILLS)
        plans = [self._plan(one, found, one.wanted) for one in self._models]
        self._tie()
        for one in self._models:
            one.store.begin(found.roots, {"rule": self._settings.rule})
        self._keep_patterns(found)
        self._report.add_scan(found, plans, LOST)
        self._speech = SpeechStage(self._store, found, self._settings, self._report)
        self._reading = ReadingPasses(
            self._models, self._settings, self._parts, self._report, self._speech, self._target
        )
        self._reading.refuse(plans[0].refused)
        for one, plan in zip(self._models, plans, strict=True):
            for file, clip_id in plan.returned:
                one.store.link(file, clip_id)
        self._report.recognised += len(plans[0].returned)
        try:
            self._read(found, plans)
        finally:
            self._speech.close()
        self._finish(found, plans)
        if self._report.indexed and (unknown := unknown_to_builtin(self._store.connection, self._store.meta())):
            self._report.warnings.append(unknown)
        self._report.seconds = time.monotonic() - started
        return self._report

    def _finish(self, found: Scan, plans: Sequence[IndexPlan]) -> None:
        """Bring everything up to date that does not need pictures."""
        gone = [mark_gone(one.store, plan) for one, plan in zip(self._models, plans, strict=True)]
        self._report.missing, self._report.moved = gone[0]
        read_subtitles(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        self._report.metadata_changed = self._store.update_metadata()
        for one in self._models:
            one.store.drop_replaced()
            one.store.complete_codes()  # those of a library of before there were codes
        self._update_null_scores()
        self._update_elements()
        self._speech.hear_the_rest(self._progress, self._parts.brake)
        if not self._parts.brake.eased:
            encode_sounds(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        if not self._parts.brake.eased:
            find_people(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        self._report.unfinished = self._parts.brake.eased
        self._report.set_aside.sort(key=lambda aside: aside.path)
        self._report.notes.sort()
        for one in self._models:
            if one.model is not None and one.model.window() is not None:
                self._parts.encoders[one.model.name] = one.model.encoder()

    def _keep_patterns(self, found: Scan) -> None:
        if found.patterns or kept_patterns(self._meta):
            self._store.begin((), noted_patterns(found.patterns))

    def _plan(self, one: ModelStore, found: Scan, wanted: WantedStages) -> IndexPlan:
        """What is to be done with each file for one model; most of a folder gone at once is refused for the first."""
        shards = tidy_shards(one.store.library / catalog.SHARDS)
        known = {row.path: row for row in known_files(one.store.connection, shards)}
        plan = make_plan(found, known, wanted, retry=self._settings.retry)
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

    def _read(self, found: Scan, plans: Sequence[IndexPlan]) -> None:
        """Read what is to be read, in one pass or in two."""
        work, progress = work_of(plans), self._progress
        if not work:
            return
        lengths = measure_lengths(work, self._store.connection, self._settings.limits)
        first = self._pictures_first(found) if self._in_two_passes(lengths) else []
        foretold = self._foretell(lengths, first, work) if lengths.video_s >= LONG_S else (None, None)
        progress.forecast(Forecast(len(work), lengths.video_s, lengths.sure, *foretold, self._speech.model is not None))
        if not first:
            self._reading.read(BOTH, work, lengths.by_path)
            return
        self._reading.read(PICTURES, first, lengths.by_path)
        self._update_null_scores()  # so that searches say which matches are weaker
        paths = {file.path for file in work}
        again = self._plan(self._models[0], found, self._models[0].wanted).work
        self._reading.read(WORDS, [file for file in again if file.path in paths], lengths.by_path)

    def _in_two_passes(self, lengths: VideoLengths) -> bool:
        """Whether pictures are read before words: where that lets a person search much sooner."""
        settings, own = self._settings, self._models[0]
        if own.model is None or self._parts.cluster or not (settings.read_text or self._speech.model):
            return False
        return settings.passes == 2 or (settings.passes == 0 and lengths.video_s >= LONG_S)

    def _pictures_first(self, found: Scan) -> list[FoundFile]:
        """The files that any model has to see."""
        return work_of([self._plan(one, found, pictures_of(one.wanted)) for one in self._models])

    def _foretell(
        self, lengths: VideoLengths, first: Sequence[FoundFile], work: Sequence[FoundFile]
    ) -> tuple[float | None, float | None]:
        """Seconds that pictures and words may take, measured; None where they cannot be told."""
        if self._parts.cluster:
            return None, None
        pictures = [PICTURES_ALONE if one.wanted.vision else None for one in self._models]
        words = [WORDS_ALONE if self._settings.read_text else None, *(None for _ in self._models[1:])]
        seen_s, read_s = self._reading.seconds_a_second(work, lengths.by_path, [pictures, words])
        to_see_s = sum(lengths.by_path[file.path] for file in first or work)
        return seen_s and seen_s * to_see_s, read_s and read_s * lengths.video_s

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
