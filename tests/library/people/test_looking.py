"""People in an index run: only where they are asked for, kept in step with the clips, and with names that last."""

from __future__ import annotations

import logging
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, EvenreelError, LibraryError, UsageError
from evenreel.faces.file_reader import ClipFace, ClipFaces
from evenreel.faces.models import DETECTOR, RECOGNISER
from evenreel.features.pool import Brake, RunHaltedError
from evenreel.library import index_folders, reindex, repair, verify
from evenreel.library.index.removing import remove_from_library
from evenreel.library.index.report import IndexReport
from evenreel.library.index.run import RunParts, index_found
from evenreel.library.index.scan import scan
from evenreel.library.people.listing import list_faces, list_people
from evenreel.library.people.looking import FaceStage
from evenreel.library.people.store import FILE, people_store
from evenreel.library.store.writer import Store
from tests import prebuilt
from tests.faces.drawn_faces import write_models, write_people
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK
from tests.library.people.conftest import write_films


def who(library: Path) -> list[tuple[str | None, int, int]]:
    return [(one.name, one.faces, one.clips) for one in list_people(library, everyone=True)]


def again(folder: Path, settings: IndexSettings, **changes: object) -> IndexReport:
    """A later run that does not say that people are wanted."""
    later = replace(settings, people=False, face_models=None)
    return index_folders(folder / "videos", folder / "library", replace(later, **changes))  # type: ignore[arg-type]


def test_a_library_that_was_not_asked_for_people_has_no_trace_of_them(tmp_path: Path) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    report = index_folders(tmp_path / "videos", tmp_path / "library", replace(QUICK, read_text=False))
    assert (report.indexed, report.people) == (1, 0)
    assert not list((tmp_path / "library").glob("people*"))
    with pytest.raises(UsageError, match="No people were looked for.*--people --face-models"):
        list_people(tmp_path / "library")
    assert not list((tmp_path / "library").glob("people*"))


def test_people_are_added_to_a_library_that_has_none_without_reading_it_anew(
    tmp_path: Path, settings: IndexSettings
) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}, {(0, 0): 0, (1, 4): 1}])
    prebuilt.library(tmp_path / "videos", tmp_path / "library", replace(QUICK, read_text=False))
    report = index_folders(tmp_path / "videos", tmp_path / "library", settings)
    assert (report.indexed, report.frames, report.people) == (0, 0, 1)
    assert who(tmp_path / "library") == [(None, 2, 1), (None, 1, 1)]
    (face, _) = list_faces(tmp_path / "library", "1")
    assert face.time_s == 0.0
    assert face.box == pytest.approx((0, 0, 96 / 256, 96 / 192))


def test_a_brake_ends_the_looking_and_the_next_run_goes_on(
    tmp_path: Path, settings: IndexSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_people(tmp_path / "videos" / f"{number}.mp4", [{(0, 0): number}], grey=100 + number)
    library, settings = tmp_path / "library", replace(settings, workers=1)
    index_folders(tmp_path / "videos", library, replace(QUICK, read_text=False))
    brake, find, looked = Brake(), ClipFaces.find, list[str]()

    def halted(reader: ClipFaces, path: str, times_s: list[float]) -> list[ClipFace]:
        looked.append(path)
        if len(looked) == 2:
            brake.halt()
        return find(reader, path, times_s)

    found = scan([tmp_path / "videos"])
    with monkeypatch.context() as patch, pytest.raises(RunHaltedError):
        patch.setattr(ClipFaces, "find", halted)
        index_found(library, settings, found, parts=RunParts(brake=brake))
    assert len(looked) == 2
    report = index_folders(tmp_path / "videos", library, settings)
    assert 1 <= report.people <= 3  # what had been looked at when it ended may have been kept
    assert report.notes == []
    assert who(library) == [(None, 1, 1)] * 3


def test_nobody_but_the_owner_may_read_the_file(library: Path, tmp_path: Path, settings: IndexSettings) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    prebuilt.library(tmp_path / "videos", tmp_path / "library", settings)
    assert stat.S_IMODE((tmp_path / "library" / FILE).stat().st_mode) == 0o600


def test_a_later_run_goes_on_looking_and_new_faces_join_those_that_are_known(
    folder: Path, library: Path, settings: IndexSettings
) -> None:
    write_people(folder / "videos" / "later.mp4", [{(0, 0): 0, (2, 4): 4}, {(2, 4): 4}], grey=200)
    report = again(folder, settings)
    assert (report.indexed, report.people) == (1, 1)
    assert who(library) == [("Ada King", 8, 5), ("Bob", 7, 3), (None, 2, 1)]
    assert again(folder, settings).did_nothing


def test_names_outlive_moves_repair_and_another_model_of_pictures(
    folder: Path, library: Path, settings: IndexSettings
) -> None:
    before = who(library)
    again(folder, settings)  # at another place than they were indexed at
    (folder / "videos" / "both.mp4").rename(folder / "videos" / "elsewhere.mp4")
    assert again(folder, settings).people == 0
    assert who(library) == before
    repair(library)
    assert who(library) == before
    (library / "catalog.sqlite").unlink()
    repair(library)
    assert who(library) == before
    with pytest.MonkeyPatch.context() as patch:  # undone before the stubs are
        patch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder("b" * 64))
        reindex(library, "second", replace(settings, people=False, face_models=None))
    assert who(library) == before


def test_faces_of_clips_that_a_library_forgets_go_with_them(made: Path, library: Path) -> None:
    remove_from_library(library, made / "videos" / "ada_0.mp4")
    assert who(library) == [("Ada King", 5, 3), ("Bob", 7, 3)]
    remove_from_library(library, made / "videos")
    assert who(library) == []


def test_several_runs_and_one_find_the_same_people(tmp_path: Path, settings: IndexSettings) -> None:
    write_films(tmp_path / "all")
    for path in sorted((tmp_path / "all").iterdir()):
        (tmp_path / "one" / "videos").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "one" / "videos")
        if path.stem in ("ada_1", "bob_0", "nobody"):
            index_folders(tmp_path / "one" / "videos", tmp_path / "one" / "library", settings)
    assert who(tmp_path / "one" / "library") == [(None, 7, 4), (None, 7, 3)]


def test_a_clip_that_cannot_be_read_again_is_noted_and_the_others_are_looked_at(
    folder: Path, library: Path, settings: IndexSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_people(folder / "videos" / "a_good.mp4", [{(0, 0): 0}], grey=31)
    write_people(folder / "videos" / "bad.mp4", [{(0, 0): 0}], grey=45)

    find = ClipFaces.find

    def failing(reader: ClipFaces, path: str, at_s: list[float]) -> list[ClipFace]:
        return find(reader, "/no/such/file" if path.endswith("bad.mp4") else path, at_s)

    monkeypatch.setattr(ClipFaces, "find", failing)
    report = again(folder, settings)
    assert report.people == 2
    assert [(Path(path).name, note.partition(":")[0]) for path, note in report.notes] == [
        ("bad.mp4", "no faces were looked for")
    ]
    assert who(library)[0] == ("Ada King", 8, 5)
    monkeypatch.setattr(ClipFaces, "find", find)
    assert again(folder, settings).people == 0  # until it is asked for
    assert again(folder, settings, retry=True).people == 1
    assert who(library)[0] == ("Ada King", 9, 6)


def test_models_that_are_missing_are_asked_for_before_anything_is_read(tmp_path: Path) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    wanted = replace(QUICK, people=True)
    for folder in (None, tmp_path / "nowhere"):
        with pytest.raises(EncoderError, match=r"evenreel does not fetch.*--face-models FOLDER"):
            index_folders(tmp_path / "videos", tmp_path / "library", replace(wanted, face_models=folder))
    assert not (tmp_path / "library").exists()


def test_models_that_are_none_are_told_before_anything_is_read(tmp_path: Path) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    for one in (DETECTOR, RECOGNISER):
        (tmp_path / one.name).write_bytes(b"<html>not found</html>")
    with pytest.raises(EvenreelError, match="no model that OpenCV reads"):
        index_folders(tmp_path / "videos", tmp_path / "library", replace(QUICK, people=True, face_models=tmp_path))
    assert not (tmp_path / "library").exists()


def test_a_folder_of_models_alone_looks_for_nobody(tmp_path: Path, face_models: Path) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    with pytest.raises(UsageError, match="add --people"):
        index_folders(tmp_path / "videos", tmp_path / "library", replace(QUICK, face_models=face_models))


def test_models_that_are_gone_later_stop_no_run(
    tmp_path: Path, settings: IndexSettings, caplog: pytest.LogCaptureFixture
) -> None:
    models = write_models(tmp_path / "models")
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    prebuilt.library(tmp_path / "videos", tmp_path / "library", replace(settings, face_models=models))
    shutil.rmtree(models)
    write_people(tmp_path / "videos" / "more.mp4", [{(0, 0): 0}], grey=30)
    with caplog.at_level(logging.WARNING, "evenreel"):
        report = again(tmp_path, settings)
    assert (report.indexed, report.people) == (1, 0)
    assert any("No people were looked for in new clips" in one.getMessage() for one in caplog.records)


def test_faces_of_two_models_are_never_compared(folder: Path, library: Path, settings: IndexSettings) -> None:
    other = write_models(folder / "other", seed=1)
    with pytest.raises(LibraryError, match="by another model.*--forget ALL"):
        index_folders(folder / "videos", library, replace(settings, face_models=other))
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_a_damaged_face_is_found_and_its_clip_looked_at_anew(
    folder: Path, library: Path, settings: IndexSettings
) -> None:
    again(folder, settings)
    with people_store(library) as connection:
        connection.execute("UPDATE faces SET vector = zeroblob(256) WHERE face_id = 1")
    (problem,) = verify(library)
    assert (problem.where, problem.what) == (FILE, "1 clip with faces that are not what was written")
    assert any("dropped the faces of 1 clip" in done for done in repair(library))
    assert verify(library) == []
    assert again(folder, settings).people == 1
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_a_run_that_is_broken_off_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, settings: IndexSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_films(tmp_path / "videos")
    put, kept = FaceStage.put, list[str]()

    def interrupted(stage: FaceStage, store: Store, reading: tuple[str, list[ClipFace], str | None]) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(reading[0])
        put(stage, store, reading)

    monkeypatch.setattr(FaceStage, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index_folders(tmp_path / "videos", tmp_path / "library", settings)
    monkeypatch.setattr(FaceStage, "put", put)
    report = again(tmp_path, settings)
    assert (report.indexed, report.people) == (0, 4)
    assert who(tmp_path / "library") == [(None, 7, 4), (None, 7, 3)]
