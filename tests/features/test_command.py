"""`evenreel features` as it is typed: real videos, the built-in encoder, words on screen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageDraw, ImageFont

from evenreel.corpus import load_corpus, save_corpus
from evenreel.features import load_text_features, load_video_features
from evenreel.planted import write_clip
from evenreel.types import Pixels
from tests.features.corpora import corpus_of
from tests.library.videos import write_video

SIGN = "HARBOUR"
CAPTIONS = ["a sign", "a red square"]


def picture_with(text: str) -> Pixels:
    picture = Image.new("RGB", (320, 180), "white")
    ImageDraw.Draw(picture).text((40, 60), text, fill="black", font=ImageFont.load_default(44))
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


def evenreel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "evenreel", *arguments], capture_output=True, text=True, check=False)


def test_a_corpus_is_computed_listed_loaded_and_left_alone(corpus: Path) -> None:
    asked = ["features", str(corpus), "--model", "builtin", "--frames", "4", "--windows", "2", "--workers", "1"]
    first = evenreel(*asked, "--json")
    assert (first.returncode, first.stderr) == (3, "")
    report = json.loads(first.stdout)
    assert (report["computed"], report["frames"], report["texts"]) == (2, 8, 2)
    assert [(aside["clip_id"], aside["reason"]) for aside in report["set_aside"]] == [("t", "not_media")]
    folder = Path(report["folder"])
    assert folder.parent == corpus / "features" and folder.name.startswith("builtin-")

    from evenreel.encoders import load_encoder

    tables, encoder = load_corpus(corpus), load_encoder("builtin", device="cpu")
    videos = load_video_features(folder, tables, leave_out_aside=True)
    assert videos.ids == ("s", "p")
    assert videos.windows is not None and videos.window_mask is not None
    assert videos.window_mask.tolist() == [[True, False], [False, False]]
    said = encoder.encode_text([f"There are scene texts: {SIGN} in this frame."]).sentence[0]
    np.testing.assert_allclose(videos.windows[0, 0], said, atol=1e-3)
    sentences = load_text_features(folder, tables).sentence
    np.testing.assert_allclose(sentences[:2], encoder.encode_text(CAPTIONS).sentence, atol=1e-3)

    again = evenreel(*asked)
    assert again.returncode == 3
    assert "Nothing to do: 2 clips and 2 captions are up to date" in again.stdout
    assert "text.mp4" in again.stdout and "(not_media)" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--frames", "4", "--rule", "every 1 s"], 2, "either --frames or --rule"),
        (["--rule", "sometimes"], 2, "not a sampling rule"),
    ],
)
def test_wrong_usage_says_what_is_right(corpus: Path, arguments: list[str], code: int, words: str) -> None:
    done = evenreel("features", str(corpus), "--model", "builtin", *arguments)
    assert done.returncode == code
    assert words in done.stderr


def test_a_folder_without_a_corpus_fails(tmp_path: Path) -> None:
    done = evenreel("features", str(tmp_path), "--model", "builtin")
    assert done.returncode == 1
    assert "evenreel corpus import" in done.stderr
