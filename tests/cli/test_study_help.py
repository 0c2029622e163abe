"""What `evenreel study` says of itself: every study in a line, and of each study its own options alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.cli.study import study
from evenreel.errors import UsageError
from evenreel.papers import STUDIES

COMMON = {"--out", "--split", "--resamples", "--confidence", "--seed", "--json"}
FEATURES, LEARNED, SEEDS = {"--features"}, {"--train-split"}, {"--seeds"}
TRAINING = (
    FEATURES | LEARNED | SEEDS | {"--recipe", "--set", "--start", "--pretrained-features", "--videos", "--device"}
)
MODELS = FEATURES | {"--matcher", "--pretrained-features", "--device"}
RANKINGS = MODELS | {"--scores"}
STREAMS = MODELS | LEARNED | {"--recipe", "--set"}
OWN: dict[str, set[str]] = {
    "ghost/t1": FEATURES | LEARNED | {"--videos"},
    "ghost/f2": FEATURES | LEARNED,
    "ghost/t2": RANKINGS,
    "ghost/gallery": RANKINGS | SEEDS,
    "ghost/f3": TRAINING | {"--group", "--share"},
    "ghost/t4": MODELS | {"--stage", "--frames"},
    "ghost/t6": TRAINING | {"--group"},
    "ghost/t7": TRAINING | {"--group", "--stage", "--frames"},
    "length/t1": TRAINING,
    "length/t7": TRAINING | {"--base"},
    "length/t8": TRAINING | {"--class"},
    "length/samples": TRAINING | {"--tail-classes"},
    "length/f1": RANKINGS | LEARNED | {"--class"},
    "length/f2": LEARNED,
    "length/f5": RANKINGS | LEARNED | {"--query"},
    "bima/t3": TRAINING | {"--other"},
    "bima/maps": MODELS | {"--videos", "--query", "--clip"},
    "tcd/t1": TRAINING | {"--words"},
    "tcd/f1": FEATURES | {"--words"},
    "tcd/f4": MODELS | {"--videos", "--words", "--query"},
    "titan/t1": STREAMS | SEEDS,
    "titan/f5": STREAMS | {"--query"},
    "rerank/depth": RANKINGS | {"--margin"},
}


@pytest.mark.parametrize("name", OWN)
def test_a_study_has_its_own_options_beside_the_common_ones(name: str) -> None:
    command = study("study").commands[name]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options == COMMON | OWN[name]
    assert all(parameter.help for parameter in command.params)


def test_help_names_every_study_and_the_options_of_one() -> None:
    listed = CliRunner().invoke(app, ["study", "--help"], env={"COLUMNS": "160"}).output
    assert all(f" {name} " in listed and one.about.split(":")[0] in listed for name, one in STUDIES.items())
    own = CliRunner().invoke(app, ["study", "rerank/depth", "--help"], env={"COLUMNS": "160"}).output
    assert "--margin" in own and "Points of R@1 that a shortlist may lose." in own and "--share" not in own


def test_help_says_what_holds_where_an_option_is_left_out() -> None:
    for name, option, ending in (
        ("ghost/f3", "--share", r"[default: 0, 0.2, 0.4, 0.6, 0.8]"),
        ("ghost/f3", "--group", r"[default: the only ones]"),
        ("ghost/t1", "--videos", r"[default: that of the corpus]"),
        ("ghost/t2", "--matcher", r"[default: 'mean_pool']"),
        ("bima/maps", "--videos", r"[default: that of the videos that features were made of]"),
        ("length/t7", "--base", r"[default: temporal, wti, x_clip]"),
        ("length/samples", "--tail-classes", r"[default: those that are rare in training]"),
        ("length/f5", "--query", r"[default: those that the study chooses]"),
        ("tcd/f1", "--words", r"[default: those of the last run of 'evenreel features']"),
        ("titan/t1", "--recipe", "How to learn at test time, a file or settings of 'evenreel adapt'."),
    ):
        (found,) = [one for one in study("study").commands[name].params if option in one.opts]
        assert str(found.help).replace("\\[", "[").endswith(ending), (name, option)


def test_no_help_of_a_study_is_in_words_of_python() -> None:
    for name, command in study("study").commands.items():
        texts = [str(one.help) for one in command.params]
        assert not [text for text in texts if "None" in text or "empty:" in text], name


@pytest.mark.parametrize("words", [["--share", "0"], ["--json", "--share=0"], ["--out", "OUT"]])
def test_an_option_before_the_name_of_a_study_is_sent_behind_it(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["study", *words, "ghost/f3", "CORPUS"])
    option = words[-1].partition("=")[0] if "=" in words[-1] else words[-2]
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith(f"{option} stands before the name of a study; give its options behind it")


def test_an_option_of_another_study_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    words = ["study", "rerank/depth", str(tmp_path / "nowhere"), "--out", str(tmp_path), "--share=0.5"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError) and "does not look at --share" in str(done.exception)
