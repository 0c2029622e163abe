"""Time that re-ranking adds to one query on a library of 10,000 videos, for every matcher.

    python benchmarks/rerank.py [--clips 10000] [--depth 100] [--queries 30] [--json]

The library is that of `benchmarks/search.py` (12 frames of 512 dimensions a clip); queries have 32 words. Matchers have
fresh weights, which cost what trained ones do. Prints median times where every clip of the shortlist has to be encoded
for the query, and where all have been encoded for queries before; the text tower's own time is not measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from functools import partial
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


def pretrained(name: str) -> Pretrained:
    """A matcher of a name with fresh weights."""
    torch.manual_seed(0)
    spec = MatcherSpec(name)
    matcher = build_from(spec, DIMENSION)
    module(matcher).eval()
    return Pretrained(matcher, spec, About(EncoderNote("random", "random", DIMENSION), Inputs(FRAMES, WORDS)))


def measure(searcher: Searcher, queries: Sequence[str], encoder: RandomEncoder, depth: int) -> dict[str, list[float]]:
    """Median milliseconds of a query with each matcher: where its clips are encoded, and where they are kept."""
    found = {}
    for name in MATCHERS:
        forgetful, keeping = (Reranker(pretrained(name), encoder, cache_bytes) for cache_bytes in (0, 2**30))

        def search(text: str, reranker: Reranker) -> object:
            return searcher.search(Query(text, reranker=reranker, rerank_depth=depth))

        for text in queries:
            search(text, keeping)
        found[name] = [median_ms(partial(search, reranker=chosen), queries) for chosen in (forgetful, keeping)]
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
        searcher = Searcher(connection, lambda _: vectors, lambda: encoder)
        searcher.search(Query(words[0]))
        queries = words[: options.queries]
        plain = median_ms(lambda text: searcher.search(Query(text)), queries)
        times = measure(searcher, queries, encoder, options.depth)
    if options.json:
        about = {"clips": options.clips, "depth": options.depth, "without": plain}
        print(json.dumps(about | {"encoded_and_kept": times}, indent=2))
        return
    print(f"one query on {options.clips:,} clips without re-ranking: {plain:.1f} ms; what {options.depth} clips add:")
    for name, (encoded, kept) in times.items():
        print(f"  {name:<10} {encoded - plain:7.1f} ms, {kept - plain:6.1f} ms where they were encoded before")


if __name__ == "__main__":
    main()
