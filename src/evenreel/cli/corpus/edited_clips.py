"""`evenreel corpus edit`: clips without their background, their thing or their motion, for `evenreel audit visual`.

With `--edit`, clips with words of other clips written on them, for `evenreel audit overlay`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import MOST_SEED, CorpusArgument, DeviceOption, JsonOption, VideosOption, media_limits
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.config import DEFAULT_MODEL, MediaLimits
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.corpus.distractors import OverlayName
    from evenreel.edits.edited_clips import ClipEdit, ClipEditReport
    from evenreel.edits.settings import RemovalSettings, Removed
    from evenreel.language.taggers import TaggerName

REMOVE_HELP = "background, entity (what the clip's captions name) or motion."
PLACE_HELP = "What backgrounds are, in words, such as 'grass field'; again for another. They stay where entities go."
CONTROL_HELP = "The control: as many patches elsewhere; of motion, the clip as it is."
SHARE_HELP = "Most of a clip's patches that go, those that show it best."
EDIT_HELP = (
    "Instead of --remove: overlay, a banner with words of another clip; overlay-control, as many letters that say "
    "nothing."
)
NO_TEXTS = (
    "Words on screen that come with the corpus are left out, for they are not all that the new clips show, nor timed "
    "as these are: have the frames read (--words ocr), of clips without the edit too."
)
_FOR_REMOVAL = ("place", "control", "share", "model", "tagger", "device")
MODEL_HELP = "Model (clip or siglip) that finds what goes: a hub id, a folder, or 'builtin'."


def edit_corpus(
    context: typer.Context,
    folder: CorpusArgument,
    out: Annotated[Path, typer.Option(help="Folder of the corpus of edited clips.")],
    remove: Annotated[str | None, typer.Option(help=REMOVE_HELP)] = None,
    edit: Annotated[str | None, typer.Option(help=EDIT_HELP)] = None,
    place: Annotated[list[str] | None, typer.Option(help=PLACE_HELP)] = None,
    control: Annotated[bool, typer.Option("--control", help=CONTROL_HELP)] = False,
    share: Annotated[float, typer.Option(help=SHARE_HELP)] = 0.5,
    fps: Annotated[float, typer.Option(min=0.001, max=1_000.0, help="Most frames a second of the new clips.")] = 4.0,
    split: Annotated[str | None, typer.Option(help="Only this part of the corpus, such as test.")] = None,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = DEFAULT_MODEL,
    tagger: Annotated[str, typer.Option(help="auto, pattern or spacy: finds what captions name.")] = "auto",
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of where the control paints; of whose words go where.")
    ] = 0,
    videos: VideosOption = None,
    device: DeviceOption = "auto",
    limits: MediaLimits = from_settings(media_limits),
    as_json: JsonOption = False,
) -> None:
    """Paint over one thing in every clip, or write on it; ids and captions stay. Exit status 3: some were set aside."""
    from evenreel.corpus import load_corpus, load_texts, save_texts, select
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.edits.edited_clips import edit_clips
    from evenreel.edits.overlay import Overlay, OverlaySettings, distractor_words
    from evenreel.edits.settings import ClipEditSettings

    if (remove is None) == (edit is None):
        raise UsageError(
            "Say what becomes of the clips: --remove background, entity or motion, or --edit overlay or "
            "overlay-control, and not both."
        )
    what: RemovalSettings | OverlaySettings
    if edit is not None:
        _check_removes_nothing(context)
        what = OverlaySettings(cast("OverlayName", edit), seed)
    else:
        from evenreel.edits.removal import Removal, caption_entities
        from evenreel.edits.settings import RemovalSettings
        from evenreel.encoders import load_encoder
        from evenreel.language import load_tagger

        what = RemovalSettings(cast("Removed", remove), control, tuple(place or ()), share, seed)
        chosen = load_tagger(cast("TaggerName", tagger))
    settings = ClipEditSettings(videos or folder, fps, limits)
    whole = load_corpus(folder)
    corpus = whole if split is None else select(whole, split=split)
    with share_bar(f"editing {corpus.clips.height:,} clips") as progress:
        notices: tuple[str, ...] = ()
        made: ClipEdit
        if isinstance(what, OverlaySettings):
            lent = distractor_words(corpus, load_texts(folder), seed)
            corpus, made, notices = lent.mark(corpus, what.edit), Overlay(lent.words, what), tuple(lent.notices)
        else:
            encoder = None if what.removed == "motion" else load_encoder(model, device=device)
            made = Removal(encoder, caption_entities(corpus, chosen), what)
        report = edit_clips(corpus, out, made, settings, progress)
    copy_class_names(folder, out)
    report.notices += [*notices, *([NO_TEXTS] if load_texts(folder) is not None else [])]
    save_texts(None, out)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _check_removes_nothing(context: typer.Context) -> None:
    """Refuse what says how --remove finds what goes."""
    sources = {option: context.get_parameter_source(option) for option in _FOR_REMOVAL}
    given = [f"--{option}" for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(
            f"With --edit, leave {' and '.join(given)} out: that is about what --remove takes away; the control of "
            "--edit overlay is overlay-control."
        )


def _show(report: ClipEditReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    out = console()
    there = f", {report.unchanged:,} there already" if report.unchanged else ""
    out.print(f"Wrote {safe(report.folder)}: {count(report.written, 'clip')} in {report.seconds:.1f} s{there}.")
    list_aside(report.set_aside, more=" (tried again the next time)")
    for notice in report.notices:
        out.print(safe(notice))
