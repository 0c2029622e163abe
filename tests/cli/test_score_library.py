"""A library's search scored as it is typed, and audited for following what is said over the wrong clips."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import UsageError
from evenreel.language.scramble import babbled
from tests.cli.test_library_commands import here
from tests.library.index.test_subtitles import say


def done(*words: str | Path) -> str:
    run = here(*words)
    assert (run.returncode, run.stderr) == (0, ""), run
    return run.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve planted clips; a library of them without subtitles, with another clip's captions, with syllables."""
    place = tmp_path_factory.mktemp("place")
    done("planted", "visual", "--strength", "0", "--clips", "40", "--workers", "1", "--out", place / "whole")
    corpus = load_corpus(place / "whole")
    test = corpus.clips.filter(pl.col("split") == "test")
    shifted = [*test["clip_id"][5:], *test["clip_id"][:5]]
    marked = test.with_columns(path="clips/" + pl.col("clip_id") + ".mp4", voiceover_of=pl.Series(shifted))
    captions = corpus.captions.filter(pl.col("clip_id").is_in(test["clip_id"].implode()))
    (place / "clips").mkdir()
    save_corpus(make_corpus(marked, captions), place)
    first = dict(captions.select("clip_id", "text").reverse().iter_rows())
    random = np.random.default_rng(0)
    for name in test["clip_id"]:
        (place / "whole" / "clips" / f"{name}.mp4").rename(place / "clips" / f"{name}.mp4")
    for name in ("clean", "voiceover", "control"):
        for clip, lender in zip(test["clip_id"], shifted, strict=True):
            if name != "clean":
                text = first[lender] if name == "voiceover" else babbled(first[lender], random)
                say(place / "clips" / f"{clip}.srt", text)
        sampled = ("--sample", "2 midpoints", "--model", "builtin", "--device", "cpu", "--no-ocr", "--no-stills")
        done("index", place / "clips", "--library", place / "library", *sampled)
        done("score", place / "library", place, "--device", "cpu", "--out", place / f"{name}.npz")
    return place


def test_the_search_of_a_library_is_measured_as_any_system(place: Path) -> None:
    out = place / "again.npz"
    found = json.loads(done("score", place / "library", place, "--device", "cpu", "--out", out, "--json"))
    assert (found["captions"], found["clips"], found["uses"]) == (24, 12, ["word counts of the gallery"])
    assert "R@1" in done("evaluate", place / "clean.npz", "--corpus", place, "--json", "--resamples", "0")


def test_what_is_said_over_the_wrong_clips_leads_the_search_astray(place: Path) -> None:
    edited = ("--edited", f"voiceover={place / 'voiceover.npz'}", "--edited", f"control={place / 'control.npz'}")
    words = ("audit", "overlay", "--scores", place / "clean.npz", *edited, "--corpus", place, "--json")
    (found,) = json.loads(done(*words))["audits"]
    effect = found["effect"]
    assert effect["value"] > 0.5 and effect["low"] > 0.2
    assert "a wrong clip that says words of the caption's clip rises by" in found["sentence"]
    rises = found["tables"][0]
    control = dict(zip(rises["columns"], rises["rows"][1], strict=True))
    assert abs(control["rises by, places"]) < 0.5, "syllables say nothing"


def test_what_a_library_has_no_use_for_is_refused_before_anything_is_read(place: Path, tmp_path: Path) -> None:
    library = str(place / "library")
    for words, sentence in {
        (library, "--features", "here"): "A library has its own vectors; leave --features and",
        (library, "--frame-order", "random"): "The search of a library is scored as it is",
        (library, "--alpha", "0.5"): "The search of a library is scored as it is",
        (library, "--words", "ocr"): "--words is for bm25 and windows",
        ("mean_pool",): "reads features; name their folder with --features",
        ("bm25",): "reads features; name their folder with --features",
    }.items():
        command = ["score", words[0], str(place), *words[1:], "--out", str(tmp_path / "s.npz")]
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, UsageError) and sentence in str(refused.exception), words
    plain = CliRunner().invoke(app, ["score", library, str(place), "--out", str(tmp_path / "s.npy")])
    assert isinstance(plain.exception, UsageError) and "let --out end in .npz" in str(plain.exception)


def test_clips_that_the_library_lacks_are_set_aside(place: Path, tmp_path: Path) -> None:
    corpus = load_corpus(place)
    clips = corpus.clips.with_columns(
        path=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("no.mp4")).otherwise("path")
    )
    save_corpus(make_corpus(clips, corpus.captions), tmp_path)
    run = here("score", place / "library", tmp_path, "--device", "cpu", "--out", tmp_path / "s.npz")
    assert run.returncode == 3 and "no.mp4): the library does not have its file" in run.stdout
