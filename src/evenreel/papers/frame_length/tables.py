"""The studies of the paper on frame-length bias (arXiv 2309.09311), and the rows of its tables.

A recipe says how the base model is trained. What it has under `trim` and `members` is how trimming and the backdoor
adjustment are done in the rows that do them; the baseline has neither. Each training stands beside what it costs to
search with: a matcher of M members encodes every clip M times, and keeps as many galleries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from evenreel.errors import UsageError
from evenreel.papers.study import (
    BASELINE,
    COUNTS,
    LENGTH_RANKINGS,
    LENGTHS,
    TRAINING,
    MemberOf,
    RowsOf,
    Study,
    StudySettings,
    Table,
    Variant,
    Variants,
    rows_beside,
    trained_study,
    with_room,
)

if TYPE_CHECKING:
    from evenreel.papers.workspace import Workspace
    from evenreel.training.recipe import Members, Recipe

RMV_RAND, RMV_ALL, ENSEMBLE, BACKDOOR = "RmvRand", "RmvAll", "ensemble", "backdoor"
TUNED, STRATA, RANDOM, ALL_STEPS = "fine-tuned strata", "strata by length", "strata at random", ", all steps each"
MINED = {"RAN": "ran", "RANP": "ranp"}
"""How the paper calls a hinge that knows degrees of relevance, and the setting `mining`."""
_WAYS = ("V2T", "T2V", "AVG")
NDCG, MAP_EPIC, MAP = (tuple(f"{name} {way}" for way in _WAYS) for name in ("nDCG", "mAP-EPIC", "mAP"))
RANKS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")


# ways to train --------------------------------------------------------------------------------------------------------


def plain(recipe: Recipe) -> Recipe:
    return replace(recipe, trim=None, members=None)


def longer(recipe: Recipe, times: int) -> Recipe:
    """Return the recipe of the base model alone, trained for a multiple of its epochs or steps."""
    steps, epochs = (None if count is None else times * count for count in (recipe.loop.steps, recipe.loop.epochs))
    return plain(replace(recipe, loop=replace(recipe.loop, steps=steps, epochs=epochs)))


def longer_row(times: int) -> str:
    return f"{BASELINE}, {times} times as long"


def trimmed(recipe: Recipe, rule: Literal["all", "random"]) -> Recipe:
    """Return the recipe with training clips trimmed by RmvAll (`all`) or RmvRand (`random`).

    The recipe's own settings of trimming are kept; without any it is the preset near the published count.
    """
    from evenreel.training.recipe import Trim

    return replace(recipe, trim=replace(recipe.trim or Trim(), rule=rule), members=None)


def divided(recipe: Recipe, members: Members) -> Recipe:
    return replace(recipe, trim=None, members=members)


def backdoor(recipe: Recipe) -> Recipe:
    """Return the recipe with the backdoor adjustment: one member trained for each stratum of clips by length.

    The strata are those of the recipe's own `members`; without any, clips are divided into two by the default rule.
    """
    return divided(recipe, _members(recipe))


def ensemble(recipe: Recipe) -> Recipe:
    """Return the recipe of an ensemble: as many members as the backdoor adjustment has, each trained on all clips."""
    from evenreel.training.recipe import Members

    own = _members(recipe)
    by_seed = Members(by="seed", count=own.count, fusion="uniform", standardise=own.standardise, at_once=own.at_once)
    return divided(recipe, by_seed)


def mined(recipe: Recipe, mining: str) -> Recipe:
    """Return the recipe of the base model with another choice of negatives and positives."""
    from evenreel.matchers.registry import MATCHERS

    matcher = recipe.matcher
    if "mining" not in {one.name for one in fields(MATCHERS[matcher.name].settings)}:
        raise UsageError(
            f"RAN and RANP choose the pairs of a ranking loss, and {matcher.name} learns by another; set matcher.name "
            "to hgr."
        )
    return replace(recipe, matcher=replace(matcher, settings={**matcher.settings, "mining": mining}))


def _members(recipe: Recipe) -> Members:
    """How the recipe divides clips; what would make it another row of the table is not of the backdoor adjustment."""
    from evenreel.training.recipe import Members

    members = recipe.members or Members()
    if members.by != "length":
        raise UsageError(
            f"The recipe has members.by={members.by}, and this study compares strata of length with it: set members.by "
            "to length, or members to null."
        )
    return replace(members, only=None, begin="fresh")


# rows of tables -------------------------------------------------------------------------------------------------------

WAYS: Mapping[str, Callable[[Recipe], Recipe]] = {
    RMV_RAND: partial(trimmed, rule="random"),
    RMV_ALL: partial(trimmed, rule="all"),
    ENSEMBLE: ensemble,
    BACKDOOR: backdoor,
}


def corrected(*names: str) -> RowsOf:
    """Return rows of corrections beside the baseline: of table 1 all, of table 10 the adjustment and an ensemble."""
    return lambda material, settings: rows_beside(
        plain(settings.recipe), {name: WAYS[name](settings.recipe) for name in names}
    )


def with_mining(*others: str) -> RowsOf:
    """Return the rows of tables 2, 3 and 9: RAN and RANP, after the baseline if it is named, all also adjusted."""
    return lambda material, settings: _each_with_backdoor(
        dict.fromkeys(others, settings.recipe)
        | {name: mined(settings.recipe, mining) for name, mining in MINED.items()}
    )


def _each_with_backdoor(bases: Mapping[str, Recipe]) -> Variants:
    kinds: Variants = {}
    for name, recipe in bases.items():
        kinds |= {name: Variant(plain(recipe)), f"{name} + {BACKDOOR}": Variant(backdoor(recipe), name)}
    return kinds


def divisions(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of table 4: ways to divide training clips, and one stratum alone."""
    recipe, whole = settings.recipe, "adjusted 2"
    chosen = _members(recipe)
    rows = {"equal 2": replace(chosen, count=2, split="equal", fraction=None, thresholds=(), longest_first=False)}
    rows |= {f"adjusted {count}": replace(chosen, count=count, split="adjusted", thresholds=()) for count in (2, 3, 4)}
    kinds = rows_beside(plain(recipe), {name: divided(recipe, members) for name, members in rows.items()})
    for number, word in enumerate(("first", "second"), start=1):
        kinds[f"{word} of {whole}"] = replace(kinds[whole], member=MemberOf(whole, number))
    return kinds


def without_streams(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of table 6: each stream of the features left out in turn."""
    streams = settings.recipe.data.streams or tuple(material.streams)
    if len(streams) < 2:
        raise UsageError(
            "This study leaves out one stream of the features after the other, and these have fewer than two; make "
            "features of several with `evenreel features --stored rgb=... --stored flow=...`."
        )
    recipe = plain(settings.recipe)
    rows = {
        f"without {one}": replace(recipe, data=replace(recipe.data, streams=tuple(s for s in streams if s != one)))
        for one in streams
    }
    return rows_beside(recipe, rows)


def other_matchers(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of table 7: other base models, adjusted and not."""
    from evenreel.matchers.registry import MATCHERS

    if strange := [name for name in settings.bases if name not in MATCHERS]:
        raise UsageError(f"No matcher is called {strange[0]!r}; there are {', '.join(MATCHERS)}.")
    if material.start is not None:
        raise UsageError("This study trains several matchers, and a checkpoint (--start) is of one: leave it out.")
    bare = replace(settings.recipe, adapter=None)
    return _each_with_backdoor({name: with_room(bare, name, material) for name in settings.bases})


def fine_tuned_strata(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of the failure method (C.4): strata that begin with a model of all clips."""
    recipe = settings.recipe
    members = replace(_members(recipe), begin="full")
    times = 1 + (members.count if members.steps == "full" else 1)
    rows = rows_beside(plain(recipe), {BACKDOOR: backdoor(recipe), longer_row(times): longer(recipe, times)})
    return rows | {TUNED: Variant(divided(recipe, members), longer_row(times))}


def controls(material: Workspace, settings: StudySettings) -> Variants:
    """Return rows that separate the effects of fewer steps, of fewer clips and of division by length; ours.

    From the baseline to strata at random is what division costs, from these to strata by length what length adds; rows
    of more steps are compared with a baseline of as many.
    """
    recipe = settings.recipe
    chosen = replace(_members(recipe), steps="share", thresholds=())
    if chosen.fraction is None:  # sizes that strata at random can have too
        chosen = replace(chosen, split="equal", longest_first=False)
    drawn = replace(chosen, split="random", longest_first=False)
    twice, as_often = longer_row(2), longer_row(chosen.count)
    rows = rows_beside(plain(recipe), {twice: longer(recipe, 2), as_often: longer(recipe, chosen.count)})
    budgets: dict[str, tuple[Literal["share", "full"], str]] = {"": ("share", BASELINE), ALL_STEPS: ("full", as_often)}
    for more, (steps, whole) in budgets.items():
        rows[RANDOM + more] = Variant(divided(recipe, replace(drawn, steps=steps)), whole)
        rows[STRATA + more] = Variant(divided(recipe, replace(chosen, steps=steps)), RANDOM + more)
    rows[TUNED] = Variant(divided(recipe, replace(chosen, begin="full")), twice)
    rows[ENSEMBLE] = Variant(ensemble(recipe), as_often)
    return rows


# the tables -----------------------------------------------------------------------------------------------------------

_GRADED, _MEANS = (*NDCG, *MAP_EPIC, *MAP), (NDCG[-1], MAP_EPIC[-1], MAP[-1])
_TOTAL, _PARTS = "As many steps", "Shares of the steps"
STREAMS = "leaves out one stream of stored features after the other"


def _trained(name: str, make: str | Table, *options: str, frozen: str = "") -> Study:
    return trained_study(f"length/{name}", make, TRAINING, "frame_length/length.yaml", *options, frozen=frozen)


def _table(rows: RowsOf, metrics: tuple[str, ...], *notes: str, lead: str = "") -> Table:
    """A table of trainings, each with what it costs; the paper calls nDCG the metric that shows the bias."""
    return Table(metrics, rows=rows, main=NDCG[-1], lead=lead, notes=("What a gain costs", *notes))


LENGTH: tuple[Study, ...] = (
    _trained("t1", _table(corrected(*WAYS), _GRADED, lead=BACKDOOR)),
    _trained("t2", _table(with_mining(), _GRADED, lead=f"RANP + {BACKDOOR}")),
    _trained("t3", _table(with_mining(BASELINE), (*RANKS, *NDCG), lead=f"{BASELINE} + {BACKDOOR}")),
    _trained("t4", _table(divisions, (*_MEANS, "R@10", "MeanR"), lead="adjusted 2")),
    _trained("t5", "frame_length.figures:costs", frozen=COUNTS),
    _trained("t6", _table(without_streams, _MEANS), frozen=STREAMS),
    _trained("t7", _table(other_matchers, _GRADED), "bases"),
    _trained("t8", "frame_length.figures:remove_one", "action"),
    _trained("t10", _table(corrected(ENSEMBLE, BACKDOOR), _GRADED, lead=BACKDOOR)),
    _trained("failure", _table(fine_tuned_strata, (*_GRADED, "R@1", "R@10"), _TOTAL, lead=TUNED)),
    _trained("controls", _table(controls, (*_GRADED, "R@1"), _TOTAL, _PARTS, lead=f"{STRATA}{ALL_STEPS}")),
    _trained("samples", "frame_length.figures:samples", "tail_classes"),
    Study("length/f1", "frame_length.figures:shown_lengths", LENGTH_RANKINGS, ("action",)),
    Study("length/f2", "frame_length.figures:discrepancies", LENGTHS),
    Study("length/f5", "frame_length.figures:strips", LENGTH_RANKINGS, ("queries",)),
    Study("length/f7", "frame_length.figures:spread", LENGTHS),
)
