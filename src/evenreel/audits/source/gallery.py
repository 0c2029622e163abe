"""A gallery of real and generated clips, for audits that need no pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Flags
from evenreel.audits.inputs import scenes_of
from evenreel.corpus.counterparts import groups_of
from evenreel.errors import CorpusError
from evenreel.evaluation.blocks import CheckedScores
from evenreel.evaluation.clusters import AUTO, clusters_of
from evenreel.types import CAMERA, Corpus, ScoreBlocks

EVERY_GROUP = "all generated"


@dataclass(frozen=True, eq=False)
class SourceGallery:
    """Scores, clips and captions of a gallery of V real and generated clips.

    Attributes:
        scores: scores of Q captions.
        columns: (V,) columns of the corpus's clips in the scores.
        real: (V,) True for real clips.
        generated: (V,) True for clips of a group, by the group's name, `EVERY_GROUP` first.
        clip_scene: (V,) number of the scene that each clip shows, from 0.
        caption_scene: (Q,) number of the scene that answers each caption; one that no clip shows where it is not in the
            corpus.
        clip_drawn, caption_drawn: (V,) and (Q,) clusters to be resampled together: those of one scene, or of one video.
        order: (V,) indices of the clips in the order of their ids.
        notices: sentences on what was left out.
    """

    scores: CheckedScores
    columns: NDArray[np.int64]
    real: Flags
    generated: dict[str, Flags]
    clip_scene: NDArray[np.int64]
    caption_scene: NDArray[np.int64]
    clip_drawn: NDArray[np.int64]
    caption_drawn: NDArray[np.int64]
    order: NDArray[np.int64]
    notices: tuple[str, ...]

    @classmethod
    def of(cls, scores: ScoreBlocks, corpus: Corpus, cluster: str = AUTO) -> SourceGallery:
        """Select the real and generated clips, and the captions, of a corpus that the scores have.

        Args:
            scores: scores of captions and clips.
            corpus: corpus with the source of clips and their pairs.
            cluster: clips that are resampled together, see `evenreel.evaluation.clusters`.

        Raises:
            CorpusError: the scores hold no real or no generated clip of the corpus.
            ScoresError: the scores are no table of captions and videos.
        """
        checked, scenes, group_of = CheckedScores(scores), scenes_of(corpus), groups_of(corpus)
        columns = [place for place, clip in enumerate(checked.video_ids) if clip in scenes]
        groups = [group_of.get(checked.video_ids[place]) for place in columns]
        names = list(dict.fromkeys(group for group in groups if group is not None))
        real = np.array([group is None for group in groups], dtype=np.bool_)
        if not names or not real.any():
            raise CorpusError(
                f"Of the clips in the scores {int(real.sum()):,} are real and {int((~real).sum()):,} generated; an "
                "audit of sources needs both: the column source of the corpus's clips names the generator of each "
                f"generated one, and is {CAMERA}, real or empty for the others."
            )
        of_one = {name: np.array([group == name for group in groups]) for name in names} if len(names) > 1 else {}
        clip_of = dict(corpus.captions.select("caption_id", "clip_id").rows())
        number: dict[tuple[str, str], int] = {}
        shows = [("clip", scenes[checked.video_ids[place]]) for place in columns]
        asks = [("clip", scenes[clip_of[one]]) if one in clip_of else ("query", one) for one in checked.caption_ids]
        clip_scene, caption_scene = (
            np.array([number.setdefault(one, len(number)) for one in side], dtype=np.int64) for side in (shows, asks)
        )
        named = [
            name if kind == "clip" else f"{kind}\n{name}" for kind, name in (*shows, *asks)
        ]  # no clip has a line end
        clip_drawn, caption_drawn = np.split(clusters_of(corpus, cluster).of(named), [len(shows)])
        order = np.argsort(np.array([checked.video_ids[place] for place in columns]), kind="stable")
        strangers = len(checked.video_ids) - len(columns)
        notices = (f"Clips in the scores that are not in the corpus: {strangers:,} left out.",) if strangers else ()
        generated = {EVERY_GROUP: ~real} | of_one
        return cls(
            checked, np.array(columns), real, generated, clip_scene, caption_scene, clip_drawn, caption_drawn, order,
            notices,
        )  # fmt: skip

    def relevant(self, rows: slice) -> Flags:
        """Mark which clips answer which of some captions, (b, V)."""
        return np.asarray(self.caption_scene[rows, None] == self.clip_scene)
