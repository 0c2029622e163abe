"""Subtitles in pictures: how many of the words that were drawn are read, and what a cue costs.

    python -m benchmarks.picture_subtitles

Sentences in two lines, drawn by Pillow in its own letters: on a disc's screen (PGS, 1920 x 1080, letters of 54 px), a
DVD's (VobSub by FFmpeg's encoder, four colours, 720 x 480, 28 px) and a broadcast's (DVB by FFmpeg's encoder, 720 x
480, 28 px), in each of four looks. A word is found where it stands in the order of the sentence, without its case and
punctuation. The time is that of decoding, rendering and reading, with the models loaded.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.speech import SENTENCES
from evenreel.config import allowed_threads
from evenreel.onscreen.scene import SheetReader
from evenreel.speech.streams import read_pictures
from tests.speech.picture_files import Kind, Look, Packets, PictureTrack, display_set, drawn, film_with_pictures

LOOKS = {
    "white, dark outline": Look(),
    "yellow-grey, thin outline": Look(letters=190, outline_px=1),
    "dark, light outline": Look(letters=16, outline=235),
    "white in a dark box": Look(boxed=True),
}
SCREENS: dict[Kind, tuple[tuple[int, int], int]] = {
    "pgs": ((1920, 1080), 54),
    "dvd": ((720, 480), 28),
    "dvb": ((720, 480), 28),
}
EVERY_MS = 3000
LEAST_FOUND = 0.95


def main() -> int:
    """Print what is measured; the exit status is 1 where a bound is missed."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    sentences = list(SENTENCES)
    reader = SheetReader(allowed_threads())
    words = sum(len(_words(one)) for one in sentences)
    print(f"{len(sentences)} cues of {words} words in each row, {allowed_threads()} thread(s)")
    print(f"{'kind':6}{'look':28}{'cues':>6}{'words found':>13}{'share':>9}{'ms a cue':>10}")
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, (screen, px) in SCREENS.items():
            for name, look in LOOKS.items():
                path = Path(folder) / "film.mkv"
                film_with_pictures(path, [PictureTrack(kind, _packets(sentences, screen, px, look))])
                _read(path, reader)  # models loaded, file in memory
                began = time.perf_counter()
                texts = _read(path, reader)
                seconds = time.perf_counter() - began
                found = _found(sentences, texts)
                shares.append(found / words)
                print(
                    f"{kind:6}{name:28}{len(texts):6}{found:13}{shares[-1]:9.1%}{1000 * seconds / len(sentences):10.0f}"
                )
    return 0 if min(shares) >= LEAST_FOUND else 1


def _packets(sentences: list[str], screen: tuple[int, int], px: int, look: Look) -> Packets:
    found: Packets = []
    for number, sentence in enumerate(sentences):
        drawing = drawn(_in_two_lines(sentence), px, look)
        height, width = drawing.indices.shape
        area = ((screen[0] - width) // 2, screen[1] - height - 30, drawing)
        found += [
            (EVERY_MS * number, display_set([area], screen)),
            (EVERY_MS * number + 2000, display_set([], screen)),
        ]
    return found


def _in_two_lines(sentence: str) -> str:
    words = sentence.split()
    half = (len(words) + 1) // 2
    return f"{' '.join(words[:half])}\n{' '.join(words[half:])}"


def _read(path: Path, reader: SheetReader) -> dict[int, str]:
    cues = [cue for one in read_pictures(path, reader) if one is not None for cue in one.utterances]
    return {round(1000 * cue.start_s / EVERY_MS): cue.text for cue in cues}


def _found(sentences: list[str], texts: dict[int, str]) -> int:
    return sum(_in_order(_words(one), _words(texts.get(number, ""))) for number, one in enumerate(sentences))


def _in_order(wanted: list[str], read: list[str]) -> int:
    return sum(block.size for block in difflib.SequenceMatcher(None, wanted, read, False).get_matching_blocks())


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


if __name__ == "__main__":
    sys.exit(main())
