from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.media import open_video, parse_rule, probe
from evenreel.media.video import recorded_at
from tests.media.test_frames import shifted, write_with_sound
from tests.media_files import Film, all_times, gop, number_in, numbered_picture, remux, steady, write_film

SECONDS, FPS = 20, 25
COUNT = SECONDS * FPS
LIES = {
    "99 h": 99 * 3600.0, "47,721 h": 47_721 * 3600.0, "negative": -20.0, "not a number": math.nan, "infinite": math.inf,
    "1e308": 1e308, "too short": 2.0, "none": 0.0,
}  # fmt: skip
RULES = ["every 1 s", "every 3 s", "4 midpoints", "x_pool 5"]


@dataclass(frozen=True)
class Seen:
    """What is found in a file."""

    duration_s: float | None
    frame_count: int | None
    frames: tuple[tuple[float, int], ...]
    notes: tuple[str, ...]


def look(path: Path, rule: str = "every 1 s", limits: MediaLimits | None = None) -> Seen:
    with open_video(path, limits) as video:
        frames = tuple((round(frame.time_s, 3), number_in(frame.pixels)) for frame in video.frames(parse_rule(rule)))
        info = video.info
        return Seen(info.duration_s, info.frame_count, frames, tuple(video.notes))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same 20 s, 25 frames a second, in several containers."""
    folder = tmp_path_factory.mktemp("honest")
    made = write_film(folder / "a.mp4", Film(steady(COUNT, FPS), options=gop(50, b_frames=2)))
    vp8 = Film(steady(COUNT, FPS), codec="libvpx", options={"g": "50", "deadline": "realtime"})
    others = {kind: remux(made, folder / f"a.{kind}") for kind in ("mkv", "flv", "ts", "mov")}
    return {"mp4": made, "webm": write_film(folder / "a.webm", vp8), **others}


def patched(path: Path, target: Path, places: dict[int, bytes]) -> Path:
    data = bytearray(path.read_bytes())
    for place, value in places.items():
        data[place : place + len(value)] = value
    target.write_bytes(data)
    return target


def matroska_duration(path: Path, target: Path, seconds: float) -> Path:
    """The Duration of the Segment (EBML id 44 89, 8 bytes), without the tags that FFmpeg adds to the streams."""
    data = path.read_bytes()
    scaled = seconds * 1000 if abs(seconds) < 1e300 else seconds
    places = {data.index(b"\x44\x89\x88") + 3: struct.pack(">d", scaled)}
    return patched(path, target, places | {data.index(b"00:00:20"): bytes(18)})


def flv_duration(path: Path, target: Path, seconds: float) -> Path:
    return patched(path, target, {path.read_bytes().index(b"duration\0") + 9: struct.pack(">d", seconds)})


def mp4_duration(path: Path, target: Path, seconds: float) -> Path:
    """The duration of the media (`mdhd`, 32 bits of a clock of 16,000 a second)."""
    ticks = int(seconds * 16_000) & 0xFFFFFFFF if abs(seconds) < 1e300 else 0xFFFFFFFF
    return patched(path, target, {path.read_bytes().index(b"mdhd") + 20: ticks.to_bytes(4, "big")})


PATCHES: dict[str, Callable[[Path, Path, float], Path]] = {
    "mkv": matroska_duration, "webm": matroska_duration, "flv": flv_duration, "mp4": mp4_duration, "mov": mp4_duration,
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", PATCHES)
def test_a_header_that_lies_about_the_length_changes_nothing(
    honest: dict[str, Path], tmp_path: Path, kind: str, lie: str
) -> None:
    path = PATCHES[kind](honest[kind], tmp_path / f"lie.{kind}", LIES[lie])
    seen = look(path)
    assert seen.frames == tuple((float(k), FPS * k) for k in range(SECONDS))
    assert seen.duration_s == pytest.approx(SECONDS, abs=1.5 / FPS)
    assert seen.frame_count in (None, COUNT)
    assert [note.startswith("short: 20.00 of ") for note in seen.notes] in ([], [True])
    for rule in RULES:
        numbers, expected = ([number for _, number in look(one, rule).frames] for one in (path, honest[kind]))
        assert numbers == pytest.approx(expected, abs=1)  # without a header, FFmpeg forgets how long the last one stays
    assert probe(path).duration_s == seen.duration_s


TAGS = ["99:00:00.0", "-5:00:00.0", "00:00:nan", "00:-nan:0", "00:00:inf", "00:00:1e308", "1e9:0:0", "٠٠:٠٠:٢٠", ""]


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_of_a_matroska_stream_that_is_no_length(honest: dict[str, Path], tmp_path: Path, tag: str) -> None:
    place = honest["mkv"].read_bytes().index(b"00:00:20")
    seen = look(patched(honest["mkv"], tmp_path / "lie.mkv", {place: tag.encode().ljust(18, b"\0")[:18]}))
    assert (seen.duration_s, len(seen.frames)) == (20.0, SECONDS)


@pytest.mark.parametrize("kind", ["mkv", "webm", "mp4", "ts", "flv"])
@pytest.mark.parametrize("start_s", [5, 7200])
def test_hazard_13_a_file_that_starts_at_two_hours_is_as_long_as_its_frames(
    honest: dict[str, Path], tmp_path: Path, kind: str, start_s: int
) -> None:
    """The writer of Matroska puts the time of the end into its header: 7,220 s for these 20."""
    source = honest["webm" if kind == "webm" else "mp4"]
    path = remux(source, tmp_path / f"late.{kind}", shifted(Fraction(start_s)))
    limits = MediaLimits(max_frames=24)  # fewer than the header's seconds
    seen = look(path, limits=limits)
    assert seen == Seen(seen.duration_s, seen.frame_count, tuple((float(k), FPS * k) for k in range(SECONDS)), ())
    assert seen.duration_s == pytest.approx(20, abs=1e-6)
    info = probe(path)
    assert (info.fps, info.starts_s) == (pytest.approx(FPS), pytest.approx(start_s, abs=0.1))
    assert look(path, "4 midpoints").frames == look(source, "4 midpoints").frames
    assert look(path, "every 7 s").frames == look(source, "every 7 s").frames


def test_hazard_13_a_length_that_counts_from_the_first_frame(honest: dict[str, Path], tmp_path: Path) -> None:
    late = remux(honest["mp4"], tmp_path / "late.mkv", shifted(Fraction(7200)))
    data = late.read_bytes()
    places = {data.index(b"\x44\x89\x88") + 3: struct.pack(">d", 20_000.0), data.index(b"02:00:20"): bytes(18)}
    assert look(patched(late, tmp_path / "other.mkv", places)).notes == ()
    assert probe(tmp_path / "other.mkv").duration_s == 20.0


def test_hazard_13_a_cut_file_that_starts_late_says_what_is_missing(honest: dict[str, Path], tmp_path: Path) -> None:
    late = remux(honest["mp4"], tmp_path / "late.mkv", shifted(Fraction(7200)))
    data = late.read_bytes()
    late.write_bytes(data[: len(data) // 2])
    seen = look(late)
    assert seen.duration_s is not None and 7 < seen.duration_s < 12
    assert seen.notes == (f"short: {seen.duration_s:.2f} of 20.00 s can be read",)


def test_hazard_13_sound_that_begins_first_in_matroska(tmp_path: Path) -> None:
    """Its tag says when the pictures end, not how long they are."""
    write_with_sound(tmp_path / "a.mkv", Film([time + 1500 for time in steady(50)], options=gop(10)))
    seen = look(tmp_path / "a.mkv")
    assert (seen.duration_s, seen.frames, seen.notes) == (3.5, ((1.5, 0), (2.5, 25)), ())


@pytest.mark.parametrize("kind", ["ts", "mkv", "mp4"])
def test_hazard_228_a_recording_that_begins_in_the_middle_of_a_group(tmp_path: Path, kind: str) -> None:
    """The decoder drops its first pictures in silence; the file's clock has begun before, as FFmpeg's."""
    write_with_sound(tmp_path / "whole.ts", Film(steady(150), options=gop(50, b_frames=2)))
    path = tmp_path / "a.ts"
    path.write_bytes((tmp_path / "whole.ts").read_bytes()[188 * 60 :])
    if kind != "ts":
        path = remux(path, tmp_path / f"a.{kind}")
    with av.open(str(path)) as container:
        start_s, film = Fraction(container.start_time, 1_000_000), container.streams.video[0]
        frames = [(frame.pts, number_in(frame.to_ndarray(format="rgb24"))) for frame in container.decode(film)]
        times_s = [float(pts * film.time_base - start_s) for pts, _ in frames]
    seen = look(path, "every 0.02 s")
    assert times_s[0] > 0.5
    assert [time_s for time_s, _ in seen.frames] == pytest.approx(times_s, abs=2e-3)
    assert [number for _, number in seen.frames] == [number for _, number in frames]
    assert (seen.duration_s, seen.notes) == (pytest.approx(times_s[-1], abs=0.05), ())


def test_a_last_frame_that_is_said_to_stay_for_days_costs_no_moment(honest: dict[str, Path], tmp_path: Path) -> None:
    """Where nothing changes any more there is nothing to look at."""
    numbers, long_s = itertools.count(1), 9 * 3600

    def held(packet: av.Packet) -> av.Packet:  # type: ignore[type-arg]
        if next(numbers) == COUNT:
            packet.duration = int(long_s / packet.time_base)
        return packet

    path = remux(honest["mp4"], tmp_path / "held.mp4", held)
    seen = look(path, limits=MediaLimits(max_frames=SECONDS))
    assert seen.duration_s is not None and seen.duration_s > long_s
    assert seen.frames == tuple((float(k), FPS * k) for k in range(SECONDS))


@pytest.mark.parametrize(
    ("days", "stays", "duration_s"), [(29, True, 29 * 86400 + 19.96), (31, True, 20), (10**6, False, None)]
)
def test_hazard_233_a_length_past_thirty_days_is_doubted(
    honest: dict[str, Path], tmp_path: Path, days: int, stays: bool, duration_s: float | None
) -> None:
    numbers = itertools.count(1)

    def late(packet: av.Packet) -> av.Packet:  # type: ignore[type-arg]
        if next(numbers) == COUNT:
            ticks = int(days * 86400 / packet.time_base)
            packet.duration, packet.pts = (ticks, packet.pts) if stays else (1, ticks)
            packet.dts = packet.pts
        return packet

    info = probe(remux(honest["mp4"], tmp_path / "late.mkv", late))
    assert (info.duration_s, len(info.notes)) == (duration_s and pytest.approx(duration_s), int(days > 30))
    assert all(note.startswith(f"doubtful: it says that it lasts {days:,} days") for note in info.notes)


def test_a_video_that_is_longer_than_it_says_is_sampled_to_its_end(honest: dict[str, Path], tmp_path: Path) -> None:
    """Too many frames are noticed before the first is read, so that those that are kept are spread over all of it."""
    path = matroska_duration(honest["mkv"], tmp_path / "more.mkv", 2.0)
    seen = look(path, "every 0.5 s", MediaLimits(max_frames=10))
    assert [time_s for time_s, _ in seen.frames] == [2.0 * k for k in range(10)]
    assert seen.notes == ("sampled by 'every 2 s' instead of 'every 0.5 s': at most 10 frames are kept of a video",)


def test_joined_recordings_are_as_long_as_together(honest: dict[str, Path], tmp_path: Path) -> None:
    """Their last timestamp is that of the second alone."""
    path = tmp_path / "joined.ts"
    path.write_bytes(honest["ts"].read_bytes() * 2)
    seen = look(path, "4 midpoints")
    assert seen.duration_s == pytest.approx(2 * SECONDS)
    assert [number for _, number in seen.frames] == [125, 375, 125, 375]


def test_an_edit_list_that_cuts_the_end(honest: dict[str, Path], tmp_path: Path) -> None:
    """What it leaves out is not missing, however sparsely the rest is looked at."""
    data = honest["mp4"].read_bytes()
    edit = data.index(b"elst") + 12
    path = patched(honest["mp4"], tmp_path / "cut.mp4", {edit: (11_000).to_bytes(4, "big")})
    assert len(all_times(path)) == 11 * FPS
    for rule, expected in (("every 1 s", range(11)), ("every 7 s", (0, 7)), ("2 midpoints", (2.72, 8.24))):
        seen = look(path, rule)
        assert (seen.duration_s, seen.notes) == (11.0, ())
        assert [time_s for time_s, _ in seen.frames] == pytest.approx(list(expected), abs=0.05)


def test_what_is_wanted_costs_no_look_at_the_end_where_it_does_not_hang_on_it(
    honest: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenreel.media.sampling import GivenTimes
    from evenreel.media.video import Video

    monkeypatch.setattr(Video, "_measure", lambda *_, **__: pytest.fail("the packets were looked at"))
    with open_video(honest["mkv"]) as video:
        assert [frame.time_s for frame in video.frames(GivenTimes((3.0, 4.0)))] == [3.0, 4.0]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bits=st.binary(min_size=8, max_size=8))
def test_any_bits_in_the_place_of_the_length(honest: dict[str, Path], tmp_path: Path, bits: bytes) -> None:
    data = honest["mkv"].read_bytes()
    places = {data.index(b"\x44\x89\x88") + 3: bits, data.index(b"00:00:20"): bytes(18)}
    info = probe(patched(honest["mkv"], tmp_path / "lie.mkv", places))
    assert info.duration_s == pytest.approx(SECONDS, abs=1.5 / FPS)


def test_lengths_of_real_clips(real_clips: Path) -> None:
    known = {
        "flipping_a_pancake.mkv": 10.333, "kinetics_pool_cleaning.mp4": 10.0, "msrvtt_video7500.mp4": 50 / 3,
        "nasa_13013.mp4": 13.0, "ucf101_eye_makeup.avi": 6.56, "unordered.mov": 0.125, "video_90.mov": 0.1,
    }  # fmt: skip
    assert {name: probe(real_clips / name).duration_s for name in known} == pytest.approx(known)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"creation_time": "2024-05-31T12:03:04.000000Z"}, "2024-05-31T12:03:04Z"),
        ({"creation_time": "2024-05-31 12:03:04"}, "2024-05-31T12:03:04"),
        (
            {"creation_time": "2024-05-31T22:30:00Z", "com.apple.quicktime.creationdate": "2024-06-01T07:30:00+0900"},
            "2024-06-01T07:30:00",
        ),
        ({"DATE_RECORDED": "2011-02-03"}, "2011-02-03"),
        ({"date": "2011:02:03 04:05"}, "2011-02-03T04:05:00"),
        ({"creation_time": "1904-01-01T00:00:00Z", "date": "2015-01-02"}, "2015-01-02"),
        ({"creation_time": "1970-01-01T00:00:00Z"}, None),
        ({"creation_time": "2999-01-01T00:00:00Z"}, None),
        ({"date": "2024-13-45"}, None),
        ({"creation_time": "1903-12-31T23:00:00Z"}, None),
        ({"date": "1904-01-02T10:00:00"}, None),
        ({"date": "20240531"}, "2024-05-31"),
        ({"date": "20240531T120304.5Z"}, "2024-05-31T12:03:04Z"),
        ({"creation_time": "20240531T1203+0200"}, "2024-05-31T12:03:00"),
        ({"date": "2024"}, "2024"),
        ({"date": "2024-05"}, "2024-05"),
        ({"date": "1895-12-28"}, "1895-12-28"),
        ({"year": "1970", "creation_time": "1970-01-01T00:00:00Z"}, "1970"),
        ({"date": "1962-07-04 10:15"}, "1962-07-04T10:15:00"),
        ({"date": "1887"}, None),
        ({"date": "201305"}, None),
        ({"date": "20241345"}, None),
        ({"date": "2024-13"}, None),
        ({"date": "0000-00-00"}, None),
        ({"date": "yesterday"}, None),
        ({"title": "2024-05-31"}, None),
        ({}, None),
    ],
)
def test_days_are_read_from_what_players_and_phones_write(metadata: dict[str, str], expected: str | None) -> None:
    assert recorded_at(metadata) == expected


@pytest.mark.parametrize(("suffix", "key"), [(".mp4", "creation_time"), (".mkv", "creation_time"), (".mov", "date")])
def test_a_file_tells_when_it_was_recorded(tmp_path: Path, suffix: str, key: str) -> None:
    path = write_dated(tmp_path / f"a{suffix}", "2019-12-31T23:30:00Z", key)
    with open_video(path) as video:
        assert video.info.created == "2019-12-31T23:30:00Z"


def write_dated(path: Path, when: str, key: str = "date") -> Path:
    """A video of three frames that says when it was recorded."""
    with av.open(str(path), "w") as container:
        container.metadata[key] = when
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered_picture(number), "rgb24")))
        container.mux(stream.encode(None))
    return path
