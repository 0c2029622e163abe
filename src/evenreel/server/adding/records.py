"""Records of adding folders, as the API answers with them and as it is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

RunState = Literal["idle", "running", "pausing", "paused", "watching", "done", "failed"]


class FolderInside(BaseModel):
    """A folder that can be opened; `path` is what to ask for, below the home folder.

    `videos` counts those in it and in the folders below, at least so many where `more` is true.
    """

    name: str
    path: str
    videos: int
    more: bool


class FolderListing(BaseModel):
    """A folder below the home folder and the folders in it; `path` is empty for the home folder itself.

    `added` says whether the library has it already, alone or with one above it. `left_out` counts links that lead out
    of the home folder, and folders that cannot be opened or whose names cannot be shown.
    """

    name: str
    path: str
    videos: int
    more: bool
    added: bool
    folders: list[FolderInside]
    left_out: int


class ModelChoice(BaseModel):
    """A model that a new library can be made with; `name` is what to ask for."""

    name: str
    label: str
    about: str


class Indexing(BaseModel):
    """How adding folders goes.

    `state` is `idle`, `running`, `pausing`, `paused`, `watching` (for what changes in the folders), `done` or `failed`;
    `sentence` says what can be said of it. `watches` says whether it goes on with what changes there. `done` of
    `total` steps of `stage` are done, None where they cannot be counted; `per_minute` of them are done in a minute and
    `remaining_s` seconds are left at that pace, None before that is known. `file` is the one that was read last. Where
    lengths are known, `video_done_s` of `video_s` seconds of video are read, `speed` of them in a second. `models` are
    those that a library without one can be made with, the best first. `can_add` is false where it is only read.
    """

    state: RunState
    can_add: bool = True
    sentence: str = ""
    folders: list[str] = []
    watches: bool = False
    stage: str = ""
    file: str | None = None
    done: int = 0
    total: int | None = None
    per_minute: float | None = None
    remaining_s: float | None = None
    video_done_s: float | None = None
    video_s: float | None = None
    speed: float | None = None
    models: list[ModelChoice] = []


class IndexingOrder(BaseModel):
    """What is to be done: `start` takes a folder as `GET /api/v1/folders` names it, or None for all that were added.

    `watch` is `start` that goes on with what changes in the folders afterwards, until `stop`. `model` is a name of
    `models`, for a library that has none yet.
    """

    action: Literal["start", "watch", "pause", "resume", "stop"]
    folder: Annotated[str | None, Field(max_length=4_096)] = None
    model: Annotated[str | None, Field(max_length=100)] = None
