"""A contact sheet, a table and the stretches of a result, without any film."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evenreel.errors import NotFoundError, UsageError
from evenreel.handover import MOST_STRETCHES
from evenreel.handover.picks import LEAST_S, picks_of, stretches_of
from evenreel.handover.taking import SheetCell, as_csv, sheet_jpeg, subtitles
from evenreel.media.picture import to_jpeg
from evenreel.speech import Transcript, Utterance
from tests.handover.test_timelines import RATES, facts, take_of

TEAL = (0, 128, 128)


def test_each_still_is_whole_in_its_place() -> None:
    still = to_jpeg(np.full((240, 320, 3), TEAL, np.uint8), 320, 320)
    cells = [SheetCell(still, f"{'long name ' * number}.mp4", "0") for number in range(5)]
    picture = np.asarray(Image.open(io.BytesIO(sheet_jpeg([*cells, SheetCell(None, "東京 \x1b.mp4", "0")], "Trams"))))
    assert picture.shape == (536, 1360, 3)
    teal = (np.abs(picture.astype(int) - TEAL) < 12).all(axis=2)
    assert teal.sum() == pytest.approx(5 * 240 * 180, rel=0.02)  # 4:3 in a place of 320 x 180
    assert teal[56:236, 16:336].sum() == pytest.approx(240 * 180, rel=0.02)


def test_a_table_holds_names_that_look_like_formulas_as_text() -> None:
    take = take_of("=1+1.mp4", facts(RATES["25"]), range(10, 20))
    (row,) = csv.DictReader(io.StringIO(as_csv([take], "t")))
    assert (row["file"], row["first_frame"], row["frames"], row["end_timecode"]) == (
        "'=1+1.mp4",
        "10",
        "10",
        "00:00:00:20",
    )


def hit(clip_id: str, *moments: tuple[float, float]) -> dict[str, Any]:
    listed = [{"time_s": start_s, "start_s": start_s, "end_s": end_s} for start_s, end_s in moments]
    about = {"score": 1.0, "weaker": False, "on_screen": [], "said": []}
    return {"clip_id": clip_id, "moments": listed, "duration_s": 60.0, **about}


def test_the_stretches_of_a_result_are_those_of_its_answer() -> None:
    result = {"query": "tram", "answering": 1, "hits": [hit("a", (3.0, 3.0), (5.0, 9.0)), hit("b", (1.0, 4.0))]}
    assert [(one.clip_id, one.start_s, one.end_s) for one in picks_of(result)] == [("a", 2.0, 2.0 + LEAST_S)]
    every = picks_of(result, every_moment=True, others=True)
    assert [(one.start_s, one.end_s, one.reason["rank"]) for one in every] == [
        (2.0, 4.0, 1),
        (5.0, 9.0, 1),
        (1.0, 4.0, 2),
    ]


@pytest.mark.parametrize(
    "wrong", [{}, {"hits": 3, "answering": 1}, {"hits": [{}], "answering": 1}, {"hits": ["a"], "answering": 1}]
)
def test_what_is_no_result_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="That is no result of a search"):
        picks_of(wrong)
    with pytest.raises(UsageError, match="A list of stretches needs clip_id, start_s and end_s"):
        stretches_of(wrong)


def test_a_list_that_was_edited_by_hand_has_words_and_no_more_than_may_be_taken() -> None:
    one = {"clip_id": "a", "start_s": 1, "end_s": "2.5", "words": [7], "rank": None, "query": "tram"}
    (pick,) = stretches_of({"stretches": [one]})
    assert (pick.end_s, pick.reason) == (2.5, {"query": "tram", "words": ["7"]})
    with pytest.raises(UsageError, match="stretches are more than"):
        stretches_of({"stretches": [one] * (MOST_STRETCHES + 1)})


def test_subtitles_are_clipped_to_their_stretch_and_in_the_language_asked_for() -> None:
    said = [
        Utterance("one", 0.5, 2.0, "sidecar"),
        Utterance("two", 2.5, 9.0, "sidecar"),
        Utterance("three", 9.5, 9.9, "sidecar"),
    ]
    english = Transcript("sidecar", "a.srt", tuple(said), "en")
    german = replace(english, utterances=(Utterance("eins", 0.5, 2.0, "sidecar"),), language="de-AT")
    span_s = Fraction(1), Fraction(4)
    assert subtitles([english, german], "srt", span_s, None) == (
        "1\n00:00:00,000 --> 00:00:01,000\none\n\n2\n00:00:01,500 --> 00:00:03,000\ntwo\n"
    )
    assert "eins" in subtitles([english, german], "vtt", span_s, "de")
    for language, span, sentence in (
        ("fr", span_s, "said in it in fr"),
        ("de", (Fraction(3), Fraction(4)), "nothing is said in"),
    ):
        with pytest.raises(NotFoundError, match=sentence):
            subtitles([english, german], "srt", span, language)
