"""What is installed and what is fetched: packages of the extras, and files of models on the hub."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import importlib
import importlib.util
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from evenreel.errors import DownloadError, DownloadTrouble, EvenreelError, UsageError

TORCH = "torch"
BROUGHT = {
    "measure": ("plotly", "polars", "scipy", "textblob"),
    TORCH: ("google", "jinja2", "onnx", "sentencepiece", "torch", "transformers"),
    "train": ("lightning", "sklearn", "tensorboardX", "threadpoolctl", "torchmetrics"),
    "open-clip": ("open_clip", "timm"),
    "vectors-benchmark": ("faiss", "turbovec", "usearch"),
    "scale": ("fsspec", "ray", "s3fs"),
    "engine": ("pymilvus",),
    "speech": ("ctranslate2", "faster_whisper", "onnx_asr"),
    "mcp": ("httpx2", "mcp"),
    "meaning": ("wordllama",),
    "mteb": ("datasets", "mteb"),
    "hdf5": ("h5py",),
    "spacy": ("spacy",),
}
"""Packages, as they are imported, that each extra of evenreel brings."""
EXTRAS = {package: extra for extra, packages in BROUGHT.items() for package in packages}
"""Extra of evenreel by the package that it brings."""
_FROM = re.compile(r"^from (\.[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_NAME = re.compile(r" as (\w+)")


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def needed_extra(error: ImportError, what: str = "This") -> str | None:
    """Return a sentence that says which extra brings a missing package.

    Example:
        >>> needed_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"), "Training")
        "Training needs torch, which is not installed: pip install 'evenreel[torch]'."
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return None if extra is None else f"{what} needs {package}, which is not installed: {to_install(extra)}."


def to_install(extra: str) -> str:
    """Return the command that installs an extra where evenreel runs: an environment, or one that pipx or uv made."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject evenreel 'evenreel[{extra}]'"
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool install '.[{extra}]' in the folder that evenreel was installed from"
    return f"pip install 'evenreel[{extra}]'"


def offered(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Offer the names of a package's stub, each imported when it is asked for; a missing extra is named.

    `__getattr__, __dir__, __all__ = offered(__name__, __file__)` stands in the package's `__init__.py`.
    """
    stub = Path(file).with_suffix(".pyi").read_text("utf-8")
    homes = {name: module for module, names in _FROM.findall(stub) for name in _NAME.findall(names)}

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(homes[name], package), name)
        except ModuleNotFoundError as error:
            if (sentence := needed_extra(error, f"{package}.{name}")) is None:
                raise
            raise ModuleNotFoundError(sentence, name=error.name, path=error.path) from error
        vars(sys.modules[package])[name] = value
        return value

    return found, lambda: sorted(homes), sorted(homes)


# models on the hub ----------------------------------------------------------------------------------------------------

HUB_ID = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*?)(?:@(?P<revision>[\w./-]+))?")
"""Form of a hub id; a name that starts with `.`, `/` or `~` is a folder's, whether there is one or not."""

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class Download:
    """How far the download of a model is."""

    model: str  # hub id
    done_bytes: int  # with those of an earlier try
    total_bytes: int  # 0 where the hub does not say
    remaining_s: float | None = None  # None before that can be told


Told: TypeAlias = Callable[[Download], None]
"""Hears how far a download is, a few times a second. What it raises ends the download; the next goes on from there."""
on_download: Told | None = None  # hears of those for which nobody is named


def named_folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser().resolve()
        return folder if name and folder.is_dir() else None
    except (RuntimeError, ValueError, OSError):  # ~nobody, a NUL, a loop of links
        return None


def located(
    name: str, revision: str | None, get: Callable[[str, str | None], Path], nothing: EvenreelError
) -> tuple[str, Path]:
    """Find id and folder of a model: a folder, or a hub id, of which `get` fetches a revision; else raise `nothing`."""
    folder = named_folder(name)
    hub = None if folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if folder is not None:
        return str(folder), folder
    if hub is None or ".." in name:
        raise nothing
    from huggingface_hub.errors import HFValidationError

    try:
        found = get(repository := hub["repository"], revision or hub["revision"])
    except HFValidationError as error:
        raise nothing from error
    return f"{repository}@{found.name}", found


def offline() -> bool:
    """Return whether downloads are forbidden: `EVENREEL_OFFLINE` or `HF_HUB_OFFLINE` is set to a true value."""
    return any(
        os.environ.get(name, "").lower() in {"1", "true", "yes", "on"}
        for name in ("EVENREEL_OFFLINE", "HF_HUB_OFFLINE")
    )


def fetch(
    repository: str,
    revision: str,
    wanted: Sequence[str],
    missing: Callable[[Path], list[str]],
    told: Told | None = None,
    otherwise: str = "",
) -> Path:
    """Return a model's folder in the hub's cache, named by commit, after downloading what is missing and allowed.

    `wanted` are patterns of its files; `otherwise` says how to do without it, for the sentence of an error.
    """
    cached = cached_folder(repository, revision)
    if cached is not None and not missing(cached):
        return cached
    download = _Download(repository, revision, told or on_download, otherwise)
    if offline():
        lacking = f"lacks {', '.join(missing(cached))}" if cached else "does not have it"
        switched_off = "the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE is set)"
        raise download.error("offline", f"{switched_off} and the cache {lacking}", "Unset that and run this again")
    return download.run(wanted)


def cached_folder(repository: str, revision: str) -> Path | None:
    """Return a model's folder in the hub's cache, whole or not; None where it has none."""
    from huggingface_hub import try_to_load_from_cache

    for name in ("config.json", "open_clip_config.json"):
        path = try_to_load_from_cache(repository, name, revision=revision)
        if isinstance(path, str):
            return Path(path).parent
    return None


def byte_size(count: float) -> str:
    """Return a number of bytes in words.

    >>> byte_size(38_819), byte_size(412_345_678), byte_size(1_500_000_000)
    ('39 kB', '412 MB', '1.5 GB')
    """
    if count >= 0.9995e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 0.9995e6 else f"{count / 1e3:.0f} kB"


_WAYS: dict[DownloadTrouble, str] = {
    "offline": "Connect and run this again",
    "refused": "Accept its terms on its page, run `hf auth login`, and run this again",
    "missing": "Check the name (`evenreel models` lists those that are known); if it is private, run `hf auth login`",
    "disk_full": "Free some space, or name a folder on another disk in HF_HOME, and run this again",
    "checksum": "It was deleted: run this again",
    "failed": "Run this again later, and it goes on where it stopped",
}
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PATIENCE_S = 10.0  # for which a host may say nothing
_TELL_S = 0.25  # least seconds between two calls of `Told`


class _Download:
    """Files of a model on their way into the hub's cache.

    The hub's client begins a file anew where its process was ended, and does not compare what has arrived with what the
    hub has. So the files are brought here to the places in which it looks for them, and it makes a folder of them.
    """

    def __init__(self, repository: str, revision: str, told: Told | None, otherwise: str) -> None:
        self._repository, self._revision, self._told, self._otherwise = repository, revision, told, otherwise
        self._done = self._total = 0
        self._before, self._began_at, self._told_at = 0, time.monotonic(), 0.0

    def error(self, kind: DownloadTrouble, why: str, way: str = "") -> DownloadError:
        ways, model = ", or ".join(filter(None, (way or _WAYS[kind], self._otherwise))), self._repository
        return DownloadError(f"The model {model} cannot be downloaded: {why}. {ways}.", model, kind)

    def run(self, wanted: Sequence[str]) -> Path:
        from huggingface_hub import snapshot_download

        with _silent_hub():
            try:
                self._bring(wanted)
                return Path(snapshot_download(self._repository, revision=self._revision, allow_patterns=list(wanted)))
            except EvenreelError:
                raise
            except Exception as error:
                # Name resolution, proxies, refusals, full disks: each library below has its own class for them.
                raise self.error(*_why(error)) from error

    def _bring(self, wanted: Sequence[str]) -> None:
        """Bring the files that the cache lacks, after looking whether the disk has room for them."""
        from huggingface_hub import HfApi, constants, hf_hub_url

        asked = HfApi().model_info
        info = asked(self._repository, revision=self._revision, files_metadata=True, timeout=_PATIENCE_S)
        cache = Path(constants.HF_HUB_CACHE).expanduser()
        home = cache / f"models--{self._repository.replace('/', '--')}"
        lacking: list[tuple[str, Path, int]] = []
        for file in info.siblings or ():
            name, size, blob = file.rfilename, file.size, file.lfs.sha256 if file.lfs else file.blob_id
            if size is None or not any(fnmatch.fnmatch(name, pattern) for pattern in wanted):
                continue
            if not _BLOB.fullmatch(blob or ""):  # it becomes the name of a file
                raise self.error("failed", f"its host names {name} {blob!r}, which is no digest")
            place, self._total = home / "blobs" / str(blob), self._total + size
            if (home / "snapshots" / str(info.sha) / name).exists() or place.exists():
                self._done += size
            else:
                self._done += _size(place.with_suffix(".incomplete"))
                lacking.append((hf_hub_url(self._repository, name, revision=info.sha), place, size))
        need = self._total - self._done
        free = shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.exists())).free
        if need > free:
            raise self.error("disk_full", f"{byte_size(need)} are needed in {cache}, and {byte_size(free)} are free")
        left = f"{byte_size(need)} of " if self._done else ""
        log.warning("downloading %s: %s%s to %s", self._repository, left, byte_size(self._total), cache)
        self._before = self._done
        self._count(0)
        for url, place, size in lacking:
            self._bring_one(url, place, size, cache / ".locks" / home.name / f"{place.name}.lock")

    def _bring_one(self, url: str, place: Path, size: int, lock: Path) -> None:
        """Bring a file whose name is its digest; one that arrives as another is deleted."""
        from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        part = place.with_suffix(".incomplete")
        for folder in (place.parent, lock.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if place.exists():  # another process has brought it
                self._count(size - _size(part))
                return
            while (have := _size(part)) < size:
                try:
                    self._stream(url, part, have, size)
                except HTTPError as error:  # what breaks off is gone on with at once, as long as something comes
                    if isinstance(error, HfHubHTTPError) or _size(part) <= have:
                        raise
                if _size(part) <= have:
                    raise self.error("failed", "the connection broke off")
            git = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False) if len(place.name) == 40 else None
            if _size(part) != size or file_digest(part, git) != place.name:
                part.unlink()
                raise self.error("checksum", f"{url.rpartition('/')[2]} arrived as another file than the hub has")
            part.replace(place)

    def _stream(self, url: str, part: Path, have: int, size: int) -> None:
        from huggingface_hub.utils import build_hf_headers as headers_of  # type: ignore[attr-defined]
        from huggingface_hub.utils import get_session, hf_raise_for_status  # type: ignore[attr-defined]

        headers = headers_of() | {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with get_session().stream("GET", url, headers=headers, timeout=_PATIENCE_S, follow_redirects=True) as response:
            hf_raise_for_status(response)
            goes_on = response.status_code == 206
            if have and not goes_on:
                self._count(-have)
            with part.open("ab" if goes_on else "wb") as file:
                for piece in response.iter_raw():
                    file.write(piece)
                    self._count(len(piece))
                    if file.tell() > size:  # which its digest will tell
                        return

    def _count(self, more: int) -> None:
        self._done += more
        now = time.monotonic()
        if self._told and (self._done >= self._total or now - self._told_at >= _TELL_S):
            self._told_at, came = now, self._done - self._before
            known = came > 0 and now - self._began_at >= 1
            left_s = (self._total - self._done) * (now - self._began_at) / came if known else None
            self._told(Download(self._repository, self._done, self._total, left_s))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def file_digest(path: Path, begun: hashlib._Hash | None = None) -> str:
    """Return the SHA-256 of a file in hex, or what a digest that has begun becomes."""
    total = begun or hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


@contextlib.contextmanager
def _silent_hub() -> Iterator[None]:
    """Keep the hub client's bars and warnings from the terminal."""
    from huggingface_hub.utils import logging as spoken
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    level, silent = spoken.get_verbosity(), are_progress_bars_disabled()
    spoken.set_verbosity(logging.ERROR)
    disable_progress_bars()
    try:
        yield
    finally:
        spoken.set_verbosity(level)
        if not silent:
            enable_progress_bars()


def _why(error: BaseException | None) -> tuple[DownloadTrouble, str]:
    """Say why a download failed, by the first error of a chain of causes that tells."""
    from huggingface_hub import constants, errors

    host, told = constants.ENDPOINT.partition("://")[2], error
    while error is not None:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, errors.GatedRepoError):
            return "refused", "its owner wants to be asked first"
        if isinstance(error, errors.HfHubHTTPError):
            status, code = error.response.status_code, error.response.headers.get("X-Error-Code")
            if status == 404 or code == "RepoNotFound":  # of one that is private, too
                what = "such revision" if isinstance(error, errors.RevisionNotFoundError) else "model of that name"
                return "missing", f"{host} has no {what}"
            return "refused" if status in (401, 403) else "failed", f"{host} answers HTTP {status}"
        if isinstance(error, OSError) and error.errno in _FULL:
            return "disk_full", f"the disk of {constants.HF_HUB_CACHE} is full"
        if kinds & {"ConnectError", "TimeoutException", "ProxyError", "ConnectionError", "TimeoutError"}:
            return "offline", f"there is no network ({host} could not be reached)"
        error = error.__cause__ or error.__context__
    words = (str(told).splitlines() or [""])[0].rstrip(".")
    return "failed", f"it broke off ({type(told).__name__}: {words[:200]})"
