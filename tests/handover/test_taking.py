from __future__ import annotations

import csv
import io
import os
import random
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import opentimelineio as otio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenreel.errors import NotFoundError, UsageError
from evenreel.handover import MOST_STRETCHES, taking
from evenreel.handover.frames import FileFacts, FrameRate
from evenreel.handover.picks import (
    LEAST_S,
    LONGEST,
    CheckedTake,
    Pick,
    Take,
    checked,
    file_stem,
    give_name,
    picks_of,
    stretches_of,
    widened,
)
from evenreel.handover.taking import (
    SheetCell,
    as_csv,
    as_edl,
    as_fcpxml,
    as_otio,
    as_xmeml,
    by_rate,
    sheet_jpeg,
    subtitles,
)
from evenreel.media.picture import to_jpeg
from evenreel.speech import Transcript, Utterance

RATES = {
    "23.976": FrameRate(Fraction(24000, 1001)),
    "24": FrameRate(Fraction(24)),
    "25": FrameRate(Fraction(25)),
    "29.97 df": FrameRate(Fraction(30000, 1001), drop=True),
    "59.94": FrameRate(Fraction(60000, 1001), drop=True),
    "29.97 ndf": FrameRate(Fraction(30000, 1001)),
    "30": FrameRate(Fraction(30)),
    "30 df": FrameRate(Fraction(30), drop=True),
    "50": FrameRate(Fraction(50)),
    "60": FrameRate(Fraction(60)),
}
HOURS = 3 * 3600
Read = list[tuple[str, int, int]]
"""Names, first frames by the file's timecode and numbers of frames of the clips of a timeline."""


def facts(rate: FrameRate, timecode: str | None = None, channels: int = 2) -> FileFacts:
    times = Fraction(0), Fraction(1, 10**6), Fraction(2 * HOURS)  # of the first frame, of a rounding, of all
    return FileFacts(rate.fps, rate.fps, True, rate.drop, timecode, *times, 1920, 1080, channels, "mp4")


def take_of(name: str, its: FileFacts, frames: range) -> CheckedTake:
    """A stretch of these frames, whose times are floats, as those of a search are."""
    start_s, end_s = (float(number / its.fps) for number in (frames.start, frames.stop))
    return checked(Take(Pick("0" * 32, start_s, end_s, {"words": ["ab"]}), f"/v/{name}", f"/v/{name}", name), its)


def takes(rate: FrameRate, timecode: str | None) -> tuple[list[CheckedTake], Read]:
    """Stretches at random, and ones at the minutes at which labels are dropped, with what is to be read."""
    draw, its = random.Random(7), facts(rate, timecode)
    minutes = [number * 60 * rate.base for number in (1, 2, 9, 10, 11, 60)]
    firsts = [draw.randrange(HOURS * rate.base // 2) for _ in range(60)]
    firsts += [one + k for one in minutes for k in (-1, 0, 1)]
    stretches = [range(first, first + draw.randrange(1, 5000)) for first in firsts]
    first = its.first_frame
    names = [f"tram {number % 7}.mp4" for number in range(len(stretches))]
    made = [take_of(name, its, frames) for name, frames in zip(names, stretches, strict=True)]
    return made, [(name, first + frames.start, len(frames)) for name, frames in zip(names, stretches, strict=True)]


def read_list(adapter: str, text: str, of: FrameRate) -> Read:
    rate, options, found = float(of.fps), {}, []
    if adapter == "cmx_3600":
        rate = of.base * 1000 / 1001 if of.drop else float(of.base)  # it drops at the rates of television alone
        options = {"rate": rate}
    timeline = otio.adapters.read_from_string(text, adapter, **options)
    if isinstance(timeline, otio.schema.SerializableCollection):  # an event of Final Cut
        (timeline,) = timeline
    for clip in timeline.video_tracks()[0]:
        assert isinstance(clip, otio.schema.Clip)
        assert clip.source_range.start_time.rate == pytest.approx(rate, rel=1e-9)
        found.append((clip.name, clip.source_range.start_time.value, clip.source_range.duration.value))
    return found


@pytest.fixture
def exact_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The FCPXML adapter with its two conversions in rationals; its own (1.0.0) cut 29.97 frames a second to 29."""

    adapter = otio.adapters.from_name("fcpx_xml").module()

    def rate_of(self: Any, format_id: str) -> Fraction:
        total, rate = self._format_frame_duration(format_id)
        return Fraction(int(rate), int(total))

    def time_of(text: str | None, fps: Fraction) -> otio.opentime.RationalTime:
        frames = Fraction((text or "0s").rstrip("s")) * fps
        assert frames.denominator == 1, f"{text} is between two frames"
        return otio.opentime.RationalTime(int(frames), float(fps))

    def number_of(self: Any, text: str | None, format_id: str) -> int:
        return int(time_of(text, rate_of(self, format_id)).value)

    monkeypatch.setattr(adapter, "to_rational_time", time_of)
    monkeypatch.setattr(adapter.FcpxXml, "_format_frame_rate", rate_of)
    monkeypatch.setattr(adapter.FcpxXml, "_number_of_frames", number_of)


FORMS: dict[str, Callable[[Sequence[CheckedTake], str], str]] = {
    "otio_json": as_otio,
    "cmx_3600": as_edl,
    "fcpx_xml": as_fcpxml,
    "fcp_xml": as_xmeml,
}
"""By OpenTimelineIO's name of what reads it."""


@pytest.mark.usefixtures("exact_adapter")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("timecode", [None, "01:00:00:00"])
@pytest.mark.parametrize("name", RATES)
def test_a_list_is_read_again_to_the_frame(form: str, name: str, timecode: str | None) -> None:
    made, expected = takes(RATES[name], timecode)
    assert read_list(form, FORMS[form](made, "trams"), RATES[name]) == expected


@pytest.mark.parametrize("name", RATES)
def test_the_records_of_an_edl_follow_one_another_and_its_head_says_how_labels_count(name: str) -> None:
    rate = RATES[name]
    made, expected = takes(rate, None)
    lines = as_edl(made, "trams\n").splitlines()
    assert lines[:2] == ["TITLE: trams\\n", f"FCM: {'' if rate.drop else 'NON-'}DROP FRAME"]
    events = [line.split() for line in lines if line[:3].isdigit()]
    at = 0
    for event, (_, first, count) in zip(events, expected, strict=True):
        assert event[-4:] == [rate.timecode(one) for one in (first, first + count, at, at + count)]
        at += count


def test_reels_are_short_and_none_is_of_two_files() -> None:
    its = facts(RATES["25"])
    names = ["tram at night.mp4", "tram at noon.mp4", "東京.mp4", "大阪.mp4", "tram at night.mp4"]
    lines = as_edl([take_of(name, its, range(25)) for name in names], "t").splitlines()
    reels = [line.split()[1] for line in lines if line[:3].isdigit()]
    assert reels == ["TRAMATNI", "TRAMATNO", "CLIP", "CLIP2", "TRAMATNI"]
    assert "* FROM CLIP NAME:  東京.mp4" in lines


def test_an_edl_has_one_rate_so_there_is_one_for_each() -> None:
    mixed = [take_of("a", facts(RATES["25"]), range(25)), take_of("b", facts(RATES["50"]), range(50))]
    mixed.append(take_of("c", facts(RATES["25"]), range(25)))
    parts = [(title, [take.take.name for take in part]) for title, part in by_rate(mixed, "t")]
    assert parts == [("t 25", ["a", "c"]), ("t 50", ["b"])]
    assert by_rate(mixed[:1], "t") == [("t", mixed[:1])]


def test_a_project_of_mixed_rates_holds_each_stretch_at_its_own_rate() -> None:
    mixed = [take_of("a.mp4", facts(RATES["25"]), range(25, 50)) for _ in range(2)]
    mixed.insert(1, take_of("b.mp4", facts(RATES["59.94"]), range(100, 161)))
    root = ET.fromstring(as_fcpxml(mixed, "t <&>"))
    clips = root.findall(".//asset-clip")
    assert [clip.get("start") for clip in clips] == ["25/25s", "100100/60000s", "25/25s"]
    assert [clip.get("duration") for clip in clips] == ["25/25s", "26/25s", "25/25s"]
    assert [clip.get("offset") for clip in clips] == ["0s", "25/25s", "51/25s"]
    assert (root.find(".//project").get("name"), root.find(".//sequence").get("duration")) == ("t <&>", "76/25s")
    formats = {one.get("id"): one.get("frameDuration") for one in root.findall("./resources/format")}
    assert [formats[clip.get("format")] for clip in clips] == ["1/25s", "1001/60000s", "1/25s"]


NAMES = ["Straße am Übergang.mp4", "100% & <more>.mp4", "a\ufffeb\uffff.mp4", "tab\tand\x08.mp4", "東京 \udcff.mp4"]


@pytest.mark.parametrize("write", [as_fcpxml, as_xmeml])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_gives_a_document_that_is_read_and_an_address_that_leads_back(
    write: Callable[[Sequence[CheckedTake], str], str], name: str
) -> None:
    take = take_of(name, facts(RATES["25"]), range(25))
    take.take.pick.reason["words"] = [name]
    text = write([take], name).encode("utf-8", "replace")
    assert text.splitlines()[1] in {b"<!DOCTYPE fcpxml>", b"<!DOCTYPE xmeml>"}
    root = ET.fromstring(text)
    (url,) = [one.get("src") or one.text for one in (*root.iter("media-rep"), *root.iter("pathurl"))]
    assert url.isascii() and url.startswith("file:///v/" if write is as_fcpxml else "file://localhost/v/")
    assert os.fsdecode(urllib.parse.unquote_to_bytes(url)).endswith(f"/v/{name}")


def items(text: str, kind: str) -> list[list[ET.Element]]:
    """The clips of each track of a sequence."""
    return [track.findall("clipitem") for track in ET.fromstring(text).findall(f"./sequence/media/{kind}/track")]


def numbers(item: ET.Element) -> list[int]:
    return [int(item.findtext(name)) for name in ("start", "end", "in", "out")]


def test_a_clip_of_another_rate_than_its_sequence_is_counted_at_the_rate_of_the_sequence() -> None:
    """As Premiere and Resolve read it: 2 s into a film of 25 frames a second is frame 60 of a sequence of 30."""
    made = [take_of("a.mp4", facts(RATES["30"]), range(30, 60)) for _ in range(2)]
    made.insert(1, take_of("b.mp4", facts(RATES["25"], "10:00:00:00"), range(50, 76)))
    text = as_xmeml(made, "t")
    (clips,) = items(text, "video")
    assert [numbers(clip) for clip in clips] == [[0, 30, 30, 60], [30, 62, 60, 92], [62, 92, 30, 60]]
    assert [clip.findtext("rate/timebase") for clip in clips] == ["30"] * 3
    about = clips[1].find("file")
    assert (about.findtext("rate/timebase"), about.findtext("duration")) == ("25", str(2 * HOURS * 25))
    assert about.findtext("timecode/string") == "10:00:00:00"
    (_, other, _), _ = otio.adapters.read_from_string(text, "fcp_xml").tracks
    read = other.source_range
    assert read.start_time.to_seconds() == 36_002.0
    assert read.duration.to_seconds() * 25 >= 26  # whole frames of the sequence, which hold the stretch


def test_sound_is_linked_to_its_picture_and_has_a_track_for_each_channel() -> None:
    films = [("a.mp4", 2), ("b.mp4", 1), ("c.mp4", 0), ("a.mp4", 2), ("d.mp4", 6)]
    text = as_xmeml([take_of(name, facts(RATES["25"], None, count), range(25)) for name, count in films], "t")
    (pictures,), sounds = items(text, "video"), items(text, "audio")
    names = [[clip.findtext("name") for clip in track] for track in sounds]
    assert names == [["a.mp4", "a.mp4"], ["a.mp4", "a.mp4"], ["b.mp4", "d.mp4"], *[["d.mp4"]] * 5]  # left, right, mono
    for clip in (*pictures, *(one for row in sounds for one in row)):
        linked = [
            (pictures if kind == "video" else sounds[int(track) - 1])[int(place) - 1]
            for _, kind, track, place in ([part.text for part in link] for link in clip.findall("link"))
        ]
        assert [link.findtext("linkclipref") for link in clip.findall("link")] == [one.get("id") for one in linked]
        assert clip in linked and {one.findtext("start") for one in linked} == {clip.findtext("start")}
        assert len(linked) == 1 + films[pictures.index(linked[0])][1]
    described = [one.findtext("name") for one in ET.fromstring(text).iter("file") if len(one)]
    assert described == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]  # each once, then by its id
    read = otio.adapters.read_from_string(text, "fcp_xml")
    assert [track.kind for track in read.tracks] == ["Video"] + ["Audio"] * 7  # two of stereo are one


def test_clips_and_files_are_described_as_premiere_does_in_a_list_of_its_own(shared_data: Path) -> None:
    theirs = ET.parse(shared_data / "editors" / "otio_premiere_example.xml").getroot()
    ours = ET.fromstring(as_xmeml([take_of("a.mp4", facts(RATES["30"]), range(30))], "t"))
    for path in ("media/video/track/clipitem", "media/audio/track/clipitem"):
        known = {one for clip in theirs.findall(f"./sequence/{path}") for one in paths_of(clip)}
        assert set(paths_of(ours.find(f"./sequence/{path}"))) <= known


def paths_of(element: ET.Element, above: str = "") -> list[str]:
    below = [one for child in element for one in paths_of(child, f"{above}/{child.tag}")]
    return [above, *(f"{above}@{name}" for name in element.attrib), *below]


DTD = {  # of FCPXML 1.12, as far as it is written here: what an element may hold, and its attributes
    "fcpxml": ("resources library", "version"),
    "resources": ("format asset", ""),
    "format": ("", "id frameDuration width height"),
    "asset": ("media-rep", "id name start duration hasVideo format hasAudio audioSources audioChannels audioRate"),
    "media-rep": ("", "kind src"),  # since 1.10 an asset has no `src` of its own
    "library": ("event", ""),
    "event": ("project", "name"),
    "project": ("sequence", "name"),
    "sequence": ("spine", "format duration tcStart tcFormat"),
    "spine": ("asset-clip", ""),
    "asset-clip": ("note", "name ref offset start duration format tcFormat"),
    "note": ("", ""),
}


def test_an_fcpxml_document_has_what_its_type_allows() -> None:
    made = [take_of("a.mp4", facts(RATES["29.97 df"]), range(25)), take_of("b.mp4", facts(RATES["25"]), range(9))]
    root = ET.fromstring(as_fcpxml(made, "t"))
    for element in root.iter():
        children, attributes = (set(names.split()) for names in DTD[element.tag])
        assert (set(element.attrib), {child.tag for child in element}) == (attributes, children)
    assert (root.get("version"), [child.tag for child in root]) == ("1.12", ["resources", "library"])


def test_a_timeline_has_a_gap_where_a_film_is_silent() -> None:
    made = [take_of("a.mp4", facts(RATES["25"]), range(25)), take_of("b.mp4", facts(RATES["25"], channels=0), range(9))]
    read = otio.adapters.read_from_string(as_otio(made, "t"), "otio_json")
    pictures, sound = read.tracks
    assert [type(item).__name__ for item in sound] == ["Clip", "Gap"]
    assert [item.duration().value for item in sound] == [item.duration().value for item in pictures] == [25, 9]
    assert pictures[0].media_reference.target_url == "file:///v/a.mp4"


TEAL = (0, 128, 128)


def test_each_still_is_whole_in_its_place() -> None:
    still = to_jpeg(np.full((240, 320, 3), TEAL, np.uint8), 320, 320)
    cells = [SheetCell(still, f"{'long name ' * number}.mp4", "0") for number in range(5)]
    picture = np.asarray(Image.open(io.BytesIO(sheet_jpeg([*cells, SheetCell(None, "東京 \x1b.mp4", "0")], "Trams"))))
    assert picture.shape == (536, 1360, 3)
    teal = (np.abs(picture.astype(int) - TEAL) < 12).all(axis=2)
    assert teal.sum() == pytest.approx(5 * 240 * 180, rel=0.02)  # 4:3 in a place of 320 x 180
    assert teal[56:236, 16:336].sum() == pytest.approx(240 * 180, rel=0.02)


def test_a_sheet_without_a_font_of_the_system_is_drawn_with_pillows_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for name in ("NoSuchFont.ttf", *taking._FONTS):
        monkeypatch.setattr(taking, "_FONTS", (name,))
        taking._font.cache_clear()
        drawn.append(sheet_jpeg([SheetCell(None, "tram.mp4", "0")], "Trams"))
    taking._font.cache_clear()
    assert all(Image.open(io.BytesIO(one)).size == (352, 296) for one in drawn)


def test_a_table_holds_names_that_look_like_formulas_as_text() -> None:
    take = take_of("=1+1.mp4", facts(RATES["25"]), range(10, 20))
    (row,) = csv.DictReader(io.StringIO(as_csv([take], "t")))
    expected = {"file": "'=1+1.mp4", "first_frame": "10", "frames": "10", "end_timecode": "00:00:00:20"}
    assert expected.items() <= row.items()


def hit(clip_id: str, *moments: tuple[float, float]) -> dict[str, Any]:
    listed = [{"time_s": start_s, "start_s": start_s, "end_s": end_s} for start_s, end_s in moments]
    about = {"score": 1.0, "weaker": False, "on_screen": [], "said": []}
    return {"clip_id": clip_id, "moments": listed, "duration_s": 60.0, **about}


def test_the_stretches_of_a_result_are_those_of_its_answer() -> None:
    result = {"query": "tram", "answering": 1, "hits": [hit("a", (3.0, 3.0), (5.0, 9.0)), hit("b", (1.0, 4.0))]}
    assert [(one.clip_id, one.start_s, one.end_s) for one in picks_of(result)] == [("a", 2.0, 2.0 + LEAST_S)]
    every = picks_of(result, every_moment=True, others=True)
    expected = [(2.0, 4.0, 1), (5.0, 9.0, 1), (1.0, 4.0, 2)]
    assert [(one.start_s, one.end_s, one.reason["rank"]) for one in every] == expected
    for line, words in (((6.0, 8.0), ["late again"]), ((0.0, 0.0), [])):  # in other words: said, or in its caption
        result["hits"][0]["meaning"] = {"text": "late again", "start_s": line[0], "end_s": line[1]}
        assert [one.reason["words"] for one in picks_of(result, every_moment=True)] == [[], words]


@pytest.mark.parametrize(
    ("found", "wider"),
    [((5.0, 5.0), (4.0, 6.0)), ((0.5, 0.5), (0.0, 2.0)), ((1.0, 9.0), (1.0, 9.0)), ((59.5, 60.0), (58.0, 60.0))],
)
def test_a_short_moment_is_widened_within_its_clip(found: tuple[float, float], wider: tuple[float, float]) -> None:
    assert widened(*found, 60.0) == wider


@pytest.mark.parametrize(
    "wrong", [{}, {"hits": 3, "answering": 1}, {"hits": [{}], "answering": 1}, {"hits": ["a"], "answering": 1}]
)
def test_what_is_no_result_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="That is no result of a search"):
        picks_of(wrong)
    with pytest.raises(UsageError, match="A list of stretches needs clip_id, start_s and end_s"):
        stretches_of(wrong)


def test_a_list_that_was_edited_by_hand_has_words_and_no_more_than_may_be_taken() -> None:
    one = {"clip_id": "a", "start_s": 1, "end_s": "2.5", "words": [7], "rank": None, "query": "tram"}
    (pick,) = stretches_of({"stretches": [one]})
    assert (pick.end_s, pick.reason) == (2.5, {"query": "tram", "words": ["7"]})
    with pytest.raises(UsageError, match="stretches are more than"):
        stretches_of({"stretches": [one] * (MOST_STRETCHES + 1)})


def test_subtitles_are_clipped_to_their_stretch_and_in_the_language_asked_for() -> None:
    cues = [("one", 0.5, 2.0), ("two", 2.5, 9.0), ("three", 9.5, 9.9)]
    said = [Utterance(*cue, "sidecar") for cue in cues]
    english = Transcript("sidecar", "a.srt", tuple(said), "en")
    german = replace(english, utterances=(Utterance("eins", 0.5, 2.0, "sidecar"),), language="de-AT")
    span_s = Fraction(1), Fraction(4)
    assert subtitles([english, german], "srt", span_s, None) == (
        "1\n00:00:00,000 --> 00:00:01,000\none\n\n2\n00:00:01,500 --> 00:00:03,000\ntwo\n"
    )
    assert "eins" in subtitles([english, german], "vtt", span_s, "de")
    for language, span, sentence in (
        ("fr", span_s, "said in it in fr"),
        ("de", (Fraction(3), Fraction(4)), "nothing is said in"),
    ):
        with pytest.raises(NotFoundError, match=sentence):
            subtitles([english, german], "srt", span, language)


@given(text=st.one_of(st.text(max_size=300), st.sampled_from(["../../etc", "a\\b", "c:d", "nul.txt", " . ", "\udcff"])))
def test_any_text_becomes_one_name(text: str) -> None:
    stem = file_stem(text)
    assert stem and stem not in {".", ".."}
    assert not set(stem) & set('/\\:*?"<>|\0\n')
    assert len(stem.encode()) <= LONGEST + 1
    assert stem == stem.strip(" .")
    assert stem.partition(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
    assert file_stem(stem) == stem


def test_a_name_that_is_taken_is_numbered_whatever_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that another export takes while this one looks."""
    (tmp_path / "Tram.mp4").touch()
    (tmp_path / "tram (2).mp4").touch()
    own = Path.iterdir

    def taken_behind_it(folder: Path) -> Iterator[Path]:
        yield from list(own(folder))
        (tmp_path / "tram (3).mp4").write_text("another's")

    monkeypatch.setattr(Path, "iterdir", taken_behind_it)
    (tmp_path / "made").write_text("mine")
    path = give_name(tmp_path / "made", tmp_path, "tram", ".mp4")
    assert (path.name, path.read_text(), (tmp_path / "made").exists()) == ("tram (4).mp4", "mine", False)
    assert (tmp_path / "tram (3).mp4").read_text() == "another's"
    monkeypatch.setattr(os, "link", lambda *_: os.rmdir(tmp_path / "nowhere"))  # a disk without links
    path.rename(tmp_path / "made")
    assert give_name(tmp_path / "made", tmp_path, "tram", ".srt").read_text() == "mine"
