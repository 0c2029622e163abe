"""What a result shows of itself, in Python and in a notebook: a short table, whatever it holds."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

import evenreel
from evenreel.audits import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.evaluation import EvaluationSettings, compare, evaluate
from evenreel.evaluation.comparison import side_by_side
from evenreel.library.search.result import Hit, MomentHit, SearchResult
from evenreel.types import Shown
from tests.each import check_each
from tests.test_architecture import homes

VALUES = np.random.default_rng(0).normal(size=(40, 40)) + np.eye(40)
CORPUS = make_corpus(
    {"clip_id": [f"v{one}" for one in range(40)]},
    {"caption_id": list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"), "clip_id": [f"v{one}" for one in range(40)]}
    | {"text": ["a ball"] * 40},
)
OPEN_ENDED = re.compile(
    r"NDArray|Tensor|Column|Indices|DataFrame|Sequence|Mapping|dict\[|list\[|frozenset|tuple\[.*\.\.\.|csr_array|Corpus\b"
)
"""Types of fields that hold any number of things."""
FEW = {
    "Scene", "PlantedClip", "SoundBlock", "Marked", "Utterance", "TextTrack", "Occurrence", "Frame", "AuditInputs",
    "Snapshot", "TextEmbedding", "VideoInfo", "RecordedMetric", "Filter", "Word", "RoleGraph", "Audit",
    "Sources", "Study",
}  # fmt: skip
"""Records that stand in lists, or are given and not returned: one line each."""


def offered() -> Iterator[Any]:
    for name in homes():
        package, _, own = name.rpartition(".")
        yield getattr(importlib.import_module(package), own)


def results() -> set[type]:
    """Records that are offered, or returned by what is."""
    known: dict[str, list[type]] = {}
    todo = list(offered())
    for module in [one for name, one in sys.modules.items() if name.startswith("evenreel")]:
        for one in vars(module).values():
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                known.setdefault(one.__name__, []).append(one)
    seen: set[Any] = set()
    while todo:
        thing = todo.pop()
        functions = [thing] if inspect.isfunction(thing) else vars(thing).values() if isinstance(thing, type) else ()
        for one in functions:
            told = str(getattr(getattr(one, "fget", one), "__annotations__", {}).get("return", ""))
            new = {kind for word in re.findall(r"\w+", told) for kind in known.get(word, ())} - seen
            seen |= new
            todo += new
    return {one for one in (*seen, *offered()) if isinstance(one, type) and dataclasses.is_dataclass(one)}


def check(result: object) -> None:
    text, page = repr(result), result._repr_html_()  # type: ignore[attr-defined]
    assert len(text.splitlines()) <= 14 and len(text) <= 1000, f"{len(text.splitlines())} lines, {len(text)} characters"
    assert len(page) <= 4000 and "<script>" not in page
    assert all(sign.isprintable() for sign in text.replace("\n", ""))


def test_every_result_that_is_offered_is_a_short_table_whatever_it_holds() -> None:
    words = [f"<script>\x1b[31m clip number {one}\n" for one in range(9_000)]
    junk = [words, np.zeros((300, 400)), pl.DataFrame({"a" * 90: words}), dict.fromkeys(words, 1.5), "word " * 900, 0.1]

    def each(kind: type) -> None:
        fields = dataclasses.fields(kind)
        open_ended = any(OPEN_ENDED.search(str(one.type)) for one in fields) and not kind.__name__.endswith("Settings")
        assert issubclass(kind, Shown) or not open_ended or kind.__name__ in FEW, "holds any number of things"
        if issubclass(kind, Shown) and "_shown" not in vars(kind):
            result = object.__new__(kind)
            for place, one in enumerate(fields):
                object.__setattr__(result, one.name, junk[place % len(junk)])
            check(result)

    check_each(results(), each)


ASKED = EvaluationSettings(resamples=20, by=("clip_id",))
FOUND = evaluate(VALUES, CORPUS, ASKED)
HITS = tuple(
    Hit(f"id{one}", f"<script>/{one}.mp4", 0.5, None, None, 0.0, {}, (MomentHit(1.0, 0.5, 2.0, 0.3),), (), 3.0)
    for one in range(50)
)
OWN_TABLES: dict[str, Callable[[], object]] = {
    "Evaluation": lambda: FOUND,
    "DirectionResult": lambda: FOUND.directions["t2v"],
    "ColumnFigures": lambda: FOUND.directions["t2v"].by["clip_id"],
    "Comparison": lambda: compare(FOUND, {f"system {one}": FOUND for one in range(9)}, ASKED),
    "SideBySide": lambda: side_by_side({f"system {one}" * 9: FOUND for one in range(9)}, ASKED),
    "AuditResult": lambda: evenreel.audit("hubness", VALUES, CORPUS, AuditSettings(resamples=20))[0],
    "AuditTable": lambda: evenreel.audit("hubness", VALUES, CORPUS, AuditSettings(resamples=20))[0].tables[0],
    "SearchResult": lambda: SearchResult("a <script>" * 99, HITS),
    "Corpus": lambda: CORPUS,
}


@pytest.mark.parametrize("name", OWN_TABLES)
def test_a_real_result_is_one_too(name: str) -> None:
    result: object = OWN_TABLES[name]()
    assert repr(result).startswith(f"{name}\n")
    check(result)


def test_an_evaluation_shows_its_figures() -> None:
    head, *rows = repr(FOUND).splitlines()[1:]
    assert head.split()[:2] == ["metric", "t2v"]
    figure = FOUND.directions["t2v"].summary["R@1"]
    assert rows[0].split()[:5] == ["R@1", f"{figure.value:.2f}", f"{figure.low:.2f}", "to", f"{figure.high:.2f}"]
    assert f"<td>R@1</td><td>{figure.value:.2f}</td>" in FOUND._repr_html_()
    assert "so clip i is taken as the answer of query i." in " ".join(repr(evaluate(VALUES)).split())  # to its end
