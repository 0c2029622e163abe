"""Scoring keeps to its budget: what every operation of PyTorch has allocated is added up while it runs."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evenreel.matchers import MATCHERS, build_matcher
from evenreel.matchers.scoring import encode_texts, encode_videos
from evenreel.similarity.tiles import CHUNK_BYTES, LEAST_BUDGET_BYTES, MatcherScores, tensors_of
from evenreel.types import OnScreen, RoleGraph, RoleNode, TextFeatures, VideoFeatures

DIMENSION = 16
LONG = "many captions, few long videos"
SHAPES = {"square": (220, 220, 32, 12), LONG: (40_000, 2, 2, 64)}
"""Captions, videos, words, frames: just so many that a matcher without chunks takes more than it may.

The chunks of `x_pool` depend on how many there are on either side; those of the others do not.
"""

SETTINGS: dict[str, dict[str, Any]] = {
    "temporal": {"layers": 1},
    "x_clip": {"temporal_layers": 0, "max_frames": 64},
    "t_mass": {"trials": 400, "max_frames": 64},
    "hgr": {"size": 64},
}
GRAPH = RoleGraph(tuple("abcdefghij"), tuple(RoleNode("V" if place < 4 else "NOUN", (place,)) for place in range(10)))
"""As many verbs and nouns as are read."""


class Live(TorchDispatchMode):
    """Bytes of the tensors that operations made meanwhile and that are still there: now, and the most at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(one.untyped_storage()) for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage(), given)
        self.most = max(self.most, self.now)
        return result

    def _add(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        name, size = id(storage), storage.nbytes()
        if name in given or name in self._seen:
            return
        self._seen.add(name)
        self.now += size
        weakref.finalize(storage, self._drop, name, size)

    def _drop(self, name: int, size: int) -> None:
        self._seen.discard(name)
        self.now -= size


def features(shape: tuple[int, int, int, int]) -> tuple[TextFeatures, VideoFeatures]:
    captions, videos, words, frames = shape
    rng = np.random.default_rng(0)

    def unit(*sizes: int) -> Any:
        rows = rng.standard_normal((*sizes, DIMENSION), dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    names = [tuple(map(str, range(count))) for count in (captions, videos)]
    mask = np.ones((captions, words), np.bool_)
    texts = TextFeatures(names[0], unit(captions, words), mask, unit(captions), (GRAPH,) * captions)
    mask = np.ones((videos, frames), np.bool_)
    return texts, VideoFeatures(names[1], unit(videos, frames), mask, np.zeros((videos, frames)))


def test_the_tool_of_this_test_counts() -> None:
    with Live() as live:
        one = torch.ones(1000)
        assert live.now == 4000
        view = one[:10]
        (one + 1).sum()
        assert live.now == 4000
        del one
        assert live.now == 4000, "the view holds it"
        del view
    assert (live.now, live.most) == (0, 8004)


@pytest.mark.parametrize(("name", "shape"), [*((name, "square") for name in MATCHERS), ("x_pool", LONG)])
def test_scoring_keeps_to_its_budget(name: str, shape: str) -> None:
    """As a whole, and the chunks of a matcher without tiles to what a tile leaves them."""
    matcher = build_matcher(name, DIMENSION, SETTINGS.get(name))
    texts, videos = features(SHAPES[shape])
    encoded = encode_texts(matcher, texts), encode_videos(matcher, videos)
    scores = MatcherScores(matcher, *encoded, budget_bytes=LEAST_BUDGET_BYTES)
    with Live() as live:
        table = scores.score_all().values
    kept = table.nbytes
    assert 0 < live.most + kept <= LEAST_BUDGET_BYTES
    pairs = 16 * table.size
    states = 2 * sum(tensor.nbytes for side in encoded for tensor in tensors_of(side.state))
    assert live.most <= CHUNK_BYTES + pairs + states
    assert live.now == 0


@pytest.mark.parametrize(
    "settings", [{}, {"fusion": "cross_attention"}, {"attention_norm": False}, {"intra": "keys"}], ids=str
)
def test_chunks_of_tcd_keep_to_theirs_with_as_many_windows_as_frames(settings: dict[str, Any]) -> None:
    """Tables of frames by windows, of every head, are the largest where vectors are short."""
    matcher = build_matcher("tcd", DIMENSION, settings)
    texts, videos = features((48, 48, 1, 64))
    videos = replace(videos, on_screen=OnScreen(videos.frames[::-1].copy(), videos.frame_mask))
    text, video = encode_texts(matcher, texts).state, encode_videos(matcher, videos).state
    with torch.inference_mode(), Live() as live:
        matcher.score(text, video)
    assert 0 < live.most <= CHUNK_BYTES
