"""What studies of TCD count and show: tokens of clips, the first clips of captions, and what reading costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import dense
from evenreel.features.windows import EMPTY
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.papers import ClipText, CorpusPart, Model, ScreenText, StudySettings, Workspace, run_study
from evenreel.papers.tcd import reading
from evenreel.papers.tcd.reading import token_counts
from evenreel.papers.workspace import Looking
from evenreel.report.page import audit_page, render
from evenreel.similarity.tiles import Encoded
from evenreel.types import OnScreen, Pixels, TextFeatures, TextTrack, VideoFeatures
from tests.papers.signs import BOX, DIMENSION, WINDOWS, quick_settings, sign_material, with_words

SIZE = (24, 40)


@pytest.fixture(scope="module")
def material() -> Workspace:
    return sign_material()


@pytest.fixture
def settings() -> StudySettings:
    return quick_settings()


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
        monkeypatch.setattr(reading, name, partial(noted, encode=getattr(reading, name)))
    monkeypatch.setattr(reading, "_PAIRS", 7)
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
