"""Scores from every kind of file: the same matrix, by ids; and a sentence for whatever does not fit."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

from evenreel.corpus import make_corpus
from evenreel.errors import OutputError, ScoresError, UsageError
from evenreel.evaluation import load_scores, save_scores
from evenreel.evaluation.rescoring import load_bank
from evenreel.evaluation.scores import ListedScores
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.bombs import archive, claiming, endless_zeros
from tests.each import of_each
from tests.evaluation.small_corpus import by_pair as by_id

CAPTIONS = ["c0", "c1", "c2", "c3"]
CLIPS = ["v0", "v1", "v2"]
VALUES = np.random.default_rng(0).normal(size=(4, 3))

CORPUS = make_corpus(
    {"clip_id": CLIPS}, {"caption_id": CAPTIONS, "clip_id": ["v0", "v1", "v2", "v0"], "text": ["one", "two", "b", "a"]}
)


@pytest.fixture
def corpus() -> Corpus:
    return CORPUS


EXPECTED = by_id(Scores(VALUES, CAPTIONS, CLIPS))
ROWS, COLUMNS = [2, 0, 3, 1], [1, 2, 0]
MIXED = Scores(VALUES[ROWS][:, COLUMNS], [CAPTIONS[i] for i in ROWS], [CLIPS[i] for i in COLUMNS])


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_npy_takes_the_order_of_the_corpus_and_says_so(corpus: Corpus, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", VALUES)
    notices: list[str] = []
    found = load_scores(tmp_path / "s.npy", corpus, notice=notices.append)
    assert by_id(found) == EXPECTED
    assert isinstance(found, Scores)
    assert isinstance(found.values, np.memmap)
    assert len(notices) == 1
    assert "names no ids" in notices[0]


def test_npz_goes_by_ids_in_any_order_and_either_way_round(corpus: Corpus, tmp_path: Path) -> None:
    save_scores(MIXED, tmp_path / "s.npz")
    notices: list[str] = []
    assert by_id(load_scores(tmp_path / "s.npz", corpus, notice=notices.append)) == EXPECTED
    assert notices == []
    save(tmp_path / "t.npz", values=MIXED.values.T, caption_ids=MIXED.video_ids, video_ids=MIXED.caption_ids)
    assert by_id(load_scores(tmp_path / "t.npz", corpus, notice=notices.append)) == EXPECTED
    assert "a video a row" in notices[0]


PANDAS = pd.DataFrame(MIXED.values, MIXED.caption_ids, MIXED.video_ids)
PAIRS = PANDAS.stack().reset_index(name="score").set_axis(["query", "item", "score"], axis=1)
TEXTS: dict[str, Callable[[Path], object]] = {
    "numbers.csv": lambda path: np.savetxt(path, VALUES, delimiter=", "),
    "numbers.tsv": lambda path: np.savetxt(path, VALUES, delimiter="\t", header="made by x"),
    "numbers.txt": lambda path: np.savetxt(path, VALUES),
    "semicolons.txt": lambda path: np.savetxt(path, VALUES, delimiter=";"),
    "numbers.csv.gz": lambda path: np.savetxt(path, VALUES, delimiter=","),
    "numbered columns.csv": lambda path: pd.DataFrame(VALUES).to_csv(path, index=False),
    "ids.csv": PANDAS.to_csv,
    "ids.tsv": lambda path: PANDAS.rename_axis("caption_id").to_csv(path, sep="\t"),
    "pairs.csv": lambda path: PAIRS.to_csv(path, index=False),
    "matrix.npz": lambda path: np.savez(path, sims=VALUES),
}


@of_each(TEXTS)
def test_scores_in_text_are_read_as_people_save_them(name: str) -> None:
    with TemporaryDirectory() as folder:
        TEXTS[name](Path(folder) / name)
        assert by_id(load_scores(Path(folder) / name, CORPUS, notice=lambda _: None)) == pytest.approx(EXPECTED)


def test_what_scores_use_is_saved_with_them_and_never_dropped(corpus: Corpus, tmp_path: Path) -> None:
    save_scores(Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(("other queries",))), tmp_path / "s.npz")
    assert load_scores(tmp_path / "s.npz", corpus).about.uses == ("other queries",)
    with pytest.raises(UsageError, match=r"use other queries and a bank, which an .npy cannot say; save them as .npz"):
        save_scores(Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(("other queries", "a bank"))), tmp_path / "s.npy")
    assert not (tmp_path / "s.npy").exists()


class Banded(Scores):
    """Scores that note how much was asked for at a time."""

    asked: ClassVar[list[int]] = []

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        self.asked.append(captions.stop - captions.start)
        return super().block(captions, videos)


def test_a_table_is_written_as_numpy_does_but_in_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.evaluation.saving._BAND_BYTES", 2 * 8 * len(CLIPS))
    shares: list[float] = []
    scores = Banded(VALUES[::-1], CAPTIONS[::-1], CLIPS, ScoreNotes(("other queries",)))
    save_scores(scores, tmp_path / "s.npz", shares.append)
    save_scores(Scores(VALUES[::-1], CAPTIONS[::-1], CLIPS), tmp_path / "s.npy")
    assert max(Banded.asked) == 2
    assert shares == [0.5, 1.0]
    ids = {"caption_ids": CAPTIONS[::-1], "video_ids": CLIPS, "uses": ["other queries"]}
    save(tmp_path / "whole.npz", values=VALUES[::-1], **ids)
    np.save(tmp_path / "whole.npy", np.ascontiguousarray(VALUES[::-1]))
    for kind in ("npz", "npy"):
        assert (tmp_path / f"s.{kind}").read_bytes() == (tmp_path / f"whole.{kind}").read_bytes()


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_an_empty_table_is_saved_too(shape: tuple[int, int], tmp_path: Path) -> None:
    save_scores(Scores(np.zeros(shape), CAPTIONS[: shape[0]], CLIPS[: shape[1]]), tmp_path / "s.npy")
    assert np.load(tmp_path / "s.npy").shape == shape


def test_ids_that_are_numbers_are_text(tmp_path: Path) -> None:
    corpus = make_corpus(
        pl.DataFrame({"clip_id": ["7", "8"]}), pl.DataFrame({"caption_id": ["1"], "clip_id": ["7"], "text": ["x"]})
    )
    path = save(tmp_path / "s.npz", values=np.eye(1, 2), caption_ids=[1], video_ids=[8, 7])
    assert by_id(load_scores(path, corpus)) == {("1", "8"): 1.0, ("1", "7"): 0.0}


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    save_scores(MIXED, tmp_path / "s.npz")
    before = (tmp_path / "s.npz").read_bytes()

    class Broken(Scores):
        def block(self, captions: slice, videos: slice) -> NDArray[Any]:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        save_scores(Broken(VALUES, CAPTIONS, CLIPS), tmp_path / "s.npz")
    assert (tmp_path / "s.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]
    with pytest.raises(UsageError, match="ends neither in .npz nor in .npy"):
        save_scores(MIXED, tmp_path / "s.csv")
    with pytest.raises(ScoresError, match="The score of 'c1' and 'v2' is NaN"):
        save_scores(
            Scores(np.where(np.arange(12).reshape(4, 3) == 5, np.nan, 1.0), CAPTIONS, CLIPS), tmp_path / "s.npz"
        )
    assert (tmp_path / "s.npz").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        save_scores(MIXED, tmp_path / "file" / "s.npz")


def long_table(share: float = 1.0) -> pl.DataFrame:
    rows = [(caption, video, value) for (caption, video), value in EXPECTED.items()]
    np.random.default_rng(3).shuffle(rows)
    kept = rows[: int(len(rows) * share)]
    return pl.DataFrame(kept, schema=["caption_id", "clip_id", "score"], orient="row")


def test_lists_with_gaps_score_minus_infinity_and_say_so(corpus: Corpus, tmp_path: Path) -> None:
    table = long_table().filter((pl.col("caption_id") != "c2") & (pl.col("clip_id") != "v1"))
    table.write_parquet(tmp_path / "s.parquet")
    notices: list[str] = []
    found = load_scores(tmp_path / "s.parquet", corpus, notice=notices.append)
    expected = {pair: -np.inf if pair[0] == "c2" or pair[1] == "v1" else value for pair, value in EXPECTED.items()}
    assert by_id(found) == expected
    assert "list 50.0% of all pairs" in notices[0]
    assert "1 of 4 captions have no list" in notices[0]
    fewer = load_scores(tmp_path / "s.parquet", corpus, partial=True, notice=notices.append)
    assert list(fewer.caption_ids) == ["c0", "c1", "c3"]
    assert by_id(fewer) == {pair: value for pair, value in expected.items() if pair[0] != "c2"}


def test_blocks_of_lists_are_cut_from_the_whole() -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((7, 9)) < 0.5, rng.integers(-2, 3, (7, 9)), -np.inf)  # with scores of 0, kept as such
    rows, columns = np.nonzero(np.isfinite(dense))
    lists = ListedScores(rows, columns, dense[rows, columns], list("abcdefg"), list("123456789"))
    for captions, videos in [((0, 7), (0, 9)), ((2, 3), (0, 9)), ((0, 7), (4, 6)), ((1, 5), (3, 8)), ((3, 3), (0, 9))]:
        np.testing.assert_array_equal(
            lists.block(slice(*captions), slice(*videos)), dense[slice(*captions), slice(*videos)]
        )


def test_ids_of_captions_and_clips_alike_are_taken_by_their_names(tmp_path: Path) -> None:
    both = make_corpus(
        pl.DataFrame({"clip_id": ["a", "b"]}),
        pl.DataFrame({"caption_id": ["a", "b"], "clip_id": ["a", "b"], "text": ["x", "y"]}),
    )
    save_scores(Scores(np.array([[1, 2], [3, 4]]), ["b", "a"], ["a", "b"]), tmp_path / "s.npz")
    notices: list[str] = []
    found = by_id(load_scores(tmp_path / "s.npz", both, notice=notices.append))
    assert found["b", "a"] == 1
    assert "taken at their word" in notices[0]
    pl.DataFrame({"caption_id": ["a"], "clip_id": ["b"], "score": [5.0]}).write_parquet(tmp_path / "s.parquet")
    for queries in ("t2v", "v2t"):
        lists = load_scores(tmp_path / "s.parquet", both, queries=queries, notice=notices.append)  # type: ignore[arg-type]
        assert isinstance(lists, ListedScores)
        assert (by_id(lists)["a", "b"], lists.queries) == (5, queries)


@pytest.mark.parametrize("values", [np.full((2, 3), "x"), np.ones((2, 3)) + 1j, np.ones(3)])
def test_a_bank_that_holds_no_numbers_gets_a_sentence(values: NDArray[Any], tmp_path: Path) -> None:
    with pytest.raises(ScoresError, match="scores are numbers with two axes"):
        load_bank(save(tmp_path / "b.npz", values=values, video_ids=CLIPS), CLIPS)


def test_a_bank_knows_whose_captions_it_has(tmp_path: Path) -> None:
    bank = load_bank(save(tmp_path / "b.npz", values=np.ones((2, 3)), video_ids=CLIPS, caption_ids=["x", "c1"]), CLIPS)
    assert bank.caption_ids == ("x", "c1")
    assert bank.notice(["c0", "c1"]).startswith(
        "Of 2 captions of the bank 1 are captions that are evaluated, the first 'c1'"
    )
    assert bank.notice(["c0"]) == ""
    assert load_bank(save(tmp_path / "plain.npz", values=np.ones((2, 3)), video_ids=CLIPS), CLIPS).notice(["x"]) == ""


class Boom:
    def __reduce__(self) -> Any:
        raise AssertionError


Write = Callable[[Path], object]


def holding(data: bytes) -> Write:
    return lambda path: path.write_bytes(data)


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def npz(**changes: Any) -> Write:
    return lambda path: save(path, **{"values": VALUES, "caption_ids": CAPTIONS, "video_ids": CLIPS} | changes)


def table(columns: Any) -> Write:
    return lambda path: pl.DataFrame(columns).write_parquet(path)


def a_pair(**changes: Any) -> Write:
    return table({"caption_id": ["c0"], "clip_id": ["v0"], "score": [1.0]} | changes)


GAP = pl.when(pl.int_range(12) != 4).then(pl.col("caption_id"))
BAD_FILES: list[tuple[str, Write, str]] = [
    ("s.npy", holding(npy(VALUES.T)), "3 x 4, but .* lies the other way round"),
    ("s.npy", holding(npy(np.eye(5))), r"5 x 5, but the corpus has 4 captions and 3 clips .*split"),
    ("s.npy", holding(npy(np.arange(4.0))), r"shape \(4,\)"),
    ("s.npy", holding(npy(np.full((4, 3), "x"))), "two axes"),
    ("s.npy", holding(npy(VALUES + 1j)), "two axes"),
    ("s.npy", holding(npy(np.array([[{}]], dtype=object))), "holds Python objects, which are never read; save numbers"),
    ("s.npy", holding(pickle.dumps([1])), "is no .npy file, whatever its name: it begins with .*; save the matrix"),
    ("s.npy", holding(b"0.1,0.2,0.3\n0.3,0.1,0.2\n"), "whatever its name: it begins with '0.1,0.2,'; save the matrix"),
    ("s.npy", lambda p: save(p.with_suffix(".npz"), values=VALUES).rename(p), "is a zip file, .*; name it .npz"),
    ("s.npy", holding(npy(VALUES)[:-8]), "is cut short: 4 x 3 numbers of float64 .* take 224 bytes, and it has 216"),
    ("s.npy", holding(npy(VALUES)[:40]), "s.npy is cut short or damaged in its header; write it again"),
    ("s.npy", holding(b""), "s.npy is empty; write it again"),
    ("s.npz", lambda p: p.mkdir(), r"s.npz is a folder; name a file of scores \(npz, npy, parquet, csv or a run\)"),
    ("s.npz", npz(caption_ids=np.array(CAPTIONS).astype("S")), r"caption_ids .* \|S2 .*: save it with .astype\(str\)"),
    ("s.npz", holding(b"PK\x03\x04 what"), "cannot be read as .npz"),
    ("s.npz", lambda p: save(p, values=VALUES, video_ids=CLIPS), "no array 'caption_ids' .it has: values, video_ids."),
    ("s.npz", npz(values=VALUES.T), r"\(3, 4\) for 4 captions and 3 videos"),
    ("s.npz", npz(caption_ids=np.array(CAPTIONS, dtype=object)), r"as .npz .*save the ids with .astype\(str\)"),
    ("s.npz", npz(uses="other"), "array uses of .* must be a row of text"),
    ("s.npz", npz(uses=[0.5]), "array uses of .* must be a row of text"),
    ("s.npz", npz(caption_ids=[CAPTIONS]), "must be a row of text"),
    ("s.npz", npz(caption_ids=["c0", "c1", "zz", "c3"]), "'zz', which is no caption"),
    ("s.npz", npz(video_ids=["v0", "v1", "v9"]), "'v9', which is no clip"),
    ("s.npz", npz(caption_ids=["c0", "c1", "c1", "c3"]), "caption 'c1' twice"),
    ("s.csv", holding(b"1,2,3\n4,5\n"), "s.csv is no matrix of numbers .*; a row has a number for each clip"),
    ("s.csv", holding(b"caption_id,v0\nc0,high\n"), "Column 'v0' of .*s.csv is not full of numbers"),
    ("s.csv", holding(b"a,v0\n1,2\n1,2,3\n"), "s.csv cannot be read as a table"),
    ("s.parquet", holding(b"PAR1 no"), "cannot be read as Parquet"),
    ("s.parquet", table({"a": [1]}), "no column caption_id; it has: a"),
    ("s.parquet", table(pl.concat([long_table(), long_table().tail(1)])), "Row 13 of .* a second time"),
    ("s.parquet", table(long_table().with_columns(score=pl.lit(None, pl.Float64))), "Row 1 of .* no number"),
    ("s.parquet", table(long_table().with_columns(caption_id=GAP)), "Row 5 of .* has no caption_id"),
    ("s.parquet", table({"caption_id": ["c0", None], "v0": [1, 2]}), "Row 2 of .* has no caption_id"),
    ("s.parquet", a_pair(caption_id=[["c0"]]), "Column 'caption_id' of .* List.String.; it must hold one id a row"),
    ("s.parquet", a_pair(clip_id=[{"a": 1}]), "Column 'clip_id' of .* one id a row"),
    ("s.parquet", a_pair(score=[[1.0]]), "Column 'score' of .* must hold numbers"),
    ("s.parquet", a_pair(caption_id=[b"\xff"]), "Column 'caption_id' of .* no text"),
    ("s.parquet", table({"caption_id": CAPTIONS, "v0": ["a"] * 4}), "Column 'v0' of .* not full of numbers"),
    ("s.pt", holding(pickle.dumps(Boom)), "may be a pickle"),
    ("s.npz", endless_zeros, r"would unpack from .* KiB to 3\.0 GiB, .* without compression"),
    ("s.npz", lambda p: archive(p, values=claiming((2**21, 2**21))), r"float32, 16\.0 TiB, and has 0 bytes"),
    ("s.npy", holding(claiming((2**21, 2**21))), "cut short: .* take 17,592,186,044,544 bytes, and it has 128"),
    ("s.npz", lambda p: None, "There is no file"),
]


@pytest.mark.parametrize(("name", "write", "sentence"), BAD_FILES)
def test_what_does_not_fit_gets_a_sentence(
    name: str, write: Write, sentence: str, corpus: Corpus, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(ScoresError, match=sentence) as raised:
        load_scores(tmp_path / name, corpus)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)
