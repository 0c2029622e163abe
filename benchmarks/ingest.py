"""What indexing costs over the bare library loops of its stages.

    python -m benchmarks.ingest [FOLDER] [--workers 2] [--rounds 3]

Decoding, encoding and reading text are measured alone, each twice: with our code, and as a bare loop over the same
work (PyAV decoding and converting the kept frames; the model's image tower on prepared batches; RapidOCR's two models
on the very pictures and crops that our reader gives them). Decoding and text run in as many processes as the indexer
has readers, files dealt out by length. The floor is the slowest bare loop: with the stages overlapped no indexer can
be faster. The total is that of `evenreel index`, from its first file to its last commit, process starts and model
loading included. Every figure is the best of several rounds, each of which measures all of them, so that a machine
that is slower for a while does not make a ratio. Peak memory is the resident memory of the indexer and its readers
together, the largest of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil

from evenreel.errors import MediaError
from evenreel.files import VIDEO_SUFFIXES
from evenreel.media import open_video, parse_rule
from evenreel.types import Frame

DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RULE = "every 1 s"
WORST_RATIO = 1.3


def main() -> int:
    """Print the table; the exit status is 1 where the ratio is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DATA / "videos")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"There are no videos at {options.folder}; name a folder, or set EVENREEL_DATA.")
        return 0
    files = _readable(options.folder)
    rounds = [_measure(files, options.workers) for _ in range(options.rounds)]
    stages = {name: tuple(min(one[name][side] for one, _ in rounds) for side in (0, 1)) for name in rounds[0][0]}
    total_s = min(total[0] for _, total in rounds)
    frames, peak_bytes = rounds[0][1][1], max(total[2] for _, total in rounds)
    print(f"{len(files)} files, {frames} frames, {options.workers} readers\n")
    print(f"{'stage':8}{'ours, alone':>14}{'bare loop':>12}")
    for name, (ours, bare) in stages.items():
        print(f"{name:8}{ours:12.2f} s{bare:10.2f} s")
    slowest = max(stages, key=lambda name: stages[name][1])
    floor = stages[slowest][1]
    print(
        f"\ntotal {total_s:.2f} s, floor {floor:.2f} s ({slowest}), ratio {total_s / floor:.2f} (at most {WORST_RATIO})"
    )
    print(f"{frames / total_s:.2f} frames a second, peak memory {peak_bytes / 2**20:,.0f} MiB")
    return 1 if total_s > WORST_RATIO * floor else 0


def _measure(files: list[str], workers: int) -> tuple[dict[str, tuple[float, float]], tuple[float, int, int]]:
    """Seconds of each stage, ours and bare, and what `index` gives; told on standard error as it goes."""
    bare = bare_loops(files, workers)
    stages = {
        "decode": (_spread(_decode, files, workers), bare["decode"]),
        "encode": (_alone(_encode, files), bare["encode"]),
        "text": (_spread(_read_text, files, workers), bare["text"]),
    }
    total = index(files, workers)
    print(f"a round: total {total[0]:.2f} s, text {stages['text'][1]:.2f} s", file=sys.stderr)
    return stages, total


def bare_loops(files: list[str], workers: int) -> dict[str, float]:
    return {
        "decode": _spread(_bare_decode, files, workers),
        "encode": _alone(_bare_encode, files),
        "text": _spread(_bare_text, files, workers),
    }


def _readable(folder: Path) -> list[str]:
    files = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in VIDEO_SUFFIXES:
            try:
                files.append((sum(1 for _ in _frames(str(path))), str(path)))
            except MediaError as error:
                print(f"left out {path.name}: {error}")
    return [path for _, path in sorted(files, reverse=True)]


def _frames(path: str) -> Iterator[Frame]:
    with open_video(path) as video:
        yield from video.frames(parse_rule(RULE))


def _spread(work: Callable[[list[str]], float], files: list[str], workers: int) -> float:
    """Seconds of the slowest of several processes that share the files."""
    shares = [files[first::workers] for first in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return max(pool.map(work, shares))


def _alone(work: Callable[[list[str]], float], files: list[str]) -> float:
    return _spread(work, files, 1)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _decode(files: list[str]) -> float:
    return _seconds(lambda: [sum(1 for _ in _frames(path)) for path in files])


def _bare_decode(files: list[str]) -> float:
    """Decode everything, convert one frame a second: what a short script does."""
    return _seconds(lambda: sum(_bare_decode_one(path) for path in files))


def _bare_decode_one(path: str) -> int:
    with av.open(path) as container:
        due, kept = 0.0, 0
        for frame in container.decode(container.streams.video[0]):
            if frame.time is None or frame.time >= due:
                frame.to_ndarray(format="rgb24")
                due, kept = due + 1.0, kept + 1
    return kept


def _batches(files: list[str]) -> list[np.ndarray]:
    """All kept frames of each file, (N, 3, H, W)."""
    pictures = [[frame.pixels for frame in _frames(path)] for path in files]
    return [np.stack(one).transpose(0, 3, 1, 2) for one in pictures]


def _encode(files: list[str]) -> float:
    from evenreel.encoders import load_encoder

    encoder, batches = load_encoder("builtin"), _batches(files)
    encoder.encode_windows(batches[0][:1][:, None])
    return _seconds(lambda: [encoder.encode_windows(batch[:, None]) for batch in batches])


def _bare_encode(files: list[str]) -> float:
    """The model's own preparation and image tower, without any of our code."""
    import torch
    from transformers import AutoImageProcessor, CLIPModel

    from evenreel.encoders.loading import BUILTIN_FOLDER

    model = CLIPModel.from_pretrained(BUILTIN_FOLDER).eval()
    processor = AutoImageProcessor.from_pretrained(BUILTIN_FOLDER)
    batches = _batches(files)

    def work() -> None:
        with torch.inference_mode():
            for batch in batches:
                model.get_image_features(**processor(list(batch), return_tensors="pt"))

    return _seconds(work)


def _read_text(files: list[str]) -> float:
    from evenreel.onscreen import TextReader, TextSettings

    reader = TextReader(TextSettings(threads=1))
    videos = [list(_frames(path)) for path in files]

    def work() -> None:
        for frames in videos:
            video = reader.new_video()
            for frame in frames:
                video.add(frame)
            video.tracks()

    return _seconds(work)


@dataclass
class _Recorder:
    """Stands between our reader and RapidOCR's models and keeps what they were given."""

    model: Any
    calls: list[tuple[str, object]] = field(default_factory=list)

    def heat(self, picture: np.ndarray) -> np.ndarray:
        self.calls.append(("heat", picture))
        return self.model.heat(picture)

    def lines(self, heat: np.ndarray) -> np.ndarray:
        self.calls.append(("lines", heat))
        return self.model.lines(heat)

    def read(self, crops: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        self.calls.append(("read", crops))
        return self.model.read(crops)


def _bare_text(files: list[str]) -> float:
    """The two models alone, on what our reader has given them."""
    from evenreel.onscreen import TextReader
    from evenreel.onscreen.scene import Models, RapidDetector, RapidRecognizer

    detector, recognizer = _Recorder(RapidDetector(1)), _Recorder(RapidRecognizer(1))
    reader = TextReader(models=Models(detector, recognizer))
    for path in files:
        video = reader.new_video()
        for frame in _frames(path):
            video.add(frame)
    return _seconds(
        lambda: [
            getattr(recorder.model, name)(given)
            for recorder in (detector, recognizer)
            for name, given in recorder.calls
        ]
    )


def index(files: Sequence[str], workers: int, more: Sequence[str] = ()) -> tuple[float, int, int]:
    """Seconds, frames and peak memory of the real command on an empty library and the same files."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "evenreel", "index", *files, "--library", place + "/library"]
        command += ["--model", "builtin", "--set", f"workers={workers}", "--json", *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        peak = _Peak(process.pid)
        output, _ = process.communicate()
        report = json.loads(output)
    return report["seconds"], report["frames"], peak.stop()


class _Peak:
    """The largest resident memory of a process and its children together."""

    def __init__(self, pid: int) -> None:
        self._process, self._bytes, self._running = psutil.Process(pid), 0, True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        self._running = False
        self._thread.join()
        return self._bytes

    def _watch(self) -> None:
        while self._running:
            try:
                family = [self._process, *self._process.children(recursive=True)]
                self._bytes = max(self._bytes, sum(member.memory_info().rss for member in family))
            except psutil.Error:
                pass
            time.sleep(0.5)  # a look goes through all processes of the machine, which costs time of its own


if __name__ == "__main__":
    sys.exit(main())
