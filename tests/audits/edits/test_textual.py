"""The audit of edited captions where the answer is known to be none, where it is known, and by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AuditSettings, audit_textual, measure_perturbed
from evenreel.audits.edits.perturbed import CAPTION_PLACINGS
from evenreel.audits.edits.textual import caption_spreads, style_alone
from evenreel.corpus import make_corpus
from evenreel.report import AuditResult
from evenreel.types import Scores
from tests.audits.edits.small_edits import CAPTION_IDS, CLIP_IDS, CLIPS, KINDS, OWN, arguments, corpus, of

CORPUS = corpus()


def wordings(weight: float, *, biased: bool = False, seed: int = 1) -> tuple[Scores, AuditSettings]:
    """Captions of a content and a style, read by a ranking that takes a style so much for the content of its number.

    Args:
        weight: of the style.
        biased: whether each content is written about in its own style, else in any.
        seed: of everything.
    """
    random = np.random.default_rng(seed)
    content = random.integers(0, KINDS, CLIPS)
    asked = content[OWN]
    style = asked if biased else random.integers(0, KINDS, len(OWN))
    none = np.full(len(OWN), -1)
    said = {
        "": (asked, style),
        "style-removed": (asked, none),
        "style-swapped": (asked, (style + random.integers(1, KINDS, len(OWN))) % KINDS),
        "content-removed": (none, style),
        "control": (asked, style),
    }
    tables = {
        name: (words[:, None] == content)
        + weight * (how[:, None] == content)
        + 0.1 * random.normal(size=(len(OWN), CLIPS))
        for name, (words, how) in said.items()
    }
    clean = of(tables.pop(""))
    return clean, arguments({name: of(values) for name, values in tables.items()})


def found(weight: float, *, biased: bool = False, seed: int = 1) -> AuditResult:
    clean, wanted = wordings(weight, biased=biased, seed=seed)
    return audit_textual(clean, CORPUS, **wanted)


def rows(result: AuditResult, title: str) -> dict[object, tuple[object, ...]]:
    (table,) = (table for table in result.tables if table.title == title)
    return {row[0]: row[1:] for row in table.rows}


def test_a_ranking_that_is_deaf_to_style_is_not_told() -> None:
    results = [found(0.0, seed=seed) for seed in range(1, 5)]
    assert np.mean([one.effect.value for one in results]) == pytest.approx(0, abs=0.06)
    assert sum(one.effect.is_significant for one in results) <= 1
    assert results[0].sentence.startswith("That the ranking hangs on what 'style-removed' changes cannot be told: with")
    alone = [rows(one, "What style alone finds")["content-removed"][0] for one in results]
    assert np.mean(alone) == pytest.approx(50, abs=3)


def test_a_ranking_that_hears_style_is_told_by_how_much() -> None:
    some, more = found(0.5), found(1.0)
    assert some.effect.is_significant and more.effect.is_significant
    assert 0 < some.effect.value < more.effect.value
    assert more.sentence.startswith("The ranking hangs on what 'style-removed' changes: with it the clip of a caption")
    assert "when the caption is edited" in more.sentence


def test_style_alone_finds_clips_where_it_goes_with_the_content() -> None:
    apart, together = found(1.0), found(1.0, biased=True)
    assert rows(together, "What style alone finds")["content-removed"][1] > 75  # type: ignore[operator]
    low, high = rows(apart, "What style alone finds")["content-removed"][1:3]
    assert low < 55 < high + 10  # type: ignore[operator]
    assert "Style alone ('content-removed') puts the clip above " in together.sentence


def test_what_style_adds_to_the_spread_among_a_clips_captions_is_taken_away() -> None:
    taken = rows(found(1.0), "How far the captions of a clip differ")
    assert list(taken) == ["style-removed", "style-swapped", "control"]
    before, after, share, low, _ = taken["style-removed"]
    assert after < before and share > 30 and low > 0  # type: ignore[operator]
    assert taken["control"][3] < 0 < taken["control"][4]  # type: ignore[operator]


def test_figures_of_two_clips_by_hand() -> None:
    """Distances of clip a's two captions: 3 and 1 before, 1 and 0 after; clip b has one caption."""
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"]})
    captions = pl.DataFrame({"caption_id": ["0", "1", "2"], "clip_id": ["a", "a", "b"], "text": ["x", "y", "z"]})
    ids = ["0", "1", "2"], ["a", "b", "c"]
    clean = Scores(np.array([[3.0, 1, -1], [1.0, 1, -1], [0.0, 5, 2]]), *ids)
    after = Scores(np.array([[1.0, 1, -1], [0.0, 1, -1], [0.0, 0, 2]]), *ids)
    alone = Scores(np.array([[2.0, 1, 2], [0.0, 1, 2], [0.0, 3, 1]]), *ids)
    wanted = arguments({"style-removed": after, "content-removed": alone}, AuditSettings(0))
    measured = measure_perturbed(clean, make_corpus(clips, captions), placings=CAPTION_PLACINGS, **wanted)
    distances = measured.standings["style-removed", "the caption"].distance
    assert distances.tolist() == [1.0, 0.0, -1.0]
    (spread,) = caption_spreads(measured, wanted["settings"]).values()
    assert (spread.before, spread.after) == (1.0, 0.5)  # (3, 1) lie 1 from their mean, (1, 0) lie 0.5
    assert spread.taken.value == 75.0
    ((percentile, recall),) = style_alone(measured, wanted["settings"]).values()
    assert percentile.value == pytest.approx((75 + 0 + 100) / 3)
    assert recall.value == pytest.approx((50 + 0 + 100) / 3)


def test_captions_in_which_nothing_was_changed_are_told_and_left_out_with_their_scores() -> None:
    """Of half of them; with these in all scores the effect is about half of what it is without them."""
    clean, wanted = wordings(1.0)
    half = clean.values.shape[0] // 2
    stayed = np.concatenate([clean.values[:half], wanted["edited"]["style-removed"].values[half:]])  # type: ignore[attr-defined]
    control = wanted["edited"]["control"]
    diluted = audit_textual(clean, CORPUS, **arguments({"style-removed": of(stayed), "control": control}))
    told = f"With 'style-removed', {half} of {2 * half} captions find their clip exactly where it was."
    assert any(notice.startswith(told) for notice in diluted.notices)
    only = Scores(stayed[half:], CAPTION_IDS[half:], CLIP_IDS)
    found = audit_textual(clean, CORPUS, **arguments({"style-removed": only, "control": control}))
    assert not any("exactly where it was" in notice for notice in found.notices)
    assert diluted.effect.value < 0.6 * found.effect.value


def test_captions_of_different_clips_have_no_spread() -> None:
    clean, wanted = wordings(1.0)
    single = make_corpus(CORPUS.clips, CORPUS.captions[::2])
    titles = [table.title for table in audit_textual(clean, single, **wanted).tables]
    assert "How far the captions of a clip differ" not in titles
