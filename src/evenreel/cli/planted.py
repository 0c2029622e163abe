"""`evenreel planted`: a corpus of rendered videos with one known bias."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.options import MOST_PROCESSES, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.config import OptionForm
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.planted import BiasName, PlantedCorpus

LEAST_S, MOST_S = 0.5, 30.0
EDIT_HELP = (
    "Write only the test split, after this edit and under the same ids, for the audits visual, textual and overlay: "
    "background-swapped or -removed, entity-..., motion-..., control; voiceover, voiceover-control; of 'textual' also "
    "style-..., content-..., caption-control; of 'scene_text' overlay, overlay-control."
)


@dataclass(frozen=True)
class PlantOptions:
    """The bias of a planted corpus, and the world that it is planted in.

    Attributes:
        bias: `visual`, `textual`, `length`, `source`, `domain` or `scene_text`.
        strength: 0 plants nothing; 1 leaves no exception in training. Only `scene_text` is in the test split too.
        clips: clips of all splits together; each split is rounded down to whole groups.
        seed: seed of all that is drawn; the same one gives the same bytes.
        short: shortest and longest short clip of `length`, in seconds; None for 1 and 2.5.
        long: shortest and longest long clip of `length`, in seconds; None for 5 and 8.
        mirrors: every clip of `source` beside its mirror, in all splits; needs --strength 0.
        signs: signs of a clip of `scene_text`, one after the other; captions name the word on one.
        spoken: for `scene_text`: share of the clips whose word a voice says instead of a sign; needs espeak-ng.
        difficulty: for `visual`: from 0 to 1, or hard, which is 1: smaller subjects among others like them.
        new_annotators: for `textual`: habits tell nothing of a clip, and test captions have new ones.
        misread: for `scene_text`: share of the characters misread, in each twelfth of a clip anew.
        traced_signs: for `scene_text`: the colour of a sign's board tells its word.
        mirror_tint: for `source`: a magenta cast of all generated clips, as a share of the range.

    Raises:
        UsageError: an option is of another bias, lengths are not in order, or the difficulty is no number.
    """

    bias: Annotated[str, typer.Argument()]
    strength: float = 0.9
    clips: int = 2_000
    seed: int = 0
    short: tuple[float, float] | None = None
    long: tuple[float, float] | None = None
    mirrors: bool = False
    signs: int = 1
    spoken: Annotated[float, OptionForm(least=0, most=1)] = 0.0
    difficulty: str = "0"
    new_annotators: bool = False
    misread: Annotated[float, OptionForm(least=0, most=1)] = 0.0
    traced_signs: bool = False
    mirror_tint: Annotated[float, OptionForm(least=0, most=1)] = 0.0

    def __post_init__(self) -> None:
        if (self.short or self.long) and self.bias != "length":
            raise UsageError(
                f"--short and --long are lengths of the bias 'length', not of {self.bias!r}; leave them out."
            )
        for option, given in (("--signs", self.signs != 1), ("--spoken", self.spoken)):
            if given and self.bias != "scene_text":
                raise UsageError(f"{option} is of the bias 'scene_text', not of {self.bias!r}; leave it out.")
        for name, span in (("--short", self.short), ("--long", self.long)):
            if span and not LEAST_S <= span[0] <= span[1] <= MOST_S:
                raise UsageError(
                    f"{name} is {span[0]:g} {span[1]:g}; give the shortest and the longest clip, in that order, "
                    f"between {LEAST_S:g} and {MOST_S:g} seconds."
                )

    def plan(self) -> PlantedCorpus:
        """Plan the corpus; nothing is written yet.

        Raises:
            UsageError: see `evenreel.planted.plan_corpus`.
        """
        from evenreel.planted import Harder, PlantSettings, plan_corpus
        from evenreel.planted.biases import HARD

        try:
            difficulty = HARD if self.difficulty == "hard" else float(self.difficulty)
        except ValueError:
            raise UsageError(f"--difficulty is hard or a number from 0 to 1; it was {self.difficulty!r}.") from None
        harder = Harder(difficulty, self.new_annotators, self.misread, self.traced_signs, self.mirror_tint)
        usual = PlantSettings(mirrors=self.mirrors, signs=self.signs, spoken=self.spoken, harder=harder)
        settings = replace(usual, short_s=self.short or usual.short_s, long_s=self.long or usual.long_s)
        return plan_corpus(cast("BiasName", self.bias), self.strength, self.clips, self.seed, settings)


def planted(
    out: Annotated[Path, typer.Option(help="Folder that the corpus is written to.")],
    options: PlantOptions = from_settings(PlantOptions),
    edit: Annotated[str | None, typer.Option(help=EDIT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=0, max=MOST_PROCESSES, help="Processes; 0: one a core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Render a corpus of videos with one known bias; a broken-off run goes on."""
    from evenreel.planted import admission_line, admission_of, described, page_of, write_corpus

    plan = options.plan()
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


def _show(plan: PlantedCorpus, out: Path, rendered: int) -> None:
    from evenreel.planted import planted_statistics

    captions = sum(len(clip.caption_ids) for clip in plan.clips)
    kept = f" ({rendered:,} rendered now)" if rendered < len(plan.clips) else ""
    console().print(f"Wrote {safe(out)}: {len(plan.clips):,} clips{kept}, {captions:,} captions.")
    table = table_of(("split", "counted", "as planted", "association", "information", "mean length"))
    for row in planted_statistics(plan):
        association, bits = "" if row.association is None else f"{row.association:.2f}", ""
        if row.information_bits is not None and row.chance_bits is not None:
            bits = f"{max(0.0, row.information_bits - row.chance_bits):.2f} bits"
        share, length = f"{100 * row.planted_share:.0f} %", f"{row.mean_length_s:.1f} s"
        table.add_row(row.split, f"{row.count:,}", share, association, bits, length)
    console().print(table)
    console().print(
        "as planted: share that agrees with the bias, by it or by chance. association: Cramér's V of the two things "
        "it pairs. information: of the one about the other, above what chance gives in a sample of this size."
    )
