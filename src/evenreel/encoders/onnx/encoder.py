"""The `Encoder` protocol over a model in ONNX form: sessions of ONNX Runtime on the CPU, in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import allowed_threads
from evenreel.documents import brief
from evenreel.encoders.batches import HalvingBatches
from evenreel.encoders.onnx.captions import CaptionTokens, TokenArray
from evenreel.encoders.onnx.folder import OnnxFolder
from evenreel.encoders.resizing import prepare_array
from evenreel.encoders.rows import check_pixels, clean_captions, unit_rows
from evenreel.errors import EncoderError, UsageError
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

if TYPE_CHECKING:
    from evenreel.encoders.encoder import TowerEncoder

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
PICTURE_INPUTS = ("pixel_values",)
SENTENCES = ("text_embeds", "pooler_output")
PICTURE_VECTORS = ("image_embeds", "pooler_output")
WORDS = "word_embeds"
"""Output of evenreel's own exports: vectors of words in the space of pictures."""

_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
"""What ONNX Runtime says where memory does not suffice."""
_NUMBERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}


class OnnxEncoder:
    """An `evenreel.types.Encoder` over a model in ONNX form; several threads may use it at once."""

    window = WindowRule()
    device, precision = "cpu", "float32"

    def __init__(
        self,
        model: OnnxFolder,
        encoder_id: str,
        weights_hash: str,
        batch_size: int = 32,
        towers: Callable[[], TowerEncoder] | None = None,
    ) -> None:
        self._model, self._load_towers = model, towers
        self.encoder_id, self.weights_hash, self._batches = encoder_id, weights_hash, HalvingBatches(batch_size)

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return self._text.dimension

    @property
    def batch_size(self) -> int:
        """Number of frames or captions per batch at present."""
        return self._batches.size

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode pictures (N, 1, 3, H, W) of uint8 RGB of any size to (N, D) float32, rows of unit length."""
        check_pixels(pixels, "(N, T, 3, H, W)")
        if pixels.shape[1] != 1:
            raise UsageError(f"The model takes single pictures, and these are windows of {pixels.shape[1]} frames.")

        def features(rows: slice) -> FloatArray:
            prepared = prepare_array(pixels[rows, 0], self._model.preprocessing)
            return unit_rows(self._pictures.run({"pixel_values": prepared})[0], "frame")

        parts = self._batches_of(self._pictures).run(len(pixels), features)
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *parts])

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of frames, see `TowerEncoder.encode_patches`; graphs say nothing of them, torch does."""
        return self._towers.encode_patches(pixels, whole=whole)

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of a picture that the tower sees, in pixels."""
        return self._model.preprocessing.seen_box(height, width)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions to words (Q, W, D) and unit sentences (Q, D); words of padding are zero.

        A caption longer than the tower takes is cut. Public exports give no vectors of words: there W is 0.
        """
        clean, dimension = clean_captions(captions), self.dimension
        if not clean:
            none = np.zeros((0, 0, dimension), np.float32)
            return TextEmbedding(none, np.zeros((0, 0), np.bool_), none.reshape(0, dimension))
        ids, mask = self._tokens(clean)
        found = self._batches_of(self._text).run(
            len(clean), lambda rows: self._text.run(_inputs(ids[rows], mask[rows]))
        )
        sentences = np.concatenate([unit_rows(sentence, "caption") for sentence, *_ in found])
        if not self._text.words:
            return TextEmbedding(np.zeros((len(clean), 0, dimension), np.float32), mask[:, :0] > 0, sentences)
        words = np.concatenate([words for _, words in found])
        words[mask == 0] = 0.0
        return TextEmbedding(words, mask > 0, sentences)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        clean = clean_captions(captions)
        return self._tokens.cut(clean) if clean else []

    def _batches_of(self, graph: Graph) -> HalvingBatches:
        """The batches of all graphs, but for one that takes only batches of one size, which never halve."""
        return HalvingBatches(graph.batch) if graph.batch else self._batches

    @cached_property
    def _text(self) -> Graph:
        return Graph(self._model.text, TEXT_INPUTS, SENTENCES)

    @cached_property
    def _pictures(self) -> Graph:
        graph = Graph(self._model.pictures, PICTURE_INPUTS, PICTURE_VECTORS)
        if graph.dimension != self.dimension:
            raise EncoderError(
                f"The towers in {self._model.folder} make vectors of {self.dimension} and {graph.dimension} numbers; "
                "the files do not belong together."
            )
        return graph

    @cached_property
    def _tokens(self) -> CaptionTokens:
        return CaptionTokens(self._model, self._text.length)

    @cached_property
    def _towers(self) -> TowerEncoder:
        if self._load_towers is None:
            raise EncoderError(
                f"The ONNX model in {self._model.folder} says nothing of single patches; use its checkpoint in "
                "safetensors form."
            )
        return self._load_towers()


class Graph:
    """A tower in ONNX form, run by ONNX Runtime.

    Attributes:
        batch: rows at a time, where only one number is taken.
        length: second axis of the first input, where only one length is taken.
        words: whether it gives vectors of words too.
    """

    def __init__(self, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._path, self._session = path, _session(path)
        self._inputs = {given.name: given for given in self._session.get_inputs()}
        there = [made.name for made in self._session.get_outputs()]
        unknown = [name for name in self._inputs if name not in inputs]
        if inputs[0] not in self._inputs or unknown:
            raise EncoderError(
                f"{path} has the inputs {brief(list(self._inputs))}; those of a tower are {', '.join(inputs)}, the "
                "first at least."
            )
        vectors = next((name for name in outputs if name in there), None)
        if vectors is None:
            raise EncoderError(f"{path} has the outputs {brief(there)}; those of a tower are {' or '.join(outputs)}.")
        self._check_numbers()
        self.words = WORDS in there
        self._outputs = [vectors, *([WORDS] if self.words else [])]
        shape = self._inputs[inputs[0]].shape
        if len(shape) < 2:
            raise EncoderError(f"{path} takes {inputs[0]} with {len(shape)} axes; that of a tower has two at least.")
        batch, length = shape[:2]
        self.batch, self.length = (size if isinstance(size, int) and size > 0 else None for size in (batch, length))
        self.dimension = self._dimension(vectors)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> list[FloatArray]:
        """Calculate vectors (N, D), and of words (N, W, D) where the graph gives them."""
        rows = len(next(iter(inputs.values())))
        given = {
            name: _filled(np.asarray(inputs[name], _NUMBERS[one.type]), self.batch or rows)
            for name, one in self._inputs.items()
        }
        try:
            made = self._session.run(self._outputs, given)
        except Exception as error:  # its errors have no common class
            if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
                raise self._no_memory(error) from error
            raise _broken(self._path, "cannot be run on these inputs", error) from error
        return [np.asarray(array, np.float32)[:rows] for array in made]

    def _no_memory(self, error: Exception) -> EncoderError | MemoryError:
        """The error to raise where memory does not suffice: one to halve a batch at, where that can help."""
        if self.batch is None:
            return MemoryError(str(error))
        return EncoderError(
            f"Memory does not suffice for {self._path}, which takes batches of {self.batch} and no smaller ones; free "
            "memory, or use an export that takes batches of any size."
        )

    def _check_numbers(self) -> None:
        for name, given in self._inputs.items():
            if given.type not in _NUMBERS or (name == PICTURE_INPUTS[0]) != (given.type == "tensor(float)"):
                raise EncoderError(f"{self._path} takes {name} as {given.type}; only models in float32 are used.")

    def _dimension(self, vectors: str) -> int:
        """D, by the graph, else by what it makes of the shortest caption or a black picture."""
        shape = next(made.shape for made in self._session.get_outputs() if made.name == vectors)
        if len(shape) != 2:
            raise EncoderError(f"{self._path} gives {vectors} with {len(shape)} axes; vectors of a tower have two.")
        if isinstance(shape[1], int):
            return shape[1]
        some = {
            name: np.zeros([n if isinstance(n, int) else 1 for n in one.shape]) for name, one in self._inputs.items()
        }
        try:
            return int(self.run(some)[0].shape[1])
        except MemoryError as error:
            raise EncoderError(
                f"Memory does not suffice to encode a single frame or caption by {self._path}; free memory, or use a "
                "smaller model."
            ) from error


def _filled(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Repeat the last row until a graph of one batch size has its number of rows."""
    return array if len(array) >= rows else np.concatenate([array, np.repeat(array[-1:], rows - len(array), axis=0)])


def _inputs(ids: TokenArray, mask: TokenArray) -> dict[str, TokenArray]:
    return dict(zip(TEXT_INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = allowed_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait burn processor time
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class
        raise _broken(path, "is damaged or cannot be read by ONNX Runtime", error) from error


def _broken(path: Path, what: str, error: Exception) -> EncoderError:
    reason = (str(error).splitlines() or [""])[0]
    return EncoderError(f"{path} {what} ({reason[:200]}); put a good copy in its place.")
