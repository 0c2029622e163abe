"""The part of an index run that other machines read: they leave shards, and this process alone stores them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evenreel.config import Machines, usable_cores
from evenreel.errors import LibraryError, MediaError, Reason, UsageError
from evenreel.features.shards import Shard, parse_shard
from evenreel.library.index.plan import IndexRun
from evenreel.library.index.stages import ReadingStage
from evenreel.library.index.worker import Reading
from evenreel.library.machines.arrivals import Arrivals, begin_arrivals, clear_arrivals
from evenreel.library.machines.orders import FileStatus, FileTask, WorkOrder, shard_name, stills_name
from evenreel.library.machines.session import RaySession, check_address
from evenreel.library.store.writer import FoundFile
from evenreel.types import Encoder
from evenreel.wording import printable

LOADER = "evenreel.library.index.worker:load"

_MOST_ROUNDS_LOST = 2
"""Rounds in which a file may be lost with its workers; in the last, each worker has one file at a time."""


def check_machines(machines: Machines | None) -> None:
    """Refuse a place for what workers make where there are no workers."""
    if machines is not None and machines.staging is not None and machines.ray is None:
        raise UsageError(
            "--staging is where the workers of --ray leave what they made; name a cluster with --ray, or leave it out."
        )


@dataclass(frozen=True)
class _Waiting:
    """A file that is still to be read, with what is known of it."""

    file: FoundFile
    clip_id: str | None = None
    lost: int = 0


@dataclass
class SpreadRun:
    """Reading of files by the workers of a Ray cluster, round after round until none is left; they are put here."""

    of: IndexRun
    stage: ReadingStage
    machines: Machines
    _arrivals: Arrivals = field(init=False)

    def run(self, work: Sequence[FoundFile]) -> None:
        """Read files."""
        address = self.machines.ray or ""
        check_address(address)
        workers, library = self.of.settings.workers, self.of.store.library
        try:
            self._arrivals = begin_arrivals(library, self.machines.staging)
            with RaySession(address, self._order(work), workers, workers or usable_cores()) as session:
                waiting = [_Waiting(file) for file in work]
                while waiting:
                    waiting = self._round(session, waiting)
        finally:
            clear_arrivals(library)

    def _order(self, work: Sequence[FoundFile]) -> WorkOrder:
        orders = self.stage.orders
        return WorkOrder(
            library=str(self.of.store.library.absolute()),
            model=orders.model,
            wanted=orders.wanted,
            rule=orders.rule,
            read_text=orders.wanted.text,
            keep_stills=orders.keep_stills,
            limits=orders.limits,
            device=orders.device,
            precision=orders.precision,
            roots=tuple(sorted({file.root for file in work})),
            staging=self._arrivals.place,
            token=self._arrivals.token,
            reader=orders.reader,
            loader=LOADER,
            speech=orders.speech,
            language=orders.language,
        )

    def _round(self, session: RaySession, waiting: Sequence[_Waiting]) -> list[_Waiting]:
        """Have files read, of those with one content the first; return those that are still to be read."""
        again, tasks, under_way, contents = list[_Waiting](), list[FileTask](), dict[int, _Waiting](), set[str]()
        for number, one in enumerate(waiting):
            wanted = None if one.clip_id is None else self.stage.lacking(one.clip_id)
            if one.clip_id is not None and wanted is None:  # its content is known
                self._put(Reading(replace(one.file, clip_id=one.clip_id)))
                continue
            if one.clip_id in contents:
                again.append(one)
                continue
            contents |= {one.clip_id} if one.clip_id else set()
            under_way[number] = one
            speech = self.stage.speech.hears(one.file)
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
        self.stage.count_frames(one.file.path, status.frames)
        if status.frames:
            self.stage.start_model()
        if status.kind in {"made", "known"}:
            clip_id = str(status.clip_id)
            if self.stage.lacking(clip_id) is None:  # done by another file, if it was made
                self._put(Reading(replace(one.file, clip_id=clip_id)))
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
        stills = self._arrivals.take(stills_name(clip_id)) if self.stage.orders.keep_stills else None
        self._put(Reading(replace(file, clip_id=clip_id), shard, stills))
        for note in status.notes:
            self.stage.speech.tell(printable(file.path), note)
        for arrived in (name, stills_name(clip_id)):
            self._arrivals.drop(arrived)

    def _check_model(self, shard: Shard, node: str) -> None:
        """Refuse vectors of other weights than this machine has under the same name."""
        if self.stage.model is None or shard.weights_hash is None:
            return
        encoder: Encoder = self.stage.model.encoder()
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
        error = MediaError(_reason(status.reason), status.sentence)
        self.stage.set_aside(self.of.store, replace(file, clip_id=status.clip_id), error)

    def _lost(self, one: _Waiting) -> list[_Waiting]:
        """Set a file aside that worker after worker died of, once it was alone with them; else return it."""
        if one.lost + 1 < _MOST_ROUNDS_LOST:
            return [replace(one, lost=one.lost + 1)]
        error = MediaError("killed", "Ray worker after Ray worker died while it was read, for want of memory?")
        self.stage.set_aside(self.of.store, one.file, error)
        return []

    def _put(self, reading: Reading) -> None:
        try:
            self.stage.put(self.of.store, reading)
        except MediaError as error:
            self.stage.set_aside(self.of.store, reading.file, error)

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
