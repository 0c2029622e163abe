"""Publishing again and again, to a bucket and to a folder: nothing half written is read, nothing needed is deleted."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.library import Library, PublishSettings, index_folders, open_library, publish_library, repair
from evenreel.library.snapshot import indexes, publish
from evenreel.library.snapshot.following import FollowedLibrary
from evenreel.library.snapshot.holding import FolderHold, SnapshotCache
from evenreel.library.snapshot.manifest import (
    EarlierSnapshot,
    MeasuredIndex,
    Pointer,
    PublishedPart,
    SnapshotManifest,
    StoredObject,
    new_id,
    parse_manifest,
    parse_pointer,
    read_pointer,
)
from evenreel.library.snapshot.opening import cached_manifest, local_folder
from evenreel.library.snapshot.place import ChangedPointerError, SnapshotPlace, snapshot_place
from evenreel.library.store.catalog import STILLS, get_meta, open_for_reading
from evenreel.library.store.writer import open_vectors
from tests.library.fakes import WordsEncoder
from tests.library.snapshot.conftest import SECRET
from tests.library.snapshot.libraries import WORDS, make_library

ENCODER = WordsEncoder()
QUICK = PublishSettings(index_from=10**9, keep_hours=0)
KEEPS = PublishSettings(index_from=10**9)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_library(tmp_path / "library", seed=5, clips=20)


def first_ten(folder: Path, text: str) -> list[tuple[str, float]]:
    with Library(folder, encoder=ENCODER) as library:
        return sorted((hit.clip_id, round(hit.score, 5)) for hit in library.search(text, 10).hits)


@pytest.mark.slow
def test_answers_go_on_while_a_snapshot_is_replaced_twice(home: Path, tmp_path: Path, bucket: str) -> None:
    place, cache = f"{bucket}/twice", SnapshotCache(tmp_path / "cache", rows_bytes=0)
    expected = {text: first_ten(home, text) for text in WORDS}
    first = publish_library(home, place, KEEPS)
    followed = FollowedLibrary(Path(place), cache, every_s=0.05)
    followed.start()
    trouble: list[BaseException] = []

    def replace_twice() -> None:
        try:
            for _ in range(2):
                publish_library(home, place, KEEPS)
        except BaseException as error:
            trouble.append(error)

    publisher = threading.Thread(target=replace_twice)
    publisher.start()
    seen: set[str] = set()
    number = 0
    while publisher.is_alive() or number < 100:
        text = WORDS[number % len(WORDS)]
        seen.add(followed.folder.name)
        assert first_ten(followed.folder, text) == expected[text]
        number += 1
        publisher.join(0.02)
    publisher.join()
    followed.look()
    followed.close()
    assert not trouble
    assert first.id in seen
    assert followed.folder.name == read_pointer(snapshot_place(place)).id != first.id
    assert first_ten(followed.folder, WORDS[0]) == expected[WORDS[0]]


def test_the_current_and_the_last_one_before_are_kept_and_older_ones_go(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "published"
    ids = [publish_library(home, place, QUICK).id for _ in range(2)]
    third = publish_library(home, place, QUICK)
    assert third.dropped == (ids[0],)
    assert sorted(path.name for path in (place / "snapshots").iterdir()) == sorted([ids[1], third.id])
    fourth = publish_library(home, place, PublishSettings(index_from=10**9))
    assert fourth.dropped == ()


@pytest.mark.slow
def test_a_second_publisher_is_refused_and_takes_back_what_it_sent(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = snapshot_place(f"{bucket}/two")
    made = publish._made
    winner: list[str] = []

    def overtaken(*given: object) -> SnapshotManifest:
        monkeypatch.setattr(publish, "_made", made)
        winner.append(publish_library(home, place.root, QUICK).id)
        return made(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(publish, "_made", overtaken)
    with pytest.raises(ChangedPointerError, match="Somebody else has published"):
        publish_library(home, place.root, QUICK)
    assert read_pointer(place).id == winner[0]
    assert place.snapshot_ids() == winner


def test_a_folder_is_held_against_a_second_publisher(home: Path, tmp_path: Path) -> None:
    place = SnapshotPlace(str(tmp_path / "published"))
    publish_library(home, place.root, QUICK)
    with publish._alone(place), pytest.raises(LibraryError, match="Somebody else is publishing"):
        publish_library(home, place.root, QUICK)


@pytest.mark.parametrize("how", ["missing", "short", "changed"])
@pytest.mark.parametrize("what", ["clips.lance/data", "moments.lance/data", "manifest.json"])
def test_what_is_not_what_was_published_is_refused_and_the_old_one_is_served(
    home: Path, tmp_path: Path, how: str, what: str
) -> None:
    place, cache = tmp_path / "published", SnapshotCache(tmp_path / "cache")
    publish_library(home, place, QUICK)
    followed = FollowedLibrary(place, cache, every_s=3600)
    followed.start()
    before = followed.folder
    new = publish_library(home, place, QUICK)
    (path,) = [path for path in (place / "snapshots" / new.id).rglob("*") if path.is_file() and what in path.as_posix()]
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        middle = len(content) // 2
        path.write_bytes(
            content[:middle] + (b"" if how == "short" else bytes([content[middle] ^ 1]) + content[middle + 1 :])
        )
    with pytest.raises(LibraryError, match="publish again") as told:
        followed.look()
    followed.close()
    assert len(str(told.value).splitlines()) == 1
    assert followed.folder == before
    assert first_ten(before, "red bus") == first_ten(home, "red bus")
    assert not (cache.folder / new.id).exists()


ODD = [b"", b"null", b"[]", b"5", b'"x"', b"{}", b"[" * 100_000, b"\xff\xfe", b'{"format": 1e400}', b'{"format": []}']
WRONG = [None, -1, 1e400, 10**400, "../x", "\ud800", [], ["a"], {}, {"a": None}]


def spoilt(record: dict[str, Any]) -> Iterator[bytes]:
    """A record with each entry, and each of what is in those, replaced by everything that it is not; and without it."""
    places: list[tuple[dict[str, Any], str]] = [(record, key) for key in record]
    for holder, key in places:
        kept = holder[key]
        places += [(kept, inner) for inner in kept] if isinstance(kept, dict) and len(places) < 60 else []
        places += [(one, inner) for one in kept if isinstance(one, dict) for inner in one] if key == "indexes" else []
        for wrong in WRONG:
            if type(wrong) is not type(kept):
                holder[key] = wrong
                yield json.dumps(record).encode()
        del holder[key]
        yield json.dumps(record).encode()
        holder[key] = kept


def test_hazard_244_odd_manifests_and_pointers_are_refused_in_a_sentence(tmp_path: Path) -> None:
    index = MeasuredIndex("clips", "clip_id", "BTREE", 1.0, kept=True, seconds=1.0)
    part, own = PublishedPart({"clips": 1}, 8, 4, (index,)), new_id(0.0)
    manifest = SnapshotManifest(own, 0.0, "1", 5, "a model", "a hash", {"": part}, 3, {"a": StoredObject(1, "ab")})
    pointer = Pointer(own, "ab", (EarlierSnapshot(own, 1.0),))
    place = SnapshotPlace(str(tmp_path))
    assert parse_manifest(manifest.dump(), "here") == manifest and parse_pointer(pointer.dump(), place) == pointer
    taken = []
    for payload in [*ODD, *spoilt(json.loads(manifest.dump()))]:
        with contextlib.suppress(LibraryError):
            taken.append(parse_manifest(payload, "here"))
    for payload in [*ODD, *spoilt(json.loads(pointer.dump()))]:
        with contextlib.suppress(LibraryError):
            taken.append(parse_pointer(payload, place))
    kinds = {(name, type(getattr(one, name))) for one in taken for name in vars(one)}
    right = {(name, type(getattr(one, name))) for one in (manifest, pointer) for name in vars(one)}
    assert kinds <= right | {("model", type(None)), ("weights_hash", type(None)), ("stills", type(None))}


def test_a_later_format_is_refused(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "published"
    publish_library(home, place, QUICK)
    pointer = json.loads((place / "current.json").read_text())
    (place / "current.json").write_text(json.dumps({**pointer, "format": 2}))
    with pytest.raises(LibraryError, match="format 2, this evenreel reads format 1; update"):
        local_folder(place, SnapshotCache(tmp_path / "cache"))
    with pytest.raises(LibraryError, match="format 2, this evenreel reads format 1; update"):
        publish_library(home, place, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("s3://nobody-has-this/films", "there is no such bucket"),
        ("s3://key:word@films/x", "credentials in it"),
        ("s3://key:wo/word@films/x", "credentials in it"),
        ("s3://key:word/films", "credentials in it"),
        ("s3://films/x#word", "is no place of snapshots"),
        ("https://store:9000/films", "is no place of snapshots"),
        ("gs://films/x", "is no place of snapshots"),
        ("s3://films/x?versionId=1", "is no place of snapshots"),
    ],
)
def test_places_that_are_none_are_refused_in_one_sentence(home: Path, bucket: str, place: str, what: str) -> None:
    for act in (lambda: publish_library(home, place, QUICK), lambda: open_library(place)):
        with pytest.raises(EvenreelError, match=what) as told:
            act()
        assert len(str(told.value).splitlines()) == 1
        assert "word" not in str(told.value)


@pytest.mark.slow
def test_an_address_that_nobody_answers_at_is_told_soon_and_names_no_key(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(LibraryError, match="cannot be reached; check the network") as told:
        publish_library(home, f"{bucket}/away", QUICK)
    assert SECRET not in str(told.value) + caplog.text


@pytest.mark.slow
def test_a_bucket_without_rights_is_told_in_words_of_our_own(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = SnapshotPlace(f"{bucket}/closed")

    def refuse(*given: object, **named: object) -> None:
        raise PermissionError(f"SignatureDoesNotMatch for {SECRET}")

    monkeypatch.setattr(place.files, "pipe_file", refuse)
    with pytest.raises(LibraryError, match="no right to it") as told:
        place.write_marked("current.json", b"{}", None)
    assert SECRET not in str(told.value)
    assert told.value.__cause__ is None


def test_a_place_that_holds_something_else_is_left_alone(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    for place in (other, home):
        with pytest.raises(LibraryError, match="holds something that is no published snapshot"):
            publish_library(home, place, QUICK)
    assert [path.name for path in other.iterdir()] == ["letter.txt"]
    assert not (home / "publish.lock").exists()


def test_a_full_disk_publishes_nothing_and_the_old_one_stays(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "published"
    old = publish_library(home, place, QUICK)

    def full(*given: object, **named: object) -> None:
        raise OSError("LanceError(IO): No space left on device (os error 28)")

    monkeypatch.setattr(publish, "build_indexes", full)
    with pytest.raises(LibraryError, match=r"The disk of .* is full, so nothing was published"):
        publish_library(home, place, QUICK)
    assert read_pointer(snapshot_place(place)).id == old.id
    assert [path.name for path in (place / "snapshots").iterdir()] == [old.id]


def test_a_full_disk_while_opening_leaves_nothing_half_made(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_library(home, tmp_path / "published", QUICK)
    cache = SnapshotCache(tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(
            "evenreel.library.snapshot.opening.fill_catalog",
            lambda *given: (_ for _ in ()).throw(OSError(28, "No space left on device")),
        )
        with pytest.raises(LibraryError, match=r"The disk of .* is full, so the snapshot"):
            local_folder(tmp_path / "published", cache)
        assert [path for path in cache.folder.iterdir() if path.is_dir()] == []
    assert local_folder(tmp_path / "published", cache).is_dir()


@pytest.mark.slow
def test_commands_that_write_refuse_a_snapshot(home: Path, tmp_path: Path, bucket: str) -> None:
    publish_library(home, tmp_path / "published", QUICK)
    read = local_folder(tmp_path / "published", SnapshotCache(tmp_path / "cache"))
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").write_bytes(b"no video")
    for place in (tmp_path / "published", read, Path(f"{bucket}/x")):
        for act in (lambda place=place: index_folders(tmp_path / "videos", place), lambda place=place: repair(place)):
            with pytest.raises(LibraryError, match="is a published snapshot, which is only read"):
                act()
        with pytest.raises(LibraryError, match="is a published snapshot"):
            publish_library(place, tmp_path / "again", QUICK)


def test_an_index_that_finds_too_little_is_refused_and_taken_off(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "recall_of_clips", lambda dataset, gallery, how: 0.9 if how["nprobes"] > 1 else 1.0)
    report = publish_library(home, tmp_path / "published", PublishSettings(index_from=1))
    of_vectors = [(one.kind, one.recall, one.kept) for one in report.indexes[""] if one.column == "vector"]
    assert of_vectors == [("IVF_SQ", 0.9, False), ("IVF_SQ", 1.0, True)]
    import lance

    dataset = lance.dataset(str(tmp_path / "published" / "snapshots" / report.id / "moments.lance"))
    (left,) = [one for one in dataset.describe_indices() if one.field_names == ["vector"]]
    assert "SQ" in left.index_type
    assert all(one.recall == 1.0 for one in report.indexes[""] if one.column != "vector")


@pytest.mark.slow
def test_stills_are_fetched_when_they_are_wanted(home: Path, tmp_path: Path, bucket: str) -> None:
    publish_library(home, f"{bucket}/stills", QUICK)
    followed = FollowedLibrary(Path(f"{bucket}/stills"), SnapshotCache(tmp_path / "cache"), every_s=3600)
    followed.start()
    stills = sorted((home / STILLS).rglob("*.safetensors"))
    assert stills and not list((followed.folder / STILLS).rglob("*.safetensors"))
    found = followed.stills_of(stills[0].stem)
    assert (found / stills[0].relative_to(home / STILLS)).read_bytes() == stills[0].read_bytes()
    assert followed.stills_of("0" * 31 + "x") == found
    followed.close()
    manifest = cached_manifest(followed.folder)
    assert manifest is not None and manifest.stills == len(stills)


def test_the_cache_drops_what_nobody_reads(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.snapshot.holding.GRACE_S", -1.0)
    cache = SnapshotCache(tmp_path / "cache", most_bytes=0)
    folders = []
    for _ in range(2):
        publish_library(home, tmp_path / "published", QUICK)
        with monkeypatch.context() as patch:
            patch.setattr(SnapshotCache, "drop_unused", lambda self: [])
            folders.append(local_folder(tmp_path / "published", cache))
    hold = FolderHold(folders[0])
    assert cache.drop_unused() == [folders[1].name]
    assert folders[0].is_dir()
    hold.close()
    assert cache.drop_unused() == [folders[0].name]


@pytest.mark.slow
def test_a_snapshot_stays_whose_pointer_was_put_though_the_answer_was_lost(
    home: Path, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_library(home, f"{bucket}/lost", QUICK)
    put = SnapshotPlace.write_marked

    def twice(self: SnapshotPlace, name: str, payload: bytes, mark: str | None) -> None:
        for _ in range(2):  # as a client does that has heard nothing
            put(self, name, payload, mark)

    monkeypatch.setattr(SnapshotPlace, "write_marked", twice)
    new = publish_library(home, f"{bucket}/lost", QUICK)
    assert local_folder(f"{bucket}/lost", SnapshotCache(tmp_path / "cache")).name == new.id


def test_what_cannot_be_deleted_is_no_failure_of_publishing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "published"
    old = [publish_library(home, place, QUICK).id for _ in range(2)]

    def refuse(self: SnapshotPlace, name: str) -> None:
        raise LibraryError("it cannot be written")

    monkeypatch.setattr(SnapshotPlace, "remove", refuse)
    new = publish_library(home, place, QUICK)
    assert new.dropped == ()
    assert read_pointer(snapshot_place(place)).id == new.id
    assert (place / "snapshots" / old[0]).is_dir()


@pytest.mark.slow
def test_a_folder_object_of_a_bucket_is_nothing_strange(home: Path, bucket: str) -> None:
    place = snapshot_place(f"{bucket}/marked")
    place.files.call_s3("put_object", Bucket="films", Key="marked/", Body=b"")
    assert publish_library(home, place.root, QUICK).id == read_pointer(place).id


def test_changed_vectors_are_refused_though_they_are_not_copied(home: Path, tmp_path: Path) -> None:
    new = publish_library(home, tmp_path / "published", QUICK)
    own = open_for_reading(home)
    matrix = open_vectors(home, get_meta(own))
    first, count = own.execute("SELECT first_row, count FROM vector_rows ORDER BY first_row").fetchone()
    own.close()
    assert matrix is not None
    stored = matrix.read(first, count)[0].tobytes()
    (path,) = (tmp_path / "published" / "snapshots" / new.id / "moments.lance" / "data").iterdir()
    content = path.read_bytes()
    assert content.count(stored) >= 1
    path.write_bytes(content.replace(stored, bytes(len(stored)), 1))
    with pytest.raises(LibraryError, match=r"moments\.lance lacks vectors, or has others"):
        local_folder(tmp_path / "published", SnapshotCache(tmp_path / "cache", rows_bytes=0))


def test_what_killed_processes_left_is_deleted(home: Path, tmp_path: Path) -> None:
    place, cache = tmp_path / "published", SnapshotCache(tmp_path / "cache")
    publish_library(home, place, QUICK)
    name = ".20200101T000000Z-0123456789abcdef.0123456789abcdef.tmp"
    for folder in (place / "snapshots" / name, cache.folder / name):
        (folder / "moments.lance").mkdir(parents=True)
    held = cache.folder / name.replace("2020", "2021")
    held.mkdir()
    publish_library(home, place, QUICK)
    with FileLock(cache.folder / f"{held.name[:34]}.lock"):  # of a process that still makes it
        local_folder(place, cache)
    assert not (place / "snapshots" / name).exists()
    assert not (cache.folder / name).exists()
    assert held.is_dir()


def test_a_cache_in_a_folder_of_others_leaves_its_rights_alone(home: Path, tmp_path: Path) -> None:
    publish_library(home, tmp_path / "published", QUICK)
    (tmp_path / "cache").mkdir(mode=0o755)
    (tmp_path / "cache").chmod(0o755)
    read = local_folder(tmp_path / "published", SnapshotCache(tmp_path / "cache"))
    if os.name == "posix":
        assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "cache", read)] == ["0o755", "0o700"]


def test_settings_have_bounds() -> None:
    for wrong in ({"keep_hours": -1.0}, {"keep_hours": float("nan")}, {"index_from": -1}):
        with pytest.raises(UsageError, match="must be"):
            PublishSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("act", [open_library, lambda place: index_folders(".", place), repair])
def test_a_name_that_is_too_long_is_refused_in_one_sentence(act: Callable[[str], object]) -> None:
    with pytest.raises(LibraryError, match=r"cannot be opened \(file name too long\); name another --library"):
        act("x" * 300)


def test_rows_are_sampled_evenly_over_batches_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lance
    import pyarrow as pa

    values = [f"v{number // 3}" for number in range(301)]
    dataset = lance.write_dataset(pa.table({"clip_id": values}), str(tmp_path / "t.lance"), max_rows_per_file=64)
    monkeypatch.setattr(indexes, "AT_ONCE", 7)
    monkeypatch.setattr(indexes, "SAMPLED", 11)
    found = indexes._sampled(dataset, "clip_id")
    assert sorted(found) == sorted({f"v{30 * number // 3}" for number in range(11)})
    dataset.create_scalar_index("clip_id", "BTREE")
    assert indexes._recall_of_rows(dataset, "clip_id", "BTREE") == 1.0
