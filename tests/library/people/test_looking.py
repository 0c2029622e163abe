from __future__ import annotations

import logging
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, LibraryError, UsageError
from evenreel.faces import ClipFaces, Face
from evenreel.library import index_folders, reindex, repair
from evenreel.library.index.reindex import remove_from_library
from evenreel.library.index.scan import IndexReport
from evenreel.library.people import FaceStage, has_people, list_people, person_still
from evenreel.library.store.catalog import CATALOG
from evenreel.library.store.writer import Store
from tests import prebuilt
from tests.faces.drawn_faces import write_models, write_people
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, table_of, write
from tests.library.people.conftest import who, write_films


def again(folder: Path, settings: IndexSettings, **changes: object) -> IndexReport:
    """A later run that does not say that people are wanted."""
    later = replace(settings, people=False, face_models=None)
    return index_folders(folder / "videos", folder / "library", replace(later, **changes))  # type: ignore[arg-type]


def test_people_are_added_to_a_library_that_was_not_asked_for_them_without_reading_it_anew(
    tmp_path: Path, settings: IndexSettings
) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}, {(0, 0): 0, (1, 4): 1}])
    prebuilt.library(tmp_path / "videos", tmp_path / "library", replace(QUICK, read_text=False))
    assert not has_people(tmp_path / "library")
    assert table_of(tmp_path / "library", "face_clips") == []
    with pytest.raises(UsageError, match="No people were looked for.*--people --set face_models"):
        list_people(tmp_path / "library")
    report = index_folders(tmp_path / "videos", tmp_path / "library", settings)
    assert (report.indexed, report.frames, report.people) == (0, 0, 1)
    assert who(tmp_path / "library") == [(None, 2, 1), (None, 1, 1)]
    (ada, _) = list_people(tmp_path / "library", everyone=True)
    assert person_still(tmp_path / "library", str(ada.number)).startswith(b"\xff\xd8")


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
    with pytest.MonkeyPatch.context() as patch:  # undone before the stubs are
        patch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder("b" * 64))
        reindex(library, "second", replace(settings, people=False, face_models=None))
    assert who(library) == before


@pytest.mark.parametrize("lost", ["faces", "catalog"])
def test_names_outlive_their_faces(folder: Path, library: Path, settings: IndexSettings, lost: str) -> None:
    again(folder, settings)
    numbers = {one.name: one.number for one in list_people(library)}
    if lost == "faces":
        write(library, "DELETE FROM faces", "DELETE FROM face_clips")
    else:
        (library / CATALOG).unlink()
        repair(library)
    assert who(library) == [("Ada King", 0, 0), ("Bob", 0, 0)]
    write_people(folder / "videos" / "stranger.mp4", [{(0, 0): 4}], grey=30)
    assert again(folder, settings).people == 8
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3), (None, 1, 1)]
    assert {one.name: one.number for one in list_people(library)} == numbers


def test_faces_of_clips_that_a_library_forgets_go_with_them(made: Path, library: Path) -> None:
    remove_from_library(library, made / "videos" / "ada_0.mp4")
    assert who(library) == [("Ada King", 5, 3), ("Bob", 7, 3)]
    remove_from_library(library, made / "videos")
    assert who(library) == []


def test_several_runs_and_one_find_the_same_people(tmp_path: Path, settings: IndexSettings) -> None:
    write_films(tmp_path / "all")
    (tmp_path / "one" / "videos").mkdir(parents=True)
    for path in sorted((tmp_path / "all").iterdir()):
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

    def failing(reader: ClipFaces, path: str, at_s: list[float]) -> list[Face]:
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


def test_models_that_are_missing_or_wrong_are_told_before_anything_is_read(tmp_path: Path, face_models: Path) -> None:
    write_people(tmp_path / "videos" / "ada.mp4", [{(0, 0): 0}])
    for asked, folder, error, said in (
        (True, None, EncoderError, r"evenreel does not fetch.*face_models="),
        (True, tmp_path / "nowhere", EncoderError, r"evenreel does not fetch.*face_models="),
        (False, face_models, UsageError, "add --people"),
    ):
        with pytest.raises(error, match=said):
            wanted = replace(QUICK, people=asked, face_models=folder)
            index_folders(tmp_path / "videos", tmp_path / "library", wanted)
    assert not (tmp_path / "library").exists()


def test_models_that_are_gone_later_stop_no_run_and_others_are_refused(
    folder: Path, library: Path, settings: IndexSettings, caplog: pytest.LogCaptureFixture
) -> None:
    other = write_models(folder / "other", seed=1)
    with pytest.raises(LibraryError, match="by another recogniser.*--forget ALL"):
        index_folders(folder / "videos", library, replace(settings, face_models=other))
    write(library, f"UPDATE meta SET value = '{folder}/gone' WHERE key = 'face_models'")
    write_people(folder / "videos" / "more.mp4", [{(0, 0): 0}], grey=30)
    with caplog.at_level(logging.WARNING, "evenreel"):
        report = again(folder, settings)
    assert (report.indexed, report.people) == (1, 0)
    assert any("No people were looked for in new clips" in one.getMessage() for one in caplog.records)
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_a_run_that_is_broken_off_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, settings: IndexSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_films(tmp_path / "videos")
    put, kept = FaceStage.put, list[str]()

    def interrupted(stage: FaceStage, store: Store, reading: tuple[str, list[Face], str | None]) -> None:
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
    assert stat.S_IMODE((tmp_path / "library").stat().st_mode) == 0o700  # nobody but the owner may look
