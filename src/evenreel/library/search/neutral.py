"""Search neutral to source: the directions that separate generated from real clips are removed from the query.

`evenreel.debias.source.direction` says how. The bank of nonsense queries is scored anew without these directions
(`evenreel.library.store.confidence`), so that confidence does not depend on the source either. Both are computed once
for each state of the library and kept in the user's cache folder, since a search only reads the library.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenreel.array_files import ArrayArchive
from evenreel.arrays import slices
from evenreel.debias.source.direction import MIN_CLIPS, Contrast, contrasts, source_basis, without_source
from evenreel.errors import UsageError
from evenreel.files import write_durably
from evenreel.library.search.gallery import FrameGallery, Opened
from evenreel.library.sources import ClipSources, read_sources
from evenreel.library.store.catalog import get_meta
from evenreel.library.store.confidence import CLIPS_AT_ONCE, load_null_vectors, score_nonsense
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import CAMERA, FloatArray
from evenreel.wording import count

log = logging.getLogger("evenreel")

FORMAT = "1"
"""Version of the file in which the measured directions are kept."""

NO_VISION = "The library is searched by words alone, in which there is no direction of a source to take out."

_MEASURING = threading.Lock()
"""Threads that need the same do not work it out side by side: the second finds what the first has kept."""


@dataclass(frozen=True, eq=False)
class Neutral:
    """Basis, scores and notices for searching without the directions of sources.

    Attributes:
        basis: (D, R) orthonormal directions that are removed from a query.
        gallery: the clips, with the scores of nonsense on them without these directions.
        notices: sentences on what was removed, and how it was found.
    """

    basis: FloatArray
    gallery: FrameGallery
    notices: tuple[str, ...]

    def query(self, vector: FloatArray) -> FloatArray:
        """Remove the directions of sources from a query's vector (D,)."""
        found: FloatArray = without_source(vector[None], self.basis)[0]
        return found


def read_neutral(library: Opened) -> Neutral:
    """Read the directions of sources, and measure them where that was not done before.

    Raises:
        UsageError: the library has no vision, or the sources of its clips are not known, or of too few.
        LibraryError: the vectors cannot be read.
    """
    if library.vectors is None:
        raise UsageError(NO_VISION)
    sources = read_sources(library.connection, library.gallery.clip_ids)
    compared = contrasts(sources.names, sources.mirrored)
    key, kept = _key(library, compared), kept_file(library.folder) if library.folder else None
    with _MEASURING:
        found = _read_kept(kept, key, library.gallery)
        if found is None:
            found = _measure(library, library.vectors, compared)
            _write_kept(kept, key, found)
    return replace(found, notices=_notices(sources, compared))


def neutral_trouble(connection: sqlite3.Connection) -> str | None:
    """Return a sentence on why a library cannot be searched neutral to source; None where it can."""
    clip_ids = [clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM vector_rows")]
    sources = read_sources(connection, clip_ids)
    try:
        contrasts(sources.names, sources.mirrored)
    except UsageError as error:
        return str(error)
    return None


def kept_file(library: Path) -> Path:
    """Return the cache file of a library's measured directions: one file, for its latest state."""
    from platformdirs import user_cache_path

    digest = hashlib.sha256(os.fsencode(library.resolve())).hexdigest()
    return user_cache_path("evenreel") / "neutral" / f"{digest[:32]}.npz"


def _measure(library: Opened, vectors: VectorIndex, compared: Sequence[Contrast]) -> Neutral:
    gallery = library.gallery
    weights = np.stack([contrast.weights for contrast in compared])
    basis = source_basis(vectors.weighted_sum(weights, gallery.first_rows, gallery.counts))
    bank = load_null_vectors(library.connection, vectors.dimension)
    if not gallery.measured or not len(bank):
        return Neutral(basis, replace(gallery, null_best=np.empty(0, np.float32)), ())
    nonsense = without_source(bank, basis)
    means, deviations = np.empty_like(gallery.means), np.empty_like(gallery.deviations)
    best = np.full(len(nonsense), -np.inf, np.float32)
    for part in slices(len(gallery.clip_ids), CLIPS_AT_ONCE):
        rows = gallery.first_rows[part], gallery.counts[part]
        means[part], deviations[part], here = score_nonsense(vectors, nonsense, *rows)
        best = np.maximum(best, here)
    return Neutral(basis, replace(gallery, means=means, deviations=deviations, null_best=np.sort(best)), ())


def _key(library: Opened, compared: Sequence[Contrast]) -> str:
    """A digest of all that the result depends on: a clip's id is one of its content, and its rows are never changed."""
    meta, gallery = get_meta(library.connection), library.gallery
    digest = hashlib.sha256(FORMAT.encode())
    for name in ("vectors_generation", "weights_hash", "rule", "null_bank"):
        digest.update(f"{name} {meta.get(name)}\n".encode())
    digest.update("\n".join((str(gallery.measured), *gallery.clip_ids)).encode())
    for rows in (gallery.first_rows, gallery.counts):
        digest.update(rows.tobytes())
    for contrast in compared:
        digest.update(contrast.weights.tobytes())
    return digest.hexdigest()


def _read_kept(kept: Path | None, key: str, gallery: FrameGallery) -> Neutral | None:
    if kept is None:
        return None
    try:
        with ArrayArchive(kept) as held:
            if str(held["key"]) != key:
                return None
            basis, means, deviations, null_best = (held[name] for name in ("basis", "means", "deviations", "null_best"))
    except (OSError, ValueError, KeyError):
        return None  # not there, damaged, or of another make: it is measured
    return Neutral(basis, replace(gallery, means=means, deviations=deviations, null_best=null_best), ())


def _write_kept(kept: Path | None, key: str, found: Neutral) -> None:
    if kept is None:
        return
    gallery, payload = found.gallery, io.BytesIO()
    np.savez(
        payload,
        key=np.array(key),
        basis=found.basis,
        means=gallery.means,
        deviations=gallery.deviations,
        null_best=gallery.null_best,
    )
    try:
        write_durably(kept, payload.getvalue())
    except OSError as error:
        log.info("what neutral search needs cannot be kept (%s); it is measured again next time", error)


def _notices(sources: ClipSources, compared: Sequence[Contrast]) -> tuple[str, ...]:
    """What was taken out, what was left in, and which pairs could not be used."""
    removed = ", ".join(map(_contrast_words, compared))
    notices = [f"Neutral to source: what sets these apart from real clips was taken out of the query: {removed}."]
    left = sorted({name for name in sources.names if name is not None} - {CAMERA} - {one.source for one in compared})
    if left:
        few = ", ".join(f"{name} ({sources.names.count(name):,})" for name in left)
        notices.append(f"Not taken out, for they have fewer than {MIN_CLIPS} clips: {few}.")
    if sources.lost:
        notices.append(
            f"The pair_id of {count(sources.lost, 'generated clip')} is not the name of exactly one real clip of the "
            "library."
        )
    return tuple(notices)


def _contrast_words(contrast: Contrast) -> str:
    if contrast.paired:
        return f"{contrast.source} ({contrast.generated:,} pairs)"
    return f"{contrast.source} ({contrast.generated:,} clips beside {contrast.real:,} of a {CAMERA})"
