"""Files: the same bytes each time, and the pictures come back as they were drawn."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import av
import numpy as np
import pytest

from evenreel.planted import Entity, Scene, SignBoard, draw_clip, write_scene

SCENE = Scene(
    (Entity("star", "red", "large"),), "spins", "beach", (SignBoard("HARBOUR"),), 3, 0.02, duration_s=2.0, width=256
)


def test_two_runs_and_another_process_write_the_same_bytes(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from evenreel.planted import *\n"
        "write_scene(Path(sys.argv[1]), Scene((Entity('star', 'red', 'large'),), 'spins', 'beach',"
        " (SignBoard('HARBOUR'),), 3, 0.02, duration_s=2.0, width=256))"
    )
    paths = [tmp_path / f"{n}.mp4" for n in range(5)]
    for path in paths[1:]:
        write_scene(path, SCENE)
    subprocess.run([sys.executable, "-c", code, str(paths[0])], check=True)
    assert len({sha256(path.read_bytes()).hexdigest() for path in paths}) == 1


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    write_scene(path, SCENE)
    return path


def test_the_file_says_what_it_is(written: Path) -> None:
    with av.open(str(written)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.frames) == (256, 240, 24)
        assert stream.average_rate == Fraction(12)
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.codec_context.colorspace == 1


def test_the_pictures_come_back(written: Path) -> None:
    with av.open(str(written)) as container:
        decoded = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    drawn = [frame.astype(int) for frame in draw_clip(SCENE)]
    assert len(decoded) == len(drawn)
    for there, here in zip(decoded, drawn, strict=True):
        assert np.abs(there - here).mean() < 5


def test_no_name_of_a_program_is_in_the_file(written: Path) -> None:
    """A version string would change the bytes with each release of FFmpeg."""
    assert b"Lavf" not in written.read_bytes()
