"""`evenreel fuse`: the scores of several systems in, those of one system out, which says what all of them use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli.evaluate.files import check_place, system_names
from evenreel.cli.options import JsonOption
from evenreel.cli.progress import share_bar
from evenreel.cli.score.show import Scored, check_table
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.evaluation import Validation
    from evenreel.evaluation.fused import FusedScores, Way
    from evenreel.evaluation.settings import Direction
    from evenreel.types import Corpus, ScoreBlocks

BY_HELP = (
    "standard: less their mean and over their deviation; sum: as they are; rank: 1 / (60 + rank), summed (reciprocal "
    "rank fusion)."
)
WEIGHT_HELP = "Of each system in turn, adding up to 1; given again for each.  \\[default: learned, else equal]"
VALIDATION_HELP = (
    "Scores of each system in turn on other captions, given again for each: scales and, with --corpus, weights are "
    "those that suit these best."
)
CORPUS_HELP = "Folder of the corpus the scores are of; .npz files alone can do without."
DIRECTION_HELP = "t2v or v2t: whose searches --by rank is for.  \\[default: t2v]"


def fuse(
    scores: Annotated[list[Path], typer.Argument(help="Two files of scores or more.")],
    out: Annotated[Path, typer.Option(help="Where the fused scores go, an .npz.")],
    by: Annotated[str, typer.Option(help=BY_HELP)] = "standard",
    weight: Annotated[list[float] | None, typer.Option(help=WEIGHT_HELP)] = None,
    validation_scores: Annotated[list[Path] | None, typer.Option(help=VALIDATION_HELP)] = None,
    corpus: Annotated[Path | None, typer.Option(help=CORPUS_HELP)] = None,
    split: Annotated[str | None, typer.Option(help="Part of the corpus the scores are of, such as test.")] = None,
    validation_split: Annotated[
        str | None, typer.Option(help="Part of the corpus the validation scores are of, such as val.")
    ] = None,
    direction: Annotated[str | None, typer.Option(help=DIRECTION_HELP)] = None,
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
    paths, held_out = system_names(scores), validation_scores or []
    if out.resolve() in {path.resolve() for path in (*scores, *held_out)}:
        raise UsageError(f"{out} is one of the files to fuse; give --out another name.")
    if (split or validation_split) and corpus is None:
        raise UsageError("--split and --validation-split are parts of a corpus; name its folder with --corpus.")
    if validation_split and not held_out:
        raise UsageError("--validation-split is of --validation-scores; give these, or leave it out.")
    if direction and by != "rank":
        raise UsageError("--direction says whose ranks are fused; sums serve both, so leave it out or add --by rank.")
    check_place(out)
    whole = None if corpus is None else load_corpus(corpus)
    systems = {name: _read(path, whole, split) for name, path in paths.items()}
    validation = _validation(held_out, whole, validation_split, learn=not weight)
    fused = fuse_scores(
        systems,
        cast("Way", by),
        weights=weight or (),
        validation=validation,
        direction=cast("Direction", direction or "t2v"),
    )
    check_table(out, Scored(len(fused.caption_ids), len(fused.video_ids)))
    with share_bar("fusing") as progress:
        save_scores(fused, out, progress)
    _show(out, fused, list(paths), as_json)


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


def _validation(paths: Sequence[Path], corpus: Corpus | None, split: str | None, *, learn: bool) -> Validation | None:
    from evenreel.corpus.relevance import own_clip
    from evenreel.evaluation import Validation

    if not paths:
        return None
    systems = [_read(path, corpus, split) for path in paths]
    if not learn:
        return Validation(systems)
    if corpus is None:
        raise UsageError(
            "Weights are learned from what answers the captions; name the corpus with --corpus, or give weights with "
            "--weight."
        )
    return Validation(systems, own_clip(corpus, systems[0].caption_ids, systems[0].video_ids))


def _show(out: Path, fused: FusedScores, names: Sequence[str], as_json: bool) -> None:
    captions, clips = len(fused.caption_ids), len(fused.video_ids)
    rows = _rows(fused, names)
    if as_json:
        print_json({"scores": out, "captions": captions, "clips": clips, "systems": rows, "uses": fused.about.uses})
        return
    terminal = console()
    terminal.print(
        f"Fused {len(names)} systems of {count(captions, 'caption')} with {count(clips, 'clip')} each into {safe(out)}."
    )
    for row in rows:
        scale = f", mean {row['mean']:.3g} and deviation {row['scale']:.3g} taken out" if "scale" in row else ""
        terminal.print(f"  {safe(row['name'])}: weight {row['weight']:.3f}{scale}")
    for use in fused.about.uses:
        terminal.print(f"  [yellow]uses {safe(use)}[/]: its scores say so, wherever they are shown")


def _rows(fused: FusedScores, names: Sequence[str]) -> list[dict[str, Any]]:
    """What is done to each system."""
    fusion = fused.fusion
    rows: list[dict[str, Any]] = [
        {"name": name, "weight": weight} for name, weight in zip(names, fusion.weights, strict=True)
    ]
    for row, mean, scale in zip(rows, fusion.means, fusion.scales, strict=False):
        row |= {"mean": mean, "scale": scale}
    return rows
