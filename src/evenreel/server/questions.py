"""Questions of more than one thing, as the API takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import StringConstraints

from evenreel.errors import UsageError
from evenreel.library import Marked, Then, UnfinishedText, Without
from evenreel.library.asking.asked import ONE_QUERY, Question, read_question
from evenreel.library.asking.examples import MOST_MARKS, Mark, read_mark
from evenreel.library.asking.steps import MOST_WITHIN_S, WITHIN_S

LONGEST_QUERY = 2_000
Marks = list[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(@[0-9]{1,7}(\.[0-9]{1,6})?)?$")]]
Words = Annotated[
    str, Query(max_length=LONGEST_QUERY, description="What is to be seen beside what the picture shows: 'at night'.")
]


@dataclass(frozen=True)
class Beside:
    """What a search asks for beside its sentence.

    Attributes:
        then: what is to come after the sentence, which is then not looked through for a `then`.
        within_s: most seconds from a moment of the sentence to one of what comes after it.
        marks: clips that were marked right or wrong.
        typing: whether the sentence, or what comes after it, is still typed.
    """

    then: str
    within_s: float
    marks: tuple[Mark, ...]
    typing: bool

    def asked(self, sentence: str) -> Question:
        """Return what is asked of the library with a sentence."""
        made = UnfinishedText if self.typing else str
        if self.then.strip():
            asked: str | Then | Without = Then(sentence, made(self.then), self.within_s)
        else:
            asked = read_question(made(sentence), self.within_s)
        if not self.marks:
            return asked
        if not isinstance(asked, str):
            raise UsageError(ONE_QUERY)
        return Marked(asked, self.marks)


def beside(
    then: Annotated[str, Query(max_length=LONGEST_QUERY, description="What is to come after `q` in a clip.")] = "",
    within: Annotated[
        float,
        Query(gt=0, le=MOST_WITHIN_S, allow_inf_nan=False, description="Most seconds from one moment to the other."),
    ] = WITHIN_S,
    right: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are it: ID or ID@SECONDS.")] = [],  # noqa: B006
    wrong: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are not it.")] = [],  # noqa: B006
    typing: Annotated[
        bool, Query(description="The sentence is still typed: its last word may be the beginning of one.")
    ] = False,
) -> Beside:
    """Read from an address what a search asks for beside its sentence."""
    marks = (*(read_mark(one, right=True) for one in right), *(read_mark(one, right=False) for one in wrong))
    return Beside(then, within, marks, typing)
