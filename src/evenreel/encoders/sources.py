"""Location of a model: inside the package, in a folder, in the hub's cache or on the hub."""

from __future__ import annotations

import logging
from pathlib import Path

from evenreel.config import DEFAULT_MODEL
from evenreel.encoders.checkpoint import (
    OPEN_CLIP_CONFIG,
    OPEN_CLIP_WEIGHTS,
    TOKENIZER_FILES,
    is_open_clip,
    missing_parts,
)
from evenreel.encoders.known_models import known_models, model_id
from evenreel.encoders.onnx_encoder import ONNX_WANTED, PICTURES, TEXT, missing_onnx_parts
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import HUB_ID, UnavailableError, cached_folder, fetch, installed, named_folder

log = logging.getLogger("evenreel")

BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent / "builtin" / "checkpoint"

SAFETENSORS_REVISIONS = {"openai/clip-vit-base-patch32": "c237dc49a33fc61debc9276459120b7eac67e7ef"}
"""Models whose main branch holds a pickle only, and the commit of the hub's own conversion of it.

The commit adds `model.safetensors` (605 157 884 bytes) to main as it was at 3d74acf9; being a commit id, it
cannot change under us.
"""

SETTINGS_WANTED = (
    "config.json",
    OPEN_CLIP_CONFIG,
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "1_Pooling/config.json",
    *TOKENIZER_FILES,
)
FILES_WANTED = (*SETTINGS_WANTED, "model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
"""All that is fetched of a model: no pickle, no code; of one without safetensors, its graphs in ONNX form."""


def locate(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find a model's folder, downloading it where it is missing and that is allowed."""
    if (known := model_id(name)) != name:
        log.warning("the model '%s' is %s", name, known)
        name = known
    name = name if revision else _loadable(name)
    folder = named_folder(name)
    hub = None if name == BUILTIN or folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if name == BUILTIN:
        return BUILTIN, BUILTIN_FOLDER
    if folder is not None:
        return str(folder), folder
    if hub is None or ".." in name:
        raise _nothing(name)
    repository = hub["repository"]
    wanted = revision or _revision(repository, hub["revision"])
    from huggingface_hub.errors import HFValidationError

    try:
        with_torch = installed("torch")
        found = fetch(repository, wanted, FILES_WANTED if with_torch else SETTINGS_WANTED, _missing)
        if with_torch and is_open_clip(found):
            found = fetch(repository, wanted, (*FILES_WANTED, OPEN_CLIP_WEIGHTS), _missing)
        elif _missing(found):
            found = fetch(repository, wanted, (*SETTINGS_WANTED, *ONNX_WANTED), _missing)
    except HFValidationError as error:
        raise _nothing(name) from error
    except UnavailableError as error:
        raise _unavailable(repository, wanted, str(error)) from error
    return f"{repository}@{found.name}", found


def folder_here(name: str) -> Path | None:
    """Return the folder of a model that can be loaded without a download; None for any other."""
    name = _loadable(model_id(name), quiet=True)
    if name == BUILTIN:
        return BUILTIN_FOLDER
    if folder := named_folder(name):
        return folder
    found = _cached(name)
    return found if found and not _missing(found) else None


def lacks_torch(name: str) -> bool:
    """Return whether a model of the hub is on this machine as a checkpoint, which only torch is missing for."""
    name = model_id(name)
    if installed("torch") or name == BUILTIN or named_folder(name):
        return False
    found = _cached(name)
    return found is not None and bool(_missing(found)) and not missing_parts(found)


def _cached(name: str) -> Path | None:
    """The folder of a hub id in the cache, whole or not; None where it has none."""
    from huggingface_hub.errors import HFValidationError

    hub = HUB_ID.fullmatch(name)
    if hub is None or ".." in name:
        raise _nothing(name)
    try:
        return cached_folder(hub["repository"], _revision(hub["repository"], hub["revision"]))
    except HFValidationError as error:
        raise _nothing(name) from error


def _loadable(name: str, *, quiet: bool = False) -> str:
    """Return the id of a known export in place of a checkpoint that needs torch, where torch is not installed."""
    known = known_models().find(name)
    if installed("torch") or known is None or not known.onnx or name != known.id or named_folder(name):
        return name
    own = cached_folder(name, _revision(name, None))
    if own is not None and not _missing(own):
        return name
    if not quiet:
        log.warning("torch is not installed, so %s is used in ONNX form: %s", name, known.onnx)
    return known.onnx


def _revision(repository: str, named: str | None) -> str:
    return named or SAFETENSORS_REVISIONS.get(repository, "main")


def _missing(folder: Path) -> list[str]:
    """What a folder lacks: nothing where a form is whole that can be used, else parts of the one preferred here."""
    graphs = missing_onnx_parts(folder)
    return missing_parts(folder) if graphs and installed("torch") else graphs


def _nothing(name: str) -> EncoderError:
    return EncoderError(
        f"{name!r} is neither 'builtin', nor a folder that exists, nor a hub id such as "
        f"{DEFAULT_MODEL}, nor one of the names that `evenreel models` lists; name one of these."
    )


def _unavailable(repository: str, revision: str, reason: str) -> EncoderError:
    from huggingface_hub import constants

    command = f"hf download {repository} --revision {revision} --local-dir {repository.split('/')[1]}"
    weights = ("*.safetensors",) if installed("torch") else tuple(f"onnx/{part}*" for part in (TEXT, PICTURES))
    patterns = " ".join(f"--include '{pattern}'" for pattern in ("*.json", "*.txt", "spiece.model", *weights))
    extra = "" if installed("torch") else " Its checkpoint, if it has one, needs torch: pip install 'evenreel[torch]'."
    return EncoderError(
        f"The model {repository} ({revision}) cannot be had, because {reason}; it was looked for in "
        f"{constants.HF_HUB_CACHE} and on {constants.ENDPOINT}. Ways on: run `{command} {patterns}` on a "
        "machine with network, copy the folder here and point --model at it; or use --model builtin, the small "
        "model inside the package; or --no-vision, to search by on-screen text and file names only." + extra
    )
