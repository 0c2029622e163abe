"""How right pseudo-labels are on planted domains, step by step, and whose choice among likely clips is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.over_seeds import Figures, Rows, gap_of, markdown, mean, words
from benchmarks.planted import Split, showing
from evenreel.adaptation.adapted import gallery_of
from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.report import AdaptationStep
from evenreel.adaptation.settings import FitSettings
from evenreel.adaptation.stream import QueryStream
from evenreel.adaptation.titan.causal_training import TargetStage, choose
from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings, counterfactuals
from evenreel.adaptation.titan.matching import MatchSettings, one_way, rematch
from evenreel.adaptation.titan.pseudo_labels import Resources, likeliest, scored, vectors_of
from evenreel.matchers.matcher import Matcher

RIGHT, COVERED = "labels right, %", "coverage, %"
BEFORE, AFTER, RELABELLED = "rank of the label before", "after the target stage", "labels changed by it, %"
"""What the target stage of the bias correction made of its labels."""
CHOICE = "choice: "
"""Before the names of rows that have the share of right labels alone."""
BETAS = (2, 5)
"""Of counterfactual captions whose clips are looked at."""


def by_step(name: str, number: int) -> str:
    """The name of a figure of one step."""
    return f"{name}, step {number}"


def right_of(labels: Sequence[tuple[str, str]], split: Split, right: NDArray[np.float64]) -> Figures:
    """Of pairs of a caption and a clip, where `right` is (Q, V) what each clip of the split shows (`showing`)."""
    rows, columns = ({one: n for n, one in enumerate(ids)} for ids in (split.texts.ids, split.videos.ids))
    hits = [right[rows[query], columns[clip]] for query, clip in labels]
    return {RIGHT: 100 * float(np.mean(hits)), COVERED: 100 * len({clip for _, clip in labels}) / len(columns)}


def ranks_of(steps: Sequence[AdaptationStep]) -> Figures:
    """Means over some steps of what the target stage made of its labels; nothing where there was none."""
    found = [step.label_rank for step in steps if step.label_rank is not None]
    if not found:
        return {}
    before, after, _, changed = np.mean(np.array(found), axis=0)
    return {BEFORE: float(before), AFTER: float(after), RELABELLED: 100 * float(changed)}


def choices(model: Matcher, prepared: PreparedSource, split: Split, fit: FitSettings) -> Rows:
    """How many captions get a clip that shows what they name, by different ways to choose one for them.

    All but the first two choose among the `eta` clips that the model scores highest. The target stage trains on the
    model's first clips, or on the rematched ones, which are then among the candidates.
    """
    gallery = gallery_of(model, split.videos, vectors=True)
    scores, q, v = scored(model, split.texts, gallery.encoded), vectors_of(model, split.texts), gallery.vectors
    assert v is not None and prepared.correction is not None
    source, eta = prepared.correction, prepared.correction.settings.eta
    labels = {"first clips": one_way(scores), "rematched clips": rematch(scores, MatchSettings())}
    candidates = {name: likeliest(scores, columns, eta) for name, columns in labels.items()}
    likely = candidates["first clips"]
    cosines = np.take_along_axis((q @ v.T).numpy(), likely, axis=1)
    chosen = {
        "the model's first clip": labels["first clips"],
        "rematched": labels["rematched clips"],
        "cosine of the vectors that the correction judges by": likely[np.arange(len(likely)), cosines.argmax(1)],
        "correction, source stage": choose(source, q, v, likely).columns,
        "ranks of correction and model, source stage": choose(source, q, v, likely, "ranks").columns,
    }
    for name, clips in candidates.items():
        stage = TargetStage(source, prepared.target_confounders(split.videos), fit)
        stage.learn(q, v, clips)
        chosen[f"correction, both stages, {name} as labels"] = choose(stage.correction, q, v, clips).columns
        chosen[f"ranks, both stages, {name} as labels"] = choose(stage.correction, q, v, clips, "ranks").columns
    right = showing(split.corpus, list(split.texts.ids), list(split.videos.ids))
    rows = np.arange(len(scores))
    found: Rows = {CHOICE + name: {RIGHT: 100 * float(right[rows, columns].mean())} for name, columns in chosen.items()}
    best = np.take_along_axis(right, likely, axis=1).any(axis=1).mean()
    return found | {f"{CHOICE}best of {eta}": {RIGHT: 100 * float(best)}}


def without_words(model: Matcher, stream: QueryStream, split: Split, resources: Resources) -> Rows:
    """How many counterfactual captions get a clip that shows what the whole caption names, and how many of these do.

    Nothing of a beta that makes no such caption.
    """
    assert resources.encode is not None and resources.tagger is not None
    gallery = gallery_of(model, split.videos, vectors=False)
    scores, tagged = scored(model, stream.texts, gallery.encoded), resources.tagger.tag(stream.sentences)
    right = showing(split.corpus, list(stream.texts.ids), list(split.videos.ids))
    found: Rows = {}
    for beta in BETAS:
        made = counterfactuals(stream.sentences, tagged, one_way(scores), CounterfactualSettings(beta=beta))
        if not made:
            continue
        less = scored(model, resources.encode([one.text for one in made]), gallery.encoded)
        queries = [one.query for one in made]
        whole, without = (rematch(one, MatchSettings()) for one in (scores, np.concatenate([scores, less])))
        for name, columns in (("whole", whole[queries]), ("without the word", without[len(scores) :])):
            share = 100 * float(right[queries, columns].mean())
            found[f"{CHOICE}captions of clips with more than {beta} queries, {name}"] = {RIGHT: share}
    return found


def steps_table(figures: Mapping[str, Sequence[Figures]]) -> str:
    """Right labels and coverage of each step, in Markdown; empty where no row has steps."""
    numbers = range(1, 1 + max((steps_of(own) for own in figures.values()), default=0))
    rows = [name for name, own in figures.items() if steps_of(own)]
    if not rows:
        return ""
    lines = [[name, *(step_words(figures[name], number) for number in numbers)] for name in rows]
    head = "| " + " | ".join(["", *map(str, numbers)]) + " |"
    return f"labels right / clips that have one, %, by step\n\n{markdown(head, lines)}"


def steps_of(seeds: Sequence[Figures]) -> int:
    """Steps that all seeds have."""
    number = 0
    while all(by_step(RIGHT, number + 1) in one for one in seeds):
        number += 1
    return number


def step_words(seeds: Sequence[Figures], number: int) -> str:
    """Means of a step."""
    if number > steps_of(seeds):
        return ""
    return " / ".join(f"{mean(seeds, by_step(name, number)):.1f}" for name in (RIGHT, COVERED))


def choices_table(figures: Mapping[str, Sequence[Figures]]) -> str:
    """Whose choice is right, in Markdown; empty where nobody asked."""
    rows = {name.removeprefix(CHOICE): own for name, own in figures.items() if name.startswith(CHOICE)}
    if not rows:
        return ""
    lines = [(name, words(gap_of(np.array([one[RIGHT] for one in own])))) for name, own in rows.items()]
    return markdown(f"| choice | {RIGHT} |", lines)
