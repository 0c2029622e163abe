from __future__ import annotations

import base64
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import RECORD
from evenreel.encoders.encoder import Graph, OnnxEncoder, _looks_where_weights_lie, _session
from evenreel.encoders.loading import BUILTIN_FOLDER, read_first
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import EncoderError, UsageError
from evenreel.features.manifest import encode_block
from evenreel.types import FloatArray, Pixels
from tests.encoders.onnx_files import alone, graph_with_weights_in, onnx_copy, public_export

CAPTIONS = ["a red star on a beach", "Ein BLAUES Herz?!", "", "a circle " * 60, "the winter cup"]
SIDES = [(64, 64), (90, 61), (37, 200), (480, 854), (1, 3)]


@pytest.fixture(scope="module")
def onnx() -> OnnxEncoder:
    encoder = load_encoder("builtin")
    assert isinstance(encoder, OnnxEncoder)
    return encoder


@pytest.fixture(scope="module")
def torch_way() -> TowerEncoder:
    encoder = load_encoder("builtin", device="cpu:0")  # a name that only torch knows
    assert isinstance(encoder, TowerEncoder)
    return encoder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return alone(tmp_path / "model")


def frames(side: tuple[int, int], count: int = 3) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (count, 1, 3, *side), dtype=np.uint8)


def cosines(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.einsum("nd,nd->n", one, other)


@pytest.mark.parametrize("side", SIDES)
def test_pictures_have_the_vectors_of_torch(onnx: OnnxEncoder, torch_way: TowerEncoder, side: tuple[int, int]) -> None:
    found = onnx.encode_windows(frames(side))
    assert np.linalg.norm(found, axis=1) == pytest.approx(1)
    assert cosines(found, torch_way.encode_windows(frames(side))).min() > 0.9999
    assert onnx.seen_box(*side) == torch_way.seen_box(*side)


@given(texts=st.lists(st.one_of(st.sampled_from(CAPTIONS), st.text(max_size=40)), max_size=5))
@settings(max_examples=20)
def test_captions_have_the_vectors_of_torch(onnx: OnnxEncoder, torch_way: TowerEncoder, texts: list[str]) -> None:
    ours, theirs = onnx.encode_text(texts), torch_way.encode_text(texts)
    assert np.array_equal(ours.word_mask, theirs.word_mask)
    assert (cosines(ours.sentence, theirs.sentence) > 0.9999).all()
    np.testing.assert_allclose(ours.words, theirs.words, atol=1e-4)
    assert onnx.truncated(texts) == torch_way.truncated(texts)


NO_MEMORY = "bfc_arena.cc:360 AllocateRawInternal Failed to allocate memory for requested buffer of size 655360000"


def with_memory_for(encoder: OnnxEncoder, rows: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """ONNX Runtime as where memory suffices for so many rows; returns how many it was given each time."""
    real, sizes = encoder._pictures._session.run, list[int]()

    class Session:
        def run(self, outputs: list[str], given: dict[str, FloatArray]) -> list[FloatArray]:
            sizes.append(len(given["pixel_values"]))
            if sizes[-1] > rows:
                raise RuntimeError(NO_MEMORY)
            made: list[FloatArray] = real(outputs, given)
            return made

    monkeypatch.setattr(encoder._pictures, "_session", Session())
    return sizes


def fixed_batch(folder: Path, rows: int) -> None:
    """Have the graph of pictures take only batches of so many."""
    import onnx

    path = folder / "onnx" / "vision_model.onnx"
    graph = onnx.load(str(path), load_external_data=False)
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value = rows
    path.write_bytes(graph.SerializeToString())


def test_a_graph_of_one_batch_size_is_not_given_smaller_batches_where_memory_runs_out(
    copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = load_encoder(str(copy)).encode_windows(frames((70, 80), 9))
    fixed_batch(copy, 4)
    encoder = load_encoder(str(copy))
    assert isinstance(encoder, OnnxEncoder)
    np.testing.assert_allclose(encoder.encode_windows(frames((70, 80), 9)), expected, atol=1e-6)
    sizes = with_memory_for(encoder, 2, monkeypatch)
    with pytest.raises(EncoderError, match=r"vision_model\.onnx, which takes batches of 4 and no smaller ones"):
        encoder.encode_windows(frames((70, 80), 9))
    assert sizes == [4]
    assert "going on with" not in caplog.text


def test_patches_are_those_of_torch_where_the_checkpoint_is_there(
    onnx: OnnxEncoder, torch_way: TowerEncoder, copy: Path
) -> None:
    pixels = frames((64, 64))[:, 0]
    assert np.array_equal(onnx.encode_patches(pixels), torch_way.encode_patches(pixels))
    with pytest.raises(EncoderError, match="says nothing of single patches; use its checkpoint"):
        load_encoder(str(copy)).encode_patches(pixels)


@pytest.mark.parametrize("how", [{"device": "cuda"}, {"precision": "bfloat16"}])
def test_graphs_alone_run_on_the_cpu_in_float32(copy: Path, how: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="in ONNX form, which runs on the CPU in float32"):
        load_encoder(str(copy), **how)  # type: ignore[arg-type]


def test_graphs_without_a_record_are_a_model_of_their_own(copy: Path, onnx: OnnxEncoder, tmp_path: Path) -> None:
    other = load_encoder(str(copy))
    assert isinstance(other, OnnxEncoder)
    assert other.weights_hash != onnx.weights_hash
    assert other.weights_hash == load_encoder(str(alone(tmp_path / "again"))).weights_hash
    assert np.array_equal(other.encode_text(CAPTIONS).sentence, onnx.encode_text(CAPTIONS).sentence)


def test_beside_a_checkpoint_only_its_own_export_counts(tmp_path: Path) -> None:
    assert isinstance(load_encoder(str(onnx_copy(tmp_path / "without a record"))), TowerEncoder)
    assert isinstance(load_encoder(str(shutil.copytree(BUILTIN_FOLDER, tmp_path / "with one"))), OnnxEncoder)


def test_an_export_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(BUILTIN_FOLDER, tmp_path / "model"))
    rules = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(rules))  # the same rules in other bytes
    with pytest.raises(EncoderError, match="have changed since they were exported"):
        load_encoder(str(folder))
    (folder / RECORD).write_text('{"cosine": 1}')
    with pytest.raises(EncoderError, match="is no record of an export"):
        load_encoder(str(folder))


@pytest.mark.parametrize(
    "file",
    ["onnx/text_model.onnx", "onnx/vision_model.onnx", "tokenizer.json", "config.json", "preprocessor_config.json"],
)
def test_a_missing_file_is_named(copy: Path, file: str) -> None:
    (copy / file).unlink()
    with pytest.raises(EncoderError, match=rf"The ONNX model in .* is not complete: {file} missing\.$"):
        load_encoder(str(copy))


TEXT = "onnx/text_model.onnx"


def holding(data: bytes, file: str = TEXT) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(data)


def changed(file: str, **entries: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / file).write_text(json.dumps({**json.loads((folder / file).read_text()), **entries}))

    return change


def no_filler(folder: Path) -> None:
    rules = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**rules, "padding": None}))
    (folder / "tokenizer_config.json").unlink()


NO_GRAPH = "is damaged, takes weights from a file that is not beside it, or is no graph"
REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (lambda one: (one / TEXT).write_bytes((one / TEXT).read_bytes()[:-100]), NO_GRAPH),
    (holding(b""), NO_GRAPH),
    (holding(b"<!DOCTYPE html><title>Not found</title>" * 9), NO_GRAPH),
    (lambda one: (one / "onnx/model.safetensors").unlink(), NO_GRAPH),
    *((holding(graph_with_weights_in(at)), NO_GRAPH) for at in ("w" * 5_000, "../weights", "/etc/passwd", "C:\\w")),
    (changed("preprocessor_config.json", size=-4), "make no sense: ValueError.'size -4'"),
    (changed("preprocessor_config.json", crop_size=10**6), "make no sense: ValueError.'size 1000000'"),
    (changed("preprocessor_config.json", resample="x" * 5_000), "with filter 'x{79}...; only bilinear"),
    (
        lambda one: shutil.copy(one / "onnx/vision_model.onnx", one / TEXT),
        "pixel_values.*; a tower in .* takes input_i",
    ),
    (holding(b"{}", "tokenizer.json"), "The tokenizer .*tokenizer.json cannot be read"),
    (no_filler, "does not say what captions are filled up with"),
    (holding(b'{"model_type": "bert"}', "config.json"), "is of the kind 'bert'; the kinds .* are clip, siglip"),
]


@pytest.mark.parametrize(("spoil", "sentence"), REFUSED)
def test_a_spoilt_folder_is_refused_in_a_sentence(copy: Path, spoil: Callable[[Path], object], sentence: str) -> None:
    spoil(copy)
    with pytest.raises(EncoderError, match=sentence) as caught:
        load_encoder(str(copy)).encode_text(CAPTIONS)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def text(pattern: object, content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}


STEPS: dict[str, tuple[str, object]] = {
    "doubles a text sixty times": (
        "normalizer",
        {"type": "Sequence", "normalizers": [text({"String": "a"}, "aa")] * 60},
    ),
    "finds nothing everywhere": ("normalizer", text({"Regex": ""}, "x")),
    "takes for ever": ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"(.*)*x\1"}, "behavior": "Isolated"}),
    "begins with a novel": ("normalizer", {"type": "Prepend", "prepend": "a" * 100_000}),
    "makes long texts of letters": (
        "normalizer",
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(4) + b"a" * 200).decode()},
    ),
    "panics": ("pre_tokenizer", {"type": "FixedLength", "length": 0}),
    "is thirty steps": ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 30}),
    "has no words": ("model", {"type": "BPE", "vocab": {}, "merges": []}),
    "has no words either": ("model", {"type": "Unigram", "vocab": [], "unk_id": None}),
    "cuts words of any length": ("model", {"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 10**9}),
    "is nothing": ("model", None),
}


@pytest.mark.parametrize("name", STEPS)
def test_hazard_242_steps_that_no_known_tokenizer_has_are_refused(copy: Path, name: str) -> None:
    part, step = STEPS[name]
    changed("tokenizer.json", **{part: step})(copy)
    with pytest.raises(EncoderError, match=r"^The tokenizer .*tokenizer.json (has|cannot be read) .*model") as caught:
        load_encoder(str(copy))
    assert len(str(caught.value)) < 400


def test_hazard_242_a_caption_that_a_tokenizer_fails_on_costs_one_sentence(copy: Path) -> None:
    words = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [], "unk_token": "[UNK]"}
    changed("tokenizer.json", model=words, normalizer=None, pre_tokenizer=None, post_processor=None)(copy)
    encoder = load_encoder(str(copy))
    for ask in (encoder.encode_text, encoder.truncated):
        with pytest.raises(EncoderError, match=r"has a tokenizer that fails on a caption \(Exception: Unk token"):
            ask(["abc"])


def test_hazard_243_a_model_is_read_first_in_a_process_that_can_be_killed(
    copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evenreel.encoders.loading.read_first", read_first)
    small = len(graph_of(10).SerializeToString())
    (copy / "onnx/vision_model.onnx").write_bytes(graph_of(10).SerializeToString())
    assert load_encoder(str(copy)).dimension == 128
    with monkeypatch.context() as patch:
        patch.setattr("evenreel.encoders.loading.Worker", lambda *_: pytest.fail("it was read well before"))
        load_encoder(str(copy))
    large = graph_of(2 * 10**9).SerializeToString()  # 7.5 GiB of a file of 500 bytes
    assert len(large) - small < 10
    (copy / "onnx/vision_model.onnx").write_bytes(large)
    monkeypatch.setattr("evenreel.encoders.loading.LEAST_BYTES", 2**30)
    with pytest.raises(EncoderError, match=r"is not used: reading it took more than 1,0\d\d MiB of memory, the limit"):
        load_encoder(str(copy))
    changed("tokenizer.json", normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w=="})(copy)
    with pytest.raises(EncoderError, match="has a tokenizer that cannot be read .PanicException: Precompiled"):
        load_encoder(str(copy))
    with pytest.raises(UsageError, match="runs on the CPU in float32 here"):
        load_encoder(str(copy), device="cuda")


def graph_of(numbers: int) -> Any:
    """A tower of pictures that adds up so many zeros first."""
    from onnx import TensorProto, helper, numpy_helper

    given = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["b", 3, 64, 64])
    made = helper.make_tensor_value_info("image_embeds", TensorProto.FLOAT, ["b", 128])
    nodes = [
        helper.make_node("ConstantOfShape", ["length"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["nothing"], keepdims=0),
        helper.make_node("ReduceMean", ["pixel_values"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "map"], ["mapped"]),
        helper.make_node("Add", ["mapped", "nothing"], ["image_embeds"]),
    ]
    weights = [
        helper.make_tensor("length", TensorProto.INT64, [1], [numbers]),
        numpy_helper.from_array(np.ones((3, 128), np.float32), "map"),
    ]
    graph = helper.make_graph(nodes, "tower", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_an_older_runtime_is_given_no_graph_with_weights_in_other_files(tmp_path: Path) -> None:
    """It reads them wherever they are, which no version from 1.24 on does (see the refusals above)."""
    (tmp_path / "a.onnx").write_bytes(graph_with_weights_in("../weights"))
    assert _looks_where_weights_lie(tmp_path / "a.onnx", "1.24.0")
    with pytest.raises(EncoderError, match=r"ONNX Runtime 1\.23\.2 does not look where they are"):
        _looks_where_weights_lie(tmp_path / "a.onnx", "1.23.2")
    (tmp_path / "a.onnx").write_bytes(graph_of(10).SerializeToString())
    assert not _looks_where_weights_lie(tmp_path / "a.onnx", "1.9.0")


def test_weights_beside_a_graph_are_part_of_the_fingerprint_and_other_graphs_are_not(tmp_path: Path) -> None:
    folder = public_export(tmp_path / "model")
    before = load_encoder(str(folder)).weights_hash
    (folder / "onnx" / "text_model_fp16.onnx").write_bytes(b"another graph")
    (folder / "onnx" / "text_model_fp16.onnx_data").write_bytes(b"and its weights")
    assert load_encoder(str(folder)).weights_hash == before
    data = folder / "onnx" / "vision_model.onnx_data"
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    assert load_encoder(str(folder)).weights_hash != before


@pytest.mark.parametrize(
    ("said", "threads"),
    [("4,2", 4), (" 2 ", 2), ("1", 1), ("99", 8), ("0", 8), ("-3", 8), ("", 8), ("many", 8), ("\u00b2", 8)],
)
def test_threads_are_what_the_variable_of_openmp_says(monkeypatch: pytest.MonkeyPatch, said: str, threads: int) -> None:
    made = []
    monkeypatch.setattr("evenreel.config.usable_cores", lambda: 8)
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda path, options, **_: made.append(options))
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    _session(BUILTIN_FOLDER / "text_model.onnx")
    assert [options.intra_op_num_threads for options in made] == [threads]


def test_features_need_vectors_of_words(onnx: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder("builtin")
    assert isinstance(encoder, OnnxEncoder)
    monkeypatch.setattr(encoder._text, "words", False)
    monkeypatch.setattr(encoder._text, "_outputs", encoder._text._outputs[:1])
    found = encoder.encode_text(CAPTIONS)  # as a public export gives them
    assert found.words.shape == (len(CAPTIONS), 0, 128)
    assert np.array_equal(found.sentence, onnx.encode_text(CAPTIONS).sentence)
    with pytest.raises(EncoderError, match="gives no vectors of words, which features hold"):
        encode_block(CAPTIONS, encoder)


def test_an_accelerator_that_is_slower_or_makes_other_vectors_is_left_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is faster stays; one that is named is not compared."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 1, 3, 48, 64), np.uint8)
    expected = load_encoder("builtin", device="cpu").encode_windows(pixels)
    real_run, plays = Graph.run, dict[str, Any]({"slow": "coreml", "added": 0.0})

    def run(self: Graph, inputs: dict[str, Any]) -> list[Any]:
        time.sleep(0.2 if self.device == plays["slow"] else 0.0)
        made = real_run(self, inputs)
        return [made[0] + plays["added"] * np.arange(made[0].shape[1]), *made[1:]] if self.device == "coreml" else made

    class Session:
        def __init__(self, path: str, options: Any, providers: list[str]) -> None:
            self._real, self.get_providers = real_session(path, options, providers=providers[-1:]), lambda: providers

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    real_session = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CoreMLExecutionProvider"])
    monkeypatch.setattr(Graph, "run", run)
    for slow, added, said in (
        ("coreml", 0.0, r"CPU \(CoreML was slower: [\d.]+ against [\d.]+ pictures/s\)"),
        ("cpu", 0.0, "CoreML"),
        ("cpu", 1.0, r"CPU \(CoreML made other vectors\)"),
    ):
        plays |= {"slow": slow, "added": added}
        encoder = load_encoder("builtin")
        assert np.allclose(encoder.encode_windows(pixels), expected, atol=1e-6)
        assert re.fullmatch(said, encoder.computed_on), encoder.computed_on
    assert load_encoder("builtin", device="cpu").computed_on == "CPU"


def test_batches_halve_when_memory_runs_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder("builtin")
    assert isinstance(encoder, OnnxEncoder)
    expected = encoder.encode_windows(frames((70, 80), 9))
    sizes = with_memory_for(encoder, 2, monkeypatch)
    np.testing.assert_allclose(encoder.encode_windows(frames((70, 80), 9)), expected, atol=1e-6)
    assert sizes == [9, 9, 8, 4, 2, 2, 2, 2, 1]  # the batch goes 32, 16, 8, 4, 2, as that of torch does
    assert encoder.batch_size == 2
    assert "memory ran out, going on with 2 at a time" in caplog.text
