"""The splits of a corpus that a recipe trains and selects on: held-out videos, mirrors, clips trimmed for length."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.actions import Unit, actions_of, clip_lengths
from evenreel.corpus.counterparts import counterparts, only_paired, with_generated
from evenreel.corpus.tables import select, split_corpus
from evenreel.debias.frame_length import Trimming, trimmed, trimmed_at_random
from evenreel.errors import CorpusError
from evenreel.features.pool import SetAside
from evenreel.training.recipe import Data, Recipe, RecipeError, Trim
from evenreel.types import Corpus


class CorpusSplits(NamedTuple):
    learned: Corpus  # training part; with `debias` it has the counterparts of all its clips
    selected: Corpus | None  # part that the model is selected on; None for none
    mirrors: Mapping[str, str] | None = None  # generated clip by the real clip that it mirrors; None without `debias`
    relevance: bool = False  # whether training needs degrees of relevance
    trimmed: Trimmed | None = None  # clips left out of the training part for their length; None without `trim`

    @property
    def both(self) -> tuple[Corpus, ...]:
        return (self.learned,) if self.selected is None else (self.learned, self.selected)


@dataclass(frozen=True)
class EncoderUsed:
    """Encoder of the features that a run trains on."""

    encoder_id: str  # the name it can be loaded by
    weights_hash: str  # digest of its weights and settings, before any training
    rule: str  # rule by which frames are sampled
    windows: int | None = None  # number of stretches of a clip whose on-screen text the matcher is given
    words_from: str | None = None  # where that text is from, `ocr` or `corpus`


class ClipLengths(NamedTuple):
    """Lengths (V,) of clips in a unit; NaN where not known."""

    values: NDArray[np.float64]
    unit: Unit


@dataclass(frozen=True)
class Stratum:
    """Counts and lengths of the training clips in one stratum (range of lengths)."""

    number: int  # from 1
    clips: int
    captions: int
    shortest: float
    longest: float
    unit: Unit

    def __str__(self) -> str:
        return f"{self.clips:,} clips of {self.shortest:g} to {self.longest:g} {self.unit}, {self.captions:,} captions"


class Trimmed(NamedTuple):
    """Corpus after trimming, and counts of what was removed."""

    corpus: Corpus  # the clips that stay, with their captions
    clips: int  # number of clips left out
    classes: int  # number of classes whose clips are too short or too long on average, counted as by rule `all`
    sentence: str  # the counts in words


def corpus_splits(corpus: Corpus, recipe: Recipe) -> CorpusSplits:
    """Split a corpus into the parts that a recipe trains and selects on, trimmed and with mirrors where it says so."""
    learned, selected = parts_of(corpus, recipe.data, recipe.loop.seed)
    mirrors = cut = None
    if recipe.trim is not None:
        target = selected if recipe.trim.target is None else select(corpus, split=recipe.trim.target)
        if target is None:
            raise RecipeError("trim has no split to compare lengths with: give data.validation or trim.target.")
        cut = trimmed_corpus(learned, target, recipe.trim, recipe.loop.seed)
        learned = cut.corpus
    if recipe.debias is not None:
        whole = select(corpus, split=recipe.data.train)
        mirrors = mirrors_of(whole, recipe.data.generated_group)
        learned = with_other_clips(learned, whole, mirrors)
    return CorpusSplits(learned, selected, mirrors, needs_relevance(recipe), cut)


def needs_relevance(recipe: Recipe) -> bool:
    """Return whether a recipe's loss needs degrees of relevance: a ranking loss with mining `ran` or `ranp`."""
    if "mining" not in recipe.matcher.settings:  # of most matchers; their trainings need no ranking loss
        return False
    from evenreel.losses.ranking import BY_RELEVANCE

    return recipe.matcher.settings["mining"] in BY_RELEVANCE


def parts_of(corpus: Corpus, data: Data, seed: int) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into the part to train on and the part that the model is selected on.

    In the training part, a share `data.generated_share` of the real clips is replaced by the generated clips that
    mirror them; other generated clips are left out, so a model is selected on real clips alone.
    """
    learned, selected = select(corpus, split=data.train), None
    if data.validation is not None:
        selected = select(corpus, split=data.validation)
    elif data.held_out:
        dealt = split_corpus(learned, {"train": 1.0 - data.held_out, "held_out": data.held_out}, seed)
        names = dealt.clips.filter(pl.col("split") == "held_out")["clip_id"]
        if not 0 < len(names) < learned.clips.height:
            raise CorpusError(
                f"data.held_out is {data.held_out}, which leaves {len(names)} of {learned.clips.height} clips for "
                "selection; both parts need some."
            )
        kept_out = pl.col("clip_id").is_in(names.implode())
        learned, selected = select(learned, where=~kept_out), select(learned, where=kept_out)
    if data.generated_share or data.generated_group or counterparts(learned).height:
        learned = with_generated(learned, data.generated_share, seed, data.generated_group)
    if selected is not None and counterparts(selected).height:
        selected = with_generated(selected, 0.0, seed)
    return learned, selected


def mirrors_of(corpus: Corpus, group: str | None = None) -> dict[str, str]:
    """Return the id of the generated clip that mirrors each real clip, by the real one's id."""
    pairs = counterparts(only_paired(corpus, group))
    return dict(pairs.select("clip_id", "generated_id").iter_rows())


def with_other_clips(part: Corpus, whole: Corpus, mirrors: Mapping[str, str]) -> Corpus:
    """Append the counterparts (mirrors, or the real clips they mirror) of a split's clips to it, without captions."""
    own = set(part.clips["clip_id"])
    wanted = {clip for pair in mirrors.items() if own & set(pair) for clip in pair if clip not in own}
    others = whole.clips.filter(pl.col("clip_id").is_in(list(wanted)))
    return Corpus(pl.concat([part.clips, others]), part.captions)


def usable_part(part: Corpus, clip_ids: Collection[str], set_aside: Sequence[SetAside], remedy: str = "") -> Corpus:
    usable = pl.col("clip_id").is_in(list(clip_ids))
    if part.clips.filter(usable).height == 0:
        own = set(part.clips["clip_id"])
        first = next((one for one in set_aside if one.clip_id in own), None)
        why = "" if first is None else f": {first.clip_id} ({first.path}): {first.sentence.rstrip('.')}"
        raise CorpusError(f"Not one of the {part.clips.height:,} clips of a split can be used{why}{remedy}.")
    return select(part, where=usable)


def lengths_of(corpus: Corpus, clip_ids: Sequence[str]) -> ClipLengths:
    values, unit = clip_lengths(corpus)
    place = {clip_id: row for row, clip_id in enumerate(corpus.clips["clip_id"])}
    return ClipLengths(values[[place[clip_id] for clip_id in clip_ids]], unit)


def trimmed_corpus(learned: Corpus, target: Corpus, trim: Trim, seed: int) -> Trimmed:
    """Leave out training clips until each class is as long on average as in another corpus, or as many at random.

    (Frame-length bias, algorithm 1, see `evenreel.debias.frame_length.trimmed`.) A clip of several actions is left out
    when one of them is trimmed, since the action cannot be cut out of it; so a class may lose more clips than its own
    trimming requires, and may keep fewer than `trim.least`. Nothing of `target` is used but mean lengths.
    """
    height, both = learned.clips.height, learned.clips.height + target.clips.height
    actions = actions_of(Corpus(pl.concat([learned.clips, target.clips], how="diagonal"), learned.captions))
    own = actions.clips < height
    if unknown := len(np.unique(actions.clips[~np.isfinite(actions.lengths)])):
        raise CorpusError(
            f"The length of {unknown:,} of {both:,} clips is not known, and trim compares lengths: give the corpus "
            "frame_count, or start_s and end_s, of all clips; or set trim to null."
        )
    names, places = np.unique(actions.classes[~own], return_inverse=True)
    means = np.bincount(places, actions.lengths[~own]) / np.bincount(places)
    targets = dict(zip(names.tolist(), means.tolist(), strict=True))
    classes, lengths = actions.classes[own], actions.lengths[own]
    rows = trimmed(lengths, classes, targets, Trimming(trim.margin, trim.least))
    clips, of_classes = np.unique(actions.clips[own][rows]), len(np.unique(classes[rows]))
    if trim.rule == "random":
        clips = trimmed_at_random(np.zeros(height, np.int64), clips, np.random.default_rng(seed))
    kept = np.ones(height, np.bool_)
    kept[clips] = False
    manner = "at random, as many as for their length" if trim.rule == "random" else "for their length"
    sentence = (
        f"Left out {manner}: {len(clips):,} of {height:,} training clips ({len(clips) / height:.1%}; classes that are "
        f"trimmed: {of_classes:,}; margin {trim.margin:g} {actions.unit}; clips that a class keeps at least: "
        f"{trim.least})."
    )
    return Trimmed(select(learned, where=pl.lit(pl.Series(kept))), len(clips), of_classes, sentence)


def digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
