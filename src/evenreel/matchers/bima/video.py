"""Attention of frames to the scene elements of their video: BiMa's visual half (arXiv 2506.03589, 3.1 and 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.features.shards import unseal
from evenreel.matchers.adapter import identity
from evenreel.similarity.scene_elements import Selected, aggregate, select

KINDS = ("entities", "activities")


@dataclass(frozen=True)
class SceneSettings:
    """Sizes and switches of the attention to scene elements.

    Attributes:
        entities: N_e, number of entities in the dictionary.
        activities: N_a, number of activities in the dictionary.
        kappa: number of phrases of each kind that are selected for a video.
        g: weight of entities; None for that of equation 4.
        residual: add the result of attention to the frames, both normalised before; else replace the frames by it, as
            the paper prints it.
    """

    entities: int
    activities: int
    kappa: int = 20
    g: float | None = None
    residual: bool = True


class ElementAttention(NamedTuple):
    """Attention of frames to the scene elements of their video.

    Attributes:
        weights: (V, T, k), summing to one over the elements of a video; rows of padding are to be ignored.
        entity_places: (V, k) dictionary index of the entity in each element; width 0 where there are none.
        activity_places: (V, k) dictionary index of the activity in each element; width 0 where there are none.
    """

    weights: Tensor
    entity_places: Tensor
    activity_places: Tensor


class SceneElements(nn.Module):
    """Attention of frames to the scene elements of their video, with one head of width D.

    Queries and keys start as the identity, so that frames first attend to what the tower finds most similar. Values
    start at zero where they are added to the frames, else as the identity. The elements are not trained.
    """

    entities: Tensor
    activities: Tensor

    def __init__(self, dimension: int, settings: SceneSettings) -> None:
        super().__init__()
        self.settings = settings
        self.scale = math.sqrt(dimension)
        self.query, self.key, self.value = (identity(dimension) for _ in range(3))
        if settings.residual:
            nn.init.zeros_(self.value.weight)
        self.frame_norm, self.element_norm = (
            nn.LayerNorm(dimension) if settings.residual else nn.Identity() for _ in range(2)
        )
        for kind in KINDS:  # of no meaning until `read` or a checkpoint brings those of the dictionary
            phrases = torch.randn(getattr(settings, kind), dimension)
            self.register_buffer(kind, F.normalize(phrases, dim=-1))

    def forward(self, frames: Tensor, frame_mask: Tensor, seen: Tensor) -> Tensor:
        """Compute the frames after attention to the scene elements of their video (section 3.2, unnumbered equation).

        Args:
            frames: (V, T, D), rows of unit length.
            frame_mask: (V, T) True = real.
            seen: (V, D) mean frame of each video, in the space of the phrases.

        Returns:
            (V, T, D), rows of unit length, zero where there is no frame.
        """
        given, elements = self.frame_norm(self.scale * frames), self._elements(self.selected(seen))
        found = self._weights(given, elements) @ self.value(elements)
        mixed = self.scale * frames + found if self.settings.residual else found
        return F.normalize(mixed, dim=-1).masked_fill(~frame_mask[..., None], 0.0)

    def attention(self, frames: Tensor, seen: Tensor) -> ElementAttention:
        """Compute the attention of frames to the scene elements of their video.

        Args:
            frames: (V, T, D), rows of unit length.
            seen: (V, D) mean frame of each video, in the space of the phrases.
        """
        selected = self.selected(seen)
        weights = self._weights(self.frame_norm(self.scale * frames), self._elements(selected))
        return ElementAttention(weights, selected.entity_places, selected.activity_places)

    def selected(self, seen: Tensor) -> Selected:
        """Select the dictionary phrases most similar to each video's mean frame (V, D)."""
        return select(seen, self.entities, self.activities, self.settings.kappa)

    @torch.no_grad()
    def read(self, path: Path) -> None:
        """Load the vectors of the dictionary's phrases from a file that `evenreel elements` wrote.

        Raises:
            UsageError: the file cannot be read, or is of another dictionary or encoder.
        """
        try:
            arrays, _ = unseal(path.read_bytes())
        except Exception as error:  # a damaged header can fail in any way in the parser
            raise UsageError(
                f"The vectors of scene elements in {path} cannot be read ({error}); make them again with "
                "`evenreel elements`."
            ) from error
        for kind in KINDS:
            own, given = getattr(self, kind), arrays.get(kind)
            if not len(own):
                continue
            if given is None or given.shape != own.shape:
                raise UsageError(
                    f"{path} has no vectors of length {own.shape[1]} for the {len(own):,} {kind} that frames are to "
                    "look at; make them again with `evenreel elements`, by the encoder of the features."
                )
            own.copy_(torch.from_numpy(given))

    def _elements(self, selected: Selected) -> Tensor:
        """(V, k, D) `c` of equation 5, entries of size one, normalised where frames are."""
        with torch.autocast(selected.entities.device.type, enabled=False):
            elements = self.scale * aggregate(selected, self.settings.g)
        normed: Tensor = self.element_norm(elements)
        return normed

    def _weights(self, frames: Tensor, elements: Tensor) -> Tensor:
        """(V, T, k)."""
        weights: Tensor = (self.query(frames) @ self.key(elements).mT / self.scale).softmax(-1)
        return weights
