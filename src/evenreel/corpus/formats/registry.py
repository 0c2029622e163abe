"""The formats that `evenreel corpus import` reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evenreel.corpus.formats.activitynet import read_activitynet
from evenreel.corpus.formats.didemo import read_didemo
from evenreel.corpus.formats.didemo_moments import read_didemo_moments
from evenreel.corpus.formats.epic_kitchens import read_epic_kitchens
from evenreel.corpus.formats.hugging_face import read_hugging_face
from evenreel.corpus.formats.lsmdc import read_lsmdc
from evenreel.corpus.formats.msrvtt import read_msrvtt, read_msrvtt_1ka, read_msrvtt_7k
from evenreel.corpus.formats.msvd import read_msvd
from evenreel.corpus.formats.multivent import read_multivent
from evenreel.corpus.formats.plain_tables import read_tables
from evenreel.corpus.formats.qvhighlights import read_qvhighlights
from evenreel.corpus.formats.reannotated_moments import read_reannotated_moments
from evenreel.corpus.formats.role_graphs import read_role_graphs
from evenreel.corpus.formats.rtime import read_rtime
from evenreel.corpus.formats.textvr import read_textvr
from evenreel.corpus.formats.tgif import read_tgif
from evenreel.corpus.formats.tvr import read_tvr
from evenreel.corpus.formats.vatex import read_vatex
from evenreel.corpus.formats.vitevqa import read_vitevqa
from evenreel.corpus.formats.youcook2 import read_youcook2
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
