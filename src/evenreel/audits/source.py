"""Audit of source bias (Generative Ghost): does a ranking favour real or generated clips of the same meaning?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, Flags, Indices, row_bands
from evenreel.audits.exchange import (
    BOTH,
    DELTA_METRICS,
    LOCATION_METRICS,
    MIX_R,
    Block,
    ClipProperty,
    Drawn,
    Figures,
    Flips,
    drawn_flips,
    exchange_test,
    groups_won,
    inverted_interval,
    inverted_share,
    location_figure,
    mix_r,
    queries_part,
    relative_delta,
    share_interval,
    sign_test,
    swapped_alone,
    swapped_figures,
    widened,
)
from evenreel.audits.inputs import (
    OrderedRows,
    PairedScores,
    as_inputs,
    pair_scores,
    paired_groups,
    paragraph,
    paragraphs,
    scenes_of,
    score_notices,
)
from evenreel.audits.settings import AuditSettings
from evenreel.config import check_kind
from evenreel.corpus.counterparts import counterparts, groups_of
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import AUTO, Interval, clusters_of, figure_intervals
from evenreel.evaluation.metrics import FIRST_RANK, EvaluationSettings, PerQuery
from evenreel.evaluation.ranking import CheckedScores, Hits, hit_columns
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.figures import COLOURS, EDGES, axes, bin_names, deltas_by_group, effect_intervals, table_bars
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Effect,
    Named,
    by_certainty,
    figure_words,
)
from evenreel.types import CAMERA, Corpus, ScoreBlocks, Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

LocationMode = Literal["expected", "random"]

EVERY_GROUP = "all generated"
FIRST_PLACES = (1, 5, 10, 20)  # depths of which the share of generated clips is told
NEUTRAL = 50.0  # percent of meetings that real clips win where there is no preference
_WORDS = (*map(str, DELTA_METRICS), MIX_R)
_GALLERIES = {
    "real": "real, alone",
    "generated": "generated, alone",
    "mixed real": "real, mixed",
    "mixed generated": "generated, mixed",
}
"""Who is looked for, and in which gallery: n clips of its own kind, or all 2n; and how a table says so."""

_FURTHEST = {"relative": 200.0, "location": 200.0, "normalized": 400.0}  # how far from 0 a delta can be


def audit_source(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    location: LocationMode = "expected",
) -> AuditResult:
    """Test whether scores favour real or generated clips of the same meaning.

    Where generated clips mirror real ones that have captions, the effect is the Normalized delta MixR of the group with
    the most pairs. Elsewhere it is how often a real clip is ranked above a generated one where neither answers the
    query, which needs only a clip of each kind and any queries.

    Args:
        scores: scores of captions and clips.
        corpus: corpus with the columns `source` and `pair_id` of clips.
        settings: samples, seed, confidence, and how much is read at once.
        location: order of a clip and its mirror in Location deltas: `expected`, the mean of both orders, or `random`.

    Raises:
        CorpusError: the scores hold no real or no generated clip.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: the location is not known.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    unpaired = measure_unpaired(scores, corpus, settings)
    groups = paired_groups(scores, corpus)
    measured = [measure_source(scores, corpus, group, settings, location=location) for group in groups]
    whole = unpaired.preferences[EVERY_GROUP]
    main = max(measured, key=lambda one: one.pairs) if measured else None
    of_pairs = paragraphs("source", "Pairs", "Deltas", "Win rate", "From video to text", "Intervals of pairs")
    method = [*(of_pairs if main else ()), *paragraphs("source", "Preference without pairs", "Exposure")]
    what = "which clips are real is permuted, within pairs where there are any"
    method += [paragraph("shared", "Permuted clips", what=what)]
    method += paragraphs("source", "Interval of the exposure", "Equal scores")
    if main and main.location == "random":
        method += ["The order of a clip and its mirror in the Location deltas was drawn at random for each caption."]
    return AuditResult(
        name="source",
        title="Are real or generated clips favoured?",
        sentence=_paired_sentence(main, settings.confidence)
        if main
        else unpaired_sentence(whole, unpaired.exposure, settings.confidence),
        effect=main.effect if main else whole.effect,
        tables=(*_paired_tables(measured), *_unpaired_tables(unpaired)),
        figures=(*_paired_figures(measured), *_unpaired_figures(unpaired)),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *unpaired.notices,
            *_without_scores(corpus, groups),
            *(notice for one in measured for notice in one.notices),
        ),
        method=tuple(method),
        confidence=settings.confidence,
    )


def _without_scores(corpus: Corpus, measured: Sequence[str]) -> Iterator[str]:
    """Groups whose pairs are in the corpus but not in the scores."""
    for group in counterparts(corpus)["group"].unique(maintain_order=True):
        if group not in measured:
            if corpus.captions.height:
                yield f"Of no pair of {group} are a caption, the real clip and its mirror all in the scores: left out."
            else:
                yield f"Nobody has said which clip answers which query, so pairs of {group} count as any other clips."


# Sentences, tables and charts ----------------------------------------------------------------------------------------


def _paired_sentence(measured: SourceMeasures, confidence: float) -> str:
    effect, few = measured.effect, ""
    if not effect.enough and measured.asked_for < measured.pairs:
        few = f"Too few clips to conclude: {measured.asked_for:,} of {measured.pairs:,} pairs have a caption. "
    elif not effect.enough:
        few = _few(measured.pairs, measured.pairs, measured.drawn)
    said = figure_words(measured.deltas["normalized"][MIX_R], confidence)
    rate = figure_words(measured.win_rate, confidence, "%")
    return (
        f"{few}{_direction(effect)}: Normalized Δ MixR is {said}, where 0 is no preference and less than 0 favours "
        f"generated clips. For {rate} of {measured.captions:,} captions the real clip stands above its mirror "
        f"({measured.group}, {measured.pairs:,} pairs)."
    )


def unpaired_sentence(preference: Preference, exposure: Exposure, confidence: float) -> str:
    """Say the effect without pairs, and the share of generated clips among the first.

    It begins with a warning where clips are too few.
    """
    effect, first = preference.effect, exposure.shown.get(1)
    lead = "" if effect.enough else _few(preference.real, preference.generated, preference.drawn)
    if isnan(preference.share.value):
        return f"{lead}No caption has both a real and a generated clip that do not answer it, so none can be compared."
    said = (
        f"{lead}{_direction(effect)}: of a real and a generated clip that are not known to answer the query, the real "
        f"one scores higher {figure_words(preference.share, confidence, '%')} of the time, where 50% is no preference "
        f"({preference.captions:,} queries, {preference.real:,} real and {preference.generated:,} generated clips)."
    )
    if first is None:
        return said
    gallery = f"their {exposure.gallery:.1f}% of the gallery"
    if not effect.enough or first.low is None or first.high is None:
        against = f", beside {gallery}."
    elif first.low <= exposure.gallery <= first.high:
        against = f", which cannot be told from {gallery}."
    elif first.value > exposure.gallery:
        against = f", more than {gallery}: they answer more of these queries, or are favoured."
    else:
        against = f", less than {gallery}: they answer fewer of these queries, or real clips are favoured."
    return f"{said} Generated clips take {figure_words(first, confidence, '%')} of the first places{against}"


def _few(real: int, generated: int, drawn: int) -> str:
    together = "" if drawn >= min(real, generated) else f", of which {drawn:,} are drawn apart"
    return f"Too few clips to conclude: {real:,} real and {generated:,} generated{together}. "


def _direction(effect: Effect) -> str:
    side = "real" if effect.value > effect.neutral else "generated"
    return by_certainty(
        effect,
        "What was seen" if effect.value == effect.neutral else f"What was seen leans towards {side} clips",
        "Without an interval no preference can be told",
        "No preference between real and generated clips can be told",
        f"The ranking favours {side} clips",
    )


def _values(figures: Mapping[str, Interval]) -> Named:
    return {word: figures[word].value for word in _WORDS if word in figures}


def _delta_rows(head: str, name: str, deltas: Mapping[str, Interval], first: Named) -> Iterator[Named]:
    """A row of deltas, and two of the ends of their intervals."""
    yield {**first, head: name, **_values(deltas)}
    if any(one.low is not None for one in deltas.values()):
        yield {**first, head: f"{name}, low", **{word: deltas[word].low for word in _WORDS}}
        yield {**first, head: f"{name}, high", **{word: deltas[word].high for word in _WORDS}}


_NEUTRAL_NOTE = "50 % is no preference; less favours generated clips."


def _paired_tables(measured: Sequence[SourceMeasures]) -> Iterator[AuditTable]:
    """A table in the paper's form (tables 2 and 3) for each group, then win rates, then video to text."""
    if not measured:
        return
    for one in measured:
        rows: list[Named] = [{"gallery": name, **_values(one.figures[row])} for row, name in _GALLERIES.items()]
        for kind, deltas in one.deltas.items():
            rows += _delta_rows("gallery", f"{kind.capitalize()} Δ", deltas, {})
        note = f"{one.pairs:,} pairs, {one.captions:,} captions; R@k in percent. Above 0, a delta favours real clips."
        yield AuditTable.of(f"Real and generated clips: {one.group}", rows, note)
    rows = []
    for one in measured:
        for compared, captions, rate in (
            ("each caption", one.captions, one.win_rate),
            ("at equal standing alone", one.even_captions, one.even_win_rate or Interval(float("nan"))),
            ("any caption with any (AUC)", one.captions, one.auc),
        ):
            rows.append({"group": one.group, "compared": compared, "captions": captions, "real above, %": rate})
    yield AuditTable.of("How often the real clip stands above its mirror", rows, _NEUTRAL_NOTE)
    signs: list[Named] = [
        {
            "group": one.group, "pairs won by the real clip": one.clips_won, "by its mirror": one.clips_lost,
            "p": one.sign_p,
        }
        for one in measured
    ]  # fmt: skip
    note = (
        "A pair is won by the clip that most of its captions put first; the others do not count. Pairs that are drawn "
        "together, such as those of one video, count as one."
    )
    yield AuditTable.of("Sign test over pairs", signs, note, digits=4)
    rows, head = [], "who looks for its captions"
    for one in measured:
        rows += [{"group": one.group, head: f"{row} clips", **_values(of)} for row, of in one.video_figures.items()]
        rows += _delta_rows(head, "Relative Δ", one.video_deltas, {"group": one.group})
    note = "Shares in percent. Above 0, real clips find their captions better than their mirrors do."
    yield AuditTable.of("From video to text", rows, note)


def _unpaired_tables(unpaired: Unpaired) -> Iterator[AuditTable]:
    rows: list[Named] = []
    for group, one in unpaired.preferences.items():
        counts = {"real": one.real, "generated": one.generated, "captions": one.captions}
        rows.append({"group": group, **counts, "real above, %": one.share})
    title = "Real against generated clips, neither known to answer the caption"
    yield AuditTable.of(title, rows, _NEUTRAL_NOTE)
    exposure, shown = unpaired.exposure, list[Named]()
    for depth, share in exposure.shown.items():
        there = {"in the gallery, %": exposure.gallery, "ratio": share.value / exposure.gallery}
        shown.append({"first clips": depth, "generated, %": share, **there})
    note = (
        f"Means over {exposure.captions:,} captions. Without a preference the ratio is 1 if generated clips answer as "
        "large a share of the captions as they are of the gallery."
    )
    if shown:
        yield AuditTable.of("Generated clips among the first", shown, note)


def _paired_figures(measured: Sequence[SourceMeasures]) -> Iterator[AuditFigure]:
    unit = "Δ (above 0: real clips favoured)"
    if len(measured) > 1:
        bars = {
            word: {one.group: one.deltas["normalized"][word] for one in measured}
            for word in ("R@1", "MedR", "MeanR", MIX_R)
        }
        yield AuditFigure("Normalized Δ by group", partial(deltas_by_group, bars, f"Normalized {unit}"))
    for one in measured:
        kinds = {kind.capitalize(): deltas for kind, deltas in one.deltas.items()}
        yield AuditFigure(f"Deltas of {one.group}", partial(deltas_by_group, kinds, unit))
        yield AuditFigure(
            f"Which clip of a pair comes first: {one.group}",
            partial(rank_gaps, one.rank_gaps),
            "Ranks in the mixed gallery; each caption once.",
        )


def _unpaired_figures(unpaired: Unpaired) -> Iterator[AuditFigure]:
    if len(unpaired.preferences) > 1:
        yield AuditFigure(
            "Real above generated clips, neither known to answer, by group",
            partial(effect_intervals, {group: one.effect for group, one in unpaired.preferences.items()}),
            "50 % is no preference.",
        )
    *_, table = _unpaired_tables(unpaired)
    if unpaired.exposure.shown:
        bars = partial(table_bars, table, "first clips", ("generated, %", "in the gallery, %"), "generated clips, %")
        yield AuditFigure("Generated clips among the first", bars)


def rank_gaps(gaps: NDArray[np.float64]) -> go.Figure:
    """Draw which clip of a pair is ranked first in the mixed gallery, and by how many places: (Q,) gaps of ranks."""
    labels, generated, real = gap_shares(gaps)
    equal = 100 * float((gaps == 0).mean())
    sides = (
        ("generated clip first", COLOURS[1], [*range(-len(labels), 0)], generated[::-1], labels[::-1]),
        ("alike", COLOURS[-1], [0], [equal], ["0"]),
        ("real clip first", COLOURS[0], [*range(1, len(labels) + 1)], real, labels),
    )
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("places between the two clips of a pair", "share of captions, %"))
    for name, colour, places, shares, words in sides:
        figure.add_bar(
            x=places, y=shares, name=name, marker_color=colour, customdata=words,
            hovertemplate="%{customdata} places: %{y:.1f} % of the captions",
        )  # fmt: skip
    figure.update_layout(bargap=0.1)
    ticks = {"tickvals": [one for side in sides for one in side[2]], "ticktext": [one for s in sides for one in s[4]]}
    return figure.update_xaxes(**ticks, dtick=None, showgrid=False, zeroline=False, automargin=True)


def gap_shares(gaps: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Return names of bins of places, and the percentages of pairs in which mirror or real clip is ahead by so many.

    Fractions of places, which equal scores give, are rounded up.

    >>> gap_shares(np.array([0.5, 2.0, -4.0, 0.0]))
    (['1', '2', '3–5'], array([25., 25.,  0.]), array([ 0.,  0., 25.]))
    """
    furthest = np.abs(gaps).max(initial=1)
    edges = EDGES[: 1 + max(1, sum(edge < furthest + 1 for edge in EDGES[:-1]))]
    made, real = (100 * np.histogram(np.ceil(side), edges)[0] / max(len(gaps), 1) for side in (gaps, -gaps))
    return bin_names(edges), made, real


# Pairs ---------------------------------------------------------------------------------------------------------------
#
# Generative Ghost, section 2.4: figures in separate and mixed galleries; Relative, Location and Normalized deltas. Not
# in the paper are the win rate of the real clip over its mirror, with a sign test, and intervals that are valid where
# there are hubs (`evenreel.audits.exchange`).


@dataclass(frozen=True, eq=False)
class SourceMeasures(Shown):
    """Measures of how one group of generated clips and the real clips that they mirror are ranked.

    Shares are in percent. Intervals of deltas and of the AUC are over captions and clips, those of figures and win
    rates over captions; all captions of a pair are resampled together, and all pairs of a video where the settings say
    so.

    Attributes:
        group: name of the generator and its setting.
        pairs: number n of pairs in the galleries.
        asked_for: number of pairs that have a caption; the others only fill the galleries.
        captions: number Q of their captions.
        drawn: number of independent pairs with a caption: those of one video count once.
        figures: figures by row (`real`, `generated`, `mixed real`, `mixed generated`), then by metric.
        deltas: deltas in percent by kind (`relative`, `location`, `normalized`), then by metric and `MixR`; above 0
            favours real clips.
        swapped: (1 + B,) Normalized delta MixR as measured, and with the clips of some pairs exchanged.
        p_value: two-sided p value of a delta of 0, by these samples; None without samples.
        win_rate: share of captions that rank the real clip above its mirror, ties half; 50 is neutral.
        sign_p: two-sided p value of the sign test, by which real clips and mirrors win as many pairs.
        clips_won, clips_lost: number of pairs in which most captions rank the real clip, or the mirror, above the
            other; those resampled together count as one.
        auc: chance, in percent, that the score of a caption and its real clip is above that of another with its mirror;
            50 is neutral.
        even_win_rate: the win rate over captions for which both clips have the same rank in the galleries of their own
            kind, so that relevance cannot explain it; None where there are none.
        even_captions: number of the captions that `even_win_rate` is over.
        video_figures: figures of clips as queries for the captions of their pair, by row (`real`, `generated`), then
            metric.
        video_deltas: Relative deltas of these, by metric.
        rank_gaps: (Q,) rank of the real clip less that of its mirror in the mixed gallery.
        location: whether the Location deltas are the mean of both orders or of orders drawn at random.
        notices: sentences on what was left out.
    """

    group: str
    pairs: int
    asked_for: int
    captions: int
    drawn: int
    figures: dict[str, dict[str, Interval]]
    deltas: dict[str, dict[str, Interval]]
    swapped: Figures
    p_value: float | None
    win_rate: Interval
    sign_p: float
    clips_won: int
    clips_lost: int
    auc: Interval
    even_win_rate: Interval | None
    even_captions: int
    video_figures: dict[str, dict[str, Interval]]
    video_deltas: dict[str, Interval]
    rank_gaps: NDArray[np.float64]
    location: LocationMode = "expected"
    notices: tuple[str, ...] = ()

    @property
    def effect(self) -> Effect:
        """Normalized delta MixR of the group; enough are `ENOUGH` independent pairs with a caption."""
        delta, enough = self.deltas["normalized"][MIX_R], self.drawn >= ENOUGH
        name = f"Normalized Δ MixR ({self.group})"
        return Effect(name, delta.value, delta.low, delta.high, p_value=self.p_value, enough=enough, over=BOTH)


def measure_source(
    scores: ScoresLike,
    corpus: CorpusLike,
    group: str,
    settings: AuditSettings | None = None,
    *,
    location: LocationMode = "expected",
) -> SourceMeasures:
    """Measure how one group of generated clips and the real clips that they mirror are ranked.

    Queries are the captions of real clips that have a mirror of the group; each ranks the n real clips, the n mirrors,
    and all 2n, in which its clip and the mirror are relevant. Equal scores count with their mean over all orders.

    Args:
        scores: scores of captions and clips, which may include others than those of the pairs.
        corpus: corpus with the pairs of real clips and mirrors.
        group: group of mirrors: generator and setting.
        settings: samples, seed, confidence, and how much is read at once.
        location: `expected`, the mean of both orders of a clip and its mirror, which reproduces the paper's tables; or
            `random`, an order drawn for each caption with the seed, as the paper's text says.

    Raises:
        CorpusError: no pair of the group can be measured.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: the location is not known.
    """
    if location not in ("expected", "random"):
        raise UsageError(f"{location!r} is no way to place the Location deltas; there are: expected, random.")
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    check_kind(group, str, "group", "give the name of one, one text")
    paired = pair_scores(scores, corpus, group, settings.cluster)
    ranks = rank_captions(paired, settings.band_bytes)
    columns = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in ranks.hits.items()}
    galleries = {row: (1 + row.startswith("mixed")) * len(paired.real) for row in columns}
    found = rank_videos(paired, ranks, settings.band_bytes)
    of_videos = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in found.items()}
    flips, asked = drawn_flips(int(paired.cluster.max()) + 1, settings), np.unique(paired.pair)
    ahead = None
    if location == "random":  # of a caption's real clip (1) and its mirror (0) one is put first in the mixed gallery
        ahead = np.random.default_rng(settings.seed).integers(0, 2, paired.drawn.max() + 1)[paired.drawn]
    deltas = _deltas(paired, columns, flips, settings, ahead)
    videos = swapped_figures(of_videos["real"], of_videos["generated"], paired.cluster[asked], flips)
    rank = {row: columns[row][FIRST_RANK] for row in columns}
    even = rank["real"] == rank["generated"]
    evenly = np.where(even, 100 * ranks.wins, np.nan)
    won, lost = groups_won(ranks.wins, paired.drawn_with)
    swapped = deltas["normalized"][MIX_R]
    return SourceMeasures(
        group,
        len(paired.real),
        len(asked),
        len(paired.pair),
        len(np.unique(paired.cluster[asked])),
        figures={row: _figures(one, paired.drawn_with, settings, galleries[row]) for row, one in columns.items()},
        deltas={kind: _delta_intervals(drawn, settings, _FURTHEST[kind]) for kind, drawn in deltas.items()},
        swapped=swapped,
        p_value=exchange_test(swapped),
        win_rate=share_interval(100 * ranks.wins, paired.drawn_with, settings),
        sign_p=sign_test(won, lost),
        clips_won=won,
        clips_lost=lost,
        auc=inverted_interval(
            swapped_auc(ranks.real, ranks.generated, paired.drawn_with, flips), settings, 50.0, (0.0, 100.0)
        ),
        even_win_rate=share_interval(evenly, paired.drawn_with, settings) if even.any() else None,
        even_captions=int(even.sum()),
        video_figures={
            row: _figures(one, paired.cluster[asked], settings, len(paired.pair)) for row, one in of_videos.items()
        },
        video_deltas=_delta_intervals(_relative(*videos), settings, _FURTHEST["relative"]),
        rank_gaps=rank["mixed real"] - rank["mixed generated"],
        location=location,
        notices=paired.notices,
    )


def swapped_auc(first: Block, second: Block, cluster: Indices, flips: Flips) -> Figures:
    """Compute the AUC in percent (1 + B,): the chance that one of the first scores (Q,) is above one of the second.

    It is returned as measured, and for B samples in which clusters are exchanged. Ties count half. Every score keeps
    its rank among all 2Q, and Mann and Whitney's sum of ranks is linear in the exchanges.
    """
    both = np.concatenate([first, second])
    _, place, times = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    count = len(first)
    gains = np.bincount(cluster, ranks[count:] - ranks[:count], flips.shape[1])
    beaten = ranks[:count].sum() - count * (count + 1) / 2 + flips @ gains
    return np.asarray(100 * beaten / count**2)


def _deltas(
    paired: PairedScores,
    columns: Mapping[str, PerQuery],
    flips: Flips,
    settings: AuditSettings,
    ahead: Indices | None,
) -> dict[str, Drawn]:
    """Compute deltas by kind, then metric, (1 + B,) as measured and where pairs have changed places."""
    mixed = swapped_figures(columns["mixed real"], columns["mixed generated"], paired.drawn_with, flips)
    alone = swapped_alone(paired, flips, settings.band_bytes, ahead)
    relative = _relative(*mixed)
    if ahead is None:
        real, made = ({str(one): location_figure(one, side) for one in DELTA_METRICS} for side in alone)
        alone = real, made
    location = _relative(*alone)
    return {
        "relative": relative,
        "location": location,
        "normalized": {word: relative[word] - location[word] for word in relative},
    }


def _relative(real: Drawn, generated: Drawn) -> Drawn:
    """The Relative delta of each metric, and their MixR."""
    deltas = {str(one): relative_delta(one, real[str(one)], generated[str(one)]) for one in DELTA_METRICS}
    return deltas | {MIX_R: mix_r(deltas)}


def _delta_intervals(drawn: Drawn, settings: AuditSettings, most: float) -> dict[str, Interval]:
    return {word: inverted_interval(drawn[word], settings, ends=(-most, most)) for word in _WORDS}


def _figures(columns: PerQuery, groups: Indices, settings: AuditSettings, gallery: int) -> dict[str, Interval]:
    how = {name: getattr(settings, name) for name in ("resamples", "seed", "confidence")}
    return figure_intervals(columns, groups, EvaluationSettings(DELTA_METRICS, **how), gallery)


class CaptionRanks(NamedTuple):
    """Ranks, in each gallery, of the real clip and of the mirror that answer each of Q captions."""

    # first hits by row of `_GALLERIES`, one a caption, of the one clip that counts as relevant; in the mixed gallery
    # its counterpart does not
    hits: dict[str, Hits]
    real: Block  # (Q,) scores of the real clip
    generated: Block  # (Q,) scores of its mirror

    @property
    def wins(self) -> NDArray[np.float64]:
        """Wins of the real clip over its mirror (Q,): 1 where it scores higher, 1/2 where scores are equal, else 0."""
        return np.asarray((self.real > self.generated) + 0.5 * (self.real == self.generated), dtype=np.float64)


def rank_captions(paired: PairedScores, band_bytes: int) -> CaptionRanks:
    """Compute the ranks of the real clip and its mirror for each caption, in every gallery; no table Q x V is made."""
    own, counts = list[tuple[Block, Block]](), list[list[Indices]]()
    for held, real, generated in paired.bands(band_bytes):
        each = np.arange(len(real)), paired.pair[held]
        score, mirror = real[each], generated[each]
        own.append((score, mirror))
        alone = [_standing(real, score), _standing(generated, mirror)]
        counts.append(alone + [alone[0] + _standing(generated, score), alone[1] + _standing(real, mirror)])
    real_scores, generated_scores = (np.concatenate(side) for side in zip(*own, strict=True))
    hits = {}
    for row, parts in zip(_GALLERIES, zip(*counts, strict=True), strict=True):
        above, equal = np.concatenate(parts, axis=1)
        scores = generated_scores if row.endswith("generated") else real_scores
        hits[row] = _hits(above, equal - 1, np.ones_like(above), scores)
    return CaptionRanks(hits, real_scores, generated_scores)


def rank_videos(paired: PairedScores, captions: CaptionRanks, band_bytes: int) -> dict[str, Hits]:
    """Compute, for each clip as a query, the rank of the best-ranked caption of its pair among all Q captions.

    Returns:
        First hits of `real` clips and of `generated` ones, one a pair that has a caption, in the order of the pairs.
    """
    asked = np.unique(paired.pair)
    number = np.searchsorted(asked, paired.pair)
    own = {"real": captions.real, "generated": captions.generated}
    order = np.argsort(number, kind="stable")
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    best = {name: np.asarray(np.maximum.reduceat(scores[order], first)) for name, scores in own.items()}
    counts = {name: np.zeros((2, len(asked)), np.int64) for name in own}
    for _, *blocks in paired.bands(band_bytes):
        for name, block in zip(own, blocks, strict=True):
            counts[name] += _standing(block[:, asked].T, best[name])
    hits = {}
    for name, (above, equal) in counts.items():
        relevant = np.bincount(number[own[name] == best[name][number]], minlength=len(asked))
        hits[name] = _hits(above, equal - relevant, relevant, best[name])
    return hits


def _standing(block: Block, own: Block) -> Indices:
    """(b, n) scores and (b,) own ones -> (2, b), how many of each row are above, and how many equal."""
    column = own[:, None]
    return np.stack([np.count_nonzero(block > column, axis=1), np.count_nonzero(block == column, axis=1)])


def _hits(above: Indices, others: Indices, relevant: Indices, scores: Block) -> Hits:
    return Hits(np.arange(len(above)), above, others, relevant, np.asarray(scores > -np.inf))


# Without pairs -------------------------------------------------------------------------------------------------------
#
# For each caption, every real clip that is not relevant is compared with every generated clip that is not: the share of
# comparisons that the real one wins, ties half, is a two-sample U-statistic (Mann and Whitney 1947), and its mean over
# captions one of three samples. It is a sum over the real clips of their mean ranks, so it is tested, and its interval
# made, by permuting which clips are real while every clip keeps its ranks: only sums over captions are kept, and scores
# are read in bands, once.


@dataclass(frozen=True, eq=False)
class SourceGallery:
    """Scores, clips and captions of a gallery of V real and generated clips."""

    scores: CheckedScores  # of Q captions
    columns: NDArray[np.int64]  # (V,) columns of the corpus's clips in the scores
    real: Flags  # (V,) True for real clips
    generated: dict[str, Flags]  # (V,) True for clips of a group, by the group's name, `EVERY_GROUP` first
    clip_scene: NDArray[np.int64]  # (V,) number of the scene that each clip shows, from 0
    caption_scene: NDArray[np.int64]  # (Q,) of the scene that answers each caption; one that no clip shows if unknown
    clip_drawn: NDArray[np.int64]  # (V,) clusters to be resampled together: those of one scene, or of one video
    caption_drawn: NDArray[np.int64]  # (Q,) likewise
    order: NDArray[np.int64]  # (V,) indices of the clips in the order of their ids
    notices: tuple[str, ...]  # sentences on what was left out

    @classmethod
    def of(cls, scores: ScoreBlocks, corpus: Corpus, cluster: str = AUTO) -> SourceGallery:
        """Select the real and generated clips, and the captions, of a corpus that the scores have."""
        checked, scenes, group_of = CheckedScores(scores), scenes_of(corpus), groups_of(corpus)
        columns = [place for place, clip in enumerate(checked.video_ids) if clip in scenes]
        groups = [group_of.get(checked.video_ids[place]) for place in columns]
        names = list(dict.fromkeys(group for group in groups if group is not None))
        real = np.array([group is None for group in groups], dtype=np.bool_)
        if not names or not real.any():
            raise CorpusError(
                f"Of the clips in the scores {int(real.sum()):,} are real and {int((~real).sum()):,} generated; an "
                "audit of sources needs both: the column source of the corpus's clips names the generator of each "
                f"generated one, and is {CAMERA}, real or empty for the others."
            )
        of_one = {name: np.array([group == name for group in groups]) for name in names} if len(names) > 1 else {}
        clip_of = dict(corpus.captions.select("caption_id", "clip_id").rows())
        number: dict[tuple[str, str], int] = {}
        shows = [("clip", scenes[checked.video_ids[place]]) for place in columns]
        asks = [("clip", scenes[clip_of[one]]) if one in clip_of else ("query", one) for one in checked.caption_ids]
        clip_scene, caption_scene = (
            np.array([number.setdefault(one, len(number)) for one in side], dtype=np.int64) for side in (shows, asks)
        )
        named = [name if kind == "clip" else f"{kind}\n{name}" for kind, name in (*shows, *asks)]  # ids have one line
        clip_drawn, caption_drawn = np.split(clusters_of(corpus, cluster).of(named), [len(shows)])
        order = np.argsort(np.array([checked.video_ids[place] for place in columns]), kind="stable")
        strangers = len(checked.video_ids) - len(columns)
        notices = (f"Clips in the scores that are not in the corpus: {strangers:,} left out.",) if strangers else ()
        return cls(
            checked, np.array(columns), real, {EVERY_GROUP: ~real} | of_one, clip_scene, caption_scene, clip_drawn,
            caption_drawn, order, notices,
        )  # fmt: skip


class Preference(NamedTuple):
    """Rate at which real clips are ranked above generated ones where neither answers the caption."""

    real: int  # number of clips of each kind
    generated: int
    captions: int  # number of captions for which both kinds have a clip that is not relevant
    drawn: int  # number of independent clips of the rarer kind: those of one video count once
    share: Interval  # of comparisons that the real clip wins, in percent; 50 is neutral, NaN without such a caption
    p_value: float | None  # two-sided, of a share of 50; None where there is no interval

    @property
    def effect(self) -> Effect:
        """The share as an effect."""
        share, enough = self.share, min(self.real, self.generated, self.drawn) >= ENOUGH
        name = "real clip above a generated one, neither known to answer, %"
        return Effect(name, share.value, share.low, share.high, NEUTRAL, self.p_value, enough, BOTH)


class Exposure(NamedTuple):
    """Share of generated clips among the first clips of rankings."""

    gallery: float  # percentage of the gallery's clips that are generated
    # percentage of the first k clips that are generated, mean over captions, by k; equal scores count with their mean
    # over all orders, and clips that score minus infinity are left out
    shown: dict[int, Interval]
    captions: int


class Unpaired(NamedTuple):
    """Preference against all generated clips (`EVERY_GROUP`) and each group where there are several, and exposure."""

    preferences: dict[str, Preference]
    exposure: Exposure
    notices: tuple[str, ...] = ()


def measure_unpaired(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> Unpaired:
    """Measure source bias in a gallery with real and generated clips, for captions inside or outside the corpus.

    Clips that answer a caption are left out of its comparisons: its own clip, the mirrors of that, and the real clip of
    a mirror. A caption outside the corpus has none. Arguments and errors are those of `audit_source`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    gallery = SourceGallery.of(scores, corpus, settings.cluster)
    everyone = np.arange(len(gallery.real))
    there = {name: np.flatnonzero(gallery.real | made) for name, made in gallery.generated.items()}
    wins = {name: _Tally(gallery, gallery.real, some, settings) for name, some in there.items()}
    depths = [depth for depth in FIRST_PLACES if depth < len(everyone)]
    exposed = {depth: _Tally(gallery, gallery.generated[EVERY_GROUP], everyone, settings) for depth in depths}
    for rows, block in row_bands(gallery.scores, min(settings.band_bytes, CACHED_BYTES)):
        ordered = OrderedRows.of(block[:, gallery.columns])
        for depth, tally in exposed.items():
            tally.add_first(rows, ordered, depth)
        for name, tally in wins.items():
            tally.add_wins(rows, ordered, gallery.generated[name])
    generated, some = 100 * float(gallery.generated[EVERY_GROUP].mean()), [*exposed.items()]
    shown = {depth: inverted_share(one.samples(generated), settings, generated) for depth, one in some if one.asked}
    preferences = {name: _preference(tally, gallery.generated[name]) for name, tally in wins.items()}
    return Unpaired(preferences, Exposure(generated, shown, len(gallery.caption_scene)), gallery.notices)


class _Tally:
    """What each clip adds to a mean over captions, by its kind, and each caption's own figure.

    Clips that are marked may change places with all others there, those of a pair or a video among themselves.
    """

    def __init__(self, gallery: SourceGallery, marks: Flags, there: NDArray[np.intp], settings: AuditSettings) -> None:
        rank = np.empty(len(gallery.order), np.int64)
        rank[gallery.order] = np.arange(len(rank))
        values, strata = marks[there].astype(np.float64), np.zeros(len(there), np.int64)
        self.gallery, self.settings, self._there = gallery, settings, there
        self._kind = ClipProperty(values, strata, gallery.clip_drawn[there], np.argsort(rank[there]))
        self._kinds = np.vstack([values, self._kind.probes(settings.seed)])
        self._weights = np.zeros(len(there))
        self._own = np.full((len(gallery.caption_scene), len(self._kinds)), np.nan)

    def add_wins(self, rows: slice, ordered: OrderedRows, made: Flags) -> None:
        """Let the clips meet that do not answer some captions.

        With ranks among the m real and n generated ones that meet, the share that real ones win is 1/2 more than the
        sum over real clips of (rank - (m + n + 1) / 2) / (m n).
        """
        answers = self.gallery.caption_scene[rows, None] == self.gallery.clip_scene
        real, generated = self.gallery.real & ~answers, made & ~answers
        meetings = real.sum(axis=1) * generated.sum(axis=1)
        meeting = ordered.placed((real | generated) & (meetings > 0)[:, None])
        count = meeting.sum(axis=1, keepdims=True)
        above = np.where(meeting, ordered.beaten(meeting) - count / 2, 0.0)  # a rank is half more than what it beats
        added = np.empty_like(above)
        np.put_along_axis(added, ordered.order, 100 * above / np.maximum(meetings, 1)[:, None], axis=1)
        added = added[meetings > 0][:, self._there]
        self._weights += added.sum(axis=0)
        self._own[rows][meetings > 0] = added @ self._kinds.T

    def add_first(self, rows: slice, ordered: OrderedRows, depth: int) -> None:
        """Count who is among the first of some captions; those that are shown nothing have no share."""
        columns, shares = ordered.first(depth)
        part = 100 * shares / np.maximum(ordered.shown(depth), 1)[:, None]
        self._weights += np.bincount(columns.ravel(), part.ravel(), len(self._weights))
        own = [(part * one[columns]).sum(axis=1) for one in self._kinds]
        self._own[rows] = np.where(ordered.shown(1) > 0, own, np.nan).T

    @property
    def asked(self) -> int:
        return int((~np.isnan(self._own[:, 0])).sum())

    def samples(self, neutral: float, base: float = 0.0) -> Figures:
        """(1 + B,) the mean as measured, then with clips whose kind is permuted, and what captions favour added."""
        sums = base + self._kind.sums(self._weights / self.asked, self.settings)
        part = queries_part(self._own[:, 0], self._own[:, 1:], self.gallery.caption_drawn)
        return widened(sums, neutral, part)


def _preference(tally: _Tally, made: Flags) -> Preference:
    gallery, settings = tally.gallery, tally.settings
    drawn = min(len(np.unique(gallery.clip_drawn[kind])) for kind in (gallery.real, made))
    counts = int(gallery.real.sum()), int(made.sum()), tally.asked, drawn
    if not tally.asked:
        return Preference(*counts, Interval(float("nan")), None)
    samples = tally.samples(NEUTRAL, NEUTRAL)
    share = inverted_interval(samples, settings, NEUTRAL, (0.0, 100.0))
    return Preference(*counts, share, exchange_test(samples, NEUTRAL))
