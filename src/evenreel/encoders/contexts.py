"""Contexts in which models are loaded and saved: without garbage collection, and without the words of transformers."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Iterator

log = logging.getLogger("evenreel")


@contextlib.contextmanager
def garbage_left() -> Iterator[None]:
    """Pause the garbage collector in a `with`: it finds nothing in what imports build, and scans it again and again.

    Importing torch and transformers takes a seventh less processor time without it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what transformers says in a `with` from the terminal; its warnings go to the log of evenreel, as debug."""
    from transformers.utils import logging as spoken

    level, bars = spoken.get_verbosity(), spoken.is_progress_bar_enabled()
    spoken.set_verbosity(logging.CRITICAL)
    spoken.disable_progress_bar()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        spoken.set_verbosity(level)
        if bars:
            spoken.enable_progress_bar()
        for warning in caught:
            log.debug("while a model was loaded: %s", warning.message)
