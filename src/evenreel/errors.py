"""The family of errors: every message is a clear sentence for the person who reads it.

Only `evenreel.cli` turns them into exit codes.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "empty",
    "not_media",
    "truncated_header",
    "no_video",
    "no_frames",
    "no_sound",
    "damaged",
    "format_not_allowed",
    "codec_not_allowed",
    "encrypted",
    "too_large",
    "unreadable",
    "changed_while_reading",
    "timeout",
    "crashed",
    "killed",
    "out_of_memory",
    "bad_features",
    "failed",
]
"""Stable codes of why a video was set aside; they go into the catalog, the log and `--json`."""


DownloadTrouble = Literal["offline", "refused", "missing", "disk_full", "checksum", "failed"]
"""Why a model cannot be downloaded: no network, or it is switched off; the host refuses; the hub has no such model or
file; no room; what arrived is not what the hub has; anything else."""


class EvenreelError(Exception):
    """Base of all errors that this library raises on purpose: what, where, the limit, what to do about it.

    Its arguments are sentences, one for each thing that is wrong.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class UsageError(EvenreelError):
    """Raised for a wrong call: an option, an argument, a filter, a query."""


class NotFoundError(EvenreelError):
    """Raised where nothing has the name or id that was given."""


class MediaError(EvenreelError):
    """Raised for a video that cannot be used; it is set aside and the work goes on.

    Attributes:
        reason: a stable code of `Reason`.
    """

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason

    def __reduce__(self) -> tuple[type[MediaError], tuple[Reason, str]]:
        """Pickle both arguments, so that one process can hand it to another."""
        return type(self), (self.reason, str(self))


class EncoderError(EvenreelError):
    """Raised for a model that cannot be found, read or trusted."""


class DownloadError(EncoderError):
    """Raised for a model that is not on this machine and cannot be downloaded now.

    Attributes:
        model: hub id.
        kind: stable code of why.
    """

    def __init__(self, sentence: str, model: str = "", kind: DownloadTrouble = "failed") -> None:
        super().__init__(sentence)
        self.model, self.kind = model, kind

    def __reduce__(self) -> tuple[type[DownloadError], tuple[str, str, DownloadTrouble]]:
        return type(self), (str(self), self.model, self.kind)


class LibraryError(EvenreelError):
    """Raised for a library folder that cannot be used as it is."""


class VanishedFilesError(LibraryError):
    """Raised where so many files of an indexed folder are gone that its disk may not be connected."""


class OtherModelError(LibraryError):
    """Raised where a library was made with another model than the one that it is to be searched with."""


class CorpusError(EvenreelError):
    """Raised for a corpus, or a file that one is made of, that breaks the rules."""


class ScoresError(EvenreelError):
    """Raised for scores that cannot be read, do not fit the corpus, or are no numbers that can be ranked."""


class OutputError(EvenreelError):
    """Raised for a file of results that cannot be written."""


class FeaturesError(EvenreelError):
    """Raised for a folder of features that cannot be used as it is, or does not fit the corpus."""


class CheckpointError(EvenreelError):
    """Raised for a matcher's checkpoint that cannot be found, read, trusted or written."""
