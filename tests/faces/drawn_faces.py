"""Drawn 'faces' and models of the inputs and outputs of YuNet and SFace that find and tell them; and films of them.

A face is 96 pixels wide: three rows of three squares, the middle one magenta and on the grid of 32 pixels. The detector
answers wherever a square of the grid is magenta; the recogniser projects the aligned face, which holds the colours of
the others. Real weights cannot be had as a package, so that nothing here says how well they tell people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from evenreel.faces import DETECTOR, RECOGNISER
from evenreel.planted import write_clip
from evenreel.types import Pixels

CELL = 32
SIDE = 3 * CELL
CANVAS = 640
MAGENTA = (255, 0, 255)
ALIGNED = ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041))
"""Where an aligned face of 112 pixels has its right eye, left eye, nose and corners of the mouth, as SFace has it."""
LANDMARKS = tuple((x * 3 / 112 - 1, y * 3 / 112 - 1) for x, y in ALIGNED)
"""The same from the left top corner of the middle square, in squares, so that the aligned face is the whole of it."""


@cache
def colours(person: int) -> NDArray[np.uint8]:
    """(3, 3, 3): the colours of a person's face, unlike those of everyone with a lower number; none is magenta."""
    rng = np.random.default_rng(1_000 + person)
    others = [np.where(colours(other) > 128, 1, -1).reshape(-1) for other in range(person)]
    while True:
        signs = rng.choice([-1, 1], (3, 3, 3))
        magenta = (signs == [1, -1, 1]).all(axis=2)
        if not magenta.any() and all(signs.reshape(-1) @ other <= 4 for other in others):
            return np.where(signs > 0, 235, 20).astype(np.uint8)


def face(person: int) -> Pixels:
    """(96, 96, 3): the face of a person."""
    picture = np.kron(colours(person), np.ones((CELL, CELL, 1), np.uint8)).astype(np.uint8)
    picture[CELL : 2 * CELL, CELL : 2 * CELL] = MAGENTA
    return picture


def scene(people: Mapping[tuple[int, int], int], size: tuple[int, int] = (192, 256), grey: int = 90) -> Pixels:
    """(H, W, 3): a grey picture with the face of a person at each place (row, column) of the grid."""
    picture = np.full((*size, 3), grey, np.uint8)
    for (row, column), person in people.items():
        picture[row * CELL : row * CELL + SIDE, column * CELL : column * CELL + SIDE] = face(person)
    return picture


def write_people(path: Path, seconds: Sequence[Mapping[tuple[int, int], int]], grey: int = 90) -> Path:
    """A film of two frames a second that shows for each second the people given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_clip(path, (scene(people, grey=grey) for people in seconds for _ in range(2)), 2)
    return path


def write_models(folder: Path, seed: int = 0) -> Path:
    """A folder with a detector and a recogniser of drawn faces, under the names of the published files."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(_detector(), folder / DETECTOR)
    onnx.save(_recogniser(seed), folder / RECOGNISER)
    return folder


def _detector() -> onnx.ModelProto:
    """Magenta squares of the grid, at the outputs of YuNet for cells of 32 pixels; those of 8 and 16 find nothing."""
    weights = np.array([1, -2, 1], np.float32).reshape(1, 3, 1, 1) * (1.15 / 2 / 255)
    nodes = [helper.make_node("Conv", ["input", "weights"], ["magenta"])]
    held = [numpy_helper.from_array(weights, "weights")]
    outputs = []
    for stride in (8, 16, 32):
        count = (CANVAS // stride) ** 2
        found = 1.0 if stride == CELL else 0.0
        box = np.array([0.5, 0.5, np.log(SIDE / stride), np.log(SIDE / stride)], np.float32)
        marks = np.array(LANDMARKS, np.float32).reshape(-1)
        held += [
            numpy_helper.from_array(np.float32(found), f"found_{stride}"),
            numpy_helper.from_array(np.float32(0), f"none_{stride}"),
            numpy_helper.from_array(np.array([1, count, 1]), f"shape_{stride}"),
            numpy_helper.from_array(np.tile(box, (1, count, 1)), f"box_{stride}"),
            numpy_helper.from_array(np.tile(marks, (1, count, 1)), f"marks_{stride}"),
        ]
        pool = {"kernel_shape": [stride, stride], "strides": [stride, stride]}
        nodes += [
            helper.make_node("AveragePool", ["magenta"], [f"pooled_{stride}"], **pool),
            helper.make_node("Reshape", [f"pooled_{stride}", f"shape_{stride}"], [f"flat_{stride}"]),
            helper.make_node("Mul", [f"flat_{stride}", f"found_{stride}"], [f"cls_{stride}"]),
            helper.make_node("Mul", [f"flat_{stride}", f"found_{stride}"], [f"obj_{stride}"]),
            helper.make_node("Mul", [f"flat_{stride}", f"none_{stride}"], [f"zero_{stride}"]),
            helper.make_node("Add", [f"zero_{stride}", f"box_{stride}"], [f"bbox_{stride}"]),
            helper.make_node("Add", [f"zero_{stride}", f"marks_{stride}"], [f"kps_{stride}"]),
        ]
        for name, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            outputs.append(helper.make_tensor_value_info(f"{name}_{stride}", TensorProto.FLOAT, [1, count, width]))
    given = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, CANVAS, CANVAS])
    return _model(helper.make_graph(nodes, "detector", [given], outputs, held))


def _recogniser(seed: int) -> onnx.ModelProto:
    """A random projection of the mean colours of 7 x 7 parts of the aligned face to 128 numbers."""
    rng = np.random.default_rng(seed)
    held = [
        numpy_helper.from_array(np.float32(-128), "grey"),
        numpy_helper.from_array(rng.standard_normal((7 * 7 * 3, 128)).astype(np.float32), "projection"),
        numpy_helper.from_array(np.array([1, 7 * 7 * 3]), "flat"),
    ]
    nodes = [
        helper.make_node("Add", ["data", "grey"], ["centred"]),
        helper.make_node("AveragePool", ["centred"], ["pooled"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Reshape", ["pooled", "flat"], ["row"]),
        helper.make_node("MatMul", ["row", "projection"], ["fc1"]),
    ]
    given = helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 112, 112])
    vector = helper.make_tensor_value_info("fc1", TensorProto.FLOAT, [1, 128])
    return _model(helper.make_graph(nodes, "recogniser", [given], [vector], held))


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model
