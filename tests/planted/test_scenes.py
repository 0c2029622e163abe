"""Scenes, captions and pictures: the right thing in the right place, in many words, and the same bytes everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from math import pi, sqrt
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenreel.errors import UsageError
from evenreel.planted import (
    ATTRIBUTES,
    Entity,
    Look,
    Renderer,
    Scene,
    SceneRanges,
    SignBoard,
    caption,
    draw_clip,
    draw_frame,
    sample_scene,
    vocabulary,
    write_scene,
)
from evenreel.planted.draw import OUTLINES, PAINTERS
from evenreel.planted.scenes import apply_look, shake_offset, subject_pose

# Scenes: sampled without any planted relation, and refused when they cannot be drawn.


PLAIN = Scene((Entity("star", "red", "large"),), "rests", "beach")


def test_no_attribute_says_anything_about_another() -> None:
    """Chi-square of each pair of attributes stays below what chance exceeds once in a million."""
    rng = np.random.default_rng(0)
    scenes = [sample_scene(rng).attributes for _ in range(4_000)]
    names = list(scenes[0])
    for n, one in enumerate(names):
        for other in names[:n]:
            table = Counter((scene[one], scene[other]) for scene in scenes)
            rows, columns = Counter(s[one] for s in scenes), Counter(s[other] for s in scenes)
            expected = {(a, b): rows[a] * columns[b] / len(scenes) for a in rows for b in columns}
            chi_square = sum((table[cell] - mean) ** 2 / mean for cell, mean in expected.items())
            freedom = (len(rows) - 1) * (len(columns) - 1)
            assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 10, (one, other)


def test_every_value_occurs() -> None:
    rng = np.random.default_rng(1)
    seen = [sample_scene(rng).attributes for _ in range(600)]
    for attribute, values in VALUES.items():
        assert {one[attribute] for one in seen} == set(values)


def test_the_ranges_are_kept() -> None:
    rng = np.random.default_rng(2)
    ranges = SceneRanges(duration_s=(0.5, 1.0), sign_share=1.0, shake_share=0.0, distractors=0, fps=10)
    for scene in (sample_scene(rng, ranges) for _ in range(50)):
        assert 0.5 <= scene.duration_s <= 1.0
        assert len(scene.signs) == 1
        assert scene.shake == 0
        assert scene.distractors == 0


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"activity": "flies"}, "no activity is called 'flies'"),
        ({"background": "moon"}, "no background is called 'moon'"),
        ({"entities": ()}, "at least one entity"),
        ({"entities": (Entity("blob", "red", "large"),)}, "no shape is called 'blob'"),
        ({"entities": (Entity("star", "beige", "large"),)}, "no colour is called 'beige'"),
        ({"entities": (Entity("star", "red", "huge"),)}, "no size is called 'huge'"),
        ({"width": 321}, "321x240"),
        ({"height": 8}, "320x8"),
        ({"duration_s": 0.0}, "no picture"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(change: dict[str, object], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        replace(PLAIN, **change)  # type: ignore[arg-type]


# The data files agree with each other and with the painters, and are rich enough.

VALUES = {
    "colour": tuple(vocabulary.colours()),
    "shape": vocabulary.shapes(),
    "size": tuple(vocabulary.sizes()),
    "activity": tuple(vocabulary.activities()),
    "background": tuple(vocabulary.backgrounds()),
}
"""Values of each attribute."""


def test_every_shape_has_an_outline_and_every_thing_a_painter() -> None:
    assert set(OUTLINES) == set(vocabulary.shapes())
    kinds = {rule.kind for background in vocabulary.backgrounds().values() for rule in background.things}
    assert kinds == set(PAINTERS)


def test_opposites_name_each_other() -> None:
    activities = vocabulary.activities()
    for name, activity in activities.items():
        if activity.opposite:
            assert activity.opposite != name
            assert activities[activity.opposite].opposite == name


@pytest.mark.parametrize("attribute", ["colour", "shape", "size", "background"])
def test_no_word_stands_for_two_values(attribute: str) -> None:
    words = [word for value in VALUES[attribute] for word in vocabulary.words_for(attribute, value)]
    assert len(words) == len(set(words))


def test_colours_are_far_apart() -> None:
    """At least 60 of 255 in one channel: two names never look like one colour."""
    colours = list(vocabulary.colours().values())
    for n, one in enumerate(colours):
        for other in colours[:n]:
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) >= 60


# Captions: they name what they should, nothing else, in many ways.


WITH_SIGNS = SceneRanges(sign_share=1.0)


def _phrases(attribute: str, value: str) -> tuple[str, ...]:
    if attribute == "activity":
        activity = vocabulary.activities()[value]
        return (*activity.does, *activity.doing)
    return vocabulary.words_for(attribute, value)


def _says(text: str, attribute: str, value: str) -> bool:
    return any(re.search(rf"\b{re.escape(phrase)}\b", text) for phrase in _phrases(attribute, value))


def _scene(seed: int) -> tuple[Scene, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return sample_scene(rng, WITH_SIGNS), rng


@given(st.integers(0, 10**6), st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_a_caption_names_what_was_asked_and_nothing_else(seed: int, names: set[str]) -> None:
    scene, rng = _scene(seed)
    text = caption(scene, rng, names)
    for attribute, value in scene.attributes.items():
        assert _says(text, attribute, value) == (attribute in names), (text, attribute)


def test_no_phrase_names_something_else_too() -> None:
    """A background that says green would name the colour of every green subject in it."""
    every = [(attribute, value) for attribute, values in VALUES.items() for value in values]
    for own in every:
        for phrase in _phrases(*own):
            assert [one for one in every if _says(phrase, *one)] == [own], phrase


@given(st.integers(0, 10**6))
def test_the_words_on_a_sign_never_come_into_the_caption(seed: int) -> None:
    scene, rng = _scene(seed)
    words = set(re.findall(r"\w+", caption(scene, rng, ATTRIBUTES)))
    assert not words & set(scene.signs[0].text.lower().split())


@given(st.integers(0, 10**6), st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_the_article_fits_the_next_word(seed: int, names: set[str]) -> None:
    scene, rng = _scene(seed)
    for article, letter in re.findall(r"\b(an?) (\w)", caption(scene, rng, names)):
        assert (article == "an") == (letter in "aeiou")


def test_one_scene_has_many_phrasings() -> None:
    scene, rng = _scene(0)
    assert len({caption(scene, rng) for _ in range(200)}) > 25


@pytest.mark.parametrize("names", [(), ("taste",), ("colour", "taste")])
def test_names_that_do_not_exist_are_refused(names: tuple[str, ...]) -> None:
    scene, rng = _scene(0)
    with pytest.raises(UsageError, match="a caption names some of colour"):
        caption(scene, rng, names)


# Looks: none changes nothing; each knob does to a pixel what its formula says.


SCENE = Scene((Entity("star", "red", "large"),), "rests", "beach", width=160, height=120)
FINE = st.integers(0, 255)


def _flat(colour: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (8, 8), colour)


def test_no_look_gives_the_very_picture() -> None:
    picture = _flat((1, 2, 3))
    assert apply_look(picture, Look()) is picture


@given(
    st.tuples(FINE, FINE, FINE),
    st.tuples(*[st.floats(0.5, 1.5)] * 3),
    st.floats(0, 1.5),
    st.floats(0.3, 1.5),
    st.floats(-40, 40),
)
def test_a_grading_is_saturation_then_tint_then_contrast_then_lift(
    colour: tuple[int, int, int], gains: tuple[float, float, float], saturation: float, contrast: float, lift: float
) -> None:
    found = apply_look(_flat(colour), Look(gains, saturation, contrast, lift)).getpixel((4, 4))
    grey = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
    for value, gain, pixel in zip(colour, gains, found, strict=True):  # type: ignore[arg-type]
        tinted = gain * (grey + saturation * (value - grey))
        expected = min(max(127.5 + contrast * (tinted - 127.5) + lift, 0), 255)
        assert abs(pixel - expected) <= 1


@pytest.mark.parametrize("look", [Look(blur=0.02), Look(resolution=0.4)])
def test_soft_looks_take_fine_detail_and_keep_the_mean(look: Look) -> None:
    plain, soft = (draw_frame(replace(SCENE, look=each), 0.0).astype(float) for each in (Look(), look))
    assert np.abs(np.diff(soft, axis=1)).mean() < 0.8 * np.abs(np.diff(plain, axis=1)).mean()
    assert abs(soft.mean() - plain.mean()) < 1


# Poses: inside the picture, hand-worked ends, and opposites that are each other in reverse.


ORDERED = [name for name, activity in vocabulary.activities().items() if activity.opposite]


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_subject_stays_inside_the_centred_square(seed: int, part: float) -> None:
    scene = sample_scene(np.random.default_rng(seed))
    pose = subject_pose(scene, part * scene.duration_s)
    assert abs(pose.x) + pose.radius <= 0.5
    assert abs(pose.y) + pose.radius <= 0.5


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_an_opposite_shows_the_same_poses_in_reverse_order(name: str, part: float) -> None:
    """So no single frame tells the two apart: only the order does."""
    scene = Scene((Entity("star", "red", "small"),), name, "beach", duration_s=4.0)
    other = replace(scene, activity=vocabulary.activities()[name].opposite or "")
    here, there = subject_pose(scene, 4.0 * part), subject_pose(other, 4.0 * (1 - part))
    assert np.allclose([here.x, here.y, here.radius, here.turns], [there.x, there.y, there.radius, there.turns])


def test_moving_left_goes_left_rising_upwards_and_growing_grows() -> None:
    """Small is 0.14 in radius, so the way is 0.5 - 1.1 * 0.14 = 0.346 to each side."""
    scene = Scene((Entity("star", "red", "small"),), "moves_left", "beach", duration_s=2.0)
    assert [round(subject_pose(scene, t).x, 3) for t in (0.0, 1.0, 2.0)] == [0.346, 0.0, -0.346]
    rising, growing = replace(scene, activity="rises"), replace(scene, activity="grows")
    assert subject_pose(rising, 0.0).y > subject_pose(rising, rising.duration_s).y
    assert subject_pose(growing, 0.0).radius < subject_pose(growing, growing.duration_s).radius


@given(st.integers(0, 10**6), st.floats(0, 30))
def test_the_camera_trembles_no_further_than_told(seed: int, time_s: float) -> None:
    scene = replace(sample_scene(np.random.default_rng(seed)), shake=0.02)
    assert max(map(abs, shake_offset(scene, time_s))) <= np.ceil(0.02 * scene.height)


def test_the_home_position_counts_where_the_activity_leaves_the_axis_alone() -> None:
    subject = Entity("star", "red", "small", x=0.5, y=-0.5)
    rising = subject_pose(Scene((subject,), "rises", "beach", duration_s=2.0), 1.0)
    resting = subject_pose(Scene((subject,), "rests", "beach"), 1.0)
    assert (round(rising.x, 3), round(rising.y, 3)) == (0.173, 0.0)
    assert (round(resting.x, 3), round(resting.y, 3)) == (0.173, -0.173)


# Pictures: the right thing in the right place and size, smooth edges, the same bytes everywhere.


PLAIN_DRAW = Scene((Entity("circle", "purple", "large"),), "rests", "beach")
RADIUS_PX = 0.26 * 240
AREAS = {
    "circle": pi,
    "ring": pi * (1 - 0.52**2),
    "square": (2 * 0.86) ** 2,
    "triangle": 3 * sqrt(3) / 4 * 1.12**2,
    # ten triangles between the centre, a tip (1.1) and a notch (1.1 * 0.42), 36 degrees apart
    "star": 10 * 0.5 * 1.1 * 1.1 * 0.42 * np.sin(pi / 5),
    # two bars of 2 x 0.72, less their common middle
    "cross": 2 * 2 * 0.72 - 0.72**2,
    # the area inside this curve is 180 pi, in units of 15.5 squared
    "heart": 180 * pi / 15.5**2,
}
"""Area of each shape of radius 1, from geometry."""


def _of_colour(frame: np.ndarray, colour: str) -> np.ndarray:
    return np.abs(frame.astype(int) - vocabulary.colours()[colour]).max(axis=2) <= 2


@pytest.mark.parametrize("shape", sorted(AREAS))
@pytest.mark.parametrize("turns", [0.0, 0.11])
def test_each_shape_covers_the_area_of_its_geometry(shape: str, turns: float) -> None:
    scene = replace(PLAIN_DRAW, entities=(Entity(shape, "purple", "large", turns=turns),))
    covered = int(_of_colour(draw_frame(scene, 0.0), "purple").sum())
    # Edge pixels are mixed and do not count: less than the outline, about 8 radii, is missing.
    expected = AREAS[shape] * RADIUS_PX**2
    assert expected - 9 * RADIUS_PX < covered < expected


def test_the_subject_is_where_it_should_be() -> None:
    rows, columns = np.nonzero(_of_colour(draw_frame(PLAIN_DRAW, 0.0), "purple"))
    assert abs(rows.mean() - 120) < 1
    assert abs(columns.mean() - 160) < 1


def test_a_sign_is_shown_for_its_time_only() -> None:
    scene = replace(PLAIN_DRAW, signs=(SignBoard("EXIT", start_s=1.0, end_s=2.0),))
    plain, renderer = Renderer(PLAIN_DRAW), Renderer(scene)
    changed = [bool((renderer.frame(t) != plain.frame(t)).any()) for t in (0.5, 1.0, 1.9, 2.0, 3.0)]
    assert changed == [False, True, True, False, False]


def test_other_entities_and_distractors_are_drawn() -> None:
    more = replace(PLAIN_DRAW, entities=(*PLAIN_DRAW.entities, Entity("star", "red", "small", x=-0.9, y=-0.9)))
    assert _of_colour(draw_frame(more, 0.0), "red").sum() > 300
    assert (draw_frame(replace(PLAIN_DRAW, distractors=5), 0.0) != draw_frame(PLAIN_DRAW, 0.0)).any()


def test_a_trembling_camera_shifts_the_whole_picture() -> None:
    scene = replace(PLAIN_DRAW, shake=0.05, seed=3)
    frames = [draw_frame(scene, t) for t in (0.0, 0.4, 0.9)]
    centres = [np.argwhere(_of_colour(frame, "purple")).mean(axis=0) for frame in frames]
    assert np.ptp(centres, axis=0).max() > 2


def test_a_clip_has_its_frames_at_its_rate() -> None:
    scene = replace(PLAIN_DRAW, activity="moves_left", duration_s=1.0, fps=10)
    frames = list(draw_clip(scene))
    assert len(frames) == 10
    assert all(frame.shape == (240, 320, 3) and frame.dtype == np.uint8 for frame in frames)
    assert (frames[7] == draw_frame(scene, 0.7)).all()


def test_another_process_draws_the_same_bytes() -> None:
    code = (
        "from hashlib import sha256; from evenreel.planted import *\n"
        "scene = Scene((Entity('heart', 'pink', 'medium'),), 'sways', 'city', (SignBoard('TAXI'),), 3, 0.02)\n"
        "print(sha256(draw_frame(scene, 1.3).tobytes()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    scene = Scene((Entity("heart", "pink", "medium"),), "sways", "city", (SignBoard("TAXI"),), 3, 0.02)
    assert there.strip() == sha256(draw_frame(scene, 1.3).tobytes()).hexdigest()


@pytest.mark.parametrize("background", sorted(vocabulary.backgrounds()))
def test_each_background_differs_by_seed_and_is_its_own(background: str) -> None:
    one = draw_frame(replace(PLAIN_DRAW, background=background), 0.0).astype(int)
    two = draw_frame(replace(PLAIN_DRAW, background=background, seed=1), 0.0).astype(int)
    assert (one != two).any()
    for other in set(vocabulary.backgrounds()) - {background}:
        away = draw_frame(replace(PLAIN_DRAW, background=other), 0.0).astype(int)
        assert np.abs(one - away).mean() > 10


# Files: the same bytes each time, and the pictures come back as they were drawn.


SCENE_WRITE = Scene(
    (Entity("star", "red", "large"),), "spins", "beach", (SignBoard("HARBOUR"),), 3, 0.02, duration_s=2.0, width=256
)


def test_two_runs_and_another_process_write_the_same_bytes(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from evenreel.planted import *\n"
        "write_scene(Path(sys.argv[1]), Scene((Entity('star', 'red', 'large'),), 'spins', 'beach',"
        " (SignBoard('HARBOUR'),), 3, 0.02, duration_s=2.0, width=256))"
    )
    paths = [tmp_path / f"{n}.mp4" for n in range(5)]
    for path in paths[1:]:
        write_scene(path, SCENE_WRITE)
    subprocess.run([sys.executable, "-c", code, str(paths[0])], check=True)
    assert len({sha256(path.read_bytes()).hexdigest() for path in paths}) == 1


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    write_scene(path, SCENE_WRITE)
    return path


def test_the_file_says_what_it_is(written: Path) -> None:
    with av.open(str(written)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.frames) == (256, 240, 24)
        assert stream.average_rate == Fraction(12)
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.codec_context.colorspace == 1


def test_the_pictures_come_back(written: Path) -> None:
    with av.open(str(written)) as container:
        decoded = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    drawn = [frame.astype(int) for frame in draw_clip(SCENE_WRITE)]
    assert len(decoded) == len(drawn)
    for there, here in zip(decoded, drawn, strict=True):
        assert np.abs(there - here).mean() < 5


def test_no_name_of_a_program_is_in_the_file(written: Path) -> None:
    """A version string would change the bytes with each release of FFmpeg."""
    assert b"Lavf" not in written.read_bytes()
