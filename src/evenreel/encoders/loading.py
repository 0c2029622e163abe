"""Loading an encoder by the model's name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, get_args

from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.garbage import garbage_left
from evenreel.encoders.sources import locate
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.encoders.encoder import TowerEncoder

Precision = Literal["float32", "bfloat16", "float16"]


def load_encoder(
    name: str,
    *,
    device: str = "auto",
    precision: str = "float32",
    revision: str | None = None,
    batch_size: int = 32,
    text_first: bool = False,
) -> TowerEncoder:
    """Load a checkpoint; only safetensors are read, and no code of the checkpoint is run.

    The families that are understood are in `evenreel.encoders.families`.

    A model of the hub that is in the cache is used from there without a look at the network.

    Args:
        name: `builtin`, a folder, or a hub id `org/name` or `org/name@revision`.
        device: `auto` (a CUDA GPU where there is one), `cpu`, `cuda`, `cuda:1`, ...
        precision: `float32`, `bfloat16`, or `float16` (GPU only): the numbers the towers calculate with.
        revision: commit, branch or tag of a hub id.
        batch_size: frames or captions at a time; it halves by itself where memory does not suffice.
        text_first: where the model is a CLIP whose text tower can be read without transformers, read that alone, and
            the rest when the first frame is to be encoded. Features are the same, bit for bit.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had, read or trusted.
    """
    if precision not in get_args(Precision):
        raise UsageError(f"The precision {precision!r} is not one of {', '.join(get_args(Precision))}.")
    if batch_size < 1:
        raise UsageError(f"The batch size is {batch_size}; it must be 1 or more.")
    encoder_id, folder = locate(name, revision)
    checkpoint = open_checkpoint(folder)
    with ThreadPoolExecutor(1) as pool, garbage_left():
        # Hashing 600 MB takes a second or two, about as long as the imports below: do both at once.
        digest = pool.submit(checkpoint.digest)
        from evenreel.encoders.encoder import TowerEncoder
        from evenreel.encoders.towers import load_towers, open_text_first, usable_device

        place = usable_device(device, precision)
        text_alone = open_text_first(checkpoint, place, precision) if text_first else None
        towers = text_alone or load_towers(checkpoint, place, precision)
        return TowerEncoder(towers, encoder_id, digest.result(), batch_size)
