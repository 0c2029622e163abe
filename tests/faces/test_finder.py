"""YuNet's and SFace's files and how they are run, with small models of the same inputs and outputs."""

from __future__ import annotations

import hashlib
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import EncoderError, EvenreelError, MediaError
from evenreel.faces import models
from evenreel.faces.file_reader import ClipFaces
from evenreel.faces.finder import OpenCVFaces
from evenreel.faces.models import DETECTOR, RECOGNISER, find_models
from tests.faces.drawn_faces import SIDE, face, scene, write_models, write_people


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def finder(folder: Path) -> OpenCVFaces:
    return OpenCVFaces(str(folder / DETECTOR.name), str(folder / RECOGNISER.name))


def test_faces_are_found_where_they_are_from_left_to_right(finder: OpenCVFaces) -> None:
    found = finder.find(scene({(2, 4): 1, (0, 0): 0}))
    assert [one.box for one in found] == [
        pytest.approx((0, 0, SIDE / 256, SIDE / 192)),
        pytest.approx((128 / 256, 64 / 192, 224 / 256, 160 / 192)),
    ]
    for one, person in zip(found, (0, 1), strict=True):
        assert np.linalg.norm(one.vector) == pytest.approx(1)
        assert one.score > 0.9
        squares = one.crop.reshape(7, 16, 7, 16, 3)[:, 8, :, 8][[1, 3, 5]][:, [1, 3, 5]]
        drawn = face(person).reshape(3, 32, 3, 32, 3)[:, 16, :, 16]
        assert np.abs(squares.astype(int) - drawn).max() < 30  # the colours in the order red, green, blue


def test_a_face_of_one_person_is_nearer_than_one_of_another(finder: OpenCVFaces) -> None:
    here, there, other = (finder.find(scene(one))[0].vector for one in ({(0, 0): 0}, {(2, 3): 0}, {(0, 0): 1}))
    assert here @ there > 0.95
    assert here @ other < 0.363


def test_a_large_picture_is_scaled_down_and_a_box_is_told_of_the_whole(finder: OpenCVFaces) -> None:
    large = np.kron(scene({(0, 0): 0}, (640, 640)), np.ones((3, 3, 1), np.uint8))
    (found,) = finder.find(large)
    assert found.box == pytest.approx((0, 0, 0.15, 0.15), abs=0.01)
    assert found.vector @ finder.find(scene({(0, 0): 0}))[0].vector > 0.95


def test_a_face_too_small_to_tell_is_left_out(finder: OpenCVFaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.faces.finder.LEAST_PX", SIDE + 1)
    assert finder.find(scene({(0, 0): 0})) == []


def test_a_picture_without_a_face_has_none(finder: OpenCVFaces) -> None:
    assert finder.find(scene({})) == []
    assert finder.find(np.zeros((1, 1, 3), np.uint8)) == []


def test_a_clip_is_read_in_a_process_of_its_own(folder: Path, tmp_path: Path) -> None:
    film = write_people(tmp_path / "film.mp4", [{(0, 0): 0}, {}, {(0, 0): 0, (1, 4): 1}])
    reader = ClipFaces(MediaLimits(), find_models(folder))
    try:
        found = reader.find(str(film), [0.0, 1.0, 2.0])
        assert [one.time_s for one in found] == [0.0, 2.0, 2.0]
        assert found[0].vector @ found[1].vector > 0.9
        assert found[0].jpeg.startswith(b"\xff\xd8")
        (tmp_path / "no.mp4").write_bytes(b"no film")
        with pytest.raises(MediaError):
            reader.find(str(tmp_path / "no.mp4"), [0.0])
    finally:
        reader.close()


@pytest.mark.parametrize("name", [DETECTOR.name, RECOGNISER.name])
def test_a_file_that_is_missing_is_asked_for_by_a_sentence(folder: Path, tmp_path: Path, name: str) -> None:
    for path in folder.iterdir():
        if path.name != name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(EncoderError) as raised:
        find_models(tmp_path)
    for part in (name, DETECTOR.sha256, RECOGNISER.sha256, models.ZOO, "--face-models"):
        assert part in str(raised.value)


def test_a_pointer_of_git_lfs_is_told_from_a_model(folder: Path, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{DETECTOR.sha256}\nsize 232589\n"
    (tmp_path / DETECTOR.name).write_text(pointer)
    (tmp_path / RECOGNISER.name).write_bytes((folder / RECOGNISER.name).read_bytes())
    with pytest.raises(EncoderError, match=r"pointer of Git LFS.*git lfs pull"):
        find_models(tmp_path)


def test_a_file_of_other_bytes_is_used_with_a_warning(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(folder, tmp_path / "models"))
    with caplog.at_level(logging.WARNING, "evenreel"):
        found = find_models(folder)
        find_models(folder)  # it is told once
    assert found.recogniser_id == hashlib.sha256((folder / RECOGNISER.name).read_bytes()).hexdigest()
    assert [record.getMessage().split(" is not the file")[0] for record in caplog.records] == [
        str(folder / DETECTOR.name),
        str(folder / RECOGNISER.name),
    ]


def test_a_file_that_is_no_model_is_told_before_any_clip_is_blamed(tmp_path: Path) -> None:
    for one in (DETECTOR, RECOGNISER):
        (tmp_path / one.name).write_bytes(b"no model")
    with pytest.raises(EvenreelError, match="no model that OpenCV reads") as raised:
        ClipFaces(MediaLimits(), find_models(tmp_path)).check()
    assert not isinstance(raised.value, MediaError)
