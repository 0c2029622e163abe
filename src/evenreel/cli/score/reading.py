"""Options of `evenreel score` that read captions by other parts of them, to find out what each part holds (BiMa)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from evenreel.cli.options import MOST, MOST_SEED
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained

_PARTS = ("content", "bias")


@dataclass(frozen=True)
class CaptionReading:
    """Parts that captions are encoded by, of a matcher that splits them in content and bias (BiMa, section 3.3).

    Attributes:
        reading: what captions are encoded by, of a matcher with both (BiMa, table 5): content or bias.
        alpha: add this share of the bias to the content (BiMa, figure 4).
        draws: the mean of so many draws of the bias; 0 for its mean.
        draws_seed: seed of these draws.
    """

    reading: str = "content"
    alpha: Annotated[float, typer.Option(min=-1000, max=1000)] = 0.0
    draws: Annotated[int, typer.Option(min=0, max=MOST)] = 0
    draws_seed: Annotated[int, typer.Option(min=0, max=MOST_SEED)] = 0

    def __post_init__(self) -> None:
        if self.reading not in _PARTS:
            raise UsageError(f"--reading is {self.reading!r}; it must be {' or '.join(_PARTS)}.")
        if self.reading == "bias" and self.alpha:
            raise UsageError("--alpha adds bias to content, and --reading bias has the bias alone; give one of them.")
        if not self._has_bias and (self.draws or self.draws_seed):
            raise UsageError("--draws and --draws-seed draw the bias; give --reading bias or --alpha with them.")
        if self.draws_seed and not self.draws:
            raise UsageError("--draws-seed is of --draws, and none are drawn; say how many.")

    @property
    def _has_bias(self) -> bool:
        return self.reading == "bias" or self.alpha != 0

    @property
    def uses(self) -> tuple[str, ...]:
        """Notes for scores of captions that are read so, see `evenreel.types.ScoreNotes.uses`."""
        if not self._has_bias:
            return ()
        drawn = f"the mean of {self.draws} draws (seed {self.draws_seed})" if self.draws else "its mean"
        if self.reading == "bias":
            return (f"the bias of captions in place of their content, {drawn}",)
        return (f"the content of captions and {self.alpha:g} times their bias, {drawn}",)

    def check(self, out: Path) -> None:
        """Refuse a file of scores that cannot say what captions were read by.

        Raises:
            UsageError: it is an .npy, and captions are read by their bias.
        """
        if self.uses and out.suffix == ".npy":
            raise UsageError("An .npy cannot say what captions were read by; let --out end in .npz.")

    def read(self, pretrained: Pretrained) -> AbstractContextManager[None]:
        """Return a context in which the matcher encodes captions by these parts of them.

        Raises:
            UsageError: it has no bias of captions.
        """
        if not self._has_bias:
            return nullcontext()
        from evenreel.checkpoint.architecture import module
        from evenreel.matchers.bima import Bima, Reading, captions_read

        network = module(pretrained.matcher)
        if not any(isinstance(part, Bima) and part.bias is not None for part in network.modules()):
            raise UsageError(
                "The matcher has no bias of captions to read: --reading, --alpha and --draws are for bima."
            )
        part = cast("Literal['content', 'bias']", self.reading)
        return captions_read(network, Reading(part, self.alpha, self.draws, self.draws_seed))
