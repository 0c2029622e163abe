"""The fixed search set: questions whose right answers are known, with stored figures that may not fall.

    python -m benchmarks.search_set [--write] [--only 60 1000 real]

Renders libraries of 60 and 1,000 clips with known looks, signs, subtitles, names and captions, indexes them and the
real clips of `videos` in the data folder (EVENREEL_DATA, or ../shared/data) with the built-in encoder, and asks each
library through the public Python API alone. Nothing is drawn but from a fixed seed, so two runs give the same answers.

A set is one kind of question to one library: words as they are written, misspelt, split, joined, begun, in other forms
and scripts, each on screen, said, in names and in captions; what is seen; two channels at once; moments; `then`,
`without` and filters. MRR, R@1 and R@10 are of the first right clip among ten. Of moments, `lands` is the share whose
point to land on lies in the planted stretch, and `off_s` the median distance of its start from the planted one.

The figures and each question's ten clips, with the first one's moment, are in `results/search_set.json`, which --write
renews. Exit status 1 where a figure is lower than it was. Words may lose nothing: their order is by rule. Where frames
count, scores are nearly equal and may change places by rounding alone, so one question of a set may be lost there, and
a moment may begin a frame later.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any

from evenreel import index_folders, open_library
from evenreel.config import IndexSettings
from evenreel.library import Library, UnfinishedText
from evenreel.planted import Entity, Scene, SignBoard, draw_clip, write_clip

STORED = Path(__file__).parent / "results" / "search_set.json"
DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SOURCES = ("on_screen", "said", "name", "caption")
PLACES = {"forest": "in a forest", "beach": "on a beach", "desert": "in a desert", "city": "in a city"}
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "crescent")
SHOTS, SHOT_S = 4, 3.0
"""Shots of a long clip, and seconds of each; other clips have one second."""
SPECIAL = {
    "scripts": (
        "московский вокзал = вокзал; красная площадь = красная площдь; Ёлки в лесу = елки; "
        "αθήνα λιμάνι = λιμανι; καλημέρα κόσμε = καλημέρα; 東京タワー = 東京; 北京烤鸭店 = 烤鸭; 新宿駅 = 新宿駅; "
        "カメラ = ｶﾒﾗ; 서울역 = 서울역; مطعم البحر = البحر; שלום עולם = שלום; नमस्ते दुनिया = नमस्ते; สวัสดี = สวัสดี"
    ),
    "accents": (
        "CRÈME BRÛLÉE = creme brulee; Łódź dworzec = lodz; señorita = senorita; naive = naïve; "
        "Straße = strasse; smörgåsbord = smorgasbord; ＷＩＤＥ = wide; İstanbul = istanbul"
    ),
    "compounds": (
        "Rekordlauf = rekord; Bahnhofsuhr = bahnhof; Donaudampfschiff = schiff; "
        "Straßenbahnhaltestelle = haltestelle; holidaybeach = holiday; basketball = basket ball; "
        "Hauptpostamt = hauptpost amt; winter cup = wintercup"
    ),
    "forms": (
        "swimming pool = swimming pools; mouse = mice; harbour = harbors; dancing = danced; ladies = lady; "
        "colour = colors; running shoes = run shoe; knives = knife"
    ),
}
"""Kind -> what is written, and what is typed."""
REAL = {
    "caption": (
        "swimming pool = kinetics_pool_cleaning; swiming pol = kinetics_pool_cleaning; "
        "astronauts = nasa_13013; astronuats = nasa_13013; spacestation = nasa_13013; "
        "football netherlands = msrvtt_video7500; foot ball match = msrvtt_video7500; "
        "kittens = kitten_on_grass; pancakes in a pan = flipping_a_pancake; "
        "arm wrestlers = kinetics_arm_wrestling; a toy ship at sea = cogvideox_1; "
        "bird on the wall = cogvideox_3"
    ),
    "name": (
        "metro = metro_train; metrotrain = metro_train; ucf101 = ucf101_eye_makeup; "
        "msrvtt = msrvtt_video7500; flipping = flipping_a_pancake; kinetics arm = kinetics_arm_wrestling; "
        "nasa = nasa_13013; eye make up = ucf101_eye_makeup"
    ),
    "seen": (
        "seen: green grass; seen: a red train; seen: blue water; seen: two people at a table; "
        "seen: a black animal; seen: the sky"
    ),
}
"""Set of the real clips -> question, and the right clip; none where only the order is kept."""


@dataclass(frozen=True)
class Clip:
    """A planted clip: its key, its looks in their order (colour, shape, place), and what is written in each source."""

    key: str
    looks: tuple[tuple[str, str, str], ...]
    texts: Mapping[str, Sequence[str]]
    """Source -> text of each look; '' for none."""
    shelf: int

    def has(self, words: str, sources: Iterable[str] = SOURCES) -> bool:
        """Whether words stand side by side in one of the sources."""
        return any(f" {words} " in f" {text} " for source in sources for text in self.texts.get(source, ()))

    @property
    def file_name(self) -> str:
        return "_".join([self.key, *self.texts.get("name", [""])[0].split()]) + ".mp4"


@dataclass(frozen=True)
class Question:
    """A question of a set: the keys of the right clips, none where only the order is kept, and where it is in them."""

    of: str
    text: str
    right: frozenset[str]
    where: str | None = None
    times_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        unfinished = "…" if isinstance(self.text, UnfinishedText) else ""
        return f"{self.text}{unfinished}" + (f" | {self.where}" if self.where else "")


def parted(pairs: str) -> list[tuple[str, str]]:
    """The pairs of a line above; a second of '' where there is none."""
    return [(one.strip(), other.strip()) for one, _, other in (pair.partition("=") for pair in pairs.split(";"))]


def made_up_words(count: int, chance: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = (chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(chance.randint(2, 5)))
        found["".join(syllables) + chance.choice(["", "n", "r", "s", "l"])] = None
    return list(found)


def misspelt(word: str, chance: random.Random, low: int = 1, high: int | None = None) -> str:
    """One letter wrong, less, too many or in its neighbour's place, between two places; never the first one."""
    at = chance.randrange(low, (high or len(word)) - 1)
    kind = chance.randrange(4)
    if kind == 0 and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    other = chance.choice(LETTERS.replace(word[at], ""))
    return word[:at] + ("", other, other + word[at])[kind % 3] + word[at + 1 :]


def planted(count: int, longer: int, signs: int, chance: random.Random) -> list[Clip]:
    """Clips of a library: the first `longer` ones have four shots, each second one's the other way round.

    Of the clips with one shot, each `signs`-th has a sign.
    """
    words = made_up_words(max(150, count * 9 // 10), chance)
    looks = [(colour, shape, place) for colour in COLOURS for shape in SHAPES for place in PLACES]
    looks = chance.sample(looks, min(len(looks), count))
    special = [text.lower() for pairs in SPECIAL.values() for text, _ in parted(pairs)]
    clips: list[Clip] = []

    def pair() -> str:
        return " ".join(chance.sample(words, 2))

    for number in range(count):
        key, shelf = f"{number:04}", chance.randrange(10)
        if number < longer:
            own = tuple(chance.sample(looks, SHOTS)) if number % 2 == 0 else clips[-1].looks[::-1]
            texts = {"on_screen": [pair() if shot % 2 else "" for shot in range(SHOTS)]}
            clips.append(Clip(key, own, texts | {"said": [pair() for _ in range(SHOTS)]}, shelf))
            continue
        texts = {source: [pair()] for source in SOURCES if source != "on_screen" or number % signs == 0}
        if (place := number - longer) < len(special):
            texts[SOURCES[1 + place % 3]][0] += f" {special[place]}"
        clips.append(Clip(key, (chance.choice(looks),), texts, shelf))
    return clips


def render(clip: Clip, folder: Path) -> None:
    name, length_s = folder / clip.file_name, 1.0 if len(clip.looks) == 1 else SHOT_S
    signs = clip.texts.get("on_screen", [""] * len(clip.looks))
    shots, lines = [], []
    for number, ((colour, shape, place), sign, said) in enumerate(
        zip(clip.looks, signs, clip.texts["said"], strict=True)
    ):
        boards = (SignBoard(sign.upper(), height=min(0.14, 1.9 / len(sign))),) if sign else ()  # as wide as the picture
        wide, high = (320, 240) if "on_screen" in clip.texts else (160, 120)
        entity, seed = Entity(shape, colour, "large"), int(clip.key) + number
        shots.append(Scene((entity,), "sways", place, boards, 0, 0.0, length_s, 2, wide, high, seed))
        lines.append(f"{number + 1}\n{clock(number * length_s)} --> {clock((number + 1) * length_s)}\n{said}\n")
    write_clip(name, chain.from_iterable(map(draw_clip, shots)), fps=2)
    name.with_suffix(".srt").write_text("\n".join(lines), encoding="utf-8")


def clock(time_s: float) -> str:
    return f"00:00:{int(time_s):02},{round(1000 * (time_s % 1)):03}"


def build(clips: Sequence[Clip], work: Path) -> Path:
    """Render and index clips; words on screen are looked for only where there are some, which saves two minutes."""
    library = work / "library"
    for reads in (True, False):
        some = [clip for clip in clips if ("on_screen" in clip.texts) == reads]
        folder = work / ("signs" if reads else "plain")
        folder.mkdir()
        for clip in some:
            render(clip, folder)
        with (folder / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("path", "caption", "shelf"))
            rows.writerows((clip.file_name, *clip.texts.get("caption", [""]), clip.shelf) for clip in some)
        if some:
            index_folders(folder, library, settings(read_text=reads))
    return library


def settings(*, read_text: bool) -> IndexSettings:
    return IndexSettings(model="builtin", read_text=read_text, speech=None, sound=None, keep_stills=False)


def questions(clips: Sequence[Clip], most: int, chance: random.Random) -> Iterator[Question]:
    """All questions to a planted library, `most` of each set."""
    short, longer = ([clip for clip in clips if (len(clip.looks) > 1) == many] for many in (False, True))
    yield from word_questions(clips, short, most, chance)

    def look(colour: str, shape: str, place: str) -> str:
        return f"a {colour} {shape} {PLACES[place]}"

    def right(fits: Any) -> frozenset[str]:
        return frozenset(clip.key for clip in clips if fits(clip))

    for clip in chance.sample(short, most):
        own = clip.looks[0]
        yield Question("seen", look(*own), right(lambda one, own=own: own in one.looks))
        less = own[:2]
        right_look = right(lambda one, less=less: any(each[:2] == less for each in one.looks))
        yield Question("seen, no place", f"a {less[0]} {less[1]}", right_look)
        other = right(lambda one, own=own: any(each[:2] == own[:2] and each[2] != own[2] for each in one.looks))
        if other:
            yield Question("without", f"a {own[0]} {own[1]} without a {own[2]}", other)
        shelf = right(lambda one, own=own, clip=clip: own in one.looks and one.shelf == clip.shelf)
        yield Question("seen, filtered", look(*own), shelf, f"shelf = {clip.shelf}")
    for source in ("on_screen", "said", "caption"):
        for clip in chance.sample([one for one in short if source in one.texts], most):
            word, own = clip.texts[source][0].split()[0], clip.looks[0]
            both = right(lambda one, word=word, own=own: one.has(word) and any(own[:2] == x[:2] for x in one.looks))
            yield Question(f"fused: seen and {source}", f"a {own[0]} {own[1]} {word}", both)
            named = right(lambda one, word=word, clip=clip: one.has(word) and one.shelf == clip.shelf)
            yield Question("words, filtered", word, named, f"shelf = {clip.shelf} and duration_s < 5")
    for clip in longer[:most]:
        shot = chance.randrange(SHOTS)
        for source, text in (
            ("seen", look(*clip.looks[shot])),
            ("on_screen", clip.texts["on_screen"][shot | 1]),
            ("said", clip.texts["said"][shot]),
        ):
            at = shot | 1 if source == "on_screen" else shot
            times = {clip.key: (at * SHOT_S, (at + 1) * SHOT_S)}
            if source == "seen":
                wanted = clip.looks[shot]
                times = {
                    one.key: (n * SHOT_S, (n + 1) * SHOT_S)
                    for one in longer
                    for n, each in enumerate(one.looks)
                    if each == wanted
                }
            yield Question(f"moments: {source}", text, frozenset(times), "duration_s > 5", times)
        first, then = sorted(chance.sample(range(SHOTS), 2))
        asked = clip.looks[first], clip.looks[then]
        ordered = right(lambda one, asked=asked: _in_order(one.looks, *asked))
        yield Question("then", f"{look(*asked[0])} then {look(*asked[1])}", ordered)


def _in_order(looks: Sequence[object], first: object, then: object) -> bool:
    return first in looks and then in looks[looks.index(first) + 1 :]


def word_questions(
    clips: Sequence[Clip], short: Sequence[Clip], most: int, chance: random.Random
) -> Iterator[Question]:
    """Questions of words: each kind of typing in each source, and what is special."""

    def written(words: str, sources: Sequence[str] = SOURCES) -> frozenset[str]:
        return frozenset(clip.key for clip in clips if clip.has(words, sources))

    for source in SOURCES:
        pairs = [clip.texts[source][0].split()[:2] for clip in short if source in clip.texts]
        for first, second in chance.sample(pairs, min(most, len(pairs))):
            both = f"{first} {second}"
            yield Question(f"{source}: right", both, written(both))
            yield Question(f"{source}: joined", first + second, written(both))
            yield Question(f"{source}: in quotes", f'"{both}"', written(both))
            yield Question(
                f"{source}: both misspelt", f"{misspelt(first, chance)} {misspelt(second, chance)}", written(both)
            )
            if source in ("on_screen", "said"):
                asked = f"{source.replace('_', '-')}: {second}"
                yield Question(f"{source}: asked alone", asked, written(second, (source,)))
        words = sorted({word for pair in pairs for word in pair})
        for word in chance.sample(some := [word for word in words if len(word) >= 6], min(most, len(some))):
            yield Question(f"{source}: misspelt", misspelt(word, chance), written(word))
            place = chance.randrange(3, len(word) - 2)
            yield Question(f"{source}: split", f"{word[:place]} {word[place:]}", written(word))
            yield Question(f"{source}: begun", UnfinishedText(word[:-2]), written(word))
        for word in chance.sample(some := [word for word in words if len(word) >= 9], min(most, len(some))):
            twice = misspelt(misspelt(word, chance, 6), chance, 1, 5)
            yield Question(f"{source}: misspelt twice", twice, written(word))
    for kind, special in SPECIAL.items():
        for text, typed in parted(special):
            yield Question(kind, typed, written(text.lower()))


def ask(library: Library, of: str, asked: Iterable[Question]) -> dict[str, Any]:
    """Ask all questions: set -> its figures, and its answers."""
    sets: dict[str, dict[str, Any]] = {}
    for question in asked:
        own = sets.setdefault(f"{of} {question.of}", {"ranks": [], "answers": {}, "lands": [], "off_s": []})
        if str(question) in own["answers"]:
            continue
        hits = library.search(question.text, where=question.where).hits
        keys = [Path(hit.path).stem if of == "real" else Path(hit.path).name[:4] for hit in hits]
        moments = hits[0].moments[:1] if hits else ()
        when = "".join(f" {moment.start_s:.2f}-{moment.end_s:.2f} s" for moment in moments)
        own["answers"][str(question)] = " ".join(keys[:1]) + when + (", " if keys[1:] else "") + " ".join(keys[1:])
        place = next((place for place, key in enumerate(keys) if key in question.right), None)
        if question.right:
            own["ranks"].append(0.0 if place is None else 1 / (place + 1))
        if question.times_s:
            start_s, end_s = question.times_s[keys[place]] if place is not None else (0.0, 0.0)
            moment = next(iter(hits[place].moments), None) if place is not None else None
            own["lands"].append(moment is not None and start_s <= moment.time_s < end_s)
            own["off_s"].append(SHOTS * SHOT_S if moment is None else abs(moment.start_s - start_s))
    return {name: {"figures": figures(own), "answers": own["answers"]} for name, own in sets.items()}


def figures(own: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a set; none but the number where only the order is kept."""
    found: dict[str, float] = {"questions": len(own["answers"])}
    if ranks := own["ranks"]:
        found |= {
            "MRR": mean(ranks),
            "R@1": mean(rank == 1 for rank in ranks),
            "R@10": mean(rank > 0 for rank in ranks),
        }
    if own["lands"]:
        found |= {"lands": mean(own["lands"]), "off_s": median(own["off_s"])}
    return {name: round(value, 4) for name, value in found.items()}


def fallen(name: str, before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """The figures of a set that are worse than they were, or gone."""
    seen = any(part in name for part in ("seen", "then", "without"))
    slack = 1.0001 / before["questions"] if seen else 0.0
    less = [
        figure
        for figure, value in before.items()
        if figure != "off_s" and now.get(figure, -1.0) < value - (0 if figure == "questions" else slack)
    ]
    later = now.get("off_s", 1e9) > before.get("off_s", 1e9) + (1.0 if seen else 0.0)
    return less + ["off_s"] * later


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Print each set's figures beside the stored ones; return whether one falls."""
    falls = False
    print(f"{'set':<36}{'':>5} stored -> now")
    for name in [*before, *(name for name in now if name not in before)]:
        old, new = (side.get(name, {"figures": {"questions": 0}, "answers": {}}) for side in (before, now))
        worse = fallen(name, old["figures"], new["figures"]) if name in before else []
        changed = sum(new["answers"].get(asked) != answer for asked, answer in old["answers"].items())
        told = "  ".join(
            f"{figure} {old['figures'].get(figure, '-')} -> {value}" + (" falls" if figure in worse else "")
            if old["figures"].get(figure) != value
            else f"{figure} {value}"
            for figure, value in new["figures"].items()
            if figure != "questions"
        )
        told += "  is gone: falls" if name not in now else f"  answers changed: {changed}" if changed else ""
        print(f"{name:<36}{new['figures']['questions']:>5} {told}" + ("" if name in before else "  (new)"))
        falls |= bool(worse)
    return falls


def main() -> int:
    """Ask, and store or compare; 1 if a figure falls."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the figures")
    parser.add_argument("--only", nargs="+", choices=("60", "1000", "real"), default=["60", "1000", "real"])
    options = parser.parse_args()
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    wanted = list(options.only)
    if "real" in wanted and not (DATA / "videos").is_dir():
        print(f"The real clips are not asked: there is no {DATA / 'videos'} (set EVENREEL_DATA).")
        wanted.remove("real")
    now: dict[str, Any] = {}
    for of in wanted:
        start, cpu = time.perf_counter(), os.times()
        with tempfile.TemporaryDirectory() as work:
            if of == "real":
                library = Path(work) / "library"
                index_folders(DATA / "videos", library, settings(read_text=True))
                asked: Iterable[Question] = (
                    Question(name, text, frozenset([right] if right else []))
                    for name, pairs in REAL.items()
                    for text, right in parted(pairs)
                )
            else:
                chance = random.Random(of)
                clips = planted(int(of), *((12, 1) if of == "60" else (40, 4)), chance)
                library, asked = build(clips, Path(work)), questions(clips, 12 if of == "60" else 30, chance)
            with open_library(library) as opened:
                now |= ask(opened, of, asked)
        used = sum(os.times()[:4]) - sum(cpu[:4])
        print(f"{of}: {time.perf_counter() - start:.0f} s, {used:.0f} s of processor time", flush=True)
    if options.write:
        kept = {name: own for name, own in stored.items() if name.split()[0] not in wanted}
        STORED.write_text(json.dumps(kept | now, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    falls = compare({name: own for name, own in stored.items() if name.split()[0] in wanted}, now)
    return int(falls and not options.write)


if __name__ == "__main__":
    raise SystemExit(main())
