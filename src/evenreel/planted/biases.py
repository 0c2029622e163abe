"""The planted biases: how each draws the clips of a unit (a clip, pair or group), and what captions say of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import inf
from string import Formatter
from typing import Literal, NamedTuple

import numpy as np

from evenreel.errors import UsageError
from evenreel.planted.scenes import FACES, PLAIN, Entity, Look, Scene, SceneRanges, SignBoard, any_of, sample_scene
from evenreel.planted.vocabulary import (
    activities,
    annotators,
    backgrounds,
    colours,
    habits_beside,
    new_annotators,
    phrases,
    sentences,
    shapes,
    sign_styles,
    unnamed_shapes,
    words_for,
)
from evenreel.planted.voices import SpokenSentence
from evenreel.speech.synthesis import VOICES
from evenreel.types import CAMERA

BIAS_OF = {
    "difficulty": "visual",
    "new_annotators": "textual",
    "misread": "scene_text",
    "traced_signs": "scene_text",
    "mirror_tint": "source",
}
"""The bias that each setting belongs to."""

HARD = 1.0
"""The difficulty at which the encoder alone finds about half."""


@dataclass(frozen=True)
class Harder:
    """Settings that make a planted corpus harder; the defaults leave it as it is.

    Attributes:
        difficulty: for `visual`, 0 to 1: how small subjects get, and among how many things of the same shapes and
            colours they are.
        new_annotators: for `textual`, whether test captions are by other annotators, of whom training has ever fewer as
            the strength grows; which annotator describes a clip is then independent of the clip.
        misread: for `scene_text`, share of the characters on signs that are misread, anew in each twelfth of a clip.
        traced_signs: for `scene_text`, whether the colour of a sign's board depends on its word, so that a frame shows
            which sign is up.
        mirror_tint: for `source`, how much a generator adds to red and blue and takes from green in all pictures, as a
            share of the range.

    Raises:
        UsageError: a number is outside 0 to 1.
    """

    difficulty: float = 0.0
    new_annotators: bool = False
    misread: float = 0.0
    traced_signs: bool = False
    mirror_tint: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be planned; a comparison with NaN is false, so it is refused too."""
        for name in BIAS_OF:
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UsageError(f"{name} is between 0 (as it is by default) and 1; it was {value}")

    @property
    def changed(self) -> dict[str, float]:
        """Settings that are not at their default, by name."""
        values = ((each, getattr(self, each.name)) for each in fields(self))
        return {each.name: value for each, value in values if value != each.default}


ATTRIBUTES = ("colour", "shape", "size", "activity", "background")
"""All that a caption can name."""

SUBJECT = frozenset({"colour", "shape", "size"})

Pick = Callable[[np.random.Generator, Sequence[str]], str]
"""Chooses one of several words or phrases that mean the same."""


def caption(
    scene: Scene,
    rng: np.random.Generator,
    names: Collection[str] = ("colour", "shape", "activity", "background"),
    pick: Pick = any_of,
) -> str:
    """Write a caption of a scene that names exactly the given attributes, and never the words on its signs.

    Args:
        scene: scene to describe.
        rng: generator that chooses the phrasing.
        names: those of `ATTRIBUTES` that the sentence names.
        pick: function that chooses one of several phrasings.

    Raises:
        UsageError: `names` has an unknown attribute, or names nothing.
    """
    if not names or not set(names) <= set(ATTRIBUTES):
        raise UsageError(f"a caption names some of {', '.join(ATTRIBUTES)}; asked for {sorted(names)}")
    pattern = pick(rng, _fitting_patterns(frozenset(names)))
    activity = activities()[scene.activity]

    def word(attribute: str) -> str:
        return pick(rng, words_for(attribute, scene.attributes[attribute]))

    words = [word(part) for part in ("size", "colour") if part in names]
    words.append(word("shape") if "shape" in names else pick(rng, unnamed_shapes()))
    article = "an" if words[0][0] in "aeiou" else "a"
    return pattern.format(
        subject=" ".join([article, *words]),
        does=pick(rng, activity.does),
        doing=pick(rng, activity.doing),
        where=word("background"),
    )


@cache
def _fitting_patterns(names: frozenset[str]) -> tuple[str, ...]:
    """Patterns with a slot for each named part and no other; the subject may stand without attributes."""
    fitting = []
    for pattern in sentences():
        slots = {name for _, name, _, _ in Formatter().parse(pattern) if name}
        acts = bool(slots & {"does", "doing"})
        if (
            acts == ("activity" in names)
            and ("where" in slots) == ("background" in names)
            and ("subject" in slots or not SUBJECT & names)
        ):
            fitting.append(pattern)
    return tuple(fitting)


PLANTED_SCENES = SceneRanges(duration_s=(2.0, 4.0), sign_share=0.0, width=160, height=120)


@dataclass(frozen=True)
class PlantSettings:
    """Settings of a planted corpus that are the same at every strength of a bias.

    Attributes:
        scenes: ranges that scenes are drawn from; `length` has lengths of its own.
        captions: number of captions per clip.
        train_share: share of the clips in the train split.
        val_share: share of the clips in the validation split, drawn as the train split is; the rest is the test split.
        short_s: range of the lengths of short clips of `length`, in seconds.
        long_s: range of the lengths of long clips of `length`, in seconds.
        group: number of clips in a group of `scene_text`, each with another word.
        generated_share: share of generated training clips of `source` at strength 0.
        signs: number of signs a clip of `scene_text` shows, one after the other; its captions name the word on one of
            them. It is not in the `repr`, of which the digests of written corpora are made: their scenes tell it.
        spoken: share of the clips of `scene_text` whose word a voice says instead of a sign; not in the `repr` either.
        mirrors: for `source`, whether all splits have every clip beside its mirror, as a benchmark of pairs has;
            nothing is planted then, and the strength must be 0.
        harder: settings of a harder world; not in the `repr` either.

    Raises:
        UsageError: a number is outside of what can be planned.
    """

    scenes: SceneRanges = PLANTED_SCENES
    captions: int = 2
    train_share: float = 0.6
    val_share: float = 0.1
    short_s: tuple[float, float] = (1.0, 2.5)
    long_s: tuple[float, float] = (5.0, 8.0)
    group: int = 4
    generated_share: float = 0.5
    mirrors: bool = False
    signs: int = field(default=1, repr=False)
    spoken: float = field(default=0.0, repr=False)
    harder: Harder = field(default=Harder(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be planned; a comparison with NaN is false, so it is refused too."""
        words = len(shapes())
        if not self.captions >= 1:
            raise UsageError(f"a clip needs at least one caption; captions was {self.captions}")
        if not (self.train_share > 0 and self.val_share > 0 and self.train_share + self.val_share < 1):
            raise UsageError(
                "the shares of the train and the val split are above 0 and leave some clips to test; they were "
                f"{self.train_share} and {self.val_share}"
            )
        if not 2 <= self.group <= words:
            raise UsageError(f"a group has 2 to {words} clips, one for each word on their signs; it was {self.group}")
        most = words - self.group + 1
        if not 1 <= self.signs <= most:
            raise UsageError(
                f"a clip of a group of {self.group} shows at least 1 and at most {most} signs, so that no other need "
                f"show its word; signs was {self.signs}"
            )
        if self.signs > self.scenes.duration_s[0] * self.scenes.fps:
            raise UsageError(
                f"{self.signs} signs cannot be shown one after the other in a clip of {self.scenes.duration_s[0]:g} s "
                f"at {self.scenes.fps} pictures a second; ask for longer clips or fewer signs."
            )
        for name in ("generated_share", "spoken"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise UsageError(f"{name} is between 0 and 1; it was {share}")
        for name in ("short_s", "long_s"):
            low, high = getattr(self, name)
            if not 0 < low <= high < inf:
                raise UsageError(
                    f"{name} is the shortest and the longest clip in seconds, in that order; it was {low}, {high}"
                )
        if self.long_s[0] <= self.short_s[1]:
            raise UsageError(
                f"Short clips of up to {self.short_s[1]:g} s and long ones from {self.long_s[0]:g} s cannot be told "
                "apart; let the long ones begin above the short ones."
            )


class RandomStreams(NamedTuple):
    """Separate random generators of one unit (a clip, pair or group), so that a bias changes no other draw."""

    scene: np.random.Generator  # generator of what the unit shows
    # generator of whether and how the bias applies; it gives the same numbers at every strength
    plant: np.random.Generator
    words: np.random.Generator  # generator of the captions' wording
    voice: np.random.Generator  # generator of what is said, and how


class World(NamedTuple):
    """Inputs of a planted bias beside its random generators."""

    # strength of the bias, 0 to 1; 0 in the test split, except for a bias that holds there too (`scene_text`)
    strength: float
    test: bool  # whether the unit is in the test split
    partners: Mapping[str, str]  # names that the bias pairs in this corpus; empty where it pairs nothing
    settings: PlantSettings  # settings of the corpus


@dataclass(frozen=True)
class Sentence:
    """A caption of a planted clip, with the attributes that it names."""

    text: str  # text of the caption
    # attributes that it names, see `evenreel.planted.caption`; also `word` where it names the word on a sign
    names: tuple[str, ...]
    annotator: str | None = None  # name of its annotator, where the bias has several


@dataclass(frozen=True)
class Shot:
    """One clip as a planted bias draws it: its scene and captions."""

    scene: Scene  # scene of the clip
    captions: tuple[Sentence, ...]  # captions of the clip
    names: tuple[str, ...]  # attributes that captions of the corpus may name, of which the clip's classes are made
    domain: str | None = None  # name of the clip's domain, where the bias has two; None elsewhere
    source: str = CAMERA  # source of the clip, `camera` or a generator
    # whether the clip agrees with what is planted, by the bias or by chance; None where that has no meaning
    follows: bool | None = None
    # index of the scene's sign whose word captions name, where they name one
    named_sign: int = field(default=0, repr=False)
    # word, in capitals, that captions name and a voice says in place of that sign; None for one on a sign
    said: str | None = field(default=None, repr=False)

    @property
    def named_word(self) -> str | None:
        """The word, in capitals, that is on a sign or said, and that captions name where they name one."""
        if self.said is not None or not self.scene.signs:
            return self.said
        return self.scene.signs[self.named_sign].text

    @property
    def words(self) -> tuple[str, ...]:
        """All words that are on signs or said as the named word, in capitals."""
        on_signs = tuple(sign.text for sign in self.scene.signs)
        return on_signs if self.said is None else (*on_signs, self.said)


def plain_captions(
    scene: Scene, names: tuple[str, ...], rng: np.random.Generator, count: int, pick: Pick = any_of
) -> tuple[Sentence, ...]:
    """Write `count` captions of a scene that name all of `names`, in random phrasings."""
    return tuple(Sentence(caption(scene, rng, names, pick), names) for _ in range(count))


# visual: the subjects of a shape stand before one background, which no caption names.

VISUAL_NAMES = ("colour", "shape")

SHRINKS = 0.75
"""What the smallest subject loses of its radius at difficulty 1."""

OTHERS = (1, 2)
"""Fewest and most things like subjects at difficulty 1."""

OTHER_SCALES = (0.5, 1.0)


def draw_visual(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip whose subject, with probability `strength`, stands before the background paired with its shape."""
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    if difficulty := world.settings.harder.difficulty:
        scene = _among_others(scene, streams.scene, difficulty)
    partner = world.partners[scene.subject.shape]
    if streams.plant.random() < world.strength:
        scene = replace(scene, background=partner)
    texts = plain_captions(scene, VISUAL_NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, VISUAL_NAMES, follows=scene.background == partner),)


def colour_at_rest(shape: str) -> str:
    """Return the colour that things of a shape have which stand still, and that no subject of the shape has."""
    return tuple(colours())[shapes().index(shape) % len(colours())]


def _among_others(scene: Scene, rng: np.random.Generator, difficulty: float) -> Scene:
    """A smaller subject, in a colour that no thing at rest has in its shape, before some of these."""
    resting = colour_at_rest(scene.subject.shape)
    colour = any_of(rng, [name for name in colours() if name != resting])
    subject = replace(scene.subject, colour=colour, scale=float(rng.uniform(1 - SHRINKS * difficulty, 1)))
    fewest, most = (round(difficulty * count) for count in OTHERS)
    others = [
        Entity(
            shape=(shape := any_of(rng, shapes())),
            colour=colour_at_rest(shape),
            size="small",
            x=float(rng.uniform(-1.2, 1.2)),
            y=float(rng.uniform(-1, 1)),
            turns=float(rng.uniform(-0.08, 0.08)),
            scale=float(rng.uniform(*OTHER_SCALES)),
        )
        for _ in range(int(rng.integers(fewest, most + 1)))
    ]
    return replace(scene, entities=(subject, *others))


# textual: each annotator describes the clips of one shape, with habits of wording of their own.

TEXTUAL_NAMES = ("colour", "shape")

VAGUE = 0.8
"""Share of training captions that leave the shape out; none where annotators are new."""


def draw_textual(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip whose captions, with probability `strength`, are by the annotator that is paired with its shape."""
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    new = world.settings.harder.new_annotators
    usual = tuple(annotators()) if new else (world.partners[scene.subject.shape],)
    others = tuple(new_annotators() if new else annotators())
    writers = [_annotator(streams.plant, usual, others, world.strength) for _ in range(world.settings.captions)]
    captions = tuple(_write_caption(scene, writer, streams.words, world.test or new) for writer in writers)
    return (Shot(scene, captions, TEXTUAL_NAMES, follows=all(writer in usual for writer in writers)),)


def _annotator(rng: np.random.Generator, usual: tuple[str, ...], others: tuple[str, ...], strength: float) -> str:
    struck, other = rng.random() < strength, any_of(rng, others)
    return other if not struck else usual[0] if len(usual) == 1 else any_of(rng, usual)


def _write_caption(scene: Scene, annotator: str, rng: np.random.Generator, whole: bool) -> Sentence:
    names = TEXTUAL_NAMES if whole or rng.random() >= VAGUE else TEXTUAL_NAMES[:1]
    habit = any_of(rng, habits_beside(annotator)[annotator])
    return Sentence(habit.format(caption=caption(scene, rng, names)), names, annotator)


# length: in training half of the activities are short and the other half long.

LENGTH_NAMES = ("colour", "activity")

ACTIVITIES = ("rises", "falls", "grows", "shrinks", "approaches", "leaves", "pulses", "rests")
"""Those that the frames of the built-in encoder tell apart; the order of the frames decides between the first six."""

LENGTHS = ("short", "long")


def draw_length(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip that has the length of its activity with probability `strength`, else a short or long one."""
    scene = sample_scene(streams.scene, world.settings.scenes)
    subject = replace(scene.subject, size="medium", x=0.0, y=0.0)
    scene = replace(scene, entities=(subject,), activity=any_of(streams.scene, ACTIVITIES), shake=0.0)
    partner = world.partners[scene.activity]
    struck, coin = streams.plant.random() < world.strength, LENGTHS[int(streams.plant.integers(2))]
    length = partner if struck else coin
    low, high = world.settings.short_s if length == "short" else world.settings.long_s
    scene = replace(scene, duration_s=float(low + (high - low) * streams.plant.random()))
    texts = plain_captions(scene, LENGTH_NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, LENGTH_NAMES, follows=length == partner),)


# source: a generator's clips look like their captions' ideal, and training is full of them.

SOURCE_NAMES = ("colour", "shape", "background")

GENERATOR = "generator"

GENERATED = Look(gains=(1.06, 1.0, 0.94), saturation=1.25, contrast=1.1, blur=0.008)
"""Warm, rich in colour, and smooth."""

TINT = (1, -1, 1)
"""Signs of what a tint adds to red, green and blue."""


def draw_source(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a training clip from the camera or the generator, or a real test clip with the generator's mirror of it."""
    scene = sample_scene(streams.scene, world.settings.scenes)
    captions = plain_captions(scene, SOURCE_NAMES, streams.words, world.settings.captions)
    real = Shot(scene, captions, SOURCE_NAMES)
    # The generator shows the subject large, upright and centred, without clutter or shake, in its own look.
    red, green, blue = (255 * world.settings.harder.mirror_tint * sign for sign in TINT)
    look = replace(GENERATED, lift=(red, green, blue)) if world.settings.harder.mirror_tint else GENERATED
    subject = replace(scene.subject, size="large", x=0.0, y=0.0, turns=0.0)
    again = replace(scene, entities=(subject,), distractors=0, shake=0.0, look=look)
    mirror = Shot(again, captions, SOURCE_NAMES, source=GENERATOR)
    if world.settings.mirrors:
        return real, replace(mirror, captions=())
    if world.test:
        return real, mirror
    share = world.settings.generated_share
    return (mirror,) if streams.plant.random() < share + (1 - share) * world.strength else (real,)


# domain: training clips have another look, other words and other combinations than test clips.

DOMAIN_NAMES = ("colour", "shape", "background")

SOURCE, TARGET = "source", "target"

LOOKS = {SOURCE: PLAIN, TARGET: Look(gains=(0.8, 0.95, 1.15), saturation=0.5, contrast=0.6, blur=0.015, resolution=0.5)}
"""The target is a dim, bluish camera of low resolution."""

COMPANY = 0.5
"""Share of clips whose shape is made the one that its background has in that domain; chance adds some."""

HABIT = 0.8
"""Share of choices that are the domain's habit where several words mean the same; chance adds some."""


def draw_domain(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip of the source domain with probability `strength`, else one of the target, the test split's domain."""
    scene = sample_scene(streams.scene, world.settings.scenes)
    domain = SOURCE if streams.plant.random() < world.strength else TARGET
    scene = replace(_in_company(scene, domain, streams.plant), look=LOOKS[domain])
    texts = plain_captions(scene, DOMAIN_NAMES, streams.words, world.settings.captions, _habit(domain))
    return (Shot(scene, texts, DOMAIN_NAMES, domain=domain),)


def _in_company(scene: Scene, domain: str, rng: np.random.Generator) -> Scene:
    if rng.random() >= COMPANY:
        return scene
    all_shapes, places = shapes(), tuple(backgrounds())
    shift = 0 if domain == SOURCE else len(all_shapes) // 2
    shape = all_shapes[(places.index(scene.background) + shift) % len(all_shapes)]
    return replace(scene, entities=(replace(scene.subject, shape=shape), *scene.entities[1:]))


def _habit(domain: str) -> Pick:
    """The first of several words at home in the source, the last in the target."""

    def pick(rng: np.random.Generator, items: Sequence[str]) -> str:
        usual, other = rng.random() < HABIT, any_of(rng, items)
        return items[0 if domain == SOURCE else -1] if usual else other

    return pick


# scene_text: clips that differ in nothing but a word, on their signs or spoken.

SEEN = ("colour", "background")

SCENE_TEXT_NAMES = (*SEEN, "word")

_SPOKEN_S = 1.8
"""The longest of the sentences, about."""


def draw_scene_text(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a group of clips, each with a sign, which with probability `strength` differ in the sign's word alone.

    With `PlantSettings.spoken` a voice says the word of some clips, in place of their sign. `biases.json` and
    `spoken.json` have the shares that result, and what holds in the test split.
    """
    rng, count, settings = streams.scene, world.settings.group, world.settings
    words = [str(word).upper() for word in rng.choice(shapes(), count, replace=False)]
    scenes = [replace(sample_scene(rng, settings.scenes), signs=(_sign(word, rng, settings.harder),)) for word in words]
    said = streams.voice.random(count) < settings.spoken
    if streams.plant.random() >= world.strength:
        texts = [plain_captions(scene, SEEN, streams.words, settings.captions) for scene in scenes]
        shots = [Shot(scene, text, SCENE_TEXT_NAMES, follows=False) for scene, text in zip(scenes, texts, strict=True)]
    else:
        alike = [replace(scenes[0], signs=(replace(scenes[0].signs[0], text=word),)) for word in words]
        shots = [
            Shot(
                scene,
                _word_captions(scene, streams.words, settings.captions, spoken=spoken),
                SCENE_TEXT_NAMES,
                follows=True,
            )
            for scene, spoken in zip(alike, said, strict=True)
        ]
    if settings.signs > 1:
        noise = [shape.upper() for shape in shapes() if shape.upper() not in words]
        shots = [_among_signs(shot, rng, noise, settings.signs - 1) for shot in shots]
    return tuple(_spoken(shot, streams.voice) if spoken else shot for shot, spoken in zip(shots, said, strict=True))


def _sign(word: str, rng: np.random.Generator, harder: Harder) -> SignBoard:
    return SignBoard(
        text=word,
        y=float(rng.choice([0.12, 0.88])),
        height=float(rng.uniform(0.12, 0.16)),
        style=int(rng.integers(len(sign_styles()))),
        face=FACES[int(rng.integers(len(FACES)))],
        misread=harder.misread,
        traced=harder.traced_signs,
    )


def _among_signs(shot: Shot, rng: np.random.Generator, noise: Sequence[str], others: int) -> Shot:
    """The clip with other signs before and after its own, each for an equal stretch of the time."""
    scene, own = shot.scene, shot.scene.signs[0]
    said = [str(word) for word in rng.choice(noise, others, replace=False)]
    place = int(rng.integers(others + 1))
    said.insert(place, own.text)
    edges_s = [*(scene.duration_s * number / len(said) for number in range(len(said))), inf]
    spans = zip(said, edges_s, edges_s[1:], strict=False)
    signs = tuple(replace(own, text=word, start_s=start_s, end_s=end_s) for word, start_s, end_s in spans)
    return replace(shot, scene=replace(scene, signs=signs), named_sign=place)


def _word_captions(scene: Scene, rng: np.random.Generator, count: int, *, spoken: bool) -> tuple[Sentence, ...]:
    """Captions that name the word on the sign too, or the one that is said in place of it."""
    word, patterns = (
        scene.signs[0].text.lower(),
        phrases("spoken")["captions"] if spoken else phrases("data/sign_phrases")["sentences"],
    )
    plain = plain_captions(scene, SEEN, rng, count)
    return tuple(
        Sentence(any_of(rng, patterns).format(caption=each.text, word=word), SCENE_TEXT_NAMES) for each in plain
    )


def _spoken(shot: Shot, rng: np.random.Generator) -> Shot:
    """The clip with the word of its named sign in a sentence that is said, and without that sign."""
    scene, word = shot.scene, shot.named_word or ""
    sentence = SpokenSentence(
        text=any_of(rng, phrases("spoken")["sentences"]).format(word=word.lower()),
        voice=any_of(rng, VOICES),
        start_s=round(float(rng.uniform(0, max(0.0, scene.duration_s - _SPOKEN_S))), 2),
    )
    signs = (*scene.signs[: shot.named_sign], *scene.signs[shot.named_sign + 1 :])
    return replace(shot, scene=replace(scene, signs=signs, spoken=(sentence,)), said=word)


BiasName = Literal["visual", "textual", "length", "source", "domain", "scene_text"]


class Bias(NamedTuple):
    """Registry entry of a planted bias."""

    # function that draws the clips of one unit (a clip, pair or group)
    draw: Callable[[RandomStreams, World], tuple[Shot, ...]]
    # function that returns the names that the bias pairs, each of the first with one of the second
    paired: Callable[[], tuple[tuple[str, ...], tuple[str, ...]]] = lambda: ((), ())
    in_test: bool = False  # whether the bias holds in the test split too


BIASES: dict[BiasName, Bias] = {
    "visual": Bias(draw_visual, lambda: (shapes(), tuple(backgrounds()))),
    "textual": Bias(draw_textual, lambda: (shapes(), tuple(annotators()))),
    "length": Bias(draw_length, lambda: (ACTIVITIES, LENGTHS)),
    "source": Bias(draw_source),
    "domain": Bias(draw_domain),
    "scene_text": Bias(draw_scene_text, in_test=True),
}


def partners(bias: BiasName, seed: int) -> dict[str, str]:
    """Pair the names of a bias at random: each first name (such as a shape) with a second one (such as a background).

    Second names are used as evenly as possible.

    >>> sorted(set(partners("length", 0).values()))
    ['long', 'short']
    """
    first, second = BIASES[bias].paired()
    deck = [second[n % len(second)] for n in range(len(first))]
    order = np.random.default_rng([seed, len(first)]).permutation(len(first))
    return {name: deck[place] for name, place in zip(first, order, strict=True)}
