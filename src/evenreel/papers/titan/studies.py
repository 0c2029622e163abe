"""Tables and figures of TITAN (MM 2023) by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from evenreel.papers.engine.needs import STREAMS
from evenreel.papers.engine.study import Study
from evenreel.papers.titan.phrases import PhraseSettings, corrected_phrases
from evenreel.papers.titan.rows import (
    BOTH,
    NEITHER,
    NO_WORDS,
    SOURCE,
    StreamSettings,
    offline,
    online,
    parts,
    thresholds,
)
from evenreel.papers.titan.tables import StreamComparison, compared_streams

ONLINE, OFFLINE = "titan/online", "titan/offline"
ROWS_1 = "Rows of tables 1 and 3"


def _streams(name: str, comparison: StreamComparison, recipe: str = ONLINE) -> Study[Any, Any]:
    """A table of ways to answer a stream."""
    return Study(name, partial(compared_streams, comparison), STREAMS, StreamSettings, recipe=recipe)


TITAN: tuple[Study[Any, Any], ...] = (
    _streams("titan/t1", StreamComparison(online, SOURCE, notes=(ROWS_1, "Table 1 in the paper"))),
    _streams("titan/t2", StreamComparison(parts, NEITHER, BOTH, ("Rows of table 2", "Table 2 in the paper"))),
    _streams("titan/t3", StreamComparison(offline, SOURCE, notes=(ROWS_1, "Table 3 in the paper")), OFFLINE),
    _streams("titan/f4", StreamComparison(thresholds, NO_WORDS, "beta 30", ("Rows of figure 4",), sweeps=True)),
    Study("titan/f5", corrected_phrases, STREAMS, PhraseSettings, recipe=OFFLINE),
)
