"""Option of `evenreel score` that takes off what right answers of generated clips score too high."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.types import Corpus, ScoreBlocks


@dataclass(frozen=True)
class SourceLevelling:
    """Held-out split by which scores of generated clips are lowered (`evenreel.debias.source.level`).

    Attributes:
        level_sources: held-out split, such as val: score the clips of each generator lower by as much as its right
            answers score above those of real clips there; None for scores as they are.
    """

    level_sources: str | None = None

    def check(self, out: Path) -> None:
        """Refuse a file of scores that cannot say that they are levelled.

        Raises:
            UsageError: it cannot.
        """
        if self.level_sources and out.suffix == ".npy":
            raise UsageError("An .npy cannot say that its scores are levelled; let --out end in .npz.")

    def apply(
        self, scores: ScoreBlocks, corpus: Corpus, pretrained: Pretrained, load: Callable[[Corpus], CorpusFeatures]
    ) -> ScoreBlocks:
        """Level scores, or return them unchanged where no split is named.

        Args:
            scores: scores of a part of the corpus.
            corpus: all of it, with the sources of its clips.
            pretrained: the matcher that scored.
            load: loads the features of a part as they were loaded for the scores.

        Raises:
            CorpusError: the corpus has no such split.
            UsageError: the split has too few clips of a source, see `evenreel.debias.source.level.source_levels`.
        """
        if self.level_sources is None:
            return scores
        from evenreel.corpus import select
        from evenreel.corpus.counterparts import sources_of
        from evenreel.debias.source.level import levelled, source_levels
        from evenreel.matchers.scoring import matcher_scores

        held, sources = select(corpus, split=self.level_sources), sources_of(corpus)
        loaded = load(held)
        levels = source_levels(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos), held, sources)
        return levelled(scores, levels, sources)
