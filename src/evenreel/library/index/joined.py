"""The further models of an index run: opened, named for the first time, or made anew where they are gone."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from evenreel.config import IndexSettings
from evenreel.errors import UsageError
from evenreel.features.clip_reader import WantedStages
from evenreel.library.index.model import ModelInUse, load
from evenreel.library.store import catalog
from evenreel.library.store.also import ALSO, folder_of_model, further, noted, place_of
from evenreel.library.store.kept import copied
from evenreel.library.store.writer import Store
from evenreel.types import Encoder

VISION = WantedStages(vision=True, text=False)


@dataclass(frozen=True)
class ModelStore:
    """A model of an index run, where its vectors go, and the stages that are wanted there; no model for words alone."""

    store: Store
    model: ModelInUse | None
    wanted: WantedStages


def joined(
    opened: ExitStack, own: ModelStore, settings: IndexSettings, held: Mapping[str, Encoder]
) -> list[ModelStore]:
    """Open what a run brings up to date: the library with its own model, and its further models.

    Args:
        opened: closes the catalogs of further models, and writes their second copies.
        own: the library with its own model.
        settings: settings of the run; the models of `also` that are new to the library are loaded at once.
        held: models that are loaded already, by name.

    Raises:
        UsageError: a model of `also` is named twice, is the library's own, there is no own model to set it beside, or
            its licence has to be accepted.
        EncoderError: a model cannot be loaded.
    """
    from evenreel.encoders.known_models import check_licence
    from evenreel.encoders.sources import stored_ids

    meta = own.store.meta()
    models, loaded = further(meta), dict[str, Encoder]()
    _check(own, settings, meta)
    for name in settings.also:
        if any(stored_ids(name) & {known, known.partition("@")[0]} for known in models.values()):
            continue  # with its commit or without
        check_licence(name, settings.accept_licence)
        encoder = load(name, settings)
        folder = folder_of_model(encoder.weights_hash)
        if encoder.weights_hash == (meta.get("weights_hash") or own_hash(own)):
            raise UsageError(_its_own(name))
        if folder in loaded:
            raise UsageError(f"--also names {name} twice, under two names; name each model once.")
        models[folder] = encoder.encoder_id
        loaded[folder] = encoder
    if models and own.model is not None:
        own.store.begin((), {ALSO: noted(models)})
    elif own.model is None:
        return [own]
    return [
        own,
        *(
            opened_model(opened, own, settings, (folder, name), loaded.get(folder) or held.get(name))
            for folder, name in models.items()
        ),
    ]


def own_hash(own: ModelStore) -> str:
    """Return the hash of the library's own model, which is loaded for it."""
    assert own.model is not None  # it was checked
    return own.model.encoder().weights_hash


def _check(own: ModelStore, settings: IndexSettings, meta: dict[str, str]) -> None:
    for number, name in enumerate(settings.also):
        if name in settings.also[:number]:
            raise UsageError(f"--also names {name} twice; name each model once.")
        if name in {settings.model, meta.get("model"), meta.get("asked_model")}:
            raise UsageError(_its_own(name))
    if settings.also and own.model is None:
        raise UsageError("The library has no model of its own to set another one beside; name it with --model.")


def _its_own(name: str) -> str:
    return f"--also names {name}, which is the library's own model; name another one."


def opened_model(
    opened: ExitStack, own: ModelStore, settings: IndexSettings, model: tuple[str, str], encoder: Encoder | None = None
) -> ModelStore:
    """Open the vectors of a further model for writing; they are made where they are not there.

    Args:
        opened: closes their catalog.
        own: the library with its own model.
        settings: settings of the run.
        model: folder and name of the model.
        encoder: the model, where it is loaded already.

    Raises:
        LibraryError: they are damaged.
    """
    folder, name = model
    place = place_of(own.store.library, folder)
    connection: sqlite3.Connection = opened.enter_context(contextlib.closing(catalog.open_for_writing(place)))
    opened.enter_context(copied(place, connection))
    store = Store(place, connection, {})
    return ModelStore(store, ModelInUse(store, replace(settings, model=name), encoder), VISION)
