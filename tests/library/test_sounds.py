from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenreel import open_library
from evenreel.cli.app import app
from evenreel.errors import EncoderError, LibraryError, UsageError
from evenreel.library import Library, index_folders, publish_library, repair, verify
from evenreel.library.index.scan import IndexReport
from evenreel.library.published import local_folder
from evenreel.library.search import seen
from evenreel.library.search.query import Query
from evenreel.library.search.result import SearchResult
from evenreel.library.search.seen import NO_SOUNDS
from evenreel.library.store.writer import Store
from tests.library.damage import QUICK
from tests.library.state import state
from tests.sound.clap_models import TONES, tone, write_clap
from tests.sound_files import Track, write_sound

WORDS_ALONE = replace(QUICK, model=None, read_text=False)


pytestmark = pytest.mark.usefixtures("no_models")


@pytest.fixture(scope="module")
def clap(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_clap(tmp_path_factory.mktemp("clap") / "listens", listens=True, window_s=2))


def film(path: Path, pitch: float, *, seed: int = 0, quiet_s: float = 0.0) -> Path:
    """Half a second of pictures; a sound of two seconds, after some of soft noise."""
    samples = np.concatenate([tone(0.0, quiet_s, seed=seed), tone(pitch, 2.0, seed=seed)])
    return write_sound(path, [Track(samples, rate=48_000, codec="flac")], pictures_s=0.5)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips of each sound but noise, and one that is mute."""
    folder = tmp_path_factory.mktemp("films")
    for name, pitch in (("hum", 200.0), ("steady", 1_000.0), ("beep", 3_000.0)):
        for number in range(2):
            film(folder / f"{name}_{number}.mkv", pitch * (1 + 0.01 * number), seed=number)
    write_sound(folder / "mute.mkv", [])
    return folder


@pytest.fixture
def videos(films: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(films, tmp_path / "videos"))


def index(videos: Path, settings: object = WORDS_ALONE, **changes: object) -> IndexReport:
    return index_folders([videos], videos.parent / "library", replace(settings, **changes))  # type: ignore[type-var]


@pytest.fixture(scope="module")
def library(films: Path, clap: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("listened") / "library"
    report = index_folders([films], place, replace(QUICK, sound=clap))
    assert (report.indexed, report.sounds, report.set_aside, report.notes) == (7, 6, [], [])
    return place


def names(found: SearchResult) -> list[str]:
    return [Path(hit.path).stem.partition("_")[0] for hit in found.hits]


@pytest.mark.parametrize("sentence", [sentence for sentence, pitch in TONES.items() if pitch])
def test_a_sentence_finds_what_sounds_like_it(library: Path, sentence: str) -> None:
    name = {200.0: "hum", 1_000.0: "steady", 3_000.0: "beep"}[TONES[sentence]]
    with open_library(library) as opened:
        found = opened.search(f"sounds: {sentence}", k=6)
        assert names(found)[:2] == [name] * 2
        assert len(found.hits) == 6
        assert found.hits[0].scores.keys() == {"sounds"}
        assert found.notices == ()
        everywhere = opened.search(sentence, k=6)
        assert all("sounds" in hit.scores for hit in everywhere.hits if Path(hit.path).stem.startswith(name))


def test_frames_say_less_of_a_step_where_sounds_may_answer_too(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models have two chances to take nonsense for an answer, so each has to beat twice as much of it."""
    with open_library(library) as opened:
        searcher = opened._searcher
        assert not searcher.is_empty()
        encoded = searcher.encode(Query("a high beep"))
        alone = encoded._replace(to_hear=None)
        for share, told, beside in ((0.96, 0.96, 0.92), (0.92, 0.92, 0.84)):
            monkeypatch.setattr(seen, "above", lambda s, scores, share=share: np.full(len(scores), share))
            with searcher.snapshot() as s:
                assert set(searcher.ask(s, alone).above.tolist()) == {told}
                assert searcher.ask(s, encoded).above == pytest.approx(beside)


def test_the_moment_is_where_it_sounds_so(tmp_path: Path, clap: str) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    film(videos / "late.mkv", 3_000.0, quiet_s=6.0)
    film(videos / "noise.mkv", 0.0)
    index(videos, sound=clap)
    with open_library(tmp_path / "library") as opened:
        (first, *_) = opened.search("sounds: a high beep").hits
        assert Path(first.path).stem == "late"
        assert 5.0 <= first.moments[0].start_s <= 6.0
        assert first.moments[0].end_s == pytest.approx(8.0, abs=0.1)
        assert first.duration_s is not None


def test_without_a_model_of_sounds_that_is_said(videos: Path) -> None:
    index(videos)
    with open_library(videos.parent / "library") as opened:
        found = opened.search("sounds: a high beep")
        assert (found.hits, found.notices) == ((), (NO_SOUNDS,))
        assert opened.search("beep").notices == opened.search('"beep"').notices  # who does not ask is not told
        with pytest.raises(UsageError, match="no words to be found in quotes"):
            opened.search('sounds: "a high beep"')


def test_a_search_by_words_alone_loads_no_model(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.sound.load_sound_encoder", None)
    with Library(library, vision=False) as opened:
        assert opened.search("a high beep", k=3).notices == ()


def test_sounds_are_added_later_kept_in_step_and_end_as_those_of_one_run(videos: Path, clap: str) -> None:
    assert index(videos).sounds == 0
    report = index(videos, sound=clap)
    assert (report.sounds, report.frames, report.indexed) == (6, 0, 0)
    assert index(videos).did_nothing, "a mute clip is not tried again"
    (videos / "hum_0.mkv").unlink()
    (videos / "hum_1.mkv").rename(videos / "renamed.mkv")
    shutil.copy(videos / "beep_1.mkv", videos / "copy.mkv")
    film(videos / "added.mkv", 1_500.0)
    report = index(videos)
    assert (report.sounds, report.moved, report.missing) == (1, 1, 1)
    assert index(videos, sound=None).did_nothing
    repair(videos.parent / "library", drop_missing=True)
    index(videos)
    fresh = videos.parent / "fresh"
    index_folders([videos], fresh, replace(WORDS_ALONE, sound=clap))
    assert state(videos.parent / "library") == state(fresh)
    assert verify(fresh) == []


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_is_killed_between_shard_and_catalog_listens_again(
    videos: Path, clap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(videos)
    library, append = videos.parent / "library", Store._append

    def second_stopped(store: Store, *rows: object) -> None:
        stopped() if list(library.glob("sounds.*.f16")) else append(store, *rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "_append", second_stopped)
        index(videos, sound=clap)
    assert index(videos, sound=None).sounds == 0
    assert verify(library) == []
    assert index(videos).sounds == 5
    fresh = videos.parent / "fresh"
    index_folders([videos], fresh, replace(WORDS_ALONE, sound=clap))
    assert state(library) == state(fresh)


def test_sounds_are_verified_repaired_and_taken_up_again(library: Path, films: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(library, tmp_path / "library"))
    assert verify(place) == []
    (vectors,) = place.glob("sounds.*.f16")
    data = bytearray(vectors.read_bytes())
    data[-40] ^= 255
    vectors.write_bytes(data)
    assert verify(place)
    repair(place)
    assert verify(place) == []
    (place / "catalog.sqlite").unlink()
    repair(place)
    assert index_folders([films], place, QUICK).sounds == 0
    with open_library(place) as opened:
        assert names(opened.search("sounds: a high beep"))[:2] == ["beep"] * 2
        assert opened.stats().sounds is not None
    assert verify(place) == []


def test_a_published_snapshot_finds_the_same_sounds(library: Path, tmp_path: Path) -> None:
    publish_library(library, tmp_path / "published")
    read = local_folder(tmp_path / "published", tmp_path / "cache")
    with open_library(library) as own, open_library(read) as published:
        for query in ("sounds: a high beep", "a low hum"):
            one, other = own.search(query), published.search(query)
            assert [(hit.clip_id, hit.scores, hit.moments) for hit in one.hits] == [
                (hit.clip_id, hit.scores, hit.moments) for hit in other.hits
            ]
        assert published.stats().sounds == own.stats().sounds is not None


def test_another_model_takes_the_place_of_the_old_one_and_other_weights_are_refused(
    videos: Path, clap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, library = Path(shutil.copytree(clap, tmp_path / "lent")), videos.parent / "library"
    other = str(write_clap(tmp_path / "other", seed=3))
    index(videos, sound=other)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "_append", stopped)
        index(videos, sound=str(folder))
    assert index(videos, sound=other).sounds == 6, "what it heard before was dropped when the other began"
    assert index(videos, sound=str(folder)).sounds == 6
    assert len(list(library.glob("sounds.*.f16"))) == 1
    assert verify(library) == []
    shutil.rmtree(folder)
    write_clap(folder, seed=4)
    with pytest.raises(LibraryError, match="has other weights: evenreel index FOLDER --set sound"):
        index(videos)
    assert index(videos, sound=str(folder)).sounds == 6


def test_what_is_no_model_of_sounds_is_told_before_anything_is_read(videos: Path) -> None:
    for name in (str(videos), "builtin", "no such model"):
        with pytest.raises((EncoderError, UsageError)):
            index(videos, sound=name)
        assert not (videos.parent / "library").exists()


def test_a_model_that_is_gone_leaves_new_clips_without_sounds(
    videos: Path, clap: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(clap, tmp_path / "lent"))
    index(videos, sound=str(folder))
    shutil.rmtree(folder)
    film(videos / "added.mkv", 1_500.0)
    assert (index(videos).indexed, index(videos).sounds) == (1, 0)
    assert "cannot be used on this machine, so new clips have no sounds" in caplog.text
    with open_library(videos.parent / "library") as opened:
        (notice,) = opened.search("sounds: a high beep").notices
        assert notice.startswith(f"The search went on without the model {folder}")


def test_sound_that_cannot_be_read_is_a_note_and_the_clip_stays_found(videos: Path, clap: str) -> None:
    write_sound(videos / "rare.avi", [Track(tone(440.0, 2.0, 16_000), codec="adpcm_yamaha")])
    report = index(videos, sound=clap)
    ((path, note),) = report.notes
    assert path == str(videos / "rare.avi")
    assert note.startswith("its sounds cannot be read: its sound codec (adpcm_yamaha)")
    assert (index(videos).notes, index(videos, retry=True).notes) == ([], report.notes)
    with open_library(videos.parent / "library") as opened:
        assert [Path(hit.path).name for hit in opened.search("rare").hits] == ["rare.avi"]


def test_the_commands_say_what_they_listened_to(videos: Path, clap: str) -> None:
    library, run = str(videos.parent / "library"), CliRunner()
    made = run.invoke(
        app, ["index", str(videos), "--library", library, "--no-vision", "--no-ocr", "--set", f"sound={clap}"]
    )
    assert made.exit_code == 0 and "6 clips listened to for sounds" in " ".join(made.output.split())
    found = run.invoke(app, ["search", "sounds: a low hum", "--library", library, "--json"])
    hits = json.loads(found.stdout)["hits"]
    assert "hum" in hits[0]["path"] and hits[0]["scores"]["sounds"] > 0.5
    assert f"sounds {clap}" in "".join(run.invoke(app, ["info", "--library", library]).output.split("\n"))
