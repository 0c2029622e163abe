"""A preference corrected without training: the source direction taken out of captions, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.counterparts import counterparts, groups_of
from evenreel.debias.source.direction import contrasts, source_basis, without_source
from evenreel.debias.source.vector import EmbeddingTable, VectorScores, caption_vectors, video_vectors
from evenreel.papers.engine.findings import PREFERENCE, Findings, effect_of, few_pairs, furthest, shown, verdict
from evenreel.papers.engine.inputs import DirectionInputs
from evenreel.papers.engine.material import CorpusPart, Model, groups_in
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.ghost.changes import AS_IT_IS, changes_table, compare_variants, variant_bars, variant_tables
from evenreel.papers.ghost.measures import MAIN, notices_of
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure
from evenreel.types import CAMERA, Corpus, ScoreBlocks

OF_GALLERY, OF_TRAINING = "without that of the gallery", "without that of the training split"


def removed_direction(material: DirectionInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Measure the source preference of every model as it is, and without the source direction in its captions."""

    @lru_cache(maxsize=1)
    def of_model(model: Model) -> list[tuple[str, ScoreBlocks]]:
        return list(_variants(model, material.train))

    found = compare_variants(lambda model, group, share: of_model(model), material, settings, progress)
    changes = {key: change for key, change in found.changes.items() if key[2] == OF_GALLERY}
    group, name, _ = lead = furthest(changes)
    before, after = (found.figures[group, name, variant] for variant in (AS_IT_IS, OF_GALLERY))
    recalls = [figures["real", "R@1"].value for figures in (before, after)]
    return Findings(
        f"Without the source direction of the gallery, {name} {verdict(after[MAIN])} on {group}: {PREFERENCE} "
        f"{shown(before[MAIN])} becomes {shown(after[MAIN])}, and of real clips among real ones {recalls[0]:.1f} % and "
        f"{recalls[1]:.1f} % are found first.",
        effect_of(changes[lead], f"Change of {PREFERENCE}: {name}, {group}"),
        (changes_table(found, "captions"), *variant_tables(found, "captions")),
        (AuditFigure("Preference before and after", partial(variant_bars, found)),),
        notices_of(found.figures.values()),
        paragraphs("ghost", "Measures", "The source direction", "Changes"),
        few=few_pairs(material.test, groups_in(material.test)),
    )


def source_directions(corpus: Corpus, clips: EmbeddingTable) -> NDArray[np.float32]:
    """Return an orthonormal basis (D, R) of what sets each generator's clips apart from real ones.

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
