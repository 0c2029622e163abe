"""TITAN on worded clips: streams by slow loops, tables of them, and phrases by the formulas of the paper, by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from evenreel.adaptation.adapted import AdaptationStep, TestTimeMatcher
from evenreel.adaptation.run import AdaptReport, adapt
from evenreel.adaptation.stream import RememberingReader, taken, text_vectors, video_vectors
from evenreel.adaptation.titan import (
    UNSAFE,
    CounterfactualSettings,
    LabelRank,
    MatchSettings,
    SafetySettings,
    naive,
    rank_sums,
)
from evenreel.adaptation.titan_correction import TargetStage, chosen, judged, label_rank
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import nearest_neighbour_norm
from evenreel.matchers import build_matcher
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers import CaptionBank, Model, Workspace, run_study
from evenreel.papers.engine import figures_of
from evenreel.papers.titan import figures as titan_streams
from evenreel.papers.titan.figures import (
    BOTH,
    CBC,
    CHR,
    NEITHER,
    SOURCE,
    Norm,
    Row,
    Target,
    answered,
    diagnosed,
    offline,
    online,
    parts,
    switched,
    thresholds,
)
from evenreel.papers.workspace import part_of
from evenreel.report.result import AuditResult, AuditTable
from evenreel.types import FloatArray, Scores
from tests.papers.worded_clips import (
    CLIPS,
    DIMENSION,
    adapting,
    prepared,
    quick_settings,
    read,
    worded_material,
    worded_part,
)


def target(**options: bool) -> Target:
    material = worded_material(**options)
    return Target(material.models[0], material.bank)


def quiet(share: float) -> None:
    """Nobody looks."""


def first_hits(rows: Sequence[Sequence[float]], ids: Sequence[str], one: Target) -> dict[str, float]:
    """100 where the caption's own clip is the only one with the best score, by loops; no ties here."""
    clips, own = one.part.videos.ids, dict(zip(one.part.corpus.captions["caption_id"], one.own, strict=True))
    return {
        name: 100.0 * (clips[max(range(len(clips)), key=lambda at, row=row: row[at])] == own[name])
        for name, row in zip(ids, rows, strict=True)
    }


def in_order(hits: dict[str, float], one: Target) -> list[float]:
    return [hits[name] for name in one.part.corpus.captions["caption_id"]]


def test_a_stream_is_answered_batch_by_batch_and_ranked_in_the_order_of_the_split() -> None:
    one, settings = target(), naive(adapting(protocol="online"))
    outcome = answered(one, Row(settings), 3, quiet, settings=settings)
    stream = one.stream(3)
    assert stream.texts.ids != one.part.texts.ids and set(stream.texts.ids) == set(one.part.texts.ids)
    model = TestTimeMatcher(one.matcher, stream.videos, replace(settings, seed=3))
    rows: list[list[float]] = []
    for start in range(0, len(stream.sentences), 16):
        batch = np.arange(start, min(start + 16, len(stream.sentences)))
        rows += model.see(taken(stream.texts, batch), [stream.sentences[row] for row in batch]).tolist()
    hits = in_order(first_hits(rows, stream.texts.ids, one), one)
    assert outcome.per_query["R@1"].tolist() == hits
    assert outcome.figure("R@1") == pytest.approx(np.mean(hits))
    assert outcome.labels is not None and outcome.labels["weights moved, %"] > 0  # type: ignore[operator]


@pytest.mark.parametrize("protocol", ["online", "offline"])
def test_nothing_learns_from_labels(protocol: str) -> None:
    """Captions that are said to be of other clips change what is measured, and nothing that is done."""
    settings = adapting(protocol=protocol)
    right = target()
    captions = right.part.corpus.captions
    clips = captions["clip_id"].to_list()
    wrong = captions.with_columns(clip_id=pl.Series([*clips[3:], *clips[:3]]))
    corpus = make_corpus(right.part.corpus.clips, wrong)
    part = part_of(corpus, right.part.texts, right.part.videos)
    other = Target(Model("mine", right.matcher, part, right.prepared, read), right.bank)
    told = [answered(one, Row(settings), 0, quiet, settings=settings).labels for one in (right, other)]
    assert told[0] is not None and told[1] is not None
    assert told[0]["right, %"] != told[1]["right, %"]
    assert {**told[0], "right, %": None} == {**told[1], "right, %": None}


def test_scores_are_corrected_by_the_queries_that_came_before() -> None:
    """QB-Norm (Bogolin et al. 2022), by loops; the first batch has nothing before it."""
    one, settings = target(), adapting(protocol="online", batch_size=10)
    found = answered(one, Row(norm=Norm("qb-norm")), 1, quiet, settings=settings)
    stream = one.stream(1)
    plain = matcher_scores(one.matcher, stream.texts, stream.videos).score_all().values.astype(np.float64)
    rows = []
    for at, row in enumerate(plain):
        bank = plain[: at // 10 * 10]
        hubs = {int(asked.argmax()) for asked in bank}
        lowered = [float(score) for score in row]
        if int(row.argmax()) in hubs:
            lowered = [value - np.log(sum(np.exp(20 * bank[:, column]))) / 20 for column, value in enumerate(row)]
        rows.append(lowered)
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, stream.texts.ids, one), one)
    assert (
        found.per_query["R@1"].tolist() != answered(one, Row(), 1, quiet, settings=settings).per_query["R@1"].tolist()
    )


@pytest.mark.parametrize("trained", [True, False])
def test_scores_are_corrected_by_a_bank_of_all_queries(trained: bool) -> None:
    """NNN (Chowdhury et al. 2024), whose 128 neighbours are all of 45; offline the order counts for nothing."""
    one, settings = target(), adapting()
    found = answered(one, Row(norm=Norm("nnn", trained)), 5, quiet, settings=settings)
    assert one.bank is not None
    asked = one.bank.read(np.arange(one.bank.count)) if trained else one.part.texts
    scores, bank = (
        matcher_scores(one.matcher, texts, one.part.videos).score_all().values for texts in (one.part.texts, asked)
    )
    rows = [[value - 0.75 * bank[:, column].mean() for column, value in enumerate(row)] for row in scores]
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, one.part.texts.ids, one), one)


def test_offline_the_bank_is_the_latest_of_the_stream_and_scores_are_corrected_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of more queries than `bank` holds; the whole table is never corrected at once."""
    tables: list[int] = []

    def noted(given: Scores, bank: FloatArray, *, top: int) -> Scores:
        tables.append(len(given.values))
        return nearest_neighbour_norm(given, bank, top=top)

    monkeypatch.setattr(titan_streams, "nearest_neighbour_norm", noted)
    monkeypatch.setattr(titan_streams, "AT_ONCE", 20)
    one, settings = target(), adapting(bank=10)
    found = answered(one, Row(norm=Norm("nnn")), 2, quiet, settings=settings)
    stream = one.stream(2)
    scores = matcher_scores(one.matcher, stream.texts, stream.videos).score_all().values
    rows = [[value - 0.75 * scores[-10:, column].mean() for column, value in enumerate(row)] for row in scores]
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, stream.texts.ids, one), one)
    assert tables == [20, 20, 5]


def test_captions_of_a_bank_are_cut_to_what_the_matcher_takes() -> None:
    """Training captions may be longer than those that are searched with."""
    one, wordy = worded_part("test", 1.5, 0), read(["a red ball rolls over the blue cup", "the green tree falls"])
    matcher = build_matcher("x_clip", DIMENSION, {"max_words": 3, "max_frames": 2, "temporal_layers": 0})
    bank = CaptionBank(2, lambda rows: taken(wordy, rows))
    found = answered(
        Target(Model("mine", matcher, one), bank), Row(norm=Norm("nnn", True)), 0, quiet, settings=adapting()
    )
    assert len(found.per_query["R@1"]) == one.corpus.captions.height


def test_what_a_report_says_is_held_to_the_labels() -> None:
    one = target()
    first, second, third = one.part.corpus.captions["caption_id"].to_list()[:3]  # all of the first clip
    clips = one.part.videos.ids
    steps = (
        AdaptationStep(1, 3, counterfactual=2, labels=((first, clips[1]), (second, clips[0]))),
        AdaptationStep(
            2, 3, counterfactual=1, labels=((first, clips[0]), (third, clips[4])), label_rank=LabelRank(4, 1, 9, 0.5)
        ),
        AdaptationStep(3, 3, label_rank=LabelRank(5, 3, 9, 0.0)),
    )
    found = diagnosed(AdaptReport(True, "Done.", steps, moved=0.5, first_changed=0.25), one)
    assert (found["labels"], found["counterfactual captions"]) == (3, 3)
    assert (found["weights moved, %"], found["first clips changed, %"]) == (50.0, 25.0)
    assert found["right, %"] == pytest.approx(200 / 3)  # the last label of the first caption counts
    assert found["coverage, %"] == pytest.approx(200 / len(clips))
    assert (found["rank before"], found["rank after"]) == (4.5, 2.0)
    counts = [2, 0, 0, 0, 1, *[0] * (len(clips) - 5)]
    apart = sum(abs(one - other) for one in counts for other in counts)
    assert found["Gini"] == pytest.approx(apart / (2 * len(clips) * sum(counts)))  # Gini's mean difference
    nothing = diagnosed(AdaptReport(False, "", ()), one)
    unknown = ("right, %", "coverage, %", "Gini", "rank before", "rank after")
    assert nothing["labels"] == 0 and [nothing[head] for head in unknown] == [None] * 5


def test_each_caption_is_read_once() -> None:
    asked: list[str] = []

    def counted(sentences: Sequence[str]) -> object:
        asked.extend(sentences)
        return read(sentences)

    reader = RememberingReader(counted)  # type: ignore[arg-type]
    some = ["a dog jumps", "red", "a dog jumps"]
    found = [reader(some), reader(["red", "a cup"])]
    assert asked == ["a dog jumps", "red", "a cup"]
    for got, sentences in zip(found, (some, ["red", "a cup"]), strict=True):
        expected = read(sentences)
        np.testing.assert_array_equal(got.word_mask, expected.word_mask)
        np.testing.assert_array_equal(got.words, expected.words)
        np.testing.assert_array_equal(got.sentence, expected.sentence)


def test_parts_are_switched_one_by_one() -> None:
    settings = adapting(protocol="online")
    rows = parts(settings, True)

    def switches(name: str) -> tuple[bool, bool, bool]:
        own = rows[name].settings
        assert own is not None
        return own.matching.match == "rank_sum", own.counterfactuals is not None, own.causal

    assert rows[SOURCE].settings is None and rows[BOTH].settings == settings
    assert [switches(name) for name in (NEITHER, CHR, CBC)] == [(False,) * 3, (True, True, False), (False, False, True)]
    together = rows[f"{BOTH}, ranks decide"].settings
    assert together == replace(settings, decides="ranks")
    halves = ("source debias alone", "target amplification alone")
    correction = prepared().correction
    assert correction is not None
    told = [switched(correction, rows[name]).settings for name in halves]
    assert [(one.source_debias, one.target_amplification) for one in told] == [(True, False), (False, True)]
    assert correction.settings.source_debias and correction.settings.target_amplification
    warm = parts(adapting(matching=MatchSettings(temperature=0.2)), False)[f"{BOTH}, sinkhorn"].settings
    assert warm is not None and warm.matching == MatchSettings("sinkhorn", temperature=0.2)


def test_rows_beside_the_paper_have_its_settings_and_safety_apart() -> None:
    rows = online(adapting(protocol="online"), True)
    whole, safe, first = (rows[name].settings for name in ("TITAN", "TITAN with safety", "TITAN, predicted first"))
    assert whole is not None and safe is not None and first is not None
    assert (whole.safety, safe.safety, first.predict) == (UNSAFE, SafetySettings(), "before")
    assert replace(safe, safety=UNSAFE) == replace(first, predict="after") == whole
    own = SafetySettings(keep=0.5)
    kept = offline(adapting(safety=own), False)
    assert kept["TITAN with safety"].settings == adapting(safety=own)
    assert "QB-Norm, own queries" in kept and not any("training" in name or "predicted" in name for name in kept)


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        (online, {"protocol": "offline"}, "the protocol online, and the settings say offline; make titan/t3"),
        (offline, {"protocol": "online"}, "the protocol offline, and the settings say online; make titan/t1"),
        (offline, {"objective": "ttt"}, "go out from pseudo-labels, and the objective is ttt"),
        (parts, {"causal": False}, "leave causal, counterfactuals and matching.match as they are"),
        (parts, {"counterfactuals": None}, "leave causal, counterfactuals and matching.match as they are"),
        (thresholds, {"counterfactuals": None}, "is about counterfactual captions"),
        (thresholds, {"objective": "ttt_flow"}, "go out from pseudo-labels, and the objective is ttt_flow"),
    ],
)
def test_settings_that_a_study_cannot_vary_are_refused(
    rows: object, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        rows(adapting(**settings), False)  # type: ignore[operator]


# tables: rows, changes, what is left out and why, hubs with their words, and the sweeps -------------------------------

HUB = "test 0"


@pytest.fixture(scope="module")
def material() -> Workspace:
    return worded_material()


@pytest.fixture(scope="module")
def of_all(material: Workspace) -> AuditResult:
    return run_study("titan/t3", material, quick_settings(adapting(), seeds=2))


def table(found: AuditResult, title: str) -> AuditTable:
    (one,) = [one for one in found.tables if one.title == title]
    return one


def rows_of(found: AuditResult, title: str) -> dict[str, dict[str, object]]:
    one = table(found, title)
    return {str(row[1]): dict(zip(one.columns, row, strict=True)) for row in one.rows}


def test_the_rows_of_the_table_are_what_the_models_find(material: Workspace, of_all: AuditResult) -> None:
    means = rows_of(of_all, "What each finds")
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


def test_changes_are_those_of_the_figures(of_all: AuditResult) -> None:
    means, changes = rows_of(of_all, "What each finds"), table(of_all, "What each changes")
    assert changes.columns[3:] == ("figure", "change", "low", "high")
    for _, row, less, metric, change, low, high in changes.rows:
        assert less == "source only"
        assert change == pytest.approx(means[str(row)][str(metric)] - means["source only"][str(metric)])  # type: ignore[operator]
        assert low is not None and high is not None and low <= high  # type: ignore[operator]
    by_seed = table(of_all, "What each changes, seed by seed")
    assert len(by_seed.rows) == 9 * 4
    medians = {row[1]: row[4] for row in by_seed.rows if row[3] == "MedR"}
    assert medians["TITAN"] == pytest.approx(means["TITAN"]["MedR"] - means["source only"]["MedR"])  # type: ignore[operator]
    assert of_all.effect.name == "Change of R@1: TITAN less source only"
    assert of_all.effect.value == pytest.approx(means["TITAN"]["R@1"] - means["source only"]["R@1"])  # type: ignore[operator]
    assert of_all.sentence.startswith(f"Too few clips with captions to conclude: {CLIPS}. source only: R@1 ")


def test_labels_are_judged_after_the_fact(material: Workspace, of_all: AuditResult) -> None:
    found = rows_of(of_all, "How good the pseudo-labels were")
    assert list(found) == ["naive pseudo-labels", "TTT++", "TTTFlow", "TITAN", "TITAN with safety"]
    assert found["TTT++"]["right, %"] is None and found["TTT++"]["labels"] == 0
    assert found["naive pseudo-labels"]["counterfactual captions"] == 0
    assert found["TITAN"]["counterfactual captions"] > 0  # type: ignore[operator]
    assert found["TITAN"]["rank before"] >= found["TITAN"]["rank after"] >= 1  # type: ignore[operator]
    assert found["naive pseudo-labels"]["rank before"] is found["naive pseudo-labels"]["rank after"] is None
    assert "Target stage of the correction: 20 steps of 0.0001 each time" in " ".join(of_all.method)
    safe = found.pop("TITAN with safety")
    assert all(row["weights moved, %"] > 0 for row in found.values())  # type: ignore[operator]
    assert str(safe["in the end"]).startswith(("Adapted: ", "Left as it was: "))
    (model,) = material.models
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    naive_row = found["naive pseudo-labels"]  # whose labels are the source's first clips
    assert naive_row["right, %"] == pytest.approx(rows_of(of_all, "What each finds")["source only"]["R@1"])
    assert naive_row["coverage, %"] == pytest.approx(100 * len(set(scores.argmax(axis=1).tolist())) / CLIPS)


def test_hubs_have_the_words_that_bring_them(material: Workspace, of_all: AuditResult) -> None:
    (model,) = material.models
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    firsts = [model.part.videos.ids[row.argmax()] for row in scores]
    captions = dict(zip(material.test.captions["text"], firsts, strict=True))
    found = {row[1]: row for row in table(of_all, "The clips that are first for most queries").rows}
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


# phrases of captions with clips, before and after the correction of bias ----------------------------------------------

PLAIN = adapting(counterfactuals=None)


@pytest.fixture(scope="module")
def found(material: Workspace) -> AuditResult:
    return run_study("titan/f5", material, replace(quick_settings(PLAIN), queries=("test 4 falls",)))


def test_phrases_are_judged_by_the_formulas(material: Workspace, found: AuditResult) -> None:
    (model,) = material.models
    assert model.prepared is not None and model.prepared.correction is not None
    with torch.no_grad():
        q = text_vectors(model.matcher, text_batch(model.part.texts))
        v = video_vectors(model.matcher, video_batch(model.part.videos))
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    sums = rank_sums(scores, 1.0)
    labels = [min(range(len(row)), key=lambda at, r=r: (sums[r, at], -scores[r, at])) for r, row in enumerate(scores)]
    candidates = np.array(
        [
            [label, *[at for at in np.argsort(-row, kind="stable") if at != label][:9]]
            for label, row in zip(labels, scores, strict=True)
        ]
    )
    confounders = model.prepared.target_confounders(model.part.videos)
    stage = TargetStage(model.prepared.correction, confounders, PLAIN.causal_fit)
    stage.learn(q, v, candidates)
    after = stage.correction
    corrected = chosen(judged(after, q, v, candidates), candidates)
    row = material.test.captions["caption_id"].to_list().index("test 4 falls")
    clips = model.part.videos.ids
    (table,) = found.tables
    assert {line[2] for line in table.rows} == {clips[labels[row]], clips[corrected[row]]}
    assert table.rows[0][5] == "the whole caption"
    for line in table.rows:
        text = material.test.captions["text"][row] if line[5] == "the whole caption" else str(line[5])
        column = clips.index(str(line[2]))
        texts = replace(read([text]), ids=("asked",))
        expected = matcher_scores(model.matcher, texts, model.part.videos).score_all().values[0, column]
        with torch.no_grad():
            asked = text_vectors(model.matcher, text_batch(texts))
            sides = [one.logits(asked, v[[column]]).sigmoid().item() for one in (model.prepared.correction, after)]
        assert line[6:] == pytest.approx((expected, *sides), abs=1e-5)
        assert line[4] == ("right" if line[2] == "test 4" else "wrong")
    own = material.test.captions["clip_id"].to_list()
    right = [
        100 * np.mean([clips[at] == clip for at, clip in zip(some, own, strict=True)]) for some in (labels, corrected)
    ]
    assert found.effect.value == pytest.approx(right[1] - right[0])
    changed = sum(one != other for one, other in zip(labels, corrected, strict=True))
    assert (
        f"mine: the correction gives {changed:,} of {len(own)} captions another clip; {right[1]:.1f} %"
        in found.sentence
    )
    ranks = [label_rank(judged(one, q, v, candidates)) for one in (model.prepared.correction, after)]
    assert f"pseudo clips rank {ranks[0]:.2f} of 10 before it trained on them, {ranks[1]:.2f} after" in found.sentence


def test_captions_are_chosen_where_the_correction_changed_something(material: Workspace) -> None:
    found = run_study("titan/f5", material, quick_settings(adapting()))
    roles = {line[3] for line in found.tables[0].rows}
    assert roles <= {"without correction", "with correction", "with and without correction"}
    assert ("with and without correction" in roles) == ("gives 0 of" in found.sentence)
    assert any("whose label the correction changed" in one for one in found.notices)


def test_what_cannot_be_shown_is_refused(material: Workspace) -> None:
    for given, changes, queries, sentence in (
        (worded_material(reads=False), {}, (), "reads phrases with the text tower of the features"),
        (worded_material(carries=False), {}, (), "carries no bias correction; make one with `evenreel prepare"),
        (material, {}, ("nothing",), "has no caption 'nothing' with a label"),
        (material, {"causal": False}, (), "is about the correction of bias, and causal is false"),
        (material, {"objective": "ttt"}, (), "go out from pseudo-labels, and the objective is ttt"),
    ):
        settings = quick_settings(adapting(counterfactuals=None, **changes))
        with pytest.raises(UsageError, match=sentence):
            run_study("titan/f5", given, replace(settings, queries=queries))
