"""Subtitle streams of pictures: the words that were drawn, at the times that were written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest
from av.codec import CodecContext

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.library.index.stages import SUBTITLE_READER
from evenreel.media.opening import picture_subtitle_options
from evenreel.media.workers import Worker
from evenreel.onscreen.scene import SheetReader
from evenreel.speech import Subtitles, streams
from evenreel.speech.streams import read_pictures, read_streams
from evenreel.speech.subtitles import read_with
from evenreel.types import Pixels
from tests.speech.picture_files import (
    HAS_ENCODERS,
    NORMAL,
    Drawing,
    Kind,
    Packets,
    PictureTrack,
    disc_packets,
    display_set,
    drawn,
    film_with_pictures,
    object_segments,
    segment,
    shown,
)
from tests.speech.subtitle_files import Line, written

pytestmark = pytest.mark.skipif(not HAS_ENCODERS, reason="PyAV's encoders have no room for a picture before version 18")
LINES = [Line(500, 1500, "Where is the key\nof the old house?"), Line(1700, 2400, "It was here yesterday.")]
WORDS = ["Where is the key of the old house?", "It was here yesterday."]


@pytest.fixture(scope="module")
def reader() -> SheetReader:
    return SheetReader()


class Counter:
    """Reads nothing, and counts what it is given."""

    def __init__(self, readable: str = "en fr de it") -> None:
        self.sheets: list[Pixels] = []
        self._readable = readable.split()

    def can_read(self, language: str | None) -> bool:
        return language is None or language in self._readable

    def read(self, sheet: Pixels) -> tuple[str, float]:
        self.sheets.append(sheet)
        return f"picture {len(self.sheets)}", 0.9


def of_pictures(path: Path, reader: SheetReader | Counter) -> list[Subtitles]:
    return [found for found in read_pictures(path, reader) if found is not None]


def film(path: Path, packets: Packets, kind: Kind = "pgs") -> Path:
    return film_with_pictures(path, [PictureTrack(kind, packets)])


def cues(found: Sequence[Subtitles]) -> list[tuple[str, float, float]]:
    return [(cue.text, round(cue.start_s, 3), round(cue.end_s, 3)) for one in found for cue in one.utterances]


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("pgs", ".mkv"), ("pgs", ".m2ts"), ("dvd", ".mkv"), ("dvd", ".mp4"), ("dvb", ".mkv"), ("dvb", ".ts")],
)
def test_words_and_times_are_those_that_were_written(
    tmp_path: Path, reader: SheetReader, kind: Kind, suffix: str
) -> None:
    track = PictureTrack(kind, disc_packets(LINES))
    (found,) = of_pictures(film_with_pictures(tmp_path / f"film{suffix}", [track], 5000), reader)
    assert found.notes == ()
    assert [cue.text for cue in found.utterances] == WORDS
    for cue, line in zip(found.utterances, LINES, strict=True):
        assert cue.start_s == pytest.approx(line.start_ms / 1000, abs=0.001)
        assert cue.end_s == pytest.approx(line.end_ms / 1000, abs=0.012)  # VobSub counts in 1024 of 90,000
        assert cue.confidence is not None
        assert 0.9 < cue.confidence <= 1
        assert (cue.source, cue.language) == ("stream", None if suffix == ".m2ts" else "en")


def test_areas_of_the_screen_are_read_from_top_to_bottom(tmp_path: Path, reader: SheetReader) -> None:
    both = display_set([(80, 420, drawn("And one below.")), (300, 20, drawn("One line above."))])
    assert cues(of_pictures(film(tmp_path / "film.mkv", [(0, both), (900, display_set([]))]), reader)) == [
        ("One line above. And one below.", 0.0, 0.9)
    ]


def test_a_picture_is_read_once_however_often_it_is_shown(tmp_path: Path) -> None:
    drawing = drawn("Hello")
    fade = [0.1, 0.3, 0.6, 1.0, 0.5, 0.2, 0.05]
    packets = [(1000 + 40 * n, display_set([(9, 9, drawing.faded(share))])) for n, share in enumerate(fade)]
    packets += [(2000 + 500 * n, shown("Refreshed")) for n in range(3)]
    packets += [(3800, display_set([(99, 300, drawing)])), (3900, display_set([]))]
    counter = Counter()
    found = of_pictures(film(tmp_path / "film.mkv", packets), counter)
    assert len(counter.sheets) == 2
    assert cues(found) == [("picture 1", 1.04, 1.24), ("picture 2", 2.0, 3.8), ("picture 1", 3.8, 3.9)]


def test_colours_that_change_alone_are_those_of_the_same_picture(tmp_path: Path) -> None:
    drawing = drawn("Hello")
    fading = [(1200, display_set([(9, 9, drawing.faded(0.5))], state=NORMAL)), (1400, display_set([]))]
    counter = Counter()
    packets = [(1000, display_set([(9, 9, drawing)])), *fading]
    assert cues(of_pictures(film(tmp_path / "film.mkv", packets), counter)) == [("picture 1", 1.0, 1.4)]
    assert len(counter.sheets) == 1


def test_of_each_language_one_stream_is_read_and_none_beside_text(tmp_path: Path) -> None:
    text = tmp_path / "cues.srt"
    text.write_text(written(".srt", LINES), encoding="utf-8")

    def track(language: str, start_ms: int, *, forced: bool = False) -> PictureTrack:
        return PictureTrack("pgs", disc_packets([Line(start_ms, start_ms + 100, "Words")]), language, forced)

    tracks = [
        track("eng", 100),  # of which there is text
        track("fre", 200, forced=True),
        track("fre", 300),
        track("fre", 400),
        track("rus", 500),  # which the recogniser does not read
        track("ger", 600, forced=True),  # better than none
        track("und", 700),
        track("und", 800),
        track("ita", 900),  # of which there is forced text alone
    ]
    path = film_with_pictures(tmp_path / "film.mkv", tracks, texts=[(text, "eng"), (text, "forced ita")])
    found = of_pictures(path, Counter())
    assert [(one.utterances[0].language, one.utterances[0].start_s) for one in found if one.utterances] == [
        ("fr", 0.3),
        ("de", 0.6),
        (None, 0.7),
        ("it", 0.9),
    ]
    assert [note for one in found for note in one.notes] == [
        "subtitles in pictures left out: the recogniser does not read ru"
    ]
    of_text = [one for one in read_streams(path) if one is not None]
    assert [bool(one.utterances) for one in of_text] == [True, True, False]
    assert [one.pictures for one in of_text] == [0, 0, 5]


def test_a_worker_reads_them_as_they_are_read_here(tmp_path: Path, reader: SheetReader) -> None:
    path = film(tmp_path / "film.mkv", disc_packets(LINES))
    with closing(Worker(SUBTITLE_READER, {"threads": 1}, MediaLimits())) as worker:
        assert read_with(worker, str(path)) == [Subtitles((), (), pictures=1)]
        assert read_with(worker, str(path), {"pictures": True}) == of_pictures(path, reader)


def damaged(path: Path, old: bytes, new: bytes) -> Path:
    """The film with other bytes of the same number in it."""
    content = path.read_bytes()
    assert len(old) == len(new)
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    return path


def test_damaged_run_lengths_cost_their_picture_only(tmp_path: Path) -> None:
    packets = disc_packets(LINES)
    whole = packets[0][1]
    for number, start in enumerate(range(300, len(whole) - 40, len(whole) // 6)):
        path = film(tmp_path / "film.mkv", packets)
        noise = random.Random(number).randbytes(32)
        found = of_pictures(damaged(path, whole[start : start + 32], noise), Counter())
        assert cues(found)[-1][1:] == (1.7, 2.4)


@pytest.mark.parametrize("kind", ["dvd", "dvb"])
def test_packets_that_are_cut_are_left_out_or_read_as_far_as_they_go(tmp_path: Path, kind: Kind) -> None:
    track = PictureTrack(kind, disc_packets([*LINES, Line(2600, 2900, "Now it is gone.")]))
    for share in (0.0, 0.01, 0.1, 0.5, 0.9):
        path = film_with_pictures(tmp_path / "film.mkv", [track], change=partial(first_cut, share))
        found = of_pictures(path, Counter())
        assert [start_s for _, start_s, _ in cues(found)][-2:] == [1.7, 2.6]
        assert kind == "dvb" or found[0].notes == ("1 of 3 packets of subtitles could not be read",)


def first_cut(share: float, number: int, packet: bytes) -> bytes:
    return packet if number else packet[: max(1, int(len(packet) * share))]


def test_a_page_of_a_broadcast_that_stays_as_it_is_clears_nothing(tmp_path: Path) -> None:
    def page_alone(number: int, packet: bytes) -> bytes:
        """Of the second packet the composition of the page alone, as the next version of it, which goes on."""
        length = int.from_bytes(packet[4:6], "big")
        assert packet[:2] == b"\x0f\x10"
        end = b"\x0f\x80\x00\x01\x00\x00"
        return packet if number != 1 else packet[:7] + bytes((0x53,)) + packet[8 : 6 + length] + end

    stays = [(500, shown("Words")), (1000, shown("Words")), (1500, display_set([]))]
    track = PictureTrack("dvb", stays)
    (found,) = of_pictures(film_with_pictures(tmp_path / "film.mkv", [track], change=page_alone), Counter())
    assert (cues([found]), found.notes) == ([("picture 1", 0.5, 1.5)], ())


@pytest.mark.parametrize(("side", "areas"), [(65535, 1), (32768, 1), (16000, 1), (3000, 2)])
def test_pictures_that_are_or_claim_to_be_huge_are_left_out(tmp_path: Path, side: int, areas: int) -> None:
    drawing = drawn("Huge")
    block = Drawing(np.full((side, 1), 9, np.uint8), drawing.colours)
    head = without(display_set([(0, 0, block)] * areas, (side, side)), 0x15)[:-3]
    rows = b"".join(
        bytes((0, 0xC0 | side >> 8 & 0x3F, side & 255, 9, 0, 0)) for _ in range(side if side < 16384 else 9)
    )
    objects = b"".join(object_segments(number, (side, side), rows) for number in range(areas))
    packets = [(500, head + objects + segment(0x80, b"")), *disc_packets(LINES[1:])]
    counter = Counter()
    found = of_pictures(film(tmp_path / "film.mkv", packets), counter)
    assert (len(counter.sheets), cues(found)) == (1, [("picture 1", 1.7, 2.4)])
    assert found[0].notes == ("1 of 3 packets of subtitles could not be read",)
    decoder = CodecContext.create("hdmv_pgs_subtitle", "r")
    decoder.options = picture_subtitle_options(streams.LARGEST_PIXELS)
    if side * side > streams.LARGEST_PIXELS:  # no memory is taken for it
        with pytest.raises(av.FFmpegError):
            decoder.decode2(av.Packet(packets[0][1]))


@pytest.mark.slow
def test_a_hundred_thousand_pictures_end_in_a_sentence(tmp_path: Path) -> None:
    small = display_set([(10, 10, drawn("Hi", 14))])
    counter = Counter()
    (found,) = of_pictures(film(tmp_path / "film.mkv", [(n, small) for n in range(100_001)]), counter)
    assert len(counter.sheets) == len(found.utterances) == 1
    (note,) = found.notes
    assert note.startswith("its subtitles in pictures were read up to 100 s: of a stream at most")


def test_too_many_different_pictures_end_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_PICTURES", 100)
    drawing = drawn("Hi", 14)

    def numbered(number: int) -> Drawing:
        marks = np.zeros((2, drawing.indices.shape[1]), np.uint8)
        marks[:, :14] = [32 * (number >> bit & 1) for bit in range(14)]
        return Drawing(np.vstack([marks, drawing.indices]), drawing.colours)

    several = [(number, display_set([(10, 10, numbered(number))])) for number in range(105)]
    counter = Counter()
    (found,) = of_pictures(film(tmp_path / "film.mkv", several), counter)
    assert len(counter.sheets) == len(found.utterances) == 100
    assert "at most 100 different pictures are read" in found.notes[0]


def without(packet: bytes, kind: int) -> bytes:
    """A display set without its segments of a kind."""
    kept, place = b"", 0
    while place < len(packet):
        end = place + 3 + int.from_bytes(packet[place + 1 : place + 3], "big")
        kept += packet[place:end] if packet[place] != kind else b""
        place = end
    return kept


def test_pictures_without_a_palette_or_pixels_are_left_out(tmp_path: Path) -> None:
    whole = shown("Words")
    empty = display_set([(10, 10, Drawing(np.zeros((0, 0), np.uint8), drawn("Words").colours))])
    packets = [(200, without(whole, 0x14)), (300, without(whole, 0x15)), (400, empty), *disc_packets(LINES)]
    found = of_pictures(film(tmp_path / "film.mkv", packets), Counter())
    assert cues(found) == [("picture 1", 0.5, 1.5), ("picture 2", 1.7, 2.4)]
    assert found[0].notes == ("3 of 7 packets of subtitles could not be read",)


def test_cues_out_of_order_are_put_in_order(tmp_path: Path, reader: SheetReader) -> None:
    packets = disc_packets([LINES[1]]) + disc_packets([LINES[0]])
    assert cues(of_pictures(film(tmp_path / "film.mkv", packets), reader)) == [
        (WORDS[0], 0.5, 1.5),
        (WORDS[1], 1.7, 2.4),
    ]


def test_whatever_is_changed_in_a_film_it_is_read_or_refused(tmp_path: Path) -> None:
    tracks = [PictureTrack(kind, disc_packets(LINES)) for kind in get_args(Kind)]
    path = film_with_pictures(tmp_path / "film.mkv", tracks)
    whole = path.read_bytes()
    for seed in range(30):
        chance, content = random.Random(seed), bytearray(whole)
        for _ in range(chance.choice((1, 10, 200))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            found = of_pictures(path, Counter())
        except MediaError:
            continue
        assert all(0 <= cue.start_s < cue.end_s for one in found for cue in one.utterances)
