"""The benchmarks in miniature: annotation files of the official form for a few videos, read as the real ones are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from evenreel.corpus import save_corpus, save_texts
from evenreel.corpus.counterparts import GeneratedClip, Generator, pair_clips
from evenreel.corpus.formats.registry import FORMATS
from evenreel.types import Corpus
from tests.corpus.formats.test_official import textvr, vitevqa
from tests.library.videos import write_video

TRAIN = 24
"""Videos to train on: enough that 5 % of them are one."""

SENTENCES = ("a red ball rolls over the bridge", "the dog runs on", "a blue train", "the park")


def caption(number: int) -> str:
    """Different words for each video."""
    return f"{SENTENCES[number % 4]} {number}"


def write_msrvtt(folder: Path, train_list: str) -> None:
    train = [f"video{number}" for number in range(TRAIN)]
    test = [f"video{number}" for number in range(7000, 7004)]
    lines = [f"ret{n},msr{n},{name},{caption(n)}" for n, name in enumerate(test)]
    (folder / "MSRVTT_JSFUSION_test.csv").write_text("\n".join(["key,vid_key,video_id,sentence", *lines]) + "\n")
    (folder / train_list).write_text("\n".join(["video_id", *train]) + "\n")
    sentences = [
        {"video_id": name, "caption": f"{caption(n)} {word}"} for n, name in enumerate(train) for word in ("a", "b")
    ]
    videos = [{"video_id": name, "url": "", "category": 1} for name in train]
    (folder / "MSRVTT_data.json").write_text(json.dumps({"sentences": sentences, "videos": videos}))


def write_msvd(folder: Path) -> None:
    names = [f"abcdefgh{n:03}_0_9" for n in range(TRAIN + 4)]
    parts = {"train": names[:TRAIN], "val": names[TRAIN : TRAIN + 2], "test": names[TRAIN + 2 :]}
    for split, members in parts.items():
        (folder / f"{split}_list.txt").write_text("\n".join(members) + "\n")
    captions = {name: [caption(n), f"{caption(n)} again"] for n, name in enumerate(names)}
    (folder / "captions_msvd.json").write_text(json.dumps(captions))


def write_lsmdc(folder: Path) -> None:
    files = {
        "LSMDC16_annos_training.csv": ("0001_American_Beauty", TRAIN),
        "LSMDC16_annos_val.csv": ("0002_As_Good", 2),
        "LSMDC16_challenge_1000_publictect.csv": ("0003_Casablanca", 2),
    }
    for name, (movie, count) in files.items():
        rows = [
            f"{movie}_00.00.{n:02}.000-00.00.{n + 1:02}.000\t0\t1\t0\t1\tSomeone: {caption(n)}" for n in range(count)
        ]
        (folder / name).write_text("\n".join(rows) + "\n")


def write_activitynet(folder: Path) -> None:
    for name, first, count in (("train.json", 0, TRAIN), ("val_1.json", 100, 3)):
        entries = {
            f"v_{n:011}": {"duration": 2.0, "timestamps": [[0, 1], [1, 2]], "sentences": [caption(n), "Then it ends."]}
            for n in range(first, first + count)
        }
        (folder / name).write_text(json.dumps(entries))


def write_didemo(folder: Path) -> None:
    for split, first, count in (("train", 0, TRAIN), ("val", 100, 2), ("test", 200, 2)):
        entries = [
            {"video": f"9@N0{n}_10.mp4", "description": part, "times": [[0, 0]]}
            for n in range(first, first + count)
            for part in (caption(n), "at the end it is gone")
        ]
        (folder / f"{split}_data.json").write_text(json.dumps(entries))


def write_textvr(folder: Path) -> None:
    """Every other clip shows a word of its caption."""
    for split, first, count in (("train", 0, TRAIN), ("test", 100, 3)):
        entries = [textvr(f"Games/{n}.mp4", caption(n), f"Games/{n}.json") for n in range(first, first + count)]
        for entry in entries:
            entry["videos_info"]["split"] = split
        (folder / f"TextVR_{split}.json").write_text(json.dumps(entries))
        (folder / "Games").mkdir(exist_ok=True)
        for n in range(first, first + count, 2):
            sign = {"text": caption(n).split()[1], "score": "0.9", "tracks": {"1": [0, 0, 9, 0, 9, 4, 0, 4, 1, 1]}}
            (folder / "Games" / f"{n}.json").write_text(json.dumps({"0": sign}))


def write_vitevqa(folder: Path) -> None:
    """Every other clip shows the number that is asked for."""
    (folder / "video_ocr").mkdir()
    for split, first, count in (("train", 0, TRAIN), ("val", 100, 2), ("test", 200, 2)):
        numbers = range(first, first + count)
        data = {"data": [vitevqa(n, f"{n:05}", [str(n)]) for n in numbers]}
        (folder / f"ViteVQA_0.0.2_t1s1{split}.json").write_text(json.dumps(data))
        for n in numbers[::2]:
            words = {"1": [{"points": [1, 1, 9, 1, 9, 5, 1, 5], "ocr": f"{n} MPH"}]}
            (folder / "video_ocr" / f"{n:05}.json").write_text(json.dumps(words))


BENCHMARKS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "msrvtt-9k": ("msrvtt-1ka", lambda folder: write_msrvtt(folder, "MSRVTT_train.9k.csv")),
    "msrvtt-7k": ("msrvtt-7k", lambda folder: write_msrvtt(folder, "MSRVTT_train.7k.csv")),
    "msvd": ("msvd", write_msvd),
    "lsmdc": ("lsmdc", write_lsmdc),
    "activitynet": ("activitynet", write_activitynet),
    "didemo": ("didemo", write_didemo),
    "textvr": ("textvr", write_textvr),
    "vitevqa": ("m4-vitevqa", write_vitevqa),
    "ghost": ("msrvtt-1ka", lambda folder: write_msrvtt(folder, "MSRVTT_train.9k.csv")),
}
"""Folder of recipes -> the format of `evenreel corpus import`, and what writes its annotation files."""


MIRRORED = "ghost"
"""The folder of recipes whose benchmark has generated clips beside the real ones that are learned from."""


def with_mirrors(corpus: Corpus) -> Corpus:
    """As `evenreel corpus pair` makes it."""
    learned = corpus.clips.filter(pl.col("split") == "train").select("clip_id", "path")
    generator = Generator("opensora", "text")
    return pair_clips(
        corpus, [GeneratedClip(name, f"opensora/{path}", generator) for name, path in learned.iter_rows()]
    )


def make_benchmark(name: str, folder: Path) -> Corpus:
    """`folder/corpus` and the videos in `folder/videos`, at the paths that the benchmark gives them."""
    format_name, write = BENCHMARKS[name]
    annotations = folder / "annotations"
    annotations.mkdir(parents=True)
    write(annotations)
    imported = FORMATS[format_name]([annotations])
    corpus = imported.corpus
    if name == MIRRORED:
        corpus = with_mirrors(corpus)
    save_corpus(corpus, folder / "corpus")
    save_texts(imported.texts, folder / "corpus")
    for seed, path in enumerate(corpus.clips["path"].unique(maintain_order=True)):
        write_video(folder / "videos" / path, seed, seconds=1.0, fps=4, size=32)
    return corpus
