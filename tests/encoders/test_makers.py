"""Features of every family equal those of its maker's own processor, tokenizer and model (docs/encoders.md)."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from evenreel.encoders import checkpoint, load_encoder
from evenreel.encoders.checkpoint import FAMILIES, open_checkpoint
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import EncoderError, UsageError
from evenreel.types import Pixels
from tests.encoders.makers import CAPTIONS, CLOSE, EMBEDDERS, PICTURES, SHAPES, WINDOWS, GemmaMaker, maker, noise
from tests.tiny_checkpoints import SIDE
from tests.tiny_embedders import tiny_embedding_gemma, tiny_qwen_embedding
from tests.tiny_families import tiny_siglip2_with_capitals

BUILDERS = {**PICTURES, **WINDOWS, **EMBEDDERS}
Both = tuple[str, TowerEncoder, Any]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: build(root / family) for family, build in BUILDERS.items()}


@pytest.fixture(scope="module", params=sorted(BUILDERS))
def both(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Both:
    family = str(request.param)
    encoder = load_encoder(str(folders[family]), device="cpu")
    assert isinstance(encoder, TowerEncoder)
    return family, encoder, maker(folders[family], family)


def window_of(frames: int, height: int, width: int) -> Pixels:
    return np.stack([np.roll(noise(height, width), 3 * number, axis=2) // (1 + number % 3) for number in range(frames)])


def test_every_family_is_tried() -> None:
    assert {family.split()[0] for family in BUILDERS} == set(FAMILIES)


def test_pictures_of_odd_sizes_equal_those_of_the_maker(both: Both) -> None:
    family, encoder, oracle = both
    shapes = [(37, 53), (61, 40), (16, 90), (90, 16), (200, 333)] if family in EMBEDDERS else SHAPES
    for shape in shapes:
        if family in WINDOWS:
            pixels = window_of(encoder.window.frames, *shape)
            expected = oracle.window(pixels)
        else:
            pixels = noise(*shape)[None]
            expected = oracle.picture(pixels[0])
        found = encoder.encode_windows(pixels[None])[0]
        assert found.shape == (encoder.dimension,) and found @ expected > CLOSE, shape
        if shape == (SIDE, SIDE) and family != "align":  # nothing to resize
            np.testing.assert_allclose(found, expected, atol=3e-6)


def test_frames_and_channels_keep_their_order(both: Both) -> None:
    family, encoder, oracle = both
    window = window_of(encoder.window.frames, 37, 53)
    changed = [np.ascontiguousarray(window[:, ::-1]), *([window[::-1]] if family in WINDOWS else [])]
    straight, *others = encoder.encode_windows(np.stack([window, *changed]))
    for found, pixels in zip(others, changed, strict=True):
        assert found @ (oracle.window(pixels) if family in WINDOWS else oracle.picture(pixels[0])) > CLOSE
        assert straight @ found < CLOSE  # else the test could not tell
    still = np.broadcast_to(window[:1], window.shape)
    picture = encoder.encode_windows(window[None, :1])[0]
    assert picture @ (oracle.window(still) if family in WINDOWS else straight) > CLOSE  # a picture is a still video


def test_captions_equal_those_of_the_maker(both: Both) -> None:
    family, encoder, oracle = both
    for caption in [*CAPTIONS, "a {red} ball\n"]:
        if caption == "" and family == "tipsv2":
            continue  # a mean of no words: the maker's vector is zero, and has no direction
        assert encoder.encode_text([caption]).sentence[0] @ oracle.sentence(caption) > CLOSE, caption
    first, other = encoder.encode_text(CAPTIONS[:2]).sentence
    assert first @ other < 0.999  # else the test could not tell


def test_neither_batches_nor_padding_change_a_caption(both: Both) -> None:
    _, encoder, _ = both
    together = encoder.encode_text(CAPTIONS)
    for row, caption in enumerate(CAPTIONS):
        alone = encoder.encode_text([caption])
        np.testing.assert_allclose(together.sentence[row], alone.sentence[0], atol=2e-5)
        mask, words = together.word_mask[row], together.words[row]
        np.testing.assert_allclose(words[mask], alone.words[0, alone.word_mask[0]], atol=2e-4)
        assert not words[~mask].any()
    assert together.words.shape[2] == encoder.dimension


def test_neither_batches_nor_strides_change_a_picture(both: Both) -> None:
    _, encoder, _ = both
    pictures = np.stack([noise(40, 70), np.flip(noise(40, 70), 2), noise(40, 70) // 2])[:, None]
    alone = np.concatenate([encoder.encode_windows(picture[None]) for picture in pictures])
    np.testing.assert_allclose(encoder.encode_windows(pictures), alone, atol=5e-6)
    np.testing.assert_allclose(encoder.encode_windows(pictures[::-1])[::-1], alone, atol=5e-6)


@pytest.mark.parametrize("family", ["clip", "siglip", "siglip of version 2"])
def test_words_equal_those_of_the_maker(folders: dict[str, Path], family: str) -> None:
    encoder, oracle = load_encoder(str(folders[family]), device="cpu"), maker(folders[family], family)
    head = oracle.model.text_projection if family == "clip" else oracle.model.text_model.head
    for caption in CAPTIONS:
        found = encoder.encode_text([caption])
        words = head(oracle.model.get_text_features(**oracle.tokens(caption)).last_hidden_state)[0]
        real = found.word_mask[0]
        np.testing.assert_allclose(found.words[0, real], words.detach()[: real.sum()], atol=3e-6)


def test_long_captions_are_said_to_be_cut(both: Both) -> None:
    family, encoder, _ = both
    longer = 2_000 if family in EMBEDDERS else 600
    assert encoder.truncated(["a", "ball " * longer]) == [False, True]
    assert np.isfinite(encoder.encode_text(["ball " * longer]).sentence).all()


@pytest.mark.parametrize("family", sorted(WINDOWS))
def test_windows_of_another_length_are_refused(folders: dict[str, Path], family: str) -> None:
    with pytest.raises(UsageError, match="takes windows of 4 frames, or single pictures, and these have 3"):
        load_encoder(str(folders[family])).encode_windows(window_of(3, 9, 9)[None])


def test_siglip_2_that_calls_itself_siglip_reads_capitals_as_it_was_trained(tmp_path: Path) -> None:
    folder = tiny_siglip2_with_capitals(tmp_path / "siglip")
    as_named = transformers.AutoTokenizer.from_pretrained(folder)
    assert as_named("A Red Car")["input_ids"] != as_named("a red car")["input_ids"]  # the trap
    first, other = load_encoder(str(folder), device="cpu").encode_text(["A Red Car", "a red car"]).sentence
    assert first.tobytes() == other.tobytes()
    assert first @ maker(folder, "siglip of version 2").sentence("a red car") > CLOSE


def test_a_large_picture_is_as_large_as_the_script_of_qwen_makes_it(folders: dict[str, Path]) -> None:
    towers = load_encoder(str(folders["qwen3_vl"]), device="cpu")._towers
    height, width = smart_resize(1080, 1920, factor=32, min_pixels=4096, max_pixels=1_843_200)
    assert towers.prepared(noise(1080, 1920)[None])["image_grid_thw"].tolist() == [[1, height // 16, width // 16]]


def test_an_instruction_is_none_of_the_words(folders: dict[str, Path]) -> None:
    """A letter is a token there; after the caption comes the end mark, or `<|im_end|> newline <|im_start|> ...`."""
    for family, after in {"embedding_gemma2": 1, "qwen3_vl": 3 + len("assistant\n")}.items():
        encoder = load_encoder(str(folders[family]), device="cpu")
        assert encoder.encode_text(["ball"]).words.shape == (1, 4 + after, encoder.dimension)


def test_what_is_heard_is_left_in_the_file(tmp_path: Path) -> None:
    folder = tiny_embedding_gemma(tmp_path / "gemma", sound=True)
    found = load_encoder(str(folder), device="cpu").encode_text(["a red ball"]).sentence[0]
    assert found @ GemmaMaker(folder).sentence("a red ball") > CLOSE


def test_a_chat_model_of_the_same_kind_is_refused(tmp_path: Path) -> None:
    shutil.rmtree(tiny_qwen_embedding(tmp_path / "chat") / "1_Pooling")
    with pytest.raises(EncoderError, match=r"has no 1_Pooling/config\.json, .* it is a chat model of the same kind"):
        load_encoder(str(tmp_path / "chat"))


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("config.json", '"image_token_id": 261', '"image_token_id": 7'),
        ("preprocessor_config.json", '"merge_size": 2', '"merge_size": 1'),
    ],
)
def test_files_of_an_embedder_that_do_not_belong_together_are_refused(
    tmp_path: Path, file: str, before: str, after: str
) -> None:
    folder = tiny_qwen_embedding(tmp_path / "other")
    (folder / file).write_text((folder / file).read_text().replace(before, after))
    with pytest.raises((EncoderError, ValueError)):  # the latter is one sentence where a model is read first
        load_encoder(str(folder)).encode_windows(noise(40, 40)[None, None])


def test_the_instructions_and_the_processor_are_part_of_the_hash(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "copy"))
    before, known = open_checkpoint(folder).digest(), FAMILIES["qwen3_vl"]
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**settings, "image_mean": [0.4] * 3}))
    assert open_checkpoint(folder).digest() != before
    assert known.instructions is not None
    other = replace(known, instructions=replace(known.instructions, caption="{}"))
    monkeypatch.setitem(checkpoint.FAMILIES, "qwen3_vl", other)  # type: ignore[arg-type]
    assert open_checkpoint(folders["qwen3_vl"]).digest() != before
