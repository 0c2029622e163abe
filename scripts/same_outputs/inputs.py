"""Makes the inputs of `same_outputs` that no command makes, with the tests of a checkout (on PYTHONPATH)."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

SCENES = {"red-star": ("star", "red", "beach"), "blue-heart": ("heart", "blue", "forest")}
SAID = (
    "1\n00:00:00,500 --> 00:00:01,500\nThe tram is late.\n\n"
    "2\n00:00:01,800 --> 00:00:02,800\nHere comes the harbour master.\n"
)


def main() -> None:
    """Benchmarks in miniature, a tiny CLIP, a corpus of classes, downloads of Video2Gif, clips with speech, pairs."""
    from evenreel.corpus import make_corpus, save_corpus
    from evenreel.evaluation import save_scores
    from evenreel.planted import Entity, Scene, draw_clip, write_clip
    from evenreel.types import Scores
    from tests.recipes.test_video2gif import write_downloads
    from tests.recipes.tiny_benchmarks import BENCHMARKS, make_benchmark
    from tests.tiny_checkpoints import tiny_clip

    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    tiny_clip(root / "clip")
    for name in BENCHMARKS:
        make_benchmark(name, root / name)
    write_downloads(root)

    corpus, random = class_clips().class_material().whole, np.random.default_rng(3)
    save_corpus(corpus, root / "length" / "corpus")
    for name in ("rgb", "flow", "audio"):
        arrays: dict[str, Any] = {clip: random.random((2, 8), np.float32) for clip in corpus.clips["clip_id"]}
        np.savez(root / "length" / f"{name}.npz", **arrays)
    (root / "length" / "glove.txt").write_text("cut 0.1 0.2 0.3\ntake 1 0 0\n")
    test = corpus.clips.filter(corpus.clips["split"] == "test")["clip_id"].to_list()
    own = corpus.captions["clip_id"].is_in(test)
    for name, chosen in (("scores", own), ("bank", ~own)):
        captions = corpus.captions.filter(chosen)["caption_id"].to_list()
        captions += [f"{one} again" for one in captions] if name == "bank" else []  # the best 128 are looked at
        scores = Scores(random.random((len(captions), len(test)), np.float32), captions, test)
        save_scores(scores, root / "length" / f"{name}.npz")
    (root / "tail.csv").write_text("verb\n2\n")
    (root / "things.txt").write_text("a red ball\na dog\na beach\n")
    (root / "doings.txt").write_text("rolls\nruns\n")
    (root / "sentences.txt").write_text("a red ball rolls over the bridge\nthe dog kicks a blue ball\n")
    (root / "captions.csv").write_text(
        "video,caption,split\na.mp4,a man kicks a red ball,train\na.mp4,a dog runs,train\nb.mp4,a car drives,test\n"
    )
    (root / "made").mkdir()
    for number, path in enumerate(sorted((root / "msvd" / "videos").iterdir())[:3]):
        shutil.copy(path, root / "made" / (path.name if number else "stranger.avi"))
    names = [f"{kind}{number}" for kind in ("shot", "made") for number in range(8)]  # half is made from pictures
    rows: dict[str, Any] = {
        "clip_id": names,
        "split": "test",
        "source": ["camera"] * 8 + ["sora"] * 8,
        "text": "a ball rolls",
    }
    rows |= {"pair_id": [None] * 8 + names[:8], "setting": [None] * 8 + ["image"] * 8, "caption_id": names}
    table = pl.DataFrame(rows)
    pairs = make_corpus(table.drop("text", "caption_id"), table.select("caption_id", "clip_id", "text"))
    save_corpus(pairs, root / "pictures")
    save_scores(Scores(random.random((16, 16), np.float32), names, names), root / "pictures" / "scores.npz")
    (root / "talks").mkdir()
    drawn = {
        name: list(draw_clip(Scene((Entity(shape, colour, "large"),), "moves_right", ground, duration_s=3.0, seed=1)))
        for name, (shape, colour, ground) in SCENES.items()
    }
    drawn |= {"red-star-again": drawn["red-star"][4:], "both": drawn["red-star"] + drawn["blue-heart"]}
    for name, pictures in drawn.items():
        write_clip(root / "talks" / f"{name}.mp4", pictures, 12)
    (root / "talks" / "red-star.srt").write_text(SAID)
    Image.new("RGB", (64, 48), (200, 30, 30)).save(root / "picture.png")
    write_recipe(root / "wti.yaml", "source", "wti")
    write_recipe(root / "domain.yaml", "domain", "mean_pool")
    (root / "queries.txt").write_text("a red star on a beach\na blue heart in a forest\nharbour\na green circle\n")


def class_clips() -> Any:
    """Clips of a few classes, which the tests of some checkouts have in another folder."""
    folders = ("tests.papers", "tests.studies")
    found = next(name for name in folders if importlib.util.find_spec(name) is not None)
    return importlib.import_module(f"{found}.class_clips")


def write_recipe(path: Path, corpus: str, matcher: str) -> None:
    """Two steps on the features of a corpus."""
    recipe = {
        "name": path.stem,
        "data": {"corpus": corpus, "features": f"{corpus}/features", "validation": "val"},
        "matcher": {"name": matcher},
        "adapter": {"kind": "linear"},
        "loop": {"steps": 2, "epochs": None, "batch_size": 4, "device": "cpu"},
        "records": {"tensorboard": False},
    }
    path.write_text(json.dumps(recipe))


if __name__ == "__main__":
    main()
