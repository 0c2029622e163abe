"""The channel `meaning`: clips by what is said, written on screen or captioned there, in other words than the query's.

A clip is as near as its nearest window of text (`evenreel.library.store.meanings`), and is found where that beats a
share of `ENOUGH` of nonsense queries, each at its best on any clip of the library: of nonsense, 3 % finds a clip so,
beside what frames are allowed. It is then no weaker match, but by this alone it stands behind all clips on which half
of the query's words are written: else clips with words that the query misspells fall behind some that mean something
near (`benchmarks/search_set.py`), and on captions of MSVD it costs less than 1 in 100 first answers. Its rank weighs a
quarter of that of frames; weights from .05 to 1 are as much alike (`benchmarks/meaning.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from evenreel.arrays import Flags
from evenreel.library.search import seen
from evenreel.library.search.query import WRITTEN, Query
from evenreel.library.search.result import MeaningHit
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store.meanings import TextSource, windows_of
from evenreel.library.store.vectors import MEANINGS

WEIGHT = 0.25
ENOUGH = 0.975
"""Share of nonsense that a text has to beat; chosen on MSVD's training split, where .9 finds 1 in 100 more first."""

log = logging.getLogger("evenreel")


@dataclass(frozen=True, eq=False)
class Meant(seen.Compared):
    """What texts of clips mean."""

    sources: frozenset[TextSource]  # that are asked, and in the snapshot

    def line(self, clip_id: str, place: int) -> MeaningHit | None:
        """Find the line of a clip that is nearest to the query; None where its rows are not those of its texts."""
        windows = [one for one in windows_of(self.s.connection, clip_id) if one.source in self.sources]
        first, count = int(self.s.first_rows[place]), int(self.s.counts[place])
        if self.s.vectors is None or len(windows) != count:
            log.warning("the texts of clip %s are not those that were encoded; run evenreel verify --repair", clip_id)
            return None
        window = windows[int(self.s.vectors.frame_scores(self.vector, first, count).argmax())]
        similar = self.model.encode_text([line.text for line in window.lines]).sentence @ self.vector
        return MeaningHit(window.source, *window.lines[int(similar.argmax())], float(similar.max()))


def compare(s: Snapshot, query: Query, asked: seen.Encoded | None, allowed: Flags, notices: list[str]) -> Meant | None:
    """Compare the texts of the allowed clips with a query; None where they cannot be."""
    m = seen.with_matrix(s, MEANINGS, asked)
    if asked is None or m is None:
        return None
    sources = cast(frozenset[TextSource], query.channels & WRITTEN)
    if sources != WRITTEN:
        m = _of_sources(m, sources)
    scores = seen.score_or_tell(m, asked[1], allowed, notices)
    if scores is None or (shares := seen.above(m, scores)) is None:
        return None
    found = np.nan_to_num(shares) >= ENOUGH
    return Meant(m, *asked, scores, found, WEIGHT, np.where(found, shares, np.nan), sources)


def _of_sources(m: Snapshot, sources: frozenset[TextSource]) -> Snapshot:
    """The same with the rows of what is said, or of what is on screen, alone."""
    if ("sources", sources) not in m.kept:
        firsts, counts = m.first_rows.copy(), np.zeros_like(m.counts)
        rows = m.connection.execute("SELECT key, said, on_screen FROM meaning_rows JOIN clip_keys USING (clip_id)")
        for key, said, on_screen in rows:
            firsts[key] += 0 if "said" in sources else said
            counts[key] = said if "said" in sources else on_screen
        m.kept["sources", sources] = replace(m, first_rows=firsts, counts=counts)
    found: Snapshot = m.kept["sources", sources]
    return found
