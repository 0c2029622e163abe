"""Confounders from a scene dictionary against loops, from frames, and from files of any kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as torch_file

from evenreel.adaptation import titan_correction
from evenreel.adaptation.titan_correction import frame_confounders, phrase_confounders, read_confounders
from evenreel.errors import UsageError
from evenreel.features.scene_elements import EmbeddedDictionary
from evenreel.language.scene_elements import SceneDictionary
from evenreel.types import VideoFeatures
from tests.adaptation.shifted import unit

D = 8


def videos(frames: np.ndarray, mask: np.ndarray | None = None) -> VideoFeatures:
    mask = np.ones(frames.shape[:2], bool) if mask is None else mask
    return VideoFeatures(tuple(map(str, range(len(frames)))), frames * mask[..., None], mask, np.zeros(mask.shape))


def dictionary(entities: int, activities: int) -> EmbeddedDictionary:
    names = tuple(f"thing {n}" for n in range(entities)), tuple(f"do {n}" for n in range(activities))
    vectors = unit(entities + activities, D, seed=3)
    return EmbeddedDictionary(SceneDictionary(*names), vectors[:entities], vectors[entities:], "org/one", "00" * 32)


def test_phrases_are_those_that_most_clips_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titan_correction, "KAPPA", 3)
    clips, embedded = videos(unit(30, 4, D, seed=1)), dictionary(12, 9)
    vectors, names_found = phrase_confounders(clips, embedded, 8)
    counts: dict[str, int] = {}
    for frames in clips.frames:
        mean = frames.mean(0)
        for names, phrases in (
            (embedded.dictionary.entities, embedded.entities),
            (embedded.dictionary.activities, embedded.activities),
        ):
            near = sorted(range(len(names)), key=lambda n, rows=phrases: -float(rows[n] @ mean))[:3]
            for place in near:
                counts[names[place]] = counts.get(names[place], 0) + 1
    assert [counts[name] for name in names_found] == sorted((counts[name] for name in names_found), reverse=True)
    for kind in ("thing", "do"):
        own = [name for name in names_found if name.startswith(kind)]
        left = [counts[name] for name in counts if name.startswith(kind) and name not in own]
        assert len(own) == 4
        assert min(counts[name] for name in own) >= max(left)
    rows = dict(
        zip(
            embedded.dictionary.entities + embedded.dictionary.activities,
            [*embedded.entities, *embedded.activities],
            strict=True,
        )
    )
    np.testing.assert_array_equal(vectors, np.stack([rows[name] for name in names_found]))


def test_a_domain_that_shows_other_things_has_other_confounders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titan_correction, "KAPPA", 1)
    embedded = dictionary(6, 0)
    one, other = (videos(embedded.entities[rows][:, None]) for rows in ([0, 0, 1], [4, 5, 5]))
    assert phrase_confounders(one, embedded)[1] == ("thing 0", "thing 1")
    assert phrase_confounders(other, embedded)[1] == ("thing 5", "thing 4")


def test_centres_are_where_frames_are() -> None:
    """Three heaps of frames, padding far from all; each centre is the mean direction of one."""
    heaps = np.eye(D, dtype=np.float32)[:3]
    frames = heaps[np.random.default_rng(0).integers(0, 3, (40, 5))] + 0.01 * unit(40, 5, D, seed=2)
    mask = np.arange(5) < np.random.default_rng(1).integers(1, 6, (40, 1))
    found = frame_confounders(videos(frames, mask), 3)
    assert found.shape == (3, D)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    order = found.argmax(1)
    assert sorted(order) == [0, 1, 2]
    assert (found[np.arange(3), order] > 0.999).all()


def test_centres_are_seeded_and_no_more_than_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    few = videos(np.repeat(unit(2, 1, D), 3, axis=1))
    with pytest.raises(UsageError, match="number of confounders is 0"):
        frame_confounders(few, 0)
    assert len(frame_confounders(few, 256)) == 2
    still = videos(np.repeat(unit(3, 1, D), 50, axis=1))  # far more frames than distinct ones
    found = frame_confounders(still, 10)
    assert sorted((found @ still.frames[:, 0].T).argmax(1)) == [0, 1, 2]
    monkeypatch.setattr(titan_correction, "MOST_FRAMES", 30)
    many = videos(unit(20, 4, D))
    one, other, third = (frame_confounders(many, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_a_file_of_any_kind_is_read_and_brought_to_unit_length(tmp_path: Path) -> None:
    """Half precision that numpy has not, too."""
    table = np.arange(1, 13, dtype=np.float64).reshape(4, 3)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "a.npz", anything=table.astype(np.float16))
    save_file({"c": table.astype(np.float32)}, tmp_path / "a.safetensors")
    for suffix in titan_correction.SUFFIXES:
        found = read_confounders(tmp_path / f"a{suffix}")
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, table / np.sqrt((table**2).sum(1))[:, None], atol=1e-6)
    torch_file({"c": torch.tensor([[3.0, 4.0]], dtype=torch.bfloat16)}, tmp_path / "a.safetensors")
    np.testing.assert_allclose(read_confounders(tmp_path / "a.safetensors"), [[0.6, 0.8]], atol=1e-6)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (np.ones(3), r"an array of float64 with the shape \(3,\); confounders are N rows"),
        (np.ones((0, 3)), "confounders are N rows of d numbers"),
        (np.array([["a"]]), "an array of <U1"),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), "Row 1 of .* is zero or not all numbers"),
        (np.array([[0.0, 0.0]]), "Row 0 of .* is zero or not all numbers"),
        (np.array([[1j]]), "an array of complex128"),
    ],
)
def test_a_table_that_is_none_is_refused(table: np.ndarray, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", table)
    with pytest.raises(UsageError, match=sentence):
        read_confounders(tmp_path / "a.npy")


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "pickled.npy", np.array([{}], object))
    np.savez(tmp_path / "two.npz", a=np.ones((1, 2)), b=np.ones((1, 2)))
    (tmp_path / "torn.safetensors").write_bytes(b"\xff" * 20)
    for name, sentence in (
        ("pickled.npy", "cannot be read"),
        ("two.npz", r"holds 2 arrays \(a, b\); give a file with one"),
        ("torn.safetensors", "cannot be read"),
        ("not_there.npy", "cannot be read"),
        ("table.csv", "ends in none of .npy, .npz, .safetensors"),
    ):
        with pytest.raises(UsageError, match=sentence):
            read_confounders(tmp_path / name)
