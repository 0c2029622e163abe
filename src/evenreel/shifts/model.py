"""A retrieval model that sees corrupted clips: a matcher, and the encoder of the features that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evenreel.checkpoint import About, Pretrained, load_matcher, named_matcher
from evenreel.checkpoint.folder import checkpoint_folder, names_no_checkpoint
from evenreel.checkpoint.records import ENCODER
from evenreel.config import DEFAULT_MODEL
from evenreel.encoders.loading import LoadedEncoder, load_encoder
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.settings import DEFAULT_FRAMES, FeatureSettings


@dataclass(frozen=True, eq=False)
class SeeingModel:
    """A matcher by name, the encoder whose features it takes, and how clips become features.

    Attributes:
        name: folder or hub id of a checkpoint, or a matcher that needs no training, such as `mean_pool`.
        encoder: image and text towers.
        settings: frames and words of a clip that become features; the folder of the videos is left open.
        device: device of matcher and encoder.
    """

    name: str
    encoder: LoadedEncoder
    settings: FeatureSettings
    device: str = "cpu"

    def matcher(self, features: Path) -> Pretrained:
        """Load the matcher, for features that were made."""
        return named_matcher(self.name, features, device=self.device)


def load_model(name: str, encoder: str | None = None, device: str = "auto") -> SeeingModel:
    """Load what is needed to compute features of new clips for a matcher.

    Args:
        name: folder or hub id of a checkpoint, or a matcher that needs no training.
        encoder: towers for a matcher without a checkpoint, as `load_encoder` takes them; a checkpoint names its own.
        device: device of matcher and encoder.

    Raises:
        CheckpointError: there is no such checkpoint, or features for it cannot be made here.
        UsageError: an encoder is named for a checkpoint.
        EncoderError: the encoder cannot be loaded.
    """
    if names_no_checkpoint(name):
        settings = FeatureSettings(f"{DEFAULT_FRAMES} midpoints", read_text=False)
        return SeeingModel(name, load_encoder(encoder or DEFAULT_MODEL, device=device), settings, device)
    if encoder is not None:
        raise UsageError(f"{name} says itself which encoder its features are of; leave --model out.")
    pretrained = load_matcher(name)
    _check_makable(name, pretrained)
    note = pretrained.about.encoder
    towers = str(checkpoint_folder(name) / ENCODER) if note.trained_further else note.id
    return SeeingModel(name, load_encoder(towers, device=device), _settings(pretrained.about), device)


def _settings(about: About) -> FeatureSettings:
    """How clips became the features that a matcher was trained on."""
    rule = about.inputs.rule or f"{DEFAULT_FRAMES} midpoints"
    windows = about.inputs.windows
    if windows is None:
        return FeatureSettings(rule, read_text=False)
    return FeatureSettings(rule, windows=windows)


def _check_makable(name: str, pretrained: Pretrained) -> None:
    """Refuse a matcher whose features of a new clip cannot be computed here."""
    about = pretrained.about
    corpora = "write the corpora with `evenreel corpus corrupt` and compute its features of them yourself"
    if (stored := about.encoder.stored_name) is not None:
        raise CheckpointError(f"{name} takes features {stored!r}, which others computed; {corpora}.")
    if about.inputs.words_from == "corpus":
        raise CheckpointError(
            f"{name} reads words on screen that the corpus ships, and corrupted clips have none that are true of them; "
            "train one that reads them in the frames (--words ocr)."
        )
    if pretrained.needs_pretrained_means:
        raise CheckpointError(f"{name} needs features by its towers before their training as well; {corpora}.")
