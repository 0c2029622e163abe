from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest
from av.codec import CodecContext
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.library.index.stages import SUBTITLE_READER
from evenreel.media.opening import picture_subtitle_options
from evenreel.media.workers import Worker
from evenreel.onscreen.scene import SheetReader
from evenreel.speech import Subtitles, streams
from evenreel.speech.streams import LONGEST_S, Area, cues_of, read_pictures, read_streams
from evenreel.speech.streams import ShownPicture as Shown
from evenreel.speech.streams import drawn as rendered
from evenreel.speech.subtitles import read_with
from evenreel.types import Pixels
from tests.speech.picture_files import (
    HAS_ENCODERS,
    Drawing,
    Kind,
    Look,
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

        def cut(number: int, packet: bytes, share: float = share) -> bytes:
            return packet if number else packet[: max(1, int(len(packet) * share))]

        path = film_with_pictures(tmp_path / "film.mkv", [track], change=cut)
        found = of_pictures(path, Counter())
        assert [start_s for _, start_s, _ in cues(found)][-2:] == [1.7, 2.6]
        assert kind == "dvb" or found[0].notes == ("1 of 3 packets of subtitles could not be read",)


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


LOOKS = {
    "white, outlined": Look(),
    "thin outline": Look(outline_px=1),
    "grey, outlined": Look(letters=150),
    "dark, light outline": Look(letters=16, outline=235),
    "white alone": Look(outline_px=0),
    "dark alone": Look(letters=30, outline_px=0),
    "white in a box": Look(boxed=True),
    "dark in a light box": Look(letters=16, outline=200, boxed=True),
}


def area_of(drawing: Drawing, x: int = 0, y: int = 0) -> Area:
    colours = np.zeros((256, 2), np.uint8)
    for index, colour in drawing.colours.items():
        colours[index] = colour
    return Area(x, y, drawing.indices, colours)


def letters_of(words: str, look: Look) -> NDArray[np.bool_]:
    """Where the letters alone are: what of a drawing without an outline is more than half opaque."""
    bare = drawn(words, 40, Look(letters=look.letters, outline_px=0))
    seen = np.array([bare.colours[index][1] for index in range(33)])[bare.indices] > 127
    return within(seen)


def within(seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return seen[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def dark(sheet: Pixels | None) -> NDArray[np.bool_]:
    assert sheet is not None
    return within(sheet < 128)


@pytest.mark.parametrize("name", LOOKS)
def test_letters_are_black_on_white_whatever_they_are_on_screen(name: str) -> None:
    look = LOOKS[name]
    found, letters = dark(rendered([area_of(drawn("Ribbon", 40, look))])), letters_of("Ribbon", look)
    assert np.abs(np.subtract(found.shape, letters.shape)).max() <= 2  # of a softened edge
    height, width = np.minimum(found.shape, letters.shape)
    shifted = (np.pad(found, ((down, 0), (right, 0))) for down in range(3) for right in range(3))
    assert max((one[:height, :width] == letters[:height, :width]).mean() for one in shifted) > 0.93


def test_nothing_is_rendered_of_nothing() -> None:
    blank = Drawing(np.zeros((20, 30), np.uint8), {0: (235, 0)})
    assert rendered([]) is None
    assert rendered([area_of(blank)]) is None
    plain = Drawing(np.ones((20, 30), np.uint8), {1: (235, 255)})
    sheet = rendered([area_of(plain)])
    assert sheet is not None  # a white block is a block
    assert dark(sheet).all()


def cues_shown(*shown: Shown) -> list[tuple[str, float, float]]:
    return [(one.text, one.start_s, one.end_s) for one in cues_of(shown, "en")]


def test_a_cue_ends_with_its_own_end_a_clear_the_next_or_after_a_while() -> None:
    assert cues_shown(Shown(1.0, 2.0, "own"), Shown(5.0, None)) == [("own", 1.0, 2.0)]
    assert cues_shown(Shown(1.0, None, "cleared"), Shown(60.0, None)) == [("cleared", 1.0, 60.0)]
    assert cues_shown(Shown(1.0, 30.0, "next"), Shown(3.0, 4.0, "one")) == [("next", 1.0, 3.0), ("one", 3.0, 4.0)]
    assert cues_shown(Shown(1.0, None, "alone")) == [("alone", 1.0, 1.0 + LONGEST_S)]
    assert cues_shown(Shown(1.0, None, "long"), Shown(99.0, 99.5, "after")) == [
        ("long", 1.0, 11.0),
        ("after", 99.0, 99.5),
    ]
    assert cues_shown(Shown(1.0, 0.5, "ends before"), Shown(2.0, None)) == [("ends before", 1.0, 2.0)]


def test_neighbours_of_the_same_words_are_one_cue_with_the_surer_confidence() -> None:
    fade = [Shown(1.0, 1.1, "Hello there.", 0.6), Shown(1.1, None, "Hello  there.", 0.9), Shown(2.0, None)]
    (one,) = cues_of(fade, "en")
    assert (one.text, one.start_s, one.end_s, one.confidence) == ("Hello there.", 1.0, 2.0, 0.9)
    assert (one.source, one.language) == ("stream", "en")
    twice = [Shown(1.0, 2.0, "Yes."), Shown(3.0, 4.0, "Yes.")]
    assert cues_shown(*twice) == [("Yes.", 1.0, 2.0), ("Yes.", 3.0, 4.0)]


def test_what_says_nothing_or_is_before_the_film_is_left_out() -> None:
    assert cues_shown(Shown(3.0, 4.0, "♪"), Shown(4.0, 4.5, "words")) == [("words", 4.0, 4.5)]
    assert cues_shown(Shown(-5.0, -4.0, "before the film"), Shown(-1.0, 1.0, "as it begins")) == [
        ("as it begins", 0.0, 1.0)
    ]
    at_once = cues_shown(Shown(1.0, None, "one"), Shown(1.0, None, "other"), Shown(2.0, None))
    assert at_once == [("one", 1.0, 2.0), ("other", 1.0, 2.0)]


times = st.integers(-20, 200).map(lambda n: n / 4)
something = st.builds(
    Shown, times, st.none() | times, st.sampled_from(["", "a", "b", "c"]), st.floats(0, 1, allow_nan=False)
)


@given(st.lists(something, max_size=12, unique_by=lambda one: one.start_s))
def test_whatever_is_shown_cues_follow_one_another(shown: list[Shown]) -> None:
    found = list(cues_of(shown, None))
    words = {one.words for one in shown}
    for one in found:
        assert one.text in words
        assert 0 <= one.start_s < one.end_s
    for one, then in pairwise(found):
        assert one.end_s <= then.start_s
    for time_s in {one.start_s for one in shown if one.start_s >= 0}:
        there = {one.words for one in shown if one.start_s == time_s and one.words}
        assert there <= {one.text for one in found if one.start_s <= time_s <= one.end_s}
