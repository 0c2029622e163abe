"""What is kept of a clip: a checksummed file of features and text, and one of stills, written so that nothing tears.

Both are sealed: arrays, and everything else as a JSON record in the header, in one safetensors file with a SHA-256 over
both. Equal content gives equal bytes. The catalog of a library keeps the digest of a whole shard; the checksum inside
lets a library whose catalog is lost be rebuilt from its shards without trusting a damaged byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from evenreel.documents import parse_json
from evenreel.errors import LibraryError, MediaError
from evenreel.files import is_temporary, sync_folder, write_durably
from evenreel.speech.subtitles import Transcript, transcript_of, transcript_record
from evenreel.types import Shown, TextTrack, VideoInfo

FORMAT = 1  # of the layout below; a reader refuses a larger one
SUFFIX = ".safetensors"
UNIT_TOLERANCE = 1e-3  # that the length of a row may be from 1: rounding to float16 moves it by at most 2**-11

_DTYPES = {
    "times_s": np.float64,
    "spans_s": np.float64,
    "frames": np.float16,
    "windows": np.float16,
    "cuts_s": np.float64,
    "text_times_s": np.float64,
    "sound_spans_s": np.float64,
    "sound_vectors": np.float16,
}
_PLAIN = ("clip_id", "encoder_id", "weights_hash", "rule", "reader_id")  # fields that are in the record as they are
_WRITTEN = re.compile(rf"[0-9a-f]{{32}}{re.escape(SUFFIX)}")
_SAFE_ID = re.compile(r"[0-9A-Za-z_-]{3,128}")

REPAIR = "run `evenreel verify --repair`"


class DamagedShardError(LibraryError):
    """Raised where a shard is missing or damaged."""


class NewerShardError(LibraryError):
    """Raised where a later version wrote a shard."""


@dataclass(frozen=True, eq=False)
class ClipSounds:
    """What a clip sounds like to a model of sounds."""

    encoder_id: str
    weights_hash: str
    spans_s: NDArray[np.float64]  # (W, 2) of each window that is not silent, in seconds of the clip's own clock
    vectors: NDArray[np.float16]  # (W, D) rows of unit length
    notes: tuple[str, ...] = ()  # on what is unusual in the sound
    problem: str | None = None  # why there are none; None where the clip has a sound


@dataclass(frozen=True, eq=False)
class Shard(Shown):
    """Stored features of one clip; None stands for what nobody has read, made or looked for."""

    clip_id: str  # digest of the file's bytes, of a corpus also of the clip's part of it and the rule; names the shard
    info: VideoInfo  # header of the video
    encoder_id: str | None  # of `frames`
    weights_hash: str | None  # digest of that encoder
    rule: str  # by which frames were sampled
    times_s: NDArray[np.float64]  # (T,) time of each frame, in order
    spans_s: NDArray[np.float64]  # (T, 2) the stretch that each frame stands for
    frames: NDArray[np.float16] | None  # (T, D) rows of unit length
    tracks: tuple[TextTrack, ...] | None  # on-screen text
    reader_id: str | None  # text recogniser
    window_texts: tuple[str, ...] | None = None  # sentence of `tracks` in each of O windows of equal length, or empty
    windows: NDArray[np.float16] | None = None  # (O, D) of these by the same encoder, zero where there is none
    cuts_s: NDArray[np.float64] | None = None  # (S - 1,) when the shots after the first begin, in order
    text_times_s: NDArray[np.float64] | None = None  # (R,) of the frames in which text was read; None: `times_s`
    transcripts: tuple[Transcript, ...] | None = None  # what is said, by each source that says it
    sounds: ClipSounds | None = None  # what the clip sounds like

    @property
    def is_heard(self) -> bool:
        """Whether a speech model has heard the clip, also where it heard nothing."""
        return any(one.source == "recognised" for one in self.transcripts or ())


def is_clip_id(text: object) -> bool:
    """Check that a value can be the id of a clip: letters and digits only."""
    return isinstance(text, str) and _SAFE_ID.fullmatch(text) is not None


def shard_path(folder: Path, clip_id: str) -> Path:
    """Return the path of a clip's shard: `folder/ab/abcdef.safetensors`."""
    if not is_clip_id(clip_id):
        raise LibraryError(f"{clip_id[:80]!r} is not a clip id; an id is letters and digits only.")
    return folder / clip_id[:2] / f"{clip_id}{SUFFIX}"


def shard_files(folder: Path) -> Iterator[Path]:
    """Iterate over every shard in a folder, in the order of their names: what lies where a digest puts it."""
    for path in sorted(folder.glob(f"*/*{SUFFIX}")):
        if _WRITTEN.fullmatch(path.name) and path.parent.name == path.name[:2]:
            yield path


def remove_shards(folder: Path) -> None:
    """Delete every shard of a folder and half-written files of a killed run, then folders that are left empty.

    Other files stay, and their folders.
    """
    tidy_shards(folder)
    for path in shard_files(folder):
        path.unlink(missing_ok=True)
    for place in (*folder.glob("[0-9a-f][0-9a-f]"), folder):
        with contextlib.suppress(OSError):  # it is none, or not empty
            place.rmdir()


def tidy_shards(folder: Path) -> set[str]:
    """Delete half-written files of a killed run; return the ids of the clips whose shards are in the folder."""
    ids = set()
    for place in folder.glob("*/"):
        for name in os.listdir(place):
            if name.endswith(SUFFIX):
                ids.add(name.removesuffix(SUFFIX))
            elif is_temporary(name):
                (place / name).unlink(missing_ok=True)
    return ids


def write_shard(folder: Path, shard: Shard) -> str:
    """Write a shard so that after a crash or a power cut there is the old file or the new one, whole."""
    path, payload = shard_path(folder, shard.clip_id), shard_bytes(shard)
    try:
        write_durably(path, payload)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LibraryError(f"Cannot write {path} ({len(payload)} bytes): {reason}.") from error
    return hashlib.sha256(payload).hexdigest()


def shard_bytes(shard: Shard) -> bytes:
    """Return the content of a shard's file, its checksum included; equal shards give equal bytes."""
    if problem := _problem(shard):
        raise MediaError("bad_features", f"The features of clip {shard.clip_id} are not stored: {problem}.")
    return seal(_arrays(shard), _record(shard))


def remove_shard(folder: Path, clip_id: str) -> None:
    """Delete the shard of a clip, if it is there, so that a power cut does not bring it back."""
    path = shard_path(folder, clip_id)
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_folder(path.parent)


def read_shard(path: Path, digest: str | None = None, *, remedy: str = REPAIR) -> Shard:
    try:
        payload = path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedShardError(f"The shard {path} is gone; {remedy}.") from error
    except OSError as error:
        raise LibraryError(  # it may be whole
            f"The shard {path} cannot be read ({error.strerror or error}); check the disk and the permissions, "
            "then run the same command again."
        ) from error
    if digest is not None and hashlib.sha256(payload).hexdigest() != digest:
        raise _damaged(path, "its checksum is not the one in the catalog", remedy)
    return parse_shard(payload, path, remedy)


def parse_shard(payload: bytes, path: Path, remedy: str = REPAIR) -> Shard:
    try:
        arrays, record = unseal(payload)
        version = record["format"]
        shard = _build(arrays, record) if version <= FORMAT else None
    except Exception as error:
        # A damaged header can fail in any way in the parser; every way means the same to the reader.
        raise _damaged(path, "its content does not parse", remedy) from error
    if shard is None:
        what = f"has format {version}, this version reads up to {FORMAT}; update evenreel to read it"
        raise NewerShardError(f"The shard {path} {what}.")
    problem = _problem(shard) or (None if path.stem == shard.clip_id else "it belongs to another clip")
    if problem:
        raise _damaged(path, problem, remedy)
    return shard


def _damaged(path: Path, why: str, remedy: str) -> DamagedShardError:
    return DamagedShardError(f"The shard {path} is damaged: {why}; {remedy}.")


def _arrays(shard: Shard) -> Arrays:
    values = {name: getattr(shard, name, None) for name in _DTYPES}
    if shard.sounds is not None:
        values |= {"sound_spans_s": shard.sounds.spans_s, "sound_vectors": shard.sounds.vectors}
    return {name: value for name, value in values.items() if value is not None}


def _record(shard: Shard) -> dict[str, Any]:
    record = {name: getattr(shard, name) for name in _PLAIN}
    tracks = None if shard.tracks is None else [asdict(track) for track in shard.tracks]
    record |= {"format": FORMAT, "info": asdict(shard.info), "tracks": tracks}
    if shard.window_texts is not None:
        record["window_texts"] = list(shard.window_texts)
    if shard.transcripts is not None:
        record["transcripts"] = list(map(transcript_record, shard.transcripts))
    if (one := shard.sounds) is not None:
        record["sounds"] = [one.encoder_id, one.weights_hash, list(one.notes), one.problem]
    return record


def _build(arrays: Arrays, record: dict[str, Any]) -> Shard:
    tracks, window_texts, transcripts = record["tracks"], record.get("window_texts"), record.get("transcripts")
    sounds = None
    if "sounds" in record:
        encoder_id, weights_hash, notes, problem = record["sounds"]
        heard = arrays["sound_spans_s"], arrays["sound_vectors"]
        sounds = ClipSounds(encoder_id, weights_hash, *heard, tuple(notes), problem)
    plain: dict[str, Any] = {name: record[name] for name in _PLAIN}
    plain |= {name: arrays.get(name) for name in ("frames", "windows", "cuts_s", "text_times_s")}
    return Shard(
        **plain,
        times_s=arrays["times_s"],
        spans_s=arrays["spans_s"],
        info=VideoInfo(**{**record["info"], "notes": tuple(record["info"]["notes"])}),
        tracks=None if tracks is None else tuple(map(text_track, tracks)),
        window_texts=None if window_texts is None else tuple(window_texts),
        transcripts=None if transcripts is None else tuple(map(transcript_of, transcripts)),
        sounds=sounds,
    )


def text_track(fields: dict[str, Any]) -> TextTrack:
    """Make a track of the fields that JSON has of it, with lists for tuples."""
    return TextTrack(**{**fields, "box": tuple(fields["box"]), "readings": tuple(fields["readings"])})


def _problem(shard: Shard) -> str | None:
    """Return the first contradiction in a shard, as a part of a sentence; None for a sound one."""
    arrays = _arrays(shard)
    for name, array in arrays.items():
        if array.dtype != _DTYPES[name]:
            return f"{name} has type {array.dtype} instead of {np.dtype(_DTYPES[name])}"
        if not np.isfinite(array).all():
            return f"{name} holds a value that is not a number"
    problems = (_time_problem, _frame_problem, _text_problem, _window_problem, _sound_problem)
    return next((found for problem in problems if (found := problem(shard))), None)


def _time_problem(shard: Shard) -> str | None:
    times, spans = shard.times_s, shard.spans_s
    if times.ndim != 1 or spans.shape != (len(times), 2):
        return f"{times.shape} times do not go with {spans.shape} spans"
    if (np.diff(times) < 0).any():
        return "the times of its frames are out of order"
    if (spans[:, 1] < spans[:, 0]).any():
        return "a span ends before it starts"
    cuts = np.zeros(0) if shard.cuts_s is None else shard.cuts_s
    return "its cuts are out of order" if cuts.ndim != 1 or (np.diff(cuts) <= 0).any() or (cuts <= 0).any() else None


def _frame_problem(shard: Shard) -> str | None:
    if (shard.frames is None) != (shard.encoder_id is None) or (shard.frames is None) != (shard.weights_hash is None):
        return "frames and the name and hash of their encoder go together, and one is missing"
    if shard.frames is None:
        return None
    if shard.frames.ndim != 2 or len(shard.frames) != len(shard.times_s):
        return f"{len(shard.times_s)} times do not go with features of shape {shard.frames.shape}"
    return _length_problem(shard.frames)


def _length_problem(features: NDArray[np.float16]) -> str | None:
    lengths = np.linalg.norm(features.astype(np.float32), axis=1)
    worst = float(np.abs(lengths - 1).max(initial=0.0))
    return f"a feature is {worst:.2g} away from unit length" if worst > UNIT_TOLERANCE else None


def _text_problem(shard: Shard) -> str | None:
    read = shard.text_times_s
    if read is not None and (shard.tracks is None or read.ndim != 1 or not len(read) or (np.diff(read) < 0).any()):
        return "the times at which its text was read are out of order, or nothing was"
    if (shard.tracks is None) != (shard.reader_id is None):
        return "text tracks and the name of their reader go together, and one is missing"
    for track in shard.tracks or ():
        numbers = (track.confidence, track.start_s, track.end_s, *track.box)
        if len(track.box) != 4 or not np.isfinite(numbers).all() or track.end_s < track.start_s:
            return f"the text {track.text[:40]!r} has an impossible time, box or confidence"
    for said in (one for transcript in shard.transcripts or () for one in transcript.utterances):
        if not 0 <= said.start_s <= said.end_s < np.inf:
            return f"the utterance {said.text[:40]!r} has an impossible time"
    return None


def _window_problem(shard: Shard) -> str | None:
    if (shard.windows is None) != (shard.window_texts is None):
        return "the texts of windows and their features go together, and one is missing"
    if shard.windows is None or shard.window_texts is None:
        return None
    if shard.frames is None or shard.tracks is None:
        return "windows go with frames and tracks, and one is missing"
    if shard.windows.shape != (len(shard.window_texts), shard.frames.shape[1]):
        return f"{len(shard.window_texts)} windows do not go with features of shape {shard.windows.shape}"
    written = np.array([bool(text) for text in shard.window_texts], np.bool_)
    if shard.windows[~written].any():
        return "a window without text has a feature"
    return _length_problem(shard.windows[written])


def _sound_problem(shard: Shard) -> str | None:
    if shard.sounds is None:
        return None
    spans, vectors = shard.sounds.spans_s, shard.sounds.vectors
    if vectors.ndim != 2 or spans.shape != (len(vectors), 2):
        return f"{spans.shape} spans of sound do not go with vectors of shape {vectors.shape}"
    if (np.diff(spans[:, 0]) < 0).any() or (spans[:, 1] < spans[:, 0]).any():
        return "the windows of its sound are out of order"
    return _length_problem(vectors)


# stills ---------------------------------------------------------------------------------------------------------------

SIDE_PX, QUALITY = 320, 70  # largest width and height of a still
MOST_BYTES = 48 * 2**20  # of the stills of one clip; those of its last moments are left out where there would be more
NEAR_S = 0.5  # at most between a time and the moment whose still is shown for it


@dataclass
class Stills:
    """Stills of a clip that is being read, with the times of their moments, rising."""

    times_s: list[float] = field(default_factory=list)
    jpegs: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, time_s: float, jpeg: bytes) -> None:
        if self.size_bytes + len(jpeg) <= MOST_BYTES:
            self.times_s.append(time_s)
            self.jpegs.append(jpeg)
            self.size_bytes += len(jpeg)


def write_stills(folder: Path, clip_id: str, stills: Stills | bytes) -> None:
    """Write the stills of a clip, or what `stills_bytes` made of them."""
    write_durably(shard_path(folder, clip_id), stills if isinstance(stills, bytes) else stills_bytes(clip_id, stills))


def stills_bytes(clip_id: str, stills: Stills) -> bytes:
    """Return the content of the file of a clip's stills; equal stills give equal bytes."""
    ends = list(itertools.accumulate(map(len, stills.jpegs)))
    checksums = [
        _still_checksum(clip_id, time_s, end, jpeg)
        for time_s, end, jpeg in zip(stills.times_s, ends, stills.jpegs, strict=True)
    ]
    arrays: Arrays = {
        "times_s": np.array(stills.times_s, np.float64),
        "ends": np.array(ends, np.int64),
        "checksums": np.array(checksums, np.uint32),
        "jpegs": np.frombuffer(b"".join(stills.jpegs), np.uint8),
    }
    return seal(arrays, {"clip_id": clip_id})


def read_still(folder: Path, clip_id: str, time_s: float) -> bytes | None:
    """Read the JPEG of the moment nearest to a time, without reading the others.

    Return None where no still is near, or the file is gone, of another clip or damaged there.
    """
    from safetensors import safe_open

    try:
        with safe_open(shard_path(folder, clip_id), "numpy") as held:
            times_s = held.get_tensor("times_s")
            nearest, ends = int(np.abs(times_s - time_s).argmin()), held.get_tensor("ends")
            start, end = int(ends[nearest - 1]) if nearest else 0, int(ends[nearest])
            jpeg: bytes = held.get_slice("jpegs")[start:end].tobytes()
            whole = _still_checksum(clip_id, times_s[nearest], end, jpeg) == int(held.get_tensor("checksums")[nearest])
    except Exception:  # a damaged file can fail in any way in the parser
        return None
    return jpeg if whole and abs(times_s[nearest] - time_s) <= NEAR_S else None


def _still_checksum(clip_id: str, time_s: float, end: int, jpeg: bytes) -> int:
    return crc32(jpeg, crc32(clip_id.encode() + struct.pack("<dq", time_s, end)))


def are_whole(path: Path) -> bool:
    """Check that a file of stills is undamaged, and of the clip that it is named by."""
    payload = path.read_bytes()
    try:
        _, record = unseal(payload)
    except Exception:  # a damaged file can fail in any way in the parser
        return False
    return bool(record["clip_id"] == path.stem)


# arrays and a record in one file --------------------------------------------------------------------------------------

Arrays = dict[str, NDArray[Any]]

_KEY = "evenreel"  # one key: safetensors does not order several
_LENGTH_BYTES = 8
_LARGEST_HEADER_BYTES = 2**30


def seal(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> bytes:
    """Return the bytes of a safetensors file with arrays, a JSON-able record and a checksum over both."""
    from safetensors.numpy import save

    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = _canonical(record)
    header = _canonical({"record": text, "sha256": _checksum(held, text)})
    return bytes(save(held, metadata={_KEY: header}))


def unseal(payload: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the record of a sealed file, checked."""
    from safetensors.numpy import load

    arrays = load(payload)  # checks the header's length and every offset against the bytes there are
    header_length = int.from_bytes(payload[:_LENGTH_BYTES], "little")
    record, digest = _header(payload[_LENGTH_BYTES : _LENGTH_BYTES + header_length])
    if digest != _checksum(arrays, record):
        raise ValueError("the checksum inside the file does not fit")
    return arrays, parse_json(record)


def glance(path: Path) -> dict[str, Any]:
    """Return the record of a sealed file without its arrays, and without checking that it is whole."""
    with path.open("rb") as file:
        header_length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if header_length > _LARGEST_HEADER_BYTES:
            raise ValueError(f"a header of {header_length} bytes")
        record, _ = _header(file.read(header_length))
    found: dict[str, Any] = parse_json(record)
    return found


def _header(text: bytes) -> tuple[str, str]:
    header = parse_json(parse_json(text)["__metadata__"][_KEY])
    return header["record"], header["sha256"]


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _checksum(arrays: Arrays, record: str) -> str:
    total = hashlib.sha256(record.encode())
    for name in sorted(arrays):
        total.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        total.update(arrays[name].data)
    return total.hexdigest()
