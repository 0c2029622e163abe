"""Writer of a planned corpus: mp4 files, the corpus tables, and `planted.json`, which says what was planted."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from hashlib import sha256
from itertools import groupby
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from evenreel.config import usable_cores
from evenreel.corpus import save_corpus, save_texts
from evenreel.corpus.on_screen import make_texts
from evenreel.documents import parse_json
from evenreel.errors import CorpusError
from evenreel.files import write_durably
from evenreel.media.workers import safe_path
from evenreel.planted.biases import bias_text
from evenreel.planted.edits import described, edited
from evenreel.planted.harder import harder_texts
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.readings import reading, stretch_of
from evenreel.planted.scenes import Scene, SignBoard
from evenreel.planted.statistics import planted_statistics
from evenreel.planted.tables import CLIPS_FOLDER, clip_path, corpus_of
from evenreel.planted.vocabulary import data_text, spoken_text
from evenreel.planted.write import scene_bytes

if TYPE_CHECKING:
    from polars import DataFrame

    from evenreel.planted.voices import Recordings

ClipsDone = Callable[[int, int], object]
PAGE = "planted.json"
CONTENT = ("clips.parquet", "captions.parquet", "texts.parquet", CLIPS_FOLDER)
RENDERER = 1
"""Version of the renderer: clips of another one are not mixed with these."""


def write_corpus(
    plan: PlantedCorpus,
    folder: str | Path,
    workers: int = 0,
    progress: ClipsDone | None = None,
    edit: str | None = None,
    recordings: Recordings | None = None,
) -> int:
    """Render a planned corpus into a folder; a clip that is there already is not rendered again.

    The folder is a corpus (`evenreel.corpus.load_corpus`) whose clips lie in `clips`. `planted.json` says what was
    planted, `texts.parquet` has the words on signs as they are read. The bytes are the same in every run, with any
    number of workers. A run that was cut off goes on where it stopped.

    Args:
        plan: corpus to render.
        folder: folder to write; made where it is missing.
        workers: number of processes; 0 means one for each core.
        progress: called with the number of clips that are there, and of all clips.
        edit: write the test split after this edit (`evenreel.planted.edits`), under the same ids.
        recordings: what clips say, as (N,) samples at 16 kHz by sentence; others are spoken by espeak-ng.

    Returns:
        Number of clips that were rendered.

    Raises:
        CorpusError: the folder holds another corpus, or cannot be written; or a process that renders died.
        UsageError: there is no such edit of such a corpus; or a sentence can be spoken neither by espeak-ng, nor is
            there a recording of it.
    """
    folder, shown = Path(folder), plan
    if edit is not None:
        shown, plan = edited(plan, edit), described(plan, edit)
    if said := [sentence for clip in shown.clips for sentence in clip.scene.spoken]:
        from evenreel.planted.voices import check_voices

        check_voices(said, recordings)
    try:
        _claim(folder, page_of(plan, edit))
        missing = [clip for clip in shown.clips if not (folder / clip_path(clip)).is_file()]
        jobs = [partial(_render_clip, folder / clip_path(clip), clip.scene, recordings) for clip in missing]
        _render(jobs, workers or usable_cores(), _counting(progress, len(plan.clips), len(missing)))
    except OSError as error:
        raise CorpusError(
            f"The planted corpus cannot be written to {folder} ({error.strerror or error}). Clips that were finished "
            "are kept: make room or choose another folder, and run it again."
        ) from error
    except BrokenProcessPool as error:
        raise CorpusError(
            f"A process that rendered clips into {folder} died. Either the system ended it, for want of memory (take "
            'fewer workers), or a script called this outside of `if __name__ == "__main__":`, which processes need. '
            "Clips that were finished are kept: run it again."
        ) from error
    save_corpus(corpus_of(plan), folder)
    save_texts(_texts(shown), folder)
    return len(missing)


def page_of(plan: PlantedCorpus, edit: str | None = None) -> dict[str, Any]:
    """Return the content of `planted.json`: what was planted, with the name of any edit."""
    harder, spoken = plan.settings.harder, plan.settings.spoken
    left_out = {"harder"} if spoken else {"harder", "spoken"}
    settings = {name: value for name, value in asdict(plan.settings).items() if name not in left_out}
    told = ", ".join(f"{one.name}={getattr(plan, one.name)!r}" for one in fields(plan))
    return {
        "renderer": RENDERER,
        "bias": plan.bias,
        "strength": plan.strength,
        "seed": plan.seed,
        "clips": len(plan.clips),
        "planted": " ".join([bias_text(plan.bias), *([spoken_text()] if spoken else []), *harder_texts(harder)]),
        "partners": plan.partners,
        "settings": {**settings, **harder.changed},
        "statistics": [asdict(each) for each in planted_statistics(plan)],
        "digest": sha256(
            (f"PlantedCorpus({told})" + _said_text(plan) + (edit or "") + data_text()).encode()
        ).hexdigest(),
        **({"edit": edit} if edit else {}),
    }


def _said_text(plan: PlantedCorpus) -> str:
    """What clips say, with their ids; empty where none says anything."""
    return "".join(f"{clip.clip_id}{clip.scene.spoken}" for clip in plan.clips if clip.scene.spoken)


def _claim(folder: Path, content: dict[str, Any]) -> None:
    """Write the page first, so that clips of two plans are never mixed."""
    page = folder / PAGE
    if page.exists():
        _check_page(page, content)
    elif there := [name for name in CONTENT if (folder / name).exists()]:
        raise CorpusError(
            f"{folder} holds a corpus already ({', '.join(there)}), which is not a planted one; choose another folder."
        )
    write_durably(page, (json.dumps(content, indent=2) + "\n").encode())


def _check_page(page: Path, content: dict[str, Any]) -> None:
    """Clips go together where the plan, the vocabulary and the renderer are the same; the page's words may differ."""
    found: Any = None
    with suppress(ValueError):
        found = parse_json(page.read_bytes())
    if not isinstance(found, dict) or any(found.get(key) != content[key] for key in ("renderer", "digest")):
        raise CorpusError(
            f"{page.parent} holds a planted corpus of another bias, strength, seed, size, edit or version; "
            "choose another folder, or delete this one first."
        )


def _counting(progress: ClipsDone | None, total: int, missing: int) -> Callable[[int], object]:
    there = total - missing
    if progress is None:
        return lambda rendered: None
    progress(there, total)
    return lambda rendered: progress(there + rendered, total)


def _render(renderings: Sequence[Callable[[], None]], workers: int, done: Callable[[int], object]) -> None:
    """Render clips in processes; the first that fails stops the rest."""
    if not renderings:
        return
    context = get_context("spawn")  # a fork would copy the locks of threads that are not there
    workers = min(workers, len(renderings))
    with safe_path(), ProcessPoolExecutor(workers, context, initializer=_begin_worker) as pool:
        jobs = [pool.submit(rendering) for rendering in renderings]
        try:
            for rendered, job in enumerate(as_completed(jobs), start=1):
                job.result()
                done(rendered)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _render_clip(path: Path, scene: Scene, recordings: Recordings | None) -> None:
    write_durably(path, scene_bytes(scene, recordings))


def _begin_worker() -> None:
    """Ctrl-C is for the parent, which then stops the workers; where the parent is killed, they end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _texts(plan: PlantedCorpus) -> DataFrame | None:
    """The words that are read on signs, as a benchmark ships its own; None where no clip has a sign."""
    rows = [row for clip in plan.clips for sign in clip.scene.signs for row in _text_rows(clip, sign)]
    return make_texts(rows) if rows else None


def _text_rows(clip: PlantedClip, sign: SignBoard) -> list[dict[str, object]]:
    """A row for each reading of a sign, in its frames; none where it is up between two frames."""
    scene = clip.scene
    frames = [number for number in range(scene.frame_count) if sign.is_up(number / scene.fps)]
    runs = groupby(frames, lambda number: reading(clip, sign, stretch_of(scene, number / scene.fps)))
    read = [(text, list(run)) for text, run in runs if text]
    return [{"clip_id": clip.clip_id, "text": text, "start_frame": run[0], "end_frame": run[-1]} for text, run in read]
