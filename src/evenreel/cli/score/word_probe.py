"""Options of `evenreel score` that leave out or misread words on screen first, to find out what they are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli.options import MOST_SEED
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.features.word_changes import WordChanges

_UNITS = ("word", "window", "clip")
Share = Annotated[float | None, typer.Option(min=0, max=1)]


@dataclass(frozen=True)
class WordProbe:
    """Changes of on-screen words in place of those in training; see `WordChanges`.

    Attributes:
        ocr_ratio: keep this share of the words on screen, 0 to 1; None for that in training.
        words_unit: what is kept or left out as one: word, window or clip; None for that in training, or word.
        char_errors: misread this share of the characters of words on screen, 0 to 1; None for that in training.
        words_seed: seed of which words are kept and which characters misread; None for that in training, or 0.
    """

    ocr_ratio: Share = None
    words_unit: str | None = None
    char_errors: Share = None
    words_seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED)] = None

    def __post_init__(self) -> None:
        if self.words_unit not in (None, *_UNITS):
            raise UsageError(f"--words-unit is {self.words_unit!r}; it must be {', '.join(_UNITS)}.")

    def changes(self, trained: WordChanges | None) -> WordChanges | None:
        """Return the changes of words for a matcher that was trained with others; None for no changes.

        Raises:
            UsageError: an option is given that says nothing without another one.
        """
        from evenreel.features.word_changes import WordChanges

        asked = {
            "ratio": self.ocr_ratio, "char_errors": self.char_errors, "seed": self.words_seed, "unit": self.words_unit,
        }  # fmt: skip
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        if not given:
            return trained
        changes = replace(trained or WordChanges(), **given)
        if not changes.words_differ and (self.words_seed is not None or self.words_unit is not None):
            raise UsageError(
                "--words-seed and --words-unit say which words --ocr-ratio and --char-errors change; give one of these."
            )
        return changes

    def asking(self, pretrained: Pretrained, out: Path) -> Pretrained:
        """Return the matcher as if it had been trained with these changes.

        Raises:
            UsageError: it reads no words on screen; the file for the scores cannot say what was done; or an option says
                nothing.
        """
        inputs = pretrained.about.inputs
        if inputs.windows is None and self != WordProbe():
            raise UsageError(
                "The matcher reads no words on screen, so there are none to change: leave --ocr-ratio, --char-errors, "
                "--words-seed and --words-unit out."
            )
        changes = self.changes(inputs.word_changes)
        if changes is not None and changes.uses and out.suffix == ".npy":
            raise UsageError(f"An .npy cannot say that scores are with {changes}; let --out end in .npz.")
        about = replace(pretrained.about, inputs=replace(inputs, word_changes=changes))
        return replace(pretrained, about=about)

    def notices(self, pretrained: Pretrained) -> tuple[str, ...]:
        """List sentences on how words are changed, and that the matcher was trained with other changes."""
        from evenreel.features.word_changes import WordChanges

        trained = pretrained.about.inputs.word_changes or WordChanges()
        changes = self.changes(trained) or trained
        told = [f"scored with {use}" for use in changes.uses]
        if trained.words_differ and changes != trained:
            told.append(f"the matcher was made for {trained}")
        return tuple(told)
