from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.library import Library, PublishSettings, index_folders, open_library, publish_library, published, repair
from evenreel.library.published import FollowedLibrary, Place, local_folder
from tests.features.pixel_encoder import PixelEncoder
from tests.library.s3 import SECRET, bucket, s3_server
from tests.library.videos import write_folder

__all__ = ["bucket", "s3_server"]

QUERIES = ["a red tram", "harbour", '"the last boat"', "brown", "tram harbr", "sky -boat"]
SOON = PublishSettings(keep_hours=0)
SAID = ["the last boat leaves the harbour", "a tram for two", "nobody speaks"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is there at once; and no power is cut here, while a busy disk is slow to say what is written."""
    monkeypatch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder())
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def index(folder: Path, library: Path, first: int, count: int) -> Path:
    """Videos with subtitles and captions, and their library."""
    rows = ["file,caption,source"]
    for number, path in enumerate(write_folder(folder, count, first=first)):
        path.with_suffix(".srt").write_text(f"1\n00:00:00,100 --> 00:00:01,900\n{SAID[number % 3]}\n")
        rows.append(f"{path.name},brown cloud {number},{'camera' if number % 2 else 'generator'}")
    (folder / "metadata.csv").write_text("\n".join(rows))
    index_folders([folder], library, IndexSettings(model="pixels", read_text=False, workers=1))
    return library


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder())
        folder = tmp_path_factory.mktemp("made")
        return [index(folder / f"v{n}", folder / f"library{n}", first=10 * n, count=3 + n) for n in range(3)]


@pytest.fixture
def home(made: list[Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "library"))


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "published")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


def answers(folder: Path) -> dict[str, Any]:
    with Library(folder, encoder=PixelEncoder()) as library:
        found: dict[str, Any] = {}
        for query in QUERIES:
            for where in (None, "source = 'camera'", "duration_s > 1"):
                result = library.search(query, 10, where)
                found[f"{query} {where}"] = (result.hits, result.matches, result.notices)
        ids = [hit.clip_id for hit in library.search("brown", 5).hits]
        found["clips"] = [library.transcripts(one) for one in ids], [library.locate(one) for one in ids]
        found["files"], found["facets"] = library.files(limit=100), library.facets()
        found["stats"] = replace(library.stats(), library="", snapshot=None)
        return found


def brief(folder: Path) -> list[Any]:
    with Library(folder, encoder=PixelEncoder()) as library:
        return [library.search("harbour", 10).hits, library.stats().clips]


def test_what_is_published_answers_as_the_library_does(home: Path, place: str, tmp_path: Path) -> None:
    report = publish_library(home, place)
    with open_library(place, encoder=PixelEncoder(), cache=tmp_path / "cache") as opened:
        copy, stats = opened.path, opened.stats()
    assert (stats.library, stats.snapshot, stats.clips) == (report.to, report.id, 3)
    assert answers(copy) == answers(home)
    names = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    stills = {path.relative_to(home).as_posix() for path in (home / "stills").rglob("*") if path.is_file()}
    assert len(stills) == 3
    assert names - {"meanings.1.f16"} == {"catalog.sqlite", "vectors.0.f16", "snapshot.json"} | stills
    assert oct(copy.stat().st_mode & 0o777) == "0o700"


def test_a_library_by_words_alone_and_without_stills(made: list[Path], tmp_path: Path) -> None:
    home = tmp_path / "words"
    videos = made[1].parent / "v1"
    index_folders([videos], home, IndexSettings(model=None, read_text=False, workers=1))
    publish_library(home, tmp_path / "published", PublishSettings(stills=False))
    copy = local_folder(tmp_path / "published", tmp_path / "cache")
    assert {path.name for path in copy.iterdir()} - {"meanings.1.f16"} == {"catalog.sqlite", "snapshot.json"}
    with Library(home, vision=False) as own, Library(copy, vision=False) as other:
        assert [own.search(query).hits for query in QUERIES] == [other.search(query).hits for query in QUERIES]


def test_readers_during_fifteen_replacements_get_one_library_or_another(
    made: list[Path], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "EVERY_S", 0.02)
    monkeypatch.setattr(published, "SENDING_S", 0.0)
    monkeypatch.setattr(published, "PIECE_BYTES", 60_000)
    monkeypatch.setattr(published, "PART_BYTES", 20_000)
    expected = [brief(library) for library in made]
    publish_library(made[0], place, SOON)
    followed = FollowedLibrary(Path(place), tmp_path / "followed")
    followed.start()
    trouble: list[BaseException] = []
    seen: list[int] = []
    ended = threading.Event()

    def read(one: Callable[[], Path]) -> None:
        try:
            while not ended.is_set():
                seen.append(expected.index(brief(one())))
                time.sleep(0.05)  # the server is in this process too
        except BaseException as error:
            trouble.append(error)

    readers = [
        threading.Thread(target=read, args=[lambda: followed.folder]),
        threading.Thread(target=read, args=[lambda: local_folder(place, tmp_path / "cache")]),
    ]
    for reader in readers:
        reader.start()
    for number in range(1, 16):
        last, answered, until = publish_library(made[number % 3], place, SOON), len(seen), time.monotonic() + 5
        while len(seen) == answered and not trouble and time.monotonic() < until:
            time.sleep(0.01)
    deadline = time.monotonic() + 30
    while followed.folder.name != last.id and time.monotonic() < deadline:
        time.sleep(0.02)
    ended.set()
    for reader in readers:
        reader.join()
    followed.close()
    assert trouble == []
    assert followed.folder.name == last.id
    assert set(seen) == {0, 1, 2}
    assert brief(local_folder(place, tmp_path / "late")) == expected[0]


def test_parts_that_have_not_changed_are_neither_sent_nor_fetched_again(
    made: list[Path], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = index(tmp_path / "videos", tmp_path / "library", first=50, count=4)
    first = publish_library(home, place)
    assert first.sent_bytes == first.bytes
    local_folder(place, tmp_path / "cache")
    assert publish_library(home, place).sent_bytes == 0
    index(tmp_path / "videos", home, first=50, count=5)
    second = publish_library(home, place)
    with_vectors = (home / "catalog.sqlite").stat().st_size + (home / "vectors.0.f16").stat().st_size
    assert second.sent_bytes < with_vectors + second.bytes - first.bytes
    fetched: list[int] = []
    read = Place.read

    def counted(self: Place, name: str) -> tuple[bytes | None, str | None]:
        found = read(self, name)
        fetched.append(len(found[0] or b"") if name.startswith("pieces") else 0)
        return found

    monkeypatch.setattr(Place, "read", counted)
    assert answers(local_folder(place, tmp_path / "cache")) == answers(home)
    assert sum(fetched) == second.sent_bytes


def test_a_stale_publisher_is_refused_by_a_bucket(
    made: list[Path], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_library(made[0], bucket)
    send, winner = published._send, []

    def overtaken(*given: Any) -> int:
        monkeypatch.setattr(published, "_send", send)
        winner.append(publish_library(made[1], bucket).id)
        return send(*given)

    monkeypatch.setattr(published, "_send", overtaken)
    with pytest.raises(LibraryError, match="somebody else has published"):
        publish_library(made[2], bucket)
    assert published._pointer(Place(bucket)).id == winner[0]


def test_a_folder_is_held_against_a_second_publisher(home: Path, tmp_path: Path) -> None:
    publish_library(home, tmp_path / "published")
    with FileLock(tmp_path / "published" / "publish.lock"), pytest.raises(LibraryError, match="Somebody else"):
        publish_library(home, tmp_path / "published")


def test_a_pointer_that_was_put_though_the_answer_was_lost_stands(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_library(home, bucket)
    put = Place.put

    def twice(self: Place, name: str, payload: bytes, **condition: str) -> None:
        for _ in range(2):  # as a client does that has heard nothing
            put(self, name, payload, **condition)

    monkeypatch.setattr(Place, "put", twice)
    assert publish_library(home, bucket).id == published._pointer(Place(bucket)).id


ODD = ["", "null", "[]", '"x"', "{}", "[" * 100_000, '{"format": 1e400}', '{"format": 1, "id": 1}', '{"format": 2}']
LED_OUT = '{"format": 2, "id": "../../x", "sha256": ""}'


@pytest.mark.parametrize("pointer", [*ODD, LED_OUT, '{"format": 3, "id": "", "sha256": ""}'])
def test_hazard_244_torn_and_odd_pointers_are_refused_in_a_sentence(
    home: Path, tmp_path: Path, pointer: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "published"
    publish_library(home, place)
    before = local_folder(place, tmp_path / "cache")
    (place / "current.json").write_text(pointer)
    for act in (lambda: local_folder(place, tmp_path / "cache"), lambda: publish_library(home, place)):
        with pytest.raises(LibraryError, match="publish") as told:
            act()
        assert len(str(told.value).splitlines()) == 1 and "current.json" in str(told.value)
    assert before.is_dir()
    (place / "current.json").unlink()
    assert publish_library(home, place).sent_bytes > 0


def test_hazard_244_a_list_that_leads_out_of_its_folder_is_refused(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "published"
    new = publish_library(home, place).id
    listed = json.loads((place / "snapshots" / f"{new}.json").read_text())
    listed["files"]["../../out"] = listed["files"].pop("catalog.sqlite")
    payload = json.dumps(listed).encode()
    (place / "snapshots" / f"{new}.json").write_bytes(payload)
    pointer = json.loads((place / "current.json").read_text())
    pointer["sha256"] = published.hashlib.sha256(payload).hexdigest()
    (place / "current.json").write_text(json.dumps(pointer))
    with pytest.raises(LibraryError, match="leads out"):
        local_folder(place, tmp_path / "cache")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", ["missing", "short", "changed"])
@pytest.mark.parametrize("what", ["pieces", "snapshots"])
def test_damage_is_told_and_the_snapshot_before_is_served(
    made: list[Path], tmp_path: Path, how: str, what: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(published, "EVERY_S", 0.02)
    place = tmp_path / "published"
    publish_library(made[0], place)
    followed = FollowedLibrary(place, tmp_path / "cache")
    followed.start()
    before = followed.folder
    followed.close()
    new = publish_library(made[1], place).id
    (path,) = (place / what).glob(f"{new}*")
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        middle = len(content) // 2
        tail = b"" if how == "short" else bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(content[:middle] + tail)
    with pytest.raises(LibraryError, match=f"{new}.* is (gone|damaged); publish again") as told:
        local_folder(place, tmp_path / "cache")
    assert len(str(told.value).splitlines()) == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()) == [before.name]
    again = FollowedLibrary(place, tmp_path / "cache")
    again.folder = before
    threading.Thread(target=again._follow, daemon=True).start()
    time.sleep(0.2)
    again.close()
    assert again.folder == before and answers(before) == answers(made[0])
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("s3://nobody-has-this/films", "there is no such bucket"),
        ("s3://key:word@films/x", "redentials"),
        ("s3://key:wo/word@films/x", "redentials"),
        ("s3://key:word/films", "redentials"),
        ("s3://films/x#word", "redentials"),
        ("s3://films/x?versionId=word", "redentials"),
        ("https://store:9000/films", "cannot be used"),
        ("gs://films/x", "cannot be used"),
    ],
)
def test_addresses_that_are_none_and_those_with_credentials(home: Path, bucket: str, place: str, what: str) -> None:
    for act in (lambda: publish_library(home, place), lambda: open_library(place)):
        with pytest.raises(EvenreelError, match=what) as told:
            act()
        assert len(str(told.value).splitlines()) == 1 and "word" not in str(told.value)


def test_no_sentence_names_a_key(home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    import s3fs

    def refuse(*given: object, **named: object) -> None:
        raise PermissionError(f"SignatureDoesNotMatch for {SECRET}")

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.S3FileSystem, "pipe_file", refuse)
        with pytest.raises(LibraryError, match="no right to it") as refused:
            publish_library(home, bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(LibraryError, match="cannot be reached; check the network") as away:
        publish_library(home, bucket)
    for told in (refused, away):
        assert SECRET not in str(told.value) + caplog.text and told.value.__cause__ is None


def test_a_place_that_holds_something_else_is_left_alone(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for place in (tmp_path / "other", home):
        with pytest.raises(LibraryError, match="holds something that is no published snapshot"):
            publish_library(home, place)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter.txt"]
    assert not (home / "publish.lock").exists()


def test_a_full_disk_leaves_nothing_half_made(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "published"
    old = publish_library(home, place)
    index(tmp_path / "more", home, first=70, count=1)

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("evenreel.library.published.write_durably", full)
        with pytest.raises(LibraryError, match="Nothing was published.* the disk is full"):
            publish_library(home, place)
    assert published._pointer(Place(place)).id == old.id
    with monkeypatch.context() as patch:
        patch.setattr(published, "_is_put", full)
        with pytest.raises(LibraryError, match="cannot be opened in .* the disk is full"):
            local_folder(place, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert answers(local_folder(place, tmp_path / "cache"))["stats"].clips == 3


def test_commands_that_write_refuse_a_snapshot(home: Path, tmp_path: Path) -> None:
    publish_library(home, tmp_path / "published")
    copy = local_folder(tmp_path / "published", tmp_path / "cache")
    (tmp_path / "videos").mkdir()
    for place in (tmp_path / "published", copy, Path("s3://films/x")):
        acts: list[Callable[[Path], object]] = [
            lambda place: index_folders([tmp_path / "videos"], place),
            repair,
            lambda place: publish_library(place, tmp_path / "again"),
        ]
        for act in acts:
            with pytest.raises(LibraryError, match="is a published snapshot, which is only read"):
                act(place)


def test_what_nobody_needs_goes_with_grace(
    made: list[Path], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, ids = Place(place), [publish_library(made[number], place, SOON).id for number in (0, 1, 2)]
    assert set(there.names("snapshots")) == {f"{one}.json" for one in ids}
    there.put("pieces/20200101T000000Z-0123456789abcdef.0", b"of a publisher that was killed long ago")
    soon = time.strftime("%Y%m%dT%H%M%SZ-0123456789abcdef.0", time.gmtime(time.time() + 60))
    there.put(f"pieces/{soon}", b"of a publisher that sends just now")
    monkeypatch.setattr(published, "SENDING_S", 0.0)
    time.sleep(1.1)  # ids count seconds
    fourth = publish_library(made[0], place, SOON)
    assert set(fourth.dropped) == set(ids[:2])
    owners = {name.partition(".")[0] for name in there.names("pieces")}
    assert owners == {ids[2], fourth.id, soon[:-2]}
    assert set(there.names("snapshots")) == {f"{ids[2]}.json", f"{fourth.id}.json"}
    assert publish_library(made[1], place).dropped == () and len(there.names("snapshots")) == 3

    def refuse(self: Place, name: str) -> None:
        raise OSError("it cannot be deleted")

    monkeypatch.setattr(Place, "remove", refuse)
    assert publish_library(made[1], place, SOON).dropped == ()
    assert answers(local_folder(place, tmp_path / "cache")) == answers(made[1])


def test_a_cache_lets_go_of_copies_that_were_replaced_a_while_ago(made: list[Path], tmp_path: Path) -> None:
    place, cache = tmp_path / "published", tmp_path / "cache"
    publish_library(made[0], tmp_path / "elsewhere")
    kept = local_folder(tmp_path / "elsewhere", cache)
    publish_library(made[0], place)
    old = local_folder(place, cache)
    killed = cache / f".{old.name}.0123456789abcdef.tmp"
    with Library(old, encoder=PixelEncoder()) as reader:
        found = reader.search("brown").hits
        publish_library(made[1], place)
        assert local_folder(place, cache).exists() and old.exists()
        for folder in (old, kept):
            os.utime(folder, (0, 0))
        publish_library(made[2], place)
        new = local_folder(place, cache)
        assert {path.name for path in cache.iterdir() if path.is_dir()} >= {kept.name, new.name}
        assert not old.exists() and not killed.exists()
        assert reader.search("brown").hits == found != []


def test_nothing_of_a_persons_own_is_published(home: Path, tmp_path: Path) -> None:
    with open_library(home, vision=False) as library:
        clip = library.browse().clips[0].clip_id
        library.personal.mark(clip, favourite=True, note="zanzibar")
    publish_library(home, tmp_path / "published")
    with open_library(tmp_path / "published", vision=False, cache=tmp_path / "cache") as copy:
        assert copy.personal.marks() == () and copy.browse("favourite").total == 0
        with pytest.raises(UsageError, match="published snapshot"):
            copy.personal.mark(clip, favourite=True)
    files = (path for root in ("published", "cache") for path in (tmp_path / root).rglob("*") if path.is_file())
    assert not any(b"zanzibar" in path.read_bytes() for path in files)


def test_settings_have_bounds_and_long_names_a_sentence() -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="must be"):
            PublishSettings(keep_hours=wrong)
    for act in (open_library, lambda place: index_folders(["."], place), repair):
        with pytest.raises(LibraryError, match=r"cannot be opened \(file name too long\)"):
            act("x" * 300)
