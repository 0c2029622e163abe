"""TCD on a few clips with signs: rows and the words they see, tokens of clips, first clips, and what reading costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import dense
from evenreel.features.windows import EMPTY
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.tcd import PRINTED
from evenreel.papers import STUDIES, ClipText, CorpusPart, Model, ScreenText, StudySettings, Workspace, run_study
from evenreel.papers.engine import BOTH, ends_of, figures_of
from evenreel.papers.study import Table, Variants, named
from evenreel.papers.tcd import figures as tcd_figures
from evenreel.papers.tcd.figures import token_counts
from evenreel.papers.tcd.tables import BASES, with_windows
from evenreel.papers.workspace import Looking
from evenreel.report.page import audit_page, render
from evenreel.similarity.tiles import Encoded
from evenreel.training.recipe import MatcherChoice
from evenreel.types import OnScreen, Pixels, Scores, TextFeatures, TextTrack, VideoFeatures
from tests.papers.class_clips import longer_videos
from tests.papers.signs import BOX, DIMENSION, TEST, TRAIN, WINDOWS, quick_settings, sign_material, with_words

TRAINED = [name for name, study in STUDIES.items() if name.startswith("tcd/") and "recipe" in study.options]
TABLES = [name.removeprefix("tcd/") for name in TRAINED if isinstance(STUDIES[name].make, Table)]


def rows_of(name: str, material: Workspace, settings: StudySettings) -> Variants:
    table = STUDIES[f"tcd/{name}"].make
    assert isinstance(table, Table)
    return table.variants(material, settings)


@pytest.fixture(scope="module")
def material() -> Workspace:
    return sign_material()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> StudySettings:
    return replace(quick_settings(), runs=tmp_path_factory.mktemp("runs"))


def test_figures_both_ways_are_those_of_a_hand_worked_table() -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"]})
    captions = pl.DataFrame({"caption_id": ["0", "1", "2"], "clip_id": ["a", "b", "c"], "text": ["x", "y", "z"]})
    values = np.array([[0.9, 0.1, 0.2], [0.5, 0.3, 0.4], [0.4, 0.6, 0.8]])
    scores = Scores(values, ["0", "1", "2"], ["a", "b", "c"])
    names = (*named(("R@1", "MedR", "MeanR"), "T2V", "V2T"), BOTH)
    found = figures_of(scores, make_corpus(clips, captions), names)
    assert found["R@1 T2V"] == pytest.approx(200 / 3)  # ranks 1, 3, 1
    assert (found["MedR T2V"], found["MeanR T2V"]) == (1, pytest.approx(5 / 3))
    assert found["MeanR V2T"] == pytest.approx(4 / 3)  # b finds caption 2 before its own
    assert found[BOTH] == pytest.approx(2 * (200 / 3 + 200))
    assert ends_of(names)["MeanR V2T"] == (1, np.inf) and ends_of(names)[BOTH] == (0, 600)


def test_other_matchers_stand_with_and_without_windows(material: Workspace, settings: StudySettings) -> None:
    kinds = with_windows(material, settings)
    assert list(kinds) == [name for base in BASES for name in (base, f"{base} + windows")] + ["tcd"]
    for base in BASES:
        plain, read = kinds[base], kinds[f"{base} + windows"]
        assert plain.recipe.matcher.name == read.recipe.matcher.name == base and read.against == base
        assert plain.recipe.adapter is not None and not plain.recipe.adapter.windows
        assert read.recipe.adapter == replace(plain.recipe.adapter, windows=True)
    bare = replace(settings, recipe=replace(settings.recipe, adapter=None))
    read = with_windows(material, bare)["x_pool + windows"]
    assert read.recipe.adapter == AdapterSettings("none", windows=True)


def test_matchers_have_places_for_all_frames_and_windows(material: Workspace, settings: StudySettings) -> None:
    """As many with windows as without, so that both rows have the same parameters; captions of any length."""
    train, test = material.learning()
    longer = replace(
        test,
        videos=longer_videos(test.videos, 4),
        texts=replace(test.texts, words=test.texts.words.repeat(40, 1), word_mask=test.texts.word_mask.repeat(40, 1)),
    )
    kinds = with_windows(replace(material, features=longer), settings)
    frames, windows = 4 * train.videos.frames.shape[1], 3
    assert train.videos.on_screen is not None and train.videos.on_screen.windows.shape[1] == windows
    for base in ("x_clip", "t_mass"):
        plain, read = (kinds[name].recipe.matcher for name in (base, f"{base} + windows"))
        assert plain == read and plain.settings["max_frames"] == frames + windows
    assert kinds["x_clip"].recipe.matcher.settings["max_words"] == 40
    assert kinds["mean_pool"].recipe.matcher.settings == kinds["x_pool"].recipe.matcher.settings == {}
    assert with_windows(material, settings)["x_clip"].recipe.matcher.settings == {}, "there is room already"


def test_the_printed_formulas_stand_beside_ours_one_by_one_and_together(
    material: Workspace, settings: StudySettings
) -> None:
    kinds = rows_of("readings", material, settings)
    own = kinds["tcd"].recipe.matcher.settings
    found = {
        name: {key: value for key, value in kind.recipe.matcher.settings.items() if value != own[key]}
        for name, kind in kinds.items()
    }
    together = found.pop("all as printed")
    assert together and together.items() <= PRINTED.items()
    assert found.pop("tcd") == found.pop("empty windows say so") == {}
    assert all(len(changes) == 1 for changes in found.values())
    alone = [change for changes in found.values() for change in changes.items() if changes.items() <= PRINTED.items()]
    assert dict(alone) == together
    said = {name for name, kind in kinds.items() if kind.recipe.data.words == WordChanges(empty="caption")}
    assert said == {"empty windows say so", "all as printed"}


def test_rows_of_one_name_are_one_training(material: Workspace, settings: StudySettings) -> None:
    """So all studies may have one folder, and what was trained for one is read by the next."""
    recipes: dict[str, Any] = {}
    for study in TABLES:
        for name, kind in rows_of(study, material, settings).items():
            assert name == "baseline" or recipes.setdefault(name, kind.recipe) == kind.recipe
    different = [str(asdict(recipe)) for recipe in recipes.values()]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("name", TRAINED)
def test_what_shows_no_words_is_refused_before_anything_is_trained(
    name: str, material: Workspace, settings: StudySettings, tmp_path: Path
) -> None:
    train, test = material.learning()
    unread = replace(test, videos=replace(test.videos, on_screen=None))
    blank = with_words(train, WordChanges(0.0))
    elsewhere = replace(settings, runs=tmp_path / "runs")
    with pytest.raises(
        UsageError, match="the features have none; give it features that were computed without --no-ocr"
    ):
        run_study(name, replace(material, features=unread), elsewhere)
    with pytest.raises(UsageError, match="no clip of the training split shows any; give it a corpus whose clips have"):
        run_study(name, replace(material, train=blank), elsewhere)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["t3", "t4", "t5", "readings", "noise"])
def test_words_that_nobody_knows_cannot_be_changed(name: str, material: Workspace, settings: StudySettings) -> None:
    train, _ = material.learning()
    with pytest.raises(UsageError, match="give it a training part that knows them"):
        rows_of(name, replace(material, train=replace(train, on_screen=None)), settings)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("t2", {"matcher": MatcherChoice("wti")}, "about the matcher tcd, and the recipe trains wti"),
        ("t2", {"adapter": AdapterSettings(windows=True)}, "adapter.windows puts on-screen windows among the frames"),
        ("t9", {"adapter": None}, "Calibration moves features, and these stay as they are without an"),
    ],
)
def test_other_recipes_are_refused(
    name: str, change: dict[str, Any], sentence: str, material: Workspace, settings: StudySettings
) -> None:
    with pytest.raises(UsageError, match=sentence):
        rows_of(name, material, replace(settings, recipe=replace(settings.recipe, **change)))


def cells(found: Any) -> dict[str, dict[str, Any]]:
    columns, *_ = (table.columns for table in found.tables)
    return {row[0]: dict(zip(columns, row, strict=True)) for row in found.tables[0].rows}


def test_words_on_screen_are_worth_what_only_they_say(material: Workspace, settings: StudySettings) -> None:
    """Four clips share a scene: without words a caption finds its clip among them by chance."""
    found = run_study("tcd/t4", material, settings)
    rows = cells(found)
    assert list(rows) == ["tcd", "no words", *(f"{one} % of the words" for one in (10, 20, 40, 80))]
    assert rows["tcd"]["R@1 T2V"] > 2 * rows["no words"]["R@1 T2V"]
    assert rows["80 % of the words"]["R@1 T2V"] > rows["10 % of the words"]["R@1 T2V"]
    assert found.effect.value == pytest.approx(rows["no words"]["R@1 T2V"] - rows["tcd"]["R@1 T2V"])
    assert settings.runs is not None
    made = (settings.runs / "no-words" / "seed-0" / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    other = cells(run_study("tcd/t3", material, settings))  # two of its rows are there
    assert (settings.runs / "no-words" / "seed-0" / "checkpoints" / "last.ckpt").stat().st_mtime_ns == made
    assert other["no words"]["R@1 T2V"] == rows["no words"]["R@1 T2V"]


def test_matchers_that_only_see_gain_by_windows(material: Workspace, settings: StudySettings) -> None:
    rows = cells(run_study("tcd/t1", material, settings))
    assert rows["mean_pool + windows"]["R@1 T2V"] > rows["mean_pool"]["R@1 T2V"]
    assert rows["tcd"]["R@1 T2V"] > rows["mean_pool"]["R@1 T2V"]


SLOW = ("t5", "t6", "t7", "t10", "readings")


@pytest.mark.parametrize(
    "name", ["t2", "t9", "f3", "noise", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_every_table_is_trained_and_measured(name: str, material: Workspace, settings: StudySettings) -> None:
    found = run_study(f"tcd/{name}", material, settings)
    rows = cells(found)
    metric, names = found.effect.name.removeprefix("Change of ").split(": ")
    lead, less = names.split(" less ")
    assert found.effect.value == pytest.approx(rows[lead][metric] - rows[less][metric])
    assert all(row["training clips"] == round(0.8 * TRAIN) for row in rows.values())
    assert all(len(figure.draw().data) for figure in found.figures)
    assert len(material.learning()[1].videos.ids) == TEST


# what studies count and show ------------------------------------------------------------------------------------------

SIZE = (24, 40)


def signs_by_hand() -> dict[str, ClipText]:
    """Frames are at 1, 3 and 5 s, of the second clip at 1 s alone."""
    first = (
        TextTrack("Gate 12", 0.9, 0.5, 3.5, BOX),  # two words in two frames
        TextTrack("GATE", 0.9, 4.9, 5.1, BOX),  # one in one
        TextTrack("blink", 0.9, 3.5, 4.5, BOX),  # between frames
    )
    return {
        "a": ClipText(first, ("There are scene texts: Gate 12 in this frame.", "", "GATE")),
        "b": ClipText((TextTrack("one two three", 0.5, 1.0, 1.0, BOX),), ("one two three", "", "")),
        "c": ClipText((), ("", "", "")),
    }


@pytest.fixture
def three(material: Workspace) -> CorpusPart:
    _, test = material.learning()
    texts = signs_by_hand()
    frames = np.zeros((3, 3, DIMENSION), np.float32)
    mask = np.array([[True, True, True], [True, False, False], [True, True, False]])
    times_s = np.where(mask, [[1.0, 3.0, 5.0]], 0.0)
    window_mask = np.array([[bool(text) for text in texts[name].windows] for name in "abc"])
    windows = np.zeros((3, 3, DIMENSION), np.float32)
    videos = VideoFeatures(tuple("abc"), frames, mask, times_s, OnScreen(windows, window_mask))
    return replace(test, videos=videos, on_screen=ScreenText(lambda: texts, lambda words: videos))


def test_tokens_are_counted_as_by_hand(three: CorpusPart) -> None:
    assert {name: counts.tolist() for name, counts in token_counts(three).items()} == {
        "frames": [3, 1, 2],
        "windows with text": [2, 1, 0],
        "words in frames": [2 * 2 + 1, 3, 0],
        "words on signs": [4, 3, 0],
        "different words": [3, 3, 0],
    }


def test_the_balance_of_tokens_is_told(three: CorpusPart, settings: StudySettings) -> None:
    found = run_study("tcd/f1", Workspace(test=three.corpus, features=three), settings)
    assert found.effect.value == pytest.approx((5 + 3) / 3) and found.effect.neutral == 1
    assert found.sentence.startswith(
        "A clip has 2.0 frames and 2.7 words in them on average, and 1.0 windows with text"
    )
    rows: dict[Any, Any] = {row[0]: row[1:] for row in found.tables[1].rows}
    own = (5**2 + 2**2 + 2**2) / 3
    assert rows["windows (tcd)"] == pytest.approx((3, own, 1))
    words = (8**2 + 4**2 + 2**2) / 3
    assert rows["words in frames, one by one"] == pytest.approx((14 / 3, words, words / own))
    assert rows["the paper: StarVR"] == pytest.approx((201, 40_401, 40_401 / 576))
    (figure,) = (figure.draw() for figure in found.figures)
    line = next(one for one in figure.data if one.name == "words in frames")
    assert list(line.x) == [0, 3, 5] and list(line.y) == pytest.approx([100 / 3, 200 / 3, 100])


def test_features_without_words_are_refused(material: Workspace, settings: StudySettings) -> None:
    _, test = material.learning()
    blank = with_words(test, WordChanges(0.0))
    for part, sentence in (
        (blank, "no clip of the test split shows any; give it"),
        (replace(test, on_screen=None), "reads words on screen; give it parts that know them"),
    ):
        with pytest.raises(UsageError, match=sentence):
            run_study("tcd/f1", Workspace(test=test.corpus, features=part), settings)


def picture(clip: str, times_s: Sequence[float]) -> list[Pixels]:
    """One of a colour of its own, that says its time too."""
    value = (7 * int(clip.split()[1])) % 251
    return [np.full((*SIZE, 3), (value, round(10 * time_s), 0), np.uint8) for time_s in times_s]


@pytest.fixture
def shown(material: Workspace) -> Workspace:
    """A `tcd` behind maps that change nothing yet, and a mean of frames."""
    _, test = material.learning()
    adapted = Adapted(build_matcher("tcd", DIMENSION), DIMENSION, AdapterSettings("mlp")).eval()
    models = (Model("tcd", adapted, test), Model("mean_pool", build_matcher("mean_pool", DIMENSION), test))
    return replace(material, models=models, looking=Looking(cast("TowerEncoder", None), picture))


def test_the_first_clips_are_shown_with_what_their_scores_are_made_of(
    shown: Workspace, settings: StudySettings
) -> None:
    asked = ("test 9 c", "test 2 c")
    found = run_study("tcd/f4", shown, replace(settings, queries=asked))
    _, test = shown.learning()
    tcd = shown.models[0]
    scores = dense(test.scores(tcd.matcher)).values
    rows = [row for row in found.tables[0].rows if row[0] == "tcd"]
    assert [row[1] for row in rows[::3]] == [test.corpus.captions["text"][row] for row in (9, 2)]
    for number, caption in enumerate((9, 2)):
        best = np.argsort(-scores[caption])[:3]
        for place, (row, column) in enumerate(zip(rows[3 * number :][:3], best, strict=True), start=1):
            assert row[2:4] == (place, test.videos.ids[column])
            assert row[4] == ("right" if column == caption else "wrong")
            assert row[5] == pytest.approx(scores[caption, column], abs=1e-5)
            assert np.mean(cast("tuple[float, ...]", row[6:9])) == pytest.approx(row[5], abs=1e-5)
            word = test.corpus.captions["text"][int(column)].split()[0].upper()
            assert row[9] == f"NEWS today {word}"
    others = [row for row in found.tables[0].rows if row[0] == "mean_pool"]
    assert all(row[6:9] == (None, None, None) for row in others)
    assert found.method[-1] == "mean_pool does not tell what its score is made of."
    first = [row[2] == 1 and row[4] == "right" for row in rows]
    assert found.sentence.startswith(
        f"Of the captions shown, those whose own clip is first: tcd {sum(first) / 2:.0%}, "
    )


def test_each_of_the_first_clips_has_its_picture_and_words_that_are_no_markup(
    shown: Workspace, settings: StudySettings
) -> None:
    _, test = shown.learning()
    loud = (TextTrack("<b>SALE</b>", 0.9, 0.0, 1.0, BOX),)
    texts = {name: ClipText(loud, ("<b>SALE</b>",) * WINDOWS) for name in test.videos.ids}
    part = replace(test, on_screen=ScreenText(lambda: texts, lambda words: test.videos))
    models = tuple(replace(model, part=part) for model in shown.models)
    found = run_study("tcd/f4", replace(shown, models=models), replace(settings, queries=("test 9 c",)))
    figure = found.figures[0].draw()
    assert len(figure.layout.images) == 3 and len(figure.layout.shapes) == 3
    row, said = found.tables[0].rows[0], figure.data[0].customdata[0]
    assert all(f"{name} {value:.3f}" in said for name, value in zip(("S_TV", "S_TO", "S_TH"), row[6:9], strict=True))
    page = render(audit_page([found]))
    assert "data:image\\u002fjpeg;base64," in page
    assert "<b>SALE</b>" not in page and "\\u003cb\\u003eSALE" not in page and "SALE" in page


def test_words_are_those_that_each_system_was_given(shown: Workspace, settings: StudySettings) -> None:
    """A system that reads nothing stands beside the words of the features."""
    _, test = shown.learning()
    blank = {name: ClipText((), (EMPTY,) * WINDOWS) for name in test.videos.ids}
    wordless = replace(test, on_screen=ScreenText(lambda: blank, lambda words: test.videos))
    tcd, mean = shown.models
    unread = replace(mean, part=replace(mean.part, on_screen=None))
    models = (replace(tcd, part=wordless), replace(tcd, name="other"), unread)
    found = run_study("tcd/f4", replace(shown, models=models), replace(settings, queries=("test 9 c",)))
    words = {name: {row[9] for row in found.tables[0].rows if row[0] == name} for name in ("tcd", "other", "mean_pool")}
    assert words["tcd"] == {None}
    for name in ("other", "mean_pool"):
        assert all(str(word).startswith("NEWS today ") for word in words[name])


def test_what_reading_costs(material: Workspace, settings: StudySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def noted(matcher: Matcher, given: TextFeatures | VideoFeatures, encode: Callable[..., Encoded]) -> Encoded:
        encoded.append(len(given.ids))
        return encode(matcher, given)

    for name in ("encode_texts", "encode_videos"):
        monkeypatch.setattr(tcd_figures, name, partial(noted, encode=getattr(tcd_figures, name)))
    monkeypatch.setattr(tcd_figures, "_PAIRS", 7)
    found = run_study("tcd/t8", material, settings)
    assert set(encoded) == {7}  # no more than what is timed
    costs: dict[Any, Any] = {row[0]: row[1:] for row in found.tables[0].rows}
    long = "tcd, 200 words one by one"
    bases = [f"{name} + windows" for name in ("mean_pool", "x_clip", "x_pool", "t_mass")]
    assert list(costs) == [*bases, "tcd", long]
    assert costs["mean_pool + windows"][3] == DIMENSION  # a product of two vectors
    dearer = [more > less for more, less in zip(costs[long], costs["tcd"], strict=True)]
    assert dearer == [True, False, True, True, True, True]  # a caption costs what it did
    times: dict[Any, Any] = {row[0]: row[1:] for row in found.tables[1].rows}
    assert list(times) == [*bases, "tcd"] and all(row[0] > 0 and row[3] > 0 for row in times.values())
