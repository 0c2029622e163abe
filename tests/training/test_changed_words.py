"""`data.words`: what is learned from and selected on has its words changed, and what comes of it is scored alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import load_features_for, load_matcher
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_texts, select
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import find_clips, load_text_features
from evenreel.features.word_changes import WordChanges, with_changed_words
from evenreel.matchers.scoring import matcher_scores
from evenreel.training import RecipeError, load_recipe, recipe_text
from evenreel.training.batches import FeatureExamples, TrainingInputs
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import load_material
from evenreel.training.recipe import Recipe
from evenreel.types import Corpus, Scores, VideoFeatures
from tests.training.small_material import small_recipe
from tests.training.small_signs import SIGNS, signs_of

CHANGES = {"ratio": 0.5, "char_errors": 0.3, "seed": 4}
SAID = "50 % of the on-screen words with 30 % of their characters misread (seed 4)"


class Place(NamedTuple):
    """A corpus with words on screen, and its features."""

    corpus: Path
    features: Path

    def recipe(self, words: dict[str, Any] | None, **changes: Any) -> Recipe:
        data = {"corpus": str(self.corpus), "features": str(self.features), "words": words}
        settings = {"adapter": {"kind": "linear", "windows": True}, "loop": {"batch_size": 4, "epochs": 1}}
        return small_recipe(data=data | changes.pop("data", {}), **(settings | changes))

    def part(self, split: str) -> Corpus:
        """Without the clip that is no video."""
        return select(load_corpus(self.corpus), split=split)

    def stored(self, split: str) -> VideoFeatures:
        return find_clips(self.features, self.part(split)).load()[0]

    def changed(self, split: str, changes: WordChanges) -> VideoFeatures:
        """By hand, with sentences that were encoded by the command that is tested."""
        found = find_clips(self.features, self.part(split))

        def encoder() -> Any:
            raise AssertionError("all sentences are kept")

        return with_changed_words(found, found.load()[0], changes, encoder)


@pytest.fixture(scope="module")
def place(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("words")
    corpus = root / "corpus"
    corpus.mkdir()
    for file in corpus_folder.iterdir():
        (corpus / file.name).symlink_to(file)
    save_texts(SIGNS, corpus)
    return Place(corpus, signs_of(corpus, clip_folder, root / "features"))


def videos_of(loaded: TrainingInputs) -> tuple[VideoFeatures, VideoFeatures]:
    """Of the clips to learn from and of those to select on."""
    learned, selected = loaded.examples, loaded.validation
    assert isinstance(learned, FeatureExamples) and isinstance(selected, FeatureExamples)
    return learned.video_features, selected.video_features


def check_windows(found: VideoFeatures, expected: VideoFeatures) -> None:
    np.testing.assert_array_equal(found.frames, expected.frames)
    assert found.on_screen is not None and expected.on_screen is not None
    for name in ("windows", "mask", "confidence"):
        np.testing.assert_array_equal(getattr(found.on_screen, name), getattr(expected.on_screen, name), name)


# What is learned from ------------------------------------------------------------------------------------------------


def test_both_parts_are_changed_and_sentences_are_encoded_once(place: Place) -> None:
    shares: list[float] = []
    learned, selected = videos_of(load_material(place.recipe(CHANGES), shares.append))
    assert shares and shares[-1] == 1.0
    for videos, split in ((learned, "train"), (selected, "val")):
        check_windows(videos, place.changed(split, WordChanges(**CHANGES)))
        assert not np.array_equal(videos.on_screen.windows, place.stored(split).on_screen.windows)  # type: ignore[arg-type]
    again: list[float] = []
    load_material(place.recipe(CHANGES), again.append)
    assert not again


def test_what_is_learned_from_is_spared_where_the_recipe_says_so(place: Place) -> None:
    words = {"ratio": 0.0, "splits": "evaluated"}
    learned, selected = videos_of(load_material(place.recipe(words)))
    check_windows(learned, place.stored("train"))
    assert selected.on_screen is not None and not selected.on_screen.mask.any()
    told = {**words, "empty": "caption"}
    for videos in videos_of(load_material(place.recipe(told))):
        assert videos.on_screen is not None and videos.on_screen.mask.all()


def test_a_table_that_changes_nothing_is_none(place: Place) -> None:
    plain, none = (load_material(place.recipe(words)) for words in (None, {}))
    check_windows(videos_of(none)[0], videos_of(plain)[0])
    assert none.source == plain.source
    assert "words_changed" not in plain.source


def test_a_run_goes_on_with_words_changed_as_they_were(place: Place, tmp_path: Path) -> None:
    """The recipe says it, and so does what the run remembers of its data."""
    recipe, outside = place.recipe(CHANGES), RunHooks(measure=lambda scores: {"R@1": 1.0})
    material = load_material(recipe)
    train(recipe, material, tmp_path / "run", outside)
    other = load_material(place.recipe({**CHANGES, "seed": 5}))
    assert material.source["words_changed"] != other.source["words_changed"]
    resumed = replace(outside, resume=True)
    with pytest.raises(CorpusError, match="begun with other data: words_changed was"):
        train(recipe, other, tmp_path / "run", resumed)
    with pytest.raises(RecipeError, match="data.words"):
        train(place.recipe({**CHANGES, "seed": 5}), other, tmp_path / "run", resumed)


# What is refused -----------------------------------------------------------------------------------------------------


def test_one_setting_is_set_on_the_command_line(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(place.recipe(None)))
    recipe = load_recipe(path, ["data.words.ratio=0.4", "data.words.unit=window"])
    assert recipe.data.words == WordChanges(0.4, "window")
    with pytest.raises(RecipeError, match="data.words: The setting ratio of changed words is 2.0"):
        load_recipe(path, ["data.words.ratio=2"])
    with pytest.raises(RecipeError, match=r"a backbone reads those of data.on_screen alone: give that too"):
        load_recipe(path, ["data.words={}", "data.features=null", "backbone.model=builtin", "adapter=null"])


def test_a_matcher_that_reads_no_words(place: Place) -> None:
    with pytest.raises(RecipeError, match=r"data.words changes on-screen words, and the matcher mean_pool reads none"):
        load_material(place.recipe(CHANGES, adapter={"kind": "linear", "windows": False}))


# What is scored ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that was trained on changed words."""
    root = tmp_path_factory.mktemp("run")
    (root / "recipe.yaml").write_text(recipe_text(place.recipe(CHANGES)))
    done = CliRunner().invoke(app, ["train", str(root / "recipe.yaml"), "--out", str(root / "run")])
    assert done.exit_code == 3, done.output  # of the clip that is no video
    return root / "run" / "checkpoint"


def score(place: Place, matcher: Path | str, out: Path, *options: str) -> Result:
    words = ["score", str(matcher), str(place.corpus), "--features", str(place.features), "--split", "val"]
    return CliRunner().invoke(app, [*words, *options, "--out", str(out)])


def read(place: Place, path: Path) -> Scores:
    scores = load_scores(path, place.part("val"))
    assert isinstance(scores, Scores)
    return scores


def expected(place: Place, run: Path, changes: WordChanges) -> np.ndarray[Any, Any]:
    texts = load_text_features(place.features, place.part("val"))
    return matcher_scores(load_matcher(run).matcher, texts, place.changed("val", changes)).score_all().values


def test_a_checkpoint_says_what_was_done_and_is_scored_with_it(place: Place, run: Path, tmp_path: Path) -> None:
    pretrained = load_matcher(run)
    assert pretrained.about.inputs.word_changes == WordChanges(**CHANGES)
    assert {metric.uses for metric in pretrained.about.metrics} == {(SAID,)}
    assert f"It was trained and is scored with {SAID}." in (run / "README.md").read_text()
    done = score(place, run, tmp_path / "s.npz", "--json")
    assert json.loads(done.stdout)["notices"] == [f"scored with {SAID}"]
    scores = read(place, tmp_path / "s.npz")
    assert scores.about.uses == (SAID,)
    np.testing.assert_array_equal(scores.values, expected(place, run, WordChanges(**CHANGES)))
    assert load_features_for(pretrained, place.features, place.part("val")).uses == (SAID,)
    told = CliRunner().invoke(
        app, ["evaluate", str(tmp_path / "s.npz"), "--corpus", str(place.corpus), "--split", "val", "--resamples", "0"]
    )
    assert f"These scores use {SAID}" in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    ("options", "changes", "notices"),
    [
        (["--ocr-ratio", "1", "--char-errors", "0"], WordChanges(seed=4), [f"the matcher was made for {SAID}"]),
        (
            ["--ocr-ratio", "0.2", "--words-seed", "0", "--words-unit", "clip", "--char-errors", "0"],
            WordChanges(0.2, "clip"),
            ["scored with on-screen words of 20 % of clips (seed 0)", f"the matcher was made for {SAID}"],
        ),
        (["--char-errors", "1"], WordChanges(0.5, char_errors=1.0, seed=4), None),
    ],
)
def test_probes_take_the_place_of_what_was_done_in_training(
    place: Place, run: Path, tmp_path: Path, options: list[str], changes: WordChanges, notices: list[str] | None
) -> None:
    done = score(place, run, tmp_path / "s.npz", "--json", *options)
    assert done.exit_code == 0, done.output
    assert notices in (None, json.loads(done.stdout)["notices"])
    scores = read(place, tmp_path / "s.npz")
    assert scores.about.uses == changes.uses
    np.testing.assert_array_equal(scores.values, expected(place, run, changes))


def test_a_file_that_cannot_say_it_and_a_matcher_that_reads_nothing(place: Place, run: Path, tmp_path: Path) -> None:
    done = score(place, run, tmp_path / "s.npy")
    assert f"An .npy cannot say that scores are with {SAID}; let --out end in .npz." in str(done.exception)
    for matcher, options, sentence in (
        ("mean_pool", ["--char-errors", "0.1"], "The matcher reads no words on screen, so there are none to change"),
        (run, ["--words-unit", "letter"], "--words-unit is 'letter'; it must be word, window or clip."),
        (run, ["--ocr-ratio", "1", "--char-errors", "0", "--words-seed", "3"], "--words-seed and --words-unit say"),
    ):
        refused = score(place, matcher, tmp_path / "s.npz", *options)
        assert isinstance(refused.exception, UsageError) and sentence in str(refused.exception)
    assert score(place, "mean_pool", tmp_path / "s.npz", "--char-errors", "1.1").exit_code == 2
