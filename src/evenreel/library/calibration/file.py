"""File of a calibration: beside the catalog of a library, or in the package for the model that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.errors import LibraryError
from evenreel.features.sealed import seal, unseal
from evenreel.files import FileState, file_state, write_durably
from evenreel.library.calibration.rule import AnswerCalibration, LogisticRule, Thresholds
from evenreel.library.calibration.signals import CLIP_ROW, QUERY_ROW
from evenreel.types import FloatArray

FORMAT = 3
FILE = "calibration.safetensors"


def write_calibration(path: Path, calibration: AnswerCalibration) -> None:
    """Write a calibration, in place of another one.

    Raises:
        OSError: the disk is full or cannot be written.
    """
    record = {
        "format": FORMAT,
        "encoder_id": calibration.encoder_id,
        "weights_hash": calibration.weights_hash,
        "fitted_on": calibration.fitted_on,
        "date": calibration.date,
        "phrases": calibration.phrases,
        "anything": asdict(calibration.anything),
        "clip": asdict(calibration.clip),
        "thresholds": [asdict(one) for one in calibration.thresholds],
    }
    write_durably(path, seal({"vectors": calibration.vectors.astype("<f2")}, record))


def read_calibration(path: Path) -> AnswerCalibration:
    """Read a calibration of a library's answers from its file.

    Raises:
        LibraryError: the file is damaged, cannot be read, or was written by a later version.
    """
    try:
        return _parsed(path.read_bytes(), str(path))
    except OSError as error:
        raise LibraryError(f"{path} cannot be read ({error.strerror or error}).") from error


def calibration_of(library: Path | None, weights_hash: str | None) -> AnswerCalibration | None:
    """Read the calibration for a library's model: its own, or the one in the package; None where there is none.

    Raises:
        LibraryError: the library's own is damaged or cannot be read.
    """
    own = None if library is None else library / FILE
    if own is not None and own.exists():
        found = read_calibration(own)
    else:
        packaged = resources.files("evenreel.library.calibration").joinpath("builtin.safetensors")
        found = _parsed(packaged.read_bytes(), "the packaged calibration")
    return found if found.weights_hash == weights_hash else None


def calibration_state(library: Path | None) -> FileState | None:
    """Return what differs wherever a library's own calibration was written anew: inode, size, time; None without one.

    Args:
        library: folder of the library; None for one in memory.
    """
    return None if library is None else file_state(library / FILE)


def _parsed(payload: bytes, name: str) -> AnswerCalibration:
    try:
        arrays, record = unseal(payload)
        if record["format"] == FORMAT:
            return _calibration(arrays["vectors"].astype(np.float32), record)
        later = record["format"] > FORMAT
    except Exception as error:  # a damaged file can fail in any way in the parser, and a record can lack anything
        raise LibraryError(f"{name} is damaged ({error}); fit it again with `evenreel calibrate`.") from error
    remedy = "update evenreel to read it" if later else "fit it again with `evenreel calibrate`"
    raise LibraryError(f"{name} has format {record['format']}, not {FORMAT}; {remedy}.")


def _calibration(vectors: FloatArray, record: Mapping[str, Any]) -> AnswerCalibration:
    one, two, more = (
        Thresholds(**{key: tuple(values) for key, values in given.items()}) for given in record["thresholds"]
    )
    phrases, sizes = tuple(record["phrases"]), len(one.sizes)
    lengths = {len(values) for given in (one, two, more) for values in (given.fits, given.may_fit)}
    if len(phrases) != len(vectors) or lengths != {sizes} or not one.sizes == two.sizes == more.sizes:
        raise ValueError("its parts do not belong together")
    return AnswerCalibration(
        encoder_id=record["encoder_id"],
        weights_hash=record["weights_hash"],
        fitted_on=record["fitted_on"],
        date=record["date"],
        phrases=phrases,
        vectors=vectors,
        anything=_rule(record["anything"], QUERY_ROW),
        clip=_rule(record["clip"], CLIP_ROW),
        thresholds=(one, two, more),
    )


def _rule(record: Mapping[str, Any], signals: int) -> LogisticRule:
    if len(record["weights"]) != signals:
        raise ValueError(f"a rule with {len(record['weights'])} weights for {signals} signals")
    return LogisticRule(record["intercept"], tuple(record["weights"]))
