"""What an index run tells its workers on other machines, and what they answer; plain data on the way."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from evenreel.config import MediaLimits
from evenreel.features.clip_reader import WantedStages
from evenreel.version import __version__

MOST_DEATHS = 2
"""How many workers may die of a clip, one after the other, before it is set aside."""

MOST_UNDER_WAY = 256
"""Files that are being read, or wait to be stored, at a time; workers wait with the next one while there are more."""


@dataclass(frozen=True)
class WorkOrder:
    """What all workers of an index run are told.

    Attributes:
        library: folder of the library, on the machine of the run alone.
        model: name of the model; None for words alone.
        wanted: stages that are wanted.
        rule: how frames are sampled.
        read_text: whether on-screen text is read.
        keep_stills: whether a small picture of each moment is kept.
        limits: limits of one file.
        device: where the model runs.
        precision: its number format.
        roots: folders that all machines must see.
        staging: place where workers leave files, see `evenreel.library.machines.arrivals`.
        token: name of the run.
        reader: target of the reader processes.
        loader: `module:name` of the function that loads a model by its name and the settings of a run.
        speech: model that hears what is said; None for none.
        language: language that is spoken; None to have it detected.
        readers: files that one worker reads at a time.
        version: version of evenreel.
    """

    library: str
    model: str | None
    wanted: WantedStages
    rule: str
    read_text: bool
    keep_stills: bool
    limits: MediaLimits
    device: str
    precision: str
    roots: tuple[str, ...]
    staging: str
    token: str
    reader: str
    loader: str
    speech: str | None = None
    language: str | None = None
    readers: int = 1
    version: str = __version__

    def to_json(self) -> dict[str, Any]:
        """Return the order as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> WorkOrder:
        """Make an order of what `to_json` returned."""
        made: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        made["wanted"] = WantedStages(**fields["wanted"])
        made["limits"] = MediaLimits(**fields["limits"])
        return cls(**made)


@dataclass(frozen=True)
class FileTask:
    """A file that a worker is to read.

    Attributes:
        number: of the task in its round.
        path: of the file.
        wanted: the stages to do; None where the catalog, asked by the worker, says it.
        speech: whether it is heard, if it is new.
    """

    number: int
    path: str
    wanted: WantedStages | None = None
    speech: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the task as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> FileTask:
        """Make a task of what `to_json` returned."""
        return cls(**{**fields, "wanted": stages(fields["wanted"])})


def stages(wanted: dict[str, bool] | None) -> WantedStages | None:
    """Make the stages of plain data."""
    return None if wanted is None else WantedStages(**wanted)


@dataclass(frozen=True)
class FileStatus:
    """What became of a file at a worker.

    Attributes:
        number: of the task.
        node: name of the machine.
        kind: `made`: what is wanted of it was left at the place of arrivals; `known`: its content is in the library,
            or another worker reads it; `aside`: it cannot be used; `died`: worker after worker died of it; `disk`:
            what was made could not be left; `fault`: the worker cannot work.
        clip_id: digest of its content; None where it could not be read.
        frames: number of frames that were decoded.
        notes: sentences on what is unusual in its sound.
        reason: code of `evenreel.errors.Reason`, of `aside`.
        sentence: what is wrong.
        gone: whether the machine does not see the file.
        full: whether the place is full, of `disk`.
    """

    number: int
    node: str
    kind: str
    clip_id: str | None = None
    frames: int = 0
    notes: tuple[str, ...] = ()
    reason: str = ""
    sentence: str = ""
    gone: bool = False
    full: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the status as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> FileStatus:
        """Make a status of what `to_json` returned."""
        return cls(**{**fields, "notes": tuple(fields["notes"])})


def shard_name(clip_id: str) -> str:
    """Return the name of a clip's shard among the arrivals."""
    return f"shards/{clip_id}.safetensors"


def stills_name(clip_id: str) -> str:
    """Return the name of a clip's stills among the arrivals."""
    return f"stills/{clip_id}.safetensors"


def node_name() -> str:
    """Return the name of this machine."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "?")
