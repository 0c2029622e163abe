"""Graphs in int8 and float16: taken by name, with an id and a hash of their own, whatever else is in a batch."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.real_shapes import save_tokenizer
from evenreel.config import IndexSettings
from evenreel.encoders import encoder as onnx_encoder
from evenreel.encoders import load_encoder
from evenreel.encoders import onnx_export as export
from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.encoder import OnnxEncoder, without_weights
from evenreel.encoders.loading import BUILTIN_FOLDER, folder_here, known_models, read_first
from evenreel.errors import EncoderError, LibraryError, UsageError
from evenreel.library import index_folders, open_library
from evenreel.types import Pixels
from tests.encoders.hub import COMMIT, EXPORT, Hub, environment
from tests.encoders.onnx_files import public_export
from tests.library.videos import write_folder

CAPTIONS = ["a red star on a beach", "a blue heart", "", "two green squares " * 20]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model, whose weights are learnt, in float32 and int8; not to be changed."""
    folder = tmp_path_factory.mktemp("exports") / "builtin"
    record = export.export_onnx("builtin", folder, precision="int8")
    assert record.precision == "int8" and record.lower is not None and 0.98 < record.lower < 0.9999
    return folder


def scenes(count: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (count, 1, 3, 48, 64), np.uint8)


def test_graphs_in_int8_are_a_model_of_their_own_that_says_so(exported: Path) -> None:
    exact, rough = load_encoder(str(exported)), load_encoder(str(exported), precision="int8")
    assert (exact.encoder_id, rough.encoder_id) == (str(exported), f"{exported}#int8")
    assert rough.weights_hash != exact.weights_hash and rough.precision == "int8"
    again = load_encoder(rough.encoder_id)
    assert again.weights_hash == rough.weights_hash
    for one, other in (
        (exact.encode_windows(scenes(8)), again.encode_windows(scenes(8))),
        (exact.encode_text(CAPTIONS).sentence, again.encode_text(CAPTIONS).sentence),
    ):
        assert 0.98 < (one * other).sum(1).min() < 0.99999
    with pytest.raises(UsageError, match="is in int8, not in float32; leave --precision out"):
        load_encoder(rough.encoder_id, precision="float32")


def test_a_vector_in_int8_does_not_depend_on_what_else_is_in_its_batch(exported: Path) -> None:
    encoder, pixels = load_encoder(str(exported), precision="int8"), scenes(8)
    pixels[3] = 0  # a scale of its own
    together, text = encoder.encode_windows(pixels), encoder.encode_text(CAPTIONS).sentence
    for place in range(8):
        assert np.array_equal(encoder.encode_windows(pixels[place : place + 1])[0], together[place])
    for place, caption in enumerate(CAPTIONS):
        assert np.array_equal(encoder.encode_text([caption]).sentence[0], text[place])


@pytest.mark.parametrize("ending", ["_int8", "_quantized"])
def test_graphs_are_taken_by_the_names_of_public_exports(exported: Path, tmp_path: Path, ending: str) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "model"))
    for name in ("text_model", "vision_model"):
        (folder / "onnx" / f"{name}_int8.onnx").rename(folder / "onnx" / f"{name}{ending}.onnx")
        (folder / "onnx" / f"{name}.onnx").unlink()
    assert load_encoder(str(folder), precision="int8").dimension == 128
    (folder / "onnx" / f"text_model{ending}.onnx").unlink()
    with pytest.raises(
        EncoderError, match=r"is not there in int8 \(onnx/text_model_int8.onnx missing\).*--export MODEL"
    ):
        load_encoder(str(folder), precision="int8")


def test_float16_is_written_and_read_too(tmp_path: Path) -> None:
    record = export.export_onnx("builtin", tmp_path / "half", precision="float16")
    assert record.lower is not None and record.lower > 0.9999
    half = load_encoder(str(tmp_path / "half"), precision="float16")
    assert isinstance(half, OnnxEncoder) and half.encoder_id.endswith("#float16")
    assert half.encode_windows(scenes(2)).dtype == np.float32
    with pytest.raises(UsageError, match="An export is in float32, int8, float16, not in bfloat16"):
        export.export_onnx("builtin", tmp_path / "other", precision="bfloat16")


def test_a_library_keeps_the_precision_that_it_was_made_in(exported: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "videos", 2)
    settings = IndexSettings(str(exported), precision="int8", read_text=False)
    index_folders(tmp_path / "videos", tmp_path / "library", settings)
    with open_library(tmp_path / "library") as library:
        assert library.made_with == (f"{exported}#int8", load_encoder(f"{exported}#int8").weights_hash)
        assert len(library.search("a tram").hits) == 2
    write_folder(tmp_path / "videos", 3)
    report = index_folders(tmp_path / "videos", tmp_path / "library", IndexSettings(read_text=False))
    assert report.indexed == 1
    for count in (3, 4):  # also where no file is new
        write_folder(tmp_path / "videos", count)
        for other in (IndexSettings(str(exported)), IndexSettings(precision="float32")):
            with pytest.raises((LibraryError, UsageError), match="int8"):
                index_folders(tmp_path / "videos", tmp_path / "library", other)
    index_folders(tmp_path / "videos", tmp_path / "exact", IndexSettings(str(exported), read_text=False))
    with pytest.raises(LibraryError, match=r"#int8 has other weights.*leave --model and --precision out"):
        index_folders(tmp_path / "videos", tmp_path / "exact", IndexSettings(str(exported), precision="int8"))


def test_the_hubs_graphs_in_int8_stand_in_for_the_default_with_torch_too(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "export"))
    write_folder(tmp_path / "videos", 1)
    command = [sys.executable, "-m", "evenreel", "index", "videos", "--no-ocr", "-l", "library", "--precision", "int8"]
    with Hub({EXPORT: folder}) as hub:
        given = environment(hub, tmp_path, MISSING="sklearn")
        done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        graphs = {name for _, name in hub.sent if name.startswith("onnx/")}
    assert graphs == {"onnx/text_model_int8.onnx", "onnx/vision_model_int8.onnx"}
    with open_library(tmp_path / "library", vision=False) as library:
        assert library.made_with[0] == f"{EXPORT}@{COMMIT}#int8"


def test_weights_stay_in_a_graphs_file_and_vectors_are_the_same(exported: Path, tmp_path: Path) -> None:
    """Also of graphs whose weights lie beside them."""
    inputs = {"input_ids": np.arange(20)[None] % 9, "attention_mask": np.ones((1, 20), np.int64)}
    for path in (exported / "onnx/text_model.onnx", public_export(tmp_path / "public") / "onnx/text_model.onnx"):
        graph, whole = without_weights(path), path.read_bytes()
        assert len(graph) < len(whole) / 4
        assert len(onnx.load_from_string(graph).graph.node) == len(onnx.load(str(path)).graph.node)
        expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for packed in (True, False):
            session = onnx_encoder._session(path, packed=packed)
            names = [one.name for one in expected.get_inputs()]
            given = {name: inputs[name] for name in names}
            for made, right in zip(session.run(None, given), expected.run(None, given), strict=True):
                np.testing.assert_allclose(made, right, atol=1e-5)
    assert without_weights(BUILTIN_FOLDER / "text_model.onnx") == b""  # they lie beside it


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_graph_is_refused_or_read_but_breaks_nothing(
    exported: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray((exported / "onnx/vision_model.onnx").read_bytes())
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, min(len(content) - 1, 3000)))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        onnx_encoder._session(path)
    except EncoderError as error:
        assert str(path) in str(error) and "\n" not in str(error)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of as many pieces as that of the default model, and the file of its pieces beside it."""
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder, 120_000)
    assert onnx_encoder.write_pieces(folder / "tokenizer.json", folder / "pieces")
    return folder


TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from("▁bcdfghklmnprst aeio一丁"), max_size=60).map("".join),
    st.lists(st.text("bcdt aeio", min_size=1, max_size=9), max_size=9).map(" ".join),
)


@functools.cache
def whole_tokenizer(file: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(file)


@given(captions=st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_tokenizer_of_few_pieces_cuts_captions_as_the_whole_one(large: Path, captions: list[str]) -> None:
    whole = whole_tokenizer(str(large / "tokenizer.json"))
    small = onnx_encoder.small_tokenizer(large / "pieces", captions, lambda tokenizer: tokenizer)
    assert small is not None and small.get_vocab_size() < 2_000
    assert [row.ids for row in small.encode_batch(captions)] == [row.ids for row in whole.encode_batch(captions)]


def test_the_whole_tokenizer_is_asked_where_the_small_one_could_differ(large: Path, tmp_path: Path) -> None:
    def lowered(tokenizer: Any) -> Any:
        onnx_encoder.lower_case(tokenizer)
        return tokenizer

    def small(captions: list[str], path: Path = large / "pieces") -> object:
        return onnx_encoder.small_tokenizer(path, captions, lowered)

    assert small(["a" * 300, "b" * 101]) is None and small(["a"], tmp_path / "none") is None
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert small(["a"], tmp_path / "damaged") is None
    rules = json.loads((large / "tokenizer.json").read_text(encoding="utf-8"))
    of_mark = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    marks = [{"id": 1, "content": "<eos>", "normalized": False}, {"id": 2, "content": "Red", "normalized": True}]
    rules["added_tokens"] = [of_mark | mark for mark in marks]
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules), encoding="utf-8")
    assert onnx_encoder.write_pieces(tmp_path / "tokenizer.json", tmp_path / "marked")
    assert small(["a<eos>b"], tmp_path / "marked") is small(["a red ball"], tmp_path / "marked") is None
    assert small(["ab"], tmp_path / "marked") is not None
    assert not onnx_encoder.write_pieces(BUILTIN_FOLDER / "tokenizer.json", tmp_path / "tiny")


def test_a_model_that_was_read_well_is_not_hashed_again_until_a_file_changes(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "model", ignore=shutil.ignore_patterns("evenreel_export.json")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evenreel.encoders.loading.read_first", read_first)
    hashes = {name: load_encoder(str(folder), precision=name).weights_hash for name in ("float32", "int8")}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "digest", lambda self: pytest.fail("hashed again"))
        for name, expected in hashes.items():
            assert load_encoder(str(folder), precision=name).weights_hash == expected
    for name, value in (("loading.installed", lambda package: False), ("encoder.__version__", "another")):
        with monkeypatch.context() as patch:  # another form may be read then, or hashed in another way
            patch.setattr(f"evenreel.encoders.{name}", value)
            kept = set((tmp_path / "cache").rglob("*"))
            assert load_encoder(str(folder)).weights_hash == hashes["float32"]
            assert len(set((tmp_path / "cache").rglob("*")) - kept) == 1
    for damaged in (b"\xff", b"graphs", b""):
        for path in (tmp_path / "cache").rglob("models/*"):
            path.write_bytes(damaged)
        assert load_encoder(str(folder)).weights_hash == hashes["float32"]
    settings_file = folder / "config.json"
    settings_file.write_text(settings_file.read_text().replace("{", '{"note": 1, ', 1))
    assert load_encoder(str(folder)).weights_hash != hashes["float32"]
    (folder / "onnx" / "parts" / "more").mkdir(parents=True)
    graph, weights = folder / "onnx" / "vision_model.onnx", folder / "onnx" / "parts" / "more" / "weights"
    onnx.save(onnx.load(str(graph)), str(graph), save_as_external_data=True, location="parts/more/weights")
    before = load_encoder(str(folder)).weights_hash
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert load_encoder(str(folder)).weights_hash != before
    assert folder_here(str(folder)) == folder_here(f"{folder}#int8") == folder
    assert known_models().find("default#int8") == known_models().find("default")


@pytest.mark.parametrize("rows", [10, 10**6, 10**9])
def test_a_table_of_another_size_than_its_numbers_is_refused(tmp_path: Path, rows: int) -> None:
    """Where it is mapped, what lies behind it in the file or beyond its end would be read."""
    from onnx import TensorProto, helper

    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, 4], raw_data=bytes(16_000))
    given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n"])
    made = helper.make_tensor_value_info("text_embeds", TensorProto.FLOAT, ["n", 4])
    node = helper.make_node("Gather", ["table", "input_ids"], ["text_embeds"])
    graph = helper.make_graph([node], "tower", [given], [made], [table])
    version = helper.make_opsetid("", 13)
    onnx.save(helper.make_model(graph, opset_imports=[version], ir_version=8), str(tmp_path / "graph.onnx"))
    with pytest.raises(EncoderError, match="graph.onnx is damaged"):
        onnx_encoder._session(tmp_path / "graph.onnx")
