"""What every encoder does: frames and captions checked, batches that halve where memory ends, rows of unit length; and
the encoder of dual towers in ONNX form, calculated by ONNX Runtime: neither torch nor transformers is imported.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import logging
import os
import re
import sqlite3
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenreel.config import allowed_threads
from evenreel.documents import brief
from evenreel.encoders.checkpoint import TOKENIZER, TOKENIZER_SETTINGS, Checkpoint, read_settings
from evenreel.errors import EncoderError, EvenreelError, UsageError
from evenreel.files import replacing
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule
from evenreel.version import __version__

log = logging.getLogger("evenreel")

Made = TypeVar("Made")
TokenArray = NDArray[np.int64]
_TRIED, _ALIKE = 8, 0.999  # windows that an accelerator is tried on, and the least cosine with the CPU's vectors
_SHORTEST = 1e-12  # a feature shorter than this has no direction


class BatchedEncoder(ABC):
    """An `evenreel.types.Encoder` but for the towers, which its subclasses run."""

    window = WindowRule()

    def __init__(self, folder: Path, encoder_id: str, weights_hash: str, batch_size: int) -> None:
        self._folder, self.encoder_id, self.weights_hash = folder, encoder_id, weights_hash
        self.batch_size = batch_size  # frames or captions at a time; it halves each time that memory does not suffice
        # Loads the same where an accelerator was not asked for by name.
        self.on_cpu: Callable[[], BatchedEncoder] | None = None
        self._left = ""  # why the accelerator was

    @property
    def device(self) -> str:
        """Where pictures are calculated: `cpu`, `cuda:0`, `mps`, `coreml`."""
        return "cpu"

    @property
    def computed_on(self) -> str:
        """Say in words where pictures are calculated, and where they are not, as that was slower."""
        kind = self.device.partition(":")[0]
        return {"coreml": "CoreML"}.get(kind, kind.upper()) + self._left

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, the length of a vector."""

    @abstractmethod
    def _window_features(self, pixels: Pixels) -> FloatArray:
        """(N, T, 3, H, W) -> (N, D) of any length."""

    @abstractmethod
    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, FloatArray | None]:
        """(N, W) -> sentences (N, D) and words (N, W', D), of any length; W' are the last of W, None for no words."""

    @abstractmethod
    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        """Ids and mask (Q, W), cut and filled up as the text tower was trained."""

    @abstractmethod
    def _cut(self, captions: Sequence[str]) -> list[bool]:
        """What `truncated` returns, of captions that can be tokenised."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames of any size to (N, D) float32, rows of unit length.

        T is `window.frames`, or 1 for a picture, which is taken for a still video.
        """
        check_pixels(pixels, "(N, T, 3, H, W)")
        if pixels.shape[1] not in (1, self.window.frames):
            frames = self.window.frames
            windows = f"windows of {frames} frames, or " if frames > 1 else ""
            raise UsageError(
                f"The model takes {windows}single pictures, and these have {pixels.shape[1]} frames; where a clip has "
                "fewer frames than a window, sample some of them again."
            )
        if self.on_cpu is not None and len(pixels) >= _TRIED:
            self._choose(pixels[:_TRIED])
        parts = self._in_batches(
            len(pixels), lambda rows: unit_rows(self._window_features(pixels[rows]), "frame"), self.window.frames
        )
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *parts])

    def _choose(self, pixels: Pixels) -> None:
        """Go on with the CPU where the accelerator is slower on the first pictures, or makes other vectors of them."""
        assert self.on_cpu is not None
        other, self.on_cpu, name = self.on_cpu(), None, self.computed_on
        rates, made = zip(*(_pace(encoder, pixels) for encoder in (self, other)), strict=True)
        differs = (made[0] * made[1]).sum(1).min() < _ALIKE
        if differs or rates[0] < rates[1]:
            why = "made other vectors" if differs else f"was slower: {rates[0]:.1f} against {rates[1]:.1f} pictures/s"
            vars(self).update(vars(other), _left=f" ({name} {why})")

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions to words (Q, W, D) and unit sentences (Q, D); words of padding are zero.

        A caption longer than the tower takes is cut; `truncated` tells which. Public exports in ONNX form give no
        vectors of words: there W is 0.
        """
        clean = clean_captions(captions)
        if not clean:
            none = np.zeros((0, 0, self.dimension), np.float32)
            return TextEmbedding(none, np.zeros((0, 0), np.bool_), none.reshape(0, self.dimension))
        with of_model(self._folder, "has a tokenizer that fails on a caption"):
            ids, mask = self._tokens(clean)
        parts = self._in_batches(len(clean), lambda rows: self._text_features(ids[rows], mask[rows]))
        sentences = np.concatenate([unit_rows(sentence, "caption") for sentence, _ in parts])
        given = [words for _, words in parts if words is not None]
        words = np.concatenate(given) if given else np.zeros((len(clean), 0, self.dimension), np.float32)
        real = mask[:, mask.shape[1] - words.shape[1] :] > 0  # an instruction before a caption is none of its words
        words[~real] = 0.0
        return TextEmbedding(words, real, sentences)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        clean = clean_captions(captions)
        with of_model(self._folder, "has a tokenizer that fails on a caption"):
            return self._cut(clean) if clean else []

    def _in_batches(self, count: int, work: Callable[[slice], Made], item: int = 1) -> list[Made]:
        """Do the work on slices of 0 ... count, one after another, on smaller ones from where memory runs out."""
        results, start = list[Made](), 0
        while start < count:
            stop = min(start + max(1, self.batch_size // item), count)
            try:
                results.append(work(slice(start, stop)))
                start = stop
            except MemoryError as error:
                if self.batch_size <= 1:
                    raise EncoderError("Memory does not suffice to encode a single frame or caption.") from error
                self.batch_size //= 2
                log.warning("memory ran out, going on with %d at a time", self.batch_size)
        return results


def _pace(encoder: BatchedEncoder, pixels: Pixels) -> tuple[float, FloatArray]:
    """Pictures a second, and their vectors; the first time, which loads and compiles, is not measured."""
    encoder.encode_windows(pixels)
    started = time.perf_counter()
    made = encoder.encode_windows(pixels)
    return len(pixels) / (time.perf_counter() - started), made


@contextlib.contextmanager
def of_model(folder: Path, what: str) -> Iterator[None]:
    """Make one sentence of whatever a `with` raises over the files of a model, which no library foresees.

    A panic of Rust, which is no `Exception`, is one too.
    """
    try:
        yield
    except (EvenreelError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        words = (str(error).splitlines() or [""])[0]
        raise EncoderError(f"The model in {folder} {what} ({type(error).__name__}: {words[:200]}).") from error


def check_pixels(pixels: Pixels, shape: str) -> None:
    """Refuse an array that holds no frames."""
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != shape.count(",") + 1
        or pixels.shape[-3] != 3
        or 0 in pixels.shape[1:]
    ):
        raise UsageError(f"Frames are {shape} uint8, not {pixels.shape} {pixels.dtype}.")


def clean_captions(captions: Sequence[str]) -> list[str]:
    """Take lone surrogates out, which come from a command line that is not UTF-8."""
    if isinstance(captions, str):
        raise UsageError("Captions are a sequence of strings, not a single string.")
    return [caption.encode("utf-8", "replace").decode() for caption in captions]


def unit_rows(rows: FloatArray, what: str) -> FloatArray:
    """Scale features (N, D) to unit length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > _SHORTEST).all()):
        raise EncoderError(
            f"The model gives a feature that is not a number, or zero, for a {what}; its weights are "
            "damaged, or the precision is too low for it (use float32)."
        )
    return np.asarray(rows / lengths, np.float32)


def lower_case(tokenizer: Any) -> None:
    """Make a tokenizer of `tokenizers` lower-case captions before its other rules.

    The tokenizer of Gemma, which checkpoints of SigLIP 2 name, keeps capitals; SigLIP's own lowers them itself.
    """
    from tokenizers import normalizers

    before = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])


@contextlib.contextmanager
def garbage_left() -> Iterator[None]:
    """Pause the garbage collector in a `with`: importing torch and transformers takes a seventh less time so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what transformers says in a `with` from the terminal."""
    from transformers.utils import logging as spoken

    level, bars = spoken.get_verbosity(), spoken.is_progress_bar_enabled()
    spoken.set_verbosity(logging.CRITICAL)
    spoken.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        spoken.set_verbosity(level)
        if bars:
            spoken.enable_progress_bar()


LONGEST = 8_192
"""Most tokens of a caption, whatever a model says of itself: shorter ones may be filled up to them."""
TEXT_INPUTS, SENTENCES = ("input_ids", "attention_mask", "token_type_ids"), ("text_embeds", "pooler_output")
PICTURE_INPUTS, PICTURE_VECTORS = ("pixel_values",), ("image_embeds", "pooler_output")
WORDS = "word_embeds"  # output of evenreel's own exports: vectors of words in the space of pictures
_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")  # as ONNX Runtime says it
_NUMBERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}


class OnnxEncoder(BatchedEncoder):
    """An `evenreel.types.Encoder` over a model in ONNX form; several threads may use it at once."""

    device = "cpu"  # it becomes `cuda` or `coreml` where ONNX Runtime offers it

    def __init__(
        self,
        model: Checkpoint,
        encoder_id: str,
        weights_hash: str,
        batch_size: int = 32,
        towers: Callable[[], Any] | None = None,  # loads the encoder of the checkpoint beside the graphs
    ) -> None:
        # In int8 one scale holds for all numbers of a batch: a vector is made alone, lest it depend on the others.
        batch_size = 1 if model.precision == "int8" else batch_size
        super().__init__(model.folder, encoder_id, weights_hash, batch_size)
        assert model.preprocessing is not None  # as `open_onnx` makes it
        self._model, self._preprocessing, self._load_towers = model, model.preprocessing, towers
        self._towers: Any = None
        self.precision = model.precision

    @property
    def dimension(self) -> int:
        return self._text.dimension

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        return self._preprocessing.seen_box(height, width)

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of frames, see `TowerEncoder.encode_patches`; graphs say nothing of them, torch does."""
        if self._load_towers is None:
            raise EncoderError(
                f"The ONNX model in {self._folder} says nothing of single patches; use its checkpoint in "
                "safetensors form."
            )
        self._towers = self._towers or self._load_towers()
        found: FloatArray = self._towers.encode_patches(pixels, whole=whole)
        return found

    def _window_features(self, pixels: Pixels) -> FloatArray:
        return self._pictures.run({"pixel_values": self._preprocessing.prepare(pixels[:, 0])})[0]

    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, FloatArray | None]:
        length, fixed = ids.shape[1], self._text.length or self._model.family.padded
        used = length if fixed else int(mask.sum(1).max())
        given = (ids[:, :used], mask[:, :used], np.zeros_like(ids[:, :used]))
        made = self._text.run(dict(zip(TEXT_INPUTS, given, strict=True)))
        return made[0], np.pad(made[1], ((0, 0), (0, length - used), (0, 0))) if self._text.words else None

    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        rows = self._tokenizer_of(captions).encode_batch(list(captions))
        ids, mask = (np.array([getattr(row, name) for row in rows], np.int64) for name in ("ids", "attention_mask"))
        if self._model.family.averages_words:  # without words a caption is read off its first place
            mask[:, 0] = 1
        return ids, mask

    def _cut(self, captions: Sequence[str]) -> list[bool]:
        return [bool(row.overflowing) for row in self._tokenizer_of(captions).encode_batch(list(captions))]

    def _tokenizer_of(self, captions: Sequence[str]) -> Any:
        """The tokenizer, or where it is large, is not open, and captions are few, one of the pieces they can hold."""
        if "_tokenizer" not in vars(self):
            path = pieces_file(self._folder / TOKENIZER)
            if (small := small_tokenizer(path, captions, self._set_up)) is not None:
                return small
        return self._tokenizer

    @cached_property
    def _text(self) -> Graph:
        return Graph(self._model.weights[0], TEXT_INPUTS, SENTENCES, packed=False)

    @cached_property
    def _pictures(self) -> Graph:
        graph = Graph(self._model.weights[1], PICTURE_INPUTS, PICTURE_VECTORS, self.device)
        self.device = graph.device
        if graph.dimension != self.dimension:
            raise EncoderError(
                f"The towers in {self._folder} make vectors of {self.dimension} and {graph.dimension} numbers; "
                "the files do not belong together."
            )
        return graph

    @cached_property
    def _tokenizer(self) -> Any:
        """Tokenizer of captions by `tokenizer.json` alone, which cuts and fills up as the text tower was trained."""
        from tokenizers import Tokenizer

        with of_model(self._folder, "has a tokenizer that cannot be read"):
            return self._set_up(Tokenizer.from_str((self._folder / TOKENIZER).read_text(encoding="utf-8")))

    def _set_up(self, tokenizer: Any) -> Any:
        folder, family = self._folder, self._model.family
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
    """A tower in ONNX form, run by ONNX Runtime; `batch` and `length` are the only ones that it takes, if any."""

    def __init__(
        self, path: Path, inputs: Sequence[str], outputs: Sequence[str], device: str = "cpu", *, packed: bool = True
    ) -> None:
        self._path, self._session = path, _session(path, device, packed=packed)
        self.device = device if ACCELERATORS.get(device) in self._session.get_providers() else "cpu"
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


ACCELERATORS = {"cuda": "CUDAExecutionProvider", "coreml": "CoreMLExecutionProvider"}


def accelerator() -> str:
    """Return what ONNX Runtime offers beside the CPU, '' for nothing."""
    import onnxruntime

    offered = onnxruntime.get_available_providers()
    return next((name for name, provider in ACCELERATORS.items() if provider in offered), "")


def _session(path: Path, device: str = "cpu", *, packed: bool = True) -> Any:
    """Open a graph; unless `packed`, its weights stay where they lie in its file, which is slower for one caption."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = allowed_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait burn processor time
    if not packed:
        options.add_session_config_entry("session.disable_prepacking", "1")
    providers = [*filter(None, [ACCELERATORS.get(device)]), "CPUExecutionProvider"]
    try:
        graph: str | bytes = str(path)
        real = path.resolve()  # which in the hub's cache is in another folder
        if _looks_where_weights_lie(path, onnxruntime.__version__) and (rest := without_weights(real)):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(real.parent))
            graph = rest
        return onnxruntime.InferenceSession(graph, options, providers=providers)
    except EncoderError:
        raise
    except Exception as error:  # its errors have no common class
        what = "is damaged, takes weights from a file that is not beside it, or is no graph"
        raise _broken(path, what, error) from error


# numbers of fields in onnx.proto: of a model, of a graph, of a tensor
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_LEAST_MAPPED = 1024  # bytes of a tensor


def without_weights(path: Path) -> bytes:
    """A graph's file but for its large tensors, which are said to lie where they do in it: ONNX Runtime maps them.

    So nothing is copied, and of a table of 256,000 tokens those pages are read that a caption's words lie on. Empty for
    a graph whose tensors lie in other files, which ONNX Runtime maps anyway.
    """
    outside = False

    def read(start: int, stop: int) -> bytes:
        file.seek(start)
        return file.read(stop - start)

    def fields(place: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Number, start, content's start and stop of each field of a message."""
        while place < stop:
            head = read(place, place + 20)
            key, used = _varint(head, 0)
            value, after = _varint(head, used) if key & 7 in (0, 2) else (0, used)
            size = {0: after - used, 1: 8, 2: value, 5: 4}[key & 7]
            start = place + (after if key & 7 == 2 else used)
            if start + size > stop:
                raise ValueError("it ends before it should")
            yield key >> 3, place, start, start + size
            place = start + size

    def tensor(start: int, content: int, stop: int) -> bytes:
        nonlocal outside
        parts = list(fields(content, stop))
        outside = outside or any(part[0] == _EXTERNAL_DATA for part in parts)
        first, last = next((part[2:] for part in parts if part[0] == _RAW_DATA), (0, 0))
        if last - first < _LEAST_MAPPED:
            return read(start, stop)
        rest = b"".join(read(*part[1::2]) for part in parts if part[0] not in (_RAW_DATA, _DATA_LOCATION))
        for key, value in {"location": path.name, "offset": first, "length": last - first}.items():
            rest += _message(_EXTERNAL_DATA, _message(1, key.encode()) + _message(2, str(value).encode()))
        return _message(_INITIALIZER, rest + bytes([_DATA_LOCATION << 3, 1]))

    with path.open("rb") as file:
        made = b""
        for number, start, content, stop in fields(0, path.stat().st_size):
            if number == _GRAPH:
                inner = (tensor(*at) if one == _INITIALIZER else read(*at[::2]) for one, *at in fields(content, stop))
                made += _message(_GRAPH, b"".join(inner))
            else:
                made += read(start, stop)
    return b"" if outside else made


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (content[place] & 127) << shift
        place += 1
        if content[place - 1] < 128:
            return value, place
    raise ValueError("a number has no end")


def _message(number: int, content: bytes) -> bytes:
    """A field with its length."""
    made, size = bytearray([number << 3 | 2]), len(content)
    while size > 127:
        made.append(size & 127 | 128)
        size >>= 7
    return bytes(made) + bytes([size]) + content


def _looks_where_weights_lie(path: Path, version: str) -> bool:
    """Refuse a stranger's graph with weights in other files where ONNX Runtime does not look where they lie."""
    if [int(part) for part in version.split(".")[:2]] >= [1, 24]:
        return True
    if not path.is_relative_to(Path(__file__).parent) and b"location" in path.read_bytes():
        raise EncoderError(
            f"{path} takes weights from other files, and ONNX Runtime {version} does not look where they are; use 1.24 "
            "or newer (Python 3.11), or an export with its weights inside."
        )
    return False


def _broken(path: Path, what: str, error: Exception) -> EncoderError:
    reason = (str(error).splitlines() or [""])[0]
    return EncoderError(f"{path} {what} ({reason[:200]}); put a good copy in its place.")


# Of a tokenizer of hundreds of thousands of pieces, one of those that a few captions can hold opens at once. Byte pairs
# are merged where they meet, so only pieces that a caption contains, and merges of these, have a part in it. A file in
# the cache folder has them all with their numbers; the whole tokenizer is opened where captions are many.

LEAST_PIECES = 100_000  # of a tokenizer that takes long to open
MOST_LETTERS = 400  # of captions that are few
_MARK = re.compile(r"<.+>|\[.+\]")  # such as that of padding, or of a byte


def cached_by(files: Iterable[Path], what: str) -> Path:
    """Where the cache folder keeps what this version knows of some files, as they are now."""
    from platformdirs import user_cache_path

    found = [(str(path), os.stat(path)) for path in files]
    states = [(path, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in found]
    digest = hashlib.sha256(repr((__version__, what, states)).encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache_path("evenreel") / "models" / digest


def pieces_file(tokenizer: Path) -> Path:
    return cached_by([tokenizer], "pieces")


def write_pieces(tokenizer: Path, out: Path) -> bool:
    """Write the file of a tokenizer of byte pairs that is large; return whether it is one."""
    rules = json.loads(tokenizer.read_text(encoding="utf-8"))
    model = rules["model"]
    vocabulary, merges = model.get("vocab", {}), model.get("merges", ())
    marks = (model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    if len(vocabulary) < LEAST_PIECES or not merges or any(marks):
        return False
    in_pairs = (one.split(" ", 1) if isinstance(one, str) else one for one in merges)
    ranks = ((_pair(vocabulary[left], vocabulary[right]), rank) for rank, (left, right) in enumerate(in_pairs))
    added = {one["content"]: one["id"] for one in rules.get("added_tokens", ())}
    always = {piece: number for piece, number in vocabulary.items() if _MARK.fullmatch(piece)} | added
    if (unknown := model.get("unk_token")) is not None:
        always[unknown] = vocabulary[unknown]
    rules["model"] = {**model, "vocab": always, "merges": []}
    with replacing(out) as part, contextlib.closing(sqlite3.connect(part)) as store, store:
        store.execute("CREATE TABLE rules(content TEXT, longest INTEGER)")
        store.execute("CREATE TABLE pieces(piece TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID")
        store.execute("CREATE TABLE merges(pair INTEGER PRIMARY KEY, rank INTEGER)")
        store.execute("INSERT INTO rules VALUES (?, ?)", (json.dumps(rules), max(map(len, vocabulary))))
        store.executemany("INSERT INTO pieces VALUES (?, ?)", vocabulary.items())
        store.executemany("INSERT OR REPLACE INTO merges VALUES (?, ?)", ranks)
    return True


def small_tokenizer(path: Path, captions: Sequence[str], set_up: Callable[[Any], Any]) -> Any | None:
    """Open a tokenizer by a file of pieces that cuts these captions as the whole one does; None where it may not."""
    from tokenizers import Tokenizer

    if sum(map(len, captions)) > MOST_LETTERS or not path.is_file():
        return None
    with (
        contextlib.suppress(sqlite3.Error, EncoderError),  # of a damaged file, and of padding by a piece without a mark
        contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store,
    ):
        content, longest = store.execute("SELECT content, longest FROM rules").fetchone()
        rules = json.loads(content)
        empty, vocabulary = set_up(Tokenizer.from_str(content)), rules["model"]["vocab"]
        normalised = empty.normalizer.normalize_str if empty.normalizer else str
        texts, added = [normalised(one) for one in captions], rules.get("added_tokens", ())
        marks = [one["content"] for one in added]  # around which a caption is cut first
        marks += [normalised(one["content"]) for one in added if one.get("normalized")]
        if any(mark in text for mark in marks for text in (*captions, *texts)):
            return None
        cutter = empty.pre_tokenizer
        parts = [part for text in texts for part, _ in (cutter.pre_tokenize_str(text) if cutter else [(text, ())])]
        inside = {
            part[start:stop]
            for part in parts
            for start in range(len(part))
            for stop in range(start + 1, min(start + longest, len(part)) + 1)
        }
        asked = "SELECT {0}.* FROM json_each(?) JOIN {0} ON {1} = value"
        found = dict(store.execute(asked.format("pieces", "piece"), [json.dumps(sorted(inside))]))
        pairs = {
            _pair(found[left], found[right]): [left, right]
            for piece in found
            for left, right in ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
            if left in found and right in found
        }
        ranks = dict(store.execute(asked.format("merges", "pair"), [json.dumps(list(pairs))]))
        merges = [pairs[pair] for pair in sorted(ranks, key=ranks.__getitem__)]
        rules["model"] |= {"vocab": vocabulary | found, "merges": merges}
        return set_up(Tokenizer.from_str(json.dumps(rules)))
    return None


def _pair(left: int, right: int) -> int:
    return left << 31 | right
