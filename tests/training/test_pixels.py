"""Pixels and words through the towers: which clips can be read, frozen towers as the encoder, and what is on screen."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.cli.train import inputs_of
from evenreel.corpus import load_corpus, save_texts, select
from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, tokenise
from evenreel.errors import CorpusError, FeaturesError, MediaError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FoundClips, SetAside, find_clips
from evenreel.features.windows import TEMPLATE
from evenreel.matchers import build_matcher
from evenreel.media.sampling import Part
from evenreel.training import pixels
from evenreel.training.batches import Draw, FeatureExamples, Order, TrainingInputs, WindowTokens, pairs_of
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import load_material
from evenreel.training.module import RetrievalModule
from evenreel.training.pixels import ClipVideo, PixelExamples, augmented, crop_box, read_frames, readable
from evenreel.training.recipe import Recipe, recipe_from, recipe_text
from evenreel.training.run_folder import CLIPS_READ, claim
from evenreel.types import ScoreBlocks, Scores, TextFeatures, VideoFeatures
from tests.tiny_checkpoints import WORDS, tiny_siglip
from tests.training.conftest import BROKEN
from tests.training.small_material import figures_of, small_recipe, weights_of
from tests.training.small_signs import RULE, SIGNS, WINDOWS, signs_of
from tests.training.train_once import CONTEXT


def end_to_end(corpus: Path, model: Path, **changes: Any) -> Recipe:
    backbone = {"model": str(model), "train": False, "rule": RULE, **changes.pop("backbone", {})}
    data = {"corpus": str(corpus), "features": None} | changes.pop("data", {})
    return small_recipe(data=data, backbone=backbone, **{"loop": {"batch_size": 4, "epochs": 2}, **changes})


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


CHECKED_BY = "2 midpoints"
FRAMES = 2


class FakeWorker:
    """Reads files that say "good", and keeps what it read."""

    read: list[str]
    open = 0

    def __init__(self, *settings: Any) -> None:
        FakeWorker.open += 1

    def run(self, task: dict[str, Any]) -> Iterator[tuple[dict[str, Any], None]]:
        FakeWorker.read.append(Path(task["path"]).name)
        time.sleep(0.01)
        if not Path(task["path"]).exists():
            raise MediaError("unreadable", "No such file")
        if Path(task["path"]).read_text() == "slow":
            raise MediaError("timeout", "it made no progress")
        if Path(task["path"]).read_text() == "bad":
            raise MediaError("damaged", 'it is "bad",\nall of it')
        if Path(task["path"]).read_text() == "good":
            yield from [({"kind": "tick"}, None)] * FRAMES

    def close(self) -> None:
        FakeWorker.open -= 1


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ClipVideo]]:
    monkeypatch.setattr(pixels, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "read", [], raising=False)
    for name, content in (("a", "good"), ("b", "bad"), ("c", "good"), ("d", "empty")):
        (tmp_path / name).write_text(content)
    yield [ClipVideo(f"clip {name}", tmp_path / name, Part()) for name in "abcde"]
    assert FakeWorker.open == 0, "a process was left behind"


def good(clips: list[ClipVideo], names: str) -> list[ClipVideo]:
    """Those clips as they are when they were read."""
    return [replace(clip, frames=FRAMES) for clip in clips if clip.path.name in names]


def reads() -> list[str]:
    """What was read since the last time."""
    done = sorted(FakeWorker.read)
    FakeWorker.read.clear()
    return done


def aside(clips: list[ClipVideo]) -> list[SetAside]:
    reasons = {1: ("damaged", 'it is "bad",\nall of it'), 3: ("no_frames", "no frame of it could be decoded")}
    reasons[4] = ("unreadable", "No such file")
    return [SetAside(clips[row].clip_id, str(clips[row].path), *reasons[row]) for row in reasons]


def test_what_was_found_is_remembered(clips: list[ClipVideo], tmp_path: Path) -> None:
    shares: list[float] = []
    for expected in (list("abcde"), []):
        kept, set_aside = readable(clips, CHECKED_BY, shares.append, tmp_path / "run" / "verdicts.jsonl")
        assert (kept, set_aside) == (good(clips, "ac"), aside(clips))
        assert reads() == expected
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_without_a_file_nothing_is(clips: list[ClipVideo], tmp_path: Path) -> None:
    for _ in range(2):
        assert readable(clips, CHECKED_BY) == (good(clips, "ac"), aside(clips))
        assert reads() == list("abcde")


def test_what_has_changed_is_read_again(clips: list[ClipVideo], tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, CHECKED_BY, verdicts=verdicts)
    reads()
    (tmp_path / "b").write_text("good")
    (tmp_path / "e").write_text("good")
    assert readable(clips, CHECKED_BY, verdicts=verdicts)[0] == good(clips, "abce")
    assert reads() == ["b", "e"]
    readable(clips[:1], "3 midpoints", verdicts=verdicts)
    readable([ClipVideo("a", clips[0].path, Part(1.0))], CHECKED_BY, verdicts=verdicts)
    readable([ClipVideo("a", clips[0].path, Part(1.0, 2.0))], CHECKED_BY, verdicts=verdicts)
    assert reads() == ["a", "a", "a"]


def test_a_line_that_a_crash_cut_short_is_forgotten(clips: list[ClipVideo], tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, CHECKED_BY, verdicts=verdicts)
    reads()
    verdicts.write_bytes(verdicts.read_bytes()[:-7])
    for expected in (["e"], []):
        assert readable(clips, CHECKED_BY, verdicts=verdicts) == (good(clips, "ac"), aside(clips))
        assert reads() == expected


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"7", b'["one", 2]', b'["one", null, null, ""]'])
def test_a_damaged_line_is_forgotten(clips: list[ClipVideo], tmp_path: Path, line: bytes) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, CHECKED_BY, verdicts=verdicts)
    reads()
    lines = verdicts.read_bytes().split(b"\n")
    verdicts.write_bytes(b"\n".join([lines[0], line, *lines[2:]]))
    for expected in (["b"], []):
        assert readable(clips, CHECKED_BY, verdicts=verdicts) == (good(clips, "ac"), aside(clips))
        assert reads() == expected


def test_a_passing_trouble_is_looked_at_again_when_a_run_is_begun(clips: list[ClipVideo], tmp_path: Path) -> None:
    """Only then: the processes of other devices have to find what the first one found."""
    verdicts = tmp_path / "run" / CLIPS_READ
    (tmp_path / "c").write_text("slow")
    for expected in (list("abcde"), []):
        kept, set_aside = readable(clips, CHECKED_BY, verdicts=verdicts)
        assert (kept, [one.reason for one in set_aside]) == (
            good(clips, "a"),
            ["damaged", "timeout", "no_frames", "unreadable"],
        )
        assert reads() == expected
    claim(tmp_path / "run", small_recipe(), resume=False)
    readable(clips, CHECKED_BY, verdicts=verdicts)
    assert reads() == ["c", "e"]


def test_those_who_ask_at_once_wait_for_one(clips: list[ClipVideo], tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: readable(clips, CHECKED_BY, verdicts=tmp_path / "verdicts.jsonl"), range(4)))
    assert found == [found[0]] * 4
    assert reads() == list("abcde")


def test_who_interrupts_does_not_wait_for_the_rest(clips: list[ClipVideo], tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        readable(clips * 50, CHECKED_BY, stop)
    assert len(reads()) < 50


AMONG_FRAMES = {"kind": "none", "windows": True}


@pytest.fixture(scope="module")
def signs(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signs_of(corpus_folder, clip_folder, tmp_path_factory.mktemp("signs") / "features")


def reading(corpus: Path, model: Path, signs: Path, **changes: Any) -> Recipe:
    data = {"on_screen": str(signs)} | changes.pop("data", {})
    return end_to_end(corpus, model, data=data, **{"adapter": AMONG_FRAMES, **changes})


def examples_of(recipe: Recipe) -> PixelExamples:
    examples = load_material(recipe).examples
    assert isinstance(examples, PixelExamples)
    return examples


def said(windows: WindowTokens) -> list[list[list[int]]]:
    """The token ids of each window."""
    sentences = [ids[mask].tolist() for ids, mask in zip(*windows.sentences, strict=True)]
    return [[sentences[row] for row in clip] for clip in windows.rows.tolist()]


# What is read --------------------------------------------------------------------------------------------------------


def test_a_batch_holds_each_sentence_once_and_only_its_own(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    material = load_material(reading(corpus_folder, clip_folder, signs))
    examples = material.examples
    assert isinstance(examples, PixelExamples) and material.towers is not None
    ids = examples.pairs.clip_ids
    batch = examples.videos(np.array([ids.index("v4"), ids.index("v2"), ids.index("v0"), ids.index("v2")]))
    assert batch.windows is not None
    tokens = material.towers.towers.tokenizer
    nothing, bridge, ball = tokens(["", *(TEMPLATE.format(words=words) for words in ("bridge", "RED BALL"))])[
        "input_ids"
    ]
    assert said(batch.windows) == [[nothing] * 4, [bridge] * 4, [ball, ball, bridge, bridge], [bridge] * 4]
    assert len(batch.windows.sentences.ids) == 3, "nothing, the bridge, the ball"
    assert batch.windows.mask.tolist() == [[False] * 4, [True] * 4, [True] * 4, [True] * 4]
    assert torch.equal(batch.windows.confidence > 0, batch.windows.mask)
    lengths = batch.windows.sentences.mask.sum(1)
    assert batch.windows.sentences.ids.shape[1] == int(lengths.max()), "padding of other batches takes no room"


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=5), st.data())
def test_some_clips_say_what_they_say_among_all(said: list[list[int]], data: st.DataObject) -> None:
    random = np.random.default_rng(0)
    lengths = np.array([2, 3, 7, 4, 5, 3])
    mask = torch.from_numpy(np.arange(9) < lengths[:, None])
    ids = torch.from_numpy(random.integers(1, 99, mask.shape)).masked_fill(~mask, 0)
    rows = torch.tensor(said)
    windows = WindowTokens(TokenIds(ids, mask), rows, rows / 10, "ocr")
    clips = data.draw(st.lists(st.integers(0, len(said) - 1), min_size=1))
    part = windows.of(np.array(clips))
    for place, clip in enumerate(clips):
        for window, sentence in enumerate(said[clip]):
            own = part.sentences.ids[part.rows[place, window]][part.sentences.mask[part.rows[place, window]]]
            assert torch.equal(own, ids[sentence][mask[sentence]])
            assert bool(part.mask[place, window]) == (sentence > 0)
            assert part.confidence[place, window] == pytest.approx(sentence / 10)
    assert len(part.sentences.ids) == len({0, *(sentence for clip in clips for sentence in said[clip])})
    assert replace(windows, full_length=True).of(np.array(clips)).sentences.ids.shape[1] == 9


def test_texts_are_made_for_the_tower_that_reads_them(
    corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path
) -> None:
    """The features of another encoder, whose tokenizer takes other words of a long sign, say the same to this tower."""
    long = SIGNS.with_columns(
        pl.col("text").replace("train 7", " ".join(f"{word}{n}" for n in range(4) for word in WORDS))
    )
    by_siglip = tiny_siglip(tmp_path / "siglip")
    folders = [tmp_path / "clip features", tmp_path / "siglip features"]
    for folder, model in zip(folders, (clip_folder, by_siglip), strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.training.small_signs.SIGNS", long)
            signs_of(corpus_folder, model, folder)
    found = [find_clips(folder, select(load_corpus(corpus_folder), split="val")) for folder in folders]
    stored = [one.shards()[0]["v6"].window_texts for one in found if isinstance(one, FoundClips)]
    assert stored[0] != stored[1], "else the two take the same words"
    read = [examples_of(reading(corpus_folder, clip_folder, folder)).windows for folder in folders]
    assert read[0] is not None and read[1] is not None
    assert read[0].digest() == read[1].digest()
    by_other = examples_of(reading(corpus_folder, by_siglip, folders[0])).windows
    assert by_other is not None
    assert by_other.sentences.ids.shape[1] == 64, "as SigLIP reads"


def test_words_may_be_changed_where_the_model_is_selected_alone(
    corpus_folder: Path, clip_folder: Path, signs: Path
) -> None:
    words = {"ratio": 0.0, "splits": "evaluated"}
    material = load_material(reading(corpus_folder, clip_folder, signs, data={"words": words}))
    assert isinstance(material.examples, PixelExamples) and isinstance(material.validation, PixelExamples)
    learned, selected = material.examples.windows, material.validation.windows
    assert learned is not None and selected is not None
    assert learned.mask.any() and not selected.mask.any()
    told = load_material(reading(corpus_folder, clip_folder, signs, data={"words": {"empty": "caption"}}))
    assert isinstance(told.examples, PixelExamples) and told.examples.windows is not None
    assert told.examples.windows.mask.all()
    assert told.source["on_screen"] != material.source["on_screen"]


# What is learned -----------------------------------------------------------------------------------------------------


CHANGED = {"ratio": 0.6, "char_errors": 0.3, "empty": "caption"}


@pytest.mark.parametrize(("matcher", "words"), [("mean_pool", None), ("tcd", CHANGED)])
def test_with_frozen_towers_words_on_screen_are_those_of_features(
    matcher: str, words: dict[str, Any] | None, corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path
) -> None:
    """On stored features as far as float16 rounds, as without on-screen text; also where words are changed."""
    adapter = {"kind": "linear", "windows": matcher == "mean_pool"}
    settings: dict[str, Any] = {"matcher": {"name": matcher}, "adapter": adapter, "optimiser": {"eps": 1e-3}}
    towers = reading(corpus_folder, clip_folder, signs, data={"words": words}, **settings)
    data = {"corpus": str(corpus_folder), "features": str(signs), "words": words}
    stored = small_recipe(data=data, loop={"batch_size": 4, "epochs": 2}, **settings)
    ends = {}
    for name, recipe in (("towers", towers), ("stored", stored)):
        ends[name] = weights_of(train(recipe, replace(load_material(recipe), validation=None), tmp_path / name))
    for name, tensor in ends["towers"].items():
        torch.testing.assert_close(ends["stored"][name], tensor, rtol=1e-2, atol=1e-2, msg=name)
    losses = [list(figures_of(tmp_path / name, "loss/contrastive").values()) for name in ("towers", "stored")]
    assert losses[1] == pytest.approx(losses[0], abs=2e-2)


def test_the_text_tower_learns_from_what_is_written(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    """Also where nothing is: then there is a gradient, of 0, for other devices wait for one."""
    recipe = reading(corpus_folder, clip_folder, signs, backbone={"train": True, "gradient_checkpointing": True})
    material = load_material(recipe)
    module = RetrievalModule(build_matcher("mean_pool", 16), material.towers, recipe, 1)
    module.train()
    assert material.towers is not None
    weight = material.towers.model.text_projection.weight
    sizes = []
    for name in ("v0", "v4"):
        rows = np.array([material.examples.pairs.clip_ids.index(name)])
        video = module.video_features(material.examples.videos(rows))
        assert video.on_screen is not None
        assert video.on_screen.windows.shape == (1, WINDOWS, 16)
        norms = video.on_screen.windows.norm(dim=-1)
        torch.testing.assert_close(norms, video.on_screen.mask.float())
        module.zero_grad(set_to_none=True)
        (video.on_screen.windows * torch.arange(16.0)).sum().backward()
        assert weight.grad is not None
        sizes.append(float(weight.grad.norm()))
    assert sizes[0] > 0
    assert sizes[1] == 0


# Scoring -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matcher", [pytest.param("mean_pool", marks=pytest.mark.slow), "tcd"])
def test_the_checkpoint_scores_as_it_did_in_training(
    matcher: str, corpus_folder: Path, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`train`, then `features` with the towers of the checkpoint and `score`, as the model card says it."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for file in corpus_folder.iterdir():
        (corpus / file.name).symlink_to(file)
    save_texts(SIGNS, corpus)
    signs = signs_of(corpus, clip_folder, tmp_path / "features")
    recipe = reading(
        corpus,
        clip_folder,
        signs,
        backbone={"train": True},
        matcher={"name": matcher},
        adapter=AMONG_FRAMES if matcher == "mean_pool" else None,
        optimiser={"lr": 0.01, "backbone_lr": 1e-2},
    )
    (tmp_path / "small.yaml").write_text(recipe_text(recipe))
    kept: dict[str, np.ndarray[Any, Any]] = {}

    def remember(self: Any, scores: ScoreBlocks) -> dict[str, float]:
        whole = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        kept["scores"] = np.array(scores.block(*whole))
        return {"R@1": float(len(kept))}  # the first evaluation is the best

    monkeypatch.setattr("evenreel.training.loop.SelectionMeasure.__call__", remember)
    runner = CliRunner()
    run = tmp_path / "run"
    trained = runner.invoke(app, ["train", str(tmp_path / "small.yaml"), "--set", "loop.epochs=1", "--out", str(run)])
    assert trained.exit_code == 3, trained.output
    card = (run / "checkpoint" / "README.md").read_text()
    assert f"the on-screen text of {WINDOWS} windows (words of the corpus)" in card
    command = f"evenreel features CORPUS --model CHECKPOINT/encoder --rule '{RULE}' --windows {WINDOWS} --words corpus"
    assert command in card
    own = {"CORPUS": str(corpus), "CHECKPOINT/encoder": str(run / "checkpoint" / "encoder")}
    words = [own.get(word, word) for word in shlex.split(command)[1:]]
    made = runner.invoke(app, [*words, "--out", str(tmp_path / "own")])
    assert made.exit_code == 3, made.output
    score = ["score", str(run / "checkpoint"), str(corpus), "--features", str(tmp_path / "own"), "--split", "val"]
    searched, found = select(load_corpus(corpus), split="val"), {}
    for name, options in (("read", []), ("unread", ["--ocr-ratio", "0"])):
        scored = runner.invoke(app, [*score, *options, "--out", str(tmp_path / f"{name}.npz")])
        assert scored.exit_code == 0, scored.output
        scores = load_scores(tmp_path / f"{name}.npz", searched)
        assert isinstance(scores, Scores)
        found[name] = scores.values
    np.testing.assert_allclose(found["read"], kept["scores"], atol=2e-3)
    assert np.abs(found["unread"] - kept["scores"]).max() > 1e-2, "what is written should count"


def test_the_recipe_of_the_docs_is_one() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    text = next(
        text for text in re.findall(r"^```yaml\n(.+?)^```", page, re.MULTILINE | re.DOTALL) if "on_screen" in text
    )
    recipe = recipe_from(yaml.safe_load(text))
    assert recipe.backbone is not None and recipe.data.on_screen is not None
    features, made = re.findall(r"^evenreel features .+", page[: page.index(text)], re.MULTILINE)[-2:]
    assert f"--rule '{recipe.backbone.rule}'" in features and features.endswith(f"--out {recipe.data.on_screen}")
    options = features.partition(" --rule")[2].rpartition(" --out")[0]
    assert options in made, "what is scored is read as what was learned from"


# What is refused -----------------------------------------------------------------------------------------------------


def test_a_rule_that_the_text_was_not_read_by(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    with pytest.raises(FeaturesError, match=r"holds features by '3 midpoints, words of the corpus', not by what is"):
        load_material(reading(corpus_folder, clip_folder, signs, backbone={"rule": "2 midpoints"}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"adapter": None}, "data.on_screen is given, and the matcher mean_pool reads no on-screen text; set it"),
        (
            {"adapter": None, "matcher": {"name": "tcd"}, "data": {"on_screen": None}},
            "The matcher tcd reads on-screen text, and the backbone is given none; name a folder",
        ),
        ({"matcher": {"name": "x_clip", "settings": {"max_frames": 6}}}, "has 7 frames and on-screen windows"),
    ],
)
def test_text_that_nobody_reads_or_nobody_gives(
    settings: dict[str, Any], sentence: str, corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path
) -> None:
    recipe = reading(corpus_folder, clip_folder, signs, **settings)
    with pytest.raises(UsageError, match=sentence):
        train(recipe, load_material(recipe), tmp_path / "run")


def test_other_words_are_other_data(corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path) -> None:
    recipe = reading(corpus_folder, clip_folder, signs)
    measure = RunHooks(measure=lambda scores: {"R@1": 1.0})
    train(recipe, load_material(recipe), tmp_path / "run", measure)
    edited = SIGNS.with_columns(pl.col("text").replace("bridge", "train"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.training.small_signs.SIGNS", edited)
        elsewhere = reading(corpus_folder, clip_folder, signs_of(corpus_folder, clip_folder, tmp_path / "other"))
    assert elsewhere != recipe
    with pytest.raises(CorpusError, match=r"begun with other data: on_screen was [0-9a-f]{8}"):
        train(elsewhere, load_material(elsewhere), tmp_path / "run", replace(measure, resume=True))
