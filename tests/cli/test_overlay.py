"""`evenreel corpus edit`, `overview` and `equalise`, and the audit `overlay` as they are typed, from clips on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, save_texts
from evenreel.corpus.on_screen import make_texts
from evenreel.encoders import load_encoder
from evenreel.errors import FeaturesError, UsageError
from evenreel.features import FeatureSettings, compute_features, find_clips
from evenreel.features.on_screen import sign_texts
from evenreel.media import open_sound, open_video, parse_rule
from evenreel.planted import write_clip, write_scene
from evenreel.planted.scenes import Entity, SceneRanges, sample_scene
from evenreel.speech import VOICES, can_speak, speak_text
from evenreel.types import Encoder, FloatArray
from tests.cli.test_library_commands import here
from tests.features.mirrors import write_mirrors
from tests.features.pixel_encoder import PixelEncoder

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


@pytest.mark.slow
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
        ("--remove", "sky"): "'sky' cannot be taken out of clips",
        ("--remove", "background"): "Say in words what backgrounds are",
        ("--remove", "motion", "--place", "kitchen"): "leave the phrases for places out",
        ("--remove", "entity", "--share", "2"): "is above 0 and at most 1",
        ("--remove", "motion", "--tagger", "nltk"): "There is no tagger 'nltk'",
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


CIRCLES = 6


@pytest.fixture(scope="module")
def brightening(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of a clip that brightens, and of one that is no video."""
    place = tmp_path_factory.mktemp("edit")
    write_clip(place / "a.mp4", [np.full((32, 48, 3), 40 * number, np.uint8) for number in range(5)], fps=5)
    (place / "b.mp4").write_bytes(b"this is no video")
    clips = pl.DataFrame({"clip_id": ["a", "b"], "path": ["a.mp4", "b.mp4"], "split": ["test", "train"]})
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a wall", "a wall"]})
    save_corpus(make_corpus(clips, captions), place)
    return place


def test_clips_are_written_and_what_is_no_video_is_set_aside(brightening: Path, tmp_path: Path) -> None:
    words = ("corpus", "edit", brightening, "--remove", "motion", "--out", tmp_path / "still")
    made = here(*words)
    assert (made.returncode, made.stderr) == (3, "") and "Skipped: 1 clip" in made.stdout
    assert load_corpus(tmp_path / "still").clips.select("clip_id", "frame_count", "fps").rows() == [("a", 4, 4.0)]
    again = CliRunner().invoke(app, [*map(str, words), "--split", "test", "--json"])
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert (found["written"], found["unchanged"], found["set_aside"]) == (0, 1, [])


def test_the_built_in_encoder_takes_what_captions_name_out_of_files(tmp_path: Path) -> None:
    """The mean score of a caption falls when its circle goes, and less when as much goes elsewhere."""
    encoder = load_encoder("builtin", device="cpu")
    red_circle = encoder.encode_text(["a red circle"]).sentence[0]
    circles(tmp_path / "clean")
    corpora = {"clean": tmp_path / "clean"}
    for name, more in {"gone": (), "control": ("--control",)}.items():
        corpora[name] = tmp_path / name
        words = ("--remove", "entity", "--place", "a meadow", "--share", "0.2", "--out", corpora[name], "--json", *more)
        made = done("corpus", "edit", tmp_path / "clean", "--model", "builtin", "--tagger", "pattern", *words)
        assert json.loads(made)["written"] == CIRCLES
    clean, gone, control = (float(np.mean(seen(folder, encoder) @ red_circle)) for folder in corpora.values())
    assert clean - gone > 0.05
    assert clean - gone > 2 * (clean - control)


def circles(folder: Path) -> None:
    """A corpus of short square clips that show a red circle before any background."""
    folder.mkdir()
    ids = [f"c{seed}" for seed in range(CIRCLES)]
    for seed, name in enumerate(ids):
        ranges = SceneRanges(duration_s=(0.5, 0.5), sign_share=0.0, width=128, height=128)
        scene = sample_scene(np.random.default_rng(seed), ranges)
        subject = Entity("circle", "red", "medium", scene.subject.x, scene.subject.y)
        write_scene(folder / f"{name}.mp4", replace(scene, entities=(subject, *scene.entities[1:])))
    clips = pl.DataFrame({"clip_id": ids, "path": [f"{name}.mp4" for name in ids]})
    said = {"caption_id": ids, "clip_id": ids, "text": "in this video there is a red circle"}
    save_corpus(make_corpus(clips, pl.DataFrame(said)), folder)


def seen(folder: Path, encoder: Encoder) -> FloatArray:
    """(N, D) all frames of a corpus's clips."""
    frames = []
    for path in load_corpus(folder).clips["path"]:
        with open_video(folder / path) as video:
            frames += [frame.pixels.transpose(2, 0, 1) for frame in video.frames(parse_rule("2 midpoints"))]
    return encoder.encode_windows(np.stack(frames)[:, None])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirrors")
    save_corpus(write_mirrors(folder), folder)
    return folder


def test_overview_and_equalise_in_a_shell(folder: Path, tmp_path: Path) -> None:
    done = here("corpus", "overview", folder, "--keep-facts", "--workers", "1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "camera, (none): 4 clips\n  frames a second 20, seconds 2.25 (1 to 3)\n  picture 96 x 64" in done.stdout
    assert "bad (bad.mp4): its content is not a video" in done.stdout
    assert load_corpus(folder).clips["codec"].to_list() == ["H.264"] * 3 + ["MPEG-4"] * 2 + [None, "H.264"]
    done = here("corpus", "equalise", folder, "--out", tmp_path / "out", "--fps", "5", "--workers", "1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "H.264, 5 frames a second, 96 x 48 (pad)" in done.stdout
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
