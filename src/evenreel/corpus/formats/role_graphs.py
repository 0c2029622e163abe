"""The annotations of HGR: captions with their semantic role graphs, for MSR-VTT, TGIF, VATEX or MSVD.

`ref_captions.json` {video: [sentence]}; `sent2rolegraph.augment.json` {sentence: [{node: {`role`, `words`, `spans`}},
[[from, to, role]]]}; `trn_names.npy`, `val_names.npy`, `tst_names.npy`. A caption gets the phrases of its `V` nodes in
the column `verbs`, those of the others in `nouns`, and the whole graph as JSON in `role_graph`.
(Chen et al. 2020.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.corpus.array_files import load_array
from evenreel.corpus.given_files import ReleaseFiles, field, read_json, read_lines, texts, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

SPLITS = {"train": "trn", "val": "val", "test": "tst"}
VERB, ROOT = "V", "ROOT"


def read_role_graphs(paths: Sequence[Path]) -> Imported:
    """Read the captions and role graphs that HGR annotated; lists of names may also be `.txt` or `.json`."""
    given = ReleaseFiles("HGR", paths)
    draft = Draft("HGR")
    captions = given.need("ref_captions.json")
    graphs = _graphs(given, draft)
    for split, short in SPLITS.items():
        listed = given.one(f"{short}_names.npy", f"{short}_names.txt", f"{short}_names.json")
        for n, name in enumerate(_names(listed) if listed else [], start=1):
            draft.clip(name, {"path": name, "split": split}, f"{listed}, entry {n},")
    if not draft.clips:
        raise CorpusError(given.lacks("trn_names.npy, val_names.npy or tst_names.npy"))
    without = []
    for name, sentences in typed(read_json(captions), dict, str(captions)).items():
        for text in texts(sentences, f"{captions.name}, {name},"):
            columns = _columns(graphs[text], text) if text in graphs else {}
            draft.caption(name, text, columns)
            if graphs and not columns:
                without.append(text)
    draft.leave_out("captions have no role graph", without)
    draft.notices += given.unread()
    return draft.finish()


def _graphs(given: ReleaseFiles, draft: Draft) -> dict[str, Any]:
    path = given.one("sent2rolegraph.augment.json", "sent2rolegraph*.json")
    if path is None:
        draft.note("sent2rolegraph.augment.json was not given: captions have no role graphs.", left_out=True)
        return {}
    return typed(read_json(path), dict, str(path))


def _columns(graph: object, sentence: str) -> dict[str, Any]:
    where = f"The role graph of {sentence[:40]!r}"
    parts = typed(graph, list, where)
    if len(parts) != 2:
        raise CorpusError(f"{where} has {len(parts)} parts; it must have nodes and edges.")
    phrases: dict[bool, list[str]] = {True: [], False: []}
    for key, node in typed(parts[0], dict, f"{where}, nodes,").items():
        role = field(node, "role", str, f"{where}, node {key},")
        if role != ROOT:
            phrases[role == VERB].append(" ".join(texts(field(node, "words", list, where), where)))
    return {"verbs": phrases[True], "nouns": phrases[False], "role_graph": json.dumps(graph, separators=(",", ":"))}


def _names(path: Path) -> list[str]:
    """Names of a list; an array of Python objects is a pickle and is refused."""
    if path.suffix == ".json":
        return texts(read_json(path), path.name)
    if path.suffix == ".txt":
        return read_lines(path)
    try:
        names = load_array(path)
    except (ValueError, EOFError, OSError) as error:
        raise CorpusError(
            f"{path} cannot be read as an array of text ({error}); an array of Python objects is a pickle, which can "
            f"run code when it is opened: give the names as {path.stem}.txt, one a line."
        ) from error
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8")
    if names.dtype.kind != "U" or names.ndim != 1:
        raise CorpusError(f"{path} holds {names.dtype} of shape {names.shape}; it must be a list of names.")
    return [str(name) for name in names]
