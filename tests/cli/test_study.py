"""`evenreel study` as it is typed: a corpus with generated clips and features in, a page, figures and runs out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import Pretrained, save_pretrained
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec
from evenreel.cli.app import app
from evenreel.cli.study import study
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import CorpusError, EvenreelError, FeaturesError, MediaError, UsageError
from evenreel.evaluation import save_scores
from evenreel.features import FeatureSettings, StoredSettings, compute_features, read_manifest, store_features
from evenreel.features.scene_elements import clip_means, embed, save_embedded
from evenreel.language.scene_elements import given
from evenreel.matchers import build_matcher
from evenreel.papers import STUDIES
from evenreel.papers.reading import open_workspace
from evenreel.papers.study import OtherCorpus, Sources
from evenreel.planted import write_clip
from evenreel.types import Scores
from tests.cli.test_library_commands import here
from tests.papers.class_clips import QUICK, class_material
from tests.tiny_checkpoints import WORDS
from tests.training.conftest import clip_folder

__all__ = ["clip_folder"]

PAIRS = 4
BROKEN = "test r3@sora"


class Place(NamedTuple):
    """A corpus of four pairs a split and features of both, one mirror of which cannot be read."""

    corpus: Path
    features: Path

    def study(self, name: str, out: Path, *words: str | Path) -> Result:
        """The command in this process, which has its imports behind it."""
        return CliRunner().invoke(app, ["study", name, str(self.corpus), "--out", str(out), *map(str, words)])


@pytest.fixture(scope="module")
def place(clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("study")
    random = np.random.default_rng(2)
    real = [f"{split} r{number}" for split in ("train", "test") for number in range(PAIRS)]
    clips = [(name, None) for name in real] + [(f"{name}@sora", name) for name in real]
    for name, _ in clips:
        pictures = random.integers(0, 256, (3, 6, 8, 3), dtype=np.uint8).repeat(8, axis=1).repeat(8, axis=2)
        write_clip(folder / f"{name}.mp4", list(pictures), fps=4)
    (folder / f"{BROKEN}.mp4").write_bytes(b"this is no video")
    table = pl.DataFrame(
        {
            "clip_id": [name for name, _ in clips],
            "path": [f"{name}.mp4" for name, _ in clips],
            "split": [name.split()[0] for name, _ in clips],
            "source": ["camera" if pair is None else "sora" for _, pair in clips],
            "pair_id": [pair for _, pair in clips],
            "setting": [None if pair is None else "text" for _, pair in clips],
        }
    )
    texts = [" ".join(random.choice(WORDS, 3)) for _ in real]
    captions = pl.DataFrame({"caption_id": [f"{name} c" for name in real], "clip_id": real, "text": texts})
    save_corpus(make_corpus(table, captions), folder)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(load_corpus(folder), folder / "features", load_encoder(str(clip_folder), device="cpu"), settings)
    return Place(folder, folder / "features")


def test_a_table_with_everything_that_is_written(place: Place, tmp_path: Path) -> None:
    test = select(load_corpus(place.corpus), split="test")
    captions, clips = test.captions["caption_id"].to_list(), test.clips["clip_id"].to_list()
    save_scores(
        Scores(np.random.default_rng(0).random((len(captions), len(clips))), captions, clips), tmp_path / "s.npz"
    )
    words = ("--features", place.features, "--scores", f"theirs={tmp_path / 's.npz'}", "--device", "cpu")
    done = here("study", "ghost/t2", place.corpus, "--out", tmp_path / "out", *words, "--resamples", "50")
    assert (done.returncode, done.stderr) == (3, "")
    assert "Too few pairs of a real clip and its mirror to conclude: 4 of sora text." in done.stdout
    assert f"{BROKEN} ({BROKEN}.mp4): " in done.stdout
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["name"] == "ghost/t2"
    assert [row[:2] for row in found["tables"][0]["rows"]] == [["sora text", "mean_pool"], ["sora text", "theirs"]]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Real clips and sora text" in page and "Preference by setting: MixR" in page


def test_what_is_true_of_several_systems_is_said_once(place: Place, tmp_path: Path) -> None:
    test = select(load_corpus(place.corpus), split="test")
    for seed, name in enumerate(("a", "b")):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(seed).random((test.captions.height, test.clips.height)))
    scores = [word for name in ("a", "b") for word in ("--scores", f"{name}={tmp_path / name}.npy")]
    done = place.study("ghost/t2", tmp_path / "out", *scores, "--resamples", "50", "--json")
    found = json.loads(done.stdout)
    (said,) = [one for one in found["notices"] if "names no ids" in one]
    assert said.startswith("Both systems: The table names no ids: its rows and columns are taken")
    kept = json.loads((tmp_path / "out" / "results.json").read_text())["provenance"]
    assert kept == found["provenance"]
    assert [one["what"] for one in kept["inputs"]] == ["corpus", "scores", "scores"]


def test_json_may_be_asked_for_before_the_name_too(place: Place, tmp_path: Path) -> None:
    words = ["study", "--json", "ghost/t1", str(place.corpus), "--out", str(tmp_path / "out")]
    found = json.loads(CliRunner().invoke(app, words).stdout)
    assert found["name"] == "ghost/t1" and found["provenance"]["inputs"]


def test_what_the_files_are(place: Place, tmp_path: Path) -> None:
    done = place.study("ghost/t1", tmp_path / "out", "--features", place.features, "--json")
    assert done.exit_code == 3, done.output
    found = json.loads(done.stdout)
    assert found["tables"][0]["rows"][0] == ["camera", "train", "4", "0.75", "64 x 48", "H.264", 4]
    assert [one["clip_id"] for one in found["set_aside"]] == [BROKEN]
    assert any("frames by '2 midpoints'; the paper's is of '10 midpoints'" in one for one in found["notices"])


def test_a_study_that_trains_goes_on_where_it_was(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # a minute may end between the two, and the reports say when
    words = ["--features", place.features, "--share", "0", "--share", "0.5", "--seeds", "1"]
    for change in ("loop.steps=2", "loop.batch_size=2", "loop.device=cpu", "matcher.settings.layers=1"):
        words += ["--set", change]
    done = place.study("ghost/f3", tmp_path / "out", *words, "--json")
    assert done.exit_code == 3, done.output
    rows = [row[1] for row in json.loads(done.stdout)["tables"][0]["rows"]]
    assert rows == ["before training", "0 % generated", "50 % generated"]
    run = tmp_path / "out" / "runs" / "50-generated" / "seed-0"
    made = (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert place.study("ghost/f3", tmp_path / "out", *words, "--json").stdout == done.stdout
    assert (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns == made
    other = place.study("ghost/f3", tmp_path / "out", *words, "--set", "optimiser.lr=0.5")
    assert isinstance(other.exception, UsageError)


def test_a_study_of_lengths_trains_on_stored_streams(tmp_path: Path) -> None:
    """No clip mirrors another there; graphs of captions and streams of frames are read from disk."""
    whole, random = class_material().whole, np.random.default_rng(5)
    save_corpus(whole, tmp_path / "corpus")
    for name in ("rgb", "audio"):
        np.savez(tmp_path / f"{name}.npz", **{clip: random.random((2, 4)) for clip in whole.clips["clip_id"]})
    streams = {name: (tmp_path / f"{name}.npz",) for name in ("rgb", "audio")}
    store_features(whole, tmp_path / "features", StoredSettings("ours", streams))
    words = ["--features", str(tmp_path / "features"), "--seeds", "1", "--device", "cpu", "--resamples", "0", "--json"]
    for change in QUICK:
        words += [] if change.startswith("loop.device") else ["--set", change]
    place = Place(tmp_path / "corpus", tmp_path / "features")
    done = place.study("length/t6", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    assert "device: cpu" in (tmp_path / "out" / "runs" / "baseline" / "seed-0" / "recipe.yaml").read_text()
    rows = json.loads(done.stdout)["tables"][0]["rows"]
    assert [row[0] for row in rows] == ["baseline", "without audio", "without rgb"]
    refused = place.study("length/t7", tmp_path / "out", *words, "--base", "wti")
    assert isinstance(refused.exception, EvenreelError), refused.output
    only = place.study("length/f2", tmp_path / "pictures", "--json")
    tables = {table["title"]: table for table in json.loads(only.stdout)["tables"]}
    assert ["classes in both", 12] in tables["Classes"]["rows"]
    chance = tables["How far classes would differ if their test clips were drawn at random"]
    assert ["classes that differ by at least 200 frames", 4] in [row[:2] for row in chance["rows"]]


@pytest.fixture(scope="module")
def dictionary(place: Place, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some words of the captions, by the encoder of the features."""
    folder = tmp_path_factory.mktemp("elements")
    phrases = given([f"the {word}" for word in WORDS[:4]], WORDS[4:6])
    save_embedded(embed(phrases, load_encoder(str(clip_folder), device="cpu")), folder)
    return folder


def times_of_checkpoints(runs: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in runs.rglob("last.ckpt")}


def test_what_was_learned_from_one_corpus_is_searched_for_in_another(
    place: Place, dictionary: Path, tmp_path: Path
) -> None:
    """Its training split stands in for the other corpus."""
    words = ["--features", place.features, "--seeds", "1", "--device", "cpu", "--resamples", "0"]
    for change in ("loop.steps=2", "loop.epochs=null", "loop.batch_size=2", "data.held_out=0"):
        words += ["--set", change]
    words += ["--set", f"matcher.settings.elements={dictionary}", "--set", "matcher.settings.decoder_layers=1"]
    words += ["--set", "matcher.settings.heads=1"]
    other = ["--other", f"theirs={place.corpus},{place.features},train"]
    done = here("study", "bima/t3", place.corpus, "--out", tmp_path / "out", *words, *other)
    assert (done.returncode, done.stderr) == (3, "")
    name = place.corpus.name
    assert f"Learned from {name}: in theirs bima has R@1 T2V " in done.stdout and "What is found where" in done.stdout
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row[:4] for row in found["tables"][3]["rows"]] == [["theirs", 4, 8, 12.5], [name, 4, 7, 100 / 7]]
    rows = [row[:3] for row in found["tables"][0]["rows"]]
    assert rows[2:4] == [["theirs", name, "mean_pool"], ["theirs", name, "bima"]]
    assert "Change of R@1 T2V beside baseline" in (tmp_path / "out" / "report.html").read_text()

    made = times_of_checkpoints(tmp_path / "out" / "runs")
    assert len(made) == 3
    again = place.study("bima/t4", tmp_path / "out", *words, "--json")  # shares two of its rows
    assert again.exit_code == 3, again.output
    assert made.items() < times_of_checkpoints(tmp_path / "out" / "runs").items()


def test_features_of_another_corpus_are_alike(place: Place, dictionary: Path, tmp_path: Path) -> None:
    own = Sources(features=place.features)
    others = {"theirs": OtherCorpus(place.corpus, tmp_path / "theirs")}
    shutil.copytree(place.features, tmp_path / "theirs")
    study, path = STUDIES["bima/t3"], tmp_path / "theirs" / "features.json"
    there = open_workspace(study, place.corpus, replace(own, others=others)).others["theirs"]
    assert there.corpus.clips["split"].unique().to_list() == ["test"]
    manifest = json.loads(path.read_text())
    others_frames = {"sets": [{**manifest["sets"][0], "rule": "3 midpoints"}]}
    for wrong, sentence in (
        ({"weights_hash": "0" * 64}, "with other weights; compute some with `evenreel features "),
        (others_frames, "has frames by '2 midpoints', and .* has none of "),
    ):
        path.write_text(json.dumps(manifest | wrong))
        with pytest.raises(FeaturesError, match=sentence):
            open_workspace(study, place.corpus, replace(own, others=others))


def test_elements_are_found_by_towers_before_their_training(place: Place, tmp_path: Path) -> None:
    """As `evenreel score --pretrained-features` does; other matchers beside such a one do without."""
    manifest = read_manifest(place.features)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    settings = {"entities": ["a ball"], "activities": ["runs"], "captioning": False, "disentangle": False}
    matcher, spec = build_matcher("bima", manifest.dimension, settings), MatcherSpec("bima", settings)
    save_pretrained(tmp_path / "bima", Pretrained(matcher, spec, About(note, Inputs(rule="2 midpoints"))))
    config = tmp_path / "bima" / "config.json"
    config.write_text(config.read_text().replace('"before": null', f'"before": "{manifest.weights_hash}"'))
    named = {"bima": str(tmp_path / "bima"), "towers": "mean_pool"}
    sources = Sources(features=place.features, matchers=named, pretrained_features=place.features)
    bima, towers = open_workspace(STUDIES["bima/maps"], place.corpus, sources).models
    assert bima.part.videos.pretrained_mean is not None and towers.part.videos.pretrained_mean is None
    np.testing.assert_allclose(bima.part.videos.pretrained_mean, clip_means(bima.part.videos), atol=1e-6)
    config.write_text(config.read_text().replace(manifest.weights_hash + '"\n', 'another"\n'))
    with pytest.raises(FeaturesError, match="were .* before their training, with other weights; compute them"):
        open_workspace(STUDIES["bima/maps"], place.corpus, sources)
    with pytest.raises(FeaturesError, match=r"before it was trained further; .*\(--pretrained-features\)"):
        open_workspace(STUDIES["bima/maps"], place.corpus, replace(sources, pretrained_features=None))
    with pytest.raises(UsageError, match="leave --pretrained-features out"):
        open_workspace(STUDIES["bima/maps"], place.corpus, replace(sources, matchers={"towers": "mean_pool"}))


def test_frames_of_clips_are_shown_under_heat(place: Place, tmp_path: Path) -> None:
    words = ["--features", str(place.features), "--device", "cpu", "--query", "test r1 c", "--json"]
    done = place.study("bima/maps", tmp_path / "out", *words)
    assert done.exit_code == 3, done.output
    ((system, _, clip, _, _, rank),) = json.loads(done.stdout)["tables"][0]["rows"]
    assert system == "mean_pool" and clip.startswith("test r") and 1 <= rank <= 2 * PAIRS
    assert "data:image\\u002fjpeg;base64," in (tmp_path / "out" / "report.html").read_text()
    moved = place.study("bima/maps", tmp_path / "out", *words, "--videos", tmp_path)
    assert isinstance(moved.exception, MediaError) and "cannot be shown" in str(moved.exception)
    whole = load_corpus(place.corpus)
    np.savez(tmp_path / "theirs.npz", **{clip: np.ones((2, 4)) for clip in whole.clips["clip_id"]})
    store_features(whole, tmp_path / "stored", StoredSettings("ours", {"rgb": (tmp_path / "theirs.npz",)}))
    others = place.study("bima/maps", tmp_path / "out", "--features", tmp_path / "stored", "--device", "cpu")
    assert isinstance(others.exception, UsageError) and "no towers to look at frames with" in str(others.exception)


def test_what_training_begins_with_is_read_with_the_features_that_it_takes(place: Place, tmp_path: Path) -> None:
    manifest = read_manifest(place.features)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    matcher, spec = build_matcher("mean_pool", manifest.dimension), MatcherSpec("mean_pool")
    for name, encoder in (("right", note), ("wrong", replace(note, weights_hash="another"))):
        about = About(encoder, Inputs(rule="2 midpoints"))
        save_pretrained(tmp_path / name, Pretrained(matcher, spec, about))
    sources = Sources(features=place.features, start=str(tmp_path / "right"))
    found = open_workspace(STUDIES["ghost/t6"], place.corpus, sources)
    assert found.start is not None and found.start.spec.name == "mean_pool"
    assert found.train is not None and found.train.corpus.clips.height == 2 * PAIRS
    with pytest.raises(FeaturesError, match="their weights differ"):
        open_workspace(STUDIES["ghost/t6"], place.corpus, replace(sources, start=str(tmp_path / "wrong")))


def test_the_list_names_every_study() -> None:
    done = CliRunner().invoke(app, ["study", "--list"])
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(STUDIES)
    listed = json.loads(CliRunner().invoke(app, ["study", "--list", "--json"]).stdout)
    assert listed[2]["name"] == "ghost/t2" and listed[2]["needs"] == "--features or --scores"


def test_wrong_usage_is_said(place: Place, tmp_path: Path) -> None:
    for words, kind, sentence in (
        ("", UsageError, "`evenreel study --list` names every study"),
        ("ghost/t2", UsageError, "a corpus and a folder for the results"),
        ("ghost/t99 CORPUS --out OUT", UsageError, "'ghost/t99' is no study; there are: ghost/t1, "),
        ("ghost/t2 CORPUS --out OUT", UsageError, "name features that a model can rank by"),
        ("ghost/t4 CORPUS --out OUT", UsageError, "name their folder with --features"),
        ("ghost/t6 CORPUS --out OUT --features F --scores a=b", UsageError, "named with --scores;"),
        ("ghost/t2 CORPUS --out OUT --scores a=b --scores a=c", UsageError, "NAME=c"),
        ("ghost/t2 CORPUS --out OUT --features F --start C", UsageError, "named with --start;"),
        ("ghost/t2 CORPUS --out OUT --class 0,1", UsageError, "ghost/t2 does not look at --class"),
        ("bima/t3 CORPUS --out OUT --features F", UsageError, "--other NAME=CORPUS,FEATURES"),
        ("bima/t3 CORPUS --out OUT --other a=b", UsageError, "--other is 'b'; it must be NAME=CORPUS,"),
        ("bima/t3 CORPUS --out OUT --other b,c", UsageError, "--other is 'b,c'; it must be NAME="),
        ("ghost/t2 CORPUS --out OUT --split val", CorpusError, "the splits are: test, train"),
        ("ghost/t6 CORPUS --out OUT --features F --train-split x", CorpusError, "test, train"),
        ("ghost/t4 CORPUS --out OUT --features F --stage late", UsageError, "'late'"),
        ("ghost/t7 CORPUS --out OUT --features F --group x", CorpusError, "called 'x'; there are"),
    ):
        real = {"CORPUS": str(place.corpus), "OUT": str(tmp_path / "out"), "F": str(place.features)}
        done = CliRunner().invoke(app, ["study", *(real.get(word, word) for word in words.split())])
        assert isinstance(done.exception, kind) and sentence in str(done.exception), done.output


def test_help_names_every_study_and_the_options_of_one() -> None:
    listed = CliRunner().invoke(app, ["study", "--help"], env={"COLUMNS": "160"}).output
    assert all(f" {name} " in listed and one.about.split(":")[0] in listed for name, one in STUDIES.items())
    own = CliRunner().invoke(app, ["study", "rerank/depth", "--help"], env={"COLUMNS": "160"}).output
    assert "--margin" in own and "Points of R@1 that a shortlist may lose." in own and "--share" not in own


def test_help_says_what_holds_where_an_option_is_left_out() -> None:
    for name, option, ending in (
        ("ghost/f3", "--share", r"[default: 0, 0.2, 0.4, 0.6, 0.8]"),
        ("ghost/t1", "--videos", r"[default: that of the corpus]"),
        ("ghost/t2", "--matcher", r"[default: 'mean_pool']"),
        ("bima/maps", "--videos", r"[default: that of the videos that features were made of]"),
        ("titan/t1", "--recipe", "How to learn at test time, a file or settings of 'evenreel adapt'."),
    ):
        (found,) = [one for one in study("study").commands[name].params if option in one.opts]
        assert str(found.help).replace("\\[", "[").endswith(ending), (name, option)


def test_no_help_of_a_study_is_in_words_of_python() -> None:
    for name, command in study("study").commands.items():
        texts = [str(one.help) for one in command.params]
        assert not [text for text in texts if "None" in text or "empty:" in text], name


@pytest.mark.parametrize("words", [["--share", "0"], ["--json", "--share=0"], ["--out", "OUT"]])
def test_an_option_before_the_name_of_a_study_is_sent_behind_it(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["study", *words, "ghost/f3", "CORPUS"])
    option = words[-1].partition("=")[0] if "=" in words[-1] else words[-2]
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith(f"{option} stands before the name of a study; give its options behind it")


def test_an_option_of_another_study_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    words = ["study", "rerank/depth", str(tmp_path / "nowhere"), "--out", str(tmp_path), "--share=0.5"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError) and "does not look at --share" in str(done.exception)
