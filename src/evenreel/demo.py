"""The demo: render a small library of real video files, index it, search it, audit it."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import LibraryError
from evenreel.extras import needed_extra
from evenreel.files import printable
from evenreel.library.search.result import SearchResult
from evenreel.planted import Entity, Scene, SignBoard, sample_scene, write_scene

if TYPE_CHECKING:
    from evenreel.features.pool import StagedProgress
    from evenreel.library import Library
    from evenreel.types import Corpus, ScoreBlocks

    AuditInputs = Callable[[Library, Sequence[str]], tuple[Corpus, ScoreBlocks]]
    """Clips of a library, and their scores for some sentences: `evenreel.cli.audit.library.audit_inputs`."""

VIDEO_COUNT = 60
GENERATORS = ("generator_a", "generator_b")
"""Sources of the clips whose camera is perfectly still; the trembling ones count as `camera`."""


@dataclass(frozen=True)
class DemoQuery:
    """A query of the demo, and the scene that is its right answer."""

    text: str
    shows: str  # the kind of search that it is an example of
    answer: Scene | None  # what the first clip must show; None where nothing in the library fits
    said: tuple[str, ...] = ()  # lines of the subtitles of that clip, none of which has a word of the query


def _answer(shape: str, colour: str, place: str, activity: str, sign: str | None = None) -> Scene:
    signs = (SignBoard(sign, y=0.87, height=0.13, style=1),) if sign else ()
    subject = Entity(shape, colour, "medium" if sign else "large", y=-0.3 if sign else 0.0)
    return Scene((subject,), activity, place, signs=signs, distractors=2, duration_s=5.0)


_STAR, _HEART = _answer("star", "red", "beach", "moves_right"), _answer("heart", "blue", "forest", "bounces")

DEMO_QUERIES = (
    DemoQuery("a red star on a beach", "what is seen: colour, shape and place", _STAR),
    DemoQuery("a blue heart in a forest", "what is seen, by another sentence", _HEART),
    DemoQuery("harbour", "what is written on screen", _answer("cross", "green", "city", "grows", "HARBOUR")),
    DemoQuery(
        "pharmasy",
        "what is written on screen, misspelt",
        _answer("circle", "orange", "mountains", "sways", "PHARMACY"),
    ),
    DemoQuery(
        "fixing a car",
        "what is said, in other words",
        _STAR,
        ("The engine makes a strange noise.", "Our mechanic will repair the brakes tomorrow."),
    ),
    DemoQuery(
        "medical treatment",
        "the same, in another clip",
        _HEART,
        ("The doctor looked at her broken leg.", "Take this medicine twice a day."),
    ),
    DemoQuery("quarterly tax spreadsheet", "a search that nothing here answers", None),
)
MORE_TO_SEE, MORE_TO_READ = "a green crescent in the mountains", "winter cup"
"""Searches that the demo suggests at its end."""


def demo_scenes(count: int = VIDEO_COUNT) -> dict[str, Scene]:
    """Return the scene that each demo video shows, by its file name, which says nothing about the scene.

    Each query has one answer: no other clip shares its colour, shape and place, or its sign.
    """
    rng = np.random.default_rng(0)
    answers = (query.answer for query in DEMO_QUERIES if query.answer is not None and not query.said)
    scenes = [replace(answer, seed=int(rng.integers(2**31))) for answer in answers][:count]
    reserved = {_look(scene) for scene in scenes} | {sign.text for scene in scenes for sign in scene.signs}
    while len(scenes) < count:
        scene = sample_scene(rng)
        if not reserved & {_look(scene), *(sign.text for sign in scene.signs)}:
            scenes.append(scene)
    order = rng.permutation(count)
    return {f"clip_{number:03}.mp4": scenes[place] for number, place in enumerate(order)}


def make_demo_videos(
    folder: Path, count: int = VIDEO_COUNT, on_written: Callable[[str], None] = lambda name: None
) -> None:
    """Render the demo's videos, short mp4 files, and a `metadata.csv` with the source and place of each."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = demo_scenes(count)

    said = {_look(query.answer): query.said for query in DEMO_QUERIES if query.answer and query.said}

    def write(name: str) -> None:
        write_scene(folder / name, scenes[name])
        if lines := said.get(_look(scenes[name])):
            cues = [f"00:00:0{2 * at},500 --> 00:00:0{2 * at + 2},000\n{line}\n" for at, line in enumerate(lines)]
            (folder / name).with_suffix(".vtt").write_text("\n".join(["WEBVTT\n", *cues]), encoding="utf-8")
        on_written(name)

    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(write, scenes))
    with (folder / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "source", "place"])
        table.writerows([name, _source(scene), scene.background] for name, scene in scenes.items())


def run_demo(
    folder: Path, audit_inputs: AuditInputs, progress: StagedProgress | None = None, count: int = VIDEO_COUNT
) -> list[SearchResult]:
    """Run `evenreel demo`: render videos, index them with the built-in encoder, search, audit."""
    from rich.console import Console

    from evenreel.features.pool import NoProgress
    from evenreel.library import index_folders, open_library

    out, progress = Console(highlight=False, soft_wrap=True), progress or NoProgress()
    videos, library = folder / "videos", folder / "library"
    progress.begin(count)
    try:
        make_demo_videos(videos, count, on_written=progress.file_done)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise LibraryError(
            f"The demo cannot be written to {folder} ({why}); name another place with --folder."
        ) from error
    out.print(f"Rendered {count} videos into {videos}", markup=False)
    report = index_folders([videos], library, IndexSettings(model="builtin"), progress=progress)
    known = report.unchanged + report.recognised
    before = f"; {known} were indexed before" if known else ""
    out.print(f"Indexed {report.indexed} of them ({report.frames} frames{before}) into {library}", markup=False)
    with open_library(library) as opened:
        queries = [query for query in DEMO_QUERIES if not query.said or opened.stats().meaning]
        results = [opened.search(query.text, k=3) for query in queries]
        audited = _audit(opened, audit_inputs, count, folder / "report.html")
    for query, result in zip(queries, results, strict=True):
        out.print(_describe(query, result))
    out.print("\n[bold]Does this search favour a source?[/]  [dim]an audit[/]")
    out.print(audited, markup=False)
    out.print(_ways_on(library), markup=False)
    return results


def audit_sentences(count: int = VIDEO_COUNT) -> list[str]:
    """Return the queries of the demo's audit: its own queries that have answers, and one for each other clip."""
    asked = [query.text for query in DEMO_QUERIES if query.answer is not None and not query.said]
    subjects = ((one.subject, one.background) for one in demo_scenes(count).values())
    shown = [f"a {subject.colour} {subject.shape} in the {place}" for subject, place in subjects]
    return list(dict.fromkeys([*asked, *shown]))


def _audit(library: Library, audit_inputs: AuditInputs, count: int, report: Path) -> str:
    """Write a page on the sources that the search favours, and return its sentence, or the extra that it needs."""
    try:
        from evenreel.audits import audit_source
        from evenreel.provenance import provenance_of
        from evenreel.report import write_page
        from evenreel.report.page import audit_page

        corpus, scores = audit_inputs(library, audit_sentences(count))
        found = audit_source(scores, corpus)
        write_page(audit_page([found]), report, provenance_of({"library": library.path}))
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, "It")) is None:
            raise
        return f"   {sentence}"
    return f"   {found.sentence}\n   With figures: {report}"


def _describe(query: DemoQuery, result: SearchResult) -> str:
    from rich.markup import escape

    lines = [f'\n[bold]"{query.text}"[/]  [dim]{query.shows}[/]']
    for rank, hit in enumerate(result.hits[: result.answering], start=1):
        moment = f"  at {hit.moments[0].time_s:.1f} s" if hit.moments else ""
        words = f"  on screen: [green]{escape(printable(hit.on_screen[0].text))}[/]" if hit.on_screen else ""
        other = f"  said, in other words: [cyan]{escape(printable(hit.meaning.text))}[/]" if hit.meaning else ""
        lines.append(f"   {rank}. {escape(printable(Path(hit.path).name))}{moment}{words}{other}")
    if not result.answering:
        lines.append("   [yellow]nothing fits[/]")
    return "\n".join(lines)


def _ways_on(library: Path) -> str:
    place = shlex.quote(str(library))
    return f"""
Go on with
  evenreel search "{MORE_TO_SEE}" --library {place}
  evenreel search "{MORE_TO_READ}" --library {place} --where "source = 'camera'"
  evenreel index YOUR_FOLDER --library YOUR_LIBRARY
  evenreel search "what you look for" --library YOUR_LIBRARY
  evenreel audit source --library YOUR_LIBRARY --queries FILE_OF_SENTENCES --report report.html"""


def _source(scene: Scene) -> str:
    return "camera" if scene.shake else GENERATORS[scene.seed % len(GENERATORS)]


def _look(scene: Scene) -> str:
    return f"{scene.subject.colour} {scene.subject.shape} {scene.background}"
