"""Time that re-ranking adds to one query on a library of 10,000 videos, for every matcher.

    python benchmarks/rerank.py [--clips 10000] [--depth 100] [--queries 30] [--json]

The library is that of `benchmarks/search.py` (12 frames of 512 dimensions a clip); queries have 32 words. Matchers have
fresh weights, which cost what trained ones do. Prints median times; the text tower's own time is not measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from search import DIMENSION, FRAMES, RandomEncoder, build, median_ms, unit_rows

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.checkpoint.architecture import build as build_from
from evenreel.checkpoint.architecture import module
from evenreel.library.catalog import transaction
from evenreel.library.confidence import update_null_scores
from evenreel.library.query import Query
from evenreel.library.rerank import Reranker
from evenreel.library.search import Searcher
from evenreel.matchers import MATCHERS
from evenreel.types import TextEmbedding

WORDS = 32


class WordyEncoder(RandomEncoder):
    """As that of `search.py`, with as many words as a recipe allows."""

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """(Q, W, D) random directions."""
        sentence = super().encode_text(captions).sentence
        words = unit_rows(np.random.default_rng(0), len(captions) * WORDS).reshape(len(captions), WORDS, DIMENSION)
        return TextEmbedding(words, np.ones((len(captions), WORDS), np.bool_), sentence)


def reranker(name: str, encoder: RandomEncoder, depth: int) -> Reranker:
    """A matcher of a name with fresh weights."""
    torch.manual_seed(0)
    spec = MatcherSpec(name)
    matcher = build_from(spec, DIMENSION)
    module(matcher).eval()
    about = About(EncoderNote("random", "random", DIMENSION), Inputs(FRAMES, WORDS))
    return Reranker(Pretrained(matcher, spec, about), encoder, depth)


def measure(searcher: Searcher, queries: Sequence[str], encoder: RandomEncoder, depth: int) -> dict[str, float]:
    """Median milliseconds of a query: without re-ranking, and with each matcher."""
    found = {"without": median_ms(lambda text: searcher.search(Query(text)), queries)}
    for name in MATCHERS:
        chosen = reranker(name, encoder, depth)
        searcher.search(Query(queries[0], reranker=chosen))
        found[name] = median_ms(lambda text, chosen=chosen: searcher.search(Query(text, reranker=chosen)), queries)
    return found


def main() -> None:
    """Build, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    encoder = WordyEncoder()
    with tempfile.TemporaryDirectory() as folder:
        connection, vectors, words = build(Path(folder), options.clips)
        with transaction(connection):
            update_null_scores(connection, vectors, encoder)
        searcher = Searcher(connection, lambda _: vectors, encoder)
        searcher.search(Query(words[0]))
        times = measure(searcher, words[: options.queries], encoder, options.depth)
    if options.json:
        print(json.dumps({"clips": options.clips, "depth": options.depth, "milliseconds": times}, indent=2))
        return
    print(f"one query on {options.clips:,} clips without re-ranking: {times['without']:.1f} ms")
    for name in MATCHERS:
        print(
            f"  {name:<10} of {options.depth} clips: {times[name]:7.1f} ms, {times[name] - times['without']:6.1f} more"
        )


if __name__ == "__main__":
    main()
