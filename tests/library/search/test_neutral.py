"""A search that is neutral to source: what it takes out, what stays, and that what fits keeps out of it too."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import evenreel
from evenreel.debias.source.direction import Contrast
from evenreel.errors import UsageError
from evenreel.library import Library
from evenreel.library.search import neutral
from evenreel.library.search.gallery import Opened
from evenreel.library.search.hits import Hit
from evenreel.library.search.neutral import Neutral, kept_file
from evenreel.library.sources import ClipSources, read_sources
from evenreel.library.store.catalog import open_for_reading, open_for_writing
from evenreel.library.store.confidence import DEVIATION_FLOOR, FITS, load_null_vectors
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import FloatArray
from tests.library.fakes import Library as Fake
from tests.library.fakes import WordsEncoder, empty_catalog, encode, on_disk
from tests.library.mirrored import LOOKS, PAIRS, finish_on_disk, frames, mirrored_library

QUERIES = ("thing7 place2 glossy glossy", "thing3 place3", "glossy", "grainy thing1", "a dog")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of these tests alone."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mirrored_library(tmp_path_factory.mktemp("mirrored"))


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def stored(number: int, source: str) -> FloatArray:
    """The frames of a clip as the library has them."""
    return np.stack([encode(caption) for caption in frames(source, number)]).astype(np.float16).astype(np.float32)


def direction() -> NDArray[np.float64]:
    """What sets the generated clips apart, the plain way."""
    apart = [stored(number, "sora").mean(0) - stored(number, "camera").mean(0) for number in range(PAIRS)]
    mean = np.mean(apart, axis=0, dtype=np.float64)
    return np.asarray(mean / np.linalg.norm(mean))


def measured(library: Library) -> Neutral:
    return library._searcher.read(neutral.read_neutral)


# The ranking


@pytest.mark.parametrize("query", QUERIES)
def test_mean_scores_of_generated_and_real_clips_are_equal(library: Library, query: str) -> None:
    changed = measured(library).query(encode(query))
    means = {
        source: np.mean([(stored(number, source) @ changed).mean() for number in range(PAIRS)]) for source in LOOKS
    }
    assert means["sora"] == pytest.approx(means["camera"], abs=1e-4)


@pytest.mark.parametrize("query", QUERIES)
def test_clips_are_ranked_by_their_best_frame_under_the_changed_query(library: Library, query: str) -> None:
    plain, axis = encode(query), direction()
    changed = plain - (axis @ plain) * axis
    found = library.search(query, k=2 * PAIRS + 2, neutral_source=True)
    for hit in found.hits:
        if hit.clip_id.startswith("unknown"):
            continue
        source, number = hit.clip_id[:-2], int(hit.clip_id[-2:])
        best = max(float(frame @ plain - (axis @ plain) * (axis @ frame)) for frame in stored(number, source))
        assert hit.scores["seen"] == pytest.approx(best, abs=1e-4)
        assert best == pytest.approx((stored(number, source) @ changed).max(), abs=1e-6)
        assert hit.moments[0].score == pytest.approx(best, abs=1e-4)


def generated_share(hits: tuple[Hit, ...]) -> float:
    return float(np.mean([hit.metadata.get("source") == "sora" for hit in hits]))


def test_a_look_no_longer_decides(library: Library) -> None:
    plain = library.search("glossy", k=10)
    assert generated_share(plain.hits) == 1
    even = library.search("glossy", k=10, neutral_source=True)
    assert 0.2 <= generated_share(even.hits) <= 0.8


def test_what_is_shown_still_decides(library: Library) -> None:
    hits = library.search("thing7 place2 glossy glossy", k=2, neutral_source=True).hits
    assert {hit.clip_id for hit in hits} == {"sora07", "camera07"}
    assert min(hit.above_nonsense or 0 for hit in hits) >= FITS


def test_pictures_and_clips_are_compared_without_it_too(library: Library) -> None:
    plain = library.similar("sora07", k=10)
    even = library.similar("sora07", k=10, neutral_source=True)
    assert generated_share(plain.hits) == 1
    assert even.hits[0].clip_id == "camera07"
    assert generated_share(even.hits) < 1


def test_a_picture_is_a_query_as_others_are(place: Path) -> None:
    class SeesThing7(WordsEncoder):
        def encode_windows(self, pixels: NDArray[np.uint8]) -> FloatArray:
            return encode("thing7 place2 glossy glossy")[None]

    with evenreel.open_library(place, encoder=SeesThing7()) as opened:
        found = opened.search_pixels(np.zeros((4, 4, 3), np.uint8), k=2, neutral_source=True)
    assert {hit.clip_id for hit in found.hits} == {"sora07", "camera07"}


def test_a_plain_search_is_as_before(library: Library) -> None:
    before = library.search("glossy thing3", k=20)
    library.search("glossy thing3", k=20, neutral_source=True)
    assert library.search("glossy thing3", k=20) == before


def test_the_result_says_what_was_taken_out(library: Library) -> None:
    (notice,) = library.search("a dog", neutral_source=True).notices
    assert notice == (
        f"Neutral to source: what sets these apart from real clips was taken out of the query: sora ({PAIRS} pairs)."
    )


# Confidence


def test_what_fits_is_measured_without_the_direction(place: Path, library: Library) -> None:
    found, axis = measured(library), direction()
    with closing(open_for_reading(place)) as connection:
        bank = load_null_vectors(connection, encode("a").size).astype(np.float64)
    bank -= np.outer(bank @ axis, axis)
    z = []
    for clip_id, row in found.gallery.place.items():
        clip = stored(int(clip_id[-2:]), clip_id[:-2])
        scores = [max(float(frame @ query) for frame in clip) for query in bank]
        assert found.gallery.means[row] == pytest.approx(np.mean(scores), abs=1e-4)
        assert found.gallery.deviations[row] == pytest.approx(np.std(scores), abs=1e-4)
        z.append([among_others(scores, number) for number in range(len(scores))])
    np.testing.assert_allclose(found.gallery.null_best, np.sort(np.max(z, axis=0)), atol=5e-3)


def among_others(scores: list[float], number: int) -> float:
    others = np.delete(scores, number)
    return float((scores[number] - others.mean()) / max(others.std(), DEVIATION_FLOOR))


def test_what_was_never_measured_stays_so(tmp_path: Path) -> None:
    place = mirrored_library(tmp_path)
    with closing(open_for_writing(place)) as connection:
        connection.execute("DELETE FROM meta WHERE key LIKE 'null%'")
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        found = opened.search("thing7", k=3, neutral_source=True)
    assert any("Which matches are weaker was not measured" in notice for notice in found.notices)


# Kept from one run to the next


def test_it_is_measured_once_for_each_state_of_a_library(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "library"
    shutil.copytree(place, own)
    calls: list[object] = []
    measure = neutral._measure

    def counted(opened: Opened, vectors: VectorIndex, compared: Sequence[Contrast]) -> Neutral:
        calls.append(opened)
        return measure(opened, vectors, compared)

    monkeypatch.setattr(neutral, "_measure", counted)
    results = []
    for _ in range(2):
        with evenreel.open_library(own, encoder=WordsEncoder()) as opened:
            results += [opened.search(query, neutral_source=True) for query in QUERIES]
    assert len(calls) == 1
    assert results[: len(QUERIES)] == results[len(QUERIES) :]
    with evenreel.open_library(own, encoder=WordsEncoder()) as opened:
        before = opened.search("glossy", neutral_source=True)
        with closing(open_for_writing(own)) as connection:
            connection.execute("UPDATE files SET metadata = '{}' WHERE clip_id = 'sora00'")
        after = opened.search("glossy", neutral_source=True)
    assert len(calls) == 2
    assert before.notices != after.notices
    assert f"sora ({PAIRS - 1} pairs)" in after.notices[0]


def test_sources_are_read_once_for_many_searches(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes longer than a search does."""
    calls: list[object] = []

    def counted(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> ClipSources:
        calls.append(clip_ids)
        return read_sources(connection, clip_ids)

    monkeypatch.setattr(neutral, "read_sources", counted)
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        opened.search("glossy", neutral_source=True)
        first = len(calls)
        opened.search("grainy", neutral_source=True)
    assert first > 0
    assert len(calls) == first


@pytest.mark.parametrize("content", [b"", b"no archive", "cut"])
def test_a_damaged_file_is_measured_again(library: Library, place: Path, content: bytes | str) -> None:
    expected = measured(library)
    file = kept_file(place)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if isinstance(content, str) else content)
    again = measured(library)
    np.testing.assert_array_equal(again.basis, expected.basis)
    np.testing.assert_array_equal(again.gallery.null_best, expected.gallery.null_best)
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_only_costs_time(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library.search("thing7 place2", k=2, neutral_source=True).hits


# Refusals


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ({}, "No clip has a source"),
        ({"camera": 24}, "All clips with a source are of a camera"),
        ({"sora": 24}, "No clip has the source 'camera'"),
        ({"camera": 24, "sora": 5}, "24 of a camera, 5 of sora; there must be 20"),
    ],
)
def test_a_library_that_tells_too_little_is_refused(tmp_path: Path, sources: dict[str, int], sentence: str) -> None:
    made = on_disk(tmp_path)
    for source, count in {**sources, "": 1}.items():
        for number in range(count):
            made.add_clip(f"{source}{number}", [f"thing{number}"])
            made.add_file(f"/v/{source}{number}.mp4", f"{source}{number}", {"source": source})
    finish_on_disk(made)
    made.connection.close()
    with evenreel.open_library(tmp_path) as opened:  # no model is loaded to say so
        trouble = opened.neutral_trouble()
        assert trouble is not None
        assert sentence in trouble
        with pytest.raises(UsageError, match=sentence):
            opened.search("thing1", neutral_source=True)
        with pytest.raises(UsageError, match=sentence):
            opened.similar("0", neutral_source=True)


def test_words_alone_have_no_direction(place: Path, library: Library) -> None:
    assert library.neutral_trouble() is None
    with evenreel.open_library(place, vision=False) as blind, pytest.raises(UsageError, match="words alone"):
        blind.search("thing1", neutral_source=True)


def test_a_library_of_words_has_no_direction(tmp_path: Path) -> None:
    open_for_writing(tmp_path).close()
    with evenreel.open_library(tmp_path) as opened:
        assert "words alone" in (opened.neutral_trouble() or "")


def test_few_clips_of_a_generator_and_lost_pairs_are_told(tmp_path: Path) -> None:
    place = mirrored_library(tmp_path)
    with closing(open_for_writing(place)) as connection:
        connection.execute("UPDATE files SET metadata = '{\"source\": \"veo\"}' WHERE clip_id = 'sora00'")
        changed = '{"source": "sora", "pair_id": "nowhere"}'
        connection.execute("UPDATE files SET metadata = ? WHERE clip_id = 'sora01'", (changed,))
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        notices = opened.search("thing1", neutral_source=True).notices
    assert f"sora ({PAIRS - 2} pairs)" in notices[0]
    assert notices[1] == "Not taken out, for they have fewer than 20 clips: veo (1)."
    assert notices[2].startswith("The pair_id of 1 generated clip ")


# Which real clip is meant


@pytest.mark.parametrize(
    ("pair_id", "expected"),
    [
        ("b" * 32, 1),
        ("0007", 0),
        ("0007.mp4", 0),
        ("real/0007.mp4", 0),
        ("./real/0007", 0),
        ("../real/0007.mp4", 0),
        ("/videos/real/0007.mp4", 0),
        ("other/0007.mp4", -1),
        ("al/0007.mp4", -1),
        ("0007.avi", -1),
        ("video.9", 1),
        ("video.9.mp4", 1),
        ("video", -1),
        ("twice", -1),
        ("one/twice", 2),
        (8, 4),
        ("..", -1),
        ("nowhere", -1),
    ],
)
def test_a_pair_id_names_a_real_clip(tmp_path: Path, pair_id: object, expected: int) -> None:
    made = Fake(tmp_path, empty_catalog())
    real = {
        "a" * 32: "/videos/real/0007.mp4",
        "b" * 32: "/videos/real/video.9.mp4",
        "c" * 32: "/videos/one/twice.mp4",
        "d" * 32: "/videos/two/twice.mp4",
        "e" * 32: "/videos/real/8.mp4",
    }
    for clip_id, path in real.items():
        made.add_clip(clip_id)
        made.add_file(path, clip_id, {"source": "camera", "pair_id": "0007"})
    made.add_clip("f" * 32)
    made.add_file("/videos/fake/0007.mp4", "f" * 32, {"source": "sora", "pair_id": pair_id})
    found = read_sources(made.connection, [*real, "f" * 32])
    assert found.mirrored.tolist() == [-1] * 5 + [expected]
    assert found.lost == (expected < 0)
    assert found.names == ("camera",) * 5 + ("sora",)
