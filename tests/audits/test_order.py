"""The audit of order on planted rankings, by hand and by loops, what changes it, and matchers that learned order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evenreel.audits import AuditInputs, AuditSettings, audit, audit_order, measure_order
from evenreel.audits.order import LIKED, TEXT_OF_CLIP
from evenreel.corpus import FORMATS
from evenreel.edits.frame_order import reordered
from evenreel.errors import CorpusError, UsageError
from evenreel.matchers import Matcher, PairBatch, build_matcher
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import Corpus, ScoreNotes, Scores, TextFeatures, VideoFeatures
from tests.audits.small_orders import Ranker, beside, both, by_both, lead, orders, table_of
from tests.audits.small_pairs import hit, scores_of

PAIRS = 300
VERBS = ["opens a door", "closes a door", "pours water", "lifts a box", "drops a box"]
BOTH = orders(PAIRS, both(PAIRS), [f"a man {VERBS[one % 5]}" for one in range(2 * PAIRS)])
OF_CLIPS = orders(PAIRS, both(PAIRS)[:PAIRS])
WORLDS = 12


@pytest.mark.parametrize("corpus", [BOTH, OF_CLIPS], ids=["twins", "others"])
def test_a_blind_ranking_is_found_though_twins_are_disliked_and_clips_are_hubs(corpus: Corpus) -> None:
    found = [
        measure_order(scores_of(Ranker(disliked=0.5, spread=0.5).values(corpus, seed), corpus), corpus)
        for seed in range(WORLDS)
    ]
    assert sum(one.verdict == "blind" for one in found) >= WORLDS - 2
    assert sum(one.effect.is_significant for one in found) <= 2
    plain = [one.shares[TEXT_OF_CLIP].low or 0.0 for one in found]
    assert min(plain) > 50, "the plain share would see order where there is none"
    assert all((one.shares[LIKED].low or 0.0) > 50 for one in found)


@pytest.mark.parametrize("corpus", [BOTH, OF_CLIPS], ids=["twins", "others"])
def test_a_ranking_that_sees_order_is_never_called_blind(corpus: Corpus) -> None:
    found = [
        measure_order(scores_of(Ranker(0.5, 0.5, 0.5).values(corpus, seed), corpus), corpus) for seed in range(WORLDS)
    ]
    assert {one.verdict for one in found} == {"sees"}
    assert not any(one.is_within for one in found)


def test_the_sentence_of_each_verdict() -> None:
    said = {
        "sees": told(BOTH, Ranker(0.5)),
        "blind": told(BOTH, Ranker(disliked=0.5)),
        "turned": told(BOTH, Ranker(-0.5)),
    }
    assert re.match(r"The ranking sees order: in \d\d\.\d% .*R@1 of captions of clips goes from \d\d\.", said["sees"])
    assert said["blind"].startswith("The ranking is order-blind: in ")
    assert "where 50% is chance (less than 10 points from chance with 95% confidence) (300 pairs)" in said["blind"]
    assert said["turned"].startswith("The ranking prefers the wrong order: in ")
    few = orders(20, both(20))
    assert told(few, Ranker(0.5)).startswith("Too few pairs to conclude: 20. What was seen: in ")
    some = orders(40, both(40))
    assert told(some, Ranker()).startswith("Whether the ranking sees order cannot be told: in ")
    assert told(some, Ranker(), AuditSettings(resamples=0)).startswith("Without an interval nothing can be told: in ")
    alone = orders(1, ["v0"])
    assert told(alone, Ranker()).startswith("No caption can be held against one of another pair")


def told(corpus: Corpus, ranker: Ranker, settings: AuditSettings | None = None) -> str:
    return audit_order(scores_of(ranker.values(corpus, 1), corpus), corpus, settings).sentence


def test_a_faint_sense_of_order_in_many_pairs_is_both_seen_and_small() -> None:
    corpus = orders(1500, both(1500))
    values = np.zeros((3000, 1))
    values[:1500] = (np.arange(1500)[:, None] < 810) * 2.0 - 1  # leads of clips' captions: 54 % of pairs are right
    found = measure_order(_Leads(values, corpus), corpus)
    assert found.verdict == "hardly"
    sentence = audit_order(_Leads(values, corpus), corpus).sentence
    assert sentence.startswith("The ranking sees order, but hardly: in 54.0% (")


def test_of_guessed_pairs_nothing_small_is_said() -> None:
    """A blind ranking, and a confidence at which each of the two one-sided tests asks for even odds."""
    silent = replace(OF_CLIPS, captions=OF_CLIPS.captions.clear())
    scores = scores_of(Ranker().values(OF_CLIPS, 1), OF_CLIPS)
    assert measure_order(scores, OF_CLIPS).verdict == "blind"
    assert measure_order(scores, silent).verdict == "open"
    assert measure_order(scores, OF_CLIPS, AuditSettings(confidence=0.4)).is_within


class _Leads:
    """Scores that are 0 but for a lead of each caption to its own clip, made when they are read."""

    def __init__(self, leads: Any, corpus: Corpus) -> None:
        self._leads = leads
        self.caption_ids = corpus.captions["caption_id"].to_list()
        self.video_ids = corpus.clips["clip_id"].to_list()
        self.about = ScoreNotes()

    def block(self, captions: slice, videos: slice) -> Any:
        rows = np.arange(captions.start, captions.stop)
        block = np.zeros((len(rows), len(self.video_ids)), np.float32)
        block[np.arange(len(rows)), rows % 1500] = self._leads[rows, 0]
        return block[:, videos]


@pytest.mark.parametrize("corpus", [orders(35, both(35)), orders(5, ["v0", "v1"])], ids=["many", "few"])
def test_scores_that_never_change_are_blind_for_sure(corpus: Corpus) -> None:
    """Also where they differ by what a processor rounds, and however few pairs there are."""
    values = Ranker().values(corpus, 1, noise=0.0)
    values += 1e-7 * np.random.default_rng(0).normal(size=values.shape)
    found = audit_order(scores_of(values, corpus), corpus)
    pairs = corpus.clips.height // 2
    assert found.sentence.startswith(
        f"The ranking is order-blind: its scores are the same whatever the order of frames, for all {pairs} pairs of a "
        "clip and its twin. R@1 of captions of clips goes from 100.0 to "
    )
    assert found.effect.value == 50.0


def test_kinds_of_action_are_the_verbs_of_the_clips_captions() -> None:
    """Three fifths of the pairs have verbs whose order is seen."""
    values = Ranker().values(BOTH, 1)
    sees = np.array([one % 5 < 3 for one in range(PAIRS)])
    values[np.arange(PAIRS), np.arange(PAIRS)] += 2.0 * sees
    result = audit_order(scores_of(values, BOTH), BOTH)
    table = next(one for one in result.tables if one.title == "By kind of action")
    found = {row[0]: (row[1], row[5]) for row in table.rows}
    assert {name: pairs for name, (pairs, _) in found.items()} == dict.fromkeys(
        ("close", "drop", "lift", "open", "pour"), PAIRS // 5
    )
    assert {name for name, (_, said) in found.items() if said == "above 50"} >= {"close", "open", "pour"}
    assert {found[name][1] for name in ("drop", "lift")} == {"cannot be told from 50"}
    assert any("tagger pattern" in one or "tagger spacy" in one for one in result.method)


def test_kinds_of_a_column_and_such_with_too_few_pairs() -> None:
    kinds = ["rare"] * 6 + ["often"] * 54 + ["once"] + [None] * 3
    corpus = orders(64, both(64), activity=kinds * 2, verb_classes=[[one % 2, 7] for one in range(64)] * 2)
    scores = scores_of(Ranker(1.0).values(corpus, 1), corpus)
    result = audit("order", scores, corpus, inputs=AuditInputs(kinds="activity"))[0]
    table = next(one for one in result.tables if one.title == "By kind of action")
    assert [(row[0], row[1], row[5]) for row in table.rows] == [
        ("often", 54, "above 50"),
        ("rare", 6, "too few to conclude"),
    ]
    assert "By column 'activity'" in table.note and "1 rarer kinds are not listed" in table.note
    assert "Of 3 of 64 pairs no kind of action is known." in result.notices
    classes = audit_order(scores, corpus, kinds="verb_classes").tables[1]
    assert [row[:2] for row in classes.rows] == [("verb 7", 64), ("verb 0", 32), ("verb 1", 32)]
    with pytest.raises(CorpusError, match="have a column 'nothing' to group by"):
        audit_order(scores, corpus, kinds="nothing")


def test_captions_of_another_language_have_no_kinds() -> None:
    corpus = orders(6, both(6), ["собака бежит по дороге быстро"] * 12)
    found = audit_order(scores_of(Ranker().values(corpus, 1), corpus), corpus)
    assert any("are not English by the tagger" in notice for notice in found.notices)
    assert [table.title for table in found.tables] == [
        "The own order against the other",
        "Recall with twins in the gallery",
    ]


def test_what_the_reader_must_know_is_told() -> None:
    scores = scores_of(Ranker(disliked=1.0).values(OF_CLIPS, 1), OF_CLIPS)
    notices = " ".join(audit_order(scores, OF_CLIPS).notices)
    assert "300 of 300" not in notices
    assert "captions of other clips are the control" in notices
    assert re.search(r"Twins are liked less than clips whatever a caption says: 9\d\.\d% of the time", notices)
    used = Scores(scores.values, scores.caption_ids, scores.video_ids, ScoreNotes(uses=("frames in random order",)))
    edited = audit_order(scores, OF_CLIPS, edited={"random": used})
    assert "The scores of 'random' use frames in random order." in edited.notices


def rtime(shared_data: Path) -> Corpus:
    if not (shared_data / "rtime" / "test.json").is_file():
        pytest.skip("the annotations of RTime are not there")
    return FORMATS["rtime"]([shared_data / "rtime"]).corpus


def test_planted_rankings_of_the_real_captions_of_rtime(shared_data: Path) -> None:
    """A thousand clips and the same backwards: a blind ranking, and one that sees order."""
    corpus = rtime(shared_data)
    values = Ranker(0.0, 0.5, 0.5).values(corpus, 1)
    blind = measure_order(scores_of(values, corpus), corpus)
    assert (blind.control, blind.is_within) == ("twins", True)
    assert (blind.shares[TEXT_OF_CLIP].low or 0.0) > 50
    values += 0.5 * (corpus.captions["clip_id"].to_numpy()[:, None] == corpus.clips["clip_id"].to_numpy())
    seen = audit_order(scores_of(values, corpus), corpus)
    assert seen.sentence.startswith("The ranking sees order: in ")
    assert "(1,000 pairs)" in seen.sentence
    (kinds,) = (table for table in seen.tables if table.title == "By kind of action")
    assert len(kinds.rows) >= 4
    assert sum(row[5] == "above 50" for row in kinds.rows) >= 4


# Its measures by hand, by loops, and what changes none of them.


SOME = AuditSettings(band_bytes=8 * 40)
"""A few rows at a time."""


FEW = 7
TOLD = ["v0", "v0", "v1", "v2", "v3", "v3", "v3", "v4", "v5", "v6", *both(FEW)[FEW:], "v0_reverse", "o0"]


def random_scores(corpus: Corpus, seed: int = 3) -> Scores:
    """Few different values, so that many are equal, some of them never retrieved, in an order of their own."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 5, (corpus.captions.height, corpus.clips.height)).astype(np.float32)
    values[random.random(values.shape) < 0.15] = -np.inf
    given = scores_of(values, corpus)
    rows, columns = random.permutation(len(given.caption_ids)), random.permutation(len(given.video_ids))
    captions, clips = (
        [ids[at] for at in order] for ids, order in ((given.caption_ids, rows), (given.video_ids, columns))
    )
    return Scores(values[rows][:, columns], captions, clips)


def test_every_figure_of_both_orders_by_loops() -> None:
    corpus = orders(FEW, TOLD, others=2)
    scores = random_scores(corpus)
    found, table = measure_order(scores, corpus, SOME), table_of(scores)
    of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    expected = {clip: by_both(table, of, clip) for clip in found.pairs.clip_ids}
    assert sorted(expected) == [f"v{one}" for one in range(FEW)]
    assert found.further.tolist() == pytest.approx([one["further"] for one in expected.values()])
    for name, share in found.shares.items():
        assert share.value == pytest.approx(np.mean([one[name] for one in expected.values()])), name
    won, lost = (sum(np.sign(one["further"] - 50) == side for one in expected.values()) for side in (1, -1))
    assert found.p_value == pytest.approx(binomtest(won, won + lost).pvalue)


def test_every_recall_by_loops() -> None:
    corpus = orders(FEW, TOLD, others=2)
    scores = random_scores(corpus, seed=4)
    found, table = measure_order(scores, corpus, SOME), table_of(scores)
    shot = [clip for clip in scores.video_ids if not clip.endswith("_reverse")]

    def recall(asked: Callable[[str], bool], gallery: list[str], k: int) -> float:
        of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
        rows = [(row, of[one]) for one, row in table.items() if of[one] != "o0" and asked(of[one])]
        return float(np.mean([hit(row[own], [row[one] for one in gallery if one != own], k) for row, own in rows]))

    every, twin = list(scores.video_ids), "_reverse"
    for (who, among), recalls in found.recalls.items():
        of_clips, of_twins = who in ("captions of clips", "all captions"), who in ("captions of twins", "all captions")
        gallery = every if among == "clips and twins" else shot
        for k in (1, 5, 10):
            asked = recall(lambda one, c=of_clips, t=of_twins: t if one.endswith(twin) else c, gallery, k)
            assert recalls[f"R@{k}"].value == pytest.approx(asked), (who, among, k)
    assert {among for _, among in found.recalls} == {"9 clips", "clips and twins"}


@pytest.mark.parametrize("videos", [["a", "b", "c", "d", "e", "f", "g"], ["a", "a", "b", "c", "c", "c", "d"]])
def test_captions_of_other_clips_are_the_control_by_loops(videos: list[str]) -> None:
    corpus = orders(FEW, TOLD[:10], others=2, video_id=videos * 2)
    scores = random_scores(corpus, seed=5)
    found, table = measure_order(scores, corpus, SOME), table_of(scores)
    of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    video = {f"v{one}": videos[one] for one in range(FEW)}
    apart = {clip: [other for other in video if video[other] != video[clip]] for clip in video}
    assert (found.control, found.drawn, found.p_value) == ("others", len(set(videos)), None)
    assert found.further.tolist() == pytest.approx(
        [beside(table, of, clip, apart[clip]) for clip in found.pairs.clip_ids]
    )
    liked = [
        np.mean(
            [
                np.mean([0.5 + np.sign(lead(row, clip)) / 2 for caption, row in table.items() if of[caption] == other])
                for other in apart[clip]
            ]
        )
        for clip in video
    ]
    assert found.shares[LIKED].value == pytest.approx(100 * np.mean(liked))


def test_the_interval_beside_others_is_as_wide_as_worlds_differ() -> None:
    """Captions prefer clips to twins each by a habit of its own, which both adds and takes off in other pairs."""
    corpus = orders(60, both(60)[:60])
    values, errors = [], []
    for seed in range(60):
        habits = 0.5 * np.random.default_rng(1000 + seed).normal(size=(60, 1))
        world = Ranker(sees=0.2).values(corpus, seed)
        world[:, :60] += habits
        found = measure_order(scores_of(world, corpus), corpus).preferred
        assert found.low is not None and found.high is not None
        values.append(found.value)
        errors.append((found.high - found.low) / 2 / 2.0010)  # Student's quantile of 59
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values, ddof=1), rel=0.2)


LEVELS = st.lists(st.integers(-50, 50), min_size=8, max_size=8)


@given(LEVELS, LEVELS, st.sampled_from([both(4), both(4)[:4]]), st.integers(0, 5))
def test_what_all_captions_or_all_clips_have_changes_nothing(
    of_captions: list[int], of_clips: list[int], told: list[str], seed: int
) -> None:
    """Any constant of a caption, a clip or a twin; and one factor of all scores."""
    corpus = orders(4, told)
    values = np.random.default_rng(seed).integers(-20, 20, (len(told), 8)).astype(np.float64)
    moved = 3 * (values + np.array(of_captions)[: len(told), None] + np.array(of_clips))
    before, after = (measure_order(scores_of(one, corpus), corpus) for one in (values, moved))
    assert before.preferred == after.preferred
    assert before.further.tolist() == after.further.tolist()


def test_scores_of_another_order_are_as_good_as_twins_in_the_corpus() -> None:
    corpus = orders(FEW, TOLD, others=2)
    scores = random_scores(corpus, seed=6)
    shot = [at for at, clip in enumerate(scores.video_ids) if not clip.endswith("_reverse")]
    place = {clip: at for at, clip in enumerate(scores.video_ids)}
    backwards = [place.get(f"{scores.video_ids[at]}_reverse", at) for at in shot]
    names = [scores.video_ids[at] for at in shot]
    clips = Scores(scores.values[:, shot], scores.caption_ids, names)
    held = [at for at, clip in enumerate(names) if clip.startswith("v")]
    twins = Scores(
        scores.values[::-1][:, backwards][:, held], [*reversed(scores.caption_ids)], [names[at] for at in held]
    )
    expected = measure_order(scores, corpus, SOME)
    found = measure_order(clips, corpus, SOME, edited={"reversed": twins})
    order = [expected.pairs.clip_ids.index(clip) for clip in found.pairs.clip_ids]
    assert found.further.tolist() == expected.further[order].tolist()
    assert found.shares == expected.shares
    assert found.recalls == expected.recalls


def test_where_nobody_says_whose_a_sentence_is_it_is_that_of_the_pair_it_likes_best() -> None:
    """Of the first the clip v1 alone scores highest, of the second the twin of v1; v0 and v2 do in both orders."""
    described = orders(3, ["v0", "v2"])
    values = [[3.0, 4.0, 0.0, 3.0, 0.0, 0.0], [0.0, 1.0, 4.0, 0.0, 4.5, 2.0]]
    found = measure_order(scores_of(values, described), described)
    silent = replace(described, captions=described.captions.clear())
    chosen = measure_order(Scores(np.array(values), ["q1", "q2"], described.clips["clip_id"].to_list()), silent)
    assert chosen.pairs.chosen and not found.pairs.chosen
    assert chosen.pairs.clip_ids == ("v0", "v2")
    assert chosen.further.tolist() == found.further.tolist()
    assert not chosen.recalls


def test_one_score_that_changes_with_the_order_is_a_change() -> None:
    """Of a pair that the caption is not of, also of one that no caption is of."""
    silent = orders(5, ["v0", "v1"])
    values = Ranker().values(silent, 1, noise=0.0)
    values[1, 4] += 0.1
    assert not measure_order(scores_of(values, silent), silent).same
    corpus = orders(5, both(5))
    values = Ranker().values(corpus, 1, noise=0.0)
    assert measure_order(scores_of(values, corpus), corpus).same
    values[0, 3] += 0.1
    assert not measure_order(scores_of(values, corpus), corpus).same


def test_pairs_of_one_video_count_once() -> None:
    corpus = orders(40, both(40), video_id=[f"{one // 20}" for one in range(40)] * 2)
    values = Ranker(sees=1.0).values(corpus, 1)
    together = measure_order(scores_of(values, corpus), corpus)
    alone = measure_order(scores_of(values, corpus), corpus, AuditSettings(cluster="clip"))
    assert (together.drawn, alone.drawn) == (2, 40)
    assert together.verdict == "few" and alone.verdict == "sees"
    assert together.preferred.value == alone.preferred.value


def test_captions_of_a_few_twins_are_left_out_where_most_have_none() -> None:
    corpus = orders(5, [*both(5)[:5], "v0_reverse", "v1_reverse"])
    values = np.random.default_rng(0).normal(size=(7, 10))
    found = measure_order(scores_of(values, corpus), corpus)
    assert (found.control, len(found.further)) == ("others", 5)
    assert "Captions of twins and of such pairs: 2." in found.pairs.notices
    more = orders(5, [*both(5)[:5], "v0_reverse", "v1_reverse", "v2_reverse"])
    measured = measure_order(scores_of(np.random.default_rng(0).normal(size=(8, 10)), more), more)
    assert (measured.control, len(measured.further)) == ("twins", 3)
    assert "Pairs without captions of both orders, which only fill the gallery: 2." in measured.pairs.notices


def test_hazard_211_without_twins_a_sentence_says_how_to_get_some() -> None:
    corpus = orders(3, ["v0"])
    with pytest.raises(CorpusError, match="No clip is in the scores in two orders .* give --edited reversed=FILE"):
        measure_order(Scores(np.ones((1, 3)), ["c0"], ["v0", "v1", "v2"]), corpus)
    with pytest.raises(CorpusError, match="Of the 3 clips that are in the scores in two orders none has a caption"):
        measure_order(Scores(np.ones((1, 6)), ["x"], corpus.clips["clip_id"].to_list()), corpus)


def test_hazard_212_a_twin_of_a_twin_is_refused() -> None:
    for wrong, said in (("v1_reverse", "'v1_reverse', which is a twin too"), ("v0_reverse", "itself")):
        corpus = orders(3, ["v0"], order_of=[None, None, None, wrong, "v1", "v2"])
        with pytest.raises(CorpusError, match=f"The clip 'v0_reverse' is said to be {said}, in another order"):
            measure_order(scores_of(np.ones((1, 6)), corpus), corpus)


def test_hazard_213_scores_of_several_other_orders_are_refused() -> None:
    corpus = orders(3, ["v0"])
    scores: Any = scores_of(np.ones((1, 6)), corpus)
    with pytest.raises(UsageError, match="of one other order, and reversed, random are given; give one --edited"):
        measure_order(scores, corpus, edited={"reversed": scores, "random": scores})


# The audit of order on matchers: a transformer that learned which frame comes last, and a mean of frames.


DOORS, DIMENSION, FRAMES = 40, 16, 3
DOORS_OF = orders(DOORS, both(DOORS))


def unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found.astype(np.float32)


def doors(seed: int) -> tuple[TextFeatures, VideoFeatures, TextFeatures]:
    """Scenes of doors that open: shut at first (0), open at last (1); captions of them, and of doors that close."""
    random = np.random.default_rng(seed)
    scene = random.normal(size=(DOORS, DIMENSION))
    shut, opened = 3 * np.eye(DIMENSION)[:2]
    frames = unit(np.stack([scene + shut, scene, scene + opened], axis=1))
    times_s = np.tile(np.arange(float(FRAMES)), (DOORS, 1))
    names = tuple(f"v{one}" for one in range(DOORS))
    videos = VideoFeatures(names, frames, np.ones((DOORS, FRAMES), np.bool_), times_s)
    return captions(scene + opened, 0), videos, captions(scene + shut, DOORS)


def captions(sentences: np.ndarray, first: int) -> TextFeatures:
    ids = tuple(f"c{first + one}" for one in range(DOORS))
    words = unit(sentences)[:, None]
    return TextFeatures(ids, words, np.ones((DOORS, 1), np.bool_), words[:, 0])


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
        pairs = PairBatch(text_batch(texts), video_batch(seen), torch.eye(DOORS, dtype=torch.bool))
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
    found = measure_order(scores, DOORS_OF, edited={"reversed": turned})
    assert (found.control, found.verdict, found.same) == ("twins", verdict, verdict == "blind")
