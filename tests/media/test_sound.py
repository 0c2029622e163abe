"""Sound is read on the clock of the pictures, mixed to one channel, from the right stream, whatever the file is."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from av.stream import Disposition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.sound import SAMPLE_RATE, SoundBlock, _blocks, open_sound
from tests.media_files import ENCRYPTION
from tests.sound_files import Track, burst_times, bursts, write_sound

TIMES = [0.3, 0.9, 1.5]
CODEC_DELAY_S = 0.015  # encoders whose containers cannot say so begin late by a part of a frame


def read(path: Path, language: str | None = None) -> tuple[list[SoundBlock], list[str]]:
    with open_sound(path, language=language) as sound:
        return list(sound.blocks()), sound.notes


def heard(blocks: list[SoundBlock]) -> list[float]:
    """When bursts begin, on the clip's clock."""
    return [block.start_s + time for block in blocks for time in burst_times(block.samples)]


def failure(path: Path, limits: MediaLimits | None = None) -> MediaError:
    with pytest.raises(MediaError) as caught, open_sound(path, limits) as sound:
        list(sound.blocks())
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("name", "codec", "rate", "layout"),
    [
        ("a.mp4", "aac", 44_100, "stereo"),
        ("a.mkv", "libopus", 48_000, "stereo"),
        ("a.avi", "pcm_s16le", 8_000, "mono"),
        ("a.ts", "ac3", 48_000, "5.1"),
        ("a.mp4", "libmp3lame", 22_050, "mono"),
        ("a.mkv", "flac", 44_100, "5.1"),
        ("a.mpg", "mp2", 48_000, "stereo"),
        ("a.mov", "pcm_s24le", 48_000, "stereo"),
        ("a.mkv", "pcm_f32le", 11_025, "3.0"),
    ],
)
def test_every_kind_of_sound_is_heard_when_it_is_heard_in_a_player(
    tmp_path: Path, name: str, codec: str, rate: int, layout: str
) -> None:
    channels = len(av.AudioLayout(layout).channels)
    samples = np.tile(bursts(TIMES, 2.0, rate), (channels, 1))
    blocks, notes = read(write_sound(tmp_path / name, [Track(samples, rate, codec, layout)]))
    assert heard(blocks) == pytest.approx(TIMES, abs=CODEC_DELAY_S)
    assert not notes
    assert all(block.samples.dtype == np.float32 and np.abs(block.samples).max() <= 1 for block in blocks)


def test_words_in_the_middle_channel_of_six_are_heard(tmp_path: Path) -> None:
    samples = np.zeros((6, 2 * 48_000), np.float32)
    samples[2] = bursts(TIMES, 2.0, 48_000)  # front left, front right, middle
    blocks, _ = read(write_sound(tmp_path / "a.mkv", [Track(samples, 48_000, "flac", "5.1")]))
    assert heard(blocks) == pytest.approx(TIMES, abs=0.002)


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mp4", "aac"), ("a.mkv", "flac"), ("a.ts", "mp2"), ("a.mov", "pcm_s16le")]
)
@pytest.mark.parametrize(("sound_s", "pictures_s"), [(0.5, 0.0), (0.0, 0.5), (3.0, 3.0), (1.0, 1.4)])
def test_zero_is_where_a_player_begins(
    tmp_path: Path, name: str, codec: str, sound_s: float, pictures_s: float
) -> None:
    path = write_sound(tmp_path / name, [Track(bursts(TIMES, 2.0, 48_000), 48_000, codec, start_s=sound_s)], pictures_s)
    zero_s = min(sound_s, pictures_s)
    blocks, _ = read(path)
    assert heard(blocks) == pytest.approx([sound_s - zero_s + time for time in TIMES], abs=CODEC_DELAY_S + 0.02)


def test_samples_are_those_that_ffmpegs_own_mixing_gives(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, (2, 44_100 * 2)).astype(np.float32)
    path = write_sound(tmp_path / "a.mkv", [Track(samples, 44_100, "pcm_s16le", "stereo")])
    with av.open(str(path)) as container:
        mixer = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        frames = [*container.decode(audio=0)]
        expected = np.concatenate([part.to_ndarray()[0] for frame in [*frames, None] for part in mixer.resample(frame)])
    blocks, _ = read(path)
    found = np.concatenate([block.samples for block in blocks])
    assert len(found) == 2 * SAMPLE_RATE
    np.testing.assert_array_equal(found, expected.astype(np.float32) / 32_768)


def without_packets(source: Path, target: Path, dropped: range) -> Path:
    """Copy a file but for some packets of its sound."""
    with av.open(str(source)) as reader, av.open(str(target), "w") as writer:
        copies = {stream.index: writer.add_stream_from_template(stream) for stream in reader.streams}
        count = 0
        for packet in reader.demux():
            if packet.dts is None:
                continue
            is_sound = packet.stream.type == "audio"
            count += is_sound
            if not (is_sound and count in dropped):
                packet.stream = copies[packet.stream.index]
                writer.mux(packet)
    return target


def test_a_gap_keeps_the_times_after_it(tmp_path: Path) -> None:
    """Packets of 1,024 samples at 16 kHz: 64 ms each."""
    times = [0.3, 2.5, 4.5]
    whole = write_sound(tmp_path / "whole.mkv", [Track(bursts(times, 5.0), codec="pcm_s16le")], pictures_s=5)
    short, _ = read(without_packets(whole, tmp_path / "short.mkv", range(11, 21)))
    assert len(short) == 1, "a gap of 0.64 s is silence"
    assert heard(short) == pytest.approx(times, abs=0.002)
    long, _ = read(without_packets(whole, tmp_path / "long.mkv", range(11, 31)))
    assert [block.start_s for block in long] == [0, pytest.approx(30 * 1024 / 16_000, abs=0.002)]
    assert heard(long) == pytest.approx(times, abs=0.002)


def test_recordings_that_are_joined_go_on_after_each_other(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.ts", [Track(bursts(TIMES, 2.0, 48_000), 48_000, "mp2")])
    joined = tmp_path / "b.ts"
    joined.write_bytes(path.read_bytes() * 2)
    blocks, notes = read(joined)
    assert heard(blocks) == pytest.approx([*TIMES, *(2 + time for time in TIMES)], abs=0.06)
    assert any("step back at" in note for note in notes)


def several(path: Path, *tracks: tuple[str | None, Disposition | int]) -> Path:
    """A file of one burst a stream, in stream k at (k + 1) / 2 s."""
    return write_sound(
        path,
        [
            Track(bursts([(k + 1) / 2], 3.0), codec="flac", language=language, disposition=int(disposition))
            for k, (language, disposition) in enumerate(tracks)
        ],
        pictures_s=3,
    )


COMMENTARY, DEFAULT = Disposition.comment, Disposition.default


@pytest.mark.parametrize(
    ("tracks", "wanted", "chosen"),
    [
        ([("eng", 0), ("deu", 0)], None, 0),
        ([("eng", 0), ("deu", DEFAULT)], None, 1),
        ([("eng", DEFAULT), ("ger", 0)], "de", 1),
        ([("eng", DEFAULT), ("ger", 0)], "fr", 0),
        ([("eng", DEFAULT | COMMENTARY), ("eng", 0)], None, 1),
        ([("eng", DEFAULT | Disposition.visual_impaired), ("deu", 0)], "en-GB", 0),
        ([(None, DEFAULT), ("eng", COMMENTARY), ("eng", 0)], "en", 2),
    ],
)
def test_the_stream_is_chosen_by_language_then_kind_then_default(
    tmp_path: Path, tracks: list[tuple[str | None, int]], wanted: str | None, chosen: int
) -> None:
    blocks, notes = read(several(tmp_path / "a.mkv", *tracks), wanted)
    assert heard(blocks) == pytest.approx([(chosen + 1) / 2], abs=0.01)
    assert notes[0].startswith(f"{len(tracks)} sound streams; number {chosen + 1} of them")


# -- bad input -------------------------------------------------------------------------------------------


def test_a_film_without_sound_says_so(tmp_path: Path) -> None:
    error = failure(write_sound(tmp_path / "a.mp4", []))
    assert (error.reason, str(error)) == ("no_sound", "it has no sound stream")


def test_a_rare_sound_decoder_is_refused_by_name(tmp_path: Path) -> None:
    error = failure(write_sound(tmp_path / "a.avi", [Track(bursts(TIMES, 2.0), codec="adpcm_yamaha")]))
    assert error.reason == "codec_not_allowed"
    assert "adpcm_yamaha" in str(error)


def spoilt(source: Path, target: Path, *, each: int) -> Path:
    """Overwrite each n-th packet of the sound."""
    data = bytearray(source.read_bytes())
    with av.open(str(source)) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(audio=0) if packet.size and packet.pos]
    for pos, size in places[3::each]:
        data[pos : pos + size] = b"\xff" * size
    target.write_bytes(bytes(data))
    return target


def test_damaged_sound_is_read_around_and_counted(tmp_path: Path) -> None:
    times = [0.3, 4.5]
    whole = write_sound(tmp_path / "whole.mp4", [Track(bursts(times, 5.0, 48_000), 48_000)], pictures_s=5)
    blocks, notes = read(spoilt(whole, tmp_path / "some.mp4", each=25))
    assert heard(blocks)[0] == pytest.approx(0.3, abs=0.03)
    assert heard(blocks)[-1] == pytest.approx(4.5, abs=0.03)
    assert any(note.startswith("damaged: ") for note in notes)
    error = failure(spoilt(whole, tmp_path / "most.mp4", each=2))
    assert error.reason == "damaged"
    assert "at most 25% is accepted" in str(error)


def test_sound_that_is_cut_off_is_read_to_where_it_ends_and_says_so(tmp_path: Path) -> None:
    track = Track(bursts([0.5, 4.5], 5.0), codec="pcm_s16le")
    whole = write_sound(tmp_path / "whole.mkv", [track], pictures_s=5)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    blocks, notes = read(cut)
    assert heard(blocks) == pytest.approx([0.5], abs=0.01)
    assert any(note.startswith("short: ") for note in notes)


def test_an_encrypted_film_says_so(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.mp4", [Track(bursts(TIMES, 2.0))], **ENCRYPTION)
    assert failure(path).reason == "encrypted"


def test_blocks_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.mkv", [Track(np.zeros(60 * 16_000, np.float32), codec="pcm_s16le")])
    with open_sound(path) as sound:
        blocks = sound.blocks()
        first = next(blocks)
        assert len(first.samples) <= 10 * SAMPLE_RATE
        assert sound._packets < 200  # of 938
        assert all(len(block.samples) <= 10 * SAMPLE_RATE for block in blocks)
    assert sound._packets == 938


RUNS = st.lists(st.tuples(st.integers(-40_000, 60_000), st.integers(0, 30_000)), max_size=8)


@given(RUNS)
def test_blocks_hold_what_is_placed_first_and_nothing_before_zero(steps: list[tuple[int, int]]) -> None:
    """Held against a table of samples by place, filled one by one."""
    runs, place, table = [], 0, dict[int, float]()
    end = 0
    for number, (step, length) in enumerate(steps):
        place = max(-SAMPLE_RATE, place + step)
        runs.append((place / SAMPLE_RATE, np.full(length, number + 1, np.float32)))
        for at in range(max(end, place), place + length):
            table[at] = number + 1
        end = max(end, place + length) if length else end
        place += length
    found: dict[int, float] = {}
    last_end = 0
    for block in _blocks(iter(runs)):
        first = round(block.start_s * SAMPLE_RATE)
        assert first >= last_end
        last_end = first + len(block.samples)
        assert 0 < len(block.samples) <= 10 * SAMPLE_RATE
        found |= {first + at: float(value) for at, value in enumerate(block.samples) if value}
    assert found == table


SEEDS = {"a.mp4": "aac", "a.mkv": "libopus", "a.ts": "mp2", "a.avi": "pcm_s16le", "a.mov": "alac", "b.mkv": "flac"}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    track = bursts(TIMES, 2.0, 48_000)
    return {
        name: write_sound(folder / name, [Track(track, 48_000, codec)], pictures_s=0.4).read_bytes()
        for name, codec in SEEDS.items()
    }


@settings(max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(SEEDS)), st.floats(0.2, 2), st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_whatever_the_bytes_are_there_are_blocks_or_one_error(
    seeds: dict[str, bytes], tmp_path: Path, name: str, share: float, seed: int, flips: int
) -> None:
    random = np.random.default_rng(seed)
    data = np.frombuffer(seeds[name], np.uint8)[: int(len(seeds[name]) * share)].copy()
    data[random.integers(0, len(data), flips)] ^= (1 << random.integers(0, 8, flips)).astype(np.uint8)
    (tmp_path / name).write_bytes(data.tobytes())
    end_s = 0.0
    try:
        with open_sound(tmp_path / name) as sound:
            for block in sound.blocks():
                assert end_s <= block.start_s + 1e-6
                end_s = block.end_s
                assert np.isfinite(block.samples).all()
    except MediaError as error:
        assert str(error)
        assert "\n" not in str(error)
