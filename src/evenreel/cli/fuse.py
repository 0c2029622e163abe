"""`evenreel fuse`: the scores of several systems in, those of one system out, which says what all of them use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli.evaluate.command import check_place, system_names
from evenreel.cli.options import JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.score.command import Scored, check_table
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.evaluation import Validation
    from evenreel.evaluation.fusion import Way
    from evenreel.evaluation.metrics import Direction
    from evenreel.types import Corpus, ScoreBlocks


@dataclass(frozen=True)
class FuseOptions:
    """How `evenreel fuse` makes one system of several, and what their scores are of.

    Attributes:
        by: `standard`: less their mean and over their deviation; `sum`: as they are; `rank`: 1 / (60 + rank), summed
            (reciprocal rank fusion).
        weights: weight of each system in turn, adding up to 1; given again for each; empty for learned, else equal.
        validation_scores: scores of each system in turn on other captions, given again for each: scales and, with
            --corpus, weights are those that suit these best.
        corpus: folder of the corpus the scores are of; .npz files alone can do without.
        split: part of the corpus the scores are of, such as test.
        validation_split: part of the corpus the validation scores are of, such as val.
        direction: `t2v` or `v2t`: whose searches --by rank is for; None for t2v.

    Raises:
        UsageError: a split, the validation split or the direction is given without the option that it belongs to.
    """

    by: str = "standard"
    weights: Annotated[tuple[float, ...], OptionForm("--weight")] = ()
    validation_scores: tuple[Path, ...] = ()
    corpus: Path | None = None
    split: str | None = None
    validation_split: str | None = None
    direction: str | None = None

    def __post_init__(self) -> None:
        if (self.split or self.validation_split) and self.corpus is None:
            raise UsageError("--split and --validation-split are parts of a corpus; name its folder with --corpus.")
        if self.validation_split and not self.validation_scores:
            raise UsageError("--validation-split is of --validation-scores; give these, or leave it out.")
        if self.direction and self.by != "rank":
            raise UsageError(
                "--direction says whose ranks are fused; sums serve both, so leave it out or add --by rank."
            )


def fuse(
    scores: Annotated[list[Path], typer.Argument(help="Two files of scores or more.")],
    out: Annotated[Path, typer.Option(help="Where the fused scores go, an .npz.")],
    options: FuseOptions = from_settings(FuseOptions),
    as_json: JsonOption = False,
) -> None:
    """Make one system of several: standardised and added up, or by ranks, with weights given or learned."""
    from evenreel.corpus import load_corpus
    from evenreel.evaluation import fuse as fuse_scores
    from evenreel.evaluation import save_scores

    if out.suffix != ".npz":
        raise UsageError(
            f"{out} does not end in .npz, which keeps ids and what the scores use; give --out such a name."
        )
    paths = system_names(scores)
    if out.resolve() in {path.resolve() for path in (*scores, *options.validation_scores)}:
        raise UsageError(f"{out} is one of the files to fuse; give --out another name.")
    check_place(out)
    whole = None if options.corpus is None else load_corpus(options.corpus)
    systems = {name: _read(path, whole, options.split) for name, path in paths.items()}
    fused = fuse_scores(
        systems,
        cast("Way", options.by),
        weights=options.weights,
        validation=_validation(options, whole),
        direction=cast("Direction", options.direction or "t2v"),
    )
    check_table(out, Scored(len(fused.caption_ids), len(fused.video_ids)))
    with share_bar("fusing") as progress:
        save_scores(fused, out, progress)
    fusion, uses = fused.fusion, fused.about.uses
    rows: list[dict[str, Any]] = [
        {"name": name, "weight": weight} for name, weight in zip(paths, fusion.weights, strict=True)
    ]
    for row, mean, deviation in zip(rows, fusion.means, fusion.scales, strict=False):  # sums and ranks have none
        row |= {"mean": mean, "scale": deviation}
    captions, clips = len(fused.caption_ids), len(fused.video_ids)
    if as_json:
        print_json({"scores": out, "captions": captions, "clips": clips, "systems": rows, "uses": uses})
        return
    terminal, among = console(), f"{count(captions, 'caption')} with {count(clips, 'clip')} each"
    terminal.print(f"Fused {len(rows)} systems of {among} into {safe(out)}.")
    for row in rows:
        scale = f", mean {row['mean']:.3g} and deviation {row['scale']:.3g} taken out" if "scale" in row else ""
        terminal.print(f"  {safe(row['name'])}: weight {row['weight']:.3f}{scale}")
    for use in uses:
        terminal.print(f"  [yellow]uses {safe(use)}[/]: its scores say so, wherever they are shown")


def _read(path: Path, corpus: Corpus | None, split: str | None) -> ScoreBlocks:
    """Scores of a file, held to a corpus where there is one."""
    from evenreel.corpus import select
    from evenreel.evaluation import load_scores
    from evenreel.evaluation.scores import check_file, read_npz

    if corpus is not None:
        return load_scores(path, corpus if split is None else select(corpus, split=split), whole=corpus)
    check_file(path)
    if path.suffix.lower() != ".npz":
        raise UsageError(f"{path} is read by the ids of a corpus; name its folder with --corpus.")
    return read_npz(path)


def _validation(options: FuseOptions, corpus: Corpus | None) -> Validation | None:
    from evenreel.corpus.relevance import own_clip
    from evenreel.evaluation import Validation

    if not options.validation_scores:
        return None
    systems = [_read(path, corpus, options.validation_split) for path in options.validation_scores]
    if options.weights:
        return Validation(systems)
    if corpus is None:
        raise UsageError(
            "Weights are learned from what answers the captions; name the corpus with --corpus, or give weights with "
            "--weight."
        )
    return Validation(systems, own_clip(corpus, systems[0].caption_ids, systems[0].video_ids))
