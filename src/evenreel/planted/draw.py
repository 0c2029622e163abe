"""Rendering of pictures of a scene, antialiased, and of clips as mp4 files, with equal bytes in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import asin
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from evenreel.media.encode import clip_bytes
from evenreel.planted.scenes import Entity, Face, Pose, Scene, SignBoard, apply_look, shake_offset, subject_pose
from evenreel.planted.vocabulary import (
    Colour,
    SignStyle,
    ThingRule,
    backgrounds,
    colours,
    distractors,
    sign_styles,
    trace_colours,
)
from evenreel.planted.vocabulary import shapes as shape_names
from evenreel.types import Pixels

if TYPE_CHECKING:
    from evenreel.planted.voices import Recordings


Loop = NDArray[np.float64]
"""(P, 2) x and y of a closed outline; y points down."""

ROUND_POINTS = 48


def _arc(start: float, end: float, radius: float = 1.0, points: int = ROUND_POINTS) -> Loop:
    """Points from angle `start` to `end`, in turns, clockwise from the right as y points down."""
    angle = 2 * np.pi * np.linspace(start, end, points)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _regular(corners: int) -> Loop:
    return _arc(-0.25, 0.75, points=corners + 1)[:-1]


def _star() -> tuple[Loop, ...]:
    points = _regular(10)
    points[1::2] *= 0.42
    return (1.1 * points,)


def _cross() -> tuple[Loop, ...]:
    a, b = 0.36, 1.0
    quarter = np.array([[a, -b], [a, -a], [b, -a]])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return (np.concatenate([quarter @ np.linalg.matrix_power(turn, n) for n in range(4)]),)


def _heart() -> tuple[Loop, ...]:
    """The usual curve x = 16 sin^3 t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, turned upright."""
    t = np.linspace(0, 2 * np.pi, ROUND_POINTS)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return (np.stack([x, -y - 2.5], axis=1) / 15.5,)


def _crescent() -> tuple[Loop, ...]:
    """The left of a disc, hollowed by a smaller disc that meets it at the two tips."""
    tip_angle, hollow_radius = 0.165, 0.88
    back = _arc(tip_angle, 1 - tip_angle)
    hollow_tip = asin(abs(back[0, 1]) / hollow_radius) / (2 * np.pi)
    hollow = _arc(1 - hollow_tip, hollow_tip, radius=hollow_radius)
    hollow[:, 0] += back[-1, 0] - hollow[0, 0]
    return (np.concatenate([back, hollow]) + np.array([0.2, 0.0]),)


OUTLINES: dict[str, Callable[[], tuple[Loop, ...]]] = {
    "circle": lambda: (_arc(0, 1),),
    "square": lambda: (0.86 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]),),
    "triangle": lambda: (1.12 * _regular(3),),
    "star": _star,
    "heart": _heart,
    "cross": _cross,
    "ring": lambda: (_arc(0, 1), _arc(0, 1, radius=0.52)),
    "crescent": _crescent,
}
"""Shape name -> its loops, about 1 in radius around the origin."""


def outline(shape: str, turns: float) -> tuple[Loop, ...]:
    """Return the loops of a shape of radius 1 around the origin, rotated clockwise by `turns` (1 is once round)."""
    angle = 2 * np.pi * turns
    rotate = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return tuple(loop @ rotate for loop in OUTLINES[shape]())


Canvas = ImageDraw.ImageDraw
Painter = Callable[[Canvas, tuple[float, float], float, Colour], None]


def _lighter(colour: Colour, by: int) -> Colour:
    red, green, blue = (min(255, max(0, part + by)) for part in colour)
    return red, green, blue


def _ellipse(draw: Canvas, centre: tuple[float, float], radii: tuple[float, float], colour: Colour) -> None:
    (x, y), (rx, ry) = centre, radii
    draw.ellipse((x - rx, y - ry, x + rx, y + ry), fill=colour)


def _pine(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.rectangle((x - size * 0.03, y - size * 0.2, x + size * 0.03, y), fill=(84, 58, 40))
    for level in range(3):
        top, bottom, half = (
            y - size * (1 - 0.25 * level),
            y - size * (0.55 - 0.2 * level),
            size * (0.13 + 0.05 * level),
        )
        draw.polygon([(x, top), (x - half, bottom), (x + half, bottom)], fill=_lighter(colour, 6 * level))


def _palm(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    top = (x + size * 0.12, y - size * 0.8)
    draw.line([foot, (x + size * 0.03, y - size * 0.45), top], fill=(132, 96, 58), width=int(size * 0.06) + 1)
    for dx, dy in ((-0.34, 0.1), (-0.26, -0.14), (0.02, -0.2), (0.26, -0.12), (0.34, 0.12)):
        bend = (top[0] + size * dx * 0.6, top[1] + size * (dy - 0.1))
        draw.line([top, bend, (top[0] + size * dx, top[1] + size * dy)], fill=colour, width=int(size * 0.07) + 1)


def _dune(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    _ellipse(draw, (foot[0], foot[1] + size * 0.1), (size, size * 0.2), colour)


def _cactus(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    width = int(size * 0.16) + 1
    draw.line([(x, y), (x, y - size)], fill=colour, width=width)
    for side, low in ((-1, 0.35), (1, 0.5)):
        elbow = x + side * size * 0.3
        draw.line(
            [(x, y - size * low), (elbow, y - size * low), (elbow, y - size * (low + 0.3))], fill=colour, width=width
        )


def _peak(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.75
    draw.polygon([(x, y - size), (x - half, y), (x + half, y)], fill=colour)
    draw.polygon([(x, y - size), (x + half * 0.25, y), (x + half, y)], fill=_lighter(colour, -18))
    cap, low = half * 0.34, y - size * 0.66
    snow = [
        (x, y - size),
        (x - cap, low),
        (x - cap * 0.4, low - size * 0.06),
        (x, low),
        (x + cap * 0.5, low - size * 0.05),
    ]
    draw.polygon([*snow, (x + cap, low)], fill=(248, 250, 254))


def _tower(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.16
    draw.rectangle((x - half, y - size, x + half, y), fill=colour)
    pane = half * 0.24
    for row in range(1, 9):
        for column in (-0.6, 0.0, 0.6):
            if (row * 7 + int(column * 5) + int(x)) % 3:
                left, top = x + half * column - pane / 2, y - size + row * size * 0.105
                draw.rectangle((left, top, left + pane, top + size * 0.05), fill=(250, 214, 120))


def _cloud(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    for dx, dy, r in ((-0.7, 0.0, 0.4), (0.0, -0.14, 0.55), (0.7, 0.0, 0.42)):
        _ellipse(draw, (x + size * dx, y + size * dy), (size * r, size * r * 0.66), colour)


def _flower(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.line([(x, y), (x, y + size)], fill=(58, 118, 42), width=max(1, int(size * 0.3)))
    _ellipse(draw, foot, (size * 0.5, size * 0.5), colour)


def _wave(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.arc(
        (x - size, y - size * 0.15, x + size, y + size * 0.15), 200, 340, fill=colour, width=max(1, int(size * 0.06))
    )


def _band(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    far = 100 * size
    draw.rectangle((foot[0] - far, foot[1], foot[0] + far, foot[1] + size), fill=colour)


def _plank(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    far = 1000 * size
    draw.line([(foot[0] - far, foot[1]), (foot[0] + far, foot[1])], fill=colour, width=max(1, int(size * 0.4)))


def _bubble(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.ellipse((x - size, y - size, x + size, y + size), outline=colour, width=max(1, int(size * 0.3)))


def _weed(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    bends = [(x + size * 0.07 * (-1) ** step, y - size * step / 6) for step in range(7)]
    draw.line(bends, fill=colour, width=int(size * 0.08) + 1, joint="curve")


def _picture(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.65
    draw.rectangle((x - half, y - size / 2, x + half, y + size / 2), fill=(92, 62, 40))
    edge = size * 0.08
    draw.rectangle((x - half + edge, y - size / 2 + edge, x + half - edge, y + size / 2 - edge), fill=colour)


def _lamp(draw: Canvas, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.rectangle((x - size * 0.015, y - size * 0.7, x + size * 0.015, y), fill=(70, 58, 50))
    draw.rectangle((x - size * 0.12, y - size * 0.02, x + size * 0.12, y), fill=(70, 58, 50))
    top, bottom = y - size, y - size * 0.68
    draw.polygon(
        [(x - size * 0.1, top), (x + size * 0.1, top), (x + size * 0.2, bottom), (x - size * 0.2, bottom)], fill=colour
    )


_PAINTERS = (
    *(_band, _bubble, _cactus, _cloud, _dune, _flower, _lamp, _palm, _peak, _picture, _pine, _plank, _tower, _wave),
    _weed,
)
PAINTERS: dict[str, Painter] = {painter.__name__[1:]: painter for painter in _PAINTERS}
"""Kind of a thing, as the backgrounds' data file names it -> its painter."""

OVERSAMPLING = 3
"""Shapes are filled this much larger and reduced, which makes their edges smooth."""

TRACE_INK: Colour = (20, 20, 24)

GREY: Colour = (128, 128, 128)
"""What a background is replaced with that is left out."""

RIM: Colour = (252, 252, 252)

RIM_WIDTH = 0.13
"""A light rim around each entity, in radii: a green star stays visible on a green meadow."""


class Renderer:
    """Renderer of the pictures of one scene; the parts that do not move are drawn once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._margin = int(np.ceil(scene.shake * scene.height))
        self._backdrop = _backdrop(scene, self._margin)

    def picture(self, time_s: float) -> Image.Image:
        """Draw the picture of the scene at `time_s` seconds."""
        if "motion" in self.scene.without:
            time_s = self.scene.duration_s / 2
        dx, dy = shake_offset(self.scene, time_s)
        left, top = self._margin - dx, self._margin - dy
        picture = self._backdrop.crop((left, top, left + self.scene.width, top + self.scene.height))
        if "entity" not in self.scene.without:
            _paste_entity(picture, self.scene.subject, subject_pose(self.scene, time_s), (dx, dy))
        for sign in self.scene.signs:
            if sign.is_up(time_s):
                _paste_sign(picture, sign, (dx, dy))
        return apply_look(picture, self.scene.look)

    def frame(self, time_s: float) -> Pixels:
        """Draw the picture of the scene at `time_s` seconds as pixels (H, W, 3) uint8."""
        return np.asarray(self.picture(time_s))


def draw_frame(scene: Scene, time_s: float) -> Pixels:
    """Draw the picture of a scene at `time_s` seconds as pixels (H, W, 3) uint8."""
    return Renderer(scene).frame(time_s)


def draw_clip(scene: Scene) -> Iterator[Pixels]:
    """Draw all pictures of a scene in order, `scene.fps` a second, as pixels (H, W, 3) uint8."""
    renderer = Renderer(scene)
    for number in range(scene.frame_count):
        yield renderer.frame(number / scene.fps)


def _backdrop(scene: Scene, margin: int) -> Image.Image:
    """Everything that does not move, with a margin for the trembling camera."""
    rng = np.random.default_rng([scene.seed, 0])
    background = backgrounds()[scene.background]
    size = (2 * (scene.width + 2 * margin), 2 * (scene.height + 2 * margin))
    horizon = round(size[1] * background.horizon)
    ramps = ((background.sky, horizon), (background.ground, size[1] - horizon))
    rows = [np.rint(np.linspace(*ends, steps)).astype(np.uint8) for ends, steps in ramps]
    canvas = Image.fromarray(np.repeat(np.concatenate(rows)[:, None], size[0], axis=1))
    draw = ImageDraw.Draw(canvas)
    for rule in background.things:
        _scatter(draw, rule, size, rng)
    picture = canvas.reduce(2)
    if "background" in scene.without:  # only now: the small things below are drawn as before
        picture.paste(GREY, (0, 0, *picture.size))
    for _ in range(scene.distractors):
        _paste_distractor(picture, scene.height, rng)
    for entity in scene.entities[1:]:
        room = 0.5 - entity.radius
        pose = Pose(entity.x * room, entity.y * room, entity.radius, entity.turns)
        _paste_entity(picture, entity, pose, (0, 0), scene.height)
    return picture


def _scatter(draw: Canvas, rule: ThingRule, size: tuple[int, int], rng: np.random.Generator) -> None:
    """Paint a rule's things, the far ones (higher up) first, spread over the width."""
    width, height = size
    count = int(rng.integers(rule.count[0], rule.count[1] + 1))
    places = (rng.permutation(count) + rng.uniform(0.1, 0.9, count)) / count
    for x, y in zip(places, np.sort(rng.uniform(*rule.y, count)), strict=True):
        colour = rule.colours[int(rng.integers(len(rule.colours)))]
        PAINTERS[rule.kind](draw, (x * width, y * height), rng.uniform(*rule.size) * height, colour)


def _paste_distractor(picture: Image.Image, height: int, rng: np.random.Generator) -> None:
    palette, (low, high) = distractors()
    names = shape_names()
    loops = outline(names[int(rng.integers(len(names)))], float(rng.random()))
    centre = (rng.uniform(0.05, 0.95) * picture.width, rng.uniform(0.05, 0.95) * picture.height)
    _paste_shape(picture, loops, centre, rng.uniform(low, high) * height, palette[int(rng.integers(len(palette)))], 0.0)


def _paste_entity(
    picture: Image.Image, entity: Entity, pose: Pose, offset: tuple[int, int], height: int | None = None
) -> None:
    scale = height or picture.height
    centre = (picture.width / 2 + pose.x * scale + offset[0], picture.height / 2 + pose.y * scale + offset[1])
    loops = outline(entity.shape, pose.turns)
    _paste_shape(picture, loops, centre, pose.radius * scale, colours()[entity.colour], RIM_WIDTH)


def _paste_shape(
    picture: Image.Image,
    loops: tuple[Loop, ...],
    centre: tuple[float, float],
    radius: float,
    colour: Colour,
    rim: float,
) -> None:
    """Fill the loops, first larger by the rim in the rim's colour, through masks with smooth edges."""
    half = int(np.ceil(radius * 1.3)) + 2
    corner = (int(centre[0]) - half, int(centre[1]) - half)
    shift = np.subtract(centre, corner)
    points = [[tuple(p) for p in OVERSAMPLING * (loop * radius + shift)] for loop in loops]
    if rim:
        picture.paste(RIM, corner, _mask(points, half, rim_px=2 * rim * radius * OVERSAMPLING))
    picture.paste(colour, corner, _mask(points, half, rim_px=0.0))


def _mask(points: list[list[tuple[float, ...]]], half: int, rim_px: float) -> Image.Image:
    side = 2 * half * OVERSAMPLING
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    draw.polygon(points[0], fill=255)
    for hole in points[1:]:
        draw.polygon(hole, fill=0)
    if rim_px:
        for loop in points:
            draw.line([*loop, loop[0], loop[1]], fill=255, width=round(rim_px), joint="curve")
    return mask.reduce(OVERSAMPLING)


@lru_cache(maxsize=256)
def _board(text: str, line_px: int, colours_of: SignStyle, face: Face) -> Image.Image:
    """The sign as a picture of its own."""
    letters = _letters(text, line_px, face)
    pad = line_px // 3
    board = Image.new("RGB", (letters.width + 2 * pad, letters.height + 2 * pad), colours_of.paper)
    board.paste(colours_of.ink, (pad, pad), letters)
    return board


def _letters(text: str, line_px: int, face: Face) -> Image.Image:
    """A mask of the text, in one of the two fonts that Pillow carries: Aileron, plain or bold, or its old bitmaps."""
    bitmaps = face == "typewriter"
    font = ImageFont.load_default_imagefont() if bitmaps else ImageFont.load_default(line_px)
    stroke = line_px / 24 if face == "bold" else 0.0
    probe = ImageDraw.Draw(Image.new("L", (1, 1)))
    left, top, right, bottom = probe.textbbox((0, 0), text, font=font, stroke_width=stroke)
    mask = Image.new("L", (int(right - left), int(bottom - top)))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, stroke_width=stroke)
    if not bitmaps:
        return mask
    scale = line_px / mask.height
    return mask.resize((round(mask.width * scale), line_px), Image.Resampling.LANCZOS)


def _paste_sign(picture: Image.Image, sign: SignBoard, offset: tuple[int, int]) -> None:
    style = sign_styles()[sign.style % len(sign_styles())]
    if sign.traced and sign.text in trace_colours():
        style = SignStyle(trace_colours()[sign.text], TRACE_INK)
    board = _board(sign.text, max(8, round(sign.height * picture.height)), style, sign.face)
    x = (picture.width - board.width) // 2 + offset[0]
    y = round(sign.y * picture.height - board.height / 2) + offset[1]
    picture.paste(board, (x, min(max(y, 0), picture.height - board.height)))


def write_scene(path: Path, scene: Scene, recordings: Recordings | None = None) -> None:
    """Render a scene and write it as an mp4 file (H.264, 4:2:0, BT.709; what is spoken as AAC).

    Args:
        path: path of the file; an existing one is replaced.
        scene: scene to render.
        recordings: what is spoken, as (N,) samples at 16 kHz by sentence; others are spoken by espeak-ng.

    Raises:
        UsageError: a sentence can be spoken neither by espeak-ng, nor is there a recording of it.
    """
    path.write_bytes(scene_bytes(scene, recordings))


def scene_bytes(scene: Scene, recordings: Recordings | None = None) -> bytes:
    if not scene.spoken:
        return clip_bytes(draw_clip(scene), scene.fps)
    from evenreel.planted.voices import sound_of

    sound = sound_of(scene.spoken, scene.duration_s, scene.seed, recordings)
    return clip_bytes(draw_clip(scene), scene.fps, sound=sound)


def write_clip(path: Path, frames: Iterable[Pixels], fps: int) -> None:
    """Encode frames and write them as an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: path of the file; an existing one is replaced.
        frames: frames (H, W, 3) uint8 each, all of one size, H and W even.
        fps: frames per second.
    """
    path.write_bytes(clip_bytes(frames, fps))
