"""Misleading signs on the test clips of `scene_text`: a second sign with a word that another clip's caption names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np

from evenreel.corpus.counterparts import OVERLAY, assign_distractors
from evenreel.errors import UsageError
from evenreel.language.wording import scrambled
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.scenes import SignBoard

_SEED = 1_000
"""Sets the stream of these draws apart from those of other edits."""

_PLAIN = SignBoard("")
"""Look of the sign on a clip whose own word is said, not written."""


def overlaid(plan: PlantedCorpus, edit: str) -> tuple[PlantedClip, ...]:
    """Return the test clips with a second, misleading sign, shown throughout at the other edge of the picture.

    Args:
        plan: planned corpus of `scene_text`, with captions that name a word.
        edit: name of the edit, one of `evenreel.corpus.counterparts.OVERLAYS`.
    """
    clips, distractors = plan.split("test"), overlay_distractors(plan)
    random = np.random.default_rng([plan.seed, _SEED, 1])
    words = [_named_word(distractors[clip.clip_id]) for clip in clips]
    said = words if edit == OVERLAY else [scrambled(word, random) for word in words]
    return tuple(_with_sign(clip, word) for clip, word in zip(clips, said, strict=True))


def marked(plan: PlantedCorpus) -> tuple[PlantedClip, ...]:
    """Return the test clips without overlays, each with the id of the clip whose word would be on its overlay."""
    distractors = overlay_distractors(plan)
    return tuple(replace(clip, overlay_of=distractors[clip.clip_id].clip_id) for clip in plan.split("test"))


def overlay_distractors(plan: PlantedCorpus) -> Mapping[str, PlantedClip]:
    """Assign each test clip the clip (distractor) whose word goes on its overlay, by clip id.

    The distractor has another colour or background, and no caption of the clip's own group names its word: so an
    overlay never makes a clip a right answer to captions of its distractor or its group.
    """
    by_id = {clip.clip_id: clip for clip in plan.split("test")}
    able = [name for name, clip in by_id.items() if any("word" in caption.names for caption in clip.shot.captions)]
    if not able:
        raise UsageError(
            f"An overlay says a word that another clip's caption names, and test captions of {plan.bias!r} at strength "
            f"{plan.strength:g} name none; take 'scene_text' at a strength above 0."
        )

    taken: dict[str, set[str]] = defaultdict(set)
    for name in able:
        taken[_group_id(by_id[name])].add(_named_word(by_id[name]))

    def fits(carrier: str, distractor: str) -> bool:
        own, other = by_id[carrier], by_id[distractor]
        told = {*own.shot.words, *taken[_group_id(own)]}
        return _appearance(own) != _appearance(other) and _named_word(other) not in told

    dealt = assign_distractors([*by_id], able, fits, np.random.default_rng([plan.seed, _SEED]))
    return {carrier: by_id[distractor] for carrier, distractor in dealt.items()}


def _with_sign(clip: PlantedClip, word: str) -> PlantedClip:
    scene = clip.scene
    own = scene.signs[0] if scene.signs else _PLAIN
    sign = replace(own, text=word, y=1 - own.y, start_s=0.0, end_s=inf)
    return replace(clip, shot=replace(clip.shot, scene=replace(scene, signs=(*scene.signs, sign))))


def _named_word(clip: PlantedClip) -> str:
    return clip.shot.named_word or ""


def _group_id(clip: PlantedClip) -> str:
    return clip.clip_id.rpartition("_")[0]


def _appearance(clip: PlantedClip) -> tuple[str, str]:
    """What captions of `scene_text` name beside the word."""
    return clip.scene.subject.colour, clip.scene.background
