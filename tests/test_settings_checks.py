"""Settings out of their range are refused in a sentence when they are made, before a matcher is built."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS
from evenreel.matchers.adapter import AdapterSettings
from tests.each import check_each

NO_NUMBERS = (math.nan, math.inf, "0.01", True, None)
RANGES: dict[tuple[Any, ...], str] = {
    (0, -1.0, *NO_NUMBERS): "temperature attention_temperature radius tau cycle_tau",
    (-0.1, *NO_NUMBERS): "prior_std support_weight sharpness free_nats lambda_cap lambda_rec lambda_kl lambda_orth "
    "lambda_hsc",
    (-0.1, 1.0, 2, *NO_NUMBERS): "dropout graph_dropout",
    (-0.1, 2.5, *NO_NUMBERS): "margin margin_pos",
    (0, 2, *NO_NUMBERS): "tau_neg tau_pos",
    (0, -1, 1.5, *NO_NUMBERS): "layers weight_layers heads max_frames max_words trials word_size words_at_least "
    "max_verbs max_nouns kappa samples decoder_layers vocabulary_size",
    (-1, 2.5, *NO_NUMBERS): "temporal_layers noise_seed",
    (1, 2.5, *NO_NUMBERS): "size",
    (-0.1, math.nan, math.inf, "0.01", True): "variance_weight",
    ("fixed", *NO_NUMBERS): "g",
    ("no such choice", None): "kind prior mining modalities fusion intra types calibration cycle kl_on reduction",
    ("", 3, True): "vectors elements embeddings",
    ("cut", ("cut", "cut"), (1,), None): "vocabulary entities activities",
    ((), ("sound",), ("video", "video"), "video", None): "matches",
    (1, "true", None): "use_entities use_activities residual captioning disentangle text_condition preserve_mean "
    "confidence co_attention attention_norm co_residual both_ways normalise_index diagonal_only",
}
"""Every setting of every matcher is here: one that is added without a range fails the test."""
BAD = {name: values for values, names in RANGES.items() for name in names.split()}

CASES = [
    (name, setting, value)
    for name, entry in MATCHERS.items()
    for setting in entry.settings.__dataclass_fields__
    for value in BAD[setting]
]


def test_out_of_range() -> None:
    def check(case: tuple[str, str, Any]) -> None:
        name, setting, value = case
        with pytest.raises(UsageError) as raised:
            MATCHERS[name].settings(**{setting: value})
        assert str(raised.value).startswith(f"The setting {setting} of {name} is {value!r}; it must be ")

    check_each(CASES, check)


def test_what_it_must_be() -> None:
    settings = MATCHERS["t_mass"].settings
    for given, words in (
        ({"trials": 0}, "is 0; it must be a whole number, at least 1 and at most"),
        ({"radius": math.nan}, "is nan; it must be a number above 0."),
        ({"support_weight": -1}, "is -1; it must be a number of at least 0."),
        ({"dropout": 1.0}, "is 1.0; it must be a number of at least 0 and below 1."),
        ({"prior": "cauchy"}, "is 'cauchy'; it must be uniform or normal."),
    ):
        with pytest.raises(UsageError, match=words):
            settings(**given)


@pytest.mark.parametrize("entry", MATCHERS.values(), ids=MATCHERS.keys())
def test_the_ends_of_the_ranges(entry: Any) -> None:
    ends = {
        "temperature": 1, "dropout": 0, "prior_std": 0, "support_weight": 0, "temporal_layers": 0, "noise_seed": 0,
        "layers": 1, "weight_layers": 1, "heads": 1, "max_frames": 1, "max_words": 1, "trials": 1,
        "margin": 0, "margin_pos": 2, "tau_neg": 1, "tau_pos": 1, "size": 2, "word_size": 1, "words_at_least": 1,
        "max_verbs": 1, "max_nouns": 1, "sharpness": 0, "graph_dropout": 0, "vocabulary": (), "vectors": None,
        "elements": None, "embeddings": None, "entities": (), "activities": (), "g": -1, "lambda_cap": 0,
        "lambda_rec": 0, "lambda_kl": 0, "lambda_orth": 0, "kappa": 1, "samples": 1, "free_nats": 0,
        "decoder_layers": 1, "vocabulary_size": 1, "lambda_hsc": 0, "variance_weight": 0,
    }  # fmt: skip
    given = {name: value for name, value in ends.items() if name in entry.settings.__dataclass_fields__}
    built = entry.settings(**given)
    assert {name: getattr(built, name) for name in given} == given


@pytest.mark.parametrize("given", [{"dropout": 2}, {"kind": "lora"}], ids=str)
def test_settings_of_adapters(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(UsageError, match=f"The setting {name} of the adapter is .*; it must be "):
        AdapterSettings(**given)
