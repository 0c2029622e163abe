"""A folder with a model in ONNX form: its files, whether they may be trusted, and its fingerprint.

The forms are those of public exports (transformers.js and `optimum`): `onnx/text_model.onnx` and
`onnx/vision_model.onnx`, or the same files at the top, with `config.json`, `preprocessor_config.json` and
`tokenizer.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenreel.documents import brief
from evenreel.encoders.checkpoint import (
    check_sizes,
    file_digest,
    json_digest,
    plain_config,
    processor_files,
    processor_settings,
    read_settings,
)
from evenreel.encoders.families import FAMILIES, Family
from evenreel.encoders.onnx.external import weight_files
from evenreel.encoders.preprocessing import PatchPreprocessing, Preprocessing, read_preprocessing
from evenreel.errors import EncoderError

TEXT, PICTURES = "text_model.onnx", "vision_model.onnx"
TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
RECORD = "evenreel_export.json"
ONNX_WANTED = tuple(
    name
    for part in (TEXT, PICTURES)
    for name in (f"onnx/{part}", f"onnx/{part}_data", f"onnx/{part}.data", part, f"{part}_data", f"{part}.data")
)
"""Patterns of the files with graphs and weights to fetch of a model in ONNX form on the hub."""


@dataclass(frozen=True)
class ExportRecord:
    """What an export says of itself; only `evenreel` writes it, after a comparison of vectors.

    Attributes:
        weights_hash: digest of the checkpoint that was exported.
        onnx_hash: digest of the export.
        cosine: lowest cosine, over pictures and captions, of vectors of both.
    """

    weights_hash: str
    onnx_hash: str
    cosine: float


@dataclass(frozen=True)
class OnnxFolder:
    """A checked folder with a model in ONNX form; its graphs are read later.

    Attributes:
        folder: path of the folder.
        kind: model family, a name in `FAMILIES`.
        config: config.json, without what names code or an origin.
        preprocessing: preparation of a picture by its processor.
        text: graph of the text tower.
        pictures: graph of the picture tower.
    """

    folder: Path
    kind: str
    config: Mapping[str, Any]
    preprocessing: Preprocessing
    text: Path
    pictures: Path

    @property
    def family(self) -> Family:
        """Return the kind of model that it is."""
        return FAMILIES[self.kind]

    def digest(self) -> str:
        """Compute SHA-256, in hex, over everything that decides what the encoder calculates, weights included."""
        total = hashlib.sha256(b"onnx\n")
        for label, digest in self._parts():
            total.update(f"{label}\0{digest}\n".encode())
        return total.hexdigest()

    def _parts(self) -> Iterator[tuple[str, str]]:
        yield "config", json_digest(self.config)
        yield "preprocessing", json_digest(asdict(self.preprocessing))
        for name in (TOKENIZER, TOKENIZER_SETTINGS):
            if (self.folder / name).is_file():
                yield name, file_digest(self.folder / name)
        for graph in (self.text, self.pictures):
            for path in (graph, *weight_files(graph)):
                yield path.name, file_digest(path)

    def weights_hash(self) -> str:
        """Return the digest that vectors are known by: that of the exported checkpoint, where one is on record.

        Vectors of an export and of its checkpoint have a cosine of at least .9999, so a library takes both.
        """
        digest, record = self.digest(), read_record(self.folder)
        if record is None:
            return digest
        if record.onnx_hash != digest:
            raise EncoderError(
                f"The ONNX files in {self.folder} have changed since they were exported ({RECORD}); export the model "
                "again."
            )
        return record.weights_hash


def read_record(folder: Path) -> ExportRecord | None:
    """Read what an export says of itself; None where a folder is not one of evenreel's."""
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        return ExportRecord(**read_settings(path))
    except TypeError as error:
        raise EncoderError(f"{path} is no record of an export ({error}); export the model again.") from error


def onnx_graph(folder: Path, name: str) -> Path | None:
    """Return a graph of a folder, in `onnx` or at the top; None where there is none."""
    return next((path for path in (folder / "onnx" / name, folder / name) if path.is_file()), None)


def has_onnx(folder: Path) -> bool:
    """Return whether a folder has a graph of either tower."""
    return any(onnx_graph(folder, name) is not None for name in (TEXT, PICTURES))


def missing_onnx_parts(folder: Path) -> list[str]:
    """Return what a folder lacks to be a model in ONNX form, in words; empty for a whole one."""
    parts = {
        "config.json": (folder / "config.json").is_file(),
        "preprocessor_config.json": any(path.is_file() for path in processor_files(folder)),
        TOKENIZER: (folder / TOKENIZER).is_file(),
        **{f"onnx/{name}": onnx_graph(folder, name) is not None for name in (TEXT, PICTURES)},
    }
    return [name for name, there in parts.items() if not there]


def open_onnx_folder(folder: Path) -> OnnxFolder:
    """Check a folder and refuse what cannot be read or should not be trusted."""
    text, pictures, missing = onnx_graph(folder, TEXT), onnx_graph(folder, PICTURES), missing_onnx_parts(folder)
    if missing or text is None or pictures is None:
        raise EncoderError(f"The ONNX model in {folder} is not complete: {', '.join(missing)} missing.")
    config = plain_config(read_settings(folder / "config.json"))
    kind = config.get("model_type")
    kinds = [name for name, family in FAMILIES.items() if family.two_towers]
    if not isinstance(kind, str) or kind not in kinds:
        raise EncoderError(
            f"The ONNX model in {folder} is of the kind {brief(kind)}; the kinds (model_type) that can be used are "
            f"{', '.join(kinds)}."
        )
    check_sizes(folder, config)
    preprocessing = read_preprocessing(processor_settings(folder, of_videos=False), kind)
    if isinstance(preprocessing, PatchPreprocessing):
        raise EncoderError(
            f"The ONNX model in {folder} takes pictures in patches of any number, which is not done in ONNX form; use "
            "its checkpoint, or a model of fixed resolution."
        )
    return OnnxFolder(folder, kind, config, preprocessing, text, pictures)
