"""`evenreel corpus pair`, `prompts`, `mix` and `domains` as a person types them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, load_texts, make_corpus, save_corpus, save_texts, select
from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.on_screen import make_texts
from evenreel.corpus.tables import CLASS_NAMES, save_class_names
from evenreel.errors import CorpusError, EvenreelError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import load_video_features
from evenreel.planted import sample_scene, write_scene
from evenreel.training.batches import FeatureExamples
from evenreel.training.material import load_material
from evenreel.types import Scores
from tests.cli.test_library_commands import forked
from tests.training.small_material import small_recipe

COUNT = 14


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a video in it, and a folder in which all clips but the last of the test split have a mirror."""
    import numpy as np

    place = tmp_path_factory.mktemp("pairs")
    (place / "corpus" / "real").mkdir(parents=True)
    rng = np.random.default_rng(0)
    scene = sample_scene(rng)
    write_scene(place / "corpus" / "real" / "c.mp4", scene)
    names = [f"c{number}" for number in range(COUNT)]
    clips = pl.DataFrame(
        {"clip_id": names, "path": "real/c.mp4", "split": ["train"] * (COUNT - 3) + ["test"] * 3, "end_s": 1.0}
    )
    captions = pl.DataFrame({"caption_id": names, "clip_id": names, "text": ["a ball [red]", "=1+1"] * (COUNT // 2)})
    save_corpus(make_corpus(clips, captions), place / "corpus")
    save_texts(make_texts([{"clip_id": name, "text": "SALE"} for name in ("c0", "c13")]), place / "corpus")
    save_class_names(place / "corpus", ["run"], ["dog"], "tagger")
    for name in [*names[-3:-1], "[stranger]"]:
        (place / "made" / "deep").mkdir(parents=True, exist_ok=True)
        shutil.copy(place / "corpus" / "real" / "c.mp4", place / "made" / "deep" / f"{name}.mp4")
    return place


@pytest.fixture(scope="module")
def paired(place: Path) -> Path:
    """The corpus with these mirrors."""
    made = here("pair", place / "corpus", "--generated", place / "made", "--source", "sora", "--out", place / "paired")
    assert made.exit_code == 3
    return place / "paired"


def here(*arguments: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return run("corpus", *arguments)


def said(result: Result) -> EvenreelError:
    assert isinstance(result.exception, EvenreelError)
    return result.exception


def test_pair_says_who_has_a_mirror_and_what_fits_nothing(place: Path, tmp_path: Path) -> None:
    asked = ("corpus", "pair", place / "corpus", "--generated", place / "made", "--source", "sora", "--setting", "text")
    done = forked(*asked, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (3, "")
    assert "  sora text, test: 2 of 3 real clips mirrored\n    has no counterpart: c13\n" in done.stdout
    assert f"  fits no real clip: {place / 'made' / 'deep' / '[stranger].mp4'}\n" in done.stdout
    corpus = load_corpus(tmp_path / "out")
    assert counterparts(corpus).rows() == [("c11", "c11@sora-text", "sora text"), ("c12", "c12@sora-text", "sora text")]
    assert corpus.clips["path"].to_list()[-1] == str(place / "made" / "deep" / "c12.mp4")
    assert (tmp_path / "out" / CLASS_NAMES).is_file()
    texts = load_texts(tmp_path / "out")
    assert texts is not None
    assert texts["clip_id"].to_list() == ["c0", "c13"]


def test_pair_as_json_adds_a_second_group_in_place(paired: Path, place: Path, tmp_path: Path) -> None:
    shutil.copytree(paired, tmp_path / "corpus")
    table = tmp_path / "made.csv"
    table.write_text(f"clip_id,path,setting\nc13,{place / 'made' / 'deep' / 'c11.mp4'},image\nc12,gone.mp4,\n")
    asked = ("pair", tmp_path / "corpus", "--generated", table, "--source", "open")
    taken = here(*asked, "--out", tmp_path / "corpus", "--json")
    assert "is the video of the clip 'c11@sora' already" in str(said(taken))

    shutil.copytree(place / "made", tmp_path / "again")
    table.write_text("clip_id,path,setting\nc13,again/deep/c11.mp4,image\nc12,gone.mp4,\n")
    done = here(*asked, "--out", tmp_path / "corpus", "--json")
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert told["groups"] == {"open image": {"test": {"real": 3, "paired": 1, "without": ["c11", "c12"]}}}
    assert (told["clips"], told["generated"], told["missing"]) == (17, 1, ["gone.mp4 (made.csv, line 3: c12)"])
    assert counterparts(load_corpus(tmp_path / "corpus"))["group"].to_list() == ["sora", "sora", "open image"]


def test_pair_that_finds_nothing_says_how_videos_are_called(place: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    asked = ("pair", place / "corpus", "--generated", tmp_path / "made", "--out", tmp_path / "out")
    assert "--source NAME" in str(said(here(*asked)))
    table = ("pair", place / "corpus", "--generated", tmp_path / "made.csv", "--out", tmp_path / "out")
    assert "--setting goes with --source" in str(said(here(*table, "--setting", "text")))
    assert "a video is called after its clip, such as c0.mp4" in str(said(here(*asked, "--source", "sora")))
    shutil.copy(place / "corpus" / "real" / "c.mp4", tmp_path / "made" / "x.mp4")
    error = said(here(*asked, "--source", "sora"))
    assert isinstance(error, UsageError) and str(tmp_path / "made" / "x.mp4") in str(error)
    assert not (tmp_path / "out").exists()


def test_prompts_with_keyframes(place: Path, tmp_path: Path) -> None:
    asked = ("corpus", "prompts", place / "corpus", "--setting", "image", "--split", "test", "--workers", "1")
    done = forked(*asked, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 prompts, each with a keyframe" in done.stdout
    with (tmp_path / "prompts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["clip_id"] for row in rows] == ["c11", "c12", "c13"]
    assert rows[1]["prompt"] == "A ball [red]."
    assert rows[0]["prompt"] == "1+1."
    assert all((tmp_path / row["keyframe"]).is_file() for row in rows)


def test_prompts_that_cannot_be_made_are_listed(paired: Path, tmp_path: Path) -> None:
    """The videos of this corpus lie elsewhere."""
    asked = ("prompts", paired, "--setting", "video", "--split", "test", "--out", tmp_path, "--workers", 1)
    done = here(*asked)
    assert done.exit_code == 3 and "Skipped: 3 clips" in done.stdout
    assert "c11 (real/c.mp4): it cannot be opened" in done.stdout
    listed = json.loads(here(*asked[:3], "text", *asked[4:], "--json").stdout)
    assert (listed["requests"], listed["set_aside"]) == (3, [])
    assert "there are: text, image, video" in str(said(here("prompts", paired, "--setting", "x", "--out", tmp_path)))


def test_mix(paired: Path, tmp_path: Path) -> None:
    asked = ("mix", paired, "--share", 1, "--split", "test", "--paired-only", "--out", tmp_path / "mixed")
    done = here(*asked)
    assert done.exit_code == 0 and "  test: 2 clips, 2 of sora\n" in done.stdout
    assert json.loads(here(*asked, "--json").stdout)["generated"] == {"sora": 2}
    mixed = load_corpus(tmp_path / "mixed")
    assert mixed.clips["clip_id"].to_list()[-2:] == mixed.captions["clip_id"].to_list()[-2:] == ["c11@sora", "c12@sora"]
    texts = load_texts(tmp_path / "mixed")
    assert texts is not None
    assert texts["clip_id"].to_list() == ["c0"]


def test_mix_refuses_what_it_cannot_do(paired: Path, tmp_path: Path) -> None:
    assert "only 2 have a counterpart" in str(said(here("mix", paired, "--share", 0.5, "--out", tmp_path)))
    assert "there are: sora." in str(said(here("mix", paired, "--share", 0, "--group", "sorra", "--out", tmp_path)))
    assert "name another folder" in str(said(here("mix", paired, "--share", 0, "--out", paired)))
    assert list(tmp_path.iterdir()) == []


SOURCE = "clip_id,text,split\na,a man sings,train\nb,a dog runs,train\nc,the rain,val\n"
TARGET = "clip_id,text,split\na,A dog  runs,test\nx,an owl [bold]naps,test\ny,fog,val\n"


@pytest.fixture(scope="module")
def joinable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small corpora, `one` and `other`."""
    joinable = tmp_path_factory.mktemp("domains")
    for name, table in (("one", SOURCE), ("other", TARGET)):
        (joinable / f"{name}.csv").write_text(table)
        run("corpus", "import", "table", joinable / f"{name}.csv", "--out", joinable / name)
    return joinable


def run(*arguments: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "400"})


def join(joinable: Path, *arguments: object) -> Result:
    return run("corpus", "domains", "--source", joinable / "one", "--target", joinable / "other", *arguments)


def test_what_is_printed(joinable: Path, tmp_path: Path) -> None:
    asked = ("corpus", "domains", "--source", str(joinable / "one"), "--target", str(joinable / "other"))
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


def test_what_is_printed_for_a_program(joinable: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = join(joinable, "--out", out, "--source-split", "val", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["splits"] == {"val": {"clips": 1, "captions": 1}, "test": {"clips": 2, "captions": 2}}
    assert (told["source_words"], told["target_words"], told["shared_words"], told["notices"]) == (2, 7, 0, [])
    again = json.loads(join(joinable, "--out", out, "--json").stdout)
    assert again["notices"][-1]["sentence"] == f"What was in {out} is replaced: captions.parquet, clips.parquet."


def test_a_published_pair_says_what_is_missing(joinable: Path, tmp_path: Path) -> None:
    done = join(joinable, "--out", tmp_path / "out", "--name", "video2gif")
    assert done.exit_code == 3
    assert "left out: The split test has 2 clips, that of video2gif has 11,360." in " ".join(done.stdout.split())
    wrong = said(join(joinable, "--out", tmp_path / "no", "--name", "life2movie"))
    assert isinstance(wrong, UsageError) and "'life2movie'; there are: video2gif." in str(wrong)


def test_nothing_is_written_where_something_is_wrong(joinable: Path, tmp_path: Path) -> None:
    assert isinstance(said(join(joinable, "--out", tmp_path / "out", "--target-split", "tset")), CorpusError)
    assert not (tmp_path / "out").exists()
    over = said(join(joinable, "--out", joinable / "one"))
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
    learned = loaded.examples
    assert isinstance(learned, FeatureExamples)
    stored = load_video_features(tmp_path / "of_one", select(source, split="train"))
    assert learned.video_features.ids == stored.ids
    assert np.array_equal(learned.video_features.frames, stored.frames)
    assert loaded.selected is not None
    assert loaded.selected.clips["clip_id"].to_list() == ["source/val_00000_0"]  # found by its path, whatever its id

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
