"""Every shipped recipe can be read, says where it comes from, and fits the benchmark that it is for."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import polars as pl

from evenreel.debias.source import PRESETS
from evenreel.features.settings import DEFAULT_WINDOWS
from evenreel.matchers import MATCHERS, build_matcher
from evenreel.matchers.adapter import AdapterSettings
from evenreel.training.recipe import Recipe, find_recipe, load_recipe, shipped_recipes
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
PLAIN = [name for name in MATCHERS_TRAINED if name not in BIMA + READING]
"""Those of CLIP4Clip's and X-Pool's families."""

SIGNS = {"textvr", "vitevqa"}
DATASETS = set(BENCHMARKS) - {MIRRORED} - SIGNS
PUBLISHED = {
    "mean_pool": DATASETS | SIGNS,
    "temporal": DATASETS,
    "x_clip": DATASETS - {"msrvtt-7k"} | SIGNS,
    "wti": {"msrvtt-9k"},
    "x_pool": {"msrvtt-9k", "msrvtt-7k", "msvd", "lsmdc"} | SIGNS,
    "t_mass": {"msrvtt-9k", "lsmdc", "didemo"} | SIGNS,
    "tcd": {"msrvtt-9k"} | SIGNS,
    "bima": DATASETS - {"msrvtt-7k"},
}
"""Who published settings for what."""


@cache
def recipe(name: str) -> Recipe:
    return load_recipe(find_recipe(name))


def benchmark(name: str) -> str:
    return name.partition("/")[0]


def test_there_are_those_that_were_published() -> None:
    wanted = {f"{dataset}/{matcher}" for matcher, datasets in PUBLISHED.items() for dataset in datasets}
    assert set(MATCHERS_TRAINED) == wanted
    assert PUBLISHED.keys() == MATCHERS.keys() - {"hgr"}  # its recipes are about the lengths of clips


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


@of_each(PLAIN)
def test_longer_benchmarks_have_longer_inputs(name: str) -> None:
    """CLIP4Clip and X-CLIP read 64 words and frames of paragraphs, 12 frames and 32 words of sentences."""
    shipped = recipe(name)
    assert shipped.backbone is not None
    if shipped.schedule.form == "bert_adam":
        long = name.startswith(("activitynet", "didemo"))
        assert (shipped.backbone.rule, shipped.backbone.max_words) == (
            ("clip4clip 64", 64) if long else ("clip4clip 12", 32)
        )
    else:
        assert (shipped.backbone.rule, shipped.backbone.max_words) == ("x_pool 12", 77)


@of_each(PLAIN)
def test_its_rates_are_the_published_ones(name: str) -> None:
    """CLIP4Clip's family: 1e-4 and a thousandth of it for CLIP; X-Pool's: 1e-6 for CLIP, 3e-5 or 1e-5 for the rest."""
    optimiser = recipe(name).optimiser
    bert = recipe(name).schedule.form == "bert_adam"
    assert optimiser.lr == (1e-4 if bert else 3e-5 if name.startswith("msrvtt-9k") else 1e-5)
    assert optimiser.backbone_lr == (1e-7 if bert else 1e-6)
    assert optimiser.logit_scale_lr == optimiser.backbone_lr  # it is a parameter of CLIP
    assert optimiser.weight_decay == 0.2
    assert optimiser.exempt == (("*bias",) if bert else ())


@of_each([("msrvtt-9k", 32, 5), ("msvd", 32, 5), ("lsmdc", 32, 5), ("activitynet", 64, 20), ("didemo", 64, 10)])
def test_bima_has_the_numbers_of_its_paper(name: str, tokens: int, epochs: int) -> None:
    """Section 4.1: CLIP ViT-B/32, N_t and N_f, batch, epochs, kappa and the weights of the losses."""
    shipped = recipe(f"{name}/bima")
    backbone, settings = shipped.backbone, shipped.matcher.settings
    assert backbone is not None
    assert (backbone.model, backbone.rule, backbone.max_words) == (
        "openai/clip-vit-base-patch32",
        f"clip4clip {tokens}",
        tokens,
    )
    assert (shipped.loop.batch_size, shipped.loop.epochs) == (128, epochs)
    assert (settings["kappa"], settings["lambda_cap"], settings["lambda_rec"]) == (20, 0.3, 0.5)
    assert settings["lambda_kl"] == 1e-4
    assert shipped.data.pretrained_features is not None
    assert settings["elements"] == f"elements/{BENCHMARKS[name][0]}"


@of_each([name for name in READING if name.endswith("/tcd")])
def test_tcd_has_the_numbers_of_its_paper(name: str) -> None:
    """Its implementation details: CLIP ViT-B/32, 12 frames, Adam, batch, epochs, rate, schedule and lambda."""
    shipped = recipe(name)
    backbone, loop, optimiser = shipped.backbone, shipped.loop, shipped.optimiser
    assert backbone is not None
    assert (backbone.model, backbone.rule) == ("openai/clip-vit-base-patch32", "12 midpoints")
    assert (loop.batch_size, loop.epochs) == (42, 30)
    assert (optimiser.lr, optimiser.betas, optimiser.eps, optimiser.weight_decay) == (1e-4, (0.9, 0.999), 1e-8, 0)
    assert (shipped.schedule.form, shipped.schedule.warmup > 0) == ("cosine", True)
    assert shipped.matcher.settings["lambda_hsc"] == (0.05 if name.startswith("msrvtt") else 0.1)
    assert shipped.adapter is None


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
def test_words_on_screen_are_those_of_the_command_in_the_folder(name: str) -> None:
    shipped = recipe(name)
    beside = [find_recipe(one).read_text(encoding="utf-8") for one in (name, f"{benchmark(name)}/mean_pool")]
    command = next(filter(None, (re.search(r"^# +(evenreel features .+) \\\n# +(.+)$", one, re.M) for one in beside)))
    words = shlex.split(" ".join(command.groups()))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert (words[2], options["--videos"], options["--out"]) == (
        shipped.data.corpus,
        shipped.data.videos,
        shipped.data.on_screen,
    )
    assert shipped.backbone is not None
    assert (options["--model"], options["--rule"]) == (shipped.backbone.model, shipped.backbone.rule)
    assert options.get("--words") == ("corpus" if benchmark(name) in SIGNS else None)


COMMANDS = {
    name: found[0]
    for name, path in shipped_recipes().items()
    if (found := re.findall(r"^# +(evenreel features .+) \\\n# +(.+)$", path.read_text("utf-8"), re.MULTILINE))
}
"""The command beside a recipe that makes its features."""


@of_each(COMMANDS)
def test_the_command_beside_a_recipe_makes_the_features_that_it_reads(name: str) -> None:
    data, backbone, words = recipe(name).data, recipe(name).backbone, shlex.split(" ".join(COMMANDS[name]))
    options = dict(zip(*[iter(one for one in words[3:] if one != "--no-ocr")] * 2, strict=True))
    made = data.pretrained_features if "--no-ocr" in words else data.on_screen
    assert (words[2], options["--videos"], options["--out"]) == (data.corpus, data.videos, made)
    assert backbone is not None
    assert (options["--model"], options["--rule"]) == (backbone.model, backbone.rule)
    assert options.get("--words") == ("corpus" if benchmark(name) in SIGNS else None)


@of_each(["debias-release", "debias-paper", "debias-neutral", "mixed-20"])
def test_those_about_generated_clips_have_the_published_numbers(name: str) -> None:
    """The published code: 3 times 15 pairs, 12 frames, 77 words, 1e-3 and 4e-3 times that for the towers, 5 epochs."""
    shipped = recipe(f"{MIRRORED}/{name}")
    backbone, optimiser, loop = shipped.backbone, shipped.optimiser, shipped.loop
    assert backbone is not None
    assert (shipped.matcher.name, backbone.model) == ("mean_pool", "openai/clip-vit-large-patch14")
    assert (backbone.rule, backbone.max_words, loop.batch_size, loop.epochs) == ("clip4clip 12", 77, 45, 5)
    assert (optimiser.lr, optimiser.backbone_lr, optimiser.logit_scale_lr) == (1e-3, 4e-6, 4e-6)
    preset = name.partition("debias-")[2]
    assert shipped.debias == (PRESETS[preset] if preset else None)
    assert shipped.data.generated_share == (0 if preset else 0.2)


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


def test_the_miniatures_have_the_splits_of_the_real_ones(miniatures: Miniatures) -> None:
    for name, corpus in miniatures.corpora.items():
        expected = {"train", "val"} if name == "activitynet" else {"train", "val", "test"}
        without = name.startswith(("msrvtt", "textvr", MIRRORED))
        assert set(corpus.clips["split"]) == expected - ({"val"} if without else set())
        assert corpus.captions.filter(pl.col("text") == "").is_empty()
