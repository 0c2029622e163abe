"""The formats that `evenreel corpus import` reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evenreel.corpus.formats import captions, epic_kitchens, moments, plain_tables
from evenreel.corpus.imported import Imported

FORMATS: dict[str, Callable[[Sequence[Path]], Imported]] = {
    "msrvtt": captions.read_msrvtt,
    "msrvtt-1ka": captions.read_msrvtt_1ka,
    "msrvtt-7k": captions.read_msrvtt_7k,
    "msvd": captions.read_msvd,
    "lsmdc": captions.read_lsmdc,
    "activitynet": captions.read_activitynet,
    "didemo": captions.read_didemo,
    "vatex": captions.read_vatex,
    "epic-kitchens-100": epic_kitchens.read_epic_kitchens,
    "youcook2": captions.read_youcook2,
    "tgif": captions.read_tgif,
    "textvr": captions.read_textvr,
    "m4-vitevqa": captions.read_vitevqa,
    "qvhighlights": moments.read_qvhighlights,
    "didemo-moments": moments.read_didemo_moments,
    "tvr": moments.read_tvr,
    "moments-annotated-anew": moments.read_reannotated_moments,
    "multivent-2": captions.read_multivent,
    "rtime": captions.read_rtime,
    "hgr": captions.read_role_graphs,
    "table": plain_tables.read_tables,
    "hugging-face": plain_tables.read_hugging_face,
}
"""Name -> reader, which takes files and folders and gives an `Imported`. docs/corpora.md has the same names."""
