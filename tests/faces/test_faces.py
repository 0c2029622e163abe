"""YuNet and SFace as they are run, with small models of the same inputs and outputs; grouping, on planted people."""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenreel import faces as our
from evenreel.config import MediaLimits
from evenreel.errors import EncoderError, EvenreelError, MediaError
from evenreel.faces import DETECTOR, RECOGNISER, FaceFinder, chinese_whispers, find_models, join_people
from evenreel.types import FloatArray
from tests.conftest import SHARED_DATA
from tests.faces.drawn_faces import SIDE, face, scene, write_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def finder(folder: Path) -> FaceFinder:
    return FaceFinder(folder)


def test_faces_are_found_where_they_are_from_left_to_right(finder: FaceFinder) -> None:
    found = finder.find(scene({(2, 4): 1, (0, 0): 0}), 2.5)
    assert [one.box for one in found] == [
        pytest.approx((0, 0, SIDE / 256, SIDE / 192)),
        pytest.approx((128 / 256, 64 / 192, 224 / 256, 160 / 192)),
    ]
    for one, person in zip(found, (0, 1), strict=True):
        assert one.time_s == 2.5
        assert np.linalg.norm(one.vector) == pytest.approx(1)
        crop = np.array(Image.open(io.BytesIO(one.jpeg)))
        squares = crop.reshape(7, 16, 7, 16, 3)[:, 8, :, 8][[1, 3, 5]][:, [1, 3, 5]]
        drawn = face(person).reshape(3, 32, 3, 32, 3)[:, 16, :, 16]
        assert np.abs(squares.astype(int) - drawn).max() < 40  # the colours in the order red, green, blue


def test_a_face_of_one_person_is_nearer_than_one_of_another(finder: FaceFinder) -> None:
    here, there, other = (finder.find(scene(one))[0].vector for one in ({(0, 0): 0}, {(2, 3): 0}, {(0, 0): 1}))
    assert here @ there > 0.95
    assert here @ other < our.SAME_PERSON


def test_a_large_picture_is_scaled_down_and_a_box_is_told_of_the_whole(finder: FaceFinder) -> None:
    large = np.kron(scene({(0, 0): 0}, (640, 640)), np.ones((3, 3, 1), np.uint8))
    (found,) = finder.find(large)
    assert found.box == pytest.approx((0, 0, 0.15, 0.15), abs=0.01)
    assert found.vector @ finder.find(scene({(0, 0): 0}))[0].vector > 0.95


def test_no_face_is_found_where_there_is_none_or_too_small_a_one(
    finder: FaceFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finder.find(scene({})) == finder.find(np.zeros((1, 1, 3), np.uint8)) == []
    monkeypatch.setattr(our, "LEAST_PX", SIDE + 1)
    assert finder.find(scene({(0, 0): 0})) == []


def test_a_file_that_is_missing_or_a_pointer_of_git_is_told_by_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError) as raised:
        find_models(tmp_path)
    for part in (*our.SHA256, *our.SHA256.values(), our.ZOO, "face_models="):
        assert part in str(raised.value)
    shutil.copy(folder / RECOGNISER, tmp_path)
    (tmp_path / DETECTOR).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:8f23\nsize 232589\n")
    with pytest.raises(EncoderError, match="git lfs pull"):
        find_models(tmp_path)


def test_a_file_of_other_bytes_is_used_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "evenreel"):
        found = find_models(folder)
    assert found.recogniser_id == hashlib.sha256((folder / RECOGNISER).read_bytes()).hexdigest()
    told = [record.getMessage().split(" is not the file")[0] for record in caplog.records]
    assert told == [str(folder / DETECTOR), str(folder / RECOGNISER)]


def test_a_file_that_is_no_model_is_told_before_any_clip_is_blamed(tmp_path: Path) -> None:
    for name in (DETECTOR, RECOGNISER):
        (tmp_path / name).write_bytes(b"<html>not found</html>")
    with pytest.raises(EvenreelError, match="no model that OpenCV reads") as raised:
        FaceFinder(tmp_path)
    assert not isinstance(raised.value, MediaError)


REAL = SHARED_DATA / "faces" / "yunet_n_dynamic.onnx"


@pytest.mark.skipif(not REAL.is_file(), reason="the real YuNet of the shared data is not there")
@pytest.mark.parametrize(("clip", "faces"), [("videos/cogvideox_3.mp4", 7), ("videos/kitten_on_grass.mp4", 0)])
def test_the_real_yunet_finds_a_profile_in_every_second_and_no_kitten(
    folder: Path, tmp_path: Path, clip: str, faces: int
) -> None:
    """By eye: a man in profile in all seven seconds of one clip, nobody in the other; SFace is the drawn faces'."""
    shutil.copy(REAL, tmp_path / DETECTOR)
    shutil.copy(folder / RECOGNISER, tmp_path / RECOGNISER)
    with closing(our.ClipFaces(MediaLimits(), find_models(tmp_path))) as reader:
        assert len(reader.find(str(SHARED_DATA / clip), [float(second) for second in range(7)])) == faces


def people(seed: int, sizes: list[int], noise: float = 0.35) -> tuple[FloatArray, list[int]]:
    """Faces scattered around a direction for each person, in random order, and whose each is."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.standard_normal((64, len(sizes))))[0].T
    whose = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    made = centres[whose] + noise * rng.standard_normal((len(whose), 64)) / 8
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32), whose.tolist()


def partition(labels: list[int]) -> set[frozenset[int]]:
    return {frozenset(row for row, other in enumerate(labels) if other == label) for label in labels}


@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), max_size=6))
def test_faces_of_people_that_are_far_apart_are_grouped_by_person(seed: int, sizes: list[int]) -> None:
    made, whose = people(seed, sizes) if sizes else (np.zeros((0, 8), np.float32), [])
    labels = chinese_whispers(made).tolist()
    assert partition(labels) == partition(whose)
    assert list(dict.fromkeys(labels)) == list(range(len(sizes)))  # numbered as they first occur


def test_the_threshold_is_inclusive_and_below_it_faces_stay_apart() -> None:
    made = np.array([[1, 0], [0.6, 0.8]], np.float32)
    assert chinese_whispers(made, threshold=0.6).tolist() == [0, 0]
    assert chinese_whispers(made, threshold=0.61).tolist() == [0, 1]


@given(st.integers(0, 10_000))
def test_joining_is_the_mean_similarity_to_every_face_of_a_person(seed: int) -> None:
    made, whose = people(seed, [5, 3, 4], noise=1.5)
    new, _ = people(seed + 1, [3, 3], noise=2.0)
    members = [[row for row, one in enumerate(whose) if one == person] for person in range(3)]
    expected = []
    for one in new:
        mean = [sum(float(one @ made[row]) for row in rows) / len(rows) for rows in members]
        best = max(range(3), key=lambda group: mean[group])
        expected.append(best if mean[best] >= 0.2 else -1)
    means = np.stack([made[rows].mean(axis=0) for rows in members])
    assert join_people(new, means, threshold=0.2).tolist() == expected
    assert join_people(new, means[:0], threshold=0.2).tolist() == [-1] * 6  # nobody is known yet


def test_tiles_and_the_number_of_neighbours_keep_people_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    made, whose = people(3, [9, 5, 7, 1], noise=1.2)
    whole = chinese_whispers(made).tolist(), join_people(made, made[:3]).tolist()
    monkeypatch.setattr(our, "_CELLS", 40)
    assert (chinese_whispers(made).tolist(), join_people(made, made[:3]).tolist()) == whole
    monkeypatch.setattr(our, "NEIGHBOURS", 2)
    made, whose = people(5, [6, 6], noise=0.2)
    assert all(
        any(group <= person for person in partition(whose)) for group in partition(chinese_whispers(made).tolist())
    )
