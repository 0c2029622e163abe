"""*Seen* by a distributed engine answers as the matrix does; the engine runs in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.errors import LibraryError, UsageError
from evenreel.library.engine import BestMoments, Engine, keys_of

pytest.importorskip("pymilvus", reason="needs the extra engine")
pytest.importorskip("milvus_lite", reason="needs milvus-lite")

D = 16


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def made(seed: int, counts: list[int]) -> dict[str, np.ndarray]:
    """Clips whose moments lie near one another."""
    rng = np.random.default_rng(seed)
    ids = [rng.bytes(16).hex() for _ in counts]
    centres = rng.standard_normal((len(counts), D))
    return {
        one: unit(centre + 0.3 * rng.standard_normal((count, D)))
        for one, centre, count in zip(ids, centres, counts, strict=True)
    }


COUNTS = [400, 3, 5, 1, 8, 12, 2, 7, 60, 4, 9, 6]


@pytest.fixture(scope="module")
def clips() -> dict[str, np.ndarray]:
    return made(1, COUNTS)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, clips: dict[str, np.ndarray]) -> Iterator[Engine]:
    with Engine(str(tmp_path_factory.mktemp("engine") / "moments.db")) as made:
        made.publish(clips.items(), D, "weights")
        yield made


def slow(query: np.ndarray, clips: dict[str, np.ndarray], first: int, allowed: np.ndarray) -> list[Any]:
    """Place of the clip, moment and score of the first clips, moment by moment."""
    found = []
    for place, vectors in enumerate(clips.values()):
        scores = [float(sum(a * b for a, b in zip(query.tolist(), row, strict=True))) for row in vectors.tolist()]
        if allowed[place]:
            found.append((max(scores), scores.index(max(scores)), place))
    return [(place, number, score) for score, number, place in sorted(found, reverse=True)[:first]]


def named(best: BestMoments) -> list[tuple[int, int, float]]:
    order = np.argsort(-best.scores, kind="stable")
    return [(int(one), int(best.numbers[one]), float(best.scores[one])) for one in order if best.numbers[one] >= 0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_the_first_clips_and_their_best_moments_are_those_of_a_slow_loop(
    engine: Engine, clips: dict[str, np.ndarray], seed: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    near = list(clips.values())[seed % len(clips)]
    query = unit(near[0] + 0.5 * rng.standard_normal(D))
    allowed = rng.random(len(clips)) < share if share < 1 else np.ones(len(clips), np.bool_)
    keys = keys_of(list(clips))
    best = engine.best(query, keys, 4, allowed)
    expected = slow(query, clips, 4, allowed)
    assert [one[:2] for one in named(best)] == [one[:2] for one in expected]
    np.testing.assert_allclose([one[2] for one in named(best)], [one[2] for one in expected], atol=1e-5)
    assert np.isneginf(best.scores[~allowed]).all()
    if share == 1:
        assert named(engine.best(query, keys, 4)) == named(best)


def test_a_film_of_an_hour_does_not_fill_the_answer(engine: Engine, clips: dict[str, np.ndarray]) -> None:
    query = next(iter(clips.values()))[0]
    assert len(named(engine.best(query, keys_of(list(clips)), 5))) == 5


def test_the_vectors_of_a_clip_come_back_in_order(engine: Engine, clips: dict[str, np.ndarray]) -> None:
    for one, vectors in clips.items():
        np.testing.assert_allclose(engine.frames(int(keys_of([one])[0])), vectors, atol=1e-6)


def test_a_new_version_takes_the_place_of_the_old_one_at_once(tmp_path: Path, clips: dict[str, np.ndarray]) -> None:
    with Engine(f"{tmp_path / 'moments.db'}/films") as engine:
        with pytest.raises(LibraryError, match="has no moments of films; publish"):
            engine.check("weights")
        first = engine.publish(clips.items(), D, "weights")
        engine.check("weights")
        with pytest.raises(LibraryError, match="of another model"):
            engine.check("others")
        others = made(2, [3, 4])
        query = next(iter(others.values()))[1]
        keys = keys_of([*clips, *others])

        def killed() -> Iterator[tuple[str, np.ndarray]]:
            yield from others.items()
            assert named(engine.best(query, keys, 1))[0][0] < len(clips)  # the old version answers
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.publish(killed(), D, "weights")
        assert engine._client.list_collections() == [first]
        second = engine.publish(others.items(), D, "weights")
        assert named(engine.best(query, keys, 1)) == [(len(clips), 1, pytest.approx(1.0, abs=1e-5))]
        assert sorted(engine._client.list_collections()) == sorted([first, second])
        third = engine.publish(clips.items(), D, "weights")
        assert sorted(engine._client.list_collections()) == sorted([second, third])


def test_addresses_that_are_none_or_have_a_key_and_engines_that_are_away() -> None:
    for address in ("http://root:word@host:19530", "milvus", "https://host/a/b", "http://host?token=word"):
        with pytest.raises(UsageError, match="cannot be used") as told:
            Engine(address)
        assert "word" not in str(told.value)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with pytest.raises(LibraryError, match="cannot be reached") as away:
        Engine("http://127.0.0.1:9")
    assert len(str(away.value).splitlines()) == 1
