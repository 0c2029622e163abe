"""Scenes: everything that a short rendered clip shows, as plain values, drawn at random; how it moves and looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from PIL import Image, ImageFilter

from evenreel.errors import UsageError
from evenreel.planted.vocabulary import Track, activities, backgrounds, colours, shapes, sign_styles, sign_words, sizes

if TYPE_CHECKING:
    from evenreel.planted.voices import SpokenSentence


Gains = tuple[float, float, float]

LUMA = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in the brightness of a pixel (ITU-R BT.709)."""

MIDDLE = 127.5


@dataclass(frozen=True)
class Look:
    """Colour grading, blur and resolution of all pictures of a clip; the default changes nothing.

    Attributes:
        gains: factors on red, green and blue, for a tint.
        saturation: 0 is grey, 1 leaves the colours alone.
        contrast: factor on the distance from middle grey, applied after the tint.
        lift: number of 255 that is added to every channel after that, or one each for red, green and blue.
        blur: radius of the softening, in picture heights.
        resolution: share of the rows and columns that is kept before the picture is enlarged again.
    """

    gains: Gains = (1.0, 1.0, 1.0)
    saturation: float = 1.0
    contrast: float = 1.0
    lift: float | Gains = 0.0
    blur: float = 0.0
    resolution: float = 1.0


PLAIN = Look()


def apply_look(picture: Image.Image, look: Look) -> Image.Image:
    """Apply a look to a picture; the same picture is returned where the look changes nothing."""
    if look.resolution != 1:
        width, height = (max(1, round(side * look.resolution)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR).resize(
            picture.size, Image.Resampling.BILINEAR
        )
    if look.blur:
        picture = picture.filter(ImageFilter.GaussianBlur(look.blur * picture.height))
    matrix = colour_matrix(look)
    return picture if matrix == colour_matrix(PLAIN) else picture.convert("RGB", matrix)


def colour_matrix(look: Look) -> tuple[float, ...]:
    """Return a look's colour grading as a matrix (3, 4), row by row, that maps (red, green, blue, 1) to graded colours.

    >>> colour_matrix(Look())
    (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    >>> colour_matrix(Look(contrast=0.5))[:4]
    (0.5, 0.0, 0.0, 63.75)
    """
    lifts = look.lift if isinstance(look.lift, tuple) else (look.lift,) * 3
    numbers: list[float] = []
    for row, (gain, lift) in enumerate(zip(look.gains, lifts, strict=True)):
        mixed = (
            (1 - look.saturation) * weight + (look.saturation if column == row else 0.0)
            for column, weight in enumerate(LUMA)
        )
        numbers += [look.contrast * gain * value for value in mixed]
        numbers.append(MIDDLE * (1 - look.contrast) + lift)
    return tuple(numbers)


Item = TypeVar("Item")

Part = Literal["background", "entity", "motion"]

Face = Literal["plain", "bold", "typewriter"]

FACES: tuple[Face, ...] = get_args(Face)


@dataclass(frozen=True)
class Entity:
    """A thing in a scene, with a shape, a colour and a size.

    Attributes:
        shape: a name of `vocabulary.shapes()`.
        colour: a name of `vocabulary.colours()`.
        size: a name of `vocabulary.sizes()`.
        x: horizontal position at rest; -1 and 1 touch the sides of the centred square of the picture.
        y: vertical position at rest, downwards, in the same unit.
        turns: rotation at rest, 1 is once round.
        scale: factor on the radius of that size.
    """

    shape: str
    colour: str
    size: str
    x: float = 0.0
    y: float = 0.0
    turns: float = 0.0
    scale: float = 1.0

    def __repr__(self) -> str:
        """Leave out a scale of 1: digests of written corpora are made of this form."""
        return f"Entity({_fields(self, {'scale': 1.0})})"

    @property
    def radius(self) -> float:
        """Radius of the thing in picture heights, before an activity changes it."""
        return sizes()[self.size] * self.scale


@dataclass(frozen=True)
class SignBoard:
    """A sign in a scene: words on a board.

    Attributes:
        text: words on the sign.
        y: vertical middle of the board; 0 is the top of the picture, 1 the bottom.
        height: height of the line of letters, in picture heights.
        start_s: time from which it is shown, in seconds.
        end_s: time from which it is gone, in seconds.
        style: index into `vocabulary.sign_styles()`.
        face: how the letters are drawn.
        misread: share of the characters that are misread; the picture shows the true ones.
        traced: whether the board has the colour of its word (`vocabulary.trace_colours`) instead of its style's.
    """

    text: str
    y: float = 0.88
    height: float = 0.12
    start_s: float = 0.0
    end_s: float = float("inf")
    style: int = 0
    face: Face = "plain"
    misread: float = 0.0
    traced: bool = False

    def __repr__(self) -> str:
        """Leave out what is as it was before there was more: digests of written corpora are made of this form."""
        return f"Sign({_fields(self, {'misread': 0.0, 'traced': False})})"

    def is_up(self, time_s: float) -> bool:
        """Return whether the sign is shown at a time in seconds."""
        return self.start_s <= time_s < self.end_s


@dataclass(frozen=True)
class Scene:
    """Everything that one rendered clip shows.

    Attributes:
        entities: the subject, which the captions name and which acts, then entities that stand still.
        activity: activity of the subject, a name of `vocabulary.activities()`.
        background: a name of `vocabulary.backgrounds()`.
        signs: words on screen; no caption names them.
        distractors: number of small things that no caption names.
        shake: amplitude of the camera's shake, in picture heights.
        duration_s: length in seconds.
        fps: frames per second.
        width: width of the picture in pixels, even.
        height: height of the picture in pixels, even.
        seed: seed of everything that no other field says, such as places of trees and the camera's shake.
        look: grading of the pictures by the camera or a generator.
        without: parts that the pictures leave out: `background` is then grey, `entity` is the thing that captions name,
            and without `motion` every frame is the middle one. It is not in the `repr`, of which the digests of written
            corpora are made.
        spoken: sentences that are spoken in the clip, in their order; none for a clip without sound. They are not in
            the `repr` either.
    """

    entities: tuple[Entity, ...]
    activity: str
    background: str
    signs: tuple[SignBoard, ...] = ()
    distractors: int = 0
    shake: float = 0.0
    duration_s: float = 4.0
    fps: int = 12
    width: int = 320
    height: int = 240
    seed: int = 0
    look: Look = PLAIN
    without: frozenset[Part] = field(default=frozenset(), repr=False)
    spoken: tuple[SpokenSentence, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn or written.

        Raises:
            UsageError: a name that the vocabulary does not have, or a size or length that no clip can have.
        """
        if not self.entities:
            raise UsageError("A scene needs at least one entity, its subject; give `entities` one.")
        for entity in self.entities:
            _check_name("shape", entity.shape, shapes())
            _check_name("colour", entity.colour, tuple(colours()))
            _check_name("size", entity.size, tuple(sizes()))
        _check_name("activity", self.activity, tuple(activities()))
        _check_name("background", self.background, tuple(backgrounds()))
        if self.width < 16 or self.height < 16 or self.width % 2 or self.height % 2:
            raise UsageError(
                f"A picture of {self.width}x{self.height} pixels cannot be written as 4:2:0 video; "
                "use even sides of at least 16."
            )
        if self.frame_count < 1:
            raise UsageError(f"A clip of {self.duration_s} s at {self.fps} pictures a second has no picture.")

    @property
    def subject(self) -> Entity:
        """The entity that captions name."""
        return self.entities[0]

    @property
    def frame_count(self) -> int:
        """Number of frames in the clip."""
        return round(self.duration_s * self.fps)

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes that a caption can name: colour, shape, size, activity and background."""
        subject = self.subject
        return {
            "colour": subject.colour,
            "shape": subject.shape,
            "size": subject.size,
            "activity": self.activity,
            "background": self.background,
        }


@dataclass(frozen=True)
class SceneRanges:
    """Ranges that random scenes are drawn from, uniformly and independently.

    Attributes:
        duration_s: least and greatest length of a clip, in seconds.
        sign_share: share of scenes with a sign.
        shake_share: share of scenes with a shaking camera.
        distractors: greatest number of small things that no caption names.
        fps: frames per second.
        width: width of the picture in pixels.
        height: height of the picture in pixels.
    """

    duration_s: tuple[float, float] = (3.0, 6.0)
    sign_share: float = 0.3
    shake_share: float = 0.5
    distractors: int = 4
    fps: int = 12
    width: int = 320
    height: int = 240


def sample_scene(rng: np.random.Generator, ranges: SceneRanges | None = None) -> Scene:
    """Draw a random scene with independent attributes: nothing is planted.

    Args:
        rng: the only source of chance; the same state gives the same scene.
        ranges: ranges to draw from.
    """
    ranges = ranges or SceneRanges()
    duration_s = float(rng.uniform(*ranges.duration_s))
    subject = Entity(
        shape=any_of(rng, shapes()),
        colour=any_of(rng, tuple(colours())),
        size=any_of(rng, tuple(sizes())),
        x=float(rng.uniform(-0.5, 0.5)),
        y=float(rng.uniform(-0.5, 0.5)),
        turns=float(rng.uniform(-0.08, 0.08)),
    )
    scene = Scene(
        entities=(subject,),
        activity=any_of(rng, tuple(activities())),
        background=any_of(rng, tuple(backgrounds())),
        distractors=int(rng.integers(ranges.distractors + 1)),
        shake=float(rng.uniform(0.005, 0.02)) if rng.random() < ranges.shake_share else 0.0,
        duration_s=duration_s,
        fps=ranges.fps,
        width=ranges.width,
        height=ranges.height,
        seed=int(rng.integers(2**31)),
    )
    if rng.random() >= ranges.sign_share:
        return scene
    start_s = float(rng.uniform(0, 0.4)) * duration_s
    sign = SignBoard(  # up for at least half of the clip, so that sparse sampling sees it
        text=any_of(rng, sign_words()),
        y=float(rng.choice([0.12, 0.88])),
        height=float(rng.uniform(0.1, 0.15)),
        start_s=start_s,
        end_s=start_s + float(rng.uniform(0.5, 0.6)) * duration_s,
        style=int(rng.integers(len(sign_styles()))),
    )
    return replace(scene, signs=(sign,))


def any_of(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(len(items)))]


def _fields(thing: Entity | SignBoard, unsaid: Mapping[str, object]) -> str:
    """Fields as arguments, but for those that have the value in `unsaid`."""
    said = {name: value for name, value in vars(thing).items() if name not in unsaid or value != unsaid[name]}
    return ", ".join(f"{name}={value!r}" for name, value in said.items())


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UsageError(f"no {what} is called {name!r}; there are {', '.join(known)}")


SHAKE_RATES_HZ = (0.7, 1.3, 2.9)

EDGE = 0.5
"""Half a side of the centred square, in picture heights."""


class Pose(NamedTuple):
    """Pose of a scene's subject at one time: centre, from the picture's, and radius in picture heights, and turns."""

    x: float
    y: float
    radius: float
    turns: float


def subject_pose(scene: Scene, time_s: float) -> Pose:
    """Compute the pose of a scene's subject at `time_s` seconds; it stays inside the centred square of the picture."""
    activity, subject = activities()[scene.activity], scene.subject
    radius = subject.radius * track_value(activity.scale, scene, time_s)
    room = EDGE - 1.1 * radius

    def place(home: float, track: Track) -> float:
        """The home position counts only where the activity leaves the axis alone."""
        moved = (0.0 if track != Track() else home) + track_value(track, scene, time_s)
        return room * min(max(moved, -1.0), 1.0)

    turns = subject.turns + track_value(activity.turn, scene, time_s)
    return Pose(place(subject.x, activity.x), place(subject.y, activity.y), radius, turns)


def track_value(track: Track, scene: Scene, time_s: float) -> float:
    """Compute the value of a track (a number that changes with time) at `time_s` seconds of a scene."""
    done = min(max(time_s / scene.duration_s, 0.0), 1.0)
    wave = float(np.sin(2 * np.pi * (track.rate_hz * time_s + track.phase)))
    swing = track.swing * (abs(wave) if track.folded else wave)
    return track.start + (track.end - track.start) * done + track.per_s * time_s + swing


def shake_offset(scene: Scene, time_s: float) -> tuple[int, int]:
    """Compute the shift of the picture by the camera's shake at `time_s` seconds, in whole pixels (x, y)."""
    if not scene.shake:
        return 0, 0
    phases = np.random.default_rng([scene.seed, 1]).uniform(0, 2 * np.pi, (2, len(SHAKE_RATES_HZ)))
    waves = np.sin(2 * np.pi * np.array(SHAKE_RATES_HZ) * time_s + phases).mean(axis=1)
    dx, dy = np.rint(waves * scene.shake * scene.height).astype(int)
    return int(dx), int(dy)
