"""Tables of TITAN on worded clips: rows, changes, what is left out and why, hubs with their words, and the sweeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.run import adapt
from evenreel.adaptation.titan import CounterfactualSettings, naive
from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers import Model, Workspace, run_study
from evenreel.papers.engine import figures_of
from evenreel.papers.titan.figures import Target
from evenreel.report.result import AuditResult, AuditTable
from tests.papers.worded_clips import CLIPS, DIMENSION, adapting, quick_settings, worded_material

HUB = "test 0"


@pytest.fixture(scope="module")
def material() -> Workspace:
    return worded_material()


@pytest.fixture(scope="module")
def offline(material: Workspace) -> AuditResult:
    return run_study("titan/t3", material, quick_settings(adapting(), seeds=2))


def table(found: AuditResult, title: str) -> AuditTable:
    (one,) = [one for one in found.tables if one.title == title]
    return one


def rows_of(found: AuditResult, title: str) -> dict[str, dict[str, object]]:
    one = table(found, title)
    return {str(row[1]): dict(zip(one.columns, row, strict=True)) for row in one.rows}


def test_the_rows_of_the_table_are_what_the_models_find(material: Workspace, offline: AuditResult) -> None:
    means = rows_of(offline, "What each finds")
    assert list(means) == [
        "source only", "QB-Norm, own queries", "QB-Norm, training captions", "NNN, own queries",
        "NNN, training captions", "naive pseudo-labels", "TTT++", "TTTFlow", "TITAN", "TITAN with safety",
    ]  # fmt: skip
    (model,) = material.models
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos)
    names = ("R@1 T2V", "R@5 T2V", "R@10 T2V", "MedR T2V")
    expected = figures_of(scores, material.test, names)
    assert [means["source only"][name.split()[0]] for name in names] == pytest.approx(list(expected.values()))
    both = []
    for seed in range(2):
        one = Target(model)
        found = adapt(
            TestTimeMatcher(model.matcher, one.part.videos, replace(naive(adapting()), seed=seed)), one.stream(seed)
        )
        both.append(figures_of(one.part.scores(found.matcher), material.test, names)["R@1 T2V"])
    assert means["naive pseudo-labels"]["R@1"] == pytest.approx(np.mean(both))


def test_changes_are_those_of_the_figures(offline: AuditResult) -> None:
    means, changes = rows_of(offline, "What each finds"), table(offline, "What each changes")
    assert changes.columns[3:] == ("figure", "change", "low", "high")
    for _, row, less, metric, change, low, high in changes.rows:
        assert less == "source only"
        assert change == pytest.approx(means[str(row)][str(metric)] - means["source only"][str(metric)])  # type: ignore[operator]
        assert low is not None and high is not None and low <= high  # type: ignore[operator]
    by_seed = table(offline, "What each changes, seed by seed")
    assert len(by_seed.rows) == 9 * 4
    medians = {row[1]: row[4] for row in by_seed.rows if row[3] == "MedR"}
    assert medians["TITAN"] == pytest.approx(means["TITAN"]["MedR"] - means["source only"]["MedR"])  # type: ignore[operator]
    assert offline.effect.name == "Change of R@1: TITAN less source only"
    assert offline.effect.value == pytest.approx(means["TITAN"]["R@1"] - means["source only"]["R@1"])  # type: ignore[operator]
    assert offline.sentence.startswith(f"Too few clips with captions to conclude: {CLIPS}. source only: R@1 ")


def test_labels_are_judged_after_the_fact(material: Workspace, offline: AuditResult) -> None:
    found = rows_of(offline, "How good the pseudo-labels were")
    assert list(found) == ["naive pseudo-labels", "TTT++", "TTTFlow", "TITAN", "TITAN with safety"]
    assert found["TTT++"]["right, %"] is None and found["TTT++"]["labels"] == 0
    assert found["naive pseudo-labels"]["counterfactual captions"] == 0
    assert found["TITAN"]["counterfactual captions"] > 0  # type: ignore[operator]
    assert found["TITAN"]["rank before"] >= found["TITAN"]["rank after"] >= 1  # type: ignore[operator]
    assert found["naive pseudo-labels"]["rank before"] is found["naive pseudo-labels"]["rank after"] is None
    assert "Target stage of the correction: 20 steps of 0.0001 each time" in " ".join(offline.method)
    safe = found.pop("TITAN with safety")
    assert all(row["weights moved, %"] > 0 for row in found.values())  # type: ignore[operator]
    assert str(safe["in the end"]).startswith(("Adapted: ", "Left as it was: "))
    (model,) = material.models
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    naive_row = found["naive pseudo-labels"]  # whose labels are the source's first clips
    assert naive_row["right, %"] == pytest.approx(rows_of(offline, "What each finds")["source only"]["R@1"])
    assert naive_row["coverage, %"] == pytest.approx(100 * len(set(scores.argmax(axis=1).tolist())) / CLIPS)


def test_hubs_have_the_words_that_bring_them(material: Workspace, offline: AuditResult) -> None:
    (model,) = material.models
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    firsts = [model.part.videos.ids[row.argmax()] for row in scores]
    captions = dict(zip(material.test.captions["text"], firsts, strict=True))
    found = {row[1]: row for row in table(offline, "The clips that are first for most queries").rows}
    counts = Counter(firsts)
    assert {clip: row[2] for clip, row in found.items()} == {clip: counts[str(clip)] for clip in found}
    assert sorted(counts[str(clip)] for clip in found) == sorted(sorted(counts.values())[-10:])
    words = Counter(word for text, clip in captions.items() if clip == HUB for word in text.split()[1:3])
    assert counts[HUB] > 5 and words["red"] > counts[HUB] / 2
    assert found[HUB][4] == "yes" and f"red ({words['red']})" in str(found[HUB][5])
    own = material.test.captions["clip_id"].to_list()
    assert found[HUB][3] == sum(first == clip == HUB for first, clip in zip(firsts, own, strict=True))


def test_without_what_is_prepared_rows_are_left_out_and_said() -> None:
    bare = worded_material(carries=False, reads=False)
    found = run_study("titan/t1", replace(bare, bank=None), quick_settings(adapting(protocol="online")))
    assert list(rows_of(found, "What each finds")) == [
        "source only", "QB-Norm, past queries", "NNN, past queries", "naive pseudo-labels"
    ]  # fmt: skip
    told = " ".join(found.notices)
    assert "mine, left out: TTT++. The source checkpoint carries nothing for ttt;" in told
    assert "mine, left out: TITAN, TITAN with safety, TITAN, predicted first. Counterfactual captions" in told
    assert "One seed: intervals do not count the order of the queries" in told
    plain = Model("mean_pool", build_matcher("mean_pool", DIMENSION), bare.models[0].part)
    with pytest.raises(UsageError, match="mean_pool cannot learn at test time: The matcher has no weights"):
        run_study("titan/t3", replace(bare, models=(plain,)), quick_settings(adapting()))


def test_parts_are_compared_with_neither(material: Workspace) -> None:
    found = run_study("titan/t2", material, quick_settings(adapting(protocol="online")))
    means = rows_of(found, "What each finds")
    assert {"neither", "CHR", "CBC", "CHR + CBC", "CHR + CBC, sinkhorn", "CHR + CBC, heads alone"} <= set(means)
    assert {row[2] for row in table(found, "What each changes").rows} == {"neither"}
    assert found.effect.name == "Change of R@1: CHR + CBC less neither"
    assert any("left out: CHR + CBC, norms alone. The matcher has no layer norm" in one for one in found.notices)
    assert [figure.title for figure in found.figures] == ["mine: change of R@1"]
    changes = [row for row in table(found, "What each changes").rows if row[3] == "R@1"]
    sure = [str(row[1]) for row in changes if row[5] > 0 or row[6] < 0]
    assert f": 15. neither: R@1 {means['neither']['R@1']:.1f}." in found.sentence
    for row in changes:
        assert (f" {row[1]}: R@1 {means[str(row[1])]['R@1']:.1f}, {row[4]:+.1f} (" in found.sentence) == (
            row[1] in sure
        )
    rest = len(changes) - len(sure)
    assert rest > 1 and f"The other {rest} rows are within chance of neither." in found.sentence


@pytest.mark.slow
def test_thresholds_let_through_what_they_say(material: Workspace) -> None:
    words = CounterfactualSettings(beta=3, theta=0.5)
    found = run_study("titan/f4", material, quick_settings(adapting(protocol="online", counterfactuals=words)))
    through = {row[1]: row[2:] for row in table(found, "What the thresholds let through").rows}
    one = Target(material.models[0])
    counts = np.bincount(one.firsts, minlength=CLIPS)
    for beta in (5, 10, 20, 30, 50, 100):
        assert through[f"beta {beta}"][0] == (counts > beta).sum()
    for share in (0.001, 0.005, 0.01, 0.05):
        assert through[f"beta {100 * share:g} % of the queries"][0] == (counts > share * len(one.firsts)).sum()
    thetas = [through[f"theta {theta:g}"] for theta in (0.1, 0.25, 0.5, 0.75, 0.9)]
    assert {crowded for crowded, _ in thetas} == {(counts > 3).sum()}
    made = [captions for _, captions in thetas]
    assert made == sorted(made, reverse=True) and made[0] > made[-1]  # type: ignore[type-var]
    for figure in found.figures:
        assert figure.draw().data
    assert len(found.figures) == 4


def test_a_beta_that_no_clip_reaches_is_said(material: Workspace) -> None:
    settings = adapting(protocol="online", counterfactuals=CounterfactualSettings())
    found = run_study("titan/t1", material, quick_settings(settings))
    assert "mine: no clip is first for more than 30 queries, so few or no counterfactual captions" in " ".join(
        found.notices
    )
