"""Settings of TCD: each module with its switch, and the formulas as printed beside those that are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenreel.config import (
    ABOVE_0,
    AT_LEAST_0,
    MOST_SIZE,
    TRUE_OR_FALSE,
    Allowed,
    check_settings,
    one_of,
    whole,
)
from evenreel.losses.calibration import CycleForm

PARTS = ("video", "ocr", "hybrid")
"""What a caption is matched with: refined frames, refined on-screen windows, and the clue of both (equation 12)."""

Fusion = Literal["clues", "video_clue", "cross_attention", "concat", "product", "addition"]

PRINTED: dict[str, Any] = {
    "preserve_mean": False,
    "attention_norm": False,
    "co_residual": False,
    "residual": False,
    "intra": "none",
    "cycle": "printed",
}
"""The settings with which every equation is as the paper prints it."""

_MATCHES = Allowed(
    f"some of {', '.join(PARTS)}, each once",
    lambda value: (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(part in PARTS for part in value)
        and len(set(value)) == len(value)
    ),
)


@dataclass(frozen=True)
class TcdSettings:
    """Settings of TCD (Zhao et al., AAAI 2026), with the switches of its ablations.

    Attributes:
        text_condition: whether a caption weights frames and windows (equation 2, table 10); else all count alike.
        tau: temperature of these weights, on unit vectors. The paper's 5 is for CLIP's vectors as they leave its
            towers, which are about 10 long: 5 / (10 x 10) is 0.05.
        preserve_mean: weights of frames and windows are 1 in the mean instead of adding up to 1, so that no logit of
            the attention behind shrinks by the square of their number.
        confidence: weight windows also by the confidence with which their words were read. Not in the paper.
        modalities: `both`, or the only one that is used (table 10), without co-attention, clues and calibration.
        co_attention: whether frames and windows attend to each other (equations 6 and 7, table 2).
        attention_norm: layer normalisation of queries and keys of co-attention, which then does not depend on the
            caption.
        co_residual: add the result of co-attention to the queries, as in ViLBERT; else it replaces them, as printed.
            Added, refined frames and refined windows are both of frames and windows, and hardly differ.
        residual: add the result of a clue's attention to the token; else it replaces it, as printed.
        fusion: the hybrid of both (equation 11, table 6): `clues`, the mean of the two; `video_clue`; `cross_attention`
            of windows on frames; `concat` and an MLP; `product`, A x B + A; `addition`.
        intra: how a clue token gets the rows of its own modality: by `self_attention` before it attends to the other,
            as `keys` beside the other's, or not at all (`none`): concatenated to the query alone, as equation 9 prints
            it, they change nothing.
        heads: number of attention heads of clues.
        types: type embeddings are learned for each of the `positions`, or one is `shared` by all.
        max_frames: greatest number of frames, and of windows, of a clip, where each position has a type embedding.
        matches: which of `video`, `ocr` and `hybrid` are compared with the caption (table 7); the score is their mean.
        lambda_hsc: weight of the calibration of windows with frames (table 9); 0 for none.
        calibration: `cycle` (section HSC), or `contrastive`: windows and frames of one moment belong together (fig. 3).
        cycle: form of the softmax of cycles, see `evenreel.losses.calibration.cycle_indices`.
        both_ways: whether cycles also lead from windows to frames and back.
        normalise_index: count places as shares of the clip, not in frames; the loss is then (N - 1)^2 times smaller.
        variance_weight: weight of the logarithm of the deviation in TCC's regularised form (arXiv 1904.07846, equation
            5); null for equation 5 of the paper.
        cycle_tau: temperature of the nearest neighbours of calibration at the start of training; learned.
        temperature: temperature of the contrastive loss at the start of training.
    """

    text_condition: bool = True
    tau: float = 0.05
    preserve_mean: bool = True
    confidence: bool = False
    modalities: Literal["both", "video", "ocr"] = "both"
    co_attention: bool = True
    attention_norm: bool = True
    co_residual: bool = False
    residual: bool = True
    fusion: Fusion = "clues"
    intra: Literal["self_attention", "keys", "none"] = "self_attention"
    heads: int = 8
    types: Literal["positions", "shared"] = "positions"
    max_frames: int = 64
    matches: tuple[str, ...] = PARTS
    lambda_hsc: float = 0.1
    calibration: Literal["cycle", "contrastive"] = "cycle"
    cycle: CycleForm = "softmax"
    both_ways: bool = False
    normalise_index: bool = False
    variance_weight: float | None = None
    cycle_tau: float = 0.05
    temperature: float = 0.01

    def __post_init__(self) -> None:
        switches = ("text_condition", "preserve_mean", "confidence", "co_attention", "attention_norm", "both_ways")
        allowed = {
            **dict.fromkeys((*switches, "co_residual", "residual", "normalise_index"), TRUE_OR_FALSE),
            **dict.fromkeys(("tau", "cycle_tau", "temperature"), ABOVE_0),
            **dict.fromkeys(("heads", "max_frames"), whole(1, MOST_SIZE)),
            "modalities": one_of("both", "video", "ocr"),
            "fusion": one_of("clues", "video_clue", "cross_attention", "concat", "product", "addition"),
            "intra": one_of("self_attention", "keys", "none"),
            "types": one_of("positions", "shared"),
            "matches": _MATCHES,
            "lambda_hsc": AT_LEAST_0,
            "calibration": one_of("cycle", "contrastive"),
            "cycle": one_of("softmax", "squared_distance", "printed"),
            "variance_weight": Allowed(
                "a number of at least 0, or null", lambda value: value is None or AT_LEAST_0.holds(value)
            ),
        }
        check_settings("tcd", self, allowed)
        object.__setattr__(self, "matches", tuple(part for part in PARTS if part in self.matches))

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the score that are compared with the caption; one alone where only one modality is used."""
        return self.matches if self.modalities == "both" else (self.modalities,)

    @property
    def distils(self) -> bool:
        """Whether the matcher has clue tokens."""
        return self.modalities == "both" and "hybrid" in self.matches and self.fusion in ("clues", "video_clue")

    @property
    def calibrates(self) -> bool:
        """Whether the loss aligns windows with frames."""
        return self.modalities == "both" and self.lambda_hsc > 0


def reads_on_screen(settings: Mapping[str, Any]) -> bool:
    """Return whether a TCD matcher of these settings uses on-screen windows."""
    return TcdSettings(**settings).modalities != "video"
