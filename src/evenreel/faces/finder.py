"""Faces on one picture: where they are, a vector of each, and the aligned face itself.

YuNet finds faces and five landmarks of each (Wu, Peng, Yu: YuNet, a tiny millisecond-level face detector, 2023); the
face is turned and scaled by the landmarks, and SFace makes a vector of it (Zhong et al.: SFace, IEEE TIP 2021,
arXiv:2205.12010). Both are run by OpenCV.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels

DETECTED_PX = 640
"""Width and height of what YuNet is given: the size that the published file is written for."""

ALIGNED_PX = 1280
"""Longest side of the picture from which faces are cut, so that a close-up is not thinned out to nothing."""

LEAST_PX = 32
"""Least width and height of a face in the picture; a smaller one tells nobody apart."""

SURE = 0.9
"""Least score of a face, that of OpenCV's own examples."""

_OVERLAP = 0.3
_MOST = 5_000


@dataclass(frozen=True, eq=False)
class FoundFace:
    """A face on a picture.

    Attributes:
        box: left, top, right and bottom edge, as fractions of the picture.
        score: how sure the detector is, 0 to 1.
        vector: (D,) its vector, of unit length.
        crop: (112, 112, 3) uint8 RGB, the face turned upright.
    """

    box: tuple[float, float, float, float]
    score: float
    vector: FloatArray
    crop: Pixels


class OpenCVFaces:
    """YuNet and SFace, run by OpenCV on the CPU."""

    def __init__(self, detector: str, recogniser: str, threads: int = 1) -> None:
        import cv2

        cv2.setNumThreads(threads)
        size = (DETECTED_PX, DETECTED_PX)
        try:
            self._detector = cv2.FaceDetectorYN.create(detector, "", size, SURE, _OVERLAP, _MOST)
            self._recogniser = cv2.FaceRecognizerSF.create(recogniser, "")
        except cv2.error as error:
            raise EncoderError(f"{detector} or {recogniser} is no model that OpenCV reads: {error.err}.") from error

    def find(self, pixels: Pixels) -> list[FoundFace]:
        """Find the faces on a picture (H, W, 3) uint8 RGB, from left to right; those below 32 pixels are left out."""
        width = pixels.shape[1]
        picture = _at_most(pixels[..., ::-1], ALIGNED_PX)
        rows = self._rows(picture)
        sides = rows[:, 2:4].min(axis=1, initial=np.inf) * (width / picture.shape[1])
        kept = rows[sides >= LEAST_PX]
        return [self._face(picture, row) for row in kept[np.argsort(kept[:, 0], kind="stable")]]

    def _rows(self, picture: Pixels) -> FloatArray:
        """What YuNet finds, (N, 15): box, landmarks and score, in pixels of the picture."""
        small = _at_most(picture, DETECTED_PX)
        canvas = np.zeros((DETECTED_PX, DETECTED_PX, 3), np.uint8)
        canvas[: small.shape[0], : small.shape[1]] = small
        _, found = self._detector.detect(canvas)
        if found is None:
            return np.zeros((0, 15), np.float32)
        rows = np.array(found, np.float32)
        rows[:, :14] *= picture.shape[1] / small.shape[1]
        return rows[np.isfinite(rows).all(axis=1)]

    def _face(self, picture: Pixels, row: FloatArray) -> FoundFace:
        crop: Pixels = self._recogniser.alignCrop(picture, row[None])
        vector = np.array(self._recogniser.feature(crop), np.float32).reshape(-1)
        height, width = picture.shape[:2]
        left, top, right, bottom = (
            row[0] / width,
            row[1] / height,
            (row[0] + row[2]) / width,
            (row[1] + row[3]) / height,
        )
        box = tuple(float(np.clip(edge, 0.0, 1.0)) for edge in (left, top, right, bottom))
        length = float(np.linalg.norm(vector))
        if not 0 < length < np.inf:
            raise EncoderError("SFace gave a vector without a direction (zero, NaN or infinite).")
        return FoundFace(box, float(row[14]), vector / length, crop[..., ::-1])  # type: ignore[arg-type]


def _at_most(pixels: Pixels, side_px: int) -> Pixels:
    """A picture scaled down where its longest side is longer."""
    import cv2

    height, width = pixels.shape[:2]
    scale = side_px / max(height, width)
    if scale >= 1:
        return np.ascontiguousarray(pixels)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA), np.uint8)
