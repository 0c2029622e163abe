"""The rows of TCD's tables (Zhao et al., AAAI 2026): one switch or number of a training changed, or words on screen."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from evenreel.errors import UsageError
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.tcd.settings import PRINTED, TcdSettings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.variants import Variant, Variants, beside, changed, from_the_start, longest, with_room
from evenreel.training.recipe import Recipe

TCD = "tcd"
BASES = ("mean_pool", "x_clip", "x_pool", "t_mass")
"""CLIP4Clip, X-CLIP, X-Pool and T-MASS, those of table 1 that are here."""
WINDOWS = "{} + windows"
UNCALIBRATED, CONTRASTIVE = "no calibration", "contrastive"
NO_CTCD, NO_ATTENTION, NO_HSC = {"fusion": "cross_attention"}, {"co_attention": False}, {"lambda_hsc": 0.0}
MODULES: dict[str, dict[str, Any]] = {
    "no co-attention, no calibration": NO_ATTENTION | NO_HSC,
    UNCALIBRATED: NO_HSC,
    "no co-attention": NO_ATTENTION,
    TCD: {},
}
"""Rows 2 to 5 of table 2; row 1, the baseline, has none of the three."""
WORDLESS, SAID = "no words", "no words, said so"
RATIOS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Table 4."""
FUSIONS = ("addition", "product", "concat", "cross_attention", "video_clue")
"""Table 6 but its last row, which is the whole."""
SUBSETS = (("video",), ("ocr",), ("hybrid",), ("video", "ocr"), ("ocr", "hybrid"), ("video", "hybrid"))
"""Table 7 but its last row."""
LAMBDAS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Table 9."""
ERROR_RATES = (0.1, 0.3)
CERTAIN = "{}, by confidence"
READINGS: dict[str, dict[str, Any]] = {
    "weights add up to 1": {"preserve_mean": False},
    "tau 5": {"tau": 5.0},
    "attention without norm": {"attention_norm": False},
    "co-attention with residual": {"co_residual": True},
    "clues without residual": {"residual": False},
    "clues alone": {"intra": "none"},
    "keys of both": {"intra": "keys"},
    "cycle as printed": {"cycle": "printed"},
    "cycle by distance": {"cycle": "squared_distance"},
}
EMPTY_SAID, ALL_PRINTED = "empty windows say so", "all as printed"


def with_windows(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 1 of TCD: other matchers with and without windows of on-screen text, and TCD."""
    recipe = tcd_of(material, settings)
    kinds: Variants = {}
    for name in BASES:
        kinds[name] = Variant(replace(recipe, matcher=with_room(name, material, windows=True)))
        kinds[WINDOWS.format(name)] = Variant(among_frames(kinds[name].recipe), name)
    return kinds | {TCD: Variant(recipe, WINDOWS.format(BASES[-1]))}


def among_frames(recipe: Recipe) -> Recipe:
    """Return the recipe with on-screen windows among the frames, for matchers that know nothing of windows."""
    if recipe.adapter is None:
        return replace(recipe, adapter=AdapterSettings("none", windows=True))
    return replace(recipe, adapter=replace(recipe.adapter, windows=True))


def modules(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 2 of TCD: TCD with and without clues, co-attention and calibration."""
    recipe = tcd_of(material, settings)
    none = changed(recipe, NO_CTCD | NO_ATTENTION | NO_HSC)
    return beside(none, {name: changed(recipe, switches) for name, switches in MODULES.items()})


def without_words(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 3 of TCD: TCD with and without on-screen words."""
    recipe = tcd_of(material, settings, rewords=True)
    return beside(recipe, {WORDLESS: worded(recipe, ratio=0.0), SAID: worded(recipe, ratio=0.0, empty="caption")}, TCD)


def word_ratios(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 4 of TCD: TCD with a share of the on-screen words."""
    recipe = tcd_of(material, settings, rewords=True)
    return beside(recipe, {ratio_row(ratio): worded(recipe, ratio=ratio) for ratio in RATIOS}, TCD)


def ratio_row(ratio: float) -> str:
    """Name the row of a share of the on-screen words.

    >>> ratio_row(0.0), ratio_row(0.4), ratio_row(1.0)
    ('no words', '40 % of the words', 'tcd')
    """
    return {0.0: WORDLESS, 1.0: TCD}.get(ratio, f"{100 * ratio:g} % of the words")


def wordless_modules(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 5 of TCD: parts of TCD left out where no window has words."""
    recipe = worded(tcd_of(material, settings, rewords=True), ratio=0.0, empty="caption")
    rows: dict[str, dict[str, Any]] = {
        "co-attention": NO_ATTENTION,
        "calibration": NO_HSC,
        "clues": NO_CTCD,
        "text condition": {"text_condition": False},
    }
    return {SAID: Variant(recipe)} | {
        f"{SAID}, no {name}": Variant(changed(recipe, own), SAID) for name, own in rows.items()
    }


def fusions(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 6 of TCD: ways to make one vector of frames and windows."""
    recipe = tcd_of(material, settings)
    return beside(recipe, {name.replace("_", " "): changed(recipe, {"fusion": name}) for name in FUSIONS}, TCD)


def match_subsets(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 7 of TCD: what a caption is compared with."""
    recipe = tcd_of(material, settings)
    return beside(recipe, {f"match {' + '.join(parts)}": changed(recipe, {"matches": parts}) for parts in SUBSETS}, TCD)


def calibration_weights(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 9 of TCD: the weight of calibration, with the paper's in the middle."""
    recipe = changed(tcd_of(material, settings), {"lambda_hsc": 0.1})
    learns = recipe.backbone is not None and recipe.backbone.train
    if recipe.adapter is None and not learns:
        raise UsageError(
            "Calibration moves features, and these stay as they are without an adapter: all weights of it would give "
            "one matcher; leave --set adapter=null out."
        )
    return beside(recipe, {weight_row(weight): changed(recipe, {"lambda_hsc": weight}) for weight in LAMBDAS}, TCD)


def weight_row(weight: float) -> str:
    """Name the row of a weight of calibration.

    >>> weight_row(0.1), weight_row(5.0)
    ('tcd', 'lambda_hsc 5')
    """
    return TCD if weight == 0.1 else f"lambda_hsc {weight:g}"


def conditions(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 10 of TCD: on-screen text, frames and both, each weighed by the caption or not."""
    recipe = tcd_of(material, settings)
    kinds: Variants = {}
    for modality, name in (("ocr", "ocr alone"), ("video", "video alone"), ("both", TCD)):
        row, blind = changed(recipe, {"modalities": modality}), f"{name}, unconditioned"
        kinds |= {blind: Variant(changed(row, {"text_condition": False})), name: Variant(row, blind)}
    return kinds


def calibrations(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of figure 3 of TCD: calibration by cycles, by pairs of the same moment, and none."""
    recipe = tcd_of(material, settings)
    rows = {CONTRASTIVE: changed(recipe, {"calibration": "contrastive"}), TCD: recipe}
    return {UNCALIBRATED: Variant(changed(recipe, NO_HSC))} | {
        name: Variant(row, UNCALIBRATED) for name, row in rows.items()
    }


def readings_of_the_paper(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return rows with formulas as they are printed, one by one and together; not in the paper."""
    recipe = tcd_of(material, settings, rewords=True)
    rows = {name: changed(recipe, own) for name, own in READINGS.items()}
    said = worded(recipe, empty="caption")
    return beside(recipe, rows | {EMPTY_SAID: said, ALL_PRINTED: changed(said, PRINTED)}, TCD)


def misread_words(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return rows with on-screen words that are read wrong, in test or everywhere; not in the paper."""
    recipe = tcd_of(material, settings, rewords=True)
    wrong = {
        f"{100 * rate:g} % wrong in {where}": worded(recipe, char_errors=rate, splits=splits)
        for rate in ERROR_RATES
        for where, splits in (("test", "evaluated"), ("both", "all"))
    }
    kinds = beside(recipe, wrong, TCD)
    weighed = {
        CERTAIN.format(name): Variant(changed(kind.recipe, {"confidence": True}), name) for name, kind in kinds.items()
    }
    return kinds | weighed


def worded(recipe: Recipe, **changes: Any) -> Recipe:
    """Return the recipe with further changes of the on-screen words that are read from the features.

    Args:
        recipe: recipe to change; its own changes of words stay where `changes` does not name them.
        changes: fields of `WordChanges` and their values. Where all together change no word, the recipe's `data.words`
            becomes None.
    """
    words = replace(recipe.data.words or WordChanges(), **changes)
    return replace(recipe, data=replace(recipe.data, words=None if words.changes_nothing else words))


def tcd_of(material: LearningInputs, settings: TrainingSettings, *, rewords: bool = False) -> Recipe:
    """Return the study's recipe of tcd, with every setting written out and room for the longest clip."""
    recipe = from_the_start(settings.recipe, material)
    if recipe.matcher.name != TCD:
        raise UsageError(f"This study is about the matcher tcd, and the recipe trains {recipe.matcher.name}.")
    if recipe.adapter is not None and recipe.adapter.windows:
        raise UsageError(
            "adapter.windows puts on-screen windows among the frames, and tcd reads them beside these; leave it out."
        )
    for split, part in zip(("training", "test"), material.learning(), strict=True):
        check_text(part, split)
        if rewords and part.on_screen is None:
            raise UsageError(f"This study changes words on screen; give it a {split} part that knows them (on_screen).")
    # every setting, so that rows that train alike say so alike and share their runs
    own = asdict(TcdSettings(**recipe.matcher.settings))
    own["max_frames"] = max(own["max_frames"], longest(material, "frames"), longest(material, "windows"))
    return changed(replace(recipe, trim=None, members=None), own)


def check_text(part: CorpusPart, split: str) -> None:
    """Refuse, before anything is trained, a corpus without on-screen text."""
    videos = part.videos
    if videos.on_screen is None:
        raise UsageError(
            "This study is about on-screen text, and the features have none; give it features that were computed "
            "without --no-ocr (`evenreel features`)."
        )
    if not videos.on_screen.mask.any():
        raise UsageError(
            f"This study is about on-screen text, and no clip of the {split} split shows any; give it a corpus whose "
            "clips have words in them."
        )
