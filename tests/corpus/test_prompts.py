"""Captions as one prompt, names of files, and the table of prompts."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import (
    GenerationRequest,
    captions_of_real,
    file_name,
    join_captions,
    setting_of,
    write_prompts,
)
from evenreel.corpus.tables import as_cell, from_cell
from evenreel.errors import CorpusError, UsageError


@pytest.mark.parametrize(
    ("captions", "joined"),
    [
        (["a man sings", "a band plays"], "A man sings. A band plays."),
        (["a man sings", "A man  sings. ", "a man sings"], "A man sings."),
        (["a man , a dog ,", "- is it art ?"], "A man, a dog. Is it art?"),
        (["", "  ", "...", "what!"], "What!"),
        (["école", "ÉCOLE"], "École."),
        ([], ""),
    ],
)
def test_distinct_captions_become_a_sentence_each(captions: list[str], joined: str) -> None:
    assert join_captions(captions) == joined


def test_the_first_so_many_distinct_captions() -> None:
    assert join_captions(["a", "A.", "b", "c"], most=2) == "A. B."


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_joining_says_nothing_twice_and_adds_no_word(captions: list[str]) -> None:
    joined = join_captions(captions)
    assert joined == " ".join(joined.split())
    assert not joined.startswith(("=", "+", "-", "@"))
    said = set(re.findall(r"\w+", joined.casefold()))
    assert said <= set(re.findall(r"\w+", " ".join(captions).casefold()))
    assert join_captions([*captions, *captions]) == joined


def test_real_clips_are_asked_for_in_their_order() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": ["b", "a", "m", "silent"],
            "source": [None, "camera", "sora", None],
            "pair_id": [None, None, "a", None],
        }
    )
    captions = pl.DataFrame({"caption_id": list("123"), "clip_id": ["a", "b", "a"], "text": ["x", "y", "z"]})
    corpus = make_corpus(clips, captions)
    assert list(captions_of_real(corpus).items()) == [("b", ["y"]), ("a", ["x", "z"]), ("silent", [])]


def test_settings() -> None:
    assert setting_of("image") == "image"
    with pytest.raises(UsageError, match="there are: text, image, video"):
        setting_of("images")


@given(st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)))
def test_names_of_files_differ_and_stay_in_their_folder(clip_ids: set[str]) -> None:
    names = {file_name(clip_id) for clip_id in clip_ids}
    assert len(names) == len(clip_ids)
    for name in names:
        assert Path("folder", f"{name}.mp4").parent == Path("folder")
        assert re.fullmatch(r"[A-Za-z0-9_.~@%-]{1,180}", name)


@given(st.text())
def test_no_cell_is_a_formula_and_each_is_read_as_it_was(text: str) -> None:
    assert not as_cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert from_cell(as_cell(text)) == text


def test_the_table_of_prompts(tmp_path: Path) -> None:
    requests = [
        GenerationRequest("-4ws_1", "image", 'A "dog", wet.', tmp_path / "keyframes" / "-4ws_1.png"),
        GenerationRequest("b", "image", "=1+1\nnext", None, tmp_path / "first_halves" / "b.mp4"),
    ]
    write_prompts(tmp_path / "prompts.csv", requests)
    with (tmp_path / "prompts.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["clip_id", "setting", "prompt", "keyframe", "first_half"],
            ["'-4ws_1", "image", 'A "dog", wet.', "keyframes/-4ws_1.png", ""],
            ["b", "image", "'=1+1\nnext", "", "first_halves/b.mp4"],
        ]
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"prompts\.csv cannot be written"):
        write_prompts(tmp_path / "file" / "prompts.csv", requests)
