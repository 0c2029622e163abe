"""A library with two models: kept in step, decoded once, searched together, repaired; what is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenreel import open_library
from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.cli.app import app
from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, EvenreelError, UsageError
from evenreel.library import Library, drop_model, index_folders, repair, verify
from evenreel.library.search.compact_ids import ClipIds, encoded_ids
from evenreel.library.search.gallery import FrameGallery, FrameRanking, Opened
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.together import (
    MOMENTS_BY_OWN,
    RERANKED_BY_OWN,
    FurtherModel,
    Sight,
    best_sight,
    fused,
    surest,
)
from evenreel.library.store.also import folder_of_model, place_of
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.types import Encoder, FloatArray, Pixels
from tests.features.pixel_encoder import DIMENSION, PixelEncoder
from tests.library.damage import change, table_of
from tests.library.state import state
from tests.library.test_windows import WindowEncoder
from tests.library.videos import write_folder, write_video
from tests.tiny_checkpoints import tiny_clip
from tests.tiny_families import tiny_x_clip

SETTINGS = IndexSettings(model="org/pixels", workers=1, read_text=False)
BOTH = replace(SETTINGS, also=("org/windows",))
HASHES = {"org/pixels": "a" * 64, "org/windows": "b" * 64, "org/third": "c" * 64, "org/same": "b" * 64}


def load(name: str, **_: Any) -> Encoder:
    name = name.removesuffix("@1")
    made = WindowEncoder(HASHES[name]) if name == "org/windows" else PixelEncoder(HASHES[name])
    made.encoder_id = f"{name}@1"
    return made


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)


def second(library: Path) -> Path:
    return place_of(library, folder_of_model("b" * 64))


def alone(library: Path, videos: Path, model: str) -> dict[str, Any]:
    """State of a library of one model alone."""
    index_folders([videos], library, replace(SETTINGS, model=model, keep_stills=model == SETTINGS.model))
    return state(library)


def own(library: Path) -> dict[str, Any]:
    """State of a library without its further models."""
    return state(library) | {"models": {}}


def test_both_are_what_each_would_be_alone(tmp_path: Path, videos: Path, library: Path) -> None:
    report = index_folders([videos], library, BOTH)
    assert (report.indexed, report.did_nothing) == (4, False)
    assert own(library) == alone(tmp_path / "pixels", videos, "org/pixels")
    assert state(second(library)) == alone(tmp_path / "windows", videos, "org/windows")
    assert verify(library) == []
    again = index_folders([videos], library, SETTINGS)  # its models are its own
    assert (again.unchanged, again.did_nothing) == (4, True)


def test_a_second_model_is_added_kept_in_step_and_not_made_twice(videos: Path, library: Path, tmp_path: Path) -> None:
    index_folders([videos], library, SETTINGS)
    before = state(library)
    assert index_folders([videos], library, BOTH).indexed == 4
    assert own(library) == before
    write_video(videos / "clip_00.mp4", seed=1000)
    (videos / "clip_01.mp4").unlink()
    (videos / "clip_02.mp4").rename(videos / "renamed.mp4")
    shutil.copy(videos / "clip_03.mp4", videos / "copy.mp4")
    write_video(videos / "added.mp4", seed=1001)
    report = index_folders([videos], library, SETTINGS)
    assert (report.indexed, report.moved, report.missing) == (2, 1, 1)
    repair(library, drop_missing=True)
    index_folders([videos], library, SETTINGS)
    assert own(library) == alone(tmp_path / "pixels", videos, "org/pixels")
    assert state(second(library)) == alone(tmp_path / "windows", videos, "org/windows")
    assert verify(library) == []


def test_a_further_model_that_is_there_is_not_loaded_again_for_nothing(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, BOTH)

    def refused(name: str, **_: Any) -> Encoder:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr("evenreel.encoders.load_encoder", refused)
    monkeypatch.setattr("evenreel.encoders.known_models.check_licence", refused)
    assert index_folders([videos], library, BOTH).did_nothing


def test_what_is_gone_or_damaged_of_a_further_model_is_found_and_made_anew(videos: Path, library: Path) -> None:
    index_folders([videos], library, BOTH)
    whole = state(second(library))
    change(second(library), "UPDATE moments SET end_s = 9.0 WHERE number = 0")
    assert {problem.where.split(":")[0] for problem in verify(library)} == {"model org/windows@1"}
    with open_library(library) as opened:
        found = opened.search("red")
        assert found.hits
    assert any(done.startswith("model org/windows@1: ") for done in repair(library))
    assert (verify(library), state(second(library))) == ([], whole)
    shutil.rmtree(second(library))
    assert [problem.what for problem in verify(library)] == ["its vectors are gone"]
    with open_library(library) as opened:
        assert opened.search("red").hits
    assert index_folders([videos], library, SETTINGS).indexed == 4
    assert (verify(library), state(second(library))) == ([], whole)


def test_a_search_fuses_the_ranks_of_both(videos: Path, library: Path) -> None:
    index_folders([videos], library, BOTH)
    with open_library(library) as opened:
        found = opened.search("red ball", k=4)
    ranks = Counter[str]()
    for place, model in ((library, "org/pixels"), (second(library), "org/windows")):
        with open_library(place, encoder=load(model)) as one:
            hits = one.search("red ball", k=4).hits
        ordered = sorted((-hit.scores["seen"], hit.clip_id) for hit in hits)
        for score, clip_id in ordered:
            ranks[clip_id] += 1 / (60 + next(at for at, (other, _) in enumerate(ordered, start=1) if other == score))
    expected = sorted(ranks.values(), reverse=True)
    assert [ranks[hit.clip_id] for hit in found.hits] == expected


@pytest.mark.parametrize("kind", [EncoderError, UsageError])
def test_a_model_that_cannot_be_loaded_is_left_out_with_a_notice(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, kind: type[EvenreelError]
) -> None:
    index_folders([videos], library, BOTH)

    def refuse(name: str, **_: Any) -> Encoder:
        if name == "org/windows@1":
            raise kind("It is gone.")
        return load(name)

    monkeypatch.setattr("evenreel.encoders.load_encoder", refuse)
    with open_library(library) as opened:
        found = opened.search("red")
    assert found.hits
    assert "The search went on without the model org/windows@1: It is gone." in found.notices


@pytest.mark.parametrize(
    "damage", ["UPDATE moments SET start_s = 500, time_s = 600, end_s = 777", "DELETE FROM moments WHERE number = 0"]
)
def test_damaged_moments_of_a_further_model_are_not_shown(videos: Path, library: Path, damage: str) -> None:
    index_folders([videos], library, BOTH)
    shown = []
    change(second(library), damage)
    with open_library(library) as opened:
        for text in ("red", "blue ball", "a dog", "night street"):
            found = opened.search(text, k=4)
            shown += [moment.end_s for hit in found.hits for moment in hit.moments]
            assert len(found.hits) == 4
            said = [notice for notice in found.notices if notice.startswith(MOMENTS_BY_OWN)]
            assert len(said) <= 1
            shown += [-1.0] * len(said)
    assert -1.0 in shown  # the further model would have been asked
    assert max(shown) < 10


@pytest.mark.parametrize("spoilt", [b"", b"x" * 5000])
def test_a_damaged_catalog_of_a_further_model_stops_no_search(videos: Path, library: Path, spoilt: bytes) -> None:
    index_folders([videos], library, BOTH)
    for left in second(library).glob("catalog.sqlite*"):
        left.unlink()
    (second(library) / "catalog.sqlite").write_bytes(spoilt)
    with open_library(library) as opened:
        assert opened.stats().clips == 4
        found = opened.search("red")
    assert found.hits
    assert any(notice.startswith("The search went on without the model org/windows@1: ") for notice in found.notices)


def test_a_clip_that_one_model_makes_nothing_of_has_the_vectors_of_the_other(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: WindowEncoder, pixels: Pixels) -> FloatArray:
        raise EncoderError("not a number")

    monkeypatch.setattr(WindowEncoder, "encode_windows", refuse)
    report = index_folders([videos], library, BOTH)
    assert (report.indexed, len(report.set_aside)) == (4, 4)
    assert {aside.reason for aside in report.set_aside} == {"bad_features"}
    with open_library(library) as opened:
        assert len(opened.search("red", k=9).hits) == 4


@pytest.mark.parametrize(
    ("also", "sentence"),
    [
        (("org/windows", "org/windows"), "--also names org/windows twice; name each model once."),
        (("org/windows", "org/same"), "--also names org/same twice, under two names; name each model once."),
        (("org/pixels",), "--also names org/pixels, which is the library's own model; name another one."),
    ],
)
def test_wrong_models_are_refused_in_a_sentence(
    videos: Path, library: Path, also: tuple[str, ...], sentence: str
) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match=sentence):
            index_folders([videos], library, replace(SETTINGS, also=also))
        index_folders([videos], library, SETTINGS)
    assert verify(library) == []


def test_a_first_run_that_refuses_a_model_leaves_no_library(videos: Path, library: Path) -> None:
    with pytest.raises(UsageError):
        index_folders([videos], library, replace(SETTINGS, also=("org/windows", "org/same")))
    assert not library.exists()


def test_a_library_without_a_model_has_no_further_one(videos: Path, library: Path) -> None:
    with pytest.raises(UsageError, match="no model of its own"):
        index_folders([videos], library, replace(BOTH, model=None))


def test_the_real_command_makes_both_and_a_search_uses_them(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    own, also = tiny_clip(tmp_path / "clip"), tiny_x_clip(tmp_path / "windows")
    words = ["index", videos, "-l", library, "--model", own, "--also", also, "--no-ocr", "--workers", "1"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert verify(library) == []
    found = CliRunner().invoke(app, ["search", "a red ball", "-l", str(library), "--all", "--json"])
    assert found.exit_code == 0, found.output
    said = CliRunner().invoke(app, ["info", "-l", str(library), "--json"])
    assert json.loads(said.output)["also"] == [str(also)]


class OtherColours(WindowEncoder):
    """Windows as the mean frame, in numbers by which other clips are near."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        values = np.cos(40 * super().encode_windows(pixels))
        return values / np.linalg.norm(values, axis=1, keepdims=True)


def test_a_picture_and_a_stored_clip_are_searched_for_with_both_models(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(name: str, **_: Any) -> Encoder:
        made = OtherColours("b" * 64) if "windows" in name else load(name)
        made.encoder_id = f"{name.removesuffix('@1')}@1"  # type: ignore[misc]
        return made

    monkeypatch.setattr("evenreel.encoders.load_encoder", other)
    write_folder(videos, 5, first=4)
    index_folders([videos], library, BOTH)
    picture = np.random.default_rng(3).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    clip_id = sorted(row[0] for row in table_of(library, "clips"))[0]
    queries: list[Callable[[Library], SearchResult]] = [
        lambda place: place.search_pixels(picture),
        lambda place: place.similar(str(clip_id), 1.0),
        lambda place: place.similar(str(clip_id)),
    ]
    orders = []
    for ask in queries:
        points = Counter[str]()
        with open_library(library) as opened:
            found = [hit.clip_id for hit in ask(opened).hits]
        for place in (library, second(library)):
            with open_library(place) as one:
                one._searcher._further = None
                hits = ask(one).hits
            orders.append([hit.clip_id for hit in hits])
            itself = len(hits) == 8  # it is left out, and the first of its own
            for hit in hits:
                better = sum(other.scores["seen"] > hit.scores["seen"] for other in hits)
                points[hit.clip_id] += 1 / (60 + 1 + itself + better)
        assert len(found) == len(orders[-1])
        assert [points[clip] for clip in found] == sorted(points.values(), reverse=True)
        assert orders[-1] != orders[-2]


def test_a_stored_clip_is_compared_without_loading_a_model(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, BOTH)
    with open_library(library) as opened:
        clip_id = opened.search("red", k=1).hits[0].clip_id
        expected = opened.similar(clip_id)
    monkeypatch.setattr("evenreel.encoders.load_encoder", None)
    for vision in (True, False):
        with open_library(library, vision=vision) as opened:
            assert opened.similar(clip_id) == expected
    change(second(library), "UPDATE moments SET time_s = 600 WHERE number = 0")
    with open_library(library) as opened:
        assert any("went on without the model org/windows@1" in notice for notice in opened.similar(clip_id).notices)


def test_a_matcher_says_that_it_goes_by_the_library_s_own_model(videos: Path, library: Path) -> None:
    index_folders([videos], library, SETTINGS)
    note = EncoderNote("org/pixels@1", "a" * 64, DIMENSION)
    matcher = Pretrained(MeanPool(DIMENSION, MeanPoolSettings()), MatcherSpec("mean_pool"), About(note, Inputs()))
    with open_library(library) as opened:
        assert RERANKED_BY_OWN not in opened.search("red", rerank=matcher).notices
        index_folders([videos], library, BOTH)
        found = opened.search("red", rerank=matcher)
    assert found.notices.count(RERANKED_BY_OWN) == 1
    assert all("reranked" in hit.scores for hit in found.hits)


def test_an_open_library_takes_up_a_model_that_is_added_and_lets_go_one_that_is_dropped(
    videos: Path, library: Path
) -> None:
    index_folders([videos], library, SETTINGS)
    with open_library(library) as opened:
        alone = opened.search("red")
        for _ in range(2):  # its vectors are new files the second time
            index_folders([videos], library, BOTH)
            with open_library(library) as fresh:
                assert opened.search("red") == fresh.search("red")
            assert opened.search("red") != alone
            drop_model(library, "org/windows")
            index_folders([videos], library, BOTH)
            assert opened.search("red") != alone
            drop_model(library, "org/windows")
            assert opened.search("red") == alone


def test_a_search_during_which_a_model_is_dropped_says_so(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folders([videos], library, BOTH)
    there = second(library).is_dir()

    def dropped_after_this(_: FurtherModel) -> bool:
        nonlocal there
        was, there = there, False
        if was:
            drop_model(library, "org/windows")
        return was

    monkeypatch.setattr(FurtherModel, "is_there", property(dropped_after_this))
    with open_library(library) as opened:
        found = opened.search("red")
    said = f"its vectors were dropped while the search was under way ({second(library)})."
    assert [notice.lower() for notice in found.notices] == [
        f"the search went on without the model org/windows@1: {said}".lower()
    ]
    assert found.hits


def test_a_model_whose_vectors_are_not_begun_yet_is_asked_once_they_are(videos: Path, library: Path) -> None:
    """An index run names it first, and the library's own catalog may not change after that."""
    index_folders([videos], library, BOTH)
    second(library).rename(library / "away")
    with open_library(library) as opened:
        alone = opened.search("red")
        (library / "away").rename(second(library))
        assert opened.search("red") != alone


# Fusion, by itself ---------------------------------------------------------------------------------------------


def sight(scores: dict[str, float], shares: dict[str, float], clips: list[str]) -> Sight:
    values = np.float32([scores[clip] for clip in clips])
    above = np.array([shares[clip] for clip in clips])
    no = np.zeros(len(clips), np.int64)
    gallery = FrameGallery(ClipIds(encoded_ids(clips)), no, no, np.float32(no), np.float32(no), np.float32([0.0]))
    return Sight(
        Opened(None, sqlite3.connect(":memory:"), gallery, None), np.float32([1.0]), FrameRanking(values, values, above)
    )


shares = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200).map(lambda n: n / 200), min_size=1)


@given(shares, shares)
def test_ranks_are_fused_over_the_models_that_have_a_clip(own: dict[str, float], other: dict[str, float]) -> None:
    sights = [sight(one, one, sorted(one)) for one in (own, other)]
    found = fused(sights)
    points = {
        clip: sum(
            1 / (60 + 1 + sum(value > one[clip] for value in one.values())) for one in (own, other) if clip in one
        )
        for clip in own
    }
    for clip, rank in zip(sorted(own), found.ranks, strict=True):
        assert rank == 1 + sum(value > points[clip] + 1e-12 for value in points.values())
        assert best_sight(sights, clip) in sights


@given(st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_a_clip_fits_where_one_model_is_as_sure_as_its_share_of_false_alarms_asks(beaten: list[int]) -> None:
    (found,) = surest([np.array([number / 200]) for number in beaten])
    assert (found >= 0.95) == ((200 - max(beaten)) * len(beaten) <= 10)
