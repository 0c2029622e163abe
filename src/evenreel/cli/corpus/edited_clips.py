"""`evenreel corpus edit`: clips without their background, their thing or their motion, for `evenreel audit visual`.

With `--edit`, clips with words of other clips written on them, or said over them, for `evenreel audit overlay`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.config import DEFAULT_MODEL
from evenreel.edits.settings import ClipEditSettings, RemovalSettings
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from polars import DataFrame

    from evenreel.edits.edited_clips import ClipEdit, ClipEditReport
    from evenreel.edits.overlay import OverlaySettings
    from evenreel.edits.settings import Removed
    from evenreel.edits.voiceover import VoiceoverSettings
    from evenreel.language.taggers import TaggerName
    from evenreel.types import Corpus

NO_TEXTS = (
    "Words on screen that come with the corpus are left out, for they may not be all that the new clips show, and are "
    "not timed as these are: have the frames read (--words ocr), of clips without the edit too."
)


@dataclass(frozen=True)
class ClipChange:
    """What `evenreel corpus edit` does to every clip: paint over one thing, write words on it, or say some over it.

    Attributes:
        remove: `background`, `entity` (what the clip's captions name) or `motion`.
        edit: instead of --remove: `overlay`, a banner with words of another clip; `voiceover`, a voice (espeak-ng)
            that says its caption; `overlay-control` and `voiceover-control`, as many letters or syllables.
        place: what backgrounds are, in words, such as 'grass field'; again for another. They stay where entities go.
        control: the control: as many patches elsewhere; of motion, the clip as it is.
        share: most of a clip's patches that go, those that show it best; None for 0.5.
        model: model (clip or siglip) that finds what goes: a hub id, a folder, or `builtin`; None for
            google/siglip2-base-patch16-224.
        tagger: `auto`, `pattern` or `spacy`: finds what captions name; None for auto.
        seed: seed of where the control paints, and of whose words go where.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps; None for auto.

    Raises:
        UsageError: not exactly one of --remove and --edit is given, or --edit with an option that is for --remove.
    """

    remove: str | None = None
    edit: str | None = None
    place: tuple[str, ...] = ()
    control: bool = False
    share: float | None = None
    model: str | None = None
    tagger: str | None = None
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        if (self.remove is None) == (self.edit is None):
            raise UsageError(
                "Say what becomes of the clips: --remove background, entity or motion, or --edit overlay, voiceover, "
                "overlay-control or voiceover-control, and not both."
            )
        for_removal = ("place", "control", "share", "model", "tagger", "device")
        given = [f"--{name}" for name in for_removal if getattr(self, name) not in (None, False, ())]
        if self.edit is not None and given:
            raise UsageError(
                f"With --edit, leave {' and '.join(given)} out: that is about what --remove takes away; the control of "
                "--edit overlay is overlay-control, that of voiceover voiceover-control."
            )
        self.settings()

    def settings(self) -> RemovalSettings | OverlaySettings | VoiceoverSettings:
        """Make the settings of the edit: of taking something away, or of writing or saying words.

        Raises:
            UsageError: there is no such edit, or a value is out of its range.
        """
        if self.edit is not None:
            return self._of_words(self.edit)
        share = RemovalSettings.share if self.share is None else self.share
        return RemovalSettings(cast("Removed", self.remove), self.control, self.place, share, self.seed)

    def _of_words(self, edit: str) -> OverlaySettings | VoiceoverSettings:
        from evenreel.corpus.distractors import OVERLAYS, VOICEOVERS
        from evenreel.edits.overlay import OverlaySettings
        from evenreel.edits.voiceover import VoiceoverSettings

        if edit in VOICEOVERS:
            return VoiceoverSettings(edit, self.seed)
        if edit in OVERLAYS:
            return OverlaySettings(edit, self.seed)
        raise UsageError(f"There is no edit {edit!r} of clips; there are: {', '.join((*OVERLAYS, *VOICEOVERS))}.")


def edit_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the corpus of edited clips.")],
    clips: CorpusClips = from_settings(CorpusClips),
    change: ClipChange = from_settings(ClipChange, device=Annotated[str | None, typer.Option()]),
    settings: ClipEditSettings = from_settings(ClipEditSettings, leave_out=("videos",)),
    as_json: JsonOption = False,
) -> None:
    """Paint, write or speak over every clip; ids and captions stay. Exit status 3: some were skipped."""
    from evenreel.corpus import load_texts, save_texts
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.edits.edited_clips import edit_clips

    corpus, texts = clips.load(), load_texts(clips.folder)
    with share_bar(f"editing {corpus.clips.height:,} clips") as progress:
        corpus, edit, notices = _edit(change, corpus, texts)
        report = edit_clips(corpus, out, edit, replace(settings, videos=clips.place), progress)
    copy_class_names(clips.folder, out)
    report.notices += [*notices, *([NO_TEXTS] if texts is not None else [])]
    save_texts(None, out)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _edit(change: ClipChange, corpus: Corpus, texts: DataFrame | None) -> tuple[Corpus, ClipEdit, tuple[str, ...]]:
    """The corpus as the edit marks it, the edit itself, and what must be known of it."""
    what = change.settings()
    if not isinstance(what, RemovalSettings):
        return _with_words(what, corpus, texts)
    from evenreel.edits.removal import Removal, caption_entities
    from evenreel.encoders import load_encoder
    from evenreel.language import load_tagger

    tagger = load_tagger(cast("TaggerName", change.tagger or "auto"))
    finder = None
    if what.removed != "motion":
        finder = load_encoder(change.model or DEFAULT_MODEL, device=change.device or "auto")
    return corpus, Removal(finder, caption_entities(corpus, tagger), what), ()


def _with_words(
    what: OverlaySettings | VoiceoverSettings, corpus: Corpus, texts: DataFrame | None
) -> tuple[Corpus, ClipEdit, tuple[str, ...]]:
    """Of an edit that writes words, or says them."""
    from evenreel.edits.overlay import Overlay, OverlaySettings, distractor_words
    from evenreel.edits.voiceover import Voiceover, spoken_words

    if isinstance(what, OverlaySettings):
        lent = distractor_words(corpus, texts, what.seed)
        return lent.mark(corpus, what.edit), Overlay(lent.words, what), tuple(lent.notices)
    said = spoken_words(corpus, what.seed)
    return said.mark(corpus, what.edit), Voiceover(said.words, what), tuple(said.notices)


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
