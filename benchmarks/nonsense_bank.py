"""What the nonsense bank of a library costs: encoded in batches of several sizes, and kept for the next library.

    python -m benchmarks.nonsense_bank MODEL [--batches 1 8 32]

MODEL is a folder or name as `evenreel index --model` takes it; random weights of a real shape do. Seconds are processor
time of one process; run it with one thread (OMP_NUM_THREADS=1). `apart` is the largest 1 - cosine of a vector to
that of its caption encoded alone. `first library` and `second library` are `update_null_scores` on a library of one
clip, in a cache folder that is empty at first.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
from importlib import resources
from pathlib import Path

import numpy as np

from evenreel.encoders import load_encoder
from evenreel.library.store.vectors import ExactVectors, null_queries, update_null_scores
from evenreel.types import Encoder, FloatArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    given = parser.parse_args()
    began_s = time.process_time()
    encoder = load_encoder(given.model, device="cpu")
    print(f"loading the model            {time.process_time() - began_s:8.2f} s")
    encoder.encode_text(["a first caption"])
    alone = None
    for size in given.batches:
        encoder.batch_size = size
        began_s = time.process_time()
        bank = encoder.encode_text(null_queries()).sentence
        took_s = time.process_time() - began_s
        alone = bank if alone is None else alone
        apart = float(np.max(1 - np.sum(alone * bank, axis=1)))
        print(f"{len(bank)} queries, {size:3} at a time  {took_s:8.2f} s   apart {apart:.1e}")
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = place
        for name in ("first", "second"):
            print(f"{name + ' library':29}{library_s(Path(place, name), encoder, bank[:5]):8.2f} s")


def library_s(folder: Path, encoder: Encoder, frames: FloatArray) -> float:
    """Processor time of the yardstick of a library with one clip."""
    folder.mkdir()
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(resources.files("evenreel.library.store").joinpath("schema.sql").read_text("utf-8"))
    connection.execute("INSERT INTO clips VALUES ('c', 'mp4', 'h264', 640, 360, 5, 25, 1, 1, '[]', '')")
    connection.execute("INSERT INTO vector_rows VALUES ('c', 0, ?)", (len(frames),))
    vectors = ExactVectors(folder / "vectors.0.f16", encoder.dimension)
    vectors.append(frames)
    began_s = time.process_time()
    update_null_scores(connection, vectors, encoder)
    return time.process_time() - began_s


if __name__ == "__main__":
    main()
