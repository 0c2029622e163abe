"""Saving of a matcher's checkpoint, in one step."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from evenreel.checkpoint.architecture import build, kept_weights, resolved
from evenreel.checkpoint.card import model_card
from evenreel.checkpoint.config_file import CARD, CONFIG, WEIGHTS, Config, to_json
from evenreel.checkpoint.records import ADAPTATION, ENCODER, SOURCE, EncoderNote, Pretrained
from evenreel.encoders.checkpoint import TOKENIZER_FILES, open_checkpoint
from evenreel.encoders.encoder import quiet
from evenreel.errors import CheckpointError
from evenreel.files import replacing_folder

if TYPE_CHECKING:
    from evenreel.encoders.towers import Towers

_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")


def save_pretrained(
    folder: str | Path, pretrained: Pretrained, towers: Towers | None = None, *, loaded_from: Path | None = None
) -> Pretrained:
    """Save a matcher as a checkpoint; the matcher that `load_matcher` loads from it gives equal scores bit by bit.

    The folder is written whole or not at all; an earlier checkpoint in its place is replaced, and what was prepared of
    that for test-time training is deleted with it.

    Args:
        folder: folder to write.
        pretrained: the matcher, its specification and its origin.
        towers: the encoder, if it was trained with the matcher; it is saved as a model of its own in `encoder/`, for
            `evenreel index --model FOLDER/encoder`, and the matcher is tied to it.
        loaded_from: checkpoint that the matcher was loaded from, where its towers did not change: those that were
            trained further are copied from there.

    Returns:
        What was saved: with every setting spelt out, and tied to the trained towers where there are some.

    Raises:
        CheckpointError: the matcher is not what its spec builds, its encoder was trained further and is not given or
            is another, the folder holds other things, or the disk refuses.
    """
    place, note = Path(folder), pretrained.about.encoder
    check_free(place)
    _check_spec(pretrained)
    if loaded_from is None:
        _check_encoder(note, towers)
    try:
        with replacing_folder(place) as part:
            if loaded_from is not None and note.trained_further:
                shutil.copytree(loaded_from / ENCODER, part / ENCODER)
            return _write(part, replace(pretrained, spec=resolved(pretrained.spec)), towers)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be written: {error.strerror or error}.") from error


def _write(folder: Path, pretrained: Pretrained, towers: Towers | None) -> Pretrained:
    if towers is not None:
        note = _write_towers(folder / ENCODER, towers, pretrained.about.encoder)
        pretrained = replace(pretrained, about=replace(pretrained.about, encoder=note))
    weights = folder / WEIGHTS
    kept = kept_weights(pretrained.matcher).items()
    # Where two names share one tensor, each has a copy of its own, which safetensors asks for.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in kept}
    payload = save(tensors, metadata={"format": "pt"})
    weights.write_bytes(payload)  # not `save_file`, whose files nobody else may read
    digest = hashlib.sha256(payload).hexdigest()
    config = Config(pretrained.spec, pretrained.about, digest)
    (folder / CONFIG).write_text(to_json(config), encoding="utf-8")
    (folder / CARD).write_text(model_card(config, needs_pretrained=pretrained.needs_pretrained_means), encoding="utf-8")
    return pretrained


def _write_towers(folder: Path, towers: Towers, before: EncoderNote) -> EncoderNote:
    """Save towers as transformers does; how pictures and captions are prepared is copied as it was."""
    source = towers.checkpoint.folder
    with quiet():
        towers.model.save_pretrained(folder)
    for name in (*_PROCESSOR_FILES, *TOKENIZER_FILES):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    digest = open_checkpoint(folder).digest()
    if before.trained_further and digest != before.weights_hash:
        raise CheckpointError(
            f"The towers are not those whose features the matcher takes; give those from the folder {ENCODER} of its "
            f"checkpoint, or, if they were trained again with it, an EncoderNote of {before.id} without what "
            "it was before."
        )
    return EncoderNote(before.id, digest, towers.dimension, before.before or before.weights_hash)


def check_free(folder: Path) -> None:
    """Check that a folder is free for a checkpoint: it is empty or missing, or holds an earlier checkpoint.

    Raises:
        CheckpointError: something else is there.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; save the checkpoint to a folder of its own.")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(there - {CONFIG, WEIGHTS, CARD, ENCODER, SOURCE, ADAPTATION}):
        raise CheckpointError(f"{folder} holds other things ({others[0]}); save the checkpoint to a folder of its own.")


def _check_encoder(note: EncoderNote, towers: Towers | None) -> None:
    """Refuse to leave behind the only encoder whose features the matcher takes."""
    if note.trained_further and towers is None:
        raise CheckpointError(
            f"The matcher takes features of towers that were trained further from {note.id}; save them with it (give "
            f"`towers`, from the folder {ENCODER} of the checkpoint that it was loaded from)."
        )


def _check_spec(pretrained: Pretrained) -> None:
    """Refuse a matcher that could not be loaded again."""
    with torch.device("meta"):
        described = kept_weights(build(pretrained.spec, pretrained.about.encoder.dimension))
    given = kept_weights(pretrained.matcher)
    for name in sorted(given.keys() | described.keys()):
        if name not in given or name not in described or given[name].shape != described[name].shape:
            raise CheckpointError(
                f"The matcher is not what its spec ({pretrained.spec.name}) builds: they differ in {name}; save it "
                "with the spec that it was built from."
            )
