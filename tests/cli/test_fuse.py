"""`evenreel fuse` as it is typed: files of scores in, one file out, which evaluation reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import save_corpus
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import load_scores, save_scores
from evenreel.evaluation.saving import write_run
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.cli.test_library_commands import here
from tests.evaluation.small_corpus import corpus_of, scores_of

COUNT = 12
CORPUS = corpus_of(range(COUNT), COUNT)
HELD_OUT = 8


def parts(values: np.ndarray, uses: tuple[str, ...] = ()) -> tuple[Scores, Scores]:
    """The first eight captions and clips, which are for validation, and the last four."""
    whole, about = scores_of(values), ScoreNotes(uses)
    first, last = slice(0, HELD_OUT), slice(HELD_OUT, COUNT)
    return tuple(  # type: ignore[return-value]
        Scores(whole.values[part, part], whole.caption_ids[part], whole.video_ids[part], about)
        for part in (first, last)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus, and the scores of a system that knows the answers and of one that has no idea, of another scale."""
    rng = np.random.default_rng(3)
    save_corpus(CORPUS, tmp_path / "corpus")
    knows = 100 * (np.eye(COUNT) + 0.2 * rng.normal(size=(COUNT, COUNT)))
    for name, values, uses in (("knows", knows, ()), ("guesses", rng.normal(size=(COUNT, COUNT)), ("a bank",))):
        for part, scores in zip(("val", "test"), parts(values, uses), strict=True):
            save_scores(scores, tmp_path / f"{name}_{part}.npz")
    return tmp_path


def fused(folder: Path, *words: str | Path, files: tuple[str, ...] = ("knows_test", "guesses_test")) -> Result:
    named = [folder / f"{name}.npz" for name in files]
    command = ["fuse", *named, *words, *(() if "--out" in words else ("--out", folder / "fused.npz"))]
    return CliRunner().invoke(app, list(map(str, command)))


def read(path: Path, corpus: Corpus = CORPUS) -> Any:
    return load_scores(path, corpus, notice=lambda sentence: None)


def test_two_files_become_one(folder: Path) -> None:
    out = folder / "new" / "fused.npz"
    done = here("fuse", folder / "knows_test.npz", folder / "guesses_test.npz", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    mean, deviation = (f"{getattr(read(folder / 'knows_test.npz').values, one)():.3g}" for one in ("mean", "std"))
    assert f"knows_test.npz: weight 0.500, mean {mean} and deviation {deviation} taken out" in done.stdout
    found = read(out)
    one, two = (read(folder / f"{name}_test.npz").values for name in ("knows", "guesses"))
    expected = 0.5 * (one - one.mean()) / one.std() + 0.5 * (two - two.mean()) / two.std()
    np.testing.assert_allclose(found.values, expected, rtol=1e-5, atol=1e-6)
    assert found.about.uses == ("a bank", "mean and spread of the scores to be ranked")


def test_weights_and_scales_of_a_validation_split(folder: Path) -> None:
    held_out = [word for name in ("knows", "guesses") for word in ("--validation-scores", folder / f"{name}_val.npz")]
    done = fused(folder, *held_out, "--corpus", folder / "corpus", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["uses"] == ["a bank"]
    first, second = said["systems"]
    assert first["weight"] > 0.8
    assert first["weight"] + second["weight"] == pytest.approx(1)
    values = read(folder / "knows_val.npz").values
    assert (first["mean"], first["scale"]) == (pytest.approx(values.mean()), pytest.approx(values.std()))
    unanswered = fused(folder, *held_out)
    assert "Weights are learned from what answers the captions; name the corpus" in str(unanswered.exception)
    weighed = fused(folder, *held_out, "--weight", "0.25", "--weight", "0.75", "--json")
    assert [row["weight"] for row in json.loads(weighed.stdout)["systems"]] == [0.25, 0.75]


def test_a_run_with_gaps_is_fused_by_rank(folder: Path) -> None:
    write_run(read(folder / "guesses_test.npz"), folder / "guesses.run", depth=2)
    every = read(folder / "knows_test.npz")
    save_scores(Scores(every.values, every.caption_ids, every.video_ids), folder / "k.npz")
    part = corpus_of(range(COUNT), COUNT)
    save_corpus(Corpus(part.clips[HELD_OUT:], part.captions[HELD_OUT:]), folder / "last")
    command = ["fuse", folder / "k.npz", folder / "guesses.run", "--corpus", folder / "last", "--out", folder / "f.npz"]
    refused = CliRunner().invoke(app, list(map(str, command)))
    assert isinstance(refused.exception, ScoresError)
    assert "lists that leave pairs out are fused by rank" in str(refused.exception)
    assert CliRunner().invoke(app, [*map(str, command), "--by", "rank"]).exit_code == 0
    found = read(folder / "f.npz")
    assert found.about.uses == ("a bank", "ranks among all clips, for captions' searches alone")
    places = (-every.values).argsort(axis=1).argsort(axis=1) + 1
    guessed = read(folder / "guesses_test.npz").values
    listed = (-guessed).argsort(axis=1).argsort(axis=1) + 1
    expected = 0.5 / (60 + places) + np.where(listed <= 2, 0.5 / (60 + listed), 0)
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)


def test_what_makes_no_sense_is_refused(folder: Path) -> None:
    for words, sentence in (
        (("--out", folder / "fused.npy"), "fused.npy does not end in .npz"),
        (("--by", "mean"), "'mean' is no way to fuse"),
        (("--weight", "0.5"), "There are 1 weights for 2 systems; give one each, or none."),
        (("--weight", "0.5", "--weight", "0.2"), "0.5, 0.2, which add up to 0.7"),
        (("--split", "test"), "name its folder with --corpus"),
        (("--direction", "v2t"), "--direction says whose ranks are fused"),
        (("--by", "rank", "--direction", "both"), "'both' is no direction"),
    ):
        refused = fused(folder, *words).exception
        assert isinstance(refused, UsageError) and sentence in str(refused)
    assert not list(folder.glob("fused*"))


@pytest.mark.parametrize("name", ["knows_test", "knows_val"])
def test_a_file_that_is_read_is_not_written_over(folder: Path, name: str) -> None:
    """However it is named."""
    before = (folder / f"{name}.npz").read_bytes()
    held_out = [word for name in ("knows", "guesses") for word in ("--validation-scores", folder / f"{name}_val.npz")]
    (folder / "link").symlink_to(folder)
    out = folder / "link" / f"{name}.npz"
    refused = fused(folder, *held_out, "--corpus", folder / "corpus", "--out", out)
    assert isinstance(refused.exception, UsageError) and "one of the files to fuse" in str(refused.exception)
    assert (folder / f"{name}.npz").read_bytes() == before


def test_files_that_do_not_go_together_are_refused(folder: Path) -> None:
    held_out = [word for name in ("knows", "guesses") for word in ("--validation-scores", folder / f"{name}_val.npz")]
    np.save(folder / "plain.npy", np.ones((4, 4)))
    both = ("knows_test", "guesses_test")
    for files, words, sentence in (
        (("knows_test",), (), "A fusion needs the scores of two systems or more; 1 is given."),
        (("knows_test", "knows_test"), (), "knows_test.npz is named twice"),
        (("knows_test", "guesses_val"), (), "are not of the same captions: 12 are in one alone"),
        (("knows_test", "gone"), (), f"There is no file {folder}/gone.npz."),
        (("knows_test",), (folder / "plain.npy",), "plain.npy is read by the ids of a corpus"),
        (both, (*held_out, "--by", "sum", "--weight", "0.5", "--weight", "0.5"), "nothing but weights is taken"),
        (both, ("--validation-split", "val", "--corpus", folder / "corpus"), "give these, or leave it out"),
    ):
        assert sentence in str(fused(folder, *words, files=files).exception)
