"""The rows of the frame-length paper's tables (arXiv 2309.09311): one training again and again, with one thing changed.

A recipe says how the base model is trained. What it has under `trim` and `members` is how trimming and the backdoor
adjustment are done in the rows that do them; the baseline has neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Literal

from evenreel.errors import UsageError
from evenreel.matchers.registry import MATCHERS
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.variants import BASELINE, MemberOf, Variant, Variants, beside, with_room
from evenreel.papers.frame_length.settings import BaseSettings
from evenreel.training.recipe import MatcherChoice, Members, Recipe, Trim

RMV_RAND, RMV_ALL, ENSEMBLE, BACKDOOR = "RmvRand", "RmvAll", "ensemble", "backdoor"
TUNED, STRATA, RANDOM, ALL_STEPS = "fine-tuned strata", "strata by length", "strata at random", ", all steps each"
MINED = {"RAN": "ran", "RANP": "ranp"}
"""How the paper calls a hinge that knows degrees of relevance, and the setting `mining`."""


def against_trimming(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 1 of the frame-length paper: every correction beside the baseline."""
    recipe = settings.recipe
    rows = {RMV_RAND: trimmed(recipe, "random"), RMV_ALL: trimmed(recipe, "all")}
    return beside(plain(recipe), rows | {ENSEMBLE: ensemble(recipe), BACKDOOR: backdoor(recipe)})


def against_mining(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 2 of the frame-length paper: RAN and RANP, with and without the backdoor adjustment."""
    return _each_with_backdoor({name: mined(settings.recipe, mining) for name, mining in MINED.items()})


def with_mining(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of tables 3 and 9 of the frame-length paper: baseline, RAN and RANP, all also adjusted."""
    rows = {name: mined(settings.recipe, mining) for name, mining in MINED.items()}
    return _each_with_backdoor({BASELINE: settings.recipe} | rows)


def divisions(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 4 of the frame-length paper: ways to divide training clips, and one stratum alone."""
    recipe = settings.recipe
    chosen = _members(recipe)
    equal = replace(chosen, count=2, split="equal", fraction=None, thresholds=(), longest_first=False)
    adjusted = [replace(chosen, count=count, split="adjusted", thresholds=()) for count in (2, 3, 4)]
    rows = {"equal 2": equal} | {f"adjusted {one.count}": one for one in adjusted}
    kinds = beside(plain(recipe), {name: replace(recipe, trim=None, members=members) for name, members in rows.items()})
    whole = "adjusted 2"
    alone = {
        f"{word} of {whole}": replace(kinds[whole], member=MemberOf(whole, number))
        for number, word in enumerate(("first", "second"), start=1)
    }
    return kinds | alone


def without_streams(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 6 of the frame-length paper: each stream of the features left out in turn."""
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
    return beside(plain(recipe), rows)


def other_matchers(material: LearningInputs, settings: BaseSettings) -> Variants:
    """Return the rows of table 7 of the frame-length paper: other base models, adjusted and not."""
    if strange := [name for name in settings.bases if name not in MATCHERS]:
        raise UsageError(f"No matcher is called {strange[0]!r}; there are {', '.join(MATCHERS)}.")
    if material.start is not None:
        raise UsageError("This study trains several matchers, and a checkpoint (--start) is of one: leave it out.")
    return _each_with_backdoor(
        {name: replace(settings.recipe, matcher=with_room(name, material), adapter=None) for name in settings.bases}
    )


def with_ensemble(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 10 of the frame-length paper: the adjustment beside as many models of all clips."""
    recipe = settings.recipe
    return beside(plain(recipe), {ENSEMBLE: ensemble(recipe), BACKDOOR: backdoor(recipe)})


def fine_tuned_strata(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of the failure method (frame-length paper, C.4): strata that begin with a model of all clips."""
    recipe = settings.recipe
    members = replace(_members(recipe), begin="full")
    times = 1 + (members.count if members.steps == "full" else 1)
    rows = beside(plain(recipe), {BACKDOOR: backdoor(recipe), longer_row(times): longer(recipe, times)})
    return rows | {TUNED: Variant(divided(recipe, members), longer_row(times))}


def controls(material: LearningInputs, settings: TrainingSettings) -> Variants:
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
    rows = beside(plain(recipe), {twice: longer(recipe, 2), as_often: longer(recipe, chosen.count)})
    budgets: dict[str, tuple[Literal["share", "full"], str]] = {"": ("share", BASELINE), ALL_STEPS: ("full", as_often)}
    for more, (steps, whole) in budgets.items():
        rows[RANDOM + more] = Variant(divided(recipe, replace(drawn, steps=steps)), whole)
        rows[STRATA + more] = Variant(divided(recipe, replace(chosen, steps=steps)), RANDOM + more)
    rows[TUNED] = Variant(divided(recipe, replace(chosen, begin="full")), twice)
    rows[ENSEMBLE] = Variant(ensemble(recipe), as_often)
    return rows


def longer(recipe: Recipe, times: int) -> Recipe:
    """Return the recipe of the base model alone, trained for a multiple of its epochs or steps."""
    loop = recipe.loop
    steps, epochs = (None if count is None else times * count for count in (loop.steps, loop.epochs))
    return plain(replace(recipe, loop=replace(loop, steps=steps, epochs=epochs)))


def longer_row(times: int) -> str:
    """Name the row of a baseline that is trained for a multiple of its steps.

    >>> longer_row(2)
    'baseline, 2 times as long'
    """
    return f"{BASELINE}, {times} times as long"


def plain(recipe: Recipe) -> Recipe:
    """Return the recipe of the base model, without trimming and without members."""
    return replace(recipe, trim=None, members=None)


def trimmed(recipe: Recipe, rule: Literal["all", "random"]) -> Recipe:
    """Return the recipe with training clips trimmed by RmvAll (`all`) or RmvRand (`random`).

    The recipe's own settings of trimming are kept; without any it is the preset near the published count.
    """
    return replace(recipe, trim=replace(recipe.trim or Trim(), rule=rule), members=None)


def backdoor(recipe: Recipe) -> Recipe:
    """Return the recipe with the backdoor adjustment: one member trained for each stratum of clips by length.

    The strata are those of the recipe's own `members`; without any, clips are divided into two by the default rule.
    """
    return divided(recipe, _members(recipe))


def divided(recipe: Recipe, members: Members) -> Recipe:
    """Return the recipe of the base model with a member for each stratum of clips by length, and no trimming."""
    return replace(recipe, trim=None, members=members)


def ensemble(recipe: Recipe) -> Recipe:
    """Return the recipe of an ensemble: as many members as the backdoor adjustment has, each trained on all clips."""
    chosen = _members(recipe)
    members = Members(by="seed", count=chosen.count, fusion="uniform", standardise=chosen.standardise)
    return replace(recipe, trim=None, members=replace(members, at_once=chosen.at_once))


def mined(recipe: Recipe, mining: str) -> Recipe:
    """Return the recipe of the base model with another choice of negatives and positives."""
    matcher = recipe.matcher
    if "mining" not in {one.name for one in fields(MATCHERS[matcher.name].settings)}:
        raise UsageError(
            f"RAN and RANP choose the pairs of a ranking loss, and {matcher.name} learns by another; set matcher.name "
            "to hgr."
        )
    return replace(recipe, matcher=MatcherChoice(matcher.name, {**matcher.settings, "mining": mining}))


def _members(recipe: Recipe) -> Members:
    """How the recipe divides clips; what would make it another row of the table is not of the backdoor adjustment."""
    members = recipe.members or Members()
    if members.by != "length":
        raise UsageError(
            f"The recipe has members.by={members.by}, and this study compares strata of length with it: set members.by "
            "to length, or members to null."
        )
    return replace(members, only=None, begin="fresh")


def _each_with_backdoor(bases: Mapping[str, Recipe]) -> Variants:
    pairs: Iterable[Variants] = (
        {name: Variant(plain(recipe)), f"{name} + {BACKDOOR}": Variant(backdoor(recipe), name)}
        for name, recipe in bases.items()
    )
    return {name: kind for pair in pairs for name, kind in pair.items()}
