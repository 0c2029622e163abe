"""Recognition of speech in an index run: of clips in which no subtitles say what is said.

A new clip is heard while its pictures are read, and is stored with what was heard in one transaction; one whose
subtitles turn out to say nothing, or that was there before, is heard after that. What a model heard is kept with the
clip, also that it heard nothing, so that a run goes on where another stopped, and a later one adds speech to a library
without decoding pictures again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from evenreel.config import AUTO, IndexSettings
from evenreel.errors import UsageError
from evenreel.features.clip_reader import WantedStages
from evenreel.features.hearing import SpeechHearing
from evenreel.features.pool import Brake, RunHaltedError
from evenreel.features.progress import StagedProgress
from evenreel.features.shards import DamagedShardError, read_shard, shard_path
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.store.catalog import SHARDS, loaded_path
from evenreel.library.store.speech import put_transcripts
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.languages import language_tag
from evenreel.speech.models import check_extra, locate_speech_model, speech_model_here
from evenreel.speech.subtitles import sidecars_of
from evenreel.speech.transcripts import Transcript

log = logging.getLogger("evenreel")


def check_speech(settings: IndexSettings) -> None:
    """Check the speech model and the language of a run before anything is read; a model that is named is fetched."""
    if settings.language is not None and language_tag(settings.language) is None:
        raise UsageError(f"{settings.language!r} is no language; name it by its tag, such as en, de or pt-BR.")
    if settings.speech not in (None, AUTO):
        check_extra()
        locate_speech_model(str(settings.speech))


class SpeechStage:
    """What an index run hears: new clips beside the reading of their pictures, all others after it.

    Attributes:
        model: name of the model; None where nothing is heard.
        reading: whoever hears clips while they are read; None where nothing is heard.
    """

    def __init__(self, store: Store, found: Scan, settings: IndexSettings, report: IndexReport) -> None:
        self._store, self._found, self._settings, self._report = store, found, settings, report
        self.model = _model(store.connection, settings)
        self.reading = None if self.model is None else self._hearing(self.model)
        beside = sidecars_of({file.path for file in found.files}, {file.path: file for file in found.subtitles})
        # Copies of a video are of one size, and the subtitles of any of them say what is said in all.
        self._with_sidecars = {file.stamp.size for file in found.files if file.path in beside}

    def hears(self, file: FoundFile) -> bool:
        """Return whether a file is heard while it is read; one with subtitles beside it waits until these are read."""
        return self.reading is not None and file.stamp.size not in self._with_sidecars

    def stages_of(self, file: FoundFile, wanted: WantedStages | None) -> WantedStages | None:
        """Return the stages that are wanted of a file, without speech where it is not heard now."""
        return wanted if wanted is None or self.hears(file) else replace(wanted, speech=False)

    def close(self) -> None:
        """End the hearing of clips while they are read."""
        if self.reading is not None:
            self.reading.close()

    def unheard(self) -> set[str]:
        """Return the clips of the run that no subtitles and no model say anything of yet; none where nothing is heard.

        Clips that another model has heard are left out: they are heard after all others.
        """
        if self.reading is None:
            return set()
        known = self._store.connection.execute("SELECT clip_id FROM transcripts WHERE source = 'recognised'")
        heard = {clip_id for (clip_id,) in known}
        waiting = _unheard(self._store.connection, self._found, self.reading.speech_id, retry=False)
        return {clip_id for clip_id, _ in waiting} - heard

    def hear_the_rest(self, progress: StagedProgress, brake: Brake) -> None:
        """Hear the clips of the run that nothing says anything of yet; their subtitles have been read."""
        if self.model is None:
            return
        with closing(self._hearing(self.model)) as hearing, brake.held(hearing):
            wanted = list(_unheard(self._store.connection, self._found, hearing.speech_id, retry=self._settings.retry))
            if wanted:
                progress.stage("hearing what is said", len(wanted))
            for clip_id, path in wanted:
                if brake.eased:
                    return
                heard = hearing.hear(path)
                if brake.halted:  # a worker that was ended has heard nothing, for which the file is not to blame
                    raise RunHaltedError
                if heard is not None:
                    _put(self._store, clip_id, heard)
                    self._report.heard += 1
                progress.advance(1)

    def _hearing(self, model: str) -> SpeechHearing:
        settings = self._settings
        return SpeechHearing(model, settings.language, settings.limits, self.tell)

    def tell(self, path: str, note: str) -> None:
        """Note in the report what is unusual in the sound of a file."""
        self._report.notes.append((path, note))


def _model(connection: sqlite3.Connection, settings: IndexSettings) -> str | None:
    """The model that is named, or the one that heard most of the library's clips and is still here."""
    if settings.speech != AUTO:
        return settings.speech
    row = connection.execute(
        "SELECT origin FROM transcripts WHERE source = 'recognised' GROUP BY origin ORDER BY COUNT(*) DESC, origin"
    ).fetchone()
    own = None if row is None else loaded_path(row[0])
    if own is not None and not speech_model_here(own):
        log.warning("The speech model %s is not on this machine, so new clips are not heard; name one.", own)
        return None
    return own


def _unheard(connection: sqlite3.Connection, found: Scan, speech_id: str, *, retry: bool) -> Iterator[tuple[str, str]]:
    """Ids and files of clips that neither subtitles nor this model say anything of."""
    there = {file.path for file in found.files}
    done = {
        clip_id
        for clip_id, origin, problem in connection.execute(
            "SELECT clip_id, origin, problem FROM transcripts WHERE source = 'recognised'"
        )
        if loaded_path(origin) == speech_id and not (retry and problem)
    }
    done.update(
        clip_id
        for (clip_id,) in connection.execute(
            "SELECT DISTINCT clip_id FROM transcripts AS t WHERE source <> 'recognised' AND EXISTS"
            " (SELECT 1 FROM utterances AS u WHERE u.clip_id = t.clip_id AND u.transcript = t.number)"
        )
    )
    for stored, clip_id in connection.execute("SELECT path, clip_id FROM files WHERE state = 'indexed' ORDER BY path"):
        if clip_id not in done and (path := loaded_path(stored)) in there:
            done.add(clip_id)
            yield clip_id, path


def _put(store: Store, clip_id: str, heard: Transcript) -> None:
    """Keep what was heard beside what subtitles say, in the place of what another model heard."""
    try:
        shard = read_shard(shard_path(store.library / SHARDS, clip_id))
    except DamagedShardError as error:  # the next run reads its video anew
        log.warning("%s", error)
        return
    others = [one for one in shard.transcripts or () if one.source != "recognised"]
    put_transcripts(store.library, store.connection, shard, [*others, heard])
