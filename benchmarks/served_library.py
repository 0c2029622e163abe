"""Libraries that `benchmarks/serve.py` serves: of rendered videos, or of made-up clips of any number.

A made-up clip is one of `benchmarks/made_up_library.py`, with directions that the model's sentences are compared with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.made_up_library import build
from evenreel.config import IndexSettings
from evenreel.encoders import load_encoder
from evenreel.features.shards import read_shard, shard_path
from evenreel.library import index_folders
from evenreel.library.store import catalog
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.workers import FileStamp
from evenreel.planted import plan_corpus, write_corpus
from evenreel.planted.plan import PlantedCorpus
from evenreel.types import TextTrack

INDEX = """
import sys
from pathlib import Path
from benchmarks.serve import add_signs
from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.planted import plan_corpus
index_folders([Path(sys.argv[1])], Path(sys.argv[2]), IndexSettings(model="builtin", read_text=False))
add_signs(plan_corpus("scene_text", 0.9, clips=int(sys.argv[3])), Path(sys.argv[2]))
"""
"""What indexes rendered videos in another checkout, whose libraries may have another format."""


def planted(clips: int) -> PlantedCorpus:
    """The corpus whose captions are asked, and whose videos are rendered."""
    return plan_corpus("scene_text", 0.9, clips=clips)


def make_library(plan: PlantedCorpus, work: Path) -> Path:
    """Render, index, and write down the words on the signs; what is there already is left as it is."""
    library, videos = work / "library", work / "videos"
    if not (library / catalog.CATALOG).exists():
        if not videos.exists():
            write_corpus(plan, videos)
        index_folders([videos / "clips"], library, IndexSettings(model="builtin", read_text=False))
        add_signs(plan, library)
    return library


def library_of_checkout(checkout: Path, clips: int, work: Path) -> Path:
    library = work / "beside"
    if not (library / catalog.CATALOG).exists():
        places = (str(place.absolute()) for place in (work / "videos" / "clips", library))
        # Python looks for modules where it is started first.
        command, environment = [sys.executable, "-c", INDEX, *places, str(clips)], environment_of(checkout.absolute())
        subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    return library


def environment_of(checkout: Path | None) -> dict[str, str]:
    """The environment in which Python finds the code of a checkout; None for this one."""
    if checkout is None:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


def add_signs(plan: PlantedCorpus, library: Path) -> None:
    words = {f"{clip.clip_id}.mp4": [sign.text for sign in clip.scene.signs] for clip in plan.clips}
    connection = catalog.open_for_writing(library)
    store = Store(library, connection, {})
    for path, name, root, clip_id, *times in connection.execute(
        "SELECT path, name, root, clip_id, size, mtime_ns, ctime_ns FROM files WHERE state = 'indexed'"
    ).fetchall():
        shard = read_shard(shard_path(library / catalog.SHARDS, clip_id))
        end_s = float(shard.spans_s[-1, 1])
        tracks = tuple(TextTrack(text, 0.99, 0.0, end_s, (0.0, 0.8, 1.0, 1.0)) for text in words[name])
        file = FoundFile(path, root, FileStamp(*times), clip_id=clip_id)
        store.put_clip(file, replace(shard, frames=None, tracks=tracks, reader_id="planted"))
    connection.close()


def make_up_library(clips: int, work: Path, model: str = "builtin") -> Path:
    """A library of made-up clips for a model; one that is there already is left as it is."""
    library = work / f"made_up_{clips}{'' if model == 'builtin' else f'_{Path(model).name}'}"
    if not (library / "whole").exists():
        library.mkdir(parents=True, exist_ok=True)
        build(library, clips, load_encoder(model), model)
        (library / "whole").touch()
    return library
