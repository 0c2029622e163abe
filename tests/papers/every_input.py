"""Inputs and settings of all studies in one record each, so that any study runs on the same small material."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from evenreel.papers import (
    DirectionInputs,
    LengthRankingInputs,
    PairInputs,
    StreamInputs,
    Study,
    TextPictureInputs,
    TransferInputs,
)
from evenreel.papers.bima.maps import MapSettings
from evenreel.papers.frame_length.classes import ClassTrainingSettings
from evenreel.papers.frame_length.samples import SampleSettings
from evenreel.papers.frame_length.variants import BaseSettings
from evenreel.papers.ghost.sweeps import ShareSettings
from evenreel.papers.ghost.vectors import VectorSettings
from evenreel.papers.rerank_depth import DepthSettings
from evenreel.papers.titan.phrases import PhraseSettings
from evenreel.papers.titan.rows import StreamSettings


@dataclass(frozen=True, eq=False, kw_only=True)
class EveryInput(LengthRankingInputs, DirectionInputs, StreamInputs, TextPictureInputs, TransferInputs, PairInputs):
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


def options_of(study: Study[Any, Any]) -> set[str]:
    """The names of a study's settings."""
    return {one.name for one in fields(study.settings)}
