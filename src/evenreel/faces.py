"""Faces on frames: where they are, a vector of each, and which of them are of one person.

YuNet finds faces and five landmarks of each (Wu, Peng, Yu: YuNet, a tiny millisecond-level face detector, 2023); the
face is turned and scaled by the landmarks, and SFace makes a vector of it (Zhong et al.: SFace, IEEE TIP 2021,
arXiv:2205.12010). Both are run by OpenCV, from files that are asked for and never fetched.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenreel.arrays import Indices, slices
from evenreel.config import MediaLimits
from evenreel.errors import EncoderError
from evenreel.media.picture import to_jpeg
from evenreel.media.workers import Worker
from evenreel.types import FloatArray, Pixels

ZOO = "https://github.com/opencv/opencv_zoo/tree/main/models"
DETECTOR, RECOGNISER = "face_detection_yunet_2023mar.onnx", "face_recognition_sface_2021dec.onnx"
SHA256 = {  # as OpenCV Zoo states them
    DETECTOR: "8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4",
    RECOGNISER: "0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79",
}
_LFS = b"version https://git-lfs"

DETECTED_PX = 640  # width and height of what YuNet is given: the size that the published file is written for
ALIGNED_PX = 1280  # longest side of the picture from which faces are cut: a close-up is not thinned out to nothing
LEAST_PX = 32  # least width and height of a face in the picture; a smaller one tells nobody apart
SURE = 0.8  # least score of a face; `docs/people.md` says what was found at others
_OVERLAP, _MOST = 0.3, 5_000
CROP_PX, CROP_QUALITY = 112, 80

SAME_PERSON = 0.363  # least cosine of two faces of one person by SFace, as OpenCV's documentation states it (on LFW)
ROUNDS, NEIGHBOURS = 20, 64  # of a face the heaviest edges are kept
_CELLS = 2**24  # similarities that are in memory at a time

log = logging.getLogger("evenreel")


class FaceModels(NamedTuple):
    """Both files; vectors of two recognisers cannot be compared."""

    folder: Path
    recogniser_id: str  # SHA-256


def find_models(folder: Path) -> FaceModels:
    """Find the two files in a folder; a file of other bytes than the published one is used, and a warning says so."""
    found = {}
    for name, published in SHA256.items():
        path = folder.absolute() / name
        try:
            payload = path.read_bytes()
        except FileNotFoundError as error:
            raise EncoderError(f"{path} is not there. {how_to_get()}") from error
        except OSError as error:
            raise EncoderError(f"{path} cannot be read ({error.strerror or error}); check the permissions.") from error
        if payload.startswith(_LFS):
            raise EncoderError(f"{path} is a pointer of Git LFS, not the model; `git lfs pull` brings the model.")
        found[name] = hashlib.sha256(payload).hexdigest()
        if found[name] != published:
            log.warning("%s is not the file that OpenCV Zoo publishes (by its SHA-256); it is used as it is.", path)
    return FaceModels(folder.absolute(), found[RECOGNISER])


def how_to_get() -> str:
    """Return a sentence that says which files are needed, where they are published, and which setting takes them."""
    files = (f"{name} ({ZOO}/{name.rpartition('_')[0]}, SHA-256 {digest})" for name, digest in SHA256.items())
    return (
        f"Faces need two files, which evenreel does not fetch: {' and '.join(files)}; name their folder: "
        "--set face_models=FOLDER."
    )


@dataclass(frozen=True, eq=False)
class Face:
    time_s: float
    box: tuple[float, float, float, float]  # left, top, right and bottom as fractions of the picture
    score: float  # how sure the detector is
    vector: FloatArray  # (D,) of unit length
    jpeg: bytes  # the face, turned upright


class FaceFinder:
    """YuNet and SFace, run by OpenCV on the CPU."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        import cv2

        cv2.setNumThreads(threads)
        size = (DETECTED_PX, DETECTED_PX)
        try:
            self._detector = cv2.FaceDetectorYN.create(str(folder / DETECTOR), "", size, SURE, _OVERLAP, _MOST)
            self._recogniser = cv2.FaceRecognizerSF.create(str(folder / RECOGNISER), "")
        except cv2.error as error:
            raise EncoderError(f"{folder} holds no model that OpenCV reads: {error.err}.") from error

    def find(self, pixels: Pixels, time_s: float = 0.0) -> list[Face]:
        """Find the faces on a picture (H, W, 3) uint8 RGB, from left to right; those below 32 pixels are left out."""
        picture = _at_most(pixels[..., ::-1], ALIGNED_PX)
        small = _at_most(picture, DETECTED_PX)
        canvas = np.zeros((DETECTED_PX, DETECTED_PX, 3), np.uint8)
        canvas[: small.shape[0], : small.shape[1]] = small
        _, found = self._detector.detect(canvas)
        rows = np.zeros((0, 15), np.float32) if found is None else np.array(found, np.float32)
        rows[:, :14] *= picture.shape[1] / small.shape[1]  # box and landmarks in pixels of the picture, then the score
        sides = rows[:, 2:4].min(axis=1, initial=np.inf) * (pixels.shape[1] / picture.shape[1])
        kept = rows[np.isfinite(rows).all(axis=1) & (sides >= LEAST_PX)]
        return [self._face(picture, row, time_s) for row in kept[np.argsort(kept[:, 0], kind="stable")]]

    def _face(self, picture: Pixels, row: FloatArray, time_s: float) -> Face:
        crop: Pixels = self._recogniser.alignCrop(picture, row[None])
        vector = np.array(self._recogniser.feature(crop), np.float32).reshape(-1)
        length = float(np.linalg.norm(vector))
        if not 0 < length < np.inf:
            raise EncoderError("SFace gave a vector without a direction (zero, NaN or infinite).")
        height, width = picture.shape[:2]
        edges = np.array([row[0], row[1], row[0] + row[2], row[1] + row[3]]) / (width, height, width, height)
        left, top, right, bottom = np.clip(edges, 0.0, 1.0).tolist()
        jpeg = to_jpeg(crop[..., ::-1], CROP_PX, CROP_PX, CROP_QUALITY)
        return Face(time_s, (left, top, right, bottom), float(row[14]), vector / length, jpeg)


def _at_most(pixels: Pixels, side_px: int) -> Pixels:
    """A picture scaled down where its longest side is longer."""
    import cv2

    height, width = pixels.shape[:2]
    scale = side_px / max(height, width)
    if scale >= 1:
        return np.ascontiguousarray(pixels)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA), np.uint8)


class ClipFaces:
    """Finds the faces of one clip after another, which are decoded in a process that can be killed."""

    def __init__(self, limits: MediaLimits, models: FaceModels, threads: int = 1) -> None:
        self._worker = Worker("evenreel.media.sound:MomentReader", {"limits": asdict(limits)}, limits)
        self._finder = FaceFinder(models.folder, threads)

    def close(self) -> None:
        self._worker.close()

    def find(self, path: str, at_s: list[float]) -> list[Face]:
        """Find the faces on the frames of a file at some times, rising, in seconds."""
        read = self._worker.run({"path": path, "at_s": at_s})
        frames = ((about["time_s"], pixels) for about, pixels in read if pixels is not None)
        return [face for time_s, pixels in frames for face in self._finder.find(pixels, time_s)]


def _tiles(faces: FloatArray, others: FloatArray) -> Iterator[slice]:
    return slices(len(faces), max(1, _CELLS // max(1, len(others))))


def join_people(faces: FloatArray, means: FloatArray, threshold: float = SAME_PERSON) -> Indices:
    """Find the person whom each face (N, D) is most like on average, (N,); -1 where no mean (G, D) is near enough."""
    joined = np.full(len(faces), -1, np.int64)
    for tile in _tiles(faces, means) if len(means) else ():
        nearness = faces[tile] @ means.T
        best = nearness.argmax(axis=1)
        joined[tile] = np.where(nearness[np.arange(len(best)), best] >= threshold, best, -1)
    return joined


def chinese_whispers(faces: FloatArray, threshold: float = SAME_PERSON, seed: int = 0) -> Indices:
    """Group faces (N, D) by Chinese whispers (Biemann 2006): labels (N,), 0, 1, ... as they first occur.

    Every face is a node, two faces of at least the threshold an edge of that weight, and each node in turn takes the
    label that weighs most among its neighbours.
    """
    neighbours = []  # of each face, and how similar they are
    for tile in _tiles(faces, faces):
        for row, weights in enumerate(faces[tile] @ faces.T, start=tile.start):
            weights[row] = -np.inf  # a face is no neighbour of its own
            near = np.flatnonzero(weights >= threshold)
            if len(near) > NEIGHBOURS:
                near = np.sort(near[np.argsort(-weights[near], kind="stable")[:NEIGHBOURS]])
            neighbours.append((near, weights[near]))
    labels = np.arange(len(faces))
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        before = labels.copy()
        for node in rng.permutation(len(faces)):
            others, weights = neighbours[node]
            if len(others):
                heard, place = np.unique(labels[others], return_inverse=True)
                labels[node] = heard[np.bincount(place, weights).argmax()]
        if np.array_equal(labels, before):
            break
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[place], np.int64)
