"""A library's own model exchanged for another one, without reading again what is written on screen.

The vectors of the new model are made beside those of the old one, as those of a further model are
(`evenreel.library.store.also`); meanwhile searches use the old ones, and a run that is broken off goes on later. When
they are whole, new shards are written into a folder of their own, and one transaction has the catalog say all that the
new model makes: moments, rows of a new matrix, how nonsense scores, and the model itself. The new shards take the place
of the old ones after it; a run that is killed in between leaves that to the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind
from evenreel.config import IndexSettings
from evenreel.errors import LibraryError, UsageError
from evenreel.features.merging import merge
from evenreel.features.progress import NoProgress, StagedProgress
from evenreel.features.shards import Shard, read_shard, shard_path, write_shard
from evenreel.library.contents import roots, single_files
from evenreel.library.elements import drop_elements
from evenreel.library.index import ingest
from evenreel.library.index.dropping import finish_dropping
from evenreel.library.index.exchange import finish_exchange, waiting_shards
from evenreel.library.index.ignoring import IgnoreRules, kept_patterns
from evenreel.library.index.model import load
from evenreel.library.index.passes import RunParts
from evenreel.library.index.rebuild import next_generation, rebuild_vectors
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan, scan
from evenreel.library.store import catalog, seals
from evenreel.library.store.also import ALSO, DROPPING, MAKING, folder_of_model, further, noted, place_of
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.filesystem import library_lock
from evenreel.library.store.kept import copied
from evenreel.library.store.writer import Store, closing_error, drop_vectors, insert_clip, open_vectors
from evenreel.types import Encoder
from evenreel.wording import count, printable


def reindex(
    library: str | Path,
    model: str,
    settings: IndexSettings | None = None,
    *,
    anew: bool = False,
    progress: StagedProgress | None = None,
) -> IndexReport:
    """Make the vectors of another model for every clip of a library, then exchange them for the old ones.

    Args:
        library: folder of the library.
        model: the new model: a hub id, a folder, or `builtin`.
        settings: workers, device, precision, limits; None for the defaults.
        anew: drop what an unfinished run with another model has made.
        progress: receives the progress of the run.

    Raises:
        UsageError: the model is the library's own, or a run with another one is unfinished.
        EncoderError: the model cannot be loaded.
        LibraryError: there is no library, it has no vision, it cannot be written, or clips that have vectors get none
            of the new model, as their files are gone or cannot be read (`accept_missing` exchanges it all the same).
    """
    from evenreel.encoders.known_models import check_licence

    library = as_path(library, "library")
    check_settings_kind(settings, IndexSettings)
    settings = settings or IndexSettings()
    catalog.open_for_reading(library).close()
    check_licence(model, settings.accept_licence)
    progress = progress or NoProgress()
    with library_lock(library), closing(catalog.open_for_writing(library)) as connection, copied(library, connection):
        try:
            finish_exchange(library, catalog.get_meta(connection))
            finish_dropping(library, connection)
            store, encoder = Store(library, connection, {}), load(model, settings)
            _begin(store, encoder, anew)
            job = ingest.IndexJob(store, replace(settings, model=None, read_text=False), RunParts(progress))
            with ExitStack() as opened:
                job.join(opened, encoder)
                report = job.run(_its_files(connection))
            if not settings.accept_missing:
                _check_all_made(store, encoder)
            progress.stage("exchanging the model")
            _exchange(store, encoder, {"asked_model": model})
            return report
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


def _begin(store: Store, encoder: Encoder, anew: bool) -> None:
    """Note the model that is in the making."""
    meta, folder, unwanted = store.meta(), folder_of_model(encoder.weights_hash), dict[str, str]()
    if not meta.get("dimension"):
        raise LibraryError(
            f"The library {store.library} has no model to exchange; evenreel index --model MODEL gives it one."
        )
    if meta.get("weights_hash") == encoder.weights_hash:
        raise UsageError(f"The library {store.library} is made with {encoder.encoder_id} already; name another model.")
    for other, name in further(meta, MAKING).items():
        if other == folder:
            continue
        if not anew:
            raise UsageError(
                f"Exchanging the model for {name} was broken off; go on with evenreel reindex --model {name}, or add "
                "--anew to drop what was made."
            )
        if other not in further(meta):
            unwanted[other] = name
    store.begin((), {MAKING: noted({folder: encoder.encoder_id}), DROPPING: noted(unwanted)})
    finish_dropping(store.library, store.connection)


def _its_files(connection: sqlite3.Connection) -> Scan:
    """The files of a library that are there; new ones are left to the next index run."""
    known = {catalog.loaded_path(path) for (path,) in connection.execute("SELECT path FROM files")}
    rules = IgnoreRules(kept_patterns(catalog.get_meta(connection)))
    places = [Path(place) for place in (*roots(connection), *single_files(connection)) if Path(place).exists()]
    found = scan(places, rules)
    found.files = [file for file in found.files if file.path in known]
    return found


def _check_all_made(store: Store, encoder: Encoder) -> None:
    """Refuse to drop the vectors of clips that have none of the new model, unless their files are noted as missing."""
    made, lost = _made(store, encoder), dict[str, str]()
    for clip_id, path in store.connection.execute(
        "SELECT clip_id, path FROM clips JOIN files USING (clip_id)"
        " WHERE has_vision AND state != 'missing' ORDER BY path"
    ):
        if clip_id not in made:
            lost.setdefault(clip_id, printable(catalog.loaded_path(path)))
    if lost:
        raise LibraryError(
            f"The new model has no vectors of {count(len(lost), 'clip')}, for example of {next(iter(lost.values()))}; "
            "are the disks connected, and can the files be read? The old vectors stay, the new ones made so far are "
            "kept, and the same command goes on from there (--retry reads what was set aside once more); with "
            "--accept-missing these clips lose their vectors."
        )


def _made(store: Store, encoder: Encoder) -> set[str]:
    """The clips that have vectors of the new model."""
    with closing(catalog.open_for_reading(place_of(store.library, folder_of_model(encoder.weights_hash)))) as made:
        return {clip_id for (clip_id,) in made.execute("SELECT clip_id FROM clips WHERE has_vision")}


def _exchange(store: Store, encoder: Encoder, asked: dict[str, str]) -> None:
    """Put the vectors of the new model in the place of the library's own."""
    library, connection = store.library, store.connection
    waiting = waiting_shards(library, encoder.weights_hash)
    digests = {shard.clip_id: write_shard(waiting, shard) for shard in _merged(store, encoder)}
    generation = next_generation(library, store.meta())
    try:
        with catalog.transaction(connection):
            for clip_id, digest in digests.items():
                insert_clip(connection, read_shard(shard_path(waiting, clip_id), digest), digest)
            _set_model(connection, encoder, asked)
            rebuild_vectors(library, connection, generation, waiting)
            connection.execute("DELETE FROM null_scores")
            seals.renew(connection, ("null_scores",))
            vectors = open_vectors(library, catalog.get_meta(connection))
            if digests and vectors is not None:
                update_null_scores(connection, vectors, encoder)
            drop_elements(connection)
    except BaseException:
        drop_vectors(library, generation)
        raise
    finish_exchange(library, store.meta())


def _merged(store: Store, encoder: Encoder) -> Iterator[Shard]:
    """The shard of each clip with the new vectors, and what was read on screen; words alone where there are none."""
    place, seen = place_of(store.library, folder_of_model(encoder.weights_hash)), _made(store, encoder)
    for (clip_id,) in store.connection.execute("SELECT clip_id FROM clips ORDER BY clip_id").fetchall():
        old = read_shard(shard_path(store.library / SHARDS, clip_id))
        if clip_id in seen:
            yield merge(read_shard(shard_path(place / SHARDS, clip_id)), old)
        else:
            yield replace(old, frames=None, encoder_id=None, weights_hash=None)


def _set_model(connection: sqlite3.Connection, encoder: Encoder, asked: dict[str, str]) -> None:
    """Have the catalog name the new model, and no longer as one in the making or a further one."""
    also = further(catalog.get_meta(connection))
    also.pop(folder_of_model(encoder.weights_hash), None)
    entries = {
        "model": encoder.encoder_id,
        "encoder_id": encoder.encoder_id,
        "weights_hash": encoder.weights_hash,
        "dimension": str(encoder.dimension),
        MAKING: noted({}),
        ALSO: noted(also),
    }
    catalog.set_meta(connection, entries | asked)
