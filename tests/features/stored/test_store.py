"""Features that others computed: every form of their arrays, several streams side by side, and what is set aside."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import build
from evenreel.checkpoint.corpus_features import load_features_for
from evenreel.corpus import save_corpus, select
from evenreel.errors import FeaturesError, LibraryError, UsageError
from evenreel.features import (
    FeatureReport,
    StoredSettings,
    find_clips,
    load_text_features,
    load_video_features,
    read_manifest,
    store_features,
)
from evenreel.features.stored import INDEX, MATRICES, joined, opened
from evenreel.library.search.rerank import check_encoder
from evenreel.training.material import load_material
from evenreel.training.recipe import RecipeError, recipe_from
from evenreel.types import Corpus
from tests.bombs import archive, claiming, endless_zeros
from tests.features.corpora import corpus_of
from tests.in_process import run_here

Arrays = dict[str, NDArray[Any]]
CLIPS = ("P01_01_0", "P01/01_1", "b", "c")
SIZES = {"audio": 4, "flow": 3, "rgb": 5}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    clips = pl.DataFrame(
        {
            "clip_id": list(CLIPS),
            "split": ["train", "train", "test", "test"],
            "start_s": [None, 1.0, None, None],
            "end_s": [None, 9.0, None, None],
        }
    )
    return corpus_of(clips, ["open the door", "cut", "stir-fry 2.5 eggs.", "open the door"])


def streams_of(seed: int = 0, counts: Mapping[str, int] | None = None) -> dict[str, Arrays]:
    """Arrays of every clip in every stream, 4 frames a clip unless said otherwise."""
    random = np.random.default_rng(seed)
    return {
        stream: {clip: random.normal(size=((counts or {}).get(clip, 4), size)).astype(np.float32) for clip in CLIPS}
        for stream, size in SIZES.items()
    }


def as_folder(folder: Path, arrays: Arrays) -> Path:
    folder.mkdir()
    for clip, array in arrays.items():
        np.save(folder / f"{clip.replace('/', '_')}.npy", array)
    return folder


def stored(folder: Path, corpus: Corpus, streams: Mapping[str, Arrays], **settings: Any) -> FeatureReport:
    """Store some streams in `folder / "out"`."""
    folder.mkdir(exist_ok=True)
    places = {name: [as_folder(folder / name, arrays)] for name, arrays in streams.items()}
    return store_features(corpus, folder / "out", StoredSettings("tbn", places, **settings))


def side_by_side(streams: Mapping[str, Arrays], clip: str, names: tuple[str, ...] = tuple(SIZES)) -> list[list[float]]:
    """The frames of a clip by loops: rows of unit length, and again of all together."""
    rows = []
    for frame in range(len(streams[names[0]][clip])):
        row: list[float] = []
        for name in names:
            values = [float(value) for value in streams[name][clip][frame]]
            length = sum(value * value for value in values) ** 0.5
            row += [value / length for value in values] if length else values
        whole = sum(value * value for value in row) ** 0.5
        rows.append([value / whole for value in row])
    return rows


def write_form(form: str, folder: Path, arrays: Arrays) -> Path:
    """The arrays in one of the forms, the last two clips first."""
    names = [*CLIPS[2:], *CLIPS[:2]]
    stacked = np.stack([arrays[name] for name in names])
    if form == "folder":
        return as_folder(folder / "arrays", arrays)
    if form == "archive":
        np.savez(folder / "a.npz", **{name.replace("/", "_"): array for name, array in arrays.items()})
    elif form == "stacked archive":
        np.savez(folder / "a.npz", features=stacked, ids=np.array(names))
    elif form == "hdf5":
        with h5py.File(folder / "a.hdf5", "w") as file:
            for name, array in arrays.items():
                file[name.replace("/", "_")] = array
        return folder / "a.hdf5"
    else:
        np.save(folder / "a_ft.npy", stacked)
        if form == "names":  # HGR's
            np.save(folder / "a_names.npy", np.array([name.encode() for name in names]))
        else:
            (folder / "a_ft_ids.txt").write_text("\n".join(names) + "\n")
        return folder / "a_ft.npy"
    return folder / "a.npz"


@pytest.mark.parametrize("form", ["folder", "archive", "stacked archive", "hdf5", "names", "ids"])
def test_every_form_of_arrays(form: str, corpus: Corpus, tmp_path: Path) -> None:
    arrays = streams_of()["rgb"]
    place = write_form(form, tmp_path, arrays)
    report = store_features(corpus, tmp_path / "out", StoredSettings("s3d", {"rgb": [place]}))
    assert (report.computed, report.frames, report.set_aside) == (4, 16, [])
    videos, aside = find_clips(tmp_path / "out", corpus).load()
    assert (videos.ids, aside) == (CLIPS, ())
    for clip, frames in zip(CLIPS, videos.frames, strict=True):
        assert frames == pytest.approx(np.array(side_by_side({"rgb": arrays}, clip, ("rgb",))), abs=1e-3)


def test_one_vector_a_clip_and_ids_that_are_given(corpus: Corpus, tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.eye(2, 6))
    np.save(tmp_path / "test.npy", np.eye(1, 6, 4))
    (tmp_path / "one.json").write_text(json.dumps(["c"]))
    (tmp_path / "two.txt").write_text("\n".join(CLIPS[:2]))
    places = {"rgb": [tmp_path / "train.npy", tmp_path / "test.npy"]}
    ids = (tmp_path / "one.json", tmp_path / "two.txt")
    report = store_features(corpus, tmp_path / "out", StoredSettings("s3d", places, ids=ids))
    assert [(one.clip_id, one.reason) for one in report.set_aside] == [("b", "unreadable")]
    videos, aside = find_clips(tmp_path / "out", corpus).load()
    assert videos.frames[:, 0].argmax(axis=1).tolist() == [0, 1, 4]
    assert [one.clip_id for one in aside] == ["b"]
    with pytest.raises(FeaturesError, match="1 clips were skipped"):
        load_video_features(tmp_path / "out", corpus)


def test_streams_side_by_side_and_chosen(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    stored(tmp_path, corpus, streams)
    folder = tmp_path / "out"
    manifest = read_manifest(folder)
    assert (manifest.encoder_id, manifest.dimension, dict(manifest.streams)) == ("stored:tbn", 12, SIZES)
    whole, _ = find_clips(folder, select(corpus, split="test")).load()
    assert not whole.frames.flags.owndata  # it is the file's
    assert whole.frames[1] == pytest.approx(np.array(side_by_side(streams, "c")), abs=1e-3)
    for names in (("audio", "rgb"), ("flow",)):
        found = find_clips(folder, corpus, streams=names[::-1])
        videos, _ = found.load()
        assert found.dimension == videos.frames.shape[2] == sum(SIZES[name] for name in names)
        for clip, frames in zip(CLIPS, videos.frames, strict=True):
            assert frames == pytest.approx(np.array(side_by_side(streams, clip, names)), abs=2e-3)
        assert found.fingerprint() != find_clips(folder, corpus).fingerprint()
    with pytest.raises(FeaturesError, match="no stream 'depth'; it has audio, flow, rgb"):
        find_clips(folder, corpus, streams=("depth",))


def test_features_are_the_same_in_whatever_order_streams_are_given(corpus: Corpus, tmp_path: Path) -> None:
    for order, folder in ((1, tmp_path / "one"), (-1, tmp_path / "two")):
        stored(folder, corpus, dict([*streams_of().items()][::order]))
    one, two = (find_clips(tmp_path / name / "out", corpus) for name in ("one", "two"))
    assert one.fingerprint() == two.fingerprint()


def test_the_one_vector_of_a_clip_stands_in_each_of_its_frames(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    streams["audio"] = {clip: array[0] for clip, array in streams["audio"].items()}
    assert stored(tmp_path, corpus, streams).set_aside == []
    streams["audio"] = {clip: np.stack([array] * 4) for clip, array in streams["audio"].items()}
    videos = load_video_features(tmp_path / "out", corpus)
    for clip, frames in zip(CLIPS, videos.frames, strict=True):
        assert frames == pytest.approx(np.array(side_by_side(streams, clip)), abs=1e-3)


def test_features_whose_manifest_is_damaged_are_made_again(corpus: Corpus, tmp_path: Path) -> None:
    stored(tmp_path / "first", corpus, streams_of())
    manifest = tmp_path / "first" / "out" / "features.json"
    manifest.write_text("{")
    places = {name: [as_folder(tmp_path / name, arrays)] for name, arrays in streams_of().items()}
    store_features(corpus, manifest.parent, StoredSettings("tbn", places))
    assert read_manifest(manifest.parent).dimension == 12


def test_times_are_middles_and_captions_have_no_features(corpus: Corpus, tmp_path: Path) -> None:
    stored(tmp_path, corpus, streams_of())
    videos = load_video_features(tmp_path / "out", corpus)
    assert videos.times_s[1].tolist() == [1.0, 3.0, 5.0, 7.0]  # 8 seconds
    assert videos.times_s[0].tolist() == [0.5, 1.5, 2.5, 3.5]
    texts = load_text_features(tmp_path / "out", corpus)
    assert (texts.words.shape, texts.sentence.shape) == ((4, 4, 0), (4, 0))
    assert texts.word_mask.sum(axis=1).tolist() == [3, 1, 4, 3]


def test_sampled_frames(corpus: Corpus, tmp_path: Path) -> None:
    counts = {CLIPS[0]: 11, CLIPS[1]: 3, CLIPS[2]: 5, CLIPS[3]: 4}
    streams = {"rgb": streams_of(counts=counts)["rgb"]}
    report = stored(tmp_path, corpus, streams, frames=5)
    assert report.frames == 5 + 3 + 5 + 4
    videos = load_video_features(tmp_path / "out", corpus, rule="5 stored")
    assert videos.frame_mask.sum(axis=1).tolist() == [5, 3, 5, 4]
    chosen = np.array(side_by_side(streams, CLIPS[0], ("rgb",)))[[0, 2, 5, 8, 10]]  # 0, 2.5, 5, 7.5, 10, halves to even
    assert videos.frames[0] == pytest.approx(chosen, abs=1e-3)
    assert not videos.frames[1, 3:].any()


def test_streams_of_unequal_length_are_sampled_or_set_aside(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    streams["audio"]["b"] = streams_of(counts={"b": 9})["audio"]["b"]
    (aside,) = stored(tmp_path / "as they are", corpus, streams).set_aside
    assert (aside.clip_id, aside.reason) == ("b", "bad_features")
    assert "audio 9, flow 4, rgb 4); --frames 4 makes them equal" in aside.sentence
    assert stored(tmp_path / "sampled", corpus, streams, frames=4).set_aside == []


def test_what_cannot_be_used_is_set_aside_with_its_reason(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    streams["rgb"][CLIPS[0]][2, 1] = np.nan
    streams["flow"][CLIPS[1]] = np.ones((4, 7), np.float32)
    for of_stream in streams.values():
        of_stream["b"][:] = 0
    report = stored(tmp_path / "some", corpus, streams)
    assert {one.clip_id: one.sentence for one in report.set_aside} == {
        CLIPS[0]: "its array in rgb holds a value that is not a number",
        CLIPS[1]: "its array in flow has rows of 7, those of others have 3",
        "b": "all its frames are zero in every stream",
    }
    hollow = {"rgb": streams_of()["rgb"] | {"c": np.ones((0, 5))}}
    assert stored(tmp_path / "hollow", corpus, hollow).set_aside[0].sentence == "its array in rgb is empty"
    streams["audio"]["c"][0] = np.inf
    with pytest.raises(FeaturesError, match="Not one of the 4 clips can be used; of P01_01_0: its array in rgb"):
        stored(tmp_path / "none", corpus, streams)


def test_padding_is_no_frame_and_a_silent_clip_lacks_only_its_sound(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    for of_stream in streams.values():
        of_stream["b"][2:] = 0
    streams["audio"]["c"][:] = 0
    assert stored(tmp_path, corpus, streams).set_aside == []
    videos = load_video_features(tmp_path / "out", corpus)
    assert videos.frame_mask.sum(axis=1).tolist() == [4, 4, 2, 4]
    assert videos.frames[3] == pytest.approx(np.array(side_by_side(streams, "c")), abs=1e-3)
    heard, aside = find_clips(tmp_path / "out", corpus, streams=("audio",)).load()
    assert (heard.ids, [one.clip_id for one in aside]) == (CLIPS[:3], ["c"])
    assert heard.frame_mask.sum(axis=1).tolist() == [4, 4, 2]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
        lambda sizes: st.tuples(
            *(arrays(np.float32, (3, size), elements=st.floats(2**-100, 2**100, width=32)) for size in sizes)
        )
    )
)
def test_every_stream_has_the_same_share_of_a_frame(streams: tuple[NDArray[np.float32], ...]) -> None:
    frames = joined(streams).astype(np.float64)
    ends = np.cumsum([part.shape[1] for part in streams])
    for part in np.split(frames, ends[:-1], axis=1):
        assert np.linalg.norm(part, axis=1) == pytest.approx(len(streams) ** -0.5, abs=2e-3)


def test_a_pickle_is_refused_with_what_converts_it(corpus: Corpus, tmp_path: Path) -> None:
    pickled = tmp_path / "it's a table.pkl"
    pickled.write_bytes(pickle.dumps({"RGB": np.ones((4, 2, 5)), "names": "none"}))
    np.save(tmp_path / "objects.npy", np.array({"P01/01": np.ones(3)}, dtype=object), allow_pickle=True)
    for file in (pickled, tmp_path / "objects.npy"):
        with pytest.raises(FeaturesError, match="is a pickle, which can run anything") as refused:
            store_features(corpus, tmp_path / "out", StoredSettings("tbn", {"rgb": [file]}))
        line = re.search(r"python (-c .*)", str(refused.value))
        assert line is not None
        subprocess.run([sys.executable, *shlex.split(line[1])], cwd=tmp_path, check=True)
    assert np.load(tmp_path / "RGB.npy").shape == (4, 2, 5)
    assert np.load(tmp_path / "P01_01.npy").shape == (3,)


def test_a_pickle_of_torch_is_refused_with_what_converts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"b": torch.ones(4, 2), "epoch": 3}, tmp_path / "features.pt")
    with pytest.raises(FeaturesError, match="is a pickle") as refused, opened(tmp_path / "features.pt"):
        pass
    _, _, code, path = shlex.split(str(refused.value)[str(refused.value).index("python -c") :])
    monkeypatch.setattr(sys, "argv", ["-c", path])
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # in a process of its own it would only wait for torch to be loaded
    assert np.load(tmp_path / "b.npy").shape == (4, 2)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("gone.npy", "There is nothing at .*; arrays come as"),
        ("words.txt", "has a form that is not read"),
        ("bare.npy", "has 2 rows, and no bare_ids.txt or bare_names.npy beside it has so many ids"),
        ("torn.npz", "cannot be read"),
        ("page.npy", "page.npy cannot be read"),
        ("page.npz", "page.npz cannot be read"),
        ("page.h5", "page.h5 cannot be read as HDF5"),
        ("number.npy", "has 1 rows, and no number_ids.txt"),
        ("deep.npz", r"no array that can be used: that of b has the shape \(1, 2, 3\), and \(T, D\) or"),
        ("zeros.npz", r"would unpack from .* to 3\.0 GiB"),
        ("claim.npz", r"claims 17,592,186,044,416 of float32, 64\.0 TiB"),
        ("claim.npy", r"claims 17,592,186,044,416 of float32, 64\.0 TiB"),
        ("hollow.h5", r"would unpack from 0 bytes to 4\.0 TiB"),
        ("strangers.npz", "an array of none of the 4 clips of the corpus, the first of which is called 'P01_01_0'"),
    ],
)
def test_places_that_are_none(place: str, sentence: str, corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("words")
    np.save(tmp_path / "bare.npy", np.ones((2, 3)))
    for name in ("page.npy", "page.npz", "page.h5"):
        (tmp_path / name).write_text("<html>not found</html>")
    endless_zeros(tmp_path / "zeros.npz", "b")
    with h5py.File(tmp_path / "hollow.h5", "w") as file:
        file.create_dataset("b", shape=(2**40,), dtype="f4", chunks=(2**20,))
    archive(tmp_path / "claim.npz", b=claiming((2**44,)))
    (tmp_path / "claim.npy").write_bytes(claiming((2**44,)))
    np.save(tmp_path / "number.npy", np.float32(3))
    np.savez(tmp_path / "deep.npz", b=np.ones((1, 2, 3)))
    np.savez(tmp_path / "strangers.npz", someone=np.ones((2, 3)))
    (tmp_path / "torn.npz").write_bytes((tmp_path / "strangers.npz").read_bytes()[:100])
    with pytest.raises((FeaturesError, UsageError), match=sentence):
        store_features(corpus, tmp_path / "out", StoredSettings("tbn", {"rgb": [tmp_path / place]}))
    assert not (tmp_path / "out" / "features.json").exists()


def test_hdf5_without_its_package(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write_form("hdf5", tmp_path, streams_of()["rgb"])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match=r"needs h5py, which is not installed: pip install"):
        store_features(corpus, tmp_path / "out", StoredSettings("s3d", {"rgb": [place]}))


def test_a_broken_off_run_leaves_what_was_there(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    stored(tmp_path / "first", corpus, streams)
    folder = tmp_path / "first" / "out"
    before = load_video_features(folder, corpus).frames.tobytes()
    places = {name: [as_folder(tmp_path / name, arrays)] for name, arrays in streams_of(seed=1).items()}

    def end(share: float) -> None:
        if share > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_features(corpus, folder, StoredSettings("tbn", places), end)
    assert load_video_features(folder, corpus).frames.tobytes() == before
    store_features(corpus, folder, StoredSettings("tbn", places, frames=2))
    after = load_video_features(folder, corpus)
    assert after.frames.shape == (4, 2, 12)
    assert {path.name for path in folder.iterdir()} == {"features.json", INDEX, MATRICES[1], "index.lock"}
    with pytest.raises(
        FeaturesError,
        match=r"of stored:tbn \(audio 4, .*, and those of stored:other \(audio .* are others; name another",
    ):
        store_features(corpus, folder, StoredSettings("other", places))


def test_a_flipped_byte_is_named_with_its_clip(corpus: Corpus, tmp_path: Path) -> None:
    stored(tmp_path, corpus, streams_of())
    path = tmp_path / "out" / MATRICES[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(FeaturesError, match=r"frames.npy is damaged at clip c; run `evenreel features --stored` again"):
        find_clips(tmp_path / "out", corpus).load()
    path.write_bytes(content[:-2])
    with pytest.raises(FeaturesError, match="frames.npy is gone or damaged"):
        find_clips(tmp_path / "out", corpus).load()


def test_a_recipe_takes_some_streams_and_the_checkpoint_notes_them(corpus: Corpus, tmp_path: Path) -> None:
    stored(tmp_path, corpus, streams_of(), frames=3)
    save_corpus(corpus, tmp_path / "corpus")
    data = {"corpus": str(tmp_path / "corpus"), "features": str(tmp_path / "out"), "validation": "test"}
    recipe = recipe_from({"name": "one", "data": data | {"streams": ["audio"]}, "matcher": {"name": "mean_pool"}})
    loaded = load_material(recipe)
    assert (loaded.dimension, loaded.source["streams"]) == (4, "audio")
    note = EncoderNote(loaded.encoder.encoder_id, loaded.encoder.weights_hash, 4)
    about = About(note, Inputs(frames=3, rule=loaded.encoder.rule, streams=("audio",)))
    spec = MatcherSpec("mean_pool")
    save_pretrained(tmp_path / "checkpoint", Pretrained(build(spec, 4), spec, about))
    again = load_matcher(str(tmp_path / "checkpoint"))
    assert again.about.inputs == about.inputs
    assert load_features_for(again, tmp_path / "out", corpus).videos.frames.shape == (4, 3, 4)
    card = (tmp_path / "checkpoint" / "README.md").read_text()
    assert "evenreel features CORPUS --stored STREAM=PLACE --name tbn --frames 3" in card
    assert "of the streams audio alone" in card
    assert "evenreel index" not in card


def test_where_streams_and_stored_features_have_no_place() -> None:
    data = {"corpus": "corpus", "streams": ["rgb"]}
    with pytest.raises(RecipeError, match=r"data.streams chooses among .* and a backbone makes its own: leave it out"):
        recipe_from({"name": "one", "data": data, "matcher": {"name": "wti"}, "backbone": {"model": "builtin"}})
    spec, about = MatcherSpec("mean_pool"), About(EncoderNote("stored:tbn", "0" * 64, 4))
    with pytest.raises(LibraryError, match="trained on stored:tbn, .* train one on features of builtin to re-rank"):
        check_encoder(Pretrained(build(spec, 4), spec, about), "builtin", "1" * 64)


def test_the_command(corpus: Corpus, tmp_path: Path) -> None:
    streams = streams_of()
    del streams["flow"]["b"]
    places = {name: as_folder(tmp_path / name, arrays) for name, arrays in streams.items()}
    save_corpus(corpus, tmp_path / "corpus")
    words = [word for name, place in places.items() for word in ("--stored", f"{name}={place}")]
    done = run_here("features", tmp_path / "corpus", *words, "--name", "tbn", environment={})
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines() == [
        f"Features of stored:tbn in {tmp_path / 'corpus' / 'features' / 'tbn'}:",
        "  3 clips (12 frames) of audio 4 + flow 3 + rgb 5 = 12 numbers",
        "  every stream, and every frame of all streams together, is of unit length",
        "Skipped: 1 clip",
        "  b: there is no array of it in the stream flow (unreadable)",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--stored", "rgb"], "--stored takes STREAM=PLACE, for example rgb=arrays/rgb, not 'rgb'."),
        (["--stored", "rgb=x", "--rule", "every 1 s", "--no-ocr"], "leave --rule and --no-ocr out."),
        (["--stored", "rgb=x", "--name", "../x"], "--name '../x' cannot be used"),
        (["--stored", "rgb=x", "--ids", "y.txt"], "--ids names the rows of an .npy, and no place is one"),
        (["--name", "x"], "give these with --stored STREAM=PLACE."),
    ],
)
def test_wrong_use(words: list[str], sentence: str, tmp_path: Path) -> None:
    done = run_here("features", tmp_path, *words, environment={})
    assert done.returncode == 2
    assert sentence in done.stderr


def test_features_of_an_encoder_have_no_streams(corpus: Corpus, tmp_path: Path) -> None:
    stored(tmp_path, corpus, streams_of())
    manifest = tmp_path / "out" / "features.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"streams": [], "encoder_id": "clip"}))
    with pytest.raises(FeaturesError, match="are of clip and have no streams to choose from; leave data.streams out"):
        find_clips(tmp_path / "out", corpus, streams=("rgb",))
