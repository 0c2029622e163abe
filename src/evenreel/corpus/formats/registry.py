"""The formats that `evenreel corpus import` reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evenreel.corpus.formats.captions import (
    read_activitynet,
    read_didemo,
    read_lsmdc,
    read_msrvtt,
    read_msrvtt_1ka,
    read_msrvtt_7k,
    read_msvd,
    read_multivent,
    read_role_graphs,
    read_rtime,
    read_textvr,
    read_tgif,
    read_vatex,
    read_vitevqa,
    read_youcook2,
)
from evenreel.corpus.formats.epic_kitchens import read_epic_kitchens
from evenreel.corpus.formats.moments import read_didemo_moments, read_qvhighlights, read_reannotated_moments, read_tvr
from evenreel.corpus.formats.plain_tables import read_hugging_face, read_tables
from evenreel.corpus.imported import Imported

FORMATS: dict[str, Callable[[Sequence[Path]], Imported]] = {
    "msrvtt": read_msrvtt,
    "msrvtt-1ka": read_msrvtt_1ka,
    "msrvtt-7k": read_msrvtt_7k,
    "msvd": read_msvd,
    "lsmdc": read_lsmdc,
    "activitynet": read_activitynet,
    "didemo": read_didemo,
    "vatex": read_vatex,
    "epic-kitchens-100": read_epic_kitchens,
    "youcook2": read_youcook2,
    "tgif": read_tgif,
    "textvr": read_textvr,
    "m4-vitevqa": read_vitevqa,
    "qvhighlights": read_qvhighlights,
    "didemo-moments": read_didemo_moments,
    "tvr": read_tvr,
    "moments-annotated-anew": read_reannotated_moments,
    "multivent-2": read_multivent,
    "rtime": read_rtime,
    "hgr": read_role_graphs,
    "table": read_tables,
    "hugging-face": read_hugging_face,
}
"""Name -> reader, which takes files and folders and gives an `Imported`. docs/corpora.md has the same names."""
