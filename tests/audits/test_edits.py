"""The audits of edited clips and captions where the answer is known to be none, where it is known, and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.audits import AuditSettings, audit_textual, audit_visual, measure_perturbed
from evenreel.audits.edits import AS_IS, CAPTION_PLACINGS, CLIP_PLACINGS, DEPTHS, Perturbed, Standings, lost_recall
from evenreel.audits.exchange import drawn_flips
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.report import AuditResult
from evenreel.types import Scores
from tests.audits.small_edits import CAPTION_IDS, CLIP_IDS, CLIPS, KINDS, OWN, World, arguments, corpus, of
from tests.audits.small_pairs import rows_of as rows
from tests.evaluation.small_corpus import corpus_of, scores_of

CORPUS = corpus()
SETTINGS = AuditSettings(resamples=200)


def settings_of(world: World, *without: str) -> tuple[Scores, dict[str, Any]]:
    """The scores of a world as they are, and the edited ones with settings."""
    clean, edited = world.scores()
    kept = {name: of(values) for name, values in edited.items() if name not in without}
    return of(clean), arguments(kept)


def test_three_captions_by_hand() -> None:
    """Of clip a, others at 1 and 3: mean 2, standard deviation 1; a falls from 4 to 2, so from 2 to 0."""
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"]})
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "a"], "text": ["x", "y"]})
    ids = ["0", "1"], ["a", "b", "c"]
    clean = Scores(np.array([[4.0, 1.0, 3.0], [4.0, 5.0, 3.0]]), *ids)
    swapped = Scores(np.array([[2.0, 1.0, 5.0], [6.0, 3.0, 9.0]]), *ids)
    found = measure_perturbed(clean, make_corpus(clips, captions), **arguments({"swapped": swapped}, AuditSettings(0)))
    own, others, every = (found.standings["swapped", name] for name in CLIP_PLACINGS)
    assert found.standings[AS_IS, AS_IS].distance.tolist() == [2.0, 0.0]
    assert own.distance.tolist() == [0.0, 2.0]  # (2 - 2) / 1, (6 - 4) / 1
    assert others.distance.tolist() == [0.5, -2 / 3]  # (4 - 3) / 2, (4 - 6) / 3
    assert every.distance.tolist() == [-0.5, 0.0]
    assert found.standings[AS_IS, AS_IS].percentile.tolist() == [100.0, 50.0]
    assert own.percentile.tolist() == [50.0, 100.0]
    change = found.changes["swapped", "its clip"]
    assert (change.moved.value, change.fell.value, change.lost.value) == (2.0, 0.0, 0.0)
    assert np.isnan(change.beyond.value)
    assert change.recalls["R@1"].value == 0.0
    assert found.effect.name == "fall (swapped), SD"
    assert not found.effect.enough


def test_every_figure_by_loops() -> None:
    """Captions and clips in another order after the edit, some pairs not retrieved, and ties."""
    random = np.random.default_rng(5)
    clean, edited, control = random.integers(0, 6, (3, len(CAPTION_IDS), CLIPS)).astype(np.float64)
    edited[random.random(edited.shape) < 0.2] = -np.inf
    rows, columns = random.permutation(len(CAPTION_IDS)), random.permutation(CLIPS)
    turned = Scores(
        edited[rows][:, columns], [CAPTION_IDS[row] for row in rows], [CLIP_IDS[column] for column in columns]
    )
    wanted = arguments({"e": turned, "control": of(control)}, replace(SETTINGS, resamples=0, band_bytes=8 * CLIPS * 7))
    found = measure_perturbed(of(clean), CORPUS, **wanted)
    for placing, (of_own, of_others) in CLIP_PLACINGS.items():
        expected = [slow(clean, edited if of_own else clean, edited if of_others else clean, row) for row in range(120)]
        standing = found.standings["e", placing]
        np.testing.assert_allclose(standing.distance, [one[0] for one in expected])
        np.testing.assert_allclose(standing.percentile, [one[1] for one in expected])
    before, after, still = (
        np.array([slow(clean, one, clean, row)[0] for row in range(120)]) for one in (clean, edited, control)
    )
    change = found.changes["e", "its clip"]
    assert change.moved.value == pytest.approx(np.nanmean(abs(before - after)))
    assert change.beyond.value == pytest.approx(np.nanmean(abs(before - after) - abs(before - still)))
    assert found.effect.value == change.beyond.value
    assert found.unknown == sum(np.isnan(after) | np.isnan(before))


def slow(clean: np.ndarray, own: np.ndarray, others: np.ndarray, row: int) -> tuple[float, float]:
    """Distance and percentile of one caption's own clip."""
    mine = float(own[row, OWN[row]])
    rest = [float(others[row, column]) for column in range(clean.shape[1]) if column != OWN[row]]
    finite = [one for one in rest if np.isfinite(one)]
    distance = (mine - np.mean(finite)) / np.std(finite) if np.isfinite(mine) else float("nan")
    below = sum(one < mine for one in rest) + sum(one == mine for one in rest) / 2
    return distance, 100 * below / len(rest)


def test_a_ranking_that_is_blind_to_the_background_is_not_told() -> None:
    effects = [measure_perturbed(of_clean, CORPUS, **wanted).effect for of_clean, wanted in map(settings_of, blind())]
    assert np.mean([one.value for one in effects]) == pytest.approx(0, abs=0.05)
    assert sum(one.is_significant for one in effects) <= 1
    clean, wanted = settings_of(World(0.0, seed=1))
    quiet = audit_visual(clean, CORPUS, **wanted)
    assert quiet.sentence.startswith("That the ranking hangs on what 'background-swapped' changes cannot be told: with")


def blind() -> list[World]:
    return [World(0.0, seed=seed) for seed in range(6)]


def test_a_ranking_that_reads_the_background_is_told_by_how_much() -> None:
    """Though its clips rise as often as they fall, so that the mean fall says nothing."""
    some, more = (measure_perturbed(**with_corpus(World(weight))) for weight in (0.5, 1.0))
    assert some.effect.is_significant and more.effect.is_significant
    assert 0 < some.effect.value < more.effect.value
    fell = more.changes["background-swapped", "its clip"].fell
    assert fell.low is not None and fell.high is not None and fell.low < 0 < fell.high
    found = audit_visual(**with_corpus(World(1.0)))
    assert found.sentence.startswith("The ranking hangs on what 'background-swapped' changes: with it the clip of a ")
    assert "Beside it: " in found.sentence and "with 'entity-swapped'" in found.sentence
    assert "R@1 goes from " in found.sentence


def with_corpus(world: World) -> dict[str, Any]:
    clean, wanted = settings_of(world)
    return {"scores": clean, "corpus": CORPUS, **wanted}


def test_the_size_is_that_of_a_ranking_that_reads_nothing_else() -> None:
    """Without noise, all that moves is the match of one background, of known size in each caption's own scores."""
    world = World(1.0, noise=0.0)
    clean, edited = world.scores()
    found = measure_perturbed(**with_corpus(world))
    moved = []
    for row, column in enumerate(OWN):
        rest = np.delete(clean[row], column)
        moved.append(abs(clean[row, column] - edited["background-swapped"][row, column]) / rest.std())
    assert found.effect.value == pytest.approx(np.mean(moved))
    assert found.effect.value == found.changes["background-swapped", "its clip"].moved.value


def test_without_a_control_it_is_asked_whether_clips_fall() -> None:
    clean, wanted = settings_of(World(0.0), "control", "background-swapped")
    found = audit_visual(clean, CORPUS, **wanted)
    assert found.effect.name == "fall (entity-swapped), SD"
    assert found.effect.is_significant
    assert found.sentence.startswith("The clip of a caption falls by ")
    assert any("There are no scores of a control" in notice for notice in found.notices)
    turned = arguments({"entity-restored": clean})
    risen = audit_visual(wanted["edited"]["entity-swapped"], CORPUS, **turned)
    assert risen.sentence.startswith("The clip of a caption rises by ")


def test_scores_that_are_all_equal_move_nothing() -> None:
    flat = of(np.full((len(CAPTION_IDS), CLIPS), 0.1, np.float32))
    found = measure_perturbed(flat, CORPUS, **arguments({"e": flat, "control": flat}))
    assert (found.effect.value, found.effect.low, found.effect.high, found.effect.p_value) == (0, 0, 0, 1)
    assert found.unknown == 0


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.1, 10), st.floats(-5, 5))
def test_scale_and_offset_of_a_caption_do_not_matter(seed: int, scale: float, offset: float) -> None:
    random = np.random.default_rng(seed)
    own, others = random.normal(size=3), random.normal(size=(3, 7))
    one, other = Standings.of(own, others), Standings.of(scale * own + offset, scale * others + offset)
    np.testing.assert_allclose(one.distance, other.distance, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(one.percentile, other.percentile)


def test_what_not_all_scores_have_is_left_out_and_said() -> None:
    clean, wanted = settings_of(World(0.5))
    ids = CAPTION_IDS[2:], CLIP_IDS[:59]
    some = {name: Scores(one.block(slice(2, 120), slice(0, 59)), *ids) for name, one in wanted["edited"].items()}
    found = audit_visual(clean, CORPUS, **arguments(some))
    assert "Clips that are not in all of the scores: 1 left out." in found.notices
    assert "Captions that are not in all of the scores, or whose clip is not: 4 left out." in found.notices
    assert "116 captions of 58 clips, in a gallery of 59." in found.tables[0].note


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    clean, _ = settings_of(World(0.0))
    with pytest.raises(UsageError, match="There are no scores after an edit"):
        audit_visual(clean, CORPUS, SETTINGS)
    with pytest.raises(UsageError, match="The only scores after an edit are of the control"):
        audit_visual(clean, CORPUS, **arguments({"control": clean}))
    with pytest.raises(CorpusError, match="share 60 clips, and 0 captions"):
        Perturbed.of(clean, make_corpus(CORPUS.clips, CORPUS.captions.clear()), {"e": clean})
    broken = of(np.where(np.eye(120, 60) > 0, np.nan, 0.0))
    with pytest.raises(ScoresError, match="caption 'c0' and video 'v0' is NaN"):
        audit_visual(clean, CORPUS, **arguments({"e": broken}))


# The audit of edited captions where the answer is known to be none, where it is known, and by hand.


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
    assert rows(together, "What style alone finds")["content-removed"][1] > 75
    low, high = rows(apart, "What style alone finds")["content-removed"][1:3]
    assert low < 55 < high + 10
    assert "Style alone ('content-removed') puts the clip above " in together.sentence


def test_what_style_adds_to_the_spread_among_a_clips_captions_is_taken_away() -> None:
    taken = rows(found(1.0), "How far the captions of a clip differ")
    assert list(taken) == ["style-removed", "style-swapped", "control"]
    before, after, share, low, _ = taken["style-removed"]
    assert after < before and share > 30 and low > 0
    assert taken["control"][3] < 0 < taken["control"][4]


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
    told = audit_textual(clean, make_corpus(clips, captions), **wanted)
    spread = rows(told, "How far the captions of a clip differ")["style-removed"]
    assert spread[:3] == (1.0, 0.5, 75.0)  # (3, 1) lie 1 from their mean, (1, 0) lie 0.5
    alone = rows(told, "What style alone finds")["content-removed"]
    assert (alone[0], alone[3]) == pytest.approx(((75 + 0 + 100) / 3, (50 + 0 + 100) / 3))


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


# Recall that edits of other clips cost: columns exchanged by hand, and edits that do nothing.


Table = Any
SHARED = {name: edited for name, edited in CLIP_PLACINGS.items() if edited[1]}


def slow_recall(own: Table, others: Table, of: Table, depth: int) -> float:
    """Mean percent of captions whose own clip, scored by `own`, is among the first `depth` with `others`."""
    found = []
    for row, clip in enumerate(of):
        score, rest = own[row, clip], np.delete(others[row], clip)
        above, equal = (rest > score).sum(), (rest == score).sum()
        found.append(0.0 if score == -np.inf else 100 * min(1.0, max(0.0, (depth - above) / (equal + 1))))
    return float(np.mean(found))


@pytest.mark.parametrize("ties", [False, True])
def test_samples_are_edits_with_the_versions_of_some_clips_exchanged(ties: bool) -> None:
    random = np.random.default_rng(0)
    clean, edited = random.integers(0, 6, (2, 14, 7)) * 1.0 if ties else random.normal(size=(2, 14, 7))
    clean[3, 1] = edited[0, 0] = -np.inf
    how = AuditSettings(resamples=6, band_bytes=8)
    perturbed = Perturbed.of(scores_of(clean), corpus_of(np.repeat(range(7), 2).tolist(), 7), {"e": scores_of(edited)})
    found = lost_recall(perturbed, "e", CLIP_PLACINGS, how)
    for sample, flipped in enumerate(drawn_flips(7, how)):
        before, after = np.where(flipped, edited, clean), np.where(flipped, clean, edited)
        for placing, (of_own, of_others) in CLIP_PLACINGS.items():
            for number, depth in enumerate(DEPTHS):
                expected = slow_recall(before, before, perturbed.own, depth) - slow_recall(
                    after if of_own else before, after if of_others else before, perturbed.own, depth
                )
                assert found[placing][number, sample] == pytest.approx(expected, abs=1e-9)


def an_edit_of_nothing(seed: int, clips: int, captions: int) -> tuple[Scores, Scores]:
    """Two versions of every clip, each liked more or less by all captions, and no difference between them."""
    random, own = np.random.default_rng(seed), np.repeat(np.arange(clips), captions)
    base = random.normal(size=(len(own), clips)) + 0.6 * random.normal(size=clips)
    base[np.arange(len(own)), own] += 2.5
    first, second = (base + 0.6 * random.normal(size=clips) for _ in range(2))
    return scores_of(first), scores_of(second)


def test_an_edit_of_nothing_costs_no_recall() -> None:
    """Samples of captions report a loss in half of such worlds, where there are five captions a clip."""
    alarms = dict.fromkeys(SHARED, 0)
    for world in range(60):
        clean, edited = an_edit_of_nothing(world, 50, 5)
        settings = arguments({"e": edited}, AuditSettings(resamples=100, seed=world))
        found = measure_perturbed(clean, corpus_of(np.repeat(range(50), 5).tolist(), 50), **settings)
        for placing in SHARED:
            lost = found.changes["e", placing].recalls["R@1"]
            assert lost.low is not None and lost.high is not None
            alarms[placing] += not lost.low <= 0 <= lost.high
    assert max(alarms.values()) <= 8, alarms


def test_changes_that_all_captions_share_have_no_interval_over_captions() -> None:
    clean, edited = an_edit_of_nothing(0, 20, 1)
    found = measure_perturbed(clean, corpus_of(range(20), 20), **arguments({"e": edited}, AuditSettings(resamples=50)))
    for placing, (_, of_others) in CLIP_PLACINGS.items():
        change = found.changes["e", placing]
        assert [one.low is None for one in (change.moved, change.fell, change.lost)] == [of_others] * 3
        assert change.recalls["R@10"].low is not None
