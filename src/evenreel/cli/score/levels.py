"""Option of `evenreel score` that takes off what right answers of generated clips score too high."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.types import Corpus, ScoreBlocks, VideoFeatures


@dataclass(frozen=True)
class SourceLevelling:
    """Held-out split by which scores of generated clips are lowered (`evenreel.debias.source`).

    Attributes:
        level_sources: held-out split, such as val: score the clips of each generator lower by as much as its right
            answers score above those of real clips there; None for scores as they are.
        recognise_sources: split whose clips say what made them, such as train: tell it of the clips that are scored by
            their mean frames instead of the corpus; None to take it from the corpus.
    """

    level_sources: str | None = None
    recognise_sources: str | None = None

    def check(self, out: Path) -> None:
        """Refuse a file of scores that cannot say that they are levelled, and sources that nothing is levelled by.

        Raises:
            UsageError: the file is an .npy, or no split is named to learn levels from.
        """
        if self.recognise_sources and not self.level_sources:
            raise UsageError(
                "--recognise-sources tells whose scores are lowered; name a held-out split by --level-sources."
            )
        if self.level_sources and out.suffix == ".npy":
            raise UsageError("An .npy cannot say that its scores are levelled; let --out end in .npz.")

    def apply(
        self,
        scores: ScoreBlocks,
        videos: VideoFeatures,
        *,
        corpus: Corpus,
        pretrained: Pretrained,
        load: Callable[[Corpus], CorpusFeatures],
    ) -> ScoreBlocks:
        """Level scores, or return them unchanged where no split is named.

        Raises:
            CorpusError: the corpus has no such split.
            UsageError: a split has too few clips of a source, see `evenreel.debias.source`.
        """
        if self.level_sources is None:
            return scores
        from evenreel.corpus import select
        from evenreel.corpus.counterparts import sources_of
        from evenreel.debias.source import levelled, recognised_sources, source_levels
        from evenreel.features.scene_elements import clip_means
        from evenreel.matchers.scoring import matcher_scores

        held, sources = select(corpus, split=self.level_sources), sources_of(corpus)
        loaded = load(held)
        levels = source_levels(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos), held, sources)
        if self.recognise_sources is not None:
            known = load(select(corpus, split=self.recognise_sources)).videos
            named = [sources[clip_id] for clip_id in known.ids]
            found = recognised_sources(clip_means(known), named, clip_means(videos))
            sources = dict(zip(videos.ids, found, strict=True))
        return levelled(scores, levels, sources)
