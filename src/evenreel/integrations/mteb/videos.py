"""The videos of a data set of MTEB as files, which features are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenreel.errors import UsageError


def video_files(data: Any, folder: Path) -> dict[str, Path]:
    """Return the file of each video of a data set, by id; what the data set holds as bytes is written to files first.

    Nothing is decoded, so it needs no torchcodec.

    Args:
        data: data set with the columns `id` and `video`.
        folder: folder for files that are written.

    Raises:
        UsageError: a video is neither a file nor the bytes of one.
    """
    import datasets

    if isinstance(data.features["video"], datasets.Video):
        data = data.cast_column("video", datasets.Video(decode=False))
    folder.mkdir(parents=True, exist_ok=True)
    return {row["id"]: _file(row, folder / f"{number}.video") for number, row in enumerate(data)}


def _file(row: Mapping[str, Any], place: Path) -> Path:
    video = row["video"]
    if isinstance(video, Mapping) and video.get("bytes"):
        place.write_bytes(video["bytes"])
        return place
    path = video.get("path") if isinstance(video, Mapping) else video
    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"The video {row['id']} of the task is {type(path).__name__}; a matcher reads files or the bytes of files."
        )
    return Path(path).resolve()
