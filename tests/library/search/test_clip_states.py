"""A clip's state is the same whatever it is encoded with, so what was encoded once need not be again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.checkpoint import Inputs, MatcherSpec, Pretrained
from evenreel.checkpoint.architecture import build
from evenreel.library.search.rerank import ClipStates, Reranker, StateCache, StoredClip, middles
from evenreel.matchers import MATCHERS
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.similarity.states import tensors_of
from tests.library.fakes import DIMENSION, WordsEncoder
from tests.library.search.test_rerank import LastFrame, pretrained, score, stored
from tests.matchers.examples import SETTINGS, disturb

STRATA = {
    "ensemble": MatcherSpec("ensemble", {"weights": (0.5, 0.5)}, (MatcherSpec("wti"), MatcherSpec("x_pool"))),
}
NAMES = [*MATCHERS, *STRATA]


def trained(name: str) -> Pretrained:
    """A matcher that on-screen text takes part in, with weights that are not those it starts with."""
    torch.manual_seed(0)
    built = build(STRATA.get(name) or MatcherSpec(name, SETTINGS.get(name, {})), DIMENSION)
    matcher = disturb(Adapted(built, DIMENSION, AdapterSettings(windows=True)))
    return pretrained(matcher.eval(), Inputs(frames=4, windows=3))


def states_of(chosen: Pretrained, clips: Sequence[StoredClip]) -> list[tuple[Tensor, ...]]:
    """Of clips that are all encoded now."""
    of = ClipStates(chosen, WordsEncoder(), StateCache(0)).of
    return of([clip.clip_id for clip in clips], {clip.clip_id: clip for clip in clips}.__getitem__)


@pytest.mark.parametrize("name", NAMES)
def test_a_clip_s_state_does_not_depend_on_those_it_is_encoded_with(name: str) -> None:
    """To the last bit, so that what is kept gives the scores of what is encoded anew."""
    clips = [stored(str(number), 1 + number % 5, signs=number % 3) for number in range(23)]
    chosen = trained(name)
    together = states_of(chosen, clips)
    for some in (clips[:1], clips[7:9], clips[::-2], clips[4:]):
        for clip, state in zip(some, states_of(chosen, some), strict=True):
            same = zip(tensors_of(state), tensors_of(together[int(clip.clip_id)]), strict=True)
            assert all(torch.equal(one, other) for one, other in same)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_gives_the_scores_of_what_is_encoded_anew(name: str) -> None:
    clips = [stored(str(number), 1 + number % 5, signs=number % 3) for number in range(23)]
    chosen = trained(name)
    kept = Reranker(chosen, WordsEncoder())
    for some in (clips[3:9], clips, clips[::-2]):
        np.testing.assert_array_equal(score(kept, some), score(Reranker(chosen, WordsEncoder()), some))


def test_the_state_that_was_not_asked_for_the_longest_goes_first() -> None:
    cache = StateCache(most_bytes=24)
    for name in ("a", "b"):
        cache.put(name, (torch.zeros(3),))
    assert cache.get("a") is not None
    cache.put("c", (torch.zeros(3),))
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [True, False, True]
    cache.put("d", (torch.zeros(6),))
    assert [cache.get(name) is not None for name in ("a", "c", "d")] == [False, False, True]
    cache.put("larger than all", (torch.zeros(7),))
    cache.put("e", (torch.zeros(6),))
    assert [cache.get(name) is not None for name in ("d", "larger than all", "e")] == [False, False, True]


def test_states_of_states_take_the_room_of_all_their_tensors() -> None:
    cache = StateCache(most_bytes=24)
    for name in ("a", "b"):
        cache.put(name, ((torch.zeros(2),), (torch.zeros(1), torch.zeros(1))))
    assert [cache.get(name) is not None for name in ("a", "b")] == [False, True]


def test_what_was_forgotten_takes_no_room() -> None:
    cache = StateCache(most_bytes=24)
    cache.put("a", (torch.zeros(6),))
    cache.clear()
    for name in ("b", "c"):
        cache.put(name, (torch.zeros(3),))
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]


def test_what_is_kept_is_no_larger_than_it_is_counted() -> None:
    """A view would keep the states of all clips that were encoded beside it."""
    (state,) = states_of(pretrained(LastFrame()), [stored("1", 2)])
    assert [tensor.untyped_storage().nbytes() for tensor in state] == [tensor.nbytes for tensor in state]


def test_nothing_need_be_kept() -> None:
    matcher, clips = LastFrame(), [stored("1", 2), stored("2", 3)]
    reranker = Reranker(pretrained(matcher), WordsEncoder(), cache_bytes=0)
    np.testing.assert_array_equal(score(reranker, clips), score(reranker, clips))
    assert len(matcher.seen) == 4


@given(count=st.integers(1, 200), most=st.integers(1, 40))
def test_middles_are_spread_evenly_and_in_order(count: int, most: int) -> None:
    chosen = middles(count, most)
    assert len(chosen) == min(count, most)
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < count
    if count > most:  # each is the middle of its stretch, to within a frame
        assert np.abs(chosen + 0.5 - (np.arange(most) + 0.5) * count / most).max() <= 0.5
