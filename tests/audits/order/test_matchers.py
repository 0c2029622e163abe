"""The audit of order on matchers: a transformer that learned which frame comes last, and a mean of frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evenreel.audits import measure_order
from evenreel.edits.frame_order import reordered
from evenreel.matchers import Matcher, PairBatch, build_matcher
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import TextFeatures, VideoFeatures
from tests.audits.order.small_orders import both, orders

PAIRS, DIMENSION, FRAMES = 40, 16, 3
CORPUS = orders(PAIRS, both(PAIRS))


def unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found.astype(np.float32)


def doors(seed: int) -> tuple[TextFeatures, VideoFeatures, TextFeatures]:
    """Scenes of doors that open: shut at first (0), open at last (1); captions of them, and of doors that close."""
    random = np.random.default_rng(seed)
    scene = random.normal(size=(PAIRS, DIMENSION))
    shut, opened = 3 * np.eye(DIMENSION)[:2]
    frames = unit(np.stack([scene + shut, scene, scene + opened], axis=1))
    times_s = np.tile(np.arange(float(FRAMES)), (PAIRS, 1))
    names = tuple(f"v{one}" for one in range(PAIRS))
    videos = VideoFeatures(names, frames, np.ones((PAIRS, FRAMES), np.bool_), times_s)
    return captions(scene + opened, 0), videos, captions(scene + shut, PAIRS)


def captions(sentences: np.ndarray, first: int) -> TextFeatures:
    ids = tuple(f"c{first + one}" for one in range(PAIRS))
    words = unit(sentences)[:, None]
    return TextFeatures(ids, words, np.ones((PAIRS, 1), np.bool_), words[:, 0])


def together(one: TextFeatures, other: TextFeatures) -> TextFeatures:
    arrays = (np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("words", "word_mask", "sentence"))
    return TextFeatures((*one.ids, *other.ids), *arrays)


def trained(matcher: Matcher, steps: int = 24) -> Matcher:
    """Clips in their order beside the captions of what opens, turned round beside those of what closes."""
    assert isinstance(matcher, torch.nn.Module)
    optimiser = torch.optim.Adam(matcher.parameters(), lr=1e-2)
    for step in range(steps):
        opening, videos, closing = doors(1000 + step // 2)
        texts, seen = (opening, videos) if step % 2 else (closing, reordered(videos, "reversed"))
        optimiser.zero_grad()
        pairs = PairBatch(text_batch(texts), video_batch(seen), torch.eye(PAIRS, dtype=torch.bool))
        torch.stack([*matcher.loss(pairs).values()]).sum().backward()
        optimiser.step()
    return matcher.eval()


@pytest.mark.parametrize(("name", "verdict"), [("temporal", "sees"), ("mean_pool", "blind")])
def test_a_matcher_that_learned_order_sees_it_and_a_mean_is_blind(name: str, verdict: str) -> None:
    torch.manual_seed(0)
    matcher = build_matcher(name, DIMENSION, {"layers": 1, "heads": 2, "max_frames": 3} if name == "temporal" else {})
    if name == "temporal":
        matcher = trained(matcher)
    opening, videos, closing = doors(1)
    scores, turned = (
        matcher_scores(matcher, together(opening, closing), one).score_all()
        for one in (videos, reordered(videos, "reversed"))
    )
    found = measure_order(scores, CORPUS, edited={"reversed": turned})
    assert (found.control, found.verdict, found.same) == ("twins", verdict, verdict == "blind")
