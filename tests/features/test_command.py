"""`evenreel features` as it is typed: real videos, the built-in encoder, words on screen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import Result
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus, save_texts
from evenreel.corpus.on_screen import make_texts
from evenreel.errors import UsageError
from evenreel.features import load_text_features, load_video_features, read_manifest
from evenreel.planted import write_clip
from evenreel.types import Pixels
from tests.features.corpora import corpus_of
from tests.library.videos import write_video

SIGN = "HARBOUR"
CAPTIONS = ["a sign", "a red square"]


def picture_with(text: str) -> Pixels:
    picture = Image.new("RGB", (160, 96), "white")
    ImageDraw.Draw(picture).text((16, 36), text, fill="black", font=ImageFont.load_default(26))
    return np.asarray(picture)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sign that is shown in the first half of a clip, and a clip that is no video."""
    folder = tmp_path_factory.mktemp("corpus")
    pictures = [picture_with(SIGN if number < 10 else "") for number in range(20)]
    write_clip(folder / "sign.mp4", iter(pictures), 5)
    write_video(folder / "plain.mp4", 3)
    (folder / "text.mp4").write_text("not a video")
    clips = pl.DataFrame({"clip_id": ["s", "p", "t"], "path": ["sign.mp4", "plain.mp4", "text.mp4"]})
    save_corpus(corpus_of(clips, CAPTIONS), folder)
    return folder


def here(*arguments: str) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, arguments)


def test_a_corpus_is_computed_listed_loaded_and_left_alone(corpus: Path) -> None:
    asked = ["features", str(corpus), "--model", "builtin", "--frames", "2", "--windows", "2", "--workers", "1"]
    first = here(*asked, "--json")
    assert (first.exit_code, first.stderr) == (3, ""), first.output
    report = json.loads(first.stdout)
    assert (report["computed"], report["frames"], report["texts"]) == (2, 4, 2)
    assert [(aside["clip_id"], aside["reason"]) for aside in report["set_aside"]] == [("t", "not_media")]
    folder = Path(report["folder"])
    assert folder.parent == corpus / "features" and folder.name.startswith("builtin-")

    from evenreel.encoders import load_encoder

    tables, encoder = load_corpus(corpus), load_encoder("builtin", device="cpu")
    videos = load_video_features(folder, tables, leave_out_aside=True)
    assert videos.ids == ("s", "p")
    assert videos.on_screen is not None
    assert videos.on_screen.mask.tolist() == [[True, False], [False, False]]
    said = encoder.encode_text([f"There are scene texts: {SIGN} in this frame."]).sentence[0]
    np.testing.assert_allclose(videos.on_screen.windows[0, 0], said, atol=1e-3)
    sentences = load_text_features(folder, tables).sentence
    np.testing.assert_allclose(sentences[:2], encoder.encode_text(CAPTIONS).sentence, atol=1e-3)

    again = here(*asked)
    assert again.exit_code == 3
    assert "Nothing to do: 2 clips and 2 captions are up to date" in again.stdout
    assert "text.mp4" in again.stdout and "(not_media)" in again.stdout


def test_words_of_the_corpus_take_the_place_of_ocr(corpus: Path, tmp_path: Path) -> None:
    asked = ["features", str(corpus), "--model", "builtin", "--frames", "2", "--windows", "2", "--workers", "1"]
    asked += ["--words", "corpus", "--precision", "bfloat16", "--device", "cpu", "--out", str(tmp_path / "out")]
    refused = here(*asked)
    assert isinstance(refused.exception, UsageError)
    assert "ships no words on screen; leave --words out" in str(refused.exception)
    save_texts(make_texts([{"clip_id": "s", "text": SIGN, "start_frame": 10, "end_frame": 19}]), corpus)
    try:
        done = here(*asked)
    finally:
        save_texts(None, corpus)
    assert done.exit_code == 3, done.output
    videos = load_video_features(tmp_path / "out", load_corpus(corpus), leave_out_aside=True)
    assert videos.on_screen is not None and videos.on_screen.mask.tolist() == [[False, True], [False, False]]
    assert read_manifest(tmp_path / "out").precision == "bfloat16"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--frames", "4", "--rule", "every 1 s"], "either --frames or --rule"),
        (["--rule", "sometimes"], "not a sampling rule"),
        (["--no-ocr", "--words", "corpus"], "Leave --no-ocr out"),
    ],
)
def test_wrong_usage_says_what_is_right(corpus: Path, arguments: list[str], words: str) -> None:
    done = here("features", str(corpus), "--model", "builtin", *arguments)
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)


def test_a_folder_without_a_corpus_fails(tmp_path: Path) -> None:
    done = here("features", str(tmp_path), "--model", "builtin")
    assert "evenreel corpus import" in str(done.exception)
