"""Pixels and words through the towers: as the frozen encoder while they are frozen, and learning when they may."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evenreel.cli.train import inputs_of
from evenreel.corpus import load_corpus, select
from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, tokenise
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.features import SetAside
from evenreel.training import Recipe
from evenreel.training.batches import Draw, FeatureExamples, Order, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import load_material
from evenreel.training.pixels import ClipVideo, PixelExamples, augmented, crop_box, read_frames
from evenreel.types import TextFeatures, VideoFeatures
from tests.training.conftest import BROKEN
from tests.training.loop.test_run import figures_of, weights_of
from tests.training.small_material import small_recipe
from tests.training.train_once import CONTEXT

RULE = "3 midpoints"


def end_to_end(corpus: Path, model: Path, **changes: Any) -> Recipe:
    backbone = {"model": str(model), "train": False, "rule": RULE, **changes.pop("backbone", {})}
    data = {"corpus": str(corpus), "features": None}
    return small_recipe(data=data, backbone=backbone, loop={"batch_size": 4, "epochs": 2}, **changes)


def encoded(loaded: TrainingInputs, model: Path) -> TrainingInputs:
    """The same examples as features of the frozen encoder, in float32."""
    pixels = loaded.examples
    assert isinstance(pixels, PixelExamples)
    encoder = load_encoder(str(model), device="cpu")
    frames = np.zeros((len(pixels.files), 3, encoder.dimension), np.float32)
    times_s = np.zeros((len(pixels.files), 3))
    for row, file in enumerate(pixels.files):
        pictures, times = read_frames(file, RULE)
        frames[row] = encoder.encode_windows(np.concatenate(pictures)[:, None])
        times_s[row] = times
    corpus = select(load_corpus(pixels.files[0].path.parent), split="train")
    captions = corpus.captions
    text = encoder.encode_text(captions["text"].to_list())
    texts = TextFeatures(tuple(captions["caption_id"]), text.words, text.word_mask, text.sentence)
    videos = VideoFeatures(tuple(file.clip_id for file in pixels.files), frames, np.ones(times_s.shape, bool), times_s)
    return TrainingInputs(FeatureExamples(pairs_of(corpus, texts.ids, videos.ids), texts, videos), encoder.dimension)


def in_half(material: TrainingInputs) -> TrainingInputs:
    """The features as they are stored, in float16."""
    examples = material.examples
    assert isinstance(examples, FeatureExamples)
    texts, videos = examples.text_features, examples.video_features
    return replace(
        material,
        examples=FeatureExamples(
            examples.pairs,
            replace(texts, words=texts.words.astype(np.float16), sentence=texts.sentence.astype(np.float16)),
            replace(videos, frames=videos.frames.astype(np.float16)),
        ),
    )


def test_with_frozen_towers_it_is_training_on_features(tmp_path: Path, corpus_folder: Path, clip_folder: Path) -> None:
    """Within 1e-4 on the encoder's own features; as far as float16 rounds (5e-4 of a feature) on stored ones."""
    recipe = end_to_end(corpus_folder, clip_folder, matcher={"name": "wti"}, optimiser={"eps": 1e-3})
    loaded = load_material(recipe)
    through_towers = train(recipe, replace(loaded, validation=None), tmp_path / "towers")
    features = encoded(loaded, clip_folder)
    frozen = {
        "exact": weights_of(train(recipe, features, tmp_path / "exact")),
        "stored": weights_of(train(recipe, in_half(features), tmp_path / "stored")),
    }
    for name, tensor in weights_of(through_towers).items():
        torch.testing.assert_close(frozen["exact"][name], tensor, rtol=1e-4, atol=1e-4, msg=name)
        torch.testing.assert_close(frozen["stored"][name], tensor, rtol=5e-3, atol=5e-3, msg=name)
    losses = [list(figures_of(tmp_path / name, "loss/contrastive").values()) for name in ("towers", "exact", "stored")]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert losses[2] == pytest.approx(losses[0], abs=2e-2)  # 100 times the similarity goes into the loss


@pytest.fixture(scope="module")
def loaded(corpus_folder: Path, clip_folder: Path) -> TrainingInputs:
    """For tests that only look at it."""
    return load_material(end_to_end(corpus_folder, clip_folder))


@pytest.fixture(scope="module")
def examples(loaded: TrainingInputs) -> PixelExamples:
    assert isinstance(loaded.examples, PixelExamples)
    return loaded.examples


def test_a_clip_that_cannot_be_read_is_set_aside_with_its_captions(loaded: TrainingInputs) -> None:
    assert [(one.clip_id, one.reason) for one in loaded.set_aside] == [(BROKEN, "not_media")]
    pairs = loaded.examples.pairs
    assert BROKEN not in pairs.clip_ids
    assert len(pairs) == 10
    assert loaded.selected is not None
    assert loaded.selected.clips.height == 4


def test_a_clip_is_looked_at_from_its_start(examples: PixelExamples) -> None:
    row = examples.pairs.clip_ids.index("v1")  # from 0.5 s on, of 1.25 s
    assert examples.videos(np.array([row])).times_s[0].tolist() == pytest.approx([0.0, 0.25, 0.5])


def test_a_clip_that_vanishes_in_training_is_named(tmp_path: Path, examples: PixelExamples) -> None:
    gone = replace(examples.files[0], path=tmp_path / "gone.mp4")
    with pytest.raises(MediaError, match="The clip v0 .*gone.mp4"):
        replace(examples, files=(gone, *examples.files[1:])).videos(np.array([0]))


def test_more_frames_than_the_matcher_takes(tmp_path: Path, corpus_folder: Path, loaded: TrainingInputs) -> None:
    """A rule by time does not say how many; the clips were counted when they were checked."""
    examples = loaded.examples
    assert isinstance(examples, PixelExamples)
    assert {file.frames for file in examples.files} == {3}
    longer = replace(examples, files=(*examples.files[:-1], replace(examples.files[-1], frames=9)))
    recipe = end_to_end(
        corpus_folder, Path("model"), adapter=None, matcher={"name": "x_clip", "settings": {"max_frames": 8}}
    )
    train_by_it = replace(loaded, examples=longer)
    with pytest.raises(UsageError, match="A clip has 9 frames.* built for 8"):
        train(recipe, train_by_it, tmp_path / "run")


def test_a_split_without_a_clip_that_can_be_read(
    corpus_folder: Path, clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reason mostly is that of all."""

    def none_read(files: list[ClipVideo], *rest: Any) -> tuple[list[ClipVideo], list[SetAside]]:
        ids = [file.clip_id for file in files]
        return [], [SetAside(clip_id, f"{clip_id}.mp4", "unreadable", "there is no such file") for clip_id in ids]

    monkeypatch.setattr("evenreel.training.pixels.readable", none_read)
    sentence = (
        r"Not one of the 4 clips of a split can be used: v6 \(v6.mp4\): there is no such file; check data.videos.$"
    )
    with pytest.raises(CorpusError, match=sentence):
        load_material(end_to_end(corpus_folder, clip_folder))


def tower_weights(material: TrainingInputs) -> dict[str, Tensor]:
    assert material.towers is not None
    return {name: tensor.clone() for name, tensor in material.towers.model.named_parameters()}


def test_towers_learn_but_for_what_is_frozen(tmp_path: Path, corpus_folder: Path, clip_folder: Path) -> None:
    recipe = end_to_end(
        corpus_folder,
        clip_folder,
        backbone={"train": True, "frozen": ["vision_model.embeddings.*"], "augment": "crop_and_flip"},
        optimiser={"backbone_lr": 1e-3},
    )
    material = load_material(recipe)
    before = tower_weights(material)
    train(recipe, material, tmp_path / "run")
    changed = {name for name, tensor in tower_weights(material).items() if not torch.equal(tensor, before[name])}
    assert {"visual_projection.weight", "text_projection.weight"} <= changed
    assert not [name for name in changed if name.startswith("vision_model.embeddings") or name == "logit_scale"]


def test_recalculated_layers_give_the_same_gradients(tmp_path: Path, corpus_folder: Path, clip_folder: Path) -> None:
    ends, calls = [], []
    for sparing in (False, True):
        backbone = {"train": True, "gradient_checkpointing": sparing}
        recipe = end_to_end(corpus_folder, clip_folder, backbone=backbone, optimiser={"backbone_lr": 1e-3})
        material = replace(load_material(recipe), validation=None)
        assert material.towers is not None
        seen: list[int] = []
        layer = material.towers.model.vision_model.encoder.layers[0].mlp
        layer.register_forward_pre_hook(lambda *of_call, seen=seen: seen.append(1))
        train(recipe, material, tmp_path / str(sparing))
        ends.append(tower_weights(material))
        calls.append(len(seen))
    assert calls[1] == 2 * calls[0]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=1e-5, atol=1e-6, msg=name)


def test_a_pattern_that_fits_nothing(corpus_folder: Path, clip_folder: Path) -> None:
    with pytest.raises(UsageError, match="No parameter of the backbone fits 'visual.conv1'"):
        load_material(end_to_end(corpus_folder, clip_folder, backbone={"frozen": ["visual.conv1"]}))


@pytest.mark.slow
def test_a_clip_that_vanishes_from_a_process_that_decodes(
    tmp_path: Path, corpus_folder: Path, clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with its sentence, goes on when it is back, and ends as one without processes or trouble."""
    monkeypatch.setattr("torch.multiprocessing.get_context", lambda method: CONTEXT)
    recipe = end_to_end(corpus_folder, clip_folder, backbone={"augment": "crop"}, records={"save_every_steps": 1})
    loaded = load_material(recipe)
    whole = replace(loaded, validation=None)
    train(recipe, whole, tmp_path / "whole")

    examples = whole.examples
    assert isinstance(examples, PixelExamples)
    first_batch = Order(len(examples.pairs), 4, recipe.loop.seed).rows(0)
    away = min(set(range(len(examples.files))) - set(examples.pairs.clips[first_batch].tolist()))
    moved = tmp_path / "moved.mp4"
    files = tuple(replace(file, path=moved) if row == away else file for row, file in enumerate(examples.files))
    broken = replace(whole, examples=replace(examples, files=files))
    by_others = replace(recipe, loop=replace(recipe.loop, workers=1))
    with pytest.raises(MediaError, match=rf"^The clip {files[away].clip_id} .*moved.mp4.* resume the run.$") as caught:
        train(by_others, broken, tmp_path / "broken")
    assert caught.value.reason == "unreadable"
    shutil.copyfile(examples.files[away].path, moved)
    train(by_others, broken, tmp_path / "broken", RunHooks(resume=True))
    assert (tmp_path / "broken" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def test_random_parts_depend_on_seed_batch_and_clip_alone(examples: PixelExamples) -> None:
    cut = replace(examples, augment="crop_and_flip")
    both, alone = cut.videos(np.array([0, 1]), Draw(3, 7)).pixels, cut.videos(np.array([1]), Draw(3, 7)).pixels
    assert torch.equal(both[3:], alone)
    assert not torch.equal(alone, cut.videos(np.array([1]), Draw(3, 8)).pixels)


def test_what_is_selected_on_is_never_cut_at_random(corpus_folder: Path, clip_folder: Path) -> None:
    material = load_material(end_to_end(corpus_folder, clip_folder, backbone={"augment": "crop"}))
    assert isinstance(material.examples, PixelExamples)
    assert isinstance(material.validation, PixelExamples)
    assert (material.examples.augment, material.validation.augment) == ("crop", "none")
    drawn = (material.validation.videos(np.array([1]), draw).pixels for draw in (None, Draw(3, 7), Draw(3, 8)))
    first, *others = drawn
    assert all(torch.equal(first, other) for other in others)


def test_all_frames_of_a_clip_are_cut_and_mirrored_alike(clip_folder: Path) -> None:
    towers = load_encoder(str(clip_folder), device="cpu")._towers
    still = np.broadcast_to(np.arange(60, dtype=np.uint8) * 4, (1, 3, 40, 60))  # brighter to the right
    mirrored = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        parts = augmented([still] * 3, towers.checkpoint.preprocessing, random, flip=True)
        assert parts.shape == (3, 3, 32, 32)
        assert all(torch.equal(parts[0], part) for part in parts)
        mirrored += bool(parts[0, 0, 0, 0] > parts[0, 0, 0, -1])
    assert 5 <= mirrored <= 15


@pytest.mark.parametrize("train", [True, False])
def test_towers_that_learn_nothing_stay_in_evaluation_mode(clip_folder: Path, train: bool) -> None:
    towers = load_towers(open_checkpoint(clip_folder), torch.device("cpu"), "float32")
    trainable = TrainableTowers(towers, train=train)
    around = torch.nn.ModuleList([trainable]).train()
    assert {part.training for part in trainable.modules()} == {train}
    assert {parameter.requires_grad for parameter in trainable.model.visual_projection.parameters()} == {train}
    around.eval()
    assert not any(part.training for part in trainable.modules())


@pytest.mark.parametrize(("height", "width"), [(48, 64), (300, 20), (20, 300), (1, 1)])
def test_a_part_lies_inside(height: int, width: int) -> None:
    for seed in range(50):
        top, left, down, across = crop_box(height, width, np.random.default_rng(seed))
        assert 0 <= top <= top + down <= height
        assert 0 <= left <= left + across <= width
        assert min(down, across) > 0


def test_a_checkpoint_notes_the_longest_caption_and_clip(
    loaded: TrainingInputs, examples: PixelExamples, clip_folder: Path
) -> None:
    """As it was read: captions of SigLIP have the full length whatever `backbone.max_words` is."""
    recipe = end_to_end(Path("corpus"), clip_folder, backbone={"max_words": 40})
    tokenizer = load_towers(open_checkpoint(clip_folder), torch.device("cpu"), "float32").tokenizer
    captions = select(load_corpus(examples.files[0].path.parent), split="train").captions["text"]
    noted = inputs_of(recipe, loaded)
    assert noted.words == max(len(tokenizer(text)["input_ids"]) for text in captions)
    assert noted.frames == 3  # by the rule, of every clip
    of_siglip = replace(examples, tokens=TokenIds(examples.tokens.ids, torch.ones(len(captions), 64, dtype=torch.bool)))
    assert inputs_of(recipe, replace(loaded, examples=of_siglip)).words == 64


def test_captions_are_cut_as_the_tokenizer_cuts(clip_folder: Path) -> None:
    towers = load_encoder(str(clip_folder), device="cpu")._towers
    captions = ["a red ball rolls over the blue bridge", "a dog", ""]
    cut = tokenise(towers, captions, 6)
    expected = towers.tokenizer(
        captions, padding="longest", truncation=True, max_length=6, return_attention_mask=True, return_tensors="pt"
    )
    assert torch.equal(cut.ids, expected["input_ids"])
    assert torch.equal(cut.mask, expected["attention_mask"].bool())
