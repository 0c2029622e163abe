"""How studies are made: what all of them have, and what those have that train or look at some captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evenreel.audits.settings import AuditSettings
from evenreel.config import OptionForm
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.training.recipe import Recipe


def study_recipe(
    name: str | Path | None = None, changes: Sequence[str] = (), default: str = "ghost/adapter.yaml"
) -> Recipe:
    """Load the recipe that studies train by.

    Args:
        name: a recipe, a file of the user's own or one that comes along; None for the default.
        changes: settings in place of its own, as `evenreel.training.recipe.load_recipe` takes them.
        default: a file of `evenreel.papers`.

    Raises:
        RecipeError: the recipe cannot be read or followed.
    """
    from evenreel.training.recipe import find_recipe, load_recipe

    path = Path(str(files("evenreel.papers"))) / default if name is None else find_recipe(name)
    return load_recipe(path, changes)


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Settings of any study; a study with options of its own has a class of its own.

    Attributes:
        audit: samples and confidence of the intervals.
    """

    audit: AuditSettings = field(default_factory=AuditSettings)

    def __post_init__(self) -> None:
        """Check the settings; a class that inherits from several has the checks of them all."""


@dataclass(frozen=True, kw_only=True)
class SeededSettings(StudySettings):
    """Settings of a study that trains or draws with several seeds.

    Attributes:
        seeds: trainings, or draws, of each kind.
    """

    seeds: Annotated[int, OptionForm(least=1, most=1_000)] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds < 1:
            raise UsageError(f"The number of seeds is {self.seeds}; it must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(SeededSettings):
    """Settings of a study that trains.

    Attributes:
        recipe: recipe of what is trained; its data and its seed are the study's.
        runs: folder for what training writes, in which broken-off work goes on; None for a temporary one.
    """

    recipe: Recipe = field(default_factory=study_recipe)
    runs: Path | None = None


@dataclass(frozen=True, kw_only=True)
class GroupSettings(TrainingSettings):
    """Settings of a study that trains with generated clips.

    Attributes:
        group: generated clips to train on, or to look at alone, such as 'sora text'; None for the only ones.
    """

    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class QuerySettings(StudySettings):
    """Settings of a study that shows some captions.

    Attributes:
        queries: a caption that is shown, by its id, again for more; empty for those that the study chooses.
    """

    queries: Annotated[tuple[str, ...], OptionForm("--query")] = ()


@dataclass(frozen=True, kw_only=True)
class DepthSettings(StudySettings):
    """Settings of the study of how long a shortlist has to be.

    Attributes:
        margin: points of R@1 that a shortlist may lose.
    """

    margin: Annotated[float, OptionForm(least=0, most=100)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.margin > 0:
            raise UsageError(f"The margin is {self.margin} points; it must be above 0.")
