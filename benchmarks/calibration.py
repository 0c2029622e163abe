"""Whether a probability that a search tells is one, on planted libraries of 15 to 5,000 clips.

    python -m benchmarks.calibration [--sizes 15 50 ...] [--libraries 36] [--confidence calibrated|rank] [--shuffled]
    python -m benchmarks.calibration --fit FILE

Clips of a coloured shape in a place each are rendered, a frame a second, and encoded with the built-in model. Some
things of one, two or three words (a shape, a shape of a colour or in a place, all three) are left out of a library;
others are frequent in it or rare. It is asked for as many things of each kind that it has as that it has not, for
everyday things and for nonsense. All figures are of the product's own search.

The calibration is fitted (`--fit`) on clips and queries that name three of every four colours, shapes and places; what
is reported is of other clips, of all colours, shapes and places, and of queries that name one at least that was not
fitted on. `--all-words` asks the others too. Everyday things and nonsense are others than those of the fit.

Per size and kind: the expected calibration error (ECE, ten equal bins, queries with and without an answer weighing
equally) per query and per hit, among the first ten; the latter also of queries with and without an answer by
themselves; the area under the ROC curve for whether the library has an answer; how many queries without an answer
'fit'; how many with one; and how many queries of nonsense find a clip above 'may fit'. Beside the error per query
stands that of a rule that is exactly right, on as many queries. Status 1 where a goal is missed, which `--shuffled`
(the truth of queries, and of hits, exchanged at random) and `--confidence rank` (the rank among nonsense, taken for a
probability) show to be possible.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from scipy.stats import rankdata

from evenreel.encoders import load_encoder
from evenreel.language.scene_dictionary import packaged
from evenreel.library.calibration.file import FILE, calibration_of, write_calibration
from evenreel.library.calibration.fit import LabelledQuery, fit_calibration
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.query import Query
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import create_schema, set_meta, transaction
from evenreel.library.store.confidence import FITS, update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors
from evenreel.planted import Renderer, sample_scene, vocabulary
from evenreel.types import Encoder, TextEmbedding

SIZES = (15, 50, 120, 500, 1000, 5000)
CLIPS = 8_000
FIT_SEED, REPORT_SEED = 3, 7
EVERY = 4
"""One of so many colours, shapes and places is not fitted on."""
KINDS = ("one", "two", "three")
EACH, OTHERS = 16, 16
"""Queries of each kind, with an answer and without, and of everyday things and nonsense, that a library is asked."""

HITS = 10
BINS = 10
TIMED = 120
"""Queries whose searches `--cost` times."""

MOST_ERROR, ANSWERED, NONSENSE = 0.05, (0.03, 0.08), 0.05
"""Goals: calibration error, share of answered queries without an answer, and of nonsense above 'may fit'."""

World = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
WHOLE: World = (tuple(vocabulary.colours()), vocabulary.shapes(), tuple(vocabulary.backgrounds()))
FITTED: World = tuple(tuple(n for i, n in enumerate(names) if i % EVERY != EVERY - 1) for names in WHOLE)  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Pool:
    """Rendered clips: frames (R, D), first row and number of frames (C,), colour, shape and place of each (C, 3)."""

    vectors: NDArray[np.float16]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    shown: NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """A query, its kind, and what a right clip shows, as places in `WHOLE`; None for what is left open, () for none."""

    text: str
    kind: str
    wanted: tuple[int | None, ...] = ()

    def right(self, shown: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each clip answers."""
        right = np.full(len(shown), bool(self.wanted))
        for column, value in enumerate(self.wanted):
            if value is not None:
                right &= shown[:, column] == value
        return right

    @property
    def new(self) -> bool:
        """Whether it names something that was not fitted on; nothing rendered was in the others' fit."""
        told = [
            (whole[at], fitted)
            for whole, fitted, at in zip(WHOLE, FITTED, self.wanted or (None,) * 3, strict=True)
            if at is not None
        ]
        return not told or any(name not in fitted for name, fitted in told)


def planted_queries(world: World) -> list[Asked]:
    """Every two and every three of the colours, shapes and places of a world, and every one by itself."""
    colours, shapes, places = world
    at = [{name: place for place, name in enumerate(names)} for names in WHOLE]
    return [
        *(Asked(f"a {c} {s}", "two", (at[0][c], at[1][s], None)) for c, s in product(colours, shapes)),
        *(Asked(f"something {c} in the {p}", "two", (at[0][c], None, at[2][p])) for c, p in product(colours, places)),
        *(Asked(f"a {s} in the {p}", "two", (None, at[1][s], at[2][p])) for s, p in product(shapes, places)),
        *(
            Asked(f"a {c} {s} in the {p}", "three", (at[0][c], at[1][s], at[2][p]))
            for c, s, p in product(colours, shapes, places)
        ),
        *(Asked(f"something {c}", "one", (at[0][c], None, None)) for c in colours),
        *(Asked(f"a {s}", "one", (None, at[1][s], None)) for s in shapes),
        *(Asked(f"in the {p}", "one", (None, None, at[2][p])) for p in places),
    ]


def everyday(half: int) -> list[Asked]:
    """Half of the phrases of the packaged dictionary, none of which is a word of the rendered world."""
    dictionary = packaged()
    phrases = (*dictionary.entities, *dictionary.activities)
    known = {word for names in WHOLE for word in names} | {
        "moon",
        "hoop",
        "ocean",
        "mountain",
        "field",
        "tree",
        "cloud",
    }
    return [Asked(phrase, "everyday") for phrase in phrases[half::2] if not known & set(phrase.split())]


def nonsense(count: int, seed: int) -> list[Asked]:
    """Letters drawn at random, and words about what cannot be filmed, none of them from the bank of a library."""
    rng = np.random.default_rng(seed)
    words = (
        "amortisation", "hypothesis", "kilobyte", "stipulation", "etymology", "perjury", "solvency", "axiomatic",
        "quorum", "tautology", "logarithm", "provenance", "indemnity", "vowel", "subpoena", "entropy", "adverb",
        "covenant", "isotope", "dividend",
    )  # fmt: skip
    letters = np.array(list("aabcdeeefghiijklmnnooprrssttuvwyz"))
    made = ["".join(rng.choice(letters, rng.integers(4, 10))) for _ in range(count)]
    return [
        Asked(
            " ".join(rng.choice(words, rng.integers(1, 5), replace=False)) if at % 2 else f"{word} {made[at - 1]}",
            "nonsense",
        )
        for at, word in enumerate(made)
    ]


def rendered(world: World, seed: int, clips: int, encoder: Encoder) -> Pool:
    """Clips that show every colour and shape of a world equally often, a frame a second."""
    rng = np.random.default_rng([seed, seed, 4711])
    colours, shapes, places = world
    vectors, counts, shown = [], [], []
    for number in range(clips):
        scene = sample_scene(rng)
        colour, shape = colours[number % len(colours)], shapes[number // len(colours) % len(shapes)]
        subject = replace(scene.subject, colour=colour, shape=shape)
        place = places[int(rng.integers(len(places)))]
        renderer = Renderer(replace(scene, entities=(subject, *scene.entities[1:]), background=place))
        times_s = np.arange(0, scene.duration_s - 1e-6, 1.0)
        pictures = np.stack([np.asarray(renderer.picture(float(time_s)).convert("RGB")) for time_s in times_s])
        vectors.append(encoder.encode_windows(pictures.transpose(0, 3, 1, 2)[:, None]).astype(np.float16))
        counts.append(len(times_s))
        shown.append([names.index(name) for names, name in zip(WHOLE, (colour, shape, place), strict=True)])
    return Pool(
        np.concatenate(vectors), np.cumsum(counts, dtype=np.int64) - np.array(counts), np.array(counts), np.array(shown)
    )


def pool_of(world: World, seed: int, clips: int, encoder: Encoder) -> Pool:
    """Rendered clips, kept in the user's cache folder."""
    kept = user_cache_path("evenreel") / "benchmarks" / f"calibration-{encoder.weights_hash[:16]}-{seed}-{clips}.npz"
    if not kept.exists():
        pool = rendered(world, seed, clips, encoder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **vars(pool))
    with np.load(kept) as held:
        return Pool(**{name: held[name] for name in ("vectors", "first_rows", "counts", "shown")})


class RememberingEncoder:
    """An encoder that encodes each text once, for the same are asked of every library."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._known = encoder, dict[str, TextEmbedding]()
        self.encoder_id, self.weights_hash, self.dimension = encoder.encoder_id, encoder.weights_hash, encoder.dimension
        self.window = encoder.window
        self.encode_windows, self.truncated = encoder.encode_windows, encoder.truncated

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Texts by themselves, so that none depends on another's length."""
        for text in set(captions) - self._known.keys():
            self._known[text] = self._encoder.encode_text([text])
        sentence = np.concatenate([self._known[text].sentence for text in captions])
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)


def library_of(pool: Pool, clips: Sequence[int], folder: Path, encoder: Encoder) -> Searcher:
    """A library of some of the clips, in memory, as an index run leaves it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    vectors = ExactVectors(folder / "vectors.0.f16", encoder.dimension)
    spans = [slice(pool.first_rows[clip], pool.first_rows[clip] + pool.counts[clip]) for clip in clips]
    vectors.append(np.concatenate([pool.vectors[span] for span in spans]).astype(np.float32), at_row=0)
    connection.execute("BEGIN")
    row = 0
    for number in clips:
        name, frames = str(number), int(pool.counts[number])
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 320, 240, ?, 12, 1, 1, '[]', '')", (name, frames)
        )
        connection.execute(
            "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, '{}')",
            (f"/{name}.mp4", "v.mp4", name),
        )
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (name, row, frames))
        moments = [(name, frame, float(frame), frame - 0.5, frame + 0.5) for frame in range(frames)]
        connection.executemany("INSERT INTO moments VALUES (?, ?, ?, ?, ?)", moments)
        row += frames
    rebuild_full_text(connection)
    connection.execute("COMMIT")
    with transaction(connection):
        set_meta(connection, {"weights_hash": encoder.weights_hash})
        update_null_scores(connection, vectors, encoder)
    return Searcher(connection, lambda _: vectors, lambda: encoder, folder)


def drawn(pool: Pool, size: int, rng: np.random.Generator) -> list[int]:
    """The clips of a library: things of one, two or three words are not in it at all, others are frequent or rare."""
    queries = planted_queries(WHOLE)
    left, floor = np.ones(len(pool.counts), np.bool_), max(size, len(pool.counts) // 2)
    for kind in ("one", *("two", "three") * len(queries)):
        kept = left & ~_any_of(queries, kind, rng).right(pool.shown)
        if kept.sum() < floor:
            break
        left = kept
    of_clip = np.ones(len(pool.counts))
    for column, names in enumerate(WHOLE):
        of_clip *= rng.lognormal(0.0, 0.7, len(names))[pool.shown[:, column]]
    places = np.flatnonzero(left)
    keys = np.log(rng.random(len(places))) / of_clip[places]
    return sorted(places[np.argsort(-keys)[:size]].tolist())


def _any_of(queries: Sequence[Asked], kind: str, rng: np.random.Generator) -> Asked:
    own = [one for one in queries if one.kind == kind]
    return own[int(rng.integers(len(own)))]


def chosen(queries: Sequence[Asked], shown: NDArray[np.int64], most: int, rng: np.random.Generator) -> list[Asked]:
    """Queries of each kind, as many that a library answers as that it does not where there are so many."""
    answered = [bool(one.right(shown).any()) for one in queries]
    found = []
    for kind, there in product(KINDS, (True, False)):
        own = [one for one, known in zip(queries, answered, strict=True) if (one.kind, known) == (kind, there)]
        found += [own[at] for at in rng.permutation(len(own))[:most]]
    return found


@dataclass(frozen=True, eq=False)
class Answers:
    """What searches said; Q queries.

    Attributes:
        kind: (Q,) kind of the query.
        new: (Q,) whether it names what was not fitted on.
        answered: (Q,) whether the library has an answer.
        probability: (Q,) that it has one, as it was said.
        fits: (Q,) whether some clip was said to fit.
        hits: (Q, H) probability of each hit, NaN behind the last.
        right: (Q, H) whether it is right.
    """

    kind: NDArray[np.str_]
    new: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    probability: NDArray[np.float64]
    fits: NDArray[np.bool_]
    hits: NDArray[np.float64]
    right: NDArray[np.bool_]

    def of(self, chosen: NDArray[np.bool_]) -> Answers:
        """Some of the queries."""
        return Answers(**{name: values[chosen] for name, values in vars(self).items()})

    def shuffled(self, rng: np.random.Generator) -> Answers:
        """The same with another query's truth."""
        order = rng.permutation(len(self.kind))
        return replace(self, answered=self.answered[order], right=self.right[order])


def told(result: SearchResult, confidence: str) -> tuple[float, list[float]]:
    """The probabilities of a result, or the ranks among nonsense in their place."""
    if confidence == "calibrated":
        assert result.probability is not None, result.uncalibrated
        return result.probability, [hit.probability or 0.0 for hit in result.hits]
    ranks = [hit.above_nonsense or 0.0 for hit in result.hits]
    return max(ranks), ranks


def measured(
    pool: Pool, size: int, libraries: int, confidence: str, encoder: Encoder, *, all_words: bool = False
) -> Answers:
    """Ask drawn libraries of one size for everything."""
    queries, found = [one for one in planted_queries(WHOLE) if one.new or all_words], []
    others = [*everyday(1), *nonsense(60, seed=17)]
    for number in range(libraries):
        rng = np.random.default_rng([REPORT_SEED, size, number])
        clips = drawn(pool, size, rng)
        rest = [others[at] for at in rng.permutation(len(others))[:OTHERS]]
        with tempfile.TemporaryDirectory() as folder:
            searcher = library_of(pool, clips, Path(folder), encoder)
            for asked in (*chosen(queries, pool.shown[clips], EACH, rng), *rest):
                result = searcher.search(Query(asked.text, k=HITS))
                right = asked.right(pool.shown)
                probability, hits = told(result, confidence)
                fits = result.fit > 0 if confidence == "calibrated" else probability >= FITS
                pad = [np.nan] * (HITS - len(hits))
                own = [bool(right[int(hit.clip_id)]) for hit in result.hits] + [False] * len(pad)
                found.append((asked.kind, asked.new, right[clips].any(), probability, fits, [*hits, *pad], own))
    return Answers(*(np.array(column) for column in zip(*found, strict=True)))


def bins_of(said: NDArray[np.float64], right: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight, mean of what was said and share of the right in each of the bins, (3, B)."""
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    total, told_, true = (np.bincount(place, weights * part, BINS) for part in (np.ones(len(said)), said, right))
    return np.stack([total / weights.sum(), told_ / np.maximum(total, 1e-12), true / np.maximum(total, 1e-12)])


def calibration_error(said: NDArray[np.float64], right: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """Expected calibration error."""
    total, mean, share = bins_of(said, right, weights)
    return float((total * np.abs(mean - share)).sum())


def balanced(answered: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights by which queries with and without an answer weigh the same."""
    return np.where(answered, 0.5 / max(1, answered.sum()), 0.5 / max(1, (~answered).sum()))


def auroc(said: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Area under the ROC curve."""
    ranks, own = rankdata(said), right.sum()
    return float((ranks[right].sum() - own * (own + 1) / 2) / (own * (~right).sum()))


def by_hit(found: Answers) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Probability, truth and weight of every hit."""
    there = ~np.isnan(found.hits)
    return found.hits[there], found.right[there], np.repeat(balanced(found.answered), there.sum(axis=1))


def figures(found: Answers) -> dict[str, float]:
    """All figures of queries of one kind."""
    absent = found.of(~found.answered)
    return {
        "queries": len(found.kind),
        "ECE query": calibration_error(found.probability, found.answered, balanced(found.answered)),
        "ECE hit": calibration_error(*by_hit(found)),
        "ECE hit, there": calibration_error(*by_hit(found.of(found.answered))),
        "ECE hit, not there": calibration_error(*by_hit(absent)),
        "AUROC": auroc(found.probability, found.answered),
        "answered, not there": float(absent.fits.mean()),
        "answered, there": float(found.fits[found.answered].mean()),
    }


def missed(own: dict[str, float], nonsense_fits: float) -> list[str]:
    """The goals that were not reached."""
    wrong = [name for name, value in own.items() if name.startswith("ECE") and value > MOST_ERROR]
    if not ANSWERED[0] <= own["answered, not there"] <= ANSWERED[1]:
        wrong.append("answered, not there")
    return [*wrong, *(["nonsense"] if nonsense_fits > NONSENSE else [])]


def floor(said: NDArray[np.float64], weights: NDArray[np.float64], seed: int = 0) -> float:
    """Mean calibration error, were what was said exactly right: so much is due to the number of queries."""
    draws = np.random.default_rng(seed).random((200, len(said))) < said
    return float(np.mean([calibration_error(said, right, weights) for right in draws]))


def report(size: int, found: Answers) -> list[str]:
    """Print the figures of one size; return the goals that were missed."""
    nonsense_fits = float(found.fits[found.kind == "nonsense"].mean())
    print(f"\n{size:,} clips; nonsense above 'may fit': {nonsense_fits:.1%}", end="")
    print(f"; everyday things: {found.fits[found.kind == 'everyday'].mean():.1%}")
    failed: list[str] = []
    for kind in KINDS:
        chosen = found.of(found.kind == kind)
        if len(set(chosen.answered.tolist())) < 2:
            continue
        own = figures(chosen)
        print(f"  {kind:<6}", ", ".join(f"{name} {value:.3f}" for name, value in own.items()))
        print(f"    errors were all exactly right: {floor(chosen.probability, balanced(chosen.answered)):.3f} a query")
        for name, table in (
            ("queries", bins_of(chosen.probability, chosen.answered, balanced(chosen.answered))),
            ("hits", bins_of(*by_hit(chosen))),
        ):
            cells = " ".join(f"{said:.2f}/{true:.2f}({weight:.2f})" for weight, said, true in table.T if weight)
            print(f"    {name}: said/right(share) {cells}")
        if wrong := missed(own, nonsense_fits):
            print(f"    MISSED: {', '.join(wrong)}")
        failed += wrong
    return failed


def fit(place: Path, encoder: Encoder, clips: int) -> None:
    """Fit the calibration of the built-in model."""
    pool = pool_of(FITTED, FIT_SEED, clips, encoder)
    phrases = [one.text for one in planted_queries(WHOLE) if one.kind == "two"]
    labelled = [
        LabelledQuery(one.text, frozenset(map(str, np.flatnonzero(one.right(pool.shown)).tolist())), one.kind)
        for one in (*planted_queries(FITTED), *everyday(0), *nonsense(60, seed=5))
    ]
    with tempfile.TemporaryDirectory() as folder:
        searcher = library_of(pool, range(clips), Path(folder), encoder)
        found = searcher.read(partial(fit_calibration, encoder=encoder, queries=labelled, phrases=phrases))
    write_calibration(place, replace(found, fitted_on=f"rendered clips of coloured shapes: {found.fitted_on}"))


def cost(pool: Pool, size: int, encoder: Encoder) -> None:
    """Print how long a search takes with its probabilities, and without any, in turn and of new texts each."""
    packaged = calibration_of(None, encoder.weights_hash)
    assert packaged is not None
    queries = [one.text for one in planted_queries(WHOLE)][:: len(planted_queries(WHOLE)) // TIMED]
    clips = drawn(pool, size, np.random.default_rng([REPORT_SEED, size]))
    taken_s: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        write_calibration(Path(other) / FILE, replace(packaged, weights_hash="of another model"))
        searchers = {
            told: library_of(pool, clips, Path(place), encoder) for told, place in ((True, one), (False, other))
        }
        for number, text in enumerate(queries):
            for told in (True, False) if number % 2 else (False, True):
                begun = time.perf_counter()
                found = searchers[told].search(Query(text, k=HITS))
                taken_s[told].append(time.perf_counter() - begun)
                assert (found.probability is not None) == told
    with_, without = (1000 * float(np.median(taken_s[told][5:])) for told in (True, False))
    print(f"{size:,} clips: {with_:.1f} ms a search, {without:.1f} without probabilities; {with_ / without:.2f} times")


def main() -> int:
    """Fit, or ask and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--libraries", type=int, default=36)
    parser.add_argument("--clips", type=int, default=CLIPS, help="clips that are rendered")
    parser.add_argument("--confidence", choices=("calibrated", "rank"), default="calibrated")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--all-words", action="store_true")
    parser.add_argument("--cost", action="store_true", help="time searches alone")
    parser.add_argument("--fit", type=Path, metavar="FILE")
    options = parser.parse_args()
    encoder = RememberingEncoder(load_encoder("builtin", device="cpu"))
    if options.fit:
        fit(options.fit, encoder, options.clips)
        return 0
    pool = pool_of(WHOLE, REPORT_SEED, options.clips, encoder)
    if options.cost:
        for size in options.sizes:
            cost(pool, size, load_encoder("builtin", device="cpu"))
        return 0
    failed: list[str] = []
    for size in options.sizes:
        found = measured(pool, size, options.libraries, options.confidence, encoder, all_words=options.all_words)
        if options.shuffled:
            found = found.shuffled(np.random.default_rng(0))
        failed += report(size, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
