"""What a study is: a table or figure of a paper, with what it needs to be made on another corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from evenreel.papers.engine.needs import Needs
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.engine.words import study_words

if TYPE_CHECKING:
    from evenreel.papers.engine.findings import Findings
    from evenreel.progress import Progress

COUNTS = "counts and times matchers, without towers"
"""Why a table of costs works on features computed once."""


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper; what it is called stands in `papers/words`.

    Attributes:
        name: name of the study, such as `ghost/t1`.
        place: `module:name` of the function that makes it, below `evenreel.papers`.
        needs: what it reads from disk, and the record of inputs that it is given.
        settings: class of its options beside those of what it works on; their fields are options of the command line.
        mirrors: whether it is about generated clips that mirror real ones.
        recipe: recipe of a study that trains, where the user names none, a file of `evenreel.papers`; of a study that
            adapts, settings of test-time training by their name.
        frozen: what it does that takes features computed once, in words for a refusal, such as `COUNTS`; empty
            for a study whose recipe may train towers.
    """

    name: str
    place: str
    needs: Needs
    settings: type[StudySettings]
    mirrors: bool = False
    recipe: str = "ghost/adapter.yaml"
    frozen: str = ""

    @property
    def function(self) -> Callable[[Any, Any, Progress], Findings]:
        """Import the function that makes the study of inputs, settings and a progress."""
        return cast("Callable[[Any, Any, Progress], Findings]", resolve_name(f"evenreel.papers.{self.place}"))

    @property
    def title(self) -> str:
        """Return the question that the study asks, for a heading."""
        return study_words(self.name)[0]

    @property
    def about(self) -> str:
        """Return what the study reproduces, for a list."""
        return study_words(self.name)[1]
