"""Both stages on small sets: what they learn from, that they help where a confounder was planted, and the choice."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.adaptation import titan_correction
from evenreel.adaptation.titan_correction import (
    CausalCorrection,
    CausalSettings,
    FitSettings,
    TargetStage,
    chosen,
    correction_recall,
    fit_source,
    judged,
    label_rank,
    new_correction,
    pair_accuracy,
)
from evenreel.errors import UsageError
from evenreel.training.batches import Pairs

D, KINDS = 32, 8


class Domain(NamedTuple):
    """Unit vectors of N captions and of their clips, in order."""

    q: Tensor
    v: Tensor


def backgrounds() -> Tensor:
    """(D, D) directions, of which the first `KINDS` are backgrounds and the others content."""
    return torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(99)))[0]


def domain(count: int, seed: int, shift: int) -> Domain:
    """Captions say their content and the background that goes with it in the source; clips have that of their domain.

    In 8 of 10 clips it is the one that goes with their content there, which is another one where `shift` is not 0.
    """
    make, directions = torch.Generator().manual_seed(seed), backgrounds()
    content = F.normalize(torch.randn(count, D - KINDS, generator=make), dim=-1) @ directions[KINDS:]
    kind, usual = torch.randint(KINDS, (count,), generator=make), torch.rand(count, generator=make) < 0.8
    there = torch.where(usual, (kind + shift) % KINDS, torch.randint(KINDS, (count,), generator=make))
    noise = 0.5 * F.normalize(torch.randn(2, count, D, generator=make), dim=-1)
    q = content + 0.7 * directions[kind] + noise[0]
    return Domain(F.normalize(q, dim=-1), F.normalize(content + 0.7 * directions[there] + noise[1], dim=-1))


def pairs_of(clips: list[int], texts: list[int] | None = None) -> Pairs:
    """A caption for each entry, which describes that clip."""
    rows, count = np.arange(len(clips)), max(clips) + 1
    names = tuple(map(str, range(len(clips))))
    return Pairs(names, names[:count], rows, np.array(clips), np.array(texts or range(len(clips))))


def one_each(count: int) -> Pairs:
    return pairs_of(list(range(count)))


def nearest(one: Domain, eta: int = 10) -> np.ndarray:
    return (one.q @ one.v.T).sort(dim=1, descending=True, stable=True).indices[:, :eta].numpy()


def after_the_source(settings: CausalSettings) -> CausalCorrection:
    correction = new_correction(D, backgrounds()[:KINDS], settings, 0)
    fit_source(correction, *domain(800, 0, shift=0), one_each(800), FitSettings(steps=300, batch_size=64))
    return correction


def on_target(
    source: CausalCorrection, one: Domain, candidates: np.ndarray, fit: FitSettings | None = None
) -> CausalCorrection:
    """The correction after its target stage."""
    stage = TargetStage(source, backgrounds()[:KINDS], fit or FitSettings())
    stage.learn(*one, candidates)
    return stage.correction


@pytest.fixture(scope="module")
def learned() -> CausalCorrection:
    """After the source stage."""
    return after_the_source(CausalSettings())


def right_of(correction: CausalCorrection, one: Domain, candidates: np.ndarray) -> float:
    """Share of the queries for which their own clip is chosen."""
    return float((chosen(judged(correction, *one, candidates), candidates) == np.arange(len(candidates))).mean())


@pytest.mark.slow
def test_the_source_stage_helps_where_the_background_changes_sides(learned: CausalCorrection) -> None:
    """The nearest clip is right for less than half of the queries; the correction sees through the background.

    Without confounders to take out of a clip the network is worse. The more the target stage trains on labels of which
    more than half are wrong, the more of them it gives back, and the gain of the source stage is gone.
    """
    target = domain(300, 100, shift=3)
    candidates = nearest(target)
    without = after_the_source(CausalSettings(source_debias=False))
    few, more, many = (
        right_of(on_target(learned, target, candidates, FitSettings(steps=steps, lr=1e-3)), target, candidates)
        for steps in (2, 40, 800)
    )
    labels = float((candidates[:, 0] == np.arange(300)).mean())
    assert labels < 0.5
    assert right_of(learned, target, candidates) > labels + 0.1
    assert right_of(learned, target, candidates) > right_of(without, target, candidates) + 0.05
    assert abs(few - right_of(learned, target, candidates)) < 0.03
    assert labels + 0.03 < more < few - 0.03
    assert many == pytest.approx(labels, abs=0.02)


def test_the_source_stage_tells_pairs_of_clips_it_has_not_seen(learned: CausalCorrection) -> None:
    fresh = domain(300, 7, shift=0)
    start = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0)
    before, after = (pair_accuracy(one, *fresh, one_each(300)) for one in (start, learned))
    assert after.accuracy > 0.9
    assert after.bce < before.bce
    firsts = correction_recall(learned, *fresh, one_each(300))
    assert firsts.cosine == np.mean(nearest(fresh)[:, 0] == np.arange(300))
    assert firsts.corrected == np.mean(
        chosen(judged(learned, *fresh, nearest(fresh)), nearest(fresh)) == np.arange(300)
    )


def test_the_nearest_clips_are_found_some_captions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of all captions by all clips would take gigabytes of a large split."""
    asked, one = list[int](), domain(30, 7, shift=0)
    correction = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0)
    whole, sort = correction_recall(correction, *one, one_each(30)), Tensor.sort

    def counting(values: Tensor, **how: Any) -> Any:
        asked.append(len(values))
        return sort(values, **how)

    monkeypatch.setattr(Tensor, "sort", counting)
    monkeypatch.setattr(titan_correction, "CHUNK_BYTES", 7 * 16 * 30)
    assert correction_recall(correction, *one, one_each(30)) == whole
    assert asked == [7, 7, 7, 7, 2]


def test_what_is_told_is_counted_by_hand() -> None:
    """Two captions of clip 0 and one of clip 1: others can only be (0, 1), (1, 1) and (2, 0)."""
    q = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), dim=-1)
    v = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    correction = new_correction(2, torch.eye(2), CausalSettings(), 0)
    found = pair_accuracy(correction, q, v, pairs_of([0, 0, 1]))
    half = math.sqrt(0.5)
    right = [5 * one for one in (1.0, half, 1.0)]
    wrong = [5 * one for one in (0.0, half, 0.0)]
    costs = [math.log1p(math.exp(-one)) for one in right] + [math.log1p(math.exp(one)) for one in wrong]
    assert found.bce == pytest.approx(sum(costs) / 6, abs=1e-6)
    assert found.accuracy == pytest.approx((3 / 3 + 2 / 3) / 2)  # a logit of 0 is no yes
    assert found.pairs == 3


@pytest.mark.parametrize("seed", range(5))
def test_no_pair_is_learned_as_none(seed: int) -> None:
    """Captions 0 to 3 are of one clip, and 4 has the words of 5: none of these is ever drawn as another."""
    pairs = pairs_of([0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 4, 5])
    generator = torch.Generator().manual_seed(seed)
    queries, clips, labels = titan_correction._source_batch(pairs, torch.arange(7), generator)
    assert labels.tolist() == [1.0] * 7 + [0.0] * 7
    described = {(query, clip) for query in range(7) for clip in range(4) if pairs.clips[query] == clip}
    described |= {(4, 2), (5, 1)}
    drawn = list(zip(queries.tolist(), clips.tolist(), strict=True))
    assert drawn[:7] == [(query, int(pairs.clips[query])) for query in range(7)]
    assert not set(drawn[7:]) & described
    assert [query for query, _ in drawn[7:]] == list(range(7))


def test_others_are_drawn_among_all_that_there_are() -> None:
    generator, pairs, seen = torch.Generator().manual_seed(0), one_each(4), set()
    for _ in range(60):
        queries, clips, _ = titan_correction._source_batch(pairs, torch.arange(4), generator)
        seen |= set(zip(queries[4:].tolist(), clips[4:].tolist(), strict=True))
    assert seen == {(query, clip) for query in range(4) for clip in range(4) if query != clip}


def test_each_pair_comes_once_before_any_comes_again() -> None:
    batches = titan_correction._batches(10, 3, torch.Generator().manual_seed(0))
    rounds = [torch.cat([next(batches) for _ in range(3)]).tolist() for _ in range(4)]
    assert all(len(set(one)) == 9 for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4
    assert len(next(titan_correction._batches(2, 128, torch.Generator()))) == 2


def test_a_source_without_others_is_refused() -> None:
    correction = new_correction(2, torch.eye(2), CausalSettings(), 0)
    with pytest.raises(UsageError, match="In the source every caption describes every clip"):
        fit_source(correction, torch.eye(2), torch.eye(2)[:1], pairs_of([0, 0]), FitSettings())


def test_equal_seeds_learn_equally() -> None:
    source, made = domain(60, 1, shift=0), []
    for seed in (1, 1, 2):
        correction, fit = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0), FitSettings(5, seed=seed)
        fit_source(correction, *source, one_each(60), fit)
        made.append(on_target(correction, source, nearest(source), fit).state_dict())
    assert all(map(torch.equal, made[0].values(), made[1].values()))
    assert not torch.equal(made[0]["w3.weight"], made[2]["w3.weight"])


def random_labels(count: int, eta: int) -> tuple[Domain, np.ndarray]:
    """Unit vectors without any relation, and candidates of each query in an order that nothing tells."""
    make, rows = torch.Generator().manual_seed(4), np.random.default_rng(4)
    one = Domain(*(F.normalize(torch.randn(count, D, generator=make), dim=-1) for _ in range(2)))
    return one, np.stack([rows.permutation(count)[:eta] for _ in range(count)])


def slow_rank(correction: CausalCorrection, one: Domain, candidates: np.ndarray) -> float:
    """Mean over the queries: 1, the candidates judged better than the first, and half of the others that are equal."""
    ranks = []
    for query, clips in enumerate(candidates):
        with torch.no_grad():
            found = [correction.logits(one.q[[query]], one.v[[clip]]).item() for clip in clips]
        better, equal = (sum(test(one, found[0]) for one in found[1:]) for test in (float.__gt__, float.__eq__))
        ranks.append(1 + better + equal / 2)
    return float(np.mean(ranks))


@pytest.mark.slow
def test_the_target_stage_learns_labels_that_nothing_tells() -> None:
    """By chance the label is in the middle of its ten candidates; trained for long enough it comes first."""
    target, candidates = random_labels(60, eta=10)
    source = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0)
    trained = {steps: on_target(source, target, candidates, FitSettings(steps, lr=3e-3)) for steps in (0, 20, 400)}
    ranks = {steps: slow_rank(one, target, candidates) for steps, one in trained.items()}
    assert ranks[0] == pytest.approx(5.5, abs=0.8)
    assert ranks[0] == pytest.approx(label_rank(judged(source, *target, candidates)), abs=1e-9)
    assert ranks[0] - 0.3 > ranks[20] > ranks[400]
    assert ranks[400] < 1.1
    assert np.mean(chosen(judged(trained[400], *target, candidates), candidates) == candidates[:, 0]) > 0.9
    assert np.mean(chosen(judged(trained[0], *target, candidates), candidates) == candidates[:, 0]) < 0.3


def test_candidates_that_are_judged_alike_share_their_ranks() -> None:
    assert label_rank(np.zeros((3, 4))) == 2.5
    assert label_rank(np.array([[0.0, 0.0, 1.0], [3.0, 2.0, 3.0]])) == (2.5 + 1.5) / 2


def test_a_stream_in_batches_is_learned_from_as_one() -> None:
    """Adam's moments and the random numbers go on, so three steps twice are six steps; the source stays as it was."""
    target, candidates = random_labels(20, eta=4)
    source = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0)
    before = copy.deepcopy(source.state_dict())
    stage = TargetStage(source, backgrounds()[:KINDS], FitSettings(3))
    for _ in range(2):
        stage.learn(*target, candidates)
    once = on_target(source, target, candidates, FitSettings(6)).state_dict()
    assert all(map(torch.equal, once.values(), stage.correction.state_dict().values()))
    assert all(map(torch.equal, before.values(), source.state_dict().values()))


def test_no_step_and_no_other_candidate_teach_nothing() -> None:
    target, candidates = random_labels(5, eta=3)
    correction = new_correction(D, backgrounds()[:KINDS], CausalSettings(), 0)
    for fit, given in ((FitSettings(0), candidates), (FitSettings(5), candidates[:, :1])):
        stage = TargetStage(correction, backgrounds()[:KINDS], fit)
        stage.learn(*target, given)
        assert all(map(torch.equal, correction.state_dict().values(), stage.correction.state_dict().values()))


def test_the_choice_is_that_of_single_pairs_and_of_equals_the_first(
    learned: CausalCorrection, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = domain(30, 3, shift=3)
    candidates = nearest(target, eta=5)
    whole = judged(learned, *target, candidates)
    monkeypatch.setattr(titan_correction, "CHUNK_BYTES", 1)  # a pair at a time
    alone = judged(learned, *target, candidates)
    np.testing.assert_allclose(alone, whole, atol=1e-4)
    for row, clips in enumerate(candidates):
        pairs = target.q[[row] * 5], target.v[torch.from_numpy(clips)]
        np.testing.assert_allclose(alone[row], learned.logits(*pairs).detach().numpy(), atol=1e-4)
    best = [int(clips[np.argmax(row)]) for clips, row in zip(candidates, alone, strict=True)]
    assert chosen(alone, candidates).tolist() == best
    same = Domain(target.q, target.v[:1].repeat(30, 1))  # all clips alike
    assert (chosen(judged(learned, *same, candidates), candidates) == candidates[:, 0]).all()


def test_ranks_of_the_correction_and_of_the_matcher_decide_together(learned: CausalCorrection) -> None:
    target = domain(30, 3, shift=3)
    candidates = nearest(target, eta=5)[:, ::-1].copy()  # so that the two disagree
    logits = judged(learned, *target, candidates)
    expected = []
    for row, clips in zip(logits, candidates, strict=True):
        by_correction = [1 + sum(other > own for other in row) for own in row]
        sums = [place + rank for place, rank in enumerate(by_correction, start=1)]
        expected.append(int(clips[sums.index(min(sums))]))
    found = chosen(logits, candidates, "ranks")
    assert found.tolist() == expected
    assert (found != chosen(logits, candidates)).any() and (found != candidates[:, 0]).any()
