"""Scene elements of videos: the dictionary phrases most similar to their frames, and the sum of these.

BiMa (arXiv 2506.03589), section 3.1: selection, balance (equation 4) and aggregation (equation 5).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Selected(NamedTuple):
    """Dictionary phrases most similar to each video, the most similar first.

    Attributes:
        entities: (V, k, D), rows of unit length; k is 0 where the dictionary has none.
        activities: (V, k, D), rows of unit length; k is 0 where the dictionary has none.
        entity_places: (V, k) rows of the entities in the dictionary.
        activity_places: (V, k) rows of the activities in the dictionary.
    """

    entities: Tensor
    activities: Tensor
    entity_places: Tensor
    activity_places: Tensor


def select(seen: Tensor, entities: Tensor, activities: Tensor, kappa: int) -> Selected:
    """Select the kappa entities and activities of greatest cosine with each video; of equal ones the first.

    Equation 5 adds entities and activities in pairs, so where both lists have any, no more of each are selected than
    the shorter list has. Computed without gradients, and in full precision under autocast.

    Args:
        seen: (V, D) mean frame of each video, of any length.
        entities: (N_e, D), rows of unit length.
        activities: (N_a, D), rows of unit length.
        kappa: number of each to select.
    """
    count = min([kappa, *(len(phrases) for phrases in (entities, activities) if len(phrases))])
    with torch.no_grad(), torch.autocast(seen.device.type, enabled=False):
        unit = F.normalize(seen.to(entities.dtype), dim=-1)
        entity_places, activity_places = _nearest(unit, entities, count), _nearest(unit, activities, count)
    return Selected(entities[entity_places], activities[activity_places], entity_places, activity_places)


def balance(entities: Tensor, activities: Tensor) -> Tensor:
    """Compute how unlike the entities (V, k, D) the activities (V, k, D) are: (V,) from 0, alike, to 2.

    `g = 1 - 1/k sum_l max_j cos(a_l, e_j)` (equation 4).

    >>> up, right = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 0.0]]])
    >>> [balance(up, other).item() for other in (up, right, -up)]
    [0.0, 1.0, 2.0]
    """
    alike = F.normalize(activities, dim=-1) @ F.normalize(entities, dim=-1).mT
    return 1 - alike.amax(-1).mean(-1)


def aggregate(selected: Selected, g: float | None = None) -> Tensor:
    """Combine selected phrases to (V, k, D): `c_l = a_l + g e_l` (equation 5), or the one kind that was selected.

    Args:
        selected: entities and activities of V videos.
        g: weight of entities for all videos; None for each video's own, by equation 4.
    """
    entities, activities = selected.entities, selected.activities
    if not entities.shape[1]:
        return activities
    if not activities.shape[1]:
        return entities
    if g is not None:
        return activities + g * entities
    return activities + balance(entities, activities)[:, None, None] * entities


def _nearest(unit: Tensor, phrases: Tensor, count: int) -> Tensor:
    """(V, k) rows of the dictionary."""
    return (unit @ phrases.T).sort(dim=1, descending=True, stable=True).indices[:, :count]
