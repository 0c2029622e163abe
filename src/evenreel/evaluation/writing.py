"""Files of results that are there whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from evenreel.errors import ScoresError
from evenreel.files import replacing as replaced


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; when the block ends well the file takes its place, else it is removed.

    Raises:
        ScoresError: the file cannot be written.
    """
    try:
        with replaced(path) as part:
            yield part
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ScoresError(f"{path} cannot be written ({why}); choose another place.") from error
