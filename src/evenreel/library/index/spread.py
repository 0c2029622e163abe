"""The part of an index run that other machines read: they leave shards, and this process alone stores them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evenreel.config import IndexSettings, Machines, usable_cores
from evenreel.errors import LibraryError, MediaError, Reason, UsageError
from evenreel.features.clip_reader import WantedStages
from evenreel.features.shards import Shard, parse_shard
from evenreel.library.index.hearing import SpeechStage
from evenreel.library.index.model import ModelInUse
from evenreel.library.machines.arrivals import Arrivals, begin_arrivals, clear_arrivals
from evenreel.library.machines.orders import FileStatus, FileTask, WorkOrder, shard_name, stills_name
from evenreel.library.machines.session import RaySession, check_address
from evenreel.library.store.writer import FoundFile
from evenreel.types import Encoder
from evenreel.wording import printable

LOADER = "evenreel.library.index.model:load"

_MOST_ROUNDS_LOST = 2
"""Rounds in which a file may be lost with its workers; in the last, each worker has one file at a time."""


def check_machines(machines: Machines | None) -> None:
    """Refuse a place for what workers make where there are no workers."""
    if machines is not None and machines.staging is not None and machines.ray is None:
        raise UsageError(
            "--staging is where the workers of --ray leave what they made; name a cluster with --ray, or leave it out."
        )


@dataclass(frozen=True)
class Outcomes:
    """What an index run does with what became of a file.

    Attributes:
        wanted: returns the stages to do for a content, None for none.
        keep: stores the shard and the stills of a file.
        link: notes that a file has known content.
        set_aside: notes that a file cannot be used.
        frame: counts a frame of a file, with its time in seconds; the model is wanted then.
        speech: what is heard, and which files.
    """

    wanted: Callable[[str], WantedStages | None]
    keep: Callable[[FoundFile, str, Shard, bytes | None], None]
    link: Callable[[FoundFile, str], None]
    set_aside: Callable[[FoundFile, MediaError, str | None], None]
    frame: Callable[[str, float], None]
    speech: SpeechStage


@dataclass(frozen=True)
class _Waiting:
    """A file that is still to be read, with what is known of it."""

    file: FoundFile
    clip_id: str | None = None
    lost: int = 0


@dataclass
class SpreadRun:
    """Reading of files by the workers of a Ray cluster, round after round until none is left.

    Attributes:
        library: folder of the library.
        model: the model of the run; None for words alone.
        wanted: stages that the run wants.
        settings: settings of the run.
        machines: the cluster.
        outcomes: what is done with each file.
        reader: target of the reader processes.
    """

    library: Path
    model: ModelInUse | None
    wanted: WantedStages
    settings: IndexSettings
    machines: Machines
    outcomes: Outcomes
    reader: str
    _arrivals: Arrivals = field(init=False)

    def run(self, work: Sequence[FoundFile]) -> None:
        """Read files."""
        address = self.machines.ray or ""
        check_address(address)
        workers = self.settings.workers
        try:
            self._arrivals = begin_arrivals(self.library, self.machines.staging)
            with RaySession(address, self._order(work), workers, workers or usable_cores()) as session:
                waiting = [_Waiting(file) for file in work]
                while waiting:
                    waiting = self._round(session, waiting)
        finally:
            clear_arrivals(self.library)

    def _order(self, work: Sequence[FoundFile]) -> WorkOrder:
        settings = self.settings
        return WorkOrder(
            library=str(self.library.absolute()),
            model=None if self.model is None else self.model.name,
            wanted=self.wanted,
            rule=settings.rule,
            read_text=settings.read_text,
            keep_stills=settings.keep_stills,
            limits=settings.limits,
            device=settings.device,
            precision=settings.precision,
            roots=tuple(sorted({file.root for file in work})),
            staging=self._arrivals.place,
            token=self._arrivals.token,
            reader=self.reader,
            loader=LOADER,
            speech=self.outcomes.speech.model,
            language=settings.language,
        )

    def _round(self, session: RaySession, waiting: Sequence[_Waiting]) -> list[_Waiting]:
        """Have files read, of those with one content the first; return those that are still to be read."""
        again, tasks, under_way, contents = list[_Waiting](), list[FileTask](), dict[int, _Waiting](), set[str]()
        for number, one in enumerate(waiting):
            wanted = None if one.clip_id is None else self.outcomes.wanted(one.clip_id)
            if one.clip_id is not None and wanted is None:  # its content is known
                self.outcomes.link(one.file, one.clip_id)
                continue
            if one.clip_id in contents:
                again.append(one)
                continue
            contents |= {one.clip_id} if one.clip_id else set()
            under_way[number] = one
            speech = self.outcomes.speech.hears(one.file)
            tasks.append(FileTask(number, one.file.path, wanted, speech))
        if tasks:
            for status in session.run(tasks, alone=any(one.lost for one in waiting)):
                if (known := under_way.pop(status.number, None)) is not None:  # else Ray has told it before
                    again += self._take(known, status)
                    session.settle(status.number)
        again += [left for one in under_way.values() for left in self._lost(one)]
        return again

    def _take(self, one: _Waiting, status: FileStatus) -> list[_Waiting]:
        """Store what became of a file; return it where it is to be read again."""
        for _ in range(status.frames):
            self.outcomes.frame(one.file.path, 0.0)
        if status.kind in {"made", "known"}:
            clip_id = str(status.clip_id)
            if self.outcomes.wanted(clip_id) is None:  # done by another file, if it was made
                self.outcomes.link(one.file, clip_id)
            elif status.kind == "known":
                return [replace(one, clip_id=clip_id)]
            else:
                self._store(one.file, status)
        elif status.kind == "died":
            return self._lost(one)
        elif status.kind == "aside":
            self._set_aside(one.file, status)
        elif status.kind == "disk":
            raise LibraryError(self._disk_sentence(status))
        else:
            raise LibraryError(status.sentence)
        return []

    def _store(self, file: FoundFile, status: FileStatus) -> None:
        clip_id = str(status.clip_id)
        name = shard_name(clip_id)
        shard = parse_shard(self._arrivals.take(name), Path(self._arrivals.place) / name, "run again")
        self._check_model(shard, status.node)
        stills = self._arrivals.take(stills_name(clip_id)) if self.settings.keep_stills else None
        self.outcomes.keep(file, clip_id, shard, stills)
        for note in status.notes:
            self.outcomes.speech.tell(printable(file.path), note)
        for arrived in (name, stills_name(clip_id)):
            self._arrivals.drop(arrived)

    def _check_model(self, shard: Shard, node: str) -> None:
        """Refuse vectors of other weights than this machine has under the same name."""
        if self.model is None or shard.weights_hash is None:
            return
        encoder: Encoder = self.model.encoder()
        if shard.weights_hash != encoder.weights_hash:
            raise LibraryError(
                f"The Ray worker on {node} has other weights of {encoder.encoder_id} than this machine; nothing of it "
                "was stored: have the same model on every machine."
            )

    def _set_aside(self, file: FoundFile, status: FileStatus) -> None:
        if status.gone and os.path.lexists(file.path):
            raise LibraryError(
                f"The Ray worker on {status.node} does not see {printable(file.path)}; have its folder under the same "
                "path on every machine."
            )
        self.outcomes.set_aside(file, MediaError(_reason(status.reason), status.sentence), status.clip_id)

    def _lost(self, one: _Waiting) -> list[_Waiting]:
        """Set a file aside that worker after worker died of, once it was alone with them; else return it."""
        if one.lost + 1 < _MOST_ROUNDS_LOST:
            return [replace(one, lost=one.lost + 1)]
        error = MediaError("killed", "Ray worker after Ray worker died while it was read, for want of memory?")
        self.outcomes.set_aside(one.file, error, None)
        return []

    def _disk_sentence(self, status: FileStatus) -> str:
        if status.full:
            return (
                f"The disk of {self._arrivals.place} is full, says the Ray worker on {status.node}; what was indexed "
                "so far is safe and searchable: free some space and run the same command again."
            )
        return (
            f"The Ray worker on {status.node} cannot write to {self._arrivals.place} ({status.sentence}); what was "
            "indexed so far is safe: run the same command again."
        )


def _reason(code: str) -> Reason:
    return code  # type: ignore[return-value] # the worker had it from a MediaError
