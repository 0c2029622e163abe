"""What the commands print: plain text with a little colour for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from evenreel.files import printable
from evenreel.wording import count

if TYPE_CHECKING:
    from rich.table import Table

    from evenreel.features import SetAside
    from evenreel.library import LibraryStats
    from evenreel.library.search.result import Hit, MomentHit, SearchResult, TextHit

AGAIN = " (tried again when changed, or with --retry)"  # follows what was skipped, where the next run tries again
WITHOUT = "Without {} that had been skipped"
MANY_NOTES = 10
PARTS = {
    "seen": "visual match", "on_screen": "words on screen", "both": "both together", "about": "name or caption",
    "then": "followed by",
}  # fmt: skip
"""What the parts of a score are called."""
KINSHIP = {"take": "nearly the same", "same": "the same film", "part": "a part of it", "whole": "it is a part of"}


def console() -> Console:
    """Make a console of standard output: colour on a terminal alone, and no line broken or cut for a pipe."""
    return Console(highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print one JSON document on standard output; characters that are not valid Unicode are escaped."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, Path) else asdict(value)

    console().out(json.dumps(data, ensure_ascii=True, indent=2, allow_nan=False, default=plain))


def table_of(columns: Sequence[str], title: str = "", words: int = 1) -> Table:
    """Make an empty table for a terminal, whose first columns hold words and whose others hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(safe(column), justify="left" if place < words else "right")
    return table


def safe(text: object) -> str:
    """Escape text from a name, a video or a table, so that it neither steers the terminal nor counts as markup."""
    return escape(printable(str(text)))


def clock(seconds: float) -> str:
    """Format seconds as a player shows them: `0:07`, `12:30`, `1:02:03`.

    >>> clock(7.4), clock(750), clock(3723)
    ('0:07', '12:30', '1:02:03')
    """
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def list_aside(
    set_aside: Sequence[SetAside], lead: str = "Skipped: {}", more: str = "", most: int | None = None
) -> None:
    """Print how many clips of a corpus, or files of a library, were skipped, and a line for each; or nothing."""
    out = console()
    if set_aside and lead:
        number = count(len(set_aside), "clip" if set_aside[0].clip_id else "file")
        out.print(f"[yellow]{lead.format(number)}[/]{more}")
    for one in set_aside[:most]:
        where = f" ({safe(one.path)})" if one.clip_id and one.path else ""
        out.print(f"  {safe(one.clip_id or one.path)}{where}: {safe(one.sentence)} [dim]({safe(one.reason)})[/]")


def list_notes(notes: Sequence[tuple[str, str]]) -> None:
    for path, note in notes[:MANY_NOTES]:
        console().print(f"  note: {safe(path)}: {safe(note)}")
    if len(notes) > MANY_NOTES:
        console().print(f"  and {len(notes) - MANY_NOTES:,} more notes (--json lists them all)")


def show_result(result: SearchResult, as_json: bool, *, others: bool = False) -> None:
    """Print hits with their best moments and the reason; with `others`, the weaker matches too."""
    if as_json:
        print_json(result if isinstance(result, dict) else result.to_json())
        return
    out, answering = console(), result.answering
    for notice in result.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    if not result.hits:
        out.print("No clip matches.")
    elif not answering:
        out.print("[yellow]Nothing fits.[/]")
    elif result.matches:
        more = "; these come first:" if result.matches > answering else "."
        out.print(f"{count(result.matches, 'clip')} {'matches' if result.matches == 1 else 'match'}{more}")
    for rank, hit in enumerate(result.hits, start=1):
        if rank == answering + 1:
            left = (
                f"{len(result.hits) - answering:,} weaker {'match' if len(result.hits) == answering + 1 else 'matches'}"
            )
            out.print(f"{left}:" if others else f"[dim]{left} left out (--all shows them)[/]")
        if rank <= answering or others:
            _show_hit(out, rank, hit)


def _show_hit(out: Console, rank: int, hit: Hit) -> None:
    times = (", followed by " if hit.steps else ", ").join(map(_stretch, hit.moments))
    scores = "  ".join(f"{PARTS.get(channel, channel)} {_decimals(value)}" for channel, value in hit.scores.items())
    out.print(f"[bold]{rank:2}. {safe(hit.path)}[/]  at {times or '0:00'}")
    for text in hit.on_screen:
        out.print(f"      on screen {_span(text.start_s, text.end_s)}: [green]{safe(text.text)}[/]")
    for said in hit.said:
        out.print(f"      said {_span(said.start_s, said.end_s)}: [cyan]{_marked(said)}[/]")
    if hit.meaning is not None:
        how = {"said": "said", "on_screen": "written", "about": "caption"}[hit.meaning.source]
        when = "" if how == "caption" else f" {_span(hit.meaning.start_s, hit.meaning.end_s)}"
        out.print(f"      {how}, in other words{when}: [cyan]{safe(hit.meaning.text)}[/]")
    source = hit.metadata.get("source")
    told = "" if source in {None, ""} else f"  source: {safe(source)}"
    out.print(f"      [dim]{scores}{told}[/]")
    if hit.parts:
        unread = {"on_screen": " (none read)"} if hit.none_read else {}
        parts = (f"{PARTS.get(name, name)} {_decimals(one)}{unread.get(name, '')}" for name, one in hit.parts.items())
        out.print(f"      [dim]matcher: {safe(', '.join(parts))}; mean {_decimals(hit.scores['reranked'])}[/]")
    for path in hit.other_paths:
        out.print(f"      [dim]also {safe(path)}[/]")
    if hit.folded:
        first, more = hit.folded[0], len(hit.folded) - 1
        others = f" and {count(more, 'other')}" if more else ""
        told = KINSHIP[first.reason] + ("" if first.from_s is None else f", from {clock(first.from_s)}")
        out.print(f"      [dim]{told}: {safe(first.path)}{others} (--no-fold shows all)[/]")


def _marked(said: TextHit) -> str:
    """Words that are said, in bold what matches the query."""
    if (stretches := getattr(said, "marks", None)) is None:  # those that a server was asked for come with it
        from evenreel.library.search.words import marks

        stretches = marks(said.text, said.matched, said.found)
    text, pieces, end = said.text, list[str](), 0
    for start, stop in stretches:
        pieces += [safe(text[end:start]), f"[bold]{safe(text[start:stop])}[/]"]
        end = stop
    return "".join([*pieces, safe(text[end:])])


def _decimals(value: float) -> str:
    """Two decimals, and no minus before 0.00."""
    return f"{round(value, 2) + 0.0:.2f}"


def _stretch(moment: MomentHit) -> str:
    around = _span(moment.start_s, moment.end_s)
    return clock(moment.time_s) + (f" ({around})" if "-" in around else "")


def _span(start_s: float, end_s: float) -> str:
    start, end = clock(start_s), clock(end_s)
    return start if start == end else f"{start}-{end}"


def empty_sentence(stats: LibraryStats) -> str:
    """Return a sentence on why nothing can be found in a library without an indexed file, and what to do about it."""
    found = []
    if aside := len(stats.set_aside):
        found.append(f"{count(aside, 'file')} {'was' if aside == 1 else 'were'} skipped")
    if stats.missing:
        found.append(f"{count(stats.missing, 'file')} {'is' if stats.missing == 1 else 'are'} missing")
    why, remedy = " and ".join(found), f"evenreel info --library {stats.library} says which and why."
    if not found:
        why = "no video has been indexed into it yet"
        remedy = f"run evenreel index FOLDER --library {stats.library}."
    return f"The library {stats.library} is empty: {why}; {remedy}"
