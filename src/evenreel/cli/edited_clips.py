"""`evenreel corpus edit`: clips without their background, their thing or their motion, for `evenreel audit visual`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.corpus import corpus_app
from evenreel.cli.options import (
    DAMAGED_SHARE,
    MEMORY_MIB,
    TIMEOUT_S,
    DamageOption,
    DeviceOption,
    JsonOption,
    MemoryOption,
    TimeoutOption,
    VideosOption,
    media_limits,
)
from evenreel.config import DEFAULT_MODEL

if TYPE_CHECKING:
    from evenreel.encoders.removal import Removed
    from evenreel.features.edited_clips import ClipEditReport
    from evenreel.language.taggers import TaggerName

REMOVE_HELP = "background, entity (what the clip's captions name) or motion."
PLACE_HELP = "What backgrounds are, in words, such as 'grass field'; again for another. They stay where entities go."
CONTROL_HELP = "The control: as many patches elsewhere; of motion, the clip as it is."
SHARE_HELP = "Most of a clip's patches that go, those that show it best."
MODEL_HELP = "CLIP or SigLIP that finds what goes: a hub id, a folder, or 'builtin'."


@corpus_app.command("edit")
def edit_corpus(
    folder: Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.")],
    remove: Annotated[str, typer.Option(help=REMOVE_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the corpus of edited clips.")],
    place: Annotated[list[str] | None, typer.Option(help=PLACE_HELP)] = None,
    control: Annotated[bool, typer.Option("--control", help=CONTROL_HELP)] = False,
    share: Annotated[float, typer.Option(help=SHARE_HELP)] = 0.5,
    fps: Annotated[float, typer.Option(help="Most frames a second of the new clips.")] = 4.0,
    split: Annotated[str | None, typer.Option(help="Only this part of the corpus, such as test.")] = None,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = DEFAULT_MODEL,
    tagger: Annotated[str, typer.Option(help="auto, pattern or spacy: finds what captions name.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Of where the control paints.")] = 0,
    videos: VideosOption = None,
    device: DeviceOption = "auto",
    timeout: TimeoutOption = TIMEOUT_S,
    memory: MemoryOption = MEMORY_MIB,
    max_damage: DamageOption = DAMAGED_SHARE,
    as_json: JsonOption = False,
) -> None:
    """Paint one thing over in every clip; ids and captions stay. Exit status 3 if clips were set aside."""
    from evenreel.cli.waiting import share_bar
    from evenreel.corpus import load_corpus, select
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.encoders import load_encoder
    from evenreel.encoders.removal import Removal, RemovalSettings, caption_entities
    from evenreel.features.edited_clips import ClipEditSettings, edit_clips
    from evenreel.language import load_tagger

    what = RemovalSettings(cast("Removed", remove), control, tuple(place or ()), share, seed)
    settings = ClipEditSettings(videos or folder, fps, media_limits(timeout, memory, max_damage))
    chosen = load_tagger(cast("TaggerName", tagger))
    whole = load_corpus(folder)
    corpus = whole if split is None else select(whole, split=split)
    with share_bar(f"editing {corpus.clips.height:,} clips") as progress:
        encoder = None if remove == "motion" else load_encoder(model, device=device)
        removal = Removal(encoder, caption_entities(corpus, chosen), what)
        report = edit_clips(corpus, out, removal, settings, progress)
    copy_class_names(folder, out)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: ClipEditReport, as_json: bool) -> None:
    from evenreel.cli.show import console, list_clips_aside, print_json, safe
    from evenreel.library.report import count

    if as_json:
        print_json(asdict(report))
        return
    out = console()
    there = f", {report.unchanged:,} there already" if report.unchanged else ""
    out.print(f"Wrote {safe(report.folder)}: {count(report.written, 'clip')} in {report.seconds:.1f} s{there}.")
    if report.set_aside:
        out.print(f"[yellow]Set aside: {count(len(report.set_aside), 'clip')}[/] (tried again the next time)")
    list_clips_aside(out, report.set_aside)
