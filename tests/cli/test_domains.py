"""`evenreel corpus domains` as it is typed; then two planted corpora through features, training and scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, select
from evenreel.errors import CorpusError, EvenreelError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import load_video_features
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.data.material import load_material
from evenreel.types import Scores
from tests.cli.test_library_commands import forked
from tests.training.small_material import small_recipe

SOURCE = "clip_id,text,split\na,a man sings,train\nb,a dog runs,train\nc,the rain,val\n"
TARGET = "clip_id,text,split\na,A dog  runs,test\nx,an owl [bold]naps,test\ny,fog,val\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small corpora, `one` and `other`."""
    place = tmp_path_factory.mktemp("domains")
    for name, table in (("one", SOURCE), ("other", TARGET)):
        (place / f"{name}.csv").write_text(table)
        run("corpus", "import", "table", place / f"{name}.csv", "--out", place / name)
    return place


def run(*arguments: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "400"})


def join(place: Path, *arguments: object) -> Result:
    return run("corpus", "domains", "--source", place / "one", "--target", place / "other", *arguments)


def said(result: Result) -> EvenreelError:
    assert isinstance(result.exception, EvenreelError)
    return result.exception


def test_what_is_printed(place: Path, tmp_path: Path) -> None:
    asked = ("corpus", "domains", "--source", str(place / "one"), "--target", str(place / "other"))
    done = forked(*asked, "--out", str(tmp_path / "out"), "--target-val", "val")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.strip() for line in done.stdout.splitlines()[1:5]] == [
        "train: 2 clips, 2 captions (source)",
        "val: 1 clip, 1 caption (source)",
        "test: 2 clips, 2 captions (target)",
        "target_val: 1 clip, 1 caption (target)",
    ]
    told = " ".join(done.stdout.split())
    assert "the source has 37.5 % of the target's words, 37.5 % of its texts, and 1 of its 3 captions" in told
    assert "1 clips and 1 captions of the source are called as some of the target" in told


def test_what_is_printed_for_a_program(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = join(place, "--out", out, "--source-split", "val", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["splits"] == {"val": {"clips": 1, "captions": 1}, "test": {"clips": 2, "captions": 2}}
    assert (told["source_words"], told["target_words"], told["shared_words"], told["notices"]) == (2, 7, 0, [])
    again = json.loads(join(place, "--out", out, "--json").stdout)
    assert again["notices"][-1]["sentence"] == f"What was in {out} is replaced: captions.parquet, clips.parquet."


def test_a_published_pair_says_what_is_missing(place: Path, tmp_path: Path) -> None:
    done = join(place, "--out", tmp_path / "out", "--name", "video2gif")
    assert done.exit_code == 3
    assert "left out: The split test has 2 clips, that of video2gif has 11,360." in " ".join(done.stdout.split())
    wrong = said(join(place, "--out", tmp_path / "no", "--name", "life2movie"))
    assert isinstance(wrong, UsageError) and "'life2movie'; there are: video2gif." in str(wrong)


def test_nothing_is_written_where_something_is_wrong(place: Path, tmp_path: Path) -> None:
    assert isinstance(said(join(place, "--out", tmp_path / "out", "--target-split", "tset")), CorpusError)
    assert not (tmp_path / "out").exists()
    over = said(join(place, "--out", place / "one"))
    assert isinstance(over, UsageError) and "is one of the two corpora" in str(over)


def test_two_planted_corpora_with_the_features_of_each(tmp_path: Path) -> None:
    """The recipe learns of the source's features, and the target's are scored; no feature is computed twice."""
    rule = ("--model", "builtin", "--rule", "2 midpoints", "--no-ocr", "--workers", 1)
    for seed, name in enumerate(("one", "other")):
        run("planted", "domain", "--clips", 10, "--seed", seed, "--workers", 1, "--out", tmp_path / name)
        assert run("features", tmp_path / name, *rule, "--out", tmp_path / f"of_{name}").exit_code == 0
    joined = tmp_path / "joined"
    done = join(tmp_path, "--out", joined, "--target-val", "val")
    assert done.exit_code == 0, done.output
    source, target = (load_corpus(tmp_path / name) for name in ("one", "other"))

    loaded = load_material(small_recipe(data={"corpus": str(joined), "features": str(tmp_path / "of_one")}))
    learned = loaded.material.examples
    assert isinstance(learned, FeatureExamples)
    stored = load_video_features(tmp_path / "of_one", select(source, split="train"))
    assert learned.video_features.ids == stored.ids
    assert np.array_equal(learned.video_features.frames, stored.frames)
    assert loaded.validation is not None
    assert loaded.validation.clips["clip_id"].to_list() == ["source/val_00000_0"]  # found by its path, whatever its id

    scores = [tmp_path / f"{name}.npz" for name in ("joined", "alone")]
    for where, out in zip((joined, tmp_path / "other"), scores, strict=True):
        asked = ("score", "mean_pool", where, "--features", tmp_path / "of_other", "--split", "test", "--out", out)
        assert run(*asked).exit_code == 0
    here, alone = (load_scores(out, select(target, split="test")) for out in scores)
    assert list(here.video_ids) == list(alone.video_ids) == select(target, split="test").clips["clip_id"].to_list()
    assert isinstance(here, Scores) and isinstance(alone, Scores)
    assert np.array_equal(here.values, alone.values)

    videos = ("--source-videos", tmp_path / "one", "--target-videos", tmp_path / "other")
    assert join(tmp_path, "--out", tmp_path / "both", *videos).exit_code == 0
    more = run("features", tmp_path / "both", *rule, "--out", tmp_path / "of_one", "--json")
    counts = json.loads(more.stdout)
    clips = load_corpus(tmp_path / "both").clips["domain"]
    assert counts["unchanged"] == (clips == "source").sum() > 0
    assert counts["computed"] == (clips == "target").sum() > 0
    tested = load_video_features(tmp_path / "of_one", select(load_corpus(tmp_path / "both"), split="test"))
    own = load_video_features(tmp_path / "of_other", select(target, split="test"))
    assert np.array_equal(tested.frames, own.frames)
