"""Files of the two models of faces, as OpenCV Zoo publishes them: looked for in a folder, and never fetched."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evenreel.errors import EncoderError

ZOO = "https://github.com/opencv/opencv_zoo/tree/main/models"
OPTION = "--face-models"

_LFS = b"version https://git-lfs"

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class PublishedFile:
    """A file of a model as it is published.

    Attributes:
        name: its name.
        folder: its folder in OpenCV Zoo.
        sha256: digest of its bytes, as the pointer file of OpenCV Zoo says it.
    """

    name: str
    folder: str
    sha256: str


DETECTOR = PublishedFile(
    "face_detection_yunet_2023mar.onnx",
    "face_detection_yunet",
    "8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4",
)
RECOGNISER = PublishedFile(
    "face_recognition_sface_2021dec.onnx",
    "face_recognition_sface",
    "0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79",
)


@dataclass(frozen=True)
class FaceModels:
    """The two models of faces on this machine.

    Attributes:
        folder: folder of both files.
        detector: path of the model that finds faces.
        recogniser: path of the model that makes a vector of a face.
        recogniser_id: SHA-256 of that file; vectors of another one cannot be compared with its own.
    """

    folder: Path
    detector: Path
    recogniser: Path
    recogniser_id: str


def find_models(folder: Path) -> FaceModels:
    """Find the two files in a folder; a file of other bytes than the published one is used, and a warning says so."""
    place = folder.absolute()
    _, recogniser_id = (_checked(place, one) for one in (DETECTOR, RECOGNISER))
    return FaceModels(place, place / DETECTOR.name, place / RECOGNISER.name, recogniser_id)


def _checked(folder: Path, one: PublishedFile) -> str:
    """The digest of a file."""
    path = folder / one.name
    try:
        state = path.stat()
        return _digest(path, one, state.st_size, state.st_mtime_ns)
    except FileNotFoundError as error:
        raise EncoderError(f"{path} is not there. {how_to_get()}") from error
    except OSError as error:
        raise EncoderError(f"{path} cannot be read ({error.strerror or error}); check the permissions.") from error


@lru_cache(maxsize=8)
def _digest(path: Path, one: PublishedFile, size: int, mtime_ns: int) -> str:
    """The digest of a file of this size and time; whether it is the published one is told once."""
    payload = path.read_bytes()
    if payload.startswith(_LFS):
        raise EncoderError(f"{path} is a pointer of Git LFS, not the model; `git lfs pull` brings the model itself.")
    found = hashlib.sha256(payload).hexdigest()
    if found != one.sha256:
        log.warning(
            "%s is not the file that OpenCV Zoo publishes (SHA-256 %s…, not %s…); it is used as it is.",
            path,
            found[:12],
            one.sha256[:12],
        )
    return found


def how_to_get() -> str:
    """Return a sentence that says which files are needed, where they are published, and which option takes them."""
    files = " and ".join(f"{one.name} ({ZOO}/{one.folder}, SHA-256 {one.sha256})" for one in (DETECTOR, RECOGNISER))
    return f"Faces need two files, which evenreel does not fetch: {files}; name their folder with {OPTION} FOLDER."
