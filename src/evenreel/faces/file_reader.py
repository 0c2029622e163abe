"""The part of finding faces in a clip that runs in a killable worker: open, decode, find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.faces.finder import FoundFace, OpenCVFaces
from evenreel.faces.models import FaceModels
from evenreel.media import open_video
from evenreel.media.picture import to_jpeg
from evenreel.media.sampling import GivenTimes
from evenreel.media.workers import Message, Worker
from evenreel.types import FloatArray, Pixels

CROP_PX = 112
CROP_QUALITY = 80

_WORKER = "evenreel.faces.file_reader:FaceReader"


@dataclass(frozen=True, eq=False)
class ClipFace:
    """A face in a clip.

    Attributes:
        time_s: when it is on screen, in seconds of the file.
        box: left, top, right and bottom edge, as fractions of the picture.
        score: how sure the detector is, 0 to 1.
        vector: (D,) its vector, of unit length.
        jpeg: the face turned upright, as JPEG.
    """

    time_s: float
    box: tuple[float, float, float, float]
    score: float
    vector: FloatArray
    jpeg: bytes


class FaceReader:
    """Worker that answers a task `{"path", "at_s"}` with the faces on the frames at these seconds.

    Each frame is a message of its own, so that the reader is seen to get on; its faces follow it.
    """

    def __init__(self, limits: dict[str, Any], detector: str, recogniser: str, threads: int) -> None:
        self._limits = MediaLimits(**limits)
        self._finder = OpenCVFaces(detector, recogniser, threads)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Find the faces of one clip; nothing is done for a task without one."""
        if not task:
            return
        with open_video(task["path"], self._limits) as video:
            for frame in video.frames(GivenTimes(task["at_s"])):
                yield {"kind": "frame"}, None
                for face in self._finder.find(frame.pixels):
                    yield _message(frame.time_s, face)


def _message(time_s: float, face: FoundFace) -> Message:
    """A face: its vector and its JPEG are the bytes of one array."""
    vector = face.vector.astype("<f4").tobytes()
    jpeg = to_jpeg(face.crop, CROP_PX, CROP_PX, CROP_QUALITY)
    about = {"kind": "face", "time_s": time_s, "box": face.box, "score": face.score, "vector_bytes": len(vector)}
    return about, np.frombuffer(vector + jpeg, np.uint8)


class ClipFaces:
    """Finds the faces of one clip after another, in a process that can be killed."""

    def __init__(self, limits: MediaLimits, models: FaceModels, threads: int = 1) -> None:
        setup = {"limits": asdict(limits), "threads": threads}
        setup |= {"detector": str(models.detector), "recogniser": str(models.recogniser)}
        self._worker = Worker(_WORKER, setup, limits)

    def check(self) -> None:
        """Start the process, so that models that cannot be read are told before anything else is done."""
        for _ in self._worker.run({}):
            pass

    def close(self) -> None:
        """End the process; callable from any thread, and more than once."""
        self._worker.close()

    def find(self, path: str, at_s: list[float]) -> list[ClipFace]:
        """Find the faces on the frames of a file at some times, rising, in seconds."""
        messages = self._worker.run({"path": path, "at_s": at_s})
        return [_clip_face(about, held) for about, held in messages if about["kind"] == "face" and held is not None]


def _clip_face(about: dict[str, Any], held: Pixels) -> ClipFace:
    payload, split = held.tobytes(), about["vector_bytes"]
    left, top, right, bottom = about["box"]
    vector = np.frombuffer(payload[:split], "<f4").astype(np.float32)
    return ClipFace(about["time_s"], (left, top, right, bottom), about["score"], vector, payload[split:])
