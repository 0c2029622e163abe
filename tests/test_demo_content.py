"""The demo's videos and searches: plain names, one right answer each, found by the built-in encoder and OCR."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evenreel.demo import DEMO_QUERIES, VIDEO_COUNT, DemoQuery, demo_scenes, is_right, make_demo_videos, right_answers
from evenreel.planted import draw_frame
from evenreel.types import Hit, SearchResult

SEEN = [query for query in DEMO_QUERIES if query.answer and not query.answer.signs]
WRITTEN = [query for query in DEMO_QUERIES if query.answer and query.answer.signs]


def _result(*names: str, fits: bool = True) -> SearchResult:
    hits = tuple(Hit(name, f"/videos/{name}", 1.0, 0.9, {}, (), (), 3.0) for name in names)
    return SearchResult("query", hits, fits)


def test_there_are_five_searches_of_every_kind() -> None:
    assert (len(SEEN), len(WRITTEN), len(DEMO_QUERIES)) == (2, 2, 5)


@pytest.mark.parametrize("query", SEEN + WRITTEN, ids=lambda query: query.text)
def test_each_search_has_one_right_clip(query: DemoQuery) -> None:
    (name,) = right_answers(query)
    scene = demo_scenes()[name]
    assert query.answer is not None
    assert scene.attributes == query.answer.attributes
    others = [other for other in demo_scenes().values() if other is not scene and other != scene]
    assert not any(sign.text in {s.text for s in query.answer.signs} for other in others for sign in other.signs)


@pytest.mark.parametrize("query", SEEN + WRITTEN, ids=lambda query: query.text)
def test_only_the_right_clip_first_is_right(query: DemoQuery) -> None:
    (name,) = right_answers(query)
    wrong = next(other for other in demo_scenes() if other != name)
    assert is_right(query, _result(name, wrong))
    assert not is_right(query, _result(wrong, name))
    assert not is_right(query, _result(name, fits=False))
    assert not is_right(query, _result())


def test_nonsense_is_right_when_the_library_says_that_nothing_fits() -> None:
    (nonsense,) = [query for query in DEMO_QUERIES if query.answer is None]
    assert is_right(nonsense, _result("clip_000.mp4", fits=False))
    assert not is_right(nonsense, _result("clip_000.mp4"))
    assert right_answers(nonsense) == frozenset()


def test_the_videos_are_varied() -> None:
    scenes = demo_scenes()
    assert list(scenes) == [f"clip_{n:03}.mp4" for n in range(VIDEO_COUNT)]
    assert 10 <= sum(bool(scene.signs) for scene in scenes.values()) <= 30
    assert len({scene.background for scene in scenes.values()}) == 8
    assert all(3 <= scene.duration_s <= 8 for scene in scenes.values())
    assert len(set(scenes.values())) == VIDEO_COUNT


def test_a_few_videos_are_written_with_their_table(tmp_path: Path) -> None:
    written: list[str] = []
    make_demo_videos(tmp_path, count=5, on_written=written.append)
    names = [f"clip_{n:03}.mp4" for n in range(5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "metadata.csv"]
    assert sorted(written) == names
    with (tmp_path / "metadata.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == names
    assert set(rows[0]) == {"path", "source", "place"}


def test_sources_are_mixed_and_a_trembling_camera_is_a_camera() -> None:
    from evenreel.demo import _source

    sources = Counter(_source(scene) for scene in demo_scenes().values())
    assert set(sources) == {"camera", "generator_a", "generator_b"}
    assert min(sources.values()) >= 8
    assert all((_source(scene) == "camera") == (scene.shake > 0) for scene in demo_scenes().values())


@pytest.mark.parametrize("query", WRITTEN, ids=lambda query: query.text)
def test_the_signs_can_be_read(query: DemoQuery) -> None:
    """RapidOCR straight on the drawn picture."""
    rapidocr = pytest.importorskip("rapidocr")
    assert query.answer is not None
    result = rapidocr.RapidOCR(params={"Global.log_level": "error"})(draw_frame(query.answer, 2.0)[..., ::-1])
    assert query.answer.signs[0].text in result.txts


@pytest.mark.parametrize("query", SEEN, ids=lambda query: query.text)
def test_the_built_in_encoder_puts_the_right_clip_first(query: DemoQuery) -> None:
    from evenreel.encoders import load_encoder

    encoder, scenes = load_encoder("builtin"), demo_scenes()
    moments = [draw_frame(scene, part * scene.duration_s) for scene in scenes.values() for part in (0.2, 0.5, 0.8)]
    frames = encoder.encode_frames(np.stack(moments).transpose(0, 3, 1, 2))
    text = encoder.encode_text([query.text]).sentence[0]
    best = (frames @ text).reshape(len(scenes), 3).mean(axis=1).argmax()
    assert list(scenes)[int(best)] in right_answers(query)
