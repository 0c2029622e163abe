"""A preference corrected without training: the source direction taken out of captions, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.counterparts import counterparts, groups_of
from evenreel.debias.source.direction import contrasts, source_basis, without_source
from evenreel.debias.source.vector import EmbeddingTable, VectorScores, caption_vectors, video_vectors
from evenreel.papers.engine.findings import PREFERENCE, Findings, effect_of, few_pairs, shown, verdict
from evenreel.papers.engine.inputs import DirectionInputs
from evenreel.papers.engine.material import CorpusPart, Model, groups_in
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.ghost.changes import (
    AS_IT_IS,
    VariantFigures,
    bars,
    changes_table,
    compare_variants,
    every_change,
    left_out,
    paper_tables,
)
from evenreel.papers.ghost.measures import MAIN
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure
from evenreel.types import CAMERA, Corpus, ScoreBlocks

OF_GALLERY, OF_TRAINING = "without that of the gallery", "without that of the training split"


def removed_direction(material: DirectionInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Rankings of every model as they are and without the source direction."""
    models, groups = material.encoders(), list(groups_in(material.test))
    found: dict[tuple[str, str], VariantFigures] = {}
    for model in models:
        variants = list(_variants(model, material.train))
        for group in groups:
            found[group, model.name] = compare_variants(variants, material.test, group, settings.audit)
            progress(len(found) / (len(models) * len(groups)))
    changes = {key: change for key, change in every_change(found).items() if key[2] == OF_GALLERY}
    group, name, _ = furthest = max(changes, key=lambda key: abs(changes[key].value))
    before, after = (found[group, name].figures[variant] for variant in (AS_IT_IS, OF_GALLERY))
    recalls = [figures["real", "R@1"].value for figures in (before, after)]
    return Findings(
        f"Without the source direction of the gallery, {name} {verdict(after[MAIN])} on {group}: {PREFERENCE} "
        f"{shown(before[MAIN])} becomes {shown(after[MAIN])}, and of real clips among real ones {recalls[0]:.1f} % and "
        f"{recalls[1]:.1f} % are found first.",
        effect_of(changes[furthest], f"Change of {PREFERENCE}: {name}, {group}"),
        (changes_table(found, "captions"), *paper_tables(found, "captions")),
        (AuditFigure("Preference before and after", partial(bars, found)),),
        left_out(found),
        paragraphs("ghost", "Measures", "The source direction", "Changes"),
        few=few_pairs(material.test, groups),
    )


def source_directions(corpus: Corpus, clips: EmbeddingTable) -> NDArray[np.float32]:
    """An orthonormal basis (D, R) of what sets each generator's clips apart from real ones, by a model's vectors.

    Raises:
        UsageError: there are too few clips of a side.
    """
    vectors = clips.of(corpus.clips["clip_id"].to_list())
    place = {name: row for row, name in enumerate(vectors.ids)}
    generated = groups_of(corpus)
    named = dict(corpus.clips.select("clip_id", "source").iter_rows())
    sources = [named[name] if name in generated else CAMERA for name in vectors.ids]
    mirrored = np.full(len(sources), -1)
    for real, mirror, _ in counterparts(corpus).iter_rows():
        mirrored[place[mirror]] = place[real]
    found = contrasts(sources, mirrored)
    return source_basis(np.stack([one.weights @ vectors.values for one in found]))


def _variants(model: Model, train: CorpusPart | None) -> Iterator[tuple[str, ScoreBlocks]]:
    captions = caption_vectors(model.matcher, model.part.texts)
    clips = video_vectors(model.matcher, model.part.videos)
    yield AS_IT_IS, VectorScores(captions, clips)
    bases = {OF_GALLERY: source_directions(model.part.corpus, clips)}
    if train is not None:
        bases[OF_TRAINING] = source_directions(train.corpus, video_vectors(model.matcher, train.videos))
    for name, basis in bases.items():
        yield name, VectorScores(EmbeddingTable(captions.ids, without_source(captions.values, basis)), clips)
