"""What a study is: a table or figure of a paper, with what it needs to be made on another corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import StudyInputs
from evenreel.papers.engine.needs import Needs
from evenreel.papers.engine.settings import StudySettings
from evenreel.progress import Progress

Given = TypeVar("Given", bound=StudyInputs)
Settings = TypeVar("Settings", bound=StudySettings)


@dataclass(frozen=True)
class Study(Generic[Given, Settings]):
    """One table or figure; all that the command line says of it is here.

    Attributes:
        title: what it asks, for a heading.
        about: what it reproduces, for a list.
        function: makes it.
        needs: what it works on.
        settings: its options beside those of what it works on; their fields are options of the command line.
        mirrors: whether it is about generated clips that mirror real ones.
        recipe: the recipe of a study that trains, where the user names none, a file of `evenreel.papers`; of a study
            that adapts, settings of test-time training by their name.
    """

    title: str
    about: str
    function: Callable[[Given, Settings, Progress], Findings]
    needs: Needs[Any, Given]
    settings: type[Settings]
    mirrors: bool = False
    recipe: str = "ghost/adapter.yaml"
