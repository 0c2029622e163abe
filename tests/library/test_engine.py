"""*Seen* by a distributed engine answers as the matrix does; the engine runs in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.errors import LibraryError, UsageError
from evenreel.library import engine as module
from evenreel.library import open_library
from evenreel.library.engine import Engine, publish_to_engine, version_of
from evenreel.library.search.result import SearchResult
from evenreel.library.settings import engine_of, index_settings
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import update_null_scores
from tests.library.fakes import SUBJECTS, Library, WordsEncoder, on_disk

pytest.importorskip("pymilvus", reason="needs the extra engine")
pytest.importorskip("milvus_lite", reason="needs milvus-lite")

D = 16
COUNTS = [400, 3, 5, 1, 8, 12, 2, 7, 60, 4, 9, 6]
META = {"weights_hash": "weights", "vectors_generation": "2", "vectors_end": str(sum(COUNTS))}


def unit(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return found


def made(seed: int, counts: list[int]) -> list[tuple[int, np.ndarray]]:
    """Clips whose moments lie near one another, under every other number."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((len(counts), D))
    clips = [unit(centre + 0.3 * rng.standard_normal((n, D))) for centre, n in zip(centres, counts, strict=True)]
    return [(2 * number + 1, clip) for number, clip in enumerate(clips)]


CLIPS = made(1, COUNTS)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(str(tmp_path_factory.mktemp("engine") / "moments.db")) as made:
        made.publish(CLIPS, D, version_of(META))
        yield made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_the_first_clips_are_those_of_a_slow_loop(engine: Engine, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    query = unit(CLIPS[seed % len(CLIPS)][1][0] + 0.5 * rng.standard_normal(D))
    allowed = rng.random(2 * len(CLIPS) + 1) < share if share < 1 else np.ones(2 * len(CLIPS) + 1, np.bool_)
    name, rows = engine.version(META)
    assert rows == sum(COUNTS)
    found = engine.nearest(name, query, 4, allowed)
    best = {number: max(sum(a * b for a, b in zip(query, row, strict=True)) for row in rows) for number, rows in CLIPS}
    expected = sorted((number for number in best if allowed[number]), key=best.__getitem__)[::-1][:4]
    assert sorted(found) == sorted(expected)
    if share == 1:
        assert sorted(engine.nearest(name, query, 4)) == sorted(expected)


def test_a_film_of_an_hour_does_not_fill_the_answer(engine: Engine) -> None:
    name, _ = engine.version(META)
    assert len(set(engine.nearest(name, CLIPS[0][1][0], 5))) == 5


def test_a_new_version_takes_the_place_of_the_old_one_at_once(tmp_path: Path) -> None:
    with Engine(f"{tmp_path / 'moments.db'}/films") as engine:
        with pytest.raises(LibraryError, match="has no moments of films; publish"):
            engine.version(META)
        first = engine.publish(CLIPS, D, version_of(META))
        for other in ({"weights_hash": "others"}, {"vectors_generation": "3"}):
            with pytest.raises(LibraryError, match="has another version"):
                engine.version(META | other)
        others = made(2, [3, 4])

        def killed() -> Iterator[tuple[int, np.ndarray]]:
            yield from others
            assert engine.version(META)[0] == first  # the old version answers
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.publish(killed(), D, version_of(META))
        assert engine._client.list_collections() == [first]
        second = engine.publish(others, D, version_of(META))
        assert engine.version(META)[0] == second
        assert engine.nearest(second, others[1][1][1], 1).tolist() == [3]
        third = engine.publish(CLIPS, D, version_of(META))
        assert sorted(engine._client.list_collections()) == sorted([second, third])


def settle(library: Library) -> None:
    rebuild_full_text(library.connection)
    set_meta(library.connection, {"vectors_end": str(library.vectors.rows)})
    update_null_scores(library.connection, library.vectors, library.encoder)


def searched(folder: Path, text: str, where: str | None = None) -> SearchResult:
    with open_library(folder, encoder=WordsEncoder()) as library:
        return library.search(text, 5, where)


def test_a_search_asks_the_engine_and_says_where_it_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = tmp_path / "library", str(tmp_path / "moments.db")
    library = on_disk(folder)
    for number in range(30):
        caption = f"{SUBJECTS[number % len(SUBJECTS)]} {SUBJECTS[number // 5]}"
        library.add_clip(str(number), [caption] * (number % 3))
        library.add_file(f"/v/{number}.mp4", str(number), {"even": number % 2})
    library.add_track("7", "EXIT")
    settle(library)
    asked = [("dog beach", None), ("snow", "even = 1"), ("exit snow mountain", None), ("red bus, then a dog", None)]
    expected = [searched(folder, *one) for one in asked]
    assert publish_to_engine(folder, address) == library.vectors.rows
    (folder / "settings.txt").write_text(f"engine={address}\n")
    monkeypatch.setattr(module, "LEAST", 6)
    monkeypatch.setattr(module, "OVERSAMPLED", 1)
    calls: list[object] = []
    nearest = Engine.nearest

    def watched(*given: Any) -> Any:
        calls.append(given)
        return nearest(*given)

    monkeypatch.setattr(Engine, "nearest", watched)
    assert [searched(folder, *one).hits for one in asked] == [one.hits for one in expected]
    assert len(calls) == 3, "a 'then' reads the matrix"

    library.add_clip("new", ["red bus snow"])
    library.add_file("/v/new.mp4", "new")
    settle(library)
    assert searched(folder, "red bus snow").hits[0].clip_id == "new", "it came after what the engine has"

    set_meta(library.connection, {"vectors_generation": "0", "weights_hash": "words-1"})
    with Engine(address) as engine:
        engine.publish(CLIPS, D, version_of(META))
    found = searched(folder, "dog beach")
    assert found.hits == expected[0].hits
    assert "searched without the engine: The engine at" in found.notices[0] and "another version" in found.notices[0]
    library.connection.close()


def test_where_the_engine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_of(tmp_path) is None
    (tmp_path / "settings.txt").write_text("engine = http://a:1/films\nworkers=2\n")
    assert engine_of(tmp_path) == "http://a:1/films"
    assert index_settings(tmp_path)[0].workers == 2
    monkeypatch.setenv("EVENREEL_ENGINE", "http://b:1")
    assert engine_of(tmp_path) == "http://b:1"


def test_addresses_that_are_none_or_have_a_key_and_engines_that_are_away() -> None:
    for address in ("http://root:word@host:19530", "milvus", "https://host/a/b", "http://host?token=word"):
        with pytest.raises(UsageError, match="cannot be used") as told:
            Engine(address)
        assert "word" not in str(told.value)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with pytest.raises(LibraryError, match="cannot be reached") as away:
        Engine("http://127.0.0.1:9")
    assert len(str(away.value).splitlines()) == 1
