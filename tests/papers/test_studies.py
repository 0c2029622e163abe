"""What a study is given and says: groups of clips, settings, what is missing, and its words in `papers/words`."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from evenreel.corpus import select
from evenreel.errors import CorpusError, UsageError
from evenreel.papers import STUDIES, StudySettings, Workspace, part_of, run_study, study_recipe
from evenreel.papers.engine import before_training
from evenreel.papers.study import Table, paragraph, study_words
from evenreel.papers.workspace import groups_in, one_group
from tests.papers.offset_pairs import GROUP, offset_material, offset_part, paired_corpus


def test_groups_and_what_their_generators_were_given() -> None:
    assert groups_in(paired_corpus("test", ("text", "image"))) == {GROUP: "text", "generator image": "image"}
    corpus = paired_corpus("test", ("text",))
    bare = replace(corpus, clips=corpus.clips.drop("setting"))
    assert groups_in(bare) == {"generator": None}
    with pytest.raises(CorpusError, match="No generated clip of the test split mirrors a real one; add some with"):
        groups_in(select(corpus, where=pl.col("source") == "camera"))


def test_one_group_is_named_or_alone() -> None:
    several = paired_corpus("test", ("text", "image"))
    assert one_group(several, "generator image") == "generator image"
    assert one_group(paired_corpus("test", ("text",)), None) == GROUP
    with pytest.raises(CorpusError, match="there are generator text, generator image; name one with --group"):
        one_group(several, None)
    with pytest.raises(CorpusError, match="No generated clips are called 'sora'"):
        one_group(several, "sora")


def test_a_part_is_what_has_features() -> None:
    part = offset_part("test", 0.0, ("text",), 0)
    fewer = replace(part.videos, ids=part.videos.ids[:3])
    assert part_of(part.corpus, part.texts, fewer).corpus.clips["clip_id"].to_list() == list(fewer.ids)
    with pytest.raises(CorpusError, match="No caption of the split has a clip with features"):
        part_of(part.corpus, part.texts, replace(part.videos, ids=part.videos.ids[-3:]))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seeds": 0}, "number of seeds is 0"),
        ({"shares": (0.5,)}, "give two or more"),
        ({"shares": (0.8, 0.0)}, "the smaller one first"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        StudySettings(recipe=study_recipe(), **wrong)  # type: ignore[arg-type]


def test_recipes_that_a_study_cannot_follow() -> None:
    with pytest.raises(UsageError, match="begins with random numbers.*mean_pool or temporal"):
        before_training(study_recipe(changes=["matcher.name=wti", "matcher.settings={}"]), offset_material(0.0))


def test_a_study_says_what_it_lacks() -> None:
    """None of them fails in another way on material that holds nothing but a test split."""
    bare = Workspace(test=paired_corpus("test", ("text", "image")))
    settings = StudySettings(group=GROUP)  # and so the recipe of each study
    for name in STUDIES.keys() - {"ghost/t1"}:
        with pytest.raises(UsageError, match=r"This study .*; give it "):
            run_study(name, bare, settings)
    assert run_study("ghost/t1", bare, settings).sentence.startswith("40 real clips and 80 generated")
    with pytest.raises(UsageError, match="'ghost/t9' is no study; there are: ghost/t1, "):
        run_study("ghost/t9", bare, settings)


def test_the_docs_name_every_study() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = re.findall(r"`((?:ghost|length|bima|tcd|titan|rerank)/\w+)`", "\n".join(rows))
    assert set(named) == set(STUDIES)


PAPERS = Path(str(files("evenreel.papers")))
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (PAPERS / "words").iterdir()}


def literals() -> set[str]:
    """Every string of the studies' sources."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PAPERS.rglob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


def test_every_study_has_its_words_and_each_row_is_of_a_study() -> None:
    rows = [row.split("|")[1].strip() for page in PAGES.values() for row in re.findall(r"^\| \w+/.*$", page, re.M)]
    assert sorted(rows) == sorted(STUDIES)
    assert all(all(study_words(name)) for name in STUDIES)


def test_every_paragraph_is_read_somewhere() -> None:
    headings = {heading for page in PAGES.values() for heading in re.findall(r"^## (.*)$", page, re.M)}
    assert headings <= literals()


def test_every_paragraph_that_is_read_is_there() -> None:
    for path in PAPERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("paragraph", "paragraphs"):
                page, *headings = node.args
                named = [one.value for one in headings if isinstance(one, ast.Constant)]
                if isinstance(page, ast.Constant):
                    assert all(f"\n## {one}\n" in PAGES[str(page.value)] for one in named), ast.unparse(node)


def test_every_study_has_a_function_and_the_notes_of_its_table_are_there() -> None:
    for study in STUDIES.values():
        assert callable(study.function)
        for heading in study.make.notes if isinstance(study.make, Table) else ():
            assert paragraph(study.name.partition("/")[0], heading)
