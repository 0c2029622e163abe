"""Relevance against slow loops over sets, hand-worked cases and the figures of EPIC-KITCHENS-100."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import class_relevance, make_corpus, own_clip, same_text
from evenreel.corpus.relevance import ClassRelevance, Relevance, sparse_sets
from evenreel.errors import CorpusError, UsageError
from evenreel.types import Corpus

Sets = list[list[int]]
SETS = st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=7)


def whole(relevance: Relevance) -> np.ndarray:
    rows, columns = relevance.shape
    return relevance.block(slice(0, rows), slice(0, columns))


def iou(first: list[int], second: list[int]) -> float:
    one, two = set(first), set(second)
    return len(one & two) / len(one | two) if one | two else 0.0


def equal(first: list[int], second: list[int]) -> float:
    return float(set(first) == set(second) and bool(first))


def classes(verbs: Sets, nouns: Sets) -> Corpus:
    """A clip and a caption for each pair of sets, the caption `q0` of the clip `v0` and so on."""
    table = pl.DataFrame(
        {"verb_classes": verbs, "noun_classes": nouns},
        schema={"verb_classes": pl.List(pl.Int32), "noun_classes": pl.List(pl.Int32)},
    )
    ids = [str(number) for number in range(len(verbs))]
    return make_corpus(
        table.with_columns(clip_id=pl.Series([f"v{one}" for one in ids])),
        table.with_columns(
            caption_id=pl.Series([f"q{one}" for one in ids]),
            clip_id=pl.Series([f"v{one}" for one in ids]),
            text=pl.lit("a caption"),
        ),
    )


def test_the_toy_case_of_the_definition() -> None:
    """Captions cut tomato, cut chicken, take plate: of cut tomato they are 1, one half and 0."""
    corpus = classes(verbs=[[0], [0], [1]], nouns=[[0], [1], [2]])
    found = class_relevance(corpus, ["q0"], ["v0", "v1", "v2"])
    assert whole(found).tolist() == [[1.0, 0.5, 0.0]]
    assert whole(class_relevance(corpus, ["q2", "q0"], ["v2", "v0"], "iou")).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_what_is_not_in_the_corpus_has_no_classes_where_that_is_allowed() -> None:
    corpus = classes(verbs=[[0], [1]], nouns=[[1], [1]])
    assert whole(class_relevance(corpus, ["q9", "q0"], ["v0", "v9", "v1"], unknown="empty")).tolist() == [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.5],
    ]
    with pytest.raises(CorpusError, match="'v9' is no clip_id of the corpus"):
        class_relevance(corpus, ["q0"], ["v0", "v9"])


@given(SETS, st.lists(st.integers(0, 6), max_size=5), st.lists(st.integers(0, 6), max_size=5))
def test_rows_by_number_are_those_of_the_whole(sets: Sets, captions: list[int], videos: list[int]) -> None:
    """In any order, and several times."""
    table = sparse_sets(sets, 7)
    relevance = ClassRelevance(table, table, table, table, "iou")
    rows, columns = (np.array([one % len(sets) for one in picked], np.int64) for picked in (captions, videos))
    np.testing.assert_array_equal(relevance.block(rows, columns), whole(relevance)[np.ix_(rows, columns)])


def test_the_two_verb_forms_differ_where_a_clip_has_two_verbs() -> None:
    corpus = classes(verbs=[[0], [0, 1]], nouns=[[3], [3, 4, 5]])
    assert whole(class_relevance(corpus, ["q0"], ["v1"], "equal"))[0, 0] == (0 + 1 / 3) / 2
    assert whole(class_relevance(corpus, ["q0"], ["v1"], "iou"))[0, 0] == (1 / 2 + 1 / 3) / 2


def test_the_numbers_of_classes_may_be_huge() -> None:
    corpus = classes(verbs=[[2**31 - 1], [7]], nouns=[[2**31 - 1, 5], [5]])
    found = class_relevance(corpus, ["q0"], ["v0", "v1"])
    assert whole(found).tolist() == [[1.0, 0.25]]
    assert found.caption_verbs.shape[1] == found.video_nouns.shape[1] == 2


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="There is no form 'IoU' of the verbs' half; choose equal or iou"):
        class_relevance(classes([[0]], [[0]]), ["q0"], ["v0"], "IoU")  # type: ignore[arg-type]


def test_two_empty_sets_agree_in_nothing() -> None:
    corpus = classes(verbs=[[], [1]], nouns=[[2], []])
    for form in ("equal", "iou"):
        found = whole(class_relevance(corpus, ["q0", "q1"], ["v0", "v1"], form))
        assert found.tolist() == [[0.5, 0.0], [0.0, 0.5]]


@given(SETS, st.data(), st.sampled_from(["equal", "iou"]))
def test_classes_agree_with_slow_loops(verbs: Sets, data: st.DataObject, form: str) -> None:
    """Also where a list names a class twice: a set has it once."""
    same = {"min_size": len(verbs), "max_size": len(verbs)}
    nouns = data.draw(st.lists(st.lists(st.integers(0, 6), max_size=5), **same))
    agree = {"equal": equal, "iou": iou}[form]
    expected = [
        [(agree(v, w) + iou(n, m)) / 2 for w, m in zip(verbs, nouns, strict=True)]
        for v, n in zip(verbs, nouns, strict=True)
    ]
    count = len(verbs)
    tables = (sparse_sets(verbs, 7), sparse_sets(nouns, 7)) * 2
    found = whole(ClassRelevance(*tables, verbs=form))
    np.testing.assert_allclose(found, np.array(expected), rtol=0, atol=1e-15)
    if any(verbs) or any(nouns):
        ids = range(count)
        corpus = classes(verbs, nouns)
        through = class_relevance(corpus, [f"q{i}" for i in ids], [f"v{i}" for i in ids], form)
        np.testing.assert_array_equal(whole(through), found)


@given(SETS, SETS, st.integers(1, 4), st.integers(1, 4))
def test_blocks_of_any_size_equal_the_whole(first: Sets, second: Sets, height: int, width: int) -> None:
    queries, videos = sparse_sets(first, 7), sparse_sets(second, 7)
    relevance = ClassRelevance(queries, queries, videos, videos, "iou")
    rows, columns = relevance.shape
    stitched = np.block(
        [
            [
                relevance.block(slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
                for j in range(0, columns, width)
            ]
            for i in range(0, rows, height)
        ]
    )
    np.testing.assert_array_equal(stitched, whole(relevance))
    assert stitched.shape == (len(first), len(second))


@given(st.permutations(range(4)))
def test_rows_follow_the_ids(order: list[int]) -> None:
    corpus = classes(verbs=[[0], [0, 1], [2], [3]], nouns=[[1], [1, 2], [2], []])
    plain = whole(class_relevance(corpus, [f"q{i}" for i in range(4)], [f"v{i}" for i in range(4)]))
    moved = whole(class_relevance(corpus, [f"q{i}" for i in order], [f"v{i}" for i in order]))
    np.testing.assert_array_equal(moved, plain[np.ix_(order, order)])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", " x", "X"])), min_size=1, max_size=8))
def test_plain_relevance_agrees_with_slow_loops(rows: list[tuple[str, str]]) -> None:
    corpus = make_corpus(
        pl.DataFrame({"clip_id": ["a", "b", "c", "d"]}),
        pl.DataFrame(
            {
                "caption_id": [str(number) for number in range(len(rows))],
                "clip_id": [clip for clip, _ in rows],
                "text": [text for _, text in rows],
            }
        ),
    )
    ids = [str(number) for number in range(len(rows))]
    own = [[float(clip == video) for video in "abd"] for clip, _ in rows]
    assert whole(own_clip(corpus, ids, list("abd"))).tolist() == own
    shared = [
        [float(any(clip == v and other.strip() == text.strip() for clip, other in rows)) for v in "abc"]
        for _, text in rows
    ]
    assert whole(same_text(corpus, ids, list("abc"))).tolist() == shared


@pytest.mark.parametrize("relevance", [own_clip, same_text, class_relevance])
def test_an_unknown_id_is_named(relevance: object) -> None:
    corpus = classes([[0]], [[0]])
    with pytest.raises(CorpusError, match=r"'q9' is no caption_id of the corpus \(2 unknown in all\)"):
        relevance(corpus, ["q0", "q9", "q8"], ["v0"])
    with pytest.raises(CorpusError, match=r"'v9' is no clip_id of the corpus \(1 unknown in all\)"):
        relevance(corpus, ["q0"], ["v9"])


def test_no_classes_at_all_is_an_error() -> None:
    texts = make_corpus({"clip_id": ["a"]}, {"caption_id": ["1"], "clip_id": ["a"], "text": ["a dog runs"]})
    with pytest.raises(CorpusError, match="None of the captions has verb or noun classes"):
        class_relevance(texts, ["1"], ["a"])
    with_captions = make_corpus(texts.clips, texts.captions.with_columns(verb_classes=pl.lit([1])))
    with pytest.raises(CorpusError, match="None of the clips has verb or noun classes"):
        class_relevance(with_captions, ["1"], ["a"])


def test_the_official_kitchen_test_set(shared_data: Path) -> None:
    """9,668 clips by 3,842 captions: 11.4 % not zero, 0.17 % equal to 1, 30 clips whose own caption is not.

    A caption has the classes of the row that its narration id names; a clip's own caption is that of its words.
    """
    folder = shared_data / "epic_kitchens_100"
    rows = pl.read_csv(folder / "EPIC_100_retrieval_test.csv").select(
        "narration",
        clip_id="narration_id",
        verb_classes=pl.concat_list("verb_class"),
        noun_classes=pl.Series([ast.literal_eval(one) for one in _column(folder, "all_noun_classes")]),
    )
    sentences = pl.read_csv(folder / "EPIC_100_retrieval_test_sentence.csv").select(clip_id="narration_id")
    captions = sentences.join(rows, on="clip_id", how="left", maintain_order="left").rename({"narration": "text"})
    corpus = make_corpus(rows.drop("narration"), captions.with_columns(caption_id="clip_id"))
    relevance = class_relevance(corpus, captions["clip_id"].to_list(), rows["clip_id"].to_list())
    assert relevance.shape == (3842, 9668)
    values = whole(relevance)
    assert round((values > 0).mean(), 3) == 0.114
    assert round((values == 1).mean(), 4) == 0.0017
    assert (values == 1).any(axis=0).all()
    assert (values == 1).any(axis=1).all()
    first = {text: place for place, text in reversed(list(enumerate(captions["text"])))}
    own = [values[first[text], place] for place, text in enumerate(rows["narration"])]
    assert sum(value < 1 for value in own) == 30


def _column(folder: Path, name: str) -> list[str]:
    return pl.read_csv(folder / "EPIC_100_retrieval_test.csv", columns=[name])[name].to_list()
