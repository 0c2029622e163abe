"""TCD as its paper writes it (Zhao et al., AAAI 2026), for one caption and one clip, equation by equation.

Slow, and only here to be read beside the paper; the tests compare `evenreel.matchers.tcd.matcher.Tcd`, which scores all
pairs at once, with it. The modules and settings are those of a `Tcd`. T frames, O windows, vectors of length D.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.tcd.matcher import Tcd


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
    p, q = _alike(frames), _alike(windows)
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
    typed_v, typed_o = with_types(v, matcher.video_types), with_types(o, matcher.ocr_types)
    if own.fusion == "cross_attention":
        assert matcher.cross is not None
        found = multi_head_attention(matcher.cross.cross, typed_o, typed_v).mean(0)
        return o.mean(0) + found if own.residual else found
    clues = [hybrid_clue(matcher, "video", typed_v, typed_o)]
    if own.fusion == "clues":
        clues.append(hybrid_clue(matcher, "ocr", typed_o, typed_v))
    return torch.stack(clues).mean(0)  # equation 11


def with_types(rows: Tensor, types: Tensor) -> Tensor:
    """Add to each row (l, D) its type embedding, of its position or shared by all."""
    return torch.stack([row + types[min(place, len(types) - 1)] for place, row in enumerate(rows)])


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


def _alike(rows: Tensor) -> Tensor:
    return torch.full_like(rows[:, 0], 1 / len(rows))
