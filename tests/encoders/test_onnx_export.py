from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from evenreel.encoders import load_encoder
from evenreel.encoders import onnx_export as export
from evenreel.encoders.encoder import SENTENCES, TEXT_INPUTS, Graph, OnnxEncoder
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import EncoderError, UsageError
from tests import tiny_families
from tests.encoders.makers import CAPTIONS, CLOSE, PICTURES, maker, noise

BUILDERS = {family: PICTURES[family] for family in PICTURES if family not in ("siglip", "siglip2", "tipsv2")}
"""SigLIP itself is read from sentencepiece, which `tokenizers` does not read."""
NEITHER = "is of the kind siglip2; the kinds that can be exported are clip, siglip, "


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of the tiny CLIP; not to be changed by a test."""
    root = tmp_path_factory.mktemp("exports")
    export.export_onnx(str(PICTURES["clip"](root / "checkpoint")), root / "export")
    return root / "export"


@pytest.fixture
def clip_export(clip: Path, tmp_path: Path) -> Path:
    """Another, without its record, that a test may change."""
    return Path(shutil.copytree(clip, tmp_path / "export", ignore=shutil.ignore_patterns("evenreel_export.json")))


@pytest.mark.parametrize("family", BUILDERS)
def test_an_export_has_the_vectors_of_the_maker_and_the_words_of_its_checkpoint(family: str, tmp_path: Path) -> None:
    folder = BUILDERS[family](tmp_path / "checkpoint")
    record = export.export_onnx(str(folder), tmp_path / "export")
    one, other, oracle = load_encoder(str(folder)), load_encoder(str(tmp_path / "export")), maker(folder, family)
    assert isinstance(other, OnnxEncoder)
    assert record.weights_hash == one.weights_hash == other.weights_hash
    for shape in ((32, 32), (90, 61), (41, 160)):
        assert other.encode_windows(noise(*shape)[None, None])[0] @ oracle.picture(noise(*shape)) > CLOSE
    captions = [*CAPTIONS, "a! b? 'c'"]
    found, text = other.encode_text(captions), one.encode_text(captions)
    for row, caption in enumerate(captions):
        assert found.sentence[row] @ oracle.sentence(caption) > CLOSE, caption
    assert np.array_equal(found.word_mask, text.word_mask)
    np.testing.assert_allclose(found.words, text.words, atol=1e-4)
    assert other.truncated(captions) == one.truncated(captions)


def test_the_graphs_have_the_names_of_public_exports(clip: Path) -> None:
    graph = onnx.load(str(clip / "onnx/text_model.onnx")).graph
    assert [one.name for one in graph.input] == ["input_ids", "attention_mask"]
    assert [one.name for one in graph.output] == ["text_embeds", "word_embeds"]
    graph = onnx.load(str(clip / "onnx/vision_model.onnx")).graph
    assert [one.name for one in (*graph.input, *graph.output)] == ["pixel_values", "image_embeds"]


def test_a_public_export_gives_sentences_by_another_name_and_no_words(clip_export: Path) -> None:
    before = load_encoder(str(clip_export)).encode_text(CAPTIONS)
    path = clip_export / "onnx/text_model.onnx"
    model = onnx.load(str(path))
    del model.graph.output[1]
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["pooler_output" if name == "text_embeds" else name for name in names]
    model.graph.output[0].name = "pooler_output"
    onnx.save(model, str(path), save_as_external_data=True, location="text_model.onnx_data", size_threshold=0)
    found = load_encoder(str(clip_export)).encode_text(CAPTIONS)
    assert np.array_equal(found.sentence, before.sentence)
    assert found.words.shape == (len(CAPTIONS), 0, 16)


@pytest.mark.parametrize("shape", [[], [4]])
def test_an_input_without_rows_is_refused(tmp_path: Path, shape: list[int]) -> None:
    described, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    node = onnx.helper.make_node("Cast", ["input_ids"], ["text_embeds"], to=kinds.FLOAT)
    ends = described("input_ids", kinds.INT64, shape), described("text_embeds", kinds.FLOAT, shape)
    graph = onnx.helper.make_graph([node], "tower", [ends[0]], [ends[1]])
    version = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[version], ir_version=8), str(tmp_path / "text.onnx"))
    with pytest.raises(EncoderError, match="takes .*input_ids.*; a tower in float32 takes"):
        Graph(tmp_path / "text.onnx", TEXT_INPUTS, SENTENCES)


def test_a_checkpoint_with_its_export_inside_is_one_model(clip_copy: Path) -> None:
    before = load_encoder(str(clip_copy), device="cpu")
    record = export.export_onnx(str(clip_copy), clip_copy)
    after = load_encoder(str(clip_copy))
    assert isinstance(before, TowerEncoder) and isinstance(after, OnnxEncoder)
    assert before.weights_hash == after.weights_hash == record.weights_hash
    assert (clip_copy / "text_model.onnx").stat().st_size < (clip_copy / "model.safetensors").stat().st_size
    assert isinstance(load_encoder(str(clip_copy), precision="bfloat16"), TowerEncoder)


def test_an_export_with_other_vectors_is_not_kept_and_an_old_record_stays(
    clip_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clip_copy / "evenreel_export.json").write_text("{}")
    before = sorted(path.name for path in clip_copy.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(export, "LOWEST_COSINE", 1.1)
        for out in (tmp_path / "out", clip_copy):
            with pytest.raises(EncoderError, match="have a cosine of .* at worst; it must be at least"):
                export.export_onnx(str(clip_copy), out)
            assert not (tmp_path / "out").exists()
            assert sorted(path.name for path in clip_copy.iterdir()) == before
    assert (clip_copy / "evenreel_export.json").read_text() == "{}"
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: Path("no such folder").rmdir())  # a system without links
    export.export_onnx(str(clip_copy), clip_copy)
    assert isinstance(load_encoder(str(clip_copy)), OnnxEncoder)


def test_what_a_kill_leaves_of_an_export_is_no_part_of_the_next(
    clip_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.TemporaryDirectory._rmtree", lambda *_, **__: None)
        patch.setattr(export, "LOWEST_COSINE", 1.1)
        with pytest.raises(EncoderError, match="at worst"):
            export.export_onnx(str(clip_copy), clip_copy)
    export.export_onnx(str(clip_copy), clip_copy)
    assert isinstance(load_encoder(str(clip_copy)), OnnxEncoder)


@pytest.mark.parametrize("place", [".", "onnx"])
def test_graphs_that_are_there_are_left_alone(clip_copy: Path, place: str) -> None:
    (clip_copy / place).mkdir(exist_ok=True)
    (clip_copy / place / "text_model.onnx").write_bytes(b"of somebody")
    before = sorted(clip_copy.rglob("*"))
    with pytest.raises(UsageError, match="There are ONNX graphs in .* already"):
        export.export_onnx(str(clip_copy), clip_copy)
    assert sorted(clip_copy.rglob("*")) == before
    assert (clip_copy / place / "text_model.onnx").read_bytes() == b"of somebody"


def test_what_cannot_be_exported_is_said(clip_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="is there already"):
        export.export_onnx(str(clip_copy), tmp_path / "full")
    naflex = tiny_families.tiny_siglip2_naflex(tmp_path / "naflex")
    with pytest.raises(EncoderError, match=NEITHER):
        export.export_onnx(str(naflex), tmp_path / "out")
    with pytest.raises(EncoderError, match=r"has no tokenizer\.json, which an export needs"):
        export.export_onnx(str(PICTURES["siglip"](tmp_path / "siglip")), tmp_path / "out")


def test_parts_of_two_models_are_refused(clip_export: Path) -> None:
    rules = json.loads((clip_export / "tokenizer.json").read_text())
    rules["model"]["vocab"] = {piece: number + 9999 for piece, number in rules["model"]["vocab"].items()}
    (clip_export / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(EncoderError, match="cannot be run on these inputs"):
        load_encoder(str(clip_export)).encode_text(["a ball"])
    builtin = Path(export.__file__).parent / "builtin" / "checkpoint"
    shutil.copy(builtin / "vision_model.onnx", clip_export / "onnx")
    shutil.copy(builtin / "model.safetensors", clip_export / "onnx")
    with pytest.raises(EncoderError, match="make vectors of 16 and 128 numbers"):
        load_encoder(str(clip_export)).encode_windows(noise(9, 9)[None, None])
