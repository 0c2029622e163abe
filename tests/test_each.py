"""A folded test fails for each thing that fails, and no thing that is skipped hides another."""

from __future__ import annotations

import pytest

from tests.each import check_each, of_each


def holds_below_three(number: int) -> None:
    if number == 9:
        pytest.skip("nine is for elsewhere")
    assert number < 3


def test_all_offenders_are_named() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"2 of 4 fail:\n3: .*\n4: "):
        check_each([1, 2, 3, 4], holds_below_three)


def test_what_is_skipped_hides_no_failure() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"1 of 2 fail:\n5: "):
        check_each([5, 9, 1], holds_below_three)
    check_each([1, 9], holds_below_three)


def test_where_all_are_skipped_the_test_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="nine is for elsewhere"):
        check_each([9, 9], holds_below_three)


def test_nothing_to_check_fails() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        check_each([], holds_below_three)


@of_each([(1, "a"), (2, "b")])
def test_several_arguments_and_a_fixture(number: int, letter: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert "_ab"[number] == letter
    assert tmp_path_factory.getbasetemp().is_dir()
