"""What `evenreel study` says of itself: every study in a line, and of each study its own options alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.cli.study import study
from evenreel.errors import UsageError
from evenreel.papers import STUDIES

COMMON = {
    "--out", "--features", "--split", "--train-split", "--videos", "--device", "--resamples", "--confidence", "--seed",
    "--seeds", "--json",
}  # fmt: skip
TRAINING = {"--recipe", "--set", "--start", "--seen"}
MODELS = {"--matcher", "--seen"}
RANKINGS = MODELS | {"--scores"}
OWN: dict[str, set[str]] = {
    "ghost/t1": set(),
    "ghost/t2": RANKINGS,
    "ghost/f3": TRAINING | {"--group", "--share"},
    "ghost/t4": MODELS | {"--stage", "--frames"},
    "ghost/t6": TRAINING | {"--group"},
    "ghost/t7": TRAINING | {"--group", "--stage", "--frames"},
    "length/t1": TRAINING,
    "length/t7": TRAINING | {"--base"},
    "length/t8": TRAINING | {"--class"},
    "length/samples": TRAINING | {"--tail-classes"},
    "length/f1": RANKINGS | {"--class"},
    "length/f2": set(),
    "length/f5": RANKINGS | {"--query"},
    "bima/t3": TRAINING | {"--other"},
    "bima/maps": MODELS | {"--query", "--clip"},
    "tcd/t1": TRAINING | {"--words"},
    "tcd/f1": {"--words"},
    "tcd/f4": MODELS | {"--words", "--query"},
    "titan/t1": MODELS | {"--recipe", "--set"},
    "titan/f5": MODELS | {"--recipe", "--set", "--query"},
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


def test_an_option_of_another_study_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    words = ["study", "rerank/depth", str(tmp_path / "nowhere"), "--out", str(tmp_path), "--share=0.5"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "The study rerank/depth does not look at --share: leave that out."
