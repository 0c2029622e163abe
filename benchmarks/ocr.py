"""On-screen text: what reading costs and finds, against RapidOCR with its defaults on every sampled frame.

    python -m benchmarks.ocr [FOLDER] [--threads N] [--clips N] [--font FILE] [--signs-only]

Three tables. The first reads the real clips of a folder, one frame a second; what is truly written in them is not
known, so the words that the plain way finds are the measure. The second writes known words over the same clips,
enlarged to 720 lines, in six sizes, for one frame up to all, still or moving: both ways against the truth.

A word is a run of letters and digits, at least two, in a reading with a confidence of at least 0.8, in small
letters; it counts once a clip. `exact` is the share of the plain way's words that ours finds letter by letter.
A sign that is seen in many frames and misread in some gives the plain way several words; `tracks` is the share of
those words that stay when its readings, too, are merged to the most confident one of each track. `new` are ours alone.

The third asks which signs are text. Shapes are read as letters (a crescent as C, a cross as 中), so tracks are counted
before and after `without_shapes`: on the scenes of the demo, on scenes with one short sign each, and on the real clips,
where it counts words as above. `--font` names a font with Chinese characters, for signs of one of these.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz import fuzz

from evenreel.config import usable_cores
from evenreel.demo import demo_scenes
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule
from evenreel.onscreen import TextReader, TextSettings
from evenreel.onscreen.reader import follow
from evenreel.onscreen.scene import bounding_box
from evenreel.planted import Scene, sample_scene, write_scene
from evenreel.types import Frame, TextTrack, Word

CONFIDENT = 0.8
LINE_SHARES = (0.02, 0.028, 0.04, 0.055, 0.08, 0.13)
"""Heights of the written lines over the height of the picture."""

VOCABULARY = (  # noqa: SIM905
    "harbour window yellow castle planet ticket garden silver mountain orchestra library bridge ocean festival "
    "thunder pepper cotton marble lantern velvet copper meadow engine market summer winter signal island rocket"
).split()

LETTERS_ALONE = "A,P,7,H,B,R,8,3,2,T,E,22,11,3A,50,B2,NO,UP,WC,24,10,ATM,TAXI,EXIT 22,GATE 7".split(",")  # noqa: SIM905
CHARACTERS_ALONE = "酒药茶停止中山大出湯男女"

Way = Callable[[Sequence[Frame]], list[Word]]


@dataclass
class Cost:
    """Words found, those that stay when tracks are merged, and seconds on the clock and of the processor."""

    words: set[str]
    merged: set[str]
    wall_s: float
    cpu_s: float


def main() -> int:
    options = _options()
    if not options.folder.is_dir():
        print(f"No clips at {options.folder}: name a folder of videos, or set EVENREEL_DATA to the data folder.")
        return 0
    clips = dict(list(_clips(options.folder))[: options.clips])
    reader = TextReader(TextSettings(threads=options.threads))
    what_is_text(clips, reader, options.font)
    if options.signs_only:
        return 0
    plain, ours = plain_way(options.threads), our_way(reader)
    warm_up = [Frame(0.0, np.zeros((64, 64, 3), np.uint8))]
    plain(warm_up), ours(warm_up)
    print(f"{reader.reader_id}, {options.threads} threads, {sum(map(len, clips.values()))} frames\n")
    real_clips(clips, plain, ours)
    written_words(clips, plain, ours)
    return 0


def real_clips(clips: dict[str, list[Frame]], plain: Way, ours: Way) -> None:
    print(f"{'clip':28}{'frames':>7}{'plain s':>9}{'ours s':>8}{'wall':>7}{'cpu':>7}{'words':>7}{'exact':>7}"
          f"{'tracks':>8}{'new':>5}  missing")  # fmt: skip
    totals: list[tuple[int, Cost, Cost]] = []
    for name, frames in clips.items():
        totals.append((len(frames), measured(plain, frames), measured(ours, frames)))
        print(_row(name, totals[-1:]))
    print(_row("all", totals) + "\n")


def written_words(clips: dict[str, list[Frame]], plain: Way, ours: Way) -> None:
    truths: list[dict[str, float]] = []
    costs: dict[str, list[Cost]] = {"plain": [], "ours": []}
    for number, frames in enumerate(clips.values()):
        written, truth = with_words(frames, random.Random(number))
        truths.append(truth)
        for name, way in (("plain", plain), ("ours", ours)):
            costs[name].append(measured(way, written))
    words = sum(map(len, truths))
    print(f"{words} known words written over the clips, by the height of their lines in the picture")
    print(f"{'':8}{'words':>8}" + "".join(f"{share:>8.1%}" for share in LINE_SHARES) + f"{'wall s':>9}{'cpu s':>8}")
    for name, each in costs.items():
        found = [
            share for truth, cost in zip(truths, each, strict=True) for share in map(truth.get, cost.words) if share
        ]
        sizes = "".join(f"{found.count(share):8}" for share in LINE_SHARES)
        wall, cpu = sum(cost.wall_s for cost in each), sum(cost.cpu_s for cost in each)
        print(f"{name:8}{len(found):8}{sizes}{wall:9.1f}{cpu:8.1f}")


def plain_way(threads: int) -> Way:
    from rapidocr import RapidOCR

    engine = RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": threads})

    def read(frames: Sequence[Frame]) -> list[Word]:
        return [word for frame in frames for word in words(frame)]

    def words(frame: Frame) -> Iterator[Word]:
        out = engine(np.ascontiguousarray(frame.pixels[..., ::-1]))
        if out.boxes is not None:
            for text, score, quad in zip(out.txts, out.scores, out.boxes, strict=True):
                yield Word(text, score, bounding_box(quad, frame.pixels.shape[:2]), frame.time_s)

    return read


def our_way(reader: TextReader) -> Way:
    def read(frames: Sequence[Frame]) -> list[Word]:
        video = reader.new_video()
        for frame in frames:
            video.add(frame)
        return list(video.words)

    return read


def measured(way: Way, frames: Sequence[Frame]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    readings = way(frames)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    merged = follow(readings, [frame.time_s for frame in frames])
    return Cost(_sure_words(readings), _sure_words(merged), wall, cpu)


def _sure_words(readings: Iterable[Word | TextTrack]) -> set[str]:
    sure = [reading.text.casefold() for reading in readings if reading.confidence >= CONFIDENT]
    return {word for text in sure for word in re.findall(r"[^\W_]{2,}", text)}


def with_words(frames: Sequence[Frame], chance: random.Random) -> tuple[list[Frame], dict[str, float]]:
    """The frames at 720 lines with a line of two words in each of several sizes, and the words with their sizes."""
    height, width = 720, round(frames[0].pixels.shape[1] * 720 / frames[0].pixels.shape[0])
    images = [Image.fromarray(frame.pixels).resize((width, height), Image.Resampling.BICUBIC) for frame in frames]
    words, truth, top = chance.sample(VOCABULARY, 2 * len(LINE_SHARES)), dict[str, float](), 0
    for row, share in enumerate(LINE_SHARES):
        shown = words[2 * row : 2 * row + 2]
        # A letter takes about three quarters of the nominal size.
        font = ImageFont.load_default(round(height * share * 1.35))
        if font.getlength(" ".join(shown)) > width - 8:
            shown = shown[:1]
        room = max(4, int(width - 4 - font.getlength(" ".join(shown))))
        left, top = chance.randint(4, room), top + round(0.05 * height)
        lasts = min(len(frames), chance.choice([1, 1, 2, 3, 5, len(frames)]))
        first, step = chance.randint(0, len(frames) - lasts), chance.choice([0, 0, 0.03, -0.02]) * width
        behind = images[first].crop((left, top, left + width // 2, top + height // 10)).convert("L")
        ink = (10, 10, 30) if np.asarray(behind).mean() > 140 else (255, 255, 240)
        for place, image in enumerate(images[first : first + lasts]):
            now = min(max(4, left + step * place), room)
            ImageDraw.Draw(image).text((now, top), " ".join(shown), font=font, fill=ink)
        truth |= dict.fromkeys(shown, share)
        top += round(1.75 * share * height)
    return [Frame(frame.time_s, np.array(image)) for frame, image in zip(frames, images, strict=True)], truth


def what_is_text(clips: dict[str, list[Frame]], reader: TextReader, font: Path | None) -> None:
    """Tracks that are signs, and signs that have a track, before and after those of shapes are left out."""
    print(f"{'signs':22}{'clips':>6}{'signs':>6}{'found before':>14}{'after':>7}{'precision before':>18}{'after':>7}")
    signs = {"demo scenes": _demo_signs(), "letters and numbers": _short_signs(LETTERS_ALONE, None)}
    if font:
        signs["one Chinese character"] = _short_signs(CHARACTERS_ALONE, font)
    for name, scenes in signs.items():
        count, shown, found, total, right = 0, 0, [0, 0], [0, 0], [0, 0]
        for frames, texts in scenes:
            count, shown = count + 1, shown + len(texts)
            for place, tracks in enumerate(_before_and_after(reader, frames)):
                right[place] += sum(any(_same(track.text, text) for text in texts) for track in tracks)
                found[place] += sum(any(_same(track.text, text) for track in tracks) for text in texts)
                total[place] += len(tracks)
        shares = [_share(part, whole) for part, whole in zip(right, total, strict=True)]
        print(f"{name:22}{count:6}{shown:6}{found[0]:14}{found[1]:7}{shares[0]:>18}{shares[1]:>7}")
    kept: list[set[str]] = [set(), set()]
    for name, frames in clips.items():
        before, after = _before_and_after(reader, frames)
        for place, tracks in enumerate((before, after)):
            kept[place] |= {f"{name} {word}" for word in _sure_words(tracks)}
        if gone := [f"{track.text} ({track.confidence:.2f})" for track in before if track not in after]:
            print(f"  left out of {name}: {', '.join(gone)}")
    print(f"{'words of real clips':22}{len(clips):6}{'':6}{len(kept[0]):14}{len(kept[1]):7}\n")


def _before_and_after(reader: TextReader, frames: Sequence[Frame]) -> tuple[list[TextTrack], list[TextTrack]]:
    video = reader.new_video()
    for frame in frames:
        video.add(frame)
    return follow(video.words, [frame.time_s for frame in frames]), video.tracks()


def _same(read: str, shown: str) -> bool:
    read, shown = ("".join(text.split()).casefold() for text in (read, shown))
    return read == shown or (len(shown) > 3 and fuzz.ratio(read, shown) >= 60)


def _demo_signs() -> Iterator[tuple[list[Frame], list[str]]]:
    for scene in demo_scenes().values():
        yield _rendered(scene), [sign.text for sign in scene.signs]


def _short_signs(texts: Sequence[str], font: Path | None) -> Iterator[tuple[list[Frame], list[str]]]:
    """Scenes with shapes, and one sign each in one of four sizes, on a board or not."""
    chance, rng = random.Random(1), np.random.default_rng(1)
    for text, share in itertools.product(texts, (0.06, 0.09, 0.13, 0.2)):
        frames = _rendered(replace(sample_scene(rng), signs=(), duration_s=3.0))
        height, width = frames[0].pixels.shape[:2]
        px = round(share * height * 1.35)
        face = ImageFont.truetype(str(font), px) if font else ImageFont.load_default(px)
        left, top, right, bottom = face.getbbox(text)
        pad = px // 3
        x, y = (chance.randint(2, side - 2) for side in (width - int(right) - 2 * pad, height - int(bottom) - 2 * pad))
        board, ink = chance.choice([("white", "black"), ("navy", "white"), ("darkred", "white")])
        signed = []
        for frame in frames:
            image = Image.fromarray(frame.pixels)
            pen = ImageDraw.Draw(image)
            pen.rectangle((x, y, x + right - left + 2 * pad, y + bottom - top + 2 * pad), fill=board)
            pen.text((x + pad - left, y + pad - top), text, font=face, fill=ink)
            signed.append(Frame(frame.time_s, np.array(image)))
        yield signed, [text]


def _rendered(scene: Scene) -> list[Frame]:
    with tempfile.TemporaryDirectory() as folder:
        write_scene(Path(folder) / "scene.mp4", scene)
        with open_video(Path(folder) / "scene.mp4") as video:
            return list(video.frames(parse_rule("every 1 s")))


def _row(name: str, clips: list[tuple[int, Cost, Cost]]) -> str:
    frames = sum(count for count, _, _ in clips)
    plain_s, ours_s = sum(plain.wall_s for _, plain, _ in clips), sum(ours.wall_s for *_, ours in clips)
    cpu = sum(plain.cpu_s for _, plain, _ in clips) / sum(ours.cpu_s for *_, ours in clips)
    words = sum(len(plain.words) for _, plain, _ in clips)
    exact = sum(len(plain.words & ours.words) for _, plain, ours in clips)
    merged = sum(len(plain.merged) for _, plain, _ in clips)
    met = sum(len(plain.merged & ours.words) for _, plain, ours in clips)
    new = sum(len(ours.words - plain.words) for _, plain, ours in clips)
    missing = " ".join(sorted(w for _, plain, ours in clips for w in plain.words - ours.words))
    return (
        f"{name[:27]:28}{frames:7}{plain_s:9.1f}{ours_s:8.1f}{plain_s / ours_s:6.1f}x{cpu:6.1f}x{words:7}"
        f"{_share(exact, words):>7}{_share(met, merged):>8}{new:5}  {missing}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _clips(folder: Path) -> Iterator[tuple[str, list[Frame]]]:
    for path in sorted(folder.iterdir()):
        try:
            with open_video(path) as video:
                yield path.name, list(video.frames(parse_rule("every 1 s")))
        except MediaError as error:
            print(f"skipped {path.name}: {error}", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("EVENREEL_DATA", beside))
    parser.add_argument("folder", type=Path, nargs="?", default=data / "videos")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="threads of each model")
    parser.add_argument("--clips", type=int, default=None, help="only the first so many clips")
    parser.add_argument("--font", type=Path, help="font with Chinese characters, for signs of one of these")
    parser.add_argument("--signs-only", action="store_true", help="only the table of what is text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
