"""Does a model that adapts to a shifted domain without labels find more, and what does each part of TITAN do?

    python -m benchmarks.domain [--tables t1 t2 f4 fit choice captions skewed default streams]
        [--protocols online offline] [--seeds 5] [--first-seed 10] [--clips 1500] [--steps 500] [--lr 1e-3]
        [--epochs 4] [--processes 2] [--out FILE]

In the planted corpora of `domain` training clips come from a source with another look, other words and other
company than the clips of the test (docs/planted.md). On features of the built-in encoder `wti` behind a small adapter
is trained on the source (90 % of the clips are of it), and, as the oracle, on as many labelled clips of the target. The
source model then meets the captions of the test split in an order that the seed gives, without answers, in batches of
128, and adapts to them and to the clips they search; what it answers is measured against what each clip shows.

- t1: the source alone; naive pseudo-labels, the first clip of each query; TTT++ and TTTFlow style; QB-Norm and NNN with
  the stream's own queries as their bank, online those before; TITAN with all of its parts, and with safety.
- t2: rebalancing (CHR) and bias correction (CBC), alone, together and in halves, and other ways of matching.
- f4: beta from 2 to 60 queries, and as shares of the queries.
- fit: how long and how fast the target stage of the bias correction trains, and what becomes of the rank that it gives
  its pseudo-labels among their candidates; 0 steps leave the correction as it came from the source.
- choice: whose choice among the candidates of the source's scores is right, before anything was learned from it: the
  first clip, the rematched one, the cosine of the vectors that the correction judges by, the correction after each
  stage, its ranks with the matcher's; and what is learned if these ranks decide.
- skewed: ways to match where only the captions of a third of the clips are asked, but all clips are searched.
- default: what `evenreel adapt` does unless told otherwise (settings `safe`, and `safe-online`), on these captions, on
  those of a third of the clips and on the streams below; also where the checkpoint was not prepared, so that drift is
  not looked at, and with other ways to match.
- captions: whether clips of counterfactual captions show what the whole captions name, before anything was learned.
- streams: source, TITAN and TITAN with safety on a stream without shift (source clips that were not learned from), and
  on queries of random words, after which the captions of the test are asked.

R@1 is the share of captions whose first clip shows all that is named. The share of the gap that is closed is
(row - source) / (oracle - source), with Fieller's interval over seeds; differences are taken seed by seed, with
intervals of 95 % by Student's t. Labels measure alone: also how many pseudo-labels are right, and how many clips have
one, in all and step by step (a batch online, a time through all queries offline). Seeds 0 to 4 were looked at while
this was written, and are left out of what is reported.

Exit status 1 if the oracle is not better than the source, or a row with safety, or of the default, loses for sure. With
--out the figures of each run are written down as they come, and a benchmark that was broken off goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from benchmarks.domain_labels import (
    AFTER,
    BEFORE,
    COVERED,
    RELABELLED,
    RIGHT,
    by_step,
    choices,
    choices_table,
    ranks_of,
    right_of,
    steps_table,
    without_words,
)
from benchmarks.domain_rows import CHOICE, F4, FIT, HALVES, NAIVE, ORACLE, SAFE, SAFETY, SOURCE, T1, T2, TABLES, TITAN
from benchmarks.over_seeds import (
    Figures,
    Rows,
    Seeds,
    by_row,
    checked,
    closed,
    difference,
    markdown,
    mean,
    measured,
    seeds_parser,
    words,
)
from benchmarks.planted import STRENGTH, Sizes, Split, found_in, showing, split_of, trained
from benchmarks.planted import recipe as planted_recipe
from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.baselines.normalised import StreamNorm
from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.preparing import PrepareSettings, SourceSplit, confounders_of, prepare
from evenreel.adaptation.resources import resources_of, text_reader
from evenreel.adaptation.run import Adaptation, adapt
from evenreel.adaptation.settings import AdaptSettings, naive
from evenreel.adaptation.settings_files import load_settings
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.adaptation.titan.causal import CausalSettings
from evenreel.adaptation.titan.matching import Match, MatchSettings
from evenreel.adaptation.titan.pseudo_labels import Resources
from evenreel.encoders import load_encoder
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm
from evenreel.language import load_tagger
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted import plan_corpus
from evenreel.training.data.pairs import pairs_of
from evenreel.types import FloatArray, Scores, TextFeatures

MAIN, MAP = "R@1", "mAP"
CHANGED = "first clips changed, %"
MADE = "counterfactual captions"
MORE = (RIGHT, COVERED, CHANGED, MADE, BEFORE, AFTER, RELABELLED)
DEFAULT = "default of evenreel adapt"
BLIND = f"{DEFAULT}, not prepared"
DEFAULT_MATCHES: tuple[Match, ...] = ("hungarian", "sinkhorn")
"""Ways to match that the default is measured with beside its own."""
OTHER_SEED = 500
"""Added to the seed of a corpus for clips that were not learned from."""
NO_SHIFT, RANDOM, THIRD = "no shift", "random queries", "a third of the clips"
"""Streams beside the captions of the test."""
RANDOM_QUERIES = 300


@dataclass(frozen=True)
class Run:
    """All rows of a table and protocol on one corpus.

    Attributes:
        seed: of the corpus, the training and the stream.
        table: a key of `TABLES`.
        protocol: see `AdaptSettings`.
        clips: of all splits.
        steps: of the source's training.
        lr: of adaptation.
        epochs: of the offline protocol.
    """

    seed: int
    table: str
    protocol: str
    clips: int
    steps: int
    lr: float
    epochs: int

    @property
    def corpus(self) -> int:
        """See `benchmarks.over_seeds`; a seed has one."""
        return self.seed

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.protocol}"

    @property
    def settings(self) -> AdaptSettings:
        """TITAN as the paper has it, with the rate and the epochs of the run."""
        paper = load_settings(f"titan/{self.protocol}")
        return replace(paper, learns="heads", lr=self.lr, epochs=self.epochs, seed=self.seed)


class World(NamedTuple):
    """A source with its model, and a target."""

    model: Matcher
    oracle: Matcher
    prepared: PreparedSource
    source: Split
    target: Split
    calm: Split


def main() -> int:
    """The tables; 1 if a claim does not hold."""
    asked = arguments()
    seeds = [runs_of(seed, asked) for seed in range(asked.first_seed, asked.first_seed + asked.seeds)]
    found = measured((run for runs in seeds for run in runs), Run, work, asked)
    holds = True
    for protocol in asked.protocols:
        rows = by_row([[run for run in runs if run.protocol == protocol] for runs in seeds], found)
        text, own = tables_of(protocol, rows, asked.tables)
        print(text, end="\n\n")
        holds &= own
    return int(not holds)


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=1_500)
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES], help="beside t1")
    parser.add_argument("--protocols", nargs="+", default=["online", "offline"], choices=["online", "offline"])
    parser.add_argument("--first-seed", type=int, default=10, help="the others follow")
    parser.add_argument("--steps", type=int, default=500, help="of the source's training")
    parser.add_argument("--lr", type=float, default=1e-3, help="of adaptation")
    parser.add_argument("--epochs", type=int, default=4, help="of the offline protocol")
    return checked(parser)


def runs_of(seed: int, asked: argparse.Namespace) -> list[Run]:
    """All tables and protocols of a seed."""
    sizes = asked.clips, asked.steps, asked.lr, asked.epochs
    tables = dict.fromkeys(["t1", *asked.tables])
    return [Run(seed, table, protocol, *sizes) for protocol in asked.protocols for table in tables]


def work(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """The rows of all runs of one seed."""
    world = world_of(runs[0])
    for run in runs:
        yield run, rows_of_run(run, world)


def world_of(run: Run) -> World:
    """Train the source's model and the oracle, and prepare the first."""
    encoder, sizes = load_encoder("builtin"), Sizes(run.clips, run.steps)
    biased, free = (plan_corpus("domain", strength, run.clips, run.seed) for strength in (STRENGTH, 0.0))
    source, target = split_of(biased, "train", encoder), split_of(free, "test", encoder)
    calm = split_of(plan_corpus("domain", 1.0, run.clips // 4, run.seed + OTHER_SEED), "train", encoder)
    recipe = planted_recipe("domain", run.seed, sizes)
    model, oracle = trained(recipe, source), trained(recipe, split_of(free, "train", encoder))
    return World(model, oracle, prepared_of(model, source, run.seed, CausalSettings()), source, target, calm)


def prepared_of(model: Matcher, source: Split, seed: int, causal: CausalSettings) -> PreparedSource:
    """What adaptation needs of the source; confounders are centres of its frames."""
    part = SourceSplit(source.texts, source.videos, pairs_of(source.corpus, source.texts.ids, source.videos.ids))
    settings = PrepareSettings(causal=causal, seed=seed)
    return prepare(model, part, confounders_of(source.videos, None, seed=seed), settings)


def rows_of_run(run: Run, world: World) -> Rows:
    """All rows of a table."""
    if run.table == "streams":
        return of_streams(run, world, {name: T1[name](run.settings) for name in (TITAN, SAFE)})
    if run.table == "skewed":
        return of_skewed(run, world)
    if run.table == "default":
        return of_default(run, world)
    if run.table == "captions":
        resources = resources_for(run.settings, world, world.target)
        return without_words(world.model, stream_of(world.target, run.seed), world.target, resources)
    changes = {"t1": T1, "t2": T2, "f4": F4, "fit": FIT, "choice": CHOICE}[run.table]
    rows = {name: adapted(change(run.settings), world, world.target) for name, change in changes.items()}
    if run.table == "t1":
        values = scores_in(world.model, world.target)
        rows |= {
            SOURCE: found_of(values, world.target),
            ORACLE: found_of(scores_in(world.oracle, world.target), world.target),
        }
        own = normalised(values, order_of(world.target, run.seed), run.settings.online)
        rows |= {f"{name}, own queries": found_of(one, world.target) for name, one in own}
    if run.table == "choice":
        rows |= choices(world.model, world.prepared, world.target, run.settings.causal_fit)
    if run.table == "t2":
        for name, causal in HALVES.items():
            other = world._replace(prepared=prepared_of(world.model, world.source, run.seed, causal))
            rows[name] = adapted(replace(naive(run.settings), causal=True), other, world.target)
    return rows


def adapted(settings: AdaptSettings, world: World, split: Split) -> Figures:
    """What a stream's own queries get, and how right the pseudo-labels were."""
    stream = stream_of(split, settings.seed)
    done = adapt(model_of(settings, world, split), stream, keep=settings.online)
    values = scores_in(done.matcher, split) if done.scores is None else in_order(done.scores, split)
    return found_of(values, split) | labels_of(done, split, settings.online)


def model_of(settings: AdaptSettings, world: World, split: Split) -> TestTimeMatcher:
    """The source's model around the clips of a split."""
    return TestTimeMatcher(world.model, split.videos, settings, resources_for(settings, world, split))


def resources_for(settings: AdaptSettings, world: World, split: Split) -> Resources:
    """What it takes to adapt to a split."""
    reader = text_reader(load_encoder("builtin"), world.model)
    return resources_of(world.prepared, split.videos, settings, reader, load_tagger("pattern"))


def order_of(split: Split, seed: int) -> np.ndarray[Any, Any]:
    """In which order captions come."""
    return np.random.default_rng([seed, 7]).permutation(len(split.texts.ids))


def stream_of(split: Split, seed: int) -> QueryStream:
    """The captions of a split, without what they describe."""
    texts = taken(split.texts, order_of(split, seed))
    sentences = dict(split.corpus.captions.select("caption_id", "text").iter_rows())
    return QueryStream(texts, tuple(sentences[one] for one in texts.ids), split.videos)


def in_order(scores: Scores, split: Split) -> FloatArray:
    """Rows in the order of the split's captions."""
    place = {one: row for row, one in enumerate(scores.caption_ids)}
    return np.asarray(scores.values[[place[one] for one in split.texts.ids]])


def scores_in(model: Matcher, split: Split) -> FloatArray:
    """(Q, V)."""
    return matcher_scores(model, split.texts, split.videos).block(slice(None), slice(None))


def normalised(values: FloatArray, order: np.ndarray[Any, Any], online: bool) -> list[tuple[str, FloatArray]]:
    """Scores corrected by the queries before, batch by batch, or offline by all queries."""
    found = []
    for name, rescore in (("QB-Norm", querybank_norm), ("NNN", partial(nearest_neighbour_norm, top=128))):
        norm = StreamNorm(partial(corrected, rescore), least=128)
        table = np.empty_like(values)
        for start in range(0, len(order) if online else 0, 128):
            table[order[start : start + 128]] = norm(values[order[start : start + 128]])
        found.append((name, table if online else corrected(rescore, values, values)))
    return found


def corrected(rescore: Callable[..., Scores], values: FloatArray, bank: FloatArray) -> FloatArray:
    """By a correction of whole tables."""
    ids = [str(row) for row in range(len(values))], [str(column) for column in range(values.shape[1])]
    return np.asarray(rescore(Scores(values, *ids), bank).values)


def found_of(values: FloatArray, split: Split) -> Figures:
    """R@1 and mAP in percent, where all that a caption names has to be shown."""
    return found_in(Scores(values, list(split.texts.ids), list(split.videos.ids)), split.corpus)


def labels_of(done: Adaptation, split: Split, online: bool) -> Figures:
    """How right the pseudo-labels were and how many clips had one, step by step, and what changed.

    A step is a batch online, and all of them count; offline it is a time through all queries, and the last one counts.
    """
    figures: Figures = {CHANGED: 100 * done.report.first_changed}
    steps = [step for step in done.report.steps if step.labels]
    right = showing(split.corpus, list(split.texts.ids), list(split.videos.ids))
    for step in steps:
        figures |= {by_step(name, step.number): value for name, value in right_of(step.labels, split, right).items()}
    if last := steps if online else steps[-1:]:
        figures |= right_of([pair for step in last for pair in step.labels], split, right)
        figures[MADE] = float(sum(step.counterfactual for step in last))
        figures |= ranks_of(last)
    return figures


def of_streams(run: Run, world: World, ways: Mapping[str, AdaptSettings]) -> Rows:
    """What ways to adapt do where they should do nothing."""
    found: Rows = {f"{NO_SHIFT}, {SOURCE}": found_of(scores_in(world.model, world.calm), world.calm)}
    found[f"{RANDOM}, {SOURCE}"] = found_of(scores_in(world.model, world.target), world.target)
    for name, settings in ways.items():
        found[f"{NO_SHIFT}, {name}"] = adapted(settings, world, world.calm)
        done = adapt(model_of(settings, world, world.target), random_stream(world, run.seed))
        changed = {CHANGED: 100 * done.report.first_changed}
        found[f"{RANDOM}, {name}"] = found_of(scores_in(done.matcher, world.target), world.target) | changed
    return found


def of_skewed(run: Run, world: World) -> Rows:
    """What ways to match do where most clips are asked for by nobody."""
    few = asked_for(world.target, run.seed)
    found: Rows = {f"{THIRD}, {SOURCE}": found_of(scores_in(world.model, few), few)}
    for name in (NAIVE, "CHR", "mutual neighbours", "assigned", "transported"):
        found[f"{THIRD}, {name}"] = adapted((T1 | T2)[name](run.settings), world, few)
    return found


def asked_for(split: Split, seed: int) -> Split:
    """All clips, with the captions of a third of them."""
    captions = split.corpus.captions
    clips = np.random.default_rng([seed, 11]).permutation(split.videos.ids)[: len(split.videos.ids) // 3]
    kept = captions.filter(pl.col("clip_id").is_in(clips.tolist()))
    rows = np.flatnonzero(np.isin(split.texts.ids, kept["caption_id"].to_list()))
    return Split(replace(split.corpus, captions=kept), taken(split.texts, rows), split.videos)


def of_default(run: Run, world: World) -> Rows:
    """What `evenreel adapt` does unless told otherwise, also where nobody knows the moments of the source."""
    settings = replace(load_settings("safe-online" if run.settings.online else "safe"), seed=run.seed)
    ways = {DEFAULT: settings, BLIND: replace(settings, safety=replace(settings.safety, drift=False))}
    for match in DEFAULT_MATCHES:
        ways[f"{DEFAULT}, {match}"] = replace(settings, matching=MatchSettings(match=match))
    few = asked_for(world.target, run.seed)
    found = {name: adapted(own, world, world.target) for name, own in ways.items()}
    found |= {f"{THIRD}, {SOURCE}": found_of(scores_in(world.model, few), few)}
    found |= {f"{THIRD}, {name}": adapted(own, world, few) for name, own in ways.items()}
    return found | of_streams(run, world, {name: ways[name] for name in (DEFAULT, BLIND)})


def random_stream(world: World, seed: int) -> QueryStream:
    """Queries that say nothing: words of the vocabulary in any order."""
    rng, vocabulary = np.random.default_rng([seed, 9]), sorted(all_words(world.target))
    sentences = tuple(" ".join(rng.choice(vocabulary, 6)) for _ in range(RANDOM_QUERIES))
    texts: TextFeatures = text_reader(load_encoder("builtin"), world.model)(sentences)
    return QueryStream(texts, sentences, world.target.videos)


def all_words(split: Split) -> set[str]:
    """Of the captions."""
    return {word for text in split.corpus.captions["text"] for word in text.lower().split()}


def tables_of(protocol: str, figures: Seeds, tables: Sequence[str]) -> tuple[str, bool]:
    """The tables of a protocol, in Markdown, and whether the claims hold."""
    gap = difference(figures[ORACLE], figures[SOURCE], MAIN)
    parts = [f"{protocol}, {len(figures[SOURCE])} seeds; gap of R@1: {words(gap)}"]
    holds = gap.low > 0
    for table in dict.fromkeys(["t1", *(table for table in tables if table != "captions")]):
        names = [SOURCE, ORACLE, *(name for name in TABLES[table] if name in figures)]
        if table == "skewed":
            names = [name for name in figures if name.startswith(THIRD) and DEFAULT not in name]
        if table == "streams":
            names = [name for name in figures if name.startswith((NO_SHIFT, RANDOM)) and DEFAULT not in name]
        if table == "default":
            names = [name for name in figures if DEFAULT in name]
        head = "| | R@1 | mAP | gap closed, % | difference in R@1 | " + " | ".join(MORE) + " |"
        parts.append(f"{table}\n\n{markdown(head, [line_of(name, figures) for name in names])}")
        for name in names:
            if name.endswith(SAFETY) or DEFAULT in name:
                holds &= difference(figures[name], figures[base_of(name)], MAIN).high >= 0
    stepped = {name: figures[name] for name in (*T1, *T2, *HALVES, *CHOICE) if name in figures}
    parts += [table for table in (steps_table(stepped), choices_table(figures)) if table]
    return "\n\n".join(parts), holds


def base_of(name: str) -> str:
    """The row that a row is compared with."""
    stream, comma, _ = name.partition(", ")
    return f"{stream}, {SOURCE}" if comma and stream in (NO_SHIFT, RANDOM, THIRD) else SOURCE


def line_of(name: str, figures: Seeds) -> list[str]:
    """The cells of a row."""
    own, base = figures[name], base_of(name)
    share = (
        closed(own, figures[SOURCE], figures[ORACLE], MAIN) if base == SOURCE and name not in (SOURCE, ORACLE) else ""
    )
    less = "" if name == base else words(difference(own, figures[base], MAIN))
    more = [
        f"{mean(own, one):.{2 if one in (BEFORE, AFTER) else 1}f}" if all(one in seed for seed in own) else ""
        for one in MORE
    ]
    return [name, f"{mean(own, MAIN):.1f}", f"{mean(own, MAP):.1f}", share, less, *more]


if __name__ == "__main__":
    raise SystemExit(main())
