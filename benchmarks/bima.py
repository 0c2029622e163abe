"""What does BiMa do about a planted visual and a planted textual bias, part by part?

    python -m benchmarks.bima [--biases visual textual] [--rows NAME ...] [--strength 0.9] [--steps 500]
        [--seeds 5] [--clips 1500] [--processes 2] [--out FILE]

In training a shape keeps to its background (`visual`), or an annotator writes about one shape and mostly leaves its
name out (`textual`); in the test split neither tells anything (docs/planted.md). Each seed has a corpus of its own. On
features of the built-in encoder, behind a small adapter, the rows of table 4 of the paper are trained, with as many
steps each:

- wti: row 1, which is the baseline; at strength 0, on as many clips, it is the oracle;
- entities, activities, elements: rows 2, 3 and 4, frames look at the one, the other, or both;
- elements + captions: row 5, with the captioning head;
- content: row 6, captions split in content and bias; bima: row 7, all of it;
- bima, bias: what bima finds with the bias of captions in place of their content (table 5), which is mu of equation 9;
  bima, bias drawn: with a draw of it, as equation 10 has it;
- bima, own elements: elements are mined from the captions that are learned from, which name no background; in all
  other rows from captions of 4,000 other scenes that name colour, shape, activity and background, as the paper mines
  them from large collections;
- bima, no residual: attention as equation 6 prints it, so that frames become mixtures of elements. Losses stay means
  over words, and the divergence that of the bias alone, where the paper prints sums and z.

The others are not in the paper: elements alone, row 4 with its own elements and without residual; style removed, `wti`
on captions whose style is taken off (`evenreel perturb --edit style-removed`) in training and in search, and bima,
style removed; what is half way, which keeps the mean of its first and its last weights
(`selection.start_share: 0.5`); and bima, apart, whose bias is kept from saying what the content says
(`matcher.settings.lambda_orth: 1`), with the same two rows of its bias. Two rows say where the gap comes from: wti, no
adapter, which is trained on features as they are; and no training, the cosine of captions and mean frames as the
encoder has them.

R@1 is the share of captions whose first clip shows all that is named, mAP the mean average precision of such clips. The
share of the gap that is closed is (row - baseline) / (oracle - baseline), with Fieller's interval over the seeds;
differences are taken seed by seed, with intervals of 95 % by Student's t. At strength 0 there is nothing to correct.
For rows with a split caption, a linear classifier says how well the annotator of test captions can be told from content
and from bias (8 annotators, so that chance is 12.5 %), with five folds by clips. Seconds are of processor time, in
times of wti's.

Exit status 1 if a bias does no measurable harm, or if a row does at strength 0. With --out the figures of each training
are written down as they come, and a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.over_seeds import (
    AtStrengths,
    Figures,
    Rows,
    Seeds,
    by_row,
    checked,
    closed,
    difference,
    mean,
    measured,
    seeds_parser,
    words,
)
from benchmarks.planted import Sizes, Split, encoding_s, found_in, split_of
from benchmarks.planted import recipe as planted_recipe
from benchmarks.planted import trained as trained_on
from evenreel.encoders import load_encoder
from evenreel.features.scene_elements import embed, save_embedded
from evenreel.language.scene_dictionary import SceneDictionary, mine
from evenreel.language.style import restyled
from evenreel.language.taggers import load_tagger
from evenreel.matchers.bima.matcher import Reading, captions_read
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.bima.parts import told_apart, whole_captions
from evenreel.planted import BiasName, plan_corpus
from evenreel.planted.captions import caption
from evenreel.planted.scenes import sample_scene
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import MatcherChoice
from evenreel.types import Encoder, TextFeatures

FREE = 0.0
"""The strength at which nothing is planted."""
SCENES = 4_000
"""Of whose captions the dictionary is mined."""
OFF: dict[str, Any] = {"use_entities": False, "use_activities": False, "captioning": False, "disentangle": False}
ELEMENTS = OFF | {"use_entities": True, "use_activities": True}
ALONE = ELEMENTS | {"residual": False}
WTI, BIMA, APART = "wti", "bima", "bima, apart"
BIAS = {"bias": Reading(source="bias"), "bias drawn": Reading(source="bias", draws=1)}
"""What two rows tell of besides what they find, and how captions are read there."""


@dataclass(frozen=True)
class Row:
    """How a row is trained.

    Attributes:
        settings: of bima.
        own: whether its elements are mined from the captions that it learns from.
        bare: whether captions are read without their style, in training and in search.
        half_way: whether the mean of the first and the last weights is kept.
        adapter: whether features go through an adapter that learns too.
        learns: whether it is trained at all; else it is the mean of the frames, as the encoder has them.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    bare: bool = False
    half_way: bool = False
    adapter: bool = True
    learns: bool = True


ROWS: dict[str, Row] = {
    WTI: Row(OFF),
    "entities": Row(OFF | {"use_entities": True}),
    "activities": Row(OFF | {"use_activities": True}),
    "elements": Row(ELEMENTS),
    "elements + captions": Row({"disentangle": False}),
    "content": Row(OFF | {"disentangle": True}),
    BIMA: Row(),
    "bima, own elements": Row(own=True),
    "bima, no residual": Row({"residual": False}),
    "elements alone": Row(ALONE, own=True),
    "style removed": Row(OFF, bare=True),
    "bima, style removed": Row(bare=True),
    "wti, half way": Row(OFF, half_way=True),
    "elements alone, half way": Row(ALONE, own=True, half_way=True),
    "bima, half way": Row(half_way=True),
    APART: Row({"lambda_orth": 1.0}),
    "wti, no adapter": Row(OFF, adapter=False),
    "no training": Row(OFF, learns=False),
}
MAIN, MAP, LEARNED, ENCODED = "R@1", "mAP", "training", "encoding"
IN_CONTENT, IN_BIAS = "annotator in content", "annotator in bias"


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        bias: that is planted.
        seed: of the corpus and of the training.
        strength: of what is planted in what is learned from.
        row: a key of `ROWS`.
        clips: of all splits.
        steps: of the training.
    """

    bias: BiasName
    seed: int
    strength: float
    row: str
    clips: int
    steps: int

    @property
    def corpus(self) -> tuple[str, int, float]:
        """See `benchmarks.over_seeds`."""
        return self.bias, self.seed, self.strength

    def __str__(self) -> str:
        return f"{self.bias}, seed {self.seed}, strength {self.strength}"


def main() -> int:
    """The tables; 1 if a claim does not hold."""
    asked = arguments()
    wanted = {bias: [runs_of(bias, seed, asked) for seed in range(asked.seeds)] for bias in asked.biases}
    found = measured((run for seeds in wanted.values() for runs in seeds for run in runs), Run, of_corpus, asked)
    tables = []
    for bias, seeds in wanted.items():
        biased, free = (
            by_row([[run for run in runs if run.strength == strength] for runs in seeds], found)
            for strength in (asked.strength, FREE)
        )
        tables.append(tables_of(bias, AtStrengths(asked.strength, biased, free, WTI)))
    print("\n\n".join(text for text, _ in tables))
    return int(not all(holds for _, holds in tables))


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=1_500)
    parser.add_argument("--biases", nargs="+", default=["visual", "textual"], choices=["visual", "textual"])
    parser.add_argument("--rows", nargs="+", default=[*ROWS], choices=[*ROWS], help="beside the baseline")
    parser.add_argument("--strength", type=float, default=0.9, help="of what is planted, above 0")
    parser.add_argument("--steps", type=int, default=500, help="of each training")
    return checked(parser)


def runs_of(bias: BiasName, seed: int, asked: argparse.Namespace) -> list[Run]:
    """All trainings of a bias with a seed, at both strengths."""
    names = dict.fromkeys([WTI, *asked.rows])
    return [
        Run(bias, seed, strength, row, asked.clips, asked.steps) for strength in (asked.strength, FREE) for row in names
    ]


def of_corpus(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """Some trainings on one corpus: of one bias, seed and strength."""
    encoder, first = load_encoder("builtin"), runs[0]
    plan = plan_corpus(first.bias, first.strength, first.clips, first.seed)
    learned, test = split_of(plan, "train", encoder), split_of(plan, "test", encoder)
    bare = (without_style(learned, encoder), without_style(test, encoder))
    for run in runs:
        parts = bare if ROWS[run.row].bare else (learned, test)
        yield run, rows_of_run(run, *parts, encoder)


def rows_of_run(run: Run, learned: Split, test: Split, encoder: Encoder) -> Rows:
    """Train once, and measure the row, and what bima finds with the bias of captions."""
    begun_s = time.process_time()
    matcher = trained(run, learned, encoder)
    taken = {LEARNED: time.process_time() - begun_s, ENCODED: encoding_s(matcher, test.videos)}
    own = found_of(matcher, test) | taken
    if not ROWS[run.row].settings.get("disentangle", True):
        return {run.row: own}
    if run.bias == "textual":
        writers, clips = (test.corpus.captions[column].to_numpy() for column in ("annotator", "clip_id"))
        own |= {name: told_apart(vectors, writers, clips).share for name, vectors in parts_of(matcher, test).items()}
    rows = {run.row: own}
    for name, reading in BIAS.items() if run.row in (BIMA, APART) else ():
        with captions_read(matcher, reading):  # type: ignore[arg-type]  # every matcher is a module
            rows[f"{run.row}, {name}"] = found_of(matcher, test) | taken
    return rows


def trained(run: Run, learned: Split, encoder: Encoder) -> Matcher:
    """The matcher of a row after its last step."""
    if not ROWS[run.row].learns:
        return build_matcher("mean_pool", learned.videos.frames.shape[-1], {})
    dictionary = mine(learned.corpus.captions["text"].to_list()) if ROWS[run.row].own else world_elements()
    with tempfile.TemporaryDirectory() as folder:
        save_embedded(embed(dictionary, encoder), Path(folder) / "elements")
        recipe = recipe_for(run, Path(folder) / "elements", dictionary.lacks)
        return trained_on(recipe, learned, encoder.weights_hash)


def recipe_for(run: Run, elements: Path, lacking: Sequence[str]) -> Recipe:
    """The recipe of the planted benchmark with another matcher, which looks at no kind that its dictionary lacks."""
    plain = planted_recipe(run.bias, run.seed, Sizes(run.clips, run.steps))
    settings = {"temperature": plain.matcher.settings["temperature"], "elements": str(elements)} | {
        **ROWS[run.row].settings,
        **{f"use_{kind}": False for kind in lacking},
    }
    selection = replace(plain.selection, start_share=0.5 if ROWS[run.row].half_way else 0.0)
    adapter = plain.adapter if ROWS[run.row].adapter else None
    return replace(plain, matcher=MatcherChoice("bima", settings), adapter=adapter, selection=selection)


def without_style(split: Split, encoder: Encoder) -> Split:
    """The split with what is left of its captions when their style is taken off."""
    table = split.corpus.captions
    texts = restyled("style-removed", table["text"].to_list(), table["clip_id"].to_list(), load_tagger("pattern"))
    distinct = list(dict.fromkeys(texts))
    place = {text: row for row, text in enumerate(distinct)}
    rows = np.array([place[text] for text in texts])
    read = encoder.encode_text(distinct)
    features = TextFeatures(split.texts.ids, read.words[rows], read.word_mask[rows], read.sentence[rows])
    corpus = replace(split.corpus, captions=table.with_columns(text=pl.Series(texts)))
    return split._replace(corpus=corpus, texts=features)


@cache
def world_elements() -> SceneDictionary:
    """Entities and activities of captions of scenes in which nothing is planted."""
    rng = np.random.default_rng(0)
    return mine([caption(sample_scene(rng), rng) for _ in range(SCENES)])


def found_of(matcher: Matcher, test: Split) -> Figures:
    """R@1 and mAP in percent, where all that a caption names has to be shown."""
    return found_in(matcher_scores(matcher, test.texts, test.videos), test.corpus)


def parts_of(matcher: Matcher, test: Split) -> dict[str, NDArray[np.float64]]:
    """Content and bias of the test captions, (Q, D) each."""
    readings = {IN_CONTENT: Reading(), IN_BIAS: Reading(source="bias")}
    return {name: whole_captions(matcher, test.texts, reading) for name, reading in readings.items()}


def tables_of(bias: str, rows: AtStrengths) -> tuple[str, bool]:
    """All that is printed of a bias, and whether every claim on it holds."""
    head = ", ".join(rows.gap_words(name) for name in (MAIN, MAP))
    claims, holds = rows.claims(MAIN, [name for name in rows.free if name in ROWS and name != WTI])
    tables = [*table(rows.biased, rows.strength, rows.oracle), "", *table(rows.free, FREE, None)]
    return "\n".join([f"{bias}: {head}", "", *tables, "", *claims]), holds


def table(rows: Seeds, strength: float, oracle: Sequence[Figures] | None) -> Iterator[str]:
    """A line for each row at a strength."""
    heads = [MAIN, f"{MAIN} less {WTI}", "gap closed %", MAP, f"{MAP} less {WTI}", "gap closed %"]
    columns = "".join(f"{head:>{size}}" for head, size in zip(heads, (8, 22, 26, 8, 22, 26), strict=True))
    yield f"{f'strength {strength}':22}{columns}{LEARNED:>10}{ENCODED:>10}{'annotator told from content, bias':>36}"
    baseline = rows[WTI]
    for name, figures in rows.items():
        yield (
            f"{name:22}"
            + "".join(
                f"{mean(figures, metric):8.1f}{words(difference(figures, baseline, metric)):>22}"
                f"{'' if oracle is None else closed(figures, baseline, oracle, metric):>26}"
                for metric in (MAIN, MAP)
            )
            + costs(figures, baseline)
        )


def costs(figures: Sequence[Figures], baseline: Sequence[Figures]) -> str:
    """Seconds in times of the baseline's, and what is left of the annotator."""
    times = "".join(
        f"{median(one[cost] / of[cost] for one, of in zip(figures, baseline, strict=True)):9.2f}x"
        for cost in (LEARNED, ENCODED)
    )
    if IN_CONTENT not in figures[0]:
        return times
    return times + f"{mean(figures, IN_CONTENT):28.1f}, {mean(figures, IN_BIAS):5.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
