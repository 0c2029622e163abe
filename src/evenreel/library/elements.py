"""The scene elements of a library: phrases of a dictionary for what its clips show, to read and to filter by.

Some phrase is always the nearest one, so being near says nothing. A phrase is an element of a clip where

- the clip would fit a search for it: its frames beat a share of `FITS` of nonsense, which a phrase of nonsense reaches
  on any clip of the library at all in 5.5 % of cases (`evenreel.library.store.confidence`);
- it lies `least_above(N)` standard deviations above nonsense, N being the phrases that are asked for: were nonsense
  normal, no more than 1 of 20 clips would be given one of N phrases of it (Bonferroni). In a library of few clips this
  asks for more than the first condition, in one of many clips for less;
- not more than half of the clips are such, where there are `FEW` or more: else it tells none from another.

Of these a clip has those that lie furthest above nonsense, at most `MOST`, and often none.

The dictionary and its vectors lie beside the catalog in a sealed file, which is there before the catalog names it. The
elements of the clips are derived from it, from the frames and from how nonsense scores. All are made anew whenever
clips have come or gone, for what beats nonsense depends on all; no model is needed for that.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.errors import LibraryError
from evenreel.features.sealed import seal, unseal
from evenreel.files import write_durably
from evenreel.library.search.seen import DECIMALS
from evenreel.library.search.snapshot import Snapshot, SnapshotReader
from evenreel.library.store.catalog import get_meta, set_meta
from evenreel.library.store.confidence import FITS, above_nonsense
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from evenreel.features.scene_elements import EmbeddedDictionary

FORMAT = 1
"""Version of the file and of the rule above; a reader refuses a later one."""

_FILE = "elements.{}.safetensors"
_DIGEST = re.compile(r"[0-9a-f]+")

MOST = {"entity": 5, "activity": 3}
"""Most elements of a clip, by the kind of their phrases."""

FEW = 30
"""With fewer clips than this, a phrase that fits most of them may still be what they are about."""

EVERYWHERE = 0.5

BY_CHANCE = 0.05
"""Share of clips that would be given one of N phrases of nonsense, were its scores normal."""

LOOKED_AT = 32
"""Number of a clip's nearest phrases of a kind that are examined; those that most clips have may come first."""

CLIPS_AT_ONCE = 1024

FIND_AGAIN = "run: evenreel elements --library LIBRARY"

_NAMED, _MADE_FROM = "elements", "elements_made_from"
"""Entries of `meta`: digest of the dictionary, digest of all that the elements follow from."""


class DamagedElementsError(LibraryError):
    """Raised where the file of a library's scene dictionary is missing or damaged."""


class _Furthest(NamedTuple):
    """The phrases that lie furthest above nonsense, in descending order.

    `places` and `above` are (C, K), the place in the dictionary and z, -inf where the clip would not answer; `clips`
    (N,) counts the clips that would answer each phrase.
    """

    places: NDArray[np.int64]
    above: FloatArray
    clips: NDArray[np.int64]


def elements_path(library: Path, digest: str) -> Path:
    """Return the path of a scene dictionary's file in a library's folder."""
    return library / _FILE.format(digest)


def elements_files(library: Path) -> list[Path]:
    """List every dictionary file of a library; files that are not named by a digest are left out."""
    found = library.glob(_FILE.format("*"))
    return sorted(path for path in found if _DIGEST.fullmatch(path.name.split(".", 1)[1].removesuffix(".safetensors")))


def write_elements(library: Path, embedded: EmbeddedDictionary) -> Path:
    """Write a dictionary with its vectors beside the catalog, which does not name it yet."""
    path = elements_path(library, embedded.dictionary.digest)
    about = {"format": FORMAT, "encoder_id": embedded.encoder_id, "weights_hash": embedded.weights_hash}
    dictionary = embedded.dictionary
    phrases = {"entities": dictionary.entities, "activities": dictionary.activities, "source": dictionary.source}
    arrays = {"entities": embedded.entities, "activities": embedded.activities}
    write_durably(path, seal(arrays, about | phrases))
    return path


def read_elements(path: Path, weights_hash: str | None) -> EmbeddedDictionary:
    """Read a dictionary with its vectors."""
    # Here, for a search needs neither these nor the tables that come with them.
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.language.scene_dictionary import SceneDictionary

    try:
        arrays, record = unseal(path.read_bytes())
    except FileNotFoundError as error:
        raise DamagedElementsError(f"{path} is missing.") from error
    except OSError as error:
        raise LibraryError(f"{path} cannot be read ({error.strerror or error}); check the disk.") from error
    except Exception as error:  # a damaged header can fail in any way in the parser
        raise DamagedElementsError(f"{path} is damaged ({error}).") from error
    if record["format"] > FORMAT:
        raise LibraryError(f"{path} has format {record['format']}; update evenreel to read it.")
    if weights_hash is None or record["weights_hash"] != weights_hash:
        raise DamagedElementsError(f"{path} was made with {record['encoder_id']}, not with the library's model.")
    dictionary = SceneDictionary(tuple(record["entities"]), tuple(record["activities"]), source=record["source"])
    return EmbeddedDictionary(dictionary, arrays["entities"], arrays["activities"], record["encoder_id"], weights_hash)


def named_elements(connection: sqlite3.Connection, library: Path) -> Path | None:
    """Return the dictionary file that the catalog names, None where the library has no dictionary."""
    return elements_of(library, get_meta(connection))


def elements_of(library: Path, meta: Mapping[str, str]) -> Path | None:
    """Return the dictionary file that entries of the catalog name, None where they name none."""
    return elements_path(library, meta[_NAMED]) if _NAMED in meta else None


def name_elements(connection: sqlite3.Connection, digest: str) -> None:
    """Enter a scene dictionary in the catalog; the elements of the clips are not known yet."""
    drop_elements(connection)
    set_meta(connection, {_NAMED: digest})


def drop_elements(connection: sqlite3.Connection) -> None:
    """Delete the dictionary's name and the elements of all clips from the catalog; the caller deletes the file."""
    connection.execute("DELETE FROM clip_elements")
    connection.executemany("DELETE FROM meta WHERE key = ?", [(_NAMED,), (_MADE_FROM,)])


def elements_hold(connection: sqlite3.Connection) -> bool:
    """Return whether the scene elements were derived from exactly the clips that the library has now."""
    meta = get_meta(connection)
    return meta.get(_MADE_FROM) == _made_from(connection)


def update_elements(connection: sqlite3.Connection, vectors: ExactVectors, embedded: EmbeddedDictionary) -> None:
    """Find the scene elements of every clip anew, inside the caller's transaction."""
    with SnapshotReader(connection, lambda _: vectors, keeps_model=False).snapshot() as s:
        gallery = s
    connection.execute("DELETE FROM clip_elements")
    kinds = _kinds(embedded)
    least = least_above(sum(len(phrases) for phrases, _ in kinds.values()))
    for kind, (phrases, queries) in kinds.items():
        if phrases:
            rows = _rows(gallery, kind, phrases, _furthest(gallery, vectors, queries, least))
            connection.executemany("INSERT INTO clip_elements VALUES (?, ?, ?, ?, ?)", rows)
    set_meta(connection, {_MADE_FROM: _made_from(connection)})


def _kinds(embedded: EmbeddedDictionary) -> dict[str, tuple[tuple[str, ...], FloatArray]]:
    """The phrases of each kind and their vectors; one that is of both, such as 'dance', is an entity."""
    entities, activities = embedded.dictionary.entities, embedded.dictionary.activities
    known = set(entities)
    others = [place for place, phrase in enumerate(activities) if phrase not in known]
    only = tuple(activities[place] for place in others)
    return {"entity": (entities, embedded.entities), "activity": (only, embedded.activities[others])}


def least_above(phrases: int) -> float:
    """Return by how many standard deviations one of N phrases must score above nonsense to be an element of a clip.

    Example:
        >>> [round(least_above(phrases), 2) for phrases in (1, 100, 1000)]
        [1.64, 3.29, 3.89]
    """
    return NormalDist().inv_cdf(1 - BY_CHANCE / phrases)


def _furthest(gallery: Snapshot, vectors: ExactVectors, queries: FloatArray, least: float) -> _Furthest:
    """The phrases (N, D) that each of a gallery's C clips would answer."""
    kept = min(LOOKED_AT, len(queries))
    places = np.empty((len(gallery.seen_ids), kept), np.int64)
    above = np.empty((len(gallery.seen_ids), kept), np.float32)
    clips = np.zeros(len(queries), np.int64)
    for part in slices(len(places), CLIPS_AT_ONCE):
        z = _above_nonsense(gallery, vectors, queries, part)
        z[z < least] = -np.inf
        clips += np.isfinite(z).sum(axis=0)
        places[part] = np.argsort(-z, axis=1, kind="stable")[:, :kept]
        above[part] = np.take_along_axis(z, places[part], axis=1)
    return _Furthest(places, above, clips)


def _above_nonsense(gallery: Snapshot, vectors: ExactVectors, queries: FloatArray, part: slice) -> FloatArray:
    """How far phrases are above nonsense on some clips, (C, N), as `gallery.look` has it; -inf where that is unsure."""
    some = gallery.seen[part]
    found = vectors.best_per_clip(queries, gallery.first_rows[some], gallery.counts[some]).T
    z = (np.round(found, DECIMALS) - gallery.means[some, None]) / gallery.deviations[some, None]
    return np.where(above_nonsense(z, gallery.null_best) >= FITS, z, -np.inf)


def _rows(
    gallery: Snapshot, kind: str, phrases: tuple[str, ...], found: _Furthest
) -> Iterator[tuple[str, str, int, str, float]]:
    """The rows of the catalog's table."""
    clips = len(gallery.seen_ids)
    tells = found.clips <= EVERYWHERE * clips if clips >= FEW else np.ones(len(phrases), np.bool_)
    wanted = np.isfinite(found.above) & tells[found.places]
    for clip_id, places, above, chosen in zip(gallery.seen_ids, found.places, found.above, wanted, strict=True):
        first = np.flatnonzero(chosen)[: MOST[kind]]
        for rank, (place, z) in enumerate(zip(places[first], above[first], strict=True), start=1):
            yield clip_id, kind, rank, phrases[place], round(float(z), 3)


def _made_from(connection: sqlite3.Connection) -> str:
    """A digest of all that elements follow from: a clip's id is one of its content, and its rows are never changed."""
    meta = get_meta(connection)
    named = (FORMAT, meta.get(_NAMED), meta.get("null_bank"), meta.get("null_clips"))
    digest = hashlib.sha256(repr(named).encode())
    for (clip_id,) in connection.execute("SELECT clip_id FROM vector_rows ORDER BY clip_id"):
        digest.update(f"\n{clip_id}".encode())
    return digest.hexdigest()
