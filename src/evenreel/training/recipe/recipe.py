"""Recipes of training runs, made of sections, and checks of their settings before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from evenreel.debias.habits import HabitRemoval
from evenreel.debias.source import SourceDebias
from evenreel.debias.without_length import LengthRemoval
from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.adapter import AdapterSettings
from evenreel.media.sampling import parse_rule
from evenreel.training.recipe.sections import (
    Backbone,
    BackgroundExchange,
    Data,
    GalleryLikeness,
    Loop,
    MatcherChoice,
    Members,
    Optimiser,
    Records,
    Schedule,
    Selection,
    Trim,
)
from evenreel.types import Shown

MOST = 10**9
"""Of epochs, steps and the like: beyond every training, and within every counter."""
MOST_LETTERS = 200
"""Of a recipe's name."""


class RecipeError(UsageError):
    """Raised where a recipe cannot be found, read or followed; every message names the place in it."""


@dataclass(frozen=True)
class Recipe(Shown):
    """Settings of a training run, in sections.

    Attributes:
        name: name of the run, for example `msrvtt-9k/x_pool`.
        data: captions and clips to train on.
        matcher: the retrieval model.
        about: where the settings come from and what differs from there, in sentences; it goes into the model card.
        backbone: towers that run in training; null where `data.features` are used.
        adapter: trainable residual maps of the features before the matcher; null for none.
        start: checkpoint of a matcher that is built like this one, a folder or a hub id, with whose weights training
            begins; null for fresh ones. Its encoder is the one whose features are used: where its towers were trained
            too, `backbone.model` names the folder `encoder` of the checkpoint.
        debias: train against a preference for generated clips or for real ones, on clips that mirror each other: a
            table of settings, or `preset` with one of `evenreel.debias.source.PRESETS` and what differs from
            it; null for none.
        trim: training clips that are left out for their length: a table of settings, or `preset` with one of
            `evenreel.debias.trimming.PRESETS` and what differs from it; null for none.
        likeness: clips drawn more often the more they resemble those that will be searched; null for each once.
        without_length: the part of frames' features that the lengths of clips explain beyond captions is removed, in
            training and in search; null to remove nothing.
        without_habits: the directions in which captions of one clip differ most are removed from the features of all
            captions, in training and in search; null to remove nothing.
        backgrounds: clips get the backgrounds of other clips in training, so that a place says nothing of what captions
            name; null for their own.
        members: several trainings that become one matcher; null for one training.
        optimiser: settings of AdamW.
        schedule: schedule of the learning rates.
        loop: length of the training, size of batches, and devices.
        selection: how the best state of the model is selected on the validation split.
        records: what the run records beside checkpoints and metrics.
        out: folder of the run; null for `runs/<name>`.
    """

    name: str
    data: Data
    matcher: MatcherChoice
    about: str = ""
    backbone: Backbone | None = None
    adapter: AdapterSettings | None = None
    start: str | None = None
    debias: SourceDebias | None = None
    trim: Trim | None = None
    likeness: GalleryLikeness | None = None
    without_length: LengthRemoval | None = None
    without_habits: HabitRemoval | None = None
    backgrounds: BackgroundExchange | None = None
    members: Members | None = None
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=Schedule)
    loop: Loop = field(default_factory=Loop)
    selection: Selection = field(default_factory=Selection)
    records: Records = field(default_factory=Records)
    out: str | None = None

    def __post_init__(self) -> None:
        if wrong := list(wrong_settings(self)):
            raise RecipeError(*wrong)

    @property
    def changed_words(self) -> WordChanges | None:
        """Changes of on-screen words (`data.words`); None where the recipe has none, or none that changes anything."""
        return None if self.data.words is None or self.data.words.changes_nothing else self.data.words

    @property
    def has_tower_members(self) -> bool:
        """Whether the recipe has several members, each with towers of its own that are trained."""
        members = self.members
        return self.backbone is not None and members is not None and members.only is None


def wrong_settings(recipe: Recipe) -> Iterator[str]:
    """Yield a sentence for each setting of a recipe that is out of range or contradicts another one."""
    yield from _wrong_name(recipe.name)
    yield from _out_of_range(recipe)
    yield from _wrong_loop(recipe)
    if recipe.backbone is not None:
        yield from _wrong_backbone(recipe, recipe.backbone)
    if recipe.likeness is not None and recipe.likeness.split == recipe.data.train and recipe.likeness.corpus is None:
        yield f"likeness.split is {recipe.data.train!r}, the split that is learned from; name another one."
    if recipe.trim is not None:
        yield from _wrong_trim(recipe, recipe.trim)
    if recipe.members is not None:
        yield from _wrong_members(recipe, recipe.members)


def selects(recipe: Recipe) -> bool:
    """Return whether a recipe has validation data to select the model on."""
    return recipe.data.validation is not None or recipe.data.held_out > 0


def uses_of(recipe: Recipe) -> tuple[str, ...]:
    """Return, in words, which splits training by a recipe uses beside those it trains and selects on."""
    trim, likeness = recipe.trim, recipe.likeness
    found: list[str] = []
    if trim is not None and trim.target not in (None, recipe.data.validation):
        found.append(f"class lengths of the split {trim.target}")
    if likeness is not None and (likeness.corpus is not None or likeness.split != recipe.data.validation):
        found.append("frames of searched clips")
    return tuple(found)


def _wrong_name(name: str) -> Iterator[str]:
    """A name becomes a folder below `runs`, so it must not lead out of there, on no system."""
    parts = name.split("/")
    plain = all(part.strip(". ") and part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts)
    if not plain or len(name) > MOST_LETTERS:
        yield (
            f"name is {brief(name)}; it becomes the folder of the run, so it must be words with / between them, of at "
            f"most {MOST_LETTERS} letters, such as msvd/bima; a folder elsewhere goes into 'out'."
        )


def _wrong_loop(recipe: Recipe) -> Iterator[str]:
    if recipe.data.on_screen is not None and recipe.backbone is None:
        yield "data.on_screen goes with a backbone; data.features have on-screen text of their own: leave it out."
    if recipe.data.pretrained_features is not None and recipe.backbone is None:
        yield (
            "data.pretrained_features goes with a backbone; data.features are of a tower that learns nothing already: "
            "leave it out."
        )
    if recipe.backgrounds is not None and (recipe.backbone is not None or recipe.debias is not None):
        yield (
            "backgrounds are exchanged between features computed once, and debias compares clips that show the same "
            "one: leave backbone and debias out, or set backgrounds to null."
        )
    if (recipe.data.features is None) == (recipe.backbone is None):
        yield "A recipe has either data.features, computed once, or a backbone that runs in training: give one of them."
    if (recipe.loop.epochs is None) == (recipe.loop.steps is None):
        yield "loop.epochs and loop.steps both say how long to train: give one of them, and set the other to null."
    if recipe.data.held_out and recipe.data.validation is not None:
        yield "data.validation and data.held_out both say what to select on: set validation to null or held_out to 0."
    if recipe.loop.batch_size % recipe.loop.devices:
        yield (
            f"loop.batch_size is {recipe.loop.batch_size}, which {recipe.loop.devices} devices cannot share equally; "
            "make it a multiple of loop.devices."
        )


def _wrong_backbone(recipe: Recipe, backbone: Backbone) -> Iterator[str]:
    if recipe.likeness is not None:
        yield "likeness compares features computed before training: use data.features, or set it to null."
    if recipe.without_length is not None:
        yield "without_length is fitted to features before training: use data.features, or set it to null."
    if recipe.without_habits is not None:
        yield "without_habits is fitted to features before training: use data.features, or set it to null."
    if recipe.adapter and recipe.adapter.windows and recipe.data.on_screen is None:
        yield (
            "adapter.windows needs on-screen text, and a backbone reads that of data.on_screen: name there a folder "
            "that `evenreel features` made, or set adapter.windows to false."
        )
    if recipe.data.words is not None and recipe.data.on_screen is None:
        yield "data.words changes on-screen words, and a backbone reads those of data.on_screen alone: give that too."
    if recipe.data.streams:
        yield "data.streams chooses among features that others computed, and a backbone makes its own: leave it out."
    try:
        parse_rule(backbone.rule)
    except UsageError as error:
        yield f"backbone.rule: {error}"


def _wrong_trim(recipe: Recipe, trim: Trim) -> Iterator[str]:
    if trim.margin == 0:
        yield "trim.margin is 0, and no class ever has its target's mean to the frame: give a margin."
    if trim.target is None and not selects(recipe):
        yield (
            "trim compares lengths with those of the split that the model is selected on, and there is none: give "
            "data.validation, data.held_out or trim.target."
        )
    if trim.target == recipe.data.train:
        yield f"trim.target is {trim.target!r}, the split that is learned from; name another one, or null."


def _wrong_members(recipe: Recipe, members: Members) -> Iterator[str]:
    if members.only is not None and members.only > members.count:
        yield f"members.only is {members.only}, and members.count is {members.count}: give one of 1 to {members.count}."
    if members.at_once > members.count:
        yield f"members.at_once is {members.at_once}, and members.count is {members.count}: give no more than that."
    if recipe.backbone is not None:
        yield from _wrong_beside_towers(members)
    if recipe.loop.devices > 1:
        yield "members are trained on one device each: set loop.devices to 1; members.at_once trains several at a time."
    if not selects(recipe) and (members.fusion == "learned" or members.standardise):
        yield (
            "members.fusion=learned and members.standardise look at the scores of a validation split, and there is "
            "none: give data.validation or data.held_out."
        )
    yield from _wrong_division(members)


def _wrong_beside_towers(members: Members) -> Iterator[str]:
    """What members cannot do that each have an encoder of their own, whose scores are added afterwards."""
    if members.fusion == "learned" or members.standardise:
        yield (
            "members.fusion and members.standardise look at the scores of features computed once, and with a backbone "
            "each member has an encoder of its own: leave them out, and fuse the members' scores (`evenreel fuse`)."
        )
    if members.at_once > 1:
        yield "members with a backbone are trained one after the other: set members.at_once to 1."
    if members.only is not None and members.begin == "full":
        yield (
            "members.begin=full trains on all clips first, with a backbone in a run of its own that all members begin "
            "with: set members.only to null."
        )


def _wrong_division(members: Members) -> Iterator[str]:
    """What contradicts the way in which clips are divided."""
    if members.fraction is not None and members.split not in ("adjusted", "random"):
        yield (
            f"members.fraction divides where members.split is adjusted or random, and it is {members.split}: set it "
            "to null."
        )
    if members.fraction is not None and not 0 < members.fraction < 1:
        yield f"members.fraction is {members.fraction}; it must lie between 0 and 1."
    if members.longest_first and members.split != "adjusted":
        yield f"members.longest_first is for members.split=adjusted, and it is {members.split}: set it to false."
    wanted = members.count - 1 if members.split == "thresholds" else 0
    if len(members.thresholds) != wanted:
        yield (
            f"members.thresholds has {len(members.thresholds)} lengths; with members.split={members.split} and "
            f"members.count={members.count} it must have {wanted}."
        )
    if any(not low < high for low, high in pairwise(members.thresholds)):
        yield f"members.thresholds is {list(members.thresholds)}; each must be more than the one before."
    if members.by == "seed" and (members.split != "adjusted" or members.fraction is not None or members.longest_first):
        yield "members.by=seed divides nothing: leave out split, fraction, thresholds and longest_first of members."
    if members.by == "seed" and members.begin == "full":
        yield "members.by=seed learns from all clips already: set members.begin to fresh."
    if members.by == "seed" and members.steps == "full":
        yield "members.by=seed takes all steps with each seed already: leave members.steps out."


def _out_of_range(recipe: Recipe) -> Iterator[str]:
    low, high = 0.0, MOST
    limits: dict[str, tuple[float | None, float, float]] = {
        "data.held_out": (recipe.data.held_out, low, 0.9),
        "data.generated_share": (recipe.data.generated_share, low, 1.0),
        "optimiser.lr": (recipe.optimiser.lr, low, 10.0),
        "optimiser.backbone_lr": (recipe.optimiser.backbone_lr, low, 10.0),
        "optimiser.logit_scale_lr": (recipe.optimiser.logit_scale_lr, low, 10.0),
        "optimiser.betas[0]": (recipe.optimiser.betas[0], low, 0.999999),
        "optimiser.betas[1]": (recipe.optimiser.betas[1], low, 0.999999),
        "optimiser.eps": (recipe.optimiser.eps, 1e-15, 1.0),
        "optimiser.weight_decay": (recipe.optimiser.weight_decay, low, 10.0),
        "schedule.warmup": (recipe.schedule.warmup, low, 1.0),
        "loop.batch_size": (recipe.loop.batch_size, 2, 2**20),
        "loop.epochs": (recipe.loop.epochs, 1, high),
        "loop.steps": (recipe.loop.steps, 1, high),
        "loop.accumulate": (recipe.loop.accumulate, 1, high),
        "loop.gradient_clip": (recipe.loop.gradient_clip, low, 1e9),
        "loop.devices": (recipe.loop.devices, 1, 1024),
        "loop.workers": (recipe.loop.workers, 0, 1024),
        "loop.seed": (recipe.loop.seed, 0, 2**63 - 1),
        "selection.per_epoch": (recipe.selection.per_epoch, 1, high),
        "selection.every_steps": (recipe.selection.every_steps, 1, high),
        "selection.patience": (recipe.selection.patience, 1, high),
        "records.every_steps": (recipe.records.every_steps, 1, high),
        "records.save_every_steps": (recipe.records.save_every_steps, 1, high),
        "backbone.max_words": (recipe.backbone.max_words if recipe.backbone else None, 3, 2**16),
        "trim.margin": (recipe.trim.margin if recipe.trim else None, low, 1e9),
        "trim.least": (recipe.trim.least if recipe.trim else None, 1, high),
        "backgrounds.clusters": (recipe.backgrounds.clusters if recipe.backgrounds else None, 2, 2**16),
        "backgrounds.share": (recipe.backgrounds.share if recipe.backgrounds else None, low, 1.0),
        "members.count": (recipe.members.count if recipe.members else None, 2, 1024),
        "members.only": (recipe.members.only if recipe.members else None, 1, 1024),
        "members.at_once": (recipe.members.at_once if recipe.members else None, 1, 1024),
    }
    for place, (value, least, most) in limits.items():
        if value is not None and not least <= value <= most:  # so that NaN is refused too
            yield f"{place} is {value}; it must be {least:,.10g} to {most:,.10g}."
