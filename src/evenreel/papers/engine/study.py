"""What a study is: a table or figure of a paper, with what it needs to be made on another corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.material import StudyMaterial, StudySettings
from evenreel.progress import Progress

Need = Literal[
    "files",
    "lengths",
    "rankings",
    "models",
    "features",
    "training",
    "validation",
    "pictures",
    "others",
    "words",
    "source",
]
"""What a study works on: headers of the clips' files; lengths and classes of the clips, which the corpus has; rankings
of models or of any system; models with features of the test split; these features alone; features of the test and of
the training split; features of a split to select on, where the recipe names one; frames of clips, and the encoder of
their features; other corpora with such features; words on screen, whose source is then said; what checkpoints carry of
their source, and the reader of captions."""


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Attributes:
        title: what it asks, for a heading.
        about: what it reproduces, for a list.
        function: makes it.
        needs: what it works on.
        takes: what it also looks at where it is there.
        mirrors: whether it is about generated clips that mirror real ones.
        recipe: that it trains by where the user names none, a file of this folder; of a study that adapts, settings of
            test-time training by their name.
    """

    title: str
    about: str
    function: Callable[[StudyMaterial, StudySettings, Progress], Findings]
    needs: Need
    takes: tuple[Need, ...] = ()
    mirrors: bool = True
    recipe: str = "ghost/adapter.yaml"

    @property
    def adapts(self) -> bool:
        """Whether models learn from the test split, without its labels."""
        return "source" in self.takes
