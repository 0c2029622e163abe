"""Fit of a calibration on clips whose captions are known.

Libraries of several sizes are drawn from the clips. For each some queries are chosen that it shall have no answer to:
all clips that answer them are left out. Clips are drawn with weights that differ from query to query, so that some
answers are frequent and others rare. As many queries with an answer as without are asked, of each kind equally many,
and some that no clip at all answers.

Both regressions are penalised by squared weights of standardised signals. Each size, each kind of query, and queries
with and without an answer weigh equally; were all weighed together, kinds that are easier than others would be told
too little, and the others too much. 'Fits' and 'may fit' are quantiles of the probabilities of queries without an
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices, slices
from evenreel.errors import UsageError
from evenreel.language.folding import content_words
from evenreel.library.calibration.rule import (
    ANSWERED,
    PERHAPS,
    AnswerCalibration,
    LogisticRule,
    Thresholds,
    logistic,
)
from evenreel.library.calibration.signals import FIRST, NearestClips, asked_words, rivals
from evenreel.library.search.gallery import Opened
from evenreel.progress import Progress
from evenreel.types import Encoder, FloatArray

SIZES = (5, 15, 30, 60, 120, 250, 500, 1000, 2000, 5000, 10_000, 20_000)
FEWEST_CLIPS, FEWEST_QUERIES = 100, 50
MOST_QUERIES = 2_000
LEFT = 0.8
"""Share of the clips that the largest library drawn has; others answer the queries that it has no answer to."""

FEWEST_ABSENT = 20
"""Queries of so many words without an answer, at each size, that have thresholds of their own."""

RIDGE = 1e-4
"""Weight of the squared weights of standardised signals, beside the mean loss."""

TEXTS_AT_ONCE = 64


@dataclass(frozen=True)
class LabelledQuery:
    """A query and the clips that answer it.

    Attributes:
        text: words of the query.
        clip_ids: ids of the clips that answer it; empty where none does.
        kind: kind of query, of any name; a fit asks equally many queries of each kind.
    """

    text: str
    clip_ids: frozenset[str]
    kind: str = ""


@dataclass(frozen=True)
class CalibrationSettings:
    """Settings of a fit.

    Attributes:
        libraries: number of libraries drawn of each size.
        queries: number of queries with an answer for each library, and as many without an answer.
        seed: seed of the draws.
    """

    libraries: int = 24
    queries: int = 24
    seed: int = 0


@dataclass(frozen=True, eq=False)
class _Measured:
    """What is known of all clips; C clips, Q queries, N phrases."""

    right: Flags  # (Q, C)
    kinds: tuple[str, ...]
    z: FloatArray  # (Q, C)
    phrases: FloatArray  # (N, C)
    others: Flags  # (Q, N) phrases that say something else than the query
    words: FloatArray  # (Q, C) lowest z of a word of the query
    asked: Indices  # (Q,) words of each query

    def nearest(self, query: int, clips: Indices) -> tuple[NearestClips, Flags]:
        """The clips of a library nearest to a query, and whether each answers it."""
        z = self.z[query, clips].astype(np.float64)
        order = np.argsort(-z, kind="stable")[:FIRST]
        first = clips[order]
        margins = z[order] - self.phrases[self.others[query]][:, first].max(axis=0)
        words = float(self.words[query, first[0]])
        nearest = NearestClips(len(clips), float(np.median(z)), z[order], margins, words, int(self.asked[query]))
        return nearest, self.right[query, first]


@dataclass(frozen=True, eq=False)
class _AskedLibraries:
    """Queries asked in drawn libraries; Q rows.

    Attributes:
        nearest: the nearest clips of each.
        right: (H,) of each, whether these clips answer.
        answered: (Q,) whether the library has an answer.
        plausible: (Q,) whether any clip at all has.
        sizes: (Q,) the size that was drawn.
        kinds: (Q,) kind of each.
    """

    nearest: list[NearestClips]
    right: list[Flags]
    answered: Flags
    plausible: Flags
    sizes: Indices
    kinds: NDArray[np.str_]

    @property
    def weights(self) -> Column:
        """(Q,) by which each size, kind, and whether there is an answer, weigh equally; 1 in sum."""
        groups = np.rec.fromarrays([self.sizes, self.kinds, self.answered])
        known, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
        return 1 / (len(known) * counts[group])


def fit_calibration(
    opened: Opened,
    encoder: Encoder,
    queries: Sequence[LabelledQuery],
    phrases: Sequence[str],
    settings: CalibrationSettings | None = None,
    progress: Progress = lambda share: None,
) -> AnswerCalibration:
    """Fit a calibration for a library's model.

    Args:
        opened: library of labelled clips, in which nonsense was measured.
        encoder: its model.
        queries: what each clip shows; queries without a clip are asked as ones that nothing answers.
        phrases: plausible phrases that queries are compared with.
        settings: numbers of libraries and queries to draw, and their seed; None for the defaults.
        progress: called with the share of the libraries that were drawn.

    Raises:
        UsageError: there are too few clips or queries, or nonsense was not measured.
        LibraryError: the vectors cannot be read.
    """
    settings = settings or CalibrationSettings()
    rng = np.random.default_rng(settings.seed)
    place = opened.gallery.place
    known = [query for query in queries if not query.clip_ids or query.clip_ids & place.keys()]
    if len(known) > MOST_QUERIES:
        known = [known[at] for at in sorted(rng.permutation(len(known))[:MOST_QUERIES])]
    _check(opened, known)
    vectors = _encoded(encoder, phrases).astype(np.float16).astype(np.float32)
    measured = _measure(opened, encoder, known, phrases, vectors)
    asked = _ask(measured, settings, rng, progress)
    of_queries, weights = np.stack([near.query_row() for near in asked.nearest]), asked.weights
    anything = _fit(of_queries, asked.answered, weights)
    odds = anything.log_odds(of_queries)
    rows = [near.clip_rows(float(one)) for near, one in zip(asked.nearest, odds, strict=True)]
    shares = np.concatenate([np.full(len(row), weight / len(row)) for row, weight in zip(rows, weights, strict=True)])
    clip = _fit(np.concatenate(rows), np.concatenate(asked.right), shares)
    without = ~asked.answered & asked.plausible
    words = np.array([near.words_asked for near in asked.nearest])
    thresholds = _by_words(logistic(odds[without]), asked.sizes[without], words[without])
    sizes = thresholds[0].sizes
    return AnswerCalibration(
        encoder_id=encoder.encoder_id,
        weights_hash=encoder.weights_hash,
        fitted_on=(
            f"{len(known):,} queries to {len(opened.gallery.clip_ids):,} clips, in libraries of {sizes[0]:,} to "
            f"{sizes[-1]:,}"
        ),
        date=datetime.now(UTC).date().isoformat(),
        phrases=tuple(phrases),
        vectors=vectors,
        anything=anything,
        clip=clip,
        thresholds=thresholds,
    )


def _check(opened: Opened, queries: Sequence[LabelledQuery]) -> None:
    clips, answered = len(opened.gallery.clip_ids), sum(bool(query.clip_ids) for query in queries)
    if opened.vectors is None or not opened.gallery.measured:
        raise UsageError("The library has no vision or was not measured yet; run `evenreel index` once more.")
    if clips < FEWEST_CLIPS or answered < FEWEST_QUERIES:
        raise UsageError(
            f"The library has {clips:,} clips with frames and {answered:,} different captions of them; a calibration "
            f"needs at least {FEWEST_CLIPS} and {FEWEST_QUERIES}."
        )


def _encoded(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    parts = [encoder.encode_text(texts[part]).sentence for part in slices(len(texts), TEXTS_AT_ONCE)]
    return np.concatenate(parts).astype(np.float32)


def _measure(
    opened: Opened, encoder: Encoder, queries: Sequence[LabelledQuery], phrases: Sequence[str], vectors: FloatArray
) -> _Measured:
    gallery = opened.gallery
    assert opened.vectors is not None
    store = opened.vectors

    def above(texts: FloatArray) -> FloatArray:
        scores = store.best_per_clip(texts, gallery.first_rows, gallery.counts)
        return np.asarray((scores - gallery.means) / gallery.deviations, np.float32)

    right = np.zeros((len(queries), len(gallery.clip_ids)), np.bool_)
    for row, query in zip(right, queries, strict=True):
        row[[gallery.place[clip_id] for clip_id in query.clip_ids if clip_id in gallery.place]] = True
    told = [frozenset(content_words(phrase)) for phrase in phrases]
    words = sorted({word for query in queries for word in asked_words(query.text)})
    of_word = dict(zip(words, above(_encoded(encoder, words)), strict=True))
    return _Measured(
        right=right,
        kinds=tuple(query.kind for query in queries),
        z=above(_encoded(encoder, [query.text for query in queries])),
        phrases=above(vectors),
        others=np.stack([rivals(query.text, told) for query in queries]),
        words=np.stack([np.min([of_word[word] for word in asked_words(query.text)], axis=0) for query in queries]),
        asked=np.array([len(asked_words(query.text)) for query in queries]),
    )


def _ask(
    measured: _Measured, settings: CalibrationSettings, rng: np.random.Generator, progress: Progress
) -> _AskedLibraries:
    clips = measured.right.shape[1]
    sizes = [size for size in SIZES if size < LEFT * clips] + [int(LEFT * clips)]
    nearest: list[NearestClips] = []
    right: list[Flags] = []
    asked: list[tuple[bool, bool, int, str]] = []
    for done in range(settings.libraries):
        for size in sizes:
            library = _drawn(measured, size, rng)
            for query in _chosen(measured, library, settings.queries, rng):
                found, answers = measured.nearest(query, library)
                nearest.append(found)
                right.append(answers)
                there, anywhere = measured.right[query, library].any(), measured.right[query].any()
                asked.append((bool(there), bool(anywhere), size, measured.kinds[query]))
        progress((done + 1) / settings.libraries)
    return _AskedLibraries(nearest, right, *(np.array(column) for column in zip(*asked, strict=True)))


def _drawn(measured: _Measured, size: int, rng: np.random.Generator) -> Indices:
    """The clips of a library: those that answer some queries are left out, as far as enough remain."""
    left = np.ones(measured.right.shape[1], np.bool_)
    for query in _in_turn(measured.kinds, np.flatnonzero(measured.right.any(axis=1)), rng):
        without = left & ~measured.right[query]
        if without.sum() < max(size, left.size // 2):
            break
        left = without
    weights = measured.right.T @ rng.lognormal(0.0, 1.0, len(measured.right)) + 1e-3
    places = np.flatnonzero(left)
    keys = np.log(rng.random(len(places))) / weights[places]  # a weighted draw without replacement
    return np.sort(places[np.argsort(-keys)[:size]])


def _chosen(measured: _Measured, library: Indices, count: int, rng: np.random.Generator) -> Iterator[int]:
    """Queries for a library: as many that it answers as that it does not, and some that no clip at all answers."""
    answered, plausible = measured.right[:, library].any(axis=1), measured.right.any(axis=1)
    parts = (answered, plausible & ~answered, ~plausible)
    own, absent, elsewhere = (_in_turn(measured.kinds, np.flatnonzero(part), rng) for part in parts)
    for _, *both in zip(range(count), own, absent, strict=False):
        yield from both
    yield from islice(elsewhere, count // 4)


def _in_turn(kinds: Sequence[str], queries: Indices, rng: np.random.Generator) -> Iterator[int]:
    """The queries in random order, a kind after the other."""
    shuffled = rng.permutation(queries).tolist()
    by_kind = [[query for query in shuffled if kinds[query] == kind] for kind in sorted(set(kinds))]
    return (query for query in chain.from_iterable(zip_longest(*by_kind)) if query is not None)


def _fit(rows: NDArray[np.float64], right: Flags, weights: Column) -> LogisticRule:
    """Logistic regression on rows (N, F) of some weights, 1 in sum."""
    from sklearn.linear_model import LogisticRegression

    mean, deviation = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
    model = LogisticRegression(C=1 / (2 * RIDGE), solver="newton-cholesky", tol=1e-8)
    model.fit((rows - mean) / deviation, right, weights)
    own = model.coef_[0] / deviation
    return LogisticRule(float(model.intercept_[0] - own @ mean), tuple(own.tolist()))


def _by_words(absent: Column, sizes: Indices, words: Indices) -> tuple[Thresholds, Thresholds, Thresholds]:
    """Thresholds for queries of one word, of two and of more; of all where too few are of so many at some size."""
    known = np.unique(sizes)

    def of(place: int) -> Thresholds:
        own = words == place
        enough = all((sizes[own] == size).sum() >= FEWEST_ABSENT for size in known)
        return _thresholds(absent[own], sizes[own]) if enough else _thresholds(absent, sizes)

    return of(0), of(1), of(2)


def _thresholds(absent: Column, sizes: Indices) -> Thresholds:
    """The probabilities that so many queries without an answer reach, at each size and those beside it."""
    known = np.unique(sizes)
    beside = [np.isin(sizes, known[max(0, at - 1) : at + 2]) for at in range(len(known))]
    fits, may_fit = (
        tuple(float(np.quantile(absent[here], 1 - share)) for here in beside) for share in (ANSWERED, PERHAPS)
    )
    return Thresholds(tuple(known.tolist()), fits, may_fit)
