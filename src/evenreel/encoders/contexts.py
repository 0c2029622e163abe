"""What loading and saving a model should not do: search for garbage, and talk."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Iterator

log = logging.getLogger("evenreel")


@contextlib.contextmanager
def garbage_left() -> Iterator[None]:
    """Pause the collector: it finds nothing in what imports build, and scans it again and again.

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
    """Keep what transformers says while it loads or saves from the terminal; warnings go to our own log."""
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
