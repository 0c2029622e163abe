"""How often each audit reports what is not there, where a few clips crowd the rankings, and how often what is.

    python -m benchmarks.false_alarms [--out FILE] [--cells 100x1 300x5] [--worlds 200] [--hubs 0 0.4 1.0 2.0]

A world is a gallery of clips with captions, each of which its clip answers best on average; every clip is also liked by
all captions, by as much as `--hubs` says (in standard deviations of the noise), whatever its source and length. So
hubs are there, and no preference: an audit that speaks is wrong. With `--planted X` generated clips score X more, which
it should find. Each figure of each audit counts as speaking where its interval leaves the neutral value out, whether
or not there are enough clips to conclude. With --out, rows are kept in a file and a run goes on where one stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenreel.audits import AuditInputs, AuditSettings, audit, measure_hubness, measure_perturbed, measure_source
from evenreel.audits.source import EVERY_GROUP, measure_unpaired
from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import OVERLAY_OF
from evenreel.evaluation.concentration import skewness
from evenreel.evaluation.intervals import Interval
from evenreel.types import Corpus, Scores

CELLS = ("30x1", "30x5", "30x41", "100x1", "100x5", "100x41", "300x1", "300x5", "1000x1")
HUBS = (0.0, 0.4, 1.0, 2.0)
RESAMPLES = 400
GROUP = "sora"
KEPT = (3.0, 7.0)
"""Percent of worlds in which a figure may speak that there is nothing to speak of."""

Told = Iterator[tuple[str, Interval, float]]
"""Names of figures, the figures, and their neutral values."""


@dataclass(frozen=True)
class World:
    """A gallery of `clips` with so many captions each; `spread` is how much clips differ in being liked by all."""

    clips: int
    captions: int
    spread: float
    seed: int
    planted: float = 0.0

    @property
    def own(self) -> Any:
        """(Q,) the clip of each caption."""
        return np.repeat(np.arange(self.clips), self.captions)

    def settings(self) -> AuditSettings:
        return AuditSettings(resamples=RESAMPLES, seed=self.seed)

    def values(self, random: np.random.Generator, clips: int) -> Any:
        """(Q, clips) what captions make of clips: those of one clip share half of their noise."""
        shared = random.normal(size=(self.clips, clips))[self.own]
        noise = shared if self.captions == 1 else (shared + random.normal(size=shared.shape)) / 2**0.5
        return noise + self.spread * random.normal(size=clips)


def ids(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def corpus_of(world: World, clips: dict[str, Any]) -> Corpus:
    """The captions describe the first clips, in their order."""
    described = [clips["clip_id"][one] for one in world.own]
    captions = {"caption_id": ids("c", len(described)), "clip_id": described, "text": ids("ball ", len(described))}
    return make_corpus(pl.DataFrame(clips), pl.DataFrame(captions))


def scores_of(values: Any, clips: list[str]) -> Scores:
    return Scores(values.astype(np.float32), ids("c", len(values)), clips)


def mirrored(world: World, *, paired: bool) -> tuple[Corpus, Scores]:
    """Real clips and as many generated ones, which mirror them or nothing."""
    random, real, made = np.random.default_rng(world.seed), ids("r", world.clips), ids("s", world.clips)
    values = world.values(random, 2 * world.clips)
    rows = np.arange(len(values))
    values[rows, world.own] += 2.5
    if paired:
        values[rows, world.clips + world.own] += 2.5
    values[:, world.clips :] += world.planted
    pairs = [None] * world.clips + (real if paired else [None] * world.clips)
    kinds = ["camera"] * world.clips + [GROUP] * world.clips
    corpus = corpus_of(world, {"clip_id": real + made, "source": kinds, "pair_id": pairs, "fps": [25.0] * len(kinds)})
    return corpus, scores_of(values, real + made)


def source(world: World) -> Told:
    """Pairs, and the same gallery as if nobody knew of them."""
    corpus, scores = mirrored(world, paired=True)
    found = measure_source(scores, corpus, GROUP, world.settings())
    for kind, deltas in found.deltas.items():
        yield from ((f"source {kind} {word}", one, 0.0) for word, one in deltas.items())
    yield "source win rate", found.win_rate, 50.0
    yield "source AUC", found.auc, 50.0
    yield "source video to text MixR", found.video_deltas["MixR"], 0.0
    yield from unpaired(corpus, scores, world, "of pairs")


def without_pairs(world: World) -> Told:
    """Real and generated clips that mirror nothing; only real ones have captions, which they answer."""
    corpus, scores = mirrored(world, paired=False)
    yield from unpaired(corpus, scores, world, "without pairs", places=False)


def unpaired(corpus: Corpus, scores: Scores, world: World, name: str, *, places: bool = True) -> Told:
    """The preference, and who takes the first places; those that answer are among these."""
    found = measure_unpaired(scores, corpus, world.settings())
    yield f"source preference {name}", found.preferences[EVERY_GROUP].share, 50.0
    if places:
        for depth, one in found.exposure.shown.items():
            yield f"source first {depth} {name}", one, found.exposure.gallery


def confounds(world: World) -> Told:
    corpus, scores = mirrored(world, paired=True)
    (found,) = audit("confounds", scores, corpus, world.settings())
    yield "confounds win rate", ends_of(found.effect), 50.0


def lengths(world: World) -> Told:
    """Lengths at random; then with classes of five clips, and lengths of training that say nothing of these."""
    random = np.random.default_rng(world.seed)
    values, clips = world.values(random, world.clips), ids("v", world.clips)
    values[np.arange(len(values)), world.own] += 2.5
    frames = np.rint(np.exp(random.normal(5, 0.7, world.clips))).astype(int) + 1
    if world.planted:
        values += world.planted * np.log(frames)
    table = {"clip_id": clips, "frame_count": frames, "fps": [25.0] * world.clips}
    (found,) = audit("length", scores_of(values, clips), corpus_of(world, table), world.settings())
    yield "length ratio", ends_of(found.effect), 1.0
    kinds = np.arange(world.clips) // 5
    classes = {"verb_classes": [[int(one)] for one in kinds], "noun_classes": [[0]] * world.clips}
    values += 1.0 * (kinds[world.own][:, None] == kinds)
    (found,) = audit("length", scores_of(values, clips), corpus_of(world, table | classes), world.settings())
    yield "length ratio, classes", ends_of(found.effect), 1.0
    learned = ids("t", world.clips)
    other = {"clip_id": learned, "frame_count": np.rint(np.exp(random.normal(5, 0.7, world.clips))).astype(int) + 1}
    train = corpus_of(World(world.clips, 1, 0, 0), table | classes | other)
    read = scores_of(values, clips), corpus_of(world, table | classes)
    (found,) = audit("length", *read, world.settings(), AuditInputs(train=train))
    yield "length of training", ends_of(found.effect), 0.0


def videos(world: World) -> Told:
    """Five pairs cut from each video, whose real clips are liked alike, and its generated ones too; so are its lengths.

    Clips drawn by themselves would take the videos for a preference.
    """
    random, count = np.random.default_rng(world.seed), world.clips
    real, made, video = ids("r", count), ids("s", count), np.arange(count) // 5
    liked = world.spread * random.normal(size=(2, video[-1] + 1))[:, video].ravel()
    values = World(count, world.captions, 0.0, world.seed).values(random, 2 * count) + liked
    rows = np.arange(len(values))
    values[rows, world.own] += 2.5
    values[rows, count + world.own] += 2.5
    values[:, count:] += world.planted
    logs = random.normal(5, 0.5, 2 * (video[-1] + 1)).reshape(2, -1)[:, video].ravel() + random.normal(
        0, 0.5, 2 * count
    )
    table = {
        "clip_id": real + made, "source": ["camera"] * count + [GROUP] * count, "pair_id": [None] * count + real,
        "fps": [25.0] * 2 * count, "frame_count": np.rint(np.exp(logs)).astype(int) + 1,
        "video_id": [f"v{one}" for one in video] + [None] * count,
    }  # fmt: skip
    corpus, scores = corpus_of(world, table), scores_of(values, real + made)
    found = measure_source(scores, corpus, GROUP, world.settings())
    yield "videos win rate", found.win_rate, 50.0
    yield "videos normalized MixR", found.deltas["normalized"]["MixR"], 0.0
    yield "videos AUC", found.auc, 50.0
    yield from unpaired(corpus, scores, world, "of videos")
    own = pl.DataFrame(table).with_columns(video_id=pl.Series([f"{kind}{one}" for kind in "rs" for one in video]))
    (told,) = audit("length", scores, corpus_of(world, own.to_dict(as_series=False)), world.settings())
    yield "videos length ratio", ends_of(told.effect), 1.0


def hubness(world: World) -> Told:
    random, clips = np.random.default_rng(world.seed), ids("v", world.clips)
    values = world.values(random, world.clips)
    found = measure_hubness(scores_of(values, clips), corpus_of(world, {"clip_id": clips}), world.settings())
    yield "hubness skewness", found.main.skewness, found.main.chance_skewness
    yield "hubness Gini", found.main.gini, found.main.chance_gini


def edits(world: World) -> Told:
    """Versions of clips as unlike as two takes, and captions worded anew; no edit does more than the control."""
    random, clips = np.random.default_rng(world.seed), ids("v", world.clips)
    base = world.values(random, world.clips)
    base[np.arange(len(base)), world.own] += 2.5

    def take(of_clips: float, of_captions: float) -> Scores:
        rows = of_captions * random.normal(size=(world.clips, world.clips))[world.own]
        return scores_of(
            base + of_clips * random.normal(size=world.clips) + rows + 0.2 * random.normal(size=base.shape), clips
        )

    distractors = {"clip_id": clips, OVERLAY_OF: clips[1:] + clips[:1]}
    corpus = corpus_of(world, distractors)
    for name, amounts in (("visual", (0.6, 0.3)), ("textual", (0.0, 0.6)), ("overlay", (0.6, 0.3))):
        versions = {"edit": take(*amounts), "control": take(*amounts)}
        settings = world.settings()
        clean = take(*amounts)
        (found,) = audit(name, clean, corpus, settings, AuditInputs(edited=versions))
        yield f"{name} beyond the control", ends_of(found.effect), 0.0
        if name == "visual":
            measured = measure_perturbed(clean, corpus, versions, settings)
            yield "visual falls", measured.changes["edit", "its clip"].fell, 0.0
            for placing in ("its clip", "the other clips", "all clips"):
                yield f"visual R@1 lost, {placing} edited", measured.changes["edit", placing].recalls["R@1"], 0.0


def ends_of(effect: Any) -> Interval:
    return Interval(effect.value, effect.low, effect.high)


AUDITED: dict[str, Callable[[World], Told]] = {
    "source": source,
    "without_pairs": without_pairs,
    "confounds": confounds,
    "lengths": lengths,
    "videos": videos,
    "hubness": hubness,
    "edits": edits,
}


def hub_skewness(world: World) -> float:
    """How uneven the first ten places of a gallery with these hubs are."""
    return first_ten_skewness(world.values(np.random.default_rng(world.seed), world.clips))


def first_ten_skewness(values: Any) -> float:
    first = np.argsort(-values, axis=1)[:, : min(10, values.shape[1] - 1)]
    return skewness(np.bincount(first.ravel(), minlength=values.shape[1]))


def measured_cell(name: str, cell: str, spread: float, worlds: int, planted: float) -> dict[str, Any]:
    """How many worlds of a cell each figure speaks in."""
    clips, captions = map(int, cell.split("x"))
    told: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    started = time.process_time()
    for seed in range(worlds):
        for figure, one, neutral in AUDITED[name](World(clips, captions, spread, seed, planted)):
            if one.low is not None and one.high is not None:
                asked[figure] += 1
                told[figure] += not one.low <= neutral <= one.high
    hubs = float(np.mean([hub_skewness(World(clips, captions, spread, seed)) for seed in range(5)]))
    return {
        "audit": name, "cell": cell, "spread": spread, "planted": planted, "worlds": worlds, "skewness": round(hubs, 2),
        "told": {figure: [told[figure], asked[figure]] for figure in asked},
        "seconds": round(time.process_time() - started, 1),
    }  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    """A line a figure: percent of worlds, a column a cell and strength of hubs."""
    for name in dict.fromkeys((row["audit"], row["planted"]) for row in rows):
        own = [row for row in rows if (row["audit"], row["planted"]) == name]
        print(f"\n{name[0]}{f', {name[1]:g} planted' if name[1] else ''}: percent of worlds in which a figure speaks")
        heads = [f"{row['cell']} {row['skewness']:.1f}" for row in own]
        widest = max(len(figure) for row in own for figure in row["told"])
        print(" " * widest, *(f"{head:>11}" for head in heads))
        for figure in dict.fromkeys(figure for row in own for figure in row["told"]):
            cells = [
                100 * row["told"][figure][0] / row["told"][figure][1] if figure in row["told"] else None for row in own
            ]
            print(f"{figure:<{widest}}", *(f"{'' if one is None else f'{one:.1f}':>11}" for one in cells))
    counted = [counts for row in rows if not row["planted"] for counts in row["told"].values()]
    if counted:
        shares = [100 * told / asked for told, asked in counted]
        told, asked = (sum(one) for one in zip(*counted, strict=True))
        within = sum(KEPT[0] <= one <= KEPT[1] for one in shares)
        above = sum(one > KEPT[1] for one in shares)
        print(
            f"\nWithout a preference {100 * told / asked:.1f} % of {asked:,} figures speak; of {len(shares)} figures "
            f"and cells {within} in {KEPT[0]:g} to {KEPT[1]:g} % of their worlds, {above} in more, the most in "
            f"{max(shares):.1f} %, and {len(shares) - within - above} in fewer."
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", nargs="+", choices=[*AUDITED], default=[*AUDITED])
    parser.add_argument("--cells", nargs="+", default=[*CELLS], metavar="CLIPSxCAPTIONS")
    parser.add_argument("--hubs", nargs="+", type=float, default=[*HUBS], metavar="SPREAD")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--planted", type=float, default=0.0, help="what generated, or long, clips score more")
    parser.add_argument("--out", type=Path, help="file of rows, to go on with")
    asked = parser.parse_args()
    kept = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out and asked.out.exists() else []
    keys = ("audit", "cell", "spread", "planted", "worlds")
    done = {tuple(row[key] for key in keys): row for row in kept}
    rows = []
    for name in asked.audits:
        for cell in asked.cells:
            for spread in asked.hubs if name != "hubness" else (0.0,):
                key = name, cell, spread, asked.planted, asked.worlds
                if key not in done:
                    done[key] = measured_cell(name, cell, spread, asked.worlds, asked.planted)
                    if asked.out:
                        with asked.out.open("a") as file:
                            file.write(json.dumps(done[key]) + "\n")
                    print(f"{name} {cell} hubs {spread:g}: {done[key]['seconds']} s", file=sys.stderr, flush=True)
                rows.append(done[key])
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
