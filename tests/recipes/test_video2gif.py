"""Video2Gif from the files as they are downloaded to TITAN's tables, by the commands of docs/adaptation.md."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, select
from evenreel.training.recipe import find_recipe, load_recipe, shipped_recipes
from tests.library.videos import write_video
from tests.tiny_checkpoints import tiny_clip

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adaptation.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## The paper's tables and figures")[1]
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"```console\n(.+?)```", SECTION, re.DOTALL)
    for line in block.replace("\\\n", "").splitlines()
    if line.startswith("evenreel ")
]
NAMES = [name for name in shipped_recipes() if name.startswith("video2gif/")]
STUDIES = ("t1", "t2", "t3", "f4", "f5")
GIFS, SENTENCES, GONE = 6, 3, 1
WORDS = ("a red ball rolls over the bridge", "a blue dog runs on", "the red train", "a dog runs over the park")
QUICK = {
    "train": "--set backbone.model=clip --set loop.epochs=null --set loop.steps=2 --set loop.batch_size=4 "
    "--set loop.workers=0 --set loop.device=cpu --set records.tensorboard=false",
    "features": "--workers 1 --device cpu",
    "prepare": "--steps 2 --count 4 --device cpu",
    "study": "--resamples 20 --device cpu --set lr=0.001 --set causal_fit.steps=2",
}
"""What a command is given beside its words on the page, to be done in a second."""


def test_there_is_a_recipe_of_each_base_model() -> None:
    assert NAMES == ["video2gif/mean_pool", "video2gif/wti"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_that_of_msrvtt_on_the_pair(name: str) -> None:
    """Batches of 128, as TITAN says, nothing of the target, and all that TITAN leaves open as it was published."""
    shipped, base = (load_recipe(find_recipe(one)) for one in (name, name.replace("video2gif", "msrvtt-9k")))
    assert (shipped.name, shipped.loop.batch_size) == (name, 128)
    assert (shipped.data.corpus, shipped.data.train, shipped.data.validation) == ("corpora/video2gif", "train", "val")
    assert shipped.data.held_out == 0
    assert shipped.adapter is not None and shipped.adapter.kind == "linear", "what TTT++ and TTTFlow move"
    assert base.backbone is not None
    own = replace(base, name=name, about=shipped.about, data=shipped.data, adapter=shipped.adapter)
    assert shipped == replace(own, backbone=replace(base.backbone, rule="12 midpoints"))
    for said in ("Source: TITAN (MM 2023)", "arXiv", "What differs here: ", "is kept."):
        assert said in shipped.about


def write_gif(path: Path, seed: int) -> None:
    """A short one that is repeated for ever, as they are."""
    shades = np.random.default_rng(seed).integers(0, 255, (5, 1, 1, 3))
    with av.open(str(path), "w", options={"loop": "0"}) as file:
        stream = file.add_stream("gif", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "rgb8"
        for shade in shades:
            picture = av.VideoFrame.from_ndarray(np.broadcast_to(shade, (32, 32, 3)).astype(np.uint8), format="rgb24")
            file.mux(stream.encode(picture.reformat(format="rgb8")))
        file.mux(stream.encode())


def write_downloads(folder: Path) -> None:
    """Both data sets in the forms of their releases: what the second command of the page clones, and the videos."""
    msrvtt, tgif = folder / "downloads" / "msrvtt", folder / "downloads" / "tgif" / "data"
    (tgif / "splits").mkdir(parents=True)
    msrvtt.mkdir()
    for file, first, splits in (("train_val", 0, ["train"] * 12 + ["validate"] * 3), ("test", 7010, ["test"] * 2)):
        videos = [
            {"video_id": f"video{first + n}", "id": first + n, "category": 1, "split": split, "url": "",
             "start time": 1.5, "end time": 3.0}
            for n, split in enumerate(splits)
        ]  # fmt: skip
        sentences = [
            {"caption": f"{WORDS[n % 4]} {word}", "video_id": one["video_id"], "sen_id": 2 * n}
            for n, one in enumerate(videos)
            for word in ("on", "red")
        ]
        (msrvtt / f"{file}_videodatainfo.json").write_text(json.dumps({"videos": videos, "sentences": sentences}))
        for n, one in enumerate(videos):
            write_video(folder / "videos" / "msrvtt" / f"{one['video_id']}.mp4", n, seconds=1.0, fps=4, size=32)
    addresses = [f"https://38.media.tumblr.com/{n:032x}/tumblr_n{n}_400.gif" for n in range(GIFS + 2)]
    for split, own in (("test", addresses[:GIFS]), ("val", addresses[GIFS:-1]), ("train", addresses[-1:])):
        (tgif / "splits" / f"{split}.txt").write_text("\n".join(own) + "\n")
    rows = [(one, f"{WORDS[(n + k) % 4]} {n}") for n, one in enumerate(addresses[:GIFS]) for k in range(SENTENCES)]
    rows += [(one, "the park") for one in addresses[GIFS:]]
    (tgif / "tgif-v1.0.tsv").write_text("".join(f"{one}\t{text}\n" for one, text in rows))
    (folder / "videos" / "tgif").mkdir()
    for n in range(GIFS - GONE):
        write_gif(folder / "videos" / "tgif" / f"tumblr_n{n}_400.gif", n)


@pytest.mark.slow
def test_the_commands_of_the_page_go_from_the_files_to_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_downloads(tmp_path)
    tiny_clip(tmp_path / "clip")
    monkeypatch.chdir(tmp_path)
    for words in COMMANDS:
        few = ["--seeds", "1"] if "--seeds" in words else []
        done = CliRunner().invoke(app, [*words, *few, *shlex.split(QUICK.get(words[0], ""))])
        complete = words[0] in ("train", "prepare")  # else there are fewer clips than released, or a GIF is gone
        assert done.exit_code == (0 if complete else 3), f"{shlex.join(words)}: {done.output} {done.exception}"
    pair = load_corpus("corpora/video2gif")
    assert set(pair.clips.select("split", "domain").unique().iter_rows()) == {
        ("train", "source"), ("val", "source"), ("test", "target"),
    }  # fmt: skip
    test = select(pair, split="test")
    assert (test.clips.height, test.captions.height) == (GIFS, GIFS * SENTENCES)
    for study in STUDIES:
        found = json.loads(Path(f"studies/{study}/results.json").read_text())
        assert found["tables"][0]["rows"], study
    found = json.loads(Path("studies/t1/results.json").read_text())
    labels = {row[1]: row[2] for row in found["tables"][2]["rows"]}
    assert labels["TITAN"] == (GIFS - GONE) * SENTENCES
    rows = {row[1] for row in found["tables"][0]["rows"]}
    assert {"source only", "naive pseudo-labels", "TTT++", "TTTFlow", "TITAN", "QB-Norm, training captions"} <= rows
