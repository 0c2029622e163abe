"""What is said: words, times, cost and memory against faster-whisper by itself on the same files.

    python -m benchmarks.speech [--model FOLDER] [--rounds 2] [--only words|long|silence|index]

The bare engine is `WhisperModel.transcribe(file, vad_filter=True, word_timestamps=True)` with everything else at its
defaults, on as many threads as ours.

`words`: sixty planted clips that say a sentence each, by espeak-ng in three voices, every other one over white noise
of 15 dB below the speech. A word of the engine is found where ours has the same word within half a second of its time.
Both read every file in turn, and the ratio of their times is that of the best round of each.

`long`: peak memory and time of one process each on a clip of ten minutes and one of two hours, in which a sentence is
said every two minutes; beside them the same by the bare engine, and what a process takes that has only loaded the
model.

`silence`: an hour of silence by our reader beside the engine's own decoder and detector of voices, without any model.
`index`: a whole `evenreel index --speech` of the sixty clips, from its first file to its last commit, process starts
and model loading included, over the slowest bare loop of its stages (`benchmarks/ingest.py`; the engine has all
threads).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.ingest import bare_loops, index
from evenreel.config import allowed_threads, usable_cores
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted import Entity, Scene, SpokenSentence, speak, write_scene
from evenreel.speech import VOICES, can_speak, load_speech_reader, read_speech
from evenreel.types import FloatArray

DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SNR_DB = 15.0
NEAR_S = 0.5
LEAST_FOUND = 0.95
WORST_RATIO = 1.3
EVERY_S = 120
MINUTES = (10, 120)

SENTENCES = (
    "Please close the window before you leave the house.",
    "A red bus stops in front of the old library.",
    "The children are playing in the garden behind the school.",
    "My brother bought a new computer last Saturday.",
    "We will meet at the railway station at nine in the morning.",
    "The doctor told him to drink more water every day.",
    "She opened the letter and read it twice.",
    "There are seven apples and four oranges in the basket.",
    "The weather will be cold and windy until Thursday.",
    "He plays the piano better than anyone in his family.",
    "The museum is closed on Mondays and public holidays.",
    "Turn left after the bridge and follow the river.",
    "Our dog runs to the door when he hears the bell.",
    "The teacher wrote the answer on the board.",
    "I would like a cup of coffee with a little milk.",
    "They painted the kitchen yellow and the bedroom blue.",
    "A strong storm damaged the roof of the church.",
    "The farmer sold his horses and bought a tractor.",
    "Nobody knew why the train was two hours late.",
    "The firemen rescued a small cat from the tall tree.",
)

Said = list[tuple[str, float]]
"""Words in small letters with the second at which each begins."""


def main() -> int:
    """Print what is measured; the exit status is 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=DATA / "whisper_tiny_en")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("words", "long", "silence", "index"))
    parser.add_argument("--one", nargs="+", metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return _one(options.model, options.one[0], options.one[1:])
    if not options.model.is_dir() or not can_speak():
        print(f"A Whisper model in CTranslate2's form is wanted at {options.model}, and espeak-ng (espeakng-loader).")
        return 0
    parts = {"words": _words, "long": _long, "silence": _silence, "index": _index}
    with tempfile.TemporaryDirectory() as folder:
        good = [
            part(options.model, Path(folder), options.rounds)
            for name, part in parts.items()
            if options.only in (None, name)
        ]
    return 0 if all(good) else 1


def _words(model: Path, folder: Path, rounds: int) -> bool:
    files = list(_spoken_clips(folder))
    ways = {"bare": _bare_way(model), "ours": _our_way(model)}
    for way in ways.values():
        way(files[0].path)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Said]] = {}
    for number in range(rounds):
        spent = dict.fromkeys(ways, 0.0)
        found = {name: [] for name in ways}
        for place, file in enumerate(files):
            for name in list(ways)[:: 1 if (place + number) % 2 else -1]:
                began = time.perf_counter()
                found[name].append(ways[name](file.path))
                spent[name] += time.perf_counter() - began
        for name, one in spent.items():
            seconds[name].append(one)
    agreed = _Agreement()
    for file, bare, ours in zip(files, found["bare"], found["ours"], strict=True):
        agreed.add(file, bare, ours)
    agreed.show()
    ratio = min(seconds["ours"]) / min(seconds["bare"])
    each = ", ".join(f"{ours / bare:.2f}" for ours, bare in zip(seconds["ours"], seconds["bare"], strict=True))
    print(
        f"time: ours {min(seconds['ours']):.1f} s, bare {min(seconds['bare']):.1f} s, ratio {ratio:.2f} "
        f"(rounds: {each}; at most {WORST_RATIO}), {allowed_threads()} thread(s)\n"
    )
    return agreed.share >= LEAST_FOUND and ratio <= WORST_RATIO


@dataclass(frozen=True)
class _SpokenClip:
    path: Path
    text: str
    noisy: bool


def _spoken_clips(folder: Path) -> Iterator[_SpokenClip]:
    """Sixty clips: every sentence in every voice, every other one over noise."""
    pairs = [(text, voice) for text in SENTENCES for voice in VOICES]
    for number, (text, voice) in enumerate(pairs):
        noisy = number % 2 == 1
        spoken = SpokenSentence(text, voice, start_s=1.0, snr_db=SNR_DB if noisy else None)
        subject = Entity("ring", "yellow", "large")
        scene = Scene((subject,), "sways", "beach", duration_s=6.0, width=64, height=48, seed=number, spoken=(spoken,))
        path = folder / f"{number:02}.mp4"
        write_scene(path, scene)
        yield _SpokenClip(path, text, noisy)


@dataclass
class _Agreement:
    """Counts of words: of the engine, of these found, in time, and of the truth."""

    counts: dict[tuple[str, bool], int] = field(default_factory=dict)

    def add(self, clip: _SpokenClip, bare: Said, ours: Said) -> None:
        truth = set(_plain(clip.text))
        for name, value in (
            ("files", 1),
            ("engine", len(bare)),
            ("found", _matched(bare, ours, NEAR_S)),
            ("found at any time", _matched(bare, ours, 1e9)),
            ("ours", len(ours)),
            ("truth", len(truth)),
            ("truth, engine", len(truth & {word for word, _ in bare})),
            ("truth, ours", len(truth & {word for word, _ in ours})),
        ):
            self.counts[name, clip.noisy] = self.counts.get((name, clip.noisy), 0) + value

    @property
    def share(self) -> float:
        """Share of the engine's words that ours has in time."""
        return self._sum("found") / self._sum("engine")

    def _sum(self, name: str) -> int:
        return self.counts[name, False] + self.counts[name, True]

    def show(self) -> None:
        heads = (("files", 7), ("engine", 8), ("found", 7), ("any time", 10), ("ours", 6), ("truth", 7))
        print("".join([" " * 7, *(f"{head:>{width}}" for head, width in heads), f"{'engine':>8}{'ours':>7}"]))
        for noisy in (False, True):
            one = {name: count for (name, kind), count in self.counts.items() if kind == noisy}
            print(
                f"{'noise' if noisy else 'clean':7}{one['files']:7}{one['engine']:8}{one['found']:7}"
                f"{one['found at any time']:10}{one['ours']:6}{one['truth']:7}"
                f"{one['truth, engine'] / one['truth']:8.1%}{one['truth, ours'] / one['truth']:7.1%}"
            )
        print(f"found of the engine's words within {NEAR_S} s: {self.share:.1%} (at least {LEAST_FOUND:.0%})")


def _matched(bare: Said, ours: Said, near_s: float) -> int:
    """How many words of the engine have one of ours, each used once."""
    left = list(ours)
    count = 0
    for word, start_s in bare:
        near = [one for one in left if one[0] == word and abs(one[1] - start_s) <= near_s]
        if near:
            left.remove(min(near, key=lambda one: abs(one[1] - start_s)))
            count += 1
    return count


def _plain(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def _our_way(model: Path) -> Callable[[Path], Said]:
    reader = load_speech_reader(str(model), device="cpu")

    def hear(path: Path) -> Said:
        words = (word for one in read_speech(path, reader).utterances for word in one.words)
        return [(each, word.start_s) for word in words for each in _plain(word.text)]

    return hear


def _bare_way(model: Path) -> Callable[[Path], Said]:
    from faster_whisper import WhisperModel

    engine = WhisperModel(str(model), "cpu", compute_type="float32", cpu_threads=allowed_threads())

    def hear(path: Path) -> Said:
        segments, _ = engine.transcribe(str(path), vad_filter=True, word_timestamps=True)
        words: Iterator[Any] = (word for segment in segments for word in segment.words or ())
        return [(each, float(word.start)) for word in words for each in _plain(word.word)]

    return hear


def _long(model: Path, folder: Path, rounds: int) -> bool:
    print(f"{'':12}{'loaded':>16}{'ours':>22}{'bare engine':>24}")
    peaks = []
    for minutes in MINUTES:
        path = _film(folder / f"{minutes}.mkv", minutes * 60, speaking=True)
        loaded, ours, bare = (_measured(model, way, path) for way in ("loaded", "ours", "bare"))
        peaks.append(ours["peak_mib"] - loaded["peak_mib"])
        print(
            f"{minutes:4} minutes{loaded['peak_mib']:12.0f} MiB{ours['peak_mib']:8.0f} MiB, {ours['seconds']:5.1f} s"
            f"{bare['peak_mib']:10.0f} MiB, {bare['seconds']:5.1f} s   words {ours['words']}, {bare['words']}"
        )
        path.unlink()
    print(f"above the loaded model: {peaks[0]:.0f} and {peaks[1]:.0f} MiB\n")
    return peaks[1] <= 1.25 * peaks[0] + 16


def _silence(model: Path, folder: Path, rounds: int) -> bool:
    from faster_whisper.audio import decode_audio
    from faster_whisper.vad import get_speech_timestamps

    path = _film(folder / "silence.mkv", 3600, speaking=False)
    ours = _our_way(model)

    def detector(file: Path) -> Said:
        assert not get_speech_timestamps(decode_audio(str(file)))
        return []

    seconds: dict[str, list[float]] = {"ours": [], "detector": []}
    for _ in range(rounds):
        for name, way in (("ours", ours), ("detector", detector)):
            began = time.perf_counter()
            assert way(path) == [], "something is heard in silence"
            seconds[name].append(time.perf_counter() - began)
    best = {name: min(values) for name, values in seconds.items()}
    ratio = best["ours"] / best["detector"]
    print(f"an hour of silence: ours {best['ours']:.2f} s, decoder and detector {best['detector']:.2f} s: {ratio:.2f}")
    return ratio <= WORST_RATIO


def _index(model: Path, folder: Path, rounds: int) -> bool:
    files = [str(clip.path) for clip in _spoken_clips(folder)]
    workers = usable_cores()
    ways = {
        "index": lambda: {"index": index(files, workers, ["--speech", str(model)])[0]},
        "floors": lambda: {**bare_loops(files, workers), "speech": _measured(model, "bare", *files)["seconds"]},
    }
    best: dict[str, float] = {}
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            best |= {one: min(seconds, best.get(one, seconds)) for one, seconds in ways[name]().items()}
    total, slowest = best.pop("index"), max(best, key=lambda name: best[name])
    print("bare loops: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in best.items()))
    ratio = total / best[slowest]
    print(f"whole index run {total:.2f} s, floor {best[slowest]:.2f} s ({slowest}), ratio {ratio:.2f}")
    return ratio <= WORST_RATIO


def _measured(model: Path, way: str, *paths: str | Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speech", "--model", str(model), "--one", way, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(model: Path, way: str, paths: list[str]) -> int:
    hear = _bare_way(model) if way == "bare" else _our_way(model)
    began = time.perf_counter()
    words = [] if way == "loaded" else [word for path in paths for word in hear(Path(path))]
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak_mib": peak, "seconds": seconds, "words": len(words)}))
    return 0


def _film(path: Path, length_s: int, *, speaking: bool) -> Path:
    """Small grey pictures, one a second, beside sound that is silent but for a sentence every two minutes."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=1)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream("aac", rate=SAMPLE_RATE, layout="mono")
        picture = np.full((48, 64, 3), 128, np.uint8)
        spoken = _said(length_s) if speaking else (np.zeros(SAMPLE_RATE, np.float32) for _ in range(length_s))
        left = np.zeros(0, np.float32)
        count = 0
        for second, samples in enumerate(islice(spoken, length_s)):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = second, Fraction(1)
            container.mux(video.encode(frame))
            left = np.concatenate([left, samples])
            for part in left[: len(left) // 1024 * 1024].reshape(-1, 1024):
                container.mux(sound.encode(_sound_frame(part, count)))
                count += 1024
            left = left[len(left) // 1024 * 1024 :]
        container.mux([*video.encode(None), *sound.encode(None)])
    return path


def _sound_frame(samples: FloatArray, place: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = SAMPLE_RATE, place, Fraction(1, SAMPLE_RATE)
    return frame


def _said(length_s: int) -> Iterator[FloatArray]:
    for number in range(length_s // EVERY_S + 1):
        sentence = SpokenSentence(SENTENCES[number % len(SENTENCES)], VOICES[number % len(VOICES)])
        stretch = np.zeros(EVERY_S * SAMPLE_RATE, np.float32)
        samples = speak(sentence)
        stretch[5 * SAMPLE_RATE : 5 * SAMPLE_RATE + len(samples)] = samples
        yield from stretch.reshape(EVERY_S, SAMPLE_RATE)


if __name__ == "__main__":
    sys.exit(main())
