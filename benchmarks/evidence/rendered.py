"""Rendered worlds: planted videos seen through the built-in encoder, and words on their signs.

The wti matcher is trained behind a small adapter (`benchmarks/planted.py`). R@1 is the share of captions whose first
clip shows everything that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

from numpy.random import default_rng

from benchmarks.evidence.drawn import APART, WORDS, channel
from benchmarks.evidence.engine import (
    AGAIN,
    BARE,
    BASELINE,
    EVALUATIONS,
    HALF,
    NO_ADAPTER,
    ORACLE,
    OTHER,
    PLAIN_ROWS,
    REFERENCE,
    TWICE,
    Evidence,
    Model,
    Part,
    Place,
    Reading,
    Row,
    Size,
    SplitName,
    Trainings,
    World,
    by_untrained,
    told,
    variant,
)
from benchmarks.planted import BATCH, Sizes, Split, split_of
from benchmarks.planted import recipe as planted_recipe
from evenreel.encoders import load_encoder
from evenreel.language.bm25 import bm25_scores
from evenreel.matchers.tcd import PRINTED
from evenreel.papers.cells import Figures
from evenreel.planted import BIASES, BiasName, PlantedClip, PlantedCorpus, PlantSettings, edited, plan_corpus
from evenreel.planted.biases import LOOKS, TARGET, Harder
from evenreel.planted.features import on_screen_features, words_read
from evenreel.planted.plan import SPLITS
from evenreel.planted.vocabulary import backgrounds
from evenreel.training.recipe import MatcherChoice, Recipe, Selection
from evenreel.types import ScoreBlocks, VideoFeatures

ON_SIGNS = ", words on signs"
UNTRAINED = {"untrained, mean frame": "mean_pool", "untrained, tokens": "wti"}
"""Matchers that are read as they begin: the cosine with the mean frame, or of words and frames."""


class RenderedWorld(World):
    """The clips of a seed and strength, with features; told, without the cause that was planted.

    Args:
        plan: the clips.
        splits: train, validation and test split; None for those of the plan.
    """

    def __init__(self, plan: PlantedCorpus, splits: Sequence[Part] | None = None) -> None:
        self.plan = plan
        super().__init__(splits or [split_of(plan, name, load_encoder("builtin")) for name in SPLITS])

    @cached_property
    def told(self) -> World:
        """The world without the cause that was planted; of a task, with windows that hold what signs say."""
        plan = REFERENCES.get(self.plan.bias, elsewhere)(self.plan)
        if not BIASES[plan.bias].in_test:
            return RenderedWorld(plan)
        if plan == self.plan:
            return self
        parts = zip(SPLITS, (self.train, self.val, self.test), strict=True)
        return RenderedWorld(
            plan, [Split(one.corpus, one.texts, reread(one.videos, plan.split(name))) for name, one in parts]
        )

    def recipe(self, model: Model, place: Place) -> Recipe:
        """That of the planted benchmarks, selected on validation; small batches of few captions."""
        steps, seed = round(model.steps * place.size.steps), place.seed + OTHER * model.other
        plain = planted_recipe(self.plan.bias, seed, Sizes(place.size.clips, steps), model.windows)
        own = plain.matcher.settings
        if model.matcher not in (None, plain.matcher.name):
            own = {"temperature": own["temperature"]}
        asked = replace(
            plain,
            data=replace(plain.data, validation="val"),
            matcher=MatcherChoice(model.matcher or plain.matcher.name, {**own, **model.settings}),
            adapter=plain.adapter if model.adapter else BARE if model.windows else None,
            loop=replace(plain.loop, batch_size=min(BATCH, len(self.train.texts.ids))),
            selection=Selection("R@1", every_steps=max(1, steps // EVALUATIONS)),
        )
        return replace(asked, **model.changes)


def reread(videos: VideoFeatures, clips: Sequence[PlantedClip]) -> VideoFeatures:
    """The same pictures, with windows of what is read on the signs of clips that are planned otherwise."""
    windows = on_screen_features(clips, videos.times_s, videos.frame_mask, load_encoder("builtin"))
    return replace(videos, on_screen=windows)


def plan_of(bias: BiasName, place: Place, harder: Harder | None = None) -> PlantedCorpus:
    settings = PlantSettings(harder=harder or Harder())
    return plan_corpus(bias, place.strength, place.size.clips, place.seed, settings)


def admission_rows(bias: BiasName) -> dict[str, Row]:
    rows = {
        name: Row("untrained", "nothing is trained", steps=0, read=by_untrained(matcher, {}))
        for name, matcher in UNTRAINED.items()
    }
    baseline = {BASELINE: Row("baseline", "plain training of `wti` behind an adapter"), **PLAIN_ROWS}
    if not BIASES[bias].in_test:
        cause = Row("admission", "clips without the cause that was planted", uses="the cause", unavailable=True)
        return rows | baseline | {REFERENCE: replace(cause, model=Model(told=True))}
    on_signs = {
        f"{name}{ON_SIGNS}": replace(rows[name], read=told(by_untrained(matcher, {}, BARE)))
        for name, matcher in UNTRAINED.items()
    }
    oracle = Model(windows=True, told=True)
    words = Row(
        "admission", "the baseline with words on signs among the frames", uses="words", unavailable=True, model=oracle
    )
    changed = {HALF: replace(oracle, steps=0.5), TWICE: replace(oracle, steps=2.0)}
    changed[NO_ADAPTER] = replace(oracle, adapter=False)
    return {
        **rows, **on_signs, **baseline,
        ORACLE: words,
        **{variant(ORACLE, change): replace(words, model=model) for change, model in changed.items()},
        REFERENCE: replace(words, words="the oracle from another start", model=replace(oracle, other=1)),
        AGAIN: words,
    }  # fmt: skip


# What is learned from where someone knows the cause that was planted in rendered videos.


def learning(plan: PlantedCorpus, change: Callable[[PlantedClip], PlantedClip]) -> PlantedCorpus:
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


# Words on signs, a task: captions name one of them.
#
# The baseline is `wti` on frames alone. In the plain world windows hold the true words, so that the oracle is `wti`
# with windows among the frames, which anyone has. In the harder one each twelfth of a clip is misread for itself,
# frames show a trace of their sign, and the oracle is told the true words. Methods have the windows as they are read.

HARDER = Harder(misread=0.3, traced_signs=True)
LETTERS = "letters alone"


def fused_with(other: str) -> Reading:
    """The baseline and words or letters, with weights from validation; that split is scored in search."""

    def scores(own: Trainings, name: str, split: SplitName) -> ScoreBlocks:
        return letter_scores(own, split) if name == LETTERS else channel(own, name, split)

    def read(own: Trainings) -> Figures:
        seconds = own.made(BASELINE)[1]
        return own.searched(lambda: own.fused(partial(scores, own), (BASELINE, other)), seconds)

    return read


def letter_scores(own: Trainings, split: SplitName) -> ScoreBlocks:
    """BM25 of all captions over what is read in the windows of clips, each reading once."""
    assert isinstance(own.world, RenderedWorld)
    part, clips = getattr(own.world, split), own.world.plan.split(split)
    times = (row[real] for row, real in zip(part.videos.times_s, part.videos.frame_mask, strict=True))
    signs = {
        clip.clip_id: list(dict.fromkeys(word for time_s in own for word in words_read(clip, float(time_s))))
        for clip, own in zip(clips, times, strict=True)
    }
    captions = dict(part.corpus.captions.select("caption_id", "text").iter_rows())
    return bm25_scores({one: captions[one] for one in part.texts.ids}, signs, by="trigrams")


ROWS = admission_rows("scene_text") | {
    "letters, fused": Row(
        "ours", "the baseline and BM25 over the trigrams that are read, weights from validation", chosen=True,
        read=fused_with(LETTERS),
    ),
    "words, fused": Row(
        "ours", "the baseline and the best pair of word and window, untrained, weights from validation",
        read=fused_with(WORDS),
    ),
    "frames, twice the steps": Row("control", "the baseline, trained longer", steps=2),
    "wti, windows": Row("control", "windows among the frames", model=Model(windows=True)),
    "mean_pool, windows": Row(
        "control", "windows among the frames of another matcher", model=Model("mean_pool", windows=True)
    ),
    "tcd, as printed": Row("published", "every equation as the paper prints it", model=Model("tcd", PRINTED)),
    "tcd": Row("published", "this package's reading of what the formulas are meant to do", model=Model("tcd")),
    "weights by the caption": Row(
        "ours", "the caption weighs frames and windows, windows also by their confidence; nothing else of TCD",
        model=Model("tcd", APART),
    ),
    "tcd, no calibration": Row("published", "L_hsc left out", model=Model("tcd", {"lambda_hsc": 0.0})),
    "tcd, no clues": Row(
        "published", "matched by frames and windows alone, which have attended to each other",
        model=Model("tcd", {"matches": ("video", "ocr")}),
    ),
}  # fmt: skip


def scene_text(world: str, harder: Harder) -> Evidence:
    def draw(place: Place) -> World:
        return RenderedWorld(plan_of("scene_text", place, harder))

    return Evidence(world, "scene_text", ROWS, draw, Size(1_500, 0, 500), ORACLE, settings=harder.changed)


EVIDENCE, HARDER_EVIDENCE = scene_text("rendered", Harder()), scene_text("harder", HARDER)
