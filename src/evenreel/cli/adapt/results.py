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
from evenreel.training.recipe.files import settings_text

if TYPE_CHECKING:
    from evenreel.adaptation.run import Adaptation
    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.cli.adapt.options import AdaptFiles

JSON, PAGE = "report.json", "report.html"


class Written(NamedTuple):
    """Where results went; None where they did not."""

    checkpoint: Path | None
    scores: Path | None
    report: Path | None


@dataclass(frozen=True, eq=False)
class AdaptOutcome:
    """What was learned from, how, and what came of it."""

    given: Given
    settings: AdaptSettings
    found: Adaptation
    changes: Changes
    made: Provenance

    @property
    def kept(self) -> bool:
        """Whether the adapted weights are given."""
        return self.found.report.kept

    @property
    def read(self) -> str:
        """What was learned from, in words."""
        stream = self.given.stream
        return f"{len(stream.sentences):,} unlabelled queries and {len(stream.videos.ids):,} clips of {self.given.of}"

    @property
    def uses(self) -> tuple[str, ...]:
        """What the adapted weights know beside what those of the source do."""
        prepared = self.given.prepared
        more = prepared.uses if prepared is not None and self.settings.causal else ()
        return tuple(dict.fromkeys((*self.given.pretrained.about.uses, self.read, *more)))

    @property
    def pretrained(self) -> Pretrained:
        """The matcher that is given; where nothing better was found, the source with all that was said of it."""
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
        """All of it as plain values."""
        stream = self.given.stream
        learned = {"of": self.given.of, "queries": len(stream.sentences), "clips": len(stream.videos.ids)}
        found = record(self.found.report, self.changes, self.settings, self.given.names)
        said = {"notices": list(self.given.notices), "provenance": self.made.to_json()}
        return {"learned_from": learned, **found, **said}

    def page(self) -> Page:
        """The page of the report, with pictures of the clips that examples name where these can be had."""
        title = f"Adapted to {self.given.of}" if self.kept else f"Not adapted to {self.given.of}"
        settings, names = settings_text(self.settings), self.given.names
        shown = {clip: None for one in self.changes.examples for clip in (one.before, one.after)}
        pictures = self.given.pictures(list(shown)) if shown and self.given.pictures is not None else {}
        return adaptation_page(title, self.found.report, self.changes, settings, names, pictures)


def write(outcome: AdaptOutcome, files: AdaptFiles) -> Written:
    """Write what is asked for.

    Raises:
        CheckpointError: the checkpoint cannot be written.
        OutputError: the scores cannot.
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
