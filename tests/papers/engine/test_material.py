"""What a study is given: groups of generated clips, parts with features, and settings that make no sense."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from evenreel.corpus import select
from evenreel.errors import CorpusError, UsageError
from evenreel.papers import STUDIES, part_of, run_study, study_recipe
from evenreel.papers.engine.fine_tuning import zero_shot
from evenreel.papers.engine.material import groups_in, one_group
from tests.papers.every_input import EveryInput, EverySetting
from tests.papers.offset_pairs import GROUP, offset_part, paired_corpus, quick_settings


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
        EverySetting(recipe=study_recipe(), **wrong)  # type: ignore[arg-type]


def test_recipes_that_a_study_cannot_follow() -> None:
    with pytest.raises(UsageError, match="begins with random numbers.*mean_pool or temporal"):
        zero_shot(study_recipe(changes=["matcher.name=wti", "matcher.settings={}"]), 16)


def test_a_study_says_what_it_lacks() -> None:
    """None of them fails in another way on material that holds nothing but a test split."""
    bare = EveryInput(test=paired_corpus("test", ("text", "image")))
    settings = replace(quick_settings(), group=GROUP)
    for name in STUDIES.keys() - {"ghost/t1"}:
        with pytest.raises(UsageError, match=r"This study .*; give it "):
            run_study(name, bare, settings)
    assert run_study("ghost/t1", bare, settings).sentence.startswith("40 real clips and 80 generated")
    with pytest.raises(UsageError, match="'ghost/t9' is no study; there are: ghost/t1, "):
        run_study("ghost/t9", bare, settings)


def test_the_docs_name_every_study() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = re.findall(r"`((?:ghost|length|bima|tcd|titan|rerank)/\w+)`", "\n".join(rows))
    assert set(named) == set(STUDIES)
