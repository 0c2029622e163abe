from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import evenreel
from evenreel.config import MediaLimits
from evenreel.encoders import loading
from evenreel.errors import MediaError, NotFoundError, UsageError
from evenreel.library import Library
from evenreel.library.search.query import MAX_BYTES, as_pixels, read_image
from evenreel.media.picture import ImageReader
from evenreel.types import FloatArray, Pixels
from tests.library.fakes import WordsEncoder, encode, on_disk, paths

CLIPS = {
    "tram": ["red tram", "red tram", "old bridge"],
    "tram again": ["red tram", "night sky"],
    "bridge": ["old bridge", "river"],
    "sea": ["blue sea", "blue sea"],
}


class SeesOneThing(WordsEncoder):
    """To which every picture is a red tram."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        assert pixels.shape[:3] == (1, 1, 3)
        return encode("red tram")[None]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    for clip_id, seen in CLIPS.items():
        made.add_clip(clip_id, seen)
        made.add_file(f"/v/{clip_id}.mp4", clip_id, {"kind": clip_id[:4]})
    made.add_clip("words only")
    made.add_file("/v/words.mp4", "words only")
    made.connection.close()
    return folder


@pytest.fixture
def library(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """Opened without an encoder; to load one fails."""
    monkeypatch.setattr("evenreel.encoders.load_encoder", None)  # first: it is taken from where it is made
    monkeypatch.setattr(loading, "load_encoder", None)
    with evenreel.open_library(place) as opened:
        yield opened


def test_the_stored_frame_nearest_to_the_time_is_the_query(library: Library) -> None:
    assert paths(library.similar("tram", 0.2, k=1)) == ["/v/tram again.mp4"]
    assert paths(library.similar("tram", 2.6, k=1)) == ["/v/bridge.mp4"]
    assert paths(library.similar("tram", 1e9, k=1)) == ["/v/bridge.mp4"]


def test_without_a_time_the_mean_of_the_frames_is_the_query(library: Library) -> None:
    mean = np.mean([encode(caption) for caption in CLIPS["tram"]], axis=0)
    mean /= np.linalg.norm(mean)
    hits = library.similar("tram").hits
    for hit in hits:
        best = max(float(mean @ encode(caption)) for caption in CLIPS[hit.clip_id])
        assert hit.scores["seen"] == pytest.approx(best, abs=2e-3)
    assert len(hits) == 3


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_the_clip_itself_takes_no_place(library: Library, k: int) -> None:
    found = library.similar("tram", 0.0, k=k)
    assert len(found.hits) == min(k, 3)
    assert "tram" not in {hit.clip_id for hit in found.hits}
    assert found.hits == library.similar("tram", 0.0).hits[:k]


def test_a_filter_may_leave_the_clip_itself_out(library: Library) -> None:
    assert paths(library.similar("tram", 0.0, k=1, where="kind = 'sea'")) == ["/v/sea.mp4"]
    alone = library.similar("sea", where="kind = 'sea'")
    assert (alone.hits, alone.answering) == ((), 0)


@pytest.mark.parametrize(
    ("clip_id", "options", "error", "words"),
    [
        ("nowhere", {}, NotFoundError, "has no clip 'nowhere'"),
        ("words only", {}, UsageError, "were not encoded"),
        ("tram", {"k": 0}, UsageError, "number of results is 0"),
        ("tram", {"where": "colour = 'red'"}, UsageError, "no column 'colour'"),
    ],
)
def test_what_cannot_be_found(
    library: Library, clip_id: str, options: dict[str, int | str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        library.similar(clip_id, **options)  # type: ignore[arg-type]


def test_a_library_without_vision_has_nothing_that_looks_alike(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.connection.execute("DELETE FROM meta WHERE key = 'dimension'")
    made.add_clip("tram")
    made.connection.close()
    with evenreel.open_library(tmp_path) as library, pytest.raises(UsageError, match="were not encoded"):
        library.similar("tram")


def png(shape: tuple[int, int] = (8, 6), form: str = "PNG") -> bytes:
    file = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (*shape, 3), np.uint8)).save(file, form)
    return file.getvalue()


def test_a_picture_is_given_as_a_file_as_bytes_or_as_pixels(place: Path, tmp_path: Path) -> None:
    (tmp_path / "still.png").write_bytes(png())
    with evenreel.open_library(place, encoder=SeesOneThing()) as library:
        as_bytes = library.search_image(png(), k=2)
        assert library.search_image(tmp_path / "still.png", k=2) == as_bytes
        assert library.search_image(read_image(png()), k=2) == as_bytes
        assert {hit.clip_id for hit in as_bytes.hits} == {"tram", "tram again"}


def test_a_picture_of_any_kind_is_the_same_pixels(tmp_path: Path) -> None:
    (tmp_path / "still.png").write_bytes(png())
    pixels = np.random.default_rng(0).integers(0, 255, (8, 6, 3), np.uint8)
    see_through = Image.fromarray(np.dstack([pixels, np.full((8, 6), 255, np.uint8)]))
    path = tmp_path / "still.png"
    for given_as in (png(), path, str(path), Image.open(path), see_through, pixels, torch.tensor(pixels)):
        assert np.array_equal(as_pixels(given_as), pixels)


def test_an_image_of_pil_is_turned_as_the_file_would_be_and_not_changed(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter
    Image.fromarray(np.arange(72, dtype=np.uint8).reshape(4, 6, 3)).save(tmp_path / "turned.png", exif=turned)
    with Image.open(tmp_path / "turned.png") as image:
        assert np.array_equal(as_pixels(image), read_image(tmp_path / "turned.png"))
        assert as_pixels(image).shape == (6, 4, 3)
        assert image.size == (6, 4)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((8, 6, 3)), "image is an array of float64 with the shape (8, 6, 3); give the path of a file"),
        (np.zeros((3, 8, 6), np.uint8), "image is an array of uint8 with the shape (3, 8, 6); give the path"),
        (np.zeros((8, 6), np.uint8), "image is an array of uint8 with the shape (8, 6); give"),
        (None, "image is None; give the path of a file, its bytes, an image of PIL, or RGB pixels (H, W, 3) of uint8."),
        ([[0, 1]], "image is a list; give the path of a file"),
    ],
    ids=["numbers", "channels first", "grey", "nothing", "list"],
)
def test_what_is_no_picture_is_told_what_one_is(picture: Any, words: str, place: Path) -> None:
    library = evenreel.open_library(place, encoder=SeesOneThing())
    with library, pytest.raises(UsageError, match=re.escape(words)):
        library.search_image(picture)


def test_an_image_of_pil_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(png((80, 60))[:4000])
    with Image.open(tmp_path / "cut.png") as image, pytest.raises(UsageError, match="it is damaged"):
        as_pixels(image)


@pytest.mark.parametrize("text", [None, 3, b"tram", Path("tram.png"), ["tram"], np.zeros((2, 2, 3)), {"text": "tram"}])
def test_what_is_no_question_is_told_so(text: Any, place: Path) -> None:
    with evenreel.open_library(place, encoder=SeesOneThing()) as library:
        words = r"^text is .*; give words, a Then, Without or Marked; search_image\(picture\) takes pictures\.$"
        with pytest.raises(UsageError, match=words):
            library.search(text)


NO_FORMAT = "The picture cannot be read: it is in no format that can be read; these can be: PNG, JPEG, WEBP, GIF, BMP."


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        (b"", NO_FORMAT),
        (b"<svg/>", NO_FORMAT),
        (bytes(MAX_BYTES + 2**20), "The picture has 51 MiB, the limit is 50 MiB."),
        (
            png((100, 101)),
            "The picture cannot be read: it has 101 x 100 pixels, at most 16,384 a side and 10,000 in all are decoded; "
            "make it smaller.",
        ),
    ],
    ids=["empty", "drawing", "large", "many pixels"],
)
def test_bytes_are_refused_as_files_are(picture: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(picture)
    for given_as, name in ((picture, "The picture"), (tmp_path / "picture", f"The picture {tmp_path / 'picture'}")):
        with pytest.raises(UsageError) as caught:
            read_image(given_as, MediaLimits(max_pixels=10_000))
        assert str(caught.value) == sentence.replace("The picture", name)


@given(
    form=st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]),
    changes=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=6),
    kept=st.integers(0, 2_000),
)
def test_damaged_pictures_are_read_or_refused_in_a_sentence(
    form: str, changes: list[tuple[int, int]], kept: int
) -> None:
    damaged = bytearray(png(form=form))
    for place, value in changes:
        damaged[place % len(damaged)] = value
    reader = ImageReader(asdict(MediaLimits()))
    try:
        ((_, pixels),) = reader({"array": np.frombuffer(bytes(damaged[:kept]), np.uint8)})
    except MediaError as error:
        assert error.reason in {"not_media", "too_large", "damaged"}
    else:
        assert pixels is not None
        assert pixels.shape[2] == 3
