"""Tables of ways to answer a stream of TITAN (MM 2023), by their numbers."""

from __future__ import annotations

from functools import partial

from evenreel.papers.titan.figures import StreamComparison, compared_streams
from evenreel.papers.titan.rows import BOTH, NEITHER, NO_WORDS, SOURCE, offline, online, parts, thresholds

ROWS_1 = "Rows of tables 1 and 3"

T1 = partial(compared_streams, StreamComparison(online, SOURCE, notes=(ROWS_1, "Table 1 in the paper")))
T2 = partial(compared_streams, StreamComparison(parts, NEITHER, BOTH, ("Rows of table 2", "Table 2 in the paper")))
T3 = partial(compared_streams, StreamComparison(offline, SOURCE, notes=(ROWS_1, "Table 3 in the paper")))
F4 = partial(compared_streams, StreamComparison(thresholds, NO_WORDS, "beta 30", ("Rows of figure 4",), sweeps=True))
