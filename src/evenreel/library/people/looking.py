"""People in an index run: where they are asked for, faces are looked for on the frames that stand for moments.

Once they were, it is the library's choice until everyone is forgotten. Pictures are decoded once more for it, at the
moments alone and in processes that can be killed, so that a later run adds people to a library that has none.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EncoderError, LibraryError, MediaError, UsageError
from evenreel.faces.models import FaceModels, find_models, how_to_get
from evenreel.features.pool import Brake, ReaderPool
from evenreel.features.progress import StagedProgress
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.people.forgetting import drop_clips
from evenreel.library.people.grouping import VECTOR, group_new
from evenreel.library.people.store import (
    entry,
    face_checksum,
    has_people,
    people_store,
    set_entry,
    transaction,
)
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.writer import Store
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.faces.file_reader import ClipFace, ClipFaces

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class WantedClip:
    """A clip in which faces are to be looked for: its id, a file of it, and the times of its moments in seconds."""

    clip_id: str
    path: str
    times_s: list[float]


def check_people(library: Path, settings: IndexSettings) -> None:
    """Check the models of faces before anything is read, where people are asked for."""
    if settings.face_models is not None and not settings.people and not has_people(library):
        raise UsageError("--face-models names the models that people are found with; add --people to look for them.")
    if settings.people or settings.face_models is not None:
        models = _models(library, settings)
        with closing(_new_reader(settings, models, 1)) as reader:
            reader.check()


def find_people(
    own: Store,
    found: Scan,
    settings: IndexSettings,
    report: IndexReport,
    progress: StagedProgress,
    brake: Brake,
) -> None:
    """Bring the people of a library up to date; nothing where they were never asked for."""
    if not (settings.people or has_people(own.library)):
        return
    try:
        with people_store(own.library, create=settings.people) as connection:
            looked = dict(connection.execute("SELECT clip_id, problem FROM looked"))
        models, there = _models_or_warning(own.library, settings), _clips(own.connection)
        wanted = [] if models is None else _wanted(own.connection, found, looked, retry=settings.retry)
        with people_store(own.library) as connection:
            if models is not None:
                set_entry(connection, "models", str(models.folder))
                set_entry(connection, "recogniser", models.recogniser_id)
                _PeopleRun(connection, report, progress, brake).look(wanted, settings, models)
            group_new(connection)
            drop_clips(connection, looked.keys() - there)
    except LibraryError as error:
        if settings.people or settings.face_models is not None:
            raise
        log.warning("%s", error)


def _models_or_warning(library: Path, settings: IndexSettings) -> FaceModels | None:
    """The models; None, with a warning, where nobody asked in this run and they are gone from this machine."""
    try:
        return _models(library, settings)
    except EncoderError as error:
        if settings.people or settings.face_models is not None:
            raise
        log.warning("No people were looked for in new clips: %s", error)
        return None


def _clips(catalog: sqlite3.Connection) -> set[str]:
    return {clip_id for (clip_id,) in catalog.execute("SELECT clip_id FROM clips")}


def _wanted(
    catalog: sqlite3.Connection, found: Scan, looked: Mapping[str, str | None], *, retry: bool
) -> list[WantedClip]:
    """The clips of the run's folders in which faces were not looked for yet, each with one of its files."""
    there = {file.path for file in found.files}
    done = {clip_id for clip_id, problem in looked.items() if problem is None or not retry}
    paths: dict[str, str] = {}
    for stored, clip_id in catalog.execute("SELECT path, clip_id FROM files WHERE state = 'indexed' ORDER BY path"):
        if clip_id not in done and (path := loaded_path(stored)) in there:
            paths.setdefault(clip_id, path)
    times = "SELECT DISTINCT time_s FROM moments WHERE clip_id = ? ORDER BY time_s"
    return [
        WantedClip(clip_id, path, [time_s for (time_s,) in catalog.execute(times, (clip_id,))])
        for clip_id, path in paths.items()
    ]


def _models(library: Path, settings: IndexSettings) -> FaceModels:
    noted: dict[str, str | None] = {}
    if has_people(library):
        with people_store(library) as connection:
            noted = {key: entry(connection, key) for key in ("models", "recogniser")}
    folder = settings.face_models or noted.get("models")
    if folder is None:
        raise EncoderError(how_to_get())
    models = find_models(Path(folder))
    if noted.get("recogniser") not in (None, models.recogniser_id):
        raise LibraryError(
            f"The faces of {library} are by another model than {models.recogniser} and cannot be compared with those "
            f"of this one; name their folder, or forget them first (evenreel people --forget ALL --library {library})."
        )
    return models


def _new_reader(settings: IndexSettings, models: FaceModels, readers: int) -> ClipFaces:
    from evenreel.faces.file_reader import ClipFaces

    return ClipFaces(settings.limits, models, threads=max(1, usable_cores() // readers))


class _PeopleRun:
    """Looks for faces in one clip after another, several at a time; each is stored in one transaction."""

    def __init__(
        self, connection: sqlite3.Connection, report: IndexReport, progress: StagedProgress, brake: Brake
    ) -> None:
        self._connection, self._report, self._progress, self._brake = connection, report, progress, brake

    def look(self, wanted: Sequence[WantedClip], settings: IndexSettings, models: FaceModels) -> None:
        if not wanted:
            return
        self._progress.stage("looking for people", len(wanted))
        readers = min(settings.worker_count, len(wanted))

        def read(reader: ClipFaces, clip: WantedClip) -> None:
            faces: list[ClipFace] = []
            problem = None
            try:
                faces = reader.find(clip.path, clip.times_s)
            except MediaError as error:
                if pool.stopping:  # a worker that was ended by us is no fault of the file
                    return
                problem = str(error)
            pool.hand_over(partial(self._keep, clip, faces, problem))

        pool = ReaderPool(partial(_new_reader, settings, models, readers), read, readers, self._brake)
        pool.run(wanted)

    def _keep(self, clip: WantedClip, faces: Sequence[ClipFace], problem: str | None) -> None:
        with transaction(self._connection):
            self._connection.execute("DELETE FROM faces WHERE clip_id = ?", (clip.clip_id,))
            self._connection.executemany(
                "INSERT INTO faces (clip_id, time_s, box, score, vector, crop, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_row(clip.clip_id, face) for face in faces],
            )
            self._connection.execute("INSERT OR REPLACE INTO looked VALUES (?, ?)", (clip.clip_id, problem))
        self._report.people += 1
        if problem is not None:
            self._report.notes.append((printable(clip.path), f"no faces were looked for: {problem}"))
        self._progress.advance(1)


def _row(clip_id: str, face: ClipFace) -> tuple[Any, ...]:
    vector = face.vector.astype(VECTOR).tobytes()
    checksum = face_checksum(clip_id, face.time_s, vector, face.jpeg)
    return (
        clip_id,
        face.time_s,
        json.dumps([round(edge, 5) for edge in face.box]),
        face.score,
        vector,
        face.jpeg,
        checksum,
    )
