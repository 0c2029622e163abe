from __future__ import annotations

import csv
import shutil
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel import open_library
from evenreel.cli.show_library import show_result
from evenreel.errors import EncoderError
from evenreel.library import index_folders, publish_library, remove_from_library, repair, verify
from evenreel.library.index.scan import IndexReport
from evenreel.library.published import local_folder
from evenreel.library.search.result import MeaningHit, SearchResult
from evenreel.library.store import meanings
from evenreel.library.store.vectors import null_queries
from evenreel.meaning import WORDLLAMA, load_text_model, locate_text_model
from evenreel.server.api import FoundClip
from tests.library.videos import write_video
from tests.library.words_only import WORDS_ONLY
from tests.speech.subtitle_files import Line, written

pytest.importorskip("wordllama", reason="the extra meaning is not installed")

SPOKEN = {
    "kitchen": ("Chop the onions and fry them in butter.", "Then pour the soup into bowls."),
    "garage": ("The engine makes a strange noise.", "Our mechanic will repair the brakes tomorrow."),
    "clinic": ("The doctor looked at her broken leg.", "Take this medicine twice a day."),
    "garden": ("These roses need water every morning.", "Then we plant the tomatoes."),
    "bank": ("Interest on the loan has gone up again.", "We cannot pay back what we owe."),
}
CAPTIONED = "two kittens asleep on a sofa"
IN_OTHER_WORDS = {
    "fixing a car": ("garage", "Our mechanic will repair the brakes tomorrow."),
    "an injured patient": ("clinic", "The doctor looked at her broken leg."),
    "growing vegetables": ("garden", "Then we plant the tomatoes."),
}
"""Queries that share no word with what they find."""


def say(path: Path, *lines: str) -> None:
    cues = [Line(200 + 800 * n, 900 + 800 * n, words, "") for n, words in enumerate(lines)]
    path.write_text(written(path.suffix, cues), encoding="utf-8")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spoken") / "videos"
    for number, (name, lines) in enumerate(SPOKEN.items()):
        write_video(folder / f"{name}.mp4", number)
        say(folder / f"{name}.srt", *lines)
    write_video(folder / "captioned.mp4", 20)
    with (folder / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "caption"), ("captioned.mp4", CAPTIONED)])
    index(folder)
    return folder


@pytest.fixture
def videos(films: Path, tmp_path: Path) -> Path:
    shutil.copytree(films, tmp_path / "videos")
    index(tmp_path / "videos")
    return tmp_path / "videos"


def index(videos: Path, **changes: object) -> IndexReport:
    return index_folders([videos], videos.parent / "library", replace(WORDS_ONLY, **changes))  # type: ignore[arg-type]


def search(videos: Path, text: str, **asked: object) -> SearchResult:
    with open_library(videos.parent / "library") as opened:
        return opened.search(text, **asked)  # type: ignore[arg-type]


def names(found: SearchResult) -> list[str]:
    return [Path(hit.path).stem for hit in found.hits]


def rows(videos: Path) -> dict[str, int]:
    with closing(sqlite3.connect(videos.parent / "library" / "catalog.sqlite")) as catalog:
        sql = "SELECT name, count FROM meaning_rows JOIN files USING (clip_id) WHERE state = 'indexed'"
        return {Path(name).stem: count for name, count in catalog.execute(sql)}


def test_a_text_is_what_wordllama_makes_of_it() -> None:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    weights, tokens = locate_text_model(WORDLLAMA).files
    theirs = WordLlamaInference(load_file(weights)["embedding.weight"], Tokenizer.from_file(str(tokens)))
    texts = ["A man chops onions.", "Größe, 東京 and ﬁnd", "x" * 700, *null_queries()[:50]]
    ours = load_text_model(WORDLLAMA).encode(texts)
    np.testing.assert_allclose(ours, theirs.embed(texts, norm=True), atol=1e-6)
    assert np.linalg.norm(load_text_model(WORDLLAMA).encode([""])) == pytest.approx(1)


@pytest.mark.parametrize("query", IN_OTHER_WORDS)
def test_what_is_said_is_found_in_other_words_at_the_time_of_its_line(films: Path, query: str) -> None:
    name, line = IN_OTHER_WORDS[query]
    first, *_ = search(films, query).hits
    assert Path(first.path).stem == name
    assert first.meaning is not None
    assert (first.meaning.source, first.meaning.text) == ("said", line)
    start_s = 0.2 + 0.8 * SPOKEN[name].index(line)
    assert first.moments[0].time_s == first.meaning.start_s == pytest.approx(start_s)
    assert (first.written, first.weaker, list(first.scores)) == (0, False, ["meaning"])


def test_terminal_and_page_say_that_it_is_in_other_words(films: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = search(films, "fixing a car")
    show_result(found, as_json=False)
    assert "said, in other words 0:01: Our mechanic will repair the brakes tomorrow." in capsys.readouterr().out
    told = FoundClip.of(replace(found.hits[0], meaning=MeaningHit("said", "\u202eno", 1.0, 2.0, 0.5)), ())
    assert told.meaning is not None and "\u202e" not in told.meaning.text


def test_a_caption_is_found_in_other_words_as_a_whole_clip(films: Path) -> None:
    first, *_ = search(films, "sleeping cats").hits
    assert Path(first.path).stem == "captioned"
    assert first.meaning is not None and (first.meaning.source, first.meaning.text) == ("about", CAPTIONED)
    assert "said" not in first.scores and not first.weaker


def test_nonsense_finds_nothing_by_meaning(films: Path) -> None:
    """Of the bank itself no more queries than the rule is made for; and none of words of no language."""
    found = [query for query in null_queries() if any("meaning" in hit.scores for hit in search(films, query).hits)]
    assert len(found) <= 0.025 * len(null_queries()) + 1
    assert search(films, "xqzw vbnk plomt").hits == ()


def test_the_words_themselves_come_before_other_words_for_them(videos: Path) -> None:
    say(videos / "bank.srt", "Somebody has to fix a car.", "Interest on the loan has gone up again.")
    index(videos)
    for query in ("fix a car", '"fix a car"', "said: fix a car"):
        assert names(search(videos, query))[0] == "bank"
    assert set(names(search(videos, "fix a car"))) == {"bank", "garage"}
    assert names(search(videos, '"fix a car"')) == ["bank"]


def test_a_prefix_asks_what_these_texts_mean_alone(films: Path) -> None:
    assert names(search(films, "said: fixing a car"))[0] == "garage"
    assert "garage" not in names(search(films, "on-screen: fixing a car"))
    assert names(search(films, "said: sleeping cats")) != ["captioned"]


def test_a_moment_in_other_words_comes_before_another(films: Path) -> None:
    (hit,) = search(films, "an injured patient, then medication").hits
    assert Path(hit.path).stem == "clinic"
    assert [step.start_s for step in hit.steps] == pytest.approx([0.2, 1.0])


def test_texts_that_change_are_encoded_anew_and_go_with_their_clip(videos: Path) -> None:
    assert index(videos).did_nothing
    before = rows(videos)
    say(videos / "garage.srt", "A new recipe for apple pie.", "Bake it in the oven.")
    (videos / "garden.srt").unlink()
    (videos / "clinic.mp4").unlink()
    (videos / "clinic.srt").unlink()
    report = index(videos)
    assert report.meanings == 1
    assert names(search(videos, "baking dessert"))[0] == "garage"
    assert "garage" not in names(search(videos, "fixing a car"))
    assert rows(videos) == {name: before[name] for name in ("kitchen", "garage", "bank", "captioned")}
    remove_from_library(videos.parent / "library", videos / "bank.mp4")
    assert rows(videos).keys() == {"kitchen", "garage", "captioned"}
    assert verify(videos.parent / "library") == []
    assert search(videos, "debts").hits == ()


def test_a_run_that_is_killed_between_texts_and_vectors_leaves_nothing_wrong(
    videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(videos / "garage.srt", "A new recipe for apple pie.")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(meanings, "note_clips", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        index(videos)
    assert "garage" not in rows(videos)
    assert "garage" not in names(search(videos, "fixing a car"))
    assert verify(videos.parent / "library") == []
    assert index(videos).meanings == 1
    assert names(search(videos, "baking dessert"))[0] == "garage"


def test_what_texts_mean_is_verified_repaired_and_published(videos: Path) -> None:
    library = videos.parent / "library"
    (vectors,) = library.glob("meanings.*.f16")
    data = bytearray(vectors.read_bytes())
    data[-39] ^= 64
    vectors.write_bytes(data)
    assert any("matrix of meanings" in problem.what for problem in verify(library))
    repair(library)
    assert verify(library) == []
    assert names(search(videos, "fixing a car"))[0] == "garage"
    (library / "catalog.sqlite").unlink()
    repair(library)
    index(videos)
    publish_library(library, videos.parent / "published")
    read = local_folder(videos.parent / "published", videos.parent / "cache")
    with open_library(read) as published:
        assert names(published.search("fixing a car"))[0] == "garage"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EncoderError("Its files are damaged.")])
def test_a_repair_that_ends_before_texts_are_encoded_leaves_them_to_the_next_run(
    videos: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: object) -> None:
        raise error

    library, is_killed = videos.parent / "library", isinstance(error, KeyboardInterrupt)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) if is_killed else nullcontext():
        patch.setattr("evenreel.library.check.update_meanings", fail)
        repair(library)
    assert (verify(library), rows(videos)) == ([], {})
    assert index(videos).meanings == 6
    assert len(list(library.glob("meanings.*"))) == 1


def test_without_a_model_words_alone_are_searched_and_the_library_says_so(
    videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("evenreel.meaning._ITS_FILES", ("nowhere",))
        with open_library(videos.parent / "library") as opened:
            assert opened.search("fixing a car").hits == ()
            assert opened.search("mechanic").notices == ()
            (notice,) = [one for one in opened.notices() if "meaning" in one]
            assert "evenreel[meaning]" in notice
        with pytest.raises(EncoderError, match="meaning"):
            index(videos, meaning="wordllama")
        assert index(videos).did_nothing
    index(videos, meaning=None)
    assert rows(videos) == {}
    assert not list((videos.parent / "library").glob("meanings.*"))
    assert index(videos).did_nothing, "it stays off until a model is named"
    repair(videos.parent / "library")
    with open_library(videos.parent / "library") as opened:
        assert not any("meaning" in one for one in opened.notices())
        assert opened.stats().meaning is None
    assert index(videos).did_nothing
    assert index(videos, meaning=WORDLLAMA).meanings == 6


def test_texts_without_a_letter_load_no_model(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(videos / "garage.srt", "12:30")
    assert index(videos).meanings == 0
    monkeypatch.setattr(meanings, "load_text_model", None)
    assert index(videos).did_nothing


def test_a_row_of_a_file_that_is_damaged_does_not_end_a_run(videos: Path) -> None:
    index(videos, meaning=None)
    (videos / "metadata.csv").unlink()
    with closing(sqlite3.connect(videos.parent / "library" / "catalog.sqlite")) as catalog:
        catalog.execute("UPDATE files SET metadata = '{' WHERE name = 'captioned.mp4'")
        catalog.commit()
    assert index(videos, meaning=WORDLLAMA).meanings == 5


@pytest.mark.parametrize("broken", ["model", "matrix"])
def test_a_search_goes_on_by_words_and_says_so_where_model_or_matrix_fail(
    videos: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "model":

        def fail(texts: list[str]) -> None:
            raise IndexError("a piece of a word that has no vector")

        monkeypatch.setattr(load_text_model(WORDLLAMA), "_encode", fail)
    else:
        (vectors,) = (videos.parent / "library").glob("meanings.*.f16")
        vectors.write_bytes(vectors.read_bytes()[:100])
    found = search(videos, "mechanic")
    assert names(found) == ["garage"]
    assert any(notice.startswith("The search went on without the model wordllama: ") for notice in found.notices)


def test_a_library_that_was_made_before_texts_had_a_meaning_gets_it_by_its_next_run(videos: Path) -> None:
    library = videos.parent / "library"
    index(videos, meaning=None)
    with closing(sqlite3.connect(library / "catalog.sqlite")) as catalog:
        catalog.execute("DROP TABLE meaning_rows")
        catalog.execute("DROP TABLE meaning_null_scores")
        catalog.execute("DELETE FROM meta WHERE key GLOB 'meaning_*'")
        catalog.commit()
    assert verify(library) == []
    assert names(search(videos, "mechanic")) == ["garage"]
    with open_library(library) as opened:
        assert any("run evenreel index once more" in notice for notice in opened.notices())
    assert index(videos).meanings == 6
    assert verify(library) == []


def test_another_model_encodes_all_texts_anew(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = videos.parent / "library"
    index(videos)
    (before,) = library.glob("meanings.*.f16")
    monkeypatch.setattr("evenreel.meaning.ModelFiles.digest", lambda files: "f" * 64)
    load_text_model.cache_clear()
    try:
        assert search(videos, "fixing a car").hits == ()  # other weights than those of the library
        assert index(videos).meanings == 6
        assert names(search(videos, "fixing a car"))[0] == "garage"
    finally:
        load_text_model.cache_clear()
    assert not before.exists()


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "car", "mechanic", "brakes", "engine", "doctor", "leg")


def write_static(folder: Path, seed: int = 0) -> str:
    """A table of model2vec in which what has to do with cars lies together."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    vectors = np.random.default_rng(seed).standard_normal((len(WORDS), 32)).astype(np.float32)
    vectors[4:8] += 4 * vectors[4]
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return str(folder)


def test_a_table_of_model2vec_takes_the_place_of_the_default(videos: Path, tmp_path: Path) -> None:
    pytest.importorskip("model2vec")
    name = write_static(tmp_path / "static")
    report = index(videos, meaning=name)
    assert report.meanings == 6
    with open_library(videos.parent / "library") as opened:
        assert opened.stats().meaning == name
        first, *_ = opened.search("car").hits
        assert first.meaning is not None and first.meaning.text == "Our mechanic will repair the brakes tomorrow."
    assert index(videos).did_nothing, "the library keeps its model"
    repair(videos.parent / "library")
    assert index(videos).did_nothing, "a repair keeps it too"
    write_static(Path(name), seed=1)
    assert index(videos).meanings == 6
    assert index(videos).did_nothing, "files that change are read once"
    shutil.rmtree(name)
    load_text_model.cache_clear()
    with open_library(videos.parent / "library") as opened:
        assert opened.search("car").hits == ()
        assert any("is not on this machine" in notice for notice in opened.notices())
    with pytest.raises(EncoderError, match="neither wordllama, nor a folder"):
        index(videos, meaning=str(tmp_path / "nowhere"))


def test_a_model_of_sentences_is_read_without_its_code(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(tmp_path / "bert")
    parts = Transformer(str(tmp_path / "bert"))
    model = SentenceTransformer(modules=[parts, Pooling(16)], device="cpu")
    model.save(str(tmp_path / "sentences"))
    texts = ["car mechanic", "doctor"]
    found = load_text_model(str(tmp_path / "sentences")).encode(texts)
    np.testing.assert_allclose(found, model.encode(texts, normalize_embeddings=True), atol=1e-5)
    modules = tmp_path / "sentences" / "modules.json"
    modules.write_text(modules.read_text().replace("sentence_transformers.", "somebody_elses."))
    load_text_model.cache_clear()
    with pytest.raises(EncoderError, match="code of its own"):
        load_text_model(str(tmp_path / "sentences"))
