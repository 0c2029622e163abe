"""Indexing of folders as a library: what is new is read, what is gone is noted, and all else is left alone."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind, one_or_more
from evenreel.config import IndexSettings, Machines
from evenreel.errors import LibraryError
from evenreel.features.clip_reader import READER, WantedStages
from evenreel.features.progress import Forecast, NoProgress, SetAside, StagedProgress
from evenreel.features.shards import tidy_shards
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.index.first_run import taken_back_if_empty
from evenreel.library.index.foretelling import PICTURES_ALONE, WORDS_ALONE
from evenreel.library.index.hearing import SpeechStage, check_speech
from evenreel.library.index.ignoring import IgnoreRules, changed_patterns, kept_patterns, noted_patterns
from evenreel.library.index.lengths import VideoLengths, measure_lengths
from evenreel.library.index.metadata import KnownMetadata, read_tables, rows_of_files, tables_beside
from evenreel.library.index.model import ModelInUse, resolve
from evenreel.library.index.passes import (
    BOTH,
    PICTURES,
    WORDS,
    ReadingPasses,
    RunParts,
    check_passes,
    pictures_of,
    stages_of,
)
from evenreel.library.index.plan import (
    IndexPlan,
    check_nothing_vanished,
    known_files,
    make_plan,
    mark_gone,
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
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.kept import copied
from evenreel.library.store.model_folders import clear_unnamed
from evenreel.library.store.writer import FoundFile, Store, closing_error

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
    """Return the patterns of a library, with those that a run adds and without those that it takes away."""
    known: tuple[str, ...] = ()
    if (library / catalog.CATALOG).exists():
        with contextlib.closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
            known = kept_patterns(catalog.get_meta(connection))
    return IgnoreRules(changed_patterns(known, settings.ignore, settings.unignore))


def index_found(library: Path, settings: IndexSettings, found: FoundFiles, parts: RunParts) -> IndexReport:
    """Bring a library up to date with files that were found; see `index_folders`."""
    folder_is_new = not library.exists()
    with library_lock(library), taken_back_if_empty(library, folder_is_new=folder_is_new):
        connection = catalog.open_for_writing(library)
        try:
            with copied(library, connection):
                finish_exchange(library, catalog.get_meta(connection))
                clear_unnamed(library, catalog.get_meta(connection))
                clear_arrivals(library)  # of a run with Ray that was killed
                there = (catalog.loaded_path(path) for (path,) in connection.execute("SELECT path FROM files"))
                rows, lost = rows_of_files(found.known.rows, [*there, *(file.path for file in found.scan.files)])
                report = IndexJob(Store(library, connection, rows), settings, parts).run(
                    found.scan, found.known.set_aside
                )
                report.warnings += [lost] if lost and found.scan.changed is None else []
                return report
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
    """One index run of a library."""

    def __init__(
        self,
        store: Store,
        settings: IndexSettings,
        parts: RunParts,
        reader: str = READER,
        *,
        alone: bool = False,
    ) -> None:
        self._store, self._parts = store, replace(parts, reader=reader)
        self._progress, self._alone = parts.progress, alone
        self._meta = catalog.get_meta(store.connection)
        self._settings = settings = resolve(settings, self._meta, store.library)
        given = parts.encoders.get(settings.model or "")
        self._model = None if settings.model is None else ModelInUse(store, settings, given)
        self._wanted = stages_of(settings)
        self._report = IndexReport()

    def run(self, found: Scan, tables_aside: Sequence[SetAside] = ()) -> IndexReport:
        """Index the files of a scan; the report lists `tables_aside` too."""
        started = time.monotonic()
        self._report.set_aside += tables_aside
        tidy_shards(self._store.library / catalog.STILLS)
        plan = self._plan(found, self._wanted)
        self._tie()
        self._store.begin(found.roots, {"rule": self._settings.rule})
        self._keep_patterns(found)
        self._report.add_scan(found, plan, LOST)
        self._speech = SpeechStage(self._store, found, self._settings, self._report)
        self._reading = ReadingPasses(self._store, self._model, self._settings, self._parts, self._report, self._speech)
        self._reading.refuse(plan.refused)
        for file, clip_id in plan.returned:
            self._store.link(file, clip_id)
        self._report.recognised += len(plan.returned)
        try:
            self._read(found, plan.work)
        finally:
            self._speech.close()
        self._finish(found, plan)
        if self._report.indexed and (unknown := unknown_to_builtin(self._store.connection, self._store.meta())):
            self._report.warnings.append(unknown)
        self._report.seconds = time.monotonic() - started
        return self._report

    def _finish(self, found: Scan, plan: IndexPlan) -> None:
        """Bring everything up to date that does not need pictures."""
        self._report.missing, self._report.moved = mark_gone(self._store, plan)
        if not self._alone:
            read_subtitles(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        self._report.metadata_changed = self._store.update_metadata()
        self._store.drop_replaced()
        self._store.complete_codes()  # those of a library of before there were codes
        self._update_null_scores()
        self._speech.hear_the_rest(self._progress, self._parts.brake)
        if not self._parts.brake.eased:
            encode_sounds(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        if not self._parts.brake.eased:
            find_people(self._store, found, self._settings, self._report, self._progress, self._parts.brake)
        self._report.unfinished = self._parts.brake.eased
        self._report.set_aside.sort(key=lambda aside: aside.path)
        self._report.notes.sort()
        if self._model is not None and self._model.window() is not None:
            self._parts.encoders[self._model.name] = self._model.encoder()

    def _keep_patterns(self, found: Scan) -> None:
        if found.patterns or kept_patterns(self._meta):
            self._store.begin((), noted_patterns(found.patterns))

    def _plan(self, found: Scan, wanted: WantedStages) -> IndexPlan:
        """What is to be done with each file; most of a folder gone at once is refused."""
        shards = tidy_shards(self._store.library / catalog.SHARDS)
        known = {row.path: row for row in known_files(self._store.connection, shards)}
        plan = make_plan(found, known, wanted, retry=self._settings.retry)
        if not self._settings.accept_missing:
            check_nothing_vanished(found, known, plan.gone)
        return plan

    def _tie(self) -> None:
        """Note that a new library has no vision; load a model that may not be the library's own, to compare."""
        made_with, model = self._meta.get("model"), self._settings.model
        if made_with is None and model is None:
            self._store.begin((), {"model": ""})
        elif self._model and made_with and model not in {made_with, self._meta.get("asked_model")}:
            self._model.encoder()

    def _read(self, found: Scan, work: Sequence[FoundFile]) -> None:
        """Read what is to be read, in one pass or in two."""
        if not work:
            return
        lengths = measure_lengths(work, self._store.connection, self._settings.limits)
        first = self._plan(found, pictures_of(self._wanted)).work if self._in_two_passes(lengths) else []
        foretold = self._foretell(lengths, first, work) if lengths.video_s >= LONG_S else (None, None)
        heard = self._speech.model is not None
        self._progress.forecast(Forecast(len(work), lengths.video_s, lengths.sure, *foretold, heard))
        if not first:
            self._reading.read(BOTH, work, lengths.by_path)
            return
        self._reading.read(PICTURES, first, lengths.by_path)
        self._update_null_scores()  # so that searches say which matches are weaker
        paths = {file.path for file in work}
        again = self._plan(found, self._wanted).work
        self._reading.read(WORDS, [file for file in again if file.path in paths], lengths.by_path)

    def _in_two_passes(self, lengths: VideoLengths) -> bool:
        """Whether pictures are read before words: where that lets a person search much sooner."""
        settings = self._settings
        if self._model is None or self._parts.cluster or not (settings.read_text or self._speech.model):
            return False
        return settings.passes == 2 or (settings.passes == 0 and lengths.video_s >= LONG_S)

    def _foretell(
        self, lengths: VideoLengths, first: Sequence[FoundFile], work: Sequence[FoundFile]
    ) -> tuple[float | None, float | None]:
        """Seconds that pictures and words may take, measured; None where they cannot be told."""
        if self._parts.cluster:
            return None, None
        pictures = PICTURES_ALONE if self._wanted.vision else None
        words = WORDS_ALONE if self._wanted.text else None
        seen_s, read_s = self._reading.seconds_a_second(work, lengths.by_path, [pictures, words])
        to_see_s = sum(lengths.by_path[file.path] for file in first or work)
        return seen_s and seen_s * to_see_s, read_s and read_s * lengths.video_s

    def _update_null_scores(self) -> None:
        """Measure how nonsense scores in this library, where clips have come or gone since it was measured."""
        if self._model is not None and not self._store.null_scores_hold():
            self._progress.stage("measuring how nonsense scores")
            self._store.update_null_scores(self._model.encoder())
