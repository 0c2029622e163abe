"""Words on clips: whose they are, that they can be read where they should be, and what the control shares with them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import OVERLAYS
from evenreel.corpus.on_screen import make_texts
from evenreel.edits.overlay import (
    DARK,
    LEAST_LINE_PX,
    MOST_LETTERS,
    MOST_LINES,
    Overlay,
    WordSettings,
    _font,
    distractor_words,
    drawable,
    laid_out,
)
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.types import Corpus, Pixels

GROUND = 120
LONG = "a man in a red shirt is slowly cutting bread in a small kitchen, then he smiles and waves at us"


def corpus_of(captions: dict[str, str], splits: dict[str, str] | None = None) -> Corpus:
    """A clip for each caption, under its id."""
    clips = pl.DataFrame({"clip_id": [*captions], "split": [(splits or {}).get(clip, "test") for clip in captions]})
    said = {"caption_id": [*captions], "clip_id": [*captions], "text": [*captions.values()]}
    return make_corpus(clips, pl.DataFrame(said))


def signs(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return make_texts([{"clip_id": clip, "text": text, "start_frame": start} for clip, text, start in rows])


def on_clip(text: str, edit: str = "overlay", size: tuple[int, int] = (120, 160)) -> Pixels:
    """(T, 3, H, W) frames of a grey clip with a banner."""
    pixels = np.full((3, 3, *size), GROUND, np.uint8)
    return Overlay({"a": text}, WordSettings(edit, seed=1))("a", pixels)  # type: ignore[arg-type]


def ink(pixels: Pixels) -> np.ndarray:
    """(height, W) where the banner of the first frame is written on."""
    rows = (pixels[0, 0] != GROUND).any(axis=1)
    return np.asarray(pixels[0, 0][rows] > DARK + 60)


def test_words_on_screen_are_lent_in_their_order_and_captions_where_there_are_none() -> None:
    corpus = corpus_of({"a": "a shop", "b": "a café"})
    assert list(distractor_words(corpus, None).notices) == [
        "0 of 2 clips carry what is on another clip's screen, 2 another clip's first caption."
    ]
    texts = signs(("a", "open", 40), ("a", "Bakery", 0), ("a", "open", 60), ("elsewhere", "exit", 0))
    lent = distractor_words(corpus, texts)
    assert lent.words == {"a": "a cafe", "b": "Bakery open"}
    assert lent.distractors == {"a": "b", "b": "a"}
    assert [*lent.notices] == ["1 of 2 clips carry what is on another clip's screen, 1 another clip's first caption."]
    assert lent.mark(corpus, "overlay").clips["overlay_of"].to_list() == ["b", "a"]
    marked = lent.mark(corpus, "overlay")
    assert "overlay_of" not in lent.mark(marked, "overlay-control").clips.columns


def test_letters_that_cannot_be_written_are_told() -> None:
    lent = distractor_words(
        corpus_of({"a": "a shop", "b": "東京", "c": "a tower"}), signs(("a", "出口", 0), ("c", "Gate 出口", 0))
    )
    assert set(lent.words.values()) == {"a shop", "Gate"}
    assert "b" not in lent.distractors.values()
    shown = Counter(lent.distractors.values())["c"]
    assert [*lent.notices] == [
        f"{shown} of 3 clips carry what is on another clip's screen, {3 - shown} another clip's first caption.",
        "What Pillow's own font lacks is left out of what 3 of 3 clips lend, words with such a letter whole; accents "
        "are taken off.",
        "1 of 3 clips have no words that could be written; they lend none.",
    ]


def test_words_in_another_script_are_named_as_the_reason() -> None:
    with pytest.raises(
        CorpusError,
        match=r"Not one of the 2 clips of the split 'test' has .*: Pillow's own font writes Latin letters alone\. Give",
    ):
        distractor_words(corpus_of({"a": "одна собака", "b": "一只猫"}), signs(("a", "出口", 0)))


def test_a_word_is_written_whole_or_not_at_all() -> None:
    """But for accents and marks: a word without one of its letters is another word."""
    plain = {"Straße": "Strasse", "Ærø": "AEro", "Łódź": "Lodz", "ǿ": "o", "½ — m²": "1/2 - m2", "€5": "5"}
    assert {word: drawable(word) for word in plain} == plain
    assert drawable("Gate μm Ж4 出口 ☆ 7") == "Gate 7"


def test_nobody_lends_to_another_split_or_to_a_clip_of_the_same_words() -> None:
    captions = {"a": "a dog", "b": "A dog", "c": "a cat", "d": "a cow"}
    splits = {"d": "train"}
    with pytest.raises(CorpusError, match="No clip has words that could be put onto the clip 'd'"):
        distractor_words(corpus_of(captions, splits), None)
    lent = distractor_words(corpus_of({clip: captions[clip] for clip in "abc"}), None)
    assert lent.distractors["a"] == lent.distractors["b"] == "c"
    assert lent.distractors["c"] in ("a", "b")


@pytest.mark.parametrize("seed", range(6))
def test_words_mislead_whatever_else_the_clips_share(seed: int) -> None:
    """Neither the words that a clip shows anyway, nor those of a clip that the same caption is about."""
    shown = distractor_words(
        corpus_of({"a": "one", "b": "two", "c": "three"}), signs(("a", "EXIT now", 0), ("b", "exit", 0)), seed
    )
    assert shown.distractors["a"] == "c"
    alike = distractor_words(
        corpus_of({"a": "one", "b": "One ", "c": "three"}), signs(("a", "EXIT", 0), ("b", "gate", 0)), seed
    )
    assert alike.distractors["a"] == alike.distractors["b"] == "c"


@given(count=st.integers(2, 12), seed=st.integers(0, 50))
@limits(max_examples=20)
def test_every_clip_lends_about_as_often_and_never_to_itself(count: int, seed: int) -> None:
    corpus = corpus_of({f"c{number}": f"thing{number}" for number in range(count)})
    lent = distractor_words(corpus, None, seed)
    assert all(own != other and lent.words[own] == f"thing{other[1:]}" for own, other in lent.distractors.items())
    assert max(Counter(lent.distractors.values()).values()) <= 2
    assert lent == distractor_words(corpus, None, seed)


def test_long_words_are_cut_between_two_of_them() -> None:
    clips = corpus_of({"a": "one two three four five six " * 10, "b": "short"})
    text = distractor_words(clips, None).words["b"]
    assert MOST_LETTERS - 6 < len(text) <= MOST_LETTERS
    assert set(text.split()) <= {"one", "two", "three", "four", "five", "six"}
    assert "1 of 2 clips lend no more than the first 90 letters." in distractor_words(clips, None).notices
    assert distractor_words(corpus_of({"a": "x" * 200, "b": "short"}), None).words["b"] == "x" * MOST_LETTERS
    exact = " ".join(["x" * 44, "y" * 45, "z"])
    assert distractor_words(corpus_of({"a": exact, "b": "short"}), None).words["b"] == exact[:MOST_LETTERS]


@given(text=st.text(max_size=60))
@limits(max_examples=20)
def test_what_can_be_written_stays_as_it_is(text: str) -> None:
    once = drawable(text)
    assert drawable(once) == once == " ".join(once.split())
    assert drawable("Plain letters, 24 h!") == "Plain letters, 24 h!"


@pytest.mark.parametrize("size", [(36, 48), (120, 160), (240, 426), (720, 1280)])
@pytest.mark.parametrize("text", ["Bakery", LONG, "W" * 80])
def test_only_the_lowest_rows_change_and_all_frames_alike(size: tuple[int, int], text: str) -> None:
    for edit in OVERLAYS:
        pixels = on_clip(text, edit, size)
        height = max(LEAST_LINE_PX, round(0.2 * size[0]))
        assert (pixels[:, :, : size[0] - height] == GROUND).all()
        assert (pixels == pixels[:1, :1]).all()
        written = ink(pixels)
        assert written.shape == (height, size[1]) and written.any()
        assert not written[:, 0].any() and not written[:, -1].any()


def test_words_take_as_few_lines_as_they_need() -> None:
    assert laid_out("Bakery", (48, 320)).lines == ("Bakery",)
    long = laid_out(LONG, (48, 320))
    assert " ".join(long.lines) == LONG and 1 < len(long.lines) <= MOST_LINES
    cut = laid_out(LONG, (24, 100))
    assert len(cut.lines) == 2 and LONG.startswith(" ".join(cut.lines)) and cut.line_px == LEAST_LINE_PX


@pytest.mark.parametrize("size", [(24, 64), (36, 100), (60, 320), (180, 320)])
@pytest.mark.parametrize(
    "word", ["extraordinarily", "Donaudampfschifffahrtsgesellschaft", "www." + "a-long-address." * 5]
)
def test_a_long_word_is_written_smaller_and_then_on_several_lines(word: str, size: tuple[int, int]) -> None:
    """Letters keep their proportions: squeezed into one line of the largest letters they could not be read."""
    layout = laid_out(f"{word} here", size)
    font = _font(layout.line_px)
    assert all(font.getlength(line) <= size[1] for line in layout.lines)
    assert len(layout.lines) * layout.line_px <= size[0]
    said = "".join(layout.lines).replace(" ", "")
    assert f"{word}here".startswith(said)
    if size[1] == 320:
        assert said == f"{word}here"
    assert laid_out(word, (180, 320)).line_px > LEAST_LINE_PX


def test_the_control_writes_other_letters_over_the_same_boxes() -> None:
    words, control = (
        ink(on_clip("the bakery at the corner")),
        ink(on_clip("the bakery at the corner", "overlay-control")),
    )
    assert (words != control).mean() > 0.02
    assert 0.6 < words.sum() / control.sum() < 1.6
    bakery = np.flatnonzero(ink(on_clip("Bakery")).any(axis=0))
    assert 0.35 < (bakery[-1] - bakery[0]) / 160 < 0.6
    for side in (0, -1):
        taken = [np.flatnonzero(one.any(axis=0))[side] for one in (words, control)]
        assert abs(taken[0] - taken[1]) <= 3


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UsageError, match="There is no edit 'sticker' of clips; there are: overlay, overlay-control"):
        WordSettings("sticker")  # type: ignore[arg-type]
    with pytest.raises(MediaError, match="35 pixels high, and a banner that can be read needs 36"):
        on_clip("Bakery", size=(35, 64))
