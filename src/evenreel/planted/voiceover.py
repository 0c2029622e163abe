"""Misleading voices in planted test clips: each says a caption of a clip that shows something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenreel.corpus.counterparts import VOICEOVER, assign_distractors
from evenreel.language.wording import babbled
from evenreel.planted.captions import any_of
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.voices import SpokenSentence
from evenreel.speech.synthesis import VOICES

_SEED = 2_000
"""Sets the stream of these draws apart from those of other edits."""


def voiced_over(plan: PlantedCorpus, edit: str) -> tuple[PlantedClip, ...]:
    """Return the test clips with a misleading voice, after what they say themselves.

    Args:
        plan: planned corpus of any bias.
        edit: `voiceover`: the first caption of another clip is said; `voiceover-control`: syllables in its place.
    """
    clips, distractors = plan.split("test"), voiceover_distractors(plan)
    voices, letters = (np.random.default_rng([plan.seed, _SEED, stream]) for stream in (1, 2))
    voiced = []
    for clip in clips:
        text, voice = distractors[clip.clip_id].shot.captions[0].text, any_of(voices, VOICES)
        said = SpokenSentence(text if edit == VOICEOVER else babbled(text, letters), voice)
        scene = replace(clip.scene, spoken=(*clip.scene.spoken, said))
        voiced.append(replace(clip, shot=replace(clip.shot, scene=scene)))
    return tuple(voiced)


def marked_by_voice(plan: PlantedCorpus) -> tuple[PlantedClip, ...]:
    """Return the test clips as they are, each with the id of the clip whose caption would be said over it."""
    distractors = voiceover_distractors(plan)
    return tuple(replace(clip, voiceover_of=distractors[clip.clip_id].clip_id) for clip in plan.split("test"))


def voiceover_distractors(plan: PlantedCorpus) -> Mapping[str, PlantedClip]:
    """Assign each test clip the clip (distractor) whose first caption is said over it, by clip id.

    Something that the caption names and that is seen is otherwise in the clip, so that it never becomes an answer.
    """
    by_id = {clip.clip_id: clip for clip in plan.split("test")}

    def fits(carrier: str, distractor: str) -> bool:
        own, other = (by_id[name].scene.attributes for name in (carrier, distractor))
        names = by_id[distractor].shot.captions[0].names
        return any(own[name] != other[name] for name in names if name in own)

    dealt = assign_distractors([*by_id], [*by_id], fits, np.random.default_rng([plan.seed, _SEED]))
    return {carrier: by_id[distractor] for carrier, distractor in dealt.items()}
