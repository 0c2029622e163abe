"""Settings as files; counterfactual captions, counted by slow loops, by hand, and held to what is true of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenreel.adaptation.baselines import FlowSettings, TTTSettings
from evenreel.adaptation.prepared import PrepareSettings, load_prepare_settings
from evenreel.adaptation.titan import (
    AdaptSettings,
    Counterfactual,
    CounterfactualSettings,
    MatchSettings,
    OverAttended,
    SafetySettings,
    counterfactuals,
    learnable,
    load_settings,
    naive,
    over_attended,
    shipped_settings,
)
from evenreel.adaptation.titan_correction import CausalSettings, FitSettings
from evenreel.errors import UsageError
from evenreel.language import load_tagger
from evenreel.language.tokens import Tagged, Token
from evenreel.matchers.wti import Wti, WtiSettings
from evenreel.training.recipe import RecipeError, recipe_text
from tests.adaptation.shifted import SIZE, adapted

TAGGER = load_tagger("pattern")

LEXICON = {
    "man": ("man", "NN"), "men": ("man", "NNS"), "dog": ("dog", "NN"), "dogs": ("dog", "NNS"), "cat": ("cat", "NN"),
    "owls": ("owl", "NNS"), "red": ("red", "JJ"), "old": ("old", "JJ"), "runs": ("run", "VBZ"), "ran": ("run", "VBD"),
    "sings": ("sing", "VBZ"), "is": ("be", "VBZ"), "thing": ("thing", "NN"), "the": ("the", "DT"), "on": ("on", "IN"),
}  # fmt: skip
"""Words that mean the same wherever they stand, so that what is left of a query can be tagged again."""

TEXTS = [
    "A red dog runs",  # these match clip 3
    "red dogs are red",
    "the dog",
    "a red man sings",
    "a red cat",  # clip 5
    "the red cat sleeps",
    "an old owl sleeps",  # clip 0
    "a small boat",  # none
]
MATCHES = np.array([3, 3, 3, 3, 5, 5, 0, -1])

queries = st.lists(st.lists(st.sampled_from(sorted(LEXICON)), min_size=1, max_size=6), min_size=1, max_size=12)
limits = st.one_of(st.integers(1, 4), st.floats(0, 0.99))


def test_what_is_over_attended_by_hand() -> None:
    """More than one query match 3 and 5; `dog` and `red` stand in 3 of the 4 of clip 3, `red` and `cat` in 2 of 2."""
    found = over_attended(TAGGER.tag(TEXTS), MATCHES, CounterfactualSettings(beta=1, theta=0.5))
    assert found == (
        OverAttended(3, "dog", 3, 4),
        OverAttended(3, "red", 3, 4),
        OverAttended(5, "cat", 2, 2),
        OverAttended(5, "red", 2, 2),
    )


def test_counterfactuals_by_hand() -> None:
    """A query with two such words gives two; `the dog`, which has nothing else, gives none."""
    made = made_of(beta=1, theta=0.5)
    assert [(one.query, one.video, one.word, one.text) for one in made] == [
        (0, 3, "red", "A dog runs"),
        (0, 3, "dog", "A red runs"),
        (1, 3, "red", "dogs are"),
        (1, 3, "dog", "red are red"),
        (3, 3, "red", "a man sings"),
        (4, 5, "red", "a cat"),
        (4, 5, "cat", "a red"),
        (5, 5, "red", "the cat sleeps"),
        (5, 5, "cat", "the red sleeps"),
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"beta": 2}, {(3, "dog"), (3, "red")}),
        ({"beta": 4}, set()),
        ({"beta": 0.25}, {(3, "dog"), (3, "red")}),  # of 8 queries, the one without a clip among them: more than 2
        ({"theta": 3}, set()),
        ({"theta": 2}, {(3, "dog"), (3, "red")}),
        ({"theta": 0.75}, {(5, "cat"), (5, "red")}),
        ({"parts": ("noun",)}, {(3, "dog"), (5, "cat")}),
        ({"parts": ("adjective",)}, {(3, "red"), (5, "red")}),
        ({"parts": ("verb",), "theta": 0.25}, {(5, "sleep")}),  # `are` helps and says nothing
    ],
)
def test_every_setting_chooses(changed: dict[str, Any], words: set[tuple[int, str]]) -> None:
    settings = CounterfactualSettings(**{"beta": 1, **changed})
    assert {(one.video, one.word) for one in over_attended(TAGGER.tag(TEXTS), MATCHES, settings)} == words


def test_a_share_is_no_sum_of_rounded_parts() -> None:
    """29 of 100 are not more than 0.29 of them, which 0.29 * 100 would make them."""
    tagged = [told(["dog"] if row < 29 else ["cat"]) for row in range(100)]
    settings = CounterfactualSettings(beta=1, theta=0.29)
    assert [one.word for one in over_attended(tagged, np.zeros(100, np.int64), settings)] == ["cat"]


def test_masked_words_say_nothing() -> None:
    texts = ["a man is playing a guitar", "the man sings", "a man"]
    made = counterfactuals(texts, TAGGER.tag(texts), np.zeros(3, np.int64), CounterfactualSettings(2, mask="masked"))
    assert [one.text for one in made] == ["something is playing a guitar", "something sings"]


def test_a_word_is_replaced_by_a_rarer_one_of_its_form() -> None:
    """For `dogs` there are `cats` (1 query) and `owls` (1), not `men` (as many as `dog`) nor what the query has."""
    texts = ["the dogs run", "a dog sleeps", "two dogs and cats", "men", "a man", "an old man", "owls", "a boat"]
    tagged, matches = TAGGER.tag(texts), np.array([1, 1, 1, 2, 3, 4, 5, 6])
    drawn = [
        tuple(one.text for one in counterfactuals(texts, tagged, matches, settings))
        for settings in (CounterfactualSettings(2, mask="replaced", seed=seed) for seed in range(30))
    ]
    first, second, third = zip(*drawn, strict=True)
    assert set(first) == {"the cats run", "the owls run"}
    assert set(second) == {"a boat sleeps"}  # in the singular there is one rarer word
    assert set(third) == {"two owls and cats"}
    assert drawn[0] == tuple(
        one.text for one in counterfactuals(texts, tagged, matches, CounterfactualSettings(2, mask="replaced", seed=0))
    )


def test_no_rarer_word_gives_no_counterfactual() -> None:
    texts = ["a dog runs", "a dog sits"]
    made = counterfactuals(texts, TAGGER.tag(texts), np.zeros(2, np.int64), CounterfactualSettings(1, mask="replaced"))
    assert made == ()


@given(queries, limits, limits, st.data())
def test_counts_are_those_of_slow_loops(
    sentences: list[list[str]], beta: float, theta: float, data: st.DataObject
) -> None:
    matches = drawn_matches(data, len(sentences))
    found = over_attended([told(words) for words in sentences], matches, CounterfactualSettings(beta, theta))
    assert {(one.video, one.word): (one.count, one.matched) for one in found} == slowly(sentences, matches, beta, theta)


@given(queries, st.data())
def test_a_counterfactual_has_its_word_no_more_and_each_count_is_met(
    sentences: list[list[str]], data: st.DataObject
) -> None:
    matches = drawn_matches(data, len(sentences))
    texts, settings = [" ".join(words) for words in sentences], CounterfactualSettings(beta=1, theta=0.3)
    tagged = [told(words) for words in sentences]
    made = counterfactuals(texts, tagged, matches, settings)
    for one in made:
        left = told(one.text.split())
        assert one.video == matches[one.query]
        assert one.word not in [token.lemma for token in left]
        assert [t for t in left if t.part and t.lemma not in ("be", "thing")]
    silent = sum(
        content(words) == {one.word}
        for one in over_attended(tagged, matches, settings)
        for words, video in zip(sentences, matches, strict=True)
        if video == one.video
    )
    assert len(made) + silent == sum(one.count for one in over_attended(tagged, matches, settings))
    assert [(one.query, texts[one.query]) for one in made] == sorted((one.query, texts[one.query]) for one in made)


def test_matches_of_other_queries_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Matches of the shape \(7,\) are not of 8 queries"):
        counterfactuals(TEXTS, TAGGER.tag(TEXTS), MATCHES[1:], CounterfactualSettings())
    with pytest.raises(UsageError, match="8 queries came with the tokens of 7"):
        counterfactuals(TEXTS, TAGGER.tag(TEXTS[1:]), MATCHES, CounterfactualSettings())


def made_of(**changed: Any) -> tuple[Counterfactual, ...]:
    return counterfactuals(TEXTS, TAGGER.tag(TEXTS), MATCHES, CounterfactualSettings(**changed))


def told(words: list[str]) -> Tagged:
    return tuple(Token(word, *LEXICON[word]) for word in words)


def content(words: list[str]) -> set[str]:
    """Base forms of what a query says."""
    return {LEXICON[word][0] for word in words} - {"be", "thing", "the", "on"}


def drawn_matches(data: st.DataObject, count: int) -> Any:
    drawn = data.draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count))
    return np.array(drawn, np.int64)


def slowly(
    sentences: list[list[str]], matches: Any, beta: float, theta: float
) -> dict[tuple[int, str], tuple[int, int]]:
    """Equation 6 as it is read."""
    found = {}
    for video in range(4):
        matched = [words for words, match in zip(sentences, matches, strict=True) if match == video]
        if not len(matched) > beta if beta >= 1 else not matched or not len(matched) / len(sentences) > beta:
            continue
        for word in ("man", "dog", "cat", "owl", "red", "old", "run", "sing"):
            count = sum(word in content(words) for words in matched)
            if count and (count > theta if theta >= 1 else count / len(matched) > theta):
                found[video, word] = (count, len(matched))
    return found


TITAN = replace(
    AdaptSettings(causal_fit=FitSettings(steps=1000, lr=1e-3, batch_size=128)),
    lr=1e-5, batch_size=128, bank=4096, matching=MatchSettings("rank_sum", alpha=1.0), causal=True,
    counterfactuals=CounterfactualSettings(beta=30, theta=0.5, mask="removed"),
    safety=SafetySettings(keep=1.0, teacher=0.0, held_out=0.0, roll_back=False, drift=False),
)  # fmt: skip
"""Section 4.1 of the paper, with nothing of ours."""


def test_what_comes_along_is_the_papers_and_ours_beside_it() -> None:
    assert {load_settings(name).objective for name in shipped_settings()} == {
        "pseudo_labels", "ttt", "ttt_flow", "rotation"
    }  # fmt: skip
    assert load_settings("titan/offline") == TITAN
    online, naive_one, safe = (load_settings(name) for name in ("titan/online", "titan/naive", "safe"))
    assert replace(online, protocol="offline", causal_fit=TITAN.causal_fit) == TITAN
    assert (naive_one.causal, naive_one.counterfactuals, naive_one.matching.match) == (False, None, "one_way")
    assert naive(TITAN) == naive_one
    assert (safe.causal, safe.safety.drift, safe.safety.roll_back) == (False, True, True)


def test_the_source_stage_has_settings_of_the_same_name(tmp_path: Path) -> None:
    assert load_prepare_settings() == PrepareSettings()
    (tmp_path / "own.yaml").write_text("causal_fit: {steps: 30, lr: 0.01}\ncausal: {eta: 5}\n")
    found = load_prepare_settings(tmp_path / "own.yaml", ["causal_fit.lr=0.1", "seed=3", "flow.steps=4"])
    assert found == PrepareSettings(CausalSettings(eta=5), FitSettings(steps=30, lr=0.1), FlowSettings(steps=4), seed=3)


def test_all_that_come_along_are_read_back(tmp_path: Path) -> None:
    for number, name in enumerate(shipped_settings()):
        path = tmp_path / f"{number}.yaml"
        path.write_text(recipe_text(load_settings(name)))
        assert load_settings(path) == load_settings(name)


def test_settings_of_a_file_and_of_the_command() -> None:
    changes = ["matching.alpha=0.5", "counterfactuals.beta=0.02", "safety.keep=0.5", "steps=3", "causal_fit.lr=1e-4"]
    found = load_settings("titan/offline", changes)
    assert found.causal_fit == FitSettings(lr=1e-4)
    assert found.matching == MatchSettings(alpha=0.5)
    assert found.counterfactuals == CounterfactualSettings(beta=0.02, theta=0.5)
    assert found.safety == replace(TITAN.safety, keep=0.5) and found.steps == 3


def of_safe(change: str) -> AdaptSettings:
    return load_settings("safe", [change])


def of_preparation(change: str) -> PrepareSettings:
    return load_prepare_settings(changes=[change])


@pytest.mark.parametrize(
    ("load", "change", "fact"),
    [
        (of_safe, "safety.kep=0.5", "no setting safety.kep; there are keep"),
        (of_safe, "lr=-1", "lr of adaptation is -1.0; it must be a number above 0"),
        (of_safe, "objective=supervised", "'supervised'; it must be 'pseudo_labels' or 'rotation' or 'ttt'"),
        (of_safe, "lr", "--set takes PLACE=VALUE"),
        (of_safe, "causal=maybe", "'maybe'; it must be true or false"),
        (of_safe, "causal_fit.steps=-1", "steps of causal_fit is -1; it must be a whole number"),
        (of_safe, "causal_fit.rate=1", "no setting causal_fit.rate; there are steps, lr, batch_size, seed"),
        (of_preparation, "causal_fit.steps=many", "'many'; it must be a whole number"),
        (of_preparation, "seed=-1", "seed of preparation is -1; it must be a whole number"),
        (of_preparation, "fit.steps=3", "no setting fit; there are causal, causal_fit, flow, seed"),
    ],
)
def test_what_is_wrong_is_said(load: Callable[[str], object], change: str, fact: str) -> None:
    with pytest.raises(RecipeError) as raised:
        load(change)
    assert fact in str(raised.value)


def test_whose_fault_it_is_is_said(tmp_path: Path) -> None:
    """The file's alone, or with what was changed in it; the file of a name is nobody's business."""
    with pytest.raises(RecipeError) as raised:
        load_settings("safe", ["lr=1e-3", "bank=1"])
    first, second = raised.value.args
    assert first == "The file of settings safe, with lr=1e-3, bank=1, cannot be followed:" and "bank" in second
    (tmp_path / "own.yaml").write_text("lrr: 1\n")
    with pytest.raises(RecipeError) as raised:
        load_settings(tmp_path / "own.yaml")
    assert raised.value.args[0] == f"The file of settings {tmp_path / 'own.yaml'} cannot be followed:"


def test_no_such_settings(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="'titn', neither a file nor one of the package: rotation, safe"):
        load_settings("titn")
    (tmp_path / "list.yaml").write_text(yaml.safe_dump([1, 2]))
    with pytest.raises(RecipeError, match="is not a table of settings"):
        load_settings(tmp_path / "list.yaml")


def test_auto_learns_heads_where_there_are_any() -> None:
    behind = adapted()
    assert learnable(behind, "auto") == learnable(behind, "heads")
    alone = Wti(SIZE, WtiSettings())
    assert learnable(alone, "auto") == learnable(alone, "all")


NAN = float("nan")


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        *((CausalSettings, one) for one in ({"eta": 0}, {"hidden": 1}, {"aggregate": "softmax"}, {"mutual": "mine"})),
        *((CounterfactualSettings, one) for one in ({"beta": -1}, {"beta": NAN}, {"theta": "half"}, {"mask": "no"})),
        *((CounterfactualSettings, one) for one in ({"parts": ()}, {"parts": ("adverb",)}, {"seed": -1})),
        *((MatchSettings, one) for one in ({"match": "best"}, {"alpha": -0.5}, {"alpha": NAN}, {"alpha": "1"})),
        *((MatchSettings, one) for one in ({"capacity": 0}, {"capacity": 1.5}, {"temperature": None})),
        *((MatchSettings, one) for one in ({"temperature": 0.0}, {"iterations": 0}, {"iterations": 2.5})),
        *((TTTSettings, one) for one in ({"lambda_mean": -1.0}, {"drop": 1.0}, {"queue": 2.5})),
        *((TTTSettings, one) for one in ({"temperature": 0.0}, {"relative": 1}, {"lambda_contrastive": NAN})),
        (TTTSettings, {"lambda_contrastive": 0.0, "lambda_mean": 0.0, "lambda_covariance": 0.0}),
        *((FlowSettings, one) for one in ({"layers": -1}, {"hidden": 0}, {"steps": 1.5}, {"lr": 0.0}, {"batch": 0})),
        *((FlowSettings, one) for one in ({"noise": -1.0}, {"held_out": 1.0}, {"seed": -1})),
    ],
)
def test_values_out_of_their_range_are_refused(settings: Callable[..., Any], wrong: dict[str, Any]) -> None:
    value = next(iter(wrong.values()))
    with pytest.raises(UsageError) as refused:
        settings(**wrong)
    named = len(wrong) > 1 or any(one in str(refused.value) for one in (*wrong, repr(value), "name one or more of"))
    assert named, refused.value
