"""Edits of a planted corpus that change one thing in its clips or captions and leave everything else as it was.

Replacements are independent of everything else: another background, shape, activity or annotator is drawn at random, so
that an edited clip is as likely as any other of the test split. Misleading signs and voices say what a caption of
another clip names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from zlib import crc32

import numpy as np

from evenreel.corpus.counterparts import OVERLAY, OVERLAYS, VOICEOVER, VOICEOVERS, assign_distractors
from evenreel.errors import UsageError
from evenreel.language.wording import SOMETHING, babbled, scrambled
from evenreel.planted.biases import Sentence
from evenreel.planted.plan import PlantedClip, PlantedCorpus, Split
from evenreel.planted.scenes import Part, Scene, SignBoard, any_of
from evenreel.planted.vocabulary import activities, backgrounds, colours, habits_beside, shapes
from evenreel.planted.voices import SpokenSentence
from evenreel.speech.synthesis import VOICES

_SIGNS, _VOICES = 1_000, 2_000
"""Set the streams of these draws apart from those of other edits."""

_PLAIN = SignBoard("")
"""Look of the sign on a clip whose own word is said, not written."""


def overlaid(plan: PlantedCorpus, edit: str) -> tuple[PlantedClip, ...]:
    """Return the test clips with a second, misleading sign, shown throughout at the other edge of the picture.

    `edit` is one of `evenreel.corpus.counterparts.OVERLAYS`.
    """
    distractors, random, clips = overlay_distractors(plan), np.random.default_rng([plan.seed, _SIGNS, 1]), []
    for clip in plan.split("test"):
        scene, word = clip.scene, _named_word(distractors[clip.clip_id])
        own = scene.signs[0] if scene.signs else _PLAIN
        text = word if edit == OVERLAY else scrambled(word, random)
        sign = replace(own, text=text, y=1 - own.y, start_s=0.0, end_s=inf)
        shot = replace(clip.shot, scene=replace(scene, signs=(*scene.signs, sign)))
        clips.append(replace(clip, shot=shot))
    return tuple(clips)


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

    dealt = assign_distractors([*by_id], able, fits, np.random.default_rng([plan.seed, _SIGNS]))
    return {carrier: by_id[distractor] for carrier, distractor in dealt.items()}


def _named_word(clip: PlantedClip) -> str:
    return clip.shot.named_word or ""


def _group_id(clip: PlantedClip) -> str:
    return clip.clip_id.rpartition("_")[0]


def _appearance(clip: PlantedClip) -> tuple[str, str]:
    """What captions of `scene_text` name beside the word."""
    return clip.scene.subject.colour, clip.scene.background


def voiced_over(plan: PlantedCorpus, edit: str) -> tuple[PlantedClip, ...]:
    """Return the test clips with a misleading voice, after what they say themselves.

    By the edit `voiceover` it says the first caption of another clip, by `voiceover-control` syllables in its place.
    """
    clips, distractors = plan.split("test"), voiceover_distractors(plan)
    voices, letters = (np.random.default_rng([plan.seed, _VOICES, stream]) for stream in (1, 2))
    voiced = []
    for clip in clips:
        text, voice = distractors[clip.clip_id].shot.captions[0].text, any_of(voices, VOICES)
        said = SpokenSentence(text if edit == VOICEOVER else babbled(text, letters), voice)
        scene = replace(clip.scene, spoken=(*clip.scene.spoken, said))
        voiced.append(replace(clip, shot=replace(clip.shot, scene=scene)))
    return tuple(voiced)


def voiceover_distractors(plan: PlantedCorpus) -> Mapping[str, PlantedClip]:
    """Assign each test clip the clip (distractor) whose first caption is said over it, by clip id.

    Something that the caption names and that is seen is otherwise in the clip, so that it never becomes an answer.
    """
    by_id = {clip.clip_id: clip for clip in plan.split("test")}

    def fits(carrier: str, distractor: str) -> bool:
        own, other = (by_id[name].scene.attributes for name in (carrier, distractor))
        names = by_id[distractor].shot.captions[0].names
        return any(own[name] != other[name] for name in names if name in own)

    dealt = assign_distractors([*by_id], [*by_id], fits, np.random.default_rng([plan.seed, _VOICES]))
    return {carrier: by_id[distractor] for carrier, distractor in dealt.items()}


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
        scenes = [CLIP_EDITS[edit](clip.scene, _chance(plan.seed, edit, clip.clip_id)) for clip in clips]
        shown = [replace(one, shot=replace(one.shot, scene=each)) for one, each in zip(clips, scenes, strict=True)]
        return replace(plan, clips=tuple(shown))
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
        field, distractors = LENDING[edit]
        lent = distractors(plan)
        clips = (replace(clip, **{field: lent[clip.clip_id].clip_id}) for clip in plan.split("test"))  # type: ignore[arg-type]
        return replace(plan, clips=tuple(clips))
    changes_clips = edit in CLIP_EDITS or edit in MISLEADING
    return replace(plan, clips=plan.split("test")) if changes_clips else edited(plan, edit)


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


def _swap_entity(scene: Scene, random: np.random.Generator) -> Scene:
    """Another shape in another colour, where it was."""
    subject = scene.subject
    shape = _another(random, shapes(), subject.shape)
    colour = _another(random, tuple(colours()), subject.colour)
    return replace(scene, entities=(replace(subject, shape=shape, colour=colour), *scene.entities[1:]))


def _leave_out(part: Part) -> Callable[[Scene, np.random.Generator], Scene]:
    return lambda scene, _: replace(scene, without=scene.without | {part})


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


def _swap_style(caption: Sentence, random: np.random.Generator, _: Sentence) -> Sentence:
    own = _annotator(caption)
    return _write_as_annotator(caption, random, _another(random, tuple(habits_beside(own)), own))


CLIP_EDITS: dict[str, Callable[[Scene, np.random.Generator], Scene]] = {
    "background-swapped": lambda scene, random: replace(
        scene, background=_another(random, tuple(backgrounds()), scene.background)
    ),
    "background-removed": _leave_out("background"),
    "entity-swapped": _swap_entity,
    "entity-removed": _leave_out("entity"),
    "motion-swapped": lambda scene, random: replace(
        scene, activity=_another(random, tuple(activities()), scene.activity)
    ),
    "motion-removed": _leave_out("motion"),
    "control": lambda scene, random: replace(scene, seed=int(random.integers(2**32))),
}
"""What becomes of a scene, by the name of the edit."""

CAPTION_EDITS: dict[str, Callable[[Sentence, np.random.Generator, Sentence], Sentence]] = {
    "style-removed": lambda caption, _, __: replace(caption, text=_parts(caption)[1]),
    "style-swapped": _swap_style,
    "content-removed": lambda caption, _, __: _replace_content(caption, SOMETHING),
    "content-swapped": lambda caption, _, other: _replace_content(caption, _parts(other)[1]),
    "caption-control": lambda caption, random, _: _write_as_annotator(caption, random, _annotator(caption)),
}
"""What becomes of a caption, by the name of the edit; it may borrow of one of another clip."""

MISLEADING: dict[str, Callable[[PlantedCorpus, str], tuple[PlantedClip, ...]]] = {
    **dict.fromkeys(OVERLAYS, overlaid),
    **dict.fromkeys(VOICEOVERS, voiced_over),
}
"""Test clips with misleading words on a sign or in a voice, or their control, by the name of the edit."""

LENDING: dict[str, tuple[str, Callable[[PlantedCorpus], Mapping[str, PlantedClip]]]] = {
    OVERLAY: ("overlay_of", overlay_distractors),
    VOICEOVER: ("voiceover_of", voiceover_distractors),
}
"""The field of a clip that has the id of the clip that lends it words, and all that lend, by the name of the edit."""
