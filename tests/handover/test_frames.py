"""Frame numbers and timecodes, against OpenTimelineIO's; and what files say of them."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import av
import opentimelineio as otio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.handover.cuts import CutReader
from evenreel.handover.frames import STANDARD, FileFacts, FrameRate, editing_rate, meant_rate, read_facts
from evenreel.handover.picks import Pick, Take, checked
from evenreel.media import probe
from tests.media_files import Film, gop, remux, write_film

DROPPING = (Fraction(30000, 1001), Fraction(60000, 1001))
RATES = [FrameRate(fps, fps in DROPPING) for fps in STANDARD] + [FrameRate(fps) for fps in STANDARD]
RATES += [FrameRate(Fraction(30), drop=True), FrameRate(Fraction(60), drop=True)]
OF_A_DAY_AND_A_HALF = 130_000 * 60


@given(rate=st.sampled_from([rate for rate in RATES if rate.drop == (rate.fps in DROPPING)]), data=st.data())
def test_labels_are_those_of_opentimelineio(rate: FrameRate, data: st.DataObject) -> None:
    frame = data.draw(st.integers(0, 24 * 3600 * 23))
    theirs = otio.opentime.to_timecode(otio.opentime.RationalTime(frame, float(rate.fps)), float(rate.fps))
    assert rate.timecode(frame) == theirs
    assert rate.frame_of(theirs) == otio.opentime.from_timecode(theirs, float(rate.fps)).value == frame


@given(rate=st.sampled_from(RATES), frame=st.integers(0, OF_A_DAY_AND_A_HALF))
def test_a_frame_is_found_again_by_its_beginning_and_its_end(rate: FrameRate, frame: int) -> None:
    begins_s, ends_s = Fraction(float(frame / rate.fps)), Fraction(float((frame + 1) / rate.fps))
    assert rate.frame_at(begins_s) == frame
    assert rate.frame_after(begins_s) == frame
    assert rate.frame_at(ends_s - Fraction(1, 1000)) == frame
    assert rate.frame_after(ends_s - Fraction(1, 1000)) == frame + 1


@pytest.mark.parametrize("text", ["", "1:2", "00:60:00:00", "00:00:61:00", "00:00:00:25", "a" * 500, "00:00:00"])
def test_what_is_no_timecode_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no timecode of 25 frames a second; write HH:MM:SS:FF"):
        FrameRate(Fraction(25)).frame_of(text)


@pytest.mark.parametrize("text", ["00:01:00;00", "01:59:00;01"])
def test_a_label_that_is_left_out_names_no_frame(text: str) -> None:
    rate = FrameRate(Fraction(30000, 1001), drop=True)
    with pytest.raises(UsageError, match="leaves out"):
        rate.frame_of(text)
    assert rate.timecode(rate.frame_of("00:10:00;00")) == "00:10:00;00"


@pytest.mark.parametrize(
    ("measured", "meant"),
    [
        *((Fraction(1000, 1001) * whole, Fraction(1000, 1001) * whole) for whole in (24, 30, 48, 60)),
        (Fraction(23976, 1000), Fraction(24000, 1001)),
        (Fraction(2997, 100), Fraction(30000, 1001)),
        (Fraction(24), Fraction(24)),
        (Fraction(30303, 1000), Fraction(30303, 1000)),
        (Fraction(10), Fraction(10)),
    ],
)
def test_the_rate_that_is_meant(measured: Fraction, meant: Fraction) -> None:
    assert meant_rate(measured) == meant


@pytest.mark.parametrize(("fps", "known"), [(25, 25), (12, 24), (17, 30), (120, 60)])
def test_a_rate_is_counted_at_one_that_editors_know(fps: int, known: int) -> None:
    assert editing_rate(Fraction(fps)) == known


def facts_of(path: Path) -> FileFacts:
    read = read_facts(path, MediaLimits())
    assert FileFacts.from_json(read.to_json()) == read
    return read


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
@pytest.mark.parametrize("fps", STANDARD, ids=lambda fps: f"{float(fps):.5g}")
def test_the_rate_is_found_in_every_container(tmp_path: Path, fps: Fraction, suffix: str) -> None:
    path = write_film(tmp_path / f"a{suffix}", Film(range(48), time_base=1 / fps, options=gop(12, b_frames=2)))
    found = facts_of(path)
    assert (found.fps, found.steady, found.note) == (fps, True, "")
    for number in (0, 1, 13, 40):
        start_s, end_s = (float(frame / fps) for frame in (number, number + 5))
        assert found.frames(Fraction(start_s), Fraction(end_s)) == range(number, number + 5)


def with_timecode(path: Path, fps: Fraction, timecode: str) -> Path:
    plain = write_film(path.with_name("plain.mp4"), Film(range(30), time_base=1 / fps))
    with av.open(str(plain)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        target.metadata["timecode"] = timecode
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    return path


@pytest.mark.parametrize(
    ("fps", "timecode", "drop", "first"),
    [
        (Fraction(25), "01:00:00:00", False, 90_000),
        (Fraction(30000, 1001), "01:00:00;00", True, 107_892),
        (Fraction(30000, 1001), "01:00:00:00", False, 108_000),
        (Fraction(30), "00:58:33;16", True, 105_300),
    ],
)
def test_frames_are_named_by_the_timecode_of_the_file(
    tmp_path: Path, fps: Fraction, timecode: str, drop: bool, first: int
) -> None:
    found = facts_of(with_timecode(tmp_path / "a.mkv", fps, timecode))
    assert (found.timecode, found.drop, found.first_frame) == (timecode, drop, first)
    pick = Pick("0" * 32, float(10 / fps), float(20 / fps))
    assert checked(Take(pick, "a", "a", "a"), found).source_frames == range(first + 10, first + 20)


@pytest.mark.parametrize("exact", [False, True])
def test_a_cut_goes_on_with_the_timecode_of_its_file(tmp_path: Path, exact: bool) -> None:
    path = with_timecode(tmp_path / "a.mov", Fraction(30000, 1001), "00:59:59;25")
    reader, read = CutReader(asdict(MediaLimits())), facts_of(path)
    task = {"out": str(tmp_path / "cut"), "stretch": ["1001/3000", "2002/3000"], "facts": read.to_json()}
    kind = {"encode": str(path)} if exact else {"copy": str(path), "formats": ["mov"]}
    *_, (said, _) = reader({**task, **kind})
    first = round(said["starts_s"] * 30000 / 1001)
    assert first == (10 if exact else 0)
    assert facts_of(tmp_path / "cut").timecode == ("01:00:00;05" if exact else "00:59:59;25")


def test_a_timecode_that_is_none_is_left_out_with_a_note(tmp_path: Path) -> None:
    found = facts_of(with_timecode(tmp_path / "b.mkv", Fraction(25), "99:99:99:99"))
    assert found.first_frame == 0
    assert found.note == "has the timecode '99:99:99:99', which is none of its frame rate and is left out"


def test_a_cut_of_a_turned_film_is_turned(tmp_path: Path, real_clips: Path) -> None:
    path = real_clips / "video_90.mov"
    reader = CutReader(asdict(MediaLimits()))
    task = {"out": str(tmp_path / "cut"), "stretch": ["1/30", "3/30"], "facts": facts_of(path).to_json()}
    list(reader({**task, "copy": str(path), "formats": ["mov"]}))
    assert probe(tmp_path / "cut").rotation == probe(path).rotation == 90


def test_a_start_above_zero_is_where_the_clock_begins(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mkv", Film(range(7200, 7260), time_base=Fraction(1, 25), options=gop(12)))
    found = facts_of(path)
    assert found.frames(Fraction(1), Fraction(2)) == range(25, 50)
    again = remux(path, tmp_path / "b.mp4")
    assert facts_of(again).frames(Fraction(1), Fraction(2)) == range(25, 50)
