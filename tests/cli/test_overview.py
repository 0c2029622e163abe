"""`evenreel corpus overview` and `equalise` as they are typed, on a few rendered clips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus
from evenreel.errors import FeaturesError, UsageError
from evenreel.features import FeatureSettings, compute_features
from tests.cli.test_library_commands import forked
from tests.features.mirrors import write_mirrors
from tests.features.pixel_encoder import PixelEncoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirrors")
    save_corpus(write_mirrors(folder), folder)
    return folder


def test_overview_and_equalise_in_a_shell(folder: Path, tmp_path: Path) -> None:
    done = forked("corpus", "overview", folder, "--keep-facts", "--workers", "1")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("4 real clips and 3 generated: 3 of sora.\n")
    assert "camera, (none): 4 clips\n  frames a second 20, seconds 2.25 (1 to 3)\n  picture 96 x 64" in done.stdout
    assert "bad (bad.mp4): its content is not a video" in done.stdout
    assert load_corpus(folder).clips["codec"].to_list() == ["h264"] * 3 + ["mpeg4"] * 2 + [None, "h264"]
    done = forked("corpus", "equalise", folder, "--out", tmp_path / "out", "--fps", "5", "--workers", "1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "6 clips encoded in" in done.stdout
    assert "H.264, 5 frames a second, 96 x 48 (pad)" in done.stdout
    assert "camera 100 %, sora 0 % of the clips have some" in done.stdout
    assert load_corpus(tmp_path / "out").clips.height == 6


def test_json_page_and_similarity(folder: Path, tmp_path: Path) -> None:
    corpus = load_corpus(folder)
    settings = FeatureSettings(rule="10 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(corpus, tmp_path / "features", PixelEncoder(), settings)
    words = ["corpus", "overview", folder, "--features", tmp_path / "features", "--report", tmp_path / "page.html"]
    done = CliRunner().invoke(app, [*map(str, words), "--json", "--workers", "1"])
    assert done.exit_code == 3, done.output
    found = json.loads(done.stdout)
    assert [(one["group"], one["clips"], one["pairs"]) for one in found["groups"]] == [("camera", 4, 0), ("sora", 3, 2)]
    assert 0.5 < found["similarity"]["sora"]["value"] <= 1
    assert [one["clip_id"] for one in found["set_aside"]] == ["bad"]
    assert not any("Similarity is of frames" in notice for notice in found["notices"])
    assert "chart-0" in (tmp_path / "page.html").read_text()
    compute_features(
        corpus, tmp_path / "features", PixelEncoder(), FeatureSettings("3 midpoints", False, videos=folder)
    )
    done = CliRunner().invoke(app, [*map(str, words[:5]), "--workers", "1"])
    assert "Similarity is of frames by '3 midpoints'; the paper's is of '10 midpoints'." in done.output


def test_what_cannot_be_is_told_before_work_begins(folder: Path, tmp_path: Path) -> None:
    def failure(*words: str | Path) -> BaseException | None:
        return CliRunner().invoke(app, ["corpus", *map(str, words)]).exception

    assert isinstance(failure("overview", folder, "--features", tmp_path), FeaturesError)
    assert isinstance(failure("equalise", folder, "--out", tmp_path, "--fit", "stretch"), UsageError)
