"""What a study is: a table or figure of a paper, what it reads, its settings, the rows that it trains, and its words.

All of it is imported for `evenreel study --list` and `--help`, so nothing here imports what trains or measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from evenreel.audits.settings import AuditSettings
from evenreel.config import OptionForm
from evenreel.edits.settings import OrderStage
from evenreel.errors import UsageError
from evenreel.features.settings import Words
from evenreel.report.paragraphs import page_paragraph, page_text

if TYPE_CHECKING:
    from evenreel.adaptation.titan import AdaptSettings
    from evenreel.papers.workspace import Workspace
    from evenreel.progress import Progress
    from evenreel.report.result import AuditResult
    from evenreel.training.recipe import Recipe
    from evenreel.types import Corpus

    MakesStudy = Callable[["Workspace", "StudySettings", Progress], AuditResult]

# words ----------------------------------------------------------------------------------------------------------------

PACKAGE = "evenreel.papers"
COUNTS = "counts and times matchers, without towers"
"""Why a table of costs works on features computed once."""


def paragraph(paper: str, heading: str, **values: object) -> str:
    """Read a paragraph that the reader of a study has to know, from the paper's file in `papers/words`.

    >>> paragraph("rerank", "Times", timed=20)[:42]
    'Time is the median over 20 captions, one a'
    """
    return page_paragraph(PACKAGE, paper, heading, **values)


def paragraphs(paper: str, *headings: str) -> tuple[str, ...]:
    return tuple(paragraph(paper, heading) for heading in headings)


def study_words(name: str) -> tuple[str, str]:
    """Read what a study asks, and what it reproduces.

    >>> study_words("ghost/f2")
    ('How near are mirrors to real clips?', 'Figure 2: similarity of pairs')
    """
    rows = page_text(PACKAGE, name.partition("/")[0]).splitlines()
    asks, reproduces = next(row for row in rows if row.startswith(f"| {name} |")).strip("| ").split(" | ")[1:]
    return asks, reproduces


# what a study reads ---------------------------------------------------------------------------------------------------

WORDS: Mapping[Words, str] = {"ocr": "words read in the frames", "corpus": "words of the corpus"}
"""What on-screen text is."""


@dataclass(frozen=True)
class OtherCorpus:
    """A further corpus, searched and not learned from; `split` is None for that of the study's own corpus."""

    corpus: Path
    features: Path
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where that is which studies read from disk, beside the folder of the corpus; each study takes some of these.

    Attributes:
        split: part of the corpus that is searched.
        train_split: part of the corpus that is learned from.
        features: folder of the corpus's features.
        matchers: checkpoints that rank the clips, or names of matchers that need no training, by the names they are
            shown by ([NAME=]CHECKPOINT, again for more); empty for `mean_pool`.
        start: a checkpoint that training begins with, whose matcher and adapter take the place of the recipe's.
        pretrained_features: folder of features by the towers of checkpoints before their training, for those that
            require some.
        videos: folder in which the paths of the clips begin; None for that of the videos that features were made of.
        device: where models run: auto, cpu, cuda, cuda:1, mps.
        scores: scores of other systems on the split that is searched, as npy, npz, parquet or a TREC run, by the names
            they are shown by ([NAME=]FILE, again for more).
        words: words on screen that are looked at, corpus or ocr; None for those of the last run of `evenreel features`.
        others: corpora that are searched and not learned from, by the names they are shown by (NAME=CORPUS,FEATURES,
            and ,SPLIT where it is another than --split; again for more).
    """

    split: str = "test"
    train_split: str = "train"
    features: Path | None = None
    matchers: Annotated[Mapping[str, str], OptionForm("--matcher")] = field(default_factory=dict)
    start: str | None = None
    pretrained_features: Path | None = None
    videos: Path | None = None
    device: str = "auto"
    scores: Mapping[str, Path] = field(default_factory=dict)
    words: Words | None = None
    others: Annotated[Mapping[str, OtherCorpus], OptionForm("--other")] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.words not in (None, *WORDS):
            raise UsageError(f"The source of on-screen words is {self.words!r}; it must be {' or '.join(WORDS)}.")


class Needs(NamedTuple):
    """What a study reads."""

    words: str  # what the user has to name beside the corpus, for a list
    sources: tuple[str, ...]  # fields of `Sources` that say where it is
    features: bool = True  # whether features of the corpus have to be named
    help: Mapping[str, str] = {}  # sentences on sources that are others for this study


_LEARNED, _MODELS = ("train_split",), ("features", "matchers", "pretrained_features", "device")
_TRAINED = (*_LEARNED, "features", "start", "pretrained_features", "videos", "device")
_TRAIN_HELP = {
    "pretrained_features": "Folder of features by the towers of that checkpoint before their training, where it "
    "requires some.",
    "videos": "Folder in which the paths of the clips begin, where towers are trained (a recipe with a backbone). "
    r"\[default: that of the videos that features were made of]",
}
_FILE_HELP = {"videos": r"Folder in which the paths of the clips begin. \[default: that of the corpus]"}
_NAMED, _SPLIT, _EITHER = "--features", "--features and a split to train on", "--features or --scores"

FILES = Needs("the videos", (*_LEARNED, "features", "videos"), False, _FILE_HELP)
PAIRS = Needs(_NAMED, (*_LEARNED, "features"))
LENGTHS = Needs("a split to train on", _LEARNED, False)
RANKINGS = Needs(_EITHER, (*_MODELS, "scores"), False)
LENGTH_RANKINGS = Needs(_EITHER, (*_LEARNED, *_MODELS, "scores"), False)
STAGES = Needs(_NAMED, (*_MODELS, "scores"))
MODELS = Needs(_NAMED, _MODELS)
PICTURES = Needs(_NAMED, (*_MODELS, "videos"))
STREAMS = Needs(_NAMED, (*_LEARNED, *_MODELS))
TEXT = Needs(_NAMED, ("features", "words"))
TEXT_PICTURES = Needs(_NAMED, (*_MODELS, "videos", "words"))
TRAINING = Needs(_SPLIT, _TRAINED, help=_TRAIN_HELP)
TEXT_TRAINING = Needs(_SPLIT, (*_TRAINED, "words"), help=_TRAIN_HELP)
TRANSFER = Needs(_SPLIT, (*_TRAINED, "others"), help=_TRAIN_HELP)


# how a study is made --------------------------------------------------------------------------------------------------


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

    path = Path(str(files(PACKAGE))) / default if name is None else find_recipe(name)
    return load_recipe(path, changes)


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """How studies are made; each looks at some of these, which are its options on the command line.

    Attributes:
        audit: samples and confidence of the intervals.
        stage: move the frames that were taken (sampled), or those of the whole clip before --frames are taken (video).
        frames: frames taken of each clip where order counts; None for all.
        seeds: trainings, or draws, of each kind.
        recipe: recipe of what is trained; its data and its seed are the study's. None for the study's own.
        runs: folder for what training writes, in which broken-off work goes on; None for a temporary one.
        adapt: settings of test-time training, whose seed the seeds go out from; None for the usual ones.
        group: generated clips to train on, or to look at alone, such as 'sora text'; None for the only ones.
        shares: share of generated clips in training; give two or more, from the least to the most.
        action: the class, VERB,NOUN or what captions call it; None for the one most longer in test, or of whose
            captions the first system may miss the most for its length.
        tail_classes: a csv of verbs or nouns with few training clips; again for both kinds; empty for those that are
            rare in training.
        bases: a matcher that is trained; again for more.
        queries: a caption that is shown, by its id, again for more; empty for those that the study chooses.
        clips: a clip that is shown instead of what is found first, by its id; again for more.
        margin: points of R@1 that a shortlist may lose.
    """

    audit: AuditSettings = field(default_factory=AuditSettings)
    stage: OrderStage = "sampled"
    frames: Annotated[int | None, OptionForm(least=1, most=1_000_000)] = None
    seeds: Annotated[int, OptionForm(least=1, most=1_000)] = 5
    # `run_study` fills in both, so that only who trains imports what trains
    recipe: Recipe = None  # type: ignore[assignment]
    runs: Path | None = None
    adapt: AdaptSettings = None  # type: ignore[assignment]
    group: str | None = None
    shares: Annotated[tuple[float, ...], OptionForm("--share", 0, 1)] = (0.0, 0.2, 0.4, 0.6, 0.8)
    action: Annotated[str | None, OptionForm("--class")] = None
    tail_classes: tuple[Path, ...] = ()
    bases: Annotated[tuple[str, ...], OptionForm("--base")] = ("temporal", "wti", "x_clip")
    queries: Annotated[tuple[str, ...], OptionForm("--query")] = ()
    clips: Annotated[tuple[str, ...], OptionForm("--clip")] = ()
    margin: Annotated[float, OptionForm(least=0, most=100)] = 1.0

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise UsageError(f"The number of seeds is {self.seeds}; it must be at least 1.")
        if len(self.shares) < 2 or list(self.shares) != sorted(set(self.shares)):
            raise UsageError(f"The shares are {self.shares}; give two or more, the smaller one first.")
        if not self.margin > 0:
            raise UsageError(f"The margin is {self.margin} points; it must be above 0.")


# what it trains -------------------------------------------------------------------------------------------------------

BASELINE = "baseline"


class MemberOf(NamedTuple):
    """A row that is one member, counted from 1, of the training of another row, and so needs none of its own."""

    row: str
    number: int


@dataclass(frozen=True)
class Variant:
    """One recipe to train as a row of a table, and the row it is compared with."""

    recipe: Recipe
    against: str | None = None  # None for a row that others are compared with
    narrowed: Callable[[Corpus], Corpus] | None = None  # selects the part of the training corpus to learn from
    member: MemberOf | None = None  # member of another row's ensemble that this row shows, instead of a training


Variants = dict[str, Variant]
RowsOf = Callable[["Workspace", StudySettings], Variants]
"""Makes the rows of a table from what a study works on and its settings."""
Changes = Mapping[str, Any]
"""What a row has other than the recipe of its study: settings of the matcher, and of on-screen words below `words`."""


@dataclass(frozen=True)
class Table:
    """A table of trainings that differ in one thing, as data."""

    metrics: tuple[str, ...]  # columns, such as `R@1 T2V` (`evenreel.papers.engine.figures_of`)
    # makes the recipe that rows change, or refuses what a study of this paper cannot train
    whole: Callable[[Workspace, StudySettings], Recipe] | None = None
    rows: Mapping[str, Changes] | RowsOf = field(default_factory=dict)  # what each changes, or what makes them all
    # row that one is compared with, where it is not the first; None for one that others are compared with
    against: Mapping[str, str | None] = field(default_factory=dict)
    main: str = ""  # metric that the effect of the study is about; empty for the first
    lead: str = ""  # row whose change is the effect of the study; empty for the largest change
    notes: tuple[str, ...] = ()  # headings of paragraphs that readers have to know, beside that of the measures
    # settings that are drawn, such as `kappa`, with the row of each of their values; those not trained are left out
    sweeps: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()  # metrics that are drawn over the values of each sweep

    def variants(self, material: Workspace, settings: StudySettings) -> Variants:
        if callable(self.rows):
            return self.rows(material, settings)
        assert self.whole is not None
        whole, first = self.whole(material, settings), next(iter(self.rows))
        against = {first: None} | dict.fromkeys([*self.rows][1:], first) | dict(self.against)
        return {name: Variant(changed(whole, changes), against[name]) for name, changes in self.rows.items()}


def named(metrics: Sequence[str], *ways: str) -> tuple[str, ...]:
    """Return the columns of some metrics, one direction after the other.

    >>> named(("R@1", "MedR"), "T2V", "V2T")
    ('R@1 T2V', 'MedR T2V', 'R@1 V2T', 'MedR V2T')
    """
    return tuple(f"{metric} {way}" for way in ways for metric in metrics)


def rows_beside(whole: Recipe, rows: Mapping[str, Recipe], name: str = BASELINE) -> Variants:
    """Return rows that are each compared with one recipe, the row `name`; one that is called so too is left out."""
    return {name: Variant(whole)} | {row: Variant(recipe, name) for row, recipe in rows.items() if row != name}


def changed(recipe: Recipe, changes: Changes) -> Recipe:
    """Return the recipe with other settings of its matcher and, below `words`, further changes of on-screen words."""
    settings = {name: value for name, value in changes.items() if name != "words"}
    recipe = replace(recipe, matcher=replace(recipe.matcher, settings={**recipe.matcher.settings, **settings}))
    if "words" not in changes:
        return recipe
    from evenreel.features.word_changes import WordChanges

    words = replace(recipe.data.words or WordChanges(), **changes["words"])
    return replace(recipe, data=replace(recipe.data, words=None if words.changes_nothing else words))


def with_room(recipe: Recipe, name: str, material: Workspace, *, windows: bool = False) -> Recipe:
    """Return the recipe with another matcher, with room for the longest clip and caption where it has too little."""
    from evenreel.matchers.registry import MATCHERS

    defaults = MATCHERS[name].settings()
    wanted = {"max_words": material.longest("words"), "max_frames": material.longest("frames")}
    if windows:
        wanted["max_frames"] += material.longest("windows")
    own = {setting: count for setting, count in wanted.items() if count > getattr(defaults, setting, count)}
    return replace(recipe, matcher=replace(recipe.matcher, name=name, settings=own))


def from_the_start(recipe: Recipe, material: Workspace) -> Recipe:
    """Return the recipe, for a study that trains matchers built in several ways."""
    if material.start is not None:
        raise UsageError(
            "This study trains matchers that are built in several ways, and a checkpoint (--start) is of one: leave it "
            "out."
        )
    return recipe


# the study ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper; what it is called stands in `papers/words`."""

    name: str  # name of the study, such as `ghost/t1`
    # a table of trainings, or `module:name` of the function that makes the study, below `evenreel.papers`
    make: str | Table
    needs: Needs  # what it reads from disk
    options: tuple[str, ...] = ()  # fields of `StudySettings` that it looks at, beside `audit`
    mirrors: bool = False  # whether it is about generated clips that mirror real ones
    # recipe of a study that trains, where the user names none, a file of `evenreel.papers`; of a study that adapts,
    # settings of test-time training by their name
    recipe: str = "ghost/adapter.yaml"
    selects: bool = False  # whether weights may be selected on a split (`data.validation` of the recipe)
    # what it does that takes features computed once, in words for a refusal, such as `COUNTS`; empty for a study
    # whose recipe may train towers
    frozen: str = ""

    @property
    def function(self) -> MakesStudy:
        """Import what makes the study of what it works on, settings and a progress."""
        if isinstance(self.make, Table):
            return partial(resolve_name(f"{PACKAGE}.engine:compared_trainings"), self.make, self.name.partition("/")[0])
        return cast("MakesStudy", resolve_name(f"{PACKAGE}.{self.make}"))

    @property
    def title(self) -> str:
        return study_words(self.name)[0]

    @property
    def about(self) -> str:
        return study_words(self.name)[1]


TRAINS = ("seeds", "recipe", "runs")
"""Settings of a study that trains."""


def trained_study(name: str, make: str | Table, needs: Needs, recipe: str, *options: str, frozen: str = "") -> Study:
    """Return a study that trains by a recipe, and may select weights on a split."""
    return Study(name, make, needs, (*TRAINS, *options), recipe=recipe, selects=True, frozen=frozen)
