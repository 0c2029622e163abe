from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.config import DEFAULT_MODEL, IndexSettings
from evenreel.encoders.loading import EncoderSpeed, known_models
from evenreel.errors import EvenreelError, UsageError
from evenreel.library.index.run import resolve
from tests.encoders.hub import COMMIT
from tests.encoders.onnx_files import alone
from tests.encoders.test_sources import in_cache
from tests.tiny_checkpoints import tiny_clip

RESEARCH_ONLY = next(model.id for model in known_models().models if model.non_commercial)


def models(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two seconds of measuring."""
    monkeypatch.setattr("evenreel.encoders.loading.measure_speed", lambda encoder: EncoderSpeed(12.5, 300.0))


def test_a_person_reads_all_models_in_80_columns() -> None:
    done = models()
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for model in known_models().models:
        assert model.id in done.stdout
    for words in (f"{DEFAULT_MODEL} (default, recommended)", "about 1.5 GB", "builtin (small, on this machine)"):
        assert words in done.stdout


def test_models_of_speech_are_asked_for_by_name_or_id() -> None:
    found = json.loads(models("tiny.en", "Systran/faster-whisper-small", "best", "--json").stdout)
    assert [row["name"] for row in found["speech"]] == ["tiny.en", "small"]
    assert [row["id"] for row in found["models"]] == ["timm/PE-Core-B-16"]
    shown = models("tiny.en").stdout
    assert "Systran/faster-whisper-tiny.en (tiny.en)" in shown
    assert "Whisper; about 78 MB; MIT; English" in shown
    assert "google/siglip2" not in shown
    assert not any(row["here"] for row in found["speech"])
    (default,) = json.loads(models("default", "--json").stdout)["models"]
    assert {"measure": "MSR-VTT R@1", "value": 38.5, "source": "pe"} in default["figures"]
    assert (default["id"], default["here"], default["speed"]) == (DEFAULT_MODEL, False, None)


def test_those_on_this_machine_are_measured_and_nothing_is_fetched(
    at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.encoders.loading.fetch", lambda *_: pytest.fail("something was fetched"))
    done = models("--measure", "--json")
    rows = json.loads(done.stdout)["models"]
    assert done.exit_code == 0
    assert [row["id"] for row in rows if row["speed"]] == ["builtin"]
    assert rows[0]["speed"] == {"frames_per_s": 12.5, "captions_per_s": 300.0}


def test_a_folder_is_measured_and_what_cannot_be_is_said(at_once: None, tmp_path: Path) -> None:
    graphs, folder, hollow = alone(tmp_path / "graphs"), tiny_clip(tmp_path / "tiny"), tmp_path / "hollow"
    hollow.mkdir()
    done = models("--measure", str(graphs), str(hollow), "org/none", str(folder), "--precision", "bfloat16")
    assert done.exit_code == 3
    words = " ".join(done.stdout.split())
    assert "in ONNX form, which runs on the CPU in float32 here" in words
    assert "measured here: 12.5 frames/s, 300 captions/s" in words
    assert "is not complete" in words
    assert "It is not on this machine; `evenreel index --model org/none` fetches it." in words


def test_a_checkpoint_in_the_cache_is_not_said_to_be_missing_where_torch_is(
    at_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache(tmp_path / "hub", tiny_clip(tmp_path / "tiny"), "org/tiny", COMMIT)
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    assert "measured here: 12.5 frames/s" in models("--measure", "org/tiny").stdout
    monkeypatch.setattr("evenreel.encoders.loading.installed", lambda package: False)
    done = models("--measure", "org/tiny", "org/none")
    assert done.exit_code == 3
    words = " ".join(done.stdout.split())
    assert "org/tiny (on this machine, needs torch)" in words
    assert "org/tiny is on this machine, but needs torch: pip install 'evenreel[torch]'." in words
    assert "It is not on this machine; `evenreel index --model org/none` fetches it." in words
    (row,) = json.loads(models("org/tiny", "--json").stdout)["models"]
    assert (row["here"], row["lacks_torch"]) == (False, True)


def test_a_library_keeps_the_model_that_it_was_made_with() -> None:
    made = {"model": "openai/clip-vit-base-patch32@c237dc49", "asked_model": "openai/clip-vit-base-patch32"}
    assert resolve(IndexSettings(), {}, Path()).model == DEFAULT_MODEL
    assert resolve(IndexSettings(), made, Path()).model == made["model"]
    assert resolve(IndexSettings(), {"encoder_id": made["model"]}, Path()).model == made["model"]
    assert resolve(IndexSettings(), {"model": ""}, Path()).model is None


def test_a_licence_is_accepted_once_for_a_library() -> None:
    asked = IndexSettings(model=RESEARCH_ONLY)
    with pytest.raises(UsageError, match="forbids commercial use"):
        resolve(asked, {}, Path())
    assert resolve(IndexSettings(model=RESEARCH_ONLY, accept_licence=True), {}, Path()).model == RESEARCH_ONLY
    made = {"model": f"{RESEARCH_ONLY}@0123", "asked_model": RESEARCH_ONLY}
    assert resolve(asked, made, Path()).model == RESEARCH_ONLY
    assert resolve(IndexSettings(), made, Path()).model == made["model"]


def test_index_and_features_ask_for_the_licence_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").write_bytes(b"0")
    place = ["--library", str(tmp_path / "library")]
    for command in (
        ["index", str(tmp_path / "videos"), *place, "--model", RESEARCH_ONLY],
        ["features", str(tmp_path), "--model", RESEARCH_ONLY],
    ):
        with pytest.raises(EvenreelError, match="give --accept-licence .* if you keep to it"):
            CliRunner().invoke(app, command, catch_exceptions=False)
    assert not (tmp_path / "library").exists()


def test_a_checkpoint_is_written_in_onnx_form(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    done = models("--export", str(tmp_path / "clip"), str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "in ONNX form" in done.stdout and (tmp_path / "out" / "onnx" / "vision_model.onnx").is_file()
    said = json.loads(models("--export", str(tmp_path / "clip"), str(tmp_path / "again"), "--json").stdout)
    assert said["cosine"] > 0.9999
    with pytest.raises(UsageError, match="goes without names and --measure"):
        models("best", "--export", "builtin", str(tmp_path / "third"))
