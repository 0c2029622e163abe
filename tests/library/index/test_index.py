from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import EncoderError, EvenreelError, LibraryError, MediaError
from evenreel.features.pool import NoProgress
from evenreel.files import file_at
from evenreel.library import IndexReport, index_folders, open_library, repair, verify
from evenreel.library.index.run import LOST
from evenreel.library.index.scan import IGNORE_FILE, scan
from evenreel.library.store import catalog as catalogs
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule
from tests import prebuilt
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import change, write
from tests.library.state import state
from tests.library.videos import write_folder, write_video
from tests.library.words_only import WORDS_ONLY, index
from tests.media.test_frames import shifted
from tests.media_files import Film, gop, remux, steady, write_film


def paths(library: Path, where: str = "1") -> list[str]:
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        rows = connection.execute(f"SELECT name FROM files WHERE {where} ORDER BY name").fetchall()
    return [name for (name,) in rows]


def test_every_file_is_indexed_and_a_second_run_does_nothing(videos: Path, library: Path) -> None:
    report = index(videos, library)
    assert (report.indexed, report.unchanged, report.set_aside) == (4, 0, [])
    assert report.frames == 8  # two seconds each, one frame a second
    before = state(library)
    again = index(videos, library)
    assert again.did_nothing
    assert (again.indexed, again.unchanged, again.frames) == (0, 4, 0)
    assert state(library) == before
    assert verify(library) == []


def test_unchanged_files_cost_a_stat(videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prebuilt.library(videos, library)
    monkeypatch.setattr("evenreel.features.pool.watched_digest", lambda path, *_: pytest.fail(f"{path} was read"))
    monkeypatch.setattr("evenreel.library.index.stages.ClipReader", lambda *_: pytest.fail("a reader was started"))
    assert index(videos, library).unchanged == 4


@pytest.mark.parametrize("times", [(0, 0), (2**33, 2**33)], ids=["mtime 0", "mtime in the future"])
def test_a_touched_file_is_recognised_by_content(videos: Path, library: Path, times: tuple[int, int]) -> None:
    """Hazard 61: only equality of the stamp counts, whatever the clock says."""
    prebuilt.library(videos, library)
    os.utime(videos / "clip_00.mp4", times)
    report = index(videos, library)
    assert (report.indexed, report.recognised, report.unchanged, report.frames) == (0, 1, 3, 0)
    assert index(videos, library).did_nothing


def test_a_file_changed_in_place_is_noticed_though_size_and_time_are_the_same(videos: Path, library: Path) -> None:
    """Hazard 61: the change time tells, which no program can set."""
    prebuilt.library(videos, library)
    path = videos / "clip_00.mp4"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert index(videos, library).indexed == 1


def test_moved_copied_and_linked_files_are_one_clip(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    (videos / "sub").mkdir()
    (videos / "clip_00.mp4").rename(videos / "sub" / "renamed.mp4")
    shutil.copy(videos / "clip_01.mp4", videos / "copy.mp4")
    os.link(videos / "clip_02.mp4", videos / "hard.mp4")
    report = index(videos, library)
    assert (report.indexed, report.frames, report.moved, report.missing) == (0, 0, 1, 0)
    assert report.recognised == 4  # renamed, copy, and both names of the hard link, whose change time is new
    names = ["clip_01.mp4", "clip_02.mp4", "clip_03.mp4", "copy.mp4", "hard.mp4", "renamed.mp4"]
    assert paths(library) == paths(library, "state = 'indexed'") == names
    found = state(library)
    assert (len(found["clips"]), len(found["shards"])) == (4, 4)
    with open_library(library) as opened:
        assert opened.stats().missing == 0
        assert [Path(hit.path).name for hit in opened.search("renamed").hits] == ["renamed.mp4"]
    assert verify(library) == []
    assert index(videos, library).did_nothing


def test_the_same_new_content_twice_is_read_once(videos: Path, library: Path) -> None:
    for number in range(5):
        shutil.copy(videos / "clip_00.mp4", videos / f"copy_{number}.mp4")
    report = index(videos, library, workers=4)
    assert (report.indexed, report.recognised, report.frames) == (4, 5, 8)
    assert len(paths(library)) == 9


def test_a_deleted_file_is_marked_and_comes_back_without_work(videos: Path, library: Path, tmp_path: Path) -> None:
    prebuilt.library(videos, library)
    (videos / "clip_00.mp4").rename(tmp_path / "away.mp4")
    assert index(videos, library).missing == 1
    assert paths(library, "state = 'missing'") == ["clip_00.mp4"]
    (tmp_path / "away.mp4").rename(videos / "clip_00.mp4")
    report = index(videos, library)
    assert (report.indexed, report.recognised, report.frames) == (0, 1, 0)
    assert paths(library, "state = 'missing'") == []


@pytest.mark.parametrize("gone", [4, 3], ids=["all", "most"])
def test_a_vanished_disk_never_empties_a_library(tmp_path: Path, library: Path, gone: int) -> None:
    videos = tmp_path / "videos"
    files = write_folder(videos, 12)
    prebuilt.library(videos, library)
    before = state(library)
    for file in files[: gone * 3]:
        file.unlink()
    with pytest.raises(LibraryError, match=f"{gone * 3} of 12 .* is its disk .* connected.*accept_missing"):
        index(videos, library)
    assert state(library) == before
    assert index(videos, library, accept_missing=True).missing == gone * 3
    assert len(state(library)["shards"]) == 12


def test_unreadable_things_are_set_aside_at_once_and_links_not_followed(
    videos: Path, library: Path, tmp_path: Path
) -> None:
    (videos / "empty.mp4").touch()
    (videos / "words.mp4").write_text("this is not a video")
    os.mkfifo(videos / "pipe.mp4")
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(os.path.relpath(videos / "socket.mp4"))
    (videos / "folder.mp4").mkdir()
    for name, target in (("zero", "/dev/zero"), ("dead", "nowhere"), ("outside", write_video(tmp_path / "x.mp4", 9))):
        (videos / f"{name}.mp4").symlink_to(target)
    (videos / "circle").symlink_to(videos)
    report = index(videos, library)
    unix.close()
    reasons = {Path(aside.path).name: aside.reason for aside in report.set_aside}
    expected = {"empty.mp4": "empty", "words.mp4": "not_media", "pipe.mp4": "unreadable", "socket.mp4": "unreadable"}
    assert reasons == expected
    assert (report.indexed, report.links) == (4, 4)


def test_a_file_set_aside_is_remembered_until_it_changes(videos: Path, library: Path) -> None:
    broken = videos / "broken.mp4"
    broken.write_bytes(b"\0" * 1000)
    first = index(videos, library)
    again = index(videos, library)
    assert [aside.path for aside in first.set_aside] == [aside.path for aside in again.set_aside] == [str(broken)]
    assert again.did_nothing
    assert index(videos, library, retry=True).set_aside == first.set_aside
    write_video(broken, 50)
    mended = index(videos, library)
    assert (mended.indexed, mended.set_aside) == (1, [])


def test_hazard_232_after_a_disk_is_renamed_results_show_the_path_that_is_there(tmp_path: Path, library: Path) -> None:
    write_folder(tmp_path / "disk", 2)
    index(tmp_path / "disk", library)
    (tmp_path / "disk").rename(tmp_path / "new name")
    index(tmp_path / "new name", library)
    with open_library(library, vision=False) as opened:
        for there in ("new name", "disk"):
            found = [hit.path for hit in opened.search("clip").hits]
            assert found == [str(tmp_path / there / f"clip_0{k}.mp4") for k in (0, 1)]
            (tmp_path / there).rename(tmp_path / "disk")


def test_hidden_files_and_the_thumbnails_of_network_drives_are_passed_over(videos: Path, library: Path) -> None:
    write_video(videos / "@eaDir" / "thumb.mp4", 1)
    write_video(videos / ".hidden" / "x.mp4", 2)
    write_video(videos / "._clip.mp4", 3)
    (videos / "readme.txt").write_text("hello")
    report = index(videos, library)
    assert (report.indexed, report.other_files) == (4, 1)


RARE = ".mod .tod .m2t .m2p .mpe .f4v .qt .3gpp .divx .ogm .mk3d .m1v .mpv .mp4v .lrv .insv .360 .trp"


def test_hazard_230_a_film_is_found_by_any_suffix_of_films_and_others_are_named(tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mpg", Film(range(5), "mpeg2video", time_base=Fraction(1, 25))).read_bytes()
    names = [f"a{suffix.upper()}" for suffix in RARE.split()]
    other = {"tune.mod": b"ode to joy" * 99, "v1.360": b"notes", "b.bik": film}
    other |= dict.fromkeys(("cover.jpg", "c.JPG", "README"), b"")
    folder = tmp_path / "films"
    folder.mkdir()
    for name, content in (dict.fromkeys(names, film) | other).items():
        (folder / name).write_bytes(content)
    found = scan([folder])
    assert sorted(Path(file.path).name for file in found.files) == sorted(names)
    assert "(6 other files (.jpg, .360, .bik, .mod) were skipped)" in found.no_video()


def test_a_single_file_is_taken_whatever_its_name(videos: Path, library: Path) -> None:
    odd = (videos / "clip_00.mp4").rename(videos / "clip.backup")
    assert index_folders([odd], library, WORDS_ONLY).indexed == 1


ODD_NAMES = [
    "new\nline.mp4",
    "quote\"'`.mp4",
    "emoji 🎬.mp4",
    "עברית.mp4",
    "-leading-dash.mp4",
    "%2e%2e%2f.mp4",
    "<script>alert(1)<script>.mp4",
    "[bold]markup[b].mp4",
    "a" * 251 + ".mp4",
    os.fsdecode(b"not utf-8 \xff\xfe.mp4"),
    "concat:a|b.mp4",
]


def test_odd_names_are_indexed_and_found(tmp_path: Path, library: Path) -> None:
    source = write_folder(tmp_path / "source", len(ODD_NAMES))
    videos = tmp_path / "videos"
    videos.mkdir()
    for file, name in zip(source, ODD_NAMES, strict=True):
        os.rename(file, os.path.join(videos, name))
    report = index(videos, library)
    assert (report.indexed, report.set_aside) == (len(ODD_NAMES), [])
    assert index(videos, library).unchanged == len(ODD_NAMES)
    with open_library(library) as opened:
        found = opened.search("emoji").hits
        assert [os.path.basename(hit.path) for hit in found] == ["emoji 🎬.mp4"]
        assert [os.fsencode(hit.path)[-6:] for hit in opened.search("not utf").hits] == [b"\xff\xfe.mp4"]


def test_a_file_that_changes_while_it_is_read_is_tried_again(videos: Path, library: Path) -> None:
    class Copying(NoProgress):
        def frame(self) -> None:
            with open(videos / "clip_00.mp4", "ab") as file:
                file.write(b"more")

    report = index_folders([videos / "clip_00.mp4"], library, WORDS_ONLY, progress=Copying())
    assert [aside.reason for aside in report.set_aside] == ["changed_while_reading"]
    assert report.indexed == 0
    assert index(videos, library).indexed == 4


def test_metadata_goes_to_its_own_file_also_when_others_fail(videos: Path, library: Path) -> None:
    (videos / "bad.mp4").write_bytes(b"nothing")
    rows = ["path,source,stars,caption"]
    rows += [f"clip_{number:02}.mp4,source{number},{number},caption {number}" for number in range(4)]
    (videos / "metadata.csv").write_text("\n".join([rows[0], "bad.mp4,none,9,none", *rows[1:]]))
    index(videos, library)
    with open_library(library) as opened:
        hits = opened.search("caption").hits
        assert {Path(hit.path).name: hit.metadata["stars"] for hit in hits} == {
            f"clip_{number:02}.mp4": number for number in range(4)
        }
        assert [Path(hit.path).name for hit in opened.search("caption", where="stars > 2").hits] == ["clip_03.mp4"]


def test_changed_metadata_is_taken_over_without_reading_a_video(videos: Path, library: Path) -> None:
    table = videos / "manifest.csv"
    table.write_text("path,caption\nclip_00.mp4,a yellow tram\n")
    prebuilt.library(videos, library)
    table.write_text("path,caption\nclip_00.mp4,a purple balloon\n")
    assert index(videos, library).frames == 0
    with open_library(library) as opened:
        assert not opened.search("tram").hits
        assert len(opened.search("balloon").hits) == 1


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("metadata.csv", "path;place\nclip_00.mp4;a\n", "separated by semicolons; save it with commas."),
        ("metadata.csv", "path;place\nclip_00.mp4;a, b, c\n", "separated by semicolons; save it with commas."),
        ("metadata.csv", "path\tplace\nclip_00.mp4\ta\n", "separated by tabs; name it .tsv."),
        ("manifest.tsv", "path,place\nclip_00.mp4,a\n", "separated by commas; name it .csv."),
    ],
)
def test_a_table_with_another_separator_is_set_aside_and_says_so(
    videos: Path, library: Path, name: str, content: str, sentence: str
) -> None:
    (videos / name).write_text(content)
    (aside,) = [one for one in index_folders([videos], library, WORDS_ONLY).set_aside if one.path.endswith(name)]
    assert aside.reason == "bad_table"
    assert aside.sentence.endswith(f"its values seem to be {sentence}")


def test_hazard_222_a_file_is_found_by_any_spelling_of_its_name(tmp_path: Path, library: Path) -> None:
    names = ["cafe\u0301.MP4", "IMG_1.mp4", "two\u202fwords.mp4", "\u200ekettle\u00ad.mp4", "ou\u0308t.mp4"]
    names.append("sub/in.mp4")
    videos = tmp_path / "videos"
    (videos / "sub").mkdir(parents=True)
    for clip, name in zip(write_folder(videos, len(names)), names, strict=True):
        clip.rename(videos / name)
    asked = ["caf\u00e9.mp4", "img_1.MP4", "two words.mp4", "kettle.mp4", "sub\\in.mp4"]
    (videos / "metadata.csv").write_text(
        "path,caption\n" + "".join(f"{name},lamp {n}\n" for n, name in enumerate(asked))
    )
    (videos / IGNORE_FILE).write_text("O\u00dcT.mp4\n")
    report = index_folders([videos], library, WORDS_ONLY)
    assert (report.indexed, report.ignored, report.warnings) == (5, 1, [])
    with open_library(library) as opened:
        for number, name in enumerate(asked):
            (hit,) = opened.search("lamp", where=f"path like '%/{name}'").hits
            assert hit.metadata == {"caption": f"lamp {number}"}
            assert file_at(videos, name).is_file()
        assert [os.path.basename(hit.path) for hit in opened.search("kettle").hits] == [names[3]]


def test_a_night_without_the_share_costs_no_finished_work(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(videos, library)
    before = state(library)

    def fail(path: str, *_: object) -> str:
        raise MediaError("unreadable", "the system does not let it be read: Input/output error")

    for file in videos.iterdir():
        file.chmod(0o600)
    monkeypatch.setattr("evenreel.features.pool.watched_digest", fail)
    assert len(index(videos, library).set_aside) == 4
    assert state(library)["shards"] == before["shards"]
    monkeypatch.undo()
    report = index(videos, library)
    assert (report.indexed, report.recognised, report.frames) == (0, 4, 0)
    assert state(library) == before


def test_a_stage_that_fails_leaves_the_file_searchable(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prebuilt.library(videos, library)

    def crash(*_: object) -> None:
        raise MediaError("crashed", "the reader crashed")

    monkeypatch.setattr("evenreel.features.clip_reader.ClipReader.read", crash)
    assert len(index(videos, library, read_text=True).set_aside) == 4
    with open_library(library) as opened:
        assert len(opened.search("clip").hits) == 4


@pytest.mark.usefixtures("quick_text")
def test_stages_are_added_to_what_is_there(videos: Path, library: Path) -> None:
    both = library.with_name("both")
    index(videos, both, read_text=True)
    index(videos, library)
    assert state(library) != state(both)
    assert index(videos, library, read_text=True).indexed == 4
    assert state(library) == state(both)
    assert index(videos, library).did_nothing


class BrokenEncoder:
    """A model that makes no vector of one of the videos, the one with a dark background."""

    encoder_id, weights_hash, dimension, window = "broken", "0", 4, WindowRule()

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        if self.refuses and pixels.shape[3] == 32:
            raise EncoderError("The model gives a feature that is not a number")
        return np.tile(np.float32([1, 0, 0, 0]), (len(pixels), 1))

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        sentence = np.tile(np.float32([0, 1, 0, 0]), (len(captions), 1))
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)

    refuses = True


def test_vectors_that_are_no_numbers_are_refused_and_counted(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_video(videos / "small.mp4", 9, size=32)
    encoder = BrokenEncoder()
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: encoder)
    report = index(videos, library, model="broken")
    assert report.indexed == 4
    assert [(Path(aside.path).name, aside.reason) for aside in report.set_aside] == [("small.mp4", "bad_features")]
    encoder.refuses = False
    assert index(videos, library, model="broken").indexed == 1


def test_another_sampling_rule_is_refused(videos: Path, library: Path) -> None:
    index(videos, library, rule="every 0.5 s")
    before = state(library)
    with pytest.raises(LibraryError, match="sampled 'every 0.5 s', not 'every 2 s'"):
        index(videos, library, rule="every 2 s")
    assert state(library) == before
    assert index(videos, library).did_nothing  # 'auto' is the library's own


def test_lengths_and_moments_are_those_of_the_packets(videos: Path, library: Path, tmp_path: Path) -> None:
    made = write_film(tmp_path / "made.mp4", Film(steady(500), options=gop(50)))
    late = remux(made, videos / "late.mkv", shifted(Fraction(7200)))
    data = remux(made, tmp_path / "made.mkv").read_bytes()
    (videos / "lies.mkv").write_bytes(data.replace(b"00:00:20.0", b"99:00:00.0"))
    report = index(videos, library, limits=MediaLimits(max_frames=30))
    assert (report.indexed, report.set_aside) == (6, [])
    assert [Path(path).name for path, note in report.notes if "short: 20.00 of 356400.00 s" in note] == ["lies.mkv"]
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        for name in (late.name, "lies.mkv"):
            (duration_s,) = connection.execute(
                "SELECT duration_s FROM clips JOIN files USING (clip_id) WHERE name = ?", (name,)
            ).fetchone()
            moments = connection.execute(
                "SELECT time_s, start_s, end_s FROM moments JOIN files USING (clip_id) WHERE name = ? ORDER BY number",
                (name,),
            ).fetchall()
            assert duration_s == 20.0
            assert [time_s for time_s, _, _ in moments] == pytest.approx(list(range(20)))
            assert (moments[0][1], moments[-1][2]) == (0.0, 20.0)


# Hazards 7, 8, 17, 42: the reader process hangs, crashes, grows ------------------------------------------------


def index_with_stub(videos: Path, library: Path, limits: MediaLimits) -> IndexReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenreel.library.index.run.READER", "tests.library.stub_reader:StubReader")
        return index(videos, library, limits=limits)


def test_a_decoder_that_hangs_crashes_or_grows_costs_one_file_each(tmp_path: Path, library: Path) -> None:
    videos = tmp_path / "videos"
    for number, name in enumerate(["good_1", "crash", "grow", "good_2", "surprise"]):
        write_video(videos / f"{name}.mp4", number)
    report = index_with_stub(videos, library, MediaLimits(memory_bytes=400 * 2**20))
    assert report.indexed == 2
    assert {Path(aside.path).stem: aside.reason for aside in report.set_aside} == {
        "crash": "crashed",
        "grow": "out_of_memory",
        "surprise": "failed",
    }
    assert all(aside.sentence for aside in report.set_aside)
    write_video(videos / "hang.mp4", 9)
    report = index_with_stub(videos, library, MediaLimits(stall_timeout_s=1))
    assert report.unchanged == 2
    assert {Path(aside.path).stem: aside.reason for aside in report.set_aside}["hang"] == "timeout"


def test_floods_of_packets_and_metadata_stay_within_limits(tmp_path: Path, library: Path) -> None:
    videos = tmp_path / "videos"
    write_folder(videos, 1)
    with av.open(str(videos / "flood.mkv"), "w") as container:
        stream = container.add_stream("rawvideo", rate=1000)
        stream.width = stream.height = 2
        stream.pix_fmt = "gray"
        packet = next(iter(stream.encode(av.VideoFrame.from_ndarray(np.zeros((2, 2), np.uint8), "gray"))))
        for number in range(120_000):
            copy = av.Packet(bytes(packet))
            copy.stream, copy.pts, copy.dts, copy.time_base = stream, number, number, packet.time_base
            container.mux(copy)
    with av.open(str(videos / "tags.mkv"), "w") as container:
        container.metadata.update({f"tag{number}": "x" * 2**20 for number in range(16)})
        stream = container.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 64
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")))
        container.mux(stream.encode())
    report = index(videos, library, limits=MediaLimits(stall_timeout_s=20, memory_bytes=600 * 2**20))
    aside = {Path(aside.path).name: aside.reason for aside in report.set_aside}
    assert set(aside.values()) <= {"timeout", "out_of_memory", "codec_not_allowed"}
    assert report.indexed == 3 - len(aside)
    assert "clip_00.mp4" in paths(library, "state = 'indexed'")


def test_a_broken_recogniser_stops_the_run_and_blames_no_file(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken" / "rapidocr").mkdir(parents=True)
    (tmp_path / "broken" / "rapidocr" / "__init__.py").write_text("raise ImportError('libonnxruntime is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"), prepend=os.pathsep)
    monkeypatch.setattr("evenreel.media.workers.subprocess", subprocess)  # a new Python, which has to import it
    with pytest.raises(EvenreelError, match="could not start.*libonnxruntime is missing"):
        index(videos, library, read_text=True)
    monkeypatch.undo()
    assert not library.exists()
    assert index(videos, library, read_text=True).indexed == 4


# Hazards 33 to 37: locks, full disks, interruptions ------------------------------------------------------------


def test_a_second_indexer_says_who_holds_the_library(videos: Path, library: Path) -> None:
    class SecondIndexer(NoProgress):
        sentence = ""

        def begin(self, files: int) -> None:
            with pytest.raises(LibraryError) as caught:
                index(videos, library)
            SecondIndexer.sentence = str(caught.value)

    index_folders([videos], library, WORDS_ONLY, progress=SecondIndexer())
    assert f"process {os.getpid()} on {socket.gethostname()}" in SecondIndexer.sentence


def test_a_lock_left_by_a_dead_process_is_taken_over(videos: Path, library: Path) -> None:
    """Hazard 37: a reused process id in the file does not matter, the system's lock does."""
    library.mkdir()
    (library / "index.lock").touch()
    (library / "index.holder").write_text(f'{{"pid": {os.getpid()}, "host": "x", "started": "then"}}')
    assert index(videos, library).indexed == 4


@pytest.mark.parametrize("where", ["shard", "vectors", "catalog"])
def test_a_full_disk_stops_cleanly_and_loses_nothing(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    prebuilt.library(videos, library)
    before = state(library)
    write_video(videos / "new.mp4", 99)

    def full(*_: object) -> None:
        if where == "catalog":
            raise sqlite3.OperationalError("database or disk is full")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"evenreel.library.store.writer.{'write_shard' if where == 'shard' else 'insert_clip'}", full)
    with pytest.raises(LibraryError, match="full|No space left"):
        index(videos, library)
    monkeypatch.undo()
    left: dict[str, object] = {"shards": None, "stills": None, "unsettled": None}
    assert state(library) | left == before | left
    with open_library(library) as opened:
        assert len(opened.search("clip").hits) == 4
    assert index(videos, library).indexed == 1
    assert verify(library) == []


def test_readers_see_a_consistent_library_while_it_is_written(tmp_path: Path, library: Path) -> None:
    videos = tmp_path / "videos"
    write_folder(videos, 12)
    index(tmp_path / "videos" / "clip_00.mp4", library)
    seen: list[int] = []

    class Searching(NoProgress):
        def file_done(self, path: str) -> None:
            with open_library(library) as opened:
                seen.append(len(opened.search("clip", k=100).hits))

    index_folders([videos], library, WORDS_ONLY, progress=Searching())
    assert seen == sorted(seen)
    assert seen[-1] == 12


@pytest.mark.parametrize(
    ("version", "statements", "what"),
    [
        (catalogs.SCHEMA_VERSION + 1, (), "update evenreel"),
        (7, (), "anew into another folder .*personal.jsonl"),
        (1, ("DROP TABLE marks",), "anew into another folder"),
    ],
)
def test_a_library_of_another_version_is_refused_and_untouched(
    videos: Path, library: Path, version: int, statements: tuple[str, ...], what: str
) -> None:
    prebuilt.library(videos, library)
    write(library, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    change(library, *statements)
    before = (library / "catalog.sqlite").read_bytes()
    uses = (index, lambda _, library: open_library(library), lambda _, library: verify(library))
    for use in (*uses, lambda _, library: repair(library)):
        with pytest.raises(LibraryError, match=f"format {version}, this evenreel reads format .*{what}"):
            use(videos, library)
    assert (library / "catalog.sqlite").read_bytes() == before


@pytest.mark.parametrize("version", ["²", "9" * 5_000, "2.0", ""], ids=["superscript", "digits", "point", "nothing"])
def test_a_version_that_is_no_number_is_damage(videos: Path, library: Path, version: str) -> None:
    prebuilt.library(videos, library)
    write(library, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    with pytest.raises(LibraryError, match="its format is not what was written") as refused:
        open_library(library)
    assert len(str(refused.value)) < 400


def test_a_network_file_system_is_detected(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [SimpleNamespace(mountpoint="/", fstype="NFS4")])
    index(videos, library)
    assert "on a network file system" in caplog.text
    assert "--library" in caplog.text
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # not 'wal', which is persistent


def test_a_library_that_cannot_be_written_says_so_and_is_still_searched(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hazard 36; root may write anywhere, so the refusal is a stub."""

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    prebuilt.library(videos, library)
    monkeypatch.setattr("filelock.FileLock.acquire", read_only)
    monkeypatch.setattr("evenreel.library.store.catalog.os.access", lambda *_: False)
    with pytest.raises(LibraryError, match="cannot be written: Read-only file system"):
        index(videos, library)
    with open_library(library) as opened:
        assert len(opened.search("clip").hits) == 4


def test_a_copy_that_is_deleted_is_not_missed_and_the_last_one_is(videos: Path, library: Path) -> None:
    shutil.copy(videos / "clip_00.mp4", videos / "copy.mp4")
    prebuilt.library(videos, library)
    (videos / "copy.mp4").unlink()
    assert index(videos, library).moved == 1
    assert "copy.mp4" not in paths(library)
    (videos / "clip_00.mp4").unlink()
    report = index(videos, library)
    assert (report.moved, report.missing) == (0, 1)
    assert paths(library, "state = 'missing'") == ["clip_00.mp4"]
    assert len(state(library)["clips"]) == 4


@pytest.mark.parametrize("kept", [0, 3], ids=["all", "most"])
def test_a_renamed_folder_is_no_vanished_disk(tmp_path: Path, library: Path, kept: int) -> None:
    videos = tmp_path / "videos"
    write_folder(videos / "summer", 12)
    write_folder(videos / "kept", kept, first=20)
    prebuilt.library(videos, library)
    (videos / "summer").rename(videos / "summer of 2024")
    report = index(videos, library)
    assert (report.moved, report.missing, report.frames) == (12, 0, 0)
    assert paths(library, "state != 'indexed'") == []
    shutil.rmtree(videos / "summer of 2024")
    write_folder(videos / "others", 12, first=40)  # as many new files are no sign of a move
    with pytest.raises(LibraryError, match="is its disk or share connected"):
        index(videos, library)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut": lambda path: os.truncate(path, 100),
    "empty": lambda path: os.truncate(path, 0),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"),
}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: PixelEncoder())
    return "pixels"


def shard_of(library: Path, name: str) -> Path:
    with open_library(library, vision=False) as opened:
        (hit,) = opened.search(name).hits
    (path,) = library.glob(f"shards/*/{hit.clip_id}.safetensors")
    return path


@pytest.mark.parametrize("vision", [False, True])
def test_a_clip_whose_shard_is_gone_is_indexed_anew(videos: Path, library: Path, model: str, vision: bool) -> None:
    settings: dict[str, object] = {"model": model if vision else None}
    index(videos, library, **settings)
    before = state(library)
    shard_of(library, "clip_02").unlink()
    report = index(videos, library, **settings)
    assert (report.indexed, report.unchanged, report.set_aside) == (1, 3, [])
    assert report.notes == [(str(videos / "clip_02.mp4"), LOST)]
    assert (state(library), verify(library)) == (before, [])
    assert index(videos, library, **settings).did_nothing


@pytest.mark.usefixtures("quick_text")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_ends_no_run_that_adds_to_it(videos: Path, library: Path, model: str, damage: str) -> None:
    clean = library.with_name("clean")
    index(videos, clean, model=model, read_text=True)
    index(videos, library, model=model)
    DAMAGE[damage](shard_of(library, "clip_02"))
    report = index(videos, library, model=model, read_text=True)
    assert (report.indexed, report.set_aside) == (4, [])
    assert (state(library), verify(library)) == (state(clean), [])


def killed(*_: object) -> None:
    raise SystemExit("killed")


@pytest.mark.parametrize("name", ["delete_clips", "remove_shard"])
@pytest.mark.parametrize("returns", [True, False])
def test_hazard_33_a_kill_while_the_clip_of_an_edited_file_is_dropped(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str, returns: bool
) -> None:
    prebuilt.library(videos, library)
    write_video(videos / "clip_02.mp4", 77)
    monkeypatch.setattr(f"evenreel.library.store.writer.{name}", killed)
    with pytest.raises(SystemExit):
        index(videos, library)
    monkeypatch.undo()
    if returns:
        write_video(videos / "clip_02.mp4", 2)
    index(videos, library)
    clean = library.with_name("clean")
    index(videos, clean)
    assert (state(library), verify(library)) == (state(clean), [])


@pytest.mark.parametrize("where", ["insert_clip", "Store._put_file"])
def test_hazard_33_a_new_file_that_is_gone_after_a_kill_leaves_nothing(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    prebuilt.library(videos, library)
    before = state(library)
    write_video(videos / "new.mp4", 77)
    monkeypatch.setattr(f"evenreel.library.store.writer.{where}", killed)
    with pytest.raises(SystemExit):
        index(videos, library)
    monkeypatch.undo()
    (videos / "new.mp4").unlink()
    assert index(videos, library).did_nothing
    assert (state(library), verify(library)) == (before, [])
