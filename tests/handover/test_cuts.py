from __future__ import annotations

import itertools
import random
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.cuts import CutReader, encode_stretch, first_number, formats_for, layout_for
from evenreel.handover.frames import FileFacts
from evenreel.media import open_video
from evenreel.media.sampling import GivenTimes
from tests.media_files import Film, gop, number_in, numbered_picture, write_film
from tests.sound_files import Track, bursts, write_sound

COUNT = 150
GROUP = 24
REORDERED = 2
"""Most pictures after a stretch that its last ones refer to: of three B-pictures, the next P and the middle B."""
OPEN_GROUPS = ":open-gop=1:ref=3:b-adapt=0"
FILMS = {
    "plain.mp4": (Fraction(25), gop(GROUP)),
    "ntsc.mp4": (Fraction(30000, 1001), gop(GROUP, b_frames=2)),
    "film.mkv": (Fraction(24000, 1001), gop(GROUP, b_frames=3)),
    "open.mp4": (Fraction(25), gop(GROUP, b_frames=3, more=OPEN_GROUPS)),
    "open.ts": (Fraction(30000, 1001), gop(GROUP, b_frames=2, more=OPEN_GROUPS)),
    "fast.mov": (Fraction(60000, 1001), gop(GROUP, b_frames=2)),
    "endless.mkv": (Fraction(25), gop(1000, b_frames=1)),
}
RANDOM_CUTS = 21
"""Cuts that the suite makes; `scripts/random_cuts.py` makes 200."""


def film(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.exists():
        fps, options = FILMS[name]
        write_film(path, Film(range(COUNT), time_base=1 / fps, options=options))
    return path


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("films")


def shown(path: Path) -> list[tuple[int, Fraction]]:
    """Numbers of a file's frames and the times that they come on screen, from the first on."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    assert not any(frame.is_corrupt for frame in frames)
    times = [frame.pts * frame.time_base for frame in frames]
    return [
        (number_in(frame.to_ndarray(format="rgb24")), at - times[0]) for frame, at in zip(frames, times, strict=True)
    ]


@dataclass(frozen=True)
class Cut:
    path: Path
    said: dict[str, Any]


LIMITS = MediaLimits()
READER = CutReader(asdict(LIMITS))


def facts_of(path: Path) -> dict[str, Any]:
    return next(iter(READER({"facts": str(path)})))[0]


def cut(path: Path, start_s: Fraction, end_s: Fraction, *, exact: bool = False, out: Path | None = None) -> Cut:
    out, facts = out or path.with_suffix(".cut"), facts_of(path)
    kind = {"encode": str(path)} if exact else {"copy": str(path), "formats": formats_for(facts["container"], "")}
    *_, (said, _) = READER({"out": str(out), "stretch": [str(start_s), str(end_s)], "facts": facts, **kind})
    return Cut(out, said)


def check_cut(made: Cut, wanted: range, fps: Fraction, group: int) -> None:
    """It holds all frames that are wanted, in a row, less than a group before these, and what they refer to after."""
    numbers, times = zip(*shown(made.path), strict=True)
    assert set(wanted) <= set(numbers)
    assert numbers[0] <= wanted[0]
    whole = [number for number in numbers if number <= wanted[-1]]
    assert whole == list(range(numbers[0], wanted[-1] + 1)), "no frame is missing or comes twice"
    assert wanted[0] - numbers[0] < group, "it begins with the key frame before the stretch"
    assert len([number for number in numbers if number > wanted[-1]]) <= REORDERED
    for number, at in zip(numbers, times, strict=True):
        assert abs(at - (number - numbers[0]) / fps) <= Fraction(1, 900)  # a container may count in milliseconds


@pytest.mark.parametrize("number", range(RANDOM_CUTS))
def test_a_random_cut_holds_the_stretch_and_at_most_a_group_more(films: Path, tmp_path: Path, number: int) -> None:
    draw = random.Random(number)
    name = list(FILMS)[number % len(FILMS)]
    fps, group = FILMS[name][0], COUNT if name.startswith("endless") else GROUP
    first = draw.randrange(COUNT - 1)
    wanted = range(first, draw.randrange(first + 1, min(COUNT, first + 60) + 1))
    made = cut(film(films, name), wanted.start / fps, wanted.stop / fps, out=tmp_path / "cut")
    check_cut(made, wanted, fps, group)
    assert abs(Fraction(made.said["starts_s"]) - shown(made.path)[0][0] / fps) < Fraction(1, 900)


@pytest.mark.parametrize("name", FILMS)
def test_an_exact_cut_holds_the_frames_of_the_stretch_and_no_other(films: Path, tmp_path: Path, name: str) -> None:
    fps, wanted = FILMS[name][0], range(37, 61)
    made = cut(film(films, name), wanted.start / fps, wanted.stop / fps, exact=True, out=tmp_path / "cut")
    assert [(number, round(at * fps)) for number, at in shown(made.path)] == [(k, k - 37) for k in wanted]
    assert (made.said["format"], made.said["starts_s"]) == ("mp4", pytest.approx(float(37 / fps)))


def planes(path: Path) -> list[np.ndarray]:
    """Decoded pictures as they are, by a decoder that takes nothing that is not as the standard has it."""
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.options = {"err_detect": "explode+crccheck+bitstream+buffer"}
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def error(path: Path, first: int, film: Path, wanted: list[int]) -> float:
    """Mean squared difference of these pictures of a film and of a cut that begins with its picture `first`."""
    seen = []
    for one, begin in ((path, first), (film, 0)):
        with open_video(one, LIMITS) as video:
            times = GivenTimes([(number - begin + 0.5) / 25 for number in wanted])
            seen.append(np.array([frame.pixels.astype(float) for frame in video.frames(times)]))
    return float(np.mean((seen[0] - seen[1]) ** 2))


JOINED = {
    "plain.mp4": FILMS["plain.mp4"][1],
    "film.mkv": FILMS["film.mkv"][1],
    "pyramid.mov": {"preset": "medium", "x264-params": f"keyint={GROUP}:scenecut=0:bframes=5:b-pyramid=normal:ref=5"},
    "main.mp4": {**gop(GROUP, b_frames=1), "profile": "main"},
    "baseline.mp4": {**gop(GROUP), "profile": "baseline"},
    "slices.mkv": {**gop(GROUP, b_frames=2, more=":slices=4:sps-id=1"), "profile": "high"},
}


@pytest.mark.parametrize("name", JOINED)
def test_an_exact_cut_copies_what_lies_between_its_ends(tmp_path: Path, name: str) -> None:
    """Copied pictures are the film's bit by bit, and those at the ends are nearer to it than in a whole encode."""
    noise = np.random.default_rng(1).integers(0, 60, (11, 64, 96, 3))
    pictures = [(numbered_picture(k) // 2 + np.roll(noise[k // 9], k, 1)).astype(np.uint8) for k in range(96)]
    path = write_film(tmp_path / name, Film(range(96), time_base=Fraction(1, 25), options=JOINED[name]), pictures)
    of_film, facts = planes(path), FileFacts.from_json(facts_of(path))
    for wanted in (range(5, 75), range(24, 73), range(47, 96)):
        stretch = Fraction(wanted.start, 25), Fraction(wanted.stop, 25)
        made = cut(path, *stretch, exact=True, out=tmp_path / "joined.mp4")
        begin, end = made.said["copied"]
        assert begin == -(-wanted.start // GROUP) * GROUP
        assert wanted.stop - end < 6  # of the last group, those are copied that need nothing after the stretch
        assert [at for _, at in shown(made.path)] == [Fraction(k, 25) for k in range(len(wanted))]
        copied = planes(made.path)[begin - wanted.start : end - wanted.start]
        assert np.array_equal(copied, of_film[begin:end])
        list(encode_stretch(str(path), str(tmp_path / "whole.mp4"), stretch, facts, LIMITS))
        if ends := sorted(set(wanted) - set(range(begin, end))):
            errors = [error(tmp_path / one, wanted.start, path, ends) for one in ("joined.mp4", "whole.mp4")]
            assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("name", "film", "why"),
    [
        ("open.mp4", Film(range(150), options=FILMS["open.mp4"][1]), "no closed group of pictures begins in it"),
        ("a.avi", Film(range(150), options=gop(12)), "only H.264 in mp4, mov and Matroska is copied in part"),
        ("mpeg4.mp4", Film(range(150), codec="mpeg4"), "only H.264 in mp4, mov and Matroska is copied in part"),
        ("rare.mp4", Film(range(150), pix_fmt="yuv444p", options=gop(12)), "its form of H.264 is rare"),
        ("fields.mp4", Film(range(150), options=gop(12, more=":tff=1")), "damaged or interlaced"),
        ("phone.mp4", Film([*range(60), *range(63, 153)], options=gop(12)), "its frame rate varies"),
    ],
)
def test_what_cannot_be_joined_is_encoded_as_a_whole_and_says_why(
    tmp_path: Path, name: str, film: Film, why: str
) -> None:
    film = replace(film, time_base=Fraction(1, 25))
    path = write_film(tmp_path / name, film)
    made = cut(path, Fraction(37, 25), Fraction(61, 25), exact=True, out=tmp_path / "cut")
    assert why in made.said["why"] and "copied" not in made.said
    numbers = [number for number, _ in shown(made.path)]
    assert numbers == [number for number, at in enumerate(film.times) if 37 <= at < 61]


def test_a_gap_far_behind_the_pictures_that_are_looked_at_is_not_joined(tmp_path: Path) -> None:
    times = [*range(450), *range(453, 520)]
    path = write_film(tmp_path / "a.mp4", Film(times, time_base=Fraction(1, 25), options=gop(GROUP)))
    made = cut(path, Fraction(400, 25), Fraction(470, 25), exact=True, out=tmp_path / "cut")
    assert made.said["why"] == "a picture at its ends is missing, damaged or interlaced"
    assert [round(at * 25) for _, at in shown(made.path)] == [at - 400 for at in times if 400 <= at < 470]


def test_parameter_sets_that_change_on_the_way_are_not_joined(tmp_path: Path) -> None:
    """A film whose second half brings sets along that are not those in its head."""
    options = {"x264-params": f"keyint={GROUP}:scenecut=0:repeat-headers=1", "preset": "ultrafast"}
    films = [
        write_film(tmp_path / f"{number}.h264", Film(range(48), time_base=Fraction(1, 25), options=more), pictures)
        for number, more in enumerate((options, {**options, "x264-params": options["x264-params"] + ":ref=4"}))
        for pictures in [[numbered_picture(48 * number + k) for k in range(48)]]
    ]
    with av.open(str(tmp_path / "a.mkv"), "w") as target:
        for number, film in enumerate(films):
            with av.open(str(film)) as source:
                if not number:
                    stream = target.add_stream_from_template(source.streams.video[0])
                for place, packet in enumerate(one for one in source.demux(video=0) if one.size):
                    packet.pts = packet.dts = 48 * number + place
                    packet.time_base, packet.stream = Fraction(1, 25), stream
                    target.mux(packet)
    made = cut(tmp_path / "a.mkv", Fraction(20, 25), Fraction(90, 25), exact=True, out=tmp_path / "cut")
    assert made.said["why"] == "its parameter sets change on the way"
    assert [number for number, _ in shown(made.path)] == list(range(20, 90))


def test_numbers_of_parameter_sets_are_read_as_in_the_standards_table() -> None:
    for number, bits in ((0, "1"), (1, "010"), (2, "011"), (3, "00100"), (6, "00111"), (8, "0001001")):
        assert first_number(bytes([int(f"{bits:1<8}", 2), 255])) == number


def test_a_stretch_within_one_frame_gives_that_frame(films: Path, tmp_path: Path) -> None:
    path = film(films, "plain.mp4")
    made = cut(path, Fraction(1.01), Fraction(1.02), exact=True, out=tmp_path / "cut")
    assert [number for number, _ in shown(made.path)] == [25]


def test_what_a_format_cannot_hold_is_put_into_matroska(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mkv", Film(range(50), codec="libvpx", time_base=Fraction(1, 25)))
    task = {"copy": str(path), "out": str(tmp_path / "o"), "stretch": ["1/2", "3/2"], "facts": facts_of(path)}
    *_, (said, _) = READER({**task, "formats": ["mp4", "matroska"]})
    assert said["format"] == "matroska"
    assert {number for number, _ in shown(tmp_path / "o")} >= set(range(13, 37))


def test_a_container_without_times_is_encoded_anew_and_says_so(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.avi", Film(range(60), time_base=Fraction(1, 25), options=gop(12)))
    made = cut(path, Fraction(30, 25), Fraction(40, 25))
    assert made.said["why"] == "its container does not say when pictures are shown"
    assert [number for number, _ in shown(made.path)] == list(range(30, 40))


def test_recordings_joined_end_to_end_are_encoded_anew(tmp_path: Path) -> None:
    """The second one's timestamps begin anew, so a packet's own say not where it is."""
    path, parts = tmp_path / "joined.ts", []
    for number in range(2):
        pictures = [numbered_picture(100 * number + k) for k in range(75)]
        film = Film(range(75), time_base=Fraction(1, 25), options=gop(25))
        parts.append(write_film(tmp_path / f"{number}.ts", film, pictures).read_bytes())
    path.write_bytes(b"".join(parts))
    made = cut(path, Fraction(110, 25), Fraction(120, 25))
    assert made.said["why"] == "its timestamps step back on the way"
    assert [number for number, _ in shown(made.path)] == list(range(135, 145))
    before = cut(path, Fraction(30, 25), Fraction(40, 25), out=tmp_path / "before")
    assert "why" not in before.said
    assert [number for number, _ in shown(before.path)] == list(range(25, 40))


def test_a_film_of_varying_rate_is_cut_by_its_times(tmp_path: Path) -> None:
    times, at = [], 0
    for number in range(100):
        times.append(at)
        at += 20 if number % 3 else 70
    path = write_film(tmp_path / "phone.mp4", Film(times, options=gop(10)))
    facts = FileFacts.from_json(facts_of(path))
    assert "frame rate varies" in facts.note
    start_s, end_s = Fraction(times[44], 1000), Fraction(times[57], 1000)
    copied = [number for number, _ in shown(cut(path, start_s, end_s, out=tmp_path / "copied").path)]
    assert copied == list(range(40, 57))
    exact = shown(cut(path, start_s, end_s, exact=True, out=tmp_path / "exact").path)
    assert [number for number, _ in exact] == list(range(44, 57))
    assert [round(1000 * at) for _, at in exact] == [times[k] - times[44] for k in range(44, 57)]
    with av.open(str(tmp_path / "exact")) as container:
        assert container.duration == pytest.approx(float((end_s - start_s) * av.time_base), abs=1500)


def test_a_rate_that_editors_do_not_know_is_kept_and_counted_at_one_that_they_do(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mp4", Film(range(60), time_base=Fraction(1, 12), options=gop(12)))
    facts = FileFacts.from_json(facts_of(path))
    assert (facts.fps, facts.own_fps, facts.frames(Fraction(1), Fraction(2))) == (24, 12, range(24, 48))
    assert facts.note == "has 12 frames a second, which no editing program knows; they are counted at 24"
    exact = shown(cut(path, Fraction(1), Fraction(2), exact=True).path)
    assert exact == [(number, Fraction(number - 12, 12)) for number in range(12, 24)]


def beeps(path: Path) -> list[float]:
    """Times at which sound begins, on the clock of the pictures."""
    with av.open(str(path)) as container:
        first = min(frame.pts * frame.time_base for frame in container.decode(video=0))
    with av.open(str(path)) as container:
        rate = container.streams.audio[0].rate
        parts = [(frame.pts * frame.time_base, frame.to_ndarray()[0]) for frame in container.decode(audio=0)]
    loud = [float(at - first) + np.flatnonzero(np.abs(part) > 0.2) / rate for at, part in parts]
    times = np.concatenate(loud)
    return [float(times[0]), *(float(b) for a, b in itertools.pairwise(times) if b - a > 0.2)]


@pytest.mark.parametrize("exact", [False, True])
def test_sound_stays_with_its_pictures(tmp_path: Path, exact: bool) -> None:
    path = tmp_path / "beeps.mp4"
    write_sound(path, [Track(bursts([0.5, 1.5, 2.5, 3.5], 4.0))], pictures_s=4.0)
    made = cut(path, Fraction(7, 5), Fraction(14, 5), exact=exact)
    start_s = float(made.said["starts_s"])
    expected = [at - start_s for at in (0.5, 1.5, 2.5) if at >= start_s]
    assert beeps(made.path) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("container", "suffix", "formats"),
    [
        ("mp4", ".MOV", ["mov", "matroska"]),
        ("matroska", ".webm", ["matroska"]),
        ("mxf", ".mxf", ["mp4", "matroska"]),
    ],
)
def test_a_cut_has_the_format_of_its_file_where_it_can(container: str, suffix: str, formats: list[str]) -> None:
    assert formats_for(container, suffix) == formats


@pytest.mark.parametrize(
    ("name", "channels", "layout"),
    [("5.1(side)", 6, "5.1(side)"), ("2 channels", 2, "stereo"), ("7.1", 8, "5.1"), ("12 channels", 12, "stereo")],
)
def test_more_channels_than_the_encoder_takes_are_mixed_down(name: str, channels: int, layout: str) -> None:
    assert layout_for(name, channels) == layout


HUM_HZ, HUM_RATE = 440.0, 48_000


def hum(seconds: float, rate: int = HUM_RATE, channels: int = 1) -> np.ndarray:
    tone = 0.5 * np.sin(2 * np.pi * HUM_HZ * np.arange(round(seconds * rate)) / rate)
    return np.tile(tone.astype(np.float32), (channels, 1))


def heard(path: Path) -> tuple[np.ndarray, int, str]:
    """The first channel of a file's sound, its rate and layout."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        parts = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
        return np.concatenate(parts) if parts else np.zeros(0), stream.rate, stream.layout.name


def noise_share(samples: np.ndarray, rate: int) -> float:
    """How much of a sound is not the hum: power left by the best sine of its pitch, over all power."""
    turns = 2 * np.pi * HUM_HZ * np.arange(len(samples)) / rate
    waves = np.stack([np.sin(turns), np.cos(turns)], axis=1)
    left = samples - waves @ np.linalg.lstsq(waves, samples, rcond=None)[0]
    return float((left**2).sum() / (samples**2).sum())


@pytest.mark.parametrize(
    ("name", "track", "rate"),
    [
        ("times in milliseconds.mkv", Track(hum(3.0), HUM_RATE, "pcm_s16le"), HUM_RATE),
        ("times in milliseconds at another rate.mkv", Track(hum(3.0, 44_100), 44_100, "flac"), 44_100),
        ("channels without places.avi", Track(hum(3.0, channels=2), HUM_RATE, "pcm_s16le", "stereo"), HUM_RATE),
        ("a rate beyond the encoder's.mkv", Track(hum(3.0, 192_000), 192_000, "flac"), 96_000),
        ("six channels.mkv", Track(hum(3.0, channels=6), HUM_RATE, "flac", "5.1"), HUM_RATE),
        ("compressed.avi", Track(hum(3.0), HUM_RATE, "ac3"), HUM_RATE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("start_s", [0, 1])
def test_an_exact_cut_sounds_as_the_file_does(tmp_path: Path, name: str, track: Track, rate: int, start_s: int) -> None:
    path = write_sound(tmp_path / name, [track], pictures_s=3.0)
    made = cut(path, Fraction(start_s), Fraction(start_s + 1), exact=True)
    assert made.said["left_out"] == []
    samples, own_rate, layout = heard(made.path)
    assert (own_rate, layout) == (rate, track.layout)
    assert rate <= len(samples) <= rate * 1.1
    assert noise_share(samples[rate // 10 : rate * 9 // 10], rate) < 0.001


def test_hazard_189_sound_of_which_nothing_is_decoded_is_told(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "hum.mkv", [Track(hum(2.0), HUM_RATE, "flac")], pictures_s=2.0)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(audio=0) if packet.size]
    for at, size in packets:
        begin = data.index(b"\xff\xf8", at)  # how a frame of FLAC begins
        data[begin : begin + size] = bytes(size)
    path.write_bytes(data)
    made = cut(path, Fraction(0), Fraction(1), exact=True)
    assert made.said["left_out"] == ["sound"]
    assert [number for number, _ in shown(made.path)] == list(range(25))


def test_a_cut_that_cannot_be_written_is_one_sentence(films: Path, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="its cut cannot be written"):
        cut(film(films, "plain.mp4"), Fraction(1), Fraction(2), out=tmp_path / "nowhere" / "cut")
    full = Path("/dev/full")
    if full.exists():
        for exact in (False, True):
            with pytest.raises(MediaError, match=r"cannot be written \(no space left on device\); make room"):
                cut(film(films, "plain.mp4"), Fraction(1), Fraction(2), exact=exact, out=full)
