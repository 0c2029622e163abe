"""Loading an encoder by the model's name."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from evenreel.arguments import check_kind, described
from evenreel.encoders import first_reading
from evenreel.encoders.checkpoint import missing_parts, of_model, open_checkpoint
from evenreel.encoders.contexts import garbage_left
from evenreel.encoders.first_reading import check_tokenizer
from evenreel.encoders.onnx_encoder import OnnxEncoder, has_onnx, missing_onnx_parts, open_onnx_folder, read_record
from evenreel.encoders.sources import locate
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import installed
from evenreel.media.workers import Message

if TYPE_CHECKING:
    from evenreel.encoders.tower_loading import TowerEncoder

LoadedEncoder: TypeAlias = "TowerEncoder | OnnxEncoder"
"""An encoder on torch, or one on ONNX Runtime."""

Precision = Literal["float32", "bfloat16", "float16"]
SAMPLES = ("", "a red ball", string.printable, "ﬁ Ａ é 红球 мяч كرة ０１ 🏖️")
"""Captions that a model is tried with when it is read first."""


def load_encoder(
    name: str | PathLike[str],
    *,
    device: str = "auto",
    precision: str = "float32",
    revision: str | None = None,
    batch_size: int = 32,
) -> LoadedEncoder:
    """Load a model in safetensors or in ONNX form; nothing else is read, and no code of a model is run.

    The families that are understood are in `evenreel.encoders.families`. A model in ONNX form runs on ONNX Runtime, on
    the CPU in float32; so does the built-in one, and any checkpoint with its export in the same folder, unless another
    device or precision is named. Without torch, graphs beside a checkpoint are taken whoever made them.

    A model of the hub that is in the cache is used from there without a look at the network. A folder is read in a
    process of its own at first, which is stopped where it takes too much time or memory.

    Args:
        name: `builtin`, a folder, or a hub id `org/name` or `org/name@revision`.
        device: `auto` (a CUDA GPU where there is one, for a checkpoint), `cpu`, `cuda`, `cuda:1`, ...
        precision: `float32`, `bfloat16`, or `float16` (GPU only): the numbers the towers calculate with.
        revision: commit, branch or tag of a hub id.
        batch_size: frames or captions at a time; it halves by itself where memory does not suffice.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had, read or trusted, or needs torch, which is not installed.
    """
    check_kind(name, (str, PathLike), "name", "give builtin, a folder, or a hub id")
    check_kind(device, str, "device", "give its name, such as auto or cpu")
    if not isinstance(precision, str) or precision not in get_args(Precision):
        raise UsageError(f"The precision {described(precision)} is not one of {', '.join(get_args(Precision))}.")
    check_kind(batch_size, Integral, "batch_size", "give a whole number")
    if batch_size < 1:
        raise UsageError(f"The batch size is {batch_size}; it must be 1 or more.")
    encoder_id, folder = locate(fspath(name), revision)
    first_reading.read_first(folder, device, precision)
    return open_encoder(encoder_id, folder, (device, precision), batch_size)


def open_encoder(encoder_id: str, folder: Path, given: tuple[str, str], batch_size: int = 32) -> LoadedEncoder:
    """Load a model from its folder on a device and in a precision, see `load_encoder`."""
    device, precision = given

    def towers() -> TowerEncoder:
        return _load_towers(encoder_id, folder, given, batch_size)

    if not has_onnx(folder):
        return towers()
    plain = device in ("auto", "cpu") and precision == "float32"
    beside = not missing_parts(folder)
    only_graphs = not installed("torch") and not missing_onnx_parts(folder)
    if beside and not (plain and (only_graphs or read_record(folder))):
        return towers()
    if not plain:
        raise UsageError(
            f"The model in {folder} is in ONNX form, which runs on the CPU in float32 here; leave --device and "
            "--precision out, or use its checkpoint."
        )
    model = open_onnx_folder(folder)
    return OnnxEncoder(model, encoder_id, model.weights_hash(), batch_size, towers if beside else None)


def _load_towers(encoder_id: str, folder: Path, given: tuple[str, str], batch_size: int) -> TowerEncoder:
    if not installed("torch"):  # asked first: of a hub's checkpoint, its settings alone are fetched then
        raise EncoderError(
            f"The model in {folder} is a checkpoint, which needs torch: pip install 'evenreel[torch]'; or use a model "
            "in ONNX form (--model FOLDER or ORG/NAME of the hub), or the small one inside the package (--model "
            "builtin)."
        )
    checkpoint = open_checkpoint(folder)
    device, precision = given
    with ThreadPoolExecutor(1) as pool, garbage_left():
        # Hashing 600 MB takes a second or two, about as long as the imports below: do both at once.
        digest = pool.submit(checkpoint.digest)
        from evenreel.encoders.devices import usable_device
        from evenreel.encoders.tower_loading import TowerEncoder, load_towers

        towers = load_towers(checkpoint, usable_device(device, precision), precision)
        return TowerEncoder(towers, encoder_id, digest.result(), batch_size)


class FirstReading:
    """Reads a model and encodes with it, in the process that `read_first` can kill."""

    def __call__(self, task: Mapping[str, Any]) -> Iterator[Message]:
        """Read the folder of a task; the message says what was wrong with it, and whether it was read."""
        folder, refused, read = Path(task["folder"]), None, True
        try:
            with of_model(folder, "cannot be used"):
                check_tokenizer(folder)
                encoder = open_encoder(str(folder), folder, (task["device"], task["precision"]))
                for caption in SAMPLES:
                    encoder.encode_text([caption])
                encoder.encode_windows(np.zeros((1, 1, 3, 48, 64), np.uint8))
        except UsageError:  # the caller's own, who is told by what reads it next
            read = False
        except EncoderError as error:
            refused = str(error)
        yield {"refused": refused, "read": read}, None
