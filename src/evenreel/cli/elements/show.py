"""What `evenreel elements` prints: the dictionary, what clips got of it, and what its audit says in short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.report.result import effect_words
from evenreel.wording import count

if TYPE_CHECKING:
    from rich.console import Console

    from evenreel.audits.dictionary import ChosenElements
    from evenreel.features import SetAside
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.language.scene_dictionary import SceneDictionary
    from evenreel.report.result import AuditResult

_PHRASES, _MANY = 8, 10


@dataclass(frozen=True, eq=False)
class LookedAt:
    """Scene elements of clips, the file that keeps them, and clips that had been skipped."""

    chosen: ChosenElements
    path: Path
    set_aside: Sequence[SetAside]


@dataclass(frozen=True, eq=False)
class Made:
    """Results of `evenreel elements`; None for one that was not asked for.

    Attributes:
        place: folder of the dictionary.
        dictionary: entities and activities, with their source.
        embedded: the dictionary with the embeddings of its phrases.
        clips: scene elements of the clips.
        audit: audit of the dictionary.
    """

    place: Path
    dictionary: SceneDictionary
    embedded: EmbeddedDictionary | None
    clips: LookedAt | None
    audit: AuditResult | None


def show_elements(made: Made, report: Path | None, as_json: bool) -> None:
    """Print what `evenreel elements` made, whole as JSON or in short for people."""
    if as_json:
        print_json(_plain(made) | {"report": report})
        return
    out = console()
    _show_dictionary(out, made)
    if made.clips is not None:
        _show_clips(out, made.clips)
    if made.audit is not None:
        _show_audit(out, made.audit)
    if report:
        out.print(f"The page with tables and figures: {safe(report)}")


def _plain(made: Made) -> dict[str, Any]:
    dictionary, clips = made.dictionary, made.clips
    return {
        "dictionary": made.place,
        "digest": dictionary.digest,
        "entities": len(dictionary.entities),
        "activities": len(dictionary.activities),
        "captions": dictionary.captions,
        "source": dictionary.source,
        "uses": dictionary.uses,
        "notices": dictionary.notices,
        "encoder_id": made.embedded.encoder_id if made.embedded else None,
        "clips": len(clips.chosen.top.clip_ids) if clips else None,
        "elements": clips.path if clips else None,
        "set_aside": clips.set_aside if clips else [],
        "audit": made.audit.to_json() if made.audit else None,
    }


def _show_dictionary(out: Console, made: Made) -> None:
    dictionary = made.dictionary
    sizes = f"{len(dictionary.entities):,} entities and {len(dictionary.activities):,} activities"
    read = f" ({count(dictionary.captions, 'caption')})" if dictionary.captions else ""
    out.print(f"{sizes} in {safe(made.place)}: {safe(dictionary.source)}{read}.")
    for notice in dictionary.notices if made.audit is None else ():  # an audit tells them too
        out.print(f"[yellow]{safe(notice)}[/]")
    for kind, phrases in (("entities", dictionary.entities), ("activities", dictionary.activities)):
        more = ", ..." if len(phrases) > _PHRASES else ""
        if phrases:
            out.print(f"  {kind}: {safe(', '.join(phrases[:_PHRASES]))}{more}")
    if made.embedded is None:
        out.print("  not embedded: give --features or --model for that")
    else:
        out.print(f"  embedded by {safe(made.embedded.encoder_id)}")


def _show_clips(out: Console, clips: LookedAt) -> None:
    top = clips.chosen.top
    kept = ((top.entities.shape[1], "entities"), (top.activities.shape[1], "activities"))
    sizes = " and ".join(f"{number} {kind}" for number, kind in kept if number)
    out.print(f"The nearest {sizes} of {count(len(top.clip_ids), 'clip')}: {safe(clips.path)}")
    list_aside(clips.set_aside, WITHOUT, most=_MANY)


def _show_audit(out: Console, audit: AuditResult) -> None:
    out.print(safe(audit.sentence))
    out.print(f"[dim]{safe(effect_words(audit))}[/]")
    for notice in audit.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
