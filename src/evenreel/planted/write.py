"""Rendered clips as real mp4 files: the same scene gives the same bytes in every run."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.planted.draw import draw_clip
from evenreel.planted.scenes import Scene
from evenreel.types import Pixels

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

BT709 = 1
LIMITED_RANGE = 1
ENCODER_OPTIONS = {"preset": "veryfast", "qp": "22", "threads": "1", "x264-params": "mbtree=0"}
"""One thread and a fixed quantiser: x264's output depends on the number of threads, and its macroblock tree
was seen to write other bytes for the same pictures from one run to the next."""


def write_scene(path: Path, scene: Scene) -> None:
    """Render a scene into an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: where to write; an existing file is replaced.
        scene: what to render.
    """
    write_clip(path, draw_clip(scene), scene.fps)


def write_clip(path: Path, frames: Iterable[Pixels], fps: int) -> None:
    """Encode frames into an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: where to write; an existing file is replaced.
        frames: (H, W, 3) uint8 each, all of one size, H and W even.
        fps: frames a second.
    """
    path.write_bytes(clip_bytes(frames, fps))


def clip_bytes(frames: Iterable[Pixels], fps: int) -> bytes:
    """What `write_clip` writes."""
    import av

    held = BytesIO()
    with av.open(held, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream: VideoStream | None = None
        for number, pixels in enumerate(frames):
            stream = stream or _add_stream(container, pixels, fps)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
                format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
            )
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        if stream:
            container.mux(stream.encode(None))
    return held.getvalue()


def _add_stream(container: OutputContainer, pixels: Pixels, fps: int) -> VideoStream:
    stream = container.add_stream("libx264", rate=fps, options=dict(ENCODER_OPTIONS))
    stream.height, stream.width = pixels.shape[:2]
    stream.pix_fmt = "yuv420p"
    context = stream.codec_context
    context.time_base = Fraction(1, fps)
    context.flags |= 1 << 23  # AV_CODEC_FLAG_BITEXACT: no version string in the file
    context.colorspace = context.color_primaries = context.color_trc = BT709
    context.color_range = LIMITED_RANGE
    return stream
