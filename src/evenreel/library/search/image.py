"""Pictures as queries: untrusted, so they are decoded in a process of their own, which can be killed."""

from __future__ import annotations

import os
import re
import stat
from contextlib import closing
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenreel.config import IMAGE_LIMITS, MediaLimits, described
from evenreel.errors import MediaError, UsageError
from evenreel.media.picture import upright
from evenreel.media.workers import Worker
from evenreel.types import Pixels

if TYPE_CHECKING:
    import PIL.Image

MAX_BYTES = 50 * 2**20

Picture: TypeAlias = "str | PathLike[str] | bytes | PIL.Image.Image | ArrayLike"
"""What is taken for a picture: the path of a file, its bytes, an image of PIL, or RGB pixels (H, W, 3) of uint8."""

_HOW = "give the path of a file, its bytes, an image of PIL, or RGB pixels (H, W, 3) of uint8"

READER = "evenreel.media.picture:ImageReader"


def image_worker(limits: MediaLimits = IMAGE_LIMITS) -> Worker:
    """Start a process that decodes pictures for `decode_image`; the caller closes it."""
    return Worker(READER, {"limits": asdict(limits)}, limits)


def decode_image(content: bytes, worker: Worker, name: str = "The picture") -> Pixels:
    """Decode the bytes of a picture file to upright RGB (H, W, 3); transparent parts become white."""
    _check_bytes(name, len(content))
    try:
        ((_, pixels),) = worker.run({}, np.frombuffer(content, np.uint8))
    except MediaError as error:
        raise UsageError(f"{name} cannot be read: {error}.") from error
    assert pixels is not None
    return pixels


def read_image(picture: Path | bytes, limits: MediaLimits = IMAGE_LIMITS) -> Pixels:
    """Read a picture, a file or the bytes of one, in a process of its own; see `decode_image`."""
    name, content = ("The picture", picture) if isinstance(picture, bytes) else _content(picture)
    with closing(image_worker(limits)) as worker:
        return decode_image(content, worker, name)


def as_pixels(picture: Picture) -> Pixels:
    """Convert a picture of any kind to RGB pixels (H, W, 3) of uint8; files and bytes are read as `read_image` does."""
    if isinstance(picture, (str, PathLike)):
        return read_image(Path(picture))
    if isinstance(picture, bytes):
        return read_image(picture)
    given: Any = picture
    if hasattr(given, "getbands") and hasattr(given, "copy"):  # an image of PIL
        return _of_pil(given)
    if not (hasattr(given, "__array__") or hasattr(given, "__array_interface__")) or isinstance(given, type):
        raise UsageError(f"image is {described(picture)}; {_HOW}.")
    try:
        pixels = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"image is {described(picture)}, which cannot be read as an array; {_HOW}.") from error
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise UsageError(f"image is {described(pixels)}; {_HOW}.")
    return pixels


def _of_pil(image: PIL.Image.Image) -> Pixels:
    try:
        return upright(image.copy())  # it is turned in place
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damage, which it finds late
        raise UsageError(f"The picture cannot be read: it is damaged ({error}).") from error


def _content(path: Path) -> tuple[str, bytes]:
    """What an error calls a file, and its bytes."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        raise UsageError(f"{path} is an address; nothing is fetched: save the picture and give its file name.")
    name = f"The picture {path}"
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{name} does not exist or is not a file.")
            _check_bytes(name, found.st_size)
            return name, file.read(MAX_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"{name} does not exist or is not a file.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {error}.") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, or a pipe without a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_bytes(name: str, size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        raise UsageError(f"{name} has {size_bytes / 2**20:,.0f} MiB, the limit is {MAX_BYTES >> 20} MiB.")
