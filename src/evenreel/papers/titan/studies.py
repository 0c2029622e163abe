"""Tables and figures of TITAN (MM 2023) by name."""

from __future__ import annotations

from evenreel.papers.study import STREAMS, Study

ONLINE, OFFLINE = "titan/online", "titan/offline"
SEEDED = ("seeds", "adapt")

TITAN: tuple[Study, ...] = (
    Study("titan/t1", "titan.tables:T1", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/t2", "titan.tables:T2", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/t3", "titan.tables:T3", STREAMS, SEEDED, recipe=OFFLINE),
    Study("titan/f4", "titan.tables:F4", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/f5", "titan.phrases:corrected_phrases", STREAMS, ("adapt", "queries"), recipe=OFFLINE),
)
