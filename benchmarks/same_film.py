"""Are the same film in another form, and parts of a film, told from other films, other parts and still cameras?

    python -m benchmarks.same_film DIR --videos FOLDER [--lecture FOLDER] [--films 12] [--model builtin]

FOLDER has real clips (`../shared/data/videos`); DIR gets what is made of them, and what is there already is used again.
A film is 40 s of pieces of them. Planted are: the film in another codec, at half the size, with black borders, a part
of 8 to 14 s that begins between two moments, and that part with borders. Not to fold are the part beside the next part
of its film and beside other films (that have less than a fifth of its frames), halves of one shot, and two recordings
by a still camera, one picture with noise and changing light each, once with the same tenth of more light.
`--lecture` adds real CLIP vectors of the frames of a lecture (`image_embeddings.npy`, `image_timestamps.npy`): every
second of 60 frames beside those between them, and beside other stretches, most of which show an unchanging slide.

Films of even numbers chose `SAME_FILM` and `FILM_OF_ANY_TWO`; recall and precision are those of odd numbers, each by
two rules: takes as they are folded without an alignment (the named alternative), and with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from PIL import Image

from benchmarks.over_seeds import markdown
from evenreel.arrays import Column
from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library
from evenreel.library.search import alike
from evenreel.library.search.alike import ClipStretch, Farthest, align, distance
from evenreel.library.search.seen import times_of
from evenreel.types import FloatArray, Pixels

FPS, WIDTH, HEIGHT, FILM_S = 12, 320, 180, 40
BORDER = 0.75  # share of the height that a picture with borders keeps
STILLS = 8
LECTURE = 60  # frames of a stretch of the lecture

Pieces = list[tuple[int, int, int]]  # number of a clip, first frame, frames


class Film(NamedTuple):
    pieces: Pieces
    part: Pieces  # those of the planted part


Pair = tuple[str, bool, ClipStretch, ClipStretch]  # kind, whether the two are one recording, and the two


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--lecture", type=Path)
    parser.add_argument("--films", type=int, default=12)
    parser.add_argument("--model", default="builtin")
    asked = parser.parse_args()
    films = write_clips(asked.folder / "clips", asked.videos, asked.films)
    library = asked.folder / "library"
    index_folders(
        [asked.folder / "clips"],
        library,
        IndexSettings(model=asked.model, read_text=False, speech=None, keep_stills=False),
    )
    clips = read_clips(library)
    report(f"real clips, {asked.model}", pairs_of(clips, films), farthest(list(clips.values())))
    if asked.lecture:
        lecture, bound = lecture_pairs(asked.lecture)
        report("lecture, CLIP ViT-B/32", lecture, bound)
    return 0


def write_clips(folder: Path, videos: Path, count: int) -> list[Film]:
    folder.mkdir(parents=True, exist_ok=True)
    named = (videos / "manifest.csv").read_text("utf-8").splitlines()[1:]
    sources = [pictures_of(videos / row.partition(",")[0]) for row in named]
    rng, films = np.random.default_rng(0), list[Film]()
    for number in range(count):
        pieces, film = Pieces(), list[Pixels]()
        while len(film) < FILM_S * FPS:
            of = int(rng.integers(len(sources)))
            length = min(len(sources[of]), int(rng.uniform(4, 9) * FPS))
            first = int(rng.integers(0, max(1, len(sources[of]) - length + 1)))
            pieces.append((of, first, length))
            film += sources[of][first : first + length]
        film = film[: FILM_S * FPS]
        first, length = int(rng.uniform(3, 20) * FPS), int(rng.uniform(8, 14) * FPS)
        part, name = film[first : first + length], folder / f"{number:03}"
        rest = film[first + length : first + 2 * length] if first + 2 * length < len(film) else film[:first]
        write(f"{name}.film.mp4", film)
        write(f"{name}.codec.mp4", film, "mpeg4", {"b": "150k"})
        write(f"{name}.half.mp4", [np.asarray(Image.fromarray(one).resize((160, 90))) for one in film], crf=30)
        write(f"{name}.letter.mp4", list(map(bordered, film)), crf=28)
        write(f"{name}.part.mp4", part, crf=28)
        write(f"{name}.partletter.mp4", list(map(bordered, part)), crf=28)
        write(f"{name}.elsewhere.mp4", rest, crf=28)
        places = [(of, at) for of, start, count in pieces for at in range(start, start + count)]
        films.append(Film(pieces, [(of, at, 1) for of, at in places[first : first + length]]))
    for number, pictures in enumerate(sources[:STILLS]):
        shot = pictures[: 15 * FPS]
        write(folder / f"{number:03}.shot_first.mp4", shot[: len(shot) // 2], crf=28)
        write(folder / f"{number:03}.shot_second.mp4", shot[len(shot) // 2 :], crf=28)
        for take in range(2):
            chance, base = np.random.default_rng(100 * number + take), shot[len(shot) // 2].astype(float)
            light = 1 + 0.03 * np.sin(np.arange(12 * FPS) / FPS / 7 + take)
            for kind, lit in (("still", light), ("dawn", np.linspace(0.95, 1.05, 12 * FPS))):
                still = [np.clip(base * at + chance.normal(0, 4, base.shape), 0, 255).astype(np.uint8) for at in lit]
                write(folder / f"{number:03}.{kind}{take}.mp4", still, crf=26)
    return films


def pictures_of(path: Path) -> list[Pixels]:
    found = list[Pixels]()
    with av.open(str(path)) as held:
        for frame in held.decode(held.streams.video[0]):
            while frame.time is not None and frame.time >= len(found) / FPS:
                found.append(np.asarray(frame.to_image().resize((WIDTH, HEIGHT))))
    return found


def write(
    path: str | Path, pictures: Sequence[Pixels], codec: str = "libx264", options: dict[str, str] | None = None,
    crf: int = 23,
) -> None:  # fmt: skip
    if Path(path).exists():
        return
    with av.open(str(path), "w") as held:
        stream: Any = held.add_stream(codec, FPS)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt, stream.options = "yuv420p", options or {"crf": str(crf), "preset": "ultrafast"}
        for picture in pictures:
            held.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")))
        held.mux(stream.encode())


def bordered(picture: Pixels) -> Pixels:
    whole, high = np.zeros_like(picture), int(HEIGHT * BORDER) // 2 * 2
    above = (HEIGHT - high) // 2
    whole[above : above + high] = np.asarray(Image.fromarray(picture).resize((WIDTH, high)))
    return whole


def read_clips(library: Path) -> dict[str, ClipStretch]:
    found: dict[str, ClipStretch] = {}
    with open_library(library) as opened, opened.snapshot() as s:
        assert s.vectors is not None
        for name, clip_id in s.connection.execute("SELECT name, clip_id FROM files WHERE state = 'indexed'"):
            (place,) = s.places([clip_id])
            rows = s.vectors.read(int(s.first_rows[place]), int(s.counts[place])).astype(np.float32)
            found[name.removesuffix(".mp4")] = stretch(rows, times_of(s, [clip_id])[clip_id].spans_s[:, 0])
    return found


def stretch(rows: FloatArray, times_s: Column) -> ClipStretch:
    return ClipStretch(rows / np.linalg.norm(rows, axis=1, keepdims=True), None, times_s=times_s)


def farthest(clips: Sequence[ClipStretch]) -> Farthest:
    half = (len(clips) + 1) // 2
    pairs = [distance(one, clips[(at + half) % len(clips)]) for at, one in enumerate(clips)]
    steps = np.concatenate([1 - np.sum(clip.vectors[1:] * clip.vectors[:-1], axis=1) for clip in clips])
    median = float(np.median(pairs))
    usual = float(np.quantile(steps, alike.NEIGHBOURS))
    return Farthest(min(alike.OF_ANY_TWO * median, usual), alike.FILM_OF_ANY_TWO * median)


def pairs_of(clips: dict[str, ClipStretch], films: Sequence[Film]) -> dict[bool, list[Pair]]:
    """Pairs of films of even numbers, which choose (False), and of odd ones (True)."""
    found: dict[bool, list[Pair]] = {False: [], True: []}
    for number, film in enumerate(films):
        own, name = found[number % 2 == 1], f"{number:03}."
        for kind in ("codec", "half", "letter", "part", "partletter"):
            own.append((kind, True, clips[f"{name}{kind}"], clips[f"{name}film"]))
        for kind in ("part", "partletter"):
            own.append(("the next part", False, clips[f"{name}elsewhere"], clips[f"{name}{kind}"]))
        for other, held in enumerate(films):
            if other != number and shared(film.part, held.pieces) < 0.2 * sum(count for *_, count in film.part):
                own.append(("another film", False, clips[f"{name}part"], clips[f"{other:03}.film"]))
    for number in range(STILLS):
        own, name = found[number % 2 == 1], f"{number:03}."
        own.append(("halves of a shot", False, clips[f"{name}shot_first"], clips[f"{name}shot_second"]))
        own.append(("a still camera", False, clips[f"{name}still0"], clips[f"{name}still1"]))
        own.append(("and it dawns", False, clips[f"{name}dawn0"], clips[f"{name}dawn1"]))
    return found


def shared(one: Pieces, other: Pieces) -> int:
    found = {(of, at) for of, first, length in other for at in range(first, first + length)}
    return sum((of, at) in found for of, first, length in one for at in range(first, first + length))


def lecture_pairs(folder: Path) -> tuple[dict[bool, list[Pair]], Farthest]:
    rows = np.load(folder / "image_embeddings.npy").astype(np.float32)
    times_s = np.load(folder / "image_timestamps.npy").astype(np.float64)
    even, odd = (
        [stretch(rows[at : at + LECTURE : 2], times_s[at : at + LECTURE : 2]) for at in range(by, 720, LECTURE)]
        for by in (0, 1)
    )
    found: dict[bool, list[Pair]] = {False: [], True: []}
    for number, one in enumerate(even):
        for other, that in enumerate(odd):
            kind = "the frames between" if number == other else "another stretch"
            found[number % 2 == 1].append((kind, number == other, one, that))
    return found, farthest(even)


def report(name: str, pairs: dict[bool, list[Pair]], bound: Farthest) -> None:
    rows, every = [], list[tuple[bool, bool, bool]]()
    for half, some in pairs.items():
        for kind in dict.fromkeys(kind for kind, *_ in some):
            told = []
            for _, same, one, other in (pair for pair in some if pair[0] == kind):
                apart, found = distance(one, other), align(one, other)
                aligned = found is not None and found.correlation >= alike.SAME_FILM and apart <= bound.films
                told.append((same, apart <= bound.takes, aligned))
            every += told if half else []
            takes, films = (f"{sum(one[rule] for one in told)} of {len(told)}" for rule in (1, 2))
            rows.append(["reported" if half else "chosen on", kind, "one" if told[0][0] else "two", takes, films])
    sys.stdout.write(f"{name}: takes fold at {bound.takes:.4f}, one film at {bound.films:.4f}\n")
    head = "| films | pair | recordings | folded as takes | told to be one film |"
    sys.stdout.write(markdown(head, rows) + "\n")
    for rule, word in ((1, "takes"), (2, "one film")):
        hits = sum(one[rule] for one in every if one[0])
        wrong = sum(one[rule] for one in every if not one[0])
        share = hits / max(1, hits + wrong)
        sys.stdout.write(f"{word}: recall {hits / sum(one[0] for one in every):.1%}, precision {share:.1%}\n")


if __name__ == "__main__":
    sys.exit(main())
