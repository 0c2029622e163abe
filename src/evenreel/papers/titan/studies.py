"""Tables and figures of TITAN (MM 2023) by name."""

from __future__ import annotations

from evenreel.papers.study import STREAMS, Study

ONLINE, OFFLINE = "titan/online", "titan/offline"
SEEDED = ("seeds", "adapt")

TITAN: tuple[Study, ...] = (
    Study("titan/t1", "titan.figures:T1", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/t2", "titan.figures:T2", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/t3", "titan.figures:T3", STREAMS, SEEDED, recipe=OFFLINE),
    Study("titan/f4", "titan.figures:F4", STREAMS, SEEDED, recipe=ONLINE),
    Study("titan/f5", "titan.figures:corrected_phrases", STREAMS, ("adapt", "queries"), recipe=OFFLINE),
)
