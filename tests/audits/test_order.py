"""The audit of order on planted rankings: blind ones, such as see order, and twins that nobody likes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.audits import AuditInputs, AuditSettings, audit, audit_order, measure_order
from evenreel.audits.order import LIKED, TEXT_OF_CLIP
from evenreel.corpus import FORMATS
from evenreel.errors import CorpusError
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.audits.small_orders import Ranker, both, orders
from tests.audits.small_pairs import scores_of

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
