"""Saving of adapted checkpoints: whole in one step, with their report, and in place with a copy to undo it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from evenreel.adaptation.prepared import load_prepared, save_prepared
from evenreel.checkpoint.folder import check_free, load_matcher, save_pretrained
from evenreel.checkpoint.records import ADAPTATION, BEFORE, CONFIG, WEIGHTS, Pretrained
from evenreel.errors import CheckpointError
from evenreel.files import replacing_folder


def save_adapted(
    folder: Path,
    pretrained: Pretrained,
    records: Mapping[str, str],
    *,
    source: Path | None = None,
    in_place: bool = False,
) -> None:
    """Save an adapted matcher as a checkpoint of its own, or in place of the one it was made from.

    The prepared data of the source are copied along for further adaptations, and stay those of the source.

    Args:
        folder: folder to write.
        pretrained: the adapted matcher, its specification and its origin.
        records: texts of the files in the folder `adaptation`, by file name.
        source: checkpoint that it was adapted from; None where it was not loaded from one.
        in_place: whether `folder` is that checkpoint, which is then moved into the folder `before` of the new one.

    Raises:
        CheckpointError: the folder holds other things, what was prepared is damaged, or the disk refuses.
    """
    if not in_place:
        check_free(folder)
    prepared = None if source is None else load_prepared(source)
    try:
        with replacing_folder(folder) as part:
            save_pretrained(part, pretrained, loaded_from=source)
            if prepared is not None:
                save_prepared(part, prepared)
            (part / ADAPTATION).mkdir()
            for name, words in records.items():
                (part / ADAPTATION / name).write_text(words, encoding="utf-8", errors="backslashreplace")
            if in_place:
                shutil.copytree(folder, part / BEFORE)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be written: {error.strerror or error}.") from error


def undo(folder: Path) -> None:
    """Restore a checkpoint that was adapted in place, with all its files.

    Raises:
        CheckpointError: the folder is no checkpoint, was not adapted in place, its copy is damaged, or the disk
            refuses.
    """
    before = folder / BEFORE
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS)):
        raise CheckpointError(f"{folder} is no folder of a checkpoint, so there is nothing to undo.")
    if not before.is_dir():
        raise CheckpointError(
            f"{folder} was not adapted in place (it has no folder {BEFORE}), so there is nothing to undo."
        )
    load_matcher(before)
    try:
        with replacing_folder(folder) as part:
            shutil.copytree(before, part, dirs_exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be put back: {error.strerror or error}.") from error
