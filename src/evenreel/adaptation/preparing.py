"""Preparation of a source for test-time training, which then needs none of the source's clips."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.adaptation.baselines.ttt import source_statistics
from evenreel.adaptation.baselines.ttt_flow import Flow, FlowSettings, fit_flow, nll_per_number
from evenreel.adaptation.prepared import Flows, Kind, Note, PreparedSource
from evenreel.adaptation.settings import FitSettings
from evenreel.adaptation.titan.causal import CausalCorrection, CausalSettings
from evenreel.adaptation.titan.causal_training import correction_recall, fit_source, new_correction, pair_accuracy
from evenreel.adaptation.titan.confounders import COUNT, frame_confounders, phrase_confounders
from evenreel.adaptation.vectors import text_vectors, video_vectors
from evenreel.arrays import slices
from evenreel.config import MOST_BITS, check_settings, whole
from evenreel.features.scene_elements import EmbeddedDictionary
from evenreel.matchers.batches import text_batch, to_device, video_batch
from evenreel.matchers.lengths import check_lengths, check_texts, check_videos
from evenreel.matchers.matcher import Matcher
from evenreel.progress import Progress
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.training.batches import Pairs
from evenreel.types import FloatArray, TextFeatures, VideoFeatures

AT_ONCE = 512
"""Captions, or clips, that become vectors at a time."""

Bar = Callable[[str], AbstractContextManager[Progress]]
"""What a stage is called -> a block in which the share that is done is told."""


@dataclass(frozen=True, eq=False)
class SourceSplit:
    """Features and pairs of a split of the source.

    Attributes:
        texts: features of its captions.
        videos: features of its clips.
        pairs: pairs of a caption and its clip, as rows of both.
    """

    texts: TextFeatures
    videos: VideoFeatures
    pairs: Pairs


class UnitVectors(NamedTuple):
    """Unit vectors of captions (Q, D) and clips (V, D), on the matcher's device."""

    q: Tensor
    v: Tensor


class FoundConfounders(NamedTuple):
    """Confounders of a source: what its clips tend to show.

    Attributes:
        kind: method by which they were found.
        vectors: (N, d) vectors of the confounders.
        names: names of the confounders, if any.
        dictionary: dictionary that they were chosen from, where there is one.
    """

    kind: Kind
    vectors: FloatArray
    names: tuple[str, ...] = ()
    dictionary: EmbeddedDictionary | None = None


@dataclass(frozen=True)
class PrepareSettings:
    """Settings of preparing a source for test-time training.

    Attributes:
        causal: settings of the bias correction.
        causal_fit: settings of training its source stage; adaptation has some of the same name for the target stage.
        flow: settings of the flows of TTTFlow.
        seed: random seed of all parts; the seeds of `causal_fit` and `flow` are added to it.

    Raises:
        UsageError: the seed is not a whole number of at least 0.
    """

    causal: CausalSettings = field(default_factory=CausalSettings)
    causal_fit: FitSettings = field(default_factory=FitSettings)
    flow: FlowSettings = field(default_factory=FlowSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings("preparation", self, {"seed": whole(0, MOST_BITS)})


@contextlib.contextmanager
def _silent(stage: str) -> Iterator[Progress]:
    yield lambda share: None


def confounders_of(
    videos: VideoFeatures, dictionary: EmbeddedDictionary | None = None, count: int = COUNT, seed: int = 0
) -> FoundConfounders:
    """Find confounders of the source's clips: phrases of a scene dictionary, or cluster centres of frames without one.

    Args:
        videos: features of the clips.
        dictionary: dictionary with vectors of its phrases; None for cluster centres.
        count: number of confounders.
        seed: seed of the clusters.
    """
    if dictionary is None:
        return FoundConfounders("kmeans", frame_confounders(videos, count, seed))
    phrases = phrase_confounders(videos, dictionary, count)
    return FoundConfounders("elements", phrases.vectors, phrases.names, dictionary)


def prepare(
    matcher: Matcher,
    source: SourceSplit,
    confounders: FoundConfounders,
    settings: PrepareSettings | None = None,
    validation: SourceSplit | None = None,
    bar: Bar = _silent,
) -> PreparedSource:
    """Prepare a source for test-time training: fit the bias correction, moments and flows; the matcher stays as it is.

    Args:
        matcher: the source matcher, on the device where the work is to be done.
        source: split that it was trained on.
        confounders: confounders of its clips.
        settings: settings of the fits.
        validation: split to measure the correction on; None for none.
        bar: shows the progress of each stage.

    Raises:
        UsageError: the matcher takes no features of captions; a caption or clip is not one that it can take; there are
            too few, or of one clip only.
    """
    settings = settings or PrepareSettings()
    measured = None if validation is None else vectors_of(matcher, validation, bar)
    vectors = vectors_of(matcher, source, bar)
    statistics = source_statistics(vectors.q, vectors.v)
    seed, device = settings.seed, vectors.q.device
    fit = replace(settings.causal_fit, seed=seed + settings.causal_fit.seed)
    flow = replace(settings.flow, seed=seed + settings.flow.seed)
    correction = new_correction(vectors.q.shape[1], torch.from_numpy(confounders.vectors), settings.causal, seed)
    if validation is not None and measured is not None:  # what cannot be measured on is refused before the long part
        pair_accuracy(correction.to(device), *measured, validation.pairs, of="validation split")
    with bar("learning to tell pairs apart") as progress:
        figures = fit_source(correction.to(device), *vectors, source.pairs, fit, progress)
    flows, more = _flows(vectors, flow, bar)
    figures |= more
    if validation is not None and measured is not None:
        figures |= _measured(correction, measured, validation.pairs)
    note = Note(
        captions=len(source.texts.ids),
        clips=len(source.videos.ids),
        confounders=confounders.kind,
        names=confounders.names,
        seed=seed,
        figures=figures,
    )
    return PreparedSource(correction.cpu(), statistics, flows, confounders.dictionary, note)


def vectors_of(matcher: Matcher, part: SourceSplit, bar: Bar = _silent) -> UnitVectors:
    """Compute the unit vectors of all captions and clips of a split, without gradients.

    Raises:
        UsageError: a caption or clip is not one that the matcher can take.
    """
    texts, videos, device = part.texts, part.videos, device_of(matcher)
    check_lengths(matcher, texts, videos)
    made: tuple[list[Tensor], list[Tensor]] = ([], [])
    stages = ("vectors of captions", "vectors of clips")
    with torch.no_grad(), evaluating(matcher):
        with bar(stages[0]) as progress:
            for rows in slices(len(texts.ids), AT_ONCE):
                batch = text_batch(texts, rows)
                check_texts(matcher, batch)
                made[0].append(text_vectors(matcher, to_device(batch, device)))
                progress(rows.stop / len(texts.ids))
        with bar(stages[1]) as progress:
            for rows in slices(len(videos.ids), AT_ONCE):
                clips = video_batch(videos, rows)
                check_videos(matcher, clips)
                made[1].append(video_vectors(matcher, to_device(clips, device)))
                progress(rows.stop / len(videos.ids))
    return UnitVectors(torch.cat(made[0]), torch.cat(made[1]))


def _measured(correction: CausalCorrection, vectors: UnitVectors, pairs: Pairs) -> dict[str, float]:
    """Measure a correction on the pairs of a split."""
    verdicts, firsts = (
        pair_accuracy(correction, *vectors, pairs)._asdict(),
        correction_recall(correction, *vectors, pairs)._asdict(),
    )
    return {
        f"{part}_{name}": float(value)
        for part, found in (("validation", verdicts), ("first", firsts))
        for name, value in found.items()
    }


def _flows(vectors: UnitVectors, settings: FlowSettings, bar: Bar) -> tuple[Flows, dict[str, float]]:
    """Flows on the CPU, and what a number costs under each and under independent Gaussians, on the source itself."""
    made: list[Flow] = []
    figures: dict[str, float] = {}
    for name, rows in zip(("text", "video"), vectors, strict=True):
        with bar(f"fitting a flow ({name})"):
            flow = fit_flow(rows, settings)
        plain = Flow(rows.shape[1], layers=0, hidden=1).to(rows.device)
        plain.mean.copy_(flow.mean)
        plain.scale.copy_(flow.scale)
        with torch.no_grad():
            figures |= {
                f"flow_{name}": nll_per_number(flow, rows[: 8 * AT_ONCE]).item(),
                f"gaussian_{name}": nll_per_number(plain, rows[: 8 * AT_ONCE]).item(),
            }
        made.append(flow.cpu())
    return Flows(*made), figures
