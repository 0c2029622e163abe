"""Another model in the place of a library's own, and files that a library forgets.

The vectors of a new model are made beside those of the old one (`evenreel.library.store.catalog`), without reading
again what is written on screen; meanwhile searches use the old ones, and a run that is broken off goes on later. When
they are whole, new shards are written into a folder of their own, and one transaction has the catalog say all that the
new model makes: moments, rows of a new matrix, how nonsense scores, and the model itself. The new shards take the place
of the old ones after it; a run that is killed in between leaves that to the next one.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evenreel.config import IndexSettings, as_path, as_paths, check_settings_kind
from evenreel.errors import LibraryError, UsageError
from evenreel.features.clip_reader import merge
from evenreel.features.pool import NoProgress, StagedProgress
from evenreel.features.shards import DamagedShardError, Shard, read_shard, shard_path, tidy_shards, write_shard
from evenreel.files import file_at, printable
from evenreel.library.check import rebuild_vectors
from evenreel.library.contents import single_files
from evenreel.library.index import scan
from evenreel.library.index.run import RunParts, finish_exchange, run_stages, waiting_shards, writing
from evenreel.library.index.stages import load, made_with
from evenreel.library.people import drop_gone_clips
from evenreel.library.store import catalog
from evenreel.library.store.fulltext import remove_about
from evenreel.library.store.meanings import update_meanings
from evenreel.library.store.vectors import MATRICES, Matrix, update_null_scores
from evenreel.library.store.writer import Store, drop_vectors, insert_clip, next_generation, open_vectors
from evenreel.types import Encoder, Shown
from evenreel.wording import count


def reindex(
    library: str | Path,
    model: str,
    settings: IndexSettings | None = None,
    *,
    anew: bool = False,
    progress: StagedProgress | None = None,
) -> scan.IndexReport:
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
    RunParts(progress).fetch_models(replace(settings, model=model, speech=None))
    with writing(library) as connection:
        store, encoder = Store(library, connection, {}), load(model, settings)
        _begin(store, encoder, anew)
        found = _its_files(connection)
        known = {row.path: row for row in scan.known_files(connection, tidy_shards(library / catalog.SHARDS))}
        plan = scan.make_plan(found, known, lambda file, row: False, retry=False)
        if not settings.accept_missing:
            scan.check_nothing_vanished(found, known, plan.gone)
        gone = scan.mark_gone(store, plan)
        report = _make(store, encoder, found, settings, progress)
        report.missing, report.moved = gone
        if not settings.accept_missing:
            _check_all_made(store, encoder)
        progress.stage("exchanging the model")
        _exchange(store, encoder, model)
        update_meanings(store, settings.meaning)
        return report


def _begin(store: Store, encoder: Encoder, anew: bool) -> None:
    meta, place = store.meta(), catalog.place_of(store.library, encoder.weights_hash)
    making = catalog.making_of(meta)
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
    store.begin((), {catalog.MAKING: json.dumps({place.name: encoder.encoder_id})})
    catalog.clear_unnamed(store.library, store.meta())


def _its_files(connection: sqlite3.Connection) -> scan.Scan:
    """The files of a library that are there; new ones are left to the next index run."""
    known = {catalog.loaded_path(path) for (path,) in connection.execute("SELECT path FROM files")}
    rules = scan.IgnoreRules(scan.kept_patterns(catalog.get_meta(connection)))
    places = [Path(place) for place in (*catalog.roots(connection), *single_files(connection)) if Path(place).exists()]
    found = scan.scan(places, rules)
    found.files = [file for file in found.files if file.path in known]
    return found


def _make(
    own: Store, encoder: Encoder, found: scan.Scan, settings: IndexSettings, progress: StagedProgress
) -> scan.IndexReport:
    place, model = catalog.place_of(own.library, encoder.weights_hash), encoder.encoder_id
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
            "skipped once more); with --set accept_missing=yes these clips lose their vectors."
        )


def _made(store: Store, encoder: Encoder) -> set[str]:
    with closing(catalog.open_for_reading(catalog.place_of(store.library, encoder.weights_hash))) as made:
        return {clip_id for (clip_id,) in made.execute("SELECT clip_id FROM clips WHERE has_vision")}


def _exchange(store: Store, encoder: Encoder, asked: str) -> None:
    library, connection = store.library, store.connection
    waiting = waiting_shards(library, encoder.weights_hash)
    digests = {shard.clip_id: write_shard(waiting, shard) for shard in _merged(store, encoder)}
    generation = next_generation(library, store.meta())
    try:
        with catalog.transaction(connection):
            for clip_id, digest in digests.items():
                insert_clip(connection, read_shard(shard_path(waiting, clip_id), digest), digest)
            catalog.set_meta(connection, made_with(encoder, asked) | {catalog.MAKING: "{}"})
            rebuild_vectors(library, connection, generation, waiting)
            connection.execute("DELETE FROM null_scores")
            vectors = open_vectors(library, catalog.get_meta(connection))
            if digests and vectors is not None:
                update_null_scores(connection, vectors, encoder)
    except BaseException:
        drop_vectors(library, generation)
        raise
    finish_exchange(library, store.meta())
    catalog.clear_unnamed(library, store.meta())


def _merged(store: Store, encoder: Encoder) -> Iterator[Shard]:
    """The shard of each clip with the new vectors, and what was read on screen; words alone where there are none."""
    place, seen = catalog.place_of(store.library, encoder.weights_hash), _made(store, encoder)
    for (clip_id,) in store.connection.execute("SELECT clip_id FROM clips ORDER BY clip_id").fetchall():
        old = read_shard(shard_path(store.library / catalog.SHARDS, clip_id))
        if clip_id in seen:
            path = shard_path(place / catalog.SHARDS, clip_id)
            try:
                made = read_shard(path, remedy="it is dropped, and the same command makes it again")
            except DamagedShardError:
                path.unlink(missing_ok=True)
                raise
            yield merge(made, old)
        else:
            yield replace(old, frames=None, encoder_id=None, weights_hash=None)


# files that a library forgets: their rows go, then the clips that no other file has; the files themselves stay --------


@dataclass(frozen=True)
class RemoveReport(Shown):
    """What a library forgets, or would forget.

    Attributes:
        library: folder of the library.
        files: number of files.
        clips: number of clips that no other file has.
        sources: folders that are no longer indexed.
        found_again: indexed folders that hold what is removed, so that their next index run finds it again.
        ignored: patterns that the library passes over from now on.
        removed: False if it was only asked what would be forgotten.
    """

    library: str
    files: int
    clips: int
    sources: tuple[str, ...]
    found_again: tuple[str, ...]
    ignored: tuple[str, ...]
    removed: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def remove_from_library(
    library: str | Path, removed: str | Path | Sequence[str | Path], *, ignore: bool = False, dry_run: bool = False
) -> RemoveReport:
    """Forget the clips of folders and single files; nothing on the disk but the library changes.

    Args:
        library: folder of the library.
        removed: folders and videos, or one alone; they need not be there any more.
        ignore: have the library pass over them from now on, where an indexed folder holds them.
        dry_run: only say what would be forgotten.

    Raises:
        UsageError: the library knows nothing of one of them.
        LibraryError: there is no library, it is damaged, another process holds it, or it cannot be written.
    """
    library = as_path(library, "library")
    wanted = [str(file_at(os.curdir, os.path.abspath(one))) for one in as_paths(removed, "removed")]
    with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
        report = _report(library, connection, wanted, ignore)
    if dry_run:
        return report
    with writing(library) as connection:
        store = Store(library, connection, {})
        _forget(store, wanted)
        update_meanings(store)
        for of in MATRICES:
            _measure(store, of)
        drop_gone_clips(library, connection)
        if report.ignored:
            patterns = dict.fromkeys((*scan.kept_patterns(store.meta()), *report.ignored))
            store.begin((), scan.noted_patterns(tuple(patterns)))
    return replace(report, removed=True)


def _report(library: Path, connection: sqlite3.Connection, wanted: Sequence[str], ignore: bool) -> RemoveReport:
    known, files = catalog.roots(connection), dict(_files(connection))
    for place in wanted:
        if not any(scan.is_within(path, place) for path in (*files, *known)):
            raise UsageError(f"The library {library} knows no file of {printable(place)}; is it another --library?")
    gone = {path for path in files if any(scan.is_within(path, place) for place in wanted)}
    clips = {files[path] for path in gone} - {None, *(clip_id for path, clip_id in files.items() if path not in gone)}
    sources = [root for root in known if any(scan.is_within(root, place) for place in wanted)]
    holding = {place: root for place in wanted for root in known if root not in sources and scan.is_within(place, root)}
    patterns = [_pattern(place, root) for place, root in holding.items() if ignore]
    return RemoveReport(
        str(library),
        len(gone),
        len(clips),
        sources=tuple(map(printable, sources)),
        found_again=() if ignore else tuple(dict.fromkeys(map(printable, holding.values()))),
        ignored=tuple(dict.fromkeys(patterns)),
        removed=False,
    )


def _pattern(place: str, root: str) -> str:
    """The pattern that ignores a place below an indexed folder, and nothing else of it."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    return "/" + GitIgnoreSpecPattern.escape(os.path.relpath(place, root).replace(os.sep, "/"))


def _files(connection: sqlite3.Connection) -> Iterator[tuple[str, str | None]]:
    for path, clip_id in connection.execute("SELECT path, clip_id FROM files"):
        yield catalog.loaded_path(path), clip_id


def _forget(store: Store, wanted: Sequence[str]) -> None:
    connection = store.connection
    with catalog.transaction(connection):
        for path, clip_id in list(_files(connection)):
            if any(scan.is_within(path, place) for place in wanted):
                if clip_id is not None:
                    connection.execute("INSERT OR IGNORE INTO replaced (clip_id) VALUES (?)", (clip_id,))
                connection.execute("DELETE FROM files WHERE path = ?", (catalog.stored_path(path),))
                remove_about(connection, catalog.stored_path(path))
        for root in catalog.roots(connection):
            if any(scan.is_within(root, place) for place in wanted):
                connection.execute("DELETE FROM roots WHERE path = ?", (catalog.stored_path(root),))
    store.drop_replaced()


def _measure(store: Store, of: Matrix) -> None:
    if not store.null_scores_hold(of):
        store.update_null_scores(None, of)
