"""Words on clips and over them: whose they are, where they are, and what the control shares with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.corpus import load_corpus, make_corpus
from evenreel.corpus.counterparts import OVERLAYS
from evenreel.corpus.on_screen import make_texts
from evenreel.edits import clips, overlay
from evenreel.edits.clips import ClipEdit, ClipEditReport, edit_clips
from evenreel.edits.overlay import (
    DARK,
    LEAST_LINE_PX,
    MOST_LETTERS,
    MOST_LINES,
    OWN_SOUND,
    LentWords,
    Overlay,
    Voiceover,
    WordSettings,
    _font,
    distractor_words,
    drawable,
    laid_out,
    spoken_words,
)
from evenreel.edits.removal import Removal
from evenreel.edits.settings import ClipEditSettings, RemovalSettings
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.media import open_sound, open_video, parse_rule
from evenreel.speech import VOICES, synthesis
from evenreel.types import Corpus, FloatArray, Pixels
from tests.sound_files import Track, burst_times, bursts, write_sound

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


RATE = 16_000
TONE = (0.4 * np.sin(np.arange(RATE // 2) / 5)).astype(np.float32)
AS_IS = Removal(None, {}, RemovalSettings("motion", control=True))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is said and in which voice; all of it is half a second of a tone."""
    found: list[tuple[str, str]] = []

    def speak(text: str, voice: str) -> FloatArray:
        found.append((text, voice))
        return TONE

    monkeypatch.setattr(overlay, "speak_text", speak)
    monkeypatch.setattr(overlay, "can_speak", lambda: True)
    return found


# -- whose words -----------------------------------------------------------------------------------------


def test_a_clip_is_given_the_first_caption_of_another_clip_of_its_split(asked: list[tuple[str, str]]) -> None:
    plain = corpus_of({"a": "a  dog\nruns", "b": "bread is cut", "c": "a train"}, {"c": "val", "d": "val"})
    more = pl.DataFrame({"caption_id": ["a2"], "clip_id": ["a"], "text": ["something else"]})
    corpus = make_corpus(plain.clips, pl.concat([plain.captions.select("caption_id", "clip_id", "text"), more]))
    with pytest.raises(CorpusError, match="No clip has words that could be put onto the clip 'c'"):
        spoken_words(corpus)
    said = spoken_words(corpus_of({"a": "a  dog\nruns", "b": "bread is cut"}))
    assert (said.words, said.distractors) == ({"a": "bread is cut", "b": "a dog runs"}, {"a": "b", "b": "a"})
    assert list(said.notices) == [
        "Over 2 clips a voice says another clip's first caption, as far as the clip is long enough."
    ]
    lent = LentWords({}, {"a": "b", "b": "a"}, "overlay_of")
    overlaid = lent.mark(corpus_of({"a": "a dog", "b": "bread"}), "overlay")
    marked = said.mark(overlaid, "voiceover").clips
    assert marked["voiceover_of"].to_list() == ["b", "a"] and "overlay_of" not in marked.columns
    assert "voiceover_of" not in said.mark(said.mark(overlaid, "voiceover"), "voiceover-control").clips.columns


def test_what_cannot_be_said_is_not_lent_and_long_words_are_cut(asked: list[tuple[str, str]]) -> None:
    long = "word " * 100
    said = spoken_words(corpus_of({"a": long, "b": "bread", "c": "?!"}))
    assert said.distractors["b"] == "a" and {said.distractors["a"], said.distractors["c"]} <= {"a", "b"}
    assert said.words["b"] == "word " * 59 + "word", "300 letters, and no half word"
    assert [notice.partition(" clips ")[0] for notice in said.notices[1:]] == ["1 of 3", "1 of 3"]
    with pytest.raises(CorpusError, match="Not one of the 2 clips of the split 'test' has a caption that could be"):
        spoken_words(corpus_of({"a": "...", "b": "?"}))


def test_without_espeak_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "installed", lambda name: False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="Speaking needs espeak-ng: pip install espeakng-loader"):
        spoken_words(corpus_of({"a": "a dog", "b": "bread"}))
    with pytest.raises(UsageError, match="There is no edit 'song' of clips; there are: .*voiceover, voiceover-control"):
        WordSettings("song")  # type: ignore[arg-type]


# -- sound -----------------------------------------------------------------------------------------------


def test_the_own_sound_is_quiet_while_the_voice_speaks(asked: list[tuple[str, str]]) -> None:
    own = np.random.default_rng(0).uniform(-1, 1, RATE).astype(np.float32)
    over = Voiceover({"a": "bread is cut", "b": "bread is cut"}, WordSettings("voiceover"))
    mixed = over.edit_sound("a", own)
    expected = own.copy()
    for place, spoken in enumerate(TONE):
        expected[place] = np.clip(OWN_SOUND * own[place] + spoken, -1, 1)
    np.testing.assert_allclose(mixed, expected, atol=1e-6)
    np.testing.assert_array_equal(over.edit_sound("a", own[:100]), mixed[:100])
    assert asked == [asked[0]] * 2 and asked[0][0] == "bread is cut" and asked[0][1] in VOICES


def test_the_control_has_the_voice_of_the_edit_and_other_syllables(asked: list[tuple[str, str]]) -> None:
    words = {str(number): "bread is cut" for number in range(60)}
    for edit in ("voiceover", "voiceover-control"):
        for clip in words:
            Voiceover(words, WordSettings(edit, seed=3)).edit_sound(clip, TONE)
    said, babble = asked[:60], asked[60:]
    assert [voice for _, voice in said] == [voice for _, voice in babble]
    assert {voice for _, voice in said} == set(VOICES)
    assert {text for text, _ in said} == {"bread is cut"}
    assert len({text for text, _ in babble}) > 50 and all(len(text) == 12 for text, _ in babble)


# -- clips -----------------------------------------------------------------------------------------------


def film_corpus(folder: Path) -> Corpus:
    """Clip a is second 1 to 3 of a film that beeps at 0.5, 1.5 and 3.5 s, clip b a whole one without sound."""
    write_sound(folder / "a.mkv", [Track(bursts([0.5, 1.5, 3.5], 4.0), codec="flac")], pictures_s=4.0)
    write_sound(folder / "b.mp4", [], pictures_s=1.0)
    clips = pl.DataFrame(
        {"clip_id": ["a", "b"], "path": ["a.mkv", "b.mp4"], "start_s": [1.0, None], "end_s": [3.0, None]}
    )
    return make_corpus(
        clips, pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a dog", "bread"]})
    )


def written(corpus: Corpus, folder: Path, edit: ClipEdit) -> tuple[ClipEditReport, dict[str, Path]]:
    report = edit_clips(corpus, folder, edit, ClipEditSettings(folder.parent))
    rows = load_corpus(folder).clips.select("clip_id", "path").iter_rows()
    return report, {clip: folder / path for clip, path in rows}


def heard(path: Path) -> FloatArray | None:
    try:
        with open_sound(path) as sound:
            return np.concatenate([block.samples for block in sound.blocks()])
    except MediaError as error:
        assert error.reason == "no_sound"
        return None


def shown(path: Path) -> list[Pixels]:
    with open_video(path) as video:
        return [frame.pixels for frame in video.frames(parse_rule("every 0.05 s"))]


def test_edited_clips_keep_the_sound_of_their_part(tmp_path: Path) -> None:
    corpus = film_corpus(tmp_path)
    overlay = Overlay({"a": "bread", "b": "a dog"}, WordSettings("overlay"))
    for name, edit in {"as_is": AS_IS, "overlay": overlay}.items():
        report, paths = written(corpus, tmp_path / name, edit)
        assert (report.written, report.set_aside, report.notices) == (2, [], [])
        sound = heard(paths["a"])
        assert sound is not None and len(sound) / RATE == pytest.approx(2.0, abs=0.15)
        assert burst_times(sound) == pytest.approx([0.5], abs=0.05)
        assert heard(paths["b"]) is None


def test_a_voice_is_heard_over_clips_whose_pictures_stay(tmp_path: Path, asked: list[tuple[str, str]]) -> None:
    corpus = film_corpus(tmp_path)
    _, plain = written(corpus, tmp_path / "as_is", AS_IS)
    report, voiced = written(corpus, tmp_path / "over", Voiceover({"a": "b", "b": "a"}, WordSettings("voiceover")))
    assert (report.written, sorted(text for text, _ in asked)) == (2, ["a", "b"])
    for clip in "ab":
        assert all(np.array_equal(*both) for both in zip(shown(plain[clip]), shown(voiced[clip]), strict=True))
        sound = heard(voiced[clip])
        assert sound is not None
        loud = np.abs(sound) > 0.1
        assert loud[: RATE // 2].mean() > 0.7, "the tone of half a second"
        own = loud[round(0.53 * RATE) : round(0.58 * RATE)]
        assert (own.mean() > 0.5) == own.any() == (clip == "a"), "its own beep, behind the voice"
        assert not loud[round(0.7 * RATE) :].any()
    again, _ = written(corpus, tmp_path / "over", Voiceover({"a": "b", "b": "a"}, WordSettings("voiceover")))
    assert (again.written, again.unchanged) == (0, 2)
    with pytest.raises(CorpusError, match="holds clips that were edited otherwise"):
        written(corpus, tmp_path / "over", Voiceover({"a": "b", "b": "a"}, WordSettings("voiceover-control")))


def test_sound_that_cannot_be_read_counts_as_silence_and_is_told(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.avi", [Track(bursts([0.5], 1.0), codec="adpcm_yamaha")], pictures_s=1.0)
    corpus = film_corpus(tmp_path)
    clips = corpus.clips.with_columns(path=pl.Series(["a.avi", "b.mp4"]), start_s=None, end_s=None)
    report, paths = written(make_corpus(clips, corpus.captions), tmp_path / "out", AS_IS)
    assert (report.written, report.set_aside) == (2, [])
    (notice,) = report.notices
    assert notice.startswith(
        "The sound of 1 clip cannot be read and counts as silent; the first: a.avi: its sound codec"
    )
    assert heard(paths["a"]) is None and len(shown(paths["a"])) > 1


def test_sound_beyond_the_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "MOST_SOUND_S", 0.3)
    of_film = film_corpus(tmp_path).clips[:1].with_columns(start_s=None, end_s=None)
    write_sound(tmp_path / "a.mkv", [Track(bursts([0.1, 0.6], 1.0), codec="flac")], pictures_s=1.0)
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a dog"]})
    _, paths = written(make_corpus(of_film, captions), tmp_path / "out", AS_IS)
    sound = heard(paths["a"])
    assert sound is not None and burst_times(sound) == pytest.approx([0.1], abs=0.05)
