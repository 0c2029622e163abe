"""Time that re-ranking adds to one query on a library of 10,000 videos, for every matcher.

    python -m benchmarks.rerank [--clips 10000] [--depth 100] [--queries 30] [--matchers tcd wti] [--json]

The library is that of `benchmarks/search.py` (12 frames of 512 dimensions a clip), but its three signs are shown one
after the other for as long as the clip lasts, so that matchers that read on-screen text have 12 windows with text;
queries have 32 words. Matchers have fresh weights, which cost what trained ones do. Prints median times where every
clip of the shortlist has to be encoded for the query, and where all have been encoded for queries before. The text
tower's own time is not in these. Of the query it is that of any search; but what is written in a clip is read by it too
where the clip has to be encoded, so the last line says what a tower of the size of CLIP ViT-B/32's takes for that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.search import DIMENSION, FRAMES, SIGNS, RandomEncoder, build, median_ms, unit_rows
from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.checkpoint.architecture import build as build_from
from evenreel.checkpoint.architecture import module, reads_windows
from evenreel.library.search.query import Query
from evenreel.library.search.rerank import Reranker
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import transaction
from evenreel.library.store.vectors import update_null_scores
from evenreel.matchers import MATCHERS
from evenreel.types import TextEmbedding

WORDS = 32
CLIP_S = 12
TOKENS = 24
"""Of a window's text, about: the sentence around three words that no vocabulary holds."""


class WordyEncoder(RandomEncoder):
    """As that of `search.py`, with as many words as a recipe allows."""

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """(Q, W, D) random directions."""
        sentence = super().encode_text(captions).sentence
        words = unit_rows(np.random.default_rng(0), len(captions) * WORDS).reshape(len(captions), WORDS, DIMENSION)
        return TextEmbedding(words, np.ones((len(captions), WORDS), np.bool_), sentence)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        return [False] * len(captions)


def pretrained(name: str) -> Pretrained:
    torch.manual_seed(0)
    spec = MatcherSpec(name)
    matcher = build_from(spec, DIMENSION)
    module(matcher).eval()
    inputs = Inputs(FRAMES, WORDS, windows=FRAMES if reads_windows(spec) else None)
    return Pretrained(matcher, spec, About(EncoderNote("random", "random", DIMENSION), inputs))


def reading_ms(depth: int) -> float:
    """Milliseconds of a text tower of the size of CLIP ViT-B/32's for the signs of a shortlist, clip by clip."""
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    tower = CLIPTextModelWithProjection(CLIPTextConfig()).eval()
    texts = torch.randint(1, 40_000, (depth, SIGNS, TOKENS))
    with torch.inference_mode():
        tower(texts[0])
        start = time.perf_counter()
        for clip in texts:
            tower(clip)
    return 1e3 * (time.perf_counter() - start)


def measure(
    searcher: Searcher, queries: Sequence[str], encoder: RandomEncoder, depth: int, matchers: Sequence[str]
) -> dict[str, list[float]]:
    """Median milliseconds of a query with each matcher: where its clips are encoded, and where they are kept."""
    found = {}
    for name in matchers:
        forgetful, keeping = (Reranker(pretrained(name), encoder, cache_bytes) for cache_bytes in (0, 2**30))

        def search(text: str, reranker: Reranker) -> object:
            return searcher.search(Query(text, reranker=reranker, rerank_depth=depth))

        for text in queries:
            search(text, keeping)
        found[name] = [median_ms(partial(search, reranker=chosen), queries) for chosen in (forgetful, keeping)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--matchers", nargs="+", default=list(MATCHERS), choices=list(MATCHERS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    encoder = WordyEncoder()
    with tempfile.TemporaryDirectory() as folder:
        connection, vectors, words = build(Path(folder), options.clips)
        with transaction(connection):
            stretch = CLIP_S / SIGNS
            connection.execute("UPDATE tracks SET start_s = number * ?1, end_s = (number + 1) * ?1 - 0.01", (stretch,))
            update_null_scores(connection, vectors, encoder)
        searcher = Searcher(connection, lambda _: vectors, lambda: encoder)
        searcher.search(Query(words[0]))
        queries = words[: options.queries]
        plain = median_ms(lambda text: searcher.search(Query(text)), queries)
        times = measure(searcher, queries, encoder, options.depth, options.matchers)
    reading = reading_ms(options.depth)
    if options.json:
        about = {"clips": options.clips, "depth": options.depth, "without": plain}
        print(json.dumps(about | {"encoded_and_kept": times, "reading_signs": reading}, indent=2))
        return
    print(f"one query on {options.clips:,} clips without re-ranking: {plain:.1f} ms; what {options.depth} clips add:")
    for name, (encoded, kept) in times.items():
        print(f"  {name:<10} {encoded - plain:7.1f} ms, {kept - plain:6.1f} ms where they were encoded before")
    texts = SIGNS * options.depth
    print(f"  reading the {texts} texts on these clips, once, with a tower of CLIP ViT-B/32's size: {reading:.0f} ms")


if __name__ == "__main__":
    main()
