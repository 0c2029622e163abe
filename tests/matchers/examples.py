"""Small random captions and videos, and matchers whose parameters are not those they start with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.matchers import PairBatch, TextBatch, VideoBatch, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import with_tensors
from evenreel.types import OnScreen, RoleGraph, RoleNode, TextFeatures, VideoFeatures

DIMENSION = 16
WORDS = (5, 2, 4, 1, 3)
FRAMES = (4, 3, 1, 4, 2)
KNOWN = ("a", "ball", "dog", "red", "throws", "to")
SETTINGS: dict[str, dict[str, Any]] = {
    "temporal": {"layers": 2, "heads": 2, "max_frames": 12},
    "x_clip": {"temporal_layers": 1, "heads": 2, "max_words": 12},
    "t_mass": {"trials": 5},
    "hgr": {"size": 12, "word_size": 6, "vocabulary": KNOWN},
    "bima": {
        "entities": ("a ball", "a dog", "two men", "grass"),
        "activities": ("throwing", "running", "sleeping", "jumping", "singing"),
        "kappa": 3,
        "vocabulary": KNOWN,
        "max_words": 6,
        "decoder_layers": 1,
        "heads": 2,
    },
    "tcd": {"heads": 2, "max_frames": 12},
}
"""What keeps the matchers small; one without a line has its defaults."""


ADAPTERS = {"linear": AdapterSettings(), "mlp": AdapterSettings(kind="mlp"), "windows": AdapterSettings(windows=True)}


def captions(lengths: tuple[int, ...] = WORDS, seed: int = 0, dtype: torch.dtype = torch.float32) -> TextBatch:
    """Random words of any length and random sentences of unit length."""
    make = torch.Generator().manual_seed(seed)
    words = torch.randn(len(lengths), max(lengths), DIMENSION, generator=make).to(dtype)
    mask = _mask(lengths)
    return TextBatch(
        ids=tuple(f"caption{row}" for row in range(len(lengths))),
        words=words.masked_fill(~mask[..., None], 0.0),
        word_mask=mask,
        sentence=_unit(len(lengths), DIMENSION, make=make, dtype=dtype),
        graphs=tuple(graph(length, seed + row) for row, length in enumerate(lengths)),
    )


def graph(length: int, seed: int = 0) -> RoleGraph:
    """A caption of so many words, each a thing; the first, where there are several, is done with all but the last."""
    make = torch.Generator().manual_seed(seed)
    words = [KNOWN[int(place)] for place in torch.randint(len(KNOWN), (length,), generator=make)]
    roles = ("V", "ARG1", "ARG0", "ARGM-LOC", "NOUN") if length > 1 else ("NOUN",)
    nodes = tuple(RoleNode(roles[min(place, len(roles) - 1)], (place,)) for place in range(length))
    return RoleGraph((*words[:-1], "unheard"), nodes, tuple((0, place) for place in range(1, length - 1)))


def text_rows(text: TextBatch, rows: list[int]) -> TextBatch:
    """Some of the captions, in this order."""
    tensors = (tensor[rows] for tensor in (text.words, text.word_mask, text.sentence))
    graphs = text.graphs or ()
    return TextBatch(tuple(text.ids[row] for row in rows), *tensors, graphs=tuple(graphs[row] for row in rows))


def videos(lengths: tuple[int, ...] = FRAMES, seed: int = 1, dtype: torch.dtype = torch.float32) -> VideoBatch:
    """Random frames of unit length, a second apart."""
    make = torch.Generator().manual_seed(seed)
    mask = _mask(lengths)
    frames = _unit(len(lengths), max(lengths), DIMENSION, make=make, dtype=dtype)
    return VideoBatch(
        ids=tuple(f"video{row}" for row in range(len(lengths))),
        frames=frames.masked_fill(~mask[..., None], 0.0),
        frame_mask=mask,
        times_s=torch.arange(float(max(lengths))).expand(mask.shape) * mask,
    )


def read_videos(video: VideoBatch, lengths: tuple[int, ...] = (2, 0, 1, 2, 0), seed: int = 2) -> VideoBatch:
    """The videos, five at most, with on-screen windows, which need not be there."""
    make = torch.Generator().manual_seed(seed)
    mask = _mask(lengths)[: len(video.ids)]
    windows = _unit(*mask.shape, DIMENSION, make=make, dtype=video.frames.dtype)
    return replace(video, on_screen=OnScreen(windows.masked_fill(~mask[..., None], 0.0), mask))


def video_rows(video: VideoBatch, rows: list[int]) -> VideoBatch:
    """Some of the videos, in this order."""
    return replace(with_tensors(video, lambda tensor: tensor[rows]), ids=tuple(video.ids[row] for row in rows))


def text_features(text: TextBatch) -> TextFeatures:
    """The captions as they lie on disk."""
    return TextFeatures(text.ids, text.words.numpy(), text.word_mask.numpy(), text.sentence.numpy(), text.graphs)


def video_features(video: VideoBatch) -> VideoFeatures:
    """The videos as they lie on disk."""
    on_screen = None if video.on_screen is None else video.on_screen.mapped(Tensor.numpy)
    times_s = video.times_s.double().numpy()
    return VideoFeatures(video.ids, video.frames.numpy(), video.frame_mask.numpy(), times_s, on_screen)


def pairs(text: TextBatch, video: VideoBatch) -> PairBatch:
    """Caption i with video i, no caption of which describes another."""
    texts = None if text.graphs is None else tuple(" ".join(graph.words) for graph in text.graphs)
    return PairBatch(text, video, torch.eye(len(text.ids), dtype=torch.bool), texts=texts)


def small(name: str, **settings: Any) -> Any:
    """A matcher as it starts, or behind adapters where the name says so: `mean_pool+linear`, `wti+windows`."""
    torch.manual_seed(0)
    matcher, _, kind = name.partition("+")
    built = build_matcher(matcher, DIMENSION, SETTINGS.get(matcher, {}) | settings)
    return Adapted(built, DIMENSION, ADAPTERS[kind]) if kind else built


def trained(name: str, size: float = 0.1, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    """A matcher in evaluation mode, none of whose parameters is what it starts with."""
    return disturb(small(name, **settings), size).to(dtype).eval()


def disturb(module: Any, size: float = 0.1) -> Any:
    """Add noise to every parameter."""
    make = torch.Generator().manual_seed(7)
    assert isinstance(module, nn.Module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=make))
    return module


def scores_of(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    """Similarities of a matcher, (Q, V)."""
    with torch.inference_mode():
        scores: Tensor = matcher.score(matcher.encode_text(text), matcher.encode_video(video))
    return scores


def _mask(lengths: tuple[int, ...]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def _unit(*shape: int, make: torch.Generator, dtype: torch.dtype) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=make).to(dtype), dim=-1)
