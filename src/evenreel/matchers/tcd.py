"""TCD (Zhao et al., AAAI 2026): frames and on-screen text, calibrated to each other and distilled to clues.

A caption weights frames V and on-screen windows O (equation 2), both attend to each other (6, 7), a clue token of each
attends to the result of the other (8 to 11), and the caption is compared with the mean of the frames, of the windows,
and with the clue (12, 13). A loss keeps windows in step with frames (3 to 5). `TcdSettings` names each of these, and
where the formulas as printed do something else than they are meant to. `pair_parts` writes them down for one pair, as
the paper does; `Tcd` scores all pairs with the sums of `evenreel.matchers.tcd_fast`.

Names follow the paper: the result of frames that attend to windows, a row for each frame, are refined windows (`ocr`);
of windows that attend to frames, a row for each window, refined frames (`video`).

A window without text takes no part, and no cycle of the calibration begins at a frame of its time. A clip without any
text has one window with a learned vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, AT_LEAST_0, MOST_SIZE, Allowed, check_settings, whole
from evenreel.losses import info_nce
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Entry, Limits, cut, logit_scale_at
from evenreel.matchers.mean_pool import PooledVectors as Sentences
from evenreel.matchers.tcd_fast import (
    Clue,
    ClueWeights,
    CoAttention,
    CrossAttention,
    RowTerms,
    RowWeights,
    conditioned,
    mean_row,
    weighted_attention,
)
from evenreel.similarity.interaction import masked_mean, masked_softmax
from evenreel.similarity.tiles import chunks_of, joined_chunks, row_count

PARTS = ("video", "ocr", "hybrid")
"""What a caption is matched with: refined frames, refined on-screen windows, and the clue of both (equation 12)."""
Fusion = Literal["clues", "video_clue", "cross_attention", "concat", "product", "addition"]
CycleForm = Literal["softmax", "squared_distance", "printed"]
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
_VARIANCE_WEIGHT = Allowed("a number of at least 0, or null", lambda value: value is None or AT_LEAST_0.holds(value))


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
        cycle: form of the softmax of cycles, see `evenreel.matchers.tcd.cycle_indices`.
        both_ways: whether cycles also lead from windows to frames and back.
        normalise_index: count places as shares of the clip, not in frames; the loss is then (N - 1)^2 times smaller.
        variance_weight: weight of the logarithm of the deviation in TCC's regularised form (arXiv 1904.07846, equation
            5); null for equation 5 of the paper.
        cycle_tau: temperature of the nearest neighbours of calibration at the start of training; learned.
        temperature: temperature of the contrastive loss at the start of training.
    """

    text_condition: bool = True
    tau: Annotated[float, ABOVE_0] = 0.05
    preserve_mean: bool = True
    confidence: bool = False
    modalities: Literal["both", "video", "ocr"] = "both"
    co_attention: bool = True
    attention_norm: bool = True
    co_residual: bool = False
    residual: bool = True
    fusion: Fusion = "clues"
    intra: Literal["self_attention", "keys", "none"] = "self_attention"
    heads: Annotated[int, whole(1, MOST_SIZE)] = 8
    types: Literal["positions", "shared"] = "positions"
    max_frames: Annotated[int, whole(1, MOST_SIZE)] = 64
    matches: Annotated[tuple[str, ...], _MATCHES] = PARTS
    lambda_hsc: Annotated[float, AT_LEAST_0] = 0.1
    calibration: Literal["cycle", "contrastive"] = "cycle"
    cycle: CycleForm = "softmax"
    both_ways: bool = False
    normalise_index: bool = False
    variance_weight: Annotated[float | None, _VARIANCE_WEIGHT] = None
    cycle_tau: Annotated[float, ABOVE_0] = 0.05
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("tcd", self)
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


@torch.no_grad()
def pair_parts(
    matcher: Tcd, sentence: Tensor, frames: Tensor, windows: Tensor, confidence: Tensor
) -> dict[str, Tensor]:
    """Compute the parts S_TV, S_TO and S_TH of one pair's score as the paper writes them (equations 2, 6 to 13).

    Args:
        matcher: the matcher whose weights and settings are used.
        sentence: (D,) of unit length.
        frames: (T, D) of unit length, real ones alone.
        windows: (O, D) of unit length, those with text alone; none where the clip has no text.
        confidence: (O,) confidence with which their words were read.

    Returns:
        The cosines by name, `video`, `ocr` and `hybrid`, those that the settings use.
    """
    own, root = matcher.settings, math.sqrt(len(sentence))
    if len(windows) == 0:
        assert matcher.no_text is not None
        windows, confidence = F.normalize(matcher.no_text, dim=-1)[None], torch.ones_like(sentence[:1])
    p, q = (torch.full_like(rows[:, 0], 1 / len(rows)) for rows in (frames, windows))
    if own.text_condition:  # equation 2
        p = (torch.stack([sentence @ frame for frame in frames]) / own.tau).softmax(0)
        logits = torch.stack([sentence @ window for window in windows]) / own.tau
        q = (logits + (confidence.log() if own.confidence else 0)).softmax(0)
    if own.preserve_mean:
        p, q = p * len(frames), q * len(windows)
    raw_v, raw_o = root * frames, root * windows
    v = torch.stack([weight * row for weight, row in zip(p, raw_v, strict=True)])
    o = torch.stack([weight * row for weight, row in zip(q, raw_o, strict=True)])
    refined_v, refined_o = v, o
    if own.co_attention:
        refined_o = co_attention(matcher.frames_look, (v, raw_v), (o, raw_o), residual=own.co_residual)
        refined_v = co_attention(matcher.windows_look, (o, raw_o), (v, raw_v), residual=own.co_residual)
    parts = {
        "video": F.cosine_similarity(sentence, refined_v.mean(0), dim=0),
        "ocr": F.cosine_similarity(sentence, refined_o.mean(0), dim=0),
        "hybrid": F.cosine_similarity(sentence, hybrid(matcher, refined_v, refined_o), dim=0),
    }
    return {part: parts[part] for part in own.parts}


def co_attention(module: Any, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], *, residual: bool) -> Tensor:
    """Attend from one modality to the other with one head of width D (TCD, equation 6 or 7).

    Args:
        module: a `CoAttention`.
        queries: (l, D) rows that attend, weighted by the caption, and unweighted, which normalisation takes.
        keys: (k, D) rows that are attended to, in both forms.
        residual: whether to add the result to the rows that attend.

    Returns:
        (l, D) refined rows.
    """
    out = []
    for query, raw_query in zip(*queries, strict=True):
        looking = query if module.norm_query is None else module.norm_query(raw_query)
        logits = []
        for key, raw_key in zip(*keys, strict=True):
            looked_at = key if module.norm_key is None else module.norm_key(raw_key)
            logits.append(module.query(looking) @ module.key(looked_at) / math.sqrt(len(query)))
        weights = torch.stack(logits).softmax(0)
        found = torch.stack([weight * module.value(key) for weight, key in zip(weights, keys[0], strict=True)]).sum(0)
        out.append(query + found if residual else found)
    return torch.stack(out)


def hybrid(matcher: Tcd, v: Tensor, o: Tensor) -> Tensor:
    """Fuse refined frames (l, D) and refined windows (k, D) to one vector (D,): equations 8 to 11, or table 6."""
    own = matcher.settings
    if own.fusion == "addition":
        return v.mean(0) + o.mean(0)
    if own.fusion == "product":
        return v.mean(0) * o.mean(0) + v.mean(0)
    if own.fusion == "concat":
        assert matcher.joint is not None
        joint: Tensor = matcher.joint(torch.cat([v.mean(0), o.mean(0)]))
        return joint
    assert matcher.video_types is not None
    assert matcher.ocr_types is not None
    typed_v, typed_o = v + matcher.video_types[: len(v)], o + matcher.ocr_types[: len(o)]  # of each place, or shared
    if own.fusion == "cross_attention":
        assert matcher.cross is not None
        found = multi_head_attention(matcher.cross.cross, typed_o, typed_v).mean(0)
        return o.mean(0) + found if own.residual else found
    clues = [hybrid_clue(matcher, "video", typed_v, typed_o)]
    if own.fusion == "clues":
        clues.append(hybrid_clue(matcher, "ocr", typed_o, typed_v))
    return torch.stack(clues).mean(0)  # equation 11


def hybrid_clue(matcher: Tcd, side: str, own: Tensor, other: Tensor) -> Tensor:
    """Compute the clue vector (D,) of one modality (TCD, equations 8 to 10).

    Args:
        matcher: the matcher whose weights and settings are used.
        side: `video` or `ocr`.
        own: (l, D) rows of the modality, type embeddings added.
        other: (k, D) rows of the other modality, type embeddings added.
    """
    module: Any = matcher.clues[side]
    settings = matcher.settings
    assert matcher.clue_type is not None
    token = (module.token + matcher.clue_type)[None]
    query = token
    if settings.intra == "self_attention":
        rows = torch.cat([token, own])
        # every row looks at every row; the first is the clue
        token = token + multi_head_attention(module.inner, rows, rows)[:1]
        query = module.norm(token)
    keys = torch.cat([own, other]) if settings.intra == "keys" else other
    found = multi_head_attention(module.cross, query, keys)
    return (token + found if settings.residual else found)[0]


def multi_head_attention(module: Any, queries: Tensor, keys: Tensor) -> Tensor:
    """Attend from rows (l, D) to rows (k, D) with PyTorch's own module and the maps of an `AttentionMaps`: (l, D)."""
    dimension = queries.shape[-1]
    torch_form = torch.nn.MultiheadAttention(dimension, module.heads, bias=False, batch_first=True).to(queries)
    torch_form.in_proj_weight.data = torch.cat([module.query.weight, module.key.weight, module.value.weight])
    torch_form.out_proj.weight.data = module.output.weight
    found: Tensor = torch_form(queries[None], keys[None], keys[None], need_weights=False)[0][0]
    return found


class Sequence(NamedTuple):
    """Frames or on-screen windows of B videos, in the order of time."""

    vectors: Tensor  # (B, L, D), of any length
    mask: Tensor  # (B, L) True = real


class CycleIndices(NamedTuple):
    """Ends of cycles, for each of the N places where one begins."""

    mean: Tensor  # (B, N) soft index mu of the end; places are counted from 1
    variance: Tensor  # (B, N) of the soft index, in squared places


def cycle_indices(start: Sequence, over: Sequence, temperature: Tensor | float, form: CycleForm) -> CycleIndices:
    """Compute where cycles end: soft nearest neighbours from each place to the other sequence and back.

    (TCD, equations 3 and 4.)

    Args:
        start: where cycles begin and end, (B, N, D), at least one real a row.
        over: the other sequence, (B, M, D), at least one real a row.
        temperature: temperature of the softmax.
        form: `softmax` of cosines; of negative `squared_distance` of the unit vectors; or `printed`: cosines divided by
            their sum. That gives every place the same index, next to the middle, and may divide by nothing.
    """
    first, second = (F.normalize(each.vectors, dim=-1) for each in (start, over))
    there = _weights(first @ second.mT, over.mask, temperature, form)
    met = there @ second
    if form != "squared_distance":  # its distances to unit vectors differ by the products alone
        met = F.normalize(met, dim=-1)
    back = _weights(met @ first.mT, start.mask, temperature, form)
    places = torch.arange(1, start.mask.shape[1] + 1, dtype=back.dtype, device=back.device)
    mean = back @ places
    return CycleIndices(mean, (back * (places - mean[..., None]) ** 2).sum(-1))


def _weights(alike: Tensor, mask: Tensor, temperature: Tensor | float, form: CycleForm) -> Tensor:
    """(B, N, L) from products with unit vectors; but for a constant, twice those are the negative squared distances."""
    real = mask[:, None].expand_as(alike)
    if form == "printed":
        kept = alike.masked_fill(~real, 0.0)
        total = kept.sum(-1, keepdim=True)
        return kept / torch.where(total == 0, 1.0, total)
    sharper = 2.0 if form == "squared_distance" else 1.0
    return (sharper * alike / temperature).masked_fill(~real, float("-inf")).softmax(-1)


def cycle_loss(frames: Sequence, windows: Sequence, temperature: Tensor | float, settings: TcdSettings) -> Tensor:
    """Compute TCD's cycle loss L_hsc (equation 5), the mean over the cycles of all videos; 0 where no video has text.

    A cycle begins at each frame that has text in the window of its time; elsewhere it could only lead over a window of
    another time. (In the paper all windows have text, because empty ones say that they are.)

    Args:
        frames: (B, F, D), at least one real a row, real ones first.
        windows: (B, O, D) equal stretches of the same videos, real where some text was read.
        temperature: temperature of the softmax.
        settings: `cycle`, `both_ways`, `normalise_index` and `variance_weight` say how.

    >>> steps = Sequence(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool))
    >>> round(cycle_loss(steps, steps, 0.01, TcdSettings()).item(), 6)
    0.0
    """
    some = windows.mask.any(1)
    if not some.any():
        return _nothing(frames, temperature)
    here, there = (Sequence(each.vectors[some], each.mask[some]) for each in (frames, windows))
    loss = _off_by(here, there, _written_frames(here.mask, there.mask), temperature, settings)
    if not settings.both_ways:
        return loss
    return (loss + _off_by(there, here, there.mask, temperature, settings)) / 2  # each window has a frame of its time


def _off_by(
    start: Sequence, over: Sequence, begins: Tensor, temperature: Tensor | float, settings: TcdSettings
) -> Tensor:
    """How far cycles end from where they begin: the mean over places where `begins` (B, N) is True."""
    found = cycle_indices(start, over, temperature, settings.cycle)
    places = torch.arange(1, start.mask.shape[1] + 1, dtype=found.mean.dtype, device=found.mean.device)
    last = ((start.mask * places).amax(1, keepdim=True) - 1).clamp(min=1)
    unit = last if settings.normalise_index else torch.ones_like(last)
    squared = ((places - found.mean) / unit) ** 2
    if settings.variance_weight is not None:
        variance = found.variance / unit**2 + torch.finfo(squared.dtype).eps
        squared = squared / variance + settings.variance_weight * variance.log() / 2
    return squared[begins].mean()


def contrastive_synchrony(frames: Sequence, windows: Sequence, temperature: Tensor | float) -> Tensor:
    """Compute InfoNCE of frames and the windows of their time, the contrastive alternative to cycles (TCD, figure 3).

    It is taken in both directions, over frames whose window has text and over windows with text; where there are not as
    many windows as frames, the middle of a frame's share of the clip says which window is its own.

    Args:
        frames: (B, F, D), real ones first.
        windows: (B, O, D) equal stretches of the same videos, real where some text was read.
        temperature: temperature of the softmax.
    """
    own = _own_windows(frames.mask, windows.mask.shape[1])
    written = windows.mask.gather(1, own) & frames.mask
    if not written.any():
        return _nothing(frames, temperature)
    first, second = (F.normalize(each.vectors, dim=-1) for each in (frames, windows))
    logits = first @ second.mT / temperature
    low = torch.finfo(logits.dtype).min
    to_windows = F.log_softmax(logits.masked_fill(~windows.mask[:, None], low), dim=2)
    to_frames = F.log_softmax(logits.masked_fill(~frames.mask[:, :, None], low), dim=1)
    both = [each.gather(2, own[..., None])[..., 0][written] for each in (to_windows, to_frames)]
    return -torch.stack(both).mean()


def _nothing(frames: Sequence, temperature: Tensor | float) -> Tensor:
    """Zero that the temperature has a gradient of: devices that train together wait for one of every parameter."""
    return frames.vectors.new_zeros(()) * temperature


def _own_windows(frame_mask: Tensor, windows: int) -> Tensor:
    """(B, N) number of the window that holds the middle of each frame's share of its clip."""
    counts = frame_mask.sum(1, keepdim=True).clamp(min=1)
    places = torch.arange(frame_mask.shape[1], device=frame_mask.device)
    return ((2 * places + 1) * windows // (2 * counts)).clamp(max=windows - 1)


def _written_frames(frame_mask: Tensor, written: Tensor) -> Tensor:
    """(B, N) True = a real frame with text in a window of its time: the middle of one lies in the other's stretch.

    Real frames (B, N) come first; windows (B, M) are True where they have text.
    """
    frames, windows = (torch.arange(mask.shape[1], device=mask.device) for mask in (frame_mask, written))
    counts = frame_mask.sum(1, keepdim=True)
    at_middle = _own_windows(frame_mask, len(windows))[..., None] == windows
    around_middle = ((2 * windows + 1) * counts // (2 * len(windows)))[:, None] == frames[:, None]
    return ((at_middle | around_middle) & written[:, None]).any(2) & frame_mask


class Calibration(nn.Module):
    """TCD's calibration loss L_hsc, or its contrastive alternative, with a learned temperature."""

    def __init__(self, settings: TcdSettings) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(settings.cycle_tau)))
        self._settings = settings

    def forward(self, frames: Sequence, windows: Sequence) -> Tensor:
        """Compute the calibration loss of the frames and on-screen windows of B videos, as yet unweighted by captions.

        Computed in float32 at least: lower precision could not represent fractional places.
        """
        frames, windows = (
            Sequence(each.vectors.to(torch.promote_types(each.vectors.dtype, torch.float32)), each.mask)
            for each in (frames, windows)
        )
        with torch.autocast(frames.vectors.device.type, enabled=False):
            if self._settings.calibration == "contrastive":
                return contrastive_synchrony(frames, windows, self.log_tau.exp())
            return cycle_loss(frames, windows, self.log_tau.exp(), self._settings)


CHUNK_NUMBERS = 2**20
"""Numbers of one table of pairs: 4 MiB, about ten of which are there at a time."""
LEAST_CONFIDENCE = 1e-3


class CoAttended(NamedTuple):
    """Co-attention of frames and on-screen windows of V videos, the same for all captions.

    Refined frames have a row for each window (l = O, k = T), refined windows a row for each frame (l = T, k = O).
    Without co-attention they are the frames and windows themselves, and k is 0.
    """

    video_mix: Tensor  # (V, l, k) attention of refined frames; logits where captions change it
    video_taken: Tensor  # (V, k, D) values of frames
    ocr_mix: Tensor  # (V, l, k) attention of refined windows; logits where captions change it
    ocr_taken: Tensor  # (V, k, D) values of windows


class TcdVideo(NamedTuple):
    """Videos encoded by TCD: tensors of V videos that do not depend on the caption."""

    frames: Tensor  # (V, T, D) of unit length
    frame_mask: Tensor  # (V, T) True = real
    windows: Tensor  # (V, O, D) of unit length; the first one of a clip without text is the learned one
    window_mask: Tensor  # (V, O) True = attended to, at least one a row
    certainty: Tensor  # (V, O) logarithm of the confidence of windows, 0 where it does not count
    streams: CoAttended | tuple[()]  # tensors of co-attention; empty where only one modality is used
    hybrids: tuple[Any, ...]  # tensors of the fusion, such as `ClueRows`; empty where only one modality is used


class Tcd(nn.Module):
    """TCD matcher: the mean of the cosines of a caption with refined frames, refined windows and their clue.

    Raises:
        UsageError: D is no multiple of the heads.
    """

    training_only: tuple[str, ...] = ("calibration",)
    """See `evenreel.matchers.matcher.HasTrainingParts`."""

    def __init__(self, dimension: int, settings: TcdSettings) -> None:
        super().__init__()
        self.settings = settings
        self.scale = math.sqrt(dimension)
        both = settings.modalities == "both"
        types = both and "hybrid" in settings.matches and (settings.distils or settings.fusion == "cross_attention")
        most = settings.max_frames if types and settings.types == "positions" else None
        self.limits = Limits(dimension, frames=most, own_windows=most)
        self.no_text = nn.Parameter(torch.randn(dimension)) if settings.modalities != "video" else None
        co_attends = both and settings.co_attention
        attention = settings.attention_norm
        self.frames_look = CoAttention(dimension, norm=attention) if co_attends else None
        self.windows_look = CoAttention(dimension, norm=attention) if co_attends else None
        places = settings.max_frames if settings.types == "positions" else 1
        self.video_types = nn.Parameter(torch.zeros(places, dimension)) if types else None
        self.ocr_types = nn.Parameter(torch.zeros(places, dimension)) if types else None
        self.clue_type = nn.Parameter(torch.zeros(dimension)) if settings.distils else None
        self.clues = nn.ModuleDict(
            {side: Clue(dimension, settings.heads, settings.intra, residual=settings.residual) for side in self._sides}
        )
        hybrid = both and "hybrid" in settings.matches
        crosses = hybrid and settings.fusion == "cross_attention"
        self.cross = CrossAttention(dimension, settings.heads, residual=settings.residual) if crosses else None
        wide, joins = 2 * dimension, hybrid and settings.fusion == "concat"
        self.joint = nn.Sequential(nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, dimension)) if joins else None
        self.calibration = Calibration(settings) if settings.calibrates else None
        self.logit_scale = logit_scale_at(settings.temperature)

    @property
    def _sides(self) -> tuple[str, ...]:
        """The modalities that have a clue token."""
        if not self.settings.distils:
            return ()
        return ("video", "ocr") if self.settings.fusion == "clues" else ("video",)

    def encode_text(self, text: TextBatch) -> Sentences:
        """Encode captions as sentence vectors (Q, D) of unit length."""
        return Sentences(F.normalize(text.sentence, dim=-1))

    def encode_video(self, video: VideoBatch) -> TcdVideo:
        """Encode videos: compute all tensors of frames and on-screen windows that do not depend on captions.

        Raises:
            UsageError: a clip has more frames or windows than there are type embeddings.
        """
        frames, frame_mask = self._within(F.normalize(video.frames, dim=-1), video.frame_mask, "frames")
        windows, window_mask, certainty = self._windows(video)
        plain = TcdVideo(frames, frame_mask, windows, window_mask, certainty, (), ())
        if self.settings.modalities != "both":
            return plain
        streams = self._streams(plain)
        video_rows, ocr_rows = self._rows(plain, streams)
        return plain._replace(streams=streams, hybrids=self._hybrids(video_rows, ocr_rows))

    def score(self, text: Sentences, video: TcdVideo) -> Tensor:
        """Compute similarities (Q, V), the mean cosine of the parts (equation 12)."""
        return self._tables(text, video).mean(0)

    def part_scores(self, text: Sentences, video: TcdVideo) -> dict[str, Tensor]:
        """Compute the parts of the score that the settings use, S_TV, S_TO and S_TH (equation 13), (Q, V) each."""
        return dict(zip(self.settings.parts, self._tables(text, video), strict=True))

    def coarse(self, text: Sentences, video: TcdVideo) -> Tensor:
        """Compute a cheap score (Q, V): the mean of the cosines with the mean frame and the mean window, unweighted."""
        means = {
            "video": masked_mean(video.frames, video.frame_mask),
            "ocr": masked_mean(video.windows, video.window_mask),
        }
        wanted = means if self.settings.modalities == "both" else {self.settings.modalities: None}
        found = [text.vectors @ F.normalize(means[name], dim=-1).T for name in wanted]
        return torch.stack(found).mean(0)

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the loss of a batch (equation 15): `contrastive` (14), and the calibration `hsc` (5)."""
        scores = self.score(self.encode_text(batch.text), self.encode_video(batch.video))
        terms = {"contrastive": info_nce(scores, batch.same, self.logit_scale.exp())}
        video = batch.video
        if self.calibration is not None and video.on_screen is not None:
            windows = Sequence(video.on_screen.windows, video.on_screen.mask)
            frames = Sequence(video.frames, video.frame_mask)
            terms["hsc"] = self.settings.lambda_hsc * self.calibration(frames, windows)
        return terms

    def _within(self, rows: Tensor, mask: Tensor, of: str) -> tuple[Tensor, Tensor]:
        limit = self.limits.frames
        return (rows, mask) if limit is None else cut(rows, mask, limit, ("clip", "frames"), of)

    def _windows(self, video: VideoBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Windows with their mask and certainty; where nobody read any, none has text."""
        read = video.on_screen
        if read is None or read.windows.shape[1] == 0:
            windows, mask = torch.zeros_like(video.frames[:, :1]), torch.zeros_like(video.frame_mask[:, :1])
        else:
            windows, mask = self._within(read.windows, read.mask, "on-screen windows")
        certainty = torch.zeros_like(windows[..., 0])
        if self.no_text is None:
            return windows, mask, certainty
        if self.settings.confidence and read is not None and read.confidence is not None:
            certainty = read.confidence[:, : mask.shape[1]].clamp(min=LEAST_CONFIDENCE).log() * mask
        first = torch.zeros_like(mask)
        first[:, 0] = ~mask.any(1)
        windows = torch.where(first[..., None], self.no_text, windows.masked_fill(~mask[..., None], 0.0))
        return F.normalize(windows, dim=-1), mask | first, certainty

    def _streams(self, video: TcdVideo) -> CoAttended:
        frames, windows = self.scale * video.frames, self.scale * video.windows
        if self.frames_look is None or self.windows_look is None:
            nothing = frames[:, :0]
            return CoAttended(frames[..., :0], nothing, windows[..., :0], nothing)
        of_video = self.windows_look.hoisted(windows, frames, video.frame_mask)
        return CoAttended(*of_video, *self.frames_look.hoisted(frames, windows, video.window_mask))

    def _rows(self, video: TcdVideo, streams: CoAttended) -> tuple[RowTerms, RowTerms]:
        """Refined frames and refined windows, as what they are sums of."""
        frames, windows = self.scale * video.frames, self.scale * video.windows
        if self.frames_look is None:
            return RowTerms(frames, streams.video_taken), RowTerms(windows, streams.ocr_taken)
        looks = slice(None if self.settings.co_residual else 0)
        return RowTerms(windows[:, looks], streams.video_taken), RowTerms(frames[:, looks], streams.ocr_taken)

    def _hybrids(self, video_rows: RowTerms, ocr_rows: RowTerms) -> tuple[Any, ...]:
        if self.cross is not None:
            return self.cross.hoisted(ocr_rows, video_rows)
        own = {"video": (video_rows, ocr_rows), "ocr": (ocr_rows, video_rows)}
        return tuple(self.clues[side].hoisted(*own[side], self.clue_type) for side in self._sides)  # type: ignore[operator]

    def _tables(self, text: Sentences, video: TcdVideo) -> Tensor:
        """(P, Q, V) the parts of all pairs."""
        captions, videos = self._chunk(video)
        return joined_chunks(self._parts, chunks_of(video, videos), chunks_of(text, captions)).mT

    def _chunk(self, video: TcdVideo) -> tuple[int, int]:
        """Captions and videos of a chunk, about as many of both."""
        longest = max(video.frames.shape[1], video.windows.shape[1])
        numbers = self.limits.dimension
        if self.cross is not None:
            numbers = longest * max(numbers, longest * self.settings.heads)
        if self.frames_look is not None and not self.settings.attention_norm:
            numbers = max(numbers, longest**2)
        pairs = max(1, CHUNK_NUMBERS // max(numbers, longest * self.settings.heads))
        side = max(1, math.isqrt(pairs))
        return max(side, pairs // max(1, min(side, row_count(video)))), side

    def _parts(self, video: TcdVideo, text: Sentences) -> Tensor:
        """(P, v, q) of one chunk."""
        sentence = text.vectors
        frames = self._weights(sentence, video.frames, video.frame_mask, None)
        windows = self._weights(sentence, video.windows, video.window_mask, video.certainty)
        if not isinstance(video.streams, CoAttended):
            shares, rows = (frames, video.frames) if self.settings.modalities == "video" else (windows, video.windows)
            return _cosines(shares @ rows, sentence)[None]
        video_rows, ocr_rows = self._rows(video, video.streams)
        of_video, of_ocr = self._weighings(video, video.streams, frames, windows)
        wanted, found = self.settings.matches, {}
        means = mean_row(of_video, video_rows), mean_row(of_ocr, ocr_rows)
        found["video"], found["ocr"] = means
        if "hybrid" in wanted:
            found["hybrid"] = self._hybrid(video.hybrids, of_video, of_ocr, means)
        return torch.stack([_cosines(found[part], sentence) for part in wanted])

    def _weights(self, sentence: Tensor, rows: Tensor, mask: Tensor, certainty: Tensor | None) -> Tensor:
        """(v, q, l) what each frame or window counts: 1 in the mean, or in all (`preserve_mean`)."""
        count = mask.sum(1)[:, None, None]
        if self.settings.text_condition:
            shares = conditioned(sentence, rows, mask, self.settings.tau, certainty)
        else:
            alike = torch.zeros_like(rows[..., 0]) if certainty is None else certainty
            shares = masked_softmax(alike, mask)[:, None].expand(-1, len(sentence), -1)
        return shares * count if self.settings.preserve_mean else shares

    def _weighings(
        self, video: TcdVideo, streams: CoAttended, frames: Tensor, windows: Tensor
    ) -> tuple[RowWeights, RowWeights]:
        """How captions weigh refined frames and refined windows."""
        if self.frames_look is None:
            return (
                RowWeights(frames, frames[..., :0], streams.video_mix, video.frame_mask),
                RowWeights(windows, windows[..., :0], streams.ocr_mix, video.window_mask),
            )
        of_video, of_ocr = streams.video_mix, streams.ocr_mix
        if not self.settings.attention_norm:
            of_video = weighted_attention(of_video, windows, frames, video.frame_mask)
            of_ocr = weighted_attention(of_ocr, frames, windows, video.window_mask)
        looks = slice(None if self.settings.co_residual else 0)
        return (
            RowWeights(windows[..., looks], frames, of_video, video.window_mask),
            RowWeights(frames[..., looks], windows, of_ocr, video.frame_mask),
        )

    def _hybrid(
        self, hybrids: tuple[Any, ...], of_video: RowWeights, of_ocr: RowWeights, means: tuple[Tensor, Tensor]
    ) -> Tensor:
        """What stands for both modalities, (v, q, D): the clue (equation 11), or another fusion of table 6."""
        if self.settings.distils:
            clues = [
                self.clues[side](rows, self._sides_of(side, of_video, of_ocr), self.clue_type)
                for side, rows in zip(self._sides, hybrids, strict=True)
            ]
            return torch.stack(clues).mean(0)
        if self.cross is not None:
            crossed: Tensor = self.cross(*hybrids, self._sides_of("ocr", of_video, of_ocr), means[1])
            return crossed
        if self.joint is not None:
            joint: Tensor = self.joint(torch.cat(means, -1))
            return joint
        return means[0] * means[1] + means[0] if self.settings.fusion == "product" else means[0] + means[1]

    def _sides_of(self, own: str, of_video: RowWeights, of_ocr: RowWeights) -> ClueWeights:
        video, ocr = (of_video, _of_rows(self.video_types, of_video)), (of_ocr, _of_rows(self.ocr_types, of_ocr))
        (first, its), (second, others) = (video, ocr) if own == "video" else (ocr, video)
        return ClueWeights(first, second, its, others)


def _of_rows(types: Tensor | None, rows: RowWeights) -> Tensor:
    """The types of so many rows; one that all share is one."""
    assert types is not None
    return types[: rows.mask.shape[1]]


def _cosines(vectors: Tensor, sentence: Tensor) -> Tensor:
    """(v, q, D) with the captions (q, D), of unit length: (v, q)."""
    return (F.normalize(vectors, dim=-1) * sentence).sum(-1)


ENTRY = Entry(Tcd, TcdSettings, windows=reads_on_screen)
