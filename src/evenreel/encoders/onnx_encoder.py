"""Dual towers in ONNX form, calculated by ONNX Runtime: neither torch nor transformers is imported.

The forms of folders are those of public exports (transformers.js and `optimum`): `onnx/text_model.onnx` and
`onnx/vision_model.onnx`, or the same files at the top, with `config.json`, `preprocessor_config.json` and
`tokenizer.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import allowed_threads
from evenreel.documents import brief
from evenreel.encoders.checkpoint import (
    digest_of,
    file_digest,
    json_digest,
    plain_config,
    processor_files,
    processor_settings,
    read_settings,
)
from evenreel.encoders.encoder import BatchedEncoder, TokenArray, lower_case, of_model
from evenreel.encoders.families import FAMILIES, Family
from evenreel.encoders.preprocessing import Preprocessing, read_preprocessing
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    from evenreel.encoders.towers import TowerEncoder

TEXT, PICTURES = "text_model.onnx", "vision_model.onnx"
TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
RECORD = "evenreel_export.json"
ONNX_WANTED = tuple(
    name
    for part in (TEXT, PICTURES)
    for name in (f"onnx/{part}", f"onnx/{part}_data", f"onnx/{part}.data", part, f"{part}_data", f"{part}.data")
)
"""Patterns of the files with graphs and weights to fetch of a model in ONNX form on the hub."""
LONGEST = 8_192
"""Most tokens of a caption, whatever a model says of itself: shorter ones may be filled up to them."""
TEXT_INPUTS, SENTENCES = ("input_ids", "attention_mask", "token_type_ids"), ("text_embeds", "pooler_output")
PICTURE_INPUTS, PICTURE_VECTORS = ("pixel_values",), ("image_embeds", "pooler_output")
WORDS = "word_embeds"
"""Output of evenreel's own exports: vectors of words in the space of pictures."""

_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
"""What ONNX Runtime says where memory does not suffice."""
_NUMBERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}


@dataclass(frozen=True)
class ExportRecord:
    """What an export says of itself: digests of its checkpoint and its own, and the lowest cosine of their vectors."""

    weights_hash: str
    onnx_hash: str
    cosine: float


@dataclass(frozen=True)
class OnnxFolder:
    """A checked folder with a model in ONNX form; its graphs are read later."""

    folder: Path
    family: Family
    config: Mapping[str, Any]
    preprocessing: Preprocessing
    text: Path
    pictures: Path

    def digest(self) -> str:
        """Compute SHA-256, in hex, over everything that decides what the encoder calculates, weights included."""
        parts = [("config", json_digest(self.config)), ("preprocessing", json_digest(asdict(self.preprocessing)))]
        files = [path for name in (TOKENIZER, TOKENIZER_SETTINGS) if (path := self.folder / name).is_file()]
        for graph in (self.text, self.pictures):
            content, beside = graph.read_bytes(), sorted(graph.parent.rglob("*"))
            # Weights in other files are taken from none but those that a graph names, in its folder.
            named = [path for path in beside if path != graph and path.is_file() and path.name.encode() in content]
            files += [graph, *named]
        return digest_of([*parts, *((path.name, file_digest(path)) for path in files)], b"onnx\n")

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
    kind, kinds = config.get("model_type"), [name for name, family in FAMILIES.items() if family.trainable]
    if not isinstance(kind, str) or kind not in kinds:
        raise EncoderError(
            f"The ONNX model in {folder} is of the kind {brief(kind)}; the kinds (model_type) that can be used are "
            f"{', '.join(kinds)}."
        )
    preprocessing = read_preprocessing(processor_settings(folder, of_videos=False), kind)
    return OnnxFolder(folder, FAMILIES[kind], config, preprocessing, text, pictures)


class OnnxEncoder(BatchedEncoder):
    """An `evenreel.types.Encoder` over a model in ONNX form; several threads may use it at once."""

    device, precision = "cpu", "float32"

    def __init__(
        self,
        model: OnnxFolder,
        encoder_id: str,
        weights_hash: str,
        batch_size: int = 32,
        towers: Callable[[], TowerEncoder] | None = None,
    ) -> None:
        super().__init__(model.folder, encoder_id, weights_hash, batch_size)
        self._model, self._load_towers = model, towers

    @property
    def dimension(self) -> int:
        return self._text.dimension

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        return self._model.preprocessing.seen_box(height, width)

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of frames, see `TowerEncoder.encode_patches`; graphs say nothing of them, torch does."""
        return self._towers.encode_patches(pixels, whole=whole)

    def _window_features(self, pixels: Pixels) -> FloatArray:
        prepared = self._model.preprocessing.prepare(pixels[:, 0])
        return self._pictures.run({"pixel_values": prepared})[0]

    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, FloatArray | None]:
        made = self._text.run(dict(zip(TEXT_INPUTS, (ids, mask, np.zeros_like(ids)), strict=True)))
        return made[0], made[1] if self._text.words else None

    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        rows = self._tokenizer.encode_batch(list(captions))
        ids, mask = (np.array([getattr(row, name) for row in rows], np.int64) for name in ("ids", "attention_mask"))
        if self._model.family.averages_words:  # without words a caption is read off its first place
            mask[:, 0] = 1
        return ids, mask

    def _cut(self, captions: Sequence[str]) -> list[bool]:
        return [bool(row.overflowing) for row in self._tokenizer.encode_batch(list(captions))]

    @cached_property
    def _text(self) -> Graph:
        return Graph(self._model.text, TEXT_INPUTS, SENTENCES)

    @cached_property
    def _pictures(self) -> Graph:
        graph = Graph(self._model.pictures, PICTURE_INPUTS, PICTURE_VECTORS)
        if graph.dimension != self.dimension:
            raise EncoderError(
                f"The towers in {self._folder} make vectors of {self.dimension} and {graph.dimension} numbers; "
                "the files do not belong together."
            )
        return graph

    @cached_property
    def _towers(self) -> TowerEncoder:
        if self._load_towers is None:
            raise EncoderError(
                f"The ONNX model in {self._folder} says nothing of single patches; use its checkpoint in "
                "safetensors form."
            )
        return self._load_towers()

    @cached_property
    def _tokenizer(self) -> Any:
        """Tokenizer of captions by `tokenizer.json` alone, which cuts and fills up as the text tower was trained."""
        from tokenizers import Tokenizer

        folder, family = self._folder, self._model.family
        with of_model(folder, "has a tokenizer that cannot be read"):
            tokenizer = Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
        if family.lower_cases:
            lower_case(tokenizer)
        given = self._model.config.get("text_config")
        count = given.get("max_position_embeddings") if isinstance(given, dict) else None
        positions = count if isinstance(count, int) and count > 0 else family.positions
        longest = self._text.length or min(positions - family.first_position, family.longest or LONGEST)
        tokenizer.enable_truncation(longest)
        settings = read_settings(folder / TOKENIZER_SETTINGS) if (folder / TOKENIZER_SETTINGS).is_file() else {}
        named = settings.get("pad_token") or (tokenizer.padding or {}).get("pad_token")
        filler = named.get("content") if isinstance(named, dict) else named
        number = tokenizer.token_to_id(filler) if isinstance(filler, str) else None
        if number is None:
            raise EncoderError(
                f"The tokenizer in {folder} does not say what captions are filled up with (pad_token in "
                f"{TOKENIZER_SETTINGS} is {json.dumps(filler)}); download the model again."
            )
        fixed = longest if self._text.length or family.padded else None
        tokenizer.enable_padding(pad_id=number, pad_token=filler, length=fixed)
        return tokenizer


class Graph:
    """A tower in ONNX form, run by ONNX Runtime.

    Attributes:
        batch: rows at a time, where only one number is taken.
        length: second axis of the first input, where only one length is taken.
        words: whether it gives vectors of words too.
        dimension: D, the length of a vector.
    """

    def __init__(self, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._path, self._session = path, _session(path)
        self._inputs = {given.name: given for given in self._session.get_inputs()}
        there = {made.name: made.shape for made in self._session.get_outputs()}
        vectors = next((name for name in outputs if len(there.get(name, ())) == 2), "")
        kinds = ("tensor(float)",) if inputs == PICTURE_INPUTS else ("tensor(int64)", "tensor(int32)")
        known = all(name in inputs and one.type in kinds for name, one in self._inputs.items())
        first = self._inputs[inputs[0]].shape if inputs[0] in self._inputs else ()
        if not known or len(first) < 2 or not vectors:
            takes = {name: f"{one.type} {one.shape}" for name, one in self._inputs.items()}
            raise EncoderError(
                f"{path} takes {brief(takes, 200)} and gives {brief(there, 200)}; a tower in float32 takes "
                f"{', '.join(inputs)} (the first at least, with two axes or more) and gives {' or '.join(outputs)} "
                "with two axes; use another export."
            )
        self.words = WORDS in there
        self._outputs = [vectors, *([WORDS] if self.words else [])]
        self.batch, self.length = (size if isinstance(size, int) and size > 0 else None for size in first[:2])
        width = there[vectors][1]
        if not isinstance(width, int):  # some do not say it: what they make of the shortest caption or a black picture
            some = {name: [n if isinstance(n, int) else 1 for n in one.shape] for name, one in self._inputs.items()}
            width = self.run({name: np.zeros(shape) for name, shape in some.items()})[0].shape[1]
        self.dimension = int(width)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> list[FloatArray]:
        """Calculate vectors (N, D), and of words (N, W, D) where the graph gives them."""
        rows = len(next(iter(inputs.values())))
        size = self.batch or rows
        parts = [
            self._run_once({name: array[first : first + size] for name, array in inputs.items()})
            for first in range(0, rows, size)
        ]
        return [np.concatenate(part)[:rows] for part in zip(*parts, strict=True)]

    def _run_once(self, inputs: Mapping[str, NDArray[Any]]) -> list[FloatArray]:
        given = {}
        for name, one in self._inputs.items():
            array = np.asarray(inputs[name], _NUMBERS[one.type])
            lacking = (self.batch or len(array)) - len(array)  # a graph of one batch size gets its last row again
            given[name] = np.concatenate([array, np.repeat(array[-1:], lacking, axis=0)]) if lacking > 0 else array
        try:
            made = self._session.run(self._outputs, given)
        except Exception as error:  # its errors have no common class
            if not isinstance(error, MemoryError) and not any(words in str(error) for words in _NO_MEMORY):
                raise _broken(self._path, "cannot be run on these inputs", error) from error
            if self.batch is None:
                raise MemoryError(str(error)) from error
            raise EncoderError(
                f"Memory does not suffice for {self._path}, which takes batches of {self.batch} and no smaller ones; "
                "free memory, or use an export that takes batches of any size."
            ) from error
        return [np.asarray(array, np.float32) for array in made]


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = allowed_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait burn processor time
    _check_weights_inside(path, onnxruntime.__version__)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class
        what = "is damaged, takes weights from a file that is not beside it, or is no graph"
        raise _broken(path, what, error) from error


def _check_weights_inside(path: Path, version: str) -> None:
    """Refuse a stranger's graph with weights in other files where ONNX Runtime does not look where they lie."""
    if [int(part) for part in version.split(".")[:2]] >= [1, 24] or path.is_relative_to(Path(__file__).parent):
        return
    if b"location" in path.read_bytes():
        raise EncoderError(
            f"{path} takes weights from other files, and ONNX Runtime {version} does not look where they are; use 1.24 "
            "or newer (Python 3.11), or an export with its weights inside."
        )


def _broken(path: Path, what: str, error: Exception) -> EncoderError:
    reason = (str(error).splitlines() or [""])[0]
    return EncoderError(f"{path} {what} ({reason[:200]}); put a good copy in its place.")
