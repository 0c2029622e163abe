"""What is learned from where someone knows the cause that was planted in rendered videos: a reference for each bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numpy.random import default_rng

from evenreel.planted import PlantedClip, PlantedCorpus, edited, plan_corpus
from evenreel.planted.domain import LOOKS, TARGET
from evenreel.planted.plan import SPLITS
from evenreel.planted.vocabulary import backgrounds

OTHER = 1_000
"""Added to the seed of what is drawn anew."""


def learning(plan: PlantedCorpus, change: Callable[[PlantedClip], PlantedClip]) -> PlantedCorpus:
    """A plan with its training and validation clips changed."""
    clips = tuple(clip if clip.split == "test" else change(clip) for clip in plan.clips)
    return replace(plan, clips=clips)


def without_partners(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from before backgrounds drawn anew, all with the same probability."""
    swapped = {
        clip.clip_id: clip for split in ("train", "val") for clip in edited(plan, "background-swapped", split).clips
    }
    rng, own = default_rng([plan.seed, OTHER]), 1 / len(backgrounds())
    return learning(plan, lambda clip: clip if rng.random() < own else swapped[clip.clip_id])


def without_wording(plan: PlantedCorpus) -> PlantedCorpus:
    """All captions without what their annotators put around them, in training and in search."""
    bare = [clip for split in SPLITS for clip in edited(plan, "style-removed", split).clips]
    return replace(plan, clips=tuple(bare))


def with_other_lengths(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from with the lengths of other clips, whose activities do not say how long they are."""
    others = plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed + OTHER, plan.settings).clips
    lengths_s = {clip.clip_id: other.scene.duration_s for clip, other in zip(plan.clips, others, strict=True)}

    def change(clip: PlantedClip) -> PlantedClip:
        scene = replace(clip.scene, duration_s=lengths_s[clip.clip_id])
        return replace(clip, shot=replace(clip.shot, scene=scene))

    return learning(plan, change)


def with_drawn_sources(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from as the camera shows them or as the generator does, by a coin."""
    sides = [
        plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed, replace(plan.settings, generated_share=share)).clips
        for share in (0.0, 1.0)
    ]
    rng = default_rng([plan.seed, OTHER])
    return replace(
        plan,
        clips=tuple(
            pair[int(rng.integers(2))] if pair[0].split != "test" else pair[0] for pair in zip(*sides, strict=True)
        ),
    )


def as_the_target_looks(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from as the target's camera shows them, with the words and company of the source."""

    def change(clip: PlantedClip) -> PlantedClip:
        return replace(clip, shot=replace(clip.shot, scene=replace(clip.scene, look=LOOKS[TARGET])))

    return learning(plan, change)


def with_true_words(plan: PlantedCorpus) -> PlantedCorpus:
    """All clips with signs that are read as they are, in training and in search."""
    clips = []
    for clip in plan.clips:
        signs = tuple(replace(sign, misread=0.0) for sign in clip.scene.signs)
        clips.append(replace(clip, shot=replace(clip.shot, scene=replace(clip.scene, signs=signs))))
    return replace(plan, clips=tuple(clips))


def elsewhere(plan: PlantedCorpus) -> PlantedCorpus:
    """Other clips to learn from, in which nothing is planted: the reference of a bias that has none of its own."""
    others = plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed + OTHER, plan.settings).clips
    clips = [clip for clip in others if clip.split != "test"] + list(plan.split("test"))
    return replace(plan, clips=tuple(clips))


REFERENCES: dict[str, Callable[[PlantedCorpus], PlantedCorpus]] = {
    "visual": without_partners,
    "textual": without_wording,
    "length": with_other_lengths,
    "source": with_drawn_sources,
    "domain": as_the_target_looks,
    "scene_text": with_true_words,
}
"""What is learned from where someone knows the cause that was planted."""
