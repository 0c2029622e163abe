"""`evenreel score`: a matcher and the features of a corpus in, scores for `evenreel evaluate` and `audit` out."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluation_files import check_place
from evenreel.cli.options import DeviceOption, JsonOption
from evenreel.cli.probes import Labelled, Probe
from evenreel.errors import ScoresError, UsageError

if TYPE_CHECKING:
    from evenreel.audits.frame_order import FrameOrder, OneFrame, OrderStage
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.cli.probes import Which

LARGE_BYTES = 2**30
SCORE_BYTES = 4
MANY = 10
CHECKPOINT_HELP = "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot)."
OUT_HELP = (
    "Where the scores go: .npz with their ids, or .npy, which `evenreel evaluate` need not read whole, for a table "
    "larger than memory."
)
ORDER_HELP = "original, random or reversed: how the frames of each clip are given to the matcher."
STAGE_HELP = "sampled: move the frames that are taken; video: move all frames first, and take then."
FRAMES_HELP = "Take so many frames of each clip, in the middle of equal parts.  \\[default: all]"
RULE_HELP = "Take them of the features by this rule.  \\[default: as in training]"
PROBE_HELP = "all or generated: whose frames are moved."
SEEN_HELP = "Folder of features by the matcher's towers before their training, for one that selects scene elements."
PROBES = "Probes: what a preference is due to"


def score(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.")],
    features: Annotated[
        Path, typer.Option(help="Folder of the corpus's features, by the encoder that the matcher was trained with.")
    ],
    out: Annotated[Path, typer.Option(help=OUT_HELP)],
    split: Annotated[str | None, typer.Option(help="Part of the corpus to score, such as test.")] = None,
    seen: Annotated[Path | None, typer.Option(help=SEEN_HELP)] = None,
    device: DeviceOption = "auto",
    frame_order: Annotated[str, typer.Option(help=ORDER_HELP, rich_help_panel=PROBES)] = "original",
    probe: Annotated[str, typer.Option(help=PROBE_HELP, rich_help_panel=PROBES)] = "all",
    order_stage: Annotated[str, typer.Option(help=STAGE_HELP, rich_help_panel=PROBES)] = "sampled",
    frames: Annotated[int | None, typer.Option(min=1, help=FRAMES_HELP, rich_help_panel=PROBES)] = None,
    rule: Annotated[str | None, typer.Option(help=RULE_HELP, rich_help_panel=PROBES)] = None,
    single_frame: Annotated[
        str | None, typer.Option(help="Keep one frame: middle, first or random.", rich_help_panel=PROBES)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is random.", rich_help_panel=PROBES)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Score every caption with every clip by a matcher. Exit status 3 if clips had been set aside."""
    from evenreel.cli.waiting import share_bar
    from evenreel.corpus import load_corpus, select
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores

    if out.suffix not in (".npz", ".npy"):
        raise UsageError(f"{out} ends neither in .npz nor in .npy; give --out one of these names.")
    change = Probe(
        order=cast("FrameOrder", frame_order),
        stage=cast("OrderStage", order_stage),
        frames=frames,
        rule=rule,
        one=cast("OneFrame | None", single_frame),
        which=cast("Which", probe),
        seed=seed,
    )
    change.check(out)
    check_place(out)
    whole = load_corpus(corpus)
    pretrained = _matcher(checkpoint, features, device)
    _check_label(out, pretrained)
    part = whole if split is None else select(whole, split=split)
    with share_bar("reading the captions") as progress:
        loaded = change.load(pretrained, features, part, progress, seen=seen)
    _check_table(out, loaded)
    uses = (*pretrained.about.uses, *change.uses)
    scores = Labelled(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos), uses)
    with share_bar("scoring") as progress:
        save_scores(scores, out, progress)
    _show(out, loaded, pretrained.about.uses, as_json)
    if loaded.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _matcher(name: str, features: Path, device: str) -> Pretrained:
    """A checkpoint, or one of our matchers by its name where no folder is called so."""
    from evenreel.checkpoint import load_matcher, untrained_matcher
    from evenreel.matchers import MATCHERS

    if name in MATCHERS and not Path(name).exists():
        return untrained_matcher(name, features, device=device)
    return load_matcher(name, device=device)


def _check_label(out: Path, pretrained: Pretrained) -> None:
    """Refuse, before anything is scored, a file that cannot say what the matcher knows of a test split."""
    if out.suffix == ".npy" and pretrained.about.uses:
        raise UsageError(
            f"The matcher was trained with {' and '.join(pretrained.about.uses)}, which an .npy cannot say; give --out "
            "a name that ends in .npz."
        )


def _check_table(out: Path, loaded: CorpusFeatures) -> None:
    """Refuse, before hours are spent, a table that cannot be written, and say how large a large one will be.

    Raises:
        ScoresError: the disk has no room for it.
        UsageError: its file names no ids, and some clips are left out.
    """
    from evenreel.library.report import count

    if out.suffix == ".npy" and loaded.set_aside:
        raise UsageError(
            f"The features leave {count(len(loaded.set_aside), 'clip')} out that had been set aside, and an .npy does "
            "not say which clips it is about; give --out a name that ends in .npz."
        )
    captions, clips = len(loaded.texts.ids), len(loaded.videos.ids)
    needed, free = SCORE_BYTES * captions * clips, shutil.disk_usage(out.parent).free
    size = f"The scores of {captions:,} captions and {clips:,} clips take {needed / 2**30:.1f} GiB"
    if needed > free:
        raise ScoresError(f"{size}, and {out.parent} has {free / 2**30:.1f} GiB left; choose another place.")
    if needed > LARGE_BYTES:
        typer.echo(f"{size} in {out}.", err=True)


def _show(out: Path, loaded: CorpusFeatures, uses: tuple[str, ...], as_json: bool) -> None:
    from evenreel.cli.show import console, list_clips_aside, print_json, safe
    from evenreel.library.report import count

    captions, clips, aside = len(loaded.texts.ids), len(loaded.videos.ids), loaded.set_aside
    if as_json:
        result = {"scores": str(out), "captions": captions, "clips": clips, "notices": list(loaded.notices)}
        result["uses"] = list(uses)
        print_json(result | {"set_aside": [asdict(one) for one in aside]})
        return
    terminal = console()
    terminal.print(f"Scored {count(captions, 'caption')} with {count(clips, 'clip')} each into {safe(out)}.")
    for use in uses:
        terminal.print(
            f"  [yellow]the matcher was trained with {safe(use)}[/]: its scores say so, wherever they are shown"
        )
    for notice in loaded.notices:
        terminal.print(f"  note: {safe(notice)}")
    if aside:
        terminal.print(
            f"[yellow]Without {count(len(aside), 'clip')} that had been set aside[/]: evaluate with --partial."
        )
    list_clips_aside(terminal, aside[:MANY])
    if len(aside) > MANY:
        terminal.print(f"  and {len(aside) - MANY:,} more (--json lists them all)")
