"""Every rule of a corpus with the sentence that says what broke it, and parts of a corpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.corpus import make_corpus, select, split_corpus
from evenreel.corpus.tables import CAPTION_COLUMNS, CLIP_COLUMNS
from evenreel.errors import CorpusError
from evenreel.types import Corpus

NO_CAPTIONS = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})


def clips(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"clip_id": ["a", "b", "c"], **columns})


def captions(clip_ids: list[str | None], **columns: object) -> pl.DataFrame:
    count = len(clip_ids)
    return pl.DataFrame(
        {
            "caption_id": [f"q{i}" for i in range(count)],
            "clip_id": clip_ids,
            "text": ["a ball rolls"] * count,
            **columns,
        }
    )


def sentences(clip_table: pl.DataFrame, caption_table: pl.DataFrame = NO_CAPTIONS) -> list[str]:
    with pytest.raises(CorpusError) as caught:
        make_corpus(clip_table, caption_table)
    return str(caught.value).splitlines()


def test_standard_columns_come_first_and_own_columns_stay() -> None:
    corpus = make_corpus(clips(camera=["x", "y", "z"], fps=[25, 30, 50]), captions(["a"], annotator=[7]))
    assert corpus.clips.columns == [*CLIP_COLUMNS, "camera"]
    assert corpus.captions.columns == [*CAPTION_COLUMNS, "annotator"]
    assert corpus.clips["camera"].to_list() == ["x", "y", "z"]
    assert corpus.captions["annotator"].to_list() == [7]


def test_columns_are_cast_to_their_types() -> None:
    corpus = make_corpus(
        pl.DataFrame({"clip_id": [1, 2], "fps": ["25", "29.97"], "verb_classes": [[1, 2], None]}),
        pl.DataFrame({"caption_id": [10], "clip_id": [2], "text": ["a ball"]}),
    )
    assert corpus.clips["clip_id"].to_list() == ["1", "2"]
    assert corpus.clips["fps"].to_list() == [25.0, 29.97]
    assert corpus.clips["verb_classes"].to_list() == [[1, 2], None]
    assert dict(corpus.clips.schema) == CLIP_COLUMNS
    assert dict(corpus.captions.schema) == CAPTION_COLUMNS


def test_clips_without_captions_are_a_corpus() -> None:
    assert make_corpus(clips(), NO_CAPTIONS).captions.height == 0


NAN, INF = float("nan"), float("inf")
BROKEN_CLIPS: list[tuple[pl.DataFrame, str]] = [
    (pl.DataFrame({"clip_id": ["a", None, "c"]}), "Row 2 of clips, column clip_id, is empty; give it a value or drop"),
    (pl.DataFrame({"clip_id": ["a", "b", "  "]}), "Row 3 of clips, column clip_id, is empty; give it a value or drop"),
    (
        pl.DataFrame({"clip_id": ["a", "b", "a"]}),
        "Row 3 of clips, column clip_id, is 'a' as in row 1; every clip_id is",
    ),
    (clips(start_s=[0.0, -1.0, 0.0]), "Row 2 of clips, column start_s, is -1.0; a time is 0 or more seconds."),
    (clips(start_s=[0.0, NAN, 0.0]), "Row 2 of clips, column start_s, is nan; a time is 0 or more seconds."),
    (clips(end_s=[1.0, 2.0, INF]), "Row 3 of clips, column end_s, is inf; a time is 0 or more seconds."),
    (
        clips(start_s=[0.0, 5.0, 0.0], end_s=[1.0, 5.0, 1.0]),
        "Row 2 of clips, column end_s, is 5.0, not after its start",
    ),
    (clips(frame_count=[1, 0, 1]), "Row 2 of clips, column frame_count, is 0; it must be more than 0."),
    (clips(fps=[25.0, 25.0, -1.0]), "Row 3 of clips, column fps, is -1.0; it must be more than 0."),
    (clips(fps=[INF, 25.0, 25.0]), "Row 1 of clips, column fps, is inf; it must be more than 0."),
    (clips(fps=[NAN, 25.0, 25.0]), "Row 1 of clips, column fps, is nan; it must be more than 0."),
    (clips(fps=["25", "fast", "30"]), "Row 2 of clips, column fps, is 'fast'; it must be a number."),
    (clips(frame_count=[1.0, 2.5, None]), "Row 2 of clips, column frame_count, is 2.5; it must be a whole number."),
    (clips(frame_count=["1", "2", "x"]), "Row 3 of clips, column frame_count, is 'x'; it must be a whole number."),
]
BROKEN_CAPTIONS: list[tuple[pl.DataFrame, str]] = [
    (captions(["a", "d"]), "Row 2 of captions, column clip_id, names 'd', which is no clip; add the clip or drop the"),
    (captions(["a", None]), "Row 2 of captions, column clip_id, is empty; give it a value or drop the row."),
    (captions(["a", "b"]).with_columns(text=pl.Series(["x", " "])), "Row 2 of captions, column text, is empty; give"),
    (captions(["a", "b"]).with_columns(caption_id=pl.lit("x")), "Row 2 of captions, column caption_id, is 'x' as in"),
]


@pytest.mark.parametrize(
    ("both", "sentence"),
    [((table, NO_CAPTIONS), said) for table, said in BROKEN_CLIPS]
    + [((clips(), table), said) for table, said in BROKEN_CAPTIONS],
)
def test_what_is_broken_is_named_by_row_and_column(both: tuple[pl.DataFrame, pl.DataFrame], sentence: str) -> None:
    (found,) = sentences(*both)
    assert found.startswith(sentence) and found.endswith(".")


def test_a_missing_column_is_named_with_those_there_are() -> None:
    assert sentences(pl.DataFrame({"video": ["a"]})) == ["The table clips has no column clip_id; it has: video."]
    assert sentences(clips(), pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"]})) == [
        "The table captions has no column text; it has: caption_id, clip_id."
    ]


def test_a_corpus_has_a_clip() -> None:
    assert sentences(pl.DataFrame(schema={"clip_id": pl.String})) == [
        "The table clips has no row; a corpus needs at least one clip."
    ]


@pytest.mark.parametrize("kind", ["verb_classes", "noun_classes"])
@pytest.mark.parametrize("wrong", [[-1], [3, None], [0, -7]])
def test_a_class_is_0_or_more(kind: str, wrong: list[int | None]) -> None:
    [of_clip] = sentences(clips(**{kind: [[0], None, wrong]}))
    assert of_clip == f"Row 3 of clips, column {kind}, is {wrong}; a class is a whole number of 0 or more."
    [of_caption] = sentences(clips(), captions(["a", "b"], **{kind: [wrong, []]}))
    assert of_caption == f"Row 1 of captions, column {kind}, is {wrong}; a class is a whole number of 0 or more."


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("start_s", [{"s": 1}, None, None], "a number"),
        ("fps", [[1.0], None, None], "a number"),
        ("frame_count", [{"n": 1}, None, None], "a whole number"),
        ("path", [{"file": "a"}, None, None], "text"),
        *(
            ("verb_classes", values, "a list of whole numbers")
            for values in (
                ["cut", "take", "put"], [{"n": 1}, None, None], [[1.5], [2.0], [3.0]], [["cut"], ["eat"], []],
                [[{"a": 1}], [], []], [[[1]], [], []],
            )
        ),
    ],
)  # fmt: skip
def test_values_that_a_cast_would_change_are_refused(column: str, values: list[Any], what: str) -> None:
    [sentence] = sentences(clips(**{column: values}))
    assert sentence.startswith(f"Column {column} of clips holds ")
    assert sentence.endswith(f"; it must be {what}.")


def test_a_real_clip_that_is_not_there_may_be_named() -> None:
    """A saved selection of generated clips alone is a corpus."""
    assert make_corpus(clips(pair_id=["gone", None, None]), NO_CAPTIONS).clips["pair_id"][0] == "gone"


def test_every_broken_rule_has_a_sentence_up_to_a_limit() -> None:
    table = pl.DataFrame({"clip_id": ["same"] * 50, "fps": [-1.0] * 50})
    found = sentences(table)
    assert len(found) == 21
    assert found[-1] == "... and 79 more."  # 49 repeated ids and 50 rates, of which 20 are shown
    assert sentences(pl.DataFrame({"clip_id": ["same"] * 3000}))[-1] == "... and 2,979 more."
    both = sentences(clips(fps=[0.0, 1.0, 1.0]), captions(["z"]))
    assert [line.split(",")[0] for line in both] == ["Row 1 of captions", "Row 1 of clips"]


BUSY = settings(suppress_health_check=[HealthCheck.too_slow])  # other work may take the machine
IDS = st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=8, unique=True)
CLASSES = st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    clip_ids = draw(IDS)
    start = draw(st.lists(st.floats(0, 1e6), min_size=len(clip_ids), max_size=len(clip_ids)))
    length = draw(st.lists(st.none() | st.floats(0.5, 1e6), min_size=len(clip_ids), max_size=len(clip_ids)))
    clip_table = {
        "clip_id": clip_ids,
        "start_s": start,
        "end_s": [None if more is None else first + more for first, more in zip(start, length, strict=True)],
        "verb_classes": [draw(CLASSES) for _ in clip_ids],
    }
    caption_ids = draw(IDS)
    caption_table = {
        "caption_id": caption_ids,
        "clip_id": [draw(st.sampled_from(clip_ids)) for _ in caption_ids],
        "text": [draw(st.text(min_size=1).filter(str.strip)) for _ in caption_ids],
    }
    schema = {"end_s": pl.Float64, "verb_classes": pl.List(pl.Int64)}
    return pl.DataFrame(clip_table, schema_overrides=schema), pl.DataFrame(caption_table)


@BUSY
@given(tables())
def test_a_valid_corpus_passes_and_is_kept_as_it_is(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    clip_table, caption_table = both
    corpus = make_corpus(clip_table, caption_table)
    for column in clip_table.columns:
        assert corpus.clips[column].to_list() == clip_table[column].to_list()
    for column in caption_table.columns:
        assert corpus.captions[column].to_list() == caption_table[column].to_list()
    again = make_corpus(corpus.clips, corpus.captions)
    assert again.clips.equals(corpus.clips)
    assert again.captions.equals(corpus.captions)


@BUSY
@given(tables(), st.data())
def test_a_repeated_or_unknown_id_never_passes(both: tuple[pl.DataFrame, pl.DataFrame], data: st.DataObject) -> None:
    clip_table, caption_table = both
    row = data.draw(st.integers(0, caption_table.height - 1))
    stranger = "".join(clip_table["clip_id"]) + "x"
    ids = caption_table["clip_id"].to_list()
    assert f"Row {row + 1} of captions, column clip_id" in str(
        sentences(clip_table, caption_table.with_columns(clip_id=pl.Series([*ids[:row], stranger, *ids[row + 1 :]])))
    )
    assert "every clip_id is unique" in str(sentences(pl.concat([clip_table, clip_table.tail(1)]), caption_table))


@pytest.fixture
def corpus() -> Corpus:
    return make_corpus(
        pl.DataFrame(
            {
                "clip_id": ["a", "b", "c", "d"],
                "split": ["train", "test", "train", None],
                "source": ["camera", "camera", "model", "model"],
            }
        ),
        pl.DataFrame({"caption_id": list("12345"), "clip_id": list("abbca"), "text": "a ball"}),
    )


def ids(corpus: Corpus) -> tuple[list[str], list[str]]:
    return corpus.clips["clip_id"].to_list(), corpus.captions["caption_id"].to_list()


def test_a_split_comes_with_its_captions_in_their_order(corpus: Corpus) -> None:
    assert ids(select(corpus, split="train")) == (["a", "c"], ["1", "4", "5"])
    assert ids(select(corpus, split="test")) == (["b"], ["2", "3"])


def test_a_condition_and_a_split_both_hold(corpus: Corpus) -> None:
    assert ids(select(corpus, where=pl.col("source") == "model")) == (["c", "d"], ["4"])
    assert ids(select(corpus, split="train", where=pl.col("source") == "model")) == (["c"], ["4"])
    assert ids(select(corpus)) == ids(corpus)


def test_nothing_left_is_an_error_that_lists_the_splits(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match=r"No clip is left \(split 'val'\); the splits are: test, train\."):
        select(corpus, split="val")
    with pytest.raises(CorpusError, match=r"No clip is left \(condition [^,]*\); the splits are"):
        select(corpus, where=pl.col("source") == "drone")
    with pytest.raises(CorpusError, match=r"No clip is left \(split 'test', condition .*\); the splits are"):
        select(corpus, split="test", where=pl.col("source") == "drone")
    no_splits = make_corpus(pl.DataFrame({"clip_id": ["a"]}), corpus.captions.head(0))
    with pytest.raises(CorpusError, match="the splits are: none"):
        select(no_splits, split="train")


def test_an_unknown_column_is_an_error(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match="cannot be selected by"):
        select(corpus, where=pl.col("weather") == "rain")


def many(videos: int, clips_each: int = 1) -> Corpus:
    rows = [(f"{v}-{c}", f"{v}.mp4") for v in range(videos) for c in range(clips_each)]
    table = pl.DataFrame(rows, schema=["clip_id", "path"], orient="row")
    captions = pl.DataFrame({"caption_id": table["clip_id"], "clip_id": table["clip_id"], "text": "a ball"})
    return make_corpus(table, captions)


@given(
    st.integers(1, 30),
    st.integers(1, 4),
    st.lists(st.integers(0, 10), min_size=1, max_size=4).filter(any),
    st.integers(0, 2**32 - 1),
)
def test_splits_keep_videos_whole_and_their_shares(videos: int, clips_each: int, parts: list[int], seed: int) -> None:
    shares = {f"part {number}": part / sum(parts) for number, part in enumerate(parts)}
    corpus = many(videos, clips_each)
    found = split_corpus(corpus, shares, seed)
    assert found.clips.drop("split").equals(corpus.clips.drop("split"))
    of_video = defaultdict(set)
    for path, split in found.clips.select("path", "split").iter_rows():
        of_video[path].add(split)
    assert all(len(splits) == 1 for splits in of_video.values())
    counts = Counter(next(iter(splits)) for splits in of_video.values())
    assert sum(counts.values()) == videos
    assert set(counts) <= set(shares)
    for name, share in shares.items():
        assert abs(counts[name] - share * videos) <= 1


def test_the_seed_alone_decides() -> None:
    corpus, shares = many(200), {"train": 0.8, "test": 0.2}
    first = split_corpus(corpus, shares, 7).clips["split"]
    assert first.equals(split_corpus(corpus, shares, 7).clips["split"])
    assert not first.equals(split_corpus(corpus, shares, 8).clips["split"])
    assert Counter(first) == {"train": 160, "test": 40}


def test_a_clip_without_a_path_is_a_video_of_its_own() -> None:
    corpus = make_corpus(pl.DataFrame({"clip_id": [str(i) for i in range(50)]}), many(1).captions.head(0))
    assert Counter(split_corpus(corpus, {"a": 0.5, "b": 0.5}, 0).clips["split"]) == {"a": 25, "b": 25}


@pytest.mark.parametrize("seed", range(20))
def test_a_generated_clip_stays_with_its_real_one_and_its_video(seed: int) -> None:
    """Also through others: g1 mirrors a, of the video of b, which g2 mirrors; g3 and g4 mirror one that is gone."""
    table = pl.DataFrame(
        {
            "clip_id": ["a", "b", "g1", "g2", "g3", "g4", "v", "w"],
            "path": ["v", "v", "g1.mp4", None, None, None, "x", "x"],
            "pair_id": [None, None, "a", "b", "gone", "gone", None, None],
        }
    )
    found = split_corpus(make_corpus(table, many(1).captions.head(0)), {"one": 0.34, "two": 0.33, "three": 0.33}, seed)
    a, b, g1, g2, g3, g4, v, w = found.clips["split"]
    assert a == b == g1 == g2
    assert g3 == g4
    assert v == w  # a clip's id is no path of another
    assert len({a, g3, v}) == 3


@pytest.mark.parametrize("shares", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.6, "b": 0.6}, {"a": float("nan")}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(CorpusError, match=r"The shares of the splits are .*; they must not be negative and sum to 1\."):
        split_corpus(many(3), shares, 0)
