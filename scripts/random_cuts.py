"""Cuts stretches out of films at random and compares each, decoded, with the frames of its film.

    python -m scripts.random_cuts --cuts 200

Films are numbered frame by frame, at the rates and with the groups of pictures of `tests/handover/test_cuts.py`. A cut
is right that holds every frame of the stretch, in a row, at the times that they have in the film, less than one group
of pictures before them, and after them only the one or two that the last ones refer to.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.handover.test_cuts import COUNT, FILMS, GROUP, check_cut, cut, film, shown


def main() -> int:
    """Run the cuts; returns how many are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw, wrong, longer, more = random.Random(given.seed), 0, 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.cuts):
            name = list(FILMS)[number % len(FILMS)]
            fps, group = FILMS[name][0], COUNT if name.startswith("endless") else GROUP
            first = draw.randrange(COUNT - 1)
            wanted = range(first, draw.randrange(first + 1, COUNT + 1))
            made = cut(film(Path(folder), name), wanted.start / fps, wanted.stop / fps, out=Path(folder) / "cut")
            try:
                check_cut(made, wanted, fps, group)
            except AssertionError as error:
                wrong += 1
                print(f"{name}, frames {wanted.start} to {wanted.stop}: {error}")
            surplus = len(shown(made.path)) - len(wanted)
            more[name] = max(more[name], surplus)
            longer += surplus > group
    print(f"{given.cuts - wrong} of {given.cuts} cuts are right; longer by more than a group of pictures: {longer}.")
    print("Most frames more, by film: " + ", ".join(f"{name} {count}" for name, count in more.items()))
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
