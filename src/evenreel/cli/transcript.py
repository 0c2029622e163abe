"""`evenreel transcript`: what is said in a clip, as subtitles or text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evenreel.cli.options import CacheOption, PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import console, print_json
from evenreel.config import default_library
from evenreel.errors import NotFoundError
from evenreel.wording import count, printable

if TYPE_CHECKING:
    from evenreel.speech import Transcript

Form = Literal["srt", "vtt", "txt", "json"]


def transcript(
    clip: Annotated[str, typer.Argument(help="Id of a clip, as search prints it with --json, or path of a video.")],
    library: PlaceOption = None,
    form: Annotated[Form, typer.Option("--format", help="json has all transcripts, with the times of words.")] = "txt",
    language: Annotated[
        str | None, typer.Option(help="Language of the transcript, such as en or pt-BR; the first one otherwise.")
    ] = None,
    snapshot_cache: CacheOption = None,
) -> None:
    """Print what is said in a clip, by its subtitle files and streams."""
    from evenreel.library import open_library
    from evenreel.speech.subtitles import is_in

    with open_library(fetched(library or default_library(), snapshot_cache), vision=False) as opened:
        found = opened.transcripts(clip)
    spoken = [one for one in found if one.utterances and is_in(one, language)]
    if not spoken:
        raise NotFoundError(_nothing(clip, found, language))
    if form == "json":
        print_json([asdict(one) for one in spoken])
        return
    chosen, *others = spoken
    console().out(_written(chosen, form), end="", highlight=False)
    if others:
        also = ", ".join(dict.fromkeys(one.language or "unknown" for one in others))
        typer.echo(
            f"{count(len(others), 'more transcript')} ({printable(also)}); choose one with --language.", err=True
        )


def _written(transcript: Transcript, form: Form) -> str:
    from evenreel.speech.subtitles import as_srt, as_text, as_vtt

    return {"srt": as_srt, "vtt": as_vtt, "txt": as_text}[form](transcript.utterances)


def _nothing(clip: str, found: tuple[Transcript, ...], language: str | None) -> str:
    said = sorted({one.language or "unknown" for one in found if one.utterances})
    if said:
        return f"Nothing is said in {language} in {clip[:200]}; there are transcripts in: {', '.join(said)}."
    problems = [
        one.problem if one.source == "stream" else f"{Path(one.origin).name}: {one.problem}"
        for one in found
        if one.problem
    ]
    why = f" ({'; '.join(problems)})" if problems else ""
    return (
        f"Nothing is known of what is said in {clip[:200]}{why}; put subtitles beside the video (.srt, .vtt, .ass) and "
        "run evenreel index again."
    )
