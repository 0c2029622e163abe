"""`evenreel train` as it is typed: a recipe in, a run folder with everything in it out; in members too."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from click.testing import Result
from safetensors.torch import load_file
from typer.testing import CliRunner

from evenreel.checkpoint import load_matcher
from evenreel.checkpoint.architecture import module
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features
from evenreel.training import material, pixels
from evenreel.training.loop import best_weights
from evenreel.training.run_folder import DATA, METRICS, MetricsFile, RunFolderError
from tests.training.conftest import BROKEN, clip_folder, corpus_folder

__all__ = ["clip_folder", "corpus_folder"]


def here(*words: str | Path) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def recipe_file(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    settings = FeatureSettings(rule="3 midpoints", read_text=False, videos=corpus_folder, workers=1)
    encoder = load_encoder(str(clip_folder), device="cpu")
    compute_features(load_corpus(corpus_folder), folder / "features", encoder, settings)
    values: dict[str, Any] = {
        "name": "tests/small",
        "about": "Written for a test.",
        "data": {"corpus": str(corpus_folder), "features": str(folder / "features")},
        "matcher": {"name": "wti"},
        "adapter": {"kind": "linear"},
        "optimiser": {"lr": 0.001},
        "loop": {"batch_size": 4, "epochs": 2, "device": "cpu"},
        "selection": {"metric": "MRR"},
        "records": {"every_steps": 1, "tensorboard": False},
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_run_from_its_recipe_to_its_checkpoint(recipe_file: Path, tmp_path: Path, clip_folder: Path) -> None:
    done = here("train", recipe_file, "--set", "loop.epochs=3", "--out", tmp_path / "run", "--json")
    assert done.exit_code == 3, done.output  # one clip was set aside
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert [(one["clip_id"], one["reason"]) for one in result["set_aside"]] == [(BROKEN, "not_media")]
    assert 0 < result["validation"]["MRR"] <= 100
    pretrained = load_matcher(str(tmp_path / "run" / "checkpoint"))
    assert pretrained.about.encoder.weights_hash == load_encoder(str(clip_folder), device="cpu").weights_hash
    assert pretrained.about.corpus and pretrained.about.inputs.frames == 3 and pretrained.about.inputs.words
    assert "epochs: 3" in pretrained.about.recipe
    data = json.loads((tmp_path / "run" / DATA).read_text())
    assert (data["weights_hash"], data["rule"]) == (pretrained.about.encoder.weights_hash, "3 midpoints")
    assert "Training of tests/small" in (tmp_path / "run" / "curves.html").read_text()
    assert BROKEN in (tmp_path / "run" / "set_aside.csv").read_text()


def test_a_run_is_not_begun_twice_but_resumed(recipe_file: Path, tmp_path: Path) -> None:
    first = here("train", recipe_file, "--out", tmp_path / "run")
    assert first.exit_code == 3 and "best on validation" in first.stdout
    again = here("train", recipe_file, "--out", tmp_path / "run")
    assert isinstance(again.exception, UsageError) and "add --resume" in str(again.exception)
    resumed = here("train", recipe_file, "--out", tmp_path / "run", "--resume")
    assert (resumed.exit_code, resumed.stdout) == (3, first.stdout)


def test_a_run_that_is_not_there_is_not_resumed(recipe_file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "rnu", tmp_path / "empty"):
        refused = here("train", recipe_file, "--out", place, "--resume")
        assert isinstance(refused.exception, UsageError)
        assert f"There is no run in {place} to go on with" in str(refused.exception)
        assert "without --resume" in str(refused.exception)
    assert not (tmp_path / "rnu").exists() and not list((tmp_path / "empty").iterdir())


def test_a_run_with_other_data_is_not_resumed(
    recipe_file: Path, tmp_path: Path, corpus_folder: Path, clip_folder: Path
) -> None:
    """Neither with other texts of the same captions, nor with features of the same clips that were read otherwise."""
    corpus = load_corpus(corpus_folder)
    save_corpus(corpus, tmp_path / "corpus")
    shutil.copytree(recipe_file.parent / "features", tmp_path / "features")
    places = f"data={{corpus: {tmp_path / 'corpus'}, features: {tmp_path / 'features'}}}"
    words = ("train", recipe_file, "--set", places, "--set", "loop.epochs=1", "--out", tmp_path / "run", "--resume")
    assert here(*words[:-1]).exit_code == 3
    texts = corpus.captions["text"].to_list()
    texts[:2] = texts[1::-1]
    other = make_corpus(corpus.clips, corpus.captions.with_columns(text=pl.Series(texts)))
    save_corpus(other, tmp_path / "corpus")
    refused = here(*words)
    assert isinstance(refused.exception, CorpusError) and " caption_texts was " in str(refused.exception)
    save_corpus(corpus, tmp_path / "corpus")
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=corpus_folder, workers=1)
    compute_features(corpus, tmp_path / "features", load_encoder(str(clip_folder), device="cpu"), settings)
    refused = here(*words)
    assert "rule was 3 midpoints and is 2 midpoints" in str(refused.exception)


def test_a_folder_is_looked_at_before_any_clip(
    recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material, "load_material", lambda *given: pytest.fail("it was not looked at"))
    (tmp_path / "letter.txt").touch()
    assert "holds other things than a run" in str(here("train", recipe_file, "--out", tmp_path).exception)


def test_a_disk_that_refuses_the_results(recipe_file: Path, tmp_path: Path) -> None:
    words = ("train", recipe_file, "--out", tmp_path / "run")
    assert here(*words).exit_code == 3
    (tmp_path / "run" / "set_aside.csv").unlink()
    (tmp_path / "run" / "set_aside.csv").mkdir()
    assert isinstance(here(*words, "--resume").exception, RunFolderError)


def test_the_lowest_rank_is_the_best(recipe_file: Path, tmp_path: Path) -> None:
    changes = ("--set", "selection.metric=MeanR", "--set", "optimiser.lr=0.5", "--set", "loop.epochs=4")
    assert here("train", recipe_file, *changes, "--out", tmp_path).exit_code == 3
    ranks = MetricsFile(tmp_path / METRICS).curves()["validation/MeanR"]
    assert len({rank for _, rank in ranks}) > 1
    best_step, _ = min(ranks, key=lambda point: point[1])
    assert best_weights(tmp_path, int(best_step)).exists()


def test_trained_towers_go_into_the_checkpoint(
    recipe_file: Path, tmp_path: Path, clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = f"backbone={{model: {clip_folder}, rule: 3 midpoints}}"
    changes = [backbone, "data.features=null", "optimiser.backbone_lr=0.001"]
    words = [word for change in changes for word in ("--set", change)]
    done = here("train", recipe_file, *words, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 3, done.output
    monkeypatch.setattr(pixels, "Worker", lambda *given: pytest.fail("a clip was read again"))
    assert here("train", recipe_file, *words, "--out", tmp_path / "run", "--json", "--resume").stdout == done.stdout
    trained = load_encoder(str(tmp_path / "run" / "checkpoint" / "encoder"), device="cpu")
    before = load_encoder(str(clip_folder), device="cpu")
    assert (trained.encode_text(["a dog"]).sentence != before.encode_text(["a dog"]).sentence).any()
    pretrained = load_matcher(str(tmp_path / "run" / "checkpoint"))
    assert pretrained.about.encoder.weights_hash == trained.weights_hash


def test_a_run_begins_with_a_checkpoint_of_its_own_encoder(recipe_file: Path, tmp_path: Path) -> None:
    assert here("train", recipe_file, "--out", tmp_path / "first").exit_code == 3
    start = f"start={tmp_path / 'first' / 'checkpoint'}"
    still = ("--set", "optimiser.lr=0", "--set", "loop.epochs=1")
    assert here("train", recipe_file, "--set", start, *still, "--out", tmp_path / "second").exit_code == 3
    first, second = (module(load_matcher(tmp_path / name / "checkpoint").matcher) for name in ("first", "second"))
    assert all(torch.equal(tensor, second.state_dict()[name]) for name, tensor in first.state_dict().items())
    backbone = ("--set", "data.features=null", "--set", "backbone={model: builtin, rule: 3 midpoints}")
    other = here("train", recipe_file, "--set", start, *backbone, "--out", tmp_path / "third")
    assert isinstance(other.exception, UsageError) and "takes features of" in str(other.exception)


def test_wrong_usage_is_said_in_a_sentence(recipe_file: Path, tmp_path: Path) -> None:
    for words, sentence in (
        (["no/such/recipe"], "There is no recipe 'no/such/recipe', neither a file nor one of the package: "),
        ([recipe_file, "--set", "optimiser.rate=1"], "There is no setting optimiser.rate; there are lr, "),
        ([recipe_file, "--set", "selection.metric=best"], "'best'"),
        ([recipe_file, "--set", "selection.relevance=classes"], "classes"),
    ):
        done = here("train", *words, "--out", tmp_path / "run")
        assert isinstance(done.exception, (UsageError, CorpusError)) and sentence in str(done.exception)


FRAMES = (10, 20, 30, 99, 80, 90, 40, 50, 200, 200)
"""Of six clips to learn from, of which the one of 99 cannot be read, two to select on and two of a test split."""

USES = "class lengths of the split test"


@pytest.fixture(scope="module")
def lengths_file(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    corpus = load_corpus(corpus_folder)
    one = pl.lit([0], pl.List(pl.Int32))
    splits = pl.Series(["train"] * 6 + ["val"] * 2 + ["test"] * 2)
    columns = {"frame_count": pl.Series(FRAMES), "split": splits, "verb_classes": one, "noun_classes": one}
    save_corpus(make_corpus(corpus.clips.with_columns(**columns), corpus.captions), folder / "corpus")
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=corpus_folder, workers=1)
    encoder = load_encoder(str(clip_folder), device="cpu")
    compute_features(load_corpus(folder / "corpus"), folder / "features", encoder, settings)
    values: dict[str, Any] = {
        "name": "tests/lengths",
        "data": {"corpus": str(folder / "corpus"), "features": str(folder / "features")},
        "matcher": {"name": "wti"},
        "adapter": {"kind": "linear"},
        "trim": {"margin": 10, "least": 5, "target": "test"},
        "members": {"fusion": "uniform"},
        "loop": {"batch_size": 4, "epochs": 2, "device": "cpu"},
        "records": {"tensorboard": False},
    }
    path = folder / "lengths.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_run_of_members_from_its_recipe_to_the_figures_of_its_scores(lengths_file: Path, tmp_path: Path) -> None:
    """The shortest clip is left out; of the others that can be read two are shorter than their mean, and two longer."""
    run, scores = tmp_path / "run", tmp_path / "scores.npz"
    done = here("train", lengths_file, "--out", run)
    assert done.exit_code == 3, done.output  # one clip was set aside
    said = " ".join(done.stdout.split())
    for part in (
        "2 members became one matcher, with the weights 0.5 + 0.5.",
        "Left out for their length: 1 of 6 training clips",
        "Member 1 learned from 2 clips of 20 to 30 frames, 4 captions.",
        "Member 2 learned from 2 clips of 80 to 90 frames, 4 captions.",
        f"It was trained with {USES}",
    ):
        assert part in said, part
    card = (run / "checkpoint" / "README.md").read_text()
    assert USES in card and "- Member 2 learned from 2 clips of 80 to 90 frames" in card
    assert load_matcher(run / "checkpoint").about.uses == (USES,)
    assert "(member 1)" in (run / "curves.html").read_text()
    corpus, features = lengths_file.parent / "corpus", lengths_file.parent / "features"
    words = ("score", run / "checkpoint", corpus, "--features", features, "--split", "test", "--out")
    assert USES in here(*words, scores).stdout
    assert isinstance(here(*words, tmp_path / "scores.npy").exception, UsageError)
    assert load_scores(scores, load_corpus(corpus), partial=True).about.uses == (USES,)


def test_a_run_of_members_is_resumed_with_another_fusion(lengths_file: Path, tmp_path: Path) -> None:
    words = ("train", lengths_file, "--out", tmp_path / "run")
    first = here(*words, "--json")
    result = json.loads(first.stdout)
    assert [one["clips"] for one in result["strata"]] == [2, 2]
    assert result["encodings"] == 2
    assert isinstance(here(*words).exception, UsageError)
    again = json.loads(here(*words, "--resume", "--set", "members.fusion=prior", "--json").stdout)
    assert again == result
    other = here(*words, "--resume", "--set", "members.count=3")
    assert "members.count was 2 and is 3" in str(other.exception)


def test_one_stratum_alone(lengths_file: Path, tmp_path: Path) -> None:
    alone = here("train", lengths_file, "--set", "members.only=2", "--out", tmp_path / "alone")
    assert "It learned from stratum 2 alone: 2 clips of 80 to 90 frames, 4 captions." in " ".join(alone.stdout.split())
    begun = ("--set", "trim=null", "--set", "members=null", "--set", f"start={tmp_path / 'alone' / 'checkpoint'}")
    later = json.loads(here("train", lengths_file, *begun, "--out", tmp_path / "later", "--json").stdout)
    assert later["uses"] == [USES], "what a checkpoint knows, its successor knows too"


def towers(clip_folder: Path, corpus_folder: Path, lengths_file: Path, **members: Any) -> list[str]:
    """The recipe from frames: both towers learn, six clips in two strata of length."""
    changes = (
        f"backbone={{model: {clip_folder}, rule: 2 midpoints}}",
        "data.features=null",
        f"data.videos={corpus_folder}",
        f"members={json.dumps(members)}",
        "trim=null",
        "matcher.name=mean_pool",
        "optimiser.backbone_lr=0.001",
        "schedule={form: constant, warmup: 0.0}",
        "loop.epochs=1",
    )
    return ["train", str(lengths_file), *(word for change in changes for word in ("--set", change))]


def test_towers_are_trained_on_each_stratum_and_their_scores_become_one(
    lengths_file: Path, clip_folder: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    """The commands that the run prints give what equation 5 asks for: the sum by the shares of the strata."""
    run = tmp_path / "run"
    words = [*towers(clip_folder, corpus_folder, lengths_file, count=2, split="adjusted", fraction=0.6), "--out", run]
    done = here(*words)
    assert done.exit_code == 3, done.output  # one clip was set aside
    said = " ".join(done.stdout.split())
    assert "It learned from stratum 1 alone: 3 clips of 10 to 30 frames" in said
    assert "It learned from stratum 2 alone: 2 clips of 80 to 90 frames" in said
    members = [run / "members" / number / "checkpoint" for number in ("1", "2")]
    assert not (run / "checkpoint").exists() and "CHECKPOINT" not in done.stdout
    hashes = {load_matcher(member).about.encoder.weights_hash for member in members}
    assert len(hashes) == 2, "each has towers of its own"
    corpus, scores = lengths_file.parent / "corpus", []
    commands = [shlex.split(line)[1:] for line in done.stdout.splitlines() if line.startswith("  evenreel ")]
    assert [one[0] for one in commands] == ["features", "score"] * 2 + ["fuse"]
    places = {f"FEATURES-{n}": str(tmp_path / f"features-{n}") for n in (1, 2)} | {"CORPUS": str(corpus)}
    places |= {name: str(tmp_path / name) for name in ("1.npz", "2.npz", "fused.npz")}
    for one in commands:
        given = [places.get(word, word) for word in one]
        made = here(*given, *(("--videos", corpus_folder) if given[0] == "features" else ()))
        assert made.exit_code in (0, 3), made.output
    *scores, fused = (load_scores(tmp_path / name, load_corpus(corpus), partial=True) for name in list(places)[3:])
    tables = [one.block(slice(0, 4), slice(0, 2)) for one in (*scores, fused)]
    np.testing.assert_allclose(tables[2], 0.6 * tables[0] + 0.4 * tables[1], atol=1e-6)
    resumed = json.loads(here(*words, "--resume", "--json").stdout)
    assert [(one["weight"], one["strata"][0]["clips"]) for one in resumed["members"]] == [(0.6, 3), (0.4, 2)]


def test_a_member_of_towers_is_the_run_of_its_stratum(
    lengths_file: Path, clip_folder: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    """The second begins with the towers of the model and not with those that the first left behind."""
    both = here(*towers(clip_folder, corpus_folder, lengths_file, count=2), "--out", tmp_path / "both")
    alone = here(*towers(clip_folder, corpus_folder, lengths_file, count=2, only=2), "--out", tmp_path / "alone")
    assert (both.exit_code, alone.exit_code) == (3, 3)
    files = [place / "checkpoint" / "encoder" / "model.safetensors"
             for place in (tmp_path / "both" / "members" / "2", tmp_path / "alone")]  # fmt: skip
    assert files[0].read_bytes() == files[1].read_bytes()


def test_members_of_towers_by_seed_and_after_a_training_on_all_clips(
    lengths_file: Path, clip_folder: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    seeds = here(*towers(clip_folder, corpus_folder, lengths_file, by="seed"), "--out", tmp_path / "seeds", "--json")
    assert [one["weight"] for one in json.loads(seeds.stdout)["members"]] == [0.5, 0.5]
    recipes = [yaml.safe_load((tmp_path / "seeds" / "members" / n / "recipe.yaml").read_text()) for n in ("1", "2")]
    assert [one["loop"]["seed"] for one in recipes] == [0, 1]
    still = ["--set", "optimiser.lr=0", "--set", "optimiser.backbone_lr=0", "--set", "optimiser.logit_scale_lr=0"]
    tuned = towers(clip_folder, corpus_folder, lengths_file, begin="full")
    place = tmp_path / "tuned"
    assert here(*tuned, "--out", place).exit_code == 3
    model = "checkpoint/encoder/model.safetensors"
    assert (place / "members" / "all" / model).read_bytes() != (place / "members" / "1" / model).read_bytes()
    begun = yaml.safe_load((place / "members" / "1" / "recipe.yaml").read_text())
    assert begun["start"] == str(place / "members" / "all" / "checkpoint")
    assert here(*tuned, *still, "--out", tmp_path / "still").exit_code == 3
    weights = [load_file(tmp_path / "still" / "members" / name / model) for name in ("all", "1", "2")]
    assert all(torch.equal(tensor, other[name]) for other in weights[1:] for name, tensor in weights[0].items())
