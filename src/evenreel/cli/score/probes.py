"""Options of `evenreel score` that change the frames first, to find out what a preference is due to."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from evenreel.cli.options import MOST
from evenreel.config import OptionForm
from evenreel.edits.settings import FrameOrder, OneFrame, OrderStage
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.progress import Progress

if TYPE_CHECKING:
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.matchers import Matcher
    from evenreel.types import Corpus, VideoFeatures

Which = Literal["all", "generated"]

SOME = 64
"""Captions and clips that tell whether a matcher sees the order of frames."""

BLIND = (
    "the matcher gives the same scores whatever the order of frames, so that this says nothing of what is due to motion"
)


@dataclass(frozen=True)
class Probe:
    """Changes of the frames of clips before they are scored; by default none.

    Attributes:
        order: how the frames of each clip are given to the matcher: original, random or reversed.
        stage: `sampled`: move the frames that are taken; `video`: move all frames first, and take then.
        frames: take so many frames of each clip, in the middle of equal parts; None for all.
        rule: take frames of the features by this rule, as `evenreel features --rule` has it; None for that in training.
        one: keep one frame of each clip: middle, first or random.
        which: `all` or `generated`: whose frames are moved.
        seed: seed of what is random.
    """

    order: Annotated[FrameOrder, OptionForm("--frame-order")] = "original"
    stage: Annotated[OrderStage, OptionForm("--order-stage")] = "sampled"
    frames: Annotated[int | None, OptionForm(least=1, most=MOST)] = None
    rule: str | None = None
    one: Annotated[OneFrame | None, OptionForm("--single-frame")] = None
    which: Annotated[Which, OptionForm("--probe")] = "all"
    seed: int = 0

    def __post_init__(self) -> None:
        for option, word, known in (
            ("--frame-order", self.order, ("original", "random", "reversed")),
            ("--order-stage", self.stage, ("sampled", "video")),
            ("--single-frame", self.one, (None, "middle", "first", "random")),
            ("--probe", self.which, ("all", "generated")),
        ):
            if word not in known:
                raise UsageError(f"{option} is {word!r}; it must be {', '.join(filter(None, known))}.")

    def check(self, out: Path) -> None:
        """Check, before anything is loaded, that the options go together.

        Raises:
            UsageError: an option is given without the one that it needs, or with one that leaves it nothing to do, or
                the file for the scores is an .npy, which cannot say what was done.
        """
        for wrong, sentence in (
            (
                self.one and (self.moves or self.frames),
                "--single-frame leaves nothing to move or to take; give it alone",
            ),
            (self.which == "generated" and not self.moves, "--probe says whose frames --frame-order moves; give both"),
            (self.stage == "video" and not self.moves, "--order-stage says when --frame-order moves frames; give both"),
            (self.stage == "video" and not self.frames, "--order-stage video needs --frames, how many are taken then"),
            (self.rule and not self.frames, "--rule needs --frames, how many of its frames the matcher is given"),
            (self.uses and out.suffix == ".npy", "an .npy cannot say what was done to frames; let --out end in .npz"),
        ):
            if wrong:
                raise UsageError(f"{sentence[0].upper()}{sentence[1:]}.")

    @property
    def moves(self) -> bool:
        """Whether frames change places."""
        return self.order != "original"

    @property
    def uses(self) -> tuple[str, ...]:
        """Notes for scores of changed frames, see `evenreel.types.ScoreNotes.uses`."""
        seed = f" (seed {self.seed})"
        if self.one:
            return (f"the {self.one} frame of each clip alone{seed if self.one == 'random' else ''}",)
        if not self.moves:
            return ()
        whose = "frames of generated clips" if self.which == "generated" else "frames"
        late = f", moved before {self.frames} were taken" if self.stage == "video" else ""
        return (f"{whose} in {self.order} order{seed if self.order == 'random' else ''}{late}",)

    def load(
        self,
        pretrained: Pretrained,
        features: Path,
        corpus: Corpus,
        progress: Progress,
        pretrained_features: Path | None = None,
    ) -> CorpusFeatures:
        """Load the features of a corpus for a matcher, and change their frames.

        Arguments are those of `evenreel.checkpoint.load_features_for`.

        Raises:
            CorpusError: frames of generated clips are to be moved, and there is none.
            FeaturesError: see `evenreel.checkpoint.load_features_for`; or there are none by the probe's rule.
        """
        from evenreel.checkpoint import load_features_for

        loaded = load_features_for(
            self._asking(pretrained, features), features, corpus, progress, pretrained_features=pretrained_features
        )
        changed = replace(loaded, videos=self._changed(loaded.videos, corpus))
        return replace(changed, notices=(*loaded.notices, *self._notices(pretrained, changed)))

    def _asking(self, pretrained: Pretrained, features: Path) -> Pretrained:
        """The matcher as if it had been trained on the features that are wanted."""
        from evenreel.features import read_manifest
        from evenreel.media import parse_rule

        if self.frames is None:
            return pretrained
        inputs = replace(pretrained.about.inputs, frames=None)
        if self.rule is None:
            return replace(pretrained, about=replace(pretrained.about, inputs=inputs))
        rule = str(parse_rule(self.rule))
        about = replace(pretrained.about, inputs=replace(inputs, rule=rule))
        if rule not in {made.rule for made in read_manifest(features).sets}:
            command = f"{about.features_command} --out {shlex.quote(str(features))}"
            raise FeaturesError(f"{features} holds no frames by '{rule}'; add them with `{command}`.")
        return replace(pretrained, about=about)

    def _changed(self, videos: VideoFeatures, corpus: Corpus) -> VideoFeatures:
        from evenreel.corpus.counterparts import groups_of
        from evenreel.edits.frame_order import reordered, single_frame

        if self.one:
            return single_frame(videos, self.one, seed=self.seed)
        only = None if self.which == "all" else groups_of(corpus)
        if only is not None and not only:
            raise CorpusError("No clip of the corpus is generated; say so in its column source, or leave --probe out.")
        return reordered(videos, self.order, stage=self.stage, take=self.frames, seed=self.seed, only=only)

    def _notices(self, pretrained: Pretrained, loaded: CorpusFeatures) -> list[str]:
        most = pretrained.about.inputs.frames
        notices = [f"scored with {use}" for use in self.uses]
        if self.frames:
            notices.append(f"{self.frames} frames are taken of a clip that has more")
        if self.frames and most and self.frames > most:
            notices.append(f"the matcher was trained on {most} frames at most")
        if self.moves and not _sees_order(pretrained.matcher, loaded):
            notices.append(BLIND)
        return notices


def _sees_order(matcher: Matcher, loaded: CorpusFeatures) -> bool:
    import numpy as np

    from evenreel.adaptation.stream import taken
    from evenreel.edits.frame_order import sees_order
    from evenreel.matchers.scoring import matcher_scores

    texts = taken(loaded.texts, np.arange(min(SOME, len(loaded.texts.ids))))
    some = loaded.videos.taken(slice(SOME))
    return sees_order(lambda videos: matcher_scores(matcher, texts, videos).score_all().values, some)
