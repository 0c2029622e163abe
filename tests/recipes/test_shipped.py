"""Every shipped recipe can be read, says where it comes from, and fits the benchmark that it is for."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import polars as pl

from evenreel.features.settings import DEFAULT_WINDOWS
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import AdapterSettings
from evenreel.training.recipe.files import find_recipe, load_recipe, recipe_from, shipped_recipes
from evenreel.training.recipe.recipe import Recipe
from tests.each import check_each, of_each

from .conftest import Miniatures
from .tiny_benchmarks import BENCHMARKS, MIRRORED

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPES = list(shipped_recipes())
TOWERS = [name for name in RECIPES if not name.startswith(("length/", "video2gif/"))]
"""Recipes that train towers on a benchmark; the others are of frame-length bias, on features that others computed
(test_length.py), and of a pair of benchmarks (test_video2gif.py)."""

MATCHERS_TRAINED = [name for name in TOWERS if not name.startswith(MIRRORED)]
"""Recipes of matchers; the others are of what is done about a preference for generated clips."""

BIMA = [name for name in TOWERS if name.endswith("/bima")]
"""Those that ask for features too; making these takes seconds, so one of them is run to its first step."""
READING = [name for name in MATCHERS_TRAINED if name.startswith(("textvr/", "vitevqa/")) or name.endswith("/tcd")]
"""Those of TCD's tables, which read what is written on screen."""
SIGNS = {"textvr", "vitevqa"}


@cache
def recipe(name: str) -> Recipe:
    return load_recipe(find_recipe(name))


def benchmark(name: str) -> str:
    return name.partition("/")[0]


@of_each(RECIPES)
def test_it_is_called_as_its_file(name: str) -> None:
    assert recipe(name).name == name
    assert recipe(name).matcher.name == Path(name).name or name not in MATCHERS_TRAINED


@of_each(RECIPES)
def test_it_says_its_source_and_what_differs(name: str) -> None:
    about = recipe(name).about
    assert about.startswith("Source: ")
    assert "arXiv" in about
    assert "What differs here: " in about
    assert "is kept." in about  # what the model is selected on


@of_each(TOWERS)
def test_nothing_is_selected_on_the_test_split(name: str, miniatures: Miniatures) -> None:
    data = recipe(name).data
    tested = "val" if name.startswith("activitynet") else "test"
    assert data.train == "train"
    assert data.validation != tested
    assert (data.validation is None) == (data.held_out > 0)
    splits = set(miniatures.corpora[benchmark(name)].clips["split"])
    assert {data.train, *([data.validation] if data.validation else [])} <= splits - {tested}


@of_each(TOWERS)
def test_its_corpus_is_that_of_the_import(name: str) -> None:
    paired = "-paired" if benchmark(name) == MIRRORED else ""
    assert recipe(name).data.corpus == f"corpora/{BENCHMARKS[benchmark(name)][0]}{paired}"


@of_each(TOWERS)
def test_the_matcher_holds_what_the_backbone_gives(name: str) -> None:
    """No clip has more frames, and no caption more words, than the matcher has room for."""
    shipped = recipe(name)
    assert shipped.backbone is not None
    frames, words = shipped.backbone.rule.split(), shipped.backbone.max_words
    frames = next(int(word) for word in frames if word.isdecimal())
    if shipped.adapter is not None and shipped.adapter.windows:
        frames += DEFAULT_WINDOWS
    settings = shipped.matcher.settings
    assert settings.get("max_frames", frames) == frames
    assert settings.get("max_words", words) == words
    build_matcher(shipped.matcher.name, 512, settings)


@of_each([name for name in READING if not name.endswith("/tcd")])
def test_what_reads_differs_from_what_does_not_in_that_alone(name: str) -> None:
    """Table 1 of TCD: the same matchers with the words on screen among the frames."""
    reads, base = recipe(name), recipe(f"msrvtt-9k/{Path(name).name}")
    assert reads.adapter == AdapterSettings("none", windows=True)
    assert (reads.optimiser, reads.schedule, reads.loop, reads.selection) == (
        base.optimiser,
        base.schedule,
        base.loop,
        base.selection,
    )
    assert reads.backbone is not None and base.backbone is not None
    assert reads.backbone.augment == base.backbone.augment.replace("crop_and_flip", "crop"), "no mirrored words"
    alike = replace(reads.backbone, rule=base.backbone.rule, augment=base.backbone.augment)
    assert alike == base.backbone
    unread = load_recipe(find_recipe(name), ["adapter=null", "data.on_screen=null"])
    assert (unread.adapter, unread.data.on_screen) == (None, None), (
        "the upper half of the table, as docs/training.md says"
    )
    frames = {"max_frames": 24} if "max_frames" in base.matcher.settings else {}
    assert reads.matcher.settings == {**base.matcher.settings, **frames}


@of_each(READING)
def test_words_on_screen_are_those_of_the_command_beside_the_recipe(name: str) -> None:
    shipped = recipe(name)
    text = find_recipe(name).read_text(encoding="utf-8")
    (command,) = re.findall(r"^# +(evenreel features .+) \\\n# +(.+)$", text, re.MULTILINE)
    words = shlex.split(" ".join(command))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert (words[2], options["--videos"], options["--out"]) == (
        shipped.data.corpus,
        shipped.data.videos,
        shipped.data.on_screen,
    )
    assert shipped.backbone is not None
    assert (options["--model"], options["--rule"]) == (shipped.backbone.model, shipped.backbone.rule)
    assert options.get("--words") == ("corpus" if benchmark(name) in SIGNS else None)


def test_every_training_that_the_pages_name_is_a_recipe() -> None:
    """`evenreel train NAME --set ...` in docs and README: the settings are there, and each changes something."""
    pages = [*(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8").replace("\\\n", " ") for page in pages)
    commands = set(re.findall(r"evenreel train ([a-z0-9-]+/[a-z0-9_/-]+[^`\n|#]*)", text))
    assert len(commands) > 30

    def check(command: str) -> None:
        name, *words = shlex.split(command)
        changes = [word for option, word in pairwise(words) if option == "--set" and "=" in word]
        if name in shipped_recipes():
            plain, changed = load_recipe(find_recipe(name)), load_recipe(find_recipe(name), changes)
            assert plain != changed or all(word.startswith("data.") for word in changes)  # folders may be those there

    check_each(sorted(commands), check)


def test_a_recipe_reads_the_same_as_plain_values() -> None:
    import yaml

    for path in shipped_recipes().values():
        assert recipe_from(yaml.safe_load(path.read_text(encoding="utf-8"))) == load_recipe(path)


def test_the_miniatures_have_the_splits_of_the_real_ones(miniatures: Miniatures) -> None:
    for name, corpus in miniatures.corpora.items():
        expected = {"train", "val"} if name == "activitynet" else {"train", "val", "test"}
        without = name.startswith(("msrvtt", "textvr", MIRRORED))
        assert set(corpus.clips["split"]) == expected - ({"val"} if without else set())
        assert corpus.captions.filter(pl.col("text") == "").is_empty()
