"""The p-vector: how debiasing moves the vectors of videos, and the effect of adding it to real clips.

Generative Ghost, section 5.2 and Tables 7 and 8. With h_i the vector that the original model gives clip i, and h^d_i
that of the debiased model for the same input, p_i = h^d_i - h_i; p is the mean of all p_i. It is added to the vectors
of real clips in the original model's space, and the ranking among real and generated clips is measured again.

The paper's text takes p_i of real clips and adds it; its released code takes p_i of generated clips, subtracts it, and
scores moved clips with the captions of another model than the others. Both are presets here, and the captions are those
of the original model for every clip. For p with frames in random order (the paper's p_random), give both models videos
that `evenreel.edits.frame_order.reordered` has changed.

Similar p_i alone are no trace of a generator: any fine-tuning moves all vectors by much the same.
`diagnose` therefore takes the same differences of a control, a model fine-tuned on real pairs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.counterparts import counterparts
from evenreel.errors import UsageError
from evenreel.similarity.vectors import EmbeddingTable, VectorScores
from evenreel.types import Corpus, ScoreNotes, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.matchers import Matcher
    from evenreel.similarity.tiles import Encoded

Array = NDArray[Any]

Source = Literal["real", "generated"]


@dataclass(frozen=True)
class PVector:
    """Settings of a p-vector, and of adding it to real clips.

    Attributes:
        source: clips, `real` or `generated`, on whose vectors the two models are compared.
        sign: 1 adds the p-vector to the vectors of real clips, -1 subtracts it.
        normalised: whether to scale all vectors to unit length, before the models are compared and after clips were
            moved, so that scores are cosines. Otherwise vectors are taken as they come and scores are dot products:
            then moving all real clips by p adds one number, the caption's product with p, to all their scores.
    """

    source: Source = "real"
    sign: Literal[1, -1] = 1
    normalised: bool = False

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise UsageError(f"The source of a p-vector is {self.source!r}; it must be real or generated.")
        if self.sign not in (1, -1):
            raise UsageError(f"The sign of a p-vector is {self.sign}; it must be 1 or -1.")

    def __str__(self) -> str:
        verb, preposition = ("added", "to") if self.sign == 1 else ("subtracted", "from")
        return f"the p-vector of {self.source} clips {verb} {preposition} real ones"


PRESETS: Mapping[str, PVector] = MappingProxyType(
    {"paper": PVector("real", 1), "release": PVector("generated", -1)},
)
"""The paper's formula, and what its released code does."""


def video_vectors(matcher: Matcher, features: VideoFeatures) -> EmbeddingTable:
    """Encode videos with a matcher that compares a single vector of each with captions.

    Raises:
        UsageError: the matcher has more than one vector a video, or the features do not fit it.
    """
    from evenreel.matchers.scoring import encode_videos

    return _single(encode_videos(matcher, features), "video")


def caption_vectors(matcher: Matcher, features: TextFeatures) -> EmbeddingTable:
    """Encode captions with a matcher that compares a single vector of each with videos.

    Raises:
        UsageError: the matcher has more than one vector a caption, or the features do not fit it.
    """
    from evenreel.matchers.scoring import encode_texts

    return _single(encode_texts(matcher, features), "caption")


def p_vectors(original: Array, debiased: Array, normalised: bool = False) -> Array:
    """Compute how debiasing moved each clip's vector, p_i = h^d_i - h_i, (V, D) in double precision.

    Args:
        original: (V, D) vectors of some clips by the original model.
        debiased: (V, D) vectors of the same clips by the debiased model.
        normalised: whether to scale vectors to unit length first.

    Raises:
        UsageError: the two differ in shape, or are not finite.
    """
    if original.ndim != 2 or original.shape != debiased.shape or not original.size:
        raise UsageError(
            f"The original vectors have the shape {original.shape}, the debiased ones {debiased.shape}; give both "
            "models' vectors of the same clips, one a row."
        )
    before, after = _prepared(original, normalised), _prepared(debiased, normalised)
    return after - before


def shifted(vectors: Array, p: Array, settings: PVector) -> Array:
    """Add a p-vector (D,) to vectors (V, D), or subtract it, as the settings say; the number type stays.

    Raises:
        UsageError: p has another length than the vectors.
    """
    if p.shape != vectors.shape[1:]:
        raise UsageError(f"A p-vector of the shape {p.shape} cannot be added to vectors of {vectors.shape[1:]}.")
    moved = _prepared(vectors, settings.normalised) + settings.sign * p
    return _prepared(moved, settings.normalised).astype(vectors.dtype)


def shifted_scores(
    captions: EmbeddingTable, real: EmbeddingTable, generated: EmbeddingTable, p: Array, settings: PVector
) -> VectorScores:
    """Score captions with real clips moved by the p-vector and with generated clips as they are.

    Args:
        captions: vectors of captions by the original model.
        real: vectors of real clips by the original model; these are moved.
        generated: vectors of generated clips by the original model.
        p: (D,), the mean of `p_vectors`.
        settings: sign, and whether scores are cosines.

    Raises:
        UsageError: p has another length than the vectors, or a vector is zero and has no cosine.
    """
    prepared = _prepared(generated.values, settings.normalised).astype(generated.values.dtype)
    values = np.concatenate([shifted(real.values, p, settings), prepared])
    sentences = _prepared(captions.values, settings.normalised).astype(captions.values.dtype)
    clips = EmbeddingTable((*real.ids, *generated.ids), values)
    return VectorScores(EmbeddingTable(captions.ids, sentences), clips, ScoreNotes(uses=(str(settings),)))


def corrected_scores(
    captions: EmbeddingTable,
    models: tuple[EmbeddingTable, EmbeddingTable],
    corpus: Corpus,
    settings: PVector,
    group: str | None = None,
) -> VectorScores:
    """Compute the p-vector of a corpus's clips, and the scores after real clips are moved by it, as in the paper.

    The p-vector is taken from the very clips that are measured; for its effect on other clips, take it from another
    split with `p_vectors` and call `shifted_scores`.

    Args:
        captions: vectors of the corpus's captions by the original model.
        models: vectors of its clips by the original and by the debiased model.
        corpus: corpus with the pairs of real clips and their mirrors; other clips are ignored.
        settings: settings of the p-vector.
        group: group of generated clips to use (generator and setting); None: all.

    Raises:
        UsageError: there is no pair of clips, or one has no vector.
    """
    pairs = counterparts(corpus, group)
    ids = {"real": pairs["clip_id"].unique(maintain_order=True).to_list(), "generated": pairs["generated_id"].to_list()}
    if not ids["real"]:
        raise UsageError("The corpus has no real clip with a generated counterpart; say in pair_id which they mirror.")
    original, debiased = models
    chosen = ids[settings.source]
    p = p_vectors(original.of(chosen).values, debiased.of(chosen).values, settings.normalised).mean(axis=0)
    return shifted_scores(captions, original.of(ids["real"]), original.of(ids["generated"]), p, settings)


@dataclass(frozen=True)
class Alike:
    """Similarity of the vectors p_i, by which debiasing moved clips, within a set of clips.

    Attributes:
        count: number of clips whose p_i is not 0; others have no direction and are left out.
        length: mean length of p_i over all clips.
        cosine: mean cosine between the p_i of two clips: 1 where all point the same way, 0 by chance; NaN for fewer
            than two.
        share_along_mean: share of the squared lengths along the mean; about 1 / count + 1 / D by chance, NaN where the
            mean is zero.
    """

    count: int
    length: float
    cosine: float
    share_along_mean: float


@dataclass(frozen=True, eq=False)
class DirectionAgreement:
    """Agreement of the vectors p_i, by which debiasing moved clips, within and between sets of clips.

    Attributes:
        alike: similarity within each set, by its name.
        cosines: (S, S) cosines of the means of the sets, in the order of `alike`; NaN where one is zero.
    """

    alike: dict[str, Alike]
    cosines: NDArray[np.float64]

    def cosine(self, one: str, other: str) -> float:
        """Return the cosine between the mean vectors of two sets, given by their names."""
        names = list(self.alike)
        return float(self.cosines[names.index(one), names.index(other)])


def diagnose(sets: Mapping[str, Array]) -> DirectionAgreement:
    """Compare the vectors p_i, by which debiasing moved clips, within and between sets of clips.

    Useful sets are p_i of real clips and of generated ones, and both of a control that was fine-tuned on real pairs
    alone. If debiasing distinguishes the two, the cosine between real and generated is near -1; near 1, all clips were
    moved alike, which favours neither. An effect that the control shows too is due to fine-tuning.

    Args:
        sets: (V, D) vectors of each set by its name, from `p_vectors`; V may differ.
    """
    means = np.stack([p.mean(axis=0) for p in sets.values()])
    lengths = np.linalg.norm(means, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (means @ means.T) / np.outer(lengths, lengths)
    return DirectionAgreement({name: alike(p) for name, p in sets.items()}, np.clip(cosines, -1, 1))


def alike(p: Array) -> Alike:
    """Measure how similar vectors (V, D) are to each other, in time and memory proportional to V.

    >>> alike(np.array([[1.0, 0.0], [2.0, 0.0]])).cosine
    1.0
    """
    lengths = np.linalg.norm(p, axis=1)
    moved = lengths > 0
    count = int(moved.sum())
    total = (p[moved] / lengths[moved, None]).sum(axis=0)
    cosine = (total @ total - count) / (count * (count - 1)) if count > 1 else np.nan  # sum over pairs of two clips
    mean = p.mean(axis=0)
    across = (mean @ mean) * (lengths**2).sum()
    share = ((p @ mean) ** 2).sum() / across if across else np.nan
    return Alike(count, float(lengths.mean()), float(cosine), float(share))


def _single(encoded: Encoded, what: str) -> EmbeddingTable:
    from evenreel.similarity.tiles import tensors_of

    tensors = list(tensors_of(encoded.state))
    if len(tensors) != 1 or tensors[0].dim() != 2:
        kept = getattr(encoded.state, "_fields", ("states of several matchers",))
        raise UsageError(
            f"A p-vector needs matchers that keep one vector a {what}, such as mean_pool and temporal; this one keeps "
            f"{' and '.join(kept)}."
        )
    return EmbeddingTable(encoded.ids, tensors[0].float().numpy())


def _prepared(vectors: Array, normalised: bool) -> NDArray[np.float64]:
    """Convert vectors to double precision, and to unit length where that is set."""
    values = vectors.astype(np.float64)
    if not np.isfinite(values).all():
        raise UsageError(f"Vector {int(np.argwhere(~np.isfinite(values))[0, 0])} has a component that is no number.")
    if not normalised:
        return values
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if not lengths.all():
        raise UsageError(
            f"Vector {int(np.argmin(lengths))} is zero and has no direction; compare vectors as they come."
        )
    return np.asarray(values / lengths)
