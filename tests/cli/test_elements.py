"""`evenreel elements` as a person types it: from videos to a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from evenreel import encoders
from evenreel.corpus import make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.features import FeatureSettings, compute_features, load_video_features
from evenreel.features.manifest import FeatureStream, put_manifest, read_manifest
from evenreel.features.scene_elements import load_dictionary, load_embedded
from evenreel.types import Corpus
from tests.cli.test_library_commands import here, printed_json
from tests.features.pixel_encoder import PixelEncoder
from tests.library.videos import write_video

TEXTS = {
    "a": "a man kicks a red ball",
    "b": "a man is kicking two red balls",
    "c": "a dog runs",
    "d": "a secret answer",
}
HASH = PixelEncoder().weights_hash


class Place(NamedTuple):
    corpus: Path
    features: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Four clips, of which `d` is of the test split and `c` cannot be read; features by an encoder without a model."""
    folder = tmp_path_factory.mktemp("corpus")
    tables = corpus_of({"a": "train", "b": "train", "c": "train", "d": "test"})
    for number, name in enumerate("abd"):
        write_video(folder / f"{name}.mp4", number, seconds=1.0)
    (folder / "c.mp4").write_text("not a video")
    save_corpus(tables, folder)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(tables, folder / "features", PixelEncoder(), settings)
    return Place(folder, folder / "features")


def corpus_of(splits: dict[str, str | None]) -> Corpus:
    clips = pl.DataFrame(
        {"clip_id": list(splits), "path": [f"{one}.mp4" for one in splits], "split": list(splits.values())}
    )
    captions = [(f"{one}{number}", one, TEXTS[one]) for one in splits for number in range(2)]
    return make_corpus(clips, pl.DataFrame(captions, ["caption_id", "clip_id", "text"], orient="row"))


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder that is named, or that features are of, is the one without a model."""
    monkeypatch.setattr(encoders, "load_encoder", lambda name, **_: PixelEncoder("b" * 64 if name == "other" else HASH))


def test_a_text_file_becomes_a_dictionary(tmp_path: Path) -> None:
    captions = tmp_path / "captions.txt"
    captions.write_text("# made by hand\na man kicks a red ball\n\nA man runs.\n", encoding="utf-8")
    out = tmp_path / "dictionary"
    done = here("elements", "--text", captions, "--out", out, "--tagger", "pattern", "--min-captions", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = load_dictionary(out)
    assert found.entities == ("man", "ball", "red ball")
    assert found.activities == ("kick", "kick ball", "kick red ball", "run")
    assert (found.captions, found.source.partition(",")[0]) == (2, "captions of captions.txt")
    assert "not embedded: give --features or --model for that" in done.stdout


def test_from_videos_to_tags_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the built-in model; the phrases are those of a loop over frames and phrases."""
    monkeypatch.setattr(encoders, "load_encoder", load_encoder)
    tables, encoder = corpus_of({"a": "train", "b": "train", "c": "test"}), load_encoder("builtin")
    for number, name in enumerate("abc"):
        write_video(tmp_path / f"{name}.mp4", number, seconds=1.0)
    save_corpus(tables, tmp_path)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=tmp_path, workers=1)
    compute_features(tables, tmp_path / "features", encoder, settings)
    out, page = tmp_path / "dictionary", tmp_path / "audit.html"
    words = ("elements", tmp_path, "--features", tmp_path / "features", "--out", out, "--report", page, "--top", "2")
    done = here(*words, "--tagger", "pattern", "--min-captions", "2")
    assert (done.returncode, done.stderr) == (0, "")
    (table,) = out.glob("clips-*.parquet")
    lines = done.stdout.splitlines()
    assert lines[1:3] == ["  entities: ball, man, red ball", "  activities: kick, kick ball, kick red ball"]
    assert "Can the scene dictionary be relied on?" in page.read_text(encoding="utf-8")
    videos = load_video_features(tmp_path / "features", tables)
    for row, clip_id in enumerate(videos.ids):
        mean = videos.frames[row].astype(np.float64).mean(axis=0)
        for kind, phrases in (("entity", lines[1]), ("activity", lines[2])):
            named = phrases.partition(": ")[2].split(", ")
            near = {one: float(mean @ encoder.encode_text([one]).sentence[0]) for one in named}
            own = pl.read_parquet(table).filter(pl.col("clip_id") == clip_id, pl.col("kind") == kind)
            assert own["phrase"].to_list() == sorted(near, key=lambda one: -near[one])[:2]


def test_training_captions_are_mined_and_every_clip_is_looked_at(place: Place, tmp_path: Path) -> None:
    out, page = tmp_path / "dictionary", tmp_path / "audit.html"
    words = ("elements", place.corpus, "--out", out, "--features", place.features, "--min-captions", "2", "--top", "3")
    done = here(*words, "--tagger", "pattern", "--report", page, "--json")
    assert done.returncode == 3, done.stderr
    found = printed_json(done)
    embedded = load_embedded(out, HASH)
    assert embedded.dictionary.splits == ("train",)
    assert embedded.dictionary.entities == ("ball", "man", "red ball", "dog")
    assert "secret answer" not in embedded.dictionary.entities
    assert (found["entities"], found["uses"], found["clips"]) == (4, [], 3)
    assert [one["clip_id"] for one in found["set_aside"]] == ["c"]
    table = pl.read_parquet(found["elements"])
    assert table.filter(pl.col("kind") == "entity").group_by("clip_id").len().sort("clip_id").rows() == [
        ("a", 3), ("b", 3), ("d", 3)
    ]  # fmt: skip
    coverage = {row[1]: row[2:4] for row in found["audit"]["tables"][0]["rows"] if row[0] == "entities"}
    assert coverage == {"train": [6, 100.0], "test": [2, 0.0]}
    assert "secret answer" not in page.read_text(encoding="utf-8")
    assert "Without 1 clip that had been skipped" in here(*words, "--tagger", "pattern").stdout
    again = (*words[:2], "--out", tmp_path / "x", "--split", "test", "--min-captions", "1", "--tagger", "pattern")
    assert "uses scene elements from captions of test" in here(*again).stdout


def test_lists_the_package_and_another_dictionary(place: Place, tmp_path: Path) -> None:
    things, doings = tmp_path / "things.txt", tmp_path / "doings.txt"
    things.write_text("Red ball\nbox\n", encoding="utf-8")
    doings.write_text("kick\n", encoding="utf-8")
    lists = here(
        "elements", "--entities", things, "--activities", doings, "--out", tmp_path / "a", "--model", "x", "--json"
    )
    assert printed_json(lists)["source"] == "things.txt and doings.txt"
    assert load_embedded(tmp_path / "a", HASH).dictionary.entities == ("Red ball", "box")
    packaged = printed_json(here("elements", "--packaged", "--out", tmp_path / "b", "--json"))
    assert packaged["entities"] > 400 and packaged["audit"] is None
    other = here("elements", place.corpus, "--dictionary", tmp_path / "a", "--out", tmp_path / "c", "--json")
    assert printed_json(other)["digest"] == printed_json(lists)["digest"]


def test_captions_without_verbs_give_no_activities_and_it_is_said(tmp_path: Path) -> None:
    captions = tmp_path / "captions.txt"
    captions.write_text("a red ball\na blue box\n", encoding="utf-8")
    words = ("elements", "--text", captions, "--out", tmp_path / "x", "--tagger", "pattern", "--min-captions", "1")
    assert here(*words).stdout.count("The dictionary has no activities, so clips get none;") == 1


def test_what_was_made_of_a_replaced_dictionary_goes_with_it(place: Place, tmp_path: Path) -> None:
    things, out = tmp_path / "things.txt", tmp_path / "d"
    words = ("elements", place.corpus, "--features", place.features, "--entities", things, "--out", out, "--json")
    things.write_text("ball\n", encoding="utf-8")
    before = printed_json(here(*words))["elements"]
    assert here(*words).returncode == 3
    things.write_text("box\n", encoding="utf-8")
    refused = here(*words)
    assert (refused.returncode, "holds another dictionary" in refused.stderr) == (2, True)
    after = printed_json(here(*words, "--replace"))["elements"]
    assert list(out.glob("clips-*.parquet")) == [Path(after)] != [Path(before)]
    assert load_embedded(out, HASH).dictionary.entities == ("box",)


def test_a_damaged_dictionary_is_replaced_only_when_asked(tmp_path: Path) -> None:
    words = ("elements", "--packaged", "--out", tmp_path / "d")
    here(*words)
    (tmp_path / "d" / "dictionary.parquet").write_bytes(b"nothing")
    done = here(*words)
    assert (done.returncode, "holds a dictionary that cannot be read (" in done.stderr) == (2, True)
    assert "name another --out, or give --replace." in done.stderr
    assert here(*words, "--replace").returncode == 0
    assert len(load_dictionary(tmp_path / "d").entities) > 400


def test_wrong_usage_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "EMPTY").write_text("# nothing\n", encoding="utf-8")
    (tmp_path / "BINARY").write_bytes(b"ball\xff\n")
    out = ("--out", tmp_path / "X")
    for words, sentence in (
        (("--packaged",), "Say with --out where"),
        (out, "Name a CORPUS to mine its captions"),
        ((*out, "--packaged", "--text", "f"), "Give one of these"),
        ((*out, "--packaged", "--features", "f"), "are of a corpus; name its folder too"),
        ((*out, "--packaged", "--report", "f.html"), "name the folder of their CORPUS too"),
        ((*out, "--packaged", "--split", "test"), "and with --packaged none are"),
        ((*out, "--packaged", "--top", "3"), "are looked at where --features says"),
        ((*out, "--entities", tmp_path / "EMPTY"), "holds no phrase; write one a line"),
        ((*out, "--entities", tmp_path / "BINARY"), "is no UTF-8 text (byte 4)"),
        ((*out, "--text", "missing.txt"), "missing.txt cannot be read"),
        ((*out, "--text", "f", "--modifiers", "some"), "it must be all or whole or bare"),
    ):
        done = here("elements", *words)
        assert (done.returncode, sentence in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


def test_a_corpus_without_the_split_is_refused(tmp_path: Path) -> None:
    save_corpus(corpus_of({"a": "val", "b": "val"}), tmp_path / "val")
    save_corpus(corpus_of({"a": None, "b": None}), tmp_path / "none")
    words = ("--out", tmp_path / "x", "--min-captions", "1", "--tagger", "pattern")
    done = here("elements", tmp_path / "val", *words)
    assert (done.returncode, "no captions of the split 'train' (it has captions of val)" in done.stderr) == (1, True)
    assert printed_json(here("elements", tmp_path / "none", *words, "--json"))["uses"] == []
    done = here("elements", tmp_path / "none", *words, "--split", "train")
    assert (done.returncode, "have no split, so none is 'train'; leave --split out" in done.stderr) == (1, True)


def test_features_of_another_encoder_are_refused(place: Place, tmp_path: Path) -> None:
    words = ("elements", place.corpus, "--out", tmp_path / "x", "--features", place.features)
    done = here(*words, "--model", "other")
    assert (done.returncode, "with other weights than other has here" in done.stderr) == (1, True), done.stderr
    stored = tmp_path / "stored"
    stored.mkdir()
    put_manifest(stored, replace(read_manifest(place.features), streams=(FeatureStream("rgb", 12),)))
    done = here(*words[:-1], stored)
    assert (done.returncode, "which text tower belongs to them is not known" in done.stderr) == (1, True), done.stderr
