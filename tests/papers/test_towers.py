"""Studies whose rows train towers: each row is what `evenreel train`, `features` and `score` make of its recipe."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import yaml
from numpy.typing import NDArray
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, save_texts, select
from evenreel.encoders import load_encoder
from evenreel.evaluation import load_scores
from evenreel.features.scene_elements import EmbeddedDictionary, save_embedded
from evenreel.language.scene_elements import given
from evenreel.papers import STUDIES, StudySettings, study_recipe
from evenreel.papers.engine import FineTuned, TrainingOutcome, begun, each_outcome
from evenreel.papers.ghost.figures import Trained
from evenreel.papers.reading import open_workspace
from evenreel.papers.study import Changes, Sources, Table, Variant
from evenreel.planted import write_clip
from evenreel.types import ScoreBlocks, Scores
from tests.features.test_sets import words_table
from tests.tiny_checkpoints import WORDS, tiny_clip

RULE, WINDOWS = "3 midpoints", 2
SPLITS = {"train": 8, "val": 4, "test": 5}
CLIPS = sum(SPLITS.values())
QUICK = {"batch_size": 4, "epochs": 1, "device": "cpu"}


class Small(NamedTuple):
    """A corpus with its videos apart from it, a tiny CLIP, its features of them and its scene dictionary."""

    corpus: Path
    videos: Path
    model: Path
    features: Path
    elements: Path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    place = tmp_path_factory.mktemp("small")
    found = Small(*(place / name for name in Small._fields))
    tiny_clip(found.model)
    write_videos(found.videos)
    write_corpus(found.corpus)
    options = ["--rule", RULE, "--windows", str(WINDOWS), "--words", "corpus", "--videos", str(found.videos)]
    called("features", str(found.corpus), "--model", str(found.model), *options, "--out", str(found.features))
    write_elements(found.elements, found.model)
    return found


def write_videos(folder: Path) -> None:
    folder.mkdir()
    random = np.random.default_rng(3)
    for number in range(CLIPS):
        shade = random.integers(0, 256, (6, 8, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)
        write_clip(folder / f"v{number}.mp4", [np.roll(shade, 4 * step, axis=1) for step in range(4)], fps=4)


def write_corpus(folder: Path) -> None:
    """Clips to learn from, to select on and to search; most of them show a word, which the corpus knows."""
    names = [f"v{number}" for number in range(CLIPS)]
    splits = [split for split, count in SPLITS.items() for _ in range(count)]
    held = {"clip_id": names, "path": [f"{name}.mp4" for name in names], "split": splits}
    lengths = {"start_s": [0.0] * CLIPS, "end_s": [0.6 + 0.4 * (row % 2) for row in range(CLIPS)]}
    kinds = {kind: [[row % 3] for row in range(CLIPS)] for kind in ("verb_classes", "noun_classes")}
    clips = pl.DataFrame(held | lengths | kinds)
    rows = range(2 * CLIPS)
    texts = [f"{WORDS[2 + row % 9]} {WORDS[3 + row % 7]} {' '.join(WORDS[: row % 4])}" for row in rows]
    ids = {"caption_id": [f"c{row}" for row in rows], "clip_id": [names[row // 2] for row in rows]}
    said = {kind: [classes[row // 2] for row in rows] for kind, classes in kinds.items()}
    save_corpus(make_corpus(clips, pl.DataFrame(ids | said | {"text": texts})), folder)
    save_texts(words_table([(name, WORDS[2 + row % 9], 0, 1) for row, name in enumerate(names) if row % 3]), folder)


def write_elements(folder: Path, model: Path) -> None:
    """A dictionary with the vectors that the towers have for its phrases before training."""
    encoder = load_encoder(str(model), device="cpu")
    entities, activities = list(WORDS[2:6]), list(WORDS[6:9])
    rows = [encoder.encode_text(phrases).sentence for phrases in (entities, activities)]
    save_embedded(EmbeddedDictionary(given(entities, activities), *rows, "tiny", encoder.weights_hash), folder)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, NDArray[Any]]:
    """Scores of the rows of a study, as they are measured."""
    found: dict[str, NDArray[Any]] = {}
    scores = TrainingOutcome.scores

    def remember(self: TrainingOutcome) -> ScoreBlocks:
        blocks = scores(self)
        found[self.row] = np.array(blocks.block(slice(0, len(blocks.caption_ids)), slice(0, len(blocks.video_ids))))
        return blocks

    monkeypatch.setattr(TrainingOutcome, "scores", remember)
    return found


def keep_rows(monkeypatch: pytest.MonkeyPatch, name: str, rows: dict[str, Changes]) -> None:
    study = STUDIES[name]
    assert isinstance(study.make, Table)
    monkeypatch.setitem(STUDIES, name, replace(study, make=replace(study.make, rows=rows)))


def called(*words: str, fails: bool = False) -> str:
    result = CliRunner().invoke(app, list(words))
    assert (result.exit_code != 0) == fails, result.output
    return str(result.exception) if fails else result.output


def recipe_file(path: Path, **sections: Any) -> Path:
    """A recipe that trains towers."""
    values: dict[str, Any] = {
        "name": "towers",
        "optimiser": {"lr": 0.01, "backbone_lr": 0.01},
        "loop": QUICK,
        "records": {"tensorboard": False, "every_steps": 1},
    } | sections
    path.write_text(yaml.safe_dump(values))
    return path


def trained_and_scored(recipe: Path, small: Small, out: Path, *options: str) -> NDArray[Any]:
    """Scores of the test split by the commands that train and that the model card names."""
    called("train", str(recipe), "--out", str(out))
    return scored(out, small, yaml.safe_load(recipe.read_text())["data"]["corpus"], *options)


def scored(run: Path, small: Small, corpus: str, *options: str) -> NDArray[Any]:
    card = (run / "checkpoint" / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("evenreel features CORPUS"))
    own = {"CORPUS": corpus, "CHECKPOINT/encoder": str(run / "checkpoint" / "encoder")}
    words = [own.get(word, word) for word in shlex.split(command.partition(" --out")[0])[1:]]
    called(*words, "--videos", str(small.videos), "--out", str(run / "own"))
    given = ["--features", str(run / "own"), "--split", "test", *options, "--out", str(run / "scores.npz")]
    called("score", str(run / "checkpoint"), corpus, *given)
    scores = load_scores(run / "scores.npz", select(load_corpus(Path(corpus)), split="test"))
    assert isinstance(scores, Scores)
    return scores.values


def weights_of(run: Path) -> bytes:
    (best,) = (run / "checkpoints").glob("best-*.safetensors")
    return best.read_bytes()


def test_a_row_of_bima_is_what_train_and_score_make_of_its_recipe(
    small: Small, tmp_path: Path, kept: dict[str, NDArray[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte of its weights, with scene elements by how the towers saw clips before; other studies share it."""
    from evenreel.papers.bima import tables

    rows = {"baseline": tables.OFF, "bima": tables.PARTS["bima"]}
    keep_rows(monkeypatch, "bima/t4", rows)
    settings = {"elements": str(small.elements), "kappa": 2, "heads": 2, "decoder_layers": 1}
    backbone = {"model": str(small.model), "rule": RULE, "max_words": 6}
    sections = {"backbone": backbone, "matcher": {"name": "bima", "settings": settings}}
    data = {"corpus": str(small.corpus), "videos": str(small.videos), "pretrained_features": str(small.features)}
    recipe = recipe_file(tmp_path / "bima.yaml", data=data, **sections)
    alone = trained_and_scored(recipe, small, tmp_path / "alone", "--pretrained-features", str(small.features))
    moved = recipe_file(tmp_path / "elsewhere.yaml", data={"corpus": "corpus"}, **sections)  # the study's places count
    given = ["--features", str(small.features), "--recipe", str(moved), "--seeds", "1", "--out", str(tmp_path / "out")]
    called("study", "bima/t4", str(small.corpus), *given)
    runs = tmp_path / "out" / "runs"
    assert weights_of(runs / "bima" / "seed-0") == weights_of(tmp_path / "alone")
    np.testing.assert_allclose(kept["bima"], alone, atol=2e-3)
    assert np.abs(kept["baseline"] - alone).max() > 1e-2, "each row has towers of its own"

    table = {row[0]: row[3:] for row in results(tmp_path / "out")["tables"][0]["rows"]}
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*.ckpt")}
    called("study", "bima/t5", str(small.corpus), *given)
    read = {(row[0], row[1]): row[2] for row in results(tmp_path / "out")["tables"][0]["rows"]}
    assert read["content", "R@1 T2V"] == table["bima"][0]
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*.ckpt")} == before, "nothing is trained again"

    elsewhere = f"again={small.corpus},{small.features},test"  # its own test split as if it were another corpus
    called("study", "bima/t3", str(small.corpus), *given, "--other", elsewhere)
    found = {tuple(row[:3]): row[3:] for row in results(tmp_path / "out")["tables"][0]["rows"]}
    own = small.corpus.name
    assert found["again", own, "bima"] == found[own, own, "bima"] == table["bima"][:4]
    assert found["again", "nothing", "mean_pool"] != found["again", own, "mean_pool"]


def results(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())


@pytest.mark.slow
def test_rows_of_tcd_read_what_is_on_screen_through_their_own_text_towers(
    small: Small, tmp_path: Path, kept: dict[str, NDArray[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the corpus has it or with its words changed; a row that reads nothing takes none from its text tower."""
    from evenreel.papers.tcd import tables

    monkeypatch.setattr(tables, "BASES", ("mean_pool",))
    few: dict[str, Changes] = {"tcd": {}, "no words": tables.NO_WORDS, "40 % of the words": {"words": {"ratio": 0.4}}}
    keep_rows(monkeypatch, "tcd/t4", few)
    words = {"empty": "caption", "char_errors": 0.3}
    data = {"corpus": str(small.corpus), "videos": str(small.videos), "on_screen": str(small.features)}
    sections = {"backbone": {"model": str(small.model), "rule": RULE}, "matcher": {"name": "tcd"}}
    recipe = recipe_file(tmp_path / "tcd.yaml", data=data | {"words": words | {"ratio": 0.4}}, **sections)
    alone = trained_and_scored(recipe, small, tmp_path / "alone")
    placeless = {"corpus": "corpus", "on_screen": "features", "words": words}
    moved = recipe_file(tmp_path / "elsewhere.yaml", data=placeless, **sections)
    given = ["--features", str(small.features), "--recipe", str(moved), "--seeds", "1", "--out", str(tmp_path / "out")]
    called("study", "tcd/t4", str(small.corpus), *given)
    runs = tmp_path / "out" / "runs"
    assert weights_of(runs / "40-of-the-words" / "seed-0") == weights_of(tmp_path / "alone")
    np.testing.assert_allclose(kept["40 % of the words"], alone, atol=2e-3)
    assert np.abs(kept["tcd"] - alone).max() > 1e-2
    called("study", "tcd/t1", str(small.corpus), *given)
    assert sorted(path.name for path in runs.iterdir() if path.is_dir()) == [
        "40-of-the-words", "mean-pool", "mean-pool-windows", "no-words", "tcd",
    ]  # fmt: skip
    read = {name: "on_screen" in (runs / name / "seed-0" / "data.json").read_text() for name in ("mean-pool", "tcd")}
    assert read == {"mean-pool": False, "tcd": True}
    assert np.abs(kept["mean_pool"] - kept["mean_pool + windows"]).max() > 1e-3


def test_a_model_that_was_trained_on_mirrors_sees_them_by_its_own_towers(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `evenreel train` and `score` have it, its vectors beside those of the towers before training."""
    mirrors = {"v4": "v0", "v5": "v1", "v6": "v2", "v15": "v12", "v16": "v13"}
    corpus, pairs = load_corpus(small.corpus), pl.col("clip_id").replace_strict(mirrors, default=None)
    source = pl.when(pairs.is_null()).then(pl.lit("camera")).otherwise(pl.lit("sora"))
    clips = corpus.clips.with_columns(pair_id=pairs, source=source)
    save_corpus(make_corpus(clips, corpus.captions.filter(~pl.col("clip_id").is_in(list(mirrors)))), tmp_path / "own")
    sections = {
        "backbone": {"model": str(small.model), "rule": RULE},
        "matcher": {"name": "mean_pool"},
        "debias": {"preset": "neutral"},
    }
    data = {"corpus": str(tmp_path / "own"), "validation": None}
    recipe = recipe_file(tmp_path / "ghost.yaml", data=data | {"videos": str(small.videos)}, **sections)
    alone = trained_and_scored(recipe, small, tmp_path / "alone")
    seen: list[FineTuned] = []
    monkeypatch.setattr(
        "evenreel.papers.ghost.figures.Trained", lambda *models: seen.extend(models) or Trained(*models)
    )
    given = ["--features", str(small.features), "--recipe", str(recipe), "--seeds", "1", "--out", str(tmp_path / "out")]
    called("study", "ghost/t7", str(tmp_path / "own"), *given)
    before, debiased, control = (one.test.scores(one.matcher).block(slice(0, 6), slice(0, 5)) for one in seen)
    np.testing.assert_allclose(debiased, alone, atol=2e-3)
    assert np.abs(before - debiased).max() > 1e-2 and np.abs(control - debiased).max() > 1e-4


@pytest.mark.slow
def test_members_have_towers_of_their_own_and_their_scores_are_added(
    small: Small, tmp_path: Path, kept: dict[str, NDArray[Any]]
) -> None:
    """Strata, and strata that begin with all clips, as `evenreel train` and `evenreel fuse` have them."""
    sections = {"backbone": {"model": str(small.model), "rule": RULE}, "matcher": {"name": "mean_pool"}}
    data = {"corpus": str(small.corpus), "videos": str(small.videos)}
    members = {"split": "equal", "begin": "full"}
    recipe = recipe_file(tmp_path / "length.yaml", data=data, members=members, **sections)
    told = json.loads(called("train", str(recipe), "--out", str(tmp_path / "alone"), "--json"))
    for member in told["members"]:
        scored(Path(member["folder"]), small, str(small.corpus))
    files = [str(tmp_path / "alone" / "members" / str(number) / "scores.npz") for number in (1, 2)]
    weights = [word for member in told["members"] for word in ("--weight", repr(member["weight"]))]
    called("fuse", *files, "--by", "sum", *weights, "--out", str(tmp_path / "fused.npz"))
    alone = load_scores(tmp_path / "fused.npz", select(load_corpus(small.corpus), split="test"))
    given = ["--features", str(small.features), "--recipe", str(recipe), "--seeds", "1", "--out", str(tmp_path / "out")]
    called("study", "length/failure", str(small.corpus), *given)
    run = tmp_path / "out" / "runs" / "fine-tuned-strata" / "seed-0" / "members"
    for name in ("all", "1", "2"):
        assert weights_of(run / name) == weights_of(tmp_path / "alone" / "members" / name)
    np.testing.assert_allclose(kept["fine-tuned strata"], alone.values, atol=2e-3)
    table = {row[0]: row[1:3] for row in results(tmp_path / "out")["tables"][0]["rows"]}
    assert table["fine-tuned strata"] == [2, SPLITS["train"]]
    assert table["baseline"] == [1, SPLITS["train"]]


def test_clips_that_cannot_be_read_take_no_part(small: Small, tmp_path: Path) -> None:
    """One that is learned from, one that is selected on and one that is searched; their features are there."""
    videos = tmp_path / "videos"
    shutil.copytree(small.videos, videos)
    for name in ("v2", "v9", "v14"):
        (videos / f"{name}.mp4").write_bytes(b"this is no video")
    data, backbone = {"corpus": "corpus"}, {"model": str(small.model), "rule": RULE}
    recipe = recipe_file(tmp_path / "tcd.yaml", data=data, backbone=backbone, matcher={"name": "tcd"})
    study, settings = STUDIES["tcd/t2"], StudySettings(recipe=study_recipe(recipe), seeds=1, runs=tmp_path / "runs")
    material = open_workspace(study, small.corpus, Sources(features=small.features, videos=videos), settings)
    through = begun(study, settings.recipe, material)
    (row,) = each_outcome({"tcd": Variant(through)}, material, settings, lambda share: None)
    assert row.learned.clips["clip_id"].to_list() == [f"v{n}" for n in range(8) if n != 2]
    assert row.test.videos.ids == tuple(f"v{n}" for n in range(12, 17) if n != 14)
    assert row.scores().video_ids == row.test.videos.ids
    assert row.notices == (
        "tcd: 2 clips to learn from or to select on cannot be read.",
        "tcd: 1 clip to search cannot be read.",
    )


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "changes", "sentence"),
    [
        ("tcd/t8", [], "The recipe 'towers' trains towers, and tcd/t8 counts and times matchers, without towers: it"),
        ("length/t6", [], "length/t6 leaves out one stream of stored features after the other: it works on features"),
        ("tcd/t2", ["start=somewhere"], "studies that do so begin with a fresh matcher: leave 'start' (--start) out"),
        ("bima/t4", ["backbone.model=builtin"], "The recipe trains builtin (backbone.model), and the features are of"),
        ("bima/t4", ["backbone.rule=2 midpoints"], "holds features by '3 midpoints, words of the corpus', not by what"),
        (
            "length/t7",
            ["matcher.name=wti"],
            "The matcher hgr of the row 'hgr' reads captions as role graphs and not as a",
        ),
    ],
)
def test_what_no_study_trains_through_towers(
    study: str, changes: list[str], sentence: str, small: Small, tmp_path: Path
) -> None:
    backbone = {"model": str(small.model), "rule": RULE}
    name = study.partition("/")[0]
    settings = {"elements": str(small.elements)} if name == "bima" else {}
    matcher = {"name": name.replace("length", "wti"), "settings": settings}
    recipe = recipe_file(tmp_path / "recipe.yaml", data={"corpus": "corpus"}, backbone=backbone, matcher=matcher)
    given = [word for change in changes for word in ("--set", change)]
    bases = ["--base", "hgr"] if study == "length/t7" else []
    words = ["study", study, str(small.corpus), "--features", str(small.features), "--recipe", str(recipe)]
    assert sentence in called(*words, *given, *bases, "--out", str(tmp_path / "study"), fails=True)
    assert not (tmp_path / "study" / "runs").exists(), "nothing is trained before"


def test_what_is_named_and_not_looked_at(small: Small, tmp_path: Path) -> None:
    """Videos of features that are computed already, and words of another source than the towers read."""
    data, backbone = {"corpus": "corpus"}, {"model": str(small.model), "rule": RULE}
    recipe = recipe_file(tmp_path / "tcd.yaml", data=data, backbone=backbone, matcher={"name": "tcd"})
    words = ["study", "tcd/t2", str(small.corpus), "--out", str(tmp_path / "out"), "--features"]
    found = called(*words, str(small.features), "--videos", str(small.videos), fails=True)
    assert found == "Videos are for a recipe whose towers are trained (backbone); leave --videos out."
    folder = tmp_path / "features"
    shutil.copytree(small.features, folder)
    manifest = json.loads((folder / "features.json").read_text())
    manifest["sets"].append(manifest["sets"][0] | {"words": "ocr"})  # a later run that recognised them
    (folder / "features.json").write_text(json.dumps(manifest))
    found = called(*words, str(folder), "--recipe", str(recipe), "--words", "corpus", fails=True)
    assert "which are words read in the frames; leave --words out" in found
