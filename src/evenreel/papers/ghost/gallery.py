"""Galleries with a growing share of generated clips: what stands first, and who still finds what was asked for.

Not in the paper, which mixes all of both: a library holds some share of generated clips, and it grows. Each pair has
one place in the gallery, held by the real clip or by its mirror, so the gallery stays as large and every caption keeps
one answer; the pairs that are replaced at one share are replaced at a larger one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.inputs import PairedScores, pair_scores
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.evaluation.ranking import hit_chance
from evenreel.papers.engine.findings import Findings, effect_of, few_pairs, furthest, shown
from evenreel.papers.engine.inputs import RankingInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.seeds import PERCENT
from evenreel.papers.engine.settings import SeededSettings
from evenreel.papers.engine.words import paragraph
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Line, Panel, share_sweep
from evenreel.report.result import AuditFigure, AuditTable, interval_cells, interval_columns

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MIDDLE = 0.5
FIRST, OF_REAL, OF_GENERATED = "generated clips in the first place, %", "R@1, real answers", "R@1, generated answers"
EXCESS = "First places of generated clips beyond their half of the gallery, points"

Sweep = Mapping[float, Mapping[str, Interval]]
"""By share, figures by name; one that nothing is known of, such as R@1 of no clips, is left out."""


@dataclass(frozen=True, eq=False)
class GalleryDraws:
    """First places and hits in each of G galleries, sums over captions.

    Attributes:
        first: (G,) chances that the clip in the first place is generated.
        hits: (2, G) chances that it is the answer, of captions whose answer is real and of those whose is generated.
        captions: (2, G) how many captions there are of each.
    """

    first: NDArray[np.float64]
    hits: NDArray[np.float64]
    captions: NDArray[np.int64]


def gallery_share(material: RankingInputs, settings: SeededSettings, progress: Progress) -> Findings:
    """Measure first places and R@1 in galleries with a growing share of generated clips."""
    groups, systems = list(groups_in(material.test)), material.systems()
    sweeps: dict[tuple[str, str], Sweep] = {}
    notices: dict[str, None] = {}
    for (group, system), _ in each_part(list(product(groups, systems)), progress):
        paired = pair_scores(systems[system], material.test, group)
        sweeps[group, system] = swept(paired, settings)
        notices |= dict.fromkeys(paired.notices)
    excess = {key: _excess(sweep) for key, sweep in sweeps.items()}
    group, system = lead = furthest(excess)
    return Findings(
        f"Where half of the gallery is of {group}, these clips hold {sweeps[lead][MIDDLE][FIRST].value:.1f} % of "
        f"the first places of {system}: {shown(excess[lead])} points beside their half.",
        effect_of(excess[lead], f"{EXCESS}: {system}, {group}"),
        tuple(_table(key, sweep) for key, sweep in sweeps.items()),
        (AuditFigure("Galleries with a growing share of generated clips", lambda: _drawn(sweeps)),),
        tuple(notices),
        (paragraph("ghost", "Growing galleries", seeds=settings.seeds),),
        few=few_pairs(material.test, groups),
    )


def swept(paired: PairedScores, settings: SeededSettings) -> Sweep:
    """Measure galleries of all shares, as means over seeds."""
    pairs = len(paired.real)
    replaced = np.stack([draw_replaced(pairs, share, seed) for share in SHARES for seed in range(settings.seeds)])
    counted = count_galleries(paired, replaced, settings.audit.band_bytes)
    rows = np.arange(len(replaced)).reshape(len(SHARES), settings.seeds)
    return {share: _figures(counted, own, settings.audit.confidence) for share, own in zip(SHARES, rows, strict=True)}


def draw_replaced(pairs: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw in which of n pairs the generated clip takes the place of the real one, (n,).

    Args:
        pairs: n, number of pairs.
        share: share of the pairs that is drawn, 0 to 1; a larger one has those of a smaller one.
        seed: seed of the draw.

    >>> [int(draw_replaced(10, share, seed=0).sum()) for share in (0.0, 0.25, 1.0)]
    [0, 2, 10]
    """
    replaced = np.zeros(pairs, np.bool_)
    replaced[np.random.default_rng(seed).permutation(pairs)[: round(share * pairs)]] = True
    return replaced


def count_galleries(paired: PairedScores, replaced: NDArray[np.bool_], band_bytes: int) -> GalleryDraws:
    """Search G galleries for every caption; scores are read once.

    Args:
        paired: scores of captions with n pairs.
        replaced: (G, n) pairs that are held by their mirror.
        band_bytes: about how many bytes of scores are read at a time.
    """
    first, hits, captions = (
        np.zeros(len(replaced)),
        np.zeros((2, len(replaced))),
        np.zeros((2, len(replaced)), np.int64),
    )
    for held, real, generated in paired.bands(band_bytes):
        answers, rows = paired.pair[held], np.arange(len(real))
        for number, mirrors in enumerate(replaced):
            values = np.where(mirrors, generated, real)
            own = values[rows, answers]
            best = values == values.max(axis=1, keepdims=True)
            first[number] += (best[:, mirrors].sum(axis=1) / best.sum(axis=1)).sum()
            chance = _first_chance(values, own)
            kind = mirrors[answers].astype(np.int64)
            hits[:, number] += np.bincount(kind, chance, minlength=2)
            captions[:, number] += np.bincount(kind, minlength=2)
    return GalleryDraws(first, hits, captions)


def _first_chance(values: NDArray[Any], own: NDArray[Any]) -> NDArray[np.float64]:
    above = (values > own[:, None]).sum(axis=1)
    others = (values == own[:, None]).sum(axis=1) - 1
    return np.asarray((own > -np.inf) * hit_chance(above, others, np.ones_like(above), 1))


def _figures(counted: GalleryDraws, rows: NDArray[np.int64], confidence: float) -> dict[str, Interval]:
    total = counted.captions[:, rows].sum(axis=0)
    found = {FIRST: over_seeds((100 * counted.first[rows] / total).tolist(), confidence, PERCENT)}
    for kind, name in enumerate((OF_REAL, OF_GENERATED)):
        captions = counted.captions[kind, rows]
        if captions.all():
            found[name] = over_seeds((100 * counted.hits[kind, rows] / captions).tolist(), confidence, PERCENT)
    return found


def _excess(sweep: Sweep) -> Interval:
    """Return the first places of generated clips beyond their half of the gallery, in points."""
    at, half = sweep[MIDDLE][FIRST], 100 * MIDDLE
    low, high = (None if end is None else end - half for end in (at.low, at.high))
    return Interval(at.value - half, low, high)


def _table(key: tuple[str, str], sweep: Sweep) -> AuditTable:
    names = (FIRST, OF_REAL, OF_GENERATED)
    rows = tuple(
        (round(100 * share), *interval_cells(*(found.get(name, Interval(np.nan)) for name in names)))
        for share, found in sweep.items()
    )
    columns = ("share of the gallery, %", *interval_columns(*names))
    return AuditTable(f"{key[1]}: galleries with clips of {key[0]}", columns, rows)


def _drawn(sweeps: Mapping[tuple[str, str], Sweep]) -> go.Figure:
    names = {key: f"{key[1]}, {key[0]}" for key in sweeps}

    def lines(figure: str) -> dict[str, Line]:
        return {
            names[key]: [(100 * share, found[figure]) for share, found in sweep.items() if figure in found]
            for key, sweep in sweeps.items()
        }

    even: dict[str, Line] = {"as many as in the gallery": [(100 * share, Interval(100 * share)) for share in SHARES]}
    parts = [
        Panel("Generated clips in the first place", "%", lines(FIRST) | even),
        Panel("Captions of real clips", "R@1, %", lines(OF_REAL)),
        Panel("Captions of generated clips", "R@1, %", lines(OF_GENERATED)),
    ]
    return share_sweep(parts, "generated clips in the gallery")
