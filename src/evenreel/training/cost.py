"""Cost of a recipe's matcher, and of an epoch of its training (frame-length bias, table 5).

Parameters, multiply-adds and bytes of both sides are counted on the matcher itself, on captions and clips of a given
shape, so that it holds for every matcher and for several of them that are fused: an ensemble of M encodes and keeps
every clip M times, which its gain has to be set beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import build, fitted, module, reads_graphs, reads_windows
from evenreel.debias.frame_length import uniform_weights
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import LearnedFrom, Matcher
from evenreel.media import parse_rule
from evenreel.progress import Progress
from evenreel.similarity.tiles import mapped, row_bytes, take_rows, tensors_of
from evenreel.training.batches import TrainingInputs
from evenreel.training.loop import RunHooks, plan_of
from evenreel.training.material import spec_of
from evenreel.training.members import member_runs, train_recipe, whole_run
from evenreel.training.recipe import Recipe, Records
from evenreel.types import OnScreen, RoleGraph, RoleNode

VERBS, NOUNS = 4, 6
"""Phrases of a caption that is read as a graph: the most that HGR reads."""

UNREAD = "word"
"""Stands for the words of captions that are not given, so that what writes them is there and can be counted."""

FRAMES = 20
"""Of a clip in the published table, for recipes whose rule does not say how many."""

WARM_UP_STEPS = 5
STEPS = 20
"""Steps whose median is taken as what a step costs."""

_COUNTED = 2
"""Captions and clips that are counted on; more cost as many times as much."""


@dataclass(frozen=True)
class Shape:
    dimension: int  # length D of the features
    batch: int = 64  # number of captions, and of clips
    frames: int = FRAMES  # frames per clip
    words: int = 30  # words per caption
    # windows of on-screen text per clip, all with text; only matchers that read windows are given these
    windows: int = 12


@dataclass(frozen=True)
class SideCost:
    # number of parameters that the side uses, without embeddings; those used by both sides count in both
    parameters: int
    multiply_adds: int  # multiply-adds to encode a batch
    row_bytes: int  # bytes that are kept of one caption or clip


@dataclass(frozen=True)
class Cost:
    """Cost of a matcher: of encoding captions and clips, and of scoring their pairs."""

    captions: SideCost  # cost of encoding captions
    videos: SideCost  # cost of encoding clips
    pair_parameters: int  # parameters that only scoring uses
    pair_multiply_adds: int  # multiply-adds of one more pair of a caption and a clip, both encoded
    parameters: int  # parameters that scores depend on, without embeddings, each once
    embeddings: int  # numbers in tables of words and roles that scores depend on, which are looked up, not multiplied
    # parameters that no score depends on, such as those of caption decoders and the temperature
    training_parameters: int


@dataclass(frozen=True)
class RecipeCost:
    """Cost of the matcher that a recipe makes, and of each of the matchers fused in it."""

    shape: Shape  # sizes of the batch that costs were counted on
    members: int  # number of fused matchers; 1 for one
    one: Cost  # cost of the matcher of one training
    whole: Cost  # cost of all that the recipe makes
    # whether the vocabulary's embeddings are missing from the counts, because no captions were given
    words_unread: bool = False


def frames_of(recipe: Recipe) -> int:
    """Return the number of frames a clip that a recipe's backbone samples; a default where its rule does not say."""
    frames: int = FRAMES if recipe.backbone is None else getattr(parse_rule(recipe.backbone.rule), "count", FRAMES)
    return frames


def recipe_cost(recipe: Recipe, shape: Shape, learned: LearnedFrom | None = None) -> RecipeCost:
    """Count what a recipe's matcher costs; nothing is trained or read."""
    given = spec_of(recipe)
    spec = fitted(given, learned or LearnedFrom(texts=(UNREAD,) * _words_at_least(given)))
    reads = reads_windows(spec)
    one = matcher_cost(build(spec, shape.dimension), shape, windows=reads)
    whole, members = _whole(recipe, spec)
    both = one if whole == spec else matcher_cost(build(whole, shape.dimension), shape, windows=reads)
    return RecipeCost(shape, members, one, both, learned is None and (reads_graphs(given) or _has_unread(spec)))


def _words_at_least(spec: MatcherSpec) -> int:
    """How often a word has to stand in captions to be one of the matcher's, or of one that it wraps."""
    own: int = spec.settings.get("words_at_least", 1)
    return max(own, *map(_words_at_least, spec.wrapped), 1)


def _has_unread(spec: MatcherSpec) -> bool:
    """Whether the matcher, or one that it wraps, would take its words from captions."""
    return spec.settings.get("vocabulary") == (UNREAD,) or any(map(_has_unread, spec.wrapped))


def _whole(recipe: Recipe, spec: MatcherSpec) -> tuple[MatcherSpec, int]:
    members = recipe.members
    if members is None or members.only is not None:
        return spec, 1
    weights = {"weights": uniform_weights(members.count)}
    return MatcherSpec("ensemble", weights, (spec,) * members.count), members.count


def matcher_cost(matcher: Matcher, shape: Shape, *, windows: bool = False) -> Cost:
    """Count the parameters, multiply-adds and bytes of a matcher.

    Multiply-adds are those of all matrix products, attention and recurrent networks included; sums and elementwise
    products are not counted, as in the paper's table. With `windows` it is given on-screen windows; a matcher that
    takes them as frames always is.
    """
    reads = windows or matcher.limits.windows
    _check_shape(matcher, shape, windows=reads)
    network = module(matcher).eval()
    text, video = _captions(shape), _videos(shape, windows=reads)
    text_state, text_adds = _count_multiply_adds(lambda: matcher.encode_text(text))
    video_state, video_adds = _count_multiply_adds(lambda: matcher.encode_video(video))
    batches = shape.batch / _COUNTED
    of_text, of_video = (_used_parameters(network, tensors_of(state)) for state in (text_state, video_state))
    encoding = of_text | of_video
    kept_text, kept_video = (mapped(state, Tensor.detach) for state in (text_state, video_state))
    scores, _ = _count_multiply_adds(lambda: matcher.score(kept_text, kept_video))
    scoring = encoding | _used_parameters(network, [scores])
    tables = {weight for part in network.modules() if isinstance(part, nn.Embedding) for weight in part.parameters()}
    return Cost(
        SideCost(_size(of_text - tables), round(batches * text_adds), row_bytes(kept_text)),
        SideCost(_size(of_video - tables), round(batches * video_adds), row_bytes(kept_video)),
        _size(scoring - encoding - tables),
        _pair_adds(matcher, kept_text, kept_video),
        _size(scoring - tables),
        _size(scoring & tables),
        _size(set(network.parameters()) - scoring),
    )


def _pair_adds(matcher: Matcher, texts: Any, videos: Any) -> int:
    """Count the multiply-adds of one more pair: what scoring does once for a caption or a clip falls out."""

    def counted(captions: int, clips: int) -> int:
        some_texts, some_videos = take_rows(texts, slice(captions)), take_rows(videos, slice(clips))
        return _count_multiply_adds(lambda: matcher.score(some_texts, some_videos))[1]

    return counted(2, 2) - counted(2, 1) - counted(1, 2) + counted(1, 1)


def _check_shape(matcher: Matcher, shape: Shape, *, windows: bool) -> None:
    limits = matcher.limits
    asked = {"frames": (shape.frames, limits.frames), "words": (shape.words, limits.words)}
    if windows and limits.own_windows is not None:
        asked["windows"] = (shape.windows, limits.own_windows)
    for what, (count, most) in asked.items():
        if most is not None and count > most:
            raise UsageError(
                f"The matcher takes at most {most} {what}, and {count} are asked for; give fewer --{what}."
            )
    if limits.windows and limits.frames is not None and shape.frames + shape.windows > limits.frames:
        raise UsageError(
            f"The matcher takes at most {limits.frames} frames and windows together, and {shape.frames} and "
            f"{shape.windows} are asked for; give fewer --frames or --windows."
        )


def _count_multiply_adds(work: Callable[[], Any]) -> tuple[Any, int]:
    """What some work gives, and its multiply-adds; attention in its plain form, since the fused ones go uncounted."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        result = work()
    return result, counter.get_total_flops() // 2


def _used_parameters(network: nn.Module, outputs: Iterable[Tensor]) -> set[nn.Parameter]:
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    sums = [output.sum() for output in outputs if output.requires_grad]
    if not sums:
        return set()
    slopes = torch.autograd.grad(sums, learned, allow_unused=True)
    return {weight for weight, slope in zip(learned, slopes, strict=True) if slope is not None}


def _size(parameters: Iterable[Tensor]) -> int:
    return sum(weight.numel() for weight in parameters)


def _captions(shape: Shape) -> TextBatch:
    """Captions that are full of words, as features and as graphs."""
    make = torch.Generator().manual_seed(0)
    words = torch.randn(_COUNTED, shape.words, shape.dimension, generator=make)
    return TextBatch(
        ids=tuple(map(str, range(_COUNTED))),
        words=words,
        word_mask=torch.ones(words.shape[:2], dtype=torch.bool),
        sentence=normalize(words.sum(1), dim=-1),
        graphs=(_graph(shape.words),) * _COUNTED,
    )


def _graph(words: int) -> RoleGraph:
    """A caption of as many phrases as are read, or as it has words for."""
    nodes = [RoleNode("V" if place < VERBS else "ARG1", (place,)) for place in range(min(words, VERBS + NOUNS))]
    return RoleGraph(("word",) * words, tuple(nodes), tuple((0, place) for place in range(VERBS, len(nodes))))


def _videos(shape: Shape, *, windows: bool) -> VideoBatch:
    make = torch.Generator().manual_seed(1)
    frames = normalize(torch.randn(_COUNTED, shape.frames, shape.dimension, generator=make), dim=-1)
    written = frames[:, :1].expand(-1, shape.windows, -1)
    read = OnScreen(written, torch.ones(written.shape[:2], dtype=torch.bool), torch.ones(written.shape[:2]))
    return VideoBatch(
        ids=tuple(map(str, range(_COUNTED))),
        frames=frames,
        frame_mask=torch.ones(frames.shape[:2], dtype=torch.bool),
        times_s=torch.arange(shape.frames).expand(frames.shape[:2]).float(),
        on_screen=read if windows else None,
    )


# Time of an epoch -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EpochTime:
    captions: int  # number of training captions
    steps: float  # optimiser steps of an epoch; need not be whole where batches are accumulated
    seconds: float  # duration of an epoch, without evaluation and writing


@dataclass(frozen=True)
class Times:
    alone: EpochTime  # duration of an epoch of one training on all clips
    members: tuple[EpochTime, ...]  # duration of an epoch of each member; empty without members

    @property
    def in_turn_s(self) -> float:
        return sum(one.seconds for one in self.members)

    @property
    def at_once_s(self) -> float:
        return max((one.seconds for one in self.members), default=0.0)


def measured_times(
    recipe: Recipe, material: TrainingInputs, folder: Path, progress: Progress = lambda share: None
) -> Times:
    """Measure the duration of an epoch by training for a few steps, as `evenreel train` does."""
    runs, members = [whole_run(recipe, material)], recipe.members
    if members is not None:
        apart = member_runs(recipe, members, material)[0]
        runs += apart if members.only is None else apart[members.only - 1 : members.only]
    times = []
    for number, run in enumerate(runs):
        times.append(_epoch(run.recipe, run.material, folder / str(number)))
        progress((number + 1) / len(runs))
    return Times(times[0], tuple(times[1:]))


def _epoch(recipe: Recipe, material: TrainingInputs, folder: Path) -> EpochTime:
    steps = WARM_UP_STEPS + STEPS
    short = replace(
        recipe,
        loop=replace(recipe.loop, epochs=None, steps=steps),
        records=Records(every_steps=steps, save_every_steps=steps, tensorboard=False),
        selection=replace(recipe.selection, every_steps=steps),
    )
    moments: list[float] = []

    def watch(step: int, of: int, figures: Mapping[str, float]) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        moments.append(time.perf_counter())

    train_recipe(short, material, folder, RunHooks(watch=watch))
    captions = len(material.examples.pairs)
    per_epoch = plan_of(recipe, captions // recipe.loop.batch_size).steps_per_epoch
    step_s = median(after - before for before, after in pairwise(moments[WARM_UP_STEPS - 1 :]))
    return EpochTime(captions, per_epoch, step_s * per_epoch)
