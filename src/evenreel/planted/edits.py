"""Edits of a planted corpus that change one thing in its clips or captions and leave everything else as it was.

Replacements are independent of everything else: another background, shape, activity or annotator is drawn at random, so
that an edited clip is as likely as any other of the test split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from zlib import crc32

import numpy as np

from evenreel.corpus.counterparts import OVERLAY, OVERLAYS, VOICEOVER, VOICEOVERS
from evenreel.errors import UsageError
from evenreel.language.wording import SOMETHING
from evenreel.planted.captions import any_of
from evenreel.planted.overlay import marked, overlaid
from evenreel.planted.plan import PlantedClip, PlantedCorpus, Split
from evenreel.planted.scenes import Part, Scene
from evenreel.planted.shots import Sentence
from evenreel.planted.vocabulary import activities, backgrounds, colours, habits_beside, shapes
from evenreel.planted.voiceover import marked_by_voice, voiced_over

_SEEDS = 2**32


def edited(plan: PlantedCorpus, edit: str, split: Split = "test") -> PlantedCorpus:
    """Return one split of a planned corpus after an edit; ids stay, so that scores before and after are comparable.

    Args:
        plan: planned corpus of any bias for edits of clips (`CLIP_EDITS`), of `textual` for those of captions
            (`CAPTION_EDITS`), of `scene_text` for misleading signs (`OVERLAYS`), of any for voices (`VOICEOVERS`).
        edit: name of the edit. `control` renders a clip's scene with another seed: other places of things in the
            background, another shake of the camera. `caption-control` rewrites a caption by another habit of its own
            annotator.
        split: split to edit and return; misleading signs and voices are for the test split.

    Raises:
        CorpusError: clips are too similar for the words of one to mislead on another.
        UsageError: there is no such edit of that split, or the captions have no annotators, or name no word.
    """
    clips = plan.split(split)
    if edit in MISLEADING:
        if split != "test":
            raise UsageError(f"The edit {edit!r} gives the clips of the test split misleading words, not of {split!r}.")
        return replace(plan, clips=MISLEADING[edit](plan, edit))
    if edit in CLIP_EDITS:
        return replace(plan, clips=tuple(_with_scene(clip, edit, plan.seed) for clip in clips))
    if edit not in CAPTION_EDITS:
        known = ", ".join((*CLIP_EDITS, *MISLEADING, *CAPTION_EDITS))
        raise UsageError(f"{edit!r} is no edit of planted corpora; there are: {known}.")
    if any(caption.annotator is None for clip in clips for caption in clip.shot.captions):
        raise UsageError(
            f"The edit {edit!r} changes what annotators write, and captions of {plan.bias!r} have none; take 'textual'."
        )
    return replace(plan, clips=tuple(_with_captions(clip, clips, edit, plan.seed) for clip in clips))


def described(plan: PlantedCorpus, edit: str) -> PlantedCorpus:
    """Return the test split as the tables of an edited corpus describe it: new captions, but clips before the edit.

    Raises:
        CorpusError: clips are too similar for the words of one to mislead on another.
        UsageError: there is no such edit of such a corpus.
    """
    if edit in LENDING:
        return replace(plan, clips=LENDING[edit](plan))
    changes_clips = edit in CLIP_EDITS or edit in MISLEADING
    return replace(plan, clips=plan.split("test")) if changes_clips else edited(plan, edit)


def _with_scene(clip: PlantedClip, edit: str, seed: int) -> PlantedClip:
    scene = CLIP_EDITS[edit](clip.scene, _chance(seed, edit, clip.clip_id))
    return replace(clip, shot=replace(clip.shot, scene=scene))


def _with_captions(clip: PlantedClip, clips: Sequence[PlantedClip], edit: str, seed: int) -> PlantedClip:
    random = _chance(seed, edit, clip.clip_id)
    others = [other for other in clips if other.clip_id != clip.clip_id]
    other = others[int(random.integers(len(others)))] if others else clip
    captions = tuple(
        CAPTION_EDITS[edit](caption, random, any_of(random, other.shot.captions)) for caption in clip.shot.captions
    )
    return replace(clip, shot=replace(clip.shot, captions=captions))


def _chance(seed: int, edit: str, clip_id: str) -> np.random.Generator:
    return np.random.default_rng([seed, crc32(f"{edit} {clip_id}".encode())])


def _another(random: np.random.Generator, names: Sequence[str], own: str) -> str:
    return any_of(random, [name for name in names if name != own])


def _swap_background(scene: Scene, random: np.random.Generator) -> Scene:
    return replace(scene, background=_another(random, tuple(backgrounds()), scene.background))


def _swap_entity(scene: Scene, random: np.random.Generator) -> Scene:
    """Another shape in another colour, where it was."""
    subject = scene.subject
    shape = _another(random, shapes(), subject.shape)
    colour = _another(random, tuple(colours()), subject.colour)
    return replace(scene, entities=(replace(subject, shape=shape, colour=colour), *scene.entities[1:]))


def _swap_motion(scene: Scene, random: np.random.Generator) -> Scene:
    return replace(scene, activity=_another(random, tuple(activities()), scene.activity))


def _leave_out(scene: Scene, _: np.random.Generator, part: Part) -> Scene:
    return replace(scene, without=scene.without | {part})


def _take_again(scene: Scene, random: np.random.Generator) -> Scene:
    return replace(scene, seed=int(random.integers(_SEEDS)))


def _parts(caption: Sentence) -> tuple[str, str, str]:
    """What stands before the content, the content, and what stands after it."""
    for habit in habits_beside(_annotator(caption)).get(_annotator(caption), ()):
        before, after = habit.split("{caption}")
        if caption.text.startswith(before) and caption.text.endswith(after):
            return before, caption.text[len(before) : len(caption.text) - len(after)], after
    raise UsageError(f"The caption {caption.text!r} is in no habit of {caption.annotator!r}; plan the corpus anew.")


def _annotator(caption: Sentence) -> str:
    return caption.annotator or ""


def _replace_content(caption: Sentence, content: str) -> Sentence:
    before, _, after = _parts(caption)
    return replace(caption, text=f"{before}{content}{after}")


def _write_as_annotator(caption: Sentence, random: np.random.Generator, annotator: str) -> Sentence:
    """In another habit, of the same annotator or of another."""
    before, content, after = _parts(caption)
    habit = _another(random, habits_beside(annotator)[annotator], f"{before}{{caption}}{after}")
    return replace(caption, text=habit.format(caption=content), annotator=annotator)


def _remove_style(caption: Sentence, _: np.random.Generator, __: Sentence) -> Sentence:
    return replace(caption, text=_parts(caption)[1])


def _swap_style(caption: Sentence, random: np.random.Generator, _: Sentence) -> Sentence:
    own = _annotator(caption)
    return _write_as_annotator(caption, random, _another(random, tuple(habits_beside(own)), own))


def _remove_content(caption: Sentence, _: np.random.Generator, __: Sentence) -> Sentence:
    return _replace_content(caption, SOMETHING)


def _swap_content(caption: Sentence, _: np.random.Generator, other: Sentence) -> Sentence:
    return _replace_content(caption, _parts(other)[1])


def _write_again(caption: Sentence, random: np.random.Generator, _: Sentence) -> Sentence:
    return _write_as_annotator(caption, random, _annotator(caption))


CLIP_EDITS: dict[str, Callable[[Scene, np.random.Generator], Scene]] = {
    "background-swapped": _swap_background,
    "background-removed": partial(_leave_out, part="background"),
    "entity-swapped": _swap_entity,
    "entity-removed": partial(_leave_out, part="entity"),
    "motion-swapped": _swap_motion,
    "motion-removed": partial(_leave_out, part="motion"),
    "control": _take_again,
}
"""What becomes of a scene, by the name of the edit."""

CAPTION_EDITS: dict[str, Callable[[Sentence, np.random.Generator, Sentence], Sentence]] = {
    "style-removed": _remove_style,
    "style-swapped": _swap_style,
    "content-removed": _remove_content,
    "content-swapped": _swap_content,
    "caption-control": _write_again,
}
"""What becomes of a caption, by the name of the edit; it may borrow of one of another clip."""

MISLEADING: dict[str, Callable[[PlantedCorpus, str], tuple[PlantedClip, ...]]] = {
    **dict.fromkeys(OVERLAYS, overlaid),
    **dict.fromkeys(VOICEOVERS, voiced_over),
}
"""Test clips with misleading words on a sign or in a voice, or their control, by the name of the edit."""

LENDING: dict[str, Callable[[PlantedCorpus], tuple[PlantedClip, ...]]] = {
    OVERLAY: marked,
    VOICEOVER: marked_by_voice,
}
"""Test clips as they are, each with the id of the clip that lends it words, by the name of the edit."""
