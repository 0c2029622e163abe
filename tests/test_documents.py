"""JSON and YAML from outside: what is too deep, too long or stands for too much is a ValueError with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenreel.documents import MAX_DEPTH, MAX_YAML_VALUES, brief, parse_json, parse_yaml, whole_number

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@given(documents)
def test_what_json_writes_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value


@given(documents)
def test_what_yaml_writes_is_read(value: Any) -> None:
    written = yaml.safe_dump(value, allow_unicode=True)
    assert parse_yaml(written) == yaml.safe_load(written)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 2_000, 100_000])
@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_what_is_nested_deeply_is_refused(parse: Any, depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse("[" * depth + "]" * depth)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_the_deepest_that_is_read(parse: Any) -> None:
    assert parse(json.dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@pytest.mark.parametrize("text", ["9" * 5_000, "[1, -" + "9" * 5_000 + "]"])
def test_a_number_of_thousands_of_digits_is_refused(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match="digits") as refused:
        parse(text)
    assert "sys." not in str(refused.value)


@pytest.mark.parametrize("number", [2**64, -(2**64), 10**400], ids=["65 bits", "negative", "digits"])
def test_a_whole_number_of_json_has_64_bits(number: int) -> None:
    assert parse_json("[18446744073709551615, 1e300]") == [2**64 - 1, 1e300]
    for text in (str(number), json.dumps({"a": [1, {"b": number}]})):
        with pytest.raises(ValueError, match="64 bits are the most that is read"):
            parse_json(text)


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [lol, lol]"]
    lines += [f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, levels)]
    return "\n".join(lines)


def values_in(value: Any) -> int:
    """All values of a document when every alias is written out."""
    if isinstance(value, dict):
        return 1 + sum(values_in(key) + values_in(inner) for key, inner in value.items())
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("levels", range(10, 17))
def test_aliases_count_as_often_as_they_are_written(levels: int) -> None:
    there = values_in(yaml.safe_load(laughs(levels)))
    if there <= MAX_YAML_VALUES:
        assert values_in(parse_yaml(laughs(levels))) == there
    else:
        with pytest.raises(ValueError, match="stands for more than 100,000 values"):
            parse_yaml(laughs(levels))


def test_a_billion_laughs_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="aliases repeat each other"):
        parse_yaml(laughs(60))


@pytest.mark.parametrize(
    "text",
    ["&a [*a]", "&a {b: *a}", "*a", "a: &a 1\nb: *c", "!!python/object:os.system {}", "a: [", "\x00", "2001-99-99"],
)
def test_what_is_no_plain_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_yaml(text)


def test_a_shared_table_is_read() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


def test_a_long_yaml_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="at most 262,144 are read"):
        parse_yaml("a: " + "x" * 2**20)


@given(st.text(max_size=30))
def test_any_text_is_yaml_or_a_reason(text: str) -> None:
    try:
        parse_yaml(text)
    except ValueError as error:
        assert str(error)


@given(st.text(alphabet="0123456789²³١٢½Ⅷ+-_ .e", max_size=25))
def test_a_whole_number_is_plain_digits(text: str) -> None:
    plain = 0 < len(text) <= 18 and all(letter in "0123456789" for letter in text)
    assert whole_number(text) == (int(text) if plain else None)


@pytest.mark.parametrize(
    "value", ["x" * 10_000, 10**10_000, [10] * 9_999, None], ids=["text", "number", "list", "none"]
)
def test_what_a_sentence_repeats_is_short(value: object) -> None:
    assert len(brief(value)) < 100
