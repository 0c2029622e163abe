"""Typed settings, with every default in one place and the environment variables that change them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_MODEL = "google/siglip2-base-patch16-224"
DEFAULT_RULE = "every 1 s"
AUTO = "auto"
DEFAULT_PORT = 8765
RERANK_DEPTH = 100
"""Number of clips of an answer that a matcher scores anew, unless another is given."""


@dataclass(frozen=True)
class MediaLimits:
    """Limits of reading one video.

    Attributes:
        max_side_px: largest width or height that is decoded.
        max_pixels: largest width times height that is decoded (8K and a little).
        max_frames: most frames kept of one video; a longer one is sampled more sparsely, and says so.
        stall_timeout_s: a worker that reports nothing for this long is killed.
        memory_bytes: a worker whose resident memory passes this is killed.
        max_damaged_share: share of a video's pictures that damage may spoil; past it the video is set aside.
    """

    max_side_px: int = 16_384
    max_pixels: int = 40_000_000
    max_frames: int = 3_600
    stall_timeout_s: float = 60.0
    memory_bytes: int = 3 * 2**30
    max_damaged_share: float = 0.25


IMAGE_LIMITS = MediaLimits(stall_timeout_s=10.0, memory_bytes=1536 * 2**20)
"""What decoding one picture may cost; the largest that may be sent take about a second and 900 MiB."""


@dataclass(frozen=True)
class IndexSettings:
    """Settings of indexing a folder of videos as a library; without a model there is no vision.

    Attributes:
        model: image and text towers: a hub id, a folder, `builtin`, or a name that `evenreel models` lists; `auto` is
            the library's own, and google/siglip2-base-patch16-224 for a new one.
        rule: which frames are looked at, for example `every 0.5 s` or `8 midpoints` (`evenreel.media.parse_rule`);
            `auto` is the library's own, and `every 1 s` for a new one.
        read_text: whether on-screen text is recognised.
        workers: reader processes; 0 means one for each core.
        device: where the model runs: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        precision: `float32`, `bfloat16` or `float16`.
        limits: what one file may cost.
        retry: try files again that were set aside before.
        accept_missing: mark files as missing even if most of a folder is gone.
        keep_stills: keep a small picture of each moment, so that a page need not decode it.
        accept_licence: accept the licence of a new library's model that forbids commercial use.
        speech: model that hears what is said where no subtitles say it: a name, a hub id or a folder; `auto` is the
            library's own, and none for a new one. It needs the extra `speech`.
        language: language that is spoken, as a tag such as `en`; None to have it detected.
        sound: model of what clips sound like: a hub id or folder of a CLAP checkpoint; `auto` is the library's own, and
            none for a new one; another one takes its place. It needs the extra `torch`.
        ignore: pattern of files and folders to pass over from now on, in the syntax of gitignore; the library keeps it.
        unignore: pattern to keep no longer.
        passes: 1 reads pictures, words and speech of a file together; 2 reads the pictures of all files first, so that
            they can be searched by these much sooner, and decodes each file twice; 0 takes two from ten minutes of
            video on.
        people: look for faces and put those of one person together; once asked for, it is the library's choice until
            `evenreel people --forget ALL`.
        face_models: folder of the two models that faces are found with; None for the library's own.
    """

    model: str | None = AUTO
    rule: str = AUTO
    read_text: bool = True
    workers: int = 0
    device: str = "auto"
    precision: str = "float32"
    limits: MediaLimits = MediaLimits()
    retry: bool = False
    accept_missing: bool = False
    keep_stills: bool = True
    accept_licence: bool = False
    speech: str | None = AUTO
    language: str | None = None
    sound: str | None = AUTO
    ignore: tuple[str, ...] = ()
    unignore: tuple[str, ...] = ()
    passes: int = 0
    people: bool = False
    face_models: Path | None = None

    @property
    def worker_count(self) -> int:
        """Number of reader processes to start."""
        return self.workers or usable_cores()


@dataclass(frozen=True)
class Machines:
    """Machines that index together, with Ray.

    Attributes:
        ray: have the workers of the Ray cluster at this address (`HOST:PORT`) read and encode, or with `local` those of
            a cluster that is started here for the run; None for no Ray.
        staging: where those workers leave what they made until it is in the library: a folder or a URL (`s3://...`)
            that all of them reach; None for a folder in the library.
    """

    ray: str | None = None
    staging: str | None = None


def usable_cores() -> int:
    """Return the number of cores this process may use; fewer than the machine has inside a container."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def allowed_threads() -> int:
    """Return the number of threads to compute with: the usable cores, or fewer where OMP_NUM_THREADS says so.

    The first number counts where that is a list such as `4,2`; what is no number is passed over.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    asked = int(first) if first.isdecimal() and len(first) < 10 else 0
    return min(usable_cores(), asked or usable_cores())


def default_library() -> Path:
    """Return the library used when none is named: `EVENREEL_LIBRARY`, else the platform's data folder."""
    if named := os.environ.get("EVENREEL_LIBRARY"):
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("evenreel") / "library"


def offline() -> bool:
    """Return whether downloads are forbidden: `EVENREEL_OFFLINE` or `HF_HUB_OFFLINE` is set to a true value."""
    return any(
        os.environ.get(name, "").lower() in {"1", "true", "yes", "on"}
        for name in ("EVENREEL_OFFLINE", "HF_HUB_OFFLINE")
    )
