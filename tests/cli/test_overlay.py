"""The audit `overlay` as it is typed, from clips to the sentence: on planted clips, and words laid over given ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, save_texts
from evenreel.corpus.on_screen import make_texts
from evenreel.errors import UsageError
from evenreel.features import find_clips
from evenreel.features.signs import sign_texts
from evenreel.media import open_sound
from evenreel.planted import write_clip
from evenreel.speech import VOICES, can_speak, speak_text
from evenreel.types import FloatArray
from tests.cli.test_library_commands import here

EDITS = {"clean": (), "overlay": ("--edit", "overlay"), "control": ("--edit", "overlay-control")}
SHOWN = {"a": "BAKERY", "b": "LIBRARY", "c": "STATION"}
CAPTIONS = {"a": "bread is sold", "b": "books are lent", "c": "trains arrive"}


def done(*words: str | Path) -> str:
    """What a command prints that goes well."""
    run = here(*words)
    assert (run.returncode, run.stderr) == (0, ""), run
    return run.stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Planted clips, plain, with misleading signs and with signs that say nothing, and their scores by two systems."""
    place = tmp_path_factory.mktemp("planted")
    for name, edit in EDITS.items():
        corpus, made = place / name, place / f"{name}-features"
        done("planted", "scene_text", "--strength", "1", "--clips", "40", "--workers", "1", *edit, "--out", corpus)
        reading = ("--words", "corpus", "--rule", "2 midpoints", "--workers", "1", "--out", made)
        done("features", corpus, "--model", "builtin", *reading)
        for system in ("bm25", "mean_pool"):
            out = place / f"{system}-{name}.npz"
            done("score", system, corpus, "--split", "test", "--features", made, "--out", out)
    return place


def audit(place: Path, system: str) -> dict[str, Any]:
    of = {name: place / f"{system}-{name}.npz" for name in EDITS}
    edited = ("--edited", f"overlay={of['overlay']}", "--edited", f"control={of['control']}")
    words = ("audit", "overlay", "--scores", of["clean"], *edited, "--corpus", place / "overlay", "--json")
    (found,) = json.loads(done(*words, "--resamples", "50"))["audits"]
    return dict(found)


def test_what_reads_follows_misleading_words_and_what_sees_alone_does_not(planted: Path) -> None:
    reads, sees = audit(planted, "bm25"), audit(planted, "mean_pool")
    assert reads["effect"]["value"] > 1.0 and reads["effect"]["low"] > 0.5
    assert abs(sees["effect"]["value"]) < 0.1
    assert "a wrong clip that carries words of the caption's clip rises by" in reads["sentence"]
    clean, control = (np.load(planted / f"bm25-{name}.npz")["values"] for name in ("clean", "control"))
    assert np.argsort(clean, axis=1, kind="stable").tolist() == np.argsort(control, axis=1, kind="stable").tolist()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of three short grey clips, of two of which it says what is on their screens."""
    place = tmp_path_factory.mktemp("given")
    for number, name in enumerate(SHOWN):
        still = np.full((240, 320, 3), 90 + 30 * number, np.uint8)
        write_clip(place / f"{name}.mp4", [still] * 4, fps=4)
    clips = pl.DataFrame({"clip_id": [*SHOWN], "path": [f"{name}.mp4" for name in SHOWN]})
    said = {"caption_id": [*SHOWN], "clip_id": [*SHOWN], "text": [*CAPTIONS.values()]}
    save_corpus(make_corpus(clips, pl.DataFrame(said)), place)
    rows = [{"clip_id": name, "text": text, "start_frame": 0} for name, text in SHOWN.items() if name != "c"]
    save_texts(make_texts(rows), place)
    return place


def test_words_that_are_written_on_clips_are_read_there(given: Path, tmp_path: Path) -> None:
    read: dict[str, dict[str, str]] = {}
    for name in ("overlay", "overlay-control"):
        command = ("corpus", "edit", given, "--edit", name, "--out", tmp_path / name)
        output = done(*command)
        assert "2 of 3 clips carry what is on another clip's screen, 1 another clip's first caption." in output
        assert not (tmp_path / name / "texts.parquet").exists()
        again = json.loads(done(*command, "--json"))
        assert (again["written"], again["unchanged"], len(again["notices"])) == (0, 3, 2)
        made = tmp_path / f"{name}-features"
        done("features", tmp_path / name, "--model", "builtin", "--rule", "1 midpoint", "--workers", "1", "--out", made)
        signs, _ = sign_texts(find_clips(made, load_corpus(tmp_path / name)))
        read[name] = {clip: " ".join(texts).casefold() for clip, texts in signs.items()}
    distractors = dict(load_corpus(tmp_path / "overlay").clips.select("clip_id", "overlay_of").iter_rows())
    lent = {"a": "bakery", "b": "library", "c": CAPTIONS["c"]}
    assert sorted(distractors.values()) == sorted(SHOWN) and all(own != other for own, other in distractors.items())
    assert read["overlay"] == {clip: lent[other] for clip, other in distractors.items()}
    for clip, letters in read["overlay-control"].items():
        assert letters and letters != read["overlay"][clip] and not set(letters) & set("aeiou")
    assert "overlay_of" not in load_corpus(tmp_path / "overlay-control").clips.columns


@pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")
def test_words_are_said_over_clips(given: Path, tmp_path: Path) -> None:
    heard: dict[str, dict[str, FloatArray]] = {}
    for name in ("voiceover", "voiceover-control"):
        output = done("corpus", "edit", given, "--edit", name, "--out", tmp_path / name)
        assert "Over 3 clips a voice says another clip's first caption, as far as the clip is long enough." in output
        heard[name] = {}
        for clip, path in load_corpus(tmp_path / name).clips.select("clip_id", "path").iter_rows():
            with open_sound(tmp_path / name / path) as sound:
                heard[name][clip] = np.concatenate([block.samples for block in sound.blocks()])
    distractors = dict(load_corpus(tmp_path / "voiceover").clips.select("clip_id", "voiceover_of").iter_rows())
    assert sorted(distractors.values()) == sorted(SHOWN) and all(own != other for own, other in distractors.items())
    assert "voiceover_of" not in load_corpus(tmp_path / "voiceover-control").clips.columns
    for clip, sound in heard["voiceover"].items():
        assert (np.abs(sound) > 0.02).mean() > 0.2
        said = [speak_text(CAPTIONS[distractors[clip]], voice) for voice in VOICES]
        assert max(alike(sound, one) for one in said) > 0.9
        assert max(alike(heard["voiceover-control"][clip], one) for one in said) < 0.7


def alike(sound: FloatArray, spoken: FloatArray) -> float:
    """How alike two sounds are in how loud they are over the time, hundredths of a second, from -1 to 1."""
    length = min(len(sound), len(spoken)) // 160 * 160
    loud = [np.abs(one[:length]).reshape(-1, 160).mean(axis=1) for one in (sound, spoken)]
    return float(np.corrcoef(*loud)[0, 1])


def test_what_is_wrong_is_said_before_a_clip_is_read(given: Path, tmp_path: Path) -> None:
    for words, sentence in {
        (): "Say what becomes of the clips: --remove background",
        ("--remove", "motion", "--edit", "overlay"): "and not both",
        ("--edit", "sticker"): "there are: overlay, overlay-control, voiceover, voiceover-control",
        ("--edit", "voiceover", "--place", "kitchen"): "leave --place out",
        ("--edit", "overlay", "--control"): "the control of --edit overlay is overlay-control",
        ("--edit", "overlay", "--share", "0.5", "--device", "cpu"): "With --edit, leave --share and --device out",
        ("--edit", "overlay-control", "--model", "builtin", "--tagger", "spacy"): "leave --model and --tagger out",
    }.items():
        refused = CliRunner().invoke(app, ["corpus", "edit", str(given), "--out", str(tmp_path / "new"), *words])
        assert isinstance(refused.exception, UsageError) and sentence in str(refused.exception)
    assert not (tmp_path / "new").exists()
