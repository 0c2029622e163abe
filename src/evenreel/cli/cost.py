"""`evenreel cost`: what the matcher of a recipe costs, and how long its trainings take."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.options import JsonOption, RecipeArgument, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from rich.table import Table

    from evenreel.matchers.matcher import LearnedFrom
    from evenreel.training.cost import Cost, RecipeCost, Times
    from evenreel.training.recipe import Recipe

GALLERY = 10_000
"""Clips of the gallery whose size is told."""
MOST_BATCH, MOST_FRAMES, MOST_WORDS, MOST_DIMENSION = 1_000_000, 3_600, 1_024, 8_192
"""Largest sizes that costs are counted on; no features that videos were read for have more."""


@dataclass(frozen=True)
class CountedInputs:
    """Sizes of the captions and clips that the costs of a matcher are counted on.

    Attributes:
        batch: captions, and as many clips, that are counted on.
        frames: frames of each clip; None for those of the backbone's rule, or 20.
        words: words of each caption.
        windows: windows of on-screen text of each clip, for matchers that read them.
        dimension: D of the features; None for that of the recipe's features.
    """

    batch: Annotated[int, OptionForm(least=1, most=MOST_BATCH)] = 64
    frames: Annotated[int | None, OptionForm(least=1, most=MOST_FRAMES)] = None
    words: Annotated[int, OptionForm(least=1, most=MOST_WORDS)] = 30
    windows: Annotated[int, OptionForm(least=1, most=MOST_FRAMES)] = 12
    dimension: Annotated[int | None, OptionForm(least=1, most=MOST_DIMENSION)] = None


def cost(
    recipe: RecipeArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="PLACE=VALUE instead of the recipe's: members.count=3; may be given again."),
    ] = None,
    inputs: CountedInputs = from_settings(CountedInputs),
    measure: Annotated[
        bool, typer.Option("--measure", help="Train a few steps, of each member too, and see how long an epoch takes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a recipe's matcher costs: parameters, multiply-adds, bytes of a gallery, seconds an epoch."""
    from evenreel.training.cost import Shape, frames_of, recipe_cost
    from evenreel.training.recipe import find_recipe, load_recipe

    chosen = load_recipe(find_recipe(recipe), changes or ())
    if measure and inputs.dimension is not None:
        raise UsageError("--measure takes the features of the recipe, which have their own D; leave --dimension out.")
    times, dimension, learned = _measured(chosen) if measure else (None, inputs.dimension or _dimension(chosen), None)
    shape = Shape(dimension, inputs.batch, inputs.frames or frames_of(chosen), inputs.words, inputs.windows)
    found = recipe_cost(chosen, shape, learned)
    if as_json:
        in_all = {} if times is None else {"in_turn_s": times.in_turn_s, "at_once_s": times.at_once_s}
        print_json(asdict(found) | {"times": times and asdict(times) | in_all})
    else:
        _show(chosen, found, times)


def _dimension(recipe: Recipe) -> int:
    from evenreel.features import read_manifest

    folder = Path(recipe.data.features or "")
    if recipe.data.features is None or not folder.is_dir():
        what = "features" if recipe.backbone is None else "towers"
        raise UsageError(f"The {what} of the recipe are not read, so nobody knows their length; give --dimension.")
    manifest = read_manifest(folder)
    streams = manifest.chosen(folder, recipe.data.streams)
    return sum(stream.dimension for stream in streams) or manifest.dimension


def _measured(recipe: Recipe) -> tuple[Times, int, LearnedFrom]:
    """How long epochs take, D of the features, and what the matcher is fitted to."""
    from evenreel.encoders.towers import usable_device
    from evenreel.training.cost import measured_times
    from evenreel.training.material import learned_from, load_material

    usable_device(recipe.loop.device, "float32")
    with share_bar("reading the clips") as progress:
        material = load_material(recipe, progress)
    with tempfile.TemporaryDirectory() as folder, share_bar("training a few steps") as progress:
        times = measured_times(recipe, material, Path(folder), progress)
    return times, material.dimension, learned_from(material)


def _show(recipe: Recipe, found: RecipeCost, times: Times | None) -> None:
    out, shape = console(), found.shape
    out.print(
        f"{safe(recipe.matcher.name)}, counted on {shape.batch:,} captions of {shape.words} words and {shape.batch:,} "
        f"clips of {shape.frames} frames of {shape.dimension:,} numbers"
    )
    out.print(_costs("one training" if found.whole != found.one else "", found.one))
    if found.whole != found.one:
        out.print(_costs(f"{found.members} matchers, fused", found.whole))
    out.print(f"Tables of words, roles or places, apart: {found.whole.embeddings:,} numbers.")
    if more := found.whole.training_parameters:
        out.print(f"Only training has {count(more, 'parameter')} more, such as the temperature or decoders.")
    if found.words_unread:
        out.print("Vectors of the captions' words come on top; --measure reads them.")
    bigger = f", {_amount(GALLERY * found.one.videos.row_bytes)}B of one training" if found.members > 1 else ""
    out.print(f"A gallery of {GALLERY:,} such clips takes {_amount(GALLERY * found.whole.videos.row_bytes)}B{bigger}.")
    if recipe.backbone is not None:
        out.print("The towers of the backbone are not counted.")
    if times is not None:
        out.print(_epochs(times))
        if len(times.members) > 1:
            out.print("At once: each on a device of its own, so that the longest counts.")
        if recipe.members is not None and recipe.members.begin == "full":
            out.print("Members begin with the weights of the one training, whose epochs come before theirs.")


def _costs(title: str, cost: Cost) -> Table:
    table = table_of(("", "parameters", "multiply-adds", "kept of each"), title)
    for name, side in (("captions", cost.captions), ("clips", cost.videos)):
        table.add_row(name, f"{side.parameters:,}", _amount(side.multiply_adds), f"{_amount(side.row_bytes)}B")
    table.add_row("a pair", f"{cost.pair_parameters:,}", _amount(cost.pair_multiply_adds), "")
    table.add_row("in all", f"{cost.parameters:,}", "", "")
    return table


def _epochs(times: Times) -> Table:
    table = table_of(("an epoch", "captions", "steps", "seconds", "against one training"))
    alone = times.alone
    table.add_row(
        "one training, on all clips", f"{alone.captions:,}", f"{alone.steps:,.1f}", f"{alone.seconds:,.1f}", ""
    )
    for number, one in enumerate(times.members, 1):
        table.add_row(f"member {number}", f"{one.captions:,}", f"{one.steps:,.1f}", f"{one.seconds:,.1f}", "")
    for name, seconds in (("members in turn", times.in_turn_s), ("members at once", times.at_once_s)):
        if times.members:
            table.add_row(name, "", "", f"{seconds:,.1f}", f"{seconds / alone.seconds - 1:+.1%}")
    return table


def _amount(value: float) -> str:
    """A number with three digits and the letter of its thousands.

    >>> _amount(4_081_582_080), _amount(41_060), _amount(512), _amount(999_950)
    ('4.08 G', '41.1 k', '512 ', '1 M')
    """
    for letter in ("", "k", "M", "G", "T"):
        if value < 999.5 or letter == "T":
            break
        value /= 1000
    return f"{value:.3g} {letter}"
