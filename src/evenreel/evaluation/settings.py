"""Settings of an evaluation; the command line reads them, so this imports nothing that takes time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from evenreel.config import (
    BETWEEN_0_AND_1,
    MOST_BITS,
    MOST_LAYERS,
    TEXT,
    TRUE_OR_FALSE,
    WORDS,
    Allowed,
    check_settings,
    check_word,
    one_or_more,
    whole,
)
from evenreel.errors import UsageError
from evenreel.evaluation.metrics import DEFAULT_METRICS, Metric, parse_metrics

Direction = Literal["t2v", "v2t"]
TextProtocol = Literal["caption", "video-mean"]
VideoProtocol = Literal["best-caption", "caption-group", "every-caption"]
Ties = Literal["expected", "optimistic", "pessimistic"]

MOST_RESAMPLES = 1_000_000

RESAMPLING: dict[str, Allowed] = {
    "resamples": whole(0, MOST_RESAMPLES),
    "seed": whole(0, MOST_BITS),
    "confidence": BETWEEN_0_AND_1,
    "band_bytes": whole(0, MOST_BITS),
    "cluster": TEXT,
}
"""What the settings of intervals, of what is drawn and of reading may be; those of an audit have them too."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation.

    Attributes:
        metrics: figures, in the order they are shown; words such as `R@1` become metrics, and one may stand alone.
        directions: `t2v`, captions look for videos, and `v2t`, videos look for captions; one may stand alone.
        t2v_protocol: how several captions of a video count. `caption`: each caption is a query (CLIP4Clip, X-CLIP,
            HGR, EPIC-KITCHENS). `video-mean`: each video counts once, with the mean over its captions.
        v2t_protocol: what a video with several captions has to find. `best-caption`: among all captions, the
            best-placed of its own (Collaborative Experts, Frozen in Time, HGR, EPIC-KITCHENS). `caption-group`:
            among videos, itself, where a video's score is the best of its captions' (CLIP4Clip, X-CLIP, X-Pool).
            `every-caption`: each of its own captions in turn, among the captions that do not answer it, averaged
            over its own; unlike the others it does not get easier the more captions a video has.
        ties: how items with equal scores are ranked. `expected` is the mean over all their orders; `optimistic` puts
            the more relevant of them first and `pessimistic` last.
        resamples: bootstrap samples for intervals of medians, and arrangements of a comparison's test; 0 for neither
            test nor any interval.
        seed: seed of those samples.
        confidence: confidence of the intervals, between 0 and 1.
        cluster: what intervals and tests draw: `auto`, videos where the corpus shows that several clips are cut from
            one, else clips; `clip`; `video`; or a column of the corpus (`evenreel.evaluation.clusters`).
        by: columns of the clips or captions to group queries by, each value a group, more than 8 numbers in four bands;
            `seconds` and `words` are lengths of clips and captions; COLUMN=GROUP also shows how the others differ from
            that one. May be given again.
        partial: accept scores that leave captions or clips of the corpus out, with a notice.
        band_bytes: about how many bytes of scores are read at once.
        threads: number of threads that compute; 0 is one a core.
    """

    metrics: tuple[Metric, ...] = DEFAULT_METRICS
    directions: tuple[Direction, ...] = ("t2v", "v2t")
    t2v_protocol: TextProtocol = "caption"
    v2t_protocol: VideoProtocol = "best-caption"
    ties: Ties = "expected"
    resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95
    cluster: str = "auto"
    by: tuple[str, ...] = ()
    partial: bool = False
    band_bytes: int = 64 * 2**20
    threads: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", one_or_more(self.metrics, "metrics", (str, Metric)))
        object.__setattr__(self, "directions", tuple(dict.fromkeys(one_or_more(self.directions, "directions"))))
        object.__setattr__(self, "by", one_or_more(self.by, "by"))
        for value, known, what in (
            (self.t2v_protocol, TextProtocol, "protocol of captions"),
            (self.v2t_protocol, VideoProtocol, "protocol of videos"),
            (self.ties, Ties, "rule for ties"),
            *((direction, Direction, "direction") for direction in self.directions),
        ):
            check_word(value, get_args(known), what)
        if not self.metrics or not self.directions:
            raise UsageError("Nothing is asked for; name at least one metric and one direction.")
        object.__setattr__(self, "metrics", parse_metrics(self.metrics))
        ordered = [str(metric) for metric in self.metrics if metric.needs_order]
        if ordered and self.v2t_protocol == "every-caption" and "v2t" in self.directions:
            raise UsageError(
                f"{ordered[0]} needs all captions of a video in one ranking, but the protocol every-caption ranks them "
                "one at a time; use best-caption or caption-group."
            )
        allowed = RESAMPLING | {"threads": whole(0, MOST_LAYERS), "partial": TRUE_OR_FALSE, "by": WORDS}
        check_settings("the evaluation", self, allowed)
