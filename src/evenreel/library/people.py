"""People of a library: faces in its clips, grouped, named by a person, searched by name, and forgotten.

Three tables of the catalog (`schema.sql`): `faces` and `face_clips` are derived from the videos; `people` holds what a
person has said, a name for a number, with the mean vector of the faces that it was given to. So a name outlives faces
that are lost or read anew: they join the mean again.

Forgetting writes the tables anew, in pages that SQLite overwrites when it gives them back (`secure_delete`, which every
connection that writes has set): a row that is deleted alone may have left copies in the gaps of pages where it once was.
Then whatever else holds them is written anew or deleted: the copy of a person's own tables, catalogs that a repair has
put aside, the write-ahead log. A file says so until all is done, and the next look at the people finishes it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EncoderError, LibraryError, MediaError, NotFoundError, UsageError
from evenreel.faces import ClipFaces, Face, FaceModels, chinese_whispers, find_models, how_to_get, join_people
from evenreel.features.pool import Brake, ReaderPool
from evenreel.features.progress import StagedProgress
from evenreel.files import sync_folder, write_durably
from evenreel.library.index.report import IndexReport
from evenreel.library.search.hits import Hit, MomentHit, SearchResult
from evenreel.library.search.moments import MAX_MOMENTS
from evenreel.library.store.catalog import (
    CATALOG,
    get_meta,
    loaded_path,
    open_for_reading,
    open_for_writing,
    readable,
    set_meta,
    transaction,
)
from evenreel.library.store.filesystem import library_lock
from evenreel.library.store.kept import write_copy
from evenreel.types import FloatArray
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.library.browsing import BrowsedClip, BrowsedPage
    from evenreel.library.index.scan import Scan
    from evenreel.library.store.writer import Store

FORGETTING = "people.forgetting"
"""File that is there while something of forgotten people may be left."""
EVERYONE = "ALL"
"""Word that stands for all people, and is nobody's name."""
HOW_TO_FIND = "find them with: evenreel index FOLDER --people --face-models MODELS"
FEW_FACES = 3
"""A person without a name and with fewer faces is left out of lists, unless all are asked for."""
MAX_TOLD = 20
"""Most names that an error lists."""
LONGEST_NAME = 100
NEAR_S = 3.0
"""Most seconds between two faces of one stretch."""
PREFIX = "person:"
BY_FACES = "Clips are listed by how often a face was found; whether each is the person was judged by likeness alone."

_MODELS, _RECOGNISER, _LAST = "face_models", "face_recogniser", "last_person"  # entries of `meta`; '' is none
_VECTOR = "<f2"
_PERSON = re.compile(r'(?:(?<=\s)|^)person:\s*(?:"([^"]*)"|“([^”]*)”|([^\s,;]+))', re.IGNORECASE)
_NO_NAME = re.compile(r"(?:\s|^)person:\s*$", re.IGNORECASE)

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class Person:
    """A person of a library: the faces that were put together.

    `number` is never another person's; `name` is None without one. `clip_id`, `time_s` and `path` say where the surest
    face is; None where no face is left, or found yet in what was read anew.
    """

    number: int
    name: str | None
    faces: int
    clips: int
    clip_id: str | None
    time_s: float | None
    path: str | None

    @property
    def label(self) -> str:
        """Name, or the number where there is none."""
        return self.name or f"person {self.number}"


# -- reading and writing --


def has_people(library: Path) -> bool:
    """Return whether people are looked for in a library."""
    if not (library / CATALOG).exists():
        return False
    with closing(open_for_reading(library)) as connection, readable(library):
        return bool(get_meta(connection).get(_MODELS))


@contextmanager
def _opened(library: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """The catalog of a library that knows people; a forgetting that was killed is finished first."""
    unfinished = (library / FORGETTING).exists() and os.access(library, os.W_OK)
    writes = (write or unfinished) and (library / CATALOG).is_file()
    with closing((open_for_writing if writes else open_for_reading)(library)) as connection, readable(library):
        if unfinished:
            finish_forgetting(library, connection)
        if not get_meta(connection).get(_MODELS):
            raise UsageError(f"No people were looked for in {library}; {HOW_TO_FIND}.")
        yield connection


def list_people(library: Path, *, everyone: bool = False) -> list[Person]:
    """List the people of a library: those with names first, by name, then the others by the number of their faces."""
    with _opened(library) as connection:
        found = _all_people(connection)
    return [one for one in found if everyone or one.name or one.faces >= FEW_FACES]


def person_still(library: Path, who: str) -> bytes:
    """Return the surest face of a person, upright, as JPEG of 112 pixels a side at most."""
    with _opened(library) as connection:
        person = _find(connection, who)
        row = connection.execute(
            "SELECT jpeg FROM faces WHERE person_id = ? ORDER BY score DESC, face_id LIMIT 1", (person.number,)
        ).fetchone()
    if row is None:
        raise NotFoundError(f"No face of {person.label} is there; the next evenreel index looks for faces again.")
    return bytes(row[0])


def _all_people(connection: sqlite3.Connection) -> list[Person]:
    rows = connection.execute(
        "SELECT person_id, name, count(face_id), count(DISTINCT clip_id), clip_id, time_s,"
        " (SELECT min(path) FROM files WHERE files.clip_id = faces.clip_id), max(score)"  # which is that of the row
        " FROM (SELECT person_id FROM people UNION SELECT person_id FROM faces WHERE person_id NOTNULL)"
        " LEFT JOIN people USING (person_id) LEFT JOIN faces USING (person_id) GROUP BY person_id"
    )
    people = [Person(*row[:6], row[6] and loaded_path(row[6])) for row in rows]
    return sorted(people, key=lambda one: (one.name is None, (one.name or "").casefold(), -one.faces, one.number))


def _find(connection: sqlite3.Connection, who: str) -> Person:
    """Find a person by name, in any case, or by number."""
    people = _all_people(connection)
    wanted = who.strip().casefold()
    for one in people:
        if wanted and wanted in ((one.name or "").casefold(), str(one.number)):
            return one
    raise _nobody(who, people)


def _nobody(who: str, people: list[Person]) -> NotFoundError:
    names = [one.name for one in people if one.name]
    more = [f"{len(names) - MAX_TOLD} more"] if len(names) > MAX_TOLD else []
    known = f"there are: {', '.join([*names[:MAX_TOLD], *more])}" if names else "nobody has a name yet"
    return NotFoundError(
        f"Nobody is called {printable(who[:80])!r} among the {len(people):,} people of the library; "
        f"{known} (evenreel people lists everyone)."
    )


# -- what a person says of them --


def name_person(library: Path, who: str, name: str) -> Person:
    """Give a person a name, or another one."""
    wanted = _checked_name(name)
    with _opened(library, write=True) as connection:
        with transaction(connection):
            one = _find(connection, who)
            for other in _all_people(connection):
                if other.number != one.number and (other.name or "").casefold() == wanted.casefold():
                    raise UsageError(
                        f"{other.name} is the name of person {other.number}; where both are the same, merge them: "
                        f'evenreel people --merge {other.number} "{one.name or one.number}".'
                    )
            connection.execute(
                "INSERT INTO people (person_id, name) VALUES (?, ?)"
                " ON CONFLICT (person_id) DO UPDATE SET name = excluded.name",
                (one.number, wanted),
            )
            _note_means(connection)
        write_copy(library, connection)
        return _find(connection, str(one.number))


def _checked_name(name: str) -> str:
    wanted = " ".join(name.split())
    if not wanted or len(wanted) > LONGEST_NAME:
        raise UsageError(f"A name has 1 to {LONGEST_NAME} characters; {printable(wanted[:80])!r} has {len(wanted)}.")
    if wanted.isdigit() or wanted.upper() == EVERYONE:
        raise UsageError(f"{wanted!r} cannot be a name, since it means a person's number or everyone; choose another.")
    if '"' in wanted or not wanted.isprintable():
        raise UsageError(f"The name {printable(wanted)!r} has signs that no query could hold; leave them out.")
    return wanted


def merge_people(library: Path, into: str, other: str) -> Person:
    """Make two people one, who keeps the number and name of the first, or else the name of the second."""
    with _opened(library, write=True) as connection:
        with transaction(connection):
            kept, gone = _find(connection, into), _find(connection, other)
            if kept.number == gone.number:
                raise UsageError(f"{into!r} and {other!r} are the same person already.")
            both = (kept.number, gone.number)
            connection.execute("UPDATE faces SET person_id = ? WHERE person_id = ?", both)
            if kept.name is None:
                connection.execute("UPDATE people SET person_id = ? WHERE person_id = ?", both)
            connection.execute("DELETE FROM people WHERE person_id = ?", (gone.number,))
            _note_means(connection)
        write_copy(library, connection)
        return _find(connection, str(kept.number))


def forget_person(library: Path, who: str) -> Person:
    """Delete a person: its name, and vectors and pictures of all its faces.

    Clips that were looked at are not looked at again, so that only new clips can bring the person back, without a name.
    """
    with library_lock(library), _opened(library, write=True) as connection:
        person = _find(connection, who)
        _erase(library, connection, [person.number], [])
        return person


def forget_everyone(library: Path) -> int:
    """Delete everyone; none are looked for from then on, until they are asked for again. Returns their number."""
    with library_lock(library), _opened(library, write=True) as connection:
        there = len(_all_people(connection))
        write_durably(library / FORGETTING, b"")
        with transaction(connection):
            for table in ("faces", "people", "face_clips"):
                connection.execute(f"DELETE FROM {table}")
            set_meta(connection, {_MODELS: "", _RECOGNISER: ""})
        finish_forgetting(library, connection)
        return there


def drop_gone_clips(library: Path, connection: sqlite3.Connection) -> None:
    """Delete the faces of clips that the library no longer has, with people of whom nothing else is known."""
    gone = [row[0] for row in connection.execute("SELECT clip_id FROM face_clips EXCEPT SELECT clip_id FROM clips")]
    if not gone:
        return
    emptied = connection.execute(
        "SELECT person_id FROM faces WHERE person_id NOTNULL GROUP BY person_id"
        " HAVING min(clip_id IN (SELECT value FROM json_each(?)))",
        (json.dumps(gone),),
    )
    _erase(library, connection, [number for (number,) in emptied], gone)


def _erase(library: Path, connection: sqlite3.Connection, people: list[int], clips: list[str]) -> None:
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
    finish_forgetting(library, connection)


def finish_forgetting(library: Path, connection: sqlite3.Connection) -> None:
    """Have nothing left of what was deleted, wherever else it is."""
    write_copy(library, connection)
    for path in library.glob(f"{CATALOG}*.broken*"):
        path.unlink()
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if not busy:  # else somebody reads what was there before, and the next look at the people finishes it
        (library / FORGETTING).unlink(missing_ok=True)
        sync_folder(library)


# -- the stage of an index run --


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
        noted = {}
        if (library / CATALOG).exists():
            with closing(open_for_reading(library)) as connection, readable(library):
                noted = get_meta(connection)
        reader = ClipFaces(settings.limits, _models(library, settings, noted))
        with closing(reader):
            reader.check()


def _models(library: Path, settings: IndexSettings, noted: dict[str, str]) -> FaceModels:
    folder = settings.face_models or noted.get(_MODELS)
    if not folder:
        raise EncoderError(how_to_get())
    models = find_models(Path(folder))
    if noted.get(_RECOGNISER) not in (None, "", models.recogniser_id):
        raise LibraryError(
            f"The faces of {library} are by another recogniser than that of {models.folder} and cannot be compared "
            f"with its own; name their folder, or forget them first (evenreel people --forget ALL --library {library})."
        )
    return models


def find_people(
    own: Store, found: Scan, settings: IndexSettings, report: IndexReport, progress: StagedProgress, brake: Brake
) -> None:
    """Bring the people of a library up to date; nothing where they were never asked for.

    Faces are looked for on the frames that stand for moments. Once they were asked for, it is the library's choice
    until everyone is forgotten.
    """
    noted = own.meta()
    if not (settings.people or noted.get(_MODELS)):
        return
    try:
        models = _models(own.library, settings, noted)
    except EncoderError as error:
        if settings.people or settings.face_models is not None:
            raise
        log.warning("No people were looked for in new clips: %s", error)
    else:
        with transaction(own.connection):
            set_meta(own.connection, {_MODELS: str(models.folder), _RECOGNISER: models.recogniser_id})
        _look(own.connection, _wanted(own.connection, found, settings.retry), settings, models, report, progress, brake)
    group_faces(own.connection)
    drop_gone_clips(own.library, own.connection)


def _wanted(connection: sqlite3.Connection, found: Scan, retry: bool) -> list[WantedClip]:
    """The clips of the run's folders in which faces were not looked for yet, each with one of its files."""
    there = {file.path for file in found.files}
    done = {
        clip_id
        for clip_id, problem in connection.execute("SELECT clip_id, problem FROM face_clips")
        if problem is None or not retry
    }
    paths: dict[str, str] = {}
    for stored, clip_id in connection.execute("SELECT path, clip_id FROM files WHERE state = 'indexed' ORDER BY path"):
        if clip_id not in done and (path := loaded_path(stored)) in there:
            paths.setdefault(clip_id, path)
    times = "SELECT DISTINCT time_s FROM moments WHERE clip_id = ? ORDER BY time_s"
    return [
        WantedClip(clip_id, path, [time_s for (time_s,) in connection.execute(times, (clip_id,))])
        for clip_id, path in paths.items()
    ]


def _look(
    connection: sqlite3.Connection,
    wanted: list[WantedClip],
    settings: IndexSettings,
    models: FaceModels,
    report: IndexReport,
    progress: StagedProgress,
    brake: Brake,
) -> None:
    """Look for faces in clips, several at a time; what was found in one is stored in one transaction."""
    if not wanted:
        return
    progress.stage("looking for people", len(wanted))
    readers = min(settings.worker_count, len(wanted))

    def read(reader: ClipFaces, clip: WantedClip) -> None:
        faces, problem = [], None
        try:
            faces = reader.find(clip.path, clip.times_s)
        except MediaError as error:
            if pool.stopping:  # a worker that was ended by us is no fault of the file
                return
            problem = str(error)
        pool.hand_over(partial(keep, clip, faces, problem))

    def keep(clip: WantedClip, faces: list[Face], problem: str | None) -> None:
        put_faces(connection, clip.clip_id, faces, problem)
        report.people += 1
        if problem is not None:
            report.notes.append((printable(clip.path), f"no faces were looked for: {problem}"))
        progress.advance(1)

    new_reader = partial(ClipFaces, settings.limits, models, max(1, usable_cores() // readers))
    pool = ReaderPool(new_reader, read, readers, brake)
    pool.run(wanted)


def put_faces(connection: sqlite3.Connection, clip_id: str, faces: Sequence[Face], problem: str | None = None) -> None:
    """Store the faces of a clip in the place of those before; `problem` says why none were looked for."""
    with transaction(connection):
        connection.execute("DELETE FROM faces WHERE clip_id = ?", (clip_id,))
        connection.executemany(
            "INSERT INTO faces (clip_id, time_s, box, score, vector, jpeg) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (clip_id, one.time_s, json.dumps([round(edge, 5) for edge in one.box]), one.score,
                 one.vector.astype(_VECTOR).tobytes(), one.jpeg)
                for one in faces
            ],
        )  # fmt: skip
        connection.execute("INSERT OR REPLACE INTO face_clips VALUES (?, ?)", (clip_id, problem))


def group_faces(connection: sqlite3.Connection) -> None:
    """Put every face that is nobody's yet to a person; faces that are somebody's stay.

    A face joins the person whose faces it is most like on average, so that groups grow; the rest are grouped among
    themselves.
    """
    with transaction(connection):
        rows = connection.execute(
            "SELECT face_id, vector FROM faces WHERE person_id IS NULL ORDER BY clip_id, time_s, face_id"
        ).fetchall()
        if not rows:
            return
        faces, vectors = [face_id for face_id, _ in rows], np.stack([_loaded(stored) for _, stored in rows])
        people, means = _means(connection)
        whose = [people[joined] if joined >= 0 else None for joined in join_people(vectors, means).tolist()]
        rest = [row for row, person in enumerate(whose) if person is None]
        labels = chinese_whispers(vectors[rest])
        counts = np.bincount(labels)
        last = int(get_meta(connection).get(_LAST, "0"))
        by_size = sorted(range(len(counts)), key=lambda label: (-counts[label], label))
        numbers = {label: last + place for place, label in enumerate(by_size, start=1)}
        for row, label in zip(rest, labels.tolist(), strict=True):
            whose[row] = numbers[label]
        connection.executemany("UPDATE faces SET person_id = ? WHERE face_id = ?", zip(whose, faces, strict=True))
        set_meta(connection, {_LAST: str(last + len(numbers))})
        _note_means(connection)


def _loaded(stored: bytes) -> FloatArray:
    """A vector (D,) as it is stored, of unit length."""
    vector = np.frombuffer(stored, _VECTOR).astype(np.float32)
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _means(connection: sqlite3.Connection) -> tuple[list[int], FloatArray]:
    """The people, and the mean of the vectors of each (G, D); of one whose faces are gone, the one that was noted."""
    sums: dict[int, FloatArray] = {}
    counts: dict[int, int] = {}
    for person_id, stored in connection.execute("SELECT person_id, vector FROM faces WHERE person_id NOTNULL"):
        sums[person_id] = sums.get(person_id, np.float32(0)) + _loaded(stored)
        counts[person_id] = counts.get(person_id, 0) + 1
    means = {person_id: total / counts[person_id] for person_id, total in sums.items()}
    for person_id, stored in connection.execute("SELECT person_id, mean FROM people WHERE mean NOTNULL"):
        means.setdefault(person_id, np.frombuffer(stored, _VECTOR).astype(np.float32))
    people = sorted(means)
    return people, np.stack([means[one] for one in people]) if people else np.zeros((0, 0), np.float32)


def _note_means(connection: sqlite3.Connection) -> None:
    """Note by whom each name is known, inside the caller's transaction."""
    people, means = _means(connection)
    connection.executemany(
        "UPDATE people SET mean = ?2 WHERE person_id = ?1 AND mean IS NOT ?2",
        [(person, mean.astype(_VECTOR).tobytes()) for person, mean in zip(people, means, strict=True)],
    )


# -- `person:NAME` in a query --


def asked_people(text: str) -> tuple[tuple[str, ...], str] | None:
    """Take the names out of a query: these and the rest; None where it asks for nobody or begins with a quote.

    Example:
        >>> asked_people('person:"Ada King" at the harbour person:bob')
        (('Ada King', 'bob'), 'at the harbour')
    """
    given = text.strip()
    if PREFIX not in given.lower() or given.startswith(('"', "“", "„")):
        return None
    names = tuple(next(filter(None, found.groups()), "").strip() for found in _PERSON.finditer(given))
    if not all(names) or _NO_NAME.search(given):
        raise UsageError('Nothing follows person:; write a name after it, such as person:Ada or person:"Ada King".')
    return (names, " ".join(_PERSON.sub(" ", given).split())) if names else None


def known_names(library: Path, names: Sequence[str], *, typing: bool = False) -> list[str]:
    """Return the names as they were given to people, whatever their case; one word of a name will do."""
    if not has_people(library):
        raise UsageError(f"The library knows no people, so person: finds nobody; {HOW_TO_FIND}, or leave it out.")
    people = list_people(library, everyone=True)
    known = {one.name.casefold(): one.name for one in people if one.name}
    found = []
    for name in names:
        wanted, cut = name.casefold(), typing and name is names[-1]
        parts = sorted(own for folded, own in known.items() if wanted in folded.split())
        longer = sorted(own for folded, own in known.items() if cut and folded.startswith(wanted))
        if wanted not in known and len(parts) > 1:
            raise UsageError(
                f'{printable(name)} may be {", or ".join(parts)}; write the whole name: person:"{parts[0]}".'
            )
        if wanted not in known and not parts and not longer:
            raise UsageError(str(_nobody(name, people)))
        found.append(known.get(wanted) or [*parts, *longer][0])
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
    times: dict[str, list[tuple[float, float]]] = {}
    with _opened(library) as connection:
        rows = connection.execute(
            "SELECT clip_id, time_s, max(score) FROM faces JOIN people USING (person_id)"
            " WHERE name IN (SELECT value FROM json_each(?)) GROUP BY clip_id, time_s ORDER BY clip_id, time_s",
            (json.dumps(list(names)),),
        )
        for clip_id, time_s, score in rows:
            times.setdefault(clip_id, []).append((time_s, score))
    ordered = sorted(page.clips, key=lambda clip: (-len(times.get(clip.clip_id, ())), clip.path))
    hits = tuple(_hit(clip, times.get(clip.clip_id, [])) for clip in ordered[:k])
    asked = " ".join(f'{PREFIX}"{printable(name)}"' for name in names)
    return SearchResult(asked, hits, notices=(BY_FACES,) if hits else ())


def _hit(clip: BrowsedClip, times: list[tuple[float, float]]) -> Hit:
    return Hit(
        clip_id=clip.clip_id,
        path=clip.path,
        score=float(len(times)),
        weaker=None,
        above_nonsense=None,
        written=0.0,
        scores={},
        moments=_stretches(times),
        on_screen=(),
        duration_s=clip.duration_s,
        metadata=clip.metadata,
    )


def _stretches(times: list[tuple[float, float]]) -> tuple[MomentHit, ...]:
    """The longest stretches in which faces follow one another, in the order of time."""
    runs: list[list[tuple[float, float]]] = []
    for time_s, score in times:
        if runs and time_s - runs[-1][-1][0] <= NEAR_S:
            runs[-1].append((time_s, score))
        else:
            runs.append([(time_s, score)])
    longest = sorted(runs, key=lambda run: (-len(run), run[0][0]))[:MAX_MOMENTS]
    return tuple(
        MomentHit(max(run, key=lambda face: face[1])[0], run[0][0], run[-1][0], max(score for _, score in run))
        for run in sorted(longest)
    )
