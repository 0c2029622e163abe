"""Graphs that take their weights from the safetensors file beside them, so that a folder holds them once."""

from __future__ import annotations

import json
from pathlib import Path

_LEAST = 256
"""Bytes below which a tensor stays in its graph."""


def share_weights(graph: Path, weights: Path) -> None:
    """Replace weights in an ONNX file by references to equal ones in a safetensors file of the same folder.

    Both formats keep a tensor as its plain numbers one after the other, so a place in the file is all it takes.
    """
    import onnx

    places = _places(weights)
    model = onnx.load(str(graph))
    for tensor in model.graph.initializer:
        data = tensor.raw_data
        if len(data) < _LEAST or (place := places.get(data)) is None:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", str(place)), ("length", str(len(data)))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
    onnx.save(model, str(graph))


def _places(weights: Path) -> dict[bytes, int]:
    """Where in a safetensors file the bytes of each tensor begin: after 8 bytes of length and a header of JSON."""
    content = weights.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    spans = [tuple(entry["data_offsets"]) for name, entry in header.items() if name != "__metadata__"]
    return {content[start + first : start + last]: start + first for first, last in spans}
