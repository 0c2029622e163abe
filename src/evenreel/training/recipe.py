"""Recipes of training runs: their settings, what contradicts itself in them, and their YAML files.

A file may be `based_on` another one and says only what differs; `--set` changes what comes of both.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, reduce
from importlib import import_module, resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from evenreel.debias.habits import HabitRemoval
from evenreel.debias.source import SourceDebias
from evenreel.debias.without_length import LengthRemoval
from evenreel.documents import brief, parse_yaml
from evenreel.errors import UsageError
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.registry import MATCHERS
from evenreel.media.sampling import parse_rule
from evenreel.types import Shown

MOST = 10**9
"""Of epochs, steps and the like: beyond every training, and within every counter."""
MOST_LETTERS = 200
"""Of a recipe's name."""
LARGEST = 2**63
_PRESET, _BASED_ON = "preset", "based_on"
_PRESETS: dict[Any, str] = {SourceDebias: "evenreel.debias.source"}
"""The modules whose `PRESETS` a table may start from: `preset: NAME`, and beside it what differs."""

Settings = TypeVar("Settings")


class RecipeError(UsageError):
    """Raised where a recipe cannot be found, read or followed; every message names the place in it."""


class Within(NamedTuple):
    """Least and greatest value of a setting, in its annotation."""

    least: float
    most: float


Share = Annotated[float, Within(0.0, 1.0)]
Rate = Annotated[float, Within(0.0, 10.0)]
Decay = Annotated[float, Within(0.0, 0.999999)]
Count = Annotated[int, Within(1, MOST)]
Devices = Annotated[int, Within(1, 1024)]


@dataclass(frozen=True)
class Data:
    """Settings of the captions and clips to train on."""

    corpus: str  # folder of the corpus (`evenreel corpus import`)
    # folder of features of its clips and captions, computed once (`evenreel features`); null where the towers run in
    # training, see `Backbone`
    features: str | None = None
    videos: str | None = None  # folder that the paths of the clips start from; null for the folder of the corpus
    train: str = "train"  # split that is trained on
    validation: str | None = "val"  # split that the model is selected on; null where none is
    # share of the videos of `train` that is kept out of it for selection, for corpora without a split of their own for
    # it; 0 for none. Clips of one video stay together
    held_out: Annotated[float, Within(0.0, 0.9)] = 0.0
    # share of the real training clips that are replaced by the generated clips that mirror them, which take their
    # captions; 0 for none. Mirrors are used for nothing else but `debias`
    generated_share: Share = 0.0
    # group of mirrors to use, by their generator and its setting; null for the only one that there is
    generated_group: str | None = None
    streams: tuple[str, ...] = ()  # names of the streams of stored features to use; empty for all of them
    # folder of features by the backbone's towers as they are before training, for a matcher that selects scene
    # elements by these; null where `features` are used
    pretrained_features: str | None = None
    # folder of features, by any encoder and the backbone's rule, whose on-screen text the backbone's text tower reads
    # in training; null for none, and where `features` are used, which have their own
    on_screen: str | None = None
    # changes of the words of on-screen text, to find out how much a matcher needs them; null for none
    words: WordChanges | None = None


@dataclass(frozen=True)
class Backbone:
    """Settings of towers that run in training, from pixels and words."""

    model: str  # towers to train (docs/encoders.md): `builtin`, a hub id or a folder
    train: bool = True  # train the weights of the towers too; false: they stay as they are
    # patterns of the names, in the checkpoint, of parameters that are not trained, such as `vision_model.embeddings.*`
    frozen: tuple[str, ...] = ()
    rule: str = "12 midpoints"  # rule that samples the frames of a clip, in the words of `evenreel.media.parse_rule`
    # greatest number of tokens of a caption, its marks for start and end included; longer ones are cut
    max_words: Annotated[int, Within(3, 2**16)] = 77
    # `none`; `crop`: one random part of 0.5 to 1 of the picture's area for all frames of a clip, resized to what the
    # tower takes; `crop_and_flip`: also mirrored half of the time, which swaps left and right
    augment: Literal["none", "crop", "crop_and_flip"] = "none"
    # compute the towers' layers a second time for gradients instead of keeping them in memory
    gradient_checkpointing: bool = False


@dataclass(frozen=True)
class MatcherChoice:
    """Name and settings of the retrieval model."""

    name: str  # a key of `evenreel.matchers.MATCHERS`
    settings: dict[str, Any] = field(default_factory=dict)  # fields of its settings class that differ from the defaults


@dataclass(frozen=True)
class Trim:
    """Settings of leaving out training clips until each class is as long as in another split (RmvAll)."""

    # `all`: leave out the shortest or the longest clips of every class; `random`: leave out as many clips, drawn
    # whatever their length (RmvRand)
    rule: Literal["all", "random"] = "all"
    # delta, in frames (in seconds where the corpus has no frames): classes nearer than this stay
    margin: Annotated[float, Within(0.0, 1e9)] = 60.0
    least: Count = 20  # alpha, number of clips that a class keeps at least
    # split whose mean lengths classes are trimmed to; null for the one that the model is selected on. Another split is
    # one that no training should know, and the checkpoint and all its scores say so
    target: str | None = None


@dataclass(frozen=True)
class Members:
    """Settings of several trainings that become one matcher (frame-length bias, backdoor adjustment)."""

    # `length`: each is trained on the clips of one stratum of length; `seed`: each on all of them, with another seed,
    # which is the plain ensemble
    by: Literal["length", "seed"] = "length"
    count: Annotated[int, Within(2, 1024)] = 2  # number M of members
    # how lengths are divided: `equal` counts of clips, `adjusted` (algorithm 2), or at `thresholds`; `random` draws
    # strata without a look at lengths, by `loop.seed`, which is the control of the others
    split: Literal["equal", "adjusted", "thresholds", "random"] = "adjusted"
    # for `adjusted` and `random`, the share of the first of the last two strata; null: for `adjusted` that of the
    # clips that are shorter than the mean of the training clips, for `random` strata of equal size
    fraction: float | None = None
    thresholds: tuple[float, ...] = ()  # M - 1 lengths, ascending
    longest_first: bool = False  # for `adjusted`, begin with the long clips
    only: Devices | None = None  # number of the one stratum, from 1, that is trained; null for all
    # weights of the scores: `prior`, the share of the clips in each stratum (equation 5); `uniform`; `learned`: on the
    # validation split
    fusion: Literal["prior", "uniform", "learned"] = "prior"
    # bring the scores of each member to mean 0 and deviation 1 over the validation split first
    standardise: bool = False
    # `fresh` weights, or those of a training on all clips (`full`), which the paper calls a failure
    begin: Literal["fresh", "full"] = "fresh"
    # steps of each stratum's training: its `share` of those of a training on all clips, so that all strata together
    # cost as much as that, as in the paper; or as many as that takes (`full`)
    steps: Literal["share", "full"] = "share"
    at_once: Devices = 1  # number of members that are trained at a time, each in a process of its own


@dataclass(frozen=True)
class GalleryLikeness:
    """Settings of drawing clips more often the more they resemble those that will be searched, by frames alone.

    See `evenreel.debias.likeness`.
    """

    split: str | None = "test"  # split of the searched clips; null for all of `corpus`
    corpus: str | None = None  # folder of a corpus that has them; null for that of `data`
    features: str | None = None  # folder of their features, by the encoder of the training features; null for these


@dataclass(frozen=True)
class BackgroundExchange:
    """Settings of giving clips the backgrounds of other clips (`evenreel.debias.backgrounds`)."""

    clusters: Annotated[int, Within(2, 2**16)] = 100  # number of kinds of backgrounds, found without labels
    share: Share = 1.0  # probability that a clip gets the background of another clip of its batch, anew in every batch


@dataclass(frozen=True)
class Optimiser:
    """Settings of AdamW (decoupled weight decay, arXiv 1711.05101)."""

    lr: Rate = 1e-4  # peak learning rate of the matcher's parameters
    backbone_lr: Rate = 1e-7  # peak learning rate of the towers' parameters
    # peak learning rate of the logit scale; null for `lr`. It is part of CLIP, so many papers give it the rate of the
    # backbone
    logit_scale_lr: Rate | None = None
    betas: tuple[Decay, Decay] = (0.9, 0.98)  # decay of the averages of the gradient and of its square
    # added to the root of the latter; more than 0, since a weight without a gradient has a root of 0
    eps: Annotated[float, Within(1e-15, 1.0)] = 1e-6
    weight_decay: Rate = 0.2  # share that weights lose each step, times the learning rate
    # patterns of the names of parameters that do not decay
    exempt: tuple[str, ...] = ("*bias", "*norm*", "*logit_scale")


@dataclass(frozen=True)
class Schedule:
    """Schedule of the learning rates over steps; see `evenreel.training.module.rate_share`."""

    # `cosine`: from the peak after warm-up down to 0; `bert_adam`: the cosine of BertAdam, which the code of CLIP4Clip
    # uses: it does not wait for the end of the warm-up, so the rate falls at once by a little when that ends;
    # `constant`: the peak after warm-up
    form: Literal["cosine", "bert_adam", "constant"] = "cosine"
    warmup: Share = 0.1  # share of all steps in which the rate rises linearly from 0


@dataclass(frozen=True)
class Loop:
    """Settings of the length of the training, the size of batches, and devices."""

    # number of captions, each with its clip, in a batch, on all devices together; a caption's negatives are the other
    # clips of its batch
    batch_size: Annotated[int, Within(2, 2**20)] = 128
    # number of epochs, in each of which every caption is used once; null where `steps` is set. Captions that do not
    # fill a batch at the end of an epoch are left out of it
    epochs: Count | None = 5
    steps: Count | None = None  # number of optimiser steps; null where `epochs` is set
    # number of batches whose gradients are averaged to one step; more of them do not mean more negatives
    accumulate: Count = 1
    # largest length of the gradient of all parameters; 0 for no limit
    gradient_clip: Annotated[float, Within(0.0, 1e9)] = 1.0
    # `float32`, or `bfloat16` where it is safe, with weights in float32
    precision: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"  # `auto`, `cpu` or `cuda`
    devices: Devices = 1  # number of devices; each computes its part of the batch
    # number of processes that decode clips; 0: in the training process. Features need none
    workers: Annotated[int, Within(0, 1024)] = 0
    seed: Annotated[int, Within(0, LARGEST - 1)] = 0  # seed of every random choice
    # on a GPU use only operations that give equal bytes in every run, which is slower. On a CPU they always do
    deterministic: bool = False


@dataclass(frozen=True)
class Selection:
    """Settings of selecting the best weights of the model on the validation split."""

    # metric of text-to-video search to select by, as `evenreel evaluate` names it: `R@1`, `Rsum`, `MedR`, `nDCG`,
    metric: str = "R@1"
    # what answers a caption: `clip`, `text`, `classes` or `classes-iou`, as in `evenreel evaluate`
    relevance: Literal["clip", "text", "classes", "classes-iou"] = "clip"
    per_epoch: Count = 1  # number of evaluations an epoch; the last step is always evaluated
    every_steps: Count | None = None  # steps from one evaluation to the next; null where `per_epoch` is used
    # number of evaluations in a row without a better one after which training stops early; null for never
    patience: Count | None = None


@dataclass(frozen=True)
class Records:
    """Settings of what a run records beside its checkpoints and metrics.csv."""

    # steps from one line of the losses and rates to the next; null: so many that a run has about 200
    every_steps: Count | None = None
    # steps from one checkpoint for resuming to the next; null: as often as is evaluated
    save_every_steps: Count | None = None
    tensorboard: bool = True  # write a log for TensorBoard
    wandb: str | None = None  # project of Weights & Biases to log to (`pip install wandb`); null for none


@dataclass(frozen=True)
class Recipe(Shown):
    """Settings of a training run, in sections."""

    name: str  # of the run, for example `msrvtt-9k/x_pool`
    data: Data  # captions and clips to train on
    matcher: MatcherChoice  # the retrieval model
    about: str = ""  # where the settings come from and what differs from there, in sentences; for the model card
    backbone: Backbone | None = None  # towers that run in training; null where `data.features` are used
    adapter: AdapterSettings | None = None  # trainable residual maps of the features before the matcher; null for none
    # checkpoint of a matcher that is built like this one, a folder or a hub id, with whose weights training begins;
    # null for fresh ones. Its encoder is the one whose features are used: where its towers were trained too,
    # `backbone.model` names the folder `encoder` of the checkpoint
    start: str | None = None
    # train against a preference for generated clips or for real ones, on clips that mirror each other: a table of
    # settings, or `preset` with one of `evenreel.debias.source.PRESETS` and what differs from it; null for none
    debias: SourceDebias | None = None
    # training clips that are left out for their length: a table of settings, or `preset` with one of
    # `evenreel.debias.frame_length.PRESETS` and what differs from it; null for none
    trim: Trim | None = None
    # clips drawn more often the more they resemble those that will be searched; null for each once
    likeness: GalleryLikeness | None = None
    # the part of frames' features that the lengths of clips explain beyond captions is removed, in training and in
    # search; null to remove nothing
    without_length: LengthRemoval | None = None
    # the directions in which captions of one clip differ most are removed from the features of all captions, in
    # training and in search; null to remove nothing
    without_habits: HabitRemoval | None = None
    # clips get the backgrounds of others in training, so that a place says nothing of what captions name; null for none
    backgrounds: BackgroundExchange | None = None
    members: Members | None = None  # several trainings that become one matcher; null for one training
    optimiser: Optimiser = field(default_factory=Optimiser)  # AdamW
    schedule: Schedule = field(default_factory=Schedule)  # of the learning rates
    loop: Loop = field(default_factory=Loop)  # length of the training, size of batches, and devices
    selection: Selection = field(default_factory=Selection)  # how the best state is selected on the validation split
    records: Records = field(default_factory=Records)  # what the run records beside checkpoints and metrics
    out: str | None = None  # folder of the run; null for `runs/<name>`

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
    data, loop, likeness = recipe.data, recipe.loop, recipe.likeness
    parts = recipe.name.split("/")  # a folder below `runs`: it must not lead out of there, on no system
    plain = all(part.strip(". ") and part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts)
    if not plain or len(recipe.name) > MOST_LETTERS:
        yield (
            f"name is {brief(recipe.name)}; it becomes the folder of the run, so it must be words with / between them, "
            f"of at most {MOST_LETTERS} letters, such as msvd/bima; a folder elsewhere goes into 'out'."
        )
    yield from _out_of_range(recipe)
    if data.on_screen is not None and recipe.backbone is None:
        yield "data.on_screen goes with a backbone; data.features have on-screen text of their own: leave it out."
    if data.pretrained_features is not None and recipe.backbone is None:
        yield (
            "data.pretrained_features goes with a backbone; data.features are of a tower that learns nothing already: "
            "leave it out."
        )
    if recipe.backgrounds is not None and (recipe.backbone is not None or recipe.debias is not None):
        yield (
            "backgrounds are exchanged between features computed once, and debias compares clips that show the same "
            "one: leave backbone and debias out, or set backgrounds to null."
        )
    if (data.features is None) == (recipe.backbone is None):
        yield "A recipe has either data.features, computed once, or a backbone that runs in training: give one of them."
    if (loop.epochs is None) == (loop.steps is None):
        yield "loop.epochs and loop.steps both say how long to train: give one of them, and set the other to null."
    if data.held_out and data.validation is not None:
        yield "data.validation and data.held_out both say what to select on: set validation to null or held_out to 0."
    if loop.batch_size % loop.devices:
        yield (
            f"loop.batch_size is {loop.batch_size}, which {loop.devices} devices cannot share equally; make it a "
            "multiple of loop.devices."
        )
    if likeness is not None and likeness.split == data.train and likeness.corpus is None:
        yield f"likeness.split is {data.train!r}, the split that is learned from; name another one."
    if recipe.backbone is not None:
        yield from _wrong_backbone(recipe, recipe.backbone)
    if recipe.trim is not None:
        yield from _wrong_trim(recipe, recipe.trim)
    if recipe.members is not None:
        yield from _wrong_members(recipe, recipe.members)


def _out_of_range(settings: Any, place: str = "") -> Iterator[str]:
    """What lies without the limits in the annotations of settings."""
    kind: Any = type(settings)
    for name, limits in _limits(kind).items():
        given, at = getattr(settings, name), f"{place}.{name}" if place else name
        if is_dataclass(given):
            yield from _out_of_range(given, at)
        several = isinstance(given, tuple)
        for number, value in enumerate(given if several else (given,)):
            if limits and value is not None and not limits.least <= value <= limits.most:  # so that NaN is refused too
                where = f"{at}[{number}]" if several else at
                yield f"{where} is {value}; it must be {limits.least:,.10g} to {limits.most:,.10g}."


@cache
def _limits(kind: Any) -> dict[str, Within | None]:
    def limits(hint: Any) -> Within | None:
        own = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Within)]
        return next((one for one in (*own, *map(limits, get_args(hint))) if one), None)

    return {name: limits(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def selects(recipe: Recipe) -> bool:
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
    split, by_seed = members.split, members.by == "seed"
    if members.fraction is not None and split not in ("adjusted", "random"):
        yield f"members.fraction divides where members.split is adjusted or random, and it is {split}: set it to null."
    if members.fraction is not None and not 0 < members.fraction < 1:
        yield f"members.fraction is {members.fraction}; it must lie between 0 and 1."
    if members.longest_first and split != "adjusted":
        yield f"members.longest_first is for members.split=adjusted, and it is {split}: set it to false."
    wanted = members.count - 1 if split == "thresholds" else 0
    if len(members.thresholds) != wanted:
        yield (
            f"members.thresholds has {len(members.thresholds)} lengths; with members.split={split} and "
            f"members.count={members.count} it must have {wanted}."
        )
    if any(not low < high for low, high in pairwise(members.thresholds)):
        yield f"members.thresholds is {list(members.thresholds)}; each must be more than the one before."
    if by_seed and (split != "adjusted" or members.fraction is not None or members.longest_first):
        yield "members.by=seed divides nothing: leave out split, fraction, thresholds and longest_first of members."
    if by_seed and members.begin == "full":
        yield "members.by=seed learns from all clips already: set members.begin to fresh."
    if by_seed and members.steps == "full":
        yield "members.by=seed takes all steps with each seed already: leave members.steps out."


_PRESETS[Trim] = "evenreel.debias.frame_length"


def find_recipe(name: str | Path) -> Path:
    """Find the file of a recipe.

    Args:
        name: a path, or the name of a recipe of the package, such as `msrvtt-9k/x_pool`.

    Raises:
        RecipeError: there is no such file and no such recipe.
    """
    return named_file(name, shipped_recipes(), "recipe")


def named_file(name: str | Path, shipped: Mapping[str, Path], what: str) -> Path:
    """Find a YAML file by its path, or among the files of the package by its name."""
    if Path(name).is_file():
        return Path(name)
    if str(name) in shipped:
        return shipped[str(name)]
    raise RecipeError(
        f"There is no {what} {str(name)!r}, neither a file nor one of the package: {', '.join(shipped) or 'none'}."
    )


def shipped_recipes() -> dict[str, Path]:
    """Return the paths of the package's recipes by name, in order."""
    return yaml_files("evenreel.training")


def yaml_files(package: str) -> dict[str, Path]:
    root = Path(str(resources.files(package))) / "recipes"
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.yaml")}
    return dict(sorted(found.items()))


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a training recipe from a YAML file and those that it is `based_on`, apply changes, and check it.

    Args:
        path: a YAML file.
        changes: settings that replace those of the file, each `place=value` with the value in YAML, for example
            `matcher.settings.kind=ti`.

    Raises:
        RecipeError: the file, or one that it is based on, is missing or no YAML, has an unknown key, lacks one, or a
            value is of the wrong type or range.
    """
    values = read_changed(path, changes)
    with cannot_be_followed(f"recipe {path}"):
        return recipe_from(values)


@contextmanager
def cannot_be_followed(what: str, changes: Sequence[str] = ()) -> Iterator[None]:
    """Say of what refused it that a file, with changes, is to blame."""
    try:
        yield
    except RecipeError as error:
        more = f", with {', '.join(changes)}," if changes else ""
        raise RecipeError(f"The {what}{more} cannot be followed:", *error.args) from error


def read_changed(
    path: str | Path, changes: Sequence[str] = (), what: str = "recipe", shipped: Mapping[str, Path] | None = None
) -> dict[str, Any]:
    """Read the values of a YAML file on top of those that it is `based_on`, and apply changes, without checking any.

    Tables merge key by key, and a table with a preset begins anew; any other value replaces what is there, so that null
    takes a section away.
    """
    file, read = Path(path), dict[Path, dict[str, Any]]()
    while True:
        if file.resolve() in read:
            raise RecipeError(f"The {what} {path} is based on {file}, which is based on itself; break the circle.")
        read[file.resolve()] = own = _read(file, what)
        base = own.pop(_BASED_ON, None)
        if base is None:
            return changed(reduce(_merged, reversed(read.values())), changes)
        beside = file.parent / str(base)
        known = shipped_recipes() if shipped is None else shipped
        try:
            file = beside if beside.is_file() else named_file(str(base), known, what)
        except RecipeError as error:
            raise RecipeError(f"The {what} {file} has based_on: {brief(base)}.", *error.args) from error


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and _PRESET not in value
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The {what} {path} cannot be read ({error}).") from error
    except ValueError as error:
        raise RecipeError(f"The {what} {path} is not YAML ({error}).") from error
    if not isinstance(values, dict):
        raise RecipeError(f"The {what} {path} is not a table of settings.")
    return values


def changed(values: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Apply changes, each `place=value`, to the values of a recipe, without checking any.

    A change that puts a preset in the place of a table goes before those that change the table.

    >>> changed({"lr": 0.1}, ["lr=0.5", "safety.keep=1"])
    {'lr': 0.5, 'safety': {'keep': 1}}
    """
    found = dict(values)
    for change in sorted(changes, key=lambda one: not one.partition("=")[0].strip().endswith(f".{_PRESET}")):
        place, equals, text = change.partition("=")
        *outer, last = place.strip().split(".")
        if not equals or not all((*outer, last)):
            raise RecipeError(f"--set takes PLACE=VALUE, for example loop.batch_size=64, not {brief(change)}.")
        table = found
        for key in outer:
            inner = table.get(key)
            table[key] = table = dict(inner) if isinstance(inner, dict) else {}
        if last == _PRESET:
            table.clear()  # the settings of the file, such as that of a run, would hide all that the preset says
        try:
            table[last] = parse_yaml(text)
        except ValueError as error:
            raise RecipeError(f"The value of --set {brief(change)} is not YAML ({error}).") from error
    return found


def recipe_from(values: Mapping[str, Any]) -> Recipe:
    """Build a recipe from values by name, as a YAML file holds them, and check it.

    `about` may be a table whose texts, in its order, are the sentences; so a recipe may replace some of another one.

    Raises:
        RecipeError: a key is unknown or missing, or a value is of the wrong type or range.
    """
    if isinstance(values, Mapping) and isinstance(about := values.get("about"), Mapping):
        values = {**values, "about": " ".join(str(text) for text in about.values() if text is not None)}
    recipe = read_settings(Recipe, values)
    if recipe.matcher.name not in MATCHERS:
        raise RecipeError(f"matcher.name is {recipe.matcher.name!r}; the matchers are {', '.join(MATCHERS)}.")
    settings = read_settings(MATCHERS[recipe.matcher.name].settings, recipe.matcher.settings, "matcher.settings")
    given = {name: getattr(settings, name) for name in recipe.matcher.settings}
    return replace(recipe, matcher=MatcherChoice(recipe.matcher.name, given))


def recipe_text(settings: Any) -> str:
    """Return a recipe, or another settings dataclass, as YAML text with every setting, which reads back as the same."""
    import yaml

    plain = json.loads(json.dumps(asdict(settings)))  # YAML has no tuples
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def read_settings(kind: type[Settings], given: object, place: str = "") -> Settings:
    """Build a settings dataclass from values by name, and check their types."""
    before = f"{place}." if place else ""
    if not isinstance(given, Mapping):
        raise RecipeError(f"{place or 'A recipe'} is {brief(given)}; it must be a table of settings.")
    if _PRESET in given and kind in _PRESETS:
        presets, name = import_module(_PRESETS[kind]).PRESETS, given[_PRESET]
        if not (isinstance(name, str) and name in presets):
            raise RecipeError(f"{before}{_PRESET} is {name!r}; the presets are {', '.join(presets)}.")
        given = {**asdict(presets[name]), **{key: value for key, value in given.items() if key != _PRESET}}
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # it is a dataclass
    if strangers := [str(key) for key in given if key not in known]:
        raise RecipeError(f"There is no setting {(before + strangers[0])[:80]}; there are {', '.join(known)}.")
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise RecipeError(f"The setting {before}{missing[0]} is missing.")
    try:
        return kind(**{key: _value(hints[key], value, f"{before}{key}") for key, value in given.items()})
    except RecipeError:
        raise
    except (TypeError, ValueError, UsageError) as error:
        raise RecipeError(f"{place}: {error}" if place else str(error)) from error


def _value(hint: Any, given: object, place: str) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if given is not None and (tables := [one for one in kinds if is_dataclass(one)]):
        return read_settings(tables[0], given, place)  # type: ignore[arg-type]  # a class, not one of its objects
    if isinstance(given, int) and abs(given) >= LARGEST:
        raise RecipeError(f"{place} is {brief(given)}; whole numbers in recipes are below 2^63.")
    for kind in kinds:
        try:
            return _converted(kind, given)
        except (TypeError, ValueError, OverflowError):
            continue
    wanted = " or ".join(word for kind in kinds for word in _words(kind))
    raise RecipeError(f"{place} is {brief(given)}; it must be {wanted}.")


def _converted(kind: Any, given: Any) -> Any:
    origin = get_origin(kind) or kind
    if origin is tuple and isinstance(given, (list, tuple)):
        parts = get_args(kind)
        kinds = parts[:1] * len(given) if parts[-1] is Ellipsis else parts
        return tuple(_converted(one, value) for one, value in zip(kinds, given, strict=True))
    if origin is Literal and any(given == one and type(given) is type(one) for one in get_args(kind)):
        return given
    if origin in (int, float) and isinstance(given, str):
        return origin(given)  # YAML 1.1 takes 1e-4 for text
    if origin is float and type(given) is int:
        return float(given)
    if origin is Any or type(given) is origin:
        return given
    raise TypeError(kind)


def _words(kind: Any) -> Iterator[str]:
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "null",
        dict: "a table",
    }
    if get_origin(kind) is Literal:
        yield from (repr(choice) for choice in get_args(kind))
    elif get_origin(kind) is tuple:
        parts = get_args(kind)
        count = "a list of" if parts[-1] is Ellipsis else f"{len(parts)} values, each"
        yield f"{count} {next(_words(parts[0]))}"
    else:
        yield "a table of settings" if is_dataclass(kind) else names.get(get_origin(kind) or kind, str(kind))
