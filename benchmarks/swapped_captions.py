"""How many real captions have a role, attribute or relation that can be swapped, and are the results sensible?

    python -m benchmarks.swapped_captions CORPUS [CORPUS ...] [--split test] [--draw 100] [--seed 0]

For each corpus the share of captions that `evenreel perturb` changes by each edit, and of clips with such a caption.
Then random results, as many of each edit, none twice, to be read by eye: sensible is a sentence that is as grammatical
as it was, says something else, and could be true of some other clip.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from evenreel.corpus import load_corpus, select
from evenreel.language import load_tagger
from evenreel.language.composition import SWAPS, recomposed
from evenreel.language.wording import differ_in_words
from evenreel.types import Corpus

Pair = tuple[str, str]


def main() -> int:
    """A line a corpus and edit, then the drawn captions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--split", help="part of each corpus; left out, all of it")
    parser.add_argument("--draw", type=int, default=100, help="results that are printed, of all edits together")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    found: dict[str, dict[Pair, None]] = {edit: {} for edit in SWAPS}
    for folder in asked.corpora:
        corpus = load_corpus(folder) if asked.split is None else select(load_corpus(folder), split=asked.split)
        for edit, some in found.items():
            some.update(dict.fromkeys(changed(corpus, edit, folder.name)))
    for number, (edit, some) in enumerate(found.items()):
        wanted = len(range(number, asked.draw, len(found)))
        for place in random.permutation(len(some))[:wanted]:
            before, after = [*some][place]
            print(f"{edit}\n    {before}\n    {after}")
    return 0


def changed(corpus: Corpus, edit: str, name: str) -> list[Pair]:
    """Captions before and after an edit that changes them; says how many there are."""
    texts, clips = corpus.captions["text"].to_list(), corpus.captions["clip_id"].to_list()
    after = recomposed(edit, texts, clips, load_tagger(), 0)
    held = [place for place, pair in enumerate(zip(texts, after, strict=True)) if differ_in_words(*pair)]
    share, of_clips = len(held) / len(texts), len({clips[place] for place in held}) / len(set(clips))
    print(f"{name} {edit}: {100 * share:.1f}% of {len(texts):,} captions, {100 * of_clips:.0f}% of clips")
    return [(texts[place], after[place]) for place in held]


if __name__ == "__main__":
    raise SystemExit(main())
