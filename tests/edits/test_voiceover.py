"""Words said over clips: whose they are, what is left of the clip's own sound, and what no edit changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import load_corpus, make_corpus
from evenreel.edits import clips, overlay
from evenreel.edits.clips import ClipEdit, ClipEditReport, edit_clips
from evenreel.edits.overlay import (
    OWN_SOUND,
    LentWords,
    Overlay,
    Voiceover,
    WordSettings,
    spoken_words,
)
from evenreel.edits.removal import Removal
from evenreel.edits.settings import ClipEditSettings, RemovalSettings
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.media import open_sound, open_video, parse_rule
from evenreel.speech import VOICES, synthesis
from evenreel.types import Corpus, FloatArray, Pixels
from tests.edits.test_overlay import corpus_of
from tests.sound_files import Track, burst_times, bursts, write_sound

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
