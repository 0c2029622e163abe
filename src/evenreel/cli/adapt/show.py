"""What `evenreel adapt` prints when it is done."""

from __future__ import annotations

from collections.abc import Iterator

from evenreel.adaptation.run import interval_text
from evenreel.cli.adapt.results import AdaptOutcome, Written
from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.wording import count

MANY = 10
FEW = 3


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
    out.print(safe(_end(outcome, written)))
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
    verdict = next((step.verdict for step in reversed(report.steps) if step.verdict is not None), None)
    if verdict is not None:
        shown = [f"{name} {interval_text(change)}" for name, change in verdict.changes.items()]
        yield f"on queries that it had not learned from: {', '.join(shown)}"
    if outcome.kept:
        yield f"the weights moved by {report.moved:.2%}, and {changes.first_changed:.1%} of the first clips are others"
    for word in changes.words[:FEW]:
        name = outcome.given.names.get(word.clip, word.clip)
        yield f"{word.sharing:,} of {word.matched:,} queries with the first clip {name} share the word {word.word!r}"


def _end(outcome: AdaptOutcome, written: Written) -> str:
    scores = "" if written.scores is None else f" Scores are in {written.scores}; they say what they used."
    report = "" if written.report is None else f" The report is {written.report}."
    if written.checkpoint is None:
        return f"No checkpoint was written.{scores}{report}"
    if not outcome.kept:
        return f"{written.checkpoint} has the weights of the source, unchanged, and the report.{scores}{report}"
    return f"The adapted checkpoint, with its report in adaptation/, is {written.checkpoint}.{scores}{report}"
