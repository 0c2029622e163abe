"""Rendering of pictures of a scene, antialiased, with equal bytes in every run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from evenreel.planted.look import apply_look
from evenreel.planted.motion import Pose, shake_offset, subject_pose
from evenreel.planted.outlines import Loop, outline
from evenreel.planted.scenes import Entity, Face, Scene, SignBoard
from evenreel.planted.things import PAINTERS
from evenreel.planted.vocabulary import (
    Background,
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

OVERSAMPLING = 3
"""Shapes are filled this much larger and reduced, which makes their edges smooth."""
TRACE_INK: Colour = (20, 20, 24)
GREY: Colour = (128, 128, 128)
"""What a background is replaced with that is left out."""
RIM: Colour = (252, 252, 252)
RIM_WIDTH = 0.13
"""A light rim around each entity, in radii: a green star stays visible on a green meadow."""


class Renderer:
    """Renderer of the pictures of one scene; the parts that do not move are drawn once.

    Attributes:
        scene: scene that is drawn.
    """

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
    canvas = _gradients(background, size)
    draw = ImageDraw.Draw(canvas)
    for rule in background.things:
        _scatter(draw, rule, size, rng)
    picture = canvas.reduce(2)
    if "background" in scene.without:  # only now: the small things below are drawn as before
        picture.paste(GREY, (0, 0, *picture.size))
    for _ in range(scene.distractors):
        _paste_distractor(picture, scene.height, rng)
    for entity in scene.entities[1:]:
        _paste_entity(picture, entity, _resting_pose(entity), (0, 0), scene.height)
    return picture


def _gradients(background: Background, size: tuple[int, int]) -> Image.Image:
    width, height = size
    horizon = round(height * background.horizon)
    rows = np.concatenate([_ramp(*background.sky, horizon), _ramp(*background.ground, height - horizon)])
    return Image.fromarray(np.repeat(rows[:, None], width, axis=1))


def _ramp(first: Colour, last: Colour, steps: int) -> Pixels:
    return np.rint(np.linspace(first, last, steps)).astype(np.uint8)


def _scatter(draw: ImageDraw.ImageDraw, rule: ThingRule, size: tuple[int, int], rng: np.random.Generator) -> None:
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


def _resting_pose(entity: Entity) -> Pose:
    room = 0.5 - entity.radius
    return Pose(entity.x * room, entity.y * room, entity.radius, entity.turns)


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


def _style(sign: SignBoard) -> SignStyle:
    """Colours of board and letters; those of a traced sign with a word that has none are its style's."""
    if sign.traced and sign.text in trace_colours():
        return SignStyle(trace_colours()[sign.text], TRACE_INK)
    return sign_styles()[sign.style % len(sign_styles())]


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
    board = _board(sign.text, max(8, round(sign.height * picture.height)), _style(sign), sign.face)
    x = (picture.width - board.width) // 2 + offset[0]
    y = round(sign.y * picture.height - board.height / 2) + offset[1]
    picture.paste(board, (x, min(max(y, 0), picture.height - board.height)))
