"""Picture files from outside: what they may cost, and that they are read as they look."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenreel.config import IMAGE_LIMITS, MediaLimits
from evenreel.errors import UsageError
from evenreel.library.search.query import read_image
from evenreel.media.picture import MAX_SCANS, ImageReader, jpeg_scans

HANGING = "tests.media.stub_targets:HangingImages"


def saved(shape: tuple[int, ...] = (8, 6, 3), kind: str = "JPEG", **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, shape, np.uint8)).save(file, kind, **options)
    return file.getvalue()


def with_last_scan_repeated(picture: bytes, times: int) -> bytes:
    """A progressive JPEG that goes over its pixels again and again; each of these scans may be some 90 bytes."""
    last = picture.rindex(b"\xff\xda")
    return picture[:last] + picture[last:-2] * times + picture[-2:]


def scans_by_looking_at_every_byte(picture: bytes) -> int:
    """ITU-T T.81 read slowly, for files without anything behind their end."""
    scans, at = 0, 2
    while picture[at : at + 2] != b"\xff\xd9":
        if picture[at] == 0xFF and picture[at + 1] == 0xDA:
            scans += 1
        if picture[at] == 0xFF and picture[at + 1] not in {0x00, *range(0xD0, 0xD8)}:
            at += 2 + picture[at + 2] * 256 + picture[at + 3]
        else:
            at += 1
    return scans


@given(
    shape=st.sampled_from([(8, 6), (8, 6, 3), (40, 64, 3)]),
    progressive=st.booleans(),
    times=st.integers(1, 9),
    restarts=st.integers(0, 3),
)
def test_scans_are_counted(shape: tuple[int, ...], progressive: bool, times: int, restarts: int) -> None:
    picture = saved(shape, progressive=progressive, restart_marker_blocks=restarts)
    picture = with_last_scan_repeated(picture, times)
    assert jpeg_scans(picture) == scans_by_looking_at_every_byte(picture)
    assert jpeg_scans(picture) >= times


def test_a_jpeg_of_endless_scans_is_refused_before_it_is_decoded() -> None:
    picture = saved(progressive=True)
    own = jpeg_scans(picture)
    assert read_image(with_last_scan_repeated(picture, MAX_SCANS - own + 1)).shape == (8, 6, 3)
    with pytest.raises(UsageError, match=rf"it has 2,00\d scans, at most {MAX_SCANS} are decoded"):
        read_image(with_last_scan_repeated(picture, 2_000))


@pytest.mark.parametrize("shape", [(1, 16_385), (16_385, 1), (101, 100)], ids=["wide", "high", "many"])
def test_pictures_past_the_limits_are_refused(shape: tuple[int, int]) -> None:
    """A long thin one too: squeezed to a square, its matrix of weights would take gigabytes."""
    limits = replace(IMAGE_LIMITS, max_pixels=10_000 if max(shape) < 1_000 else 10**6)
    with pytest.raises(UsageError, match="at most 16,384 a side"):
        read_image(saved(shape, "PNG"), limits)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.search.query.READER", HANGING)


def test_a_picture_that_takes_too_long_or_too_much_is_stopped() -> None:
    """40 million pixels in a hundred scans: seconds of processor time, which no thread could be taken away from."""
    large = io.BytesIO()
    Image.new("RGB", (6_320, 6_320)).save(large, "JPEG", progressive=True)
    picture = with_last_scan_repeated(large.getvalue(), MAX_SCANS - 12)
    with pytest.raises(UsageError, match=r"no progress for 0\.2 s"):
        read_image(picture, replace(IMAGE_LIMITS, stall_timeout_s=0.2))
    with pytest.raises(UsageError, match="more than 200 MiB of memory"):
        read_image(picture, replace(IMAGE_LIMITS, memory_bytes=200 * 2**20))


@pytest.mark.usefixtures("hanging", "interruptible")
def test_ctrl_c_ends_a_picture_that_never_ends(tmp_path: Path) -> None:
    children, began = set(psutil.Process().children(recursive=True)), tmp_path / "began"

    def interrupt_once_it_decodes() -> None:
        while not began.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_once_it_decodes, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        read_image(b"hang" + bytes(began), replace(IMAGE_LIMITS, stall_timeout_s=1e6))
    assert set(psutil.Process().children(recursive=True)) == children


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_a_picture_is_read_as_it_looks(kind: str, tmp_path: Path) -> None:
    """Turned as its tag says, grey and pale ones too, by path as by bytes."""
    (tmp_path / "picture").write_bytes(saved((40, 30, 3), kind))
    with Image.open(tmp_path / "picture") as opened:
        expected = np.asarray(opened.convert("RGB"))
    np.testing.assert_array_equal(read_image(tmp_path / "picture"), expected)
    np.testing.assert_array_equal(read_image((tmp_path / "picture").read_bytes()), expected)


def test_a_tag_turns_and_transparency_is_white() -> None:
    red = np.zeros((4, 8, 4), np.uint8)
    red[:, :4] = (255, 0, 0, 255)  # the left half; the right one is not there
    tag = Image.Exif()
    tag[0x0112] = 6  # to be turned clockwise
    file = io.BytesIO()
    Image.fromarray(red).save(file, "PNG", exif=tag)
    pixels = next(ImageReader(asdict(MediaLimits()))({"array": np.frombuffer(file.getvalue(), np.uint8)}))[1]
    assert pixels is not None
    assert pixels.shape == (8, 4, 3)
    assert (pixels[:4] == (255, 0, 0)).all()
    assert (pixels[4:] == 255).all()
