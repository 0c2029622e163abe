"""Whose features a folder holds, and in which ways the clips of a corpus were read into it."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from evenreel.documents import parse_json
from evenreel.errors import FeaturesError
from evenreel.features.folder import CLIPS, store
from evenreel.features.sealed import glance
from evenreel.features.settings import FLOAT32, Words, precision_of
from evenreel.features.shards import shard_files
from evenreel.features.texts import block_files
from evenreel.types import Encoder

FORMAT = 1
MANIFEST = "features.json"


class DamagedManifestError(FeaturesError):
    """What says whose features a folder holds is not what was written."""


class Stream(NamedTuple):
    """One of several kinds of features that stand side by side in every frame: its name and how many numbers it has."""

    name: str
    dimension: int


@dataclass(frozen=True)
class FeatureSet:
    """One way in which clips were read; a folder may hold several.

    Attributes:
        rule: how frames were sampled.
        words: where on-screen text is from.
        windows: O; None where on-screen text was never asked for.
    """

    rule: str
    words: Words = "ocr"
    windows: int | None = None

    def __str__(self) -> str:
        return self.rule if self.words == "ocr" else f"{self.rule}, words of the corpus"


@dataclass(frozen=True)
class Manifest:
    """Whose features a folder holds, and how they were made.

    Attributes:
        encoder_id: name of the encoder.
        weights_hash: digest of the encoder; a folder holds features of one.
        dimension: D.
        precision: the numbers the encoder calculated with; a folder holds features of one precision.
        videos: folder in which the paths of the clips begin.
        sets: ways in which clips were read, each once, that of the last run last.
        streams: of features that others computed, in the order of their columns; empty for those of an encoder.
    """

    encoder_id: str
    weights_hash: str
    dimension: int
    precision: str
    videos: str
    sets: tuple[FeatureSet, ...]
    streams: tuple[Stream, ...] = ()

    @property
    def title(self) -> str:
        """Name of the encoder, or of features that others computed, with their streams."""
        streams = ", ".join(f"{stream.name} {stream.dimension:,}" for stream in self.streams)
        return f"{self.encoder_id} ({streams})" if streams else self.encoder_id

    @property
    def last(self) -> FeatureSet:
        """How the last run read clips."""
        return self.sets[-1]

    @property
    def rule(self) -> str:
        """How the last run sampled frames."""
        return self.last.rule

    @property
    def windows(self) -> int | None:
        """O of what the last run was about; None where it has no on-screen text."""
        return self.last.windows

    def find(self, rule: str | None = None, words: Words | None = None) -> FeatureSet | None:
        """The set of a rule and a source of words, the one made last where that leaves a choice; None for none."""
        fitting = (one for one in reversed(self.sets) if rule in (None, one.rule) and words in (None, one.words))
        return next(fitting, None)

    def chosen(self, folder: Path, names: Sequence[str]) -> tuple[Stream, ...]:
        """The streams of these names, in the order of their columns; all that there are without a name.

        Raises:
            FeaturesError: there is no such stream in the folder that the manifest is of.
        """
        there = [stream.name for stream in self.streams]
        if names and not there:
            raise FeaturesError(
                f"The features in {folder} are of {self.encoder_id} and have no streams to choose from; leave "
                "data.streams out."
            )
        if strange := [name for name in names if name not in there]:
            raise FeaturesError(
                f"{folder} has no stream {strange[0]!r}; it has {', '.join(there)}. Name some of these, or none."
            )
        return tuple(stream for stream in self.streams if not names or stream.name in names)

    def after(self, there: Manifest) -> Manifest:
        """This manifest of a run, in a folder that had another one; windows that lie there are not forgotten."""
        new = self.last
        old = there.find(new.rule, new.words)
        if old is not None and new.windows is None:
            new = replace(new, windows=old.windows)
        return replace(self, sets=(*(one for one in there.sets if one != old), new))


def read_manifest(folder: Path) -> Manifest:
    """Whose features a folder holds.

    Raises:
        FeaturesError: it holds none, or was written by a later version.
    """
    path = folder / MANIFEST
    try:
        fields = parse_json(path.read_text(encoding="utf-8"))
        manifest = None if _take(fields, "format", int) > FORMAT else _build(fields)
    except FileNotFoundError as error:
        raise FeaturesError(f"There are no features in {folder}; make some with `evenreel features`.") from error
    except OSError as error:
        raise FeaturesError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedManifestError(f"{path} is damaged; run `evenreel features` again.") from error
    if manifest is None:
        raise FeaturesError(f"The features in {folder} were made by a later version; update evenreel to read them.")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Say whose features a folder holds; one that holds those of another encoder or precision is refused.

    Returns:
        What is written: the manifest, with the sets that were there before.

    Raises:
        FeaturesError: see above, or the folder cannot be written.
    """
    there = manifest_beside(folder, manifest)
    if there is not None and there.precision != manifest.precision:
        raise FeaturesError(f"{folder} holds features in {there.precision}; name another --out, or that --precision.")
    new = manifest if there is None else manifest.after(there)
    if new != there:
        put_manifest(folder, new)
    return new


def manifest_beside(folder: Path, manifest: Manifest) -> Manifest | None:
    """The manifest of a folder that these features may go to; None where there is none, or one that is damaged.

    Raises:
        FeaturesError: the folder holds features of another encoder, or the manifest cannot be read.
    """
    there = None
    with contextlib.suppress(DamagedManifestError):
        there = read_manifest(folder) if (folder / MANIFEST).exists() else None
    owner = _owner(folder) if there is None else (there.encoder_id, there.weights_hash)
    if owner is not None and owner[1] != manifest.weights_hash:
        new = f"those of {manifest.title} are others" if manifest.streams else f"{manifest.title} has other weights"
        old = owner[0] if there is None else there.title
        raise FeaturesError(f"{folder} holds features of {old}, and {new}; name another --out.")
    return there


def put_manifest(folder: Path, manifest: Manifest) -> None:
    """Say whose features a folder holds, whatever it said before.

    Raises:
        FeaturesError: the folder cannot be written.
    """
    store(folder / MANIFEST, (json.dumps({"format": FORMAT} | asdict(manifest), indent=2) + "\n").encode())


def feature_folder(corpus_folder: Path, encoder: Encoder) -> Path:
    """Where the features of a corpus go if no place is named: `CORPUS/features/NAME-HASH`, then a lower precision."""
    name = encoder.encoder_id.partition("@")[0].replace("\\", "/").rstrip("/").rpartition("/")[2]
    lower = "" if precision_of(encoder) == FLOAT32 else f"-{precision_of(encoder)}"
    return corpus_folder / "features" / f"{re.sub(r'[^0-9A-Za-z._-]', '_', name)}-{encoder.weights_hash[:8]}{lower}"


def _owner(folder: Path) -> tuple[str, str] | None:
    """Name and hash of the encoder of the first file that says them: they outlive a manifest."""
    for path in itertools.chain(shard_files(folder / CLIPS), block_files(folder)):
        with contextlib.suppress(Exception):  # a damaged header can fail in any way, and says nothing
            record = glance(path)
            return _take(record, "encoder_id", str), _take(record, "weights_hash", str)
    return None


def _build(fields: Mapping[str, Any]) -> Manifest:
    sets = tuple(_build_set(one) for one in _take(fields, "sets", list))
    if not sets:
        raise ValueError("no set")
    names = ("encoder_id", "weights_hash", "precision", "videos")
    texts = {name: _take(fields, name, str) for name in names}
    streams = tuple(Stream(str(name), int(size)) for name, size in fields.get("streams", ()))
    return Manifest(**texts, dimension=_take(fields, "dimension", int), sets=sets, streams=streams)


def _build_set(fields: Mapping[str, Any]) -> FeatureSet:
    windows = fields["windows"] if fields["windows"] is None else _take(fields, "windows", int)
    if fields["words"] not in get_args(Words):
        raise ValueError(f"words of {fields['words']!r}")
    return FeatureSet(_take(fields, "rule", str), fields["words"], windows)


def _take(fields: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = fields[name]
    if type(value) is not kind:  # a bool is an int
        raise TypeError(f"{name} is {value!r}")
    return value
