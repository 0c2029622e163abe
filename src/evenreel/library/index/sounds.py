"""Sounds in an index run: what clips sound like becomes vectors of a model of sounds, clip by clip.

They lie beside the library's own (`evenreel.library.store.model_folders`), with windows of sound for moments. Pictures
are not decoded for them, so that a later run adds them to a library that has none. A clip without sound is set aside
there alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from evenreel.config import AUTO, IndexSettings
from evenreel.errors import EvenreelError, LibraryError, MediaError
from evenreel.extras import installed
from evenreel.features.clip_reader import WantedStages
from evenreel.features.pool import Brake, RunHaltedError
from evenreel.features.progress import StagedProgress
from evenreel.features.shards import DamagedShardError, Shard, read_shard, shard_path, tidy_shards
from evenreel.library.index.plan import known_files, make_plan, mark_gone
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.store import catalog
from evenreel.library.store.model_folders import (
    SOUNDS,
    clear_unnamed,
    folder_of_model,
    models_of,
    noted,
    other_sounds,
    place_of,
)
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.content import stamp
from evenreel.media.workers import Worker
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.sound import SoundEncoder

VECTORS = WantedStages(vision=True, text=False)

log = logging.getLogger("evenreel")


def check_sound(settings: IndexSettings) -> None:
    """Check the model of sounds of a run before anything is read; one that is named is fetched."""
    if settings.sound not in (None, AUTO):
        from evenreel.sound.loading import check_torch, locate_sound_model

        check_torch()
        locate_sound_model(str(settings.sound))


def encode_sounds(
    own: Store, found: Scan, settings: IndexSettings, report: IndexReport, progress: StagedProgress, brake: Brake
) -> None:
    """Bring the vectors of what clips sound like up to date; nothing where a library has none and no model is named."""
    name = _model(own.meta(), settings)
    if name is None:
        return
    model = _SoundModel(name, settings)
    with _opened(own, model) as store:
        _SoundRun(own, store, model, report).run(found, progress, brake)


def _model(meta: Mapping[str, str], settings: IndexSettings) -> str | None:
    """The model that is named, or the library's own where it can be loaded here."""
    from evenreel.sound.loading import sound_model_here

    if settings.sound is None:
        return None
    known = next(iter(models_of(meta, SOUNDS).values()), None)
    if settings.sound != AUTO:
        return settings.sound
    if known is not None and not (installed("torch") and sound_model_here(known)):
        log.warning("The model of sounds %s cannot be used on this machine, so new clips have no sounds.", known)
        return None
    return known


class _SoundModel:
    """The model of sounds of a run, loaded when it is first needed."""

    def __init__(self, name: str, settings: IndexSettings) -> None:
        from evenreel.sound.loading import locate_sound_model, sound_digest

        self.name, self.settings = name, settings
        self.id, folder = locate_sound_model(name)
        self.folder = folder_of_model(sound_digest(folder))

    @cached_property
    def encoder(self) -> SoundEncoder:
        from evenreel.sound import load_sound_encoder

        return load_sound_encoder(self.name, device=self.settings.device, precision=self.settings.precision)


@contextmanager
def _opened(own: Store, model: _SoundModel) -> Iterator[Store]:
    """The vectors of sounds, open for writing; the library names them from now on, and those of no other model."""
    known = models_of(own.meta(), SOUNDS)
    if known and model.folder not in known and model.settings.sound == AUTO:
        raise LibraryError(other_sounds(own.library, next(iter(known.values())), model.id))
    if model.folder not in known:
        own.begin((), {SOUNDS: noted({model.folder: model.encoder.encoder_id})})
        clear_unnamed(own.library, own.meta())
    target = place_of(own.library, model.folder)
    with closing(catalog.open_for_writing(target)) as connection:
        yield Store(target, connection, {})


class _SoundRun:
    """Encodes the sounds of one clip after another."""

    def __init__(self, own: Store, store: Store, model: _SoundModel, report: IndexReport) -> None:
        self._own, self._store, self._model, self._report = own, store, model, report

    def run(self, found: Scan, progress: StagedProgress, brake: Brake) -> None:
        store = self._store
        shards = tidy_shards(store.library / catalog.SHARDS)
        known = {row.path: row for row in known_files(store.connection, shards)}
        plan = make_plan(found, known, VECTORS, retry=self._model.settings.retry)
        clips = self._clips()
        for file, clip_id in plan.returned:
            store.link(file, clip_id)
        work = [(file, clips[file.path]) for file in plan.work if file.path in clips]
        if work:
            self._encode(work, progress, brake)
        mark_gone(store, plan)
        store.drop_replaced()
        store.complete_codes()

    def _clips(self) -> dict[str, str]:
        rows = self._own.connection.execute("SELECT path, clip_id FROM files WHERE state = 'indexed'")
        return {catalog.loaded_path(path): clip_id for path, clip_id in rows}

    def _encode(self, work: list[tuple[FoundFile, str]], progress: StagedProgress, brake: Brake) -> None:
        from evenreel.sound.reader import sound_worker

        progress.stage("listening to sounds", len(work))
        encoder = self._model.encoder
        self._store.begin({file.root for file, _ in work}, _tie(encoder, self._model.name))
        with closing(sound_worker(encoder.windows, self._model.settings.limits)) as worker, brake.held(worker):
            for file, clip_id in work:
                if brake.eased:
                    break
                try:
                    self._add(worker, file, clip_id)
                except EvenreelError as error:
                    if brake.halted:  # what comes of its worker's end is no fault of the file
                        raise RunHaltedError from None
                    if not isinstance(error, MediaError):
                        raise
                    self._set_aside(file, clip_id, error)
                progress.advance(1)
        if not brake.eased and not self._store.null_scores_hold():
            progress.stage("measuring how nonsense sounds")
            self._store.update_null_scores(encoder)

    def _add(self, worker: Worker, file: FoundFile, clip_id: str) -> None:
        """Encode the sounds of a clip, unless a copy of its file has brought them."""
        from evenreel.sound import read_sounds

        encoder = self._model.encoder
        if self._store.done_stages(clip_id) is None:
            try:
                header = read_shard(shard_path(self._own.library / catalog.SHARDS, clip_id))
            except DamagedShardError as error:  # the next run reads its video anew
                log.warning("%s", error)
                return
            heard = read_sounds(worker, file.path, encoder)
            if stamp(file.path) != file.stamp:
                raise MediaError("changed_while_reading", "the file has changed while its sound was read")
            self._store.add_clip(
                Shard(
                    clip_id=clip_id,
                    info=replace(header.info, notes=heard.notes),
                    encoder_id=encoder.encoder_id,
                    weights_hash=encoder.weights_hash,
                    rule=encoder.windows.rule,
                    times_s=heard.times_s,
                    spans_s=heard.spans_s,
                    frames=heard.vectors.astype("float16"),
                    tracks=None,
                    reader_id=None,
                )
            )
            self._report.sounds += 1
            self._report.notes += [(printable(file.path), printable(note)) for note in heard.notes]
        self._store.link(file, clip_id)

    def _set_aside(self, file: FoundFile, clip_id: str, error: MediaError) -> None:
        if error.reason != "no_sound":  # most films without sound are meant so
            self._report.notes.append((printable(file.path), printable(f"its sounds cannot be read: {error}")))
        self._store.set_aside(file, error, clip_id)


def _tie(encoder: SoundEncoder, name: str) -> dict[str, str]:
    return {
        "model": encoder.encoder_id,
        "asked_model": name,
        "encoder_id": encoder.encoder_id,
        "weights_hash": encoder.weights_hash,
        "dimension": str(encoder.dimension),
        "rule": encoder.windows.rule,
    }
