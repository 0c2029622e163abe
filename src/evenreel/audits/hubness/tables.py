"""Tables of an audit of hubs: unevenness of counts, the most frequent clips, and the words that bring hubs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenreel.audits.hubness.captions import CONFIDENCE, FEWEST, QueryWords
from evenreel.audits.hubness.measures import LEAST, HubnessMeasures, Occurrence
from evenreel.evaluation.concentration import gini, skewness
from evenreel.report.result import AuditTable, Cell, Row, interval_cells, interval_columns
from evenreel.report.words import percent

LISTED = 20
"""Clips in the table of those that are shown the most."""

_UNEVEN_COLUMNS = (
    "among", *interval_columns("skewness"), "chance", *interval_columns("Gini"), "chance", "never, %", "chance, %",
    "most",
)  # fmt: skip


def hubness_tables(measured: HubnessMeasures, words: QueryWords) -> Iterator[AuditTable]:
    """Yield the tables of an audit of hubs in reading order; that of words only where there are such words."""
    yield _uneven_table(measured)
    yield _most_table(measured)
    if words.found:
        yield _words_table(measured, words)


def _uneven_table(measured: HubnessMeasures) -> AuditTable:
    rows = [_uneven_row(one) for one in measured.occurrences]
    note = (
        "Chance: what rankings at random give with as many queries. Never: clips that no query has among the first "
        "k; one that equal scores may bring there is not counted. Most: what the clip has that is shown the most, in "
        "times what chance gives."
    )
    if measured.asked is not None:
        asked = measured.asked
        never, most = float(100 * (asked == 0).mean()), float(asked.max() / asked.mean())
        rows.append(("all that ask for it", skewness(asked), *[None] * 3, gini(asked), *[None] * 3, never, None, most))
        note += " The last row is of how many of the queries each clip answers: what a perfect first place would have."
    return AuditTable("How unevenly clips are shown", _UNEVEN_COLUMNS, tuple(rows), note)


def _uneven_row(one: Occurrence) -> Row:
    most = float(one.counts.max() / one.expected) if one.expected else None
    return (
        f"first {one.depth}", *interval_cells(one.skewness), one.chance_skewness, *interval_cells(one.gini),
        one.chance_gini, one.never, one.chance_never, most,
    )  # fmt: skip


def _most_table(measured: HubnessMeasures) -> AuditTable:
    main, first = measured.main, measured.occurrences[0]
    several, known = main.depth != first.depth, measured.asked is not None
    columns = ["clip", f"among the first {main.depth}", "times chance"]
    columns += ["of these, its own"] * known
    columns += ["stands first"] * several
    columns += ["of these, its own"] * (several and known)
    columns += ["ask for it"] * known
    order = np.argsort(-main.counts, kind="stable")[:LISTED].tolist()
    rows = [_most_row(measured, clip, several=several) for clip in order if main.counts[clip] > LEAST]
    note = f"Numbers of the {main.queries:,} queries; chance gives {main.expected:.1f} among the first {main.depth}."
    if measured.asked is not None:
        note += " Its own: queries that the clip answers. A hub is shown to many others."
    return AuditTable("Clips that are shown the most", tuple(columns), tuple(rows), note, digits=1)


def _most_row(measured: HubnessMeasures, clip: int, *, several: bool) -> Row:
    main, first = measured.main, measured.occurrences[0]
    known = measured.asked is not None
    row: list[Cell] = [measured.names[clip], _whole(main.counts[clip]), float(main.counts[clip] / main.expected)]
    row += [_whole(main.own[clip])] * known
    row += [_whole(first.counts[clip])] * several
    row += [_whole(first.own[clip])] * (several and known)
    row += [int(measured.asked[clip])] if measured.asked is not None else []
    return tuple(row)


def _whole(count: float) -> int | float:
    """An expected count is a whole number where no scores are equal."""
    return round(count) if abs(count - round(count)) < LEAST else float(count)


def _words_table(measured: HubnessMeasures, words: QueryWords) -> AuditTable:
    depth = measured.main.depth
    columns = ("word", "part", "queries with it", f"hubs in their first {depth}", "of queries without it", "times")
    rows = tuple(
        (one.word, one.part, one.queries, one.hubs, one.others, one.hubs / one.others if one.others else None)
        for one in words.found
    )
    note = (
        f"Of {words.looked_at:,} nouns, verbs and adjectives in {words.queries:,} queries (those in queries of "
        f"{FEWEST} clips or more) the ones whose queries have more hubs than chance gives any of them "
        f"({percent(CONFIDENCE)}). Those that add the most hubs stand first."
    )
    return AuditTable("Words that bring hubs", columns, rows, note)
