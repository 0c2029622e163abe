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
    AdaptationSettings,
    offline,
    online,
    parts,
    thresholds,
)
from evenreel.papers.titan.tables import StreamComparison, compared_streams

ONLINE, OFFLINE = "titan/online", "titan/offline"

PAPER_1 = (
    "The paper's TITAN has R@1 20.4, R@5 38.8, R@10 47.8 and MdR 12 on Video2Gif, and 7.4, 22.1, 32.8 and 26 on "
    "Life2Movie; the best baselines have MdR 16 and 31."
)
PAPER_2 = (
    "On Life2Movie the paper has R@1 5.7 with neither, 6.2 with CHR, 6.3 with CBC and 7.4 with both, MdR 31, 27, 27 "
    "and 26."
)
PAPER_3 = (
    "On Video2Gif the paper has R@1 17.5 for CRET, 17.6 with TTT, 18.0 with TTTFlow and 20.7 for TITAN, MdR 17, 16, 16 "
    "and 11."
)
ROWS_1 = (
    "QB-Norm and NNN learn nothing: they lower the scores of clips that many queries like, by the queries that came "
    "before (online), by all (offline) or by training captions; of the queries the latest, of training captions those "
    "that are drawn, as many as the bank holds (4,096, or --set bank=...); NNN by the best 128 of them for a clip. "
    "TTT++ and TTTFlow are our forms of these methods for retrieval. With safety: only the surest labels are learned "
    "from, by an average of the weights, and the source's ranking is kept where nothing shows a gain. Predicted first: "
    "each batch is answered before the model learns from it."
)
ROWS_2 = (
    "neither: the first clip of each query is its label. CHR: rematching and counterfactual captions. CBC: the "
    "correction of bias, with the label among its candidates. Without source debias the clip is left as it is, while "
    "the correction of the checkpoint has learned with its attended confounders; target amplification then changes no "
    "verdict, since it acts through the clip alone. Other ways to match and other weights that learn are ours."
)
ROWS_4 = (
    "A clip is crowded that more than beta queries have first; the paper's beta of 30 is a number, and what it means "
    "hangs on how many queries and clips there are, so shares of the queries stand beside it. A word is over-attended "
    "that more than theta of a crowded clip's queries have; the paper names no theta."
)


def _streams(title: str, about: str, comparison: StreamComparison, recipe: str = ONLINE) -> Study[Any, Any]:
    """A table of ways to answer a stream."""
    function = partial(compared_streams, comparison)
    return Study(title, about, function, STREAMS, AdaptationSettings, recipe=recipe)


TITAN: dict[str, Study[Any, Any]] = {
    "titan/t1": _streams(
        "Does a stream without labels help, batch by batch?",
        "Table 1: online, the source, naive labels, TTT++, TTTFlow, QB-Norm and NNN, TITAN with and without safety",
        StreamComparison(online, SOURCE, notes=(ROWS_1, PAPER_1)),
    ),
    "titan/t2": _streams(
        "What does each part of TITAN do?",
        "Table 2: rebalancing (CHR) and correction (CBC), their halves, ways to match, which weights learn",
        StreamComparison(parts, NEITHER, BOTH, (ROWS_2, PAPER_2)),
    ),
    "titan/t3": _streams(
        "Does a stream without labels help, all at once?",
        "Table 3: offline, the rows of table 1",
        StreamComparison(offline, SOURCE, notes=(ROWS_1, PAPER_3)),
        OFFLINE,
    ),
    "titan/f4": _streams(
        "When is a clip crowded, and which of its words are over-attended?",
        "Figure 4: beta as a number and as a share of the queries, and theta",
        StreamComparison(thresholds, NO_WORDS, "beta 30", (ROWS_4,), sweeps=True),
    ),
    "titan/f5": Study(
        "What does the correction of bias make of a caption's phrases?",
        "Figure 5: phrases of captions (--query) with clips, by the source model and by the correction",
        corrected_phrases,
        STREAMS,
        PhraseSettings,
        recipe=OFFLINE,
    ),
}
