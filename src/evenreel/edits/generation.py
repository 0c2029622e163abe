"""Generation of counterparts of real clips by a generator that is a Python callable, and their pairing with these."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.pairing import GeneratedClip, Generator, pair_clips, path_from
from evenreel.corpus.prompts import GenerationRequest, file_name
from evenreel.edits.conditioning import Conditioning, RequestMaker, clips_to_mirror, fused
from evenreel.errors import CorpusError, MediaError
from evenreel.features.folder import remove_leftovers
from evenreel.features.manifest import clip_aside
from evenreel.features.pool import SetAside
from evenreel.files import VIDEO_SUFFIXES, make_folder, replacing
from evenreel.progress import Progress
from evenreel.types import Corpus

VIDEOS, UNFINISHED = "videos", "unfinished"
"""Folders of what a generator has made, and of what it is at."""

Generate = Callable[[GenerationRequest], "Path | None"]
"""Makes a video, at the request's `target` or anywhere else, and says where it is; None where it makes none."""


@dataclass(frozen=True, eq=False)
class Generated:
    """Result of generating counterparts: the corpus with them, and counts.

    Attributes:
        corpus: corpus with the counterparts that exist.
        made: number of counterparts made now.
        kept: number of counterparts that were there already.
        set_aside: clips without a counterpart, with the reason.
    """

    corpus: Corpus
    made: int
    kept: int
    set_aside: tuple[SetAside, ...]


def generate_counterparts(
    corpus: Corpus,
    generate: Generate,
    out: str | Path,
    source: str,
    given: Conditioning | None = None,
    progress: Progress = lambda share: None,
) -> Generated:
    """Make a counterpart of each real clip with a generator, and add the counterparts to the corpus.

    Clips are generated one after another, in the order of the corpus. A counterpart whose file is there is not made
    again, nor is one that the corpus has. One that fails, or whose video cannot be read, is set aside and the rest goes
    on; the next run tries it again. A run that was cut off goes on where it stopped.

    Args:
        corpus: corpus whose real clips are to be mirrored.
        generate: the generator; a clip for which it raises an error is set aside with that reason.
        out: folder of one generator and setting: the counterparts go to `videos` in it, its input as
            `evenreel.edits.conditioning` says.
        source: name of the generator.
        given: settings of the generator's input; None for the defaults.
        progress: called with the share of the clips that is done.

    Raises:
        CorpusError: the folder cannot be written, or there is no such split.
    """
    out, given = Path(out), given or Conditioning()
    generator = Generator(source, given.setting)
    paired = frozenset(counterparts(corpus, generator.group)["clip_id"])
    asked = [one for one in clips_to_mirror(corpus, given) if one.clip.clip_id not in paired]
    remove_leftovers(out)
    there = _finished(out / VIDEOS)
    files: dict[str, Path] = {}
    aside: list[SetAside] = []
    kept = 0
    with closing(RequestMaker(out, given)) as maker:
        for number, (clip, captions) in enumerate(asked, start=1):
            file = there.get(file_name(clip.clip_id))
            kept += file is not None
            try:
                file = file or _make(generate, maker.request(clip, fused(captions, given.fuse)), maker, out)
                files[clip.clip_id] = file
            except MediaError as error:
                aside.append(clip_aside(clip, error))
            progress(number / len(asked))
    clips = [GeneratedClip(clip_id, path_from(given.videos, file), generator) for clip_id, file in files.items()]
    return Generated(pair_clips(corpus, clips), len(files) - kept, kept, tuple(aside))


def _finished(folder: Path) -> dict[str, Path]:
    """Return the counterparts that are there, by the names of their files without the suffix."""
    return {file.stem: file for file in sorted(folder.glob("*")) if file.suffix.lower() in VIDEO_SUFFIXES}


def _make(generate: Generate, request: GenerationRequest, maker: RequestMaker, out: Path) -> Path:
    """Make one counterpart, in its place.

    Raises:
        MediaError: there is none that can be read.
        CorpusError: the folder cannot be written.
    """
    name = file_name(request.clip_id)
    target = out / UNFINISHED / f"{name}.mp4"
    try:
        make_folder(target.parent)
        target.unlink(missing_ok=True)  # of a run that was cut off
        made = _ask(generate, replace(request, target=target))
        maker.check(made)
        place = out / VIDEOS / f"{name}{made.suffix.lower()}"
        with replacing(place) as part:
            shutil.copyfile(made, part)
        target.unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(
            f"The counterpart of {request.clip_id!r} cannot be written to {out} "
            f"({(error.strerror or str(error)).lower()}); what was finished is kept."
        ) from error
    return place


def _ask(generate: Generate, request: GenerationRequest) -> Path:
    """Call the generator and return its file."""
    try:
        made = generate(request)
    except Exception as error:  # a generator may raise whatever it likes
        raise MediaError("failed", f"the generator failed on it: {type(error).__name__}: {error}") from error
    if made is None:
        raise MediaError("failed", "the generator made no video of it")
    made = Path(made)
    if made.suffix.lower() not in VIDEO_SUFFIXES:
        raise MediaError("failed", f"the generator gave {made.name!r}, which has no suffix of a video, such as .mp4")
    return made
