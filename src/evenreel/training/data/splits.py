"""Splits of a corpus that a recipe trains and selects on, and the data loaded for them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from evenreel.corpus.counterparts import counterparts, only_paired, with_generated
from evenreel.corpus.splits import split_corpus
from evenreel.corpus.tables import select
from evenreel.errors import CorpusError
from evenreel.training.data.pairs import needs_relevance
from evenreel.training.recipe import Data, Recipe, RecipeError
from evenreel.types import Corpus

if TYPE_CHECKING:
    from evenreel.encoders.trainable import TrainableTowers
    from evenreel.features.pool import SetAside
    from evenreel.training.data.examples import TrainingExamples
    from evenreel.training.ensemble.trimmed import Trimmed
    from evenreel.training.loop.run_folder import Facts


class CorpusSplits(NamedTuple):
    """Splits of a corpus that a recipe trains and selects on.

    Attributes:
        learned: training part; with `debias` it has the counterparts of all its clips.
        selected: part that the model is selected on; None for none.
        mirrors: generated clip by the real clip that it mirrors; None without `debias`.
        relevance: whether training needs degrees of relevance.
        trimmed: clips left out of the training part for their length; None without `trim`.
    """

    learned: Corpus
    selected: Corpus | None
    mirrors: Mapping[str, str] | None = None
    relevance: bool = False
    trimmed: Trimmed | None = None

    @property
    def both(self) -> tuple[Corpus, ...]:
        """Both splits, the one to train on and the one to select on, or the former alone."""
        return (self.learned,) if self.selected is None else (self.learned, self.selected)


@dataclass(frozen=True)
class EncoderUsed:
    """Encoder of the features that a run trains on.

    Attributes:
        encoder_id: the name it can be loaded by.
        weights_hash: digest of its weights and settings, before any training.
        rule: rule by which frames are sampled.
        windows: number of stretches of a clip whose on-screen text is given to the matcher; None for none.
        words_from: where that text is from, `ocr` or `corpus`; None for none.
    """

    encoder_id: str
    weights_hash: str
    rule: str
    windows: int | None = None
    words_from: str | None = None


class LoadedSplits(NamedTuple):
    """Examples of both splits, of features or of pixels.

    Attributes:
        learned: examples to train on.
        selected: examples that the model is selected on; None for none.
        validation: captions and clips of `selected`, without those that cannot be used; None for none.
        encoder: encoder of the features.
        dimension: length D of the features.
        source: what identifies the data; a resumed run must find it as it was.
        set_aside: clips of either split that take no part.
        towers: towers that make features of pixels and tokens; None where examples are features.
    """

    learned: TrainingExamples
    selected: TrainingExamples | None
    validation: Corpus | None
    encoder: EncoderUsed
    dimension: int
    source: Facts
    set_aside: tuple[SetAside, ...]
    towers: TrainableTowers | None = None


def corpus_splits(corpus: Corpus, recipe: Recipe) -> CorpusSplits:
    """Split a corpus into the parts that a recipe trains and selects on, trimmed and with mirrors where it says so.

    Raises:
        CorpusError: a split is missing or empty, mirrors are missing or too few, or no clip would be left by `trim`.
        RecipeError: `trim` has no split to compare lengths with.
    """
    learned, selected = parts_of(corpus, recipe.data, recipe.loop.seed)
    mirrors = trimmed = None
    if recipe.trim is not None:
        from evenreel.training.ensemble.trimmed import trimmed_corpus

        target = _target(corpus, recipe, selected)
        trimmed = trimmed_corpus(learned, target, recipe.trim, recipe.loop.seed)
        learned = trimmed.corpus
    if recipe.debias is not None:
        whole = select(corpus, split=recipe.data.train)
        mirrors = mirrors_of(whole, recipe.data.generated_group)
        learned = with_other_clips(learned, whole, mirrors)
    return CorpusSplits(learned, selected, mirrors, needs_relevance(recipe), trimmed)


def _target(corpus: Corpus, recipe: Recipe, selected: Corpus | None) -> Corpus:
    """Return the part whose classes are the measure of `trim`: what is selected on, or another split as it would be."""
    named = None if recipe.trim is None else recipe.trim.target
    if named is None and selected is not None:
        return selected
    _, target = parts_of(corpus, replace(recipe.data, validation=named, held_out=0.0), recipe.loop.seed)
    if target is None:
        raise RecipeError("trim has no split to compare lengths with: give data.validation or trim.target.")
    return target


def parts_of(corpus: Corpus, data: Data, seed: int) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into the part to train on and the part that the model is selected on.

    In the training part, a share `data.generated_share` of the real clips is replaced by the generated clips that
    mirror them; other generated clips are left out, so a model is selected on real clips alone.

    Raises:
        CorpusError: a split is not in the corpus, nothing is left of one, there are too few mirrors for the share, or
            none of the group that is named.
    """
    learned, selected = _parts(corpus, data, seed)
    if data.generated_share or data.generated_group or counterparts(learned).height:
        learned = with_generated(learned, data.generated_share, seed, data.generated_group)
    if selected is not None and counterparts(selected).height:
        selected = with_generated(selected, 0.0, seed)
    return learned, selected


def _parts(corpus: Corpus, data: Data, seed: int) -> tuple[Corpus, Corpus | None]:
    """Split the corpus as `parts_of` does, with all clips."""
    whole = select(corpus, split=data.train)
    if data.validation is not None:
        return whole, select(corpus, split=data.validation)
    if not data.held_out:
        return whole, None
    kept_out = _held_out(whole, data.held_out, seed)
    return select(whole, where=~kept_out), select(whole, where=kept_out)


def _held_out(corpus: Corpus, share: float, seed: int) -> pl.Expr:
    """The condition on clips that are kept out of training; at least one video is, and one is not."""
    dealt = split_corpus(corpus, {"train": 1.0 - share, "held_out": share}, seed)
    names = dealt.clips.filter(pl.col("split") == "held_out")["clip_id"]
    if not 0 < len(names) < corpus.clips.height:
        raise CorpusError(
            f"data.held_out is {share}, which leaves {len(names)} of {corpus.clips.height} clips for selection; "
            "both parts need some."
        )
    return pl.col("clip_id").is_in(names.implode())


def mirrors_of(corpus: Corpus, group: str | None = None) -> dict[str, str]:
    """Return the id of the generated clip that mirrors each real clip, by the real one's id.

    Args:
        corpus: corpus to search.
        group: generated clips of this group; None: of the only one that there is.

    Raises:
        CorpusError: no clip has a mirror, several groups have some and none is named, or none has this name.
    """
    pairs = counterparts(only_paired(corpus, group))
    return dict(pairs.select("clip_id", "generated_id").iter_rows())


def with_other_clips(part: Corpus, whole: Corpus, mirrors: Mapping[str, str]) -> Corpus:
    """Append the counterparts (mirrors, or the real clips they mirror) of a split's clips to it, without captions."""
    own = set(part.clips["clip_id"])
    wanted = {clip for pair in mirrors.items() if own & set(pair) for clip in pair if clip not in own}
    others = whole.clips.filter(pl.col("clip_id").is_in(list(wanted)))
    return Corpus(pl.concat([part.clips, others]), part.captions)


def usable_part(part: Corpus, clip_ids: Collection[str], set_aside: Sequence[SetAside], remedy: str = "") -> Corpus:
    """Select the clips of a part of a corpus that can be used, with their captions.

    Raises:
        CorpusError: no clip can be used; the message has the reason of the first one.
    """
    usable = pl.col("clip_id").is_in(list(clip_ids))
    if part.clips.filter(usable).height == 0:
        raise CorpusError(_none_left(part, set_aside) + remedy + ".")
    return select(part, where=usable)


def _none_left(part: Corpus, set_aside: Sequence[SetAside]) -> str:
    """Word that no clip can be used, and why the first of them cannot."""
    sentence = f"Not one of the {part.clips.height:,} clips of a split can be used"
    own = set(part.clips["clip_id"])
    first = next((one for one in set_aside if one.clip_id in own), None)
    return sentence if first is None else f"{sentence}: {first.clip_id} ({first.path}): {first.sentence.rstrip('.')}"


def digest(words: Iterable[str]) -> str:
    """Compute a hexadecimal digest of texts, in their order."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
