"""The source bias in drawn worlds: training captions belong to a generator's mirrors of real clips too often.

A row is right where the real clip of a caption is first in a gallery of all real test clips and all their mirrors. The
win rate, written down beside it, is the share of captions whose real clip stands above its mirror: 50 % is no
preference, and what is above that is bought with the opposite one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.evidence.rows import (
    BASELINE,
    PLAIN_ROWS,
    REFERENCE,
    SEARCH_S,
    TRAINING_S,
    Evidence,
    Kind,
    Place,
    Row,
)
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    examples_of,
    found_by,
    learned,
    plain_recipe,
    values_of,
)
from benchmarks.worlds.sources import MARK, captioned, draw_mirrored_world
from evenreel.checkpoint.architecture import module
from evenreel.corpus import make_corpus, own_clip
from evenreel.corpus.counterparts import sources_of
from evenreel.debias.source.contrast import PRESETS
from evenreel.debias.source.level import levelled, recognised_sources, source_levels
from evenreel.debias.source.vector import PRESETS as P_PRESETS
from evenreel.debias.source.vector import caption_vectors, corrected_scores, video_vectors
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.training.batches import FeatureExamples, pairs_of
from evenreel.training.recipe import Recipe
from evenreel.types import CAMERA, FloatArray, ScoreBlocks

WIN_RATE, CONTINUED = "win rate", "continued"
COIN = 2_000
"""Added to the seed of what the reference is told."""
HELD_CLIPS = 4_000
"""Training clips among which wrong answers are looked for."""
ALL_MIRRORS, OWN_MIRRORS = "the real clip of every generated one", "a mirror of every real training clip"
OWN_SOURCES, GALLERY_SOURCES = "sources of the training clips", "sources of the gallery clips"

MOVED = {
    "printed": "p of real test clips, added to real clips (Generative Ghost, 5.2)",
    "released": "p of generated test clips, taken from real clips, as the code has it",
}


def p_rows() -> dict[str, Row]:
    """Rows of p-vectors, of the contrastive model and of the control, by dot products and by cosines."""
    kinds: dict[str, tuple[Kind, str]] = {
        "p": ("published", "by the released contrastive model"),
        "p of continued": ("control", "by the model that went on without correction"),
    }
    ways = {"": "", ", cosines": "; moved vectors are brought to unit length"}
    return {
        f"{name}, {form}{way}": Row(
            kind, f"{moved}, {whose}{said}", steps=2.0, models=2, uses=GALLERY_SOURCES, unavailable=True
        )
        for name, (kind, whose) in kinds.items()
        for way, said in ways.items()
        for form, moved in MOVED.items()
    }


ROWS: Mapping[str, Row] = {
    "untrained, mean frame": Row("untrained", "the mean frame against the sentence"),
    BASELINE: Row("baseline", "plain training"),
    REFERENCE: Row("admission", "each caption has its real clip or the mirror, by a coin"),
    **PLAIN_ROWS,
    CONTINUED: Row(
        "control", "the baseline trained on for as many steps on the same clips, without correction", steps=2.0
    ),
    "contrastive, printed": Row(
        "published",
        "the baseline trained on with the hinge on cosines, weight 1, summed over pairs (Generative Ghost, 5.1)",
        steps=2.0, uses=ALL_MIRRORS, unavailable=True,
    ),
    "contrastive, released": Row(
        "published", "the same as the code has it: logits, weight 0.002, half of the batch",
        steps=2.0, uses=ALL_MIRRORS, unavailable=True,
    ),
    "contrastive, own mirrors": Row(
        "published", "the printed form with pairs of those clips alone that are real in training",
        steps=2.0, uses=OWN_MIRRORS,
    ),
    **p_rows(),
    "neutral, own mirrors": Row(
        "ours",
        "the baseline trained on with the two-sided term (preset `neutral`) and pairs of the same clips",
        steps=2.0, uses=OWN_MIRRORS,
    ),
    "sources balanced": Row("ours", "real and generated clips drawn equally often", uses=OWN_SOURCES),
    "both sides": Row(
        "ours", "half of the generated clips moved by the mean difference of sources within texts, in training",
        uses=OWN_SOURCES,
    ),
    "direction of errors": Row(
        "ours",
        "taken out of captions: the mean difference of the clip that is wrongly first and the right one, among "
        f"{HELD_CLIPS:,} training clips",
    ),
    "rank in source": Row(
        "ours", "the rank of a clip among gallery clips of its source, as recognised", uses=OWN_SOURCES
    ),
    "levelled": Row(
        "ours",
        "scores of generated clips, as recognised, lowered by as much as their right answers score higher on "
        "validation",
        uses=OWN_SOURCES + " and of validation", chosen=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class MirroredParts:
    """Splits of a world, with both clips of each pair, but for those of val that have no caption."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld


@dataclass(frozen=True, eq=False)
class Made:
    """Scores of the test split, seconds that training them took and seconds that searching did."""

    scores: ScoreBlocks
    training_s: float
    searched_s: float


def drawn(place: Place) -> MirroredParts:
    """The world of a seed and strength."""
    clips = clips_of(place)
    world = draw_mirrored_world(clips, place.strength, place.seed)
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return MirroredParts(train, captioned(val), test)


def measured_rows(parts: MirroredParts, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Make some rows on a world."""
    models = Models(parts, place)
    for row in rows:
        made = models.make(row)
        yield row, figures_of(made, parts.test)


def figures_of(made: Made, test: FeatureWorld) -> Figures:
    """Where the real clips of captions are in the gallery, and costs."""
    relevance = own_clip(test.corpus, made.scores.caption_ids, made.scores.video_ids)
    whole = slice(0, relevance.shape[0]), slice(0, relevance.shape[1])
    real = relevance.block(*whole).argmax(1)
    place = {name: column for column, name in enumerate(made.scores.video_ids)}
    mirrors = [place[made.scores.video_ids[column] + MARK] for column in real]
    values, rows = made.scores.block(*whole), np.arange(len(real))
    lead = values[rows, real] - values[rows, mirrors]
    return {
        **found_by(made.scores, test, relevance.block(*whole)),
        WIN_RATE: 100 * float(np.mean((lead > 0) + (lead == 0) / 2)),
        TRAINING_S: made.training_s,
        SEARCH_S: made.searched_s,
    }


class Models:
    """The models of one world, each trained when it is first needed.

    Args:
        parts: the world.
        place: its seed and size.
    """

    def __init__(self, parts: MirroredParts, place: Place) -> None:
        self.parts, self.place = parts, place
        self.plain = plain_recipe(BASELINE, place)
        self.seed = place.seed

    @cached_property
    def baseline(self) -> tuple[Matcher, float]:
        """Plain training."""
        return self.learn(self.plain)

    @cached_property
    def continued(self) -> tuple[Matcher, float]:
        """The baseline, trained on."""
        return self.went_on(self.plain)

    @cached_property
    def released(self) -> tuple[Matcher, float]:
        """The baseline, trained on with the published term as its code has it."""
        return self.contrastive("release", self.every_pair)

    def make(self, row: str) -> Made:
        """The scores of a row."""
        trained: dict[str, Callable[[], tuple[Matcher, float]]] = {
            BASELINE: lambda: self.baseline,
            REFERENCE: lambda: self.learn(self.plain, by_coin(self.parts.train, self.seed + COIN)),
            **{name: partial(self.learn, plain_recipe(name, self.place)) for name in PLAIN_ROWS},
            CONTINUED: lambda: self.continued,
            "contrastive, printed": lambda: self.contrastive("paper", self.every_pair),
            "contrastive, released": lambda: self.released,
            "contrastive, own mirrors": lambda: self.contrastive("paper", self.own_pairs),
            "neutral, own mirrors": lambda: self.contrastive("neutral", self.own_pairs),
            "sources balanced": lambda: self.learn(self.plain, examples=sources_balanced(self.parts.train)),
            "both sides": lambda: self.learn(self.plain, both_sides(self.parts.train, self.seed)),
        }
        if row in trained:
            matcher, training_s = trained[row]()
            return self.searched(lambda: self.scores(matcher), training_s)
        if row.startswith("p"):
            return self.moved(row)
        if row.startswith("untrained"):
            test = self.parts.test
            return self.searched(lambda: as_scores(cosines(test.texts, test.videos), test), 0.0)
        read = {
            "direction of errors": lambda: self.without(error_direction(self.baseline[0], self.parts.train, self.seed)),
            "rank in source": self.ranked_in_source,
            "levelled": self.levelled,
        }[row]
        return self.searched(read, self.baseline[1])

    def searched(self, read: Callable[[], ScoreBlocks], training_s: float) -> Made:
        """Scores with the seconds of processor time that they took."""
        begun_s = time.process_time()
        scores = read()
        return Made(scores, training_s, time.process_time() - begun_s)

    def learn(
        self, asked: Recipe, part: FeatureWorld | None = None, examples: FeatureExamples | None = None
    ) -> tuple[Matcher, float]:
        """A fresh training."""
        return learned(asked, part or self.parts.train, self.parts.val, examples=examples)

    def went_on(self, asked: Recipe, examples: FeatureExamples | None = None) -> tuple[Matcher, float]:
        """A training from the weights of the baseline; seconds are those of both."""
        before, seconds = self.baseline
        start = module(before).state_dict()
        matcher, more_s = learned(asked, self.parts.train, self.parts.val, start, examples)
        return matcher, seconds + more_s

    @property
    def every_pair(self) -> dict[str, str]:
        """All real training clips and their mirrors, whichever has the caption."""
        return {name.removesuffix(MARK): name for name in self.parts.train.videos.ids if name.endswith(MARK)}

    @property
    def own_pairs(self) -> dict[str, str]:
        """The real clips among those that have captions, and their mirrors."""
        clips = self.parts.train.corpus.captions["clip_id"]
        return {name: name + MARK for name in clips if not name.endswith(MARK)}

    def contrastive(self, preset: str, mirrors: Mapping[str, str]) -> tuple[Matcher, float]:
        """The baseline, trained on with a term on mirrors."""
        train = self.parts.train
        pairs = pairs_of(train.corpus, train.texts.ids, train.videos.ids, mirrors)
        examples = FeatureExamples(pairs, train.texts, train.videos)
        return self.went_on(replace(self.plain, debias=PRESETS[preset]), examples)

    def scores(self, matcher: Matcher) -> ScoreBlocks:
        """Scores of the test split."""
        return as_scores(values_of(matcher, self.parts.test), self.parts.test)

    def moved(self, row: str) -> Made:
        """Real test clips moved by a p-vector in the space of the baseline."""
        (before, _), test = self.baseline, self.parts.test
        after, training_s = self.continued if "continued" in row else self.released
        form = replace(P_PRESETS["paper" if "printed" in row else "release"], normalised="cosines" in row)

        def read() -> ScoreBlocks:
            tables = video_vectors(before, test.videos), video_vectors(after, test.videos)
            return corrected_scores(caption_vectors(before, test.texts), tables, test.corpus, form)

        return self.searched(read, training_s)

    def without(self, direction: FloatArray) -> ScoreBlocks:
        """Scores of the baseline with a direction taken out of the captions."""
        matcher, test = self.baseline[0], self.parts.test
        texts, away = caption_vectors(matcher, test.texts).values, direction / np.linalg.norm(direction)
        texts = texts - np.outer(texts @ away, away)
        return as_scores(texts @ video_vectors(matcher, test.videos).values.T, test)

    @cached_property
    def recognised(self) -> dict[str, str]:
        """The source of each test clip by its mean frame, learned from the training clips that have captions."""
        known = captioned(self.parts.train)
        source_of = sources_of(known.corpus)
        sources = [source_of[name] for name in known.videos.ids]
        found = recognised_sources(mean_frames(known), sources, mean_frames(self.parts.test))
        return dict(zip(self.parts.test.videos.ids, found, strict=True))

    def levelled(self) -> ScoreBlocks:
        """Scores of the baseline less the levels of sources."""
        matcher, val = self.baseline[0], self.parts.val
        levels = source_levels(as_scores(values_of(matcher, val), val), val.corpus, sources_of(val.corpus))
        return levelled(self.scores(matcher), levels, self.recognised)

    def ranked_in_source(self) -> ScoreBlocks:
        """Ranks of clips among those of their source, below 0, those of both sources alike."""
        test, scores = self.parts.test, values_of(self.baseline[0], self.parts.test)
        sources = np.array([self.recognised[name] for name in test.videos.ids])
        ranks = np.empty(scores.shape, np.float32)
        for source in np.unique(sources):
            own = sources == source
            ranks[:, own] = (-scores[:, own]).argsort(1).argsort(1)
        return as_scores(-ranks, test)


def by_coin(part: FeatureWorld, seed: int) -> FeatureWorld:
    """The split with captions that belong to the real clip or to the mirror, by a coin."""
    captions = part.corpus.captions
    coin = np.random.default_rng(seed).random(captions.height) < 0.5
    real = pl.col("clip_id").str.strip_suffix(MARK)
    own = pl.when(pl.Series(coin)).then(real + MARK).otherwise(real)
    return part.among(make_corpus(part.corpus.clips, captions.with_columns(own.alias("clip_id"))))


def sources_balanced(part: FeatureWorld) -> FeatureExamples:
    """Examples that are drawn so that both sources are in half of the pairs."""
    examples = examples_of(part)
    made = generated(part)[examples.pairs.clips]
    weights = np.where(made, 0.5 / made.mean(), 0.5 / (1 - made.mean()))
    return replace(examples, pairs=replace(examples.pairs, weights=weights / weights.mean()))


def both_sides(part: FeatureWorld, seed: int) -> FeatureWorld:
    """The split with half of the generated clips moved to the real side, by the difference of means within texts."""
    pairs = examples_of(part).pairs
    means, made = mean_frames(part)[pairs.clips], generated(part)[pairs.clips]
    counts, sums = np.zeros((2, pairs.texts.max() + 1)), np.zeros((2, pairs.texts.max() + 1, means.shape[1]))
    np.add.at(counts, (made.astype(int), pairs.texts), 1)
    np.add.at(sums, (made.astype(int), pairs.texts), means)
    shared = counts.all(0)
    apart = sums[0, shared] / counts[0, shared, None] - sums[1, shared] / counts[1, shared, None]
    weights = 1 / (1 / counts[:, shared]).sum(0)
    offset = weights @ apart / weights.sum()
    moved = pairs.clips[made & (np.random.default_rng(seed).random(len(made)) < 0.5)]
    frames = part.videos.frames.copy()
    frames[moved] = frames[moved] + offset.astype(np.float16)
    return replace(part, videos=replace(part.videos, frames=frames))


def error_direction(matcher: Matcher, part: FeatureWorld, seed: int) -> FloatArray:
    """The mean of the clip that a training caption wrongly finds first, less that of its own clip."""
    pairs = examples_of(part).pairs
    some = np.random.default_rng(seed).permutation(len(pairs))[:HELD_CLIPS]
    texts = caption_vectors(matcher, part.texts).values[pairs.captions[some]]
    clips = video_vectors(matcher, part.videos).values[pairs.clips[some]]
    scores = texts @ clips.T
    scores[pairs.same(some).numpy()] = -np.inf
    wrong: NDArray[np.float32] = clips[scores.argmax(1)] - clips
    return wrong.mean(0)


def generated(part: FeatureWorld) -> NDArray[np.bool_]:
    """(V,) whether a clip is generated."""
    return (part.corpus.clips["source"] != CAMERA).to_numpy()


def mean_frames(part: FeatureWorld) -> FloatArray:
    """(V, D) mean frame of each clip."""
    return part.videos.frames.astype(np.float32).mean(1)


EVIDENCE = Evidence("drawn", "source", ROWS, drawn, measured_rows, beside=(WIN_RATE,))
