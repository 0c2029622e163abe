"""Where a model is: inside the package, in a folder, in the hub's cache or on the hub."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from evenreel.config import offline
from evenreel.encoders.checkpoint import missing_parts
from evenreel.errors import EncoderError, UsageError

BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent / "builtin" / "checkpoint"

SAFETENSORS_REVISIONS = {"openai/clip-vit-base-patch32": "c237dc49a33fc61debc9276459120b7eac67e7ef"}
"""Models whose main branch holds a pickle only, and the commit of the hub's own conversion of it.

The commit adds `model.safetensors` (605 157 884 bytes) to main as it was at 3d74acf9; being a commit id, it
cannot change under us.
"""

FILES_WANTED = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
)
"""All that is fetched of a model: no pickle, no code."""

_HUB_ID = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*?)(?:@(?P<revision>[\w./-]+))?")
"""A name that starts with `.`, `/` or `~` is a folder's, whether there is one or not."""

log = logging.getLogger("evenreel")


def locate(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find a model's folder, downloading it where it has to be and may be.

    Returns:
        The name it can be loaded by again (a hub id comes with its commit), and its folder.

    Raises:
        UsageError: two revisions are named, or one for a model that has none.
        EncoderError: there is no such model, or it cannot be had; the sentence lists the ways on.
    """
    folder = _folder(name)
    hub = None if name == BUILTIN or folder is not None else _HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if name == BUILTIN:
        return BUILTIN, BUILTIN_FOLDER
    if folder is not None:
        return str(folder), folder
    if hub is None or ".." in name:
        raise _nothing(name)
    repository = hub["repository"]
    wanted = revision or hub["revision"] or SAFETENSORS_REVISIONS.get(repository, "main")
    from huggingface_hub.errors import HFValidationError

    try:
        found = _from_hub(repository, wanted)
    except HFValidationError as error:
        raise _nothing(name) from error
    return f"{repository}@{found.name}", found


def _folder(name: str) -> Path | None:
    """The folder of that name, if there is one."""
    try:
        folder = Path(name).expanduser().resolve()
        return folder if name and folder.is_dir() else None
    except (RuntimeError, ValueError, OSError):  # ~nobody, a NUL, a loop of links
        return None


def _nothing(name: str) -> EncoderError:
    return EncoderError(
        f"{name!r} is neither 'builtin', nor a folder that exists, nor a hub id such as "
        "openai/clip-vit-base-patch32; name one of these."
    )


def _from_hub(repository: str, revision: str) -> Path:
    cached = _cached_folder(repository, revision)
    if cached is not None and not missing_parts(cached):
        return cached
    if offline():
        lacking = f"lacks {', '.join(missing_parts(cached))}" if cached else "does not have it"
        switched_off = "the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE is set)"
        raise _unavailable(repository, revision, f"{switched_off} and the cache {lacking}")
    return _download(repository, revision)


def _cached_folder(repository: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(path).parent if isinstance(path, str) else None


def _download(repository: str, revision: str) -> Path:
    from huggingface_hub import constants, snapshot_download

    log.warning("downloading %s (%s) to %s", repository, revision, constants.HF_HUB_CACHE)
    with _silent_hub():
        try:
            return Path(snapshot_download(repository, revision=revision, allow_patterns=list(FILES_WANTED)))
        except Exception as error:
            # Name resolution, proxies, refusals, full disks: each library below has its own class for them.
            raise _unavailable(repository, revision, _why(error)) from error


@contextlib.contextmanager
def _silent_hub() -> Iterator[None]:
    """Keep the hub client's bars and warnings from the terminal."""
    from huggingface_hub.utils import logging as spoken
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    level, silent = spoken.get_verbosity(), are_progress_bars_disabled()
    spoken.set_verbosity(logging.ERROR)
    disable_progress_bars()
    try:
        yield
    finally:
        spoken.set_verbosity(level)
        if not silent:
            enable_progress_bars()


def _why(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "its owner wants to be asked first: accept the terms on its page and run `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "the hub has no model of that name, or it is private (then run `hf auth login`)"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the model has no such revision"
    if isinstance(error, errors.HfHubHTTPError):
        return f"the host refuses it (HTTP {error.response.status_code})"
    words = (str(error).splitlines() or [""])[0].rstrip(".")
    return f"the download failed ({type(error).__name__}: {words[:200]})"


def _unavailable(repository: str, revision: str, reason: str) -> EncoderError:
    from huggingface_hub import constants

    command = f"hf download {repository} --revision {revision} --local-dir {repository.split('/')[1]}"
    patterns = " ".join(f"--include '{pattern}'" for pattern in ("*.json", "*.txt", "spiece.model", "*.safetensors"))
    return EncoderError(
        f"The model {repository} ({revision}) cannot be had, because {reason}; it was looked for in "
        f"{constants.HF_HUB_CACHE} and on {constants.ENDPOINT}. Ways on: run `{command} {patterns}` on a "
        "machine with network, copy the folder here and point --model at it; or use --model builtin, the small "
        "model inside the package; or --no-vision, to search by on-screen text and file names only."
    )
