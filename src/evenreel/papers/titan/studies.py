"""Tables and figures of TITAN (MM 2023) by name."""

from __future__ import annotations

from evenreel.papers.engine.needs import STREAMS
from evenreel.papers.engine.study import Study
from evenreel.papers.titan.settings import PhraseSettings, StreamSettings

ONLINE, OFFLINE = "titan/online", "titan/offline"

TITAN: tuple[Study, ...] = (
    Study("titan/t1", "titan.comparisons:T1", STREAMS, StreamSettings, recipe=ONLINE),
    Study("titan/t2", "titan.comparisons:T2", STREAMS, StreamSettings, recipe=ONLINE),
    Study("titan/t3", "titan.comparisons:T3", STREAMS, StreamSettings, recipe=OFFLINE),
    Study("titan/f4", "titan.comparisons:F4", STREAMS, StreamSettings, recipe=ONLINE),
    Study("titan/f5", "titan.figures:corrected_phrases", STREAMS, PhraseSettings, recipe=OFFLINE),
)
