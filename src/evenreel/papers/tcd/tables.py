"""The studies of TCD (Zhao et al., AAAI 2026), and the rows of its tables: one switch or number changed, or words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from evenreel.errors import UsageError
from evenreel.papers.study import (
    COUNTS,
    TEXT,
    TEXT_PICTURES,
    TEXT_TRAINING,
    Changes,
    Study,
    StudySettings,
    Table,
    Variant,
    Variants,
    changed,
    from_the_start,
    named,
    trained_study,
    with_room,
)

if TYPE_CHECKING:
    from evenreel.papers.workspace import CorpusPart, Workspace
    from evenreel.training.recipe import Recipe

WHOLE = "tcd"
BASES = ("mean_pool", "x_clip", "x_pool", "t_mass")
"""CLIP4Clip, X-CLIP, X-Pool and T-MASS, those of table 1 that are here."""
WINDOWS = "{} + windows"
WORDLESS, SAID, CERTAIN = "no words", "no words, said so", "{}, by confidence"
NO_CTCD, NO_ATTENTION, NO_HSC = {"fusion": "cross_attention"}, {"co_attention": False}, {"lambda_hsc": 0.0}
NO_WORDS, SAYS_SO = {"words": {"ratio": 0.0}}, {"words": {"ratio": 0.0, "empty": "caption"}}
MODULES: dict[str, Changes] = {
    "baseline": NO_CTCD | NO_ATTENTION | NO_HSC,
    "no co-attention, no calibration": NO_ATTENTION | NO_HSC,
    "no calibration": NO_HSC,
    "no co-attention": NO_ATTENTION,
    WHOLE: {},
}
"""Table 2: the baseline has none of the three."""
RATIOS = {f"{100 * ratio:g} % of the words": ratio for ratio in (0.1, 0.2, 0.4, 0.8)}
"""Table 4, beside all words and none."""
WORDLESS_MODULES: dict[str, Changes] = {
    "co-attention": NO_ATTENTION,
    "calibration": NO_HSC,
    "clues": NO_CTCD,
    "text condition": {"text_condition": False},
}
FUSIONS = ("addition", "product", "concat", "cross_attention", "video_clue")
"""Table 6 but its last row, which is the whole."""
SUBSETS = (("video",), ("ocr",), ("hybrid",), ("video", "ocr"), ("ocr", "hybrid"), ("video", "hybrid"))
"""Table 7 but its last row."""
LAMBDAS = {
    weight: WHOLE if weight == 0.1 else f"lambda_hsc {weight:g}" for weight in (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
}
"""Table 9."""
MODALITIES = {"ocr alone": "ocr", "video alone": "video", WHOLE: "both"}
READINGS: dict[str, Changes] = {
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
WRONG: dict[str, Changes] = {
    f"{100 * rate:g} % wrong in {where}": {"words": {"char_errors": rate, "splits": splits}}
    for rate in (0.1, 0.3)
    for where, splits in (("test", "evaluated"), ("both", "all"))
}


def tcd_of(material: Workspace, settings: StudySettings, *, rewords: bool = False) -> Recipe:
    """Return the study's recipe of tcd, with every setting written out and room for the longest clip.

    `rewords`: whether rows change words on screen, which the parts then have to know.
    """
    from evenreel.matchers.tcd import TcdSettings

    recipe = from_the_start(settings.recipe, material)
    if recipe.matcher.name != WHOLE:
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
    own: dict[str, Any] = asdict(TcdSettings(**recipe.matcher.settings))
    own["max_frames"] = max(own["max_frames"], material.longest("frames"), material.longest("windows"))
    return changed(replace(recipe, trim=None, members=None), own)


def check_text(part: CorpusPart, split: str) -> None:
    """Refuse, before anything is trained, a corpus without on-screen text."""
    if part.videos.on_screen is None:
        raise UsageError(
            "This study is about on-screen text, and the features have none; give it features that were computed "
            "without --no-ocr (`evenreel features`)."
        )
    if not part.videos.on_screen.mask.any():
        raise UsageError(
            f"This study is about on-screen text, and no clip of the {split} split shows any; give it a corpus whose "
            "clips have words in them."
        )


def reworded(material: Workspace, settings: StudySettings) -> Recipe:
    """Return the recipe whose rows change words on screen."""
    return tcd_of(material, settings, rewords=True)


def calibrated(material: Workspace, settings: StudySettings) -> Recipe:
    """Return the recipe of a table of weights of calibration."""
    recipe = tcd_of(material, settings)
    learns = recipe.backbone is not None and recipe.backbone.train
    if recipe.adapter is None and not learns:
        raise UsageError(
            "Calibration moves features, and these stay as they are without an adapter: all weights of it would give "
            "one matcher; leave --set adapter=null out."
        )
    return recipe


def with_windows(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of table 1: other matchers with and without windows of text among the frames, and TCD."""
    from evenreel.matchers.adapter import AdapterSettings

    recipe = tcd_of(material, settings)
    among = replace(recipe.adapter or AdapterSettings("none", windows=True), windows=True)
    kinds: Variants = {}
    for name in BASES:
        base = with_room(recipe, name, material, windows=True)
        kinds[name] = Variant(base)
        kinds[WINDOWS.format(name)] = Variant(replace(base, adapter=among), name)
    return kinds | {WHOLE: Variant(recipe, WINDOWS.format(BASES[-1]))}


def as_printed(material: Workspace, settings: StudySettings) -> Variants:
    """Return rows with formulas as they are printed, one by one and together; not in the paper."""
    from evenreel.matchers.tcd import PRINTED

    said = {"words": {"empty": "caption"}}
    rows = {WHOLE: {}, **READINGS, "empty windows say so": said, "all as printed": {**PRINTED, **said}}
    return Table((), reworded, rows).variants(material, settings)


def _conditioned() -> tuple[Mapping[str, Changes], Mapping[str, str | None]]:
    """The rows of table 10: text, frames and both, each weighed by the caption or not; and what each is beside."""
    rows: dict[str, Changes] = {}
    against: dict[str, str | None] = {}
    for name, modality in MODALITIES.items():
        blind = f"{name}, unconditioned"
        rows |= {blind: {"modalities": modality, "text_condition": False}, name: {"modalities": modality}}
        against |= {blind: None, name: blind}
    return rows, against


MEANS, RECALLS = ("R@1", "R@5", "R@10", "MeanR"), ("R@1", "R@5", "R@10")
ONE_WAY, BOTH_WAYS = named(MEANS, "T2V"), named(MEANS, "T2V", "V2T")
RECALL, RECALL_BOTH, RSUM = named(RECALLS, "T2V"), named(RECALLS, "T2V", "V2T"), "Rsum both ways"
KEPT, EMPTY = "Words that are kept", "Windows without text"
CONDITIONED, BLIND = _conditioned()
FULL: Changes = {}
BY_CONFIDENCE = {CERTAIN.format(name): {**own, "confidence": True} for name, own in {WHOLE: FULL, **WRONG}.items()}


def _trained(name: str, make: str | Table, frozen: str = "") -> Study:
    return trained_study(f"tcd/{name}", make, TEXT_TRAINING, "tcd/tcd.yaml", frozen=frozen)


TCD: tuple[Study, ...] = (
    _trained("t1", Table(
        named(("R@1", "R@5", "R@10", "MedR", "MeanR"), "T2V"), rows=with_windows, lead=WHOLE,
        notes=("Windows among frames",),
    )),
    _trained("t2", Table(BOTH_WAYS, tcd_of, MODULES, lead=WHOLE, notes=("Modules", "Table 2 in the paper"))),
    _trained("t3", Table(
        ONE_WAY, reworded, {WHOLE: {}, WORDLESS: NO_WORDS, SAID: SAYS_SO}, lead=WORDLESS, notes=(KEPT, EMPTY)
    )),
    _trained("t4", Table(
        RECALL, reworded,
        {WHOLE: {}, WORDLESS: NO_WORDS, **{name: {"words": {"ratio": own}} for name, own in RATIOS.items()}},
        lead=WORDLESS, notes=(KEPT, EMPTY, "Table 4 in the paper"), drawn=RECALL,
        sweeps={"share of the words": {0.0: WORDLESS, **{own: name for name, own in RATIOS.items()}, 1.0: WHOLE}},
    )),
    _trained("t5", Table(
        RECALL, reworded,
        {SAID: SAYS_SO, **{f"{SAID}, no {name}": {**SAYS_SO, **own} for name, own in WORDLESS_MODULES.items()}},
        lead=f"{SAID}, no text condition", notes=(EMPTY, "Table 5 in the paper"),
    )),
    _trained("t6", Table(
        RECALL_BOTH, tcd_of, {WHOLE: {}, **{name.replace("_", " "): {"fusion": name} for name in FUSIONS}},
        lead="cross attention", notes=("Table 6 in the paper",),
    )),
    _trained("t7", Table(
        ONE_WAY, tcd_of, {WHOLE: {}, **{f"match {' + '.join(parts)}": {"matches": parts} for parts in SUBSETS}},
        lead="match hybrid", notes=("Table 7 in the paper",),
    )),
    _trained("t8", "tcd.figures:reading_costs", frozen=COUNTS),
    _trained("t9", Table(
        (RSUM, *RECALL_BOTH), calibrated,
        {WHOLE: {"lambda_hsc": 0.1}, **{name: {"lambda_hsc": own} for own, name in LAMBDAS.items()}},
        notes=("Table 9 in the paper",), sweeps={"lambda_hsc": LAMBDAS}, drawn=(RSUM,),
    )),
    _trained("t10", Table(ONE_WAY, tcd_of, CONDITIONED, BLIND, lead=WHOLE, notes=("Table 10 in the paper",))),
    Study("tcd/f1", "tcd.figures:token_balance", TEXT),
    _trained("f3", Table(
        RECALL_BOTH, tcd_of, {"no calibration": NO_HSC, "contrastive": {"calibration": "contrastive"}, WHOLE: {}},
        lead=WHOLE,
    )),
    Study("tcd/f4", "tcd.figures:first_answers", TEXT_PICTURES, ("queries",)),
    _trained("readings", Table(
        RECALL_BOTH, rows=as_printed, lead="all as printed", notes=("Formulas as printed", EMPTY),
    )),
    _trained("noise", Table(
        RECALL, reworded, {WHOLE: {}, **WRONG, **BY_CONFIDENCE},
        {CERTAIN.format(name): name for name in (WHOLE, *WRONG)},
        lead="30 % wrong in both", notes=("Words read wrong", KEPT),
    )),
)  # fmt: skip
