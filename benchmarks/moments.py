"""How well do scores of frames say where a moment starts and ends, by evenreel's rule and by simpler ones?

    python -m benchmarks.moments DIR MODELS [--seed 1] [--choose]

DIR holds QVHighlights' `highlight_val_release.jsonl` and `sample_val_preds.jsonl`, MODELS
`qddetr_onlyclip_val_preds.jsonl` and `qddetr_video_val_preds.jsonl`: scores that three published models (Moment-DETR,
Lei et al. 2021; QD-DETR, Moon et al. 2023, with frames by CLIP and with features of video) gave to every two seconds
of the clips of 1,550 queries. Each rule finds one stretch in them, and in scores planted over the same windows: 1
inside, 0 outside, and noise that half of one frame's is the last frame's (AR(1)), with a deviation of 1, 1/2 and 1/4
(signal to noise 1, 2 and 4).

Half of the videos chose evenreel's rule, by the scores of the first two models and the noise of seed 0 (`--choose`
prints what it was chosen from); printed are the other half, the scores of the third model too, and other noise.

mIoU is the mean overlap of the stretch with the best of the true windows, R1@0.5 the share of overlaps of a half, and
*lands* the share of points to land on that lie in a true window; intervals of 95 %, by videos, also of what evenreel's
rule gains over each other one. Below each table: how many true starts and ends lie in the range that is said of each,
and whether narrow ranges are the better ones. Last stand the mean over the sets, a set on which evenreel's rule is
known to fail (planted without noise, so smoothed that scores rise and fall gently), the models' own windows and two
guesses that look at no video. Exit status 1 if evenreel's rule is surely worse than another one on any set but that,
or not the best by the mean.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from benchmarks.over_seeds import markdown
from evenreel.corpus import FORMATS, select
from evenreel.evaluation.intervals import GroupedMean, Interval, hits_interval, mean_interval, share_interval
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
from evenreel.library.search import seen
from evenreel.library.search.seen import stretches_of

FRAME_S, NEAR_S = 2.0, 4.0
RATIOS = (1, 2, 4)
FOLLOWS = 0.5
"""Share of a frame's noise that is the last frame's."""
WORDS = ("mIoU", "R1@0.5", "R1@0.7")
OURS = "evenreel"
MODELS = ("Moment-DETR", "QD-DETR, frames", "QD-DETR, video")
Curve = NDArray[np.float64]
Curves = Mapping[str, Curve]
Ends = tuple[int, int, int]
"""First frame, the frame after the last, and the frame to land on."""


def main() -> int:
    """The tables; 1 if the rule is surely worse than a simpler one, or its mean is lower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="QVHighlights")
    parser.add_argument("models", type=Path, help="predictions of QD-DETR")
    parser.add_argument("--seed", type=int, default=1, help="of planted noise; 0 chose the rule")
    parser.add_argument("--choose", action="store_true", help="print what the rule was chosen from, on other videos")
    asked = parser.parse_args()
    if asked.choose:
        truth, sets, _ = curve_sets(asked.folder, asked.models, 0, chose=True)
        print(markdown("| calm | noisy | a noise | mIoU |", choices(truth, sets)))
        return 0
    truth, sets, given = curve_sets(asked.folder, asked.models, asked.seed)
    print(f"{len(truth.query_ids)} queries of {len(set(truth.clip_ids))} videos", end="\n\n")
    worse, means = False, dict.fromkeys(RULES, 0.0)
    for title, curves in sets.items():
        found = {name: measured(truth, curves, rule) for name, rule in RULES.items()}
        print(table(title, found), end="\n\n")
        worse |= surely_worse({name: one for name, (one, _) in found.items()})
        print(ranges(truth, curves), end="\n\n")
        means = {name: mean + found[name][0].summary["mIoU"].value / len(sets) for name, mean in means.items()}
    print("Mean mIoU over the sets:", ", ".join(f"{name} {mean:.1f}" for name, mean in means.items()), end="\n\n")
    gentle = {name: gaussian_filter1d(one, 4.0) for name, one in planted(truth, np.inf, 0)}
    print(table("planted, gentle", {name: measured(truth, gentle, rule) for name, rule in RULES.items()}), end="\n\n")
    for name, predictions in (given | blind_predictions(truth)).items():
        own = MomentPredictions({query: predictions.windows[query] for query in truth.query_ids})
        found_by = evaluate_moments(own, truth, MomentSettings(WORDS))
        print(f"{name}: {', '.join(f'{word} {one.value:.1f}' for word, one in found_by.summary.items())}")
    return int(worse or max(means, key=means.__getitem__) != OURS)


def curve_sets(
    folder: Path, models: Path, seed: int, *, chose: bool = False
) -> tuple[MomentTruth, dict[str, Curves], dict[str, MomentPredictions]]:
    """True windows of the videos that chose nothing (or of those that did), scores by set, and models' own windows."""
    truth = moment_truth(select(FORMATS["qvhighlights"]([folder]).corpus, split="val"))
    truth = replace(truth, clip_ids=tuple(name.rsplit("_", 2)[0] for name in truth.clip_ids))  # the videos, whole
    last = [hashlib.md5(name.encode(), usedforsecurity=False).digest()[-1] for name in truth.clip_ids]
    truth = truth.of([row for row, one in enumerate(last) if one % 2 != chose])
    files = [
        folder / "sample_val_preds.jsonl",
        *(models / f"qddetr_{one}_val_preds.jsonl" for one in ("onlyclip", "video")),
    ]
    given = {title: load_predictions(path) for title, path in zip(MODELS[: 3 - chose], files, strict=False)}
    sets: dict[str, Curves] = {title: one.ratings for title, one in given.items()}
    sets |= {f"planted, {ratio}": dict(planted(truth, ratio, seed)) for ratio in RATIOS}
    return truth, sets, given


def choices(truth: MomentTruth, sets: Mapping[str, Curves]) -> list[list[str]]:
    """The mean mIoU of the rule with other numbers. Nearer still to the best, too little of a gentle slope is left."""
    rows = []
    for calm, noisy, a_noise in product((0.65, 0.75, 0.85), (0.15, 0.2, 0.25), (1.0, 1.5, 2.0)):
        with mock.patch.multiple(seen, CALM_SHARE=calm, NOISY_SHARE=noisy, PER_NOISE=a_noise):
            found = [measured(truth, curves, ours)[0].summary["mIoU"].value for curves in sets.values()]
        rows.append([f"{calm}", f"{noisy}", f"{a_noise}", f"{np.mean(found):.2f}"])
    return rows


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


def measured(truth: MomentTruth, curves: Curves, rule: Callable[[Curve], Ends]) -> tuple[MomentEvaluation, Curve]:
    """Figures of a rule's stretches, and 100 for each query whose point to land on is in a true window."""
    ends = {name: rule(curves[name]) for name in truth.query_ids}
    windows = {name: FRAME_S * np.array([[start, stop]], float) for name, (start, stop, _) in ends.items()}
    lands = [
        100.0 * bool(((window[:, 0] < (at := FRAME_S * (ends[name][2] + 0.5))) & (at < window[:, 1])).any())
        for name, window in zip(truth.query_ids, truth.windows, strict=True)
    ]
    return evaluate_moments(MomentPredictions(windows), truth, MomentSettings(WORDS)), np.array(lands)


class Ranges(NamedTuple):
    """What ranges of starts and ends are worth, where the point to land on lies in a true window."""

    covered: float  # share of true starts and ends that lie in their range
    width_s: float  # mean width of a range
    constant_s: float  # width of a range of one width for all, around what is said, that covers as many
    near_where_narrow: float  # share within 4 s of the true ones, of the third with the narrowest ranges
    near_where_wide: float  # the same of the third with the widest

    def __str__(self) -> str:
        return (
            f"Ranges of start and end cover {self.covered:.1f} %, {self.width_s:.1f} s wide on average (one width for "
            f"all that covers as many: {self.constant_s:.1f} s); within 4 s are {self.near_where_narrow:.1f} % of the "
            f"third with the narrowest, {self.near_where_wide:.1f} % of that with the widest"
        )


def ranges(truth: MomentTruth, curves: Curves) -> Ranges:
    """Measure evenreel's ranges of start and end."""
    rows = []
    for name, windows in zip(truth.query_ids, truth.windows, strict=True):
        first = stretches_of(curves[name])[0]
        at_s = FRAME_S * (first.best + 0.5)
        for own in windows[(windows[:, 0] < at_s) & (at_s < windows[:, 1])][:1]:
            said_of_both = (first.start, first.starts, own[0]), (first.stop, first.stops, own[1])
            for said, (low, high), true_s in said_of_both:
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
    lines, (ours, _) = [], found[OURS]
    groups = by_video(ours)
    for name, (one, lands) in found.items():
        figures = [*one.summary.values(), share_interval(GroupedMean.of(lands, groups), one.confidence)]
        cells = [f"{figure.value:.1f} [{figure.low:.1f}, {figure.high:.1f}]" for figure in figures]
        gained = gain(ours, one, "mIoU")
        lines.append([name, *cells, f"{gained.value:+.1f} [{gained.low:+.1f}, {gained.high:+.1f}]"])
    return markdown(f"| {title} | {' | '.join(WORDS)} | lands | evenreel's gain in mIoU |", lines)


def by_video(one: MomentEvaluation) -> NDArray[np.int64]:
    return np.unique(one.clip_ids, return_inverse=True)[1].astype(np.int64)


def gain(one: MomentEvaluation, other: MomentEvaluation, word: str) -> Interval:
    """What a rule gains over another one."""
    interval = mean_interval if word == "mIoU" else hits_interval
    return interval(GroupedMean.of(one.per_query[word] - other.per_query[word], by_video(one)), 0.95)


def surely_worse(found: Mapping[str, MomentEvaluation]) -> bool:
    """Whether another rule's mIoU or R1@0.5 is above evenreel's with its interval; says so."""
    gains = {(name, word): gain(one, found[OURS], word) for name, one in found.items() for word in WORDS[:2]}
    better = {key: gained for key, gained in gains.items() if gained.low is not None and gained.low > 0}
    for (name, word), gained in better.items():
        print(f"{name} is surely better in {word}, by {gained.value:.1f} points", file=sys.stderr)
    return bool(better)


def smoothed(curve: Curve, frames: int) -> Curve:
    """A running mean over an odd number of frames."""
    return np.convolve(np.pad(curve, frames // 2, mode="edge"), np.ones(frames) / frames, mode="valid")


def above(curve: Curve, least: float, raw: Curve) -> Ends:
    """The stretch above a threshold that holds the best score, and its best frame as it was."""
    high = np.concatenate(([False], curve >= least, [False])).astype(np.int8)
    start, stop = max(np.flatnonzero(np.diff(high)).reshape(-1, 2).tolist(), key=lambda ends: curve[slice(*ends)].max())
    return start, stop, start + int(raw[start:stop].argmax())


def upper_half(curve: Curve, frames: int = 1) -> Ends:
    """Above the middle of mean and best; perhaps of a running mean."""
    smooth = smoothed(curve, frames)
    return above(smooth, (smooth.mean() + smooth.max()) / 2, curve)


def otsu(curve: Curve) -> Ends:
    """Above the threshold that parts scores into two groups of the least variance."""
    ordered = np.sort(curve)
    below = np.arange(1, len(curve))
    sums = (ordered - ordered.mean()).cumsum()
    place = int((sums[:-1] ** 2 * (1 / below + 1 / below[::-1])).argmax())  # variance between the two
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
    "upper half": upper_half,
    "of a running mean of 5": lambda curve: upper_half(curve, 5),
    "Otsu's threshold": otsu,
    "largest sum": largest_sum,
    OURS: ours,
}

if __name__ == "__main__":
    raise SystemExit(main())
