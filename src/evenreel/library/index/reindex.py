"""Another model in the place of a library's own, without reading again what is written on screen.

The vectors of the new model are made beside those of the old one (`evenreel.library.store.catalog`); meanwhile
searches use the old ones, and a run that is broken off goes on later. When they are whole, new shards are written into
a folder of their own, and one transaction has the catalog say all that the new model makes: moments, rows of a new
matrix, how nonsense scores, and the model itself. The new shards take the place of the old ones after it; a run that is
killed in between leaves that to the next one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind
from evenreel.config import IndexSettings
from evenreel.errors import LibraryError, UsageError
from evenreel.features.clip_reader import merge
from evenreel.features.progress import NoProgress, StagedProgress
from evenreel.features.shards import DamagedShardError, Shard, read_shard, shard_path, tidy_shards, write_shard
from evenreel.library.check import rebuild_vectors
from evenreel.library.contents import single_files
from evenreel.library.index.exchange import finish_exchange, waiting_shards
from evenreel.library.index.plan import check_nothing_vanished, known_files, make_plan, mark_gone
from evenreel.library.index.report import IndexReport
from evenreel.library.index.run import RunParts, run_stages, writing
from evenreel.library.index.scan import IgnoreRules, Scan, kept_patterns, scan
from evenreel.library.index.worker import load, made_with
from evenreel.library.store import catalog
from evenreel.library.store.catalog import MAKING, SHARDS, clear_unnamed, making_of, place_of, roots
from evenreel.library.store.vectors import update_null_scores
from evenreel.library.store.writer import Store, drop_vectors, insert_clip, next_generation, open_vectors
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
    from evenreel.encoders.loading import check_licence

    library = as_path(library, "library")
    check_settings_kind(settings, IndexSettings)
    settings = settings or IndexSettings()
    catalog.open_for_reading(library).close()
    check_licence(model, settings.accept_licence)
    progress = progress or NoProgress()
    with writing(library) as connection:
        store, encoder = Store(library, connection, {}), load(model, settings)
        _begin(store, encoder, anew)
        found = _its_files(connection)
        gone = _mark_gone(store, found, settings)
        report = _make(store, encoder, found, settings, progress)
        report.missing, report.moved = gone
        if not settings.accept_missing:
            _check_all_made(store, encoder)
        progress.stage("exchanging the model")
        _exchange(store, encoder, model)
        return report


def _begin(store: Store, encoder: Encoder, anew: bool) -> None:
    """Note the model that is in the making."""
    meta, making, place = store.meta(), making_of(store.meta()), place_of(store.library, encoder.weights_hash)
    if not meta.get("dimension"):
        raise LibraryError(
            f"The library {store.library} has no model to exchange; evenreel index --model MODEL gives it one."
        )
    if meta.get("weights_hash") == encoder.weights_hash:
        raise UsageError(f"The library {store.library} is made with {encoder.encoder_id} already; name another model.")
    if making and making.folder != place.name and not anew:
        raise UsageError(
            f"Exchanging the model for {making.name} was broken off; go on with evenreel reindex --model "
            f"{making.name}, or add --anew to drop what was made."
        )
    store.begin((), {MAKING: json.dumps({place.name: encoder.encoder_id})})
    clear_unnamed(store.library, store.meta())


def _its_files(connection: sqlite3.Connection) -> Scan:
    """The files of a library that are there; new ones are left to the next index run."""
    known = {catalog.loaded_path(path) for (path,) in connection.execute("SELECT path FROM files")}
    rules = IgnoreRules(kept_patterns(catalog.get_meta(connection)))
    places = [Path(place) for place in (*roots(connection), *single_files(connection)) if Path(place).exists()]
    found = scan(places, rules)
    found.files = [file for file in found.files if file.path in known]
    return found


def _mark_gone(store: Store, found: Scan, settings: IndexSettings) -> tuple[int, int]:
    """Note which files of the library are gone; return how many are missing, and how many have moved."""
    known = {row.path: row for row in known_files(store.connection, tidy_shards(store.library / SHARDS))}
    plan = make_plan(found, known, lambda file, row: False, retry=False)
    if not settings.accept_missing:
        check_nothing_vanished(found, known, plan.gone)
    return mark_gone(store, plan)


def _make(own: Store, encoder: Encoder, found: Scan, settings: IndexSettings, progress: StagedProgress) -> IndexReport:
    """Make the vectors of the new model, those that an earlier run has not made."""
    place, model = place_of(own.library, encoder.weights_hash), encoder.encoder_id
    settings = replace(
        settings,
        model=model,
        rule=own.meta()["rule"],
        read_text=False,
        keep_stills=False,
        speech=None,
        sound=None,
        accept_licence=True,  # it was asked for the model of the library
        accept_missing=True,  # it was looked for what is gone
    )
    with closing(catalog.open_for_writing(place)) as connection:
        parts = RunParts(progress, encoders={model: encoder})
        return run_stages(Store(place, connection, {}), found, settings, parts, alone=True)


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
            "are the disks connected, can the files be read, and were they indexed since they changed? The old vectors "
            "stay, the new ones made so far are kept, and the same command goes on from there (--retry reads what was "
            "set aside once more); with --set accept_missing=yes these clips lose their vectors."
        )


def _made(store: Store, encoder: Encoder) -> set[str]:
    """The clips that have vectors of the new model."""
    with closing(catalog.open_for_reading(place_of(store.library, encoder.weights_hash))) as made:
        return {clip_id for (clip_id,) in made.execute("SELECT clip_id FROM clips WHERE has_vision")}


def _exchange(store: Store, encoder: Encoder, asked: str) -> None:
    """Put the vectors of the new model in the place of the library's own."""
    library, connection = store.library, store.connection
    waiting = waiting_shards(library, encoder.weights_hash)
    digests = {shard.clip_id: write_shard(waiting, shard) for shard in _merged(store, encoder)}
    generation = next_generation(library, store.meta())
    try:
        with catalog.transaction(connection):
            for clip_id, digest in digests.items():
                insert_clip(connection, read_shard(shard_path(waiting, clip_id), digest), digest)
            catalog.set_meta(connection, made_with(encoder, asked) | {MAKING: "{}"})
            rebuild_vectors(library, connection, generation, waiting)
            connection.execute("DELETE FROM null_scores")
            vectors = open_vectors(library, catalog.get_meta(connection))
            if digests and vectors is not None:
                update_null_scores(connection, vectors, encoder)
    except BaseException:
        drop_vectors(library, generation)
        raise
    finish_exchange(library, store.meta())
    clear_unnamed(library, store.meta())


def _merged(store: Store, encoder: Encoder) -> Iterator[Shard]:
    """The shard of each clip with the new vectors, and what was read on screen; words alone where there are none."""
    place, seen = place_of(store.library, encoder.weights_hash), _made(store, encoder)
    for (clip_id,) in store.connection.execute("SELECT clip_id FROM clips ORDER BY clip_id").fetchall():
        old = read_shard(shard_path(store.library / SHARDS, clip_id))
        if clip_id in seen:
            path = shard_path(place / SHARDS, clip_id)
            try:
                made = read_shard(path, remedy="it is dropped, and the same command makes it again")
            except DamagedShardError:
                path.unlink(missing_ok=True)
                raise
            yield merge(made, old)
        else:
            yield replace(old, frames=None, encoder_id=None, weights_hash=None)
