"""Inputs and settings of all studies in one record each, so that any study runs on the same small material."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from evenreel.papers import (
    LengthRankingInputs,
    PairInputs,
    StreamInputs,
    Study,
    TextPictureInputs,
    TransferInputs,
)
from evenreel.papers.bima.settings import MapSettings
from evenreel.papers.engine.settings import DepthSettings
from evenreel.papers.frame_length.settings import BaseSettings, ClassTrainingSettings, SampleSettings
from evenreel.papers.ghost.settings import ShareSettings, VectorSettings
from evenreel.papers.titan.settings import PhraseSettings, StreamSettings
from evenreel.types import VideoFeatures


@dataclass(frozen=True, eq=False, kw_only=True)
class EveryInput(LengthRankingInputs, StreamInputs, TextPictureInputs, TransferInputs, PairInputs):
    """What any study works on."""


@dataclass(frozen=True, kw_only=True)
class EverySetting(
    ShareSettings,
    VectorSettings,
    ClassTrainingSettings,
    SampleSettings,
    BaseSettings,
    MapSettings,
    PhraseSettings,
    StreamSettings,
    DepthSettings,
):
    """How any study is made."""


def options_of(study: Study) -> set[str]:
    """The names of a study's settings."""
    return {one.name for one in fields(study.settings)}


def longer_videos(videos: VideoFeatures, times: int) -> VideoFeatures:
    """All frames so many times, one after the other."""
    names = ("frames", "frame_mask", "times_s")
    return replace(videos, **{name: getattr(videos, name).repeat(times, 1) for name in names})
