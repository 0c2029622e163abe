"""`evenreel planted`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.options import MOST_PROCESSES, MOST_SEED, JsonOption
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.planted import BiasName, PlantedCorpus, PlantedStatistics, PlantSettings

LEAST_S, MOST_S = 0.5, 30.0
EDIT_HELP = (
    "Write only the test split, after this edit and under the same ids, for the audits visual, textual and overlay: "
    "background-swapped or -removed, entity-..., motion-..., control; of 'textual' also style-..., content-..., "
    "caption-control; of 'scene_text' overlay, overlay-control."
)


def planted(
    bias: Annotated[str, typer.Argument(help="visual, textual, length, source, domain or scene_text.")],
    out: Annotated[Path, typer.Option(help="Folder that the corpus is written to.")],
    strength: Annotated[
        float,
        typer.Option(
            help="0 plants nothing; 1 leaves no exception in training. Only 'scene_text' is in the test split too."
        ),
    ] = 0.9,
    clips: Annotated[
        int, typer.Option(help="Clips of all splits together; each split is rounded down to whole groups.")
    ] = 2_000,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The same seed gives the same bytes.")] = 0,
    short: Annotated[
        tuple[float, float] | None, typer.Option(help="Shortest and longest short clip of 'length', in seconds.")
    ] = None,
    long: Annotated[tuple[float, float] | None, typer.Option(help="Likewise its long clips.")] = None,
    mirrors: Annotated[
        bool,
        typer.Option("--mirrors", help="Every clip of 'source' beside its mirror, in all splits; needs --strength 0."),
    ] = False,
    signs: Annotated[
        int, typer.Option(help="Signs of a clip of 'scene_text', one after the other; captions name the word on one.")
    ] = 1,
    difficulty: Annotated[
        str, typer.Option(help="Of 'visual', 0 to 1 or hard, which is 1: smaller subjects among others like them.")
    ] = "0",
    new_annotators: Annotated[
        bool,
        typer.Option(
            "--new-annotators", help="Of 'textual': habits tell nothing of a clip, and test captions have new ones."
        ),
    ] = False,
    misread: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Of 'scene_text': share of the characters misread, in each twelfth of a clip anew."
        ),
    ] = 0.0,
    traced_signs: Annotated[
        bool, typer.Option("--traced-signs", help="Of 'scene_text': the colour of a sign's board tells its word.")
    ] = False,
    mirror_tint: Annotated[
        float,
        typer.Option(min=0, max=1, help="Of 'source': a magenta cast of all generated clips, as a share of the range."),
    ] = 0.0,
    edit: Annotated[str | None, typer.Option(help=EDIT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=0, max=MOST_PROCESSES, help="Processes; 0: one a core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Render a corpus of videos with one known bias; a broken-off run goes on."""
    from dataclasses import asdict, replace

    from evenreel.planted import (
        Harder,
        admission_line,
        admission_of,
        described,
        page_of,
        plan_corpus,
        write_corpus,
    )

    harder = Harder(_difficulty(difficulty), new_annotators, misread, traced_signs, mirror_tint)
    settings = replace(_settings(bias, short, long, signs), mirrors=mirrors, harder=harder)
    plan = plan_corpus(cast("BiasName", bias), strength, clips, seed, settings)
    told = described(plan, edit) if edit else plan
    with share_bar(f"rendering {len(told.clips):,} clips") as report:
        rendered = write_corpus(plan, out, workers, lambda there, total: report(there / total), edit)
    found = admission_of(plan)
    if as_json:
        admitted = None if found is None else found.admitted
        admission = {"admitted": admitted, "admission": None if found is None else asdict(found)}
        print_json({"corpus": out, "rendered": rendered, **page_of(told, edit), **admission})
    else:
        _show(told, out, rendered)
        console().print(safe(admission_line(found)))


def _settings(
    bias: str, short: tuple[float, float] | None, long: tuple[float, float] | None, signs: int
) -> PlantSettings:
    from dataclasses import replace

    from evenreel.planted import PlantSettings

    if (short or long) and bias != "length":
        raise UsageError(f"--short and --long are lengths of the bias 'length', not of {bias!r}; leave them out.")
    if signs != 1 and bias != "scene_text":
        raise UsageError(f"--signs is of the bias 'scene_text', not of {bias!r}; leave it out.")
    for name, span in (("--short", short), ("--long", long)):
        if span and not LEAST_S <= span[0] <= span[1] <= MOST_S:
            raise UsageError(
                f"{name} is {span[0]:g} {span[1]:g}; give the shortest and the longest clip, in that order, between "
                f"{LEAST_S:g} and {MOST_S:g} seconds."
            )
    settings = PlantSettings(signs=signs)
    return replace(settings, short_s=short or settings.short_s, long_s=long or settings.long_s)


def _difficulty(given: str) -> float:
    from evenreel.planted.harder import HARD

    try:
        return HARD if given == "hard" else float(given)
    except ValueError:
        raise UsageError(f"--difficulty is hard or a number from 0 to 1; it was {given!r}.") from None


def _show(plan: PlantedCorpus, out: Path, rendered: int) -> None:
    from rich.table import Table

    from evenreel.planted import planted_statistics

    captions = sum(len(clip.caption_ids) for clip in plan.clips)
    kept = f" ({rendered:,} rendered now)" if rendered < len(plan.clips) else ""
    console().print(f"Wrote {safe(out)}: {len(plan.clips):,} clips{kept}, {captions:,} captions.")
    table = Table(
        "split", "counted", "as planted", "association", "information", "mean length", box=None, padding=(0, 2)
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for row in planted_statistics(plan):
        table.add_row(row.split, *_cells(row))
    console().print(table)
    console().print(
        "as planted: share that agrees with the bias, by it or by chance. association: Cramér's V of the two things "
        "it pairs. information: of the one about the other, above what chance gives in a sample of this size."
    )


def _cells(row: PlantedStatistics) -> list[str]:
    association = "" if row.association is None else f"{row.association:.2f}"
    bits = ""
    if row.information_bits is not None and row.chance_bits is not None:
        bits = f"{max(0.0, row.information_bits - row.chance_bits):.2f} bits"
    return [f"{row.count:,}", f"{100 * row.planted_share:.0f} %", association, bits, f"{row.mean_length_s:.1f} s"]
