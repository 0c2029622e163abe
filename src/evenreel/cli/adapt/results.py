"""What `evenreel adapt` writes: the checkpoint with its report, the scores, the page."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evenreel.adaptation.changes import Changes, record
from evenreel.adaptation.keeping import save_adapted
from evenreel.adaptation.page import adaptation_page
from evenreel.checkpoint import Pretrained
from evenreel.cli.adapt.inputs import Given
from evenreel.cli.progress import share_bar
from evenreel.provenance import Provenance
from evenreel.report.page import Page, render, write_page
from evenreel.training.recipe import settings_text

if TYPE_CHECKING:
    from evenreel.adaptation.run import Adaptation
    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.cli.adapt.options import AdaptFiles

JSON, PAGE = "report.json", "report.html"


class Written(NamedTuple):
    """Places of what an adaptation wrote: the checkpoint, the scores and the report; None for what was not written."""

    checkpoint: Path | None
    scores: Path | None
    report: Path | None


@dataclass(frozen=True, eq=False)
class AdaptOutcome:
    """Result of an adaptation.

    Attributes:
        given: matcher, queries and clips that it began with.
        settings: how it learned.
        found: the matcher that came of it, its report, and the scores where they were kept.
        changes: what changed for the queries: first clips, examples, words.
        made: inputs of the adaptation, for its report.
    """

    given: Given
    settings: AdaptSettings
    found: Adaptation
    changes: Changes
    made: Provenance

    @property
    def kept(self) -> bool:
        """Whether the result has the adapted weights, and not those of the source."""
        return self.found.report.kept

    @property
    def read(self) -> str:
        """Numbers of queries and clips that were learned from, in words."""
        stream = self.given.stream
        return f"{len(stream.sentences):,} unlabelled queries and {len(stream.videos.ids):,} clips of {self.given.of}"

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels of everything the adapted weights were made with, such as the queries; scores by them carry these."""
        prepared = self.given.prepared
        more = prepared.uses if prepared is not None and self.settings.causal else ()
        return tuple(dict.fromkeys((*self.given.pretrained.about.uses, self.read, *more)))

    @property
    def pretrained(self) -> Pretrained:
        """The adapted matcher; where nothing better was found, the source with all that its checkpoint says."""
        source = self.given.pretrained
        if not self.kept:
            return replace(source, matcher=self.found.matcher)
        limit = (
            f"It was adapted to {self.read}, without labels, and has forgotten some of what it knew of others; measure "
            "it before you use it there."
        )
        about = replace(source.about, uses=self.uses, limits=(*source.about.limits, limit))
        return replace(source, matcher=self.found.matcher, about=about)

    def record(self) -> dict[str, Any]:
        """Return the result as plain data, for JSON."""
        stream = self.given.stream
        learned = {"of": self.given.of, "queries": len(stream.sentences), "clips": len(stream.videos.ids)}
        found = record(self.found.report, self.changes, self.settings, self.given.names)
        said = {"notices": list(self.given.notices), "provenance": self.made.to_json()}
        return {"learned_from": learned, **found, **said}

    def page(self) -> Page:
        """Make the page of the report, with pictures of the clips that examples name where their files are known."""
        title = f"Adapted to {self.given.of}" if self.kept else f"Not adapted to {self.given.of}"
        settings, names = settings_text(self.settings), self.given.names
        shown = {clip: None for one in self.changes.examples for clip in (one.before, one.after)}
        pictures = self.given.pictures(list(shown)) if shown and self.given.pictures is not None else {}
        return adaptation_page(title, self.found.report, self.changes, settings, names, pictures)


def write(outcome: AdaptOutcome, files: AdaptFiles) -> Written:
    """Write the checkpoint, the scores and the page, each where a place is given.

    Raises:
        CheckpointError: the checkpoint cannot be written.
        OutputError: the scores or the page cannot be written.
    """
    given = outcome.given
    place = given.folder if files.in_place else files.out
    if files.in_place and not outcome.kept:
        place = None
    page = None if place is None and files.report is None else outcome.page()
    if page is not None and files.report is not None:
        write_page(page, files.report, outcome.made)
    if files.scores is not None:
        _write_scores(outcome, files.scores)
    if page is not None and place is not None:
        records = {
            JSON: json.dumps(outcome.record(), indent=2, allow_nan=False) + "\n",
            PAGE: render(page, outcome.made),
        }
        save_adapted(place, outcome.pretrained, records, source=given.folder, in_place=files.in_place)
    return Written(place, files.scores, files.report)


def _write_scores(outcome: AdaptOutcome, path: Path) -> None:
    """Scores that say what they used: online as batches were answered, offline of the matcher that is given."""
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores
    from evenreel.types import ScoreNotes

    stream, online = outcome.given.stream, outcome.found.scores
    learned = outcome.kept or online is not None
    own = outcome.uses if learned else outcome.given.pretrained.about.uses
    about = ScoreNotes(uses=(*own, *outcome.given.uses))
    with share_bar("scoring") as progress:
        scores = (
            replace(online, about=about)
            if online
            else matcher_scores(outcome.found.matcher, stream.texts, stream.videos, about=about)
        )
        save_scores(scores, path, progress)
