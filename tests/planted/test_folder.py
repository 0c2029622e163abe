"""Corpora on disk: the same bytes however they were made, resumed, never mixed with another, admitted or not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from evenreel.corpus import load_corpus, load_texts
from evenreel.errors import CorpusError
from evenreel.media import open_video, parse_rule
from evenreel.planted import (
    Admission,
    PlantedCorpus,
    PlantSettings,
    Renderer,
    SceneRanges,
    admission_line,
    admission_of,
    plan_corpus,
    write_corpus,
)
from evenreel.planted import folder as module
from evenreel.planted.biases import Harder
from evenreel.planted.folder import _texts, read_admissions, save_admission, world_of
from tests.cli.test_planted import digests

# Corpora on disk: the same bytes however they were made, resumed, and never mixed with another.


SCENES = SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48)
SETTINGS = PlantSettings(SCENES, val_share=0.2, group=2)


@pytest.fixture(scope="module")
def forked_renderers() -> None:
    """In the place of the one for all other tests: here they are what they are in use, a new Python each."""


def _plan(strength: float = 0.9, clips: int = 10) -> PlantedCorpus:
    return plan_corpus("scene_text", strength, clips, settings=SETTINGS)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted") / "corpus"
    assert write_corpus(_plan(), folder, workers=1) == 10
    return folder


def test_it_is_a_corpus_whose_files_are_what_its_tables_say(written: Path) -> None:
    corpus = load_corpus(written)
    assert corpus.clips.height == 10
    for row in corpus.clips.iter_rows(named=True):
        with open_video(written / row["path"]) as video:
            assert len(list(video.frames(parse_rule("every 0.01 s")))) == row["frame_count"]
    texts = load_texts(written)
    assert texts is not None and texts.height == 10
    page = json.loads((written / "planted.json").read_text())
    assert (page["bias"], page["strength"], page["seed"], page["clips"]) == ("scene_text", 0.9, 0, 10)
    assert "differ in its word alone" in page["planted"]


def test_two_workers_write_the_bytes_of_one(written: Path, tmp_path: Path) -> None:
    counts: list[tuple[int, int]] = []
    write_corpus(_plan(), tmp_path, workers=2, progress=lambda done, total: counts.append((done, total)))
    assert digests(tmp_path) == digests(written)
    assert counts == [(n, 10) for n in range(11)]


def test_a_run_that_was_cut_off_goes_on(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(written, folder)
    clips = sorted((folder / "clips").iterdir())
    for path in (*clips[:2], folder / "captions.parquet"):
        path.unlink()
    kept = clips[5].stat().st_mtime_ns
    assert write_corpus(_plan(), folder, workers=1) == 2
    assert digests(folder) == digests(written)
    assert clips[5].stat().st_mtime_ns == kept


def test_another_corpus_is_not_written_into_this_one(written: Path) -> None:
    before = digests(written)
    with pytest.raises(CorpusError, match="holds a planted corpus of another"):
        write_corpus(_plan(0.5), written)
    assert digests(written) == before


def test_a_planted_corpus_is_another_when_its_vocabulary_or_renderer_changed(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, other in (("data_text", lambda: "{}"), ("RENDERER", 2)):
        with monkeypatch.context() as changed, pytest.raises(CorpusError, match="holds a planted corpus of another"):
            changed.setattr(module, name, other)
            write_corpus(_plan(), written)


def test_other_words_on_the_page_are_no_other_corpus(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written, tmp_path / "corpus")
    page = tmp_path / "corpus" / "planted.json"
    page.write_text(json.dumps({**json.loads(page.read_text()), "planted": "Said otherwise once."}))
    assert write_corpus(_plan(), tmp_path / "corpus") == 0
    assert digests(tmp_path / "corpus") == digests(written)


@pytest.mark.parametrize("page", ["", '{"digest": "none"}'])
def test_a_page_of_something_else_is_refused(page: str, tmp_path: Path) -> None:
    (tmp_path / "planted.json").write_text(page)
    with pytest.raises(CorpusError, match="holds a planted corpus of another"):
        write_corpus(_plan(), tmp_path)
    assert (tmp_path / "planted.json").read_text() == page


@pytest.mark.parametrize("name", ["clips.parquet", "captions.parquet", "texts.parquet", "clips/one.mp4"])
def test_a_corpus_that_was_not_planted_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("dear to somebody")
    before = digests(tmp_path)
    with pytest.raises(CorpusError, match="holds a corpus already"):
        write_corpus(_plan(), tmp_path)
    assert digests(tmp_path) == before


def test_the_frames_of_a_text_are_those_that_show_its_sign() -> None:
    scenes = replace(SCENES, duration_s=(1.0, 2.0), sign_share=1.0)
    plan = plan_corpus("visual", 0.5, 20, settings=PlantSettings(scenes))
    texts = _texts(plan)
    assert texts is not None and texts.height == 20
    for clip, row in zip(plan.clips, texts.iter_rows(named=True), strict=True):
        signed, bare = Renderer(clip.scene), Renderer(replace(clip.scene, signs=()))
        times = [number / clip.scene.fps for number in range(clip.scene.frame_count)]
        shown = [number for number, t in enumerate(times) if (signed.frame(t) != bare.frame(t)).any()]
        assert shown == list(range(row["start_frame"], row["end_frame"] + 1))


# Python's own pool leaves the pipes of a worker that died to the collector of garbage.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_dies_is_a_sentence_and_keeps_what_was_finished(tmp_path: Path) -> None:
    def kill(there: int, total: int) -> None:
        for worker in active_children():
            worker.kill()

    with pytest.raises(CorpusError, match="for want of memory.*__main__.*Clips that were finished are kept"):
        write_corpus(_plan(clips=200), tmp_path, workers=1, progress=kill)  # too many to be finished before the kill
    assert list((tmp_path / "clips").glob("*.mp4"))


@pytest.mark.skipif(os.name == "nt", reason="has no groups of processes to clean up with")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """The end of the output comes when the last process that holds it is gone."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, time; from evenreel.planted import *\n"
        "def wait(there, total):\n"
        "    if there: print('begun', flush=True); time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    settings = PlantSettings(SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48))\n"
        "    write_corpus(plan_corpus('visual', 0.5, 10, settings=settings), sys.argv[1], 2, wait)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "out")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert parent.stdout is not None and parent.stdout.readline() == b"begun\n"
        parent.kill()
        parent.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_disk_without_room_is_a_sentence_and_leaves_no_half_clip(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from evenreel.errors import CorpusError; from evenreel.planted import *\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))\n"
        "    settings = PlantSettings(SceneRanges(duration_s=(2.0, 3.0), sign_share=0.0))\n"
        "    try: write_corpus(plan_corpus('visual', 0.5, 10, settings=settings), Path(sys.argv[1]), workers=1)\n"
        "    except CorpusError as error: print(error)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    target = tmp_path / "out"
    done = subprocess.run([sys.executable, script, target], capture_output=True, text=True, check=True, timeout=120)
    assert "cannot be written to" in done.stdout and "make room or choose another folder" in done.stdout, done.stderr
    assert not list(target.rglob("*.mp4")) and not list(target.rglob("*.tmp"))


def test_a_file_in_the_place_of_the_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CorpusError, match="cannot be written to"):
        write_corpus(_plan(), tmp_path / "taken" / "corpus")


# Admission of planted biases: what was measured stands in the package, and nothing that was not.


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "admission.json"
    path.write_text("[]", encoding="utf-8")
    monkeypatch.setattr(module, "SHIPPED", path)
    return path


def measured(*broken: str, strength: float = 0.9) -> Admission:
    return Admission(
        bias="visual",
        strength=strength,
        world=world_of("visual", strength),
        seeds=(10, 11, 12, 13, 14),
        clips=1_500,
        steps=500,
        means={"biased": 60.0, "oracle": 80.0},
        rules={"learning is needed": "2.0 [1.0, 3.0]", "the bias costs": "20.0 [18.0, 22.0]"},
        broken=broken,
    )


@pytest.mark.usefixtures("shipped")
def test_what_was_saved_is_found_by_bias_and_strength_and_replaced() -> None:
    save_admission(measured("learning is needed", strength=0.5))
    save_admission(measured("learning is needed"))
    save_admission(measured())
    assert [(one.strength, one.admitted) for one in read_admissions()] == [(0.5, False), (0.9, True)]
    plan = plan_corpus("visual", 0.9, clips=10, seed=3)
    assert admission_of(plan) == measured()
    assert admission_of(plan_corpus("visual", 0.8, clips=10)) is None
    assert admission_of(plan_corpus("textual", 0.9, clips=10)) is None


@pytest.mark.usefixtures("shipped")
def test_another_world_was_not_measured() -> None:
    save_admission(measured())
    own = plan_corpus("visual", 0.9, clips=10, settings=PlantSettings(captions=3))
    assert admission_of(own) is None
    save_admission(replace(measured(), world=world_of("visual", 0.8)))  # as if its scenes had been others then
    assert admission_of(plan_corpus("visual", 0.9, clips=10)) is None


@pytest.mark.usefixtures("shipped")
def test_a_harder_world_has_a_verdict_of_its_own() -> None:
    harder = Harder(difficulty=1.0)
    found = replace(measured("learning is needed"), harder={"difficulty": 1.0}, world=world_of("visual", 0.9, harder))
    save_admission(measured())
    save_admission(found)
    assert len(read_admissions()) == 2
    assert admission_of(plan_corpus("visual", 0.9, clips=10, settings=PlantSettings(harder=harder))) == found
    assert admission_of(plan_corpus("visual", 0.9, clips=10)) == measured()
    half = PlantSettings(harder=Harder(difficulty=0.5))
    assert admission_of(plan_corpus("visual", 0.9, clips=10, settings=half)) is None


def test_the_line_says_yes_no_or_not_measured() -> None:
    assert "not measured" in admission_line(None)
    assert "yes (at strength 0.9, seeds 10, 11, 12, 13, 14)" in admission_line(measured())
    failed = admission_line(measured("learning is needed"))
    assert ": no (" in failed and "learning is needed (2.0 [1.0, 3.0])" in failed and "bias costs" not in failed
