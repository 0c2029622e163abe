"""The demo's videos and searches: plain names, one right answer each, found by the built-in encoder and OCR."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evenreel.cli.audit.library import audit_inputs
from evenreel.demo import (
    DEMO_QUERIES,
    MORE_TO_READ,
    MORE_TO_SEE,
    VIDEO_COUNT,
    DemoQuery,
    _source,
    demo_scenes,
    make_demo_videos,
    run_demo,
)
from evenreel.encoders import load_encoder
from evenreel.library.search.meaning import ENOUGH
from evenreel.library.search.result import SearchResult
from evenreel.library.store.vectors import left_out_z, null_queries
from evenreel.meaning import WORDLLAMA, load_text_model
from evenreel.planted import draw_frame
from evenreel.types import Encoder, FloatArray

SEEN = [query for query in DEMO_QUERIES if query.answer and not query.answer.signs and not query.said]
WRITTEN = [query for query in DEMO_QUERIES if query.answer and query.answer.signs]


def right_answers(query: DemoQuery, count: int = VIDEO_COUNT) -> list[str]:
    """The files that show a query's answer, with its signs; none where nothing fits."""
    if (answer := query.answer) is None:
        return []
    look = (answer.subject.colour, answer.subject.shape, answer.background, [sign.text for sign in answer.signs])
    return [
        name
        for name, scene in demo_scenes(count).items()
        if look == (scene.subject.colour, scene.subject.shape, scene.background, [sign.text for sign in scene.signs])
    ]


def is_right(query: DemoQuery, result: SearchResult, count: int) -> bool:
    first = [Path(hit.path).name for hit in result.hits[: result.answering][:1]]
    return first == right_answers(query, count)


@pytest.mark.parametrize("query", SEEN + WRITTEN, ids=lambda query: query.text)
def test_each_search_has_one_right_clip(query: DemoQuery) -> None:
    (name,) = right_answers(query)
    scene = demo_scenes()[name]
    assert query.answer is not None
    assert scene.attributes == query.answer.attributes
    others = [other for other in demo_scenes().values() if other is not scene and other != scene]
    assert not any(sign.text in {s.text for s in query.answer.signs} for other in others for sign in other.signs)


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
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".vtt") == [*names, "metadata.csv"]
    assert len(list(tmp_path.glob("*.vtt"))) == len([query for query in DEMO_QUERIES if query.said])
    assert sorted(written) == names
    with (tmp_path / "metadata.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == names
    assert set(rows[0]) == {"path", "source", "place"}


def test_sources_are_mixed_and_a_trembling_camera_is_a_camera() -> None:
    sources = Counter(_source(scene) for scene in demo_scenes().values())
    assert set(sources) == {"camera", "generator_a", "generator_b"}
    assert min(sources.values()) >= 8
    assert all((_source(scene) == "camera") == (scene.shake > 0) for scene in demo_scenes().values())


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("builtin")


@pytest.fixture(scope="module")
def clip_frames(encoder: Encoder) -> FloatArray:
    """(V, 2, D) two moments of each clip."""
    scenes = demo_scenes().values()
    moments = [draw_frame(scene, part * scene.duration_s) for scene in scenes for part in (0.3, 0.7)]
    return encoder.encode_windows(np.stack(moments).transpose(0, 3, 1, 2)[:, None]).reshape(len(scenes), 2, -1)


@pytest.mark.parametrize("query", SEEN, ids=lambda query: query.text)
def test_the_built_in_encoder_puts_the_right_clip_first(
    query: DemoQuery, encoder: Encoder, clip_frames: FloatArray
) -> None:
    text = encoder.encode_text([query.text]).sentence[0]
    best = (clip_frames @ text).mean(axis=1).argmax()
    assert list(demo_scenes())[int(best)] in right_answers(query)


def test_the_suggested_searches_have_answers() -> None:
    scenes = demo_scenes().values()
    looks = {f"a {s.subject.colour} {s.subject.shape} in the {s.background}" for s in scenes}
    assert MORE_TO_SEE in looks
    assert MORE_TO_READ.upper() in {sign.text for s in scenes if _source(s) == "camera" for sign in s.signs}


@pytest.mark.parametrize("query", [query for query in DEMO_QUERIES if query.said], ids=lambda query: query.text)
def test_what_is_said_is_found_in_other_words_among_all_clips(query: DemoQuery) -> None:
    """By the rule of searches, on the texts of all sixty clips."""
    pytest.importorskip("wordllama", reason="the extra meaning is not installed")
    model = load_text_model(WORDLLAMA)
    said = [" ".join(one.said) for one in DEMO_QUERIES if one.said]
    texts = [*said, *(" ".join(sign.text for sign in scene.signs) for scene in demo_scenes().values() if scene.signs)]
    bank, (asked,) = (model.encode(some) @ model.encode(texts).T for some in (null_queries(), [query.text]))
    z = (asked - bank.mean(0)) / bank.std(0)
    assert z.argmax() == said.index(" ".join(query.said))
    assert np.mean(left_out_z(bank.astype(np.float64)).max(1) < z.max()) >= ENOUGH
    assert not set(query.text.split()) & set(" ".join(said).lower().replace(".", "").split()) - {"a"}


def test_the_whole_demo_finds_what_it_looks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real files, decoded, encoded, read and searched; a fifth of the clips, so that it is quick."""
    results = run_demo(tmp_path, audit_inputs, count=12)
    wrong = [q.text for q, result in zip(DEMO_QUERIES, results, strict=True) if not is_right(q, result, count=12)]
    assert wrong == []
    printed = capsys.readouterr().out
    assert f"Rendered 12 videos into {tmp_path / 'videos'}" in printed
    assert "on screen: HARBOUR" in printed
    assert "said, in other words: Our mechanic will repair the brakes tomorrow." in printed
    assert f"With figures: {tmp_path / 'report.html'}" in printed
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    sentence = printed.partition("an audit\n")[2].splitlines()[0].strip()
    assert sentence.startswith("Too few clips to conclude: ")
    assert report.index(sentence) < report.index('class="chart"')
    assert f'evenreel search "{MORE_TO_SEE}" --library {tmp_path / "library"}' in printed


def test_the_demo_can_be_run_again(tmp_path: Path) -> None:
    """The same bytes: the library knows them and reads no video twice."""
    from evenreel.config import IndexSettings
    from evenreel.library import index_folders

    settings = IndexSettings(model=None, read_text=False)
    reports = []
    for _ in range(2):
        make_demo_videos(tmp_path / "videos", count=2)
        reports.append(index_folders([tmp_path / "videos"], tmp_path / "library", settings))
    assert [report.indexed for report in reports] == [2, 0]
