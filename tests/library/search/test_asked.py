from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.errors import UsageError
from evenreel.language.folding import content_words, words
from evenreel.library import index_folders
from evenreel.library.search.query import Query, UnfinishedText, read_query
from evenreel.library.search.result import Hit, SearchResult
from evenreel.library.search.searcher import NOTHING_SEEN, Searcher
from evenreel.library.search.words import marks
from evenreel.library.store.fulltext import index_clip_text, rebuild_full_text
from evenreel.library.store.vectors import FITS
from evenreel.library.store.writer import put_rows, speech_rows
from evenreel.speech import Transcript, Utterance
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, without_models
from tests.library.fakes import Library, WordsEncoder, empty_catalog, finish, word_hits
from tests.library.videos import write_folder
from tests.speech.subtitle_files import Line, written


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    """'red bus' is in a frame of one clip, a sign of another, an utterance of a third, a name of a fourth."""
    library = Library(tmp_path)
    for clip in ("seen", "shown", "said", "named"):
        library.add_clip(clip, ["red bus" if clip == "seen" else "snow mountain"])
        library.add_file("/v/red_bus.mp4" if clip == "named" else f"/v/{clip}.mp4", clip)
    library.add_track("shown", "THE RED BUS")
    library.add_track("seen", "BUS, and red")
    spoken = [Utterance("Take the red bus!", 1.0, 2.0, "sidecar")]
    put_rows(library.connection, "said", speech_rows("said", [Transcript("sidecar", "a.srt", tuple(spoken))]))
    return finish(library)


def of(result: SearchResult, channel: str) -> list[str]:
    return [hit.clip_id for hit in result.hits if channel in hit.scores]


def test_words_in_quotes_are_found_as_they_are_and_by_no_picture(searcher: Searcher) -> None:
    found = searcher.search(Query('"Red bus"'))
    assert {hit.clip_id for hit in found.hits} == {"shown", "said", "named"}
    assert {(hit.weaker, hit.written) for hit in found.hits} == {(False, 1.0)}
    assert of(found, "seen") == []
    assert found.query == '"Red bus"'
    sign = next(hit for hit in found.hits if hit.clip_id == "shown").on_screen[0]
    assert [sign.text[slice(*mark)] for mark in marks(sign.text, sign.matched, sign.found)] == ["RED BUS"]
    assert {hit.clip_id for hit in searcher.search(Query('"the red bus"')).hits} == {"shown", "said"}
    assert searcher.search(Query('"bus red"')).hits == ()


@pytest.mark.parametrize(
    ("query", "channel", "clips"),
    [
        ("said: red bus", "said", {"said"}),
        ('SAID:"red bus"', "said", {"said"}),
        ("on-screen: red bus", "on_screen", {"shown", "seen"}),
        ("on-screen: “red bus”", "on_screen", {"shown"}),
        ("seen: red bus", "seen", {"seen", "shown", "said", "named"}),
    ],
)
def test_a_prefix_chooses_a_channel(searcher: Searcher, query: str, channel: str, clips: set[str]) -> None:
    found = searcher.search(Query(query))
    assert {hit.clip_id for hit in found.hits} == clips
    assert {name for hit in found.hits for name in hit.scores} == {channel}


def test_what_is_seen_is_what_the_words_behind_the_prefix_are(searcher: Searcher) -> None:
    def frames(hit: Hit) -> tuple[str, float]:
        return hit.clip_id, hit.scores["seen"]

    plain, chosen = searcher.search(Query("red bus")), searcher.search(Query("seen: red bus"))
    assert sorted(map(frames, chosen.hits)) == sorted(map(frames, plain.hits))
    assert chosen.hits[0].clip_id == "seen"


@pytest.fixture
def wordless(tmp_path: Path) -> sqlite3.Connection:
    """A clip in which nothing is seen, written or said."""
    library = Library(tmp_path)
    library.add_clip("a")
    library.add_file("/v/a.mp4", "a")
    rebuild_full_text(library.connection)
    return library.connection


def test_no_model_is_asked_for_words_alone(wordless: sqlite3.Connection) -> None:

    def never() -> WordsEncoder:
        raise AssertionError("the model was loaded")

    alone = Searcher(wordless, lambda _: None, never)
    for query in ('"red bus"', "said: red bus", "on-screen: red bus"):
        assert alone.search(Query(query)).hits == ()
    assert "heard" in alone.search(Query("said: red bus")).notices[0]
    assert "words on screen" in alone.search(Query("on-screen: red bus")).notices[0]


def test_nothing_is_seen_without_vision(wordless: sqlite3.Connection) -> None:
    with pytest.raises(UsageError, match=re.escape(NOTHING_SEEN)):
        Searcher(wordless, lambda _: None, None).search(Query("seen: red bus"))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("said:", "Nothing follows said:"),
        ("on-screen:  ", "Nothing follows on-screen:"),
        ('"red bus', "not closed"),
        ('said: "red', "not closed"),
        ('""', "hold no word"),
        ('said:"!?"', "hold no word"),
        ('"red" or "blue"', "quotes within quotes"),
        ('seen: "red bus"', "no words to be found in quotes"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(query: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)) as error:
        Query(query)
    assert str(error.value).endswith(".")
    assert ". " not in str(error.value)


def test_an_open_quote_is_words_while_it_is_typed(searcher: Searcher) -> None:
    found = searcher.search(Query(UnfinishedText('said: "red bu')))
    assert [hit.clip_id for hit in found.hits] == ["said"]
    assert of(found, "seen") == []


def test_quotes_and_prefixes_elsewhere_are_words() -> None:
    for text in ('a 5" pipe', 'he said: "go"', "unseen: x", '"', "saying: x"):
        asked = read_query(text)
        assert (asked.text, len(asked.channels), asked.exact) == (text, 6, False)


WORDS = ("no", "red", "the", "tram")
SIGN = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(SIGN, SIGN), min_size=1, max_size=4), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)
)
def test_a_phrase_is_found_where_its_words_stand_side_by_side(
    texts: list[tuple[list[str], list[str]]], asked: list[str]
) -> None:
    library = Library(Path("unused"), empty_catalog())
    for number, (text, reading) in enumerate(texts):
        clip_id = f"{number:032x}"
        library.add_clip(clip_id)
        library.add_file(f"/v/{number}/{' '.join(reading)}", clip_id)
        library.add_track(clip_id, " ".join(text).upper(), " ".join(reading))
        said = Transcript("sidecar", "a.srt", (Utterance(" ".join(text), 0.0, 1.0, "sidecar"),))
        put_rows(library.connection, clip_id, speech_rows(clip_id, [said]))
    rebuild_full_text(library.connection)

    def having(one: int, other: int | None = None) -> set[str]:
        places = range(6)
        return {
            f"{number:032x}"
            for number, both in enumerate(texts)
            for words in [both[one], *([] if other is None else [both[other]])]
            if any(words[at : at + len(asked)] == asked for at in places)
        }

    query = " ".join(asked)
    for channel, expected in (("on_screen", having(0, 1)), ("said", having(0)), ("about", having(1))):
        found = word_hits(library.connection, channel, query, exact=True)
        assert {match.clip_id for match in found} == expected
        assert {match.coverage for match in found} <= {1.0}


SPOKEN = (
    ("We leave the old quayside at noon.", "The ferry waits for nobody.", "Nobody at all."),
    ("Nobody told me about it.", "And the lighthouse keeper?", "He sleeps."),
    ("駅で会いましょう。", "明日の朝は雨が降るでしょう。"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Four clips of 2 s; in three of them something is said, at 0.1, 0.7 and 1.3 s."""
    folder = tmp_path_factory.mktemp("said")
    write_folder(folder / "videos", 4)
    for number, lines in enumerate(SPOKEN):
        cues = [Line(100 + 600 * n, 600 + 600 * n, line) for n, line in enumerate(lines)]
        (folder / "videos" / f"clip_{number:02}.srt").write_text(written(".srt", cues), encoding="utf-8")
    with without_models():
        index_folders([folder / "videos"], folder / "library", QUICK)
        yield folder


def search(library: Path, query: str) -> SearchResult:
    with open_library(library, encoder=PixelEncoder()) as opened:
        return opened.search(query)


def test_a_clip_is_found_by_what_is_said_and_shown_where_it_is(place: Path) -> None:
    for query, number, start_s, text, whole in (
        ("the old quayside", 0, 0.1, SPOKEN[0][0], True),
        ("a ferry is waiting", 0, 0.7, SPOKEN[0][1], True),
        ("lighthouse keepers", 1, 0.7, SPOKEN[1][1], True),
        ("雨が降る", 2, 0.7, "明日の朝は雨が降るでしょう。", False),  # a part of what has no spaces
    ):
        hit = search(place / "library", query).hits[0]
        assert Path(hit.path).name == f"clip_{number:02}.mp4", query
        assert (hit.weaker, hit.said[0].text, hit.said[0].start_s) == (False, text, start_s), query
        assert (hit.written >= FITS) == whole, query
        assert hit.moments[0].time_s == hit.moments[0].start_s == start_s, query
        assert hit.scores["said"] > 0.8, query
    found = search(place / "library", "the old quayside").hits[0].said[0]
    assert [found.text[slice(*mark)] for mark in marks(found.text, found.matched, found.found)] == ["old", "quayside"]


def test_words_that_are_not_said_are_not_guessed_at(place: Path) -> None:
    for query in ("lightning", "quaysode", "key", "house", "ferr"):
        assert not any(hit.said for hit in search(place / "library", query).hits), query


def test_words_over_two_subtitles_are_found_together(place: Path) -> None:
    hit = search(place / "library", "lighthouse sleeps").hits[0]
    assert Path(hit.path).name == "clip_01.mp4"
    assert hit.written == 1.0
    assert {one.text for one in hit.said} == set(SPOKEN[1][1:])


SPOKEN_WORDS = ("red", "tram", "night", "ferry", "the", "bell")
Said = list[list[str]]


def library_of(said: Said) -> sqlite3.Connection:
    made = Library(Path("unused"))
    for number, lines in enumerate(said):
        clip_id = f"{number:032x}"
        made.add_clip(clip_id)
        spoken = [Utterance(line, 10.0 * n, 10.0 * n + 5, "sidecar") for n, line in enumerate(lines)]
        put_rows(made.connection, clip_id, speech_rows(clip_id, [Transcript("sidecar", "a.srt", tuple(spoken))]))
        index_clip_text(made.connection, clip_id)
    return made.connection


LINES = st.lists(st.lists(st.sampled_from(SPOKEN_WORDS), min_size=1, max_size=4).map(" ".join), max_size=4)


@settings(max_examples=20)
@given(st.lists(LINES, min_size=1, max_size=5), st.lists(st.sampled_from(SPOKEN_WORDS), min_size=1, max_size=3))
def test_the_share_that_is_said_is_that_of_plain_counting(said: Said, asked: list[str]) -> None:
    query = " ".join(asked)
    every = [line.split() for lines in said for line in lines]
    terms = content_words(query)
    count = {term: sum(term in line for line in every) for term in terms}
    weight = {term: math.log(1 + (len(every) - n + 0.5) / (n + 0.5)) for term, n in count.items()}
    expected = {}
    for number, lines in enumerate(said):
        there = {word for line in lines for word in words(line)}
        if share := sum(weight[term] for term in terms if term in there) / sum(weight.values()):
            expected[f"{number:032x}"] = share
    with closing(library_of(said)) as connection:
        found = word_hits(connection, "said", query)
        assert {match.clip_id: match.coverage for match in found} == pytest.approx(expected)
        assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
        for match in found:
            own = said[int(match.clip_id, 16)]
            assert all(hit.text in own and set(hit.matched) <= set(words(hit.text)) for hit in match.hits)
