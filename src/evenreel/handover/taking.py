"""Taking stretches of an open library away in one call: found, read by a process of its own, written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError, NotFoundError, OutputError
from evenreel.features.shards import read_still
from evenreel.files import make_folder, output_file, sync_file, sync_folder
from evenreel.handover.cuts import SUFFIXES as CUT_SUFFIXES
from evenreel.handover.cuts import formats_for
from evenreel.handover.frames import FileFacts
from evenreel.handover.lists import as_csv, as_edl, as_fcpxml, as_json, as_otio, of_one_rate, subtitles
from evenreel.handover.picks import CheckedTake, Pick, Take, checked
from evenreel.handover.settings import A_FILE_EACH, READER, SUFFIXES, HandoverForm, HandoverSettings
from evenreel.handover.sheet import MOST_STILLS, STILL_PX, SheetCell, sheet_jpeg
from evenreel.library.store.catalog import STILLS
from evenreel.library.store.identity import SameContent
from evenreel.media.workers import Worker
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.library import Library
    from evenreel.library.contents import Located
    from evenreel.speech import Transcript


from evenreel.handover.picks import HandoverReport, file_stem, free_path, stretch_stem

ListWriter = Callable[[Sequence[CheckedTake], str], str]
LISTS: dict[HandoverForm, ListWriter] = {
    "csv": as_csv, "json": as_json, "edl": as_edl, "fcpxml": as_fcpxml, "otio": as_otio,
}  # fmt: skip
"""Writer of each form that is one text for all stretches."""
KIND = {".mkv": "a Matroska file", ".mp4": "an mp4 file"}
_IN_FRAMES = {"csv", "json", "edl", "fcpxml", "otio"}  # forms with frame numbers, which a clip's rate is told for
_UNSEEN = Fraction(1, 100)  # less than a frame at 60 a second needs no word


@dataclass(frozen=True)
class KnownOfClips:
    """What a library knows of its clips, as far as their stretches need it."""

    transcripts: Callable[[str], Sequence[Transcript]]  # of a clip's id
    still: Callable[[str, float], bytes | None]  # the JPEG that was kept of a clip's id at a time


class Handover:
    def __init__(
        self,
        worker: Worker,
        known: KnownOfClips,
        settings: HandoverSettings,
        progress: Callable[[float], object] = lambda share: None,
    ) -> None:
        self._worker, self._known, self._settings, self._progress = worker, known, settings, progress
        self._facts: dict[str, FileFacts | MediaError] = {}
        self._files = self._tried = 0
        self._cut_spans: dict[int, tuple[Fraction, Fraction]] = {}  # what cuts hold, by the take's place

    def write(self, takes: Sequence[Take], folder: Path, title: str) -> HandoverReport:
        """Write the forms; the names of lists come from the title, those of cuts from their files and times."""
        report = HandoverReport()
        try:
            make_folder(folder)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise OutputError(f"{folder} cannot be written to ({why}); choose another place with --out.") from error
        ready = self._ready(takes, report)
        forms = sorted(dict.fromkeys(self._settings.forms), key=lambda form: form != "clip") if ready else []
        self._files = sum(form in A_FILE_EACH for form in forms) * len(ready)
        for form in forms:
            if form in A_FILE_EACH:
                self._write_each(form, ready, folder, report)
                continue
            try:
                content = self._listed(form, ready, title, report)
                path = free_path(folder, file_stem(title, "stretches"), SUFFIXES[form])
                with output_file(path) as part:
                    part.write_bytes(content)
                report.files.append(path)
            except (EvenreelError, OSError) as error:
                report.leave_out_form(form, error)
        return report

    def _ready(self, takes: Sequence[Take], report: HandoverReport) -> list[CheckedTake]:
        ready = []
        for take in takes:
            try:
                wanted = replace(take, pick=take.pick.with_handles(self._settings.handles_s))
                ready.append(checked(wanted, self._facts_of(take)))
            except MediaError as error:
                report.leave_out(take, error)
                continue
            if ready[-1].facts.note and _IN_FRAMES.intersection(self._settings.forms):
                report.note(take.name, ready[-1].facts.note)
            if take.pick.end_s > ready[-1].stretch[1] + _UNSEEN:
                report.note(take.name, f"ends at {float(ready[-1].stretch[1]):.2f} s, and so does the stretch")
        return ready

    def _facts_of(self, take: Take) -> FileFacts:
        if take.path not in self._facts:
            try:
                ((found, _),) = self._worker.run({"facts": take.path})
                self._facts[take.path] = FileFacts.from_json(found)
            except MediaError as error:
                self._facts[take.path] = error
        facts = self._facts[take.path]
        if isinstance(facts, MediaError):
            raise facts
        return facts

    def _listed(self, form: HandoverForm, ready: Sequence[CheckedTake], title: str, report: HandoverReport) -> bytes:
        if form == "sheet":
            if len(ready) > MOST_STILLS:
                report.note("sheet", f"shows the first {MOST_STILLS} of {len(ready):,} stretches, the most that it can")
            return sheet_jpeg([self._cell(take, report) for take in ready[:MOST_STILLS]], title)
        if form == "edl":
            ready, others = of_one_rate(ready)
            for other in others:
                report.leave_out(
                    other.take,
                    MediaError(
                        "failed",
                        f"it has {other.facts.rate}, and the EDL {ready[0].facts.rate}, of which it can have one only; "
                        "take it away by itself, or as otio or fcpxml",
                    ),
                )
        return LISTS[form](ready, title).encode("utf-8", "replace")

    def _write_each(
        self, form: HandoverForm, ready: Sequence[CheckedTake], folder: Path, report: HandoverReport
    ) -> None:
        for place, take in enumerate(ready):
            try:
                if form == "clip":
                    report.files.append(self._cut(place, take, folder, report))
                else:
                    report.files.append(self._subtitled(place, take, form, folder))
            except (EvenreelError, OSError) as error:
                report.leave_out(take.take, error)
            self._tried += 1
            self._progress(self._tried / self._files)

    def _cut(self, place: int, checked: CheckedTake, folder: Path, report: HandoverReport) -> Path:
        """Cut a stretch into a hidden folder, and give it its name when it is whole."""
        take, facts = checked.take, checked.facts
        formats = formats_for(facts.container, PurePath(take.path).suffix)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".evenreel-") as scratch:
            made = os.path.join(scratch, "cut")
            task = {"out": made, "stretch": list(map(str, checked.stretch)), "facts": facts.to_json()}
            wanted = {"encode": take.path} if self._settings.exact else {"copy": take.path, "formats": formats}
            *_, (said, _) = self._worker.run(task | wanted)
            take.check_unchanged()
            path = free_path(folder, stretch_stem(take.name, *checked.stretch), CUT_SUFFIXES[said["format"]])
            sync_file(Path(made))
            os.replace(made, path)
        sync_folder(folder)
        self._cut_spans[place] = Fraction(said["starts_s"]), Fraction(said["ends_s"])
        early_s, late_s = float(checked.stretch[0]) - said["starts_s"], said["ends_s"] - float(checked.stretch[1])
        if why := said.get("why"):
            report.note(path.name, f"was encoded anew, as {why}")
        elif not self._settings.exact:
            if early_s > 1 / facts.fps:
                said_early = f"begins {early_s:.2f} s before the start asked for, at the key frame there (see --exact)"
                report.note(path.name, said_early)
            if late_s > 2 / facts.fps:
                report.note(path.name, f"ends {late_s:.2f} s after the end asked for")
            if said["format"] != formats[0]:
                report.note(path.name, f"is {KIND[path.suffix]}, as {formats[0]} does not hold its codecs")
        if said["left_out"]:
            anew = self._settings.exact or said.get("why")
            why = "of which nothing can be decoded" if anew else "which no container here holds"
            report.note(path.name, f"lacks a stream of sound, {why}")
        return path

    def _subtitled(self, place: int, checked: CheckedTake, form: HandoverForm, folder: Path) -> Path:
        """Write what is said in a stretch, on the clock of its cut where there is one."""
        take = checked.take
        span_s = self._cut_spans.get(place, checked.stretch)
        text = subtitles(self._known.transcripts(take.pick.clip_id), form, span_s, self._settings.language)
        path = free_path(folder, stretch_stem(take.name, *checked.stretch), f".{form}")
        with output_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="")
        return path

    def _cell(self, checked: CheckedTake, report: HandoverReport) -> SheetCell:
        take, (start_s, end_s) = checked.take, map(float, checked.stretch)
        time_s = take.pick.reason.get("time_s")
        if time_s is None or not start_s <= time_s < end_s:
            time_s = (start_s + end_s) / 2
        rate, frames = checked.facts.rate, checked.source_frames
        times = f"{rate.timecode(frames.start)} – {rate.timecode(frames.stop)}"
        still = self._known.still(take.pick.clip_id, time_s)
        if still is None:
            try:
                task = {"still": take.path, "time_s": time_s, "width": STILL_PX[0]}
                still = b"".join(array.tobytes() for _, array in self._worker.run(task) if array is not None)
                take.check_unchanged()
            except MediaError as error:
                report.note(take.name, f"has no still on the sheet: {error}")
        return SheetCell(still, take.name, times)


STALL_S = 30.0  # how long a file may give nothing while its content is compared


def take_away(
    library: Library,
    picks: Sequence[Pick],
    folder: str | Path,
    title: str = "stretches",
    settings: HandoverSettings | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> HandoverReport:
    """Write stretches of a library's clips into a folder, as cuts, lists for editors, tables, subtitles or a sheet."""
    limits, report = MediaLimits(), HandoverReport()
    takes = takes_of(library, picks, report)
    with closing(Worker(READER, {"limits": asdict(limits)}, limits)) as worker:
        stills = library.path / STILLS
        known = KnownOfClips(library.transcripts, lambda clip_id, time_s: read_still(stills, clip_id, time_s))
        handover = Handover(worker, known, settings or HandoverSettings(), progress)
        written = handover.write(takes, Path(folder), title)
    written.set_aside[:0] = report.set_aside
    return written


def takes_of(library: Library, picks: Sequence[Pick], report: HandoverReport) -> list[Take]:
    """Find the file of each stretch; what cannot be found is added to the report."""
    same, found = SameContent(STALL_S), list[Take]()
    for pick in picks:
        try:
            file = _unchanged(library, pick, same)
        except (MediaError, NotFoundError) as error:
            try:
                name = printable(library.clip(pick.clip_id).name)
            except NotFoundError:
                name = pick.clip_id
            report.leave_out(Take(pick, "", "", name), error)
            continue
        found.append(Take(pick, file.path, file.path, PurePath(file.path).name, file.stamp))
    return found


def _unchanged(library: Library, pick: Pick, same: SameContent) -> Located:
    why = "its file is not there any more; is its disk connected? `evenreel index` looks again"
    for file in sorted(library.locate(pick.clip_id).files, key=lambda file: file.path != pick.path):
        try:
            return same.check(pick.clip_id, file, os.stat(file.path, follow_symlinks=False))
        except OSError:
            continue
        except MediaError:
            why = "its file has changed since it was indexed; `evenreel index` reads it again"
    raise MediaError("unreadable", why)
