"""What is asked of a library: `evenreel search`, `export` of what was found, and `transcript` of what is said."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import CacheOption, DeviceOption, JsonOption, PlaceOption, fetched, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import clock, console, empty_sentence, print_json, safe, show_result
from evenreel.config import RERANK_DEPTH, OptionForm, default_library
from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.files import printable
from evenreel.wording import count, seconds_of

if TYPE_CHECKING:
    from evenreel.handover import HandoverSettings
    from evenreel.handover.picks import HandoverReport, Pick
    from evenreel.library import Library
    from evenreel.library.search.alike import UnlikeClips
    from evenreel.library.search.asking import Question as LibraryQuestion
    from evenreel.library.search.result import SearchResult
    from evenreel.speech import Transcript


def as_utf8(argument: str | None) -> str | None:
    """Read an argument as UTF-8 whose bytes Python has kept as surrogates, because the locale cannot hold them."""
    if argument is None or argument.isascii():
        return argument
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument


@dataclass(frozen=True)
class Question:
    """What `evenreel search` looks for, and how it ranks clips.

    Attributes:
        query: what to look for: seen, on screen, said or heard. Put words in quotes ('"mind the gap"') to find them as
            they are written. Begin with said:, on-screen:, seen: or sounds: to search one of the four. person:NAME
            finds clips with somebody. 'A, then B' finds A followed by B; 'A without B' ranks clips that show B lower.
        k: how many clips to show at most.
        where: filter, for example "source = 'camera' and duration_s < 60".
        image: search by a picture; the query may add to it, such as "at night".
        within_s: with 'then', how many seconds may lie between the two moments; None for 30.
        right: a clip like those you look for, as CLIP or CLIP@SECONDS; may be given several times.
        wrong: a clip unlike those you look for, likewise.
        vision: False searches words alone and loads no model.
        rerank: a matcher that ranks the first clips again: its checkpoint, folder or hub id.
        rerank_depth: how many clips --rerank looks at.
        fold: whether clips that are nearly the same are under the best of them.

    Raises:
        UsageError: options exclude each other.
    """

    query: Annotated[str | None, typer.Argument(callback=as_utf8)] = None
    k: Annotated[int, OptionForm("-k")] = 10
    where: Annotated[str | None, typer.Option(callback=as_utf8)] = None
    image: Path | None = None
    vision: bool = True
    rerank: str | None = None
    rerank_depth: int = RERANK_DEPTH
    fold: bool = True
    within_s: float | None = None
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        image, rerank, within = (one is not None for one in (self.image, self.rerank, self.within_s))
        marked, blind = bool(self.right or self.wrong), not self.vision
        if self.is_empty and (marked or rerank or within or blind):
            raise UsageError(
                "--wrong, --rerank, --within and --no-vision need a sentence, a picture or an example; without any of "
                "these, the highlights are shown."
            )
        if image and (marked or within):
            raise UsageError("--image takes words beside it and no marks; leave --right, --wrong and --within out.")
        if rerank and marked:
            raise UsageError("A matcher knows of no examples; leave --rerank, or --right and --wrong, out.")
        if within:
            from evenreel.library.search.asking import Then

            if not isinstance(self.question(), Then):
                raise UsageError("--within is the gap of two moments; write a query such as 'a red bus, then a dog'.")
        if image and blind:
            raise UsageError("--image needs vision; leave --no-vision out.")
        if rerank and (blind or image):
            raise UsageError("--rerank needs a sentence and vision; leave --image and --no-vision out.")

    @property
    def is_empty(self) -> bool:
        return self.query is None and self.image is None and not self.right

    def question(self) -> LibraryQuestion:
        from evenreel.library.search.asking import Marked, read_mark, read_question

        query = self.query or ""
        if self.right or self.wrong:
            marks = [read_mark(one, right=True) for one in self.right]
            return Marked(query, (*marks, *(read_mark(one, right=False) for one in self.wrong)))
        return read_question(query) if self.within_s is None else read_question(query, self.within_s)


def search(
    asked: Question = from_settings(
        Question,
        fold=Annotated[bool, typer.Option("--no-fold", help="Show clips that are nearly the same one by one.")],
    ),
    library: PlaceOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the weaker matches too.")] = False,
    device: DeviceOption = "auto",
    snapshot_cache: CacheOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find clips, each with its best moment and the reason. Without a query: highlights, clips unlike the rest."""
    place = library or default_library()
    if told := _of_server(place, asked, device, marks=not as_json):
        show_result(told, as_json, others=everything)
        return
    from evenreel.library import open_library

    place = fetched(place, snapshot_cache)
    with open_library(place, device=device, vision=asked.vision) as opened:
        if asked.is_empty:
            _show_unlike(opened.highlights(None, asked.k, asked.where), as_json)
            return
        search = _search(opened, asked, device)
        found = opened.folded(search, asked.k) if asked.fold else search(asked.k)
        if asked.vision and (unknown := opened.unknown_to_model()) is not None:
            found = replace(found, notices=(unknown, *found.notices))
        if not found.hits and not (held := opened.stats()).files:
            raise LibraryError(empty_sentence(held))
    show_result(found, as_json, others=everything)


def _of_server(place: Path, asked: Question, device: str, *, marks: bool = False) -> SearchResult | None:
    """What a running server finds, as this process would: no examples, and no filter by `path`, which it has cut."""
    others = asked.image, asked.rerank, *asked.right, *asked.wrong
    if asked.query is None or any(others) or not asked.vision or "path" in (asked.where or "").lower():
        return None
    from evenreel.server.local import ask

    wanted = {name: getattr(asked, name) for name in ("query", "within_s", "k", "where", "fold")}
    return cast("SearchResult | None", ask(place, wanted | {"device": device, "marks": marks}))


def _show_unlike(found: UnlikeClips, as_json: bool) -> None:
    if as_json:
        print_json({"clips": list(found.clips), "compared": found.compared, "total": found.total})
        return
    out = console()
    if not found.clips:
        out.print("There are no highlights: no clip has pictures.")
    else:
        out.print("Highlights, the clips that are most unlike the rest:")
    for rank, clip in enumerate(found.clips, start=1):
        out.print(f"[bold]{rank:2}. {safe(clip.path)}[/]  at {clock(clip.time_s)}  [dim]distance {clip.apart:.2f}[/]")
    if found.compared < found.total:
        out.print(
            f"[dim]Of {count(found.total, 'clip')}, {found.compared:,} that lie evenly among them were compared.[/]"
        )


def _search(library: Library, asked: Question, device: str) -> Callable[[int], SearchResult]:
    """What searches for so many clips; pictures and matchers are read once."""
    if asked.image is not None:
        image, where, words = asked.image, asked.where, asked.query
        return lambda k: library.search_image(image, k, where, words=words)
    matcher = None
    if asked.rerank is not None:
        from evenreel.checkpoint import load_matcher

        matcher = load_matcher(asked.rerank, device=device)
    question = asked.question()
    return lambda k: library.search(question, k, asked.where, rerank=matcher, rerank_depth=asked.rerank_depth)


USAGE = (
    "Give a query in quotes; or what `evenreel search --json` printed (a .json file, or - for standard input); or "
    "a video's name, start and end, such as tram.mp4 0:15 0:22.5."
)
LARGEST_DOCUMENT = 64 * 2**20


@dataclass(frozen=True)
class WantedStretches:
    """Which clips of a search are exported.

    Attributes:
        k: how many clips to export at most.
        where: filter, for example "source = 'camera' and duration_s < 60".
        vision: False searches words alone and loads no model.
        every_moment: export all moments of a video, not its best alone.
        others: export the weaker matches too.
    """

    k: Annotated[int, OptionForm("-k")] = 10
    where: Annotated[str | None, typer.Option(callback=as_utf8)] = None
    vision: bool = True
    every_moment: bool = False
    others: Annotated[bool, OptionForm("--all")] = False


def export(
    what: Annotated[list[str], typer.Argument(metavar="WHAT...", help=USAGE)],
    settings: HandoverSettings = from_settings("evenreel.handover:HandoverSettings"),
    wanted: WantedStretches = from_settings(WantedStretches),
    out: Annotated[Path, typer.Option(help="Folder to write to. No file in it is replaced.")] = Path(),
    library: PlaceOption = None,
    device: DeviceOption = "auto",
    snapshot_cache: CacheOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export clips that a search finds: as video files, lists for editors, tables, subtitles or a sheet of stills."""
    from evenreel.handover.taking import take_away
    from evenreel.library import open_library

    document = _document(what)
    place = fetched(library or default_library(), snapshot_cache)
    searching = len(what) == 1 and document is None
    asked = Question(as_utf8(what[0]), wanted.k, wanted.where, vision=wanted.vision, fold=False)
    told = _of_server(place, asked, device) if searching else None
    with open_library(place, device=device, vision=searching and wanted.vision) as opened:
        title, picks = _picked(opened, what, document, wanted, told)
        with share_bar("cutting" if "clip" in settings.forms else "writing") as progress:
            report = take_away(opened, picks, out, title, settings, progress)
    _show(report, out, as_json)
    if not report.files:
        raise typer.Exit(1)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _document(what: list[str]) -> dict[str, Any] | None:
    """The JSON that the argument names; None where it names none."""
    if len(what) != 1 or not (what[0] == "-" or (what[0].lower().endswith(".json") and Path(what[0]).is_file())):
        return None
    from evenreel.documents import parse_json

    try:
        with contextlib.nullcontext(sys.stdin.buffer) if what[0] == "-" else Path(what[0]).open("rb") as file:
            held = file.read(LARGEST_DOCUMENT + 1)
        if len(held) > LARGEST_DOCUMENT:
            raise UsageError(f"{what[0]} is larger than {LARGEST_DOCUMENT >> 20} MiB, the limit; ask for fewer clips.")
        document = parse_json(held.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{what[0]} cannot be read ({(error.strerror or str(error)).lower()}).") from error
    except ValueError as error:
        raise UsageError(f"{what[0]} is no JSON ({error}); give what `evenreel search --json` prints.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{what[0]} holds no result of a search; give what `evenreel search --json` prints.")
    return document


def _picked(
    library: Library, what: list[str], document: dict[str, Any] | None, wanted: WantedStretches, told: Any
) -> tuple[str, list[Pick]]:
    from evenreel.handover.picks import Pick, picks_of, stretches_of

    if document is not None:
        if "stretches" in document:
            return str(document.get("title") or "stretches"), stretches_of(document)
        query, found = str(document.get("query") or "stretches"), document
    elif len(what) == 3:
        times_s = [seconds_of(text) for text in what[1:]]
        if None in times_s:
            wrong = what[1:][times_s.index(None)]
            raise UsageError(f"{wrong[:40]!r} is no time; write seconds (75.5), 1:15.5 or 1:02:03. {USAGE}")
        start_s, end_s = (time_s or 0.0 for time_s in times_s)
        pick = Pick(library.clip_named(what[0]), start_s, end_s, path=os.path.abspath(what[0]))
        return PurePath(what[0]).stem, [pick]
    elif len(what) == 1:
        query = as_utf8(what[0]) or ""
        found = told or library.search(query, wanted.k, wanted.where).to_json()
    else:
        raise UsageError(USAGE)
    picks = picks_of(found, every_moment=wanted.every_moment, others=wanted.others)
    if not picks:
        raise NotFoundError(f"Nothing fits {query[:200]!r}; --all exports weaker matches too.")
    return query, picks


def _show(report: HandoverReport, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json() | {"out": out})
        return
    shown = console()
    if report.files:
        shown.print(f"Wrote {count(len(report.files), 'file')} to {safe(out)}:")
    for path in report.files:
        shown.print(f"  {safe(path.name)}")
    for name, sentence in report.notes:
        shown.print(f"  [dim]{safe(name)} {safe(sentence)}[/]")
    if report.set_aside:
        shown.print(f"[yellow]Skipped: {len(report.set_aside)}{'' if report.files else '; nothing was written'}[/]")
    for one in report.set_aside:
        shown.print(f"  {safe(one.path)}: {safe(one.sentence)}")


def transcript(
    clip: Annotated[str, typer.Argument(help="Name or path of a video, or id of a clip as search --json prints it.")],
    library: PlaceOption = None,
    form: Annotated[
        Literal["srt", "vtt", "txt", "json"],
        typer.Option("--format", help="Form of the text; json has all transcripts, with the times of words."),
    ] = "txt",
    language: Annotated[
        str | None, typer.Option(help="Language, such as en or pt-BR. \\[default: the first there is]")
    ] = None,
    snapshot_cache: CacheOption = None,
) -> None:
    """Print what is said in a clip, from its subtitles or the speech model."""
    from evenreel.library import open_library
    from evenreel.speech.subtitles import as_srt, as_text, as_vtt, is_in

    with open_library(fetched(library or default_library(), snapshot_cache), vision=False) as opened:
        found = opened.transcripts(clip)
    spoken = [one for one in found if one.utterances and is_in(one, language)]
    if not spoken:
        raise NotFoundError(_nothing(clip, found, language))
    if form == "json":
        print_json([asdict(one) for one in spoken])
        return
    chosen, *others = spoken
    written = {"srt": as_srt, "vtt": as_vtt, "txt": as_text}[form](chosen.utterances)
    console().out(written, end="", highlight=False)
    if others:
        also = ", ".join(dict.fromkeys(one.language or "unknown" for one in others))
        typer.echo(
            f"{count(len(others), 'more transcript')} ({printable(also)}); choose one with --language.", err=True
        )


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
        "run evenreel index again, or have its speech recognised: evenreel index FOLDER --speech small."
    )
