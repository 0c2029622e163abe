"""A planned corpus on disk: real mp4 files, the corpus tables, and a page of what was planted."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import usable_cores
from evenreel.corpus import save_corpus, save_texts
from evenreel.corpus.on_screen import make_texts
from evenreel.errors import CorpusError
from evenreel.files import write_durably
from evenreel.planted.biases import BIASES
from evenreel.planted.draw import draw_clip
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.scenes import Scene
from evenreel.planted.statistics import planted_statistics
from evenreel.planted.tables import clip_path, corpus_of
from evenreel.planted.write import clip_bytes

if TYPE_CHECKING:
    from polars import DataFrame

Progress = Callable[[int, int], None]
PAGE = "planted.json"
RENDERER = 1
"""Version of the renderer: clips of another one are not mixed with these."""


def write_corpus(plan: PlantedCorpus, folder: str | Path, workers: int = 0, progress: Progress | None = None) -> int:
    """Render a planned corpus into a folder; a clip that is there already is not rendered again.

    The folder is a corpus (`evenreel.corpus.load_corpus`) whose clips lie in `clips`. `planted.json` says what was
    planted, `texts.parquet` holds the true words on signs. The bytes are the same in every run, with any number of
    workers. A run that was cut off goes on where it stopped.

    Args:
        plan: what to render.
        folder: is made where it is missing.
        workers: processes; 0 means one for each core.
        progress: called with the clips that are there and all clips.

    Returns:
        How many clips were rendered.

    Raises:
        CorpusError: the folder holds another corpus, or cannot be written.
    """
    folder = Path(folder)
    try:
        _claim(folder, plan)
        missing = [clip for clip in plan.clips if not (folder / clip_path(clip)).is_file()]
        _render(missing, folder, workers or usable_cores(), _counting(progress, len(plan.clips), len(missing)))
    except OSError as error:
        raise CorpusError(
            f"The planted corpus cannot be written to {folder} ({error.strerror or error}). Clips that were finished "
            "are kept: make room or choose another folder, and run it again."
        ) from error
    save_corpus(corpus_of(plan), folder)
    save_texts(_texts(plan), folder)
    return len(missing)


def page_of(plan: PlantedCorpus) -> dict[str, Any]:
    """What was planted, in plain values: the content of `planted.json`."""
    return {
        "renderer": RENDERER,
        "bias": plan.bias,
        "strength": plan.strength,
        "seed": plan.seed,
        "clips": len(plan.clips),
        "planted": " ".join((BIASES[plan.bias].draw.__doc__ or "").split()),
        "partners": plan.partners,
        "settings": asdict(plan.settings),
        "statistics": [asdict(each) for each in planted_statistics(plan)],
        "digest": sha256(repr(plan).encode()).hexdigest(),
    }


def _claim(folder: Path, plan: PlantedCorpus) -> None:
    """Write the page first, so that clips of two plans are never mixed."""
    payload = (json.dumps(page_of(plan), indent=2) + "\n").encode()
    page = folder / PAGE
    if not page.exists():
        write_durably(page, payload)
    elif page.read_bytes() != payload:
        raise CorpusError(
            f"{folder} holds a planted corpus of another bias, strength, seed, size or version; "
            "choose another folder, or delete this one first."
        )


def _counting(progress: Progress | None, total: int, missing: int) -> Callable[[int], None]:
    there = total - missing
    if progress is None:
        return lambda rendered: None
    progress(there, total)
    return lambda rendered: progress(there + rendered, total)


def _render(clips: Sequence[PlantedClip], folder: Path, workers: int, done: Callable[[int], None]) -> None:
    """Render clips in processes; the first that fails stops the rest."""
    if not clips:
        return
    context = get_context("spawn")  # a fork would copy the locks of threads that are not there
    with ProcessPoolExecutor(min(workers, len(clips)), context, initializer=_ignore_interrupts) as pool:
        jobs = [pool.submit(partial(_render_clip, folder / clip_path(clip), clip.scene)) for clip in clips]
        try:
            for rendered, job in enumerate(as_completed(jobs), start=1):
                job.result()
                done(rendered)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _render_clip(path: Path, scene: Scene) -> None:
    write_durably(path, clip_bytes(draw_clip(scene), scene.fps))


def _ignore_interrupts() -> None:
    """Ctrl-C is for the parent, which then stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _texts(plan: PlantedCorpus) -> DataFrame | None:
    """The true words on signs, as a benchmark ships its own; None where no clip has a sign."""
    rows = [
        {
            "clip_id": clip.clip_id,
            "text": sign.text,
            "start_frame": round(sign.start_s * clip.scene.fps),
            "end_frame": min(clip.scene.frame_count, round(min(sign.end_s, 1e6) * clip.scene.fps)) - 1,
        }
        for clip in plan.clips
        for sign in clip.scene.signs
    ]
    return make_texts(rows) if rows else None
