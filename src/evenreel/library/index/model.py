"""The model of an index run: chosen, loaded once while the first files are being read, and tied to the library."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from evenreel.config import AUTO, DEFAULT_MODEL, DEFAULT_RULE, IndexSettings
from evenreel.errors import LibraryError
from evenreel.library.store.model_folders import other_model
from evenreel.library.store.writer import Store
from evenreel.types import Encoder, FloatArray, Pixels, WindowRule


class ModelInUse:
    """The model of an index run, shared by all readers; one of them encodes at a time."""

    def __init__(self, store: Store, settings: IndexSettings, encoder: Encoder | None = None) -> None:
        self._given = encoder
        self._store, self._settings = store, settings
        self._encoding = threading.Lock()
        self._starting = threading.Lock()
        self._loaded: Future[Encoder] | None = None

    @property
    def name(self) -> str:
        """Name by which the model is loaded."""
        return self._settings.model or ""

    def start(self) -> None:
        """Begin to load the model in the background; a further call raises if loading has failed."""
        with self._starting:
            if self._loaded is None:
                loader = ThreadPoolExecutor(1, thread_name_prefix="model")
                self._loaded = loader.submit(self._load)
                loader.shutdown(wait=False)
        if self._loaded.done():
            self._loaded.result()

    def encoder(self) -> Encoder:
        """Return the model, waiting until it is loaded."""
        self.start()
        if self._loaded is None:
            raise RuntimeError("loading was not started")
        return self._loaded.result()

    def window(self) -> WindowRule | None:
        """Return the windows that the model takes; None until it is loaded."""
        with self._starting:
            loaded = self._loaded
        return loaded.result().window if loaded and loaded.done() else None

    def encode(self, windows: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames to (N, D) float32, waiting until the model is loaded."""
        encoder = self.encoder()
        with self._encoding:
            return encoder.encode_windows(windows)

    def _load(self) -> Encoder:
        settings = self._settings
        encoder = self._given or load(settings.model or "", settings)
        meta = self._store.meta()
        tie = {
            "model": encoder.encoder_id,
            "asked_model": settings.model or "",
            "encoder_id": encoder.encoder_id,
            "weights_hash": encoder.weights_hash,
            "dimension": str(encoder.dimension),
        }
        if "weights_hash" in meta:
            if meta["weights_hash"] != encoder.weights_hash:
                made_with = meta.get("encoder_id", meta.get("model", "?"))
                raise LibraryError(other_model(self._store.library, made_with, encoder.encoder_id))
            known = settings.model in (meta.get("model"), meta.get("asked_model"))
            renamed = () if known else ("model", "asked_model", "encoder_id")  # the same weights, as an export has them
            tie = {
                name: value
                for name, value in tie.items()
                if name in renamed or name not in meta  # lost, and no shard said it
            }
        if tie:
            self._store.begin((), tie)
        return encoder


def load(name: str, settings: IndexSettings) -> Encoder:
    """Load a model on the device and in the precision of a run."""
    from evenreel.encoders import load_encoder

    return load_encoder(name, device=settings.device, precision=settings.precision)


def resolve(settings: IndexSettings, meta: Mapping[str, str], library: Path) -> IndexSettings:
    """Replace `auto` in settings by what the library was made with, else by the defaults."""
    from evenreel.encoders.known_models import check_licence
    from evenreel.media import parse_rule

    made_with = meta.get("rule")
    rule = (made_with or DEFAULT_RULE) if settings.rule == AUTO else str(parse_rule(settings.rule))
    if made_with and rule != made_with:
        raise LibraryError(
            f"The library {library} was sampled '{made_with}', not '{rule}'; leave --sample out, or use another "
            "--library."
        )
    own = meta.get("model", meta.get("encoder_id"))
    model = (DEFAULT_MODEL if own is None else own or None) if settings.model == AUTO else settings.model
    if model and model not in (own, meta.get("asked_model")):  # with its own, a library was made
        check_licence(model, settings.accept_licence)
    return replace(settings, rule=rule, model=model)
