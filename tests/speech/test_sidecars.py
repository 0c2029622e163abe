"""Names of subtitle files, worked by hand from what players document."""

from __future__ import annotations

import unicodedata

from evenreel.media.sampling import language_tag
from evenreel.speech.subtitles import is_subtitle, sidecars_of


def belonging(videos: list[str], names: list[str]) -> dict[str, list[tuple[str, str | None]]]:
    found = sidecars_of([f"/v/{name}" for name in videos], [f"/v/{name}" for name in names])
    return {video[3:]: [(one.path[3:], one.language) for one in several] for video, several in found.items()}


def test_names_say_the_language_as_players_have_it() -> None:
    expected = {
        "film.srt": None,
        "film.en.srt": "en",
        "film.ENG.Srt": "en",
        "film.pt-BR.forced.srt": "pt-BR",
        "film.pt_br.vtt": "pt-BR",
        "film.en.sdh.vtt": "en",
        "film.en.hi.ass": "en",
        "film.hi.srt": "hi",
        "film.forced.ssa": None,
        "film.default.ger.srt": "de",
        "film.Director's cut.fr.srt": "fr",
        "film.zh-Hans.srt": "zh-Hans",
        "film.1080p.x264.srt": None,
        "film.mp4.es.srt": "es",
        "Subs/film.cs.srt": "cs",
        "subtitles/film.srt": None,
    }
    assert belonging(["film.mp4"], list(expected)) == {"film.mp4": sorted(expected.items())}


def test_a_file_is_of_the_video_with_the_longest_name() -> None:
    videos = ["film.mkv", "film.part2.mkv", "film.mp4", "filmed.mkv"]
    names = ["film.srt", "film.part2.srt", "film.part2.en.srt", "film.part3.srt", "filmed.srt", "other.srt", "fil.srt"]
    assert belonging(videos, names) == {
        "film.mkv": [("film.part3.srt", None), ("film.srt", None)],
        "film.mp4": [("film.part3.srt", None), ("film.srt", None)],
        "film.part2.mkv": [("film.part2.en.srt", "en"), ("film.part2.srt", None)],
        "filmed.mkv": [("filmed.srt", None)],
    }
    assert belonging(["film.mkv", "film.mp4"], ["film.mp4.srt"]) == {"film.mp4": [("film.mp4.srt", None)]}


def test_files_of_other_folders_are_not_taken() -> None:
    assert belonging(["a/film.mkv"], ["film.srt", "b/film.srt", "a/b/film.srt", "subs/film.srt", "a/subs/x.srt"]) == {}


def test_accents_and_capital_letters_do_not_count() -> None:
    apart = unicodedata.normalize("NFD", "Café.mkv")
    assert belonging([apart], ["café.SRT"]) == {apart: [("café.SRT", None)]}
    assert [is_subtitle(name) for name in ("a.srt", "a.SSA", "a.b.vtt", "a.txt", "srt", "a.sub")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_language_tags_take_one_form() -> None:
    said = {"en": "en", "eng": "en", "fre": "fr", "fra": "fr", "pt_br": "pt-BR", "zh-hans": "zh-Hans", "chi": "zh"}
    assert {written: language_tag(written) for written in said} == said
    assert [language_tag(written) for written in (None, "", "und", "zxx", "klingon?", "1080p", "qq")] == [None] * 7
