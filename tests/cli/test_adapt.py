"""`evenreel adapt` as it is typed: on a corpus, on a library, with a report, and undone."""

from __future__ import annotations

import json
import os
import re
import shutil
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner, Result

from evenreel.adaptation.prepared import load_prepared
from evenreel.adaptation.stream import zero_shot
from evenreel.checkpoint import EncoderNote, load_features_for, load_matcher, save_pretrained
from evenreel.cli.app import app
from evenreel.cli.clip_pictures import clip_pictures
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import CheckpointError, EvenreelError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, read_manifest
from evenreel.library import open_library
from evenreel.matchers.scoring import matcher_scores
from evenreel.media import open_video
from evenreel.media.sampling import EverySeconds
from tests.cli.test_library_commands import here

FAST = ("--device", "cpu")
LEARNS = (
    "--settings", "titan/offline", "--set", "causal=false", "--set", "lr=0.01", "--set", "batch_size=4",
    "--set", "counterfactuals.beta=1",
)  # fmt: skip


PREPARED = ("--confounders", "kmeans", "--count", "4", "--steps", "2", *FAST)


def run(*words: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, words)))


def good(*words: object) -> str:
    done = run(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


class Place(NamedTuple):
    """Rendered clips of a domain, and their features."""

    corpus: Path

    @property
    def features(self) -> Path:
        return self.corpus / "features"

    def adapt(self, *words: object, checkpoint: object = "mean_pool") -> Result:
        return run("adapt", checkpoint, self.corpus, "--features", self.features, *FAST, *words)

    def adapted(self, *words: object, checkpoint: object = "mean_pool") -> str:
        done = self.adapt(*words, checkpoint=checkpoint)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout


@pytest.fixture(scope="module")
def place(forked_readers: None, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("adapt") / "corpus"
    good("planted", "domain", "--strength", "1", "--clips", "20", "--workers", "1", "--out", folder)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(load_corpus(folder), folder / "features", load_encoder("builtin", device="cpu"), settings)
    return Place(folder)


@pytest.fixture(scope="module")
def checkpoint(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matcher that could have been trained, with what was prepared of its source."""
    folder = tmp_path_factory.mktemp("source") / "checkpoint"
    manifest = read_manifest(place.features)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    save_pretrained(folder, zero_shot(note, seed=3))
    good("prepare", folder, place.corpus, "--features", place.features, "--split", "test", *PREPARED)
    return folder


class Shelf(NamedTuple):
    """A library, the names of its clips' files, and what people search for in it, of which one came twice."""

    folder: Path
    clips: tuple[Path, ...]
    queries: tuple[str, ...]

    @property
    def learned_from(self) -> tuple[str | Path, ...]:
        """Options that name it."""
        return ("--library", self.folder, "--queries", self.folder.parent / "queries.txt", *FAST)

    def hits(self, checkpoint: Path) -> list[Any]:
        """Clips and scores of a search that a matcher re-ranks."""
        return hits(good(*self.search(checkpoint)))

    def search(self, checkpoint: Path) -> list[str | Path]:
        return ["search", self.queries[1], "--library", self.folder, "--rerank", checkpoint, "--json", *FAST]


def hits(printed: str) -> list[Any]:
    return [(hit["clip_id"], hit["scores"]) for hit in json.loads(printed)["hits"]]


@pytest.fixture(scope="module")
def shelf(place: Place, forked_readers: None, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder = tmp_path_factory.mktemp("shelf")
    part = select(load_corpus(place.corpus), split="test")
    clips = tuple(folder / Path(path).name for path in part.clips["path"].to_list())
    for path, clip in zip(part.clips["path"].to_list(), clips, strict=True):
        shutil.copyfile(place.corpus / path, clip)
    index = ("--library", folder / "library", "--model", "builtin", "--no-ocr", "--sample", "2 midpoints")
    good("index", *clips, *index, "--set", "workers=1", *FAST)
    texts = part.captions["text"].to_list()
    (folder / "queries.txt").write_text("\n".join([*texts, texts[0]]) + "\n")
    return Shelf(folder / "library", clips, tuple(texts))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def error(done: Result) -> str:
    assert isinstance(done.exception, EvenreelError), (done.output, done.exception)
    return str(done.exception)


def test_a_corpus(place: Place, tmp_path: Path) -> None:
    scores, page = tmp_path / "scores.npz", tmp_path / "page.html"
    words = (*LEARNS, "--out", tmp_path / "out", "--scores", scores, "--report", page, "--json")
    printed = json.loads(place.adapted(*words))
    part = select(load_corpus(place.corpus), split="test")
    queries, clips = part.captions.height, part.clips.height
    assert printed["learned_from"] == {"of": "the split test of corpus", "queries": queries, "clips": clips}
    assert printed["kept"] and printed["sentence"] == "Adapted; whether it is better was not asked."
    assert printed["steps"][0]["queries"] == queries and printed["steps"][0]["counterfactual"] > 0
    assert printed["written"] == {"checkpoint": str(tmp_path / "out"), "scores": str(scores), "report": str(page)}
    kept = json.loads((tmp_path / "out" / "adaptation" / "report.json").read_text())
    assert kept == {name: value for name, value in printed.items() if name not in ("written", "set_aside")}
    assert (tmp_path / "out" / "adaptation" / "report.html").read_bytes() == page.read_bytes()
    assert "https://" not in page.read_text().split("<script>")[0]

    made = load_matcher(tmp_path / "out")
    use = f"{queries:,} unlabelled queries and {clips:,} clips of the split test of corpus"
    assert made.about.uses == (use,) and f"It was adapted to {use}" in made.about.limits[0]
    assert f"**It was trained with {use}**" in (tmp_path / "out" / "README.md").read_text()
    loaded = load_features_for(made, place.features, part)
    expected = matcher_scores(made.matcher, loaded.texts, loaded.videos).score_all().values
    found = load_scores(scores, part)
    assert found.about.uses == (use,)
    np.testing.assert_array_equal(found.block(slice(0, queries), slice(0, clips)), expected)
    source = matcher_scores(zero_shot(made.about.encoder).matcher, loaded.texts, loaded.videos).score_all().values
    assert np.mean(source.argmax(1) != expected.argmax(1)) == pytest.approx(printed["changes"]["first_changed"])
    before = {hub["clip"]: hub["before"] for hub in printed["changes"]["hubs"]}
    first = np.argsort(-source, axis=1, kind="stable")[:, : printed["changes"]["places"]]
    counts = np.bincount(first.ravel(), minlength=clips)
    assert all(before[clip] == counts[loaded.videos.ids.index(clip)] for clip in before)


def test_no_answer_is_read(place: Place, tmp_path: Path) -> None:
    """Captions of one clip under the ids of another: the bytes of the weights are the same."""
    corpus = load_corpus(place.corpus)
    clips_of_test = corpus.clips.filter(pl.col("split") == "test")["clip_id"].to_list()
    turned = dict(zip(clips_of_test, clips_of_test[3:] + clips_of_test[:3], strict=True))
    moved = corpus.captions.with_columns(pl.col("clip_id").replace(turned))
    assert moved["clip_id"].to_list() != corpus.captions["clip_id"].to_list()
    save_corpus(make_corpus(corpus.clips, moved), tmp_path / "corpus")
    place.adapted(*LEARNS, "--out", tmp_path / "one")
    done = run(
        "adapt", "mean_pool", tmp_path / "corpus", "--features", place.features, *FAST, *LEARNS, "--out",
        tmp_path / "two",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    untouched = save_pretrained(tmp_path / "three", zero_shot(load_matcher(tmp_path / "one").about.encoder))
    assert untouched.spec.name == "adapted" and (tmp_path / "three" / "model.safetensors").read_bytes() != weights[0]


def test_left_as_it_was(place: Place, checkpoint: Path, tmp_path: Path) -> None:
    """The weights are those of the source, also where a script asked for a checkpoint."""
    before = files(checkpoint)
    said = place.adapted("--out", tmp_path / "out", "--scores", tmp_path / "scores.npz", checkpoint=checkpoint)
    assert said.startswith("Left as it was: ")
    assert "has the weights of the source, unchanged, and the report" in " ".join(said.split())
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before["model.safetensors"]
    assert load_matcher(tmp_path / "out").about.uses == ()
    assert load_scores(tmp_path / "scores.npz", select(load_corpus(place.corpus), split="test")).about.uses == ()
    in_place = place.adapted("--in-place", checkpoint=checkpoint)
    assert "No checkpoint was written." in in_place and files(checkpoint) == before


def test_in_place_and_back(place: Place, checkpoint: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(checkpoint, own)
    before = files(own)
    place.adapted(*LEARNS, "--in-place", checkpoint=own)
    once = files(own)
    assert once["model.safetensors"] != before["model.safetensors"]
    assert {name: once[f"before/{name}"] for name in before} == before
    assert load_matcher(own).about.uses and load_prepared(own) is not None
    place.adapted(*LEARNS, "--set", "seed=5", "--in-place", checkpoint=own)
    assert run("adapt", own, "--undo").stdout == f"{own} is as it was before it was adapted.\n"
    assert files(own) == once
    good("adapt", own, "--undo", "--json")
    assert files(own) == before
    assert "was not adapted in place" in error(run("adapt", own, "--undo"))
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize(
    ("settings", "term"),
    [("titan/online", "contrastive"), ("titan/ttt", "mean_text"), ("titan/ttt-flow", "flow_video")],
)
def test_what_was_prepared_is_used_and_goes_along(
    place: Place, checkpoint: Path, tmp_path: Path, settings: str, term: str
) -> None:
    quick = ("--set", "batch_size=8", "--set", "causal_fit.steps=2")
    words = ("--settings", settings, *quick, "--out", tmp_path / "out", "--json")
    printed = json.loads(place.adapted(*words, checkpoint=checkpoint))
    assert printed["kept"] and any(term in name for name in printed["steps"][0]["loss"])
    one, two = load_prepared(checkpoint), load_prepared(tmp_path / "out")
    assert one is not None and two is not None and one.note == two.note
    assert one.statistics is not None and two.statistics is not None
    assert one.statistics.text.mean.equal(two.statistics.text.mean)
    safe = json.loads(place.adapted("--dry-run", "--json", checkpoint=checkpoint))
    assert not safe["kept"] and safe["drift"] is not None


def test_whether_the_bias_correction_learned_is_said(place: Place, checkpoint: Path, tmp_path: Path) -> None:
    """In the result, in the terminal and on the page: the rank of the labels before and after the target stage."""
    plain, ranks = ("--settings", "titan/offline"), {}
    for steps in (0, 300):
        fit = ("--set", f"causal_fit.steps={steps}", "--set", "causal_fit.lr=0.01")
        printed = json.loads(place.adapted(*plain, *fit, "--dry-run", "--json", checkpoint=checkpoint))
        assert printed["settings"]["causal_fit"] == {"steps": steps, "lr": 0.01, "batch_size": 128, "seed": 0}
        ranks[steps] = printed["steps"][0]["label_rank"]
    assert ranks[0]["before"] == ranks[0]["after"] == ranks[300]["before"] > 1
    assert ranks[300]["after"] < ranks[300]["before"]
    page = tmp_path / "page.html"
    told = place.adapted(*plain, *fit, "--dry-run", "--report", page, checkpoint=checkpoint)
    figures = (ranks[300]["candidates"], *(f"{ranks[300][name]:.2f}" for name in ("before", "after")))
    assert "rank {1} of {0} before it trained on them, {2} after".format(*figures) in " ".join(told.split())
    assert "".join(f"<td>{one}</td>" for one in figures) in page.read_text()
    without = place.adapted(*plain, "--set", "causal=false", "--dry-run", "--report", page, checkpoint=checkpoint)
    assert "pseudo clips rank" not in without and "What the bias correction made" not in page.read_text()


def test_what_cannot_be_meant() -> None:
    for words, sentence in (
        ("mean_pool CORPUS --features F", "Give one of --out DIR, --in-place and --dry-run"),
        ("mean_pool CORPUS --features F --dry-run --in-place", "not --in-place and --dry-run"),
        ("mean_pool CORPUS --dry-run", "Give with --features the folder"),
        ("mean_pool --dry-run", "Name what to learn from"),
        ("mean_pool CORPUS --library L --dry-run", "Name what to learn from"),
        ("mean_pool --library L --dry-run", "Give with --queries a file"),
        ("mean_pool --library L --features F --dry-run", "--features is about a corpus"),
        ("mean_pool CORPUS --features F --queries Q --dry-run", "leave --queries out"),
        ("mean_pool CORPUS --features F --dry-run --scores s.npy", "does not end in .npz"),
        ("x_pool CORPUS --features F --dry-run", "The matcher x_pool has to be trained"),
        ("mean_pool CORPUS --features F --in-place", "'mean_pool' is no folder"),
        ("mean_pool CORPUS --features F --dry-run --settings titn", "There is no file of settings"),
        ("mean_pool CORPUS --features F --undo", "with CHECKPOINT alone"),
        ("mine --undo --set lr=1", "with CHECKPOINT alone"),
        ("mean_pool --library L --queries Q --split test --dry-run", "--split is about a corpus"),
        (
            "mean_pool --library L --queries Q --pretrained-features F --dry-run",
            "--pretrained-features is about",
        ),
        ("no/such/folder --undo", "is no folder"),
    ):
        done = run("adapt", *words.split())
        assert isinstance(done.exception, UsageError) and sentence in str(done.exception), done.output


def test_what_is_missing_is_said(place: Place, tmp_path: Path) -> None:
    words = ("--settings", "titan/offline", "--out", tmp_path / "out")
    assert "The checkpoint carries no bias correction; make one with `evenreel prepare" in error(place.adapt(*words))
    assert "carries nothing for ttt;" in error(place.adapt("--settings", "titan/ttt", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    done = place.adapt(*LEARNS, "--out", tmp_path / "mine")
    assert isinstance(done.exception, CheckpointError) and "holds other things (letter.txt)" in str(done.exception)
    place_taken = ("--features", "none", "--out", tmp_path / "mine" / "letter.txt" / "out")
    assert "out cannot be written" in error(run("adapt", "mean_pool", "no corpus", *place_taken))


def test_a_library_from_nothing(shelf: Shelf, tmp_path: Path) -> None:
    """The whole way of someone without any training: index, queries in a file, adapt, search."""
    mine = tmp_path / "mine"
    done = here("adapt", "mean_pool", *shelf.learned_from, *LEARNS, "--out", mine, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = json.loads(done.stdout)
    assert printed["learned_from"]["queries"] == len(set(shelf.queries)) and printed["kept"]
    shown = {name for one in printed["changes"]["examples"] for name in (one["before"], one["after"])}
    assert shown and {printed["names"][clip] for clip in shown} <= {clip.name for clip in shelf.clips}
    again = len(shelf.queries) + 1 - len(set(shelf.queries))
    assert printed["notices"] == [f"{again} line{'s' * (again > 1)} of the queries asked again what others had."]
    page = (mine / "adaptation" / "report.html").read_text()
    assert set(re.findall(r"<figcaption>(.*?)</figcaption>", page)) == {printed["names"][clip] for clip in shown}
    assert shelf.hits(mine)


def test_pictures_of_clips(shelf: Shelf, forked_readers: None) -> None:
    """Each shows what its own clip does at half its length; one whose file is gone or has other content has none."""
    with open_library(shelf.folder, vision=False) as library:
        ids = {file.name: file.clip_id for file in library.files().files if file.clip_id is not None}
    gone, changed, *rest = shelf.clips
    stamp, content = changed.stat().st_mtime_ns, changed.read_bytes()
    gone.rename(gone.with_suffix(".away"))
    changed.write_bytes(content[:-1] + b"?")
    os.utime(changed, ns=(stamp, stamp))
    try:
        found = clip_pictures(shelf.folder, [*ids.values(), "no such clip"])
    finally:
        gone.with_suffix(".away").rename(gone)
        changed.write_bytes(content)
        os.utime(changed, ns=(stamp, stamp))
    assert found.keys() == {ids[clip.name] for clip in rest} and rest
    assert clip_pictures(shelf.folder.parent / "no library", list(ids.values())) == {}
    shown = {clip_id: Image.open(BytesIO(jpeg)).convert("RGB") for clip_id, jpeg in found.items()}
    for clip in rest:
        picture = shown[ids[clip.name]]
        assert picture.width <= 160 and len(found[ids[clip.name]]) < 20_000
        nearest = min(rest, key=lambda other: far(picture, middle_frame(other)))
        assert nearest == clip


@cache
def middle_frame(clip: Path) -> Image.Image:
    with open_video(str(clip), MediaLimits()) as video:
        frames = [frame.pixels for frame in video.frames(EverySeconds(1 / 100))]
    return Image.fromarray(frames[len(frames) // 2])


def far(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other.resize(one.size), np.float64)).mean())


def test_a_trained_and_prepared_checkpoint_on_a_library_and_back(place: Place, shelf: Shelf, tmp_path: Path) -> None:
    """Train, prepare, adapt, search, adapt in place, undo, search as before."""
    recipe = {
        "name": "tests/small", "about": "Written for a test.",
        "data": {"corpus": str(place.corpus), "features": str(place.features)},
        "matcher": {"name": "wti"}, "adapter": {"kind": "linear"}, "optimiser": {"lr": 0.001},
        "loop": {"batch_size": 8, "epochs": 1, "device": "cpu"}, "selection": {"metric": "MRR"},
        "records": {"tensorboard": False},
    }  # fmt: skip
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(recipe))
    good("train", tmp_path / "small.yaml", "--out", tmp_path / "run")
    trained = tmp_path / "run" / "checkpoint"
    good("prepare", trained, place.corpus, "--features", place.features, *PREPARED)
    before = files(trained)
    learns = (
        "--settings", "titan/offline", "--set", "lr=0.01", "--set", "batch_size=4", "--set", "causal_fit.steps=2",
    )  # fmt: skip

    adapted = json.loads(good("adapt", trained, *shelf.learned_from, *learns, "--out", tmp_path / "mine", "--json"))
    assert adapted["kept"] and load_prepared(tmp_path / "mine") is not None
    assert files(trained) == before
    asked, found = shelf.hits(trained), shelf.hits(tmp_path / "mine")
    assert found != asked

    in_place = here("adapt", trained, *shelf.learned_from, *learns, "--in-place")
    assert (in_place.returncode, in_place.stderr) == (0, ""), in_place.stderr
    assert shelf.hits(trained) == found
    assert good("adapt", trained, "--undo") == f"{trained} is as it was before it was adapted.\n"
    assert files(trained) == before and shelf.hits(trained) == asked
