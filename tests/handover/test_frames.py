"""Frame numbers and timecodes, against OpenTimelineIO's and against counting labels one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import opentimelineio as otio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.handover.frames import STANDARD, FrameRate, meant_rate

DROPPING = (Fraction(30000, 1001), Fraction(60000, 1001))
RATES = [FrameRate(fps, fps in DROPPING) for fps in STANDARD] + [FrameRate(fps) for fps in STANDARD]
RATES += [FrameRate(Fraction(30), drop=True), FrameRate(Fraction(60), drop=True)]
OF_A_DAY_AND_A_HALF = 130_000 * 60


def labels(rate: FrameRate) -> Iterator[str]:
    """All labels in order, without those that SMPTE ST 12-1 drops: by its words, one at a time."""
    dropped = {30: 2, 60: 4}[rate.base] if rate.drop else 0
    for minute, second, frame in itertools.product(range(25), range(60), range(rate.base)):
        if second == 0 and frame < dropped and minute % 10:
            continue
        yield f"{minute // 60:02}:{minute % 60:02}:{second:02}{';' if rate.drop else ':'}{frame:02}"


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
