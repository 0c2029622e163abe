"""People in an index run: where they are asked for, faces are looked for on the frames that stand for moments.

Once they were, it is the library's choice until everyone is forgotten. Pictures are decoded once more for it, at the
moments alone and in processes that can be killed, so that a later run adds people to a library that has none.
"""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EncoderError, LibraryError, MediaError, UsageError
from evenreel.faces.models import FaceModels, find_models, how_to_get
from evenreel.library.index.plan import IndexRun, KnownFile
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
from evenreel.library.store.writer import FoundFile, Store

if TYPE_CHECKING:
    from evenreel.faces.file_reader import ClipFace, ClipFaces

log = logging.getLogger("evenreel")


def check_people(library: Path, settings: IndexSettings) -> None:
    """Check the models of faces before anything is read, where people are asked for."""
    if settings.face_models is not None and not settings.people and not has_people(library):
        raise UsageError("--face-models names the models that people are found with; add --people to look for them.")
    if settings.people or settings.face_models is not None:
        models = _models(library, settings)
        with closing(_new_reader(settings, models, 1)) as reader:
            reader.check()


class FaceStage:
    """Looks for faces in clips where people were asked for, now or before; see `evenreel.library.index.stages`."""

    title = "looking for people"

    def __init__(self, run: IndexRun) -> None:
        self._run, self._library = run, run.store.library
        self.readers = run.settings.worker_count
        self._asked = run.settings.people or run.settings.face_models is not None
        self._models: FaceModels | None = None
        self._looked: dict[str, str | None] = {}
        self._times_s: dict[str, list[float]] = {}

    def begin(self) -> bool:
        settings = self._run.settings
        if not (settings.people or has_people(self._library)):
            return False
        try:
            with people_store(self._library, create=settings.people) as connection:
                self._looked = dict(connection.execute("SELECT clip_id, problem FROM looked"))
            self._models = _models_or_warning(self._library, settings)
            if self._models is not None:
                with people_store(self._library) as connection:
                    set_entry(connection, "models", str(self._models.folder))
                    set_entry(connection, "recogniser", self._models.recogniser_id)
        except LibraryError as error:
            self._tell(error)
            return False
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        clip_id = str(file.clip_id)
        again = self._run.settings.retry and self._looked.get(clip_id) is not None
        if self._models is None or (clip_id in self._looked and not again):
            return False
        times = "SELECT DISTINCT time_s FROM moments WHERE clip_id = ? ORDER BY time_s"
        self._times_s[clip_id] = [time_s for (time_s,) in self._run.store.connection.execute(times, (clip_id,))]
        return True

    def reader(self) -> ClipFaces:
        assert self._models is not None  # else nothing is wanted
        return _new_reader(self._run.settings, self._models, min(self.readers, len(self._times_s)))

    def read(self, reader: ClipFaces, file: FoundFile) -> tuple[str, list[ClipFace], str | None]:
        clip_id = str(file.clip_id)
        return clip_id, reader.find(file.path, self._times_s[clip_id]), None

    def put(self, store: Store, reading: tuple[str, list[ClipFace], str | None]) -> None:
        clip_id, faces, problem = reading
        with people_store(self._library) as connection, transaction(connection):
            connection.execute("DELETE FROM faces WHERE clip_id = ?", (clip_id,))
            connection.executemany(
                "INSERT INTO faces (clip_id, time_s, box, score, vector, crop, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_row(clip_id, face) for face in faces],
            )
            connection.execute("INSERT OR REPLACE INTO looked VALUES (?, ?)", (clip_id, problem))
        self._run.report.people += 1

    def set_aside(self, store: Store, file: FoundFile, error: MediaError) -> None:
        self._run.note(file.path, f"no faces were looked for: {error}")
        self.put(store, (str(file.clip_id), [], str(error)))

    def end(self) -> None:
        there = {clip_id for (clip_id,) in self._run.store.connection.execute("SELECT clip_id FROM clips")}
        try:
            with people_store(self._library) as connection:
                group_new(connection)
                drop_clips(connection, self._looked.keys() - there)
        except LibraryError as error:
            self._tell(error)

    def _tell(self, error: LibraryError) -> None:
        """Raise an error, or warn where nobody asked for people in this run."""
        if self._asked:
            raise error
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
