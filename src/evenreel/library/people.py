"""People of a library: faces in its clips, grouped, named by a person, searched by name, and forgotten.

Three tables of the catalog: `faces` and `face_clips` are derived from videos; `people` is a person's own, a name for a
number, with the mean vector of the faces that it was given to. So a name outlives faces that are lost or read anew.

Forgetting writes the tables anew, in pages that SQLite overwrites when it gives them back (`secure_delete`): a row that
is deleted alone may leave copies in the gaps of pages. Then whatever else holds them goes: the copy of a person's own
tables, damaged files, the write-ahead log. A file says so until all is done, and the next look at the people finishes
it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenreel import faces
from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EncoderError, LibraryError, MediaError, NotFoundError, UsageError
from evenreel.files import printable, sync_folder, write_durably
from evenreel.library.search.result import Hit, MomentHit, SearchResult
from evenreel.library.search.seen import MAX_MOMENTS
from evenreel.library.store import catalog
from evenreel.library.store.catalog import CATALOG, get_meta, library_lock, set_meta, transaction
from evenreel.library.store.user_tables import COPY, alone, changing, write_copy
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from evenreel.library.contents import BrowsedPage
    from evenreel.library.index.scan import IndexRun, KnownFile
    from evenreel.library.store.writer import FoundFile, Store

FORGETTING = "people.forgetting"  # a file that is there while something of forgotten people may be left
EVERYONE = "ALL"  # stands for all people, and is nobody's name
HOW_TO_FIND = "find them with: evenreel index FOLDER --people --set face_models=MODELS"
FEW_FACES = 3  # a person without a name and with fewer is left out of lists, unless all are asked for
MOST_TOLD, LONGEST_NAME, NEAR_S = 20, 100, 3.0  # names; characters; between two faces of one stretch
BY_FACES = "Clips are listed by how often a face was found; whether each is the person was judged by likeness alone."

FACE_MODELS, _RECOGNISER, _LAST = "face_models", "face_recogniser", "last_person"  # entries of `meta`; '' is none
_PERSON = re.compile(r'(?:(?<=\s)|^)person:\s*(?:"([^"]*)"|“([^”]*)”|([^\s,;]+))', re.IGNORECASE)
_NO_NAME = re.compile(r"(?:\s|^)person:\s*$", re.IGNORECASE)

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class Person:
    """A person of a library: faces that were put together, with a number that nobody else ever has."""

    number: int
    name: str | None
    faces: int
    clips: int


def has_people(library: Path) -> bool:
    return bool(_noted(library).get(FACE_MODELS))


def _noted(library: Path) -> dict[str, str]:
    if not (library / CATALOG).exists():
        return {}
    with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
        return get_meta(connection)


@contextmanager
def _opened(library: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """The catalog of a library that knows people; a forgetting that was killed is finished first."""
    unfinished = (library / FORGETTING).exists() and os.access(library, os.W_OK)
    writes = (write or unfinished) and (library / CATALOG).is_file()
    opened = catalog.open_for_writing(library) if writes else catalog.open_for_reading(library)
    with closing(opened) as connection, catalog.readable(library):
        if unfinished:
            finish_forgetting(library, connection)
        if not get_meta(connection).get(FACE_MODELS):
            raise UsageError(f"No people were looked for in {library}; {HOW_TO_FIND}.")
        yield connection


@contextmanager
def _changed(library: Path) -> Iterator[sqlite3.Connection]:
    """The same, to change in one transaction what a person says, with by what each name is known."""
    with _opened(library):
        pass
    with changing(library) as connection:
        yield connection
        _note_means(connection)


def list_people(library: Path, *, everyone: bool = False) -> list[Person]:
    with _opened(library) as connection:
        return [one for one in _people(connection) if everyone or one.name or one.faces >= FEW_FACES]


def person_still(library: Path, who: str) -> bytes:
    """Return the surest face of a person, upright, as JPEG of 112 pixels a side at most."""
    with _opened(library) as connection:
        person = _find(_people(connection), who)
        best = "SELECT jpeg FROM faces WHERE person_id = ? ORDER BY score DESC LIMIT 1"
        for (jpeg,) in connection.execute(best, (person.number,)):
            return bytes(jpeg)
    raise NotFoundError(f"No face of person {person.number} is there; the next evenreel index looks for faces again.")


def _people(connection: sqlite3.Connection) -> list[Person]:
    rows = connection.execute(
        "SELECT person_id, name, count(face_id), count(DISTINCT clip_id)"
        " FROM (SELECT person_id FROM people UNION SELECT person_id FROM faces WHERE person_id NOTNULL)"
        " LEFT JOIN people USING (person_id) LEFT JOIN faces USING (person_id) GROUP BY person_id"
    )
    found = [Person(*row) for row in rows]
    return sorted(found, key=lambda one: (one.name is None, (one.name or "").casefold(), -one.faces, one.number))


def _find(people: list[Person], who: str) -> Person:
    wanted = who.strip().casefold()
    for one in people:
        if wanted and wanted in ((one.name or "").casefold(), str(one.number)):
            return one
    raise NotFoundError(_nobody(who, people))


def _nobody(who: str, people: list[Person]) -> str:
    names = ", ".join([one.name for one in people if one.name][:MOST_TOLD])
    there = f"there are: {names}" if names else "nobody has a name yet"
    nobody = f"Nobody is called {printable(who[:80])!r} among the {len(people):,} people of the library"
    return f"{nobody}; {there} (evenreel people lists everyone)."


# What a person says of them -------------------------------------------------------------------------------------------


def name_person(library: Path, who: str, name: str) -> Person:
    wanted = " ".join(name.split())
    if not wanted or len(wanted) > LONGEST_NAME:
        raise UsageError(f"A name has 1 to {LONGEST_NAME} characters; {printable(wanted[:80])!r} has {len(wanted)}.")
    if wanted.isdigit() or wanted.upper() == EVERYONE:
        raise UsageError(f"{wanted!r} cannot be a name, since it means a person's number or everyone; choose another.")
    if '"' in wanted or not wanted.isprintable():
        raise UsageError(f"The name {printable(wanted)!r} has signs that no query could hold; leave them out.")
    with _changed(library) as connection:
        people = _people(connection)
        one = _find(people, who)
        for other in people:
            if other.number != one.number and (other.name or "").casefold() == wanted.casefold():
                merge = f'merge them: evenreel people --merge {other.number} "{one.name or one.number}"'
                raise UsageError(f"{other.name} is person {other.number}; where both are the same, {merge}.")
        connection.execute(
            "INSERT INTO people (person_id, name) VALUES (?, ?)"
            " ON CONFLICT (person_id) DO UPDATE SET name = excluded.name",
            (one.number, wanted),
        )
        return _find(_people(connection), str(one.number))


def merge_people(library: Path, into: str, other: str) -> Person:
    """Make two people one, who keeps the number and name of the first, or else the name of the second."""
    with _changed(library) as connection:
        kept, gone = (_find(_people(connection), who) for who in (into, other))
        if kept.number == gone.number:
            raise UsageError(f"{into!r} and {other!r} are the same person already.")
        both = (kept.number, gone.number)
        connection.execute("UPDATE faces SET person_id = ? WHERE person_id = ?", both)
        if kept.name is None:
            connection.execute("UPDATE people SET person_id = ? WHERE person_id = ?", both)
        connection.execute("DELETE FROM people WHERE person_id = ?", (gone.number,))
        return _find(_people(connection), str(kept.number))


def forget_person(library: Path, who: str) -> Person:
    """Delete a person; clips that were looked at are not looked at again, so only new ones can bring one back."""
    with library_lock(library), _opened(library, write=True) as connection:
        person = _find(_people(connection), who)
        _erase(library, connection, [person.number], [])
        return person


def forget_everyone(library: Path) -> int:
    """Delete everyone; none are looked for from then on, until they are asked for again. Returns their number."""
    with library_lock(library), _opened(library, write=True) as connection:
        numbers = [one.number for one in _people(connection)]
        clips = [clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM face_clips")]
        _erase(library, connection, numbers, clips, face_models="", face_recogniser="")
        return len(numbers)


def drop_gone_clips(library: Path, connection: sqlite3.Connection) -> None:
    """Delete the faces of clips that the library no longer has, with people of whom nothing else is known."""
    gone = [row[0] for row in connection.execute("SELECT clip_id FROM face_clips EXCEPT SELECT clip_id FROM clips")]
    if gone:
        emptied = connection.execute(
            "SELECT person_id FROM faces WHERE person_id NOTNULL GROUP BY person_id"
            " HAVING min(clip_id IN (SELECT value FROM json_each(?)))",
            (json.dumps(gone),),
        )
        _erase(library, connection, [number for (number,) in emptied], gone)


def _erase(
    library: Path, connection: sqlite3.Connection, people: Sequence[int], clips: Sequence[str], **settings: str
) -> None:
    """Delete people, and all faces of them or in some clips; see the module on why their tables are written anew."""
    write_durably(library / FORGETTING, b"")
    people_in = "person_id IN (SELECT value FROM json_each(:people))"
    clips_in = "clip_id IN (SELECT value FROM json_each(:clips))"
    given = {"people": json.dumps(people), "clips": json.dumps(clips)}
    with transaction(connection):
        for table, gone in (("faces", f"{people_in} OR {clips_in}"), ("people", people_in), ("face_clips", clips_in)):
            kept = connection.execute(f"SELECT * FROM {table} WHERE ({gone}) IS NOT TRUE", given).fetchall()
            connection.execute(f"DELETE FROM {table}")
            if kept:
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(kept[0]))})", kept)
        set_meta(connection, settings)
    finish_forgetting(library, connection)


def finish_forgetting(library: Path, connection: sqlite3.Connection) -> None:
    """Have nothing left of what was deleted, wherever else it is."""
    with alone(library):
        write_copy(library, connection)
    for path in (*library.glob(f"{CATALOG}.broken*"), *library.glob(f"{COPY}.broken*")):
        path.unlink()
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if not busy:  # else somebody reads what was there before, and the next look at the people finishes it
        (library / FORGETTING).unlink(missing_ok=True)
        sync_folder(library)


# The stage of an index run --------------------------------------------------------------------------------------------


def check_people(library: Path, settings: IndexSettings) -> None:
    noted = _noted(library)
    if settings.face_models is not None and not settings.people and not noted.get(FACE_MODELS):
        raise UsageError("face_models names the models that people are found with; add --people to look for them.")
    faces.FaceFinder(_models(library, settings, noted).folder)  # that cannot be read is told


def _models(library: Path, settings: IndexSettings, noted: Mapping[str, str]) -> faces.FaceModels:
    folder = settings.face_models or noted.get(FACE_MODELS)
    if not folder:
        raise EncoderError(faces.how_to_get())
    models = faces.find_models(Path(folder))
    if noted.get(_RECOGNISER) not in (None, "", models.recogniser_id):
        raise LibraryError(
            f"The faces of {library} are by another recogniser than that of {models.folder} and cannot be compared "
            f"with its own; name their folder, or forget them first (evenreel people --forget ALL --library {library})."
        )
    return models


class FaceStage:
    """Looks for faces on the frames of moments; once asked for, it does so until everyone is forgotten."""

    title = "looking for people"

    def __init__(self, run: IndexRun) -> None:
        self._run, self.readers = run, run.settings.worker_count
        self._models: faces.FaceModels | None = None
        self._times_s: dict[str, list[float]] = {}

    def begin(self) -> bool:
        store, settings = self._run.store, self._run.settings
        noted = store.meta()
        self._looked = dict(store.connection.execute("SELECT clip_id, problem FROM face_clips"))
        try:
            self._models = _models(store.library, settings, noted)
        except EncoderError as error:
            if settings.people or settings.face_models is not None:
                raise
            log.warning("No people were looked for in new clips: %s", error)
            return True
        if not noted.get(FACE_MODELS):
            with suppress(OSError):  # faces are nobody else's business; on some shares nobody can say so
                store.library.chmod(0o700)
        store.begin((), {FACE_MODELS: str(self._models.folder), _RECOGNISER: self._models.recogniser_id})
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        clip_id = str(file.clip_id)
        again = self._run.settings.retry and self._looked.get(clip_id) is not None
        if self._models is None or (clip_id in self._looked and not again):
            return False
        times = "SELECT DISTINCT time_s FROM moments WHERE clip_id = ? ORDER BY time_s"
        self._times_s[clip_id] = [time_s for (time_s,) in self._run.store.connection.execute(times, (clip_id,))]
        return True

    def reader(self) -> faces.ClipFaces:
        assert self._models is not None  # else nothing is wanted
        threads = usable_cores() // min(self.readers, len(self._times_s))
        return faces.ClipFaces(self._run.settings.limits, self._models, max(1, threads))

    def read(self, reader: faces.ClipFaces, file: FoundFile) -> tuple[str, list[faces.Face], str | None]:
        clip_id = str(file.clip_id)
        return clip_id, reader.find(file.path, self._times_s[clip_id]), None

    def put(self, store: Store, reading: tuple[str, list[faces.Face], str | None]) -> None:
        clip_id, found, problem = reading
        rows = [
            (one.time_s, json.dumps(one.box), one.score, one.vector.astype("<f2").tobytes(), one.jpeg) for one in found
        ]
        insert = "INSERT INTO faces (clip_id, time_s, box, score, vector, jpeg) VALUES (?, ?, ?, ?, ?, ?)"
        with store.changing() as connection:
            connection.execute("DELETE FROM faces WHERE clip_id = ?", (clip_id,))
            connection.executemany(insert, [(clip_id, *row) for row in rows])
            connection.execute("INSERT OR REPLACE INTO face_clips VALUES (?, ?)", (clip_id, problem))
            self._run.report.people += 1

    def set_aside(self, store: Store, file: FoundFile, error: MediaError) -> None:
        self._run.note(file.path, f"no faces were looked for: {error}")
        self.put(store, (str(file.clip_id), [], str(error)))

    def end(self) -> None:
        _group(self._run.store.connection)
        drop_gone_clips(self._run.store.library, self._run.store.connection)


def _group(connection: sqlite3.Connection) -> None:
    """Put every face that is nobody's to the person whose faces it is most like on average; group the rest."""
    with transaction(connection):
        rows = connection.execute(
            "SELECT face_id, vector FROM faces WHERE person_id IS NULL ORDER BY clip_id, time_s, face_id"
        ).fetchall()
        if not rows:
            return
        vectors = np.stack([_loaded(stored) for _, stored in rows])
        known = dict(sorted(_means(connection).items()))
        means = np.stack(list(known.values())) if known else np.zeros((0, 0), np.float32)
        people = [*known, None]  # -1 is nobody
        whose = [people[joined] for joined in faces.join_people(vectors, means).tolist()]
        rest = [row for row, person in enumerate(whose) if person is None]
        labels = faces.chinese_whispers(vectors[rest])
        sizes, last = np.bincount(labels), int(get_meta(connection).get(_LAST, "0"))
        places = np.argsort(np.argsort(-sizes, kind="stable"))  # the person of most faces has the first number
        for row, label in zip(rest, labels.tolist(), strict=True):
            whose[row] = last + 1 + int(places[label])
        update = "UPDATE faces SET person_id = ? WHERE face_id = ?"
        connection.executemany(update, [(person, face_id) for person, (face_id, _) in zip(whose, rows, strict=True)])
        set_meta(connection, {_LAST: str(last + len(sizes))})
        _note_means(connection)


def _loaded(stored: bytes) -> FloatArray:
    """A vector (D,) as it is stored, of unit length."""
    vector = np.frombuffer(stored, "<f2").astype(np.float32)
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _means(connection: sqlite3.Connection) -> dict[int, FloatArray]:
    """The mean (D,) of the vectors of each person; of one whose faces are gone, the one that was noted."""
    own: dict[int, list[FloatArray]] = defaultdict(list)
    for person_id, stored in connection.execute("SELECT person_id, vector FROM faces WHERE person_id NOTNULL"):
        own[person_id].append(_loaded(stored))
    means = {person_id: np.mean(vectors, axis=0) for person_id, vectors in own.items()}
    for person_id, stored in connection.execute("SELECT person_id, mean FROM people WHERE mean NOTNULL"):
        means.setdefault(person_id, np.frombuffer(stored, "<f2").astype(np.float32))
    return means


def _note_means(connection: sqlite3.Connection) -> None:
    """Note by what each name is known, inside the caller's transaction."""
    rows = [(person, mean.astype("<f2").tobytes()) for person, mean in _means(connection).items()]
    connection.executemany("UPDATE people SET mean = ?2 WHERE person_id = ?1 AND mean IS NOT ?2", rows)


# `person:NAME` in a query ---------------------------------------------------------------------------------------------


def asked_people(text: str) -> tuple[tuple[str, ...], str] | None:
    """Take the names out of a query: these and the rest; None where it asks for nobody or begins with a quote."""
    given = text.strip()
    names = tuple(next(filter(None, found.groups()), "").strip() for found in _PERSON.finditer(given))
    if given.startswith(('"', "“", "„")) or not (names or _NO_NAME.search(given)):
        return None
    if not all(names) or _NO_NAME.search(given):
        raise UsageError('Nothing follows person:; write a name after it, such as person:Ada or person:"Ada King".')
    return names, " ".join(_PERSON.sub(" ", given).split())


def known_names(library: Path, names: Sequence[str], *, typing: bool = False) -> list[str]:
    """Return the names as they were given to people, whatever their case; one word of a name will do."""
    if not has_people(library):
        raise UsageError(f"The library knows no people, so person: finds nobody; {HOW_TO_FIND}, or leave it out.")
    people, found = list_people(library, everyone=True), []
    by_folded = {one.name.casefold(): one.name for one in people if one.name}
    for name in names:
        wanted = name.casefold()
        known = [own for folded, own in by_folded.items() if wanted == folded]
        known = known or [own for folded, own in by_folded.items() if wanted in folded.split()]
        if len(known) > 1:
            may = ", or ".join(known)
            raise UsageError(f'{printable(name)} may be {may}; write the whole name: person:"{known[0]}".')
        if not known and typing and name is names[-1]:
            known = [own for folded, own in by_folded.items() if folded.startswith(wanted)]
        if not known:
            raise UsageError(_nobody(name, people))
        found.append(known[0])
    return found


def with_people(where: str | None, names: Sequence[str]) -> str:
    """Return a filter that clips pass that pass another one and have everybody in them.

    >>> with_people("duration_s < 60", ["Ada", "O'Neil"])
    "(duration_s < 60) and people = 'Ada' and people = 'O''Neil'"
    """
    wanted = [f"people = '{name.replace(chr(39), chr(39) * 2)}'" for name in names]
    return " and ".join([f"({where})", *wanted] if where else wanted)


def clips_of_people(library: Path, names: Sequence[str], page: BrowsedPage, k: int) -> SearchResult:
    """Make the result of a query that asks for people alone: the clips with most of their faces first."""
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with _opened(library) as connection:
        for clip_id, time_s, score in connection.execute(
            "SELECT clip_id, time_s, max(score) FROM faces JOIN people USING (person_id)"
            " WHERE name IN (SELECT value FROM json_each(?)) GROUP BY clip_id, time_s ORDER BY clip_id, time_s",
            (json.dumps(names),),
        ):
            times[clip_id].append((time_s, score))
    first = sorted(page.clips, key=lambda clip: (-len(times[clip.clip_id]), clip.path))[:k]
    hits = []
    for clip in first:
        found = times[clip.clip_id]
        unmeasured = float(len(found)), None, None, 0.0, dict[str, float]()  # but for how often a face was found
        moments = _stretches(found)
        hits.append(Hit(clip.clip_id, clip.path, *unmeasured, moments, (), clip.duration_s, clip.metadata))
    asked = " ".join(f'person:"{printable(name)}"' for name in names)
    return SearchResult(asked, tuple(hits), notices=(BY_FACES,) if hits else ())


def _stretches(times: list[tuple[float, float]]) -> tuple[MomentHit, ...]:
    """The longest stretches in which faces follow one another, in the order of time."""
    runs: list[list[tuple[float, float]]] = []
    for face in times:
        if not runs or face[0] - runs[-1][-1][0] > NEAR_S:
            runs.append([])
        runs[-1].append(face)
    longest = sorted(runs, key=lambda run: (-len(run), run[0][0]))[:MAX_MOMENTS]
    surest = [(run, max(run, key=lambda face: face[1])) for run in sorted(longest)]
    return tuple(MomentHit(time_s, run[0][0], run[-1][0], score) for run, (time_s, score) in surest)
