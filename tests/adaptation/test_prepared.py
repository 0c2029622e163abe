"""What is kept with a checkpoint: back bit by bit, tied to its weights, and refused where it cannot be trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from evenreel.adaptation.baselines import FlowSettings, fit_flow, source_statistics
from evenreel.adaptation.prepared import (
    Flows,
    Note,
    PreparedSource,
    PrepareSettings,
    _silent,
    _vectors,
    confounders_of,
    load_prepared,
    prepare,
    save_prepared,
)
from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.adaptation.titan_correction import CausalSettings, FitSettings, new_correction
from evenreel.checkpoint import MatcherSpec, load_matcher, save_pretrained
from evenreel.checkpoint.records import read_config
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary
from evenreel.language.scene_elements import SceneDictionary
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.training.batches import FeatureExamples, Pairs
from evenreel.types import TextFeatures, VideoFeatures
from tests.adaptation.shifted import unit
from tests.checkpoint.conftest import DIMENSION, trained

SPEC = MatcherSpec("adapted", {}, (MatcherSpec("mean_pool"),))


def dictionary() -> EmbeddedDictionary:
    phrases = SceneDictionary(("dog", "ball", "tree"), ("run", "fall"), captions=9, splits=("test",))
    return EmbeddedDictionary(phrases, unit(3, DIMENSION, seed=5), unit(2, DIMENSION, seed=6), "org/one", "0f" * 32)


def part(captions: int, clips: int, seed: int = 0) -> FeatureExamples:
    """Captions that lie near their clips, a few words and frames each, padded."""
    rng = np.random.default_rng(seed)
    middle, own = unit(clips, DIMENSION, seed=seed), np.arange(captions) % clips
    sentences = middle[own] + 0.5 * unit(captions, DIMENSION, seed=seed + 1)
    frames = middle[:, None] + 0.5 * unit(clips, 3, DIMENSION, seed=seed + 2)
    mask = np.arange(3) < rng.integers(1, 4, (clips, 1))
    words = np.repeat(sentences[:, None], 2, axis=1)
    q, v = (tuple(f"{kind}{row}" for row in range(size)) for kind, size in (("c", captions), ("v", clips)))
    frames = frames / np.linalg.norm(frames, axis=-1, keepdims=True) * mask[..., None]
    sentences = sentences / np.linalg.norm(sentences, axis=-1, keepdims=True)
    return FeatureExamples(
        Pairs(q, v, np.arange(captions), own, np.arange(captions)),
        TextFeatures(q, words, np.ones(words.shape[:2], bool), sentences),
        VideoFeatures(v, frames, mask, np.zeros(mask.shape)),
    )


@pytest.fixture(scope="module")
def prepared() -> PreparedSource:
    rows = torch.from_numpy(unit(40, DIMENSION, seed=1))
    flow = FlowSettings(layers=2, hidden=5, steps=3)
    correction = new_correction(DIMENSION, torch.from_numpy(unit(5, 7)), CausalSettings(eta=4, hidden=6), 3)
    note = Note("msrvtt", "train", 40, 20, "elements", ("dog", "run"), 3, {"bce_start": 0.7})
    flows = Flows(fit_flow(rows, flow), fit_flow(rows.flip(0), replace(flow, layers=0)))
    return PreparedSource(correction, source_statistics(rows, rows[:30]), flows, dictionary(), note)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_pretrained(tmp_path / "checkpoint", trained(SPEC))
    return tmp_path / "checkpoint"


def test_it_comes_back_bit_by_bit(prepared: PreparedSource, folder: Path) -> None:
    state = torch.random.get_rng_state()
    assert save_prepared(folder, prepared) == folder / "source"
    files = {path.name: path.read_bytes() for path in (folder / "source").iterdir()}
    assert files.keys() == {"config.json", "prepared.safetensors"}
    assert files == {path.name: path.read_bytes() for path in save_prepared(folder, prepared).iterdir()}
    found = load_prepared(folder)
    assert torch.equal(state, torch.random.get_rng_state())
    assert found is not None and found.correction is not None and prepared.correction is not None
    assert found.correction.settings == prepared.correction.settings
    for name, tensor in prepared.correction.state_dict().items():
        assert torch.equal(tensor, found.correction.state_dict()[name])
    rows = torch.from_numpy(unit(6, DIMENSION, seed=9))
    assert torch.equal(found.correction.logits(rows, rows), prepared.correction.logits(rows, rows))
    assert found.statistics is not None and prepared.statistics is not None
    for name, tensor in prepared.statistics.tensors().items():
        assert torch.equal(tensor, found.statistics.tensors()[name])
    assert found.flows is not None and prepared.flows is not None
    for one, other in zip(found.flows, prepared.flows, strict=True):
        assert torch.equal(one.log_prob(rows), other.log_prob(rows))
    assert found.note == prepared.note
    assert found.dictionary is not None and found.dictionary.dictionary == dictionary().dictionary
    np.testing.assert_array_equal(found.dictionary.activities, dictionary().activities)
    assert found.uses == dictionary().dictionary.uses != ()


def test_parts_that_are_not_there_stay_away(folder: Path) -> None:
    assert load_prepared(folder) is None
    save_prepared(folder, PreparedSource())
    assert vars(load_prepared(folder)) == vars(PreparedSource())


def test_the_matcher_still_loads_and_a_later_checkpoint_takes_the_place_of_both(
    prepared: PreparedSource, folder: Path
) -> None:
    save_prepared(folder, prepared)
    again = load_matcher(folder)
    save_pretrained(folder, again)
    assert load_prepared(folder) is None


def test_other_weights_are_refused(prepared: PreparedSource, folder: Path, tmp_path: Path) -> None:
    save_prepared(folder, prepared)
    other = trained(SPEC)
    with torch.no_grad():
        other.matcher.logit_scale.add_(0.1)
    save_pretrained(tmp_path / "other", other)
    (folder / "source").rename(tmp_path / "other" / "source")
    with pytest.raises(CheckpointError, match="was prepared with other weights than those beside it; make it again"):
        load_prepared(tmp_path / "other")


def edited(**changes: object) -> Callable[[Path], object]:
    """The record with other values; None leaves one out."""

    def edit(place: Path) -> None:
        record = json.loads((place / "config.json").read_text()) | changes
        (place / "config.json").write_text(json.dumps({name: value for name, value in record.items() if value}))

    return edit


def torn(place: Path) -> None:
    path = place / "prepared.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (torn, "is not what was saved"),
        (lambda place: (place / "prepared.safetensors").unlink(), "cannot be read"),
        (edited(format=2), "has format 2, this version reads up to 1; update evenreel"),
        (lambda place: (place / "config.json").write_text("{"), "config.json cannot be read"),
        (edited(prepared_sha256=None), "has no prepared_sha256"),
        (edited(correction={"dimension": 16, "settings": {"eta": 4, "hidden": 7}}), r"was edited \(RuntimeError"),
        (edited(correction={"dimension": 16, "settings": {"spin": 1}}), r"is damaged or was edited \(TypeError"),
        (edited(dictionary=["dog"]), r"is damaged or was edited \(AttributeError"),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    harm: Callable[[Path], object], sentence: str, prepared: PreparedSource, folder: Path
) -> None:
    harm(save_prepared(folder, prepared))
    with pytest.raises(CheckpointError, match=sentence):
        load_prepared(folder)


def test_there_must_be_a_checkpoint_and_a_write_that_fails_leaves_the_old(
    prepared: PreparedSource, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        save_prepared(tmp_path, prepared)
    save_prepared(folder, prepared)
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(CheckpointError, match="source cannot be written: No space left"):
        save_prepared(folder, replace(prepared, note=Note("other")))
    monkeypatch.undo()
    assert load_prepared(folder).note.corpus == "msrvtt"
    assert not list(folder.glob(".source*"))


def test_a_checkpoint_that_was_replaced_meanwhile_keeps_nothing_of_other_weights(
    prepared: PreparedSource, folder: Path
) -> None:
    weights = read_config(folder / "config.json").weights_sha256
    save_prepared(folder, prepared, weights)
    with pytest.raises(CheckpointError, match="has other weights than those that were prepared; prepare it again"):
        save_prepared(folder, replace(prepared, note=Note("other")), "00" * 32)
    assert load_prepared(folder).note.corpus == "msrvtt"


def test_the_targets_confounders_are_found_as_the_sources_were(prepared: PreparedSource) -> None:
    videos = part(8, 6).video_features
    phrases = prepared.target_confounders(videos)
    rows = torch.from_numpy(np.concatenate([dictionary().entities, dictionary().activities]))
    assert ((phrases @ rows.T).amax(1) > 0.9999).all()
    centres = PreparedSource(prepared.correction, note=Note(confounders="kmeans")).target_confounders(videos)
    assert centres.shape == (5, DIMENSION)
    from_file = PreparedSource(note=Note(confounders="file"))
    assert from_file.target_confounders(videos, np.eye(3, dtype=np.float32)).equal(torch.eye(3))
    with pytest.raises(UsageError, match="were read from a file, and those of the target cannot be found the same way"):
        from_file.target_confounders(videos)
    with pytest.raises(UsageError, match="have 3 numbers each and the source's 7; take both by one method"):
        replace(from_file, correction=prepared.correction).target_confounders(videos, np.eye(3, dtype=np.float32))


def test_vectors_are_those_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    source, matcher = part(11, 5), trained(SPEC).matcher
    monkeypatch.setattr("evenreel.adaptation.prepared.AT_ONCE", 2)
    q, v = _vectors(matcher, source, _silent)
    torch.testing.assert_close(q, text_vectors(matcher, text_batch(source.text_features)).detach())
    torch.testing.assert_close(v, video_vectors(matcher, video_batch(source.video_features)).detach())
    assert not q.requires_grad


def test_preparing_fits_all_and_leaves_the_matcher_alone() -> None:
    source, pretrained = part(60, 30), trained(SPEC)
    before = {name: tensor.clone() for name, tensor in pretrained.matcher.state_dict().items()}
    settings = PrepareSettings(
        causal_fit=FitSettings(steps=30), flow=FlowSettings(layers=2, steps=30, held_out=0.0), seed=4
    )
    found = confounders_of(source.video_features, None, 4)
    made = [prepare(pretrained.matcher, source, found, settings, part(20, 10, seed=8)) for _ in range(2)]
    assert all(torch.equal(before[name], tensor) for name, tensor in pretrained.matcher.state_dict().items())
    assert made[0].note == made[1].note
    figures = made[0].note.figures
    assert figures["bce_end"] < figures["bce_start"]
    assert figures["flow_text"] < figures["gaussian_text"]
    assert {"validation_accuracy", "first_cosine", "first_corrected"} <= figures.keys()
    assert all(math.isfinite(value) for value in figures.values())
    assert (made[0].note.captions, made[0].note.clips, made[0].note.seed) == (60, 30, 4)
    q, _ = _vectors(pretrained.matcher, source, _silent)
    mean = made[0].statistics.text.mean
    torch.testing.assert_close(mean, q.mean(0))
    torch.testing.assert_close(torch.linalg.norm(made[0].correction.source, dim=1), torch.ones(4))
    assert F.cosine_similarity(mean[None], q).mean() > 0


def test_a_split_that_nothing_can_be_measured_on_is_refused_before_anything_is_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evenreel.adaptation.prepared.fit_source", lambda *_: pytest.fail("it was fitted"))
    source = part(20, 10)
    found = confounders_of(source.video_features, None, 4)
    with pytest.raises(UsageError, match="In the validation split every caption describes every clip"):
        prepare(trained(SPEC).matcher, source, found, validation=part(3, 1, seed=8))
