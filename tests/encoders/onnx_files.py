"""Models in ONNX form: the built-in one, changed, and small files written by hand as protocol buffers."""

from __future__ import annotations

import shutil
from pathlib import Path

from evenreel.encoders.onnx.folder import RECORD
from evenreel.encoders.sources import BUILTIN_FOLDER


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


def field(number: int, content: bytes) -> bytes:
    """A part of a message of protocol buffers: its number, its length, its bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def graph_with_weights_in(location: str) -> bytes:
    """A model with one tensor whose numbers lie in another file; fields after onnx.proto3."""
    entry = field(1, b"location") + field(2, location.encode())
    length = field(1, b"length") + field(2, b"4")
    tensor = _varint(1 << 3) + _varint(1) + field(13, entry) + field(13, length)
    return _varint(1 << 3) + _varint(8) + field(7, field(5, tensor))


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
