"""`evenreel planted` as it is typed."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.planted import folder, plan_corpus
from evenreel.planted.folder import world_of


def here(*arguments: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, ["planted", *map(str, arguments)])


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


def test_it_writes_a_corpus_and_goes_on_with_a_broken_off_one(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    asked = ("length", "--strength", 1, "--clips", 10, "--seed", 3, "--short", 0.5, 0.6, "--long", 0.9, 1.0)
    done = here(*asked, "--out", first)
    assert "10 clips, 20 captions." in done.stdout
    corpus = load_corpus(first)
    train = corpus.clips.filter(pl.col("split") == "train")
    assert train["follows"].all()
    assert corpus.clips["end_s"].is_between(0.4, 1.1).all()
    assert corpus.clips["clip_id"].to_list() == [clip.clip_id for clip in plan_corpus("length", 1, 10, 3).clips]

    assert here(*asked, "--out", second, "--workers", 1).exit_code == 0
    assert digests(first) == digests(second)
    (first / "clips" / "test_00001_0.mp4").unlink()
    again = here(*asked, "--out", first)
    assert "10 clips (1 rendered now)" in again.stdout
    assert digests(first) == digests(second)


def test_it_says_whether_the_bias_was_admitted_as_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, broken = tmp_path / "admission.json", ["the bias costs"]
    monkeypatch.setattr(folder, "SHIPPED", shipped)
    entry = {"bias": "visual", "strength": 1.0, "world": world_of("visual", 1.0), "clips": 1_500, "steps": 500}
    figures = {"means": {"oracle": 90.0}, "rules": {"the bias costs": "3.0 [1.0, 5.0]"}, "broken": broken}
    shipped.write_text(json.dumps([{**entry, "seeds": [10, 11], **figures}]), encoding="utf-8")
    asked = ("visual", "--clips", 10, "--workers", 1, "--out")
    said = here(*asked, tmp_path / "one", "--strength", 1).stdout.replace("\n", " ")
    assert "Admitted as a benchmark: no (at strength 1, seeds 10, 11)" in said
    assert said.rstrip().endswith("the bias costs (3.0 [1.0, 5.0]).")
    assert "benchmark: not measured" in here(*asked, tmp_path / "two", "--strength", 0.9).stdout
    found = json.loads(here(*asked, tmp_path / "one", "--strength", 1, "--json").stdout)
    assert (found["admitted"], found["admission"]["broken"]) == (False, broken)
    assert (found["bias"], found["strength"], found["rendered"]) == ("visual", 1.0, 0)


def test_signs_follow_each_other(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    asked = ("scene_text", "--clips", 48, "--signs", 3, "--workers", 1, "--out", out, "--json")
    assert json.loads(here(*asked).stdout)["settings"]["signs"] == 3
    texts, clips = pl.read_parquet(out / "texts.parquet"), pl.read_parquet(out / "clips.parquet")
    assert texts.group_by("clip_id").len()["len"].to_list() == [3] * clips.height
    named = dict(zip(clips["clip_id"], clips["word"], strict=True))
    assert texts.filter(pl.col("text") == pl.col("clip_id").replace_strict(named)).height == clips.height


@pytest.mark.slow
def test_settings_of_a_harder_world_are_on_the_page(tmp_path: Path) -> None:
    asked = ("--signs", 3, "--misread", 0.3, "--traced-signs", "--clips", 40, "--workers", 1, "--json")
    page = json.loads(here("scene_text", *asked, "--out", tmp_path / "signs").stdout)
    assert (page["settings"]["misread"], page["settings"]["traced_signs"]) == (0.3, True)
    assert pl.read_parquet(tmp_path / "signs" / "texts.parquet")["text"].n_unique() > 20
    for asked, name in (
        (("textual", "--new-annotators"), "new_annotators"),
        (("source", "--mirror-tint", 1), "mirror_tint"),
        (("visual", "--difficulty", "hard"), "difficulty"),
    ):
        page = json.loads(here(*asked, "--clips", 10, "--workers", 1, "--out", tmp_path / name, "--json").stdout)
        assert page["settings"][name] == 1


def test_wrong_arguments_get_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    for arguments, sentence in {
        ("lenth",): "no bias is called 'lenth'",
        ("visual", "--strength", 1.5): "between 0 (nothing planted) and 1",
        ("visual", "--clips", 3): "ask for more clips",
        ("visual", "--short", 1, 2): "--short and --long are lengths of the bias 'length'",
        ("length", "--signs", 2): "--signs is of the bias 'scene_text', not of 'length'",
        ("visual", "--difficulty", "soft"): "--difficulty is hard or a number from 0 to 1; it was 'soft'",
        ("visual", "--difficulty", 2): "difficulty is between 0",
        ("textual", "--difficulty", "hard"): "difficulty is a setting of the bias 'visual', not of 'textual'",
        ("scene_text", "--signs", 9): "at most 5 signs",
        ("length", "--short", 3, 1): "--short is 3 1; give the shortest and the longest clip, in that order",
        ("length", "--long", 5, 31): "between 0.5 and 30 seconds",
        ("length", "--short", 3, 6): "up to 6 s and long ones from 5 s cannot be told apart",
    }.items():
        error = here(*arguments, "--out", out).exception
        assert isinstance(error, UsageError) and sentence in str(error)
    assert not out.exists()


def test_a_folder_of_another_corpus_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "captions.parquet").write_text("dear to somebody")
    error = here("visual", "--clips", 10, "--out", tmp_path).exception
    assert isinstance(error, CorpusError) and "holds a corpus already" in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["captions.parquet"]
