"""Tables of an audit of source bias, in the form of the paper's where it has one (Generative Ghost, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evenreel.audits.exchange import DELTA_METRICS, MIX_R
from evenreel.audits.source.paired import SourceMeasures
from evenreel.audits.source.unpaired import Exposure, Preference
from evenreel.evaluation.results import Interval
from evenreel.report.result import AuditTable, Row, interval_cells, interval_columns

_METRICS = (*map(str, DELTA_METRICS), MIX_R)
_NAMES = {
    "real": "real, alone",
    "generated": "generated, alone",
    "mixed real": "real, mixed",
    "mixed generated": "generated, mixed",
}


def paired_tables(measured: Sequence[SourceMeasures]) -> Iterator[AuditTable]:
    """Yield tables of measures in pairs: one in the paper's form for each group, then win rates, then video to text."""
    if not measured:
        return
    yield from map(_group_table, measured)
    yield AuditTable(
        "How often the real clip stands above its mirror",
        ("group", "compared", "captions", *interval_columns("real above, %")),
        tuple(row for one in measured for row in _win_rows(one)),
        "50 % is no preference; less favours generated clips.",
    )
    yield AuditTable(
        "Sign test over pairs",
        ("group", "pairs won by the real clip", "by its mirror", "p"),
        tuple((one.group, one.clips_won, one.clips_lost, one.sign_p) for one in measured),
        "A pair is won by the clip that most of its captions put first; the others do not count. Pairs that are drawn "
        "together, such as those of one video, count as one.",
        digits=4,
    )
    yield AuditTable(
        "From video to text",
        ("group", "who looks for its captions", *_METRICS),
        tuple(row for one in measured for row in _video_rows(one)),
        "Shares in percent. Above 0, real clips find their captions better than their mirrors do.",
    )


def preference_table(preferences: Mapping[str, Preference]) -> AuditTable:
    """Tabulate how often real clips are ranked above generated ones where neither answers the caption."""
    return AuditTable(
        "Real against generated clips, neither known to answer the caption",
        ("group", "real", "generated", "captions", *interval_columns("real above, %")),
        tuple(
            (group, one.real, one.generated, one.captions, *interval_cells(one.share))
            for group, one in preferences.items()
        ),
        "50 % is no preference; less favours generated clips.",
    )


def exposure_table(exposure: Exposure) -> AuditTable:
    """Tabulate the share of generated clips among the first places."""
    return AuditTable(
        "Generated clips among the first",
        ("first clips", *interval_columns("generated, %"), "in the gallery, %", "ratio"),
        tuple(
            (depth, *interval_cells(share), exposure.gallery, share.value / exposure.gallery)
            for depth, share in exposure.shown.items()
        ),
        f"Means over {exposure.captions:,} captions. Without a preference the ratio is 1 if generated clips answer as "
        "large a share of the captions as they are of the gallery.",
    )


def _group_table(one: SourceMeasures) -> AuditTable:
    rows = [_row(name, one.figures[row]) for row, name in _NAMES.items()]
    for kind, deltas in one.deltas.items():
        rows += _with_ends(f"{kind.capitalize()} Δ", deltas)
    return AuditTable(
        f"Real and generated clips: {one.group}",
        ("gallery", *_METRICS),
        tuple(rows),
        f"{one.pairs:,} pairs, {one.captions:,} captions; R@k in percent. Above 0, a delta favours real clips.",
    )


def _with_ends(name: str, deltas: Mapping[str, Interval]) -> list[Row]:
    rows = [_row(name, deltas)]
    if any(one.low is not None for one in deltas.values()):
        rows.append((f"{name}, low", *(deltas[word].low for word in _METRICS)))
        rows.append((f"{name}, high", *(deltas[word].high for word in _METRICS)))
    return rows


def _win_rows(one: SourceMeasures) -> Iterator[Row]:
    yield one.group, "each caption", one.captions, *interval_cells(one.win_rate)
    even = one.even_win_rate or Interval(float("nan"))
    yield one.group, "at equal standing alone", one.even_captions, *interval_cells(even)
    yield one.group, "any caption with any (AUC)", one.captions, *interval_cells(one.auc)


def _video_rows(one: SourceMeasures) -> Iterator[Row]:
    for row, figures in one.video_figures.items():
        yield one.group, f"{row} clips", *_row("", figures)[1:]
    for name, *cells in _with_ends("Relative Δ", one.video_deltas):
        yield one.group, name, *cells


def _row(name: str, figures: Mapping[str, Interval]) -> Row:
    return (name, *(figures[word].value if word in figures else None for word in _METRICS))
