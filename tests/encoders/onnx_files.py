"""Models in ONNX form: the built-in one, changed, and small files written by hand as protocol buffers."""

from __future__ import annotations

import shutil
from pathlib import Path

from evenreel.encoders.checkpoint import RECORD
from evenreel.encoders.loading import BUILTIN_FOLDER


def onnx_copy(folder: Path) -> Path:
    """The built-in model as an export of somebody else: its graphs and their weights, and no record."""
    return Path(shutil.copytree(BUILTIN_FOLDER, folder, ignore=shutil.ignore_patterns(RECORD)))


def alone(folder: Path) -> Path:
    """The same in the folder `onnx`, with nothing that makes the folder a checkpoint."""
    onnx_copy(folder)
    (folder / "onnx").mkdir()
    for name in ("text_model.onnx", "vision_model.onnx", "model.safetensors"):
        (folder / name).rename(folder / "onnx" / name)
    return folder


def public_export(folder: Path) -> Path:
    """The same in the form of public exports: weights of words inside their graph, those of pictures beside theirs."""
    import onnx

    alone(folder)
    text, pictures = (folder / "onnx" / name for name in ("text_model.onnx", "vision_model.onnx"))
    graphs = [onnx.load(str(path)) for path in (text, pictures)]
    (folder / "onnx" / "model.safetensors").unlink()
    onnx.save(graphs[0], str(text))
    onnx.save(graphs[1], str(pictures), save_as_external_data=True, location=f"{pictures.name}_data")
    return folder


def graph_with_weights_in(location: str) -> bytes:
    """A model with one tensor whose numbers lie in another file."""
    from onnx import TensorProto, external_data_helper, helper

    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(4))
    external_data_helper.set_external_data(weights, location, 0, 4)
    weights.ClearField("raw_data")
    made = helper.make_tensor_value_info("text_embeds", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["text_embeds"])], "tower", [], [made], [weights])
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return content
