"""What a search tells of how likely its clips are, against slow loops; and what it says where it cannot."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel.language.folding import content_words
from evenreel.library.calibration.file import FILE, write_calibration
from evenreel.library.calibration.rule import AnswerCalibration, LogisticRule, Thresholds
from evenreel.library.search.judging import LOOKED_AT, NO_CALIBRATION
from evenreel.library.search.query import Query
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.confidence import null_queries, update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from tests.library.fakes import Library, encode

PHRASES = ("red bus", "dog beach", "a snow mountain", "blue boat")
MANY = (-0.1, 0.2, -0.3, 0.02, 0.01, 0.04)
RULE = AnswerCalibration(
    encoder_id="words",
    weights_hash="words-1",
    fitted_on="words",
    date="2026-11-23",
    phrases=PHRASES,
    vectors=np.stack([encode(phrase) for phrase in PHRASES]),
    anything=LogisticRule(
        -4.0,
        (
            *(0.5, 0.4, 0.3, 0.2, 0.1),
            *(0.05, 0.01, 0.02, 0.03, 0.04, 0.05),
            *(0.1, -0.2, 0.3, 0.06, 0.07, -0.08),
            *MANY,
        ),
    ),
    clip=LogisticRule(-1.0, (0.9, -0.8, 0.7, 0.06, 0.05, -0.04, 0.03, -0.5, 0.2, 0.1, 0.3, 0.4, -0.1, -0.2, 0.15)),
    thresholds=(Thresholds((5, 40), (0.6, 0.6), (0.3, 0.3)),) * 3,
)
SEEN = (
    ["red bus", "red bus street"], ["blue boat", "harbour"], ["dog beach"], ["red boat"], ["snow mountain", "sun"],
    ["guitar concert"], ["blue bus"],
)  # fmt: skip


def made(folder: Path, rule: AnswerCalibration | None = RULE, clips: int = len(SEEN)) -> tuple[Library, Searcher]:
    library = Library(folder)
    for number in range(clips):
        library.add_clip(f"c{number}", SEEN[number % len(SEEN)])
        library.add_file(f"/v/{number}.mp4", f"c{number}")
    if rule is not None:
        write_calibration(folder / FILE, rule)
    return library, opened(library, folder)


def opened(library: Library, folder: Path) -> Searcher:
    rebuild_full_text(library.connection)
    set_meta(library.connection, {"weights_hash": library.encoder.weights_hash})
    update_null_scores(library.connection, library.vectors, library.encoder)
    return Searcher(library.connection, lambda _: library.vectors, lambda: library.encoder, folder)


def slow_z(text: str, frames: list[str]) -> float:
    """How far the best frame of a clip is above nonsense, the plain way."""

    def best(caption: str) -> float:
        return max(float(encode(caption) @ encode(frame).astype(np.float16).astype(np.float32)) for frame in frames)

    scores = [best(query) for query in null_queries()]
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    return (best(text) - mean) / deviation


def slow(text: str) -> tuple[float, dict[str, float]]:
    """The probabilities of the clips of `SEEN`, the plain way."""
    z = {f"c{number}": slow_z(text, frames) for number, frames in enumerate(SEEN)}
    asked = set(content_words(text))
    rivals = [one for one in PHRASES if not (set(content_words(one)) <= asked or asked <= set(content_words(one)))]
    margin = {clip: z[clip] - max(slow_z(one, SEEN[int(clip[1:])]) for one in rivals) for clip in z}
    first = max(z, key=lambda clip: z[clip])
    signals = [
        z[first],
        max(margin.values()),
        sum(one > 0 for one in margin.values()) / len(margin),
        min(slow_z(word, SEEN[int(first[1:])]) for word in content_words(text)),
        z[first] - sorted(z.values())[len(z) // 2],
    ]
    size = math.log(len(SEEN))
    words = len(content_words(text))
    by = (size, float(words == 1), float(words >= 3))
    row = [*signals, *(number * one for number in by for one in (1.0, *signals))]
    odds = RULE.anything.intercept + sum(w * one for w, one in zip(RULE.anything.weights, row, strict=True))
    anything, found = 1 / (1 + math.exp(-odds)), {}
    for clip, above in z.items():
        own = [odds, z[first] - above, margin[clip]]
        all_signals = [*own, *(number * one for number in by for one in (1.0, *own))]
        here = RULE.clip.intercept + sum(w * one for w, one in zip(RULE.clip.weights, all_signals, strict=True))
        found[clip] = min(anything, 1 / (1 + math.exp(-here)))
    return anything, found


@pytest.mark.parametrize("text", ["a red bus", "blue boat", "dog mountain", "violin", "dog beach snow"])
def test_probabilities_equal_slow_loops(tmp_path: Path, text: str) -> None:
    found = made(tmp_path)[1].search(Query(text, k=len(SEEN)))
    anything, clips = slow(text)
    assert found.probability == pytest.approx(anything, abs=2e-3)
    assert {hit.clip_id: hit.probability for hit in found.hits} == pytest.approx(clips, abs=2e-3)
    assert (found.calibration, found.uncalibrated) == ("words", None)


def test_what_is_said_follows_from_the_probability_of_any_answer(tmp_path: Path) -> None:
    searcher = made(tmp_path)[1]
    for text in ("red bus", "violin"):
        found = searcher.search(Query(text, k=len(SEEN)))
        assert found.probability is not None
        states = ("fits", 0.6), ("may_fit", 0.3), ("nothing", 0.0)
        assert found.state == next(state for state, least in states if found.probability >= least)
    assert searcher.search(Query("red bus")).state == "fits"


def test_without_a_calibration_the_product_says_so_and_tells_no_probability(tmp_path: Path) -> None:
    library, searcher = made(tmp_path, rule=None)
    found = searcher.search(Query("red bus"))
    assert found.probability is None and all(hit.probability is None for hit in found.hits)
    assert found.uncalibrated == NO_CALIBRATION
    assert found.state == "fits" and found.hits[0].above_nonsense == 1, "what is left is the rank"
    assert library.encoder.captions_encoded == 201, "no word is encoded by itself"


def test_a_calibration_of_another_model_says_nothing(tmp_path: Path) -> None:
    found = made(tmp_path, replace(RULE, weights_hash="words-2"))[1].search(Query("red bus"))
    assert found.probability is None and found.uncalibrated == NO_CALIBRATION


def test_a_calibration_is_taken_up_and_let_go_while_the_library_is_open(tmp_path: Path) -> None:
    _, searcher = made(tmp_path, rule=None)
    without = searcher.search(Query("red bus"))
    for name in ("words", "other words"):
        write_calibration(tmp_path / FILE, replace(RULE, fitted_on=name))
        for _ in range(2):
            assert searcher.search(Query("red bus")).calibration == name
    (tmp_path / FILE).unlink()
    assert searcher.search(Query("red bus")) == without


def test_a_library_grows_into_a_calibration_and_out_of_it(tmp_path: Path) -> None:
    library, searcher = made(tmp_path, clips=4)
    told = {}
    for clips in range(5, 55):
        told[clips - 1] = searcher.search(Query("red bus")).probability
        number = clips - 1
        library.add_clip(f"c{number}", SEEN[number % len(SEEN)])
        library.add_file(f"/v/{number}.mp4", f"c{number}")
        update_null_scores(library.connection, library.vectors, library.encoder)
    assert {clips for clips, one in told.items() if one is not None} == set(range(5, 53)), "5 to 1.3 x 40"
    small = searcher.search(Query("red bus", where="path = '/v/0.mp4'"))
    assert small.uncalibrated is not None and "holds for 5 to 52 clips, and 1 were searched" in small.uncalibrated


def test_a_damaged_calibration_costs_the_probabilities_alone(tmp_path: Path) -> None:
    library, _ = made(tmp_path)
    (tmp_path / FILE).write_bytes(b"torn")
    found = opened(library, tmp_path).search(Query("red bus"))
    assert found.hits and found.probability is None
    assert found.uncalibrated is not None and found.uncalibrated.endswith("fit it again with `evenreel calibrate`.")


def test_pictures_are_told_nothing(tmp_path: Path) -> None:
    found = made(tmp_path)[1].search(Query(image=encode("red bus")))
    assert found.probability is None and found.uncalibrated is None and found.state is None


def test_hits_beyond_those_looked_at_are_told_a_probability_too(tmp_path: Path) -> None:
    rule = replace(RULE, thresholds=(Thresholds((5, 400), (0.6, 0.6), (0.3, 0.3)),) * 3)
    found = made(tmp_path, rule, clips=LOOKED_AT + 40)[1].search(Query("violin", k=LOOKED_AT + 20))
    assert len(found.hits) == LOOKED_AT + 20
    assert all(hit.probability is not None for hit in found.hits)


def test_words_on_a_clip_still_make_it_fit(tmp_path: Path) -> None:
    library, _ = made(tmp_path)
    library.add_track("c5", "VIOLIN")
    found = opened(library, tmp_path).search(Query("violin"))
    assert found.hits[0].clip_id == "c5" and found.hits[0].state == "fits"
    assert found.hits[0].probability is not None
