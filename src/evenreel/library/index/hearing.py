"""Recognition of speech in an index run: of clips in which no subtitles say what is said, one after another.

What a model heard is kept with the clip, also that it heard nothing, so that a run goes on where another stopped, and a
later one adds speech to a library without decoding pictures again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from evenreel.config import AUTO, IndexSettings
from evenreel.errors import MediaError, UsageError
from evenreel.features.progress import TRANSIENT, StagedProgress
from evenreel.features.shards import DamagedShardError, read_shard, shard_path
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.store.catalog import SHARDS, loaded_path
from evenreel.library.store.speech import put_transcripts
from evenreel.library.store.writer import Store
from evenreel.media.languages import language_tag
from evenreel.media.workers import Worker
from evenreel.speech.sources import check_extra, locate_speech_model, speech_model_here
from evenreel.speech.transcripts import Transcript
from evenreel.wording import printable

log = logging.getLogger("evenreel")


def check_speech(settings: IndexSettings) -> None:
    """Check the speech model and the language of a run before anything is read; a model that is named is fetched.

    Raises:
        UsageError: the language is none.
        EncoderError: the extra `speech` is not installed, or the model cannot be had, or is of another kind.
    """
    if settings.language is not None and language_tag(settings.language) is None:
        raise UsageError(f"{settings.language!r} is no language; name it by its tag, such as en, de or pt-BR.")
    if settings.speech not in (None, AUTO):
        check_extra()
        locate_speech_model(str(settings.speech))


def recognise_speech(
    store: Store, found: Scan, settings: IndexSettings, report: IndexReport, progress: StagedProgress
) -> None:
    """Recognise what is said in the clips of some folders that say nothing yet, in a worker that can be killed.

    Args:
        store: the library, locked and open, with the clips of the run and their subtitles.
        found: files of the folders.
        settings: speech model, language and limits.
        report: gets the number of clips that were heard, and notes.
        progress: receives the stage where there is something to hear.

    Raises:
        EncoderError: the model cannot be had.
        EvenreelError: no worker can be started; it says so where the model does not hear the language.
        LibraryError: the disk is full or cannot be written.
    """
    model = _model(store.connection, settings)
    if model is None:
        return
    speech_id, _ = locate_speech_model(model)
    wanted = list(_unheard(store.connection, found, speech_id, retry=settings.retry))
    if not wanted:
        return
    from evenreel.speech.speech_worker import speech_worker

    progress.stage("hearing what is said", len(wanted))
    with closing(speech_worker(model, language=settings.language, limits=settings.limits)) as worker:
        for clip_id, path in wanted:
            heard = _heard(worker, path, speech_id, report)
            if heard is not None:
                _put(store, clip_id, heard)
                report.heard += 1
            progress.advance(1)


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


def _heard(worker: Worker, path: str, speech_id: str, report: IndexReport) -> Transcript | None:
    """What the model hears in a file, or why it hears nothing; None where it is to be tried again next time."""
    from evenreel.speech.speech_worker import recognise_with

    try:
        found = recognise_with(worker, path)
    except MediaError as error:
        if error.reason != "no_sound":  # the pictures of which were read, and most films without sound are meant so
            report.notes.append((printable(path), printable(f"what is said cannot be heard: {error}")))
        if error.reason in TRANSIENT:
            return None
        return Transcript("recognised", speech_id, problem=printable(str(error)))
    report.notes += [(printable(path), printable(note)) for note in found.notes]
    languages = Counter(one.language for one in found.utterances)
    language = languages.most_common(1)[0][0] if languages else None
    return Transcript("recognised", speech_id, found.utterances, language)


def _put(store: Store, clip_id: str, heard: Transcript) -> None:
    """Keep what was heard beside what subtitles say, in the place of what another model heard."""
    try:
        shard = read_shard(shard_path(store.library / SHARDS, clip_id))
    except DamagedShardError as error:  # the next run reads its video anew
        log.warning("%s", error)
        return
    others = [one for one in shard.transcripts or () if one.source != "recognised"]
    put_transcripts(store.library, store.connection, shard, [*others, heard])
