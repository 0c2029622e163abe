"""What is looked at and what is not, with models that count their calls; odd frames; the real models."""

from __future__ import annotations

import bisect
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.media import open_video, parse_rule
from evenreel.onscreen import TextReader, TextSettings, VideoText
from evenreel.onscreen.reader import FileReader, follow, grouped, without_shapes
from evenreel.onscreen.scene import Models, RapidRecognizer, SheetReader, close_shape, crop, ways_to_read
from evenreel.planted import Entity, Scene, SignBoard, write_scene
from evenreel.types import FloatArray, Frame, Pixels, TextTrack, Word
from tests.media_files import Film, gop, steady, write_film

HEIGHT, WIDTH = 360, 640
NAMES = {40: "ARRIVALS", 80: "TICKETS", 120: "出口"}


@dataclass
class RedDetector:
    """Text is what is bright red; `seen` has the number of pixels of every call."""

    seen: list[int] = field(default_factory=list)

    def heat(self, picture: Pixels) -> FloatArray:
        self.seen.append(picture.shape[0] * picture.shape[1])
        return (picture[..., 0] > 200).astype(np.float32)

    def lines(self, heat: FloatArray) -> NDArray[np.float32]:
        _, _, stats, _ = cv2.connectedComponentsWithStats((heat > 0.5).astype(np.uint8))
        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h, _ in stats[1:].tolist()]
        return np.array(corners, np.float32).reshape(-1, 4, 2)


@dataclass
class GreenRecognizer:
    """A sign says what its green means."""

    crops: int = 0

    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        self.crops += len(crops)
        greens = [float(np.median(crop[..., 1])) for crop in crops]
        return [(NAMES[min(NAMES, key=lambda known: abs(known - green))], 0.95) for green in greens]


@dataclass
class Bench:
    """A reader with counting models and one video."""

    detector: RedDetector = field(default_factory=RedDetector)
    recognizer: GreenRecognizer = field(default_factory=GreenRecognizer)

    def __post_init__(self) -> None:
        self.video: VideoText = TextReader(models=Models(self.detector, self.recognizer)).new_video()

    def show(self, time_s: float, picture: Pixels) -> None:
        self.video.add(Frame(time_s, picture))


def wall(level: int = 30, shape: tuple[int, int] = (HEIGHT, WIDTH)) -> Pixels:
    return np.full((*shape, 3), level, np.uint8)


def with_sign(
    picture: Pixels, green: int = 40, x: int = 200, y: int = 100, size: tuple[int, int] = (120, 24)
) -> Pixels:
    picture = picture.copy()
    picture[y : y + size[1], x : x + size[0]] = (255, green, 30)
    return picture


@pytest.mark.parametrize("noise", [0, 4])  # of the coding
def test_a_still_picture_is_looked_at_and_read_once(noise: int) -> None:
    bench, chance = Bench(), np.random.default_rng(0)
    for second in range(10):
        picture = with_sign(wall()).astype(int) + chance.integers(-noise, noise + 1, (HEIGHT, WIDTH, 3))
        bench.show(second, picture.clip(0, 255).astype(np.uint8))
    assert bench.recognizer.crops == 1
    assert len(bench.detector.seen) <= 2  # a glance, and a close look where it felt something
    assert [w.text for w in bench.video.words] == ["ARRIVALS"] * 10


def test_a_picture_without_text_gets_no_close_look() -> None:
    bench = Bench()
    bench.show(0.0, wall())
    close = close_shape((HEIGHT, WIDTH), TextSettings())
    assert len(bench.detector.seen) == 1 and bench.detector.seen[0] < close[0] * close[1] / 5


def test_a_glance_costs_no_more_in_a_larger_picture() -> None:
    for shape in [(HEIGHT, WIDTH), (1080, 1920), (2160, 3840)]:
        bench = Bench()
        bench.show(0.0, wall(shape=shape))
        assert bench.detector.seen == [256 * 448]


def test_a_sign_from_2_to_5_seconds_is_one_track_with_these_times() -> None:
    bench = Bench()
    for half in range(16):
        time_s = half / 2
        bench.show(time_s, with_sign(wall()) if 2 <= time_s <= 5 else wall())
    (track,) = bench.video.tracks()
    assert (track.text, track.start_s, track.end_s) == ("ARRIVALS", 2.0, 5.0)
    assert track.box == pytest.approx((200 / WIDTH, 100 / HEIGHT, 320 / WIDTH, 124 / HEIGHT), abs=0.01)


def test_a_second_sign_is_read_and_the_first_is_not_read_again() -> None:
    bench = Bench()
    bench.show(0.0, with_sign(wall()))
    bench.show(1.0, with_sign(with_sign(wall()), green=120, x=230, y=150))
    assert bench.recognizer.crops == 2
    assert [(t.text, t.start_s) for t in bench.video.tracks()] == [("ARRIVALS", 0.0), ("出口", 1.0)]
    bench.show(2.0, with_sign(wall(), green=80))  # another one in the place of the first
    assert bench.video.words[-1].text == "TICKETS"


def test_a_sign_over_a_moving_picture_is_read_once() -> None:
    bench = Bench()
    for second in range(5):
        bench.show(second, with_sign(wall(level=20 + 25 * second)))
    assert bench.recognizer.crops == 1
    assert len(bench.video.words) == 5


def test_a_longer_line_takes_the_place_of_its_part() -> None:
    bench = Bench()
    bench.show(0.0, with_sign(wall(), x=40, size=(400, 24)))
    bench.show(1.0, with_sign(wall(), x=40, size=(480, 24)))
    assert [w.box[2] - w.box[0] for w in bench.video.words] == pytest.approx([400 / WIDTH, 480 / WIDTH], abs=0.01)


def test_a_slow_fade_is_noticed_while_something_else_changes_all_the_time() -> None:
    bench = Bench()
    for step in range(40):
        picture = with_sign(wall(), x=20, y=300)
        picture[:20, -20:] = 250 * (step % 2)
        sign = (np.array([255, 80, 30]) - 30) * step / 39 + 30
        picture[60:84, 60:200] = sign.round()
        bench.show(step, picture)
    assert "TICKETS" in {track.text for track in bench.video.tracks()}


@pytest.mark.parametrize("height_px", [9, 14, 24])
def test_one_changed_digit_is_noticed(height_px: int) -> None:
    bench = Bench()
    bench.show(0.0, drawn("JPN 0:0 NED", height_px))
    calls = len(bench.detector.seen)
    bench.show(1.0, drawn("JPN 0:1 NED", height_px))
    assert len(bench.detector.seen) > calls


@pytest.mark.parametrize("shape", [(1, 1), (2, 4000), (20, 4000), (4000, 20), (33, 17), (50, 50), (2160, 3840)])
def test_odd_sizes_are_read_within_the_size_limit(shape: tuple[int, int]) -> None:
    bench = Bench()
    bench.show(0.0, with_sign(wall(shape=shape), x=0, y=0))
    settings = TextSettings()
    assert max(bench.detector.seen, default=0) <= settings.max_side_px**2
    if min(shape) >= 16:
        assert max(close_shape(shape, settings)) <= settings.max_side_px + 16


def test_a_video_may_change_its_size() -> None:
    bench = Bench()
    bench.show(0.0, with_sign(wall()))
    bench.show(1.0, with_sign(wall(shape=(720, 1280)), x=400, y=200, size=(240, 48)))
    bench.show(2.0, wall(shape=(4, 4)))
    bench.show(3.0, with_sign(wall()))
    assert [w.time_s for w in bench.video.words] == [0.0, 1.0, 3.0]
    (track,) = bench.video.tracks()
    assert (track.start_s, track.end_s) == (0.0, 3.0)


def test_frames_out_of_order_and_other_arrays_are_refused_in_a_sentence() -> None:
    bench = Bench()
    bench.show(2.0, wall())
    with pytest.raises(UsageError, match=r"1\.000 s was added after one at 2\.000 s"):
        bench.show(1.0, wall())
    with pytest.raises(UsageError, match="float64"):
        bench.show(3.0, wall().astype(np.float64))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"\(360, 640\)"):
        bench.show(3.0, wall()[..., 0])


def drawn(text: str, size: int, level: int = 40) -> Pixels:
    image = Image.fromarray(wall(level))
    ImageDraw.Draw(image).text((150, 150), text, font=ImageFont.load_default(size), fill=(240, 240, 240))
    return np.array(image)


@pytest.fixture(scope="module")
def reader() -> TextReader:
    return TextReader(TextSettings(threads=1))


def read(reader: TextReader, picture: Pixels) -> list[str]:
    video = reader.new_video()
    video.add(Frame(0.0, picture))
    return [word.text for word in video.words]


def test_a_drawn_line_is_read_with_its_spaces_and_when_it_is_turned(reader: TextReader) -> None:
    assert read(reader, drawn("The harbour is closed", 22)) == ["The harbour is closed"]
    assert read(reader, np.ascontiguousarray(np.rot90(drawn("HARBOUR", 40), k=-1))) == ["HARBOUR"]


@pytest.fixture(scope="module")
def recognizer() -> RapidRecognizer:
    return RapidRecognizer(1)


def test_a_short_line_is_read_the_same_alone_and_beside_longer_ones(recognizer: RapidRecognizer) -> None:
    short, long = (drawn(text, 40)[145:205, 140:] for text in ("EXIT", "The harbour is closed"))
    short = short[:, :120]
    alone = recognizer.read([short])
    assert alone[0][0] == "EXIT"
    assert recognizer.read([long, short, long])[1] == alone[0]


def test_a_line_whose_last_letter_the_detector_cut_in_half_is_read_whole(recognizer: RapidRecognizer) -> None:
    left, top, right, bottom = ImageFont.load_default(40).getbbox("lantern")
    end = right - 0.25 * (bottom - top)
    quad = np.array([[left, top], [end, top], [end, bottom], [left, bottom]], np.float32) + 150
    picture = drawn("lantern", 40)
    assert recognizer.read([crop(picture, quad)])[0][0] == "lantern"
    # The same line as it runs downwards: a quarter turn of the picture and of its corners.
    turned = np.stack([HEIGHT - quad[:, 1], quad[:, 0]], axis=1)[[3, 0, 1, 2]].astype(np.float32)
    (way,) = ways_to_read(crop(np.ascontiguousarray(np.rot90(picture, k=-1)), turned))
    assert recognizer.read([way])[0][0] == "lantern"


@pytest.mark.parametrize(("height", "width", "turned"), [(48, 200, [False]), (48, 48, [False]),
                                                         (90, 48, [False, True]), (200, 48, [True])])  # fmt: skip
def test_only_slim_crops_are_turned_and_doubtful_ones_read_both_ways(
    height: int, width: int, turned: list[bool]
) -> None:
    ways = ways_to_read(np.zeros((height, width, 3), np.uint8))
    assert [way.shape[:2] for way in ways] == [(width, height) if turn else (height, width) for turn in turned]


def test_the_id_names_engine_models_and_settings_but_not_threads(reader: TextReader) -> None:
    assert "rapidocr-" in reader.reader_id and "det" in reader.reader_id
    models = Models(RedDetector(), GreenRecognizer())
    assert TextReader(TextSettings(threads=4), models).reader_id == reader.reader_id
    assert TextReader(TextSettings(glance_level=0.2), models).reader_id != reader.reader_id


def test_nothing_heavy_is_imported_and_nothing_is_printed() -> None:
    script = """
import sys
import evenreel.onscreen as onscreen
assert not {"cv2", "rapidocr", "onnxruntime", "torch"} & set(sys.modules), sorted(sys.modules)
import numpy as np
from evenreel.types import Frame
video = onscreen.TextReader().new_video()
video.add(Frame(0.0, np.zeros((64, 64, 3), np.uint8)))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_signs_of_a_real_football_clip(real_clips: Path, reader: TextReader) -> None:
    video = reader.new_video()
    with open_video(real_clips / "msrvtt_video7500.mp4") as clip:
        for frame in clip.frames(parse_rule("every 1 s")):
            if frame.time_s < 0.5 or frame.time_s > 13.5:
                video.add(frame)
    tracks = video.tracks()
    opening = " ".join(track.text for track in tracks if track.start_s < 0.5)
    assert "JAPAN" in opening and "NETHERLANDS" in opening
    assert any("HYUNDAI" in reading for track in tracks for reading in track.readings)


LIMITS = asdict(MediaLimits(max_damaged_share=1.0))


def read_file(
    path: Path, rule: str, **task: Any
) -> tuple[list[tuple[float, list[int], int]], list[float], list[float]]:
    """Time, rules and shot of each frame, the times of stills, and the cuts."""
    whole = {"path": str(path), "part": [None, None], "frames": True, "text": False, **task}
    frames, stills, cuts = [], [], []
    for message, _ in FileReader(rule, LIMITS, 1, text=False, shots=True)(whole):
        if message["kind"] == "frame":
            frames.append((message["time_s"], message["for"], message["shot"]))
        elif message["kind"] == "still":
            stills.append(message["time_s"])
        elif message["kind"] == "end":
            cuts = message["cuts_s"]
    return frames, stills, cuts


def alone(path: Path, rule: str) -> list[float]:
    with open_video(path, MediaLimits(max_damaged_share=1.0)) as video:
        return [max(0.0, frame.time_s) for frame in video.frames(parse_rule(rule))]


FILMS = {
    "steady.mp4": Film(steady(150), options=gop(30, b_frames=3)),
    "open.ts": Film(steady(150), options=gop(30, b_frames=3, more=":open-gop=1")),
    "slow.mkv": Film([0, 33, 66, 100, 300, 500, 700, 1500, 1540, 1580, 1620, 4000, 4010, 4020, 7000, 9000]),
    "one.mp4": Film([0]),
}


def check(path: Path, rule: str) -> None:
    own = alone(path, rule)
    frames, stills, cuts = read_file(path, rule, periods=[0.4, 0.7], still={"side_px": 8, "quality": 50})
    assert stills == own
    for place, wanted in enumerate([rule, "every 0.4 s", "every 0.7 s"]):
        assert [time_s for time_s, rules, _ in frames if place in rules] == alone(path, wanted), wanted
    assert [shot for *_, shot in frames] == [bisect.bisect_right(cuts, time_s) for time_s, *_ in frames]


@pytest.mark.parametrize("rule", ["every 1 s", "7 midpoints"])
@pytest.mark.parametrize("name", FILMS)
def test_each_rule_has_the_frames_that_it_has_alone(tmp_path: Path, name: str, rule: str) -> None:
    write_film(tmp_path / name, FILMS[name])
    check(tmp_path / name, rule)


@pytest.mark.parametrize("name", ["video_90.mov", "ucf101_eye_makeup.avi", "kitten_on_grass.mp4"])
def test_each_rule_has_its_frames_of_real_clips(real_clips: Path, name: str) -> None:
    check(real_clips / name, "every 1 s")


def test_windows_have_the_frames_of_a_rule_by_number(tmp_path: Path) -> None:
    write_film(tmp_path / "clip.mp4", FILMS["steady.mp4"])
    frames, *_ = read_file(tmp_path / "clip.mp4", "frozen 5", periods=[0.4])
    assert [rules for _, rules, _ in frames] == [[0, 1]] * 5


@pytest.fixture(scope="module")
def sheets() -> SheetReader:
    return SheetReader()


def sheet(px: int, *lines: tuple[int, float, str]) -> Pixels:
    """Words at places, in letters of a height."""
    face = ImageFont.load_default(px)
    picture = Image.new("L", (30 * px, int(2 * px * (1 + max(row for _, row, _ in lines)))), 255)
    for column, row, words in lines:
        ImageDraw.Draw(picture).text((column * px, int(2 * px * row)), words, 0, font=face)
    return np.asarray(picture)


@pytest.mark.parametrize("px", [9, 14, 30, 60, 160])
def test_letters_of_any_size_are_read(sheets: SheetReader, px: int) -> None:
    words, confidence = sheets.read(sheet(px, (1, 0, "The old house"), (1, 1, "by the river.")))
    assert words == "The old house by the river."
    assert confidence > 0.9


def test_words_side_by_side_are_one_line(sheets: SheetReader) -> None:
    both = sheet(30, (16, 0, "is late."), (1, 0.1, "The train"), (1, 1, "Let us walk."))
    assert sheets.read(both)[0] == "The train is late. Let us walk."


def test_a_sheet_without_letters_says_nothing(sheets: SheetReader) -> None:
    for blank in (np.full((40, 300), 255, np.uint8), np.zeros((1, 1), np.uint8), np.zeros((4000, 3), np.uint8)):
        assert sheets.read(blank) == ("", 0.0)


def test_languages_of_scripts_that_are_not_read_are_told(sheets: SheetReader) -> None:
    read = ("en", "pt-BR", "vi", "zh", "zh-TW", "ja", "sr-Latn", None)
    assert all(map(sheets.can_read, read))
    assert not any(map(sheets.can_read, ("ru", "el", "ko", "ar", "he", "th", "hi", "sr", "uk")))


Box = tuple[float, float, float, float]
HERE: Box = (0.1, 0.1, 0.3, 0.2)


def word(text: str, time_s: float, confidence: float = 0.95, box: Box = HERE) -> Word:
    return Word(text, confidence, box, time_s)


def test_one_sign_is_one_track_with_its_best_reading_and_all_others() -> None:
    readings = [("HYUNDRI", 0.89), ("HYUNDAI", 0.98), ("HYUNG", 0.82), ("HYUNDRI", 0.91)]
    words = [word(text, float(second), sure) for second, (text, sure) in enumerate(readings)]
    (track,) = follow(words)
    assert (track.text, track.confidence) == ("HYUNDAI", 0.98)
    assert (track.start_s, track.end_s) == (0.0, 3.0)
    assert track.readings == ("HYUNDAI", "HYUNDRI", "HYUNG")


def test_two_signs_that_follow_each_other_in_one_place_stay_two() -> None:
    words = [word("ARRIVALS", 0.0), word("ARRIVALS", 1.0), word("TICKETS", 2.0), word("TICKETS", 3.0)]
    assert [(t.text, t.start_s, t.end_s) for t in follow(words)] == [("ARRIVALS", 0, 1), ("TICKETS", 2, 3)]


def test_certain_numbers_tell_signs_apart_and_doubtful_ones_do_not() -> None:
    assert len(follow([word("GATE 12", 0.0, 0.97), word("GATE 15", 1.0, 0.98)])) == 2
    assert len(follow([word("GATE 12", 0.0, 0.97), word("GATE I2", 1.0, 0.7)])) == 1
    between = [word("9:16", 0.0, 0.97), word("9:1", 1.0, 0.6), word("9:17", 2.0, 0.97)]
    assert len(follow(between)) == 2


def test_a_sign_may_be_missed_in_one_frame_and_comes_back_as_another() -> None:
    times = [0.0, 10.0, 20.0, 30.0]
    assert len(follow([word("EXIT", 0.0), word("EXIT", 20.0)], times)) == 1
    assert len(follow([word("EXIT", 0.0), word("EXIT", 30.0)], times)) == 2
    tracks = follow([word("EXIT", second) for second in (2.0, 3.0, 10.0, 11.0)], [float(n) for n in range(13)])
    assert [(t.start_s, t.end_s) for t in tracks] == [(2, 3), (10, 11)]


FAR: Box = (0.6, 0.1, 0.7, 0.2)
LARGE: Box = (0.5, 0.1, 0.9, 0.5)


@pytest.mark.parametrize(
    ("read", "stay"),
    [
        ([("大", 0.91, FAR), ("22", 0.88, FAR), ("PPPPRR", 0.68, FAR), ("444", 0.65, FAR)], []),
        ([("C", 0.998, FAR), ("中", 0.993, HERE), ("★", 1.0, HERE), ("?", 1.0, HERE)], []),
        ([("A", 0.99, FAR), ("22", 1.0, HERE), ("NO", 0.93, LARGE), ("中", 0.9995, HERE)], ["A", "22", "NO", "中"]),
        ([("HYUNDRI", 0.6, HERE), ("EXIT 22", 0.8, FAR)], ["HYUNDRI", "EXIT 22"]),
        ([("JPN", 0.99, HERE), ("0", 0.92, FAR)], ["JPN", "0"]),  # a score beside its team
        ([("HARBOUR", 0.99, HERE), ("C", 0.998, LARGE)], ["HARBOUR"]),  # a crescent in another size
        ([("HARBOUR", 0.99, HERE), ("中", 0.98, FAR)], ["HARBOUR"]),  # a cross, in another script
    ],
)
def test_shapes_that_are_read_as_letters_are_no_signs(read: list[tuple[str, float, Box]], stay: list[str]) -> None:
    tracks = [TextTrack(text, sure, 0.0, 1.0, box) for text, sure, box in read]
    assert [track.text for track in without_shapes(tracks, TextSettings())] == stay


def test_a_crescent_is_no_sign_and_the_words_below_it_are_one(tmp_path: Path, reader: TextReader) -> None:
    scene = Scene((Entity("crescent", "yellow", "large"),), "grows", "city", signs=(SignBoard("GATE 7"),))
    write_scene(tmp_path / "scene.mp4", scene)
    video = reader.new_video()
    with open_video(tmp_path / "scene.mp4") as clip:
        for frame in clip.frames(parse_rule("every 0.5 s")):
            video.add(frame)
    assert "C" in {word.text for word in video.words}
    assert {track.text.replace(" ", "") for track in video.tracks()} == {"GATE7"}


def test_a_moving_sign_stays_one_track_while_its_copy_beside_it_stays_another() -> None:
    first = [word("BREAKING NEWS", float(i), box=(0.7 - 0.1 * i, 0.9, 0.9 - 0.1 * i, 0.95)) for i in range(5)]
    copy = [word("BREAKING NEWS", float(i), box=(0.7 - 0.1 * i, 0.1, 0.9 - 0.1 * i, 0.15)) for i in range(5)]
    tracks = follow(first + copy)
    assert [(t.start_s, t.end_s) for t in tracks] == [(0, 4), (0, 4)]
    jump = [word("EXIT", 0.0), word("EXIT", 1.0, box=(0.6, 0.7, 0.8, 0.8))]
    assert len(follow(jump)) == 2


def test_the_cost_grows_with_the_words_and_not_with_their_square() -> None:
    words = [word(f"{row} line {'abcdefgh'[row]}", float(s), box=(0.1, row / 8, 0.9, row / 8 + 0.1))
             for s in range(600) for row in range(8)]  # fmt: skip
    assert len(follow(words)) == 8


fractions = st.integers(0, 20).map(lambda step: step / 20)
boxes: st.SearchStrategy[Box] = st.builds(
    lambda x, y, w, h: (x, y, min(x + w, 1.0), min(y + h, 1.0)), fractions, fractions, fractions, fractions
)
texts = st.sampled_from(["EXIT", "EXIF", "EX1T 4", "EX1T 5", "TAXI", "出口", "", "a"])
some_words = st.lists(
    st.builds(Word, texts, st.sampled_from([0.5, 0.9, 1.0]), boxes, st.integers(0, 6).map(float)), max_size=25
)


@given(some_words, st.randoms(use_true_random=False))
def test_the_order_of_words_has_no_influence(words: list[Word], chance: random.Random) -> None:
    shuffled = list(words)
    chance.shuffle(shuffled)
    assert follow(shuffled) == follow(words)


@given(some_words)
def test_every_word_is_in_one_track_whose_times_cover_it(words: list[Word]) -> None:
    groups = grouped(words)
    assert sorted(map(repr, (w for group in groups for w in group))) == sorted(map(repr, words))
    for group in groups:
        (track,) = follow(group, [w.time_s for w in words])
        assert track.start_s == group[0].time_s and track.end_s == group[-1].time_s
        assert set(track.readings) == {w.text for w in group}
        assert len({w.time_s for w in group}) == len(group)
