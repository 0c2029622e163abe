"""What does reading what is written on screen do, and what does each part of TCD add?

    python -m benchmarks.scene_text --data DIR [--signs 1 3] [--tables t1 words t2 t4 t7 t10] [--steps 800]
        [--seeds 5] [--first-seed 10] [--clips 1500] [--processes 2] [--out FILE] [--rows ROW ...] [--no-read]

In the planted corpora of `scene_text` the clips of a group differ in nothing but the words on their signs, which their
captions name (docs/planted.md). With `--signs 1` a clip shows one sign all the time; with 3 it shows three, one after
the other, of which captions name one. Corpora are rendered as mp4 files into DIR and features computed there, with the
true words, and, for one sign, as RapidOCR reads them in the files; what is there is kept.

On features of the built-in encoder, behind a small adapter, each row is trained with as many steps (batches of 42, as
in the paper):

- t1: `mean_pool`, `x_clip`, `x_pool`, `t_mass` and `wti` with frames alone and with on-screen windows among the frames,
  and `tcd`; `tcd, as printed` has every formula as it is printed.
- words: `mean_pool` with windows and `tcd` on words that RapidOCR read, or of which 10 or 30 % of the characters are
  misread at random, in each window anew, in training and in search; tcd without clues, matched by frames and windows
  alone, on misread words; tcd trained on true words and searched in those; tcd that weighs windows by how surely they
  were read; BM25 over the words of the signs, or their trigrams; trigrams fused with `wti` on frames and with `tcd`
  (standardised, weights learned on the validation split).
- t2: clue distillation, co-attention and calibration (table 2 and figure 3), and co-attention with a residual.
- t4: the share of words that is kept; t7: what is matched; t10: weights by the caption, for either modality.

R@1 is the share of captions whose first clip shows all that is named. The share of the gap that is closed is
(row - wti, frames) / (oracle - wti, frames), with Fieller's interval over seeds; the oracle is `wti, frames` fused with
BM25 over the true words, which finds nearly all. Differences from the row that a row belongs to are taken seed by seed,
with intervals of 95 % by Student's t. Which words are kept and which characters misread is drawn anew for each seed.
Seeds 0 to 4 were looked at while TCD was written, and are left out of what is reported.

With --rows these rows alone are trained and shown, to ask what more steps do, for example. With --no-read no file is
read by RapidOCR, which takes longer than all else, and rows of what it read are left out.

Exit status 1 if words do not help `wti`, or TCD finds less with the true words than without any. With --out the figures
of each training are written down as they come, and a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from benchmarks.over_seeds import (
    Figures,
    Rows,
    Seeds,
    by_row,
    checked,
    closed,
    difference,
    gap_of,
    markdown,
    mean,
    measured,
    seeds_parser,
    words,
)
from benchmarks.planted import Sizes, Split, found_in
from benchmarks.planted import recipe as planted_recipe
from benchmarks.planted import trained as trained_on
from evenreel.checkpoint.word_changes import changed_words
from evenreel.corpus import load_corpus, own_clip, select
from evenreel.corpus.on_screen import load_texts
from evenreel.encoders import load_encoder
from evenreel.evaluation.fused import Validation, fuse
from evenreel.features import FoundClips, compute_features, find_clips, load_text_features
from evenreel.features.settings import FeatureSettings
from evenreel.features.word_changes import WordChanges, changed_signs
from evenreel.language.bm25 import By, bm25_scores
from evenreel.matchers import MATCHERS
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.matchers.tcd.settings import PRINTED
from evenreel.planted import plan_corpus
from evenreel.planted.folder import write_corpus
from evenreel.planted.shots import PlantSettings
from evenreel.training.recipe.sections import MatcherChoice
from evenreel.types import Corpus, ScoreBlocks

STRENGTH = 0.9
FRAMES = 6
BATCH = 42
MAIN, MAP, LEARNED = "R@1", "mAP", "training"
TRUE, READ = "true", "read"
MISREAD = {"10 % misread": 0.1, "30 % misread": 0.3}
"""Shares of characters."""
TEMPERATURE = 0.03
RATIOS = (0.0, 0.1, 0.2, 0.4, 0.8)
WTI, TCD, WORDS, LEXICAL = "wti", "tcd", "words", "BM25"
FRAMES_ALONE = f"{WTI}, frames"
FUSED = f" + {LEXICAL}, searched in "
ORACLE = f"{FRAMES_ALONE}{FUSED}{TRUE}"
BASES = ("mean_pool", "x_clip", "x_pool", "t_mass", WTI)
OWN: dict[str, dict[str, Any]] = {"x_clip": {"temporal_layers": 0}}
"""Settings of matchers: blocks over frames that start from nothing have too little to learn from here."""
CROSS: dict[str, Any] = {"fusion": "cross_attention"}
ALONE: dict[str, Any] = {"co_attention": False}
FREE: dict[str, Any] = {"lambda_hsc": 0.0}


@dataclass(frozen=True)
class Row:
    """How a row is trained.

    Attributes:
        matcher: its name.
        settings: of the matcher.
        windows: whether on-screen windows stand among the frames.
        said: what the signs say, see `Planted.said`.
        ratio: share of the words that is kept.
        searched: what they say in search too, beside that.
        lexical: whether BM25 is fused with it: on the words that it learned from, where these are misread; else on all.
        against: the row that it is compared with.
    """

    matcher: str = TCD
    settings: Mapping[str, Any] = field(default_factory=dict)
    windows: bool = False
    said: str = TRUE
    ratio: float = 1.0
    searched: tuple[str, ...] = ()
    lexical: bool = False
    against: str = TCD


def _bases() -> dict[str, Row]:
    rows = {f"{base}, frames": Row(base, lexical=base == WTI, against=f"{base}, frames") for base in BASES}
    return rows | {f"{base}, {WORDS}": Row(base, windows=True, against=f"{base}, frames") for base in BASES}


def _worse_words() -> dict[str, Row]:
    said = (READ, *MISREAD)
    pooled = {
        f"mean_pool, {one}": Row("mean_pool", windows=True, said=one, against=f"mean_pool, {WORDS}") for one in said
    }
    own = {f"{TCD}, {one}": Row(said=one, lexical=one != READ) for one in said}
    apart = {
        f"{TCD} without clues, {one}": Row(settings={"matches": ("video", "ocr")}, said=one, against=f"{TCD}, {one}")
        for one in MISREAD
    }
    sure = {f"{TCD}, {READ}, by confidence": Row(settings={"confidence": True}, said=READ, against=f"{TCD}, {READ}")}
    return pooled | own | apart | sure


TABLES: dict[str, dict[str, Row]] = {
    "t1": _bases()
    | {
        TCD: Row(searched=(READ, *MISREAD), lexical=True, against=f"x_clip, {WORDS}"),
        "tcd, as printed": Row(settings=PRINTED),
    },
    "words": _worse_words(),
    "t2": {
        "cross-attention and nothing else": Row(settings=CROSS | ALONE | FREE),
        "clues and nothing else": Row(settings=ALONE | FREE),
        "without calibration": Row(settings=FREE),
        "without co-attention": Row(settings=ALONE),
        "contrastive": Row(settings={"calibration": "contrastive"}),
        "co-attention added": Row(settings={"co_residual": True}),
    },
    "t4": {f"{ratio:.0%} of the words": Row(ratio=ratio) for ratio in RATIOS},
    "t7": {
        " + ".join(matches): Row(settings={"matches": matches})
        for matches in (("video",), ("ocr",), ("hybrid",), ("video", "ocr"), ("ocr", "hybrid"), ("video", "hybrid"))
    },
    "t10": {
        **{f"{one} alone": Row(settings={"modalities": one}) for one in ("video", "ocr")},
        **{
            f"{one} alone, unweighed": Row(
                settings={"modalities": one, "text_condition": False}, against=f"{one} alone"
            )
            for one in ("video", "ocr")
        },
        "both, unweighed": Row(settings={"text_condition": False}),
    },
}
SLOW: dict[str, Row] = {
    f"{base}, {WORDS}, {name}": Row(base, settings=settings, windows=True, against=f"{base}, {WORDS}")
    for base, name, settings in (
        ("x_pool", "no dropout", {"dropout": 0.0}),
        ("t_mass", "no dropout", {"dropout": 0.0}),
        ("t_mass", "a tenth of the noise", {"radius": 0.1}),
        ("t_mass", "a tenth of the noise, no dropout", {"radius": 0.1, "dropout": 0.0}),
    )
}
"""Why two matchers learn words slowly; for --rows."""
ROWS: dict[str, Row] = {name: row for table in (*TABLES.values(), SLOW) for name, row in table.items()}


@dataclass(frozen=True)
class Run:
    """One training, or all of BM25 (`row` is then its name).

    Attributes:
        signs: of each clip.
        seed: of the corpus and of the training.
        row: a key of `ROWS`.
        clips: of all splits.
        steps: of the training.
        made: digest of the settings of the row's matcher, defaults included, so that no figure outlives a change.
        read: whether there are words that RapidOCR read.
    """

    signs: int
    seed: int
    row: str
    clips: int
    steps: int
    made: str = ""
    read: bool = True

    @property
    def corpus(self) -> tuple[int, int]:
        """See `benchmarks.over_seeds`."""
        return self.signs, self.seed

    def __str__(self) -> str:
        return f"{self.signs} signs, seed {self.seed}"


class Read(NamedTuple):
    """A split with what its signs are said to say: the clips in the folder, and the changes of their words."""

    found: FoundClips
    changes: WordChanges


class Planted:
    """A corpus in its folder, whose splits are read once.

    Args:
        folder: of the corpus.
        run: of the trainings on it, whose seed is also that of what is done to its words.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self._features, self._read, self._seed = folder / "features", run.read, run.seed
        self._corpus = load_corpus(folder)
        self._splits: dict[tuple[str, str], Split] = {}

    @property
    def said(self) -> tuple[str, ...]:
        """What signs may be said to say."""
        return (TRUE, *((READ,) if self._read else ()), *MISREAD)

    def split(self, name: str, said: str = TRUE, ratio: float = 1.0) -> Split:
        """Tables and features of a split."""
        plain = self._plain(name, READ if said == READ else TRUE)
        read = self.read(name, said, ratio)
        return plain._replace(videos=changed_words(read.found, plain.videos, read.changes))

    def read(self, name: str, said: str = TRUE, ratio: float = 1.0) -> Read:
        """The words of a split."""
        found = find_clips(self._features, self._part(name), words="ocr" if said == READ else "corpus", windows=True)
        assert isinstance(found, FoundClips)
        return Read(found, WordChanges(ratio, char_errors=MISREAD.get(said, 0.0), seed=self._seed))

    def _part(self, name: str) -> Corpus:
        return select(self._corpus, split=name)

    def _plain(self, name: str, said: str) -> Split:
        if (name, said) not in self._splits:
            part, (videos, _) = self._part(name), self.read(name, said).found.load()
            self._splits[name, said] = Split(part, load_text_features(self._features, part), videos)
        return self._splits[name, said]


def main() -> int:
    """The tables; 1 if a claim does not hold."""
    asked = arguments()
    wanted = {signs: [runs_of(signs, seed, asked) for seed in seeds_of(asked)] for signs in asked.signs}
    for seeds in wanted.values():
        for first, *_ in seeds:
            prepare(folder_of(asked.data, first), first)
    runs = (run for seeds in wanted.values() for runs in seeds for run in runs)
    found = measured(runs, Run, partial(of_corpus, asked.data), asked)
    holds = True
    for signs, seeds in wanted.items():
        rows = by_row(seeds, found)
        if asked.rows:
            print(rows_alone(signs, rows))
            continue
        text, own = tables_of(signs, rows, asked.tables)
        print(text, end="\n\n")
        holds &= own
    return int(not holds)


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=1_500)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--signs", nargs="+", type=int, default=[1, 3], choices=[1, 2, 3, 4])
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES], help="beside t1")
    parser.add_argument("--steps", type=int, default=800, help="of each training")
    parser.add_argument("--first-seed", type=int, default=10, help="the others follow")
    parser.add_argument("--rows", nargs="+", default=[], choices=[*ROWS, LEXICAL], metavar="ROW", help="these alone")
    parser.add_argument("--no-read", action="store_true", help="leave out what RapidOCR reads")
    return checked(parser)


def seeds_of(asked: argparse.Namespace) -> range:
    """The seeds asked for."""
    return range(asked.first_seed, asked.first_seed + asked.seeds)


def folder_of(data: Path, run: Run) -> Path:
    """Where the corpus of a run lies."""
    return data / f"signs{run.signs}-seed{run.seed}"


def prepare(folder: Path, run: Run) -> None:
    """Render the corpus of a run and compute its features, as far as they are not there."""
    plan = plan_corpus("scene_text", STRENGTH, run.clips, run.seed, PlantSettings(signs=run.signs))
    write_corpus(plan, folder)
    encoder, corpus = load_encoder("builtin"), load_corpus(folder)
    settings = FeatureSettings(rule=f"{FRAMES} midpoints", windows=FRAMES, videos=folder, retry=True)
    for shipped in (load_texts(folder), *((None,) if run.read else ())):
        report = compute_features(corpus, folder / "features", encoder, settings, words=shipped)
        if report.set_aside:
            raise SystemExit(
                f"{folder}: {len(report.set_aside)} clips could not be read: {report.set_aside[0].sentence}"
            )


def runs_of(signs: int, seed: int, asked: argparse.Namespace) -> list[Run]:
    """All trainings on a corpus, and BM25."""
    tables = dict.fromkeys(["t1", *asked.tables])
    read = signs == 1 and not asked.no_read
    tabled = [name for table in tables for name, row in TABLES[table].items() if read or READ not in row.said]
    return [
        Run(signs, seed, name, asked.clips, asked.steps, made_of(ROWS[name]) if name in ROWS else "", read)
        for name in asked.rows or [*tabled, LEXICAL]
    ]


def made_of(row: Row) -> str:
    """See `Run.made`."""
    settings = MATCHERS[row.matcher].settings(**settings_of(row))
    return hashlib.blake2b(repr((row, settings)).encode(), digest_size=8).hexdigest()


def settings_of(row: Row) -> dict[str, Any]:
    """What differs from the defaults of the row's matcher."""
    return {"temperature": TEMPERATURE} | OWN.get(row.matcher, {}) | dict(row.settings)


def of_corpus(data: Path, runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """Some trainings on one corpus in the folder of corpora."""
    planted = Planted(folder_of(data, runs[0]), runs[0])
    for run in runs:
        yield run, lexical_rows(planted) if run.row == LEXICAL else rows_of_run(run, planted)


def rows_of_run(run: Run, planted: Planted) -> Rows:
    """Train once, and measure what it finds in the same words, and in others."""
    row = ROWS[run.row]
    learned = planted.split("train", row.said, row.ratio)
    begun_s = time.process_time()
    matcher = trained(run, row, learned)
    taken = {LEARNED: time.process_time() - begun_s}
    rows = {run.row: found_of(scores_in(matcher, planted.split("test", row.said, row.ratio)), planted) | taken}
    for said in row.searched:
        if said in planted.said:
            name = f"{run.row}, searched in {said}"
            rows[name] = found_of(scores_in(matcher, planted.split("test", said)), planted)
    fused = planted.said if row.said == TRUE else (row.said,)
    for said in fused if row.lexical else ():
        rows[f"{run.row}{FUSED}{said}"] = found_of(with_lexical(matcher, planted, said), planted)
    return rows


def with_lexical(matcher: Matcher, planted: Planted, said: str) -> ScoreBlocks:
    """A matcher's scores fused with those of BM25, by weights that the validation split gives."""
    seen = {part: scores_in(matcher, planted.split(part, said)) for part in ("val", "test")}
    read = {part: lexical(planted, part, said, "trigrams") for part in ("val", "test")}
    answers = own_clip(planted.split("val").corpus, seen["val"].caption_ids, seen["val"].video_ids)
    held_out = Validation([seen["val"], read["val"]], answers)
    return fuse({"matcher": seen["test"], LEXICAL: read["test"]}, validation=held_out)


def trained(run: Run, row: Row, split: Split) -> Matcher:
    """The matcher of a row after its last step."""
    plain = planted_recipe("scene_text", run.seed, Sizes(run.clips, run.steps))
    recipe = replace(
        plain,
        matcher=MatcherChoice(row.matcher, settings_of(row)),
        adapter=AdapterSettings(kind="mlp", windows=row.windows),
        loop=replace(plain.loop, batch_size=BATCH),
    )
    return trained_on(recipe, split)


def lexical_rows(planted: Planted) -> Rows:
    """BM25 over what signs say."""
    return {
        f"{LEXICAL}, {by}, {said}": found_of(lexical(planted, "test", said, by), planted)
        for said in planted.said
        for by in get_args(By)
    }


def lexical(planted: Planted, name: str, said: str, by: By) -> ScoreBlocks:
    """BM25 of all captions and clips of a split."""
    read, split = planted.read(name, said), planted.split(name)
    shards, _ = read.found.shards()
    signs = {
        clip_id: [track.text for track in changed_signs(shards[clip_id], clip_id, read.changes, read.found.made)]
        for clip_id in split.videos.ids
    }
    texts = dict(split.corpus.captions.select("caption_id", "text").rows())
    return bm25_scores({one: texts[one] for one in split.texts.ids}, signs, by=by)


def scores_in(matcher: Matcher, split: Split) -> ScoreBlocks:
    """Of a matcher."""
    return matcher_scores(matcher, split.texts, split.videos)


def found_of(held: ScoreBlocks, planted: Planted) -> Figures:
    """R@1 and mAP in percent, where all that a caption names has to be shown."""
    return found_in(held, planted.split("test").corpus)


def tables_of(signs: int, figures: Seeds, tables: Sequence[str]) -> tuple[str, bool]:
    """The tables of a number of signs, in Markdown, and whether the claims hold."""
    gap = difference(figures[ORACLE], figures[FRAMES_ALONE], MAIN)
    parts = [f"{signs} sign{'s' * (signs > 1)} a clip, {len(figures[ORACLE])} seeds; gap of R@1: {words(gap)}"]
    for table in dict.fromkeys(["t1", *tables]):
        rows = [name for name in figures if table_of(name) == table]
        shown = rows if table in ("t1", "words") else [TCD, *rows]
        head = "| | R@1 | mAP | gap closed, % | difference in R@1 | seconds |"
        parts.append(f"{table}\n\n{markdown(head, [line_of(name, figures) for name in shown])}")
    holds = gap.low > 0
    if (none := f"{RATIOS[0]:.0%} of the words") in figures:
        holds &= difference(figures[TCD], figures[none], MAIN).low > 0
    return "\n\n".join(parts), holds


def rows_alone(signs: int, figures: Seeds) -> str:
    """A line for each row, with its difference from the row that it belongs to where that is there."""
    count = len(next(iter(figures.values())))
    lines = [f"{signs} sign{'s' * (signs > 1)} a clip, {count} seeds, R@1"]
    for name, own in figures.items():
        other = less_words(name, figures)
        lines.append(f"{name}: {words(gap_of(np.array([one[MAIN] for one in own])))}{other and '; '}{other}")
    return "\n".join(lines)


def table_of(name: str) -> str:
    """Where a row stands; what is no training of its own is about words."""
    return next((table for table, rows in TABLES.items() if name in rows), "words")


def compared(name: str, figures: Mapping[str, Sequence[Figures]]) -> str:
    """The row that a row is compared with, a fusion with the matcher on the same words; nothing for BM25 alone."""
    if name in ROWS:
        return ROWS[name].against
    row, _, said = name.partition(FUSED)
    if not said:
        return TCD if name.startswith(TCD) else ""
    alone = f"{row}, searched in {said}"
    return alone if alone in figures else row


def less_words(name: str, figures: Seeds) -> str:
    """The difference of a row in R@1 from the row that it belongs to; nothing where that is not there."""
    other = compared(name, figures)
    if other not in figures or other == name:
        return ""
    return f"{words(difference(figures[name], figures[other], MAIN))} to {other}"


def line_of(name: str, figures: Seeds) -> list[str]:
    """The cells of a row."""
    own, base, oracle = figures[name], figures[FRAMES_ALONE], figures[ORACLE]
    share = "" if name in (FRAMES_ALONE, ORACLE) else closed(own, base, oracle, MAIN)
    seconds = f"{mean(own, LEARNED):.0f}" if LEARNED in own[0] else ""
    return [name, f"{mean(own, MAIN):.1f}", f"{mean(own, MAP):.1f}", share, less_words(name, figures), seconds]


if __name__ == "__main__":
    raise SystemExit(main())
