"""When a video was recorded, by what its container says."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from evenreel.media import open_video
from evenreel.media.video import recorded_at
from tests.media_files import numbered_picture


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"creation_time": "2024-05-31T12:03:04.000000Z"}, "2024-05-31T12:03:04Z"),
        ({"creation_time": "2024-05-31 12:03:04"}, "2024-05-31T12:03:04"),
        (
            {
                "creation_time": "2024-05-31T22:30:00Z",
                "com.apple.quicktime.creationdate": "2024-06-01T07:30:00+0900",
            },
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
