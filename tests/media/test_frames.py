"""The right frame at the right time: each frame carries its number, so a wrong one shows itself."""

from __future__ import annotations

import bisect
import gc
import hashlib
import itertools
import os
import resource
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule, probe
from evenreel.media import video as of_videos
from evenreel.media.video import Video
from evenreel.types import Frame
from tests.media_files import Film, all_times, gop, number_in, remux, steady, write_film

EVERY_FRAME = parse_rule("every 0.005 s")
NO_CAP = MediaLimits(max_frames=1_000_000)


def x265(keyframes: int, more: str = "") -> dict[str, str]:
    parts = f"keyint={keyframes}:min-keyint={keyframes}:scenecut=0:bframes=3:log-level=none:pools=none{more}"
    return {"preset": "ultrafast", "x265-params": parts}


VFR = [0, 33, 66, 100, 300, 500, 700, 1500, 1540, 1580, 1620, 4000, 4010, 4020, 7000, 9000]
TICKS = Fraction(1, 25)
FILMS: dict[str, Film] = {
    "b-frames.mp4": Film(steady(150), options=gop(30, b_frames=3)),
    "open-gop.mp4": Film(steady(150), options=gop(30, b_frames=3, more=":open-gop=1")),
    "open-gop.mkv": Film(steady(150), options=gop(30, b_frames=3, more=":open-gop=1")),
    "open-gop.ts": Film(steady(150), options=gop(30, b_frames=3, more=":open-gop=1")),
    "one-gop.mp4": Film(steady(150), options=gop(1000, b_frames=2)),
    "intra-refresh.mp4": Film(steady(150), options=gop(30, more=":intra-refresh=1")),
    "intra-refresh.ts": Film(steady(150), options=gop(30, more=":intra-refresh=1")),
    "hevc-open-gop.mp4": Film(steady(100), codec="libx265", size=(128, 96), options=x265(20, ":open-gop=1")),
    "hevc-open-gop.mkv": Film(steady(100), codec="libx265", size=(128, 96), options=x265(20, ":open-gop=1")),
    "vp9.webm": Film(steady(60), codec="libvpx-vp9", options={"g": "15", "deadline": "realtime", "cpu-used": "8"}),
    "vp8.webm": Film(steady(60), codec="libvpx", options={"g": "15", "deadline": "realtime"}),
    "av1.mp4": Film(steady(40), codec="libsvtav1", options={"preset": "12", "g": "10"}),
    "mpeg2.ts": Film(range(100), codec="mpeg2video", time_base=TICKS, options={"g": "12", "bf": "2"}),
    "mpeg2.mpg": Film(range(100), codec="mpeg2video", time_base=TICKS, options={"g": "12", "bf": "2"}),
    "mpeg2.m2v": Film(range(50), codec="mpeg2video", time_base=TICKS, options={"g": "12", "bf": "2"}),
    "mpeg2.mxf": Film(range(50), codec="mpeg2video", time_base=TICKS),
    "mpeg4.avi": Film(range(100), codec="mpeg4", time_base=TICKS, options={"g": "12", "bf": "2"}),
    "h264.flv": Film(steady(100), options=gop(20, b_frames=2)),
    "wmv2.wmv": Film(range(60), codec="wmv2", time_base=TICKS, options={"g": "12"}),
    "ffv1.mkv": Film(steady(20), codec="ffv1"),
    "prores.mov": Film(steady(10), codec="prores_ks", pix_fmt="yuv422p10le"),
    "mjpeg.mov": Film(steady(30), codec="mjpeg", pix_fmt="yuvj420p"),
    "animated.gif": Film(range(0, 100, 4), codec="gif", pix_fmt="rgb8", time_base=Fraction(1, 100)),
    "animated.apng": Film(steady(10), codec="apng", pix_fmt="rgba"),
    "vfr.mp4": Film(VFR, options=gop(4, b_frames=2)),
    "vfr.mkv": Film(VFR, options=gop(4, b_frames=2)),
    "fps120.mp4": Film(range(240), time_base=Fraction(1, 120), options=gop(60, b_frames=2)),
    "ntsc.mp4": Film(range(0, 150 * 1001, 1001), time_base=Fraction(1, 30_000), options=gop(30, b_frames=2)),
    "minute.mp4": Film(steady(1500), options=gop(50, b_frames=2)),
    "minute.mkv": Film(steady(1500), options=gop(50, b_frames=2, more=":open-gop=1")),
    "minute.ts": Film(steady(1500), options=gop(50, b_frames=2)),
}
RULES = ["every 0.005 s", "every 0.3 s", "every 1 s", "every 17 s", "1 midpoints", "3 midpoints", "8 midpoints"]


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every film."""
    folder = tmp_path_factory.mktemp("films")
    for name, film in FILMS.items():
        write_film(folder / name, film)
    if hasattr(os, "sched_setscheduler"):  # run by root, SVT-AV1 makes this process and its children ones of real time
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return folder


def check_numbers(numbers: list[int], times: list[float], wanted: Iterator[float]) -> None:
    """The slow way: for each wanted time the last frame not after it, each frame once.

    How long the last frame stays is the container's say: it may or may not answer what is wanted after it.
    """
    expected: list[int] = []
    last = len(times) - 1
    for time in itertools.takewhile(lambda time: time <= times[-1] + 1e-6, wanted):
        number = max(0, bisect.bisect_right(times, time + 1e-6) - 1)
        if number not in expected:
            expected.append(number)
    assert numbers in (expected, [*expected, last])


@pytest.mark.parametrize("name", FILMS)
def test_every_frame_has_its_own_time(films: Path, name: str) -> None:
    expected = all_times(films / name)
    with open_video(films / name, NO_CAP) as video:
        frames = list(video.frames(EVERY_FRAME))
        assert video.notes == []
    assert [number_in(frame.pixels) for frame in frames] == list(range(len(FILMS[name].times)))
    assert [frame.time_s for frame in frames] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FILMS)
def test_skipping_and_seeking_give_what_decoding_everything_gives(films: Path, name: str, rule: str) -> None:
    times = all_times(films / name)
    with open_video(films / name, NO_CAP) as video:
        frames = list(video.frames(parse_rule(rule)))
        end_s = video.info.duration_s or times[-1] + 0.04
    numbers = [number_in(frame.pixels) for frame in frames]
    check_numbers(numbers, times, parse_rule(rule).times(0.0, end_s))  # type: ignore[union-attr]
    assert [frame.time_s for frame in frames] == pytest.approx([times[number] for number in numbers], abs=1e-9)


@pytest.mark.parametrize("name", ["minute.mp4", "minute.mkv", "minute.ts"])
def test_sparse_wishes_decode_only_the_runs_they_need(films: Path, name: str) -> None:
    with open_video(films / name, NO_CAP) as video:
        assert len(list(video.frames(parse_rule("every 20 s")))) == 3
        assert video._source.reader.packets < 120  # three runs of at most 50 would be 150, of 1500
        assert len(list(video.frames(EVERY_FRAME))) == 1500
        assert video._source.reader.packets == 1500


def test_far_wishes_do_not_read_the_packets_between(films: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counting(of_videos.Demuxer):
        def __iter__(self) -> Iterator[av.Packet]:  # type: ignore[type-arg]
            for packet in super().__iter__():
                read.append(packet.pts or 0)
                yield packet

    monkeypatch.setattr(of_videos, "Demuxer", Counting)
    with open_video(films / "minute.mp4") as video:
        assert len(list(video.frames(parse_rule("every 25 s")))) == 3
    assert len(read) < 750


@pytest.mark.parametrize("name", ["minute.mp4", "minute.mkv"])
@pytest.mark.parametrize("error_s", [-30, 5, 30])
def test_a_seek_that_lands_elsewhere_costs_time_only(
    films: Path, name: str, error_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seek = of_videos.Demuxer.seek

    def astray(self: of_videos.Demuxer, timestamp: int) -> bool:
        return seek(self, max(0, timestamp + int(error_s / of_videos.time_base_of(self._stream))))

    monkeypatch.setattr(of_videos.Demuxer, "seek", astray)
    with open_video(films / name) as video:
        numbers = [number_in(frame.pixels) for frame in video.frames(parse_rule("every 17 s"))]
    assert numbers == [0, 425, 850, 1275]


@pytest.mark.parametrize("name", ["b-frames.mp4", "vfr.mkv", "mpeg2.ts", "animated.gif", "mpeg4.avi", "mpeg2.m2v"])
@pytest.mark.parametrize("rule", ["clip4clip", "clip4clip 3", "x_pool", "x_pool 5", "frozen"])
def test_rules_by_number_count_frames_as_shown(films: Path, name: str, rule: str) -> None:
    count = len(FILMS[name].times)
    with open_video(films / name) as video:
        fps = video._source.stream.guessed_rate
        numbers = [number_in(frame.pixels) for frame in video.frames(parse_rule(rule))]
    assert numbers == parse_rule(rule).indices(count, float(fps))  # type: ignore[union-attr]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_timestamps_any_period(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    gaps = data.draw(st.lists(st.sampled_from([1, 20, 33, 40, 1000, 5000]), min_size=1, max_size=40), label="gaps")
    keyframes = data.draw(st.integers(1, 12), label="keyframes")
    b_frames = data.draw(st.integers(0, 3), label="b_frames")
    period = data.draw(st.sampled_from(["0.04", "0.5", "3", "11"]), label="period")
    name = data.draw(st.sampled_from(["a.mp4", "a.mkv"]), label="name")
    stamps = [0, *np.cumsum(gaps).tolist()]
    path = tmp_path_factory.mktemp("film") / name
    write_film(path, Film(stamps, options=gop(keyframes, b_frames=b_frames)))
    times = all_times(path)
    rule = parse_rule(f"every {period} s")
    with open_video(path, NO_CAP) as video:
        frames = list(video.frames(rule))
    numbers = [number_in(frame.pixels) for frame in frames]
    check_numbers(numbers, times, rule.times(0.0, 0.0))  # type: ignore[union-attr]


# -- hazards -------------------------------------------------------------------------------------------------


def read_all(path: Path, rule: str = "every 0.005 s") -> tuple[list[Frame], Video]:
    with open_video(path, NO_CAP) as video:
        return list(video.frames(parse_rule(rule))), video


def cut(path: Path, share: float) -> Path:
    data = path.read_bytes()
    target = path.with_stem(path.stem + "-cut")
    target.write_bytes(data[: int(len(data) * share)])
    return target


def test_hazard_4_a_cut_mkv_is_read_to_where_it_ends_and_says_so(films: Path) -> None:
    frames, video = read_all(cut(films / "open-gop.mkv", 0.6))
    numbers = [number_in(frame.pixels) for frame in frames]
    assert numbers[:60] == list(range(60))
    assert numbers == sorted(set(numbers))
    assert [frame.time_s for frame in frames] == pytest.approx([0.04 * number for number in numbers])
    assert video.notes == [f"short: {frames[-1].time_s + 0.04:.2f} of 6.00 s can be read"]


@pytest.mark.parametrize("name", ["open-gop.mkv", "mpeg4.avi", "vp9.webm", "h264.flv"])
def test_hazard_4_midpoints_are_those_of_what_is_there(films: Path, name: str) -> None:
    frames, video = read_all(cut(films / name, 0.6), "4 midpoints")
    assert len(frames) == 4
    assert any(note.startswith("short: ") for note in video.notes)
    last = frames[-1].time_s
    assert frames[1].time_s - frames[0].time_s == pytest.approx(last / 3.5, rel=0.35)


def test_hazard_5_a_damaged_stretch_is_stepped_over_and_counted(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mkv", Film(steady(250), options=gop(10)))

    def damage(packet: av.Packet) -> av.Packet:  # type: ignore[type-arg]
        if packet.pts is None or not 4_000 <= packet.pts < 4_200:
            return packet
        broken = av.Packet(b"\xff" * packet.size)
        broken.pts, broken.dts, broken.time_base = packet.pts, packet.dts, packet.time_base
        broken.is_keyframe = packet.is_keyframe
        return broken

    frames, video = read_all(remux(path, tmp_path / "b.mkv", damage))
    numbers = [number_in(frame.pixels) for frame in frames]
    assert set(range(100)) | set(range(110, 250)) <= set(numbers)
    assert video.notes == ["damaged: 5 of 250 packets cannot be decoded, which spoils 4% of the pictures"]


def test_hazard_5_a_video_that_is_mostly_damage_is_set_aside_after_its_good_frames(real_clips: Path) -> None:
    seen = 0
    with (
        pytest.raises(MediaError, match="40% of the pictures") as caught,
        open_video(real_clips / "corrupted.mp4") as video,
    ):
        for _ in video.frames(parse_rule("every 1 s")):
            seen += 1
    assert caught.value.reason == "damaged"
    assert seen >= 3
    with open_video(real_clips / "corrupted.mp4", MediaLimits(max_damaged_share=0.5)) as video:
        assert len(list(video.frames(parse_rule("every 1 s")))) == 5


def test_hazard_6_a_header_that_claims_more_frames_than_there_are(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.avi", Film(range(30), codec="mpeg4", time_base=TICKS, options={"g": "10"}))
    data = path.read_bytes()
    header = data.index(b"strh") + 8 + 32  # dwLength of the stream header
    main = data.index(b"avih") + 8 + 16  # dwTotalFrames
    lie = (3000).to_bytes(4, "little")
    data = data[:main] + lie + data[main + 4 : header] + lie + data[header + 4 :]
    path.write_bytes(data)
    assert (probe(path).frame_count, probe(path).duration_s) == (30, 1.2)
    frames, video = read_all(path)
    assert [number_in(frame.pixels) for frame in frames] == list(range(30))
    assert video.notes == ["short: 1.20 of 120.00 s can be read"]
    assert len(read_all(path, "x_pool 12")[0]) == 12
    assert len(read_all(path, "8 midpoints")[0]) == 8


@pytest.mark.parametrize("rule", ["every 1 s", "8 midpoints", "clip4clip", "x_pool", "frozen"])
def test_hazard_10_a_single_frame(tmp_path: Path, rule: str) -> None:
    for name in ("a.mp4", "a.mkv", "a.ts"):
        frames, _ = read_all(write_film(tmp_path / name, Film([0])), rule)
        assert [(frame.time_s, number_in(frame.pixels)) for frame in frames] == [(0.0, 0)]


def test_hazard_10_less_than_a_second(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mp4", Film(steady(10)))
    assert [frame.time_s for frame in read_all(path, "every 1 s")[0]] == [0.0]
    assert len(read_all(path, "8 midpoints")[0]) == 8


def test_hazard_11_ten_hours(tmp_path: Path) -> None:
    """36 000 s, a frame each 10 s: memory stays, the cap is stated, and the last hour is there."""
    film = Film(range(0, 36_000, 10), time_base=Fraction(1), options=gop(10), size=(48, 32))
    path = write_film(tmp_path / "a.mp4", film)
    with open_video(path, MediaLimits(max_frames=20)) as video:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = [frame.time_s for frame in video.frames(parse_rule("every 1 s"))]
        assert video._source.reader.packets < 1000
    period_s = probe(path).duration_s / 20  # type: ignore[operator]
    assert video.notes == [
        f"sampled by 'every {period_s:g} s' instead of 'every 1 s': at most 20 frames are kept of a video"
    ]
    assert times == [10 * int(k * period_s / 10) for k in range(20)]
    assert times[-1] > 9 * 3600
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_hazard_11_no_frame_is_kept_by_the_reader(films: Path) -> None:
    alive: list[weakref.ref[np.ndarray]] = []  # type: ignore[type-arg]
    with open_video(films / "b-frames.mp4") as video:
        for frame in video.frames(EVERY_FRAME):
            alive.append(weakref.ref(frame.pixels))
            del frame
            gc.collect(0)
            assert sum(reference() is not None for reference in alive) <= 1


def test_hazard_12_frames_are_missing_in_a_steady_film(tmp_path: Path) -> None:
    dropped = [time for k, time in enumerate(steady(100)) if k % 7 and not 40 < k < 60]
    path = write_film(tmp_path / "a.mp4", Film(dropped, options=gop(10, b_frames=2)))
    frames, _ = read_all(path, "every 0.5 s")
    shown = [max(k for k, time in enumerate(dropped) if time - dropped[0] <= 500 * n) for n in range(8)]
    assert [number_in(frame.pixels) for frame in frames] == list(dict.fromkeys(shown))


def shifted(by_s: Fraction) -> object:
    def change(packet: av.Packet) -> av.Packet:  # type: ignore[type-arg]
        ticks = int(by_s / packet.time_base)
        packet.pts, packet.dts = (packet.pts or 0) + ticks, (packet.dts or 0) + ticks
        return packet

    return change


@pytest.mark.parametrize("name", ["late.mp4", "late.mkv", "late.ts", "late.flv"])
def test_hazard_13_a_start_above_zero_is_zero(films: Path, tmp_path: Path, name: str) -> None:
    path = remux(films / "b-frames.mp4", tmp_path / name, shifted(Fraction(5)))
    frames, _ = read_all(path, "every 1 s")
    assert [(round(frame.time_s, 3), number_in(frame.pixels)) for frame in frames] == [(k, 25 * k) for k in range(6)]


def test_hazard_13_an_edit_list_that_cuts_the_beginning(films: Path, tmp_path: Path) -> None:
    path = remux(films / "b-frames.mp4", tmp_path / "a.mp4", shifted(Fraction(-1)))  # writes an edit list
    frames, _ = read_all(path, "every 1 s")
    assert [(frame.time_s, number_in(frame.pixels)) for frame in frames] == [(k, 25 * (k + 1)) for k in range(5)]


def test_hazard_13_sound_that_begins_before_the_pictures(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_with_sound(path, Film([time + 1500 for time in steady(50)], options=gop(10)))
    with open_video(path) as video:
        frames = list(video.frames(parse_rule("every 1 s")))
    assert [(frame.time_s, number_in(frame.pixels)) for frame in frames] == [(1.5, 0), (2.5, 25)]


def write_with_sound(path: Path, film: Film) -> None:
    """A film beside two seconds of silence that begin at zero."""
    pictures = write_film(path.with_stem("pictures"), film)
    with av.open(str(pictures)) as reader, av.open(str(path), "w") as writer:
        copy = writer.add_stream_from_template(reader.streams.video[0])
        sound = writer.add_stream("aac", rate=48_000)
        for k in range(94):
            frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), "fltp", "stereo")
            frame.sample_rate, frame.pts = 48_000, k * 1024
            writer.mux(sound.encode(frame))
        for packet in reader.demux(video=0):
            if packet.dts is not None:
                packet.stream = copy
                writer.mux(packet)
        writer.mux(sound.encode(None))


def test_hazard_13_joined_recordings_run_on(films: Path, tmp_path: Path) -> None:
    path = tmp_path / "joined.ts"
    path.write_bytes((films / "open-gop.ts").read_bytes() * 2)
    frames, video = read_all(path)
    assert [number_in(frame.pixels) for frame in frames] == [*range(150), *range(150)]
    assert [frame.time_s for frame in frames] == pytest.approx([k * 0.04 for k in range(300)], abs=1e-6)
    assert video.notes == ["timestamps step back at 6.00 s; they are continued from there"]
    sparse, _ = read_all(path, "every 4 s")
    assert [number_in(frame.pixels) for frame in sparse] == [0, 100, 50]


def test_hazard_17_the_picture_size_changes(films: Path, tmp_path: Path) -> None:
    big = write_film(tmp_path / "big.ts", Film(steady(50), size=(192, 128), options=gop(25)))
    path = tmp_path / "joined.ts"
    path.write_bytes((films / "open-gop.ts").read_bytes() + big.read_bytes())
    frames, video = read_all(path)
    assert [number_in(frame.pixels) for frame in frames] == [*range(150), *range(50)]
    assert {frame.pixels.shape for frame in frames} == {(64, 96, 3), (128, 192, 3)}
    assert video.notes[0] == "the picture size changes on the way: 96 x 64, then others"


def test_hazard_17_of_several_video_streams_the_default_is_read(films: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    other = write_film(tmp_path / "other.mp4", Film(steady(20), size=(48, 32)))
    write_streams(path, [(films / "b-frames.mp4", 0), (other, 1)])
    with open_video(path) as video:
        assert (video.info.width, video.info.height) == (48, 32)
        assert video.notes == ["2 video streams; number 2 of them is used"]
        assert len(list(video.frames(EVERY_FRAME))) == 20


def write_streams(path: Path, films: Sequence[tuple[Path, int]]) -> None:
    """The pictures of several films beside each other, each marked default or not."""
    with av.open(str(path), "w") as writer, ExitStack() as opened:
        readers = [(opened.enter_context(av.open(str(film))), default) for film, default in films]
        copies = [writer.add_stream_from_template(reader.streams.video[0]) for reader, _ in readers]
        for copy, (_, default) in zip(copies, readers, strict=True):
            copy.disposition = av.stream.Disposition.default if default else av.stream.Disposition.forced
        for copy, (reader, _) in reversed(list(zip(copies, readers, strict=True))):
            for packet in reader.demux(video=0):
                if packet.dts is not None:
                    packet.stream = copy
                    writer.mux(packet)


@pytest.mark.parametrize("marked", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("name", ["cover_first.mkv", "cover_last.mkv", "cover_first.mp4", "cover_last.mp4"])
def test_hazard_227_one_picture_beside_a_film_is_its_cover(
    films: Path, tmp_path: Path, name: str, marked: tuple[int, int]
) -> None:
    cover, film = write_film(tmp_path / "cover.mp4", Film([0], size=(48, 32))), films / "b-frames.mp4"
    both = [(cover, marked[0]), (film, marked[1])]
    write_streams(tmp_path / name, both if "first" in name else both[::-1])
    with open_video(tmp_path / name) as video:
        assert (video.info.width, video.info.duration_s) == (96, pytest.approx(6))
        assert [number_in(frame.pixels) for frame in video.frames(EVERY_FRAME)] == list(range(150))


def test_probe_says_what_header_and_packets_say(films: Path) -> None:
    info = probe(films / "b-frames.mp4")
    assert (info.container, info.codec, info.width, info.height) == ("mp4", "H.264", 96, 64)
    assert (info.duration_s, info.frame_count, info.fps, info.rotation) == (6.0, 150, 25.0, 0)
    codecs = {"av1.mp4": "AV1", "hevc-open-gop.mkv": "HEVC", "vp9.webm": "VP9", "prores.mov": "ProRes"}
    assert {name: probe(films / name).codec for name in codecs} == codecs  # not of a decoder, such as libdav1d
    assert probe(films / "open-gop.mkv").frame_count is None
    assert (probe(films / "mpeg2.m2v").duration_s, probe(films / "mpeg2.m2v").frame_count) == (2.0, 50)  # counted


# -- real clips ------------------------------------------------------------------------------------------------


def test_an_avi_with_packed_b_frames_is_evenly_spaced(real_clips: Path) -> None:
    frames, video = read_all(real_clips / "ucf101_eye_makeup.avi")
    assert [frame.time_s for frame in frames] == pytest.approx([k / 25 for k in range(164)])
    assert video.notes == []


@pytest.mark.parametrize("name", [
    "cogvideox_1.mp4", "flipping_a_pancake.mkv", "kinetics_pool_cleaning.mp4", "msrvtt_video7500.mp4",
    "nasa_13013.mp4", "ucf101_eye_makeup.avi",
])  # fmt: skip
def test_sparse_frames_of_real_clips_are_those_of_all_frames(real_clips: Path, name: str) -> None:
    with open_video(real_clips / name) as video:
        everything = {frame.time_s: hashed(frame) for frame in video.frames(EVERY_FRAME)}
        for rule in ("every 3 s", "3 midpoints", "x_pool 5"):
            for frame in video.frames(parse_rule(rule)):
                assert everything[frame.time_s] == hashed(frame)


def hashed(frame: Frame) -> str:
    return hashlib.sha256(frame.pixels.tobytes()).hexdigest()
