"""The one family of errors: every message is a clear sentence for the person who reads it.

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


class EvenreelError(Exception):
    """Base of everything this library raises on purpose: what, where, the limit, what to do about it.

    Its arguments are sentences, one for each thing that is wrong.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class UsageError(EvenreelError):
    """The call itself is wrong: an option, a filter, a query."""


class NotFoundError(EvenreelError):
    """What was asked for by name or id is not there."""


class MediaError(EvenreelError):
    """One video cannot be used; it is set aside and the work goes on.

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
    """A model cannot be had, read or trusted."""


class LibraryError(EvenreelError):
    """A library folder cannot be used as it stands."""


class CorpusError(EvenreelError):
    """A corpus, or a file it is to be made of, breaks its rules."""


class ScoresError(EvenreelError):
    """Scores cannot be read, do not fit the corpus, or are no numbers that can be ranked."""


class OutputError(EvenreelError):
    """A file of results cannot be written."""


class FeaturesError(EvenreelError):
    """A folder of features cannot be used as it stands, or does not fit the corpus."""


class CheckpointError(EvenreelError):
    """The checkpoint of a matcher cannot be had, read, trusted or written."""
