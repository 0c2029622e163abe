"""Scores, corpora and relevance of every kind: the figures are those of the records, and what does not fit says how."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import evenreel
from evenreel import audits
from evenreel.audits.edits import perturbed_notices
from evenreel.corpus import make_corpus, save_corpus, select
from evenreel.errors import EvenreelError, ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, as_scores, evaluate, fuse, load_scores, save_scores
from evenreel.evaluation.rescoring import rescore
from evenreel.evaluation.saving import write_run
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.each import of_each

CLIPS = [f"v{number}" for number in range(5)]
CAPTIONS = [f"c{number}" for number in range(8)]
OWN = [CLIPS[number % 5] for number in range(8)]
TABLE = {"caption_id": CAPTIONS, "clip_id": OWN, "text": [f"a ball number {number}" for number in range(8)]}
CORPUS = make_corpus({"clip_id": CLIPS}, TABLE)
VALUES = np.random.default_rng(0).integers(-40, 40, (8, 5)) / 8
"""Numbers that half precision and whole numbers of eighths hold exactly, some of them equal."""
FEW = EvaluationSettings(resamples=20)

wide = pd.DataFrame(VALUES, index=CAPTIONS, columns=CLIPS)
pairs = [
    (caption, clip, VALUES[row, column]) for row, caption in enumerate(CAPTIONS) for column, clip in enumerate(CLIPS)
]

by_pair = wide.rename_axis(index="qid", columns="docno").stack().rename("score").to_frame()
run = pd.DataFrame(pairs, columns=["qid", "docno", "score"])


class Place(os.PathLike[str]):
    """A path that is neither text nor pathlib's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def saved(name: str, make: Callable[[Any], Any] = str) -> Callable[[Path], Any]:
    """A file of the scores, named by `make`."""

    def save(folder: Path) -> Any:
        path = folder / name
        if path.suffix == ".parquet":
            pl.DataFrame(VALUES, schema=CLIPS).insert_column(0, pl.Series("caption_id", CAPTIONS)).write_parquet(path)
        elif path.suffix == ".run":
            write_run(Scores(VALUES, CAPTIONS, CLIPS), path)
        else:
            save_scores(Scores(VALUES, CAPTIONS, CLIPS), path)
        return make(path)

    return save


KINDS: dict[str, Any] = {
    "float32": VALUES.astype(np.float32),
    "float64": VALUES,
    "float16": VALUES.astype(np.float16),
    "whole numbers": (8 * VALUES).astype(np.int16),
    "columns first": np.asfortranarray(VALUES),
    "lists": VALUES.tolist(),
    "rows in a list": list(VALUES),
    "tensor": torch.tensor(VALUES),
    "tensor with gradients": torch.tensor(VALUES, requires_grad=True),
    "tensor of bfloat16": torch.tensor(VALUES).bfloat16(),
    "tensor of float16": torch.tensor(VALUES).half(),
    "tensor turned": torch.tensor(VALUES.T).T,
    "pandas without ids": pd.DataFrame(VALUES),
    "polars without ids": pl.DataFrame(VALUES),
    "pandas by index": wide,
    "pandas by index with a name": wide.rename_axis(index="caption_id"),
    "pandas by a column": wide.rename_axis(index="query").reset_index(),
    "pandas with a video a row": wide.T,
    "polars by a column": pl.DataFrame(VALUES, schema=CLIPS).with_columns(caption_id=pl.Series(CAPTIONS)),
    "LazyFrame": pl.LazyFrame(VALUES, schema=CLIPS).with_columns(name=pl.Series(CAPTIONS)),
    "pyarrow": pa.Table.from_pandas(wide),
    "pandas, a row a pair": pd.DataFrame(pairs, columns=["caption_id", "clip_id", "score"]),
    "pandas, a row a pair by index": by_pair,
    "polars, a row a pair": pl.DataFrame(pairs[::-1], schema=["query_id", "doc_id", "score"], orient="row"),
    "dictionaries": wide.to_dict(orient="index"),
    "arrays by name": {"values": torch.tensor(VALUES), "caption_ids": np.array(CAPTIONS), "video_ids": CLIPS},
    "npz that numpy has open": lambda folder: np.load(saved("s.npz")(folder)),
    "text of a path, npz": saved("s.npz"),
    "path, npy": saved("s.npy", Path),
    "path of another kind, parquet": saved("s.parquet", Place),
    "path, run": saved("s.run", Path),
    "record of a tensor": Scores(torch.tensor(VALUES), CAPTIONS, CLIPS),
}


def saved_corpus(folder: Path) -> str:
    save_corpus(CORPUS, folder / "corpus")
    return str(folder / "corpus")


def saved_csv(folder: Path) -> Path:
    pl.DataFrame(TABLE).write_csv(folder / "captions.csv")
    return folder / "captions.csv"


CORPORA: dict[str, Any] = {
    "record": CORPUS,
    "folder": saved_corpus,
    "csv": saved_csv,
    "pandas": pd.DataFrame(TABLE),
    "pandas that was filtered": pd.DataFrame(TABLE).iloc[::-1].sort_values("caption_id"),
    "pandas by an index with a name": pd.DataFrame(TABLE).set_index("caption_id"),
    "pandas with classes": pd.DataFrame(TABLE).astype({"clip_id": "category", "text": "category"}),
    "polars": pl.DataFrame(TABLE),
    "LazyFrame": pl.LazyFrame(TABLE),
    "columns": TABLE,
    "rows": pl.DataFrame(TABLE).to_dicts(),
    "other names": pd.DataFrame(TABLE).rename(columns={"clip_id": "video", "text": "caption"}),
    "two tables": {"clips": pd.DataFrame({"clip_id": CLIPS}), "captions": pl.DataFrame(TABLE)},
    "a table of captions by name": {"captions": pd.DataFrame(TABLE)},
}


def given_as(kinds: dict[str, Any], kind: str, folder: Path) -> Any:
    """One of the kinds; what lies in files is made in the folder."""
    return kinds[kind](folder) if callable(kinds[kind]) else kinds[kind]


def figures(found: evenreel.evaluation.Evaluation) -> dict[str, Any]:
    """All of an evaluation but its notices, which say how ids were had."""
    return {name: part for name, part in found.to_json(per_query=True).items() if name != "notices"}


WANTED = evaluate(Scores(VALUES, CAPTIONS, CLIPS), CORPUS, FEW)
EXPECTED = figures(WANTED)


@of_each(KINDS)
def test_scores_of_any_kind_have_the_figures_of_the_record(kind: str, tmp_path: Path) -> None:
    assert figures(evaluate(given_as(KINDS, kind, tmp_path), CORPUS, FEW)) == EXPECTED


def test_rows_and_columns_go_by_their_ids_in_any_order() -> None:
    rows, columns = np.random.default_rng(1).permutation(8), np.random.default_rng(2).permutation(5)
    record = Scores(VALUES[rows][:, columns], [CAPTIONS[row] for row in rows], [CLIPS[column] for column in columns])
    wanted = figures(evaluate(record, CORPUS, FEW))
    assert wanted["directions"]["t2v"]["per_query"]["id"] == record.caption_ids
    for table in (wide, wide.rename_axis(index="caption_id"), wide.rename_axis(index="video", columns="caption")):
        assert figures(evaluate(table.iloc[rows, columns], CORPUS, FEW)) == wanted


@of_each(CORPORA)
def test_a_corpus_of_any_kind_gives_the_figures_of_the_record(kind: str, tmp_path: Path) -> None:
    assert figures(evaluate(Scores(VALUES, CAPTIONS, CLIPS), given_as(CORPORA, kind, tmp_path), FEW)) == EXPECTED
    assert figures(evaluate(VALUES, given_as(CORPORA, kind, tmp_path), FEW)) == EXPECTED


@of_each(["lists", "tensor of bfloat16", "pandas by index", "pandas, a row a pair", "path, run"])
def test_audits_of_any_kind_have_the_figures_of_the_record(kind: str, tmp_path: Path) -> None:
    few = audits.AuditSettings(resamples=20)
    (found,) = evenreel.audit("hubness", given_as(KINDS, kind, tmp_path), pd.DataFrame(TABLE), few)
    (wanted,) = evenreel.audit("hubness", Scores(VALUES, CAPTIONS, CLIPS), CORPUS, few)
    assert (found.effect, found.sentence, found.tables) == (wanted.effect, wanted.sentence, wanted.tables)


def test_audits_of_edits_and_training_take_any_kind() -> None:
    record, other = Scores(VALUES, CAPTIONS, CLIPS), Scores(VALUES[:, ::-1], CAPTIONS, CLIPS)
    few = audits.AuditSettings(resamples=20)
    wanted = audits.audit_visual(record, CORPUS, few, edited={"hidden": other})
    for edited in (
        VALUES[:, ::-1],
        pd.DataFrame(VALUES[:, ::-1], index=CAPTIONS, columns=CLIPS).sample(frac=1, random_state=0),
    ):
        inputs = audits.AuditInputs(train=pd.DataFrame(TABLE), edited={"hidden": edited})
        (found,) = evenreel.audit("visual", VALUES, CORPUS, few, inputs)
        assert (found.effect, found.tables) == (wanted.effect, wanted.tables)
        assert isinstance(inputs.train, Corpus)
    measured = audits.measure_perturbed(VALUES, TABLE, {"hidden": wide}, few)
    (said,) = [one for one in perturbed_notices(measured, "") if "exactly where it was" in one]
    assert f"{len(CAPTIONS)} of {len(CAPTIONS)} captions" in said


def test_what_was_assumed_is_a_notice() -> None:
    assert any("names no ids" in one for one in evaluate(VALUES, CORPUS, FEW).notices)
    assert any("turned" in one for one in evaluate(wide.T, CORPUS, FEW).notices)
    (found,) = evenreel.audit("hubness", VALUES, CORPUS)
    assert any("names no ids" in one for one in found.notices)
    gaps = pd.DataFrame(pairs[:-5], columns=["caption_id", "clip_id", "score"])
    assert any("list 87.5% of all pairs" in one for one in evaluate(gaps, CORPUS, FEW).notices)
    (found,) = evenreel.audit("hubness", gaps, CORPUS)
    assert any("list 87.5% of all pairs" in one for one in found.notices)


def test_a_table_of_captions_says_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    silent = pd.DataFrame(TABLE).assign(text=[None, *TABLE["text"][1:]])
    found = evaluate(wide.iloc[1:], silent, FEW)
    assert any("1 rows of corpus have no text" in one for one in found.notices)
    with caplog.at_level(logging.WARNING):
        evenreel.audit("hubness", wide.iloc[1:], silent)
    assert "corpus: 1 rows of corpus have no text" in caplog.text


@of_each(["pandas by index", "polars by a column", "text of a path, npz", "arrays by name"])
def test_what_names_its_ids_needs_no_corpus(kind: str, tmp_path: Path) -> None:
    one = given_as(KINDS, kind, tmp_path)
    fused = fuse({"a": one, "b": Scores(VALUES**2, CAPTIONS, CLIPS)})
    wanted = fuse({"a": Scores(VALUES, CAPTIONS, CLIPS), "b": Scores(VALUES**2, CAPTIONS, CLIPS)})
    assert figures(evaluate(fused, CORPUS, FEW)) == figures(evaluate(wanted, CORPUS, FEW))
    save_scores(one, tmp_path / "kept.npz")
    assert figures(evaluate(tmp_path / "kept.npz", CORPUS, FEW)) == EXPECTED
    corrected = rescore("dsl", one, "t2v")
    wanted_too = rescore("dsl", Scores(VALUES, CAPTIONS, CLIPS), "t2v")
    assert figures(evaluate(corrected, CORPUS, FEW)) == figures(evaluate(wanted_too, CORPUS, FEW))


@of_each(
    ["lists", "tensor with gradients", "tensor of bfloat16", "float16", "pandas without ids", "polars without ids"]
)
def test_banks_of_any_kind_correct_alike(kind: str, tmp_path: Path) -> None:
    wanted = rescore("qb-norm", Scores(VALUES, CAPTIONS, CLIPS), "t2v", VALUES).values
    assert np.array_equal(rescore("qb-norm", wide, "t2v", given_as(KINDS, kind, tmp_path)).values, wanted)


def test_relevance_of_any_kind_gives_the_same_figures() -> None:
    degrees = (VALUES > 2).astype(float)
    degrees[np.arange(8), np.arange(8) % 5] = 1
    wanted = figures(evaluate(VALUES, CORPUS, FEW, relevance=degrees))
    by_ids = pd.DataFrame(degrees, index=CAPTIONS, columns=CLIPS).iloc[::-1, ::-1]
    tensor = torch.tensor(degrees, requires_grad=True)
    for relevance in (degrees.tolist(), tensor, tensor.bfloat16(), by_ids, pl.DataFrame(degrees), degrees > 0):
        assert figures(evaluate(VALUES, CORPUS, FEW, relevance=relevance)) == wanted
    with pytest.raises(ScoresError, match="lack 1 of 8 captions"):
        evaluate(VALUES, CORPUS, FEW, relevance=by_ids.iloc[1:])


@given(arrays(np.float64, st.tuples(st.shared(st.integers(2, 6), key="n"), st.shared(st.integers(2, 6), key="n")),
              elements=st.floats(-4, 4, width=16)))  # fmt: skip
def test_the_diagonal_is_the_corpus_in_which_each_row_is_of_its_column(values: np.ndarray) -> None:
    ids = [str(place) for place in range(len(values))]
    corpus = make_corpus({"clip_id": ids}, {"caption_id": ids, "clip_id": ids, "text": ids})
    asked = EvaluationSettings(metrics=("R@1", "MRR"), resamples=0)
    wanted = figures(evaluate(Scores(values, ids, ids), corpus, asked))
    found = figures(evaluate(values, settings=asked))
    assert found.pop("relevance") == "diagonal"
    assert wanted.pop("relevance") == "clip"
    assert found == wanted


def test_the_diagonal_goes_by_place_where_there_are_ids_too(tmp_path: Path) -> None:
    square = VALUES[:5]
    wanted = evaluate(square, settings=FEW)
    assert wanted.notices[0] == "5 queries × 5 clips; no corpus given, so clip i is taken as the answer of query i."
    np.save(tmp_path / "s.npy", square)
    np.savetxt(tmp_path / "s.csv", square, delimiter=",")
    table = pd.DataFrame(square, index=CAPTIONS[:5], columns=CLIPS)
    for one in (Scores(square, CAPTIONS[:5], CLIPS), table, torch.tensor(square), *map(str, tmp_path.iterdir())):
        found = evaluate(one, relevance="diagonal", settings=FEW)
        assert found.directions["t2v"].summary == wanted.directions["t2v"].summary


def test_rows_that_follow_each_other_are_the_captions_of_a_clip() -> None:
    values = np.random.default_rng(1).normal(size=(6, 3))
    names = {"caption_id": list("012345"), "clip_id": list("001122"), "text": list("abcdef")}
    wanted = evaluate(values, make_corpus({"clip_id": list("012")}, names), FEW)
    found = evaluate(values, settings=FEW, captions_per_clip=2)
    assert figures(found) | {"relevance": "clip"} == figures(wanted)
    assert "2 rows in turn are taken as the captions of a clip: clip i answers queries 2i to 2i + 1" in found.notices[0]


QRELS = pd.DataFrame({"query_id": CAPTIONS, "item_id": OWN, "relevance": 1})


def test_judgements_of_every_kind_are_the_corpus_that_they_say(tmp_path: Path) -> None:
    """Of captions or of clips, in any order, with pairs of no relevance among them."""
    by_query = {
        caption: {clip: 1, "v9": 0, CLIPS[0]: int(clip == "v0")} for caption, clip in zip(CAPTIONS, OWN, strict=True)
    }
    QRELS[::-1].to_csv(tmp_path / "q.csv", index=False)
    QRELS.rename(columns={"query_id": "query-id", "item_id": "corpus-id"}).to_csv(
        tmp_path / "q.tsv", index=False, sep="\t"
    )
    QRELS.rename(columns={"query_id": "item_id", "item_id": "query_id"}).to_parquet(tmp_path / "turned.parquet")
    (tmp_path / "q.json").write_text(json.dumps(by_query))
    (tmp_path / "q.txt").write_text(
        "# judged\n" + "".join(f"{one} 0 {OWN[row]} 1\n" for row, one in enumerate(CAPTIONS))
    )
    write_run(Scores(VALUES, CAPTIONS, CLIPS), tmp_path / "a.run")
    files = [path for path in tmp_path.iterdir() if path.suffix != ".run"]
    expected = EXPECTED | {"relevance": "qrels"}
    for judged in (*files, str(files[0]), by_query, QRELS, pl.DataFrame(QRELS)):
        assert figures(evaluate(Scores(VALUES, CAPTIONS, CLIPS), None, FEW, relevance=judged)) == expected
        assert figures(evaluate(VALUES, CORPUS, FEW, relevance=judged)) == expected
        assert means(evaluate(tmp_path / "a.run", None, FEW, relevance=judged)) == pytest.approx(means(WANTED))
    numbers = QRELS.assign(query_id=range(8), item_id=[CLIPS.index(one) for one in OWN])
    assert means(evaluate(VALUES, None, FEW, relevance=numbers)) == pytest.approx(means(WANTED))


def test_lists_are_measured_in_their_own_direction_unless_more_is_asked_for(tmp_path: Path) -> None:
    """As on the command line, which says so too."""
    write_run(Scores(VALUES, CAPTIONS, CLIPS), tmp_path / "a.run", depth=2)
    for found in (evaluate(tmp_path / "a.run", relevance=QRELS), evaluate(tmp_path / "a.run", CORPUS)):
        assert list(found.directions) == ["t2v"]
        assert any("list 40.0% of all pairs" in one for one in found.notices)
        assert "The lists are for t2v only, so v2t is left out; --direction or settings ask for it." in found.notices
    assert list(evaluate(tmp_path / "a.run", None, FEW, relevance=QRELS).directions) == ["t2v", "v2t"]


def means(found: evenreel.evaluation.Evaluation) -> list[float]:
    return found.to_frame()["value"].to_list()


def test_grades_are_degrees_and_the_highest_alone_is_an_answer() -> None:
    degrees = np.random.default_rng(2).integers(0, 4, VALUES.shape)
    degrees[np.arange(8), np.arange(8) % 5] = 3
    judged = {one: dict(zip(CLIPS, row.tolist(), strict=True)) for one, row in zip(CAPTIONS, degrees, strict=True)}
    asked = EvaluationSettings(metrics=("nDCG", "R@1"), resamples=0)
    found = evaluate(Scores(VALUES, CAPTIONS, CLIPS), None, asked, relevance=judged)
    wanted = evaluate(VALUES, CORPUS, asked, relevance=degrees / 3)
    assert [one.summary for one in found.directions.values()] == [one.summary for one in wanted.directions.values()]
    assert found.notices[1] == "Its grades go up to 3: nDCG has each as a gain, the others count 3 alone."


def test_a_query_without_a_list_has_found_nothing_and_one_without_a_judgement_does_not_count() -> None:
    lists = {"a": {"x": 2.0, "y": 1.0}, "c": {"x": 1.0}}
    found = evaluate(lists, None, FEW, relevance={"a": {"x": 1}, "b": {"z": 1}})
    assert (found.directions["t2v"].query_ids, found.directions["t2v"].without_relevant) == (["a", "b"], ("c",))
    assert (found.directions["t2v"].gallery_size, found.directions["t2v"].summary["R@1"].value) == (3, 50.0)


SPLIT = make_corpus({"clip_id": CLIPS, "split": ["test"] * 4 + ["train"]}, TABLE)
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: evaluate(VALUES.T, CORPUS), "scores is 5 x 8, .* it lies the other way round, so give its transpose"),
    (lambda: evaluate(torch.tensor(VALUES.T), CORPUS), "it lies the other way round, so give its transpose"),
    (lambda: evaluate(pd.DataFrame(VALUES.T), CORPUS), "it lies the other way round, so give its transpose"),
    (lambda: evaluate(np.vstack([VALUES, VALUES]), CORPUS), "give it the corpus, or the split, that it is of"),
    (lambda: evaluate(VALUES, select(SPLIT, split="test")), "scores is 8 x 5, but the corpus has 7 captions and 4 cl"),
    (lambda: evaluate(VALUES[None], CORPUS), r"float64 with the shape \(1, 8, 5\); scores are numbers with two axes"),
    (lambda: evaluate([["a"] * 5] * 8, CORPUS), "an array of <U1 with the shape .*; scores are numbers with two axes"),
    (lambda: evaluate([[1.0], [1.0, 2.0]], CORPUS), "no table of numbers .its rows differ in length.; give an array"),
    (lambda: evaluate(np.where(VALUES[2, 3] == VALUES, np.nan, VALUES), CORPUS), "is NaN, which has no place in a"),
    (lambda: evaluate(wide.mask(wide == VALUES[2, 3]), CORPUS), "of scores is not full of numbers"),
    (lambda: evaluate(run.assign(score=None), CORPUS), r"Row 1 of scores has no number for a score \('c0', 'v0'\)"),
    (lambda: evaluate(wide.rename(index={"c1": "c0"}), CORPUS), "scores names the caption 'c0' twice"),
    (lambda: evaluate(wide.rename(columns={"v1": "v0"}), CORPUS), "cannot be read .Duplicate column names found"),
    (lambda: evaluate(pd.concat([run, run[:1]]), CORPUS), "Row 41 of scores"),
    (lambda: evaluate(wide.rename(index={"c1": "x"}), CORPUS), "which is no caption of the corpus; its first is 'c0'"),
    (lambda: evaluate(wide.reset_index(drop=True), CORPUS), "has no column caption_id; it has: v0, .*; name its rows"),
    (lambda: evaluate(wide.assign(notes="good", kind="b"), CORPUS), "Column 'notes' of scores is not full of numbers"),
    (lambda: evaluate({"c0": {"v0": "high"}}, CORPUS), r"scores\['c0'\]\['v0'\] is 'high'; a score is a number."),
    (lambda: evaluate({"c0": {"x": 1.0}}, CORPUS), "Row 1 of scores names 'x', which is no clip of the corpus"),
    (lambda: save_scores(VALUES, "s.npz"), "without ids; give a corpus too, or scores with their ids"),
    (lambda: fuse({"a": wide, "b": run}), r"systems\['b'\] has a row a pair, .*; give its corpus too: as_scores"),
    (lambda: as_scores("s.run"), "There is no file s.run"),
    (lambda: evaluate(VALUES, relevance="qrels.txt"), "'qrels.txt' is no kind of relevance and no file of judgements"),
    (lambda: evaluate(VALUES, relevance=Path("q.txt")), "There is no file q.txt of judgements to read"),
    (lambda: evaluate(VALUES, relevance={"x": {"y": 1}}), "relevance judges 'y' for 'x', and nothing that has scores"),
    (lambda: evaluate(VALUES, relevance={"x": {"y": 0}}), "relevance judges no pair relevant"),
    (
        lambda: evaluate(VALUES, relevance={"x": {"y": "?"}}),
        r"Pair 1 of relevance has the grade '\?'; a grade is a num",
    ),
    (lambda: evaluate(VALUES, relevance="text"), "corpus is None, and the relevance 'text' needs one; give a Corpus"),
    (lambda: evaluate(VALUES, captions_per_clip=0), "captions_per_clip is 0; it must be a whole number, at least 1"),
    (lambda: evaluate(VALUES, captions_per_clip=3), "is the diagonal of 3 rows for each column, a caption a row"),
    (lambda: evaluate(VALUES, CORPUS, captions_per_clip=2), "The corpus says what belongs together; leave it out"),
    (lambda: evaluate(VALUES, relevance=QRELS, captions_per_clip=2), "The judgements say which captions a clip has"),
    (lambda: evaluate(Scores(VALUES[:2, :2], ["a", "b"], ["b", "a"])), "same ids for rows and columns in two orders"),
    (lambda: evaluate({"a": {"b": 1.0}}), "scores lists pairs and says not what answers what; give --qrels FILE or"),
    (
        lambda: evenreel.audit("visual", VALUES, CORPUS, inputs=audits.AuditInputs(edited={"a": VALUES.T})),
        r"edited\['a'\] is 5 x 8, but the corpus has 8 captions and 5 clips",
    ),
    (lambda: evaluate(VALUES), "scores is 8 × 5, and without a corpus the truth is the diagonal of a square matrix, a"),
    (lambda: evaluate(VALUES.repeat(5, 0)), r"\(in Python .*\), or --captions-per-clip 8 if so many rows in turn are"),
    (lambda: evaluate(VALUES, CORPUS, relevance="diagonal"), "The corpus says what belongs together; leave it out, or"),
    (lambda: evaluate(VALUES, pd.DataFrame({"text": TABLE["text"]})), "corpus has none of the columns clip_id, video_"),
    (lambda: evaluate(VALUES, TABLE["text"]), "corpus is a list; give a Corpus, the path of one, or a table of captio"),
    (
        lambda: evaluate(VALUES, {"clips": {"clip_id": CLIPS[1:]}, "captions": TABLE}),
        "Row 1 of captions, column clip_id, names 'v0', which is no clip",
    ),
    (lambda: evaluate(VALUES, {"clips": 3, "captions": TABLE}), r"corpus\['clips'\] is 3; give a table."),
    (
        lambda: evaluate(VALUES, pd.DataFrame(TABLE).assign(text=[1, "a"] * 4)),
        "corpus is a DataFrame that cannot be read .Could not convert 'a' with type str",
    ),
]


@of_each(WRONG, name=lambda case: case[1])
def test_hazard_191_what_does_not_fit_is_told_in_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(EvenreelError, match=words) as raised:
        call()
    assert not any("\n" in sentence for sentence in raised.value.args)


def test_a_library_that_lacks_another_one_is_named() -> None:
    class Table:
        columns = ("a",)

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    class OldTable:
        columns = ("a",)

        def __dataframe__(self) -> object:
            raise AssertionError("is not asked")

    with pytest.raises(
        UsageError, match="scores is a Table, whose library needs pyarrow to hand it over; install that"
    ):
        evaluate(Table(), CORPUS)
    with pytest.raises(UsageError, match="its library is too old to hand it over by Arrow; pandas does so from 2"):
        evaluate(OldTable(), CORPUS)


def test_records_stay_what_they_are() -> None:
    record = Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(("other queries",)))
    assert as_scores(record) is record
    assert as_scores(record, CORPUS) is record
    assert evenreel.corpus.as_corpus(CORPUS) is CORPUS


def test_a_table_that_pandas_wrote_to_parquet_has_its_index_for_ids(tmp_path: Path) -> None:
    wide.to_parquet(tmp_path / "s.parquet")
    assert figures(evaluate(load_scores(tmp_path / "s.parquet", CORPUS), CORPUS, FEW)) == EXPECTED


def test_tables_of_other_libraries_are_taken_without_importing_these() -> None:
    code = (
        "import sys, evenreel\n"
        "early = {'torch', 'polars', 'pandas', 'pyarrow', 'numpy', 'scipy'} & set(sys.modules)\n"
        "found = evenreel.evaluate([[0.9, 0.1], [0.5, 0.5]], {'clip_id': ['a', 'b'], 'text': ['a ball', 'a box']})\n"
        "late = {'torch', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "print(early, late, found.directions['t2v'].summary['R@1'].value)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "set() set() 75.0", done.stderr
