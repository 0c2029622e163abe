"""A drawn world of two domains: training clips are from a source whose camera and wording differ from the target's.

The target is a world of features as `evenreel.planted.worlds.vectors` draws it. A clip of the source is drawn like one
of the target, and then its frames x and words y (unit vectors, as rows) become

    x' = unit(sqrt(1 - offset) x L + sqrt(offset) o)        y' = y G

L turns some directions of the frames' space, in random planes, by an angle, and leaves of others a share of their
length; o is one unit vector for all frames. G turns all of the words' space, in random planes, by another angle. What
a word means in the target and in the source have the cosine of that angle, and a word says as much in either. Captions
of the source are by annotators of its own, and in training a noun n is shown by exp(f g_n) times as large a share of
the source's clips, up to a common factor, with g_n drawn from N(0, 1).

Queries are for a few clips of the target often, and for most seldom (`draw_queries`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.config import AT_LEAST_0, SHARE, check_settings, number
from evenreel.errors import UsageError
from evenreel.planted.worlds.drawing import FeatureWorld, contents_of, length_ranks, world_of
from evenreel.planted.worlds.settings import FrameShares, WordShares, WorldSettings
from evenreel.planted.worlds.splits import LEARNED, check_strength, rows_of_splits
from evenreel.planted.worlds.vectors import BLOCK_CLIPS, Contents, Stream, in_cone, stream, words_of
from evenreel.types import FloatArray, TextFeatures

_ANGLE = number("between 0 and 90", lambda value: 0 <= value <= 90)

SEARCHERS = range(1_000, 1_050)
"""Numbers of the people who ask, who are no annotators: those have the numbers from 0 on."""


@dataclass(frozen=True)
class DomainSettings:
    """Settings of a drawn world of two domains: how the source differs from the target, and what both share.

    Attributes:
        offset: share of the squared length of source frames that is a vector common to all of them.
        turned: share of the directions of the frames' space that are rotated.
        turn: angle of that rotation, in degrees.
        damped: share of other directions that are damped.
        damping: share of its length that a vector keeps along a damped direction.
        wording: angle by which the words' space is rotated, in degrees.
        frequencies: standard deviation of the logarithm of a noun's frequency in the source over that in the target.
        world: shares and sizes; lengths, of which nothing is planted here, have less effect than by default.
    """

    offset: float = 0.2
    turned: float = 0.5
    turn: float = 45.0
    damped: float = 0.25
    damping: float = 0.3
    wording: float = 30.0
    frequencies: float = 0.5
    world: WorldSettings = field(
        default_factory=lambda: WorldSettings(frame_shares=FrameShares(length=0.1), word_shares=WordShares(lasting=0.0))
    )

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("offset", "turned", "damped", "damping"), SHARE)
        angles = dict.fromkeys(("turn", "wording"), number("from 0 to 90", lambda value: 0 <= value <= 90))
        check_settings("the domains of a world", self, {**shares, **angles, "frequencies": AT_LEAST_0})
        if self.turned + self.damped > 1:
            raise UsageError(
                f"{self.turned:g} of the directions are turned and {self.damped:g} others damped; that is above 1."
            )

    @property
    def told(self) -> DomainSettings:
        """Settings by which a source clip looks and is described as in the target; who describes what stays."""
        return replace(self, offset=0.0, turned=0.0, damped=0.0, wording=0.0)


def draw_domains(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: DomainSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which training clips are from another domain than those that are searched.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`; those of the
            splits train and val may be of the source, all others are of the target and the same at every strength.
        strength: probability that a training clip is of the source; it is so at every higher strength too.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.

    Returns:
        A world whose clips have the column `domain`, source or target. A source clip of the split train shows the
        action of a training clip that was drawn by the source's frequencies.
    """
    chosen = settings or DomainSettings()
    check_strength(strength)
    learned = rows_of_splits(clips, ("train",))
    source = clips["split"].is_in(LEARNED).to_numpy() & (stream(seed, Stream.DOMAINS).random(len(learned)) < strength)
    shown = _shown(clips["noun"].to_numpy(), learned, source, chosen.frequencies, seed)
    table = clips.with_columns(
        clips["verb"].gather(shown), clips["noun"].gather(shown), domain=np.where(source, "source", "target")
    )
    lengths = table["length_s"].to_numpy()
    contents = contents_of(table, length_ranks(lengths, lengths[learned]), np.zeros(len(lengths)))
    people = contents.annotators
    contents = contents._replace(annotators=np.where(source, people + people.max() + 1, people))
    world = world_of(table, contents, chosen.world, seed)
    look, common, wording = domain_maps(chosen, seed)
    frames, words, sentence = world.videos.frames, world.texts.words, world.texts.sentence
    for rows in np.array_split(np.flatnonzero(source), 1 + len(source) // BLOCK_CLIPS):
        frames[rows] = in_cone(frames[rows].astype(np.float32) @ look, common, chosen.offset)
        words[rows], sentence[rows] = words[rows].astype(np.float32) @ wording, sentence[rows] @ wording
    return world


def domain_maps(settings: DomainSettings, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the maps from target to source: L (D, D) and the offset (D,) of frames, and G (D, D) of words (x L, y G)."""
    size, rng = settings.world.dimension, stream(seed, Stream.DOMAINS, 1)
    turned, damped = int(settings.turned * size) // 2 * 2, int(settings.damped * size)
    inner = np.eye(size)
    inner[:turned, :turned] = turn(turned, settings.turn)
    inner[turned : turned + damped] *= settings.damping
    basis, other = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    common = rng.standard_normal(size)
    maps = basis @ inner @ basis.T, common / np.linalg.norm(common), other @ turn(size, settings.wording) @ other.T
    look, offset, wording = (one.astype(np.float32) for one in maps)
    return look, offset, wording


def turn(size: int, degrees: float) -> NDArray[np.float64]:
    """Return the rotation (D, D), for rows, of pairs of neighbouring axes by an angle; a last single axis stays.

    >>> turn(3, 90).round(3).tolist()
    [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    turned, angle = np.eye(size), np.deg2rad(degrees)
    first = np.arange(0, size - 1, 2)
    turned[first, first] = turned[first + 1, first + 1] = np.cos(angle)
    turned[first, first + 1], turned[first + 1, first] = np.sin(angle), -np.sin(angle)
    return turned


@dataclass(frozen=True, eq=False)
class QueryLog:
    """Simulated queries to the clips of a target domain, with their right answers.

    Attributes:
        texts: features of Q queries, in the order in which they came.
        clips: (Q,) row of the clip that answers each query, among those searched; for measuring only, never for
            training.
    """

    texts: TextFeatures
    clips: Indices


def draw_queries(
    clips: pl.DataFrame, count: int, seed: int = 0, settings: DomainSettings | None = None, exponent: float = 1.0
) -> QueryLog:
    """Draw queries to the clips of a target domain, with a demand that falls with the clip's rank by Zipf's law.

    The r-th most wanted clip has a demand of r to the power -exponent.

    Args:
        clips: V annotated clips, all of the target, such as those of the split test.
        count: number Q of queries.
        seed: seed of the world that the clips are from.
        settings: settings of that world; None for the defaults.
        exponent: how unequal the demand is; at 0 it is the same for all clips.

    Returns:
        Queries in the target's wording, each with the habits of one of `SEARCHERS` and noise of its own.
    """
    chosen, rng = settings or DomainSettings(), stream(seed, Stream.QUERIES)
    demand = (1.0 + rng.permutation(clips.height)) ** -exponent
    rows = rng.choice(clips.height, count, p=demand / demand.sum())
    verbs, nouns = (clips[name].to_numpy().astype(np.int64)[rows] for name in ("verb", "noun"))
    nothing = np.zeros(count, np.int64)
    people = rng.integers(SEARCHERS.start, SEARCHERS.stop, count)
    asked = Contents(verbs, nouns, nothing, people, nothing.astype(float), nothing.astype(float))
    words = words_of(asked, chosen.world, seed, noise=Stream.QUERY_NOISE)
    ids = tuple(f"query {place}" for place in range(1, count + 1))
    return QueryLog(TextFeatures(ids, words.words, np.ones(words.words.shape[:2], np.bool_), words.sentence), rows)


def _shown(nouns: Indices, learned: NDArray[np.bool_], source: NDArray[np.bool_], spread: float, seed: int) -> Indices:
    """(V,) row of the clip whose action each clip shows: its own, but for training clips of the source."""
    rng, rows = stream(seed, Stream.DOMAINS, 2), np.arange(len(nouns))
    weights = learned * np.exp(spread * rng.standard_normal(int(nouns.max()) + 1))[nouns]
    drawn = rng.choice(len(nouns), len(nouns), p=weights / weights.sum())
    return np.where(learned & source, drawn, rows)
