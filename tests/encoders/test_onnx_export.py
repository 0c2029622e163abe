"""Exports of tiny checkpoints: vectors of transformers' own pipeline, the record, and what is not kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from evenreel.encoders import load_encoder
from evenreel.encoders.tower_loading import TowerEncoder
from evenreel.encoders.onnx import export
from evenreel.encoders.onnx.encoder import SENTENCES, TEXT_INPUTS, Graph, OnnxEncoder
from evenreel.errors import EncoderError, UsageError
from tests import tiny_families
from tests.encoders.test_encoder import CAPTIONS, Oracle, frames

OTHERS: dict[str, Callable[[Path], Path]] = {
    "capitals": tiny_families.tiny_siglip2_with_capitals,
    "metaclip_2": tiny_families.tiny_metaclip_2,
    "align": tiny_families.tiny_align,
    "altclip": tiny_families.tiny_altclip,
    "chinese_clip": tiny_families.tiny_chinese_clip,
}


@pytest.fixture(scope="module")
def exports(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One export a family; not to be changed by a test."""
    root = tmp_path_factory.mktemp("exports")
    for family, folder in checkpoints.items():
        export.export_onnx(str(folder), root / family)
    return {family: root / family for family in checkpoints}


@pytest.fixture
def clip_export(exports: dict[str, Path], tmp_path: Path) -> Path:
    """An export of the tiny CLIP that a test may change."""
    return Path(shutil.copytree(exports["clip"], tmp_path / "export"))


def test_an_export_has_the_vectors_of_the_pipeline_of_transformers(
    exports: dict[str, Path], checkpoints: dict[str, Path], family: str
) -> None:
    encoder, oracle = load_encoder(str(exports[family])), Oracle(checkpoints[family], family)
    assert isinstance(encoder, OnnxEncoder)
    for side in ((32, 32), (90, 61), (41, 160)):
        pixels = frames(3, *side)
        assert (encoder.encode_windows(pixels[:, None]) * oracle.frames(pixels)).sum(axis=1).min() > 0.9999
    found = encoder.encode_text(CAPTIONS)
    for row, text in enumerate(CAPTIONS):
        words, sentence = oracle.caption(text)
        assert found.sentence[row] @ sentence > 0.9999, text
        np.testing.assert_allclose(found.words[row, found.word_mask[row]], words, atol=1e-4)
    assert encoder.truncated(CAPTIONS) == [False, False, False, False, True]


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_have_the_vectors_of_their_checkpoint(kind: str, tmp_path: Path) -> None:
    folder = OTHERS[kind](tmp_path / kind)
    record = export.export_onnx(str(folder), tmp_path / "export")
    one, other = load_encoder(str(folder), device="cpu"), load_encoder(str(tmp_path / "export"))
    assert record.cosine > 0.9999
    assert record.weights_hash == one.weights_hash == other.weights_hash
    texts = ["A Red BALL", "a red ball", "红球 跑", "a! b? 'c'", "a ball " * 60]
    pixels = frames(3, 77, 40)[:, None]
    assert (one.encode_windows(pixels) * other.encode_windows(pixels)).sum(axis=1).min() > 0.9999
    assert (one.encode_text(texts).sentence * other.encode_text(texts).sentence).sum(axis=1).min() > 0.9999


def test_the_graphs_have_the_names_of_public_exports(exports: dict[str, Path]) -> None:
    graph = onnx.load(str(exports["clip"] / "onnx/text_model.onnx")).graph
    assert [one.name for one in graph.input] == ["input_ids", "attention_mask"]
    assert [one.name for one in graph.output] == ["text_embeds", "word_embeds"]
    graph = onnx.load(str(exports["siglip"] / "onnx/vision_model.onnx")).graph
    assert ([one.name for one in graph.input], [one.name for one in graph.output]) == (
        ["pixel_values"],
        ["image_embeds"],
    )


def test_a_public_export_gives_sentences_by_another_name_and_no_words(clip_export: Path) -> None:
    before = load_encoder(str(clip_export)).encode_text(CAPTIONS)
    (clip_export / "evenreel_export.json").unlink()
    path = clip_export / "onnx/text_model.onnx"
    model = onnx.load(str(path))
    del model.graph.output[1]
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["pooler_output" if name == "text_embeds" else name for name in names]
    model.graph.output[0].name = "pooler_output"
    onnx.save(model, str(path), save_as_external_data=True, location="text_model.onnx_data", size_threshold=0)
    encoder = load_encoder(str(clip_export))
    found = encoder.encode_text(CAPTIONS)
    assert np.array_equal(found.sentence, before.sentence)
    assert found.words.shape == (len(CAPTIONS), 0, 16)
    # Weights beside the graph are part of the fingerprint.
    data = clip_export / "onnx/text_model.onnx_data"
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    assert load_encoder(str(clip_export)).weights_hash != encoder.weights_hash


def test_a_graph_of_one_batch_size_takes_any_number_of_rows(clip_export: Path) -> None:
    before = load_encoder(str(clip_export))
    (clip_export / "evenreel_export.json").unlink()
    for part in ("text_model", "vision_model"):
        model = onnx.load(str(clip_export / f"onnx/{part}.onnx"))
        for one in model.graph.input:
            one.type.tensor_type.shape.dim[0].dim_value = 2
        onnx.save(model, str(clip_export / f"onnx/{part}.onnx"))
    after, pixels = load_encoder(str(clip_export)), frames(3, 40, 40)[:, None]
    np.testing.assert_allclose(after.encode_windows(pixels), before.encode_windows(pixels), atol=1e-6)
    for captions in (CAPTIONS, CAPTIONS[:1]):
        one, other = before.encode_text(captions), after.encode_text(captions)
        np.testing.assert_allclose(other.sentence, one.sentence, atol=1e-6)
        np.testing.assert_allclose(other.words, one.words, atol=1e-5)


@pytest.mark.parametrize("shape", [[], [4]])
def test_an_input_without_rows_is_refused(tmp_path: Path, shape: list[int]) -> None:
    described, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    node = onnx.helper.make_node("Cast", ["input_ids"], ["text_embeds"], to=kinds.FLOAT)
    ends = described("input_ids", kinds.INT64, shape), described("text_embeds", kinds.FLOAT, shape)
    graph = onnx.helper.make_graph([node], "tower", [ends[0]], [ends[1]])
    version = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[version], ir_version=8), str(tmp_path / "text.onnx"))
    with pytest.raises(EncoderError, match=f"takes input_ids with {len(shape)} axes; that of a tower has two at least"):
        Graph(tmp_path / "text.onnx", TEXT_INPUTS, SENTENCES)


def test_a_checkpoint_with_its_export_inside_is_one_model(clip_copy: Path) -> None:
    before = load_encoder(str(clip_copy), device="cpu")
    record = export.export_onnx(str(clip_copy), clip_copy)
    after = load_encoder(str(clip_copy))
    assert isinstance(before, TowerEncoder) and isinstance(after, OnnxEncoder)
    assert before.weights_hash == after.weights_hash == record.weights_hash
    assert (clip_copy / "text_model.onnx").stat().st_size < (clip_copy / "model.safetensors").stat().st_size
    assert isinstance(load_encoder(str(clip_copy), precision="bfloat16"), TowerEncoder)


def test_an_export_with_other_vectors_is_not_kept(
    clip_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LOWEST_COSINE", 1.1)
    for out in (tmp_path / "out", clip_copy):
        before = sorted(path.name for path in clip_copy.iterdir())
        with pytest.raises(EncoderError, match="have a cosine of .* at worst; it must be at least"):
            export.export_onnx(str(clip_copy), out)
        assert not (tmp_path / "out").exists()
        assert sorted(path.name for path in clip_copy.iterdir()) == before


@pytest.mark.parametrize("place", [".", "onnx"])
def test_graphs_that_are_there_are_left_alone(clip_copy: Path, place: str) -> None:
    (clip_copy / place).mkdir(exist_ok=True)
    (clip_copy / place / "text_model.onnx").write_bytes(b"of somebody")
    (clip_copy / "evenreel_export.json").write_text("{}")
    before = sorted(clip_copy.rglob("*"))
    with pytest.raises(UsageError, match="There are ONNX graphs in .* already; remove them, or export into another"):
        export.export_onnx(str(clip_copy), clip_copy)
    assert sorted(clip_copy.rglob("*")) == before
    assert (clip_copy / place / "text_model.onnx").read_bytes() == b"of somebody"


def test_an_export_beside_its_checkpoint_that_ends_badly_leaves_the_old_record(
    clip_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clip_copy / "evenreel_export.json").write_text("{}")
    before = sorted(clip_copy.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(export, "LOWEST_COSINE", 1.1)
        with pytest.raises(EncoderError, match="have a cosine of"):
            export.export_onnx(str(clip_copy), clip_copy)
    assert sorted(clip_copy.iterdir()) == before
    assert (clip_copy / "evenreel_export.json").read_text() == "{}"
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: Path("no such folder").rmdir())  # a system without links
    export.export_onnx(str(clip_copy), clip_copy)
    assert isinstance(load_encoder(str(clip_copy)), OnnxEncoder)


def test_what_cannot_be_exported_is_said(clip_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="is there already"):
        export.export_onnx(str(clip_copy), tmp_path / "full")
    naflex = tiny_families.tiny_siglip2_naflex(tmp_path / "naflex")
    with pytest.raises(EncoderError, match="is of the kind siglip2; the kinds that can be exported are clip, siglip, "):
        export.export_onnx(str(naflex), tmp_path / "out")


def test_towers_of_two_models_are_refused(clip_export: Path, exports: dict[str, Path]) -> None:
    (clip_export / "evenreel_export.json").unlink()
    shutil.copy(exports["siglip"] / "onnx/vision_model.onnx", clip_export / "onnx")
    with pytest.raises(EncoderError, match="make vectors of 16 and 32 numbers"):
        load_encoder(str(clip_export)).encode_windows(frames(1)[:, None])


def test_a_tokenizer_of_another_model_is_refused(clip_export: Path, checkpoints: dict[str, Path]) -> None:
    (clip_export / "evenreel_export.json").unlink()
    rules = json.loads((clip_export / "tokenizer.json").read_text())
    rules["model"]["vocab"] = {piece: number + 9999 for piece, number in rules["model"]["vocab"].items()}
    (clip_export / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(EncoderError, match="cannot be run on these inputs"):
        load_encoder(str(clip_export)).encode_text(["a ball"])
