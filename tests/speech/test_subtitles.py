from __future__ import annotations

import itertools
import unicodedata
from contextlib import closing
from pathlib import Path

import av
import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.library.index.stages import SUBTITLE_READER
from evenreel.media.sampling import language_tag
from evenreel.media.workers import Worker
from evenreel.speech import Subtitles, Utterance, parse_subtitles
from evenreel.speech.streams import read_streams
from evenreel.speech.subtitles import (
    LARGEST_BYTES,
    MOST_CUES,
    as_srt,
    as_text,
    as_vtt,
    is_subtitle,
    read_with,
    sidecars_of,
)
from tests.each import check_each
from tests.media_files import Film, steady, write_film
from tests.speech.subtitle_files import (
    ENCODINGS,
    FORMATS,
    FRENCH,
    RUSSIAN,
    Line,
    Spoken,
    film_with_subtitles,
    reference_cues,
    written,
)


def cues(utterances: tuple[Utterance, ...]) -> list[Spoken]:
    return [(one.start_s, one.end_s, one.text) for one in utterances]


def spoken_lines(texts: tuple[str, ...], count: int = 12) -> list[Line]:
    """Cues of one and of two lines, with pauses."""
    return [
        Line(1_000 + 2_500 * n, 3_000 + 2_500 * n, texts[n % 3] + (f"\n{texts[(n + 1) % 3]}" if n % 4 == 1 else ""))
        for n in range(count)
    ]


def test_cues_are_those_of_other_parsers_in_every_format_encoding_and_line_end(tmp_path: Path) -> None:
    def check(case: tuple[str, str, str]) -> None:
        suffix, encoding, end = case
        text = written(suffix, spoken_lines(ENCODINGS[encoding]))
        expected = reference_cues(tmp_path / f"film{suffix}", text)
        found = parse_subtitles(text.replace("\n", end).encode(encoding), suffix)
        assert found.notes == ()
        assert len(expected) == 12
        assert rounded(cues(found.utterances)) == rounded(expected)

    check_each(itertools.product(FORMATS, ENCODINGS, ("\n", "\r\n")), check)


def rounded(spoken: list[Spoken]) -> list[Spoken]:
    return [(round(start_s, 4), round(end_s, 4), words) for start_s, end_s, words in spoken]


def test_utf16_is_told_by_its_zeros_and_utf8_with_a_damaged_letter_stays_utf8_and_says_so() -> None:
    for order in ("utf-16-le", "utf-16-be"):
        found = parse_subtitles(written(".srt", spoken_lines(FRENCH)).encode(order), ".srt")
        assert (found.utterances[0].text, found.notes) == (FRENCH[0], ())
    data = written(".srt", spoken_lines(FRENCH, 60)).encode().replace("é".encode(), b"\xc3", 1)
    found = parse_subtitles(data, ".srt")
    assert found.utterances[2].text == FRENCH[2]
    assert found.notes == ("some of its letters are damaged",)


def test_content_counts_before_the_name() -> None:
    for suffix in FORMATS:
        for name in FORMATS:
            found = parse_subtitles(written(suffix, spoken_lines(FRENCH)).encode(), name)
            assert found.utterances[0].text == FRENCH[0], (suffix, name)


def test_speakers_are_those_of_voices_and_of_names() -> None:
    lines = [Line(0, 900, "Hello.", "Ann Lee"), Line(1000, 1900, "Good day.")]
    for suffix in (".vtt", ".ass", ".ssa"):
        found = parse_subtitles(written(suffix, lines).encode(), suffix).utterances
        assert [(one.text, one.speaker) for one in found] == [("Hello.", "Ann Lee"), ("Good day.", None)]
    two = b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Ann>Hi\n<v Bob &amp; Co>Ho\n"
    assert parse_subtitles(two, ".vtt").utterances[0].speaker == "Ann, Bob & Co"


def one_text(text: str, suffix: str = ".srt") -> list[str]:
    return [one.text for one in parse_subtitles(text.encode(), suffix).utterances]


def test_styles_places_and_karaoke_are_no_words() -> None:
    head = "1\n00:00:01,000 --> 00:00:02,000 X1:100 X2:200\n"
    assert one_text(head + '{\\an8}<font color="#fff">Two <b>words</b></font>\n') == ["Two words"]
    assert one_text(head + "3 < 4 > 2, {laughs}\n") == ["3 < 4 > 2, {laughs}"]
    timed = "WEBVTT\n\n00:01.000 --> 00:02.000 line:0\n<00:01.200><c.yellow>la</c> <ruby>li<rt>lu</rt></ruby> &lt;3\n"
    assert one_text(timed, ".vtt") == ["la lilu <3"]
    event = "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,"
    assert one_text(f"[Events]\n{event}{{\\k20}}la{{\\pos(3,4)}} li\\hlo, lu\n", ".ass") == ["la li lo, lu"]


def test_music_drawings_comments_and_layers_are_left_out() -> None:
    times = "0,0:00:01.00,0:00:02.00,Default,,0,0,0,,"
    text = f"[Events]\nDialogue: {times}said\nDialogue: 1,{times[2:]}said\nDialogue: {times}{{\\p1}}m 0 0 l 3 4\n"
    assert one_text(f"{text}Comment: {times}unsaid\n", ".ass") == ["said"]
    both = "1\n00:00:01,000 --> 00:00:02,000\n♪ ♪\n\n2\n00:00:03,000 --> 00:00:04,000\n[door slams]\n"
    assert one_text(both) == ["[door slams]"]


def test_words_that_are_numbers_or_hold_blank_lines_are_kept() -> None:
    assert one_text("1\n00:00:01,000 --> 00:00:02,000\nIt is\n\nmine\n12\n\n2\n00:00:03,000 --> 00:00:04,000\n7\n") == [
        "It is mine 12",
        "7",
    ]
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n12\n\nintro\n00:03.000 --> 00:04.000\n\nnext\n00:05.000 --> 00:06.000\n7"
    assert one_text(text, ".vtt") == ["12", "7"]


@pytest.mark.parametrize(
    ("suffix", "lines", "words"),
    [
        (".srt", "play from 00:00:10,000 to 00:00:12,000 please", "play from 00:00:10,000 to 00:00:12,000 please"),
        (".vtt", "one<00:01.500> two<00:02.000> three", "one two three"),
        (".vtt", " \nalpha\n \nwords", "alpha words"),
        (".vtt", "THAT LANTERN -->> THEY WILL\nCONTINUE", "THAT LANTERN -->> THEY WILL CONTINUE"),
        (".srt", "Go left --> then right\nand stop", "Go left --> then right and stop"),
        (".srt", "salt &amp; pepper &lt;3 it&#39;s AT&T", "salt & pepper <3 it's AT&T"),
        (".srt", "1984\n", "1984"),
    ],
)
def test_hazard_220_no_line_of_words_is_taken_for_times(suffix: str, lines: str, words: str) -> None:
    head = "WEBVTT\n\n" if suffix == ".vtt" else ""
    for arrow in ("-->", "–>", "-–>"):
        text = f"{head}00:00:01.000 {arrow} 00:00:03.000\n{lines}\n\n00:00:05.000 --> 00:00:07.000\nsecond\n"
        found = parse_subtitles(text.encode(), suffix)
        assert (cues(found.utterances), found.notes) == ([(1.0, 3.0, words), (5.0, 7.0, "second")], ())


@pytest.mark.parametrize("blank", [" \n", ""])  # as a video site writes it, and as converters leave it
@pytest.mark.parametrize("suffix", [".vtt", ".srt"])
def test_hazard_221_lines_that_roll_up_are_said_once(suffix: str, blank: str) -> None:
    spoken = [f"n{number} " + "la " * (number % 7) + "<i>it</i> &amp; more" for number in range(40)]
    text, before = "WEBVTT\n\n" if suffix == ".vtt" else "", blank
    for number, line in enumerate(spoken):
        start, end = f"00:0{number // 10}:{number % 10 * 6:02}.000", f"00:0{number // 10}:{number % 10 * 6 + 5:02}.990"
        text += f"{start} --> {end}\n{before}{line}\n\n{end} --> {end[:-1]}9\n{line}\n{blank}\n"
        before = f"{line}\n" if number % 10 < 8 else blank
    said = [(6.0 * n, line.replace("<i>it</i> &amp;", "it &")) for n, line in enumerate(spoken)]
    assert [(one.start_s, one.text) for one in parse_subtitles(text.encode(), suffix).utterances] == said
    again = written(suffix, [Line(0, 2000, "No."), Line(2000, 4000, "No.")])
    assert len(parse_subtitles(again.encode(), suffix).utterances) == 2


def test_broken_cues_are_left_out_and_counted() -> None:
    good = "1\n00:00:01,000 --> 00:00:02,000\nfirst\n\n"
    for bad in (
        "2\n00:00:0x,000 --> 00:00:04,000\nlost\n\n",
        "2\n00:00:05,000 --> 00:00:04,000\nback in time\n\n",
        "2\n1000:00:00,000 --> 1000:00:01,000\nafter a thousand hours\n\n",
        "2\n00:00:05,000 --> -00:00:06,000\nends below zero\n\n",
        "2\n00:00:05,000 -->\nwithout an end\n\n",
        f"2\n00:00:03,000 --> 00:00:04,000\n{'endless ' * 700}\n\n",
    ):
        found = parse_subtitles((good + bad + "3\n00:00:07,000 --> 00:00:08,000\nlast\n").encode(), ".srt")
        assert [one.text for one in found.utterances] == ["first", "last"], bad[:60]
        assert found.notes == ("1 of 3 cues could not be read and were left out",), bad[:60]
    event = "Dialogue: 0,{},0:00:02.00,Default,,0,0,0,,{}\n"
    events = "".join(itertools.starmap(event.format, [("0:00:01.00", "said"), ("soon", "lost"), ("9" * 5000, "lost")]))
    found = parse_subtitles(events.encode(), ".ass")
    assert [one.text for one in found.utterances] == ["said"]
    assert found.notes == ("2 of 3 cues could not be read and were left out",)


def test_cues_out_of_order_are_sorted_and_starts_below_zero_are_zero() -> None:
    text = (
        "1\n00:00:09,000 --> 00:00:10,000\nlater\n\n2\n00:00:03,000 --> 00:00:04,500\nsooner\n\n"
        "3\n-00:00:01,000 --> 00:00:02,000\nbefore\n"
    )
    found = parse_subtitles(text.encode(), ".srt").utterances
    assert cues(found) == [(0.0, 2.0, "before"), (3.0, 4.5, "sooner"), (9.0, 10.0, "later")]


def test_what_is_no_subtitles_is_refused_in_a_sentence() -> None:
    lots = "1\n00:00:01,000 --> 00:00:02,000\nla\n\n" * (MOST_CUES + 1)
    for data, reason, words in (
        (b"", "empty", "is empty"),
        (b"\xef\xbb\xbf \r\n", "empty", "is empty"),
        (b"a letter to my aunt", "not_media", "no cue"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "not_media", "no cue"),
        (b"x" * (LARGEST_BYTES + 1), "too_large", "at most 10 MiB"),
        (lots.encode(), "too_large", "at most 100,000"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\n\xe2\x99\xaa\n", "not_media", "no cue"),
    ):
        with pytest.raises(MediaError, match=words) as raised:
            parse_subtitles(data, ".srt")
        assert raised.value.reason == reason


@given(
    st.sampled_from(FORMATS),
    st.one_of(
        st.binary(max_size=400),
        st.lists(
            st.sampled_from(
                [b"1\n", b"\n", b"00:00:01,000 --> 00:00:02,000\n", b"-->", b"00:01.000 --> 00:00.500\n", b"WEBVTT\n"]
                + [b"Dialogue: 0,0:00:01.00,0:00:02.00,D,N,0,0,0,,a", b"<v A>", b"{\\p1}", b"\xff\xfe", b"\0", b"word "]
            ),
            max_size=30,
        ).map(b"".join),
    ),
)
def test_whatever_is_read_is_sound_or_refused(suffix: str, data: bytes) -> None:
    try:
        found = parse_subtitles(data, suffix, "en").utterances
    except MediaError:
        return
    assert found
    assert [(one.start_s, one.end_s) for one in found] == sorted((one.start_s, one.end_s) for one in found)
    assert len(set(found)) == len(found)
    for one in found:
        assert 0 <= one.start_s <= one.end_s < 100 * 3600 * 100
        assert one.text == " ".join(one.text.split())
        assert one.text.isprintable()
        assert any(map(str.isalnum, one.text))
        assert (one.source, one.language) == ("sidecar", "en")


LINES = [Line(200, 900, FRENCH[0]), Line(1000, 1900, f"{FRENCH[1]}\n{RUSSIAN[0]}", "Ann")]


def subtitle_file(folder: Path, suffix: str) -> Path:
    path = folder / f"cues{suffix}"
    path.write_text(written(suffix, LINES), encoding="utf-8")
    return path


def streams_of(path: Path) -> list[Subtitles]:
    return [found for found in read_streams(path) if found is not None]


@pytest.mark.parametrize("first_ms", [0, 5000])
def test_streams_of_text_say_what_their_files_say(tmp_path: Path, first_ms: int) -> None:
    made = [(subtitle_file(tmp_path, suffix), code) for suffix, code in ((".srt", "fre"), (".ass", "rus"))]
    path = film_with_subtitles(tmp_path / "film.mkv", made, first_ms)
    found = streams_of(path)
    assert [one.utterances[0].language for one in found] == ["fr", "ru"]
    for (file, _), one in zip(made, found, strict=True):
        expected = reference_cues(tmp_path / f"again{file.suffix}", written(file.suffix, LINES))
        assert one.notes == ()
        assert [(cue.text, cue.source) for cue in one.utterances] == [(words, "stream") for _, _, words in expected]
        for cue, (start_s, end_s, _) in zip(one.utterances, expected, strict=True):
            assert (cue.start_s, cue.end_s) == pytest.approx((start_s, end_s), abs=0.002)
    assert [cue.speaker for cue in found[1].utterances] == [None, "Ann"]


def test_webvtt_and_timed_text_streams_are_read(tmp_path: Path) -> None:
    made = film_with_subtitles(tmp_path / "film.webm.mkv", [(subtitle_file(tmp_path, ".vtt"), "fre")])
    (found,) = streams_of(made)
    assert [cue.text for cue in found.utterances] == [FRENCH[0], f"{FRENCH[1]} {RUSSIAN[0]}"]
    assert found.utterances[1].speaker == "Ann"
    (timed,) = streams_of(film_with_subtitles(tmp_path / "film.mp4", [], 0, RUSSIAN[1]))
    assert [(cue.text, cue.start_s, cue.end_s) for cue in timed.utterances] == [(RUSSIAN[1], 1.0, 2.0)]
    with av.open(str(tmp_path / "film.mp4")) as container:  # the decoder of FFmpeg agrees
        decoded = [cue.dialogue for cue in container.decode(subtitles=0)]
    assert decoded == [RUSSIAN[1].encode()]


def test_a_video_without_subtitles_has_none_and_what_is_no_video_is_refused(tmp_path: Path) -> None:
    assert streams_of(write_film(tmp_path / "plain.mp4", Film(steady(5)))) == []
    for name, content in (
        ("list.mp4", b"ffconcat version 1.0\nfile plain.mp4\n"),
        ("cues.srt", b"1\n"),
        ("no.mkv", b""),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(MediaError):
            streams_of(tmp_path / name)


def test_a_film_that_is_cut_short_gives_the_cues_that_are_there(tmp_path: Path) -> None:
    path = film_with_subtitles(tmp_path / "film.mkv", [(subtitle_file(tmp_path, ".srt"), "eng")])
    whole = path.read_bytes()
    for share in range(1, 10):
        path.write_bytes(whole[: len(whole) * share // 10])
        try:
            found = streams_of(path)
        except MediaError:
            continue
        assert {cue.text for one in found for cue in one.utterances} <= {FRENCH[0], f"{FRENCH[1]} {RUSSIAN[0]}"}


def test_a_worker_reads_files_and_streams_as_they_are_read_here(tmp_path: Path) -> None:
    file = subtitle_file(tmp_path, ".vtt")
    film = film_with_subtitles(tmp_path / "film.mkv", [(file, "ger")])
    with closing(Worker(SUBTITLE_READER, {"threads": 1}, MediaLimits())) as worker:
        (beside,) = read_with(worker, str(file), {"language": "pt-BR"})
        assert [(cue.text, cue.language, cue.speaker) for cue in beside.utterances] == [
            (FRENCH[0], "pt-BR", None),
            (f"{FRENCH[1]} {RUSSIAN[0]}", "pt-BR", "Ann"),
        ]
        assert read_with(worker, str(film)) == streams_of(film)
        for name in ("gone.srt", "."):
            with pytest.raises(MediaError) as raised:
                read_with(worker, str(tmp_path / name), {"language": None})
            assert raised.value.reason == "unreadable"
        large = tmp_path / "large.srt"
        with large.open("wb") as hole:
            hole.truncate(50 * 2**20)
        with pytest.raises(MediaError, match="50 MiB; at most 10 MiB"):
            read_with(worker, str(large), {"language": None})


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


def test_a_file_is_of_the_video_of_its_folder_with_the_longest_name() -> None:
    assert belonging(["a/film.mkv"], ["film.srt", "b/film.srt", "a/b/film.srt", "subs/film.srt", "a/subs/x.srt"]) == {}
    videos = ["film.mkv", "film.part2.mkv", "film.mp4", "filmed.mkv"]
    names = ["film.srt", "film.part2.srt", "film.part2.en.srt", "film.part3.srt", "filmed.srt", "other.srt", "fil.srt"]
    assert belonging(videos, names) == {
        "film.mkv": [("film.part3.srt", None), ("film.srt", None)],
        "film.mp4": [("film.part3.srt", None), ("film.srt", None)],
        "film.part2.mkv": [("film.part2.en.srt", "en"), ("film.part2.srt", None)],
        "filmed.mkv": [("filmed.srt", None)],
    }
    assert belonging(["film.mkv", "film.mp4"], ["film.mp4.srt"]) == {"film.mp4": [("film.mp4.srt", None)]}


def test_accents_and_capital_letters_do_not_count() -> None:
    apart = unicodedata.normalize("NFD", "Café.mkv")
    assert belonging([apart], ["café.SRT"]) == {apart: [("café.SRT", None)]}
    assert all(map(is_subtitle, ("a.srt", "a.SSA", "a.b.vtt")))
    assert not any(map(is_subtitle, ("a.txt", "srt", "a.sub")))


def test_language_tags_take_one_form() -> None:
    said = {"en": "en", "eng": "en", "fre": "fr", "fra": "fr", "pt_br": "pt-BR", "zh-hans": "zh-Hans", "chi": "zh"}
    assert {written: language_tag(written) for written in said} == said
    assert [language_tag(written) for written in (None, "", "und", "zxx", "klingon?", "1080p", "qq")] == [None] * 7


SAID = (
    Utterance("Good morning, {all} of <you> & me --> here", 0.2, 3599.9996, "sidecar", "en", speaker="Ann & Bob"),
    Utterance("次の駅", 3600.0, 3601.25, "stream"),
    Utterance("12", 3601.25, 3601.25, "sidecar", speaker="Ann & Bob"),
)


def test_subrip_is_what_another_parser_reads() -> None:
    found = [(c.index, c.start.total_seconds(), c.end.total_seconds(), c.content) for c in srt.parse(as_srt(SAID))]
    assert found == [
        (1, 0.2, 3600.0, "Ann & Bob: Good morning, {all} of <you> & me -> here"),
        (2, 3600.0, 3601.25, "次の駅"),
        (3, 3601.25, 3601.25, "Ann & Bob: 12"),
    ]


def test_webvtt_is_what_another_parser_reads(tmp_path: Path) -> None:
    (tmp_path / "said.vtt").write_text(as_vtt(SAID), encoding="utf-8")
    found = [(one.start, one.end, one.voice, one.text) for one in webvtt.read(str(tmp_path / "said.vtt")).captions]
    assert found == [
        ("00:00:00.200", "01:00:00.000", "Ann &amp; Bob", "Good morning, {all} of &lt;you&gt; &amp; me --&gt; here"),
        ("01:00:00.000", "01:00:01.250", None, "次の駅"),
        ("01:00:01.250", "01:00:01.250", "Ann &amp; Bob", "12"),
    ]


def test_text_names_a_speaker_once_for_what_is_said_in_a_row() -> None:
    said = [Utterance(words, 0.0, 1.0, "sidecar", speaker=who) for words, who in (("a", "A"), ("b", "A"), ("c", None))]
    assert as_text([*said, Utterance("d", 0.0, 1.0, "sidecar", speaker="A")]) == "A: a\nb\nc\nA: d\n"
    assert as_text([]) == ""
