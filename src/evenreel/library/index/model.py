"""The model of one index run: loaded once, while the first files are already being read, and tied to the library."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from evenreel.config import IndexSettings
from evenreel.errors import LibraryError
from evenreel.library.store.also import other_model
from evenreel.library.store.writer import Store
from evenreel.types import Encoder, FloatArray, Pixels, WindowRule


class ModelInUse:
    """The model of an index run, shared by all readers; one of them encodes at a time.

    Args:
        store: the library. A new one is tied to the model as soon as that is loaded.
        settings: name, device and precision of the model; the name is not None.
        encoder: the model, where the caller has it loaded already.
    """

    def __init__(self, store: Store, settings: IndexSettings, encoder: Encoder | None = None) -> None:
        self._given = encoder
        self._store, self._settings = store, settings
        self._encoding = threading.Lock()
        self._starting = threading.Lock()
        self._loaded: Future[Encoder] | None = None

    def start(self) -> None:
        """Begin to load the model in the background; a further call raises if loading has failed.

        Raises:
            EncoderError: the model cannot be loaded.
            LibraryError: the library was made with another model.
        """
        with self._starting:
            if self._loaded is None:
                loader = ThreadPoolExecutor(1, thread_name_prefix="model")
                self._loaded = loader.submit(self._load)
                loader.shutdown(wait=False)
        if self._loaded.done():
            self._loaded.result()

    def encoder(self) -> Encoder:
        """Return the model, waiting until it is loaded.

        Raises:
            EncoderError: the model cannot be loaded.
            LibraryError: the library was made with another model.
        """
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
        """Encode windows (N, T, 3, H, W) to vectors (N, D), see `Encoder.encode_windows`."""
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
            tie = {name: value for name, value in tie.items() if name not in meta}  # lost, and no shard said it
        if tie:
            self._store.begin((), tie)
        return encoder


def load(name: str, settings: IndexSettings) -> Encoder:
    """Load a model on the device and in the precision of a run.

    Raises:
        EncoderError: it cannot be loaded.
    """
    from evenreel.encoders import load_encoder

    return load_encoder(name, device=settings.device, precision=settings.precision)
