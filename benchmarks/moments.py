"""How well do scores of frames say where a moment starts and ends, by evenreel's rule and by simpler ones?

    python -m benchmarks.moments DIR [--seed 1]

DIR holds QVHighlights' `highlight_val_release.jsonl` and `sample_val_preds.jsonl`, the scores that a published model
(Moment-DETR, Lei et al. 2021) gave to every two seconds of the clips of 1,550 queries. Each rule finds one stretch in
them, and in scores planted over the same windows: 1 inside, 0 outside, and noise that half of one frame's is the last
frame's (AR(1)), with a deviation of 1, 1/2 and 1/4 (signal to noise 1, 2 and 4). Queries of even number and the noise
of seed 0 chose evenreel's rule; printed are queries of odd number and the noise of another seed.

mIoU is the mean overlap of the stretch with the best of the true windows, R1@0.5 the share of overlaps of a half, and
*lands* the share of points to land on that lie in a true window; intervals of 95 %, by clips. Below each table: how
many true starts and ends lie in the range that is said of each, and whether narrow ranges are the better ones. Last
stand the model's own windows and two guesses that look at no video. Exit status 1 if evenreel's rule is surely worse
than another one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.over_seeds import markdown
from evenreel.corpus import FORMATS, select
from evenreel.evaluation.intervals import GroupedMean, hits_interval, mean_interval, share_interval
from evenreel.evaluation.moments import (
    MomentEvaluation,
    MomentPredictions,
    MomentSettings,
    MomentTruth,
    blind_predictions,
    evaluate_moments,
    load_predictions,
    moment_truth,
)
from evenreel.library.search.seen import stretches_of

FRAME_S, NEAR_S = 2.0, 4.0
RATIOS = (1, 2, 4)
FOLLOWS = 0.5
"""Share of a frame's noise that is the last frame's."""
WORDS = ("mIoU", "R1@0.5", "R1@0.7")
OURS = "evenreel"
Curve = NDArray[np.float64]
Ends = tuple[int, int, int]
"""First frame, the frame after the last, and the frame to land on."""


def main() -> int:
    """The table; 1 if the rule is surely worse than a simpler one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="QVHighlights")
    parser.add_argument("--seed", type=int, default=1, help="of planted noise; 0 chose the rule")
    asked = parser.parse_args()
    given = load_predictions(asked.folder / "sample_val_preds.jsonl")
    truth = odd(moment_truth(select(FORMATS["qvhighlights"]([asked.folder]).corpus, split="val")))
    sets = {"the model's scores": {name: given.ratings[name] for name in truth.query_ids}}
    sets |= {f"planted, {ratio}": dict(planted(truth, ratio, asked.seed)) for ratio in RATIOS}
    worse = False
    for title, curves in sets.items():
        found = {name: measured(truth, curves, rule) for name, rule in RULES.items()}
        print(table(title, found), end="\n\n")
        worse |= surely_worse({name: one for name, (one, _) in found.items()})
        print(ranges(truth, curves), end="\n\n")
    others = {"the model's own windows": given} | blind_predictions(truth)
    for name, predictions in others.items():
        own = MomentPredictions({query: predictions.windows[query] for query in truth.query_ids})
        found_by = evaluate_moments(own, truth, MomentSettings(WORDS))
        print(f"{name}: {', '.join(f'{word} {one.value:.1f}' for word, one in found_by.summary.items())}")
    return int(worse)


def odd(truth: MomentTruth) -> MomentTruth:
    """The queries of odd number, which chose nothing."""
    return truth.of([row for row, name in enumerate(truth.query_ids) if int(name) % 2])


def planted(truth: MomentTruth, ratio: float, seed: int) -> Iterator[tuple[str, Curve]]:
    """Scores over the true windows of each query."""
    rng = np.random.default_rng(seed)
    for name, windows, duration_s in zip(truth.query_ids, truth.windows, truth.durations, strict=True):
        times_s = FRAME_S * (np.arange(int(duration_s / FRAME_S)) + 0.5)
        inside = ((times_s[:, None] > windows[:, 0]) & (times_s[:, None] < windows[:, 1])).any(1)
        fresh, noise = rng.standard_normal(len(times_s)), np.zeros(len(times_s))
        noise[0] = fresh[0]
        for place in range(1, len(noise)):
            noise[place] = FOLLOWS * noise[place - 1] + np.sqrt(1 - FOLLOWS**2) * fresh[place]
        yield name, inside + noise / ratio


def measured(
    truth: MomentTruth, curves: Mapping[str, Curve], rule: Callable[[Curve], Ends]
) -> tuple[MomentEvaluation, Curve]:
    """Figures of a rule's stretches, and 100 for each query whose point to land on is in a true window."""
    ends = {name: rule(curves[name]) for name in truth.query_ids}
    windows = {name: FRAME_S * np.array([[start, stop]], float) for name, (start, stop, _) in ends.items()}
    lands = [
        100.0 * bool(((window[:, 0] < (at := FRAME_S * (ends[name][2] + 0.5))) & (at < window[:, 1])).any())
        for name, window in zip(truth.query_ids, truth.windows, strict=True)
    ]
    return evaluate_moments(MomentPredictions(windows), truth, MomentSettings(WORDS)), np.array(lands)


@dataclass(frozen=True)
class Ranges:
    """What ranges of starts and ends are worth, where the point to land on lies in a true window.

    Attributes:
        covered: share of true starts and ends that lie in their range.
        width_s: mean width of a range.
        constant_s: width of a range of one width for all, around what is said, that covers as many.
        near_where_narrow: share of starts and ends within 4 seconds of the true ones, of the third with the narrowest
            ranges.
        near_where_wide: the same of the third with the widest.
    """

    covered: float
    width_s: float
    constant_s: float
    near_where_narrow: float
    near_where_wide: float

    def __str__(self) -> str:
        return (
            f"Ranges of start and end cover {self.covered:.1f} %, {self.width_s:.1f} s wide on average (one width for "
            f"all that covers as many: {self.constant_s:.1f} s); within 4 s are {self.near_where_narrow:.1f} % of the "
            f"third with the narrowest, {self.near_where_wide:.1f} % of that with the widest"
        )


def ranges(truth: MomentTruth, curves: Mapping[str, Curve]) -> Ranges:
    """Measure evenreel's ranges of start and end."""
    rows = []
    for name, windows in zip(truth.query_ids, truth.windows, strict=True):
        first = stretches_of(curves[name])[0]
        at_s = FRAME_S * (first.best + 0.5)
        for own in windows[(windows[:, 0] < at_s) & (at_s < windows[:, 1])][:1]:
            for said, (low, high), true_s in (
                (first.start, first.starts, own[0]),
                (first.stop, first.stops, own[1]),
            ):
                inside = FRAME_S * (low - 0.5) <= true_s <= FRAME_S * (high + 0.5)
                rows.append((inside, FRAME_S * (high - low + 1), abs(FRAME_S * said - true_s)))
    inside, widths, errors = np.array(rows, float).T
    order, third = np.argsort(widths, kind="stable"), len(rows) // 3
    near = 100.0 * (errors <= NEAR_S)[order]
    return Ranges(
        covered=100 * float(inside.mean()),
        width_s=float(widths.mean()),
        constant_s=2 * float(np.quantile(errors, inside.mean())) + FRAME_S,
        near_where_narrow=float(near[:third].mean()),
        near_where_wide=float(near[-third:].mean()),
    )


def table(title: str, found: Mapping[str, tuple[MomentEvaluation, Curve]]) -> str:
    """A row for each rule."""
    lines = []
    for name, (one, lands) in found.items():
        groups = np.unique(one.clip_ids, return_inverse=True)[1].astype(np.int64)
        figures = [*one.summary.values(), share_interval(GroupedMean.of(lands, groups), one.confidence)]
        lines.append([name, *(f"{figure.value:.1f} [{figure.low:.1f}, {figure.high:.1f}]" for figure in figures)])
    return markdown(f"| {title} | {' | '.join(WORDS)} | lands |", lines)


def surely_worse(found: Mapping[str, MomentEvaluation]) -> bool:
    """Whether another rule's mIoU or R1@0.5 is above evenreel's with its interval; says so."""
    ours, worse = found[OURS], False
    groups = np.unique(ours.clip_ids, return_inverse=True)[1].astype(np.int64)
    for name, other in found.items():
        for word, interval in (("mIoU", mean_interval), ("R1@0.5", hits_interval)):
            gained = interval(GroupedMean.of(other.per_query[word] - ours.per_query[word], groups), 0.95)
            if gained.low is not None and gained.low > 0:
                print(f"{name} is surely better in {word}, by {gained.value:.1f} points", file=sys.stderr)
                worse = True
    return worse


def smoothed(curve: Curve, frames: int) -> Curve:
    """A running mean over an odd number of frames."""
    return np.convolve(np.pad(curve, frames // 2, mode="edge"), np.ones(frames) / frames, mode="valid")


def above(curve: Curve, least: float, raw: Curve) -> Ends:
    """The stretch above a threshold that holds the best score, and its best frame as it was."""
    high = np.concatenate(([False], curve >= least, [False])).astype(np.int8)
    start, stop = max(np.flatnonzero(np.diff(high)).reshape(-1, 2).tolist(), key=lambda ends: curve[slice(*ends)].max())
    return start, stop, start + int(raw[start:stop].argmax())


def upper_half(curve: Curve, frames: int = 1) -> Ends:
    """Above the middle of mean and best, evenreel's rule before; perhaps of a running mean."""
    smooth = smoothed(curve, frames)
    return above(smooth, (smooth.mean() + smooth.max()) / 2, curve)


def otsu(curve: Curve) -> Ends:
    """Above the threshold that parts scores into two groups of the least variance."""
    ordered = np.sort(curve)
    within = [sum(part.var() * len(part) for part in np.split(ordered, [place])) for place in range(1, len(ordered))]
    place = int(np.argmin(within))
    return above(curve, float(ordered[place] + ordered[place + 1]) / 2, curve)


def largest_sum(curve: Curve) -> Ends:
    """The stretch of the largest sum above the mean and half a deviation; all frames where none is above."""
    sums = np.concatenate(([0.0], np.cumsum(curve - curve.mean() - curve.std() / 2)))
    gains = sums - np.minimum.accumulate(sums)
    stop = int(gains.argmax()) or len(curve)
    start = 0 if gains[stop] <= 0 else int(sums[: stop + 1].argmin())
    return start, stop, start + int(curve[start:stop].argmax())


def ours(curve: Curve) -> Ends:
    """Evenreel's first stretch."""
    first = stretches_of(curve)[0]
    return first.start, first.stop, first.best


RULES: dict[str, Callable[[Curve], Ends]] = {
    "upper half (before)": upper_half,
    "of a running mean of 5": lambda curve: upper_half(curve, 5),
    "Otsu's threshold": otsu,
    "largest sum": largest_sum,
    OURS: ours,
}

if __name__ == "__main__":
    raise SystemExit(main())
