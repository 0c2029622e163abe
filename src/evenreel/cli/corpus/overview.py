"""`evenreel corpus overview`: what real clips and their mirrors are made of, and how near they are to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.command import check_place
from evenreel.cli.options import CorpusClips, JsonOption, from_settings, media_limits
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.config import MediaLimits
from evenreel.provenance import Provenance, provenance_of
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from evenreel.audits.overview import GroupOverview, Overview
    from evenreel.features import SetAside
    from evenreel.types import Corpus


@dataclass(frozen=True)
class OverviewOptions:
    """What `evenreel corpus overview` reads beside the corpus, and what it writes.

    Attributes:
        features: folder of features, best by the rule '10 midpoints', for the similarity of pairs.
        rule: how the features' frames were sampled; None for the last run's.
        report: also write a page with the histogram to this file.
        keep_facts: write what the videos say into the corpus, for `evenreel audit confounds`.
        workers: reader processes; 0 means one for each core.
        limits: limits of one clip.
    """

    features: Path | None = None
    rule: str | None = None
    report: Path | None = None
    keep_facts: bool = False
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)


def overview_corpus(
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("split",)),
    options: OverviewOptions = from_settings(
        OverviewOptions, limits=from_settings(media_limits, leave_out=("max_damage",))
    ),
    as_json: JsonOption = False,
) -> None:
    """Compare the outward form of real clips and their mirrors. Exit status 3 if a video cannot be read."""
    from evenreel.audits.overview import overview, overview_page
    from evenreel.corpus import save_corpus
    from evenreel.features.facts import FACTS, FactSettings, clip_facts, with_facts
    from evenreel.report.page import write_page

    features, report = options.features, options.report
    if report:
        check_place(report)
    corpus = clips.load()
    cosines, notices = (None, ()) if features is None else _similarities(corpus, features, options.rule)
    looking = FactSettings(clips.place, clips.folder / FACTS, options.workers, options.limits)
    with share_bar("looking at videos") as progress:
        facts = clip_facts(corpus, looking, progress)
    if options.keep_facts:
        save_corpus(with_facts(corpus, facts), clips.folder)
    found = overview(corpus, facts, cosines, notices=notices)
    made = provenance_of({"corpus": clips.folder, "features": features}) if as_json or report else None
    if report:
        write_page(overview_page(found), report, made)
    _show(found, facts.set_aside, report, made if as_json else None)
    if facts.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _similarities(corpus: Corpus, features: Path, rule: str | None) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Cosines of all pairs, and what must be known of them."""
    from evenreel.audits.overview import PAPER_RULE, similarities
    from evenreel.corpus.counterparts import counterparts
    from evenreel.features import find_clips

    found = find_clips(features, corpus, rule=rule, windows=False)
    videos, _ = found.load()
    other = f"Similarity is of frames by '{found.made.rule}'; the paper's is of '{PAPER_RULE}'."
    return similarities(videos, counterparts(corpus)), () if found.made.rule == PAPER_RULE else (other,)


def _show(found: Overview, set_aside: Sequence[SetAside], report: Path | None, origin: Provenance | None) -> None:
    """Words; or JSON, where the origin is given."""
    from evenreel.audits.overview import overview_sentence

    if origin is not None:
        print_json(found.to_json() | {"set_aside": set_aside, "report": report, "provenance": origin.to_json()})
        return
    out = console()
    out.print(safe(overview_sentence(found)))
    for notice in found.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    for one in found.groups:
        _show_group(one, found.confidence)
    for group, by in found.consistency.items():
        for splits, more in by.items():
            out.print(
                f"{safe(group)}, similarity in {safe(splits)}: {more.value:+.4f} ({more.low:+.4f} to {more.high:+.4f})"
            )
    list_aside(set_aside, lead="")
    if report:
        out.print(f"The page: {safe(report)}")


def _show_group(one: GroupOverview, confidence: float) -> None:
    from evenreel.audits.overview import names_words, spread_words
    from evenreel.report.result import figure_words

    out = console()
    out.print(f"[bold]{safe(one.group)}[/], {safe(one.split)}: {count(one.clips, 'clip')}")
    out.print(f"  frames a second {spread_words(one.fps)}, seconds {spread_words(one.duration_s)}")
    out.print(f"  picture {names_words(one.sizes)}, codec {safe(names_words(one.codecs))}")
    if one.similarity is not None:
        figure = figure_words(one.similarity, confidence, digits=3)
        out.print(f"  similarity to the real clips {figure}, {count(one.pairs, 'pair')}")
