"""Embedded dictionaries, the phrases nearest to clips, and the folder that keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given as for_all
from hypothesis import strategies
from numpy.typing import NDArray

from evenreel.errors import FeaturesError, UsageError
from evenreel.features import scene_elements
from evenreel.features.scene_elements import (
    EmbeddedDictionary,
    clip_means,
    element_table,
    embed,
    embeddings_path,
    load_dictionary,
    load_embedded,
    remove_dictionary,
    save_dictionary,
    save_elements,
    save_embedded,
    top_of_means,
)
from evenreel.language.scene_elements import SceneDictionary, given
from evenreel.types import VideoFeatures
from tests.features.pixel_encoder import PixelEncoder

PHRASES = SceneDictionary(
    ("ball", "red ball", "dog"), ("run", "kick ball"), (9, 4, 2), (5, 1), 12, "captions", ("train",)
)


def embedded_of(entities: NDArray[Any], activities: NDArray[Any]) -> EmbeddedDictionary:
    names = given([f"e{n}" for n in range(len(entities))], [f"a{n}" for n in range(len(activities))])
    return EmbeddedDictionary(names, entities.astype(np.float32), activities.astype(np.float32), "x", "h" * 64)


def videos_of(frames: NDArray[Any], mask: NDArray[np.bool_]) -> VideoFeatures:
    return VideoFeatures(tuple(f"v{n}" for n in range(len(frames))), frames, mask, np.zeros(mask.shape))


def slow_top(frames: NDArray[Any], mask: NDArray[np.bool_], phrases: NDArray[Any], count: int) -> list[list[int]]:
    """By loops: equal scores in the order of the dictionary."""
    found = []
    for rows, real in zip(frames, mask, strict=True):
        seen = [row for row, there in zip(rows, real, strict=True) if there]
        mean = [sum(float(row[d]) for row in seen) / len(seen) for d in range(frames.shape[2])]
        length = sum(x * x for x in mean) ** 0.5
        scores = [sum(x * float(y) for x, y in zip(mean, phrase, strict=True)) / length for phrase in phrases]
        found.append(sorted(range(len(scores)), key=lambda n: (-scores[n], n))[:count])
    return found


@for_all(strategies.integers(0, 10_000), strategies.integers(1, 7), strategies.integers(1, 200))
def test_the_nearest_are_those_of_slow_loops(seed: int, count: int, at_once: int) -> None:
    """Also in blocks of any size; padding holds numbers that must not matter."""
    random = np.random.default_rng(seed)
    frames, mask = random.normal(size=(5, 3, 4)), random.random((5, 3)) < 0.6
    mask[:, 0] = True
    own = embedded_of(random.normal(size=(6, 4)), random.normal(size=(3, 4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene_elements, "_AT_ONCE_BYTES", at_once)
        top = top_of_means(clip_means(videos_of(frames, mask)), own, count)
    assert top.entities.tolist() == slow_top(frames, mask, own.entities, count)
    assert top.activities.tolist() == slow_top(frames, mask, own.activities, count)
    assert (np.diff(top.entity_scores, axis=1) <= 0).all()
    assert top.entities.shape == (5, min(count, 6))
    assert np.abs(top.activity_scores).max() < 10


def test_equal_scores_go_by_the_order_of_the_dictionary() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    top = top_of_means(np.array([[2.0, 0.0]], np.float32), embedded_of(rows, rows[:1]), 4)
    assert (top.clip_ids, top.entities.tolist(), top.entity_scores.tolist()) == (("0",), [[1, 3, 0, 2]], [[1, 1, 0, 0]])


def test_what_has_no_direction_is_refused() -> None:
    frames = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    with pytest.raises(FeaturesError, match="features of '0' have no direction"):
        top_of_means(clip_means(videos_of(frames, np.ones((1, 2), np.bool_))), embedded_of(np.eye(2), np.eye(2)), 1)


def test_wrong_calls_are_refused() -> None:
    own = embedded_of(np.eye(2), np.eye(2))
    with pytest.raises(UsageError, match="elements is 0"):
        top_of_means(np.ones((1, 2), np.float32), own, 0)
    with pytest.raises(FeaturesError, match="features of 3 numbers and the dictionary of 2"):
        top_of_means(np.ones((1, 3), np.float32), own, 1)
    with pytest.raises(FeaturesError, match="of 1 entities and 2 activities, and the dictionary has 2 and 2"):
        EmbeddedDictionary(own.dictionary, own.entities[:1], own.activities, "x", "h")


def test_embedding_is_the_sentence_of_each_phrase() -> None:
    encoder = PixelEncoder()
    own = embed(PHRASES, encoder)
    assert np.allclose(own.entities[1:2], encoder.encode_text(["red ball"]).sentence, atol=1e-6)
    assert np.allclose(own.activities[:1], encoder.encode_text(["run"]).sentence, atol=1e-6)
    assert (own.entities.dtype, own.encoder_id, own.weights_hash) == (np.float32, encoder.encoder_id, "a" * 64)


def test_a_folder_keeps_a_dictionary_and_its_embeddings(tmp_path: Path) -> None:
    own = embed(PHRASES, PixelEncoder())
    path = save_embedded(own, tmp_path)
    save_embedded(embed(PHRASES, PixelEncoder("b" * 64)), tmp_path)
    back = load_embedded(tmp_path, "a" * 64)
    assert back.dictionary == PHRASES
    assert path == embeddings_path(tmp_path, "a" * 64)
    assert np.array_equal(back.entities, own.entities)
    assert np.array_equal(back.activities, own.activities)
    table = pl.read_parquet(tmp_path / "dictionary.parquet")
    assert table.rows()[:2] == [("entity", "ball", 9), ("entity", "red ball", 4)]


def test_a_dictionary_without_counts_comes_back_without(tmp_path: Path) -> None:
    lists = given(["ball"], [])
    save_dictionary(lists, tmp_path)
    assert load_dictionary(tmp_path) == lists


def test_a_dictionary_of_one_kind_is_kept_embedded_and_looked_for(tmp_path: Path) -> None:
    own = embed(given(["red ball", "dog"], []), PixelEncoder())
    save_embedded(own, tmp_path)
    back = load_embedded(tmp_path, "a" * 64)
    assert (back.dictionary, back.activities.shape) == (own.dictionary, (0, own.entities.shape[1]))
    top = top_of_means(own.entities, back, 5)
    assert (top.entities[:, 0].tolist(), top.activities.shape) == ([0, 1], (2, 0))
    assert element_table(top, back.dictionary)["kind"].unique().to_list() == ["entity"]


def test_a_dictionary_is_removed_with_what_was_made_of_it(tmp_path: Path) -> None:
    own = embed(PHRASES, PixelEncoder())
    save_embedded(own, tmp_path)
    save_elements(top_of_means(own.entities, own, 1), PHRASES, tmp_path, {"rule": "x"})
    others = [tmp_path / "clips-train.parquet", tmp_path / "embeddings" / "mine.safetensors"]
    for path in others:
        path.write_bytes(b"another's")
    remove_dictionary(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(others)
    remove_dictionary(tmp_path)  # nothing is there any more


def test_other_encoders_and_other_dictionaries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FeaturesError, match="no scene dictionary"):
        load_dictionary(tmp_path)
    path = save_embedded(embed(PHRASES, PixelEncoder()), tmp_path)
    with pytest.raises(FeaturesError, match="no embeddings by the encoder of these features"):
        load_embedded(tmp_path, "c" * 64)
    path.rename(embeddings_path(tmp_path, "c" * 64))
    with pytest.raises(FeaturesError, match="are of another encoder"):
        load_embedded(tmp_path, "c" * 64)
    embeddings_path(tmp_path, "c" * 64).rename(path)
    save_dictionary(given(["ball", "cat", "dog"], ["run", "sit"]), tmp_path)
    with pytest.raises(FeaturesError, match="are of another dictionary"):
        load_embedded(tmp_path, "a" * 64)


def test_damage_is_told(tmp_path: Path) -> None:
    path = save_embedded(embed(PHRASES, PixelEncoder()), tmp_path)
    payload = bytearray(path.read_bytes())
    payload[-1] ^= 1
    path.write_bytes(payload)
    with pytest.raises(FeaturesError, match="embeddings in .* are damaged"):
        load_embedded(tmp_path, "a" * 64)
    record = tmp_path / "dictionary.json"
    fields = json.loads(record.read_text())
    for wrong, said in (
        ({"format": 99}, "made by a later version"),
        ({"digest": "0"}, "of another dictionary than dictionary.parquet"),
        ({"splits": None}, "is damaged"),
    ):
        record.write_text(json.dumps(fields | wrong))
        with pytest.raises(FeaturesError, match=said):
            load_dictionary(tmp_path)


def test_the_table_of_clips(tmp_path: Path) -> None:
    own = embedded_of(np.eye(2), np.eye(2))
    frames = np.array([[[1.0, 0.0]], [[0.6, 0.8]]])
    top = top_of_means(frames[:, 0].astype(np.float32), own, 1, ("v0", "v1"))
    table = element_table(top, own.dictionary)
    kept = [(clip, kind, rank, phrase, round(score, 4)) for clip, kind, rank, phrase, score in table.rows()]
    assert kept == [
        ("v0", "entity", 1, "e0", 1.0),
        ("v1", "entity", 1, "e1", 0.8),
        ("v0", "activity", 1, "a0", 1.0),
        ("v1", "activity", 1, "a1", 0.8),
    ]
    path = save_elements(top, own.dictionary, tmp_path, {"rule": "x", "windows": None})
    assert pl.read_parquet(path).equals(table)
    assert save_elements(top, own.dictionary, tmp_path, {"rule": "y", "windows": None}) != path


def test_the_mean_is_of_real_frames_alone() -> None:
    frames = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [9.0, 9.0]]], np.float16)
    mask = np.array([[True, True], [True, False]])
    videos = VideoFeatures(("a", "b"), frames, mask, np.zeros((2, 2)))
    found = clip_means(videos)
    assert found.dtype == np.float32
    assert found.tolist() == [[0.5, 0.5], [1.0, 0.0]]
