"""Fitting a calibration on a library whose clips have captions, for libraries of the same model."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import LibraryError, UsageError
from evenreel.library.calibration.file import FILE, write_calibration
from evenreel.library.calibration.fit import CalibrationSettings, LabelledQuery, fit_calibration
from evenreel.library.calibration.rule import AnswerCalibration
from evenreel.library.library import Library
from evenreel.library.search.query import readable
from evenreel.library.store.filesystem import refuse_published
from evenreel.progress import Progress

if TYPE_CHECKING:
    from evenreel.library.search.gallery import Opened
    from evenreel.types import Encoder

CAPTION = "caption"


def calibrate_library(
    labelled: Library,
    library: Path,
    settings: CalibrationSettings | None = None,
    progress: Progress = lambda share: None,
) -> AnswerCalibration:
    """Fit a calibration on the captions of a library's clips, and write it into a library of the same model.

    The next search takes it up, also of a library that is open.

    Args:
        labelled: library whose files have a `caption` in their metadata, by which their clips can be told apart.
        library: folder of the library that the calibration is for; it may be the same.
        settings: numbers of libraries and queries to draw, and their seed; None for the defaults.
        progress: called with the share of the libraries that were drawn.

    Raises:
        UsageError: too few clips have captions, or the library has no vision.
        LibraryError: a library is damaged, or of another model than the other; `library` is a published snapshot.
        EncoderError: the model cannot be loaded.
    """
    refuse_published(library)
    with Library(library, vision=False) as target:
        model, weights_hash = target.made_with
    if weights_hash != labelled.made_with[1]:
        raise LibraryError(
            f"The library {library} was made with {model}, and {labelled.path} with {labelled.made_with[0]}; a "
            "calibration holds for one model."
        )

    def fit(opened: Opened, encoder: Encoder | None) -> AnswerCalibration:
        from evenreel.language.scene_dictionary import packaged

        if encoder is None:
            raise UsageError(f"The library {labelled.path} has no vision, so there is nothing to calibrate.")
        dictionary = packaged()
        phrases = tuple(dict.fromkeys((*dictionary.entities, *dictionary.activities)))
        return fit_calibration(opened, encoder, captions_of(opened), phrases, settings, progress)

    found = labelled.read(fit)
    try:
        write_calibration(library / FILE, found)
    except OSError as error:
        raise LibraryError(f"Cannot write {library / FILE} ({error.strerror or error}).") from error
    return found


def captions_of(opened: Opened) -> list[LabelledQuery]:
    """Return each different caption of a library's files, with the clips that have it."""
    clips: dict[str, set[str]] = defaultdict(set)
    for clip_id, metadata in opened.connection.execute(
        "SELECT clip_id, metadata FROM files WHERE state = 'indexed' AND clip_id IS NOT NULL ORDER BY path"
    ):
        caption = readable(str(json.loads(metadata).get(CAPTION) or ""))
        if caption and clip_id in opened.gallery.place:
            clips[caption].add(clip_id)
    return [LabelledQuery(caption, frozenset(own)) for caption, own in clips.items()]
