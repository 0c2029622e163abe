"""A further model that is dropped: what is freed, what stays, kills in between; vectors that nothing names any more."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenreel import open_library
from evenreel.cli.app import app
from evenreel.errors import LibraryError, UsageError
from evenreel.library import drop_model, index_folders, reindex, repair, verify
from evenreel.library.store.also import further
from evenreel.types import Encoder
from tests.library.damage import table_of
from tests.library.state import state
from tests.library.test_also import BOTH, SETTINGS, load, second

WINDOWS = "org/windows@1"


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)


def bytes_in(folder: Path) -> int:
    return sum(len(path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def named(library: Path) -> dict[str, str]:
    """The further models that the catalog names."""
    return further(dict(table_of(library, "meta")))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [WINDOWS, "org/windows", "b" * 16])
def test_a_dropped_model_leaves_the_library_as_it_was_without_it(videos: Path, library: Path, name: str) -> None:
    index_folders([videos], library, SETTINGS)
    before = state(library)
    with open_library(library) as opened:
        answer = opened.search("red")
    index_folders([videos], library, BOTH)
    size = bytes_in(second(library))
    foretold = drop_model(library, name, dry_run=True)
    assert (foretold.bytes, foretold.dropped, second(library).is_dir()) == (size, False, True)
    report = drop_model(library, name)
    assert (report.model, report.bytes, report.dropped) == (WINDOWS, size, True)
    assert state(library) == before
    assert not (library / "models").exists()
    assert verify(library) == []
    with open_library(library) as opened:
        assert opened.search("red") == answer
    assert index_folders([videos], library, SETTINGS).did_nothing
    assert index_folders([videos], library, BOTH).indexed == 4  # it can come back
    assert verify(library) == []


@pytest.mark.parametrize("name", ["google/siglip2-base-patch16-224", "default"])
def test_without_torch_a_model_is_known_by_the_name_of_its_checkpoint_too(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its export, which is loaded in its place, is what the library names."""
    loaded = list[str]()

    def export(asked: str, **_: Any) -> Encoder:
        loaded.append(asked)
        if asked == SETTINGS.model:
            return load(asked)
        made = load("org/windows")
        made.encoder_id = "onnx-community/siglip2-base-patch16-224-ONNX@1"
        return made

    monkeypatch.setattr("evenreel.encoders.load_encoder", export)
    monkeypatch.setattr("evenreel.encoders.sources.installed", lambda package: False)
    monkeypatch.setattr("evenreel.encoders.sources.cached_folder", lambda *_: None)
    both = replace(SETTINGS, also=(name,))
    index_folders([videos], library, both)
    loaded.clear()
    assert index_folders([videos], library, both).did_nothing
    assert loaded == []
    assert drop_model(library, name).dropped
    assert not second(library).exists()


def finish_by_dropping(_: Path, library: Path) -> None:
    drop_model(library, WINDOWS)


def finish_by_index(videos: Path, library: Path) -> None:
    index_folders([videos], library, SETTINGS)


def finish_by_repair(_: Path, library: Path) -> None:
    assert f"model {WINDOWS}: finished dropping it" in repair(library)


@pytest.mark.parametrize("finish", [finish_by_dropping, finish_by_index, finish_by_repair])
@pytest.mark.parametrize("kept", [0, 1, 2, 99])
def test_dropping_that_was_killed_is_named_and_finished(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, kept: int, finish: Callable[[Path, Path], None]
) -> None:
    """It is killed with all files there but for the first ones, none for 99."""
    index_folders([videos], library, BOTH)

    def killed(folder: Path, **_: object) -> None:
        for path in sorted(path for path in folder.rglob("*") if path.is_file())[:kept]:
            path.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            drop_model(library, WINDOWS)
    with open_library(library) as opened:
        assert opened.search("red").hits
        assert not any("went on without" in notice for notice in opened.search("red").notices)
    (problem,) = verify(library)
    assert (problem.where, problem.what) == (f"model {WINDOWS}", "dropping it was broken off")
    assert "evenreel repair" in problem.remedy
    finish(videos, library)
    assert verify(library) == []
    assert not second(library).exists()
    assert named(library) == {}
    assert index_folders([videos], library, SETTINGS).did_nothing


def test_a_file_that_goes_while_a_model_is_dropped_does_not_bring_it_back(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that closes the catalog takes a file away between the listing of the folder and its deletion."""
    index_folders([videos], library, BOTH)
    (second(library) / "catalog.sqlite-shm").write_bytes(b"of a reader")
    unlink, gone = os.unlink, list[str]()

    def unlink_twice(path: Any, **where: Any) -> None:
        unlink(path, **where)
        if str(path).endswith("-shm"):
            gone.append(str(path))
            unlink(path, **where)  # what is asked for a file that is gone

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_twice)
        drop_model(library, WINDOWS)
    assert len(gone) == 1
    assert not second(library).exists()
    assert (named(library), verify(library)) == ({}, [])


def test_vectors_that_cannot_be_deleted_stay_noted(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, BOTH)

    unlink = os.unlink

    def refused(path: Any, **where: Any) -> None:
        if str(path).endswith("catalog.sqlite"):
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        with pytest.raises(LibraryError, match="Permission denied"):
            drop_model(library, WINDOWS)
    assert [problem.what for problem in verify(library)] == ["dropping it was broken off"]
    finish_by_repair(videos, library)
    assert verify(library) == []


def moved_and_linked(library: Path, to: Path) -> None:
    shutil.move(second(library), to)
    second(library).symlink_to(to, target_is_directory=True)


def file_in_place(library: Path, to: Path) -> None:
    shutil.move(second(library), to)
    second(library).write_text("not a folder")


@pytest.mark.parametrize("finish", [finish_by_dropping, finish_by_repair])
@pytest.mark.parametrize("put", [moved_and_linked, file_in_place])
def test_of_a_link_or_a_file_in_the_place_of_vectors_only_that_is_deleted(
    videos: Path,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    put: Callable[[Path, Path], None],
    finish: Callable[[Path, Path], None],
) -> None:
    index_folders([videos], library, BOTH)
    elsewhere = library.with_name("other disk")
    put(library, elsewhere)
    size, linked = bytes_in(elsewhere), second(library).is_symlink()
    if finish is finish_by_repair:
        with monkeypatch.context() as patch:
            patch.setattr("evenreel.library.index.dropping.finish_dropping", lambda *_: pytest.fail("killed"))
            with pytest.raises(pytest.fail.Exception):
                drop_model(library, WINDOWS)
    elif linked:
        assert drop_model(library, WINDOWS, dry_run=True).bytes == 0
        assert f"the vectors stay in {elsewhere}" in caplog.text
    caplog.clear()
    finish(videos, library)
    assert (f"the vectors stay in {elsewhere}" in caplog.text) is linked
    assert not os.path.lexists(second(library))
    assert (bytes_in(elsewhere), named(library), verify(library)) == (size, {}, [])
    assert index_folders([videos], library, BOTH).indexed == 4


def test_a_model_that_was_to_become_the_library_s_own_is_dropped_too(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, SETTINGS)
    before = state(library)
    with monkeypatch.context() as patch:
        patch.setattr("evenreel.library.index.reindex._exchange", lambda *_: pytest.fail("stop"))
        with pytest.raises(pytest.fail.Exception):
            reindex(library, "org/windows")
    drop_model(library, "org/windows")
    assert (state(library), verify(library)) == (before, [])
    assert reindex(library, "org/third").indexed == 4  # nothing is unfinished any more


def test_starting_an_exchange_anew_can_be_killed_while_it_drops_what_was_made(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr("evenreel.library.index.reindex._exchange", lambda *_: pytest.fail("stop"))
        with pytest.raises(pytest.fail.Exception):
            reindex(library, "org/windows")
        patch.setattr(shutil, "rmtree", lambda *_, **__: pytest.fail("stop"))
        with pytest.raises(pytest.fail.Exception):
            reindex(library, "org/third", anew=True)
    assert [problem.what for problem in verify(library)] == ["dropping it was broken off"]
    assert reindex(library, "org/third").indexed == 4
    assert (verify(library), list(library.glob("models/*"))) == ([], [])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("org/third", r"has no further model org/third; it has org/windows@1\."),
        ("org/pixels", "org/pixels is the library's own model, which evenreel reindex --model MODEL exchanges"),
    ],
)
def test_what_cannot_be_dropped_is_refused_in_a_sentence(videos: Path, library: Path, name: str, sentence: str) -> None:
    with pytest.raises(LibraryError, match="There is no library"):
        drop_model(library, name)
    index_folders([videos], library, BOTH)
    before = state(library)
    with pytest.raises(UsageError, match=sentence):
        drop_model(library, name)
    assert state(library) == before


def test_the_commands_list_and_drop_further_models(videos: Path, library: Path) -> None:
    index_folders([videos], library, BOTH)
    size = bytes_in(second(library))
    shown = f"{-(-size // 100_000) / 10} MB"

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "-l", str(library)])
        assert done.exit_code == 0, done.output
        return done.output

    said = json.loads(run("info", "--json"))
    assert said["also"] == [WINDOWS]
    assert said["models"] == [
        {"model": WINDOWS, "folder": "b" * 16, "state": "searched", "bytes": size, "hears": False}
    ]
    assert f"vectors of {WINDOWS}: {shown}" in run("info")
    assert f"would free {shown} of {library}; nothing was changed." in run("reindex", "--drop", WINDOWS, "--dry-run")
    assert json.loads(run("reindex", "--drop", WINDOWS, "--json")) == {
        "library": str(library), "model": WINDOWS, "bytes": size, "dropped": True,
    }  # fmt: skip
    assert json.loads(run("info", "--json"))["models"] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name the new model with --model, or with --drop"),
        (("--drop", "a", "--model", "b"), "--drop takes --library, --dry-run and --json"),
        (("--drop", "a", "--workers", "2"), "--drop takes --library, --dry-run and --json"),
        (("--model", "b", "--dry-run"), "--dry-run says what --drop would free"),
    ],
)
def test_options_that_do_not_go_together_are_refused(library: Path, words: tuple[str, ...], sentence: str) -> None:
    done = CliRunner().invoke(app, ["reindex", "-l", str(library), *words])
    assert isinstance(done.exception, UsageError)
    assert sentence in str(done.exception)


# Vectors that no catalog names ---------------------------------------------------------------------------------


def lose_catalog(library: Path) -> None:
    for path in (*library.glob("catalog.sqlite*"), library / "kept.jsonl"):
        path.unlink(missing_ok=True)


def test_vectors_whose_catalog_and_second_copy_are_lost_are_named_and_taken_up_again(
    videos: Path, library: Path
) -> None:
    index_folders([videos], library, BOTH)
    whole = state(library)
    lose_catalog(library)
    gone, unnamed = verify(library)
    assert gone.what == "it is gone, its feature shards are there"
    assert (unnamed.where, "evenreel repair" in unnamed.remedy) == (f"folder models/{'b' * 16}", True)
    assert f"evenreel reindex --drop {'b' * 16}" in unnamed.remedy
    assert any(done.startswith(f"model {WINDOWS}: the library is searched with it again") for done in repair(library))
    assert verify(library) == []
    assert index_folders([videos], library, SETTINGS).recognised == 4  # not a video is decoded
    assert state(library) == whole


def test_vectors_that_nothing_names_beside_a_sound_catalog_can_be_dropped_or_taken_up(
    videos: Path, library: Path, tmp_path: Path
) -> None:
    index_folders([videos], library, BOTH)
    shutil.copytree(second(library), tmp_path / "copy")
    drop_model(library, WINDOWS)
    for finish in (lambda: drop_model(library, "b" * 16), lambda: repair(library)):
        shutil.copytree(tmp_path / "copy", second(library))
        (problem,) = verify(library)
        assert problem.what == f"the catalog does not name these vectors of {WINDOWS}"
        finish()
        assert verify(library) == []
    assert named(library) == {"b" * 16: WINDOWS}


def test_vectors_that_do_not_fit_the_library_are_left_to_the_user(videos: Path, library: Path, tmp_path: Path) -> None:
    index_folders([videos], library, SETTINGS)
    for name, settings in {
        "b" * 16: replace(SETTINGS, model="org/windows", rule="every 0.5 s"),
        "c" * 16: replace(SETTINGS, model="org/windows"),
        "a" * 16: SETTINGS,
    }.items():
        index_folders([videos], tmp_path / name, settings)
        shutil.move(tmp_path / name, library / "models" / name)
    (library / "models" / ("d" * 16)).mkdir()
    (library / "models" / "notes").mkdir()  # somebody's own
    assert len(verify(library)) == 4
    said = {done.split(":")[0]: done for done in repair(library) if done.startswith("folder")}
    assert len(said) == 4
    for name, why in (
        ("a", "the library's own vectors are those of this model, org/pixels@1"),
        ("b", "its videos were sampled 'every 0.5 s', those of the library 'every 1 s'"),
        ("c", "its vectors are not of the model that its name says"),
        ("d", "nothing in it can be used"),
    ):
        sentence = said[f"folder models/{name * 16}"]
        assert why in sentence
        assert f"evenreel reindex --drop {name * 16} deletes it" in sentence
        drop_model(library, name * 16)
    assert verify(library) == []
    assert (named(library), [place.name for place in library.glob("models/*")]) == ({}, ["notes"])


# What a damaged further model says -----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["spoilt", "gone"])
def test_a_damaged_further_catalog_names_the_command_for_the_library(videos: Path, library: Path, damage: str) -> None:
    index_folders([videos], library, BOTH)
    whole = state(second(library))
    for left in second(library).glob("catalog.sqlite*"):
        left.unlink()
    if damage == "spoilt":
        (second(library) / "catalog.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(LibraryError) as refused:
        index_folders([videos], library, SETTINGS)
    assert f"evenreel repair --library {library} " in f"{refused.value} "
    if damage == "spoilt":
        with open_library(library) as opened:
            assert any(f"evenreel repair --library {library} " in notice for notice in opened.search("red").notices)
    (problem,) = verify(library)
    assert problem.where == f"model {WINDOWS}: catalog.sqlite"
    repair(library)
    assert verify(library) == []
    assert state(second(library)) == whole


def test_a_further_model_of_other_weights_says_how_to_make_its_vectors_anew(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, BOTH)
    monkeypatch.setattr("tests.library.test_also.HASHES", {"org/pixels": "a" * 64, "org/windows": "e" * 64})
    with open_library(library) as opened:
        notices = opened.search("red").notices
    assert any(f"evenreel reindex --drop {WINDOWS} --library {library} deletes them" in one for one in notices)
