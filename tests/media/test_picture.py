from __future__ import annotations

import io
import itertools
import os
import signal
import struct
import threading
import time
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from evenreel.config import IMAGE_LIMITS, MediaLimits
from evenreel.errors import UsageError
from evenreel.library.search.query import read_image
from evenreel.media import open_video, parse_rule
from evenreel.media.picture import (
    MAX_SCANS,
    ImageReader,
    Orientation,
    jpeg_scans,
    orientation_from,
    square_width,
    to_srgb,
)
from evenreel.types import Frame
from tests.media_files import Film, Picture, gop, number_in, numbered_picture, steady, write_film

FloatArray = NDArray[np.float64]
ONE = 1 << 16  # 1.0 in a display matrix


def first_frame(path: Path) -> Frame:
    with open_video(path) as video:
        frame = next(video.frames(parse_rule("every 1 s")))
        assert (video.info.height, video.info.width) == frame.pixels.shape[:2]
        return frame


# -- turned and mirrored ---------------------------------------------------------------------------------------

MATRICES = [(a, 0, 0, d) for a, d in itertools.product((1, -1), repeat=2)] + [
    (0, b, c, 0) for b, c in itertools.product((1, -1), repeat=2)
]


def turned_by_its_formula(stored: Picture, a: int, b: int, c: int, d: int) -> Picture:
    """Each stored point (x, y) goes to (a x + c y, b x + d y), then the whole is moved to begin at 0, 0."""
    height, width = stored.shape[:2]
    points = {(a * x + c * y, b * x + d * y): stored[y, x] for y in range(height) for x in range(width)}
    left, top = min(x for x, _ in points), min(y for _, y in points)
    shown = np.zeros((max(y for _, y in points) - top + 1, max(x for x, _ in points) - left + 1, 3), np.uint8)
    for (x, y), colour in points.items():
        shown[y - top, x - left] = colour
    return shown


@pytest.mark.parametrize("matrix", MATRICES)
def test_hazard_14_every_turn_and_mirror_against_its_formula(matrix: tuple[int, int, int, int]) -> None:
    stored = np.random.default_rng(3).integers(0, 256, (5, 7, 3), np.uint8)
    turned = orientation_from(*(ONE * value for value in matrix))
    np.testing.assert_array_equal(turned.apply(stored), turned_by_its_formula(stored, *matrix))


@pytest.mark.parametrize("matrix", MATRICES)
def test_hazard_14_the_display_matrix_of_a_file_is_honoured(tmp_path: Path, matrix: tuple[int, int, int, int]) -> None:
    a, b, c, d = matrix
    picture = numbered_picture(0b000000_000111)  # white in one corner, not symmetric in any way
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=gop(10))
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.set_display_matrix([ONE * a, ONE * b, 0, ONE * c, ONE * d, 0, 0, 0, 1 << 30])
        container.mux([*stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")), *stream.encode(None)])
    shown = first_frame(path).pixels
    expected = turned_by_its_formula(picture, a, b, c, d)
    assert shown.shape == expected.shape
    assert np.abs(shown.astype(int) - expected).mean() < 6


def test_a_slanted_matrix_is_rounded_to_a_quarter_turn() -> None:
    assert orientation_from(60_000, 9_000, -9_000, 60_000) == Orientation()
    assert orientation_from(9_000, 60_000, -60_000, 9_000) == orientation_from(0, 1, -1, 0)


@pytest.mark.parametrize(("name", "degrees"), [("video_90", 90), ("video_180", 180), ("video_270", 270)])
def test_hazard_14_turned_phone_clips_are_as_players_turn_them(real_clips: Path, name: str, degrees: int) -> None:
    path = real_clips / f"{name}.mov"
    with av.open(str(path)) as container:
        plain = next(container.decode(video=0)).to_image()
    expected = np.asarray(plain.rotate(-degrees, expand=True))
    shown = first_frame(path).pixels
    assert shown.shape == expected.shape
    assert np.abs(shown.astype(int) - expected).mean() < 3


# -- size and aspect ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("aspect", "width"), [("4/3", 128), ("16/15", 102), ("1/2", 48), ("1/1", 96), (None, 96)])
def test_hazard_16_pixels_become_square(tmp_path: Path, aspect: str | None, width: int) -> None:
    film = Film(steady(3), options=gop(10), aspect=Fraction(aspect) if aspect else None)
    picture = numbered_picture(0b101010_010011)
    frame = first_frame(write_film(tmp_path / "a.mp4", film, [picture] * 3))
    assert frame.pixels.shape == (64, width, 3)
    assert number_in(frame.pixels) == 0b101010_010011


def test_hazard_16_a_senseless_aspect_is_ignored() -> None:
    assert square_width(100, Fraction(1000, 1)) == 100
    assert square_width(100, Fraction(1, 1000)) == 100
    assert square_width(100, Fraction(0)) == 100
    assert square_width(1, Fraction(1, 8)) == 1


@pytest.mark.parametrize("size", [(1, 1), (2, 4000), (4000, 2), (97, 65), (96, 65), (97, 64), (3, 5), (15, 17)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p", "gray", "bgr0"])
def test_hazard_16_odd_sizes(tmp_path: Path, size: tuple[int, int], pix_fmt: str) -> None:
    width, height = size
    ramp = np.linspace(30, 220, width)[None, :] * 0.5 + np.linspace(30, 220, height)[:, None] * 0.5
    picture = np.repeat(ramp.round().astype(np.uint8)[..., None], 3, axis=2)
    film = Film([0, 40], codec="ffv1", pix_fmt=pix_fmt, size=size, options={"level": "1"})  # no slices
    frame = first_frame(write_film(tmp_path / "a.mkv", film, [picture] * 2))
    assert np.abs(frame.pixels.astype(int) - picture).max() <= 3


def test_hazard_16_interlaced_pictures_stay_woven(tmp_path: Path) -> None:
    options = gop(10, more=":interlaced=1")
    path = write_film(tmp_path / "a.mp4", Film(steady(6), options=options))
    with open_video(path) as video:
        assert [number_in(frame.pixels) for frame in video.frames(parse_rule("every 0.04 s"))] == list(range(6))


# -- colour ----------------------------------------------------------------------------------------------------------

WEIGHTS = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593), 7: (0.212, 0.087)}
"""K_R and K_B of ITU-T H.273's matrix numbers."""
PATCHES = np.array(
    [[255, 255, 255], [0, 0, 0], [200, 40, 40], [40, 180, 60], [50, 70, 210], [230, 220, 30], [120, 121, 119],
     [250, 140, 0]],
    np.float64,
)  # fmt: skip


def patchwork(patches: FloatArray) -> FloatArray:
    """(16, 16 n, 3) of flat squares."""
    return np.repeat(np.repeat(patches[None], 16, axis=0), 16, axis=1)


def to_yuv(rgb: FloatArray, matrix: int, *, full: bool, bits: int = 8) -> FloatArray:
    """ITU-R BT.601/709/2020: R'G'B' in 0..1 -> code values of Y, Cb, Cr, (3, H, W)."""
    red, blue = WEIGHTS[matrix]
    luma = rgb @ np.array([red, 1 - red - blue, blue])
    cb, cr = (rgb[..., 2] - luma) / (2 * (1 - blue)), (rgb[..., 0] - luma) / (2 * (1 - red))
    unit = 2 ** (bits - 8)
    if full:
        return np.stack([luma * 255, cb * 255 + 128, cr * 255 + 128]) * unit
    return np.stack([luma * 219 + 16, cb * 224 + 128, cr * 224 + 128]) * unit


def write_tagged(path: Path, frame: av.VideoFrame, tags: dict[str, int]) -> Path:
    """One lossless frame with colour tags, or without (2 is 'unspecified')."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, frame.format.name
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
            setattr(frame, name, value)
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        container.mux([*stream.encode(frame), *stream.encode(None)])
    return path


def frame_420(yuv: FloatArray, bits: int) -> av.VideoFrame:
    """A 4:2:0 frame of flat squares; each chroma sample from the first of its four pixels."""
    height, width = yuv.shape[1:]
    kind, pix_fmt = (np.uint8, "yuv420p") if bits == 8 else (np.uint16, "yuv420p10le")
    codes = yuv.round().astype(kind)
    planes = [codes[0].reshape(-1), codes[1, ::2, ::2].reshape(-1), codes[2, ::2, ::2].reshape(-1)]
    return av.VideoFrame.from_ndarray(np.concatenate(planes).reshape(height * 3 // 2, width), pix_fmt)


def middles(picture: NDArray[np.generic]) -> FloatArray:
    return picture[8, 8::16].astype(np.float64)


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [1, 5, 6, 7, 9])
def test_hazard_15_tagged_matrix_range_and_depth(tmp_path: Path, matrix: int, full: bool, bits: int) -> None:
    frame = frame_420(to_yuv(patchwork(PATCHES) / 255, matrix, full=full, bits=bits), bits)
    tags = {"colorspace": matrix, "color_range": 2 if full else 1}
    shown = first_frame(write_tagged(tmp_path / "a.mkv", frame, tags)).pixels
    np.testing.assert_allclose(middles(shown), PATCHES, atol=3)


@pytest.mark.parametrize(("height", "matrix"), [(480, 6), (576, 6), (720, 1), (1080, 1)])
def test_hazard_15_without_tags_the_height_decides(tmp_path: Path, height: int, matrix: int) -> None:
    rgb = np.tile(patchwork(PATCHES) / 255, (height // 16 + 1, 1, 1))[:height]
    frame = frame_420(to_yuv(rgb, matrix, full=False), 8)
    shown = first_frame(write_tagged(tmp_path / "a.mkv", frame, {})).pixels
    np.testing.assert_allclose(middles(shown), PATCHES, atol=3)


def srgb(linear: FloatArray) -> FloatArray:
    """IEC 61966-2-1, 0..1 -> 0..255."""
    linear = linear.clip(0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def pq(nits: FloatArray) -> FloatArray:
    """SMPTE ST 2084: cd/m2 -> signal."""
    power = (nits / 10_000) ** (2610 / 16384)
    return ((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)


def hlg(scene: FloatArray) -> FloatArray:
    """ITU-R BT.2100 HLG: scene light 0..1 -> signal."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), a * np.log(np.maximum(12 * scene - b, 1e-9)) + c)


def primaries(*xy: tuple[float, float]) -> FloatArray:
    """RGB to XYZ from the chromaticities of red, green, blue and white."""
    columns = np.array([[x / y, 1.0, (1 - x - y) / y] for x, y in xy]).T
    return columns[:, :3] * np.linalg.solve(columns[:, :3], columns[:, 3])


D65 = (0.3127, 0.3290)
BT709 = primaries((0.64, 0.33), (0.30, 0.60), (0.15, 0.06), D65)
BT2020 = primaries((0.708, 0.292), (0.170, 0.797), (0.131, 0.046), D65)
TO_BT709 = np.linalg.solve(BT709, BT2020)
HDR_TAGS = {"colorspace": 9, "color_range": 1, "color_primaries": 9}


def compressed(nits: float) -> float:
    """ITU-R BT.2390-10, 5.4.1, step by step for one light: 1000 cd/m2 down to 203."""
    top, white = float(pq(np.array(1000.0))), float(pq(np.array(203.0)))
    e1, largest = min(float(pq(np.array(nits))) / top, 1.0), white / top
    knee = 1.5 * largest - 0.5
    if e1 >= knee:
        t = (e1 - knee) / (1 - knee)
        e1 = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * largest
    return float(np.interp(e1 * top, pq(LIGHTS), LIGHTS))


LIGHTS = np.geomspace(1e-5, 10_000, 20_000)
NITS = np.array(
    [[0.0] * 3, [1.0] * 3, [20.0] * 3, [80.0] * 3, [203.0] * 3, [500.0] * 3, [4000.0] * 3, [80.0, 60, 50],
     [40.0, 80, 50], [50.0, 60, 85]]
)  # fmt: skip


def test_hazard_15_pq_becomes_srgb_with_highlights_compressed(tmp_path: Path) -> None:
    frame = frame_420(to_yuv(pq(patchwork(NITS)), 9, full=False, bits=10), 10)
    shown = first_frame(write_tagged(tmp_path / "a.mkv", frame, {**HDR_TAGS, "color_trc": 16})).pixels
    scaled = np.array([[compressed(nits) if len(set(row)) == 1 else nits for nits in row] for row in NITS])
    np.testing.assert_allclose(middles(shown), srgb(scaled / 203 @ TO_BT709.T), atol=4)


def test_hazard_15_hlg_becomes_srgb_on_a_display_of_1000_nits(tmp_path: Path) -> None:
    scene = np.repeat(np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2650, 0.5, 1.0])[:, None], 3, axis=1)
    frame = frame_420(to_yuv(hlg(patchwork(scene)), 9, full=False, bits=10), 10)
    shown = first_frame(write_tagged(tmp_path / "a.mkv", frame, {**HDR_TAGS, "color_trc": 18})).pixels
    light = np.array([[compressed(1000 * value**1.2) for value in row] for row in scene])  # gamma 1.2 (BT.2100)
    np.testing.assert_allclose(middles(shown), srgb(light / 203), atol=4)


# IPT-PQ-c2 as Dolby made it: Hunt-Pointer-Estevez cones of BT.2020 light, 2 % of each crossing over, in PQ, in IPT.
CONES = np.array([[0.40024, 0.7076, -0.08081], [-0.2263, 1.16532, 0.0457], [0, 0, 0.91822]]) @ BT2020
TO_IPT = np.array([[0.4, 0.4, 0.2], [4.455, -4.851, 0.396], [0.8056, 0.3572, -1.1628]])


def marked_as_dolby(path: Path, profile: int, compatible: int) -> Path:
    """An MP4 file with a record of Dolby Vision in the entry of its only stream (ETSI TS 103 572, box dvcC)."""
    data = path.read_bytes()
    record = struct.pack(">I4s5B19x", 32, b"dvcC", 1, 0, profile << 1, 0b110_101, compatible << 4)
    entry = data.index(b"hev1", data.index(b"stsd")) - 4
    end = entry + int.from_bytes(data[entry : entry + 4], "big")
    for kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"hev1"):
        at = data.index(kind, data.index(b"moov")) - 4
        data = data[:at] + struct.pack(">I", int.from_bytes(data[at : at + 4], "big") + len(record)) + data[at + 4 :]
    path.write_bytes(data[:end] + record + data[end:])
    return path


@pytest.mark.parametrize(
    ("profile", "compatible", "is_ipt"), [(5, 0, True), (10, 0, True), (8, 1, False), (8, 0, False)]
)
def test_hazard_229_dolby_vision_5_has_the_colours_that_it_was_made_of(
    tmp_path: Path, profile: int, compatible: int, is_ipt: bool
) -> None:
    light = (PATCHES / 255) ** 2.4 * 60  # so dark that nothing is compressed
    crossed = 0.94 * np.eye(3) + 0.02
    ipt = pq((light @ np.linalg.inv(TO_BT709).T @ CONES.T @ crossed).clip(0)) @ TO_IPT.T + [0, 0.5, 0.5]
    options = {"x265-params": "lossless=1:log-level=error:bframes=0"}
    film = Film([0], "libx265", "yuv420p10le", (16 * len(PATCHES), 16), options=options)
    frame = frame_420(np.moveaxis(patchwork(ipt * 1023), 2, 0), 10)
    path = marked_as_dolby(write_film(tmp_path / "a.mp4", film, [frame]), profile, compatible)
    with open_video(path) as video:
        shown = next(video.frames(parse_rule("every 1 s"))).pixels
    assert any("Dolby Vision" in note for note in video.notes) == is_ipt
    assert np.allclose(middles(shown), srgb(light / 203), atol=4) == is_ipt


def test_hazard_15_a_highlight_keeps_its_hue_and_order() -> None:
    signal = (65_535 * pq(np.array([[[300.0, 150, 75], [600.0, 300, 150], [900.0, 450, 225]]]))).astype(np.uint16)
    shown = to_srgb(signal, 16, 9).astype(int)[0]
    assert (np.diff(shown, axis=0) >= 0).all()
    assert (np.diff(shown, axis=1) < 0).all()


def test_hazard_15_wide_gamut_keeps_greys_and_moves_colours(tmp_path: Path) -> None:
    grey = np.array([[k, k, k] for k in (0.0, 30, 90, 150, 210, 255)])
    colours = np.array([[150.0, 140, 130], [120.0, 150, 140]])
    frame = frame_420(to_yuv(patchwork(np.vstack([grey, colours])) / 255, 9, full=False, bits=10), 10)
    shown = first_frame(write_tagged(tmp_path / "a.mkv", frame, {**HDR_TAGS, "color_trc": 14})).pixels
    linear = (colours / 255) ** 2.4 @ TO_BT709.T
    np.testing.assert_allclose(middles(shown), np.vstack([grey, 255 * linear ** (1 / 2.4)]), atol=3)


# -- alpha, grey, palette ------------------------------------------------------------------------------------------


def test_hazard_18_alpha_lies_over_white(tmp_path: Path) -> None:
    rgba = np.zeros((16, 64, 4), np.uint8)
    rgba[:, :16] = (200, 0, 0, 255)
    rgba[:, 16:32] = (200, 0, 0, 128)
    rgba[:, 32:48] = (0, 0, 0, 0)
    rgba[:, 48:] = (0, 90, 0, 64)
    film = Film([0, 40], codec="apng", pix_fmt="rgba", size=(64, 16))
    shown = first_frame(write_film(tmp_path / "a.apng", film, [rgba] * 2)).pixels
    white = Image.new("RGBA", (64, 16), "white")
    expected = np.asarray(Image.alpha_composite(white, Image.fromarray(rgba)).convert("RGB"))
    assert np.abs(shown.astype(int) - expected).max() <= 1


def test_hazard_18_an_animated_gif_of_another_program(tmp_path: Path) -> None:
    pictures = [np.full((20, 30), value, np.uint8) for value in (1, 2, 3)]
    for k, picture in enumerate(pictures):
        picture[:10, 10 * k : 10 * k + 10] = 0
    frames = [Image.fromarray(picture, "P") for picture in pictures]
    for frame in frames:
        frame.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0, 0, 0, 200])
    path = tmp_path / "a.gif"
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=[100, 700, 200], transparency=0, disposal=2, loop=0
    )
    with open_video(path) as video:
        shown = list(video.frames(parse_rule("every 0.05 s")))
    assert [frame.time_s for frame in shown] == pytest.approx([0.0, 0.1, 0.8])
    with Image.open(path) as reference:
        for k, frame in enumerate(shown):
            reference.seek(k)
            over = Image.alpha_composite(Image.new("RGBA", (30, 20), "white"), reference.convert("RGBA"))
            np.testing.assert_array_equal(frame.pixels, np.asarray(over.convert("RGB")))


@pytest.mark.parametrize("pix_fmt", ["gray", "gray10le", "gray16le"])
def test_hazard_18_grey(tmp_path: Path, pix_fmt: str) -> None:
    ramp = np.repeat(np.linspace(0, 255, 64).round().astype(np.uint8)[None], 16, axis=0)
    film = Film([0, 40], codec="ffv1", pix_fmt=pix_fmt, size=(64, 16))
    shown = first_frame(write_film(tmp_path / "a.mkv", film, [np.stack([ramp] * 3, axis=2)] * 2)).pixels
    assert np.abs(shown.astype(int) - ramp[..., None]).max() <= 2


def test_hazard_18_palette(tmp_path: Path) -> None:
    image = Image.fromarray(patchwork(PATCHES).astype(np.uint8)).quantize(8)
    path = tmp_path / "a.apng"
    image.save(path, format="PNG", save_all=True, append_images=[image.transpose(Image.Transpose.ROTATE_180)])
    shown = first_frame(path).pixels
    np.testing.assert_array_equal(shown, np.asarray(image.convert("RGB")))


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


@pytest.mark.parametrize("shape", [(1, 16_385), (16_385, 1)], ids=["wide", "high"])
def test_pictures_past_the_limits_are_refused(shape: tuple[int, int]) -> None:
    """A long thin one too: squeezed to a square, its matrix of weights would take gigabytes."""
    with pytest.raises(UsageError, match="at most 16,384 a side"):
        read_image(saved(shape, "PNG"), replace(IMAGE_LIMITS, max_pixels=10**6))


def test_a_picture_that_takes_too_long_or_too_much_is_stopped() -> None:
    """40 million pixels in a hundred scans: seconds of processor time, which no thread could be taken away from."""
    large = io.BytesIO()
    Image.new("RGB", (6_320, 6_320)).save(large, "JPEG", progressive=True)
    picture = with_last_scan_repeated(large.getvalue(), MAX_SCANS - 12)
    with pytest.raises(UsageError, match=r"no progress for 0\.2 s"):
        read_image(picture, replace(IMAGE_LIMITS, stall_timeout_s=0.2))
    with pytest.raises(UsageError, match="more than 200 MiB of memory"):
        read_image(picture, replace(IMAGE_LIMITS, memory_bytes=200 * 2**20))


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_picture_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.search.query.READER", "tests.media.stub_targets:HangingImages")
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
