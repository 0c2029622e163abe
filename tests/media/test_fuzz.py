from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule
from tests.media_files import Film, gop, steady, write_film

SEEDS = {
    "a.mp4": Film(steady(40), options=gop(10, b_frames=2)),
    "a.mkv": Film(steady(40), options=gop(10, b_frames=2)),
    "a.ts": Film(steady(40), options=gop(10, b_frames=2)),
    "a.avi": Film(range(40), codec="mpeg4", time_base=Fraction(1, 25), options={"g": "10", "bf": "2"}),
    "a.webm": Film(steady(40), codec="libvpx", options={"g": "10", "deadline": "realtime"}),
    "a.mpg": Film(range(40), codec="mpeg2video", time_base=Fraction(1, 25), options={"g": "10", "bf": "2"}),
    "a.gif": Film(steady(20), codec="gif", pix_fmt="rgb8"),
    "a.flv": Film(steady(40), options=gop(10)),
}
LIMITS = MediaLimits(max_frames=500, max_side_px=2048, max_pixels=2048 * 2048)
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    return {name: write_film(folder / name, film).read_bytes() for name, film in SEEDS.items()}


def survive(path: Path, data: bytes, rule: str) -> None:
    path.write_bytes(data)
    began = time.monotonic()
    times: list[float] = []
    try:
        with open_video(path, LIMITS) as video:
            for frame in video.frames(parse_rule(rule)):
                times.append(frame.time_s)
                assert frame.pixels.ndim == 3
                assert frame.pixels.dtype == np.uint8
    except MediaError as error:
        assert str(error)
        assert "\n" not in str(error)
    assert times == sorted(set(times))
    assert all(np.isfinite(times))
    assert len(times) <= LIMITS.max_frames
    assert time.monotonic() - began < PATIENCE_S


RULES = st.sampled_from(["every 0.04 s", "every 1 s", "5 midpoints", "x_pool 4", "clip4clip"])
FUZZ = settings(max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(name=st.sampled_from(sorted(SEEDS)), share=st.floats(0, 1), rule=RULES)
def test_cut_anywhere(seeds: dict[str, bytes], tmp_path: Path, name: str, share: float, rule: str) -> None:
    data = seeds[name]
    survive(tmp_path / name, data[: int(len(data) * share)], rule)


@FUZZ
@given(name=st.sampled_from(sorted(SEEDS)), seed=st.integers(0, 2**32 - 1), flips=st.integers(1, 200), rule=RULES)
def test_bits_flipped_anywhere(
    seeds: dict[str, bytes], tmp_path: Path, name: str, seed: int, flips: int, rule: str
) -> None:
    random = np.random.default_rng(seed)
    data = np.frombuffer(seeds[name], np.uint8).copy()
    data[random.integers(0, len(data), flips)] ^= (1 << random.integers(0, 8, flips)).astype(np.uint8)
    survive(tmp_path / name, data.tobytes(), rule)


@FUZZ
@given(name=st.sampled_from(sorted(SEEDS)), seed=st.integers(0, 2**32 - 1), rule=RULES)
def test_a_header_with_flipped_bits(seeds: dict[str, bytes], tmp_path: Path, name: str, seed: int, rule: str) -> None:
    """Flips where sizes, time bases and counts are told: the first and the last 600 bytes."""
    random = np.random.default_rng(seed)
    data = np.frombuffer(seeds[name], np.uint8).copy()
    places = np.concatenate([random.integers(0, 600, 6), len(data) - 1 - random.integers(0, 600, 6)])
    data[places] ^= (1 << random.integers(0, 8, len(places))).astype(np.uint8)
    survive(tmp_path / name, data.tobytes(), rule)


HEADS = [
    b"", b"\x00\x00\x00\x20ftypisom", b"\x1a\x45\xdf\xa3", b"RIFF\x00\x10\x00\x00AVI ", b"GIF89a", b"FLV\x01\x05",
    b"\x47", b"OggS\x00\x02", b"\x00\x00\x01\xba",
]  # fmt: skip


@FUZZ
@given(head=st.sampled_from(HEADS), tail=st.binary(max_size=4000))
def test_random_bytes_behind_a_promising_head(tmp_path: Path, head: bytes, tail: bytes) -> None:
    survive(tmp_path / "a.mp4", head + tail, "every 1 s")


def test_a_playlist_inside_a_transport_stream_is_only_bytes(tmp_path: Path, seeds: dict[str, bytes]) -> None:
    survive(tmp_path / "a.ts", seeds["a.ts"] + b"ffconcat version 1.0\nfile other.ts\n", "every 0.04 s")
