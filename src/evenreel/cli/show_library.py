"""What the commands print: plain text with a little colour for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from evenreel.wording import count, other_files, printable

if TYPE_CHECKING:
    from rich.table import Table

    from evenreel.features import SetAside
    from evenreel.library import IndexReport, LibraryProblem, LibraryStats
    from evenreel.library.published import Snapshot
    from evenreel.library.search.alike import UnlikeClips
    from evenreel.library.search.result import Hit, MomentHit, SearchResult, TextHit

MANY_NOTES = 10
AGAIN = " (tried again when changed, or with --retry)"
"""Follows what was set aside, where the next run tries again."""
WITHOUT = "Without {} that had been set aside"
PARTS = {"seen": "what is seen", "on_screen": "words on screen", "both": "both together"}
"""What the parts of a matcher's score are called."""


def console() -> Console:
    """Make a console of standard output: colour on a terminal alone, and no line broken or cut for a pipe."""
    return Console(highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print one JSON document on standard output; characters that are not valid Unicode are escaped."""
    console().out(json.dumps(data, ensure_ascii=True, indent=2, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else asdict(value)


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


def show_report(report: IndexReport, library: Path, as_json: bool) -> None:
    """Print what an index run did: how many files were read, unchanged, moved, missing, passed over, set aside."""
    if as_json:
        print_json(report.to_json() | {"library": library})
        return
    out = console()
    if report.did_nothing:
        out.print(f"Nothing to do: {count(report.unchanged, 'file')} unchanged in {safe(library)}.")
    else:
        rate = f", {report.frames / report.seconds:.1f} frames/s" if report.seconds and report.frames else ""
        out.print(
            f"Indexed {count(report.indexed, 'file')} ({count(report.frames, 'frame')}) into {safe(library)}"
            f" in {report.seconds:.1f} s{rate}."
        )
        for number, what in (
            (report.unchanged, "unchanged"),
            (report.recognised, "recognised by content (moved, copied or touched)"),
            (report.moved, "moved, now known by another name"),
            (report.missing, "marked as missing"),
        ):
            if number:
                out.print(f"  {count(number, 'file')} {what}")
        if report.subtitles:
            out.print(f"  {count(report.subtitles, 'subtitle file or stream')} read")
        for number, what in (
            (report.heard, "heard"),
            (report.sounds, "listened to for sounds"),
            (report.people, "looked at for people (evenreel people lists them)"),
        ):
            if number:
                out.print(f"  {count(number, 'clip')} {what}")
        if report.subtitles_gone:
            out.print(f"  {count(report.subtitles_gone, 'subtitle file')} gone")
        if report.metadata_changed:
            out.print(f"  metadata of {count(report.metadata_changed, 'file')} updated")
    _passed_over(out, report)
    _remarks(out, report)
    list_aside(report.set_aside, more=AGAIN)


def _remarks(out: Console, report: IndexReport) -> None:
    for warning in report.warnings:
        out.print(f"[yellow]{safe(warning)}[/]")
    for path, note in report.notes[:MANY_NOTES]:
        out.print(f"  note: {safe(path)}: {safe(note)}")
    if len(report.notes) > MANY_NOTES:
        out.print(f"  and {len(report.notes) - MANY_NOTES} more notes (--json lists them all)")


def _passed_over(out: Console, report: IndexReport) -> None:
    if report.other_files or report.links or report.ignored:
        parts = [other_files(report.other_suffixes), count(report.links, "link")]
        parts.append(count(report.ignored, "ignored path"))
        out.print(f"  passed over: {', '.join(part for part in parts if not part.startswith('0 '))}")
    for folder in report.closed_folders:
        out.print(f"  [yellow]cannot be opened:[/] {safe(folder)}")


def list_aside(
    set_aside: Sequence[SetAside], lead: str = "Set aside: {}", more: str = "", most: int | None = None
) -> None:
    """Print how many clips of a corpus, or files of a library, were set aside, and a line for each; or nothing."""
    out = console()
    if set_aside and lead:
        number = count(len(set_aside), "clip" if set_aside[0].clip_id else "file")
        out.print(f"[yellow]{lead.format(number)}[/]{more}")
    for one in set_aside[:most]:
        where = f" ({safe(one.path)})" if one.clip_id and one.path else ""
        out.print(f"  {safe(one.clip_id or one.path)}{where}: {safe(one.sentence)} [dim]({safe(one.reason)})[/]")


def show_result(result: SearchResult, as_json: bool, *, others: bool = False) -> None:
    """Print hits with their best moments and the reason; with `others`, the weaker matches too."""
    if as_json:
        print_json(result.to_json())
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


def show_unlike(found: UnlikeClips, as_json: bool) -> None:
    """Print the clips that are unlike the rest."""
    if as_json:
        print_json({"clips": list(found.clips), "compared": found.compared, "total": found.total})
        return
    out = console()
    if not found.clips:
        out.print("No clip with pictures is there.")
    for rank, clip in enumerate(found.clips, start=1):
        out.print(f"[bold]{rank:2}. {safe(clip.path)}[/]  at {clock(clip.time_s)}  [dim]apart {clip.apart:.2f}[/]")
    if found.compared < found.total:
        out.print(
            f"[dim]Of {count(found.total, 'clip')}, {found.compared:,} that lie evenly among them were compared.[/]"
        )


def _show_hit(out: Console, rank: int, hit: Hit) -> None:
    times = (", then " if hit.steps else ", ").join(map(_stretch, hit.moments))
    scores = "  ".join(f"{channel} {_decimals(value)}" for channel, value in hit.scores.items())
    out.print(f"[bold]{rank:2}. {safe(hit.path)}[/]  at {times or '0:00'}")
    for text in hit.on_screen:
        out.print(f"      on screen {_span(text.start_s, text.end_s)}: [green]{safe(text.text)}[/]")
    for said in hit.said:
        out.print(f"      said {_span(said.start_s, said.end_s)}: [cyan]{_marked(said)}[/]")
    source = hit.metadata.get("source")
    told = "" if source in {None, ""} else f"  source: {safe(source)}"
    out.print(f"      [dim]{scores}{told}[/]")
    if hit.parts:
        out.print(f"      [dim]matcher: {safe(_parts(hit))}; mean {_decimals(hit.scores['reranked'])}[/]")
    for path in hit.other_paths:
        out.print(f"      [dim]also {safe(path)}[/]")
    if hit.folded:
        first, more = hit.folded[0], len(hit.folded) - 1
        others = f" and {count(more, 'other')}" if more else ""
        out.print(f"      [dim]nearly the same: {safe(first.path)}{others} (--no-fold shows all)[/]")


def _marked(said: TextHit) -> str:
    """Words that are said, in bold what matches the query."""
    from evenreel.library.search.words import marks

    text, pieces, end = said.text, list[str](), 0
    for start, stop in marks(text, said.matched, said.found):
        pieces += [safe(text[end:start]), f"[bold]{safe(text[start:stop])}[/]"]
        end = stop
    return "".join([*pieces, safe(text[end:])])


def _parts(hit: Hit) -> str:
    """What a matcher's score is the mean of."""
    unread = {"on_screen": " (none read)"} if hit.none_read else {}
    return ", ".join(
        f"{PARTS.get(name, name)} {_decimals(value)}{unread.get(name, '')}" for name, value in hit.parts.items()
    )


def _decimals(value: float) -> str:
    """Two decimals, and no minus before 0.00."""
    return f"{round(value, 2) + 0.0:.2f}"


def _stretch(moment: MomentHit) -> str:
    around = _span(moment.start_s, moment.end_s)
    return clock(moment.time_s) + (f" ({around})" if "-" in around else "")


def _span(start_s: float, end_s: float) -> str:
    start, end = clock(start_s), clock(end_s)
    return start if start == end else f"{start}-{end}"


def show_stats(
    stats: LibraryStats,
    sizes: Mapping[str, int],
    as_json: bool,
    snapshot: Snapshot | None = None,
) -> None:
    """Print what a library holds, what its parts take on the disk and which snapshot it is a copy of."""
    if as_json:
        published = (
            {}
            if snapshot is None
            else {"snapshot": {"id": snapshot.id, "made_by": snapshot.made_by, "bytes": snapshot.size_bytes}}
        )
        print_json(stats.to_json() | {"bytes": sizes} | published)
        return
    out, hours = console(), stats.hours
    length = f"{hours:,.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
    out.print(
        f"{safe(stats.library)}: {count(stats.files, 'file')}, {count(stats.clips, 'clip')}, "
        f"{length}, {count(stats.moments, 'moment')}, {count(stats.tracks, 'on-screen text')}"
    )
    names = [stats.model or "none (words only)"]
    names += [f"sounds {stats.sounds}"] if stats.sounds else []
    out.print(f"  model: {safe(', '.join(names))}   sampling: {safe(stats.rule)}")
    if stats.making:
        out.print(f"  in the making: {safe(stats.making)} (evenreel reindex --model {safe(stats.making)} goes on)")
    if snapshot is not None:
        out.print(f"  published snapshot {snapshot.id}: {megabytes(snapshot.size_bytes)}")
    parts = ", ".join(f"{name} {megabytes(size)}" for name, size in sizes.items() if size)
    out.print(f"  on the disk: {megabytes(sum(sizes.values()))} ({parts})")
    if stats.ignored:
        out.print(f"  passed over: {printable('  '.join(stats.ignored))}", markup=False)
    if stats.metadata:
        out.print(f"  metadata: {safe(', '.join(stats.metadata))}")
    if stats.missing:
        out.print(f"  {count(stats.missing, 'file')} missing (evenreel verify --repair --drop-missing forgets them)")
    list_aside(stats.set_aside, more=AGAIN)


def megabytes(size: int) -> str:
    """Format a size in bytes as megabytes of a million.

    >>> megabytes(0), megabytes(12_345), megabytes(2_345_678_901)
    ('0.0 MB', '0.1 MB', '2,345.7 MB')
    """
    return f"{math.ceil(size / 1e5) / 10:,.1f} MB"


def show_problems(problems: Sequence[LibraryProblem], library: Path, as_json: bool) -> None:
    """Print what a check of a library found to be wrong, each with what to do about it; or that it is whole."""
    if as_json:
        print_json(problems)
        return
    out = console()
    if not problems:
        out.print(f"{safe(library)} is whole: every checksum and everything derived agrees.")
    for problem in problems:
        out.print(f"[red]{safe(problem.where)}[/]: {safe(problem.what)}; {safe(problem.remedy)}")


def show_done(done: Sequence[str], as_json: bool) -> None:
    """Print what a repair of a library did, a sentence each."""
    if as_json:
        print_json(done)
        return
    for sentence in done:
        console().print(safe(sentence))


def empty_sentence(stats: LibraryStats) -> str:
    """Return a sentence on why nothing can be found in a library without an indexed file, and what to do about it."""
    found = []
    if aside := len(stats.set_aside):
        found.append(f"{count(aside, 'file')} {'was' if aside == 1 else 'were'} set aside")
    if stats.missing:
        found.append(f"{count(stats.missing, 'file')} {'is' if stats.missing == 1 else 'are'} missing")
    why, remedy = " and ".join(found), f"evenreel info --library {stats.library} says which and why."
    if not found:
        why = "no video has been indexed into it yet"
        remedy = f"run evenreel index FOLDER --library {stats.library}."
    return f"The library {stats.library} is empty: {why}; {remedy}"
