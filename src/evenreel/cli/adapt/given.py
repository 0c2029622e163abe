"""What `evenreel adapt` learns from, a split of a corpus or a library, and what it writes and prints of the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.prepared import PreparedSource, load_prepared, resources_of, save_adapted
from evenreel.adaptation.run import Adaptation, Changes, adapt, adaptation_page, change_interval, changes_of, record
from evenreel.adaptation.stream import FRAMES, ZERO_SHOT, EncodeTexts, QueryStream, text_reader, zero_shot
from evenreel.adaptation.titan import AdaptSettings
from evenreel.adaptation.titan_correction import read_confounders
from evenreel.checkpoint import (
    EncoderNote,
    Pretrained,
    checkpoint_folder,
    load_features_for,
    load_matcher,
    names_no_checkpoint,
)
from evenreel.checkpoint.records import Inputs
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.errors import UsageError
from evenreel.language import load_tagger
from evenreel.provenance import Provenance
from evenreel.report.page import Page, render, write_page
from evenreel.report.result import figure_words
from evenreel.training.recipe import recipe_text
from evenreel.types import Encoder, OnScreen, ScoreNotes, VideoFeatures
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.features import SetAside
    from evenreel.library import Library
    from evenreel.library.search.snapshot import Snapshot

TEST = "test"
JSON, PAGE = "report.json", "report.html"
MANY, FEW = 10, 3


class Named(NamedTuple):
    folder: Path | None  # of the checkpoint; None where it has none
    pretrained: Pretrained | None  # None for the mean frame of a library's clips, whose model is known later


@dataclass(frozen=True, eq=False)
class Given:
    """A matcher with the queries and clips that it adapts to."""

    pretrained: Pretrained
    folder: Path | None
    stream: QueryStream
    of: str  # what queries and clips belong to: `the split test of msrvtt`
    encode: EncodeTexts | None  # of counterfactual captions; None where none is known, or none is needed
    names: Mapping[str, str]  # of clips by id
    set_aside: tuple[SetAside, ...] = ()
    notices: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # other queries or statistics that the features were made with
    pictures: Callable[[Sequence[str]], Mapping[str, bytes]] | None = None  # small JPEGs of clips by id


def matcher_named(name: str, features: Path | None, device: str) -> Named:
    from evenreel.features import read_manifest

    if names_no_checkpoint(name):
        if name != ZERO_SHOT:
            raise UsageError(
                f"The matcher {name} has to be trained before it can adapt; name its checkpoint, or {ZERO_SHOT}."
            )
        if features is None:
            return Named(None, None)
        manifest = read_manifest(features)
        note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
        return Named(None, zero_shot(note, device=device))
    folder = checkpoint_folder(name)
    return Named(folder, load_matcher(folder, device=device))


def read_corpus(
    named: Named,
    place: Path,
    split: str | None,
    folders: tuple[Path, Path | None],
    settings: AdaptSettings,
    device: str,
) -> Given:
    """Read the captions of a split as unlabelled queries, in the order of the corpus, and the clips of that split.

    `folders` are those of its features, and of features by the matcher's towers before their training.
    """
    from evenreel.cli.elements import text_tower
    from evenreel.corpus import load_corpus, select

    (folder, pretrained), (features, pretrained_features) = named, folders
    assert pretrained is not None
    whole, name = load_corpus(place), place.resolve().name
    if split is None and TEST in whole.clips["split"].to_list():
        split = TEST
    part = whole if split is None else select(whole, split=split)
    with share_bar("reading the captions") as progress:
        loaded = load_features_for(pretrained, features, part, progress, pretrained_features=pretrained_features)
    tower = text_tower(pretrained, folder, features, device) if settings.reads_captions else None
    said = dict(part.captions.select("caption_id", "text").iter_rows())
    return Given(
        pretrained=pretrained,
        folder=folder,
        stream=QueryStream(loaded.texts, tuple(said[caption] for caption in loaded.texts.ids), loaded.videos),
        of=name if split is None else f"the split {split} of {name}",
        encode=None if tower is None else text_reader(tower, pretrained.matcher),
        names={},
        set_aside=loaded.set_aside,
        notices=loaded.notices,
        uses=loaded.uses,
    )


def read_library(named: Named, place: Path, queries: Path, device: str) -> Given:
    """Read a file of queries, and all clips of the library that they were asked of."""
    from evenreel.cli.clip_pictures import clip_pictures
    from evenreel.cli.text_lines import queries_of
    from evenreel.library import open_library

    asked = queries_of(queries)
    with open_library(place, device=device) as opened:
        found = library_stream(opened, asked, named.pretrained, device=device)
    return replace(found, folder=named.folder, pictures=partial(clip_pictures, place))


def library_stream(
    library: Library, queries: Sequence[str], pretrained: Pretrained | None = None, *, device: str = "cpu"
) -> Given:
    """Read the queries and clips of a library that a matcher, or else the mean frame, is to be adapted to."""
    from evenreel.library.search.query import readable

    if pretrained is not None:
        library.check_matcher(pretrained)
    encoder = library.encoder
    if encoder is None:
        raise UsageError(f"The library {library.path} is searched without vision, so no matcher can learn there.")
    if pretrained is None:
        note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
        pretrained = zero_shot(note, frames=FRAMES, device=device)
    inputs = pretrained.about.inputs
    read = [text for text in map(readable, queries) if text]
    distinct = tuple(dict.fromkeys(read))
    with library.snapshot() as s:
        if min(len(distinct), len(s.seen_ids)) < 2:
            raise UsageError(
                "A model can learn from two different queries and two clips with frames or more; there are fewer "
                f"(queries: {len(distinct):,}, clips: {len(s.seen_ids):,})."
            )
        encode = text_reader(encoder, pretrained.matcher, inputs.words)
        stream = QueryStream(encode(distinct), distinct, _clips(s, inputs, encoder))
        names = s.connection.execute(
            "SELECT clip_id, min(name) FROM files WHERE state = 'indexed' AND clip_id IS NOT NULL GROUP BY clip_id"
        )
        again = len(read) - len(distinct)
        return Given(
            pretrained,
            None,
            stream,
            of=f"the library {Path(library.path).resolve().name}",
            encode=encode,
            names=dict(names.fetchall()),  # of the first file
            notices=(f"{count(again, 'line')} of the queries asked again what others had.",) if again else (),
        )


def _clips(library: Snapshot, inputs: Inputs, encoder: Encoder) -> VideoFeatures:
    """Read every clip with frames as re-ranking gives it to a matcher, all at once: V x T x D float16."""
    from evenreel.library.search.rerank import as_given, joined_text, middles, stored_clip

    vectors, clip_ids = library.vectors, library.seen_ids
    assert vectors is not None
    most = max(len(middles(int(count), inputs.frames)) for count in set(library.counts[library.seen].tolist()))
    whole: dict[str, Any] = {
        "frames": np.zeros((len(clip_ids), most, vectors.dimension), np.float16),
        "frame_mask": np.zeros((len(clip_ids), most), np.bool_),
        "times_s": np.zeros((len(clip_ids), most)),
    }
    on_screen: list[OnScreen[NDArray[Any]]] = []
    for row, clip_id in enumerate(clip_ids):
        clip = as_given(stored_clip(library, clip_id, text=inputs.windows is not None), inputs, encoder)
        for name, array in whole.items():
            given = getattr(clip, name)[0]
            array[row, : len(given)] = given
        if clip.on_screen is not None:
            on_screen.append(clip.on_screen)
    return VideoFeatures(tuple(clip_ids), **whole, on_screen=joined_text(on_screen))


# the result --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AdaptOutcome:
    """What an adaptation began with and learned by, what came of it, and what changed for the queries."""

    given: Given
    prepared: PreparedSource | None
    settings: AdaptSettings
    found: Adaptation
    changes: Changes
    made: Provenance

    @property
    def kept(self) -> bool:
        return self.found.report.kept

    @property
    def read(self) -> str:
        stream = self.given.stream
        return f"{len(stream.sentences):,} unlabelled queries and {len(stream.videos.ids):,} clips of {self.given.of}"

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels of everything the adapted weights were made with, such as the queries; scores by them carry these."""
        more = self.prepared.uses if self.prepared is not None and self.settings.causal else ()
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
        stream = self.given.stream
        learned = {"of": self.given.of, "queries": len(stream.sentences), "clips": len(stream.videos.ids)}
        found = record(self.found.report, self.changes, self.settings, self.given.names)
        said = {"notices": list(self.given.notices), "provenance": self.made.to_json()}
        return {"learned_from": learned, **found, **said}

    def page(self) -> Page:
        report, names = self.found.report, self.given.names
        title = f"Adapted to {self.given.of}" if self.kept else f"Not adapted to {self.given.of}"
        clips = list(dict.fromkeys(one[side] for one in self.changes.examples for side in ("before", "after")))
        pictures = self.given.pictures(clips) if clips and self.given.pictures is not None else {}
        return adaptation_page(title, report, self.changes, recipe_text(self.settings), names, pictures)


def adapted(
    given: Given, settings: AdaptSettings, confounders: Path | None, made: Provenance, *, keep: bool
) -> AdaptOutcome:
    """Adapt the matcher to its queries and clips; the scores of batches are kept where that is asked for."""
    tagger = load_tagger()
    read = None if confounders is None else read_confounders(confounders)
    prepared = None if given.folder is None else load_prepared(given.folder)
    resources = resources_of(prepared, given.stream.videos, settings, given.encode, tagger, confounders=read)
    model = TestTimeMatcher(given.pretrained.matcher, given.stream.videos, settings, resources)
    with share_bar("adapting") as progress:
        found = adapt(model, given.stream, progress, keep=keep, tagger=resources.tagger)
    changes = found.changes or changes_of(model, given.stream, resources.tagger)
    return AdaptOutcome(given, prepared, settings, found, changes, made)


class Written(NamedTuple):
    """Places of what is written; None for what is not."""

    checkpoint: Path | None
    scores: Path | None
    report: Path | None


def write(outcome: AdaptOutcome, files: Written, *, in_place: bool) -> Written:
    """Write the checkpoint, the scores and the page, each where a place is given; in place only what was kept."""
    given, place = outcome.given, files.checkpoint
    if in_place:
        place = given.folder if outcome.kept else None
    page = None if place is None and files.report is None else outcome.page()
    if page is not None and files.report is not None:
        write_page(page, files.report, outcome.made)
    if files.scores is not None:
        _write_scores(outcome, files.scores)
    if page is not None and place is not None:
        told = json.dumps(outcome.record(), indent=2, allow_nan=False) + "\n"
        records = {JSON: told, PAGE: render(page, outcome.made)}
        save_adapted(place, outcome.pretrained, records, source=given.folder, in_place=in_place)
    return files._replace(checkpoint=place)


def _write_scores(outcome: AdaptOutcome, path: Path) -> None:
    """Scores that say what they used: online as batches were answered, offline of the matcher that is given."""
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores

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


def show(outcome: AdaptOutcome, written: Written, as_json: bool) -> None:
    """Print how an adaptation ended: whether it was kept, by which figures, what changed, and where the results are."""
    aside = outcome.given.set_aside
    if as_json:
        print_json({**outcome.record(), "written": written._asdict(), "set_aside": aside})
        return
    out = console()
    out.print(safe(outcome.found.report.sentence))
    for line in _lines(outcome):
        out.print(f"  {safe(line)}")
    for notice in outcome.given.notices:
        out.print(f"  [yellow]{safe(notice)}[/]")
    scores = "" if written.scores is None else f" Scores are in {written.scores}; they say what they used."
    report = "" if written.report is None else f" The report is {written.report}."
    if written.checkpoint is None:
        end = "No checkpoint was written."
    elif outcome.kept:
        end = f"The adapted checkpoint, with its report in adaptation/, is {written.checkpoint}."
    else:
        end = f"{written.checkpoint} has the weights of the source, unchanged, and the report."
    out.print(safe(f"{end}{scores}{report}"))
    list_aside(aside, WITHOUT, most=MANY)


def _lines(outcome: AdaptOutcome) -> Iterator[str]:
    report, changes = outcome.found.report, outcome.changes
    yield f"from {outcome.read}, in {count(len(report.steps), 'step')}"
    if report.drift is not None:
        moved = f"captions {report.drift.captions.distance:.2f}, clips {report.drift.clips.distance:.2f}"
        yield f"away from the source by {moved} of its deviations"
    labelled = [step for step in report.steps if step.coverage is not None]
    if labelled:
        last = labelled[-1]
        yield (
            f"pseudo-labels of the last step: {last.pairs:,} learned from, {last.counterfactual:,} counterfactual "
            f"captions, on {last.coverage:.0%} of the clips, Gini {last.gini:.2f}"
        )
    ranked = [step.label_rank for step in report.steps if step.label_rank is not None]
    if ranked:
        yield f"bias correction, last step: {ranked[-1].sentence}"
    if report.verdict is not None:
        confidence = outcome.settings.safety.confidence
        figures = {name: change_interval(change) for name, change in report.verdict.changes.items()}
        shown = [f"{name} {figure_words(one, confidence, digits=3)}" for name, one in figures.items()]
        yield f"changes on queries that it had not learned from: {', '.join(shown)}"
    if outcome.kept:
        yield f"the weights moved by {report.moved:.2%}, and {changes.first_changed:.1%} of the first clips are others"
    for word in changes.words[:FEW]:
        name = outcome.given.names.get(word["clip"], word["clip"])
        yield (
            f"{word['sharing']:,} of {word['matched']:,} queries with the first clip {name} share the word "
            f"{word['word']!r}"
        )
