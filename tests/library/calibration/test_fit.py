"""A calibration fitted on captions says what is so; the command fits one and says no where it cannot."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.errors import LibraryError, UsageError
from evenreel.library import Library as OpenedLibrary
from evenreel.library.calibrating import calibrate_library
from evenreel.library.calibration.fit import RIDGE, CalibrationSettings, _AskedLibraries, _fit
from evenreel.library.calibration.rule import logistic
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from tests.library.fakes import Library, WordsEncoder, on_disk

COLOURS = ("red", "blue", "green", "black", "white", "brown", "grey", "pink", "gold", "teal", "beige", "cyan")
THINGS = ("bus", "dog", "cat", "boat", "tree", "house", "car", "horse", "bridge", "tower", "lake", "shop")


def labelled(folder: Path, *, captions: bool = True, clips: int = 144) -> Library:
    """Clips of a coloured thing each, between frames of other words."""
    made = on_disk(folder)
    for number in range(clips):
        caption = f"{COLOURS[number % 12]} {THINGS[number // 12]}"
        made.add_clip(f"c{number}", [f"{caption} noise{number}", f"street{number} sky"])
        made.add_file(f"/v/{number}.mp4", f"c{number}", {"caption": caption} if captions else None)
    rebuild_full_text(made.connection)
    update_null_scores(made.connection, made.vectors, made.encoder)
    return made


def calibrated(folder: Path) -> None:
    with OpenedLibrary(folder, encoder=WordsEncoder()) as opened:
        calibrate_library(opened, folder, CalibrationSettings(libraries=6, queries=12))


def test_a_fitted_library_tells_what_is_there_from_what_is_not(tmp_path: Path) -> None:
    labelled(tmp_path)
    calibrated(tmp_path)
    with OpenedLibrary(tmp_path, encoder=WordsEncoder()) as opened:
        there = [opened.search(f"{colour} {thing}", k=3) for colour, thing in zip(COLOURS, THINGS, strict=True)]
        absent = [opened.search(f"{colour} lamp", k=3) for colour in COLOURS]
    told = [found.probability for found in (*there, *absent)]
    assert None not in told
    assert min(told[:12]) > 0.8  # type: ignore[type-var,operator]
    assert max(told[12:]) < 0.2  # type: ignore[type-var,operator]
    assert all(found.hits[0].probability > 0.5 for found in there)  # type: ignore[operator]
    assert {found.state for found in absent} == {"nothing"}
    assert there[0].calibration == "144 queries to 144 clips, in libraries of 5 to 115"
    with OpenedLibrary(tmp_path, encoder=WordsEncoder()) as opened:
        assert opened.search("!!!", k=3).state == "nothing"


def test_a_caption_without_words_is_one_of_the_captions(tmp_path: Path) -> None:
    made = labelled(tmp_path)
    made.add_clip("smile", ["smile"])
    made.add_file("/v/smile.mp4", "smile", {"caption": ":-)"})
    update_null_scores(made.connection, made.vectors, made.encoder)
    calibrated(tmp_path)
    with OpenedLibrary(tmp_path, encoder=WordsEncoder()) as opened:
        assert opened.search("red bus").calibration == "145 queries to 145 clips, in libraries of 5 to 116"


def test_the_regression_is_the_minimum_of_its_loss() -> None:
    random = np.random.default_rng(4)
    rows = random.normal(size=(300, 3)) * [1, 5, 0.2] + 2
    right = random.random(300) < logistic(rows @ [1.0, -0.3, 2.0] - 1)
    weights = np.repeat([1 / 200, 1 / 400], [100, 200])
    found = _fit(rows, right, weights)
    scaled = (rows - rows.mean(0)) / rows.std(0)

    def loss(weights: np.ndarray) -> float:
        odds = weights[0] + scaled @ weights[1:]
        each = np.logaddexp(0, odds) - right * odds
        return float((each[:100].mean() + each[100:].mean()) / 2 + RIDGE * (weights[1:] ** 2).sum())

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(found.log_odds(rows), best[0] + scaled @ best[1:], atol=1e-4)


@given(st.lists(st.tuples(st.sampled_from([5, 50]), st.sampled_from(["", "pair"]), st.booleans()), min_size=1))
def test_sizes_kinds_and_answers_weigh_equally(asked: list[tuple[int, str, bool]]) -> None:
    sizes, kinds, answered = (np.array(column) for column in zip(*asked, strict=True))
    weights = _AskedLibraries([], [], answered, answered, sizes, kinds).weights
    total: dict[tuple[int, str, bool], float] = defaultdict(float)
    for group, weight in zip(asked, weights.tolist(), strict=True):
        total[group] += weight
    assert total == {group: pytest.approx(1 / len(total)) for group in total}


def test_without_captions_it_is_refused(tmp_path: Path) -> None:
    labelled(tmp_path, captions=False)
    with pytest.raises(UsageError, match="144 clips with frames and 0 different captions of them; a calibration needs"):
        calibrated(tmp_path)


def test_a_library_of_another_model_is_refused(tmp_path: Path) -> None:
    labelled(tmp_path / "labelled", clips=12)
    other = labelled(tmp_path / "other", clips=12)
    set_meta(other.connection, {"weights_hash": "words-2", "model": "more words"})
    refused = pytest.raises(LibraryError, match="was made with more words, and .* a calibration holds for one model")
    with OpenedLibrary(tmp_path / "labelled", encoder=WordsEncoder()) as opened, refused:
        calibrate_library(opened, tmp_path / "other")


def test_the_command_fits_and_says_what_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path)
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: WordsEncoder())
    done = CliRunner().invoke(app, ["calibrate", "--library", str(tmp_path), "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert (told["model"], told["fewest_clips"], told["most_clips"]) == ("words", 5, 149)
    search = ["search", "--library", str(tmp_path)]
    unseen = CliRunner().invoke(app, [*search, "zebra"], catch_exceptions=False).stdout
    assert "% likely that something here shows it, by what is seen." in unseen
    assert "There is no calibration" not in unseen
    by_caption = CliRunner().invoke(app, [*search, "a red bus"], catch_exceptions=False).stdout
    assert "fits" in by_caption and "likely" not in by_caption  # that it is there is said by its caption


def test_without_a_calibration_the_command_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path, clips=12)
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: WordsEncoder())
    found = CliRunner().invoke(app, ["search", "a red bus", "--library", str(tmp_path)], catch_exceptions=False)
    assert "There is no calibration for this model" in found.stdout
    assert "%" not in found.stdout
