"""Loading of a model of sounds: a CLAP checkpoint in a folder, in the hub's cache or on the hub."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.documents import brief
from evenreel.encoders.checkpoint import (
    file_digest,
    incomplete,
    json_digest,
    missing_parts,
    plain_config,
    processor_files,
    read_settings,
    tokenizer_files,
    weight_names,
)
from evenreel.encoders.sources import folder_here, locate
from evenreel.errors import EncoderError
from evenreel.extras import installed

if TYPE_CHECKING:
    from evenreel.sound.encoder import SoundEncoder


def load_sound_encoder(
    name: str, *, revision: str | None = None, device: str = "auto", precision: str = "float32"
) -> SoundEncoder:
    """Load a model of sounds; no code of a model is run.

    A model of the hub that is in the cache is used from there without a look at the network; one that is not is
    fetched, as it was named, unless the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE).

    Args:
        name: folder, or hub id `org/name` or `org/name@revision`, of a CLAP checkpoint with safetensors.
        revision: commit, branch or tag of a hub id.
        device: `auto`, `cpu`, `cuda` or another name of torch.
        precision: `float32`, `bfloat16` or `float16`.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had or read, is of another kind, or torch is not installed.
    """
    sound_id, folder = locate_sound_model(name, revision)
    check_torch()
    from evenreel.encoders.contexts import garbage_left, quiet
    from evenreel.encoders.devices import usable_device
    from evenreel.sound.encoder import SoundEncoder

    target = usable_device(device, precision)
    weights_hash = sound_digest(folder)
    with garbage_left(), quiet():
        try:
            return SoundEncoder(folder, sound_id, weights_hash, target, precision)
        except EncoderError:
            raise
        except Exception as error:
            # What a made-up configuration breaks inside transformers is not foreseeable.
            words = (str(error).splitlines() or [""])[0]
            raise EncoderError(
                f"The model of sounds in {folder} cannot be loaded ({type(error).__name__}: {words[:200]})."
            ) from error


def check_torch() -> None:
    """Check that torch is there, which a model of sounds needs."""
    if not installed("torch"):
        raise EncoderError("Hearing sounds needs torch, which is not installed: pip install 'evenreel[torch]'.")


def locate_sound_model(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find the folder of a model of sounds, downloading it where it is missing and that is allowed."""
    sound_id, folder = locate(name, revision)
    if (folder / "config.json").is_file() and (kind := _kind(folder)) != "clap":
        raise EncoderError(
            f"The model in {folder} is of the kind {brief(kind)}, which hears no sounds; name a CLAP model (model_type "
            "clap), such as laion/clap-htsat-unfused."
        )
    if missing := missing_parts(folder):
        raise incomplete(folder, missing)
    return sound_id, folder


def sound_model_here(name: str) -> bool:
    """Return whether a model of sounds can be loaded without a download."""
    try:
        folder = folder_here(name)
    except EncoderError:
        return False
    return folder is not None and (folder / "config.json").is_file() and _kind(folder) == "clap"


def sound_digest(folder: Path) -> str:
    """Compute SHA-256, in hex, over all that decides what a model of sounds calculates."""
    total = hashlib.sha256()
    settings = [path for path in (folder / "config.json", *processor_files(folder)) if path.is_file()]
    for path in settings:
        total.update(f"{path.name}\0{json_digest(plain_config(read_settings(path)))}\n".encode())
    for path in (*tokenizer_files(folder), *(folder / name for name in weight_names(folder))):
        total.update(f"{path.name}\0{file_digest(path)}\n".encode())
    return total.hexdigest()


def _kind(folder: Path) -> Any:
    return read_settings(folder / "config.json").get("model_type")
