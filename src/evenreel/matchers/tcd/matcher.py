"""TCD (Zhao et al., AAAI 2026): frames and on-screen text, calibrated to each other and distilled to clues.

A caption weights frames V and on-screen windows O (equation 2), both attend to each other (6, 7), a clue token of each
attends to the result of the other (8 to 11), and the caption is compared with the mean of the frames, of the windows,
and with the clue (12, 13). A loss keeps windows in step with frames (3 to 5). `TcdSettings` names each of these, and
where the formulas as printed do something else than they are meant to. `evenreel.matchers.tcd.reference` writes them
down for one pair, as the paper does.

Names follow the paper: the result of frames that attend to windows, a row for each frame, are refined windows (`ocr`);
of windows that attend to frames, a row for each window, refined frames (`video`).

A window without text takes no part, and no cycle of the calibration begins at a frame of its time. A clip without any
text has one window with a learned vector.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.losses import info_nce
from evenreel.losses.calibration import CycleSettings, Sequence, contrastive_synchrony, cycle_loss
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Entry, Limits, cut, logit_scale_at
from evenreel.matchers.mean_pool import PooledVectors as Sentences
from evenreel.matchers.tcd.clues import Clue, ClueWeights, CoAttention, CrossAttention, weighted_attention
from evenreel.matchers.tcd.settings import TcdSettings, reads_on_screen
from evenreel.similarity.clues import RowTerms, RowWeights, conditioned, mean_row
from evenreel.similarity.pooling import masked_mean, masked_softmax
from evenreel.similarity.states import chunks_of, joined_chunks, row_count

CHUNK_NUMBERS = 2**20
"""Numbers of one table of pairs: 4 MiB, about ten of which are there at a time."""

LEAST_CONFIDENCE = 1e-3


class CoAttended(NamedTuple):
    """Co-attention of frames and on-screen windows of V videos, the same for all captions.

    Refined frames have a row for each window (l = O, k = T), refined windows a row for each frame (l = T, k = O).
    Without co-attention they are the frames and windows themselves, and k is 0.

    Attributes:
        video_mix: (V, l, k) attention of refined frames; logits where captions change it.
        video_taken: (V, k, D) values of frames.
        ocr_mix: (V, l, k) attention of refined windows; logits where captions change it.
        ocr_taken: (V, k, D) values of windows.
    """

    video_mix: Tensor
    video_taken: Tensor
    ocr_mix: Tensor
    ocr_taken: Tensor


class TcdVideo(NamedTuple):
    """Videos encoded by TCD: tensors of V videos that do not depend on the caption.

    Attributes:
        frames: (V, T, D) of unit length.
        frame_mask: (V, T) True = real.
        windows: (V, O, D) of unit length; the first one of a clip without text is the learned one.
        window_mask: (V, O) True = attended to, at least one a row.
        certainty: (V, O) logarithm of the confidence of windows, 0 where it does not count.
        streams: tensors of co-attention; empty where only one modality is used.
        hybrids: tensors of the fusion, such as `ClueRows`; empty where only one modality is used.
    """

    frames: Tensor
    frame_mask: Tensor
    windows: Tensor
    window_mask: Tensor
    certainty: Tensor
    streams: CoAttended | tuple[()]
    hybrids: tuple[Any, ...]


class Calibration(nn.Module):
    """TCD's calibration loss L_hsc, or its contrastive alternative, with a learned temperature."""

    def __init__(self, settings: TcdSettings) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(settings.cycle_tau)))
        self._contrastive = settings.calibration == "contrastive"
        self._cycle = CycleSettings(
            settings.cycle, settings.both_ways, settings.normalise_index, settings.variance_weight
        )

    def forward(self, frames: Sequence, windows: Sequence) -> Tensor:
        """Compute the calibration loss of the frames and on-screen windows of B videos, as yet unweighted by captions.

        Computed in float32 at least: lower precision could not represent fractional places.
        """
        frames, windows = (
            Sequence(each.vectors.to(torch.promote_types(each.vectors.dtype, torch.float32)), each.mask)
            for each in (frames, windows)
        )
        with torch.autocast(frames.vectors.device.type, enabled=False):
            if self._contrastive:
                return contrastive_synchrony(frames, windows, self.log_tau.exp())
            return cycle_loss(frames, windows, self.log_tau.exp(), self._cycle)


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
        self.joint = _joint(dimension) if hybrid and settings.fusion == "concat" else None
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


def _joint(dimension: int) -> nn.Sequential:
    """`concat`: an MLP over both means."""
    first, last = nn.Linear(2 * dimension, 2 * dimension), nn.Linear(2 * dimension, dimension)
    return nn.Sequential(first, nn.GELU(), last)


ENTRY = Entry(Tcd, TcdSettings, windows=reads_on_screen)
