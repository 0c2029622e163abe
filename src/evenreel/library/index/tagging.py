"""Adding a dictionary of scene elements to a library, or removing it; see `evenreel.library.elements`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenreel.errors import LibraryError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, embed
from evenreel.language.scene_dictionary import SceneDictionary
from evenreel.library.elements import drop_elements, elements_files, name_elements, update_elements, write_elements
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.store import catalog
from evenreel.library.store.filesystem import library_lock
from evenreel.library.store.kept import copied
from evenreel.library.store.model_folders import clear_unnamed, other_model
from evenreel.library.store.schema import lay_down
from evenreel.library.store.writer import Store, closing_error, open_vectors
from evenreel.progress import Progress
from evenreel.types import Encoder

OFTEN = 20
"""Most phrases that a report lists."""


@dataclass(frozen=True)
class TagReport:
    """Counts of the scene elements found in a library's clips.

    Attributes:
        source: source of the dictionary.
        entities: number of entities in the dictionary.
        activities: number of activities in the dictionary.
        clips: number of clips with frames; others have no elements.
        tagged: number of clips with at least one element.
        elements: number of elements of all clips together.
        often: the most frequent phrases, each with its number of clips.
    """

    source: str
    entities: int
    activities: int
    clips: int
    tagged: int
    elements: int
    often: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)


def tag_library(
    library: Path,
    dictionary: SceneDictionary,
    *,
    encoder: Encoder | None = None,
    device: str = "auto",
    progress: Progress = lambda share: None,
) -> TagReport:
    """Find the scene elements of every clip of a library; they replace those of another dictionary.

    Clips that come later have theirs found by `index_folders`.

    Args:
        library: folder of the library.
        dictionary: phrases to look for.
        encoder: the library's model, if the caller has it loaded.
        device: where the model runs when it is loaded here.
        progress: called with the share of the phrases that are read.

    Raises:
        UsageError: the library has no vision.
        LibraryError: there is no library, it is damaged, another process holds it, or the encoder is not its own.
        EncoderError: the model cannot be loaded.
    """
    with _writing(library) as store:
        meta = store.meta()
        vectors = open_vectors(library, meta)
        if vectors is None:
            raise UsageError(f"The library {library} has no vision, so nobody can tell what its clips show.")
        encoder = encoder or _loaded(meta["model"], device)
        if encoder.weights_hash != meta["weights_hash"]:
            raise LibraryError(other_model(library, meta["encoder_id"], encoder.encoder_id))
        embedded = embed(dictionary, encoder, progress)
        kept = write_elements(library, embedded)
        if not store.null_scores_hold():
            store.update_null_scores(encoder)
        with catalog.transaction(store.connection):
            lay_down(store.connection)  # a catalog of before has no table for them
            name_elements(store.connection, dictionary.digest)
            update_elements(store.connection, vectors, embedded)
        _remove_files(library, keep=kept)
        return _report(store.connection, embedded)


def untag_library(library: Path) -> None:
    """Delete the dictionary of a library and the scene elements of its clips.

    Raises:
        LibraryError: there is no library, it is damaged, or another process holds it.
    """
    with _writing(library) as store:
        with catalog.transaction(store.connection):
            lay_down(store.connection)
            drop_elements(store.connection)
        _remove_files(library)


@contextmanager
def _writing(library: Path) -> Iterator[Store]:
    catalog.open_for_reading(library).close()  # refuses what is no library; opened for writing it would be made one
    with library_lock(library), closing(catalog.open_for_writing(library)) as connection:
        try:
            with copied(library, connection):
                finish_exchange(library, catalog.get_meta(connection))
                clear_unnamed(library, catalog.get_meta(connection))
                yield Store(library, connection, {})
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


def _loaded(model: str, device: str) -> Encoder:
    from evenreel.encoders import load_encoder

    return load_encoder(model, device=device)


def _remove_files(library: Path, keep: Path | None = None) -> None:
    for path in set(elements_files(library)) - {keep}:
        path.unlink(missing_ok=True)


def _report(connection: sqlite3.Connection, embedded: EmbeddedDictionary) -> TagReport:
    (clips,) = connection.execute("SELECT count(*) FROM vector_rows").fetchone()
    tagged, elements = connection.execute("SELECT count(DISTINCT clip_id), count(*) FROM clip_elements").fetchone()
    often = connection.execute(
        "SELECT phrase, count(DISTINCT clip_id) AS clips FROM clip_elements GROUP BY phrase"
        " ORDER BY clips DESC, phrase LIMIT ?",
        (OFTEN,),
    ).fetchall()
    dictionary = embedded.dictionary
    counts = len(dictionary.entities), len(dictionary.activities)
    return TagReport(dictionary.source, *counts, clips, tagged, elements, tuple(often))
